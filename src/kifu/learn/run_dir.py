"""The files of a run directory: run.json, the checkpoint and the curves."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from importlib.metadata import version
from io import FileIO
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kifu.atomic_io import write_file
from kifu.config import STRICT, Line
from kifu.errors import FormatError, first_line
from kifu.files import open_regular, read_small
from kifu.learn import SUFFIX
from kifu.viz.curves import draw_training_curves

MANIFEST, LAST, FINAL = "run.json", "last.ckpt", "final" + SUFFIX
METRICS, CURVES, TENSORBOARD = "metrics.csv", "curves.png", "tensorboard"

RunState = Literal["running", "finished", "stopped", "failed"]

_PACKAGES = ("kifu", "torch", "lightning-fabric", "numpy")

_MAX_MANIFEST_BYTES = _MAX_PICKLE_BYTES = 16 << 20
"""Objects in memory take up to 60 times the size of the file that describes them."""


class Run(BaseModel):
    """The contents of `run.json`."""

    model_config = STRICT

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
    machine: dict[str, Any] = {}
    versions: dict[str, str] = Field(default_factory=lambda: {name: version(name) for name in _PACKAGES})
    steps: Annotated[int, Field(ge=0)] = 0
    positions: Annotated[int, Field(ge=0)] = 0
    seconds: Annotated[float, Field(ge=0)] = 0.0
    best: dict[str, float] = {}
    """Figures of the validation with the lowest loss."""
    last: dict[str, float] = {}
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
        """Write `run.json` atomically.

        Raises:
            OutputError: The file cannot be written.
        """
        write_file(directory / MANIFEST, self.model_dump_json(indent=1).encode() + b"\n")


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
    """The contents of a checkpoint."""

    model_config = ConfigDict(**STRICT, arbitrary_types_allowed=True)

    state_dict: dict[str, torch.Tensor]
    optimizer_states: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=1)]
    kifu: _SavedState


def read_run(directory: Path) -> Run | None:
    """Return the contents of a directory's `run.json`, or None if there is no such file.

    Raises:
        FormatError: The file cannot be read or is invalid.
    """
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
    """Return the first difference of two JSON values, "recipe.optimiser.lr was 0.1, now 0.2", or None if equal."""
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
    """Return what `save_checkpoint` wrote, on the CPU. Nothing in the file is executed.

    Raises:
        FormatError: The file cannot be read or is not a checkpoint of kifu.
    """
    try:
        with open_regular(path) as file:
            _require_plain_zip(file)
            file.seek(0)
            checkpoint: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        _Checkpoint.model_validate(checkpoint)
        return checkpoint
    except OSError as error:
        raise FormatError(f"cannot resume from {path}: {error.strerror or first_line(error)}") from None
    except Exception:  # zipfile and torch raise many kinds of errors, some of which recommend to execute the file
        raise FormatError(f"cannot resume from {path}: not a checkpoint of kifu, or a damaged one") from None


def _require_plain_zip(file: FileIO) -> None:
    """Raise BadZipFile unless the file is an archive as torch writes it, which cannot demand more memory than it has.

    torch would also inflate entries, and does not compare checksums.
    """
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            is_pickle = not entry.filename.partition("/")[2].startswith("data/")
            if entry.compress_type != zipfile.ZIP_STORED or (is_pickle and entry.file_size > _MAX_PICKLE_BYTES):
                raise zipfile.BadZipFile(entry.filename)
        if (damaged := archive.testzip()) is not None:
            raise zipfile.BadZipFile(damaged)
