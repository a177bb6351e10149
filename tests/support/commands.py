"""Commands as a user gives them: in this process, which is quick, or in one of their own."""

import contextlib
import fcntl
import io
import logging
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from kifu.cli import app, main
from kifu.cli.app import Command

KIFU = Path(sys.executable).with_name("kifu")
"""The installed command."""

COMMANDS: dict[str, Command] = {name: app.get_command(None, name) for name in app.list_commands(None)}

_LOG = logging.getLogger("kifu")

_PLAIN = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}


@dataclass(frozen=True)
class Done:
    """The outcome of a command. err: lines on standard error, without the notice about compilation."""

    code: int
    out: str
    err: list[str]


def lines_of(done: Done) -> list[str]:
    assert (done.code, done.err) == (0, [])
    return done.out.splitlines()


def tree(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def is_error(done: Done, *words: str) -> None:
    """Check for one line on standard error (below those of progress), no traceback, nothing else, and exit code 2."""
    *begun, line = done.err
    assert (done.code, done.out) == (2, "")
    assert line.startswith("kifu: ")
    usual = ("building ", "searching: ", "indexing: ", "kifu: making ")
    assert all(each.startswith(usual) or ": about " in each for each in begun)
    assert len(line) < 400
    for word in words:
        assert word in line


def _lines(err: str) -> list[str]:
    return [line for line in err.splitlines() if not line.startswith("kifu: compiling its kernels")]


def run(*arguments: object) -> Done:
    """Runs a command in this process, and restores the log, whose level depends on --quiet and --verbose."""
    out, err, code = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", ["kifu", *map(str, arguments)]),
        mock.patch.dict(os.environ, _PLAIN),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code or 0
        finally:
            _LOG.handlers = []
            _LOG.setLevel(logging.NOTSET)
    return Done(code, out.buffer.getvalue().decode(), _lines(err.getvalue()))


def start(*arguments: object, stdout: int = subprocess.PIPE, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [KIFU, *map(str, arguments)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | _PLAIN | environment,
    )


@contextlib.contextmanager
def killed_after(seconds: float, process: subprocess.Popen[Any]) -> Iterator[None]:
    """Kill a process that runs longer than the context may take, so that reading its output ends."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextlib.contextmanager
def limited(process: subprocess.Popen[Any], seconds: float = 120) -> Iterator[subprocess.Popen[Any]]:
    """Close the pipes of a process at the end and wait for it; kill it after so many seconds."""
    with killed_after(seconds, process), process:
        yield process


def first_line(process: subprocess.Popen[str], seconds: float = 60) -> str:
    """Return the first line that a command prints. A command that prints nothing for too long is killed and fails."""
    with killed_after(seconds, process):
        line = process.stdout.readline()
    assert line, f"no line within {seconds} s: {finish(process, 10)}"
    return line


def finish(process: subprocess.Popen[str], seconds: float = 120) -> Done:
    with process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()  # or the end of the context waits forever
            raise
    return Done(process.returncode, out or "", _lines(err))


def wait_until(true: Callable[[], bool], process: subprocess.Popen[Any] | None = None) -> None:
    """Wait up to 60 s until a condition is true, while `process` runs."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        assert process is None or process.poll() is None, finish(process)
        time.sleep(0.01)


def on_terminal(columns: int, *arguments: str) -> list[str]:
    """Return the lines that a command prints on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    process = subprocess.Popen([KIFU, *arguments], stdout=theirs, env=environment | {"TERM": "xterm", "NO_COLOR": "1"})
    os.close(theirs)
    shown = b""
    with killed_after(120, process), contextlib.suppress(OSError):  # the other side is closed
        while True:
            shown += os.read(ours, 65536)
    os.close(ours)
    assert process.wait(120) == 0, f"{arguments} failed, or ran longer than 120 s"
    return re.sub(r"\x1b\[[\d;]*m", "", shown.decode()).splitlines()


def passed(arguments: list[str], timeout: float, **environment: str) -> int:
    """Run pytest in another environment, assert that no test fails, and return how many pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"KIFU_TEST_SECONDS": "inf"} | environment
    run = subprocess.run(
        command, cwd=Path(__file__).parents[2], env=environment, capture_output=True, text=True, timeout=timeout
    )
    reported = run.stdout + run.stderr
    assert run.returncode == 0, reported
    count = re.search(r"(\d+) passed", reported)
    assert count is not None, reported
    return int(count[1])
