"""Progress of long work: a rich display on a terminal, plain lines elsewhere, both on standard error.

    with progress("building kgsgo-test-v2.dat", total=100, unit="games") as bar:
        bar.advance(7)

All methods may be called from any thread.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Protocol, TextIO

from kifu.errors import printable
from kifu.text import format_bytes, format_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

_INTERVAL_S = 5.0
"""Seconds between two plain lines."""

_REMAINING_WINDOW_S = 30.0
"""Seconds over which the rate is measured that the remaining time is estimated from."""

_LONGEST_S = 100 * 3600
"""A longer remaining time is not shown."""

Note = str | Callable[[], str]
"""A text, or a function that returns it whenever it is shown."""


class Subtask(Protocol):
    """A part of the work with a separate count while it lasts, such as one file of many."""

    def restart(self, done: int, total: int | None) -> None:
        """Set the count to `done` of `total` (None: unknown)."""

    def advance(self, n: int = 1) -> None:
        """Add n to the count."""


class Progress(Protocol):
    """The progress of the whole work."""

    def advance(self, n: int = 1) -> None:
        """Add n to the count."""

    def log(self, line: str) -> None:
        """Print a line now."""

    def set_note(self, note: Note) -> None:
        """Show a text after the count from now on."""

    def subtask(self, label: str, unit: str) -> AbstractContextManager[Subtask]:
        """Begin a part of the work, with a separate bar on a terminal."""


class ProgressFactory(Protocol):
    """The signature of `progress` and `silent`, for functions that take either."""

    def __call__(self, label: str, total: int | None, unit: str) -> AbstractContextManager[Progress]:
        """Begin to show progress."""


def progress(label: str, total: int | None, unit: str, *, transient: bool = False) -> AbstractContextManager[Progress]:
    """Show the progress of some work on standard error.

    Args:
        total: The count at the end; None if it is unknown.
        unit: Unit of the count; "bytes" are shown as kB, MB and GB, and "s" are seconds that pass by themselves.
        transient: Remove the bar at the end. Plain lines are then printed only every few seconds.
    """
    on_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return (_rich_bar if on_terminal else _plain_bar)(label, total, unit, transient)


def silent(label: str, total: int | None, unit: str) -> AbstractContextManager[Progress]:
    """Show nothing."""
    return _silence()


class Rate:
    """The rate of the last seconds. It falls while nothing is counted.

    If counts are further apart than the measured seconds, it covers the time since the last but one.
    """

    def __init__(self, window_s: float = 10.0) -> None:
        """Start to measure the rate of the last `window_s` seconds."""
        self._window_s = window_s
        self._done = 0
        self._samples = deque([(time.monotonic(), 0)])
        self._paused_at: float | None = None
        self._lock = threading.Lock()

    def add(self, n: int) -> None:
        """Count n more."""
        with self._lock:
            self._done += n
            now = time.monotonic()
            if len(self._samples) > 2 and now - self._samples[-2][0] < self._window_s / 100:
                self._samples.pop()  # to bound their number
            self._samples.append((now, self._done))
            self._forget(now)

    def per_second(self) -> float:
        """Return the present rate."""
        with self._lock:
            now = time.monotonic() if self._paused_at is None else self._paused_at
            self._forget(now)
            start, done = self._samples[0]
            return (self._done - done) / max(now - start, 1e-9)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time of a `with` block."""
        self._paused_at = start = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                pause = time.monotonic() - start
                self._samples = deque((at + pause, done) for at, done in self._samples)
                self._paused_at = None

    def _forget(self, now: float) -> None:
        """Remove samples until one is left from before the measured seconds, but keep two."""
        while len(self._samples) > 2 and self._samples[1][0] <= now - self._window_s:
            self._samples.popleft()


class _Count:
    def __init__(self, total: int | None, unit: str) -> None:
        self.done, self.total, self.unit = 0, total, unit

    def __str__(self) -> str:
        if self.unit == "bytes":
            done = format_bytes(self.done)
            return done if self.total is None else f"{done} of {format_bytes(self.total)}"
        done = f"{self.done:,}"
        return f"{done} {self.unit}" if self.total is None else f"{done} of {self.total:,} {self.unit}"


class Silence:
    """A `Progress` and `Subtask` that shows nothing, and the base of those that show little."""

    def restart(self, done: int, total: int | None) -> None:
        """Do nothing, like all methods."""

    def advance(self, n: int = 1) -> None:
        """Do nothing."""

    def log(self, line: str) -> None:
        """Do nothing."""

    def set_note(self, note: Note) -> None:
        """Do nothing."""

    def subtask(self, label: str, unit: str) -> AbstractContextManager[Subtask]:
        """Begin a part that shows nothing either."""
        return _silence()


@contextmanager
def _silence() -> Iterator[Silence]:
    yield Silence()


