"""What recipes of data sets of examples have in common: which games are taken, and which set each of them goes to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

from pydantic import BaseModel, BeforeValidator, Field, field_serializer, field_validator, model_validator

from kifu.config import STRICT, BoardSize, Line, check_config, config_names, config_text, load_config, parse_board
from kifu.corpus.cleaning import CleaningRules, load_cleaning_rules
from kifu.corpus.splits import Split, load_split
from kifu.datasets.examples import Layout
from kifu.datasets.formats import Format, find_format
from kifu.datasets.manifest import SUFFIX
from kifu.datasets.position_filter import DEFAULT_FILTER, PositionFilter, Positions
from kifu.datasets.renderer import Renderer, find_renderer
from kifu.datasets.sources import make_layout
from kifu.errors import KifuError, RecipeError
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
    kind: str
    """A key of `KINDS`."""

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


if TYPE_CHECKING:
    from kifu.recipes.training import TrainingRecipe

_FOLDER, _KIND = "recipes", "recipe"


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


class KgsgoRecipe(BaseModel):
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
            return find_format(name, "kgsgo").name
        except RecipeError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _known_sets(self) -> KgsgoRecipe:
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


class OlfArchiveRecipe(BaseModel):
    """A tree of OLF files as `kifu.recipes.olf_archive` makes it."""

    model_config = STRICT

    kind: Literal["olf-archive"]
    """Tells it from recipes of data sets, which have no `kind`."""
    name: Line
    title: Line
    """For people."""
    clean: NamedClean
    """Which games are set aside."""


class ExamplesRecipe(SplitRecipe):
    """Data sets of examples: which games, which positions of them, their planes and labels, and the format."""

    kind: Literal["examples"]
    planes: Line
    """A plane set (`kifu planes`), or features joined by +."""
    labels: Annotated[tuple[Line, ...], Field(strict=False, min_length=1)] = ("move",)
    """What `kifu.datasets.labels.LABELS` names; the first comes with the planes when a data set is read."""
    format: Line
    """A format of examples (`kifu formats`)."""
    board: BoardSize = "19x19"
    """Games on another board are passed over."""
    pad: bool = False
    """Games on smaller boards are taken, too, and laid into the upper left corner."""
    positions: Positions = DEFAULT_FILTER
    order: Literal["corpus", "shuffled"] = "corpus"
    """The order of the games in the catalogue, or a permutation of all positions of a set."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Of that permutation, and of drawing positions."""

    @field_validator("positions")
    @classmethod
    def _no_weights(cls, positions: PositionFilter) -> PositionFilter:
        if positions.ply_weights is not None or positions.rank_weights is not None:
            raise ValueError("ply_weights and rank_weights are supported by training recipes only")
        return positions

    @field_serializer("positions")
    def _dump_positions(self, positions: PositionFilter) -> dict[str, Any]:
        return {name: getattr(positions, name) for name in ("passes", "min_ply", "max_ply", "per_game")}

    @model_validator(mode="after")
    def _fits(self) -> ExamplesRecipe:
        try:
            self.layout()
            form = self.example_format
        except KifuError as error:
            raise ValueError(str(error)) from None
        if not form.labels and self.labels != ("move",):
            raise ValueError(f"{form.name} holds the label move and no other; labels are {', '.join(self.labels)}")
        if form.needs_move and "move" not in self.labels:
            raise ValueError(f"{form.name} has the label move always; labels are {', '.join(self.labels)}")
        if self.positions.passes and not form.passes:
            raise ValueError(f"{form.name} cannot say that the next move is a pass: positions.passes has to be false")
        if self.order == "shuffled" and not form.has_provenance:
            raise ValueError(f"{form.name} has its examples archive by archive: order has to be corpus")
        if self.layout().real and not form.real:
            raise ValueError(f"{form.name} has planes of 0 and 1, and {self.planes} has other values")
        return self

    @property
    def example_format(self) -> Format:
        """What `format` names. Raises RecipeError."""
        return find_format(self.format, "examples")

    def renderer(self) -> Renderer:
        """What draws the planes. Raises RecipeError, GameError."""
        return find_renderer(self.planes, *parse_board(self.board), self.pad)

    def layout(self) -> Layout:
        """What all examples have in common. Raises RecipeError, GameError."""
        return make_layout(self.renderer(), self.labels)


