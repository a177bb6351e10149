"""Shared fixtures."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

os.environ["KERAS_BACKEND"] = "torch"  # else Keras looks for TensorFlow
# A shell lets what it starts in the background ignore Ctrl-C, and so would the commands that are tested.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real archives and references beside the checkout."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("needs ../shared")
    return folder
