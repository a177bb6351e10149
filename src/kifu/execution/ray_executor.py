"""An executor on a Ray cluster: each shard is one task, run by one process.

Results travel through files in the staging directory, which all nodes see, or without one through Ray's object store.
Ray repeats a shard whose process or node has died. Results are yielded in the order of the shards all the same.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice, repeat
from pathlib import Path
from textwrap import shorten
from types import TracebackType
from typing import Any, TypeAlias

import ray  # first: without it, an error names the extra, and grpc comes with it

# isort: split
import grpc
from ray import cloudpickle
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.job_config import JobConfig
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from kifu import __version__
from kifu.errors import ClusterError, FormatError, KifuError, OutputError, first_line
from kifu.execution import ray_task
from kifu.execution.executor import Executor, Item, Job, R, Shard, StagingDir, T, ThreadExecutor
from kifu.execution.serialization import load_results, read_results
from kifu.io import remove_file

cloudpickle.register_pickle_by_value(ray_task)

_CONNECT_TIMEOUT_S = 5.0
_GREETING_TIMEOUT_S = 20.0
"""A busy Ray may take that long to answer a new client."""
_NODE_TIMEOUT_S = 120.0
"""A node has to start a process and load kifu."""
_HEAD_TIMEOUT_S = 30.0
"""A head that keeps its state elsewhere may be away while it restarts."""
_HEAD_RETRY_S = 1.0


@contextmanager
def connected(address: str | None, jobs: int) -> Iterator[bool]:
    """Connect to a cluster, and yield whether the connection is ours: an existing one is used as it is, and kept.

    Raises ClusterError if there is no cluster.

    Args:
        address: "HOST:PORT" of a cluster that this machine is part of, "ray://HOST:PORT" of another one, or None for a
            new one on this machine with `jobs` processes.
    """
    if ray.is_initialized():
        yield False
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray would end this process after a minute without the head, which `ClusterHead` handles.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "3600")
    with _silenced():
        _connect(address, jobs)
        try:
            yield True
        finally:
            ray.shutdown()


@contextmanager
def _silenced() -> Iterator[None]:
    """Replace the function with which Ray 2.60 reports dead nodes on standard output, whatever its log level."""
    original = ray._private.worker.print_to_stdstream
    ray._private.worker.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        ray._private.worker.print_to_stdstream = original


class _SafePath(JobConfig):  # type: ignore[misc]  # Ray may not be installed where types are checked
    """The default configuration, but for the working directory, which Ray 2.60 puts first on the path of workers."""

    def _runtime_env_has_working_dir(self) -> bool:
        return True


def _connect(address: str | None, jobs: int) -> None:
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        if address is None:
            ray.init("local", num_cpus=jobs, include_dashboard=False, job_config=_SafePath(), **quiet)
        else:
            _check_address(address)
            if not address.startswith("ray://"):  # the server of a Ray client has a path of its own
                quiet["job_config"] = _SafePath()
            try:
                ray.init(address, **quiet)
            except ConnectionAbortedError:  # the server process of a Ray client fails to start now and then (2.60)
                ray.init(address, **quiet)
            logging.getLogger("ray.util.client.logsclient").setLevel(logging.ERROR)  # Ray sets it to another
    except ClusterError:
        raise
    except (RayError, RuntimeError, ConnectionError, TimeoutError, ValueError, OSError) as error:
        where = "on this machine" if address is None else f"at {address}"
        raise ClusterError(f"no cluster {where}: {' '.join(str(error).split())}") from error


def _check_address(address: str) -> None:
    """Raise ClusterError for an address where no Ray listens, for which Ray itself takes minutes."""
    endpoint = address.removeprefix("ray://")
    host, _, port = endpoint.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ClusterError(f"{address!r} is not an address of a cluster, which is HOST:PORT or ray://HOST:PORT")
    reason = probe(endpoint, _GREETING_TIMEOUT_S)
    if reason is not None:
        raise ClusterError(f"no cluster at {address}: {reason}")


def probe(address: str, timeout_s: float) -> str | None:
    """Return why Ray does not answer at HOST:PORT, or None if it does.

    Its greeting may take `timeout_s` once a connection is open. Where Ray requires certificates, an open connection is
    enough.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_S).close()
    except (OSError, UnicodeError) as error:
        return str(error)
    if os.environ.get("RAY_USE_TLS", "0") != "0":
        return None
    with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:  # Ray uses no proxy either
        try:
            grpc.channel_ready_future(channel).result(timeout=timeout_s)
        except grpc.FutureTimeoutError:
            return "what answers there is not Ray"
    return None


def working_nodes() -> list[dict[str, Any]]:
    """Return Ray's descriptions of the nodes that are alive and have processors."""
    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]


