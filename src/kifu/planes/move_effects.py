"""Features that describe what a move would do: liberties, captures and self-atari after it, eyes it fills, ladders.

They mark legal moves only: empty points where a stone is neither suicide nor forbidden by simple ko. Results that they
share are computed once per position by kernels of their own; inlined, these would be compiled anew for each plane set.
"""
# ruff: noqa: D103 - names and planes of a feature are in its decorator

from __future__ import annotations

from typing import Any

import numpy as np

from kifu.go.ladder import ladder_moves
from kifu.go.rules import is_ko_recapture
from kifu.go.state import EMPTY, ONE, WALL, ZERO, add_point, bit, copy_bits, last_point, popcount
from kifu.kernel import inline_kernel, kernel
from kifu.planes.context import PositionContext
from kifu.planes.features import MAX_BINS, Feature, bins, family, feature


@inline_kernel
def _first_of_chain(position: PositionContext, p: Any, k: Any) -> Any:
    """Return whether no earlier neighbour of p has a stone of the same chain as the k-th one."""
    s = position.s
    for j in range(k):
        if (
            s.colour[s.neighbours[p, j]] == s.colour[s.neighbours[p, k]]
            and s.chain_id[s.neighbours[p, j]] == s.chain_id[s.neighbours[p, k]]
        ):
            return False
    return True


@inline_kernel
def _in_reach(position: PositionContext, q: Any, p: Any) -> Any:
    """Return whether q is adjacent to p or to a chain of the mover that a stone on p joins."""
    s = position.s
    for k in range(4):
        r = s.neighbours[q, k]
        if r == p:
            return True
        if s.colour[r] == position.mover:
            for j in range(4):
                f = s.neighbours[p, j]
                if s.colour[f] == position.mover and s.chain_id[f] == s.chain_id[r]:
                    return True
    return False


@inline_kernel
def _add_captured_points(position: PositionContext, p: Any, h: Any) -> None:
    """Add the points of chain h, captured by a move on p, that become liberties of that move's chain to `union`."""
    s = position.s
    q = np.int64(h)
    while True:
        if _in_reach(position, q, p):
            add_point(position.effects.union, q)
        q = np.int64(s.next_in_chain[q])
        if q == h:
            break


@inline_kernel
def _add_effects_beside_stones(position: PositionContext, p: Any) -> None:
    """Fill the effects of a move on p, which is adjacent to a stone of the mover or to one in atari."""
    s, effects = position.s, position.effects
    for i in range(len(s.words)):
        effects.union[i] = ZERO
    stones, captured = 1, 0
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == EMPTY:
            add_point(effects.union, np.int64(q))
        elif s.colour[q] != WALL and _first_of_chain(position, p, k):
            h = s.chain_id[q]
            if s.colour[q] == position.mover:
                stones += s.n_stones[h]
                for i in range(len(s.words)):
                    effects.union[i] |= s.liberties[h, i]
            elif s.n_liberties[h] == 1:
                captured += s.n_stones[h]
                _add_captured_points(position, p, h)
    effects.union[p >> 6] &= ~bit(p)
    n = 0
    for i in range(len(s.words)):
        n += popcount(effects.union[i])
    effects.captured[p] = captured
    effects.stones[p] = stones
    effects.liberties[p] = n


@inline_kernel
def _add_effects(position: PositionContext, p: Any) -> None:
    """Fill the effects of a move on the empty point p, except whether it is legal."""
    s = position.s
    free = 0
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == EMPTY:
            free += 1
        elif s.colour[q] == position.mover or (s.colour[q] != WALL and s.n_liberties[s.chain_id[q]] == 1):
            _add_effects_beside_stones(position, p)
            return
    position.effects.captured[p] = 0
    position.effects.stones[p] = 1
    position.effects.liberties[p] = free


@kernel
def compute_move_effects(position: PositionContext) -> None:
    """Fill `position.effects`, for features that have this kernel in their `uses`."""
    stones = position.stones
    for i in range(len(position.s.words)):
        word = position.board[i] & ~(stones[0, i] | stones[1, i])
        legal = word
        while word != ZERO:
            p = last_point(i, word)
            word &= word - ONE
            _add_effects(position, p)
            if position.effects.liberties[p] == 0 or is_ko_recapture(position.s, p, position.mover):
                legal &= ~bit(p)
        position.effects.legal[i] = legal


