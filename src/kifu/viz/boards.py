"""Pictures of boards and feature planes, as PNG or SVG.

A picture is a grid of `_Panel`s, one board each, drawn by one painter. Matplotlib is imported with the first picture
and used without pyplot, so no window system and no global state is involved. The same input gives the same bytes,
regardless of the user's matplotlibrc.
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
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kifu.atomic_io import write_output
from kifu.errors import GameError, OutputError, printable
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
PLUS, MINUS = "#1f4e79", "#b9812a"  # plane values above and below zero

_PICTURE = 5.6  # inches, longer side of a single board
_CELL = 0.46  # inches, maximum distance of two lines
_SMALL_PICTURE = 2.0  # inches, longer side of a board in a grid
_SMALL_CELL = 0.2  # inches, maximum distance of its lines
_GAP = 0.9  # cells between panels
_BORDER = 0.12  # inches around the picture
_LINE_HEIGHT = 0.19  # inches, line of a title
_DPI = 160

_CJK_FONTS = (  # installed ones serve names in Chinese, Japanese and Korean
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei",
    "PingFang SC", "Hiragino Sans", "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Panel:
    """One board of a picture.

    Attributes:
        colours: [H, W] uint8, 0 empty, 1 black, 2 white.
        wash: [H, W] float64 from -1 to 1, intensity and sign of the colour of each point.
        title: Lines above the board.
        wooden: Draw a wooden board rather than a paper one.
        coordinates: Draw coordinates.
        last: Point of the last move, marked with a small circle.
        ring: Point of the next move, marked with a ring.
        marks: Short texts by point.
    """

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
        """Distance in cells from the outermost line to the edge of the board."""
        return 1.4 if self.coordinates else 0.75

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
        ring: Next move, marked with a ring.
        heat: [H, W] floats, intensity of each point relative to the largest; values <= 0 are not drawn.
        coordinates: Draw coordinates around the board.

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
    """Draw the planes of one example as small boards with their numbers and names.

    Args:
        planes: [C, H, W] floats from -1 to 1; negative values have another colour.
        names: C plane names.
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
        figure.savefig(buffer, format=kind, dpi=_DPI, metadata=metadata)
    return buffer.getvalue()


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


def _paint(panels: Sequence[_Panel], columns: int, cell: float) -> Figure:
    """Draw panels of equal size in rows of `columns`, with `cell` inches between two lines."""
    from matplotlib.figure import Figure

    first = panels[0]
    head = _LINE_HEIGHT / cell * max(len(panel.title) for panel in panels)
    width, height = first.width, first.height + head
    rows = math.ceil(len(panels) / columns)
    gap = _GAP if len(panels) > 1 else 0.0
    border = _BORDER / cell
    size = (columns * width + (columns - 1) * gap + 2 * border, rows * height + (rows - 1) * gap + 2 * border)
    with matplotlib_style():
        figure = Figure(figsize=(size[0] * cell, size[1] * cell), dpi=_DPI, facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, size[0]), ylim=(size[1], 0))
        axes.set_axis_off()
        for k, panel in enumerate(panels):
            row, column = divmod(k, columns)
            left, top = border + column * (width + gap), border + row * (height + gap) + head
            _Painter(axes, panel, left + panel.margin, top + panel.margin, cell * 72).paint()
    return figure


