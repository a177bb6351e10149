"""Ladders, read to their end: which chains atari alone captures, which moves capture them, and which save them.

docs/ladders.md defines what is read, lists its bounds, and compares it with other programs.

The result for a chain is cached together with the set of points that it depends on, and the chain is read again only
once something has changed there, so most chains are not read at every move. The result is still a function of the
position alone: any position on a board of the same size, with the same neighbours, may be asked about next.

The search pushes stones onto the board and pops them off again, at about half the work of `kifu.go.state.play`. `push`
changes only what the search reads: `colour`, `chain_id`, `next_in_chain`, `n_stones`, `n_liberties` and `liberties` of
the State. The rest stays as it was at the root. After as many calls of `pop`, every stone and chain is as before.
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
    extend_chain,
    last_point,
    new_state,
    popcount,
    relabel_chain,
    would_have_liberty,
)
from kifu.kernel import inline_kernel, kernel

# Indices of UndoStack.scalars
DEPTH = 0  # the number of stones pushed
N_UNDO_SCALARS = 1


class UndoStack(NamedTuple):
    """A stack of up to D moves, with what `pop` needs to undo them. Index d belongs to the move pushed at depth d."""

    scalars: npt.NDArray[np.int64]  # [N_UNDO_SCALARS]
    ko: npt.NDArray[np.int64]  # [D + 1]: the point that simple ko forbids at each depth; -1 if none
    point: npt.NDArray[np.int64]  # [D]: the move
    # [D]: the board's entry for this point before the move. Like the next two, it may belong to a chain that an earlier
    # move of the stack captured.
    chain_id: npt.NDArray[np.int64]
    next_in_chain: npt.NDArray[np.int64]  # [D]: likewise
    n_stones: npt.NDArray[np.int64]  # [D]: likewise
    n_saved: npt.NDArray[np.int64]  # [D]: how many chains grew by the move
    # [D, 4]: these chains: the first grew by the stone, the others by a chain merged into them. If none grew, the first
    # is what the board had under the id of the stone: a chain with that id may be part of one that an earlier move
    # captured.
    saved_chain: npt.NDArray[np.int64]
    saved_n_liberties: npt.NDArray[np.int64]  # [D, 4]: their number of liberties before
    saved_liberties: npt.NDArray[np.uint64]  # [D, 4, W]: their liberties before
    merged_chain: npt.NDArray[np.int64]  # [D, 4]: the chain that was merged into each
    n_captured: npt.NDArray[np.int64]  # [D]: how many chains the move captured
    captured: npt.NDArray[np.int64]  # [D, 4]: these chains


def new_undo_stack(depth: int, words: int) -> UndoStack:
    """Return an empty stack of up to `depth` moves, for boards whose bit sets have that many words."""
    return UndoStack(
        scalars=np.zeros(N_UNDO_SCALARS, np.int64), ko=np.zeros(depth + 1, np.int64), point=np.zeros(depth, np.int64),
        chain_id=np.zeros(depth, np.int64), next_in_chain=np.zeros(depth, np.int64),
        n_stones=np.zeros(depth, np.int64), n_saved=np.zeros(depth, np.int64),
        saved_chain=np.zeros((depth, 4), np.int64), saved_n_liberties=np.zeros((depth, 4), np.int64),
        saved_liberties=np.zeros((depth, 4, words), np.uint64), merged_chain=np.zeros((depth, 4), np.int64),
        n_captured=np.zeros(depth, np.int64), captured=np.zeros((depth, 4), np.int64),
    )  # fmt: skip


@inline_kernel
def reset_undo(s: State, t: UndoStack) -> None:
    """Empty the stack and take the position s as its root, without undoing anything."""
    t.scalars[DEPTH] = 0
    t.ko[0] = s.scalars[KO_POINT]


@inline_kernel
def _save_liberties(s: State, t: UndoStack, d: Any, k: Any, h: Any) -> None:
    t.saved_chain[d, k] = h
    t.saved_n_liberties[d, k] = s.n_liberties[h]
    for i in range(len(s.words)):
        t.saved_liberties[d, k, i] = s.liberties[h, i]


@inline_kernel
def _restore_liberties(s: State, t: UndoStack, d: Any, k: Any, h: Any) -> None:
    s.n_liberties[h] = t.saved_n_liberties[d, k]
    for i in range(len(s.words)):
        s.liberties[h, i] = t.saved_liberties[d, k, i]


@inline_kernel
def _merge(s: State, a: Any, b: Any, p: Any) -> None:
    """Merge chain b into chain a; p, the new stone between them, is no longer a liberty."""
    n = 0
    for i in range(len(s.words)):
        both = s.liberties[a, i] | s.liberties[b, i]
        if i == p >> 6:
            both &= ~bit(p)
        s.liberties[a, i] = both
        n += popcount(both)
    s.n_liberties[a] = n
    s.n_stones[a] += s.n_stones[b]
    relabel_chain(s, b, a)
    s.next_in_chain[a], s.next_in_chain[b] = s.next_in_chain[b], s.next_in_chain[a]


@inline_kernel
def _new_chain(s: State, p: Any) -> None:
    """Make a chain of the single stone p, already coloured."""
    for i in range(len(s.words)):
        s.liberties[p, i] = ZERO
    free = 0
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == EMPTY:
            s.liberties[p, q >> 6] |= bit(q)
            free += 1
    s.n_liberties[p] = free
    s.n_stones[p] = 1
    s.chain_id[p] = p
    s.next_in_chain[p] = p


@inline_kernel
def _capture(s: State, g: Any, c: Any) -> None:
    """Remove chain g; its points become liberties of the chains of colour c around it."""
    p = np.int64(g)
    while True:
        s.colour[p] = EMPTY
        w, b = p >> 6, bit(p)
        for k in range(4):
            q = s.neighbours[p, k]
            if s.colour[q] == c:
                h = s.chain_id[q]
                if s.liberties[h, w] & b == ZERO:
                    s.liberties[h, w] |= b
                    s.n_liberties[h] += 1
        p = np.int64(s.next_in_chain[p])
        if p == g:
            break


@inline_kernel
def _undo_capture(s: State, g: Any, c: Any) -> None:
    """Put chain g, captured by colour c, back on the board; its own liberties are restored later."""
    p = np.int64(g)
    while True:
        s.colour[p] = 3 - c
        w, b = p >> 6, bit(p)
        for k in range(4):
            q = s.neighbours[p, k]
            if s.colour[q] == c:
                h = s.chain_id[q]
                if s.liberties[h, w] & b != ZERO:
                    s.liberties[h, w] &= ~b
                    s.n_liberties[h] -= 1
        p = np.int64(s.next_in_chain[p])
        if p == g:
            break


@inline_kernel
def push(s: State, t: UndoStack, p: Any, c: Any) -> None:
    """Play a stone of colour c on the empty point p, where it must not be suicide. The stack must not be full."""
    d = t.scalars[DEPTH]
    t.point[d] = p
    t.chain_id[d] = s.chain_id[p]
    t.next_in_chain[d] = s.next_in_chain[p]
    t.n_stones[d] = s.n_stones[p]
    s.colour[p] = c
    me: Any = -1
    n_saved = 0
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == c:
            h = np.int64(s.chain_id[q])
            if me < 0:
                _save_liberties(s, t, d, n_saved, h)
                extend_chain(s, h, p)
                me = h
                n_saved += 1
            elif h != me:
                larger, smaller = (me, h) if s.n_stones[me] >= s.n_stones[h] else (h, me)
                _save_liberties(s, t, d, n_saved, larger)
                t.merged_chain[d, n_saved] = smaller
                _merge(s, larger, smaller, p)
                me = larger
                n_saved += 1
    t.n_saved[d] = n_saved
    if me < 0:
        _save_liberties(s, t, d, 0, p)
        _new_chain(s, p)
        me = np.int64(p)
    w, b = p >> 6, bit(p)
    n_captured = 0
    stones = 0
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == 3 - c:
            h = np.int64(s.chain_id[q])
            if s.liberties[h, w] & b != ZERO:  # else an earlier neighbour was of the same chain
                s.liberties[h, w] &= ~b
                s.n_liberties[h] -= 1
                if s.n_liberties[h] == 0:
                    t.captured[d, n_captured] = h
                    n_captured += 1
                    stones += s.n_stones[h]
                    _capture(s, h, c)
    t.n_captured[d] = n_captured
    t.ko[d + 1] = t.captured[d, 0] if stones == 1 and s.n_stones[me] == 1 and s.n_liberties[me] == 1 else -1
    t.scalars[DEPTH] = d + 1


@inline_kernel
def pop(s: State, t: UndoStack) -> None:
    """Undo the last move pushed."""
    d = t.scalars[DEPTH] - 1
    t.scalars[DEPTH] = d
    p = t.point[d]
    c = s.colour[p]
    for k in range(t.n_captured[d]):
        _undo_capture(s, t.captured[d, k], c)
    w, b = p >> 6, bit(p)
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == 3 - c:
            h = s.chain_id[q]
            if s.liberties[h, w] & b == ZERO:
                s.liberties[h, w] |= b
                s.n_liberties[h] += 1
    for k in range(t.n_saved[d] - 1, 0, -1):
        h, merged = t.saved_chain[d, k], t.merged_chain[d, k]
        s.next_in_chain[h], s.next_in_chain[merged] = s.next_in_chain[merged], s.next_in_chain[h]
        relabel_chain(s, merged, merged)
        s.n_stones[h] -= s.n_stones[merged]
        _restore_liberties(s, t, d, k, h)
    if t.n_saved[d] > 0:
        h = t.saved_chain[d, 0]
        s.next_in_chain[h] = s.next_in_chain[p]
        s.n_stones[h] -= 1
    _restore_liberties(s, t, d, 0, t.saved_chain[d, 0])
    s.chain_id[p] = t.chain_id[d]
    s.next_in_chain[p] = t.next_in_chain[d]
    s.n_stones[p] = t.n_stones[d]
    s.colour[p] = EMPTY


# The search

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
    """

    scalars: npt.NDArray[np.int64]  # [N_LADDER_SCALARS]
    colour: npt.NDArray[np.uint8]  # [n + 1]: the last position
    # [W]: bit set of the chains with a cached result. In this class a chain is identified by the last stone of the
    # first word of its bit set that is not 0.
    cached: npt.NDArray[np.uint64]
    # [n, W]: bit sets by chain: the first moves that work, capturing or saving it
    working_moves: npt.NDArray[np.uint64]
    depends_on: npt.NDArray[np.uint64]  # [n, W]: bit sets by chain: the points that the result depends on
    # [n]: by chain id of the board: the last search that added the chain to `depends_on`
    last_search: npt.NDArray[np.int64]
    changed: npt.NDArray[np.uint64]  # [W]: bit set: points changed since the last position
    pending: npt.NDArray[np.uint64]  # [W]: bit set: chains not looked at yet
    candidates: npt.NDArray[np.uint64]  # [W]: bit set: first moves not tried yet
    undo: UndoStack
    moves: npt.NDArray[np.int64]  # [D, 2]: by level: moves to try, the best one last
    n_moves: npt.NDArray[np.int64]  # [D]: by level
    captures: npt.NDArray[np.uint64]  # [D, W]: bit sets by level: moves to try after these, which capture attackers
    n_captures: npt.NDArray[np.int64]  # [D]: by level


