"""Compare `kifu estimate` with the runs that it predicts, as a table of estimate / actual.

    python benchmarks/estimates.py FOLDER -o DIR [--only NAME,...] [--jobs 1,2]

FOLDER holds archives of KGS. Each estimate is followed at once by its run, both in processes of their own, so that the
load of the machine affects both.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import KIFU

_PEAK = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
sys.exit(code)
"""

FEW, SOME, MANY, ALL = "KGS-2017_02-*", "KGS-2016_0[1-4]-*", "KGS-200[123]-*", "KGS-*"

CASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "ingest": (ALL, "", ()),
    "ingest, training": (ALL, "", ("--clean", "training")),
    "agz17": (SOME, "agz17", ()),
    "alphago48": (FEW, "alphago48", ()),
    "book-seven": (SOME, "book-seven", ()),
    "katago": (FEW, "katago", ()),
    "kgsgo-v1": (MANY, "kgsgo-v1", ()),
    "kgsgo-v2": (MANY, "kgsgo-v2", ()),
    "olf-archive": (ALL, "olf-archive", ()),
}
"""For each row the archives, the recipe of a build, and options."""


@dataclass(frozen=True)
class Cost:
    """Seconds with startup, examples or games, bytes on disk, and bytes of memory."""

    seconds: float
    examples: float
    disk: float
    memory: float


def estimated(sources: Sequence[str], recipe: str, options: Sequence[str], jobs: int) -> tuple[Cost, float]:
    """Return the estimate, and the seconds that it took."""
    command = [*KIFU, "estimate", *sources, *(["--recipe", recipe] if recipe else []), *options]
    began = time.perf_counter()
    done = subprocess.run([*command, "--jobs", str(jobs), "--json", "-"], check=True, capture_output=True, text=True)
    took = time.perf_counter() - began
    found = json.loads(done.stdout)
    steps = found["steps"]
    sets = [each["examples"]["value"] for each in found["sets"]]
    return Cost(
        seconds=sum(step["seconds"]["value"] for step in steps) + found["startup"],
        examples=sum(sets) if sets else found["kept"]["value"],
        disk=sum(step["disk"]["value"] for step in steps),
        memory=max(step["memory"] for step in steps),
    ), took


def actual(sources: Sequence[str], recipe: str, options: Sequence[str], jobs: int, into: Path) -> Cost:
    """Run the command and measure it."""
    command = [*KIFU, *(["build", recipe] if recipe else ["ingest"]), *sources, *options, "--jobs", str(jobs)]
    output = into / "built" if recipe else into / "games.parquet"
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, *command, "--output", str(output)], check=True, capture_output=True, text=True
    )
    seconds = time.perf_counter() - began
    files = [path for path in into.rglob("*") if path.is_file()]
    cost = Cost(seconds, sum(_examples(output)), sum(path.stat().st_size for path in files), float(done.stdout))
    shutil.rmtree(into)
    return cost


def _examples(output: Path) -> Iterator[int]:
    """Yield the number of examples of each data set, or of games of a catalogue or archive."""
    import kifu

    if output.is_file():
        yield int(kifu.open_catalogue(output).metadata["kept"])
        return
    for path in output.rglob("*manifest.json"):
        manifest: dict[str, Any] = json.loads(path.read_text("utf-8"))
        yield int(manifest["examples"] if "examples" in manifest else manifest["kept"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="archives of KGS")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for results, which are removed")
    parser.add_argument("--only", help="rows, separated by commas; default: all")
    parser.add_argument("--jobs", default="1,2", help="numbers of threads, default 1,2")
    options = parser.parse_args()
    print("| run | jobs | seconds | examples | disk, MB | memory, MB | estimate takes |\n|---|---|---|---|---|---|---|")
    for name, (pattern, recipe, more) in CASES.items():
        if options.only and name not in options.only.split(","):
            continue
        sources = sorted(map(str, options.folder.glob(pattern)))
        for jobs in map(int, options.jobs.split(",")):
            guess, took = estimated(sources, recipe, more, jobs)
            truth = actual(sources, recipe, more, jobs, options.output / "run")
            cells = [
                f"{guess.seconds:.1f} / {truth.seconds:.1f}",
                f"{guess.examples:,.0f} / {truth.examples:,.0f}",
                f"{guess.disk / 1e6:,.1f} / {truth.disk / 1e6:,.1f}",
                f"{guess.memory / 1e6:.0f} / {truth.memory / 1e6:.0f}",
            ]
            print(f"| {name}, {pattern} | {jobs} | {' | '.join(cells)} | {took:.1f} s |", flush=True)


if __name__ == "__main__":
    main()
