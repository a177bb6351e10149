"""Pictures of boards, feature planes and continuations, as PNG or SVG.

The same input gives the same bytes, regardless of the user's matplotlibrc. A panel is one board of a picture, drawn in
layers. Matplotlib is imported with the first picture and used without pyplot, so no window system and no global state
is involved.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.errors import GameError, OutputError, printable
from kifu.io import hidden_file, write_output
from kifu.point import BLACK, WHITE, check_size, star_points, to_bottom_row, to_gtp
from kifu.text import counted, short_count

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WOOD, PAPER = "#ecd09c", "#f7f4ee"
LINE, PAPER_LINE = "#7a6140", "#d8d0c2"
INK = "#2b2622"
BLACK_STONE, BLACK_EDGE = "#1f1f21", "#000000"
WHITE_STONE, WHITE_EDGE = "#fbfaf7", "#4d4740"
_FACES = {BLACK: (BLACK_STONE, BLACK_EDGE), WHITE: (WHITE_STONE, WHITE_EDGE)}
RING = "#d0301c"
HEAT = "#15803d"
PLUS, MINUS = "#1f4e79", "#b9812a"  # plane values above and below zero

_GAP = 0.9  # cells between panels
_STUB = 0.5  # cells that lines continue beyond a side that is no edge
BORDER = 0.12  # inches around the picture
LINE_HEIGHT = 0.19  # inches, line of a title
DPI = 160

_CJK_FONTS = (  # installed ones serve names in Chinese, Japanese and Korean
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei",
    "PingFang SC", "Hiragino Sans", "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Panel:
    """One board of a picture.

    Attributes:
        colours: [H, W] uint8, 0 empty, 1 black, 2 white.
        wash: [H, W] float64 from -1 to 1, intensity and sign of the colour of each point.
        names: Names of the columns and of the rows, drawn on all sides; None to draw none.
        edges: True for the left, upper, right and lower sides that are edges of the board; beyond other sides it
            continues.
        last: Point of the last move, marked with a small circle.
        ring: Point of the next move, marked with a ring.
    """

    colours: npt.NDArray[np.uint8]
    wash: npt.NDArray[np.float64]
    title: tuple[str, ...] = ()
    wooden: bool = True
    names: tuple[Sequence[str], Sequence[str]] | None = None
    edges: tuple[bool, bool, bool, bool] = (True, True, True, True)
    last: int | None = None
    ring: int | None = None
    marks: Mapping[int, str] = field(default_factory=dict)

    @property
    def margin(self) -> float:
        """Distance in cells from the outermost line to the edge of the board."""
        return 1.4 if self.names else 0.75

    @property
    def width(self) -> float:
        """Width of the board in cells, including margins."""
        return 2 * self.margin + int(self.colours.shape[1]) - 1

    @property
    def height(self) -> float:
        """Height of the board in cells, including margins, without the title."""
        return 2 * self.margin + int(self.colours.shape[0]) - 1

    @property
    def title_size(self) -> float:
        """Font size in points."""
        return 10.5 if self.wooden else 8


@contextlib.contextmanager
def matplotlib_style() -> Iterator[type[Figure]]:
    """Apply Matplotlib's defaults with text and reproducible ids in SVG, and silence warnings about missing fonts.

    Yields the class of figures, so that Matplotlib is imported here, without a matplotlibrc of the working directory.
    """
    with hidden_file("matplotlibrc"):
        import matplotlib
        from matplotlib.figure import Figure

    log = logging.getLogger("matplotlib.font_manager")
    disabled, log.disabled = log.disabled, True
    try:
        with matplotlib.rc_context(), warnings.catch_warnings():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "kifu", "text.parse_math": False})
            matplotlib.rcParams.update({"font.sans-serif": ["DejaVu Sans"]})
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            yield Figure
    finally:
        log.disabled = disabled


def style_chart(axes: Axes, title: str) -> None:
    """Style empty axes and set their title."""
    axes.set_title(title, loc="left", fontsize=11, color=INK, weight="bold")
    axes.set_facecolor("white")
    axes.tick_params(colors=INK, labelsize=8, length=0)
    axes.spines[:].set_visible(False)


def paint(panels: Sequence[Panel], columns: int, cell: float) -> Figure:
    """Draw panels of equal size in rows of `columns`, with `cell` inches between two lines."""
    first = panels[0]
    head = LINE_HEIGHT / cell * max(len(panel.title) for panel in panels)
    width, height = first.width, first.height + head
    rows = math.ceil(len(panels) / columns)
    gap = _GAP if len(panels) > 1 else 0.0
    border = BORDER / cell
    size = (columns * width + (columns - 1) * gap + 2 * border, rows * height + (rows - 1) * gap + 2 * border)
    with matplotlib_style() as new_figure:
        figure = new_figure(figsize=(size[0] * cell, size[1] * cell), dpi=DPI, facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, size[0]), ylim=(size[1], 0))
        axes.set_axis_off()
        for k, panel in enumerate(panels):
            row, column = divmod(k, columns)
            left, top = border + column * (width + gap), border + row * (height + gap) + head
            Painter(axes, panel, left + panel.margin, top + panel.margin, cell * 72).paint()
    return figure


@dataclass(frozen=True, slots=True)
class Painter:
    """Draws one panel.

    Attributes:
        left: Horizontal position of its upper left point in cells.
        top: Vertical position of that point in cells.
        points: Points (1/72 inch) per cell.
    """

    axes: Axes
    panel: Panel
    left: float
    top: float
    points: float

    def paint(self) -> None:
        """Draw all layers, bottom up."""
        self._board()
        self._wash()
        self._stones()
        self._marks()
        if self.panel.names:
            self._coordinates(*self.panel.names)
        left, top = self.left - self.panel.margin, self.top - self.panel.margin
        size, room = self.panel.title_size, self.panel.width * self.points
        for k, text in enumerate(reversed(self.panel.title)):
            y = top - (k + 0.55) * LINE_HEIGHT * 72 / self.points
            self.text(left, y, truncate(text, room / size), size, INK, "left")

    def at(self, point: int) -> tuple[float, float]:
        """Return the place of a point on the axes."""
        y, x = divmod(point, self.panel.colours.shape[1])
        return self.left + x, self.top + y

    def add(self, artist: Artist) -> None:
        """Add a layer."""
        artist.set_zorder(1)  # equal for all, so that later artists lie on top
        artist.set_clip_on(False)  # nothing crosses the edge, and clip paths are a third of an SVG's size
        self.axes.add_artist(artist)

    def line_width(self, cells: float, max_points: float) -> float:
        """Return a line width in points."""
        return min(cells * self.points, max_points)

    def text(self, x: float, y: float, text: str, size: float, colour: str, align: str = "center") -> None:
        """Draw a line of text whose capital letters are vertically centred at y."""
        from matplotlib.text import Text

        text = printable(text)
        family = "sans-serif" if text.isascii() else ["DejaVu Sans", *_CJK_FONTS, "sans-serif"]
        base = y + 0.365 * size / self.points  # va="center" would depend on the installed fonts
        self.add(Text(x, base, text, size=size, color=colour, family=family, ha=align, va="baseline"))

    def discs(
        self, centres: Sequence[tuple[float, float]], diameter: float, face: str, edge: str = "none", alpha: float = 1
    ) -> None:
        """Draw filled circles; the diameter is in cells."""
        from matplotlib.collections import EllipseCollection

        if centres:
            self.add(
                EllipseCollection(
                    diameter, diameter, 0, units="xy", offsets=centres, offset_transform=self.axes.transData,
                    facecolors=face, edgecolors=edge, linewidths=self.line_width(0.03, 0.7), alpha=alpha,
                )
            )  # fmt: skip

    def circle(self, point: int, diameter: float, colour: str, width: float) -> None:
        """Draw an open circle; the diameter is in cells, the line width in points."""
        from matplotlib.patches import Circle

        self.add(Circle(self.at(point), diameter / 2, fill=False, edgecolor=colour, linewidth=width))

    def _board(self) -> None:
        from matplotlib.collections import LineCollection
        from matplotlib.patches import Rectangle

        height, width = self.panel.colours.shape
        margin = self.panel.margin
        ground, ink = (WOOD, LINE) if self.panel.wooden else (PAPER, PAPER_LINE)
        size = (self.panel.width, self.panel.height)
        self.add(Rectangle((self.left - margin, self.top - margin), *size, facecolor=ground, linewidth=0))
        ends = [0 if edge else _STUB for edge in self.panel.edges]
        left, right = self.left - ends[0], self.left + width - 1 + ends[2]
        top, bottom = self.top - ends[1], self.top + height - 1 + ends[3]
        lines = [[(self.left + x, top), (self.left + x, bottom)] for x in range(width)]
        lines += [[(left, self.top + y), (right, self.top + y)] for y in range(height)]
        self.add(LineCollection(lines, colors=ink, linewidths=self.line_width(0.03, 0.8), capstyle="projecting"))
        if all(self.panel.edges):
            stars = [self.at(point) for point in star_points(width, height)]
            self.discs(stars, 0.2 if self.panel.wooden else 0.3, ink)
            return
        borders = [[(left, top), (left, bottom)], [(left, top), (right, top)]]
        borders += [[(right, top), (right, bottom)], [(left, bottom), (right, bottom)]]
        borders = [border for border, edge in zip(borders, self.panel.edges) if edge]
        self.add(LineCollection(borders, colors=ink, linewidths=self.line_width(0.1, 2.4), capstyle="projecting"))

    def _wash(self) -> None:
        from matplotlib.collections import PolyCollection
        from matplotlib.colors import to_rgb

        strength = self.panel.wash.ravel()
        points = np.flatnonzero(np.abs(strength) > 0.005)
        if len(points) == 0:
            return
        half = 0.45 if self.panel.wooden else 0.5
        square = np.array([(-half, -half), (half, -half), (half, half), (-half, half)])
        corners = np.array([self.at(int(point)) for point in points])[:, None] + square
        colours = np.empty((len(points), 4))
        plus = HEAT if self.panel.wooden else PLUS
        colours[:, :3] = np.where(strength[points, None] > 0, to_rgb(plus), to_rgb(MINUS))
        colours[:, 3] = np.abs(strength[points]) * (0.85 if self.panel.wooden else 1)
        self.add(PolyCollection(corners, facecolors=colours, linewidths=0))

    def _stones(self) -> None:
        stones = self.panel.colours.ravel()
        centres = [self.at(int(point)) for point in np.flatnonzero(stones)]
        self.discs([(x + 0.03, y + 0.05) for x, y in centres], 0.96, BLACK_EDGE, alpha=0.2)
        for colour, faces in _FACES.items():
            self.discs([self.at(int(point)) for point in np.flatnonzero(stones == colour)], 0.95, *faces)

    def _marks(self) -> None:
        stones = self.panel.colours.ravel()
        inks = (INK, WHITE_STONE, BLACK_STONE)
        for point, text in self.panel.marks.items():
            if stones[point] == 0:
                self.discs([self.at(point)], 0.7, WOOD)
            size = (0.5, 0.5, 0.45, 0.36)[min(len(text), 3)] * self.points
            self.text(*self.at(point), text, size, inks[stones[point]])
        last, ring = self.panel.last, self.panel.ring
        if last is not None and last not in self.panel.marks:
            self.circle(last, 0.48, inks[stones[last]], self.line_width(0.08, 1.8))
        if ring is not None:
            self.circle(ring, 0.86, "white", self.line_width(0.25, 3.6))
            self.circle(ring, 0.86, RING, self.line_width(0.16, 2.4))

    def _coordinates(self, columns: Sequence[str], rows: Sequence[str]) -> None:
        height, width = self.panel.colours.shape
        size, away = self.line_width(0.38, 9), 0.93
        for x, name in enumerate(columns):
            for edge in (self.top - away, self.top + height - 1 + away):
                self.text(self.left + x, edge, name, size, LINE)
        for y, name in enumerate(rows):
            for side in (self.left - away, self.left + width - 1 + away):
                self.text(side, self.top + y, name, size, LINE)


def board_names(width: int, height: int) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of a board's columns from the left, and of its rows from the top."""
    return [to_gtp(x, width, height)[0] for x in range(width)], [str(height - y) for y in range(height)]


