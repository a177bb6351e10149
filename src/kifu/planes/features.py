"""Named features, which plane sets are composed of, and how to define your own.

    @feature("corner_stones", ("stones in the corners",))
    def corner_stones(position, out):
        ...

A feature fills `out`: [k, W] uint64, a bit set for each of its k planes, empty when it is called; or, if it is `real`,
[k, n] float32, zero when it is called. It only reads `position`, a `kifu.planes.context.PositionContext`. It is
compiled into the kernel of each plane set that contains it: plain loops, see `kifu.kernel`.

Below are the features that describe the board as it is, its history and the players; those of moves are in
`kifu.planes.move_effects`. "Own" is the side to move, "opp" the opponent. `kifu.planes.registry` defines each feature.
"""
# ruff: noqa: D103 - names and planes of a feature are in its decorator

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kifu.errors import RecipeError
from kifu.go.rules import is_ko_recapture
from kifu.go.state import EMPTY, KO_POINT, ONE, ZERO, add_point, bit, copy_bits, last_point
from kifu.kernel import inline_kernel
from kifu.planes.context import FRAME_WIDTH, HEIGHT, LEFT, PAST, TOP, WIDTH, PositionContext, opp, own
from kifu.point import BLACK, POINT_MASK, WHITE
from kifu.registry import suggestion

Fill = Callable[[Any, Any], None]
Prepare = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Feature:
    """One or more named planes. A released feature never changes; a variant takes another name.

    Attributes:
        uses: Kernels f(position) that are called before, once for all features of a plane set that use them.
        real: Whether the values are float32 instead of bits; a plane set with a real feature is real as a whole.
        padding: Number of rows and columns around the board, on each side.
    """

    name: str
    planes: tuple[str, ...]
    fill: Fill
    uses: tuple[Prepare, ...] = ()
    real: bool = False
    padding: int = 0
    needs_ranks: bool = False


@dataclass(frozen=True, slots=True)
class Family:
    """Features that differ in a number at the end of their names. make: returns the feature of a number."""

    name: str
    least: int
    most: int
    make: Callable[[int], Feature]


FEATURES: dict[str, Feature] = {}
"""Every feature with a fixed name; `feature` adds to it."""

FAMILIES: dict[str, Family] = {}
"""Every family by its name without the number; `family` adds to it."""


def feature(
    name: str,
    planes: Iterable[str],
    *,
    uses: tuple[Prepare, ...] = (),
    real: bool = False,
    padding: int = 0,
    needs_ranks: bool = False,
) -> Callable[[Fill], Fill]:
    """Return a decorator that registers a function as the `fill` of a feature; see `Feature` for the other arguments.

    Raises RecipeError if the name is taken, or not possible in a composition.
    """

    def register(fill: Fill) -> Fill:
        if not re.fullmatch(r"[a-z]\w*", name) or name in FAMILIES or _split_number(name)[0] in FAMILIES:
            raise RecipeError(
                f"a feature name must be small letters, digits and _, without a family's name, got {name!r}"
            )
        if name in FEATURES and FEATURES[name].fill.__module__ != fill.__module__:
            raise RecipeError(f"feature {name!r} is already defined in {FEATURES[name].fill.__module__}")
        compiled = inline_kernel(fill)
        FEATURES[name] = Feature(name, tuple(planes), compiled, uses, real, padding, needs_ranks)
        return compiled

    return register


def family(name: str, least: int, most: int) -> Callable[[Callable[[int], Feature]], Callable[[int], Feature]]:
    """Return a decorator that registers a function k -> feature `name<k>` for each k from `least` to `most`."""

    def register(make: Callable[[int], Feature]) -> Callable[[int], Feature]:
        FAMILIES[name] = Family(name, least, most, make)
        return make

    return register


def _split_number(name: str) -> tuple[str, str]:
    """Return a name without, and only, the digits at its end."""
    stem = name.rstrip("0123456789")
    return stem, name[len(stem) :]


