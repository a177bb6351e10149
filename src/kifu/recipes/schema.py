"""Recipes: a TOML file that says everything about one family of data sets."""

from __future__ import annotations

import contextlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from kifu.datasets.formats import find_format
from kifu.datasets.manifest import SUFFIX
from kifu.errors import RecipeError

TEXT_LIMIT = 16 << 10
"""A recipe file of more bytes is not read: tomllib takes a minute for a key of 30,000 dotted parts."""

_STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text!r} is not one line of printable characters")
    return text


Line = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_one_line)]
"""Text that a message or a table can show as it is."""


class GameSet(BaseModel):
    """Which games one data set takes, and the file (or files) it is written to."""

    model_config = _STRICT

    title: Line
    """For people."""
    file: Line
    """Its name. {archive} stands for an archive's name without its ending, and makes one file for each archive."""
    games: Annotated[int, Field(ge=1, le=10**9)] | None = None
    """How many games are drawn; left out: all."""
    without: str | None = None
    """Another set of the recipe, whose games this one does not take."""
    default: bool = True
    """Whether it is built when no set is named."""

    @field_validator("file")
    @classmethod
    def _plain_file_name(cls, file: str) -> str:
        name = file.replace("{archive}", "")
        if not name or file.startswith(".") or file.endswith(SUFFIX) or any(c in name for c in "/\\{}"):
            raise ValueError(f"{file!r} is not a plain file name, or is one that kifu needs itself")
        return file

    @property
    def by_archive(self) -> bool:
        """Whether it writes one file for each archive."""
        return "{archive}" in self.file

    @model_validator(mode="after")
    def _archives_whole(self) -> GameSet:
        if self.by_archive and (self.games is not None or self.without is not None):
            raise ValueError("a set with one file for each archive takes all games: neither games nor without fits")
        return self


class Recipe(BaseModel):
    """A family of data sets drawn from the same archives."""

    model_config = _STRICT

    name: Line
    title: Line
    """For people."""
    format: str
    """The file format (`kifu formats`), which names its plane set."""
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    """Of the draw."""
    until: Annotated[int, Field(ge=0, le=9999)]
    """Archives of later years are left out of every draw."""
    sets: dict[Line, GameSet]

    @field_validator("format")
    @classmethod
    def _known_format(cls, name: str) -> str:
        try:
            return find_format(name).name
        except RecipeError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _known_sets(self) -> Recipe:
        if not self.sets:
            raise ValueError("a recipe has at least one set")
        for name, chosen in self.sets.items():
            other = chosen.without
            if other is not None and (other == name or other not in self.sets or self.sets[other].without):
                raise ValueError(f"set {name!r} is without {other!r}, which is no other set drawn on its own")
        files = [chosen.file.casefold() for chosen in self.sets.values()]
        for name, chosen in self.sets.items():
            if files.count(chosen.file.casefold()) > 1:
                raise ValueError(f"set {name!r} is not the only one that writes {chosen.file!r}")
        return self

    def default_sets(self) -> list[str]:
        """The sets that are built when none is named."""
        return [name for name, chosen in self.sets.items() if chosen.default]


def recipe_names() -> list[str]:
    """The recipes that come with kifu."""
    folder = resources.files("kifu.recipes")
    return sorted(p.name.removesuffix(".toml") for p in folder.iterdir() if p.name.endswith(".toml"))


def load_recipe(name: str, overrides: Iterable[str] = ()) -> Recipe:
    """A recipe by its name, or from a TOML file if `name` ends in .toml.

    overrides: "key=value" each, with dots for inner keys ("sets.test.games=20"); a value is read as TOML, and as text
    where it is none. Raises RecipeError.
    """
    text = recipe_text(name)
    try:
        table = tomllib.loads(text)
    except ValueError as error:  # also a number of thousands of digits
        raise RecipeError(f"recipe {name} is no TOML: {_short(str(error))}") from None
    except RecursionError:
        raise RecipeError(f"recipe {name} is nested too deeply") from None
    for override in overrides:
        _override(table, override)
    return check_recipe(table, name)


def check_recipe(table: Mapping[str, Any], name: str) -> Recipe:
    """The recipe that a table of values makes. Raises RecipeError, which names the first value that does not fit."""
    try:
        return Recipe.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        where = _short(".".join(str(part) for part in first["loc"]))
        what = first["msg"].removeprefix("Value error, ")
        value = "" if first["type"] in ("missing", "value_error") else f" (it is {_shown(first['input'])})"
        raise RecipeError(f"recipe {name}: {where + ': ' if where else ''}{_short(what, 300)}{value}") from None


def _shown(value: Any) -> str:
    """A value of a recipe, for a message."""
    try:
        return _short(json.dumps(value, default=str))
    except (ValueError, RecursionError):  # a number of thousands of digits; thousands of tables in one another
        return "too large to show"


def _short(text: str, length: int = 80) -> str:
    """The text as one line of that length at most."""
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= length else text[: length - 4] + " ..."


def recipe_text(name: str) -> str:
    """The TOML text of a recipe. Raises RecipeError."""
    if name.endswith(".toml"):
        try:
            with Path(name).open("rb") as file:
                data = file.read(TEXT_LIMIT + 1)
            text = data.decode()
        except OSError as error:
            raise RecipeError(f"cannot read the recipe {name}: {error.strerror}") from None
        except ValueError as error:  # not UTF-8, or a zero byte in the name
            raise RecipeError(f"cannot read the recipe {name!r}: {error}") from None
        if len(data) > TEXT_LIMIT:
            raise RecipeError(f"the recipe {name} has more than {TEXT_LIMIT:,} bytes")
        return text
    if name not in recipe_names():
        raise RecipeError(f"no recipe {name!r}; there are {', '.join(recipe_names())}, or a file that ends in .toml")
    return resources.files("kifu.recipes").joinpath(f"{name}.toml").read_text("utf-8")


def _override(table: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise RecipeError(f"--set takes key=value, not {override!r}")
    value: Any = text
    with contextlib.suppress(ValueError, RecursionError):
        parsed = tomllib.loads(f"value = {text}")
        if len(parsed) == 1:  # else there are lines after the value
            value = parsed["value"]
    *outer, last = key.strip().split(".")
    inner: Any = table
    for part in outer:
        inner = inner.get(part)
        if not isinstance(inner, dict):
            raise RecipeError(f"--set {override!r}: the recipe has no table {'.'.join(outer)!r}")
    inner[last] = value
