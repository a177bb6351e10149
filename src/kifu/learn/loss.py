"""The training loss of a network, the sums from which all figures are computed, and the targets of teachers."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from kifu.datasets.examples import UNKNOWN
from kifu.datasets.labels import OWNER_UNIT
from kifu.datasets.torch_data import unpack
from kifu.errors import RecipeError
from kifu.katago.checkpoint import read_network
from kifu.katago.net_file import KataNetFile, is_kata_net, parse_structure
from kifu.katago.new_net import with_encoder, with_new_heads
from kifu.learn.backends import evaluate_batch
from kifu.learn.data import TrainingBatch, TrainingGames, open_teachers
from kifu.learn.inference import Net
from kifu.learn.net import open_net
from kifu.learn.networks import Network, NetworkOutput, draw_known
from kifu.learn.registry import KATAGO, import_net, initialize, make_net_for
from kifu.learn.torch_backend import TorchBackend, flush_denormals, supported_precision
from kifu.learn.torch_net import copy_weights
from kifu.point import WHITE
from kifu.recipes.training import TrainingRecipe

TOP = 5

_LEAD_UNIT = 10
"""Points of error from which on the loss of the lead grows linearly."""

HEADS = ("value", "ownership", "score")

SUMS = ("positions", "loss", "top1", "top5", *(name for head in HEADS for name in (head, f"{head}_known")))
"""The entries of `BatchLoss.sums`: the number of positions; sums of the policy loss and of correct predictions; sums of
squared errors of the value and (over points) the ownership, and of absolute errors of the lead, each followed by the
number of known labels."""


class BatchLoss(NamedTuple):
    """The scalar to minimize, a mean over the batch, and [10] float32 sums, see `SUMS`."""

    loss: Tensor
    sums: Tensor


HeadLoss = tuple[Tensor, Tensor, Tensor]
"""The loss of a head, the sum of its errors, and the number of known labels."""


class PolicyModule(nn.Module):  # type: ignore[misc]
    """A network with its loss: maps a `TrainingBatch` to a `BatchLoss` without synchronizing with the device."""

    def __init__(self, network: Network, recipe: TrainingRecipe) -> None:
        super().__init__()
        self.network = network
        self._head_weights = dict(recipe.heads)
        self._inputs, self._input_dropout = recipe.inputs, recipe.input_dropout
        self._precision = recipe.precision
        self._soft_weight, self._temperature = 0.0, 1.0
        if recipe.teacher is not None:
            self._soft_weight, self._temperature = recipe.teacher.weight, recipe.teacher.temperature

    def forward(self, batch: TrainingBatch) -> BatchLoss:
        """Return the errors on a batch."""
        planes, globals_, count = self.prepare(batch.planes), batch.globals, len(batch.move)
        if globals_ is not None and self.training:
            # Two positions of a pair lack the same inputs, but never komi, without which no lead is known.
            pairs, kept = (1, ()) if batch.score is None else (2, ("komi",))
            known = draw_known(globals_[: count // pairs], self._inputs, self._input_dropout, kept)
            globals_ = globals_ * known.repeat(pairs, 1)
        with torch.autocast(planes.device.type, torch.bfloat16, enabled=planes.dtype == torch.bfloat16):
            output: NetworkOutput = self.network(planes, globals_)
        policy = output.policy.float()
        loss = functional.cross_entropy(policy, batch.move)
        preferred = _count_preferred(policy.detach(), batch.move)
        sums = [torch.full((), float(count), device=loss.device), loss.detach() * count]
        if batch.soft_policy is not None:
            # Gradients shrink as 1 / T^2 with the temperature T (Hinton et al. 2015, arXiv:1503.02531, section 2).
            soft = functional.cross_entropy(policy / self._temperature, batch.soft_policy) * self._temperature**2
            loss = (1 - self._soft_weight) * loss + self._soft_weight * soft
        sums += [(preferred < top).sum().float() for top in (1, TOP)]
        heads = {}
        if output.value is not None and batch.result is not None:
            heads["value"] = self._value_loss(output.value.float(), batch)
        if batch.score is not None:
            heads |= _points_loss(output, batch, pairs=self.training)
        for head in HEADS:
            head_loss, error, known = heads.get(head, [torch.zeros((), device=loss.device)] * 3)
            loss = loss + self._head_weights.get(head, 0) * head_loss  # type: ignore[call-overload]
            sums += [error.detach(), known]
        if output.next is not None and batch.next is not None:
            moves = batch.next[:, 1 : 1 + output.next.shape[1]]
            loss = loss + self._head_weights["next"] * _next_loss(output.next.float(), moves)
        return BatchLoss(loss, torch.stack(sums))

    def _value_loss(self, value: Tensor, batch: TrainingBatch) -> HeadLoss:
        assert batch.result is not None
        known = batch.result != UNKNOWN
        error = torch.where(known, (value - batch.result) ** 2, 0).sum()
        loss = error / known.sum().clamp(min=1)
        if batch.soft_value is not None:
            soft_error = functional.mse_loss(value, batch.soft_value)
            loss = (1 - self._soft_weight) * loss + self._soft_weight * soft_error
        return loss, error, known.sum().float()

    def prepare(self, planes: Tensor) -> Tensor:
        """Return the loader's planes, packed or not, as [B, C, H, W] in the network's dtype, channels last."""
        bfloat16 = supported_precision(self._precision, planes.device) == "bfloat16"
        dtype = torch.bfloat16 if bfloat16 else torch.float32
        if planes.ndim == 3:
            config = self.network.config
            planes = unpack(planes, config.height + 2 * config.rim, config.width + 2 * config.rim, dtype)
        return planes.to(dtype, memory_format=torch.channels_last)


def _next_loss(logits: Tensor, moves: Tensor) -> Tensor:
    """Return the mean cross-entropy of logits [B, K, N] with moves [B, K], but for passes and moves after the end."""
    known = (moves >= 0) & (moves < logits.shape[2])
    target = torch.where(known, moves.long(), -1)
    total = functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=-1, reduction="sum")
    return total / known.sum().clamp(min=1)


def _points_loss(output: NetworkOutput, batch: TrainingBatch, pairs: bool) -> dict[str, HeadLoss]:
    """Return the losses of ownership and score.

    The latter is that of the lead, of its change by a move if the batch consists of pairs, and of the logarithm of the
    standard deviation.
    """
    ownership, score, to_play = batch.ownership, batch.score, batch.to_play
    assert ownership is not None
    assert score is not None
    assert to_play is not None
    assert output.ownership is not None
    assert output.score is not None
    error = (output.ownership.float() - ownership / OWNER_UNIT) ** 2
    found = output.score.float()
    off = found[:, 0] - score[:, 0]
    loss = _lead_loss(off) + ((found[:, 1] / score[:, 1]).log() ** 2).mean()
    if pairs:
        before, after = torch.where(to_play == WHITE, -off, off).chunk(2)
        loss = loss + _lead_loss(after - before)
    count = torch.full((), float(len(off)), device=off.device)
    return {
        "ownership": (error.mean(), error.sum().detach(), count * error.shape[1]),
        "score": (loss, off.abs().sum().detach(), count),
    }


def _lead_loss(points: Tensor) -> Tensor:
    """Return the mean loss of errors in points."""
    return functional.smooth_l1_loss(points / _LEAD_UNIT, torch.zeros_like(points))


def make_policy_module(recipe: TrainingRecipe) -> PolicyModule:
    """Return the module of a recipe before its first step, a pure function of the recipe and the nets that it names."""
    encoder = recipe.encoder()
    import_net(recipe.net)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = make_net_for(
            recipe.net, encoder, passes=recipe.positions.passes, heads=tuple(recipe.heads), inputs=recipe.inputs,
            file=_kata_file(recipe),
        )  # fmt: skip
        initialize(network, recipe.init)
    if recipe.init_from is not None and not is_kata_net(recipe.init_from):
        copy_weights(open_net(recipe.init_from), network, recipe.net, encoder.plane_set.name)
    return PolicyModule(flush_denormals(network).to(memory_format=torch.channels_last), recipe)


def _kata_file(recipe: TrainingRecipe) -> KataNetFile | None:
    """Return the network of KataGo whose layers and weights a recipe starts from."""
    path = recipe.init_from
    if path is None or recipe.net != KATAGO:
        if path is not None and is_kata_net(path):
            raise RecipeError(f"init_from: {path} requires net = '{KATAGO}', got {recipe.net!r}")
        return None
    if not is_kata_net(path):
        if recipe.new_heads:
            raise RecipeError(f"new_heads requires a network file of KataGo as init_from, got {path}")
        about = open_net(path).about
        return parse_structure(about.structure) if about.net == KATAGO else None
    file, random = read_network(Path(path)), np.random.default_rng(recipe.seed)
    if recipe.new_heads:
        with_new_heads(file, random)
    if recipe.inputs and not file.is_human:
        with_encoder(file, random)
    return file


def _count_preferred(policy: Tensor, move: Tensor) -> Tensor:
    """Return [B] how many moves are preferred to the given one by policy logits [B, moves].

    Of equal logits, which are frequent in bfloat16, the first move is preferred, as argmax does.
    """
    played = policy.gather(1, move[:, None])
    earlier = torch.arange(policy.shape[1], device=policy.device) < move[:, None]
    return ((policy > played) | ((policy == played) & earlier)).sum(1)


class Teachers:
    """The teachers of a recipe on one device."""

    def __init__(self, recipe: TrainingRecipe, games: TrainingGames, device: torch.device) -> None:
        assert recipe.teacher is not None
        self._config, self._size, self._passes = recipe.teacher, recipe.size, recipe.positions.passes
        self._teach_value = not recipe.random_komi
        self._games, self._device = games, device
        self._symmetries, self._precision = self._config.symmetries, recipe.precision
        self._teachers = [self._open(net) for net in open_teachers(recipe)]

    def _open(self, net: Net | str) -> Net | tuple[Net, TorchBackend]:
        """Return a net of KataGo, or another one with its network on the device."""
        if isinstance(net, str):
            opened = open_net(net, symmetries=self._symmetries, precision=self._precision)
            opened.check_board(*self._size)
            return opened
        return net, TorchBackend(net.module, self._device, self._precision)

    def label(self, batch: TrainingBatch) -> TrainingBatch:
        """Return a batch with the soft targets instead of the teachers' inputs.

        The policy is the mean of the teachers' probabilities, raised to the power 1 / temperature and normalized. The
        value is the mean of those teachers that have one. With random komi it is None, because teachers are given the
        komi of the record.
        """
        points = self._size[0] * self._size[1]
        policies, values = [], []
        for teacher, inputs in zip(self._teachers, batch.teachers, strict=True):
            log_policy, worth = self._evaluate(teacher, inputs)
            policies.append(log_policy[:, : points + self._passes])
            values += [] if worth is None or not self._teach_value else [worth]
        log_probs = torch.stack(policies).logsumexp(0)
        value = torch.stack(values).mean(0) if values else None
        soft_policy = (log_probs / self._config.temperature).softmax(1)
        return batch._replace(soft_policy=soft_policy, soft_value=value, teachers=())

    def _evaluate(
        self, teacher: Net | tuple[Net, TorchBackend], inputs: tuple[Tensor, Tensor | None]
    ) -> tuple[Tensor, Tensor | None]:
        """Return log-probabilities [B, moves], and values [B] if the teacher has them."""
        planes, other = inputs
        if isinstance(teacher, Net):
            assert other is not None
            found = teacher.evaluate(self._games.positions(planes.cpu().numpy().view(np.uint64), other.cpu().numpy()))
            log_probs, value = (torch.from_numpy(array).to(self._device) for array in (found.log_probs, found.value))
            return log_probs, value
        net, backend = teacher
        if planes.ndim == 3:
            planes = unpack(planes, *net.encoder_for(*self._size).shape[1:])
        return evaluate_batch(backend, planes, other, self._size, symmetries=self._symmetries)[:2]
