"""Traces of games: which stones left the board when, and which points were ever occupied.

With its trace, a game needs no rules any more: the moves tell when each stone came, the trace when it went.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.arrays import MoveArrays
from kifu.go.replay import GameMoves, ReplayArrays, game_moves, ignore_move, replay_arrays, replay_game
from kifu.go.rules import RECORD_RULES, History, new_history
from kifu.go.state import EMPTY, LAST_CAPTURED, LAST_POINT, State, add_point, bit, last_point, new_state, popcount
from kifu.kernel import inline_kernel, kernel
from kifu.point import BLACK, MAX_SIZE, POINT_MASK, WHITE

MAX_PLIES = 0xFFFF
"""Later moves of a game are not searched."""

LAST_STONE = 0x8000
"""Marks the last captured point of a move in `Traces.captures`."""

ZERO = np.uint64(0)
ONE = np.uint64(1)


class TraceContext(NamedTuple):
    """The trace of the game that is being replayed."""

    # [2, W]: bit sets of the black and the white stones on the board, as they were before a move
    present: npt.NDArray[np.uint64]
    occupied: npt.NDArray[np.uint64]  # [2, W]: receives the points ever occupied by Black and by White
    # [C]: receives the captures, see `Traces`; twice the number of moves plus the setup suffice
    captures: npt.NDArray[np.uint16]
    removed: npt.NDArray[np.uint64]  # [W]: scratch memory
    length: npt.NDArray[np.int64]  # [1]: entries of `captures`


@inline_kernel
def begin_trace(trace: TraceContext) -> None:
    """Start the trace of another game."""
    for c in range(2):
        for i in range(trace.present.shape[1]):
            trace.present[c, i] = ZERO
            trace.occupied[c, i] = ZERO
    trace.length[0] = 0


@inline_kernel
def _place(trace: TraceContext, p: Any, c: Any) -> None:
    add_point(trace.present[c - 1], p)
    add_point(trace.occupied[c - 1], p)


@inline_kernel
def trace_setup(trace: TraceContext, s: State, game: GameMoves, first: Any, last: Any) -> None:
    """Record setup entries; an `on_setup` for `replay_game`."""
    for i in range(first, last):
        p = np.int64(game.setup[i] & POINT_MASK)
        for c in range(2):
            trace.present[c, p >> 6] &= ~bit(p)
        if s.colour[p] != EMPTY:
            _place(trace, p, s.colour[p])


@inline_kernel
def trace_stone(trace: TraceContext, s: State, game: GameMoves, t: Any, p: Any, c: Any) -> None:
    """Record a stone and its captures; an `after_stone` for `replay_game`."""
    if s.scalars[LAST_CAPTURED] != 0 or s.scalars[LAST_POINT] < 0:
        _trace_captures(trace, s, t, p, c)
    if s.scalars[LAST_POINT] >= 0:
        _place(trace, p, c)


@kernel
def _trace_captures(trace: TraceContext, s: State, t: Any, p: Any, c: Any) -> None:
    """Record the stones that the move t, of colour c to p, removed."""
    n = s.neighbours.shape[0]
    suicide = s.scalars[LAST_POINT] < 0
    colour = np.int64(c) - 1 if suicide else 2 - np.int64(c)
    removed = trace.removed
    for i in range(len(s.words)):
        removed[i] = ZERO
    if suicide:
        _add_chain(removed, s, p)
    else:
        for k in range(4):
            q = np.int64(s.neighbours[p, k])
            if q < n and s.colour[q] == EMPTY and trace.present[colour, q >> 6] & bit(q) != ZERO:
                _add_chain(removed, s, q)
    count = 0
    for i in range(len(s.words)):
        trace.present[colour, i] &= ~removed[i]
        count += popcount(removed[i])
    at = trace.length[0] + count
    trace.captures[at - count] = t
    trace.length[0] = at + 1
    flag = LAST_STONE
    for i in range(len(s.words) - 1, -1, -1):
        word = removed[i]
        while word != ZERO:
            trace.captures[at] = last_point(i, word) | flag
            flag = 0
            at -= 1
            word &= word - ONE


@inline_kernel
def _add_chain(removed: Any, s: State, q: Any) -> None:
    """Add the chain that stood on q; a removed chain keeps its id and its bit set of stones."""
    h = s.chain_id[q]
    for i in range(len(s.words)):
        removed[i] |= s.stones[h, i]


@inline_kernel
def end_trace(trace: TraceContext, s: State, why: Any) -> None:
    """Finish the trace of a game, with the result of `replay_game`."""
    if why != 0:  # an entry off the board ended the game: the entries before it are on the board
        for p in range(s.neighbours.shape[0]):
            if s.colour[p] == BLACK or s.colour[p] == WHITE:
                add_point(trace.occupied[s.colour[p] - 1], p)


@kernel
def trace_all(  # noqa: PLR0913 - kernel
    s: State, history: History, games: ReplayArrays, game_index: Any, rules: Any, present: Any, removed: Any,
    length: Any, captures: Any, capture_count: Any, plies: Any, occupied: Any,
) -> None:  # fmt: skip
    """Fill the traces of games of the size of s; the captures lie side by side in the order of `game_index`."""
    end = 0
    for i in range(game_index.shape[0]):
        g = game_index[i]
        game = game_moves(games, g)
        trace = TraceContext(present, occupied[g], captures[end:], removed, length)
        begin_trace(trace)
        why, played = replay_game(
            s, history, game, min(game.moves.shape[0], MAX_PLIES), rules, trace_setup, ignore_move, trace_stone, trace
        )
        plies[g] = played
        end_trace(trace, s, why)
        capture_count[g] = length[0]
        end += length[0]


__all__ = ["LAST_STONE", "Traces", "bit_set_words", "games_by_size", "trace_games"]


class Traces(NamedTuple):
    """Traces of G games."""

    # [G]: how many moves are searched: those before the first illegal one; 0 for dropped games
    plies: npt.NDArray[np.uint16]
    capture_offset: npt.NDArray[np.int64]  # [G + 1]
    # [C]: . The captures of game g are captures[capture_offset[g]:capture_offset[g + 1]]: for each capturing move its
    # number from 0, then the points that became empty, ascending, the last one with LAST_STONE. Stones lost by suicide
    # are included, with the stone of the move itself.
    captures: npt.NDArray[np.uint16]
    # [G, 2, W]: bit sets as in `kifu.go.state` of the points ever occupied at the end of a move or set up by Black and
    # by White; W is 6 if all boards are smaller than 384 points, else 10
    occupied: npt.NDArray[np.uint64]


def bit_set_words(games: MoveArrays) -> int:
    """Return the number of words of bit sets that hold the points of all boards, see `Traces.occupied`."""
    return 6 if np.max(games.width * games.height.astype(np.int64), initial=0) < 384 else 10


def games_by_size(games: MoveArrays, index: npt.NDArray[np.int64]) -> list[tuple[int, int, npt.NDArray[np.int64]]]:
    """Return (width, height, games) for each board size, 1 x 1 to 25 x 25, among games `index`, [R] int64."""
    size = games.width[index].astype(np.int64) * (MAX_SIZE + 1) + games.height[index]
    counts = np.bincount(size, minlength=1)
    groups = []
    for key in np.flatnonzero(counts).tolist():
        width, height = divmod(key, MAX_SIZE + 1)
        if 1 <= width <= MAX_SIZE and height >= 1:
            groups.append((width, height, index if counts[key] == len(index) else index[size == key]))
    return groups


def trace_games(games: MoveArrays, kept: npt.NDArray[np.bool_] | None = None) -> Traces:
    """Replay games up to the first illegal move. kept: [G] bool, None for all; other games have no plies."""
    n_games, words = len(games.width), bit_set_words(games)
    plies = np.zeros(n_games, np.uint16)
    occupied = np.zeros((n_games, 2, words), np.uint64)
    count = np.zeros(n_games, np.int64)
    offset = np.zeros(n_games + 1, np.int64)
    arrays, parts, order = replay_arrays(games), [], []
    index = np.arange(n_games) if kept is None else np.flatnonzero(kept)
    for width, height, group in games_by_size(games, index):
        most = 2 * np.diff(games.move_offset)[group].sum() + np.diff(games.setup_offset)[group].sum()
        captures = np.empty(most, np.uint16)
        trace_all(
            new_state(width, height), new_history(0), arrays, group, RECORD_RULES.codes,
            np.empty((2, words), np.uint64), np.empty(words, np.uint64), np.empty(1, np.int64),
            captures, count, plies, occupied,
        )  # fmt: skip
        parts.append(captures[: count[group].sum()].copy())
        order.append(group)
    np.cumsum(count, out=offset[1:])
    captures = np.empty(offset[-1], np.uint16)
    for part, group in zip(parts, order):
        counts = count[group]
        first = offset[group] - np.cumsum(counts) + counts
        captures[np.repeat(first, counts) + np.arange(counts.sum())] = part
    return Traces(plies, offset, captures, occupied)
