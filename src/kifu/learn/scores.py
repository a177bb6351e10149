"""Scores of predicted moves, with confidence intervals by the bootstrap over accounts.

Moves of one player are similar, so that they carry less information than the same number of moves of different players.
Therefore whole accounts are resampled with replacement, each with all its moves (the cluster bootstrap, Field and Welsh
2007). An interval spans the 2.5th to the 97.5th percentile of the score over `RESAMPLES` draws.

Arguments `account` are numbers of the accounts that N moves count for, [N], from 0 on, each of which occurs; see
`kifu.learn.positions.NetPositions.accounts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.datasets.examples import UNKNOWN
from kifu.errors import FormatError, RecipeError

if TYPE_CHECKING:
    from kifu.learn.evaluation import Evaluation
    from kifu.learn.inference import Net
    from kifu.learn.positions import NetPositions

TOPS = (1, 3, 5)

MEASURES = (*(f"top{top}" for top in TOPS), "nll")
"""Names of the measures of a `Score`."""

RESAMPLES = 1000

BINS = 15
"""Equally wide bins of the calibration, as many as Guo et al. 2017 (arXiv:1706.04599) use."""

_PERCENTILES = (2.5, 97.5)

_CHUNK = 1 << 22
"""Approximate number of accounts that are resampled at once."""

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Interval(NamedTuple):
    """A value with its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Score:
    """The accuracy of a net on some positions: shares of moves among its best 1, 3 and 5; the mean of -ln p in nats."""

    positions: int
    accounts: int
    top1: Interval
    top3: Interval
    top5: Interval
    nll: Interval

    def measure(self, name: str) -> Interval:
        """Return one of MEASURES."""
        interval: Interval = getattr(self, name)
        return interval


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Positions whose most likely move has a probability from start to stop.

    Attributes:
        accuracy: Share of positions whose most likely move was played.
    """

    start: float
    stop: float
    positions: int
    confidence: float
    accuracy: Interval


@dataclass(frozen=True, slots=True)
class Calibration:
    """Agreement of a net's probabilities with its accuracy.

    Attributes:
        error: Expected calibration error: the mean over positions of the difference between accuracy and confidence in
            their bin. Chance makes it larger than it really is, the more so the fewer positions there are, and even
            more in the draws of the interval.
    """

    error: Interval
    bins: tuple[CalibrationBin, ...]


@dataclass(frozen=True, slots=True)
class ValueScore:
    """The errors of a net's values, from -1 (the side to move loses) to 1 (it wins).

    Attributes:
        squared: Mean squared error; a constant 0 has 1 if there are no draws.
        bias_black: Mean of value - result where Black is to move; None if there are no such positions.
    """

    positions: int
    accounts: int
    squared: Interval
    bias_black: Interval | None
    bias_white: Interval | None


@dataclass(frozen=True, slots=True)
class MoveScores:
    """A net's evaluation of N moves that were played.

    Attributes:
        preferred: [N] uint16, number of moves that are preferred; of equally likely moves the lower one comes first.
        nll: [N] float32, -ln of the move's probability; NaN for a pass if the net does not predict passes.
        confidence: [N] float32, probability of the most likely move; 0 if no move is legal.
        entropy: [N] float32, entropy of the probabilities in nats.
        best: [N] uint16, the most likely move.
        value: [N] float32, from -1 (the player of the move loses) to 1; NaN without a value head.
    """

    preferred: npt.NDArray[np.uint16]
    nll: npt.NDArray[np.float32]
    confidence: npt.NDArray[np.float32]
    entropy: npt.NDArray[np.float32]
    best: npt.NDArray[np.uint16]
    value: npt.NDArray[np.float32]

    @classmethod
    def empty(cls, count: int) -> MoveScores:
        """Return uninitialized scores of `count` moves."""
        nll, confidence, entropy, value = np.empty((4, count), np.float32)
        return cls(np.empty(count, np.uint16), nll, confidence, entropy, np.empty(count, np.uint16), value)

    def __len__(self) -> int:
        return len(self.preferred)

    def sums(self, account: Indices, accounts: int) -> Floats:
        """Return [accounts, 1 + len(MEASURES)]: the number of positions and the sum of each measure by account."""
        return _sum_by_key(account, accounts, [*(self.preferred < top for top in TOPS), self.nll])


def _sum_by_key(key: Indices, keys: int, values: Sequence[npt.NDArray[np.generic]]) -> Floats:
    """Return [keys, 1 + len(values)]: counts and sums of the values by key."""
    columns = [np.bincount(key, minlength=keys)]
    columns += [np.bincount(key, weights=each, minlength=keys) for each in values]
    return np.stack(columns, 1).astype(np.float64)


def resample(sums: Floats, seed: int) -> Floats:
    """Return [RESAMPLES, ...] totals of sums [A, ...] over A accounts drawn with replacement.

    The draws depend on the seed and A alone, so that totals of different sums refer to the same draws.
    """
    accounts, flat = len(sums), sums.reshape(len(sums), -1)
    rng = np.random.default_rng(seed)
    totals = np.empty((RESAMPLES, flat.shape[1]))
    step = max(_CHUNK // accounts, 1)
    for first in range(0, RESAMPLES, step):
        count = min(step, RESAMPLES - first)
        draws = rng.integers(accounts, size=(count, accounts)) + np.arange(count)[:, None] * accounts
        times = np.bincount(draws.ravel(), minlength=count * accounts).reshape(count, accounts)
        totals[first : first + count] = times.astype(np.float64) @ flat
    return totals.reshape(RESAMPLES, *sums.shape[1:])


def _means(sums: Floats) -> Floats:
    """Return [..., K] means of sums [..., 1 + K] whose first entry is the count; NaN where the count is 0."""
    with np.errstate(invalid="ignore"):
        means: Floats = sums[..., 1:] / sums[..., :1]
    return means


def _interval(value: float, draws: Floats) -> Interval:
    """Return the interval of draws [RESAMPLES], which are NaN for draws without such positions."""
    if np.isnan(draws).all():
        return Interval(value, math.nan, math.nan)
    low, high = np.nanpercentile(draws, _PERCENTILES)
    return Interval(float(value), float(low), float(high))


def score(moves: MoveScores, account: Indices, seed: int) -> Score:
    """Return the score of all positions."""
    return score_groups(moves, account, np.zeros(len(account), np.int64), ("",), seed)[""]


def score_groups(
    moves: MoveScores, account: Indices, group: Indices, names: Sequence[str], seed: int
) -> dict[str, Score]:
    """Return the score of each group that has positions, in the order of the names."""
    accounts, groups = int(account.max()) + 1, len(names)
    sums = moves.sums(account * groups + group, accounts * groups).reshape(accounts, groups, -1)
    present = np.flatnonzero(sums[..., 0].any(0))
    sums = sums[:, present]
    value, draws = _means(sums.sum(0)), _means(resample(sums, seed))
    return {
        names[k]: Score(
            int(sums[:, i, 0].sum()),
            int(np.count_nonzero(sums[:, i, 0])),
            *(_interval(value[i, m], draws[:, i, m]) for m in range(len(MEASURES))),
        )
        for i, k in enumerate(present.tolist())
    }


def mean_entropy(moves: MoveScores, account: Indices, seed: int) -> Interval:
    """Return the mean entropy of all positions; arguments as for `score`."""
    sums = _sum_by_key(account, int(account.max()) + 1, [moves.entropy])
    return _interval(float(_means(sums.sum(0))[0]), _means(resample(sums, seed))[:, 0])


def differences(one: MoveScores, other: MoveScores, account: Indices, seed: int) -> dict[str, Interval]:
    """Return by measure how much more `one` scores than `other` on the same positions.

    Both are resampled together, so that positions that are hard for both do not widen the interval.
    """
    accounts = int(account.max()) + 1
    sums = one.sums(account, accounts)
    sums[:, 1:] -= other.sums(account, accounts)[:, 1:]
    value, draws = _means(sums.sum(0)), _means(resample(sums, seed))
    return {name: _interval(value[m], draws[:, m]) for m, name in enumerate(MEASURES)}


def calibrate(moves: MoveScores, account: Indices, seed: int) -> Calibration:
    """Return how well the probability of the most likely move matches its accuracy."""
    accounts = int(account.max()) + 1
    which = np.clip((moves.confidence.astype(np.float64) * BINS).astype(np.int64), 0, BINS - 1)
    sums = _sum_by_key(account * BINS + which, accounts * BINS, [moves.confidence, moves.preferred == 0]).reshape(
        accounts, BINS, 3
    )
    total, resampled = sums.sum(0), resample(sums, seed)
    means, draws = _means(total), _means(resampled)
    bins = tuple(
        CalibrationBin(
            k / BINS, (k + 1) / BINS, int(total[k, 0]), float(means[k, 0]), _interval(means[k, 1], draws[:, k, 1])
        )
        for k in np.flatnonzero(total[:, 0]).tolist()
    )
    return Calibration(_interval(float(_calibration_error(total)), _calibration_error(resampled)), bins)


def _calibration_error(sums: Floats) -> Floats:
    error: Floats = np.abs(sums[..., 2] - sums[..., 1]).sum(-1) / sums[..., 0].sum(-1)
    return error


def value_error(value: Floats32, result: npt.NDArray[np.int8], white: Bools, account: Indices, seed: int) -> ValueScore:
    """Return the errors of values, over the positions whose result is known.

    Args:
        result: [N] int8, 1 if the side to move wins, -1 if it loses, 0 for a draw, UNKNOWN if that is not known.
        white: [N] bool, whether White is to move.
    """
    known = result != UNKNOWN
    if not known.any():
        raise RecipeError("value_error() requires positions with a known result")
    error, side = value[known].astype(np.float64) - result[known], white[known].astype(np.int64)
    account = np.unique(account[known], return_inverse=True)[1]
    accounts = int(account.max()) + 1
    sums = _sum_by_key(account * 2 + side, accounts * 2, [error**2, error]).reshape(accounts, 2, 3)
    total = np.concatenate([sums.sum(1, keepdims=True), sums], 1)  # [accounts, 3, 3]: all, Black, White
    means, draws = _means(total.sum(0)), _means(resample(total, seed))
    return ValueScore(
        len(error),
        accounts,
        _interval(means[0, 0], draws[:, 0, 0]),
        *(None if np.isnan(means[k, 1]) else _interval(means[k, 1], draws[:, k, 1]) for k in (1, 2)),
    )


# Drift: how much the scores of a net differ between windows of time, beyond what the draw of the accounts explains. The
# bootstrap over accounts shows how the score would vary if other players of the same days were drawn. Days differ, too:
# the players change, and so does what they play. Let m be the scores of some windows, and v the variance of each that
# is due to the draw of its accounts. The variance between windows is then that of m less the mean of v, and at least 0
# (the method of moments for random effects). The interval for another window includes both variances; without drift
# it is the interval of the bootstrap.

MIN_WINDOWS = 3
"""Minimum number of windows from which drift is estimated."""

MIN_ACCOUNTS = 5
"""Minimum number of accounts of such a window."""

_NORMAL = 1.96
"""The 97.5th percentile of the normal distribution."""

_STUDENT = (4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""The 97.5th percentile of Student's distribution for 2 to 10 degrees of freedom."""


