"""Recipes: TOML files that fully describe a family of data sets, an archive of OLF files, or a training run.

The key `kind` selects the model that validates a recipe, see `KINDS`. Recipes without it describe data sets that are
drawn from the archives of KGS, as by the 2015 program.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, TypeAlias, cast

import numpy as np
import pyarrow as pa
from pydantic import BeforeValidator, Field, PrivateAttr, field_serializer, field_validator, model_validator

from kifu.arrays import Bools
from kifu.assets import config_names
from kifu.config import (
    BoardSize,
    Count,
    Line,
    NamedConfig,
    StrictModel,
    check_config,
    config_text,
    default_table,
    load_config,
)
from kifu.corpus.catalogue import Catalogue, open_catalogue
from kifu.corpus.cleaning import CleaningRules, load_cleaning_rules
from kifu.corpus.hashes import lowest_bound, seeded_hashes
from kifu.corpus.schema import to_numpy
from kifu.corpus.splits import Split, load_split
from kifu.datasets.examples import Layout
from kifu.datasets.filter import DEFAULT_FILTER, PositionFilter
from kifu.datasets.formats import Format, find_format
from kifu.datasets.labels import MERGED_LABELS
from kifu.datasets.manifest import ORIGINS_SUFFIX, SUFFIX
from kifu.datasets.sources import make_layout
from kifu.datasets.tokens import DEFAULT_METADATA, Tokenizer
from kifu.errors import RecipeError
from kifu.planes.encoder import FrameEncoder, find_encoder
from kifu.point import parse_board
from kifu.registry import unknown

if TYPE_CHECKING:
    from kifu.recipes.training import TrainingRecipe

_FOLDER, _KIND = "recipes", "recipe"


NamedClean = Annotated[
    CleaningRules, BeforeValidator(lambda rules: load_cleaning_rules(rules) if isinstance(rules, str) else rules)
]
"""Cleaning rules as a name, a file or a table, see `kifu.corpus.cleaning`."""

NamedSplit = Annotated[
    Split, BeforeValidator(lambda split: load_split(split).split if isinstance(split, str) else split)
]
"""A split as a name, a file or a table, see `kifu.corpus.splits`."""


class GamesRecipe(NamedConfig):
    """Base of recipes that take games of catalogues: cleaning rules, and a number of games."""

    name: Line
    title: Line
    clean: NamedClean | None = None
    """Cleaning rules: a name, a file or a table. By default, only games that cannot be read or played are dropped, and
    catalogues are used as they are."""
    games: Count | None = None
    """Number of kept games, those with the lowest hashes of seed and game; by default all. Equal games count once."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of every draw."""
    _bound: np.uint64 | None = PrivateAttr(None)

    def fit(self, catalogues: Sequence[Path]) -> Self:
        """Return a recipe for the games of some catalogues, of which it draws `games`."""
        if self.games is None:
            return self
        batches = (batch for path in catalogues for batch in open_catalogue(path).batches(("id", "drop")))
        ids = [np.empty(0, np.uint64), *(to_numpy(batch.filter(batch["drop"].is_null())["id"]) for batch in batches)]
        fitted = self.model_copy()
        fitted._bound = lowest_bound(seeded_hashes(np.concatenate(ids), self.seed), self.games)
        return fitted

    def drawn(self, batch: pa.RecordBatch) -> Bools:
        """Return whether each kept game, [G], is one of the drawn games. batch: rows with at least `id`."""
        if self._bound is None:
            return np.ones(len(batch), np.bool_)
        return seeded_hashes(to_numpy(batch["id"]), self.seed) <= self._bound


class GameSet(StrictModel):
    """A data set of a `KgsgoRecipe`: its games, and the file or files that it is written to."""

    title: Line
    file: Line
    """The file name. With {archive}, one file is written per archive, named after it without its extension."""
    games: Count | None = None
    """Number of games drawn, by default all."""
    without: str | None = None
    """Another set of the recipe, whose games are excluded."""
    default: bool = True
    """Build the set if no set is named."""

    @field_validator("file")
    @classmethod
    def _plain_file_name(cls, file: str) -> str:
        name = file.replace("{archive}", "")
        reserved = file.startswith(".") or file.endswith((SUFFIX, ORIGINS_SUFFIX))
        if not name or reserved or any(c in name for c in "/\\{}"):
            raise ValueError(f"{file!r} is not a plain file name, or is reserved for manifests")
        return file

    @property
    def by_archive(self) -> bool:
        """True if one file is written per archive."""
        return "{archive}" in self.file

    @model_validator(mode="after")
    def _archives_whole(self) -> GameSet:
        if self.by_archive and (self.games is not None or self.without is not None):
            raise ValueError("a set with one file per archive takes all games: it has neither games nor without")
        return self


