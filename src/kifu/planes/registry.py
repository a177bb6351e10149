"""The registry of plane sets. A set never changes; it gets a new version, and its card in docs/planes/ the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kifu.versions import find_version

_LIBERTY_PLANES = (
    "own, 1 liberty",
    "own, 2 liberties",
    "own, 3+ liberties",
    "other, 1 liberty",
    "other, 2 liberties",
    "other, 3+ liberties",
)


@dataclass(frozen=True, slots=True)
class PlaneSet:
    """A named list of feature planes, and which positions of a game become examples."""

    name: str
    """With its version, as recipes and manifests write it."""
    title: str
    """One line for people."""
    plane_names: tuple[str, ...]
    """What each plane marks; "own" is the side to move."""
    first_row: Literal["top", "bottom"]
    """Which row of the board is row 0 of a plane, and of the labels."""

    @property
    def planes(self) -> int:
        """How many planes there are."""
        return len(self.plane_names)


_SETS = (
    PlaneSet(
        "kgsgo7@1",
        "kgsgo of 2015, v2: liberties 1, 2, 3+ of both sides, and its ko plane, which also marks stones",
        (*_LIBERTY_PLANES, "ko, as kgsgo marks it"),
        "bottom",
    ),
    PlaneSet(
        "kgsgo8@1",
        "kgsgo of 2015, v1: the planes of kgsgo7, and one of ones",
        (*_LIBERTY_PLANES, "ko, as kgsgo marks it", "the board: all ones"),
        "bottom",
    ),
    PlaneSet(
        "seven@1",
        "the book's seven planes: liberties 1, 2, 3+ of both sides, and the one point that ko forbids",
        (*_LIBERTY_PLANES, "the point that ko forbids"),
        "top",
    ),
)

PLANE_SETS: dict[str, PlaneSet] = {s.name: s for s in _SETS}
"""Every plane set by its full name."""


def find_plane_set(name: str) -> PlaneSet:
    """The plane set of that name, without a version the newest of it. Raises RecipeError if there is none."""
    return find_version(PLANE_SETS, name, "plane set")
