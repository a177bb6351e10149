"""Ingesting with broken sources, a full disk, Ctrl-C and kill -9: no damaged catalogue, and the next run recovers."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from commands import is_error, limited, run, tree
from kgs_archives import archive, records
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.ingest import ingest
from kifu.errors import OutputError
from slow_writer import small_steps

HERE = Path(__file__).parents[1]
NAME = "games.parquet"


@pytest.fixture(autouse=True)
def steps() -> Iterator[None]:
    with small_steps():
        yield


@pytest.fixture(scope="module")
def kgs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kgs")
    for year in range(2001, 2007):
        archive(folder, records(40, year), year=year)
    return folder


@pytest.fixture(scope="module", params=[pytest.param("legal", marks=pytest.mark.slow), "training"])
def rules(request: pytest.FixtureRequest) -> str:
    """The latter first writes all into a hidden file."""
    return str(request.param)


@pytest.fixture(scope="module")
def good(kgs: Path, rules: str, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of an undisturbed run."""
    path = tmp_path_factory.mktemp("good") / NAME
    with small_steps():
        ingest(kgs, path, clean=load_cleaning_rules(rules), overwrite=True)
    return path.read_bytes()


@cache
def old() -> bytes:
    """The file of an earlier run, from another source."""
    with TemporaryDirectory() as folder:
        ingest(archive(Path(folder), records(1)), Path(folder, NAME))
        return Path(folder, NAME).read_bytes()


def mended(kgs: Path, folder: Path, rules: str, good: bytes) -> None:
    """The next run makes the file of an undisturbed one, and nothing else is left there."""
    ingest(kgs, folder / NAME, clean=load_cleaning_rules(rules), overwrite=True)
    assert tree(folder) == {NAME: good}


# Sources


def cut(path: Path) -> None:
    """Takes off the last third of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


BAD_SOURCES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda at: None, "at: No such file or directory"),
    "empty folder": (Path.mkdir, "at: no game records and no archives in this directory"),
    "no archive": (lambda at: at.write_text("nothing here"), "at: neither an archive nor a game record"),
    "empty file": (Path.touch, "at: the file is empty"),
    "cut off": (lambda at: cut(archive(at, records(1))), ".tar.gz: the compressed data ends too early"),
    "cut off, too": (lambda at: cut(archive(at, records(40), kind="zip")), ".zip: "),
    "a broken catalogue": (lambda at: at.write_bytes(b"PAR1" + bytes(50)), "at is not a catalogue: "),
    "no file to read": (lambda at: at.symlink_to("/proc/self/mem"), "at: Input/output error"),
}


@pytest.mark.parametrize("name", BAD_SOURCES)
def test_bad_source_leaves_the_old_file(kgs: Path, tmp_path: Path, rules: str, name: str) -> None:
    make, said = BAD_SOURCES[name]
    make(tmp_path / "at")
    for before in ({}, {NAME: old()}):
        into = tmp_path / str(len(before))
        into.mkdir()
        for file, data in before.items():
            (into / file).write_bytes(data)
        options = ("--clean", rules, "--overwrite", "--strict", "--quiet")
        is_error(run("ingest", kgs, tmp_path / "at", kgs, "-o", into / NAME, *options), said)
        assert tree(into) == before
    done = run("ingest", tmp_path / "at", "-o", tmp_path / "out" / NAME, "--clean", rules, "--quiet")
    assert done.code == 2
    assert said in done.err[-1]
    assert tree(tmp_path / "out") == {}


# The file


# From outside, in processes of their own


def start(into: Path, rules: str, *sources: Path, pause: float, jobs: int = 2) -> Any:
    """Start a slow ingest, as a context that ends within two minutes."""
    words = ["ingest", into / NAME, pause, jobs, rules, *sources]
    command = [sys.executable, str(HERE / "support" / "slow_writer.py"), *map(str, words)]
    return limited(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))


def wait(process: Any, steps: int) -> None:
    """Until so many batches are about to be written."""
    for _ in range(steps):
        assert process.stdout.readline() == "writing\n"


# Six batches are written first; of "training", fifteen more in the second pass.
STEPS = {"legal": (2,), "training": (2, 9)}


@pytest.mark.subprocess
def test_kill_9(kgs: Path, rules: str, good: bytes, tmp_path: Path) -> None:
    """In either pass."""
    for steps in STEPS[rules]:
        into = tmp_path / str(steps)
        into.mkdir()
        (into / NAME).write_bytes(old())
        with start(into, rules, kgs, pause=0.1) as process:
            wait(process, steps)
            process.kill()
        left = tree(into)
        assert left.pop(NAME) == old()
        assert left
        assert all(name.startswith(".") for name in left), "it was killed within a file"
        mended(kgs, into, rules, good)


@pytest.mark.subprocess
@pytest.mark.slow
def test_leftovers_of_a_killed_run_are_removed_by_runs_with_other_rules(kgs: Path, tmp_path: Path) -> None:
    with start(tmp_path, "training", kgs, pause=0.1) as process:
        wait(process, STEPS["training"][-1])
        process.kill()
    assert f".{NAME}.first" in tree(tmp_path)
    for name in (f"..{NAME}.first.part", f".{NAME}.rest", f"..{NAME}.rest.part"):
        (tmp_path / name).write_bytes(b"left")
    ingest(kgs, tmp_path / NAME, clean=load_cleaning_rules("legal"), overwrite=True)
    assert tree(tmp_path).keys() == {NAME}


@pytest.mark.subprocess
@pytest.mark.slow
def test_two_runs_at_once(kgs: Path, rules: str, good: bytes, tmp_path: Path) -> None:
    """One says that the other is at it, and does not disturb it, whatever that one does at the moment."""
    for steps in STEPS[rules]:
        into = tmp_path / str(steps)
        with start(into, rules, kgs, pause=0.1) as process:
            wait(process, steps)
            with pytest.raises(OutputError, match=r"games.parquet is being written by another process$"):
                ingest(next(kgs.iterdir()), into / NAME, clean=load_cleaning_rules(rules), overwrite=True)
            assert (process.communicate()[1], process.returncode) == ("", 0)
        assert tree(into) == {NAME: good}
