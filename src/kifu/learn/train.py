"""Training: a recipe and games become a net in a run directory."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.multiprocessing import ProcessExitedException, ProcessRaisedException, start_processes

from kifu import errors
from kifu.errors import ClusterError, KifuError, RecipeError
from kifu.execution.executor import count_cores
from kifu.io import keep_output, locked_folder, remove_file, was_changed
from kifu.learn.data import TrainingData, TrainingGames, read_training_games
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
from kifu.registry import check_choice
from kifu.text import counted


@dataclass(frozen=True)
class TrainOptions:
    """The hardware of a run; none of it changes what is learned, but for rounding.

    Attributes:
        devices: GPUs, or processes on the CPU, of this machine; 1 if torchrun starts the processes.
        accelerator: "cpu", "gpu", or "auto": a GPU if there is one.
    """

    devices: int = 1
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
    is_first = is_first_process()
    with contextlib.ExitStack() as locks:
        existed = directory.is_dir()
        if is_first and existed:
            locks.enter_context(locked_folder(directory))
        earlier = _check_directory(directory, resume, overwrite) if is_first else None
        make_policy_module(recipe)  # raises before the games are read
        games = read_training_games(recipe, as_list(sources), as_list(validate), options.jobs)
        run = Run(recipe=recipe.to_dict(), inputs={**games.inputs, "games": games.fingerprint()}, counts=games.counts())
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
            found = (first_difference(name, saved[name], getattr(run, name)) for name in ("recipe", "inputs"))
            if difference := next(filter(None, found), None):
                raise RecipeError(f"{directory} holds another run, which cannot be resumed: {difference}")
        if saved and saved["finished"]:
            _complete(directory, earlier or run, saved)
        else:
            if is_first and not existed:
                locks.enter_context(locked_folder(directory))
            _launch(options, recipe, games, run, directory, checkpoint, progress=progress)
        finished = read_run(directory)
        if finished is None:
            raise was_changed(directory / MANIFEST)
        if is_first and finished.state == "finished":
            export_run(directory)
    return finished


def check_run(recipe: TrainingRecipe, output: Path, resume: bool, overwrite: bool, options: TrainOptions) -> None:
    """Raise the errors of `train` that do not depend on the games; write nothing."""
    _check_options(recipe, options)
    _check_directory(output, resume, overwrite)
    make_policy_module(recipe)


def launched() -> tuple[int, int, int, int]:
    """Return index and number of the processes that torchrun started, and both on this machine; else (0, 1, 0, 1).

    Schedulers, pods and shells set RANK, LOCAL_RANK or SLURM_PROCID for a process that trains alone, too. Only torchrun
    sets all of these variables.
    """
    numbers = [os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")]
    others = {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"}
    if others <= os.environ.keys() and all(map(str.isdecimal, numbers)):
        index, count, local_index, local_count = map(int, numbers)
        if index < count:
            return index, count, local_index, local_count
    return 0, 1, 0, 1


def is_first_process() -> bool:
    """Return True unless torchrun started this process beside the first one."""
    return launched()[0] == 0


def _check_options(recipe: TrainingRecipe, options: TrainOptions) -> None:
    """Raise RecipeError if the batch cannot be divided, devices are missing, or torchrun has started the processes."""
    _, started, local_index, local_count = launched()
    if started > 1 and options.devices > 1:
        raise RecipeError(f"devices must be 1, got {options.devices}: torchrun has started {started} processes")
    _find_device(options, local_index, max(local_count, options.devices))
    processes = started * options.devices
    if recipe.batch_size % processes:
        raise RecipeError(f"a batch of {recipe.batch_size} cannot be divided among {processes} devices")
    if "value" in recipe.heads and recipe.batch_size < 2 * processes:
        raise RecipeError(f"a value head requires 2 positions per device; a batch of {recipe.batch_size} is too small")


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


def _complete(directory: Path, run: Run, saved: dict[str, Any]) -> None:
    """Write the manifest and curves of a run whose last checkpoint is final but which failed after saving it."""
    if is_first_process() and run.state != "finished":
        present = {name: saved[name] for name in ("steps", "positions", "seconds", "best")}
        rows = read_metrics(directory / METRICS)
        save_curves(directory, rows, run.recipe["title"])
        end = {"state": "finished", "reason": saved["finished"]}
        run.model_copy(update={**present, "last": latest_values(rows), **end}).save(directory)


def _launch(options: TrainOptions, *arguments: Any, progress: ProgressFactory) -> None:
    """Run the loop in all processes; those that this one starts report no progress."""
    with torch.random.fork_rng(devices=[]), contextlib.ExitStack() as cleanup:
        cleanup.callback(setattr, torch.backends.cudnn, "benchmark", torch.backends.cudnn.benchmark)
        cleanup.callback(torch.set_num_threads, torch.get_num_threads())
        if options.devices == 1:
            _run_loop(-1, "", options, *arguments, progress)
            return
        path = str(Path(cleanup.enter_context(tempfile.TemporaryDirectory()), "store"))
        cleanup.callback(os.environ.__setitem__, "PYTHONSAFEPATH", os.environ.get("PYTHONSAFEPATH", ""))
        os.environ["PYTHONSAFEPATH"] = "1"  # keeps the working directory off the path of spawned processes
        others = start_processes(_run_loop, (path, options, *arguments, silent), options.devices - 1, join=False)
        for process in others.processes:
            cleanup.callback(process.kill)  # it would wait for this one
        try:
            store = torch.distributed.FileStore(path)
            while not store.check([str(k) for k in range(len(others.processes))]):
                others.join(0.1)  # raises if one has ended
            try:
                _run_loop(-1, path, options, *arguments, progress)
            except RuntimeError:  # a process that ends breaks the connections to it
                others.join(10)
                raise
            while not others.join():
                pass
        except ProcessRaisedException as error:
            raise _original_error(error) or error.__context__ or error from None
        except ProcessExitedException as error:
            raise ClusterError(f"training stopped, because one of its processes ended: {error}") from None


def _run_loop(
    k: int, path: str, options: TrainOptions, recipe: TrainingRecipe, games: TrainingGames, *arguments: Any
) -> None:
    """Run the loop in one process: number k of those that another one starts, which joins them as number -1."""
    started = options.devices > 1
    index, count, local_index, local_count = (k + 1, options.devices) * 2 if started else launched()
    device = _find_device(options, local_index, local_count)
    torch.backends.cudnn.benchmark = True  # chooses the fastest convolutions for the fixed batch shape
    data = TrainingData(recipe, games, index, count, local_count, device.type == "cuda")
    if count == 1:
        TrainingLoop(data, device, *arguments).run()
        return
    store = torch.distributed.FileStore(path) if started else None
    if store is not None:
        store.set(str(k), "")
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(count_cores() // local_count, 1))
    if device.type != "cpu":
        torch.accelerator.set_device_index(local_index)
    backend = torch.distributed.get_default_backend_for_device(device)
    torch.distributed.init_process_group(backend, store=store, rank=index, world_size=count)
    try:
        TrainingLoop(data, device, *arguments).run()
    finally:
        torch.distributed.destroy_process_group()


def _find_device(options: TrainOptions, local_index: int, local_count: int) -> torch.device:
    """Return the device of one of several processes on this machine. Raise RecipeError if it does not exist."""
    check_choice("accelerator", options.accelerator, ("auto", "cpu", "gpu"))
    gpu = torch.accelerator.current_accelerator(True)
    found = 0 if gpu is None else torch.accelerator.device_count()
    if options.accelerator == "cpu" or (options.accelerator == "auto" and not found):
        return torch.device("cpu")
    if found < local_count:
        raise RecipeError(f"training requires {counted(local_count, 'GPU')}, and torch finds {found}")
    return torch.device(gpu.type, local_index)


def _original_error(error: ProcessRaisedException) -> KifuError | None:
    """Return the KifuError that a process raised; the last line of its traceback has the type and the message."""
    name, _, message = str(error).rstrip().rpartition("\n")[2].partition(": ")
    kind = getattr(errors, name.removeprefix("kifu.errors."), None)
    return kind(message) if isinstance(kind, type) and issubclass(kind, KifuError) else None
