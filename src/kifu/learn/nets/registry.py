"""Networks by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kifu.errors import RecipeError
from kifu.learn.nets.base import Heads, Network, NetworkConfig
from kifu.learn.nets.blog import Blog
from kifu.learn.nets.book import BookLarge, BookMedium, BookSmall
from kifu.learn.nets.clark_storkey import ClarkStorkey
from kifu.learn.nets.maddison import Maddison
from kifu.learn.nets.residual import Residual
from kifu.registry import nearest


@dataclass(frozen=True, slots=True)
class Architecture:
    """A network that has a name. planes: the set that its source feeds it with; it takes any other."""

    name: str
    title: str
    source: str
    planes: str
    make: Callable[[NetworkConfig], Network]
    readings: str
    """What it is and where its source leaves room, for people."""


_BOOK = "Pumperla and Ferguson 2019, chapter 7"

_PLAIN: tuple[tuple[str, str, str, str, type[Network]], ...] = (
    ("book-small", "4 convolutions and a hidden layer", _BOOK, "one-plane@1", BookSmall),
    ("book-medium", "5 convolutions and a hidden layer", _BOOK, "seven@1", BookMedium),
    ("book-large", "7 convolutions and a hidden layer", _BOOK, "seven@1", BookLarge),
    ("blog", "3 wide convolutions, 2 layers with dropout", "Trencseni 2019, a blog post", "one-plane@1", Blog),
    (
        "clark-storkey",
        "7 convolutions with the board's symmetries, one layer on the whole board",
        "Clark and Storkey 2014, arXiv:1412.3409",
        "clark8@1",
        ClarkStorkey,
    ),
    (
        "maddison",
        "12 convolutions, a bias for each point",
        "Maddison et al. 2014, arXiv:1412.6564",
        "maddison36@1",
        Maddison,
    ),
)

NETS: dict[str, Architecture] = {
    name: Architecture(name, title, source, planes, made, made.__doc__ or "")
    for name, title, source, planes, made in _PLAIN
}  # fmt: skip
"""Those that have one width and depth, by name; besides, there are residual ones of any, like `RESIDUAL`."""

RESIDUAL = "b6c64"

_RESIDUAL = re.compile(r"b([1-9]\d{0,5})c([1-9]\d{0,5})")
_MOST_BLOCKS, _CHANNELS, _MOST_WEIGHTS = 99, range(2, 1025), 1 << 28


def find_net(name: str) -> Architecture:
    """The network of that name. Raises RecipeError if there is none, or it is too large."""
    if name in NETS:
        return NETS[name]
    found = _RESIDUAL.fullmatch(name)
    if found is None:
        near = nearest(name, [*NETS, RESIDUAL])
        raise RecipeError(
            f"no net {name!r}; did you mean {near!r}? There are {', '.join(NETS)}, and {RESIDUAL} with any numbers"
        )
    blocks, channels = int(found[1]), int(found[2])
    if blocks > _MOST_BLOCKS or channels not in _CHANNELS or 18 * blocks * channels**2 > _MOST_WEIGHTS:
        raise RecipeError(
            f"net {name!r} is out of bounds: bNcM has at most {_MOST_BLOCKS} blocks, {_CHANNELS[0]} to {_CHANNELS[-1]}"
            f" channels, and {_MOST_WEIGHTS >> 20} Mi weights"
        )
    return Architecture(
        name, "residual blocks, some of which see the whole board; bNcM has N blocks of M channels",
        "He et al. 2016, arXiv:1603.05027; Wu 2019, arXiv:1902.10565", "seven+last5@1",
        lambda task: Residual(task, blocks, channels), Residual.__doc__ or "",
    )  # fmt: skip


def make_net(
    name: str,
    planes: int,
    width: int = 19,
    height: int = 19,
    *,
    rim: int = 0,
    passes: bool = False,
    heads: Sequence[Heads] = (),
) -> Network:
    """The network of that name (`kifu nets`), its weights drawn anew from torch's generator.

    planes, rim: of the plane set; width, height: of the board. Raises RecipeError for a name that there is not, and for
    a net that is too large.
    """
    return find_net(name).make(NetworkConfig(planes, width, height, rim, passes, heads))
