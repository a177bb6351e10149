"""Charts of a corpus on one page: games by rank, year, length, result, handicap and komi, and dropped games."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kifu.corpus.stats import BANDS, ENDINGS, OTHERS, UNKNOWN, Counts, Stats
from kifu.errors import printable
from kifu.text import counted, short_count
from kifu.viz.painter import HEAT, INK, LINE, MINUS, PAPER, PAPER_LINE, PLUS, RING, WOOD, matplotlib_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches: the width of the page, the height of its parts from the top, and of a row of small and of large panels.
_WIDTH, _HEAD, _GAP, _FOOT, _LOW, _HIGH = 12.0, 1.35, 0.95, 0.4, 2.1, 5.2
_GREY = "#aaa196"
_FEW = "#f5e7c9"  # a single game
_ENDING = dict(zip(ENDINGS, (PLUS, MINUS, HEAT, RING, LINE, _GREY)))
_MAX_BARS = 12  # bars of one chart
_MIN_ROWS = 6  # rows of space, so that few bars are not thicker
_MIN_YEARS = 8  # years of space, so that few bars are not wider
_MAX_LABEL = 16  # characters of a bar's label


_Draw: TypeAlias = "Callable[[Axes, Stats], None]"


def draw_charts(stats: Stats) -> Figure:
    """Draw the page, without panels that have no data.

    Equal counts give equal bytes, see `kifu.viz.boards.save`; names of files are not shown.
    """
    from matplotlib.figure import Figure

    ranks = _ranks if _ranked_bands(stats) else None
    upper: list[_Draw] = [panel for panel, shown in ((_years, _known_years(stats)), (_lengths, stats.kept)) if shown]
    lower: list[_Draw] = [_results] if stats.kept else []
    for title, counts, colour in (
        ("handicap", stats.handicaps, PLUS),
        ("komi", stats.komi, PLUS),
        ("dropped", stats.dropped, RING),
    ):
        lower += [partial(_bars, title=title, counts=counts, colour=colour)] if counts else []
    upper_height = 0.0 if not upper else _LOW if ranks is None else _HIGH
    height = _HEAD + upper_height + (_GAP if upper and lower else 0) + (_LOW if lower else 0) + _FOOT
    with matplotlib_style():
        figure = Figure(figsize=(_WIDTH, height), facecolor="white")
        figure.text(0.02, 1 - 0.45 / height, _headline(stats), size=20, color=INK, weight="bold")
        figure.text(0.02, 1 - 0.75 / height, _subtitle(stats), size=11, color=LINE)
        sides = {"left": 0.075, "right": 0.975}
        if upper:
            frame = {"top": 1 - _HEAD / height, "bottom": 1 - (_HEAD + upper_height) / height, **sides}
            if ranks is None:
                grid = figure.add_gridspec(1, len(upper), wspace=0.115, **frame)
                slots = [grid[0, k] for k in range(len(upper))]
            else:
                grid = figure.add_gridspec(len(upper), 2, hspace=0.42, wspace=0.115, **frame)
                slots = [grid[k, 1] for k in range(len(upper))]
                ranks(figure.add_subplot(grid[:, 0]), stats)
            for panel, slot in zip(upper, slots):
                panel(figure.add_subplot(slot), stats)
        if lower:
            grid = figure.add_gridspec(
                1, max(len(lower), 3), top=(_FOOT + _LOW) / height, bottom=_FOOT / height, wspace=0.5, **sides
            )
            for k, panel in enumerate(lower):
                panel(figure.add_subplot(grid[k]), stats)
    return figure


def _headline(stats: Stats) -> str:
    return counted(stats.kept, "game")


def _known_years(stats: Stats) -> Counts:
    return {year: count for year, count in stats.years.items() if year not in (UNKNOWN, OTHERS)}


def _subtitle(stats: Stats) -> str:
    years = list(_known_years(stats))
    parts = [f"{stats.read:,} read, {stats.read - stats.kept:,} dropped"]
    parts += [years[0] if len(years) == 1 else f"{years[0]} to {years[-1]}"] if years else []
    parts += [", ".join(list(stats.boards)[:3])] if stats.kept else []
    return printable("   ·   ".join(parts))


def style_chart(axes: Axes, title: str) -> None:
    """Style empty axes and set their title."""
    axes.set_title(title, loc="left", fontsize=11, color=INK, weight="bold")
    axes.set_facecolor("white")
    axes.tick_params(colors=INK, labelsize=8, length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def _add_grid(axes: Axes) -> None:
    """Add grid lines at round numbers of games."""
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    axes.grid(axis="y", color=PAPER_LINE, linewidth=0.7)
    axes.set_axisbelow(True)


def _label_bars(axes: Axes, names: Sequence[str], counts: Sequence[int]) -> None:
    """Label horizontal bars with names and counts, the first at the top."""
    padding = max(counts) * 0.02
    for k, count in enumerate(counts):
        axes.text(count + padding, k, f"{count:,}", va="center", fontsize=7.5, color=INK)
    axes.set_yticks(range(len(names)), [printable(name.replace("_", " "))[:_MAX_LABEL] for name in names])
    axes.set_ylim(max(len(names), _MIN_ROWS) - 0.5, -0.5)
    axes.set_xlim(0, max(counts) * 1.2)
    axes.set_xticks([])


def _ranked_bands(stats: Stats) -> list[int]:
    """Return the bands to show, none if no rank is known: those with games, and neighbours up to _MIN_ROWS."""
    games = np.array(stats.ranks)
    used = np.flatnonzero(games.any(0) | games.any(1)).tolist()
    ranked = [band for band in used if BANDS[band] != UNKNOWN]
    if not ranked:
        return []
    low, high = ranked[0], ranked[-1]
    while high - low < _MIN_ROWS - 1:
        low, high = max(low - 1, 0), min(high + 1, len(BANDS) - 2)
    return sorted({*used, *(range(low, high + 1) if len(ranked) < _MIN_ROWS else [])})


def _ranks(axes: Axes, stats: Stats) -> None:
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    style_chart(axes, "ranks")
    used = _ranked_bands(stats)
    games = np.array(stats.ranks)[np.ix_(used, used)]
    colours = LinearSegmentedColormap.from_list("games", (_FEW, WOOD, MINUS, RING))
    norm = LogNorm(1, max(games.max(), 2))
    axes.imshow(np.ma.masked_equal(games, 0), cmap=colours, norm=norm, aspect="equal")
    names = [BANDS[k] for k in used]
    axes.set_xticks(range(len(used)), names, rotation=45 if len(used) > 8 else 0)
    axes.set_yticks(range(len(used)), names)
    for gap in range(1, len(used)):
        axes.axhline(gap - 0.5, color="white", linewidth=1)
        axes.axvline(gap - 0.5, color="white", linewidth=1)
    axes.set_facecolor(PAPER)
    axes.set_anchor("NW")
    axes.set_xlabel("White", color=INK, fontsize=9)
    axes.set_ylabel("Black", color=INK, fontsize=9)
    for (row, column), count in np.ndenumerate(games):
        if count:
            ink = "white" if norm(count) > 0.75 else INK
            axes.text(column, row, short_count(count), ha="center", va="center", fontsize=6.5, color=ink)


def _years(axes: Axes, stats: Stats) -> None:
    from matplotlib.ticker import MaxNLocator

    years = {int(year): count for year, count in _known_years(stats).items()}
    rest = stats.kept - sum(years.values())
    style_chart(axes, "years" + (f" ({rest:,} unknown)" if rest else ""))
    axes.bar(list(years), list(years.values()), width=0.8, color=PLUS)
    first, last = min(years), max(years)
    margin = max(0, _MIN_YEARS - 1 - last + first) / 2 + 0.6
    axes.set_xlim(first - margin, last + margin)
    if last - first < _MIN_YEARS:
        axes.set_xticks(range(first, last + 1))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    _add_grid(axes)


def _lengths(axes: Axes, stats: Stats) -> None:
    style_chart(axes, "moves")
    classes = [name.partition("-")[0] for name in stats.lengths]
    base = np.zeros(len(classes))
    for ending in _endings(stats):
        counts = np.array([counts.get(ending, 0) for counts in stats.lengths.values()])
        axes.bar(np.arange(len(classes)) + 0.5, counts, bottom=base, width=0.92, color=_colour(ending), label=ending)
        base += counts
    axes.set_xticks(range(len(classes)), classes)
    _add_grid(axes)
    axes.legend(fontsize=8, facecolor="white", edgecolor="none", framealpha=1, labelcolor=INK)


def _results(axes: Axes, stats: Stats) -> None:
    style_chart(axes, "winner")
    base = np.zeros(len(stats.results))
    for ending in _endings(stats):
        counts = np.array([counts.get(ending, 0) for counts in stats.results.values()])
        axes.barh(range(len(counts)), counts, left=base, height=0.75, color=_colour(ending))
        base += counts
    _label_bars(axes, list(stats.results), [sum(counts.values()) for counts in stats.results.values()])


def _endings(stats: Stats) -> list[str]:
    known = {ending for counts in stats.results.values() for ending in counts}
    return [ending for ending in ENDINGS if ending in known] + sorted(known - {*ENDINGS})


def _colour(ending: str) -> str:
    return _ENDING.get(ending, _GREY)


def _bars(axes: Axes, stats: Stats, title: str, counts: Counts, colour: str) -> None:
    style_chart(axes, title)
    first = dict(list(counts.items())[:_MAX_BARS])
    rest = sum(counts.values()) - sum(first.values())
    first |= {OTHERS: first.get(OTHERS, 0) + rest} if rest else {}
    axes.barh(range(len(first)), list(first.values()), height=0.75, color=colour)
    _label_bars(axes, list(first), list(first.values()))
