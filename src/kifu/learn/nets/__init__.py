"""Neural networks, created by name with `make_net`."""

from kifu.learn.nets.base import Heads, Network, NetworkConfig, NetworkOutput
from kifu.learn.nets.registry import make_net

__all__ = ["Heads", "Network", "NetworkConfig", "NetworkOutput", "make_net"]
