"""The optimisers of recipes, as torch has them."""

from __future__ import annotations

from torch import nn
from torch import optim as torch_optim

from kifu.learn import muon
from kifu.recipes.training import AdadeltaConfig, AdagradConfig, AdamWConfig, MuonConfig, Optimiser, SgdConfig


def make_optimiser(module: nn.Module, told: Optimiser) -> torch_optim.Optimizer:
    """What a recipe's table `optimiser` says; the rate is set anew before each step (`Training.rate`)."""
    named = [(name.rpartition(".")[2], p) for name, p in module.named_parameters() if p.requires_grad]
    # A bias may have a number for each point, and then as many axes as a matrix has.
    matrices = [p for name, p in named if p.ndim >= 2 and name != "bias"]
    vectors = [p for name, p in named if p.ndim < 2 or name == "bias"]
    parameters = [p for _, p in named]
    match told:
        case SgdConfig():
            return torch_optim.SGD(
                parameters, told.lr, told.momentum, weight_decay=told.weight_decay, nesterov=told.nesterov
            )
        case AdagradConfig():
            return torch_optim.Adagrad(parameters, told.lr, eps=told.epsilon)
        case AdadeltaConfig():
            return torch_optim.Adadelta(parameters, told.lr, rho=told.rho, eps=told.epsilon)
        case AdamWConfig():
            groups = [
                {"params": matrices, "weight_decay": told.weight_decay},
                {"params": vectors, "weight_decay": 0.0},
            ]
            # One kernel for all parameters: less for Python to do in each step.
            return torch_optim.AdamW(groups, told.lr, told.betas, told.epsilon, fused=True)
        case MuonConfig():
            return muon.Muon(matrices, vectors, told.lr, told.momentum, told.betas, told.weight_decay)
