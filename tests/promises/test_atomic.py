"""Outputs are whole or not there: full disks and Ctrl-C at any write, other numbers of threads, earlier outputs."""

import errno
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from commands import COMMANDS, Done, limited, run, tree
from kgs_archives import archive, records
from marks import slow


class Row(NamedTuple):
    """A command that writes `output` from {kgs}, archives, or {games}, a catalogue. resumes: whole parts are kept."""

    line: str
    output: str
    resumes: bool = False
    before: tuple[str, ...] = ()


BUILD = "-o out --set clean=legal --sets train"
ROWS = {
    "fetch": Row("fetch sample -o out", "out"),
    "show": Row("show {kgs} -o out.svg", "out.svg"),
    "stats": Row("stats {games} -o out.png", "out.png"),
    "ingest": Row("ingest {kgs} -o out.parquet", "out.parquet"),
    "ingest in two passes": Row("ingest {kgs} -o out.parquet --clean training --set min_moves=1", "out.parquet"),
    "ingest into a folder": Row("ingest {kgs} -o out", "out"),
    "ingest over another": Row(
        "ingest {games} -o out.parquet --overwrite", "out.parquet", before=("ingest {kgs} -o out.parquet",)
    ),
    "ingest --compact": Row("ingest --compact -o out", "out", before=("ingest {kgs} -o out", "ingest {games} -o out")),
    "convert to OLF": Row("convert {kgs} -o out.olf", "out.olf"),
    "convert to SGF": Row("convert {kgs} -o out.sgf.bz2", "out.sgf.bz2"),
    "convert to zip": Row("convert {kgs} -o out.zip", "out.zip"),
    "query": Row("query 'FROM games' {games} -o out.parquet", "out.parquet"),
    "split": Row("split {games} -o out", "out"),
    "split over another": Row(
        "split {games} -o out --set split.seed=3 --overwrite", "out", before=("split {games} -o out",)
    ),
    "publish": Row("publish {games} -o out", "out"),
    "annotate": Row("annotate {games} -o out.parquet --net small", "out.parquet", resumes=True),
    "predict": Row("predict {kgs} -o out.svg", "out.svg"),
    "evaluate": Row("evaluate {games} --net small --positions 20 --html out.html", "out.html"),
    "search": Row("search {games} Q16 R14 --no-index -o out.svg", "out.svg"),
    "explore": Row("explore {games} --no-index -o out.svg", "out.svg"),
    "show an example": Row(
        "show out/train --row 1 -o out.svg", "out.svg", before=(f"build book-seven {{games}} {BUILD}",)
    ),
    "build tokens": Row(f"build tokens {{games}} {BUILD}", "out", resumes=True),
    "build book-seven": Row(f"build book-seven {{games}} {BUILD}", "out", resumes=True),
    "build agz17": Row(f"build agz17 {{games}} {BUILD}", "out", resumes=True),
    "build katago": Row("build katago {games} -o out --sets train", "out", resumes=True),
    "build kgsgo-v2": Row("build kgsgo-v2 {kgs} -o out --sets test --set sets.test.games=5", "out", resumes=True),
    "build olf-archive": Row("build olf-archive {games} -o out", "out", resumes=True),
}
ELSEWHERE = {
    "train": "resumes from checkpoints, see learn/test_train.py",
    "match": "resumes, and plays between processes, see play/test_match.py",
    "export": "torch writes the file, see learn/test_export.py",
    "mix": "see learn/test_mix.py",
    "demo": "runs other commands",
}
RESUMES = "the same command resumes"
SLOW = ("annotate", "build agz17", "ingest --compact", "evaluate", "explore", "show an example", "query", "stats")
NAMES = [*(name for name in ROWS if name not in SLOW), *slow(*SLOW)]


def test_every_command_that_writes_has_a_row() -> None:
    writers = {name for name, command in COMMANDS.items() if any(each.name == "output" for each in command.params)}
    assert writers <= {name.split()[0] for name in ROWS} | ELSEWHERE.keys()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("inputs")
    for year in (2001, 2002):
        games = [game.replace(b"PB[", b"RE[B+R]RU[Japanese]KM[6.5]PB[") for game in records(12, year)]
        archive(folder / "kgs", games, year=year)
    assert run("ingest", folder / "kgs", "-o", folder / "games.parquet").code == 0
    return {"kgs": folder / "kgs", "games": folder / "games.parquet"}