class KgsgoRecipe(NamedConfig):
    """A family of data sets that are drawn from the archives of KGS."""

    name: Line
    title: Line
    format: str
    """The file format (`kifu list formats`), which determines the plane set."""
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    """Seed of the draws."""
    until: Annotated[int, Field(ge=0, le=9999)]
    """The last year; archives of later years are left out of every draw."""
    sets: dict[Line, GameSet]

    @field_validator("format")
    @classmethod
    def _known_format(cls, name: str) -> str:
        return find_format(name, "kgsgo").name

    @model_validator(mode="after")
    def _known_sets(self) -> KgsgoRecipe:
        if not self.sets:
            raise ValueError("a recipe needs at least one set")
        for name, game_set in self.sets.items():
            other = game_set.without
            if other is not None and (other == name or other not in self.sets or self.sets[other].without):
                raise ValueError(f"set {name!r}: without must name another set that has no without; got {other!r}")
        files = [game_set.file.casefold() for game_set in self.sets.values()]
        for name, game_set in self.sets.items():
            if files.count(game_set.file.casefold()) > 1:
                raise ValueError(f"set {name!r}: another set writes {game_set.file!r} too")
        return self

    def default_sets(self) -> list[str]:
        """Return the sets that are built if none is named."""
        return [name for name, game_set in self.sets.items() if game_set.default]

    def all_sets(self) -> list[str]:
        """Return the names of all sets."""
        return list(self.sets)


class OlfArchiveRecipe(GamesRecipe):
    """An archive of OLF files, see `kifu.recipes.olf_archive`."""

    kind: Literal["olf-archive"]
    clean: NamedClean
    """Cleaning rules: a name, a file or a table."""


class SplitRecipe(GamesRecipe):
    """Base of recipes of data sets that are made from catalogues, whose games are split into sets."""

    split: NamedSplit | None = None
    """The split: a name, a file or a table. By default, all games are in the set "all"."""
    sets: Annotated[tuple[Line, ...] | None, Field(strict=False, min_length=1)] = None
    """The sets that are built if none is named, by default all of the split."""
    kind: str
    """A key of `KINDS`."""

    @model_validator(mode="after")
    def _valid_sets(self) -> SplitRecipe:
        for name in self.all_sets():
            if name.startswith(".") or any(c in name for c in "/\\"):
                raise ValueError(f"set name {name!r} is not a plain file name")
        require_sets(self, self.default_sets())
        return self

    def fit(self, catalogues: Sequence[Path]) -> Self:
        """Return a recipe with the split, too, for the games of some catalogues, as by `kifu split`."""
        return super().fit(catalogues).model_copy(update={"split": self.split and self.split.fit(catalogues)})

    def all_sets(self) -> list[str]:
        """Return the names of all sets."""
        return ["all"] if self.split is None else list(self.split.sets)

    def default_sets(self) -> list[str]:
        """Return the sets that are built if none is named."""
        return self.all_sets() if self.sets is None else list(self.sets)

    @property
    def suffix(self) -> str:
        """The suffix of a set's file name; "" for a directory."""
        return ""

    def position_bytes(self, catalogues: Sequence[Catalogue]) -> float:
        """Return the size of the example of a position, about; the default is that of a token."""
        return 2


