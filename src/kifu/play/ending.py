"""When a game is over, as far as the board alone can tell: eyes, settled regions, and which moves still matter.

Networks learn from moves of games, and few games are played out; most do not even know what a pass is. So a player
that follows one has to be told when to stop. Nothing here reads ahead: stones are not judged dead or alive.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kifu.go.board import EMPTY, Board
from kifu.go.state import WALL
from kifu.point import BLACK, WHITE

Mask = npt.NDArray[np.bool_]

_OWN_SHARE, _OTHER_SHARE = 1 / 2, 1 / 6
"""A region that touches only own stones, or only the opponent's, is still open if it is more of the board than that:
there is room for stones to live in it."""


def own_eyes(board: Board, colour: int) -> Mask:
    """[n] bool: the empty points where a stone of that player would fill a real eye of its own.

    All neighbours are own stones, and the opponent has no stone on its diagonals: at most one, off the edge.
    """
    stones = np.pad(board.stones, 1, constant_values=WALL)
    own, other, wall = (stones == c for c in (colour, BLACK + WHITE - colour, WALL))

    def around(of: Mask, by: list[tuple[int, int]]) -> npt.NDArray[np.int64]:
        """[h, w]: at how many of these steps from each point of the board."""
        count = np.zeros((board.height, board.width), np.int64)
        for dy, dx in by:
            count += of[1 + dy : 1 + dy + board.height, 1 + dx : 1 + dx + board.width]
        return count

    beside, across = [(-1, 0), (1, 0), (0, -1), (0, 1)], [(-1, -1), (-1, 1), (1, -1), (1, 1)]
    surrounded = around(own | wall, beside) == 4
    spoiled = around(other, across) > np.where(around(wall, beside) > 0, 0, 1)
    eyes: Mask = ((board.stones == EMPTY) & surrounded & ~spoiled).ravel()
    return eyes


def contested_points(board: Board, colour: int) -> Mask:
    """[n] bool: the empty points that a move of that player may still change something at.

    These are the ones of regions that touch stones of both players or of none, or that are large; and the last
    liberties of own chains.
    """
    n = board.pass_move
    found = np.zeros(n, np.bool_)
    for region, owners in board.empty_regions():
        share = 0.0 if len(owners) != 1 else _OWN_SHARE if colour in owners else _OTHER_SHARE
        found[region] = len(region) > share * n
    in_atari = np.pad((board.stones == colour) & (board.liberties == 1), 1)
    beside = in_atari[:-2, 1:-1] | in_atari[2:, 1:-1] | in_atari[1:-1, :-2] | in_atari[1:-1, 2:]
    found |= (beside & (board.stones == EMPTY)).ravel()
    return found
