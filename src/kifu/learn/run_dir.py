"""The files of a run directory: run.json, metrics.csv, the checkpoint and the curves."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kifu.checksums import add_checksum
from kifu.config import STRICT, Line, StrictModel
from kifu.errors import FormatError, OutputError, first_line
from kifu.io import append_to, cannot_write, make_folder, read_small, require_no_link, was_changed, write_file
from kifu.katago.checkpoint import load_torch_file
from kifu.learn import BEST, ONNX_SUFFIX, SUFFIX
from kifu.learn.loss import HEADS, SUMS
from kifu.viz.curves import draw_training_curves

COLUMNS = (
    "step", "epoch", "positions", "seconds", "lr", "rate", "loss", "top1", "top5", "value", "ownership", "score",
    "validation_loss", "validation_top1", "validation_top5", "validation_value", "validation_ownership",
    "validation_score", "averaged",
)  # fmt: skip
"""Columns of the CSV file; a row leaves unknown values empty.

seconds: since the start of the run, including validation and checkpoints. rate: training positions per second. loss:
mean cross-entropy of the policy in nats. top1, top5: share of positions whose move is the first, or among the first
five. value, ownership: mean squared errors. score: mean loss of the score. Columns with the prefix `validation_` refer
to held-out positions, the others to the training positions since the previous row. averaged: 1 if the averaged weights
were validated, 0 if the raw weights of a run that averages.
"""

Row = dict[str, float]

_MAX_ROWS = 1_000_000
"""A row takes up to 2 kB of memory."""

_MIN_SHARE = 2 / 3
"""A run whose average rate is below this share of its first rate gets a remark."""


def mean_metrics(sums: Sequence[float], prefix: str = "") -> Row:
    """Return means of the sums listed in `kifu.learn.loss.SUMS`; an empty row if there are no positions."""
    named = dict(zip(SUMS, sums))
    if not named["positions"]:
        return {}
    row = {name: named[name] / named["positions"] for name in ("loss", "top1", "top5")}
    row |= {name: named[name] / named[f"{name}_known"] for name in HEADS if named[f"{name}_known"]}
    return {prefix + name: value for name, value in row.items()}


def latest_values(rows: Sequence[Row]) -> Row:
    """Return the last value of each column."""
    return {name: value for row in rows for name, value in row.items()}


def slowdown(rows: Sequence[Row], minutes: float) -> str | None:
    """Return a remark if a run with a time limit was much slower than in the first tenth of the time."""
    trained = [row for row in rows if "rate" in row]
    first = max((row["rate"] for row in trained if row["seconds"] <= 6 * minutes), default=0.0)
    positions = [row["positions"] for row in trained]
    seconds = sum((after - before) / row["rate"] for before, after, row in zip([0, *positions], positions, trained))
    average = positions[-1] / seconds if positions else 0.0
    if average >= _MIN_SHARE * first:
        return None
    return f"{average:,.0f} positions/s on average, {first:,.0f} at the beginning: the machine was busy"


class MetricsWriter:
    """Appends rows to a run's CSV file and, if tensorboard is installed, to event files in the folder `tensorboard`."""

    def __init__(self, path: Path, resume_step: int | None = None, tensorboard: Path | None = None) -> None:
        """Create the CSV file, or continue it after its rows up to a step."""
        self.path = path
        self.rows = [] if resume_step is None else [row for row in read_metrics(path) if row["step"] <= resume_step]
        write_file(path, (",".join(COLUMNS) + "\n" + "".join(map(_csv_line, self.rows))).encode())
        self._events = None
        if tensorboard is not None and find_spec("tensorboard"):
            from torch.utils.tensorboard import SummaryWriter

            with _as_output_error(tensorboard):
                make_folder(tensorboard)
                for entry in (tensorboard, *tensorboard.iterdir()):
                    require_no_link(entry)
                self._events = SummaryWriter(str(tensorboard))

    def add(self, row: Row) -> None:
        """Append a row."""
        self.rows.append(row)
        append_to(self.path, _csv_line(row).encode())
        if self._events is not None:
            with _as_output_error(self.path):
                if not self._has_events_folder():
                    raise was_changed(Path(self._events.log_dir))
                for name, value in row.items():
                    self._events.add_scalar(name.replace("validation_", "validation/"), value, int(row["step"]))
                self._events.flush()

    def close(self) -> None:
        """Flush and close the TensorBoard events. Raises OutputError."""
        if self._events is not None and self._has_events_folder():
            with _as_output_error(self.path):
                self._events.close()

    def _has_events_folder(self) -> bool:
        """Return whether the directory of the events exists; TensorBoard's thread prints a traceback if it does not."""
        return self._events is not None and Path(self._events.log_dir).is_dir()


@contextmanager
def _as_output_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise cannot_write(path, error) from None


def _csv_line(row: Mapping[str, float]) -> str:
    return ",".join(f"{row[name]:.8g}" if name in row else "" for name in COLUMNS) + "\n"


def read_metrics(path: Path) -> list[Row]:
    """Return the rows of a run's CSV file, without an incomplete last row; no rows if there is no file."""
    try:
        text = read_small(path).decode()
        complete = text[: text.rfind("\n") + 1]
        rows = []
        for cells in csv.DictReader(io.StringIO(complete)):
            row = {name: _parse_number(cells.get(name)) for name in COLUMNS}
            rows.append({name: value for name, value in row.items() if math.isfinite(value)})
            if len(rows) > _MAX_ROWS:
                raise FormatError(f"{path} has more than {_MAX_ROWS:,} rows")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    return [row for row in rows if "step" in row]


