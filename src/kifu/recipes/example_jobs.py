"""Work on games for data sets of examples: positions are counted, or drawn and labelled, some games at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus._hashes import mix_words
from kifu.corpus.hashes import Hashes
from kifu.corpus.schema import GAME_COLUMNS, drop_code, game_arrays, map_distinct, to_numpy
from kifu.datasets.examples import Batch, GameRuns, Layout
from kifu.datasets.formats import find_writer
from kifu.datasets.labels import LABEL_COLUMNS, LabelPositions, label_values
from kifu.datasets.renderer import CONTEXT_COLUMNS, Renderer
from kifu.datasets.writer import Writer
from kifu.errors import DropReason
from kifu.execution.executor import R
from kifu.kernel import kernel
from kifu.point import POINT_MASK
from kifu.recipes.pipeline import CatalogueRowsJob, RowSlice
from kifu.recipes.schema import ExamplesRecipe
from kifu.records.games import GameArrays

CHUNK_BYTES = 4 << 20
"""Packed planes that a thread makes at one go, about."""

_MOVES = 220
"""Of a game, about."""

_GAMES = 512
"""Looked at at one go where few of their positions are drawn: what is noted of their moves stays in a cache."""

_DRAWN = np.uint64(0x6B69667564726177)
"""Makes the hash that positions are drawn by another one than that which they are sorted by."""

_COLUMNS = tuple(dict.fromkeys((*GAME_COLUMNS, *LABEL_COLUMNS, *CONTEXT_COLUMNS, "id", "archive", "member", "index")))


class _Selected(NamedTuple):
    """Which of these rows are of the set, and which of their positions are wanted.

    rows: [R] of the batch. take: [M] for all moves of these, game after game, which of the wanted positions the one
    before it is, or -1; at: [B] int64, the wanted ones as indices of it. game: [B] int64, an index of rows; ply: [B]
    int32; keys: [B] uint64.
    why: of the other rows, how many are set aside, by reason; elsewhere: and how many are of no set, or of others.
    """

    games: GameArrays
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


class ExampleChunk(NamedTuple):
    """What was made of some rows. content: what is to be written, or, with keys, sorted first.

    member, rows: [K] which rows of the catalogue gave examples, and how many; plies: [B] uint16 of all of them.
    """

    content: Any
    keys: Hashes
    member: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    plies: npt.NDArray[np.uint16]
    why: Counter[str]
    elsewhere: int


@dataclass(frozen=True)
class _ExampleJob(CatalogueRowsJob[R]):
    """Positions of games are looked at."""

    columns = _COLUMNS

    recipe: ExamplesRecipe

    @cached_property
    def renderer(self) -> Renderer:
        return self.recipe.renderer()

    @cached_property
    def layout(self) -> Layout:
        return self.recipe.layout()

    def _select(self, some: RowSlice) -> _Selected:
        """Which positions of these rows become examples."""
        recipe, batch = self.recipe, some.batch
        games = game_arrays(batch)
        ours = self.ours(batch)
        drop = map_distinct(batch["drop"], drop_code, np.uint8)
        width, height = self.layout.width, self.layout.height
        fits = (games.width == width) & (games.height == height)
        if recipe.pad:
            fits = (games.width <= width) & (games.height <= height)
        drop[(drop == DropReason.KEPT) & ours & ~fits] = DropReason.WRONG_SIZE
        rows = np.flatnonzero((drop == DropReason.KEPT) & ours)
        dropped = drop[drop != DropReason.KEPT]
        why = Counter({DropReason(k).name: int(n) for k, n in zip(*np.unique(dropped, return_counts=True))})
        chosen = self._choose(batch, games, rows)
        return chosen._replace(why=why, elsewhere=len(batch) - len(dropped) - len(rows))

    def _choose(self, batch: pa.RecordBatch, games: GameArrays, rows: npt.NDArray[np.int64]) -> _Selected:
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
        ids = mix_words(to_numpy(batch["id"])[rows] ^ mix_words(np.array([self.recipe.seed], np.uint64)))
        keys = mix_words(ids[game] + ply.astype(np.uint64))
        chosen = _Selected(games, rows, take, at, game, ply, keys, Counter(), 0)
        if of.per_game is None:
            return chosen
        return chosen.only(_first_of_each(game, mix_words(keys ^ _DRAWN), of.per_game))


@dataclass(frozen=True)
class CountExamples(_ExampleJob[int]):
    """How many examples there are."""

    games = _GAMES

    def process(self, item: RowSlice) -> int:
        return len(self._select(item).game)


@dataclass(frozen=True)
class _DrawExamples(_ExampleJob[ExampleChunk]):
    """Positions become examples."""

    @property
    def games(self) -> int:
        drawn = min(self.recipe.positions.per_game or _MOVES, _MOVES)
        return min(max(CHUNK_BYTES // (drawn * self.layout.packed_bytes), 4), 2048)

    def process(self, item: RowSlice) -> ExampleChunk:
        return self._encode(item, self._select(item))

    def _encode(self, some: RowSlice, chosen: _Selected) -> ExampleChunk:
        """Planes and labels of the wanted positions."""
        batch, games, rows = some.batch, chosen.games, chosen.rows
        planes = self.renderer.encoder.new_out(len(chosen.game))
        drawn = self.renderer.new_labels(len(chosen.game))
        at = LabelPositions(batch, games, rows[chosen.game], chosen.ply, self.layout.width, self.layout.height)
        symmetry = np.zeros(len(rows), np.uint8)
        drop, _ = self.renderer.render(batch, games, rows, symmetry, chosen.take, planes, drawn)
        labels = drawn | label_values(self.layout.labels, at)
        counts = np.bincount(chosen.game, minlength=len(rows))
        runs = _runs(batch, rows, counts) if self.recipe.order == "corpus" else None
        wanted = {label.name: labels[label.name] for label in self.layout.labels}
        content = Batch(planes, wanted, to_numpy(batch["id"])[at.game], at.ply, runs)
        keys, why = chosen.keys, chosen.why
        kept = drop == DropReason.KEPT
        if not kept.all():  # KataGo's planes ask for more than what our catalogues have; others made the catalogue
            stays = np.flatnonzero(kept[chosen.game])
            why = why + Counter(DropReason(k).name for k in drop[~kept].tolist())
            rows, counts, keys = rows[kept], counts[kept], keys[stays]
            content = content.take(stays)
            if runs is not None:
                content = content.with_runs(_runs(batch, rows, counts))
        return ExampleChunk(
            content, keys, (some.first + rows).astype(np.int32), counts.astype(np.int32),
            content.ply.astype(np.uint16), why, chosen.elsewhere,
        )  # fmt: skip


@dataclass(frozen=True)
class WriteExamples(_DrawExamples):
    """All examples of a set, as the corpus has them, ready to be appended by the writer of their format."""

    @cached_property
    def writer(self) -> type[Writer]:
        return find_writer(self.recipe.format)

    def process(self, item: RowSlice) -> ExampleChunk:
        made = super().process(item)
        return made._replace(content=self.writer.prepare(made.content, self.layout))


@dataclass(frozen=True)
class SortExamples(_DrawExamples):
    """All examples of a set, with the keys by which they are to be sorted."""


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


def _runs(batch: pa.RecordBatch, rows: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> GameRuns:
    """The games of these rows that have examples."""
    some = rows[counts > 0]
    members = batch["member"].take(pa.array(some)).to_pylist()
    index = to_numpy(batch["index"])[some]
    for k in np.flatnonzero(index).tolist():  # games after the first of a member
        members[k] += f"#{index[k] + 1}"
    return GameRuns(batch["archive"].take(pa.array(some)).to_pylist(), members, counts[counts > 0])
