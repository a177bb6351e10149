"""An average of the weights that follows them: what is validated and saved of a run that has one."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class EMA:
    """Exponential moving average of the parameters, and of what batch norms have counted.

    Step n keeps min(decay, (1 + n) / (10 + n)) of the average, so that the first weights, drawn by chance, are soon
    forgotten. Lightning's own (`EMAWeightAveraging`) asks the device for its count in each step, which lets a GPU wait.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self._decay = decay
        self._followed = _values(module)
        self._average = [value.detach().clone() for value in self._followed]

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def update(self, steps: int) -> None:
        """After a step. steps: how many there were, this one with it."""
        keep = min(self._decay, (1 + steps) / (10 + steps))
        torch._foreach_lerp_(self._average, self._followed, 1 - keep)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def swap(self) -> None:
        """Puts the average into the module, and the module's own values here; the next call undoes it."""
        for mine, its in zip(self._average, self._followed):
            held = its.detach().clone()
            its.copy_(mine)
            mine.copy_(held)

    def state(self) -> list[Tensor]:
        """The average, to be saved."""
        return self._average

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def load(self, state: list[Tensor]) -> None:
        """What `state` was."""
        for mine, saved in zip(self._average, state, strict=True):
            mine.copy_(saved)


def _values(module: nn.Module) -> list[Tensor]:
    """Parameters and buffers that are real numbers; the others only count steps."""
    return [value for value in (*module.parameters(), *module.buffers()) if value.is_floating_point()]
