"""Try an installed kifu in the current directory: the README's lines, other commands, and missing extras.

    python -I smoke.py

Needs the core package only, and neither the repository nor a network.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import subprocess
import sys
import time
from importlib.metadata import metadata
from importlib.util import find_spec
from pathlib import Path

README = metadata("kifu")["Description"]
COMMANDS = (
    "--help",
    "stats games.parquet",
    "audit sets/train.parquet sets/test.parquet",
    "build kgsgo-v2 sample -o dat --set until=2025 --set sets.test.games=20 --set sets.train10k.games=200",
    "show dat/kgsgo-test-v2.dat --row 7",
    "show sample --game 3 --move 57",
    "convert games.parquet -o games.olf.gz",
)
"""Commands that the README's do not cover; they use its files."""
NEEDING_EXTRAS = {
    "duckdb": ("query", 'query "select 1" games.parquet'),
    "matplotlib": ("charts", "show sample --game 3 --move 57 -o board.svg"),
    "torch": ("learn", "train quick-cpu sample -o run"),
    "h5py": ("hdf5", "build alphago48 sample -o data.h5"),
    "ray": ("cluster", "ingest sample -o other.parquet --engine ray"),
}
"""By package, the extra that has it, and a command that fails without."""


def run(arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of this environment's kifu."""
    begin = time.monotonic()
    words = shlex.split(arguments, comments=True)
    command = [str(Path(sys.executable).with_name("kifu")), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(f"  kifu {shlex.join(words)}: {time.monotonic() - begin:.1f} s", flush=True)
    return done


def require(condition: bool, message: str) -> None:
    """Exit with a message unless the condition holds."""
    if not condition:
        sys.exit(f"smoke: {message}")


def names_extra(done: subprocess.CompletedProcess[str], extra: str = "") -> bool:
    """Return whether a command failed with one line that names an extra."""
    return done.returncode == 2 and f"pip install 'kifu[{extra}" in done.stderr and "Traceback" not in done.stderr


def run_python_lines() -> int:
    """Run the Python examples of the README, and return their number."""
    examples = doctest.DocTestParser().get_doctest(README, {}, "README", None, None)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        failed, tried = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples)
    require(tried > 0 and not failed, f"{failed} of {tried} lines of the README failed\n{output.getvalue()}")
    return tried


def main() -> None:
    """Run everything, and exit at the first failure."""
    print(f"  Python {sys.version.split()[0]}; README: {run_python_lines()} lines", flush=True)
    blocks = re.findall(r"^```console\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^\$ kifu (.*)", "".join(blocks), re.MULTILINE)
    require(bool(commands), "the README has no commands")
    for command in (*commands, *COMMANDS):
        done = run(command)
        excused = command not in COMMANDS and names_extra(done)
        require(done.returncode == 0 or excused, f"kifu {command} failed\n{done.stdout}{done.stderr}")
    for package, (extra, command) in NEEDING_EXTRAS.items():
        if find_spec(package) is None:
            done = run(command)
            require(names_extra(done, extra), f"kifu {command} does not name the extra {extra}\n{done.stderr}")


if __name__ == "__main__":
    main()
