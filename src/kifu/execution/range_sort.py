"""Out-of-core sort on an executor: jobs divide rows into files by range of a key, others read one range of all files.

A range file holds the rows of one item of a job, divided by some bits of the key. It lies in the directory that all
workers share, see `Executor.spill_dir`, under a random name that the result of the item gives. Ranges that are too
large are divided once more. Rows with equal keys stay in the order of the shards and items they come from.

    for each range, and at the end, 8 bytes: where its rows begin, lowest byte first
    for each range with rows, a result as `kifu.execution.serialization` encodes it
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from kifu.atomic_io import remove_file
from kifu.errors import FormatError, OutputError, first_line
from kifu.execution.bucket_sort import MAX_BITS, Columns, concat_columns
from kifu.execution.executor import Executor, Job
from kifu.execution.serialization import DAMAGE, decode, encode
from kifu.execution.staging import SPILL_SUFFIX

_FAN_OUT_BITS = 8
"""Maximum number of bits of the key by which rows are divided at a time, into 256 ranges."""


class RangeFile(NamedTuple):
    """A range file.

    Attributes:
        rows: [ranges] int64, the number of rows of each range.
    """

    name: str
    rows: npt.NDArray[np.int64]


class KeyRange(NamedTuple):
    """All rows of one range of keys.

    Attributes:
        files: Names of range files, in the order of their rows.
        number: Index of the range in each of them.
        rows: Number of rows in all of them.
        common_bits: Number of highest bits that are equal in all keys.
    """

    files: tuple[str, ...]
    number: int
    rows: int
    common_bits: int


def fan_out(rows: int, max_rows: int) -> int:
    """Return the number of bits by which to divide so many rows, so that few ranges exceed the maximum."""
    return min(max((5 * rows // (4 * max_rows)).bit_length(), 1), _FAN_OUT_BITS)


def write_ranges(folder: Path, rows: Columns, key: str, common_bits: int, bits: int) -> RangeFile:
    """Write a range file.

    Args:
        key: Name of the column of keys, [N] uint64.
        common_bits: Number of highest bits that are equal in all keys.
        bits: Number of bits after these that determine the range.

    Raises:
        OutputError: The file cannot be written.
    """
    number = (rows[key] << np.uint64(common_bits) >> np.uint64(64 - bits)).astype(np.uint8)
    order = np.argsort(number, kind="stable")
    ends = np.searchsorted(number[order], np.arange((1 << bits) + 1))
    ordered = {name: values[order] for name, values in rows.items()}
    path = folder / f"{uuid4().hex}{SPILL_SUFFIX}"
    starts = [8 * len(ends)]
    try:
        with path.open("xb") as file:
            file.seek(starts[0])
            for first, stop in zip(ends[:-1].tolist(), ends[1:].tolist()):
                pieces = encode({name: values[first:stop] for name, values in ordered.items()}) if first < stop else []
                for piece in pieces:
                    file.write(piece)
                starts.append(starts[-1] + sum(map(len, pieces)))
            file.seek(0)
            file.write(struct.pack(f"<{len(starts)}Q", *starts))
    except OSError as error:
        remove_file(path)
        raise OutputError(f"cannot spill to {folder}: {error.strerror}") from None
    return RangeFile(path.name, np.diff(ends))


def read_range(folder: Path, files: Sequence[str], number: int) -> Iterator[Columns]:
    """Yield the rows of one range, file by file. Raises FormatError if a file is damaged."""
    for name in files:
        try:
            with (folder / name).open("rb") as file:
                file.seek(8 * number)
                start, stop = struct.unpack("<2Q", file.read(16))
                if start < stop:
                    file.seek(start)
                    yield decode(file)
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


class _LargeRange(NamedTuple):
    """A range to divide; position: in the list of all ranges."""

    position: int
    rows: KeyRange
    bits: int


class _Files(NamedTuple):
    """Some files with rows of a range that is divided."""

    position: int
    files: tuple[str, ...]
    number: int
    common_bits: int
    bits: int


@dataclass(frozen=True)
class _DivideRanges(Job[_LargeRange, _Files, tuple[int, RangeFile]]):
    """Divides ranges; each result is the position of the range and a file.

    Attributes:
        item_rows: Number of rows that are divided at a time, about.
    """

    folder: Path
    key: str
    item_rows: int

    def fingerprint(self) -> Any:
        return [self.key, self.item_rows]

    def shard_fingerprint(self, shard: _LargeRange) -> Any:
        return [shard.position, *shard.rows, shard.bits]

    def read(self, shard: _LargeRange) -> Iterator[_Files]:
        rows = shard.rows
        count = max(len(rows.files) * self.item_rows // rows.rows, 1)
        for at in range(0, len(rows.files), count):
            yield _Files(shard.position, rows.files[at : at + count], rows.number, rows.common_bits, shard.bits)

    def process(self, item: _Files) -> tuple[int, RangeFile]:
        pieces = list(read_range(self.folder, item.files, item.number))
        if not pieces:
            return item.position, RangeFile("", np.zeros(1 << item.bits, np.int64))
        rows = concat_columns(pieces)
        return item.position, write_ranges(self.folder, rows, self.key, item.common_bits, item.bits)


def split_ranges(
    executor: Executor, folder: Path, ranges: Sequence[KeyRange], key: str, max_rows: int
) -> list[KeyRange]:
    """Divide ranges of more than `max_rows` rows further, unless more have the highest 32 bits of the key in common.

    Args:
        folder: The directory of their files, and of the new ones.
        ranges: In ascending order.
        key: Name of the column of keys.
        max_rows: Maximum number of rows of a range. A fourth of it is divided at a time, about.

    Returns:
        The ranges in ascending order.

    Raises:
        FormatError, OutputError, ClusterError: A file is damaged or cannot be written, or the cluster is lost.
    """
    job = _DivideRanges(folder, key, max(max_rows // 4, 1))
    while True:
        large = [
            _LargeRange(position, each, fan_out(each.rows, max_rows))
            for position, each in enumerate(ranges)
            if each.rows > max_rows and each.common_bits < MAX_BITS
        ]
        if not large:
            return list(ranges)
        parts: list[list[KeyRange]] = [[each] for each in ranges]
        files: dict[int, list[RangeFile]] = {each.position: [] for each in large}
        for position, file in executor.run(job, large):
            if file.name:
                files[position].append(file)
        for each in large:
            parts[each.position] = collect_ranges(files[each.position], each.rows.common_bits + each.bits)
        ranges = [part for some in parts for part in some]
