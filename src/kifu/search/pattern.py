"""Patterns: rectangles of allowed contents with a place on the board, their images under symmetry, and match plans.

docs/patterns.md describes the meaning of a search and the text notation, which `kifu.search.notation` reads.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kifu.errors import RecipeError
from kifu.point import BLACK, MAX_SIZE, POINT_MASK, WHITE

EMPTY_CELL, BLACK_CELL, WHITE_CELL = 1, 2, 4
"""Bits of a cell: what it may contain."""

ANY_CELL = EMPTY_CELL | BLACK_CELL | WHITE_CELL

ANCHORS = ("board", "corner", "side", "centre", "anywhere")
"""Places of a pattern as it is drawn, before symmetry: the whole board; the upper left corner; the upper side, without
the corners; points at least one line away from every edge; any point.
"""

Anchor = Literal["board", "corner", "side", "centre", "anywhere"]

Numbers = TypeVar("Numbers", int, npt.NDArray[np.int64])


class Rectangle(NamedTuple):
    """Inclusive ranges of columns and rows, from 0 at the upper left; empty if right < left or bottom < top."""

    left: int
    right: int
    top: int
    bottom: int


class PatternMove(NamedTuple):
    """A stone played inside the rectangle. x, y: column and row in it, from 0 at the upper left."""

    x: int
    y: int
    colour: int


class Image(NamedTuple):
    """A pattern under one symmetry, with or without colours exchanged, on boards of one size.

    Attributes:
        symmetry: As in `kifu.point.symmetries`; applied to the pattern as given.
        cells: [height * width] Allowed contents, row-major.
        window: Where the upper left cell may lie.
    """

    symmetry: int
    exchanged: bool
    width: int
    height: int
    cells: tuple[int, ...]
    moves: tuple[PatternMove, ...]
    window: Rectangle


SLOTS = POINT_MASK + 1

NEVER = 0x1FFFFFFF
"""A ply that no game reaches."""

_NOWHERE = Rectangle(0, -1, 0, -1)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A rectangle of board contents, and what is played in it afterwards.

    Attributes:
        width: Columns, 1 to 25.
        height: Rows, 1 to 25.
        cells: [height * width] Allowed contents of each cell, row-major: a sum of EMPTY_CELL, BLACK_CELL, WHITE_CELL.
        anchor: Where the rectangle lies on the board, one of ANCHORS or the points where its upper left cell may lie.
        both_colours: Also find the pattern with Black and White exchanged.
        moves: Stones played inside the rectangle next, in this order, once the cells match.
        consecutive: Between these moves, and before the continuation, no move is played anywhere else.
        next_colour: BLACK or WHITE: only hits that this colour of the pattern continues; None for all hits.
        actual_colour: `next_colour` is that of the stone on the board, also in hits with colours exchanged, as in
            Kombilo.
        last_ply: The cells must match after at most so many moves; None for no limit.
    """

    width: int
    height: int
    cells: tuple[int, ...]
    anchor: Anchor | Rectangle = "anywhere"
    both_colours: bool = True
    moves: tuple[PatternMove, ...] = ()
    consecutive: bool = False
    next_colour: int | None = None
    actual_colour: bool = False
    last_ply: int | None = None

    def __post_init__(self) -> None:
        if not (1 <= self.width <= MAX_SIZE and 1 <= self.height <= MAX_SIZE):
            raise RecipeError(f"a pattern has 1 to {MAX_SIZE} columns and rows, got {self.width} x {self.height}")
        if len(self.cells) != self.width * self.height:
            raise RecipeError(f"a {self.width} x {self.height} pattern needs {self.width * self.height} cells")
        if not all(1 <= cell <= ANY_CELL for cell in self.cells):
            raise RecipeError(f"cells must be 1 to {ANY_CELL}")

    def window(self, width: int, height: int) -> Rectangle:
        """Return where the upper left cell may lie on a board of that size; empty if the pattern does not fit."""
        right, bottom = width - self.width, height - self.height
        match self.anchor:
            case "board":
                return Rectangle(0, 0, 0, 0) if right == bottom == 0 else _NOWHERE
            case "corner":
                return Rectangle(0, min(right, 0), 0, min(bottom, 0))
            case "side":
                return Rectangle(1, right - 1, 0, min(bottom, 0))
            case "centre":
                return Rectangle(1, right - 1, 1, bottom - 1)
            case "anywhere":
                return Rectangle(0, right, 0, bottom)
            case Rectangle() as given:
                return Rectangle(given.left, min(given.right, right), given.top, min(given.bottom, bottom))
        raise RecipeError(f"anchor must be one of {', '.join(ANCHORS)} or a rectangle, got {self.anchor!r}")

    def images(self, width: int, height: int) -> list[Image]:
        """Return the distinct images on a board of that size that fit it, in order of exchange and symmetry.

        Of equal images the first one is kept, so a symmetric pattern has fewer.
        """
        seen, images = set(), []
        for image in self._all_images(width, height):
            key = image[2:]
            if key not in seen and image.window.left <= image.window.right and image.window.top <= image.window.bottom:
                seen.add(key)
                images.append(image)
        return images

    def stabilizer(self, width: int, height: int) -> list[tuple[int, bool]]:
        """Return the (symmetry, exchanged) under which the pattern is its own image on a board of that size."""
        images = list(self._all_images(width, height))
        return [(image.symmetry, image.exchanged) for image in images if image[2:] == images[0][2:]]

    def _all_images(self, width: int, height: int) -> Iterator[Image]:
        for exchanged in (False, True) if self.both_colours else (False,):
            for k in range(8):
                yield self._image(k, exchanged, width, height)

    def _image(self, k: int, exchanged: bool, width: int, height: int) -> Image:
        if k & 4:  # the board before symmetry k
            width, height = height, width
        left, right, top, bottom = self.window(width, height)
        if k & 1:
            left, right = width - self.width - right, width - self.width - left
        if k & 2:
            top, bottom = height - self.height - bottom, height - self.height - top
        cells, moves = self.map_cells(k), self.map_moves(k)
        if exchanged:
            cells = tuple(map(exchange_cell, cells))
            moves = tuple(PatternMove(x, y, BLACK + WHITE - colour) for x, y, colour in moves)
        window = Rectangle(top, bottom, left, right) if k & 4 else Rectangle(left, right, top, bottom)
        if window.right < window.left or window.bottom < window.top:
            window = _NOWHERE  # of images that do not fit on the board, those with equal cells are equal
        size = self.height if k & 4 else self.width
        return Image(k, exchanged, size, len(cells) // size, cells, moves, window)

    def map_cells(self, k: int) -> tuple[int, ...]:
        """Return the cells of the image under symmetry k."""
        grid = np.array(self.cells, np.uint8).reshape(self.height, self.width)
        grid = grid[:: -1 if k & 2 else 1, :: -1 if k & 1 else 1]
        cells: list[int] = (grid.T if k & 4 else grid).ravel().tolist()
        return tuple(cells)

    def map_moves(self, k: int) -> tuple[PatternMove, ...]:
        """Return the moves of the image under symmetry k."""
        return tuple(PatternMove(*self.image_point(x, y, k), colour) for x, y, colour in self.moves)

    def image_point(self, x: Numbers, y: Numbers, k: int) -> tuple[Numbers, Numbers]:
        """Return the column and row, in the image under symmetry k, of a cell of the pattern."""
        x = self.width - 1 - x if k & 1 else x
        y = self.height - 1 - y if k & 2 else y
        return (y, x) if k & 4 else (x, y)


def exchange_cell(cell: int) -> int:
    """Return the cell with Black and White exchanged."""
    return cell & EMPTY_CELL | (cell & BLACK_CELL) << 1 | (cell & WHITE_CELL) >> 1


# Columns of MatchPlan.images
STONES, STONES_END, CELLS, EMPTY_CELLS, EMPTY_CELLS_END, CELLS_END, WIDTH, HEIGHT, PLACE = range(9)
ACCEPTS = 9  # to 11: whether the image may be continued by no stone, by Black, by White
MOVES = 12
N_IMAGE = 13

# Indices of MatchPlan.limits
N_POINTS, N_PLACES, N_MOVES, CONSECUTIVE, LAST_PLY, SCANS = range(6)

FORBIDS = 16
"""The lower 16 bits of `MatchPlan.touch` are images that need a stone, the upper ones images that forbid it."""


class MatchPlan(NamedTuple):
    """The images of a pattern on boards of one size."""

    images: npt.NDArray[np.int64]  # [I, N_IMAGE]
    words: npt.NDArray[np.int64]  # [Q, 2]: the image and the index of each word of a window that is not 0
    windows: npt.NDArray[np.uint64]  # [Q]: these words: where the upper left cell may lie
    # [S, 2]: the cells that must have a stone: 0 Black, 1 White or 2 either; and the distance of its point to that of
    # the upper left cell
    stones: npt.NDArray[np.int64]
    # [C, 2]: all cells but wildcards: distance and allowed contents. Those that must have a stone come first, then
    # those that must be empty.
    cells: npt.NDArray[np.int64]
    moves: npt.NDArray[np.int64]  # [J, 3]: column, row and colour of the moves of each image
    touch: npt.NDArray[np.uint32]  # [2, SLOTS]: the images that need a black or white stone on a point or forbid it
    x: npt.NDArray[np.uint8]  # [SLOTS]: the column of each point; 255 if it is off the board
    y: npt.NDArray[np.uint8]  # [SLOTS]: its row
    # [6]: points of the board, places of all images, moves of the pattern, 1 if they are consecutive, the last ply at
    # which the cells may match, 1 if `touch` is filled since each image has one place
    limits: npt.NDArray[np.int64]
    symmetry: npt.NDArray[np.uint8]  # [I]
    exchanged: npt.NDArray[np.bool_]  # [I]
    continuations: npt.NDArray[np.uint8]  # [I, 4 * cells, 3]: see `_merged_continuations`


_STONE_ROW = np.array([0, 0, 0, 0, 1, 0, 2, 0])
"""The first column of `MatchPlan.stones` by cell."""


@functools.lru_cache(maxsize=16)  # catalogues are searched in batches
def compile_pattern(pattern: Pattern, width: int, height: int, words: int) -> MatchPlan | None:
    """Return a pattern's images on boards of one size; None if it does not fit. words: see `traces.Traces`."""
    images = pattern.images(width, height)
    if not images:
        return None
    same = pattern.stabilizer(width, height)
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
    table[:, ACCEPTS : ACCEPTS + 3] = _accepted(pattern, images, any(exchanged for _, exchanged in same))
    table[:, MOVES] = np.arange(len(images)) * len(pattern.moves)
    return MatchPlan(
        images=table, words=in_words, windows=windows[in_words[:, 0], in_words[:, 1]],
        stones=np.stack([_STONE_ROW[cells[with_stone, 1]], cells[with_stone, 0]], axis=1), cells=cells,
        moves=np.array([move for image in images for move in image.moves], np.int64).reshape(-1, 3),
        touch=_touch(cell, place[:, None] + distance) if scans else np.zeros((2, SLOTS), np.uint32), x=x, y=y,
        limits=np.array(limits, np.int64), symmetry=np.array([image.symmetry for image in images], np.uint8),
        exchanged=np.array([image.exchanged for image in images], np.bool_),
        continuations=_merged_continuations(pattern, images, same),
    )  # fmt: skip


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
    x, y = np.full(SLOTS, 255, np.uint8), np.full(SLOTS, 255, np.uint8)
    y[: width * height], x[: width * height] = np.divmod(np.arange(width * height), width)
    return x, y


def _window_bits(image: Image, width: int, height: int, words: int) -> npt.NDArray[np.uint64]:
    left, right, top, bottom = image.window
    points = np.zeros(words * 64, np.bool_)
    points[: width * height].reshape(height, width)[top : bottom + 1, left : right + 1] = True
    return np.packbits(points).view(">u8").astype(np.uint64)


def _accepted(pattern: Pattern, images: list[Image], reverses: bool) -> npt.NDArray[np.bool_]:
    """Return [I, 3] whether an image is a hit if no stone, a black or a white stone on the board continues it."""
    next_colour = pattern.next_colour
    accepted = np.ones((len(images), 3), np.bool_)
    if next_colour is not None:
        accepted[:, 0] = False
        if not reverses:
            for m, image in enumerate(images):
                exchanged = image.exchanged and not pattern.actual_colour
                accepted[m, next_colour if exchanged else BLACK + WHITE - next_colour] = False
    return accepted


def _merged_continuations(pattern: Pattern, images: list[Image], same: list[tuple[int, bool]]) -> npt.NDArray[np.uint8]:
    """Return [I, 4 * cells, 3] uint8: column, row and colour in the pattern of a continuation of image i.

    The second index is the cell in the image * 4 + the colour on the board.
    """
    y, x = np.divmod(np.arange(pattern.width * pattern.height), pattern.width)
    next_colour = pattern.next_colour or BLACK
    best = np.zeros((3, len(x)), np.int64)  # by colour: is it `next_colour`? << 10 | column << 5 | 31 - row
    for k, exchanged in same:
        same_x, same_y = pattern.image_point(x, y, k)
        for colour in (BLACK, WHITE):
            fits = ((BLACK + WHITE - colour) if exchanged else colour) == next_colour
            np.maximum(best[colour], fits << 10 | same_x << 5 | 31 - same_y, out=best[colour])
    colours = np.where(best >> 10, next_colour, BLACK + WHITE - next_colour)
    merged = np.stack([best >> 5 & 31, 31 - (best & 31), colours], axis=-1)  # [3, cells, 3]
    table = np.zeros((len(images), len(x), 4, 3), np.uint8)
    for m, image in enumerate(images):
        image_x, image_y = pattern.image_point(x, y, image.symmetry)
        cell = image_y * image.width + image_x
        for colour in (BLACK, WHITE):
            table[m, cell, colour] = merged[BLACK + WHITE - colour if image.exchanged else colour]
    return table.reshape(len(images), -1, 3)
