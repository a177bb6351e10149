"""One step of `benchmarks/scale.py`, in a process of its own: prints how long it took, and its peak of memory, as JSON.

python benchmarks/scale_step.py STEP GAMES INTO JOBS [ARCHIVE ...]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from made_games import GAMES, Maker

import kifu
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.duplicates import find_clusters
from kifu.corpus.ingest import ingest
from kifu.corpus.splits import load_split
from kifu.corpus.splits import split as split_catalogues
from kifu.corpus.stats import count_games
from kifu.errors import DropReason

Told = dict[str, int]
"""What a step has found, by name: what can be checked, and what files are large."""


def _files(into: Path, games: int) -> list[Path]:
    return [into / f"games-{number:04}.olf.gz" for number in range(-(-games // GAMES))]


def _catalogue(into: Path, games: int) -> Path:
    return into / f"{games}.parquet"


def make(games: int, into: Path, jobs: int, archives: list[Path]) -> Told:
    """Writes the files of games that are not there yet."""
    maker = Maker(archives, into / "real.parquet")
    for number, path in enumerate(_files(into, games)):
        if not path.exists():
            maker.write(number, path)
    return {"different": maker.most, "bytes": sum(path.stat().st_size for path in _files(into, games))}


def read(games: int, into: Path, jobs: int, archives: list[Path]) -> Told:
    """Ingests them by the rules "legal"."""
    told = ingest(_files(into, games), _catalogue(into, games), jobs=jobs)
    return {"games": told.read, "kept": told.kept, "bytes": told.bytes}


def clean(games: int, into: Path, jobs: int, archives: list[Path]) -> Told:
    """Ingests them, and sets copies aside."""
    path = into / f"{games}.clean.parquet"
    rules = load_cleaning_rules("legal", ['duplicates="games"'])
    told = ingest(_files(into, games), path, clean=rules, jobs=jobs)
    path.unlink()
    return {"games": told.read, "kept": told.kept, "copies": told.drops.total()} | dict(told.drops)


def duplicates(games: int, into: Path, jobs: int, archives: list[Path]) -> Told:
    """Looks for copies in the catalogue of all of them."""
    found = find_clusters([_catalogue(into, games)])
    return {"copies": int(np.count_nonzero(found.relation != DropReason.KEPT))}


def split(games: int, into: Path, jobs: int, archives: list[Path]) -> Told:
    """Divides them into sets, each a catalogue."""
    told = split_catalogues([_catalogue(into, games)], load_split("hash"), into / "sets")
    for path in told.sets:
        path.unlink()
    return {"games": told.read} | {path.stem: count for path, count in told.sets.items()}


def stats(games: int, into: Path, jobs: int, archives: list[Path]) -> Told:
    """Counts them."""
    told = count_games([_catalogue(into, games)], jobs=jobs)
    return {"games": told.read, "kept": told.kept}


def epoch(games: int, into: Path, jobs: int, archives: list[Path]) -> Told:
    """Draws every position once, shuffled and turned, as seven packed planes."""
    loader = kifu.load(_catalogue(into, games), "seven", batch_size=1024, config=kifu.LoaderConfig(jobs=jobs))
    loaded = time.perf_counter()
    positions = sum(len(batch) for batch in loader)
    assert positions == loader.positions
    took = round((time.perf_counter() - loaded) * 1000)
    return {"positions": positions, "milliseconds": took, "mapped": _memory("RssFile")}


STEPS: dict[str, Callable[[int, Path, int, list[Path]], Told]] = {
    each.__name__: each for each in (make, read, clean, duplicates, split, stats, epoch)
}


def _memory(which: str) -> int:
    """What the system says of this process's memory, in bytes: VmHWM is the peak, RssFile what is mapped of files."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith(f"{which}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status does not tell {which}")


def main() -> None:
    """Runs the step that the command line names."""
    name, games, into, jobs, *archives = sys.argv[1:]
    began, before = time.perf_counter(), time.process_time()
    told = STEPS[name](int(games), Path(into), int(jobs), [Path(archive) for archive in archives])
    seconds, processor = time.perf_counter() - began, time.process_time() - before
    done: dict[str, Any] = {"seconds": seconds, "processor": processor, "peak": _memory("VmHWM"), "told": told}
    print(json.dumps(done))


if __name__ == "__main__":
    main()
