"""Mixtures: a source whose epochs take a given share of their positions from each of several sources.

Each source is an endless sequence of positions, cycle after cycle. A cycle holds all selected positions of the source
once: its games are shuffled, and the positions of a game stay together. Epoch e of a mixture takes n positions of the
sequence, from number e * n on, so that an epoch continues where the previous one stopped. Cycle p of a source selects
positions and symmetries as epoch p of the source does, with a seed of its own.

Within an epoch, the games of the sources are merged by the share of their source that precedes their middle position.
So each part of an epoch holds each source in nearly the same proportion (docs/loader.md states the bound).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from kifu.datasets.epoch_plan import SOURCE, UNIT_ORDER, EpochSelection, hash_key, permutation
from kifu.datasets.examples import Batch
from kifu.datasets.sources import LoaderSource, Slots, SourcePart, Units
from kifu.errors import RecipeError
from kifu.kernel import kernel
from kifu.records.paths import Paths, as_list, as_path

MAX_CYCLES = 1000
"""Maximum number of cycles of a source that an epoch may begin."""

_MAX_EPOCH = 2**40


@dataclass(frozen=True, slots=True)
class Mixture:
    """Sources of a loader and their proportions; see `kifu.load`.

    Attributes:
        proportions: By source, its share of each epoch relative to that of the others, a number > 0. A source is a
            path, or a tuple of paths.
        positions: Positions of an epoch; each source's part is rounded up. By default an epoch is as long as it can be
            without taking more positions from a source than it has.
    """

    proportions: Mapping[Any, float]
    positions: int | None = None

    def __post_init__(self) -> None:
        """Raise RecipeError for invalid values, and SourceError for empty paths."""
        if not self.proportions:
            raise RecipeError("a mixture requires at least one source, got none")
        seen: dict[str, str] = {}
        for source, value in self.proportions.items():
            for path in as_list(source):
                key = os.path.realpath(path) if isinstance(as_path(path), Path) else os.fspath(path)
                if key in seen:
                    raise RecipeError(f"a mixture contains {as_path(path)} twice, also as {seen[key]}")
                seen[key] = str(as_path(path))
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not (number and value > 0 and math.isfinite(value)):
                raise RecipeError(f"the proportion of {source_name(source)} must be a number > 0, got {value!r}")
        if self.positions is not None and not 1 <= self.positions <= _MAX_EPOCH:
            raise RecipeError(f"positions of an epoch must be within 1 to 2**40, got {self.positions}")

    @property
    def weights(self) -> list[Fraction]:
        """The proportions as exact decimal numbers."""
        return [Fraction(str(value)) for value in self.proportions.values()]


def source_name(source: Paths) -> str:
    """Return the display name of a source: its paths without credentials."""
    return ", ".join(str(as_path(path)) for path in as_list(source))


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureSelection(EpochSelection):
    """The positions of a mixture in one epoch; units are consecutive games, or runs of rows, in their final order.

    Attributes:
        cycles: The parts of the epoch: each is a source in one of its cycles.
        part: [U] int32, index of each unit's part.
        unit: [U] int32, the unit of that source.
        low: [U] int32, number of positions of that unit which do not belong to the epoch, but to the previous one.
    """

    cycles: tuple[SourcePart, ...]
    part: npt.NDArray[np.int32]
    unit: npt.NDArray[np.int32]
    low: npt.NDArray[np.int32]
    ordered: bool = field(default=True, init=False)


@dataclass(frozen=True, slots=True)
class _Cycle:
    """A cycle of a source: its non-empty units in order, and the end of each in the cycle, [U + 1] int64."""

    part: SourcePart
    units: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Consecutive positions of a cycle: units in order, [U], and their numbers of positions before and in the piece."""

    part: SourcePart
    units: npt.NDArray[np.int32]
    low: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]


