"""Commands that are killed while they write: run again, they give the same bytes, and leave nothing else."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from commands import finish, run, start
from kifu.assets import sample_path
from runs import assert_same_weights, figures_of

KILLS = 7
"""For each of ten commands."""

SAMPLE = sample_path()
COMMANDS: dict[str, tuple[list[str], str]] = {
    "ingest": ([], f"ingest {SAMPLE} -o corpus"),
    "ingest again": ([f"ingest {SAMPLE} -o corpus"], "ingest {games}.parquet -o corpus"),
    "compact": ([f"ingest {SAMPLE} -o corpus", "ingest {games}.parquet -o corpus"], "ingest --compact -o corpus"),
    "index": (["ingest {games}.parquet -o g.parquet"], "explore g.parquet"),
    "split": ([], "split {games}.parquet -o sets"),
    "build ordered": ([], "build book-seven {games}.parquet -o data --set clean=legal --sets train"),
    "build shuffled": ([], "build agz17 {games}.parquet -o data --set clean=legal --sets train"),
    "publish": (["split {games}.parquet -o sets"], "publish sets -o published --title killed --date 2026-01-01"),
    "annotate": (["split {games}.parquet -o sets"], "annotate sets/test.parquet --net small -o moves.parquet"),
}
"""The commands that make the folder in which it runs, and the command, by name. {games}: catalogue of the sample."""


def content(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")
    }


def in_folder(folder: Path, games: Path, line: str) -> list[str]:
    """Return the arguments of a command; names of outputs and of what was made before lie in the folder."""
    words = line.format(games=games.with_suffix("")).split()
    return [str(folder / word) if word in _NAMES else word for word in words]


_NAMES = ("corpus", "sets", "sets/test.parquet", "data", "published", "g.parquet", "moves.parquet")


@pytest.mark.thorough
@pytest.mark.subprocess
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_killed_command_leaves_is_removed_and_made_again(name: str, tmp_path: Path) -> None:
    games, before, tried = (tmp_path / part for part in ("games.parquet", "before", "tried"))
    earlier, line = COMMANDS[name]
    before.mkdir()
    assert run("ingest", SAMPLE, "-o", games).code == 0
    for each in earlier:
        assert run(*in_folder(before, games, each)).code == 0, each

    arguments = in_folder(tried, games, line)

    def begin() -> subprocess.Popen[str]:
        """Start the command in a copy of the folder, and wait for its first change to it."""
        shutil.rmtree(tried, ignore_errors=True)
        shutil.copytree(before, tried)
        first = set(tried.rglob("*"))
        process = start(*arguments)
        while process.poll() is None and set(tried.rglob("*")) == first:
            time.sleep(0.001)
        return process

    process, began = begin(), time.monotonic()
    assert finish(process, 600).code == 0
    duration, expected = time.monotonic() - began, content(tried)
    assert expected != content(before)
    draw, killed = random.Random(name), 0
    for _ in range(KILLS):
        process = begin()
        time.sleep(draw.uniform(0, duration))
        process.kill()
        killed += finish(process, 600).code < 0
        done = run(*arguments)
        assert done.code == 0, done.err
        assert content(tried) == expected
    assert killed


@pytest.mark.thorough
@pytest.mark.subprocess
@pytest.mark.timeout(3600)
def test_a_killed_run_is_resumed_to_the_same_nets(tmp_path: Path) -> None:
    games, whole, tried = (tmp_path / part for part in ("games.parquet", "whole", "tried"))
    assert run("ingest", SAMPLE, "-o", games).code == 0
    recipe = 'net=b1c8 planes="own+opp+last3" batch_size=64 window=4000 validation=0.2 steps=40 validate_steps=5'
    options = [word for each in recipe.split() for word in ("--set", each)]
    words = ("train", "quick-cpu", games, *options, "--time", "1h", "--jobs", 1, "--output")
    process, began = start(*words, whole), time.monotonic()
    while not whole.exists():
        time.sleep(0.001)
    until_written = time.monotonic() - began
    assert finish(process, 600).code == 0
    duration = time.monotonic() - began
    draw, killed = random.Random(1), 0
    for _ in range(KILLS):
        shutil.rmtree(tried, ignore_errors=True)
        process = start(*words, tried)
        time.sleep(draw.uniform(until_written, duration))
        process.kill()
        killed += finish(process, 600).code < 0
        done = run(*words, tried, *(["--resume"] if (tried / "run.json").exists() else []))
        assert done.code == 0, done.err
        assert figures_of(tried) == figures_of(whole)
        assert [path.name for path in sorted(tried.iterdir())] == [path.name for path in sorted(whole.iterdir())]
        for path in whole.glob("*.safetensors"):
            assert_same_weights(path, tried / path.name)
    assert killed
