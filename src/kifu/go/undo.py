"""Stones tried and taken back, for searches that read ahead from a `State`: about half the work of `state.play`.

A trial changes what a search looks at, `colour`, `head`, `link`, `n_stones`, `n_liberties` and `liberties`, and leaves
the rest of the State as it was at the root: `stones` of a chain that stood there, `shades`, `hash`, `numbers`. Once all
is taken back, every stone and every chain is as before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.state import EMPTY, KO_POINT, ZERO, State, bit, extend_chain, popcount, relabel_chain
from kifu.kernel import inline_kernel

# Indices of Trail.numbers
DEPTH = 0  # how many stones are tried
N_TRAIL_NUMBERS = 1


class UndoStack(NamedTuple):
    """What takes back up to D stones. Index d of each array belongs to the stone that was tried with d before it.

    numbers: [N_TRAIL_NUMBERS] int64.
    ko: [D + 1] int64: the point that simple ko forbids when d stones are tried; -1 if none.
    point, head, link, n_stones: [D] int64: where the stone was put, and what the board had of this point before: a
        chain that an earlier trial took may have stood there.
    n_kept, kept, liberties_of, lost, rows: [D], [D, 4], [D, 4], [D, 4] int64, [D, 4, W] uint64: the chains that grew,
        with their liberties as they were; the first by the stone itself, the others by the chain `lost`. If none grew,
        the first is what the board had under the name of the stone: a chain of that name may have become part of one
        that an earlier trial took.
    n_taken, taken: [D], [D, 4] int64: the chains that it took.
    """

    scalars: npt.NDArray[np.int64]
    ko: npt.NDArray[np.int64]
    point: npt.NDArray[np.int64]
    chain_id: npt.NDArray[np.int64]
    next_in_chain: npt.NDArray[np.int64]
    n_stones: npt.NDArray[np.int64]
    n_kept: npt.NDArray[np.int64]
    kept: npt.NDArray[np.int64]
    liberties_of: npt.NDArray[np.int64]
    lost: npt.NDArray[np.int64]
    rows: npt.NDArray[np.uint64]
    n_taken: npt.NDArray[np.int64]
    taken: npt.NDArray[np.int64]


def new_undo_stack(depth: int, words: int) -> UndoStack:
    """A trail of up to `depth` stones, for boards whose bit sets have that many words."""
    return UndoStack(
        scalars=np.zeros(N_TRAIL_NUMBERS, np.int64),
        ko=np.zeros(depth + 1, np.int64),
        point=np.zeros(depth, np.int64),
        chain_id=np.zeros(depth, np.int64),
        next_in_chain=np.zeros(depth, np.int64),
        n_stones=np.zeros(depth, np.int64),
        n_kept=np.zeros(depth, np.int64),
        kept=np.zeros((depth, 4), np.int64),
        liberties_of=np.zeros((depth, 4), np.int64),
        lost=np.zeros((depth, 4), np.int64),
        rows=np.zeros((depth, 4, words), np.uint64),
        n_taken=np.zeros(depth, np.int64),
        taken=np.zeros((depth, 4), np.int64),
    )


@inline_kernel
def reset_undo(s: State, t: UndoStack) -> None:
    """Begins at the position s; whatever was tried before is forgotten, not taken back."""
    t.scalars[DEPTH] = 0
    t.ko[0] = s.scalars[KO_POINT]


@inline_kernel
def _keep(s: State, t: UndoStack, d: Any, k: Any, h: Any) -> None:
    """Notes the liberties of chain h, which is about to grow."""
    t.kept[d, k] = h
    t.liberties_of[d, k] = s.n_liberties[h]
    for i in range(len(s.words)):
        t.rows[d, k, i] = s.liberties[h, i]


@inline_kernel
def _restore(s: State, t: UndoStack, d: Any, k: Any, h: Any) -> None:
    s.n_liberties[h] = t.liberties_of[d, k]
    for i in range(len(s.words)):
        s.liberties[h, i] = t.rows[d, k, i]


@inline_kernel
def _merge(s: State, a: Any, b: Any, p: Any) -> None:
    """Makes chain b part of chain a; p, a stone between them, is no liberty of theirs."""
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
def _found(s: State, p: Any) -> None:
    """Makes the stone p, already coloured, a chain of its own."""
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
def _take(s: State, g: Any, c: Any) -> None:
    """Takes chain g off; its points become liberties of the chains of colour c around it."""
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
def _put_back(s: State, g: Any, c: Any) -> None:
    """Undoes `_take`. The chain has no liberty yet."""
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
    """Puts a stone of colour c on point p, which must be empty, and it no suicide; the trail must have room for it."""
    d = t.scalars[DEPTH]
    t.point[d] = p
    t.chain_id[d] = s.chain_id[p]
    t.next_in_chain[d] = s.next_in_chain[p]
    t.n_stones[d] = s.n_stones[p]
    s.colour[p] = c
    me: Any = -1
    n_kept = 0
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == c:
            h = np.int64(s.chain_id[q])
            if me < 0:
                _keep(s, t, d, n_kept, h)
                extend_chain(s, h, p)
                me = h
                n_kept += 1
            elif h != me:
                larger, smaller = (me, h) if s.n_stones[me] >= s.n_stones[h] else (h, me)
                _keep(s, t, d, n_kept, larger)
                t.lost[d, n_kept] = smaller
                _merge(s, larger, smaller, p)
                me = larger
                n_kept += 1
    t.n_kept[d] = n_kept
    if me < 0:
        _keep(s, t, d, 0, p)
        _found(s, p)
        me = np.int64(p)
    w, b = p >> 6, bit(p)
    n_taken = 0
    stones = 0
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == 3 - c:
            h = np.int64(s.chain_id[q])
            if s.liberties[h, w] & b != ZERO:  # else an earlier neighbour was of the same chain
                s.liberties[h, w] &= ~b
                s.n_liberties[h] -= 1
                if s.n_liberties[h] == 0:
                    t.taken[d, n_taken] = h
                    n_taken += 1
                    stones += s.n_stones[h]
                    _take(s, h, c)
    t.n_taken[d] = n_taken
    t.ko[d + 1] = t.taken[d, 0] if stones == 1 and s.n_stones[me] == 1 and s.n_liberties[me] == 1 else -1
    t.scalars[DEPTH] = d + 1


@inline_kernel
def pop(s: State, t: UndoStack) -> None:
    """Undoes the stone tried last."""
    d = t.scalars[DEPTH] - 1
    t.scalars[DEPTH] = d
    p = t.point[d]
    c = s.colour[p]
    for k in range(t.n_taken[d]):
        _put_back(s, t.taken[d, k], c)
    w, b = p >> 6, bit(p)
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == 3 - c:
            h = s.chain_id[q]
            if s.liberties[h, w] & b == ZERO:
                s.liberties[h, w] |= b
                s.n_liberties[h] += 1
    for k in range(t.n_kept[d] - 1, 0, -1):
        h, lost = t.kept[d, k], t.lost[d, k]
        s.next_in_chain[h], s.next_in_chain[lost] = s.next_in_chain[lost], s.next_in_chain[h]
        relabel_chain(s, lost, lost)
        s.n_stones[h] -= s.n_stones[lost]
        _restore(s, t, d, k, h)
    if t.n_kept[d] > 0:
        h = t.kept[d, 0]
        s.next_in_chain[h] = s.next_in_chain[p]
        s.n_stones[h] -= 1
    _restore(s, t, d, 0, t.kept[d, 0])
    s.chain_id[p] = t.chain_id[d]
    s.next_in_chain[p] = t.next_in_chain[d]
    s.n_stones[p] = t.n_stones[d]
    s.colour[p] = EMPTY