def find_feature(name: str, others: Iterable[str] = ()) -> Feature:
    """Return the feature of a name. others: more names to suggest if there is no such feature.

    Raises RecipeError with the most similar name, or the numbers of its family.
    """
    if name in FEATURES:
        return FEATURES[name]
    stem, digits = _split_number(name)
    if stem in FAMILIES:
        named = FAMILIES[stem]
        if digits and str(int(digits)) == digits and named.least <= int(digits) <= named.most:
            return named.make(int(digits))
        raise RecipeError(f"no feature {name!r}: {stem} takes a number from {named.least} to {named.most}")
    families = [stem + digits for stem in FAMILIES]
    hint = suggestion(name, [*FEATURES, *families, *others]) or "; see kifu list planes"
    raise RecipeError(f"unknown plane set or feature {name!r}{hint}")


MAX_BINS = 64
_MAX_DAN = 9
_DECAY = 0.1
_UNREACHED = 1_000_000


def bins(what: str, least: int, count: int, one: str = "", many: str = "") -> tuple[str, ...]:
    """Return names of `count` planes for `least`, `least` + 1, ... of something; the last includes higher numbers."""
    last = least + count - 1
    names = [f"{k} {one if k == 1 else many}".rstrip() for k in range(least, last)]
    return tuple(f"{what}, {name}" for name in [*names, f"{last}+ {many}".rstrip()])


Side = Callable[[Any], Any]
"""An inline kernel f(position) that returns an index in arrays by colour."""


@inline_kernel
def black(position: PositionContext) -> Any:
    return 0


@inline_kernel
def white(position: PositionContext) -> Any:
    return 1


# The board


def _stones_of(name: str, who: str, side: Side) -> None:
    @feature(name, [who])
    def stones_of(position: PositionContext, out: Any) -> None:
        copy_bits(position.stones[side(position)], out[0])


_stones_of("own", "own stones", own)
_stones_of("opp", "opponent's stones", opp)
_stones_of("black", "black stones", black)
_stones_of("white", "white stones", white)


@feature("empty", ["empty points"])
def empty(position: PositionContext, out: Any) -> None:
    stones = position.stones
    for i in range(len(position.s.words)):
        out[0, i] = position.board[i] & ~(stones[0, i] | stones[1, i])


@feature("board", ["the board: ones"])
def board(position: PositionContext, out: Any) -> None:
    copy_bits(position.board, out[0])


@feature("zeros", ["zeros"])
def zeros(position: PositionContext, out: Any) -> None:
    pass


@feature("edge", ["outside the board"], padding=1)
def edge(position: PositionContext, out: Any) -> None:
    copy_bits(position.edge, out[0])


@feature("border", ["the outermost points of the board"])
def border(position: PositionContext, out: Any) -> None:
    n = position.s.neighbours.shape[0]
    for i in range(len(position.s.words)):
        word = position.board[i]
        while word != ZERO:
            p = last_point(i, word)
            word &= word - ONE
            for k in range(4):
                if position.s.neighbours[p, k] == n:
                    add_point(out[0], p)


@feature("ko", ["the point that ko forbids"])
def ko(position: PositionContext, out: Any) -> None:
    p = position.s.scalars[KO_POINT]
    if p >= 0 and is_ko_recapture(position.s, p, position.mover):
        add_point(out[0], p)


def _to_move(name: str, who: str, colour: int) -> None:
    @feature(name, [f"ones if {who} is to move"])
    def to_move(position: PositionContext, out: Any) -> None:
        if position.mover == colour:
            copy_bits(position.board, out[0])


_to_move("black_to_move", "Black", BLACK)
_to_move("white_to_move", "White", WHITE)


# Liberties


@inline_kernel
def fill_liberties(position: PositionContext, c: Any, count: Any, out: Any) -> None:
    """Add the stones of colour index c to out [count, W] by the number of liberties of their chains."""
    s = position.s
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
                h = s.chain_id[last_point(i, word)]
                k = min(s.n_liberties[h], count) - 1
                for j in range(len(s.words)):
                    out[k, j] |= s.stones[h, j]
                word &= ~s.stones[h, i]


