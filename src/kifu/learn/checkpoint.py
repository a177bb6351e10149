"""What a run resumes from: written whole or not at all, read without running anything that is in it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.plugins import CheckpointIO

from kifu.atomic_io import remove_file, write_file
from kifu.errors import FormatError, first_line

STATE = "kifu"
"""Under which key of a checkpoint stands what is ours."""

_TOLD = {
    "recipe", "inputs", "steps", "positions", "seconds", "best", "worse", "place", "sums", "average", "finished",
}  # fmt: skip
"""What is ours: see `kifu.learn.run.Conductor.on_save_checkpoint`."""


class SafeCheckpoints(CheckpointIO):  # type: ignore[misc]
    """Lightning's checkpoints through `kifu.atomic_io`: a kill or a full disk leaves the last good one."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        """Raises OutputError."""
        data = io.BytesIO()
        torch.save(checkpoint, data)
        write_file(Path(path), data.getbuffer())

    def load_checkpoint(self, path: str | Path, map_location: Any = "cpu", weights_only: Any = None) -> dict[str, Any]:
        """Raises FormatError."""
        return _load(Path(path))

    def remove_checkpoint(self, path: str | Path) -> None:
        """Raises OutputError."""
        remove_file(Path(path))


def read_checkpoint(path: Path) -> dict[str, Any]:
    """What is ours of a checkpoint. Raises FormatError if it cannot be read, or is none of kifu."""
    found = _load(path).get(STATE)
    if not isinstance(found, dict) or not found.keys() >= _TOLD:
        raise FormatError(f"cannot resume from {path}: it is no checkpoint of kifu")
    return found


def _load(path: Path) -> dict[str, Any]:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of bytes that are no checkpoint, whatever torch stumbles over
        raise FormatError(f"cannot resume from {path}: {first_line(error)}") from None
    if not isinstance(found, dict):
        raise FormatError(f"cannot resume from {path}: it is no checkpoint")
    return found
