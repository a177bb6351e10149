"""How far long work has come: a bar on a terminal, plain lines elsewhere, both on standard error.

    with progress("building kgsgo-test-v2.dat", total=100, unit="games") as bar:
        bar.advance(7)

All methods may be called from any thread.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

_EVERY = 5.0
"""Seconds between two plain lines."""


class Subtask(Protocol):
    """One piece of the work, that has its own count while it lasts: a file of many, say."""

    def restart(self, done: int, total: int | None) -> None:
        """From now on, `done` of `total` (None: unknown) are done."""

    def advance(self, n: int = 1) -> None:
        """`n` more are done."""


class Progress(Protocol):
    """The whole of the work."""

    def advance(self, n: int = 1) -> None:
        """`n` more are done."""

    def say(self, line: str) -> None:
        """One line for the user, now."""

    def note(self, text: str) -> None:
        """What stands behind the count from now on."""

    def part(self, label: str, unit: str) -> AbstractContextManager[Subtask]:
        """A piece of the work, with a bar of its own on a terminal."""


class ProgressFactory(Protocol):
    """What `progress` and `silent` have in common, for functions that take either."""

    def __call__(self, label: str, total: int | None, unit: str) -> AbstractContextManager[Progress]: ...


def progress(label: str, total: int | None, unit: str) -> AbstractContextManager[Progress]:
    """Shows work that is done when `total` (None: unknown) of `unit` are; "bytes" are shown as kB, MB and GB."""
    on_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return _rich_bar(label, total, unit) if on_terminal else _plain_bar(label, total, unit)


def silent(label: str, total: int | None, unit: str) -> AbstractContextManager[Progress]:
    """Shows nothing."""
    return _silence()


def format_bytes(n: int) -> str:
    """3900000 -> "3.9 MB"."""
    if n < 1000:
        return f"{n} bytes"
    size, units = n / 1000, iter(("kB", "MB", "GB"))
    unit = next(units)
    while size >= 999.95 and unit != "GB":
        size, unit = size / 1000, next(units)
    return f"{size:,.1f} {unit}"


def format_drops(drops: Mapping[str, int]) -> str:
    """Return counts of dropped games for a sum: {"TOO_SHORT": 3} -> " + 3 too short"."""
    return "".join(f" + {count:,} {reason.lower().replace('_', ' ')}" for reason, count in drops.items())


def format_seconds(seconds: float) -> str:
    """2.345 -> "2.3 s", 75.2 -> "75 s", 200 -> "3 min 20 s"."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if round(seconds) < 120:
        return f"{seconds:.0f} s"
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s"


class _Count:
    """How many of how many."""

    def __init__(self, total: int | None, unit: str) -> None:
        self.done, self.total, self.unit = 0, total, unit

    def __str__(self) -> str:
        if self.unit == "bytes":
            done = format_bytes(self.done)
            return done if self.total is None else f"{done} of {format_bytes(self.total)}"
        done = f"{self.done:,}"
        return f"{done} {self.unit}" if self.total is None else f"{done} of {self.total:,} {self.unit}"


class _Silence:
    def restart(self, done: int, total: int | None) -> None:
        pass

    def advance(self, n: int = 1) -> None:
        pass

    def say(self, line: str) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def part(self, label: str, unit: str) -> AbstractContextManager[Subtask]:
        return _silence()


@contextmanager
def _silence() -> Iterator[_Silence]:
    yield _Silence()


class _PlainBar:
    """A line at the start, one every few seconds, and one at the end, unless the work fails."""

    def __init__(self, label: str, total: int | None, unit: str) -> None:
        self._label, self._count = label, _Count(total, unit)
        self._parts: list[_PlainPart] = []
        self._note = ""
        self._began = self._said = time.monotonic()
        self._lock = threading.Lock()
        self._print(f"{label}: {self._count}" if total is not None else f"{label} ...")

    def advance(self, n: int = 1) -> None:
        self.count(self._count, n)

    def count(self, count: _Count, n: int) -> None:
        """Counts, for the bar itself or one of its parts, and prints a line if it is time for one."""
        with self._lock:
            count.done += n
            now = time.monotonic()
            if now - self._said >= _EVERY:
                self._said = now
                parts = "".join(f"; {part.label}: {part.counted}" for part in self._parts)
                after = format_seconds(now - self._began)
                self._print(f"{self._label}: {self._count} after {after}{parts}{self._note}")

    def say(self, line: str) -> None:
        with self._lock:
            self._print(line)

    def note(self, text: str) -> None:
        self._note = f"; {text}"

    @contextmanager
    def part(self, label: str, unit: str) -> Iterator[Subtask]:
        part = _PlainPart(self, label, unit)
        with self._lock:
            self._parts.append(part)
        try:
            yield part
        finally:
            with self._lock:
                self._parts.remove(part)

    def finish(self) -> None:
        self.say(f"{self._label}: {self._count} in {format_seconds(time.monotonic() - self._began)}")

    def _print(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class _PlainPart:
    """Seen only in the lines of its bar."""

    def __init__(self, bar: _PlainBar, label: str, unit: str) -> None:
        self._bar, self.label, self.counted = bar, label, _Count(None, unit)

    def restart(self, done: int, total: int | None) -> None:
        self.counted.done, self.counted.total = done, total

    def advance(self, n: int = 1) -> None:
        self._bar.count(self.counted, n)


@contextmanager
def _plain_bar(label: str, total: int | None, unit: str) -> Iterator[Progress]:
    bar = _PlainBar(label, total, unit)
    yield bar
    bar.finish()


class _RichPart:
    """One bar of a rich display."""

    def __init__(self, display: RichProgress, label: str, total: int | None, unit: str) -> None:
        self._display, self._count, self._lock = display, _Count(total, unit), threading.Lock()
        self._note = ""
        self.task = display.add_task(label, total=total, count=str(self._count))

    def restart(self, done: int, total: int | None) -> None:
        with self._lock:
            self._count.done, self._count.total = done, total
            self._show()

    def advance(self, n: int = 1) -> None:
        with self._lock:
            self._count.done += n
            self._show()

    def _show(self) -> None:
        count = self._count
        self._display.update(self.task, completed=count.done, total=count.total, count=f"{count}{self._note}")


class _RichBar(_RichPart):
    """The first bar of a rich display; the parts stand below it while they last."""

    def say(self, line: str) -> None:
        self._display.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        self._note = f"  {text}"

    @contextmanager
    def part(self, label: str, unit: str) -> Iterator[Subtask]:
        part = _RichPart(self._display, label, None, unit)
        try:
            yield part
        finally:
            self._display.remove_task(part.task)


@contextmanager
def _rich_bar(label: str, total: int | None, unit: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    # Rich sends standard output through its own console, here standard error; only right if both are the terminal.
    with RichProgress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[count]}", markup=False),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=Console(stderr=True),
        redirect_stdout=sys.stdout.isatty(),
    ) as display:
        yield _RichBar(display, label, total, unit)
