"""The training loop: steps, learning rate, figures, validation, checkpoints and the end of a run."""

from __future__ import annotations

import contextlib
import math
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch

from kifu.errors import FormatError, KifuError, RecipeError, first_line
from kifu.execution.executor import count_cores
from kifu.io import held_folder, require_size
from kifu.learn import BEST
from kifu.learn.data import TrainingBatch, TrainingData, move
from kifu.learn.loss import SUMS, Teachers, make_policy_module
from kifu.learn.net_format import NetMetadata
from kifu.learn.optim import EMA, make_optimizer, restore_optimizer
from kifu.learn.run_dir import (
    CURVES,
    FINAL,
    LAST,
    METRICS,
    TENSORBOARD,
    MetricsWriter,
    Row,
    Run,
    RunState,
    first_difference,
    latest_values,
    mean_metrics,
    read_checkpoint,
    save_checkpoint,
    save_curves,
    slowdown,
)
from kifu.learn.torch_backend import supported_precision
from kifu.learn.torch_net import save_net
from kifu.progress import Progress, ProgressFactory, Rate, silent

LOG_EVERY = 50
"""Steps between two rows of training figures."""

_SYNC_EVERY = 10
"""Steps between two agreements of several processes on the time and on stop requests."""

_EPOCH_CHECKPOINT_S = 5
"""Minimum seconds since the last checkpoint for another one at the end of an epoch, which may be one step long."""

_CURVES_S = 60
"""Minimum seconds between two drawings of the curves, which take up to a second."""

_SEED_FACTOR = 0x9E3779B97F4A7C15
"""Spreads the seeds of consecutive steps."""


class RunEnd(NamedTuple):
    """The end of a run."""

    state: RunState
    reason: str


@dataclass
class TrainingState:
    """The progress of a run, which checkpoints restore; `seconds` excludes the time from a stop to its resumption."""

    steps: int = 0
    positions: int = 0
    seconds: float = 0.0
    best: Row = field(default_factory=dict)
    stale_validations: int = 0


