"""The network of C. Clark and A. Storkey, "Teaching Deep Convolutional Neural Networks to Play Go" (2014).

arXiv:1412.3409.
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
    """Seven convolutions, 64 of 7 x 7, then 64, 64, 48, 48, 32 and 32 of 5 x 5, and one fully connected layer.

    Weights that a symmetry of the board maps onto each other are tied, so that a transformed position gives the
    transformed policy. For the planes `clark8`, whose rim is the edge that the paper draws in the padding.

    Uncertain readings: the weights of the last layer are tied as those of the filters are, over all 8 symmetries (4 on
    a board that is not square), and so are its biases. Illegal moves are not masked here. The paper has no pass; here
    its logit is computed from the mean of each channel.
    """

    any_size = False

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config, _LAYERS[-1][0])
        channels = config.planes
        parts: list[nn.Module] = []
        for filters, size in _LAYERS:
            padding = size // 2 if parts else first_padding(size, config.rim)
            parts += [SymmetricConv(channels, filters, size, padding), nn.ReLU()]
            channels = filters
        self.trunk = nn.Sequential(*parts)
        self.points = SymmetricLinear(channels, config.width, config.height)
        self.pass_ = nn.Linear(channels, 1) if config.passes else None

    def features(self, planes: Tensor, globals: Tensor | None) -> Tensor:
        """Map planes to features [B, F, H, W]."""
        return self.trunk(planes)

    def policy(self, features: Tensor) -> Tensor:
        """Map features to policy logits [B, moves]."""
        points = self.points(features)  # [B, N]
        return points if self.pass_ is None else torch.cat((points, self.pass_(features.mean((2, 3)))), 1)


class SymmetricConv(nn.Module):  # type: ignore[misc]
    """A convolution whose filters equal their mirror images and rotations: 10 weights of 49, or 6 of 25."""

    def __init__(self, channels_in: int, channels_out: int, size: int, padding: int) -> None:
        super().__init__()
        orbits, count = _orbits(symmetries(size, size)[:, :-1])
        self.size, self.padding = size, padding
        self.weight = nn.Parameter(torch.empty(channels_out, channels_in, count))
        self.bias = nn.Parameter(torch.empty(channels_out))
        self.register_buffer("orbits", torch.tensor(orbits), persistent=False)  # [size * size]
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the weights as torch does for a convolution."""
        _reset(self.weight, self.bias, self.fans[0])

    @property
    def fans(self) -> tuple[int, int]:
        """Fan-in and fan-out; tied weights count as often as they are used."""
        channels_out, channels_in, _ = self.weight.shape
        return channels_in * self.size**2, channels_out * self.size**2

    def forward(self, x: Tensor) -> Tensor:
        """Convolve x [B, F_in, H, W] to [B, F_out, H, W]."""
        weight = self.weight[:, :, self.orbits].unflatten(2, (self.size, self.size))  # [F_out, F_in, size, size]
        return functional.conv2d(x, weight, self.bias, padding=self.padding)


class SymmetricLinear(nn.Module):  # type: ignore[misc]
    """A fully connected layer to one number per point, with weights tied under the symmetries of the board."""

    def __init__(self, channels: int, width: int, height: int) -> None:
        super().__init__()
        maps = symmetries(width, height)[:, :-1].astype(np.int64)  # [8, N]
        maps = maps if width == height else maps[:4]
        points = width * height
        pairs = (maps[:, :, None] * points + maps[:, None, :]).reshape(len(maps), -1)  # [8, N * N], to and from
        orbits, count = _orbits(pairs)
        bias_orbits, biases = _orbits(maps)
        self.weight = nn.Parameter(torch.empty(channels, count))
        self.bias = nn.Parameter(torch.empty(biases))
        self.register_buffer("orbits", torch.tensor(orbits), persistent=False)  # [N * N]
        self.register_buffer("bias_orbits", torch.tensor(bias_orbits), persistent=False)  # [N]
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the weights as torch does for a linear layer."""
        _reset(self.weight, self.bias, self.fans[0])

    @property
    def fans(self) -> tuple[int, int]:
        """Fan-in and fan-out; tied weights count as often as they are used."""
        points = len(self.bias_orbits)
        return self.weight.shape[0] * points, points

    def forward(self, features: Tensor) -> Tensor:
        """Map features [B, F, H, W] to [B, N]."""
        points = len(self.bias_orbits)
        weight = self.weight[:, self.orbits].unflatten(1, (points, points))  # [F, N to, N from]
        weight = weight.transpose(0, 1).flatten(1)  # [N, F * N]
        return functional.linear(features.flatten(1), weight, self.bias[self.bias_orbits])


def _orbits(maps: npt.NDArray[np.integer]) -> tuple[npt.NDArray[np.int64], int]:
    """Return the orbit of each place under the maps [symmetries, places], and the number of orbits."""
    names, orbits = np.unique(maps.min(axis=0), return_inverse=True)
    return orbits.astype(np.int64), len(names)


def _reset(weight: nn.Parameter, bias: nn.Parameter, fan_in: int) -> None:
    bound = fan_in**-0.5
    nn.init.uniform_(weight, -bound, bound)
    nn.init.uniform_(bias, -bound, bound)
