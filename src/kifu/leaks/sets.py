"""The files that an audit reads: one class for each kind, and the jobs that hash their positions in shards."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.catalogue import RowShard, is_catalogue, open_catalogue, read_shard
from kifu.corpus.hashes import Hashes
from kifu.corpus.schema import GAME_COLUMNS, drop_codes, game_arrays, to_numpy
from kifu.datasets.chunks import Chunks
from kifu.datasets.dat import Dat, read_records
from kifu.datasets.examples import Batch, Layout
from kifu.datasets.formats import detect_format
from kifu.datasets.formats import open as open_examples
from kifu.datasets.manifest import ArchiveRows, manifest_path, read_manifest
from kifu.datasets.row_origins import GameRows, read_game_rows
from kifu.datasets.tokens import FORMAT, is_tokens, open_tokens
from kifu.errors import DropReason, FormatError, SourceError
from kifu.execution.executor import Executor, Job
from kifu.files import open_regular
from kifu.leaks.positions import PositionHashes, hash_boards, hash_positions, hash_records
from kifu.planes.packing import Records
from kifu.records.games import GameArrays

_MAX_PLIES = 1000
"""Bound on the moves of a game in the estimate of a catalogue's positions: its n_moves is not trusted."""

_GAME_ROWS = 2048
_RECORD_ROWS = 1 << 16
_EXAMPLE_ROWS = 1 << 13
"""Rows of a catalogue, a dat file and another data set that are hashed as one item."""

_SHARD_ROWS = 1 << 19
"""Rows of a data set in one shard."""

RecordIndex = dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]
"""For each archive, by its BLAKE3: the entries that games were taken from and the numbers of these games, [K] each."""


@dataclass(frozen=True, slots=True)
class GameLocation:
    """The location of a game: entry of an archive, game of that entry (both from 0), and its first row in the set."""

    archive: str
    entry: int
    index: int
    row: int

    def __str__(self) -> str:
        game = f", game {self.index + 1}" if self.index else ""
        return f"{self.archive}, entry {self.entry + 1}{game} (row {self.row})"


class AuditSet(Protocol):
    """A set of positions. Its games are numbered from 0, in the order of the set."""

    @property
    def path(self) -> Path:
        """The file or directory."""

    @property
    def kind(self) -> str:
        """A name for the kind of file."""

    @property
    def games(self) -> int | None:
        """The number of games; None if the file does not record which game a position is from."""

    @property
    def estimated_positions(self) -> int:
        """The approximate number of positions."""

    @property
    def records(self) -> RecordIndex:
        """The records that games were taken from; empty if the file does not name them."""

    def positions(self, executor: Executor) -> Iterator[PositionHashes]:
        """Yield all positions in order, in blocks. Raises FormatError."""

    def locate(self, games: npt.NDArray[np.int64]) -> list[GameLocation]:
        """Return the locations of games, given by number in ascending order, [K] int64. Raises FormatError."""


class CatalogueSet:
    """The kept games of a catalogue, replayed."""

    kind = "catalogue"

    def __init__(self, path: Path) -> None:
        """Raises FormatError."""
        self.path = path
        self.games = self.estimated_positions = 0
        for batch in open_catalogue(path).batches(("drop", "n_moves")):
            kept = drop_codes(batch) == DropReason.KEPT
            self.games += int(np.count_nonzero(kept))
            self.estimated_positions += int(np.clip(to_numpy(batch["n_moves"])[kept], 0, _MAX_PLIES).sum())
        self.records: RecordIndex = {}

    def positions(self, executor: Executor) -> Iterator[PositionHashes]:
        """Yield all positions in order, in blocks. Raises FormatError."""
        shards = open_catalogue(self.path).shards()
        first = accumulate((shard.rows for shard in shards), initial=0)
        return executor.run(HashCatalogue(), map(CatalogueShard, shards, first))

    def locate(self, games: npt.NDArray[np.int64]) -> list[GameLocation]:
        """Return the locations of games, given by number in ascending order."""
        locations: list[GameLocation] = []
        first = 0
        for batch in open_catalogue(self.path).batches(("archive", "entry", "index")):
            lo, hi = np.searchsorted(games, (first, first + len(batch)))
            if lo < hi:
                rows = games[lo:hi]
                taken = batch.take(rows - first)
                fields = zip(taken["archive"].to_pylist(), to_numpy(taken["entry"]), to_numpy(taken["index"]), rows)
                locations += [GameLocation(archive, int(entry), int(i), int(row)) for archive, entry, i, row in fields]
            first += len(batch)
        return locations


