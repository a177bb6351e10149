"""The curves of a run on one page: loss and top-1 against positions, and against time."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kifu.learn.metrics import Row
from kifu.viz.boards import INK, LINE, MINUS, PAPER_LINE, PLUS, matplotlib_style, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE = (11.0, 7.0)  # inches
_SMOOTH = 0.05  # of the curve: how much of it is averaged into a point
_CURVES = (("loss", "loss (nats)"), ("top1", "top-1"))


def draw_curves(rows: Sequence[Row], title: str) -> bytes:
    """A PNG. rows: as `kifu.learn.metrics.COLUMNS` says."""
    from matplotlib.figure import Figure

    with matplotlib_style():
        figure = Figure(figsize=_SIZE, facecolor="white")
        figure.text(0.02, 0.945, printable(title), size=15, color=INK, weight="bold")
        figure.text(0.02, 0.91, _subtitle(rows), size=10, color=LINE)
        grid = figure.add_gridspec(2, 2, left=0.075, right=0.98, top=0.85, bottom=0.08, hspace=0.3, wspace=0.16)
        for k, (name, label) in enumerate(_CURVES):
            _draw(figure.add_subplot(grid[k, 0]), rows, name, label, "positions", 1.0)
            _draw(figure.add_subplot(grid[k, 1]), rows, name, label, "seconds", 60.0)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
    return buffer.getvalue()


def _subtitle(rows: Sequence[Row]) -> str:
    if not rows:
        return "no figures yet"
    parts = [f"{rows[-1]['step']:,.0f} steps", f"{rows[-1]['positions']:,.0f} positions"]
    parts += [f"{rows[-1]['seconds'] / 60:,.1f} minutes"]
    held = [row for row in rows if "validation_top1" in row]
    if held:
        best = max(held, key=lambda row: row["validation_top1"])
        parts += [f"validation: top-1 {best['validation_top1']:.1%}, loss {best['validation_loss']:.3f} at best"]
    return "   ·   ".join(parts)


def _draw(axes: Axes, rows: Sequence[Row], name: str, label: str, against: str, unit: float) -> None:
    from matplotlib.ticker import PercentFormatter

    learned = [(row[against] / unit, row[name]) for row in rows if name in row]
    held = [(row[against] / unit, row[f"validation_{name}"]) for row in rows if f"validation_{name}" in row]
    if learned:
        x, y = zip(*learned)
        axes.plot(x, y, color=PLUS, linewidth=0.6, alpha=0.3)
        axes.plot(x, _smooth(y), color=PLUS, linewidth=1.6, label="training")
    if held:
        axes.plot(*zip(*held), color=MINUS, linewidth=1.6, marker="o", markersize=4, label="validation")
    axes.set_ylabel(label, color=INK, fontsize=9)
    axes.set_xlabel("positions" if against == "positions" else "minutes", color=INK, fontsize=9)
    if name == "top1":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    if against == "positions":
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlim(left=0)
    axes.tick_params(colors=INK, labelsize=8, length=0)
    axes.grid(color=PAPER_LINE, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set_visible(False)
    if learned or held:
        axes.legend(fontsize=8, frameon=False, labelcolor=INK)


def _smooth(values: Sequence[float]) -> list[float]:
    """Each value with its neighbours on both sides, as many as are there."""
    reach = int(len(values) * _SMOOTH / 2)
    parts = [values[max(k - reach, 0) : k + reach + 1] for k in range(len(values))]
    return [sum(part) / len(part) for part in parts]
