"""Scores, bootstrap intervals and calibration on data whose true values are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kifu.datasets.examples import UNKNOWN
from kifu.errors import RecipeError
from kifu.learn import scores
from kifu.learn import scores as sc


def move_scores(rank: object, nll: object = None, confidence: object = None) -> sc.MoveScores:
    """Return scores with these ranks, and 0.5 for all values that are not given."""
    ranks = np.asarray(rank, np.uint16)
    half = np.full(len(ranks), 0.5, np.float32)
    return sc.MoveScores(
        ranks,
        half if nll is None else np.asarray(nll, np.float32),
        half if confidence is None else np.asarray(confidence, np.float32),
        half,
        np.zeros(len(ranks), np.uint16),
        half,
    )


def test_measures_are_means_over_positions() -> None:
    found = sc.score(move_scores([0, 0, 2, 3, 5, 300], [0.5, 1, 2, 3, 4, 7.5]), np.array([0, 0, 1, 1, 2, 2]), 0)
    assert (found.positions, found.accounts) == (6, 3)
    assert [found.measure(name).value for name in sc.MEASURES] == pytest.approx([2 / 6, 3 / 6, 4 / 6, 3])


def test_the_interval_of_one_game_is_empty() -> None:
    found = sc.score(move_scores([0, 1, 0, 9], [1, 2, 3, 4]), np.zeros(4, np.int64), 0)
    for name in sc.MEASURES:
        value, low, high = found.measure(name)
        assert low == value == high


def test_games_are_resampled_with_replacement() -> None:
    sums = np.random.default_rng(1).random((7, 2, 3))
    drawn = np.random.default_rng(5).integers(7, size=(sc.RESAMPLES, 7))
    assert sc.resample(sums, 5) == pytest.approx(np.array([sum(sums[g] for g in games) for games in drawn.tolist()]))


def test_draws_do_not_depend_on_the_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = np.random.default_rng(1).random((7, 3))
    whole = sc.resample(sums, 5)
    monkeypatch.setattr(scores, "_CHUNK", 7 * 64)
    assert sc.resample(sums, 5) == pytest.approx(whole)


def clustered(seed: int, games: int = 150, plies: int = 8, alike: float = 0.0) -> tuple[sc.MoveScores, np.ndarray]:
    """Return games whose moves are predicted with probability 0.3; `alike` is the share of uniform games."""
    rng = np.random.default_rng(seed)
    right = rng.random((games, plies)) < 0.3
    whole = rng.random(games) < alike
    right[whole] = right[whole, :1]
    return move_scores(np.where(right.ravel(), 0, 9)), np.repeat(np.arange(games), plies)


@pytest.mark.parametrize("alike", [0.0, 1.0])
def test_intervals_cover_the_truth(alike: float) -> None:
    covered = 0
    for seed in range(80):
        _, low, high = sc.score(*clustered(seed, alike=alike), seed).top1
        covered += low <= 0.3 <= high
    assert 70 <= covered < 80  # 76 are expected


def test_intervals_widen_with_fewer_and_more_uniform_games() -> None:
    def width(**options: float) -> float:
        _, low, high = sc.score(*clustered(0, **options), 0).top1
        return high - low

    assert width() == pytest.approx(2 * 1.96 * math.sqrt(0.3 * 0.7 / 1200), rel=0.15)
    assert width(alike=1) == pytest.approx(width() * math.sqrt(8), rel=0.25)
    assert width(games=600) == pytest.approx(width() / 2, rel=0.2)


def test_groups_are_scored_separately_and_empty_ones_omitted() -> None:
    found = move_scores([0, 1, 0, 1, 0, 0], [1, 1, 1, 2, 2, 2])
    game, group = np.array([0, 0, 1, 1, 2, 2]), np.array([3, 3, 3, 0, 0, 0])
    by = sc.score_groups(found, game, group, ("a", "b", "c", "d"), 0)
    assert list(by) == ["a", "d"]
    assert [(each.positions, each.accounts, each.nll.value) for each in by.values()] == [(3, 2, 2), (3, 2, 1)]
    assert [each.top1.value for each in by.values()] == pytest.approx([2 / 3, 2 / 3])
    # a draw in which a group does not come says nothing of it
    assert by["a"].nll == by["a"].nll.__class__(2, 2, 2)


def test_differences_are_paired() -> None:
    """Two nets that are right in the same hard games differ by less than their own intervals are wide."""
    one, game = clustered(3, alike=1)
    better = one.preferred.copy()
    better[::40] = 0
    other = move_scores(better, one.nll - 0.25)
    found = sc.differences(other, one, game, 0)
    value, low, high = found["top1"]
    assert value == pytest.approx((better == 0).mean() - (one.preferred == 0).mean())
    assert 0 < low < value < high
    alone = sc.score(one, game, 0).top1
    assert high - low < (alone.high - alone.low) / 3
    assert found["nll"] == pytest.approx((-0.25, -0.25, -0.25))
    assert sc.differences(one, one, game, 0) == dict.fromkeys(sc.MEASURES, (0, 0, 0))


def test_a_calibrated_net_has_a_small_error() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.random(40_000).astype(np.float32)
    right = rng.random(40_000) < confidence
    found = sc.calibrate(move_scores(np.where(right, 0, 1), confidence=confidence), np.arange(40_000) // 100, 0)
    assert found.error.value < 0.02
    assert [each.positions for each in found.bins] == np.histogram(confidence, sc.BINS, (0, 1))[0].tolist()
    assert sum(each.accuracy.low <= each.confidence <= each.accuracy.high for each in found.bins) >= sc.BINS - 3


def test_calibration_by_hand() -> None:
    """40 positions of 0.3, of which half are right; 10 of 0.9, all right; 50 of 1, of which 40 are right."""
    confidence = np.repeat([0.3, 0.9, 1.0], [40, 10, 50])
    rank = np.array([0, 1] * 20 + [0] * 10 + [0] * 40 + [7] * 10)
    found = sc.calibrate(move_scores(rank, confidence=confidence), np.arange(100) % 4, 0)
    assert [each.positions for each in found.bins] == [40, 10, 50]
    assert [each.confidence for each in found.bins] == pytest.approx([0.3, 0.9, 1])
    assert [each.accuracy.value for each in found.bins] == pytest.approx([0.5, 1, 0.8])
    assert found.error.value == pytest.approx((40 * 0.2 + 10 * 0.1 + 50 * 0.2) / 100)
    assert [each.start for each in found.bins] == pytest.approx([4 / 15, 13 / 15, 14 / 15])


def test_errors_of_values_match_a_naive_loop() -> None:
    chance = np.random.default_rng(3)
    value = chance.uniform(-1, 1, 300).astype(np.float32)
    result = chance.choice(np.array([-1, 0, 1, UNKNOWN], np.int8), 300)
    white, game = chance.random(300) < 0.4, chance.integers(0, 40, 300)
    found = scores.value_error(value, result, white, game, 1)
    errors: dict[bool, list[float]] = {False: [], True: []}
    for k in range(300):
        if result[k] != UNKNOWN:
            errors[bool(white[k])].append(float(value[k]) - int(result[k]))
    both = errors[False] + errors[True]
    assert (found.positions, found.accounts) == (len(both), len({game[k] for k in range(300) if result[k] != UNKNOWN}))
    assert found.squared.value == pytest.approx(sum(e * e for e in both) / len(both))
    assert found.bias_black.value == pytest.approx(sum(errors[False]) / len(errors[False]))
    assert found.bias_white.value == pytest.approx(sum(errors[True]) / len(errors[True]))
    for interval in (found.squared, found.bias_black, found.bias_white):
        assert interval.low < interval.value < interval.high


def test_a_value_that_cannot_see_the_colour_is_biased_against_it() -> None:
    """Black wins 70 % of the games, which a constant 0 misses by 0.4 on either side."""
    result = np.where(np.arange(1000) // 2 % 10 < 7, 1, -1).astype(np.int8)
    white = np.arange(1000) % 2 == 1
    result = np.where(white, -result, result).astype(np.int8)
    found = scores.value_error(np.zeros(1000, np.float32), result, white, np.arange(1000), 0)
    assert (found.squared.value, found.squared.low) == (1, 1)
    assert found.bias_black.low < -0.4 < found.bias_black.high
    assert found.bias_white.low < 0.4 < found.bias_white.high


def test_the_bias_of_a_side_that_never_moves_is_unknown() -> None:
    found = scores.value_error(np.zeros(3, np.float32), np.ones(3, np.int8), np.zeros(3, np.bool_), np.arange(3), 0)
    assert found.bias_black == (-1, -1, -1)
    assert found.bias_white is None


def test_values_without_results_have_no_error() -> None:
    none = np.full(3, UNKNOWN, np.int8)
    with pytest.raises(RecipeError, match="requires positions with a known result"):
        scores.value_error(np.zeros(3, np.float32), none, np.zeros(3, np.bool_), np.arange(3), 0)
