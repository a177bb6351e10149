"""Measurements in separate processes: peak memory and startup time."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from corpus import Corpus
from figures import Figure, at_most
from timing import Task, cores, in_turns

KIFU = (sys.executable, "-m", "kifu")

# Runs a command, and prints the peak of its memory in kB. A process inherits the peak of the one that starts it,
# which therefore has to be small.
_PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def _run(command: Sequence[str], **environment: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | environment)
    return done.stdout


def peak(command: Sequence[str]) -> float:
    """Return the peak memory of a command, in MB."""
    return int(_run([sys.executable, "-c", _PEAK, *command])) * 1024 / 1e6


def build_command(archives: Sequence[Path], into: Path, overrides: Sequence[str], name: str, jobs: int) -> list[str]:
    """Return the command that builds a set of kgsgo-v2."""
    command = [*KIFU, "build", "kgsgo-v2", *map(str, archives), "--output", str(into), "--sets", name]
    for override in overrides:
        command += ["--set", override]
    return [*command, "--jobs", str(jobs)]


def memory(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Measure the peak memory of `kifu build` for one archive and for all. Two threads prefetch the next archive."""
    into = folder / "built"

    def peak_of(archives: Sequence[Path], overrides: Sequence[str], jobs: int) -> float:
        megabytes = peak(build_command(archives, into, overrides, "trainall", jobs))
        shutil.rmtree(into)
        return megabytes

    one = peak_of(corpus.archives[-1:], corpus.overrides, 1)
    figures = [at_most("peak memory, kifu build of 1 archive, one thread", one, "MB", 500)]
    if corpus.every:
        every, two = (peak_of(corpus.every, corpus.every_overrides, jobs) for jobs in (1, 2))
        what = f"peak memory, kifu build of {len(corpus.every)} archives"
        figures += [
            at_most(f"{what}, one thread", every, "MB", 500),
            at_most(f"{what}, two threads", two, "MB", 500),
            at_most("peak memory, all archives against one", every / one, "x", 1.1),
        ]
    return figures


_LISTS = ("--help", "--version", "list planes", "list formats", "list nets", "list recipes", "fetch")
_GAMES = (
    "show sample --game 3 --move 57",
    "stats games.parquet",
    "query 'select count(*) from kept' games.parquet",
    "show games.parquet",
    "split games.parquet -o sets",
    "explore games.parquet",
    "search games.parquet '.XO/XO.'",
    "build agz17 sample -o data --set clean=legal",
    "ingest sample -o other.parquet",
)
_NETS = ("predict sample --game 3 --move 57", "gtp")


def starts(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Measure the processor time of warm commands on the sample against imports that they cannot do without."""
    servers: list[subprocess.Popen[str]] = []

    def task(*command: str) -> Task:
        def run() -> None:
            subprocess.run(command, check=True, capture_output=True, cwd=folder, input=b"name\nquit\n")

        return Task(run, lambda: shutil.rmtree(folder / "data", ignore_errors=True))

    def serve(target: str) -> Task:
        def run() -> None:
            command = [*KIFU, "serve", "games.parquet", "--port", "0", "--quiet"]
            servers.append(server := subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder))
            assert server.stdout is not None
            urllib.request.urlopen(server.stdout.readline().split("/ ")[0].strip().rstrip("/") + target).read()

        def end() -> None:
            servers[-1].terminate()
            servers.pop().communicate()

        return Task(run, end)

    for line in ("fetch sample -o sample", "ingest sample -o games.parquet"):
        task(*KIFU, *line.split()).run()
    figures = []
    for imports, lines, nets in (("click, rich", _LISTS, ()), ("numba, pyarrow, click, rich", _GAMES, _NETS)):
        commands = [*lines, *nets]
        tasks = [task(*KIFU, *shlex.split(line)) for line in commands]
        floor, *measured = in_turns(rounds, task(sys.executable, "-c", f"import {imports}"), *tasks)
        least = min(floor.processor)
        figures.append(Figure(f"floor: import {imports}", least, "s", floor))
        figures += [
            at_most(f"kifu {line}", min(times.processor) / least, "floors", 2 if line in nets else 1.5, times)
            for line, times in zip(commands, measured)
        ]
    page, answer = in_turns(rounds, serve("/"), serve("/api/nets"))
    return [
        *figures,
        at_most("kifu serve of the sample, until its page is there", page.best, "s", 1, page),
        at_most("kifu serve of the sample, until its nets answer", answer.best, "s", 2, answer),
    ]


def start(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Measure the first and later starts, compared with an empty Python program."""
    nothing, imported, helped = in_turns(
        rounds,
        Task(lambda: _run([sys.executable, "-c", "pass"])),
        Task(lambda: _run([sys.executable, "-c", "import kifu"])),
        Task(lambda: _run([*KIFU, "--help"])),
    )
    into, cache = folder / "built", folder / "kernels"
    smallest = min(corpus.archives, key=lambda path: path.stat().st_size)
    overrides = [*corpus.overrides, "sets.test.games=20"]

    def build() -> str:
        return _run(build_command([smallest], into, overrides, "test", cores()), NUMBA_CACHE_DIR=str(cache))

    task = Task(build, lambda: shutil.rmtree(into))
    (first,) = in_turns(1, task, warm_up=False)
    (later,) = in_turns(rounds, task)
    return [
        Figure("floor: python -c pass", nothing.best, "s", nothing),
        Figure("import kifu", imported.best, "s", imported),
        at_most("kifu --help", helped.best, "s", 0.3, helped),
        at_most("kifu build, 20 games, kernels not compiled yet", first.best, "s", 40, first),
        at_most("kifu build, 20 games, later", later.best, "s", 2, later),
    ]
