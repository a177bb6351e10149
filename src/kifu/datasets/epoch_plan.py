"""What a loader gives in an epoch, and in which order: decided before anything is drawn.

An epoch is a sequence of positions: units (games, or runs of rows) in an order of their own, each unit's positions one
after another. It is cut into blocks, and each block is shuffled as a whole. All of it follows from the source, the
options, the seed and the epoch.

Ranks take equal parts of that sequence. Where an epoch is gone on with by another number of them, what each of the old
ones was not given any more is a sequence again, in the order of ranks, and divided among the new ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from kifu.datasets import _order
from kifu.datasets.sources import Epoch, LoaderSource, Units
from kifu.errors import RecipeError
from kifu.registry import nearest

Shuffle = Literal["window", "global"]

_MOST = 2**31 - 1

_MOST_RANKS = 1 << 16
"""So many processes may share an epoch."""


@dataclass(frozen=True, slots=True)
class LoaderConfig:
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
        if self.world_size > _MOST_RANKS:
            raise RecipeError(f"world_size is {self.world_size:,}; it has to be {_MOST_RANKS:,} or less")
        if not 0 <= self.seed < 2**63:
            raise RecipeError(f"seed {self.seed} is not within 0 to 2**63 - 1")
        if self.shuffle is not None:
            check_word("shuffle", self.shuffle, get_args(Shuffle))
        if not 0 <= self.rank < self.world_size:
            raise RecipeError(f"rank {self.rank} is not within 0 to world_size - 1, which is {self.world_size - 1}")

    def told(self) -> dict[str, Any]:
        """What holds for a whole epoch, however many processes share it, as JSON values."""
        return {name: value for name, value in asdict(self).items() if name not in ("rank", "world_size", "batch_size")}

    def of(self, stage: WorldStage) -> LoaderConfig:
        """That of the first process of a stage. Raises RecipeError for a stage that there cannot be."""
        return replace(self, rank=0, world_size=stage.world_size, batch_size=stage.batch_size)


def check_word(name: str, word: str, known: tuple[str, ...]) -> None:
    """Raises RecipeError, with the nearest right word, if an option has a value that there is not."""
    if word not in known:
        raise RecipeError(f"no {name} {word!r}; did you mean {nearest(str(word), known)!r}?")


class WorldStage(NamedTuple):
    """Part of an epoch that one number of processes gives.

    batch_size: of each of them.  batches: so many each of them gave, or all that it had if those were fewer.
    """

    world_size: int
    batch_size: int
    batches: int


class LoaderPosition(NamedTuple):
    """Where a loader stands: before a batch of an epoch.

    before: what other numbers of processes have given of that epoch; batches are counted from there.
    """

    epoch: int
    batch: int = 0
    before: tuple[WorldStage, ...] = ()


class PlanBlock(NamedTuple):
    """Positions first to last - 1 of the epoch, shuffled as a whole; of these, entries start to stop - 1 are given."""

    first: int
    last: int
    start: int
    stop: int


class PlanPart(NamedTuple):
    """Entries start to stop - 1 of a block, which are drawn at one go. skip: how many of them were given already."""

    block: PlanBlock
    start: int
    stop: int
    skip: int


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """One epoch for one rank.

    units: [U] int32, in their order. ends: [U + 1] int64, where the positions of each begin.
    """

    order: LoaderConfig
    number: int
    epoch: Epoch
    units: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int64]
    blocks: list[PlanBlock]

    @property
    def positions(self) -> int:
        """How many examples are given."""
        return sum(block.stop - block.start for block in self.blocks)

    def shared(self, order: LoaderConfig, before: Sequence[WorldStage] = ()) -> EpochPlan:
        """Another rank's share of the same epoch. order: of other ranks, or batches of another size, and else the same.
        before: as for `make_plan`."""
        return replace(self, order=order, blocks=_blocks_of(order, int(self.ends[-1]), before))

    def entries(self, block: PlanBlock) -> npt.NDArray[np.int32]:
        """The positions of a block in the order in which they are given."""
        size = block.last - block.first
        if self.order.shuffle is None:
            return np.arange(size, dtype=np.int32)
        return _order.shuffled(_order.key_of(self.order.seed, self.number, _order.BLOCK, block.first), size)

    def parts(self, given: int, slots: int) -> Iterator[PlanPart]:
        """What is left after so many examples, at most `slots` at a time and about as many each time."""
        for block in self.blocks:
            count = -(-(block.stop - block.start) // slots)
            bounds = [block.start + (block.stop - block.start) * k // count for k in range(count + 1)]
            for start, stop in pairwise(bounds):
                if given < stop - start:
                    yield PlanPart(block, start, stop, given)
                given = max(given - (stop - start), 0)

    def units_of(self, block: PlanBlock) -> tuple[Units, npt.NDArray[np.int64]]:
        """The units that a block has positions of, and the place in it of the first position of each."""
        u = int(np.searchsorted(self.ends, block.first, side="right")) - 1
        v = int(np.searchsorted(self.ends, block.last, side="left"))
        return self.units[u:v].astype(np.int64), self.ends[u:v] - block.first


def make_plan(source: LoaderSource, order: LoaderConfig, number: int, before: Sequence[WorldStage] = ()) -> EpochPlan:
    """One rank's share of an epoch, or of what is left of it. before: what was given by other numbers of ranks.

    Raises RecipeError if there are too many positions to be shuffled as one.
    """
    epoch = source.epoch(order.seed, number, order.augment)
    count = len(epoch.counts)
    if order.shuffle is None:
        units = np.arange(count, dtype=np.int32)
    else:
        units = _order.shuffled(_order.key_of(order.seed, number, _order.UNITS), count)
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(epoch.counts[units], out=ends[1:])
    return EpochPlan(order, number, epoch, units, ends, _blocks_of(order, int(ends[-1]), before))


def _blocks_of(order: LoaderConfig, total: int, before: Sequence[WorldStage]) -> list[PlanBlock]:
    """Those of a rank, of an epoch of so many positions."""
    blocks = _whole(order, total, (*before, WorldStage(order.world_size, order.batch_size, 0))[0])
    for stage in before:
        given = stage.batches * stage.batch_size
        blocks = _taken(blocks, ((low + given, high) for low, high in _shares(total, stage.world_size)))
        total = sum(block.stop - block.start for block in blocks)
    low, high = _shares(total, order.world_size)[order.rank]
    if order.drop_last:
        high = low + _full(total, order.world_size, order.batch_size)
    return _taken(blocks, [(low, high)])


def _shares(total: int, world_size: int) -> list[tuple[int, int]]:
    """Where the part of each rank begins and ends."""
    return list(pairwise(total * rank // world_size for rank in range(world_size + 1)))


def _full(total: int, world_size: int, batch_size: int) -> int:
    """How many positions each rank can give in full batches, if all give as many."""
    return total // world_size // batch_size * batch_size


def _whole(order: LoaderConfig, total: int, first: WorldStage) -> list[PlanBlock]:
    """The blocks of a whole epoch, which are cut within the shares of those who begin it."""
    if order.shuffle == "global":
        if total > _MOST:
            raise RecipeError(f"{total:,} positions are too many for shuffle 'global'; 'window' takes them")
        return [PlanBlock(0, total, 0, total)] if total else []
    blocks = []
    for low, high in _shares(total, first.world_size):
        end = low + _full(total, first.world_size, first.batch_size) if order.drop_last else high
        count = max((end - low) // order.window, 1)
        bounds = [*(low + (end - low) * k // count for k in range(count + 1)), high]
        blocks += [PlanBlock(start, stop, 0, stop - start) for start, stop in pairwise(bounds) if start < stop]
    return blocks


def _taken(blocks: Sequence[PlanBlock], spans: Iterable[tuple[int, int]]) -> list[PlanBlock]:
    """Entries low to high - 1 of a sequence of blocks, none of which is empty, for each span in turn."""
    ends = [0, *accumulate(block.stop - block.start for block in blocks)]
    found = []
    for low, high in spans:
        k = bisect_right(ends, low) - 1
        while low < high:
            block, first, stop = blocks[k], ends[k], min(high, ends[k + 1])
            found.append(block._replace(start=block.start + low - first, stop=block.start + stop - first))
            low, k = stop, k + 1
    return found
