"""The input of features: the position before a move, its history, and the frame that planes are drawn in.

Planes are drawn in a frame that may be larger than the game's board: to embed smaller boards in larger ones, and for
plane sets that are defined on a padded board. The compiled board then has a point for each point of the frame; those
outside the game's board have no neighbours and no stones, so the bit sets of the board are planes of the frame.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.arrays import Bools, Floats, Hashes, Indices, Ints
from kifu.go.ladder import LadderSearch, new_ladder_search
from kifu.go.state import EMPTY, State, bit, neighbour_table, new_state
from kifu.kernel import inline_kernel

PAST = 8
"""The number of positions in `PositionContext.past`: this one and the seven before it."""

NEVER = -1_000_000
"""`PositionContext.played` of stones that were set up."""

# Indices of PositionContext.geometry
FRAME_WIDTH, LEFT, TOP, WIDTH, HEIGHT = range(5)


class MoveEffects(NamedTuple):
    """The effect of each legal move of the mover, filled by `kifu.planes.move_effects.compute_move_effects`."""

    # [W]: bit set of empty points where a stone is neither suicide nor forbidden by simple ko
    legal: Hashes
    captured: npt.NDArray[np.int16]  # [n]: how many stones each legal move captures
    stones: npt.NDArray[np.int16]  # [n]: how many stones its own chain then has
    liberties: npt.NDArray[np.int16]  # [n]: how many liberties that chain then has
    union: Hashes  # [W]: scratch


class PositionContext(NamedTuple):
    """A position before a move. Its frame has n points; a bit set has W words."""

    s: State  # the board, see `kifu.go.state.State`
    mover: Any  # uint8, BLACK or WHITE
    ply: Any  # int64, how many moves come before
    # [>= ply]: the game's moves in points of the frame, otherwise as in `kifu.records.games.GameArrays`; a pass is n
    moves: npt.NDArray[np.uint16]
    board: Hashes  # [W]: bit set of the points of the game's board
    edge: Hashes  # [W]: bit set of the other points of the frame
    # [2, W]: bit sets of black and white stones. Unlike `s.stones_by_liberties` they include stones without liberties,
    # which setup may leave.
    stones: Hashes
    # [PAST, 2, W]: `stones` before move t at past[t & 7], for the last 8 positions up to this one
    past: Hashes
    played: Ints  # [n]: the ply at which each stone was played, or NEVER; undefined for empty points
    rating: Floats  # [2]: ranks of Black and White (`kifu.Rank.rating`); 0 or NaN if unknown
    geometry: Indices  # [5]: width of the frame; left, top, width and height of the board in it
    effects: MoveEffects
    ladders: LadderSearch
    # [2, W]: bit sets of the moves that capture in a ladder and that escape from one; filled by
    # `kifu.planes.move_effects.find_ladder_moves`
    ladder_moves: Hashes
    distance: Ints  # [3, n]: scratch


def frame_points(width: int, height: int, frame_width: int, frame_height: int, padding: int) -> Indices:
    """Return [width * height + 1] int64: the points of a frame that the points of a board are mapped to.

    The board lies `padding` from the upper left corner of the frame. The last entry is the wall, or a pass among moves.
    """
    y, x = np.divmod(np.arange(width * height), width)
    return np.append((y + padding) * frame_width + x + padding, frame_width * frame_height)


def new_context(width: int, height: int, frame_width: int, frame_height: int, padding: int) -> PositionContext:
    """Return the context for boards of width x height in a frame, with its moves, mover, ply and rating still unset.

    Raises GameError if a side of the frame is not in 1..25.
    """
    s = new_state(frame_width, frame_height)
    n, words = frame_width * frame_height, len(s.words)
    points = frame_points(width, height, frame_width, frame_height, padding)
    neighbours = np.full((n, 4), n, np.uint16)
    neighbours[points[:-1]] = points[neighbour_table(width, height)]
    neighbours.setflags(write=False)  # like that of an unframed board, so that kernels see one type
    inside = np.zeros(words * 64, np.bool_)
    inside[points[:-1]] = True
    outside = ~inside
    outside[n:] = False
    effects = MoveEffects(
        legal=np.zeros(words, np.uint64),
        captured=np.zeros(n, np.int16),
        stones=np.zeros(n, np.int16),
        liberties=np.zeros(n, np.int16),
        union=np.zeros(words, np.uint64),
    )
    past = np.zeros((PAST, 2, words), np.uint64)
    return PositionContext(
        s=s._replace(neighbours=neighbours),
        mover=np.uint8(0),
        ply=0,
        moves=np.empty(0, np.uint16),
        board=_bit_set(inside),
        edge=_bit_set(outside),
        stones=past[0],
        past=past,
        played=np.full(n, NEVER, np.int32),
        rating=np.zeros(2, np.float32),
        geometry=np.array([frame_width, padding, padding, width, height]),
        effects=effects,
        ladders=new_ladder_search(frame_width, frame_height),
        ladder_moves=np.zeros((2, words), np.uint64),
        distance=np.zeros((3, n), np.int32),
    )


def _bit_set(mask: Bools) -> Hashes:
    return np.packbits(mask).view(">u8").astype(np.uint64)


@inline_kernel
def context_at(base: PositionContext, mover: Any, ply: Any, moves: Any, rating: Any) -> Any:
    """Return the context with another mover, ply, moves and rating."""
    return PositionContext(
        base.s, mover, ply, moves, base.board, base.edge, base.past[ply & (PAST - 1)], base.past, base.played, rating,
        base.geometry, base.effects, base.ladders, base.ladder_moves, base.distance,
    )  # fmt: skip


@inline_kernel
def copy_stones(s: State, any_without_liberties: Any, stones: Any) -> None:
    """Fill the bit sets stones [2, W] with the black and the white stones."""
    for c in range(2):
        for i in range(len(s.words)):
            stones[c, i] = (
                s.stones_by_liberties[c, 0, i] | s.stones_by_liberties[c, 1, i] | s.stones_by_liberties[c, 2, i]
            )
    if any_without_liberties:
        for p in range(s.neighbours.shape[0]):
            if s.colour[p] != EMPTY:
                stones[s.colour[p] - 1, p >> 6] |= bit(p)


@inline_kernel
def own(position: PositionContext) -> Any:
    """Return the mover's index in arrays by colour: 0 for Black."""
    return np.int64(position.mover) - 1


@inline_kernel
def opp(position: PositionContext) -> Any:
    """Return the opponent's index in arrays by colour."""
    return 2 - np.int64(position.mover)
