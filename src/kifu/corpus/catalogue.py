"""The catalogue: a Parquet file with the columns of `kifu.corpus.schema`, or a folder of them with a JSON index.

The index lists the partitions in order. It is untrusted input: its size is bounded, and the partitions must lie within
the folder and have the recorded sizes. Field names of its models are the JSON keys.
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3
from pydantic import BaseModel, Field, ValidationError, field_validator

from kifu.config import STRICT, first_invalid
from kifu.corpus.parquet import VERSION_KEY, TableWriter, group_rows, open_file, read_batches
from kifu.corpus.schema import SCHEMA, VERSION, check_version
from kifu.errors import FormatError, SourceError, first_line, printable
from kifu.io import add_checksum, hash_file, open_regular, read_small, write_file
from kifu.records.game import Game
from kifu.records.paths import Remote, as_path

_log = logging.getLogger(__name__)

INDEX = "catalogue.json"
"""The index's file name within the folder."""

SEARCH_SUFFIX = ".search"
"""Added to the name of a Parquet file, the name of its search index (`kifu.search.index`), which is removed with it."""


Count = Annotated[int, Field(ge=0, le=10**12)]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

_PLAIN = r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,150}"
"""A path component that is neither hidden nor "..", which would leave the folder."""

PARTITION_PATH = rf"({_PLAIN}/){{1,2}}{_PLAIN}\.parquet"
"""The pattern of a partition's path within the folder."""


class Partition(BaseModel):
    """A Parquet file of the folder, itself a catalogue."""

    model_config = STRICT

    path: Annotated[str, Field(pattern=f"^{PARTITION_PATH}$")]
    rows: Count  # of which `kept` are not dropped
    kept: Count
    bytes: Count
    blake3: Hash
    sources: Annotated[tuple[Count, ...], Field(min_length=1, strict=False)]  # ascending indices into `Index.sources`
    year: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,20}$")]  # of all its games, see `kifu.corpus.update.year_name`


class SourceInfo(BaseModel):
    """A source, see `kifu.corpus.sources.Source.info`; a folder of loose records has no size and hash."""

    model_config = STRICT

    name: str
    bytes: Count | None = None
    blake3: Hash | None = None
    left_out: dict[str, Count] | None = None  # files or members that were not read, by kind
    about: dict[str, Any] | None = None  # the metadata of a catalogue


class Index(BaseModel):
    """The content of the index; `read` == `kept` + the sum of `drops` == the rows of all partitions."""

    model_config = STRICT

    catalogue: int = VERSION
    kifu: str  # the version that wrote the index
    clean: dict[str, Any]  # the cleaning rules, the same for all sources
    compacted: Count = 0  # how many times, see `kifu.corpus.update.compact`
    sources: Annotated[tuple[SourceInfo, ...], Field(strict=False)]  # in the order in which they were added
    read: Count
    kept: Count
    drops: dict[str, Count]  # by the name of the `DropReason`
    parts: Annotated[tuple[Partition, ...], Field(min_length=1, strict=False)]  # in the order of the rows; may be empty

    @field_validator("parts")
    @classmethod
    def _require_distinct(cls, parts: tuple[Partition, ...]) -> tuple[Partition, ...]:
        if repeated := [path for path, n in Counter(part.path.casefold() for part in parts).items() if n > 1]:
            raise ValueError(f"{repeated[0]} is listed twice")
        return parts

    def metadata(self) -> dict[str, Any]:
        """Return the value of `Catalogue.metadata`."""
        sources = [source.model_dump(exclude_none=True) for source in self.sources]
        return {"clean": self.clean, "sources": sources, "read": self.read, "kept": self.kept, "drops": self.drops}

    def digest(self) -> str:
        """Return the BLAKE3, in hex, of the hashes of all partitions."""
        return blake3(b"".join(bytes.fromhex(part.blake3) for part in self.parts)).hexdigest()

    def write(self, folder: Path) -> None:
        """Replace the folder's index atomically."""
        write_file(folder / INDEX, add_checksum(json.dumps(self.model_dump(exclude_none=True), ensure_ascii=False)))


