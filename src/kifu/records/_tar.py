"""Tar archives: a compiled walk over their headers, without Python code per member.

Reads ustar (POSIX.1-1988), pax (POSIX.1-2001), the GNU format and the V7 format. The layouts are those of the pax page
of POSIX.1-2017 and of the GNU tar manual ("Basic Tar Format"). A global pax header is skipped: it should not name or
size members. Members are numbered as by Python's tarfile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason, SourceError
from kifu.kernel import inline_kernel, kernel
from kifu.records._streams import ByteStream, rest_is_zero
from kifu.records.detect import OTHER, OTHER_LINK, OTHER_SPECIAL, count_listed, is_record_member, list_other
from kifu.records.games import MEMBER_LIMIT, Bytes, RecordBlock

HEADER = 512
"""Bytes of a tar header. Every entry of a tar starts at a multiple of it."""

# The metadata of one member, long names, pax records and sparse maps, is buffered whole. Real archives stay far below
# these limits.
_META_LIMIT = 1 << 20  # bytes of names and records
_META_HEADERS = 8
_MAP_LIMIT = 1 << 16  # bytes of the map of a sparse member
_SIZE_LIMIT = 1 << 55  # no file is as large, and sums of two such sizes still fit an int64

_REGULAR, _OLD_REGULAR, _CONTIGUOUS, _DIRECTORY, _LINK, _SYMBOLIC = 0x30, 0x00, 0x37, 0x35, 0x31, 0x32
_GNU_NAME, _GNU_LINK, _GNU_SPARSE = 0x4C, 0x4B, 0x53
_PAX, _SOLARIS_PAX, _PAX_GLOBAL = 0x78, 0x58, 0x67

_UNREADABLE, _TOO_LARGE = int(DropReason.UNREADABLE), int(DropReason.TOO_LARGE)

# Return values of _walk.
_MORE, _END, _DAMAGED = 0, 1, 2
# Indexes into its state.
_POSITION, _ORDINAL, _ROWS, _NAME_BYTES, _NEED, _OTHERS = 0, 1, 2, 3, 4, 5
# Indexes into the metadata that _pax_records collects.
_PATH_BEGIN, _PATH_END, _SIZE, _SPARSE = 0, 1, 2, 3


@inline_kernel
def _number(data: Bytes, begin: int, end: int) -> int:
    """Parse a number field: octal digits up to a space or NUL, or base 256 (GNU); -1 if invalid or too large."""
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
    """Classify the 512 bytes from `begin`: 1 a tar header with a valid checksum, 0 all zero (end mark), -1 neither."""
    unsigned = 0
    high = 0
    for i in range(begin, begin + HEADER):
        unsigned += int(data[i])
        high += int(data[i] >> 7)
    if unsigned == 0:
        return 0
    for i in range(begin + 148, begin + 156):  # the checksum field itself counts as spaces
        unsigned += 0x20 - int(data[i])
        high -= int(data[i] >> 7)
    stored = _number(data, begin + 148, begin + 156)
    # Some old programs summed signed bytes.
    return 1 if stored == unsigned or (stored >= 0 and stored == unsigned - 256 * high) else -1


@inline_kernel
def _pax_records(data: Bytes, begin: int, end: int, metadata: npt.NDArray[np.int64]) -> bool:
    r"""Collect path, size and GNU.sparse.* from "length key=value\n" records; return False if they are malformed."""
    record = begin
    while record < end and data[record] != 0:
        length = 0
        i = record
        while i < end and i < record + 8 and 0x30 <= data[i] <= 0x39:
            length = length * 10 + int(data[i]) - 0x30
            i += 1
        if i >= end or data[i] != 0x20 or length > end - record or record + length - 1 <= i:
            return False
        stop = record + length - 1
        key = i + 1
        equals = key
        while equals < stop and data[equals] != 0x3D:
            equals += 1
        if equals == stop or data[stop] != 0x0A:
            return False
        if _is_text(data, key, equals, b"path"):
            metadata[_PATH_BEGIN] = equals + 1
            metadata[_PATH_END] = stop
        elif _is_text(data, key, equals, b"size"):
            value = 0
            for i in range(equals + 1, stop):
                if not 0x30 <= data[i] <= 0x39 or value > _SIZE_LIMIT:
                    return False
                value = value * 10 + int(data[i]) - 0x30
            if value > _SIZE_LIMIT:
                return False
            metadata[_SIZE] = value
        elif equals - key > 11 and _is_text(data, key, key + 11, b"GNU.sparse."):
            metadata[_SPARSE] = 1
        record += length
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
def _copy_text(data: Bytes, begin: int, end: int, names: Bytes, target: int) -> int:
    """Copy data[begin:end] up to its first NUL to names[target:]; return the end of the copy."""
    for i in range(begin, end):
        if data[i] == 0:
            break
        names[target] = data[i]
        target += 1
    return target


@inline_kernel
def _metadata(data: Bytes, entry: int, filled: int, metadata: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Read the long names and pax records before a member, from `entry` on, into `metadata`."""
    metadata[:] = -1
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
            metadata[_PATH_BEGIN] = begin
            metadata[_PATH_END] = begin + size
        elif kind in (_PAX, _SOLARIS_PAX) and not _pax_records(data, begin, begin + size, metadata):
            return _DAMAGED, head
        head = begin + (size + HEADER - 1) // HEADER * HEADER
    return _DAMAGED, head


