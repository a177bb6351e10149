"""Search for patterns in traced games."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.replay import GamesLike, ReplayArrays, replay_arrays
from kifu.kernel import writable_view
from kifu.point import BLACK, WHITE
from kifu.search._intervals import NEVER, NO_STONE, SLOTS, Tables, TraceArrays
from kifu.search._match import (
    ACCEPTS,
    BLOCK,
    CELLS,
    CELLS_END,
    EMPTY_CELLS,
    EMPTY_CELLS_END,
    FORBIDS,
    HEIGHT,
    MOVES,
    N_IMAGE,
    N_PLACES,
    PLACE,
    STONES,
    STONES_END,
    WIDTH,
    BlockArrays,
    HitArrays,
    MatchPlan,
    ScanArrays,
    match_all,
)
from kifu.search.pattern import BLACK_CELL, EMPTY_CELL, WHITE_CELL, Image, Pattern
from kifu.search.traces import Traces, games_by_size

_STONE_ROW = np.array([0, 0, 0, 0, 1, 0, 2, 0])
"""The first column of `MatchPlan.stones` by cell."""


class CompiledPattern(NamedTuple):
    """The images of a pattern on boards of one size.

    Attributes:
        plan: The images as kernels take them.
        symmetry: [I] uint8.
        exchanged: [I] bool.
        continuations: [I, 4 * cells, 3] uint8, see `_merged_continuations`.
    """

    plan: MatchPlan
    symmetry: npt.NDArray[np.uint8]
    exchanged: npt.NDArray[np.bool_]
    continuations: npt.NDArray[np.uint8]


@functools.lru_cache(maxsize=16)  # catalogues are searched in batches
def compile_pattern(pattern: Pattern, width: int, height: int, words: int) -> CompiledPattern | None:
    """Return the images of a pattern on boards of one size, or None if it does not fit them.

    Args:
        words: Words of bit sets, see `kifu.search.traces.Traces`.
    """
    images = pattern.images(width, height)
    if not images:
        return None
    same = pattern.stabilizer(width, height)
    return CompiledPattern(
        plan=_make_plan(pattern, images, any(exchanged for _, exchanged in same), width, height, words),
        symmetry=np.array([image.symmetry for image in images], np.uint8),
        exchanged=np.array([image.exchanged for image in images], np.bool_),
        continuations=_merged_continuations(pattern, images, same),
    )


def _make_plan(pattern: Pattern, images: list[Image], reverses: bool, width: int, height: int, words: int) -> MatchPlan:
    """Return the plan of a pattern's images; `reverses` tells whether exchanged colours give an equal image."""
    windows = np.stack([_window_bits(image, width, height, words) for image in images])
    places = np.bitwise_count(windows).sum(axis=1)
    scans = bool(np.all(places == 1))
    last_ply = NEVER - 1 if pattern.last_ply is None else pattern.last_ply
    limits = [width * height, int(places.sum()), len(pattern.moves), pattern.consecutive, last_ply, scans]
    in_words = np.argwhere(windows)
    x, y = _coordinates(width, height)
    # All cells of all images, one image after another.
    cell = np.array([image.cells for image in images])
    index = np.arange(len(pattern.cells))
    columns = np.array([image.width for image in images])[:, None]
    distance = index // columns * width + index % columns
    image = np.repeat(np.arange(len(images)), len(index)).reshape(cell.shape)
    # Per image, the cells that must have a stone come first, then those that must be empty, then all but wildcards.
    kind = np.array([3, 1, 0, 2, 0, 2, 0, 3])[cell]
    order = np.argsort(4 * image + kind, axis=None, kind="stable")
    order = order[kind.ravel()[order] < 3]
    with_stone = kind.ravel()[order] == 0
    cells = np.stack([distance.ravel()[order], cell.ravel()[order]], axis=1)
    stones_end, cells_end = np.cumsum((kind == 0).sum(axis=1)), np.cumsum((kind < 3).sum(axis=1))
    n_stones, n_cells = (kind == 0).sum(axis=1), (kind < 3).sum(axis=1)
    table = np.zeros((len(images), N_IMAGE), np.int64)
    table[:, STONES], table[:, STONES_END] = stones_end - n_stones, stones_end
    table[:, CELLS], table[:, CELLS_END] = cells_end - n_cells, cells_end
    table[:, EMPTY_CELLS] = cells_end - n_cells + n_stones
    table[:, EMPTY_CELLS_END] = table[:, EMPTY_CELLS] + (kind == 1).sum(axis=1)
    place = np.array([image.window.top * width + image.window.left for image in images])
    table[:, WIDTH], table[:, HEIGHT], table[:, PLACE] = columns[:, 0], len(index) // columns[:, 0], place
    table[:, ACCEPTS : ACCEPTS + 3] = _accepted(pattern, images, reverses)
    table[:, MOVES] = np.arange(len(images)) * len(pattern.moves)
    return MatchPlan(
        images=table,
        words=in_words,
        windows=windows[in_words[:, 0], in_words[:, 1]],
        stones=np.stack([_STONE_ROW[cells[with_stone, 1]], cells[with_stone, 0]], axis=1),
        cells=cells,
        moves=np.array([move for image in images for move in image.moves], np.int64).reshape(-1, 3),
        touch=_touch(cell, place[:, None] + distance) if scans else np.zeros((2, SLOTS), np.uint32),
        x=x,
        y=y,
        limits=np.array(limits, np.int64),
    )


