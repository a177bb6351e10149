"""What a run learns from and is validated with: games, held apart, and the batches that come of them."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lightning.pytorch import LightningDataModule
from torch import Tensor

from kifu.atomic_io import hash_file
from kifu.corpus._hashes import mix_words
from kifu.corpus.catalogue import is_catalogue, open_catalogue
from kifu.corpus.schema import to_numpy
from kifu.corpus.splits import split_keys
from kifu.datasets.epoch_plan import LoaderConfig, Output
from kifu.datasets.loader import Loader
from kifu.datasets.mmap_games import read_games, select_rows
from kifu.datasets.sources import CatalogueSource, ExampleSpec, open_datasets
from kifu.datasets.torch_data import tensors
from kifu.errors import RecipeError, SourceError
from kifu.execution.executor import prefetch
from kifu.recipes.training import TrainingRecipe
from kifu.records.paths import as_path

_COLUMNS = ("canonical", "opening")

_READY = 2
"""Batches that are in pinned memory before a GPU asks for them."""

Paths = Sequence[str | os.PathLike[str]]


class TrainingBatch(NamedTuple):
    """A batch, as a net learns from it.

    planes: as the loader's output says.  move: [B] int64.  result: [B] int8 and ownership: [B, N] int8, if there are
    such heads.  place: epoch and batch that come after it, as in `DataModule`.
    """

    planes: Tensor
    move: Tensor
    result: Tensor | None = None
    ownership: Tensor | None = None
    place: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class TrainingGames:
    """The games of a run: to learn from, and, if any are held out, to validate with. inputs: the sources' hashes."""

    train: CatalogueSource
    validation: CatalogueSource | None
    canonical: npt.NDArray[np.uint64]
    inputs: dict[str, list[dict[str, str]]]

    def told(self) -> dict[str, Any]:
        """What tells these games from others, as JSON values."""
        return {
            "train": self.train.fingerprint()["source"],
            "validation": None if self.validation is None else self.validation.fingerprint()["source"],
        }

    def counts(self) -> dict[str, int]:
        """How many games there are."""
        return {
            "train_games": len(self.train.ids),
            "validation_games": 0 if self.validation is None else len(self.validation.ids),
        }


def read_all(recipe: TrainingRecipe, sources: Paths, validate: Paths, jobs: int | None) -> TrainingGames:
    """Reads the games of a run, and holds those apart that it is validated with.

    A game with the opening of one to validate with is not learned from, wherever it comes from. Raises RecipeError,
    SourceError or FormatError.
    """
    rows = _read(recipe, sources, jobs)
    opening = to_numpy(rows["opening"])
    if validate:
        held = _read(recipe, validate, jobs)
        learned = ~np.isin(opening, to_numpy(held["opening"]))
    elif recipe.validation:
        shares = {"train": 1 - recipe.validation, "validation": recipe.validation}
        learned = split_keys(opening, shares, recipe.seed) == 0
        held = select_rows(rows, ~learned)
    else:
        learned, held = np.ones(len(rows), np.bool_), None
    train = _draw(select_rows(rows, learned), recipe)
    if not len(train) or (held is not None and not len(held)):
        which = "learn from" if not len(train) else "validate with"
        raise SourceError(f"none of {len(rows):,} games is left to {which}; validation is {recipe.validation}")
    return TrainingGames(
        _source(recipe, train),
        None if held is None else _source(recipe, held),
        to_numpy(train["canonical"]),
        {"train": _hashes(sources), "validation": _hashes(validate)},
    )


def _read(recipe: TrainingRecipe, paths: Paths, jobs: int | None) -> pa.RecordBatch:
    if open_datasets(paths) is not None:
        raise RecipeError(
            f"{paths[0]} is a data set that is written already; a net learns from games: catalogues, archives, records"
        )
    return read_games(paths, recipe.size, False, jobs, (*_spec(recipe).columns(), *_COLUMNS))


def _draw(rows: pa.RecordBatch, recipe: TrainingRecipe) -> pa.RecordBatch:
    """So many of the games as the recipe takes: those with the smallest hash of id and seed, in their old order."""
    if recipe.games is None or recipe.games >= len(rows):
        return rows
    seed = mix_words(np.array([recipe.seed], np.uint64))
    drawn = np.zeros(len(rows), np.bool_)
    drawn[np.argsort(mix_words(to_numpy(rows["id"]) ^ seed), kind="stable")[: recipe.games]] = True
    return select_rows(rows, drawn)


def _spec(recipe: TrainingRecipe) -> ExampleSpec:
    return ExampleSpec(recipe.planes, recipe.size, labels=recipe.labels, filter=recipe.positions)


def _source(recipe: TrainingRecipe, rows: pa.RecordBatch) -> CatalogueSource:
    return CatalogueSource(rows, _spec(recipe))