class Drift(NamedTuple):
    """The drift of a measure: its standard deviation between windows, and its 95 % interval for another window."""

    spread: float
    interval: Interval


def measure_drift(moves: MoveScores, account: Indices, window: Indices, score: Score) -> dict[str, Drift]:
    """Return the drift of each measure, or an empty dictionary if there are fewer than MIN_WINDOWS windows.

    Args:
        window: [N] the window of each move, -1 if it is unknown.
    """
    accounts, windows = int(account.max()) + 1, int(window.max()) + 1
    key = account * (windows + 1) + window % (windows + 1)  # the unknown ones come last
    sums = moves.sums(key, accounts * (windows + 1)).reshape(accounts, windows + 1, -1)
    parts = [sums[sums[:, k, 0] > 0, k] for k in range(windows)]
    parts = [part for part in parts if len(part) >= MIN_ACCOUNTS]
    if len(parts) < MIN_WINDOWS:
        return {}
    count = np.array([part[:, 0].sum() for part in parts])
    mean = np.stack([part[:, 1:].sum(0) for part in parts]) / count[:, None]
    residuals = [part[:, 1:] - part[:, :1] * m for part, m in zip(parts, mean)]
    by_draw = [(r**2).sum(0) / n**2 * len(r) / (len(r) - 1) for r, n in zip(residuals, count)]
    between = np.maximum(mean.var(0, ddof=1) - np.mean(by_draw, 0), 0)
    share = count / count.sum()
    # The value itself is a mean over drifting windows; another window drifts once more.
    extra = _student(len(parts) - 1) ** 2 * between * (1 + (share**2).sum())
    return {
        name: Drift(float(np.sqrt(between[m])), _widen(score.measure(name), float(extra[m])))
        for m, name in enumerate(MEASURES)
    }


