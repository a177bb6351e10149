"""Go Text Protocol, version 2: commands arrive as lines, each gets one response, nothing else is written.

A reader thread queues the input, so that a running analysis notices the next command and stops.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import sys
from collections.abc import Callable, Iterator
from threading import Thread

from kifu.errors import KifuError, first_line
from kifu.play.engine import Analysis, Answer, Engine, GtpError

_MAX_LINE = 1 << 16
"""Bytes of a line; longer lines are truncated."""

_MAX_QUEUED = 1000
"""Lines that are read in advance."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def read_lines(read: Callable[[int], bytes]) -> Iterator[str]:
    """Yield the lines of a stream, without line feeds; `read` returns at most so many bytes, and b"" at the end."""
    rest = b""
    while data := read(_MAX_LINE):
        *complete, rest = (rest + data).split(b"\n")
        for line in complete:
            yield _decode(line)
        rest = rest[:_MAX_LINE]
    if rest:
        yield _decode(rest)


def _decode(line: bytes) -> str:
    """Decode a line reversibly: undecodable bytes of a file name survive."""
    return line[:_MAX_LINE].decode("utf-8", "surrogateescape")


class LineReader:
    """The lines of a stream, read in advance by a thread."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        """Start the thread. `read` is as in `read_lines`; it must hold no lock, since it may block at exit."""
        self._queue: queue.Queue[str | None] = queue.Queue(_MAX_QUEUED)
        self._next: list[str | None] = []
        Thread(target=self._fill, args=(read,), daemon=True).start()

    def _fill(self, read: Callable[[int], bytes]) -> None:
        with contextlib.suppress(OSError):  # closed input or a vanished terminal end the stream
            for line in read_lines(read):
                self._queue.put(line)
        self._queue.put(None)

    def take(self) -> str | None:
        """Return the next line, waiting for it; None at the end of the stream."""
        return self._next.pop() if self._next else self._queue.get()

    def wait(self, seconds: float | None) -> bool:
        """Wait up to `seconds` (None: forever) for a line or the end of the stream; return True if there is one."""
        if not self._next:
            try:
                self._next.append(self._queue.get(timeout=seconds))
            except queue.Empty:
                return False
        return True


def parse_command(line: str) -> tuple[str, str, list[str]] | None:
    r"""Return (id, name, arguments) of a command line, or None for an empty line or a comment.

    The id is a string of digits, or "".

    Examples:
        >>> parse_command("7 play\tb D4 # a good move")
        ('7', 'play', ['b', 'D4'])
    """
    words = _CONTROL.sub("", line).replace("\t", " ").split("#", 1)[0].split(" ")
    words = [word for word in words if word]
    if not words:
        return None
    number = words.pop(0) if words[0].isascii() and words[0].isdigit() else ""
    return number, words[0] if words else "", words[1:]


def serve(engine: Engine, reader: LineReader, write: Callable[[str], None]) -> None:
    """Respond to every command until `quit` or the end of the input."""
    while (line := reader.take()) is not None:
        command = parse_command(line)
        if command is None:
            continue
        number, name, arguments = command
        try:
            answer = _run(engine, name, arguments)
        except KifuError as error:
            write(f"?{number} {error}\n\n")
            continue
        if isinstance(answer, Analysis):
            write(f"={number}\n{next(answer.lines)}\n")
            while not reader.wait(answer.interval):
                write(f"{next(answer.lines)}\n")
            write("\n")
        else:
            space = "" if answer[:1] in ("", "\n") else " "
            write(f"={number}{space}{answer}\n\n")
        if name == "quit":
            return


def _run(engine: Engine, name: str, arguments: list[str]) -> Answer:
    """Run a command, turning unexpected exceptions into a GTP failure so that the game can continue."""
    try:
        return engine.run(name, arguments)
    except KifuError:
        raise
    except Exception as error:
        raise GtpError(f"internal error: {type(error).__name__}: {first_line(error)}") from None


def serve_stdio(engine: Engine) -> None:
    """Serve on standard input and output; Ctrl-C ends the engine like `quit`."""
    out = sys.stdout.buffer

    def write(text: str) -> None:
        out.write(text.encode("utf-8", "replace"))
        out.flush()

    with contextlib.suppress(KeyboardInterrupt):
        serve(engine, LineReader(lambda size: os.read(0, size)), write)
