"""Pictures of a board, or of a part of one, with how often each point was played."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.errors import GameError
from kifu.point import BLACK, WHITE, check_size
from kifu.text import counted, short_count
from kifu.viz.painter import (
    BLACK_EDGE,
    BLACK_STONE,
    BORDER,
    DPI,
    HEAT,
    INK,
    LINE,
    LINE_HEIGHT,
    WHITE_EDGE,
    WHITE_STONE,
    WOOD,
    Painter,
    Panel,
    board_names,
    matplotlib_style,
    truncate,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PICTURE = 6.6  # inches, longer side of the board
_CELL = 0.5  # inches, maximum distance of two lines
_LEGEND = 3.1  # inches, width of the legend
_FONT = 9.0  # points
_ROW = 0.2  # inches, height of a row of the legend
_ROWS = 14  # rows of the legend beside a small part of a board, at most
_VEIL = "#b9b2a6"
_COLUMNS = ((0.0, "left"), (1.5, "right"), (2.2, "right"), (2.9, "right"))  # inches from the legend's left side

_EMPTY, _BLACK, _WHITE = 1, 2, 4  # bits of a cell
_ANY = _EMPTY | _BLACK | _WHITE


class CountedMove(NamedTuple):
    """A move and how often it was played.

    Attributes:
        name: Its name in the legend, such as "R16".
        point: Y * W + x; None if it is not on the picture, such as a pass.
        colour: BLACK or WHITE; 0 for no move.
        share: Share of all, 0 to 1.
        win_rate: Share of the games that its player won, 0 to 1; None if unknown.
    """

    name: str
    point: int | None
    colour: int
    times: int
    share: float
    win_rate: float | None


def draw_counts(
    cells: npt.ArrayLike,
    moves: Sequence[CountedMove],
    *,
    title: str = "",
    edges: tuple[bool, bool, bool, bool] = (True, True, True, True),
    numbers: Mapping[int, tuple[str, int]] | None = None,
) -> Figure:
    """Draw how often the points of a board were played, with a legend of the most frequent moves.

    The fill of a mark grows with its count. Its ring is as black and as white as its moves.

    Args:
        cells: [H, W] integers, top row first: sums of 1 if the point may be empty, 2 black, 4 white.
        moves: The moves, the most frequent first.
        edges: True for the left, upper, right and lower sides that are edges of the board.
        numbers: Texts on stones that were played later, by point, with the colours of the stones.

    Raises:
        GameError: `cells` has the wrong shape or values, or a point is off the picture.
    """
    from matplotlib.figure import Figure

    board = np.asarray(cells)
    panel = _make_panel(board, numbers or {}, edges)
    wrong = [move.point for move in moves if move.point is not None and not 0 <= move.point < board.size]
    if wrong:
        raise GameError(f"point {wrong[0]} is not within 0 to {board.size - 1}")
    cell = min(_CELL, _PICTURE / max(panel.width, panel.height))
    head, border = LINE_HEIGHT / cell * len(title.splitlines()), BORDER / cell
    height = max(panel.height, (min(len(moves), _ROWS) + 1.01) * _ROW / cell)
    size = (panel.width + 3 * border + _LEGEND / cell, height + 2 * border + head)
    with matplotlib_style():
        figure = Figure(figsize=(size[0] * cell, size[1] * cell), dpi=DPI, facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, size[0]), ylim=(size[1], 0))
        axes.set_axis_off()
        painter = Painter(axes, panel, border + panel.margin, border + head + panel.margin, cell * 72)
        painter.paint()
        room = (size[0] - 2 * border) * painter.points / panel.title_size
        for k, line in enumerate(title.splitlines()):
            y = border + (k + 0.45) * LINE_HEIGHT / cell
            painter.text(border, y, truncate(line, room), panel.title_size, INK, "left")
        _draw_wildcards(painter, board)
        _draw_marks(painter, moves)
        _draw_legend(painter, moves, panel.width + 2 * border, border + head, size[1] - border)
    return figure


def _make_panel(
    cells: npt.NDArray[np.integer], numbers: Mapping[int, tuple[str, int]], edges: tuple[bool, bool, bool, bool]
) -> Panel:
    """Return the panel with the stones; raise GameError for invalid cells."""
    if cells.ndim != 2 or not ((cells >= 1) & (cells <= _ANY)).all():
        raise GameError(f"cells must be [height, width] of 1 to {_ANY}, got shape {cells.shape}")
    height, width = cells.shape
    check_size(width, height)
    stones = np.select([cells == _BLACK, cells == _WHITE], [BLACK, WHITE], 0).astype(np.uint8)
    for point, (_, colour) in numbers.items():
        stones.ravel()[point] = colour
    return Panel(
        colours=stones,
        wash=np.zeros(cells.shape),
        names=board_names(width, height) if all(edges) else (_numbers(width), _numbers(height)),
        edges=edges,
        marks={point: text for point, (text, _) in numbers.items()},
    )


def _numbers(count: int) -> list[str]:
    return [str(k + 1) for k in range(count)]


def _draw_wildcards(painter: Painter, cells: npt.NDArray[np.integer]) -> None:
    """Draw small stones where there may be one, and a veil where there may be anything."""
    from matplotlib.patches import Rectangle

    for point, (cell, stone) in enumerate(zip(cells.ravel().tolist(), painter.panel.colours.ravel().tolist())):
        x, y = painter.at(point)
        if stone:
            continue
        if cell == _ANY:
            painter.add(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=_VEIL, linewidth=0, alpha=0.75))
        elif cell & _BLACK and cell & _WHITE:
            painter.discs([(x - 0.12, y)], 0.36, BLACK_STONE, BLACK_EDGE)
            painter.discs([(x + 0.12, y)], 0.36, WHITE_STONE, WHITE_EDGE)
        elif cell != _EMPTY:
            is_black = cell & _BLACK
            painter.discs(
                [(x, y)], 0.4, BLACK_STONE if is_black else WHITE_STONE, BLACK_EDGE if is_black else WHITE_EDGE
            )


def _draw_marks(painter: Painter, moves: Sequence[CountedMove]) -> None:
    """Draw a mark on each point that was played."""
    from matplotlib.patches import Wedge

    counts: dict[int, dict[int, int]] = {}
    for move in moves:
        if move.point is not None and move.times:
            colours = counts.setdefault(move.point, {BLACK: 0, WHITE: 0})
            colours[move.colour] = colours.get(move.colour, 0) + move.times
    most = max((sum(colours.values()) for colours in counts.values()), default=1)
    painter.discs([painter.at(point) for point in counts], 0.92, WOOD)
    width = painter.line_width(0.06, 1.4)
    for point, colours in counts.items():
        total = sum(colours.values())
        strength = math.sqrt(total / most)
        painter.discs([painter.at(point)], 0.86, HEAT, alpha=round(0.75 * strength, 3))
        painter.circle(point, 0.88, BLACK_EDGE, width)
        if colours[WHITE]:
            turn = 180 * colours[WHITE] / total
            arc = Wedge(painter.at(point), 0.46, 90 - turn, 90 + turn, width=0.05)
            arc.set(facecolor=WHITE_STONE, edgecolor=WHITE_EDGE, linewidth=width / 4)
            painter.add(arc)
        text = short_count(total)
        size = (0.46, 0.46, 0.4, 0.34, 0.3)[min(len(text), 4)] * painter.points
        painter.text(*painter.at(point), text, size, WHITE_STONE if strength > 0.7 else INK)


def _draw_legend(painter: Painter, moves: Sequence[CountedMove], left: float, top: float, bottom: float) -> None:
    """List the most frequent moves within the given lines, in cells."""
    inch = 72 / painter.points
    rows = int((bottom - top) / (_ROW * inch)) - 1
    played, others = [move for move in moves if move.colour], [move for move in moves if not move.colour]
    shown = played if len(moves) <= rows else played[: rows - 1 - len(others)]
    if rest := played[len(shown) :]:
        times, share = sum(move.times for move in rest), sum(move.share for move in rest)
        others.insert(0, CountedMove(counted(len(rest), "other"), None, 0, times, share, None))
    for (at, align), name in zip(_COLUMNS, ("next", "times", "share", "wins")):
        painter.text(left + at * inch, top + _ROW / 2 * inch, name, _FONT, LINE, align)
    for k, (name, _, colour, times, share, win_rate) in enumerate((*shown, *others), 1):
        y = top + (k + 0.5) * _ROW * inch
        if colour:
            faces = (BLACK_STONE, BLACK_EDGE) if colour == BLACK else (WHITE_STONE, WHITE_EDGE)
            painter.discs([(left + 0.07 * inch, y)], 0.13 * inch, *faces)
        texts = (
            name,
            f"{times:,}",
            f"{share:.1%}" if share >= 0.0005 else "<0.1%",
            "" if win_rate is None else f"{win_rate:.0%}",
        )
        for (at, align), text in zip(_COLUMNS, texts):
            indent = 0.2 if align == "left" else 0
            painter.text(left + (at + indent) * inch, y, text, _FONT, INK, align)
