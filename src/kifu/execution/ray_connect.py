"""A cluster of Ray, begun on this machine or joined, that is able to do the work."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from kifu import __version__
from kifu.errors import ClusterError, first_line
from kifu.execution import ray_task as task
from kifu.execution.ray_head import probe

cloudpickle.register_pickle_by_value(task)

_GREETING = 20.0
"""Seconds in which whoever listens at an address has to answer as Ray does, which may put it off while it is busy."""

_PATIENCE = 120.0
"""Seconds in which a node has to start a process and load kifu."""


@contextmanager
def connected(address: str | None, jobs: int) -> Iterator[bool]:
    """Ray, at the address; or on this machine with so many processes. Where there is Ray already, it is that.

    Yields whether it is begun, or joined, here; then it is left at the end. Raises ClusterError.
    """
    if ray.is_initialized():
        yield False
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told what is done here
    # The seconds after which Ray ends a process that does not reach the head, which is for us to do (see `Head`).
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "3600")
    with _silenced():
        _begin(address, jobs)
        try:
            yield True
        finally:
            ray.shutdown()


@contextmanager
def _silenced() -> Iterator[None]:
    """Of processes and nodes that died Ray tells at length, and on standard output, however quiet it is asked to be
    (2.60). Its thread for that looks for the function at each message, from when Ray is begun to when it has ended."""
    aloud = ray._private.worker.print_to_stdstream
    ray._private.worker.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        ray._private.worker.print_to_stdstream = aloud


def _begin(address: str | None, jobs: int) -> None:
    """Begins Ray with so many processes, or joins that at the address. Raises ClusterError."""
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        if address is None:
            ray.init("local", num_cpus=jobs, include_dashboard=False, **quiet)
        else:
            _knock(address)
            try:
                ray.init(address, **quiet)
            except ConnectionAbortedError:  # a client has a server of its own, which may fail to begin (2.60: 1 of 6)
                ray.init(address, **quiet)
            logging.getLogger("ray.util.client.logsclient").setLevel(logging.ERROR)  # Ray sets it to another
    except (RayError, RuntimeError, ConnectionError, TimeoutError, ValueError, OSError) as error:
        where = "on this machine" if address is None else f"at {address}"
        raise ClusterError(f"no cluster {where}: {' '.join(str(error).split())}") from error


def _knock(address: str) -> None:
    """Raises ClusterError soon if there is nobody, or nobody who speaks as Ray does, for which Ray takes minutes."""
    place = address.removeprefix("ray://")
    host, _, port = place.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ClusterError(f"{address!r} is no address of a cluster, which is HOST:PORT or ray://HOST:PORT")
    reason = probe(place, _GREETING)
    if reason is not None:
        raise ClusterError(f"no cluster at {address}: {reason}")


def working_nodes() -> list[dict[str, Any]]:
    """The nodes that are alive and have processors, as Ray tells of them."""
    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]


def count_processors(mark: Path | None) -> int:
    """How many units the cluster makes at a time, once each node that would has shown that it can.

    mark: a file that each of them has to see. Raises ClusterError.
    """
    nodes = working_nodes()
    ask = ray.remote(num_cpus=0, max_retries=0)(task.worker_error)
    answers = [
        ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(
            __version__, None if mark is None else str(mark)
        )
        for node in nodes
    ]
    processors = 0
    for node, answer in zip(nodes, answers):
        try:
            reason = ray.get(answer, timeout=_PATIENCE)
        except GetTimeoutError:
            reason = f"has not answered for {_PATIENCE:.0f} seconds"
        except RayTaskError as error:
            reason = f"cannot work: {first_line(error.cause)}"
        except RayError:  # it has died since, and Ray gives it nothing to do, either
            continue
        if reason is not None:
            raise ClusterError(f"node {node['NodeManagerAddress']} {reason}")
        processors += int(node["Resources"]["CPU"])
    if not processors:
        raise ClusterError("no node of the cluster has a processor for its work")
    return processors