def new_ladder_search(width: int, height: int) -> LadderSearch:
    """Return a search with nothing cached, for boards of one size. Raises GameError if it is not in 1..25."""
    state = new_state(width, height)
    n, words = width * height, len(state.words)
    depth = 3 * n // 2 + 2
    return LadderSearch(
        scalars=np.array([-1, 0, NODE_LIMIT], np.int64), colour=state.colour, cached=np.zeros(words, np.uint64),
        working_moves=np.zeros((n, words), np.uint64), depends_on=np.zeros((n, words), np.uint64),
        last_search=np.zeros(n, np.int64), changed=np.zeros(words, np.uint64), pending=np.zeros(words, np.uint64),
        candidates=np.zeros(words, np.uint64), undo=new_undo_stack(depth, words), moves=np.zeros((depth, 2), np.int64),
        n_moves=np.zeros(depth, np.int64), captures=np.zeros((depth, words), np.uint64),
        n_captures=np.zeros(depth, np.int64),
    )  # fmt: skip


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
    """Return chain h's liberties after c plays p, ignoring captures. attacker: a liberty played before, or -1."""
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

    captures: [W] uint64, filled with the bit set of moves that capture one of the opponent's chains of two liberties in
    a ladder; escapes: [W] uint64, likewise of moves that save one of the mover's chains in atari.
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
