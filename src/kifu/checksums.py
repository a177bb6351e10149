"""Checksums of files: one within a JSON object, of all its other bytes, and one for each block, which readers check."""

from __future__ import annotations

import base64
import re
import sys
from array import array
from collections.abc import Callable
from pathlib import Path

from blake3 import blake3
from isal.isal_zlib import crc32

from kifu.errors import FormatError

CHECKSUM_KEY = "kifu-blake3"
"""Key of a file's checksum in JSON and in the metadata of nets: the BLAKE3 of all other bytes, 64 digits."""

_CHECKSUM = re.compile(rb'%b\\?"\s*:\s*\\?"([0-9a-f]{64})' % CHECKSUM_KEY.encode())
"""Also as part of JSON that is a text in JSON."""

_LAST_CHECKSUM = re.compile(rb',\s*"%b\s*"(?=\s*}\s*$)' % _CHECKSUM.pattern)


def _checksum(data: bytes, at: int) -> bytes:
    view = memoryview(data)
    digest = blake3(view[:at])
    digest.update(b"0" * 64)
    digest.update(view[at + 64 :])
    return digest.hexdigest().encode()


def _checksum_at(data: bytes) -> int:
    """Return where the digits of a file's checksum begin, or -1 if it has none."""
    found = _CHECKSUM.match(data, max(data.rfind(CHECKSUM_KEY.encode()), 0))
    return found.start(1) if found else -1


def with_checksum(data: bytes) -> bytes:
    """Return a file whose checksum, so far `room_for_checksum`, is that of its bytes."""
    at = _checksum_at(data)
    return data[:at] + _checksum(data, at) + data[at + 64 :]


def room_for_checksum(text: str) -> str:
    """Return a JSON object with a last key for a checksum, for `with_checksum`."""
    return f'{text.rstrip().removesuffix("}").rstrip()},"{CHECKSUM_KEY}":"{"0" * 64}"}}'


def add_checksum(text: str) -> bytes:
    """Return a JSON object as the content of a file, with a checksum, which `read_small` verifies."""
    return with_checksum(f"{room_for_checksum(text)}\n".encode())


def without_checksum(data: bytes) -> bytes:
    """Return a JSON object without the last key, if that is its checksum."""
    return _LAST_CHECKSUM.sub(b"", data)


def is_intact(data: bytes) -> bool:
    """Return False if a file has a checksum that is not that of its bytes."""
    at = _checksum_at(data)
    return at < 0 or data[at : at + 64] == _checksum(data, at)


BLOCK_BYTES = 1 << 16
"""Size of a block with a CRC-32 of its own."""


class BlockSums:
    """The CRC-32 of each block of a file that is being written."""

    def __init__(self) -> None:
        self.values = array("I")
        self._size = 0

    def update(self, data: bytes | memoryview) -> None:
        """Append bytes."""
        view = memoryview(data)
        while len(view):
            inside = self._size % BLOCK_BYTES
            if not inside:
                self.values.append(0)
            part = view[: BLOCK_BYTES - inside]
            self.values[-1], self._size = crc32(part, self.values[-1]), self._size + len(part)
            view = view[len(part) :]

    def to_text(self) -> str:
        """Return all as base64 of little-endian words."""
        words = self.values[:]
        if sys.byteorder == "big":
            words.byteswap()
        return base64.b64encode(words).decode()


class BlockChecks:
    """Compares the blocks of a file with their CRC-32 when they are read for the first time."""

    def __init__(self, path: Path, sums: str) -> None:
        """Parse `BlockSums.to_text`; an empty text accepts all bytes."""
        self._path = path
        self._sums = array("I", base64.b64decode(sums))
        if sys.byteorder == "big":
            self._sums.byteswap()
        self._checked = bytearray(len(self._sums))

    def check(self, read: Callable[[int, int], bytes | memoryview], start: int, stop: int) -> None:
        """Check the blocks of some bytes; `read` returns at most so many bytes from a position, as `kifu.io.bytes_at`.

        Raises FormatError if they are damaged.
        """
        for k in range(start // BLOCK_BYTES, -(-stop // BLOCK_BYTES)) if self._sums else ():
            if k >= len(self._sums) or not self._checked[k]:
                begin = k * BLOCK_BYTES
                if k >= len(self._sums) or crc32(read(BLOCK_BYTES, begin)) != self._sums[k]:
                    raise FormatError(f"{self._path} is damaged: it has other bytes than its manifest lists")
                self._checked[k] = 1
