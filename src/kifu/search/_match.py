"""The kernels that find patterns in traced games.

For blocks of games, the sets of points ever occupied give the places where all stones of each image of the pattern may
have stood (`_filter_places`). Games with such places are searched in one of two ways.

Images with one place each, as those of corners and whole boards, are followed through the moves of the game until each
of them matches or has a stone that it does not allow (`kifu.search._scan`). For all others, and for images that touch
captured stones, tables of when stones came and left (`kifu.search._intervals`) give the first ply at which all cells
match (`_first_match`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.replay import GameMoves, ReplayArrays, game_moves
from kifu.go.state import last_point
from kifu.kernel import inline_kernel, kernel
from kifu.search._hits import (
    CELLS,
    CELLS_END,
    EMPTY_CELLS,
    EMPTY_CELLS_END,
    LAST_PLY,
    N_PLACES,
    N_POINTS,
    SCANS,
    STONES,
    STONES_END,
    HitArrays,
    MatchPlan,
    add_hit,
    sort_hits,
)
from kifu.search._intervals import (
    COLOUR_BITS,
    FILLED_INTERVALS,
    FILLED_MOVES,
    NEVER,
    REMOVED,
    Tables,
    TraceArrays,
    fill,
    fill_intervals,
    next_allowed,
)
from kifu.search._scan import ScanArrays, scan

BLOCK = 64
"""Games whose places are filtered together, which the compiler vectorizes."""

LOADED = 32
"""Moves of a game that are in the same or the next line of the cache."""

UNBRANCHED = 8
"""Cells that are tested without branches."""

ZERO = np.uint64(0)
ONE = np.uint64(1)


class BlockArrays(NamedTuple):
    """Scratch memory for a block of games.

    Attributes:
        occupied: [3, 2 * W + 1, BLOCK] uint64, the points ever occupied by Black, White and either, padded by zeros.
        places: [Q, BLOCK] uint64, the places that are left of each word of `MatchPlan.windows`.
        any: [BLOCK] uint64, not 0 if a place is left.
        loaded: [1] int64, not used; it keeps the compiler from leaving out reads.
    """

    occupied: npt.NDArray[np.uint64]
    places: npt.NDArray[np.uint64]
    any: npt.NDArray[np.uint64]
    loaded: npt.NDArray[np.int64]


@kernel
def _filter_places(block: BlockArrays, plan: MatchPlan, traces: TraceArrays, game_index: Any) -> None:
    """Fill `places` and `any` for games `game_index`: places where each stone's point was once of its colour."""
    for j in range(game_index.shape[0]):
        g = game_index[j]
        for i in range(traces.occupied.shape[2]):
            black, white = traces.occupied[g, 0, i], traces.occupied[g, 1, i]
            block.occupied[0, i, j] = black
            block.occupied[1, i, j] = white
            block.occupied[2, i, j] = black | white
    for j in range(BLOCK):
        block.any[j] = ZERO
    for q in range(plan.words.shape[0]):
        m, w = plan.words[q, 0], plan.words[q, 1]
        places = block.places[q]
        for j in range(BLOCK):
            places[j] = plan.windows[q]
        for k in range(plan.images[m, STONES], plan.images[m, STONES_END]):
            left, right = np.uint64(plan.stones[k, 1] & 63), np.uint64(63 - (plan.stones[k, 1] & 63))
            high = block.occupied[plan.stones[k, 0], w + (plan.stones[k, 1] >> 6)]
            low = block.occupied[plan.stones[k, 0], w + (plan.stones[k, 1] >> 6) + 1]
            for j in range(BLOCK):
                places[j] &= high[j] << left | low[j] >> ONE >> right
        for j in range(BLOCK):
            block.any[j] |= places[j]


@inline_kernel
def _load_games(block: BlockArrays, games: ReplayArrays, traces: TraceArrays, game_index: Any) -> None:
    """Read the first moves and captures of the games that are left, so that waits for memory overlap."""
    total = 0
    for j in range(game_index.shape[0]):
        if block.any[j] != ZERO:
            g = game_index[j]
            first, last, capture = games.move_offset[g], games.move_offset[g + 1], traces.capture_offset[g]
            if last > first + LOADED and capture < traces.capture_offset[g + 1]:
                total += games.moves[first] + games.moves[first + LOADED] + traces.captures[capture]
    block.loaded[0] = total


