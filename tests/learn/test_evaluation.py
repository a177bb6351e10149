"""Evaluations: views, legal moves, the best moves and random moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kifu.errors import RecipeError
from kifu.learn.backends import OnnxBackend
from kifu.learn.evaluation import Evaluation, join, log_softmax
from kifu.point import BLACK, WHITE


def answers(policy: Sequence[Sequence[float]], legal: np.ndarray | None = None) -> Evaluation:
    with np.errstate(divide="ignore"):
        table = np.log(np.array(policy, np.float32))
    if legal is not None:
        table = np.where(legal, table, np.float32(-np.inf))
    return Evaluation(table, np.ones(len(table), np.uint8))


def test_top_moves() -> None:
    found = answers([[0.1, 0.4, 0.1, 0.4], [1e-9, 1, 0, 0]], np.array([[True] * 4, [True, True, False, False]]))
    moves, chances = found.top(3)
    assert (moves.tolist(), moves.dtype) == ([[1, 3, 0], [1, 0, -1]], np.int16)
    assert chances.dtype == np.float32
    np.testing.assert_allclose(chances, [[0.4, 0.4, 0.1], [1, 0, 0]], atol=1e-7)
    assert answers([[0.025] * 40]).top(30)[0].tolist() == [list(range(30))]
    assert found.top(9)[0].tolist() == [[1, 3, 0, 2], [1, 0, -1, -1]]


def test_a_legal_move_without_probability_stays_legal() -> None:
    """Its probability is too small for float32, also as the mean over the symmetries of the board."""
    log_probs = log_softmax(np.array([[0, -300, 50, 0]], np.float32), np.array([[True, True, False, True]]))
    found = Evaluation(OnnxBackend.log_mean(None, [log_probs] * 8), np.ones(1, np.uint8))  # type: ignore[arg-type]
    assert found.legal.tolist() == [[True, True, False, True]]
    assert (found.top(4)[0].tolist(), found.policy[0, 1]) == ([[0, 3, 1, -1]], 0)


SHARES = np.array([0.5, 0.25, 0.15, 0.1, 0])


@pytest.mark.parametrize(
    ("temperature", "epsilon", "wanted"),
    [
        (1, 0, SHARES),
        (0.5, 0, SHARES**2),
        (2, 0, SHARES**0.5),
        (1, 0.4, 0.6 * SHARES + 0.4 * np.array([1, 1, 1, 1, 0]) / 4),
        (1, 1, np.array([1, 1, 1, 1, 0])),
        (0, 0.2, np.array([0.85, 0.05, 0.05, 0.05, 0])),
        (1e-300, 0, np.array([1, 0, 0, 0, 0])),
        (5e-324, 0, np.array([1, 0, 0, 0, 0])),
    ],
)
def test_sampling_frequencies(temperature: float, epsilon: float, wanted: np.ndarray) -> None:
    """By chi square; its chance to pass 25 with three degrees of freedom is 0.00002."""
    count = 20_000
    legal = np.tile(SHARES > 0, (count, 1))
    drawn = answers(np.tile(SHARES, (count, 1)), legal).sample(np.random.default_rng(1), temperature, epsilon)
    found = np.bincount(drawn, minlength=5)
    expected = count * wanted / wanted.sum()
    assert (found[expected == 0] == 0).all()
    seen = expected > 0
    assert ((found - expected)[seen] ** 2 / expected[seen]).sum() < 25


def test_sampling_is_repeatable_and_breaks_ties_randomly() -> None:
    tied = answers([[0.4, 0.2, 0.4]] * 100)
    drawn = tied.sample(np.random.default_rng(2), temperature=0)
    assert set(drawn.tolist()) == {0, 2}
    assert (drawn == tied.sample(np.random.default_rng(2), temperature=0)).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": -1}, "temperature must be >= 0, got -1"),
        ({"temperature": float("nan")}, "temperature must be >= 0, got nan"),
        ({"epsilon": 1.5}, "epsilon must be 0 to 1, got 1.5"),
        ({"epsilon": float("nan")}, "epsilon must be 0 to 1, got nan"),
    ],
)
def test_invalid_sampling_arguments(options: dict[str, float], words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        answers([[1.0]]).sample(np.random.default_rng(0), **options)


def with_heads() -> Evaluation:
    """Black to move, ahead by 3, and White to move, ahead by 1."""
    log_probs = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]], np.float32))
    heads = ([0.5, 0.2], [[1, -1], [0.3, 0.1]], [[3, 9], [1, 8]])
    return Evaluation(log_probs, np.array([BLACK, WHITE], np.uint8), *(np.array(each, np.float32) for each in heads))


def test_views() -> None:
    found = with_heads()
    black, white = found.seen_from(BLACK), found.seen_from(WHITE)
    assert black.value.tolist() == pytest.approx([0.5, -0.2])
    assert black.score.tolist() == [[3, 9], [-1, 8]]
    np.testing.assert_array_equal(black.ownership, found.ownership * np.float32([[1], [-1]]))
    for name in ("value", "ownership", "score"):
        np.testing.assert_array_equal(getattr(black.seen_from(WHITE), name), getattr(white, name))
        np.testing.assert_array_equal(getattr(found[1].seen_from(BLACK), name), getattr(black, name)[1])
    assert black.log_probs is found.log_probs


def test_parts_and_joins() -> None:
    found = with_heads()
    assert repr(join([found, found[:1]])) == "<Evaluation [3, 3]: policy, value, ownership, score>"
    assert (found[1].choice(2), found[1].choice(0), found[1].probability(3)) == (1, 3, None)
    assert found[0].probability(1) == pytest.approx(0.25)
    assert found[0].top(2)[0].tolist() == [0, 1]


def test_restriction_to_legal_moves() -> None:
    """The others share the rest; the pass that a net does not predict is not played."""
    found = with_heads()[0].restrict(np.array([False, True, True, True]))
    assert found.policy.tolist() == pytest.approx([0, 0.5, 0.5, 0])
    same = with_heads()[0].restrict(np.array([True] * 4))
    assert same.log_probs[:3].tolist() == with_heads().log_probs[0].tolist()
    assert not with_heads()[0].restrict(np.array([False] * 4)).policy.any()
