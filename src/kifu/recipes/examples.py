"""Data sets from the rows of catalogues: examples of any plane set, labels and format, or games as tokens.

Each set is one pass over the catalogue. Shuffled examples are sorted by a hash of seed, game and ply. If they do not
fit in memory, jobs divide them into files by range of that hash, and sort and encode the ranges, see
`kifu.execution.range_sort`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.arrays import Hashes
from kifu.corpus.catalogue import Catalogue, RowShard
from kifu.corpus.hashes import lowest_of_each, mix_words, seeded_hashes
from kifu.corpus.schema import GAME_COLUMNS, count_drops, game_arrays, to_numpy
from kifu.datasets.examples import Batch, GameRuns, Layout
from kifu.datasets.filter import mark_positions
from kifu.datasets.formats import find_writer, open_writer
from kifu.datasets.labels import ENCODED_LABELS, label_columns, label_values
from kifu.datasets.manifest import Writer, WriteReport
from kifu.datasets.tokens import FORMAT, Tokenizer, TokenWriter
from kifu.errors import DropReason
from kifu.execution.range_sort import (
    Columns,
    KeyRange,
    RangeFile,
    collect_ranges,
    concat_columns,
    fan_out,
    load_range,
    spill_folder,
    split_ranges,
    write_ranges,
)
from kifu.go.positions import Positions
from kifu.planes.encoder import CONTEXT_COLUMNS, FrameEncoder
from kifu.progress import Progress
from kifu.recipes.pipeline import RowSlice, SetChunk, SetJob, SetPlan
from kifu.recipes.schema import ExamplesRecipe, TokensRecipe

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

_TOKEN_GAMES = 2048
"""Games that are converted to tokens at once."""

_DRAW_SALT = np.uint64(0x6B69667564726177)
"""Makes the hash for drawing positions independent of the one for sorting them."""

_COLUMNS = (*GAME_COLUMNS, *CONTEXT_COLUMNS, "id", "archive", "member", "index")
"""Columns that all examples need."""


@dataclass(frozen=True)
class _ExampleJob(SetJob):
    """Selects positions; counts, renders, divides and sorts their examples."""

    recipe: ExamplesRecipe

    @cached_property
    def encoder(self) -> FrameEncoder:
        return self.recipe.encoder()

    @cached_property
    def layout(self) -> Layout:
        return self.recipe.layout()

    @cached_property
    def writer(self) -> type[Writer]:
        return find_writer(self.recipe.format)

    @property
    def rendered_games(self) -> int:
        """The number of games that are rendered at a time: those of examples of about `CHUNK_BYTES`."""
        drawn = min(self.recipe.positions.per_game or _MOVES, _MOVES)
        return min(max(CHUNK_BYTES // (drawn * self.layout.packed_bytes), 4), 2048)

    def read(self, rows: int) -> Callable[[RowShard], Iterator[RowSlice]]:
        return self.reader((*_COLUMNS, *label_columns(self.layout.labels)), rows)

    def _select(self, batch: pa.RecordBatch) -> tuple[Positions, Hashes, npt.NDArray[np.int64], Counter[str], int]:
        """Return the selected positions, the hashes [B] of seed, game and ply, and `usable_rows`."""
        games, rules = game_arrays(batch), self.recipe.positions
        width, height = self.layout.width, self.layout.height
        fits = (games.width == width) & (games.height == height)
        if self.recipe.pad:
            fits = (games.width <= width) & (games.height <= height)
        rows, drops, elsewhere = self.usable_rows(batch, [(~fits, DropReason.WRONG_SIZE)])
        playable = np.zeros(len(batch), np.int32)
        playable[rows] = np.diff(games.move_offset)[rows]
        positions = Positions.where(games, mark_positions(games, replace(rules, per_game=None), playable))
        ids = seeded_hashes(to_numpy(batch["id"]), self.recipe.seed)
        keys = mix_words(ids[positions.game] + positions.ply.astype(np.uint64))
        if rules.per_game is not None:
            drawn = lowest_of_each(positions.game, mix_words(keys ^ _DRAW_SALT), rules.per_game)
            positions, keys = positions.take(np.flatnonzero(drawn)), keys[drawn]
        return positions, keys, rows, drops, elsewhere

    def count(self, item: RowSlice) -> int:
        return len(self._select(item.batch)[0])

    def render(self, item: RowSlice) -> SetChunk:
        """Render the examples of a slice: prepared for the writer in corpus order, else as columns with their keys."""
        batch = item.batch
        positions, keys, rows, drops, elsewhere = self._select(batch)
        encoded = self.encoder.encode(positions, self.encoder.context_of(batch))
        drop = np.zeros(len(batch), np.uint8)
        drop[positions.game] = encoded.drop
        game, specs = positions.game, self.layout.labels
        values = label_values(specs, (self.layout.width, self.layout.height), batch, positions)
        labels = {spec.name: (encoded.labels if spec.name in ENCODED_LABELS else values)[spec.name] for spec in specs}
        content = Batch(encoded.planes, labels, to_numpy(batch["id"])[game], positions.ply.astype(np.int32))
        if drop.any():  # KataGo's planes need rules and komi, which cleaning rules do not require
            stays = np.flatnonzero(encoded.drop == DropReason.KEPT)
            drops = drops + count_drops(drop[rows])
            rows = rows[drop[rows] == DropReason.KEPT]
            content, game, keys = content.take(stays), game[stays], keys[stays]
        counts = np.bincount(game, minlength=len(batch))[rows]
        prepared: Any = content.columns() | {KEYS: keys}
        if self.recipe.order == "corpus":
            prepared = self.writer.prepare(replace(content, runs=_runs(batch, rows, counts)), self.layout)
        return SetChunk(
            prepared, (item.first + rows).astype(np.int32), counts.astype(np.int32), content.ply.astype(np.uint16),
            drops, elsewhere, len(batch),
        )  # fmt: skip

    def divide(self, folder: Path, bits: int, item: RowSlice) -> tuple[RangeFile | None, Counter[str], int]:
        """Write the examples of a slice, rendered one chunk at a time, to a range file.

        bits: number of highest bits of the key that determine the range.

        Returns:
            A file with the columns of `render`, or None without examples; `drops` and `elsewhere`.
        """
        size, columns, drops, elsewhere = self.rendered_games, list[Columns](), Counter[str](), 0
        for at in range(0, len(item.batch), size):
            chunk = self.render(RowSlice(item.first + at, item.batch.slice(at, size)))
            drops, elsewhere = drops + chunk.drops, elsewhere + chunk.elsewhere
            if len(chunk.plies):
                columns.append(chunk.content)
        file = write_ranges(folder, concat_columns(columns), KEYS, 0, bits) if columns else None
        return file, drops, elsewhere

    def sort(self, item: tuple[_LoadedRange, int]) -> Any:
        """Prepare a group of the examples of a range, from the given row on, for the writer."""
        batch, order = item[0].load()
        return self.writer.prepare(batch.take(order[item[1] : item[1] + GROUP_ROWS]), self.layout)


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


def _groups(load: Callable[[], Columns], rows: int) -> Iterator[tuple[_LoadedRange, int]]:
    loaded = _LoadedRange(load)
    return ((loaded, first) for first in range(0, rows, GROUP_ROWS))


def _read_range(folder: Path, shard: KeyRange) -> Iterator[tuple[_LoadedRange, int]]:
    return _groups(partial(load_range, folder, shard), shard.rows)


def _runs(batch: pa.RecordBatch, rows: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> GameRuns:
    """Return the names and lengths of the runs of examples of one game."""
    some = rows[counts > 0]
    members = batch["member"].take(pa.array(some)).to_pylist()
    index = to_numpy(batch["index"])[some]
    for k in np.flatnonzero(index).tolist():  # games after the first of a member
        members[k] += f"#{index[k] + 1}"
    return GameRuns(batch["archive"].take(pa.array(some)).to_pylist(), members, counts[counts > 0])


def write_examples(recipe: ExamplesRecipe, plan: SetPlan) -> tuple[WriteReport, str, str]:
    """Write a data set of examples, see `kifu.recipes.pipeline.build_sets`.

    Memory is that of `ingest` plus a few chunks per thread; shuffling takes 128 MiB for two ranges and 100 MiB for each
    thread, and disk space for the packed examples, compressed with LZ4.
    """
    layout, job = recipe.layout(), _ExampleJob(recipe, plan.set)
    expected = sum(plan.executor.run(job.count, plan.shards, job.read(_GAMES)))
    with open_writer(recipe.format, plan.path, layout, expected) as writer:
        if recipe.order == "corpus":
            prepared = _in_order(job, plan)
        elif expected * layout.packed_bytes <= WINDOW_BYTES:
            prepared = _sort_in_memory(job, plan, expected)
        else:
            prepared = _sort_on_disk(job, plan, expected)
        with closing(prepared), _progress("building", plan, expected) as bar:
            for group in prepared:
                before = writer.examples
                writer.append(group)
                bar.advance(writer.examples - before)
        if recipe.order == "shuffled":
            for catalogue, digest in plan.catalogues:
                plan.counts.end_archive(catalogue.path.name, digest)
        return writer.commit(plan.about), recipe.example_format.name, layout.plane_set


def measure_example(recipe: ExamplesRecipe, catalogues: Sequence[Catalogue]) -> float:
    """Return the size of an example in a file, from a sample: the first games of at most 8 shards of the catalogues."""
    rules, shuffled = recipe.positions, recipe.order == "shuffled"
    shards = [shard for each in catalogues for shard in each.shards()]
    if not shards:
        return 0.0
    games = recipe.games or sum(shard.rows for shard in shards)
    if shuffled:  # then few positions of a game are compressed together, in a page of 1 MiB
        together = max((1 << 20) // recipe.layout().packed_bytes // games, 4)
        rules = replace(rules, per_game=min(rules.per_game or _MOVES, together))
    job = _ExampleJob(recipe.model_copy(update={"split": None, "positions": rules}), "all")
    chosen = shards[:: -(-len(shards) // 8)]
    read = job.read(-(-min(job.rendered_games, games) // len(chosen)))
    chunk = job.render(RowSlice(0, pa.concat_batches([next(read(shard)).batch for shard in chosen])))
    rows = len(chunk.plies)
    groups = map(job.sort, _groups(lambda: chunk.content, rows)) if shuffled else [chunk.content]
    with (
        TemporaryDirectory(prefix="kifu-") as folder,
        open_writer(recipe.format, Path(folder, "sample"), job.layout, rows) as writer,
    ):
        for group in groups:
            writer.append(group)
        return sum(file.bytes for file in writer.commit({}).files) / max(rows, 1)


def _in_order(job: _ExampleJob, plan: SetPlan) -> Generator[Any]:
    """Yield the examples, prepared for the writer, in the order of the catalogues."""
    for chunk in plan.run(job.render, job.read(job.rendered_games)):
        yield chunk.content


def _sort_in_memory(job: _ExampleJob, plan: SetPlan, expected: int) -> Generator[Any]:
    """Yield the examples, prepared for the writer, in the order of their keys."""
    columns, rows = list[Columns](), 0
    with _progress("drawing", plan, expected) as bar:
        for chunk in plan.executor.run(job.render, plan.shards, job.read(job.rendered_games)):
            plan.counts.add_dropped(chunk.drops, chunk.elsewhere)
            columns.append(chunk.content)
            bar.advance(len(chunk.plies))
            rows += len(chunk.plies)
    yield from plan.executor.map(job.sort, _groups(partial(concat_columns, columns), rows))


def _sort_on_disk(job: _ExampleJob, plan: SetPlan, expected: int) -> Generator[Any]:
    """Yield the examples, prepared for the writer, in the order of their keys."""
    max_rows = max(WINDOW_BYTES // job.layout.packed_bytes, 1)
    bits, files, read = fan_out(expected, max_rows), list[RangeFile](), job.read(job.rendered_games * FILE_CHUNKS)
    with spill_folder(plan.path) as folder:
        with _progress("drawing", plan, expected) as bar:
            for file, drops, elsewhere in plan.executor.run(partial(job.divide, folder, bits), plan.shards, read):
                plan.counts.add_dropped(drops, elsewhere)
                if file is not None:
                    files.append(file)
                    bar.advance(int(file.rows.sum()))
        ranges = split_ranges(plan.executor, folder, collect_ranges(files, bits), KEYS, max_rows)
        yield from plan.executor.run(job.sort, ranges, partial(_read_range, folder))


def _progress(doing: str, plan: SetPlan, expected: int) -> AbstractContextManager[Progress]:
    return plan.progress(f"{doing} {plan.path.name}", expected, "examples")


def write_tokens(recipe: TokensRecipe, plan: SetPlan) -> tuple[WriteReport, str, str]:
    """Write a tokens@1 directory, whose examples are games, see `kifu.recipes.pipeline.build_sets`."""
    job, tokenizer = SetJob(recipe, plan.set), recipe.tokenizer()
    with (
        TokenWriter(plan.path, tokenizer) as writer,
        plan.progress(f"building {plan.path.name}", plan.games, "games") as bar,
    ):
        read = job.reader((*tokenizer.columns, "id", "drop"), _TOKEN_GAMES)
        for chunk in plan.run(partial(_encode_games, job, tokenizer), read):
            writer.append(*chunk.content)
            bar.advance(chunk.read)
        return writer.commit(plan.about), FORMAT, ""


def _encode_games(job: SetJob, tokenizer: Tokenizer, item: RowSlice) -> SetChunk:
    """Convert games to tokens; each is one example, whose ply is 0."""
    batch = item.batch
    unfit = (
        (~tokenizer.fits(batch), DropReason.WRONG_SIZE),
        (to_numpy(batch["n_legal"]) == 0, DropReason.NO_MOVES),
    )
    rows, drops, elsewhere = job.usable_rows(batch, unfit)
    content = (*tokenizer.encode(batch, rows), to_numpy(batch["id"])[rows])
    ones, zeros = np.ones(len(rows), np.int32), np.zeros(len(rows), np.uint16)
    return SetChunk(content, (item.first + rows).astype(np.int32), ones, zeros, drops, elsewhere, len(batch))
