"""One Parquet file with the columns of `kifu.corpus.schema`, read batch by batch: a catalogue, or a part of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kifu.corpus.schema import SCHEMA, VERSION
from kifu.errors import FormatError, first_line

KEY = "kifu.catalogue"
"""What a file says its version by."""

_GROUP_BYTES = 4 << 30
"""A row group that says it takes more than this is not read."""


def open_file(path: Path) -> pq.ParquetFile:
    """A file that can be read as a catalogue. Raises FormatError."""
    try:
        # pre_buffer would keep all bytes that were read until the file is closed.
        file = pq.ParquetFile(path, memory_map=False, pre_buffer=False, thrift_string_size_limit=64 << 20)
        said = file.metadata.metadata or {}
        columns = set(file.schema_arrow.names)
        groups = [file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups)]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"{path} is no catalogue: {first_line(error)}") from None
    version = said.get(KEY.encode(), str(VERSION).encode()).decode("ascii", "replace")
    if version != str(VERSION):
        raise FormatError(f"{path} is a catalogue of version {version!r}; this kifu reads version {VERSION}")
    missing = [name for name in SCHEMA.names if name not in columns]
    if missing:
        raise FormatError(f"{path} is no catalogue: it lacks {len(missing)} columns, {', '.join(missing[:5])} ...")
    if max(groups, default=0) > _GROUP_BYTES:
        raise FormatError(f"{path}: a row group of {max(groups):,} bytes is too large")
    return file


def group_rows(file: pq.ParquetFile) -> list[int]:
    """How many rows each row group has."""
    return [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]


def read_rows(
    path: Path, file: pq.ParquetFile, groups: range, columns: Sequence[str] | None, size: int
) -> Iterator[pa.RecordBatch]:
    """The rows of some row groups, as `kifu.corpus.catalogue.Catalogue.batches` gives them."""
    names = SCHEMA.names if columns is None else list(columns)
    schema = pa.schema([SCHEMA.field(name) for name in names])
    try:
        for batch in file.iter_batches(size, groups, columns=names, use_threads=False):
            batch.validate(full=True)
            yield fitted(batch, schema, path)
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise FormatError(f"{path}: {first_line(error)}") from None


def fitted(batch: pa.RecordBatch, schema: pa.Schema, path: Path) -> pa.RecordBatch:
    """The batch in the schema's columns and types. Raises FormatError, in which `path` stands for the batch."""
    columns = []
    for field in schema:
        column = batch.column(field.name)
        if column.type != field.type:
            try:
                column = column.cast(field.type)
            except pa.ArrowException as error:
                raise FormatError(f"{path}: column {field.name}: {first_line(error)}") from None
        inner = pc.any(column.flatten().is_null()).as_py() if pa.types.is_list(field.type) else False
        if inner or (column.null_count and not field.nullable):
            raise FormatError(f"{path}: column {field.name} has nulls, which it may not have")
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