def _parse_number(cell: str | None) -> float:
    try:
        return float(cell or "nan")
    except ValueError:
        return math.nan


MANIFEST, LAST, FINAL = "run.json", "last.ckpt", "final" + SUFFIX
METRICS, CURVES, TENSORBOARD = "metrics.csv", "curves.png", "tensorboard"
FILES = (METRICS, CURVES, LAST, FINAL, BEST, FINAL.replace(SUFFIX, ONNX_SUFFIX), BEST.replace(SUFFIX, ONNX_SUFFIX))
"""The files of a run besides its manifest."""

RunState = Literal["running", "finished", "stopped", "failed"]

_PACKAGES = ("kifu", "torch", "numpy")

_MAX_MANIFEST_BYTES = 16 << 20
"""Objects in memory take up to 60 times the size of the file that describes them."""


class Run(StrictModel):
    """The contents of `run.json`."""

    version: Literal[2] = 2
    """Version of this layout."""
    state: RunState = "running"
    """"running" also if the process was killed; "stopped" by a signal."""
    reason: Line | None = None
    """Reason for the end of the run."""
    remark: Line | None = None
    """A warning about the run, such as that the machine was busy."""
    recipe: dict[str, Any]
    """The complete recipe."""
    inputs: dict[str, Any]
    """Names of the sources, hashes of those that are files, and hashes of the games taken from them."""
    counts: dict[str, int]
    """Games, batches of an epoch, parameters of the net."""
    machine: dict[str, Any] = Field(default={})
    versions: dict[str, str] = Field(default_factory=lambda: {name: version(name) for name in _PACKAGES})
    steps: Annotated[int, Field(ge=0)] = 0
    positions: Annotated[int, Field(ge=0)] = 0
    seconds: Annotated[float, Field(ge=0)] = 0.0
    best: dict[str, float] = Field(default={})
    """Figures of the validation with the lowest loss."""
    last: dict[str, float] = Field(default={})
    """The last value of each figure."""

    def summary(self) -> str:
        """Return state, length and best validation as one line."""
        top1 = self.best.get("validation_top1")
        raw = " with raw weights" if self.best.get("averaged") == 0 else ""
        best = (
            "" if top1 is None else f"; best validation top-1 {top1:.2%}, loss {self.best['validation_loss']:.4f}{raw}"
        )
        remark = "" if self.remark is None else f"; {self.remark}"
        return f"{self.state} ({self.reason}) after {self.steps:,} steps, {self.positions:,} positions{best}{remark}"

    def __repr__(self) -> str:
        return f"<Run {self.summary()}>"

    def save(self, directory: Path) -> None:
        """Write `run.json` atomically."""
        write_file(directory / MANIFEST, add_checksum(self.model_dump_json(indent=1)))


class _SavedState(BaseModel):
    """The entry "kifu" of a checkpoint: the state of a run."""

    model_config = ConfigDict(**STRICT, arbitrary_types_allowed=True)

    recipe: dict[str, Any]
    inputs: dict[str, Any]
    steps: Annotated[int, Field(ge=0)]
    positions: Annotated[int, Field(ge=0)]
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    best: dict[str, float]
    stale_validations: Annotated[int, Field(ge=0)]
    loader: dict[str, Any]
    sums: torch.Tensor
    average: list[torch.Tensor] | None
    finished: str | None


class _Checkpoint(BaseModel):
    model_config = ConfigDict(**STRICT, arbitrary_types_allowed=True)

    state_dict: dict[str, torch.Tensor]
    optimizer_states: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=1)]
    kifu: _SavedState


def read_run(directory: Path) -> Run | None:
    """Return the contents of a directory's `run.json`, or None if there is no such file."""
    path = directory / MANIFEST
    try:
        return Run.model_validate(json.loads(read_small(path, _MAX_MANIFEST_BYTES)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror}") from None
    except (ValidationError, ValueError, RecursionError):
        raise FormatError(f"{path} is not a valid run manifest") from None


def first_difference(name: str, old: Any, new: Any) -> str | None:
    """Return the first difference of two JSON values, "recipe.optimizer.lr was 0.1, now 0.2", or None if equal."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in (*old, *(key for key in new if key not in old)):
            if difference := first_difference(f"{name}.{key}", old.get(key), new.get(key)):
                return difference
        return None
    return None if old == new else f"{name} was {json.dumps(old)[:80]}, now {json.dumps(new)[:80]}"


def save_curves(directory: Path, rows: Sequence[dict[str, float]], title: str) -> None:
    """Draw the rows of a run's metrics into its `curves.png`."""
    write_file(directory / CURVES, draw_training_curves(rows, title))


def save_checkpoint(path: Path, checkpoint: dict[str, Any]) -> None:
    """Write a checkpoint atomically, so that a kill or a full disk leaves the previous one.

    Args:
        checkpoint: "state_dict" of the module, "optimizer_states" (a list of one) and "kifu", the state of the run.
    """
    data = io.BytesIO()
    torch.save(checkpoint, data)
    write_file(path, data.getbuffer())


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return what `save_checkpoint` wrote, on the CPU. Nothing in the file is executed."""
    try:
        checkpoint: dict[str, Any] = load_torch_file(path)
        _Checkpoint.model_validate(checkpoint)
        return checkpoint
    except OSError as error:
        raise FormatError(f"cannot resume from {path}: {error.strerror or first_line(error)}") from None
    except Exception:  # zipfile and torch raise many kinds of errors, some of which recommend to execute the file
        raise FormatError(f"cannot resume from {path}: not a checkpoint of kifu, or a damaged one") from None