class TrainingLoop:
    """Trains a network until its budget is used up, a signal arrives or the validation loss stops falling.

    Decisions that depend on the time are taken by the clock of the first process.
    """

    def __init__(
        self, data: TrainingData, device: torch.device, run: Run, directory: Path, checkpoint: Path | None,
        progress: ProgressFactory,
    ) -> None:  # fmt: skip
        """Prepare the network in one of the processes of `data`, which are joined by torch.distributed if several."""
        saved = None if checkpoint is None else read_checkpoint(checkpoint)
        self.data, self.device, self.recipe, self.directory, self.manifest = data, device, data.recipe, directory, run
        self.is_first = data.process_index == 0
        self.state = TrainingState()
        if saved is not None:
            with _restoring(checkpoint):
                self.state = TrainingState(**{f.name: saved["kifu"][f.name] for f in fields(TrainingState)})
                self.data.load_state_dict(saved["kifu"]["loader"])
        self._require_agreement()
        # Each process makes its own module, because spawned processes would share the memory of a given one.
        self.module = self.model = make_policy_module(self.recipe).to(device)
        if data.world_size > 1:
            device_ids = None if device.type == "cpu" else [device]
            self.model = torch.nn.parallel.DistributedDataParallel(self.module, device_ids=device_ids)
        self.optimizer = make_optimizer(self.module.network, self.recipe.optimizer)
        self.ema = EMA(self.module.network, self.recipe.average) if self.recipe.average else None
        self.keeps_average = self.ema is not None
        # Both stay on the device, so that no step waits for it.
        self.sums = torch.zeros(len(SUMS), device=device)
        self.bad_batches = torch.zeros((), dtype=torch.int64, device=device)
        if saved is not None:
            with _restoring(checkpoint):
                self.module.load_state_dict(saved["state_dict"])
                restore_optimizer(self.optimizer, saved["optimizer_states"][0])
                if self.is_first:  # the saved sums are those of all processes
                    self.sums.copy_(saved["kifu"]["sums"])
                if self.ema is not None:
                    self.ema.load_state_dict(saved["kifu"]["average"])
        self.teachers = None if self.recipe.teacher is None else Teachers(self.recipe, data.games, device)
        self.resumed = saved is not None
        # The times of past events, in seconds since the start of the run, and the progress shown so far.
        seconds = self.state.seconds
        self.start = time.monotonic() - seconds
        self.last_validation = self.last_checkpoint = self.last_curves = seconds
        self.rate_start, self.rate_positions = seconds, self.state.positions  # pauses move the start
        self.shown = 0
        self.rate = Rate()
        self.metrics: MetricsWriter | None = None
        self.bar: Progress | None = None
        self.stop_request: str | None = None
        self._progress = progress

    def _require_agreement(self) -> None:
        """Raise RecipeError in all processes if one of them is about to train something else than the first one."""
        views = [(self.state.steps, self.manifest.inputs)] * self.data.world_size
        if self.data.world_size > 1:
            torch.distributed.all_gather_object(views, views[0])
        for steps, inputs in views:
            if steps != views[0][0]:
                raise RecipeError(
                    f"processes are at steps {views[0][0]:,} and {steps:,}; all machines must share the directory"
                    f" {self.directory}"
                )
            if difference := first_difference("inputs", views[0][1], inputs):
                raise RecipeError(f"processes have different games: {difference}")

    def run(self) -> None:
        """Train to the end and record it in the manifest."""
        with contextlib.ExitStack() as resources:
            resources.enter_context(_on_signals(partial(setattr, self, "stop_request")))
            try:
                self._open_outputs(resources)
                end = self._train()
            except BaseException as error:
                state: RunState = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
                self._save_end(RunEnd(state, first_line(error)))
                raise
            self._save_end(end)

    def _open_outputs(self, resources: contextlib.ExitStack) -> None:
        if not self.is_first:
            self.bar = resources.enter_context(silent("", None, ""))
            return
        resources.enter_context(held_folder(self.directory))
        resume_step = self.state.steps if self.resumed else None
        self.metrics = MetricsWriter(self.directory / METRICS, resume_step, self.directory / TENSORBOARD)
        resources.callback(self.metrics.close)
        parameters = sum(value.numel() for value in self.module.parameters())
        counts = {**self.data.games.counts(), "epoch_batches": self.data.epoch_batches, "parameters": parameters}
        last = latest_values(self.metrics.rows)
        self._update_manifest(state="running", reason=None, machine=self._machine(), counts=counts, last=last)
        minutes = self.recipe.max_minutes
        total, unit = (self._total_steps(), "steps") if minutes is None else (round(minutes * 60), "s")
        self.bar = resources.enter_context(self._progress(f"training {self.recipe.name}", total, unit))
        self._show_progress()

    # The steps

    def _train(self) -> RunEnd:
        parameters = list(self.module.parameters())
        with contextlib.closing(self.data.batches()) as batches:
            while True:
                batch = next(batches)
                lr = self._learning_rate()
                for group in self.optimizer.param_groups:
                    group["lr"] = lr
                self._seed_step()
                self.optimizer.zero_grad()
                on_device = move(batch, self.device)
                loss, sums = self.model(on_device if self.teachers is None else self.teachers.label(on_device))
                loss.backward()
                if self.recipe.clip is not None:
                    torch.nn.utils.clip_grad_norm_(parameters, self.recipe.clip)
                self.optimizer.step()
                self.sums += sums
                self.bad_batches = (self.bad_batches + 1) * ~loss.detach().isfinite()
                if (end := self._after_step(batch)) is not None:
                    return end

    def _seed_step(self) -> None:
        """Make dropout depend on the seed, step and process alone, so that a resumed run repeats it."""
        step = self.state.steps * self.data.world_size + self.data.process_index
        torch.manual_seed((self.recipe.seed + _SEED_FACTOR * step) % 2**63)

    def _after_step(self, batch: TrainingBatch) -> RunEnd | None:
        """Count a step, then log, validate and save what is due. Return the end of the run, if it is reached."""
        self.state.steps += 1
        positions = len(batch.move) * self.data.world_size
        self.state.positions += positions
        self.rate.add(positions)
        self.data.position = batch.next_position
        if self.ema is not None:
            self.ema.update(self.state.steps)
        self._synchronize()
        end, epoch_over = self._budget_end(), batch.next_position[1] == 0
        validates = self._validation_due(epoch_over) or (end is not None and end.state == "finished")
        if self.state.steps % LOG_EVERY == 0 or validates:
            self._log_training()
        if validates and self.data.games.validation is not None:
            end = self._validate(end)
        elapsed = self.state.seconds - self.last_checkpoint
        due = elapsed >= self.recipe.checkpoint_minutes * 60 or (epoch_over and elapsed >= _EPOCH_CHECKPOINT_S)
        if end or due:
            self._save_checkpoint(end)
        return end

    # The schedule

    def _synchronize(self) -> None:
        """Set the time, and let all processes agree on it and on stop requests."""
        if self._processes_agree():
            agreed = [time.monotonic() - self.start, self.stop_request]
            if self.data.world_size > 1:
                torch.distributed.broadcast_object_list(agreed)
            self.state.seconds, self.stop_request = agreed  # type: ignore[assignment]
        self._show_progress()

    def _processes_agree(self) -> bool:
        return self.data.world_size == 1 or self.state.steps % _SYNC_EVERY == 0

    def _total_steps(self) -> int | None:
        return self.recipe.steps or (self.recipe.epochs and self.recipe.epochs * self.data.epoch_batches)

    def _learning_rate(self) -> float:
        total, minutes = self._total_steps(), self.recipe.max_minutes
        share = max(self.state.steps / total if total else 0.0, self.state.seconds / (minutes * 60) if minutes else 0.0)
        return self.recipe.learning_rate(min(share, 1.0), self.state.steps)

    def _budget_end(self) -> RunEnd | None:
        """Return the end of the run if the time, steps or epochs are used up or a stop was requested."""
        recipe, state = self.recipe, self.state
        if recipe.max_minutes is not None and state.seconds >= recipe.max_minutes * 60:
            return RunEnd("finished", f"time limit of {recipe.max_minutes:g} min reached")
        if recipe.steps is not None and state.steps >= recipe.steps:
            return RunEnd("finished", f"{recipe.steps:,} steps done")
        if recipe.epochs is not None and self.data.position[0] >= recipe.epochs:
            return RunEnd("finished", f"{recipe.epochs:,} epochs done")
        if self.stop_request is not None and self._processes_agree():
            return RunEnd("stopped", self.stop_request)
        return None

    def _validation_due(self, epoch_over: bool) -> bool:
        steps, minutes = self.recipe.validate_steps, self.recipe.validate_minutes
        if self.data.games.validation is None:
            return False
        if steps is None and minutes is None:
            return epoch_over
        by_steps = steps is not None and self.state.steps % steps == 0
        return by_steps or (minutes is not None and self.state.seconds - self.last_validation >= minutes * 60)

    # Figures

    def _show_progress(self) -> None:
        done = self.state.steps if self.recipe.max_minutes is None else int(self.state.seconds)
        if self.bar is not None and done > self.shown:
            self.bar.advance(done - self.shown)
            self.shown = done

    def _base_row(self) -> Row:
        state = self.state
        return {
            "step": state.steps, "epoch": self.data.epochs_done, "positions": state.positions,
            "seconds": state.seconds, "lr": self._learning_rate(),
        }  # fmt: skip

    def _sum_processes(self, sums: torch.Tensor) -> torch.Tensor:
        total = sums.clone()
        if self.data.world_size > 1:
            torch.distributed.all_reduce(total)
        return total

    def _log_training(self) -> None:
        """Log the training since the last row. This waits for the device."""
        self._require_finite()
        means = mean_metrics(self._sum_processes(self.sums).tolist())
        self.sums.zero_()
        rate = (self.state.positions - self.rate_positions) / max(time.monotonic() - self.start - self.rate_start, 1e-9)
        self._log({**self._base_row(), "rate": rate, **means})
        self.rate_start, self.rate_positions = time.monotonic() - self.start, self.state.positions

    def _log(self, row: Row) -> None:
        if self.metrics is None or self.bar is None:
            return
        self.metrics.add(row)
        self.manifest = self.manifest.model_copy(update={"last": {**self.manifest.last, **row}})
        last = self.manifest.last
        parts = [f"loss {last['loss']:.3f}", f"top-1 {last['top1']:.1%}", f"top-5 {last['top5']:.1%}"]
        parts += [f"validation {last['validation_top1']:.1%}"] if "validation_top1" in last else []
        text = ", ".join(parts)
        self.bar.set_note(lambda: f"{text}, {self.rate.per_second():,.0f} positions/s")

    def _require_finite(self) -> None:
        weights = torch.stack([torch.isfinite(value).all() for value in self.module.parameters()]).all()
        bad = int(self.bad_batches)
        if bad or not bool(weights):
            step = self.state.steps - max(bad - 1, 0)
            path = self.directory / LAST
            kept = f"the checkpoint {path} is from before" if path.exists() else "there is no checkpoint"
            raise RecipeError(
                f"loss is NaN or infinite at step {step:,} (lr {self._learning_rate():.3g}); try a lower optimizer.lr,"
                f" or clip; {kept}"
            )

    # Validation

    def _validate(self, end: RunEnd | None) -> RunEnd | None:
        """Log the figures of the held-out positions, and save the net if it is the best so far.

        A run that averages validates its raw weights, too, at its end: a learning rate that falls to 0 averages them
        as well. The better weights are kept.
        """
        self._require_finite()
        state = self.state
        with self._rate_paused():
            rows = [self._validation_row(averaged=self.ema is not None)]
            better = rows[0]["validation_loss"] < state.best.get("validation_loss", math.inf)
            state.stale_validations = 0 if better else state.stale_validations + 1
            if end is None and state.stale_validations >= (self.recipe.patience or math.inf):
                end = RunEnd("finished", f"{state.stale_validations} validations without a lower loss")
            if self.ema is not None and end is not None and end.state == "finished":
                rows.insert(0, self._validation_row(averaged=False))
                rows.sort(key=lambda row: row["validation_loss"], reverse=True)
            for row in rows:  # the last one has the figures of the net
                self._log(row)
            self.keeps_average = bool(row.get("averaged"))
            if row["validation_loss"] < state.best.get("validation_loss", math.inf):
                state.best = row
                with self._kept_weights():
                    self._save_net(BEST)
        if self.bar is not None:
            self.bar.log(
                f"step {state.steps:,}, {state.positions:,} positions: validation loss {row['validation_loss']:.4f},"
                f" top-1 {row['validation_top1']:.2%}, top-5 {row['validation_top5']:.2%}{_compare_weights(rows)}"
            )
        self.last_validation = state.seconds
        return end

    def _validation_row(self, averaged: bool) -> Row:
        """Return the figures of the averaged or the raw weights. Raise RecipeError if there are no positions."""
        with contextlib.nullcontext() if self.ema is None or not averaged else self.ema.applied():
            row = {**self._base_row(), **mean_metrics(self._validation_sums().tolist(), "validation_")}
        if "validation_loss" not in row:
            raise RecipeError("there are no validation positions")
        return row if self.ema is None else {**row, "averaged": float(averaged)}

    def _validation_sums(self) -> torch.Tensor:
        if self.data.world_size > 1:  # each process has its own batch-norm statistics
            for value in self.module.buffers():
                torch.distributed.broadcast(value, 0)
        sums = torch.zeros(len(SUMS), device=self.device)
        self.module.eval()
        with torch.no_grad():
            for batch in self.data.validation_batches():
                sums += self.module(move(batch, self.device)).sums
        self.module.train()
        return self._sum_processes(sums)

    def _kept_weights(self) -> contextlib.AbstractContextManager[None]:
        """Use the weights that nets are saved with within a `with` block."""
        return contextlib.nullcontext() if self.ema is None or not self.keeps_average else self.ema.applied()

    @contextlib.contextmanager
    def _rate_paused(self) -> Iterator[None]:
        """Exclude the time of a `with` block from the rates."""
        start = time.monotonic()
        with self.rate.paused():
            yield
        self.rate_start += time.monotonic() - start

    # Files

    def _save_net(self, name: str) -> None:
        if not self.is_first:
            return
        recipe, manifest, games = self.recipe, self.manifest, self.data.games
        width, height = recipe.size
        trained = {
            "steps": self.state.steps, "positions": self.state.positions, "seconds": round(self.state.seconds, 1),
            "figures": manifest.last, "counts": manifest.counts, "inputs": manifest.inputs, "machine": manifest.machine,
        }  # fmt: skip
        metadata = NetMetadata(
            net=recipe.net, planes=games.train.layout.plane_set, width=width, height=height,
            passes=recipe.positions.passes, heads=tuple(recipe.heads), inputs=recipe.inputs,
            structure=getattr(self.module.network, "structure", ""), recipe=manifest.recipe, trained=trained,
        )  # fmt: skip
        save_net(self.directory / name, self.module.network, metadata, games.canonical)

    def _save_checkpoint(self, end: RunEnd | None) -> None:
        self._require_finite()
        with self._rate_paused():
            finished = end is not None and end.state == "finished"
            state = self.state
            if finished:  # before the checkpoint records the end
                with self._kept_weights():
                    for name in (FINAL,) if state.best else (FINAL, BEST):  # there may be no validation games
                        self._save_net(name)
            progress = {
                "recipe": self.manifest.recipe, "inputs": self.manifest.inputs, **asdict(state),
                "loader": self.data.state_dict(), "sums": self._sum_processes(self.sums),
                "average": None if self.ema is None else self.ema.state_dict(),
                "finished": end.reason if end is not None and finished else None,
            }  # fmt: skip
            optimizers = [self.optimizer.state_dict()]
            checkpoint = {"state_dict": self.module.state_dict(), "optimizer_states": optimizers, "kifu": progress}
            if self.metrics is not None:
                save_checkpoint(self.directory / LAST, checkpoint)
                self._update_manifest()
                if end or state.seconds - self.last_curves >= _CURVES_S:
                    save_curves(self.directory, self.metrics.rows, self.recipe.title)
                    self.last_curves = state.seconds
            if self.data.world_size > 1:
                torch.distributed.barrier()
            self.last_checkpoint = state.seconds

    def _update_manifest(self, **changes: Any) -> None:
        state = self.state
        present = {"steps": state.steps, "positions": state.positions, "seconds": state.seconds, "best": state.best}
        self.manifest = self.manifest.model_copy(update=present | changes)
        self.manifest.save(self.directory)

    def _save_end(self, end: RunEnd) -> None:
        """Record the end of the run; the figures stay those of the last checkpoint."""
        if self.is_first:
            changes: dict[str, Any] = {"state": end.state, "reason": end.reason[:200]}
            minutes = self.recipe.max_minutes
            if end.state == "finished" and minutes is not None and self.metrics is not None:
                changes["remark"] = slowdown(self.metrics.rows, minutes)
            self.manifest = self.manifest.model_copy(update=changes)
            if end.state == "finished":
                for name in (METRICS, CURVES, LAST, FINAL, BEST):
                    require_size(self.directory / name)
            self.manifest.save(self.directory)

    def _machine(self) -> dict[str, Any]:
        return {
            "gpu": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else None,
            "cores": count_cores(), "threads": torch.get_num_threads(), "processes": self.data.world_size,
            "processor": platform.machine(), "precision": supported_precision(self.recipe.precision, self.device),
        }  # fmt: skip


@contextlib.contextmanager
def _restoring(path: Path | None) -> Iterator[None]:
    """Raise FormatError for a checkpoint whose contents do not fit the recipe."""
    try:
        yield
    except KifuError:
        raise
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        raise FormatError(f"cannot resume from {path}: its contents do not fit the recipe") from None


def _compare_weights(rows: Sequence[Row]) -> str:
    """Return a comparison of averaged and raw weights for the terminal, given their rows, the better one last."""
    if len(rows) == 1:
        return ""
    loser, winner = rows
    kept, other = ("averaged", "raw") if winner["averaged"] else ("raw", "averaged")
    return f" with {kept} weights; {loser['validation_loss']:.4f} with {other} ones"


@contextlib.contextmanager
def _on_signals(request_stop: Callable[[str], None]) -> Iterator[None]:
    """Make SIGINT and SIGTERM request a stop after the present step; a second signal interrupts at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reasons = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
    previous = {number: signal.getsignal(number) for number in reasons}

    def handle(number: int, frame: FrameType | None) -> None:
        request_stop(reasons[signal.Signals(number)])
        for caught in reasons:
            signal.signal(caught, signal.default_int_handler)

    for number in reasons:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