class _PlainBar:
    """Prints a line at the start, one every few seconds, and one at the end unless the work fails."""

    def __init__(self, label: str, total: int | None, unit: str) -> None:
        self._label, self._count = label, _Count(total, unit)
        self._subtasks: list[_PlainSubtask] = []
        self._note: Note = ""
        self._start = self._printed = time.monotonic()
        self._lock = threading.Lock()

    def start(self) -> None:
        self.log(f"{self._label}: {self._count}" if self._count.total is not None else f"{self._label} ...")

    def advance(self, n: int = 1) -> None:
        self.add(self._count, n)

    def add(self, count: _Count, n: int) -> None:
        """Add to the count of the bar or of a subtask, and print a line if one is due."""
        with self._lock:
            count.done += n
            now = time.monotonic()
            if now - self._printed >= _INTERVAL_S:
                self._printed = now
                subtasks = "".join(f"; {task.label}: {task.count}" for task in self._subtasks)
                elapsed = format_seconds(now - self._start)
                self._print(f"{self._label}: {self._count} after {elapsed}{subtasks}{_after('; ', self._note)}")

    def log(self, line: str) -> None:
        with self._lock:
            self._print(line)

    def set_note(self, note: Note) -> None:
        self._note = note

    @contextmanager
    def subtask(self, label: str, unit: str) -> Iterator[Subtask]:
        task = _PlainSubtask(self, label, unit)
        with self._lock:
            self._subtasks.append(task)
        try:
            yield task
        finally:
            with self._lock:
                self._subtasks.remove(task)

    def finish(self) -> None:
        self.log(f"{self._label}: {self._count} in {format_seconds(time.monotonic() - self._start)}")

    def _print(self, line: str) -> None:
        print(printable(line), file=sys.stderr, flush=True)


class _PlainSubtask:
    def __init__(self, bar: _PlainBar, label: str, unit: str) -> None:
        self._bar, self.label, self.count = bar, label, _Count(None, unit)

    def restart(self, done: int, total: int | None) -> None:
        self.count.done, self.count.total = done, total

    def advance(self, n: int = 1) -> None:
        self._bar.add(self.count, n)


def _after(separator: str, note: Note) -> str:
    text = note if isinstance(note, str) else note()
    return separator + text if text else ""


@contextmanager
def _plain_bar(label: str, total: int | None, unit: str, transient: bool) -> Iterator[Progress]:
    bar = _PlainBar(label, total, unit)
    if not transient:
        bar.start()
    yield bar
    if not transient:
        bar.finish()


class _RichTask:
    """A bar of a rich display."""

    def __init__(self, display: RichProgress, label: str, total: int | None, unit: str) -> None:
        self._display, self._count, self._lock = display, _Count(total, unit), threading.Lock()
        self._rate = Rate(_REMAINING_WINDOW_S)
        self._start, self._end = time.monotonic(), 0.0
        self._note: Note = ""
        self.id = display.add_task(printable(label), total=total, shown=self)

    def __str__(self) -> str:
        """Return count and note; the display asks for them several times a second."""
        return f"{self._count}{_after('  ', self._note)}"

    def restart(self, done: int, total: int | None) -> None:
        with self._lock:
            self._count.done, self._count.total = done, total
            self._rate = Rate(_REMAINING_WINDOW_S)
            self._start = time.monotonic()
            self._show()

    def advance(self, n: int = 1) -> None:
        with self._lock:
            self._count.done += n
            self._rate.add(n)
            self._end = time.monotonic()
            self._show()

    @property
    def time(self) -> str:
        """The remaining time at the present rate, or the elapsed time at the end: "12:34" or "1:23:45".

        Rich's own estimate stays the same while nothing is counted.
        """
        done, total = self._count.done, self._count.total
        if total is None:
            return ""
        rate = 1.0 if self._count.unit == "s" else self._rate.per_second()
        seconds = self._end - self._start if done >= total else (total - done) / rate if rate else math.inf
        if seconds >= _LONGEST_S:
            return "--:--"
        minutes, seconds = divmod(int(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"

    def _show(self) -> None:
        self._display.update(self.id, completed=self._count.done, total=self._count.total)


class _RichBar(_RichTask):
    """The first bar of a rich display; subtasks are shown below it."""

    def log(self, line: str) -> None:
        self._display.console.print(printable(line), markup=False, emoji=False, highlight=False, soft_wrap=True)

    def set_note(self, note: Note) -> None:
        self._note = note

    @contextmanager
    def subtask(self, label: str, unit: str) -> Iterator[Subtask]:
        task = _RichTask(self._display, label, None, unit)
        try:
            yield task
        finally:
            self._display.remove_task(task.id)


@cache
def _console(stream: TextIO) -> Console:
    """Return the console of a stream, one for all bars, so that they are shown below each other."""
    from rich.console import Console

    return Console(file=stream)


@contextmanager
def _rich_bar(label: str, total: int | None, unit: str, transient: bool) -> Iterator[Progress]:
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as RichProgress

    # Rich redirects standard output to its console, which is standard error here: right only if both are terminals.
    with RichProgress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[shown]}", markup=False),
        TextColumn("{task.fields[shown].time}", style="progress.remaining", markup=False),
        console=_console(sys.stderr),
        redirect_stdout=sys.stdout.isatty(),
        transient=transient,
    ) as display:
        yield _RichBar(display, label, total, unit)
