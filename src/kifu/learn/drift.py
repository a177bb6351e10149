"""Drift: how much the scores of a net differ between windows of time, beyond what the draw of the games explains.

The bootstrap over games shows how the score would vary if other games of the same days were drawn. Days differ, too:
the players change, and so does what they play. Let m be the scores of some windows, and v the variance of each that is
due to the draw of its games. The variance between windows is then that of m less the mean of v, and at least 0 (the
method of moments for random effects). The interval for another window includes both variances; without drift it is the
interval of the bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kifu.learn.scores import MEASURES, Indices, Interval, MoveScores, Score

MIN_WINDOWS = 3
"""Minimum number of windows from which drift is estimated."""

MIN_GAMES = 5
"""Minimum number of games of such a window."""

_NORMAL = 1.96
"""The 97.5th percentile of the normal distribution."""

_STUDENT = (4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""The 97.5th percentile of Student's distribution for 2 to 10 degrees of freedom."""


class Drift(NamedTuple):
    """The drift of one measure.

    Attributes:
        spread: Standard deviation of the measure between windows.
        interval: The value with the 95 % interval for another window.
    """

    spread: float
    interval: Interval


def measure_drift(moves: MoveScores, game: Indices, window: Indices, score: Score) -> dict[str, Drift]:
    """Return the drift of each measure, or an empty dictionary if there are fewer than MIN_WINDOWS windows.

    Args:
        game: [N] game numbers from 0 on, each of which occurs.
        window: [G] the window of each game, -1 if it is unknown.
        score: The score of the same moves.
    """
    sums = moves.sums(game, len(window))
    games = np.bincount(window[window >= 0], minlength=1)
    used = np.flatnonzero(games >= MIN_GAMES)
    if len(used) < MIN_WINDOWS:
        return {}
    parts = [sums[window == each] for each in used]
    count = np.array([part[:, 0].sum() for part in parts])
    mean = np.stack([part[:, 1:].sum(0) for part in parts]) / count[:, None]
    residuals = [part[:, 1:] - part[:, :1] * m for part, m in zip(parts, mean)]
    by_draw = [(r**2).sum(0) / n**2 * len(r) / (len(r) - 1) for r, n in zip(residuals, count)]
    between = np.maximum(mean.var(0, ddof=1) - np.mean(by_draw, 0), 0)
    share = count / count.sum()
    # The value itself is a mean over drifting windows; another window drifts once more.
    extra = _student(len(used) - 1) ** 2 * between * (1 + (share**2).sum())
    return {
        name: Drift(float(np.sqrt(between[m])), _widen(score.measure(name), float(extra[m])))
        for m, name in enumerate(MEASURES)
    }


def pool_sets(scores: Sequence[Score]) -> dict[str, Drift]:
    """Return the mean of each measure over sets of games, its spread between them, and the interval for another set.

    Returns an empty dictionary if there are fewer than MIN_WINDOWS sets.

    Args:
        scores: The scores of one net on different sets.
    """
    if len(scores) < MIN_WINDOWS:
        return {}
    pooled = {}
    for name in MEASURES:
        value, low, high = np.array([score.measure(name) for score in scores]).T
        by_draw = ((high - low) / (2 * _NORMAL)) ** 2
        between = max(float(value.var(ddof=1) - by_draw.mean()), 0.0)
        count, mean = len(value), float(value.mean())
        arm = _student(count - 1) * (between * (1 + 1 / count) + by_draw.sum() / count**2) ** 0.5
        pooled[name] = Drift(between**0.5, Interval(mean, max(mean - arm, 0.0), mean + arm))
    return pooled


def _student(degrees: int) -> float:
    """Return the 97.5th percentile of Student's distribution, accurate to 1 %."""
    return _STUDENT[degrees - 2] if degrees - 2 < len(_STUDENT) else _NORMAL + 2.4 / degrees


def _widen(interval: Interval, extra: float) -> Interval:
    """Return the interval, none of which is below 0, with the square of both its arms increased by `extra`."""
    value, low, high = interval
    if not extra:
        return interval
    below, above = math.hypot(value - low, extra**0.5), math.hypot(high - value, extra**0.5)
    return Interval(value, max(value - below, 0.0), value + above)
