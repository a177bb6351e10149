"""The one decorator that compiles kernels, and the word to the user when that takes a while.

Kernels are plain loops over flat arrays. They fill arrays that the caller gives, return a status and raise nothing.
With NUMBA_DISABLE_JIT=1 they run as ordinary Python, for tests and debuggers.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event
from numba.core.registry import CPUDispatcher

F = TypeVar("F", bound=Callable[..., Any])


_ROOT = Path(__file__).parent
_IMPORT = re.compile(r"^from kifu\.([\w.]+) import ([\w, ]*)", re.MULTILINE)


@functools.cache
def _sources(path: Path) -> frozenset[Path]:
    """The module at `path` and all modules of the package that it imports at its top, directly or not."""
    found = {path}
    for name, parts in _IMPORT.findall(path.read_text("utf-8")):
        modules = [name, *(f"{name}.{part.split()[0]}" for part in parts.split(",") if part.strip())]
        for imported in (_ROOT.joinpath(*module.split(".")).with_suffix(".py") for module in modules):
            if imported != path and imported.is_file():
                found |= _sources(imported)
    return frozenset(found)


@functools.cache
def _stamp(path: Path) -> tuple[int, int]:
    """Changes when any of `_sources(path)` does: the newest time of change, and the sum of the sizes."""
    stats = [source.stat() for source in _sources(path)]
    return max(s.st_mtime_ns for s in stats), sum(s.st_size for s in stats)


def kernel(function: F, keep: bool = True) -> F:
    """Compiles `function` at first use, and keeps it on disk.

    nogil: threads run kernels side by side. cache: compiled code is kept on disk; numba#4807 (crashes of worker
    processes that share a cache) does not touch us, because our workers are threads. error_model numpy: no check for
    division by zero in the loops. boundscheck stays off: a kernel proves its own bounds, and the tests run it
    uncompiled, where NumPy checks them. _nrt off: kernels allocate nothing, so they need no reference counts, whose
    atomic increments at each inlined call took two thirds of the replay's time (6 against 20 million moves a second).
    """
    compiled = numba.njit(nogil=True, error_model="numpy", _nrt=False)(function)
    if keep and not numba.config.DISABLE_JIT:
        # Where no folder can be written to, it is compiled at each start.
        with contextlib.suppress(RuntimeError):
            compiled.enable_caching()
            # Numba stamps cached code with its own file only, though kernels of other files are compiled into it.
            compiled._cache._cache_file._source_stamp = _stamp(Path(function.__code__.co_filename))
    return cast(F, compiled)


class _Inlined(CPUDispatcher):  # type: ignore[misc]
    """A function without an entry for Python, which took half the time of compiling it."""

    def __call__(self, *_: Any) -> Any:
        raise TypeError(f"{self.py_func.__name__} is compiled into kernels; Python cannot call it")


def inline_kernel(function: F) -> F:
    """A kernel that only kernels call, compiled into its caller: a `State` handed on by value is a hundred words."""
    if numba.config.DISABLE_JIT:
        return function
    options = {"nopython": True, "nogil": True, "error_model": "numpy", "forceinline": True, "_nrt": False}
    return cast(F, _Inlined(function, targetoptions=options | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}))


class _Announcer(event.Listener):  # type: ignore[misc]
    """Says once, at the first real compilation, what the wait is for."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: Any) -> None:
        if not self.said:
            self.said = True
            print("kifu: compiling its kernels, once on this machine ...", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        pass


def announce_compilation() -> None:
    """From now on, tells on standard error when kernels are compiled rather than loaded from the cache."""
    event.register("numba:compile", _Announcer())
