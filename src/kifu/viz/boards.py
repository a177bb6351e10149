"""Pictures of boards and feature planes, as PNG or SVG.

A picture is a row, or several, of `_Panel`s: each says what is on one board, and one painter draws them all. Matplotlib
is loaded at the first picture and used without pyplot, so that no window system and no global figure is touched. The
same input gives the same bytes, whatever the user's matplotlibrc says.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kifu.atomic_io import write_file
from kifu.errors import GameError, OutputError
from kifu.go.board import star_points
from kifu.point import BLACK, WHITE, check_size, to_bottom_row, to_gtp

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
PLUS, MINUS = "#1f4e79", "#b9812a"  # of planes: values above and below zero

_PICTURE = 5.6  # inches that the longer side of a board alone takes
_CELL = 0.46  # at most so many inches from line to line
_SMALL_PICTURE = 2.0  # the same two, where there are many boards
_SMALL_CELL = 0.2
_GAP = 0.9  # cells between panels
_BORDER = 0.12  # inches around the picture
_LINE_HEIGHT = 0.19  # inches, of a title
_DPI = 160

_OTHER_SCRIPTS = (  # fonts for names that are not in Latin letters; those that are there are used
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei",
    "PingFang SC", "Hiragino Sans", "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Panel:
    """One board of a picture. Points as in `kifu.point`; wash: [H, W] float, how strongly each point is coloured."""

    colours: npt.NDArray[np.uint8]
    wash: npt.NDArray[np.float64]
    title: tuple[str, ...] = ()
    wooden: bool = True
    coordinates: bool = True
    last: int | None = None
    ring: int | None = None
    marks: Mapping[int, str] = field(default_factory=dict)

    @property
    def margin(self) -> float:
        """Cells from the outermost line to the edge of the board."""
        return 1.4 if self.coordinates else 0.75

    @property
    def across(self) -> float:
        """Width of the board in cells, margins included."""
        return 2 * self.margin + int(self.colours.shape[1]) - 1

    @property
    def down(self) -> float:
        """Height of the board in cells, margins included, the title not."""
        return 2 * self.margin + int(self.colours.shape[0]) - 1

    @property
    def title_size(self) -> float:
        """Of the letters, in points."""
        return 10.5 if self.wooden else 8


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
    """A board with its stones.

    colours: [H, W] of 0 empty, 1 black, 2 white; row 0 is the top row; 1 to 25 rows and columns.
    title: above the board; each line is cut where the picture ends. last: the stone played last gets a small circle,
    unless it has a mark. marks: short texts on points, such as the numbers of moves. ring: the point played next.
    heat: [H, W] float, how strongly each point is coloured, relative to the largest; what is not above 0 is left out.
    Points are y * W + x; a pass is drawn nowhere. Raises GameError for another shape, colour or point.
    """
    board = np.asarray(colours)
    if board.ndim != 2 or not np.isin(board, (0, 1, 2)).all():
        raise GameError(f"colours of shape {board.shape} are no board [height, width] of 0, 1 and 2")
    check_size(board.shape[1], board.shape[0])
    wash = np.zeros(board.shape) if heat is None else np.nan_to_num(np.asarray(heat, np.float64), posinf=0.0)
    if wash.shape != board.shape:
        raise GameError(f"heat of shape {wash.shape} does not fit a board of shape {board.shape}")
    wash = np.maximum(wash, 0)
    panel = _Panel(
        colours=board.astype(np.uint8),
        wash=wash / (wash.max() or 1),
        title=tuple(title.splitlines()),
        coordinates=coordinates,
        last=_on_board(last, board.shape),
        ring=_on_board(ring, board.shape),
        marks={p: text for p, text in (marks or {}).items() if _on_board(p, board.shape) is not None},
    )
    return _paint([panel], columns=1, cell=min(_CELL, _PICTURE / (max(board.shape) + 2 * panel.margin)))


def draw_planes(
    planes: npt.ArrayLike, names: Sequence[str], *, label: int | None = None, origin: str = "top"
) -> Figure:
    """The planes of one example, side by side, each as a small board with its number and name.

    planes: [C, H, W]; 1 gives a point its full colour, 0 none, what lies between is paler; values below zero have a
    colour of their own. names: one for each plane. label: the point to be ringed on each plane, row * W + column in the
    frame of the planes (a pass is not drawn). origin: whether row 0 is the "top" or the "bottom" row of the board; in
    dat1 and dat2 files it is the bottom. Raises GameError for another shape, or a label that is no move.
    """
    stack = np.nan_to_num(np.asarray(planes, np.float64))
    if stack.ndim != 3 or len(stack) == 0 or len(stack) != len(names):
        raise GameError(
            f"planes of shape {stack.shape} with {len(names)} names are not [C, height, width] with C names"
        )
    count, height, width = stack.shape
    check_size(width, height)
    ring = _on_board(label, (height, width))
    if origin not in ("top", "bottom"):
        raise GameError(f"origin {origin!r} is neither 'top' nor 'bottom'")
    if origin == "bottom":
        stack = stack[:, ::-1]
        ring = None if ring is None else to_bottom_row(ring, width, height)
    panels = [
        _Panel(
            colours=np.zeros((height, width), np.uint8),
            wash=np.clip(plane, -1, 1),
            title=(f"{k}  {name}",),
            wooden=False,
            coordinates=False,
            ring=ring,
        )
        for k, (plane, name) in enumerate(zip(stack, names))
    ]
    columns = min(count, max(4, math.ceil(math.sqrt(1.5 * count))))
    return _paint(panels, columns, cell=min(_SMALL_CELL, _SMALL_PICTURE / (max(height, width) + 1.5)))


def _on_board(move: int | None, shape: tuple[int, ...]) -> int | None:
    """The point of a move; None for a pass. Raises GameError if it is no move of a board of shape [H, W]."""
    if move is None or to_gtp(move, shape[1], shape[0]) == "pass":
        return None
    return move


def to_svg(figure: Figure) -> str:
    """The picture as one <svg> element, without an XML declaration, so that it can stand in a page as it is."""
    text = _render(figure, "svg", {"Date": None, "Creator": None}).decode()
    return text[text.index("<svg") :]


def save(figure: Figure, path: str | Path) -> None:
    """Writes the picture as PNG or SVG, as the suffix of `path` says, whole or not at all. Raises OutputError."""
    path = Path(path)
    match path.suffix.lower():
        case ".svg":
            write_file(path, to_svg(figure).encode())
        case ".png":
            write_file(path, _render(figure, "png", {"Software": None}))
        case suffix:
            raise OutputError(f"cannot draw {path}: its suffix is {suffix!r}, not '.png' or '.svg'")


def _render(figure: Figure, kind: str, metadata: dict[str, str | None]) -> bytes:
    buffer = io.BytesIO()
    with our_style():
        figure.savefig(buffer, format=kind, dpi=_DPI, metadata=metadata)
    return buffer.getvalue()


@contextlib.contextmanager
def our_style() -> Iterator[None]:
    """Matplotlib's own defaults, text as text in SVG, ids that never change, and no word about missing fonts."""
    import matplotlib

    log = logging.getLogger("matplotlib.font_manager")
    silent, log.disabled = log.disabled, True
    try:
        with matplotlib.rc_context(), warnings.catch_warnings():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "kifu", "text.parse_math": False})
            matplotlib.rcParams.update({"font.sans-serif": ["DejaVu Sans"]})
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            yield
    finally:
        log.disabled = silent


