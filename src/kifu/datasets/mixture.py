"""Mixtures: a source whose epochs take a given share of their positions from each of several sources.

An epoch takes the first positions of the epoch of that number of each source, under a seed of its own. The games of the
sources are merged by the share of their source that precedes their middle position. So each part of an epoch holds each
source in nearly the same proportion (docs/loader.md states the bound).
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
from blake3 import blake3

from kifu.arrays import Indices, Ints
from kifu.datasets.epoch_plan import SOURCE, UNIT_ORDER, EpochSelection, hash_key, permutation
from kifu.datasets.examples import Batch
from kifu.datasets.sources import LoaderSource, Slots
from kifu.errors import RecipeError
from kifu.kernel import kernel
from kifu.records.paths import Paths, as_list, as_path

_MAX_EPOCH = 2**40


@dataclass(frozen=True, slots=True)
class Mixture:
    """Sources of a loader and their proportions; see `kifu.load`.

    Attributes:
        proportions: By source, its share of each epoch relative to that of the others, a number > 0. A source is a
            path, or a tuple of paths.
        positions: Positions of an epoch; each source's part is rounded up. By default, and at most, an epoch is as long
            as it can be without taking more positions from a source than it has.
    """

    proportions: Mapping[Any, float]
    positions: int | None = None

    def __post_init__(self) -> None:
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
        part: [U] int32, index of each unit's source.
        unit: [U] int32, the unit of that source. Of the last one of a source, only the first positions may belong to
            the epoch.
    """

    parts: tuple[EpochSelection, ...]
    part: Ints
    unit: Ints
    ordered: bool = field(default=True, init=False)


@kernel
def select_part(  # noqa: PLR0913 - kernel
    units: Any, first: Any, slot_of: Any, counts: Any, part: Any, unit: Any, wanted: Any, sizes: Any,
    own_units: Any, own_slots: Any,
) -> Any:  # fmt: skip
    """List the units of one part among consecutive units of a block of a mixture, and the slots of their positions.

    Args:
        units: [K] int64, units of the mixture; for first and slot_of see `kifu.datasets.sources.list_positions`.
        counts: [U], number of positions of each unit of the mixture; for part and unit see `MixtureSelection`.
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
                    own_slots[end + i] = slot_of[q + i]
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

    def __reduce__(self) -> tuple[Any, ...]:
        return MixtureSource, (self._mixture, self._sources)

    def fingerprint(self) -> dict[str, Any]:
        """Return a hash of the sources, their proportions, and the rules of the filter."""
        parts = [source.fingerprint() for source in self._sources]
        digest = blake3("".join(part["source"] for part in parts).encode())
        proportions = {"proportions": list(map(str, self._mixture.weights)), "positions": self._mixture.positions}
        return parts[0] | {"source": digest.hexdigest(16)} | proportions

    def select(self, seed: int, epoch: int, augment: bool) -> MixtureSelection:
        """Return the positions of an epoch; see `LoaderSource.select`. Raises RecipeError if a source has too few."""
        seeds = [int(hash_key(seed, k, SOURCE)[0]) for k in range(len(self._sources))]
        parts = [source.select(own, epoch, augment) for source, own in zip(self._sources, seeds)]
        drawn = []
        for part, own, n in zip(parts, seeds, self._shares(parts)):
            units = permutation(hash_key(own, epoch, UNIT_ORDER), len(part.counts))
            units = units[part.counts[units] > 0]
            ends = np.cumsum(part.counts[units], dtype=np.int64)
            units = units[: int(np.searchsorted(ends, n)) + 1]
            sizes = part.counts[units].astype(np.int64)
            sizes[-1] -= ends[len(units) - 1] - n
            drawn.append((units, sizes, (2 * np.cumsum(sizes) - sizes) / (2 * n)))
        units, sizes, middles = map(np.concatenate, zip(*drawn))
        order = np.argsort(middles, kind="stable")
        source = np.repeat(np.arange(len(parts), dtype=np.int32), [len(each[0]) for each in drawn])
        no_bits = np.empty(0, np.uint8)
        return MixtureSelection(sizes[order], no_bits, None, parts=tuple(parts), part=source[order], unit=units[order])

    def _shares(self, parts: Sequence[EpochSelection]) -> list[int]:
        """Return the number of positions of each source in an epoch, at least 1."""
        weights, sizes = self._mixture.weights, [int(part.counts.sum()) for part in parts]
        for name, size in zip(self.names, sizes):
            if not size:
                raise RecipeError(f"the filter selects no position of {name}")
        scale = min(Fraction(size) / weight for size, weight in zip(sizes, weights))
        if self._mixture.positions is not None:
            asked = Fraction(self._mixture.positions) / sum(weights)
            for name, size, weight in zip(self.names, sizes, weights):
                needed = math.ceil(asked * weight)
                if needed > size:
                    raise RecipeError(f"an epoch needs {needed:,} positions of {name}, which has {size:,}")
            scale = asked
        return [math.ceil(scale * weight) for weight in weights]

    def cost(self, selection: EpochSelection, units: Indices) -> Indices:
        """Return the work for each unit; see `LoaderSource.cost`."""
        assert isinstance(selection, MixtureSelection)
        cost, parts = np.empty(len(units), np.int64), selection.part[units]
        for k in np.unique(parts).tolist():
            mine = parts == k
            cost[mine] = self._sources[k].cost(selection.parts[k], selection.unit[units[mine]].astype(np.int64))
        return cost

    def parts(self, selection: EpochSelection) -> Sequence[tuple[LoaderSource, EpochSelection]]:
        """Return the sources and their selections; see `LoaderSource.parts`."""
        assert isinstance(selection, MixtureSelection)
        return list(zip(self._sources, selection.parts))

    def split(
        self, selection: EpochSelection, units: Indices, first: int, slot_of: Slots
    ) -> Iterator[tuple[int, Indices, int, Slots]]:
        """Yield the parts of consecutive units; see `LoaderSource.split`."""
        assert isinstance(selection, MixtureSelection)
        parts = selection.part[units]
        for k in np.unique(parts).tolist():
            sizes = selection.parts[k].counts
            own_units = np.empty(len(units), np.int64)
            own_slots = np.empty(int(sizes[selection.unit[units[parts == k]]].sum()), np.int32)
            n, _ = select_part(
                units, first, slot_of, selection.counts, selection.part, selection.unit, k, sizes,
                own_units, own_slots,
            )  # fmt: skip
            yield k, own_units[:n], 0, own_slots

    def render(self, selection: EpochSelection, units: Indices, first: int, slot_of: Slots, out: Batch) -> None:
        """Render positions; see `LoaderSource.render`."""
        parts = self.parts(selection)
        for k, own_units, start, own_slots in self.split(selection, units, first, slot_of):
            source, own = parts[k]
            source.render(own, own_units, start, own_slots, out)

    def new_buffer(self, slots: int) -> Batch:
        """Return arrays that each of the sources can render to; see `LoaderSource.new_buffer`."""
        buffers = [source.new_buffer(slots) for source in self._sources]
        return replace(buffers[0], labels=dict(chain.from_iterable(buffer.labels.items() for buffer in buffers)))