class RecipeKind(NamedTuple):
    """The code for one kind of recipe, as "module:name" strings that are imported when first used.

    Attributes:
        model: the class of its recipes.
        build: the function that builds it, see `kifu.recipes.pipeline.build_recipe`; "" if there is none.
        options: the options that only some build functions take: "sets", "index".
    """

    model: str
    build: str = ""
    options: tuple[str, ...] = ()


KGSGO = RecipeKind("kifu.recipes.schema:KgsgoRecipe", "kifu.recipes.kgsgo:build", ("sets", "index"))
"""Recipes without the key `kind`."""

KINDS = {
    "examples": RecipeKind("kifu.recipes.schema:ExamplesRecipe", "kifu.recipes.examples:build_examples", ("sets",)),
    "katago": RecipeKind("kifu.katago.recipe:KatagoRecipe", "kifu.katago.build:build_katago", ("sets",)),
    "olf-archive": RecipeKind("kifu.recipes.schema:OlfArchiveRecipe", "kifu.recipes.olf_archive:build_archive"),
    "training": RecipeKind("kifu.recipes.training:TrainingRecipe"),
}
"""The kinds of recipes, by the value of the key `kind`."""


def recipe_names() -> list[str]:
    """Return the names of the recipes that come with kifu, sorted."""
    return config_names(_FOLDER)


def recipe_text(name: str) -> str:
    """Return the TOML text of a recipe. Raises RecipeError."""
    return config_text(_FOLDER, _KIND, name)


def find_recipe(name: str, overrides: Iterable[str] = ()) -> Any:
    """Load a recipe of any kind.

    Args:
        name: a recipe that comes with kifu, or a TOML file if it ends in .toml.
        overrides: "key=value" strings, see `kifu.config.load_config`.

    Returns:
        An instance of the model of its kind: `KgsgoRecipe` without the key `kind`, else the one in `KINDS`.

    Raises:
        RecipeError: there is no such recipe, or a value does not fit.
    """
    table = load_config(_FOLDER, _KIND, name, overrides)
    if "kind" not in table:
        return check_recipe(table, name)
    kind = table["kind"]
    if not isinstance(kind, str) or kind not in KINDS:
        known = ", ".join(map(repr, KINDS))
        raise RecipeError(f"{_KIND} {name}: kind must be one of {known}, or left out; got {str(kind)[:80]!r}")
    return check_config(resolve_name(KINDS[kind].model), table, _KIND, name)


def load_recipe(name: str, overrides: Iterable[str] = ()) -> KgsgoRecipe:
    """Load a recipe of data sets that are drawn from the archives of KGS.

    Args:
        name: a recipe that comes with kifu, or a TOML file if it ends in .toml.
        overrides: "key=value" strings, see `kifu.config.load_config`.

    Raises:
        RecipeError: there is no such recipe, a value does not fit, or the recipe is of another kind.
    """
    recipe = find_recipe(name, overrides)
    if not isinstance(recipe, KgsgoRecipe):
        raise RecipeError(f"load_recipe() does not support recipes of kind {recipe.kind!r}: {name}")
    return recipe


def load_training(name: str, overrides: Iterable[str] = ()) -> TrainingRecipe:
    """Load the recipe of a training run, see `load_recipe`."""
    recipe = find_recipe(name, overrides)
    if getattr(recipe, "kind", None) != "training":
        raise RecipeError(f"recipe {name} builds data sets; it does not train a network")
    return cast("TrainingRecipe", recipe)


def check_recipe(table: Mapping[str, Any], name: str) -> KgsgoRecipe:
    """Validate a table as a `KgsgoRecipe`. Raises RecipeError, which names the first value that does not fit."""
    return check_config(KgsgoRecipe, table, _KIND, name)
