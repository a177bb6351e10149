"""The Go Text Protocol, version 2: commands come as lines, each has one answer, and nothing else is written.

A thread of its own reads, so that an analysis, which goes on until something else is asked, notices when that is so.
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
from kifu.play.arguments import GtpError
from kifu.play.engine import Analysis, Answer, Engine

_LONGEST = 1 << 16
"""Bytes of a line; what is longer is cut there."""

_WAITING = 1000
"""Lines that are read ahead at most."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def lines(read: Callable[[int], bytes]) -> Iterator[str]:
    """The lines of a stream, without their ends. read: as many bytes as there are, up to so many; b"" at the end."""
    held = b""
    while data := read(_LONGEST):
        *whole, held = (held + data).split(b"\n")
        for line in whole:
            yield _decoded(line)
        held = held[:_LONGEST]
    if held:
        yield _decoded(held)


def _decoded(line: bytes) -> str:
    """Whatever the bytes are, they can be written back: as a file's name, say."""
    return line[:_LONGEST].decode("utf-8", "surrogateescape")


class LineReader:
    """The lines of a stream, read ahead by a thread."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        """read: see `lines`. It may be waiting for more when the program ends, so it must hold no lock."""
        self._queue: queue.Queue[str | None] = queue.Queue(_WAITING)
        self._next: list[str | None] = []
        Thread(target=self._fill, args=(read,), daemon=True).start()

    def _fill(self, read: Callable[[int], bytes]) -> None:
        with contextlib.suppress(OSError):  # no input, or a terminal that is gone: the end of it
            for line in lines(read):
                self._queue.put(line)
        self._queue.put(None)

    def take(self) -> str | None:
        """The next line; None at the end."""
        return self._next.pop() if self._next else self._queue.get()

    def wait(self, seconds: float | None) -> bool:
        """Waits until there is a line to take, or the end; at most so long. Returns whether there is."""
        if not self._next:
            try:
                self._next.append(self._queue.get(timeout=seconds))
            except queue.Empty:
                return False
        return True


def parse_command(line: str) -> tuple[str, str, list[str]] | None:
    """(id, name, arguments) of a line, the id being digits or ""; None if there is nothing in it but a comment.

    >>> parse_command("7 play\\tb D4 # a good move")
    ('7', 'play', ['b', 'D4'])
    """
    words = _CONTROL.sub("", line).replace("\t", " ").split("#", 1)[0].split(" ")
    words = [word for word in words if word]
    if not words:
        return None
    number = words.pop(0) if words[0].isascii() and words[0].isdigit() else ""
    return number, words[0] if words else "", words[1:]


def serve(engine: Engine, inbox: LineReader, write: Callable[[str], None]) -> None:
    """Answers every command until `quit` or the end of the input. write: sends a text on its way, all of it."""
    while (line := inbox.take()) is not None:
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
            write(f"={number}\n{answer.line}\n")
            while not inbox.wait(answer.seconds):
                write(f"{answer.line}\n")
            write("\n")
        else:
            space = "" if answer[:1] in ("", "\n") else " "
            write(f"={number}{space}{answer}\n\n")
        if name == "quit":
            return


def _run(engine: Engine, name: str, arguments: list[str]) -> Answer:
    """Raises KifuError only: a game goes on even if something breaks that should not."""
    try:
        return engine.run(name, arguments)
    except KifuError:
        raise
    except Exception as error:
        raise GtpError(f"internal error: {type(error).__name__}: {first_line(error)}") from None


def serve_stdio(engine: Engine) -> None:
    """Serves on standard input and output; Ctrl-C ends it as `quit` does."""
    out = sys.stdout.buffer

    def write(text: str) -> None:
        out.write(text.encode("utf-8", "replace"))
        out.flush()

    with contextlib.suppress(KeyboardInterrupt):
        serve(engine, LineReader(lambda size: os.read(0, size)), write)
