"""The networks: each a function of planes, made by name (`make_net`)."""

from kifu.learn.nets.base import Heads, Network, NetworkOutput
from kifu.learn.nets.registry import make_net

__all__ = ["Heads", "Network", "NetworkOutput", "make_net"]
