"""Run one step of `benchmarks/scale.py` and print its time, peak memory and results as JSON.

python benchmarks/scale_step.py STEP GAMES INTO JOBS [ARCHIVE ...]
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from corpus import find_patterns
from made_games import GAMES, Maker
from searching import load_searches

import kifu
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.duplicates import find_clusters
from kifu.corpus.ingest import ingest
from kifu.errors import DropReason
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe
from kifu.search.build import build_index
from kifu.search.searcher import Searcher

Results = dict[str, int]
"""Counts and file sizes, by name."""


def _files(into: Path, games: int) -> list[Path]:
    return [into / f"games-{number:04}.olf.gz" for number in range(-(-games // GAMES))]


def _catalogue(into: Path, games: int) -> Path:
    return into / f"{games}.parquet"


def make(games: int, into: Path, jobs: int, archives: list[Path]) -> Results:
    """Write the missing files of games."""
    maker = Maker(archives, into / "real.parquet")
    for number, path in enumerate(_files(into, games)):
        if not path.exists():
            maker.write(number, path)
    return {"different": maker.most, "bytes": sum(path.stat().st_size for path in _files(into, games))}


def read(games: int, into: Path, jobs: int, archives: list[Path]) -> Results:
    """Ingest all games under the rules "legal"."""
    report = ingest(_files(into, games), _catalogue(into, games), jobs=jobs)
    return {"games": report.read, "kept": report.kept, "bytes": report.bytes}


def clean(games: int, into: Path, jobs: int, archives: list[Path]) -> Results:
    """Ingest all games and drop duplicates."""
    path = into / f"{games}.clean.parquet"
    rules = load_cleaning_rules("legal", ['duplicates="games"'])
    report = ingest(_files(into, games), path, clean=rules, jobs=jobs)
    path.unlink()
    return {"games": report.read, "kept": report.kept, "copies": report.drops.total()} | dict(report.drops)


def duplicates(games: int, into: Path, jobs: int, archives: list[Path]) -> Results:
    """Find duplicates in the catalogue."""
    found = find_clusters([_catalogue(into, games)])
    return {"copies": int(np.count_nonzero(found.relation != DropReason.KEPT))}


def split(games: int, into: Path, jobs: int, archives: list[Path]) -> Results:
    """Split the catalogue into sets."""
    report = kifu.split(_catalogue(into, games), into / "sets")
    for path in report.sets:
        path.unlink()
    return {"games": report.read} | {path.stem: count for path, count in report.sets.items()}


def stats(games: int, into: Path, jobs: int, archives: list[Path]) -> Results:
    """Count the games."""
    report = kifu.stats(_catalogue(into, games), jobs=jobs)
    return {"games": report.read, "kept": report.kept}


def epoch(games: int, into: Path, jobs: int, archives: list[Path]) -> Results:
    """Load every position once, shuffled and augmented, as seven packed planes."""
    loader = kifu.load(_catalogue(into, games), "seven", batch_size=1024, config=kifu.LoaderConfig(jobs=jobs))
    loaded = time.perf_counter()
    positions = sum(len(batch) for batch in loader)
    assert positions == loader.positions
    took = round((time.perf_counter() - loaded) * 1000)
    return {"positions": positions, "milliseconds": took, "mapped": _memory("RssFile")}


def shuffle(games: int, into: Path, jobs: int, archives: list[Path]) -> Results:
    """Build the set train of agz17, eight positions of each game, in shuffled order."""
    return _build(games, into, jobs, "shuffled", 8)


def order(games: int, into: Path, jobs: int, archives: list[Path]) -> Results:
    """Build the set train of agz17, two positions of each game, in the order of the games."""
    return _build(games, into, jobs, "corpus", 2)


def _build(games: int, into: Path, jobs: int, order: str, positions: int) -> Results:
    changes = ['clean="legal"', f'order="{order}"', f"positions={{passes=true, per_game={positions}}}"]
    recipe = load_recipe("agz17", changes)
    (report,) = build(recipe, [_catalogue(into, games)], into / "built", sets=["train"], jobs=jobs)
    shutil.rmtree(into / "built")
    return {"examples": report.manifest.examples, "bytes": report.manifest.bytes}


def index(games: int, into: Path, jobs: int, archives: list[Path]) -> Results:
    """Index the catalogue."""
    report = build_index(_catalogue(into, games), jobs=jobs)
    return {"games": report.games, "bytes": report.bytes}


def search(games: int, into: Path, jobs: int, archives: list[Path]) -> Results:
    """Explore positions twice, the second time on the clock, and search patterns; times in microseconds."""
    searcher = Searcher(_catalogue(into, games))
    times: dict[str, list[int]] = {}
    for each in load_searches(find_patterns(archives[0].parents[2])):
        if each.position is not None:
            searcher.explore(each.position)
            times.setdefault("explorer", []).append(_clock(partial(searcher.explore, each.position)))
        times.setdefault(each.group, []).append(_clock(partial(searcher.find, each.pattern, jobs=jobs)))
    medians = {name: round(statistics.median(values)) for name, values in times.items()}
    slowest = {"slowest explorer": max(times.pop("explorer")), "slowest pattern": max(map(max, times.values()))}
    return medians | slowest | {"mapped": _memory("RssFile")}


def _clock(task: Callable[[], object]) -> int:
    """Return the microseconds that a task takes."""
    began = time.perf_counter()
    task()
    return round((time.perf_counter() - began) * 1e6)


STEPS: dict[str, Callable[[int, Path, int, list[Path]], Results]] = {
    each.__name__: each for each in (make, read, clean, duplicates, split, stats, epoch, shuffle, order, index, search)
}


def _memory(which: str) -> int:
    """Return a memory value of this process in bytes: VmHWM is the peak, RssFile the mapped file pages."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith(f"{which}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {which}")


def main() -> None:
    """Run the step that the command line names."""
    name, games, into, jobs, *archives = sys.argv[1:]
    began, before = time.perf_counter(), time.process_time()
    results = STEPS[name](int(games), Path(into), int(jobs), [Path(archive) for archive in archives])
    seconds, processor = time.perf_counter() - began, time.process_time() - before
    done: dict[str, Any] = {"seconds": seconds, "processor": processor, "peak": _memory("VmHWM"), "results": results}
    print(json.dumps(done))


if __name__ == "__main__":
    main()
