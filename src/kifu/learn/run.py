"""What goes on around the steps of a run: the rate, the average, figures, validation, checkpoints, and the end."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import platform
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer

from kifu.atomic_io import write_file
from kifu.errors import RecipeError, first_line
from kifu.learn import BEST
from kifu.learn.average import EMA
from kifu.learn.checkpoint import STATE
from kifu.learn.curves import draw_curves
from kifu.learn.data import TrainingBatch
from kifu.learn.folder import CURVES, FINAL, LAST, METRICS, Run, State, difference
from kifu.learn.metrics import Metrics, Row, figures, latest
from kifu.learn.module import COUNTED, PolicyModule
from kifu.learn.net import NetMetadata, save_net
from kifu.progress import Progress, ProgressFactory, silent

FIGURES = 50
"""Steps from one row of figures to the next."""

_AGREE = 10
"""Steps after which several processes agree on the time and on whether to stop."""

_SHORT = 5
"""Seconds after a checkpoint in which the end of an epoch makes no other: some epochs are a step long."""

_DRAWN = 60
"""Seconds from one drawing of the curves to the next at least, each of which takes up to one."""

_FAR = 0x9E3779B97F4A7C15

LOGS = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]


def silence_lightning() -> None:
    """From now on Lightning does not tell what it found and did."""
    for log in LOGS:
        log.setLevel(logging.ERROR)
    # Lightning 2.6 asks for it itself, in each step.
    warnings.filterwarnings("ignore", message="`isinstance.treespec, LeafSpec.` is deprecated")


class Conductor(Callback):  # type: ignore[misc]
    """Knows how far the run has come, and does what is to be done then.

    All that is decided by the clock is decided by the first process' clock, for all of them.
    """

    def __init__(self, folder: Path, run: Run, progress: ProgressFactory) -> None:
        self._folder, self._run, self._progress = folder, run, progress
        self.steps = self.positions = 0
        self.seconds = 0.0
        self._best: Row = {}
        self._worse = 0
        self._saved: dict[str, Any] | None = None
        self._asked: str | None = None
        self._ended: tuple[State, str] | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """In a process of its own, before Lightning says anything there."""
        self.__dict__.update(state)
        silence_lightning()

    # What Lightning calls, in this order.

    def on_load_checkpoint(self, trainer: Trainer, module: PolicyModule, checkpoint: dict[str, Any]) -> None:
        saved = self._saved = checkpoint[STATE]
        self.steps, self.positions, self.seconds = saved["steps"], saved["positions"], saved["seconds"]
        self._best, self._worse = saved["best"], saved["worse"]
        trainer.datamodule.resume(saved["place"])

    def on_train_start(self, trainer: Trainer, module: PolicyModule) -> None:
        self.trainer, self.module, self.feed = trainer, module, trainer.datamodule
        self.recipe = module.recipe
        self.first = trainer.is_global_zero
        self._require_same()
        self._average = EMA(module.network, self.recipe.average) if self.recipe.average else None
        if self._saved is not None:
            if self.first:  # they are of all processes
                module.sums.copy_(self._saved["sums"])
            if self._average is not None:
                self._average.load(self._saved["average"])
        self._resources = contextlib.ExitStack()
        self._open()
        self._began = time.monotonic() - self.seconds
        self._marked = self._validated = self._checkpointed = self._drawn = self.seconds
        self._counted = self.positions

    def _require_same(self) -> None:
        """Raises RecipeError, in all processes, if one is about to learn something else than the first one."""
        told = [(self.steps, self._run.inputs)] * self.trainer.world_size
        if len(told) > 1:
            torch.distributed.all_gather_object(told, told[0])
        for steps, inputs in told:
            if steps != told[0][0]:
                raise RecipeError(
                    f"processes stand at steps {told[0][0]:,} and {steps:,}; all machines have to see the same"
                    f" {self._folder}"
                )
            if other := difference("inputs", told[0][1], inputs):
                raise RecipeError(f"processes have different games: {other}")

    def _open(self) -> None:
        """What only the first process has: figures, the bar; and how all of them are stopped."""
        self._resources.enter_context(_signals(self._ask))
        self.bar: Progress = self._resources.enter_context(silent("", None, ""))
        if self.first:
            self._metrics = Metrics(self._folder / METRICS, self.steps if self._saved is not None else None)
            told = {"state": "running", "why": None, "machine": self._machine(), "counts": self._counts()}
            told |= {"last": latest(self._metrics.rows)}
            self._run = self._run.model_copy(update=told | self._progressed())
            self._run.save(self._folder)
            minutes = self.recipe.max_minutes
            total, unit = (self._total_steps(), "steps") if minutes is None else (round(minutes * 60), "s")
            self.bar = self._resources.enter_context(self._progress(f"training {self.recipe.name}", total, unit))
            self._shown = 0
            self._show()

    def on_train_batch_start(
        self, trainer: Trainer, module: PolicyModule, batch: TrainingBatch, batch_idx: int
    ) -> None:
        rate = self._rate()
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = rate
        # What is dropped out follows from seed and step alone, so that it is the same in a run that was resumed.
        torch.manual_seed((self.recipe.seed + _FAR * (self.steps * trainer.world_size + trainer.global_rank)) % 2**63)

    def on_train_batch_end(
        self, trainer: Trainer, module: PolicyModule, outputs: Any, batch: TrainingBatch, batch_idx: int
    ) -> None:
        self.steps += 1
        self.positions += len(batch.move) * trainer.world_size
        self.feed.place = batch.place
        if self._average is not None:
            self._average.update(self.steps)
        self._agree()
        ended, epoch_over = self._ending(), batch.place[1] == 0
        finishes = ended is not None and ended[0] == "finished"
        validates = self._validation_due(epoch_over) or finishes
        if self.steps % FIGURES == 0 or validates:
            self._figure()
        if validates:
            self._validate()
            ended = ended or self._patience_lost()
        if ended or self._checkpoint_due(epoch_over):
            self._ended = ended
            self._checkpoint()
        if ended:
            trainer.should_stop = True

    def on_save_checkpoint(self, trainer: Trainer, module: PolicyModule, checkpoint: dict[str, Any]) -> None:
        checkpoint[STATE] = {
            "recipe": self._run.recipe,
            "inputs": self._run.inputs,
            "steps": self.steps,
            "positions": self.positions,
            "seconds": self.seconds,
            "best": self._best,
            "worse": self._worse,
            "place": self.feed.state(),
            "sums": trainer.strategy.reduce(module.sums.clone(), reduce_op="sum"),
            "average": None if self._average is None else self._average.state(),
            "finished": self._ended[1] if self._ended and self._ended[0] == "finished" else None,
        }

    def on_train_end(self, trainer: Trainer, module: PolicyModule) -> None:
        assert self._ended is not None
        state, why = self._ended
        self._close(state, why)

    def on_exception(self, trainer: Trainer, module: PolicyModule, exception: BaseException) -> None:
        if hasattr(self, "_resources"):
            self._close("stopped" if isinstance(exception, KeyboardInterrupt) else "failed", first_line(exception))

    # The clock and the end.

    def _agree(self) -> None:
        """The time, and whether somebody asked to stop, for all processes."""
        if self.trainer.world_size == 1:
            self.seconds = time.monotonic() - self._began
        elif self.steps % _AGREE == 0:
            told = (time.monotonic() - self._began, self._asked)
            self.seconds, self._asked = self.trainer.strategy.broadcast(told)
        if self.first:
            self._show()

    def _ask(self, name: str) -> None:
        self._asked = name

    def _total_steps(self) -> int | None:
        return self.recipe.steps or (self.recipe.epochs and self.recipe.epochs * self.feed.batches)

    def _done(self) -> float:
        """What share of the run is over, by steps or by the clock, whichever is further."""
        total, minutes = self._total_steps(), self.recipe.max_minutes
        by_steps = self.steps / total if total else 0.0
        return min(max(by_steps, self.seconds / (minutes * 60) if minutes else 0.0), 1.0)

    def _rate(self) -> float:
        return self.recipe.learning_rate(self._done(), self.steps)

    def _ending(self) -> tuple[State, str] | None:
        """In which state the run ends after this step, and why; None if it goes on."""
        recipe = self.recipe
        if recipe.max_minutes is not None and self.seconds >= recipe.max_minutes * 60:
            return "finished", f"{recipe.max_minutes:g} minutes are over"
        if recipe.steps is not None and self.steps >= recipe.steps:
            return "finished", f"{recipe.steps:,} steps are done"
        if recipe.epochs is not None and self.feed.place[0] >= recipe.epochs:
            return "finished", f"{recipe.epochs:,} epochs are done"
        if self._asked is not None and (self.trainer.world_size == 1 or self.steps % _AGREE == 0):
            return "stopped", self._asked
        return None

    def _patience_lost(self) -> tuple[State, str] | None:
        if self.recipe.patience is not None and self._worse >= self.recipe.patience:
            return "finished", f"{self._worse} validations without a lower loss"
        return None

    def _show(self) -> None:
        now = self.steps if self.recipe.max_minutes is None else int(self.seconds)
        if now > self._shown:
            self.bar.advance(now - self._shown)
            self._shown = now

    # Figures.

    def _row(self) -> Row:
        return {
            "step": self.steps, "epoch": self.feed.epochs, "positions": self.positions, "seconds": self.seconds,
            "lr": self._rate(),
        }  # fmt: skip

    def _sums(self, sums: torch.Tensor) -> list[float]:
        """Of all processes. Waits for the device."""
        told: list[float] = self.trainer.strategy.reduce(sums.clone(), reduce_op="sum").tolist()
        return told

    def _figure(self) -> None:
        """A row of the training since the last one. Raises RecipeError if it has gone astray."""
        self._require_numbers()
        told = figures(self._sums(self.module.sums))
        self.module.sums.zero_()
        passed = time.monotonic() - self._began - self._marked
        rate = (self.positions - self._counted) / max(passed, 1e-9)
        self._tell({**self._row(), "rate": rate, **told})
        self._mark()

    def _mark(self) -> None:
        """The rate is counted from here."""
        self._marked, self._counted = time.monotonic() - self._began, self.positions

    def _tell(self, row: Row) -> None:
        if not self.first:
            return
        self._metrics.add(row)
        for logger in self.trainer.loggers:
            logger.log_metrics({name.replace("validation_", "validation/"): x for name, x in row.items()}, self.steps)
        self._run = self._run.model_copy(update={"last": {**self._run.last, **row}})
        last = self._run.last
        told = [f"loss {last['loss']:.3f}", f"top-1 {last['top1']:.1%}", f"top-5 {last['top5']:.1%}"]
        told += [f"validation {last['validation_top1']:.1%}"] if "validation_top1" in last else []
        self.bar.set_note(", ".join([*told, f"{last['rate']:,.0f} positions/s"]))

    def _require_numbers(self) -> None:
        """Raises RecipeError if the loss or a weight is no number any more."""
        weights = self.module.network.parameters()
        finite = torch.stack([torch.isfinite(value).all() for value in weights]).all()
        bad, finite = int(self.module.bad), bool(finite)
        if bad or not finite:
            step = self.steps - max(bad - 1, 0)
            kept = f"{self._folder / LAST} is from before that" if (self._folder / LAST).exists() else "nothing is kept"
            raise RecipeError(
                f"the loss is no number any more at step {step:,}, with learning rate {self._rate():.3g};"
                f" a lower optimiser.lr, or clip, may help; {kept}"
            )

    # Validation.

    def _validation_due(self, epoch_over: bool) -> bool:
        recipe = self.recipe
        if self.feed.games.validation is None:
            return False
        if recipe.validate_steps is None and recipe.validate_minutes is None:
            return epoch_over
        by_steps = recipe.validate_steps is not None and self.steps % recipe.validate_steps == 0
        minutes = recipe.validate_minutes
        return by_steps or (minutes is not None and self.seconds - self._validated >= minutes * 60)

    def _validate(self) -> None:
        """Figures of the positions that are held out; the net is kept if it is the best so far."""
        if self.feed.games.validation is None:
            return
        self._require_numbers()
        with self._pause(), self._averaged():
            row = {**self._row(), **figures(self._sums(self._measure()), "validation_")}
            if "validation_loss" not in row:
                raise RecipeError("there is no position to validate with")
            better = row["validation_loss"] < self._best.get("validation_loss", math.inf)
            self._worse = 0 if better else self._worse + 1
            self._tell(row)
            if better:
                self._best = row
                if self.first:
                    self._save(BEST)
        self.bar.log(
            f"step {self.steps:,}, {self.positions:,} positions: validation loss {row['validation_loss']:.4f},"
            f" top-1 {row['validation_top1']:.2%}, top-5 {row['validation_top5']:.2%}"
        )
        self._validated = self.seconds

    def _measure(self) -> torch.Tensor:
        """The sums of this process' share."""
        network, strategy = self.module.network, self.trainer.strategy
        if self.trainer.world_size > 1:  # each process has counted its own for batch norms
            for value in network.buffers():
                torch.distributed.broadcast(value, 0)
        sums = torch.zeros(len(COUNTED), device=self.module.device)
        network.eval()
        with torch.no_grad(), strategy.precision_plugin.forward_context():
            for examples in self.feed.validation():
                sums += self.module.measure(strategy.batch_to_device(examples)).sums
        network.train()
        return sums

    @contextlib.contextmanager
    def _averaged(self) -> Iterator[None]:
        """The network with the averaged weights."""
        if self._average is not None:
            self._average.swap()
        try:
            yield
        finally:
            if self._average is not None:
                self._average.swap()

    @contextlib.contextmanager
    def _pause(self) -> Iterator[None]:
        """Time that does not count for the rate."""
        began = time.monotonic()
        yield
        self._marked += time.monotonic() - began

    # Files.

    def _save(self, name: str) -> None:
        """The network as it is now."""
        recipe = self.recipe
        width, height = recipe.size
        trained = {
            "steps": self.steps,
            "positions": self.positions,
            "seconds": round(self.seconds, 1),
            "figures": self._run.last,
            "counts": self._run.counts,
            "inputs": self._run.inputs,
            "machine": self._run.machine,
        }
        about = NetMetadata(
            net=recipe.net, planes=self.feed.games.train.layout.plane_set, width=width, height=height,
            passes=recipe.positions.passes, heads=tuple(recipe.heads), recipe=self._run.recipe, trained=trained,
        )  # fmt: skip
        save_net(self._folder / name, self.module.network, about, self.feed.games.canonical)

    def _save_final(self) -> None:
        with self._averaged():
            self._save(FINAL)
            if not self._best:  # there was nothing to validate with
                self._save(BEST)

    def _checkpoint_due(self, epoch_over: bool) -> bool:
        passed = self.seconds - self._checkpointed
        return passed >= self.recipe.checkpoint_minutes * 60 or (epoch_over and passed >= _SHORT)

    def _checkpoint(self) -> None:
        self._require_numbers()
        with self._pause():
            if self.first and self._ended and self._ended[0] == "finished":  # before it is said to be
                self._save_final()
            self.trainer.save_checkpoint(self._folder / LAST)
            self._checkpointed = self.seconds
            self._save_run()

    def _progressed(self) -> dict[str, Any]:
        """Of what `run.json` says, how far the run has come."""
        return {"steps": self.steps, "positions": self.positions, "seconds": self.seconds, "best": self._best}

    def _save_run(self) -> None:
        if self.first:
            self._run = self._run.model_copy(update=self._progressed())
            self._run.save(self._folder)
            if self._ended or self.seconds - self._drawn >= _DRAWN:
                write_file(self._folder / CURVES, draw_curves(self._metrics.rows, self.recipe.title))
                self._drawn = self.seconds

    def _close(self, state: State, why: str) -> None:
        try:
            if self.first:
                self._run = self._run.model_copy(update={"state": state, "why": why[:200]})
                self._run.save(self._folder)
        finally:
            self._resources.close()

    def _counts(self) -> dict[str, int]:
        parameters = sum(value.numel() for value in self.module.network.parameters())
        return {**self.feed.games.counts(), "epoch_batches": self.feed.batches, "parameters": parameters}

    def _machine(self) -> dict[str, Any]:
        device = self.module.device
        gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
        told = {"gpu": gpu, "cores": os.cpu_count(), "threads": torch.get_num_threads()}
        return {**told, "processes": self.trainer.world_size, "processor": platform.machine()}


@contextlib.contextmanager
def _signals(ask: Any) -> Iterator[None]:
    """SIGINT and SIGTERM ask the run to stop after this step; a second one ends it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
    before = {number: signal.getsignal(number) for number in names}

    def handle(number: int, frame: FrameType | None) -> None:
        ask(names[signal.Signals(number)])
        for each in names:
            signal.signal(each, signal.default_int_handler)

    for number in names:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
