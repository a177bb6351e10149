"""Build index files: one for each Parquet file of a catalogue, in parallel, in bounded memory.

Blocks of games are replayed in parallel. Their positions are divided into ranges of hashes, on disk if there are many,
and each range is sorted. All other arrays are written in the order of the games.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.catalogue import RowShard, has_index, open_catalogue, read_shard
from kifu.corpus.schema import PLAYED_COLUMNS, move_arrays
from kifu.errors import FormatError, OutputError, RecipeError, SourceError, printable
from kifu.execution.executor import THREADS, Executor, make_executor
from kifu.execution.range_sort import Columns, RangeSort, SpillFile
from kifu.io import AtomicFile, keep_output, locked_folder, require_size
from kifu.point import MAX_SIZE
from kifu.progress import Progress, ProgressFactory, silent
from kifu.search.continuations import INFO_COLUMNS, game_info
from kifu.search.index import (
    MAX_PLIES,
    IndexHeader,
    entry_shift,
    identify,
    index_path,
    is_index,
    open_index,
    padding,
    with_checksums,
)
from kifu.search.positions import entry_layout, late_stones, pack_positions, sort_entries
from kifu.search.traces import trace_games
from kifu.text import Report

_log = logging.getLogger(__name__)

DEFAULT_PLIES = 60

_BLOCK_ROWS = 4096
"""Games that are replayed at a time, with 5 MB of results."""

_RANGE_ENTRIES = 1 << 21
"""Positions that are sorted at a time, at 40 bytes of memory each."""

_SMALL_BUCKET = 256
"""Larger buckets are sorted by NumPy."""

_GAME_ARRAYS = ("captures", "capture_offset", "occupied", "plies", "late_stones", "winner", "day", "rating")
"""The arrays of an index in the order of the games."""


@dataclass(frozen=True, slots=True)
class IndexReport(Report):
    """The result of indexing a catalogue.

    Attributes:
        games: Number of games in the indexed files, dropped ones included.
    """

    indexed: int
    unchanged: int
    games: int
    positions: int
    bytes: int


_Block: TypeAlias = tuple[str, int, pa.RecordBatch]
"""Consecutive games: the path of their Parquet file, the row of the first one in it, and the games."""


def _read_blocks(shard: RowShard) -> Iterator[_Block]:
    first = shard.first
    for batch in read_shard(shard, (*PLAYED_COLUMNS, *INFO_COLUMNS, "drop"), _BLOCK_ROWS):
        yield shard.path, first, batch
        first += len(batch)


def _replay(plies: int, file_rows: dict[str, int], item: _Block) -> tuple[Columns, Columns]:
    """Replay games; return the positions, and the arrays of the index by game."""
    path, first, batch = item
    try:
        games = move_arrays(batch)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    kept = batch.column("drop").is_null().to_numpy(zero_copy_only=False)
    traces = trace_games(games, kept)
    layout = entry_layout(file_rows[path], plies, MAX_SIZE**2)
    hashes, entries = pack_positions(games, kept, traces, plies, layout, first)
    late = late_stones(games, kept, traces, plies)
    arrays = traces._asdict() | game_info(batch)._asdict() | {"late_stones": late}
    return {"hashes": hashes, "entries": entries}, arrays


def build_index(
    catalogue: str | os.PathLike[str],
    *,
    plies: int | None = None,
    overwrite: bool = False,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> IndexReport:
    """Index the games of a catalogue for `kifu.search`: each Parquet file FILE gets an index FILE.search beside it.

    Files that have an index, of as many plies if these are given, are skipped. The bytes do not depend on `jobs` and
    `engine`. Positions that exceed the memory for sorting are spilled to unnamed files in the directory of the
    catalogue. Memory grows only by about 50 bytes for each occurrence of the most frequent position, such as the empty
    board.

    Args:
        plies: The maximum number of positions of each game, from its first move on, 1 to 1,000; by default 60.
        overwrite: Replace indices of other plies or of earlier catalogues (`kifu.io.keep_output`).
        jobs: See `kifu.execution.executor.make_executor`, also for `engine`.

    Raises:
        RecipeError: `plies` is out of range.
        ClusterError: The cluster fails. In all cases each file has its earlier index, or a complete new one.
    """
    if plies is not None and not 1 <= plies <= MAX_PLIES:
        raise RecipeError(f"plies must be within 1 to {MAX_PLIES:,}, got {plies}")
    with ExitStack() as stack:
        if has_index(Path(catalogue)):
            stack.enter_context(locked_folder(Path(catalogue)))
        opened = open_catalogue(catalogue)
        todo = {path: rows for path, rows in opened.partitions.items() if not _is_indexed(path, plies)}
        for path in todo or [opened.path]:
            keep_output(index_path(path), overwrite, own=is_index(index_path(path)), same=not todo)
        plies = plies or DEFAULT_PLIES
        shards = [shard for shard in opened.shards() if Path(shard.path) in todo]
        executor = stack.enter_context(make_executor(engine, jobs))
        bar = stack.enter_context(progress("indexing", sum(todo.values()), "games"))
        replay = partial(_replay, plies, {str(path): rows for path, rows in todo.items()})
        blocks, positions = executor.run(replay, shards, _read_blocks), 0
        for path, rows in todo.items():
            positions += _write_index(path, rows, plies, _take(blocks, rows, bar), executor)
    size = sum(require_size(index_path(path)).st_size for path in opened.partitions)
    return IndexReport(len(todo), len(opened.partitions) - len(todo), sum(todo.values()), positions, size)


def ensure_index(
    catalogue: str | os.PathLike[str], *, jobs: int | None = None, progress: ProgressFactory = silent
) -> bool:
    """Index those files of a catalogue that have no valid index, with a note.

    Returns False, with another note, if the index cannot be written, so that searches must do without.
    """
    missing = [index_path(path) for path in open_catalogue(catalogue).partitions if not _is_indexed(path, None)]
    if missing:
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        _log.info("making %s%s, which makes searches fast; --no-index does without", printable(missing[0]), more)
        try:
            build_index(catalogue, overwrite=True, jobs=jobs, progress=progress)
        except OutputError as error:
            _log.info("searching without an index: %s", error)
            return False
    return True


def _is_indexed(parquet: Path, plies: int | None) -> bool:
    try:
        return plies in (None, open_index(parquet).header.plies)
    except FormatError:
        return False


def _take(blocks: Iterator[tuple[Columns, Columns]], rows: int, bar: Progress) -> Iterator[tuple[Columns, Columns]]:
    while rows:
        positions, arrays = next(blocks)
        yield positions, arrays
        bar.advance(len(arrays["winner"]))
        rows -= len(arrays["winner"])


def _write_index(
    parquet: Path, rows: int, plies: int, blocks: Iterable[tuple[Columns, Columns]], executor: Executor
) -> int:
    """Write the index of a Parquet file of so many rows and return its number of positions."""
    identity, target = identify(parquet), index_path(parquet)
    with ExitStack() as stack:
        output = stack.enter_context(AtomicFile(target))
        sort = stack.enter_context(RangeSort("hashes", _RANGE_ENTRIES, target.parent, rows * plies))
        spilled = {name: stack.enter_context(SpillFile(target.parent)) for name in (*_GAME_ARRAYS, "buckets")}
        entries = captures = words = 0
        for positions, arrays in blocks:
            if len(positions["hashes"]):
                sort.add(positions)
            arrays["capture_offset"] = arrays["capture_offset"][:-1] + captures
            for name in _GAME_ARRAYS:
                spilled[name].write(arrays[name])
            entries, captures = entries + len(positions["hashes"]), captures + len(arrays["captures"])
            words = max(words, arrays["occupied"].shape[2])
        header = IndexHeader(
            parquet=identity, plies=plies, rows=rows, entries=entries, captures=captures, words=max(words, 6)
        )
        spilled["capture_offset"].write(np.array([captures]))
        output.write(header.to_bytes())
        # The entries are the first array; sorting them writes the buckets, the second one.
        pieces = {name: file.read() for name, file in spilled.items()}
        pieces["entries"] = _sorted_entries(sort, header, spilled["buckets"], executor)
        arrays_bytes = (_array_bytes(name, header, pieces[name]) for name in header.arrays())
        for data in with_checksums(chain.from_iterable(arrays_bytes)):
            output.write(data)
        if identify(parquet) != identity:
            raise SourceError(f"{parquet} changed while it was indexed")
        output.commit()
    return entries


def _array_bytes(name: str, header: IndexHeader, pieces: Iterable[npt.NDArray[Any]]) -> Iterator[bytes | memoryview]:
    dtype, shape = header.arrays()[name]
    size = 0
    for piece in pieces:
        missing = [(0, 0)] * (piece.ndim - 1) + [(0, shape[-1] - piece.shape[-1] if piece.ndim > 1 else 0)]
        data = np.ascontiguousarray(np.pad(piece, missing), dtype).data.cast("B")
        size += len(data)
        yield data
    yield bytes(padding(size))


def _sorted_entries(
    sort: RangeSort, header: IndexHeader, buckets: SpillFile, executor: Executor
) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield all entries in the order of the file, and write the starts of the buckets."""
    bucket = position = 0
    for entries, first, starts in executor.map(partial(_sort_range, header), sort, executor.jobs):
        buckets.write(np.full(max(first + 1 - bucket, 0), position))
        buckets.write(position + starts[1:-1])
        bucket, position = first + len(starts) - 1, position + len(entries)
        yield entries
    buckets.write(np.full((1 << header.bucket_bits()) + 1 - bucket, position))


def _sort_range(header: IndexHeader, rows: Columns) -> tuple[npt.NDArray[np.uint64], int, npt.NDArray[np.int64]]:
    top, low = entry_shift(header)
    hashes, fields = rows["hashes"], rows["entries"]
    low_hash, high_hash = int(hashes.min()), int(hashes.max())
    first, last = low_hash >> (64 - top), high_hash >> (64 - top)
    if low_hash == high_hash:  # one position of many games, in their order
        fields |= np.uint64(((low_hash << top) % 2**64) >> low << low)
        return fields, first, np.array([0, len(fields)])
    starts, entries = np.zeros(last - first + 2, np.int64), np.empty(len(hashes), np.uint64)
    sort_entries(hashes, fields, top, low, first, starts, _SMALL_BUCKET, entries)
    for b in np.flatnonzero(np.diff(starts) > _SMALL_BUCKET).tolist():
        entries[starts[b] : starts[b + 1]].sort()
    return entries, first, starts
