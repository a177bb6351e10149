"""Charts of a corpus on one page: games by rank, year, length, result, handicap and komi, and dropped games."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kifu.corpus.stats import BANDS, ENDINGS, OTHERS, UNKNOWN, Counts, Stats
from kifu.viz.boards import HEAT, INK, LINE, MINUS, PAPER, PAPER_LINE, PLUS, RING, WOOD, matplotlib_style, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (12.0, 10.0)  # inches
_GREY = "#aaa196"
_ENDING = dict(zip(ENDINGS, (PLUS, MINUS, HEAT, RING, LINE, _GREY)))
_MAX_BARS = 12  # bars of one chart
_MIN_ROWS = 6  # rows of space, so that few bars are not thicker
_MAX_LABEL = 16  # characters of a bar's label


def draw_charts(stats: Stats) -> Figure:
    """Draw the page. Equal counts give equal bytes, see `kifu.viz.boards.save`; names of files are not shown."""
    from matplotlib.figure import Figure

    with matplotlib_style():
        figure = Figure(figsize=_SIZE, facecolor="white")
        figure.text(0.02, 0.955, _headline(stats), size=20, color=INK, weight="bold")
        figure.text(0.02, 0.925, _subtitle(stats), size=11, color=LINE)
        upper = figure.add_gridspec(2, 2, left=0.065, right=0.975, top=0.865, bottom=0.345, hspace=0.42, wspace=0.115)
        _ranks(figure.add_subplot(upper[:, 0]), stats)
        _years(figure.add_subplot(upper[0, 1]), stats)
        _lengths(figure.add_subplot(upper[1, 1]), stats)
        lower = figure.add_gridspec(1, 4, left=0.065, right=0.975, top=0.25, bottom=0.04, wspace=0.5)
        _results(figure.add_subplot(lower[0]), stats)
        _bars(figure.add_subplot(lower[1]), "handicap", stats.handicaps)
        _bars(figure.add_subplot(lower[2]), "komi", stats.komi)
        _bars(figure.add_subplot(lower[3]), "dropped", stats.dropped, RING)
    return figure


def _headline(stats: Stats) -> str:
    return f"{stats.kept:,} games"


def _subtitle(stats: Stats) -> str:
    years = [year for year in stats.years if year not in (UNKNOWN, OTHERS)]
    parts = [f"{stats.read:,} read, {stats.read - stats.kept:,} dropped"]
    parts += [f"{years[0]} to {years[-1]}"] if years else []
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
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
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


def _mark_empty(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", va="center", color=LINE, fontsize=10)


def _ranks(axes: Axes, stats: Stats) -> None:
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    style_chart(axes, "ranks")
    games = np.array(stats.ranks)
    used = [k for k in range(len(BANDS)) if games[k].any() or games[:, k].any()]
    if not used:
        return _mark_empty(axes)
    games = games[np.ix_(used, used)]
    colours = LinearSegmentedColormap.from_list("games", (PAPER, WOOD, MINUS, RING))
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
    return None


def short_count(count: int) -> str:
    """Return a count in at most four characters: "812", "9.3k", "12k", "1.4M"."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= 0.9995 * size:
            return f"{count / size:.1f}{unit}" if count < 9.95 * size else f"{count / size:.0f}{unit}"
    return str(count)


def _years(axes: Axes, stats: Stats) -> None:
    from matplotlib.ticker import MaxNLocator

    years = {int(year): count for year, count in stats.years.items() if year not in (UNKNOWN, OTHERS)}
    rest = stats.kept - sum(years.values())
    style_chart(axes, "years" + (f" ({rest:,} unknown)" if rest else ""))
    if not years:
        return _mark_empty(axes)
    axes.bar(list(years), list(years.values()), width=0.8, color=PLUS)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    _add_grid(axes)
    return None


def _lengths(axes: Axes, stats: Stats) -> None:
    style_chart(axes, "moves")
    if not stats.kept:
        return _mark_empty(axes)
    classes = [name.partition("-")[0] for name in stats.lengths]
    base = np.zeros(len(classes))
    for ending in _endings(stats):
        counts = np.array([counts.get(ending, 0) for counts in stats.lengths.values()])
        axes.bar(np.arange(len(classes)) + 0.5, counts, bottom=base, width=0.92, color=_colour(ending), label=ending)
        base += counts
    axes.set_xticks(range(len(classes)), classes)
    _add_grid(axes)
    axes.legend(fontsize=8, frameon=False, labelcolor=INK)
    return None


def _results(axes: Axes, stats: Stats) -> None:
    style_chart(axes, "winner")
    if not stats.kept:
        return _mark_empty(axes)
    base = np.zeros(len(stats.results))
    for ending in _endings(stats):
        counts = np.array([counts.get(ending, 0) for counts in stats.results.values()])
        axes.barh(range(len(counts)), counts, left=base, height=0.75, color=_colour(ending))
        base += counts
    _label_bars(axes, list(stats.results), [sum(counts.values()) for counts in stats.results.values()])
    return None


def _endings(stats: Stats) -> list[str]:
    known = {ending for counts in stats.results.values() for ending in counts}
    return [ending for ending in ENDINGS if ending in known] + sorted(known - {*ENDINGS})


def _colour(ending: str) -> str:
    return _ENDING.get(ending, _GREY)


def _bars(axes: Axes, title: str, counts: Counts, colour: str = PLUS) -> None:
    style_chart(axes, title)
    if not counts:
        return _mark_empty(axes)
    first = dict(list(counts.items())[:_MAX_BARS])
    rest = sum(counts.values()) - sum(first.values())
    first |= {OTHERS: first.get(OTHERS, 0) + rest} if rest else {}
    axes.barh(range(len(first)), list(first.values()), height=0.75, color=colour)
    _label_bars(axes, list(first), list(first.values()))
    return None
