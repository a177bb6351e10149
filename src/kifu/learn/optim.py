"""Optimizers and the moving average of the weights."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adadelta, Adagrad, AdamW
from torch.optim import Optimizer as TorchOptimizer

from kifu.learn.torch_backend import has_bfloat16
from kifu.recipes.training import AdadeltaConfig, AdagradConfig, AdamWConfig, MuonConfig, Optimizer, SgdConfig

_VECTORS = ("bias", "scale", "frequencies")
"""Last parts of the names of parameters that are no matrices, though they may have as many axes."""


def make_optimizer(module: nn.Module, config: Optimizer) -> TorchOptimizer:
    """Create the optimizer of a recipe. The training loop sets the learning rate before each step."""
    named = [(name.rpartition(".")[2], p) for name, p in module.named_parameters() if p.requires_grad]
    matrices = [p for name, p in named if p.ndim >= 2 and name not in _VECTORS]
    vectors = [p for name, p in named if p.ndim < 2 or name in _VECTORS]
    parameters = [p for _, p in named]
    match config:
        case SgdConfig():
            return SGD(
                parameters, config.lr, config.momentum, weight_decay=config.weight_decay, nesterov=config.nesterov
            )
        case AdagradConfig():
            return Adagrad(parameters, config.lr, eps=config.epsilon)
        case AdadeltaConfig():
            return Adadelta(parameters, config.lr, rho=config.rho, eps=config.epsilon)
        case AdamWConfig():
            groups = [
                {"params": matrices, "weight_decay": config.weight_decay},
                {"params": vectors, "weight_decay": 0.0},
            ]
            # The fused kernel updates all parameters at once, which saves Python time in each step.
            return AdamW(groups, config.lr, config.betas, config.epsilon, fused=True)
        case MuonConfig():
            return Muon(matrices, vectors, config)


def restore_optimizer(optimizer: TorchOptimizer, saved: dict[str, Any]) -> None:
    """Restore the state of an optimizer, but not its options, which the recipe determines."""
    options = [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    optimizer.load_state_dict(saved)
    for group, own in zip(optimizer.param_groups, options):
        group.update(own)
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            if isinstance(value, Tensor) and value.ndim and name != "step":
                if value.shape != parameter.shape:
                    raise ValueError(f"{name} must have shape {list(parameter.shape)}, got {list(value.shape)}")
                if value.stride() != parameter.stride():  # fused kernels expect equal layouts
                    state[name] = torch.empty_like(parameter).copy_(value)


_QUINTIC = (3.4445, -4.7750, 2.0315)
"""Coefficients of the Newton-Schulz iteration, from Jordan's text: the steepest at zero whose results stay within about
0.7 to 1.2."""

_ITERATIONS = 5

_UPDATE_RMS = 0.2
"""Approximate RMS of AdamW's updates. Scaling Muon's updates to it lets one learning rate serve both: Liu et al. 2025
(arXiv:2502.16982), section 2.2."""


class Muon(AdamW):  # type: ignore[misc]
    """Muon for matrices and convolutions, AdamW for all other parameters.

    Muon replaces the update of a matrix by a nearly orthogonal matrix, whose singular values are all close to 1. A
    convolution's weight [F_out, F_in, h, w] is treated as the matrix [F_out, F_in * h * w]. K. Jordan et al. 2024,
    "Muon: An optimizer for hidden layers in neural networks". torch's own Muon supports matrices only.
    """

    def __init__(self, matrices: Sequence[nn.Parameter], vectors: Sequence[nn.Parameter], config: MuonConfig) -> None:
        """Create the optimizer of matrices, with weight decay, and vectors, without, which AdamW updates."""
        groups: list[dict[str, Any]] = [
            {"params": matrices, "weight_decay": config.weight_decay, "momentum": config.momentum},
            {"params": vectors, "weight_decay": 0.0, "momentum": None},
        ]
        super().__init__(groups, config.lr, config.betas, fused=True)

    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """Update all parameters that have a gradient; `closure` recomputes the gradients and returns the loss."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        group = self.param_groups[0]
        gradients = [(p, p.grad) for p in group["params"] if p.grad is not None]
        shapes: dict[torch.Size, list[tuple[nn.Parameter, Tensor]]] = {}
        for p, gradient in gradients:
            shapes.setdefault(p.shape, []).append((p, gradient))
        with torch.no_grad():
            for same in shapes.values():
                self._update(same, group)
            for p, _ in gradients:
                p.grad = None  # AdamW skips parameters without a gradient
            super().step()
        for p, gradient in gradients:
            p.grad = gradient
        return loss

    def _update(self, same: Sequence[tuple[nn.Parameter, Tensor]], group: dict[str, Any]) -> None:
        """Update parameters of one shape, given their gradients, together, which saves most of a GPU's time."""
        parameters, gradients = map(list, zip(*same))
        for p in parameters:
            if not self.state[p]:
                self.state[p]["step"] = torch.zeros(())  # AdamW requires it when it loads a state
                self.state[p]["mean"] = torch.zeros_like(p)
        means = [self.state[p]["mean"] for p in parameters]
        torch._foreach_lerp_(means, gradients, 1 - group["momentum"])
        directions = torch._foreach_lerp(gradients, means, group["momentum"])  # Nesterov momentum
        matrices = torch.stack([each.flatten(1) for each in directions])
        scale = _UPDATE_RMS * max(matrices.shape[1:]) ** 0.5
        updates = [each.view(p.shape) for each, p in zip(orthogonalize(matrices), parameters)]
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(parameters, updates, alpha=-group["lr"] * scale)


def orthogonalize(matrices: Tensor) -> Tensor:
    """Return approximations of the orthogonal matrices nearest to matrices [K, F, G].

    All their singular values are about 1. Newton-Schulz iteration, which requires only matrix products, in bfloat16
    where the device has instructions for it.
    """
    a, b, c = _QUINTIC
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x.bfloat16() if has_bfloat16(x.device.type) else x
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(_ITERATIONS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrices.dtype)


class EMA:
    """Exponential moving average of a module's parameters and batch-norm statistics.

    Step n keeps min(decay, (1 + n) / (10 + n)) of the average, so that the random initial weights are soon forgotten.
    It never synchronizes with the device.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        """Start at the module's present values; a step keeps the share `decay` of the average."""
        self._decay = decay
        self._current = _float_values(module)
        self._average = [value.detach().clone() for value in self._current]

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def update(self, steps: int) -> None:
        """Include the module's values after a step, the number `steps` so far."""
        torch._foreach_lerp_(self._average, self._current, 1 - min(self._decay, (1 + steps) / (10 + steps)))

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Replace the module's values by the average within a `with` block."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _swap(self) -> None:
        for average, current in zip(self._average, self._current):
            saved = current.detach().clone()
            current.copy_(average)
            average.copy_(saved)

    def state_dict(self) -> list[Tensor]:
        """Return the average for a checkpoint."""
        return self._average

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def load_state_dict(self, state: list[Tensor]) -> None:
        """Restore the result of `state_dict`."""
        for average, saved in zip(self._average, state, strict=True):
            average.copy_(saved)


def _float_values(module: nn.Module) -> list[Tensor]:
    """Return parameters and floating-point buffers; integer buffers only count steps."""
    return [value for value in (*module.parameters(), *module.buffers()) if value.is_floating_point()]
