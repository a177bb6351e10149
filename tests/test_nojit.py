"""The tests marked nojit, run once more with the kernels as ordinary Python, where NumPy checks every index."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.subprocess
def test_kernels_without_the_compiler():
    here = Path(__file__).parent
    files = [str(path) for path in sorted(here.rglob("test_*.py")) if "@pytest.mark.nojit" in path.read_text("utf-8")]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "nojit", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(command, cwd=here.parent, env=environment, capture_output=True, text=True, timeout=300)
    reported = run.stdout + run.stderr
    assert run.returncode == 0, reported
    passed = re.search(r"(\d+) passed", reported)
    assert passed is not None, reported
    assert int(passed[1]) > 60, reported
