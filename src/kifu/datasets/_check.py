"""Checks that every byte of a `dat1@1` or `dat2@1` file is what the format says, and names the one that is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.datasets.formats import FORMATS, Format
from kifu.errors import FormatError
from kifu.kernel import kernel

Bytes = npt.NDArray[np.uint8]

MAX_SEGMENTS = 10_000
"""How many files joined into one are read; the whole of KGS up to 2014 is 91."""

# Why a walk over records stopped
LIMIT = 0  # it saw as many records as it was asked to
NO_MARK = 1  # the next bytes do not begin a record
CUT_OFF = 2  # the file ends within a record
BAD_LABEL = 3  # the label is no point
BAD_BIT = 4  # a bit that is the same in all records is not


class Segment(NamedTuple):
    """A run of records: one whole file, or one of several that were joined into it."""

    offset: int
    """Byte at which its first record begins."""
    examples: int


@kernel
def walk_dat1(data: Bytes, start: int, limit: int, found: npt.NDArray[np.int64]) -> int:
    """Walks at most `limit` dat1 records from byte `start` on. Returns why it stopped.

    found: [2] int64 receives the number of good records and the byte at which the walk stopped.
    """
    size = len(data)
    at = start
    for record in range(limit):
        found[0], found[1] = record, at
        if at + 2 > size or data[at] != 71 or data[at + 1] != 79:  # GO
            return NO_MARK
        if at + 365 > size:
            return CUT_OFF
        if data[at + 2] > 18 or data[at + 3] > 18:
            found[1] = at + 2
            return BAD_LABEL
        points = data[at + 4 : at + 365]
        every = np.uint8(255)
        for point in points:  # in this form the compiler takes many points at once: 30 GB/s against 2
            every = np.uint8(every & point)
        if every < 128:
            found[1] = at + 4
            while data[found[1]] >= 128:
                found[1] += 1
            return BAD_BIT
        at += 365
    found[0], found[1] = limit, at
    return LIMIT


@kernel
def walk_dat2(data: Bytes, start: int, limit: int, found: npt.NDArray[np.int64]) -> int:
    """Walks at most `limit` dat2 records from byte `start` on, as `walk_dat1` does."""
    size = len(data)
    at = start
    for record in range(limit):
        found[0], found[1] = record, at
        if at + 2 > size or data[at] != 71 or data[at + 1] != 79:  # GO
            return NO_MARK
        if at + 322 > size:
            return CUT_OFF
        # The label is 32 bits, lowest byte first; 360 is 1 * 256 + 104.
        if data[at + 3] > 1 or (data[at + 3] == 1 and data[at + 2] > 104) or data[at + 4] != 0 or data[at + 5] != 0:
            found[1] = at + 2
            return BAD_LABEL
        if data[at + 321] & 1:  # 7 * 361 bits leave one over
            found[1] = at + 321
            return BAD_BIT
        at += 322
    found[0], found[1] = limit, at
    return LIMIT


_WALKS: dict[str, Callable[[Bytes, int, int, npt.NDArray[np.int64]], int]] = {
    "dat1@1": walk_dat1,
    "dat2@1": walk_dat2,
}


def recognise(head: bytes) -> Format:
    """The format of a file that begins with these bytes (four, if it has so many). Raises FormatError if none."""
    if head.startswith(b"mlv2"):
        return FORMATS["dat2@1"]
    if head.startswith((b"GO", b"END")):
        return FORMATS["dat1@1"]
    raise FormatError(
        f"begins with {head[:4]!r}, as no data set does (b'GO' opens dat1@1, b'END' an empty dat1@1, b'mlv2' dat2@1)"
    )


def check(data: Bytes, layout: Format) -> list[Segment]:
    """The segments of a file of that format, in order. Raises FormatError unless every byte is accounted for."""
    segments: list[Segment] = []
    position = first = 0  # of the next segment, and of its first record
    while position < len(data):
        if len(segments) == MAX_SEGMENTS:
            raise FormatError(f"is more than {MAX_SEGMENTS:,} files joined into one, as many as are read")
        segment = _check_segment(data, layout, position, first)
        segments.append(segment)
        position = segment.offset + segment.examples * layout.record_bytes + len(layout.end)
        first += segment.examples
    return segments


def _check_segment(data: Bytes, layout: Format, position: int, first: int) -> Segment:
    """The segment at byte `position`, whose first record is number `first` of the file."""
    limit = len(data)  # no file has as many records as bytes
    offset = position + layout.header_bytes
    if layout.header_line:
        limit = read_header(data[position:offset].tobytes(), layout, position)
        needed = offset + limit * layout.record_bytes + len(layout.end)
        if needed > len(data):
            raise FormatError(
                f"the header at byte {position:,} says n={limit}, which ends at byte {needed:,} with its b'END', "
                f"but the file ends at byte {len(data):,}"
            )
    found = np.zeros(2, np.int64)
    status = _WALKS[layout.name](data, offset, limit, found)
    records, at = int(found[0]), int(found[1])
    here = data[at : at + 4].tobytes()
    if (status == NO_MARK and not layout.header_line) or status == LIMIT:
        if here.startswith(layout.end):
            return Segment(offset, records)
        if at == len(data):
            raise FormatError(f"ends after {first + records:,} records, at byte {at:,}, without b'END'")
        if status == LIMIT:
            raise FormatError(
                f"after the {limit:,} records of the header at byte {position:,}, at byte {at:,}, "
                f"stands {here[:3]!r}, not b'END'"
            )
    raise FormatError(_what_is_wrong(data, layout, status, first + records, at))


def _what_is_wrong(data: Bytes, layout: Format, status: int, record: int, at: int) -> str:
    """One line about the record at which a walk stopped; `at` is the walk's last byte."""
    if status == NO_MARK:
        return f"record {record:,} at byte {at:,} begins with {data[at : at + 2].tobytes()!r}, not b'GO'"
    if status == CUT_OFF:
        return f"record {record:,} at byte {at:,} is cut off after {len(data) - at} of {layout.record_bytes} bytes"
    if layout.name == "dat1@1":
        if status == BAD_LABEL:
            return (
                f"record {record:,}: row {data[at]}, column {data[at + 1]} at byte {at:,} are not both within 0 to 18"
            )
        return f"record {record:,}: byte {at:,} is {data[at]:#04x}, without the highest bit that every point has"
    if status == BAD_LABEL:
        label = int.from_bytes(data[at : at + 4].tobytes(), "little", signed=True)
        return f"record {record:,}: label {label} at byte {at:,} is not within 0 to 360"
    return f"record {record:,}: the last bit at byte {at:,} is set, but it only fills up the byte"


def read_header(header: bytes, layout: Format, position: int) -> int:
    """The number of examples that a header names. Raises FormatError unless it is, byte for byte, what we would write.

    position: the header's first byte in its file, for the message.
    """
    where = f"the header at byte {position:,}"
    if len(header) < layout.header_bytes:
        raise FormatError(f"{where} is cut off after {len(header)} of {layout.header_bytes:,} bytes")
    fields = header.partition(b"\0")[0].split(b"-")
    wanted = layout.header_line.partition(b"\0")[0].split(b"-")
    n = b""
    for k, want in enumerate(wanted):
        field = fields[k] if k < len(fields) else b""
        if want == b"n=%d":
            n = field[2:]
            if not (field.startswith(b"n=") and n.isdigit() and len(n) <= 15 and n == b"%d" % int(n)):
                raise FormatError(f"{where} has {field[:40]!r} where n=<number of examples> belongs")
        elif field != want:
            raise FormatError(f"{where} has {field[:40]!r} where {want!r} belongs")
    examples = int(n)
    if header != layout.header(examples):
        at = next(k for k, (a, b) in enumerate(zip(header, layout.header(examples))) if a != b)
        raise FormatError(f"{where} has {header[at : at + 8]!r} at its byte {at}, after its text")
    return examples
