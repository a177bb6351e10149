"""Training data: the games to train on and to validate with, and batches of their positions."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from kifu.corpus.catalogue import is_catalogue, open_catalogue
from kifu.corpus.hashes import lowest_bound, mix_words, seeded_hashes
from kifu.corpus.schema import to_numpy
from kifu.corpus.splits import Ties, split_keys
from kifu.datasets.draws import Draws
from kifu.datasets.epoch_plan import LoaderConfig, Output
from kifu.datasets.examples import Batch
from kifu.datasets.global_inputs import CONDITION_COLUMNS, Conditions, shift_komi
from kifu.datasets.labels import inputs_label
from kifu.datasets.loader import Loader
from kifu.datasets.mmap_games import OWNERS_COLUMN, TARGETS_COLUMN, read_games, select_rows
from kifu.datasets.sources import DRAW_COLUMNS, PROGRAM_COLUMNS, CatalogueSource, ExampleSpec, require_games
from kifu.datasets.torch_data import tensors
from kifu.errors import RecipeError, SourceError
from kifu.execution.executor import count_cores
from kifu.io import hash_file, utf8_name
from kifu.katago.net_file import is_kata_net
from kifu.learn.benchmark import has_reserved_account, is_reserved
from kifu.learn.inference import Net
from kifu.learn.net import net_file, open_net
from kifu.learn.positions import NetPositions
from kifu.learn.targets import join_targets
from kifu.learn.torch_backend import supported_precision
from kifu.recipes.training import TrainingRecipe
from kifu.records.paths import as_path

_COLUMNS = ("opening", "black", "white", *DRAW_COLUMNS)

Paths = Sequence[str | os.PathLike[str]]

TeacherSpec = tuple[str, tuple[str, ...]]
"""Plane set and global inputs of a net that teaches."""


@dataclass(frozen=True)
class TrainingGames:
    """The games of a run.

    Attributes:
        canonical: [K] uint64, canonical hashes of the games to train on, of those to validate with, which choose the
            best net, and of those that the nets of the recipe have seen.
        excluded: Number of games of the sources that are not used because they are reserved for benchmarks.
        teachers: Plane set and global inputs of each teacher; None for a net of KataGo.
        others: The training positions for teachers with other planes, by plane set.
        following: The positions after those to train on, if there are targets.
    """

    train: CatalogueSource
    validation: CatalogueSource | None
    canonical: npt.NDArray[np.uint64]
    inputs: dict[str, list[dict[str, str]]]
    excluded: int
    teachers: tuple[TeacherSpec | None, ...] = ()
    others: Mapping[str, CatalogueSource] = field(default_factory=dict)
    following: CatalogueSource | None = None
    conditions: Conditions | None = None

    def fingerprint(self) -> dict[str, Any]:
        """Return hashes of the games and positions as JSON values."""
        validation = None if self.validation is None else self.validation.fingerprint()["source"]
        return {"train": self.train.fingerprint()["source"], "validation": validation}

    def positions(self, ids: npt.NDArray[np.uint64], ply: npt.NDArray[np.int32]) -> NetPositions:
        """Return positions of games to train on for a net of KataGo that teaches, given ids and plies [B]."""
        assert self.conditions is not None
        game = self._by_id[np.searchsorted(self.train.ids, ids, sorter=self._by_id)]
        return NetPositions.at(self.train.games, game, ply, self.conditions)

    @cached_property
    def _by_id(self) -> npt.NDArray[np.int64]:
        return np.argsort(self.train.ids, kind="stable")

    def counts(self) -> dict[str, int]:
        """Return the numbers of games."""
        held_out = 0 if self.validation is None else len(self.validation.ids)
        train = len(self.train.ids)
        return {"train_games": train, "validation_games": held_out, "benchmark_games_excluded": self.excluded}


def open_teachers(recipe: TrainingRecipe) -> list[Net | str]:
    """Open the nets among the teachers of a recipe; those of KataGo stay as they are."""
    names = recipe.teacher.nets if recipe.teacher else ()
    nets: list[Net | str] = [name if is_kata_net(name) else open_net(name) for name in names]
    nets = [name if isinstance(net, Net) and net.encoder.plane_set.inputs else net for name, net in zip(names, nets)]
    for net in nets:
        if isinstance(net, str):
            if recipe.augment:
                raise RecipeError(f"augment must be false where a net of KataGo teaches: {net}")
            continue
        net.encoder_for(*recipe.size)
        if recipe.positions.passes and not net.about.passes:
            raise RecipeError(f"teacher {net.name} does not predict passes; positions.passes must be false")
    return nets


def read_training_games(recipe: TrainingRecipe, sources: Paths, validate: Paths, jobs: int | None) -> TrainingGames:
    """Read the games of a run and hold out those for validation.

    Games that are linked with a validation game are not trained on, whichever source they come from. Short games that
    are the beginnings of several clusters are not used, as by `kifu split`. Games of
    benchmark sets, and games that share their opening, are neither trained on nor validated with, unless the recipe
    allows it.

    Args:
        sources: Catalogues, archives, folders and records to train on.
        validate: Sources to validate with; if empty, a share of the games is held out as the recipe specifies.

    Raises:
        RecipeError: A source is a data set, or a net of the recipe does not fit.
        SourceError: A source cannot be read, or no games are left.
    """
    nets = open_teachers(recipe)
    teachers = tuple(None if isinstance(net, str) else (net.about.planes, net.about.inputs) for net in nets)
    specs = _example_specs(recipe, [teacher for teacher in teachers if teacher is not None])
    rows, excluded = _read_rows(recipe, sources, jobs, specs)
    opening = to_numpy(rows["opening"])
    if validate:
        held_out, excluded_too = _read_rows(recipe, validate, jobs, specs)
        excluded += excluded_too
        ties = Ties.of([rows, held_out])
        (keys, unset), (held_keys, held_unset) = map(ties.follow, (opening, to_numpy(held_out["opening"])))
        in_training = ~(unset | np.isin(keys, held_keys))
        held_out = select_rows(held_out, ~held_unset)
    elif recipe.validation:
        shares = {"train": 1 - recipe.validation, "validation": recipe.validation}
        # Hashed once more, since the openings of a set that `kifu split` made have hashes in one range.
        keys, unset = Ties.of([rows]).follow(opening)
        in_training = split_keys(mix_words(keys), shares, recipe.seed) == 0
        held_out, in_training = select_rows(rows, ~(in_training | unset)), in_training & ~unset
    else:
        in_training, held_out = np.ones(len(rows), np.bool_), None
    train = _sample(select_rows(rows, in_training), recipe)
    if not len(train) or (held_out is not None and not len(held_out)):
        purpose = "train on" if not len(train) else "validate with"
        held = ", ".join(map(str, validate)) or recipe.validation
        reserved = f"; {excluded:,} more are reserved for benchmarks" if excluded else ""
        raise SourceError(f"none of {len(rows):,} games is left to {purpose}; validation is {held}{reserved}")
    used = [train] if held_out is None else [train, held_out]
    own, *others = (CatalogueSource(train, spec) for spec in specs)
    for other in others:
        if other.fingerprint() != own.fingerprint():
            raise RecipeError(f"a teacher's planes {other.layout.plane_set} cannot be drawn of the same positions")
    inputs = {"train": _hash_sources(sources), "validation": _hash_sources(validate)}
    if recipe.nets:
        inputs["nets"] = _hash_sources([net_file(path) for path in recipe.nets])
    canonical = [to_numpy(rows["canonical"]) for rows in used]
    canonical += [open_net(path).games for path in recipe.nets if not is_kata_net(path)]
    validation = None if held_out is None else CatalogueSource(held_out, _example_specs(recipe, ())[0])
    following = CatalogueSource(train, specs[0], following=True) if recipe.targets else None
    conditions = Conditions.from_rows(train) if None in teachers else None
    by_planes = {other.layout.plane_set: other for other in others}
    return TrainingGames(
        own, validation, np.concatenate(canonical), inputs, excluded, teachers, by_planes, following, conditions
    )


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

    require_games(paths, "training")
    conditions = CONDITION_COLUMNS if recipe.teacher else ()
    columns = dict.fromkeys(name for spec in specs for name in (*spec.columns(), *_COLUMNS, *conditions))
    for name in (TARGETS_COLUMN, OWNERS_COLUMN):  # joined below
        columns.pop(name, None)
    rows = read_games(paths, recipe.size, False, jobs, tuple(columns), select, recipe.positions)
    if recipe.targets:
        rows = join_targets(rows, recipe.targets, recipe.size[0] * recipe.size[1])
    return _mark_left_out(rows, recipe), excluded


def _mark_left_out(rows: pa.RecordBatch, recipe: TrainingRecipe) -> pa.RecordBatch:
    """Return the rows with the programs and accounts whose moves are left out in the columns of programs.

    Where programs alone play, as in the packaged sample, their moves are learned.
    """
    programs = [to_numpy(rows[name]) for name in PROGRAM_COLUMNS]
    learned = recipe.positions.programs or bool(np.all(programs))
    for name, program in zip(PROGRAM_COLUMNS, programs):
        left_out = program & (not learned)
        if recipe.exclude_benchmarks:
            left_out |= has_reserved_account(rows[name.removesuffix("_program")])
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(left_out))
    return rows


def _sample(rows: pa.RecordBatch, recipe: TrainingRecipe) -> pa.RecordBatch:
    """Return `recipe.games` of the games, those with the smallest hash of id and seed, in their original order."""
    if recipe.games is None or recipe.games >= len(rows):
        return rows
    hashes = seeded_hashes(to_numpy(rows["id"]), recipe.seed)
    return select_rows(rows, hashes <= lowest_bound(hashes, recipe.games))


def _example_specs(recipe: TrainingRecipe, teachers: Sequence[TeacherSpec]) -> list[ExampleSpec]:
    """Return the specification of the network's examples, then one for each plane set that only teachers have."""
    labels = {recipe.encoder().plane_set.name: dict.fromkeys(recipe.labels)}
    for planes, inputs in teachers:
        labels.setdefault(planes, {"move": None}).update({inputs_label(inputs): None} if inputs else {})
    positions = replace(recipe.positions, programs=False)
    if recipe.targets:  # which are of few positions of a game
        positions = replace(positions, per_game=None)
    return [ExampleSpec(planes, recipe.size, labels=tuple(names), filter=positions) for planes, names in labels.items()]


