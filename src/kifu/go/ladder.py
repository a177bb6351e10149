"""Ladders, read to their end: which chains atari alone captures, which moves capture them, and which save them.

docs/ladders.md defines what is read, lists its bounds, and compares it with other programs.

The result for a chain is cached together with the set of points that it depends on, and the chain is read again only
once something has changed there, so most chains are not read at every move. The result is still a function of the
position alone: any position on a board of the same size, with the same neighbours, may be asked about next.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.rules import is_ko_recapture
from kifu.go.state import (
    EMPTY,
    KO_POINT,
    ONE,
    WALL,
    ZERO,
    State,
    bit,
    last_point,
    new_state,
    popcount,
    would_have_liberty,
)
from kifu.go.undo import DEPTH, UndoStack, new_undo_stack, pop, push, reset_undo
from kifu.kernel import inline_kernel, kernel

NODE_LIMIT = 25_000
"""Maximum number of stones played after each first move before the search gives up."""

# Verdicts
OPEN, CAPTURED, ESCAPED = range(3)

# Indices of LadderSearch.scalars
KO = 0  # the point that simple ko forbade in the last position; -1 if none
SEARCH = 1  # how many chains have been read
NODES = 2  # how many stones may be played after each first move
N_LADDER_SCALARS = 3


class LadderSearch(NamedTuple):
    """Cached results and scratch memory for the ladders of one board of n points, for one thread.

    A level of the search is the number of stones played since its first move; there are at most D.

    Attributes:
        scalars: [N_LADDER_SCALARS] int64.
        colour: [n + 1] uint8, the last position.
        cached: [W] uint64, bit set of the chains with a cached result. In this class a chain is identified by the last
            stone of the first word of its bit set that is not 0.
        working_moves: [n, W] uint64, bit sets by chain: the first moves that work, capturing or saving it.
        depends_on: [n, W] uint64, bit sets by chain: the points that the result depends on.
        last_search: [n] int64, by chain id of the board: the last search that added the chain to `depends_on`.
        changed: [W] uint64, bit set: points changed since the last position.
        pending: [W] uint64, bit set: chains not looked at yet.
        candidates: [W] uint64, bit set: first moves not tried yet.
        moves: [D, 2] int64, by level: moves to try, the best one last.
        n_moves: [D] int64, by level.
        captures: [D, W] uint64, bit sets by level: moves to try after these, which capture attackers.
        n_captures: [D] int64, by level.
    """

    scalars: npt.NDArray[np.int64]
    colour: npt.NDArray[np.uint8]
    cached: npt.NDArray[np.uint64]
    working_moves: npt.NDArray[np.uint64]
    depends_on: npt.NDArray[np.uint64]
    last_search: npt.NDArray[np.int64]
    changed: npt.NDArray[np.uint64]
    pending: npt.NDArray[np.uint64]
    candidates: npt.NDArray[np.uint64]
    undo: UndoStack
    moves: npt.NDArray[np.int64]
    n_moves: npt.NDArray[np.int64]
    captures: npt.NDArray[np.uint64]
    n_captures: npt.NDArray[np.int64]


def new_ladder_search(width: int, height: int) -> LadderSearch:
    """Return a search with nothing cached, for boards of one size.

    Raises:
        GameError: If width or height is not in 1..25.
    """
    state = new_state(width, height)
    n, words = width * height, len(state.words)
    depth = 3 * n // 2 + 2
    return LadderSearch(
        scalars=np.array([-1, 0, NODE_LIMIT], np.int64),
        colour=state.colour,
        cached=np.zeros(words, np.uint64),
        working_moves=np.zeros((n, words), np.uint64),
        depends_on=np.zeros((n, words), np.uint64),
        last_search=np.zeros(n, np.int64),
        changed=np.zeros(words, np.uint64),
        pending=np.zeros(words, np.uint64),
        candidates=np.zeros(words, np.uint64),
        undo=new_undo_stack(depth, words),
        moves=np.zeros((depth, 2), np.int64),
        n_moves=np.zeros(depth, np.int64),
        captures=np.zeros((depth, words), np.uint64),
        n_captures=np.zeros(depth, np.int64),
    )


@inline_kernel
def _pop_point(words: Any, row: Any) -> Any:
    """Remove the last point of the first word that has any from a bit set, and return it; -1 if the set is empty."""
    for i in range(len(words)):
        word = row[i]
        if word != ZERO:
            row[i] = word & (word - ONE)
            return np.int64(last_point(i, word))
    return np.int64(-1)


@inline_kernel
def _liberty(s: State, h: Any, besides: Any) -> Any:
    """Return a liberty of chain h other than the point `besides` (which may be the wall), or -1."""
    for i in range(len(s.words)):
        word = s.liberties[h, i]
        if i == besides >> 6:
            word &= ~bit(besides)
        if word != ZERO:
            return np.int64(last_point(i, word))
    return np.int64(-1)


@inline_kernel
def _add_chain_dependency(s: State, lad: LadderSearch, row: Any, h: Any) -> None:
    """Add chain h and its liberties to the points that the result depends on.

    This must precede any move of the search that takes a liberty from the chain, or extends it. Chains that the search
    itself made need not be added: the points around their stones were.
    """
    if lad.last_search[h] != lad.scalars[SEARCH]:
        lad.last_search[h] = lad.scalars[SEARCH]
        if lad.colour[h] != EMPTY:
            for i in range(len(s.words)):
                row[i] |= s.stones[h, i] | s.liberties[h, i]


@inline_kernel
def _add_dependency(s: State, lad: LadderSearch, row: Any, p: Any) -> None:
    """Add the empty points and chains around p to the points that the result depends on."""
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == EMPTY:
            row[q >> 6] |= bit(q)
        elif s.colour[q] != WALL:
            _add_chain_dependency(s, lad, row, s.chain_id[q])


@inline_kernel
def _captures_any(s: State, p: Any, c: Any) -> Any:
    """Return whether a stone of colour c on the empty point p captures a chain."""
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == 3 - c and s.n_liberties[s.chain_id[q]] == 1:
            return True
    return False


@inline_kernel
def _liberties_after(s: State, c: Any, h: Any, p: Any, attacker: Any) -> Any:
    """Return how many liberties chain h of colour c would have after a stone on its liberty p, ignoring captures.

    attacker: another of its liberties, where an attacker plays before that; -1 for none.
    """
    joins = False
    new = 0
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == EMPTY:
            if q != attacker and s.liberties[h, q >> 6] & bit(q) == ZERO:
                new += 1
        elif s.colour[q] == c and s.chain_id[q] != h:
            joins = True
    if not joins:
        return s.n_liberties[h] + new - (1 if attacker < 0 else 2)
    n = 0
    for i in range(len(s.words)):
        word = s.liberties[h, i]
        for k in range(4):
            q = s.neighbours[p, k]
            if s.colour[q] == c:
                word |= s.liberties[s.chain_id[q], i]
            elif s.colour[q] == EMPTY and q >> 6 == i:
                word |= bit(q)
        if i == p >> 6:
            word &= ~bit(p)
        if attacker >= 0 and i == attacker >> 6:
            word &= ~bit(attacker)
        n += popcount(word)
    return n


@inline_kernel
def _is_ko_mouth(s: State, p: Any, c: Any) -> Any:
    """Return whether p has only stones of colour c and the wall around it, and a move there would capture just one."""
    taken: Any = -1
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == c:
            h = np.int64(s.chain_id[q])
            if s.n_liberties[h] == 1 and h != taken:
                if taken >= 0 or s.n_stones[h] != 1:
                    return False
                taken = h
        elif s.colour[q] != WALL:
            return False
    return taken >= 0


@inline_kernel
def _find_captures(s: State, lad: LadderSearch, depends_on: Any, c: Any, h: Any, row: Any) -> Any:
    """Fill the bit set row with the points where chain h of colour c captures a chain beside it, and count them."""
    for i in range(len(s.words)):
        row[i] = ZERO
    n = 0
    p = np.int64(h)
    while True:
        for k in range(4):
            q = s.neighbours[p, k]
            if s.colour[q] == 3 - c:
                g = s.chain_id[q]
                _add_chain_dependency(s, lad, depends_on, g)
                if s.n_liberties[g] == 1:
                    at = _liberty(s, g, s.neighbours.shape[0])
                    if row[at >> 6] & bit(at) == ZERO:
                        row[at >> 6] |= bit(at)
                        n += 1
        p = np.int64(s.next_in_chain[p])
        if p == h:
            return n


@inline_kernel
def _attack(s: State, lad: LadderSearch, row: Any, d: Any, c: Any, h: Any) -> Any:
    """Return a verdict on chain h of colour c with the attacker to move; if OPEN, store the moves to try at level d."""
    if s.n_liberties[h] <= 1:
        return CAPTURED
    if s.n_liberties[h] >= 3:
        return ESCAPED
    a = _liberty(s, h, s.neighbours.shape[0])
    b = _liberty(s, h, a)
    _add_dependency(s, lad, row, a)
    _add_dependency(s, lad, row, b)
    after_a = _liberties_after(s, c, h, b, a)
    after_b = _liberties_after(s, c, h, a, b)
    if (
        _is_ko_mouth(s, a, c)
        and _is_ko_mouth(s, b, c)
        and _liberties_after(s, c, h, a, -1) <= 2
        and _liberties_after(s, c, h, b, -1) <= 2
        and _find_captures(s, lad, row, c, h, lad.captures[d]) == 0
    ):
        return CAPTURED
    if after_a > after_b:
        a, b = b, a
        after_a, after_b = after_b, after_a
    ko = lad.undo.ko[lad.undo.scalars[DEPTH]]
    n = 0
    if after_b < 3 and b != ko and would_have_liberty(s, b, 3 - c):
        lad.moves[d, n] = b
        n += 1
    if after_a < 3 and a != ko and would_have_liberty(s, a, 3 - c):
        lad.moves[d, n] = a
        n += 1
    lad.n_moves[d] = n
    lad.n_captures[d] = 0
    return OPEN


@inline_kernel
def _defend(s: State, lad: LadderSearch, row: Any, d: Any, c: Any, h: Any) -> Any:
    """Return a verdict on chain h of colour c with its own side to move; if OPEN, store the moves to try at level d."""
    if s.n_liberties[h] >= 2:
        return ESCAPED
    if d > 0 and lad.undo.ko[lad.undo.scalars[DEPTH]] >= 0:
        return ESCAPED
    p = _liberty(
        s, h, s.neighbours.shape[0]
    )  # a dependency already: it was one of two liberties when the chain was attacked
    n = _liberties_after(s, c, h, p, -1)
    if n >= 3:
        return ESCAPED
    n_captures = _find_captures(s, lad, row, c, h, lad.captures[d])
    lad.n_moves[d] = 0
    if n == 2 or _captures_any(s, p, c):
        lad.moves[d, 0] = p
        lad.n_moves[d] = 1
    if lad.captures[d, p >> 6] & bit(p) != ZERO:
        lad.captures[d, p >> 6] &= ~bit(p)
        n_captures -= 1
    lad.n_captures[d] = n_captures
    return OPEN


@inline_kernel
def _next_move(s: State, lad: LadderSearch, d: Any) -> Any:
    """Return the next move to try at level d; -1 if none is left."""
    if lad.n_moves[d] > 0:
        lad.n_moves[d] -= 1
        return np.int64(lad.moves[d, lad.n_moves[d]])
    if lad.n_captures[d] > 0:
        lad.n_captures[d] -= 1
        return _pop_point(s.words, lad.captures[d])
    return np.int64(-1)


@inline_kernel
def _is_captured(s: State, lad: LadderSearch, row: Any, target: Any, defends: Any) -> Any:
    """Return whether the chain of `target` is captured, with its own side (`defends`) or the attacker to move."""
    c = np.int64(s.colour[target])
    d = 0
    nodes = 0
    verdict = OPEN
    arrived = True
    while True:
        if arrived:
            h = np.int64(s.chain_id[target])
            verdict = _defend(s, lad, row, d, c, h) if defends else _attack(s, lad, row, d, c, h)
            arrived = False
        elif defends == (verdict == CAPTURED):
            verdict = OPEN
        if verdict == OPEN:
            p = _next_move(s, lad, d)
            if p < 0:
                verdict = CAPTURED if defends else ESCAPED
            elif nodes == lad.scalars[NODES] or d + 2 == lad.n_moves.shape[0]:
                for _ in range(d):
                    pop(s, lad.undo)
                return False
            else:
                mover = c if defends else 3 - c
                _add_dependency(s, lad, row, p)
                push(s, lad.undo, p, mover)
                nodes += 1
                d += 1
                defends = not defends
                arrived = True
                continue
        if d == 0:
            return verdict == CAPTURED
        pop(s, lad.undo)
        d -= 1
        defends = not defends


@kernel
def _solve(s: State, lad: LadderSearch, target: int) -> None:
    """Find and cache the first moves that work for the chain of the stone `target`.

    If it has two liberties, these are the moves that capture it; if it has one, those that save it, ignoring ko.
    """
    h = np.int64(s.chain_id[target])
    c = np.int64(s.colour[target])
    working_moves, row = lad.working_moves[target], lad.depends_on[target]
    for i in range(len(s.words)):
        working_moves[i] = ZERO
        row[i] = ZERO
        lad.candidates[i] = s.liberties[h, i]
    lad.scalars[SEARCH] += 1
    attacked = s.n_liberties[h] == 2
    mover = 3 - c if attacked else c
    reset_undo(s, lad.undo)
    if not attacked:
        own = _liberty(s, h, s.neighbours.shape[0])
        _find_captures(s, lad, row, c, h, lad.candidates)
        lad.candidates[own >> 6] |= bit(own)
    while True:
        p = _pop_point(s.words, lad.candidates)
        if p < 0:
            break
        _add_dependency(s, lad, row, p)
        if not would_have_liberty(s, p, mover) or (attacked and p == lad.undo.ko[0]):
            continue
        push(s, lad.undo, p, mover)
        if _is_captured(s, lad, row, target, attacked) == attacked:
            working_moves[p >> 6] |= bit(p)
        pop(s, lad.undo)
    lad.cached[target >> 6] |= bit(target)


@inline_kernel
def _drop_changed(s: State, lad: LadderSearch) -> None:
    """Drop cached results that depend on points that have changed since the last position."""
    n = s.neighbours.shape[0]
    for i in range(len(s.words)):
        lad.changed[i] = ZERO
    any_change = False
    for i in range(len(s.words)):
        first, stop = 64 * i, min(64 * i + 64, n)
        differs = np.uint8(0)
        for p in range(first, stop):
            differs |= s.colour[p] ^ lad.colour[p]
        if differs == 0:
            continue
        any_change = True
        for p in range(first, stop):
            if s.colour[p] != lad.colour[p]:
                lad.changed[i] |= bit(p)
                if lad.colour[p] != EMPTY:  # the chains around it may have gained a liberty
                    for k in range(4):
                        q = s.neighbours[p, k]
                        lad.changed[q >> 6] |= bit(q)
                lad.colour[p] = s.colour[p]
    for ko in (lad.scalars[KO], s.scalars[KO_POINT]):
        if ko >= 0 and lad.scalars[KO] != s.scalars[KO_POINT]:
            any_change = True
            lad.changed[ko >> 6] |= bit(ko)
    lad.scalars[KO] = s.scalars[KO_POINT]
    if not any_change:
        return
    for i in range(len(s.words)):
        word = lad.cached[i]
        while word != ZERO:
            chain = last_point(i, word)
            word &= word - ONE
            hit = ZERO
            for j in range(len(s.words)):
                hit |= lad.depends_on[chain, j] & lad.changed[j]
            if hit != ZERO:
                lad.cached[i] &= ~bit(chain)


@inline_kernel
def _next_chain(s: State, lad: LadderSearch) -> Any:
    """Remove a chain from `pending`, solve it unless it is cached, and return it; -1 if none is left."""
    chain = _pop_point(s.words, lad.pending)
    if chain >= 0:
        h = s.chain_id[chain]
        for i in range(len(s.words)):
            lad.pending[i] &= ~s.stones[h, i]
        if lad.cached[chain >> 6] & bit(chain) == ZERO:
            _solve(s, lad, chain)
    return chain


@inline_kernel
def ladder_moves(
    s: State, lad: LadderSearch, mover: Any, captures: npt.NDArray[np.uint64], escapes: npt.NDArray[np.uint64]
) -> None:
    """Find the moves of `mover` (BLACK or WHITE) that decide a ladder.

    Args:
        lad: The search, of the same size.
        captures: [W] uint64, filled with the bit set of moves that capture one of the opponent's chains of two
            liberties in a ladder.
        escapes: [W] uint64, filled with the bit set of moves that save one of the mover's chains in atari.
    """
    _drop_changed(s, lad)
    for i in range(len(s.words)):
        lad.pending[i] = s.stones_by_liberties[2 - mover, 1, i] | s.stones_by_liberties[mover - 1, 0, i]
        captures[i] = ZERO
        escapes[i] = ZERO
    while True:
        chain = _next_chain(s, lad)
        if chain < 0:
            break
        for i in range(len(s.words)):
            if s.colour[chain] == mover:
                escapes[i] |= lad.working_moves[chain, i]
            else:
                captures[i] |= lad.working_moves[chain, i]
    ko = s.scalars[KO_POINT]
    if ko >= 0 and is_ko_recapture(s, ko, mover):
        escapes[ko >> 6] &= ~bit(ko)


@inline_kernel
def laddered_stones(s: State, lad: LadderSearch, stones: npt.NDArray[np.uint64]) -> None:
    """Fill the bit set stones [W] uint64 with the stones of both colours that are captured in a ladder.

    These are chains of two liberties that the opponent captures by moving first, and chains of one liberty that no move
    of their own side saves.
    """
    _drop_changed(s, lad)
    for i in range(len(s.words)):
        lad.pending[i] = (
            s.stones_by_liberties[0, 0, i]
            | s.stones_by_liberties[0, 1, i]
            | s.stones_by_liberties[1, 0, i]
            | s.stones_by_liberties[1, 1, i]
        )
        stones[i] = ZERO
    while True:
        chain = _next_chain(s, lad)
        if chain < 0:
            break
        some = ZERO
        for i in range(len(s.words)):
            some |= lad.working_moves[chain, i]
        h = s.chain_id[chain]
        if (some != ZERO) == (s.n_liberties[h] == 2):
            for i in range(len(s.words)):
                stones[i] |= s.stones[h, i]
