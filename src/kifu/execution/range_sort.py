"""Out-of-core sort: rows grouped by ranges of a key in bounded memory.

Data sets larger than memory are shuffled and compared this way, one range of hashes at a time. `RangeSort` does it in
one process. With an executor, jobs write range files (`write_ranges`), ranges that are too large are divided once more
(`split_ranges`), and other jobs read one range of all files (`load_range`). Rows with equal keys stay in the order in
which they were added, or in that of the shards and items they come from.

A range file holds rows divided by some bits of the key. It lies in the directory that all workers share, see
`Executor.spill_dir`, under a random name. The unnamed file of a `RangeSort` holds several such parts.

    for each range, and at the end, 8 bytes: where its rows begin, lowest byte first
    for each range with rows, a result as `kifu.execution.serialization` encodes it
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from kifu.errors import FormatError, OutputError, first_line
from kifu.execution.executor import SPILL_SUFFIX, Executor, Job
from kifu.execution.serialization import DAMAGE, decode, encode
from kifu.io import remove_file

Columns: TypeAlias = dict[str, npt.NDArray[Any]]
"""N rows: arrays [N, ...] by name."""

_FAN_OUT_BITS = 8
"""Maximum number of bits of the key by which rows are divided at a time, into 256 ranges."""

_MAX_BITS = 32
"""Rows that are equal in this many bits stay together, however many they are."""

_BUFFER_BYTES = 32 << 20
"""Size of the rows that a `RangeSort` divides at a time."""


def fan_out(rows: int, max_rows: int) -> int:
    """Return the number of bits by which to divide so many rows, so that few ranges exceed the maximum."""
    return min(max((5 * rows // (4 * max_rows)).bit_length(), 1), _FAN_OUT_BITS)


def concat_columns(parts: list[Columns]) -> Columns:
    """Return the rows of one or more parts, and empty the list."""
    buffer = [dict(rows) for rows in parts]
    parts.clear()
    if len(buffer) == 1:
        return buffer[0]
    # One column after another, so that the pieces of each are released before the next one.
    return {name: np.concatenate([rows.pop(name) for rows in buffer]) for name in list(buffer[0])}


def _append_ranges(file: IO[bytes], rows: Columns, key: str, common_bits: int, bits: int) -> npt.NDArray[np.int64]:
    """Append rows, range by range, and return the number of rows of each range."""
    number = (rows[key] << np.uint64(common_bits) >> np.uint64(64 - bits)).astype(np.uint8)
    order = np.argsort(number, kind="stable")
    ends = np.searchsorted(number[order], np.arange((1 << bits) + 1))
    ordered = {name: values[order] for name, values in rows.items()}
    origin = file.tell()
    starts = [origin + 8 * len(ends)]
    file.seek(starts[0])
    for first, stop in zip(ends[:-1].tolist(), ends[1:].tolist()):
        pieces = encode({name: values[first:stop] for name, values in ordered.items()}) if first < stop else []
        for piece in pieces:
            file.write(piece)
        starts.append(starts[-1] + sum(map(len, pieces)))
    file.seek(origin)
    file.write(struct.pack(f"<{len(starts)}Q", *starts))
    file.seek(starts[-1])
    return np.diff(ends)


def _read_piece(file: IO[bytes], origin: int, number: int) -> Iterator[Columns]:
    """Yield the rows of a range, unless there are none; origin: where `_append_ranges` began."""
    file.seek(origin + 8 * number)
    start, stop = struct.unpack("<2Q", file.read(16))
    if start < stop:
        file.seek(start)
        yield decode(file)


class SpillFile:
    """Results on disk, in a temporary file without a name. A context manager."""

    def __init__(self, folder: Path) -> None:
        """Open the file in a folder. Raises OutputError."""
        self._folder = folder
        self._count = 0
        try:
            self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by __exit__
        except OSError as error:
            raise _cannot_spill(folder, error) from None

    def write(self, value: Any) -> None:
        """Append a value, which can be pickled. Raises OutputError."""
        try:
            for piece in encode(value):
                self.file.write(piece)
        except OSError as error:
            raise _cannot_spill(self._folder, error) from None
        self._count += 1

    def read(self) -> Iterator[Any]:
        """Yield all values in order. Nothing can be written afterwards. Raises OutputError if the disk is full."""
        try:
            self.file.seek(0)
        except OSError as error:
            raise _cannot_spill(self._folder, error) from None
        for _ in range(self._count):
            yield decode(self.file)

    def __enter__(self) -> SpillFile:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):  # buffered data may not fit on a full disk
            self.file.close()


def _cannot_spill(folder: Path, error: OSError) -> OutputError:
    return OutputError(f"cannot spill to {folder}: {error.strerror}")


class RangeSort:
    """Groups rows by ranges of their keys: rows are added in any order, and iterated over once.

    Iteration yields the rows of one range after another, from the lowest keys on; within a range in the order in which
    they were added. Rows beyond the memory limit are written and read once, or twice if there are more ranges than are
    divided at a time. A context manager.
    """

    def __init__(self, key: str, max_rows: int, folder: Path, expected: int = 0, *, common_bits: int = 0) -> None:
        """Create an empty sort by the column `key`, [N] uint64, evenly distributed.

        Args:
            max_rows: Largest size of a range, and of the rows in memory, unless more rows have the highest 32 bits of
                the key in common.
            folder: Directory for the unnamed file of rows that exceed it.
            expected: Approximate number of rows; with more of them, ranges are divided once more.
            common_bits: How many of the highest bits are equal in all keys.
        """
        self._key, self._max_rows, self._folder, self._common_bits = key, max_rows, folder, common_bits
        self._expected = expected
        self._buffer: list[Columns] = []
        self._bytes = self._rows = self._bits = 0
        self._spill: SpillFile | None = None
        self._origins: list[int] = []
        self._counts: list[npt.NDArray[np.int64]] = []

    def add(self, rows: Columns) -> None:
        """Add rows; the arrays are kept, not copied. Raises OutputError."""
        self._append(rows)
        self._rows += len(rows[self._key])
        if self._spill is None and self._rows > self._max_rows and self._common_bits < _MAX_BITS:
            self._spill = SpillFile(self._folder)
            self._bits = fan_out(max(self._expected, self._rows), self._max_rows)
            earlier = self._buffer[::-1]
            self._buffer, self._bytes = [], 0
            while earlier:
                self._append(earlier.pop())

    def _append(self, rows: Columns) -> None:
        self._buffer.append(rows)
        self._bytes += sum(values.nbytes for values in rows.values())
        if self._spill is not None and self._bytes >= _BUFFER_BYTES:
            self._write(self._spill)

    def _write(self, spill: SpillFile) -> None:
        """Write the buffered rows."""
        if not self._buffer:
            return
        rows, self._bytes = concat_columns(self._buffer), 0
        try:
            self._origins.append(spill.file.tell())
            self._counts.append(_append_ranges(spill.file, rows, self._key, self._common_bits, self._bits))
        except OSError as error:
            raise _cannot_spill(self._folder, error) from None

    def __iter__(self) -> Iterator[Columns]:
        """Yield the rows of each range. Raises OutputError."""
        return map(concat_columns, self.pieces())

    def pieces(self) -> Iterator[list[Columns]]:
        """Yield the rows of each range as they were added or spilled, piece by piece. Raises OutputError."""
        if self._spill is None:
            if self._buffer:
                yield self._buffer
            return
        self._write(self._spill)
        common = self._common_bits + self._bits
        for number, count in enumerate(np.sum(self._counts, axis=0).tolist()):
            if count:
                with RangeSort(self._key, self._max_rows, self._folder, count, common_bits=common) as inner:
                    for origin in self._origins:
                        for rows in _read_piece(self._spill.file, origin, number):
                            inner.add(rows)
                    yield from inner.pieces()

    def __enter__(self) -> RangeSort:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._spill is not None:
            self._spill.__exit__(*exception)


class RangeFile(NamedTuple):
    """A range file. rows: [ranges] int64, the number of rows of each range."""

    name: str
    rows: npt.NDArray[np.int64]


class KeyRange(NamedTuple):
    """All rows of one range of keys."""

    files: tuple[str, ...]  # names of range files, in the order of their rows
    number: int  # index of the range in each of them
    rows: int
    common_bits: int  # how many of the highest bits are equal in all keys


def write_ranges(folder: Path, rows: Columns, key: str, common_bits: int, bits: int) -> RangeFile:
    """Write a range file, divided by `bits` of the column `key`, [N] uint64, after the `common_bits` of all keys."""
    path = folder / f"{uuid4().hex}{SPILL_SUFFIX}"
    try:
        with path.open("xb") as file:
            counts = _append_ranges(file, rows, key, common_bits, bits)
    except OSError as error:
        remove_file(path)
        raise _cannot_spill(folder, error) from None
    return RangeFile(path.name, counts)


def read_range(folder: Path, files: Sequence[str], number: int) -> Iterator[Columns]:
    """Yield the rows of one range, file by file. Raises FormatError if a file is damaged."""
    for name in files:
        try:
            with (folder / name).open("rb") as file:
                yield from _read_piece(file, 0, number)
        except (*DAMAGE, struct.error) as error:
            raise FormatError(f"{folder / name}: damaged: {first_line(error)}; remove {folder} and try again") from None


def load_range(folder: Path, rows: KeyRange) -> Columns:
    """Return all rows of a range. Raises FormatError if a file is damaged."""
    columns: Columns = {}
    stop = 0
    for piece in read_range(folder, rows.files, rows.number):
        if not columns:
            columns = {name: np.empty((rows.rows, *each.shape[1:]), each.dtype) for name, each in piece.items()}
        start, stop = stop, stop + len(next(iter(piece.values())))
        if stop > rows.rows:
            break
        for name, values in piece.items():
            columns[name][start:stop] = values
    if stop != rows.rows:
        raise FormatError(
            f"{folder}: its files do not have {rows.rows:,} rows of range {rows.number}; remove it and try again"
        )
    return columns


def collect_ranges(files: Sequence[RangeFile], common_bits: int) -> list[KeyRange]:
    """Return the ranges of all these files that have rows; common_bits: of the keys of one range."""
    if not files:
        return []
    names = tuple(file.name for file in files)
    rows = np.sum([file.rows for file in files], axis=0).tolist()
    return [KeyRange(names, number, count, common_bits) for number, count in enumerate(rows) if count]


_Part: TypeAlias = tuple[int, KeyRange, int]
"""A range to divide, or some of its files: the position of the range in a list; the range; bits to divide it by."""


@dataclass(frozen=True)
class _DivideRanges(Job[_Part, _Part, tuple[int, RangeFile]]):
    """Divides ranges; each result is the position of the range and a file.

    item_rows: number of rows that are divided at a time, about.
    """

    folder: Path
    key: str
    item_rows: int

    def fingerprint(self) -> Any:
        return [self.key, self.item_rows]

    def shard_fingerprint(self, shard: _Part) -> Any:
        position, key_range, bits = shard
        return [position, *key_range, bits]

    def read(self, shard: _Part) -> Iterator[_Part]:
        position, key_range, bits = shard
        count = max(len(key_range.files) * self.item_rows // key_range.rows, 1)
        for first in range(0, len(key_range.files), count):
            yield position, key_range._replace(files=key_range.files[first : first + count]), bits

    def process(self, item: _Part) -> tuple[int, RangeFile]:
        position, key_range, bits = item
        pieces = list(read_range(self.folder, key_range.files, key_range.number))
        if not pieces:
            return position, RangeFile("", np.zeros(1 << bits, np.int64))
        rows = concat_columns(pieces)
        return position, write_ranges(self.folder, rows, self.key, key_range.common_bits, bits)


def split_ranges(
    executor: Executor, folder: Path, ranges: Sequence[KeyRange], key: str, max_rows: int
) -> list[KeyRange]:
    """Divide ranges of more than `max_rows` rows further, unless more have the highest 32 bits of the key in common.

    The ranges stay in ascending order. About a fourth of `max_rows` is divided at a time. Raises FormatError,
    OutputError or ClusterError if a file is damaged or cannot be written, or the cluster is lost.
    """
    job = _DivideRanges(folder, key, max(max_rows // 4, 1))
    while True:
        large = [
            (position, key_range, fan_out(key_range.rows, max_rows))
            for position, key_range in enumerate(ranges)
            if key_range.rows > max_rows and key_range.common_bits < _MAX_BITS
        ]
        if not large:
            return list(ranges)
        parts: list[list[KeyRange]] = [[key_range] for key_range in ranges]
        files: dict[int, list[RangeFile]] = {position: [] for position, *_ in large}
        for position, file in executor.run(job, large):
            if file.name:
                files[position].append(file)
        for position, key_range, bits in large:
            parts[position] = collect_ranges(files[position], key_range.common_bits + bits)
        ranges = [part for some in parts for part in some]
