"""Limits of tests without marks: they start no process and take at most a second."""

import importlib
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

from hypothesis import settings

_EVENTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}

started: list[str] = []
"""The processes that were started since the list was last cleared."""


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _EVENTS and arguments[:1] != ("uname",):  # by which `platform` finds the name of the processor
        started.append(f"{event} {arguments[:2]}")


_loading = threading.local()
_loading_s = 0.0


def _timed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that is called once in a process: the test that happens to be first need not pay for it."""

    def wrapped(*arguments: Any, **options: Any) -> Any:
        global _loading_s
        if getattr(_loading, "depth", 0):
            return function(*arguments, **options)
        began, _loading.depth = time.thread_time(), 1
        try:
            return function(*arguments, **options)
        finally:
            _loading.depth = 0
            _loading_s += time.thread_time() - began

    return wrapped


_SPIN_S = 0.016  # CPU time of `_spin` on an idle core of the machine on which a second was chosen as the limit


def _spin() -> float:
    began = time.process_time()
    sum(k * k for k in range(300_000))
    return time.process_time() - began


def budget() -> float:
    """Return the CPU time in seconds that an unmarked test may take: one, or more while this machine is slower."""
    default = "1" if settings.get_current_profile_name() == "default" else "inf"
    return float(os.environ.get("KIFU_TEST_SECONDS", default)) * max(
        1, statistics.median(_spin() for _ in range(5)) / _SPIN_S
    )


def cpu_time() -> float:
    """Return the CPU time of this process in seconds, without what imports and compilation took."""
    return time.process_time() - _loading_s


def install() -> None:
    from kifu import compiler

    sys.addaudithook(_audit)
    start = BaseProcess.start

    def observed(process: BaseProcess) -> None:
        started.append(f"multiprocessing {process.name}")
        start(process)

    BaseProcess.start = observed  # type: ignore[method-assign]
    importlib._bootstrap._find_and_load = _timed(importlib._bootstrap._find_and_load)  # type: ignore[attr-defined]
    compiler._CachedDispatcher.compile = _timed(compiler._CachedDispatcher.compile)  # type: ignore[method-assign]