class ExamplesRecipe(SplitRecipe):
    """Data sets of examples: games, positions, planes, labels and format."""

    kind: Literal["examples"]
    planes: Line
    """A plane set (`kifu list planes`), or features joined by +."""
    labels: Annotated[tuple[Line, ...], Field(strict=False, min_length=1)] = ("move",)
    """Names of labels, see `kifu.datasets.labels`. Readers return the first one with the planes."""
    format: Line
    """A format of examples (`kifu list formats`)."""
    board: BoardSize = "19x19"
    """Board size; other games are dropped."""
    pad: bool = False
    """Include smaller boards, placed in the upper left corner."""
    positions: PositionFilter = DEFAULT_FILTER
    order: Literal["corpus", "shuffled"] = "corpus"
    """The order of the games in the catalogue, or a permutation of all positions of a set."""

    @field_validator("positions")
    @classmethod
    def _no_weights(cls, positions: PositionFilter) -> PositionFilter:
        for name in ("ply_weights", "rank_weights", "where", "weight"):
            if getattr(positions, name) is not None:
                raise ValueError(f"{name} is supported by training recipes only")
        if positions.merge_plies:
            raise ValueError("merge_plies is supported by loaders only")
        return positions

    @field_serializer("positions")
    def _dump_positions(self, positions: PositionFilter) -> dict[str, Any]:
        return {name: getattr(positions, name) for name in ("passes", "min_ply", "max_ply", "per_game")}

    @model_validator(mode="after")
    def _fits(self) -> ExamplesRecipe:
        real, form = self.layout().real, self.example_format
        if not form.labels and self.labels != ("move",):
            raise ValueError(f"{form.name} stores only the label move; got {', '.join(self.labels)}")
        if {*self.labels} & {*MERGED_LABELS}:
            raise ValueError(f"labels {' and '.join(MERGED_LABELS)} are supported by loaders only")
        if form.needs_move and "move" not in self.labels:
            raise ValueError(f"{form.name} needs the label move; got {', '.join(self.labels)}")
        if self.positions.passes and not form.passes:
            raise ValueError(f"{form.name} cannot store a pass as the next move: positions.passes must be false")
        if self.order == "shuffled" and not form.has_provenance:
            raise ValueError(f"{form.name} stores examples archive by archive: order must be 'corpus'")
        if real and not form.real:
            raise ValueError(f"{form.name} stores planes of 0 and 1 only; {self.planes} has other values")
        return self

    @property
    def example_format(self) -> Format:
        """The format. Raises RecipeError."""
        return find_format(self.format, "examples")

    @property
    def suffix(self) -> str:
        """The suffix of the format."""
        return self.example_format.suffix

    def position_bytes(self, catalogues: Sequence[Catalogue]) -> float:
        """Return the size of the planes of an example, or if they are compressed, of one in a sample."""
        measure, layout = resolve_name("kifu.recipes.examples:measure_example"), self.layout()
        value_bytes = min(self.example_format.point_bytes * layout.plane_dtype.itemsize, 8)
        return prod(layout.shape) * value_bytes or measure(self, catalogues)

    def encoder(self) -> FrameEncoder:
        """Return the encoder of the planes. Raises RecipeError, GameError."""
        return find_encoder(self.planes, *parse_board(self.board), self.pad)

    def layout(self) -> Layout:
        """Return the shapes and labels that all examples share. Raises RecipeError, GameError."""
        return make_layout(self.encoder(), self.labels)