def _touch(cell: npt.NDArray[np.int64], point: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """Return `MatchPlan.touch` for images with these cells and their points, both [I, cells]."""
    touch = np.zeros((2, SLOTS), np.uint32)
    for m in range(len(cell)):
        for colour, allowed in enumerate((BLACK_CELL, WHITE_CELL)):
            needs, forbids = cell[m] & (EMPTY_CELL | allowed) == allowed, cell[m] & allowed == 0
            touch[colour, point[m]] |= (needs * np.uint32(1 << m)) | (forbids * np.uint32(1 << FORBIDS + m))
    return touch


@functools.cache
def _coordinates(width: int, height: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Return the columns and the rows of all points, see `MatchPlan.x`."""
    x, y = np.full(SLOTS, 255, np.uint8), np.full(SLOTS, 255, np.uint8)
    y[: width * height], x[: width * height] = np.divmod(np.arange(width * height), width)
    return x, y


def _window_bits(image: Image, width: int, height: int, words: int) -> npt.NDArray[np.uint64]:
    """Return the bit set of the places of an image."""
    left, right, top, bottom = image.window
    points = np.zeros(words * 64, np.bool_)
    points[: width * height].reshape(height, width)[top : bottom + 1, left : right + 1] = True
    return np.packbits(points).view(">u8").astype(np.uint64)


def _accepted(pattern: Pattern, images: list[Image], reverses: bool) -> npt.NDArray[np.bool_]:
    """Return [I, 3] whether an image is a hit if no stone, a black or a white stone on the board continues it."""
    wanted = pattern.next_colour
    accepted = np.ones((len(images), 3), np.bool_)
    if wanted is not None:
        accepted[:, 0] = False
        if not reverses:
            for m, image in enumerate(images):
                exchanged = image.exchanged and not pattern.actual_colour
                accepted[m, wanted if exchanged else BLACK + WHITE - wanted] = False
    return accepted


def _merged_continuations(pattern: Pattern, images: list[Image], same: list[tuple[int, bool]]) -> npt.NDArray[np.uint8]:
    """Return [I, 4 * cells, 3] uint8: column, row and colour in the pattern of a continuation of image i.

    The second index is the cell in the image * 4 + the colour on the board.
    """
    y, x = np.divmod(np.arange(pattern.width * pattern.height), pattern.width)
    preferred = pattern.next_colour or BLACK
    best = np.zeros((3, len(x)), np.int64)  # by colour: is it the preferred one? << 10 | column << 5 | 31 - row
    for k, exchanged in same:
        same_x, same_y = pattern.image_point(x, y, k)
        for colour in (BLACK, WHITE):
            fits = ((BLACK + WHITE - colour) if exchanged else colour) == preferred
            np.maximum(best[colour], fits << 10 | same_x << 5 | 31 - same_y, out=best[colour])
    colours = np.where(best >> 10, preferred, BLACK + WHITE - preferred)
    merged = np.stack([best >> 5 & 31, 31 - (best & 31), colours], axis=-1)  # [3, cells, 3]
    table = np.zeros((len(images), len(x), 4, 3), np.uint8)
    for m, image in enumerate(images):
        image_x, image_y = pattern.image_point(x, y, image.symmetry)
        cell = image_y * image.width + image_x
        for colour in (BLACK, WHITE):
            table[m, cell, colour] = merged[BLACK + WHITE - colour if image.exchanged else colour]
    return table.reshape(len(images), -1, 3)


_ROOM = 1 << 16
"""Hits that one call of the kernel may return."""


class MatchArrays(NamedTuple):
    """H hits of a pattern, in order of game, ply, image and place. `kifu.search.hits.HITS` tells the meanings.

    Attributes:
        game: [H] int64, the game's number among those searched.
        ply: [H] uint16.
        symmetry: [H] uint8.
        exchanged: [H] bool.
        x, y: [H] uint8, column and row of the image's upper left cell.
        next_ply: [H] int32, -1 without a continuation.
        next_x, next_y: [H] uint8, 0 without one.
        next_colour: [H] uint8: BLACK or WHITE, 0 without one.
    """

    game: npt.NDArray[np.int64]
    ply: npt.NDArray[np.uint16]
    symmetry: npt.NDArray[np.uint8]
    exchanged: npt.NDArray[np.bool_]
    x: npt.NDArray[np.uint8]
    y: npt.NDArray[np.uint8]
    next_ply: npt.NDArray[np.int32]
    next_x: npt.NDArray[np.uint8]
    next_y: npt.NDArray[np.uint8]
    next_colour: npt.NDArray[np.uint8]


def match_games(
    games: GamesLike, traces: Traces, pattern: Pattern, within: npt.NDArray[np.bool_] | None = None
) -> MatchArrays:
    """Find a pattern in games of any sizes.

    Args:
        traces: Their traces, from `kifu.search.traces.trace_games`.
        within: [G] bool, the games to search, without dropped ones; None for all.
    """
    index = np.arange(len(games.width)) if within is None else np.flatnonzero(within)
    arrays, trace_arrays = replay_arrays(games), _trace_arrays(traces)
    tables = _new_tables(games, traces)
    parts = []
    for width, height, group in games_by_size(games, index):
        compiled = compile_pattern(pattern, width, height, traces.occupied.shape[2])
        if compiled is not None:
            hits = _match_group(arrays, trace_arrays, compiled.plan, tables, group)
            parts.append(_to_arrays(hits, compiled, width))
    return _in_order(parts)


def _trace_arrays(traces: Traces) -> TraceArrays:
    return TraceArrays(*(writable_view(getattr(traces, name)) for name in TraceArrays._fields))


def _new_hits(count: int) -> HitArrays:
    return HitArrays(*(np.empty(count, np.int64) for _ in HitArrays._fields))


def _new_tables(games: GamesLike, traces: Traces) -> Tables:
    plies, setup = np.max(traces.plies, initial=0), np.max(np.diff(games.setup_offset), initial=0)
    return Tables(
        first=np.full(SLOTS, NO_STONE, np.uint32),
        later=np.empty(plies, np.int64),
        head=np.full(SLOTS, -1, np.int64),
        tail=np.zeros(SLOTS, np.int64),
        intervals=np.empty((SLOTS + plies + setup, 4), np.int64),
        filled=np.zeros(3, np.int64),
    )


def _match_group(
    games: ReplayArrays, traces: TraceArrays, plan: MatchPlan, tables: Tables, group: npt.NDArray[np.int64]
) -> HitArrays:
    """Return the hits in games of one size."""
    words = traces.occupied.shape[2]
    block = BlockArrays(
        occupied=np.zeros((3, 2 * words + 1, BLOCK), np.uint64),
        places=np.empty((len(plan.words), BLOCK), np.uint64),
        any=np.empty(BLOCK, np.uint64),
        loaded=np.zeros(1, np.int64),
    )
    ws = ScanArrays(np.zeros(SLOTS // 64, np.uint64), np.empty(len(plan.images), np.int64))
    room = _new_hits(max(_ROOM, int(plan.limits[N_PLACES])))
    parts, done = [], 0
    while done < len(group):
        done, count = match_all(games, traces, plan, tables, block, ws, group, done, room)
        parts.append(HitArrays(*(column[:count].copy() for column in room)))
    return HitArrays._make(map(np.concatenate, zip(*parts))) if parts else _new_hits(0)


def _to_arrays(hits: HitArrays, compiled: CompiledPattern, width: int) -> MatchArrays:
    """Return hits on boards of so many columns in the orientation of the pattern."""
    image = hits.key >> 16 & 0xFFFF
    y, x = np.divmod(hits.key & 0xFFFF, width)
    next_x, next_y, next_colour = compiled.continuations[image, hits.next & 0xFFFF].T
    return MatchArrays(
        game=hits.game,
        ply=(hits.key >> 32).astype(np.uint16),
        symmetry=compiled.symmetry[image],
        exchanged=compiled.exchanged[image],
        x=x.astype(np.uint8),
        y=y.astype(np.uint8),
        next_ply=(hits.next >> 32).astype(np.int32),
        next_x=next_x,
        next_y=next_y,
        next_colour=next_colour,
    )


def _in_order(parts: list[MatchArrays]) -> MatchArrays:
    """Return the hits of games of several sizes in order of their games."""
    if len(parts) == 1:
        return parts[0]
    empty = MatchArrays._make(np.empty(0, dtype) for dtype in _DTYPES)
    hits = MatchArrays._make(map(np.concatenate, zip(empty, *parts)))
    order = np.argsort(hits.game, kind="stable")
    return MatchArrays._make(column[order] for column in hits)


_DTYPES = (np.int64, np.uint16, np.uint8, np.bool_, np.uint8, np.uint8, np.int32, np.uint8, np.uint8, np.uint8)
