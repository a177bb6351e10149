"""KataGo's BoardHistory: ko and superko bans, the end of a game by passes, and White's bonus points.

A `BoardHistory` is a compiled board (`kifu.go.state.State`) with the further state of KataGo's class of that name, as
of v1.17.2. It follows a game to its end or, with territory scoring, to the end of the normal phase: two passes then
begin KataGo's encore, which is not implemented.

Superko and the end of a game:

ko rule      forbidden                    passes before a move   the game ends at
simple       simple ko recapture          -                      2 passes; a pass in a situation in which the same
                                                                 player has passed; the third occurrence of a
                                                                 situation since a pass
positional   an earlier position          count                  2 passes
situational  an earlier position with     count                  2 passes
             the same player to move
spight       a position since the last    are forgotten          a pass in a situation in which the same player has
             pass                                                passed

Taking the button is a pass that ends nothing; all earlier positions are then forgotten.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.arrays import Hashes, Indices
from kifu.go import rules as go
from kifu.go.state import SUICIDE_FORBIDDEN, SUICIDE_REMOVED, ZERO, State, bit, pass_turn, play, popcount
from kifu.katago.rules import BONUS_N, BONUS_ZERO, KO_SIMPLE, KO_SITUATIONAL, KO_SPIGHT
from kifu.kernel import inline_kernel
from kifu.point import BLACK, WHITE

RuleCodes = Indices

# Indices of a row of `rule_codes`
KO, TERRITORY, TAX, SUICIDE, BUTTON, BONUS, KOMI, HANDICAP = range(8)

# Indices of BoardHistory.scalars
TURNS = 0  # moves played, including passes
ENDING_PASSES = 1  # consecutive passes at the end that count towards the end of the game
NEXT_PLAYER = 2  # the opponent of the last mover: BLACK or WHITE
FINISHED = 3  # 1 once the game is over
PAST_NORMAL_PHASE = 4  # 1 once the normal phase is over and the encore would begin
WHITE_BONUS = 5  # White's points besides komi and handicap bonus, in half points
HANDICAP_BONUS = 6  # White's points for handicap stones, in half points
HAS_BUTTON = 7  # 1 while the button may be taken
N_SCALARS = 8


class BoardHistory(NamedTuple):
    """A board and the history of its game, under one set of rules.

    Attributes:
        seen: The positions or situations that superko compares with; with simple ko, the situations since the last
            pass.
        seen_twice: With simple ko, the situations that occurred twice.
        pass_situations: The situations in which a player has passed.
        ever_occupied: [W] uint64 bit set of the points where a stone was ever placed.
    """

    s: State
    rules: RuleCodes
    seen: go.History
    seen_twice: go.History
    pass_situations: go.History
    ever_occupied: Hashes
    scalars: Indices


def new_board_history(s: State, plies: int) -> BoardHistory:
    """Return a history around a board, whatever is on it, for games of at most `plies` moves."""
    return BoardHistory(
        s=s, rules=np.zeros(8, np.int64), seen=go.new_history(plies), seen_twice=go.new_history(plies),
        pass_situations=go.new_history(plies), ever_occupied=np.zeros(len(s.words), np.uint64),
        scalars=np.zeros(N_SCALARS, np.int64),
    )  # fmt: skip


def rule_codes(rules: npt.NDArray[np.void]) -> RuleCodes:
    """Return the rules of G games, [G] of `kifu.katago.rules.GAME_RULES`, for kernels: [G, 8] int64, half points."""
    codes = np.empty((len(rules), 8), np.int64)
    codes[:, KO] = rules["ko"]
    codes[:, TERRITORY] = rules["territory"]
    codes[:, TAX] = rules["tax"]
    codes[:, SUICIDE] = np.where(rules["suicide"] != 0, SUICIDE_REMOVED, SUICIDE_FORBIDDEN)
    codes[:, BUTTON] = rules["button"]
    codes[:, BONUS] = rules["bonus"]
    codes[:, KOMI] = np.rint(rules["komi"].astype(np.float64) * 2)
    codes[:, HANDICAP] = rules["handicap"]
    return codes


@inline_kernel
def board_ko_rule(h: BoardHistory) -> Any:
    """Return the code in `kifu.go.rules` of the ko rule by which positions are compared."""
    ko = h.rules[KO]
    if ko == KO_SIMPLE:
        return go.KO_SIMPLE
    return go.KO_SITUATIONAL if ko == KO_SITUATIONAL else go.KO_POSITIONAL


@inline_kernel
def _count_stones(s: State, c: Any) -> Any:
    n = 0
    for k in range(3):
        for i in range(len(s.words)):
            n += popcount(s.stones_by_liberties[c - 1, k, i])
    return n


@inline_kernel
def handicap_stones(rules: Any, black: Any, white: Any) -> Any:
    """Return the handicap: HA if it is known, else the number of black setup stones if there are no white ones."""
    if rules[HANDICAP] >= 0:
        return rules[HANDICAP]
    return black if white == 0 and black > 1 else 0


@inline_kernel
def _handicap_bonus(rules: Any, black: Any, white: Any) -> Any:
    stones = handicap_stones(rules, black, white)
    if rules[BONUS] == BONUS_ZERO:
        return 0
    return stones if rules[BONUS] == BONUS_N else max(stones - 1, 0)


@inline_kernel
def _record_situation(h: BoardHistory) -> Any:
    """Record the position before the next player's move. Returns whether its third occurrence ends the game."""
    ko = h.rules[KO]
    c = h.scalars[NEXT_PLAYER]
    if ko != KO_SIMPLE:
        go.add_situation(h.seen, go.situation_hash(h.s.hash[0], c, board_ko_rule(h)))
        return False
    situation = go.situation_hash(h.s.hash[0], c, go.KO_SITUATIONAL)
    if not go.contains(h.seen, situation):
        go.add_situation(h.seen, situation)
    elif not go.contains(h.seen_twice, situation):
        go.add_situation(h.seen_twice, situation)
    else:
        return True
    return False


