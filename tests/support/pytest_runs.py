"""Run pytest in another environment."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def passed(arguments: list[str], timeout: float, **environment: str) -> int:
    """Run pytest in another environment, assert that no test fails, and return how many pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"KIFU_TEST_SECONDS": "inf"} | environment
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout)
    reported = run.stdout + run.stderr
    assert run.returncode == 0, reported
    count = re.search(r"(\d+) passed", reported)
    assert count is not None, reported
    return int(count[1])
