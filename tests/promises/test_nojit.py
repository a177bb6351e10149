"""The tests of kernels once more: as ordinary Python, where NumPy checks every index, and compiled with such checks."""

from pathlib import Path

import pytest

from commands import passed

HERE = Path(__file__).parents[1]


def marked_files() -> list[str]:
    return [str(path) for path in sorted(HERE.rglob("test_*.py")) if "@pytest.mark.nojit" in path.read_text("utf-8")]


@pytest.mark.subprocess
def test_kernels_without_the_compiler():
    assert passed(["-m", "nojit", *marked_files()], 300, NUMBA_DISABLE_JIT="1") > 60


@pytest.mark.slow
@pytest.mark.subprocess
def test_board_with_bounds_checks(tmp_path):
    environment = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    files = [str(HERE / name) for name in ("go/test_state.py", "test_kernel.py")]
    assert passed(["-m", "not slow and not thorough", *files], 300, **environment) > 10


@pytest.mark.thorough
@pytest.mark.subprocess
def test_all_kernels_with_bounds_checks(tmp_path):
    """conftest.py also forbids negative indices there."""
    tested = ["go", "planes", "katago", "datasets", "leaks", "search", "records/test_game.py", "test_kernel.py"]
    paths = [str(HERE / path) for path in tested]
    environment = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    expression = "not slow and not thorough and not exhaustive and not subprocess"
    assert passed(["-m", expression, *paths], 3600, **environment) > 1000
