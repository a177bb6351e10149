"""Which moves of a game KataGo's rows are made of, as far as its passes and colours tell."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.kernel import kernel
from kifu.point import POINT_MASK, WHITE_BIT
from kifu.records.games import GameArrays

NEVER = np.iinfo(np.int32).max


class Firsts(NamedTuple):
    """What can be told of G games by passes and colours alone.

    first: [G] int32, the first ply that may get a row.  again: [G] int32, the first at which a player moves twice in a
    row where that is not allowed, else NEVER.  early_pass: [G], whether there is a pass where none is allowed.
    """

    first: npt.NDArray[np.int32]
    again: npt.NDArray[np.int32]
    early_pass: npt.NDArray[np.bool_]


def find_firsts(games: GameArrays, early_passes: bool, begin: bool, alternating: bool) -> Firsts:
    """early_passes: whether they matter.  begin: whether moves of Black's in a row, at first, are a handicap.

    How far either is looked for is KataGo's. alternating: whether other moves in a row are not allowed.
    """
    n = len(games)
    found = Firsts(np.zeros(n, np.int32), np.full(n, NEVER, np.int32), np.zeros(n, np.bool_))
    _scan_beginnings(games.moves, games.move_offset, games.width, games.height, early_passes, begin, alternating, found)
    return found


@kernel
def _scan_beginnings(
    moves: Any, move_offset: Any, width: Any, height: Any, passes: Any, begin: Any, alternating: Any, found: Firsts
) -> None:
    """See `find_firsts`."""
    for g in range(width.shape[0]):
        points = np.int64(width[g]) * np.int64(height[g])
        start, plies = move_offset[g], move_offset[g + 1] - move_offset[g]
        for t in range(min(plies, 14 + points // 10) if passes else 0):
            if (moves[start + t] & POINT_MASK) == points:
                if t < 12 + points // 20:
                    found.first[g] = t + 2
                else:
                    found.early_pass[g] = True
        for t in range(1, plies):
            if (moves[start + t] ^ moves[start + t - 1]) & WHITE_BIT != 0:
                continue
            at_first = t < 6 + points // 40 and moves[start + t] & WHITE_BIT == 0
            if at_first and begin:
                found.first[g] = max(found.first[g], t)
            elif at_first or alternating:
                found.again[g] = min(found.again[g], t)


def choose_plies(
    games: GameArrays, rows: npt.NDArray[np.int64], first: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """All moves of these games from `first` on, but for passes and answers to passes.

    Returns take [M], for all moves of the games the slot of the position before it, or -1; and game, an index of rows,
    and ply of the slots.
    """
    moves = int(np.diff(games.move_offset)[rows].sum())
    take, game, ply = np.empty(moves, np.int64), np.empty(moves, np.int64), np.empty(moves, np.int32)
    n = _choose_plies(games.moves, games.move_offset, games.width, games.height, rows, first, take, game, ply)
    return take, game[:n], ply[:n]


@kernel
def _choose_plies(
    moves: Any, move_offset: Any, width: Any, height: Any, rows: Any, first: Any, take: Any, game: Any, ply: Any
) -> Any:
    chosen = 0
    at = 0
    for r in range(rows.shape[0]):
        g = rows[r]
        points = np.int64(width[g]) * np.int64(height[g])
        after_pass = False
        for t in range(move_offset[g + 1] - move_offset[g]):
            is_pass = (moves[move_offset[g] + t] & POINT_MASK) == points
            take[at] = -1
            if t >= first[r]:
                if not is_pass and not after_pass:
                    take[at] = chosen
                    game[chosen] = r
                    ply[chosen] = t
                    chosen += 1
                after_pass = is_pass
            at += 1
    return chosen


def find_end_plies(
    games: GameArrays, rows: npt.NDArray[np.int64], first: npt.NDArray[np.int32], ply: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    """[R] as ply, how many moves of these games were played, without passes at the end that come after `first`."""
    stop = np.empty(len(rows), np.int32)
    points = games.width[rows].astype(np.int64) * games.height[rows]
    _take_off_passes(games.moves, games.move_offset, rows, points, first, ply, stop)
    return stop


@kernel
def _take_off_passes(moves: Any, move_offset: Any, rows: Any, points: Any, first: Any, ply: Any, stop: Any) -> None:
    """See `find_stops`."""
    for r in range(rows.shape[0]):
        t = ply[r]
        while t > first[r] and (moves[move_offset[rows[r]] + t - 1] & POINT_MASK) == points[r]:
            t -= 1
        stop[r] = t
