"""The formats `dat1@1` and `dat2@1`: record layouts, validation of whole files, and the reader.

Cards: docs/formats/dat1.md and dat2.md. Both formats count rows from the bottom of the board: row 0 of a plane is the
bottom row, and a label is row * 19 + column in the same frame.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from kifu.arrays import Bytes, Indices
from kifu.datasets.examples import Batch, Dataset, LabelSpec, Layout, pack_planes
from kifu.datasets.formats import Format, detect_dat
from kifu.datasets.manifest import block_checks
from kifu.errors import FormatError, RecipeError, reading
from kifu.io import open_regular
from kifu.kernel import kernel
from kifu.planes.packing import DAT1, DAT2, Labels, Planes, Records, unpack_dat1, unpack_dat2
from kifu.planes.registry import find_plane_set
from kifu.registry import lookup

MAX_SEGMENTS = 10_000
"""Maximum number of concatenated files; all of KGS up to 2014 is 91."""

_BLOCK = 256
"""Records unpacked at a time: at most 0.7 MB of planes, which fits into a cache."""

# Results of `walk_dat1` and `walk_dat2`
LIMIT = 0  # the requested number of records was read
NO_MARK = 1  # the next bytes do not begin a record
CUT_OFF = 2  # the file ends within a record
BAD_LABEL = 3  # the label is not a point
BAD_BIT = 4  # a bit that must be constant is not


@kernel
def walk_dat1(data: Bytes, start: int, limit: int, result: Indices) -> int:
    """Validate at most `limit` dat1 records from byte `start` on.

    Args:
        result: [2] int64, receives the number of valid records and the byte at which the walk stopped.

    Returns:
        Why the walk stopped: LIMIT, NO_MARK, CUT_OFF, BAD_LABEL or BAD_BIT.
    """
    size = len(data)
    at = start
    for record in range(limit):
        result[0], result[1] = record, at
        if at + 2 > size or data[at] != 71 or data[at + 1] != 79:  # GO
            return NO_MARK
        if at + 365 > size:
            return CUT_OFF
        if data[at + 2] > 18 or data[at + 3] > 18:
            result[1] = at + 2
            return BAD_LABEL
        points = data[at + 4 : at + 365]
        every = np.uint8(255)
        for point in points:  # the compiler vectorizes this form: 30 GB/s instead of 2
            every = np.uint8(every & point)
        if every < 128:
            result[1] = at + 4
            while data[result[1]] >= 128:
                result[1] += 1
            return BAD_BIT
        at += 365
    result[0], result[1] = limit, at
    return LIMIT


@kernel
def walk_dat2(data: Bytes, start: int, limit: int, result: Indices) -> int:
    """Validate at most `limit` dat2 records from byte `start` on, like `walk_dat1`."""
    size = len(data)
    at = start
    for record in range(limit):
        result[0], result[1] = record, at
        if at + 2 > size or data[at] != 71 or data[at + 1] != 79:  # GO
            return NO_MARK
        if at + 322 > size:
            return CUT_OFF
        # The label is a little-endian 32-bit number; 360 is 1 * 256 + 104.
        if data[at + 3] > 1 or (data[at + 3] == 1 and data[at + 2] > 104) or data[at + 4] != 0 or data[at + 5] != 0:
            result[1] = at + 2
            return BAD_LABEL
        if data[at + 321] & 1:  # 7 * 361 bits leave one bit of padding
            result[1] = at + 321
            return BAD_BIT
        at += 322
    result[0], result[1] = limit, at
    return LIMIT


@dataclass(frozen=True, slots=True)
class DatLayout:
    """The bytes of a .dat format: `header(n)`, then n records, then `end`.

    Attributes:
        header_line: Text at the start of the header, with %d for the number of examples; b"" without a header.
        header_bytes: Size of the header: `header_line`, padded with zero bytes.
    """

    name: str
    planes: int
    record: np.dtype[np.void]
    unpack: Callable[[Records, Planes, Labels], None]
    walk: Callable[[Bytes, int, int, Indices], int]
    header_line: bytes = b""
    header_bytes: int = 0
    end: bytes = b"END"

    @property
    def record_bytes(self) -> int:
        """Size of a record: its mark, its label and its planes."""
        return self.record.itemsize

    def header(self, examples: int) -> bytes:
        """Return the header of a file with this number of examples. Raises RecipeError if it is negative."""
        if examples < 0:
            raise RecipeError(f"a {self.name} file cannot hold {examples} examples")
        return (self.header_line % examples).ljust(self.header_bytes, b"\0") if self.header_line else b""


DAT_LAYOUTS = {
    "dat1@1": DatLayout("dat1@1", 8, DAT1, unpack_dat1, walk_dat1),
    "dat2@1": DatLayout(
        "dat2@1",
        7,
        DAT2,
        unpack_dat2,
        walk_dat2,
        b"mlv2-n=%d-numplanes=7-imagewidth=19-imageheight=19-datatype=int-bpp=1\0\n",
        1024,
    ),
}
"""The layouts of the .dat formats by full name."""


def find_dat_layout(name: str) -> DatLayout:
    """Return the layout of a .dat format, by name with or without version. Raises RecipeError if it does not exist."""
    return lookup(DAT_LAYOUTS, name, "format")


Segment: TypeAlias = tuple[int, int]
"""The byte of the first record, and the number of records, of a .dat file, or of one of several concatenated ones."""


def check_segments(data: Bytes, layout: DatLayout) -> list[Segment]:
    """Return the segments of a .dat file, in order. Raises FormatError for any byte that differs from the format."""
    segments: list[Segment] = []
    position = first = 0  # byte of the next segment, and number of its first record
    while position < len(data):
        if len(segments) == MAX_SEGMENTS:
            raise FormatError(f"is more than {MAX_SEGMENTS:,} concatenated files, which is the limit")
        offset, examples = _check_segment(data, layout, position, first)
        segments.append((offset, examples))
        position = offset + examples * layout.record_bytes + len(layout.end)
        first += examples
    return segments


def _check_segment(data: Bytes, layout: DatLayout, position: int, first: int) -> Segment:
    """Validate the segment at byte `position`, whose first record is number `first` of the file."""
    limit = len(data)  # without a header: no file has as many records as bytes
    offset = position + layout.header_bytes
    if layout.header_line:
        limit = read_header(data[position:offset].tobytes(), layout, position)
        needed = offset + limit * layout.record_bytes + len(layout.end)
        if needed > len(data):
            raise FormatError(
                f"the header at byte {position:,} gives n={limit}, which ends at byte {needed:,} with its b'END', "
                f"but the file ends at byte {len(data):,}"
            )
    result = np.zeros(2, np.int64)
    status = layout.walk(data, offset, limit, result)
    records, at = int(result[0]), int(result[1])
    here = data[at : at + 4].tobytes()
    if (status == NO_MARK and not layout.header_line) or status == LIMIT:
        if here.startswith(layout.end):
            return offset, records
        if at == len(data):
            raise FormatError(f"ends after {first + records:,} records, at byte {at:,}, without b'END'")
        if status == LIMIT:
            raise FormatError(
                f"has {here[:3]!r} instead of b'END' at byte {at:,}, "
                f"after the {limit:,} records of the header at byte {position:,}"
            )
    raise FormatError(_record_problem(data, layout, status, first + records, at))


def _record_problem(data: Bytes, layout: DatLayout, status: int, record: int, at: int) -> str:
    """Return one line about the record at which a walk stopped; `at` is the last byte it looked at."""
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
    return f"record {record:,}: the last bit at byte {at:,}, which is padding, is set"


def read_header(header: bytes, layout: DatLayout, position: int) -> int:
    """Return the number of examples in a header; position: its byte in the file, for messages.

    Raises FormatError if the header is not, byte for byte, the one that kifu writes.
    """
    where = f"the header at byte {position:,}"
    if len(header) < layout.header_bytes:
        raise FormatError(f"{where} is cut off after {len(header)} of {layout.header_bytes:,} bytes")
    fields = header.partition(b"\0")[0].split(b"-")
    expected = layout.header_line.partition(b"\0")[0].split(b"-")
    n = b""
    for k, want in enumerate(expected):
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


def _map_file(path: Path) -> mmap.mmap:
    """Map a whole file for reading. Raises SourceError, and FormatError for an empty file."""
    with reading(path), open_regular(path) as file:
        if os.fstat(file.fileno()).st_size:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    raise FormatError(f"{path} is empty; even a data set of 0 examples ends with b'END'")


def _detect(head: bytes) -> Format:
    format = detect_dat(head)
    if format is None:
        raise FormatError(
            f"begins with {head!r}, which no data set does "
            "(b'GO' begins a dat1@1 file, b'END' an empty one, b'mlv2' a dat2@1 file)"
        )
    return format


_MOVE = LabelSpec("move", "int32", (), "the next move: row * 19 + column")


class Dat(Dataset):
    """A dat1 or dat2 file, mapped into memory and validated; `kifu.open` returns one.

    A sequence like every `Dataset`: `dat[i]` is (planes [C, 19, 19] uint8 of 0 and 1, label int), a slice is (planes
    [n, C, 19, 19] uint8, labels [n] int32), and iteration yields the items of `dat[i]`. C is 8 for dat1@1 and 7 for
    dat2@1. Row 0 of the planes is the bottom row of the board, and a label is row * 19 + column in that frame. The
    arrays are copies and may be changed.

    Several concatenated files are read as one sequence. Opening validates the whole file: headers, counts against the
    size, and each record's mark, label and constant bits. Planes are not checked against the rules of Go. The file
    must not shrink while it is open.

    Attributes:
        spans: For each concatenated file, the byte of its first record and the number of its records.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open and validate a file. Raises FormatError, which names the byte, if it is in none of the formats."""
        self.path = Path(path)
        self._map = _map_file(self.path)
        data = np.frombuffer(self._map, np.uint8)
        try:
            self.format = _detect(data[:4].tobytes())
            self.dat_layout = DAT_LAYOUTS[self.format.name]
            self.spans = check_segments(data, self.dat_layout)
        except FormatError as error:
            raise FormatError(f"{self.path}: {error}") from None
        self.bytes = len(data)
        block_checks(self.path)[self.path.name].check(lambda size, at: data[at : at + size].data, 0, self.bytes)
        self.about: Mapping[str, Any] = {}
        plane_set = find_plane_set(self.format.plane_set)
        self.layout = Layout(plane_set.name, plane_set.plane_names, False, 19, 19, 0, plane_set.first_row, (_MOVE,))
        self._segments = [np.frombuffer(data, self.dat_layout.record, count, offset) for offset, count in self.spans]
        self._first = [0, *accumulate(count for _, count in self.spans)]
        self.examples = self._first[-1]

    @property
    def segments(self) -> int:
        """The number of concatenated files; 1 for a file as it was written."""
        return len(self._first) - 1

    def records(self) -> list[Records]:
        """Return the records of each concatenated file, [n] of dtype DAT1 or DAT2 (`kifu.planes.packing`), read-only.

        They map the file, and `close` fails while they exist.
        """
        return list(self._segments)

    def _read(self, start: int, stop: int) -> Batch:
        planes, labels = self._unpacked_rows(range(start, stop))
        rows = len(labels)
        return Batch(
            pack_planes(planes, self.layout), {"move": labels}, np.zeros(rows, np.uint64), np.full(rows, -1, np.int32)
        )

    def _unpacked_rows(self, rows: range) -> tuple[Planes, Labels]:
        if self._map.closed:
            raise ValueError(f"{self.path} is closed")
        planes = np.empty((len(rows), self.dat_layout.planes, 19, 19), np.uint8)
        labels = np.empty(len(rows), np.int32)
        done = 0
        while done < len(rows):
            k = bisect_right(self._first, rows[done]) - 1
            first, after = self._first[k], min(self._first[k + 1], rows.stop)
            records = self._segments[k][rows[done] - first : after - first : rows.step][:_BLOCK]
            part = slice(done, done + len(records))
            self.dat_layout.unpack(records, planes[part], labels[part])
            done += len(records)
        return planes, labels

    def close(self) -> None:
        """Close the file. The counts stay; reading examples then raises ValueError."""
        self._segments.clear()
        self._map.close()

    def __repr__(self) -> str:
        joined = f", {self.segments} files joined" if self.segments > 1 else ""
        return f"<Dat {str(self.path)!r}: {self.format.name}, {self.examples:,} examples{joined}>"


def read_records(path: Path, format: str, offset: int, start: int, stop: int) -> Records:
    """Read records of a dat1@1 or dat2@1 file without validating them.

    Raises FormatError if the file ends before the last record; offset: the byte of record 0, see `Dat.spans`.
    """
    dtype, count = DAT_LAYOUTS[format].record, stop - start
    with reading(path), open_regular(path) as file:
        records = np.fromfile(file, dtype, count, offset=offset + start * dtype.itemsize)
    if len(records) != count:
        raise FormatError(f"{path} has changed: it ends too early")
    return records
