"""Find duplicates in a corpus: rows that are equal in all fields, the same game, or the beginning of another.

Rows that are equal in all fields have equal ids. Ids take 11 to 22 bytes each in memory; to bound it, a corpus of more
than some millions of games is read in several passes, each over one range of the ids' hashes. Both kinds of ranges are
shards of a job, which an executor compares in parallel.

Games that belong together share the hash of their opening, so that they are compared within ranges of that hash. A
range takes 16 bytes for each of its games, or, if that is more, 110 for each that shares its opening with another, plus
one batch of rows: hashes give the candidates, and moves are compared as they stream by.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from blake3 import blake3

from kifu.arrays import Hashes, Indices, MoveArrays
from kifu.corpus.catalogue import number_batches, open_catalogue
from kifu.corpus.hashes import OPENING_PLIES, find_beginnings, find_new, handicap_as_setup, make_hash_state, mix_words
from kifu.corpus.schema import GAME_COLUMNS, drop_codes, game_arrays, to_numpy, with_drop
from kifu.errors import DropReason
from kifu.execution.executor import Executor

MIN_PLIES = 20
"""Games with fewer moves up to the last stone are never reported as the same.

Among 64,842 KGS games, 2,261 pairs of equal games have at most 4 moves, and 40 of them the same players and date; the
other four pairs have at least 33. But 11,699 pairs of different games share their first 20 moves, so that among
millions some that end there must be equal by chance.
"""

RANGE_GAMES = 1 << 22
"""Average number of games per range. More take more memory; fewer take more passes, each of which reads the corpus."""

MAX_IDS = 1 << 22
"""Number of ids that are kept in memory at a time: 64 MB."""

DUPLICATE_REASONS = (DropReason.DUPLICATE, DropReason.SAME_GAME, DropReason.CUT_OFF)
"""The reasons that depend on other games."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """The K games that belong together with another one, in the order of the corpus.

    Attributes:
        source: [K] int32, the index of the catalogue.
        row: [K] int64, the row in the catalogue.
        cluster: [K] int64, equal for games that belong together; from 0, in the order of the first games.
        relation: [K] uint8 of `DropReason`: CUT_OFF for the beginning of a longer game, else SAME_GAME for one that
            equals its representative, else KEPT. A cluster keeps several games if one is the beginning of them all.
        representative: [K] int64, the index, in these arrays, of the game to keep instead; a kept game's own index. It
            is the longest game, of these the one with most final passes, of these the first.
    """

    source: npt.NDArray[np.int32]
    row: Indices
    cluster: npt.NDArray[np.int64]
    relation: npt.NDArray[np.uint8]
    representative: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.row)


def find_clusters(
    paths: Sequence[str | os.PathLike[str]], executor: Executor | None = None, *, games: int = RANGE_GAMES
) -> Clusters:
    """Find the clusters among all games of several catalogues that are not dropped.

    Games are the same if their canonical hashes are equal. A game of at least OPENING_PLIES moves up to its last stone
    is the beginning of another if it has the hash of as many moves of it; shorter beginnings are not reported. See also
    MIN_PLIES.

    Args:
        executor: Compares ranges in parallel; None for this thread.
        games: See RANGE_GAMES; the result does not depend on it.
    """
    find = partial(_find, tuple(os.fspath(path) for path in paths))
    bounds = np.cumsum([0, *(open_catalogue(path).rows for path in paths)], dtype=np.int64)
    ranges = max(-(-int(bounds[-1]) // games), 1)
    return _join((executor or Executor(1)).run(find, [_HashRange(k, ranges) for k in range(ranges)]), bounds)


class _HashRange(NamedTuple):
    """Range `number` (from 0) of `ranges` equal ranges of all hashes."""

    number: int
    ranges: int

    def contains(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        low, after = ((k << 64) // self.ranges for k in (self.number, self.number + 1))
        mask: npt.NDArray[np.bool_] = (hashes >= np.uint64(low)) & (hashes <= np.uint64(after - 1))
        return mask


class _GameKeys(NamedTuple):
    """Rows (counted in the whole corpus), opening and canonical hashes, and numbers of moves of G games: [G] each."""

    row: Indices
    opening: Hashes
    canonical: Hashes
    n_moves: npt.NDArray[np.integer]

    def select(self, mask: npt.NDArray[np.bool_]) -> _GameKeys:
        return _GameKeys(self.row[mask], self.opening[mask], self.canonical[mask], self.n_moves[mask])


def _kept_keys(paths: Iterable[str], within: _HashRange) -> Iterator[_GameKeys]:
    """Yield the keys of all kept games whose opening is in the range, in order."""
    for start, batch in number_batches(paths, ("opening", "canonical", "n_moves", "drop")):
        row = np.arange(start, start + len(batch))
        keys = _GameKeys(row, *(to_numpy(batch[name]) for name in ("opening", "canonical", "n_moves")))
        yield keys.select((drop_codes(batch) == DropReason.KEPT) & within.contains(keys.opening))


def _games_with(paths: Iterable[str], rows: Indices) -> Iterator[tuple[int, MoveArrays]]:
    """Yield batches that contain any of the ascending rows, each with the number of its first row."""
    for start, batch in number_batches(paths, GAME_COLUMNS):
        low, high = np.searchsorted(rows, (start, start + len(batch)))
        if low < high:
            yield start, handicap_as_setup(game_arrays(batch))


class _RangeClusters(NamedTuple):
    """The K games of a range that belong together with another one, in order.

    row: [K] int64. first: [K] int64, the first game of the cluster. relation: [K] uint8, as in `Clusters`.
    representative: [K] int64, the game to keep instead. All are rows of the whole corpus.
    """

    row: Indices
    first: Indices
    relation: npt.NDArray[np.uint8]
    representative: Indices


def _join(parts: Iterable[_RangeClusters], bounds: Indices) -> Clusters:
    """Combine all ranges. bounds: [catalogues + 1], the number of rows before each catalogue."""
    row, first, relation, representative = map(np.concatenate, zip(*parts))
    order = np.argsort(row)
    row = row[order]
    source = np.searchsorted(bounds, row, side="right") - 1
    return Clusters(
        source=source.astype(np.int32),
        row=row - bounds[source],
        cluster=np.unique(first[order], return_inverse=True)[1],
        relation=relation[order],
        representative=np.searchsorted(row, representative[order]),
    )


def _find(paths: Sequence[str], within: _HashRange) -> _RangeClusters:
    candidates = _candidates(paths, within)
    # Games with equal hashes form a class, which is represented by the one with most moves, of these the first.
    keys, class_of = np.unique(candidates.canonical, return_inverse=True)
    order = np.lexsort((-candidates.n_moves.astype(np.int64), class_of))
    class_row = candidates.row[order[np.searchsorted(class_of[order], np.arange(len(keys)))]]
    plies, longer, parent = _compare(keys, class_row, paths)

    size = np.bincount(parent[class_of], minlength=len(keys))
    together = (plies[class_of] >= MIN_PLIES) & (size[parent[class_of]] > 1)
    row, class_of = candidates.row[together], class_of[together]
    longest = _resolve_links(np.where(longer < 0, np.arange(len(longer)), longer))
    representative = class_row[longest[class_of]]
    relation = np.where(longer[class_of] < 0, DropReason.SAME_GAME, DropReason.CUT_OFF)
    relation = np.where(representative == row, DropReason.KEPT, relation).astype(np.uint8)
    _, first, cluster = np.unique(parent[class_of], return_index=True, return_inverse=True)
    return _RangeClusters(row, row[first][cluster], relation, representative)


def _candidates(paths: Sequence[str], within: _HashRange) -> _GameKeys:
    """Return the games of the range that share their opening with another."""
    none = np.empty(0, np.uint64)
    opening = np.concatenate([none, *(keys.opening for keys in _kept_keys(paths, within))])
    opening.sort()
    shared = opening[1:][opening[1:] == opening[:-1]]
    del opening
    parts = [_GameKeys(np.empty(0, np.int64), none, none, np.empty(0, np.int32))]
    if len(shared):
        for keys in _kept_keys(paths, within):
            at = np.minimum(np.searchsorted(shared, keys.opening), len(shared) - 1)
            parts.append(keys.select(shared[at] == keys.opening))
    columns: list[Any] = [np.concatenate(column) for column in zip(*parts)]
    return _GameKeys(*columns)


def _compare(keys: Hashes, rows: Indices, paths: Sequence[str]) -> tuple[Indices, Indices, Indices]:
    """Find the beginnings among C games with the ascending canonical hashes `keys`, at `rows` of the corpus.

    Returns plies and longer as `find_beginnings` fills them, and parent, equal for all games of a cluster.
    """
    count = len(keys)
    plies, longer, parent = np.zeros(count, np.int64), np.full(count, -1, np.int64), np.arange(count)
    order = np.argsort(rows)
    row = rows[order]
    for start, games in _games_with(paths, row) if count else ():
        low, high = np.searchsorted(row, (start, start + len(games.width)))
        state = make_hash_state(games)
        with np.errstate(over="ignore"):
            find_beginnings(state, row[low:high] - start, order[low:high], OPENING_PLIES, keys, plies, longer, parent)
    return plies, longer, _resolve_links(parent)


def _resolve_links(link: Indices) -> Indices:
    """Return the end of each chain of links; the last element of a chain links to itself."""
    while True:
        further = link[link]
        if np.array_equal(further, link):
            return link
        link = further


class IdSet:
    """A set of ids, with 11 to 22 bytes each once there are many."""

    def __init__(self, max_size: int | None = None) -> None:
        self._table = np.zeros(1 << 10, np.uint64)  # 0 is a free slot
        self._salt = np.frombuffer(bytearray(os.urandom(8)), np.uint64)  # so that no crafted ids share a slot
        self._used = 0
        self._has_zero = False
        self._max_size = max_size
        self.full = False
        """True once ids have been rejected: later calls of `add` only look ids up."""

    def __len__(self) -> int:
        return self._used + self._has_zero

    def add(self, ids: Hashes) -> npt.NDArray[np.bool_]:
        """Add ids, [G] uint64, and return which are new: [G] bool; of equal new ids, only the first.

        If the set would exceed its maximum, nothing is added, now or later.
        """
        self.full |= self._max_size is not None and len(self) + len(ids) > self._max_size
        zero = ids == 0
        new = np.zeros(len(ids), np.bool_)
        new[~zero] = self._add_nonzero(ids[~zero])
        if zero.any() and not self._has_zero:
            new[zero if self.full else np.argmax(zero)] = True
            self._has_zero = not self.full
        return new

    def _add_nonzero(self, keys: Hashes) -> npt.NDArray[np.bool_]:
        size = len(self._table)
        while not self.full and 4 * (self._used + len(keys)) > 3 * size:
            size *= 2
        if size > len(self._table):
            before, self._table = self._table[self._table != 0], np.zeros(size, np.uint64)
            self._find_new(before)
        new = self._find_new(keys)
        self._used += 0 if self.full else int(new.sum())
        return new

    def _find_new(self, keys: Hashes) -> npt.NDArray[np.bool_]:
        new = np.empty(len(keys), np.bool_)
        with np.errstate(over="ignore"):
            find_new(self._table, self._salt, keys, new, not self.full)
        return new


def exact_duplicates(
    paths: Sequence[str | os.PathLike[str]], executor: Executor | None = None, *, max_ids: int = MAX_IDS
) -> Indices:
    """Return the kept rows whose id an earlier kept row has, ascending, counted through all catalogues.

    Args:
        executor: Compares ranges of the ids' hashes in parallel; None for this thread.
        max_ids: Approximate number of ids that each thread or process keeps in memory; each multiple of it takes one
            more pass over the ids. The result does not depend on it.
    """
    ranges = max(-(-sum(open_catalogue(path).rows for path in paths) // max_ids), 1)
    digests = tuple(open_catalogue(path).digest() for path in paths)
    find = partial(_find_equal_ids, tuple(os.fspath(path) for path in paths), digests)
    parts = (executor or Executor(1)).run(find, [_HashRange(k, ranges) for k in range(ranges)])
    return np.sort(np.concatenate([np.empty(0, np.int64), *parts]))


def _find_equal_ids(paths: tuple[str, ...], digests: tuple[str, ...], within: _HashRange) -> Indices:
    """Return rows with ids of earlier rows. A hash of all catalogues is mixed in: no crafted ids fall in one range."""
    salt = np.frombuffer(blake3("".join(digests).encode()).digest(8), np.uint64)
    seen, parts = IdSet(), [np.empty(0, np.int64)]
    for start, batch in number_batches(paths, ("id", "drop")):
        ids = to_numpy(batch["id"])
        kept = drop_codes(batch) == DropReason.KEPT
        rows = np.flatnonzero(kept & within.contains(mix_words(ids ^ salt)))
        parts.append(start + rows[~seen.add(ids[rows])])
    return np.concatenate(parts)


class DuplicateFlags(NamedTuple):
    """The K rows of a corpus that are duplicates.

    Attributes:
        row: [K] int64, ascending.
        drop: [K] uint8 of DUPLICATE_REASONS.
        representative_id: [K] uint64, the id of the game that is kept instead; unused for DUPLICATE.
    """

    row: Indices
    drop: npt.NDArray[np.uint8]
    representative_id: npt.NDArray[np.uint64]

    def select(self, first: int, stop: int) -> DuplicateFlags:
        """Return the flags of a range of rows, counted from its first row."""
        within = slice(*np.searchsorted(self.row, [first, stop]))
        return DuplicateFlags(self.row[within] - first, self.drop[within], self.representative_id[within])

    def apply(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """Return rows of a catalogue with the duplicates dropped."""
        flags = self.select(first, first + len(batch))
        if not len(flags.row):
            return batch
        drop = drop_codes(batch)
        drop[flags.row] = flags.drop
        detail = batch.column("drop_detail").to_pylist()
        described = flags.drop != DropReason.DUPLICATE
        for row, other in zip(flags.row[described].tolist(), flags.representative_id[described].tolist()):
            detail[row] = f"of game {other:016x}"
        return with_drop(batch, drop, pa.array(detail, pa.string()))


def flag_duplicates(
    paths: Sequence[str | os.PathLike[str]], first: int, rule: str, executor: Executor
) -> DuplicateFlags:
    """Apply the rule `kifu.corpus.cleaning.CleaningRules.duplicates` to the rows from `first` on.

    Earlier rows do not change: of two related games of which one is earlier, only the later one can be dropped. If the
    earlier one is the shorter, both are kept.

    Rows of `paths` are counted through all catalogues, those of the flags from `first`.
    """
    none = np.empty(0, np.int64)
    if rule == "keep":
        return DuplicateFlags(none, none.astype(np.uint8), none.astype(np.uint64))
    equal = exact_duplicates(paths, executor)
    row, drop, ids = equal, np.full(len(equal), DropReason.DUPLICATE, np.uint8), np.zeros(len(equal), np.uint64)
    if rule == "games":
        bounds = np.cumsum([0, *(open_catalogue(path).rows for path in paths)])
        clusters = find_clusters(paths, executor)
        rows = clusters.row + bounds[clusters.source]
        flagged = (clusters.relation != DropReason.KEPT) & (rows >= first) & ~np.isin(rows, equal)
        row, drop = np.append(row, rows[flagged]), np.append(drop, clusters.relation[flagged])
        ids = np.append(ids, read_ids(paths, rows[clusters.representative[flagged]]))
    order = np.argsort(row)
    return DuplicateFlags(row[order], drop[order], ids[order]).select(first, np.iinfo(np.int64).max)


def read_ids(paths: Sequence[str | os.PathLike[str]], rows: Indices) -> npt.NDArray[np.uint64]:
    """Return the ids of some rows, counted through all catalogues."""
    order, ids = np.argsort(rows), np.empty(len(rows), np.uint64)
    for start, batch in number_batches(paths, ("id",)):
        within = order[slice(*np.searchsorted(rows, [start, start + len(batch)], sorter=order))]
        ids[within] = to_numpy(batch.column("id"))[rows[within] - start]
    return ids
