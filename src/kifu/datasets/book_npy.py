"""The format `book-npy@1`: the chunks that the data processor of "Deep Learning and the Game of Go" reads.

Card: docs/formats/book-npy.md.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.datasets.examples import Batch, Dataset, Layout, concat, pack_planes
from kifu.datasets.npy import FolderWriter, open_array, read_index
from kifu.datasets.npz import HEADER_BYTES
from kifu.datasets.writer import WriteReport
from kifu.errors import FormatError, RecipeError, SourceError
from kifu.files import open_regular

CHUNK = 1024
"""Examples in a file, except for the last one of an archive."""

_DTYPE = np.dtype("<f8")
_NOT_PLAIN = re.compile(r"[^\w.+-]", re.ASCII)
_SHAPE = re.compile(rb"\((\d{1,4}),")


class BookNpyWriter(FolderWriter):
    """Writes a book-npy@1 directory. Batches need `runs`, with the games of an archive together."""

    format = "book-npy@1"

    def __init__(self, path: Path, layout: Layout, examples: int = 0) -> None:
        """Create the directory.

        Args:
            path: The directory; its name is the data type, "train" or "test", in the names of the book's files.

        Raises:
            RecipeError: The format cannot hold this layout.
        """
        check_layout(layout)
        self._data_type = path.name
        self._archive: str | None = None
        self._chunks: dict[str, int] = {}
        self._pending: list[Batch] = []
        super().__init__(path, layout)

    def append(self, prepared: Batch) -> None:
        """Append a prepared batch; see `Writer.append`."""
        if prepared.runs is None:
            raise RecipeError(f"{self.format} stores examples archive by archive, so they cannot be shuffled")
        if np.any(prepared.labels["move"] == self.layout.pass_label):
            raise RecipeError(f"{self.format} has no passes")
        at = 0
        for archive, rows in zip(prepared.runs.archive, prepared.runs.rows.tolist()):
            if archive != self._archive:
                self._flush(1)
                self._archive = archive
            self._pending.append(prepared.slice(at, at + rows))
            at += rows
            self._flush(CHUNK)
        self.examples += len(prepared)

    def _flush(self, least: int) -> None:
        """Write the pending rows to files of at most CHUNK rows, while at least `least` of them are left."""
        if sum(map(len, self._pending)) < least or self._archive is None:
            return
        rows = concat(self._pending, self.layout)
        done = 0
        while len(rows) - done >= least:
            self._write(rows.slice(done, min(done + CHUNK, len(rows))))
            done += CHUNK
        self._pending = [rows.slice(done, len(rows))]

    def _write(self, rows: Batch) -> None:
        base = chunk_base(self._archive or "", self._data_type)
        chunk = self._chunks.get(base, 0)
        self._chunks[base] = chunk + 1
        planes, moves = rows.unpack_planes(self.layout), rows.labels["move"].astype(np.int64)
        if self.layout.first_row == "top":
            planes, moves = planes[:, :, ::-1], self.layout.flip_points(moves)
        for name, shape, values in (("features", self.layout.shape, planes), ("labels", (), moves)):
            self._create(f"{base}_{name}_{chunk}.npy", _DTYPE, shape, len(rows)).append(values)
        self._commit_files()

    def commit(self, about: Mapping[str, Any]) -> WriteReport:
        """Finish the data set; see `Writer.commit`."""
        self._flush(1)
        return super().commit(about)


def check_layout(layout: Layout) -> None:
    """Raise RecipeError for a layout that the book's files cannot hold."""
    labels = ", ".join(label.name for label in layout.labels)
    if labels != "move":
        raise RecipeError(f"{BookNpyWriter.format} holds only the label move, not {labels}")


