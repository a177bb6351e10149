"""The value head learns who is ahead, whatever the optimiser, beside the policy."""

import pytest
import torch
from torch.nn import functional

from kifu.learn.nets import make_net
from kifu.learn.optim import make_optimiser
from kifu.recipes.training import AdamWConfig, MuonConfig


@pytest.mark.parametrize(
    "told", [MuonConfig(kind="muon", lr=0.01), AdamWConfig(kind="adamw", lr=0.01)], ids=["muon", "adamw"]
)
@pytest.mark.parametrize("name", ["b1c8", "book-small"])
def test_who_has_more_stones_is_learned(name, told):
    """Without a batch norm in the head its hidden units died with the first steps, and it always said 0."""
    torch.manual_seed(0)
    net = make_net(name, 2, 7, 7, heads=("value",))
    optimiser = make_optimiser(net, told)
    errors = []
    for _ in range(120):
        first = torch.rand(64, 7, 7) < torch.rand(64, 1, 1)
        planes = torch.stack((first, ~first), 1).float()  # own stones and the opponent's on all points
        truth = torch.where(first.sum((1, 2)) > 24, 1.0, -1.0)
        moves = first.flatten(1).float().argmax(1)
        answers = net(planes)
        error = functional.mse_loss(answers.value, truth)
        (error * 0.1 + functional.cross_entropy(answers.policy, moves)).backward()
        optimiser.step()
        optimiser.zero_grad()
        errors.append(error.item())
    assert sum(errors[-20:]) / 20 < 0.5
