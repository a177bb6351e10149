"""External programs that are not trusted: they are started, written to, read within limits, and killed.

One thread writes, reads both outputs and watches the clock. Output is read only while it is awaited, so a program that
floods its output blocks on its own full pipe.
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
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NoReturn, Self

from kifu.errors import KifuError, RecipeError, printable

Fault = Literal["crash", "time", "nonsense", "refusal"]
"""crash: the program exited or closed its output.  time: no complete response in time.  nonsense: output that violates
the protocol.  refusal: the program reported an error."""

LOG_LIMIT = 1 << 18
"""Bytes kept from the end of standard error."""

_READ_SIZE = 1 << 16
"""Maximum bytes that are read at once."""

POLL_S = 0.1
"""Interval at which a wait checks for cancellation."""

_EXIT_TIMEOUT_S = 1.0
"""Time to exit after the quit command."""

_CONTROLS = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
"""Control characters except tab and line feed, which GTP discards."""

_EXTRA_PATHS = ("/usr/games",)
"""Debian's directory of GNU Go and Pachi, which is not on every user's PATH."""


class ProcessError(KifuError):
    """A program that violated its protocol, failed or timed out; in the reason, "it" is the program."""

    def __init__(self, fault: Fault, reason: str) -> None:
        self.fault, self.reason = fault, reason
        super().__init__(reason)


def split_command(text: str, expected: str) -> list[str]:
    """Return the program and arguments of a command line; `expected` says what an empty one should have been.

    Raises RecipeError if the text is not a command line, or the program was not found.
    """
    if not text.isprintable():  # the text is printed and stored as JSON
        raise RecipeError(f"not a command line: {text!r} has unprintable characters")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise RecipeError(f"not a command line: {text!r}: {error}") from None
    if not words:
        raise RecipeError(f"the command line is empty; expected {expected}")
    program = find_program(words[0])
    if program is None:
        raise RecipeError(f"program not found: {words[0]!r} is neither a file nor on PATH")
    return [program, *words[1:]]


def find_program(name: str) -> str | None:
    """Return the path of a program on PATH or among the distribution's games, or None."""
    if name == "kifu":  # prefer the running installation
        installed = Path(sys.executable).with_name("kifu")
        if installed.is_file():
            return str(installed)
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *_EXTRA_PATHS]))


def peak_memory() -> int:
    """Return the most bytes of memory that this process has used; 0 on Windows."""
    if sys.platform == "win32":
        return 0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@contextlib.contextmanager
def limited_memory(size: int) -> Iterator[None]:
    """Limit the memory that this process allocates from now on to `size` bytes, on Linux."""
    if sys.platform != "linux":
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    limits = [limit for limit in (used + size, soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def limit_heaps() -> None:
    """Let all threads share two heaps, on Linux with glibc: one for each of many threads wastes memory in fragments."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(-8, 2)  # M_ARENA_MAX


class PipedProcess:
    """A running program and its pipes. As a context manager it kills the program and its children on exit.

    The program leads its own process group, so Ctrl-C in the terminal does not reach it. `received` holds its standard
    output without control characters, which GTP ignores; users remove what they consume. `failed` is True after `fail`.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """Start a program, see `split_command`. Raises ProcessError if it could not be started."""
        self.received, self._log, self._unsent = bytearray(), bytearray(), bytearray()
        self.failed = self._killed = self._closed = False
        if os.name == "nt":
            raise ProcessError("crash", "kifu cannot wait for the output of programs on Windows")
        try:
            self._process = subprocess.Popen(
                command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ProcessError("crash", f"it could not be started: {reason}") from None
        self._selector = selectors.DefaultSelector()
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, self._out, self._err = (pipe.fileno() for pipe in pipes if pipe is not None)
        for pipe in (self._in, self._out, self._err):
            if sys.platform != "win32":
                os.set_blocking(pipe, False)
        self._open = {self._out, self._err}
        for pipe in self._open:
            self._selector.register(pipe, selectors.EVENT_READ)

    @property
    def log(self) -> bytes:
        """The last LOG_LIMIT bytes of standard error."""
        return bytes(self._log)

    @property
    def output_open(self) -> bool:
        """True until the program has closed its standard output and all of it was read."""
        return self._out in self._open

    def send(self, data: bytes) -> None:
        """Write bytes to standard input during the next waits."""
        if not self._unsent:
            self._selector.register(self._in, selectors.EVENT_WRITE)
        self._unsent += data

    def unsend(self) -> None:
        """Discard what was not written yet."""
        if self._unsent:
            self._selector.unregister(self._in)
            self._unsent.clear()

    def wait(self, seconds: float) -> bool:
        """Write and read until something happens or the time is up; return False if nothing happened."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            if key.fd == self._in:
                self._send()
            else:
                self._read(key.fd)
        return bool(ready)

    def read_available(self) -> None:
        """Read from standard output without waiting, at most one buffer."""
        if self.output_open:
            self._read(self._out)

    def fail(self, fault: Fault, reason: str) -> NoReturn:
        """Mark the program as failed and raise ProcessError."""
        self.failed = True
        raise ProcessError(fault, reason)

    def fail_exited(self) -> NoReturn:
        """Raise ProcessError with the reason for which the program has closed its output."""
        try:
            code = self._process.wait(_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            how = "it closed its output"
        else:
            how = f"it exited with code {code}" if code >= 0 else f"it was killed: {signal.strsignal(-code)}"
        self._kill()
        if self._err in self._open:
            self._read(self._err)
        last = bytes(self._log).strip().rpartition(b"\n")[2]
        self.fail("crash", f"{how}: {excerpt(last, quote=False)}" if last else how)

    def close(self) -> None:
        """Send GTP's quit command unless the program has failed, then kill it and its children."""
        if self._closed:
            return
        self._closed = True
        try:
            if not self.failed:
                self._leave()
        finally:
            self._kill()
            if self._err in self._open:
                self._read(self._err)
            self._selector.close()
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                with contextlib.suppress(OSError):
                    assert pipe is not None
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _leave(self) -> None:
        """Write GTP's quit command, close standard input, and wait briefly for the program to close its output."""
        deadline = time.monotonic() + _EXIT_TIMEOUT_S
        self.unsend()
        with contextlib.suppress(OSError):
            os.write(self._in, b"quit\n")
            assert self._process.stdin is not None
            self._process.stdin.close()
        while self.output_open and time.monotonic() < deadline:
            for key, _ in self._selector.select(POLL_S):
                self._read(key.fd)
            self.received.clear()

    def _kill(self) -> None:
        """Kill the process group, then reap the process: until then its id cannot be reused."""
        if not self._killed:
            self._killed = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if sys.platform != "win32":
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _send(self) -> None:
        try:
            del self._unsent[: os.write(self._in, self._unsent)]
        except BlockingIOError:
            pass
        except OSError:  # the program has exited; its closed output reports it
            self._unsent.clear()
        if not self._unsent:
            self._selector.unregister(self._in)

    def _read(self, pipe: int) -> None:
        """Read at most one buffer of what is available."""
        try:
            data = os.read(pipe, _READ_SIZE)
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
            self.received += _CONTROLS.sub(b"", data)


def excerpt(output: bytes | bytearray | str, quote: bool = True) -> str:
    """Return the first line of a program's output for a message: printable, about 100 characters at most."""
    text = output if isinstance(output, str) else output.decode("utf-8", "replace")
    line = text.strip().partition("\n")[0]
    line = line if len(line) <= 100 else f"{line[:97]}..."
    return repr(line) if quote else printable(line)
