"""Search for images that have one place each, as those of corners and whole boards, without tables of the game.

The images are followed through the moves until each of them matches or has a stone that it does not allow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.replay import GameMoves
from kifu.go.state import bit, popcount
from kifu.kernel import inline_kernel
from kifu.point import ERASE_BIT, POINT_MASK
from kifu.search._hits import (
    FORBIDS,
    LAST_PLY,
    N_POINTS,
    PLACE,
    STONES,
    STONES_END,
    HitArrays,
    MatchPlan,
    add_hit,
)
from kifu.search._intervals import TraceArrays, next_is_point

ZERO = np.uint64(0)


class ScanArrays(NamedTuple):
    """Scratch memory.

    Attributes:
        captured: [SLOTS / 64] uint64 bit set, the points of a game whose stones are captured.
        missing: [I] int64, how many stones each image lacks.
    """

    captured: npt.NDArray[np.uint64]
    missing: npt.NDArray[np.int64]


@inline_kernel
def _has_unusual_setup(ws: ScanArrays, plan: MatchPlan, game: GameMoves) -> Any:
    """Return whether setup does more than to put one stone on each of some points at the start."""
    for i in range(game.setup.shape[0]):
        ws.captured[(game.setup[i] & POINT_MASK) >> 6] = ZERO
    for i in range(game.setup.shape[0]):
        p = np.int64(game.setup[i]) & POINT_MASK
        if game.setup_ply[i] != 0 or game.setup[i] & ERASE_BIT or p >= plan.limits[N_POINTS]:
            return True
        if ws.captured[p >> 6] & bit(p) != ZERO:
            return True
        ws.captured[p >> 6] |= bit(p)
    return False


@inline_kernel
def _load_captured(ws: ScanArrays, traces: TraceArrays, g: Any) -> None:
    """Fill `captured`."""
    for i in range(traces.occupied.shape[2]):
        ws.captured[i] = ZERO
    is_point = 0
    for i in range(traces.capture_offset[g], traces.capture_offset[g + 1]):
        word = np.int64(traces.captures[i])
        p = word & POINT_MASK
        ws.captured[p >> 6] |= bit(p) * np.uint64(is_point)
        is_point = next_is_point(word, is_point)


@inline_kernel
def _first_image(images: Any) -> Any:
    return popcount(np.uint64((images & -images) - 1))


@inline_kernel
def scan(
    ws: ScanArrays, plan: MatchPlan, traces: TraceArrays, game: GameMoves, g: Any, images: Any, out: HitArrays,
    n: Any,
) -> Any:  # fmt: skip
    """Follow images through a game and add their hits to `out`.

    An image ends with a stone that it forbids, unless that stone is captured later: then it becomes doubtful, as images
    are that need a captured stone. If all stones of a doubtful image come, it is left to `_first_match`.

    Returns:
        (the images left, the number of hits).
    """
    if _has_unusual_setup(ws, plan, game):
        return images, n
    _load_captured(ws, traces, g)
    complete, doubtful, left = np.int64(0), np.int64(0), np.int64(0)
    rest = images
    while rest != 0:
        m = _first_image(rest)
        rest &= rest - 1
        ws.missing[m] = plan.images[m, STONES_END] - plan.images[m, STONES]
        complete |= np.int64(ws.missing[m] == 0) << m
    n_setup, plies = np.int64(game.setup.shape[0]), np.int64(traces.plies[g])
    stop = min(plies, plan.limits[LAST_PLY])
    t = -n_setup  # stones set up at the start come before move 0
    while True:
        if complete != 0 and t >= 0:
            images &= ~complete
            left |= complete & doubtful
            complete &= ~doubtful
            while complete != 0:
                m = _first_image(complete)
                complete &= complete - 1
                n = add_hit(plan, plies, game, g, m, plan.images[m, PLACE], t, out, n)
        if images == 0 or t >= stop:
            break
        word = np.int64(game.setup[t + n_setup]) if t < 0 else np.int64(game.moves[t])
        t += 1
        p = word & POINT_MASK
        touched = np.int64(plan.touch[word >> 15, p]) & (images << FORBIDS | images)
        if touched != 0:
            if ws.captured[p >> 6] & bit(p) != ZERO:
                doubtful |= touched >> FORBIDS | touched
            else:
                images &= ~(touched >> FORBIDS)
                complete &= images
            needing = touched & images
            while needing != 0:
                m = _first_image(needing)
                needing &= needing - 1
                ws.missing[m] -= 1
                if ws.missing[m] == 0:
                    complete |= 1 << m
    return left, n