class DatSet:
    """The rows of a dat1 or dat2 file. Its manifest, if there is one, lists the game of each row."""

    def __init__(self, path: Path) -> None:
        """Raises SourceError, and FormatError for a damaged file, or a manifest that is damaged or of another file."""
        self.path = path
        self._dat = Dat(path)
        self.kind, self.estimated_positions = self._dat.format.name, len(self._dat)
        manifest = read_manifest(path)
        self._archives: list[ArchiveRows] = []
        self._games: GameRows | None = None
        self._stop = np.empty(0, np.int64)
        if manifest is not None:
            if (manifest.format, manifest.examples, manifest.bytes) != (self.kind, len(self._dat), self._dat.bytes):
                raise FormatError(f"{manifest_path(path)} describes another file than {path}")
            self._archives = manifest.archives
            self._games = read_game_rows(manifest, path)
            self._stop = np.cumsum(self._games.rows, dtype=np.int64)

    @property
    def games(self) -> int | None:
        """The number of games; None without a manifest."""
        return None if self._games is None else len(self._games.rows)

    @property
    def records(self) -> RecordIndex:
        """The records that games were taken from; empty without a manifest."""
        if self._games is None:
            return {}
        parts: dict[str, list[npt.NDArray[np.int64]]] = {}
        first = 0
        for archive in self._archives:
            nonempty = np.flatnonzero(self._games.rows[first : first + archive.games])
            parts.setdefault(archive.blake3, []).append(first + nonempty)
            first += archive.games
        games = {key: np.concatenate(each) for key, each in parts.items()}
        return {key: (self._games.member[each].astype(np.int64), each) for key, each in games.items()}

    def positions(self, executor: Executor) -> Iterator[PositionHashes]:
        """Yield all positions in order, in blocks. Raises FormatError."""
        stops = None if self._games is None else self._stop
        job = HashDat(self.path, self.kind, tuple(self._dat.spans), stops)
        return executor.run(job, RowRange(0, len(self._dat)).blocks(_SHARD_ROWS))

    def locate(self, games: npt.NDArray[np.int64]) -> list[GameLocation]:
        """Return the locations of games, given by number in ascending order."""
        if self._games is None:
            return []
        first = self._stop - self._games.rows
        fields = zip(self._games.archive[games].tolist(), self._games.member[games].tolist(), first[games].tolist())
        return [GameLocation(self._archives[archive].archive, entry, 0, row) for archive, entry, row in fields]


class ExamplesSet:
    """The rows of any other data set whose planes show the stones of both sides; its games are unknown."""

    games: int | None = None

    def __init__(self, path: Path, kind: str) -> None:
        """Raises SourceError, and FormatError for a damaged file or planes that do not show the stones of each side."""
        self.path, self.kind = path, kind
        self.records: RecordIndex = {}
        self._examples = open_examples(path)
        layout = self._examples.layout
        self.estimated_positions = len(self._examples)
        sides = {side: [k for k, owner in layout.stone_planes() if owner == side] for side in ("own", "opp")}
        self._own, self._opp = tuple(sides["own"]), tuple(sides["opp"])
        if not (self._own and self._opp):
            raise FormatError(
                f"{path}: planes of {layout.plane_set} do not show the stones of each side, which an audit needs"
            )
        self._ids, self._numbers = np.empty(0, np.uint64), np.empty(0, np.int32)

    def positions(self, executor: Executor) -> Iterator[PositionHashes]:
        """Yield all positions in order, in blocks. Raises FormatError."""
        layout = self._examples.layout
        job = HashExamples(self.path, layout, self._own, self._opp, self._ids, self._numbers)
        return executor.run(job, RowRange(0, len(self._examples)).blocks(_SHARD_ROWS))

    def locate(self, games: npt.NDArray[np.int64]) -> list[GameLocation]:
        """Return the locations of games, given by number in ascending order."""
        return []


class ChunkSet(ExamplesSet):
    """Training chunks of another program. Its games are those that could be deduced; other rows have none."""

    def __init__(self, path: Path, kind: str) -> None:
        """Read all rows once for their games. Raises SourceError, FormatError."""
        super().__init__(path, kind)
        assert isinstance(self._examples, Chunks)
        self._chunks = self._examples
        games = len(self._chunks.game_rows)
        self.games = games if games or not self.estimated_positions else None
        self._ids, self._numbers = np.arange(1, games + 1, dtype=np.uint64), np.arange(games, dtype=np.int32)

    def locate(self, games: npt.NDArray[np.int64]) -> list[GameLocation]:
        """Return the locations of games, given by number in ascending order."""
        located = ((*self._chunks.locate_game(game), game) for game in games.tolist())
        return [GameLocation(file.name, k, 0, int(self._chunks.game_rows[game, 0])) for file, k, game in located]


