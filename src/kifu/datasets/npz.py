"""Streaming reader and writer for .npz files, which are zip archives of .npy arrays.

The writer compresses members in pieces, in any number of threads, and joins them in order. A deflate stream may consist
of pieces that end at byte boundaries and do not refer to one another, as in pigz. Archives stay below 4 GiB, so zip64
is not needed.

The reader trusts nothing: names, types, shapes and sizes are checked against one another before any allocation, and
only the requested rows are decompressed.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from isal import isal_zlib

from kifu.arrays import Array
from kifu.errors import FormatError, KifuError, OutputError, SourceError
from kifu.io import AtomicFile, cannot_write, open_regular

HEADER_BYTES = 128
"""Size of the header of a .npy file; np.save writes this size for arrays of up to about ten dimensions."""

_MAGIC = b"\x93NUMPY\x01\x00"
_GROWTH = 21
"""np.save reserves this many digits for the first dimension, so that a file can be appended to."""

Compression: TypeAlias = Literal["deflate", "fast", "stored"]
"""deflate: zlib level 6, as KataGo and np.savez_compressed use. fast: isal; for rows of human games it takes an eighth
of the time (300,000 instead of 36,000 rows a second) and 2.5 times the size. stored: uncompressed."""

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_VERSION = 20
_DATE = 1 << 5 | 1
"""1 January 1980, the earliest date of a zip archive, so that its bytes do not depend on the time."""

_IN_MEMORY = 4 << 20
"""Bytes of a member that stay in memory until the archive is written; larger members spill to disk."""

_LAST_BLOCK = b"\x03\x00"
"""An empty block that ends a deflate stream."""

_MAX_COMMENT = 0xFFFF
_LOCATOR_64 = 20
_MAX_DIRECTORY = 1 << 14
"""Bytes; zipfile creates an object for each entry before any check is possible."""

_MAX_HEADER = 4096
_HEADER = re.compile(
    rb"\s*+\{\s*+'descr'\s*+:\s*+'([<>|=]?\w{2,8})'\s*+,\s*+'fortran_order'\s*+:\s*+False\s*+,"
    rb"\s*+'shape'\s*+:\s*+\((\d{1,12}(?:\s*+,\s*+\d{1,12}){0,7})\s*+,?\s*+\)\s*+,?\s*+\}\s*+"
)


def npy_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the header that np.save writes for an array; its length does not depend on shape[0]."""
    text = f"{{'descr': {dtype.str!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    text += " " * (_GROWTH - len(repr(shape[0])))
    size = len(_MAGIC) + 2 + len(text) + 1
    text += " " * (-size % 64) + "\n"
    return _MAGIC + len(text).to_bytes(2, "little") + text.encode()


class CompressedPiece(NamedTuple):
    """A compressed piece of an array, with the CRC-32 and the size of the uncompressed bytes."""

    data: bytes | memoryview
    crc: int
    size: int


def compress(values: Array, compression: Compression) -> CompressedPiece:
    """Compress a contiguous array as a piece of a member."""
    raw = values.reshape(-1).view(np.uint8).data
    crc = isal_zlib.crc32(raw)
    if compression == "stored":
        return CompressedPiece(raw, crc, len(raw))
    if compression == "deflate" and values.any():  # isal makes zeros as small, thirty times as fast
        deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
        return CompressedPiece(deflate.compress(raw) + deflate.flush(zlib.Z_SYNC_FLUSH), crc, len(raw))
    fast = isal_zlib.compressobj(1, isal_zlib.DEFLATED, -15)
    return CompressedPiece(fast.compress(raw) + fast.flush(isal_zlib.Z_SYNC_FLUSH), crc, len(raw))


class NpzMember:
    """An array of an archive, to which pieces are appended before its number of rows is known."""

    def __init__(self, name: str, dtype: np.dtype[Any], row_shape: tuple[int, ...], folder: Path) -> None:
        """Create an empty member; a large one takes an unnamed file in the folder."""
        self.name = name.encode()
        self._dtype, self._row_shape = dtype, row_shape
        self._data = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=str(folder))  # noqa: SIM115 - `close` does
        self._packed = self._crc = self._size = 0

    def append(self, piece: CompressedPiece) -> None:
        """Append a piece. Raises OSError."""
        self._data.write(piece.data)
        self._packed += len(piece.data)
        self._crc = isal_zlib.crc32_combine(self._crc, piece.crc, piece.size)
        self._size += piece.size

    def write(self, output: AtomicFile, rows: int, compressed: bool) -> bytes:
        """Write the member with its local header, and return its directory entry. Raises OSError."""
        header = npy_header(self._dtype, (rows, *self._row_shape))
        crc = isal_zlib.crc32_combine(isal_zlib.crc32(header), self._crc, self._size)
        size, packed = len(header) + self._size, len(header) + self._packed
        if compressed:  # the .npy header becomes an uncompressed block
            header = struct.pack("<BHH", 0, len(header), len(header) ^ 0xFFFF) + header
            packed = len(header) + self._packed + len(_LAST_BLOCK)
        fields = (0, 8 if compressed else 0, 0, _DATE, crc, packed, size, len(self.name), 0)
        at = output.size
        output.write(_LOCAL.pack(b"PK\3\4", _VERSION, *fields) + self.name + header)
        self._data.seek(0)
        while chunk := self._data.read(1 << 20):
            output.write(chunk)
        if compressed:
            output.write(_LAST_BLOCK)
        return _CENTRAL.pack(b"PK\1\2", _VERSION, _VERSION, *fields, 0, 0, 0, 0, at) + self.name

    def close(self) -> None:
        """Free the memory or the disk space."""
        self._data.close()