def _hash_sources(paths: Paths) -> list[dict[str, str]]:
    sources = []
    for source in map(as_path, paths):
        entry = {"name": utf8_name(source.name)}
        try:
            if isinstance(source, Path) and is_catalogue(source):
                entry["blake3"] = open_catalogue(source).digest()
            elif not source.is_dir():
                entry["blake3"] = hash_file(source if isinstance(source, Path) else source.local())
            sources.append(entry)
        except OSError as error:
            raise SourceError(f"cannot read {source}: {error.strerror}") from None
    return sources


class TrainingBatch(NamedTuple):
    """A batch of positions with their labels.

    Attributes:
        planes: In the loader's output format: [B, C, H, W], or packed [B, C, bytes].
        result: [B] int8, if the network has a value head.
        ownership: [B, N] int8, see the label "owner", if there are targets; the first half of the batch then precedes
            the second by a move.
        score: [B, 2] float32, the label "lead", and to_play [B] int8, likewise.
        next: [B, 3] int16, the next three moves, if the network has a head for the last two of them.
        globals: [B, G] float32, if the network has global inputs.
        next_position: Epoch and batch that follow this batch, see `TrainingData.position`.
        teachers: What each teacher is asked, until they have labelled the batch: planes and global inputs for a net,
            ids of games [B] as int64 and plies [B] for a net of KataGo (`TrainingGames.positions`).
        soft_policy: [B, moves] float32, the probabilities that teachers give.
        soft_value: [B] float32, if a teacher has a value.
    """

    planes: Tensor
    move: Tensor
    result: Tensor | None = None
    ownership: Tensor | None = None
    score: Tensor | None = None
    to_play: Tensor | None = None
    next: Tensor | None = None
    globals: Tensor | None = None
    next_position: tuple[int, int] = (0, 0)
    teachers: tuple[tuple[Tensor, Tensor | None], ...] = ()
    soft_policy: Tensor | None = None
    soft_value: Tensor | None = None


