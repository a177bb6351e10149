"""The kernels that find patterns in traced games.

For blocks of games, the sets of points ever occupied give the places where all stones of each image of the pattern may
have stood (`_filter_places`). Games with such places are searched in one of two ways.

Images with one place each, as those of corners and whole boards, are followed through the moves of the game until each
of them matches or has a stone that it does not allow (`scan`). For all others, and for images that touch
captured stones, tables of when stones came and left (`fill`) give the first ply at which all cells match
(`_first_match`).

The tables hold the first stone on each point. The few points whose stone was removed have a chain of intervals besides,
which `fill_intervals` makes when a search needs them. Points of moves are not checked: tables by point have a slot for
every value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.replay import GameMoves, ReplayArrays, game_moves
from kifu.go.state import bit, last_point, popcount
from kifu.kernel import inline_kernel, kernel
from kifu.point import ERASE_BIT, POINT_MASK
from kifu.search import pattern as pt
from kifu.search.traces import LAST_STONE, ONE, ZERO, Traces

REMOVED = 1 << 31
"""The highest bit of `Tables.first`: a stone left the point, or setup changed it after the start."""

COLOUR_BITS = 2
"""The lowest bits of `Tables.first`, below the ply."""

NO_STONE = pt.NEVER << COLOUR_BITS

# Indices of Tables.filled
FILLED_MOVES, FILLED_INTERVALS, N_LATER = range(3)

# Columns of Tables.intervals
COME, GONE, COLOUR, NEXT = range(4)


class Tables(NamedTuple):
    """Scratch memory of one thread."""

    # [SLOTS]: by point: REMOVED | ply of the first stone << COLOUR_BITS | its colour; NO_STONE if none
    first: npt.NDArray[np.uint32]
    later: npt.NDArray[np.int64]  # [K]: the moves to points that had a stone before
    head: npt.NDArray[np.int64]  # [SLOTS]: the first interval of each REMOVED point, or -1
    tail: npt.NDArray[np.int64]  # [SLOTS]: the last one
    # [K, 4]: the stones on these points: ply of coming, of leaving, colour, next interval or -1
    intervals: npt.NDArray[np.int64]
    # [3]: whether `first` and the intervals are those of the current game; the length of `later`
    filled: npt.NDArray[np.int64]
    captured: npt.NDArray[np.uint64]  # [SLOTS / 64]: bit set, the points of the current game whose stones are captured
    missing: npt.NDArray[np.int64]  # [I]: how many stones each image lacks
    # [3, 2 * W + 1, BLOCK]: the points ever occupied by Black, White and either in each game of a block, padded by
    # zeros
    occupied: npt.NDArray[np.uint64]
    places: npt.NDArray[np.uint64]  # [Q, BLOCK]: the places that are left of each word of `MatchPlan.windows`
    any_place: npt.NDArray[np.uint64]  # [BLOCK]: not 0 if a place is left
    loaded: npt.NDArray[np.int64]  # [1]: not used; it keeps the compiler from leaving out reads


@inline_kernel
def fill(tables: Tables, traces: Traces, game: GameMoves, g: Any, n_points: Any) -> None:
    """Fill `first` and `later`."""
    first = tables.first
    for q in range(n_points + 1):
        first[q] = NO_STONE
    for i in range(game.setup.shape[0]):
        word: Any = np.int64(game.setup[i])
        p: Any = word & POINT_MASK
        if p >= n_points:  # it ended the game
            break
        if game.setup_ply[i] == 0 and word & ERASE_BIT == 0 and first[p] == NO_STONE:
            first[p] = 1 + (word >> 15)
        else:
            _mark_removed(tables, p)
    n = 0
    for t in range(np.int64(traces.plies[g])):
        word = np.int64(game.moves[t])
        p = word & POINT_MASK
        old = np.int64(first[p])
        if old & ~REMOVED == NO_STONE:
            first[p] = (old & REMOVED) | (t + 1) << COLOUR_BITS | 1 + (word >> 15)
        elif p < n_points:
            tables.later[n] = t
            n += 1
    tables.filled[N_LATER] = n
    is_point = 0  # without branches, which would be hard to predict
    for i in range(traces.capture_offset[g], traces.capture_offset[g + 1]):
        word = np.int64(traces.captures[i])
        first[word & POINT_MASK] |= REMOVED * is_point
        tables.head[word & POINT_MASK] = -1
        is_point = next_is_point(word, is_point)
    tables.filled[FILLED_MOVES] = 1
    tables.filled[FILLED_INTERVALS] = 0


@inline_kernel
def next_is_point(word: Any, is_point: Any) -> Any:
    """Return 1 if a point follows a word of `Traces.captures`, 0 if a move number does; likewise `is_point` of it."""
    return 1 - (is_point & word >> 15)


@inline_kernel
def _mark_removed(tables: Tables, p: Any) -> None:
    tables.first[p] |= REMOVED
    tables.head[p] = -1


@inline_kernel
def _add_interval(tables: Tables, n: Any, p: Any, ply: Any, colour: Any) -> Any:
    tables.intervals[n, COME] = ply
    tables.intervals[n, GONE] = pt.NEVER
    tables.intervals[n, COLOUR] = colour
    tables.intervals[n, NEXT] = -1
    if tables.head[p] < 0:
        tables.head[p] = n
    else:
        tables.intervals[tables.tail[p], NEXT] = n
    tables.tail[p] = n
    return n + 1


@inline_kernel
def _add_first(tables: Tables, n: Any, p: Any, ply: Any) -> Any:
    """Add the interval of the first stone on p if it came by `ply` and was not added before."""
    word = np.int64(tables.first[p]) & ~REMOVED
    if word >> COLOUR_BITS <= ply:
        n = _add_interval(tables, n, p, word >> COLOUR_BITS, word & 3)
        tables.first[p] = REMOVED | NO_STONE
    return n


@inline_kernel
def _remove(tables: Tables, p: Any, ply: Any) -> None:
    if tables.head[p] >= 0 and tables.intervals[tables.tail[p], GONE] == pt.NEVER:
        tables.intervals[tables.tail[p], GONE] = ply


@kernel
def fill_intervals(tables: Tables, traces: Traces, game: GameMoves, g: Any, n_points: Any) -> None:
    """Fill the intervals of the REMOVED points: first stones, later stones, captures and setup in order of time."""
    n, later, entry = np.int64(0), 0, 0
    at, end = traces.capture_offset[g], traces.capture_offset[g + 1]
    n_entries = game.setup.shape[0]
    while True:
        stone = tables.later[later] + 1 if later < tables.filled[N_LATER] else pt.NEVER
        capture = np.int64(traces.captures[at]) + 1 if at + 1 < end else pt.NEVER
        setup = np.int64(game.setup_ply[entry]) if entry < n_entries else pt.NEVER
        if stone <= min(capture, setup):
            if stone == pt.NEVER:
                break
            word: Any = np.int64(game.moves[stone - 1])
            n = _add_interval(tables, n, word & POINT_MASK, stone, 1 + (word >> 15))
            later += 1
        elif capture <= setup:
            last = False
            while not last and at + 1 < end:
                at += 1
                last = traces.captures[at] >= LAST_STONE
                p: Any = np.int64(traces.captures[at]) & POINT_MASK
                n = _add_first(tables, n, p, capture)
                _remove(tables, p, capture)
            at += 1
        else:
            word = np.int64(game.setup[entry])
            p = word & POINT_MASK
            entry += 1
            if p >= n_points or setup > np.int64(traces.plies[g]):  # it ended the game, or comes after its end
                n_entries = entry
            elif tables.first[p] & REMOVED:
                n = _add_first(tables, n, p, setup)
                _remove(tables, p, setup)
                if word & ERASE_BIT == 0:
                    n = _add_interval(tables, n, p, setup, 1 + (word >> 15))
    for i in range(game.setup.shape[0]):
        p = np.int64(game.setup[i]) & POINT_MASK
        if p >= n_points:
            break
        if tables.first[p] & REMOVED:
            n = _add_first(tables, n, p, pt.NEVER - 1)
    tables.filled[FILLED_INTERVALS] = 1


@inline_kernel
def next_allowed(tables: Tables, p: Any, t: Any, allowed: Any) -> Any:
    """Return the first ply from t on at which the REMOVED point p has allowed contents, or NEVER."""
    i = tables.head[p]
    while i >= 0:
        come, gone = tables.intervals[i, COME], tables.intervals[i, GONE]
        if t < come and allowed & 1:
            return t
        if t < gone:
            t = max(t, come)
            if t < gone and allowed >> tables.intervals[i, COLOUR] & 1:
                return t
            t = max(t, gone)
        i = tables.intervals[i, NEXT]
    return t if allowed & 1 else pt.NEVER


class HitArrays(NamedTuple):
    """Room for hits."""

    game: npt.NDArray[np.int64]  # [N]
    key: npt.NDArray[np.int64]  # [N]: ply << 32 | image << 16 | point of the upper left cell
    # [N]: ply << 32 | cell of the image << 2 | colour on the board of the continuation; -1 << 32 if none
    next: npt.NDArray[np.int64]


@inline_kernel
def _next_inside(plan: pt.MatchPlan, game: GameMoves, plies: Any, m: Any, x: Any, y: Any, t: Any) -> Any:
    """Return the first move from number t on in the rectangle of image m at column x and row y, or `plies`."""
    width, height = plan.images[m, pt.WIDTH], plan.images[m, pt.HEIGHT]
    while t < plies:
        p = np.int64(game.moves[t]) & POINT_MASK
        dx, dy = np.int64(plan.x[p]) - x, np.int64(plan.y[p]) - y
        if 0 <= dx < width and 0 <= dy < height:
            break
        t += 1
    return t


@inline_kernel
def add_hit(  # noqa: PLR0913 - kernel
    plan: pt.MatchPlan, plies: Any, game: GameMoves, g: Any, m: Any, place: Any, ply: Any, out: HitArrays, n: Any
) -> Any:
    """Add image m's hit, whose cells match at `ply`, to `out` if its moves follow. Returns the number of hits."""
    x, y = np.int64(plan.x[place]), np.int64(plan.y[place])
    consecutive = plan.limits[pt.CONSECUTIVE]
    first = plan.images[m, pt.MOVES]
    for k in range(first, first + plan.limits[pt.N_MOVES]):
        t = _next_inside(plan, game, plies, m, x, y, ply)
        if t == plies or (consecutive and k > first and t > ply):
            return n
        word = np.int64(game.moves[t])
        p = word & POINT_MASK
        dx, dy = np.int64(plan.x[p]) - x, np.int64(plan.y[p]) - y
        if dx != plan.moves[k, 0] or dy != plan.moves[k, 1] or 1 + (word >> 15) != plan.moves[k, 2]:
            return n
        ply = t + 1
    t = _next_inside(plan, game, plies, m, x, y, ply)
    colour: Any = 0
    next_move: Any = np.int64(-1) << 32
    if t < plies and not (consecutive and t > ply):
        word = np.int64(game.moves[t])
        p = word & POINT_MASK
        colour = 1 + (word >> 15)
        cell = (np.int64(plan.y[p]) - y) * plan.images[m, pt.WIDTH] + np.int64(plan.x[p]) - x
        next_move = t << 32 | cell << 2 | colour
    if plan.images[m, pt.ACCEPTS + colour] == 0:
        return n
    out.game[n] = g
    out.key[n] = ply << 32 | m << 16 | place
    out.next[n] = next_move
    return n + 1


