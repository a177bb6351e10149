"""Train the recipe `strong` on a GPU that is lent for some minutes, measure the net, and copy it to a folder.

    python3 tools/gpu_run.py games.parquet -o out --wheels wheels --minutes 8
    python tools/gpu_run.py games.parquet -o out --toy       # the same steps on a CPU in a few minutes

It installs the wheels, compiles the kernels, times three sizes, trains the largest one that sees 25 million positions,
or else the smallest, and benchmarks it. Each step is a process in a session of its own with a log in the output folder;
what a step leaves there stays if a later one fails. The games include those of the benchmark sets, which training
leaves out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIZES = ("b20c256", "b15c192", "b10c128")
TOY_SIZES = ("b2c16", "b1c16", "b1c8")
POSITIONS = 25_000_000
TOY = ("batch_size=16", "validation_positions=50", "games=200", "window=2000")
"""Settings of a rehearsal."""

SOURCE = Path(__file__).resolve().parents[1] / "src"


class Steps:
    """The steps of a run, which share an environment and a folder of logs."""

    def __init__(self, logs: Path, site: Path) -> None:
        self.logs = logs
        paths = [str(site), str(SOURCE), os.environ.get("PYTHONPATH", "")]
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def run(self, name: str, *words: object, limit: float = 600) -> None:
        """Run Python with some words in a session of its own, and end all of it after `limit` seconds."""
        begin = time.monotonic()
        with (self.logs / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, *map(str, words)], stdout=log, stderr=log, env=self.environment, start_new_session=True
            )
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                status = process.wait()
        print(f"{name}: {time.monotonic() - begin:.0f} s, status {status}", flush=True)
        if status:
            sys.exit("\n".join((self.logs / f"{name}.log").read_text().splitlines()[-20:]))

    def kifu(self, name: str, *words: object, limit: float = 600) -> None:
        """Run a command of kifu."""
        self.run(name, "-m", "kifu.cli", *words, limit=limit)


def read_json(path: Path) -> Any:
    """Return the contents of a file."""
    return json.loads(path.read_text())


def main() -> None:
    """Run all steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--minutes", type=float, default=8, help="of training")
    parser.add_argument("--toy", action="store_true")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        train(arguments, Path(work))


def train(arguments: argparse.Namespace, work: Path) -> None:
    """Install, time, train and measure, with temporary files in `work`."""
    steps, output = Steps(arguments.output, work / "site"), arguments.output
    sizes, changes = (TOY_SIZES, TOY) if arguments.toy else (SIZES, ())
    settings = [part for each in changes for part in ("--set", each)]
    if arguments.wheels is not None:
        wheels = sorted(arguments.wheels.glob("*.whl"))
        install = ("pip", "install", "-q", "--no-index", "--no-deps", "--no-cache-dir", "--target", work / "site")
        steps.run("install", "-m", *install, *wheels)
    steps.kifu("kernels", "train", "strong", arguments.games, "-o", work / "kernels", "--set", "steps=2", *settings,
               "--set", f"net={sizes[-1]}")  # fmt: skip
    rates = {}
    for size in sizes:
        timed = work / size
        steps.kifu(f"time-{size}", "train", "strong", arguments.games, "-o", timed, "--time", "20s", *settings,
                   "--set", f"net={size}", "--set", "validation=0")  # fmt: skip
        run = read_json(timed / "run.json")
        rates[size] = run["positions"] / run["seconds"]
        print(f"{size}: {rates[size]:,.0f} positions/s", flush=True)
    enough = [size for size in sizes if rates[size] * arguments.minutes * 60 >= POSITIONS]
    chosen = enough[0] if enough else sizes[-1]
    steps.kifu("train", "train", "strong", arguments.games, "-o", work / "run", "--time", f"{arguments.minutes}m",
               *settings, "--set", f"net={chosen}", limit=arguments.minutes * 60 + 120)  # fmt: skip
    for name in ("best.safetensors", "run.json", "metrics.csv", "curves.png"):
        if (work / "run" / name).exists():
            shutil.copy(work / "run" / name, output)
    steps.kifu("benchmark", "benchmark", arguments.games, "--net", work / "run", "--json", output / "benchmark.json")
    print((output / "benchmark.log").read_text())


if __name__ == "__main__":
    main()
