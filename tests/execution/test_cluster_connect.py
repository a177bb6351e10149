"""Values of `--engine`, and clusters that do not answer."""

from __future__ import annotations

import socket
from contextlib import nullcontext
from unittest.mock import Mock

import pytest

import clustered
from clustered import Span, Times, expected, given
from http_server import site
from kifu.errors import ClusterError, RecipeError
from kifu.execution.executor import make_executor
from kifu.io import staging_dir
from traps import set_traps, sprung


def setup_module() -> None:  # Ray is imported when the tests run, not when they are collected
    global ray, connected
    import ray
    from ray import cloudpickle

    from kifu.execution.ray_executor import connected

    cloudpickle.register_pickle_by_value(clustered)


@pytest.mark.slow
@pytest.mark.subprocess
def test_workers_import_nothing_from_the_working_directory(tmp_path, monkeypatch):
    set_traps(tmp_path)
    monkeypatch.chdir(tmp_path)
    work, job = staging_dir(tmp_path / "games.parquet"), Times(7, str(tmp_path))
    with make_executor("ray", 1, work) as executor:
        assert given(executor, job, [Span(1)]) == expected(job, [Span(1)])
    assert sprung(tmp_path) == []


def test_addresses_without_a_server(tmp_path):
    work = staging_dir(tmp_path / "games.parquet")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    for prefix in ("", "ray://"):
        with pytest.raises(ClusterError, match=f"^no cluster at {prefix}{address}: .*refused"):
            make_executor(f"ray={prefix}{address}", 1, work)
    assert not work.exists()


def test_another_service_at_the_address(tmp_path, monkeypatch):
    monkeypatch.setattr("kifu.execution.ray_executor._GREETING_TIMEOUT_S", 1.0)
    with site() as here:
        address = here.url.removeprefix("http://")
        with pytest.raises(ClusterError, match=f"^no cluster at {address}: what answers there is not Ray"):
            make_executor(f"ray={address}", 1, staging_dir(tmp_path / "games.parquet"))


@pytest.mark.parametrize(("failures", "reached"), [(0, True), (1, True), (2, False)])
def test_a_client_server_that_fails_to_start(monkeypatch, failures, reached):
    answers = [ConnectionAbortedError("Initialization failure from server:\nno server")] * failures + [None] * 2
    init = Mock(side_effect=answers)
    monkeypatch.setattr("kifu.execution.ray_executor.ray.init", init)
    monkeypatch.setattr("kifu.execution.ray_executor.probe", lambda *_: None)
    failure = pytest.raises(ClusterError, match=r"^no cluster at ray://head:1: Init.* no server$")
    with nullcontext() if reached else failure, connected("ray://head:1", 1):
        pass
    assert [call.args for call in init.call_args_list] == [("ray://head:1",)] * min(failures + 1, 2)


@pytest.mark.parametrize(
    "address", ["nowhere", "host:", ":6379", "host:port", "host:0", "host:65536", "ray://host", "a:1:b"]
)
def test_invalid_addresses(address):
    with pytest.raises(ClusterError, match="is not an address of a cluster, which is HOST:PORT or ray://HOST:PORT"):
        make_executor(f"ray={address}")


def test_engines():
    for engine in ("dask", "Ray", "", "threads=4", "rays"):
        with pytest.raises(RecipeError, match=f"^unknown engine '{engine}'; .*available: threads, ray, ray=ADDRESS$"):
            make_executor(engine)
    with pytest.raises(RecipeError, match="jobs must be >= 1, got -1"):
        make_executor("ray", -1)


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_local_ray_ends_with_its_executor(tmp_path):
    job, work = Times(7, str(tmp_path)), staging_dir(tmp_path / "games.parquet")
    spans = [Span(0), Span(10)]
    assert not ray.is_initialized()
    with make_executor("ray", 1, work) as executor:
        assert ray.is_initialized()
        assert ray.cluster_resources()["CPU"] == 1
        assert given(executor, job, spans) == expected(job, spans)
    assert not ray.is_initialized()
    assert not work.exists()
