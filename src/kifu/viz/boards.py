"""Pictures of boards, feature planes and continuations, as PNG or SVG.

The same input gives the same bytes, regardless of the user's matplotlibrc.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.atomic_io import write_output
from kifu.errors import GameError, OutputError
from kifu.point import BLACK, WHITE, check_size, to_bottom_row, to_gtp
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
    paint,
    truncate,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_PICTURE = 5.6  # inches, longer side of a single board
_CELL = 0.46  # inches, maximum distance of two lines
_SMALL_PICTURE = 2.0  # inches, longer side of a board in a grid
_SMALL_CELL = 0.2  # inches, maximum distance of its lines


def draw_board(
    colours: npt.ArrayLike,
    *,
    title: str = "",
    last: int | None = None,
    marks: Mapping[int, str] | None = None,
    ring: int | None = None,
    heat: npt.ArrayLike | None = None,
    coordinates: bool = True,
) -> Figure:
    """Draw a board. Points are y * W + x; a pass is not drawn.

    Args:
        colours: [H, W] integers, 0 empty, 1 black, 2 white, top row first, at most 25 x 25.
        title: Text above the board; long lines are truncated.
        last: Last move, marked with a small circle unless its point has a mark.
        marks: Short texts by point, such as move numbers.
        heat: [H, W] floats, intensity of each point relative to the largest; values <= 0 are not drawn.

    Raises:
        GameError: An array has the wrong shape or values, or a point is off the board.
    """
    board = np.asarray(colours)
    if board.ndim != 2 or not np.isin(board, (0, 1, 2)).all():
        raise GameError(f"colours must be [height, width] of 0, 1 and 2, got shape {board.shape}")
    check_size(board.shape[1], board.shape[0])
    wash = np.zeros(board.shape) if heat is None else np.nan_to_num(np.asarray(heat, np.float64), posinf=0.0)
    if wash.shape != board.shape:
        raise GameError(f"heat must have the board's shape {board.shape}, got {wash.shape}")
    wash = np.maximum(wash, 0)
    panel = Panel(
        colours=board.astype(np.uint8),
        wash=wash / (wash.max() or 1),
        title=tuple(title.splitlines()),
        names=board_names(board.shape[1], board.shape[0]) if coordinates else None,
        last=_on_board(last, board.shape),
        ring=_on_board(ring, board.shape),
        marks={p: text for p, text in (marks or {}).items() if _on_board(p, board.shape) is not None},
    )
    return paint([panel], columns=1, cell=min(_CELL, _PICTURE / (max(board.shape) + 2 * panel.margin)))


def draw_planes(
    planes: npt.ArrayLike, names: Sequence[str], *, label: int | None = None, origin: str = "top"
) -> Figure:
    """Draw the planes of one example as small boards with their numbers and names.

    Args:
        planes: [C, H, W] floats from -1 to 1; negative values have another colour.
        label: Point to ring on each plane, row * W + column in the planes' frame; a pass is not drawn.
        origin: "top" or "bottom", the side of the board where row 0 lies; "bottom" in dat1 and dat2 files.

    Raises:
        GameError: The shapes do not match, the label is not a move, or the origin is unknown.
    """
    stack = np.nan_to_num(np.asarray(planes, np.float64))
    if stack.ndim != 3 or len(stack) == 0 or len(stack) != len(names):
        raise GameError(
            f"planes must be [C, height, width] with C names, got shape {stack.shape} and {len(names)} names"
        )
    count, height, width = stack.shape
    check_size(width, height)
    ring = _on_board(label, (height, width))
    if origin not in ("top", "bottom"):
        raise GameError(f"origin must be 'top' or 'bottom', got {origin!r}")
    if origin == "bottom":
        stack = stack[:, ::-1]
        ring = None if ring is None else to_bottom_row(ring, width, height)
    panels = [
        Panel(
            colours=np.zeros((height, width), np.uint8),
            wash=np.clip(plane, -1, 1),
            title=(f"{k}  {name}",),
            wooden=False,
            ring=ring,
        )
        for k, (plane, name) in enumerate(zip(stack, names))
    ]
    columns = min(count, max(4, math.ceil(math.sqrt(1.5 * count))))
    return paint(panels, columns, cell=min(_SMALL_CELL, _SMALL_PICTURE / (max(height, width) + 1.5)))


def _on_board(move: int | None, shape: tuple[int, ...]) -> int | None:
    """Return the point of a move on a board of shape [H, W], None for a pass; raise GameError off the board."""
    if move is None or to_gtp(move, shape[1], shape[0]) == "pass":
        return None
    return move


def notebook_svg(draw: Callable[[], Figure]) -> str | None:
    """Return a picture as an SVG element; None without matplotlib, so that a notebook shows the repr instead."""
    try:
        return to_svg(draw())
    except ModuleNotFoundError:
        return None


def to_svg(figure: Figure) -> str:
    """Return the picture as an <svg> element without XML declaration, for embedding in a page."""
    text = _render(figure, "svg", {"Date": None, "Creator": None}).decode()
    return text[text.index("<svg") :]


def save(figure: Figure, path: str | Path) -> None:
    """Write the picture atomically as PNG or SVG, depending on the suffix of `path`.

    Raises:
        OutputError: The suffix is neither, or the file could not be written.
    """
    path = Path(path)
    match path.suffix.lower():
        case ".svg":
            write_output(path, to_svg(figure).encode())
        case ".png":
            write_output(path, _render(figure, "png", {"Software": None}))
        case suffix:
            raise OutputError(f"cannot draw {path}: the suffix must be .png or .svg, got {suffix!r}")


def _render(figure: Figure, kind: str, metadata: dict[str, str | None]) -> bytes:
    buffer = io.BytesIO()
    with matplotlib_style():
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=metadata)
    return buffer.getvalue()


_COUNTS_PICTURE = 6.6  # inches, longer side of the board
_COUNTS_CELL = 0.5  # inches, maximum distance of two lines
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
    cell = min(_COUNTS_CELL, _COUNTS_PICTURE / max(panel.width, panel.height))
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