def _hashes(paths: Paths) -> list[dict[str, str]]:
    """Names of the sources, and the hash of each that is a file."""
    found = []
    for source in map(as_path, paths):
        told = {"name": source.name}
        try:
            if isinstance(source, Path) and is_catalogue(source):
                told["blake3"] = open_catalogue(source).digest()
            elif not source.is_dir():
                told["blake3"] = hash_file(source)
            found.append(told)
        except OSError as error:
            raise SourceError(f"cannot read {source}: {error.strerror}") from None
    return found


class DataModule(LightningDataModule):  # type: ignore[misc]
    """Batches for the processes of a run, from where it stands.

    place: epoch and batch that come next; of an epoch that another number of processes has begun, batches are counted
    from there.
    """

    def __init__(self, recipe: TrainingRecipe, games: TrainingGames) -> None:
        super().__init__()
        self.recipe, self.games = recipe, games
        self.place = (0, 0)

    def state(self) -> dict[str, Any]:
        """Where the run stands, for `resume`: the same in all processes."""
        return self._begun.epoch(*self.place).state()

    def resume(self, state: Mapping[str, Any]) -> None:
        """Goes to where a run of the same recipe and games stood, of any number of processes. Raises RecipeError."""
        self._begun.resume(state)
        self.place = self._begun.position[:2]

    @property
    def epochs(self) -> float:
        """How many epochs are done."""
        epoch, batch = self.place
        earlier = self._begun.position.before if epoch == self._begun.epoch_number else ()
        return epoch + (batch + sum(stage.batches for stage in earlier)) / self.batches

    @cached_property
    def _on_gpu(self) -> bool:
        return bool(self.trainer.strategy.root_device.type == "cuda")

    @property
    def output(self) -> Output:
        """What planes come as: packed for a GPU, which unpacks them; else as the net takes them."""
        if self.games.train.layout.real:
            return "float32"
        return "packed" if self._on_gpu else self.recipe.precision

    def _loader(self, source: CatalogueSource, batch_size: int, config: LoaderConfig) -> Loader:
        # If the network computes on the cores, more loader threads would only compete with it.
        jobs = max((os.cpu_count() or 1) // self.trainer.world_size, 1) if self._on_gpu else 1
        return Loader(source, replace(config, output=self.output, jobs=jobs), batch_size)

    def _train(self) -> Loader:
        """This process' share, all batches of which are full, at the beginning of the run."""
        recipe, rank, world_size = self.recipe, self.trainer.global_rank, self.trainer.world_size
        size = recipe.batch_size // world_size
        config = LoaderConfig(
            seed=recipe.seed,
            window=recipe.window,
            augment=recipe.augment,
            drop_last=True,
            rank=rank,
            world_size=world_size,
        )
        return self._loader(self.games.train, size, config)

    @cached_property
    def _begun(self) -> Loader:
        """The same, where these processes began or go on."""
        return self._train()

    @cached_property
    def batches(self) -> int:
        """How many batches the first epoch has, however many processes share them.

        Later ones differ where positions are drawn by chance.
        """
        return len(self._train())

    def train_dataloader(self) -> Iterable[TrainingBatch]:
        """Batches without end, epoch after epoch."""
        return _Endless(self)

    def endless(self) -> Generator[TrainingBatch]:
        """What `train_dataloader` gives."""
        loader = self._begun.epoch(*self.place)
        while True:
            epoch, first, _ = loader.position
            count = len(loader)
            if not count:
                raise RecipeError(
                    f"there are {self.games.train.cost(np.arange(len(self.games.train.ids))).sum():,} moves to learn"
                    f" from, and epoch {epoch} has fewer positions than the {self.recipe.batch_size} of a batch"
                )
            for k, batch in enumerate(loader, first + 1):
                yield self._ready(tensors(batch), (epoch, k) if k < count else (epoch + 1, 0))

    def validation(self) -> Generator[TrainingBatch]:
        """This process' part of the positions to validate with, which are the same for any number of processes."""
        assert self.games.validation is not None
        rank, world_size = self.trainer.global_rank, self.trainer.world_size
        left = self.recipe.validation_positions
        size = min(max(self.recipe.batch_size, 256), left)
        config = LoaderConfig(seed=self.recipe.seed, window=self.recipe.window, augment=False)
        for batch in self._loader(self.games.validation, size, config):
            count = min(len(batch), left)
            part = batch.slice(count * rank // world_size, count * (rank + 1) // world_size)
            if len(part):
                yield self._ready(tensors(part), (0, 0))
            left -= count
            if not left:
                break

    def _ready(self, told: dict[str, Tensor], place: tuple[int, int]) -> TrainingBatch:
        if self._on_gpu:  # memory that it reads without help
            told = {name: value.pin_memory() for name, value in told.items()}
        return TrainingBatch(told["planes"], told["move"], told.get("result"), told.get("ownership"), place)


class _Endless:
    """Iterates over a feed from where it stands; a trainer asks for it before it knows how far the run has come."""

    def __init__(self, feed: DataModule) -> None:
        self._feed = feed

    def __iter__(self) -> Iterator[TrainingBatch]:
        batches = self._feed.endless()
        return prefetch(batches, _READY) if self._feed._on_gpu else batches
