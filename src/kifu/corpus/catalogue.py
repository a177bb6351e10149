"""The catalogue: a Parquet file of the columns of `kifu.corpus.schema`, or a folder of them, read batch by batch."""

from __future__ import annotations

import importlib.metadata
import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kifu.atomic_io import hash_file
from kifu.corpus.index import Index, has_index, read_index
from kifu.corpus.parquet import VERSION_KEY, TableWriter, group_rows, open_file, read_batches
from kifu.corpus.schema import SCHEMA, VERSION
from kifu.errors import FormatError, SourceError, first_line
from kifu.records.game import Game
from kifu.records.places import Remote, as_path

_UNIT = 131_072
"""Rows a unit of work: a few seconds of it."""

# Bytes of 16-bit words in 4 streams, two of them empty, pack better than a dictionary: 225 bytes of moves a game of
# KGS instead of 246, and in half the time.
_SPLIT = ("id", "canonical", "opening", "setup.list.element", "moves.list.element")
# Rising numbers, mostly by 1.
_DELTAS = ("entry", "index", "n_moves", "n_legal", "setup_ply.list.element", "territory.list.element")


class CatalogueWriter(TableWriter):
    """Writes a catalogue: a `TableWriter` of SCHEMA."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises OutputError."""
        plain = {*_SPLIT, *_DELTAS}
        columns = [field.name + (".list.element" if pa.types.is_list(field.type) else "") for field in SCHEMA]
        super().__init__(
            path,
            SCHEMA.with_metadata({VERSION_KEY: str(VERSION), "kifu.version": importlib.metadata.version("kifu")}),
            use_dictionary=[name for name in columns if name not in plain],
            column_encoding=dict.fromkeys(_SPLIT, "BYTE_STREAM_SPLIT") | dict.fromkeys(_DELTAS, "DELTA_BINARY_PACKED"),
            write_statistics=["archive", "year", "n_moves", "drop", "black_rating", "white_rating"],
        )

    def end(self, about: Mapping[str, Any]) -> None:
        """Ends the file, which is to be given its name then.

        about: what the file says about how it came to be, as JSON values; `Catalogue.about` has it again.
        """
        super().end({"kifu.about": about})


@dataclass(frozen=True, slots=True)
class RowShard:
    """Some rows of a catalogue as a unit of work, see `kifu.execution.executor`."""

    path: str
    """The Parquet file that they lie in."""

    first: int
    """The first of them, counted from 0 in that file."""

    rows: int

    def identity(self) -> list[Any]:
        """What tells them from other rows of the same files, as JSON values."""
        return [self.path, self.first, self.rows]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """A catalogue, opened; `kifu.corpus.catalogue.open_catalogue` makes it."""

    path: Path
    """A file, or a folder of parts."""

    rows: int
    about: Mapping[str, Any]
    """What the writer said of it; empty if something else than kifu wrote it."""

    parts: Mapping[Path, int]
    """The Parquet files that the rows lie in, in order, and how many they have; a file is its own part."""

    index: Index | None
    """What a folder says of its parts."""

    def batches(self, columns: Sequence[str] | None = None, *, size: int = 8192) -> Iterator[pa.RecordBatch]:
        """The rows, at most `size` at a time, in SCHEMA's types; columns: all of SCHEMA by default.

        Raises FormatError if a file's bytes are not what it says, or if a value does not fit its column.
        """
        for part, rows in self.parts.items():
            file = _open_part(part, rows)
            yield from read_batches(part, file, range(file.metadata.num_row_groups), columns, size)

    def units(self) -> list[RowShard]:
        """All rows, in order, as units of at most 131,072 rows, or of one row group if that has more.

        They are cut where row groups end, so that none is read twice. Raises FormatError.
        """
        return [unit for part, rows in self.parts.items() for unit in _units(part, rows)]

    def games(self) -> Iterator[Game]:
        """Each row as a game, dropped ones too: their `drop` is set only where nothing could be read of them.

        Of what the record said only that is left which has columns. Raises as `batches` does.
        """
        from kifu.corpus.export import rows_to_games  # it needs this module

        for batch in self.batches():
            yield from rows_to_games(batch)

    def digest(self) -> str:
        """What tells these rows, in this order, from others, in hex: the BLAKE3 of the file.

        Of a folder it is made of those of its parts, as the index has them: whether they are right is not checked.
        Raises FormatError.
        """
        try:
            return hash_file(self.path) if self.index is None else self.index.digest()
        except OSError as error:
            raise FormatError(f"{self.path}: {first_line(error)}") from None

    def file_bytes(self) -> int:
        """How many bytes the parts have together. Raises FormatError."""
        try:
            return sum(part.stat().st_size for part in self.parts)
        except OSError as error:
            raise FormatError(f"{self.path}: {first_line(error)}") from None

    def __len__(self) -> int:
        return self.rows


