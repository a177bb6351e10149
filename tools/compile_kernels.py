"""Compile the kernels of the commands and of the public API, on all cores.

    python tools/compile_kernels.py                    for this machine, into the user's folder of compiled kernels
    python tools/compile_kernels.py dist/kifu-1.whl    for all CPUs that have kifu.compiler.BASELINE, into a wheel

WORK decides which kernels are compiled, and for which types. Others are compiled when they are first used.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import kifu
from kifu.compiler import BASELINE, PACKAGED
from kifu.progress import Progress, progress

WORK = (
    (
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
        "gtp",
    ),
    (
        "encode agz17",
        "encode seven",
        "encode eleven",
        "encode kgsgo8",
        "encode katago22",
        "encode alphago48",
        "encode own+opp+liberties4+ko",
        "encode own+opp+liberties4+ko+last5",
        "build agz17 sample -o agz --set clean=legal",
        "build kgsgo-v2 sample -o data --set until=2025 --set sets.test.games=20 --set sets.train10k.games=200",
        "show data/kgsgo-test-v2.dat --row 7",
        "build katago sample -o kata",
        "load own+opp+liberties4+ko",
        "predict sample --game 3 --move 57",
        "predict sample --net small --game 3 --move 57",
        "ingest sample -o games.parquet",
        "annotate games.parquet -o moves.parquet --net small",
    ),
)
"""Command lines, `encode PLANES` and `load PLANES`. Each tuple runs in a process and a folder of its own."""


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
        with contextlib.redirect_stdout(sys.stderr):
            main()


def run_all(number: str) -> None:
    """Run the lines of one tuple of WORK, and print one after each."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for line in ("fetch sample -o sample", *WORK[int(number)]):
            try:
                run(line)
            except SystemExit as end:
                if end.code:
                    raise
            print(line, flush=True)


def compile_all(variables: dict[str, str]) -> None:
    """Run all of WORK, with environment variables, and exit with the output of what fails."""

    def watch(number: int, bar: Progress) -> None:
        command = [sys.executable, __file__, "--work", str(number)]
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(
                command, env=os.environ | variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
            ) as process,
        ):
            assert process.stdout is not None
            for _ in process.stdout:
                bar.advance()
            if process.wait():
                errors.seek(0)
                sys.exit(f"compile_kernels: a line of WORK failed\n{errors.read()}")

    with (
        progress("compiling kernels", total=sum(map(len, WORK)) + len(WORK), unit="steps") as bar,
        ThreadPoolExecutor(len(WORK)) as threads,
    ):
        for _ in threads.map(watch, range(len(WORK)), [bar] * len(WORK)):
            pass


def compile_into(wheel: Path) -> None:
    """Compile for BASELINE, and add the compiled kernels to a wheel."""
    name, features = BASELINE
    with tempfile.TemporaryDirectory() as folder:
        compile_all({"NUMBA_CACHE_DIR": folder, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features})
        command = [sys.executable, "-m", "wheel"]
        subprocess.run([*command, "unpack", wheel, "--dest", folder], check=True, stdout=subprocess.DEVNULL)
        (unpacked,) = Path(folder).glob("kifu-*")
        kernels = sorted(Path(folder, "kifu").glob("*.kernel"))
        target = unpacked / "kifu" / PACKAGED.relative_to(Path(kifu.__file__).parent)
        target.mkdir()
        for kernel in kernels:
            shutil.copy(kernel, target)
        before = wheel.stat().st_size
        subprocess.run([*command, "pack", unpacked, "--dest-dir", wheel.parent], check=True, stdout=subprocess.DEVNULL)
    added = (wheel.stat().st_size - before) / 1e6
    print(f"{wheel.name}: {len(kernels)} compiled kernels for {name}, {added:.1f} MB more")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        run_all(sys.argv[2])
    elif len(sys.argv) > 1:
        compile_into(Path(sys.argv[1]))
    else:
        compile_all({})
