"""The board of `kifu explore`: stones, the last move, and a label on each continuation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby

from rich.style import Style
from rich.text import Text
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.widget import Widget

from kifu.go.board import star_points
from kifu.point import BLACK, WHITE, to_gtp
from kifu.search.position import Position

_INK = {BLACK: "#000000", WHITE: "#ffffff"}
_WOOD = Style(color="#000000", bgcolor="#dcb35c")
_LINE = Style(color="#8a6d3b", bgcolor="#dcb35c")
_STONES = {colour: Style(color=ink, bgcolor="#dcb35c") for colour, ink in _INK.items()}
_LAST = {colour: Style(color="#d0301c", bgcolor=ink) for colour, ink in _INK.items()}
_LABEL = Style(color="#14240b", bgcolor="#b5d08c", bold=True)
_SELECTED = Style(color="#ffffff", bgcolor="#b3261e", bold=True)
_NO_COLOUR, _REVERSE = Style(bold=True), Style(bold=True, reverse=True)

_LARGE = 3
"""Lines of a point on a large board."""

_MARGIN = 3
"""Columns of the row numbers."""

_CROSSINGS = ("┌┬┐", "├┼┤", "└┴┘")
_LARGE_STONE = ("▗███▖", "█████", "▝███▘")


@dataclass(frozen=True, slots=True)
class Label:
    """The mark of a continuation.

    Attributes:
        lines: At most three lines of at most five characters, shown on a large board.
    """

    short: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diagram:
    """A position to draw.

    Attributes:
        last: Point of the last move; None if unknown, or a pass.
        labels: Marks by point, on empty points.
    """

    position: Position
    last: int | None = None
    labels: Mapping[int, Label] = field(default_factory=dict)
    selected: int | None = None


def text_size(position: Position, scale: int) -> Size:
    """Return the columns and lines of a board with its coordinates."""
    return Size(_MARGIN + 2 * scale * position.width, scale * position.height + 1)


def fitting_scale(position: Position, space: Size) -> int:
    """Return the lines of a point: 3 if the board then fits into the space, else 1."""
    size = text_size(position, _LARGE)
    return _LARGE if size.width <= space.width and size.height <= space.height else 1


def point_at(position: Position, scale: int, column: int, line: int) -> int | None:
    """Return the point that is drawn at a place of the text, or None."""
    x, y = (column - _MARGIN) // (2 * scale), (line - 1) // scale
    return y * position.width + x if 0 <= x < position.width and 0 <= y < position.height else None


def region_of(position: Position, scale: int, point: int) -> Region:
    """Return the place of a point in the text."""
    y, x = divmod(point, position.width)
    return Region(_MARGIN + 2 * scale * x, 1 + scale * y, 2 * scale, scale)


class _Canvas:
    """Characters with styles on a grid."""

    def __init__(self, size: Size, style: Style) -> None:
        self._cells = [[(" ", style)] * size.width for _ in range(size.height)]

    def put(self, column: int, line: int, text: str, style: Style) -> None:
        self._cells[line][column : column + len(text)] = [(character, style) for character in text]

    def text(self) -> Text:
        text = Text(no_wrap=True, end="")
        for k, line in enumerate(self._cells):
            text.append("\n" if k else "")
            for style, run in groupby(line, key=lambda cell: cell[1]):
                text.append("".join(character for character, _ in run), style)
        return text


def draw_diagram(diagram: Diagram, scale: int = 1, *, coloured: bool = True) -> Text:
    """Return a position as text.

    Args:
        scale: 1 or 3: lines of a point, which takes twice as many columns.
        coloured: False for terminals without colours, where stones are X and O.
    """
    position = diagram.position
    canvas = _Canvas(text_size(position, scale), _WOOD if coloured else Style())
    wood, line = (_WOOD, _LINE) if coloured else (Style(), Style())
    middle = scale - 1  # columns before the point's line, and twice the lines above it
    for x in range(position.width):
        name = to_gtp(x, position.width, position.height)[0]
        canvas.put(_MARGIN + 2 * scale * x + middle, 0, name, wood)
    for y in range(position.height):
        canvas.put(0, 1 + scale * y + middle // 2, f"{position.height - y:2d}", wood)
    stars = star_points(position.width, position.height)
    for point in range(position.width * position.height):
        _draw_lines(canvas, position, point, scale, point in stars, line)
    for point in range(position.width * position.height):
        if position.stones[point]:
            _draw_stone(canvas, diagram, point, scale, coloured)
        elif point in diagram.labels:
            _draw_label(canvas, diagram, point, scale, coloured)
    return canvas.text()


def _draw_lines(canvas: _Canvas, position: Position, point: int, scale: int, is_star: bool, style: Style) -> None:
    """Draw the lines of an empty point, and those to its right and lower neighbours."""
    y, x = divmod(point, position.width)
    row, column = (_side(k, n) for k, n in ((y, position.height), (x, position.width)))
    left, top = _MARGIN + 2 * scale * x, 1 + scale * y
    for k in range(scale):
        is_middle = k == scale // 2
        if is_middle:
            before, after = "─" if x > 0 else " ", "─" if x + 1 < position.width else " "
            crossing = "╋" if is_star else _CROSSINGS[row][column]
        else:
            before = after = " "
            crossing = "│" if (y > 0 if k < scale // 2 else y + 1 < position.height) else " "
        canvas.put(left, top + k, before * (scale - 1) + crossing + after * scale, style)


def _side(k: int, n: int) -> int:
    """Return 0 for the first line, 2 for the last one, else 1; a single line has no ends."""
    return 1 if n == 1 else 2 if k == n - 1 else min(k, 1)


def _draw_stone(canvas: _Canvas, diagram: Diagram, point: int, scale: int, coloured: bool) -> None:
    position, is_last = diagram.position, point == diagram.last
    colour = int(position.stones[point])
    left, top = region_of(position, scale, point).offset
    style = _STONES[colour] if coloured else _NO_COLOUR
    for k in range(scale):
        if coloured:
            canvas.put(left, top + k, _LARGE_STONE[k] if scale == _LARGE else "●", style)
        else:
            canvas.put(left, top + k, "XO"[colour - 1] * (2 * scale - 1), style)
    if is_last and scale == _LARGE:
        canvas.put(left + 2, top + 1, "●", _LAST[colour] if coloured else _REVERSE)
    elif is_last:
        frame = _WOOD if coloured else _NO_COLOUR
        canvas.put(left - 1, top, "(", frame)
        canvas.put(left + 1, top, ")", frame)


def _draw_label(canvas: _Canvas, diagram: Diagram, point: int, scale: int, coloured: bool) -> None:
    label, is_selected = diagram.labels[point], point == diagram.selected
    left, top = region_of(diagram.position, scale, point).offset
    if coloured:
        style = _SELECTED if is_selected else _LABEL
    else:
        style = _REVERSE if is_selected else _NO_COLOUR
    if scale == 1:
        canvas.put(left, top, label.short, style)
        return
    for k in range(scale):
        words = label.lines[k] if k < len(label.lines) else ""
        canvas.put(left, top + k, f"{words:^{2 * scale - 1}}", style)


class BoardView(Widget):
    """A diagram, as large as the given space allows. Clicking a point posts `BoardView.Picked`."""

    DEFAULT_CSS = "BoardView { width: auto; height: auto; }"

    class Picked(Message):
        """A point was clicked."""

        def __init__(self, point: int) -> None:
            super().__init__()
            self.point = point

    def __init__(self, diagram: Diagram, *, id: str | None = None) -> None:
        """Show a diagram with small points."""
        super().__init__(id=id)
        self.diagram, self.scale = diagram, 1

    def show(self, diagram: Diagram, space: Size) -> None:
        """Show a diagram in a space of columns and lines."""
        scale = fitting_scale(diagram.position, space)
        changed = text_size(diagram.position, scale) != text_size(self.diagram.position, self.scale)
        self.diagram, self.scale = diagram, scale
        self.refresh(layout=changed)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """Return the columns of the board."""
        return text_size(self.diagram.position, self.scale).width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the lines of the board."""
        return text_size(self.diagram.position, self.scale).height

    def render(self) -> Text:
        """Return the board."""
        return draw_diagram(self.diagram, self.scale, coloured=not self.app.no_color)

    def on_click(self, event: Click) -> None:
        """Post the point that was clicked."""
        point = point_at(self.diagram.position, self.scale, event.x, event.y)
        if point is not None:
            self.post_message(self.Picked(point))
