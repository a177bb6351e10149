"""Measure time and memory of each step for millions of games generated from real ones, and the duplicates found.

    python benchmarks/scale.py -o DIR [--games N,...] [--jobs N] [--shared DIR] [--only STEP,...]

Each step runs in a new process, unless DIR/scale.json has its result, so that an interrupted run can be resumed. Five
million games take 1.2 GB as files, 1.5 GB as a catalogue, and three times that temporarily.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kifu.execution.executor import count_cores

STEPS = ("make", "read", "clean", "duplicates", "split", "stats", "epoch", "shuffle", "order", "index", "search")
_TITLES = {
    "make": "make the files", "read": "ingest", "clean": "ingest, duplicates dropped", "duplicates": "find duplicates",
    "split": "split", "stats": "stats", "epoch": "an epoch of the loader",
    "shuffle": "build agz17, 8 positions a game, shuffled", "order": "build agz17, 2 positions a game, in order",
    "index": "index for searches", "search": "searches",
}  # fmt: skip
_STEP = Path(__file__).with_name("scale_step.py")
_FILE_GAMES, _COPIES = 20_000, 1_000
"""Games per file of `made_games`, and duplicates among them; repeated here, so that this process stays small."""

Runs = dict[str, Any]
"""By "STEP GAMES JOBS", the output of `scale_step`."""


def main() -> None:
    """Run the missing steps and print the table."""
    arguments = _arguments()
    archives = sorted(arguments.shared.glob("data/kgs/*.tar.gz")) + sorted(arguments.shared.glob("data/tygem/*.zip"))
    if not archives:
        sys.exit(f"scale: no archives in {arguments.shared}/data/kgs and {arguments.shared}/data/tygem")
    arguments.output.mkdir(parents=True, exist_ok=True)
    report = arguments.output / "scale.json"
    runs: Runs = json.loads(report.read_text("utf-8")) if report.exists() else {}
    for games in arguments.games:
        for step in STEPS:
            if step in arguments.only and _key(step, games, arguments.jobs) not in runs:
                runs[_key(step, games, arguments.jobs)] = _run(step, games, arguments.output, arguments.jobs, archives)
                part = report.with_suffix(".part")
                part.write_text(json.dumps(runs, indent=1) + "\n", "utf-8")
                part.rename(report)
    print(table(runs, arguments.games, arguments.jobs))


def _key(step: str, games: int, jobs: int) -> str:
    return f"{step} {games} {jobs}"


def _run(step: str, games: int, into: Path, jobs: int, archives: Iterable[Path]) -> Any:
    print(f"{games:,} games: {_TITLES[step]}", file=sys.stderr)
    command = [sys.executable, str(_STEP), step, str(games), str(into), str(jobs), *map(str, archives)]
    environment = {"ARROW_DEFAULT_MEMORY_POOL": "system"} | os.environ  # as the command line has it
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stdout)


def table(runs: Runs, sizes: list[int], jobs: int) -> str:
    """Return a Markdown table with wall and CPU seconds, peak memory and results of each step and size."""
    lines = [
        "| step | games | seconds | CPU seconds | games/s | peak memory |  |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for step in STEPS:
        for games in sizes:
            run = runs.get(_key(step, games, jobs))
            if run is not None:
                times = f"{run['seconds']:,.1f} | {run['processor']:,.1f} | {games / run['seconds']:,.0f}"
                rest = f"{run['peak'] / 1e6:,.0f} MB | {_found(step, games, run['results'])}"
                lines.append(f"| {_TITLES[step]} | {games:,} | {times} | {rest} |")
    return "\n".join(lines)


def _found(step: str, games: int, results: dict[str, int]) -> str:
    if "copies" in results:
        planted = games // _FILE_GAMES * _COPIES
        return f"{results['copies']:,} of {planted:,} duplicates found" + (
            "" if results["copies"] == planted else ": WRONG"
        )
    if step == "epoch":
        rate = results["positions"] / results["milliseconds"] / 1e3
        return (
            f"{results['mapped'] / 1e6:,.0f} MB mapped; {results['positions']:,} positions, {rate:.2f} M/s once loaded"
        )
    if step == "read":
        return f"{results['bytes'] / games:.0f} bytes a game" + (
            "" if results["kept"] == games else ": WRONG, not all kept"
        )
    if step == "search":
        times = ", ".join(f"{name} {value / 1e3:,.1f}" for name, value in results.items() if name != "mapped")
        return f"{results['mapped'] / 1e6:,.0f} MB mapped; milliseconds: {times}"
    if step in ("shuffle", "order"):
        return f"{results['examples']:,} examples, {results['bytes'] / results['examples']:.0f} bytes each"
    return f"{results['bytes'] / games:.0f} bytes a game" if step in ("make", "index") else ""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure kifu with millions of games and print a Markdown table.")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for games, catalogues and scale.json")
    sizes = "300000,1000000,2500000,5000000"
    parser.add_argument("--games", type=_sizes, default=_sizes(sizes), metavar="N,...", help=f"default: {sizes}")
    parser.add_argument("--jobs", type=int, default=count_cores(), help="threads (default: one for each core)")
    parser.add_argument("--only", type=_steps, default=list(STEPS), metavar="STEP,...", help=f"of {','.join(STEPS)}")
    parser.add_argument(
        "--shared",
        type=Path,
        default=Path(__file__).resolve().parents[2] / "shared",
        help="folder with data/kgs and data/tygem (default: ../shared beside the checkout)",
    )
    return parser.parse_args()


def _sizes(text: str) -> list[int]:
    sizes = [int(each) if each.isdecimal() else 0 for each in text.split(",")]
    for each in sizes:
        if each < _FILE_GAMES or each % _FILE_GAMES:
            raise argparse.ArgumentTypeError(f"numbers of games must be multiples of {_FILE_GAMES:,}, got {text!r}")
    return sizes


def _steps(text: str) -> list[str]:
    steps = text.split(",")
    for step in steps:
        if step not in STEPS:
            raise argparse.ArgumentTypeError(f"steps must be of {', '.join(STEPS)}, got {step!r}")
    return steps


if __name__ == "__main__":
    main()
