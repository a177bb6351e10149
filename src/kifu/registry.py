"""Registries of named, versioned things: "seven@1" is one plane set forever, "seven" its newest version."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar, cast

from kifu.errors import RecipeError

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """A mapping from full names ("seven@1") to entries, in the order of registration; "seven" finds the newest version.

    An entry may be given as "module:attribute", which is imported when the entry is first used. So a package can list
    implementations in packages above it without importing them.

        FORMATS: Registry[Format] = Registry("format", {"npy@1": "kifu.datasets.npy:FORMAT"})
        FORMATS.register("mine@1", MY_FORMAT)
        FORMATS.lookup("npy")
    """

    def __init__(self, kind: str, entries: Mapping[str, T | str] | None = None) -> None:
        """Create a registry. kind: of entry, for messages, such as "plane set"."""
        self._kind = kind
        self._entries: dict[str, T | str] = dict(entries or {})

    def register(self, name: str, entry: T | str) -> None:
        """Add an entry, or its "module:attribute". Released entries never change, so a name is registered once.

        Raises RecipeError if the name is taken.
        """
        if name in self._entries:
            raise RecipeError(f"there is already a {self._kind} {name!r}")
        self._entries[name] = entry

    def lookup(self, name: str) -> T:
        """Return the entry with a full name, or without a version the one registered last.

        Raises RecipeError if no entry has this name.
        """
        return self[find_name(self._entries, name, self._kind)]

    def __getitem__(self, name: str) -> T:
        name = ([full for full in self._entries if name in (full, full.partition("@")[0])] or [name])[-1]
        entry = self._entries[name]
        if isinstance(entry, str):
            module, _, attribute = entry.partition(":")
            entry = self._entries[name] = cast(T, getattr(import_module(module), attribute))
        return entry

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"Registry({self._kind!r}, {list(self)})"


def lookup(registry: Mapping[str, T], name: str, kind: str) -> T:
    """Return the entry of a plain mapping as `Registry.lookup` does. Raises RecipeError if it is unknown."""
    return registry[find_name(registry, name, kind)]


def find_name(registry: Mapping[str, Any], name: str, kind: str) -> str:
    """Return the full name for a name with or without a version. Raises RecipeError if it is unknown."""
    matches = [full for full in registry if name in (full, full.partition("@")[0])]
    if not matches:
        raise unknown(kind, name, registry)
    return matches[-1]


def unknown(kind: str, name: str, known: Iterable[str], more: str = "") -> RecipeError:
    """Return the error for an unknown name. more: text at its end, such as ", or a file that ends in .toml"."""
    names = list(known)
    return RecipeError(f"unknown {kind} {name!r}{suggestion(name, names) or ';'} available: {', '.join(names)}{more}")


def suggestion(name: str, known: Iterable[str], shown: Mapping[str, str] | None = None) -> str:
    """Return "; did you mean 'seven'?" if a known name, with or without its version, is similar, else "".

    shown: Texts to suggest in place of some names.
    """
    names = [name for full in known for name in (full.partition("@")[0], full)]
    for text in (name, name.lower()):
        same = [each for each in names if sorted(each) == sorted(text)]
        begun = sorted((each for each in names if len(each) > 3 and text.startswith(each)), key=len)[-1:]
        near = (
            same or difflib.get_close_matches(text, names, 1, 0.8) or begun or difflib.get_close_matches(text, names, 1)
        )
        if near:
            return f"; did you mean {(shown or {}).get(near[0], near[0])!r}?"
    return ""


def check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise RecipeError, with the most similar allowed value, if an option has any other value."""
    if value not in allowed:
        raise unknown(name, str(value), allowed)