@dataclass(frozen=True, slots=True)
class _Painter:
    """Draws one panel.

    Attributes:
        axes: Axes to draw on, in cells.
        panel: The panel.
        left: Horizontal position of its upper left point in cells.
        top: Vertical position of that point in cells.
        points: Points (1/72 inch) per cell.
    """

    axes: Axes
    panel: _Panel
    left: float
    top: float
    points: float

    def paint(self) -> None:
        """Draw all layers, bottom up."""
        self._board()
        self._wash()
        self._stones()
        self._marks()
        if self.panel.coordinates:
            self._coordinates()
        left, top = self.left - self.panel.margin, self.top - self.panel.margin
        size, room = self.panel.title_size, self.panel.width * self.points
        for k, text in enumerate(reversed(self.panel.title)):
            y = top - (k + 0.55) * _LINE_HEIGHT * 72 / self.points
            self._text(left, y, _truncate(text, room / size), size, INK, "left")

    def _at(self, point: int) -> tuple[float, float]:
        y, x = divmod(point, self.panel.colours.shape[1])
        return self.left + x, self.top + y

    def _add(self, artist: Artist) -> None:
        artist.set_zorder(1)  # equal for all, so that later artists lie on top
        artist.set_clip_on(False)  # nothing crosses the edge, and clip paths are a third of an SVG's size
        self.axes.add_artist(artist)

    def _line_width(self, cells: float, max_points: float) -> float:
        """Return a line width in points."""
        return min(cells * self.points, max_points)

    def _text(self, x: float, y: float, text: str, size: float, colour: str, align: str = "center") -> None:
        """Draw a line of text whose capital letters are vertically centred at y."""
        from matplotlib.text import Text

        text = printable(text)
        family = "sans-serif" if text.isascii() else ["DejaVu Sans", *_CJK_FONTS, "sans-serif"]
        base = y + 0.365 * size / self.points  # va="center" would depend on the installed fonts
        self._add(Text(x, base, text, size=size, color=colour, family=family, ha=align, va="baseline"))

    def _discs(
        self, centres: Sequence[tuple[float, float]], diameter: float, face: str, edge: str = "none", alpha: float = 1
    ) -> None:
        """Draw filled circles; the diameter is in cells."""
        from matplotlib.collections import EllipseCollection

        if centres:
            self._add(
                EllipseCollection(
                    diameter, diameter, 0, units="xy", offsets=centres, offset_transform=self.axes.transData,
                    facecolors=face, edgecolors=edge, linewidths=self._line_width(0.03, 0.7), alpha=alpha,
                )
            )  # fmt: skip

    def _circle(self, point: int, diameter: float, colour: str, width: float) -> None:
        """Draw an open circle; the diameter is in cells, the line width in points."""
        from matplotlib.patches import Circle

        self._add(Circle(self._at(point), diameter / 2, fill=False, edgecolor=colour, linewidth=width))

    def _board(self) -> None:
        from matplotlib.collections import LineCollection
        from matplotlib.patches import Rectangle

        height, width = self.panel.colours.shape
        margin = self.panel.margin
        ground, ink = (WOOD, LINE) if self.panel.wooden else (PAPER, PAPER_LINE)
        size = (self.panel.width, self.panel.height)
        self._add(Rectangle((self.left - margin, self.top - margin), *size, facecolor=ground, linewidth=0))
        right, bottom = self.left + width - 1, self.top + height - 1
        lines = [[(self.left + x, self.top), (self.left + x, bottom)] for x in range(width)]
        lines += [[(self.left, self.top + y), (right, self.top + y)] for y in range(height)]
        self._add(LineCollection(lines, colors=ink, linewidths=self._line_width(0.03, 0.8), capstyle="projecting"))
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
        centres = [self._at(int(point)) for point in np.flatnonzero(stones)]
        self._discs([(x + 0.03, y + 0.05) for x, y in centres], 0.96, BLACK_EDGE, alpha=0.2)
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
            self._circle(last, 0.48, inks[stones[last]], self._line_width(0.08, 1.8))
        if ring is not None:
            self._circle(ring, 0.86, "white", self._line_width(0.25, 3.6))
            self._circle(ring, 0.86, RING, self._line_width(0.16, 2.4))

    def _coordinates(self) -> None:
        height, width = self.panel.colours.shape
        size, away = self._line_width(0.38, 9), 0.93
        for x in range(width):
            for edge in (self.top - away, self.top + height - 1 + away):
                self._text(self.left + x, edge, to_gtp(x, width, height)[0], size, LINE)
        for y in range(height):
            for side in (self.left - away, self.left + width - 1 + away):
                self._text(side, self.top + y, str(height - y), size, LINE)


def _truncate(text: str, ems: float) -> str:
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
