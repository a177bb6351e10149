"""Features that say what a move would do: liberties, captures and self-atari after it, whether it fills an eye.

They are drawn for legal moves: empty points where a stone is no suicide and not forbidden by simple ko. What they share
is worked out once for a position, by kernels of their own: inlined, they would be compiled anew for each plane set.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kifu.go.ladder import ladder_moves
from kifu.go.rules import is_ko_recapture
from kifu.go.state import EMPTY, ONE, WALL, ZERO, bit, popcount
from kifu.kernel import inline_kernel, kernel
from kifu.planes.context import PositionContext, add_point, some_point
from kifu.planes.feature import Feature, family, feature
from kifu.planes.features import bins, copy_set

_MOST_BINS = 64


@inline_kernel
def _first_of_chain(view: PositionContext, p: Any, k: Any) -> Any:
    """Whether the stone on the k-th neighbour of p is of another chain than the stones on those before it."""
    s = view.s
    for j in range(k):
        if (
            s.colour[s.neighbours[p, j]] == s.colour[s.neighbours[p, k]]
            and s.chain_id[s.neighbours[p, j]] == s.chain_id[s.neighbours[p, k]]
        ):
            return False
    return True


@inline_kernel
def _in_reach(view: PositionContext, q: Any, p: Any) -> Any:
    """Whether q is beside p or beside a chain of the mover's that a stone on p joins."""
    s = view.s
    for k in range(4):
        r = s.neighbours[q, k]
        if r == p:
            return True
        if s.colour[r] == view.mover:
            for j in range(4):
                f = s.neighbours[p, j]
                if s.colour[f] == view.mover and s.chain_id[f] == s.chain_id[r]:
                    return True
    return False


@inline_kernel
def _add_taken(view: PositionContext, p: Any, h: Any) -> None:
    """Adds to `tried.union` the stones of chain h, taken by a move on p, that are liberties of that move's chain."""
    s = view.s
    q = np.int64(h)
    while True:
        if _in_reach(view, q, p):
            add_point(view.tried.union, q)
        q = np.int64(s.next_in_chain[q])
        if q == h:
            break


@inline_kernel
def _try_beside_stones(view: PositionContext, p: Any) -> None:
    """Fills what `tried` says of p, beside which stands a stone of the mover's or one in atari."""
    s, tried = view.s, view.tried
    for i in range(len(s.words)):
        tried.union[i] = ZERO
    stones, captured = 1, 0
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == EMPTY:
            add_point(tried.union, np.int64(q))
        elif s.colour[q] != WALL and _first_of_chain(view, p, k):
            h = s.chain_id[q]
            if s.colour[q] == view.mover:
                stones += s.n_stones[h]
                for i in range(len(s.words)):
                    tried.union[i] |= s.liberties[h, i]
            elif s.n_liberties[h] == 1:
                captured += s.n_stones[h]
                _add_taken(view, p, h)
    tried.union[p >> 6] &= ~bit(p)
    n = 0
    for i in range(len(s.words)):
        n += popcount(tried.union[i])
    tried.captured[p] = captured
    tried.stones[p] = stones
    tried.liberties[p] = n


@inline_kernel
def _try_point(view: PositionContext, p: Any) -> None:
    """Fills what `tried` says of the empty point p, but for whether it is legal."""
    s = view.s
    free = 0
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == EMPTY:
            free += 1
        elif s.colour[q] == view.mover or (s.colour[q] != WALL and s.n_liberties[s.chain_id[q]] == 1):
            _try_beside_stones(view, p)
            return
    view.tried.captured[p] = 0
    view.tried.stones[p] = 1
    view.tried.liberties[p] = free


@kernel
def compute_move_effects(view: PositionContext) -> None:
    """Fills `view.tried`, for features that say what a move would do (they have it in their `uses`)."""
    stones = view.stones
    for i in range(len(view.s.words)):
        word = view.board[i] & ~(stones[0, i] | stones[1, i])
        legal = word
        while word != ZERO:
            p = 64 * i + some_point(word)
            word &= word - ONE
            _try_point(view, p)
            if view.tried.liberties[p] == 0 or is_ko_recapture(view.s, p, view.mover):
                legal &= ~bit(p)
        view.tried.legal[i] = legal