@inline_kernel
def _member_name(data: Bytes, head: int, metadata: npt.NDArray[np.int64], names: Bytes, target: int) -> int:
    if metadata[_PATH_BEGIN] >= 0:
        return _copy_text(data, metadata[_PATH_BEGIN], metadata[_PATH_END], names, target)
    # Only POSIX archives have the first part of a name here; the GNU format stores times in its place.
    if data[head + 345] != 0 and _is_text(data, head + 257, head + 263, b"ustar\0"):
        target = _copy_text(data, head + 345, head + 500, names, target)
        names[target] = 0x2F
        target += 1
    return _copy_text(data, head, head + 100, names, target)


@inline_kernel
def _after_sparse_map(data: Bytes, head: int, filled: int) -> int:
    """Return where a member in the old GNU sparse format starts, after a map of any number of 512-byte pieces."""
    position = head + HEADER
    more = data[head + 482] != 0
    while more:
        if position + HEADER > filled:
            return position + HEADER
        more = data[position + 504] != 0
        position += HEADER
    return position


class _TarRows(NamedTuple):
    """Fields of a `RecordBlock` and the list of `list_other`, to be filled.

    They hold a row per 512 bytes of data, and as many bytes of names and of the list as of data.
    """

    start: npt.NDArray[np.int64]
    stop: npt.NDArray[np.int64]
    member: npt.NDArray[np.int32]
    drop: npt.NDArray[np.uint8]
    names: Bytes
    name_offset: npt.NDArray[np.int64]
    others: Bytes


@kernel
def _walk(
    data: Bytes, filled: int, state: npt.NDArray[np.int64], metadata: npt.NDArray[np.int64], out: _TarRows
) -> int:
    """List the records that are complete in data[:filled], from state[_POSITION] on.

    On _DAMAGED, state[_POSITION] is the bad header. On _MORE, it is the start of the first incomplete entry, which may
    lie behind the data, and state[_NEED] the number of bytes from there that are needed. `metadata` is scratch space:
    [4].
    """
    names, others = out.names, out.others
    rows = 0
    name_end = 0
    others_end = 0
    status = _MORE
    while True:
        entry = state[_POSITION]
        status, head = _metadata(data, entry, filled, metadata)
        if status == _MORE:
            state[_NEED] = head - entry
            break
        if status == _DAMAGED:
            state[_POSITION] = head
            break
        if head < 0:
            break
        size = _number(data, head + 124, head + 136) if metadata[_SIZE] < 0 else metadata[_SIZE]
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
        name_stop = _member_name(data, head, metadata, names, name_end)
        if kind == _OLD_REGULAR and name_stop > name_end and names[name_stop - 1] == 0x2F:
            kind = _DIRECTORY  # V7 tar has no type flag for directories
        if _LINK <= kind < _CONTIGUOUS:
            size = 0  # links, devices and directories have no content, regardless of the size in the header
        is_file = kind in (_REGULAR, _OLD_REGULAR, _CONTIGUOUS, _GNU_SPARSE)
        if is_file and is_record_member(names, name_end, name_stop):
            reason = 0
            if kind == _GNU_SPARSE or metadata[_SPARSE] == 1:
                reason = _UNREADABLE
            elif size > MEMBER_LIMIT:
                reason = _TOO_LARGE
            elif begin + size > filled:
                status = _MORE
                state[_NEED] = begin + size - entry
                break
            out.start[rows] = begin if reason == 0 else 0
            out.stop[rows] = begin + size if reason == 0 else 0
            out.member[rows] = state[_ORDINAL]
            out.drop[rows] = reason
            name_end = name_stop
            rows += 1
            out.name_offset[rows] = name_end
        elif kind != _DIRECTORY:
            reason = OTHER if is_file else OTHER_LINK if kind in (_LINK, _SYMBOLIC) else OTHER_SPECIAL
            others_end = list_other(names, name_end, name_stop, reason, others, others_end)
        state[_ORDINAL] += 1
        state[_POSITION] = begin + (size + HEADER - 1) // HEADER * HEADER
    state[_ROWS] = rows
    state[_NAME_BYTES] = name_end
    state[_OTHERS] = others_end
    return status


