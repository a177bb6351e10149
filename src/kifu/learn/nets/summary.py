"""Parameter and FLOP counts of networks, as data, as one line and as a page of Markdown."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from kifu.datasets.global_inputs import INPUTS
from kifu.learn.nets.registry import find_net, import_net, make_net
from kifu.planes.encoder import find_encoder


@dataclass(frozen=True, slots=True)
class LayerCount:
    """The size of one layer with weights.

    Attributes:
        shape: The shape of its output for one position.
        flops: Floating-point operations of its convolution or matrix product for one position.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    parameters: int
    flops: int


@dataclass(frozen=True, slots=True)
class NetworkCount:
    """The size of a network.

    Attributes:
        parameters: Number of learned values; tied ones count once.
        flops: Floating-point operations of all convolutions and matrix products in the forward pass for one position.
            A multiply-add counts as two.
        layers: All layers with weights, in order of execution.
        takes_inputs: True if a recipe may give it global inputs.
    """

    parameters: int
    flops: int
    layers: tuple[LayerCount, ...]
    takes_inputs: bool


def count_net(name: str, planes: str, width: int = 19, height: int = 19) -> NetworkCount:
    """Count the parameters and operations of a network with a policy without pass, without computing anything.

    Raises:
        RecipeError: A name is unknown.
        GameError: The plane set does not support the board size.
    """
    encoder = find_encoder(planes, width, height)
    with torch.device("meta"):
        inputs = find_net(name).inputs
        net = make_net(name, encoder.planes, width, height, rim=encoder.plane_set.padding, inputs=inputs).eval()
        position, globals_ = torch.empty(1, *encoder.shape), torch.empty(1, net.config.global_size)
    layers: list[LayerCount] = []
    counter = FlopCounterMode(display=False)

    def count_layer(layer: nn.Module, _: Any, out: torch.Tensor | tuple[torch.Tensor, ...]) -> None:
        """Attribute the operations since the previous layer to this one."""
        flops = counter.get_total_flops() - sum(each.flops for each in layers)
        parameters = sum(weight.numel() for weight in layer.parameters(recurse=False))
        shape = (out[0] if isinstance(out, tuple) else out).shape[1:]
        layers.append(LayerCount(names[layer] or "net", type(layer).__name__, tuple(shape), parameters, flops))

    names = {layer: layer_name for layer_name, layer in net.named_modules() if [*layer.parameters(recurse=False)]}
    handles = [layer.register_forward_hook(count_layer) for layer in names]
    with counter:
        net(position, globals_)
    for handle in handles:
        handle.remove()
    parameters = sum(weight.numel() for weight in net.parameters())
    return NetworkCount(parameters, counter.get_total_flops(), tuple(layers), net.takes_inputs)


def net_line(name: str, planes: str | None = None, width: int = 19, height: int = 19) -> str:
    """Return one line with the size, description and source of a network.

    Args:
        planes: A plane set's name, by default the one of the network's source.
    """
    net = find_net(name)
    count = count_net(name, planes or net.planes, width, height)
    return f"{_short(count.parameters)} parameters, {_short(count.flops)} FLOPs; {net.title} ({net.source})"


def net_card(name: str, planes: str | None = None, width: int = 19, height: int = 19) -> str:
    """Return a page of Markdown with the description of a network and its layers.

    Args:
        name: A network's name, or "module:Class", which is imported.
        planes: A plane set's name, by default the one of the network's source.
    """
    net = import_net(name)
    count = count_net(name, planes or net.planes, width, height)
    rows = [
        f"| {each.name} | {each.kind} | {' x '.join(map(str, each.shape))} | {each.parameters:,} | {each.flops:,} |"
        for each in count.layers
    ]
    inputs = [f"- `{key}`: {each.title}" for key, each in INPUTS.items()]
    return "\n".join([
        f"# {name}", "", f"{net.title}. Source: {net.source}.", "", inspect.cleandoc(net.description), "",
        *(["Global inputs that a recipe may list:", "", *inputs, ""] if count.takes_inputs else []),
        f"On planes {planes or net.planes} of {width} x {height}, for one position:", "",
        "| layer | kind | output | parameters | FLOPs |", "|---|---|---|---:|---:|", *rows,
        f"| total | | | {count.parameters:,} | {count.flops:,} |", "",
    ])  # fmt: skip


def _short(number: int) -> str:
    """Return a number with at most three digits and a unit prefix."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.{1 if number < 100 * size else 0}f} {letter}"
    return str(number)
