"""The painter of boards: a panel is one board of a picture, drawn in layers on Matplotlib's axes.

Matplotlib is imported with the first picture and used without pyplot, so no window system and no global state is
involved.
"""

from __future__ import annotations

import contextlib
import logging
import math
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kifu.errors import printable
from kifu.point import BLACK, WHITE, star_points, to_gtp

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WOOD, PAPER = "#ecd09c", "#f7f4ee"
LINE, PAPER_LINE = "#7a6140", "#d8d0c2"
INK = "#2b2622"
BLACK_STONE, BLACK_EDGE = "#1f1f21", "#000000"
WHITE_STONE, WHITE_EDGE = "#fbfaf7", "#4d4740"
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
        wooden: Draw a wooden board rather than a paper one.
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
def matplotlib_style() -> Iterator[None]:
    """Apply Matplotlib's defaults with text and reproducible ids in SVG, and silence warnings about missing fonts."""
    import matplotlib

    log = logging.getLogger("matplotlib.font_manager")
    disabled, log.disabled = log.disabled, True
    try:
        with matplotlib.rc_context(), warnings.catch_warnings():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "kifu", "text.parse_math": False})
            matplotlib.rcParams.update({"font.sans-serif": ["DejaVu Sans"]})
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            yield
    finally:
        log.disabled = disabled


def style_chart(axes: Axes, title: str) -> None:
    """Style empty axes and set their title."""
    axes.set_title(title, loc="left", fontsize=11, color=INK, weight="bold")
    axes.set_facecolor("white")
    axes.tick_params(colors=INK, labelsize=8, length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def paint(panels: Sequence[Panel], columns: int, cell: float) -> Figure:
    """Draw panels of equal size in rows of `columns`, with `cell` inches between two lines."""
    from matplotlib.figure import Figure

    first = panels[0]
    head = LINE_HEIGHT / cell * max(len(panel.title) for panel in panels)
    width, height = first.width, first.height + head
    rows = math.ceil(len(panels) / columns)
    gap = _GAP if len(panels) > 1 else 0.0
    border = BORDER / cell
    size = (columns * width + (columns - 1) * gap + 2 * border, rows * height + (rows - 1) * gap + 2 * border)
    with matplotlib_style():
        figure = Figure(figsize=(size[0] * cell, size[1] * cell), dpi=DPI, facecolor="white")
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
        for colour, face, edge in ((BLACK, BLACK_STONE, BLACK_EDGE), (WHITE, WHITE_STONE, WHITE_EDGE)):
            self.discs([self.at(int(point)) for point in np.flatnonzero(stones == colour)], 0.95, face, edge)

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