@family("liberties", 1, MAX_BINS)
def liberties(k: int) -> Feature:
    @inline_kernel
    def fill(position: PositionContext, out: Any) -> None:
        fill_liberties(position, own(position), k, out)
        fill_liberties(position, opp(position), k, out)

    return Feature(f"liberties{k}", bins("stones", 1, k, "liberty", "liberties"), fill)


def _liberties_of(name: str, who: str, side: Side) -> None:
    @family(name, 1, MAX_BINS)
    def liberties_of(k: int) -> Feature:
        @inline_kernel
        def fill(position: PositionContext, out: Any) -> None:
            fill_liberties(position, side(position), k, out)

        return Feature(f"{name}{k}", bins(who, 1, k, "liberty", "liberties"), fill)


_liberties_of("own_liberties", "own stones", own)
_liberties_of("opp_liberties", "opponent's stones", opp)
_liberties_of("black_liberties", "black stones", black)
_liberties_of("white_liberties", "white stones", white)


# History


@family("last", 1, MAX_BINS)
def last(k: int) -> Feature:
    @inline_kernel
    def fill(position: PositionContext, out: Any) -> None:
        for t in range(min(k, position.ply)):
            p = position.moves[position.ply - 1 - t] & POINT_MASK
            if p < position.s.neighbours.shape[0]:
                add_point(out[t], np.int64(p))

    names = ["the last move", "the move before the last"] + [f"the move {t} before the last" for t in range(2, k)]
    return Feature(f"last{k}", tuple(names[:k]), fill)


@family("turns_since", 1, MAX_BINS)
def turns_since(k: int) -> Feature:
    @inline_kernel
    def fill(position: PositionContext, out: Any) -> None:
        stones = position.stones
        for i in range(len(position.s.words)):
            out[k - 1, i] = stones[0, i] | stones[1, i]
        for t in range(min(k - 1, position.ply)):
            ply = position.ply - 1 - t
            p = np.int64(position.moves[ply] & POINT_MASK)
            if p < position.s.neighbours.shape[0] and position.s.colour[p] != EMPTY and position.played[p] == ply:
                out[k - 1, p >> 6] &= ~bit(p)
                add_point(out[t], p)

    return Feature(f"turns_since{k}", bins("stones played", 1, k, "turn ago", "turns ago"), fill)


@inline_kernel
def fill_past(position: PositionContext, t: Any, c: Any, out: Any) -> None:
    """Copy the stones of colour index c as of t moves ago; none before the first move."""
    if t <= position.ply:
        copy_bits(position.past[(position.ply - t) & (PAST - 1), c], out)


def _ago(t: int) -> str:
    return "now" if t == 0 else f"{t} moves ago" if t > 1 else "1 move ago"


def _alternating(k: int) -> tuple[str, ...]:
    return tuple(f"{side} stones {_ago(t)}" for t in range(k) for side in ("own", "opponent's"))


@family("history", 1, PAST)
def history(k: int) -> Feature:
    @inline_kernel
    def fill(position: PositionContext, out: Any) -> None:
        for t in range(k):
            fill_past(position, t, own(position), out[2 * t])
            fill_past(position, t, opp(position), out[2 * t + 1])

    return Feature(f"history{k}", _alternating(k), fill)


@family("repeated_history", 1, PAST)
def repeated_history(k: int) -> Feature:
    @inline_kernel
    def fill(position: PositionContext, out: Any) -> None:
        for t in range(k):
            fill_past(position, min(t, position.ply), own(position), out[2 * t])
            fill_past(position, min(t, position.ply), opp(position), out[2 * t + 1])

    return Feature(f"repeated_history{k}", _alternating(k), fill)


def _history_of(name: str, who: str, side: Side) -> None:
    @family(name, 1, PAST)
    def history_of(k: int) -> Feature:
        @inline_kernel
        def fill(position: PositionContext, out: Any) -> None:
            for t in range(k):
                fill_past(position, t, side(position), out[t])

        return Feature(f"{name}{k}", tuple(f"{who} {_ago(t)}" for t in range(k)), fill)


