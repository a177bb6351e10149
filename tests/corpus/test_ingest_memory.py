"""Ingest archives that inflate to many games within the documented memory."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

GAME = b"(;KM[7]RE[B+R];B[pd];W[dp])     "


def peak(*arguments: str | Path) -> int:
    """Run a command and return its peak memory in MiB."""
    process = subprocess.Popen([sys.executable, "-m", "kifu.cli", *map(str, arguments)], stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_maxrss // (1 << 20 if sys.platform == "darwin" else 1 << 10)


@pytest.mark.subprocess
@pytest.mark.slow
def test_a_file_of_many_games(tmp_path: Path) -> None:
    few, many = tmp_path / "few.sgf.gz", tmp_path / "many.sgf.gz"
    few.write_bytes(gzip.compress(GAME))
    many.write_bytes(gzip.compress(GAME * (1 << 19), 6))  # 16 MiB, which took 320 MB
    base = peak("ingest", "-q", "--jobs", "1", few, "-o", tmp_path / "games.parquet")
    assert peak("ingest", "-q", "--jobs", "1", many, "-o", tmp_path / "many.parquet") < base + 200
