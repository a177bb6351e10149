"""Read and write single Parquet files: any schema on writing, those of `kifu.corpus.schema` on reading.

Nothing that kifu reads may differ in silence from what it wrote. Pages have checksums, which are verified when they are
read. The footer, which has none in Parquet, is preceded by a seal: `SEAL`, the BLAKE3 of all bytes before the seal, and
the BLAKE3 of all bytes after it. Other programs skip the seal, and files that they wrote have none.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from kifu.corpus.schema import (
    ANNOTATION_SCHEMA,
    ANNOTATION_VERSION,
    SCHEMA,
    VERSION,
    check_limits,
    check_move_columns,
    check_version,
)
from kifu.errors import FormatError, first_line
from kifu.io import AtomicFile, AtomicStream, cannot_write, keep_output, require_regular

VERSION_KEY = "kifu.catalogue"
"""The metadata key of a catalogue's version."""

_ANNOTATION_KEY = "kifu.moves"
"""The metadata key of an annotation's version."""

SEAL = b"kifuseal"

_SEAL_BYTES = len(SEAL) + 2 * blake3.digest_size

_TAIL = 8
"""Bytes after the footer: its size and Parquet's magic."""

GROUP_ROWS = 32_768
"""Rows per row group: few enough for a reader to hold one, enough to compress well."""

_GROUP_BYTES = 128 << 20
"""A row group ends before the row with which its lists and texts exceed this size; rows of games have about 1 KB."""

_HASH_BYTES = 1 << 20
"""Bytes that are hashed at a time."""

_MAX_GROUP_BYTES = 4 << 30
"""Row groups that claim a larger size are rejected."""


def seal(before: bytes, footer: bytes | memoryview) -> bytes:
    """Return the seal that precedes a footer, which includes its size and magic; before: the BLAKE3 of all pages."""
    return SEAL + before + blake3(footer).digest()


class _Sink(AtomicStream):
    """A stream for pyarrow, which can only close a file by completing it."""

    discard = False  # ignore all further writes
    end: bytearray | None = None  # what pyarrow writes on closing: remaining pages, if any, and the footer

    def write(self, data: Any, /) -> int:
        if self.end is not None:
            self.end += data
        elif not self.discard:
            super().write(data)
        return len(data)

    def tell(self) -> int:
        return self._output.size + len(self.end or b"")


