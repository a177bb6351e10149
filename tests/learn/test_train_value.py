"""The value head learns together with the policy, with any optimizer."""

from pathlib import Path

import numpy as np
import pytest

import kifu
from kifu.learn.positions import NetPositions
from kifu.learn.scores import value_error
from kifu.recipes.training import AdamWConfig, MuonConfig
from lazy import lazy_import
from loader_games import make
from runs import assert_same_weights, interrupted, tiny

functional = lazy_import("torch.nn.functional")
learn = lazy_import("kifu.learn")
torch = lazy_import("torch")


@pytest.mark.parametrize(
    "config", [MuonConfig(kind="muon", lr=0.01), AdamWConfig(kind="adamw", lr=0.003)], ids=["muon", "adamw"]
)
@pytest.mark.parametrize("name", ["b1c8", pytest.param("book-small", marks=pytest.mark.slow)])
def test_the_side_with_more_stones_is_learned(name, config):
    """Without a batch norm in the head its hidden units died in the first steps, and the value stayed 0."""
    torch.manual_seed(0)
    net = learn.registry.make_net(name, 2, 7, 7, heads=("value",))
    optimizer = learn.optim.make_optimizer(net, config)
    errors = []
    for _ in range(120):
        first = torch.rand(64, 7, 7) < torch.rand(64, 1, 1)
        planes = torch.stack((first, ~first), 1).float()  # own stones and the opponent's on all points
        truth = torch.where(first.sum((1, 2)) > 24, 1.0, -1.0)
        moves = first.flatten(1).float().argmax(1)
        answers = net(planes)
        error = functional.mse_loss(answers.value, truth)
        (error * 0.1 + functional.cross_entropy(answers.policy, moves)).backward()
        optimizer.step()
        optimizer.zero_grad()
        errors.append(error.item())
    assert sum(errors[-20:]) / 20 < 0.5


@pytest.mark.slow
def test_the_side_that_komi_favours_is_learned_from_global_inputs():
    """Stones tell nothing here: without inputs the value is biased for either colour."""
    biases, errors = {}, {}
    for inputs in ((), ("colour", "komi")):
        torch.manual_seed(0)
        net = learn.registry.make_net("b1c8", 2, 7, 7, heads=("value",), inputs=inputs)
        optimizer = learn.optim.make_optimizer(net, MuonConfig(kind="muon", lr=0.01))
        for size in [256] * 100 + [4096]:
            colour = torch.where(torch.arange(size) % 2 == 0, 1.0, -1.0)
            komi = torch.where(torch.rand(size) < 0.3, 1.0, -1.0)  # for Black, more often a loss
            truth, globals_ = komi * colour, torch.stack((colour, torch.ones(size), komi * colour), 1)
            if size > 256:
                net.eval()
            value = net((torch.rand(size, 2, 7, 7) < 0.3).float(), globals_ if inputs else None).value
            functional.mse_loss(value, truth).backward()
            optimizer.step()
            optimizer.zero_grad()
        found = value_error(
            value.detach().numpy(), truth.to(torch.int8).numpy(), colour.numpy() < 0, np.arange(size), 0
        )
        errors[inputs], biases[inputs] = found.squared.value, (found.bias_black.value, found.bias_white.value)
    assert errors["colour", "komi"] < 0.1
    assert all(abs(bias) < 0.05 for bias in biases["colour", "komi"])
    assert errors[()] > 0.8
    black, white = biases[()]
    assert black > 0.1
    assert white < -0.1


def test_batches_have_the_positions_after_their_first_quarter(tmp_path: Path) -> None:
    """They are those of the next ply, with the same komi; a finished game has no next one."""
    changes = {"heads": {"value": 1.0}, "inputs": ["colour", "komi"], "random_komi": 15, "batch_size": 30}
    recipe = tiny(**changes, smooth=1.0, validation=0, augment=True)
    games = learn.data.read_training_games(recipe, [make(tmp_path, 40)], [], 1)
    seen = {True: 0, False: 0}
    for batch, _ in zip(learn.data.TrainingData(recipe, games).batches(), range(40), strict=False):
        planes, globals_, opponent = batch.following
        assert len(planes) == len(globals_) == len(opponent) == 8
        for k, alternates in enumerate(opponent.tolist()):
            seen[alternates] += 1
            if not alternates:
                continue
            assert torch.equal(globals_[k, [0, 2]], -batch.globals[k, [0, 2]])  # colour and komi, of the opponent
            own, other, last = (planes[k, name] for name in (0, 1, 2))
            assert last.flatten().argmax() == batch.move[k] or batch.move[k] == 361
            kept = batch.planes[k, 1] * own + batch.planes[k, 0] * other  # all but the move and captured stones
            assert kept.sum() >= own.sum() + other.sum() - 1
    assert min(seen.values()) > 10
    source = games.following  # processes on a GPU's machine also ask for no games
    source.render(source.select(0, 0, False), np.empty(0, np.int64), 0, np.full(1, -1), source.new_buffer(0))


@pytest.mark.slow
def test_smooth_values_change_less_and_resume_as_before(tmp_path: Path) -> None:
    games = make(tmp_path, 40)
    changes = {"heads": {"value": 1.0}, "steps": 60, "validation": 0, "batch_size": 32}
    change = []
    for weight in (0.0, 40.0):
        run = tmp_path / f"run-{weight}"
        learn.train.train(tiny(**changes, smooth=weight), [games], run)
        predictor, found = learn.net.open_net(run), list(kifu.read(games))
        values = [
            predictor.evaluate(NetPositions.from_games([game] * 2, [ply, ply + 1])).value.sum()
            for game in found[:20] for ply in range(5, min(len(game) - 2, 40), 7)
        ]  # fmt: skip
        change.append(np.abs(values).mean())
    assert change[1] < 0.7 * change[0]
    with interrupted(at=17):
        learn.train.train(tiny(**changes, smooth=40.0), [games], tmp_path / "resumed")
    learn.train.train(tiny(**changes, smooth=40.0), [games], tmp_path / "resumed", resume=True)
    assert_same_weights(tmp_path / "resumed" / "final.safetensors", tmp_path / "run-40.0" / "final.safetensors")
