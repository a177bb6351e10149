"""Tar archives: a compiled walk over their headers, so that no Python runs per member.

Read are ustar (POSIX.1-1988), pax (POSIX.1-2001), the GNU format, and what V7 tar wrote before them. The layouts are
those of the pax page of POSIX.1-2017 and of the GNU tar manual ("Basic Tar Format"). A global pax header is passed
over: it is not expected to name or size members. Python's tarfile numbers the members in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason, SourceError
from kifu.kernel import inline_kernel, kernel
from kifu.records._streams import Stream
from kifu.records.detect import is_record
from kifu.records.games import MEMBER_LIMIT, Bytes, RecordBlock

HEADER = 512
"""Bytes of a tar header. Everything in a tar starts at a multiple of it."""

# What goes before one member, long names, pax records and sparse maps, is buffered whole; real ones are far from these.
_META_LIMIT = 1 << 20  # bytes of names and records
_META_HEADERS = 8
_MAP_LIMIT = 1 << 16  # bytes of the map of a sparse member
_SIZE_LIMIT = 1 << 55  # no file is as large, and sums of two such sizes still fit an int64

_REGULAR, _OLD_REGULAR, _CONTIGUOUS, _DIRECTORY, _LINK = 0x30, 0x00, 0x37, 0x35, 0x31
_GNU_NAME, _GNU_LINK, _GNU_SPARSE = 0x4C, 0x4B, 0x53
_PAX, _SOLARIS_PAX, _PAX_GLOBAL = 0x78, 0x58, 0x67

_UNREADABLE, _TOO_LARGE = int(DropReason.UNREADABLE), int(DropReason.TOO_LARGE)

# Return values of _walk.
_MORE, _END, _DAMAGED = 0, 1, 2
# Places in its state.
_POSITION, _ORDINAL, _ROWS, _NAME_BYTES, _NEED = 0, 1, 2, 3, 4
# Places in what _pax_records finds.
_PATH_BEGIN, _PATH_END, _SIZE, _SPARSE = 0, 1, 2, 3


@inline_kernel
def _number(data: Bytes, begin: int, end: int) -> int:
    """A number field: octal digits up to a space or NUL, or base 256 (GNU); -1 if it is neither, or too large."""
    value = 0
    if data[begin] & 0x80:
        if data[begin] != 0x80:
            return -1
        for i in range(begin + 1, end):
            value = value * 256 + int(data[i])
            if value > _SIZE_LIMIT:
                return -1
        return value
    i = begin
    while i < end and data[i] == 0x20:
        i += 1
    while i < end and 0x30 <= data[i] <= 0x37:
        value = value * 8 + int(data[i]) - 0x30
        i += 1
    while i < end and data[i] == 0x20:
        i += 1
    return value if i == end or data[i] == 0 else -1


@kernel
def header_status(data: Bytes, begin: int) -> int:
    """What the 512 bytes from `begin` are: 1 a tar header (its checksum fits), 0 all zero (end mark), -1 neither."""
    unsigned = 0
    high = 0
    for i in range(begin, begin + HEADER):
        unsigned += int(data[i])
        high += int(data[i] >> 7)
    if unsigned == 0:
        return 0
    for i in range(begin + 148, begin + 156):  # the checksum itself counts as spaces
        unsigned += 0x20 - int(data[i])
        high -= int(data[i] >> 7)
    stored = _number(data, begin + 148, begin + 156)
    # Some old programs summed signed bytes.
    return 1 if stored == unsigned or (stored >= 0 and stored == unsigned - 256 * high) else -1


@inline_kernel
def _pax_records(data: Bytes, begin: int, end: int, found: npt.NDArray[np.int64]) -> bool:
    """Reads "length key=value\\n" records for path, size and GNU.sparse.*; False if they are malformed."""
    at = begin
    while at < end and data[at] != 0:
        length = 0
        i = at
        while i < end and i < at + 8 and 0x30 <= data[i] <= 0x39:
            length = length * 10 + int(data[i]) - 0x30
            i += 1
        if i >= end or data[i] != 0x20 or length > end - at or at + length - 1 <= i:
            return False
        stop = at + length - 1
        key = i + 1
        equals = key
        while equals < stop and data[equals] != 0x3D:
            equals += 1
        if equals == stop or data[stop] != 0x0A:
            return False
        if _is_text(data, key, equals, b"path"):
            found[_PATH_BEGIN] = equals + 1
            found[_PATH_END] = stop
        elif _is_text(data, key, equals, b"size"):
            value = 0
            for i in range(equals + 1, stop):
                if not 0x30 <= data[i] <= 0x39 or value > _SIZE_LIMIT:
                    return False
                value = value * 10 + int(data[i]) - 0x30
            if value > _SIZE_LIMIT:
                return False
            found[_SIZE] = value
        elif equals - key > 11 and _is_text(data, key, key + 11, b"GNU.sparse."):
            found[_SPARSE] = 1
        at += length
    return True


@inline_kernel
def _is_text(data: Bytes, begin: int, end: int, text: bytes) -> bool:
    if end - begin != len(text):
        return False
    for i in range(len(text)):
        if data[begin + i] != text[i]:
            return False
    return True


@inline_kernel
def _copy_text(data: Bytes, begin: int, end: int, names: Bytes, at: int) -> int:
    """Copies data[begin:end] up to its first NUL to names[at:]; returns where the copy ends."""
    for i in range(begin, end):
        if data[i] == 0:
            break
        names[at] = data[i]
        at += 1
    return at


@inline_kernel
def _metadata(data: Bytes, entry: int, filled: int, found: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Passes over the long names and pax records before a member, from `entry` on, and notes what they say in `found`.

    Returns (_END, where the member's own header lies), (_MORE, up to where bytes are needed), (_DAMAGED, where), or
    (_END, -1) at the end mark.
    """
    found[:] = -1
    head = entry
    for _ in range(_META_HEADERS):
        if head + HEADER > filled:
            return _MORE, head + HEADER
        status = header_status(data, head)
        if status == 0 and head == entry:
            return _END, -1
        if status != 1:
            return _DAMAGED, head
        kind = data[head + 156]
        if kind not in (_GNU_NAME, _GNU_LINK, _PAX, _SOLARIS_PAX, _PAX_GLOBAL):
            return _END, head
        size = _number(data, head + 124, head + 136)
        begin = head + HEADER
        if size < 0 or begin + size - entry > _META_LIMIT:
            return _DAMAGED, head
        if begin + size > filled:
            return _MORE, begin + size
        if kind == _GNU_NAME:
            found[_PATH_BEGIN] = begin
            found[_PATH_END] = begin + size
        elif kind in (_PAX, _SOLARIS_PAX) and not _pax_records(data, begin, begin + size, found):
            return _DAMAGED, head
        head = begin + (size + HEADER - 1) // HEADER * HEADER
    return _DAMAGED, head


