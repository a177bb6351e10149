"""What a loader gives in an epoch, and in which order: decided before anything is drawn.

An epoch is a sequence of positions: units (games, or runs of rows) in an order of their own, each unit's positions one
after another. It is cut into blocks, and each block is shuffled as a whole. All of it follows from the source, the
options, the seed and the epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from kifu.datasets import _order
from kifu.datasets.sources import Epoch, Source, Units
from kifu.errors import RecipeError
from kifu.versions import nearest

Shuffle = Literal["window", "global"]

_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Order:
    """What the order of the examples follows from, beside the source and the epoch; see `kifu.load`."""

    batch_size: int
    seed: int
    shuffle: Shuffle | None
    window: int
    augment: bool
    rank: int
    world_size: int
    drop_last: bool

    def __post_init__(self) -> None:
        """Raises RecipeError for values that make no sense."""
        for name in ("batch_size", "window", "world_size"):
            if getattr(self, name) < 1:
                raise RecipeError(f"{name} is {getattr(self, name)}; it has to be 1 or more")
        if not 0 <= self.seed < 2**63:
            raise RecipeError(f"seed {self.seed} is not within 0 to 2**63 - 1")
        if self.shuffle is not None:
            check_word("shuffle", self.shuffle, get_args(Shuffle))
        if not 0 <= self.rank < self.world_size:
            raise RecipeError(f"rank {self.rank} is not within 0 to world_size - 1, which is {self.world_size - 1}")


def check_word(name: str, word: str, known: tuple[str, ...]) -> None:
    """Raises RecipeError, with the nearest right word, if an option has a value that there is not."""
    if word not in known:
        raise RecipeError(f"no {name} {word!r}; did you mean {nearest(str(word), known)!r}?")


class Block(NamedTuple):
    """Positions first to last - 1 of the epoch, shuffled as a whole; of these, entries start to stop - 1 are given."""

    first: int
    last: int
    start: int
    stop: int


class Part(NamedTuple):
    """Entries start to stop - 1 of a block, which are drawn at one go. skip: how many of them were given already."""

    block: Block
    start: int
    stop: int
    skip: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One epoch for one rank. units: in their order. ends: [U + 1] int64, where the positions of each begin."""

    order: Order
    number: int
    epoch: Epoch
    units: Units
    ends: npt.NDArray[np.int64]
    blocks: list[Block]

    @property
    def positions(self) -> int:
        """How many examples are given."""
        return sum(block.stop - block.start for block in self.blocks)

    def entries(self, block: Block) -> npt.NDArray[np.int32]:
        """The positions of a block in the order in which they are given."""
        size = block.last - block.first
        if self.order.shuffle is None:
            return np.arange(size, dtype=np.int32)
        return _order.shuffled(_order.key_of(self.order.seed, self.number, _order.BLOCK, block.first), size)

    def parts(self, given: int, slots: int) -> Iterator[Part]:
        """What is left after so many examples, at most `slots` at a time and about as many each time."""
        for block in self.blocks:
            count = -(-(block.stop - block.start) // slots)
            bounds = [block.start + (block.stop - block.start) * k // count for k in range(count + 1)]
            for start, stop in pairwise(bounds):
                if given < stop - start:
                    yield Part(block, start, stop, given)
                given = max(given - (stop - start), 0)

    def units_of(self, block: Block) -> tuple[Units, npt.NDArray[np.int64]]:
        """The units that a block has positions of, and the place in it of the first position of each."""
        u = int(np.searchsorted(self.ends, block.first, side="right")) - 1
        v = int(np.searchsorted(self.ends, block.last, side="left"))
        return self.units[u:v], self.ends[u:v] - block.first


def make_plan(source: Source, order: Order, number: int) -> Plan:
    """Raises RecipeError if there are too many positions to be shuffled as one."""
    epoch = source.epoch(order.seed, number, order.augment)
    units = np.arange(len(epoch.counts), dtype=np.int64)
    if order.shuffle is not None:
        units = _order.shuffled(_order.key_of(order.seed, number, _order.UNITS), len(units)).astype(np.int64)
    ends = np.zeros(len(units) + 1, np.int64)
    np.cumsum(epoch.counts[units], out=ends[1:])
    total = int(ends[-1])
    low, high = (total * rank // order.world_size for rank in (order.rank, order.rank + 1))
    if order.drop_last:
        high = low + total // order.world_size // order.batch_size * order.batch_size
    if order.shuffle == "global":
        if total > _MOST:
            raise RecipeError(f"{total:,} positions are too many for shuffle 'global'; 'window' takes them")
        blocks = [Block(0, total, low, high)]
    else:
        count = max((high - low) // order.window, 1)
        bounds = [low + (high - low) * k // count for k in range(count + 1)]
        blocks = [Block(first, last, 0, last - first) for first, last in pairwise(bounds)]
    return Plan(order, number, epoch, units, ends, [block for block in blocks if block.stop > block.start])