@inline_kernel
def sort_hits(out: HitArrays, first: Any, last: Any) -> None:
    """Sort hits `first` to `last` - 1 by key: a Shell sort."""
    gap = 1
    while 3 * gap + 1 < last - first:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(first + gap, last):
            key, move = out.key[i], out.next[i]
            j = i
            while j >= first + gap and out.key[j - gap] > key:
                out.key[j], out.next[j] = out.key[j - gap], out.next[j - gap]
                j -= gap
            out.key[j], out.next[j] = key, move
        gap //= 3


@inline_kernel
def _has_unusual_setup(tables: Tables, plan: pt.MatchPlan, game: GameMoves) -> Any:
    """Return whether setup does more than to put one stone on each of some points at the start."""
    for i in range(game.setup.shape[0]):
        tables.captured[(game.setup[i] & POINT_MASK) >> 6] = ZERO
    for i in range(game.setup.shape[0]):
        p = np.int64(game.setup[i]) & POINT_MASK
        if game.setup_ply[i] != 0 or game.setup[i] & ERASE_BIT or p >= plan.limits[pt.N_POINTS]:
            return True
        if tables.captured[p >> 6] & bit(p) != ZERO:
            return True
        tables.captured[p >> 6] |= bit(p)
    return False


@inline_kernel
def _load_captured(tables: Tables, traces: Traces, g: Any) -> None:
    for i in range(traces.occupied.shape[2]):
        tables.captured[i] = ZERO
    is_point = 0
    for i in range(traces.capture_offset[g], traces.capture_offset[g + 1]):
        word = np.int64(traces.captures[i])
        p = word & POINT_MASK
        tables.captured[p >> 6] |= bit(p) * np.uint64(is_point)
        is_point = next_is_point(word, is_point)


