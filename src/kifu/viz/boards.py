"""Pictures of boards and feature planes, as PNG or SVG.

The same input gives the same bytes, regardless of the user's matplotlibrc.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kifu.atomic_io import write_output
from kifu.errors import GameError, OutputError
from kifu.point import check_size, to_bottom_row, to_gtp
from kifu.viz.painter import DPI, Panel, board_names, matplotlib_style, paint

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
        ring: Next move, marked with a ring.
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
