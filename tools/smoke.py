"""Try an installed kifu in the current directory: the README's Python lines, the commands, and missing extras.

    python -I smoke.py

Needs the core package only, and neither the repository nor a network.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import shlex
import subprocess
import sys
import time
from importlib.metadata import metadata
from importlib.util import find_spec
from pathlib import Path

COMMANDS = (
    "--help",
    "fetch sample -o sample",
    "ingest sample -o games.parquet",
    "stats games.parquet",
    "split games.parquet -o sets",
    "audit sets/train.parquet sets/test.parquet",
    "build kgsgo-v2 sample -o data --set until=2025 --set sets.test.games=20 --set sets.train10k.games=200",
    "inspect data/kgsgo-test-v2.dat --row 7",
    "show sample --game 3 --move 57",
    "convert games.parquet -o games.olf.gz",
)
NEEDING_EXTRAS = {
    "duckdb": ("query", 'query "select 1" games.parquet'),
    "matplotlib": ("charts", "show sample --game 3 --move 57 -o board.svg"),
    "torch": ("learn", "predict sample --game 3 --move 57"),
    "h5py": ("hdf5", "build alphago48 sample -o data.h5"),
    "ray": ("cluster", "ingest sample -o other.parquet --engine ray"),
}
"""By package, the extra that has it, and a command that fails without."""


def run(arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of this environment's kifu."""
    begin = time.monotonic()
    command = [str(Path(sys.executable).with_name("kifu")), *shlex.split(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(f"  kifu {arguments}: {time.monotonic() - begin:.1f} s", flush=True)
    return done


def run_readme() -> int:
    """Run the examples of the package's description, and return their number."""
    text = metadata("kifu")["Description"]
    examples = doctest.DocTestParser().get_doctest(text, {}, "README", None, None)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        failed, tried = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples)
    if failed or not tried:
        sys.exit(f"smoke: {failed} of {tried} lines of the README failed\n{output.getvalue()}")
    return tried


def main() -> None:
    """Run everything, and exit at the first failure."""
    print(f"  Python {sys.version.split()[0]}; README: {run_readme()} lines", flush=True)
    for command in COMMANDS:
        done = run(command)
        if done.returncode:
            sys.exit(f"smoke: kifu {command} failed\n{done.stdout}{done.stderr}")
    for package, (extra, command) in NEEDING_EXTRAS.items():
        if find_spec(package) is None:
            done = run(command)
            if done.returncode != 2 or f"pip install 'kifu[{extra}]'" not in done.stderr or "Traceback" in done.stderr:
                sys.exit(f"smoke: kifu {command} does not name the extra {extra}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
