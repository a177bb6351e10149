"""How large a network is, and how much work one position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from kifu.learn.nets.registry import make_net
from kifu.planes.encoder import find_encoder


@dataclass(frozen=True, slots=True)
class LayerCount:
    """A layer that has weights. shape: of what it gives for one position. flops: of its convolution or matrix."""

    name: str
    kind: str
    shape: tuple[int, ...]
    parameters: int
    flops: int


@dataclass(frozen=True, slots=True)
class Count:
    """parameters: numbers that are learned, tied ones counted once. flops: a multiply-add is two of them; of
    convolutions and matrices alone, forward, for one position."""

    parameters: int
    flops: int
    layers: tuple[LayerCount, ...]


def count_net(name: str, planes: str, width: int = 19, height: int = 19) -> Count:
    """Counts a network on planes of that set, with the policy alone and no pass, without computing anything.

    Raises RecipeError for names that there are not, GameError for a board size that the planes do not take.
    """
    encoder = find_encoder(planes, width, height)
    with torch.device("meta"):
        net = make_net(name, encoder.planes, width, height, rim=encoder.plane_set.rim).eval()
        position = torch.empty(1, *encoder.shape)
    told: list[LayerCount] = []
    counter = FlopCounterMode(display=False)

    def tell(layer: nn.Module, _: Any, out: torch.Tensor) -> None:
        """After each layer: what was added to the count is its own."""
        flops = counter.get_total_flops() - sum(each.flops for each in told)
        parameters = sum(weight.numel() for weight in layer.parameters())
        told.append(LayerCount(names[layer], type(layer).__name__, tuple(out.shape[1:]), parameters, flops))

    names = {part: part_name for part_name, part in net.named_modules() if [*part.parameters(recurse=False)]}
    handles = [part.register_forward_hook(tell) for part in names]
    with counter:
        net(position)
    for handle in handles:
        handle.remove()
    return Count(sum(weight.numel() for weight in net.parameters()), counter.get_total_flops(), tuple(told))
