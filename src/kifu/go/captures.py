"""How many stones the moves of many games take off the board."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.go.replay import GamesLike, set_up
from kifu.go.rules import RECORD_RULES, History, clear_history, make_move, new_history
from kifu.go.state import LAST_CAPTURED, State, clear, new_state
from kifu.kernel import kernel
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT


@kernel
def _count(
    s: State, history: History, rows: Any, moves: Any, move_offset: Any, setup: Any, setup_ply: Any, setup_offset: Any,
    ko: Any, suicide: Any, out: Any,
) -> None:  # fmt: skip
    """Replays the games `rows`, all of the size of s, and fills out where their moves are: see `captured_stones`."""
    for i in range(rows.shape[0]):
        g = rows[i]
        at, stop = setup_offset[g], setup_offset[g + 1]
        clear(s)
        for t in range(move_offset[g], move_offset[g + 1]):
            if at < stop and setup_ply[at] <= t - move_offset[g]:
                at = set_up(s, setup, setup_ply, at, stop, t - move_offset[g])
                if at < 0:
                    break
                clear_history(history)
            p = np.int64(moves[t] & POINT_MASK)
            c: Any = np.uint8(WHITE if moves[t] & WHITE_BIT else BLACK)
            if make_move(s, history, p, c, ko, suicide) != 0:
                break
            if p < s.neighbours.shape[0]:
                out[t] = s.scalars[LAST_CAPTURED]


def captured_stones(games: GamesLike, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint16]:
    """[M] uint16: for each move of all games, how many stones of the opponent it takes off; 0 in games not asked for.

    rows: [R] int64, the games, all of one size, which is not checked. They are replayed under `RECORD_RULES`; from a move
    on that cannot be played all is 0.
    """
    out = np.zeros(len(games.moves), np.uint16)
    if len(rows):
        size = int(games.width[rows[0]]), int(games.height[rows[0]])
        _count(
            new_state(*size), new_history(0), rows, games.moves, games.move_offset, games.setup, games.setup_ply,
            games.setup_offset, *RECORD_RULES.codes, out,
        )  # fmt: skip
    return out
