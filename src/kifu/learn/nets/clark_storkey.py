"""The network of C. Clark and A. Storkey, "Teaching Deep Convolutional Neural Networks to Play Go".

arXiv:1412.3409, of 2014.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from kifu.learn.nets.base import Network, NetworkConfig, first_padding
from kifu.point import symmetries

_LAYERS = ((64, 7), (64, 5), (64, 5), (48, 5), (48, 5), (32, 5), (32, 5))


class ClarkStorkey(Network):
    """Seven convolutions, 64 of 7 x 7, then of 5 x 5 twice 64, 48 and 32, and a layer that sees the whole board.

    Weights that a mirror or a turn of the board lays on one another are one: the net is made so that a turned position
    gives the turned policy. With the planes `clark8`, whose rim is the edge that the paper draws in the padding.

    The layers are told in many places; readings that are uncertain: the last layer's weights are tied as the filters'
    are, over all 8 symmetries (4 on a board that is no square), and its biases, too. Illegal moves are not masked here.
    A pass, which the paper has not, is told by the mean of each channel.
    """

    any_size = False

    def __init__(self, task: NetworkConfig) -> None:
        super().__init__(task, _LAYERS[-1][0])
        channels = task.planes
        parts: list[nn.Module] = []
        for filters, size in _LAYERS:
            padding = size // 2 if parts else first_padding(size, task.rim)
            parts += [SymmetricConv(channels, filters, size, padding), nn.ReLU()]
            channels = filters
        self.trunk = nn.Sequential(*parts)
        self.points = SymmetricLinear(channels, task.width, task.height)
        self.pass_ = nn.Linear(channels, 1) if task.passes else None

    def features(self, planes: Tensor) -> Tensor:
        return self.trunk(planes)

    def policy(self, features: Tensor) -> Tensor:
        points = self.points(features)  # [B, N]
        return points if self.pass_ is None else torch.cat((points, self.pass_(features.mean((2, 3)))), 1)


class SymmetricConv(nn.Module):  # type: ignore[misc]
    """A convolution whose filters are equal to their mirror images and turns: 10 weights of 49, or 6 of 25."""

    def __init__(self, channels_in: int, channels_out: int, size: int, padding: int) -> None:
        super().__init__()
        orbits, count = _orbits(symmetries(size, size)[:, :-1])
        self.size, self.padding = size, padding
        self.weight = nn.Parameter(torch.empty(channels_out, channels_in, count))
        self.bias = nn.Parameter(torch.empty(channels_out))
        self.register_buffer("orbits", torch.tensor(orbits), persistent=False)  # [size * size]
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights as torch does those of a convolution."""
        _draw(self.weight, self.bias, self.fans[0])

    @property
    def fans(self) -> tuple[int, int]:
        """How many inputs an output has, and how many outputs an input."""
        channels_out, channels_in, _ = self.weight.shape
        return channels_in * self.size**2, channels_out * self.size**2

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight[:, :, self.orbits].unflatten(2, (self.size, self.size))  # [F_out, F_in, size, size]
        return functional.conv2d(x, weight, self.bias, padding=self.padding)


class SymmetricLinear(nn.Module):  # type: ignore[misc]
    """[B, N] of [B, F, H, W]: each point from all points, by weights that are equal under the board's symmetries."""

    def __init__(self, channels: int, width: int, height: int) -> None:
        super().__init__()
        turns = symmetries(width, height)[:, :-1].astype(np.int64)  # [8, N]
        turns = turns if width == height else turns[:4]
        points = width * height
        pairs = (turns[:, :, None] * points + turns[:, None, :]).reshape(len(turns), -1)  # [8, N * N], to and from
        orbits, count = _orbits(pairs)
        bias_orbits, biases = _orbits(turns)
        self.weight = nn.Parameter(torch.empty(channels, count))
        self.bias = nn.Parameter(torch.empty(biases))
        self.register_buffer("orbits", torch.tensor(orbits), persistent=False)  # [N * N]
        self.register_buffer("bias_orbits", torch.tensor(bias_orbits), persistent=False)  # [N]
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights as torch does those of a linear layer."""
        _draw(self.weight, self.bias, self.fans[0])

    @property
    def fans(self) -> tuple[int, int]:
        """How many inputs an output has, and how many outputs an input."""
        points = len(self.bias_orbits)
        return self.weight.shape[0] * points, points

    def forward(self, features: Tensor) -> Tensor:
        points = len(self.bias_orbits)
        weight = self.weight[:, self.orbits].unflatten(1, (points, points))  # [F, N to, N from]
        weight = weight.transpose(0, 1).flatten(1)  # [N, F * N]
        return functional.linear(features.flatten(1), weight, self.bias[self.bias_orbits])


def _orbits(turns: npt.NDArray[np.integer]) -> tuple[npt.NDArray[np.int64], int]:
    """Which places come on one another, of [symmetries, places]: each place's class, and how many classes there are."""
    names, orbits = np.unique(turns.min(axis=0), return_inverse=True)
    return orbits.astype(np.int64), len(names)


def _draw(weight: nn.Parameter, bias: nn.Parameter, inputs: int) -> None:
    bound = inputs**-0.5
    nn.init.uniform_(weight, -bound, bound)
    nn.init.uniform_(bias, -bound, bound)
