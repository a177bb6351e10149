"""Directories of .npy files with an index.

The format `npy@1` has arrays that np.load maps into memory (docs/formats/npy.md), `book-npy@1` the chunks that the data
processor of "Deep Learning and the Game of Go" reads (docs/formats/book-npy.md).
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from io import FileIO
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kifu.arrays import Array, Doubles
from kifu.config import first_invalid
from kifu.datasets.examples import Batch, Dataset, Layout, concat, pack_planes, part_spans
from kifu.datasets.manifest import Writer, WriteReport, WrittenFile, block_checks
from kifu.datasets.npz import HEADER_BYTES, npy_header
from kifu.errors import FormatError, RecipeError, SourceError, reading
from kifu.io import AtomicDirectory, AtomicFile, bytes_at, open_regular, read_at, read_small

INDEX = "examples.json"
"""Index file of a data set that is a directory; written last."""


class FolderIndex(BaseModel):
    """The index of a data set that is a directory; files are in the order in which they were created."""

    model_config = ConfigDict(frozen=True)

    format: str
    examples: Annotated[int, Field(ge=0, le=10**12)]
    layout: Layout
    about: dict[str, Any]
    files: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,250}$")]]


def read_folder_index(path: Path) -> FolderIndex:
    """Read the index of a directory. Raises SourceError or FormatError."""
    index = path / INDEX
    try:
        return FolderIndex.model_validate_json(read_small(index))
    except OSError as error:
        raise SourceError(f"{index} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise FormatError(f"{index} is not an index of examples: {first_invalid(error)}") from None


def open_array(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> FileIO:
    """Open a .npy file. Raises FormatError unless header and size are those that np.save writes for an array."""
    header = npy_header(dtype, shape)
    with ExitStack() as stack:
        with reading(path):
            file = stack.enter_context(open_regular(path))
            size, actual = os.fstat(file.fileno()).st_size, file.read(len(header))
        if actual != header:
            raise FormatError(f"{path} does not begin with the header of an array {dtype.str} {list(shape)}")
        expected = len(header) + dtype.itemsize * prod(shape)
        if size != expected:
            raise FormatError(f"{path} has {size:,} bytes, expected {expected:,}")
        stack.pop_all()
        return file


class ArrayFile:
    """A .npy file that grows by appending rows."""

    def __init__(
        self, folder: AtomicDirectory, name: str, dtype: np.dtype[Any], row_shape: tuple[int, ...], rows: int
    ) -> None:
        """Create the file; if the number of rows is as expected, it need not be read again to hash it."""
        self._dtype, self._row_shape = dtype, row_shape
        self.name = name
        self.rows = 0
        self._output: AtomicFile = folder.file(name, npy_header(dtype, (rows, *row_shape)))

    def append(self, values: Array) -> None:
        """Append rows [n, ...] of any dtype that can be converted."""
        self._output.write(np.ascontiguousarray(values, self._dtype).reshape(-1).view(np.uint8).data)
        self.rows += len(values)

    def commit(self) -> WrittenFile:
        """Finish the file and give it its name."""
        digest = self._output.commit(npy_header(self._dtype, (self.rows, *self._row_shape)))
        return WrittenFile(self.name, self._output.size, digest, self._output.sums.to_text())

    def discard(self) -> None:
        """Delete the file unless it is committed."""
        self._output.__exit__()


class FolderWriter(Writer):
    """Base class of writers whose data sets are directories of .npy files."""

    format: str

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(layout)
        self._folder = AtomicDirectory(path, INDEX)
        self._open_files: list[ArrayFile] = []
        self._written: list[WrittenFile] = []

    def _create(self, name: str, dtype: np.dtype[Any], row_shape: tuple[int, ...], rows: int) -> ArrayFile:
        file = ArrayFile(self._folder, name, dtype, row_shape, rows)
        self._open_files.append(file)
        return file

    def _commit_files(self) -> None:
        while self._open_files:
            self._written.append(self._open_files.pop(0).commit())

    def commit(self, about: Mapping[str, Any]) -> WriteReport:
        """Finish the data set; see `Writer.commit`."""
        self._commit_files()
        self._folder.commit(
            {"format": self.format, "examples": self.examples, "layout": asdict(self.layout), "about": dict(about)}
        )
        return WriteReport(self.examples, tuple(self._written))

    def __exit__(self, *error: Any) -> None:
        for file in self._open_files:
            file.discard()
        self._folder.__exit__(*error)


def _columns(layout: Layout) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """Return dtype and row shape by file name: planes first, game and ply last."""
    first, *others = layout.labels
    return {
        "features.npy": (layout.plane_dtype, layout.shape),
        "labels.npy": (first.np_dtype, first.shape),
        **{f"{label.name}.npy": (label.np_dtype, label.shape) for label in others},
        "game.npy": (np.dtype("<u8"), ()),
        "ply.npy": (np.dtype("<i4"), ()),
    }


class NpyWriter(FolderWriter):
    """Writes an npy@1 directory."""

    format = "npy@1"

    def __init__(self, path: Path, layout: Layout, examples: int = 0) -> None:
        super().__init__(path, layout)
        try:
            for name, (dtype, row_shape) in _columns(layout).items():
                self._create(name, dtype, row_shape, examples)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    @staticmethod
    def prepare(batch: Batch, layout: Layout) -> list[Array]:
        """Convert a batch; see `Writer.prepare`."""
        labels = [batch.labels[label.name] for label in layout.labels]
        return [batch.unpack_planes(layout), *labels, batch.game, batch.ply]

    def append(self, prepared: list[Array]) -> None:
        """Append a prepared batch; see `Writer.append`."""
        for file, values in zip(self._open_files, prepared):
            file.append(values)
        self.examples += len(prepared[0])


class Npy(Dataset):
    """An npy@1 directory. Rows are read, not mapped: a mapped file that another program truncates ends the process."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a directory. Headers and sizes are checked now, values when they are read."""
        self.path = Path(path)
        index = read_folder_index(self.path)
        self.layout, self.examples, self.about = index.layout, index.examples, index.about
        self._columns = _columns(self.layout)
        self._checks = block_checks(self.path)
        with ExitStack() as stack:
            self._files = {
                name: stack.enter_context(open_array(self.path / name, dtype, (self.examples, *row_shape)))
                for name, (dtype, row_shape) in self._columns.items()
            }
            self._close_files = weakref.finalize(self, stack.pop_all().close)

    def _read(self, start: int, stop: int) -> Batch:
        rows = range(start, stop)
        *labels, game, ply = (self._rows(name, rows) for name in list(self._columns)[1:])
        named = zip((label.name for label in self.layout.labels), labels)
        return Batch(pack_planes(self._planes(rows), self.layout), dict(named), game, ply)

    def close(self) -> None:
        """Close the files; see `Dataset.close`."""
        self._close_files()
        self._files.clear()

    def _unpacked_rows(self, rows: range) -> tuple[Array, Array]:
        labels = self._rows("labels.npy", rows)
        self._check_labels({self.layout.labels[0].name: labels}, rows)
        return self._planes(rows), labels

    def _planes(self, rows: range) -> Array:
        planes = self._rows("features.npy", rows)
        if not self.layout.real and planes.max(initial=0) > 1:
            raise FormatError(f"{self.path / 'features.npy'} holds {planes.max()}, only 0 and 1 are allowed")
        return planes

    def _rows(self, name: str, rows: range) -> Array:
        if not self._files:
            raise ValueError(f"{self.path} is closed")
        dtype, row_shape = self._columns[name]
        values = np.empty((len(rows), *row_shape), dtype)
        row_bytes, data = dtype.itemsize * prod(row_shape), values.reshape(-1).view(np.uint8).data
        parts = (
            [(rows.start, data)]
            if rows.step == 1
            else [(row, data[k * row_bytes : (k + 1) * row_bytes]) for k, row in enumerate(rows)]
        )
        descriptor = self._files[name].fileno()
        for first, part in parts:
            at = HEADER_BYTES + first * row_bytes
            self._checks[name].check(partial(bytes_at, descriptor), at, at + len(part))
            while part:
                count = read_at(descriptor, part, at)
                if not count:
                    raise FormatError(f"{self.path / name} has been truncated")
                part, at = part[count:], at + count
        return values


