"""The network of C. Maddison, A. Huang, I. Sutskever and D. Silver.

"Move Evaluation in Go Using Deep Convolutional Neural Networks", arXiv:1412.6564, of 2014.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kifu.learn.nets.base import Network, NetworkConfig, PointsConv, first_padding

_LAYERS, _FILTERS = 12, 128


class Maddison(Network):
    """Twelve convolutions of 128 filters, 5 x 5 and then 3 x 3, whose biases differ from point to point.

    With the planes `maddison36`. One board size. Biases begin as 0.

    Readings that are uncertain: the paper tells a range of filters a layer. 128 in each, with an own bias for each
    filter and point, comes near the totals that are quoted of it: 2.3 million parameters, 550,000 hidden units, 630
    million connections (here 2.29 million, 554,496, and 627 million). The policy is a convolution of 1 x 1, again with
    a bias for each point, that does not count among the twelve; there is one for the side to move, not one for each
    colour, since the planes tell own and opponent's stones. A pass, which the paper has not, is told by the mean of
    each channel.
    """

    any_size = False

    def __init__(self, task: NetworkConfig) -> None:
        super().__init__(task, _FILTERS)
        parts: list[nn.Module] = []
        for k in range(_LAYERS):
            channels, size, padding = (_FILTERS, 3, 1) if k else (task.planes, 5, first_padding(5, task.rim))
            parts += [nn.Conv2d(channels, _FILTERS, size, padding=padding, bias=False)]
            parts += [PointBias(_FILTERS, task.height, task.width), nn.ReLU()]
        self.trunk = nn.Sequential(*parts)
        self.points = PointsConv(_FILTERS, bias=False)
        self.points_bias = PointBias(task.points)
        self.pass_ = nn.Linear(_FILTERS, 1) if task.passes else None

    def features(self, planes: Tensor) -> Tensor:
        return self.trunk(planes)

    def policy(self, features: Tensor) -> Tensor:
        points = self.points_bias(self.points(features))  # [B, N]
        return points if self.pass_ is None else torch.cat((points, self.pass_(features.mean((2, 3)))), 1)


class PointBias(nn.Module):  # type: ignore[misc]
    """A number for each filter and point, added to all positions of a batch."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(shape))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias
