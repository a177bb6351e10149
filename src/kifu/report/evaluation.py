"""Reports of evaluations and benchmarks: tables for the terminal, an HTML page of one, a Markdown page of the other."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jinja2 import Environment, StrictUndefined
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kifu.assets import asset
from kifu.errors import FormatError, RecipeError, printable
from kifu.io import write_output
from kifu.learn.benchmark import load_set, set_names
from kifu.learn.evaluate import BREAKDOWNS
from kifu.learn.results import BenchmarkResults, EvalResults, Example, ExampleKind, NetResult, NetScores, SetResults
from kifu.learn.scores import MEASURES, Drift, Interval, Score
from kifu.report.tables import cell, make_console, make_table, print_lines
from kifu.viz.boards import draw_board, to_svg
from kifu.viz.curves import draw_calibration, draw_groups

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_NETS_PER_TABLE = 3

_MIN_ACCOUNTS = 5
"""Accounts of a group that is plotted; smaller groups are in the tables only."""

TITLES = {"top1": "top-1", "top3": "top-3", "top5": "top-5", "nll": "nll, nats"}
"""Titles of the measures."""

_KINDS: dict[ExampleKind, tuple[str, str]] = {
    "missed": ("Confident misses", "The net's most confident wrong predictions, in descending order."),
    "undecided": ("Undecided", "The move played is nearly as likely as another one."),
    "correct": ("Confident hits", "A sample of confident predictions that are right."),
}


def percent(interval: Interval) -> str:
    """Format a share: (0.4213, 0.4152, 0.4269) -> "42.1% (41.5-42.7)"."""
    return f"{interval.value:.1%} ({interval.low * 100:.1f}-{interval.high * 100:.1f})"


def nats(interval: Interval) -> str:
    """Format a likelihood: (2.1041, 2.0803, 2.129) -> "2.104 (2.080-2.129)"."""
    return f"{interval.value:.3f} ({interval.low:.3f}-{interval.high:.3f})"


def signed(name: str, interval: Interval) -> str:
    """Format a difference of a measure: "+1.2 (+0.3 +2.0)", in percentage points for shares."""
    digits, scale = (3, 1) if name == "nll" else (1, 100)
    value, low, high = (f"{scale * part:+.{digits}f}" for part in interval)
    return f"{value} ({low} {high})"


def formatter(name: str) -> Callable[[Interval], str]:
    """Return the function that formats a measure."""
    return nats if name == "nll" else percent


def further_measures(net: NetResult) -> dict[str, str]:
    """Return the measures that are not broken down as text by title; "" if the net has no value."""
    value = net.value
    return {
        "calibration error": percent(net.calibration.error),
        "entropy, nats": nats(net.entropy),
        "value: error²": "" if value is None else nats(value.squared),
        "value: bias, Black": _bias(None if value is None else value.bias_black),
        "value: bias, White": _bias(None if value is None else value.bias_white),
    }


def _bias(interval: Interval | None) -> str:
    return "" if interval is None else signed("nll", interval)


def print_evaluation(evaluation: EvalResults) -> None:
    """Print all figures as tables of at most 80 columns; examples are in the page and the JSON only."""
    lines: list[RenderableType] = [Text(printable(f"{', '.join(evaluation.sources)}: {evaluation.headline()}"))]
    lines += [Text(f"! {printable(remark)}", style="bold red") for remark in evaluation.remarks]
    for first in range(0, len(evaluation.nets), _NETS_PER_TABLE):
        nets = evaluation.nets[first : first + _NETS_PER_TABLE]
        lines += ["", _score_table(nets)]
        lines += [part for name in BREAKDOWNS for part in ("", _breakdown_table(name, nets))]
    lines += ["", "In brackets: 95 % intervals by the bootstrap over accounts."]
    print_lines(make_console(), *lines)


def _cut(text: str, length: int = 17) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _score_table(nets: tuple[NetResult, ...]) -> Table:
    table = make_table(("", "left"), *((_cut(net.name), "right") for net in nets))
    for k, title in enumerate(("net", "on")):
        table.add_row(title, *(cell(_cut(net.description.partition(" on ")[2 * k])) for net in nets))
    for name in MEASURES:
        table.add_row(TITLES[name], *(formatter(name)(net.score.measure(name)) for net in nets))
    more = [further_measures(net) for net in nets]
    for name in more[0]:
        if any(each[name] for each in more):
            table.add_row(name, *(each[name] for each in more))
    _add_differences(table, nets)
    return table


def _add_differences(table: Table, nets: Sequence[NetResult | NetScores]) -> None:
    if any(net.to_first for net in nets):
        table.add_row("against the first")
        for name in MEASURES:
            cells = (signed(name, net.to_first[name]) if net.to_first else "" for net in nets)
            table.add_row(f"  {TITLES[name]}", *cells)


def _breakdown_table(name: str, nets: tuple[NetResult, ...]) -> Table:
    """Return all measures of one net, or the first measure of several nets."""
    title = BREAKDOWNS[name][0].partition(",")[0].removesuffix(" of the move").removesuffix(" by the move")
    if len(nets) == 1:
        table = make_table((title, "left"), ("n", "right"), *((TITLES[each], "right") for each in MEASURES))
        for group, score in nets[0].by[name].items():
            measures = [percent(score.top1), f"{score.top3.value:.1%}", f"{score.top5.value:.1%}", nats(score.nll)]
            table.add_row(group, f"{score.positions:,}", *measures)
        return table
    return _group_table(title, name, [_cut(net.name) for net in nets], nets)


def _group_table(title: str, by: str, names: Sequence[str], nets: Sequence[NetResult | NetScores]) -> Table:
    """Return the share of moves found first, of each net in each group of a breakdown."""
    table = make_table((f"{title}: top-1", "left"), ("n", "right"), *((name, "right") for name in names))
    for group, score in nets[0].by[by].items():
        table.add_row(cell(group), f"{score.positions:,}", *(percent(net.by[by][group].top1) for net in nets))
    return table


def write_page(evaluation: EvalResults, path: Path) -> None:
    """Write the HTML page atomically."""
    write_output(path, page(evaluation).encode())


def page(evaluation: EvalResults) -> str:
    """Return a self-contained HTML page. Text from games and file names is escaped; there are no scripts or links."""
    # `finalize` sees every inserted value; it replaces characters that browsers and XML forbid.
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )  # fmt: skip
    return environment.from_string(asset("evaluation.html").read_text("utf-8")).render(
        evaluation=evaluation,
        measures=MEASURES,
        titles=TITLES,
        breakdowns={name: title for name, (title, _) in BREAKDOWNS.items()},
        plots=list(_plots(evaluation)),
        examples=[
            (*_KINDS[kind], [_board_of(each) for each in evaluation.examples if each.kind == kind]) for kind in _KINDS
        ],
        formatter=formatter,
        further=[further_measures(net) for net in evaluation.nets],
        signed=signed,
        version=version("kifu"),
    )


def _plots(evaluation: EvalResults) -> Iterator[tuple[str, str]]:
    """Yield a description and an image for each plot, but not for breakdowns with a single group."""
    yield "calibration", _data_url(draw_calibration({net.name: _bins(net) for net in evaluation.nets}))
    for name, (title, _) in BREAKDOWNS.items():
        scores = evaluation.nets[0].by[name]
        groups = [group for group, score in scores.items() if score.accounts >= _MIN_ACCOUNTS] or list(scores)
        shares = {net.name: np.array([net.by[name][group].top1 for group in groups]) * 100 for net in evaluation.nets}
        if len(groups) < 2:
            continue
        yield f"top-1 by {title}", _data_url(draw_groups(f"top-1 (%), by {title}", groups, shares, name == "move"))


def _bins(net: NetResult) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    bins, positions = net.calibration.bins, net.score.positions
    return np.array(
        [(100 * each.confidence, *(100 * part for part in each.accuracy), each.positions / positions) for each in bins]
    )


def _board_of(example: Example) -> tuple[Example, str]:
    """Return an example with an image of its board, which shows the prediction of the first net."""
    board = example.board
    assert board is not None
    height, width = board.stones.shape
    heat = board.policy[: width * height].reshape(height, width)
    return example, _data_url(draw_board(board.stones, last=board.last, ring=board.played, heat=heat, coordinates=True))


def _data_url(figure: Figure) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(to_svg(figure).encode()).decode()


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
        title = f"{each.name} ({each.title}): {each.positions:,} positions of {each.used:,} of {each.games:,} games"
        lines += [Text(printable(title), style="bold")]
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
        "In brackets: 95 % intervals by the bootstrap over accounts; for another day,",
        "week or month of the same source they include the drift between these.",
    ]
    print_lines(make_console(), *lines)


def _tables(each: SetResults, nets: Sequence[NetScores]) -> Iterator[RenderableType]:
    names = [_cut(net.label, 21) for net in nets]
    table = make_table(("", "left"), *((name, "right") for name in names))
    for measure in MEASURES:
        form = formatter(measure)
        table.add_row(TITLES[measure], *(form(_score(net).measure(measure)) for net in nets))
        if any(net.drift for net in nets):
            cells = (form(net.drift[measure].interval) if net.drift else "" for net in nets)
            table.add_row(f"  in another {each.window}", *cells)
    _add_differences(table, nets)
    yield table
    for by, title in (("rank", "rank"), ("player", "player"), ("window", each.window)):
        yield from ("", _group_table(title, by, names, nets))


def _score(net: NetScores) -> Score:
    assert net.score is not None
    return net.score


def compare(results: Sequence[BenchmarkResults]) -> str:
    """Return a Markdown page with one table for each set: all nets, the best likelihood first, incomplete results last.

    Raises RecipeError if there are no results; FormatError if results refer to different lists of games by one name.
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
    lines = ["## Mean of the complete sets", "", "In brackets: the interval for another set.", ""]
    lines += ["| net | top-1 | spread | nll, nats | spread |", "|---|---|---|---|---|"]
    for label, found in sorted(pooled, key=lambda each: each[1]["nll"].interval.value):
        top1, nll = found["top1"], found["nll"]
        cells = [_escape(label), percent(top1.interval), f"{top1.spread:.1%}"]
        lines += [f"| {' | '.join([*cells, formatter('nll')(nll.interval), f'{nll.spread:.3f}'])} |"]
    return "\n".join(lines) + "\n"


def _section(found: Sequence[SetResults]) -> str:
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
    return re.sub(r"([\\`*_{}\[\]<>()#|&!~])", r"\\\1", printable(text))
