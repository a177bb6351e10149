"""Muon for the matrices of a network, AdamW for the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW

_QUINTIC = (3.4445, -4.7750, 2.0315)
"""Coefficients of the iteration, from Jordan's text: the steepest at zero that stay within about 0.7 to 1.2."""

_ITERATIONS = 5

_RMS = 0.2
"""The size of AdamW's steps, about, which those of Muon are brought to, so that one rate serves both: Liu et al. 2025
(arXiv:2502.16982), 2.2."""


class Muon(AdamW):  # type: ignore[misc]
    """Steps of matrices have all their singular values brought near 1; those of vectors are AdamW's.

    A convolution's weight [F_out, F_in, h, w] counts as the matrix [F_out, F_in * h * w]. Muon: K. Jordan et al. 2024,
    "Muon: An optimizer for hidden layers in neural networks"; torch has it for matrices only, not for convolutions.
    """

    def __init__(
        self, matrices: Sequence[nn.Parameter], vectors: Sequence[nn.Parameter], lr: float, momentum: float,
        betas: tuple[float, float], decay: float,
    ) -> None:  # fmt: skip
        """decay: of the weights of matrices; vectors have none."""
        groups: list[dict[str, Any]] = [
            {"params": matrices, "weight_decay": decay, "momentum": momentum},
            {"params": vectors, "weight_decay": 0.0, "momentum": None},
        ]
        super().__init__(groups, lr, betas, fused=True)

    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        matrices = self.param_groups[0]
        told = [(p, p.grad) for p in matrices["params"] if p.grad is not None]
        with torch.no_grad():
            for p, gradient in told:
                self._turn(p, gradient, matrices)
                p.grad = None  # AdamW passes over what has no gradient
            super().step()
        for p, gradient in told:
            p.grad = gradient
        return loss

    def _turn(self, p: nn.Parameter, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[p]
        if not state:
            state["step"] = torch.zeros(())  # AdamW looks for it when a state is loaded
            state["mean"] = torch.zeros_like(p)
        state["mean"].lerp_(gradient, 1 - group["momentum"])
        ahead = gradient.lerp(state["mean"], group["momentum"]).flatten(1)  # as Nesterov's
        size = _RMS * max(ahead.shape) ** 0.5
        p.mul_(1 - group["lr"] * group["weight_decay"])
        p.add_(orthogonal(ahead).view(p.shape), alpha=-group["lr"] * size)


def orthogonal(matrix: Tensor) -> Tensor:
    """About the orthogonal matrix that is nearest to a matrix [F, G]: its singular values all become near 1.

    By Newton and Schulz's iteration in bfloat16, which needs products only.
    """
    a, b, c = _QUINTIC
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if tall else matrix).bfloat16()
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(_ITERATIONS):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return (x.T if tall else x).to(matrix.dtype)
