"""Breakdowns of an evaluation: groups of positions by move number, rank, handicap, region, line and capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from kifu.corpus.schema import to_numpy
from kifu.corpus.stats import BANDS, rank_bands
from kifu.go.replay import captured_stones
from kifu.learn.positions import EvalPositions, Indices
from kifu.learn.scores import MoveScores, Score, score_groups
from kifu.point import WHITE_BIT

RANK_COLUMNS = ("black_rating", "white_rating", "black_pro", "white_pro")
"""Catalogue columns that the breakdowns need besides the games."""

_MOVE_STEP, _LATE_MOVE = 20, 300
_MAX_HANDICAP = 9


class Groups(NamedTuple):
    """A partition of N positions.

    Attributes:
        group: [N] index of the group of each position.
    """

    names: Sequence[str]
    group: Indices


def _by_move_number(positions: EvalPositions) -> Groups:
    last = _LATE_MOVE // _MOVE_STEP
    names = [f"{k * _MOVE_STEP + 1}-{(k + 1) * _MOVE_STEP}" for k in range(last)]
    return Groups([*names, f"{_LATE_MOVE + 1} and later"], np.minimum(positions.ply // _MOVE_STEP, last))


def _by_rank(positions: EvalPositions) -> Groups:
    rows = positions.rows
    bands = np.stack([rank_bands(rows[f"{side}_rating"], rows[f"{side}_pro"]) for side in ("black", "white")])
    return Groups(BANDS, bands[((positions.words & WHITE_BIT) != 0).astype(np.int64), positions.game])


def _by_handicap(positions: EvalPositions) -> Groups:
    handicap = to_numpy(pc.fill_null(positions.rows["handicap"], 0)).astype(np.int64)
    names = ["none", *map(str, range(1, _MAX_HANDICAP + 1)), f"{_MAX_HANDICAP + 1} or more"]
    return Groups(names, np.clip(handicap, 0, _MAX_HANDICAP + 1)[positions.game])


def _edge_lines(positions: EvalPositions) -> tuple[Indices, Indices]:
    """Return [N] the lines of the moves, counted from 1 at the nearest vertical and the nearest horizontal edge."""
    y, x = np.divmod(positions.move, positions.width)
    return np.minimum(x, positions.width - 1 - x) + 1, np.minimum(y, positions.height - 1 - y) + 1


def _region_depth(size: int) -> int:
    """Return the number of lines of corners and sides: 5 on 19 x 19, 4 on 13 x 13, 3 on 9 x 9."""
    return size // 4 + 1


def _by_region(positions: EvalPositions) -> Groups:
    x, y = _edge_lines(positions)
    near_edges = (x <= _region_depth(positions.width)).astype(np.int64) + (y <= _region_depth(positions.height))
    is_pass = positions.move == positions.points
    return Groups(("corner", "side", "centre", "pass"), np.where(is_pass, 3, 2 - near_edges))


def _by_line(positions: EvalPositions) -> Groups:
    lines = (min(positions.width, positions.height) + 1) // 2
    is_pass = positions.move == positions.points
    line = np.minimum(*_edge_lines(positions)) - 1
    return Groups([*map(str, range(1, lines + 1)), "pass"], np.where(is_pass, lines, line))


def _by_capture(positions: EvalPositions) -> Groups:
    captured = captured_stones(positions.games, np.unique(positions.game))[positions.move_index]
    return Groups(("none", "1", "2 or more"), np.minimum(captured, 2).astype(np.int64))


BREAKDOWNS: dict[str, tuple[str, Callable[[EvalPositions], Groups]]] = {
    "move": ("move number", _by_move_number),
    "rank": ("rank of the player", _by_rank),
    "handicap": ("handicap", _by_handicap),
    "region": ("region of the move", _by_region),
    "line": ("line of the move, from the nearest edge", _by_line),
    "capture": ("stones captured by the move", _by_capture),
}
"""Titles and grouping functions by name."""


def score_breakdowns(
    positions: EvalPositions, scores: Sequence[MoveScores], game: Indices, seed: int
) -> list[dict[str, dict[str, Score]]]:
    """Return, for each net, its scores by breakdown and group; arguments as for `score_groups`."""
    by: list[dict[str, dict[str, Score]]] = [{} for _ in scores]
    for name, (_, group_positions) in BREAKDOWNS.items():
        names, index = group_positions(positions)
        for moves, groups in zip(scores, by):
            groups[name] = score_groups(moves, game, index, names, seed)
    return by
