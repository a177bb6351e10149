"""Drawings of positions and patterns with their continuations, as text and as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kifu.point import BLACK, WHITE, star_points, to_gtp
from kifu.search.continuations import Continuation
from kifu.search.notation import CELLS
from kifu.search.pattern import Pattern, PatternMove, Window
from kifu.search.position import Position
from kifu.viz.boards import CountedMove, draw_counts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LETTERS = "ABCDEFGHIJKLMNPQRSTUVWYZ"
"""Marks of continuations: without O and X, the stones."""

_CHARACTERS = {cell: character for character, cell in CELLS.items()}
_COLOURS = {None: 0, "black": BLACK, "white": WHITE}


class Drawing(NamedTuple):
    """A board, or a part of one.

    Attributes:
        cells: [height * width] Allowed contents, as in `Pattern.cells`.
        edges: True for the left, upper, right and lower sides that are edges of the board.
        moves: Stones that are played next, numbered from 1.
    """

    width: int
    height: int
    cells: tuple[int, ...]
    edges: tuple[bool, bool, bool, bool]
    moves: tuple[PatternMove, ...] = ()

    @classmethod
    def of_position(cls, position: Position) -> Drawing:
        """Return the drawing of a position."""
        return cls(position.width, position.height, position.cells(), (True,) * 4)

    @classmethod
    def of_pattern(cls, pattern: Pattern) -> Drawing:
        """Return the drawing of a pattern."""
        match pattern.anchor:
            case "board":
                edges = (True, True, True, True)
            case "corner":
                edges = (True, True, False, False)
            case "side":
                edges = (False, True, False, False)
            case Window(left, right, top, bottom):
                edges = (left == right == 0, top == bottom == 0, False, False)
            case _:
                edges = (False, False, False, False)
        return cls(pattern.width, pattern.height, pattern.cells, edges, pattern.moves)

    @property
    def is_board(self) -> bool:
        """True for a whole board."""
        return all(self.edges)

    def point_name(self, x: int, y: int) -> str:
        """Return the GTP vertex of a point of a board, else its column and row from the upper left, as in "3-4"."""
        return to_gtp(y * self.width + x, self.width, self.height) if self.is_board else f"{x + 1}-{y + 1}"

    def move_name(self, continuation: Continuation) -> str:
        """Return the name of its point, "pass", or "none"."""
        if continuation.x is None or continuation.y is None:
            return "pass" if continuation.is_pass else "none"
        return self.point_name(continuation.x, continuation.y)

    def letters(self, continuations: Sequence[Continuation]) -> dict[tuple[int, int], str]:
        """Return a letter for each point of the first continuations, in their order."""
        points = dict.fromkeys((each.x, each.y) for each in continuations if each.x is not None and each.y is not None)
        return dict(zip(points, LETTERS))

    def to_text(self, letters: Mapping[tuple[int, int], str]) -> list[str]:
        """Return the drawing as lines of text, with letters on points; X is Black and O White.

        A board has coordinates, a part of one the edges that it touches.
        """
        rows = self._rows(letters)
        if self.is_board:
            columns = [to_gtp(x, self.width, self.height)[0] for x in range(self.width)]
            return ["   " + " ".join(columns), *(f"{self.height - y:2d} {row}" for y, row in enumerate(rows))]
        left, upper, right, lower = self.edges
        rule = "+" * left + "-" * (len(rows[0]) + left + right) + "+" * right
        sides = [f"{'| ' if left else ''}{row}{' |' if right else ''}" for row in rows]
        return [*([rule] if upper else []), *sides, *([rule] if lower else [])]

    def _rows(self, letters: Mapping[tuple[int, int], str]) -> list[str]:
        stars = set(star_points(self.width, self.height)) if self.is_board else set()
        shown = [_CHARACTERS[cell] for cell in self.cells]
        shown = ["+" if text == "." and point in stars else text for point, text in enumerate(shown)]
        for number, (x, y, _) in reversed(list(enumerate(self.moves, 1))):
            shown[y * self.width + x] = str(number)
        for (x, y), letter in letters.items():
            shown[y * self.width + x] = letter
        size = max(map(len, shown))
        padded = [text.rjust(size) for text in shown]
        return [" ".join(padded[y * self.width : (y + 1) * self.width]) for y in range(self.height)]

    def to_figure(self, continuations: Sequence[Continuation], title: str = "") -> Figure:
        """Return the picture with the counts of the continuations."""
        moves = [
            CountedMove(
                self.move_name(each),
                None if each.x is None or each.y is None else each.y * self.width + each.x,
                _COLOURS[each.colour],
                each.count,
                each.share,
                each.win_rate,
            )
            for each in continuations
        ]
        cells = np.array(self.cells).reshape(self.height, self.width)
        numbers = {
            move.y * self.width + move.x: (str(number), move.colour)
            for number, move in reversed(list(enumerate(self.moves, 1)))
        }
        return draw_counts(cells, moves, title=title, edges=self.edges, numbers=numbers)
