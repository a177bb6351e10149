"""The archives of a recipe: found among the sources, listed as the index page lists them, read whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from kifu.datasets.dat import DatLayout, find_dat_layout
from kifu.errors import DropReason, SourceError
from kifu.execution.executor import Item, Job, R
from kifu.go.state import State, new_state
from kifu.planes import kgsgo
from kifu.planes.kgsgo_games import has_handicap, refuse
from kifu.point import POINT_MASK
from kifu.recipes.kgs_index import Archive
from kifu.recipes.sampling import Selection
from kifu.records.containers import blocks
from kifu.records.games import Bytes, GameArrays, ParseWarning, concat
from kifu.records.paths import AnyPath
from kifu.records.sgf import scan


@dataclass(frozen=True, slots=True)
class LoadedArchive:
    """One archive, read whole, with the first game of each member only, as the program of 2015 took them.

    drop: [G] uint8, why the program could not have used a game. handicap: [G] bool, whether it put up setup stones.
    names: [..] uint8, name_start, name_stop: [G] int64: the raw name of each game's member.
    """

    archive: Archive
    games: GameArrays
    drop: npt.NDArray[np.uint8]
    handicap: npt.NDArray[np.bool_]
    names: Bytes
    name_start: npt.NDArray[np.int64]
    name_stop: npt.NDArray[np.int64]

    def name(self, g: int) -> str:
        """The name of game g's member, for people."""
        raw = self.names[self.name_start[g] : self.name_stop[g]].tobytes()
        return raw.decode("utf-8", "backslashreplace")

    def rows(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where the archive's games of these numbers (from 0) are: game i is member i + 1, after the folder's entry.

        Raises SourceError if the archive does not list that many.
        """
        first = np.flatnonzero(self.games.warnings & ParseWarning.LATER_GAME == 0)
        member = self.games.member[first]
        at = np.minimum(np.searchsorted(member, numbers + 1), len(member) - 1)
        absent = numbers[member[at] != numbers + 1] if len(member) else numbers
        if len(absent):
            raise SourceError(
                f"archive {self.archive.stem} has no game as entry {absent[0] + 2}, though its name tells of "
                f"{self.archive.games:,} games (the first entry is to be their folder)"
            )
        return first[at]

    def foresee(self, rows: npt.NDArray[np.int64]) -> int:
        """How many examples the games `rows` give if all their moves can be played."""
        passes = np.concatenate(([0], np.cumsum(self.games.moves & POINT_MASK == 19 * 19, dtype=np.int32)))
        offset = self.games.move_offset
        stones = np.diff(offset - passes[offset])[rows]
        stones[~self.handicap[rows]] -= 1  # the first move, where there is one, is played but not written
        return int(np.maximum(stones, 0)[self.drop[rows] == DropReason.KEPT].sum())


def load_archive(path: AnyPath, archive: Archive) -> LoadedArchive:
    """Reads an archive whole; what stays is a few bytes a move. Raises SourceError."""
    parts: list[GameArrays] = []
    names: list[Bytes] = []
    starts: list[npt.NDArray[np.int64]] = []
    stops: list[npt.NDArray[np.int64]] = []
    base = 0
    for block in blocks(path):
        games = scan(block)
        parts.append(games)
        names.append(block.names)
        starts.append(block.name_offset[games.block_index] + base)
        stops.append(block.name_offset[games.block_index + 1] + base)
        base += len(block.names)
    if not parts:
        raise SourceError(f"{path}: no game records in this archive")
    games = concat(parts)
    return LoadedArchive(
        archive=archive,
        games=games,
        drop=refuse(games.width, games.height, games.handicap, games.warnings, games.drop),
        handicap=has_handicap(games.handicap),
        names=np.concatenate(names),
        name_start=np.concatenate(starts),
        name_stop=np.concatenate(stops),
    )


_CHUNK_BYTES = 1 << 21
"""What a thread makes at one go: small enough to be written while it is in the processor's cache."""

_SPARE = 512
"""Moves that a chunk may well have beyond that: the last game of it ends there."""


class ArchiveGames(NamedTuple):
    """The games that a file takes of one archive, a shard. path, blake3: where that lies, and its hash."""

    selection: Selection
    path: AnyPath
    blake3: str

    def load(self) -> LoadedArchive:
        """The archive. Raises SourceError."""
        return load_archive(self.path, self.selection.archive)


class _ArchiveJob(Job[ArchiveGames, Item, R]):
    """What is done to some games of an archive."""

    def shard_fingerprint(self, shard: ArchiveGames) -> Any:
        selection = shard.selection
        return [selection.archive.name, shard.blake3, blake3(selection.games.tobytes()).hexdigest()]


class CountRecords(_ArchiveJob[ArchiveGames, int]):
    """How many examples there will be, unless a move cannot be played."""

    def fingerprint(self) -> Any:
        return None

    def process(self, item: ArchiveGames) -> int:
        archive = item.load()
        return archive.foresee(archive.rows(item.selection.games))


class RecordTask(NamedTuple):
    """Some games of an archive, as rows of it."""

    archive: LoadedArchive
    rows: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Desk:
    """What a thread needs to make a chunk. Desks are few and go round, which also bounds the memory."""

    state: State
    tables: kgsgo.Tables
    records: npt.NDArray[np.uint8]
    plies: npt.NDArray[np.uint16]


class Chunk(NamedTuple):
    """The records of some games, on the desk where they were made, if that is here.

    member, drop, examples: [K], where in the archive each game is, what became of it, and how many records it has;
    names: of those that were dropped; plies: [N] uint16 and records: [N x record bytes], game after game.
    """

    member: npt.NDArray[np.int32]
    drop: npt.NDArray[np.uint8]
    examples: npt.NDArray[np.int32]
    names: list[str]
    plies: npt.NDArray[np.uint16]
    records: npt.NDArray[np.uint8]
    desk: _Desk | None

    def __reduce__(self) -> tuple[Any, ...]:
        """The desk stays in the process."""
        return Chunk, (*self[:-1], None)


@dataclass(frozen=True)
class WriteRecords(_ArchiveJob[RecordTask, Chunk]):
    """The records of games, archive by archive; at least one chunk of each.

    loaded: the archives of the shards in their order, if they are read in advance; it does not travel.
    """

    format: str
    loaded: Iterator[LoadedArchive] | None = field(default=None, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return WriteRecords, (self.format,)

    @cached_property
    def _layout(self) -> DatLayout:
        return find_dat_layout(self.format)

    @cached_property
    def _desks(self) -> list[_Desk]:
        """Where nothing lies."""
        return []

    def fingerprint(self) -> Any:
        return self.format

    def read(self, shard: ArchiveGames) -> Iterator[RecordTask]:
        archive = shard.load() if self.loaded is None else next(self.loaded)
        rows = archive.rows(shard.selection.games)
        moves = np.diff(archive.games.move_offset)[rows]
        for start, stop in pairwise(_cuts(moves * self._layout.record_bytes)):
            yield RecordTask(archive, rows[start:stop])

    def process(self, item: RecordTask) -> Chunk:
        archive, rows = item
        games, drop = archive.games, archive.drop[rows]
        usable = drop == DropReason.KEPT
        picks = rows[usable]
        why, made = np.empty(len(picks), np.uint8), np.empty(len(picks), np.int32)
        desk = self._desk(int(np.diff(games.move_offset)[rows].sum()))
        total = kgsgo.write_records(
            desk.state, games.moves, games.move_offset, games.setup, games.setup_offset, games.root_setup,
            archive.handicap, picks, kgsgo.V1 if self._layout.name == "dat1@1" else kgsgo.V2, desk.tables,
            desk.records, desk.plies, why, made,
        )  # fmt: skip
        drop[usable] = why
        examples = np.zeros(len(rows), np.int32)
        examples[usable] = made
        return Chunk(
            member=games.member[rows],
            drop=drop,
            examples=examples,
            names=[archive.name(g) for g in rows[drop != DropReason.KEPT].tolist()],
            plies=desk.plies[:total],
            records=desk.records[: total * self._layout.record_bytes],
            desk=desk,
        )

    def recycle(self, result: Chunk) -> None:
        if result.desk is not None:
            self._desks.append(result.desk)

    def _desk(self, moves: int) -> _Desk:
        """One with room for the records of so many moves."""
        try:
            desk = self._desks.pop()
        except IndexError:
            records, plies = self._room(max(moves, _CHUNK_BYTES // self._layout.record_bytes + _SPARE))
            return _Desk(new_state(19, 19), kgsgo.new_tables(), records, plies)
        if len(desk.plies) < moves:
            records, plies = self._room(moves)
            return replace(desk, records=records, plies=plies)
        return desk

    def _room(self, moves: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint16]]:
        return np.empty(moves * self._layout.record_bytes, np.uint8), np.empty(moves, np.uint16)


def _cuts(sizes: npt.NDArray[np.int64]) -> list[int]:
    """Where to cut a row of games into chunks of about _CHUNK_BYTES each, whatever the number of threads."""
    piece = np.cumsum(sizes) // _CHUNK_BYTES
    return [0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), len(sizes)]
