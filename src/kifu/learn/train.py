"""Training: a recipe and games become a net in a run directory."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.launchers.multiprocessing import _MultiProcessingLauncher
from lightning_fabric.utilities.exceptions import MisconfigurationException
from lightning_fabric.utilities.rank_zero import rank_zero_only
from torch.multiprocessing import ProcessRaisedException

from kifu import errors
from kifu.errors import KifuError, RecipeError, first_line
from kifu.io import keep_output, locked_folder, remove_file, was_changed
from kifu.learn.data import read_training_games
from kifu.learn.export import export_run
from kifu.learn.loop import TrainingLoop
from kifu.learn.loss import make_policy_module
from kifu.learn.run_dir import (
    FILES,
    LAST,
    MANIFEST,
    METRICS,
    TENSORBOARD,
    Run,
    first_difference,
    latest_values,
    read_checkpoint,
    read_metrics,
    read_run,
    save_curves,
)
from kifu.progress import ProgressFactory, silent
from kifu.recipes.schema import load_training
from kifu.recipes.training import TrainingRecipe
from kifu.records.paths import Paths, as_list

_SAFE_PATH = "PYTHONSAFEPATH"


@dataclass(frozen=True)
class TrainOptions:
    """The hardware of a run; none of it changes what is learned, but for rounding.

    Attributes:
        devices: GPUs, or processes on the CPU, of this machine.
        nodes: Machines that train together. `train` is called on each of them.
    """

    devices: int = 1
    nodes: int = 1
    strategy: str = "auto"
    accelerator: str = "auto"
    jobs: int | None = None


def train(
    recipe: str | os.PathLike[str] | TrainingRecipe,
    sources: Paths,
    output: str | os.PathLike[str],
    *,
    validate: Paths = (),
    resume: bool = False,
    overwrite: bool = False,
    options: TrainOptions = TrainOptions(),
    progress: ProgressFactory = silent,
) -> Run:
    """Train a net; see docs/training.md.

    SIGINT and SIGTERM end the run after the present step. It can be resumed then.

    Args:
        recipe: A recipe of kind "training", the name of one, or the path of a TOML file that ends in ".toml".
        sources: Catalogues, whose kept games are used as they are, and archives, folders and records, which are cleaned
            by the rules "legal".
        validate: Sources to validate with. By default a share of the games is held out as the recipe specifies.
        overwrite: Replace a run of other games or another recipe, or one that is not finished (`kifu.io.keep_output`).
        resume: Continue the run in `output` from its last checkpoint. It must have the same recipe and games, and as
            many processes.

    Raises:
        RecipeError: The recipe or an option is invalid, the run to resume is another one, or the loss is NaN.
        SourceError: A source cannot be read or has no games.
    """
    recipe = load_training(recipe) if isinstance(recipe, str | os.PathLike) else recipe
    _check_options(recipe, options)
    directory = Path(output)
    with contextlib.ExitStack() as locks:
        existed = directory.is_dir()
        if is_first_process() and existed:
            locks.enter_context(locked_folder(directory))
        earlier = _check_directory(directory, resume, overwrite) if is_first_process() else None
        make_policy_module(recipe)  # raises before the games are read
        games = read_training_games(recipe, as_list(sources), as_list(validate), options.jobs)
        inputs = {**games.inputs, "games": games.fingerprint()}
        run = Run(recipe=recipe.to_dict(), inputs=inputs, counts=games.counts())
        if earlier and not resume:
            same = (earlier.state, earlier.recipe, earlier.inputs) == ("finished", run.recipe, run.inputs)
            if keep_output(directory, overwrite, same=same and earlier.versions == run.versions):
                return earlier
            for name in (MANIFEST, *FILES):
                remove_file(directory / name)
            shutil.rmtree(directory / TENSORBOARD, ignore_errors=True)
        checkpoint = directory / LAST if resume and (directory / LAST).exists() else None
        saved = read_checkpoint(checkpoint)["kifu"] if checkpoint else None
        if saved:
            _require_same_run(directory, saved, run)
        if saved and saved["finished"]:
            _complete(directory, earlier or run, saved)
        else:
            if is_first_process() and not existed:
                locks.enter_context(locked_folder(directory))
            _launch(options, recipe, games, run, directory, options.devices, checkpoint, progress)
        finished = read_run(directory)
        if finished is None:
            raise was_changed(directory / MANIFEST)
        if is_first_process() and finished.state == "finished":
            export_run(directory)
    return finished


def check_run(recipe: TrainingRecipe, output: Path, resume: bool, overwrite: bool, options: TrainOptions) -> None:
    """Raise the errors of `train` that do not depend on the games; write nothing."""
    _check_options(recipe, options)
    _check_directory(output, resume, overwrite)
    make_policy_module(recipe)
    _make_fabric(options)


def is_first_process() -> bool:
    """Return True unless this process was started beside the first one, on this machine or another."""
    return bool(rank_zero_only.rank == 0) and os.environ.get("NODE_RANK", "0") == "0"


def _check_options(recipe: TrainingRecipe, options: TrainOptions) -> None:
    """Raise RecipeError if the batch cannot be divided, or torchrun started another number of processes."""
    processes = options.devices * options.nodes
    if recipe.batch_size % processes:
        raise RecipeError(f"a batch of {recipe.batch_size} cannot be divided among {processes} devices")
    if "value" in recipe.heads and recipe.batch_size < 2 * processes:
        raise RecipeError(
            f"a value head requires 2 positions per device and batch; a batch of {recipe.batch_size} is too small"
        )
    if torch.distributed.is_available() and torch.distributed.is_torchelastic_launched():
        started = int(os.environ["WORLD_SIZE"])
        if started != processes:
            raise RecipeError(
                f"torchrun started {started} processes, but nodes={options.nodes} x devices={options.devices} requires"
                f" {processes}"
            )


def _check_directory(directory: Path, resume: bool, overwrite: bool) -> Run | None:
    """Return the run in a directory. Raise RecipeError if a run to resume is missing, or one is not finished."""
    run = read_run(directory)
    if run is None and resume:
        raise RecipeError(f"{directory} has no run to resume: there is no {MANIFEST}")
    for name in FILES if run is None else ():
        keep_output(directory / name, overwrite, own=False)
    if run is not None and run.state != "finished" and not (resume or overwrite):
        raise RecipeError(
            f"{directory} holds a run that is not finished; --resume continues it, --overwrite replaces it"
        )
    return run


def _require_same_run(directory: Path, saved: dict[str, Any], run: Run) -> None:
    """Raise RecipeError with the first difference from the run to be resumed."""
    for name, old, new in (("recipe", saved["recipe"], run.recipe), ("inputs", saved["inputs"], run.inputs)):
        difference = first_difference(name, old, new)
        if difference is not None:
            raise RecipeError(f"{directory} holds another run, which cannot be resumed: {difference}")


def _complete(directory: Path, run: Run, saved: dict[str, Any]) -> None:
    """Write the manifest and curves of a run whose last checkpoint is final but which failed after saving it."""
    if is_first_process() and run.state != "finished":
        present = {name: saved[name] for name in ("steps", "positions", "seconds", "best")}
        rows = read_metrics(directory / METRICS)
        save_curves(directory, rows, run.recipe["title"])
        end = {"state": "finished", "reason": saved["finished"]}
        run.model_copy(update={**present, "last": latest_values(rows), **end}).save(directory)


def _run_loop(fabric: Fabric, arguments: tuple[Any, ...]) -> None:
    TrainingLoop(fabric, *arguments).run()


def _launch(options: TrainOptions, *arguments: Any) -> None:
    """Run the loop with these arguments in all processes."""
    fabric = _make_fabric(options)
    with torch.random.fork_rng(devices=[]), _cudnn_benchmark(), _safe_path(fabric):
        try:
            fabric.launch(partial(_run_loop, arguments=arguments))  # Lightning searches other arguments for modules
        except ProcessRaisedException as error:
            raise _original_error(error) from None
        except BaseException:
            for process in getattr(fabric.strategy.launcher, "procs", ()):
                process.kill()  # they would wait for this one
            raise


def _make_fabric(options: TrainOptions) -> Fabric:
    """Raise RecipeError if the devices do not exist, or another number of processes was started."""
    try:
        return Fabric(
            accelerator=options.accelerator, strategy=options.strategy, devices=options.devices, num_nodes=options.nodes
        )
    except (ValueError, RuntimeError, MisconfigurationException) as error:
        raise RecipeError(first_line(error)) from None


@contextlib.contextmanager
def _safe_path(fabric: Fabric) -> Iterator[None]:
    """Keep the working directory off the path of new processes unless it is on the path of this one.

    Python adds it for spawned processes. Processes that run the same script again have the path of the first one.
    """
    if not (sys.flags.safe_path or isinstance(fabric.strategy.launcher, _MultiProcessingLauncher)):
        yield
        return
    previous = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if previous is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = previous


@contextlib.contextmanager
def _cudnn_benchmark() -> Iterator[None]:
    """Let cuDNN choose the fastest convolutions for the fixed batch shape."""
    previous = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = previous


def _original_error(error: ProcessRaisedException) -> Exception:
    """Return the error that a spawned process raised; the last line of its traceback has the type and the message."""
    name, _, message = str(error).rstrip().rpartition("\n")[2].partition(": ")
    kind = getattr(errors, name.removeprefix("kifu.errors."), None)
    return kind(message) if isinstance(kind, type) and issubclass(kind, KifuError) else error