@inline_kernel
def _member_name(data: Bytes, head: int, found: npt.NDArray[np.int64], names: Bytes, at: int) -> int:
    """Writes a member's name to names[at:]; returns where it ends."""
    if found[_PATH_BEGIN] >= 0:
        return _copy_text(data, found[_PATH_BEGIN], found[_PATH_END], names, at)
    # Only POSIX magic has a name's first part there; the GNU format keeps times in its place.
    if data[head + 345] != 0 and _is_text(data, head + 257, head + 263, b"ustar\0"):
        at = _copy_text(data, head + 345, head + 500, names, at)
        names[at] = 0x2F
        at += 1
    return _copy_text(data, head, head + 100, names, at)


@inline_kernel
def _after_sparse_map(data: Bytes, head: int, filled: int) -> int:
    """Where the content of a member in the old GNU sparse format starts: its map may go on for many 512-byte pieces."""
    at = head + HEADER
    more = data[head + 482] != 0
    while more:
        if at + HEADER > filled:
            return at + HEADER
        more = data[at + 504] != 0
        at += HEADER
    return at


@kernel
def _walk(
    data: Bytes,
    filled: int,
    state: npt.NDArray[np.int64],
    found: npt.NDArray[np.int64],
    start: npt.NDArray[np.int64],
    stop: npt.NDArray[np.int64],
    member: npt.NDArray[np.int32],
    drop: npt.NDArray[np.uint8],
    names: Bytes,
    name_offset: npt.NDArray[np.int64],
) -> int:
    """Lists the records that lie whole in data[:filled], from state[_POSITION] on.

    One row per record in `start` .. `name_offset` (as in `RecordBlock`), which must hold a row for each 512 bytes of data,
    as `names` must hold len(data) bytes; `found` is room for the metadata of one member. Returns _END at the end mark;
    _DAMAGED, with state[_POSITION] at the bad header; _MORE, with state[_POSITION] where the first unfinished entry
    starts (it may lie behind the data), and state[_NEED] how many bytes from there on must be at hand to go on.
    """
    rows = 0
    name_end = 0
    status = _MORE
    while True:
        entry = state[_POSITION]
        status, head = _metadata(data, entry, filled, found)
        if status == _MORE:
            state[_NEED] = head - entry
            break
        if status == _DAMAGED:
            state[_POSITION] = head
            break
        if head < 0:
            break
        size = _number(data, head + 124, head + 136) if found[_SIZE] < 0 else found[_SIZE]
        kind = int(data[head + 156])
        begin = _after_sparse_map(data, head, filled) if kind == _GNU_SPARSE else head + HEADER
        if size < 0 or begin - head > _MAP_LIMIT:
            status = _DAMAGED
            state[_POSITION] = head
            break
        if begin > filled:
            status = _MORE
            state[_NEED] = begin - entry
            break
        name_stop = _member_name(data, head, found, names, name_end)
        if kind == _OLD_REGULAR and name_stop > name_end and names[name_stop - 1] == 0x2F:
            kind = _DIRECTORY  # V7 tar knew no type for it
        if _LINK <= kind < _CONTIGUOUS:
            size = 0  # links, devices and directories have no content, whatever their header says
        if kind in (_REGULAR, _OLD_REGULAR, _CONTIGUOUS, _GNU_SPARSE) and is_record(names, name_end, name_stop):
            reason = 0
            if kind == _GNU_SPARSE or found[_SPARSE] == 1:
                reason = _UNREADABLE
            elif size > MEMBER_LIMIT:
                reason = _TOO_LARGE
            elif begin + size > filled:
                status = _MORE
                state[_NEED] = begin + size - entry
                break
            start[rows] = begin if reason == 0 else 0
            stop[rows] = begin + size if reason == 0 else 0
            member[rows] = state[_ORDINAL]
            drop[rows] = reason
            name_end = name_stop
            rows += 1
            name_offset[rows] = name_end
        state[_ORDINAL] += 1
        state[_POSITION] = begin + (size + HEADER - 1) // HEADER * HEADER
    state[_ROWS] = rows
    state[_NAME_BYTES] = name_end
    return status


