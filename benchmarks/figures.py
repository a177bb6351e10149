"""The lines of the table, and how they are printed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from timing import Times

_HEAD = ("what", "measured", "CPU", "off the best", "asked", "verdict")


@dataclass(frozen=True)
class Figure:
    """One measured figure. times: what it comes from, if that was timed. met: None where nothing is asked."""

    what: str
    value: float
    unit: str
    times: Times | None = None
    asked: str = ""
    met: bool | None = None

    @property
    def measured(self) -> str:
        """The value for people."""
        return f"{_three_digits(self.value)} {self.unit}"


def _three_digits(value: float) -> str:
    """1234.5 -> "1,234", 12.345 -> "12.3", 0.0012345 -> "0.00123"."""
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:,.{max(digits, 0)}f}"


def at_least(what: str, value: float, unit: str, least: float, times: Times | None = None) -> Figure:
    """A figure of which at least so much is asked."""
    return Figure(what, value, unit, times, f">= {least:g}", value >= least)


def at_most(what: str, value: float, unit: str, most: float, times: Times | None = None) -> Figure:
    """A figure of which at most so much is asked."""
    return Figure(what, value, unit, times, f"<= {most:g}", value <= most)


def table(figures: Iterable[Figure], *, judged: bool) -> str:
    """A Markdown table. judged: whether the figures are of the data that the asked ones speak of."""
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