def is_catalogue(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as Parquet does, or a folder has an index of parts."""
    try:
        with Path(path).open("rb") as file:
            return file.read(4) == b"PAR1"
    except (OSError, ValueError):
        return has_index(Path(path))


def open_catalogue(path: str | os.PathLike[str]) -> Catalogue:
    """Opens a catalogue: a folder of parts, or any Parquet file that has its columns in types that fit.

    Raises FormatError if it is none, or one of a newer version, or if the parts are not those that its index lists;
    SourceError for a URL.
    """
    path = as_path(path)
    if isinstance(path, Remote):
        raise SourceError(f"{path}: catalogues are read from this machine only; archives of games also from URLs")
    if has_index(path):
        index = read_index(path)
        return Catalogue(path, index.read, index.about(), {path / part.path: part.rows for part in index.parts}, index)
    file = open_file(path)
    try:
        about = json.loads((file.metadata.metadata or {}).get(b"kifu.about", b"{}"))
    except (ValueError, RecursionError):
        about = None
    if not isinstance(about, dict):
        raise FormatError(f"{path}: what it says about itself (kifu.about) is no JSON object")
    rows = file.metadata.num_rows
    return Catalogue(path, rows, about, {path: rows}, None)


def read_shard(unit: RowShard, columns: Sequence[str] | None = None, size: int = 8192) -> Iterator[pa.RecordBatch]:
    """The unit's rows as `Catalogue.batches` gives them. Raises FormatError, also if the file has no such rows.

    Any rows of a file will do; of a row group all that lie before them, or behind, are read in vain.
    """
    path = Path(unit.path)
    file = open_file(path)
    ends = list(accumulate(group_rows(file)))
    stop = unit.first + unit.rows
    if not 0 <= unit.first <= stop <= file.metadata.num_rows:
        raise FormatError(f"{path} is not the file that it was: it has {file.metadata.num_rows:,} rows, not {stop:,}")
    first = bisect_right(ends, unit.first)
    groups = range(first, bisect_left(ends, stop) + 1 if unit.rows else first)
    at = ends[first - 1] if first else 0
    for batch in read_batches(path, file, groups, columns, size):
        low, high = max(unit.first - at, 0), min(stop - at, len(batch))
        if low < high:
            yield batch if high - low == len(batch) else batch.slice(low, high - low)
        at += len(batch)


def _open_part(path: Path, rows: int) -> pq.ParquetFile:
    file = open_file(path)
    if file.metadata.num_rows != rows:
        raise FormatError(f"{path} is not the file that it was: it has {file.metadata.num_rows:,} rows, not {rows:,}")
    return file


def _units(path: Path, rows: int) -> Iterator[RowShard]:
    start = stop = 0
    for group in group_rows(_open_part(path, rows)):
        if start < stop and stop + group - start > _UNIT:
            yield RowShard(str(path), start, stop - start)
            start = stop
        stop += group
    if start < stop:
        yield RowShard(str(path), start, stop - start)
