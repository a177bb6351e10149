"""Jobs for data sets of examples: count positions, or render and label them, slice by slice of the catalogue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.hashes import Hashes, mix_words
from kifu.corpus.schema import GAME_COLUMNS, drop_codes, game_arrays, to_numpy
from kifu.datasets.examples import Batch, GameRuns, Layout
from kifu.datasets.formats import find_writer
from kifu.datasets.labels import LabelPositions, label_columns, label_values
from kifu.datasets.renderer import CONTEXT_COLUMNS, Renderer
from kifu.datasets.writer import Writer
from kifu.errors import DropReason
from kifu.execution.executor import R
from kifu.execution.range_sort import Columns, KeyRange, RangeFile, concat_columns, load_range, write_ranges
from kifu.kernel import kernel
from kifu.point import POINT_MASK
from kifu.recipes.pipeline import CatalogueRowsJob, RowSlice, SetJob
from kifu.recipes.schema import ExamplesRecipe
from kifu.records.games import GameArrays

CHUNK_BYTES = 4 << 20
"""Packed planes that are rendered at once, about."""

FILE_CHUNKS = 8
"""Chunks whose examples are in one range file."""

KEYS = "keys"
"""The column of keys of examples that are sorted."""

_MOVES = 220
"""Moves of a game, about."""

_GAMES = 512
"""Games that are counted at once: few enough for the processor's cache."""

_DRAW_SALT = np.uint64(0x6B69667564726177)
"""Makes the hash for drawing positions independent of the one for sorting them."""

_COLUMNS = (*GAME_COLUMNS, *CONTEXT_COLUMNS, "id", "archive", "member", "index")
"""Columns that all examples need."""


class _Selected(NamedTuple):
    """The games of a slice that are in the set, and their selected positions.

    Attributes:
        rows: [R] int64, rows of the batch.
        take: [M] int64, for all moves of these games: the index of the position before the move, or -1.
        at: [B] int64, the selected positions as indices into `take`.
        game: [B] int64, index into `rows`.
        ply: [B] int32.
        keys: [B] uint64, hashes of seed, game and ply.
        elsewhere: Number of games of other sets, or of none.
    """

    games: GameArrays
    rows: npt.NDArray[np.int64]
    take: npt.NDArray[np.int64]
    at: npt.NDArray[np.int64]
    game: npt.NDArray[np.int64]
    ply: npt.NDArray[np.int32]
    keys: Hashes
    drops: Counter[str]
    elsewhere: int

    def only(self, wanted: npt.NDArray[np.bool_]) -> _Selected:
        """Keep some positions only; wanted: [B] bool."""
        self.take[self.at] = np.where(wanted, np.cumsum(wanted) - 1, -1)
        return self._replace(at=self.at[wanted], game=self.game[wanted], ply=self.ply[wanted], keys=self.keys[wanted])


class ExampleChunk(NamedTuple):
    """The examples of a slice.

    Attributes:
        content: A `Batch`, or what the writer prepared from it.
        keys: [B] uint64, the keys to sort by.
        member: [K] int32, rows of the catalogue with examples.
        rows: [K] int32, the number of examples of each.
        plies: [B] uint16, of all examples.
        elsewhere: Number of games of other sets, or of none.
    """

    content: Any
    keys: Hashes
    member: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    plies: npt.NDArray[np.uint16]
    drops: Counter[str]
    elsewhere: int

    def columns(self) -> Columns:
        """Return the columns of the batch and its keys."""
        columns: Columns = self.content.columns()
        return columns | {KEYS: self.keys}


