"""Named features, which plane sets are composed of, and how to define your own.

    @feature("corner_stones", ("stones in the corners",))
    def corner_stones(position, out):
        ...

A feature fills `out`: [k, W] uint64, a bit set for each of its k planes, empty when it is called; or, if it is `real`,
[k, n] float32, zero when it is called. It only reads `position`, a `kifu.planes.context.PositionContext`. It is
compiled into the kernel of each plane set that contains it: plain loops, see `kifu.kernel`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kifu.errors import RecipeError
from kifu.kernel import inline_kernel
from kifu.registry import suggestion

Fill = Callable[[Any, Any], None]
Prepare = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Feature:
    """One or more named planes. A released feature never changes; a variant takes another name.

    Attributes:
        uses: Kernels f(position) that are called before, once for all features of a plane set that use them.
        real: Whether the values are float32 instead of bits; a plane set with a real feature is real as a whole.
        padding: Number of rows and columns around the board, on each side.
        needs_ranks: Whether the feature reads the players' ranks.
    """

    name: str
    planes: tuple[str, ...]
    fill: Fill
    uses: tuple[Prepare, ...] = ()
    real: bool = False
    padding: int = 0
    needs_ranks: bool = False


@dataclass(frozen=True, slots=True)
class Family:
    """Features that differ in a number at the end of their names.

    Attributes:
        make: Returns the feature of a number.
    """

    name: str
    least: int
    most: int
    make: Callable[[int], Feature]


FEATURES: dict[str, Feature] = {}
"""Every feature with a fixed name; `feature` adds to it."""

FAMILIES: dict[str, Family] = {}
"""Every family by its name without the number; `family` adds to it."""


def feature(
    name: str,
    planes: Iterable[str],
    *,
    uses: tuple[Prepare, ...] = (),
    real: bool = False,
    padding: int = 0,
    needs_ranks: bool = False,
) -> Callable[[Fill], Fill]:
    """Return a decorator that registers a function as the `fill` of a feature.

    Args:
        name: See `Feature`, as are the others.
        real: Whether the values are float32.
        padding: Rows and columns around the board.
        needs_ranks: Whether the feature reads the players' ranks.

    Raises:
        RecipeError: If the name is taken, or not possible in a composition.
    """

    def register(fill: Fill) -> Fill:
        if not re.fullmatch(r"[a-z]\w*", name) or name in FAMILIES or _split_number(name)[0] in FAMILIES:
            raise RecipeError(
                f"a feature name must be small letters, digits and _, without a family's name, got {name!r}"
            )
        if name in FEATURES and FEATURES[name].fill.__module__ != fill.__module__:
            raise RecipeError(f"feature {name!r} is already defined in {FEATURES[name].fill.__module__}")
        compiled = inline_kernel(fill)
        FEATURES[name] = Feature(name, tuple(planes), compiled, uses, real, padding, needs_ranks)
        return compiled

    return register


def family(name: str, least: int, most: int) -> Callable[[Callable[[int], Feature]], Callable[[int], Feature]]:
    """Return a decorator that registers a function k -> feature `name<k>` for each k from `least` to `most`."""

    def register(make: Callable[[int], Feature]) -> Callable[[int], Feature]:
        FAMILIES[name] = Family(name, least, most, make)
        return make

    return register


def _split_number(name: str) -> tuple[str, str]:
    """Return a name without, and only, the digits at its end."""
    stem = name.rstrip("0123456789")
    return stem, name[len(stem) :]


def find_feature(name: str, others: Iterable[str] = ()) -> Feature:
    """Return the feature of a name.

    Args:
        others: More names to suggest if there is no such feature.

    Raises:
        RecipeError: If no feature has the name; the message has the most similar one, or the numbers of its family.
    """
    if name in FEATURES:
        return FEATURES[name]
    stem, digits = _split_number(name)
    if stem in FAMILIES:
        found = FAMILIES[stem]
        if digits and str(int(digits)) == digits and found.least <= int(digits) <= found.most:
            return found.make(int(digits))
        raise RecipeError(f"no feature {name!r}: {stem} takes a number from {found.least} to {found.most}")
    families = [stem + digits for stem in FAMILIES]
    hint = suggestion(name, [*FEATURES, *families, *others]) or "; see kifu planes"
    raise RecipeError(f"unknown plane set or feature {name!r}{hint}")
