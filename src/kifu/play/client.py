"""GTP client for external Go programs, which are not trusted.

    with GtpProcess(parse_command("gnugo --mode gtp")) as gnugo:
        gnugo.ask("boardsize 19", timeout=10)
        gnugo.ask("genmove b", timeout=60)          "Q16"

The protocol is GTP 2 (Gunnar Farnebäck, https://www.lysator.liu.se/~gunnar/gtp/): a response is "=" or "?", text, and
an empty line. One thread writes, reads both outputs and watches the clock. Output is read only while a response is
awaited, so a program that floods its output blocks on its own full pipe.
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

from kifu.errors import KifuError, RecipeError, printable
from kifu.learn import PACKAGED, SUFFIX

Fault = Literal["crash", "time", "nonsense", "refusal"]
"""crash: the program exited or closed its output.  time: no complete response in time.  nonsense: output that is not a
GTP response.  refusal: a "?" response."""

RESPONSE_LIMIT = 1 << 16
"""Maximum bytes of a response."""

_MAX_UNMARKED = 1000
"""Bytes without a line feed after which output that does not start with "=" or "?" is nonsense."""

LOG_LIMIT = 1 << 18
"""Bytes kept from the end of standard error."""

_POLL_S = 0.1
"""Interval at which a wait checks for cancellation."""

_EXIT_TIMEOUT_S = 1.0
"""Time to exit after "quit"."""

_EXTRA_PATHS = ("/usr/games",)
"""Debian's directory of GNU Go and Pachi, which is not on every user's PATH."""

_CONTROLS = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
"""Control characters except tab and line feed, which GTP discards."""


class GtpProcessError(KifuError):
    """A program that violated GTP, failed or timed out.

    Attributes:
        fault: Kind of failure, see `Fault`.
        reason: Description of the failure, with "it" for the program.
    """

    def __init__(self, fault: Fault, reason: str) -> None:
        self.fault, self.reason = fault, reason
        super().__init__(reason)


class MatchCancelledError(KifuError):
    """The match was cancelled while a response was awaited."""


def parse_command(text: str, rules: str = "chinese") -> list[str]:
    """Return the program and arguments of a command line.

    A net (a run directory, a .safetensors file, or "small", the packaged one) stands for `kifu gtp NET --rules RULES`.

    Raises:
        RecipeError: The text is not a command line, or the program was not found.
    """
    if not text.isprintable():  # the text is printed and stored as JSON
        raise RecipeError(f"not a command line: {text!r} has unprintable characters")
    net = [sys.executable, "-m", "kifu.cli", "gtp", text, "--rules", rules]
    if _is_net(text):
        return net
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise RecipeError(f"not a command line: {text!r}: {error}") from None
    if len(words) == 1 and text.endswith(SUFFIX):  # `kifu gtp` reports the missing file
        return net
    if not words:
        raise RecipeError('the command line is empty; expected a program such as "gnugo --mode gtp", or a net')
    program = find_program(words[0])
    if program is None:
        raise RecipeError(f"program not found: {words[0]!r} is neither a file nor on PATH")
    return [program, *words[1:]]


def _is_net(text: str) -> bool:
    path = Path(text)
    try:
        if not path.exists():
            return text == PACKAGED
        return bool(text.strip()) and (path.is_dir() or (path.suffix == SUFFIX and path.is_file()))
    except OSError:  # for example, the name is too long
        return False


def find_program(name: str) -> str | None:
    """Return the path of a program on PATH or among the distribution's games, or None."""
    if name == "kifu":  # prefer the running installation
        installed = Path(sys.executable).with_name("kifu")
        if installed.is_file():
            return str(installed)
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *_EXTRA_PATHS]))


