"""Positions of sets as work in units: slices of their files, which whoever takes one opens for itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.audit.positions import PositionHashes, hash_games, hash_records
from kifu.corpus.catalogue import RowShard, read_shard
from kifu.corpus.hashes import Hashes
from kifu.corpus.schema import GAME_COLUMNS, game_arrays
from kifu.datasets.dat import read_records
from kifu.datasets.examples import Batch, Layout
from kifu.datasets.formats import open as open_examples
from kifu.execution.executor import Job
from kifu.execution.serialization import Parcel
from kifu.planes.packed import DAT1, Records

Unit = TypeVar("Unit")
Item = TypeVar("Item")

_GAMES = 2048
_RECORDS = 1 << 16
_EXAMPLES = 1 << 13
"""Hashed at a time."""

SPAN = 1 << 19
"""Rows of a data set that are one unit."""


class _Hashing(Job[Unit, Item, PositionHashes]):
    """Hashes the positions of a file or folder."""

    def pack(self, result: PositionHashes) -> Parcel:
        return {"hashes": result.hashes, "stones": result.stones, "game": result.game}

    def unpack(self, parcel: Parcel) -> PositionHashes:
        return PositionHashes(**parcel)


class Slice(NamedTuple):
    """Rows of a catalogue; first: how many come before them in all of it."""

    rows: RowShard
    first: int


class HashCatalogue(_Hashing[Slice, tuple[int, pa.RecordBatch]]):
    """Game numbers count rows."""

    def items(self, unit: Slice) -> Iterator[tuple[int, pa.RecordBatch]]:
        first = unit.first
        for batch in read_shard(unit.rows, GAME_COLUMNS, _GAMES):
            yield first, batch
            first += len(batch)

    def make(self, item: tuple[int, pa.RecordBatch]) -> PositionHashes:
        first, batch = item
        found = hash_games(game_arrays(batch))
        return PositionHashes(found.hashes, found.stones, found.game + np.int32(first))


class RowSpan(NamedTuple):
    """Rows `first` to `stop` - 1 of a data set."""

    first: int
    stop: int

    def blocks(self, size: int) -> Iterator[RowSpan]:
        """The same rows, `size` at a time."""
        for first in range(self.first, self.stop, size):
            yield RowSpan(first, min(first + size, self.stop))


@dataclass(frozen=True, eq=False)
class HashDat(_Hashing[RowSpan, tuple[RowSpan, Records]]):
    """Of a dat1 or dat2 file.

    kind: its format. spans: see `Dat.spans`. stops: of each game [G] int64, the row after its last one; None if they
    are not known.
    """

    path: Path
    kind: str
    spans: tuple[tuple[int, int], ...]
    stops: npt.NDArray[np.int64] | None

    def items(self, unit: RowSpan) -> Iterator[tuple[RowSpan, Records]]:
        first = 0
        for offset, rows in self.spans:
            here = RowSpan(max(unit.first, first), min(unit.stop, first + rows))
            for some in here.blocks(_RECORDS):
                yield some, read_records(self.path, self.kind, offset, some.first - first, some.stop - first)
            first += rows

    def make(self, item: tuple[RowSpan, Records]) -> PositionHashes:
        span, records = item
        game = np.full(len(records), -1, np.int32)
        if self.stops is not None:
            game[:] = np.searchsorted(self.stops, np.arange(span.first, span.stop), side="right")
        return PositionHashes(*hash_records(records), game)


@dataclass(frozen=True, eq=False)
class HashExamples(_Hashing[RowSpan, Batch]):
    """Of any other data set, by way of records of dat1, to whose hash it makes no difference how the board lies.

    own, opp: which planes mark the stones of the side to move, and the others. ids, numbers: [G] uint64, rising, and
    int32, of the games that rows tell; none of others.
    """

    path: Path
    layout: Layout
    own: tuple[int, ...]
    opp: tuple[int, ...]
    ids: Hashes
    numbers: npt.NDArray[np.int32]

    def items(self, unit: RowSpan) -> Iterator[Batch]:
        with open_examples(self.path) as examples:
            for some in unit.blocks(_EXAMPLES):
                yield examples.read(some.first, some.stop)

    def make(self, item: Batch) -> PositionHashes:
        rim = self.layout.rim
        planes = item.unpack_planes(self.layout)[:, :, rim : rim + 19, rim : rim + 19] != 0
        records = np.zeros(len(planes), DAT1)
        records["planes"] = planes[:, self.own].any(1) | planes[:, self.opp].any(1).astype(np.uint8) << 3
        return PositionHashes(*hash_records(records), self._game_of(item))

    def _game_of(self, batch: Batch) -> npt.NDArray[np.int32]:
        if not len(self.ids):
            return np.full(len(batch), -1, np.int32)
        at = np.minimum(np.searchsorted(self.ids, batch.game), len(self.ids) - 1)
        return np.where(self.ids[at] == batch.game, self.numbers[at], np.int32(-1))
