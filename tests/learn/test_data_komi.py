"""Random komi in training: komi and result of a position agree, and the value learns what points are worth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kifu
from kgs_archives import archive
from kifu.datasets.examples import UNKNOWN, Batch
from kifu.datasets.global_inputs import Conditions
from kifu.datasets.labels import inputs_label
from kifu.errors import RecipeError
from kifu.learn.positions import NetPositions
from kifu.recipes.training import TrainingRecipe
from lazy import lazy_import
from loader_games import make, one_batch
from nets import tiny_net
from runs import tiny

learn = lazy_import("kifu.learn")
random_komi = lazy_import("kifu.learn.data")
teacher = lazy_import("kifu.learn.loss")
torch = lazy_import("torch")

INPUTS = ("colour", "ranks", "komi")
LABEL = inputs_label(INPUTS)


def recipe(**changes: object) -> TrainingRecipe:
    return tiny(**{"inputs": INPUTS, "heads": {"value": 1.0}, "random_komi": 15, **changes})


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Batch:
    """All positions of 40 games: counted, resigned, drawn and without a result; a third has no komi."""
    labels = ("move", "to_play", "result", "margin", "komi", LABEL)
    return one_batch(kifu.load(make(tmp_path_factory.mktemp("games"), 40), "own", labels=labels))


def test_results_follow_from_the_new_komi(batch: Batch) -> None:
    changed = random_komi.randomize_komi(batch, recipe(), 0)
    sign = np.where(batch.labels["to_play"] == kifu.point.WHITE, 1, -1)
    before, after = (each.labels[LABEL][:, -2:] for each in (batch, changed))
    assert np.array_equal(before[:, 0], after[:, 0])
    known = before[:, 0] == 1
    assert {True, False} == set(known.tolist())
    assert np.allclose(before[known, 1], (sign * batch.labels["komi"])[known] / 10)
    given = np.round(10 * (after - before)[:, 1])  # to the mover
    assert not given[~known].any()
    assert set(given[known].tolist()) == set(range(-15, 16))
    margin = batch.labels["margin"] + given
    counted = ~np.isnan(margin)
    old, new = batch.labels["result"], changed.labels["result"]
    assert np.array_equal(new[counted], np.sign(margin[counted]))
    assert np.array_equal(new[~counted], old[~counted])
    assert (new != old).any()
    assert UNKNOWN in new
    assert new.dtype == np.int8
    for name in ("move", "to_play", "komi"):
        assert changed.labels[name] is batch.labels[name]
    assert np.array_equal(changed.labels[LABEL][:, :-1], batch.labels[LABEL][:, :-1])


def test_shifts_are_uniform_and_drawn_for_each_position_and_epoch(batch: Batch) -> None:
    known = batch.labels[LABEL][:, -2] == 1
    drawn = [random_komi.randomize_komi(batch, recipe(seed=s), e).labels[LABEL][known, -1] for s, e in
             ((0, 0), (0, 0), (0, 1), (1, 0))]  # fmt: skip
    assert np.array_equal(drawn[0], drawn[1])
    shifts = [10 * (values - batch.labels[LABEL][known, -1]) for values in drawn[1:]]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(shifts[one], shifts[other])[0, 1]) < 0.1
    for each in shifts:
        assert abs(each.mean()) < 1
        assert abs(each.std() - np.sqrt(31**2 - 1) / np.sqrt(12)) < 0.5
    order = np.random.default_rng(0).permutation(len(batch))
    shuffled = random_komi.randomize_komi(batch.take(order), recipe(), 0).labels[LABEL][:, -1]
    assert np.array_equal(shuffled, random_komi.randomize_komi(batch, recipe(), 0).labels[LABEL][order, -1])


def confounded(folder: Path) -> Path:
    """Write games with a komi of 0.5, which Black loses, and as many with 6.5, which Black wins by less than komi."""
    terms = ("KM[0.5]RE[W+10.5]", "KM[6.5]RE[B+3.5]")
    moves = ";B[cc];W[bb];B[dd];W[bd]"
    return archive(folder, [f"(;SZ[5]PB[{k}]{terms[k % 2]}{moves};B[{'abcde'[k % 5]}a])".encode() for k in range(40)])


@pytest.mark.slow
def test_the_value_learns_the_sign_of_komi(tmp_path: Path) -> None:
    """In the records a higher komi goes with more wins of Black; the margins say the opposite."""
    games, slope = confounded(tmp_path), {}
    conditions = replace(Conditions.unknown(2), komi=np.array([0.5, 6.5], np.float32))
    empty = NetPositions.from_moves([[], []], 5, conditions=conditions)
    for most in (0, 15):
        run = tmp_path / f"run-{most}"
        changes = {"board": "5x5", "augment": False, "validation": 0, "batch_size": 20, "steps": 100}
        learn.train.train(recipe(random_komi=most, inputs=["colour", "komi"], **changes), [games], run)
        low, high = learn.net.open_net(run).evaluate(empty).value.tolist()
        slope[most] = high - low
    assert slope[0] > 0.2
    assert slope[15] < -0.05


def test_teachers_do_not_teach_the_value(tmp_path: Path) -> None:
    """They are given the komi of the record, to which the result no longer belongs."""
    games, net = make(tmp_path), tiny_net(tmp_path / "a.safetensors", planes="own+opp+last3", size=19, heads=("value",))
    for most in (0, 15):
        recipe_ = recipe(random_komi=most, teacher={"nets": [str(net)]})
        data = learn.data.TrainingData(recipe_, learn.data.read_training_games(recipe_, [games], [], 1))
        labelled = teacher.Teachers(recipe_, data.games, torch.device("cpu")).label(next(iter(data.batches())))
        assert (labelled.soft_value is None) == bool(most)


@pytest.mark.parametrize("changes", [{"inputs": ["colour"]}, {"heads": {}}])
def test_random_komi_requires_komi_and_a_value(changes: dict[str, object]) -> None:
    with pytest.raises(RecipeError, match="random_komi requires the input komi and the head value"):
        recipe(**changes)
