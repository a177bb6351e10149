"""Ladders, read to their end: which chains are caught by ataris alone, which moves catch them, and which save them.

docs/ladders.md defines what is read, says what bounds it, and how it differs from what other programs read.

What was found for a chain is kept, with the set of points that it rests on, and is found anew only once something has
changed there; so most chains are not read at every move. It is still a function of the position alone: any position on
a board of the same points, with the same neighbours, may be asked about next.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.rules import is_ko_recapture
from kifu.go.state import EMPTY, KO_POINT, ONE, WALL, ZERO, State, bit, new_state, popcount, would_have_liberty
from kifu.go.undo import DEPTH, UndoStack, new_undo_stack, pop, push, reset_undo
from kifu.kernel import inline_kernel, kernel

NODE_LIMIT = 25_000
"""How many stones are tried after each first move before the search gives up."""

# Verdicts
OPEN, CAPTURED, ESCAPED = range(3)

# Indices of Ladders.numbers
KO = 0  # the point that simple ko forbade in the position looked at last; -1 if none
SEARCH = 1  # how many chains have been searched
NODES = 2  # how many stones may be tried after each first move
N_LADDER_NUMBERS = 3


class LadderSearch(NamedTuple):
    """What is known of the ladders of one board of n points, and room to find out more: for one thread.

    numbers: [N_LADDER_NUMBERS] int64.  colour: [n + 1] uint8, the position looked at last.
    known: [W] uint64, bit set of chains, each named by the last stone of the first word that has any.
    works, rests_on: [n, W] uint64, bit sets by chain: the first moves that work, and the points this rests on.
    noted: [n] int64, by head of a chain: the search in which it was last added to the points that its result rests on.
    changed, left, firsts: [W] uint64, bit sets of points: changed since the last position, chains not yet looked at,
        first moves not yet tried.
    trail: the moves of a search, D at most.
    queue, n_queue: [D, 2], [D] int64: by level of the search, moves to try, the best one last.
    takes, n_takes: [D, W] uint64, [D] int64: and after them those that take attackers, a bit set.
    """

    scalars: npt.NDArray[np.int64]
    colour: npt.NDArray[np.uint8]
    known: npt.NDArray[np.uint64]
    works: npt.NDArray[np.uint64]
    rests_on: npt.NDArray[np.uint64]
    noted: npt.NDArray[np.int64]
    changed: npt.NDArray[np.uint64]
    left: npt.NDArray[np.uint64]
    firsts: npt.NDArray[np.uint64]
    trail: UndoStack
    queue: npt.NDArray[np.int64]
    n_queue: npt.NDArray[np.int64]
    takes: npt.NDArray[np.uint64]
    n_takes: npt.NDArray[np.int64]


def new_ladder_search(width: int, height: int) -> LadderSearch:
    """Nothing known yet of boards of this size. Raises GameError for a size that is not within 1 to 25."""
    state = new_state(width, height)
    n, words = width * height, len(state.words)
    depth = 3 * n // 2 + 2
    return LadderSearch(
        scalars=np.array([-1, 0, NODE_LIMIT], np.int64),
        colour=state.colour,
        known=np.zeros(words, np.uint64),
        works=np.zeros((n, words), np.uint64),
        rests_on=np.zeros((n, words), np.uint64),
        noted=np.zeros(n, np.int64),
        changed=np.zeros(words, np.uint64),
        left=np.zeros(words, np.uint64),
        firsts=np.zeros(words, np.uint64),
        trail=new_undo_stack(depth, words),
        queue=np.zeros((depth, 2), np.int64),
        n_queue=np.zeros(depth, np.int64),
        takes=np.zeros((depth, words), np.uint64),
        n_takes=np.zeros(depth, np.int64),
    )


@inline_kernel
def _last_point(i: Any, word: Any) -> Any:
    """The last point of word i of a bit set; the word is not 0."""
    return 64 * i + 63 - popcount((word & ~(word - ONE)) - ONE)


@inline_kernel
def _pop(words: Any, row: Any) -> Any:
    """Takes out of a bit set the last point of the first word that has any. Returns it, or -1."""
    for i in range(len(words)):
        word = row[i]
        if word != ZERO:
            row[i] = word & (word - ONE)
            return np.int64(_last_point(i, word))
    return np.int64(-1)


@inline_kernel
def _liberty(s: State, h: Any, besides: Any) -> Any:
    """A liberty of chain h other than the point `besides` (which may be the wall); -1 if there is none."""
    for i in range(len(s.words)):
        word = s.liberties[h, i]
        if i == besides >> 6:
            word &= ~bit(besides)
        if word != ZERO:
            return np.int64(_last_point(i, word))
    return np.int64(-1)


@inline_kernel
def _note_chain(s: State, lad: LadderSearch, row: Any, h: Any) -> None:
    """Adds chain h and its liberties to the points that the result rests on.

    To be called before the search takes a liberty from it, or joins it. A chain that the search founded is no matter:
    the points around its stones were noted.
    """
    if lad.noted[h] != lad.scalars[SEARCH]:
        lad.noted[h] = lad.scalars[SEARCH]
        if lad.colour[h] != EMPTY:
            for i in range(len(s.words)):
                row[i] |= s.stones[h, i] | s.liberties[h, i]


@inline_kernel
def _note(s: State, lad: LadderSearch, row: Any, p: Any) -> None:
    """Adds what stands around p to the points that the result rests on."""
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == EMPTY:
            row[q >> 6] |= bit(q)
        elif s.colour[q] != WALL:
            _note_chain(s, lad, row, s.chain_id[q])


@inline_kernel
def _takes_any(s: State, p: Any, c: Any) -> Any:
    """Whether a stone of colour c on the empty point p takes a chain."""
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == 3 - c and s.n_liberties[s.chain_id[q]] == 1:
            return True
    return False


@inline_kernel
def _liberties_after(s: State, c: Any, h: Any, p: Any, attacker: Any) -> Any:
    """How many liberties chain h of colour c would have after a stone on its liberty p.

    attacker: another of its liberties, where an attacker's stone is put before that; -1 for none. What these two stones
    take is not counted.
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
def _is_mouth(s: State, p: Any, c: Any) -> Any:
    """Whether nothing but stones of colour c and the wall is around p, and an attacker there would take just one."""
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
def _find_takes(s: State, lad: LadderSearch, rests_on: Any, c: Any, h: Any, row: Any) -> Any:
    """Fills row, a bit set, with the points where chain h of colour c takes a chain beside it. Returns how many."""
    for i in range(len(s.words)):
        row[i] = ZERO
    n = 0
    p = np.int64(h)
    while True:
        for k in range(4):
            q = s.neighbours[p, k]
            if s.colour[q] == 3 - c:
                g = s.chain_id[q]
                _note_chain(s, lad, rests_on, g)
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
    """What can be said at once of chain h of colour c when it is attacked at level d; else the moves to try there."""
    if s.n_liberties[h] <= 1:
        return CAPTURED
    if s.n_liberties[h] >= 3:
        return ESCAPED
    a = _liberty(s, h, s.neighbours.shape[0])
    b = _liberty(s, h, a)
    _note(s, lad, row, a)
    _note(s, lad, row, b)
    after_a = _liberties_after(s, c, h, b, a)
    after_b = _liberties_after(s, c, h, a, b)
    if (
        _is_mouth(s, a, c)
        and _is_mouth(s, b, c)
        and _liberties_after(s, c, h, a, -1) <= 2
        and _liberties_after(s, c, h, b, -1) <= 2
        and _find_takes(s, lad, row, c, h, lad.takes[d]) == 0
    ):
        return CAPTURED
    if after_a > after_b:
        a, b = b, a
        after_a, after_b = after_b, after_a
    ko = lad.trail.ko[lad.trail.scalars[DEPTH]]
    n = 0
    if after_b < 3 and b != ko and would_have_liberty(s, b, 3 - c):
        lad.queue[d, n] = b
        n += 1
    if after_a < 3 and a != ko and would_have_liberty(s, a, 3 - c):
        lad.queue[d, n] = a
        n += 1
    lad.n_queue[d] = n
    lad.n_takes[d] = 0
    return OPEN


