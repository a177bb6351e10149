"""The manifest beside each data set, with its recipe, counts and hashes, and the base class of all writers.

The rows of an ordered data set, game after game, are in NAME.manifest.parquet beside it, in row groups of which readers
load one. Card: docs/formats/manifest.md.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from kifu.arrays import Indices, Ints
from kifu.checksums import BlockChecks, add_checksum
from kifu.config import first_invalid
from kifu.corpus.parquet import GROUP_ROWS, TableWriter, open_parquet
from kifu.corpus.schema import to_numpy
from kifu.datasets.examples import Batch, Layout
from kifu.errors import FormatError, first_line, printable
from kifu.io import read_small, utf8_name, write_file
from kifu.text import format_bytes, format_games

SUFFIX = ".manifest.json"

ORIGINS_SUFFIX = ".manifest.parquet"

_MAX_BYTES = 1 << 28
"""A manifest takes about 100 bytes per dropped game."""


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """The position that a row shows.

    Attributes:
        member: Index of the game among all that the archive lists, from 0.
        ply: Number of moves before the position, passes included.
    """

    archive: str
    member: int
    ply: int


def find_skips(rows: Ints, plies: npt.NDArray[np.uint16]) -> tuple[npt.NDArray[np.uint16], Indices]:
    """Return the ply of the first row of each game, 0 without rows, and the skips [game, row within the game, ply]."""
    start = np.cumsum(rows) - rows
    has_rows = rows > 0
    first = np.zeros(len(rows), np.uint16)
    first[has_rows] = plies[start[has_rows]]
    jumps = np.empty(len(plies), bool)
    np.not_equal(plies[1:], plies[:-1] + np.uint16(1), out=jumps[1:])  # row 0 is the first row of a game
    jumps[start[has_rows]] = False
    at = np.flatnonzero(jumps)
    game = np.searchsorted(start, at, "right") - 1
    return first, np.stack([game, at - start[game], plies[at]], 1).astype(np.int64)


@dataclass(frozen=True)
class DroppedGame:
    """A selected game that gave no rows; member: its index in the archive."""

    archive: str
    member: int
    name: str
    reason: str


@dataclass(frozen=True)
class ArchiveRows:
    """The rows of one archive or catalogue in a data set.

    Attributes:
        archive: Name of an archive of KGS without its extension, or file name of a catalogue.
        blake3: Its hash in hex; of a catalogue its digest, see `Catalogue.digest`.
    """

    archive: str
    blake3: str
    games: int
    rows: int


@dataclass(frozen=True)
class AnyManifest(ABC):
    """Base of the manifests of what recipes build."""

    kifu: str
    recipe: dict[str, Any]

    @abstractmethod
    def files_at(self, path: Path) -> list[tuple[Path, Any]]:
        """Return the files of what is at `path`, each as the manifest lists it."""

    @abstractmethod
    def summary(self) -> str:
        """Return counts and size as one line."""

    def to_json(self) -> bytes:
        """Return the manifest as JSON with a checksum."""
        return add_checksum(json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False))

    def write(self, path: Path) -> None:
        """Write the manifest as JSON, atomically. Raises OutputError."""
        write_file(path, self.to_json())


@dataclass(frozen=True)
class Manifest(AnyManifest):
    """The manifest of a data set. The fields are described in docs/formats/manifest.md.

    read == kept + elsewhere + the sum of drops, where `elsewhere` counts games of other sets or of no set. `dropped`
    lists the dropped games of archives; a catalogue lists its own. `origins` is a Parquet file beside the manifest that
    lists the rows of each game (`kifu.datasets.manifest`). It is None, and the numbers of `archives` are 0, if the
    examples are shuffled: each row then stores its own game and ply. `index` has the names of the archives of KGS that
    games were drawn from, in the order of the draw.
    """

    file: str
    format: str
    plane_set: str
    set: str
    examples: int
    files: list[WrittenFile]
    read: int
    kept: int
    elsewhere: int
    drops: dict[str, int]
    dropped: list[DroppedGame]
    sources: list[dict[str, Any]]
    archives: list[ArchiveRows]
    origins: WrittenFile | None
    index: list[str] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Size of all files of the data set."""
        return sum(file.bytes for file in self.files)

    @property
    def blake3(self) -> str | None:
        """BLAKE3 hash of the data set in hex; None if it is not one file."""
        return self.files[0].blake3 if len(self.files) == 1 else None

    def summary(self) -> str:
        """Return counts and size as one line."""
        games = format_games(self.read, self.kept, self.drops, self.elsewhere)
        return f"{self.examples:,} examples, {format_bytes(self.bytes)}; {games}"

    def __repr__(self) -> str:
        return printable(f"<{type(self).__name__} of {self.file}: {self.summary()}>")

    def adds_up(self) -> bool:
        """Return whether the counts match, and the file of origins has a name of its own."""
        rows = 0 if self.origins is None else self.examples
        return (
            rows == sum(each.rows for each in self.archives)
            and all(each.games >= 0 <= each.rows for each in self.archives)
            and self.read == self.kept + self.elsewhere + sum(self.drops.values())
            and (not self.dropped or self.drops == Counter(game.reason for game in self.dropped))
            and (self.origins is None or self.origins.file == self.file + ORIGINS_SUFFIX)
        )

    def files_at(self, path: Path) -> list[tuple[Path, WrittenFile]]:
        """Return the files of the data set at `path`, and the file of origins, each as the manifest lists it."""
        files = [(path / file.file if path.is_dir() else path, file) for file in self.files]
        return files if self.origins is None else [*files, (origins_path(path), self.origins)]


