"""The format `npy@1`: a directory of arrays that np.load maps into memory. Card: docs/formats/npy.md.

The helpers for directories of .npy files, with their index, also serve `kifu.datasets.book_npy`.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from io import FileIO
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kifu.atomic_io import AtomicDirectory, AtomicFile
from kifu.config import first_invalid
from kifu.datasets.examples import Batch, Dataset, Layout, pack_planes
from kifu.datasets.npz import HEADER_BYTES, npy_header
from kifu.datasets.writer import Writer, WriteReport, WrittenFile
from kifu.errors import FormatError, SourceError
from kifu.files import open_regular, read_small

INDEX = "examples.json"
"""Index file of a data set that is a directory; written last."""


class FolderIndex(BaseModel):
    """The index of a data set that is a directory.

    Attributes:
        files: File names in the order in which they were created.
    """

    model_config = ConfigDict(frozen=True)

    format: str
    examples: Annotated[int, Field(ge=0, le=10**12)]
    layout: Layout
    about: dict[str, Any]
    files: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,250}$")]]


def read_index(path: Path) -> FolderIndex:
    """Read the index of a directory. Raises SourceError or FormatError."""
    index = path / INDEX
    try:
        return FolderIndex.model_validate_json(read_small(index))
    except OSError as error:
        raise SourceError(f"{index} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise FormatError(f"{index} is not an index of examples: {first_invalid(error)}") from None


def open_array(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> FileIO:
    """Open a .npy file whose header and size are those that np.save writes for an array.

    Raises:
        FormatError: The header or the size differs.
    """
    header = npy_header(dtype, shape)
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open_regular(path))
            size, actual = os.fstat(file.fileno()).st_size, file.read(len(header))
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror}") from None
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
        """Create the file.

        Args:
            rows: Expected number of rows; if it is right, the file need not be read again to hash it.
        """
        self._dtype, self._row_shape = dtype, row_shape
        self.name = name
        self.rows = 0
        self._output: AtomicFile = folder.file(name, npy_header(dtype, (rows, *row_shape)))

    def append(self, values: npt.NDArray[Any]) -> None:
        """Append rows [n, ...] of any dtype that can be converted."""
        self._output.write(np.ascontiguousarray(values, self._dtype).reshape(-1).view(np.uint8).data)
        self.rows += len(values)

    def commit(self) -> WrittenFile:
        """Finish the file and give it its name."""
        digest = self._output.commit(npy_header(self._dtype, (self.rows, *self._row_shape)))
        return WrittenFile(self.name, self._output.size, digest)

    def discard(self) -> None:
        """Delete the file unless it is committed."""
        self._output.__exit__(None, None, None)


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
            {
                "format": self.format,
                "examples": self.examples,
                "layout": asdict(self.layout),
                "about": dict(about),
            }
        )
        return WriteReport(self.examples, tuple(self._written))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._open_files:
            file.discard()
        self._folder.__exit__(kind, error, trace)


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
        """Create the files; see `kifu.datasets.formats.open_writer`. Raises OutputError."""
        super().__init__(path, layout)
        try:
            for name, (dtype, row_shape) in _columns(layout).items():
                self._create(name, dtype, row_shape, examples)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    @staticmethod
    def prepare(batch: Batch, layout: Layout) -> list[npt.NDArray[Any]]:
        """Convert a batch; see `Writer.prepare`."""
        labels = [batch.labels[label.name] for label in layout.labels]
        return [batch.unpack_planes(layout), *labels, batch.game, batch.ply]

    def append(self, prepared: list[npt.NDArray[Any]]) -> None:
        """Append a prepared batch; see `Writer.append`."""
        for file, values in zip(self._open_files, prepared):
            file.append(values)
        self.examples += len(prepared[0])


class Npy(Dataset):
    """An npy@1 directory. Rows are read, not mapped: a mapped file that another program truncates ends the process."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a directory. Headers and sizes are checked now, values when they are read."""
        self.path = Path(path)
        index = read_index(self.path)
        self.layout, self.examples, self.about = index.layout, index.examples, index.about
        self._columns = _columns(self.layout)
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

    def _unpacked_rows(self, rows: range) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        labels = self._rows("labels.npy", rows)
        self._check_points({self.layout.labels[0].name: labels}, rows)
        return self._planes(rows), labels

    def _planes(self, rows: range) -> npt.NDArray[Any]:
        planes = self._rows("features.npy", rows)
        if not self.layout.real and planes.max(initial=0) > 1:
            raise FormatError(f"{self.path / 'features.npy'} holds {planes.max()}, only 0 and 1 are allowed")
        return planes

    def _rows(self, name: str, rows: range) -> npt.NDArray[Any]:
        """Return rows of a file. Raises FormatError if it has been truncated."""
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
        for first, part in parts:
            at = HEADER_BYTES + first * row_bytes
            while part:
                count = os.preadv(self._files[name].fileno(), [part], at)
                if not count:
                    raise FormatError(f"{self.path / name} has been truncated")
                part, at = part[count:], at + count
        return values
