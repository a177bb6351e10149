"""Benchmark results, printed as a Markdown table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from timing import Times

_HEAD = ("what", "measured", "CPU", "off the best", "asked", "verdict")


@dataclass(frozen=True)
class Figure:
    """A result.

    Attributes:
        what: what was measured.
        value: the value.
        unit: its unit.
        times: the measured times, if any.
        asked: the target, for display.
        met: True if the target is met, None without a target.
    """

    what: str
    value: float
    unit: str
    times: Times | None = None
    asked: str = ""
    met: bool | None = None

    @property
    def measured(self) -> str:
        """The value with its unit."""
        return f"{_three_digits(self.value)} {self.unit}"


def _three_digits(value: float) -> str:
    """1234.5 -> "1,234", 12.345 -> "12.3", 0.0012345 -> "0.00123"."""
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:,.{max(digits, 0)}f}"


def at_least(what: str, value: float, unit: str, least: float, times: Times | None = None) -> Figure:
    """Return a result with a minimum as its target."""
    return Figure(what, value, unit, times, f">= {least:g}", value >= least)


def at_most(what: str, value: float, unit: str, most: float, times: Times | None = None) -> Figure:
    """Return a result with a maximum as its target."""
    return Figure(what, value, unit, times, f"<= {most:g}", value <= most)


def table(figures: Iterable[Figure], *, judged: bool) -> str:
    """Return results as a Markdown table; judged: True if the targets apply to the data."""
    rows = [_HEAD, *(_row(figure, judged) for figure in figures)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(_HEAD))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def _row(figure: Figure, judged: bool) -> tuple[str, ...]:
    verdict = "" if figure.met is None or not judged else "met" if figure.met else "MISSED"
    times = figure.times
    timed = ("", "") if times is None else (f"{_three_digits(min(times.processor))} s", f"{times.spread:+.0%}")
    return figure.what, figure.measured, *timed, figure.asked if judged else "", verdict