class GtpProcess:
    """A running GTP program. As a context manager it kills the program and its children on exit.

    The program leads its own process group, so Ctrl-C in the terminal does not reach it.
    """

    def __init__(self, command: Sequence[str], stop: threading.Event | None = None) -> None:
        """Start a program.

        Args:
            command: Program and arguments, see `parse_command`.
            stop: Once set, `ask` raises Cancelled.

        Raises:
            ProgramFault: The program could not be started.
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
            raise GtpProcessError(
                "crash", f"it could not be started: {getattr(error, 'strerror', None) or error}"
            ) from None
        self._selector = selectors.DefaultSelector()
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, self._out, self._err = (pipe.fileno() for pipe in pipes if pipe is not None)
        for pipe in (self._in, self._out, self._err):
            os.set_blocking(pipe, False)
        self._open = {self._out, self._err}
        for pipe in self._open:
            self._selector.register(pipe, selectors.EVENT_READ)

    @property
    def log(self) -> bytes:
        """The last LOG_LIMIT bytes of standard error."""
        return bytes(self._log)

    def ask(self, command: str, timeout: float) -> str:
        """Send a command and return the text of its "=" response.

        Args:
            command: Command line without line feed.
            timeout: Seconds until the response must be complete.

        Raises:
            ProgramFault: The program failed, timed out or refused the command.
            Cancelled: `stop` was set.
        """
        self._reject_unsolicited()
        deadline = time.monotonic() + timeout
        self._unsent = f"{command}\n".encode()
        self._selector.register(self._in, selectors.EVENT_WRITE)
        try:
            while (response := self._pop_response()) is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    partial = f" (it began with {excerpt(self._read)})" if self._read.strip() else ""
                    self._fail("time", f"no response to {command!r} within {timeout:g} s{partial}")
                self._wait(min(left, _POLL_S))
        finally:
            with contextlib.suppress(KeyError):  # already unregistered once the command was sent
                self._selector.unregister(self._in)
        success, text = response
        if not success:
            raise GtpProcessError("refusal", f"it refused {command!r}: {excerpt(text)}")
        return text

    def close(self) -> None:
        """Send "quit" unless the program has failed, then kill it and its children."""
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
        """Send "quit" and wait briefly for the program to close its output."""
        deadline = time.monotonic() + _EXIT_TIMEOUT_S
        with contextlib.suppress(OSError):
            os.write(self._in, b"quit\n")
        while self._out in self._open and time.monotonic() < deadline and not self._stop.is_set():
            for key, _ in self._selector.select(_POLL_S):
                self._take(key.fd)
            self._read.clear()

    def _kill(self) -> None:
        """Kill the process group, then reap the process: until then its id cannot be reused."""
        if not self._killed:
            self._killed = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _wait(self, seconds: float) -> None:
        """Write and read until something happens or the time is up."""
        if self._stop.is_set():
            raise MatchCancelledError("cancelled")
        for key, _ in self._selector.select(seconds):
            if key.fd == self._in:
                self._send()
            else:
                self._take(key.fd)
        if self._out not in self._open and self._read.find(b"\n\n") < 0:
            self._fail_exited()

    def _send(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self._in, self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # the program has exited; its closed output reports it
            self._unsent = b""
        if not self._unsent:
            self._selector.unregister(self._in)

    def _take(self, pipe: int) -> None:
        """Read at most one buffer of what is available."""
        try:
            data = os.read(pipe, RESPONSE_LIMIT)
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

    def _pop_response(self) -> tuple[bool, str] | None:
        """Remove and return the first complete response as (success, text), or None."""
        self._read = self._read.lstrip(b"\n\t ")
        end = self._read.find(b"\n\n")
        has_line = end >= 0 or self._read.find(b"\n") >= 0 or len(self._read) > _MAX_UNMARKED
        if has_line and not self._read.startswith((b"=", b"?")):
            self._fail("nonsense", f"it wrote {excerpt(self._read)}, which is not a GTP response")
        if max(end, len(self._read) if end < 0 else 0) > RESPONSE_LIMIT:
            self._fail("nonsense", f"it wrote a response of more than {RESPONSE_LIMIT:,} bytes")
        if end < 0:
            return None
        response = bytes(self._read[:end])
        del self._read[: end + 2]
        return response[:1] == b"=", response[1:].decode("utf-8", "replace").strip()

    def _reject_unsolicited(self) -> None:
        """Fail if there is output already, since it would be mistaken for the next response."""
        if self._out in self._open:
            self._take(self._out)
        if self._read.strip():
            self._fail("nonsense", f"it wrote {excerpt(self._read)} unasked")

    def _fail_exited(self) -> None:
        try:
            code = self._process.wait(_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            how = "it closed its output"
        else:
            how = f"it exited with code {code}" if code >= 0 else f"it was killed: {signal.strsignal(-code)}"
        self._kill()
        if self._err in self._open:
            self._take(self._err)
        last = bytes(self._log).strip().rpartition(b"\n")[2]
        self._fail("crash", f"{how}: {excerpt(last, quote=False)}" if last else how)

    def _fail(self, fault: Fault, reason: str) -> None:
        self._failed = True
        raise GtpProcessError(fault, reason)


def excerpt(output: bytes | bytearray | str, quote: bool = True) -> str:
    """Return the first line of a program's output for a message: printable, about 100 characters at most."""
    text = output if isinstance(output, str) else output.decode("utf-8", "replace")
    line = text.strip().partition("\n")[0]
    line = line if len(line) <= 100 else f"{line[:97]}..."
    return repr(line) if quote else printable(line)
