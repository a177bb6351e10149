"""The value head learns together with the policy, with any optimizer."""

import numpy as np
import pytest

from kifu.learn.scores import value_error
from kifu.recipes.training import AdamWConfig, MuonConfig
from lazy import lazy_import

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


def test_the_side_that_komi_favours_is_learned_from_global_inputs():
    """Stones tell nothing here: without inputs the value is biased for either colour."""
    biases, errors = {}, {}
    for inputs in ((), ("colour", "komi")):
        torch.manual_seed(0)
        net = learn.registry.make_net("b1c8", 2, 7, 7, heads=("value",), inputs=inputs)
        optimizer = learn.optim.make_optimizer(net, MuonConfig(kind="muon", lr=0.01))
        for step in range(101):
            colour = torch.where(torch.arange(256) % 2 == 0, 1.0, -1.0)
            komi = torch.where(torch.rand(256) < 0.3, 1.0, -1.0)  # for Black, more often a loss
            truth, globals_ = komi * colour, torch.stack((colour, torch.ones(256), komi * colour), 1)
            if step == 100:
                net.eval()
            value = net((torch.rand(256, 2, 7, 7) < 0.3).float(), globals_ if inputs else None).value
            functional.mse_loss(value, truth).backward()
            optimizer.step()
            optimizer.zero_grad()
        found = value_error(value.detach().numpy(), truth.to(torch.int8).numpy(), colour.numpy() < 0, np.arange(256), 0)
        errors[inputs], biases[inputs] = found.squared.value, (found.bias_black.value, found.bias_white.value)
    assert errors["colour", "komi"] < 0.1
    assert all(abs(bias) < 0.05 for bias in biases["colour", "komi"])
    assert errors[()] > 0.8
    black, white = biases[()]
    assert black > 0.2
    assert white < -0.2
