"""Ray gives the bytes of threads, also if a process dies; failures are one line."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from commands import run, tree
from kgs_archives import BROKEN, archive, records
from kifu.errors import ClusterError, DropReason, IllegalMove, RecordError
from kifu.execution.executor import Executor, make_executor

pytestmark = [pytest.mark.slow, pytest.mark.subprocess]

CATALOGUE = "games.parquet"
KGSGO = ("--set", "sets.test.games=40", "--set", "sets.train10k.games=20", "--sets", "test,train10k")
RULES = ("--set", "clean=legal")
KATAGO = ("--set", "default_rules=japanese", "--set", "default_komi=6.5", "--set", "min_moves=0")

COMMANDS: dict[str, Callable[[Path, Path], list[object]]] = {
    "ingest": lambda games, out: ["ingest", *sources(games), "-o", out / "new.parquet", "--set", "duplicates=games"],
    "append": lambda games, out: ["ingest", *sources(games), "-o", out / "new", "--set", "duplicates=games"],
    "kgsgo": lambda games, out: ["build", "kgsgo-v2", *sources(games), "--output", out / "new", *KGSGO],
    "npy": lambda games, out: ["build", "agz17", games / CATALOGUE, "--output", out / "new", *RULES, "--format", "npy"],
    "tokens": lambda games, out: ["build", "tokens", games / CATALOGUE, "--output", out / "new", *RULES],
    "katago": lambda games, out: ["build", "katago", games / CATALOGUE, "--output", out / "new", *RULES, *KATAGO],
    "olf": lambda games, out: ["build", "olf-archive", *sources(games), "--output", out / "new"],
    "stats": lambda games, out: ["stats", games / CATALOGUE, "--json", out / "new.json"],
    "audit": lambda games, out: ["audit", games / CATALOGUE, games / "part.parquet", "--json", out / "new.json"],
    "annotate": lambda games, out: ["annotate", games / "part.parquet", "-o", out / "new.parquet", "--net", "small"],
}


@pytest.fixture(scope="module", autouse=True)
def processes() -> Iterator[None]:
    import ray
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the processes of Ray do not know this folder
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


def sources(games: Path) -> list[Path]:
    return sorted(games.glob("KGS*"))


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write archives with duplicate and broken games, one of them empty; and the catalogues of all and of one."""
    folder = tmp_path_factory.mktemp("kgs")
    for year in range(2001, 2005):
        more = [*records(20, year), *records(5, 2001), *list(BROKEN.values())[: 2 * (year - 2001)]]
        more = [record.replace(b"PB[", b"RE[B+R]PB[") for record in more]
        archive(folder, more, year=year, kind="zip" if year == 2003 else "tar.gz")
    archive(folder, [], year=2006)
    assert run("ingest", *sources(folder), "-o", folder / CATALOGUE).code == 0
    assert run("ingest", sources(folder)[2], "-o", folder / "part.parquet").code == 0
    return folder


def outcome(name: str, games: Path, out: Path, *engine: object) -> tuple[int, str, dict[str, bytes]]:
    """Return exit code, output without the name of the folder, and files of a command."""
    out.mkdir()
    done = run(*COMMANDS[name](games, out), *engine)
    print(*done.err, sep="\n")  # seen if a test fails
    return done.code, done.out.replace(str(out), "OUT"), tree(out)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_bytes_are_those_of_threads(name: str, games: Path, tmp_path: Path) -> None:
    threads = outcome(name, games, tmp_path / "threads", "--jobs", 2)
    assert threads[0] == (name == "audit")  # which finds games twice
    assert sum(map(len, threads[2].values())) > 2000
    assert outcome(name, games, tmp_path / "ray", "--engine", "ray") == threads


def test_a_shuffle_on_disk_gives_the_same_bytes(games: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kifu.recipes.examples.WINDOW_BYTES", 100_000)
    whole = outcome("npy", games, tmp_path / "threads", "--jobs", 2)
    assert outcome("npy", games, tmp_path / "ray", "--engine", "ray") == whole


def count(shard: int) -> Iterator[int]:
    yield from range(shard, shard + 3)


def repeat(marks: Path, item: int) -> np.ndarray:
    match item:
        case 100:
            raise RecordError("nothing to read")
        case 101:
            raise IllegalMove(3, 72, DropReason.KO)
        case 102:
            raise ZeroDivisionError("of my own\nmaking")
        case 40 if not (marks / "once").exists():
            (marks / "once").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        case 103:
            (marks / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return np.full(item % 5, item)


SHARDS = range(0, 60, 3)


@pytest.mark.parametrize("jobs", [1, 4])
def test_results_are_in_order_if_a_process_dies(jobs: int, tmp_path: Path) -> None:
    process = partial(repeat, tmp_path)
    with make_executor("ray", jobs) as executor:
        found = [result.tolist() for result in executor.run(process, iter(SHARDS), count)]
    assert (tmp_path / "once").exists()
    with Executor(jobs) as executor:
        assert found == [result.tolist() for result in executor.run(process, SHARDS, count)]


@pytest.mark.parametrize(
    ("item", "kind", "message"),
    [
        (100, RecordError, "nothing to read"),
        (101, IllegalMove, "move 4 (point 72) is illegal: an immediate ko recapture"),
        (102, ClusterError, "shard 2, 102: ZeroDivisionError: of my own"),
        (103, ClusterError, "shard 2, 103: The worker died unexpectedly while executing this task."),
    ],
)
def test_errors_of_a_process_are_one_line(item: int, kind: type[Exception], message: str, tmp_path: Path) -> None:
    with make_executor("ray") as executor, pytest.raises(kind) as caught:
        list(executor.run(partial(repeat, tmp_path), [0, item, 3], count))
    assert type(caught.value) is kind
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert len(list(tmp_path.iterdir())) <= 4  # processes that died


def test_relative_paths_start_in_the_callers_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with make_executor("ray") as executor:
        assert list(executor.run(os.path.abspath, ["a"])) == [str(tmp_path / "a")]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "head:x"])
def test_no_cluster_is_one_line(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(ClusterError, match=f"^(no cluster at {address}: .*refused|'{address}' is not an address.*)$"):
        make_executor(f"ray={address}")
