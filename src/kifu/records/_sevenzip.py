"""7z archives, also in volumes, read as a stream of their members.

py7zr brings the decoders. Its own extraction is not used: it keeps the packed bytes of a whole archive in memory, and
refuses archives with names that would be unsafe as paths. Here a decoder is fed only as it needs input, so that memory
is bounded by the block, by `DECODER_LIMIT` and by the limits on headers. No thread is started; PPMd runs in a process
of its own.

Headers (7zFormat.txt and 7zIn.cpp of the LZMA SDK) are parsed here because py7zr spends up to 200 bytes on each byte of
a malicious header. They are limited to 64 MiB, 1,048,576 folders and 2,097,152 members, for each of which arrays take
at most 50 bytes. The compiled walks return a position, or -1 if the header is cut off or wrong.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from kifu.errors import DropReason, SourceError, first_line, missing_extras, printable
from kifu.io import utf8_name
from kifu.kernel import inline_kernel, kernel
from kifu.records._ppmd import PpmdProcess
from kifu.records._streams import RandomFile, read_at
from kifu.records.detect import LINK, count_kinds, is_record_member
from kifu.records.games import MEMBER_LIMIT, Bytes, RecordBlock, groups, make_block

CODER_LIMIT = 8
"""Maximum number of coders of a folder, and of streams of a coder."""

SIZE_LIMIT = 1 << 62
"""No file is larger."""

_OUTPUT_LIMIT = 62  # of a folder, which fit the bits of an int64


@inline_kernel
def _number(data: Bytes, position: int) -> tuple[int, int]:
    """Return the number at data[position] and the position after it; (-1, -1) if it is cut off or too large.

    The leading one bits of its first byte count the little-endian bytes that follow; its other bits are the high part.
    """
    if position >= len(data):
        return -1, -1
    first, width = int(data[position]), 0
    while width < 8 and first & (0x80 >> width):
        width += 1
    if position + width >= len(data):
        return -1, -1
    value = first & (0x7F >> width)
    for i in range(position + width, position, -1):
        if value > SIZE_LIMIT >> 8:
            return -1, -1
        value = value * 256 + int(data[i])
    return value, position + width + 1


@kernel
def read_numbers(data: Bytes, position: int, out: npt.NDArray[np.int64]) -> int:
    """Read as many numbers as `out` has room for, from data[position] on; return the position after them, or -1."""
    for k in range(len(out)):
        out[k], position = _number(data, position)
        if position < 0:
            break
    return position


@kernel
def scan_folders(data: Bytes, position: int, out: npt.NDArray[np.int64]) -> int:
    """List folders, from data[position] on; return the position after them, or -1.

    Fills out: [F, 4] int64: position; number of packed streams; number of outputs; index of the main output.
    """
    for k in range(len(out)):
        out[k, 0] = position
        coders, position = _number(data, position)
        if position < 0 or coders > CODER_LIMIT:
            return -1
        inputs, outputs = 0, 0
        for _coder in range(coders):
            if position >= len(data):
                return -1
            flags = int(data[position])
            position += 1 + max(flags & 0xF, 1)
            more_inputs, more_outputs, size = 1, 1, 0
            if flags & 0x10:
                more_inputs, position = _number(data, position)
                more_outputs, position = _number(data, position) if position >= 0 else (-1, -1)
            if flags & 0x20 and position >= 0:
                size, position = _number(data, position)
            if position < 0 or more_inputs > CODER_LIMIT or more_outputs > CODER_LIMIT or size > len(data) - position:
                return -1
            position += size
            inputs, outputs = inputs + more_inputs, outputs + more_outputs
        packed = inputs - outputs + 1
        if outputs < 1 or outputs > _OUTPUT_LIMIT or packed < 1:
            return -1
        bound = 0
        for i in range(2 * (outputs - 1)):
            value, position = _number(data, position)
            if position < 0:
                return -1
            if i % 2 and value < _OUTPUT_LIMIT:
                bound |= 1 << value
        for _stream in range(packed if packed > 1 else 0):
            _value, position = _number(data, position)
            if position < 0:
                return -1
        main = 0
        while bound >> main & 1:
            main += 1
        out[k, 1], out[k, 2], out[k, 3] = packed, outputs, main
    return position if position <= len(data) else -1


@kernel
def read_folder_sizes(
    data: Bytes, position: int, listed: npt.NDArray[np.int64], begin: npt.NDArray[np.int64], size: npt.NDArray[np.int64]
) -> int:
    """Read the sizes of folders, from data[position] on; return the position after them, or -1.

    Fills begin, [F] int64, the position of the sizes of each folder that `scan_folders` listed; and size, [F] int64,
    the size of its main output.
    """
    for k in range(len(listed)):
        begin[k] = position
        for output in range(listed[k, 2]):
            value, position = _number(data, position)
            if position < 0:
                return -1
            if output == listed[k, 3]:
                size[k] = value
    return position


@kernel
def divide_folders(
    data: Bytes,
    position: int,
    is_listed: bool,
    count: npt.NDArray[np.int64],
    unpacked: npt.NDArray[np.int64],
    out: npt.NDArray[np.int64],
) -> int:
    """Divide each folder into its members, of which the size of the last one is not listed.

    Without listed sizes, no folder may have several members. count and unpacked: [F] int64, members and size of each
    folder. Fills out: [S, 3] int64: folder, begin in the folder, and size of each member. Returns the position after
    the sizes; -1 if they are cut off, or larger than the folders.
    """
    row = 0
    for f in range(len(count)):
        begin = 0
        for k in range(count[f]):
            size = unpacked[f] - begin
            if k < count[f] - 1:
                size = -1
                if is_listed:
                    size, position = _number(data, position)
                if size < 0 or size > unpacked[f] - begin:
                    return -1
            out[row, 0], out[row, 1], out[row, 2] = f, begin, size
            begin += size
            row += 1
    return position


HEADER_LIMIT = 64 << 20
_FOLDER_LIMIT, _MEMBER_LIMIT = 1 << 20, 1 << 21

_END, _HEADER, _ARCHIVE_PROPERTIES, _MAIN_STREAMS, _FILES = 0x00, 0x01, 0x02, 0x04, 0x05
_PACK, _UNPACK, _SUBSTREAMS, _SIZES, _CRCS, _FOLDERS, _UNPACK_SIZES, _COUNTS = range(0x06, 0x0E)
_EMPTY_STREAMS, _EMPTY_FILES, _NAMES, _ATTRIBUTES = 0x0E, 0x0F, 0x11, 0x15
ENCODED_HEADER = 0x17

_UNIX_MODE, _LINK_MODE = 0x8000, 0xA  # in the attributes of a member, which may have the mode of Unix in its high half


class SevenZipError(Exception):
    """An archive that cannot be read, or not to its end. Its text is the reason, in one line."""


def damaged(reason: str) -> SevenZipError:
    """Return the error for an archive whose bytes are wrong."""
    return SevenZipError(f"the 7z is damaged: {reason}")


class Cursor:
    """A position in a header."""

    def __init__(self, data: Bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def take(self, count: int) -> Bytes:
        """Return the next bytes."""
        if count > len(self.data) - self.at:
            raise damaged("its header is cut off")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, limit: int = SIZE_LIMIT) -> int:
        """Return the next number. Raises SevenZipError, also if it is larger than `limit`."""
        first = int(self.take(1)[0])
        width = 8 - (first ^ 0xFF).bit_length()
        value = (first & (0x7F >> width)) << 8 * width | int.from_bytes(self.take(width).tobytes(), "little")
        if value > limit:
            raise damaged(f"its header has the number {value:,}, where at most {limit:,} is allowed")
        return value

    def numbers(self, count: int) -> npt.NDArray[np.int64]:
        """Return the next numbers. count: at most the number of bytes that are left, or an error is raised."""
        if count > len(self.data) - self.at:
            raise damaged("its header is cut off")
        values = np.empty(count, np.int64)
        self.moved(read_numbers(self.data, self.at, values))
        return values

    def moved(self, at: int) -> None:
        """Continue at the position that a kernel returned."""
        if at < 0:
            raise damaged("its header is cut off, or has wrong sizes")
        self.at = at

    def bits(self, count: int) -> npt.NDArray[np.bool_]:
        """Return the next bits."""
        return np.unpackbits(self.take(-(-count // 8)), count=count).view(np.bool_)

    def optional_bits(self, count: int) -> npt.NDArray[np.bool_]:
        """Return the next bits, which are left out if all are set."""
        return np.ones(count, np.bool_) if self.number() else self.bits(count)

    def checksums(self, count: int) -> npt.NDArray[np.int64]:
        """Return the next checksums: [count] int64, -1 where one is not defined."""
        if count > 8 * (len(self.data) - self.at):
            raise damaged("its header is cut off")
        is_defined = self.optional_bits(count)
        values = np.full(count, -1, np.int64)
        values[is_defined] = self.take(4 * int(is_defined.sum())).view("<u4")
        return values

    def require(self, kind: int, expected: int) -> None:
        if kind != expected:
            raise damaged(f"its header has an entry of type {kind} in place of {expected}")

    def properties(self) -> dict[int, Cursor]:
        """Return the entries up to the next end mark, by type."""
        entries = dict[int, Cursor]()
        while (kind := self.number()) != _END:
            entries[kind] = Cursor(self.take(self.number()))
        return entries


class Coder(NamedTuple):
    """A compression method or filter of a folder."""

    method: bytes
    properties: bytes | None
    inputs: int
    outputs: int


class Folder(NamedTuple):
    """A stream of members that are packed together, usually all of an archive."""

    coders: list[Coder]  # in the order of unpacking
    bound: list[int]  # the outputs of coders that are inputs of others
    packed: int

    @property
    def outputs(self) -> int:
        """Number of sizes that the header lists."""
        return sum(coder.outputs for coder in self.coders)

    @property
    def main_output(self) -> int:
        """Index of the output that is the content."""
        return min(set(range(self.outputs)) - set(self.bound))


def _read_folder(cursor: Cursor) -> Folder:
    coders = []
    for _ in range(cursor.number(CODER_LIMIT)):
        flags = cursor.number(0x3F)
        method = cursor.take(max(flags & 0xF, 1)).tobytes()
        inputs, outputs = (cursor.number(CODER_LIMIT), cursor.number(CODER_LIMIT)) if flags & 0x10 else (1, 1)
        properties = cursor.take(cursor.number()).tobytes() if flags & 0x20 else None
        coders.append(Coder(method, properties, inputs, outputs))
    inputs, outputs = sum(coder.inputs for coder in coders), sum(coder.outputs for coder in coders)
    bound = [(cursor.number(), cursor.number())[1] for _ in range(outputs - 1)]
    packed = inputs - len(bound)
    if not outputs or packed < 1:
        raise damaged("its header has a folder without content")
    for _ in range(packed if packed > 1 else 0):
        cursor.number()
    return Folder(coders, bound, packed)


@dataclass(frozen=True)
class Streams:
    """The packed streams of an archive and their division into members."""

    data: Bytes  # the header
    pack_begin: npt.NDArray[np.int64]  # [P + 1], start of each packed stream, from byte 32 on, and the end of the last
    folder_at: npt.NDArray[np.int64]  # [F], position of each folder in the header
    sizes_at: npt.NDArray[np.int64]  # [F], position of the sizes of its coders
    first_pack: npt.NDArray[np.int64]  # [F], its first packed stream
    checksum: npt.NDArray[np.int64]  # [F], CRC of each folder, -1 if it has none
    members: npt.NDArray[np.int64]  # [S, 3], folder, begin in it and size of each member with content
    member_checksum: npt.NDArray[np.int64]  # [S], CRC of each of them, -1 if it has none

    def folder(self, index: int) -> tuple[Folder, list[int], int, int]:
        """Return a folder, the sizes of its coders' outputs, and the begin and size of its first packed stream."""
        folder = _read_folder(Cursor(self.data, int(self.folder_at[index])))
        sizes = Cursor(self.data, int(self.sizes_at[index])).numbers(folder.outputs).tolist()
        first = int(self.first_pack[index])
        begin, end = self.pack_begin[first : first + 2].tolist()
        return folder, sizes, begin, end - begin


