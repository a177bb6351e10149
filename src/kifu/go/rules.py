"""What rule sets differ in (ko, superko, suicide), and which moves are legal under them.

A superko rule compares positions by their 64-bit Zobrist hash. The position that a move would make is hashed without
playing it: the hash now, with the stone and each chain that would leave the board toggled. `History` holds what it is
compared with: every position of the game that a player had to move in. So a pass is never illegal for the position that
it repeats (as in the Tromp-Taylor rules), and the position after it counts, with the other player to move.

Setting up stones begins the history anew, as it lifts the ban of simple ko: it is no move, so nothing was repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason, RecipeError
from kifu.go.state import (
    EMPTY,
    KO_POINT,
    LAST_CAPTURED,
    LAST_POINT,
    OCCUPIED,
    SUICIDE,
    SUICIDE_FORBIDDEN,
    SUICIDE_REMOVED,
    WHITE,
    State,
    has_own_neighbour,
    pass_turn,
    play,
    would_have_liberty,
)
from kifu.kernel import inline_kernel, kernel

KO_NONE, KO_SIMPLE, KO_POSITIONAL, KO_SITUATIONAL = range(4)

Ko = Literal["none", "simple", "positional", "situational"]
"""simple: a lone stone that has just captured one stone may not be captured by a lone stone at once.
positional: no move may make a position that stood on the board before.
situational: the same, if the same player was to move in it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a player may do. The defaults forbid the least that any common rule set forbids: see `RECORD_RULES`.

    ko: see `Ko`.
    suicide: whether a move may take off its own chain of two or more stones. A single stone never may: that changes
        nothing on the board, and no rule set needs it told from a pass.

    >>> Rules.named("aga")
    Rules(ko='situational', suicide=False)
    """

    ko: Ko = "simple"
    suicide: bool = True

    def __post_init__(self) -> None:
        if self.ko not in get_args(Ko):
            raise RecipeError(f"ko rule {self.ko!r} is none of {', '.join(get_args(Ko))}")

    @classmethod
    def named(cls, name: str) -> Rules:
        """The rule set of that name, in either case. Raises RecipeError if there is none."""
        try:
            return NAMED[name.lower()]
        except KeyError:
            raise RecipeError(f"rule set {name!r} is none of {', '.join(NAMED)}") from None

    @property
    def codes(self) -> tuple[int, int]:
        """(ko, suicide) as kernels take them: KO_* and SUICIDE_*."""
        return get_args(Ko).index(self.ko), SUICIDE_REMOVED if self.suicide else SUICIDE_FORBIDDEN


RECORD_RULES = Rules()
"""The rules under which records are read: they refuse only what no common rule set allows, since a record seldom says
truly under which rules it was played. Suicide is among the allowed: servers offer the New Zealand rules."""

NAMED = {
    "records": RECORD_RULES,
    "japanese": Rules("simple", suicide=False),
    "korean": Rules("simple", suicide=False),
    # By its text; in tournaments referees mostly end a triple ko without result instead.
    "chinese": Rules("positional", suicide=False),
    "aga": Rules("situational", suicide=False),
    "new-zealand": Rules("situational", suicide=True),
    "tromp-taylor": Rules("positional", suicide=True),
}

KO = int(DropReason.KO)
SUPERKO = int(DropReason.SUPERKO)
OFF_BOARD = int(DropReason.OFF_BOARD)

WHITE_TO_MOVE = np.uint64(0x9E3779B97F4A7C15)  # any odd-looking constant would do

# Indices of History.numbers
STAMP = 0
COUNT = 1


class History(NamedTuple):
    """The positions of one game that a player had to move in: an open-addressing table, emptied by a new stamp.

    slots: [2**k] uint64, hashes.  stamps: [2**k] int64: a slot is taken if its stamp is the present one.
    numbers: [2] int64: the present stamp, and how many slots are taken.
    """

    slots: npt.NDArray[np.uint64]
    stamps: npt.NDArray[np.int64]
    scalars: npt.NDArray[np.int64]


def new_history(plies: int) -> History:
    """An empty history of a game, or of one game after another, with at most `plies` moves each.

    Only superko needs one: for other rules `new_history(0)` serves any game.
    """
    size = 1 << (2 * plies + 1).bit_length()
    return History(np.zeros(size, np.uint64), np.zeros(size, np.int64), np.array([1, 0], np.int64))


@inline_kernel
def clear_history(history: History) -> None:
    """Empties the history."""
    history.scalars[STAMP] += 1
    history.scalars[COUNT] = 0


@inline_kernel
def _slot(history: History, situation: Any) -> Any:
    """Where the situation is, or else where it would go. There is always a free slot: half of them stay so."""
    mask = history.slots.shape[0] - 1
    i = np.int64(situation & np.uint64(mask))
    while history.stamps[i] == history.scalars[STAMP] and history.slots[i] != situation:
        i = (i + 1) & mask
    return i


@inline_kernel
def contains(history: History, situation: Any) -> Any:
    """Whether the situation is in the history."""
    return history.stamps[_slot(history, situation)] == history.scalars[STAMP]


@inline_kernel
def add_situation(history: History, situation: Any) -> None:
    """Puts the situation into the history, which must have been made for enough plies."""
    i = _slot(history, situation)
    if history.stamps[i] != history.scalars[STAMP]:
        history.slots[i] = situation
        history.stamps[i] = history.scalars[STAMP]
        history.scalars[COUNT] += 1


@kernel
def add_all(history: History, situations: npt.NDArray[np.uint64]) -> None:
    """Puts all of them into the history."""
    for i in range(situations.shape[0]):
        add_situation(history, situations[i])


def enlarged(history: History) -> History:
    """The same history with room for twice as many plies."""
    larger = new_history(len(history.slots) // 2)
    add_all(larger, history.slots[history.stamps == history.scalars[STAMP]])
    return larger


@inline_kernel
def situation_hash(position: Any, c: Any, ko: Any) -> Any:
    """What superko compares: the position's hash, told apart by the player c to move if the rule is situational."""
    if ko == KO_SITUATIONAL and c == WHITE:
        return position ^ WHITE_TO_MOVE
    return position


