"""The cache of compiled kernels, and the progress of their compilation."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import kifu.kernel
from kifu.kernel import announce_compilation, inline_kernel, kernel

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


@inline_kernel
def square(x):
    return x * x


@kernel
def sum_of_squares(n):
    total = 0
    for x in range(n):
        total += square(x)
    return total


@kernel
def cube(x):
    return square(x) * x


@inline_kernel
def put(values, at):
    values[at] = 1


@kernel
def put_inlined(values, at):
    put(values, at)
    return values[at]


@pytest.mark.skipif(not numba.config.BOUNDSCHECK, reason="run by test_nojit.py")
def test_bounds_are_checked() -> None:
    for at in (3, 4, -1, -4):
        with pytest.raises(IndexError, match="index is out of bounds"):
            put_inlined(np.zeros(5, np.int64)[1:4], at)
    assert put_inlined(np.zeros(3, np.int64), 2) == 1


@pytest.mark.subprocess
def test_the_cache_tells_kernels_with_bounds_checks_apart() -> None:
    program = "import kifu.kernel, test_kernel; print(kifu.kernel.fingerprint(test_kernel.cube.py_func).digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parent, env=os.environ | {"NUMBA_BOUNDSCHECK": flag}, capture_output=True, check=True,
        ).stdout
        for flag in "01"
    }  # fmt: skip
    assert len(digests) == 2


class Bars:
    """Records bars and their counts."""

    def __init__(self) -> None:
        self.shown: list[list[Any]] = []

    @contextmanager
    def __call__(self, label: str, total: int | None, unit: str, *, transient: bool) -> Any:
        assert transient
        self.shown.append([label, 0, total, unit])
        yield self

    def advance(self, n: int = 1) -> None:
        self.shown[-1][1] += n


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bars:
    monkeypatch.setattr(kifu.kernel, "progress", bars := Bars())
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    announce_compilation()
    return bars


def test_progress_and_pruning(bars: Bars, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum_of_squares(4) == 14
    assert sum_of_squares(5) == 30
    assert bars.shown == [["compiling kernel sum_of_squares", 2, 2, "functions"]]
    monkeypatch.setattr(kifu.kernel, "_MAX_CACHED", 1)
    (index,) = (tmp_path / "kifu").glob("*.nbi")
    os.utime(index, (0, 0))
    assert cube(3) == 27
    assert not index.exists()
    assert len(list((tmp_path / "kifu").glob("*.nbi"))) == 1


PAIR = "from typing import Any, NamedTuple\nclass Pair(NamedTuple):\n    a: Any\n    b: Any\n"


@pytest.mark.parametrize("attribute", [True, False])
def test_an_entry_that_refers_to_a_missing_class_is_compiled_again(
    bars: Bars, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attribute: bool
) -> None:
    """Another version of the package had the class in a module that is gone, or in one that lacks it now."""
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("old_pairs", "new_pairs"):
        (tmp_path / f"{name}.py").write_text(PAIR)
        monkeypatch.delitem(sys.modules, name, raising=False)
    old, new = importlib.import_module("old_pairs"), importlib.import_module("new_pairs")

    def add(pair):
        return pair.a + pair.b

    assert kernel(add)(old.Pair(1, 2)) == 3
    if attribute:
        del old.Pair
    else:
        monkeypatch.setitem(sys.modules, "old_pairs", None)
    for _ in range(2):
        assert kernel(add)(new.Pair(3, 4)) == 7
    assert [label for label, *_ in bars.shown] == ["compiling kernel add"] * 2
