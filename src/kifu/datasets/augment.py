"""Augmentation: examples under the symmetries of the board."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.datasets.examples import Layout, is_next
from kifu.datasets.labels import INPUTS_PREFIX
from kifu.errors import RecipeError
from kifu.kernel import kernel
from kifu.point import symmetries

Symmetry = npt.NDArray[np.uint8]
Sizes = npt.NDArray[np.int64]

_INVARIANT = ("to_play", "result", "margin", "ranks", "komi", "seconds", "evaluation", "globals")
"""Labels, besides global inputs, that no symmetry changes."""


def check_augmentable(layout: Layout) -> None:
    """Raise RecipeError if it is unknown how a symmetry changes one of the labels."""
    shapes = {"move": (), "ownership": (layout.pass_label,), "policy": (layout.pass_label + 1,)}
    for label in layout.labels:
        known = len(label.shape) == 1 if is_next(label.name) else shapes.get(label.name) == label.shape
        if not (known or label.name in _INVARIANT or label.name.startswith(INPUTS_PREFIX)):
            shape = f" of shape {list(label.shape)}" if label.shape else ""
            raise RecipeError(f"label {label.name!r}{shape} does not support augmentation; augment must be False")


def augment_labels(
    layout: Layout, labels: dict[str, npt.NDArray[Any]], symmetry: Symmetry, width: Sizes, height: Sizes
) -> dict[str, npt.NDArray[Any]]:
    """Return the labels of B positions under a symmetry each.

    Args:
        labels: By name, [B, ...].
        symmetry: [B] uint8, see `kifu.point.symmetries`.
        width: [B], width of the game's own board, which lies in the upper left corner of the layout's.
        height: [B], its height.
    """
    augmented = dict(labels)
    for name, values in labels.items():
        if name == "move":
            augmented[name] = augment_points(values, symmetry, width, height, layout)
        elif is_next(name):
            augmented[name] = augment_points(values, symmetry[:, None], width[:, None], height[:, None], layout)
        elif name == "ownership":
            augmented[name] = _augment_maps(values, symmetry, width, height, layout)
        elif name == "policy":  # of the whole board: data sets with smaller ones have no such label
            augmented[name] = np.empty_like(values)
            table = symmetries(layout.width, layout.height).astype(np.int64)
            _augment_values(values[:, None], symmetry, table, augmented[name][:, None])
    return augmented


def augment_points(
    points: npt.NDArray[Any], symmetry: Symmetry, width: Sizes, height: Sizes, layout: Layout
) -> npt.NDArray[Any]:
    """Return points of the layout's board under symmetries; passes and negative values stay. Arrays are broadcast."""
    y, x = np.divmod(points.astype(np.int64), layout.width)
    x = np.where(symmetry & 1, width - 1 - x, x)
    y = np.where(symmetry & 2, height - 1 - y, y)
    moved = np.where(symmetry & 4, x * layout.width + y, y * layout.width + x)
    return np.where((points >= 0) & (points < layout.pass_label), moved, points).astype(points.dtype)


def _augment_maps(
    maps: npt.NDArray[Any], symmetry: Symmetry, width: Sizes, height: Sizes, layout: Layout
) -> npt.NDArray[Any]:
    """Return maps of the board, [B, points], under symmetries."""
    points = np.arange(layout.pass_label)
    augmented = np.empty_like(maps)
    kinds, kind = np.unique(np.stack([symmetry, width, height]), axis=1, return_inverse=True)
    for k, (s, w, h) in enumerate(kinds.T.tolist()):
        y, x = np.divmod(points, layout.width)
        inside = (x < w) & (y < h)
        to = augment_points(points, np.array(s, np.uint8), np.array(w), np.array(h), layout)
        rows = np.flatnonzero(kind == k)
        # A smaller board covers other points when transposed. All points outside it have the same value.
        values = np.full((len(rows), layout.pass_label), maps[rows, -1:] if not inside[-1] else 0, maps.dtype)
        values[:, to[inside]] = maps[rows][:, inside]
        augmented[rows] = values
    return augmented


@kernel
def _augment_bits(packed: Any, symmetry: Any, table: Any, out: Any) -> None:
    points = table.shape[1] - 1
    for b in range(packed.shape[0]):
        to = table[symmetry[b]]
        for c in range(packed.shape[1]):
            for i in range(packed.shape[2]):
                out[b, c, i] = 0
            for i in range(packed.shape[2]):
                bits = packed[b, c, i]
                p = 8 * i
                while bits != 0 and p < points:
                    if bits & 0x80:
                        at = to[p]
                        out[b, c, at >> 3] |= np.uint8(0x80 >> (at & 7))
                    bits = np.uint8((bits << 1) & 0xFF)
                    p += 1


@kernel
def _augment_values(values: Any, symmetry: Any, table: Any, out: Any) -> None:
    for b in range(values.shape[0]):
        to = table[symmetry[b]]
        for c in range(values.shape[1]):
            for p in range(values.shape[2]):
                out[b, c, to[p]] = values[b, c, p]


def augment_planes(planes: npt.NDArray[Any], symmetry: Symmetry, layout: Layout) -> npt.NDArray[Any]:
    """Return planes in the form of `Batch.planes`, each row under its symmetry; 0 to 3 only unless they are square."""
    out = np.empty_like(planes)
    _, height, width = layout.shape
    table = symmetries(width, height).astype(np.int64)
    (_augment_values if layout.real else _augment_bits)(planes, symmetry, table, out)
    return out
