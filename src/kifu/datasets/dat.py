"""The formats `dat1@1` and `dat2@1`: their records as numpy dtypes, and a reader that takes any slice of a mapped file.

Cards: docs/formats/dat1.md and dat2.md. Row 0 of all planes is the BOTTOM row of the board, since the formats and the
plane sets they hold count rows from there; a label is row * 19 + column in that same frame.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kifu.datasets._check import check, recognise
from kifu.datasets.examples import Batch, Dataset, LabelSpec, Layout, store
from kifu.errors import FormatError, SourceError
from kifu.planes.packed import DAT1, DAT2, Labels, Planes, Records, unpack_dat1, unpack_dat2
from kifu.planes.registry import find_plane_set

_BLOCK = 256
"""Records unpacked at a time: at most 0.7 MB of planes, which a cache holds."""


class _Record(NamedTuple):
    record: np.dtype[np.void]
    unpack: Callable[[Records, Planes, Labels], None]


_RECORDS = {"dat1@1": _Record(DAT1, unpack_dat1), "dat2@1": _Record(DAT2, unpack_dat2)}


def _map_file(path: Path) -> mmap.mmap:
    """The whole file, for reading. Raises SourceError, and FormatError for an empty file."""
    try:
        if path.exists() and not path.is_file():
            raise SourceError(f"{path} is not a regular file")
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise SourceError(f"{path} cannot be read: {reason}") from None
    raise FormatError(f"{path} is empty; even a data set of 0 examples ends with b'END'")


_MOVE = LabelSpec("move", "int32", (), "the next move: row * 19 + column")


class Dat(Dataset):
    """A dat1 or dat2 file, mapped into memory and checked; `kifu.open` makes one.

    A sequence of `Dataset`: `dat[i]` is (planes [C, 19, 19] uint8 of 0 and 1, label int), a slice is (planes
    [n, C, 19, 19] uint8, labels [n] int32), iteration yields what `dat[i]` gives. C is 8 for dat1@1 and 7 for dat2@1.
    Row 0 of the planes is the bottom row of the board; a label is row * 19 + column in that frame. What is handed out
    are copies, free to be changed.

    Several files joined into one (with `cat`) are read as one sequence. Opening checks all of a file: headers, counts
    against the size, every record's mark, label and constant bits, END. It does not check the planes against the rules
    of Go. Raises SourceError if the file cannot be read and FormatError, which names the byte, if it is no such file.
    A file must not shrink while it is open.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._map = _map_file(self.path)
        data = np.frombuffer(self._map, np.uint8)
        try:
            self.format = recognise(data[:4].tobytes())
            segments = check(data, self.format)
        except FormatError as error:
            raise FormatError(f"{self.path}: {error}") from None
        self.bytes = len(data)
        self.about: Mapping[str, Any] = {}
        plane_set = find_plane_set(self.format.plane_set)
        self.layout = Layout(plane_set.name, plane_set.plane_names, False, 19, 19, 0, plane_set.first_row, (_MOVE,))
        self.examples = sum(segment.examples for segment in segments)
        self._record = _RECORDS[self.format.name]
        self.spans = [(segment.offset, segment.examples) for segment in segments]
        """Of each file joined into this one: the byte at which its records begin, and how many they are."""
        self._segments = [
            np.frombuffer(data, self._record.record, segment.examples, segment.offset) for segment in segments
        ]
        self._first = [0, *accumulate(segment.examples for segment in segments)]

    @property
    def segments(self) -> int:
        """How many files were joined into this one; 1 for a file as it was written."""
        return len(self._first) - 1

    def records(self) -> list[Records]:
        """The records as they lie in the file, read-only, in the order of the file: [n] for each file joined into it.

        Their dtype is DAT1 or DAT2 of `kifu.planes.packed`. They may not outlive the file: `close` fails while they do.
        """
        return list(self._segments)

    def read(self, start: int, stop: int) -> Batch:
        """Rows start to stop - 1. Which game and ply they are of only the manifest tells."""
        planes, labels = self._ready(range(start, stop))
        rows = len(labels)
        return Batch(
            store(planes, self.layout), {"move": labels}, np.zeros(rows, np.uint64), np.full(rows, -1, np.int32)
        )

    def _ready(self, rows: range) -> tuple[Planes, Labels]:
        if self._map.closed:
            raise ValueError(f"{self.path} is closed")
        planes = np.empty((len(rows), self.format.planes, 19, 19), np.uint8)
        labels = np.empty(len(rows), np.int32)
        done = 0
        while done < len(rows):
            k = bisect_right(self._first, rows[done]) - 1
            first, after = self._first[k], min(self._first[k + 1], rows.stop)
            records = self._segments[k][rows[done] - first : after - first : rows.step][:_BLOCK]
            part = slice(done, done + len(records))
            self._record.unpack(records, planes[part], labels[part])
            done += len(records)
        return planes, labels

    def close(self) -> None:
        """Gives the file back. The counts stay; reading examples then raises ValueError."""
        self._segments.clear()
        self._map.close()

    def __repr__(self) -> str:
        joined = f", {self.segments} files joined" if self.segments > 1 else ""
        return f"<Dat {str(self.path)!r}: {self.format.name}, {self.examples:,} examples{joined}>"


def read_records(path: Path, format: str, offset: int, start: int, stop: int) -> Records:
    """Records start to stop - 1 of those that begin at a byte of a dat1@1 or dat2@1 file; they are not checked.

    offset: see `Dat.spans`. Raises SourceError if the file cannot be read, FormatError if it ends before.
    """
    kind, count = _RECORDS[format].record, stop - start
    try:
        records = np.fromfile(path, kind, count, offset=offset + start * kind.itemsize)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(records) != count:
        raise FormatError(f"{path} is not the file that it was: it ends too early")
    return records
