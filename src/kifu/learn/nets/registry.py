"""Networks by name, and the initialization of their weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from kifu.datasets.global_inputs import check_inputs
from kifu.errors import RecipeError
from kifu.learn.nets.base import Heads, Network, NetworkConfig
from kifu.learn.nets.clark_storkey import ClarkStorkey, SymmetricConv, SymmetricLinear
from kifu.learn.nets.convolutional import BlogNetwork, BookLarge, BookMedium, BookSmall, Maddison
from kifu.learn.nets.own import find_class, import_class, is_class_name, make_checked
from kifu.learn.nets.residual import Residual
from kifu.registry import unknown


@dataclass(frozen=True, slots=True)
class Architecture:
    """A named network.

    Attributes:
        name: The name for `make_net`.
        planes: The plane set that the source uses; the network accepts any other.
        description: Details, and readings where the source is ambiguous.
        inputs: The global inputs that it requires.
    """

    name: str
    title: str
    source: str
    planes: str
    make: Callable[[NetworkConfig], Network]
    description: str
    inputs: tuple[str, ...] = ()


_BOOK = "Pumperla and Ferguson 2019, chapter 7"

_FIXED: tuple[tuple[str, str, str, str, type[Network]], ...] = (
    ("book-small", "4 convolutions and a hidden layer", _BOOK, "one-plane@1", BookSmall),
    ("book-medium", "5 convolutions and a hidden layer", _BOOK, "seven@1", BookMedium),
    ("book-large", "7 convolutions and a hidden layer", _BOOK, "seven@1", BookLarge),
    ("blog", "3 wide convolutions, 2 layers with dropout", "Trencseni 2019, a blog post", "one-plane@1", BlogNetwork),
    (
        "clark-storkey",
        "7 convolutions with the board's symmetries, one layer on the whole board",
        "Clark and Storkey 2014, arXiv:1412.3409",
        "clark8@1",
        ClarkStorkey,
    ),
    (
        "maddison",
        "12 convolutions, a bias for each point, an output for each colour to move",
        "Maddison et al. 2014, arXiv:1412.6564",
        "maddison36@2",
        Maddison,
    ),
)

NETS: dict[str, Architecture] = {
    name: Architecture(name, title, source, planes, cls, cls.__doc__ or "", ("colour",) if cls.by_colour else ())
    for name, title, source, planes, cls in _FIXED
}
"""Networks of fixed width and depth by name. Residual networks of any size are named like `RESIDUAL`."""

RESIDUAL = "b6c64"

_PLANES = "seven+last5@1"
"""Plane set of residual networks, and of networks of one's own unless another one is given."""

_RESIDUAL = re.compile(r"b([1-9]\d{0,5})c([1-9]\d{0,5})")
_MAX_BLOCKS, _CHANNELS, _MAX_WEIGHTS = 99, range(2, 1025), 1 << 28


def find_net(name: str) -> Architecture:
    """Return the network with a name, or of a class "module:Class" whose module is imported.

    Raises:
        RecipeError: The name is unknown, or the network is too large.
    """
    if name in NETS:
        return NETS[name]
    if is_class_name(name):
        return _own(name)
    match = _RESIDUAL.fullmatch(name)
    if match is None:
        raise unknown("net", name, [*NETS, RESIDUAL], " with any numbers")
    blocks, channels = int(match[1]), int(match[2])
    if blocks > _MAX_BLOCKS or channels not in _CHANNELS or 18 * blocks * channels**2 > _MAX_WEIGHTS:
        raise RecipeError(
            f"net {name!r} is too large or too small: bNcM allows at most {_MAX_BLOCKS} blocks, {_CHANNELS[0]} to"
            f" {_CHANNELS[-1]} channels and {_MAX_WEIGHTS >> 20} Mi weights"
        )
    return Architecture(
        name, "residual blocks, some of which see the whole board; bNcM has N blocks of M channels",
        "He et al. 2016, arXiv:1603.05027; Wu 2019, arXiv:1902.10565", _PLANES,
        lambda config: Residual(config, blocks, channels), Residual.__doc__ or "",
    )  # fmt: skip


def import_net(name: str) -> Architecture:
    """Return the network with a name, as `find_net` does, after importing the module of "module:Class".

    For names from recipes, the command line and programs; never for names from other files.

    Raises:
        RecipeError: As for `find_net`, or the module or its class is missing or invalid.
    """
    if is_class_name(name):
        import_class(name)
    return find_net(name)


def _own(name: str) -> Architecture:
    cls = find_class(name)
    source, inputs = f"module {cls.__module__}", ("colour",) if cls.by_colour else ()
    make = partial(make_checked, name)
    return Architecture(name, "a network of one's own", source, _PLANES, make, cls.__doc__ or "", inputs)


def make_net(
    name: str,
    planes: int,
    width: int = 19,
    height: int = 19,
    *,
    rim: int = 0,
    passes: bool = False,
    heads: Sequence[Heads] = (),
    inputs: Sequence[str] = (),
) -> Network:
    """Create a network with random weights from torch's generator.

    Args:
        name: A name as listed by `kifu nets`, or "module:Class" of an imported module.
        rim: Rows and columns by which the planes extend beyond the board on each side.
        passes: Add a pass to the policy.
        inputs: Names of global inputs (`kifu.datasets.global_inputs.INPUTS`).

    Raises:
        RecipeError: A name is unknown, the network is too large, or it does not take these inputs.
    """
    check_inputs(inputs)
    return find_net(name).make(NetworkConfig(planes, width, height, rim, passes, heads, inputs))


INITIALIZATIONS = {
    "torch": "torch's default: uniform to 1 / sqrt(fan-in), biases too",
    "glorot-uniform": "Glorot and Bengio 2010, Keras' default: uniform to sqrt(6 / (fan-in + fan-out)), biases 0",
    "he-normal": "He et al. 2015, for ReLU: normal with standard deviation sqrt(2 / fan-in), biases 0",
}
"""Names with their descriptions."""

_INITIALIZED = (nn.Conv2d, nn.Linear, SymmetricConv, SymmetricLinear)


@torch.no_grad()  # type: ignore[untyped-decorator]
def initialize(module: nn.Module, name: str) -> None:
    """Reinitialize the weights of all convolutions and linear layers in place from torch's generator.

    Parameters of norms stay as they are. "torch" changes nothing, because `make_net` already initializes that way.

    Raises:
        RecipeError: The name is unknown.
    """
    if name not in INITIALIZATIONS:
        raise unknown("init", name, INITIALIZATIONS)
    draw = {"glorot-uniform": _glorot_uniform, "he-normal": _he_normal}.get(name)
    if draw is None:
        return
    for layer in module.modules():
        if isinstance(layer, _INITIALIZED):
            draw(layer.weight, *_fans(layer))
            if layer.bias is not None:
                layer.bias.zero_()


def _glorot_uniform(weight: torch.Tensor, fan_in: int, fan_out: int) -> None:
    bound = (6 / (fan_in + fan_out)) ** 0.5
    weight.uniform_(-bound, bound)


def _he_normal(weight: torch.Tensor, fan_in: int, fan_out: int) -> None:
    weight.normal_(0, (2 / fan_in) ** 0.5)


def _fans(layer: nn.Module) -> tuple[int, int]:
    """Return fan-in and fan-out; tied weights count as often as they are used."""
    if isinstance(layer, SymmetricConv | SymmetricLinear):
        fan_in, fan_out = layer.fans
        return fan_in, fan_out
    field = layer.weight[0, 0].numel()
    return layer.weight.shape[1] * field, layer.weight.shape[0] * field