class TableWriter:
    """A context manager that writes a Parquet file atomically: `commit` gives the file its name.

    The bytes depend on the rows, their order and the metadata, but not on the sizes of the batches.
    """

    def __init__(
        self, path: str | os.PathLike[str] | AtomicFile, schema: pa.Schema, group: int = GROUP_ROWS, **options: Any
    ) -> None:
        """Open the temporary file. options: of `pyarrow.parquet.ParquetWriter`."""
        self._output = path if isinstance(path, AtomicFile) else AtomicFile(Path(path))
        self._group = group
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self._sink = _Sink(self._output)
        try:
            self._writer = pq.ParquetWriter(
                cast(BinaryIO, self._sink), schema, compression="zstd", compression_level=3,
                write_page_checksum=True, **options,
            )  # fmt: skip
        except BaseException:  # the constructor already writes the magic bytes
            self._output.__exit__()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows, whose columns are in the schema's order."""
        self._pending.append(batch)
        self._pending_rows += len(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_rows >= self._group or self._pending_bytes > _GROUP_BYTES:
            table = pa.Table.from_batches(self._pending)
            whole = self._write_groups(table)
            self._pending = table.slice(whole).to_batches()
            self._pending_rows -= whole
            self._pending_bytes = sum(each.nbytes for each in self._pending)

    def _write_groups(self, table: pa.Table) -> int:
        if self._pending_bytes <= _GROUP_BYTES:
            whole = len(table) // self._group * self._group
            self._write(table.slice(0, whole))
            return whole
        ends, first = np.cumsum(_row_bytes(table)), 0
        while True:
            before = int(ends[first - 1]) if first else 0
            fits = int(np.searchsorted(ends, before + _GROUP_BYTES, "right"))
            stop = min(max(fits, first + 1), first + self._group)
            if stop >= len(table) and stop - first < self._group:
                return first
            self._write(table.slice(first, stop - first))
            first = stop

    def _write(self, table: pa.Table) -> None:
        try:
            self._writer.write_table(table.combine_chunks(), row_group_size=self._group)  # pages end where chunks do
        except OSError as error:
            raise cannot_write(self._output.path, error) from None

    def commit(self, metadata: Mapping[str, Any]) -> str:
        """Finish the file, with metadata as for `finish`, give it its name, and return its BLAKE3 in hex."""
        self.finish(metadata)
        return self.publish()

    def finish(self, metadata: Mapping[str, Any]) -> None:
        """Write the remaining rows and the footer, with metadata stored as JSON; the file keeps its temporary name."""
        if self._pending_rows:
            self._write(pa.Table.from_batches(self._pending))
            self._pending = []
        encoded = {key: json.dumps(value, ensure_ascii=False) for key, value in metadata.items()}
        self._writer.add_key_value_metadata(encoded)
        self._sink.end = bytearray()
        self._writer.close()
        end = memoryview(self._sink.end)
        start = len(end) - _TAIL - int.from_bytes(end[-_TAIL:-4], "little")
        self._output.write(end[:start])
        self._output.write(seal(self._output.digest(), end[start:]))
        self._output.write(end[start:])
        self._output.check()

    def publish(self) -> str:
        """Give the finished file its name and return its BLAKE3 in hex."""
        return self._output.commit()

    @property
    def size(self) -> int:
        """The number of bytes written."""
        return self._output.size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._sink.discard = True
        with suppress(pa.ArrowException, OSError):
            self._writer.close()
        self._output.__exit__(*error)


def arrow_file(path: Path) -> pa.NativeFile:
    """Open a regular file for Arrow, which takes only UTF-8 as text for a path. Raises OSError."""
    require_regular(path.stat())
    return pa.OSFile(os.fsencode(path))


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open a Parquet file whose pages are verified as they are read.

    Raises FormatError if the footer is not the one that kifu wrote; OSError, ArrowException or ValueError if it cannot
    be read.
    """
    file = arrow_file(path)
    _read_seal(path, file)
    # pre_buffer would keep all bytes read in memory until the file is closed.
    return pq.ParquetFile(file, pre_buffer=False, thrift_string_size_limit=64 << 20, page_checksum_verification=True)


def parquet_metadata(path: Path) -> dict[bytes, bytes]:
    """Return the key-value metadata of a Parquet file; raises as `open_parquet` does."""
    with open_parquet(path) as file:
        return file.metadata.metadata or {}


def keep_table(path: Path, overwrite: bool, **made_from: Any) -> dict[str, Any] | None:
    """Return the origin (kifu.about) of a Parquet file if `kifu.io.keep_output` keeps it, else None.

    made_from: the inputs and options of this run, as entries of the origin that it would write.
    """
    metadata: dict[bytes, bytes] = {}
    about: Any = {}
    with suppress(FormatError, pa.ArrowException, OSError, ValueError, RecursionError):
        metadata = parquet_metadata(path)
        about = json.loads(metadata.get(b"kifu.about", b"{}"))
    same = metadata.get(b"kifu.version") == importlib.metadata.version("kifu").encode()
    same = same and _contains(about, json.loads(json.dumps(made_from)))
    own = any(key.startswith(b"kifu.") for key in metadata)
    return about if keep_output(path, overwrite, own=own, same=same) else None


def _contains(recorded: Any, wanted: Any) -> bool:
    """Return True if JSON values are equal, apart from further keys of recorded objects."""
    if isinstance(recorded, dict) and isinstance(wanted, dict):
        return all(name in recorded and _contains(recorded[name], value) for name, value in wanted.items())
    if isinstance(recorded, list) and isinstance(wanted, list):
        return len(recorded) == len(wanted) and all(map(_contains, recorded, wanted))
    return bool(recorded == wanted)


def verify_pages(path: Path) -> None:
    """Raise FormatError if a sealed file has other pages than kifu wrote, for readers that do not verify checksums."""
    with arrow_file(path) as file:
        start, digest = _read_seal(path, file)
        if digest:
            file.seek(0)
            actual = blake3()
            for at in range(0, start, _HASH_BYTES):
                actual.update(file.read_buffer(min(_HASH_BYTES, start - at)))
            if actual.digest() != digest:
                raise FormatError(f"{path} is damaged: its rows are not those that were written")


def _read_seal(path: Path, file: pa.NativeFile) -> tuple[int, bytes]:
    """Verify the footer of a file. Returns where the seal begins, and the digest of all before it; b"" without one."""
    end = file.size()
    file.seek(max(end - _TAIL, 0))
    size = int.from_bytes(file.read(4), "little") + _TAIL
    start = end - size - _SEAL_BYTES
    digests = b""
    if start >= 0:
        file.seek(start)
        seal_bytes = file.read(_SEAL_BYTES)
        if seal_bytes.startswith(SEAL):
            digests = seal_bytes[len(SEAL) :]
            if blake3(file.read_buffer(size)).digest() != digests[blake3.digest_size :]:
                raise FormatError(f"{path} is damaged: its footer is not the one that was written")
    file.seek(0)
    return start, digests[: blake3.digest_size]


def _row_bytes(table: pa.Table) -> npt.NDArray[np.int64]:
    """Return the size of the lists and texts of each row, [G] int64."""
    import pyarrow.compute as pc  # slow to load

    size = np.zeros(len(table), np.int64)
    for column in table.columns:
        if pa.types.is_list(column.type):
            kind = column.type.value_type
            kinds = [field.type for field in kind] if pa.types.is_struct(kind) else [kind]
            element = sum(each.bit_width // 8 for each in kinds if pa.types.is_primitive(each))
            size += pc.list_value_length(column).fill_null(0).to_numpy() * element
        elif pa.types.is_string(column.type):
            size += pc.binary_length(column).fill_null(0).to_numpy()
    return size


def open_file(path: Path) -> pq.ParquetFile:
    """Open a file with the catalogue's columns. Raises FormatError if it is no catalogue, or of another version."""
    try:
        file = open_parquet(path)
        metadata = file.metadata.metadata or {}
        columns = set(file.schema_arrow.names)
        groups = [file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups)]
    except FormatError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or first_line(error)
        if isinstance(error, pa.ArrowInvalid | IsADirectoryError):  # Arrow found no footer, or one of another kind
            reason = f"not a complete Parquet file; ingest game records first: kifu ingest {path} -o games.parquet"
        raise FormatError(f"{path} is not a catalogue: {reason}") from None
    version = metadata.get(VERSION_KEY.encode(), str(VERSION).encode()).decode("ascii", "replace")
    check_version(path, version)
    missing = [name for name in SCHEMA.names if name not in columns]
    if missing:
        raise FormatError(
            f"{path} is not a catalogue: {len(missing)} columns are missing, {', '.join(missing[:5])} ..."
        )
    if max(groups, default=0) > _MAX_GROUP_BYTES:
        raise FormatError(f"{path}: a row group of {max(groups):,} bytes is too large")
    return file


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Raise errors of the system and of Arrow as a FormatError that names the file."""
    try:
        yield
    except FormatError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise FormatError(f"{path}: {first_line(error)}") from None


def group_rows(file: pq.ParquetFile) -> list[int]:
    """Return the number of rows of each row group."""
    return [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]


def read_batches(
    path: Path, file: pq.ParquetFile, groups: range, columns: Sequence[str] | None, size: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some row groups, see `kifu.corpus.catalogue.Catalogue.batches`."""
    names = SCHEMA.names if columns is None else list(columns)
    schema = pa.schema([SCHEMA.field(name) for name in names])
    rows = group_rows(file)
    first, stop = sum(rows[: groups.start]), sum(rows[: groups.stop])
    with reading(path):
        for batch in file.iter_batches(size, groups, columns=names, use_threads=False):
            batch.validate(full=True)
            yield cast_batch(batch, schema, path, first)
            first += len(batch)
        if first != stop:
            raise FormatError(f"{path} is damaged: {stop - first:,} rows are missing")


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema, path: Path, first: int) -> pa.RecordBatch:
    """Cast the schema's columns of a batch. Raises FormatError if a value does not fit. first: row, for messages."""
    columns = []
    for field in schema:
        column = batch.column(field.name)
        if column.type != field.type:
            with reading(f"{path}: column {field.name}"):
                column = column.cast(field.type)
        may_be_null = not pa.types.is_list(field.type) or field.type.value_field.nullable
        null_elements = not may_be_null and column.flatten().null_count > 0
        if null_elements or (column.null_count and not field.nullable):
            raise FormatError(f"{path}: column {field.name} must not contain nulls")
        try:
            check_limits(field.name, column)
        except FormatError as error:
            raise FormatError(f"{path}: column {error}") from None
        columns.append(column)
    checked = pa.RecordBatch.from_arrays(columns, schema=schema)
    try:
        check_move_columns(checked, first)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    return checked


