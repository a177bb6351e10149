"""Who does the work, and how it is divided: threads here, or the processes of a cluster, with the same results.

A `Job` is a map over units, an archive or a slice of a catalogue say. `Executor.run` does it and gives the results in the
order of the units and their items; threads share the items of one unit after another, while a crew on a cluster (see
`kifu.cluster`) gives each of its processes whole units. Nothing above knows which of them it is.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from kifu.errors import OutputError, RecipeError

if TYPE_CHECKING:
    from kifu.execution.serialization import Parcel

T = TypeVar("T")
R = TypeVar("R")
Unit = TypeVar("Unit")
Item = TypeVar("Item")

THREADS = "threads"


def _cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_jobs(jobs: int | None) -> int:
    """How many threads to have: `jobs`, or as many as there are cores. Raises RecipeError if it is below 1."""
    if jobs is not None and jobs < 1:
        raise RecipeError(f"{jobs} jobs are too few; there has to be at least 1")
    return jobs or _cores()


class Job(ABC, Generic[Unit, Item, R]):
    """A map over units, each of which is drawn as items, one after another, that are made by themselves.

    What is made of a unit follows from the job, the unit and the files that it names only. Jobs and units can be
    pickled; items and results need not be, and are never sent: results travel as parcels.

    Only a crew that keeps what is made (see `open_crew`) asks for identities: a job for others can do without.
    """

    def identity(self) -> Any:
        """What results follow from beside the unit, as JSON values: an interrupted run is gone on with if all of it is
        the same. The version of kifu is added to it."""
        raise TypeError(f"results of {type(self).__name__} cannot be kept: it has no identity")

    def unit_identity(self, unit: Unit) -> Any:
        """What tells the unit, and the files that it names, from others, as JSON values."""
        raise TypeError(f"results of {type(self).__name__} cannot be kept: it has no identity")

    @abstractmethod
    def items(self, unit: Unit) -> Iterator[Item]:
        """Reads the unit; in one thread at a time."""

    @abstractmethod
    def make(self, item: Item) -> R:
        """What becomes of an item; in any thread."""

    @abstractmethod
    def pack(self, result: R) -> Parcel:
        """A result as it travels. The arrays may be those of the result: they are written before it is released."""

    @abstractmethod
    def unpack(self, parcel: Parcel) -> R:
        """The reverse of `pack`."""

    def release(self, result: R) -> None:
        """Called when whoever asked for the result asks for the next one: its memory may be used again."""


class Executor:
    """`jobs` threads; with one job the caller's own thread does all the work."""

    def __init__(self, jobs: int | None = None, left: Path | None = None) -> None:
        """jobs: by default as many as there are cores. left: a folder where an interrupted run on a cluster may have
        left something, which is of no use once the work has ended well. Raises RecipeError if there are no jobs.
        """
        self.jobs = count_jobs(jobs)
        self._left = left
        self._pool = ThreadPoolExecutor(self.jobs) if self.jobs > 1 else None

    def map(self, function: Callable[[T], R], items: Iterable[T], prefetch: int | None = None) -> Iterator[R]:
        """Yields function(item) in the order of the items, at most `prefetch` of them (default: 2 x jobs) in advance.

        An error, of the function or of the items themselves, is raised once all results before it are given out.
        """
        if self._pool is None:
            yield from map(function, items)
            return
        under_way: deque[Future[R]] = deque()
        drawn, failure = iter(items), None
        while True:
            try:
                item = next(drawn)
            except StopIteration:
                break
            except Exception as error:
                failure = error
                break
            under_way.append(self._pool.submit(function, item))
            if len(under_way) > (2 * self.jobs if prefetch is None else prefetch):
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
        if failure is not None:
            raise failure

    def run(self, job: Job[Unit, Item, R], units: Iterable[Unit], prefetch: int | None = None) -> Generator[R]:
        """Yields what the job makes of each item of each unit, in order; each result lasts until the next is asked for.

        prefetch: as in `map`, of items.
        """
        for result in self.map(job.make, chain.from_iterable(map(job.items, units)), prefetch):
            yield result
            job.release(result)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        if kind is None and self._left is not None and self._left.is_dir():
            from kifu.execution.staging import StagingDir

            with suppress(OutputError), StagingDir(self._left):  # held by nobody else; it goes when it is left
                pass


def make_executor(engine: str = THREADS, jobs: int | None = None, work: Path | None = None) -> Executor:
    """Those who do the work: `jobs` threads, or with the engine "ray" or "ray=ADDRESS" the processes of a cluster.

    work: a folder, seen by all of the cluster, where what was made waits until it is asked for, so that a run that was
    interrupted is gone on with; it is there only while that is so. None: nothing is kept. Threads need none, and remove
    what a cluster has left there.
    Raises RecipeError for another engine, ClusterError if there is no such cluster, or it cannot do this work.
    """
    if engine == THREADS:
        return Executor(jobs, work)
    name, _, address = engine.partition("=")
    if name != "ray":
        raise RecipeError(f"no engine {engine!r}; there are {THREADS}, ray and ray=ADDRESS")
    from kifu.execution.ray_executor import RayExecutor

    return RayExecutor(address or None, jobs, work)


def prefetch(items: Generator[T], count: int) -> Generator[T]:
    """Yields the items; a thread of its own makes `count` of them in advance. Closes the generator at the end."""
    end, at_last = object(), cancel
    pool = ThreadPoolExecutor(1)
    under_way = deque(pool.submit(next, items, end) for _ in range(count))
    try:
        while (item := under_way.popleft().result()) is not end:
            under_way.append(pool.submit(next, items, end))
            yield cast(T, item)
    finally:
        at_last(pool, under_way)
        items.close()


def cancel(pool: ThreadPoolExecutor, tasks: Iterable[Future[Any]]) -> None:
    """Ends the pool, without doing those of its tasks that are not begun.

    A generator may be closed as late as when Python goes. Then `shutdown(cancel_futures=True)` fails, and so does what
    is looked up in a module, this function for one: take hold of it before.
    """
    for task in tasks:
        task.cancel()
    pool.shutdown()