def chunk_base(archive: str, data_type: str) -> str:
    """Return the start of the names of an archive's files, such as "KGS-2006-19-10388-train".

    Args:
        archive: File name of the archive, such as "KGS-2006-19-10388-.tar.gz"; characters that are unsafe in file names
            become "_".
    """
    plain = _NOT_PLAIN.sub("_", archive.replace(".tar.gz", "")[:150] + data_type[:50])
    return "_" + plain[1:] if plain.startswith(".") else plain


class _Chunk(NamedTuple):
    features: Path
    labels: Path
    rows: int


class BookNpy(Dataset):
    """A book-npy@1 directory. Each read opens the files that it needs."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a directory. Headers and sizes are checked now, values when they are read."""
        self.path = Path(path)
        index = read_index(self.path)
        self.layout, self.examples, self.about = index.layout, index.examples, index.about
        try:
            check_layout(self.layout)
        except RecipeError as error:
            raise FormatError(f"{self.path}: {error}") from None
        if len(index.files) % 2:
            raise FormatError(f"{self.path} has {len(index.files)} files, which are not pairs of features and labels")
        self._chunks = [self._chunk(*pair) for pair in zip(index.files[::2], index.files[1::2])]
        self._first = [0, *accumulate(chunk.rows for chunk in self._chunks)]
        if self._first[-1] != self.examples:
            raise FormatError(f"{self.path} has {self._first[-1]:,} examples, but its index lists {self.examples:,}")

    def _chunk(self, features: str, labels: str) -> _Chunk:
        path = self.path / labels
        try:
            with open_regular(path) as file:
                shape = _SHAPE.search(file.read(HEADER_BYTES))
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror}") from None
        rows = int(shape[1]) if shape else 0
        if not 1 <= rows <= CHUNK:
            raise FormatError(f"{path} does not begin with the header of an array of 1 to {CHUNK} numbers")
        open_array(path, _DTYPE, (rows,)).close()
        open_array(self.path / features, _DTYPE, (rows, *self.layout.shape)).close()
        return _Chunk(self.path / features, path, rows)

    def _read(self, start: int, stop: int) -> Batch:
        if not self._first:
            raise ValueError(f"{self.path} is closed")
        parts = []
        while start < stop:
            k = bisect_right(self._first, start) - 1
            until = min(stop, self._first[k + 1])
            parts.append(self._read_chunk(self._chunks[k], start - self._first[k], until - self._first[k]))
            start = until
        return concat(parts, self.layout)

    def _read_chunk(self, chunk: _Chunk, start: int, stop: int) -> Batch:
        rows = stop - start
        planes: npt.NDArray[Any] = _read(chunk.features, start, (rows, *self.layout.shape))
        labels = _read(chunk.labels, start, (rows,))
        with np.errstate(invalid="ignore"):  # NaN is reported below
            moves = labels.astype(np.int64)
        if np.any(labels != moves) or np.any((moves < 0) | (moves >= self.layout.pass_label)):
            raise FormatError(f"{chunk.labels} has labels that are not within 0 to {self.layout.pass_label - 1}")
        if not self.layout.real:
            ones = planes == 1
            if np.any(planes != ones):
                raise FormatError(f"{chunk.features} has values that are neither 0 nor 1")
            planes = ones
        if self.layout.first_row == "top":
            planes, moves = planes[:, :, ::-1], self.layout.flip_points(moves)
        named = {"move": moves.astype(self.layout.labels[0].np_dtype)}
        return Batch(pack_planes(planes, self.layout), named, np.zeros(rows, np.uint64), np.full(rows, -1, np.int32))

    def close(self) -> None:
        """Close the files; see `Dataset.close`."""
        self._first = []


def _read(path: Path, start: int, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Read shape[0] rows of an array, from row `start` on."""
    count = int(np.prod(shape))
    try:
        with open_regular(path) as file:
            values = np.fromfile(file, _DTYPE, count, offset=HEADER_BYTES + start * count // shape[0] * _DTYPE.itemsize)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None
    if len(values) != count:
        raise FormatError(f"{path} has been truncated")
    return values.reshape(shape)
