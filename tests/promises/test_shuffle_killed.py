"""A shuffled build whose sort goes over the disk: the same bytes after a kill in each phase."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kgs_archives import archive, records
from kifu.corpus.ingest import ingest
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe

pytestmark = [pytest.mark.slow, pytest.mark.subprocess]

WINDOW = 100_000
"""Bytes of planes that are sorted at once: some dozens of ranges."""

COMMAND = """
import os, signal, sys
from kifu.cli import main
from kifu.datasets.parquet import ParquetWriter
from kifu.recipes import examples

def kill_after(holder, name):
    original = getattr(holder, name)
    def replaced(*arguments):
        original(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(holder, name, replaced)

if sys.argv[2] == "divide":
    kill_after(examples, "write_ranges")
elif sys.argv[2] == "encode":
    split = examples.split_ranges
    def begin(*arguments):  # not in the sample by which the size is foreseen
        kill_after(ParquetWriter, "append")
        return split(*arguments)
    examples.split_ranges = begin
examples.WINDOW_BYTES = int(sys.argv[1])
sys.argv = ["kifu", *sys.argv[3:]]
main()
"""
"""Builds, and with "divide" or "encode" kills itself when the first result of that phase is written."""


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("games")
    for year in range(2001, 2005):
        archive(folder, records(25, year), year=year)
    paths = [folder / f"{path.name}.parquet" for path in sorted(folder.glob("KGS*"))]
    for source, path in zip(sorted(folder.glob("KGS*.tar.gz")), paths):
        ingest(source, path)
    return paths


@pytest.fixture(scope="module")
def expected(games: list[Path], tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("expected")
    (built,) = build(load_recipe("agz17", ['clean="legal"']), games, folder, sets=["train"], jobs=1)
    assert built.manifest.examples * 782 > 20 * WINDOW
    return built.path.read_bytes()


def start(games: list[Path], output: Path, *engine: str, kill: str = "") -> subprocess.Popen[str]:
    """Start a build as a process of its own; kill: the phase in which it kills itself."""
    options = ("--set", "clean=legal", "--sets", "train", "--output", str(output), *engine)
    arguments = [sys.executable, "-c", COMMAND, str(WINDOW), kill, "build", "agz17", *map(str, games), *options]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)


def finish(command: subprocess.Popen[str]) -> None:
    with command:
        _, errors = command.communicate(timeout=200)
    assert command.returncode == 0, errors


def test_after_a_kill_in_each_phase_the_bytes_are_the_same(games: list[Path], expected: bytes, tmp_path: Path) -> None:
    for phase in ("divide", "encode"):
        with start(games, tmp_path, "--jobs", "2", kill=phase) as command:
            command.communicate(timeout=200)
        assert command.returncode == -signal.SIGKILL
        assert not tmp_path.joinpath("train.parquet").exists()
        assert any(tmp_path.glob(".train.parquet.work/*.spill"))
    finish(start(games, tmp_path, "--jobs", "2"))
    assert tmp_path.joinpath("train.parquet").read_bytes() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.parquet", "train.parquet.manifest.json"]
