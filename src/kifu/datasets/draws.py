"""Reports of the positions that a loader draws: their sources, ranks, plies, years and duplicates.

They are counted in the plan of an epoch, without rendering planes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.schema import to_numpy
from kifu.corpus.stats import BANDS, UNKNOWN, WINNERS, rank_bands
from kifu.datasets.epoch_plan import BatchSlices, EpochPlan, slots_of_entries
from kifu.datasets.sources import CatalogueSource, LoaderSource
from kifu.errors import RecipeError
from kifu.kernel import kernel
from kifu.point import WHITE_BIT
from kifu.text import Report

Bits = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Counts = dict[str, int]

PLY_STEP = 20
_LATEST = 300  # all later plies form one class
_PLIES = (*(f"{low}-{low + PLY_STEP - 1}" for low in range(0, _LATEST, PLY_STEP)), f"{_LATEST}+")

_RESULTS = ("win", "loss", "draw", UNKNOWN)

_NO_YEAR = 2**15 - 1
"""Stands for an unknown year; the last one in order."""

_FIGURES: dict[str, Callable[[Numbers], Any]] = {"min": np.min, "median": np.median, "mean": np.mean, "max": np.max}


@dataclass(frozen=True, slots=True)
class SourceDraws(Report):
    """The examples drawn from one source.

    Attributes:
        repeated: Number of examples whose position was drawn before in the same epoch.
    """

    examples: int
    share: float
    games: int
    all_games: int
    repeated: int


@dataclass(frozen=True, slots=True)
class Draws(Report):
    """Counts of the examples that one process draws in an epoch; `Loader.draws` returns them.

    Attributes:
        examples: Number of examples. The counts by source, rank, ply, year, colour and result add up to it.
        sources: By source; a loader that is not a mixture has one, "games".
        ranks: By rank of the side to move, in the classes of `kifu stats`.
        plies: By ply, in classes of 20.
        results: By result for the side to move: win, loss, draw or unknown.
        games: Number of games that the examples come from.
        per_game: Minimum, median, mean and maximum number of examples of these games.
        repeated: Examples whose position, a ply of a game of a source, was drawn before in the epoch.
        duplicate_games: Games with the moves of another one of `games`, one of each group not counted.
        duplicates: Examples that are not repeated, but whose position was also drawn from a duplicate of their game;
            one of each group not counted.
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
    repeated: int
    duplicate_games: int
    duplicates: int


