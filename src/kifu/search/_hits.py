"""Patterns and hits as kernels take them, and the moves that follow a match."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.replay import GameMoves
from kifu.kernel import inline_kernel
from kifu.point import POINT_MASK

# Columns of MatchPlan.images
STONES, STONES_END, CELLS, EMPTY_CELLS, EMPTY_CELLS_END, CELLS_END, WIDTH, HEIGHT, PLACE = range(9)
ACCEPTS = 9  # to 11: whether the image may be continued by no stone, by Black, by White
MOVES = 12
N_IMAGE = 13

# Indices of MatchPlan.limits
N_POINTS, N_PLACES, N_MOVES, CONSECUTIVE, LAST_PLY, SCANS = range(6)

FORBIDS = 16
"""The lower 16 bits of `MatchPlan.touch` are images that need a stone, the upper ones images that forbid it."""


class MatchPlan(NamedTuple):
    """The images of a pattern on boards of one size.

    Attributes:
        images: [I, N_IMAGE] int64.
        words: [Q, 2] int64: the image and the index of each word of a window that is not 0.
        windows: [Q] uint64, these words: where the upper left cell may lie.
        stones: [S, 2] int64, the cells that must have a stone: 0 Black, 1 White or 2 either; and the distance of its
            point to that of the upper left cell.
        cells: [C, 2] int64, all cells but wildcards: distance and allowed contents. Those that must have a stone come
            first, then those that must be empty.
        moves: [J, 3] int64: column, row and colour of the moves of each image.
        touch: [2, SLOTS] uint32, the images that need a black or white stone on a point, and those that forbid it.
        x, y: [SLOTS] uint8, the column and the row of each point; 255 if it is off the board.
        limits: [6] int64: points of the board, places of all images, moves of the pattern, 1 if they are consecutive,
            the last ply at which the cells may match, 1 if `touch` is filled since each image has one place.
    """

    images: npt.NDArray[np.int64]
    words: npt.NDArray[np.int64]
    windows: npt.NDArray[np.uint64]
    stones: npt.NDArray[np.int64]
    cells: npt.NDArray[np.int64]
    moves: npt.NDArray[np.int64]
    touch: npt.NDArray[np.uint32]
    x: npt.NDArray[np.uint8]
    y: npt.NDArray[np.uint8]
    limits: npt.NDArray[np.int64]


class HitArrays(NamedTuple):
    """Room for hits.

    Attributes:
        game: [N] int64.
        key: [N] int64: ply << 32 | image << 16 | point of the upper left cell.
        next: [N] int64: ply << 32 | cell of the image << 2 | colour on the board of the continuation; -1 << 32 if
            none.
    """

    game: npt.NDArray[np.int64]
    key: npt.NDArray[np.int64]
    next: npt.NDArray[np.int64]


@inline_kernel
def _next_inside(plan: MatchPlan, game: GameMoves, plies: Any, m: Any, x: Any, y: Any, t: Any) -> Any:
    """Return the first move from number t on in the rectangle of image m at column x and row y, or `plies`."""
    width, height = plan.images[m, WIDTH], plan.images[m, HEIGHT]
    while t < plies:
        p = np.int64(game.moves[t]) & POINT_MASK
        dx, dy = np.int64(plan.x[p]) - x, np.int64(plan.y[p]) - y
        if 0 <= dx < width and 0 <= dy < height:
            break
        t += 1
    return t


@inline_kernel
def add_hit(  # noqa: PLR0913 - kernel
    plan: MatchPlan, plies: Any, game: GameMoves, g: Any, m: Any, place: Any, ply: Any, out: HitArrays, n: Any
) -> Any:
    """Add the hit of image m, whose cells match at `ply`, to `out` unless its moves do not follow.

    Returns the number of hits.
    """
    x, y = np.int64(plan.x[place]), np.int64(plan.y[place])
    consecutive = plan.limits[CONSECUTIVE]
    first = plan.images[m, MOVES]
    for k in range(first, first + plan.limits[N_MOVES]):
        t = _next_inside(plan, game, plies, m, x, y, ply)
        if t == plies or (consecutive and k > first and t > ply):
            return n
        word = np.int64(game.moves[t])
        p = word & POINT_MASK
        dx, dy = np.int64(plan.x[p]) - x, np.int64(plan.y[p]) - y
        if dx != plan.moves[k, 0] or dy != plan.moves[k, 1] or 1 + (word >> 15) != plan.moves[k, 2]:
            return n
        ply = t + 1
    t = _next_inside(plan, game, plies, m, x, y, ply)
    colour: Any = 0
    next_move: Any = np.int64(-1) << 32
    if t < plies and not (consecutive and t > ply):
        word = np.int64(game.moves[t])
        p = word & POINT_MASK
        colour = 1 + (word >> 15)
        cell = (np.int64(plan.y[p]) - y) * plan.images[m, WIDTH] + np.int64(plan.x[p]) - x
        next_move = t << 32 | cell << 2 | colour
    if plan.images[m, ACCEPTS + colour] == 0:
        return n
    out.game[n] = g
    out.key[n] = ply << 32 | m << 16 | place
    out.next[n] = next_move
    return n + 1


@inline_kernel
def sort_hits(out: HitArrays, first: Any, last: Any) -> None:
    """Sort hits `first` to `last` - 1 by key: a Shell sort."""
    gap = 1
    while 3 * gap + 1 < last - first:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(first + gap, last):
            key, move = out.key[i], out.next[i]
            j = i
            while j >= first + gap and out.key[j - gap] > key:
                out.key[j], out.next[j] = out.key[j - gap], out.next[j - gap]
                j -= gap
            out.key[j], out.next[j] = key, move
        gap //= 3
