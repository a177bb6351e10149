"""What the command `evaluate` prints: tables that fit 80 columns."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kifu.learn.breakdown import BREAKDOWNS
from kifu.learn.evaluate import Evaluation, NetResult
from kifu.learn.scores import MEASURES, Interval
from kifu.tables import cell, make_console, make_table, print_lines
from kifu.viz.boards import printable

_ABREAST = 3
"""Nets that stand side by side."""

_NAME = 17
"""Letters of a net's name."""

TITLES = {"top1": "top-1", "top3": "top-3", "top5": "top-5", "nll": "nll, nats"}
"""Of the measures, for people."""


def percent(interval: Interval) -> str:
    """Shares as (0.4213, 0.4152, 0.4269) -> "42.1% (41.5-42.7)"."""
    return f"{interval.value:.1%} ({interval.low * 100:.1f}-{interval.high * 100:.1f})"


def nats(interval: Interval) -> str:
    """(2.1041, 2.0803, 2.129) -> "2.104 (2.080-2.129)"."""
    return f"{interval.value:.3f} ({interval.low:.3f}-{interval.high:.3f})"


def more(name: str, interval: Interval) -> str:
    """A difference of a measure, with signs: "+1.2 (+0.3 +2.0)", of shares in percent points."""
    digits, scale = (3, 1) if name == "nll" else (1, 100)
    value, low, high = (f"{scale * part:+.{digits}f}" for part in interval)
    return f"{value} ({low} {high})"


def written(name: str) -> Callable[[Interval], str]:
    """How a measure is written."""
    return nats if name == "nll" else percent


def print_evaluation(found: Evaluation) -> None:
    """All figures; the examples are in the page and in the JSON only."""
    parts: list[RenderableType] = [Text(printable(f"{', '.join(found.sources)}: {found.headline()}"))]
    parts += [Text(f"! {printable(remark)}", style="bold red") for remark in found.remarks()]
    for first in range(0, len(found.nets), _ABREAST):
        nets = found.nets[first : first + _ABREAST]
        parts += ["", _headline(nets)]
        parts += [part for name in BREAKDOWNS for part in ("", _breakdown(name, nets))]
    parts += ["", "In brackets: 95 % intervals by the bootstrap over games."]
    print_lines(make_console(), *parts)


def _cut(text: str) -> str:
    return text if len(text) <= _NAME else f"{text[: _NAME - 1]}…"


def _headline(nets: tuple[NetResult, ...]) -> Table:
    table = make_table(("", "left"), *((_cut(net.name), "right") for net in nets))
    table.add_row("net", *(cell(net.about.net) for net in nets))
    table.add_row("planes", *(cell(_cut(net.about.planes)) for net in nets))
    for name in MEASURES:
        table.add_row(TITLES[name], *(written(name)(net.score.measure(name)) for net in nets))
    table.add_row("calibration error", *(percent(net.calibration.error) for net in nets))
    if any(net.to_first for net in nets):
        table.add_row("against the first")
        for name in MEASURES:
            told = (more(name, net.to_first[name]) if net.to_first else "" for net in nets)
            table.add_row(f"  {TITLES[name]}", *told)
    return table


def _breakdown(name: str, nets: tuple[NetResult, ...]) -> Table:
    """Of one net all measures, of several the first of them."""
    title = BREAKDOWNS[name][0].partition(",")[0].removesuffix(" of the move").removesuffix(" by the move")
    if len(nets) == 1:
        table = make_table((title, "left"), ("n", "right"), *((TITLES[each], "right") for each in MEASURES))
        for group, score in nets[0].by[name].items():
            measures = [percent(score.top1), f"{score.top3.value:.1%}", f"{score.top5.value:.1%}", nats(score.nll)]
            table.add_row(group, f"{score.positions:,}", *measures)
        return table
    table = make_table((f"{title}: top-1", "left"), ("n", "right"), *((_cut(net.name), "right") for net in nets))
    for group, score in nets[0].by[name].items():
        table.add_row(group, f"{score.positions:,}", *(percent(net.by[name][group].top1) for net in nets))
    return table
