"""The cache of compiled kernels, and the progress of their compilation."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
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
