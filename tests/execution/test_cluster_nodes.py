"""A cluster of several nodes, on one machine: nodes that die, callers that die, nodes that cannot do the work."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import clustered
from clustered import SPANS, Times, call, expected, tries
from kifu import __version__
from kifu.errors import ClusterError
from kifu.io import staging_dir

pytestmark = [pytest.mark.slow, pytest.mark.subprocess]
THOROUGH = pytest.mark.thorough


def setup_module() -> None:  # Ray is imported when the tests run, not when they are collected
    global ray, Cluster, ray_executor, RayExecutor
    import ray
    from ray import cloudpickle
    from ray.cluster_utils import Cluster

    from kifu.execution import ray_executor
    from kifu.execution.ray_executor import RayExecutor

    cloudpickle.register_pickle_by_value(clustered)


@pytest.fixture
def job(tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    return Times(7, str(marks), seconds=0.3)


@pytest.fixture
def work(tmp_path):
    return staging_dir(tmp_path / "games.parquet")


@contextlib.contextmanager
def nodes(count: int, head: int = 0, **options: Any) -> Iterator[Cluster]:
    """Start a head with a number of processors, and nodes with one each."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": head, "include_dashboard": False} | options)
    try:
        for _ in range(count):
            cluster.add_node(num_cpus=1)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def kill_at_work(cluster: Cluster, node: Any, job: Times) -> None:
    """Kill a node as soon as it runs a shard."""
    raylet = node.all_processes["raylet"][0].process.pid
    until = time.monotonic() + 100
    while not list(Path(job.marks).glob(f"begun-*-{raylet}-*")):
        assert time.monotonic() < until
        time.sleep(0.01)
    cluster.remove_node(node, allow_graceful=False)


def test_nodes_join_and_die(job, work, capfd):
    """A node is killed while it runs a shard; one joins; then another is killed."""
    job = replace(job, seconds=1.0)
    with nodes(2) as cluster, RayExecutor(cluster.address, None, work) as executor:
        first, second = cluster.worker_nodes
        results = executor.run(job, SPANS)
        got = [next(results).tolist() for _ in range(4)]
        kill_at_work(cluster, first, job)
        cluster.add_node(num_cpus=1)
        got += [next(results).tolist() for _ in range(12)]
        kill_at_work(cluster, second, job)
        got += [result.tolist() for result in results]
        assert capfd.readouterr().out == ""
    assert got == expected(job, SPANS)
    assert not work.exists()
    assert 1 <= sum(tries(job.marks, span.first) - 1 for span in SPANS) <= 2


def test_results_on_a_dead_node_are_made_again_without_a_staging_directory(job):
    with nodes(1, head=1) as cluster, RayExecutor(cluster.address, None, None) as executor:
        results = executor.run(job, SPANS)
        got = [next(results).tolist() for _ in range(10)]
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        got += [result.tolist() for result in results]
    assert got == expected(job, SPANS)