@kernel
def mark_drawn(units: Any, first: Any, slot_of: Any, move_offset: Any, selected: Any, drawn: Any) -> None:
    """Mark the positions of consecutive games of a block that have a slot; see `kifu.datasets.sources.fill_slots`.

    Args:
        drawn: Bits like `selected`, lowest bit first; receives those of positions with a slot.
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
        positions: Bits of the moves before which a position was drawn, lowest bit first.
        by_player: [G, 2] int64, number of examples of Black's and White's moves of each game.
        by_ply: [T] int64, number of examples of each ply; the last one also counts all later plies.
    """

    source: CatalogueSource
    positions: Bits
    by_player: Numbers
    by_ply: Numbers

    @classmethod
    def of_cycles(cls, source: CatalogueSource, cycles: Sequence[Bits]) -> _Drawn:
        """Count the positions drawn in each cycle of a source."""
        games = source.games
        by_player, by_ply = np.zeros((len(source.ids), 2), np.int64), np.zeros(_LATEST + 1, np.int64)
        for positions in cycles:
            count_drawn(games.moves, games.move_offset, positions, by_player, by_ply)
        return cls(source, np.bitwise_or.reduce(cycles), by_player, by_ply)

    @property
    def examples(self) -> int:
        return int(self.by_ply.sum())

    @property
    def repeated(self) -> int:
        """The number of examples beyond the first one of each position."""
        return self.examples - int(np.bitwise_count(self.positions).sum(dtype=np.int64))

    @property
    def games(self) -> Numbers:
        """The games with examples, ascending: [K] int64."""
        return np.flatnonzero(self.by_player.any(axis=1))

    def bands(self) -> Numbers:
        """Return indices into BANDS of Black's and White's ranks, [G, 2]."""
        rows = self.source.rows
        return np.stack([rank_bands(rows[f"{side}_rating"], rows[f"{side}_pro"]) for side in ("black", "white")], 1)

    def results(self) -> Numbers:
        """Return indices into _RESULTS for Black and for White, [G, 2]."""
        winner = self.source.rows["winner"]
        index = pc.index_in(winner, pa.array(WINNERS[:-1], winner.type)).fill_null(len(WINNERS) - 1)
        results: Numbers = np.array([[0, 1], [1, 0], [2, 2], [3, 3]])[to_numpy(index)]
        return results

    def years(self) -> Numbers:
        """Return the year of each game twice, or _NO_YEAR, [G, 2]."""
        return np.repeat(to_numpy(self.source.rows["year"].fill_null(_NO_YEAR)), 2).reshape(-1, 2)

    def move_index(self, games: Numbers) -> tuple[Numbers, Numbers]:
        """Return the drawn positions of some games: for each the index in `games`, and the ply."""
        first = self.source.games.move_offset[games]
        sizes = self.source.games.move_offset[games + 1] - first
        game = np.repeat(np.arange(len(games)), sizes)
        ply = np.arange(len(game)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        at = first[game] + ply
        drawn = (self.positions[at >> 3] >> (at & 7).astype(np.uint8) & 1).astype(np.bool_)
        return game[drawn], ply[drawn]


def count_draws(source: LoaderSource, plan: EpochPlan, batches: BatchSlices) -> Draws:
    """Count the examples of some batches of an epoch. Raises RecipeError if a source is a data set."""
    drawn = _drawn(source, plan, batches)
    every, by_player = list(drawn.values()), [each.by_player for each in drawn.values()]
    examples = sum(each.examples for each in every)
    black, white = np.sum([each.sum(axis=0) for each in by_player], axis=0).tolist()
    plies = np.add.reduceat(np.sum([each.by_ply for each in every], axis=0), range(0, _LATEST + 1, PLY_STEP))
    per_game = np.concatenate([each.by_player[each.games].sum(axis=1) for each in every])
    duplicate_games, duplicates = _count_duplicates(every)
    return Draws(
        epoch=plan.number,
        examples=examples,
        sources={source.names[k]: _source_draws(each, examples) for k, each in drawn.items()},
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
        repeated=sum(each.repeated for each in every),
        duplicate_games=duplicate_games,
        duplicates=duplicates,
    )


def _source_draws(drawn: _Drawn, examples: int) -> SourceDraws:
    count = drawn.examples
    return SourceDraws(count, count / max(examples, 1), len(drawn.games), len(drawn.source.ids), drawn.repeated)


def _drawn(source: LoaderSource, plan: EpochPlan, batches: BatchSlices) -> dict[int, _Drawn]:
    """Return the drawn positions by index of the source."""
    parts = source.parts(plan.selection)
    sources = {part.number: part.source for part in parts if isinstance(part.source, CatalogueSource)}
    if len(sources) < len(source.names):
        raise RecipeError("draws can be counted for games only, not for data sets")
    marks = [np.zeros_like(part.selection.selected) for part in parts]
    for chunk in plan.chunks(batches, sys.maxsize):
        units, first = plan.block_units(chunk.block)
        size = chunk.block.last - chunk.block.first
        if chunk.stop - chunk.start == size:
            slot_of = np.zeros(size, np.int32)
        else:
            slot_of, _ = slots_of_entries(plan.order(chunk.block)[chunk.entries()], size)
        for k, own_units, start, own_slots in source.split(plan.selection, units, int(first[0]), slot_of):
            offset, selected = sources[parts[k].number].games.move_offset, parts[k].selection.selected
            mark_drawn(own_units, start, own_slots, offset, selected, marks[k])
    cycles: dict[int, list[Bits]] = {}
    for part, mark in zip(parts, marks):
        cycles.setdefault(part.number, []).append(mark)
    return {k: _Drawn.of_cycles(sources[k], each) for k, each in cycles.items()}


def _by_class(classes: Sequence[Numbers], by_player: Sequence[Numbers]) -> dict[int, int]:
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