class KataSet(ExamplesSet):
    """KataGo's training rows, which carry a hash of their game. Two sets with a hash in common share its game."""

    def __init__(self, path: Path, kind: str) -> None:
        """Read all rows once for their games. Raises SourceError, FormatError."""
        super().__init__(path, kind)
        ids, first = _first_rows(self._examples.batches(_EXAMPLE_ROWS))
        known = ids != 0
        self._ids, first = ids[known], first[known]
        order = np.argsort(first)
        self._numbers = np.empty(len(order), np.int32)  # games are numbered by their first rows
        self._numbers[order] = np.arange(len(order))
        self._first = first[order]
        self.games = len(order) if len(order) or not self.estimated_positions else None
        if len(order):
            self.records = {"game hash": (self._ids.view(np.int64), self._numbers.astype(np.int64))}

    def locate(self, games: npt.NDArray[np.int64]) -> list[GameLocation]:
        """Return the locations of games, given by number in ascending order."""
        return [GameLocation(self.path.name, game, 0, int(self._first[game])) for game in games.tolist()]


class TokenSet:
    """The games of a data set of tokens, replayed. Two sets with a game's `id` in common share it."""

    kind = FORMAT

    def __init__(self, path: Path) -> None:
        """Raises SourceError, and FormatError for a damaged file."""
        self.path = path
        data = open_tokens(path)
        self.games, self.estimated_positions = len(data), len(data.tokens)
        self.records: RecordIndex = {"game id": (data.games.view(np.int64), np.arange(len(data)))}

    def positions(self, executor: Executor) -> Iterator[PositionHashes]:
        """Yield all positions in order, in blocks. Raises FormatError."""
        return executor.run(HashTokens(self.path), RowRange(0, self.games).blocks(_SHARD_ROWS))

    def locate(self, games: npt.NDArray[np.int64]) -> list[GameLocation]:
        """Return the locations of games, given by number in ascending order."""
        return [GameLocation(self.path.name, game, 0, game) for game in games.tolist()]


def _first_rows(batches: Iterable[Batch]) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """Return the distinct games of rows, [K] uint64 in ascending order, and the first row of each, [K].

    New games are merged once they are as many as the known ones, so that all are sorted only a few times.
    """
    games, first = np.empty(0, np.uint64), np.empty(0, np.int64)
    pending: list[tuple[Hashes, npt.NDArray[np.int64]]] = []
    n_pending = row = 0
    for batch in batches:
        ids, at = np.unique(batch.game, return_index=True)
        pending.append((ids, row + at))
        n_pending, row = n_pending + len(ids), row + len(batch)
        if n_pending > len(games):
            games, first = _merge_games([(games, first), *pending])
            pending, n_pending = [], 0
    return _merge_games([(games, first), *pending])


def _merge_games(parts: Sequence[tuple[Hashes, npt.NDArray[np.int64]]]) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """Return each game once, in ascending order, with its first row."""
    games, kept = np.unique(np.concatenate([games for games, _ in parts]), return_index=True)
    return games, np.concatenate([first for _, first in parts])[kept]


def open_set(path: str | os.PathLike[str]) -> AuditSet:
    """Open a catalogue or data set for an audit.

    Raises:
        FormatError: If it is damaged or its format is unknown.
    """
    path = Path(path)
    if is_tokens(path):
        return TokenSet(path)
    written = detect_format(path)
    if written is not None:
        if written.is_dat:
            return DatSet(path)
        kinds = {"katago": KataSet, "": ChunkSet}
        return kinds.get(written.recipe_kind, ExamplesSet)(path, written.name)
    if is_catalogue(path):
        return CatalogueSet(path)
    try:
        with open_regular(path) as file:
            head = file.read(8)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None
    magics = ", ".join(map(repr, (b"PAR1", b"GO", b"END", b"mlv2")))
    raise FormatError(f"{path} begins with {head!r}; a catalogue or data set begins with one of {magics}")


class CatalogueShard(NamedTuple):
    """Rows of a catalogue, the first of which is row `first`."""

    rows: RowShard
    first: int