def move(value: Any, device: torch.device) -> Any:
    """Return a batch, or a value in one, on a device; a GPU copies pinned memory in the background."""
    if isinstance(value, tuple):
        moved = (move(each, device) for each in value)
        return TrainingBatch(*moved) if isinstance(value, TrainingBatch) else tuple(moved)
    return value.to(device, non_blocking=device.type == "cuda") if isinstance(value, Tensor) else value


def randomize_komi(batch: Batch, recipe: TrainingRecipe, epoch: int, after: Batch | None = None) -> Batch:
    """Return the batch with the komi of each position shifted at random, and the leads and results that follow.

    In records, komi tells who is stronger: with 0.5 points, Black usually is the weaker player, and a net that learns
    from records takes a small komi for an advantage of White. A random komi tells nothing of the players. The result
    of a counted game follows from its margin. The others keep theirs, as if players who resign were too far behind for
    any komi of this range.

    Args:
        recipe: Names the inputs, and the largest shift in points, `random_komi`. Shifts are whole numbers, from
            -random_komi to random_komi with equal probability.
        epoch: Number of the epoch. The seed of the recipe, epoch, game and ply determine the shift of a position.
        after: The positions after those of the batch, with the opponent to move, to be returned in their place with the
            same komi.
    """
    inputs, largest = inputs_label(recipe.inputs), recipe.random_komi
    start = mix_words(mix_words(np.array([recipe.seed], np.uint64)) + np.uint64(epoch))
    words = mix_words(mix_words(batch.game ^ start) + batch.ply.astype(np.uint64))
    points = (words % np.uint64(2 * largest + 1)).astype(np.float32) - np.float32(largest)
    batch, points = (batch, points) if after is None else (after, -points)
    values, given = shift_komi(recipe.inputs, batch.labels[inputs], points)
    margin = batch.labels["margin"] + given
    result = np.where(np.isnan(margin), batch.labels["result"], np.sign(np.nan_to_num(margin))).astype(np.int8)
    labels = {**batch.labels, "result": result, "margin": margin, inputs: values}
    if "lead" in labels:
        labels["lead"] = labels["lead"] + np.stack([given, np.zeros_like(given)], 1)
    return replace(batch, labels=labels)