def count_processors(lease: Path | None) -> int:
    """Return the number of processors of the cluster, after every node has shown that it can work and sees the lease.

    Raises ClusterError if a node cannot work, or there are no processors.
    """
    nodes = working_nodes()
    check = ray.remote(num_cpus=0, max_retries=0)(ray_task.worker_error)
    answers = [
        check.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(
            __version__, None if lease is None else str(lease)
        )
        for node in nodes
    ]
    processors = 0
    for node, answer in zip(nodes, answers):
        try:
            reason = ray.get(answer, timeout=_NODE_TIMEOUT_S)
        except GetTimeoutError:
            reason = f"has not answered for {_NODE_TIMEOUT_S:.0f} seconds"
        except RayTaskError as error:
            reason = f"cannot work: {first_line(error.cause)}"
        except RayError:  # it has died since, and gets no work
            continue
        if reason is not None:
            raise ClusterError(f"node {node['NodeManagerAddress']} {reason}")
        processors += int(node["Resources"]["CPU"])
    if not processors:
        raise ClusterError("no node of the cluster has a processor for its work")
    return processors


class ClusterHead:
    """The head of the cluster, or the Ray client port, that this process is connected to.

    Without the head, calls of Ray wait forever, so it is probed whenever a call takes long.
    """

    def __init__(self, address: str | None) -> None:
        """Find the head. The caller's address is needed for a Ray client port only, which Ray does not report."""
        self._address = address and address.removeprefix("ray://")
        if not ray.util.client.ray.is_connected():
            self._address = ray.get_runtime_context().gcs_address

    def require(self) -> None:
        """Wait until the head answers. Raises ClusterError if it stays away."""
        deadline = time.monotonic() + _HEAD_TIMEOUT_S
        while (reason := self._probe()) is not None:
            if time.monotonic() > deadline:
                raise self._lost(reason)
            time.sleep(_HEAD_RETRY_S)

    def answers(self) -> bool:
        """Return whether the head answers."""
        return self._probe() is None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Turn errors of Ray calls in this context into ClusterError if the head has gone."""
        try:
            yield
        except (RayTaskError, GetTimeoutError, KifuError):  # not the head's fault
            raise
        except (RayError, OSError, grpc.RpcError) as error:
            reason = self._probe()
            if reason is None and isinstance(error, RayError):
                raise
            raise self._lost(reason or first_line(error)) from error

    def _probe(self) -> str | None:
        return None if self._address is None else probe(self._address, _CONNECT_TIMEOUT_S)

    def _lost(self, reason: str) -> ClusterError:
        return ClusterError(f"lost the cluster{f' at {self._address}' if self._address else ''}: {reason}")


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


_ShardTask: TypeAlias = tuple[str, Any, Path | None]
"""The name of a submitted shard, its answer, None if its results are complete already, and their path, if staged."""


class RayExecutor(Executor):
    """Runs jobs on the processes of a Ray cluster, and `map` on threads of this process."""

    def __init__(self, address: str | None, jobs: int | None, staging: Path | None) -> None:
        """Connect to a cluster, or start one; see `connected` and `make_executor`. Raises ClusterError, RecipeError."""
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

        Raises a KifuError as the job does, ClusterError for its other errors, or if the cluster is lost.
        """
        submitted = self._submit(job, shards)
        tasks: deque[_ShardTask] = deque(islice(submitted, self._prefetch + 1))
        while tasks:
            yield from self._results(*tasks[0])
            self._pending.discard(tasks.popleft()[1])
            tasks.extend(islice(submitted, 1))

    def _submit(self, job: Job[Shard, Item, R], shards: Iterable[Shard]) -> Iterator[_ShardTask]:
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
            yield f"shard {number + 1}, {shorten(str(shard), 200)}", answer, path

    def _results(self, name: str, answer: Any, path: Path | None) -> Iterator[Any]:
        data = b"" if answer is None else self._wait(name, answer)
        if path is None:
            yield from load_results(data)
            return
        if not path.exists():
            raise ClusterError(f"{path} is missing, though it has been written: do all nodes share the folder?")
        try:
            yield from read_results(path)
        except FormatError as error:
            remove_file(path)
            raise FormatError(f"{error}; it is removed, and the next run will make it again") from None

    def _wait(self, name: str, answer: Any) -> bytes:
        """Return the results of a shard, empty if they are in a file."""
        try:
            status, value, node = self._poll(answer)
        except RayTaskError as error:
            raise ClusterError(f"{name}: {type(error.cause).__name__}: {first_line(error.cause)}") from error
        except RayError as error:
            raise ClusterError(f"{name}: {first_line(error)}") from error
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
