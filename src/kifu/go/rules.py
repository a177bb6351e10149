"""The rules that Go rule sets differ in (ko, superko, suicide), and which moves are legal under them.

Superko compares positions by their 64-bit Zobrist hash. The position that a move would lead to is hashed without
playing the move: the current hash, with the stone and each chain that would leave the board toggled. `History` holds
the positions to compare with: every position of the game in which a player was to move. So a pass is never illegal for
repeating a position (as in the Tromp-Taylor rules), and the position after it counts, with the other player to move.

Setup clears the history, as it lifts the ban of simple ko: it is not a move, so nothing was repeated.
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
    State,
    has_own_neighbour,
    pass_turn,
    play,
    would_have_liberty,
)
from kifu.kernel import inline_kernel, kernel
from kifu.point import WHITE
from kifu.registry import unknown

KO_NONE, KO_SIMPLE, KO_POSITIONAL, KO_SITUATIONAL = range(4)

Ko = Literal["none", "simple", "positional", "situational"]
"""simple: a lone stone that has just captured one stone may not be captured by a lone stone at once.
positional: no move may recreate a position that stood on the board before.
situational: likewise, if the same player was to move in it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The ko and suicide rules. The defaults forbid the least that any common rule set forbids, see `RECORD_RULES`.

    Attributes:
        suicide: Whether a move may remove its own chain of two or more stones. Suicide of a single stone is always
            illegal: it changes nothing on the board, so no rule set needs to distinguish it from a pass.

    Examples:
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
        """Return the rule set of a name, in any case. Raises RecipeError, which lists all names, if it is unknown."""
        try:
            return NAMED[name.lower()]
        except KeyError:
            raise unknown("rule set", name, NAMED) from None

    @property
    def codes(self) -> tuple[int, int]:
        """(ko, suicide) as kernels take them: KO_* and SUICIDE_*."""
        return get_args(Ko).index(self.ko), SUICIDE_REMOVED if self.suicide else SUICIDE_FORBIDDEN


RECORD_RULES = Rules()
"""The rules for reading records. They refuse only what no common rule set allows, since a record seldom names the rules
it was played by correctly. Suicide is legal: servers offer the New Zealand rules."""

NAMED = {
    "records": RECORD_RULES,
    "japanese": Rules("simple", suicide=False),
    "korean": Rules("simple", suicide=False),
    # By its text; in tournaments referees mostly declare a triple ko void instead.
    "chinese": Rules("positional", suicide=False),
    "aga": Rules("situational", suicide=False),
    "new-zealand": Rules("situational", suicide=True),
    "tromp-taylor": Rules("positional", suicide=True),
}

KO = int(DropReason.KO)
SUPERKO = int(DropReason.SUPERKO)
OFF_BOARD = int(DropReason.OFF_BOARD)

WHITE_TO_MOVE = np.uint64(0x9E3779B97F4A7C15)  # an arbitrary constant

# Indices of History.scalars
STAMP = 0
COUNT = 1


class History(NamedTuple):
    """The positions of one game in which a player was to move: an open-addressing hash set, emptied by a new stamp."""

    slots: npt.NDArray[np.uint64]  # [2**k]: hashes
    stamps: npt.NDArray[np.int64]  # [2**k]: ; a slot is taken if its stamp is the current one
    scalars: npt.NDArray[np.int64]  # [2]: the current stamp, and how many slots are taken


def new_history(plies: int) -> History:
    """Return an empty history for a game, or for games one after another, of at most `plies` moves each.

    Only superko uses it; for other rules `new_history(0)` serves any game.
    """
    size = 1 << (2 * plies + 1).bit_length()
    return History(np.zeros(size, np.uint64), np.zeros(size, np.int64), np.array([1, 0], np.int64))


@inline_kernel
def clear_history(history: History) -> None:
    """Empty the history."""
    history.scalars[STAMP] += 1
    history.scalars[COUNT] = 0


