"""Tables of when stones stood on the points of a game, made from its moves and its trace.

`fill` enters the first stone on each point. The few points whose stone was removed have a chain of intervals besides,
which `fill_intervals` makes when a search needs them.

Points of moves are not checked: tables by point have a slot for every value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.replay import GameMoves
from kifu.kernel import inline_kernel, kernel
from kifu.point import ERASE_BIT, POINT_MASK
from kifu.search.traces import LAST_STONE

SLOTS = POINT_MASK + 1

NEVER = 0x1FFFFFFF
"""A ply that no game reaches."""

REMOVED = 1 << 31
"""The highest bit of `Tables.first`: a stone left the point, or setup changed it after the start."""

COLOUR_BITS = 2
"""The lowest bits of `Tables.first`, below the ply."""

NO_STONE = NEVER << COLOUR_BITS

# Indices of Tables.filled
FILLED_MOVES, FILLED_INTERVALS, N_LATER = range(3)

# Columns of Tables.intervals
COME, GONE, COLOUR, NEXT = range(4)


class TraceArrays(NamedTuple):
    """The fields of `kifu.search.traces.Traces` that kernels need."""

    plies: npt.NDArray[np.uint16]
    capture_offset: npt.NDArray[np.int64]
    captures: npt.NDArray[np.uint16]
    occupied: npt.NDArray[np.uint64]


class Tables(NamedTuple):
    """Scratch memory: when stones came to the points of the current game.

    Attributes:
        first: [SLOTS] uint32: REMOVED | ply of the first stone << COLOUR_BITS | its colour; NO_STONE if none.
        later: [K] int64, the moves to points that had a stone before.
        head: [SLOTS] int64, the first interval of each REMOVED point, or -1.
        tail: [SLOTS] int64, the last one.
        intervals: [K, 4] int64, the stones on these points: ply of coming, of leaving, colour, next interval or -1.
        filled: [3] int64: whether `first` and the intervals are those of the current game; the length of `later`.
    """

    first: npt.NDArray[np.uint32]
    later: npt.NDArray[np.int64]
    head: npt.NDArray[np.int64]
    tail: npt.NDArray[np.int64]
    intervals: npt.NDArray[np.int64]
    filled: npt.NDArray[np.int64]


@inline_kernel
def fill(tables: Tables, traces: TraceArrays, game: GameMoves, g: Any, n_points: Any) -> None:
    """Fill `first` and `later`."""
    first = tables.first
    for q in range(n_points + 1):
        first[q] = NO_STONE
    for i in range(game.setup.shape[0]):
        word: Any = np.int64(game.setup[i])
        p: Any = word & POINT_MASK
        if p >= n_points:  # it ended the game
            break
        if game.setup_ply[i] == 0 and word & ERASE_BIT == 0 and first[p] == NO_STONE:
            first[p] = 1 + (word >> 15)
        else:
            _mark_removed(tables, p)
    n = 0
    for t in range(np.int64(traces.plies[g])):
        word = np.int64(game.moves[t])
        p = word & POINT_MASK
        old = np.int64(first[p])
        if old & ~REMOVED == NO_STONE:
            first[p] = (old & REMOVED) | (t + 1) << COLOUR_BITS | 1 + (word >> 15)
        elif p < n_points:
            tables.later[n] = t
            n += 1
    tables.filled[N_LATER] = n
    is_point = 0  # without branches, which would be hard to predict
    for i in range(traces.capture_offset[g], traces.capture_offset[g + 1]):
        word = np.int64(traces.captures[i])
        first[word & POINT_MASK] |= REMOVED * is_point
        tables.head[word & POINT_MASK] = -1
        is_point = next_is_point(word, is_point)
    tables.filled[FILLED_MOVES] = 1
    tables.filled[FILLED_INTERVALS] = 0


@inline_kernel
def next_is_point(word: Any, is_point: Any) -> Any:
    """Return 1 if a point follows a word of `Traces.captures`, 0 if a move number does; likewise `is_point` of it."""
    return 1 - (is_point & word >> 15)


@inline_kernel
def _mark_removed(tables: Tables, p: Any) -> None:
    tables.first[p] |= REMOVED
    tables.head[p] = -1


@inline_kernel
def _add_interval(tables: Tables, n: Any, p: Any, ply: Any, colour: Any) -> Any:
    tables.intervals[n, COME] = ply
    tables.intervals[n, GONE] = NEVER
    tables.intervals[n, COLOUR] = colour
    tables.intervals[n, NEXT] = -1
    if tables.head[p] < 0:
        tables.head[p] = n
    else:
        tables.intervals[tables.tail[p], NEXT] = n
    tables.tail[p] = n
    return n + 1


@inline_kernel
def _add_first(tables: Tables, n: Any, p: Any, ply: Any) -> Any:
    """Add the interval of the first stone on p if it came by `ply` and was not added before."""
    word = np.int64(tables.first[p]) & ~REMOVED
    if word >> COLOUR_BITS <= ply:
        n = _add_interval(tables, n, p, word >> COLOUR_BITS, word & 3)
        tables.first[p] = REMOVED | NO_STONE
    return n


@inline_kernel
def _remove(tables: Tables, p: Any, ply: Any) -> None:
    if tables.head[p] >= 0 and tables.intervals[tables.tail[p], GONE] == NEVER:
        tables.intervals[tables.tail[p], GONE] = ply


@kernel
def fill_intervals(tables: Tables, traces: TraceArrays, game: GameMoves, g: Any, n_points: Any) -> None:
    """Fill the intervals of the REMOVED points: first stones, later stones, captures and setup in order of time."""
    n, later, entry = np.int64(0), 0, 0
    at, end = traces.capture_offset[g], traces.capture_offset[g + 1]
    n_entries = game.setup.shape[0]
    while True:
        stone = tables.later[later] + 1 if later < tables.filled[N_LATER] else NEVER
        capture = np.int64(traces.captures[at]) + 1 if at + 1 < end else NEVER
        setup = np.int64(game.setup_ply[entry]) if entry < n_entries else NEVER
        if stone <= min(capture, setup):
            if stone == NEVER:
                break
            word: Any = np.int64(game.moves[stone - 1])
            n = _add_interval(tables, n, word & POINT_MASK, stone, 1 + (word >> 15))
            later += 1
        elif capture <= setup:
            last = False
            while not last and at + 1 < end:
                at += 1
                last = traces.captures[at] >= LAST_STONE
                p: Any = np.int64(traces.captures[at]) & POINT_MASK
                n = _add_first(tables, n, p, capture)
                _remove(tables, p, capture)
            at += 1
        else:
            word = np.int64(game.setup[entry])
            p = word & POINT_MASK
            entry += 1
            if p >= n_points or setup > np.int64(traces.plies[g]):  # it ended the game, or comes after its end
                n_entries = entry
            elif tables.first[p] & REMOVED:
                n = _add_first(tables, n, p, setup)
                _remove(tables, p, setup)
                if word & ERASE_BIT == 0:
                    n = _add_interval(tables, n, p, setup, 1 + (word >> 15))
    for i in range(game.setup.shape[0]):
        p = np.int64(game.setup[i]) & POINT_MASK
        if p >= n_points:
            break
        if tables.first[p] & REMOVED:
            n = _add_first(tables, n, p, NEVER - 1)
    tables.filled[FILLED_INTERVALS] = 1


@inline_kernel
def next_allowed(tables: Tables, p: Any, t: Any, allowed: Any) -> Any:
    """Return the first ply from t on at which the REMOVED point p has allowed contents, or NEVER."""
    i = tables.head[p]
    while i >= 0:
        come, gone = tables.intervals[i, COME], tables.intervals[i, GONE]
        if t < come and allowed & 1:
            return t
        if t < gone:
            t = max(t, come)
            if t < gone and allowed >> tables.intervals[i, COLOUR] & 1:
                return t
            t = max(t, gone)
        i = tables.intervals[i, NEXT]
    return t if allowed & 1 else NEVER