def _paint(panels: Sequence[_Panel], columns: int, cell: float) -> Figure:
    """All panels, which are of one size, in rows of `columns`; cell: inches from line to line."""
    from matplotlib.figure import Figure

    first = panels[0]
    head = _LINE_HEIGHT / cell * max(len(panel.title) for panel in panels)
    across, down = first.across, first.down + head
    rows = math.ceil(len(panels) / columns)
    gap = _GAP if len(panels) > 1 else 0.0
    border = _BORDER / cell
    size = (columns * across + (columns - 1) * gap + 2 * border, rows * down + (rows - 1) * gap + 2 * border)
    with our_style():
        figure = Figure(figsize=(size[0] * cell, size[1] * cell), dpi=_DPI, facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, size[0]), ylim=(size[1], 0))
        axes.set_axis_off()
        for k, panel in enumerate(panels):
            row, column = divmod(k, columns)
            left, top = border + column * (across + gap), border + row * (down + gap) + head
            _Painter(axes, panel, left + panel.margin, top + panel.margin, cell * 72).paint()
    return figure


@dataclass(frozen=True, slots=True)
class _Painter:
    """Draws one panel, each thing upon those before it.

    (left, top): where its upper left point lies, in cells; points: of 1/72 inch in a cell.
    """

    axes: Axes
    panel: _Panel
    left: float
    top: float
    points: float

    def paint(self) -> None:
        self._board()
        self._wash()
        self._stones()
        self._marks()
        if self.panel.coordinates:
            self._coordinates()
        left, top = self.left - self.panel.margin, self.top - self.panel.margin
        size, room = self.panel.title_size, self.panel.across * self.points
        for k, text in enumerate(reversed(self.panel.title)):
            y = top - (k + 0.55) * _LINE_HEIGHT * 72 / self.points
            self._text(left, y, _cut(text, room / size), size, INK, "left")

    def _at(self, point: int) -> tuple[float, float]:
        y, x = divmod(point, self.panel.colours.shape[1])
        return self.left + x, self.top + y

    def _add(self, artist: Artist) -> None:
        artist.set_zorder(1)  # the same for all: then later ones lie on top
        artist.set_clip_on(False)  # nothing reaches over the edge, and an SVG without clipping is a third shorter
        self.axes.add_artist(artist)

    def _thin(self, cells: float, at_most: float) -> float:
        """A line width in points: so many cells, and not more than so many points on large cells."""
        return min(cells * self.points, at_most)

    def _text(self, x: float, y: float, text: str, size: float, colour: str, align: str = "center") -> None:
        """One line of text; y: the middle of its capital letters."""
        from matplotlib.text import Text

        text = printable(text)
        family = "sans-serif" if text.isascii() else ["DejaVu Sans", *_OTHER_SCRIPTS, "sans-serif"]
        base = y + 0.365 * size / self.points  # not va="center", which depends on the fonts that are there
        self._add(Text(x, base, text, size=size, color=colour, family=family, ha=align, va="baseline"))

    def _discs(
        self, centres: Sequence[tuple[float, float]], diameter: float, face: str, edge: str = "none", alpha: float = 1
    ) -> None:
        """Filled circles, as wide as `diameter` cells."""
        from matplotlib.collections import EllipseCollection

        if centres:
            self._add(
                EllipseCollection(
                    diameter, diameter, 0, units="xy", offsets=centres, offset_transform=self.axes.transData,
                    facecolors=face, edgecolors=edge, linewidths=self._thin(0.03, 0.7), alpha=alpha,
                )
            )  # fmt: skip

    def _circle(self, point: int, diameter: float, colour: str, width: float) -> None:
        """An open circle; width: of its line, in points."""
        from matplotlib.patches import Circle

        self._add(Circle(self._at(point), diameter / 2, fill=False, edgecolor=colour, linewidth=width))

    def _board(self) -> None:
        from matplotlib.collections import LineCollection
        from matplotlib.patches import Rectangle

        height, width = self.panel.colours.shape
        margin = self.panel.margin
        ground, ink = (WOOD, LINE) if self.panel.wooden else (PAPER, PAPER_LINE)
        size = (self.panel.across, self.panel.down)
        self._add(Rectangle((self.left - margin, self.top - margin), *size, facecolor=ground, linewidth=0))
        right, bottom = self.left + width - 1, self.top + height - 1
        lines = [[(self.left + x, self.top), (self.left + x, bottom)] for x in range(width)]
        lines += [[(self.left, self.top + y), (right, self.top + y)] for y in range(height)]
        self._add(LineCollection(lines, colors=ink, linewidths=self._thin(0.03, 0.8), capstyle="projecting"))
        stars = [self._at(point) for point in star_points(width, height)]
        self._discs(stars, 0.2 if self.panel.wooden else 0.3, ink)

    def _wash(self) -> None:
        from matplotlib.collections import PolyCollection
        from matplotlib.colors import to_rgb

        strength = self.panel.wash.ravel()
        points = np.flatnonzero(np.abs(strength) > 0.005)
        if len(points) == 0:
            return
        half = 0.45 if self.panel.wooden else 0.5
        square = np.array([(-half, -half), (half, -half), (half, half), (-half, half)])
        corners = np.array([self._at(int(point)) for point in points])[:, None] + square
        colours = np.empty((len(points), 4))
        plus = HEAT if self.panel.wooden else PLUS
        colours[:, :3] = np.where(strength[points, None] > 0, to_rgb(plus), to_rgb(MINUS))
        colours[:, 3] = np.abs(strength[points]) * (0.85 if self.panel.wooden else 1)
        self._add(PolyCollection(corners, facecolors=colours, linewidths=0))

    def _stones(self) -> None:
        stones = self.panel.colours.ravel()
        everywhere = [self._at(int(point)) for point in np.flatnonzero(stones)]
        self._discs([(x + 0.03, y + 0.05) for x, y in everywhere], 0.96, BLACK_EDGE, alpha=0.2)
        for colour, face, edge in ((BLACK, BLACK_STONE, BLACK_EDGE), (WHITE, WHITE_STONE, WHITE_EDGE)):
            self._discs([self._at(int(point)) for point in np.flatnonzero(stones == colour)], 0.95, face, edge)

    def _marks(self) -> None:
        stones = self.panel.colours.ravel()
        inks = (INK, WHITE_STONE, BLACK_STONE)
        for point, text in self.panel.marks.items():
            if stones[point] == 0:
                self._discs([self._at(point)], 0.7, WOOD)
            size = (0.5, 0.5, 0.45, 0.36)[min(len(text), 3)] * self.points
            self._text(*self._at(point), text, size, inks[stones[point]])
        last, ring = self.panel.last, self.panel.ring
        if last is not None and last not in self.panel.marks:
            self._circle(last, 0.48, inks[stones[last]], self._thin(0.08, 1.8))
        if ring is not None:
            self._circle(ring, 0.86, "white", self._thin(0.25, 3.6))
            self._circle(ring, 0.86, RING, self._thin(0.16, 2.4))

    def _coordinates(self) -> None:
        height, width = self.panel.colours.shape
        size, away = self._thin(0.38, 9), 0.93
        for x in range(width):
            for edge in (self.top - away, self.top + height - 1 + away):
                self._text(self.left + x, edge, to_gtp(x, width, height)[0], size, LINE)
        for y in range(height):
            for side in (self.left - away, self.left + width - 1 + away):
                self._text(side, self.top + y, str(height - y), size, LINE)


def printable(text: str) -> str:
    """The text with a blank for what a terminal would obey and XML forbids, control characters above all."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _cut(text: str, ems: float) -> str:
    """At most so much of a line of text as is about `ems` widths of an em wide."""
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
