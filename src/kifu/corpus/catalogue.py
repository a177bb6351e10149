"""The catalogue: a Parquet file of the columns of `kifu.corpus.schema`, or a folder of them, read batch by batch."""

from __future__ import annotations

import importlib.metadata
import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kifu.atomic_io import hash_file
from kifu.corpus.index import Index, has_index, read_index
from kifu.corpus.parquet import KEY, TableWriter, group_rows, open_file, read_rows
from kifu.corpus.schema import SCHEMA, VERSION
from kifu.errors import DropReason, FormatError, SourceError, first_line
from kifu.point import MAX_SIZE
from kifu.records.game import Game
from kifu.records.games import NO_HANDICAP, GameArrays, MoveArrays, ParseWarning
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
            SCHEMA.with_metadata({KEY: str(VERSION), "kifu.version": importlib.metadata.version("kifu")}),
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
class RowsUnit:
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
            yield from read_rows(part, file, range(file.metadata.num_row_groups), columns, size)

    def units(self) -> list[RowsUnit]:
        """All rows, in order, as units of at most 131,072 rows, or of one row group if that has more.

        They are cut where row groups end, so that none is read twice. Raises FormatError.
        """
        return [unit for part, rows in self.parts.items() for unit in _units(part, rows)]

    def games(self) -> Iterator[Game]:
        """Each row as a game, dropped ones too: their `drop` is set only where nothing could be read of them.

        Of what the record said only that is left which has columns. Raises as `batches` does.
        """
        from kifu.corpus.spell import games_of_rows  # it needs this module

        for batch in self.batches():
            yield from games_of_rows(batch)

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


def rows_of_unit(unit: RowsUnit, columns: Sequence[str] | None = None, size: int = 8192) -> Iterator[pa.RecordBatch]:
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
    for batch in read_rows(path, file, groups, columns, size):
        low, high = max(unit.first - at, 0), min(stop - at, len(batch))
        if low < high:
            yield batch if high - low == len(batch) else batch.slice(low, high - low)
        at += len(batch)


def _open_part(path: Path, rows: int) -> pq.ParquetFile:
    file = open_file(path)
    if file.metadata.num_rows != rows:
        raise FormatError(f"{path} is not the file that it was: it has {file.metadata.num_rows:,} rows, not {rows:,}")
    return file


def _units(path: Path, rows: int) -> Iterator[RowsUnit]:
    start = stop = 0
    for group in group_rows(_open_part(path, rows)):
        if start < stop and stop + group - start > _UNIT:
            yield RowsUnit(str(path), start, stop - start)
            start = stop
        stop += group
    if start < stop:
        yield RowsUnit(str(path), start, stop - start)


PLAYED_COLUMNS = ("width", "height", "setup", "setup_ply", "root_setup", "moves")
"""What `played_of` needs."""

GAME_COLUMNS = (*PLAYED_COLUMNS, "entry", "handicap", "to_play", "repairs", "drop")
"""What `games_of` needs."""


def played_of(batch: pa.RecordBatch) -> MoveArrays:
    """What is played in the games of some rows. Numbers, those within lists and the offsets of large lists are Arrow's
    own buffers, not copies.

    batch: with PLAYED_COLUMNS at least, as `Catalogue.batches` gives it.
    Raises FormatError if a row contradicts itself.
    """
    moves, move_offset = list_parts(batch.column("moves"))
    setup, setup_offset = list_parts(batch.column("setup"))
    setup_ply, ply_offset = list_parts(batch.column("setup_ply"))
    root_setup = numbers(batch.column("root_setup"))
    width, height = numbers(batch.column("width")), numbers(batch.column("height"))
    if not np.array_equal(setup_offset, ply_offset) or np.any(root_setup > np.diff(setup_offset)):
        raise FormatError("setup, setup_ply and root_setup of a row do not fit together")
    begins = np.zeros(len(setup_ply) + 1, np.bool_)
    begins[setup_offset] = True
    if np.any((setup_ply[1:] < setup_ply[:-1]) & ~begins[1:-1]):
        raise FormatError("setup_ply of a row does not rise")
    if np.any(width > MAX_SIZE) or np.any(height > MAX_SIZE):
        raise FormatError(f"a board of a row is larger than {MAX_SIZE} x {MAX_SIZE}")
    return MoveArrays(width, height, moves, move_offset, setup, setup_ply, setup_offset, root_setup)


