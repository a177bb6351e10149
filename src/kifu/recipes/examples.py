"""Data sets from the rows of catalogues: examples of any plane set, labels and format, or games as tokens.

Each set is one pass over the catalogue. Shuffled examples are sorted by a hash of seed, game and ply. If they do not
fit in memory, jobs divide them into files by range of that hash, and sort and encode the ranges, see
`kifu.execution.range_sort`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate, pairwise
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.hashes import Hashes, mix_words
from kifu.corpus.schema import GAME_COLUMNS, count_drops, game_arrays, to_numpy
from kifu.datasets.examples import Batch, GameRuns, Layout
from kifu.datasets.formats import find_writer, open_writer
from kifu.datasets.labels import LabelPositions, label_columns, label_values
from kifu.datasets.manifest import Manifest, Writer
from kifu.datasets.renderer import CONTEXT_COLUMNS, Renderer
from kifu.datasets.tokenizer import Tokenizer, Tokens
from kifu.datasets.tokens import FORMAT, TokenWriter
from kifu.errors import DropReason
from kifu.execution.executor import THREADS, R
from kifu.execution.range_sort import (
    Columns,
    KeyRange,
    RangeFile,
    collect_ranges,
    concat_columns,
    fan_out,
    load_range,
    split_ranges,
    write_ranges,
)
from kifu.kernel import kernel
from kifu.point import POINT_MASK
from kifu.progress import Progress, ProgressFactory, silent
from kifu.recipes.pipeline import (
    BuildOptions,
    BuildReport,
    CatalogueRowsJob,
    ManifestCounts,
    RowSlice,
    SetJob,
    SetPlan,
    build_sets,
)
from kifu.recipes.schema import ExamplesRecipe, TokensRecipe
from kifu.records.games import GameArrays
from kifu.records.paths import Paths

CHUNK_BYTES = 4 << 20
"""Packed planes that are rendered at once, about."""

FILE_CHUNKS = 8
"""Chunks whose examples are in one range file."""

WINDOW_BYTES = 128 << 20
"""Packed planes that are sorted at once."""

GROUP_ROWS = 4096
"""Sorted examples that are prepared at once."""

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


class _ExampleChunk(NamedTuple):
    """The examples of a slice.

    Attributes:
        content: A `Batch`, or what the writer prepared from it.
        keys: [B] uint64, the keys to sort by.
        member: [K] int32, rows of the catalogue with examples.
        rows: [K] int32, the number of examples of each.
        plies: [B] uint16, of all examples.
    """

    content: Any
    keys: Hashes
    member: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    plies: npt.NDArray[np.uint16]
    drops: Counter[str]
    elsewhere: int

    def columns(self) -> Columns:
        """Return the columns of the `Batch` and its keys."""
        columns: Columns = self.content.columns()
        return columns | {KEYS: self.keys}


@dataclass(frozen=True)
class _ExampleJob(CatalogueRowsJob[R]):
    """Base of jobs that select positions."""

    recipe: ExamplesRecipe

    @property
    def columns(self) -> tuple[str, ...]:
        return (*_COLUMNS, *label_columns(self.layout.labels))

    @cached_property
    def renderer(self) -> Renderer:
        return self.recipe.renderer()

    @cached_property
    def layout(self) -> Layout:
        return self.recipe.layout()

    def _select(self, batch: pa.RecordBatch) -> _Selected:
        games, positions = game_arrays(batch), self.recipe.positions
        width, height = self.layout.width, self.layout.height
        fits = (games.width == width) & (games.height == height)
        if self.recipe.pad:
            fits = (games.width <= width) & (games.height <= height)
        rows, drops, elsewhere = self.usable_rows(batch, [(~fits, DropReason.WRONG_SIZE)])
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
        selected = _Selected(games, rows, take, at, game, ply, keys, drops, elsewhere)
        if positions.per_game is None:
            return selected
        return selected.only(_lowest_of_each(game, mix_words(keys ^ _DRAW_SALT), positions.per_game))


@dataclass(frozen=True)
class _CountExamples(_ExampleJob[int]):
    """Counts the examples of slices."""

    slice_rows = _GAMES

    def process(self, item: RowSlice) -> int:
        return len(self._select(item.batch).game)


@dataclass(frozen=True)
class _RenderExamples(_ExampleJob[_ExampleChunk]):
    """Renders examples; those in corpus order are prepared for the writer of the format."""

    @cached_property
    def writer(self) -> type[Writer]:
        return find_writer(self.recipe.format)

    @property
    def slice_rows(self) -> int:
        """Maximum number of rows that are rendered at a time: examples of about `CHUNK_BYTES`."""
        drawn = min(self.recipe.positions.per_game or _MOVES, _MOVES)
        return min(max(CHUNK_BYTES // (drawn * self.layout.packed_bytes), 4), 2048)

    def process(self, item: RowSlice) -> _ExampleChunk:
        batch, selected = item.batch, self._select(item.batch)
        games, rows = selected.games, selected.rows
        planes = self.renderer.encoder.new_out(len(selected.game))
        rendered = self.renderer.new_labels(len(selected.game))
        positions = LabelPositions(
            batch, games, rows[selected.game], selected.ply, self.layout.width, self.layout.height
        )
        symmetry = np.zeros(len(rows), np.uint8)
        drop, _ = self.renderer.render(batch, games, rows, symmetry, selected.take, planes, rendered)
        labels = rendered | label_values(self.layout.labels, positions)
        counts = np.bincount(selected.game, minlength=len(rows))
        runs = _runs(batch, rows, counts) if self.recipe.order == "corpus" else None
        labels = {label.name: labels[label.name] for label in self.layout.labels}
        content = Batch(planes, labels, to_numpy(batch["id"])[positions.game], positions.ply, runs)
        keys, drops = selected.keys, selected.drops
        kept = drop == DropReason.KEPT
        if not kept.all():  # KataGo's planes need rules and komi, which cleaning rules do not require
            stays = np.flatnonzero(kept[selected.game])
            drops = drops + count_drops(drop)
            rows, counts, keys = rows[kept], counts[kept], keys[stays]
            content = content.take(stays)
            if runs is not None:
                content = content.with_runs(_runs(batch, rows, counts))
        return _ExampleChunk(
            self.writer.prepare(content, self.layout) if self.recipe.order == "corpus" else content,
            keys, (item.first + rows).astype(np.int32), counts.astype(np.int32),
            content.ply.astype(np.uint16), drops, selected.elsewhere,
        )  # fmt: skip


class _DividedExamples(NamedTuple):
    """The examples of a slice, divided by ranges of their keys.

    Attributes:
        file: Has the columns of `_ExampleChunk.columns`; None if there are no examples.
    """

    file: RangeFile | None
    drops: Counter[str]
    elsewhere: int


@dataclass(frozen=True)
class _DivideExamples(_ExampleJob[_DividedExamples]):
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
    def _render(self) -> _RenderExamples:
        return _RenderExamples(self.recipe, self.set)

    @property
    def slice_rows(self) -> int:
        """Maximum number of rows in a slice, whose examples are in one file."""
        return self._render.slice_rows * FILE_CHUNKS

    def process(self, item: RowSlice) -> _DividedExamples:
        """Render the examples of a slice, one chunk at a time, and write them."""
        size = self._render.slice_rows
        slices = (RowSlice(item.first + at, item.batch.slice(at, size)) for at in range(0, len(item.batch), size))
        drops, elsewhere, columns = Counter[str](), 0, list[Columns]()
        for chunk in map(self._render.process, slices):
            drops, elsewhere = drops + chunk.drops, elsewhere + chunk.elsewhere
            if len(chunk.keys):
                columns.append(chunk.columns())
        file = write_ranges(self.folder, concat_columns(columns), KEYS, 0, self.bits) if columns else None
        return _DividedExamples(file, drops, elsewhere)


class _LoadedRange:
    """The examples of a range, loaded and sorted when the first thread needs them."""

    def __init__(self, load: Callable[[], Columns]) -> None:
        self._load = load
        self._lock = Lock()
        self._sorted: tuple[Batch, npt.NDArray[np.int64]] | None = None

    def load(self) -> tuple[Batch, npt.NDArray[np.int64]]:
        """Return the examples and their order. Raises FormatError if a file is damaged."""
        with self._lock:
            if self._sorted is None:
                columns = self._load()
                order = np.argsort(columns.pop(KEYS), kind="stable")
                self._sorted = Batch.from_columns(columns), order
            return self._sorted


@dataclass(frozen=True)
class _EncodeSorted(SetJob[tuple[int, KeyRange], tuple[_LoadedRange, int, int], Any]):
    """Sorts ranges of examples, and prepares them for the writer.

    A shard is the number of examples before the range, and the range; an item is a loaded range and two bounds in it.

    Attributes:
        folder: The directory of the range files.
    """

    recipe: ExamplesRecipe
    folder: Path

    @cached_property
    def layout(self) -> Layout:
        return self.recipe.layout()

    @cached_property
    def writer(self) -> type[Writer]:
        return find_writer(self.recipe.format)

    def shard_fingerprint(self, shard: tuple[int, KeyRange]) -> Any:
        """Return the number of examples before the range, and the files, whose names are unique."""
        start, key_range = shard
        return [start, *key_range]

    def read(self, shard: tuple[int, KeyRange]) -> Iterator[tuple[_LoadedRange, int, int]]:
        start, key_range = shard
        return self.groups(_LoadedRange(partial(load_range, self.folder, key_range)), start, key_range.rows)

    def groups(self, loaded: _LoadedRange, start: int, rows: int) -> Iterator[tuple[_LoadedRange, int, int]]:
        """Yield the bounds of each group of rows of the data set, as far as it lies within a range of `rows` rows."""
        for first, stop in pairwise([0, *range(-start % GROUP_ROWS or GROUP_ROWS, rows, GROUP_ROWS), rows]):
            yield loaded, first, stop

    def process(self, item: tuple[_LoadedRange, int, int]) -> Any:
        loaded, first, stop = item
        batch, order = loaded.load()
        return self.writer.prepare(batch.take(order[first:stop]), self.layout)


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


def build_examples(
    recipe: ExamplesRecipe,
    sources: Paths,
    output: str | PathLike[str],
    *,
    sets: Sequence[str] | None = None,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> list[BuildReport[Manifest]]:
    """Build the data sets of a recipe; takes the arguments of `kifu.recipes.pipeline.build`.

    Sources that are all catalogues are used as they are, if the recipe has no cleaning rules or they were made by the
    same rules. Otherwise all sources are read into a new catalogue, games.parquet in `output`, which only one build at
    a time may use.

    Memory is that of `ingest` plus a few chunks per thread; shuffling takes 128 MiB for two ranges and 100 MiB for each
    thread, and disk space for the packed examples, compressed with LZ4. Raises RecipeError if the recipe has no such
    set, or a source is the catalogue that would be written.
    """
    options, suffix = BuildOptions(jobs, engine, progress), recipe.example_format.suffix
    return build_sets(
        recipe, suffix, lambda plan: _SetWriter(recipe, plan).write(), sources, Path(output), sets, options
    )


@dataclass
class _SetWriter:
    """Writes one data set."""

    recipe: ExamplesRecipe
    plan: SetPlan
    counts: ManifestCounts = field(init=False)

    @cached_property
    def layout(self) -> Layout:
        return self.recipe.layout()

    def write(self) -> Manifest:
        recipe, plan = self.recipe, self.plan
        expected = sum(plan.executor.run(_CountExamples(recipe, plan.set), plan.shards))
        about = {"recipe": recipe.name, "title": recipe.title, "set": plan.set}
        with (
            ManifestCounts(plan.set, plan.path) as self.counts,
            open_writer(recipe.format, plan.path, self.layout, expected) as writer,
        ):
            if recipe.order == "shuffled":
                self._write_shuffled(writer, expected)
            else:
                self._write_in_order(writer, expected)
            written = writer.commit(about)
            return self.counts.manifest(
                recipe, plan.games, plan.sources, written, recipe.example_format.name, self.layout.plane_set
            )

    def _write_in_order(self, writer: Writer, expected: int) -> None:

        job = _RenderExamples(self.recipe, self.plan.set)
        with self._progress("building", expected) as bar:
            for catalogue in self.plan.catalogues:
                for chunk in self.plan.executor.run(job, catalogue.shards):
                    writer.append(chunk.content)
                    self.counts.add_dropped(chunk.drops, chunk.elsewhere)
                    self.counts.add_games(chunk.member, chunk.rows, chunk.plies)
                    bar.advance(len(chunk.plies))
                self.counts.end_archive(catalogue.name, catalogue.digest)

    def _write_shuffled(self, writer: Writer, expected: int) -> None:
        fits = expected * self.layout.packed_bytes <= WINDOW_BYTES
        prepared = self._sort_in_memory(expected) if fits else self._sort_on_disk(expected)
        with self._progress("building", expected) as bar:
            for group in prepared:
                before = writer.examples
                writer.append(group)
                bar.advance(writer.examples - before)
        for catalogue in self.plan.catalogues:
            self.counts.end_archive(catalogue.name, catalogue.digest)

    def _sort_in_memory(self, expected: int) -> Iterator[Any]:
        columns, rows = [], 0
        with self._progress("drawing", expected) as bar:
            for chunk in self.plan.executor.run(_RenderExamples(self.recipe, self.plan.set), self.plan.shards):
                self.counts.add_dropped(chunk.drops, chunk.elsewhere)
                columns.append(chunk.columns())
                bar.advance(len(chunk.keys))
                rows += len(chunk.keys)
        encode = _EncodeSorted(self.recipe, self.plan.set, Path())
        groups = encode.groups(_LoadedRange(partial(concat_columns, columns)), 0, rows) if rows else ()
        return self.plan.executor.map(encode.process, groups)

    def _sort_on_disk(self, expected: int) -> Iterator[Any]:
        executor, folder = self.plan.executor, self.plan.executor.spill_dir()
        max_rows = max(WINDOW_BYTES // self.layout.packed_bytes, 1)
        divide, files = _DivideExamples(self.recipe, self.plan.set, folder, fan_out(expected, max_rows)), []
        with self._progress("drawing", expected) as bar:
            for divided in executor.run(divide, self.plan.shards):
                self.counts.add_dropped(divided.drops, divided.elsewhere)
                if divided.file is not None:
                    files.append(divided.file)
                    bar.advance(int(divided.file.rows.sum()))
        ranges = split_ranges(executor, folder, collect_ranges(files, divide.bits), KEYS, max_rows)
        starts = accumulate((key_range.rows for key_range in ranges), initial=0)
        return executor.run(_EncodeSorted(self.recipe, self.plan.set, folder), list(zip(starts, ranges)))

    def _progress(self, doing: str, expected: int) -> AbstractContextManager[Progress]:
        return self.plan.progress(f"{doing} {self.plan.path.name}", expected, "examples")


def build_tokens(
    recipe: TokensRecipe,
    sources: Paths,
    output: str | PathLike[str],
    *,
    sets: Sequence[str] | None = None,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> list[BuildReport[Manifest]]:
    """Build a tokens@1 directory for each set, whose examples are games, as `build_examples` does for its sets."""
    options = BuildOptions(jobs, engine, progress)
    return build_sets(recipe, "", lambda plan: _write_set(recipe, plan), sources, Path(output), sets, options)


def _write_set(recipe: TokensRecipe, plan: SetPlan) -> Manifest:
    job = _WriteTokens(recipe, plan.set)
    with (
        ManifestCounts(plan.set, plan.path) as counts,
        TokenWriter(plan.path, recipe.tokenizer()) as writer,
        plan.progress(f"building {plan.path.name}", plan.games, "games") as bar,
    ):
        for catalogue in plan.catalogues:
            for chunk in plan.executor.run(job, catalogue.shards):
                writer.append(chunk.tokens, chunk.ends, chunk.games)
                counts.add_dropped(chunk.drops, chunk.elsewhere)
                ones = np.ones(len(chunk.member), np.int32)
                counts.add_games(chunk.member, ones, np.zeros(len(ones), np.uint16))
                bar.advance(chunk.read)
            counts.end_archive(catalogue.name, catalogue.digest)
        written = writer.commit({"recipe": recipe.name, "title": recipe.title, "set": plan.set})
        return counts.manifest(recipe, plan.games, plan.sources, written, FORMAT, "")


class _TokenChunk(NamedTuple):
    """The tokens of a slice.

    Attributes:
        tokens: [T] uint16.
        ends: [K] int64, the end of each game in `tokens`.
        games: [K] uint64, ids.
        member: [K] int32, rows of the catalogue.
        read: Number of games of the slice.
    """

    tokens: Tokens
    ends: npt.NDArray[np.int64]
    games: npt.NDArray[np.uint64]
    member: npt.NDArray[np.int32]
    drops: Counter[str]
    elsewhere: int
    read: int


@dataclass(frozen=True)
class _WriteTokens(CatalogueRowsJob[_TokenChunk]):
    """Converts the games of a set to tokens."""

    recipe: TokensRecipe
    slice_rows = 2048

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return self.recipe.tokenizer()

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.tokenizer.columns, "id", "drop")

    def process(self, item: RowSlice) -> _TokenChunk:
        batch = item.batch
        unfit = (
            (~self.tokenizer.fits(batch), DropReason.WRONG_SIZE),
            (to_numpy(batch["n_legal"]) == 0, DropReason.NO_MOVES),
        )
        rows, drops, elsewhere = self.usable_rows(batch, unfit)
        tokens, ends = self.tokenizer.encode(batch, rows)
        return _TokenChunk(
            tokens, ends, to_numpy(batch["id"])[rows], (item.first + rows).astype(np.int32), drops, elsewhere,
            len(batch),
        )  # fmt: skip
