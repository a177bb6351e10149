"""Training data: batches of the positions of a run's games."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from kifu.datasets.draws import Draws
from kifu.datasets.epoch_plan import LoaderConfig, Output
from kifu.datasets.examples import Batch
from kifu.datasets.labels import inputs_label
from kifu.datasets.loader import Loader
from kifu.datasets.sources import CatalogueSource
from kifu.datasets.torch_data import tensors
from kifu.errors import RecipeError
from kifu.execution.executor import count_cores, prefetch
from kifu.learn.batch import TeacherInputs, TeacherPositions, TrainingBatch
from kifu.learn.hardware import supported_precision
from kifu.learn.random_komi import randomize_komi
from kifu.learn.training_games import Paths, TeacherSpec, TrainingGames, read_training_games
from kifu.recipes.training import TrainingRecipe

_PINNED_BATCHES = 2
"""Batches that wait in pinned memory for the GPU."""


def loader_config(recipe: TrainingRecipe) -> LoaderConfig:
    """Return the options of the loader of a run on one process."""
    return LoaderConfig(
        seed=recipe.seed, window=recipe.window, augment=recipe.augment, drop_last=True, order="global-batch"
    )


def count_training_draws(
    recipe: TrainingRecipe, sources: Paths, validate: Paths, epoch: int, jobs: int | None = None
) -> Draws:
    """Count the positions that a run trains on in an epoch, from 0; see `read_training_games` for the other arguments.

    Raises:
        RecipeError: A source is a data set, or a net of the recipe does not fit.
        SourceError: A source cannot be read, or no games are left.
        FormatError: A source or net is damaged.
    """
    games = read_training_games(recipe, sources, validate, jobs)
    return Loader(games.train, loader_config(recipe), recipe.batch_size).epoch(epoch).draws()


class TrainingData:
    """The batches of one process.

    Attributes:
        position: Epoch and batch to deliver next. In an epoch that was started with another number of processes,
            batches are counted from the change.
    """

    def __init__(
        self,
        recipe: TrainingRecipe,
        games: TrainingGames,
        rank: int = 0,
        world_size: int = 1,
        local_world_size: int = 1,
        on_gpu: bool = False,
    ) -> None:
        """Prepare the batches of one process.

        Args:
            local_world_size: Number of these on this machine, which share its cores.
            on_gpu: Deliver packed planes in pinned memory.
        """
        self.recipe, self.games = recipe, games
        self.position = (0, 0)
        self._rank, self._world_size, self._local_world_size = rank, world_size, local_world_size
        self._on_gpu = on_gpu

    def state_dict(self) -> dict[str, Any]:
        """Return the present position for `load_state_dict`; it is the same in all processes."""
        return self._start.epoch(*self.position).state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at the position of a run with the same recipe and games and any number of processes.

        Raises:
            RecipeError: The state does not fit the recipe and games.
        """
        for loader in (self._start, *self._others.values()):
            loader.load_state_dict(state)
        self.position = self._start.position[:2]

    @property
    def epochs_done(self) -> float:
        """Number of epochs delivered so far."""
        epoch, batch = self.position
        earlier = self._start.position.before if epoch == self._start.epoch_number else ()
        return epoch + (batch + sum(stage.batches for stage in earlier)) / self.epoch_batches

    @property
    def output(self) -> Output:
        """The format of the planes: packed for a GPU, which unpacks them; otherwise as the network takes them."""
        return self._output(self.games.train)

    def _output(self, source: CatalogueSource) -> Output:
        if source.layout.real:
            return "float32"
        return "packed" if self._on_gpu else supported_precision(self.recipe.precision, torch.device("cpu"))

    def _loader(self, source: CatalogueSource, batch_size: int, config: LoaderConfig) -> Loader:
        # If the cores run the network, more loader threads would only compete with it.
        jobs = max(count_cores() // self._local_world_size, 1) if self._on_gpu else 1
        return Loader(source, replace(config, output=self._output(source), jobs=jobs), batch_size)

    def _train_loader(self, source: CatalogueSource) -> Loader:
        """Return a loader of full batches for this process, at the start of the run."""
        config = replace(loader_config(self.recipe), rank=self._rank, world_size=self._world_size)
        return self._loader(source, self.recipe.batch_size // self._world_size, config)

    @cached_property
    def _start(self) -> Loader:
        """The same loader where the present processes started or resumed."""
        return self._train_loader(self.games.train)

    @cached_property
    def _others(self) -> dict[str, Loader]:
        """Loaders of the same positions for teachers with other planes, by plane set."""
        return {planes: self._train_loader(source) for planes, source in self.games.others.items()}

    @cached_property
    def epoch_batches(self) -> int:
        """Number of batches of the first epoch, which does not depend on the number of processes.

        Later epochs differ if positions are sampled.
        """
        return len(self._train_loader(self.games.train))

    def batches(self) -> Generator[TrainingBatch]:
        """Yield training batches from `position` on, epoch after epoch, without end.

        Raises:
            RecipeError: An epoch has fewer positions than a batch.
        """
        batches = self._endless_batches()
        return prefetch(batches, _PINNED_BATCHES) if self._on_gpu else batches

    def _endless_batches(self) -> Generator[TrainingBatch]:
        loader = self._start.epoch(*self.position)
        others = {planes: other.epoch(*self.position) for planes, other in self._others.items()}
        while True:
            epoch, first, _ = loader.position
            count = len(loader)
            if not count:
                moves = len(self.games.train.games.moves)
                raise RecipeError(
                    f"the training games have {moves:,} moves, and epoch {epoch} has fewer positions than one batch"
                    f" ({self.recipe.batch_size})"
                )
            for k, (batch, *parts) in enumerate(zip(loader, *others.values(), strict=True), first + 1):
                values, seen = self._tensors(batch), dict(zip(others, map(self._tensors, parts)))
                following, teachers = (epoch, k) if k < count else (epoch + 1, 0), self._teacher_inputs(values, seen)
                if self.recipe.random_komi:
                    values = self._tensors(randomize_komi(batch, self.recipe, epoch))
                yield self._make_batch(values, following, teachers)

    def _teacher_inputs(
        self, own: dict[str, Tensor], others: Mapping[str, dict[str, Tensor]]
    ) -> tuple[TeacherInputs | TeacherPositions, ...]:
        """Return the inputs of each teacher from values of the student's loader and of the others by plane set."""
        for planes, values in others.items():
            if not all(values[name].equal(own[name]) for name in ("game", "ply")):
                raise AssertionError(f"the loader of {planes} yields other positions")

        def inputs_of(teacher: TeacherSpec | None) -> TeacherInputs | TeacherPositions:
            if teacher is None:
                return TeacherPositions(own["game"], own["ply"])
            seen = others.get(teacher.planes, own)
            return TeacherInputs(seen["planes"], seen.get(inputs_label(teacher.inputs)))

        return tuple(map(inputs_of, self.games.teachers))

    def validation_batches(self) -> Generator[TrainingBatch]:
        """Yield this process' part of the validation positions, which do not depend on the number of processes."""
        assert self.games.validation is not None
        remaining = self.recipe.validation_positions
        size = min(max(self.recipe.batch_size, 256), remaining)
        config = LoaderConfig(seed=self.recipe.seed, window=self.recipe.window, augment=False)
        for batch in self._loader(self.games.validation, size, config):
            count = min(len(batch), remaining)
            start, stop = (count * rank // self._world_size for rank in (self._rank, self._rank + 1))
            part = batch.slice(start, stop)
            if len(part):
                yield self._make_batch(self._tensors(part), (0, 0))
            remaining -= count
            if not remaining:
                break

    def _tensors(self, batch: Batch) -> dict[str, Tensor]:
        values = tensors(batch)
        if self._on_gpu:  # pinned memory is copied to the device asynchronously
            return {name: value.pin_memory() for name, value in values.items()}
        return values

    def _make_batch(
        self,
        values: dict[str, Tensor],
        next_position: tuple[int, int],
        teachers: tuple[TeacherInputs | TeacherPositions, ...] = (),
    ) -> TrainingBatch:
        return TrainingBatch(
            values["planes"], values["move"], values.get("result"), values.get("ownership"),
            values.get(inputs_label(self.recipe.inputs)), next_position, teachers,
        )  # fmt: skip