@inline_kernel
def hash_after(s: State, p: Any, c: Any) -> Any:
    """The hash of the position after a stone of colour c on the empty point p. Nothing is played.

    A stone that stays without a liberty takes its own chain off.
    """
    h = s.hash[0] ^ s.zobrist[c - 1, p]
    gone = 3 - c if would_have_liberty(s, p, c) else c
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == gone and s.n_liberties[s.chain_id[q]] == 1:
            first = True
            for j in range(k):
                other = s.neighbours[p, j]
                if s.colour[other] == gone and s.chain_id[other] == s.chain_id[q]:
                    first = False
            if first:
                h ^= s.key[s.chain_id[q]]
    if gone == c:
        h ^= s.zobrist[c - 1, p]
    return h


@inline_kernel
def is_ko_recapture(s: State, p: Any, c: Any) -> Any:
    """Whether a stone of colour c on p is what simple ko forbids: the other colour moved last, and p is its ko."""
    return p == s.scalars[KO_POINT] and s.colour[s.scalars[LAST_POINT]] != c


@inline_kernel
def illegal_reason(s: State, history: History, p: Any, c: Any, ko: Any, suicide: Any) -> Any:
    """0 if a stone of colour c (BLACK or WHITE) may be played on point p, else OCCUPIED, SUICIDE, KO or SUPERKO.

    p is a point of the board, not a pass.  ko, suicide: see `Rules.codes`.
    """
    if s.colour[p] != EMPTY:
        return OCCUPIED
    if not would_have_liberty(s, p, c) and (suicide == SUICIDE_FORBIDDEN or not has_own_neighbour(s, p, c)):
        return SUICIDE
    if ko != KO_NONE and is_ko_recapture(s, p, c):
        return KO
    if ko >= KO_POSITIONAL and contains(history, situation_hash(hash_after(s, p, c), 3 - c, ko)):
        return SUPERKO
    return 0


@inline_kernel
def make_move(s: State, history: History, p: Any, c: Any, ko: Any, suicide: Any) -> Any:
    """Plays a move of colour c (BLACK or WHITE), if legal: a stone on point p, or a pass if p is the wall's index.

    Returns 0, or OFF_BOARD, OCCUPIED, SUICIDE, KO or SUPERKO, and then nothing has changed.
    """
    n = s.neighbours.shape[0]
    if p > n:
        return OFF_BOARD
    if ko >= KO_POSITIONAL:
        if p < n:
            why = illegal_reason(s, history, p, c, ko, suicide)
            if why != 0:
                return why
        add_situation(history, situation_hash(s.hash[0], c, ko))
    if p == n:
        pass_turn(s)
        return 0
    if ko != KO_NONE and is_ko_recapture(s, p, c):
        return KO
    return play(s, p, c, suicide)


@inline_kernel
def count_captures(s: State, p: Any, c: Any, captures: Any) -> None:
    """Adds what the stone just played on p took to captures: [2] int64, stones taken by Black and by White.

    Stones that took themselves off count for the other player.
    """
    captures[c - 1] += s.scalars[LAST_CAPTURED]
    if s.scalars[LAST_POINT] < 0:
        captures[2 - c] += s.n_stones[s.chain_id[p]]  # the chain is gone, but its record stands until the next move


@kernel
def legal_mask(s: State, history: History, c: int, ko: int, suicide: int, out: npt.NDArray[np.bool_]) -> None:
    """Fills out: [n + 1] bool, which moves of colour c are legal. A pass, the last one, always is."""
    n = s.neighbours.shape[0]
    for p in range(n):
        out[p] = illegal_reason(s, history, p, c, ko, suicide) == 0
    out[n] = True
