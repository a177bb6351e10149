"""The features of the published sets that look at the board as it is and at what went before.

"Own" is the side to move, "opp" the other one. What each means exactly: docs/planes/features.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kifu.go.rules import is_ko_recapture
from kifu.go.state import EMPTY, KO_POINT, ONE, ZERO, bit
from kifu.kernel import inline_kernel
from kifu.planes.context import PAST, PositionContext, add_point, opp, own, some_point
from kifu.planes.feature import Feature, family, feature
from kifu.point import BLACK, POINT_MASK, WHITE

_MOST_BINS = 64


def bins(what: str, least: int, count: int, one: str = "", many: str = "") -> tuple[str, ...]:
    """Names of `count` planes for `least`, `least` + 1, ... of something; the last one holds whatever is more."""
    last = least + count - 1
    names = [f"{k} {one if k == 1 else many}".rstrip() for k in range(least, last)]
    return tuple(f"{what}, {name}" for name in [*names, f"{last}+ {many}".rstrip()])


Side = Callable[[Any], Any]
"""An inline kernel f(view) that gives an index in arrays by colour."""


@inline_kernel
def black(view: PositionContext) -> Any:
    return 0


@inline_kernel
def white(view: PositionContext) -> Any:
    return 1


# The board


@inline_kernel
def copy_set(words: Any, out: Any) -> None:
    """Copies one bit set over another."""
    for i in range(len(out)):
        out[i] = words[i]


@feature("own", ["own stones"])
def own_stones(view: PositionContext, out: Any) -> None:
    copy_set(view.stones[own(view)], out[0])


@feature("opp", ["opponent's stones"])
def opp_stones(view: PositionContext, out: Any) -> None:
    copy_set(view.stones[opp(view)], out[0])


@feature("empty", ["empty points"])
def empty(view: PositionContext, out: Any) -> None:
    stones = view.stones
    for i in range(len(view.s.words)):
        out[0, i] = view.board[i] & ~(stones[0, i] | stones[1, i])


@feature("board", ["the board: ones"])
def board(view: PositionContext, out: Any) -> None:
    copy_set(view.board, out[0])


@feature("zeros", ["zeros"])
def zeros(view: PositionContext, out: Any) -> None:
    pass


@feature("edge", ["outside the board"], rim=1)
def edge(view: PositionContext, out: Any) -> None:
    copy_set(view.edge, out[0])


@feature("border", ["the outermost points of the board"])
def border(view: PositionContext, out: Any) -> None:
    n = view.s.neighbours.shape[0]
    for i in range(len(view.s.words)):
        word = view.board[i]
        while word != ZERO:
            p = 64 * i + some_point(word)
            word &= word - ONE
            for k in range(4):
                if view.s.neighbours[p, k] == n:
                    add_point(out[0], p)


@feature("ko", ["the point that ko forbids"])
def ko(view: PositionContext, out: Any) -> None:
    p = view.s.scalars[KO_POINT]
    if p >= 0 and is_ko_recapture(view.s, p, view.mover):
        add_point(out[0], p)


@feature("black_to_move", ["ones if Black is to move"])
def black_to_move(view: PositionContext, out: Any) -> None:
    if view.mover == BLACK:
        copy_set(view.board, out[0])


@feature("white_to_move", ["ones if White is to move"])
def white_to_move(view: PositionContext, out: Any) -> None:
    if view.mover == WHITE:
        copy_set(view.board, out[0])


# Liberties


@inline_kernel
def fill_liberties(view: PositionContext, c: Any, count: Any, out: Any) -> None:
    """Adds the stones of colour index c to out [count, W] by the liberties of their chains."""
    s = view.s
    for k in range(3):
        if k < 2 or count <= 3:
            for i in range(len(s.words)):
                out[min(k, count - 1), i] |= s.stones_by_liberties[c, k, i]
    if count > 3:
        for i in range(len(s.words)):
            word = s.stones_by_liberties[c, 2, i]
            for k in range(2, count):
                word &= ~out[k, i]
            while word != ZERO:
                h = s.chain_id[64 * i + some_point(word)]
                k = min(s.n_liberties[h], count) - 1
                for j in range(len(s.words)):
                    out[k, j] |= s.stones[h, j]
                word &= ~s.stones[h, i]


@family("liberties", 1, _MOST_BINS)
def liberties(k: int) -> Feature:
    @inline_kernel
    def fill(view: PositionContext, out: Any) -> None:
        fill_liberties(view, own(view), k, out)
        fill_liberties(view, opp(view), k, out)

    return Feature(f"liberties{k}", bins("stones", 1, k, "liberty", "liberties"), fill)


def _liberties_of(name: str, who: str, side: Side) -> None:
    """Registers the family of liberties of one side's stones."""

    @family(name, 1, _MOST_BINS)
    def liberties_of(k: int) -> Feature:
        @inline_kernel
        def fill(view: PositionContext, out: Any) -> None:
            fill_liberties(view, side(view), k, out)

        return Feature(f"{name}{k}", bins(who, 1, k, "liberty", "liberties"), fill)


