"""A game as KataGo follows it: whose ko and superko bans hold, how passes end it, what White has got beside komi.

A `BoardHistory` is a compiled board (`kifu.go.state.State`) and what KataGo's BoardHistory keeps beside it, as of v1.17.2. It
is followed up to the end of the game, or, where territory is counted, of its normal phase: two passes there begin what
KataGo calls the encore, and what is played in that is not followed.

Superko, and the ends of a game:

ko rule      a move may not make          passes before do   ends at
simple       what simple ko forbids       -                  2 passes; a pass where the same player passed before; a
                                                             situation that stands for the third time since a pass
positional   a position that stood        count              2 passes
situational  the same, if the same        count              2 passes
             player was to move then
spight       a position that stood        forgotten          a pass where the same player passed before
             since the last pass

Taking the button is a pass that ends nothing, and all positions before it are forgotten.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go import rules as go
from kifu.go.rules import (
    OFF_BOARD,
    WHITE_TO_MOVE,
    History,
    add_situation,
    clear_history,
    contains,
    illegal_reason,
    new_history,
    situation_hash,
)
from kifu.go.state import (
    SUICIDE_FORBIDDEN,
    SUICIDE_REMOVED,
    ZERO,
    State,
    bit,
    pass_turn,
    play,
    popcount,
)
from kifu.katago.rules import BONUS_N, BONUS_ZERO, KO_SIMPLE, KO_SITUATIONAL, KO_SPIGHT
from kifu.kernel import inline_kernel
from kifu.point import BLACK, WHITE

Codes = npt.NDArray[np.int64]

# Indices of a row of `codes_of`
KO, TERRITORY, TAX, SUICIDE_CODE, BUTTON_RULE, BONUS_RULE, KOMI, HANDICAP = range(8)

# Indices of Course.numbers
TURNS = 0  # moves played, passes too
PASSES = 1  # how many of the last moves were passes that count for the end
NEXT = 2  # the player who did not move last: BLACK or WHITE
FINISHED = 3  # 1 once the game is over
PAST = 4  # 1 once the normal phase is over, and the encore would begin
BONUS = 5  # points that White has beside komi and what handicap gives, in halves
HANDICAP_BONUS = 6  # points that White gets for handicap stones, in halves
BUTTON = 7  # 1 as long as the button may be taken
N_COURSE_NUMBERS = 8


class BoardHistory(NamedTuple):
    """A game in its course, under one set of rules.

    s: the board.  codes: [8] int64, the game's row of `codes_of`.
    seen: what superko compares with, or under simple ko each situation since the last pass; again: those of them that
        stood twice.  passed: the situations that somebody passed in.
    ever: [W] uint64, bit set of the points where a stone stood or was played.
    numbers: [N_COURSE_NUMBERS] int64.
    """

    s: State
    codes: Codes
    seen: History
    again: History
    passed: History
    ever: npt.NDArray[np.uint64]
    scalars: npt.NDArray[np.int64]


def new_board_history(s: State, plies: int) -> BoardHistory:
    """A course on that board (whatever is on it), with room for games of at most `plies` moves."""
    return BoardHistory(
        s=s,
        codes=np.zeros(8, np.int64),
        seen=new_history(plies),
        again=new_history(plies),
        passed=new_history(plies),
        ever=np.zeros(len(s.words), np.uint64),
        scalars=np.zeros(N_COURSE_NUMBERS, np.int64),
    )


def codes_of(terms: npt.NDArray[np.void]) -> Codes:
    """[G, 8] int64: the terms of games (`kifu.katago.rules.TERMS`) as kernels take them, komi in half points."""
    codes = np.empty((len(terms), 8), np.int64)
    codes[:, KO] = terms["ko"]
    codes[:, TERRITORY] = terms["territory"]
    codes[:, TAX] = terms["tax"]
    codes[:, SUICIDE_CODE] = np.where(terms["suicide"] != 0, SUICIDE_REMOVED, SUICIDE_FORBIDDEN)
    codes[:, BUTTON_RULE] = terms["button"]
    codes[:, BONUS_RULE] = terms["bonus"]
    codes[:, KOMI] = np.rint(terms["komi"].astype(np.float64) * 2)
    codes[:, HANDICAP] = terms["handicap"]
    return codes


@inline_kernel
def go_ko(course: BoardHistory) -> Any:
    """The ko rule as `kifu.go.rules` has it."""
    ko = course.codes[KO]
    if ko == KO_SIMPLE:
        return go.KO_SIMPLE
    return go.KO_SITUATIONAL if ko == KO_SITUATIONAL else go.KO_POSITIONAL


@inline_kernel
def _stones(s: State, c: Any) -> Any:
    """How many stones of colour c are on the board."""
    n = 0
    for k in range(3):
        for i in range(len(s.words)):
            n += popcount(s.stones_by_liberties[c - 1, k, i])
    return n


@inline_kernel
def handicap_stones(codes: Any, black: Any, white: Any) -> Any:
    """How large the handicap is: as HA tells it, else by the stones that were set up."""
    if codes[HANDICAP] >= 0:
        return codes[HANDICAP]
    return black if white == 0 and black > 1 else 0


@inline_kernel
def _handicap_bonus(codes: Any, black: Any, white: Any) -> Any:
    """Points that White gets for the handicap."""
    stones = handicap_stones(codes, black, white)
    if codes[BONUS_RULE] == BONUS_ZERO:
        return 0
    return stones if codes[BONUS_RULE] == BONUS_N else max(stones - 1, 0)


@inline_kernel
def _note_situation(course: BoardHistory) -> Any:
    """Keeps the position that the next player is to move in. Returns whether it ends the game by standing thrice."""
    ko = course.codes[KO]
    c = course.scalars[NEXT]
    if ko != KO_SIMPLE:
        add_situation(course.seen, situation_hash(course.s.hash[0], c, go_ko(course)))
        return False
    situation = situation_hash(course.s.hash[0], c, go.KO_SITUATIONAL)
    if not contains(course.seen, situation):
        add_situation(course.seen, situation)
    elif not contains(course.again, situation):
        add_situation(course.again, situation)
    else:
        return True
    return False


@inline_kernel
def _forget_situations(course: BoardHistory) -> None:
    clear_history(course.seen)
    clear_history(course.again)


@inline_kernel
def begin(course: BoardHistory, codes: Any, first: Any) -> None:
    """Begins a game from what is on the board, where no stone lacks liberties.

    codes: [8], a row of `codes_of`.  first: who moves first, BLACK or WHITE.
    """
    s, numbers = course.s, course.scalars
    for k in range(codes.shape[0]):
        course.codes[k] = codes[k]
    for i in range(len(s.words)):
        word = ZERO
        for c in range(2):
            for k in range(3):
                word |= s.stones_by_liberties[c, k, i]
        course.ever[i] = word
    black, white = _stones(s, BLACK), _stones(s, WHITE)
    numbers[TURNS] = 0
    numbers[PASSES] = 0
    numbers[NEXT] = first
    numbers[FINISHED] = 0
    numbers[PAST] = 0
    numbers[BONUS] = 2 * (black - white) if codes[TERRITORY] != 0 else 0
    numbers[HANDICAP_BONUS] = 2 * _handicap_bonus(codes, black, white)
    numbers[BUTTON] = codes[BUTTON_RULE]
    _forget_situations(course)
    clear_history(course.passed)
    _note_situation(course)


@inline_kernel
def is_over(course: BoardHistory) -> Any:
    """Whether the game, or its normal phase, has ended."""
    return course.scalars[FINISHED] != 0 or course.scalars[PAST] != 0


@inline_kernel
def bonus(course: BoardHistory) -> Any:
    """What White has beside komi, in half points: moves where territory is counted, the button, the handicap."""
    return course.scalars[BONUS] + course.scalars[HANDICAP_BONUS]


@inline_kernel
def _pass_situation(course: BoardHistory, c: Any) -> Any:
    return course.s.hash[0] ^ WHITE_TO_MOVE if c == WHITE else course.s.hash[0]


@inline_kernel
def _passes_end_alone(course: BoardHistory) -> Any:
    """Whether a pass ends the phase where its player passed in the same situation before."""
    return course.codes[KO] == KO_SIMPLE or course.codes[KO] == KO_SPIGHT


@inline_kernel
def pass_would_end(course: BoardHistory, c: Any) -> Any:
    """Whether a pass of player c would end the game or its normal phase."""
    if course.codes[KO] != KO_SPIGHT and course.scalars[PASSES] > 0:
        return True
    return _passes_end_alone(course) and contains(course.passed, _pass_situation(course, c))


@inline_kernel
def _pass(course: BoardHistory, c: Any) -> None:
    numbers = course.scalars
    if numbers[BUTTON] != 0:
        numbers[BUTTON] = 0
        numbers[BONUS] += 1 if c == WHITE else -1
        numbers[PASSES] = 0
        _forget_situations(course)
        clear_history(course.passed)
    else:
        if pass_would_end(course, c):
            numbers[PAST if course.codes[TERRITORY] != 0 else FINISHED] = 1
        if course.codes[KO] != KO_SPIGHT:
            numbers[PASSES] += 1
        if _passes_end_alone(course):
            _forget_situations(course)
        add_situation(course.passed, _pass_situation(course, c))
    pass_turn(course.s)


@inline_kernel
def advance(course: BoardHistory, p: Any, c: Any) -> Any:
    """Plays a move of colour c (BLACK or WHITE): a stone on point p, or a pass if p is the wall's index.

    The game must not be over; it may be c's turn or not. Returns 0, or OFF_BOARD, OCCUPIED, SUICIDE, KO or SUPERKO, and
    then nothing has changed.
    """
    s, numbers = course.s, course.scalars
    if p > s.neighbours.shape[0]:
        return OFF_BOARD
    if p == s.neighbours.shape[0]:
        _pass(course, c)
    else:
        why = illegal_reason(s, course.seen, p, c, go_ko(course), course.codes[SUICIDE_CODE])
        if why != 0:
            return why
        play(s, p, c, course.codes[SUICIDE_CODE])
        course.ever[p >> 6] |= bit(p)
        numbers[PASSES] = 0
        if course.codes[TERRITORY] != 0:
            numbers[BONUS] += 2 if c == BLACK else -2
    numbers[TURNS] += 1
    numbers[NEXT] = 3 - c
    if _note_situation(course) and p < s.neighbours.shape[0]:
        numbers[FINISHED] = 1
    return 0
