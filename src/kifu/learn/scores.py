"""Scores of a net's guesses at the moves of games, with intervals by the bootstrap over games.

Positions of one game are much alike, so that they tell less than as many of different games would: what is drawn again
with replacement is games, each with all its positions (Field and Welsh 2007, the cluster bootstrap). An interval goes
from the 2.5th to the 97.5th percentile of the score over `RESAMPLES` draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

TOPS = (1, 3, 5)

MEASURES = (*(f"top{top}" for top in TOPS), "nll")
"""What a `Score` tells, by name."""

RESAMPLES = 1000

BINS = 15
"""Of the calibration, as many as Guo et al. 2017 (arXiv:1706.04599) take; all are equally wide."""

_PERCENT = (2.5, 97.5)

_DRAWN = 1 << 22
"""Games that are drawn at one go, about."""

Floats = npt.NDArray[np.float64]


class Interval(NamedTuple):
    """A value, and between which bounds it lies with 95 % confidence."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Score:
    """How well a net guesses some positions.

    positions, games: how many, and of how many games.  top1, top3, top5: share of positions whose move is the
    likeliest, or among so many likeliest.  nll: mean of -ln p of the move that was played, in nats.
    """

    positions: int
    games: int
    top1: Interval
    top3: Interval
    top5: Interval
    nll: Interval

    def measure(self, name: str) -> Interval:
        """One of MEASURES."""
        found: Interval = getattr(self, name)
        return found


@dataclass(frozen=True, slots=True)
class Bin:
    """Positions where the likeliest move has a probability of start to stop; sure: the mean of these probabilities.

    right: how often the likeliest move is the one that was played.
    """

    start: float
    stop: float
    positions: int
    sure: float
    right: Interval


@dataclass(frozen=True, slots=True)
class Calibration:
    """Whether a net is right as often as it says. bins: those with positions in them.

    error: the expected calibration error, the mean over positions of how far `right` is from `sure` in their bin.
    Chance makes it larger than it truly is, the more so the fewer positions there are; so do the intervals' draws.
    """

    error: Interval
    bins: tuple[Bin, ...]


@dataclass(frozen=True, slots=True)
class MoveScores:
    """What a net thought of N moves that were played.

    place: [N] uint16, how many moves were likelier; of equally likely ones those of lower number count as likelier.
    nll: [N] float32, -ln of the move's probability.  sure: [N] float32, the probability of the likeliest move.
    """

    place: npt.NDArray[np.uint16]
    nll: npt.NDArray[np.float32]
    sure: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.place)

    def sums(self, game: npt.NDArray[np.int64], games: int) -> Floats:
        """[games, 1 + len(MEASURES)]: how many positions each game has, and the sums of the measures over them."""
        return _sums(game, games, [*(self.place < top for top in TOPS), self.nll])


def _sums(key: npt.NDArray[np.int64], keys: int, values: Sequence[npt.NDArray[np.generic]]) -> Floats:
    """[keys, 1 + len(values)]: how often each key comes, and sums of values by key."""
    columns = [np.bincount(key, minlength=keys)]
    columns += [np.bincount(key, weights=each, minlength=keys) for each in values]
    return np.stack(columns, 1).astype(np.float64)