def _concatenate(batches: Sequence[Batch]) -> dict[str, Tensor]:
    """Return the arrays of consecutive batches as tensors by name."""
    parts = [tensors(batch) for batch in batches]
    return parts[0] if len(parts) == 1 else {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


_PREFETCH = 8
"""Batches that are prepared in advance for a GPU."""


def count_training_draws(
    recipe: TrainingRecipe, sources: Paths, validate: Paths, epoch: int, jobs: int | None = None
) -> Draws:
    """Count the positions that a run trains on in an epoch, from 0; arguments as for `read_training_games`."""
    games = read_training_games(recipe, sources, validate, jobs)
    return TrainingData(recipe, games, on_gpu=True)._start.epoch(epoch).draws()


class TrainingData(IterableDataset):  # type: ignore[misc]  # torch may not be installed where types are checked
    """The batches of one process, which a worker of a `DataLoader` prepares if a GPU learns from them."""

    def __init__(
        self, recipe: TrainingRecipe, games: TrainingGames, process_index: int = 0, world_size: int = 1,
        local_world_size: int = 1, on_gpu: bool = False,
    ) -> None:  # fmt: skip
        """Prepare the batches of one process.

        Args:
            local_world_size: Number of these on this machine, which share its cores.
            on_gpu: Prepare packed planes in a process of its own, so that they don't wait for the training loop.
        """
        self.recipe, self.games = recipe, games
        self.position = (0, 0)
        self.process_index, self.world_size, self._local_world_size = process_index, world_size, local_world_size
        self._on_gpu = on_gpu

    def state_dict(self) -> dict[str, Any]:
        """Return the present position for `load_state_dict`; it is the same in all processes."""
        return self._start.epoch(*self.position).state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at the position of a run with the same recipe, games and number of processes."""
        for loader in (self._start, *self._others.values(), *self._following):
            loader.load_state_dict(state)
        self.position = self._start.position

    @property
    def epochs_done(self) -> float:
        """Number of epochs delivered so far."""
        epoch, batch = self.position
        return epoch + batch / self.epoch_batches

    @property
    def _cores(self) -> int:
        """Number of cores that prepare batches. If they run the network, more would only compete with it."""
        return max(count_cores() // self._local_world_size, 1) if self._on_gpu else 1

    def _loader(self, source: CatalogueSource, batch_size: int, config: LoaderConfig) -> Loader:
        """Return a loader whose planes are packed for a GPU, which unpacks them, and else as the network takes them."""
        output: Output = "packed" if self._on_gpu else supported_precision(self.recipe.precision, torch.device("cpu"))
        return Loader(source, replace(config, output="float32" if source.layout.real else output), batch_size)

    def _train_loader(self, source: CatalogueSource) -> Loader:
        """Return a loader of full batches for this process, at the start of the run."""
        recipe = self.recipe
        config = LoaderConfig(
            seed=recipe.seed, window=recipe.window, augment=recipe.augment, drop_last=True,
            process_index=self.process_index, world_size=self.world_size, jobs=self._cores,
        )  # fmt: skip
        pairs = 2 if recipe.targets else 1
        return self._loader(source, recipe.batch_size // self.world_size // pairs, config)

    @cached_property
    def _start(self) -> Loader:
        """The loader where the run started or resumed."""
        return self._train_loader(self.games.train)

    @cached_property
    def _others(self) -> dict[str, Loader]:
        """Loaders of the same positions for teachers with other planes, by plane set."""
        return {planes: self._train_loader(source) for planes, source in self.games.others.items()}

    @cached_property
    def _following(self) -> list[Loader]:
        """The loader of the positions that follow, if the recipe asks for one."""
        return [] if self.games.following is None else [self._train_loader(self.games.following)]

    @cached_property
    def epoch_batches(self) -> int:
        """Number of batches of the first epoch; later epochs differ if positions are sampled."""
        return len(self._train_loader(self.games.train))

    def batches(self) -> Generator[TrainingBatch]:
        """Yield training batches from `position` on, epoch after epoch, without end."""
        if not self._on_gpu:
            yield from self
            return
        loader = DataLoader(
            self, batch_size=None, num_workers=1, pin_memory=True, prefetch_factor=_PREFETCH,
            multiprocessing_context="fork",
        )  # fmt: skip
        try:
            for batch in loader:  # which makes lists of tuples
                yield batch._replace(next_position=tuple(batch.next_position))
        except RecipeError as error:  # of a worker, with its traceback
            raise RecipeError(error.args[0].rstrip().rpartition("\n")[2].partition(": ")[2]) from None

    def __iter__(self) -> Generator[TrainingBatch]:
        epoch, first = self.position
        while True:
            loaders = [each.epoch(epoch, first) for each in (self._start, *self._others.values(), *self._following)]
            count = len(loaders[0])
            if not count:
                moves = len(self.games.train.games.moves)
                raise RecipeError(
                    f"the training games have {moves:,} moves, and epoch {epoch} has fewer positions than one batch"
                    f" ({self.recipe.batch_size})"
                )
            for number, batches in enumerate(zip(*loaders, strict=True), first + 1):
                yield self._prepare(batches, epoch, (epoch, number) if number < count else (epoch + 1, 0))
            epoch, first = epoch + 1, 0

    def _prepare(self, batches: tuple[Batch, ...], epoch: int, next_position: tuple[int, int]) -> TrainingBatch:
        count = 1 + len(self._others)
        batch, *parts = batches[:count]
        own = [batch, *batches[count:]]  # with the positions after these, if there are targets
        values = _concatenate(own)
        teachers = self._teacher_inputs(values, dict(zip(self._others, map(tensors, parts))))
        if self.recipe.random_komi:
            values = _concatenate([randomize_komi(batch, self.recipe, epoch, after) for after in (None, *own[1:])])
        return self._make_batch(values, next_position, teachers)

    def _teacher_inputs(
        self, own: dict[str, Tensor], others: Mapping[str, dict[str, Tensor]]
    ) -> tuple[tuple[Tensor, Tensor | None], ...]:
        """Return `TrainingBatch.teachers` from values of the student's loader and of the others by plane set."""
        inputs: list[tuple[Tensor, Tensor | None]] = []
        for planes, values in others.items():
            if not all(values[name].equal(own[name]) for name in ("game", "ply")):
                raise AssertionError(f"the loader of {planes} yields other positions")
        for teacher in self.games.teachers:
            if teacher is None:
                inputs.append((own["game"], own["ply"]))
            else:
                values = others.get(teacher[0], own)
                inputs.append((values["planes"], values.get(inputs_label(teacher[1]))))
        return tuple(inputs)

    def validation_batches(self) -> Generator[TrainingBatch]:
        """Yield this process' part of the validation positions, which do not depend on the number of processes."""
        assert self.games.validation is not None
        remaining = self.recipe.validation_positions
        size = min(max(self.recipe.batch_size, 256), remaining)
        config = LoaderConfig(seed=self.recipe.seed, window=self.recipe.window, augment=False, jobs=self._cores)
        for batch in self._loader(self.games.validation, size, config):
            count = min(len(batch), remaining)
            start, stop = (count * k // self.world_size for k in (self.process_index, self.process_index + 1))
            part = batch.slice(start, stop)
            if len(part):
                yield self._make_batch(tensors(part), (0, 0))
            remaining -= count
            if not remaining:
                break

    def _make_batch(
        self, values: dict[str, Tensor], next_position: tuple[int, int],
        teachers: tuple[tuple[Tensor, Tensor | None], ...] = (),
    ) -> TrainingBatch:  # fmt: skip
        return TrainingBatch(
            values["planes"], values["move"], values.get("result"), values.get("owner"), values.get("lead"),
            values.get("to_play"), values.get("next3"), self._globals(values), next_position, teachers,
        )  # fmt: skip

    def _globals(self, values: dict[str, Tensor]) -> Tensor | None:
        inputs = [values[name] for name in ("globals", inputs_label(self.recipe.inputs)) if name in values]
        return torch.cat(inputs, 1) if len(inputs) > 1 else next(iter(inputs), None)