class TokensRecipe(SplitRecipe):
    """Data sets of games as tokens."""

    kind: Literal["tokens"]
    board: BoardSize = "19x19"
    """Board size; other games are dropped."""
    pad: bool = False
    """Include smaller square boards, placed in the upper left corner."""
    metadata: Annotated[tuple[Line, ...], Field(strict=False)] = DEFAULT_METADATA
    """Fields of the tokens before the moves, see `kifu.datasets.tokens.METADATA`."""

    @model_validator(mode="after")
    def _valid_tokenizer(self) -> TokensRecipe:
        self.tokenizer()  # raises RecipeError or GameError, which pydantic reports as it does a ValueError
        return self

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer. Raises RecipeError, GameError."""
        return Tokenizer(*parse_board(self.board), self.pad, self.metadata)


def require_sets(recipe: KgsgoRecipe | SplitRecipe, names: Iterable[str]) -> None:
    """Raise RecipeError, which lists the sets of the recipe, if it has no set of one of the names."""
    for name in names:
        if name not in recipe.all_sets():
            raise unknown("set", name, recipe.all_sets())


Recipe: TypeAlias = "KgsgoRecipe | OlfArchiveRecipe | SplitRecipe | TrainingRecipe"
"""A recipe of any kind."""


class RecipeKind(NamedTuple):
    """The code for one kind of recipe, as "module:name" strings that are imported when first used."""

    model: str
    build: str = ""  # the function that builds it, or one set of a `SplitRecipe`; "" for training recipes
    options: tuple[str, ...] = ()  # the options that only some build functions take: "sets", "index"


KGSGO = RecipeKind("kifu.recipes.schema:KgsgoRecipe", "kifu.recipes.kgsgo:build_kgsgo", ("sets", "index"))
"""Recipes without the key `kind`."""

KINDS = {
    "examples": RecipeKind("kifu.recipes.schema:ExamplesRecipe", "kifu.recipes.examples:write_examples", ("sets",)),
    "katago": RecipeKind("kifu.katago.select:KatagoRecipe", "kifu.katago.build:write_rows", ("sets",)),
    "olf-archive": RecipeKind("kifu.recipes.schema:OlfArchiveRecipe", "kifu.recipes.olf_archive:build_archive"),
    "tokens": RecipeKind("kifu.recipes.schema:TokensRecipe", "kifu.recipes.examples:write_tokens", ("sets",)),
    "training": RecipeKind("kifu.recipes.training:TrainingRecipe"),
}
"""The kinds of recipes, by the value of the key `kind`."""


def recipe_text(name: str) -> str:
    """Return the TOML text of a recipe. Raises RecipeError."""
    return config_text(_FOLDER, _KIND, name)


def load_recipe(name: str | os.PathLike[str], overrides: Iterable[str] = ()) -> Recipe:
    """Load a recipe of any kind: data sets, an archive, or the training of a network.

    Args:
        name: A recipe that comes with kifu, or a TOML file if it ends in .toml.
        overrides: "key=value" strings, see `kifu.config.load_config`.

    Returns:
        An instance of the model of its kind: `KgsgoRecipe` without the key `kind`, else the one in `KINDS`.

    Raises:
        RecipeError: There is no such recipe, or a value does not fit.
    """

    def default(table: Mapping[str, Any], key: str) -> dict[str, Any]:
        return default_table(_find_model(table, name), key)

    return check_recipe(load_config(_FOLDER, _KIND, name, overrides, default), name)


def check_recipe(table: Mapping[str, Any], name: str | os.PathLike[str]) -> Recipe:
    """Validate a recipe of any kind, as values of TOML or JSON. Raises RecipeError for the first bad one."""
    recipe: Recipe = check_config(_find_model(table, name), table, _KIND, name)
    return recipe


def is_manifest(name: str) -> bool:
    """Return True if a name is the path of a manifest or of what has one, and not that of a recipe."""
    is_recipe = name.endswith(".toml") or name in config_names(_FOLDER)
    return name.endswith(SUFFIX) or (not is_recipe and Path(name).exists())


def _find_model(table: Mapping[str, Any], name: str | os.PathLike[str]) -> type[Any]:
    """Return the model that the key `kind` of a recipe selects. Raises RecipeError."""
    if "kind" not in table:
        return KgsgoRecipe
    kind = table["kind"]
    if not isinstance(kind, str) or kind not in KINDS:
        known = ", ".join(map(repr, KINDS))
        raise RecipeError(f"{_KIND} {name}: kind must be one of {known}, or left out; got {str(kind)[:80]!r}")
    model: type[Any] = resolve_name(KINDS[kind].model)
    return model


def load_training(name: str | os.PathLike[str], overrides: Iterable[str] = ()) -> TrainingRecipe:
    """Load the recipe of a training run, see `load_recipe`; paths in a file are relative to it where they exist."""
    if not os.fspath(name).endswith(".toml") and name not in config_names(_FOLDER):
        kinds = {each: tomllib.loads(recipe_text(each)).get("kind") for each in config_names(_FOLDER)}
        names = [each for each, kind in kinds.items() if kind == "training"]
        raise unknown("training recipe", os.fspath(name), names, ", or a file that ends in .toml")
    recipe = load_recipe(name, overrides)
    if getattr(recipe, "kind", None) != "training":
        raise RecipeError(f"recipe {name} builds data sets; it does not train a network")
    training = cast("TrainingRecipe", recipe)
    path = Path(name)
    return training.with_nets_in(path.parent) if path.suffix == ".toml" else training
