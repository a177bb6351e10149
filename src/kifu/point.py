"""Moves as row-major ints, counted from the upper left, and their conversion to every other notation.

    point   y * width + x, with y = 0 the top row, as in SGF
    PASS    width * height (`pass_move`)

    corner of 19 x 19   upper left   upper right   lower left   pass
    flat                0            18            342          361
    SGF                 "aa"         "sa"          "as"         "" (or "tt" up to 19 x 19)
    GTP                 "A19"        "T19"         "A1"         "pass"
    kgsgo (row, col)    (18, 0)      (18, 18)      (0, 0)       not used

In move and setup arrays a point shares its uint16 with a colour: `WHITE_BIT` means White, and in setup arrays
`ERASE_BIT` means that the point is emptied. `NO_POINT` marks a move outside the board.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from kifu.errors import GameError, RecipeError

BLACK, WHITE = 1, 2

POINT_MASK = 0x3FFF
ERASE_BIT = 0x4000
WHITE_BIT = 0x8000
NO_POINT = 0x3FFF

MAX_SIZE = 25

SGF_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_GTP_LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"  # no I


def parse_board(text: str) -> tuple[int, int]:
    """Return width and height of a board size such as "19x19". Raises RecipeError; the maximum size is not checked."""
    width, x, height = text.partition("x")
    if not (x and all(side.isascii() and side.isdigit() and len(side) <= 2 for side in (width, height))):
        raise RecipeError(f"board must be like 19x19, got {text!r}")
    return int(width), int(height)


def check_size(width: int, height: int) -> None:
    """Raise GameError unless both are within 1 to 25."""
    if not (1 <= width <= MAX_SIZE and 1 <= height <= MAX_SIZE):
        raise GameError(f"board size {width} x {height} is not within 1 to {MAX_SIZE}")


def pass_move(width: int, height: int | None = None) -> int:
    """Return the int of a pass. `height` defaults to `width`, here and below."""
    return width * (height or width)


def _check_move(move: int, width: int, height: int) -> None:
    if not 0 <= move <= width * height:
        raise GameError(f"move {move} is not within 0 to {width * height} ({width} x {height}, the last one is a pass)")


def to_sgf(move: int, width: int, height: int | None = None) -> str:
    """Return the SGF value of a move: two letters, or "" for a pass."""
    height = height or width
    _check_move(move, width, height)
    if move == width * height:
        return ""
    y, x = divmod(move, width)
    return SGF_LETTERS[x] + SGF_LETTERS[y]


def parse_sgf(text: str, width: int, height: int | None = None) -> int:
    """Parse an SGF move. "" and, up to 19 x 19, "tt" are passes. Raises GameError for points off the board."""
    height = height or width
    if text == "" or (text == "tt" and width <= 19 and height <= 19):
        return width * height
    if len(text) == 2:
        x, y = SGF_LETTERS.find(text[0]), SGF_LETTERS.find(text[1])
        if 0 <= x < width and 0 <= y < height:
            return y * width + x
    raise GameError(f"{text!r} is not an SGF point of a {width} x {height} board")


def to_gtp(move: int, width: int, height: int | None = None) -> str:
    """Return the GTP vertex of a move: column letter (without I) and row from the bottom, or "pass"."""
    height = height or width
    _check_move(move, width, height)
    if move == width * height:
        return "pass"
    y, x = divmod(move, width)
    return f"{_GTP_LETTERS[x]}{height - y}"


def parse_gtp(text: str, width: int, height: int | None = None) -> int:
    """Parse a GTP vertex, in upper or lower case. Raises GameError for vertices off the board."""
    height = height or width
    if text.lower() == "pass":
        return width * height
    x = _GTP_LETTERS.find(text[:1].upper()) if text else -1
    if 0 <= x < width and text[1:].isascii() and text[1:].isdigit():
        row = int(text[1:4])
        if 1 <= row <= height and len(text) <= 3:
            return (height - row) * width + x
    raise GameError(f"{text!r} is not a GTP vertex of a {width} x {height} board")


def to_bottom_row(move: int, width: int, height: int | None = None) -> int:
    """Return the kgsgo label of a point, row * width + column with row 0 at the bottom. It is its own inverse.

    Raises GameError for a pass.
    """
    height = height or width
    if not 0 <= move < width * height:
        raise GameError(f"move {move} is not a point of a {width} x {height} board")
    y, x = divmod(move, width)
    return (height - 1 - y) * width + x


def max_handicap(width: int, height: int) -> int:
    """Return the largest fixed handicap on a board of that size: 0, 4 or 9 (GTP 2, section 4.1.1)."""
    if min(width, height) < 7:
        return 0
    return 9 if width % 2 and height % 2 and min(width, height) >= 9 else 4


def fixed_handicap(stones: int, width: int, height: int) -> list[int]:
    """Return the points of a fixed handicap of 2 to `max_handicap` stones (GTP 2, section 4.1.1).

    Two stones take opposite corners and three omit the lower right one. From five on, an odd stone takes the centre;
    six adds the left and right sides, eight the upper and lower ones.
    """

    def lines(size: int) -> tuple[int, int, int]:
        edge = 2 if size < 13 else 3
        return edge, size // 2, size - 1 - edge

    (left, middle_x, right), (top, middle_y, bottom) = lines(width), lines(height)
    points = [(left, bottom), (right, top), (left, top), (right, bottom)]
    points += [(left, middle_y), (right, middle_y), (middle_x, bottom), (middle_x, top)]
    if stones >= 5 and stones % 2:
        points.insert(stones - 1, (middle_x, middle_y))
    return [y * width + x for x, y in points[:stones]]


@functools.cache
def symmetries(width: int, height: int) -> npt.NDArray[np.int16]:
    """Return the eight symmetries of a board as tables of moves.

    Symmetry k mirrors left-right if k & 1, top-bottom if k & 2, and then transposes if k & 4. So 0 is the identity, and
    for k >= 4 the result is a board of height x width.

    Returns:
        [8, width * height + 1] int16, read-only: the image of each move under each symmetry. A pass remains a pass.
    """
    y, x = np.divmod(np.arange(width * height), width)
    table = np.empty((8, width * height + 1), np.int16)
    for k in range(8):
        sx = width - 1 - x if k & 1 else x
        sy = height - 1 - y if k & 2 else y
        table[k, :-1] = sx * height + sy if k & 4 else sy * width + sx
        table[k, -1] = width * height
    table.setflags(write=False)
    return table


def inverse_symmetry(k: int) -> int:
    """Return the inverse of symmetry k: the two quarter turns are inverse to each other, the others to themselves."""
    return {5: 6, 6: 5}.get(k, k)


def star_points(width: int, height: int) -> tuple[int, ...]:
    """Return the star points of a board: corners (from 7 lines on), centre, and sides (from 15 lines on).

    Examples:
        >>> [to_gtp(point, 9) for point in star_points(9, 9)]
        ['C7', 'G7', 'E5', 'C3', 'G3']
    """

    def lines(size: int) -> tuple[list[int], list[int]]:
        edge = 2 if size < 13 else 3
        return [edge, size - 1 - edge] if size >= 7 else [], [size // 2] if size % 2 and size >= 5 else []

    (corner_x, middle_x), (corner_y, middle_y) = lines(width), lines(height)
    stars = {(x, y) for x in corner_x for y in corner_y} | {(x, y) for x in middle_x for y in middle_y}
    if width >= 15:
        stars |= {(x, y) for x in middle_x for y in corner_y}
    if height >= 15:
        stars |= {(x, y) for x in corner_x for y in middle_y}
    return tuple(sorted(y * width + x for x, y in stars))
