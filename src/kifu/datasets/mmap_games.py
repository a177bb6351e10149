"""The games of a loader: selected rows of catalogues in memory-mapped temporary files without names.

The operating system can evict the mapped pages, so the games need not fit into memory. Each column consists of one to
three Arrow buffers, and each buffer is a file.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.arrays import Array, Bools, Indices
from kifu.corpus.catalogue import is_catalogue, open_catalogue
from kifu.corpus.ingest import ingest
from kifu.corpus.schema import GAME_COLUMNS, SCHEMA, drop_codes, to_numpy
from kifu.datasets.filter import DEFAULT_FILTER, PositionFilter
from kifu.errors import DropReason, OutputError, SourceError
from kifu.planes.encoder import CONTEXT_COLUMNS
from kifu.records.paths import as_path

COLUMNS = tuple(dict.fromkeys((*GAME_COLUMNS, *CONTEXT_COLUMNS, "id", "n_legal")))
"""The columns of the catalogue that planes, and labels of the moves, may need."""

WEIGHT_COLUMN = "weight"
"""An additional column: the weights of games by `PositionFilter.weight`."""

TARGETS_COLUMN, OWNERS_COLUMN = "targets", "owners"
"""Additional columns: what a net says of some positions, and the owners of their points (`kifu.learn.targets`)."""

TARGET = pa.struct([
    pa.field("ply", pa.int32(), nullable=False),
    pa.field("lead", pa.float32(), nullable=False),
    pa.field("lead_stdev", pa.float32(), nullable=False),
])  # fmt: skip

_FIELDS = {field.name: field for field in [
    *SCHEMA,
    pa.field(WEIGHT_COLUMN, pa.float64(), nullable=False),
    pa.field(TARGETS_COLUMN, pa.list_(pa.field("element", TARGET, nullable=False)), nullable=False),
    pa.field(OWNERS_COLUMN, pa.list_(pa.field("element", pa.int8(), nullable=False)), nullable=False),
]}  # fmt: skip

_FILTER_COLUMNS = ("width", "height", "n_legal", "drop")
"""Columns that decide which games are used."""

_ROWS = 8192
"""Rows processed at a time."""


def read_games(
    paths: Iterable[str | os.PathLike[str]],
    board: tuple[int, int],
    pad: bool,
    jobs: int | None,
    columns: Sequence[str] = COLUMNS,
    select: Callable[[pa.RecordBatch], Bools] | None = None,
    filter: PositionFilter = DEFAULT_FILTER,
) -> pa.RecordBatch:
    """Read the kept games that fit a board.

    Archives and records are first ingested, by the rules "legal", into a temporary catalogue. Raises SourceError if a
    source cannot be read, or there is no game that fits the board, and RecipeError if a weight is not within 0 to 1, or
    an expression cannot be evaluated.

    Args:
        columns: Columns of the catalogue to read, and WEIGHT_COLUMN if the filter has a weight.
        select: Returns which games of a batch to read, [G] bool; by default all.
        filter: Its rules `where` and `weight` select games; those with a weight of 0 are left out.

    Returns:
        The games as one batch, as `spill` returns it: those of catalogues first, then those of archives and records.
    """
    paths = list(paths)
    catalogues = [Path(path) for path in paths if is_catalogue(path)]
    archives = [path for path in paths if not is_catalogue(path)]
    found = 0

    def selected() -> Iterator[pa.RecordBatch]:
        nonlocal found
        for batch in chain.from_iterable(_kept_games(path, board, pad, columns, filter) for path in catalogues):
            found += len(batch)
            yield batch if select is None else batch.filter(pa.array(select(batch)))

    with tempfile.TemporaryDirectory(prefix="kifu-") as folder:
        if archives:
            catalogues.append(Path(folder, "games.parquet"))
            ingest(archives, catalogues[-1], jobs=jobs)
        rows = spill(selected(), columns)
    pa.default_memory_pool().release_unused()
    if not found:
        names = ", ".join(str(as_path(path)) for path in paths)[:200]
        such = "" if filter.where is None and filter.weight is None else ", selected by where and weight,"
        raise SourceError(f"there is no game on a {board[0]} x {board[1]} board{such} in {names}")
    return rows


def select_rows(rows: pa.RecordBatch, mask: Bools) -> pa.RecordBatch:
    """Return those rows of `read_games` for which mask [G] is true, in new files. Raises OutputError."""
    starts = range(0, len(rows), _ROWS)
    parts = (rows.slice(first, _ROWS).filter(pa.array(mask[first : first + _ROWS])) for first in starts)
    return spill(parts, rows.schema.names)


def spill(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> pa.RecordBatch:
    """Return columns of several batches of the catalogue as one batch in memory-mapped temporary files.

    The columns may include WEIGHT_COLUMN. Lists and strings get 64-bit offsets, because they may exceed 2 GB. Raises
    OutputError if there is no disk space.
    """
    with ExitStack() as files:
        writers = {name: _ColumnWriter(_FIELDS[name], files) for name in columns}
        for batch in batches:
            for name, writer in writers.items():
                writer.append(batch.column(name))
        return pa.RecordBatch.from_arrays([writer.array() for writer in writers.values()], names=list(writers))


def _kept_games(
    path: Path, board: tuple[int, int], pad: bool, columns: Sequence[str], filter: PositionFilter
) -> Iterator[pa.RecordBatch]:
    """Yield the kept games of a catalogue that have moves, fit the board and are selected by the filter."""
    catalogue, first = open_catalogue(path), 0
    weights = None
    if filter.where is not None or filter.weight is not None:
        from kifu.corpus.query import weigh_games  # requires duckdb

        weights = weigh_games(catalogue, filter.weight or "1", filter.where)
    names = dict.fromkeys((*(name for name in columns if name != WEIGHT_COLUMN), *_FILTER_COLUMNS))
    for batch in catalogue.batches(tuple(names), size=_ROWS):
        width, height = to_numpy(batch["width"]), to_numpy(batch["height"])
        kept = drop_codes(batch) == DropReason.KEPT
        kept &= to_numpy(batch["n_legal"]) > 0
        if pad:
            kept &= (width <= board[0]) & (height <= board[1])
        else:
            kept &= (width == board[0]) & (height == board[1])
        if weights is not None:
            weight = weights[first : first + len(batch)]
            kept &= weight > 0
            if WEIGHT_COLUMN in columns:
                batch = batch.append_column(_FIELDS[WEIGHT_COLUMN], pa.array(weight))
        first += len(batch)
        yield batch.filter(pa.array(kept))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the numbers in a column's buffer: dates are stored as days."""
    return pa.int32() if pa.types.is_date32(kind) else kind