def _walk_block(source: str, data: Bytes, filled: int, state: npt.NDArray[np.int64]) -> tuple[int, RecordBlock]:
    """Run `_walk` and return its status and a block of its rows."""
    max_rows = filled // HEADER
    out = _TarRows(
        start=np.empty(max_rows, np.int64), stop=np.empty(max_rows, np.int64), member=np.empty(max_rows, np.int32),
        drop=np.empty(max_rows, np.uint8), names=np.empty(len(data), np.uint8),
        name_offset=np.zeros(max_rows + 1, np.int64), others=np.empty(len(data), np.uint8),
    )  # fmt: skip
    status = _walk(data, filled, state, np.empty(4, np.int64), out)
    rows, name_bytes = int(state[_ROWS]), int(state[_NAME_BYTES])
    block = RecordBlock(
        source=source,
        data=data[:filled],
        start=out.start[:rows],
        stop=out.stop[:rows],
        member=out.member[:rows],
        names=out.names[:name_bytes].copy(),  # so that the large buffer can be freed
        name_offset=out.name_offset[: rows + 1],
        drop=out.drop[:rows],
        left_out=count_listed(out.others[: state[_OTHERS]]),
    )
    return status, block


def tar_blocks(source: str, stream: ByteStream, data: Bytes, filled: int, block_bytes: int) -> Iterator[RecordBlock]:
    """Yield the records of a tar; all other members but directories count in `RecordBlock.left_out`.

    Each buffer of `block_bytes` (or the size of one member) is one block, without a copy; the entry that its end cuts
    is moved to the start of the next. The first buffer is `data`, of which `filled` bytes are read.

    Raises SourceError, after all complete records, if the archive is damaged, lacks its end mark, as truncated files
    do, or goes on after it, as one whose middle is zero bytes.
    """
    state = np.zeros(6, np.int64)
    offset = 0  # of data[0] in the tar
    while True:
        status, block = _walk_block(source, data, filled, state)
        if len(block) or block.left_out:
            yield block
        position = int(state[_POSITION])
        if status == _END:
            if block.data[position:].any() or not rest_is_zero(stream):
                raise SourceError(f"{source}: the tar goes on after its end mark at byte {offset + position}")
            break
        if status == _DAMAGED:
            raise SourceError(f"{source}: {stream.damage or f'no valid tar header at byte {offset + position}'}")
        tail = block.data[position:]
        if position > filled:
            stream.skip(position - filled)
        data = np.empty(max(block_bytes, int(state[_NEED])), np.uint8)
        data[: len(tail)] = tail
        filled = len(tail) + stream.fill(data.data[len(tail) :])
        offset += position
        state[_POSITION] = 0
        if filled < state[_NEED]:
            missing = f"the tar is cut off: it should go on at least to byte {offset + int(state[_NEED])}"
            raise SourceError(f"{source}: {stream.damage or missing}")
    if stream.damage:
        raise SourceError(f"{source}: {stream.damage}")
