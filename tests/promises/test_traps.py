"""Every command runs in a folder of modules with the names of all that kifu imports, and none of them is loaded."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import sevenzips
from commands import COMMANDS
from traps import set_traps, sprung

pytestmark = pytest.mark.subprocess

# A script that runs commands one after another; like the installed one it lies outside the working directory.
SCRIPT = """
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
    folder = tmp_path / "traps"
    folder.mkdir()
    set_traps(folder)
    return folder


def test_python_itself_is_trapped(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import h5py"], cwd=folder, capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 1
    assert sprung(folder) == ["h5py"]


def test_no_command_imports_a_module_of_the_working_directory(folder: Path, tmp_path: Path) -> None:
    record = b"(;SZ[9]" + b";B[aa];W[bb];B[cc];W[dd]" * 5 + b")"
    members = [(f"{k}.sgf", record) for k in range(3)]
    (folder / "games.7z").write_bytes(sevenzips.made(members, sevenzips.codecs()["ppmd"]))  # decoded in a process
    commands = [
        *([name, "--help"] for name in COMMANDS),
        ["ingest", "games.7z", "-o", "games.parquet", "--clean", "legal"],
        ["show", "games.parquet"],
        ["query", "SELECT count(*) FROM games", "games.parquet"],
        ["stats", "games.parquet"],
    ]
    (tmp_path / "commands.py").write_text(SCRIPT)
    command = [sys.executable, tmp_path / "commands.py", json.dumps(commands)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert sprung(folder) == []
    assert done.returncode == 0, done.stderr
