"""Fuzz the readers, with kernels that check their bounds (`make fuzz`).

A reader must return a result or raise a KifuError within a time limit. Each format has a process of its own, so a crash
is a finding, too. The input that failed is in build/fuzz, with the seed that repeats it; the exit code is then 1.
"""

import argparse
import functools
import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fuzz_fetch
import fuzz_files as files
import fuzz_search
from fuzz_gib import GIB
from fuzz_ngf import NGF
from fuzz_ogs import OGS, OGS_LINES
from fuzz_olf import OLF
from fuzz_sgf import SGF
from fuzz_tygem import TYGEM
from fuzz_ugf import UGF
from fuzzing import Fuzzer, try_all
from kifu.datasets.formats import FORMATS

if __name__ == "__main__":
    import conftest  # noqa: F401 - with bounds checks, negative indices fail, too

MAKERS: Mapping[str, Callable[[Path], Fuzzer]] = {
    "sgf": lambda _: SGF,
    "olf": lambda _: OLF,
    "ogs": lambda _: OGS,
    "ogs-lines": lambda _: OGS_LINES,
    "tygem": lambda _: TYGEM,
    "gib": lambda _: GIB,
    "ngf": lambda _: NGF,
    "ugf": lambda _: UGF,
    **{kind: functools.partial(files.container_fuzzer, kind) for kind in ("zip", "tar", "7z", "compressed")},
    "catalogue": files.catalogue_fuzzer,
    "catalogue-folder": files.catalogue_folder_fuzzer,
    **{name.partition("@")[0]: functools.partial(files.dataset_fuzzer, name) for name in FORMATS},
    **{f"whole-{kind}": functools.partial(files.whole_fuzzer, kind) for kind in files.WHOLE},
    "search-index": fuzz_search.index_fuzzer,
    "net": files.net_fuzzer,
    "run": files.run_fuzzer,
    "config": files.config_fuzzer,
    "index-page": files.index_page_fuzzer,
    "collection-index": fuzz_fetch.listing_fuzzer,
    "download": fuzz_fetch.download_fuzzer,
    "gtp": files.gtp_fuzzer,
}
"""Functions that make the fuzzer of each format, given an empty folder."""

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "fuzz"


def fuzz_format(name: str, seconds: float, seed: int) -> None:
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.chdir(folder)
    fuzzer = MAKERS[name](folder)
    tried = try_all(fuzzer, seconds, seed, WORK / f"{name}.input")
    assert tried.refused < tried.inputs, f"all {tried.inputs:,} inputs were refused"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{tried.inputs:,} inputs, {tried.refused:,} refused, peak memory {peak:,} MiB, seed {seed}")


def run_format(name: str, minutes: float, seed: int) -> bool:
    """Fuzz one format in a process of its own. Returns False if it found something."""
    command = [sys.executable, __file__, "--here", "--minutes", str(minutes), "--seed", str(seed), name]
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(WORK / "kernels")}
    log = WORK / f"{name}.log"
    with log.open("wb") as output:
        code = subprocess.run(command, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    lines = log.read_text("utf-8", "replace").strip().splitlines() or [""]
    end = (
        lines[-1] if code == 0 else f"FOUND (exit code {code}), see {log} and {log.with_suffix('.input')}: {lines[-1]}"
    )
    print(f"{name}: {minutes:g} minutes, {end}", flush=True)
    return code == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=f"of {', '.join(MAKERS)}; by default all")
    parser.add_argument("--minutes", type=float, default=30, help="time for each format")
    parser.add_argument("--jobs", type=int, default=2, help="formats at a time")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--here", action="store_true", help="fuzz one format in this process")
    arguments = parser.parse_args()
    if unknown := set(arguments.formats) - set(MAKERS):
        parser.error(f"unknown format {', '.join(sorted(unknown))}")
    if arguments.here:
        fuzz_format(arguments.formats[0], 60 * arguments.minutes, arguments.seed)
        return
    WORK.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        names = arguments.formats or list(MAKERS)
        passed = list(pool.map(lambda name: run_format(name, arguments.minutes, arguments.seed), names))
    sys.exit(not all(passed))


if __name__ == "__main__":
    main()