def pool_sets(scores: Sequence[Score]) -> dict[str, Drift]:
    """Return the mean of each measure over sets of games, its spread between them, and the interval for another set.

    Returns an empty dictionary if there are fewer than MIN_WINDOWS sets.
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


def score_moves(
    net: Net, positions: NetPositions, *, legal: bool, jobs: int, advance: Callable[[Evaluation], object]
) -> MoveScores:
    """Return the scores of the moves played; `advance` is called with the evaluation of each batch.

    Raises FormatError if a net returns NaN.
    """
    scores, start = MoveScores.empty(len(positions)), 0
    moves = positions.move if len(positions) else np.empty(0, np.int64)
    for evaluation in net.stream(positions, legal=legal, jobs=jobs):
        part = slice(start, start + len(evaluation))
        _store_scores(scores, part, evaluation, moves[part], net.name)
        start = part.stop
        advance(evaluation)
    return scores


def _store_scores(out: MoveScores, part: slice, evaluation: Evaluation, move: npt.NDArray[np.int64], name: str) -> None:
    log_probs, moves = evaluation.log_probs, evaluation.log_probs.shape[1]
    predicted, move = move < moves, np.minimum(move, moves - 1)[:, None]
    played = np.take_along_axis(log_probs, move, 1)
    preferred = log_probs > played
    preferred |= (log_probs == played) & (np.arange(moves) < move)
    nll = -played[:, 0]
    finite = np.isfinite(nll) | ~predicted
    for head in (evaluation.value, evaluation.ownership, evaluation.score):
        if head is not None:
            finite &= np.isfinite(head.reshape(len(head), -1)).all(1)
    if not finite.all():
        raise FormatError(f"net {name} returns values that are NaN or too large")
    probabilities = np.exp(log_probs)
    with np.errstate(invalid="ignore"):
        terms = np.where(probabilities > 0, probabilities * log_probs, 0)
    out.preferred[part] = preferred.sum(1)
    out.nll[part] = np.where(predicted, nll, np.nan)
    out.confidence[part] = probabilities.max(1)
    out.entropy[part] = -terms.sum(1)
    out.best[part] = log_probs.argmax(1)
    out.value[part] = np.nan if evaluation.value is None else evaluation.value
