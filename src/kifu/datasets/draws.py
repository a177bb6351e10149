"""Reports of the positions that a loader draws: their sources, ranks, plies, years and duplicates.

They are counted in the plan of an epoch, without rendering planes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kifu.arrays import Bytes, Indices
from kifu.corpus.schema import to_numpy
from kifu.corpus.stats import BANDS, UNKNOWN, WINNERS, rank_bands
from kifu.datasets.epoch_plan import EpochPlan, slots_of_entries
from kifu.datasets.sources import CatalogueSource, LoaderSource
from kifu.errors import RecipeError
from kifu.kernel import kernel
from kifu.point import WHITE_BIT
from kifu.text import Report

Counts = dict[str, int]

PLY_STEP = 20
_LATEST = 300  # all later plies form one class
_PLIES = (*(f"{low}-{low + PLY_STEP - 1}" for low in range(0, _LATEST, PLY_STEP)), f"{_LATEST}+")

_RESULTS = ("win", "loss", "draw", UNKNOWN)

_NO_YEAR = 2**15 - 1
"""Stands for an unknown year; the last one in order."""

_FIGURES: dict[str, Callable[[Indices], Any]] = {"min": np.min, "median": np.median, "mean": np.mean, "max": np.max}


@dataclass(frozen=True, slots=True)
class SourceDraws(Report):
    """The examples drawn from one source."""

    examples: int
    share: float
    games: int
    all_games: int


@dataclass(frozen=True, slots=True)
class Draws(Report):
    """Counts of the examples that one process draws in an epoch; `Loader.draws` returns them.

    Attributes:
        examples: Number of examples. The counts by source, rank, ply, year, colour and result add up to it.
        sources: By source; a loader that is not a mixture has one, "games".
        ranks: By rank of the side to move, in the classes of `kifu stats`.
        plies: By ply, in classes of 20.
        results: By result for the side to move: win, loss, draw or unknown.
        per_game: Minimum, median, mean and maximum number of examples of these games.
        duplicate_games: Games with the moves of another one of `games`, one of each group not counted.
        duplicates: Examples whose position was also drawn from a duplicate of their game; one of each group not
            counted.
    """

    epoch: int
    examples: int
    sources: dict[str, SourceDraws]
    ranks: Counts
    plies: Counts
    years: Counts
    colours: Counts
    results: Counts
    games: int
    per_game: dict[str, float]
    duplicate_games: int
    duplicates: int


@kernel
def mark_drawn(units: Any, first: Any, slot_of: Any, move_offset: Any, selected: Any, drawn: Any) -> None:
    """Mark the positions of consecutive games of a block that have a slot; see `kifu.datasets.sources.fill_slots`.

    drawn: bytes like `selected`, lowest bit first; receives those of positions with a slot.
    """
    q = first
    for u in range(units.shape[0]):
        for k in range(move_offset[units[u]], move_offset[units[u] + 1]):
            if selected[k >> 3] >> (k & 7) & 1:
                if 0 <= q < slot_of.shape[0] and slot_of[q] >= 0:
                    drawn[k >> 3] |= np.uint8(1 << (k & 7))
                q += 1


@kernel
def count_drawn(moves: Any, move_offset: Any, drawn: Any, by_player: Any, by_ply: Any) -> None:
    """Add the positions marked in `drawn` to the counts by game and player, [G, 2], and by ply; see `_Drawn`."""
    for g in range(by_player.shape[0]):
        first = move_offset[g]
        for k in range(first, move_offset[g + 1]):
            if drawn[k >> 3] >> (k & 7) & 1:
                by_player[g, 1 if moves[k] & WHITE_BIT else 0] += 1
                by_ply[min(k - first, by_ply.shape[0] - 1)] += 1


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The drawn positions of one source.

    Attributes:
        positions: Bytes of the moves before which a position was drawn, lowest bit first.
        by_player: [G, 2] int64, number of examples of Black's and White's moves of each game.
        by_ply: [T] int64, number of examples of each ply; the last one also counts all later plies.
    """

    source: CatalogueSource
    positions: Bytes
    by_player: Indices
    by_ply: Indices

    @classmethod
    def of(cls, source: CatalogueSource, positions: Bytes) -> _Drawn:
        """Count the drawn positions of a source."""
        games = source.games
        by_player, by_ply = np.zeros((len(source.ids), 2), np.int64), np.zeros(_LATEST + 1, np.int64)
        count_drawn(games.moves, games.move_offset, positions, by_player, by_ply)
        return cls(source, positions, by_player, by_ply)

    @property
    def examples(self) -> int:
        return int(self.by_ply.sum())

    @property
    def games(self) -> Indices:
        """The games with examples, ascending: [K] int64."""
        return np.flatnonzero(self.by_player.any(axis=1))

    def bands(self) -> Indices:
        """Return indices into BANDS of Black's and White's ranks, [G, 2]."""
        rows = self.source.rows
        return np.stack([rank_bands(rows[f"{side}_rating"], rows[f"{side}_pro"]) for side in ("black", "white")], 1)

    def results(self) -> Indices:
        """Return indices into _RESULTS for Black and for White, [G, 2]."""
        winner = self.source.rows["winner"]
        index = pc.index_in(winner, pa.array(WINNERS[:-1], winner.type)).fill_null(len(WINNERS) - 1)
        results: Indices = np.array([[0, 1], [1, 0], [2, 2], [3, 3]])[to_numpy(index)]
        return results

    def years(self) -> Indices:
        """Return the year of each game twice, or _NO_YEAR, [G, 2]."""
        return np.repeat(to_numpy(self.source.rows["year"].fill_null(_NO_YEAR)), 2).reshape(-1, 2)

    def move_index(self, games: Indices) -> tuple[Indices, Indices]:
        """Return the drawn positions of some games: for each the index in `games`, and the ply."""
        first = self.source.games.move_offset[games]
        sizes = self.source.games.move_offset[games + 1] - first
        game = np.repeat(np.arange(len(games)), sizes)
        ply = np.arange(len(game)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        at = first[game] + ply
        drawn = (self.positions[at >> 3] >> (at & 7).astype(np.uint8) & 1).astype(np.bool_)
        return game[drawn], ply[drawn]


def count_draws(source: LoaderSource, plan: EpochPlan, first: int, stop: int) -> Draws:
    """Count the examples first to stop - 1 of a process. Raises RecipeError if a source is a data set."""
    every = _drawn(source, plan, first, stop)
    by_player = [each.by_player for each in every]
    examples = sum(each.examples for each in every)
    black, white = np.sum([each.sum(axis=0) for each in by_player], axis=0).tolist()
    plies = np.add.reduceat(np.sum([each.by_ply for each in every], axis=0), range(0, _LATEST + 1, PLY_STEP))
    per_game = np.concatenate([each.by_player[each.games].sum(axis=1) for each in every])
    duplicate_games, duplicates = _count_duplicates(every)
    return Draws(
        epoch=plan.number,
        examples=examples,
        sources={
            name: SourceDraws(each.examples, each.examples / max(examples, 1), len(each.games), len(each.source.ids))
            for name, each in zip(source.names, every)
        },
        ranks=_named(BANDS, _by_class([each.bands() for each in every], by_player)),
        plies=_named(_PLIES, dict(enumerate(plies.tolist()))),
        years={
            UNKNOWN if year == _NO_YEAR else str(year): count
            for year, count in _by_class([each.years() for each in every], by_player).items()
        },
        colours={"black": black, "white": white},
        results=_named(_RESULTS, _by_class([each.results() for each in every], by_player)),
        games=len(per_game),
        per_game={name: float(figure(per_game)) if len(per_game) else 0.0 for name, figure in _FIGURES.items()},
        duplicate_games=duplicate_games,
        duplicates=duplicates,
    )


def _drawn(source: LoaderSource, plan: EpochPlan, first: int, stop: int) -> list[_Drawn]:
    parts = source.parts(plan.selection)
    sources = [part for part, _ in parts if isinstance(part, CatalogueSource)]
    if len(sources) < len(parts):
        raise RecipeError("draws can be counted for games only, not for data sets")
    marks = [np.zeros_like(selection.selected) for _, selection in parts]
    for chunk in plan.chunks(first, stop, sys.maxsize):
        units, begin = plan.block_units(chunk)
        size = chunk.last - chunk.first
        if chunk.stop - chunk.start == size:
            slot_of = np.zeros(size, np.int32)
        else:
            slot_of, _ = slots_of_entries(plan.order(chunk)[chunk.start : chunk.stop], size)
        for k, own_units, start, own_slots in source.split(plan.selection, units, int(begin[0]), slot_of):
            mark_drawn(own_units, start, own_slots, sources[k].games.move_offset, parts[k][1].selected, marks[k])
    return [_Drawn.of(each, mark) for each, mark in zip(sources, marks)]


def _by_class(classes: Sequence[Indices], by_player: Sequence[Indices]) -> dict[int, int]:
    """Return the number of examples of each class that has some, in ascending order.

    classes, by_player: [G, 2] of each source, the class and the number of Black's and of White's moves of each game.
    """
    values, index = np.unique(np.concatenate(classes), return_inverse=True)
    counts = np.zeros(len(values), np.int64)
    np.add.at(counts, index.ravel(), np.concatenate(by_player).ravel())
    return {value: count for value, count in zip(values.tolist(), counts.tolist()) if count}


def _named(names: Sequence[str], counts: dict[int, int]) -> Counts:
    return {names[k]: count for k, count in counts.items() if count}


def _count_duplicates(drawn: Sequence[_Drawn]) -> tuple[int, int]:
    """Return the number of duplicate games, and that of distinct positions drawn from more than one duplicate."""
    games = [each.games for each in drawn]
    canonical = [to_numpy(each.source.rows["canonical"])[mine] for each, mine in zip(drawn, games)]
    _, group, sizes = np.unique(np.concatenate(canonical), return_inverse=True, return_counts=True)
    keys, start = [], 0
    for each, mine in zip(drawn, games):
        own = group[start : start + len(mine)]
        shared = sizes[own] > 1
        game, ply = each.move_index(mine[shared])
        keys.append(own[shared][game] << 32 | ply)
        start += len(mine)
    positions = np.concatenate(keys)
    return len(group) - len(sizes), len(positions) - len(np.unique(positions))
