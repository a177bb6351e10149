"""Timing on a shared machine: tasks take turns in rounds; the best round and the spread count."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from kifu.execution.executor import count_cores


@dataclass(frozen=True)
class Task:
    """A task to time; prepare and undo run before and after each round, untimed."""

    run: Callable[[], object]
    undo: Callable[[], object] = lambda: None
    prepare: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Times:
    """Seconds of each round: wall-clock time, and processor time including child processes.

    Much more wall-clock than processor time means that the task waited for the disk or for other processes.
    """

    clock: tuple[float, ...]
    processor: tuple[float, ...]

    @property
    def best(self) -> float:
        """The shortest wall-clock time."""
        return min(self.clock)

    @property
    def spread(self) -> float:
        """Median over best wall-clock time, minus 1. Values over 0.25 mean a noisy machine."""
        return statistics.median(self.clock) / self.best - 1


def in_turns(rounds: int, *tasks: Task, warm_up: bool = True) -> list[Times]:
    """Time tasks, which take turns; warm_up: run a round first that is not counted, to load the kernels."""
    seconds: list[list[tuple[float, float]]] = [[] for _ in tasks]
    for counted in [False] * warm_up + [True] * rounds:
        for task, mine in zip(tasks, seconds):
            task.prepare()
            began, began_processor = time.perf_counter(), _processor_seconds()
            task.run()
            took = time.perf_counter() - began, _processor_seconds() - began_processor
            task.undo()
            if counted:
                mine.append(took)
    return [Times(*zip(*mine)) for mine in seconds]


def _processor_seconds() -> float:
    """Return the processor time of this process and its finished children."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this thread and all that it starts on one core: the last one, since the first handles most interrupts."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


cores = count_cores


def machine() -> str:
    """Describe the machine and the versions in one line."""
    parts = [
        _processor(),
        f"{cores()} cores",
        f"{platform.system()} {platform.release()}",
        f"Python {platform.python_version()}",
        *(f"{name} {version(name)}" for name in ("kifu", "numba", "numpy", "isal")),
        f"load {os.getloadavg()[0]:.1f}",
    ]
    return ", ".join(parts)


def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
