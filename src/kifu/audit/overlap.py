"""Which positions of two sets are the same, in bounded memory, and of which games they are."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kifu.audit.positions import PositionHashes
from kifu.audit.sets import AuditSet
from kifu.corpus._hashes import mix_words
from kifu.corpus.hashes import Hashes
from kifu.execution.bucket_sort import BucketSort, Columns
from kifu.execution.executor import Executor
from kifu.progress import Progress

Numbers = npt.NDArray[np.int64]

BANDS = (0, 10, 20, 30, 50, 100)
"""Positions are counted by stones on the board, from each of these numbers up to the next."""

LATE = BANDS.index(50)
"""From this band on, a position in two sets tells of a game: early ones are common to many, and that is no leak."""

ROWS = 1 << 23
"""Positions compared at a time, 30 bytes each: the others wait on the disk, 15 bytes each."""

_HASHES = "hashes"


@dataclass(slots=True)
class Overlap:
    """What two sets, A and B, have in common.

    distinct: [6] by BANDS: different positions that are in both. rows: [2, 6]: positions of A, and of B, that are in
    the other, each counted as often as it is there. pairs: [K], rising: a game of A and one of B that share late
    positions, as `pair_key` writes them; shared: [2, K], how many of the one's are in the other, and the reverse.
    Where several games of B share a position, only the first of them is paired with that of A, and the reverse.
    """

    distinct: Numbers = field(default_factory=lambda: np.zeros(len(BANDS), np.int64))
    rows: Numbers = field(default_factory=lambda: np.zeros((2, len(BANDS)), np.int64))
    pairs: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    shared: Numbers = field(default_factory=lambda: np.empty((2, 0), np.int64))


def pair_key(a: Numbers, b: Numbers) -> Numbers:
    """Numbers of games of two sets, -1 for one that is not known, as one number each."""
    return a + 1 << 32 | b + 1


def split_key(key: Numbers) -> tuple[Numbers, Numbers]:
    """The reverse of `pair_key`."""
    return (key >> 32) - 1, (key & 0xFFFFFFFF) - 1


@dataclass(frozen=True, slots=True)
class _Rows:
    """Positions of one set, of those compared at a time: hashes [N] uint64, band [N] uint8, game [N] int32."""

    hashes: Hashes
    band: npt.NDArray[np.uint8]
    game: npt.NDArray[np.int32]

    def __getitem__(self, chosen: npt.NDArray[np.bool_]) -> _Rows:
        return _Rows(self.hashes[chosen], self.band[chosen], self.game[chosen])


def compare(
    sets: Sequence[AuditSet], crew: Executor, bar: Progress, rows: int = ROWS
) -> tuple[list[int], dict[tuple[int, int], Overlap]]:
    """How many positions each set has, and the overlap of each pair of sets, by their numbers.

    rows: how many positions to hold at a time. More than that are compared by range of their hashes, and wait in the
    system's folder for temporary files. A single position that occurs more often than `rows` still takes its memory.
    Raises OutputError if there is no room for them.
    """
    totals = [0] * len(sets)
    overlaps = {pair: Overlap() for pair in combinations(range(len(sets)), 2)}
    with BucketSort(_HASHES, rows, Path(tempfile.gettempdir()), sum(each.foreseen for each in sets)) as ranges:
        for number, each in enumerate(sets):
            for found in each.positions(crew):
                ranges.add(_columns(found, number))
                totals[number] += len(found)
                bar.advance(len(found))
        for columns in ranges:
            _compare(_by_set(columns, len(sets)), overlaps)
    return totals, overlaps


def _columns(found: PositionHashes, number: int) -> Columns:
    """The lowest of eight hashes, as `position@1` is, is mostly a low one. Mixed they are spread evenly, and the same
    where they were the same."""
    band = np.searchsorted(BANDS[1:], found.stones, side="right").astype(np.uint8)
    of = np.full(len(found), number, np.int16)
    return {_HASHES: mix_words(found.hashes), "band": band, "game": found.game, "set": of}


def _by_set(columns: Columns, sets: int) -> list[_Rows]:
    """One entry a set. Takes the columns away, so that memory has each of them once."""
    ours = [columns["set"] == number for number in range(sets)]
    parts = ([values[chosen] for chosen in ours] for values in map(columns.pop, (_HASHES, "band", "game")))
    return [_Rows(*part) for part in zip(*parts)]


def _compare(parts: list[_Rows], overlaps: dict[tuple[int, int], Overlap]) -> None:
    """Adds what these rows, one entry a set, have in common to the overlaps."""
    own = np.concatenate([_distinct(part.hashes.copy()) for part in parts])
    own.sort()
    common = _distinct(own[1:][own[1:] == own[:-1]])
    del own
    found = [_Common.of(part, common) for part in parts]
    for (a, b), overlap in overlaps.items():
        both = found[a].there & found[b].there
        overlap.distinct += _by_band(found[a].band_of[both])
        for side, (one, other) in enumerate(((found[a], found[b]), (found[b], found[a]))):
            shared = other.there[one.at]
            overlap.rows[side] += _by_band(one.rows.band[shared])
            late = shared & (one.rows.band >= LATE)
            games = one.rows.game[late].astype(np.int64), other.first[one.at[late]].astype(np.int64)
            _add_pairs(overlap, side, pair_key(games[side], games[1 - side]))


@dataclass(frozen=True, slots=True)
class _Common:
    """Those rows of one set whose hash is one of the C common ones.

    at: [N] int64, which one. By common hash: there: [C] bool, whether it is in this set; band_of: [C] uint8, and
    first: [C] int32, the band and the first game it is of.
    """

    rows: _Rows
    at: Numbers
    there: npt.NDArray[np.bool_]
    band_of: npt.NDArray[np.uint8]
    first: npt.NDArray[np.int32]

    @classmethod
    def of(cls, part: _Rows, common: Hashes) -> _Common:
        place, hit = _find(part.hashes, common)
        at = place[hit]
        rows = part[hit]
        there = np.zeros(len(common), np.bool_)
        band_of = np.zeros(len(common), np.uint8)
        first = np.full(len(common), -1, np.int32)
        there[at], band_of[at] = True, rows.band
        first[at[::-1]] = rows.game[::-1]  # of several values for one index, the last is kept
        return cls(rows, at, there, band_of, first)


def _find(hashes: Hashes, common: Hashes) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Where each hash is among the common ones, which rise, if it is."""
    if not len(common):
        return np.zeros(len(hashes), np.int64), np.zeros(len(hashes), np.bool_)
    order = np.argsort(hashes)  # to look them up in any order takes six times as long where millions are common
    place = np.empty(len(hashes), np.int64)
    place[order] = np.minimum(np.searchsorted(common, hashes[order]), len(common) - 1)
    return place, common[place] == hashes


def _distinct(hashes: Hashes) -> Hashes:
    """The different ones, rising; sorts the array that it is given. np.unique takes eight times as long."""
    hashes.sort()
    distinct: Hashes = hashes[np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)]]
    return distinct


def _by_band(band: npt.NDArray[np.uint8]) -> Numbers:
    return np.bincount(band, minlength=len(BANDS))


def _add_pairs(overlap: Overlap, side: int, pairs: Numbers) -> None:
    """Counts pairs of games, one entry for each position of the game on that side."""
    keys, counts = np.unique(pairs, return_counts=True)
    before = overlap.pairs
    overlap.pairs = np.union1d(before, keys)
    shared = np.zeros((2, len(overlap.pairs)), np.int64)
    shared[:, np.searchsorted(overlap.pairs, before)] = overlap.shared
    shared[side, np.searchsorted(overlap.pairs, keys)] += counts
    overlap.shared = shared
