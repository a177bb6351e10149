"""Recipes: a TOML file that says everything about one family of data sets, or one archive of OLF files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, field_validator, model_validator

from kifu.corpus.clean import Clean, load_clean
from kifu.datasets.formats import find_format
from kifu.datasets.manifest import SUFFIX
from kifu.errors import RecipeError
from kifu.tables import STRICT, Line, check_table, load_table, table_names, table_text

_ROOM, _KIND = "kifu.recipes", "recipe"


class GameSet(BaseModel):
    """Which games one data set takes, and the file (or files) it is written to."""

    model_config = STRICT

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

    model_config = STRICT

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


def _named_clean(rules: object) -> object:
    try:
        return load_clean(rules) if isinstance(rules, str) else rules
    except RecipeError as error:
        raise ValueError(str(error)) from None


class OlfArchive(BaseModel):
    """A tree of OLF files as `kifu.recipes.olf_archive` makes it."""

    model_config = STRICT

    kind: Literal["olf-archive"]
    """Tells it from recipes of data sets, which have no `kind`."""
    name: Line
    title: Line
    """For people."""
    clean: Annotated[Clean, BeforeValidator(_named_clean)]
    """Which games are set aside: rules by their name or file (`kifu.corpus.clean`), or a table of them."""


def recipe_names() -> list[str]:
    """The recipes that come with kifu."""
    return table_names(_ROOM)


def load_recipe(name: str, overrides: Iterable[str] = ()) -> Recipe:
    """A recipe of data sets by its name, or from a TOML file if `name` ends in .toml.

    overrides: see `kifu.tables.load_table`. Raises RecipeError.
    """
    recipe = find_recipe(name, overrides)
    if not isinstance(recipe, Recipe):
        raise RecipeError(f"recipe {name} makes an archive of OLF files and no data sets")
    return recipe


def find_recipe(name: str, overrides: Iterable[str] = ()) -> Recipe | OlfArchive:
    """A recipe of either kind, as `load_recipe` takes it."""
    table = load_table(_ROOM, _KIND, name, overrides)
    return check_table(OlfArchive, table, _KIND, name) if "kind" in table else check_recipe(table, name)


def check_recipe(table: Mapping[str, Any], name: str) -> Recipe:
    """The recipe of data sets that a table of values makes.

    Raises RecipeError, which names the first value that does not fit.
    """
    return check_table(Recipe, table, _KIND, name)


def recipe_text(name: str) -> str:
    """The TOML text of a recipe. Raises RecipeError."""
    return table_text(_ROOM, _KIND, name)