def read_streams(cursor: Cursor) -> Streams:
    """Parse the description of packed streams and folders. Raises SevenZipError."""
    kind, pack_begin = cursor.number(), np.zeros(1, np.int64)
    if kind == _PACK:
        pack_begin = _read_pack_info(cursor)
        kind = cursor.number()
    folders = _FolderTable(*(np.empty(0, np.int64) for _ in range(5)))
    if kind == _UNPACK:
        folders = _read_folders(cursor)
        kind = cursor.number()
    first_pack = np.cumsum(folders.packed) - folders.packed
    if folders.packed.sum() >= len(pack_begin) and len(first_pack):
        raise damaged("its header has more folders than packed streams")
    members, checksum = _read_substreams(cursor, kind == _SUBSTREAMS, folders)
    cursor.require(cursor.number() if kind == _SUBSTREAMS else kind, _END)
    return Streams(
        cursor.data, pack_begin, folders.at, folders.sizes_at, first_pack, folders.checksum, members, checksum
    )


class _FolderTable(NamedTuple):
    """[F] int64 each: see `Streams`; number of packed streams; size of the content."""

    at: npt.NDArray[np.int64]
    sizes_at: npt.NDArray[np.int64]
    packed: npt.NDArray[np.int64]
    unpacked: npt.NDArray[np.int64]
    checksum: npt.NDArray[np.int64]