class _Stream:
    """The endless sequence of positions of a source. The cycles of the last epoch stay in memory."""

    def __init__(self, name: str, index: int, source: LoaderSource) -> None:
        self.source, self._name, self._index = source, name, index
        self._cycles: dict[tuple[int, int, bool], _Cycle] = {}
        self._sizes: dict[int, int] = {}

    def size(self, seed: int, augment: bool) -> int:
        """Return the number of positions of the first cycle. Raises RecipeError if there are none."""
        if seed not in self._sizes:
            self._sizes[seed] = int(self._cycle(seed, 0, augment).ends[-1])
        if not self._sizes[seed]:
            raise RecipeError(f"the filter selects no position of {self._name}")
        return self._sizes[seed]

    def _cycle(self, seed: int, number: int, augment: bool) -> _Cycle:
        """Return a cycle, a pure function of the source and the arguments."""
        key = (seed, number, augment)
        if key not in self._cycles:
            own = int(hash_key(seed, self._index, SOURCE)[0])
            selection = self.source.select(own, number, augment)
            units = permutation(hash_key(own, number, UNIT_ORDER), len(selection.counts))
            units = units[selection.counts[units] > 0]
            ends = np.zeros(len(units) + 1, np.int64)
            np.cumsum(selection.counts[units], out=ends[1:])
            self._cycles[key] = _Cycle(SourcePart(self._index, self.source, selection), units, ends)
        return self._cycles[key]

    def pieces(self, seed: int, start: int, count: int, augment: bool) -> list[_Piece]:
        """Return `count` positions from number `start` on; all cycles count as many positions as the first one.

        If cycles differ in size, because positions are drawn at random, the first piece begins after the same share of
        its cycle.
        """
        size = self.size(seed, augment)
        number, begin = divmod(start, size)
        used: dict[tuple[int, int, bool], _Cycle] = {}
        pieces = []
        while count:
            if len(used) == MAX_CYCLES:
                raise RecipeError(
                    f"an epoch of the mixture repeats {self._name}, which has {size:,} positions,"
                    f" more than {MAX_CYCLES:,} times"
                )
            one = used[seed, number, augment] = self._cycle(seed, number, augment)
            total = int(one.ends[-1])
            low = begin * total // size
            high = min(low + count, total)
            if low < high:
                pieces.append(_cut(one, low, high))
                count -= high - low
            number, begin = number + 1, 0
        self._cycles = used
        return pieces


def _cut(one: _Cycle, low: int, high: int) -> _Piece:
    """Return positions low to high - 1 of a cycle, at least one."""
    u = int(np.searchsorted(one.ends, low, side="right")) - 1
    v = int(np.searchsorted(one.ends, high, side="left"))
    starts = np.maximum(one.ends[u:v], low)
    counts = np.minimum(one.ends[u + 1 : v + 1], high) - starts
    return _Piece(one.part, one.units[u:v], (starts - one.ends[u:v]).astype(np.int32), counts)


@kernel
def select_part(  # noqa: PLR0913 - kernel
    units: Any, first: Any, slot_of: Any, counts: Any, part: Any, unit: Any, low: Any, wanted: Any, sizes: Any,
    own_units: Any, own_slots: Any,
) -> Any:  # fmt: skip
    """List the units of one part among consecutive units of a block of a mixture, and the slots of their positions.

    Args:
        units: [K] int64, units of the mixture; for first and slot_of see `kifu.datasets.sources.fill_slots`.
        counts: [U], number of positions of each unit of the mixture; for part, unit and low see `MixtureSelection`.
        sizes: Number of positions of each unit of the part's source.
        own_units: [K], receives the units of the source.
        own_slots: Receives the slot of each of their positions, or -1; large enough for all.

    Returns:
        The number of units, and the number of their positions.
    """
    q, n, end = first, 0, 0
    for k in range(units.shape[0]):
        u = units[k]
        if part[u] == wanted:
            size = sizes[unit[u]]
            for i in range(size):
                own_slots[end + i] = -1
            for i in range(counts[u]):
                if 0 <= q + i < slot_of.shape[0]:
                    own_slots[end + low[u] + i] = slot_of[q + i]
            own_units[n] = unit[u]
            n, end = n + 1, end + size
        q += counts[u]
    return n, end


