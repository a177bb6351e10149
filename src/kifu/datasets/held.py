"""The games that a loader draws from: rows of catalogues, whose moves lie in a file without a name and are mapped.

Moves are most of what games take, two bytes each. Mapped, they are the system's cache and not this process's memory: it
may take that back, and there may be more of them than fit.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kifu.corpus.catalogue import GAME_COLUMNS, by_value, drop_code, is_catalogue, list_parts, numbers, open_catalogue
from kifu.corpus.ingest import ingest
from kifu.corpus.schema import SCHEMA
from kifu.datasets.drawing import TOLD_COLUMNS
from kifu.datasets.labels import LABEL_COLUMNS
from kifu.errors import Drop, OutputError, SourceError

COLUMNS = tuple(dict.fromkeys((*GAME_COLUMNS, *LABEL_COLUMNS, *TOLD_COLUMNS, "id", "n_legal")))
"""Of the catalogue, what a loader needs."""


def read_games(
    paths: Iterable[str | os.PathLike[str]],
    board: tuple[int, int],
    pad: bool,
    jobs: int | None,
    columns: Sequence[str] = (),
) -> Any:
    """The kept games of catalogues that fit the board, as one batch of rows; of archives and records after them.

    columns: of the catalogue, which the rows have besides COLUMNS. `moves` is a large_list, whose values lie in a file
    of the system's folder for temporary ones, two bytes a move.
    Archives are first ingested, by the rules "legal", into a catalogue that lasts only for that.
    Raises SourceError, FormatError; OutputError if there is no room for the moves.
    """
    paths = list(paths)
    names = tuple(dict.fromkeys((*COLUMNS, *columns)))
    catalogues = [path for path in map(Path, paths) if is_catalogue(path)]
    archives = [path for path in map(Path, paths) if not is_catalogue(path)]
    with tempfile.TemporaryDirectory(prefix="kifu-") as folder:
        if archives:
            catalogues.append(Path(folder, "games.parquet"))
            ingest(archives, catalogues[-1], jobs=jobs)
        with _MovesFile() as moves:
            rest = [moves.without(batch) for path in catalogues for batch in _fitting(path, board, pad, names)]
            column = moves.column()
    schema = pa.schema([SCHEMA.field(name) for name in names if name != "moves"])
    rows = pa.Table.from_batches(rest, schema).combine_chunks().to_batches()
    rest.clear()
    pa.default_memory_pool().release_unused()
    if not rows:
        raise SourceError(f"there is no game on a {board[0]} x {board[1]} board in {', '.join(map(str, paths))[:200]}")
    if len(rows) > 1:
        raise SourceError(f"there are too many games in {', '.join(map(str, paths))[:200]}: names take more than 2 GB")
    arrays = {"moves": column} | dict(zip(schema.names, rows[0]))
    return pa.RecordBatch.from_arrays([arrays[name] for name in names], names=list(names))


def _fitting(path: Path, board: tuple[int, int], pad: bool, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a catalogue's kept games that have moves and fit the board."""
    for batch in open_catalogue(path).batches(columns):
        width, height = numbers(batch["width"]), numbers(batch["height"])
        kept = by_value(batch["drop"], drop_code, np.uint8) == Drop.KEPT
        kept &= numbers(batch["n_legal"]) > 0
        if pad:
            kept &= (width <= board[0]) & (height <= board[1])
        else:
            kept &= (width == board[0]) & (height == board[1])
        yield batch.filter(pa.array(kept))


class _MovesFile:
    """The moves of some games, set down one after another. A context manager; what was mapped outlives it."""

    def __init__(self) -> None:
        self._offsets = [np.zeros(1, np.int64)]
        self._end = 0
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__

    def without(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows without their moves, which are set down. Raises OutputError."""
        values, offsets = list_parts(batch.column("moves"))
        try:
            self._file.write(np.ascontiguousarray(values).data)
        except OSError as error:
            raise OutputError(f"cannot set down moves in {tempfile.gettempdir()}: {error.strerror}") from None
        self._offsets.append(offsets[1:] + self._end)
        self._end += int(offsets[-1])
        return batch.drop_columns(["moves"])

    def column(self) -> pa.LargeListArray:
        """All of them, as one column. Raises OutputError."""
        try:
            self._file.flush()
            data = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) if self._end else b""
        except OSError as error:
            raise OutputError(f"cannot set down moves in {tempfile.gettempdir()}: {error.strerror}") from None
        values = pa.Array.from_buffers(pa.uint16(), self._end, [None, pa.py_buffer(data)])
        return pa.LargeListArray.from_arrays(pa.array(np.concatenate(self._offsets)), values)

    def __enter__(self) -> _MovesFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
