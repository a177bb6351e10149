"""Row groups of Parquet files that are encoded in any thread or process, and then copied into a file.

A row group does not depend on its place in a file, but for the offsets in its description. The
descriptions make up the footer, which is Thrift's compact protocol: structures of numbered fields, see `parquet.thrift`
of Apache Parquet. The file is the one that `pyarrow.parquet.ParquetWriter` writes from the same row groups.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

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
