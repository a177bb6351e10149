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
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from kifu.cli import main

KIFU = Path(sys.executable).with_name("kifu")
"""The installed command."""

_LOG = logging.getLogger("kifu")

_PLAIN = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}


@dataclass(frozen=True)
class Done:
    """The outcome of a command. err: lines on standard error, without the notice about compilation."""

    code: int
    out: str
    err: list[str]


def _lines(err: str) -> list[str]:
    return [line for line in err.splitlines() if not line.startswith("kifu: compiling its kernels")]


def run(*arguments: object) -> Done:
    """Runs a command in this process, and restores the log, whose level depends on --quiet and --verbose."""
    out, err, code = io.StringIO(), io.StringIO(), 0
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
    return Done(code, out.getvalue(), _lines(err.getvalue()))


def start(*arguments: object, stdout: int = subprocess.PIPE, **environment: str) -> subprocess.Popen[str]:
    """Starts a command as a process of its own."""
    return subprocess.Popen(
        [KIFU, *map(str, arguments)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | _PLAIN | environment,
    )


def first_line(process: subprocess.Popen[str], seconds: float = 60) -> str:
    """Return the first line that a command prints. A command that prints nothing for too long is killed and fails."""
    assert process.stdout is not None
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        line = process.stdout.readline()
    finally:
        timer.cancel()
    assert line, f"no line within {seconds} s: {finish(process, 10)}"
    return line


def finish(process: subprocess.Popen[str], seconds: float = 120) -> Done:
    """Wait for the end of a command; kill it after so many seconds."""
    with process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()  # or the end of the context waits forever
            raise
    return Done(process.returncode, out or "", _lines(err))


def on_terminal(columns: int, *arguments: str) -> list[str]:
    """Return the lines that a command prints on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    process = subprocess.Popen([KIFU, *arguments], stdout=theirs, env=environment | {"TERM": "xterm", "NO_COLOR": "1"})
    os.close(theirs)
    killer = threading.Timer(120, process.kill)
    killer.start()
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
    os.close(ours)
    killer.cancel()
    assert process.wait(120) == 0, f"{arguments} failed, or ran longer than 120 s"
    return re.sub(r"\x1b\[[\d;]*m", "", shown.decode()).splitlines()
