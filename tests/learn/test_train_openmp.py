"""OpenMP's waiting, which is set before torch is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_WAIT_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")

_PRINT_COUNT = "; import os; print(os.environ.get('GOMP_SPINCOUNT'))"


def _run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in _WAIT_VARIABLES}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=clean | environment, capture_output=True, text=True, check=True, timeout=120)


@pytest.mark.subprocess
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="libgomp reports its settings")
def test_openmp_waits_briefly() -> None:
    """All modules that import torch first are in this package."""
    done = _run("import kifu.learn.train", OMP_DISPLAY_ENV="verbose")
    assert "GOMP_SPINCOUNT = '100000'" in done.stderr


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("program", "environment", "count"),
    [
        ("import kifu.learn", {}, "100000"),
        ("import kifu.learn", {"OMP_WAIT_POLICY": "ACTIVE"}, "None"),
        ("import kifu.learn", {"GOMP_SPINCOUNT": "7"}, "7"),
        ("import kifu.learn", {"KMP_BLOCKTIME": "200"}, "None"),
        ("import sys; sys.modules['torch'] = sys; import kifu.learn", {}, "None"),
        ("import kifu", {}, "None"),
    ],
)
def test_settings_of_the_user_and_of_a_loaded_torch_are_kept(
    program: str, environment: dict[str, str], count: str
) -> None:
    assert _run(program + _PRINT_COUNT, **environment).stdout == f"{count}\n"
