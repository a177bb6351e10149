"""Leak detection: find games and positions that two data sets share. docs/audit.md explains the report.

Three things show that a game of one set is in another: its late positions occur there; both games are in one cluster
of `kifu.corpus.duplicates`, if both sets are catalogues; both were taken from the same entry of the same archive, if
both sets have manifests.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from kifu.config import STRICT, read_model
from kifu.corpus.duplicates import find_clusters
from kifu.corpus.hashes import Hashes, mix_words
from kifu.errors import RecipeError, join_lines
from kifu.execution.executor import THREADS, Executor, make_executor
from kifu.execution.range_sort import Columns, RangeSort
from kifu.leaks.positions import PositionHashes
from kifu.leaks.sets import AuditSet, CatalogueSet, GameLocation, open_set
from kifu.progress import Progress, ProgressFactory, silent
from kifu.text import json_text

Numbers = npt.NDArray[np.int64]

BANDS = (0, 10, 20, 30, 50, 100)
"""The lower bounds of the bands of stones on the board by which positions are counted."""

LATE = BANDS.index(50)
"""The first band of late positions. Unrelated games share early positions, so only late ones count as leaks."""

ROWS = 1 << 23
"""Positions compared at a time, at 30 bytes of memory each. The others wait on disk, at 15 bytes each."""

_HASHES = "hashes"
_LISTED = 10
_NO_LEAKS = "no game in two sets"
_NO_PAIRS = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class AuditedSet:
    """An audited set. games: None if the file does not record its games."""

    path: str
    kind: str
    games: int | None
    positions: int


@dataclass(frozen=True, slots=True)
class SharedGame:
    """A game that two sets share.

    Attributes:
        first: The game in the first set; None if that set does not record its games.
        second: The game in the second set, likewise.
        positions: The number of shared late positions, counted in the set that has more of them.
        cluster: Whether the games are the same, or one is the beginning of the other, directly or through other games.
        record: Whether both were taken from the same entry of the same archive.
    """

    first: GameLocation | None
    second: GameLocation | None
    positions: int
    cluster: bool
    record: bool

    def __str__(self) -> str:
        reasons = [
            *(["the same record"] if self.record else []),
            *(["the same game, or its beginning"] if self.cluster else []),
            *([f"{self.positions:,} late positions"] if self.positions else []),
        ]
        return f"{self.first or 'unknown'} = {self.second or 'unknown'}: {', '.join(reasons)}"


@dataclass(frozen=True, slots=True)
class Pair:
    """The positions and games that two sets share.

    Attributes:
        second: The path of the second set.
        distinct: By band of stones (`BANDS`), the distinct positions in both sets.
        first_rows: By band, the positions of the first set that occur in the second.
        second_rows: By band, the positions of the second set that occur in the first.
        first_games: The games of the first set that are in the second.
        second_games: The games of the second set that are in the first.
        games: The shared games, in the order of the first set.
    """

    first: str
    second: str
    distinct: tuple[int, ...]
    first_rows: tuple[int, ...]
    second_rows: tuple[int, ...]
    first_games: int
    second_games: int
    games: tuple[SharedGame, ...]

    @property
    def leaks(self) -> bool:
        """True if the sets share a game or a late position."""
        return bool(self.games) or sum(self.distinct[LATE:]) > 0


_STONES = (*((lowest, after - 1) for lowest, after in pairwise(BANDS)), (BANDS[-1], None))


class Audit(BaseModel):
    """The result of `audit`; docs/audit.md describes its JSON.

    Attributes:
        leaks: True if any two sets share a game or a late position.
        stones: The least and the largest number of stones of each band, None without a limit.
        pairs: Every two of the sets, in order.
    """

    model_config = STRICT

    leaks: bool
    stones: tuple[tuple[int, int | None], ...] = _STONES
    sets: tuple[AuditedSet, ...]
    pairs: tuple[Pair, ...]

    def __repr__(self) -> str:
        leaks = sum(pair.leaks for pair in self.pairs)
        return f"<Audit of {len(self.sets)} sets: {f'{leaks} of {len(self.pairs)} pairs leak' if leaks else _NO_LEAKS}>"

    def __str__(self) -> str:
        lines = []
        for each in self.sets:
            games = "games unknown" if each.games is None else f"{each.games:,} games"
            lines.append(f"{each.path}: {each.kind}, {games}, {each.positions:,} positions")
        for pair in self.pairs:
            lines += ["", *_pair_lines(pair)]
        if len(self.pairs) > 1:
            leaks = sum(pair.leaks for pair in self.pairs)
            lines += ["", f"{leaks} of {len(self.pairs)} pairs of sets have games in common" if leaks else _NO_LEAKS]
        return join_lines(lines)

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json_text(self.model_dump(mode="json"))


def _pair_lines(pair: Pair) -> list[str]:
    heads = [f"{lowest}-{after - 1}" for lowest, after in pairwise(BANDS)] + [f"{BANDS[-1]}+", "all"]
    rows = {
        "stones on the board": heads,
        "positions in both": _counts(pair.distinct),
        "rows of the first": _counts(pair.first_rows),
        "rows of the second": _counts(pair.second_rows),
    }
    lines = [f"{pair.first} and {pair.second}"]
    lines += [f"  {name:<20}" + "".join(f"{cell:>11}" for cell in cells) for name, cells in rows.items()]
    if not pair.leaks:
        return [*lines, f"  {_NO_LEAKS}"]
    lines.append(f"  games in both: {pair.first_games:,} of the first, {pair.second_games:,} of the second")
    lines += [f"    {game}" for game in pair.games[:_LISTED]]
    if len(pair.games) > _LISTED:
        lines.append(f"    and {len(pair.games) - _LISTED:,} more pairs of games")
    if not pair.games:
        lines.append("    unknown, since neither file records its games; late positions are in both")
    return lines


def _counts(bands: Sequence[int]) -> list[str]:
    return [f"{n:,}" for n in (*bands, sum(bands))]


def audit(
    files: Iterable[str | os.PathLike[str]],
    *,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
    rows: int = ROWS,
) -> Audit:
    """Compare every two of these files, catalogues and data sets in any mix.

    Args:
        files: At least two files or folders.
        jobs: See `kifu.execution.executor.make_executor`.
        progress: Receives the number of positions read.
        rows: See `find_overlaps`.

    Raises:
        RecipeError: For fewer than two files.
        FormatError: If a file is damaged or of an unknown format.
    """
    paths = [Path(file) for file in files]
    if len(paths) < 2:
        raise RecipeError(f"an audit needs at least 2 files, got {len(paths)}")
    sets = [open_set(path) for path in paths]
    with make_executor(engine, jobs) as executor:
        with progress("comparing positions", None, "positions") as bar:
            positions, overlaps = find_overlaps(sets, executor, bar, rows)
        clusters = _cluster_pairs(sets, executor)
    pairs = tuple(
        _make_pair(sets[a], sets[b], overlap, clusters.get((a, b), _NO_PAIRS), _record_pairs(sets[a], sets[b]))
        for (a, b), overlap in overlaps.items()
    )
    audited = tuple(AuditedSet(str(each.path), each.kind, each.games, n) for each, n in zip(sets, positions))
    return Audit(leaks=any(pair.leaks for pair in pairs), sets=audited, pairs=pairs)


def read_audit(path: str | os.PathLike[str]) -> Audit:
    """Read a file that `kifu audit --json` wrote.

    Raises:
        FormatError: It does not hold results of an audit.
    """
    return read_model(Audit, path, "results of kifu audit")


def _make_pair(first: AuditSet, second: AuditSet, overlap: Overlap, clusters: Numbers, records: Numbers) -> Pair:
    """Combine the overlap of two sets with the pairs of games (`pair_key`) found by cluster and by record."""
    keys = np.unique(np.concatenate([overlap.pairs, clusters, records]))
    keys = keys[keys != 0]  # 0: positions of games that are unknown in both sets
    late = np.zeros(len(keys), np.int64)
    late[np.searchsorted(keys, overlap.pairs[overlap.pairs != 0])] = overlap.shared.max(0)[overlap.pairs != 0]
    games = split_key(keys)
    located = []
    for each, numbers in zip((first, second), games):
        known = np.unique(numbers[numbers >= 0])
        located.append({-1: None} | dict(zip(known.tolist(), each.locate(known))))
    rows = zip(*(numbers.tolist() for numbers in games), late.tolist(), np.isin(keys, clusters), np.isin(keys, records))
    return Pair(
        first=str(first.path),
        second=str(second.path),
        distinct=tuple(overlap.distinct.tolist()),
        first_rows=tuple(overlap.rows[0].tolist()),
        second_rows=tuple(overlap.rows[1].tolist()),
        first_games=len(located[0]) - 1,
        second_games=len(located[1]) - 1,
        games=tuple(SharedGame(located[0][a], located[1][b], n, bool(c), bool(r)) for a, b, n, c, r in rows),
    )


def _cluster_pairs(sets: Sequence[AuditSet], executor: Executor) -> dict[tuple[int, int], Numbers]:
    """Return the pairs of games of two catalogues in one cluster: each game with the first such game of the other."""
    numbers = [number for number, each in enumerate(sets) if isinstance(each, CatalogueSet)]
    if len(numbers) < 2:
        return {}
    clusters = find_clusters([sets[number].path for number in numbers], executor)
    members = [np.flatnonzero(clusters.source == k) for k in range(len(numbers))]
    pairs = {}
    for b in range(len(numbers)):
        for a in range(b):
            ours, theirs = members[a], members[b]
            forth = pair_key(clusters.row[ours], _first_partner(clusters.cluster, clusters.row, ours, theirs))
            back = pair_key(_first_partner(clusters.cluster, clusters.row, theirs, ours), clusters.row[theirs])
            keys = np.unique(np.concatenate([forth, back]))
            a_game, b_game = split_key(keys)
            pairs[numbers[a], numbers[b]] = keys[(a_game >= 0) & (b_game >= 0)]
    return pairs


def _first_partner(cluster: Numbers, row: Numbers, ours: Numbers, theirs: Numbers) -> Numbers:
    """Return the row of the first of `theirs` in the cluster of each of `ours`, or -1."""
    first = np.full(int(cluster.max(initial=-1)) + 1, -1, np.int64)
    first[cluster[theirs][::-1]] = row[theirs][::-1]
    return first[cluster[ours]]


def _record_pairs(first: AuditSet, second: AuditSet) -> Numbers:
    """Return the pairs of games that were taken from the same entry of the same archive."""
    theirs = second.records
    pairs = [_NO_PAIRS]
    for archive, (entry, game) in first.records.items():
        if archive in theirs:
            other_entry, other_game = theirs[archive]
            _, at, other_at = np.intersect1d(entry, other_entry, return_indices=True)
            pairs.append(pair_key(game[at], other_game[other_at]))
    return np.concatenate(pairs)


@dataclass(slots=True)
class Overlap:
    """The positions that two sets, A and B, share.

    Attributes:
        distinct: [6] by `BANDS`, distinct positions in both sets.
        rows: [2, 6], positions of A in B and of B in A, with repetitions.
        pairs: [K] in ascending order, pairs of games (`pair_key`) that share late positions. If several games of B
            have a position, only the first of them is paired with the game of A, and vice versa.
        shared: [2, K], late positions of the game of A in B, and vice versa.
    """

    distinct: Numbers = field(default_factory=lambda: np.zeros(len(BANDS), np.int64))
    rows: Numbers = field(default_factory=lambda: np.zeros((2, len(BANDS)), np.int64))
    pairs: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    shared: Numbers = field(default_factory=lambda: np.empty((2, 0), np.int64))


def pair_key(a: Numbers, b: Numbers) -> Numbers:
    """Pack two game numbers, -1 if unknown, into one integer."""
    return a + 1 << 32 | b + 1


def split_key(key: Numbers) -> tuple[Numbers, Numbers]:
    """Return the two game numbers in a `pair_key`."""
    return (key >> 32) - 1, (key & 0xFFFFFFFF) - 1


@dataclass(frozen=True, slots=True)
class _Rows:
    """Positions of one set within a bucket: hashes [N] uint64, band [N] uint8, game [N] int32."""

    hashes: Hashes
    band: npt.NDArray[np.uint8]
    game: npt.NDArray[np.int32]

    def __getitem__(self, chosen: npt.NDArray[np.bool_]) -> _Rows:
        return _Rows(self.hashes[chosen], self.band[chosen], self.game[chosen])


def find_overlaps(
    sets: Sequence[AuditSet], executor: Executor, bar: Progress, rows: int = ROWS
) -> tuple[list[int], dict[tuple[int, int], Overlap]]:
    """Compare the positions of sets in bounded memory.

    Args:
        bar: Receives the number of positions read.
        rows: The number of positions held in memory. If there are more, they are bucketed by hash in the temporary
            directory. A single position that occurs more often than `rows` still takes its memory.

    Returns:
        The number of positions of each set, and the overlap of each pair of sets, by their indices.

    Raises:
        OutputError: If the temporary directory is full.
    """
    totals = [0] * len(sets)
    overlaps = {pair: Overlap() for pair in combinations(range(len(sets)), 2)}
    estimate = sum(each.estimated_positions for each in sets)
    with RangeSort(_HASHES, rows, Path(tempfile.gettempdir()), estimate) as buckets:
        for number, each in enumerate(sets):
            for block in each.positions(executor):
                buckets.add(_columns(block, number))
                totals[number] += len(block)
                bar.advance(len(block))
        for columns in buckets:
            _compare(_by_set(columns, len(sets)), overlaps)
    return totals, overlaps


def _columns(block: PositionHashes, number: int) -> Columns:
    """Return the columns to bucket by.

    `position@1` is a minimum of eight hashes and so mostly low; mixing spreads the values evenly over the buckets.
    """
    band = np.searchsorted(BANDS[1:], block.stones, side="right").astype(np.uint8)
    set_index = np.full(len(block), number, np.int16)
    return {_HASHES: mix_words(block.hashes), "band": band, "game": block.game, "set": set_index}


def _by_set(columns: Columns, sets: int) -> list[_Rows]:
    """Divide a bucket by set. Empties `columns`, so that each column is in memory once."""
    masks = [columns["set"] == number for number in range(sets)]
    parts = ([values[mask] for mask in masks] for values in map(columns.pop, (_HASHES, "band", "game")))
    return [_Rows(*part) for part in zip(*parts)]


def _compare(parts: list[_Rows], overlaps: dict[tuple[int, int], Overlap]) -> None:
    """Add what the sets share within a bucket to the overlaps."""
    merged = np.concatenate([_distinct(part.hashes.copy()) for part in parts])
    merged.sort()
    common = _distinct(merged[1:][merged[1:] == merged[:-1]])
    del merged
    shared_rows = [_SharedRows.select(part, common) for part in parts]
    for (a, b), overlap in overlaps.items():
        in_both = shared_rows[a].present & shared_rows[b].present
        overlap.distinct += _by_band(shared_rows[a].band_of[in_both])
        for side, (one, other) in enumerate(((shared_rows[a], shared_rows[b]), (shared_rows[b], shared_rows[a]))):
            shared = other.present[one.at]
            overlap.rows[side] += _by_band(one.rows.band[shared])
            late = shared & (one.rows.band >= LATE)
            games = one.rows.game[late].astype(np.int64), other.first[one.at[late]].astype(np.int64)
            _add_pairs(overlap, side, pair_key(games[side], games[1 - side]))


@dataclass(frozen=True, slots=True)
class _SharedRows:
    """The rows of one set whose hash is one of the C common hashes.

    Attributes:
        at: [N] int64, the index of the common hash of each.
        present: [C] bool, whether each common hash is in this set.
        band_of: [C] uint8, its band.
        first: [C] int32, the first game with it.
    """

    rows: _Rows
    at: Numbers
    present: npt.NDArray[np.bool_]
    band_of: npt.NDArray[np.uint8]
    first: npt.NDArray[np.int32]

    @classmethod
    def select(cls, part: _Rows, common: Hashes) -> _SharedRows:
        index, hit = _find(part.hashes, common)
        at = index[hit]
        rows = part[hit]
        present = np.zeros(len(common), np.bool_)
        band_of = np.zeros(len(common), np.uint8)
        first = np.full(len(common), -1, np.int32)
        present[at], band_of[at] = True, rows.band
        first[at[::-1]] = rows.game[::-1]  # of several values for one index, NumPy keeps the last
        return cls(rows, at, present, band_of, first)


def _find(hashes: Hashes, common: Hashes) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Return the index of each hash among the sorted common ones, and whether it is one of them."""
    if not len(common):
        return np.zeros(len(hashes), np.int64), np.zeros(len(hashes), np.bool_)
    order = np.argsort(hashes)  # with millions of common hashes, lookups in random order take six times as long
    index = np.empty(len(hashes), np.int64)
    index[order] = np.minimum(np.searchsorted(common, hashes[order]), len(common) - 1)
    return index, common[index] == hashes


def _distinct(hashes: Hashes) -> Hashes:
    """Return the distinct hashes in ascending order. Sorts its argument; np.unique takes eight times as long."""
    hashes.sort()
    distinct: Hashes = hashes[np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)]]
    return distinct


def _by_band(band: npt.NDArray[np.uint8]) -> Numbers:
    return np.bincount(band, minlength=len(BANDS))


def _add_pairs(overlap: Overlap, side: int, pairs: Numbers) -> None:
    """Count pairs of games, one entry for each shared late position of that side's game."""
    keys, counts = np.unique(pairs, return_counts=True)
    before = overlap.pairs
    overlap.pairs = np.union1d(before, keys)
    shared = np.zeros((2, len(overlap.pairs)), np.int64)
    shared[:, np.searchsorted(overlap.pairs, before)] = overlap.shared
    shared[side, np.searchsorted(overlap.pairs, keys)] += counts
    overlap.shared = shared
