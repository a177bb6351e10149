"""Stones pushed onto a board and popped off again, for search: about half the work of `state.play`.

`push` changes only what a search reads: `colour`, `chain_id`, `next_in_chain`, `n_stones`, `n_liberties` and
`liberties` of the State. The rest stays as it was at the root: `stones` of the chains there, `stones_by_liberties`,
`hash`, `scalars`. After as many calls of `pop`, every stone and every chain is as before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.state import EMPTY, KO_POINT, ZERO, State, bit, extend_chain, popcount, relabel_chain
from kifu.kernel import inline_kernel

# Indices of UndoStack.scalars
DEPTH = 0  # the number of stones pushed
N_UNDO_SCALARS = 1


class UndoStack(NamedTuple):
    """A stack of up to D moves, with what `pop` needs to undo them. Index d belongs to the move pushed at depth d.

    Attributes:
        scalars: [N_UNDO_SCALARS] int64.
        ko: [D + 1] int64: the point that simple ko forbids at each depth; -1 if none.
        point: [D] int64, the move.
        chain_id: [D] int64, the board's entry for this point before the move. Like the next two, it may belong to a
            chain that an earlier move of the stack captured.
        next_in_chain: [D] int64, likewise.
        n_stones: [D] int64, likewise.
        n_saved: [D] int64, how many chains grew by the move.
        saved_chain: [D, 4] int64, these chains: the first grew by the stone, the others by a chain merged into them.
            If none grew, the first is what the board had under the id of the stone: a chain with that id may be part of
            one that an earlier move captured.
        saved_n_liberties: [D, 4] int64, their number of liberties before.
        saved_liberties: [D, 4, W] uint64, their liberties before.
        merged_chain: [D, 4] int64, the chain that was merged into each.
        n_captured: [D] int64, how many chains the move captured.
        captured: [D, 4] int64, these chains.
    """

    scalars: npt.NDArray[np.int64]
    ko: npt.NDArray[np.int64]
    point: npt.NDArray[np.int64]
    chain_id: npt.NDArray[np.int64]
    next_in_chain: npt.NDArray[np.int64]
    n_stones: npt.NDArray[np.int64]
    n_saved: npt.NDArray[np.int64]
    saved_chain: npt.NDArray[np.int64]
    saved_n_liberties: npt.NDArray[np.int64]
    saved_liberties: npt.NDArray[np.uint64]
    merged_chain: npt.NDArray[np.int64]
    n_captured: npt.NDArray[np.int64]
    captured: npt.NDArray[np.int64]


def new_undo_stack(depth: int, words: int) -> UndoStack:
    """Return an empty stack of up to `depth` moves, for boards whose bit sets have that many words."""
    return UndoStack(
        scalars=np.zeros(N_UNDO_SCALARS, np.int64),
        ko=np.zeros(depth + 1, np.int64),
        point=np.zeros(depth, np.int64),
        chain_id=np.zeros(depth, np.int64),
        next_in_chain=np.zeros(depth, np.int64),
        n_stones=np.zeros(depth, np.int64),
        n_saved=np.zeros(depth, np.int64),
        saved_chain=np.zeros((depth, 4), np.int64),
        saved_n_liberties=np.zeros((depth, 4), np.int64),
        saved_liberties=np.zeros((depth, 4, words), np.uint64),
        merged_chain=np.zeros((depth, 4), np.int64),
        n_captured=np.zeros(depth, np.int64),
        captured=np.zeros((depth, 4), np.int64),
    )


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
