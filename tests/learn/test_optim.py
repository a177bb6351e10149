"""Muon: its steps beside a slow twin, and what it leaves to AdamW."""

import copy

import pytest

from kifu.recipes.training import MuonConfig
from lazy import lazy_import

functional = lazy_import("torch.nn.functional")
learn = lazy_import("kifu.learn")
nn = lazy_import("torch.nn")
torch = lazy_import("torch")


def config(lr: float, momentum: float, weight_decay: float) -> MuonConfig:
    return MuonConfig(kind="muon", lr=lr, momentum=momentum, betas=(0.9, 0.99), weight_decay=weight_decay)


@pytest.mark.parametrize("shape", [(8, 8), (4, 30), (30, 4), (1, 5)])
def test_singular_values_become_about_one(shape):
    torch.manual_seed(0)
    matrix = torch.randn(shape)
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    first, result = learn.optim.orthogonalize(torch.stack([-matrix, matrix]))
    assert torch.allclose(first, -result, atol=1e-6)
    values = torch.linalg.svdvals(result)
    assert ((values > 0.5) & (values < 1.35)).all()
    kept = torch.linalg.multi_dot([u.T, result, v.T]) if min(shape) > 1 else u.T @ result @ v.T
    assert (kept - torch.diag(torch.diag(kept))).abs().max() < 0.1  # the directions stay


def test_a_convolution_is_updated_as_its_matrix():
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 4, 3, bias=False).to(memory_format=torch.channels_last)
    matrix = nn.Parameter(conv.weight.detach().clone().reshape(4, 27).contiguous())
    one, other = (learn.optim.Muon([p], [], config(0.1, 0.9, 0.01)) for p in (conv.weight, matrix))
    for k in range(3):
        gradient = torch.randn(4, 27, generator=torch.Generator().manual_seed(k))
        conv.weight.grad, matrix.grad = gradient.reshape(4, 3, 3, 3), gradient
        one.step()
        other.step()
    assert torch.allclose(conv.weight.reshape(4, 27), matrix, atol=1e-6)


def test_a_first_step_by_hand():
    weight = nn.Parameter(torch.eye(2) * 3)
    weight.grad = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    learn.optim.Muon([weight], [], config(0.5, 0.0, 0.1)).step()
    expected = torch.eye(2) * 3 * (1 - 0.05) - 0.5 * 0.2 * 2**0.5 * learn.optim.orthogonalize(torch.eye(2)[None])[0]
    assert torch.allclose(weight, expected)


def test_vectors_are_updated_by_adamw():
    torch.manual_seed(0)
    ours, theirs = nn.Parameter(torch.ones(5)), nn.Parameter(torch.ones(5))
    one = learn.optim.Muon([], [ours], config(0.01, 0.95, 0.5))
    other = torch.optim.AdamW([theirs], 0.01, (0.9, 0.99), weight_decay=0.0)
    for _ in range(3):
        ours.grad = theirs.grad = torch.randn(5)
        one.step()
        other.step()
    assert torch.allclose(ours, theirs)


def test_a_loaded_state_continues_exactly():
    def run(steps, module, optimizer, begin):
        for k in range(begin, begin + steps):
            x = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(k))
            functional.mse_loss(module(x), torch.ones(4, 2, 3, 3)).backward()
            optimizer.step()
            optimizer.zero_grad()

    torch.manual_seed(0)
    module = nn.Conv2d(3, 2, 3)
    optimizer = learn.optim.Muon([module.weight], [module.bias], config(0.01, 0.95, 0.01))
    run(2, module, optimizer, 0)
    other = copy.deepcopy(module)
    loaded = learn.optim.Muon([other.weight], [other.bias], config(0.01, 0.95, 0.01))
    loaded.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    run(3, module, optimizer, 2)
    run(3, other, loaded, 2)
    for a, b in zip(module.parameters(), other.parameters()):
        assert torch.equal(a, b)
