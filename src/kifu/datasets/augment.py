"""Examples as they look under the symmetries of the board: points, maps of the board, and planes that are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.datasets.examples import Layout
from kifu.errors import RecipeError
from kifu.kernel import kernel
from kifu.point import symmetries

Symmetry = npt.NDArray[np.uint8]

_SAME = ("result", "ranks", "komi", "globals")
"""Labels that say the same of a position however it is turned."""


def check_turnable(layout: Layout) -> None:
    """Raises RecipeError if there is a label of which nobody knows what becomes of it when the board is turned."""
    for label in layout.labels:
        if not (label.name in ("move", "ownership", *_SAME) or _is_next(label.name)):
            raise RecipeError(f"how label {label.name!r} looks in a mirror is not known; augment has to be False")


def _is_next(name: str) -> bool:
    return name.startswith("next") and name[4:].isdecimal()


def turn_labels(
    layout: Layout,
    labels: dict[str, npt.NDArray[Any]],
    symmetry: Symmetry,
    width: npt.NDArray[np.int64],
    height: npt.NDArray[np.int64],
) -> dict[str, npt.NDArray[Any]]:
    """The labels of B positions, each turned by its symmetry (`kifu.point.symmetries`).

    width, height: [B] of the game's own board, which lies in the upper left corner of the layout's.
    """
    turned = dict(labels)
    for name, values in labels.items():
        if name == "move":
            turned[name] = turn_points(values, symmetry, width, height, layout)
        elif _is_next(name):
            turned[name] = turn_points(values, symmetry[:, None], width[:, None], height[:, None], layout)
        elif name == "ownership":
            turned[name] = _turn_maps(values, symmetry, width, height, layout)
    return turned


def turn_points(
    points: npt.NDArray[Any],
    symmetry: Symmetry,
    width: npt.NDArray[np.int64],
    height: npt.NDArray[np.int64],
    layout: Layout,
) -> npt.NDArray[Any]:
    """Points of the layout's board, turned; what is none, as a pass, stays as it is. The arrays go together."""
    y, x = np.divmod(points.astype(np.int64), layout.width)
    x = np.where(symmetry & 1, width - 1 - x, x)
    y = np.where(symmetry & 2, height - 1 - y, y)
    turned = np.where(symmetry & 4, x * layout.width + y, y * layout.width + x)
    return np.where((points >= 0) & (points < layout.pass_label), turned, points).astype(points.dtype)


def _turn_maps(
    maps: npt.NDArray[Any],
    symmetry: Symmetry,
    width: npt.NDArray[np.int64],
    height: npt.NDArray[np.int64],
    layout: Layout,
) -> npt.NDArray[Any]:
    """[B, points] what is said of each point, turned."""
    points = np.arange(layout.pass_label)
    turned = np.empty_like(maps)
    kinds, kind = np.unique(np.stack([symmetry, width, height]), axis=1, return_inverse=True)
    for k, (s, w, h) in enumerate(kinds.T.tolist()):
        y, x = np.divmod(points, layout.width)
        inside = (x < w) & (y < h)
        to = turn_points(points, np.array(s, np.uint8), np.array(w), np.array(h), layout)
        rows = np.flatnonzero(kind == k)
        # Where a board of another size lies, that of the turned one need not; outside, all points say the same.
        some = np.full((len(rows), layout.pass_label), maps[rows, -1:] if not inside[-1] else 0, maps.dtype)
        some[:, to[inside]] = maps[rows][:, inside]
        turned[rows] = some
    return turned


@kernel
def _turn_bits(packed: Any, symmetry: Any, table: Any, out: Any) -> None:
    for b in range(packed.shape[0]):
        to = table[symmetry[b]]
        for c in range(packed.shape[1]):
            for i in range(packed.shape[2]):
                out[b, c, i] = 0
            for i in range(packed.shape[2]):
                bits = packed[b, c, i]
                p = 8 * i
                while bits != 0:
                    if bits & 0x80:
                        at = to[p]
                        out[b, c, at >> 3] |= np.uint8(0x80 >> (at & 7))
                    bits = np.uint8((bits << 1) & 0xFF)
                    p += 1


@kernel
def _turn_values(values: Any, symmetry: Any, table: Any, out: Any) -> None:
    for b in range(values.shape[0]):
        to = table[symmetry[b]]
        for c in range(values.shape[1]):
            for p in range(values.shape[2]):
                out[b, c, to[p]] = values[b, c, p]


def turn_planes(planes: npt.NDArray[Any], symmetry: Symmetry, layout: Layout) -> npt.NDArray[Any]:
    """`Batch.planes` as they are under each row's symmetry. Boards that are not square take symmetries 0 to 3 only."""
    out = np.empty_like(planes)
    _, height, width = layout.shape
    table = symmetries(width, height).astype(np.int64)
    (_turn_values if layout.real else _turn_bits)(planes, symmetry, table, out)
    return out
