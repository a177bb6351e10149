"""A modern residual network: pre-activation blocks, some of which also pool over the whole board.

Blocks: He et al. 2016 (arXiv:1603.05027). Global pooling that biases channels: Wu 2019 (arXiv:1902.10565), 4.1 and A.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kifu.learn.nets.base import Network, NetworkConfig, PointsConv, first_padding, zeros

_POOL_EVERY = 3
"""Every third block pools."""

_HEAD_CHANNELS = 32
"""Channels of the policy head."""


def _conv(channels_in: int, channels_out: int, size: int) -> nn.Conv2d:
    """Return a convolution without a bias, which the batch norm that follows would cancel."""
    return nn.Conv2d(channels_in, channels_out, size, padding=size // 2, bias=False)


class PooledBias(nn.Module):  # type: ignore[misc]
    """A bias for each channel, computed from the mean and maximum of all channels over the whole board."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels_in)
        self.linear = nn.Linear(2 * channels_in, channels_out)

    def pooled(self, x: Tensor) -> Tensor:
        """Map x [B, F_in, H, W] to means and maxima [B, 2 F_in]."""
        x = torch.relu(self.norm(x))
        return torch.cat((x.mean((2, 3)), x.amax((2, 3))), 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map x [B, F_in, H, W] to biases [B, F_out, 1, 1]."""
        return self.linear(self.pooled(x))[:, :, None, None]


class ResidualBlock(nn.Module):  # type: ignore[misc]
    """x plus two convolutions of x; in a pooling block the second one also sees the whole board."""

    def __init__(self, channels: int, pools: bool) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(channels), _conv(channels, channels, 3)
        self.norm2, self.conv2 = nn.BatchNorm2d(channels), _conv(channels, channels, 3)
        self.squeeze = _conv(channels, channels // 2, 1) if pools else None
        self.bias = PooledBias(channels // 2, channels) if pools else None

    def forward(self, x: Tensor) -> Tensor:
        """Map x [B, F, H, W] to the same shape."""
        activated = torch.relu(self.norm1(x))
        y = self.conv1(activated)
        if self.squeeze is not None and self.bias is not None:
            y = y + self.bias(self.squeeze(activated))
        return x + self.conv2(torch.relu(self.norm2(y)))


class Residual(Network):
    """`b6c64`: a first convolution and six residual blocks of 64 channels, all 3 x 3. Any board size.

    Batch norm and ReLU precede each convolution. Every third block, and the policy head, add to each channel a bias
    computed from the means and maxima of all channels over the whole board. The pass logit depends on these alone.
    Global inputs add a bias to each channel of the first convolution, and are inputs of the value head.
    """

    any_size = True
    takes_inputs = True

    def __init__(self, config: NetworkConfig, blocks: int, channels: int) -> None:
        super().__init__(config, channels)
        self.stem = nn.Conv2d(config.planes, channels, 3, padding=first_padding(3, config.rim), bias=False)
        self.globals = zeros(nn.Linear(config.global_size, channels, bias=False)) if config.inputs else None
        self.blocks = nn.Sequential(
            *(ResidualBlock(channels, k % _POOL_EVERY == _POOL_EVERY - 1) for k in range(blocks))
        )
        self.norm = nn.BatchNorm2d(channels)
        # The names of the modules below are part of the kifu-net@1 file format.
        self.place = _conv(channels, _HEAD_CHANNELS, 1)
        self.squeeze = _conv(channels, _HEAD_CHANNELS, 1)
        self.bias = PooledBias(_HEAD_CHANNELS, _HEAD_CHANNELS)
        self.head_norm = nn.BatchNorm2d(_HEAD_CHANNELS)
        self.points = PointsConv(_HEAD_CHANNELS)
        self.pass_ = nn.Linear(2 * _HEAD_CHANNELS, 1) if config.passes else None

    def features(self, planes: Tensor, globals: Tensor | None) -> Tensor:
        """Map planes and global inputs to features [B, F, H, W]."""
        x = self.stem(planes)
        if self.globals is not None and globals is not None:
            x = x + self.globals(globals)[:, :, None, None]
        return torch.relu(self.norm(self.blocks(x)))

    def policy(self, features: Tensor) -> Tensor:
        """Map features to policy logits [B, moves]."""
        pooled = self.bias.pooled(self.squeeze(features))  # [B, 2 * _HEAD_CHANNELS]
        y = self.place(features) + self.bias.linear(pooled)[:, :, None, None]
        points = self.points(torch.relu(self.head_norm(y)))  # [B, N]
        return points if self.pass_ is None else torch.cat((points, self.pass_(pooled)), 1)
