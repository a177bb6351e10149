"""The format `parquet@1`: a table of examples with packed planes. Card: docs/formats/parquet.md.

Row groups are encoded in any thread or process, and then copied into the file: they do not depend on their place in it,
but for offsets in their descriptions, which are Thrift's compact protocol.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kifu.corpus.parquet import open_parquet, parquet_metadata, seal
from kifu.corpus.schema import to_numpy
from kifu.datasets.examples import Batch, Dataset, LabelSpec, Layout, concat, parse_layout
from kifu.datasets.manifest import Writer, WriteReport, WrittenFile
from kifu.errors import FormatError, first_line
from kifu.io import AtomicFile

MAGIC = b"PAR1"

_BOOLS, _BYTE, _INTS, _DOUBLE, _BINARY, _LISTS, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
"""Types of Thrift's compact protocol."""

_ROW_COUNT, _ROW_GROUPS = 3, 4
"""Fields of a file's description."""

_COLUMNS, _GROUP_OFFSET = 1, 5
"""Fields of a row group's description."""

_COLUMN, _PAGE_OFFSETS = 3, (9, 10, 11)
"""The field of a column chunk with its description, and the fields there that are offsets in the file."""


class EncodedRowGroup(NamedTuple):
    """An encoded row group.

    Attributes:
        pages: [B] uint8, its pages as they are in the file.
        description: Its description as the first row group of a file, serialized.
    """

    pages: npt.NDArray[np.uint8]
    description: npt.NDArray[np.uint8]
    rows: int


def encode_row_group(table: pa.Table, **options: Any) -> EncodedRowGroup:
    """Encode a table as one row group.

    Args:
        table: The rows, without metadata in the schema.
        **options: Of `pyarrow.parquet.ParquetWriter`.
    """
    data, footer = _write_file(table, {}, options)
    fields, _ = _read(footer, 0, _STRUCT)
    (group,) = fields[_ROW_GROUPS][1][1]
    description = np.frombuffer(_write(group, _STRUCT), np.uint8)
    return EncodedRowGroup(data[len(MAGIC) : len(data) - len(footer) - 8], description, len(table))


def place_row_group(group: EncodedRowGroup, offset: int) -> bytes:
    """Return the serialized description of a row group whose pages begin at `offset`."""
    fields, _ = _read(group.description.tobytes(), 0, _STRUCT)
    shift = offset - len(MAGIC)
    for column in fields[_COLUMNS][1][1]:
        _shift(column[_COLUMN][1], _PAGE_OFFSETS, shift)
    _shift(fields, (_GROUP_OFFSET,), shift)
    return _write(fields, _STRUCT)


def file_footer(
    schema: pa.Schema, groups: list[bytes], rows: int, metadata: Mapping[str, Any], **options: Any
) -> bytes:
    """Return the end of a file, after the pages.

    Args:
        groups: The results of `place_row_group`.
        metadata: Further metadata; each value is stored as JSON.
        **options: Of `pyarrow.parquet.ParquetWriter`.
    """
    _, footer = _write_file(schema.empty_table(), metadata, options)
    fields, _ = _read(footer, 0, _STRUCT)
    fields[_ROW_COUNT] = (fields[_ROW_COUNT][0], rows)
    fields[_ROW_GROUPS] = (fields[_ROW_GROUPS][0], (_STRUCT, groups))
    encoded = _write(fields, _STRUCT)
    return encoded + len(encoded).to_bytes(4, "little") + MAGIC