def annotation_writer(path: Path) -> TableWriter:
    """Return a writer with the columns, encodings and metadata of annotations. Raises OutputError."""
    floats = [field.name for field in ANNOTATION_SCHEMA if pa.types.is_floating(field.type)]
    encodings = dict.fromkeys(floats, "BYTE_STREAM_SPLIT") | {
        "ply": "DELTA_BINARY_PACKED", "ownership": "DELTA_LENGTH_BYTE_ARRAY",
    }  # fmt: skip
    metadata = {_ANNOTATION_KEY: str(ANNOTATION_VERSION), "kifu.version": importlib.metadata.version("kifu")}
    return TableWriter(
        path,
        ANNOTATION_SCHEMA.with_metadata(metadata),
        use_dictionary=[name for name in ANNOTATION_SCHEMA.names if name not in encodings],
        column_encoding=encodings,
    )


def is_annotation(path: Path) -> bool:
    """Return True if a file is an annotation of any version, judging by its metadata."""
    try:
        return _ANNOTATION_KEY.encode() in parquet_metadata(path)
    except (FormatError, pa.ArrowException, OSError, ValueError):
        return False


def check_annotation(path: Path) -> None:
    """Raise FormatError unless a file is an annotation with the columns of this version."""
    try:
        with open_parquet(path) as file:
            metadata = file.metadata
    except FormatError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"{path} is not an annotation: {first_line(error)}") from None
    version = (metadata.metadata or {}).get(_ANNOTATION_KEY.encode(), b"").decode("ascii", "replace")
    if version != str(ANNOTATION_VERSION):
        raise FormatError(
            f"{path} is an annotation of version {version!r}; this kifu reads version {ANNOTATION_VERSION}"
        )
    missing = [name for name in ANNOTATION_SCHEMA.names if name not in metadata.schema.names]
    if missing:
        raise FormatError(f"{path} is not an annotation: it lacks the columns {', '.join(missing)}")
