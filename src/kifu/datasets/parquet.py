"""The format `parquet@1`: a table of examples with packed planes. Card: docs/formats/parquet.md."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kifu.arrays import Indices
from kifu.corpus.parquet import TableWriter, open_parquet, parquet_metadata
from kifu.corpus.schema import to_numpy
from kifu.datasets.examples import Batch, Dataset, Layout, concat, parse_layout, part_spans
from kifu.datasets.manifest import Writer, WriteReport, WrittenFile
from kifu.errors import FormatError, first_line

_KEY = b"kifu.examples"
_VERSION = b"1"

_GROUP_BYTES = 16 << 20
"""Bytes of planes in a row group, which a reader holds in memory."""

_MAX_GROUP_ROWS = 32_768

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
    columns: dict[str, pa.DataType] = {"planes": pa.binary(layout.packed_bytes)}
    for label in layout.labels:
        kind = pa.from_numpy_dtype(label.np_dtype)
        columns[label.name] = (
            pa.list_(pa.field("element", kind, nullable=False), prod(label.shape)) if label.shape else kind
        )
    columns |= {"game": pa.uint64(), "ply": pa.int32()}
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns.items()])


class ParquetWriter(Writer):
    """Writes a parquet@1 file."""

    format = "parquet@1"

    def __init__(self, path: Path, layout: Layout, examples: int = 0) -> None:
        """Create the file; `examples` is unused, other writers take it. Raises OutputError."""
        super().__init__(layout)
        self._path = path
        self._schema = schema_of(layout)
        schema = self._schema.with_metadata({_KEY: _VERSION, b"kifu.layout": layout.to_json()})
        statistics = ["game", "ply"]
        self._table = TableWriter(path, schema, group_rows(layout), use_dictionary=False, write_statistics=statistics)

    @staticmethod
    def prepare(batch: Batch, layout: Layout) -> list[pa.Array]:
        """Convert a batch; see `Writer.prepare`. Lists are flat, since pickles of pyarrow lose the names in them."""
        labels = [np.ascontiguousarray(batch.labels[label.name], label.np_dtype) for label in layout.labels]
        columns = [pa.array(values.reshape(-1)) for values in labels]
        flat = np.ascontiguousarray(batch.planes, layout.plane_dtype)
        data = [None, pa.py_buffer(flat.reshape(-1).view(np.uint8))]
        planes = pa.FixedSizeBinaryArray.from_buffers(pa.binary(layout.packed_bytes), len(flat), data)
        return [planes, *columns, pa.array(batch.game), pa.array(batch.ply)]

    def append(self, prepared: list[pa.Array]) -> None:
        """Append a prepared batch; see `Writer.append`."""
        columns = [
            pa.FixedSizeListArray.from_arrays(values, type=each.type)
            if pa.types.is_fixed_size_list(each.type)
            else values
            for values, each in zip(prepared, self._schema)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self.examples += len(batch)
        self._table.write(batch)

    def commit(self, about: Mapping[str, Any]) -> WriteReport:
        """Finish the data set; see `Writer.commit`."""
        digest = self._table.commit({"kifu.about": about})
        return WriteReport(self.examples, (WrittenFile(self._path.name, self._table.size, digest),))

    def __exit__(self, *error: Any) -> None:
        self._table.__exit__(*error)


def group_rows(layout: Layout) -> int:
    """Return the number of rows of a row group."""
    return max(min(_GROUP_BYTES // layout.packed_bytes, _MAX_GROUP_ROWS), 1)


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

    def run_starts(self) -> Indices:
        """Return the first row of each row group; see `Dataset.run_starts`."""
        return np.arange(0, self.examples, group_rows(self.layout))

    def _read(self, start: int, stop: int) -> Batch:
        if not self._first:
            raise ValueError(f"{self.path} is closed")
        return concat([self._group(k).slice(*span) for k, *span in part_spans(self._first, start, stop)], self.layout)

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
