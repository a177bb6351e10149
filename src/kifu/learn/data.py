"""Training data: batches of the positions of a run's games."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from kifu.corpus._hashes import mix_words
from kifu.datasets.draws import Draws
from kifu.datasets.epoch_plan import LoaderConfig, Output
from kifu.datasets.examples import Batch
from kifu.datasets.global_inputs import shift_komi
from kifu.datasets.labels import inputs_label
from kifu.datasets.loader import Loader
from kifu.datasets.sources import CatalogueSource
from kifu.datasets.torch_data import tensors
from kifu.errors import RecipeError
from kifu.execution.executor import count_cores, prefetch
from kifu.learn.hardware import supported_precision
from kifu.learn.training_games import Paths, TeacherSpec, TrainingGames, read_training_games
from kifu.recipes.training import TrainingRecipe


class TeacherInputs(NamedTuple):
    """The inputs of a teacher for a batch.

    Attributes:
        planes: In the format of the loader, as in `TrainingBatch`.
        globals: [B, G] float32, its global inputs, if it has any.
    """

    planes: Tensor
    globals: Tensor | None


class TeacherPositions(NamedTuple):
    """The positions of a batch, for an engine, see `kifu.learn.training_games.TrainingGames.positions`.

    Attributes:
        game: [B] int64, the bits of each game's id.
        ply: [B] int32.
    """

    game: Tensor
    ply: Tensor


class SoftTargets(NamedTuple):
    """The targets that teachers give for a batch.

    Attributes:
        policy: [B, moves] float32, probabilities.
        value: [B] float32, or None if no teacher has a value.
    """

    policy: Tensor
    value: Tensor | None


class TrainingBatch(NamedTuple):
    """A batch of positions with their labels.

    Attributes:
        planes: In the loader's output format: [B, C, H, W], or packed [B, C, bytes].
        move: [B] int64, the move played.
        result: [B] int8, if the network has a value head.
        ownership: [B, N] int8, if the network has an ownership head.
        globals: [B, G] float32, if the network has global inputs.
        next_position: Epoch and batch that follow this batch, see `TrainingData.position`.
        teachers: The inputs of each teacher for these positions, until they have labelled the batch.
    """

    planes: Tensor
    move: Tensor
    result: Tensor | None = None
    ownership: Tensor | None = None
    globals: Tensor | None = None
    next_position: tuple[int, int] = (0, 0)
    teachers: tuple[TeacherInputs | TeacherPositions, ...] = ()
    soft: SoftTargets | None = None


def randomize_komi(batch: Batch, recipe: TrainingRecipe, epoch: int) -> Batch:
    """Return the batch with the komi of each position shifted at random, and the results that follow.

    In records, komi tells who is stronger: with 0.5 points, Black usually is the weaker player, and a net that learns
    from records takes a small komi for an advantage of White. A random komi tells nothing of the players. The result
    of a counted game follows from its margin. The others keep theirs, as if players who resign were too far behind for
    any komi of this range.

    Args:
        batch: Examples with the labels of the recipe.
        recipe: Names the inputs, and the largest shift in points, `random_komi`. Shifts are whole numbers, from
            -random_komi to random_komi with equal probability.
        epoch: Number of the epoch. The seed of the recipe, epoch, game and ply determine the shift of a position.
    """
    inputs, most = inputs_label(recipe.inputs), recipe.random_komi
    start = mix_words(mix_words(np.array([recipe.seed], np.uint64)) + np.uint64(epoch))
    words = mix_words(mix_words(batch.game ^ start) + batch.ply.astype(np.uint64))
    points = (words % np.uint64(2 * most + 1)).astype(np.float32) - np.float32(most)
    values, given = shift_komi(recipe.inputs, batch.labels[inputs], points)
    margin = batch.labels["margin"] + given
    result = np.where(np.isnan(margin), batch.labels["result"], np.sign(np.nan_to_num(margin))).astype(np.int8)
    return replace(batch, labels={**batch.labels, "result": result, inputs: values})


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
