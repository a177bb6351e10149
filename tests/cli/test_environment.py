"""Commands without a working directory, without a folder for temporary files, or without a home."""

import os
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
import typer

from commands import KIFU, Done, run
from kgs_archives import archive, records
from kifu.cli import app

NO_DIRECTORY = "kifu: the working directory cannot be used: No such file or directory"
NO_TMPDIR = "kifu: there is no folder for temporary files: set TMPDIR to one that is writable"


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("games")
    archive(folder, records(12, 1), year=2001)
    assert run("ingest", folder, "-o", folder / "games.parquet").code == 0
    return folder / "games.parquet"


@pytest.mark.parametrize("name", typer.main.get_command(app).commands)  # type: ignore[attr-defined]
def test_a_removed_working_directory(name: str, games: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "removed"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    for arguments in ([], [games], [games, "-o", tmp_path / "new"], ["a", "b", "-o", "new"]):
        assert run(name, *arguments) == Done(2, "", [NO_DIRECTORY])
    assert run(name, "--help").code == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.subprocess
@pytest.mark.parametrize("line", ["recipes", "nets", "show a.sgf", "ingest a.sgf -o games.parquet", "--version"])
def test_a_removed_working_directory_of_a_process(line: str, tmp_path: Path) -> None:
    """Some libraries cannot be imported there, and torch ends the process."""
    script = f'cd "{tmp_path}" && mkdir d && cd d && rmdir ../d && exec "{KIFU}" {line}'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False, timeout=120)
    if line == "--version":
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert (done.returncode, done.stdout, done.stderr) == (2, "", NO_DIRECTORY + "\n")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("recipes", 0),
        ("formats", 0),
        ("show GAMES", 0),
        ("stats GAMES", 0),
        ("ingest GAMES -o new.parquet", 0),
        ("convert GAMES -o new.olf", 0),
        ("build agz17 GAMES -o new", 2),
        ("fetch sample -o new", 0),
        ("ingest GAMES -o new.parquet --dry-run", 2),
        ("split GAMES -o new", 2),
        ("query SELECT GAMES", 2),
        ("query SELECT GAMES -o new.csv", 2),
        ("audit GAMES GAMES", 2),
    ],
)
def test_no_folder_for_temporary_files(
    line: str, code: int, games: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/none"])
    names = {"GAMES": str(games), "SELECT": "select count(*) from games"}
    done = run(*(names.get(word, word) for word in line.split()))
    assert done.code == code, done.err
    if code:
        assert done.err[-1] == NO_TMPDIR
        assert not any("Traceback" in each for each in done.err)
        kept = [tmp_path / "new"] if line.startswith("build") else []  # its catalogue, which it reads next time
        assert list(tmp_path.iterdir()) == kept


@pytest.mark.parametrize("line", ["stats GAMES --json fifo.svg", "show GAMES -o fifo.svg"])
def test_outputs_into_a_fifo(line: str, games: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fifo = tmp_path / "fifo.svg"
    os.mkfifo(fifo)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(fifo.read_bytes()), daemon=True)
    reader.start()
    done = run(*line.replace("GAMES", str(games)).split())
    assert done.code == 0, done.err
    assert fifo.is_fifo()
    reader.join(120)
    assert not reader.is_alive(), "the reader has not ended in 120 s"
    assert received[0][:1] in (b"{", b"<")
    os.mkfifo(tmp_path / "other.olf")
    assert run("convert", games, "-o", "other.olf").err[-1] == "kifu: cannot write other.olf: not a regular file"
    assert (tmp_path / "other.olf").is_fifo()


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize("home", ["/proc/none", "/dev/null", ""])
def test_a_home_that_cannot_be_written(home: str, games: Path) -> None:
    """The kernels are kept elsewhere, or compiled anew."""
    environment = os.environ | {"HOME": home, "XDG_CACHE_HOME": home and f"{home}/cache"}
    done = subprocess.run(
        [KIFU, "show", games, "-q"], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
