"""The games of a training run: those to train on, those to validate with, and those that its nets have seen."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus._hashes import mix_words
from kifu.corpus.catalogue import is_catalogue, open_catalogue
from kifu.corpus.schema import to_numpy
from kifu.corpus.splits import split_keys
from kifu.datasets.global_inputs import CONDITION_COLUMNS, Conditions
from kifu.datasets.labels import inputs_label
from kifu.datasets.mmap_games import read_games, select_rows
from kifu.datasets.sources import DRAW_COLUMNS, CatalogueSource, ExampleSpec, open_datasets
from kifu.errors import RecipeError, SourceError
from kifu.files import hash_file, utf8_name
from kifu.learn import is_command
from kifu.learn.benchmark import is_reserved
from kifu.learn.net import Net, net_file, open_net
from kifu.learn.positions import PredictPositions
from kifu.process import split_command
from kifu.recipes.training import TrainingRecipe
from kifu.records.paths import as_path

_COLUMNS = ("opening", *DRAW_COLUMNS)

Paths = Sequence[str | os.PathLike[str]]


class TeacherSpec(NamedTuple):
    """Plane set and global inputs of a teacher."""

    planes: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class TrainingGames:
    """The games of a run.

    Attributes:
        validation: Held-out positions, or None.
        canonical: [K] uint64, canonical hashes of the games to train on, of those to validate with, which choose the
            best net, and of those that the nets of the recipe have seen.
        inputs: Names of the sources and hashes of those that are files.
        excluded: Number of games of the sources that are not used because they are reserved for benchmarks.
        teachers: Plane set and global inputs of each teacher; None for an engine.
        others: The training positions for teachers with other planes, by plane set.
        conditions: Of the games to train on, if an engine teaches.
    """

    train: CatalogueSource
    validation: CatalogueSource | None
    canonical: npt.NDArray[np.uint64]
    inputs: dict[str, list[dict[str, str]]]
    excluded: int
    teachers: tuple[TeacherSpec | None, ...] = ()
    others: Mapping[str, CatalogueSource] = field(default_factory=dict)
    conditions: Conditions | None = None

    def fingerprint(self) -> dict[str, Any]:
        """Return hashes of the games and positions as JSON values."""
        return {
            "train": self.train.fingerprint()["source"],
            "validation": None if self.validation is None else self.validation.fingerprint()["source"],
        }

    def positions(self, ids: npt.NDArray[np.uint64], ply: npt.NDArray[np.int32]) -> PredictPositions:
        """Return positions of games to train on for an engine that teaches, given ids and plies [B]."""
        assert self.conditions is not None
        game = self._by_id[np.searchsorted(self.train.ids, ids, sorter=self._by_id)]
        return PredictPositions(self.train.games, game, ply.astype(np.int64), self.conditions)

    @cached_property
    def _by_id(self) -> npt.NDArray[np.int64]:
        return np.argsort(self.train.ids, kind="stable")

    def counts(self) -> dict[str, int]:
        """Return the numbers of games."""
        return {
            "train_games": len(self.train.ids),
            "validation_games": 0 if self.validation is None else len(self.validation.ids),
            "benchmark_games_excluded": self.excluded,
        }


def open_teachers(recipe: TrainingRecipe) -> list[Net | str]:
    """Open the nets among the teachers of a recipe; the command lines of engines stay as they are.

    Raises:
        RecipeError: A net does not support the board, or predicts no passes although the recipe does. A program was not
            found, or the positions that an engine shall evaluate are augmented.
        FormatError: A file is not a net.
    """
    names = recipe.teacher.nets if recipe.teacher else ()
    nets = [name if is_command(name) else open_net(name) for name in names]
    for net in nets:
        if isinstance(net, str):
            split_command(net, "the command of an engine")
            if recipe.augment:
                raise RecipeError(f"augment must be false where an engine teaches: {net}")
            continue
        net.encoder_for(*recipe.size)
        if recipe.positions.passes and not net.about.passes:
            raise RecipeError(f"teacher {net.name} does not predict passes; positions.passes must be false")
    return nets


def read_training_games(recipe: TrainingRecipe, sources: Paths, validate: Paths, jobs: int | None) -> TrainingGames:
    """Read the games of a run and hold out those for validation.

    Games that share the opening of a validation game are not trained on, whichever source they come from. Games of
    benchmark sets, and games that share their opening, are neither trained on nor validated with, unless the recipe
    allows it.

    Args:
        sources: Catalogues, archives, folders and records to train on.
        validate: Sources to validate with; if empty, a share of the games is held out as the recipe specifies.

    Raises:
        RecipeError: A source is a data set, or a net of the recipe does not fit.
        SourceError: A source cannot be read, or no games are left.
        FormatError: A source or net is damaged.
    """
    teachers = tuple(
        None if isinstance(net, str) else TeacherSpec(net.about.planes, net.about.inputs)
        for net in open_teachers(recipe)
    )
    specs = _example_specs(recipe, [teacher for teacher in teachers if teacher is not None])
    rows, excluded = _read_rows(recipe, sources, jobs, specs)
    opening = to_numpy(rows["opening"])
    if validate:
        held_out, excluded_too = _read_rows(recipe, validate, jobs, specs)
        excluded += excluded_too
        in_training = ~np.isin(opening, to_numpy(held_out["opening"]))
    elif recipe.validation:
        shares = {"train": 1 - recipe.validation, "validation": recipe.validation}
        # Hashed once more, since the openings of a set that `kifu split` made have hashes in one range.
        in_training = split_keys(mix_words(opening), shares, recipe.seed) == 0
        held_out = select_rows(rows, ~in_training)
    else:
        in_training, held_out = np.ones(len(rows), np.bool_), None
    train = _sample(select_rows(rows, in_training), recipe)
    if not len(train) or (held_out is not None and not len(held_out)):
        purpose = "train on" if not len(train) else "validate with"
        raise SourceError(f"none of {len(rows):,} games is left to {purpose}; validation is {recipe.validation}")
    used = [train] if held_out is None else [train, held_out]
    own, *others = (CatalogueSource(train, spec) for spec in specs)
    for other in others:
        if other.fingerprint() != own.fingerprint():
            raise RecipeError(f"a teacher's planes {other.layout.plane_set} cannot be drawn of the same positions")
    seen = [open_net(path).games for path in _net_paths(recipe)]
    return TrainingGames(
        own,
        None if held_out is None else CatalogueSource(held_out, _example_specs(recipe, ())[0]),
        np.concatenate([*(to_numpy(rows["canonical"]) for rows in used), *seen]),
        {"train": _hash_sources(sources), "validation": _hash_sources(validate)} | _hash_nets(recipe),
        excluded,
        teachers,
        {other.layout.plane_set: other for other in others},
        Conditions.from_rows(train) if None in teachers else None,
    )


def _net_paths(recipe: TrainingRecipe) -> list[str]:
    """Return the paths of the nets that a recipe depends on."""
    return [name for name in recipe.nets if not is_command(name)]


def _hash_nets(recipe: TrainingRecipe) -> dict[str, list[dict[str, str]]]:
    """Return names and hashes of the nets of a recipe as an entry of `TrainingGames.inputs`, if there are any."""
    paths = _net_paths(recipe)
    return {"nets": _hash_sources([net_file(path) for path in paths])} if paths else {}


def _read_rows(
    recipe: TrainingRecipe, paths: Paths, jobs: int | None, specs: Sequence[ExampleSpec]
) -> tuple[pa.RecordBatch, int]:
    """Return the games that may be used, and the number of those that are reserved for benchmarks."""
    excluded = 0

    def select(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        nonlocal excluded
        reserved = is_reserved(to_numpy(batch["opening"])) & recipe.exclude_benchmarks
        excluded += int(np.count_nonzero(reserved))
        return ~reserved

    if open_datasets(paths) is not None:
        raise RecipeError(f"{paths[0]} is a data set; training requires games: catalogues, archives, records")
    terms = CONDITION_COLUMNS if any(map(is_command, recipe.nets)) else ()
    columns = dict.fromkeys(name for spec in specs for name in (*spec.columns(), *_COLUMNS, *terms))
    return read_games(paths, recipe.size, False, jobs, tuple(columns), select, recipe.positions), excluded


def _sample(rows: pa.RecordBatch, recipe: TrainingRecipe) -> pa.RecordBatch:
    """Return `recipe.games` of the games, those with the smallest hash of id and seed, in their original order."""
    if recipe.games is None or recipe.games >= len(rows):
        return rows
    seed = mix_words(np.array([recipe.seed], np.uint64))
    selected = np.zeros(len(rows), np.bool_)
    selected[np.argsort(mix_words(to_numpy(rows["id"]) ^ seed), kind="stable")[: recipe.games]] = True
    return select_rows(rows, selected)


def _example_specs(recipe: TrainingRecipe, teachers: Sequence[TeacherSpec]) -> list[ExampleSpec]:
    """Return the specification of the network's examples, then one for each plane set that only teachers have."""
    own = recipe.encoder().plane_set.name
    labels = {own: dict.fromkeys(recipe.labels)}
    for planes, inputs in teachers:
        labels.setdefault(planes, {"move": None}).update({inputs_label(inputs): None} if inputs else {})
    return [
        ExampleSpec(planes, recipe.size, labels=tuple(names), filter=recipe.positions)
        for planes, names in labels.items()
    ]


def _hash_sources(paths: Paths) -> list[dict[str, str]]:
    """Return the name of each source, and the hash of each that is a file."""
    sources = []
    for source in map(as_path, paths):
        entry = {"name": utf8_name(source.name)}
        try:
            if isinstance(source, Path) and is_catalogue(source):
                entry["blake3"] = open_catalogue(source).digest()
            elif not source.is_dir():
                entry["blake3"] = hash_file(source)
            sources.append(entry)
        except OSError as error:
            raise SourceError(f"cannot read {source}: {error.strerror}") from None
    return sources
