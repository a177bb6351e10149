"""Patterns: rectangles of allowed contents with a place on the board, and their images under symmetry.

docs/patterns.md describes the meaning of a search and the text notation, which `kifu.search.notation` reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kifu.errors import RecipeError
from kifu.point import BLACK, MAX_SIZE, WHITE

EMPTY_CELL, BLACK_CELL, WHITE_CELL = 1, 2, 4
"""Bits of a cell: what it may contain."""

ANY_CELL = EMPTY_CELL | BLACK_CELL | WHITE_CELL

ANCHORS = ("board", "corner", "side", "centre", "anywhere")
"""Places of a pattern as it is drawn, before symmetry: the whole board; the upper left corner; the upper side, without
the corners; points at least one line away from every edge; any point.
"""

Anchor = Literal["board", "corner", "side", "centre", "anywhere"]

Numbers = TypeVar("Numbers", int, npt.NDArray[np.int64])


class Window(NamedTuple):
    """The inclusive ranges of board points on which the upper left cell of a rectangle may lie.

    Empty if right < left or bottom < top.
    """

    left: int
    right: int
    top: int
    bottom: int


class PatternMove(NamedTuple):
    """A stone played inside the rectangle.

    Attributes:
        x: Column in the rectangle, from 0 at the left.
        y: Row in the rectangle, from 0 at the top.
    """

    x: int
    y: int
    colour: int


class Image(NamedTuple):
    """A pattern under one symmetry, with or without colours exchanged, on boards of one size.

    Attributes:
        symmetry: 0 to 7, as in `kifu.point.symmetries`; applied to the pattern as given.
        exchanged: True if Black and White are exchanged.
        cells: [height * width] Allowed contents, row-major.
        window: Where the upper left cell may lie.
    """

    symmetry: int
    exchanged: bool
    width: int
    height: int
    cells: tuple[int, ...]
    moves: tuple[PatternMove, ...]
    window: Window


_NOWHERE = Window(0, -1, 0, -1)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A rectangle of board contents, and what is played in it afterwards.

    Attributes:
        width: Columns, 1 to 25.
        height: Rows, 1 to 25.
        cells: [height * width] Allowed contents of each cell, row-major: a sum of EMPTY_CELL, BLACK_CELL, WHITE_CELL.
        anchor: Where the rectangle lies on the board, one of ANCHORS or a window for the upper left cell.
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
    anchor: Anchor | Window = "anywhere"
    both_colours: bool = True
    moves: tuple[PatternMove, ...] = ()
    consecutive: bool = False
    next_colour: int | None = None
    actual_colour: bool = False
    last_ply: int | None = None

    def __post_init__(self) -> None:
        """Raise RecipeError if the pattern is contradictory."""
        if not (1 <= self.width <= MAX_SIZE and 1 <= self.height <= MAX_SIZE):
            raise RecipeError(f"a pattern has 1 to {MAX_SIZE} columns and rows, got {self.width} x {self.height}")
        if len(self.cells) != self.width * self.height:
            raise RecipeError(f"a {self.width} x {self.height} pattern needs {self.width * self.height} cells")
        if not all(1 <= cell <= ANY_CELL for cell in self.cells):
            raise RecipeError(f"cells must be 1 to {ANY_CELL}")

    def window(self, width: int, height: int) -> Window:
        """Return where the upper left cell may lie on a board of that size; empty if the pattern does not fit."""
        right, bottom = width - self.width, height - self.height
        match self.anchor:
            case "board":
                return Window(0, 0, 0, 0) if right == bottom == 0 else _NOWHERE
            case "corner":
                return Window(0, min(right, 0), 0, min(bottom, 0))
            case "side":
                return Window(1, right - 1, 0, min(bottom, 0))
            case "centre":
                return Window(1, right - 1, 1, bottom - 1)
            case "anywhere":
                return Window(0, right, 0, bottom)
            case Window() as given:
                return Window(given.left, min(given.right, right), given.top, min(given.bottom, bottom))
        raise RecipeError(f"anchor must be one of {', '.join(ANCHORS)} or a window, got {self.anchor!r}")

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
        across, down = (height, width) if k & 4 else (width, height)  # the board before symmetry k
        left, right, top, bottom = self.window(across, down)
        if k & 1:
            left, right = across - self.width - right, across - self.width - left
        if k & 2:
            top, bottom = down - self.height - bottom, down - self.height - top
        cells, moves = self.map_cells(k), self.map_moves(k)
        if exchanged:
            cells = tuple(map(exchange_cell, cells))
            moves = tuple(PatternMove(x, y, BLACK + WHITE - colour) for x, y, colour in moves)
        window = Window(top, bottom, left, right) if k & 4 else Window(left, right, top, bottom)
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