def manifest_path(path: Path) -> Path:
    """Return the path of the manifest of a data set."""
    return path.with_name(path.name + SUFFIX)


def origins_path(path: Path) -> Path:
    """Return the path of the file of origins of a data set."""
    return path.with_name(path.name + ORIGINS_SUFFIX)


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest of the data set at `path`, or None. Raises FormatError if it is damaged."""
    path = manifest_path(path)
    try:
        manifest = _MANIFEST.validate_json(read_small(path, _MAX_BYTES), strict=True)
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise FormatError(f"{path} is not a manifest: {first_invalid(error)}") from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} is not a manifest: {error}") from None
    if not manifest.adds_up():
        raise FormatError(f"{path} is not a manifest: its counts do not add up")
    return manifest


_MANIFEST = TypeAdapter(Manifest)


def block_checks(path: Path) -> dict[str, BlockChecks]:
    """Return the checks of the files of the data set at `path`, by name; empty ones if it has no manifest."""
    manifest = read_manifest(path)
    found = [] if manifest is None else [each for each in manifest.files_at(path) if each[1].crc32]
    return defaultdict(lambda: BlockChecks(path, ""), {at.name: BlockChecks(at, file.crc32) for at, file in found})


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of a data set, by its name within the directory if the data set is one."""

    file: str
    bytes: int
    blake3: str
    crc32: str = ""  # see `kifu.checksums.BlockSums`; "" for formats with checksums of their own


@dataclass(frozen=True, slots=True)
class WriteReport:
    """A finished data set; its files are in the order in which they were created."""

    examples: int
    files: tuple[WrittenFile, ...]


