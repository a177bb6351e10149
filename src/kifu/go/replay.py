"""Whole games replayed: is each of them legal, and what is on the board before a given move.

Games come as flat arrays side by side, as `kifu.records.games.Games` has them: see there for the arrays' meaning.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason, IllegalMove
from kifu.go.rules import (
    KO_POSITIONAL,
    OFF_BOARD,
    RECORD_RULES,
    History,
    Rules,
    clear_history,
    count_captures,
    make_move,
    new_history,
)
from kifu.go.state import EMPTY, State, clear, new_state, rebuild_chains
from kifu.kernel import inline_kernel, kernel
from kifu.point import BLACK, ERASE_BIT, MAX_SIZE, NO_POINT, POINT_MASK, WHITE, WHITE_BIT


class GamesLike(Protocol):
    """The arrays of G games that a replay needs; `kifu.records.games.Games` is one."""

    @property
    def width(self) -> npt.NDArray[np.uint8]: ...
    @property
    def height(self) -> npt.NDArray[np.uint8]: ...
    @property
    def moves(self) -> npt.NDArray[np.uint16]: ...
    @property
    def move_offset(self) -> npt.NDArray[np.int64]: ...
    @property
    def setup(self) -> npt.NDArray[np.uint16]: ...
    @property
    def setup_ply(self) -> npt.NDArray[np.uint16]: ...
    @property
    def setup_offset(self) -> npt.NDArray[np.int64]: ...


@inline_kernel
def set_up(s: State, setup: Any, setup_ply: Any, at: Any, stop: Any, ply: Any) -> Any:
    """Sets up the stones of setup[at:stop] that are due at `ply`; nothing is captured, see `found_all`.

    Returns the index of the first one that is not due yet, or -1 if one of them is off the board.
    """
    n = s.neighbours.shape[0]
    while at < stop and setup_ply[at] <= ply:
        p = setup[at] & POINT_MASK
        if p >= n:
            return -1
        if setup[at] & ERASE_BIT:
            s.colour[p] = EMPTY
        else:
            s.colour[p] = WHITE if setup[at] & WHITE_BIT else BLACK
        at += 1
    rebuild_chains(s)
    return at


@inline_kernel
def follow(
    s: State, history: History, moves: Any, start: Any, plies: Any, setup: Any, setup_ply: Any, at: Any, stop: Any,
    ko: Any, suicide: Any, captures: Any,
) -> Any:  # fmt: skip
    """Brings the empty board s to the position before move `plies` of a game: what is set up by then is on it.

    The game's moves begin at moves[start], its setup stones are setup[at:stop]. captures: see `count_captures`.
    Returns (0, plies), or at the first move or setup stone that is not possible (why, its ply).
    """
    clear_history(history)
    ply = 0
    while True:
        if at < stop and setup_ply[at] <= ply:
            at = set_up(s, setup, setup_ply, at, stop, ply)
            if at < 0:
                return OFF_BOARD, ply
            clear_history(history)
        if ply == plies:
            return 0, ply
        word = moves[start + ply]
        p = np.int64(word & POINT_MASK)
        c = np.uint8(WHITE if word & WHITE_BIT else BLACK)
        why = make_move(s, history, p, c, ko, suicide)
        if why != 0:
            return why, ply
        if p < s.neighbours.shape[0]:
            count_captures(s, p, c, captures)
        ply += 1


@kernel
def _replay(
    s: State, history: History, rows: Any, moves: Any, move_offset: Any, setup: Any, setup_ply: Any, setup_offset: Any,
    ko: Any, suicide: Any, captures: Any, drop: Any, ply: Any,
) -> None:  # fmt: skip
    """Replays the games `rows`, all of the size of s, and fills drop and ply at these rows."""
    for i in range(rows.shape[0]):
        g = rows[i]
        clear(s)
        start = move_offset[g]
        drop[g], ply[g] = follow(
            s, history, moves, start, move_offset[g + 1] - start, setup, setup_ply, setup_offset[g],
            setup_offset[g + 1], ko, suicide, captures,
        )  # fmt: skip


@kernel
def _bring_to(
    s: State, history: History, moves: Any, plies: Any, setup: Any, setup_ply: Any, ko: Any, suicide: Any, captures: Any
) -> Any:
    clear(s)
    captures[0] = 0
    captures[1] = 0
    return follow(s, history, moves, 0, plies, setup, setup_ply, 0, setup.shape[0], ko, suicide, captures)


def replay_to(
    state: State,
    history: History,
    captures: npt.NDArray[np.int64],
    moves: npt.NDArray[np.uint16],
    setup: npt.NDArray[np.uint16],
    setup_ply: npt.NDArray[np.uint16],
    plies: int,
    rules: Rules = RECORD_RULES,
) -> None:
    """Brings a board to the position before move `plies` of one game, whatever was on it.

    state: of the game's size.  history: made for at least `plies` plies, if the rules have superko.
    captures: [2] int64, filled with the stones taken by Black and by White.
    moves, setup, setup_ply: this game's own.  plies: 0 to len(moves), where the last is the final position.
    Raises IllegalMove if a move or a setup stone before that is not possible; the board then stands before it.
    """
    if not 0 <= plies <= len(moves):
        raise IndexError(f"ply {plies} is not within 0 to {len(moves)}")
    why, ply = _bring_to(state, history, moves, plies, setup, setup_ply, *rules.codes, captures)
    if why:
        raise IllegalMove(ply, int(moves[ply] & POINT_MASK) if ply < len(moves) else NO_POINT, DropReason(why))


def replay_all(
    games: GamesLike, rules: Rules = RECORD_RULES, jobs: int = 1
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """Replays every game, whatever its size, on `jobs` threads.

    Returns drop: [G] uint8, 0 (`DropReason.KEPT`) or why the game is not possible under the rules; and ply: [G] int32, how
    many moves were played: all of them, or those before the one that could not be. Drop.BAD_SIZE where the size is not
    within 1 to 25. Two moves in a row by one colour are no fault.
    """
    g = len(games.width)
    drop, ply = np.full(g, DropReason.BAD_SIZE, np.uint8), np.zeros(g, np.int32)
    plies = np.diff(games.move_offset)
    longest = int(plies.max(initial=0)) if rules.codes[0] >= KO_POSITIONAL else 0
    size = games.width.astype(np.int64) * 256 + games.height
    with ThreadPoolExecutor(jobs) as pool:
        tasks = []
        for key in np.unique(size):
            width, height = divmod(int(key), 256)
            if not (1 <= width <= MAX_SIZE and 1 <= height <= MAX_SIZE):
                continue
            rows = np.flatnonzero(size == key)
            cuts = np.searchsorted(np.cumsum(plies[rows]), plies[rows].sum() * np.arange(1, jobs) // jobs)
            for part in np.split(rows, cuts):
                tasks.append(pool.submit(_replay_rows, games, part, width, height, rules, longest, drop, ply))
        for task in tasks:
            task.result()
    return drop, ply


def _replay_rows(
    games: GamesLike, rows: npt.NDArray[np.int64], width: int, height: int, rules: Rules, longest: int,
    drop: npt.NDArray[np.uint8], ply: npt.NDArray[np.int32],
) -> None:  # fmt: skip
    _replay(
        new_state(width, height), new_history(longest), rows, games.moves, games.move_offset, games.setup,
        games.setup_ply, games.setup_offset, *rules.codes, np.zeros(2, np.int64), drop, ply,
    )  # fmt: skip
