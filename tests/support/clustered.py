"""A job that counts, and fails on request, for tests of executors."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from kifu.errors import DropReason, IllegalMove, KifuError, RecordError
from kifu.execution.executor import Executor, Job

RECYCLED = -1
"""Value of results that have been recycled."""


@dataclass(frozen=True)
class Span:
    """A shard: `count` numbers from `first` on. failure: how it fails, once or always."""

    first: int
    count: int = 3
    failure: str = ""


@dataclass(frozen=True)
class Times(Job[Span, int, np.ndarray]):
    """Repeat each number as often as it is modulo 5, times a factor.

    marks: a folder for a file per attempt, "begun-FIRST-PARENT-...", at the end renamed to "made-FIRST-PARENT-...";
    the parent of a process of Ray represents its node.
    """

    factor: int
    marks: str
    seconds: float = 0.0

    def fingerprint(self) -> Any:
        return self.factor

    def shard_fingerprint(self, shard: Span) -> Any:
        return [shard.first, shard.count]

    def read(self, shard: Span) -> Iterator[int]:
        mark = Path(self.marks) / f"begun-{shard.first}-{os.getppid()}-{uuid4().hex}"
        mark.touch()
        yield from range(shard.first, shard.first + shard.count)
        time.sleep(self.seconds)
        self._fail(shard)
        mark.rename(mark.with_name(mark.name.replace("begun", "made")))

    def _fail(self, shard: Span) -> None:
        """Fail at the end, when there are results already."""
        match shard.failure:
            case "record":
                raise RecordError(f"nothing to read in {shard.first}")
            case "move":
                raise IllegalMove(3, 72, DropReason.KO)
            case "defect":
                raise ZeroDivisionError("of my own\nmaking")
            case "missing":
                Path("not/there").read_bytes()
            case "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            case "dies once" if tries(self.marks, shard.first) == 1:
                os.kill(os.getpid(), signal.SIGKILL)

    def process(self, item: int) -> np.ndarray:
        return np.full(item % 5, item * self.factor)

    def recycle(self, result: np.ndarray) -> None:
        result[:] = RECYCLED


def tries(marks: str | Path, first: int, how: str = "*") -> int:
    """Return how often a shard was begun, or with how="made" completed."""
    return len(list(Path(marks).glob(f"{how}-{first}-*")))


def given(executor: Executor, job: Times, shards: list[Span]) -> list[list[int]]:
    """Return all results, each as it is when it is yielded."""
    with closing(executor.run(job, iter(shards))) as results:
        return [result.tolist() for result in results]


def expected(job: Times, shards: list[Span]) -> list[list[int]]:
    return [[n * job.factor] * (n % 5) for shard in shards for n in range(shard.first, shard.first + shard.count)]


def refused(executor: Executor, job: Times, shards: list[Span]) -> KifuError:
    """Return the error in which a run ends."""
    try:
        given(executor, job, shards)
    except KifuError as error:
        return error
    raise AssertionError("it went well")


SPANS = [Span(first) for first in range(0, 48, 3)]

CALLER = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
import clustered
from ray import cloudpickle
from kifu.execution.executor import make_executor
cloudpickle.register_pickle_by_value(clustered)
job = clustered.{job!r}
with make_executor({engine!r}, 2, Path({work!r})) as executor:
    for result in executor.run(job, clustered.SPANS):
        print(result.tolist(), flush=True)
"""


def call(job: Times, work: Path, engine: str = "ray") -> subprocess.Popen[str]:
    """Start a process that runs the job for SPANS, and prints each result."""
    program = CALLER.format(tests=str(Path(__file__).parent), job=job, work=str(work), engine=engine)
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