@inline_kernel
def _draw_counts(view: PositionContext, counts: Any, least: Any, out: Any) -> None:
    """Sets each legal point in the set of out [k, W] for its count: `least`, ..., `least` + k - 1 or more."""
    for i in range(len(view.s.words)):
        word = view.tried.legal[i]
        while word != ZERO:
            p = 64 * i + some_point(word)
            word &= word - ONE
            add_point(out[min(counts[p] - least, out.shape[0] - 1)], p)


@feature("legal", ["legal moves"], uses=(compute_move_effects,))
def legal(view: PositionContext, out: Any) -> None:
    copy_set(view.tried.legal, out[0])


@family("capture_size", 1, _MOST_BINS)
def capture_size(k: int) -> Feature:
    @inline_kernel
    def fill(view: PositionContext, out: Any) -> None:
        _draw_counts(view, view.tried.captured, 0, out)

    return Feature(f"capture_size{k}", bins("moves that take", 0, k, "stone", "stones"), fill, (compute_move_effects,))


@family("liberties_after", 1, _MOST_BINS)
def liberties_after(k: int) -> Feature:
    @inline_kernel
    def fill(view: PositionContext, out: Any) -> None:
        _draw_counts(view, view.tried.liberties, 1, out)

    return Feature(
        f"liberties_after{k}",
        bins("moves that leave their chain", 1, k, "liberty", "liberties"),
        fill,
        (compute_move_effects,),
    )


@family("self_atari_size", 1, _MOST_BINS)
def self_atari_size(k: int) -> Feature:
    @inline_kernel
    def fill(view: PositionContext, out: Any) -> None:
        for i in range(len(view.s.words)):
            word = view.tried.legal[i]
            while word != ZERO:
                p = 64 * i + some_point(word)
                word &= word - ONE
                if view.tried.liberties[p] == 1:
                    add_point(out[min(view.tried.stones[p], k) - 1], p)

    return Feature(
        f"self_atari_size{k}", bins("moves into atari of", 1, k, "stone", "stones"), fill, (compute_move_effects,)
    )


@inline_kernel
def is_own_eye(view: PositionContext, p: Any) -> Any:
    """Whether the empty point p is an eye of the mover's: only his stones beside it, and of the points diagonal to it
    at most one has an opponent's stone, or none if p is at the edge of the board."""
    s = view.s
    n = s.neighbours.shape[0]
    at_edge = False
    for k in range(4):
        q = s.neighbours[p, k]
        if q == n:
            at_edge = True
        elif s.colour[q] != view.mover:
            return False
    bad = 0
    for k in range(2):
        for j in range(2, 4):
            inside = s.neighbours[p, k] < n and s.neighbours[p, j] < n
            if inside and s.colour[s.neighbours[s.neighbours[p, k], j]] == 3 - view.mover:
                bad += 1
    return bad == 0 or (bad == 1 and not at_edge)


@feature("sensibleness", ["legal moves that fill no own eye"], uses=(compute_move_effects,))
def sensibleness(view: PositionContext, out: Any) -> None:
    copy_set(view.tried.legal, out[0])
    for i in range(len(view.s.words)):
        word = view.tried.legal[i]
        while word != ZERO:
            p = 64 * i + some_point(word)
            word &= word - ONE
            if is_own_eye(view, p):
                out[0, i] &= ~bit(p)


@kernel
def read_ladders(view: PositionContext) -> None:
    """Fills `view.found`, for features that say which moves decide a ladder (they have it in their `uses`)."""
    ladder_moves(view.s, view.ladders, view.mover, view.found[0], view.found[1])


@feature("ladder_capture", ["moves that capture in a ladder"], uses=(read_ladders,))
def ladder_capture(view: PositionContext, out: Any) -> None:
    copy_set(view.found[0], out[0])


@feature("ladder_escape", ["moves that escape from a ladder"], uses=(read_ladders,))
def ladder_escape(view: PositionContext, out: Any) -> None:
    copy_set(view.found[1], out[0])
