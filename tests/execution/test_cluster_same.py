"""The bytes are the same with threads, and with Ray with few processes or many, also if some of them die."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from commands import run, start
from kgs_archives import BROKEN, archive, records

pytestmark = [pytest.mark.slow, pytest.mark.subprocess]


def setup_module() -> None:  # Ray is imported when the tests run, not when they are collected
    global ray, Cluster
    import ray
    from ray.cluster_utils import Cluster


KGSGO = ("--set", "sets.test.games=40", "--set", "sets.train10k.games=20", "--sets", "test,train10k")
RULES = ("--set", "clean=legal")
ONCE = ("--set", "duplicates=games")
CATALOGUE = "games.parquet"

COMMANDS: dict[str, Callable[[Path, Path], list[object]]] = {
    "ingest": lambda games, out: ["ingest", *sources(games), "-o", out / "new.parquet", "--set", "min_moves=40", *ONCE],
    "again": lambda games, out: ["ingest", games / CATALOGUE, "-o", out / "new.parquet", "--set", "min_moves=50"],
    "kgsgo": lambda games, out: ["build", "kgsgo-v2", *sources(games), "--output", out / "new", *KGSGO],
    "npy": lambda games, out: ["build", "agz17", games / CATALOGUE, "--output", out / "new", *RULES, "--format", "npy"],
    "parquet": lambda games, out: ["build", "agz17", games / CATALOGUE, "--output", out / "new", *RULES],
    "tokens": lambda games, out: ["build", "tokens", games / CATALOGUE, "--output", out / "new", *RULES],
    "olf": lambda games, out: ["build", "olf-archive", *sources(games), "--output", out / "new"],
    "stats": lambda games, out: ["stats", games / CATALOGUE, "--json", out / "new.json"],
    "audit": lambda games, out: ["audit", games / CATALOGUE, games / "part.parquet", "--json", out / "new.json"],
    "annotate": lambda games, out: ["annotate", games / "part.parquet", "-o", out / "new.parquet"],
    "index": lambda games, out: ["index", shutil.copy(games / CATALOGUE, out / "new.parquet")],
}


def sources(games: Path) -> list[Path]:
    return sorted(games.glob("KGS*"))


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write six archives with duplicate and broken games, one of them empty; and the catalogues of all and of one."""
    folder = tmp_path_factory.mktemp("kgs")
    for year in range(2001, 2006):
        more = [*records(20, year), *records(5, 2001), *list(BROKEN.values())[: 2 * (year - 2001)]]
        more = [record.replace(b"PB[", b"RE[B+R]PB[") for record in more]
        archive(folder, more, year=year, kind="zip" if year == 2003 else "tar.gz")
    archive(folder, [], year=2006)
    assert run("ingest", *sources(folder), "-o", folder / CATALOGUE).code == 0
    assert run("ingest", sources(folder)[2], "-o", folder / "part.parquet").code == 0
    return folder


def made(out: Path) -> dict[str, bytes]:
    """Return all files below a folder."""
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def outcome(name: str, games: Path, out: Path, *engine: object) -> tuple[int, str, dict[str, bytes]]:
    """Return exit code, output without the name of the folder, and files of a command."""
    out.mkdir()
    done = run(*COMMANDS[name](games, out), *engine)
    print(*done.err, sep="\n")  # seen if a test fails
    return done.code, done.out.replace(str(out), "OUT"), made(out)


@pytest.fixture(scope="module")
def alone(games: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, dict[str, bytes]]]:
    """Return the outcomes with one thread."""
    folder = tmp_path_factory.mktemp("alone")
    found = {name: outcome(name, games, folder / name, "--jobs", 1) for name in COMMANDS}
    assert {code for code, _, _ in found.values()} == {0, 1}  # an audit that finds games twice ends with 1
    assert all(sum(map(len, files.values())) > 2000 for _, _, files in found.values())
    return found


THOROUGH = pytest.mark.thorough


@pytest.fixture(scope="module", params=[2, pytest.param(1, marks=THOROUGH), pytest.param(4, marks=THOROUGH)])
def processes(request: pytest.FixtureRequest) -> Iterator[int]:
    """Start a Ray with a number of processes, which commands use."""
    ray.init("local", num_cpus=request.param, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield request.param
    ray.shutdown()


@pytest.mark.parametrize("name", COMMANDS)
def test_two_threads(name, games, tmp_path, alone):
    assert outcome(name, games, tmp_path / "out", "--jobs", 2) == alone[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_ray(processes, name, games, tmp_path, alone):
    assert outcome(name, games, tmp_path / "out", "--engine", "ray") == alone[name]


def at_work(node: int) -> int:
    """Wait for a process of this node, identified by its raylet, that runs a shard, and return its number."""
    until = time.monotonic() + 100
    while time.monotonic() < until:
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                with suppress(OSError):
                    title = process.joinpath("cmdline").read_bytes()
                    _, parent, *_ = process.joinpath("stat").read_text().rpartition(")")[2].split()
                    if title.startswith(b"ray::run_shard") and int(parent) == node:
                        return int(process.name)
        time.sleep(0.01)
    raise AssertionError("no process has a unit")


@pytest.mark.parametrize("name", ["ingest", pytest.param("kgsgo", marks=THOROUGH), pytest.param("npy", marks=THOROUGH)])
def test_a_process_and_a_node_die_at_work(name, games, tmp_path, alone):
    """A process is killed as soon as it has work, then the only node; another one joins."""
    out = tmp_path / "out"
    out.mkdir()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        doomed = cluster.add_node(num_cpus=2)
        raylet = doomed.all_processes["raylet"][0].process.pid
        with start(*COMMANDS[name](games, out), "--engine", f"ray={cluster.address}") as command:
            killed = at_work(raylet)
            os.kill(killed, signal.SIGKILL)
            while at_work(raylet) == killed:  # which may be seen a little longer
                time.sleep(0.01)
            cluster.remove_node(doomed, allow_graceful=False)
            cluster.add_node(num_cpus=2)
            said, errors = command.communicate(timeout=200)
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert (command.returncode, said.replace(str(out), "OUT"), made(out)) == alone[name], errors


def test_a_killed_ingest_is_resumed(games, tmp_path, alone):
    out = tmp_path / "out"
    out.mkdir()
    work = out / ".new.parquet.work"
    for _ in range(5):  # the kill may come when no result is waiting
        with start(*COMMANDS["ingest"](games, out), "--engine", "ray", "--jobs", 1) as first:
            while not list(work.glob("[0-9]*.results")) and first.poll() is None:
                time.sleep(0.005)
            first.kill()
            first.communicate(timeout=60)
        if list(work.glob("[0-9]*.results")):
            break
        (out / "new.parquet").unlink(missing_ok=True)
    assert list(work.glob("[0-9]*.results"))
    assert not list(out.glob("*.parquet"))
    with start(*COMMANDS["ingest"](games, out), "--engine", "ray", "--jobs", 2) as second:
        said, _ = second.communicate(timeout=100)
    assert (second.returncode, said.replace(str(out), "OUT"), made(out)) == alone["ingest"]
