"""One Parquet file: written in order; and with the columns of `kifu.corpus.schema`, read batch by batch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kifu.atomic_io import AtomicFile
from kifu.corpus.schema import SCHEMA, VERSION
from kifu.errors import FormatError, OutputError, first_line

VERSION_KEY = "kifu.catalogue"
"""What a file says its version by."""

GROUP_ROWS = 32_768
"""Rows a row group: small enough for a reader to hold one, large enough to be compressed well."""

_GROUP_BYTES = 4 << 30
"""A row group that says it takes more than this is not read."""


class _Sink:
    """An `AtomicFile` as the file that pyarrow writes to."""

    def __init__(self, output: AtomicFile) -> None:
        self._output = output
        self.closed = False
        self.given_up = False
        """Whether nothing that is written now matters: pyarrow cannot be told to leave a file unfinished."""

    def write(self, data: bytes | memoryview) -> int:
        if not self.given_up:
            self._output.write(data)
        return len(data)

    def tell(self) -> int:
        return self._output.size

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed = True

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


class TableWriter:
    """Writes a Parquet of any columns; the file has its name only once `commit` has returned. A context manager.

    The bytes depend on the rows, their order and the metadata only, not on how batches divide the rows.
    """

    def __init__(
        self, path: str | os.PathLike[str], schema: pa.Schema, group: int = GROUP_ROWS, **options: Any
    ) -> None:
        """group: rows a row group.  options: of pyarrow's ParquetWriter. Raises OutputError."""
        self._output = AtomicFile(Path(path))
        self._group = group
        self._kept_back: list[pa.RecordBatch] = []
        self._rows = 0
        self._sink = _Sink(self._output)
        try:
            self._writer = pq.ParquetWriter(
                cast(BinaryIO, self._sink), schema, compression="zstd", compression_level=3, **options
            )
        except BaseException as error:  # it writes the file's first bytes
            self._output.__exit__(type(error), error, error.__traceback__)
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        """Appends rows of the schema, in its order of columns."""
        self._kept_back.append(batch)
        self._rows += len(batch)
        if self._rows >= self._group:
            table = pa.Table.from_batches(self._kept_back)
            whole = self._rows // self._group * self._group
            self._write(table.slice(0, whole))
            self._kept_back = table.slice(whole).to_batches()
            self._rows -= whole

    def _write(self, table: pa.Table) -> None:
        try:
            self._writer.write_table(table.combine_chunks(), row_group_size=self._group)  # pages end where chunks do
        except OSError as error:
            raise OutputError(f"cannot write {self._output.path}: {error.strerror or error}") from None

    def commit(self, metadata: Mapping[str, Any]) -> str:
        """Ends the file and gives it its name; returns its BLAKE3 in hex. metadata: see `end`."""
        self.end(metadata)
        return self.give_name()

    def end(self, metadata: Mapping[str, Any]) -> None:
        """Ends the file, which is to be given its name then.

        metadata: what the file says about how it came to be, each value written as JSON.
        """
        if self._rows:
            self._write(pa.Table.from_batches(self._kept_back))
            self._kept_back = []
        told = {key: json.dumps(value, ensure_ascii=False) for key, value in metadata.items()}
        self._writer.add_key_value_metadata(told)
        self._writer.close()

    def give_name(self) -> str:
        """Gives the file, which has ended, its name; returns its BLAKE3 in hex."""
        return self._output.commit()

    @property
    def size(self) -> int:
        """How many bytes have been written."""
        return self._output.size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sink.given_up = True
        with suppress(pa.ArrowException, OSError):
            self._writer.close()
        self._output.__exit__(kind, error, trace)


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
    version = said.get(VERSION_KEY.encode(), str(VERSION).encode()).decode("ascii", "replace")
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


def read_batches(
    path: Path, file: pq.ParquetFile, groups: range, columns: Sequence[str] | None, size: int
) -> Iterator[pa.RecordBatch]:
    """The rows of some row groups, as `kifu.corpus.catalogue.Catalogue.batches` gives them."""
    names = SCHEMA.names if columns is None else list(columns)
    schema = pa.schema([SCHEMA.field(name) for name in names])
    try:
        for batch in file.iter_batches(size, groups, columns=names, use_threads=False):
            batch.validate(full=True)
            yield cast_batch(batch, schema, path)
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise FormatError(f"{path}: {first_line(error)}") from None


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema, path: Path) -> pa.RecordBatch:
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
