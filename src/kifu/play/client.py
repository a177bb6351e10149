"""Other Go programs, spoken to by GTP over their standard input and output, and never trusted.

    with Program(parse_command("gnugo --mode gtp")) as gnugo:
        gnugo.ask("boardsize 19", seconds=10)
        gnugo.ask("genmove b", seconds=60)          "Q16"

GTP is version 2 as Gunnar Farnebäck wrote it down (https://www.lysator.liu.se/~gunnar/gtp/): an answer is "=" or "?",
text, and an empty line. One thread does all: it writes, reads both outputs, and looks at the clock, so that nothing is
read that nobody waits for, and a program that floods is stopped by its own full pipe.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal

from kifu.errors import KifuError, RecipeError
from kifu.learn import SUFFIX

Fault = Literal["crash", "time", "nonsense", "refusal"]
"""crash: it ended, or closed its output.  time: no whole answer in time.  nonsense: bytes that are no GTP answer.
refusal: "?", an answer that the command failed."""

ANSWER_LIMIT = 1 << 16
"""Bytes of one answer."""

_LINE = 1000
"""Bytes without a line feed, or a "=" before them, that are enough to know that no answer comes."""

LOG_LIMIT = 1 << 18
"""Bytes of standard error that are kept, the last ones."""

_TICK = 0.1
"""Seconds after which a wait looks whether the program still lives, and whether it is still wanted."""

_GRACE = 1.0
"""Seconds to end by itself after "quit"."""

_MORE_PATHS = ("/usr/games",)
"""Where Debian puts GNU Go and Pachi, which not every user has in PATH."""

_CONTROLS = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
"""What GTP says to drop: control characters but for tab and line feed."""


class ProgramFault(KifuError):
    """A program that does not do as GTP asks. fault: see `Fault`."""

    def __init__(self, fault: Fault, reason: str) -> None:
        self.fault, self.reason = fault, reason
        super().__init__(reason)


class Cancelled(KifuError):
    """The work is to end: nobody waits for the answer any more."""


def parse_command(text: str, rules: str = "chinese") -> list[str]:
    """The program and its arguments. Raises RecipeError if the text is no command line, or the program not found.

    A checkpoint alone, a folder or a .safetensors file, stands for `kifu gtp CHECKPOINT --rules RULES` by this Python.
    """
    if not text.isprintable():  # it will be, and stand in JSON
        raise RecipeError(f"{text!r} is no command line: it is not one line of printable letters")
    net = [sys.executable, "-m", "kifu.cli", "gtp", text, "--rules", rules]
    if _is_net(text):
        return net
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise RecipeError(f"{text!r} is no command line: {error}") from None
    if len(words) == 1 and text.endswith(SUFFIX):  # which is not there, as it will say itself
        return net
    if not words:
        raise RecipeError('a program is a command line, like "gnugo --mode gtp", or a checkpoint; this one is empty')
    found = find_program(words[0])
    if found is None:
        raise RecipeError(f"no program {words[0]!r}: it is neither a file nor in PATH")
    return [found, *words[1:]]


def _is_net(text: str) -> bool:
    path = Path(text)
    try:
        return bool(text.strip()) and (path.is_dir() or (path.suffix == SUFFIX and path.is_file()))
    except OSError:  # too long for a name, say
        return False


def find_program(name: str) -> str | None:
    """The path of a program, looked for in PATH and where distributions put games."""
    if name == "kifu":  # the one that is running
        beside = Path(sys.executable).with_name("kifu")
        if beside.is_file():
            return str(beside)
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), *_MORE_PATHS])
    return shutil.which(name, path=places)


class GtpProcess:
    """A GTP program that runs. Leaving it as a context manager ends it and all that it started.

    It is the leader of a process group of its own, so Ctrl-C does not reach it: it ends when it is closed.
    """

    def __init__(self, command: Sequence[str], stop: threading.Event | None = None) -> None:
        """command: as `parse_command` gives it. stop: when it is set, any `ask` raises Stopped.

        Raises ProgramFault if the program cannot be started.
        """
        self._stop = stop or threading.Event()
        self._read, self._log, self._unsent = bytearray(), bytearray(), b""
        self._failed = self._killed = self._closed = False
        try:
            self._process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ProgramFault("crash", f"it cannot be started: {getattr(error, 'strerror', None) or error}") from None
        self._selector = selectors.DefaultSelector()
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._in, self._out, self._err = (
            pipe.fileno() for pipe in (self._process.stdin, self._process.stdout, self._process.stderr)
        )
        for pipe in (self._in, self._out, self._err):
            os.set_blocking(pipe, False)
        self._open = {self._out, self._err}
        for pipe in self._open:
            self._selector.register(pipe, selectors.EVENT_READ)

    @property
    def log(self) -> bytes:
        """What it wrote to standard error, the last LOG_LIMIT bytes."""
        return bytes(self._log)

    def ask(self, command: str, seconds: float) -> str:
        """The answer to a command, without its "=". Raises ProgramFault, and Stopped.

        seconds: until the answer must be whole.
        """
        self._refuse_unasked()
        deadline = time.monotonic() + seconds
        self._unsent = f"{command}\n".encode()
        self._selector.register(self._in, selectors.EVENT_WRITE)
        try:
            while (answer := self._answer()) is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    begun = f" (it began with {shown(bytes(self._read))})" if self._read.strip() else ""
                    self._fail("time", f"no answer to {command!r} within {seconds:g} s{begun}")
                self._wait(min(left, _TICK))
        finally:
            with contextlib.suppress(KeyError):  # all of the command was sent
                self._selector.unregister(self._in)
        good, text = answer
        if not good:
            raise ProgramFault("refusal", f"it refused {command!r}: {shown(text.encode())}")
        return text

    def close(self) -> None:
        """Ends it: by "quit" if it can be trusted to listen, and then by force, with all that it started."""
        if self._closed:
            return
        self._closed = True
        try:
            if not (self._failed or self._stop.is_set()):
                self._quit()
        finally:
            self._kill()
            if self._err in self._open:
                self._take(self._err)
            self._selector.close()
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                with contextlib.suppress(OSError):
                    assert pipe is not None
                    pipe.close()

    def __enter__(self) -> GtpProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _quit(self) -> None:
        """Asks it to end, and waits a moment until it closes its output."""
        deadline = time.monotonic() + _GRACE
        with contextlib.suppress(OSError):
            os.write(self._in, b"quit\n")
        while self._out in self._open and time.monotonic() < deadline and not self._stop.is_set():
            for key, _ in self._selector.select(_TICK):
                self._take(key.fd)
            self._read.clear()

    def _kill(self) -> None:
        """Ends its whole group. It is reaped only after that, or just before: its number is nobody else's yet."""
        if not self._killed:
            self._killed = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _wait(self, seconds: float) -> None:
        """Sends and takes what can be sent and taken by then."""
        if self._stop.is_set():
            raise Cancelled("stopped")
        for key, _ in self._selector.select(seconds):
            if key.fd == self._in:
                self._send()
            else:
                self._take(key.fd)
        if self._out not in self._open and self._read.find(b"\n\n") < 0:
            self._fail_ended()

    def _send(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self._in, self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # it is gone, as its output will tell
            self._unsent = b""
        if not self._unsent:
            self._selector.unregister(self._in)

    def _take(self, pipe: int) -> None:
        """Reads what is there, one buffer at most."""
        try:
            data = os.read(pipe, ANSWER_LIMIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._open.discard(pipe)
            self._selector.unregister(pipe)
        elif pipe == self._err:
            self._log += data
            del self._log[:-LOG_LIMIT]
        else:
            self._read += _CONTROLS.sub(b"", data)

    def _answer(self) -> tuple[bool, str] | None:
        """The first answer of what was read, and whether it is "="; None if it is not whole yet."""
        self._read = self._read.lstrip(b"\n\t ")
        end = self._read.find(b"\n\n")
        begun = end >= 0 or self._read.find(b"\n") >= 0 or len(self._read) > _LINE
        if begun and not self._read.startswith((b"=", b"?")):
            self._fail("nonsense", f"it wrote {shown(bytes(self._read))}, which is no GTP answer")
        if max(end, len(self._read) if end < 0 else 0) > ANSWER_LIMIT:
            self._fail("nonsense", f"it wrote an answer of more than {ANSWER_LIMIT:,} bytes")
        if end < 0:
            return None
        answer = bytes(self._read[:end])
        del self._read[: end + 2]
        return answer[:1] == b"=", answer[1:].decode("utf-8", "replace").strip()

    def _refuse_unasked(self) -> None:
        """An answer that nobody asked for would be taken for the next one."""
        if self._out in self._open:
            self._take(self._out)
        if self._read.strip():
            self._fail("nonsense", f"it wrote {shown(bytes(self._read))} unasked")

    def _fail_ended(self) -> None:
        try:
            code = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            how = "it closed its output"
        else:
            how = f"it ended with exit code {code}" if code >= 0 else f"it was killed: {signal.strsignal(-code)}"
        self._kill()
        if self._err in self._open:
            self._take(self._err)
        last = bytes(self._log).strip().rpartition(b"\n")[2]
        self._fail("crash", f"{how}: {shown(last, quote=False)}" if last else how)

    def _fail(self, fault: Fault, reason: str) -> None:
        self._failed = True
        raise ProgramFault(fault, reason)


def shown(data: bytes, quote: bool = True) -> str:
    """What a program wrote, for a message: its first line, in printable letters, cut."""
    line = data.strip().partition(b"\n")[0].decode("utf-8", "replace")
    line = "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
    if len(line) > 100:
        line = line[:97] + "..."
    return repr(line) if quote else line
