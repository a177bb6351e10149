"""Patterns cut out of a board: a rectangle of a position, and sequences of moves in a corner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kifu.errors import GameError, RecipeError
from kifu.point import parse_gtp, to_gtp
from kifu.search.notation import anchor_of, check_pattern, orient
from kifu.search.pattern import EMPTY_CELL, Pattern, PatternMove
from kifu.search.position import Position, play_moves


class Rectangle(NamedTuple):
    """A rectangle of a board: its first and last columns and rows, from 0 at the upper left."""

    left: int
    top: int
    right: int
    bottom: int


def parse_rectangle(text: str, width: int, height: int) -> Rectangle:
    """Return the rectangle between two GTP vertices, such as "C12:H19", in any order.

    Raises:
        RecipeError: The text is not a rectangle of a board of that size.
    """
    try:
        points = [parse_gtp(corner.strip(), width, height) for corner in text.split(":")]
        if len(points) != 2 or width * height in points:
            raise GameError(f"got {text!r}")
    except GameError as error:
        raise RecipeError(f"a rectangle is given by two of its corners, such as C12:H19: {error}") from None
    return bounding_box(points, width)


def bounding_box(points: Iterable[int], width: int) -> Rectangle:
    """Return the smallest rectangle that contains points of a board, of which there is at least one."""
    rows, columns = zip(*(divmod(point, width) for point in points))
    return Rectangle(min(columns), min(rows), max(columns), max(rows))


def cut(
    width: int, height: int, cells: Sequence[int], rectangle: Rectangle, moves: Iterable[tuple[int, int]] = ()
) -> Pattern:
    """Return a rectangle of a board as a pattern, anchored by the edges of the board that it touches.

    As in the text notation, a pattern at one edge is turned to the upper one, and one in a corner to the upper left.

    Args:
        cells: [height * width] Allowed contents of the points of the board.
        moves: (point, colour) of the moves played in the rectangle.

    Raises:
        RecipeError: The rectangle touches three edges or two opposite ones, a move is outside, or the pattern is too
            vague.
    """
    left, top, right, bottom = rectangle
    touched = {"left": left == 0, "upper": top == 0, "right": right == width - 1, "lower": bottom == height - 1}
    edges = {edge for edge, is_touched in touched.items() if is_touched}
    inside = []
    for number, (point, colour) in enumerate(moves, 1):
        y, x = divmod(point, width)
        if not (left <= x <= right and top <= y <= bottom):
            corners = f"{to_gtp(top * width + left, width, height)}:{to_gtp(bottom * width + right, width, height)}"
            raise RecipeError(f"move {number}, {to_gtp(point, width, height)}, is outside the rectangle {corners}")
        inside.append(PatternMove(x - left, y - top, colour))
    pattern = Pattern(
        right - left + 1,
        bottom - top + 1,
        tuple(cells[y * width + x] for y in range(top, bottom + 1) for x in range(left, right + 1)),
        anchor_of(edges),
        moves=tuple(inside),
    )
    check_pattern(pattern)
    return orient(pattern, edges)


def pattern_from_position(position: Position, rectangle: str | Rectangle) -> Pattern:
    """Return a rectangle of a position as a pattern, anchored by the edges of the board that it touches.

    Args:
        rectangle: Two of its corners as GTP vertices, such as "C12:H19", or the rectangle.

    Raises:
        RecipeError: The rectangle is not on the board, or touches three edges or two opposite ones.
    """
    if isinstance(rectangle, str):
        rectangle = parse_rectangle(rectangle, position.width, position.height)
    return cut(position.width, position.height, position.cells(), rectangle)


def sequence_pattern(
    moves: str, rectangle: str | Rectangle | None = None, width: int = 19, height: int | None = None, least: int = 8
) -> Pattern:
    """Return the pattern of moves played in order in a part of the board that is empty before.

    Args:
        moves: GTP vertices or SGF points, as for `kifu.search.position.parse_position`. A pass means that its player
            plays elsewhere.
        rectangle: As for `pattern_from_position`; by default the smallest in a corner that contains all moves.
        height: Rows; as many as columns by default.
        least: Columns and rows that the default rectangle has at least.

    Raises:
        RecipeError: A move is not one, is illegal, or lies outside the rectangle; or as for `pattern_from_position`.
    """
    height = width if height is None else height
    _, played = play_moves(moves, width, height)
    if not played:
        raise RecipeError("a sequence needs at least one move on the board")
    if rectangle is None:
        rectangle = _corner_around([point for point, _ in played], width, height, least)
    elif isinstance(rectangle, str):
        rectangle = parse_rectangle(rectangle, width, height)
    return cut(width, height, [EMPTY_CELL] * (width * height), rectangle, played)


def _corner_around(points: Sequence[int], width: int, height: int, least: int) -> Rectangle:
    """Return the smallest rectangle in a corner of the board that contains points."""
    box = bounding_box(points, width)
    across, down = min(least, width), min(least, height)
    left, right = max(box.right + 1, across), max(width - box.left, across)
    upper, lower = max(box.bottom + 1, down), max(height - box.top, down)
    columns = (0, left - 1) if left <= right else (width - right, width - 1)
    rows = (0, upper - 1) if upper <= lower else (height - lower, height - 1)
    return Rectangle(columns[0], rows[0], columns[1], rows[1])
