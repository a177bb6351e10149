"""Commands without a working directory, temporary files, home or streams, in hostile folders, and without a network."""

import hashlib
import os
import pickle
import re
import shlex
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from commands import COMMANDS, KIFU, Done, is_error, run
from kata_nets import small_net
from kgs_archives import archive, records
from kifu.compiler import _cache_folder
from kifu.katago.net_file import write_kata_net

NO_DIRECTORY = "kifu: the working directory cannot be used: No such file or directory"
NO_TMPDIR = "kifu: there is no folder for temporary files: set TMPDIR to one that is writable"


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("games")
    archive(folder, records(12, 1), year=2001)
    assert run("ingest", folder, "-o", folder / "games.parquet").code == 0
    return folder / "games.parquet"


@pytest.mark.parametrize("name", COMMANDS)
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
@pytest.mark.parametrize(
    "line", ["list recipes", "list nets", "show a.sgf", "ingest a.sgf -o games.parquet", "--version"]
)
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
        ("list recipes", 0), ("list formats", 0), ("show GAMES", 0), ("stats GAMES", 0),
        ("ingest GAMES -o new.parquet", 0), ("convert GAMES -o new.olf", 0), ("build agz17 GAMES -o new", 2),
        ("fetch sample -o new", 0), ("ingest GAMES -o new.parquet --dry-run", 2), ("split GAMES -o new", 2),
        ("query SELECT GAMES", 2), ("query SELECT GAMES -o new.csv", 2), ("audit GAMES GAMES", 2),
    ],
)  # fmt: skip
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
    command = [KIFU, "show", games, "--game", "1", "-q"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


CACHE = _cache_folder()


class Planted:
    def __reduce__(self):
        return os.mkdir, ("executed",)


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize("settings", [{}, {"NUMBA_CACHE_DIR": "."}, {"NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": "."}])
def test_files_of_the_working_directory_decide_nothing(settings: dict[str, str], games: Path, tmp_path: Path) -> None:
    """Modules, settings of libraries, compiled kernels, and folders that are called like packaged nets."""
    pytest.importorskip("yaml")  # without it, Numba has no file of settings
    for name in {*sys.stdlib_module_names, "kifu", "numba", "numpy", "pyarrow", "torch", "usercustomize", "yaml"}:
        (tmp_path / f"{name}.py").write_text("import os; os.mkdir('executed')")
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: .\ndisable_jit: 1\n")
    (tmp_path / "matplotlibrc").write_bytes(b"backend: module://evil\nunknown: \xff\n")
    for name in ("human", "small"):
        (tmp_path / name).mkdir()
    assert CACHE
    (tmp_path / "kifu").mkdir(mode=0o700)
    payload = pickle.dumps(Planted())
    for path in CACHE.glob("*.kernel"):
        digest = hashlib.blake2b(payload, digest_size=16).digest()
        (tmp_path / "kifu" / path.name).write_bytes(digest + payload)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for line in (
        "ingest GAMES -o /dev/null --dry-run",
        "predict GAMES --game 2 --move 5",
        "show GAMES -o /dev/stdout.svg",
    ):
        command = [KIFU, *line.replace("GAMES", str(games)).split()]
        done = subprocess.run(
            command, cwd=tmp_path, env=os.environ | settings, capture_output=True, check=False, timeout=120
        )
        assert b"evil" not in done.stderr
        assert done.returncode == 0 or b"/dev/stdout.svg" in done.stderr, done.stderr
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


_WATCH_DNS = """
import fcntl, socket, struct, subprocess, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trap:
    fcntl.ioctl(trap, 0x8914, struct.pack("16sH14x", b"lo", 0x49))  # bring the loopback interface up
    trap.bind(("127.0.0.1", 53))
    code = subprocess.run(["sh", "-ec", sys.argv[1]]).returncode
    trap.setblocking(False)
    try:
        sys.exit(f"asked a name server: {trap.recv(512)}")
    except BlockingIOError:
        sys.exit(code)
"""


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize(
    "lines",
    [
        ["show small", "predict sample --net small -o heat.png", "serve games.parquet --port 0"],
        ["match small small -o match --games 2 --board 9x9", "export small -o net.onnx"],
        ["stats games.parquet -o games.svg", "annotate sets/test.parquet -o moves.parquet --net small"],
        ["evaluate sets/test.parquet --positions 64 --html run.html", "query 'select 1' games.parquet"],
        ["train quick-cpu sets/train.parquet -o run --set steps=3 --set games=50"],
        ["mix sets/validation.parquet --net human --net small -o few.mix --positions 99"],
        [
            "query 'select * replace (false as black_program, false as white_program) from games' games.parquet"
            " -o people.parquet",
            "problems people.parquet --net net.bin.gz --where 'id % 16 = 0'",
        ],
    ],
    ids=lambda lines: lines[-1].partition(" ")[0],
)
def test_nothing_is_sent_or_written_elsewhere(lines: list[str], tmp_path: Path) -> None:
    """In a namespace whose name server is a trap. onnxruntime writes at once, and asks a name server within 12 s."""
    isolated = ["unshare", "--map-root-user", "--net", "--mount"]
    try:
        subprocess.run([*isolated, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs unshare and user namespaces")
    (tmp_path / "resolv").write_text("nameserver 127.0.0.1\n")
    for name in ("home", "tmp", "work"):
        (tmp_path / name).mkdir()
    assert run("fetch", "sample", "-o", tmp_path / "work" / "sample").code == 0
    write_kata_net(tmp_path / "work" / "net.bin.gz", small_net(["residual"]))
    lines = ["ingest sample -o games.parquet", "split games.parquet -o sets", *lines]
    script = "; ".join(f"timeout -s TERM {20 if 'serve' in line else 200} '{KIFU}' {line}" for line in lines)
    watched = shlex.join([sys.executable, "-c", _WATCH_DNS, f"{script} || test $? = 124"])
    environment = {
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "NUMBA_CACHE_DIR": str(CACHE.parent if CACHE else ""),
    }
    done = subprocess.run(
        [*isolated, "sh", "-ec", f"mount --bind '{tmp_path}/resolv' /etc/resolv.conf; exec {watched}"],
        cwd=tmp_path / "work", env=os.environ | environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    files = [path for name in ("home", "tmp") for path in (tmp_path / name).rglob("*") if path.is_file()]
    assert {path.parent for path in files} <= {tmp_path / "home" / ".cache" / "matplotlib"}, files


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("redirection", "code", "lines"),
    [
        (">&-", 0, 0), ("2>&-", 0, 2), ("<&- 2>/dev/full", 0, 2), ("<&- >&- 2>&-", 0, 0), ("| head -n 1", 0, 1),
        ("2>&1 | head -n 0", 0, 0), (">/dev/full", 2, 0),
    ],
)  # fmt: skip
def test_streams_that_are_closed_or_full(redirection: str, code: int, lines: int, games: Path) -> None:
    for arguments in (["list", "recipes"], ["query", "select * from kept", games], ["--help"]):
        line = f"set -o pipefail; {shlex.join(map(str, [KIFU, *arguments]))} {redirection}"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == code, done.stderr
        assert min(len(done.stdout.splitlines()), 2) == lines
        assert code == 0 or done.stderr.endswith("kifu: cannot write to standard output: No space left on device\n")


@pytest.mark.parametrize(
    "line", ["query '\udcff' G", "search G XO --player '\udcff'", "show G --move '\udcff'", "list nets '\udcff'"]
)
def test_arguments_that_are_no_text(line: str, games: Path) -> None:
    is_error(run(*(str(games) if word == "G" else word for word in shlex.split(line))), "'\\udcff'")


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("kifu bui", "build"),
        ("kifu build agz", "agz17"),
        ("kifu build agz17 x --format parq", "parquet"),
        ("kifu predict x --net hum", "human"),
        ("kifu stats --js", "--json"),
        ("kifu ingest --clean sch", "schraudolph"),
        ("kifu fetch sam", "sample"),
        ("kifu list rules sch", "schraudolph"),
        ("kifu list ran", "ranks"),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(line: str, completed: str, shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_KIFU_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", line.split()[-1] if shell == "fish" else str(line.count(" ")))
    done = run()
    items = done.out.replace("plain\n", "plain,") if shell == "zsh" else done.out
    assert done.code == 0
    assert re.findall(r"^plain,([^\t\n]*)", items, re.MULTILINE) == [completed]
