"""What recipes of data sets of examples have in common: which games are taken, and which set each of them goes to."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from kifu.config import STRICT, Line
from kifu.corpus.cleaning import CleaningRules, load_cleaning_rules
from kifu.corpus.splits import Split, load_split
from kifu.errors import RecipeError
from kifu.registry import nearest


def _named_clean(rules: object) -> object:
    try:
        return load_cleaning_rules(rules) if isinstance(rules, str) else rules
    except RecipeError as error:
        raise ValueError(str(error)) from None


def _named_split(split: object) -> object:
    try:
        return load_split(split).split if isinstance(split, str) else split
    except RecipeError as error:
        raise ValueError(str(error)) from None


NamedClean = Annotated[CleaningRules, BeforeValidator(_named_clean)]
"""Rules of cleaning, by their name or file (`kifu.corpus.cleaning`), or a table of them."""

NamedSplit = Annotated[Split, BeforeValidator(_named_split)]
"""A split by its name or file (`kifu.corpus.splits`), or a table."""


class SplitRecipe(BaseModel):
    """The part of a recipe that says which games go to which set."""

    model_config = STRICT

    name: Line
    title: Line
    """For people."""
    clean: NamedClean | None = None
    """Which games are set aside: rules by their name or file, or a table of them. Left out: those that cannot be read
    or played; games of a catalogue are then taken as it has them."""
    split: NamedSplit | None = None
    """Which game goes to which set: a split by its name or file, or a table. Left out: all go to the set "all"."""
    sets: Annotated[tuple[Line, ...] | None, Field(strict=False, min_length=1)] = None
    """The sets that are built when none is named; left out: all of the split."""

    @model_validator(mode="after")
    def _names_sets(self) -> SplitRecipe:
        for name in self.all_sets():
            if name.startswith(".") or any(c in name for c in "/\\"):
                raise ValueError(f"set {name!r} would make no plain file name")
        for name in self.default_sets():
            self.require_set(name)
        return self

    def all_sets(self) -> list[str]:
        """The sets that there are."""
        return ["all"] if self.split is None else list(self.split.sets)

    def require_set(self, name: str) -> None:
        """Raises ValueError that names the nearest set, unless there is one of that name."""
        if name not in self.all_sets():
            near = nearest(name, self.all_sets())
            raise ValueError(f"no set {name!r} (there are {', '.join(self.all_sets())}); did you mean {near!r}?")

    def default_sets(self) -> list[str]:
        """The sets that are built when none is named."""
        return self.all_sets() if self.sets is None else list(self.sets)
