"""How weights are drawn before training, by name."""

from __future__ import annotations

import torch
from torch import nn

from kifu.errors import RecipeError
from kifu.learn.nets.clark_storkey import SymmetricConv, SymmetricLinear
from kifu.registry import nearest

INITIALISATIONS = {
    "torch": "as torch draws them: uniform to 1 / sqrt(inputs), biases too",
    "glorot-uniform": "Glorot and Bengio 2010, Keras' default: uniform to sqrt(6 / (inputs + outputs)), biases 0",
    "he-normal": "He et al. 2015, for ReLU: normal, of deviation sqrt(2 / inputs), biases 0",
}
"""Each with one line for people."""

_LAYERS = (nn.Conv2d, nn.Linear, SymmetricConv, SymmetricLinear)


@torch.no_grad()  # type: ignore[untyped-decorator]
def initialise(module: nn.Module, name: str) -> None:
    """Draws the weights of convolutions and linear layers anew, in place, from torch's generator.

    What norms learn stays as it is. "torch" changes nothing: it is how `make_net` draws them.
    Raises RecipeError for a name that there is not.
    """
    if name not in INITIALISATIONS:
        near = nearest(name, INITIALISATIONS)
        raise RecipeError(f"no initialisation {name!r}; did you mean {near!r}? There are {', '.join(INITIALISATIONS)}")
    draw = {"glorot-uniform": _glorot_uniform, "he-normal": _he_normal}.get(name)
    if draw is None:
        return
    for part in module.modules():
        if isinstance(part, _LAYERS):
            draw(part.weight, *_fans(part))
            if part.bias is not None:
                part.bias.zero_()


def _glorot_uniform(weight: torch.Tensor, inputs: int, outputs: int) -> None:
    bound = (6 / (inputs + outputs)) ** 0.5
    weight.uniform_(-bound, bound)


def _he_normal(weight: torch.Tensor, inputs: int, outputs: int) -> None:
    weight.normal_(0, (2 / inputs) ** 0.5)


def _fans(layer: nn.Module) -> tuple[int, int]:
    """How many inputs an output has, and how many outputs an input; tied weights count as often as they are used."""
    if isinstance(layer, SymmetricConv | SymmetricLinear):
        inputs, outputs = layer.fans
        return inputs, outputs
    field = layer.weight[0, 0].numel()
    return layer.weight.shape[1] * field, layer.weight.shape[0] * field
