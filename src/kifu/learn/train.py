"""Training: a recipe and games become a net, in the folder of a run."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch.multiprocessing import ProcessRaisedException

from kifu import errors
from kifu.atomic_io import locked_folder, write_file
from kifu.config import check_config
from kifu.errors import KifuError, RecipeError, first_line
from kifu.learn.checkpoint import SafeCheckpoints, read_checkpoint
from kifu.learn.curves import draw_curves
from kifu.learn.data import DataModule, TrainingGames, read_all
from kifu.learn.folder import BOARD, CURVES, LAST, MANIFEST, METRICS, Run, difference, read_run
from kifu.learn.metrics import latest, read_metrics
from kifu.learn.module import PolicyModule
from kifu.learn.nets import make_net
from kifu.learn.nets.init import initialise
from kifu.learn.run import LOGS, Conductor, silence_lightning
from kifu.progress import ProgressFactory, silent
from kifu.recipes.schema import load_training
from kifu.recipes.training import TrainingRecipe

_PRECISION = {"float32": "32-true", "bfloat16": "bf16-mixed"}


def train(
    recipe: str | TrainingRecipe,
    sources: Iterable[str | os.PathLike[str]],
    into: str | os.PathLike[str],
    *,
    validate: Iterable[str | os.PathLike[str]] = (),
    resume: bool = False,
    max_minutes: float | None = None,
    devices: int = 1,
    nodes: int = 1,
    strategy: str = "auto",
    accelerator: str = "auto",
    jobs: int | None = None,
    progress: ProgressFactory = silent,
) -> Run:
    """Trains a net, and returns what the folder `into` then says of the run; see docs/training.md.

    recipe: of the kind "training", by its name, or a TOML file that ends in .toml, or itself.
    sources: catalogues, whose kept games are taken as they are; archives, folders and records, cleaned by "legal".
    validate: the same, to validate with; by default a share of the games is held out, as the recipe says.
    resume: goes on with the run in that folder, which has to be of the same recipe and games, from its last checkpoint;
        the number of processes may be another.
    max_minutes: instead of the recipe's.
    devices: on this machine.  nodes: how many machines train together, each of which calls this.
    strategy, accelerator: as Lightning's trainer takes them.  jobs: threads that read games.

    Ctrl-C and SIGTERM end the run after the step under way; it can be resumed then. Raises RecipeError for a recipe
    that does not fit, or a run that has gone astray; SourceError, FormatError, OutputError.
    """
    told = load_training(recipe) if isinstance(recipe, str) else recipe
    if max_minutes is not None:
        told = check_config(TrainingRecipe, {**told.to_dict(), "max_minutes": max_minutes}, "recipe", told.name)
    if told.batch_size % (devices * nodes):
        raise RecipeError(f"a batch of {told.batch_size} cannot be divided among {devices * nodes} devices")
    if "value" in told.heads and told.batch_size < 2 * devices * nodes:
        raise RecipeError(
            f"a value head learns from two positions at a time; a batch of {told.batch_size} is too small"
        )
    _require_started(devices, nodes)
    folder = Path(into)
    with contextlib.ExitStack() as held:
        was_there = folder.is_dir()
        if is_first() and was_there:
            held.enter_context(locked_folder(folder))
        before = _require_place(folder, resume) if is_first() else None
        module = _make(told)
        games = read_all(told, list(sources), list(validate), jobs)
        inputs = {**games.inputs, "games": games.told()}
        run = Run(recipe=told.to_dict(), inputs=inputs, counts=games.counts())
        checkpoint = folder / LAST if resume and (folder / LAST).exists() else None
        if checkpoint is not None:
            saved = read_checkpoint(checkpoint)
            _require_same(folder, saved, run)
            if saved["finished"]:
                return _completed(folder, run if before is None else before, saved)
        if is_first() and not was_there:
            held.enter_context(locked_folder(folder))
        placing = {"devices": devices, "num_nodes": nodes, "strategy": strategy, "accelerator": accelerator}
        _fit(module, told, games, run, folder, checkpoint, progress, placing)
    return read_run(folder) or run


def _require_started(devices: int, nodes: int) -> None:
    """Raises RecipeError if torchrun has started another number of processes."""
    if torch.distributed.is_available() and torch.distributed.is_torchelastic_launched():
        started = int(os.environ["WORLD_SIZE"])
        if started != devices * nodes:
            raise RecipeError(
                f"torchrun has started {started} processes; nodes={nodes} x devices={devices} needs others"
            )


def is_first() -> bool:
    """Whether this is no process that stands beside the first one, on this machine or on another."""
    return bool(rank_zero_only.rank == 0) and os.environ.get("NODE_RANK", "0") == "0"


def _require_place(folder: Path, resume: bool) -> Run | None:
    """The run in a folder, if it is to be resumed. Raises RecipeError if there is none then, or one otherwise."""
    found = read_run(folder)
    if found is None and resume:
        raise RecipeError(f"there is no run in {folder} to resume: it has no {MANIFEST}")
    if not resume and (found is not None or (folder / LAST).exists()):
        raise RecipeError(f"{folder} holds a run already; --resume goes on with it, or name another folder")
    return found


def _require_same(folder: Path, saved: dict[str, Any], run: Run) -> None:
    """Raises RecipeError that says what differs from the run that is to be resumed."""
    for name, old, new in (("recipe", saved["recipe"], run.recipe), ("inputs", saved["inputs"], run.inputs)):
        told = difference(name, old, new)
        if told is not None:
            raise RecipeError(f"{folder} holds another run, which this one cannot resume: {told}")


def _completed(folder: Path, run: Run, saved: dict[str, Any]) -> Run:
    """A run whose nets and last checkpoint are there; it may have ended before it could say so. Raises OutputError."""
    if is_first() and run.state != "finished":
        told = {name: saved[name] for name in ("steps", "positions", "seconds", "best")}
        rows = read_metrics(folder / METRICS)
        write_file(folder / CURVES, draw_curves(rows, run.recipe["title"]))
        run = run.model_copy(update={**told, "last": latest(rows), "state": "finished", "why": saved["finished"]})
        run.save(folder)
    return run


def _make(recipe: TrainingRecipe) -> PolicyModule:
    """The net before its first step; a pure function of the recipe. Raises RecipeError."""
    encoder = recipe.encoder()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = make_net(
            recipe.net, encoder.planes, *recipe.size, rim=encoder.plane_set.rim, passes=recipe.positions.passes,
            heads=tuple(recipe.heads),
        )  # fmt: skip
        initialise(network, recipe.init)
    return PolicyModule(network.to(memory_format=torch.channels_last), recipe)


def _fit(
    module: PolicyModule, recipe: TrainingRecipe, games: TrainingGames, run: Run, folder: Path, checkpoint: Path | None,
    progress: ProgressFactory, placing: dict[str, Any],
) -> None:  # fmt: skip
    with _quiet(), torch.random.fork_rng(devices=[]):
        try:
            trainer = _trainer(
                precision=_PRECISION[recipe.precision], max_epochs=-1, plugins=[SafeCheckpoints()], benchmark=True,
                callbacks=[Conductor(folder, run, progress)], default_root_dir=folder, use_distributed_sampler=False,
                logger=TensorBoardLogger(folder, BOARD, version=""), enable_checkpointing=False,
                enable_model_summary=False, enable_progress_bar=False, log_every_n_steps=10**9, **placing,
            )  # fmt: skip
            path = None if checkpoint is None else str(checkpoint)
            trainer.fit(module, datamodule=DataModule(recipe, games), ckpt_path=path, weights_only=True)
        except ProcessRaisedException as error:
            raise _ours(error) from None
        except SystemExit:  # Lightning's way out of a second Ctrl-C
            raise KeyboardInterrupt from None


def _trainer(**options: Any) -> Trainer:
    """Raises RecipeError if there are no such devices, or not as many processes as they need were started."""
    try:
        return Trainer(**options)
    except (ValueError, MisconfigurationException) as error:
        raise RecipeError(first_line(error)) from None


def _ours(error: ProcessRaisedException) -> Exception:
    """What another process has raised; its last line tells the kind and the message."""
    name, _, message = str(error).rstrip().rpartition("\n")[2].partition(": ")
    kind = getattr(errors, name.removeprefix("kifu.errors."), None)
    return kind(message) if isinstance(kind, type) and issubclass(kind, KifuError) else error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without Lightning's words on what it found and did."""
    levels = {log: log.level for log in LOGS}
    try:
        with warnings.catch_warnings():
            silence_lightning()
            yield
    finally:
        for log, level in levels.items():
            log.setLevel(level)
