"""Connections to a Ray cluster: starting or joining it, checking its nodes, watching its head."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import ray
from ray import cloudpickle
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.job_config import JobConfig
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from kifu import __version__
from kifu.errors import ClusterError, KifuError, first_line
from kifu.execution import ray_task

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
    """Connect to the cluster at an address, or start one on this machine; an existing connection is used as it is.

    Args:
        address: "HOST:PORT", "ray://HOST:PORT", or None for this machine.
        jobs: Number of processes of a cluster on this machine.

    Yields:
        Whether the connection is ours, and is closed at the end.

    Raises:
        ClusterError: There is no cluster.
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

    Args:
        timeout_s: Seconds for Ray's greeting once a connection is open. Where Ray requires certificates, an open
            connection is enough.
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
    """Return the number of processors of the cluster, after every node has shown that it can work.

    Args:
        lease: A file that each node has to see.

    Raises:
        ClusterError: A node cannot work, or there are no processors.
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