@inline_kernel
def _first_image(images: Any) -> Any:
    return popcount(np.uint64((images & -images) - 1))


@inline_kernel
def scan(
    tables: Tables, plan: pt.MatchPlan, traces: Traces, game: GameMoves, g: Any, images: Any, out: HitArrays, n: Any
) -> Any:
    """Follow images through a game and add their hits to `out`.

    An image ends with a stone that it forbids, unless that stone is captured later: then it becomes doubtful, as images
    are that need a captured stone. If all stones of a doubtful image come, it is left to `_first_match`.

    Returns:
        (the images left, the number of hits).
    """
    if _has_unusual_setup(tables, plan, game):
        return images, n
    _load_captured(tables, traces, g)
    complete, doubtful, left = np.int64(0), np.int64(0), np.int64(0)
    rest = images
    while rest != 0:
        m = _first_image(rest)
        rest &= rest - 1
        tables.missing[m] = plan.images[m, pt.STONES_END] - plan.images[m, pt.STONES]
        complete |= np.int64(tables.missing[m] == 0) << m
    n_setup, plies = np.int64(game.setup.shape[0]), np.int64(traces.plies[g])
    stop = min(plies, plan.limits[pt.LAST_PLY])
    t = -n_setup  # stones set up at the start come before move 0
    while True:
        if complete != 0 and t >= 0:
            images &= ~complete
            left |= complete & doubtful
            complete &= ~doubtful
            while complete != 0:
                m = _first_image(complete)
                complete &= complete - 1
                n = add_hit(plan, plies, game, g, m, plan.images[m, pt.PLACE], t, out, n)
        if images == 0 or t >= stop:
            break
        word = np.int64(game.setup[t + n_setup]) if t < 0 else np.int64(game.moves[t])
        t += 1
        p = word & POINT_MASK
        touched = np.int64(plan.touch[word >> 15, p]) & (images << pt.FORBIDS | images)
        if touched != 0:
            if tables.captured[p >> 6] & bit(p) != ZERO:
                doubtful |= touched >> pt.FORBIDS | touched
            else:
                images &= ~(touched >> pt.FORBIDS)
                complete &= images
            needing = touched & images
            while needing != 0:
                m = _first_image(needing)
                needing &= needing - 1
                tables.missing[m] -= 1
                if tables.missing[m] == 0:
                    complete |= 1 << m
    return left, n


