"""Charts of an evaluation, each a picture of its own, so that a page can lay them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kifu.learn.evaluate import Evaluation
from kifu.viz.boards import HEAT, INK, LINE, MINUS, PAPER_LINE, PLUS, RING, matplotlib_style, printable
from kifu.viz.charts import style_chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (5.4, 3.5)  # inches
_COLOURS = (PLUS, MINUS, HEAT, RING, LINE)
_CROWDED = 44  # letters; names of groups that have more together are turned
_FEW = 5  # games; groups of fewer are in the tables only
_LETTERS = 24  # of a net's name


def draw_breakdown(found: Evaluation, name: str, title: str) -> Figure:
    """Top-1 of each net by the groups of a breakdown (`kifu.learn.breakdown.BREAKDOWNS`), with intervals."""
    scores = found.nets[0].by[name]
    groups = [group for group, score in scores.items() if score.games >= _FEW] or list(scores)
    with matplotlib_style():
        figure, axes = _new(title)
        for k, net in enumerate(found.nets):
            intervals = np.array([net.by[name][group].top1 for group in groups]) * 100
            value, low, high = intervals.T
            shift = 0.0 if len(found.nets) == 1 else 0.3 * (k / (len(found.nets) - 1) - 0.5)
            x, colour = np.arange(len(groups)) + shift, _COLOURS[k % len(_COLOURS)]
            error = np.maximum([value - low, high - value], 0)
            axes.errorbar(x, value, error, fmt="o", color=colour, markersize=5, elinewidth=1.4, label=_label(net.name))
            axes.plot(x, value, color=colour, linewidth=1, alpha=0.35 if name == "move" else 0)
        names = [group.replace(" and later", "+").replace(" or more", "+") for group in groups]
        crowded = sum(map(len, names)) > _CROWDED
        axes.set_xticks(
            range(len(groups)), names, rotation=50 if crowded else 0, ha="right" if crowded else "center",
            rotation_mode="anchor",
        )  # fmt: skip
        axes.set_xlim(-0.6, len(groups) - 0.4)
        axes.set_ylim(bottom=0)
        _finish(axes, found)
    return figure


def draw_calibration(found: Evaluation) -> Figure:
    """How often the likeliest move was played, by how sure the net was; the larger a dot, the more positions."""
    with matplotlib_style():
        figure, axes = _new("right (%), by how sure of it (%)")
        axes.plot((0, 100), (0, 100), color=LINE, linewidth=1, linestyle=(0, (4, 3)))
        for k, net in enumerate(found.nets):
            bins, colour = net.calibration.bins, _COLOURS[k % len(_COLOURS)]
            sure = np.array([each.sure for each in bins]) * 100
            value, low, high = (np.array([each.right for each in bins]) * 100).T
            share = np.array([each.positions for each in bins]) / found.positions
            axes.errorbar(
                sure, value, np.maximum([value - low, high - value], 0), fmt="none", color=colour, elinewidth=1.2
            )
            axes.plot(sure, value, color=colour, linewidth=1, alpha=0.5)
            axes.scatter(sure, value, 15 + 260 * share, color=colour, alpha=0.85)
            axes.plot([], [], "o", color=colour, markersize=5, label=_label(net.name))
        axes.set_xlim(0, 102)
        axes.set_ylim(0, 102)
        _finish(axes, found)
    return figure


def _new(title: str) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    style_chart(axes, title)
    return figure, axes


def _finish(axes: Axes, found: Evaluation) -> None:
    axes.grid(axis="y", color=PAPER_LINE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=9)
    if len(found.nets) > 1:
        axes.legend(loc="lower right", fontsize=8, frameon=False, labelcolor=INK)


def _label(name: str) -> str:
    """A net's name for a legend, where one that begins with _ would not be shown."""
    return f"\u200b{printable(name)[:_LETTERS]}"
