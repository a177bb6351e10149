"""Sequential bytes of a file, plain or inflated, read into buffers of the caller.

Damage raises nothing here: the stream ends early and reports the reason in `damage`, so that all data before it can be
used.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from isal import igzip_lib

from kifu.records.games import MEMBER_LIMIT, Bytes

_CHUNK = 128 << 10  # compressed bytes fed at a time; what they inflate to still fits the processor's cache
_SCRATCH = 1 << 20
_XZ_MEMORY = 256 << 20  # an .xz file may require a 4 GiB dictionary; `xz -9` requires 65 MiB


class StreamFile(Protocol):
    """The required interface of an open, unbuffered file."""

    def read(self, size: int, /) -> bytes: ...
    def readinto(self, view: memoryview, /) -> int | None: ...
    def seek(self, offset: int, whence: int = ..., /) -> int: ...


class RandomFile(Protocol):
    """The required interface of an open file that is not read in order."""

    size: int

    def seek(self, offset: int, whence: int = ..., /) -> int: ...
    def readinto(self, view: memoryview, /) -> int | None: ...


def read_into(file: RandomFile, begin: int, view: memoryview) -> int:
    """Fill a buffer with the bytes of a file from `begin` on; return their number, fewer if it ends before."""
    file.seek(begin)
    filled = 0
    while filled < len(view) and (count := file.readinto(view[filled:])):
        filled += count
    return filled


def read_at(file: RandomFile, begin: int, size: int) -> Bytes:
    """Return bytes of a file; fewer if it ends before."""
    data = np.empty(size, np.uint8)
    return data[: read_into(file, begin, data.data)]


class PlainStream:
    """The bytes of an unbuffered file.

    `fill` fills a buffer unless the stream ends, and returns the number of bytes. `skip` skips fewer bytes if the
    stream ends. `damage` is the reason why it ended early, or "".
    """

    def __init__(self, file: StreamFile) -> None:
        self._file = file
        self.damage = ""

    def fill(self, view: memoryview) -> int:
        filled = 0
        while filled < len(view) and not self.damage:
            try:
                got = self._file.readinto(view[filled:])
            except OSError as error:
                self.damage = _reason(error)
                break
            if not got:
                break
            filled += got
        return filled

    def skip(self, count: int) -> None:
        try:
            self._file.seek(count, os.SEEK_CUR)
        except OSError:  # beyond any possible file
            self.damage = "it ends too early"


class InflatedStream:
    """The content of a .gz, .bz2 or .xz, with the interface of `PlainStream`.

    It may be several compressed streams in a row, zero bytes between them allowed. Checksums are verified. Bytes
    inflated by the same feed as the first damaged one are lost with it.
    """

    def __init__(self, file: StreamFile, engine: Callable[[], Any], errors: tuple[type[Exception], ...]) -> None:
        self._file = file
        self._new_engine = engine
        self._errors: tuple[type[Exception], ...] = (EOFError, OSError, *errors)
        self._engine = engine()
        self._pending = b""
        self._ended = False
        self.damage = ""

    def fill(self, view: memoryview) -> int:
        filled = 0
        while filled < len(view) and not self._ended:
            try:
                if self._engine.eof and not self._next_stream():
                    break
                piece = self._engine.decompress(self._feed(), len(view) - filled)
            except self._errors as error:
                self._ended, self.damage = True, _reason(error)
                break
            view[filled : filled + len(piece)] = piece
            filled += len(piece)
        return filled

    def _feed(self) -> bytes:
        if not self._engine.needs_input:
            return b""
        piece = self._pending or self._file.read(_CHUNK)
        self._pending = b""
        if not piece:
            raise EOFError("the compressed data ends too early")
        return piece

    def _next_stream(self) -> bool:
        rest = self._engine.unused_data.lstrip(b"\0")
        while not rest:
            piece = self._file.read(_CHUNK)
            if not piece:
                self._ended = True
                return False
            rest = piece.lstrip(b"\0")
        self._pending = rest
        self._engine = self._new_engine()
        return True

    def skip(self, count: int) -> None:
        scratch = memoryview(bytearray(min(count, _SCRATCH)))
        while count > 0 and not self._ended:
            count -= self.fill(scratch[: min(count, _SCRATCH)])


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, EOFError):
        return "the compressed data ends too early"
    return f"the compressed data is damaged ({error})"


ByteStream: TypeAlias = PlainStream | InflatedStream


def _igzip_stream(file: StreamFile, kind: int) -> InflatedStream:
    error = cast("type[Exception]", igzip_lib.IsalError)  # isal's type stubs declare it as an instance
    return InflatedStream(file, partial(igzip_lib.IgzipDecompressor, kind), (error,))


def open_stream(file: StreamFile) -> tuple[ByteStream, str]:
    """Return the stream for an unbuffered file, by its first bytes, and the name of its compression ("" if none).

    The file position is reset to the start.
    """
    head = file.read(10)
    file.seek(0)
    if head[:2] == b"\x1f\x8b":
        return _igzip_stream(file, igzip_lib.DECOMP_GZIP), "gz"
    # The fourth byte of a .bz2 is its level; then comes the magic number of a block, or of the end.
    if head[:3] == b"BZh" and head[4:] in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"):
        import bz2  # not every Python is built with bz2 and lzma

        return InflatedStream(file, bz2.BZ2Decompressor, (ValueError,)), "bz2"
    if head[:6] == b"\xfd7zXZ\0":
        import lzma

        engine = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
        return InflatedStream(file, engine, (lzma.LZMAError,)), "xz"
    return PlainStream(file), ""


def inflate_into(packed: memoryview, target: memoryview) -> bool:
    """Inflate raw deflate data into `target` without another copy; return whether it has exactly that length."""
    stream = _igzip_stream(BytesIO(packed), igzip_lib.DECOMP_DEFLATE)
    return stream.fill(target) == len(target) and stream.fill(memoryview(bytearray(1))) == 0


def rest_is_zero(stream: ByteStream) -> bool:
    """Read a stream to its end, or to the first byte that is not zero; return False if there is one."""
    scratch = np.empty(_SCRATCH, np.uint8)
    while count := stream.fill(scratch.data):
        if scratch[:count].any():
            return False
    return True


def read_whole(stream: ByteStream, data: Bytes, filled: int) -> Bytes | None:
    """Return the rest of a stream after data[:filled]; None if it is larger than `MEMBER_LIMIT`."""
    while filled == len(data):
        if filled > MEMBER_LIMIT:
            return None
        grown = np.empty(min(4 * filled, MEMBER_LIMIT + 1), np.uint8)
        grown[:filled] = data
        filled += stream.fill(grown.data[filled:])
        data = grown
    return data[:filled] if filled <= MEMBER_LIMIT else None
