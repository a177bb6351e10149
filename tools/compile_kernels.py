"""Compile the kernels of the commands and of the public API, on all cores.

    python tools/compile_kernels.py           for this CPU, into the user's folder of compiled kernels
    python tools/compile_kernels.py demo      the part of them that `make demo` compiles beside the demo itself
    python tools/compile_kernels.py FOLDER    for all CPUs that have kifu.compiler.BASELINE, into FOLDER/kifu

WORK decides which kernels are compiled, and for which types. Others are compiled when they are first used.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import kifu
from kifu.compiler import BASELINE
from kifu.execution.executor import count_cores
from kifu.progress import progress

DEMO = ("encode alphago48",)
"""The last commands of `kifu demo` need these kernels, which the first ones do not compile."""

WORK = (
    (
        "ingest sample -o clean.parquet --clean schraudolph",
        "ingest sample -o games.parquet",
        "show sample --game 3 --move 57",
        "split games.parquet -o sets",
        "audit sets/train.parquet sets/test.parquet",
        "convert games.parquet -o games.olf.gz",
        "search games.parquet '+----/|..../|..../|...X' --no-index",
        "explore games.parquet 'Q16 D4' --no-index",
        "search games.parquet '.XO/XO.' --next black",
        "explore games.parquet 'Q16 D4'",
        "ingest games.olf.gz -o olf.parquet",
    ),
    ("gtp",),
    ("encode katago22", "build katago sample -o kata"),
    DEMO,
    ("encode agz17", "build agz17 sample -o agz --set clean=legal"),
    (
        "build kgsgo-v2 sample -o data --set until=2025 --set sets.test.games=20 --set sets.train10k.games=200",
        "show data/kgsgo-test-v2.dat --row 7",
    ),
    (
        "load own+opp+liberties4+ko",
        "predict sample --game 3 --move 57",
        "predict sample --net small --game 3 --move 57",
    ),
    ("encode seven",),
    ("encode eleven",),
    ("encode kgsgo8",),
    ("encode own+opp+liberties4+ko",),
    ("encode own+opp+liberties4+ko+last5",),
)
"""Command lines, `encode PLANES` and `load PLANES`. Those of a tuple run one after another in a folder of their own.

The tuples that take longest come first.
"""


def run(line: str) -> None:
    """Run a line of WORK in this process."""
    from kifu.cli import main

    program, *arguments = shlex.split(line)
    if program == "encode":
        kifu.encode(next(iter(kifu.read("sample"))), *arguments)
    elif program == "load":
        next(iter(kifu.load("sample", *arguments, batch_size=256)))
    else:
        sys.argv = ["kifu", program, *arguments, "--quiet"]
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            main()


def run_lines(lines: tuple[str, ...]) -> int:
    """Run the lines of one tuple of WORK, and return their number."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for line in ("fetch sample -o sample", *lines):
            try:
                run(line)
            except SystemExit as end:
                if end.code:
                    raise RuntimeError(f"{line} failed") from end
    return len(lines)


def compile_all(work: Sequence[tuple[str, ...]]) -> None:
    """Run the tuples of WORK, or some of them, in one process for each core."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # what gtp reads
    with (
        progress("compiling kernels", total=sum(map(len, work)), unit="steps") as bar,
        ProcessPoolExecutor(min(count_cores(), len(work)), get_context("spawn")) as pool,
    ):
        for done in as_completed([pool.submit(run_lines, lines) for lines in work]):
            bar.advance(done.result())


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["demo"]):
        folder, (name, features) = str(Path(sys.argv[1]).resolve()), BASELINE
        os.environ |= {"NUMBA_CACHE_DIR": folder, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
    compile_all([DEMO] if sys.argv[1:] == ["demo"] else WORK)