@inline_kernel
def _forget_situations(h: BoardHistory) -> None:
    go.clear_history(h.seen)
    go.clear_history(h.seen_twice)


@inline_kernel
def start_game(h: BoardHistory, rules: Any, first: Any) -> None:
    """Start from the stones on the board, all with liberties. rules: [8] of `rule_codes`. first: BLACK or WHITE."""
    s, scalars = h.s, h.scalars
    for k in range(rules.shape[0]):
        h.rules[k] = rules[k]
    for i in range(len(s.words)):
        word = ZERO
        for c in range(2):
            for k in range(3):
                word |= s.stones_by_liberties[c, k, i]
        h.ever_occupied[i] = word
    black, white = _count_stones(s, BLACK), _count_stones(s, WHITE)
    scalars[TURNS] = 0
    scalars[ENDING_PASSES] = 0
    scalars[NEXT_PLAYER] = first
    scalars[FINISHED] = 0
    scalars[PAST_NORMAL_PHASE] = 0
    scalars[WHITE_BONUS] = 2 * (black - white) if rules[TERRITORY] != 0 else 0
    scalars[HANDICAP_BONUS] = 2 * _handicap_bonus(rules, black, white)
    scalars[HAS_BUTTON] = rules[BUTTON]
    _forget_situations(h)
    go.clear_history(h.pass_situations)
    _record_situation(h)


@inline_kernel
def is_over(h: BoardHistory) -> Any:
    """Return whether the game, or its normal phase, has ended."""
    return h.scalars[FINISHED] != 0 or h.scalars[PAST_NORMAL_PHASE] != 0


@inline_kernel
def white_bonus(h: BoardHistory) -> Any:
    """Return White's half points besides komi: for moves with territory scoring, the button and the handicap."""
    return h.scalars[WHITE_BONUS] + h.scalars[HANDICAP_BONUS]


@inline_kernel
def _pass_situation(h: BoardHistory, c: Any) -> Any:
    return h.s.hash[0] ^ go.WHITE_TO_MOVE if c == WHITE else h.s.hash[0]


@inline_kernel
def _repeated_pass_ends(h: BoardHistory) -> Any:
    return h.rules[KO] == KO_SIMPLE or h.rules[KO] == KO_SPIGHT


@inline_kernel
def pass_would_end_phase(h: BoardHistory, c: Any) -> Any:
    """Return whether a pass of player c would end the game or its normal phase."""
    if h.rules[KO] != KO_SPIGHT and h.scalars[ENDING_PASSES] > 0:
        return True
    return _repeated_pass_ends(h) and go.contains(h.pass_situations, _pass_situation(h, c))


@inline_kernel
def _play_pass(h: BoardHistory, c: Any) -> None:
    scalars = h.scalars
    if scalars[HAS_BUTTON] != 0:
        scalars[HAS_BUTTON] = 0
        scalars[WHITE_BONUS] += 1 if c == WHITE else -1
        scalars[ENDING_PASSES] = 0
        _forget_situations(h)
        go.clear_history(h.pass_situations)
    else:
        if pass_would_end_phase(h, c):
            scalars[PAST_NORMAL_PHASE if h.rules[TERRITORY] != 0 else FINISHED] = 1
        if h.rules[KO] != KO_SPIGHT:
            scalars[ENDING_PASSES] += 1
        if _repeated_pass_ends(h):
            _forget_situations(h)
        go.add_situation(h.pass_situations, _pass_situation(h, c))
    pass_turn(h.s)


@inline_kernel
def play_move(h: BoardHistory, p: Any, c: Any) -> Any:
    """Play a move of colour c (BLACK or WHITE), in turn or not: a stone on point p, or a pass if p is the wall's index.

    The game must not be over. Returns 0, or OFF_BOARD, OCCUPIED, SUICIDE, KO or SUPERKO, which change nothing.
    """
    s, scalars = h.s, h.scalars
    if p > s.neighbours.shape[0]:
        return go.OFF_BOARD
    if p == s.neighbours.shape[0]:
        _play_pass(h, c)
    else:
        reason = go.illegal_reason(s, h.seen, p, c, board_ko_rule(h), h.rules[SUICIDE])
        if reason != 0:
            return reason
        play(s, p, c, h.rules[SUICIDE])
        h.ever_occupied[p >> 6] |= bit(p)
        scalars[ENDING_PASSES] = 0
        if h.rules[TERRITORY] != 0:
            scalars[WHITE_BONUS] += 2 if c == BLACK else -2
    scalars[TURNS] += 1
    scalars[NEXT_PLAYER] = 3 - c
    if _record_situation(h) and p < s.neighbours.shape[0]:
        scalars[FINISHED] = 1
    return 0
