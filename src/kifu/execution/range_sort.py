"""Out-of-core sort: rows grouped by ranges of a key in bounded memory.

Data sets larger than memory are shuffled and compared this way, one range of hashes at a time. `RangeSort` does it in
one process. With an executor, shards write range files (`write_ranges`), ranges that are too large are divided once
more (`split_ranges`), and other shards read one range of all files (`load_range`). Rows with equal keys stay in the
order in which they were added, or in that of the shards and items they come from.

A range file holds rows divided by some bits of the key. It lies in a directory that all workers share, see
`spill_folder`, under a random name. The unnamed file of a `RangeSort` holds several such parts.

    for each range, and at the end, 8 bytes: where its rows begin, lowest byte first
    for each range with rows, 8 bytes for the size of its header; the header, a JSON list of name, dtype, shape and size
    of each column; the columns, compressed with LZ4; 32 bytes, BLAKE3 of header and columns
"""

from __future__ import annotations

import json
import math
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from blake3 import blake3

from kifu.errors import FormatError, OutputError, first_line
from kifu.execution.executor import Executor
from kifu.io import cannot_write, remove_file, require_no_link, work_dir

Columns: TypeAlias = dict[str, npt.NDArray[Any]]
"""N rows: arrays [N, ...] by name."""

_FAN_OUT_BITS = 8
"""Maximum number of bits of the key by which rows are divided at a time, into 256 ranges."""

_MAX_BITS = 32
"""Rows that are equal in this many bits stay together, however many they are."""

_BUFFER_BYTES = 32 << 20
"""Size of the rows that a `RangeSort` divides at a time."""


_LZ4 = pa.Codec("lz4_raw")

_MAX_HEADER = 1 << 20

_SUFFIX = ".spill"
"""Suffix of range files, after 32 hexadecimal digits."""


@contextmanager
def spill_folder(output: Path) -> Iterator[Path]:
    """Create a hidden folder beside an output, which the caller has locked, for range files; remove it at the end.

    Range files of a killed run are removed before; other files stay. Raises OutputError.
    """
    folder = work_dir(output)
    require_no_link(folder)
    try:
        folder.mkdir(exist_ok=True)
        _remove_files(folder)
        yield folder
    except OSError as error:
        raise cannot_write(folder, error) from None
    finally:
        with suppress(OSError):  # the folder may be what went wrong; what stays is for the next run
            _remove_files(folder)
            folder.rmdir()


def _remove_files(folder: Path) -> None:
    for file in folder.glob(f"{'[0-9a-f]' * 32}{_SUFFIX}"):
        file.unlink()


def _encode(rows: Columns) -> list[bytes]:
    """Return rows as pieces to be written one after another; see the module for the format."""
    plain = (np.ascontiguousarray(values).reshape(-1).view(np.uint8) for values in rows.values())
    packed = [_LZ4.compress(data, asbytes=True) for data in plain]
    columns = [[name, values.dtype.str, values.shape, len(data)] for (name, values), data in zip(rows.items(), packed)]
    pieces = [json.dumps(columns).encode(), *packed]
    digest = blake3()
    for piece in pieces:
        digest.update(piece)
    return [struct.pack("<Q", len(pieces[0])), *pieces, digest.digest()]


def _decode(file: IO[bytes]) -> Columns:
    """Read what `_encode` returned. Arrays are writable. Raises ValueError for damage."""
    (size,) = struct.unpack("<Q", file.read(8))
    header = file.read(min(size, _MAX_HEADER))
    columns = json.loads(header)
    digest, packed = blake3(header), []
    for *_, size in columns:
        packed.append(file.read(size))
        digest.update(packed[-1])
    if file.read(32) != digest.digest():
        raise ValueError("its checksum is wrong")
    rows = {}
    for (name, dtype, shape, _), data in zip(columns, packed):
        plain = _LZ4.decompress(data, math.prod(shape) * np.dtype(dtype).itemsize)
        rows[name] = np.frombuffer(bytearray(plain), dtype).reshape(shape)
    return rows


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
        pieces = _encode({name: values[first:stop] for name, values in ordered.items()}) if first < stop else []
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
        yield _decode(file)


class SpillFile:
    """Arrays on disk, in a temporary file without a name. A context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        try:
            self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by __exit__
        except OSError as error:
            raise _cannot_spill(folder, error) from None

    def write(self, values: npt.NDArray[Any]) -> None:
        """Append an array. Raises OutputError."""
        try:
            for piece in _encode({"": values}):
                self.file.write(piece)
        except OSError as error:
            raise _cannot_spill(self._folder, error) from None
        self._count += 1

    def read(self) -> Iterator[npt.NDArray[Any]]:
        """Yield all arrays in order. Nothing can be written afterwards. Raises OutputError if the disk is full."""
        try:
            self.file.seek(0)
        except OSError as error:
            raise _cannot_spill(self._folder, error) from None
        for _ in range(self._count):
            yield _decode(self.file)[""]

    def __enter__(self) -> SpillFile:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):  # buffered data may not fit on a full disk
            self.file.close()


def _cannot_spill(folder: Path, error: OSError) -> OutputError:
    return OutputError(f"cannot spill to {folder}: {error.strerror}")


class RangeSort(ExitStack):
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
        super().__init__()
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
            self._spill = self.enter_context(SpillFile(self._folder))
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
        if not self._buffer:
            return
        rows, self._bytes = concat_columns(self._buffer), 0
        try:
            self._origins.append(spill.file.tell())
            self._counts.append(_append_ranges(spill.file, rows, self._key, self._common_bits, self._bits))
        except OSError as error:
            raise _cannot_spill(self._folder, error) from None

    def __iter__(self) -> Iterator[Columns]:
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
    path = folder / f"{uuid4().hex}{_SUFFIX}"
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
        except (OSError, ValueError, OverflowError, MemoryError, struct.error) as error:
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


def _read_parts(item_rows: int, shard: _Part) -> Iterator[_Part]:
    """Yield some files of a range at a time, with about `item_rows` rows."""
    position, key_range, bits = shard
    count = max(len(key_range.files) * item_rows // key_range.rows, 1)
    for first in range(0, len(key_range.files), count):
        yield position, key_range._replace(files=key_range.files[first : first + count]), bits


def _divide_part(folder: Path, key: str, item: _Part) -> tuple[int, RangeFile]:
    """Divide a range further; return its position and the new file."""
    position, key_range, bits = item
    pieces = list(read_range(folder, key_range.files, key_range.number))
    if not pieces:
        return position, RangeFile("", np.zeros(1 << bits, np.int64))
    return position, write_ranges(folder, concat_columns(pieces), key, key_range.common_bits, bits)


def split_ranges(
    executor: Executor, folder: Path, ranges: Sequence[KeyRange], key: str, max_rows: int
) -> list[KeyRange]:
    """Divide ranges of more than `max_rows` rows further, unless more have the highest 32 bits of the key in common.

    The ranges stay in ascending order. About a fourth of `max_rows` is divided at a time. Raises FormatError,
    OutputError or ClusterError if a file is damaged or cannot be written, or the cluster is lost.
    """
    divide, read = partial(_divide_part, folder, key), partial(_read_parts, max(max_rows // 4, 1))
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
        for position, file in executor.run(divide, large, read):
            if file.name:
                files[position].append(file)
        for position, key_range, bits in large:
            parts[position] = collect_ranges(files[position], key_range.common_bits + bits)
        ranges = [part for some in parts for part in some]
