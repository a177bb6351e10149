"""The catalogue: a Parquet file with the columns of `kifu.corpus.schema`, or a folder of them with a JSON index."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kifu.corpus.parquet import VERSION_KEY, TableWriter, group_rows, open_file, read_batches, reading
from kifu.corpus.schema import INDEX, SCHEMA, VERSION
from kifu.errors import FormatError, SourceError
from kifu.io import hash_file, open_regular
from kifu.records.paths import Remote, as_path

if TYPE_CHECKING:
    from kifu.corpus.partitions import Index
    from kifu.records.game import Game

_log = logging.getLogger(__name__)

SEARCH_SUFFIX = ".search"
"""Added to the name of a Parquet file, the name of its search index (`kifu.search.index`), which is removed with it."""


def has_index(path: Path) -> bool:
    """Return True if the path is a folder with an index."""
    try:
        return path.joinpath(INDEX).is_file()
    except (OSError, ValueError):
        return False


_SHARD_ROWS = 131_072
"""Rows per shard: a few seconds of work."""

# As 4 byte streams, two of them empty, 16-bit words compress better than by dictionary: 225 bytes of moves per KGS
# game instead of 246, in half the time.
_SPLIT = ("id", "canonical", "opening", "setup.list.element", "moves.list.element")
# Ascending numbers, mostly by 1.
_DELTAS = ("entry", "index", "n_moves", "n_legal", "setup_ply.list.element", "territory.list.element")


class CatalogueWriter(TableWriter):
    """A `TableWriter` with the catalogue's schema, encodings and metadata."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        plain = {*_SPLIT, *_DELTAS}
        columns = [name for field in SCHEMA for name in _parquet_names(field)]
        super().__init__(
            path,
            SCHEMA.with_metadata({VERSION_KEY: str(VERSION), "kifu.version": importlib.metadata.version("kifu")}),
            use_dictionary=[name for name in columns if name not in plain],
            column_encoding=dict.fromkeys(_SPLIT, "BYTE_STREAM_SPLIT") | dict.fromkeys(_DELTAS, "DELTA_BINARY_PACKED"),
            write_statistics=["archive", "year", "n_moves", "drop", "black_rating", "white_rating"],
        )

    def finish(self, metadata: Mapping[str, Any]) -> None:
        """Write the remaining rows and the footer. metadata: the origin as JSON values, later `Catalogue.metadata`."""
        super().finish({"kifu.about": metadata})


def _parquet_names(field: pa.Field) -> list[str]:
    if not pa.types.is_list(field.type):
        return [str(field.name)]
    element, name = field.type.value_type, f"{field.name}.list.element"
    return [f"{name}.{part.name}" for part in element] if pa.types.is_struct(element) else [name]


@dataclass(frozen=True, slots=True)
class RowShard:
    """A range of rows of one Parquet file, a unit of parallel work."""

    path: str
    first: int  # from 0
    rows: int
    row: int = 0  # that the first one is of the catalogue


@dataclass(frozen=True, slots=True)
class Catalogue:
    """An open catalogue, as `open_catalogue` returns it.

    Attributes:
        path: A file, or a folder of partitions.
        metadata: The writer's description of the catalogue's origin, empty if kifu did not write it.
        partitions: The Parquet files in the order of the rows, with their numbers of rows; a single file is its own
            partition.
    """

    path: Path
    rows: int
    metadata: Mapping[str, Any]
    partitions: Mapping[Path, int]
    index: Index | None

    def batches(self, columns: Sequence[str] | None = None, *, size: int = 8192) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order, in SCHEMA's types, at most `size` per batch; `columns` are all by default.

        Raises FormatError if a file is damaged, or a value does not fit its column.
        """
        for path, rows in self.partitions.items():
            file = open_partition(path, rows)
            yield from read_batches(path, file, range(file.metadata.num_row_groups), columns, size)

    def shards(self) -> list[RowShard]:
        """Return all rows, in order, as shards of at most 131,072 rows, or of one row group if that has more.

        Shards end where row groups end, so that no row group is read twice.
        """
        shards = [shard for path, rows in self.partitions.items() for shard in _shards(path, rows)]
        starts = accumulate((shard.rows for shard in shards), initial=0)
        return [replace(shard, row=start) for shard, start in zip(shards, starts)]

    def games(self) -> Iterator[Game]:
        """Yield every row as a game, dropped ones too; a game's `drop` is set only if its record was unreadable.

        Of the records, only the content of columns is left. Raises FormatError as `batches`.
        """
        from kifu.corpus.export import rows_to_games  # loads the record formats, which nothing else here needs

        for batch in self.batches():
            yield from rows_to_games(batch)

    def __iter__(self) -> Iterator[Game]:
        return self.games()

    def __getitem__(self, row: int) -> Game:
        """Return one row as `games` does; a negative row counts from the end."""
        from kifu.corpus.export import rows_to_games

        at = row + self.rows * (row < 0)
        for path, rows in self.partitions.items():
            if 0 <= at < rows:
                return next(rows_to_games(next(read_shard(RowShard(str(path), at, 1)))))
            at -= rows
        raise IndexError(f"row must be within {-self.rows} to {self.rows - 1}, got {row}")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as an Arrow stream, so that polars, pandas and pyarrow can make a table of a catalogue."""
        return pa.RecordBatchReader.from_batches(SCHEMA, self.batches()).__arrow_c_stream__(requested_schema)

    def digest(self) -> str:
        """Return a hash, in hex, that identifies the rows and their order.

        It is the BLAKE3 of the file. For a folder, it is computed from the hashes in the index, which are not verified.
        """
        with reading(self.path):
            return hash_file(self.path) if self.index is None else self.index.digest()

    def file_bytes(self) -> int:
        """Return the total size of the Parquet files."""
        with reading(self.path):
            return sum(path.stat().st_size for path in self.partitions)

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        kept = f", {self.metadata['kept']:,} kept" if isinstance(self.metadata.get("kept"), int) else ""
        files = f" in {len(self.partitions):,} files" if self.index is not None else ""
        return f"<Catalogue {str(self.path)!r}: {self.rows:,} games{kept}{files}>"


