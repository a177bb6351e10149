"""Commands run in a folder full of modules that have the names of all that kifu imports; none of them is loaded."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import sevenzips
import size
from kifu.cli import app

pytestmark = pytest.mark.subprocess

SOURCE = Path(__file__).parents[2] / "src" / "kifu"
PLANTED = """
with open({mark!r}, "w") as mark:
    import traceback
    traceback.print_stack(file=mark)
"""

# A script that runs commands one after another; like the installed one it lies outside the current directory.
COMMANDS = """
import json, sys
from kifu.cli import main

for arguments in json.loads(sys.argv[1]):
    sys.argv = ["kifu", *arguments]
    code = 0
    try:
        main()
    except SystemExit as leaving:
        code = leaving.code or 0
    if code:
        sys.exit(f"kifu {' '.join(arguments)} ended with {code}")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a module for each imported name, which leaves a file PWNED if it is loaded."""
    imported = set().union(*(size.imported_names(ast.parse(path.read_text("utf-8"))) for path in SOURCE.rglob("*.py")))
    names = {name.partition(".")[0] for name in imported} | set(sys.stdlib_module_names) | {"kifu"}
    assert {"json", "numpy", "numba", "torch", "h5py", "kifu"} <= names
    planted = tmp_path / "planted"
    planted.mkdir()
    for name in names:
        (planted / f"{name}.py").write_text(PLANTED.format(mark=str(tmp_path / "PWNED")))
    return planted


def run_commands(folder: Path, *commands: list[str]) -> None:
    """Run commands in a process whose current directory is `folder`, and check that no module in it was loaded."""
    script = folder.parent / "scripts" / "commands.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text(COMMANDS)
    command = [sys.executable, script, json.dumps(commands)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    loaded = folder.parent / "PWNED"
    assert not loaded.exists(), loaded.read_text()
    assert done.returncode == 0, done.stderr


def test_planted_modules_are_loaded_by_python_itself(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", "import h5py"], cwd=folder, check=True)
    assert (folder.parent / "PWNED").exists()


def test_no_command_loads_a_module_of_the_current_directory(folder: Path) -> None:
    record = b"(;SZ[9]" + b";B[aa];W[bb];B[cc];W[dd]" * 5 + b")"
    packed = sevenzips.made([(f"{k}.sgf", record) for k in range(3)], sevenzips.codecs()["ppmd"])
    (folder / "games.7z").write_bytes(packed)
    run_commands(
        folder,
        *([name, "--help"] for name in typer.main.get_command(app).commands),  # type: ignore[attr-defined]
        ["ingest", "games.7z", "-o", "games.parquet", "--clean", "legal"],  # PPMd is decoded in a process
        ["inspect", "games.parquet"],
        ["query", "SELECT count(*) FROM games", "games.parquet"],
        ["match", "small", "small", "--games", "1", "--board", "5x5"],  # each net is a process
    )


@pytest.mark.slow
def test_processes_of_ray_and_torch_load_no_module_of_the_current_directory(folder: Path) -> None:
    run_commands(
        folder,
        ["ingest", "sample", "-o", "games.parquet", "--engine", "ray"],
        ["build", "agz17", "games.parquet", "-o", "data.h5", "--sets", "test"],
        ["inspect", "data.h5"],
        ["train", "quick-cpu", "games.parquet", "-o", "run", "--devices", "2", "--set", "steps=2"],
    )
