"""Out-of-core bucket sort: rows grouped by ranges of a key in bounded memory.

Data sets larger than memory are shuffled and compared this way, one range of hashes at a time. Rows beyond the memory
limit are spilled to disk. Each is written and read once, or twice if there are more ranges than open files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.errors import OutputError
from kifu.execution.serialization import decode, encode

Columns: TypeAlias = dict[str, npt.NDArray[Any]]
"""N rows: arrays [N, ...] by name."""

_FAN_OUT_BITS = 7
"""Bits of the key by which rows are divided at a time, into 128 files."""

MAX_BITS = 32
"""Rows that are equal in this many bits stay together, however many they are."""

_BUFFER_BYTES = 32 << 20
"""Rows are divided in memory and written to the files some hundred kilobytes at a time."""


class BucketSort:
    """Groups rows by ranges of their keys: rows are added in any order, and iterated over once.

    Iteration yields the rows of one range after another, from the lowest keys on; within a range in the order in which
    they were added. A context manager.
    """

    def __init__(self, key: str, max_rows: int, folder: Path, expected: int = 0, *, common_bits: int = 0) -> None:
        """Create an empty sort.

        Args:
            key: Name of the column of keys, [N] uint64, evenly distributed.
            max_rows: Largest size of a range, and of the rows in memory, unless more rows have the highest 32 bits of
                the key in common.
            folder: Directory for the unnamed files of rows that exceed it.
            expected: Approximate number of rows; with more of them, ranges are divided once more.
            common_bits: Number of highest bits that are equal in all keys.
        """
        self._key, self._max_rows, self._folder, self._common_bits = key, max_rows, folder, common_bits
        self._expected = expected
        self._buffer: list[Columns] = []
        self._bytes = self._rows = self._bits = 0
        self._stack = ExitStack()
        self._buckets: list[_Bucket] = []

    def add(self, rows: Columns) -> None:
        """Add rows; the arrays are kept, not copied. Raises OutputError."""
        self._append(rows)
        self._rows += len(rows[self._key])
        if not self._buckets and self._rows > self._max_rows and self._common_bits < MAX_BITS:
            self._start_spilling()

    def _append(self, rows: Columns) -> None:
        self._buffer.append(rows)
        self._bytes += sum(values.nbytes for values in rows.values())
        if self._buckets and self._bytes >= _BUFFER_BYTES:
            self._spill()

    def __iter__(self) -> Iterator[Columns]:
        """Yield the rows of each range. Raises OutputError."""
        if not self._buckets:
            if self._buffer:
                yield self._take_buffer()
            return
        self._spill()
        while self._buckets:
            bucket, common = self._buckets.pop(0), self._common_bits + self._bits
            with (
                bucket.file,
                BucketSort(self._key, self._max_rows, self._folder, bucket.rows, common_bits=common) as inner,
            ):
                for rows in bucket.file.read():
                    inner.add(rows)
                yield from inner

    def _take_buffer(self) -> Columns:
        """Return the buffered rows, concatenated."""
        buffer, self._buffer, self._bytes = self._buffer, [], 0
        return concat_columns(buffer)

    def _start_spilling(self) -> None:
        """Open the files, and spill what is buffered."""
        wanted = max(self._expected, self._rows) // self._max_rows
        self._bits = min(max(wanted.bit_length(), 1), _FAN_OUT_BITS)
        self._buckets = [_Bucket(self._stack.enter_context(SpillFile(self._folder))) for _ in range(1 << self._bits)]
        earlier = self._buffer[::-1]
        self._buffer, self._bytes = [], 0
        while earlier:
            self._append(earlier.pop())

    def _spill(self) -> None:
        """Write the buffered rows to the files of their ranges."""
        if not self._buffer:
            return
        rows = self._take_buffer()
        number = (rows[self._key] << np.uint64(self._common_bits) >> np.uint64(64 - self._bits)).astype(np.uint8)
        order = np.argsort(number, kind="stable")
        ends = np.searchsorted(number[order], np.arange(len(self._buckets) + 1))
        for k in np.flatnonzero(np.diff(ends)).tolist():
            chosen = order[ends[k] : ends[k + 1]]
            self._buckets[k].file.write({name: values[chosen] for name, values in rows.items()})
            self._buckets[k].rows += len(chosen)

    def __enter__(self) -> BucketSort:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._buckets = []
        self._stack.__exit__(*exception)


def concat_columns(parts: list[Columns]) -> Columns:
    """Return the rows of one or more parts, and empty the list."""
    buffer = [dict(rows) for rows in parts]
    parts.clear()
    if len(buffer) == 1:
        return buffer[0]
    # One column after another, so that the pieces of each are released before the next one.
    return {name: np.concatenate([rows.pop(name) for rows in buffer]) for name in list(buffer[0])}


@dataclass(slots=True)
class _Bucket:
    file: SpillFile
    rows: int = 0


class SpillFile:
    """Results on disk, in a temporary file without a name. A context manager."""

    def __init__(self, folder: Path) -> None:
        """Open the file in a folder. Raises OutputError."""
        self._folder = folder
        self._count = 0
        try:
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by __exit__
        except OSError as error:
            raise self._error(error) from None

    def write(self, value: Any) -> None:
        """Append a value, which can be pickled. Raises OutputError."""
        try:
            for piece in encode(value):
                self._file.write(piece)
        except OSError as error:
            raise self._error(error) from None
        self._count += 1

    def read(self) -> Iterator[Any]:
        """Yield all values in order. Nothing can be written afterwards. Raises OutputError if the disk is full."""
        try:
            self._file.seek(0)
        except OSError as error:
            raise self._error(error) from None
        for _ in range(self._count):
            yield decode(self._file)

    def _error(self, error: OSError) -> OutputError:
        return OutputError(f"cannot spill to {self._folder}: {error.strerror}")

    def __enter__(self) -> SpillFile:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):  # buffered data may not fit on a full disk
            self._file.close()