class HashCatalogue(Job[CatalogueShard, tuple[int, pa.RecordBatch], PositionHashes]):
    """Hash the positions of a catalogue's games. Games are numbered by row."""

    def read(self, shard: CatalogueShard) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield blocks of rows."""
        first = shard.first
        for batch in read_shard(shard.rows, GAME_COLUMNS, _GAME_ROWS):
            yield first, batch
            first += len(batch)

    def process(self, item: tuple[int, pa.RecordBatch]) -> PositionHashes:
        """Hash the positions of a block."""
        first, batch = item
        hashed = hash_positions(game_arrays(batch))
        return PositionHashes(hashed.hashes, hashed.stones, hashed.game + np.int32(first))


class RowRange(NamedTuple):
    """Rows `first` to `stop` - 1 of a data set."""

    first: int
    stop: int

    def blocks(self, size: int) -> Iterator[RowRange]:
        """Yield the same rows in ranges of at most `size`."""
        for first in range(self.first, self.stop, size):
            yield RowRange(first, min(first + size, self.stop))


@dataclass(frozen=True, eq=False)
class HashDat(Job[RowRange, tuple[RowRange, Records], PositionHashes]):
    """Hash the positions of a dat1 or dat2 file.

    Attributes:
        spans: See `Dat.spans`.
        stops: [G] int64, the row after the last one of each game; None if games are unknown.
    """

    path: Path
    kind: str
    spans: tuple[tuple[int, int], ...]
    stops: npt.NDArray[np.int64] | None

    def read(self, shard: RowRange) -> Iterator[tuple[RowRange, Records]]:
        """Yield blocks of rows."""
        first = 0
        for offset, rows in self.spans:
            wanted = RowRange(max(shard.first, first), min(shard.stop, first + rows))
            for block in wanted.blocks(_RECORD_ROWS):
                yield block, read_records(self.path, self.kind, offset, block.first - first, block.stop - first)
            first += rows

    def process(self, item: tuple[RowRange, Records]) -> PositionHashes:
        """Hash the positions of a block."""
        block, records = item
        game = np.full(len(records), -1, np.int32)
        if self.stops is not None:
            game[:] = np.searchsorted(self.stops, np.arange(block.first, block.stop), side="right")
        return PositionHashes(*hash_records(records), game)


@dataclass(frozen=True, eq=False)
class HashExamples(Job[RowRange, Batch, PositionHashes]):
    """Hash the positions of another data set: the hash does not depend on the orientation.

    Attributes:
        own: The planes with stones of the side to move.
        ids: [G] uint64 in ascending order, the known games.
        numbers: [G] int32, the number of each.
    """

    path: Path
    layout: Layout
    own: tuple[int, ...]
    opp: tuple[int, ...]
    ids: Hashes
    numbers: npt.NDArray[np.int32]

    def read(self, shard: RowRange) -> Iterator[Batch]:
        """Yield blocks of rows."""
        with open_examples(self.path) as examples:
            for block in shard.blocks(_EXAMPLE_ROWS):
                yield examples.read(block.first, block.stop)

    def process(self, item: Batch) -> PositionHashes:
        """Hash the positions of a block."""
        rim, width, height = self.layout.rim, self.layout.width, self.layout.height
        planes = item.unpack_planes(self.layout)[:, :, rim : rim + height, rim : rim + width] != 0
        hashed = hash_boards(planes[:, self.own].any(1), planes[:, self.opp].any(1))
        return PositionHashes(*hashed, self._game_numbers(item))

    def _game_numbers(self, batch: Batch) -> npt.NDArray[np.int32]:
        if not len(self.ids):
            return np.full(len(batch), -1, np.int32)
        at = np.minimum(np.searchsorted(self.ids, batch.game), len(self.ids) - 1)
        return np.where(self.ids[at] == batch.game, self.numbers[at], np.int32(-1))


@dataclass(frozen=True)
class HashTokens(Job[RowRange, tuple[int, GameArrays], PositionHashes]):
    """Hash the positions of a data set of tokens. Games are numbered by row."""

    path: Path

    def read(self, shard: RowRange) -> Iterator[tuple[int, GameArrays]]:
        """Yield blocks of games."""
        data = open_tokens(self.path)
        for block in shard.blocks(_GAME_ROWS):
            yield block.first, data.part(*block).decode()

    def process(self, item: tuple[int, GameArrays]) -> PositionHashes:
        """Hash the positions of a block."""
        first, games = item
        hashed = hash_positions(games)
        return PositionHashes(hashed.hashes, hashed.stones, hashed.game + np.int32(first))