@inline_kernel
def _first_match(
    tables: Tables, plan: MatchPlan, traces: TraceArrays, game: GameMoves, g: Any, m: Any, place: Any
) -> Any:
    """Return the first ply at which all cells of image m match at a place, or NEVER."""
    t = np.int64(0)
    for k in range(plan.images[m, CELLS], plan.images[m, EMPTY_CELLS]):
        word: Any = np.int64(tables.first[place + plan.cells[k, 0]])
        if word < REMOVED:
            t = max(t, word >> COLOUR_BITS)
    after = (t + 1) << COLOUR_BITS  # stones by ply t have lower words, unless they are removed
    # Most places fail here: all of these cells are tested, because a branch for each is hard to predict.
    first = plan.images[m, EMPTY_CELLS]
    taken: Any = False
    for k in range(first, min(first + UNBRANCHED, plan.images[m, EMPTY_CELLS_END])):
        taken |= np.int64(tables.first[place + plan.cells[k, 0]]) < after
    if taken:
        return NEVER
    removed = np.int64(0)
    for k in range(plan.images[m, CELLS], plan.images[m, CELLS_END]):
        word = np.int64(tables.first[place + plan.cells[k, 0]])
        removed |= word
        if word < after and plan.cells[k, 1] >> (word & 3) & 1 == 0:
            return NEVER
    if removed & REMOVED:
        t = _first_match_after(tables, plan, traces, game, g, m, place, t)
    return t if t <= plan.limits[LAST_PLY] else NEVER


@kernel
def _first_match_after(
    tables: Tables, plan: MatchPlan, traces: TraceArrays, game: GameMoves, g: Any, m: Any, place: Any, t: Any
) -> Any:
    """Return the first ply from t on at which all cells of image m match at a place with REMOVED points, or NEVER.

    Cells that must have a stone on the other points match from t on.
    """
    if not tables.filled[FILLED_INTERVALS]:
        fill_intervals(tables, traces, game, g, plan.limits[N_POINTS])
    while True:
        before = t
        for k in range(plan.images[m, CELLS], plan.images[m, CELLS_END]):
            p, allowed = place + plan.cells[k, 0], plan.cells[k, 1]
            word = np.int64(tables.first[p])
            if word & REMOVED:
                t = next_allowed(tables, p, t, allowed)
                if t >= NEVER:
                    return NEVER
            elif word < (t + 1) << COLOUR_BITS and allowed >> (word & 3) & 1 == 0:
                return NEVER
        if t == before:
            return t


@inline_kernel
def _match_game(  # noqa: PLR0913 - kernel
    games: ReplayArrays, traces: TraceArrays, plan: MatchPlan, tables: Tables, block: BlockArrays, ws: ScanArrays,
    g: Any, j: Any, out: HitArrays, n: Any,
) -> Any:  # fmt: skip
    """Add the hits in game g, which is number j of the block, to `out`. Returns the number of hits."""
    game = game_moves(games, g)
    tables.filled[FILLED_MOVES] = 0
    images = np.int64(-1)
    if plan.limits[SCANS]:
        images = np.int64(0)
        for q in range(plan.words.shape[0]):
            images |= np.int64(block.places[q, j] != ZERO) << plan.words[q, 0]
        images, n = scan(ws, plan, traces, game, g, images, out, n)
    if images == 0:
        return n
    for q in range(plan.words.shape[0]):
        m = plan.words[q, 0]
        places = block.places[q, j] if images >> m & 1 else ZERO
        while places != ZERO:
            place = last_point(plan.words[q, 1], places)
            places &= places - ONE
            if not tables.filled[FILLED_MOVES]:
                fill(tables, traces, game, g, plan.limits[N_POINTS])
            ply = _first_match(tables, plan, traces, game, g, m, place)
            if ply < NEVER:
                n = add_hit(plan, np.int64(traces.plies[g]), game, g, m, place, ply, out, n)
    return n


@kernel
def match_all(  # noqa: PLR0913 - kernel
    games: ReplayArrays, traces: TraceArrays, plan: MatchPlan, tables: Tables, block: BlockArrays, ws: ScanArrays,
    game_index: Any, start: Any, out: HitArrays,
) -> Any:  # fmt: skip
    """Find the pattern in games of one size, from game_index[start] on, until `out` may not hold another game's hits.

    Returns:
        (number of games done, including those before `start`, number of hits).
    """
    n = np.int64(0)
    first, total = np.int64(start), np.int64(game_index.shape[0])
    while first < total:
        stop = min(first + BLOCK, total)
        _filter_places(block, plan, traces, game_index[first:stop])
        _load_games(block, games, traces, game_index[first:stop])
        for j in range(stop - first):
            if n + plan.limits[N_PLACES] > out.game.shape[0]:
                return first + j, n
            if block.any[j] != ZERO:
                before = n
                n = _match_game(games, traces, plan, tables, block, ws, game_index[first + j], j, out, n)
                if n - before > 1:
                    sort_hits(out, before, n)
        first = stop
    return total, n
