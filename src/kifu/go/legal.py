"""Which moves are legal in given positions of many games."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason, IllegalMove
from kifu.go.replay import GamesLike, set_up
from kifu.go.rules import (
    KO_POSITIONAL,
    OFF_BOARD,
    RECORD_RULES,
    History,
    Rules,
    clear_history,
    legal_mask,
    make_move,
    new_history,
)
from kifu.go.state import State, clear, new_state
from kifu.kernel import kernel
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT


@kernel
def _fill(
    s: State, history: History, moves: Any, move_offset: Any, setup: Any, setup_ply: Any, setup_offset: Any, rows: Any,
    take: Any, take_offset: Any, ko: Any, suicide: Any, out: Any, drop: Any, ply: Any,
) -> None:  # fmt: skip
    """Replays the games `rows`, all of the size of s, and fills out, and by row drop and ply: see `legal_moves`."""
    for i in range(rows.shape[0]):
        g = rows[i]
        at, stop = setup_offset[g], setup_offset[g + 1]
        clear(s)
        clear_history(history)
        why = 0
        t = 0
        while why == 0 and t < move_offset[g + 1] - move_offset[g]:
            if at < stop and setup_ply[at] <= t:
                at = set_up(s, setup, setup_ply, at, stop, t)
                if at < 0:
                    why = OFF_BOARD
                    break
                clear_history(history)
            word = moves[move_offset[g] + t]
            c: Any = np.uint8(WHITE if word & WHITE_BIT else BLACK)
            slot = take[take_offset[i] + t]
            if slot >= 0:
                legal_mask(s, history, c, ko, suicide, out[slot])
            why = make_move(s, history, np.int64(word & POINT_MASK), c, ko, suicide)
            if why == 0:
                t += 1
        drop[i] = why
        ply[i] = t


def legal_moves(
    games: GamesLike,
    rows: npt.NDArray[np.int64],
    take: npt.NDArray[np.int64],
    out: npt.NDArray[np.bool_],
    rules: Rules = RECORD_RULES,
) -> None:
    """Fills out: [slots, points + 1] bool, which moves are legal before given moves of some games; a pass, the last
    one, always is.

    rows: [R] int64, the games, all of one size, with `points` points, which is not checked.
    take: int64, for each move of the first of these games, then of the second, ...: the slot that the position before
    it goes to, or -1. The colour of that move says who is to move.
    Raises IllegalMove if one of these games is not possible up to there under the rules, that move included.
    """
    if len(rows) == 0:
        return
    take_offset = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(games.move_offset[rows + 1] - games.move_offset[rows], out=take_offset[1:])
    plies = np.diff(take_offset)
    drop, ply = np.zeros(len(rows), np.uint8), np.zeros(len(rows), np.int32)
    _fill(
        new_state(int(games.width[rows[0]]), int(games.height[rows[0]])),
        new_history(int(plies.max()) if rules.codes[0] >= KO_POSITIONAL else 0),
        games.moves, games.move_offset, games.setup, games.setup_ply, games.setup_offset, rows, take, take_offset,
        *rules.codes, out, drop, ply,
    )  # fmt: skip
    check_playable(games, rows, take, drop, ply)


def check_playable(
    games: GamesLike, rows: npt.NDArray[np.int64], take: npt.NDArray[np.int64], drop: npt.NDArray[np.uint8],
    ply: npt.NDArray[np.int32],
) -> None:  # fmt: skip
    """Raises IllegalMove if a position is taken before a move that cannot be played, or after it.

    rows, take: see `legal_moves`. drop, ply: [R], what a replay of these games returns, `Encoder.encode` say.
    """
    ends = np.cumsum(games.move_offset[rows + 1] - games.move_offset[rows])
    for i in np.flatnonzero(drop).tolist():
        at = int(ply[i])
        first = games.move_offset[rows[i]]
        start = ends[i] - (games.move_offset[rows[i] + 1] - first)
        if take[start + at : ends[i]].max(initial=-1) >= 0:
            raise IllegalMove(at, int(games.moves[first + at] & POINT_MASK), DropReason(drop[i]))