class _ColumnWriter:
    """Writes a column of the catalogue, or the elements of one, to temporary files. Methods raise OutputError."""

    def __init__(self, field: pa.Field, files: ExitStack) -> None:
        """Create the files; `files` closes them, which the mapped arrays survive."""
        kind = field.type
        self._rows = self._end = 0
        self._valid = _BufferFile(np.bool_, files) if field.nullable else None
        self._ends: _BufferFile | None = None
        self._values: _BufferFile | None = None
        self._parts: list[_ColumnWriter] = []
        if pa.types.is_list(kind) or pa.types.is_string(kind):
            self._ends = _BufferFile(np.int64, files)
            self._ends.append(np.zeros(1, np.int64))
        if pa.types.is_list(kind):
            self._parts, kind = [_ColumnWriter(kind.value_field, files)], pa.large_list(kind.value_field)
        elif pa.types.is_struct(kind):
            self._parts = [_ColumnWriter(part, files) for part in kind]
        else:
            text = pa.types.is_string(kind)
            self._values = _BufferFile(np.uint8 if text else _plain_type(kind).to_pandas_dtype(), files)
            kind = pa.large_string() if text else kind
        self._type = kind

    def append(self, column: pa.Array) -> None:
        self._rows += len(column)
        if self._valid is not None:
            self._valid.append(to_numpy(column.is_valid()))
        if self._ends is not None:
            values, offsets = _list_values(column)
            self._ends.append(offsets[1:] + self._end)
            self._end += int(offsets[-1])
            if self._values is None:
                self._parts[0].append(values)
            else:
                self._values.append(to_numpy(values))
        elif self._values is not None:
            plain = column.view(_plain_type(column.type))
            self._values.append(to_numpy(plain.fill_null(pa.scalar(0).cast(plain.type))))
        else:
            for part, values in zip(self._parts, column.flatten()):
                part.append(values)

    def array(self) -> pa.Array:
        buffers = [None if self._valid is None else _pack_bits(self._valid.map())]
        if self._ends is not None:
            buffers.append(pa.py_buffer(self._ends.map()))
        if self._values is not None:
            values = self._values.map()
            buffers.append(_pack_bits(values) if pa.types.is_boolean(self._type) else pa.py_buffer(values))
        children = [part.array() for part in self._parts] or None
        return pa.Array.from_buffers(self._type, self._rows, buffers, children=children)


def _list_values(column: pa.Array) -> tuple[pa.Array, Indices]:
    """Return the elements of a column of lists, or the bytes of one of strings, and their offsets [G + 1]."""
    lists = _as_lists(column)
    if not len(lists):
        return lists.values.slice(0, 0), np.zeros(1, np.int64)
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return lists.values.slice(offsets[0], offsets[-1] - offsets[0]), offsets - offsets[0]


def _as_lists(column: pa.Array) -> pa.Array:
    """Return a column of strings as lists of bytes, without copying; a column of lists is returned unchanged."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return column
    list_type = pa.large_list if pa.types.is_large_string(column.type) else pa.list_
    _, ends, data = column.buffers()
    values = pa.array(np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8))
    buffers = [None, ends]
    return pa.Array.from_buffers(list_type(pa.uint8()), len(column), buffers, offset=column.offset, children=[values])


def _pack_bits(values: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))


class _BufferFile:
    """A growing array in an unnamed temporary file. Methods raise OutputError."""

    def __init__(self, dtype: npt.DTypeLike, files: ExitStack) -> None:
        self._dtype = np.dtype(dtype)
        with _as_output_error():
            self._file = files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it

    def append(self, values: Array) -> None:
        with _as_output_error():
            self._file.write(np.ascontiguousarray(values, self._dtype).data)

    def map(self) -> Array:
        """Return all values, memory-mapped and read-only."""
        with _as_output_error():
            self._file.flush()
            if not self._file.tell():
                return np.empty(0, self._dtype)
            return np.frombuffer(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ), self._dtype)


@contextmanager
def _as_output_error() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write games to {tempfile.gettempdir()}: {error.strerror}") from None
