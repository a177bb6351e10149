"""What the formats that are folders of .npy files have in common: the index that is written last, and the headers."""

from __future__ import annotations

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
from kifu.datasets.examples import Layout
from kifu.datasets.formats import INDEX
from kifu.datasets.writer import Writer, WriteReport, WrittenFile
from kifu.errors import FormatError, SourceError

_INDEX_BYTES = 64 << 20

HEADER_BYTES = 128
"""What np.save puts before an array of up to some ten dimensions."""

_MAGIC = b"\x93NUMPY\x01\x00"
_GROWTH = 21
"""np.save leaves room for a first number of so many digits, so that a file may be appended to."""


def npy_header(kind: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """The bytes that np.save writes before an array's own; of one length whatever shape[0] is."""
    text = f"{{'descr': {kind.str!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    text += " " * (_GROWTH - len(repr(shape[0])))
    size = len(_MAGIC) + 2 + len(text) + 1
    text += " " * (-size % 64) + "\n"
    return _MAGIC + len(text).to_bytes(2, "little") + text.encode()


class FolderIndex(BaseModel):
    """What the index of a folder says."""

    model_config = ConfigDict(frozen=True)

    format: str
    examples: Annotated[int, Field(ge=0, le=10**12)]
    layout: Layout
    about: dict[str, Any]
    files: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,250}$")]]
    """In the order in which they were begun."""


def read_index(path: Path) -> FolderIndex:
    """The index of a folder. Raises SourceError, FormatError."""
    where = path / INDEX
    try:
        with where.open("rb") as file:
            text = file.read(_INDEX_BYTES)
        return FolderIndex.model_validate_json(text)
    except OSError as error:
        raise SourceError(f"{where} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc']))[:80]} {first['msg']}"
        raise FormatError(f"{where} is no index of examples: {reason}") from None


def check_array(path: Path, kind: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Raises FormatError or SourceError unless the file is, by header and size, the array that np.save wrote so."""
    header = npy_header(kind, shape)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            found = file.read(len(header))
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None
    if found != header:
        raise FormatError(f"{path} does not begin as an array of {kind.str} {list(shape)} does")
    if size != len(header) + kind.itemsize * prod(shape):
        raise FormatError(f"{path} has {size:,} bytes, not the {len(header) + kind.itemsize * prod(shape):,} it takes")


class ArrayFile:
    """A .npy file in the making, appended to row by row."""

    def __init__(
        self, folder: AtomicDirectory, name: str, kind: np.dtype[Any], shape: tuple[int, ...], rows: int
    ) -> None:
        """shape: of a row. rows: how many are foreseen; then the bytes need not be read again for their hash."""
        self._kind, self._shape = kind, shape
        self.name = name
        self.rows = 0
        self._output: AtomicFile = folder.file(name, npy_header(kind, (rows, *shape)))

    def append(self, values: npt.NDArray[Any]) -> None:
        """values: [n, ...] of any kind that fits."""
        self._output.write(np.ascontiguousarray(values, self._kind).reshape(-1).view(np.uint8).data)
        self.rows += len(values)

    def commit(self) -> WrittenFile:
        """Gives the file its name in its folder."""
        digest = self._output.commit(npy_header(self._kind, (self.rows, *self._shape)))
        return WrittenFile(self.name, self._output.size, digest)

    def give_up(self) -> None:
        """Removes it, unless it is committed."""
        self._output.__exit__(None, None, None)


class FolderWriter(Writer):
    """A `Writer` whose data set is a folder."""

    format: str

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(layout)
        self._folder = AtomicDirectory(path, INDEX)
        self._open: list[ArrayFile] = []
        self._written: list[WrittenFile] = []

    def _begin(self, name: str, kind: np.dtype[Any], shape: tuple[int, ...], rows: int) -> ArrayFile:
        file = ArrayFile(self._folder, name, kind, shape, rows)
        self._open.append(file)
        return file

    def _finish(self) -> None:
        """Ends all files that are open."""
        while self._open:
            self._written.append(self._open.pop(0).commit())

    def commit(self, about: Mapping[str, Any]) -> WriteReport:
        self._finish()
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
        for file in self._open:
            file.give_up()
        self._folder.__exit__(kind, error, trace)