class Writer(ABC):
    """Writes one data set, which appears under its name when `commit` returns. A context manager.

    Batches are prepared in any thread or process, and appended in order. The bytes depend on the examples and their
    order, not on how they are divided into batches.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.examples = 0

    @staticmethod
    def prepare(batch: Batch, layout: Layout) -> Any:
        """Convert a batch to the form that `append` takes; may run in any thread or process."""
        return batch

    @abstractmethod
    def append(self, prepared: Any) -> None:
        """Append a result of `prepare`. Raises RecipeError if the format cannot hold these examples."""

    def write(self, batch: Batch) -> None:
        """Append examples. Raises what `append` raises."""
        self.append(self.prepare(batch, self.layout))

    @abstractmethod
    def commit(self, about: Mapping[str, Any]) -> WriteReport:
        """Finish the data set, with metadata as JSON values, and give it its name."""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *error: Any) -> None: ...


_SCHEMA = pa.schema(
    [
        pa.field("start", pa.int64(), nullable=False),
        pa.field("archive", pa.int32(), nullable=False),
        pa.field("member", pa.int32(), nullable=False),
        pa.field("rows", pa.int32(), nullable=False),
        pa.field("ply", pa.uint16(), nullable=False),
        pa.field("skip_row", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False),
        pa.field("skip_ply", pa.list_(pa.field("element", pa.uint16(), nullable=False)), nullable=False),
    ]
)

_MAX_GROUP_BYTES = 64 << 20


class OriginsWriter(ExitStack):
    """Writes the file as games arrive, atomically: `commit` gives it its name. A context manager."""

    def __init__(self, path: Path) -> None:
        """Open the temporary file. Raises OutputError."""
        super().__init__()
        self._path = path
        self._rows = 0
        self._waiting = 0
        self._columns: list[tuple[npt.NDArray[np.generic], ...]] = []
        self._skips: list[Indices] = []
        self._table = self.enter_context(TableWriter(path, _SCHEMA, write_statistics=["start"]))

    def add(self, archive: int, member: Ints, rows: Ints, plies: npt.NDArray[np.uint16]) -> None:
        """Add K games. archive: index in the manifest. member: [K] index in the archive, or row in the catalogue."""
        first, skips = find_skips(rows, plies)
        skips[:, 0] += self._waiting
        self._columns.append((np.full(len(rows), archive, np.int32), member, rows, first))
        self._skips.append(skips)
        self._waiting += len(rows)
        if self._waiting >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        """Write the games that wait, since many small tables take longer than one."""
        if not self._waiting:
            return
        archive, member, rows, ply = (np.concatenate(each) for each in zip(*self._columns))
        skips = np.concatenate(self._skips)
        start = self._rows + np.cumsum(rows, dtype=np.int64) - rows
        ends = np.append(0, np.cumsum(np.bincount(skips[:, 0], minlength=len(rows)))).astype(np.int32)
        lists = [
            pa.ListArray.from_arrays(pa.array(ends), pa.array(skips[:, k].astype(kind)), type=_SCHEMA.field(name).type)
            for k, kind, name in ((1, np.int32, "skip_row"), (2, np.uint16, "skip_ply"))
        ]
        columns = [pa.array(each) for each in (start, archive, member, rows, ply)]
        self._table.write(pa.RecordBatch.from_arrays([*columns, *lists], schema=_SCHEMA))
        self._rows += int(rows.sum(dtype=np.int64))
        self._waiting, self._columns, self._skips = 0, [], []

    def commit(self) -> WrittenFile:
        """Finish the file and give it its name. Raises OutputError."""
        self._flush()
        digest = self._table.commit({})
        return WrittenFile(utf8_name(self._path.name), self._table.size, digest)


def find_origin(manifest: Manifest, path: Path, row: int) -> RowOrigin | None:
    """Return the origin of a row, or None if the examples are shuffled.

    Raises IndexError if there is no such row, and FormatError if the file of origins is missing, damaged, or another
    one.
    """
    if not 0 <= row < manifest.examples:
        raise IndexError(f"row {row} is not within 0 to {manifest.examples - 1}")
    if manifest.origins is None:
        return None
    origins = origins_path(path)
    if not origins.is_file() or origins.stat().st_size != manifest.origins.bytes:
        raise FormatError(f"{origins} is missing or has another size than the manifest lists")
    archive, member, ply = read_origin(origins, row)
    if not 0 <= archive < len(manifest.archives):
        raise FormatError(f"{origins} refers to archive {archive}, which the manifest does not list")
    return RowOrigin(manifest.archives[archive].archive, member, ply)


class GameRows(NamedTuple):
    """The K games of a file of origins, in order.

    Attributes:
        archive: [K] int32, index of their archive or catalogue in the manifest.
        member: [K] int32, index of each game in the archive, or its row in the catalogue.
    """

    archive: Ints
    member: Ints
    rows: Ints


def read_game_rows(manifest: Manifest, path: Path) -> GameRows:
    """Return the games of an ordered data set, whose manifest has `origins`."""
    origins = origins_path(path)
    counts = [archive.games for archive in manifest.archives]
    with _open(origins) as file:
        if file.metadata.num_rows != sum(counts):
            raise FormatError(f"{origins} lists {file.metadata.num_rows:,} games, the manifest {sum(counts):,}")
        groups = [_read_group(file, origins, k, GameRows._fields) for k in range(file.metadata.num_row_groups)]
        table = pa.concat_tables(groups or [_SCHEMA.empty_table()]).combine_chunks()
        games = GameRows(*(to_numpy(table[name].combine_chunks()) for name in GameRows._fields))
    archives = np.repeat(np.arange(len(counts)), counts)
    total = games.rows.sum(dtype=np.int64)
    if not np.array_equal(games.archive, archives) or np.any(games.rows < 0) or total != manifest.examples:
        raise FormatError(f"{origins} lists other games than the manifest")
    return games


def read_origin(path: Path, row: int) -> tuple[int, int, int]:
    """Return the index of the archive, the member, and the ply of row `row` of the data set. Raises FormatError."""
    with _open(path) as file:
        starts = [file.metadata.row_group(k).column(0).statistics.min for k in range(file.metadata.num_row_groups)]
        (batch,) = _read_group(file, path, bisect_right(starts, row) - 1).to_batches()
    start = to_numpy(batch["start"])
    game = int(np.searchsorted(start, row, "right")) - 1
    values = {name: batch[name][game].as_py() for name in _SCHEMA.names}
    within = row - values["start"]
    if not 0 <= within < values["rows"] or len(values["skip_row"]) != len(values["skip_ply"]):
        raise FormatError(f"{path} lists no game for row {row}")
    at, ply = 0, values["ply"]
    for skip_row, skip_ply in zip(values["skip_row"], values["skip_ply"]):
        if skip_row <= within:
            at, ply = skip_row, skip_ply
    return values["archive"], values["member"], ply + within - at


@contextmanager
def _open(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a file of origins. Raises FormatError, also for damage that is found while it is read."""
    try:
        with open_parquet(path) as file:
            if not file.schema_arrow.equals(_SCHEMA):
                raise FormatError(f"{path} has other columns than a list of rows")
            yield file
    except FormatError:
        raise
    except (pa.ArrowException, OSError, ValueError, AttributeError, TypeError, OverflowError, MemoryError) as error:
        raise FormatError(f"{path}: {first_line(error)}") from None


def _read_group(file: pq.ParquetFile, path: Path, k: int, columns: Sequence[str] | None = None) -> pa.Table:
    """Return some columns of a row group. Raises FormatError if it does not exist or is too large."""
    group = file.metadata.row_group(k) if k >= 0 else None
    if group is None or group.num_rows > GROUP_ROWS or group.total_byte_size > _MAX_GROUP_BYTES:
        raise FormatError(f"{path} has no such row group, or one that is too large")
    table = file.read_row_group(k, columns, use_threads=False).combine_chunks()
    table.validate(full=True)
    if len(table) != group.num_rows:
        raise FormatError(f"{path} is damaged: {group.num_rows - len(table):,} rows are missing")
    return table
