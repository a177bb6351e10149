"""Texts of `kifu explore`: rows of the table, labels on the board, and bars by year."""

from __future__ import annotations

from collections.abc import Sequence

from kifu.cli.explorer_board import Label
from kifu.cli.search_tables import year_range
from kifu.search.continuations import Continuation, YearCount
from kifu.search.drawing import Drawing
from kifu.search.position import Position
from kifu.viz.charts import short_count

COLUMNS = (("next", 7), ("times", 8), ("share", 6), ("wins", 6), ("95 %", 7), ("rating", 7), ("years", 10))
"""Columns of the table with their widths, in the order in which a narrow table shows them."""

_BARS = " ▁▂▃▄▅▆▇█"


def fitting_columns(width: int) -> int:
    """Return the number of columns of the table that fit into a width, at least one."""
    ends = [sum(columns for _, columns in COLUMNS[: k + 1]) for k in range(len(COLUMNS))]
    return max(sum(end <= width for end in ends), 1)


def point_of(position: Position, continuation: Continuation) -> int | None:
    """Return the point of a continuation; None for a pass or no further move."""
    if continuation.x is None or continuation.y is None:
        return None
    return continuation.y * position.width + continuation.x


def percent(share: float | None) -> str:
    """Return a share as a number of percent; "" if it is unknown."""
    return "" if share is None else f"{100 * share:.1f}"


def table_rows(position: Position, continuations: Sequence[Continuation]) -> list[list[str]]:
    """Return the cells of continuations in the order of COLUMNS; a colour is named if it is not the first one's."""
    drawing = Drawing.of_position(position)
    letters = drawing.letters(continuations)
    usual = continuations[0].colour if continuations else None
    rows = []
    for each in continuations:
        letter = letters.get((each.x, each.y), " ") if each.x is not None and each.y is not None else " "
        colour = f" {each.colour[0].upper()}" if each.colour not in (None, usual) else ""
        rows.append(
            [
                f"{letter} {drawing.move_name(each)}{colour}",
                f"{each.count:,}" if each.count < 10**6 else short_count(each.count),
                percent(each.share),
                percent(each.win_rate),
                ""
                if each.win_low is None or each.win_high is None
                else f"{100 * each.win_low:.0f}-{100 * each.win_high:.0f}",
                "" if each.rating is None else f"{each.rating:.1f}",
                year_range(each),
            ]
        )
    return rows


def make_labels(position: Position, continuations: Sequence[Continuation], *, shares: bool) -> dict[int, Label]:
    """Return the labels of continuations: letters, or shares in percent; on a large board also counts."""
    labels: dict[int, Label] = {}
    letters = Drawing.of_position(position).letters(continuations)
    for each in continuations:
        if each.x is None or each.y is None or (each.x, each.y) not in letters:
            continue
        letter, share = letters[each.x, each.y], 100 * each.share
        short = f"{min(share, 99):.0f}" if share >= 0.5 else "<"
        lines = (letter, f"{share:.1f}%" if share < 99.95 else "100%", short_count(each.count))
        # Of two colours on a point, the more frequent one comes first.
        labels.setdefault(each.y * position.width + each.x, Label(short if shares else letter, lines))
    return labels


def details(position: Position, continuation: Continuation, games: int) -> list[str]:
    """Return two lines about a continuation of a position in some games."""
    name = Drawing.of_position(position).move_name(continuation)
    facts = [f"{continuation.wins + continuation.losses:,} decided"] if continuation.win_rate is not None else []
    facts += [f"rating {continuation.rating:.1f}"] if continuation.rating is not None else []
    facts += [years] if (years := year_range(continuation)) else []
    player = f"{continuation.colour.capitalize()} " if continuation.colour else ""
    return [f"{player}{name}: {continuation.count:,} of {games:,} games", ", ".join(facts)]


def draw_ladder(years: Sequence[YearCount], width: int, height: int, *, shares: bool) -> list[str]:
    """Return bars by year: a title, `height` lines of bars, and the first and the last year below them.

    Args:
        years: The counts of a continuation, ascending.
        width: Maximum length of a line. Adjacent years share a bar where there are more years than columns.
        shares: Draw the share of the continuation among all in its year, else its count.
    """
    known = {each.year: each for each in years if each.year is not None}
    if not known:
        return ["no years are recorded"]
    first, last = min(known), max(known)
    step = -(-(last - first + 1) // width)
    starts = range(first, last + 1, step)
    sums = [_sums([known[year] for year in range(start, start + step) if year in known]) for start in starts]
    values = [count / total if shares and total else float(count) for count, total in sums]
    most = max(values)
    bar = max(min(width // len(values), 4), 1)
    eighths = [max(round(8 * height * value / most), 1) if value else 0 for value in values]
    gap = " " if bar > 1 else ""
    lines = [
        "".join(_BARS[min(max(each - 8 * row, 0), 8)] * (bar - len(gap)) + gap for each in eighths)
        for row in reversed(range(height))
    ]
    top = f"{percent(most)} %" if shares else f"{most:,.0f}"
    span = f"per {step} years" if step > 1 else "per year"
    rest = max(bar * len(values) - len(gap) - len(str(first)), 5)
    axis = str(first) if first == last else str(first) + str(last).rjust(rest)
    return [f"{'share' if shares else 'count'} {span}, up to {top}", *lines, axis]


def _sums(years: Sequence[YearCount]) -> tuple[int, int]:
    return sum(each.count for each in years), sum(each.total for each in years)
