"""Features with real values, and those that only Darkforest and Maddison's set have: ranks, distances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kifu.go.state import ONE, ZERO
from kifu.kernel import inline_kernel
from kifu.planes.context import FRAME_WIDTH, HEIGHT, LEFT, TOP, WIDTH, PositionContext, add_point, opp, own, some_point
from kifu.planes.feature import feature
from kifu.planes.features import copy_set

_DAN = 9
_DECAY = 0.1
_FAR = 1_000_000


@feature("signed_stones", ["own stones 1, opponent's stones -1"], real=True)
def signed_stones(view: PositionContext, out: Any) -> None:
    for p in range(view.s.neighbours.shape[0]):
        if view.s.colour[p] == view.mover:
            out[0, p] = 1
        elif view.s.colour[p] == 3 - view.mover:
            out[0, p] = -1


@inline_kernel
def _fill_decay(view: PositionContext, colour: Any, out: Any) -> None:
    """Fills out [n] with exp(-0.1 t) for stones played t turns ago, 1 for the last move; 0 for those set up."""
    for p in range(view.s.neighbours.shape[0]):
        if view.s.colour[p] == colour:
            out[p] = math.exp(-_DECAY * (view.ply - view.played[p]))


@feature("own_decay", ["own stones, exp(-0.1 t) for t turns since they were played"], real=True)
def own_decay(view: PositionContext, out: Any) -> None:
    _fill_decay(view, view.mover, out[0])


@feature("opp_decay", ["opponent's stones, exp(-0.1 t) for t turns since they were played"], real=True)
def opp_decay(view: PositionContext, out: Any) -> None:
    _fill_decay(view, 3 - view.mover, out[0])


@feature("centre", ["exp(-d * d / 2) at distance d from the middle of the board"], real=True)
def centre(view: PositionContext, out: Any) -> None:
    place = view.place
    for y in range(place[HEIGHT]):
        for x in range(place[WIDTH]):
            dy, dx = y - (place[HEIGHT] - 1) / 2, x - (place[WIDTH] - 1) / 2
            out[0, (y + place[TOP]) * place[FRAME_WIDTH] + x + place[LEFT]] = math.exp(-(dy * dy + dx * dx) / 2)


@inline_kernel
def _measure(view: PositionContext, stones: Any, distance: Any, queue: Any) -> None:
    """Fills distance [n]: steps from each point of the board to the nearest of some stones, over whatever stands there.

    stones: bit set [W].  queue: [n], scratch.
    """
    n = view.s.neighbours.shape[0]
    for p in range(n):
        distance[p] = _FAR
    end = 0
    for i in range(len(view.s.words)):
        word = stones[i]
        while word != ZERO:
            p = 64 * i + some_point(word)
            word &= word - ONE
            distance[p] = 0
            queue[end] = p
            end += 1
    at = 0
    while at < end:
        p = queue[at]
        at += 1
        for k in range(4):
            q = view.s.neighbours[p, k]
            if q < n and distance[q] == _FAR:
                distance[q] = distance[p] + 1
                queue[end] = q
                end += 1


@feature("closest", ["points nearer to an own stone", "points nearer to an opponent's stone"])
def closest(view: PositionContext, out: Any) -> None:
    stones = view.stones
    mine, theirs, queue = view.distance[0], view.distance[1], view.distance[2]
    _measure(view, stones[own(view)], mine, queue)
    _measure(view, stones[opp(view)], theirs, queue)
    for p in range(view.s.neighbours.shape[0]):
        if mine[p] < theirs[p]:
            add_point(out[0], p)
        elif theirs[p] < mine[p]:
            add_point(out[1], p)


@inline_kernel
def _dan(rating: Any) -> Any:
    """1 to 9 for a rating of 1 dan to 9 dan; 9 for professionals; 0 for kyu players and unknown ranks."""
    if rating >= 32:  # not for NaN
        return min(np.int64(rating) - 31, _DAN)
    return 0


def _dan_planes(who: str) -> list[str]:
    return [f"ones if the {who} is {k} dan" for k in range(1, _DAN)] + [f"ones if the {who} is 9 dan or professional"]


@feature("own_dan", _dan_planes("mover"), ranked=True)
def own_dan(view: PositionContext, out: Any) -> None:
    k = _dan(view.rating[own(view)])
    if k > 0:
        copy_set(view.board, out[k - 1])


@feature("opp_dan", _dan_planes("opponent"), ranked=True)
def opp_dan(view: PositionContext, out: Any) -> None:
    k = _dan(view.rating[opp(view)])
    if k > 0:
        copy_set(view.board, out[k - 1])