def _read_pack_info(cursor: Cursor) -> npt.NDArray[np.int64]:
    """Return `Streams.pack_begin`."""
    begin, count = cursor.number(), cursor.number(_MEMBER_LIMIT)
    kind, sizes = cursor.number(), np.zeros(0, np.int64)
    if kind == _SIZES:
        sizes = cursor.numbers(count)
        kind = cursor.number()
    if kind == _CRCS:
        cursor.checksums(count)
        kind = cursor.number()
    cursor.require(kind, _END)
    if begin + sizes.sum(dtype=np.float64) > SIZE_LIMIT:
        raise damaged("its header has packed streams that are larger than any file")
    return begin + np.cumsum(np.concatenate([np.zeros(1, np.int64), sizes]))


def _read_folders(cursor: Cursor) -> _FolderTable:
    cursor.require(cursor.number(), _FOLDERS)
    count = cursor.number(_FOLDER_LIMIT)
    cursor.require(cursor.number(), 0)  # not in another stream
    listed = np.empty((count, 4), np.int64)
    cursor.moved(scan_folders(cursor.data, cursor.at, listed))
    cursor.require(cursor.number(), _UNPACK_SIZES)
    sizes_at, unpacked = np.empty((2, count), np.int64)
    cursor.moved(read_folder_sizes(cursor.data, cursor.at, listed, sizes_at, unpacked))
    checksum = np.full(count, -1, np.int64)
    kind = cursor.number()
    if kind == _CRCS:
        checksum = cursor.checksums(count)
        kind = cursor.number()
    cursor.require(kind, _END)
    return _FolderTable(listed[:, 0], sizes_at, listed[:, 1], unpacked, checksum)