def has_index(path: Path) -> bool:
    """Return True if the path is a folder with an index."""
    try:
        return path.joinpath(INDEX).is_file()
    except (OSError, ValueError):
        return False


def read_index(folder: Path) -> Index:
    """Read the index of a folder and check that the partitions exist and have their sizes.

    Raises FormatError if the index or a partition is damaged or missing.
    """
    index_path, data = folder / INDEX, b""
    try:
        data = read_small(index_path)
        index = Index.model_validate_json(data)
        check_version(folder, str(index.catalogue))
        _check_partitions(folder, index)
    except ValidationError as error:
        raise FormatError(f"{index_path} is not the index of a catalogue: {first_invalid(error)}") from None
    except FormatError:
        raise
    except (OSError, ValueError) as error:
        if data and read_small(index_path) != data:  # `compact` has replaced it meanwhile
            return read_index(folder)
        raise FormatError(f"{folder} is not a complete catalogue: {first_line(error)}") from None
    _check_counts(index, index_path)
    return index


def _check_partitions(folder: Path, index: Index) -> None:
    """Raise FormatError or OSError unless the partitions are regular files within the folder with their sizes."""
    top = folder.resolve()
    for directory in {Path(part.path).parent for part in index.parts}:
        if not (folder / directory).resolve().is_relative_to(top):
            raise FormatError(f"{folder / directory} lies outside the folder")
    for part in index.parts:
        path = folder / part.path
        status = path.lstat()
        if not S_ISREG(status.st_mode):
            raise FormatError(f"{path} is not a regular file")
        if status.st_size != part.bytes:
            raise FormatError(f"{path} has {status.st_size:,} bytes, but {INDEX} lists {part.bytes:,}")


def _check_counts(index: Index, index_path: Path) -> None:
    """Raise FormatError if the counts of an index contradict each other."""
    rows, kept = (sum(getattr(part, name) for part in index.parts) for name in ("rows", "kept"))
    if (index.read, index.kept, index.read - index.kept) != (rows, kept, sum(index.drops.values())):
        raise FormatError(
            f"{index_path}: its partitions have {rows:,} games, {kept:,} kept; it lists {index.read:,}, {index.kept:,}"
        )
    if any(source >= len(index.sources) for part in index.parts for source in part.sources):
        raise FormatError(f"{index_path}: a partition refers to a source that is not listed")


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
        """Open the temporary file."""
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

    def publish(self) -> str:
        """Give the finished file its name and return its BLAKE3 in hex; note if it has the index of another one."""
        path = self._output.path
        old = hash_file(path) if path.with_name(path.name + SEARCH_SUFFIX).exists() and path.is_file() else None
        new = super().publish()
        if old not in (None, new):
            _log.warning("%s has the search index of an earlier catalogue: run kifu index again", printable(path))
        return new


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

    def fingerprint(self) -> list[Any]:
        """Return the shard as JSON values, to distinguish it from others of the same files."""
        return [self.path, self.first, self.rows]


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
        return [shard for path, rows in self.partitions.items() for shard in _shards(path, rows)]

    def games(self) -> Iterator[Game]:
        """Yield every row as a game, dropped ones too; a game's `drop` is set only if its record was unreadable.

        Of the records, only the content of columns is left. Raises FormatError as `batches`.
        """
        from kifu.corpus.rows import rows_to_games  # loads the record formats, which nothing else here needs

        for batch in self.batches():
            yield from rows_to_games(batch)

    def digest(self) -> str:
        """Return a hash, in hex, that identifies the rows and their order.

        It is the BLAKE3 of the file. For a folder, it is computed from the hashes in the index, which are not verified.
        """
        try:
            return hash_file(self.path) if self.index is None else self.index.digest()
        except OSError as error:
            raise FormatError(f"{self.path}: {first_line(error)}") from None

    def file_bytes(self) -> int:
        """Return the total size of the Parquet files."""
        try:
            return sum(path.stat().st_size for path in self.partitions)
        except OSError as error:
            raise FormatError(f"{self.path}: {first_line(error)}") from None

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
        index = read_index(path)
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
        raise FormatError(f"{path} was removed while the catalogue was read, as kifu compact does; try again")
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
