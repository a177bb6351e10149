"""Zip files of .npy arrays of known types and shapes, read some rows at a time; nothing of them is believed unchecked.

What a file says of itself has to be what its arrays take, byte for byte, before anything is made room for, and no more
is ever unpacked than the rows that are asked for.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt

from kifu.errors import FormatError, SourceError

_END = struct.Struct("<4s4H2LH")
_LONGEST_COMMENT = 0xFFFF
_LOCATOR_64 = 20
_LONGEST_DIRECTORY = 1 << 14
"""Bytes; Python's reader makes an object for each entry before anybody can look at it."""

_LONGEST_HEADER = 4096
_HEADER = re.compile(
    rb"\s*\{\s*'descr'\s*:\s*'([<>|=]?\w{2,8})'\s*,\s*'fortran_order'\s*:\s*False\s*,"
    rb"\s*'shape'\s*:\s*\((\d{1,12}(?:\s*,\s*\d{1,12}){0,7})\s*,?\s*\)\s*,?\s*\}\s*"
)


@dataclass(frozen=True, slots=True)
class StoredArray:
    """An array in a zip. member: its name there. shape: with the number of rows first. start: where its data begin in
    the member, in bytes."""

    member: str
    kind: np.dtype[Any]
    shape: tuple[int, ...]
    start: int


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Says of what Python's reader stumbles upon that the file is damaged."""
    try:
        yield
    except OSError as error:
        if error.strerror is None:
            raise FormatError(f"{path} is damaged: {error}") from None
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None
    # RuntimeError: encrypted; NotImplementedError: compressed by what Python does not know
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, KeyError, struct.error) as error:
        raise FormatError(f"{path} is damaged: {str(error)[:200]}") from None


class ArrayZip:
    """A zip of arrays, open. A context manager; for one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Raises SourceError, FormatError."""
        self.path = path
        self._streams: dict[str, IO[bytes]] = {}
        with _reading(path):
            _check_directory(path)
            self._zip = zipfile.ZipFile(path)

    def arrays(self) -> dict[str, StoredArray]:
        """All arrays by name, with or without .npy after it. Raises FormatError, also if two have one name."""
        found: dict[str, StoredArray] = {}
        size = self.path.stat().st_size
        for info in self._zip.infolist():
            name = info.filename.removesuffix(".npy")
            if name in found:
                raise FormatError(f"{self.path} has two arrays {name[:80]!r}")
            if info.compress_size > size:
                raise FormatError(f"{self.path} is damaged: {name[:80]!r} is larger than all of it")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise FormatError(f"{self.path}: {name[:80]!r} is neither stored nor deflated in it")
            with _reading(self.path), self._zip.open(info) as stream:
                found[name] = _read_header(self.path, info, stream)
        return found

    def read(self, array: StoredArray, start: int, stop: int) -> npt.NDArray[Any]:
        """Rows start to stop - 1 of an array, [stop - start, ...]. Raises FormatError, SourceError.

        Rows after those read last are found at once, earlier ones by unpacking the array from its beginning. Whether
        bytes are what their checksum says is known once all rows were read in order.
        """
        with _reading(self.path):
            stream = self._streams.get(array.member)
            if stream is None:
                stream = self._streams[array.member] = self._zip.open(array.member)
            row = array.kind.itemsize * int(np.prod(array.shape[1:]))
            stream.seek(array.start + start * row)
            data = stream.read((stop - start) * row)
            if stop == array.shape[0]:
                stream.read(1)  # so that the checksum is looked at
        if len(data) != (stop - start) * row:
            raise FormatError(f"{self.path} is damaged: {array.member} ends too early")
        return np.frombuffer(data, array.kind).reshape(stop - start, *array.shape[1:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Gives the file back."""
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()
        self._zip.close()


def _check_directory(path: Path) -> None:
    """Raises FormatError unless the file ends as a small zip does, by the end record that Python's reader takes."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _END.size - _LONGEST_COMMENT - _LOCATOR_64, 0))
        tail = file.read()
    at = len(tail) - _END.size
    if at < 0 or tail[at : at + 4] != b"PK\5\6" or tail[-2:] != b"\0\0":
        at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END.size:
        raise FormatError(f"{path} is cut off, or no npz file: it has no zip directory")
    if tail[max(at - _LOCATOR_64, 0) : at].startswith(b"PK\6\7"):
        raise FormatError(f"{path} is a zip64 file, as no training file is")
    directory = _END.unpack_from(tail, at)[5]
    if directory > _LONGEST_DIRECTORY:
        raise FormatError(f"{path} has a zip directory of {directory:,} bytes, where {_LONGEST_DIRECTORY:,} are plenty")


def _read_header(path: Path, info: zipfile.ZipInfo, stream: IO[bytes]) -> StoredArray:
    """Raises FormatError unless the member is, by header and size, an array of plain numbers in C order."""
    head = stream.read(8)
    wide = 4 if head[6:7] in (b"\2", b"\3") else 2
    length = int.from_bytes(stream.read(wide), "little")
    text = _HEADER.fullmatch(stream.read(min(length, _LONGEST_HEADER)))
    if head[:6] != b"\x93NUMPY" or text is None or text[1].endswith(b"O"):
        raise FormatError(f"{path}: {info.filename[:80]!r} does not begin as an array of numbers does")
    try:
        kind = np.dtype(text[1].decode())
    except TypeError:
        raise FormatError(f"{path}: {info.filename[:80]!r} has the type {text[1].decode()}") from None
    shape = tuple(int(number) for number in text[2].split(b","))
    start = 8 + wide + length
    size = kind.itemsize
    for number in shape:
        size *= number
    if info.file_size != start + size:
        raise FormatError(
            f"{path}: {info.filename[:80]!r} has {info.file_size:,} bytes, not the {start + size:,} of "
            f"{kind.str} {list(shape)}"
        )
    return StoredArray(info.filename, kind, shape, start)