def truncate(text: str, ems: float) -> str:
    """Truncate a line of text to an estimated width of `ems` em."""
    used = 0.0
    for k, letter in enumerate(text):
        if unicodedata.east_asian_width(letter) in "WF" or letter in "MWmw@%":
            used += 1
        elif letter in "fijlrtI1 .,:;'|!()[]":
            used += 0.4
        else:
            used += 0.72 if letter.isupper() else 0.63
        if used > ems:
            return text[: max(k - 1, 0)].rstrip() + "…"
    return text


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

    Raises GameError if an array has the wrong shape or values, or a point is off the board.

    Args:
        colours: [H, W] integers, 0 empty, 1 black, 2 white, top row first, at most 25 x 25.
        title: Text above the board; long lines are truncated.
        last: Last move, marked with a small circle unless its point has a mark.
        heat: [H, W] floats, intensity of each point relative to the largest; values <= 0 are not drawn.
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

    Raises GameError if the shapes do not match, the label is not a move, or the origin is unknown.

    Args:
        planes: [C, H, W] floats from -1 to 1; negative values have another colour.
        label: Point to ring on each plane, row * W + column in the planes' frame; a pass is not drawn.
        origin: "top" or "bottom", the side of the board where row 0 lies; "bottom" in dat1 and dat2 files.
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

    Raises OutputError if the suffix is neither, or the file could not be written.
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

    The fill of a mark grows with its count. Its ring is as black and as white as its moves. Raises GameError if `cells`
    has the wrong shape or values, or a point is off the picture.

    Args:
        cells: [H, W] integers, top row first: sums of 1 if the point may be empty, 2 black, 4 white.
        edges: True for the left, upper, right and lower sides that are edges of the board.
        numbers: Texts on stones that were played later, by point, with the colours of the stones.
    """
    board = np.asarray(cells)
    panel = _make_panel(board, numbers or {}, edges)
    wrong = [move.point for move in moves if move.point is not None and not 0 <= move.point < board.size]
    if wrong:
        raise GameError(f"point {wrong[0]} is not within 0 to {board.size - 1}")
    cell = min(_COUNTS_CELL, _COUNTS_PICTURE / max(panel.width, panel.height))
    head, border = LINE_HEIGHT / cell * len(title.splitlines()), BORDER / cell
    height = max(panel.height, (min(len(moves), _ROWS) + 1.01) * _ROW / cell)
    size = (panel.width + 3 * border + _LEGEND / cell, height + 2 * border + head)
    with matplotlib_style() as new_figure:
        figure = new_figure(figsize=(size[0] * cell, size[1] * cell), dpi=DPI, facecolor="white")
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
            painter.discs([(x - 0.12, y)], 0.36, *_FACES[BLACK])
            painter.discs([(x + 0.12, y)], 0.36, *_FACES[WHITE])
        elif cell != _EMPTY:
            painter.discs([(x, y)], 0.4, *_FACES[BLACK if cell & _BLACK else WHITE])


def _draw_marks(painter: Painter, moves: Sequence[CountedMove]) -> None:
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
            painter.discs([(left + 0.07 * inch, y)], 0.13 * inch, *_FACES[colour])
        wins = "" if win_rate is None else f"{win_rate:.0%}"
        texts = (name, f"{times:,}", f"{share:.1%}" if share >= 0.0005 else "<0.1%", wins)
        for (at, align), text in zip(_COLUMNS, texts):
            indent = 0.2 if align == "left" else 0
            painter.text(left + (at + indent) * inch, y, text, _FONT, INK, align)
