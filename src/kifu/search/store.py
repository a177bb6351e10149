"""The games of a catalogue as searches need them: decoded once and kept in memory, or streamed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.arrays import MoveArrays
from kifu.corpus.catalogue import Catalogue, RowShard, open_partition, read_shard
from kifu.corpus.parquet import group_rows
from kifu.corpus.schema import PLAYED_COLUMNS, move_arrays
from kifu.search.continuations import INFO_COLUMNS, GameInfo, game_info
from kifu.search.index import SearchIndex
from kifu.search.traces import Traces, trace_games

MAX_CACHED = 200 << 20
"""Bytes of games that are kept in memory."""

_BATCH = 8192
"""Games that are searched at a time."""


class GameBatch(NamedTuple):
    """Consecutive games of a catalogue."""

    first: int  # the row of the first game in the catalogue
    games: MoveArrays
    kept: npt.NDArray[np.bool_]  # [G]: False for dropped games, which are not searched
    traces: Traces
    info: GameInfo


class RowGroup(NamedTuple):
    """A row group of a catalogue."""

    part: int  # the number of the Parquet file
    shard: RowShard
    start: int  # the first row in the catalogue

    @property
    def stop(self) -> int:
        """The row in the catalogue after the last one."""
        return self.start + self.shard.rows


def row_groups(catalogue: Catalogue) -> list[RowGroup]:
    """Return the row groups of all files, in order. Raises FormatError if one is no catalogue, or has changed."""
    groups, start = [], 0
    for part, (path, rows) in enumerate(catalogue.partitions.items()):
        first = 0
        for count in group_rows(open_partition(path, rows)):
            groups.append(RowGroup(part, RowShard(str(path), first, count), start + first))
            first += count
        start += rows
    return groups


def take_rows(
    groups: Sequence[RowGroup], rows: npt.NDArray[np.int64], columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield rows [R] int64, ascending, of a catalogue; other row groups are skipped. columns: `Catalogue.batches`."""
    for group in groups:
        start, inside = group.start, rows[slice(*np.searchsorted(rows, [group.start, group.stop]))]
        for batch in read_shard(group.shard, columns) if len(inside) else ():
            mask = np.zeros(len(batch), np.bool_)
            mask[inside[slice(*np.searchsorted(inside, [start, start + len(batch)]))] - start] = True
            start += len(batch)
            if mask.any():
                yield batch.filter(pa.array(mask))


def take_game(games: MoveArrays, g: int) -> MoveArrays:
    """Return the arrays of one game."""
    moves, setup = slice(*games.move_offset[g : g + 2]), slice(*games.setup_offset[g : g + 2])
    return MoveArrays(
        width=games.width[g : g + 1], height=games.height[g : g + 1], moves=games.moves[moves],
        move_offset=games.move_offset[g : g + 2] - games.move_offset[g], setup=games.setup[setup],
        setup_ply=games.setup_ply[setup], setup_offset=games.setup_offset[g : g + 2] - games.setup_offset[g],
        root_setup=games.root_setup[g : g + 1],
    )  # fmt: skip


class GameStore:
    """The games of a catalogue by row group. Methods may be called from any thread.

    The first row groups that are read stay in memory, up to MAX_CACHED bytes; others are decoded whenever they are
    read. groups: the row groups of all files, in order.
    """

    def __init__(self, catalogue: Catalogue, indices: Sequence[SearchIndex | None]) -> None:
        """List the row groups. indices: of each Parquet file, or None."""
        self.groups = row_groups(catalogue)
        self._indices = indices
        self._cached: dict[RowGroup, list[GameBatch]] = {}
        self._free = MAX_CACHED
        self._lock = threading.Lock()

    def batches(self, group: RowGroup) -> Iterator[GameBatch]:
        """Yield the games of a row group, at most 8,192 at a time."""
        if (cached := self._cached.get(group)) is not None:
            yield from cached
            return
        read: list[GameBatch] | None = []
        for batch in _read_group(group, self._indices[group.part]):
            yield batch
            if read is not None:
                with self._lock:  # a group that is read twice at the same time counts twice
                    self._free -= _nbytes(batch)
                    read = [*read, batch] if self._free >= 0 else None
        if read is not None:
            self._cached[group] = read

    def cached(self, row: int) -> tuple[MoveArrays, int] | None:
        """Return the games of a batch in memory, and the number of a row of the catalogue in it; None if not there."""
        for group, batches in list(self._cached.items()):
            if group.start <= row < group.stop:
                batch = next(each for each in reversed(batches) if each.first <= row)
                return batch.games, row - batch.first
        return None


def _read_group(group: RowGroup, index: SearchIndex | None) -> Iterator[GameBatch]:
    columns = [*PLAYED_COLUMNS, "drop", *(INFO_COLUMNS if index is None else ())]
    first = group.shard.first
    for batch in read_shard(group.shard, columns, _BATCH):
        games = move_arrays(batch)
        kept = batch.column("drop").is_null().to_numpy(zero_copy_only=False)
        traces = trace_games(games, kept) if index is None else index.traces(games, first)
        info = game_info(batch) if index is None else index.info(first, first + len(batch))
        yield GameBatch(group.start + first - group.shard.first, games, kept, traces, info)
        first += len(batch)


def _nbytes(batch: GameBatch) -> int:
    """Return the bytes that a batch keeps in memory; all of its captures count, even if they are mapped."""
    arrays = [getattr(batch.games, field.name) for field in fields(batch.games)]
    captures = batch.traces.capture_offset[-1] - batch.traces.capture_offset[0]
    others = (batch.kept, batch.traces.occupied, *batch.info)
    return int(sum(array.nbytes for array in (*arrays, *others)) + 2 * captures)
