"""Threads that keep results of shards in a staging directory, so that an interrupted run resumes.

The Ray executor does the same. Results travel through files, which costs little compared with networks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from kifu.execution.executor import Executor, Item, Job, R, Shard, T, ThreadExecutor
from kifu.execution.serialization import read_results, write_results
from kifu.execution.staging import StagingDir


class _ShardFile(NamedTuple):
    """Precedes the items of a shard. path: of its results. complete: they exist, and there are no items."""

    path: Path
    complete: bool


_END = object()
"""Follows the items of a shard."""


class ResumableExecutor(Executor):
    """Runs jobs on threads of this process, and keeps the results of complete shards until the context ends."""

    def __init__(self, jobs: int | None, staging: Path) -> None:
        """Start the threads.

        Args:
            jobs: Number of threads, by default one per core.
            staging: See `kifu.execution.executor.make_executor`.

        Raises:
            OutputError: The staging directory cannot be used.
            RecipeError: Jobs is below 1.
        """
        self._runs = 0
        with ExitStack() as stack:
            self._staging = stack.enter_context(StagingDir(staging))
            self._threads = stack.enter_context(ThreadExecutor(jobs))
            self.jobs = self._threads.jobs
            self._stack = stack.pop_all()

    def map(self, function: Callable[[T], R], items: Iterable[T], prefetch: int | None = None) -> Iterator[R]:
        """Map on the threads."""
        return self._threads.map(function, items, prefetch)

    def run(self, job: Job[Shard, Item, R], shards: Iterable[Shard], prefetch: int | None = None) -> Generator[R]:
        """Run a job on the threads. Raises OutputError if the staging directory cannot be written."""
        run, self._runs = self._runs, self._runs + 1

        def items() -> Iterator[Any]:
            for number, (shard, key) in enumerate(job.keys(shards)):
                file = _ShardFile(*self._staging.file(run, number, key))
                yield file
                yield from () if file.complete else job.read(shard)
                yield _END

        def process(item: Any) -> Any:
            return item if item is _END or isinstance(item, _ShardFile) else job.process(item)

        def made() -> Iterator[Any]:
            for result in takewhile(lambda each: each is not _END, results):
                yield result
                job.recycle(result)

        results = self.map(process, items(), prefetch)
        for path, complete in results:
            if complete:
                next(results)  # the end
            else:
                write_results(path, made())
            yield from read_results(path)

    def spill_dir(self) -> Path:
        """Return the staging directory."""
        return self._staging.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