BLOCK = 64
"""Games whose places are filtered together, which the compiler vectorizes."""

LOADED = 32
"""Moves of a game that are in the same or the next line of the cache."""

UNBRANCHED = 8
"""Cells that are tested without branches."""


@kernel
def _filter_places(tables: Tables, plan: pt.MatchPlan, traces: Traces, game_index: Any) -> None:
    """Fill `places` and `any_place` for games `game_index`: places where each stone's point was once of its colour."""
    for j in range(game_index.shape[0]):
        g = game_index[j]
        for i in range(traces.occupied.shape[2]):
            black, white = traces.occupied[g, 0, i], traces.occupied[g, 1, i]
            tables.occupied[0, i, j] = black
            tables.occupied[1, i, j] = white
            tables.occupied[2, i, j] = black | white
    for j in range(BLOCK):
        tables.any_place[j] = ZERO
    for q in range(plan.words.shape[0]):
        m, w = plan.words[q, 0], plan.words[q, 1]
        places = tables.places[q]
        for j in range(BLOCK):
            places[j] = plan.windows[q]
        for k in range(plan.images[m, pt.STONES], plan.images[m, pt.STONES_END]):
            left, right = np.uint64(plan.stones[k, 1] & 63), np.uint64(63 - (plan.stones[k, 1] & 63))
            high = tables.occupied[plan.stones[k, 0], w + (plan.stones[k, 1] >> 6)]
            low = tables.occupied[plan.stones[k, 0], w + (plan.stones[k, 1] >> 6) + 1]
            for j in range(BLOCK):
                places[j] &= high[j] << left | low[j] >> ONE >> right
        for j in range(BLOCK):
            tables.any_place[j] |= places[j]


@inline_kernel
def _load_games(tables: Tables, games: ReplayArrays, traces: Traces, game_index: Any) -> None:
    """Read the first moves and captures of the games that are left, so that waits for memory overlap."""
    total = 0
    for j in range(game_index.shape[0]):
        if tables.any_place[j] != ZERO:
            g = game_index[j]
            first, last, capture = games.move_offset[g], games.move_offset[g + 1], traces.capture_offset[g]
            if last > first + LOADED and capture < traces.capture_offset[g + 1]:
                total += np.int64(games.moves[first]) + games.moves[first + LOADED] + traces.captures[capture]
    tables.loaded[0] = total