def _read_substreams(
    cursor: Cursor, is_listed: bool, folders: _FolderTable
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return `Streams.members` and `Streams.member_checksum`. is_listed: False if each folder is one member."""
    count = np.ones(len(folders.at), np.int64)
    kind = cursor.number() if is_listed else _END
    if kind == _COUNTS:
        count = cursor.numbers(len(count))
        kind = cursor.number()
    if len(count) and (count.max() > _MEMBER_LIMIT or count.sum() > _MEMBER_LIMIT):
        raise damaged(f"its header has more than {_MEMBER_LIMIT:,} members")
    members = np.empty((int(count.sum()), 3), np.int64)
    cursor.moved(divide_folders(cursor.data, cursor.at, kind == _SIZES, count, folders.unpacked, members))
    if kind == _SIZES:
        kind = cursor.number()
    checksum = np.where(count == 1, folders.checksum, -1)[members[:, 0]]
    if kind == _CRCS:
        missing = np.flatnonzero(checksum < 0)
        checksum[missing] = cursor.checksums(len(missing))
        kind = cursor.number()
    cursor.require(kind, _END)
    return members, checksum


@dataclass(frozen=True)
class Listing:
    """The members of an archive, in its order."""

    streams: Streams
    names: Bytes  # UTF-8; that of member k is names[name_begin[k] : name_begin[k + 1] - 1], and a NUL
    name_begin: npt.NDArray[np.int64]  # [K + 1]
    is_file: npt.NDArray[np.bool_]  # [K], False for directories and symbolic links
    is_link: npt.NDArray[np.bool_]  # [K], symbolic links
    stream: npt.NDArray[np.int64]  # [K], row in `Streams.members`, -1 if the member is empty

    def name(self, k: int) -> bytes:
        """Return the raw name of member k."""
        return self.names[self.name_begin[k] : self.name_begin[k + 1] - 1].tobytes()


def read_listing(data: Bytes) -> Listing:
    """Parse a header that is not packed. Raises SevenZipError."""
    cursor = Cursor(data)
    cursor.require(cursor.number(), _HEADER)
    kind = cursor.number()
    if kind == _ARCHIVE_PROPERTIES:
        cursor.properties()
        kind = cursor.number()
    streams = read_streams(cursor if kind == _MAIN_STREAMS else Cursor(np.zeros(1, np.uint8)))
    if kind == _MAIN_STREAMS:
        kind = cursor.number()
    count, properties = 0, dict[int, Cursor]()
    if kind == _FILES:
        count = cursor.number(_MEMBER_LIMIT)
        properties = cursor.properties()
        kind = cursor.number()
    cursor.require(kind, _END)
    return _listing(streams, count, properties)


def _listing(streams: Streams, count: int, properties: dict[int, Cursor]) -> Listing:
    names, name_begin = _read_names(count, properties)
    is_empty = properties[_EMPTY_STREAMS].bits(count) if _EMPTY_STREAMS in properties else np.zeros(count, np.bool_)
    if count - int(is_empty.sum()) != len(streams.members):
        raise damaged(f"its header has {count - is_empty.sum():,} members for {len(streams.members):,} contents")
    is_file, is_link = ~is_empty, np.zeros(count, np.bool_)
    if _EMPTY_FILES in properties:
        is_file[is_empty] = properties[_EMPTY_FILES].bits(int(is_empty.sum()))
    if _ATTRIBUTES in properties:
        cursor = properties[_ATTRIBUTES]
        is_defined = cursor.optional_bits(count)
        cursor.require(cursor.number(), 0)  # not in another stream
        attributes = np.zeros(count, np.uint32)
        attributes[is_defined] = cursor.take(4 * int(is_defined.sum())).view("<u4")
        is_link = ((attributes & _UNIX_MODE) != 0) & (attributes >> 28 == _LINK_MODE)
    return Listing(
        streams, names, name_begin, is_file & ~is_link, is_link, np.where(is_empty, -1, np.cumsum(~is_empty) - 1)
    )


def _read_names(count: int, properties: dict[int, Cursor]) -> tuple[Bytes, npt.NDArray[np.int64]]:
    """Return `Listing.names`, with / between their parts, and `Listing.name_begin`."""
    text = "\0" * count
    if _NAMES in properties:
        cursor = properties[_NAMES]
        cursor.require(cursor.number(), 0)  # not in another stream
        try:
            text = cursor.data[cursor.at :].tobytes().decode("utf-16-le", "surrogatepass")
        except UnicodeDecodeError:
            raise damaged("its header has names that are not UTF-16") from None
    names = np.frombuffer(bytearray(text.replace("\\", "/").encode("utf-8", "surrogatepass")), np.uint8)
    ends = np.flatnonzero(names == 0) + 1
    if len(ends) != count or (count and ends[-1] != len(names)):
        raise damaged(f"its header has {len(ends):,} names for {count:,} members")
    return names, np.concatenate([np.zeros(1, np.int64), ends])


MAGIC = b"7z\xbc\xaf\x27\x1c"

DECODER_LIMIT = 512 << 20
"""Bytes of memory that the decoders of a folder may require: dictionaries of LZMA, models of PPMd."""

_START = struct.Struct("<6sBBLQQL")  # magic, version, CRC of the rest, then begin, size and CRC of the header
_ROWS_AT_ONCE = 1 << 14

_PIECE = 1 << 20  # bytes unpacked at once
_HELD_BACK = 64  # bytes that filters keep until they have seen what follows
_FEED, _SMALL_FEED = 64 << 10, 1 << 10
_EMPTY_FEEDS = 16  # decoders that have output left after their input need far fewer

_COPY, _LZMA, _LZMA2, _PPMD, _BZIP2, _BROTLI, _ENCRYPTION = (
    bytes.fromhex(method) for method in ("00", "030101", "21", "030401", "040202", "04f71102", "06f1")
)
_ENCRYPTED = "the 7z is encrypted, which is not supported"
_BOUNDED = {_COPY, _LZMA, _LZMA2, _BZIP2, _BROTLI}
"""Methods whose decoders keep their input until its output is asked for.

Others put out at once all that their input unpacks to, up to 32,768 times as much, so they are fed little.
"""


class _FolderStream:
    """The content of a folder, unpacked on demand."""

    def __init__(self, file: RandomFile, streams: Streams, index: int) -> None:
        folder, sizes, begin, packed = streams.folder(index)
        self._file, self._at, self._left = file, _START.size + begin, packed
        self._decoder = _make_decoder(folder, sizes, packed)
        self._is_bounded = folder.coders[0].method in _BOUNDED
        self._size, self._unpacked = sizes[folder.main_output], 0
        self._is_full = False
        self._empty_feeds = 0
        self._buffer = self._piece = memoryview(b"")
        self.position = 0

    def close(self) -> None:
        for decoder in self._decoder.chain:
            if isinstance(decoder, PpmdProcess):
                decoder.close()

    def read_into(self, view: memoryview) -> None:
        """Fill a buffer. Raises SevenZipError."""
        filled = 0
        while filled < len(view):
            piece = self._unpack(len(view) - filled)
            view[filled : filled + len(piece)] = piece
            filled += len(piece)

    def skip_to(self, position: int) -> None:
        """Go on to a later position. Raises SevenZipError."""
        while self.position < position:
            self._unpack(position - self.position)

    def _unpack(self, limit: int) -> memoryview:
        while not self._piece:
            # More than the rest would make decoders without an end mark invent bytes.
            size = min(_PIECE, self._size - self._unpacked)
            try:
                piece = self._decoder.decompress(self, size)
            except (SevenZipError, MemoryError):
                raise
            except Exception as error:  # of any decoder, each of which has its own
                raise damaged(f"a member cannot be unpacked ({first_line(error)})") from None
            self._piece = memoryview(piece)
            self._unpacked += len(piece)
            self._is_full = len(piece) > max(size - _HELD_BACK, 0)
            if not self._left and not self._is_full and not (piece and self._is_bounded):
                self._empty_feeds += 1
            if self._empty_feeds > _EMPTY_FEEDS:
                raise damaged("the packed data of a member ends too early")
        piece, self._piece = self._piece[:limit], self._piece[limit:]
        self.position += len(piece)
        return piece

    def read(self, size: int, /) -> bytes:
        """Return packed bytes, which the decoder requests; none if it still has output for those before."""
        if self._is_bounded and self._is_full:
            return b""
        feed = min(size, self._left, _FEED if self._is_bounded else _SMALL_FEED)
        if len(self._buffer) < feed:
            rest = bytes(self._buffer)
            self._buffer = memoryview(rest + self._fetch(min(_PIECE, self._left - len(rest))))
        data, self._buffer = bytes(self._buffer[:feed]), self._buffer[feed:]
        self._left -= len(data)
        return data

    def _fetch(self, size: int) -> bytes:
        try:
            data = read_at(self._file, self._at, size)
        except OSError as error:
            raise SevenZipError(str(error.strerror)) from None
        if len(data) < size:
            raise SevenZipError("the 7z is cut off")
        self._at += size
        return data.tobytes()


def _make_decoder(folder: Folder, sizes: Sequence[int], packed: int) -> Any:
    """Return py7zr's decoder of a folder. Raises SevenZipError; MissingExtra."""
    with missing_extras():
        from py7zr.compressor import SevenZipDecompressor
    if any(coder.method.startswith(_ENCRYPTION) for coder in folder.coders):
        raise SevenZipError(_ENCRYPTED)
    memory = sum(_required_memory(coder.method, coder.properties or b"", max(sizes)) for coder in folder.coders)
    if memory > DECODER_LIMIT:
        limit = DECODER_LIMIT >> 20
        raise SevenZipError(f"unpacking the 7z requires {memory >> 20:,} MiB of memory, the limit is {limit:,} MiB")
    ppmd = [k for k, coder in enumerate(folder.coders) if coder.method == _PPMD]
    keys = ("method", "properties", "numinstreams", "numoutstreams")
    coders = [dict(zip(keys, coder)) | ({"method": _COPY} if coder.method == _PPMD else {}) for coder in folder.coders]
    try:
        decoder = SevenZipDecompressor(coders, packed, list(sizes), None)
    except MemoryError:
        raise
    except Exception:  # the errors of all decoders, and asserts
        decoder = None
    if decoder is None or ppmd not in ([], [0]):
        methods = ", ".join(coder.method.hex() for coder in folder.coders)
        raise SevenZipError(f"the 7z uses compression methods that are not supported ({methods})")
    if ppmd:
        decoder.chain[0] = PpmdProcess(folder.coders[0].properties or b"")
    return decoder


def _required_memory(method: bytes, properties: bytes, unpacked: int) -> int:
    """Return the bytes of memory that a decoder requires, as far as this depends on the archive."""
    if method == _LZMA and len(properties) == 5:
        return min(int.from_bytes(properties[1:], "little"), unpacked)
    if method == _LZMA2 and len(properties) == 1 and properties[0] <= 40:
        return min((2 | properties[0] & 1) << (properties[0] // 2 + 11), unpacked)
    return int.from_bytes(properties[1:5], "little") if method == _PPMD else 0


def _open(file: RandomFile) -> Listing | None:
    """Parse the header; None if the archive has none, as one without members. Raises SevenZipError."""
    begin, size, checksum = locate_header(file)
    if size > HEADER_LIMIT:
        raise SevenZipError(f"the header of the 7z has {size:,} bytes, the limit is {HEADER_LIMIT:,}")
    header = read_at(file, begin, size)
    if len(header) < size:
        raise SevenZipError(f"the 7z is cut off: it should have {begin + size:,} bytes, and has {file.size:,}")
    if isal_zlib.crc32(header) != checksum:
        raise damaged("its header does not match its checksum")
    while len(header) and header[0] == ENCODED_HEADER:
        header = _unpack_header(file, header)
    return read_listing(header) if len(header) else None


def locate_header(file: RandomFile) -> tuple[int, int, int]:
    """Return position, size and checksum of the header. Raises SevenZipError."""
    start = read_at(file, 0, _START.size).tobytes()
    if len(start) < _START.size:
        raise SevenZipError("the 7z is cut off")
    _, version, _, checksum, begin, size, header_checksum = _START.unpack(start)
    if isal_zlib.crc32(start[12:]) != checksum:
        raise damaged("its first 32 bytes do not match their checksum")
    if version:
        raise SevenZipError(f"version {version} of 7z is not supported")
    return _START.size + begin, size, header_checksum


def _unpack_header(file: RandomFile, header: Bytes) -> Bytes:
    streams = read_streams(Cursor(header, 1))
    if len(streams.members) != 1:
        raise damaged("its header has no content")
    size = int(streams.members[0, 2])
    if size > HEADER_LIMIT:
        raise SevenZipError(f"the header of the 7z has {size:,} bytes, the limit is {HEADER_LIMIT:,}")
    unpacked = np.empty(size, np.uint8)
    with closing(_FolderStream(file, streams, 0)) as stream:
        stream.read_into(unpacked.data)
    if streams.member_checksum[0] not in (-1, isal_zlib.crc32(unpacked)):
        raise damaged("its header does not match its checksum")
    return unpacked


@kernel
def _are_records(names: Bytes, name_begin: npt.NDArray[np.int64], out: npt.NDArray[np.bool_]) -> None:
    """Clear those of out [K] whose names are not names of records."""
    for k in range(len(out)):
        out[k] = out[k] and is_record_member(names, name_begin[k], name_begin[k + 1] - 1)


class _Records(NamedTuple):
    """The records of an archive and their division into blocks.

    If there are only other files, a block without records counts them.
    """

    listing: Listing
    member: npt.NDArray[np.int64]  # [R], ordinals of the records
    size: npt.NDArray[np.int64]  # [R], 0 for those that are too large
    is_large: npt.NDArray[np.bool_]  # [R]
    others: npt.NDArray[np.int64]  # ordinals of all other files, and of links
    blocks: list[tuple[int, int]]  # the first record of each block, and the number after its last


def _find_records(file: RandomFile, block_bytes: int) -> _Records | None:
    listing = _open(file)
    if listing is None:
        return None
    is_record = listing.is_file.copy()
    _are_records(listing.names, listing.name_begin, is_record)
    member, others = np.flatnonzero(is_record), np.flatnonzero((listing.is_file & ~is_record) | listing.is_link)
    sizes = np.append(listing.streams.members[:, 2], 0)[listing.stream[member]]
    is_large = sizes > MEMBER_LIMIT
    sizes[is_large] = 0
    counts = np.stack([np.ones_like(sizes), sizes], 1)
    divided = list(groups(counts, np.array([_ROWS_AT_ONCE, block_bytes])))
    return _Records(listing, member, sizes, is_large, others, divided or [(0, 0)] * (len(others) > 0))


def sevenzip_blocks(source: str, file: RandomFile, block_bytes: int, *, first: int = 0) -> Iterator[RecordBlock]:
    """Yield the records of a 7z archive, in its order.

    Args:
        block_bytes: Maximum bytes of the members of a block, unless a single one is larger.
        first: Number of blocks to skip. Their folders are not unpacked, unless they go on in later blocks.

    Raises:
        MissingExtra: Py7zr is not installed.
        SourceError: The archive is encrypted, packed by an unsupported method, or needs too much memory; or,
            after all complete records, it is damaged or truncated.
    """
    try:
        records = _find_records(file, block_bytes)
    except SevenZipError as error:
        raise SourceError(f"{source}: {error}") from None
    if records is None:
        return
    with closing(_Reader(file, records)) as reader:
        for begin, stop in records.blocks[first:]:
            block, reason = reader.read_block(source, begin, stop)
            if len(block) or block.left_out:
                yield block
            if reason:
                raise SourceError(f"{source}: {reason}")


def count_sevenzip_blocks(file: RandomFile, block_bytes: int) -> int:
    """Return the number of blocks of `sevenzip_blocks`, by the header alone; damage is left for reading to report."""
    with suppress(SevenZipError):
        records = _find_records(file, block_bytes)
        return len(records.blocks) if records else 0
    return 0


class _Reader:
    def __init__(self, file: RandomFile, records: _Records) -> None:
        self._file, self._records = file, records
        self._folder = -1
        self._stream: _FolderStream | None = None

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def read_block(self, source: str, begin: int, stop: int) -> tuple[RecordBlock, str]:
        """Return records `begin` to `stop` - 1, or those of them before the first damage, and its reason."""
        records, reason = self._records, ""
        left_out = self._count_others(begin, stop)
        ends = np.cumsum(np.append(0, records.size[begin:stop])).tolist()
        data = np.empty(ends[-1], np.uint8)
        for k, start, end in zip(range(begin, stop), ends, ends[1:]):
            try:
                self._read_record(k, data[start:end])
            except SevenZipError as error:
                stop, reason = k, str(error)
                break
        members = records.member[begin:stop].tolist()
        names = [records.listing.name(member) for member in members]
        drops = (records.is_large[begin:stop] * int(DropReason.TOO_LARGE)).tolist()
        block = make_block(source, data, ends[1 : stop - begin + 1], members, names, drops)
        return replace(block, left_out=left_out), reason

    def _count_others(self, begin: int, stop: int) -> Counter[str]:
        """Return the number of other files up to the first record of the next block, by kind."""
        records = self._records
        first = records.member[begin] if begin else 0
        last = records.member[stop] if stop < len(records.member) else len(records.listing.is_file)
        at = np.searchsorted(records.others, [first, last])
        others, is_link = records.others[at[0] : at[1]], records.listing.is_link
        kinds = count_kinds(records.listing.name(k) for k in others[~is_link[others]].tolist())
        return kinds + Counter({LINK: int(is_link[others].sum())})

    def _read_record(self, k: int, target: Bytes) -> None:
        if not len(target):
            return
        listing, streams = self._records.listing, self._records.listing.streams
        row = int(listing.stream[self._records.member[k]])
        folder, begin, _ = streams.members[row].tolist()
        if self._stream is None or self._folder != folder:
            self.close()
            self._stream = None
            self._folder, self._stream = folder, _FolderStream(self._file, streams, folder)
        self._stream.skip_to(begin)
        self._stream.read_into(target.data)
        if streams.member_checksum[row] not in (-1, isal_zlib.crc32(target)):
            name = printable(utf8_name(listing.name(int(self._records.member[k]))))
            raise damaged(f"{name} does not match its checksum")
