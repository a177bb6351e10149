"""The seven planes of *Deep Learning and the Game of Go*, chapter 7, on boards of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.go.replay import set_up
from kifu.go.rules import OFF_BOARD, History, move, retakes
from kifu.go.state import BLACK, EMPTY, KO_POINT, WHITE, State, clear
from kifu.kernel import inline_kernel, kernel
from kifu.point import POINT_MASK, WHITE_BIT


@inline_kernel
def fill_planes(s: State, mover: Any, planes: Any) -> None:
    """Fills planes [7, n] uint8 with the position s as `mover` sees it."""
    n = s.near.shape[0]
    for k in range(7):
        for p in range(n):
            planes[k, p] = 0
    for p in range(n):
        c = s.colour[p]
        if c != EMPTY:
            liberties = s.n_liberties[s.head[p]]
            if liberties > 0:  # setup can leave stones without
                planes[min(liberties, 3) - 1 + (0 if c == mover else 3), p] = 1
    ko = s.numbers[KO_POINT]
    if ko >= 0 and retakes(s, ko, mover):
        planes[6, ko] = 1


@kernel
def game_planes(
    s: State,
    history: History,
    moves: npt.NDArray[np.uint16],
    setup: npt.NDArray[np.uint16],
    setup_ply: npt.NDArray[np.uint16],
    ko: int,
    suicide: int,
    planes: npt.NDArray[np.uint8],
    labels: npt.NDArray[np.int32],
) -> Any:
    """Fills planes [T, 7, n] and labels [T] for the T moves of one game that are no passes.

    Returns (0, len(moves)), or (why, ply) at the first move or setup stone that the rules do not allow.
    """
    clear(s)
    row = 0
    at = 0
    for ply in range(moves.shape[0]):
        if at < setup.shape[0] and setup_ply[at] <= ply:
            at = set_up(s, setup, setup_ply, at, setup.shape[0], ply)
            if at < 0:
                return OFF_BOARD, ply
        word = moves[ply]
        p = np.int64(word & POINT_MASK)
        c = np.uint8(WHITE if word & WHITE_BIT else BLACK)
        if p < s.near.shape[0]:
            fill_planes(s, c, planes[row])
            labels[row] = p
            row += 1
        why = move(s, history, p, c, ko, suicide)
        if why != 0:
            return why, ply
    return 0, moves.shape[0]
