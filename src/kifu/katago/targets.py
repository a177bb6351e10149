"""KataGo's training targets for human games: the move played, the winner, later boards and weights.

After KataGo v1.17.2, TrainingWriteBuffers::addRow as `writetrainingdata` calls it, without what a network would add.
Unknown values have weight 0 and are filled as train.py needs them: an unknown policy target is uniform, since train.py
divides by its sum, and a score distribution adds up to 100.

globalTargetsNC   for a human game
0 to 2, 3         win, loss, no result for the mover, and half a point for the winner; half each if unknown
4 to 19           the same: network evaluations are unknown, and column 24 gives them no weight
24, 35            1 - weight of the network evaluations: 1; 1 - weight of the result: 0 if it is trusted
25, 26            weight of the row and of its move: 1
27, 29, 34        weight of ownership and score, of the lead, of scoring: 0
28                weight of the opponent's next move: 1 if there is one that is not a pass
33                weight of the boards 8 and 32 moves later: 1
36 to 40          whether the network sees the last 1 .. 5 moves: each with 98 %, if it sees those after it
41 to 46          two 64-bit words that identify the game, in pieces of 22, 22 and 20 bits
47, 48            the mover's komi with all bonuses; 1 for area scoring
51, 53            moves since the first row of the game; moves before that
54, 56            handicap stones; setup stones
57, 58            zeros of a network's evaluation, with the mover's sign
61, 62            bonus points that the mover still gets; whether the game ended by KataGo's rules
63                3, the version of the format
others            0
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.arrays import Floats, Hashes, Indices, Ints
from kifu.corpus.hashes import mix_words
from kifu.go.replay import colour_of
from kifu.go.state import ONE, ZERO, last_point, popcount
from kifu.katago.history import FINISHED, TERRITORY, BoardHistory, handicap_stones, new_board_history, play_move
from kifu.katago.inputs import KataGames, kernel_games, load_game, own_komi
from kifu.katago.npz import POINTS, SIDE, TARGETS
from kifu.kernel import inline_kernel, kernel
from kifu.planes.context import copy_stones, new_context
from kifu.planes.encoder import embed_board
from kifu.point import POINT_MASK, WHITE, WHITE_BIT
from kifu.records.games import GameArrays

MOVES = POINTS + 1
"""Entries of a policy target: one for each point, and the last one for a pass."""

SCORES = 2 * POINTS + 120

UNKNOWN_WINNER = -1
"""The winner of a game with an unknown result; otherwise BLACK, WHITE, or 0 for a draw."""

_VALUE_COLUMNS, _SCORE_OFFSET = (0, 4, 8, 12, 16), 3
_LATER_PLIES = (8, 32)
_VERSION = 3
_HISTORY_CHANCES = 0.98 ** np.arange(1, 6)
_HISTORY_SALT = np.uint64(0x6B617461636F696E)
_HASH_SALT = np.uint64(0x6B61746167616D65)


class Targets(NamedTuple):
    """The targets of N positions, with the names, shapes and types of KataGo's files.

    Attributes:
        policy: [N, 2, 362] int16, the move and the one after it.
        targets: [N, 80] float32.
        scores: [N, 842] int8.
        values: [N, 5, 19, 19] int8, of which 2 and 3 are later boards and the others are empty.
    """

    policy: npt.NDArray[np.int16]
    targets: Floats
    scores: npt.NDArray[np.int8]
    values: npt.NDArray[np.int8]


class GameSpan(NamedTuple):
    """The moves of R games that rows are made of, and the results of these games.

    Attributes:
        first: [R] int32, the first ply that may have a row.
        stop: [R] int32, the number of moves played, without trailing passes.
        winner: [R] int8: BLACK, WHITE, 0 for a draw or UNKNOWN_WINNER.
        trust: [R] float32, the weight of the result, 0 to 1.
    """

    first: Ints
    stop: Ints
    winner: npt.NDArray[np.int8]
    trust: Floats
    key: Hashes


class TargetScratch:
    """Scratch memory of one thread: histories by board size, and the boards and komi of one game by ply.

    Attributes:
        boards: [plies, 2, W] uint64, Black's and White's stones.
        komi: [plies] float32, White's komi with all bonuses.
    """

    def __init__(self) -> None:
        self._histories: dict[tuple[int, int], BoardHistory] = {}
        self.boards = np.empty((0, 2, 6), np.uint64)
        self.komi = np.empty(0, np.float32)

    def history(self, width: int, height: int, plies: int) -> BoardHistory:
        """Return a history for games of that size and at most `plies` moves."""
        if plies >= len(self.boards):
            capacity = max(plies + 1, 2 * len(self.boards), 512)
            self.boards, self.komi = np.empty((capacity, 2, 6), np.uint64), np.empty(capacity, np.float32)
            self._histories.clear()
        if (width, height) not in self._histories:
            state = new_context(width, height, SIDE, SIDE, 0).s
            self._histories[width, height] = new_board_history(state, len(self.boards))
        return self._histories[width, height]


def fill_targets(
    scratch: TargetScratch,
    games: GameArrays,
    rows: Indices,
    rules: npt.NDArray[np.void],
    span: GameSpan,
    game: Indices,
    ply: Ints,
) -> Targets:
    """Compute the targets of N positions of R games.

    Raises ValueError if a move before `span.stop` cannot be played.

    Args:
        games: Many games. Setup after the root is ignored.
        rows: [R] int64, the chosen games, at most 19 x 19, legal up to `span.stop` as `KataEncoder.draw` reports it.
        game: [N] int64 in ascending order, indices from 0 to R - 1.
        ply: [N] int32, within the game's span.
    """
    n = len(game)
    out = Targets(
        np.zeros((n, 2, MOVES), np.int16),
        np.zeros((n, TARGETS), np.float32),
        np.zeros((n, SCORES), np.int8),
        np.zeros((n, 5, POINTS), np.int8),
    )
    _fill_constants(out, span.key[game], ply)
    first_slot = np.searchsorted(game, np.arange(len(rows) + 1)).astype(np.int64)
    max_stop, stones = int(span.stop.max(initial=0)), games.setup_offset[rows + 1] - games.setup_offset[rows]
    plies = games.move_offset[rows + 1] - games.move_offset[rows]
    buffers = np.empty(plies.max(initial=0), np.uint16), np.empty(stones.max(initial=0), np.uint16)
    sizes = games.width[rows].astype(np.int64) << 8 | games.height[rows]
    chosen = kernel_games(games, rows, rules)
    for size in np.unique(sizes).tolist():
        width, height = size >> 8, size & 0xFF
        history = scratch.history(width, height, max_stop)
        failed = _fill_games(
            history, chosen, np.flatnonzero(sizes == size), embed_board(width, height, False, SIDE, SIDE, 0).table[0],
            buffers, span, first_slot, ply, scratch.boards, scratch.komi, out,
        )  # fmt: skip
        if failed >= 0:
            raise ValueError(f"game {rows[failed]} cannot be played for {span.stop[failed]} moves")
    return out._replace(values=out.values.reshape(n, 5, SIDE, SIDE))


def key_columns(key: Hashes) -> Floats:
    """Return columns 41 to 46, [N, 6] float32: each key and a hash of it, in pieces that float32 holds exactly."""
    words = np.stack([key, mix_words(key ^ _HASH_SALT)], 1)
    pieces = [words & 0x3FFFFF, words >> np.uint64(22) & np.uint64(0x3FFFFF), words >> np.uint64(44)]
    return np.stack(pieces, 2).reshape(len(key), 6).astype(np.float32)


def _fill_constants(out: Targets, key: Hashes, ply: Ints) -> None:
    to = out.targets
    to[:, [24, 25, 26, 33]] = 1
    to[:, 63] = _VERSION
    # One random number decides all five: move k is shown if it is below 0.98 ** k, as if by independent draws.
    uniform = mix_words(mix_words(key ^ _HISTORY_SALT) + ply.astype(np.uint64)) * 2.0**-64
    to[:, 36:41] = uniform[:, None] < _HISTORY_CHANCES
    to[:, 41:47] = key_columns(key)
    out.scores[:, SCORES // 2 - 1 : SCORES // 2 + 1] = 50


@kernel
def _fill_games(  # noqa: PLR0913 - kernel
    h: BoardHistory, games: KataGames, subset: Any, table: Any, buffers: Any, span: GameSpan, first_slot: Any, ply: Any,
    boards: Any, komi: Any, out: Targets
) -> Any:  # fmt: skip
    """Play the games `subset`, all of the history's size, and fill their rows, first_slot[r] to first_slot[r + 1] - 1.

    Returns the first game that cannot be played up to its stop, or -1.
    """
    moves, _ = buffers
    for j in range(subset.shape[0]):
        r = subset[j]
        if span.stop[r] == 0:
            continue
        if load_game(h, games, r, table, buffers) != 0:
            return r
        if not _play(h, moves, span.stop[r], boards, komi):
            return r
        for k in range(first_slot[r], first_slot[r + 1]):
            _fill_row(h, moves, ply[k], span.first[r], span.stop[r], boards, komi, k, out)
            _fill_result(moves[ply[k]], span.winner[r], span.trust[r], k, out)
    return -1


@inline_kernel
def _play(h: BoardHistory, moves: Any, stop: Any, boards: Any, komi: Any) -> Any:
    """Play the moves before `stop`, recording all boards. Returns whether the moves are legal."""
    for t in range(stop + 1):
        copy_stones(h.s, False, boards[t])
        komi[t] = own_komi(h, WHITE)
        if t < stop:
            p = np.int64(moves[t] & POINT_MASK)
            if play_move(h, p, colour_of(moves[t])) != 0:
                return False
    return True


@inline_kernel
def _count_stones(board: Any) -> Any:
    count = 0
    for i in range(board.shape[0]):
        count += popcount(board[i])
    return count


@inline_kernel
def _fill_row(  # noqa: PLR0913 - kernel
    h: BoardHistory, moves: Any, t: Any, first: Any, stop: Any, boards: Any, komi: Any, k: Any, out: Targets
) -> None:
    """Fill row k, for the position before move t, except for the result. h: at the end of the game."""
    to = out.targets[k]
    white = moves[t] & WHITE_BIT != 0
    sign = np.float32(1 if white else -1)
    out.policy[k, 0, moves[t] & POINT_MASK] = 1
    answered = t + 1 < stop and (moves[t + 1] ^ moves[t]) & WHITE_BIT != 0 and moves[t + 1] & POINT_MASK != POINTS
    if answered:
        out.policy[k, 1, moves[t + 1] & POINT_MASK] = 1
        to[28] = 1
    else:
        for p in range(MOVES):
            out.policy[k, 1, p] = 1
    for later in range(2):
        _fill_board(boards[min(t + _LATER_PLIES[later], stop)], white, out.values[k, 2 + later])
    black_stones, white_stones = _count_stones(boards[0, 0]), _count_stones(boards[0, 1])
    to[47] = sign * komi[t]
    to[48] = 1 - h.rules[TERRITORY]
    to[51] = t - first
    to[53] = first
    to[54] = handicap_stones(h.rules, black_stones, white_stones)
    to[56] = black_stones + white_stones
    to[57] = sign * np.float32(0)
    to[58] = sign * np.float32(0)
    to[61] = komi[stop] - komi[t] if white else komi[t] - komi[stop]
    to[62] = h.scalars[FINISHED]


@inline_kernel
def _fill_board(board: Any, white: Any, out: Any) -> None:
    """Fill out [points] int8 with the stones of a board: 1 for the mover's, -1 for the opponent's."""
    for c in range(2):
        stone = 1 if (c == 1) == white else -1
        for i in range(board.shape[1]):
            word = board[c, i]
            while word != ZERO:
                out[last_point(i, word)] = stone
                word &= word - ONE


@inline_kernel
def _fill_result(move: Any, winner: Any, trust: Any, k: Any, out: Targets) -> None:
    to = out.targets[k]
    known = winner != UNKNOWN_WINNER
    mover = colour_of(move)
    decided = known and winner != 0
    win = np.float32(1 if winner == mover else 0) if decided else np.float32(0.5)
    for at in _VALUE_COLUMNS:
        to[at] = win
        to[at + 1] = 1 - win
        to[at + _SCORE_OFFSET] = win - np.float32(0.5)
    to[35] = 1 - trust if known else np.float32(1)