class Case:
    def __init__(self, row: Row, inputs: dict[str, Path], folder: Path) -> None:
        self.row, self._inputs, self._folder = row, inputs, folder

    def fresh(self) -> dict[str, bytes]:
        """Empty the directory, run the commands before, and return its files."""
        for path in self._folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for line in self.row.before:
            assert self._run(line).code == 0
        return self.files()

    def _run(self, line: str, *options: object) -> Done:
        return run(*shlex.split(line.format(**self._inputs)), *options)

    def call(self, *options: object) -> Done:
        return self._run(self.row.line, *options)

    def files(self) -> dict[str, bytes]:
        return tree(self._folder)


@pytest.fixture(params=NAMES)
def case(
    request: pytest.FixtureRequest, inputs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Case:
    monkeypatch.chdir(tmp_path)
    return Case(ROWS[request.param], inputs, tmp_path)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_failures_at_any_write(case: Case, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier files stay, no partial output is left, and the next run gives the bytes of an undisturbed one."""
    write, left = os.write, [10**9]

    def failing(file: int, data: bytes) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise error
        return write(file, data)

    monkeypatch.setattr(os, "write", failing)
    case.fresh()
    left[0] = 10**9
    assert case.call().code == 0
    count, expected = 10**9 - left[0], case.files()
    assert count
    for last in sorted({0, count // 2, count - 1}):
        left[0] = 10**9
        before = case.fresh()
        left[0] = last
        done = case.call()
        left[0] = 10**9
        if isinstance(error, OSError):
            assert done.code == 2
            assert done.err[-1].startswith("kifu: cannot write ")
            assert done.err[-1].endswith(": No space left on device")
        else:
            assert done.code == 130
            assert done.err[-1] in [f"kifu: interrupted; {end}" for end in ("no partial output was left", RESUMES)]
        found = case.files()
        if not case.row.resumes:
            assert found == before
        visible = {name: data for name, data in found.items() if not re.search(r"(^|/)\.", name)}
        assert visible.items() <= (expected | before).items()
        assert case.call().code == 0
        assert case.files() == expected


def test_the_number_of_threads_changes_no_byte(case: Case) -> None:
    made = []
    for jobs in (1, 3):
        case.fresh()
        done = case.call("--jobs", jobs)
        if done.err and "unknown option --jobs" in done.err[-1]:
            pytest.skip("takes no --jobs")
        assert done.code == 0
        made.append(case.files())
    assert made[0] == made[1]


@pytest.mark.subprocess
@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("command", "said"), [("ingest {into}/a.parquet", "training"), ("build {into}", "test,trainall")]
)
def test_ctrl_c_in_a_process(tmp_path: Path, command: str, said: str, jobs: int) -> None:
    """said: the cleaning rules, or the sets."""
    for year in (2001, 2002):
        archive(tmp_path / "kgs", records(60, year, 100), year=year)

    def start(into: Path, pause: float) -> subprocess.Popen[str]:
        into.mkdir(exist_ok=True)
        words = [*command.format(into=into).split(), pause, jobs, said, tmp_path / "kgs"]
        script = Path(__file__).parents[1] / "support" / "slow_writer.py"
        return subprocess.Popen(
            [sys.executable, script, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    out, whole = tmp_path / "out", tmp_path / "whole"
    with limited(start(out, 0.1)) as process:
        process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        error = process.stderr.read()
    assert process.returncode not in (0, 2)
    assert error.rstrip().endswith("KeyboardInterrupt")
    assert not list(out.glob(".*")), "what was begun is removed"
    for into in (out, whole):
        with limited(start(into, 0)) as process:
            process.communicate()
        assert process.returncode == 0
    assert [(path.name, path.read_bytes()) for path in sorted(out.iterdir())] == [
        (path.name, path.read_bytes()) for path in sorted(whole.iterdir())
    ]
