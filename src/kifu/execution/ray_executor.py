"""An executor on a Ray cluster: each shard is one task, run by one process.

Results travel through files in the staging directory, which all nodes see, or without one through Ray's object store.
Ray repeats a shard whose process or node has died. Results are yielded in the order of the shards all the same.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import islice, repeat
from pathlib import Path
from textwrap import shorten
from types import TracebackType
from typing import Any, NamedTuple

import ray
from ray import cloudpickle
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from kifu import __version__
from kifu.atomic_io import remove_file
from kifu.errors import ClusterError, FormatError, KifuError, OutputError, first_line
from kifu.execution import ray_task
from kifu.execution.executor import Executor, Item, Job, R, Shard, T, ThreadExecutor
from kifu.execution.ray_cluster import ClusterHead, connected, count_processors, working_nodes
from kifu.execution.serialization import load_results, read_results
from kifu.execution.staging import StagingDir

_PREFETCH = 4
"""Shards submitted ahead for each processor: some take several times as long as others, and results wait in files."""

_CANCEL_TIMEOUT_S = 60.0
"""Running shards of a cluster that continues may take that long to end after cancellation."""

_POLL_TIMEOUT_S = 5.0
"""After that long without a result, the head of the cluster is probed."""

_NO_NODES_TIMEOUT_S = 600.0
"""Clusters that start nodes on demand take minutes, so that long no node may have a processor."""

_MAX_RETRIES = 3
"""Repetitions of a shard whose process or node has died."""


class _Task(NamedTuple):
    """A submitted shard. answer: None if its results are complete already. path: of its results, if staged."""

    name: str
    answer: Any
    path: Path | None


class RayExecutor(Executor):
    """Runs jobs on the processes of a Ray cluster, and `map` on threads of this process."""

    def __init__(self, address: str | None, jobs: int | None, staging: Path | None) -> None:
        """Connect to a cluster, or start one.

        Args:
            address: "HOST:PORT" of a cluster that this machine is part of, "ray://HOST:PORT" of another one, or None
                for a new one on this machine.
            jobs: Shards at a time and threads of this process; by default as many as there are processors.
            staging: See `kifu.execution.executor.make_executor`.

        Raises:
            ClusterError: The cluster does not answer or cannot do this work.
            OutputError: The staging directory cannot be used.
            RecipeError: Jobs is below 1.
        """
        self._local = address is None
        self._runs = 0
        self._pending: set[Any] = set()
        with ExitStack() as stack:
            self._threads = stack.enter_context(ThreadExecutor(jobs))
            self.jobs = self._threads.jobs
            self._staging = None if staging is None else stack.enter_context(StagingDir(staging))
            self.staging = staging
            self._lease = None if self._staging is None else self._staging.lease
            self._ours = stack.enter_context(connected(address, self.jobs))
            self._head = ClusterHead(address)
            processors = count_processors(self._lease)
            # Ray cannot limit one caller of several, so at most `jobs` shards are submitted at a time.
            self._prefetch = _PREFETCH * processors if jobs is None or processors <= jobs else jobs - 1
            stack.callback(self._cancel)
            self._stack = stack.pop_all()

    def map(self, function: Callable[[T], R], items: Iterable[T], prefetch: int | None = None) -> Iterator[R]:
        """Map on threads of this process."""
        return self._threads.map(function, items, prefetch)

    def run(self, job: Job[Shard, Item, R], shards: Iterable[Shard], prefetch: int | None = None) -> Generator[R]:
        """Yield results as `Executor.run` does; `prefetch` has no effect, since results do not wait in memory.

        Raises:
            KifuError: Raised by the job.
            ClusterError: Any other error of the job, with the name of the shard; or the cluster is lost.
        """
        submitted = self._submit(job, shards)
        tasks: deque[_Task] = deque(islice(submitted, self._prefetch + 1))
        while tasks:
            yield from self._results(tasks[0])
            self._pending.discard(tasks.popleft().answer)
            tasks.extend(islice(submitted, 1))

    def _submit(self, job: Job[Shard, Item, R], shards: Iterable[Shard]) -> Iterator[_Task]:
        """Submit each shard whose results are not complete yet, when it is asked for."""
        run, self._runs = self._runs, self._runs + 1
        task = ray.remote(num_cpus=1, max_retries=_MAX_RETRIES)(ray_task.run_shard)
        self._head.require()  # the first call would wait for it forever
        with self._head.watched():
            pickled = ray.put(cloudpickle.dumps(job))
        keyed = zip(shards, repeat("")) if self._staging is None else job.keys(shards)
        for number, (shard, key) in enumerate(keyed):
            path, complete = None, False
            if self._staging is not None:
                path, complete = self._staging.file(run, number, key)
            call = cloudpickle.dumps((str(Path.cwd()), shard, path))
            answer = None
            if not complete:
                with self._head.watched():
                    answer = task.remote(__version__, self._lease and str(self._lease), pickled, call)
                    self._pending.add(answer)  # hashing it may call Ray
            yield _Task(f"shard {number + 1}, {shorten(str(shard), 200)}", answer, path)

    def _results(self, task: _Task) -> Iterator[Any]:
        data = b"" if task.answer is None else self._wait(task)
        if task.path is None:
            yield from load_results(data)
            return
        if not task.path.exists():
            raise ClusterError(f"{task.path} is missing, though it has been written: do all nodes share the folder?")
        try:
            yield from read_results(task.path)
        except FormatError as error:
            remove_file(task.path)
            raise FormatError(f"{error}; it is removed, and the next run will make it again") from None

    def _wait(self, task: _Task) -> bytes:
        """Return the results of a task, empty if they are in a file."""
        try:
            status, value, node = self._poll(task.answer)
        except RayTaskError as error:
            raise ClusterError(f"{task.name}: {type(error.cause).__name__}: {first_line(error.cause)}") from error
        except RayError as error:
            raise ClusterError(f"{task.name}: {first_line(error)}") from error
        if status == "unable":
            raise ClusterError(f"node {node} {value}")
        if status == "failed":
            kind, message = value
            failure: KifuError = kind.__new__(kind, message if self._local else f"{message} (on node {node})")
            raise failure
        results: bytes = value
        return results

    def _poll(self, answer: Any) -> tuple[str, Any, str]:
        """Wait for a task. Raises ClusterError if the head or all nodes have gone: Ray would wait forever."""
        deadline = time.monotonic() + _NO_NODES_TIMEOUT_S
        while True:
            with suppress(GetTimeoutError), self._head.watched():
                outcome: tuple[str, Any, str] = ray.get(answer, timeout=_POLL_TIMEOUT_S)
                return outcome
            self._head.require()
            with self._head.watched():
                if working_nodes():
                    deadline = time.monotonic() + _NO_NODES_TIMEOUT_S
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"no node of the cluster has had a processor for {_NO_NODES_TIMEOUT_S / 60:.0f} minutes"
                )

    def _cancel(self) -> None:
        """Cancel what is pending: tasks that have not begun see that the lease is gone, the others end.

        `ray.cancel` aborts this process if the task happens to end at that moment (2.60.0).
        """
        if not self._pending:
            return
        if self._lease is not None:
            with suppress(OSError):
                self._lease.unlink()
        if not self._ours and self._head.answers():
            ray.wait(list(self._pending), num_returns=len(self._pending), timeout=_CANCEL_TIMEOUT_S)

    def spill_dir(self) -> Path:
        """Return the staging directory. Raises OutputError if the executor has none."""
        if self._staging is None:
            raise OutputError("this work needs a directory that all nodes share")
        return self._staging.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