def resample(sums: Floats, seed: int) -> Floats:
    """[RESAMPLES, ...]: totals of sums [G, ...] over G games drawn from all G, with replacement.

    The draws follow from seed and G alone, so that totals of different sums are of the same draws.
    """
    games, flat = len(sums), sums.reshape(len(sums), -1)
    chance = np.random.default_rng(seed)
    totals = np.empty((RESAMPLES, flat.shape[1]))
    step = max(_DRAWN // games, 1)
    for first in range(0, RESAMPLES, step):
        count = min(step, RESAMPLES - first)
        drawn = chance.integers(games, size=(count, games)) + np.arange(count)[:, None] * games
        times = np.bincount(drawn.ravel(), minlength=count * games).reshape(count, games)
        totals[first : first + count] = times.astype(np.float64) @ flat
    return totals.reshape(RESAMPLES, *sums.shape[1:])


def _means(sums: Floats) -> Floats:
    """[..., K] of [..., 1 + K]: sums by count, NaN where the count is 0."""
    with np.errstate(invalid="ignore"):
        means: Floats = sums[..., 1:] / sums[..., :1]
    return means


def _interval(value: float, draws: Floats) -> Interval:
    """draws: [RESAMPLES], NaN where a draw has no such position."""
    low, high = np.nanpercentile(draws, _PERCENT)
    return Interval(float(value), float(low), float(high))


def score(guesses: MoveScores, game: npt.NDArray[np.int64], seed: int) -> Score:
    """The score of all positions. game: [N] int64 from 0 up, each at least once."""
    return score_groups(guesses, game, np.zeros(len(game), np.int64), ("",), seed)[""]


def score_groups(
    guesses: MoveScores, game: npt.NDArray[np.int64], group: npt.NDArray[np.int64], names: Sequence[str], seed: int
) -> dict[str, Score]:
    """The score of each group of positions, in the order of names, without groups that have none.

    game: [N] int64 from 0 up, each at least once.  group: [N] int64, places in names.
    """
    games, groups = int(game.max()) + 1, len(names)
    sums = guesses.sums(game * groups + group, games * groups).reshape(games, groups, -1)
    there = np.flatnonzero(sums[..., 0].any(0))
    sums = sums[:, there]
    value, draws = _means(sums.sum(0)), _means(resample(sums, seed))
    return {
        names[k]: Score(
            int(sums[:, i, 0].sum()),
            int(np.count_nonzero(sums[:, i, 0])),
            *(_interval(value[i, m], draws[:, i, m]) for m in range(len(MEASURES))),
        )
        for i, k in enumerate(there.tolist())
    }


def differences(one: MoveScores, other: MoveScores, game: npt.NDArray[np.int64], seed: int) -> dict[str, Interval]:
    """How much more `one` scores than `other` on the same positions, by measure. game: as `score` takes it.

    Both are drawn together, so that what is hard for both does not widen the interval.
    """
    games = int(game.max()) + 1
    sums = one.sums(game, games)
    sums[:, 1:] -= other.sums(game, games)[:, 1:]
    value, draws = _means(sums.sum(0)), _means(resample(sums, seed))
    return {name: _interval(value[m], draws[:, m]) for m, name in enumerate(MEASURES)}


def calibrate(guesses: MoveScores, game: npt.NDArray[np.int64], seed: int) -> Calibration:
    """Whether the likeliest move is played as often as its probability says. game: as `score` takes it."""
    games = int(game.max()) + 1
    place = np.clip((guesses.sure.astype(np.float64) * BINS).astype(np.int64), 0, BINS - 1)
    sums = _sums(game * BINS + place, games * BINS, [guesses.sure, guesses.place == 0]).reshape(games, BINS, 3)
    total, drawn = sums.sum(0), resample(sums, seed)
    means, draws = _means(total), _means(drawn)
    bins = tuple(
        Bin(k / BINS, (k + 1) / BINS, int(total[k, 0]), float(means[k, 0]), _interval(means[k, 1], draws[:, k, 1]))
        for k in np.flatnonzero(total[:, 0]).tolist()
    )
    return Calibration(_interval(float(_error(total)), _error(drawn)), bins)


def _error(sums: Floats) -> Floats:
    """[...] of [..., BINS, 3]: the expected calibration error."""
    error: Floats = np.abs(sums[..., 2] - sums[..., 1]).sum(-1) / sums[..., 0].sum(-1)
    return error


def by_measure(score: Score) -> Mapping[str, Interval]:
    """A score's measures by name."""
    return {name: score.measure(name) for name in MEASURES}