@contextlib.contextmanager
def nodes_and_client(count: int) -> Iterator[tuple[Cluster, str]]:
    """Start nodes, and yield the address of the head's client port too."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with nodes(count, ray_client_server_port=port) as cluster:
        yield cluster, f"ray://127.0.0.1:{port}"


# The head leaves its logs open.
left_open = pytest.mark.filterwarnings(
    "ignore:Exception ignored in.*/ray_client_server:pytest.PytestUnraisableExceptionWarning"
)


@left_open
@pytest.mark.parametrize("through", ["address", pytest.param("client", marks=THOROUGH)])
def test_all_die_but_the_head(job, work, monkeypatch, through):
    """The head answers but has no processor: the command ends, and another resumes it."""
    monkeypatch.setattr(ray_executor, "_NO_NODES_TIMEOUT_S", 15.0)
    with nodes_and_client(2) as (cluster, client):
        address = cluster.address if through == "address" else client
        with (  # noqa: PT012 - the context manager is tested
            pytest.raises(ClusterError, match=r"^no node of the cluster has had a processor for 0 minutes$"),
            RayExecutor(address, None, work) as executor,
        ):
            results = executor.run(job, SPANS)
            next(results)
            for node in list(cluster.worker_nodes):
                cluster.remove_node(node, allow_graceful=False)
            begun = time.monotonic()
            list(results)
        assert time.monotonic() - begun < 100
    assert list(work.glob("0-*.results"))


def test_all_nodes_die_and_another_joins(job, work):
    with nodes(1) as cluster, RayExecutor(cluster.address, None, work) as executor:
        results = executor.run(job, SPANS)
        got = [next(results).tolist()]
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        time.sleep(8)
        cluster.add_node(num_cpus=1)
        got += [result.tolist() for result in results]
    assert got == expected(job, SPANS)


@pytest.mark.parametrize(
    "blow",
    [pytest.param(signal.SIGKILL, marks=THOROUGH), signal.SIGINT, pytest.param(signal.SIGTERM, marks=THOROUGH)],
    ids=lambda blow: blow.name,
)
def test_after_a_killed_caller_only_missing_results_are_made(job, work, blow):
    with call(job, work) as first:
        assert first.stdout is not None
        lines = [first.stdout.readline() for _ in range(16)]
        if blow is signal.SIGINT:  # as a terminal does
            os.killpg(first.pid, blow)
        else:
            first.send_signal(blow)
        first.communicate(timeout=60)
    assert first.returncode != 0
    time.sleep(2)  # its processes notice
    there = [len(list(work.glob(f"0-{number:06}-*.results"))) for number in range(len(SPANS))]
    assert there[:5] == [1] * 5
    assert sum(there) < len(SPANS)
    begun = [tries(job.marks, span.first) for span in SPANS]
    with call(job, work) as second:
        out, _ = second.communicate(timeout=100)
    assert second.returncode == 0
    assert out == "".join(f"{numbers}\n" for numbers in expected(job, SPANS))
    assert out.startswith("".join(lines))
    assert [tries(job.marks, span.first) - old for span, old in zip(SPANS, begun)] == [1 - made for made in there]
    assert not work.exists()


@left_open
def test_a_cluster_through_its_client_port(job, work):
    with nodes_and_client(1) as (_, client), call(job, work, f"ray={client}") as caller:
        out, message = caller.communicate(timeout=100)
    assert caller.returncode == 0, message
    assert out == "".join(f"{numbers}\n" for numbers in expected(job, SPANS))


def shadow(folder: Path, text: str) -> dict[str, str]:
    """Return an environment in which a process finds another kifu first."""
    folder.joinpath("kifu").mkdir(parents=True)
    folder.joinpath("kifu", "__init__.py").write_text(text)
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__version__ = '0.1'", f"has kifu 0.1, and the caller {re.escape(__version__)}"),
        ("raise ModuleNotFoundError(\"No module named 'kifu'\")", "cannot load kifu: ModuleNotFoundError: No module"),
        pytest.param("(", "cannot load kifu: SyntaxError: ", marks=THOROUGH),
    ],
)
def test_a_node_with_another_kifu(work, tmp_path, text, message):
    with nodes(1) as cluster:
        cluster.add_node(num_cpus=1, env_vars=shadow(tmp_path / "other", text))
        with pytest.raises(ClusterError, match=rf"^node [\d.]+ {message}") as caught:
            RayExecutor(cluster.address, None, work)
        assert "\n" not in str(caught.value)
    assert not work.exists()


def test_a_node_with_another_kifu_that_joins_later(job, work, tmp_path):
    with (  # noqa: PT012 - the context manager is tested
        nodes(1) as cluster,
        pytest.raises(ClusterError, match=r"^node [\d.]+ has kifu 0.1"),
        RayExecutor(cluster.address, None, work) as executor,
    ):
        results = executor.run(job, SPANS)
        next(results)
        cluster.add_node(num_cpus=2, env_vars=shadow(tmp_path / "other", "__version__ = '0.1'"))
        list(results)


def test_a_cluster_without_processors(work):
    with nodes(0) as cluster, pytest.raises(ClusterError, match=r"^no node of the cluster has a processor"):
        RayExecutor(cluster.address, None, work)
    assert not work.exists()
