"""The format `npy@1`: a directory of arrays that np.load maps into memory. Card: docs/formats/npy.md.

The helpers for directories of .npy files, with their index, also serve `kifu.datasets.book_npy`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kifu.atomic_io import AtomicDirectory, AtomicFile
from kifu.datasets.examples import Batch, Dataset, Layout, pack_planes
from kifu.datasets.npz import HEADER_BYTES, npy_header
from kifu.datasets.writer import Writer, WriteReport, WrittenFile
from kifu.errors import FormatError, SourceError

INDEX = "examples.json"
"""Index file of a data set that is a directory; written last."""

_INDEX_BYTES = 64 << 20


class FolderIndex(BaseModel):
    """The index of a data set that is a directory.

    Attributes:
        format: Full name of the format.
        examples: Number of examples.
        layout: Planes and labels.
        about: Metadata from the writer.
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
        with index.open("rb") as file:
            text = file.read(_INDEX_BYTES)
        return FolderIndex.model_validate_json(text)
    except OSError as error:
        raise SourceError(f"{index} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc']))[:80]} {first['msg']}"
        raise FormatError(f"{index} is not an index of examples: {reason}") from None


def check_array(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Check that header and size of a .npy file are those that np.save writes for an array.

    Raises:
        FormatError: The header or the size differs.
        SourceError: The file cannot be read.
    """
    header = npy_header(dtype, shape)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            actual = file.read(len(header))
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None
    if actual != header:
        raise FormatError(f"{path} does not begin with the header of an array {dtype.str} {list(shape)}")
    expected = len(header) + dtype.itemsize * prod(shape)
    if size != expected:
        raise FormatError(f"{path} has {size:,} bytes, expected {expected:,}")


class ArrayFile:
    """A .npy file that grows by appending rows."""

    def __init__(
        self, folder: AtomicDirectory, name: str, dtype: np.dtype[Any], row_shape: tuple[int, ...], rows: int
    ) -> None:
        """Create the file.

        Args:
            folder: Its directory.
            name: Its file name.
            dtype: Dtype of the array.
            row_shape: Shape of a row.
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
    """An npy@1 directory, mapped into memory."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a directory. Headers and sizes are checked now, values when they are read.

        Raises:
            SourceError: A file cannot be read.
            FormatError: The index or a file is damaged.
        """
        self.path = Path(path)
        index = read_index(self.path)
        self.layout, self.examples, self.about = index.layout, index.examples, index.about
        self._arrays: list[npt.NDArray[Any]] = []
        for name, (dtype, row_shape) in _columns(self.layout).items():
            shape = (self.examples, *row_shape)
            check_array(self.path / name, dtype, shape)
            if self.examples:
                self._arrays.append(np.memmap(self.path / name, dtype, "r", HEADER_BYTES, shape))
            else:  # an empty array cannot be mapped
                self._arrays.append(np.empty(shape, dtype))

    def _read(self, start: int, stop: int) -> Batch:
        *labels, game, ply = (np.array(values[start:stop]) for values in self._open_arrays()[1:])
        planes = self._planes(slice(start, stop))
        named = zip((label.name for label in self.layout.labels), labels)
        return Batch(pack_planes(planes, self.layout), dict(named), game, ply)

    def close(self) -> None:
        """Close the files; see `Dataset.close`."""
        self._arrays.clear()

    def _unpacked_rows(self, rows: range) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        index = slice(rows.start, rows.stop, rows.step)
        labels = np.array(self._open_arrays()[1][index])
        self._check_points({self.layout.labels[0].name: labels}, rows)
        return self._planes(index), labels

    def _planes(self, rows: slice) -> npt.NDArray[Any]:
        planes = np.array(self._open_arrays()[0][rows])
        if not self.layout.real and planes.max(initial=0) > 1:
            raise FormatError(f"{self.path / 'features.npy'} holds {planes.max()}, only 0 and 1 are allowed")
        return planes

    def _open_arrays(self) -> list[npt.NDArray[Any]]:
        if not self._arrays:
            raise ValueError(f"{self.path} is closed")
        return self._arrays
