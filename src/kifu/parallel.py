"""Threads over kernels, in order: the same results in the same order for any number of threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar, cast

from kifu.errors import RecipeError

T = TypeVar("T")
R = TypeVar("R")


def _cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_jobs(jobs: int | None) -> int:
    """How many threads to have: `jobs`, or as many as there are cores. Raises RecipeError if it is below 1."""
    if jobs is not None and jobs < 1:
        raise RecipeError(f"{jobs} jobs are too few; there has to be at least 1")
    return jobs or _cores()


class Crew:
    """`jobs` threads; with one job the caller's own thread does all the work."""

    def __init__(self, jobs: int | None = None) -> None:
        """jobs: by default as many as there are cores. Raises RecipeError if it is below 1."""
        self.jobs = count_jobs(jobs)
        self._pool = ThreadPoolExecutor(self.jobs) if self.jobs > 1 else None

    def map(self, function: Callable[[T], R], items: Iterable[T], ahead: int | None = None) -> Iterator[R]:
        """Yields function(item) in the order of the items, at most `ahead` of them (default: 2 x jobs) in advance."""
        if self._pool is None:
            yield from map(function, items)
            return
        under_way: deque[Future[R]] = deque()
        for item in items:
            under_way.append(self._pool.submit(function, item))
            if len(under_way) > (2 * self.jobs if ahead is None else ahead):
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def ahead(items: Generator[T], count: int) -> Generator[T]:
    """Yields the items; a thread of its own makes `count` of them in advance. Closes the generator at the end."""
    end = object()
    pool = ThreadPoolExecutor(1)
    under_way = deque(pool.submit(next, items, end) for _ in range(count))
    try:
        while (item := under_way.popleft().result()) is not end:
            under_way.append(pool.submit(next, items, end))
            yield cast(T, item)
    finally:
        give_up(pool, under_way)
        items.close()


def give_up(pool: ThreadPoolExecutor, tasks: Iterable[Future[Any]]) -> None:
    """Ends the pool, without doing those of its tasks that are not begun.

    A generator may be closed as late as when Python goes, where `shutdown(cancel_futures=True)` fails.
    """
    for task in tasks:
        task.cancel()
    pool.shutdown()