def _write_file(
    table: pa.Table, metadata: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[npt.NDArray[np.uint8], bytes]:
    """Return a file with at most one row group, and its description."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, **options) as writer:
        if len(table):
            writer.write_table(table, row_group_size=len(table))
        if metadata:
            writer.add_key_value_metadata({k: json.dumps(v, ensure_ascii=False) for k, v in metadata.items()})
    data = np.frombuffer(sink.getvalue(), np.uint8)
    size = int.from_bytes(data[-8:-4].tobytes(), "little")
    return data, data[len(data) - 8 - size : len(data) - 8].tobytes()


def _shift(fields: dict[int, tuple[int, Any]], numbers: tuple[int, ...], shift: int) -> None:
    for number in numbers:
        if number in fields:
            kind, value = fields[number]
            fields[number] = (kind, value + shift)


def _read(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    """Return the value of a type at a position, and the position after it.

    A structure is {number: (type, value)} in the order of its fields, a list (type, values).
    """
    if kind in _INTS:
        value, at = _read_number(data, at)
        return value >> 1 ^ -(value & 1), at
    if kind == _BINARY:
        size, at = _read_number(data, at)
        return data[at : at + size], at + size
    if kind == _STRUCT:
        return _read_struct(data, at)
    if kind in _LISTS:
        head, at = data[at], at + 1
        count, values = head >> 4, []
        if count == 15:
            count, at = _read_number(data, at)
        for _ in range(count):
            value, at = _read(data, at, head & 15)
            values.append(value)
        return (head & 15, values), at
    if kind == _DOUBLE:
        return data[at : at + 8], at + 8
    if kind in (*_BOOLS, _BYTE):
        return data[at], at + 1
    raise ValueError(f"the footer has a value of type {kind}")


def _read_struct(data: bytes, at: int) -> tuple[dict[int, tuple[int, Any]], int]:
    fields: dict[int, tuple[int, Any]] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _read(data, at, _INTS[0])
        kind = head & 15
        value = None
        if kind not in _BOOLS:  # the type is the value
            value, at = _read(data, at, kind)
        fields[number] = (kind, value)
    return fields, at + 1


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
    return value | data[at] << shift, at + 1


def _write(value: Any, kind: int) -> bytes:
    """Return a value as `_read` reads it; a structure may be serialized already."""
    if kind in _INTS:
        return _write_number(value << 1 if value >= 0 else ~(value << 1))
    if kind == _BINARY:
        return _write_number(len(value)) + bytes(value)
    if kind == _STRUCT:
        return value if isinstance(value, bytes) else _write_struct(value)
    if kind in _LISTS:
        element, values = value
        count = len(values)
        head = bytes([count << 4 | element]) if count < 15 else bytes([0xF0 | element]) + _write_number(count)
        return head + b"".join(_write(each, element) for each in values)
    return bytes(value if kind == _DOUBLE else [value])


def _write_struct(fields: Mapping[int, tuple[int, Any]]) -> bytes:
    out = bytearray()
    before = 0
    for number, (kind, value) in fields.items():
        step = number - before
        out += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _write(number, _INTS[0])
        out += b"" if kind in _BOOLS else _write(value, kind)
        before = number
    return bytes(out) + b"\0"


def _write_number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


_KEY = b"kifu.examples"
_VERSION = b"1"

_GROUP_BYTES = 16 << 20
"""Bytes of planes in a row group, which a reader holds in memory."""

_MAX_GROUP_ROWS = 32_768

_OPTIONS: dict[str, Any] = {
    "compression": "zstd", "compression_level": 3, "use_dictionary": False, "write_statistics": ["game", "ply"],
    "write_page_checksum": True,
}  # fmt: skip
"""Options of `pyarrow.parquet.ParquetWriter`."""

_MAX_GROUP_BYTES = 256 << 20
"""Larger row groups, as stored or as arrays, are rejected."""


def is_examples(path: Path) -> bool:
    """Return whether a Parquet file holds examples, judging by its metadata."""
    try:
        return _KEY in parquet_metadata(path)
    except (FormatError, pa.ArrowException, OSError, ValueError):
        return False


def schema_of(layout: Layout) -> pa.Schema:
    """Return the schema of a file with this layout."""
    labels = [pa.field(label.name, _column_type(label), nullable=False) for label in layout.labels]
    return pa.schema(
        [
            pa.field("planes", pa.binary(layout.packed_bytes), nullable=False),
            *labels,
            pa.field("game", pa.uint64(), nullable=False),
            pa.field("ply", pa.int32(), nullable=False),
        ]
    )


def _column_type(label: LabelSpec) -> pa.DataType:
    value = pa.from_numpy_dtype(label.np_dtype)
    return pa.list_(pa.field("element", value, nullable=False), prod(label.shape)) if label.shape else value


class ParquetWriter(Writer):
    """Writes a parquet@1 file, whose row groups are encoded here or by `encode_group`."""

    format = "parquet@1"

    def __init__(self, path: Path, layout: Layout, examples: int = 0) -> None:
        """Create the file; `examples` is unused, other writers take it. Raises OutputError."""
        super().__init__(layout)
        self._path = path
        self._pending: list[pa.RecordBatch] = []
        self._groups: list[bytes] = []
        self._output = AtomicFile(path)
        self._output.write(MAGIC)

    @staticmethod
    def prepare(batch: Batch, layout: Layout) -> pa.RecordBatch:
        """Convert a batch; see `Writer.prepare`."""
        columns = [_binary(batch.planes, layout)]
        for label in layout.labels:
            values = pa.array(np.ascontiguousarray(batch.labels[label.name], label.np_dtype).reshape(-1))
            columns.append(
                pa.FixedSizeListArray.from_arrays(values, type=_column_type(label)) if label.shape else values
            )
        columns += [pa.array(batch.game), pa.array(batch.ply)]
        return pa.RecordBatch.from_arrays(columns, schema=schema_of(layout))

    @staticmethod
    def group_rows(layout: Layout) -> int:
        """Return the number of rows of a row group; see `Writer.group_rows`."""
        return group_rows(layout)

    @classmethod
    def encode_group(cls, batch: Batch, layout: Layout) -> EncodedRowGroup:
        """Encode a row group; see `Writer.encode_group`."""
        return encode_row_group(pa.Table.from_batches([cls.prepare(batch, layout)]), **_OPTIONS)

    def append(self, prepared: pa.RecordBatch | EncodedRowGroup) -> None:
        """Append a prepared batch or an encoded group; see `Writer.append`."""
        if isinstance(prepared, EncodedRowGroup):
            assert not self._pending
            self.examples += prepared.rows
            self._copy(prepared)
            return
        self.examples += len(prepared)
        self._pending += [prepared] if len(prepared) else []
        size = group_rows(self.layout)
        if sum(map(len, self._pending)) >= size:
            table = pa.Table.from_batches(self._pending)
            whole = len(table) // size * size
            for start in range(0, whole, size):
                self._encode(table.slice(start, size))
            self._pending = [each for each in table.slice(whole).to_batches() if len(each)]

    def _encode(self, table: pa.Table) -> None:
        self._copy(encode_row_group(table.combine_chunks(), **_OPTIONS))  # pages end where chunks do

    def _copy(self, group: EncodedRowGroup) -> None:
        self._groups.append(place_row_group(group, self._output.size))
        self._output.write(group.pages.data)

    def commit(self, about: Mapping[str, Any]) -> WriteReport:
        """Finish the data set; see `Writer.commit`."""
        if self._pending:
            self._encode(pa.Table.from_batches(self._pending))
        schema = schema_of(self.layout).with_metadata({_KEY: _VERSION, b"kifu.layout": self.layout.to_json()})
        footer = file_footer(schema, self._groups, self.examples, {"kifu.about": about}, **_OPTIONS)
        self._output.write(seal(self._output.digest(), footer))
        self._output.write(footer)
        digest = self._output.commit()
        return WriteReport(self.examples, (WrittenFile(self._path.name, self._output.size, digest),))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.__exit__(kind, error, trace)


def group_rows(layout: Layout) -> int:
    """Return the number of rows of a row group."""
    return max(min(_GROUP_BYTES // layout.packed_bytes, _MAX_GROUP_ROWS), 1)


def _binary(planes: npt.NDArray[Any], layout: Layout) -> pa.FixedSizeBinaryArray:
    """Return planes as a column, without copying."""
    flat = np.ascontiguousarray(planes, layout.plane_dtype)
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(layout.packed_bytes), len(flat), [None, pa.py_buffer(flat.reshape(-1).view(np.uint8))]
    )


class Parquet(Dataset):
    """A parquet@1 file. Row groups are read one at a time, and the last one is cached."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a file. Raises FormatError if its metadata is damaged."""
        self.path = Path(path)
        try:
            self._file = open_parquet(self.path)
            metadata = self._file.metadata.metadata or {}
            schema = self._file.schema_arrow
            groups = [self._file.metadata.row_group(i) for i in range(self._file.metadata.num_row_groups)]
            sizes = [(group.num_rows, group.total_byte_size) for group in groups]
        except FormatError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise FormatError(f"{self.path} is not a Parquet file of examples: {first_line(error)}") from None
        if metadata.get(_KEY) != _VERSION:
            version = metadata.get(_KEY, b"").decode("ascii", "replace")
            raise FormatError(f"{self.path} has examples of version {version!r}; only version 1 is supported")
        try:
            self.layout = parse_layout(metadata.get(b"kifu.layout", b""))
            about = json.loads(metadata.get(b"kifu.about", b"{}"))
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{self.path}: {error}") from None
        self.about = about if isinstance(about, dict) else {}
        self._schema = schema_of(self.layout)
        if not schema.equals(self._schema):
            raise FormatError(f"{self.path} has columns or types that differ from its layout")
        row_bytes = self.layout.packed_bytes + sum(label.bytes for label in self.layout.labels)
        largest = max((max(size, n * row_bytes) for n, size in sizes), default=0)
        if largest > _MAX_GROUP_BYTES or min((n for n, _ in sizes), default=1) < 1:
            raise FormatError(f"{self.path} has a row group that is empty or too large")
        self._first = [0, *accumulate(rows for rows, _ in sizes)]
        self.examples = self._first[-1]
        self._last: tuple[int, Batch] | None = None

    def run_starts(self) -> npt.NDArray[np.int64]:
        """Return the first row of each row group; see `Dataset.run_starts`."""
        return np.arange(0, self.examples, group_rows(self.layout))

    def _read(self, start: int, stop: int) -> Batch:
        if not self._first:
            raise ValueError(f"{self.path} is closed")
        parts = []
        while start < stop:
            k = bisect_right(self._first, start) - 1
            until = min(stop, self._first[k + 1])
            parts.append(self._group(k).slice(start - self._first[k], until - self._first[k]))
            start = until
        return concat(parts, self.layout)

    def _group(self, k: int) -> Batch:
        if self._last is None or self._last[0] != k:
            try:
                table = self._file.read_row_group(k, use_threads=False).combine_chunks()
                table.validate(full=True)
                parts = table.to_batches()
                batch = parts[0] if parts else pa.RecordBatch.from_pylist([], self._schema)
            except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
                raise FormatError(f"{self.path}: {first_line(error)}") from None
            if len(batch) != self._first[k + 1] - self._first[k] or len(parts) > 1:
                raise FormatError(f"{self.path}: row group {k} has a different number of rows than the footer lists")
            self._last = k, self._to_batch(batch)
        return self._last[1]

    def _to_batch(self, table: pa.RecordBatch) -> Batch:
        if any(column.null_count for column in table.columns):
            raise FormatError(f"{self.path} has nulls, which the format does not allow")
        rows, column = len(table), table["planes"]
        size = self.layout.packed_bytes
        at = column.offset * size
        data = np.frombuffer(column.buffers()[1], np.uint8, rows * size, at) if rows else np.empty(0, np.uint8)
        planes = data.view(self.layout.plane_dtype).reshape(rows, *self.layout.packed_shape)
        labels = {}
        for label in self.layout.labels:
            values = table[label.name]
            flat = values.flatten() if label.shape else values
            if flat.null_count or len(flat) * label.np_dtype.itemsize != rows * label.bytes:
                raise FormatError(
                    f"{self.path}: column {label.name} has a different number of values than its layout requires"
                )
            labels[label.name] = to_numpy(flat).reshape(rows, *label.shape)
        return Batch(planes, labels, to_numpy(table["game"]), to_numpy(table["ply"]))

    def close(self) -> None:
        """Close the files; see `Dataset.close`."""
        self._first, self._last = [], None
        self._file.close()
