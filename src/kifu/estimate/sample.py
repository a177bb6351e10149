"""Which parts of the sources are looked at, and how much each of them stands for.

Sources of one kind are cut into at most 12 groups of about the same size, and of each group one source is looked at,
the one in its middle; so that archives of all years are, and the number of archives does not matter.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np
import numpy.typing as npt

from kifu.corpus.catalogue import RowShard, read_shard
from kifu.corpus.sources import Content, Source
from kifu.records.sample import estimated_size, read_sample

_GROUPS = 12
"""Of one kind of sources."""

_LEAST = 64 << 10
"""Bytes that are looked at of each source that is looked at."""

_ROW_BYTES = 400
"""Of a row in a catalogue, about."""

_ROWS = 512
"""Rows that are taken at one go."""

_SCANNED = 1 << 18
"""Rows of all catalogues together that are gone through for those that are taken: to skip rows saves no time."""

UNSURE = 0.125
"""The standard error of what a single part tells of its kind, as a share: nothing beside it says how much varies."""


_NOTHING = 1e-9
"""A standard error that comes of rounding: what is known, like a catalogue's rows, is the same in all parts."""


@dataclass(frozen=True, slots=True)
class SamplePart:
    """What was looked at of one source.

    size: how much that is, in bytes of its kind, about. weight: how many times as much it stands for, at least 1.
    seconds: what reading all that it stands for takes.
    """

    source: Source
    kind: str
    items: list[Content]
    size: float
    weight: float
    seconds: float


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A container, or a unit of a catalogue, that could be looked at."""

    source: Source
    unit: RowShard | None
    kind: str
    size: int


def draw(sources: Iterable[Source], room: int) -> list[SamplePart]:
    """Looks at about `room` bytes of the sources in all, or at all of them if they are smaller.

    Raises SourceError, FormatError.
    """
    kinds: defaultdict[str, list[_Candidate]] = defaultdict(list)
    for source in sources:
        for candidate in _candidates(source):
            kinds[candidate.kind].append(candidate)
    total = sum(candidate.size for candidates in kinds.values() for candidate in candidates)
    parts = []
    for candidates in kinds.values():
        groups = list(_groups(candidates, len(candidates) if total <= room else _GROUPS))
        for chosen, size in groups:
            some = max(room * size // total, _LEAST)
            if chosen.unit is None:
                parts.append(_look(chosen, size, some))
            else:
                parts.append(_look_at_rows(chosen, chosen.unit, size, some // _ROW_BYTES, _SCANNED // len(groups)))
    return parts


def _candidates(source: Source) -> list[_Candidate]:
    if source.catalogue is not None:
        units = [unit for unit in source.catalogue.shards() if unit.rows]
        return [_Candidate(source, unit, "catalogue", unit.rows * _ROW_BYTES) for unit in units]
    name = source.path.name
    kind = "folder" if source.path.is_dir() else name[name.rfind(".") :].lower()
    return [_Candidate(source, None, kind, max(estimated_size(source.path), 1))]


def _groups(candidates: Sequence[_Candidate], most: int) -> Iterator[tuple[_Candidate, int]]:
    """The candidate in the middle of each of at most so many groups, and the size of the group."""
    ends = np.cumsum([candidate.size for candidate in candidates])
    bounds: Sequence[int] = range(len(candidates) + 1)
    if len(candidates) > most:
        cuts = np.searchsorted(ends, ends[-1] * np.arange(1, most) / most) + 1
        bounds = np.unique([0, *cuts, len(candidates)]).tolist()
    starts = np.append(0, ends)
    for first, last in pairwise(bounds):
        low, high = int(starts[first]), int(starts[last])
        yield candidates[int(np.searchsorted(ends, (low + high) / 2))], high - low


def _look(chosen: _Candidate, size: int, room: int) -> SamplePart:
    """Looks at `room` bytes of a container that stands for a group of this size."""
    seen = read_sample(chosen.source.path, room)
    times = size / chosen.size
    items: list[Content] = [*seen.blocks]
    return SamplePart(
        chosen.source, chosen.kind, items, chosen.size * seen.share, times / seen.share, seen.seconds * times
    )


def _look_at_rows(chosen: _Candidate, unit: RowShard, size: int, rows: int, scanned: int) -> SamplePart:
    """Looks at `rows` rows of a catalogue, drawn evenly from the first `scanned` ones, or more, of a unit."""
    wanted = -(-rows // _ROWS)
    until = max(min(scanned, unit.rows) // _ROWS, wanted)
    step = until // wanted
    items = list(islice(read_shard(unit, size=_ROWS), step // 2, until, step))
    share = sum(map(len, items)) / max(unit.rows, 1)
    return SamplePart(chosen.source, chosen.kind, [*items], chosen.size * share, size / chosen.size / share, 0.0)


def standard_error(parts: Sequence[SamplePart], counts: npt.NDArray[np.float64]) -> float:
    """Of the sum over all sources that is foreseen from what was counted in each part, [P], as a share of that sum.

    By how much parts of one kind differ from each other; 0 where all was looked at.
    """
    total = float(sum(part.weight * count for part, count in zip(parts, counts)))
    if not total:
        return 0.0
    variance = 0.0
    for kind in {part.kind for part in parts}:
        mine = [k for k, part in enumerate(parts) if part.kind == kind]
        density = np.array([counts[k] / parts[k].size for k in mine])
        spread = float(density.std(ddof=1)) if len(mine) > 1 else UNSURE * float(density[0])
        stands = np.array([parts[k].weight * parts[k].size for k in mine])
        left = np.array([1 - 1 / parts[k].weight for k in mine])
        variance += float((stands**2 * left).sum()) * spread**2
    error = math.sqrt(variance) / total
    return error if error > _NOTHING else 0.0
