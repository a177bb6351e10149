"""Replaying whole games: one game loop, and what is computed with it for many games at once.

`replay_game` is the loop. Kernels give it functions to call before each move, after each stone and after each setup;
all of them are compiled into one kernel. Compared with loops written by hand this costs no speed (18 to 19 million
moves a second on one core either way) and about 0.3 s more to compile. Three loops are still written out: that of plane
sets (`kifu.planes.encoder`), where it adds 1 s to compiling each set; that of KataGo's inputs (`kifu.katago.inputs`),
whose rules about setup and the end of a game differ; and that of the records of 2015 (`kifu.planes.kgsgo`), which
ignore ko and passes.

Games come as flat arrays side by side; see `kifu.records.games.GameArrays` for their meaning.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.arrays import MoveArrays
from kifu.errors import DropReason, GameError, IllegalMove
from kifu.go.rules import (
    KO_POSITIONAL,
    OFF_BOARD,
    RECORD_RULES,
    History,
    Rules,
    clear_history,
    count_captures,
    legal_mask,
    make_move,
    new_history,
)
from kifu.go.state import EMPTY, LAST_CAPTURED, State, clear, new_state, rebuild_chains
from kifu.kernel import inline_kernel, kernel, writable_view
from kifu.point import BLACK, ERASE_BIT, MAX_SIZE, NO_POINT, POINT_MASK, WHITE, WHITE_BIT


class ReplayArrays(NamedTuple):
    """The moves and setup of many games, as kernels take them; see `kifu.records.games.GameArrays` for the fields."""

    moves: npt.NDArray[np.uint16]
    move_offset: npt.NDArray[np.int64]
    setup: npt.NDArray[np.uint16]
    setup_ply: npt.NDArray[np.uint16]
    setup_offset: npt.NDArray[np.int64]


class GameMoves(NamedTuple):
    """The moves and setup of one game."""

    moves: npt.NDArray[np.uint16]  # [T]: point | WHITE_BIT
    setup: npt.NDArray[np.uint16]  # [S]: point | WHITE_BIT or ERASE_BIT
    setup_ply: npt.NDArray[np.uint16]  # [S]: how many moves come before each setup entry, not decreasing


def replay_arrays(games: MoveArrays) -> ReplayArrays:
    """Return the arrays of games as kernels take them, without copying."""
    return ReplayArrays(*(writable_view(getattr(games, name)) for name in ReplayArrays._fields))


@inline_kernel
def game_moves(games: ReplayArrays, g: Any) -> GameMoves:
    """Return the moves and setup of game g, as views."""
    first, last = games.setup_offset[g], games.setup_offset[g + 1]
    moves = games.moves[games.move_offset[g] : games.move_offset[g + 1]]
    return GameMoves(moves, games.setup[first:last], games.setup_ply[first:last])


@inline_kernel
def colour_of(word: Any) -> Any:
    """Return the colour of a move or setup stone, as uint8."""
    return np.uint8(WHITE if word & WHITE_BIT else BLACK)


@inline_kernel
def set_up(s: State, game: GameMoves, first: Any, stop: Any, ply: Any) -> Any:
    """Put the setup entries first to stop - 1 of a game that are due at `ply` on the board, without capturing.

    Returns the index of the first entry that is not due yet, or -1 if one of them is off the board.
    """
    n = s.neighbours.shape[0]
    at = first
    while at < stop and game.setup_ply[at] <= ply:
        p = game.setup[at] & POINT_MASK
        if p >= n:
            return -1
        s.colour[p] = EMPTY if game.setup[at] & ERASE_BIT else colour_of(game.setup[at])
        at += 1
    rebuild_chains(s)
    return at


@inline_kernel
def ignore_setup(context: Any, s: State, game: GameMoves, first: Any, last: Any) -> None:
    """Do nothing; an `on_setup` for `replay_game`."""


@inline_kernel
def ignore_move(context: Any, s: State, game: GameMoves, t: Any, p: Any, c: Any) -> None:
    """Do nothing; a `before_move` or `after_stone` for `replay_game`."""


@kernel
def _play_move(s: State, history: History, p: Any, c: Any, rules: Any) -> Any:
    # Not inlined, so that it is compiled once and not into each kernel that replays; this costs no speed.
    return make_move(s, history, p, c, rules[0], rules[1])


@inline_kernel
def replay_game(  # noqa: PLR0913 - kernel
    s: State,
    history: History,
    game: GameMoves,
    plies: Any,
    rules: Any,
    on_setup: Any,
    before_move: Any,
    after_stone: Any,
    context: Any,
) -> Any:
    """Replay a game from the empty board to the position before move `plies`, with what is set up by then.

    Args:
        s: The board, of the game's size; its stones are removed first.
        history: Made for at least `plies` moves if the rules have superko.
        plies: 0 to the number of moves; the last is the final position.
        rules: `Rules.codes`.
        on_setup: An inline kernel, called as on_setup(context, s, game, first, last) once the setup entries first to
            last - 1 are on the board.
        before_move: An inline kernel, called as before_move(context, s, game, t, p, c) before move t, of colour c to
            point p: n for a pass, larger if it is off the board.
        after_stone: An inline kernel, called likewise after each move that is not a pass.

    Returns:
        (0, plies); or (reason, ply) of the first move or setup entry that is not possible, with the board before it.
    """
    clear(s)
    clear_history(history)
    n_setup = game.setup.shape[0]
    at = np.int64(0)
    t = np.int64(0)
    while True:
        if at < n_setup and game.setup_ply[at] <= t:
            first = at
            at = set_up(s, game, first, n_setup, t)
            if at < 0:
                return OFF_BOARD, t
            clear_history(history)
            on_setup(context, s, game, first, at)
        if t == plies:
            return 0, t
        p = np.int64(game.moves[t] & POINT_MASK)
        c = colour_of(game.moves[t])
        before_move(context, s, game, t, p, c)
        why = _play_move(s, history, p, c, rules)
        if why != 0:
            return why, t
        if p < s.neighbours.shape[0]:
            after_stone(context, s, game, t, p, c)
        t += 1


# Legality of whole games


@kernel
def _replay(s: State, history: History, games: ReplayArrays, game_index: Any, rules: Any, drop: Any, ply: Any) -> None:
    """Replay games of the size of s and fill drop and ply at their indices."""
    for i in range(game_index.shape[0]):
        g = game_index[i]
        game = game_moves(games, g)
        drop[g], ply[g] = replay_game(
            s, history, game, game.moves.shape[0], rules, ignore_setup, ignore_move, ignore_move, 0
        )


def replay_all(
    games: MoveArrays, rules: Rules = RECORD_RULES, jobs: int = 1
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """Replay games of any sizes. Consecutive moves of one colour are legal.

    Returns:
        drop [G] uint8, KEPT or the `DropReason` why a game is not possible under the rules (BAD_SIZE if a side is not
        in 1..25); and ply [G] int32, how many moves were played: all of them, or those before the impossible one.
    """
    n_games = len(games.width)
    drop, ply = np.full(n_games, DropReason.BAD_SIZE, np.uint8), np.zeros(n_games, np.int32)
    arrays = replay_arrays(games)
    plies = np.diff(games.move_offset)
    longest = int(plies.max(initial=0)) if rules.codes[0] >= KO_POSITIONAL else 0
    size = games.width.astype(np.int64) * 256 + games.height
    with ThreadPoolExecutor(jobs) as pool:
        tasks = []
        for key in np.unique(size):
            width, height = divmod(int(key), 256)
            if not (1 <= width <= MAX_SIZE and 1 <= height <= MAX_SIZE):
                continue
            game_index = np.flatnonzero(size == key)
            cuts = np.searchsorted(np.cumsum(plies[game_index]), plies[game_index].sum() * np.arange(1, jobs) // jobs)
            for shard in np.split(game_index, cuts):
                scratch = new_state(width, height), new_history(longest)
                tasks.append(pool.submit(_replay, *scratch, arrays, shard, rules.codes, drop, ply))
        for task in tasks:
            task.result()
    return drop, ply


# One position


@inline_kernel
def _add_captures(captures: Any, s: State, game: GameMoves, t: Any, p: Any, c: Any) -> None:
    count_captures(s, p, c, captures)


@kernel
def _replay_to(s: State, history: History, game: GameMoves, plies: Any, rules: Any, captures: Any) -> Any:
    captures[0] = 0
    captures[1] = 0
    return replay_game(s, history, game, plies, rules, ignore_setup, ignore_move, _add_captures, captures)


def replay_to(
    state: State,
    history: History,
    captures: npt.NDArray[np.int64],
    game: GameMoves,
    plies: int,
    rules: Rules = RECORD_RULES,
) -> None:
    """Set a board to the position before move `plies` of a game.

    history: made for at least `plies` moves if the rules have superko; captures: [2] int64, filled with the number of
    stones captured by Black and by White.

    Raises:
        IllegalMove: A move or a setup stone before that position is not possible; the board then stands before it.
        GameError: Setup and setup_ply differ in length.
        IndexError: Plies is out of range.
    """
    moves = game.moves
    if not 0 <= plies <= len(moves):
        raise IndexError(f"ply {plies} is not within 0 to {len(moves)}")
    if len(game.setup) != len(game.setup_ply):
        raise GameError(f"setup_ply must have {len(game.setup)} entries like setup, got {len(game.setup_ply)}")
    arrays = GameMoves(*map(writable_view, game))
    why, ply = _replay_to(state, history, arrays, plies, rules.codes, captures)
    if why:
        raise IllegalMove(ply, int(moves[ply] & POINT_MASK) if ply < len(moves) else NO_POINT, DropReason(why))


# Legal moves in chosen positions


class _LegalContext(NamedTuple):
    history: History
    rules: tuple[int, int]
    slot_of_move: npt.NDArray[np.int64]
    out: npt.NDArray[np.bool_]


@inline_kernel
def _store_legal(context: _LegalContext, s: State, game: GameMoves, t: Any, p: Any, c: Any) -> None:
    slot = context.slot_of_move[t]
    if slot >= 0:
        legal_mask(s, context.history, c, context.rules[0], context.rules[1], context.out[slot])


@kernel
def _legal_moves(  # noqa: PLR0913 - kernel
    s: State, history: History, games: ReplayArrays, game_index: Any, rules: Any, slot_of_move: Any, slot_offset: Any,
    out: Any, drop: Any, ply: Any,
) -> None:  # fmt: skip
    """Replay games of the size of s and fill out; and drop and ply, in the order of `game_index`."""
    for i in range(game_index.shape[0]):
        game = game_moves(games, game_index[i])
        context = _LegalContext(history, rules, slot_of_move[slot_offset[i] : slot_offset[i + 1]], out)
        drop[i], ply[i] = replay_game(
            s, history, game, game.moves.shape[0], rules, ignore_setup, _store_legal, ignore_move, context
        )


def legal_moves(
    games: MoveArrays,
    game_index: npt.NDArray[np.int64],
    slot_of_move: npt.NDArray[np.int64],
    out: npt.NDArray[np.bool_],
    rules: Rules = RECORD_RULES,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """Compute which moves are legal in chosen positions of some games.

    Returns why and after how many moves each replay stopped, [R], see `kifu.go.positions.Positions.check_playable`.
    Raises ValueError if the arrays do not fit each other.

    Args:
        game_index: [R] int64, the games to replay, all of one size, with n points.
        slot_of_move: int64, for each move of the first of these games, then of the second, and so on: the row of `out`
            for the position before the move, or -1. The colour of the move says who is to play.
        out: [slots, n + 1] bool, filled: whether each point is a legal move. A pass, the last column, always is.
    """
    drop, ply = np.zeros(len(game_index), np.uint8), np.zeros(len(game_index), np.int32)
    if len(game_index) == 0:
        return drop, ply
    width, height = _common_size(games, game_index)
    slot_offset = np.zeros(len(game_index) + 1, np.int64)
    np.cumsum(games.move_offset[game_index + 1] - games.move_offset[game_index], out=slot_offset[1:])
    plies = np.diff(slot_offset)
    if len(slot_of_move) != slot_offset[-1] or slot_of_move.max(initial=-1) >= len(out):
        raise ValueError(f"slot_of_move must have {slot_offset[-1]} entries below {len(out)}")
    if out.shape[1:] != (width * height + 1,):
        raise ValueError(f"out must have {width * height + 1} columns, got shape {out.shape}")
    _legal_moves(
        new_state(width, height),
        new_history(int(plies.max()) if rules.codes[0] >= KO_POSITIONAL else 0),
        replay_arrays(games), game_index, rules.codes, slot_of_move, slot_offset, out, drop, ply,
    )  # fmt: skip
    return drop, ply


def _common_size(games: MoveArrays, game_index: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Return the width and height of some games. Raises ValueError unless all are the same."""
    sizes = {*zip(games.width[game_index].tolist(), games.height[game_index].tolist())}
    if len(sizes) != 1:
        raise ValueError(f"games must have one size, got {sorted(sizes)[:4]}")
    return sizes.pop()


# Captures


@inline_kernel
def _store_captured(out: Any, s: State, game: GameMoves, t: Any, p: Any, c: Any) -> None:
    out[t] = s.scalars[LAST_CAPTURED]


@kernel
def _captured_stones(s: State, history: History, games: ReplayArrays, game_index: Any, rules: Any, out: Any) -> None:
    for i in range(game_index.shape[0]):
        g = game_index[i]
        game = game_moves(games, g)
        captured = out[games.move_offset[g] : games.move_offset[g + 1]]
        replay_game(s, history, game, game.moves.shape[0], rules, ignore_setup, ignore_move, _store_captured, captured)


def captured_stones(games: MoveArrays, game_index: npt.NDArray[np.int64]) -> npt.NDArray[np.uint16]:
    """Return how many of the opponent's stones each move captures, under `RECORD_RULES`, in games of one size.

    [M] uint16, by move of all games; 0 in other games, and from the first move on that cannot be played.
    """
    out = np.zeros(len(games.moves), np.uint16)
    if len(game_index):
        size = _common_size(games, game_index)
        rules = RECORD_RULES.codes
        _captured_stones(new_state(*size), new_history(0), replay_arrays(games), game_index, rules, out)
    return out
