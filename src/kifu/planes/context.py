"""What a feature sees: the position before a move, how it came about, and the frame that planes are drawn in.

Planes are drawn in a frame, which may be larger than the game's board: for smaller boards laid into larger ones, and
for sets that are defined on a padded board. The compiled board then has a point for each point of the frame, those
outside the game's board having no neighbours and no stones, so that its bit sets are planes of the frame as they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.ladder import LadderSearch, new_ladder_search
from kifu.go.state import EMPTY, ONE, State, bit, neighbour_table, new_state, popcount
from kifu.kernel import inline_kernel

PAST = 8
"""How many positions `PositionContext.past` holds: this one and the seven before it."""

NEVER = -1_000_000
"""`PositionContext.played` of a stone that no move put there, but setup."""

# Indices of View.place
FRAME_WIDTH, LEFT, TOP, WIDTH, HEIGHT = range(5)


class MoveEffects(NamedTuple):
    """What each legal move of the mover would do; filled by `kifu.planes.move_effects.try_moves` for features that use it.

    legal: [W] uint64 bit set: points that are empty, no suicide, and not forbidden by simple ko.
    By point, for legal ones: captured [n] int16, the stones it takes; stones [n] int16, those of its own chain then;
    liberties [n] int16, of that chain.  union: [W] uint64, scratch.
    """

    legal: npt.NDArray[np.uint64]
    captured: npt.NDArray[np.int16]
    stones: npt.NDArray[np.int16]
    liberties: npt.NDArray[np.int16]
    union: npt.NDArray[np.uint64]


class PositionContext(NamedTuple):
    """A position before a move, for features to read. Its frame has n points; W words make a bit set.

    s: the board (see `kifu.go.state.State`).  mover: uint8, BLACK or WHITE.  ply: int64, how many moves came before.
    moves: [>= ply] uint16, the game's moves as in `kifu.records.games.GameArrays`, in points of the frame; a pass is n.
    board: [W] uint64 bit set: the points that the game's board has.  edge: [W], those of the frame that it has not.
    stones: [2, W] uint64: black and white stones. Unlike `s.stones_by_liberties` they hold those without liberties too, which setup
        may leave.  past: [PAST, 2, W]: these before move t at past[t & 7], for t from ply - 7, but not below 0, to ply.
    played: [n] int32: the ply of the move that put each stone there, or NEVER; undefined where no stone is.
    rating: [2] float32: ranks of Black and White (`kifu.records.meta.Rank.rating`), 0 or NaN if not known.
    place: [5] int64: width of the frame; left, top, width and height of the board in it.
    tried: see `MoveEffects`.
    ladders: what is known of them; found: [2, W] uint64, bit sets of the moves that capture in a ladder and that escape
        from one, filled by `kifu.planes.move_effects.read_ladders` for features that use it.
    distance: [3, n] int32, scratch.
    """

    s: State
    mover: Any
    ply: Any
    moves: npt.NDArray[np.uint16]
    board: npt.NDArray[np.uint64]
    edge: npt.NDArray[np.uint64]
    stones: npt.NDArray[np.uint64]
    past: npt.NDArray[np.uint64]
    played: npt.NDArray[np.int32]
    rating: npt.NDArray[np.float32]
    place: npt.NDArray[np.int64]
    tried: MoveEffects
    ladders: LadderSearch
    found: npt.NDArray[np.uint64]
    distance: npt.NDArray[np.int32]


def frame_points(width: int, height: int, frame_width: int, frame_height: int, rim: int) -> npt.NDArray[np.int64]:
    """[width * height + 1] int64: where each point of a board laid into a frame, `rim` from its upper left corner, is.

    The last one is the wall, which is a pass among moves.
    """
    y, x = np.divmod(np.arange(width * height), width)
    return np.append((y + rim) * frame_width + x + rim, frame_width * frame_height)


def new_context(width: int, height: int, frame_width: int, frame_height: int, rim: int) -> PositionContext:
    """A view for games of that size in a frame of that size; `moves` and the numbers are for the driver to replace.

    Raises GameError for a frame that is not within 1 to 25.
    """
    s = new_state(frame_width, frame_height)
    n, words = frame_width * frame_height, len(s.words)
    points = frame_points(width, height, frame_width, frame_height, rim)
    near = np.full((n, 4), n, np.uint16)
    near[points[:-1]] = points[neighbour_table(width, height)]
    near.setflags(write=False)  # as that of an unframed board, so that kernels see one type
    inside = np.zeros(words * 64, np.bool_)
    inside[points[:-1]] = True
    outside = ~inside
    outside[n:] = False
    tried = MoveEffects(
        legal=np.zeros(words, np.uint64),
        captured=np.zeros(n, np.int16),
        stones=np.zeros(n, np.int16),
        liberties=np.zeros(n, np.int16),
        union=np.zeros(words, np.uint64),
    )
    past = np.zeros((PAST, 2, words), np.uint64)
    return PositionContext(
        s=s._replace(neighbours=near),
        mover=np.uint8(0),
        ply=0,
        moves=np.empty(0, np.uint16),
        board=_bit_set(inside),
        edge=_bit_set(outside),
        stones=past[0],
        past=past,
        played=np.full(n, NEVER, np.int32),
        rating=np.zeros(2, np.float32),
        place=np.array([frame_width, rim, rim, width, height]),
        tried=tried,
        ladders=new_ladder_search(frame_width, frame_height),
        found=np.zeros((2, words), np.uint64),
        distance=np.zeros((3, n), np.int32),
    )


def _bit_set(marks: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
    return np.packbits(marks).view(">u8").astype(np.uint64)


@inline_kernel
def context_at(room: PositionContext, mover: Any, ply: Any, moves: Any, rating: Any) -> Any:
    """The same view at another ply."""
    return PositionContext(
        room.s, mover, ply, moves, room.board, room.edge, room.past[ply & (PAST - 1)], room.past, room.played, rating,
        room.place, room.tried, room.ladders, room.found, room.distance,
    )  # fmt: skip


@inline_kernel
def copy_stones(s: State, breathless: Any, stones: Any) -> None:
    """Fills stones [2, W] with the black and the white stones. breathless: whether some have no liberty."""
    for c in range(2):
        for i in range(len(s.words)):
            stones[c, i] = (
                s.stones_by_liberties[c, 0, i] | s.stones_by_liberties[c, 1, i] | s.stones_by_liberties[c, 2, i]
            )
    if breathless:
        for p in range(s.neighbours.shape[0]):
            if s.colour[p] != EMPTY:
                stones[s.colour[p] - 1, p >> 6] |= bit(p)


@inline_kernel
def has_chain_without_liberties(s: State) -> Any:
    """Whether a chain on the board has no liberty."""
    for p in range(s.neighbours.shape[0]):
        if s.colour[p] != EMPTY and s.n_liberties[s.chain_id[p]] == 0:
            return True
    return False


@inline_kernel
def own(view: PositionContext) -> Any:
    """The mover's index in arrays by colour: 0 for Black."""
    return np.int64(view.mover) - 1


@inline_kernel
def opp(view: PositionContext) -> Any:
    """The opponent's index in arrays by colour."""
    return 2 - np.int64(view.mover)


@inline_kernel
def some_point(word: Any) -> Any:
    """The place within its word, 0 to 63, of the last point that is set; the word is not zero."""
    return 63 - popcount((word & (~word + ONE)) - ONE)


@inline_kernel
def add_point(out: Any, p: Any) -> None:
    """Sets point p in the bit set out [W]."""
    out[p >> 6] |= bit(p)
