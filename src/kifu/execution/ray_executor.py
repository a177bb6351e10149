"""An executor on a Ray cluster: each shard is one task, whose results stream through Ray's object store.

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
from functools import lru_cache
from itertools import islice
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError, RayTaskError
from ray.job_config import JobConfig

from kifu import __version__
from kifu.errors import ClusterError, KifuError, first_line
from kifu.execution.executor import Executor, Item, R, Shard, shard_itself

_CONNECT_TIMEOUT_S = 5.0
_HEAD_TIMEOUT_S = 30.0
"""A head that keeps its state elsewhere may be away while it restarts."""
_POLL_S = 5.0
"""After that long without a result, the head of the cluster is probed: calls of Ray wait forever without it."""
_NO_NODES_TIMEOUT_S = 600.0
"""Clusters that start nodes on demand take minutes, so that long no node may have a processor."""
_CANCEL_TIMEOUT_S = 60.0
"""Shards that were submitted to a cluster that continues may take that long to end."""
_PREFETCH = 4
"""Shards submitted ahead for each processor: some take several times as long as others."""
_MAX_RETRIES = 3
"""Repetitions of a shard whose process or node has died."""


class _Failure(NamedTuple):
    """Ends the results of a shard that failed. kind: the class of an error of kifu, which need not be picklable."""

    kind: type[KifuError]
    message: str


def _run_shard(version: str, directory: str, functions: Any, shard: Any) -> Iterator[Any]:
    """Yield the results of a shard, in a process of the cluster. functions: a list with a reference to a pair."""
    node = ray.util.get_node_ip_address()
    if __version__ != version:
        yield _Failure(ClusterError, f"node {node} has kifu {__version__}, and the caller {version}")
        return
    with suppress(OSError):  # without that directory, relative paths are not found
        os.chdir(directory)
    try:
        process, read = _load(functions[0])
        for item in read(shard):
            yield process(item)
    except KifuError as error:
        yield _Failure(type(error), str(error))


@lru_cache(1)
def _load(functions: Any) -> Any:
    """Return the functions, whose objects are kept from shard to shard, as they are on threads."""
    return ray.get(functions)


class _SafePath(JobConfig):  # type: ignore[misc]  # Ray may not be installed where types are checked
    """The default configuration, but for the working directory, which Ray 2.60 puts first on the path of workers."""

    def _runtime_env_has_working_dir(self) -> bool:
        return True


@contextmanager
def _connected(address: str | None, jobs: int) -> Iterator[bool]:
    """Connect to a cluster, or start one with `jobs` processes, and yield whether the connection is ours.

    An existing connection is used as it is, and kept. Raises ClusterError if there is no cluster.
    """
    if ray.is_initialized():
        yield False
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray would end this process after a minute without the head.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "3600")
    reason = None if address is None else _probe(address)
    if reason is not None:  # Ray itself takes minutes to find out
        raise ClusterError(f"no cluster at {address}: {reason}")
    options = {"num_cpus": jobs, "include_dashboard": False} if address is None else {}
    report = ray._private.worker.print_to_stdstream
    ray._private.worker.print_to_stdstream = lambda *_, **__: None  # which gets dead nodes, whatever the log level
    try:
        try:
            ray.init(
                address or "local", logging_level=logging.ERROR, log_to_driver=False, job_config=_SafePath(), **options
            )
        except Exception as error:  # Ray raises plain ones, too
            where = "on this machine" if address is None else f"at {address}"
            raise ClusterError(f"no cluster {where}: {first_line(error)}") from error
        yield True
    finally:
        ray.shutdown()
        ray._private.worker.print_to_stdstream = report


def _probe(address: str) -> str | None:
    """Return why nothing listens at HOST:PORT, or None. Raises ClusterError if it is no address."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ClusterError(f"{address!r} is not an address of a cluster, which is HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_S).close()
    except (OSError, UnicodeError) as error:
        return str(error)
    return None


