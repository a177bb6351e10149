"""Symbolic links planted at every name that a command writes under: nothing is written through them."""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from commands import run
from kgs_archives import archive, records
from marks import slow, thorough
from runs import TINY, interrupted

EXAMPLES = """
kind = "examples"
name = "mine"
title = "a recipe of my own"
planes = "seven"
format = "npy"
[split]
kind = "hash"
sets = { train = 2.0, test = 1.0 }
"""

COMMANDS = ["convert kgs -o new.olf.gz", "query 'select * from games' games.parquet -o new.csv"]

MORE_COMMANDS = [
    "ingest kgs2 -o corpus",
    "build mine.toml games.parquet -o new",
    "show kgs -o new.svg",
    "build mine.toml games.parquet -o new --format hdf5",
    "build katago games.parquet -o new --sets train",
    "fetch sample -o new",
    "ingest kgs -o new.parquet --clean schraudolph",
    "ingest kgs -o new",
    "ingest --compact -o corpus",
    "split games.parquet -o new",
    "query 'select * from games' games.parquet -o new.parquet",
    "stats games.parquet -o new.png --json new.json",
    "build mine.toml games.parquet -o new --format parquet",
    "build olf-archive games.parquet -o new",
    "build kgsgo-v2 sample -o new --sets test --set until=2025",
    "train tiny.toml games.parquet -o new",
    "predict kgs -o new.png",
]

LONG_COMMANDS = [
    "train tiny.toml games.parquet -o run --resume",
    "evaluate small games.parquet --positions 20 --overlap keep --html new.html --json new.json",
    "export small -o new.onnx",
]


_written: list[str] | None = None
"""The paths that were opened for writing, created or renamed. None: not recorded; an audit hook cannot be removed."""


def _record(event: str, arguments: tuple[Any, ...]) -> None:
    if _written is None:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(path, str) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and not flags & os.O_TMPFILE:
            _written.append(path)
    elif event in ("os.rename", "os.mkdir"):
        _written.extend(path for path in arguments if isinstance(path, str))


@pytest.fixture(scope="module", autouse=True)
def audit_hook() -> None:
    sys.addaudithook(_record)


def recorded_paths(line: str) -> list[str]:
    global _written
    _written = []
    try:
        done = run(*split_line(line))
        assert done.code == 0, done.err
        return _written
    finally:
        _written = None


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    for name, seed in (("kgs", 1), ("kgs2", 2)):
        (folder / name).mkdir()
        games = [record.replace(b"PB[", b"RE[B+R]RU[Japanese]KM[6.5]PB[") for record in records(12, seed)]
        archive(folder / name, games, year=2000 + seed)
    assert run("ingest", folder / "kgs", "-o", folder / "games.parquet").code == 0
    assert run("ingest", folder / "kgs", "-o", folder / "corpus").code == 0
    assert run("fetch", "sample", "-o", folder / "sample").code == 0
    (folder / "mine.toml").write_text(EXAMPLES)
    lines = [f"{key} = {value!r}" for key, value in TINY.items() if not isinstance(value, dict)]
    lines += ["[optimizer]", *(f"{key} = {value!r}" for key, value in TINY["optimizer"].items())]
    (folder / "tiny.toml").write_text("\n".join(lines))
    return folder


def split_line(line: str) -> list[str]:
    return [quoted or word for quoted, word in re.findall(r"'([^']*)'|(\S+)", line)]


def check_name(line: str, name: str, kind: str, victim: Path) -> None:
    """Run a command with a link at `name` to a file, a folder or nothing."""
    path = Path(name)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(victim, ignore_errors=True)
    victim.mkdir()
    (victim / "precious").write_bytes(b"precious")
    path.symlink_to({"file": victim / "precious", "folder": victim, "missing": victim / "missing"}[kind])
    done = run(*split_line(line))
    assert done.code in (0, 2), (name, kind, done.err)
    assert not any("unexpected" in line for line in done.err), (name, kind, done.err)
    # A user may have made an output, or a folder of an archive, a link to another place.
    is_output = name in line.split() or line.startswith("build olf-archive")
    if not (is_output and kind == "folder"):
        assert {each.name: each.read_bytes() for each in victim.iterdir()} == {"precious": b"precious"}, (name, kind)
    if path.name.startswith(".") and path.name.endswith(".part") and len(path.parts) == 1:
        assert done.code == 2, (name, kind)
        assert done.err[-1] == f"kifu: {name} is a symbolic link; remove it"


@pytest.mark.parametrize("line", [*COMMANDS, *slow(*MORE_COMMANDS), *thorough(*LONG_COMMANDS)])
def test_planted_links(line: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(inputs)
    clean, work = tmp_path / "clean", tmp_path / "work"
    shutil.copytree(inputs, clean)
    if "--resume" in line:
        monkeypatch.chdir(clean)
        with interrupted(5):
            assert run(*split_line(line.removesuffix(" --resume"))).code == 130
    shutil.copytree(clean, work)
    monkeypatch.chdir(work)
    names = {os.path.relpath(path, work) for path in recorded_paths(line)}
    names = {name for name in names if not name.startswith("..") and name != "."}
    assert any(name.endswith(".part") for name in names), names
    for name in sorted(names):
        for kind in ("file", "folder", "missing"):
            monkeypatch.chdir(tmp_path)
            shutil.rmtree(work)
            shutil.copytree(clean, work)
            monkeypatch.chdir(work)
            check_name(line, name, kind, tmp_path / "victim")
