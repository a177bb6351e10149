"""Whoever does the work, the bytes are the same: threads, Ray with few processes or many, and when some of them die."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from commands import run, start
from kgs_archives import BROKEN, archive, records

pytestmark = pytest.mark.slow

KGSGO = ("--set", "sets.test.games=40", "--set", "sets.train10k.games=20", "--sets", "test,train10k")
RULES = ("--set", "clean=legal")
ONCE = ("--set", "duplicates=games")
CATALOGUE = "games.parquet"

COMMANDS: dict[str, Callable[[Path, Path], list[object]]] = {
    "ingest": lambda games, out: ["ingest", *sources(games), "-o", out / "new.parquet", "--set", "min_moves=40", *ONCE],
    "again": lambda games, out: ["ingest", games / CATALOGUE, "-o", out / "new.parquet", "--set", "min_moves=50"],
    "kgsgo": lambda games, out: ["build", "kgsgo-v2", *sources(games), "--into", out / "new", *KGSGO],
    "npy": lambda games, out: ["build", "agz17", games / CATALOGUE, "--into", out / "new", *RULES, "--format", "npy"],
    "parquet": lambda games, out: ["build", "agz17", games / CATALOGUE, "--into", out / "new", *RULES],
    "olf": lambda games, out: ["build", "olf-archive", *sources(games), "--into", out / "new"],
    "stats": lambda games, out: ["stats", games / CATALOGUE, "--json", out / "new.json"],
    "audit": lambda games, out: ["audit", games / CATALOGUE, games / "part.parquet", "--json", out / "new.json"],
}


def sources(games: Path) -> list[Path]:
    return sorted(games.glob("KGS*"))


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six archives with games twice, broken ones, and none; and the catalogues of all, and of one."""
    folder = tmp_path_factory.mktemp("kgs")
    for year in range(2001, 2006):
        more = [*records(20, year), *records(5, 2001), *list(BROKEN.values())[: 2 * (year - 2001)]]
        archive(folder, more, year=year, kind="zip" if year == 2003 else "tar.gz")
    archive(folder, [], year=2006)
    assert run("ingest", *sources(folder), "-o", folder / CATALOGUE).code == 0
    assert run("ingest", sources(folder)[2], "-o", folder / "part.parquet").code == 0
    return folder


def made(out: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def outcome(name: str, games: Path, out: Path, *engine: object) -> tuple[int, str, dict[str, bytes]]:
    """How a command ends, what it says, without the folder's name, and all that it writes."""
    out.mkdir()
    done = run(*COMMANDS[name](games, out), *engine)
    print(*done.err, sep="\n")  # seen if a test fails
    return done.code, done.out.replace(str(out), "OUT"), made(out)


@pytest.fixture(scope="module")
def alone(games: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, dict[str, bytes]]]:
    """What one thread makes."""
    folder = tmp_path_factory.mktemp("alone")
    found = {name: outcome(name, games, folder / name, "--jobs", 1) for name in COMMANDS}
    assert {code for code, _, _ in found.values()} == {0, 1}  # an audit that finds games twice ends with 1
    assert all(sum(map(len, files.values())) > 2000 for _, _, files in found.values())
    return found


@pytest.fixture(scope="module", params=[1, 2, 4])
def processes(request: pytest.FixtureRequest) -> Iterator[int]:
    """A Ray with so many processes, that commands find there."""
    ray.init("local", num_cpus=request.param, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield request.param
    ray.shutdown()


@pytest.mark.parametrize("name", COMMANDS)
def test_two_threads(name, games, tmp_path, alone):
    assert outcome(name, games, tmp_path / "out", "--jobs", 2) == alone[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_ray(processes, name, games, tmp_path, alone):
    assert outcome(name, games, tmp_path / "out", "--engine", "ray") == alone[name]


def workers() -> dict[int, int]:
    """The processes of this machine that make a unit now, and the parent of each, which is its node."""
    found = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                title = process.joinpath("cmdline").read_bytes()
                _, parent, *_ = process.joinpath("stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if title.startswith(b"ray::make_unit"):
                found[int(process.name)] = int(parent)
    return found


@pytest.mark.parametrize("name", ["ingest", "kgsgo", "npy"])
def test_a_process_and_a_node_die_in_the_middle(name, games, tmp_path, alone):
    """A process as soon as one is seen at work, then a node as soon as it has work."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    doomed = cluster.add_node(num_cpus=1)
    raylets = [node.all_processes["raylet"][0].process.pid for node in (cluster.head_node, doomed)]
    killed: list[str] = []

    def kill() -> None:
        until = time.monotonic() + 100
        while len(killed) < 2 and time.monotonic() < until:
            at_work = {process: node for process, node in workers().items() if node in raylets}
            if not killed and at_work:
                os.kill(next(iter(at_work)), signal.SIGKILL)
                killed.append("process")
            elif killed and raylets[1] in at_work.values():
                cluster.remove_node(doomed, allow_graceful=False)
                killed.append("node")
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    told = []
    try:
        while killer.is_alive():  # units are short, and one may have to be looked for more than once
            told.append(outcome(name, games, tmp_path / str(len(told)), "--engine", f"ray={cluster.address}"))
    finally:
        killer.join()
        ray.shutdown()
        cluster.shutdown()
    assert killed == ["process", "node"] and all(each == alone[name] for each in told)


def test_a_killed_ingest_is_gone_on_with(games, tmp_path, alone):
    out = tmp_path / "out"
    out.mkdir()
    work = out / ".new.parquet.work"
    with start(*COMMANDS["ingest"](games, out), "--engine", "ray", "--jobs", 1) as first:
        while not list(work.glob("[0-9]*.parcels")) and first.poll() is None:
            time.sleep(0.005)
        first.kill()
        first.communicate(timeout=60)
    assert list(work.glob("[0-9]*.parcels")) and not list(out.glob("*.parquet"))
    with start(*COMMANDS["ingest"](games, out), "--engine", "ray", "--jobs", 2) as second:
        said, _ = second.communicate(timeout=100)
    assert (second.returncode, said.replace(str(out), "OUT"), made(out)) == alone["ingest"]