@dataclass(frozen=True)
class _ExampleJob(CatalogueRowsJob[R]):
    """Base of jobs that select positions."""

    recipe: ExamplesRecipe

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the job needs."""
        return (*_COLUMNS, *label_columns(self.layout.labels))

    @cached_property
    def renderer(self) -> Renderer:
        """The renderer of the planes."""
        return self.recipe.renderer()

    @cached_property
    def layout(self) -> Layout:
        """The shapes and labels of the examples."""
        return self.recipe.layout()

    def _select(self, item: RowSlice) -> _Selected:
        """Select games and positions."""
        recipe, batch = self.recipe, item.batch
        games = game_arrays(batch)
        in_set = self.in_set(batch)
        drop = drop_codes(batch)
        width, height = self.layout.width, self.layout.height
        fits = (games.width == width) & (games.height == height)
        if recipe.pad:
            fits = (games.width <= width) & (games.height <= height)
        drop[(drop == DropReason.KEPT) & in_set & ~fits] = DropReason.WRONG_SIZE
        rows = np.flatnonzero((drop == DropReason.KEPT) & in_set)
        dropped = drop[drop != DropReason.KEPT]
        drops = Counter({DropReason(k).name: int(n) for k, n in zip(*np.unique(dropped, return_counts=True))})
        selected = self._select_positions(batch, games, rows)
        return selected._replace(drops=drops, elsewhere=len(batch) - len(dropped) - len(rows))

    def _select_positions(self, batch: pa.RecordBatch, games: GameArrays, rows: npt.NDArray[np.int64]) -> _Selected:
        """Select positions of these games."""
        positions = self.recipe.positions
        moves = int(np.diff(games.move_offset)[rows].sum())
        take, at, game = (np.empty(moves, np.int64) for _ in range(3))
        ply = np.empty(moves, np.int32)
        last = np.iinfo(np.int64).max if positions.max_ply is None else positions.max_ply
        n = _select_plies(
            rows, games.moves, games.move_offset, games.width, games.height, positions.passes, positions.min_ply,
            last, take, at, game, ply,
        )  # fmt: skip
        at, game, ply = at[:n], game[:n], ply[:n]
        ids = mix_words(to_numpy(batch["id"])[rows] ^ mix_words(np.array([self.recipe.seed], np.uint64)))
        keys = mix_words(ids[game] + ply.astype(np.uint64))
        selected = _Selected(games, rows, take, at, game, ply, keys, Counter(), 0)
        if positions.per_game is None:
            return selected
        return selected.only(_lowest_of_each(game, mix_words(keys ^ _DRAW_SALT), positions.per_game))


@dataclass(frozen=True)
class CountExamples(_ExampleJob[int]):
    """Counts the examples of slices."""

    slice_rows = _GAMES

    def process(self, item: RowSlice) -> int:
        """Return the number of examples."""
        return len(self._select(item).game)


@dataclass(frozen=True)
class _RenderExamples(_ExampleJob[ExampleChunk]):
    """Base of jobs that render examples."""

    @property
    def slice_rows(self) -> int:
        """Maximum number of rows in a slice."""
        return self.chunk_rows

    @property
    def chunk_rows(self) -> int:
        """Maximum number of rows that are rendered at a time: examples of about `CHUNK_BYTES`."""
        drawn = min(self.recipe.positions.per_game or _MOVES, _MOVES)
        return min(max(CHUNK_BYTES // (drawn * self.layout.packed_bytes), 4), 2048)

    def process(self, item: RowSlice) -> ExampleChunk:
        """Return the examples of a slice."""
        return self._render(item, self._select(item))

    def _render(self, item: RowSlice, selected: _Selected) -> ExampleChunk:
        """Return planes and labels of the selected positions."""
        batch, games, rows = item.batch, selected.games, selected.rows
        planes = self.renderer.encoder.new_out(len(selected.game))
        drawn = self.renderer.new_labels(len(selected.game))
        at = LabelPositions(batch, games, rows[selected.game], selected.ply, self.layout.width, self.layout.height)
        symmetry = np.zeros(len(rows), np.uint8)
        drop, _ = self.renderer.render(batch, games, rows, symmetry, selected.take, planes, drawn)
        labels = drawn | label_values(self.layout.labels, at)
        counts = np.bincount(selected.game, minlength=len(rows))
        runs = _runs(batch, rows, counts) if self.recipe.order == "corpus" else None
        wanted = {label.name: labels[label.name] for label in self.layout.labels}
        content = Batch(planes, wanted, to_numpy(batch["id"])[at.game], at.ply, runs)
        keys, drops = selected.keys, selected.drops
        kept = drop == DropReason.KEPT
        if not kept.all():  # KataGo's planes need rules and komi, which cleaning rules do not require
            stays = np.flatnonzero(kept[selected.game])
            drops = drops + Counter(DropReason(k).name for k in drop[~kept].tolist())
            rows, counts, keys = rows[kept], counts[kept], keys[stays]
            content = content.take(stays)
            if runs is not None:
                content = content.with_runs(_runs(batch, rows, counts))
        return ExampleChunk(
            content, keys, (item.first + rows).astype(np.int32), counts.astype(np.int32),
            content.ply.astype(np.uint16), drops, selected.elsewhere,
        )  # fmt: skip


@dataclass(frozen=True)
class WriteExamples(_RenderExamples):
    """Renders examples in corpus order, prepared for the writer of the format."""

    @cached_property
    def writer(self) -> type[Writer]:
        """The writer of the format."""
        return find_writer(self.recipe.format)

    def process(self, item: RowSlice) -> ExampleChunk:
        """Return the examples of a slice, prepared for the writer."""
        chunk = super().process(item)
        return chunk._replace(content=self.writer.prepare(chunk.content, self.layout))


@dataclass(frozen=True)
class SortExamples(_RenderExamples):
    """Renders examples that are sorted in memory before they are written."""


class DividedExamples(NamedTuple):
    """The examples of a slice, divided by ranges of their keys.

    Attributes:
        file: Has the columns of `ExampleChunk.columns`; None if there are no examples.
        elsewhere: Number of games of other sets, or of none.
    """

    file: RangeFile | None
    drops: Counter[str]
    elsewhere: int


@dataclass(frozen=True)
class DivideExamples(_ExampleJob[DividedExamples]):
    """Renders examples and writes them to range files.

    Attributes:
        bits: Number of highest bits of the key that determine the range.
    """

    folder: Path
    bits: int

    def fingerprint(self) -> Any:
        """Return what results depend on; the directory may be moved."""
        return [super().fingerprint(), self.bits]

    @cached_property
    def _render(self) -> SortExamples:
        return SortExamples(self.recipe, self.set)

    @property
    def slice_rows(self) -> int:
        """Maximum number of rows in a slice, whose examples are in one file."""
        return self._render.chunk_rows * FILE_CHUNKS

    def process(self, item: RowSlice) -> DividedExamples:
        """Render the examples of a slice, one chunk at a time, and write them."""
        size = self._render.chunk_rows
        slices = (RowSlice(item.first + at, item.batch.slice(at, size)) for at in range(0, len(item.batch), size))
        drops, elsewhere, columns = Counter[str](), 0, list[Columns]()
        for chunk in map(self._render.process, slices):
            drops, elsewhere = drops + chunk.drops, elsewhere + chunk.elsewhere
            if len(chunk.keys):
                columns.append(chunk.columns())
        file = write_ranges(self.folder, concat_columns(columns), KEYS, 0, self.bits) if columns else None
        return DividedExamples(file, drops, elsewhere)


class SortedRange(NamedTuple):
    """A range of the sorted examples; start: the number of examples before it."""

    start: int
    rows: KeyRange


class _LoadedRange:
    """The examples of a range, loaded when the first thread needs them."""

    def __init__(self, folder: Path, rows: KeyRange) -> None:
        self._folder, self._rows = folder, rows
        self._lock = Lock()
        self._sorted: tuple[Batch, npt.NDArray[np.int64]] | None = None

    def load(self) -> tuple[Batch, npt.NDArray[np.int64]]:
        """Return the examples and their order. Raises FormatError if a file is damaged."""
        with self._lock:
            if self._sorted is None:
                self._sorted = sort_columns(load_range(self._folder, self._rows))
            return self._sorted


class _Piece(NamedTuple):
    """Consecutive rows of a sorted range."""

    source: _LoadedRange
    first: int
    stop: int


@dataclass(frozen=True)
class EncodeSorted(SetJob[SortedRange, _Piece, Any]):
    """Sorts ranges of examples, and prepares them for the writer.

    Attributes:
        folder: The directory of the range files.
    """

    recipe: ExamplesRecipe
    folder: Path

    @cached_property
    def encoder(self) -> GroupEncoder:
        """The encoder of the format."""
        return GroupEncoder(find_writer(self.recipe.format), self.recipe.layout())

    def shard_fingerprint(self, shard: SortedRange) -> Any:
        """Return the number of examples before the range, and the files, whose names are unique."""
        return [shard.start, *shard.rows]

    def read(self, shard: SortedRange) -> Iterator[_Piece]:
        """Yield the rows of each group."""
        source = _LoadedRange(self.folder, shard.rows)
        for first, stop in self.encoder.bounds(shard.start, shard.rows.rows):
            yield _Piece(source, first, stop)

    def process(self, item: _Piece) -> Any:
        """Return the rows for `Writer.append`."""
        batch, order = item.source.load()
        return self.encoder.encode(batch, order[item.first : item.stop])


class GroupEncoder(NamedTuple):
    """Prepares examples for a writer in whole groups, as far as possible."""

    writer: type[Writer]
    layout: Layout

    def bounds(self, start: int, rows: int) -> Iterator[tuple[int, int]]:
        """Cut one or more rows, with `start` others before them, where groups of the writer end."""
        size = self.writer.group_rows(self.layout)
        return pairwise([0, *range(-start % size or size, rows, size), rows])

    def encode(self, batch: Batch, rows: npt.NDArray[np.int64]) -> Any:
        """Return some rows of a batch, between two bounds, for `Writer.append`."""
        chosen = batch.take(rows)
        whole = len(rows) == self.writer.group_rows(self.layout)
        return (self.writer.encode_group if whole else self.writer.prepare)(chosen, self.layout)


def sort_columns(columns: Columns) -> tuple[Batch, npt.NDArray[np.int64]]:
    """Return the examples that `ExampleChunk.columns` returned, and the order of their keys, [N]."""
    order = np.argsort(columns.pop(KEYS), kind="stable")
    return Batch.from_columns(columns), order


def _lowest_of_each(group: npt.NDArray[np.int64], keys: Hashes, most: int) -> npt.NDArray[np.bool_]:
    """Return whether each entry is one of the `most` of its group with the lowest keys: [B] bool; group: ascending."""
    order = np.lexsort((keys, group))
    first = np.searchsorted(group, group, side="left")
    chosen = np.empty(len(group), bool)
    chosen[order] = np.arange(len(group)) - first < most
    return chosen


@kernel
def _select_plies(  # noqa: PLR0913 - a kernel
    rows: Any, moves: Any, move_offset: Any, width: Any, height: Any, passes: Any, first_ply: Any, last_ply: Any,
    take: Any, at: Any, game: Any, ply: Any,
) -> Any:  # fmt: skip
    """Select positions from ply `first_ply` to `last_ply`, those before a pass only if `passes`; see `_Selected`.

    Fills take for all moves, and at, game and ply for the selected positions; returns their number.
    """
    chosen = 0
    first = 0
    for r in range(rows.shape[0]):
        g = rows[r]
        points = np.int64(width[g]) * np.int64(height[g])
        plies = move_offset[g + 1] - move_offset[g]
        for t in range(plies):
            if first_ply <= t <= last_ply and (passes or (moves[move_offset[g] + t] & POINT_MASK) != points):
                take[first + t] = chosen
                at[chosen] = first + t
                game[chosen] = r
                ply[chosen] = t
                chosen += 1
            else:
                take[first + t] = -1
        first += plies
    return chosen


def _runs(batch: pa.RecordBatch, rows: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> GameRuns:
    """Return the names and lengths of the runs of examples of one game."""
    some = rows[counts > 0]
    members = batch["member"].take(pa.array(some)).to_pylist()
    index = to_numpy(batch["index"])[some]
    for k in np.flatnonzero(index).tolist():  # games after the first of a member
        members[k] += f"#{index[k] + 1}"
    return GameRuns(batch["archive"].take(pa.array(some)).to_pylist(), members, counts[counts > 0])
