"""A modern residual policy net: pre-activation blocks, some of which also see the whole board through pooling.

Blocks: He et al. 2016 (arXiv:1603.05027). Global pooling that biases channels: Wu 2019 (arXiv:1902.10565), 4.1 and A.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kifu.learn.nets.base import Network, NetworkConfig, PointsConv, first_padding

_EVERY = 3
"""Each so manieth block pools."""

_HEAD = 32
"""Channels of the policy head."""


def _conv(channels_in: int, channels_out: int, size: int) -> nn.Conv2d:
    """Its bias would be undone by the batch norm that follows."""
    return nn.Conv2d(channels_in, channels_out, size, padding=size // 2, bias=False)


class PooledBias(nn.Module):  # type: ignore[misc]
    """What the whole board says to each channel: a linear map of the channels' means and maxima."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels_in)
        self.linear = nn.Linear(2 * channels_in, channels_out)

    def pooled(self, x: Tensor) -> Tensor:
        """[B, 2 F_in] of x [B, F_in, H, W]."""
        x = torch.relu(self.norm(x))
        return torch.cat((x.mean((2, 3)), x.amax((2, 3))), 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.pooled(x))[:, :, None, None]  # [B, F_out, 1, 1]


class ResidualBlock(nn.Module):  # type: ignore[misc]
    """x + two convolutions of it; the second sees the whole board if the block pools."""

    def __init__(self, channels: int, pools: bool) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(channels), _conv(channels, channels, 3)
        self.norm2, self.conv2 = nn.BatchNorm2d(channels), _conv(channels, channels, 3)
        self.squeeze = _conv(channels, channels // 2, 1) if pools else None
        self.bias = PooledBias(channels // 2, channels) if pools else None

    def forward(self, x: Tensor) -> Tensor:
        seen = torch.relu(self.norm1(x))
        y = self.conv1(seen)
        if self.squeeze is not None and self.bias is not None:
            y = y + self.bias(self.squeeze(seen))
        return x + self.conv2(torch.relu(self.norm2(y)))


class Residual(Network):
    """`b6c64`: six blocks of 64 channels after a first convolution, all of 3 x 3. Any board size.

    Batch norm and ReLU come before each convolution. Every third block also adds to each channel what the means and the
    maxima of all channels say, over the whole board, and so does the head; a pass is told by them alone.
    """

    any_size = True

    def __init__(self, task: NetworkConfig, blocks: int, channels: int) -> None:
        super().__init__(task, channels)
        self.stem = nn.Conv2d(task.planes, channels, 3, padding=first_padding(3, task.rim), bias=False)
        self.blocks = nn.Sequential(*(ResidualBlock(channels, k % _EVERY == _EVERY - 1) for k in range(blocks)))
        self.norm = nn.BatchNorm2d(channels)
        self.place = _conv(channels, _HEAD, 1)
        self.squeeze = _conv(channels, _HEAD, 1)
        self.bias = PooledBias(_HEAD, _HEAD)
        self.head_norm = nn.BatchNorm2d(_HEAD)
        self.points = PointsConv(_HEAD)
        self.pass_ = nn.Linear(2 * _HEAD, 1) if task.passes else None

    def features(self, planes: Tensor) -> Tensor:
        return torch.relu(self.norm(self.blocks(self.stem(planes))))

    def policy(self, features: Tensor) -> Tensor:
        pooled = self.bias.pooled(self.squeeze(features))  # [B, 2 _HEAD]
        y = self.place(features) + self.bias.linear(pooled)[:, :, None, None]
        points = self.points(torch.relu(self.head_norm(y)))  # [B, N]
        return points if self.pass_ is None else torch.cat((points, self.pass_(pooled)), 1)
