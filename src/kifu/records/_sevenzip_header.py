"""The headers of 7z archives (7zFormat.txt and 7zIn.cpp of the LZMA SDK): where each member is, and how it is packed.

They are parsed here because py7zr spends up to 200 bytes on each byte of a malicious header, and refuses the names of
members that would be unsafe as paths. Arrays take at most 50 bytes for each member. Headers are limited to 64 MiB,
1,048,576 folders and 2,097,152 members. The compiled walks return a position, or -1 if the header is cut off or wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel, kernel
from kifu.records.games import Bytes

CODER_LIMIT = 8
"""Maximum number of coders of a folder, and of streams of a coder."""

SIZE_LIMIT = 1 << 62
"""No file is larger."""

_OUTPUT_LIMIT = 62  # of a folder, which fit the bits of an int64


@inline_kernel
def _number(data: Bytes, at: int) -> tuple[int, int]:
    """Return the number at data[at] and the position after it; (-1, -1) if it is cut off or too large.

    The leading one bits of its first byte count the little-endian bytes that follow; its other bits are the high part.
    """
    if at >= len(data):
        return -1, -1
    first, width = int(data[at]), 0
    while width < 8 and first & (0x80 >> width):
        width += 1
    if at + width >= len(data):
        return -1, -1
    value = first & (0x7F >> width)
    for i in range(at + width, at, -1):
        if value > SIZE_LIMIT >> 8:
            return -1, -1
        value = value * 256 + int(data[i])
    return value, at + width + 1


@kernel
def read_numbers(data: Bytes, at: int, out: npt.NDArray[np.int64]) -> int:
    """Read as many numbers as `out` has room for, from data[at] on; return the position after them, or -1."""
    for k in range(len(out)):
        out[k], at = _number(data, at)
        if at < 0:
            break
    return at


@kernel
def scan_folders(data: Bytes, at: int, out: npt.NDArray[np.int64]) -> int:
    """List folders, from data[at] on; return the position after them, or -1.

    Args:
        data: [N] uint8, the header.
        out: [F, 4] int64, filled: position; number of packed streams; number of outputs; index of the main output.
    """
    for k in range(len(out)):
        out[k, 0] = at
        coders, at = _number(data, at)
        if at < 0 or coders > CODER_LIMIT:
            return -1
        inputs, outputs = 0, 0
        for _coder in range(coders):
            if at >= len(data):
                return -1
            flags = int(data[at])
            at += 1 + max(flags & 0xF, 1)
            more_inputs, more_outputs, size = 1, 1, 0
            if flags & 0x10:
                more_inputs, at = _number(data, at)
                more_outputs, at = _number(data, at) if at >= 0 else (-1, -1)
            if flags & 0x20 and at >= 0:
                size, at = _number(data, at)
            if at < 0 or more_inputs > CODER_LIMIT or more_outputs > CODER_LIMIT or size > len(data) - at:
                return -1
            at += size
            inputs, outputs = inputs + more_inputs, outputs + more_outputs
        packed = inputs - outputs + 1
        if outputs < 1 or outputs > _OUTPUT_LIMIT or packed < 1:
            return -1
        bound = 0
        for i in range(2 * (outputs - 1)):
            value, at = _number(data, at)
            if at < 0:
                return -1
            if i % 2 and value < _OUTPUT_LIMIT:
                bound |= 1 << value
        for _stream in range(packed if packed > 1 else 0):
            _value, at = _number(data, at)
            if at < 0:
                return -1
        main = 0
        while bound >> main & 1:
            main += 1
        out[k, 1], out[k, 2], out[k, 3] = packed, outputs, main
    return at if at <= len(data) else -1


@kernel
def read_folder_sizes(
    data: Bytes, at: int, listed: npt.NDArray[np.int64], begin: npt.NDArray[np.int64], size: npt.NDArray[np.int64]
) -> int:
    """Read the sizes of folders, from data[at] on; return the position after them, or -1.

    Args:
        data: [N] uint8, the header.
        listed: [F, 4] int64, see `scan_folders`.
        begin: [F] int64, filled: position of the sizes of each folder.
        size: [F] int64, filled: size of its main output.
    """
    for k in range(len(listed)):
        begin[k] = at
        for output in range(listed[k, 2]):
            value, at = _number(data, at)
            if at < 0:
                return -1
            if output == listed[k, 3]:
                size[k] = value
    return at


@kernel
def divide_folders(
    data: Bytes,
    at: int,
    is_listed: bool,
    count: npt.NDArray[np.int64],
    unpacked: npt.NDArray[np.int64],
    out: npt.NDArray[np.int64],
) -> int:
    """Divide each folder into its members; the size of the last one is not listed.

    Args:
        data: [N] uint8, the header.
        is_listed: False if the header has no sizes, which is correct if no folder has several members.
        count: [F] int64, number of members of each folder.
        unpacked: [F] int64, size of each folder.
        out: [S, 3] int64, filled: folder, begin in the folder, and size of each member.

    Returns:
        The position after the sizes; -1 if they are cut off, or larger than the folders.
    """
    row = 0
    for f in range(len(count)):
        begin = 0
        for k in range(count[f]):
            size = unpacked[f] - begin
            if k < count[f] - 1:
                size = -1
                if is_listed:
                    size, at = _number(data, at)
                if size < 0 or size > unpacked[f] - begin:
                    return -1
            out[row, 0], out[row, 1], out[row, 2] = f, begin, size
            begin += size
            row += 1
    return at


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

    def require(self, kind: int, wanted: int) -> None:
        if kind != wanted:
            raise damaged(f"its header has an entry of type {kind} in place of {wanted}")

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
    """A stream of members that are packed together, usually all of an archive.

    Attributes:
        coders: In the order of unpacking.
        bound: The outputs of coders that are inputs of others.
    """

    coders: list[Coder]
    bound: list[int]
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
    """The packed streams of an archive and their division into members.

    Attributes:
        data: [N] uint8, the header.
        pack_begin: [P + 1] int64. Start of each packed stream, counted from byte 32, and the end of the last.
        folder_at: [F] int64. Position of each folder in the header.
        sizes_at: [F] int64. Position of the sizes of its coders.
        first_pack: [F] int64. Its first packed stream.
        checksum: [F] int64. CRC of each folder, -1 if it has none.
        members: [S, 3] int64. Folder, begin in it and size of each member, in the order of the members with content.
        member_checksum: [S] int64. CRC of each of them, -1 if it has none.
    """

    data: Bytes
    pack_begin: npt.NDArray[np.int64]
    folder_at: npt.NDArray[np.int64]
    sizes_at: npt.NDArray[np.int64]
    first_pack: npt.NDArray[np.int64]
    checksum: npt.NDArray[np.int64]
    members: npt.NDArray[np.int64]
    member_checksum: npt.NDArray[np.int64]

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
    """The members of an archive, in its order.

    Attributes:
        names: UTF-8, each name ends with a NUL.
        name_begin: [K + 1] int64. The name of member k is names[name_begin[k]:name_begin[k + 1] - 1].
        is_file: [K] bool. False for directories and symbolic links.
        is_link: [K] bool. Symbolic links.
        stream: [K] int64. Row in `Streams.members`, -1 if the member is empty.
    """

    streams: Streams
    names: Bytes
    name_begin: npt.NDArray[np.int64]
    is_file: npt.NDArray[np.bool_]
    is_link: npt.NDArray[np.bool_]
    stream: npt.NDArray[np.int64]

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