def _walk_block(source: str, data: Bytes, filled: int, state: npt.NDArray[np.int64]) -> tuple[int, RecordBlock]:
    """Runs `_walk` and makes a block of its rows."""
    room = filled // HEADER
    start, stop = np.empty(room, np.int64), np.empty(room, np.int64)
    member, drop = np.empty(room, np.int32), np.empty(room, np.uint8)
    names, name_offset = np.empty(len(data), np.uint8), np.zeros(room + 1, np.int64)
    status = _walk(data, filled, state, np.empty(4, np.int64), start, stop, member, drop, names, name_offset)
    rows, name_bytes = int(state[_ROWS]), int(state[_NAME_BYTES])
    return (
        status,
        RecordBlock(
            source=source,
            data=data[:filled],
            start=start[:rows],
            stop=stop[:rows],
            member=member[:rows],
            names=names[:name_bytes].copy(),  # so that the room for names is given back
            name_offset=name_offset[: rows + 1],
            drop=drop[:rows],
        ),
    )


def tar_blocks(source: str, stream: Stream, data: Bytes, filled: int, block_bytes: int) -> Iterator[RecordBlock]:
    """The records of a tar whose first bytes are data[:filled] and whose rest `stream` gives.

    Each buffer of `block_bytes` (or as much as one member takes) is one block, without a copy; the entry that its end
    cuts is moved to the start of the next. Raises SourceError, after all that is whole was given out, if the archive is
    damaged or ends without the end mark, as a file does that was cut off.
    """
    state = np.zeros(5, np.int64)
    offset = 0  # of data[0] in the tar
    while True:
        status, block = _walk_block(source, data, filled, state)
        if len(block):
            yield block
        at = int(state[_POSITION])
        if status == _END:
            stream.finish()
            break
        if status == _DAMAGED:
            raise SourceError(f"{source}: {stream.damage or f'no valid tar header at byte {offset + at}'}")
        tail = block.data[at:]
        if at > filled:
            stream.skip(at - filled)
        data = np.empty(max(block_bytes, int(state[_NEED])), np.uint8)
        data[: len(tail)] = tail
        filled = len(tail) + stream.fill(data.data[len(tail) :])
        offset += at
        state[_POSITION] = 0
        if filled < state[_NEED]:
            missing = f"the tar is cut off: it should go on at least to byte {offset + int(state[_NEED])}"
            raise SourceError(f"{source}: {stream.damage or missing}")
    if stream.damage:
        raise SourceError(f"{source}: {stream.damage}")