@inline_kernel
def _slot(history: History, situation: Any) -> Any:
    """Return the slot of a situation, or else the free one for it. At least half of the slots are always free."""
    mask = history.slots.shape[0] - 1
    i = np.int64(situation & np.uint64(mask))
    while history.stamps[i] == history.scalars[STAMP] and history.slots[i] != situation:
        i = (i + 1) & mask
    return i


@inline_kernel
def contains(history: History, situation: Any) -> Any:
    """Return whether the situation is in the history."""
    return history.stamps[_slot(history, situation)] == history.scalars[STAMP]


@inline_kernel
def add_situation(history: History, situation: Any) -> None:
    """Add the situation to the history, which must have been made for enough plies."""
    i = _slot(history, situation)
    if history.stamps[i] != history.scalars[STAMP]:
        history.slots[i] = situation
        history.stamps[i] = history.scalars[STAMP]
        history.scalars[COUNT] += 1


@kernel
def add_all(history: History, situations: npt.NDArray[np.uint64]) -> None:
    """Add situations to the history."""
    for i in range(situations.shape[0]):
        add_situation(history, situations[i])


def enlarged(history: History) -> History:
    """Return the same history with room for twice as many plies."""
    larger = new_history(len(history.slots) // 2)
    add_all(larger, history.slots[history.stamps == history.scalars[STAMP]])
    return larger


@inline_kernel
def situation_hash(position: Any, c: Any, ko: Any) -> Any:
    """Return the hash that superko compares: of the position and, for situational superko, the player c to move."""
    if ko == KO_SITUATIONAL and c == WHITE:
        return position ^ WHITE_TO_MOVE
    return position


@inline_kernel
def hash_after(s: State, p: Any, c: Any) -> Any:
    """Return the hash as if colour c played on the empty point p; a stone without liberties removes its chain."""
    h = s.hash[0] ^ s.zobrist[c - 1, p]
    removed = 3 - c if would_have_liberty(s, p, c) else c
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == removed and s.n_liberties[s.chain_id[q]] == 1:
            first = True
            for j in range(k):
                other = s.neighbours[p, j]
                if s.colour[other] == removed and s.chain_id[other] == s.chain_id[q]:
                    first = False
            if first:
                h ^= s.key[s.chain_id[q]]
    if removed == c:
        h ^= s.zobrist[c - 1, p]
    return h


@inline_kernel
def is_ko_recapture(s: State, p: Any, c: Any) -> Any:
    """Return whether simple ko forbids colour c the point p: the other colour moved last, and p is its ko."""
    return p == s.scalars[KO_POINT] and s.colour[s.scalars[LAST_POINT]] != c


@inline_kernel
def illegal_reason(s: State, history: History, p: Any, c: Any, ko: Any, suicide: Any) -> Any:
    """Return 0 if colour c may play on point p, else OCCUPIED, SUICIDE, KO or SUPERKO. ko, suicide: `Rules.codes`."""
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
    """Play a move of colour c (BLACK or WHITE) if it is legal: a stone on point p, or a pass if p is the wall's index.

    Returns 0, or OFF_BOARD, OCCUPIED, SUICIDE, KO or SUPERKO, in which case nothing has changed.
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
    """Add what the stone just played on p captured to [2] int64 of Black and White; suicide is the opponent's."""
    captures[c - 1] += s.scalars[LAST_CAPTURED]
    if s.scalars[LAST_POINT] < 0:
        captures[2 - c] += s.n_stones[s.chain_id[p]]  # the chain is gone, but its entry stays until the next move


@kernel
def legal_mask(s: State, history: History, c: int, ko: int, suicide: int, out: npt.NDArray[np.bool_]) -> None:
    """Fill out [n + 1] bool: which moves of colour c are legal. A pass, the last one, always is."""
    n = s.neighbours.shape[0]
    for p in range(n):
        out[p] = illegal_reason(s, history, p, c, ko, suicide) == 0
    out[n] = True
