"""Work on archives for dat1 and dat2 files: their games are counted, or written as records, some at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from kifu.datasets.formats import Format, find_format
from kifu.errors import DropReason
from kifu.execution.executor import Item, Job, R
from kifu.execution.serialization import Parcel
from kifu.go.state import State, new_state
from kifu.planes import kgsgo
from kifu.recipes.archives import LoadedArchive, load_archive
from kifu.recipes.sampling import Selection
from kifu.records.places import AnyPath

_CHUNK_BYTES = 1 << 21
"""What a thread makes at one go: small enough to be written while it is in the processor's cache."""

_SPARE = 512
"""Moves that a chunk may well have beyond that: the last game of it ends there."""


class ArchiveGames(NamedTuple):
    """The games that a file takes of one archive, a unit of work. path, blake3: where that lies, and its hash."""

    selection: Selection
    path: AnyPath
    blake3: str

    def load(self) -> LoadedArchive:
        """The archive. Raises SourceError."""
        return load_archive(self.path, self.selection.archive)


class _ArchiveJob(Job[ArchiveGames, Item, R]):
    """What is done to some games of an archive."""

    def unit_identity(self, unit: ArchiveGames) -> Any:
        selection = unit.selection
        return [selection.archive.name, unit.blake3, blake3(selection.games.tobytes()).hexdigest()]


class CountRecords(_ArchiveJob[ArchiveGames, int]):
    """How many examples there will be, unless a move cannot be played."""

    def identity(self) -> Any:
        return None

    def items(self, unit: ArchiveGames) -> Iterator[ArchiveGames]:
        yield unit

    def make(self, item: ArchiveGames) -> int:
        archive = item.load()
        return archive.foresee(archive.rows(item.selection.games))

    def pack(self, result: int) -> Parcel:
        return {"examples": result}

    def unpack(self, parcel: Parcel) -> int:
        count: int = parcel["examples"]
        return count


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


@dataclass(frozen=True)
class WriteRecords(_ArchiveJob[RecordTask, Chunk]):
    """The records of games, archive by archive; at least one chunk of each.

    loaded: the archives of the units in their order, if they are read in advance; it does not travel.
    """

    format: str
    loaded: Iterator[LoadedArchive] | None = field(default=None, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return WriteRecords, (self.format,)

    @cached_property
    def _layout(self) -> Format:
        return find_format(self.format)

    @cached_property
    def _desks(self) -> list[_Desk]:
        """Where nothing lies."""
        return []

    def identity(self) -> Any:
        return self.format

    def items(self, unit: ArchiveGames) -> Iterator[RecordTask]:
        archive = unit.load() if self.loaded is None else next(self.loaded)
        rows = archive.rows(unit.selection.games)
        moves = np.diff(archive.games.move_offset)[rows]
        for start, stop in pairwise(_cuts(moves * self._layout.record_bytes)):
            yield RecordTask(archive, rows[start:stop])

    def make(self, item: RecordTask) -> Chunk:
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

    def pack(self, result: Chunk) -> Parcel:
        return {name: value for name, value in result._asdict().items() if name != "desk"}

    def unpack(self, parcel: Parcel) -> Chunk:
        return Chunk(**parcel, desk=None)

    def release(self, result: Chunk) -> None:
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
