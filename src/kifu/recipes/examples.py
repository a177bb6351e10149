"""From games to data sets of examples: any plane set and labels, any format, as the corpus has them or shuffled.

Each set is one pass over the catalogue, some games at a time on each thread, in order. Shuffled examples are sorted by
a hash of seed, game and ply: a window of that order at a time, for which all games are replayed once more, since to
play moves takes a tenth of the time that planes take, and nothing has to be put by.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus._hashes import mix_words
from kifu.corpus.catalogue import GAME_COLUMNS, Catalogue, by_value, drop_code, games_of, numbers
from kifu.corpus.hashes import Hashes
from kifu.datasets.drawing import TOLD_COLUMNS, Drawing
from kifu.datasets.examples import Batch, Layout, Runs, Writer, join
from kifu.datasets.formats import open_writer
from kifu.datasets.labels import LABEL_COLUMNS, Positions, label_values
from kifu.datasets.manifest import ExamplesManifest
from kifu.errors import Drop
from kifu.kernel import kernel
from kifu.point import POINT_MASK
from kifu.progress import Bar, OpenBar, silent
from kifu.recipes.schema import ExampleSets
from kifu.recipes.sets import BuiltExamples, SetJob, Some, Tally, build_sets, some_rows
from kifu.records.games import Games

_CHUNK_BYTES = 4 << 20
"""Packed planes that a thread makes at one go, about."""

_WINDOW_BYTES = 128 << 20
"""Packed planes that are sorted at one go."""

_MOVES = 220
"""Of a game, about."""

_GAMES = 512
"""Looked at at one go where few of their positions are drawn: what is noted of their moves stays in a cache."""

_PIECE = 4096
"""Sorted rows that are made ready to be written at one go."""

_DRAWN = np.uint64(0x6B69667564726177)
"""Makes the hash that positions are drawn by another one than that which they are sorted by."""

_COLUMNS = tuple(dict.fromkeys((*GAME_COLUMNS, *LABEL_COLUMNS, *TOLD_COLUMNS, "id", "archive", "member", "index")))


def build_examples(
    recipe: ExampleSets,
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    into: str | os.PathLike[str],
    *,
    sets: Sequence[str] | None = None,
    jobs: int | None = None,
    progress: OpenBar = silent,
) -> list[BuiltExamples]:
    """Makes the data sets of a recipe, each with its manifest, and returns them in the order of `sets`.

    sources: what `ingest` reads, catalogues among it. Catalogues alone are taken as they are, if the recipe has no
    rules of cleaning or they were made by these; else all is read into a new one, CATALOGUE in the folder. sets: by
    default those of the recipe. jobs: threads; the bytes are the same for any number. A data set that is there already,
    made by this version from the same recipe and sources, stays as it is. Each is complete or not there at all,
    whatever interrupts. Memory is that of `ingest`, and then some chunks for each thread; where examples are shuffled,
    three times 128 MiB.
    Raises RecipeError, SourceError, FormatError or OutputError.
    """

    def make(job: SetJob) -> ExamplesManifest:
        return _Build(recipe, job).make()

    return build_sets(recipe, recipe.example_format.suffix, make, sources, Path(into), sets, jobs, progress)


class _Selected(NamedTuple):
    """Which of these rows are of the set, and which of their positions are wanted.

    rows: [R] of the batch. take: [M] for all moves of these, game after game, which of the wanted positions the one
    before it is, or -1; at: [B] int64, the wanted ones as indices of it. game: [B] int64, an index of rows; ply: [B]
    int32; keys: [B] uint64.
    why: of the other rows, how many are set aside, by reason; elsewhere: and how many are of no set, or of others.
    """

    games: Games
    rows: npt.NDArray[np.int64]
    take: npt.NDArray[np.int64]
    at: npt.NDArray[np.int64]
    game: npt.NDArray[np.int64]
    ply: npt.NDArray[np.int32]
    keys: Hashes
    why: Counter[str]
    elsewhere: int

    def only(self, wanted: npt.NDArray[np.bool_]) -> _Selected:
        """Some of the positions: [B] whether each of them is still wanted."""
        self.take[self.at] = np.where(wanted, np.cumsum(wanted) - 1, -1)
        return self._replace(at=self.at[wanted], game=self.game[wanted], ply=self.ply[wanted], keys=self.keys[wanted])


class _Made(NamedTuple):
    """What a thread has made of some rows. content: what is to be written, or, with keys, sorted first.

    member, rows: [K] which rows of the catalogue gave examples, and how many; plies: [B] uint16 of all of them.
    """

    content: Any
    keys: Hashes
    member: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    plies: npt.NDArray[np.uint16]
    why: Counter[str]
    elsewhere: int


@dataclass
class _Build:
    """One data set in the making."""

    recipe: ExampleSets
    job: SetJob
    tally: Tally = field(default_factory=Tally)

    @cached_property
    def drawing(self) -> Drawing:
        return self.recipe.drawing()

    @cached_property
    def layout(self) -> Layout:
        return self.recipe.layout()

    def make(self) -> ExamplesManifest:
        """Writes the data set."""
        path, recipe = self.job.path, self.recipe
        expected = sum(self.job.crew.map(lambda some: len(self._select(some).game), self._all_some(_GAMES)))
        about = {"recipe": recipe.name, "title": recipe.title, "set": self.job.set}
        with (
            self.job.progress(f"building {path.name}", expected, "examples") as bar,
            open_writer(recipe.format, path, self.layout, expected) as writer,
        ):
            if recipe.order == "shuffled":
                self._write_shuffled(writer, expected, bar)
            else:
                self._write_in_order(writer, bar)
            written = writer.commit(about)
        return self.tally.manifest(self.job, written, recipe, recipe.example_format.name, self.layout.plane_set)

    def _write_in_order(self, writer: Writer, bar: Bar) -> None:
        def make(some: Some) -> _Made:
            made = self._encode(some, self._select(some))
            return made._replace(content=writer.prepare(made.content))

        for catalogue in self.job.catalogues:
            for made in self.job.crew.map(make, self._some(catalogue, self._games_at_a_time)):
                writer.append(made.content)
                self.tally.set_aside(made.why, made.elsewhere)
                self.tally.add(made.member, made.rows, made.plies)
                bar.advance(len(made.plies))
            self.tally.end(catalogue)

    def _write_shuffled(self, writer: Writer, expected: int, bar: Bar) -> None:
        windows = -(-expected * self.layout.stored_bytes // _WINDOW_BYTES) or 1
        for k in range(windows):
            low, high = 2**64 * k // windows, 2**64 * (k + 1) // windows
            whole, order = self._window(low, high)
            pieces = (order[at : at + _PIECE] for at in range(0, len(order), _PIECE))
            for prepared in self.job.crew.map(partial(_prepare, writer, whole), pieces):
                writer.append(prepared)
            bar.advance(len(order))
        for catalogue in self.job.catalogues:
            self.tally.end(catalogue)

    def _window(self, low: int, high: int) -> tuple[Batch, npt.NDArray[np.int64]]:
        """All examples with keys from low to high - 1, as the corpus has them, and their order."""

        def make(some: Some) -> _Made:
            chosen = self._select(some)
            inside = (chosen.keys >= np.uint64(low)) & (chosen.keys <= np.uint64(high - 1))
            return self._encode(some, chosen.only(inside))

        parts, keys = [], [np.empty(0, np.uint64)]
        for made in self.job.crew.map(make, self._all_some(_GAMES)):
            parts.append(made.content)
            keys.append(made.keys)
            if low == 0:
                self.tally.set_aside(made.why, made.elsewhere)
        return join(parts, self.layout), np.argsort(np.concatenate(keys), kind="stable")

    @property
    def _games_at_a_time(self) -> int:
        return min(max(_CHUNK_BYTES // (_MOVES * self.layout.stored_bytes), 4), 2048)

    def _all_some(self, games: int) -> Iterator[Some]:
        for catalogue in self.job.catalogues:
            yield from self._some(catalogue, games)

    def _some(self, catalogue: Catalogue, games: int) -> Iterator[Some]:
        columns = (*_COLUMNS, *(self.recipe.split.columns if self.recipe.split else ()))
        return some_rows(catalogue, columns, games)

    def _select(self, some: Some) -> _Selected:
        """Which positions of these rows become examples."""
        recipe, batch = self.recipe, some.batch
        games = games_of(batch)
        ours = np.ones(len(batch), bool)
        if recipe.split is not None:
            ours = recipe.split.codes(batch) == list(recipe.split.sets).index(self.job.set)
        drop = by_value(batch["drop"], drop_code, np.uint8)
        width, height = self.layout.width, self.layout.height
        fits = (games.width == width) & (games.height == height)
        if recipe.pad:
            fits = (games.width <= width) & (games.height <= height)
        drop[(drop == Drop.KEPT) & ours & ~fits] = Drop.WRONG_SIZE
        rows = np.flatnonzero((drop == Drop.KEPT) & ours)
        dropped = drop[drop != Drop.KEPT]
        why = Counter({Drop(k).name: int(n) for k, n in zip(*np.unique(dropped, return_counts=True))})
        chosen = self._choose(batch, games, rows)
        return chosen._replace(why=why, elsewhere=len(batch) - len(dropped) - len(rows))

    def _choose(self, batch: pa.RecordBatch, games: Games, rows: npt.NDArray[np.int64]) -> _Selected:
        """Which positions of these games are wanted."""
        of = self.recipe.positions
        moves = int(np.diff(games.move_offset)[rows].sum())
        take, at, game = (np.empty(moves, np.int64) for _ in range(3))
        ply = np.empty(moves, np.int32)
        most = np.iinfo(np.int64).max if of.max_ply is None else of.max_ply
        n = _choose_plies(
            rows, games.moves, games.move_offset, games.width, games.height, of.passes, of.min_ply, most, take, at,
            game, ply,
        )  # fmt: skip
        at, game, ply = at[:n], game[:n], ply[:n]
        ids = mix_words(numbers(batch["id"])[rows] ^ mix_words(np.array([self.recipe.seed], np.uint64)))
        keys = mix_words(ids[game] + ply.astype(np.uint64))
        chosen = _Selected(games, rows, take, at, game, ply, keys, Counter(), 0)
        if of.per_game is None:
            return chosen
        return chosen.only(_first_of_each(game, mix_words(keys ^ _DRAWN), of.per_game))

    def _encode(self, some: Some, chosen: _Selected) -> _Made:
        """Planes and labels of the wanted positions."""
        batch, games, rows = some.batch, chosen.games, chosen.rows
        planes = self.drawing.encoder.new_out(len(chosen.game))
        drawn = self.drawing.new_labels(len(chosen.game))
        at = Positions(batch, games, rows[chosen.game], chosen.ply, self.layout.width, self.layout.height)
        told, symmetry = self.drawing.told(batch), np.zeros(len(rows), np.uint8)
        drop, _ = self.drawing.draw(games, told, rows, symmetry, chosen.take, planes, drawn)
        labels = drawn | label_values(self.layout.labels, at)
        counts = np.bincount(chosen.game, minlength=len(rows))
        runs = _runs(batch, rows, counts) if self.recipe.order == "corpus" else None
        wanted = {label.name: labels[label.name] for label in self.layout.labels}
        content = Batch(planes, wanted, numbers(batch["id"])[at.game], at.ply, runs)
        keys, why = chosen.keys, chosen.why
        kept = drop == Drop.KEPT
        if not kept.all():  # KataGo's planes ask for more than what our catalogues have; others made the catalogue
            stays = np.flatnonzero(kept[chosen.game])
            why = why + Counter(Drop(k).name for k in drop[~kept].tolist())
            rows, counts, keys = rows[kept], counts[kept], keys[stays]
            content = content.pick(stays)
            if runs is not None:
                content = content.with_runs(_runs(batch, rows, counts))
        return _Made(
            content, keys, (some.first + rows).astype(np.int32), counts.astype(np.int32),
            content.ply.astype(np.uint16), why, chosen.elsewhere,
        )  # fmt: skip


def _prepare(writer: Writer, whole: Batch, rows: npt.NDArray[np.int64]) -> Any:
    return writer.prepare(whole.pick(rows))


def _first_of_each(group: npt.NDArray[np.int64], keys: Hashes, most: int) -> npt.NDArray[np.bool_]:
    """[B] whether an entry is one of the `most` of its group with the lowest keys. group: rising."""
    order = np.lexsort((keys, group))
    first = np.searchsorted(group, group, side="left")
    chosen = np.empty(len(group), bool)
    chosen[order] = np.arange(len(group)) - first < most
    return chosen


@kernel
def _choose_plies(
    rows: Any, moves: Any, move_offset: Any, width: Any, height: Any, passes: Any, least: Any, most: Any, take: Any,
    at: Any, game: Any, ply: Any,
) -> Any:  # fmt: skip
    """Fills take for all moves of these games, and at, game and ply of the positions that are wanted; see `_Selected`.

    Those from ply `least` to `most`, and before a pass only if `passes`. Returns how many they are.
    """
    chosen = 0
    first = 0
    for r in range(rows.shape[0]):
        g = rows[r]
        points = np.int64(width[g]) * np.int64(height[g])
        plies = move_offset[g + 1] - move_offset[g]
        for t in range(plies):
            if least <= t <= most and (passes or (moves[move_offset[g] + t] & POINT_MASK) != points):
                take[first + t] = chosen
                at[chosen] = first + t
                game[chosen] = r
                ply[chosen] = t
                chosen += 1
            else:
                take[first + t] = -1
        first += plies
    return chosen


def _runs(batch: pa.RecordBatch, rows: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> Runs:
    """The games of these rows that have examples."""
    some = rows[counts > 0]
    members = batch["member"].take(pa.array(some)).to_pylist()
    index = numbers(batch["index"])[some]
    for k in np.flatnonzero(index).tolist():  # games after the first of a member
        members[k] += f"#{index[k] + 1}"
    return Runs(batch["archive"].take(pa.array(some)).to_pylist(), members, counts[counts > 0])
