"""Parallel maps with the same results everywhere: on threads, or on the processes of a Ray cluster.

A `Job` is a map over shards, such as archives or row ranges of a catalogue. `Executor.run` yields its results in the
order of the shards and their items. Threads share the items of one shard after another; the Ray executor
(`kifu.execution.ray_executor`) gives whole shards to processes. Callers need not know which executor runs the work.
"""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from importlib.metadata import version
from itertools import chain, takewhile
from pathlib import Path
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast
from uuid import uuid4

from blake3 import blake3

from kifu.errors import OutputError, RecipeError
from kifu.io import cannot_write, locked_folder, remove_file
from kifu.registry import unknown

T = TypeVar("T")
R = TypeVar("R")
Shard = TypeVar("Shard")
Item = TypeVar("Item")

THREADS = "threads"

_RAY_EXECUTOR = "kifu.execution.ray_executor:RayExecutor"
"""Imported when it is used: it builds on this module, and needs ray."""


SPILL_SUFFIX = ".spill"
"""Suffix of files that results refer to, after 32 hexadecimal digits; see `Executor.spill_dir`."""

_COMPLETE = re.compile(r"\d+-\d+-([0-9a-f]{32})\.results")
_OURS = re.compile(r".*\.(results|copy)(\.part)?|lease-[0-9a-f]{32}|[0-9a-f]{32}\.spill")
_COPY = re.compile(r"[0-9a-f]{32}\.copy")


def count_jobs(jobs: int | None) -> int:
    """Return `jobs`, or the number of available cores for None. Raises RecipeError if it is below 1."""
    if jobs is not None and jobs < 1:
        raise RecipeError(f"jobs must be >= 1, got {jobs}")
    return jobs or count_cores()


def count_cores() -> int:
    """Return the number of cores that this process may use, where the system tells; otherwise that of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Job(ABC, Generic[Shard, Item, R]):
    """A parallel map: each shard is read as items, which are processed independently.

    Results depend on the job, the shard and the files that it names only. Jobs, shards and results can be pickled.
    Fingerprints are needed only for runs that keep results in a staging directory.
    """

    def fingerprint(self) -> Any:
        """Return all that results depend on besides the shard, as JSON values.

        An interrupted run resumes if fingerprints and the version of kifu are the same.
        """
        raise TypeError(f"results of {type(self).__name__} cannot be staged: it has no fingerprint")

    def shard_fingerprint(self, shard: Shard) -> Any:
        """Return JSON values that identify the shard and the content of the files that it names."""
        raise TypeError(f"results of {type(self).__name__} cannot be staged: its shards have no fingerprint")

    def keys(self, shards: Iterable[Shard]) -> Iterator[tuple[Shard, str]]:
        """Yield each shard with a hash of all that its results depend on, 32 hexadecimal digits."""
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        fingerprint = [version("kifu"), kind, self.fingerprint()]  # may read all sources
        for shard in shards:
            text = json.dumps([*fingerprint, self.shard_fingerprint(shard)], sort_keys=True)
            yield shard, blake3(text.encode()).hexdigest(16)

    def read(self, shard: Shard) -> Iterator[Item]:
        """Yield the items of a shard, by default the shard itself. Runs in one thread at a time."""
        yield cast(Item, shard)

    @abstractmethod
    def process(self, item: Item) -> R:
        """Return the result for an item. Runs in any thread."""

    def recycle(self, result: R) -> None:
        """Take back a result, whose memory may be used again, when the caller asks for the next one."""


class Executor(ABC):
    """Runs jobs. A context manager."""

    jobs: int
    staging: Path | None = None  # shared by the processes of a cluster; None if all jobs run in this process

    @abstractmethod
    def map(self, function: Callable[[T], R], items: Iterable[T], prefetch: int | None = None) -> Iterator[R]:
        """Yield function(item) in the order of the items, computed by threads of this process.

        At most `prefetch` results are computed ahead, by default 2 x jobs. What the function or the items raise is
        raised once all results before it have been yielded.
        """

    @abstractmethod
    def run(self, job: Job[Shard, Item, R], shards: Iterable[Shard], prefetch: int | None = None) -> Generator[R]:
        """Yield the results of a job for all items of all shards, in order; each is valid until the next is asked for.

        `prefetch` is as for `map`, counted in items; only threads use it.
        """

    @abstractmethod
    def spill_dir(self) -> Path:
        """Return a directory that all workers share, for files that jobs write and name in their results.

        It is the staging directory: the executor removes it at the end, and keeps it if complete results remain there.
        Names are 32 hexadecimal digits and `kifu.execution.executor.SPILL_SUFFIX`.
        """

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def copy_name(key: str) -> str:
    """Return the file name for the copy of a source, given a hash of its address and version, 32 hexadecimal digits."""
    return f"{key}.copy"


class StagingDir:
    """A staging directory, locked by one caller at a time.

    A context manager: leaving it removes the directory, unless an error is the reason and it holds complete results,
    with which the next run resumes. Files of others in it are left alone. Nodes check that they see the file `lease`,
    which exists while the directory is locked.
    """

    def __init__(self, path: Path) -> None:
        """Lock the directory; create it if necessary. Raises OutputError if another process holds it."""
        self.path = path
        self.lease = path / f"lease-{uuid4().hex}"
        with ExitStack() as stack:
            stack.enter_context(locked_folder(path, path))
            try:
                files = list(self._files())
                self._complete = {match[1]: file for file in files if (match := _COMPLETE.fullmatch(file.name))}
                for file in files:
                    if _COMPLETE.fullmatch(file.name) or _COPY.fullmatch(file.name):
                        continue
                    if not (self._complete and file.suffix == SPILL_SUFFIX):  # complete results may refer to them
                        remove_file(file)
                self.lease.touch(exist_ok=False)
            except OutputError:
                raise
            except OSError as error:
                raise cannot_write(path, error) from None
            self._stack = stack.pop_all()

    def _files(self) -> Iterator[Path]:
        return (file for file in list(self.path.iterdir()) if _OURS.fullmatch(file.name))

    def file(self, run: int, number: int, key: str) -> tuple[Path, bool]:
        """Return the file for the results of a shard, and whether an earlier run has completed it. Raises OutputError.

        The key, a hash of all that the results depend on, identifies the results. The numbers of the run and of the
        shard are for people who look. Files whose key is never asked for are removed at the end.
        """
        path = self.path / f"{run}-{number:06}-{key}.results"
        complete = self._complete.pop(key, None)
        if complete is not None:
            try:
                complete.replace(path)
            except OSError as error:
                raise cannot_write(path, error) from None
        return path, complete is not None

    def __enter__(self) -> StagingDir:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._stack, suppress(OSError):  # the directory may be what went wrong; what stays is for the next run
            if kind is not None and any(_COMPLETE.fullmatch(file.name) for file in self._files()):
                self.lease.unlink(missing_ok=True)
                return
            for file in self._files():
                file.unlink()
            self.path.rmdir()


class ThreadExecutor(Executor):
    """Runs jobs on threads; with one job, in the caller's thread."""

    def __init__(self, jobs: int | None = None, stale: Path | None = None) -> None:
        """Start the threads; see `make_executor`.

        stale: staging directory that an interrupted run on a cluster may have left; removed after success. By default,
        jobs spill to a directory for temporary files.
        """
        self.jobs = count_jobs(jobs)
        self._stale = stale
        self._spill = ExitStack()
        self._spill_dir: Path | None = None
        self._pool = ThreadPoolExecutor(self.jobs) if self.jobs > 1 else None

    def map(self, function: Callable[[T], R], items: Iterable[T], prefetch: int | None = None) -> Iterator[R]:
        """Map on the threads."""
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

    def run(self, job: Job[Shard, Item, R], shards: Iterable[Shard], prefetch: int | None = None) -> Generator[R]:
        """Run a job on the threads."""
        for result in self.map(job.process, chain.from_iterable(map(job.read, shards)), prefetch):
            yield result
            job.recycle(result)

    def spill_dir(self) -> Path:
        """Return the directory; see `Executor.spill_dir`."""
        if self._spill_dir is None:
            path = self._stale or Path(self._spill.enter_context(TemporaryDirectory()), "work")
            self._spill_dir = self._spill.enter_context(StagingDir(path)).path
        return self._spill_dir

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._spill.__exit__(kind, error, trace)
        if kind is None and self._stale is not None and self._stale.is_dir():
            with suppress(OutputError), StagingDir(self._stale):  # unless another process holds it
                pass


