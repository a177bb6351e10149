"""What KataGo's training rows tell of a human game, beside the position: the move, who won, boards to come, weights.

After KataGo v1.17.2, TrainingWriteBuffers::addRow as `writetrainingdata` calls it, less what a network would add. What
is not known weighs nothing, and is filled as train.py needs it: a policy target that is not known is uniform, since
train.py divides by its sum, and a distribution of scores adds up to 100.

globalTargetsNC   for a human game
0 to 2, 3         win, loss, no result for the mover, and half a point for the winner; a half each where nobody is known
4 to 19           the same: evaluations by a network are not known, and 24 says that they weigh nothing
24, 35            1 less the weight of such evaluations: 1; 1 less the weight of the result: 0 if it is trusted
25, 26            weight of the row and of its move: 1
27, 29, 34        weight of ownership and score, of the lead, of scoring: 0
28                weight of the next move, the opponent's: 1 if there is one that is no pass
33                weight of the boards 8 and 32 moves later: 1
36 to 40          whether a net is shown the last 1 .. 5 moves: each is, with 98 %, if those after it are
41 to 46          two 64-bit words that name the game, in pieces of 22, 22 and 20 bits
47, 48            the mover's komi with all that is added to it; whether area is counted
51, 53            moves since the first row of the game; moves before that
54, 56            handicap stones, stones that were set up
57, 58            zeros of a network's opinion, with the mover's sign
61, 62            points beside komi that the mover still gets; whether the game ended by KataGo's rules
63                3, the version of the format
others            0
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.corpus._hashes import mix_words
from kifu.go.state import ONE, ZERO, clear, popcount
from kifu.katago.encoder import RootedGames
from kifu.katago.history import (
    FINISHED,
    TERRITORY,
    BoardHistory,
    advance,
    begin,
    codes_of,
    handicap_stones,
    new_board_history,
)
from kifu.katago.inputs import own_komi, set_up_root
from kifu.katago.rows import POINTS, SIDE, TARGETS
from kifu.kernel import inline_kernel, kernel, writable_view
from kifu.planes.board_embedding import make_placing, place
from kifu.planes.context import copy_stones, new_context, some_point
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT

MOVES = POINTS + 1
"""Policy targets have an entry for each point, and at last for a pass."""

SCORES = 2 * POINTS + 120

UNKNOWN_WINNER = -1
"""What `fill_targets` takes for a result that is not known; else BLACK, WHITE, or 0 for a draw."""

_WINS, _SCORE = (0, 4, 8, 12, 16), 3
_LATER = (8, 32)
_VERSION = 3
_COINS = 0.98 ** np.arange(1, 6)
_TOSS = np.uint64(0x6B617461636F696E)
_SECOND_WORD = np.uint64(0x6B61746167616D65)


class Targets(NamedTuple):
    """Targets of N positions, under the names and with the shapes and types of KataGo's files.

    policy: [N, 2, 362] int16, the move and the one after it.  targets: [N, 80] float32.  scores: [N, 842] int8.
    values: [N, 5, 19, 19] int8, of which the third and the fourth are boards to come, the others empty.
    """

    policy: npt.NDArray[np.int16]
    targets: npt.NDArray[np.float32]
    scores: npt.NDArray[np.int8]
    values: npt.NDArray[np.int8]


class GameSpan(NamedTuple):
    """Which moves of some games rows are made of, one entry a game.

    first, stop: [R] int32: the first ply of which there may be a row, and the number of moves played before the game is
    taken to be over: trailing passes are none of them.
    winner: [R] int8: BLACK, WHITE, 0 for a draw or UNKNOWN_WINNER.  trusted: [R] float32, the weight of that, 0 to 1.
    key: [R] uint64, a name for each game, which its rows carry.
    """

    first: npt.NDArray[np.int32]
    stop: npt.NDArray[np.int32]
    winner: npt.NDArray[np.int8]
    trusted: npt.NDArray[np.float32]
    key: npt.NDArray[np.uint64]


class TargetScratch:
    """What one thread needs to fill targets: boards by the size of game, and scratch."""

    def __init__(self) -> None:
        self._courses: dict[tuple[int, int], BoardHistory] = {}
        self._plies = 0
        self.boards = np.empty((0, 2, 6), np.uint64)
        self.komi = np.empty(0, np.float32)

    def course(self, width: int, height: int, plies: int) -> BoardHistory:
        """A course on a board of that size, with room for so many moves."""
        if plies >= len(self.boards):
            room = max(plies + 1, 2 * len(self.boards), 512)
            self.boards, self.komi = np.empty((room, 2, 6), np.uint64), np.empty(room, np.float32)
            self._courses.clear()
        if (width, height) not in self._courses:
            state = new_context(width, height, SIDE, SIDE, 0).s
            self._courses[width, height] = new_board_history(state, len(self.boards))
        return self._courses[width, height]


def fill_targets(
    desk: TargetScratch,
    games: RootedGames,
    rows: npt.NDArray[np.int64],
    terms: npt.NDArray[np.void],
    span: GameSpan,
    game: npt.NDArray[np.int64],
    ply: npt.NDArray[np.int32],
) -> Targets:
    """The targets of N positions of R games.

    rows: [R] int64, the games; each is at most 19 x 19, and can be played up to its `span.stop` under its terms, as
    `KataEncoder.encode` tells.  terms: [R] of `kifu.katago.rules.TERMS`.
    game: [N] int64, rising, an index of rows; ply: [N] int32, each within the game's span. Stones that are set up after
    the root are not looked at.
    Raises ValueError if a game cannot be played so far.
    """
    n = len(game)
    out = Targets(
        np.zeros((n, 2, MOVES), np.int16),
        np.zeros((n, TARGETS), np.float32),
        np.zeros((n, SCORES), np.int8),
        np.zeros((n, 5, POINTS), np.int8),
    )
    _fill_same(out, span.key[game], ply)
    slots = np.searchsorted(game, np.arange(len(rows) + 1)).astype(np.int64)
    longest, stones = int(span.stop.max(initial=0)), games.setup_offset[rows + 1] - games.setup_offset[rows]
    plies = games.move_offset[rows + 1] - games.move_offset[rows]
    placed = np.empty(plies.max(initial=0), np.uint16), np.empty(stones.max(initial=0), np.uint16)
    sizes = games.width[rows].astype(np.int64) << 8 | games.height[rows]
    for size in np.unique(sizes).tolist():
        width, height = size >> 8, size & 0xFF
        course = desk.course(width, height, longest)
        failed = _fill(
            course, codes_of(terms), writable_view(games.moves), writable_view(games.move_offset), writable_view(games.setup),
            writable_view(games.setup_ply), writable_view(games.setup_offset), writable_view(games.root_setup), rows,
            np.flatnonzero(sizes == size), make_placing(width, height, False, SIDE, SIDE, 0).table[0], placed, span,
            slots, ply, desk.boards, desk.komi, out,
        )  # fmt: skip
        if failed >= 0:
            raise ValueError(f"game {rows[failed]} cannot be played for {span.stop[failed]} moves")
    return out._replace(values=out.values.reshape(n, 5, SIDE, SIDE))


def key_columns(key: npt.NDArray[np.uint64]) -> npt.NDArray[np.float32]:
    """[N, 6] float32, columns 41 to 46: the keys of games and a hash of each, cut into pieces that float32 holds."""
    words = np.stack([key, mix_words(key ^ _SECOND_WORD)], 1)
    pieces = [words & 0x3FFFFF, words >> np.uint64(22) & np.uint64(0x3FFFFF), words >> np.uint64(44)]
    columns: npt.NDArray[np.float32] = np.stack(pieces, 2).reshape(len(key), 6).astype(np.float32)
    return columns


def _fill_same(out: Targets, key: npt.NDArray[np.uint64], ply: npt.NDArray[np.int32]) -> None:
    """Fills what does not depend on the game's course."""
    to = out.targets
    to[:, [24, 25, 26, 33]] = 1
    to[:, 63] = _VERSION
    # One number decides all five: history k is shown where it is below 0.98 ** k, as if five coins were tossed.
    drawn = mix_words(mix_words(key ^ _TOSS) + ply.astype(np.uint64)) * 2.0**-64
    to[:, 36:41] = drawn[:, None] < _COINS
    to[:, 41:47] = key_columns(key)
    out.scores[:, SCORES // 2 - 1 : SCORES // 2 + 1] = 50


@kernel
def _fill(
    course: BoardHistory, codes: Any, moves: Any, move_offset: Any, setup: Any, setup_ply: Any, setup_offset: Any,
    root_setup: Any, rows: Any, which: Any, table: Any, placed: Any, span: GameSpan, slots: Any, ply: Any, boards: Any,
    komi: Any, out: Targets,
) -> Any:  # fmt: skip
    """Plays the games rows[which], all of the size of the course, and fills their rows, slots[r] to slots[r + 1] - 1.

    boards: [more than plies, 2, W] uint64 and komi: as many float32, scratch: the stones before each move, and White's
    komi with all that is added to it. Returns the first game that cannot be played to its stop, or -1.
    """
    words, stones = placed
    for j in range(which.shape[0]):
        r = which[j]
        g = rows[r]
        place(moves, move_offset[g], move_offset[g + 1], table, words)
        place(setup, setup_offset[g], setup_offset[g + 1], table, stones)
        due = setup_ply[setup_offset[g] : setup_offset[g + 1]]
        clear(course.s)
        if span.stop[r] == 0:
            continue
        if set_up_root(course, stones, due, np.int64(root_setup[g])) != 0:
            return r
        begin(course, codes[r], WHITE if words[0] & WHITE_BIT else BLACK)
        if not _play(course, words, span.stop[r], boards, komi):
            return r
        for k in range(slots[r], slots[r + 1]):
            _fill_row(course, words, ply[k], span.first[r], span.stop[r], boards, komi, k, out)
            _fill_result(words[ply[k]], span.winner[r], span.trusted[r], k, out)
    return -1


@inline_kernel
def _play(course: BoardHistory, words: Any, stop: Any, boards: Any, komi: Any) -> Any:
    """Plays the moves before `stop`, keeping what was before each and after the last. Returns whether all could be."""
    for t in range(stop + 1):
        copy_stones(course.s, False, boards[t])
        komi[t] = own_komi(course, WHITE)
        if t < stop:
            p = np.int64(words[t] & POINT_MASK)
            if advance(course, p, np.uint8(WHITE if words[t] & WHITE_BIT else BLACK)) != 0:
                return False
    return True


@inline_kernel
def _stones_of(board: Any) -> Any:
    """How many stones of one colour are in a bit set."""
    count = 0
    for i in range(board.shape[0]):
        count += popcount(board[i])
    return count


@inline_kernel
def _fill_row(
    course: BoardHistory, words: Any, t: Any, first: Any, stop: Any, boards: Any, komi: Any, k: Any, out: Targets
) -> None:
    """Fills row k, of the position before move t, but for the result. course: at its end."""
    to = out.targets[k]
    white = words[t] & WHITE_BIT != 0
    sign = np.float32(1 if white else -1)
    out.policy[k, 0, words[t] & POINT_MASK] = 1
    answered = t + 1 < stop and (words[t + 1] ^ words[t]) & WHITE_BIT != 0 and words[t + 1] & POINT_MASK != POINTS
    if answered:
        out.policy[k, 1, words[t + 1] & POINT_MASK] = 1
        to[28] = 1
    else:
        for p in range(MOVES):
            out.policy[k, 1, p] = 1
    for later in range(2):
        _fill_board(boards[min(t + _LATER[later], stop)], white, out.values[k, 2 + later])
    black_stones, white_stones = _stones_of(boards[0, 0]), _stones_of(boards[0, 1])
    to[47] = sign * komi[t]
    to[48] = 1 - course.codes[TERRITORY]
    to[51] = t - first
    to[53] = first
    to[54] = handicap_stones(course.codes, black_stones, white_stones)
    to[56] = black_stones + white_stones
    to[57] = sign * np.float32(0)
    to[58] = sign * np.float32(0)
    to[61] = komi[stop] - komi[t] if white else komi[t] - komi[stop]
    to[62] = course.scalars[FINISHED]


@inline_kernel
def _fill_board(board: Any, white: Any, out: Any) -> None:
    """Fills out [points] int8 with the stones of a board: 1 the mover's, -1 the opponent's."""
    for c in range(2):
        stone = 1 if (c == 1) == white else -1
        for i in range(board.shape[1]):
            word = board[c, i]
            while word != ZERO:
                out[64 * i + some_point(word)] = stone
                word &= word - ONE


@inline_kernel
def _fill_result(word: Any, winner: Any, trusted: Any, k: Any, out: Targets) -> None:
    """Fills who has won, for the player of move `word`."""
    to = out.targets[k]
    known = winner != UNKNOWN_WINNER
    mover = WHITE if word & WHITE_BIT else BLACK
    decided = known and winner != 0
    win = np.float32(1 if winner == mover else 0) if decided else np.float32(0.5)
    for at in _WINS:
        to[at] = win
        to[at + 1] = 1 - win
        to[at + _SCORE] = win - np.float32(0.5)
    to[35] = 1 - trusted if known else np.float32(1)