class MixtureSource(LoaderSource):
    """A mixture of sources with equal layouts."""

    def __init__(self, mixture: Mixture, sources: Sequence[LoaderSource]) -> None:
        """Combine sources, opened in the order of the mixture. Raises RecipeError if the layouts differ."""
        self._mixture, self._sources = mixture, sources
        self.layout, names = sources[0].layout, list(map(source_name, mixture.proportions))
        # URLs can be equal without their credentials.
        self.names = tuple(f"{name} ({k})" if names.count(name) > 1 else name for k, name in enumerate(names, 1))
        for name, source in zip(self.names, sources):
            if source.layout != self.layout:
                raise RecipeError(f"{name} has other planes or labels than {self.names[0]}")
        self._streams = [_Stream(name, k, source) for k, (name, source) in enumerate(zip(self.names, sources))]

    def __reduce__(self) -> tuple[Any, ...]:
        return MixtureSource, (self._mixture, self._sources)

    def fingerprint(self) -> dict[str, Any]:
        """Return a hash of the sources, their proportions, and the rules of the filter."""
        parts = [source.fingerprint() for source in self._sources]
        digest = blake3("".join(part["source"] for part in parts).encode())
        proportions = {"proportions": list(map(str, self._mixture.weights)), "positions": self._mixture.positions}
        return parts[0] | {"source": digest.hexdigest(16)} | proportions

    def counts(self, seed: int, augment: bool) -> list[int]:
        """Return the number of positions of each source in an epoch. Raises RecipeError if a source is empty."""
        weights, sizes = self._mixture.weights, [stream.size(seed, augment) for stream in self._streams]
        if self._mixture.positions is None:
            scale = min(Fraction(size) / weight for size, weight in zip(sizes, weights))
        else:
            scale = Fraction(self._mixture.positions) / sum(weights)
        return [math.ceil(scale * weight) for weight in weights]

    def select(self, seed: int, epoch: int, augment: bool) -> MixtureSelection:
        """Return the positions of an epoch; see `LoaderSource.select`."""
        counts = self.counts(seed, augment)
        drawn = [stream.pieces(seed, epoch * n, n, augment) for stream, n in zip(self._streams, counts)]
        pieces = list(chain.from_iterable(drawn))
        sizes = [np.concatenate([piece.counts for piece in each]) for each in drawn]
        middles = [(2 * np.cumsum(size) - size) / (2 * n) for size, n in zip(sizes, counts)]
        order = np.argsort(np.concatenate(middles), kind="stable")
        part = np.repeat(np.arange(len(pieces), dtype=np.int32), [len(piece.units) for piece in pieces])
        return MixtureSelection(
            np.concatenate(sizes)[order],
            np.empty(0, np.uint8),
            None,
            cycles=tuple(piece.part for piece in pieces),
            part=part[order],
            unit=np.concatenate([piece.units for piece in pieces])[order],
            low=np.concatenate([piece.low for piece in pieces])[order],
        )

    def cost(self, selection: EpochSelection, units: Units) -> Units:
        """Return the work for each unit; see `LoaderSource.cost`."""
        assert isinstance(selection, MixtureSelection)
        cost, parts = np.empty(len(units), np.int64), selection.part[units]
        for k in np.unique(parts).tolist():
            mine, part = parts == k, selection.cycles[k]
            cost[mine] = part.source.cost(part.selection, selection.unit[units[mine]].astype(np.int64))
        return cost

    def parts(self, selection: EpochSelection) -> Sequence[SourcePart]:
        """Return the sources and their cycles; see `LoaderSource.parts`."""
        assert isinstance(selection, MixtureSelection)
        return selection.cycles

    def split(
        self, selection: EpochSelection, units: Units, first: int, slot_of: Slots
    ) -> Iterator[tuple[int, Units, int, Slots]]:
        """Yield the parts of consecutive units; see `LoaderSource.split`."""
        assert isinstance(selection, MixtureSelection)
        parts = selection.part[units]
        for k in np.unique(parts).tolist():
            sizes = selection.cycles[k].selection.counts
            own_units = np.empty(len(units), np.int64)
            own_slots = np.empty(int(sizes[selection.unit[units[parts == k]]].sum()), np.int32)
            n, _ = select_part(
                units, first, slot_of, selection.counts, selection.part, selection.unit, selection.low, k, sizes,
                own_units, own_slots,
            )  # fmt: skip
            yield k, own_units[:n], 0, own_slots

    def render(self, selection: EpochSelection, units: Units, first: int, slot_of: Slots, out: Batch) -> None:
        """Render positions; see `LoaderSource.render`."""
        parts = self.parts(selection)
        for k, own_units, start, own_slots in self.split(selection, units, first, slot_of):
            parts[k].source.render(parts[k].selection, own_units, start, own_slots, out)

    def new_buffer(self, slots: int) -> Batch:
        """Return arrays that each of the sources can render to; see `LoaderSource.new_buffer`."""
        buffers = [source.new_buffer(slots) for source in self._sources]
        return replace(buffers[0], labels=dict(chain.from_iterable(buffer.labels.items() for buffer in buffers)))
