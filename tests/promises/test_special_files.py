"""Paths that are no regular files: one line, exit code 2, at once."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from commands import run
from kgs_archives import archive, records

COMMANDS = [
    "ingest {any} -o {out}/games.parquet",
    "ingest {games} -o {out}/games.parquet --clean {toml}",
    "convert {any} -o {out}/games.olf",
    "show {any}",
    "stats {parquet}",
    "query {sql} {parquet}",
    "split {parquet} -o {out}/sets",
    "split {games} -o {out}/sets --by {toml}",
    "ingest --compact -o {any}",
    "search {any} X",
    "build agz17 {any} -o {out}/data",
    "build {toml} {games} -o {out}/data",
    "build kgsgo-v2 {games} -o {out}/data --index {any}",
    "ingest {any} -o {out}/games.parquet --dry-run",
    "train quick-cpu {parquet} -o {out}/run",
    "train {toml} {games} -o {out}/run",
    "evaluate small {any}",
    "evaluate {any} --set all",
    "evaluate --compare {any}",
    "predict --net small {any}",
    "match small small -o {out}/match --openings {parquet}",
    "fetch kgs --all --index {any} -o {out}/kgs",
]


def special(folder: Path, kind: str) -> Path:
    path = folder / "special"
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.relpath(path))
    else:
        path = Path(kind)
    return path


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archive(tmp_path_factory.mktemp("games"), records(3), year=2001)


def arguments(command: str, folder: Path, path: Path | str, games: Path) -> list[str]:
    """Return the arguments of a command, in which links to the path have the names that the command expects."""
    values = {"any": str(path), "games": str(games), "out": str(folder / "out"), "sql": "select 1"}
    for name in ("parquet", "toml", "net"):
        values[name] = str(path)
        if path and name in command:
            link = folder / f"a.{'safetensors' if name == 'net' else name}"
            link.symlink_to(path)
            values[name] = str(link)
    return [part.format(**values) for part in command.split(" ")]


@pytest.mark.parametrize("kind", ["FIFO", "socket", "/dev/zero", "/dev/full"])
@pytest.mark.parametrize("command", COMMANDS)
def test_special_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, games: Path, command: str, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with time_limit(120):  # kernels may have to be compiled
        done = run(*arguments(command, tmp_path, special(tmp_path, kind), games))
    assert (done.code, len(done.err), done.out) == (2, 1, "")
    assert not [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert "unexpected" not in done.err[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_empty_paths_are_refused(tmp_path: Path, games: Path, command: str) -> None:
    done = run(*arguments(command, tmp_path, "", games))
    assert (done.code, done.err) == (2, ["kifu: an argument is empty: a path or value has at least one character"])


def test_lack_of_memory_is_one_line(tmp_path: Path, games: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 256. MiB")

    monkeypatch.setattr("kifu.corpus.ingest.parse_block", fail)
    done = run("ingest", games, "-o", tmp_path / "games.parquet", "--jobs", "1", "-q")
    assert (done.code, done.err) == (
        2,
        ["kifu: out of memory (Unable to allocate 256. MiB); a smaller --jobs takes less"],
    )
    assert list(tmp_path.iterdir()) == []
