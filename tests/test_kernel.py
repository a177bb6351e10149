"""The cache of compiled kernels, and the progress of their compilation."""

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

import kifu.compiler
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
    program = "import kifu.compiler, test_kernel; print(kifu.compiler.fingerprint(test_kernel.cube.py_func)[0])"
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parent, env=os.environ | {"NUMBA_BOUNDSCHECK": flag}, capture_output=True, check=True,
            timeout=120,
        ).stdout
        for flag in "01"
    }  # fmt: skip
    assert len(digests) == 2


class Bars:
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
    monkeypatch.setattr(kifu.compiler, "progress", bars := Bars())
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    announce_compilation()
    return bars


def test_progress_and_pruning(bars: Bars, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum_of_squares(4) == 14
    assert sum_of_squares(5) == 30
    assert bars.shown == [["compiling kernel sum_of_squares", 2, 2, "functions"]]
    monkeypatch.setattr(kifu.compiler, "_MAX_CACHED", 1)
    (entry,) = (tmp_path / "kifu").glob("*.kernel")
    os.utime(entry, (0, 0))
    assert cube(3) == 27
    assert not entry.exists()
    assert sorted(path.suffix for path in (tmp_path / "kifu").iterdir()) == [".kernel", ".lock"]


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


def test_a_damaged_entry_is_compiled_again(bars: Bars, tmp_path: Path) -> None:
    def double(x):
        return x + x

    assert kernel(double)(2) == 4
    (entry,) = (tmp_path / "kifu").glob("*.kernel")
    whole = entry.read_bytes()
    for damaged in (b"", whole[:-1], whole[:999] + bytes([whole[999] ^ 1]) + whole[1000:]):
        entry.write_bytes(damaged)
        assert kernel(double)(2) == 4
        assert entry.read_bytes() != damaged
    assert len(bars.shown) == 4
    assert kernel(double)(2) == 4
    assert len(bars.shown) == 4


def test_a_folder_that_others_can_write_to_is_not_used(bars: Bars, tmp_path: Path) -> None:
    def triple(x):
        return 3 * x

    (tmp_path / "kifu").mkdir()
    (tmp_path / "kifu").chmod(0o777)
    for _ in range(2):
        assert kernel(triple)(2) == 6
    assert len(bars.shown) == 2
    assert not list((tmp_path / "kifu").iterdir())


PACKAGED = """
import sys
from pathlib import Path
from kifu.compiler import _CachedDispatcher
import kifu.compiler
from test_kernel import cube

kifu.compiler.PACKAGED = Path(sys.argv[1])
kifu.compiler.BASELINE = ("x", sys.argv[2]) if len(sys.argv) > 2 else kifu.compiler.BASELINE
assert cube(3) == 27
print(cube.dispatcher._cache_hits.total())
"""


@pytest.mark.subprocess
@pytest.mark.skipif(not kifu.compiler._runs_baseline(), reason="this CPU lacks features of the baseline")
def test_packaged_code_is_used_where_it_runs(tmp_path: Path) -> None:
    def hits(cache: str, *options: str, **variables: str) -> int:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / cache), **variables}
        program = [sys.executable, "-c", PACKAGED, str(tmp_path / "packaged" / "kifu"), *options]
        done = subprocess.run(program, cwd=Path(__file__).parent, env=environment, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    name, features = kifu.compiler.BASELINE
    assert hits("packaged", NUMBA_CPU_NAME=name, NUMBA_CPU_FEATURES=features) == 0
    (entry,) = (tmp_path / "packaged" / "kifu").glob("*.kernel")
    assert hits("a") == 1
    assert hits("b", "+a feature that no CPU has") == 0
    entry.write_bytes(entry.read_bytes()[:-1])
    assert hits("c") == 0


def test_a_kernel_from_disk_is_compiled_into_another(bars: Bars) -> None:
    """Its LLVM IR is parsed only then."""

    def double(x):
        return x + x

    first, loaded = kernel(double), kernel(double)
    assert first(2) == loaded(2) == 4

    def quadruple(x):
        return loaded(loaded(x))

    assert kernel(quadruple)(3) == kernel(quadruple)(3) == 12
    assert [label for label, *_ in bars.shown] == ["compiling kernel double", "compiling kernel quadruple"]
