"""Reports of benchmarks: tables for the terminal, and a Markdown page that compares nets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from kifu.errors import FormatError, RecipeError, printable
from kifu.learn.benchmark import load_set, set_names
from kifu.learn.report import TITLES, formatter, percent, signed
from kifu.learn.results import BenchmarkResults, NetScores, SetResults
from kifu.learn.scores import MEASURES, Drift, Score
from kifu.tables import cell, make_console, make_table, print_lines

_NETS_PER_TABLE = 3

_NAME_LENGTH = 21
"""Letters of a net's name in a table."""

_HEADER = ("net", "games", "top-1", "in another window", "top-3", "top-5", "nll, nats")


def print_sets() -> None:
    """Print the benchmark sets."""
    table = make_table(("set", "left"), ("games", "right"), ("games of", "left"), ("digest", "left"))
    for name in set_names():
        each = load_set(name)
        table.add_row(cell(name), f"{each.games:,}", cell(each.title), f"{each.digest[:12]}")
    print_lines(make_console(), table)


def print_results(results: BenchmarkResults) -> None:
    """Print all figures as tables of at most 80 columns."""
    lines: list[RenderableType] = []
    for each in results.sets:
        lines += [Text(printable(_headline(each)), style="bold")]
        lines += [Text(f"! {printable(remark)}", style="bold red") for remark in each.remarks()]
        for first in range(0, len(each.nets), _NETS_PER_TABLE):
            nets = each.nets[first : first + _NETS_PER_TABLE]
            if nets[0].score is not None:
                lines += ["", *_tables(each, nets)]
        lines += [""]
    for label, pooled in results.pooled().items():
        top1 = pooled["top1"]
        lines += [
            cell(f"{label}, mean of the complete sets: top-1 {percent(top1.interval)}, nll"),
            cell(f"{formatter('nll')(pooled['nll'].interval)}; another set is expected in the brackets."),
            "",
        ]
    lines += [
        "In brackets: 95 % intervals by the bootstrap over games; for another day, week",
        "or month of the same source they include the drift between these.",
    ]
    print_lines(make_console(), *lines)


def _headline(each: SetResults) -> str:
    return f"{each.name} ({each.title}): {each.positions:,} positions of {each.used:,} of {each.games:,} games"


def _tables(each: SetResults, nets: Sequence[NetScores]) -> Iterator[RenderableType]:
    """Yield the table of all measures, and those of top-1 by rank and by window."""
    names = [net.label if len(net.label) <= _NAME_LENGTH else f"{net.label[: _NAME_LENGTH - 1]}…" for net in nets]
    table = make_table(("", "left"), *((name, "right") for name in names))
    for measure in MEASURES:
        form = formatter(measure)
        table.add_row(TITLES[measure], *(form(_score(net).measure(measure)) for net in nets))
        if any(net.drift for net in nets):
            cells = (form(net.drift[measure].interval) if net.drift else "" for net in nets)
            table.add_row(f"  in another {each.window}", *cells)
    if any(net.to_first for net in nets):
        table.add_row("against the first")
        for measure in MEASURES:
            cells = (signed(measure, net.to_first[measure]) if net.to_first else "" for net in nets)
            table.add_row(f"  {TITLES[measure]}", *cells)
    yield table
    for breakdown, title in (("rank", "rank"), ("window", each.window)):
        table = make_table((f"{title}: top-1", "left"), ("n", "right"), *((name, "right") for name in names))
        for group, score in nets[0].by[breakdown].items():
            table.add_row(
                cell(group), f"{score.positions:,}", *(percent(net.by[breakdown][group].top1) for net in nets)
            )
        yield from ("", table)


def _score(net: NetScores) -> Score:
    assert net.score is not None
    return net.score


def compare(results: Sequence[BenchmarkResults]) -> str:
    """Return a Markdown page with one table for each set: all nets, the best likelihood first, incomplete results last.

    Raises:
        RecipeError: There are no results.
        FormatError: Results refer to different lists of games by one name.
    """
    if not results:
        raise RecipeError("no results to compare")
    by_set: dict[str, list[SetResults]] = {}
    for each in (found for result in results for found in result.sets):
        by_set.setdefault(each.name, []).append(each)
    pooled = [each for result in results for each in result.pooled().items()]
    sections = [_section(by_set[name]) for name in sorted(by_set)] + ([_pooled_section(pooled)] if pooled else [])
    return "# Benchmark\n\n" + "\n".join(sections)


def _pooled_section(pooled: Sequence[tuple[str, dict[str, Drift]]]) -> str:
    """Return the section of the means over all complete sets."""
    lines = ["## Mean of the complete sets", "", "In brackets: the interval for another set.", ""]
    lines += ["| net | top-1 | spread | nll, nats | spread |", "|---|---|---|---|---|"]
    for label, found in sorted(pooled, key=lambda each: each[1]["nll"].interval.value):
        top1, nll = found["top1"], found["nll"]
        cells = [_escape(label), percent(top1.interval), f"{top1.spread:.1%}"]
        lines += [f"| {' | '.join([*cells, formatter('nll')(nll.interval), f'{nll.spread:.3f}'])} |"]
    return "\n".join(lines) + "\n"


def _section(found: Sequence[SetResults]) -> str:
    """Return the section of one set."""
    first = found[0]
    if any(each.digest != first.digest for each in found):
        raise FormatError(f"results of {first.name} refer to different lists of games")
    rows = [(each, net) for each in found for net in each.nets if net.score is not None]
    rows.sort(key=lambda row: (row[0].used < row[0].games, _score(row[1]).nll.value))
    lines = [f"## {_escape(first.name)}", "", f"{_escape(first.title)}; {first.games:,} games, `{first.digest}`", ""]
    lines += ["| " + " | ".join(_HEADER) + " |", "|---" * len(_HEADER) + "|"]
    lines += ["| " + " | ".join(_row(each, net)) + " |" for each, net in rows]
    lines += [f"| {_escape(net.label)} | none left |" for each in found for net in each.nets if net.score is None]
    return "\n".join(lines) + "\n"


def _row(each: SetResults, net: NetScores) -> Iterator[str]:
    score = _score(net)
    yield _escape(net.label)
    yield f"{each.used:,}" if each.used == each.games else f"INCOMPLETE: {each.used:,} of {each.games:,}"
    yield percent(score.top1)
    yield percent(net.drift["top1"].interval) if "top1" in net.drift else ""
    yield f"{score.top3.value:.1%}"
    yield f"{score.top5.value:.1%}"
    yield formatter("nll")(score.nll)


def _escape(text: str) -> str:
    """Return text without a meaning in Markdown or HTML."""
    return re.sub(r"([\\`*_{}\[\]<>()#|&!~])", r"\\\1", printable(text))
