"""A network that learns: its errors on a batch, as Lightning's trainer asks for them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from lightning.pytorch import LightningModule
from torch import Tensor
from torch.nn import functional
from torch.optim import Optimizer

from kifu.datasets.labels import UNKNOWN
from kifu.datasets.torch_data import unpack
from kifu.learn.data import TrainingBatch
from kifu.learn.nets import Network, NetworkOutput
from kifu.learn.optim import make_optimiser
from kifu.recipes.training import TrainingRecipe

TOP = 5

COUNTED = ("positions", "loss", "top1", "top5", "value", "value_known", "ownership", "ownership_known")
"""What `Measured.sums` holds: sums over positions (of ownership: over points), and how many there were."""


class Measured(NamedTuple):
    """loss: what is learned from, a mean over the batch.  sums: [8] float32, see COUNTED."""

    loss: Tensor
    sums: Tensor


class PolicyModule(LightningModule):  # type: ignore[misc]
    """A network and how it learns.

    sums: [8] float32 of the training since they were last taken, see COUNTED.  bad: how many batches there were in a
    row, up to the last one, whose loss was no number.  Both lie where the network does, so that nothing waits for it.
    """

    def __init__(self, network: Network, recipe: TrainingRecipe) -> None:
        super().__init__()
        self.network, self.recipe = network, recipe
        self.sums, self.bad = torch.zeros(len(COUNTED)), torch.zeros((), dtype=torch.int64)

    def on_fit_start(self) -> None:
        self.sums, self.bad = self.sums.to(self.device), self.bad.to(self.device)

    def configure_optimizers(self) -> Optimizer:
        return make_optimiser(self.network, self.recipe.optimiser)

    def configure_gradient_clipping(
        self, optimizer: Optimizer, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Lightning's own refuses fused optimisers in bfloat16, whose gradients are as they are, unlike float16's."""
        if self.recipe.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.clip)

    def training_step(self, examples: TrainingBatch, batch_idx: int) -> Tensor:
        measured = self.measure(examples)
        self.sums += measured.sums
        self.bad = (self.bad + 1) * ~measured.loss.detach().isfinite()
        return measured.loss

    def measure(self, examples: TrainingBatch) -> Measured:
        """The errors on a batch. Nothing waits for the device."""
        told: NetworkOutput = self.network(self.ready(examples.planes))
        policy = told.policy.float()
        loss = functional.cross_entropy(policy, examples.move)
        with torch.no_grad():
            own = policy.gather(1, examples.move[:, None])
            # Of equal ones, which bfloat16 makes many of, the first is ahead, as argmax takes it.
            earlier = torch.arange(policy.shape[1], device=policy.device) < examples.move[:, None]
            ahead = ((policy > own) | ((policy == own) & earlier)).sum(1)
            count = len(ahead)
            counts = [torch.tensor(float(count), device=loss.device), loss.detach() * count]
            counts += [(ahead < top).sum().float() for top in (1, TOP)]
        for head, truth in (("value", examples.result), ("ownership", examples.ownership)):
            guess: Tensor | None = getattr(told, head)
            if guess is None or truth is None:
                counts += [torch.zeros((), device=loss.device)] * 2
                continue
            known = truth != UNKNOWN
            error = torch.where(known, (guess.float() - truth) ** 2, 0).sum()
            loss = loss + self.recipe.heads[head] * error / known.sum().clamp(min=1)  # type: ignore[index]
            counts += [error.detach(), known.sum().float()]
        return Measured(loss, torch.stack(counts))

    def ready(self, planes: Tensor) -> Tensor:
        """Planes as the network takes them: unpacked, of its kind of numbers, channels last."""
        kind = torch.bfloat16 if self.recipe.precision == "bfloat16" else torch.float32
        if planes.ndim == 3:
            rim = 2 * self.network.task.rim
            planes = unpack(planes, self.network.task.height + rim, self.network.task.width + rim, kind)
        return planes.to(kind, memory_format=torch.channels_last)