@inline_kernel
def _first_match(
    tables: Tables, plan: pt.MatchPlan, traces: Traces, game: GameMoves, g: Any, m: Any, place: Any
) -> Any:
    """Return the first ply at which all cells of image m match at a place, or NEVER."""
    t = np.int64(0)
    for k in range(plan.images[m, pt.CELLS], plan.images[m, pt.EMPTY_CELLS]):
        word: Any = np.int64(tables.first[place + plan.cells[k, 0]])
        if word < REMOVED:
            t = max(t, word >> COLOUR_BITS)
    after = (t + 1) << COLOUR_BITS  # stones by ply t have lower words, unless they are removed
    # Most places fail here: all of these cells are tested, because a branch for each is hard to predict.
    first = plan.images[m, pt.EMPTY_CELLS]
    taken: Any = False
    for k in range(first, min(first + UNBRANCHED, plan.images[m, pt.EMPTY_CELLS_END])):
        taken |= np.int64(tables.first[place + plan.cells[k, 0]]) < after
    if taken:
        return pt.NEVER
    removed = np.int64(0)
    for k in range(plan.images[m, pt.CELLS], plan.images[m, pt.CELLS_END]):
        word = np.int64(tables.first[place + plan.cells[k, 0]])
        removed |= word
        if word < after and plan.cells[k, 1] >> (word & 3) & 1 == 0:
            return pt.NEVER
    if removed & REMOVED:
        t = _first_match_after(tables, plan, traces, game, g, m, place, t)
    return t if t <= plan.limits[pt.LAST_PLY] else pt.NEVER


@kernel
def _first_match_after(
    tables: Tables, plan: pt.MatchPlan, traces: Traces, game: GameMoves, g: Any, m: Any, place: Any, t: Any
) -> Any:
    """Return the first ply from t on at which all cells of image m match at a place with REMOVED points, or NEVER.

    Cells that must have a stone on the other points match from t on.
    """
    if not tables.filled[FILLED_INTERVALS]:
        fill_intervals(tables, traces, game, g, plan.limits[pt.N_POINTS])
    while True:
        before = t
        for k in range(plan.images[m, pt.CELLS], plan.images[m, pt.CELLS_END]):
            p, allowed = place + plan.cells[k, 0], plan.cells[k, 1]
            word = np.int64(tables.first[p])
            if word & REMOVED:
                t = next_allowed(tables, p, t, allowed)
                if t >= pt.NEVER:
                    return pt.NEVER
            elif word < (t + 1) << COLOUR_BITS and allowed >> (word & 3) & 1 == 0:
                return pt.NEVER
        if t == before:
            return t


@inline_kernel
def _match_game(
    games: ReplayArrays, traces: Traces, plan: pt.MatchPlan, tables: Tables, g: Any, j: Any, out: HitArrays, n: Any
) -> Any:
    """Add the hits in game g, which is number j of the block, to `out`. Returns the number of hits."""
    game = game_moves(games, g)
    tables.filled[FILLED_MOVES] = 0
    images = np.int64(-1)
    if plan.limits[pt.SCANS]:
        images = np.int64(0)
        for q in range(plan.words.shape[0]):
            images |= np.int64(tables.places[q, j] != ZERO) << plan.words[q, 0]
        images, n = scan(tables, plan, traces, game, g, images, out, n)
    if images == 0:
        return n
    for q in range(plan.words.shape[0]):
        m = plan.words[q, 0]
        places = tables.places[q, j] if images >> m & 1 else ZERO
        while places != ZERO:
            place = last_point(plan.words[q, 1], places)
            places &= places - ONE
            if not tables.filled[FILLED_MOVES]:
                fill(tables, traces, game, g, plan.limits[pt.N_POINTS])
            ply = _first_match(tables, plan, traces, game, g, m, place)
            if ply < pt.NEVER:
                n = add_hit(plan, np.int64(traces.plies[g]), game, g, m, place, ply, out, n)
    return n


@kernel
def match_all(
    games: ReplayArrays, traces: Traces, plan: pt.MatchPlan, tables: Tables, game_index: Any, start: Any, out: HitArrays
) -> Any:
    """Find the pattern in games of one size, from game_index[start] on, until `out` may not hold another game's hits.

    Returns the number of games done, including those before `start`, and the number of hits.
    """
    n = np.int64(0)
    first, total = np.int64(start), np.int64(game_index.shape[0])
    while first < total:
        stop = min(first + BLOCK, total)
        _filter_places(tables, plan, traces, game_index[first:stop])
        _load_games(tables, games, traces, game_index[first:stop])
        for j in range(stop - first):
            if n + plan.limits[pt.N_PLACES] > out.game.shape[0]:
                return first + j, n
            if tables.any_place[j] != ZERO:
                before = n
                n = _match_game(games, traces, plan, tables, game_index[first + j], j, out, n)
                if n - before > 1:
                    sort_hits(out, before, n)
        first = stop
    return total, n
