"""Named features: what a plane set is composed of, and how a person adds one of their own.

    @feature("corner_stones", ("stones in the corners",))
    def corner_stones(view, out):
        ...

A feature fills `out`: [k, W] uint64, one bit set for each of its k planes, empty when it is called (see
`kifu.planes.context`); or, if it is `real`, [k, n] float32, zero when it is called. It reads `view` and changes nothing
there. It is a kernel, compiled into the one kernel of each plane set that has it: plain loops, see `kifu.kernel`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kifu.errors import RecipeError
from kifu.kernel import inline_kernel

Fill = Callable[[Any, Any], None]
Prepare = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Feature:
    """One or more planes with a name. It never changes; what would change it takes another name."""

    name: str
    """As compositions write it."""
    planes: tuple[str, ...]
    """What each plane marks."""
    fill: Fill
    """The inline kernel that fills them: fill(view, out)."""
    uses: tuple[Prepare, ...] = ()
    """Inline kernels f(view) that are called before, once for all features of a set that use them."""
    real: bool = False
    """Whether its values are float32 rather than bits; a set with a real feature is real as a whole."""
    rim: int = 0
    """How many rows and columns around the board a set with it has."""
    ranked: bool = False
    """Whether it asks for the players' ranks."""


@dataclass(frozen=True, slots=True)
class Family:
    """Features that differ in a number, which stands at the end of their names."""

    name: str
    least: int
    most: int
    make: Callable[[int], Feature]


FEATURES: dict[str, Feature] = {}
"""Every feature with a fixed name. `feature` adds to it."""

FAMILIES: dict[str, Family] = {}
"""Every family, by its name without the number. `family` adds to it."""


def feature(
    name: str,
    planes: Iterable[str],
    *,
    uses: tuple[Prepare, ...] = (),
    real: bool = False,
    rim: int = 0,
    ranked: bool = False,
) -> Callable[[Fill], Fill]:
    """Registers the kernel it decorates as a feature of that name; see `Feature` for what it is given.

    Raises RecipeError for a name that is taken, or that no composition could hold.
    """

    def register(fill: Fill) -> Fill:
        if not re.fullmatch(r"[a-z]\w*", name) or name in FAMILIES or _split(name)[0] in FAMILIES:
            raise RecipeError(f"{name!r} cannot name a feature: small letters, digits and _, and no family's name")
        if name in FEATURES and FEATURES[name].fill.__module__ != fill.__module__:
            raise RecipeError(f"there is a feature {name!r} already, of {FEATURES[name].fill.__module__}")
        compiled = inline_kernel(fill)
        FEATURES[name] = Feature(name, tuple(planes), compiled, uses, real, rim, ranked)
        return compiled

    return register


def family(name: str, least: int, most: int) -> Callable[[Callable[[int], Feature]], Callable[[int], Feature]]:
    """Registers a function that makes the feature name + str(k) for each k from `least` to `most`."""

    def register(make: Callable[[int], Feature]) -> Callable[[int], Feature]:
        FAMILIES[name] = Family(name, least, most, make)
        return make

    return register


def _split(name: str) -> tuple[str, str]:
    """A name without, and only, the digits at its end."""
    stem = name.rstrip("0123456789")
    return stem, name[len(stem) :]


def find_feature(name: str, others: Iterable[str] = ()) -> Feature:
    """The feature of that name. others: more names to think of if there is none.

    Raises RecipeError that names the nearest right word, or the numbers that its family takes.
    """
    if name in FEATURES:
        return FEATURES[name]
    stem, digits = _split(name)
    if stem in FAMILIES:
        found = FAMILIES[stem]
        if digits and str(int(digits)) == digits and found.least <= int(digits) <= found.most:
            return found.make(int(digits))
        raise RecipeError(f"{name!r} is no feature: {stem} takes a number from {found.least} to {found.most}")
    families = [stem + digits for stem in FAMILIES]
    near = difflib.get_close_matches(name, [*FEATURES, *families, *others], 1, 0)
    raise RecipeError(f"no plane set or feature {name!r}; did you mean {near[0]!r}?")