@inline_kernel
def _defend(s: State, lad: LadderSearch, row: Any, d: Any, c: Any, h: Any) -> Any:
    """What can be said at once of chain h of colour c when it is to move at level d; else the moves to try there."""
    if s.n_liberties[h] >= 2:
        return ESCAPED
    if d > 0 and lad.trail.ko[lad.trail.scalars[DEPTH]] >= 0:
        return ESCAPED
    p = _liberty(s, h, s.neighbours.shape[0])  # noted before: it was one of the two when the chain was attacked
    n = _liberties_after(s, c, h, p, -1)
    if n >= 3:
        return ESCAPED
    n_takes = _find_takes(s, lad, row, c, h, lad.takes[d])
    lad.n_queue[d] = 0
    if n == 2 or _takes_any(s, p, c):
        lad.queue[d, 0] = p
        lad.n_queue[d] = 1
    if lad.takes[d, p >> 6] & bit(p) != ZERO:
        lad.takes[d, p >> 6] &= ~bit(p)
        n_takes -= 1
    lad.n_takes[d] = n_takes
    return OPEN


@inline_kernel
def _next_move(s: State, lad: LadderSearch, d: Any) -> Any:
    """The next move to try at level d; -1 if there is none left."""
    if lad.n_queue[d] > 0:
        lad.n_queue[d] -= 1
        return np.int64(lad.queue[d, lad.n_queue[d]])
    if lad.n_takes[d] > 0:
        lad.n_takes[d] -= 1
        return _pop(s.words, lad.takes[d])
    return np.int64(-1)


