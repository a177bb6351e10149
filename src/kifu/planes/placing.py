"""How the board of a game, as it looks under a symmetry, is laid into the frame that planes are drawn in."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.kernel import kernel
from kifu.planes.view import frame_points
from kifu.point import POINT_MASK, symmetries

_BITS = 0xFFFF ^ POINT_MASK


@dataclass(frozen=True, slots=True)
class Placing:
    """A board of width x height in a frame of n points.

    table: [8, points + 1] int64: where each point of the game's board is in the frame under each symmetry.
    label_of: [n + 1] int16: each point of the frame as a label (`Encoder.encode`).
    """

    width: int
    height: int
    table: npt.NDArray[np.int64]
    label_of: npt.NDArray[np.int16]


@functools.cache
def make_placing(width: int, height: int, turned: bool, frame_width: int, frame_height: int, rim: int) -> Placing:
    """How boards that are of that size under their symmetry are laid in, `rim` from the upper left corner.

    turned: whether that is one of the symmetries 4 to 7; only those, else only 0 to 3, are asked for then.
    """
    points = frame_points(width, height, frame_width, frame_height, rim)
    own = symmetries(height, width) if turned else symmetries(width, height)
    table = points[own]
    columns, lines = frame_width - 2 * rim, frame_height - 2 * rim
    label_of = np.full(frame_width * frame_height + 1, columns * lines, np.int16)
    y, x = np.divmod(points[:-1], frame_width)
    label_of[points[:-1]] = (y - rim) * columns + x - rim
    return Placing(width, height, table, label_of)


def read_only(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same memory said to be read-only, so that one compiled kernel serves arrays that are and that are not."""
    view = values.view()
    view.flags.writeable = False
    return view


@kernel
def place(words: Any, start: Any, stop: Any, table: Any, out: Any) -> None:
    """Fills out from words[start:stop] with the points of moves or setup moved as the table says."""
    for i in range(start, stop):
        word = words[i]
        p = np.int64(word & POINT_MASK)
        out[i - start] = (word & _BITS) | table[p] if p < table.shape[0] else word | POINT_MASK
