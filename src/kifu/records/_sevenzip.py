"""7z archives, also in volumes, read as a stream of their members.

py7zr brings the decoders. Its own extraction is not used: it keeps the packed bytes of a whole archive in memory, and
refuses archives with names that would be unsafe as paths. Here a decoder is fed only as it needs input, so that memory
is bounded by the block, by `DECODER_LIMIT` and by the limits on headers. No thread is started; PPMd runs in a
process of its own.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from kifu.errors import DropReason, SourceError, first_line, missing_extras, printable
from kifu.files import utf8_name
from kifu.kernel import kernel
from kifu.records._ppmd import PpmdProcess
from kifu.records._sevenzip_header import (
    ENCODED_HEADER,
    HEADER_LIMIT,
    Cursor,
    Folder,
    Listing,
    SevenZipError,
    Streams,
    damaged,
    read_listing,
    read_streams,
)
from kifu.records.detect import LINK, count_kinds, is_record_member
from kifu.records.games import MEMBER_LIMIT, Bytes, RecordBlock, make_block
from kifu.records.splitting import groups

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


class SevenZipFile(Protocol):
    """The required interface of an open file, which `LocalFile` and `RemoteFile` have."""

    size: int

    def seek(self, offset: int, whence: int = ..., /) -> int: ...
    def readinto(self, view: memoryview, /) -> int | None: ...


def read_at(file: SevenZipFile, begin: int, size: int) -> Bytes:
    """Return bytes of a file; fewer if it ends before."""
    data = np.empty(size, np.uint8)
    file.seek(begin)
    filled = 0
    while filled < size and (count := file.readinto(data.data[filled:])):
        filled += count
    return data[:filled]


class _FolderStream:
    """The content of a folder, unpacked on demand."""

    def __init__(self, file: SevenZipFile, streams: Streams, index: int) -> None:
        """Start at the beginning of a folder. Raises SevenZipError."""
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
        """End the process of the decoder, if it has one."""
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
        """Return the next bytes, at most `limit`."""
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
    if _is_encrypted(folder):
        raise SevenZipError(_ENCRYPTED)
    memory = sum(_required_memory(coder.method, coder.properties or b"", max(sizes)) for coder in folder.coders)
    if memory > DECODER_LIMIT:
        limit = DECODER_LIMIT >> 20
        raise SevenZipError(f"unpacking the 7z requires {memory >> 20:,} MiB of memory, the limit is {limit:,} MiB")
    ppmd = [k for k, coder in enumerate(folder.coders) if coder.method == _PPMD]
    coders = [
        {
            "method": _COPY if coder.method == _PPMD else coder.method,
            "properties": coder.properties,
            "numinstreams": coder.inputs,
            "numoutstreams": coder.outputs,
        }
        for coder in folder.coders
    ]
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


def _is_encrypted(folder: Folder) -> bool:
    return any(coder.method.startswith(_ENCRYPTION) for coder in folder.coders)


def _required_memory(method: bytes, properties: bytes, unpacked: int) -> int:
    """Return the bytes of memory that a decoder requires, as far as this depends on the archive."""
    if method == _LZMA and len(properties) == 5:
        return min(int.from_bytes(properties[1:], "little"), unpacked)
    if method == _LZMA2 and len(properties) == 1 and properties[0] <= 40:
        return min((2 | properties[0] & 1) << (properties[0] // 2 + 11), unpacked)
    return int.from_bytes(properties[1:5], "little") if method == _PPMD else 0


def _open(file: SevenZipFile) -> Listing | None:
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


def locate_header(file: SevenZipFile) -> tuple[int, int, int]:
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


def _unpack_header(file: SevenZipFile, header: Bytes) -> Bytes:
    """Unpack a header that is itself a member. Raises SevenZipError."""
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

    Attributes:
        member: [R] int64. The ordinals of the records.
        size: [R] int64. Their sizes, 0 for those that are too large.
        is_large: [R] bool. Those that are too large.
        others: The ordinals of all other files, and of links.
        blocks: The first record of each block, and the number after its last. If there are only other files, a block
            without records counts them.
    """

    listing: Listing
    member: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    is_large: npt.NDArray[np.bool_]
    others: npt.NDArray[np.int64]
    blocks: list[tuple[int, int]]


def _find_records(file: SevenZipFile, block_bytes: int) -> _Records | None:
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


def sevenzip_blocks(source: str, file: SevenZipFile, block_bytes: int, *, first: int = 0) -> Iterator[RecordBlock]:
    """Yield the records of a 7z archive, in its order.

    Args:
        block_bytes: Maximum bytes of the members of a block, unless a single one is larger.
        first: Number of blocks to skip. Their folders are not unpacked, unless they go on in later blocks.

    Raises:
        MissingExtra: If py7zr is not installed.
        SourceError: If the archive is encrypted, packed by an unsupported method, or needs too much memory; and, after
            all complete records, if it is damaged or truncated.
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


def count_sevenzip_blocks(file: SevenZipFile, block_bytes: int) -> int:
    """Return the number of blocks of `sevenzip_blocks`, by the header alone; damage is left for reading to report."""
    with suppress(SevenZipError):
        records = _find_records(file, block_bytes)
        return len(records.blocks) if records else 0
    return 0


class _Reader:
    """Reads the records of an archive, in its order."""

    def __init__(self, file: SevenZipFile, records: _Records) -> None:
        self._file, self._records = file, records
        self._folder = -1
        self._stream: _FolderStream | None = None

    def close(self) -> None:
        """Close the current folder."""
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
        """Fill in the content of a record. Raises SevenZipError."""
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
