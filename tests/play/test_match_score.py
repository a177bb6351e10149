"""Shares and their intervals."""

import json
import math

import pytest

from kifu.play.results import MatchScore, elo
from kifu.text import wilson


# R. G. Newcombe, Two-sided confidence intervals for the single proportion, Statistics in Medicine 17 (1998), table I
@pytest.mark.parametrize(
    ("points", "games", "lower", "upper"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (5, 10, 0.2366, 0.7634),
        (0, 4, 0.0, 0.4899),
        (4, 4, 0.5101, 1.0),
    ],
)
def test_wilson(points: int, games: int, lower: float, upper: float) -> None:
    assert wilson(points, games) == pytest.approx((lower, upper), abs=0.00005)
    mirrored = wilson(games - points, games)
    assert mirrored == pytest.approx((1 - upper, 1 - lower), abs=0.00005)


def test_wilson_bounds_invert_the_score_test() -> None:
    for games in (1, 7, 200):
        for points in range(1, games):
            for bound in wilson(points, games):
                deviation = abs(points / games - bound) / math.sqrt(bound * (1 - bound) / games)
                assert deviation == pytest.approx(1.959963984540054)


def test_score_of_no_games() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert MatchScore(none=3).share is None
    assert str(MatchScore(none=3)) == "no games with a result"


def test_elo() -> None:
    assert elo(0.5) == 0
    assert elo(1) == math.inf
    assert elo(0) == -math.inf
    assert elo(10 / 11) == pytest.approx(400)
    assert elo(0.2) == pytest.approx(-elo(0.8))


def test_score() -> None:
    standing = MatchScore(won=13, lost=6, drawn=1, none=2)
    assert (standing.counted, standing.share) == (20, 0.675)
    assert str(standing) == (
        "67.5% of the points, 95% interval 45.7% to 83.7%; Elo difference +127, interval -30 to +284"
    )
    assert str(MatchScore(won=2)) == (
        "100.0% of the points, 95% interval 34.2% to 100.0%; Elo difference infinite, interval -113 to infinite"
    )


def test_score_as_json_has_no_infinity() -> None:
    for standing in (MatchScore(won=2), MatchScore(lost=2), MatchScore(), MatchScore(1, 1, 1, 1)):
        reported = json.loads(json.dumps(standing.to_json(), allow_nan=False))
        assert reported["won"] == standing.won
    assert MatchScore(lost=2).to_json()["elo_interval"] == [None, 113.4]