_END = object()
"""Follows the results of a shard."""


def _same(value: T) -> T:
    return value


def _call(task: Callable[[], R]) -> R:
    return task()


class ResumableExecutor(Executor):
    """Runs jobs on threads of this process, and keeps the results of complete shards until the context ends."""

    def __init__(self, jobs: int | None, staging: Path) -> None:
        """Start the threads; see `make_executor`."""
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
        from kifu.execution.serialization import read_results, write_results  # loads pyarrow

        run, self._runs = self._runs, self._runs + 1

        def tasks() -> Iterator[Callable[[], Any]]:
            """Yield a task that returns the file of each shard, then those for its items unless it is complete."""
            for number, (shard, key) in enumerate(job.keys(shards)):
                path, complete = self._staging.file(run, number, key)
                yield partial(_same, (path, complete))
                if not complete:
                    yield from (partial(job.process, item) for item in job.read(shard))
                    yield partial(_same, _END)

        def made() -> Iterator[Any]:
            for result in takewhile(lambda outcome: outcome is not _END, outcomes):
                yield result
                job.recycle(result)

        outcomes = self.map(_call, tasks(), prefetch)
        for path, complete in outcomes:
            if not complete:
                write_results(path, made())
            yield from read_results(path)

    def spill_dir(self) -> Path:
        """Return the staging directory."""
        return self._staging.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)


def make_executor(
    engine: str = THREADS, jobs: int | None = None, staging: Path | None = None, *, resumable: bool = False
) -> Executor:
    """Return the executor of an execution backend.

    Args:
        engine: "threads", "ray" for a cluster that is started on this machine, or "ray=HOST:PORT".
        jobs: Number of threads or of shards at a time; by default as many as there are processors.
        staging: Directory visible to all nodes where results wait until they are asked for, so that an interrupted run
            can be resumed. None: nothing is kept. Threads do not use it unless they are resumable, and remove what a
            cluster has left there.
        resumable: Threads keep results in the staging directory, too: for jobs that take much longer than writing them.

    Raises:
        RecipeError: The engine is unknown, or `jobs` is below 1.
        ClusterError: The cluster does not answer or cannot do this work.
    """
    executor: Executor
    if engine == THREADS:
        if staging is None or not resumable:
            return ThreadExecutor(jobs, staging)
        return ResumableExecutor(jobs, staging)
    name, _, address = engine.partition("=")
    if name != "ray":
        raise unknown("engine", engine, (THREADS, "ray", "ray=ADDRESS"))
    executor = resolve_name(_RAY_EXECUTOR)(address or None, jobs, staging)
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
