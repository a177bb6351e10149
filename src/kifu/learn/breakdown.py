"""By what positions are told apart when a net is examined: move number, rank, handicap, place of the move, capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.schema import to_numpy
from kifu.corpus.stats import BANDS, rank_bands
from kifu.go.replay import captured_stones
from kifu.point import POINT_MASK, WHITE_BIT
from kifu.records.games import GameArrays

RANK_COLUMNS = ("black_rating", "white_rating", "black_pro", "white_pro")
"""What groups need of the catalogue, beside the games themselves."""

_STEP, _LATE = 20, 300
_HANDICAP = 9

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EvalPositions:
    """N positions of games on one board, in the games' order, each before a move that was played.

    rows: [G] of the catalogue, with RANK_COLUMNS at least; games: the same rows.  at: [N] int64, rising, which of
    games.moves are to be guessed; row: [N] int64, of which game they are.
    """

    rows: pa.RecordBatch
    games: GameArrays
    width: int
    height: int
    at: Places
    row: Places

    def __len__(self) -> int:
        return len(self.at)

    def part(self, first: int, last: int) -> EvalPositions:
        """Positions first to last - 1."""
        return replace(self, at=self.at[first:last], row=self.row[first:last])

    @property
    def ply(self) -> Places:
        """[N] how many moves come before."""
        ply: Places = self.at - self.games.move_offset[self.row]
        return ply

    @property
    def words(self) -> npt.NDArray[np.uint16]:
        """[N] the move, with its colour."""
        words: npt.NDArray[np.uint16] = self.games.moves[self.at]
        return words

    @property
    def move(self) -> Places:
        """[N] the move; a pass is width * height."""
        return (self.words & POINT_MASK).astype(np.int64)


class Groups(NamedTuple):
    """names of groups, and for each of N positions the place of its group in them."""

    names: Sequence[str]
    place: Places


def _by_move_number(asked: EvalPositions) -> Groups:
    last = _LATE // _STEP
    names = [f"{k * _STEP + 1}-{(k + 1) * _STEP}" for k in range(last)]
    return Groups([*names, f"{_LATE + 1} and later"], np.minimum(asked.ply // _STEP, last))


def _by_rank(asked: EvalPositions) -> Groups:
    rows = asked.rows
    bands = np.stack([rank_bands(rows[f"{side}_rating"], rows[f"{side}_pro"]) for side in ("black", "white")])
    return Groups(BANDS, bands[((asked.words & WHITE_BIT) != 0).astype(np.int64), asked.row])


def _by_handicap(asked: EvalPositions) -> Groups:
    told = to_numpy(pc.fill_null(asked.rows["handicap"], 0)).astype(np.int64)
    names = ["none", *map(str, range(1, _HANDICAP + 1)), f"{_HANDICAP + 1} or more"]
    return Groups(names, np.clip(told, 0, _HANDICAP + 1)[asked.row])


def _lines(asked: EvalPositions) -> tuple[Places, Places]:
    """[N] on which line from the nearest vertical and from the nearest horizontal edge the move is, from 1 on."""
    y, x = np.divmod(asked.move, asked.width)
    return np.minimum(x, asked.width - 1 - x) + 1, np.minimum(y, asked.height - 1 - y) + 1


def near(size: int) -> int:
    """How many lines from its edge a board's corners and sides reach: 5 on 19 x 19, 4 on 13 x 13, 3 on 9 x 9."""
    return size // 4 + 1


def _by_region(asked: EvalPositions) -> Groups:
    x, y = _lines(asked)
    close = (x <= near(asked.width)).astype(np.int64) + (y <= near(asked.height))
    is_pass = asked.move == asked.width * asked.height
    return Groups(("corner", "side", "centre", "pass"), np.where(is_pass, 3, 2 - close))


def _by_line(asked: EvalPositions) -> Groups:
    lines = (min(asked.width, asked.height) + 1) // 2
    is_pass = asked.move == asked.width * asked.height
    line = np.minimum(*_lines(asked)) - 1
    return Groups([*map(str, range(1, lines + 1)), "pass"], np.where(is_pass, lines, line))


def _by_capture(asked: EvalPositions) -> Groups:
    taken = captured_stones(asked.games, np.unique(asked.row))[asked.at]
    return Groups(("none", "1", "2 or more"), np.minimum(taken, 2).astype(np.int64))


BREAKDOWNS: dict[str, tuple[str, Callable[[EvalPositions], Groups]]] = {
    "move": ("move number", _by_move_number),
    "rank": ("rank of the mover", _by_rank),
    "handicap": ("handicap", _by_handicap),
    "region": ("region of the move", _by_region),
    "line": ("line of the move, from the nearest edge", _by_line),
    "capture": ("stones taken by the move", _by_capture),
}
"""By name: a title, and the groups."""
