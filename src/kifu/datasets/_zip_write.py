"""Zip files of .npy arrays whose members are compressed piece by piece, in any threads, and put together in order.

A deflate stream may be made of pieces, each of which ends at a byte: what one of them takes does not depend on those
before it, so that all can be made at the same time, as pigz does. A member of one zip takes no memory but that of a
piece. No file is larger than 4 GiB, so that nothing of zip64 is needed.
"""

from __future__ import annotations

import struct
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from kifu.atomic_io import AtomicFile, cannot_write
from kifu.datasets._folder import npy_header

Compression: TypeAlias = Literal["deflate", "fast", "stored"]
"""deflate: zlib's level 6, as KataGo and np.savez_compressed have it. fast: isal, for rows of human games in an
eighth of the time (300,000 against 36,000 rows a second), and 2.5 times the size. stored: not at all."""

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_VERSION = 20
_DATE = 1 << 5 | 1
"""1 January 1980, the earliest there is: a zip's bytes do not tell when it was made."""

_IN_MEMORY = 4 << 20
"""Bytes of a member that are kept in memory until its zip is written; more of them go to the disk."""

_LAST_BLOCK = b"\x03\x00"
"""An empty block, which ends a deflate stream."""


class Packed(NamedTuple):
    """One array's part of a piece. crc, size: of what `data` decompresses to."""

    data: bytes | memoryview
    crc: int
    size: int


def pack(values: npt.NDArray[Any], compression: Compression) -> Packed:
    """The part of a member that holds these values, which are contiguous."""
    raw = values.reshape(-1).view(np.uint8).data
    crc = isal_zlib.crc32(raw)
    if compression == "stored":
        return Packed(raw, crc, len(raw))
    if compression == "deflate" and values.any():  # of nothing but zeros isal makes as little, thirty times as fast
        deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
        return Packed(deflate.compress(raw) + deflate.flush(zlib.Z_SYNC_FLUSH), crc, len(raw))
    fast = isal_zlib.compressobj(1, isal_zlib.DEFLATED, -15)
    return Packed(fast.compress(raw) + fast.flush(isal_zlib.Z_SYNC_FLUSH), crc, len(raw))


class Member:
    """An array in the making, appended to piece by piece, before it is known how many rows it has."""

    def __init__(self, name: str, kind: np.dtype[Any], shape: tuple[int, ...], folder: Path) -> None:
        """shape: of a row. folder: where bytes go that would take too much memory; they have no name there."""
        self.name = name.encode()
        self._kind, self._shape = kind, shape
        self._data = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=str(folder))  # noqa: SIM115 - `close` does
        self._packed = self._crc = self._size = 0

    def append(self, part: Packed) -> None:
        """Raises OSError."""
        self._data.write(part.data)
        self._packed += len(part.data)
        self._crc = isal_zlib.crc32_combine(self._crc, part.crc, part.size)
        self._size += part.size

    def write(self, output: AtomicFile, rows: int, compressed: bool) -> bytes:
        """Writes the member with its local header, and returns its entry of the directory. Raises OSError."""
        text = npy_header(self._kind, (rows, *self._shape))
        crc = isal_zlib.crc32_combine(isal_zlib.crc32(text), self._crc, self._size)
        size, packed = len(text) + self._size, len(text) + self._packed
        if compressed:  # the .npy header as a block of its own that is not compressed
            text = struct.pack("<BHH", 0, len(text), len(text) ^ 0xFFFF) + text
            packed = len(text) + self._packed + len(_LAST_BLOCK)
        told = (0, 8 if compressed else 0, 0, _DATE, crc, packed, size, len(self.name), 0)
        at = output.size
        output.write(_LOCAL.pack(b"PK\3\4", _VERSION, *told) + self.name + text)
        self._data.seek(0)
        while some := self._data.read(1 << 20):
            output.write(some)
        if compressed:
            output.write(_LAST_BLOCK)
        return _CENTRAL.pack(b"PK\1\2", _VERSION, _VERSION, *told, 0, 0, 0, 0, at) + self.name

    def close(self) -> None:
        """Gives its room back."""
        self._data.close()


def write_zip(output: AtomicFile, members: Sequence[Member], rows: int, compressed: bool) -> None:
    """Writes a zip of these members. Raises OutputError."""
    try:
        entries = b"".join([member.write(output, rows, compressed) for member in members])
    except OSError as error:
        raise cannot_write(output.path, error) from None
    at = output.size
    output.write(entries + _END.pack(b"PK\5\6", 0, 0, len(members), len(members), len(entries), at, 0))
