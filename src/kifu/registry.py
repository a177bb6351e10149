"""Names with versions: "seven@1" is one plane set for good, "seven" the newest version of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

from kifu.errors import RecipeError

T = TypeVar("T")


def lookup(registry: Mapping[str, T], name: str, kind: str) -> T:
    """The entry of that name; without a version, the last one registered. Raises RecipeError if there is none.

    kind: what the entries are, for the message.
    """
    found = [full for full in registry if name in (full, full.partition("@")[0])]
    if not found:
        raise RecipeError(f"no {kind} {name!r}; there are {', '.join(registry)}")
    return registry[found[-1]]


def nearest(name: str, known: Iterable[str]) -> str:
    """The one of `known`, of which there are some, that is most like `name`."""
    return difflib.get_close_matches(name, list(known), 1, 0)[0]