_history_of("own_history", "own stones", own)
_history_of("opp_history", "opponent's stones", opp)


# Real values, distances and ranks


@feature("signed_stones", ["own stones 1, opponent's stones -1"], real=True)
def signed_stones(position: PositionContext, out: Any) -> None:
    for p in range(position.s.neighbours.shape[0]):
        if position.s.colour[p] == position.mover:
            out[0, p] = 1
        elif position.s.colour[p] == 3 - position.mover:
            out[0, p] = -1


def _decay_of(name: str, who: str, side: Side) -> None:
    """Register exp(-0.1 t) for one side's stones played t turns ago, 1 for the last move; 0 for stones set up."""

    @feature(name, [f"{who} stones, exp(-0.1 t) for t turns since they were played"], real=True)
    def decay_of(position: PositionContext, out: Any) -> None:
        for p in range(position.s.neighbours.shape[0]):
            if position.s.colour[p] == side(position) + 1:
                out[0, p] = math.exp(-_DECAY * (position.ply - position.played[p]))


_decay_of("own_decay", "own", own)
_decay_of("opp_decay", "opponent's", opp)


@feature("centre", ["exp(-d * d / 2) at distance d from the middle of the board"], real=True)
def centre(position: PositionContext, out: Any) -> None:
    geometry = position.geometry
    for y in range(geometry[HEIGHT]):
        for x in range(geometry[WIDTH]):
            dy, dx = y - (geometry[HEIGHT] - 1) / 2, x - (geometry[WIDTH] - 1) / 2
            out[0, (y + geometry[TOP]) * geometry[FRAME_WIDTH] + x + geometry[LEFT]] = math.exp(
                -(dy * dy + dx * dx) / 2
            )


@inline_kernel
def _find_distances(position: PositionContext, stones: Any, distance: Any, queue: Any) -> None:
    """Fill [n] steps from each point to the nearest of `stones` [W], regardless of others. queue: [n], scratch."""
    n = position.s.neighbours.shape[0]
    for p in range(n):
        distance[p] = _UNREACHED
    end = 0
    for i in range(len(position.s.words)):
        word = stones[i]
        while word != ZERO:
            p = last_point(i, word)
            word &= word - ONE
            distance[p] = 0
            queue[end] = p
            end += 1
    at = 0
    while at < end:
        p = queue[at]
        at += 1
        for k in range(4):
            q = position.s.neighbours[p, k]
            if q < n and distance[q] == _UNREACHED:
                distance[q] = distance[p] + 1
                queue[end] = q
                end += 1


@feature("closest", ["points nearer to an own stone", "points nearer to an opponent's stone"])
def closest(position: PositionContext, out: Any) -> None:
    stones = position.stones
    mine, theirs, queue = position.distance[0], position.distance[1], position.distance[2]
    _find_distances(position, stones[own(position)], mine, queue)
    _find_distances(position, stones[opp(position)], theirs, queue)
    for p in range(position.s.neighbours.shape[0]):
        if mine[p] < theirs[p]:
            add_point(out[0], p)
        elif theirs[p] < mine[p]:
            add_point(out[1], p)


@inline_kernel
def _dan(rating: Any) -> Any:
    """Return 1 to 9 for a rating of 1 dan to 9 dan, 9 for professionals, 0 for kyu players and unknown ranks."""
    if rating >= 32:  # not for NaN
        return np.int64(min(rating - 31, _MAX_DAN))  # the conversion of a huge number is undefined
    return 0


def _dan_of(name: str, player: str, side: Side) -> None:
    planes = [f"ones if the {player} is {k} dan" for k in range(1, _MAX_DAN)]

    @feature(name, [*planes, f"ones if the {player} is 9 dan or professional"], needs_ranks=True)
    def dan_of(position: PositionContext, out: Any) -> None:
        k = _dan(position.rating[side(position)])
        if k > 0:
            copy_bits(position.board, out[k - 1])


_dan_of("own_dan", "mover", own)
_dan_of("opp_dan", "opponent", opp)