_liberties_of("own_liberties", "own stones", own)
_liberties_of("opp_liberties", "opponent's stones", opp)
_liberties_of("black_liberties", "black stones", black)
_liberties_of("white_liberties", "white stones", white)


# What went before


@family("last", 1, _MOST_BINS)
def last(k: int) -> Feature:
    @inline_kernel
    def fill(view: PositionContext, out: Any) -> None:
        for t in range(min(k, view.ply)):
            p = view.moves[view.ply - 1 - t] & POINT_MASK
            if p < view.s.neighbours.shape[0]:
                add_point(out[t], np.int64(p))

    names = ["the last move", "the move before the last"] + [f"the move {t} before the last" for t in range(2, k)]
    return Feature(f"last{k}", tuple(names[:k]), fill)


@family("turns_since", 1, _MOST_BINS)
def turns_since(k: int) -> Feature:
    @inline_kernel
    def fill(view: PositionContext, out: Any) -> None:
        stones = view.stones
        for i in range(len(view.s.words)):
            out[k - 1, i] = stones[0, i] | stones[1, i]
        for t in range(min(k - 1, view.ply)):
            ply = view.ply - 1 - t
            p = np.int64(view.moves[ply] & POINT_MASK)
            if p < view.s.neighbours.shape[0] and view.s.colour[p] != EMPTY and view.played[p] == ply:
                out[k - 1, p >> 6] &= ~bit(p)
                add_point(out[t], p)

    return Feature(f"turns_since{k}", bins("stones played", 1, k, "turn ago", "turns ago"), fill)


@inline_kernel
def fill_past(view: PositionContext, t: Any, c: Any, out: Any) -> None:
    """Copies the stones of colour index c before the move t moves ago; none before the first move."""
    if t <= view.ply:
        copy_set(view.past[(view.ply - t) & (PAST - 1), c], out)


def _time(t: int) -> str:
    return "now" if t == 0 else f"{t} moves ago" if t > 1 else "1 move ago"


def _alternating(k: int) -> tuple[str, ...]:
    return tuple(f"{side} stones {_time(t)}" for t in range(k) for side in ("own", "opponent's"))


@family("history", 1, PAST)
def history(k: int) -> Feature:
    @inline_kernel
    def fill(view: PositionContext, out: Any) -> None:
        for t in range(k):
            fill_past(view, t, own(view), out[2 * t])
            fill_past(view, t, opp(view), out[2 * t + 1])

    return Feature(f"history{k}", _alternating(k), fill)


@family("repeated_history", 1, PAST)
def repeated_history(k: int) -> Feature:
    @inline_kernel
    def fill(view: PositionContext, out: Any) -> None:
        for t in range(k):
            fill_past(view, min(t, view.ply), own(view), out[2 * t])
            fill_past(view, min(t, view.ply), opp(view), out[2 * t + 1])

    return Feature(f"repeated_history{k}", _alternating(k), fill)


def _history_of(name: str, who: str, side: Side) -> None:
    """Registers the family of one side's stones now and before."""

    @family(name, 1, PAST)
    def history_of(k: int) -> Feature:
        @inline_kernel
        def fill(view: PositionContext, out: Any) -> None:
            for t in range(k):
                fill_past(view, t, side(view), out[t])

        return Feature(f"{name}{k}", tuple(f"{who} {_time(t)}" for t in range(k)), fill)


_history_of("own_history", "own stones", own)
_history_of("opp_history", "opponent's stones", opp)
