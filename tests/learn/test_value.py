"""The value head learns together with the policy, with any optimizer."""

import pytest

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
    net = learn.nets.make_net(name, 2, 7, 7, heads=("value",))
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
