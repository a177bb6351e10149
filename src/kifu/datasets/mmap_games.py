"""The games that a loader draws from: rows of catalogues, set down in files without names, which are mapped.

So they are the system's cache and not this process's memory: it may take that back, and there may be more of them than
fit. Each column is one to three runs of numbers, as Arrow has it, and each run a file.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.catalogue import is_catalogue, open_catalogue
from kifu.corpus.ingest import ingest
from kifu.corpus.schema import GAME_COLUMNS, SCHEMA, drop_code, list_to_numpy, map_distinct, to_numpy
from kifu.datasets.labels import LABEL_COLUMNS
from kifu.datasets.renderer import CONTEXT_COLUMNS
from kifu.errors import DropReason, OutputError, SourceError
from kifu.records.paths import as_path

COLUMNS = tuple(dict.fromkeys((*GAME_COLUMNS, *LABEL_COLUMNS, *CONTEXT_COLUMNS, "id", "n_legal")))
"""Of the catalogue, what any loader may need."""

_FITTING = ("width", "height", "n_legal", "drop")
"""What tells which games are taken."""

_ROWS = 8192
"""Looked at at one go."""


def read_games(
    paths: Iterable[str | os.PathLike[str]],
    board: tuple[int, int],
    pad: bool,
    jobs: int | None,
    columns: Sequence[str] = COLUMNS,
) -> pa.RecordBatch:
    """The kept games of catalogues that fit the board, as one batch of rows; of archives and records after them.

    columns: of the catalogue, those that the rows have; see `hold` for how they lie.
    Archives are first ingested, by the rules "legal", into a catalogue that lasts only for that.
    Raises SourceError, FormatError; OutputError if there is no room for the games.
    """
    paths = list(paths)
    catalogues = [Path(path) for path in paths if is_catalogue(path)]
    archives = [path for path in paths if not is_catalogue(path)]
    with tempfile.TemporaryDirectory(prefix="kifu-") as folder:
        if archives:
            catalogues.append(Path(folder, "games.parquet"))
            ingest(archives, catalogues[-1], jobs=jobs)
        rows = spill(chain.from_iterable(_fitting(path, board, pad, columns) for path in catalogues), columns)
    pa.default_memory_pool().release_unused()
    if not len(rows):
        shown = ", ".join(str(as_path(path)) for path in paths)[:200]
        raise SourceError(f"there is no game on a {board[0]} x {board[1]} board in {shown}")
    return rows


def pick(rows: pa.RecordBatch, which: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """Some of the rows of `read_games`, set down anew. which: [G], whether a row is one of them. Raises OutputError."""
    starts = range(0, len(rows), _ROWS)
    parts = (rows.slice(first, _ROWS).filter(pa.array(which[first : first + _ROWS])) for first in starts)
    return spill(parts, rows.schema.names)


def spill(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> pa.RecordBatch:
    """Rows of the catalogue, with these columns, as one batch, which lies in files of the folder for temporary ones.

    Lists and texts are large ones, of which there may be more than 2 GB. Raises OutputError.
    """
    with ExitStack() as files:
        held = {name: _Column(SCHEMA.field(name), files) for name in columns}
        for batch in batches:
            for name, column in held.items():
                column.append(batch.column(name))
        return pa.RecordBatch.from_arrays([column.array() for column in held.values()], names=list(held))


def _fitting(path: Path, board: tuple[int, int], pad: bool, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a catalogue's kept games that have moves and fit the board."""
    for batch in open_catalogue(path).batches(tuple(dict.fromkeys((*columns, *_FITTING))), size=_ROWS):
        width, height = to_numpy(batch["width"]), to_numpy(batch["height"])
        kept = map_distinct(batch["drop"], drop_code, np.uint8) == DropReason.KEPT
        kept &= to_numpy(batch["n_legal"]) > 0
        if pad:
            kept &= (width <= board[0]) & (height <= board[1])
        else:
            kept &= (width == board[0]) & (height == board[1])
        yield batch.filter(pa.array(kept))


class _Column:
    """A column of rows in the making."""

    def __init__(self, field: pa.Field, files: ExitStack) -> None:
        """files: closes those of the column; what was mapped outlives that."""
        self._type = kind = field.type
        self._rows = self._end = 0
        self._valid = _Run(np.bool_, files) if field.nullable else None
        self._ends: _Run | None = None
        if pa.types.is_list(kind) or pa.types.is_string(kind):
            self._type = pa.large_list(kind.value_field) if pa.types.is_list(kind) else pa.large_string()
            self._ends = _Run(np.int64, files)
            self._ends.append(np.zeros(1, np.int64))
            kind = pa.uint8() if pa.types.is_string(kind) else kind.value_type
        self._values = _Run(kind.to_pandas_dtype(), files)

    def append(self, column: pa.Array) -> None:
        """Sets down more rows. Raises OutputError."""
        self._rows += len(column)
        if self._valid is not None:
            self._valid.append(to_numpy(column.is_valid()))
        if self._ends is None:
            self._values.append(to_numpy(column.fill_null(pa.scalar(0).cast(column.type))))
            return
        values, offsets = list_to_numpy(_as_lists(column))
        self._ends.append(offsets[1:] + self._end)
        self._end += int(offsets[-1])
        self._values.append(values)

    def array(self) -> pa.Array:
        """All rows. Raises OutputError."""
        buffers = [None if self._valid is None else _bits(self._valid.mapped())]
        values = self._values.mapped()
        if self._ends is None:
            buffers.append(_bits(values) if pa.types.is_boolean(self._type) else pa.py_buffer(values))
            return pa.Array.from_buffers(self._type, self._rows, buffers)
        buffers.append(pa.py_buffer(self._ends.mapped()))
        if pa.types.is_large_string(self._type):
            return pa.Array.from_buffers(self._type, self._rows, [*buffers, pa.py_buffer(values)])
        return pa.Array.from_buffers(self._type, self._rows, buffers, children=[pa.array(values)])


def _as_lists(column: pa.Array) -> pa.Array:
    """A column of texts as lists of their bytes, in the same memory; one of lists as it is."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return column
    kind = pa.large_list if pa.types.is_large_string(column.type) else pa.list_
    _, ends, data = column.buffers()
    values = pa.array(np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8))
    return pa.Array.from_buffers(kind(pa.uint8()), len(column), [None, ends], offset=column.offset, children=[values])


def _bits(values: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))


class _Run:
    """Numbers of one kind, set down one after another in a file without a name."""

    def __init__(self, kind: npt.DTypeLike, files: ExitStack) -> None:
        """Raises OutputError."""
        self._kind = np.dtype(kind)
        with _no_room_is_told():
            self._file = files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - it is what is entered

    def append(self, values: npt.NDArray[Any]) -> None:
        """Raises OutputError."""
        with _no_room_is_told():
            self._file.write(np.ascontiguousarray(values, self._kind).data)

    def mapped(self) -> npt.NDArray[Any]:
        """All of them, read-only. Raises OutputError."""
        with _no_room_is_told():
            self._file.flush()
            if not self._file.tell():
                return np.empty(0, self._kind)
            return np.frombuffer(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ), self._kind)


@contextmanager
def _no_room_is_told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot set down games in {tempfile.gettempdir()}: {error.strerror}") from None
