"""Tables of statistics, queries and draws: fitted to a terminal's width, unlimited elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.columns import Columns
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from kifu.errors import DropReason, printable
from kifu.text import counted, format_games, format_share, short_count

if TYPE_CHECKING:  # lists need none of them
    from kifu.corpus.query import QueryHead
    from kifu.corpus.stats import Counts, Stats
    from kifu.datasets.draws import Draws


_MAX_CELL = 40
"""Characters of a value that are shown."""

_GAP = 2


def print_head(head: QueryHead) -> None:
    """Print the first rows of a query result and the total. Long values are truncated; a terminal shows what fits."""
    console = make_console()
    values = [[name, *(row[k] or "" for row in head.rows)] for k, name in enumerate(head.columns)]
    widths = [min(max(cell_len(printable(value)) for value in column), _MAX_CELL) for column in values]
    shown = len(widths)
    if console.is_terminal:
        ends = accumulate(width + _GAP for width in widths)
        shown = max(sum(end - _GAP <= console.width for end in ends), 1)
    else:
        console.width = sum(widths) + _GAP * len(widths)
    sides = ["right" if numeric else "left" for numeric in head.numeric]
    table = make_table(*zip(head.columns[:shown], sides))
    for row in head.rows:
        table.add_row(*(cell(value or "") for value in row[:shown]))
    for column in table.columns:
        column.max_width = _MAX_CELL
    print_lines(console, table)
    print(_summary(head, shown))


def _summary(head: QueryHead, shown: int) -> str:
    text = counted(head.total, "row")
    complete = len(head.rows) == head.total and shown == len(head.columns)
    if len(head.rows) < head.total:
        text = f"{len(head.rows):,} of {text}"
    if shown < len(head.columns):
        text += f", {shown} of {len(head.columns)} columns"
    return text if complete else f"{text}; -o FILE.csv or -o FILE.parquet writes all"


def print_stats(stats: Stats) -> None:
    """Print all tables of a corpus."""
    console = make_console()
    parts: list[RenderableType] = [
        *map(cell, stats.catalogues),
        Text(printable(format_games(stats.read, stats.kept, stats.dropped))),
    ]
    if stats.dropped:
        parts += ["", _drops(stats)]
    if stats.kept:
        kept = {
            "year": stats.years, "handicap": stats.handicaps, "komi": stats.komi, "board": stats.boards,
            "format": stats.formats, "program": stats.programs,
        }  # fmt: skip
        small = [_shares(name, "games", counts, stats.kept) for name, counts in kept.items()]
        parts += ["", "The following tables count kept games only.", "", *_ranks(stats, console.width)]
        parts += ["", _by_ending("winner", stats.results, stats), "", _by_ending("moves", stats.lengths, stats)]
        parts += ["", Columns(small, padding=(1, 6)), "", _shares("archive", "games", stats.archives, stats.kept), ""]
        parts += [_program_names(stats), ""] if stats.program_names else []
        parts += [_shares("repair", "games", stats.repairs, stats.kept), ""] if stats.repairs else []
        parts += [_unparsed(stats) if stats.unparsed else "All ranks, results, komi, dates and times were parsed."]
    print_lines(console, *parts)


def print_draws(draws: Draws) -> None:
    """Print the counts of the examples of an epoch."""
    sources = make_table(
        ("source", "left"), ("examples", "right"), ("", "right"), ("games", "right"), ("of", "right"),
    )  # fmt: skip
    for name, each in draws.sources.items():
        counts = (each.games, each.all_games)
        sources.add_row(cell(name), f"{each.examples:,}", f"{each.share:.1%}", *map("{:,}".format, counts))
    figures = ", ".join(f"{name} {value:,.5g}" for name, value in draws.per_game.items())
    named = {
        "rank": draws.ranks, "ply": draws.plies, "year": draws.years, "colour": draws.colours, "result": draws.results,
    }  # fmt: skip
    tables = [_shares(name, "examples", counts, draws.examples) for name, counts in named.items()]
    print_lines(
        make_console(),
        f"epoch {draws.epoch}: {draws.examples:,} examples of {draws.games:,} games; per game: {figures}",
        f"duplicate games: {draws.duplicate_games:,}, with {draws.duplicates:,} duplicate positions",
        "",
        sources,
        "",
        "Ranks and results are those of the side to move.",
        "",
        Columns(tables, padding=(1, 6)),
    )


def _shares(name: str, unit: str, counts: Counts, total: int) -> Table:
    table = make_table((name, "left"), (unit, "right"), ("", "right"))
    for value, count in counts.items():
        table.add_row(cell(value), f"{count:,}", format_share(count, total))
    return table


def _program_names(stats: Stats) -> Table:
    table = make_table(("program by", "left"), ("names with most games", "left"))
    for kind, names in stats.program_names.items():
        table.add_row(kind, printable(", ".join(f"{name} {count:,}" for name, count in names.items())))
    return table


def _drops(stats: Stats) -> Table:
    reasons = {drop.name.lower(): drop.reason for drop in DropReason}
    table = make_table(("dropped", "left"), ("games", "right"), ("share", "right"), ("reason", "left"))
    for name, count in stats.dropped.items():
        table.add_row(cell(name), f"{count:,}", format_share(count, stats.read), reasons.get(name, ""))
    return table


def _ranks(stats: Stats, width: int) -> tuple[str, Table]:
    from kifu.corpus.stats import BANDS

    down = [k for k in range(len(BANDS)) if any(stats.ranks[k])]
    across = [k for k in range(len(BANDS)) if any(row[k] for row in stats.ranks)]
    weakest = [f"{band.partition('-')[0]}k+" if "-" in band else band for band in BANDS[:-1]] + ["?"]
    forms: tuple[tuple[str, Callable[[int], str], Sequence[str]], ...] = (
        ("games", "{:,}".format, BANDS),
        ("games (k: thousands)", short_count, BANDS),
        ("games (k: thousands; 20k+: 20 to 11 kyu)", short_count, weakest),  # at most 79 characters
    )
    for unit, form, bands in forms:
        rows = [[bands[row], *(form(n) if (n := stats.ranks[row][k]) else "." for k in across)] for row in down]
        names = ["", *(bands[k] for k in across)]
        title = f"ranks: Black's down, White's across, in {unit}"
        if sum(1 + max(map(len, column)) for column in zip(names, *rows)) - 1 <= width:
            break
    table = make_table((names[0], "left"), *((name, "right") for name in names[1:]), gap=1)
    for row in rows:
        table.add_row(*row)
    return title, table


def _by_ending(name: str, rows: dict[str, Counts], stats: Stats) -> Table:
    from kifu.corpus.stats import known_endings

    endings = known_endings(rows)
    table = make_table((name, "left"), *((ending, "right") for ending in (*endings, "all", "")))
    for value, counts in rows.items():
        total = sum(counts.values())
        cells = [f"{counts[ending]:,}" if ending in counts else "." for ending in endings]
        table.add_row(cell(value), *cells, f"{total:,}", format_share(total, stats.kept))
    return table


def _unparsed(stats: Stats) -> Table:
    table = make_table(("not parsed", "left"), ("games", "right"), ("examples", "left"))
    for column, found in stats.unparsed.items():
        examples = ", ".join(f"{text!r} {count:,}" for text, count in found.texts.items())
        table.add_row(column, f"{found.games:,}", examples)
    return table


def cell(text: str) -> Text:
    """Return any text as one printable line, truncated where space is short."""
    return Text(printable(text), no_wrap=True, overflow="ellipsis")


def make_console() -> Console:
    """Return a console for standard output, as wide as the terminal."""
    return Console(highlight=False, markup=False, emoji=False)


def make_table(*columns: tuple[str, str], gap: int = _GAP) -> Table:
    """Return a table whose columns are pairs of a name and an alignment, "left" or "right"."""
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    for name, align in columns:
        table.add_column(cell(name), justify="right" if align == "right" else "left")
    return table


def print_lines(console: Console, *parts: RenderableType) -> None:
    """Print renderables below each other, without trailing spaces."""
    with console.capture() as shown:
        console.print(*parts, sep="\n")
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in shown.get().splitlines()))