def games_of(batch: pa.RecordBatch) -> GameArrays:
    """The games of some rows as kernels take them; moves and numbers are Arrow's own buffers, not copies.

    batch: with GAME_COLUMNS at least, as `Catalogue.batches` gives it. start, stop are 0; block_index is the row.
    Raises FormatError if a row contradicts itself.
    """
    rows, played = len(batch), played_of(batch)
    return GameArrays(
        **{field.name: getattr(played, field.name) for field in fields(played)},
        to_play=numbers(batch.column("to_play")),
        handicap=numbers(pc.fill_null(batch.column("handicap"), NO_HANDICAP)),
        notes=by_value(batch.column("repairs"), note_bits, np.uint32),
        drop=by_value(batch.column("drop"), drop_code, np.uint8),
        member=numbers(batch.column("entry")),
        block_index=np.arange(rows, dtype=np.int32),
        start=np.zeros(rows, np.int64),
        stop=np.zeros(rows, np.int64),
    )


def list_parts(column: pa.ListArray | pa.LargeListArray) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """A list column without nulls as (values, offsets [G + 1] int64 into them)."""
    if not len(column):
        return _writable(column.values.to_numpy()[:0]), np.zeros(1, np.int64)
    offsets = column.offsets.to_numpy().astype(np.int64, copy=False)
    values = column.values.to_numpy()[offsets[0] : offsets[-1]]
    return _writable(values), _writable(offsets - offsets[0] if offsets[0] else offsets)


def numbers(column: pa.Array) -> npt.NDArray[Any]:
    """A column of numbers without nulls as an array."""
    return _writable(column.to_numpy(zero_copy_only=False))


class _Alias:
    """Another array's memory, said to be writable."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values = values
        self.__array_interface__ = {**values.__array_interface__, "data": (values.ctypes.data, False)}


def _writable(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same memory as another type, no copy: a kernel is compiled once more for arrays that are read-only, and none
    of ours writes to what it reads."""
    return values if values.flags.writeable else np.asarray(_Alias(values))


def by_value(column: pa.Array, meaning: Callable[[str | None], Any], kind: type[np.generic]) -> npt.NDArray[Any]:
    """meaning(text) of each row, called once for each distinct text; null is None."""
    coded = column.dictionary_encode(null_encoding="encode")
    table = np.array([meaning(text) for text in coded.dictionary.to_pylist()], kind)
    return table[coded.indices.to_numpy()] if len(column) else np.empty(0, kind)


def note_bits(repairs: str | None) -> int:
    """The `ParseWarning`s of a row's `repairs`. Raises FormatError for a name that is none."""
    try:
        return sum(int(ParseWarning[name.upper()]) for name in {*repairs.split(",")}) if repairs else 0
    except KeyError as error:
        raise FormatError(f"unknown repair {error.args[0].lower()!r}") from None


def repairs_text(notes: int) -> str | None:
    """The names of some `ParseWarning`s, as `repairs` has them; None for none."""
    return ",".join(str(note.name).lower() for note in ParseWarning if notes & note) or None


def drop_code(drop: str | None) -> int:
    """The `DropReason` of a row. Raises FormatError for a name that is none."""
    try:
        return int(DropReason[drop.upper()]) if drop is not None else int(DropReason.KEPT)
    except KeyError:
        raise FormatError(f"unknown reason {drop!r} to drop a game") from None


def drop_name(drop: int) -> str | None:
    """What column `drop` says for a `DropReason`."""
    return DropReason(drop).name.lower() if drop else None
