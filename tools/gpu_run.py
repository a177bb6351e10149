"""Train the recipe `strong` on a GPU that is lent for some minutes, and copy the net to a folder.

    python3 tools/gpu_run.py games.parquet -o out --wheels wheels --minutes 8
    python3 tools/gpu_run.py games.parquet -o out --wheels wheels --nets b10c80     # trains this net, without timing
    python tools/gpu_run.py games.parquet -o out --toy        # the same steps on a CPU in a few minutes

It installs the wheels, compiles the kernels, times three sizes, trains the largest one that sees 25 million positions,
or else the smallest, and benchmarks it if it is given games of the benchmark sets. Each step is a process in a session
of its own with a log in the output folder; the net is there as soon as the first validation.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SIZES = ("b15c128", "b10c128", "b10c80")
TOY_SIZES = ("b2c16", "b1c16", "b1c8")
POSITIONS = 25_000_000
TOY = ("batch_size=16", "validation_positions=50", "games=200", "window=2000")
"""Settings of a rehearsal."""

SOURCE = Path(__file__).resolve().parents[1] / "src"
VERSION = re.findall(r'__version__ = "(.*)"', (SOURCE / "kifu" / "__init__.py").read_text())[0]


class Steps:
    """The steps of a run, which share an environment and a folder of logs."""

    def __init__(self, logs: Path, site: Path) -> None:
        self.logs = logs
        paths = [str(site), str(SOURCE), os.environ.get("PYTHONPATH", "")]
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONUNBUFFERED": "1"}

    def run(self, name: str, *words: object, limit: float = 600, each: Callable[[], object] = int) -> None:
        """Run Python with some words in a session of its own, and end all of it after `limit` seconds.

        `each` is called every 20 s and at the end.
        """
        begin = time.monotonic()
        with (self.logs / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, *map(str, words)], stdout=log, stderr=log, env=self.environment, start_new_session=True
            )
        while process.poll() is None and time.monotonic() - begin < limit:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(20, limit))
            each()
        if process.poll() is None:
            os.killpg(process.pid, 9)
        status = process.wait()
        print(f"{name}: {time.monotonic() - begin:.0f} s, status {status}", flush=True)
        if status:
            sys.exit("\n".join((self.logs / f"{name}.log").read_text().splitlines()[-20:]))

    def kifu(self, name: str, *words: object, limit: float = 600, each: Callable[[], object] = int) -> None:
        """Run a command of kifu."""
        self.run(name, "-m", "kifu", *words, limit=limit, each=each)


def main() -> None:
    """Run all steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--minutes", type=float, default=8, help="of training")
    parser.add_argument("--nets", nargs="+", help="the sizes, descending")
    parser.add_argument("--benchmark", type=Path, help="games of the benchmark sets")
    parser.add_argument("--toy", action="store_true")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        train(arguments, Path(work))


def install(steps: Steps, wheels: Path, site: Path) -> None:
    """Install the wheels, and what Python should know of kifu, which runs from its source."""
    options = ("-q", "--no-index", "--no-deps", "--no-cache-dir", "--target", site)
    steps.run("install", "-m", "pip", "install", *options, *sorted(wheels.glob("*.whl")))
    about = site / f"kifu-{VERSION}.dist-info" / "METADATA"
    about.parent.mkdir()
    about.write_text(f"Metadata-Version: 2.1\nName: kifu\nVersion: {VERSION}\n")


def train(arguments: argparse.Namespace, work: Path) -> None:
    """Install, time, train and measure, with temporary files in `work`."""
    steps, output, minutes = Steps(arguments.output, work / "site"), arguments.output, arguments.minutes
    nets = arguments.nets or (TOY_SIZES if arguments.toy else SIZES)
    settings = [part for each in (TOY if arguments.toy else ()) for part in ("--set", each)]
    if arguments.wheels is not None:
        install(steps, arguments.wheels, work / "site")
    command = ("train", "strong", arguments.games, *settings, "-o")
    rates = {}
    if len(nets) > 1:
        steps.kifu("kernels", *command, work / "kernels", "--set", "steps=2", "--set", f"net={nets[-1]}")
        for net in nets:
            timed = work / net
            steps.kifu(f"time-{net}", *command, timed, "--time", "20s", "--set", f"net={net}", "--set", "validation=0")
            rates[net] = json.loads((timed / "run.json").read_text())["last"]["rate"]
            print(f"{net}: {rates[net]:,.0f} positions/s", flush=True)
    enough = [net for net, rate in rates.items() if rate * minutes * 60 >= POSITIONS]
    net, run = enough[0] if enough else nets[-1], work / "run"

    def copy() -> None:
        for name in ("best.safetensors", "best.onnx", "run.json", "metrics.csv", "curves.png"):
            if (run / name).exists():
                shutil.copy(run / name, output)

    limit = minutes * 60 + 300
    steps.kifu("train", *command, run, "--time", f"{minutes}m", "--set", f"net={net}", limit=limit, each=copy)
    if arguments.benchmark is not None:
        words = ("evaluate", arguments.benchmark, "--set", "all", "--net", run, "--json", output / "benchmark.json")
        steps.kifu("benchmark", *words)


if __name__ == "__main__":
    main()