def is_catalogue(path: str | os.PathLike[str]) -> bool:
    """Return True if the path is a Parquet file, or a folder with an index."""
    try:
        with open_regular(path) as file:
            return file.read(4) == b"PAR1"
    except (OSError, ValueError):
        return has_index(Path(path))


def open_catalogue(path: str | os.PathLike[str]) -> Catalogue:
    """Open a catalogue: a partitioned folder, or any Parquet file with the catalogue's columns in compatible types.

    Raises FormatError if it is not a catalogue, has another version, or lacks a partition; SourceError for a URL.
    """
    path = as_path(path)
    if isinstance(path, Remote):
        raise SourceError(f"{path}: catalogues must be local files or folders; only archives can be read from URLs")
    if has_index(path):
        from kifu.corpus.partitions import read_partitions  # loads pydantic

        index = read_partitions(path)
        partitions = {path / part.path: part.rows for part in index.parts}
        return Catalogue(path, index.read, index.metadata(), partitions, index)
    file = open_file(path)
    try:
        metadata = json.loads((file.metadata.metadata or {}).get(b"kifu.about", b"{}"))
    except (ValueError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict):
        raise FormatError(f"{path}: the metadata kifu.about is not a JSON object")
    rows = file.metadata.num_rows
    return Catalogue(path, rows, metadata, {path: rows}, None)


def number_batches(
    paths: Iterable[str | os.PathLike[str]], columns: Sequence[str] | None = None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of several catalogues in order, each batch with the number of its first row.

    Each catalogue is opened when its turn comes: an open file that was read keeps some of its bytes in memory.
    """
    start = 0
    for path in paths:
        for batch in open_catalogue(path).batches(columns):
            yield start, batch
            start += len(batch)


def read_shard(shard: RowShard, columns: Sequence[str] | None = None, size: int = 8192) -> Iterator[pa.RecordBatch]:
    """Yield the shard's rows as `Catalogue.batches` does.

    Any range of rows is allowed; row groups that it overlaps are read as a whole. Raises FormatError if the file is
    damaged or has fewer rows.
    """
    path = Path(shard.path)
    file = open_partition(path)
    ends = list(accumulate(group_rows(file)))
    stop = shard.first + shard.rows
    if not 0 <= shard.first <= stop <= file.metadata.num_rows:
        raise FormatError(f"{path} has changed: it has {file.metadata.num_rows:,} rows, not {stop:,}")
    first = bisect_right(ends, shard.first)
    groups = range(first, bisect_left(ends, stop) + 1 if shard.rows else first)
    batch_start = ends[first - 1] if first else 0
    for batch in read_batches(path, file, groups, columns, size):
        low, high = max(shard.first - batch_start, 0), min(stop - batch_start, len(batch))
        if low < high:
            yield batch if high - low == len(batch) else batch.slice(low, high - low)
        batch_start += len(batch)


def open_partition(path: Path, rows: int | None = None) -> pq.ParquetFile:
    """Open a file of an open catalogue. Raises FormatError also if it was removed, or has other rows than then."""
    if not path.exists():
        raise FormatError(f"{path} was removed while the catalogue was read, as merging its partitions does; try again")
    file = open_file(path)
    if rows not in (None, file.metadata.num_rows):
        raise FormatError(f"{path} has changed: it has {file.metadata.num_rows:,} rows, not {rows:,}")
    return file


def _shards(path: Path, rows: int) -> Iterator[RowShard]:
    start = stop = 0
    for group in group_rows(open_partition(path, rows)):
        if start < stop and stop + group - start > _SHARD_ROWS:
            yield RowShard(str(path), start, stop - start)
            start = stop
        stop += group
    if start < stop:
        yield RowShard(str(path), start, stop - start)
