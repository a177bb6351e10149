"""Parallel maps with the same results everywhere: on threads, or on the processes of a Ray cluster.

A map is two functions: `read` yields the items of a shard, such as an archive or a range of rows of a catalogue, and
`process` turns an item into a result. `Executor` runs them on threads, which share the items of one shard after
another; `kifu.execution.ray_executor` gives whole shards to processes. Results come in the order of the shards and
their items, so callers need not know which executor runs the work.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pkgutil import resolve_name
from typing import Any, Self, TypeVar, cast

from kifu.errors import RecipeError
from kifu.registry import unknown

T = TypeVar("T")
R = TypeVar("R")
Shard = TypeVar("Shard")
Item = TypeVar("Item")

THREADS = "threads"

_RAY_EXECUTOR = "kifu.execution.ray_executor:RayExecutor"
"""Imported when it is used: it builds on this module, and needs ray."""


def count_jobs(jobs: int | None) -> int:
    """Return `jobs`, or the number of available cores for None. Raises RecipeError if it is below 1."""
    if jobs is not None and jobs < 1:
        raise RecipeError(f"jobs must be >= 1, got {jobs}")
    return jobs or count_cores()


def count_cores() -> int:
    """Return the number of cores that this process may use, where the system tells; otherwise that of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shard_itself(shard: Any) -> Iterator[Any]:
    """Yield the shard, as its only item."""
    yield shard


class Executor:
    """Runs maps on threads; with one job, in the caller's thread. A context manager."""

    def __init__(self, jobs: int | None = None) -> None:
        """Start the threads, by default as many as there are cores. Raises RecipeError if `jobs` is below 1."""
        self.jobs = count_jobs(jobs)
        self._pool = ThreadPoolExecutor(self.jobs) if self.jobs > 1 else None

    def map(self, function: Callable[[T], R], items: Iterable[T], prefetch: int | None = None) -> Iterator[R]:
        """Yield function(item) in the order of the items, computed by threads of this process.

        At most `prefetch` results are computed ahead, by default 2 x jobs. What the function or the items raise is
        raised once all results before it have been yielded.
        """
        if self._pool is None:
            yield from map(function, items)
            return
        pending: deque[Future[R]] = deque()
        iterator, failure = iter(items), None
        while True:
            try:
                item = next(iterator)
            except StopIteration:
                break
            except Exception as error:
                failure = error
                break
            pending.append(self._pool.submit(function, item))
            if len(pending) > (2 * self.jobs if prefetch is None else prefetch):
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
        if failure is not None:
            raise failure

    def run(
        self,
        process: Callable[[Item], R],
        shards: Iterable[Shard],
        read: Callable[[Shard], Iterator[Item]] = shard_itself,
        prefetch: int | None = None,
    ) -> Generator[R]:
        """Yield the results of all items of all shards, in order.

        Results must depend only on the functions, the shards and the files that they name, all of which can be pickled.

        Args:
            process: Returns the result of an item. Runs in any thread or process.
            read: Yields the items of a shard, one thread at a time; by default the shard itself.
            prefetch: As for `map`, counted in items; only threads use it.
        """
        yield from self.map(process, chain.from_iterable(map(read, shards)), prefetch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def make_executor(
    engine: str = THREADS, jobs: int | Executor | None = None
) -> Executor | AbstractContextManager[Executor]:
    """Return the executor of an execution backend, as a context.

    Args:
        engine: "threads", "ray" for a cluster that is started on this machine, or "ray=HOST:PORT".
        jobs: Number of threads or of shards at a time, by default as many as there are processors; or an executor that
            is in use already, whose context the caller ends.

    Raises:
        RecipeError: The engine is unknown, or `jobs` is below 1.
        ClusterError: The cluster does not answer or cannot do this work.
    """
    if isinstance(jobs, Executor):
        return nullcontext(jobs)
    if engine == THREADS:
        return Executor(jobs)
    name, _, address = engine.partition("=")
    if name != "ray":
        raise unknown("engine", engine, (THREADS, "ray", "ray=ADDRESS"))
    executor: Executor = resolve_name(_RAY_EXECUTOR)(address or None, jobs)
    return executor


def prefetch(items: Generator[T], count: int) -> Generator[T]:
    """Yield the items of a generator, `count` of which a thread computes ahead. Closes the generator at the end."""
    end, cancel_pending = object(), cancel
    pool = ThreadPoolExecutor(1)
    pending = deque(pool.submit(next, items, end) for _ in range(count))
    try:
        while (item := pending.popleft().result()) is not end:
            pending.append(pool.submit(next, items, end))
            yield cast(T, item)
    finally:
        cancel_pending(pool, pending)
        items.close()


def cancel(pool: ThreadPoolExecutor, tasks: Iterable[Future[Any]]) -> None:
    """Shut a pool down without running those of its tasks that have not begun.

    A generator may be closed as late as when the interpreter exits. `shutdown(cancel_futures=True)` fails then, and so
    does a look-up of this function in its module: bind it to a local name before.
    """
    for task in tasks:
        task.cancel()
    pool.shutdown()