@inline_kernel
def _is_caught(s: State, lad: LadderSearch, row: Any, prey: Any, defends: Any) -> Any:
    """Whether the chain of the stone `prey` is caught, when it (`defends`) or else its attacker is to move."""
    c = np.int64(s.colour[prey])
    d = 0
    nodes = 0
    verdict = OPEN
    arrived = True
    while True:
        if arrived:
            h = np.int64(s.chain_id[prey])
            verdict = _defend(s, lad, row, d, c, h) if defends else _attack(s, lad, row, d, c, h)
            arrived = False
        elif defends == (verdict == CAPTURED):
            verdict = OPEN
        if verdict == OPEN:
            p = _next_move(s, lad, d)
            if p < 0:
                verdict = CAPTURED if defends else ESCAPED
            elif nodes == lad.scalars[NODES] or d + 2 == lad.n_queue.shape[0]:
                for _ in range(d):
                    pop(s, lad.trail)
                return False
            else:
                mover = c if defends else 3 - c
                _note(s, lad, row, p)
                push(s, lad.trail, p, mover)
                nodes += 1
                d += 1
                defends = not defends
                arrived = True
                continue
        if d == 0:
            return verdict == CAPTURED
        pop(s, lad.trail)
        d -= 1
        defends = not defends


@kernel
def _work_out(s: State, lad: LadderSearch, prey: int) -> None:
    """Finds the first moves that work for the chain of the stone `prey`, which has one or two liberties.

    Two liberties: those that catch it. One: those that save it, as if there were no ko.
    """
    h = np.int64(s.chain_id[prey])
    c = np.int64(s.colour[prey])
    works, row = lad.works[prey], lad.rests_on[prey]
    for i in range(len(s.words)):
        works[i] = ZERO
        row[i] = ZERO
        lad.firsts[i] = s.liberties[h, i]
    lad.scalars[SEARCH] += 1
    attacked = s.n_liberties[h] == 2
    mover = 3 - c if attacked else c
    reset_undo(s, lad.trail)
    if not attacked:
        own = _liberty(s, h, s.neighbours.shape[0])
        _find_takes(s, lad, row, c, h, lad.firsts)
        lad.firsts[own >> 6] |= bit(own)
    while True:
        p = _pop(s.words, lad.firsts)
        if p < 0:
            break
        _note(s, lad, row, p)
        if not would_have_liberty(s, p, mover) or (attacked and p == lad.trail.ko[0]):
            continue
        push(s, lad.trail, p, mover)
        if _is_caught(s, lad, row, prey, attacked) == attacked:
            works[p >> 6] |= bit(p)
        pop(s, lad.trail)
    lad.known[prey >> 6] |= bit(prey)


@inline_kernel
def _forget_changed(s: State, lad: LadderSearch) -> None:
    """Forgets what rests on points that are not as they were when the last position was looked at."""
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
                if lad.colour[p] != EMPTY:  # the chains around it may have one liberty more
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
        left = lad.known[i]
        while left != ZERO:
            chain = _last_point(i, left)
            left &= left - ONE
            hit = ZERO
            for j in range(len(s.words)):
                hit |= lad.rests_on[chain, j] & lad.changed[j]
            if hit != ZERO:
                lad.known[i] &= ~bit(chain)


@inline_kernel
def _next_chain(s: State, lad: LadderSearch) -> Any:
    """Takes a chain out of `left`, and works it out unless it is known. Returns its name, or -1."""
    chain = _pop(s.words, lad.left)
    if chain >= 0:
        h = s.chain_id[chain]
        for i in range(len(s.words)):
            lad.left[i] &= ~s.stones[h, i]
        if lad.known[chain >> 6] & bit(chain) == ZERO:
            _work_out(s, lad, chain)
    return chain


@inline_kernel
def ladder_moves(
    s: State, lad: LadderSearch, mover: Any, captures: npt.NDArray[np.uint64], escapes: npt.NDArray[np.uint64]
) -> None:
    """Fills two bit sets with the moves of `mover` (BLACK or WHITE) that decide a ladder.

    captures: [W] uint64, the liberties of the other side's chains of two liberties where it catches one of them.
    escapes: [W] uint64, the points where it saves one of its chains that are in atari.
    """
    _forget_changed(s, lad)
    for i in range(len(s.words)):
        lad.left[i] = s.stones_by_liberties[2 - mover, 1, i] | s.stones_by_liberties[mover - 1, 0, i]
        captures[i] = ZERO
        escapes[i] = ZERO
    while True:
        chain = _next_chain(s, lad)
        if chain < 0:
            break
        for i in range(len(s.words)):
            if s.colour[chain] == mover:
                escapes[i] |= lad.works[chain, i]
            else:
                captures[i] |= lad.works[chain, i]
    ko = s.scalars[KO_POINT]
    if ko >= 0 and is_ko_recapture(s, ko, mover):
        escapes[ko >> 6] &= ~bit(ko)


@inline_kernel
def laddered_stones(s: State, lad: LadderSearch, stones: npt.NDArray[np.uint64]) -> None:
    """Fills stones, a bit set [W] uint64, with those of both colours that are caught.

    Those are chains of two liberties that the other side catches if it moves first, and chains of one that no move of
    their own side saves.
    """
    _forget_changed(s, lad)
    for i in range(len(s.words)):
        lad.left[i] = (
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
            some |= lad.works[chain, i]
        h = s.chain_id[chain]
        if (some != ZERO) == (s.n_liberties[h] == 2):
            for i in range(len(s.words)):
                stones[i] |= s.stones[h, i]