def write_npz(output: AtomicFile, members: Sequence[NpzMember], rows: int, compressed: bool) -> None:
    """Write an archive of these members. Raises OutputError."""
    try:
        entries = b"".join([member.write(output, rows, compressed) for member in members])
    except OutputError:
        raise
    except OSError as error:
        raise cannot_write(output.path, error) from None
    at = output.size
    output.write(entries + _END.pack(b"PK\5\6", 0, 0, len(members), len(members), len(entries), at, 0))


@dataclass(frozen=True, slots=True)
class StoredArray:
    """An array in an archive; its data begins at byte `start` of the member."""

    member: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int


@contextlib.contextmanager
def _damage_as_format_error(path: Path) -> Iterator[None]:
    try:
        yield
    except KifuError:
        raise
    except OSError as error:
        if error.strerror is None:
            raise FormatError(f"{path} is damaged: {error}") from None
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None
    # RuntimeError: encrypted; NotImplementedError: an unknown compression
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, KeyError, struct.error) as error:
        raise FormatError(f"{path} is damaged: {str(error)[:200]}") from None


class NpzReader:
    """An open archive of arrays. A context manager; for one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Open an archive. Raises SourceError or FormatError."""
        self.path = path
        self._streams: dict[str, IO[bytes]] = {}
        with contextlib.ExitStack() as stack, _damage_as_format_error(path):
            self._file = stack.enter_context(open_regular(path))
            _check_directory(path, self._file)
            self._zip = zipfile.ZipFile(self._file)
            self._close_file = weakref.finalize(self, stack.pop_all().close)

    def arrays(self) -> dict[str, StoredArray]:
        """Return all arrays by name, without the suffix .npy. Raises FormatError if one is damaged or duplicated."""
        arrays: dict[str, StoredArray] = {}
        size = os.fstat(self._file.fileno()).st_size
        for info in self._zip.infolist():
            name = info.filename.removesuffix(".npy")
            if name in arrays:
                raise FormatError(f"{self.path} has two arrays {name[:80]!r}")
            if info.compress_size > size:
                raise FormatError(f"{self.path} is damaged: {name[:80]!r} is larger than the whole file")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise FormatError(f"{self.path}: {name[:80]!r} is neither stored nor deflated")
            with _damage_as_format_error(self.path), self._zip.open(info) as stream:
                arrays[name] = _read_header(self.path, info, stream)
        return arrays

    def read(self, array: StoredArray, start: int, stop: int) -> Array:
        """Read rows of an array.

        Reading on from the last row read is cheap; earlier rows decompress the array from its start. The checksum is
        verified when all rows have been read in order.
        """
        with _damage_as_format_error(self.path):
            stream = self._streams.get(array.member)
            if stream is None:
                stream = self._streams[array.member] = self._zip.open(array.member)
            row = array.dtype.itemsize * int(np.prod(array.shape[1:]))
            stream.seek(array.start + start * row)
            data = stream.read((stop - start) * row)
            if stop == array.shape[0]:
                stream.read(1)  # makes zipfile verify the checksum
        if len(data) != (stop - start) * row:
            raise FormatError(f"{self.path} is damaged: {array.member} ends too early")
        return np.frombuffer(data, array.dtype).reshape(stop - start, *array.shape[1:])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()
        self._zip.close()
        self._close_file()


def _check_directory(path: Path, file: FileIO) -> None:
    """Raise FormatError unless the file ends like a small zip archive, judging by the end record that zipfile uses."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _END.size - _MAX_COMMENT - _LOCATOR_64, 0))
    tail = file.read()
    at = len(tail) - _END.size
    if at < 0 or tail[at : at + 4] != b"PK\5\6" or tail[-2:] != b"\0\0":
        at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END.size:
        raise FormatError(f"{path} is truncated or not an npz file: it has no zip directory")
    if tail[max(at - _LOCATOR_64, 0) : at].startswith(b"PK\6\7"):
        raise FormatError(f"{path} is a zip64 file; training files are not")
    directory = _END.unpack_from(tail, at)[5]
    if directory > _MAX_DIRECTORY:
        raise FormatError(f"{path} has a zip directory of {directory:,} bytes; the limit is {_MAX_DIRECTORY:,}")


def _read_header(path: Path, info: zipfile.ZipInfo, stream: IO[bytes]) -> StoredArray:
    """Parse the header of a member. Raises FormatError unless it is a C-ordered array of plain numbers."""
    name = info.filename[:80]
    head = stream.read(8)
    wide = 4 if head[6:7] in (b"\2", b"\3") else 2
    length = int.from_bytes(stream.read(wide), "little")
    text = _HEADER.fullmatch(stream.read(min(length, _MAX_HEADER)))
    if head[:6] != b"\x93NUMPY" or text is None or text[1].endswith(b"O"):
        raise FormatError(f"{path}: {name!r} does not begin with the header of an array of numbers")
    try:
        dtype = np.dtype(text[1].decode())
    except TypeError:
        raise FormatError(f"{path}: {name!r} has the unknown type {text[1].decode()}") from None
    shape = tuple(int(number) for number in text[2].split(b","))
    start = 8 + wide + length
    size = dtype.itemsize
    for number in shape:
        size *= number
    if info.file_size != start + size:
        raise FormatError(
            f"{path}: {name!r} has {info.file_size:,} bytes, not the {start + size:,} of {dtype.str} {list(shape)}"
        )
    return StoredArray(info.filename, dtype, shape, start)
