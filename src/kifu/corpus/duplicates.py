"""Which games of a corpus are the same in all fields, the same game, or the beginning of another.

Games that belong together share their opening, so that a corpus is looked through by ranges of the hash of it. At a
time a range takes 16 bytes for each of its games, or 110 for each that shares its opening with another if that is more,
and a batch: hashes tell what could belong together, and moves are looked at as they stream by.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus import _hashes
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.hashes import OPENING_PLIES, Hashes, make_hash_state
from kifu.corpus.schema import GAME_COLUMNS, drop_code, game_arrays, map_distinct, to_numpy, with_drop
from kifu.errors import DropReason
from kifu.execution.executor import Executor, Job, ThreadExecutor
from kifu.go.replay import GamesLike

Rows = npt.NDArray[np.int64]

MIN_PLIES = 20
"""Games of fewer moves up to their last stone are never said to be the same. Among the 64,842 games of KGS that we
measure on, 2,261 pairs of equal games have 4 moves or fewer, and 40 of them the same players and date; the other four
pairs have 33 and more, and nothing lies between. But 11,699 pairs of different games share their first 20 moves, so
that among millions some that end there are bound to be equal by chance."""

RANGE_GAMES = 1 << 22
"""Games, on average, whose openings are in one range. More take more memory, fewer more passes over the corpus: each
range reads all of it."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """The K games that belong together with another one, in the order of the corpus.

    source, row: [K] int32, int64: where the game is: in which file, and which row of it.
    cluster: [K] int64: games with the same number belong together; from 0, in the order of their first games.
    relation: [K] uint8 of `DropReason`: CUT_OFF if it is the beginning of a longer one; else SAME_GAME if it equals another
        that stays; else KEPT. A cluster keeps more than one game where one is the beginning of several others.
    stays: [K] int64: the index, in these arrays, of the game that stays in its stead; its own if it is kept.
        That is the longest, then (counting passes at the end) the one of most moves, then the first.
    """

    source: npt.NDArray[np.int32]
    row: npt.NDArray[np.int64]
    cluster: npt.NDArray[np.int64]
    relation: npt.NDArray[np.uint8]
    stays: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.row)


def find_clusters(
    paths: Sequence[str | os.PathLike[str]], executor: Executor | None = None, *, games: int = RANGE_GAMES
) -> Clusters:
    """The clusters of all games of these catalogues together that are not set aside.

    `Clusters.source` counts the paths. Games are equal if their canonical hashes are, and one is the beginning of
    another if it has at least OPENING_PLIES moves up to its last stone and the hash of so many moves of the other is
    its own; of shorter beginnings nothing is said. See MIN_PLIES.

    executor: by default this thread; each of more takes a range of its own. games: see RANGE; it changes no result. Raises
    FormatError as `Catalogue.batches` does.
    """
    job = _ClusterJob(tuple(os.fspath(path) for path in paths))
    # Each is opened when its turn comes: one that was read keeps some of its bytes for as long as it is there.
    bounds = np.cumsum([0, *(open_catalogue(path).rows for path in paths)], dtype=np.int64)
    ranges = max(-(-int(bounds[-1]) // games), 1)
    return _join((executor or ThreadExecutor(1)).run(job, [_Range(k, ranges) for k in range(ranges)]), bounds)


def cluster_games(opening: Hashes, canonical: Hashes, games: GamesLike) -> Clusters:
    """The clusters of games in memory, none of which is left out; `Clusters.source` is 0.

    opening, canonical: [G] uint64, as `kifu.corpus.hashes.hash_games` gives them for these games.
    """
    rows = len(opening)
    keys = _Keys(np.arange(rows), opening, canonical, np.diff(games.move_offset))
    return _join([_find(_InMemory(keys, games), _Range(0, 1))], np.array([0, rows]))


class _Range(NamedTuple):
    """One of `ranges` equal ranges of all hashes, from 0."""

    number: int
    ranges: int

    def has(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Which of these hashes are in it."""
        low, after = ((k << 64) // self.ranges for k in (self.number, self.number + 1))
        found: npt.NDArray[np.bool_] = (hashes >= np.uint64(low)) & (hashes <= np.uint64(after - 1))
        return found


class _Keys(NamedTuple):
    """What is known of some games: row [G] int64, counted in the whole corpus; opening, canonical [G] uint64; n_moves
    [G], of any integers."""

    row: Rows
    opening: Hashes
    canonical: Hashes
    n_moves: npt.NDArray[np.integer]

    def pick(self, chosen: npt.NDArray[np.bool_]) -> _Keys:
        return _Keys(self.row[chosen], self.opening[chosen], self.canonical[chosen], self.n_moves[chosen])


class _Corpus(Protocol):
    """Games to be compared; rows are counted in the whole of it."""

    def keys(self, within: _Range) -> Iterator[_Keys]:
        """Some games at a time, in order: all that are kept and whose opening is within the range."""

    def games(self, rows: Rows) -> Iterator[tuple[int, GamesLike]]:
        """Batches that have some of these rows, which rise, each with the number of games before it."""


@dataclass(frozen=True, slots=True)
class _InMemory:
    all_keys: _Keys
    all_games: GamesLike

    def keys(self, within: _Range) -> Iterator[_Keys]:
        yield self.all_keys.pick(within.has(self.all_keys.opening))

    def games(self, rows: Rows) -> Iterator[tuple[int, GamesLike]]:
        yield 0, self.all_games


@dataclass(frozen=True, slots=True)
class _Catalogues:
    paths: tuple[str, ...]

    def keys(self, within: _Range) -> Iterator[_Keys]:
        start = 0
        for path in self.paths:
            for batch in open_catalogue(path).batches(("opening", "canonical", "n_moves", "drop")):
                row = np.arange(start, start + len(batch))
                keys = _Keys(row, *(to_numpy(batch[name]) for name in ("opening", "canonical", "n_moves")))
                kept = map_distinct(batch["drop"], drop_code, np.uint8) == DropReason.KEPT
                yield keys.pick(kept & within.has(keys.opening))
                start += len(batch)

    def games(self, rows: Rows) -> Iterator[tuple[int, GamesLike]]:
        start = 0
        for path in self.paths:
            for batch in open_catalogue(path).batches(GAME_COLUMNS):
                lo, hi = np.searchsorted(rows, (start, start + len(batch)))
                if lo < hi:
                    yield start, game_arrays(batch)
                start += len(batch)


class _Found(NamedTuple):
    """The games of a range that belong together with another one, in order; all rows are those of the whole corpus.

    row: [K] int64. first: [K] int64, the first game of its cluster. relation: [K] uint8, as in `Clusters`. stays: [K]
    int64, the game that stays in its stead.
    """

    row: Rows
    first: Rows
    relation: npt.NDArray[np.uint8]
    stays: Rows


@dataclass(frozen=True)
class _ClusterJob(Job[_Range, _Range, _Found]):
    """The clusters of some catalogues, range by range."""

    paths: tuple[str, ...]

    def fingerprint(self) -> Any:
        return [open_catalogue(path).digest() for path in self.paths]

    def shard_fingerprint(self, shard: _Range) -> Any:
        return list(shard)

    def process(self, item: _Range) -> _Found:
        return _find(_Catalogues(self.paths), item)


def _join(parts: Iterable[_Found], bounds: Rows) -> Clusters:
    """What was found in all ranges; bounds: [files + 1], the number of rows before each file."""
    row, first, relation, stays = map(np.concatenate, zip(*parts))
    order = np.argsort(row)
    row = row[order]
    source = np.searchsorted(bounds, row, side="right") - 1
    return Clusters(
        source=source.astype(np.int32),
        row=row - bounds[source],
        cluster=np.unique(first[order], return_inverse=True)[1],
        relation=relation[order],
        stays=np.searchsorted(row, stays[order]),
    )


def _find(corpus: _Corpus, within: _Range) -> _Found:
    """See `find_clusters`."""
    found = _candidates(corpus, within)
    # Games with equal hashes are one class, and the one of them that stays speaks for it.
    keys, class_of = np.unique(found.canonical, return_inverse=True)
    order = np.lexsort((-found.n_moves.astype(np.int64), class_of))
    speaker = found.row[order[np.searchsorted(class_of[order], np.arange(len(keys)))]]
    plies, longer, parent = _compare(keys, speaker, corpus)

    size = np.bincount(parent[class_of], minlength=len(keys))
    together = (plies[class_of] >= MIN_PLIES) & (size[parent[class_of]] > 1)
    row, class_of = found.row[together], class_of[together]
    last = _follow(np.where(longer < 0, np.arange(len(longer)), longer))
    stays = speaker[last[class_of]]
    relation = np.where(longer[class_of] < 0, DropReason.SAME_GAME, DropReason.CUT_OFF)
    _, first, cluster = np.unique(parent[class_of], return_index=True, return_inverse=True)
    return _Found(row, row[first][cluster], np.where(stays == row, DropReason.KEPT, relation).astype(np.uint8), stays)


def _candidates(corpus: _Corpus, within: _Range) -> _Keys:
    """The games of the range that share their opening with another."""
    none = np.empty(0, np.uint64)
    opening = np.concatenate([none, *(keys.opening for keys in corpus.keys(within))])
    opening.sort()
    shared = opening[1:][opening[1:] == opening[:-1]]
    del opening
    parts = [_Keys(np.empty(0, np.int64), none, none, np.empty(0, np.int32))]
    if len(shared):
        for keys in corpus.keys(within):
            at = np.minimum(np.searchsorted(shared, keys.opening), len(shared) - 1)
            parts.append(keys.pick(shared[at] == keys.opening))
    columns: list[Any] = [np.concatenate(column) for column in zip(*parts)]
    return _Keys(*columns)


def _compare(keys: Hashes, speaker: Rows, corpus: _Corpus) -> tuple[Rows, Rows, Rows]:
    """Looks for the beginnings among C games with the canonical hashes `keys`, rising, at the rows `speaker`.

    Returns plies, longer as `_hashes.find_beginnings` fills them; and parent, where all of one set have the same.
    """
    count = len(keys)
    plies, longer, parent = np.zeros(count, np.int64), np.full(count, -1, np.int64), np.arange(count)
    order = np.argsort(speaker)
    row = speaker[order]
    for start, games in corpus.games(row) if count else ():
        lo, hi = np.searchsorted(row, (start, start + len(games.width)))
        with np.errstate(over="ignore"):
            _hashes.find_beginnings(
                make_hash_state(games), row[lo:hi] - start, order[lo:hi], OPENING_PLIES, keys, plies, longer, parent
            )
    return plies, longer, _follow(parent)


def _follow(link: Rows) -> Rows:
    """Where each chain of links ends, which is at one that links to itself."""
    while True:
        further = link[link]
        if np.array_equal(further, link):
            return link
        link = further


MAX_IDS = 1 << 22
"""Ids that are kept in memory at a time: they take 64 MB."""


class IdSet:
    """The ids met so far, in 11 to 22 bytes each once there are many."""

    def __init__(self, most: int | None = None) -> None:
        """most: how many are kept, at most; None: all."""
        self._table = np.zeros(1 << 10, np.uint64)  # 0 is a free slot
        self._salt = _salt()
        self._used = 0
        self._zero = False
        self._most = most
        self.full = False
        """Whether no more are kept: then a new id is one that is none of those, if it was met later or not."""

    def __len__(self) -> int:
        return self._used + self._zero

    def add(self, ids: Hashes) -> npt.NDArray[np.bool_]:
        """Adds ids: [G] uint64; returns [G] bool: whether each was met for the first time, also among these.

        Adds none of them, nor any later ones, if it is full or would hold more than it may afterwards.
        """
        self.full |= self._most is not None and len(self) + len(ids) > self._most
        zero = ids == 0
        new = np.zeros(len(ids), np.bool_)
        new[~zero] = self._put(ids[~zero])
        if zero.any() and not self._zero:
            new[zero if self.full else np.argmax(zero)] = True
            self._zero = not self.full
        return new

    def _put(self, keys: Hashes) -> npt.NDArray[np.bool_]:
        size = len(self._table)
        while not self.full and 4 * (self._used + len(keys)) > 3 * size:
            size *= 2
        if size > len(self._table):
            before, self._table = self._table[self._table != 0], np.zeros(size, np.uint64)
            self._look_up(before)
        new = self._look_up(keys)
        self._used += 0 if self.full else int(new.sum())
        return new

    def _look_up(self, keys: Hashes) -> npt.NDArray[np.bool_]:
        new = np.empty(len(keys), np.bool_)
        with np.errstate(over="ignore"):
            _hashes.find_new(self._table, self._salt, keys, new, not self.full)
        return new


def _salt() -> Hashes:
    """[1] uint64 that nobody can foresee, to be mixed into ids before they are hashed."""
    return np.frombuffer(bytearray(os.urandom(8)), np.uint64)


def exact_duplicates(paths: Sequence[str | os.PathLike[str]], *, most: int = MAX_IDS) -> npt.NDArray[np.int64]:
    """The rows of these catalogues, counted through all of them, whose id an earlier one has; rising.

    Games that are set aside are none of either. most: of how many games ids are kept in memory at a time, about; for
    each so many games the ids are read once. It changes no result. Raises FormatError.
    """
    ranges = np.uint64(max(-(-sum(open_catalogue(path).rows for path in paths) // most), 1))
    salt = _salt()
    found = [np.empty(0, np.int64)]
    for number in range(int(ranges)):
        seen, start = IdSet(), 0
        for path in paths:
            for batch in open_catalogue(path).batches(("id", "drop")):
                ids = to_numpy(batch["id"])
                place = (_hashes.mix_words(ids ^ salt) >> np.uint64(32)) * ranges >> np.uint64(32)
                kept = map_distinct(batch["drop"], drop_code, np.uint8) == DropReason.KEPT
                rows = np.flatnonzero(kept & (place == number))
                found.append(start + rows[~seen.add(ids[rows])])
                start += len(batch)
    return np.sort(np.concatenate(found))


DUPLICATE_REASONS = (DropReason.DUPLICATE, DropReason.SAME_GAME, DropReason.CUT_OFF)
"""What a verdict says; other reasons have been found before."""


class DuplicateFlags(NamedTuple):
    """The K rows that are set aside. row: [K] int64, rising. drop: [K] uint8 of COPIES. of: [K] uint64, the id of the
    game that stays in its stead, which is told of those that are not equal in all fields."""

    row: npt.NDArray[np.int64]
    drop: npt.NDArray[np.uint8]
    of: npt.NDArray[np.uint64]

    def within(self, first: int, stop: int) -> DuplicateFlags:
        """What it says of some rows, which are counted from 0 then."""
        some = slice(*np.searchsorted(self.row, [first, stop]))
        return DuplicateFlags(self.row[some] - first, self.drop[some], self.of[some])

    def applied(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """The rows of a catalogue from `first` on, set aside as told."""
        some = self.within(first, first + len(batch))
        if not len(some.row):
            return batch
        drop = map_distinct(batch.column("drop"), drop_code, np.uint8)
        drop[some.row] = some.drop
        detail = batch.column("drop_detail").to_pylist()
        told = some.drop != DropReason.DUPLICATE
        for row, of in zip(some.row[told].tolist(), some.of[told].tolist()):
            detail[row] = f"of game {of:016x}"
        return with_drop(batch, drop, pa.array(detail, pa.string()))


def flag_duplicates(
    paths: Sequence[str | os.PathLike[str]], first: int, rule: str, executor: Executor
) -> DuplicateFlags:
    """What the rule `kifu.corpus.cleaning.Clean.duplicates` says of the rows of these catalogues from `first` on.

    Rows are counted through all catalogues; those of the verdict from `first`. Earlier ones stay what they are: of two
    games of which one is earlier, and either could stay, only a later one is ever set aside; if the earlier one is the
    shorter, both stay. Raises FormatError.
    """
    none = np.empty(0, np.int64)
    if rule == "keep":
        return DuplicateFlags(none, none.astype(np.uint8), none.astype(np.uint64))
    equal = exact_duplicates(paths)
    row, drop, of = equal, np.full(len(equal), DropReason.DUPLICATE, np.uint8), np.zeros(len(equal), np.uint64)
    if rule == "games":
        bounds = np.cumsum([0, *(open_catalogue(path).rows for path in paths)])
        found = find_clusters(paths, executor)
        rows = found.row + bounds[found.source]
        gone = (found.relation != DropReason.KEPT) & (rows >= first) & ~np.isin(rows, equal)
        row, drop = np.append(row, rows[gone]), np.append(drop, found.relation[gone])
        of = np.append(of, read_ids(paths, rows[found.stays[gone]]))
    order = np.argsort(row)
    return DuplicateFlags(row[order], drop[order], of[order]).within(first, np.iinfo(np.int64).max)


def read_ids(paths: Sequence[str | os.PathLike[str]], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The ids of some rows of catalogues, counted through all of them. Raises FormatError."""
    order, ids, start = np.argsort(rows), np.empty(len(rows), np.uint64), 0
    for path in paths:
        for batch in open_catalogue(path).batches(("id",)):
            some = order[slice(*np.searchsorted(rows, [start, start + len(batch)], sorter=order))]
            ids[some] = to_numpy(batch.column("id"))[rows[some] - start]
            start += len(batch)
    return ids
