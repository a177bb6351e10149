"""Curves of a training run, and charts of an evaluation, from plain values."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kifu.arrays import Doubles
from kifu.errors import printable
from kifu.viz.boards import HEAT, INK, LINE, MINUS, PAPER_LINE, PLUS, RING, matplotlib_style, style_chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RUN_SIZE = (11.0, 7.0)  # inches
_SMOOTHING = 0.05  # share of the curve that is averaged into a point
_MAX_SECONDS = 150  # longer runs have an axis of minutes
_RUN_CURVES = (("loss", "loss (nats)"), ("top1", "top-1"))

_CHART_SIZE = (5.4, 3.5)  # inches
_COLOURS = (PLUS, MINUS, HEAT, RING, LINE)
_ROTATE_ABOVE = 44  # letters of all group names; longer labels are rotated
_NAME_LENGTH = 24  # letters of a net's name


def draw_training_curves(rows: Sequence[Mapping[str, float]], title: str) -> bytes:
    """Draw loss and top-1 against positions and time.

    Args:
        rows: Rows with the columns step, positions and seconds, and any of loss, top1, validation_loss and
            validation_top1.
    """
    with matplotlib_style() as new_figure:
        figure = new_figure(figsize=_RUN_SIZE, facecolor="white")
        figure.text(0.02, 0.945, printable(title), size=15, color=INK, weight="bold")
        figure.text(0.02, 0.91, _run_subtitle(rows), size=10, color=LINE)
        grid = figure.add_gridspec(2, 2, left=0.075, right=0.98, top=0.85, bottom=0.08, hspace=0.3, wspace=0.16)
        for k, (name, label) in enumerate(_RUN_CURVES):
            _draw_run_curve(figure.add_subplot(grid[k, 0]), rows, name, label, "positions")
            _draw_run_curve(figure.add_subplot(grid[k, 1]), rows, name, label, "seconds")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
    return buffer.getvalue()


def _run_subtitle(rows: Sequence[Mapping[str, float]]) -> str:
    if not rows:
        return "no figures yet"
    steps, seconds = rows[-1]["step"], rows[-1]["seconds"]
    parts = [f"{steps:,.0f} step{'s' * (steps != 1)}", f"{rows[-1]['positions']:,.0f} positions"]
    parts += [f"{seconds / 60:,.1f} minutes" if _in_minutes(rows) else f"{seconds:.0f} seconds"]
    validations = [row for row in rows if "validation_top1" in row]
    if validations:
        best = max(validations, key=lambda row: row["validation_top1"])
        parts += [f"best validation: top-1 {best['validation_top1']:.1%}, loss {best['validation_loss']:.3f}"]
    return "   ·   ".join(parts)


def _in_minutes(rows: Sequence[Mapping[str, float]]) -> bool:
    return rows[-1]["seconds"] > _MAX_SECONDS if rows else True


def _draw_run_curve(axes: Axes, rows: Sequence[Mapping[str, float]], name: str, label: str, against: str) -> None:
    from matplotlib.ticker import PercentFormatter

    unit = 60.0 if against == "seconds" and _in_minutes(rows) else 1.0
    training = [(row[against] / unit, row[name]) for row in rows if name in row]
    validation = [(row[against] / unit, row[f"validation_{name}"]) for row in rows if f"validation_{name}" in row]
    if training:
        x, y = zip(*training)
        axes.plot(x, y, color=PLUS, linewidth=0.6, alpha=0.3)
        axes.plot(x, _smooth(y), color=PLUS, linewidth=1.6, label="training", marker="." if len(x) == 1 else "")
    if validation:
        axes.plot(*zip(*validation), color=MINUS, linewidth=1.6, marker="o", markersize=4, label="validation")
    axes.set_ylabel(label, color=INK, fontsize=9)
    axes.set_xlabel("minutes" if unit > 1 else against, color=INK, fontsize=9)
    if name == "top1":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    if against == "positions":
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlim(left=0)
    axes.tick_params(colors=INK, labelsize=8, length=0)
    axes.grid(color=PAPER_LINE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    if training or validation:
        axes.legend(fontsize=8, frameon=False, labelcolor=INK)


def _smooth(values: Sequence[float]) -> list[float]:
    reach = int(len(values) * _SMOOTHING / 2)
    windows = [values[max(k - reach, 0) : k + reach + 1] for k in range(len(values))]
    return [sum(window) / len(window) for window in windows]


def draw_groups(title: str, groups: Sequence[str], nets: Mapping[str, Doubles], connect: bool = False) -> Figure:
    """Draw shares by group with their intervals, one series per net.

    nets: by a net's name, [G, 3] percent: value, low and high.
    """
    with matplotlib_style():
        figure, axes = _new_chart(title)
        for k, (name, intervals) in enumerate(nets.items()):
            value, low, high = intervals.T
            shift = 0.0 if len(nets) == 1 else 0.3 * (k / (len(nets) - 1) - 0.5)
            x, colour = np.arange(len(groups)) + shift, _COLOURS[k % len(_COLOURS)]
            error = np.maximum([value - low, high - value], 0)
            axes.errorbar(x, value, error, fmt="o", color=colour, markersize=5, elinewidth=1.4, label=_label(name))
            axes.plot(x, value, color=colour, linewidth=1, alpha=0.35 if connect else 0)
        labels = [group.replace(" and later", "+").replace(" or more", "+") for group in groups]
        rotate = sum(map(len, labels)) > _ROTATE_ABOVE
        axes.set_xticks(
            range(len(groups)), labels, rotation=50 if rotate else 0, ha="right" if rotate else "center",
            rotation_mode="anchor",
        )  # fmt: skip
        axes.set_xlim(-0.6, len(groups) - 0.4)
        axes.set_ylim(bottom=0)
        _finish_chart(axes, len(nets))
    return figure


def draw_calibration(nets: Mapping[str, Doubles]) -> Figure:
    """Draw how often the most likely move was played against its probability; larger dots have more positions.

    Args:
        nets: By a net's name, [bins, 5]: confidence in percent; accuracy, its low and high in percent; share of the
            positions from 0 to 1.
    """
    with matplotlib_style():
        figure, axes = _new_chart("accuracy (%) by confidence (%)")
        axes.plot((0, 100), (0, 100), color=LINE, linewidth=1, linestyle=(0, (4, 3)))
        for k, (name, bins) in enumerate(nets.items()):
            colour = _COLOURS[k % len(_COLOURS)]
            confidence, value, low, high, share = bins.T
            error = np.maximum([value - low, high - value], 0)
            axes.errorbar(confidence, value, error, fmt="none", color=colour, elinewidth=1.2)
            axes.plot(confidence, value, color=colour, linewidth=1, alpha=0.5)
            axes.scatter(confidence, value, 15 + 260 * share, color=colour, alpha=0.85)
            axes.plot([], [], "o", color=colour, markersize=5, label=_label(name))
        axes.set_xlim(0, 102)
        axes.set_ylim(0, 102)
        _finish_chart(axes, len(nets))
    return figure


def _new_chart(title: str) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=_CHART_SIZE, facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    style_chart(axes, title)
    return figure, axes


def _finish_chart(axes: Axes, series: int) -> None:
    axes.grid(axis="y", color=PAPER_LINE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=9)
    if series > 1:
        axes.legend(loc="lower right", fontsize=8, frameon=False, labelcolor=INK)


def _label(name: str) -> str:
    """Return a net's name for a legend; the invisible prefix keeps matplotlib from hiding names that begin with _."""
    return f"\u200b{printable(name)[:_NAME_LENGTH]}"
