"""The Ray executor returns what threads return, in the same order, and reports failures in one line."""

from __future__ import annotations

import resource
import threading
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

import clustered
from clustered import Span, Times, expected, given, refused, tries
from kifu.errors import ClusterError, FormatError, IllegalMove, OutputError, RecordError
from kifu.execution.executor import ThreadExecutor
from kifu.io import staging_dir

pytestmark = [pytest.mark.slow, pytest.mark.subprocess]


def setup_module() -> None:  # Ray is imported when the tests run, not when they are collected
    global ray, cloudpickle, ray_executor, RayExecutor, run
    import ray
    from ray import cloudpickle

    from kifu.execution import ray_executor
    from kifu.execution.ray_executor import RayExecutor
    from kifu.execution.ray_worker import run

    cloudpickle.register_pickle_by_value(clustered)  # the processes of Ray do not know this folder


SPANS = [Span(first, first % 4) for first in range(0, 60, 5)]


@pytest.fixture(scope="module")
def here():
    """Start a Ray on this machine, which all executors of these tests use."""
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture
def job(tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    return Times(7, str(marks))


@pytest.fixture
def work(tmp_path):
    return staging_dir(tmp_path / "games.parquet")


def staged(work: Path) -> list[str]:
    """Return the complete files; a process that was killed may leave a partial one."""
    return sorted(found.name for found in work.glob("0-*.results"))


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_threads_and_ray_give_the_same(here, job, work, jobs):
    with ThreadExecutor(jobs) as executor:
        threads = given(executor, job, SPANS)
    with RayExecutor(None, jobs, work) as executor:
        assert given(executor, job, SPANS) == threads == expected(job, SPANS)
    assert not work.exists()
    with RayExecutor(None, jobs, None) as executor:
        assert given(executor, job, SPANS) == threads


def test_each_shard_runs_once_and_not_far_ahead(here, job, work):
    spans = [Span(first) for first in range(0, 90, 3)]
    with RayExecutor(None, None, work) as executor:
        most = 0
        for taken, _ in enumerate(executor.run(job, iter(spans))):
            begun = sum(tries(job.marks, span.first) for span in spans)
            most = max(most, begun - taken // 3)
    assert most <= 4 * 2 + 1
    assert [tries(job.marks, span.first, "made") for span in spans] == [1] * 30


def test_jobs_bound_the_submitted_shards(here, job, work):
    spans = [Span(first) for first in range(0, 30, 3)]
    with RayExecutor(None, 1, work) as executor:
        for taken, _ in enumerate(executor.run(job, iter(spans))):
            assert sum(tries(job.marks, span.first) for span in spans) == taken // 3 + 1


def test_runs_share_only_the_staging_directory(here, job, work):
    other = Times(11, job.marks)
    with RayExecutor(None, 2, work) as executor:
        assert given(executor, job, SPANS) == expected(job, SPANS)
        assert given(executor, other, SPANS) == expected(other, SPANS)
        assert given(executor, other, []) == []
        assert list(executor.map(lambda k: (k, threading.get_ident() > 0), range(3))) == [
            (0, True),
            (1, True),
            (2, True),
        ]
    assert not work.exists()


def test_a_shard_is_repeated_if_its_process_dies(here, job, work):
    spans = [Span(0), Span(10, failure="dies once"), Span(20)]
    for folder in (work, None):
        with RayExecutor(None, None, folder) as executor:
            assert given(executor, job, spans) == expected(job, spans)
        assert [tries(job.marks, span.first) for span in spans] == [1, 2, 1]
        assert [tries(job.marks, span.first, "made") for span in spans] == [1, 1, 1]
        for mark in Path(job.marks).iterdir():
            mark.unlink()


@pytest.mark.parametrize(("seconds", "there"), [(1.0, "never"), (3.0, "now and then")])
def test_a_run_ends_if_no_node_is_left(here, job, work, monkeypatch, seconds, there):
    """Ray would wait forever; a node that returns in time is accepted."""
    nodes = cycle([[], [], ray.nodes()] if there == "now and then" else [[]])
    monkeypatch.setattr(ray_executor, "_POLL_TIMEOUT_S", 0.2)
    monkeypatch.setattr(ray_executor, "_NO_NODES_TIMEOUT_S", seconds)
    slow = replace(job, seconds=4.0)
    with RayExecutor(None, None, work) as executor:
        monkeypatch.setattr(ray_executor, "working_nodes", lambda: next(nodes))
        if there == "now and then":
            assert given(executor, slow, [Span(10)]) == expected(slow, [Span(10)])
        else:
            error = refused(executor, slow, [Span(10)])
            assert type(error) is ClusterError
            assert str(error) == "no node of the cluster has had a processor for 0 minutes"


def test_a_shard_that_kills_every_process_ends_the_run(here, job, work):
    with RayExecutor(None, None, work) as executor:
        error = refused(executor, job, [Span(0), Span(10, failure="dies")])
    assert type(error) is ClusterError
    assert "\n" not in str(error)
    assert str(error).startswith("shard 2, Span(first=10, count=3, failure='dies'): ")
    assert tries(job.marks, 10) == 4


def test_errors_of_kifu_are_raised_unchanged(here, job, work):
    with RayExecutor(None, None, work) as executor:
        error = refused(executor, job, [Span(0), Span(10, failure="record"), Span(20)])
        assert type(error) is RecordError
        assert str(error) == "nothing to read in 10"
        error = refused(executor, job, [Span(10, failure="move")])
        assert type(error) is IllegalMove
        assert str(error).startswith("move 4 (point 72) is illegal")
    assert tries(job.marks, 10) == 2  # nothing is made again that would fail again


def test_errors_on_other_machines_name_the_node(here, job, work):
    with RayExecutor("10.0.0.1:6379", None, work) as executor:
        error = refused(executor, job, [Span(10, failure="record")])
    assert type(error) is RecordError
    assert str(error) == f"nothing to read in 10 (on node {ray.nodes()[0]['NodeManagerAddress']})"


@pytest.mark.parametrize(
    ("failure", "message"), [("defect", "ZeroDivisionError: of my own"), ("missing", "FileNotFoundError: .*not/there")]
)
def test_other_errors_are_one_line_that_names_the_shard(here, job, failure, message):
    with RayExecutor(None, None, None) as executor:
        error = refused(executor, job, [Span(0), Span(10, failure=failure)])
    assert type(error) is ClusterError
    assert "\n" not in str(error)
    with pytest.raises(ClusterError, match=rf"^shard 2, Span\(.*\): {message}"):
        raise error


def test_relative_paths_start_in_the_callers_directory(here, job, work, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    relative = Times(7, "marks")
    with RayExecutor(None, None, work) as executor:
        assert given(executor, relative, SPANS) == expected(job, SPANS)
    assert [tries(job.marks, span.first, "made") for span in SPANS] == [1] * len(SPANS)


def interrupt(job: Times, work: Path, after: int) -> None:
    """Stop a run after a number of results."""
    with pytest.raises(KeyboardInterrupt), RayExecutor(None, None, work) as executor:  # noqa: PT012 - the context manager is tested
        for taken, _ in enumerate(executor.run(job, SPANS)):
            if taken == after:
                raise KeyboardInterrupt


def test_an_interrupted_run_is_resumed(here, job, work):
    interrupt(job, work, 9)
    waiting = staged(work)
    assert len(waiting) >= 5
    begun = [tries(job.marks, span.first) for span in SPANS]
    with RayExecutor(None, None, work) as executor:
        assert given(executor, job, SPANS) == expected(job, SPANS)
    there = {int(name[2:8]) for name in waiting}
    again = [tries(job.marks, span.first) - old for span, old in zip(SPANS, begun)]
    assert again == [number not in there for number in range(len(SPANS))]
    assert not work.exists()


def test_results_of_another_command_are_ignored_and_removed(here, job, work):
    interrupt(job, work, 9)
    other = Times(8, job.marks)
    with RayExecutor(None, None, work) as executor:
        for taken, result in enumerate(executor.run(other, SPANS)):
            assert result.tolist() == expected(other, SPANS)[taken]
    assert not work.exists()


def test_results_are_found_in_a_run_of_another_number(here, job, work):
    """A command that is interrupted in the second of two data sets does not ask for the first again."""
    first = Times(11, job.marks)
    with pytest.raises(KeyboardInterrupt), RayExecutor(None, None, work) as executor:  # noqa: PT012 - the context manager is tested
        given(executor, first, SPANS)
        for taken, _ in enumerate(executor.run(job, SPANS)):
            if taken == 9:
                raise KeyboardInterrupt
    waiting = {int(found.name[2:8]) for found in work.glob("1-*.results")}
    assert len(waiting) >= 5
    begun = [tries(job.marks, span.first) for span in SPANS]
    with RayExecutor(None, None, work) as executor:
        assert given(executor, job, SPANS) == expected(job, SPANS)
    again = [tries(job.marks, span.first) - old for span, old in zip(SPANS, begun)]
    assert again == [number not in waiting for number in range(len(SPANS))]
    assert not work.exists()


def test_a_run_without_results_leaves_nothing(here, job, work):
    with RayExecutor(None, None, work) as executor:
        refused(executor, job, [Span(10, failure="record")])
    assert not work.exists()
    with pytest.raises(RecordError), RayExecutor(None, None, work):
        raise RecordError("before anything was made")
    assert not work.exists()


@pytest.mark.parametrize("spoil", [lambda data: data[:-3], lambda data: b"", lambda data: b"x" + data[1:]])
def test_damaged_results_are_reported_and_made_again(here, job, work, spoil):
    interrupt(job, work, 9)
    damaged = work / staged(work)[2]
    damaged.write_bytes(spoil(damaged.read_bytes()))
    with pytest.raises(FormatError, match=r"damaged: .*; it is removed"), RayExecutor(None, None, work) as executor:
        given(executor, job, SPANS)
    with RayExecutor(None, None, work) as executor:
        assert given(executor, job, SPANS) == expected(job, SPANS)


def test_a_staging_directory_has_one_user(here, job, work):
    with RayExecutor(None, None, work) as executor:
        with pytest.raises(OutputError, match="being written by another process"):
            RayExecutor(None, None, work)
        assert given(executor, job, SPANS) == expected(job, SPANS)


def test_no_staging_directory(here, tmp_path):
    tmp_path.joinpath("file").touch()
    with pytest.raises(OutputError, match=r"cannot write .*Not a directory"):
        RayExecutor(None, None, tmp_path / "file" / "work")
    with pytest.raises(OutputError, match="cannot write"):
        RayExecutor(None, None, Path("/proc/work"))


def test_a_removed_staging_directory_is_one_line(here, job, work):
    spans = [Span(first, 1) for first in range(60)]
    with pytest.raises(ClusterError, match=f"does not see the folder {work}"), RayExecutor(None, 1, work) as executor:  # noqa: PT012 - the context manager is tested
        for _ in executor.run(job, spans):
            for found in work.iterdir():
                found.unlink()
            work.rmdir()
    assert not work.exists()


def test_a_full_disk_is_one_line_and_leaves_nothing(job, work, monkeypatch):
    """A limit on file sizes simulates it."""
    work.mkdir()
    monkeypatch.chdir(work)  # where `make` goes, too
    call = cloudpickle.dumps((str(work), SPANS[3], work / "0.results"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))
    try:
        status, (kind, message) = run(cloudpickle.dumps(job), call)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (status, kind) == ("failed", OutputError)
    assert message.startswith(f"cannot write {work}/")
    assert message.endswith("0.results: File too large")
    assert staged(work) == []
