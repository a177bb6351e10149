"""The head of a cluster dies during a command: one line, and another cluster reuses the results."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from clustered import SPANS, Times, call, expected, tries
from commands import finish, run, start
from kgs_archives import archive, records
from kifu.io import locked_folder, staging_dir

pytestmark = [pytest.mark.thorough, pytest.mark.subprocess]  # Ray takes most of a minute to notice

RAY = Path(sys.executable).with_name("ray")

BUSY = 300
"""Seconds for a node to start, or a command to finish, on a busy machine."""

NOTICED = 90
"""Seconds after which a command whose cluster has lost its head has ended: some 40 on an idle core."""


class Node:
    """A node of Ray with its child processes, in a session of its own."""

    def __init__(self, *options: str) -> None:
        ports = ("--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0")
        command = [RAY, "start", *options, *ports, "--node-ip-address=127.0.0.1", "--disable-usage-stats"]
        starter = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self._session = starter.pid
        try:
            errors, _ = starter.communicate(timeout=BUSY)
            assert starter.returncode == 0, errors
        except BaseException:
            self.clear()
            raise

    def _processes(self) -> Iterator[tuple[int, str]]:
        """Those that are alive, and their names."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    before, _, after = entry.joinpath("stat").read_text().rpartition(")")
                    state, _, _, session, *_ = after.split()
                    if int(session) == self._session and state not in "ZX":
                        yield int(entry.name), before.partition("(")[2]

    def kill(self, name: str = "") -> None:
        """Kills those with that in their name, as a power cut would."""
        for process, said in self._processes():
            if name in said:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def clear(self) -> None:
        """Leaves none."""
        while list(self._processes()):
            self.kill()
            time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@dataclass
class Machines:
    """A cluster of nodes. address: of the head. client: its Ray client port."""

    address: str
    client: str
    head: Node
    others: list[Node]


@contextmanager
def machines(more: int = 0, processors: int = 1) -> Iterator[Machines]:
    """Start a head and more nodes, with a number of processors each."""
    port, client = free_port(), free_port()
    cpus = f"--num-cpus={processors}"
    folder = tempfile.mkdtemp(prefix="kh", dir="/tmp")  # with room for the names of sockets, which are limited
    with ExitStack() as held:
        held.callback(shutil.rmtree, folder, ignore_errors=True)
        head = ("--head", f"--port={port}", f"--ray-client-server-port={client}", "--include-dashboard=false")
        first = Node(*head, cpus, f"--temp-dir={folder}")
        begun = Machines(f"127.0.0.1:{port}", f"ray://127.0.0.1:{client}", first, [])
        held.callback(begun.head.clear)
        for _ in range(more):
            begun.others.append(Node(f"--address={begun.address}", cpus))
            held.callback(begun.others[-1].clear)
        yield begun


def until(there: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    latest = time.monotonic() + BUSY
    while not there():
        assert time.monotonic() < latest
        time.sleep(0.005)


@pytest.fixture(autouse=True)
def _without_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore a password that Ray may have left in the home directory."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")


def lost(address: str, line: str, prefix: str) -> bool:
    """Return whether a line reports a cluster without a head. The host is the cluster's name for it."""
    port = address.rpartition(":")[2]
    return re.fullmatch(rf"{prefix}: lost the cluster at [\d.]+:{port}: .*Connection refused", line) is not None


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write two dozen archives with the same games, each of which takes a moment."""
    first = archive(tmp_path_factory.mktemp("kgs"), records(1500), year=2001)
    others = [first.with_name(first.name.replace("2001", str(year))) for year in range(2002, 2025)]
    return [first, *(Path(shutil.copy(first, other)) for other in others)]


COMMANDS: dict[str, Callable[[list[Path], Path], list[object]]] = {
    "ingest": lambda sources, out: ["ingest", *sources, "-o", out / "new.parquet"],
    "build": lambda sources, out: ["build", "olf-archive", *sources, "--output", out / "new"],
}


def made(out: Path) -> dict[str, bytes]:
    """Return all files below a folder."""
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_resumes_on_another_cluster(name, sources, tmp_path):
    alone, out = tmp_path / "alone", tmp_path / "out"
    assert run(*COMMANDS[name](sources, alone)).code == 0
    with machines(1) as cluster:
        command = start(*COMMANDS[name](sources, out), "--engine", f"ray={cluster.address}")
        until(lambda: list(out.rglob("[0-9]*.results")) or command.poll() is not None)
        cluster.head.kill()
        killed = time.monotonic()
        done = finish(command)
        assert time.monotonic() - killed < NOTICED
    *others, ours = done.err
    # On a busy machine Ray 2.60 at times ends the process before kifu has noticed; then the work resumes all the same.
    if not (done.code == 1 and ours.endswith("The program will terminate.")):
        assert done.code == 2, "\n".join(done.err)
        assert lost(cluster.address, ours, "kifu"), "\n".join(done.err)
    assert all(re.match(r"[\w ]+ \.\.\.$|\[[-\d]+ [:,\d]+ E \d+ \d+\] ", line) for line in others), done.err
    left = made(out)
    assert all(".work/" in path for path in left)
    assert any(re.search(r"\.work/\d+-\d+-[0-9a-f]{32}\.results$", path) for path in left)
    with machines(processors=2) as cluster:
        done = finish(start(*COMMANDS[name](sources, out), "--engine", f"ray={cluster.address}"))
    assert done.code == 0, done.err
    assert made(out) == made(alone)


@pytest.fixture
def job(tmp_path: Path) -> Times:
    marks = tmp_path / "marks"
    marks.mkdir()
    return Times(7, str(marks), seconds=0.3)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return staging_dir(tmp_path / "games.parquet")


@pytest.mark.parametrize("through", ["address", "client"])
def test_only_missing_results_are_made_again(job, work, through):
    with machines(1) as cluster:
        address = getattr(cluster, through)
        with call(job, work, f"ray={address}") as first:
            assert first.stdout is not None
            lines = [first.stdout.readline() for _ in range(9)]
            cluster.head.kill()
            out, errors = first.communicate(timeout=NOTICED)
        cluster.others[0].clear()
    assert first.returncode == 1, errors
    assert lost(address, errors.splitlines()[-1], "kifu.errors.ClusterError"), errors
    with locked_folder(work):
        there = [len(list(work.glob(f"0-{number:06}-*.results"))) for number in range(len(SPANS))]
    assert there[:3] == [1] * 3
    assert sum(there) < len(SPANS)
    begun = [tries(job.marks, span.first) for span in SPANS]
    with machines(processors=2) as cluster, call(job, work, f"ray={cluster.address}") as second:
        out, errors = second.communicate(timeout=BUSY)
    assert second.returncode == 0, errors
    assert out == "".join(f"{numbers}\n" for numbers in expected(job, SPANS))
    assert out.startswith("".join(lines))
    assert [tries(job.marks, span.first) - old for span, old in zip(SPANS, begun)] == [1 - made for made in there]
    assert not work.exists()