class RayExecutor(Executor):
    """Runs shards on the processes of a Ray cluster, and `map` on threads of this process."""

    def __init__(self, address: str | None, jobs: int | None = None) -> None:
        """Connect to a cluster, or start one; see `make_executor`. Raises ClusterError, RecipeError."""
        super().__init__(jobs)
        self._pending: set[Any] = set()
        with ExitStack() as stack:
            self._ours = stack.enter_context(_connected(address, self.jobs))
            self._head: str = ray.get_runtime_context().gcs_address
            processors = int(ray.cluster_resources().get("CPU", 0))
            if not processors:
                raise ClusterError("no node of the cluster has a processor for its work")
            # Ray cannot limit one caller of several, so at most `jobs` shards are submitted at a time.
            self._ahead = _PREFETCH * processors if jobs is None or processors <= jobs else jobs - 1
            self._stack = stack.pop_all()

    def run(
        self,
        process: Callable[[Item], R],
        shards: Iterable[Shard],
        read: Callable[[Shard], Iterator[Item]] = shard_itself,
        prefetch: int | None = None,
    ) -> Generator[R]:
        """Yield results as `Executor.run` does; `prefetch` has no effect, since results wait in Ray's object store.

        Raises a KifuError as the functions do, ClusterError for their other errors, or if the cluster is lost.
        """
        submitted = self._submit(ray.put((process, read)), shards)
        tasks = deque(islice(submitted, self._ahead + 1))
        while tasks:
            yield from self._results(*tasks[0])
            self._pending.discard(tasks.popleft()[1])
            tasks.extend(islice(submitted, 1))

    def _submit(self, functions: Any, shards: Iterable[Shard]) -> Iterator[tuple[str, Any]]:
        """Submit each shard when it is asked for; yield its name and the generator of its results."""
        task = ray.remote(num_cpus=1, max_retries=_MAX_RETRIES, num_returns="streaming")(_run_shard)
        for number, shard in enumerate(shards):
            results = task.remote(__version__, str(Path.cwd()), [functions], shard)
            self._pending.add(results)
            yield f"shard {number + 1}, {shorten(str(shard), 200)}", results

    def _results(self, name: str, results: Any) -> Iterator[Any]:
        while True:
            try:
                self._wait(results)
                self._wait(reference := next(results))
                result = ray.get(reference)
            except StopIteration:
                return
            except RayTaskError as error:
                raise ClusterError(f"{name}: {type(error.cause).__name__}: {first_line(error.cause)}") from error
            except RayError as error:
                raise ClusterError(f"{name}: {first_line(error)}") from error
            if isinstance(result, _Failure):
                raise result.kind.__new__(result.kind, result.message)
            yield result

    def _wait(self, result: Any) -> None:
        """Wait for a result. Raises ClusterError if the head or all nodes have gone: Ray would wait forever."""
        deadline = time.monotonic() + _NO_NODES_TIMEOUT_S
        while not ray.wait([result], timeout=_POLL_S)[0]:
            head_deadline = time.monotonic() + _HEAD_TIMEOUT_S
            while (reason := _probe(self._head)) is not None:
                if time.monotonic() > head_deadline:
                    raise ClusterError(f"lost the cluster at {self._head}: {reason}")
                time.sleep(1)
            if any(node["Alive"] and node["Resources"].get("CPU") for node in ray.nodes()):
                deadline = time.monotonic() + _NO_NODES_TIMEOUT_S
            elif time.monotonic() > deadline:
                raise ClusterError(f"no node of the cluster has had a processor for {_NO_NODES_TIMEOUT_S:.0f} seconds")

    def __exit__(self, *_: object) -> None:
        # Shards that run on write files, which the caller is about to remove. `ray.cancel` aborts this process if a
        # task happens to end at that moment (2.60.0).
        if self._pending and not self._ours:
            ends = [results.completed() for results in self._pending]
            ray.wait(ends, num_returns=len(ends), timeout=_CANCEL_TIMEOUT_S)
        self._stack.close()
        super().__exit__()
