"""The folder of a run: what it says of itself, and who may write into it."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from kifu.atomic_io import write_file
from kifu.config import STRICT, Line
from kifu.errors import FormatError
from kifu.learn import SUFFIX

MANIFEST, LAST, FINAL = "run.json", "last.ckpt", "final" + SUFFIX
METRICS, CURVES, BOARD = "metrics.csv", "curves.png", "tensorboard"

State = Literal["running", "finished", "stopped", "failed"]

_PARTS = ("kifu", "torch", "lightning", "numpy")


class Run(BaseModel):
    """What `run.json` says of a run."""

    model_config = STRICT

    version: Literal[1] = 1
    """Of this layout."""
    state: State = "running"
    """Running (or killed), at its end, stopped by a signal, or failed."""
    why: Line | None = None
    """Why it ended."""
    recipe: dict[str, Any]
    """All values told."""
    inputs: dict[str, Any]
    """The sources by name, with the hash of each that is a file; and what tells the games that were taken of them."""
    counts: dict[str, int]
    """Games, positions of an epoch, parameters of the net."""
    machine: dict[str, Any] = {}
    versions: dict[str, str] = Field(default_factory=lambda: {name: version(name) for name in _PARTS})
    steps: Annotated[int, Field(ge=0)] = 0
    positions: Annotated[int, Field(ge=0)] = 0
    seconds: Annotated[float, Field(ge=0)] = 0.0
    best: dict[str, float] = {}
    """The figures of the best validation."""
    last: dict[str, float] = {}
    """The last figures of both kinds."""

    def save(self, folder: Path) -> None:
        """Raises OutputError."""
        write_file(folder / MANIFEST, self.model_dump_json(indent=1).encode() + b"\n")


def read_run(folder: Path) -> Run | None:
    """What a folder says of its run; None if there is none. Raises FormatError."""
    path = folder / MANIFEST
    try:
        return Run.model_validate(json.loads(path.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror}") from None
    except (ValidationError, ValueError, RecursionError):
        raise FormatError(f"{path} does not say what a run of kifu says") from None


def difference(name: str, old: Any, new: Any) -> str | None:
    """The first value that is not the same, "recipe.optimiser.lr was 0.1, and is 0.2"; None if all are."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in (*old, *(key for key in new if key not in old)):
            if told := difference(f"{name}.{key}", old.get(key), new.get(key)):
                return told
        return None
    return None if old == new else f"{name} was {json.dumps(old)[:80]}, and is {json.dumps(new)[:80]}"
