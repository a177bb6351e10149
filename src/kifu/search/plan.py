"""Patterns as the arrays that search kernels take."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.point import BLACK, WHITE
from kifu.search._hits import (
    ACCEPTS,
    CELLS,
    CELLS_END,
    EMPTY_CELLS,
    EMPTY_CELLS_END,
    FORBIDS,
    HEIGHT,
    MOVES,
    N_IMAGE,
    PLACE,
    STONES,
    STONES_END,
    WIDTH,
    MatchPlan,
)
from kifu.search._intervals import NEVER, SLOTS
from kifu.search.pattern import BLACK_CELL, EMPTY_CELL, WHITE_CELL, Image, Pattern

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