CHUNK = 1024
"""Examples in a file, except for the last one of an archive."""

_DTYPE = np.dtype("<f8")
_NOT_PLAIN = re.compile(r"[^\w.+-]", re.ASCII)
_SHAPE = re.compile(rb"\((\d{1,4}),")


class BookNpyWriter(FolderWriter):
    """Writes a book-npy@1 directory. Batches need `runs`, with the games of an archive together."""

    format = "book-npy@1"

    def __init__(self, path: Path, layout: Layout, examples: int = 0) -> None:
        """Create the directory. Raises RecipeError if the format cannot hold this layout.

        path: its name is the data type, "train" or "test", in the names of the book's files.
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
        # Such as KGS-2006-19-10388-train for the archive KGS-2006-19-10388-.tar.gz.
        base = _NOT_PLAIN.sub("_", (self._archive or "").replace(".tar.gz", "")[:150] + self._data_type[:50])
        base = "_" + base[1:] if base.startswith(".") else base
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


class BookNpy(Dataset):
    """A book-npy@1 directory. Each read opens the files that it needs."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        index = read_folder_index(self.path)
        self.layout, self.examples, self.about = index.layout, index.examples, index.about
        try:
            check_layout(self.layout)
        except RecipeError as error:
            raise FormatError(f"{self.path}: {error}") from None
        if len(index.files) % 2:
            raise FormatError(f"{self.path} has {len(index.files)} files, which are not pairs of features and labels")
        self._checks = block_checks(self.path)
        self._chunks = [(self.path / pair[0], self.path / pair[1]) for pair in zip(index.files[::2], index.files[1::2])]
        self._first = [0, *accumulate(self._count_rows(*pair) for pair in self._chunks)]
        if self._first[-1] != self.examples:
            raise FormatError(f"{self.path} has {self._first[-1]:,} examples, but its index lists {self.examples:,}")

    def _count_rows(self, features: Path, labels: Path) -> int:
        """Return the number of rows of a chunk, whose headers and sizes are checked."""
        with reading(labels), open_regular(labels) as file:
            shape = _SHAPE.search(file.read(HEADER_BYTES))
        rows = int(shape[1]) if shape else 0
        if not 1 <= rows <= CHUNK:
            raise FormatError(f"{labels} does not begin with the header of an array of 1 to {CHUNK} numbers")
        open_array(labels, _DTYPE, (rows,)).close()
        open_array(features, _DTYPE, (rows, *self.layout.shape)).close()
        return rows

    def _read(self, start: int, stop: int) -> Batch:
        if not self._first:
            raise ValueError(f"{self.path} is closed")
        return concat([self._read_chunk(*span) for span in part_spans(self._first, start, stop)], self.layout)

    def _read_chunk(self, k: int, start: int, stop: int) -> Batch:
        features_file, labels_file = self._chunks[k]
        rows = stop - start
        planes: Array = self._read_file(features_file, start, (rows, *self.layout.shape))
        labels = self._read_file(labels_file, start, (rows,))
        with np.errstate(invalid="ignore"):  # NaN is reported below
            moves = labels.astype(np.int64)
        if np.any(labels != moves) or np.any((moves < 0) | (moves >= self.layout.pass_label)):
            raise FormatError(f"{labels_file} has labels that are not within 0 to {self.layout.pass_label - 1}")
        if not self.layout.real:
            ones = planes == 1
            if np.any(planes != ones):
                raise FormatError(f"{features_file} has values that are neither 0 nor 1")
            planes = ones
        if self.layout.first_row == "top":
            planes, moves = planes[:, :, ::-1], self.layout.flip_points(moves)
        named = {"move": moves.astype(self.layout.labels[0].np_dtype)}
        return Batch(pack_planes(planes, self.layout), named, np.zeros(rows, np.uint64), np.full(rows, -1, np.int32))

    def close(self) -> None:
        """Close the files; see `Dataset.close`."""
        self._first = []

    def _read_file(self, path: Path, start: int, shape: tuple[int, ...]) -> Doubles:
        count = int(np.prod(shape))
        at = HEADER_BYTES + start * count // shape[0] * _DTYPE.itemsize
        with reading(path), open_regular(path) as file:
            self._checks[path.name].check(partial(bytes_at, file.fileno()), at, at + count * _DTYPE.itemsize)
            values = np.fromfile(file, _DTYPE, count, offset=at)
        if len(values) != count:
            raise FormatError(f"{path} has been truncated")
        return values.reshape(shape)