@inline_kernel
def _mark_counts(position: PositionContext, counts: Any, least: Any, out: Any) -> None:
    """Mark each legal move in the plane of out [k, W] for its count: `least`, ..., `least` + k - 1 or more."""
    for i in range(len(position.s.words)):
        word = position.effects.legal[i]
        while word != ZERO:
            p = last_point(i, word)
            word &= word - ONE
            add_point(out[min(counts[p] - least, out.shape[0] - 1)], p)


@feature("legal", ["legal moves"], uses=(compute_move_effects,))
def legal(position: PositionContext, out: Any) -> None:
    copy_bits(position.effects.legal, out[0])


@family("capture_size", 1, MAX_BINS)
def capture_size(k: int) -> Feature:
    @inline_kernel
    def fill(position: PositionContext, out: Any) -> None:
        _mark_counts(position, position.effects.captured, 0, out)

    return Feature(f"capture_size{k}", bins("moves that take", 0, k, "stone", "stones"), fill, (compute_move_effects,))


@family("liberties_after", 1, MAX_BINS)
def liberties_after(k: int) -> Feature:
    @inline_kernel
    def fill(position: PositionContext, out: Any) -> None:
        _mark_counts(position, position.effects.liberties, 1, out)

    return Feature(
        f"liberties_after{k}",
        bins("moves that leave their chain", 1, k, "liberty", "liberties"),
        fill,
        (compute_move_effects,),
    )


@family("self_atari_size", 1, MAX_BINS)
def self_atari_size(k: int) -> Feature:
    @inline_kernel
    def fill(position: PositionContext, out: Any) -> None:
        for i in range(len(position.s.words)):
            word = position.effects.legal[i]
            while word != ZERO:
                p = last_point(i, word)
                word &= word - ONE
                if position.effects.liberties[p] == 1:
                    add_point(out[min(position.effects.stones[p], k) - 1], p)

    return Feature(
        f"self_atari_size{k}", bins("moves into atari of", 1, k, "stone", "stones"), fill, (compute_move_effects,)
    )


@inline_kernel
def is_own_eye(position: PositionContext, p: Any) -> Any:
    """Return whether the empty point p is an eye of the mover.

    Its neighbours are all stones of the mover, and at most one point diagonal to it has a stone of the opponent, or
    none if p is at the edge of the board.
    """
    s = position.s
    n = s.neighbours.shape[0]
    at_edge = False
    for k in range(4):
        q = s.neighbours[p, k]
        if q == n:
            at_edge = True
        elif s.colour[q] != position.mover:
            return False
    bad = 0
    for k in range(2):
        for j in range(2, 4):
            inside = s.neighbours[p, k] < n and s.neighbours[p, j] < n
            if inside and s.colour[s.neighbours[s.neighbours[p, k], j]] == 3 - position.mover:
                bad += 1
    return bad == 0 or (bad == 1 and not at_edge)


@feature("sensibleness", ["legal moves that fill no own eye"], uses=(compute_move_effects,))
def sensibleness(position: PositionContext, out: Any) -> None:
    copy_bits(position.effects.legal, out[0])
    for i in range(len(position.s.words)):
        word = position.effects.legal[i]
        while word != ZERO:
            p = last_point(i, word)
            word &= word - ONE
            if is_own_eye(position, p):
                out[0, i] &= ~bit(p)


@kernel
def find_ladder_moves(position: PositionContext) -> None:
    """Fill `position.ladder_moves`, for features that have this kernel in their `uses`."""
    ladder_moves(position.s, position.ladders, position.mover, position.ladder_moves[0], position.ladder_moves[1])


@feature("ladder_capture", ["moves that capture in a ladder"], uses=(find_ladder_moves,))
def ladder_capture(position: PositionContext, out: Any) -> None:
    copy_bits(position.ladder_moves[0], out[0])


@feature("ladder_escape", ["moves that escape from a ladder"], uses=(find_ladder_moves,))
def ladder_escape(position: PositionContext, out: Any) -> None:
    copy_bits(position.ladder_moves[1], out[0])
