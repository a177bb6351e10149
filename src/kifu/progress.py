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
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, TextIO

from kifu.errors import printable
from kifu.text import format_bytes, format_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

_INTERVAL_S = 5.0
"""Seconds between two plain lines."""

_REMAINING_WINDOW_S = 30.0
"""Seconds over which the rate is measured that the remaining time is estimated from."""

_MAX_REMAINING_S = 100 * 3600
"""A longer remaining time is not shown."""

Note = str | Callable[[], str]
"""A text, or a function that returns it whenever it is shown."""


class Subtask:
    """A part of the work with a separate count while it lasts, such as one file of many; this class shows nothing."""

    def restart(self, done: int, total: int | None) -> None:
        """Set the count to `done` of `total` (None: unknown)."""

    def advance(self, n: int = 1) -> None:
        """Add n to the count."""


class Progress(Subtask):
    """The progress of the whole work; this class shows nothing."""

    def log(self, line: str) -> None:
        """Print a line now."""

    def set_note(self, note: Note) -> None:
        """Show a text after the count from now on."""

    def subtask(self, label: str, unit: str) -> AbstractContextManager[Subtask]:
        """Begin a part of the work, with a separate bar on a terminal."""
        return nullcontext(Subtask())


ProgressFactory = Callable[[str, int | None, str], AbstractContextManager[Progress]]
"""The signature of `progress` and `silent`: label, total and unit."""


@contextmanager
def progress(label: str, total: int | None, unit: str, *, transient: bool = False) -> Iterator[Progress]:
    """Show the progress of some work on standard error.

    Args:
        unit: Unit of the count; "bytes" are shown as kB, MB and GB, and "s" are seconds that pass by themselves.
        transient: Remove the bar at the end. Plain lines are then printed only every few seconds.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        printer = _Printer(transient)
        yield _Task(printer, label, total, unit)
        printer.end()
        return
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
    ) as bars:
        yield _Task(_Bars(bars), label, total, unit)


def silent(label: str, total: int | None, unit: str) -> AbstractContextManager[Progress]:
    """Show nothing."""
    return nullcontext(Progress())


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


class _Task(Progress):
    """The count of the work or of a subtask, which a display shows."""

    def __init__(self, display: _Printer | _Bars, label: str, total: int | None, unit: str) -> None:
        self.label, self._unit, self._display = label, unit, display
        self._note: Note = ""
        self._lock = threading.Lock()
        self.restart(0, total)

    def restart(self, done: int, total: int | None) -> None:
        with self._lock:
            self.done, self.total, self._rate = done, total, Rate(_REMAINING_WINDOW_S)
            self._start = self._end = time.monotonic()
            self._display.show(self)

    def advance(self, n: int = 1) -> None:
        with self._lock:
            self.done += n
            self._rate.add(n)
            self._end = time.monotonic()
            self._display.show(self)

    def log(self, line: str) -> None:
        self._display.print(line)

    def set_note(self, note: Note) -> None:
        self._note = note

    @contextmanager
    def subtask(self, label: str, unit: str) -> Iterator[Subtask]:
        task = _Task(self._display, label, None, unit)
        try:
            yield task
        finally:
            self._display.remove(task)

    def __str__(self) -> str:
        """Return count and note; a rich display asks for them several times a second."""
        return f"{self.count}{self.note('  ')}"

    @property
    def count(self) -> str:
        if self._unit == "bytes":
            done = format_bytes(self.done)
            return done if self.total is None else f"{done} of {format_bytes(self.total)}"
        return f"{self.done:,}{'' if self.total is None else f' of {self.total:,}'} {self._unit}"

    def note(self, separator: str) -> str:
        """Return the present note after a separator, or nothing."""
        text = self._note if isinstance(self._note, str) else self._note()
        return separator + text if text else ""

    @property
    def elapsed(self) -> str:
        return format_seconds(time.monotonic() - self._start)

    @property
    def time(self) -> str:
        """The remaining time at the present rate, or the elapsed time at the end: "12:34" or "1:23:45".

        Rich's own estimate stays the same while nothing is counted.
        """
        if self.total is None:
            return ""
        rate = 1.0 if self._unit == "s" else self._rate.per_second()
        left = self.total - self.done
        seconds = self._end - self._start if left <= 0 else left / rate if rate else math.inf
        if seconds >= _MAX_REMAINING_S:
            return "--:--"
        minutes, seconds = divmod(int(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"


class _Printer:
    """Prints a line at the start, one every few seconds, and one at the end unless the work fails."""

    def __init__(self, transient: bool) -> None:
        self._transient, self._printed = transient, time.monotonic()
        self._tasks: list[_Task] = []  # the first is the whole work
        self._lock = threading.Lock()

    def show(self, task: _Task) -> None:
        with self._lock:
            if task not in self._tasks:
                self._tasks.append(task)
                if len(self._tasks) == 1 and not self._transient:
                    self.print(f"{task.label} ..." if task.total is None else f"{task.label}: {task.count}")
            now = time.monotonic()
            if now - self._printed >= _INTERVAL_S:
                self._printed = now
                work, *subtasks = self._tasks
                parts = "".join(f"; {each.label}: {each.count}" for each in subtasks)
                self.print(f"{work.label}: {work.count} after {work.elapsed}{parts}{work.note('; ')}")

    def remove(self, task: _Task) -> None:
        with self._lock:
            self._tasks.remove(task)

    def end(self) -> None:
        if not self._transient:
            work = self._tasks[0]
            self.print(f"{work.label}: {work.count} in {work.elapsed}")

    def print(self, line: str) -> None:
        print(printable(line), file=sys.stderr, flush=True)


class _Bars:
    """The bars of a rich display: that of the whole work, and those of subtasks below it."""

    def __init__(self, bars: RichProgress) -> None:
        self._bars = bars
        self._ids: dict[_Task, TaskID] = {}

    def show(self, task: _Task) -> None:
        if task not in self._ids:
            self._ids[task] = self._bars.add_task(printable(task.label), total=task.total, shown=task)
        self._bars.update(self._ids[task], completed=task.done, total=task.total)

    def remove(self, task: _Task) -> None:
        self._bars.remove_task(self._ids.pop(task))

    def print(self, line: str) -> None:
        self._bars.console.print(printable(line), markup=False, emoji=False, highlight=False, soft_wrap=True)


@cache
def _console(stream: TextIO) -> Console:
    """Return the console of a stream, one for all bars, so that they are shown below each other."""
    from rich.console import Console

    return Console(file=stream)
