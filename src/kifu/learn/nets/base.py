"""What all networks have in common: planes in, a policy out, and a value and ownership if asked for.

Shapes: B batch, C planes, H x W the board, N = H * W its points, F channels. Planes with a rim are larger than the
board on each side; the first convolution takes the rim in place of padding, so that all after it is the board.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

Heads = Literal["value", "ownership"]


class NetworkOutput(NamedTuple):
    """What a network tells of a batch.

    policy: [B, N] logits of the points, row * width + column; [B, N + 1] with a pass if the net has passes.
    value: [B] from -1, the side to move loses, to 1, it wins. ownership: [B, N] from -1, the opponent's, to 1.
    """

    policy: Tensor
    value: Tensor | None = None
    ownership: Tensor | None = None


@dataclass(frozen=True)
class NetworkConfig:
    """What a network is made for.

    planes, width, height, rim: of the plane set, `kifu.planes.encoder.Encoder`; the board is width x height, and the
    planes reach `rim` rows and columns over it on each side (none of a plane set is wider than 1).
    """

    planes: int
    width: int
    height: int
    rim: int = 0
    passes: bool = False
    heads: Sequence[Heads] = ()

    @property
    def points(self) -> int:
        """Of the board."""
        return self.width * self.height

    @property
    def moves(self) -> int:
        """How many outputs the policy has."""
        return self.points + self.passes


class Network(nn.Module):  # type: ignore[misc]  # torch may not be installed where types are checked
    """Base of all networks. A network has a trunk, `features`, and tells the policy of what comes from it."""

    any_size: bool
    """Whether it takes boards of other sizes than it was made for."""

    def __init__(self, task: NetworkConfig, channels: int) -> None:
        """channels: F, of what `features` returns."""
        super().__init__()
        self.task = task
        self.value = ValueHead(channels) if "value" in task.heads else None
        self.ownership = OwnershipHead(channels) if "ownership" in task.heads else None

    @abstractmethod
    def features(self, planes: Tensor) -> Tensor:
        """[B, F, H, W] of planes [B, C, H + 2 rim, W + 2 rim]."""

    @abstractmethod
    def policy(self, features: Tensor) -> Tensor:
        """[B, moves] logits of features [B, F, H, W]."""

    def forward(self, planes: Tensor) -> NetworkOutput:
        features = self.features(planes)
        value = None if self.value is None else self.value(features)
        ownership = None if self.ownership is None else self.ownership(features)
        return NetworkOutput(self.policy(features), value, ownership)


def first_padding(size: int, rim: int) -> int:
    """What the first convolution, of so many rows and columns, pads its planes with: the board comes out."""
    return size // 2 - rim


class PointsConv(nn.Conv2d):  # type: ignore[misc]
    """[B, N] of [B, F, H, W]: one number for each point, row * width + column, by a convolution of 1 x 1."""

    def __init__(self, channels: int, bias: bool = True) -> None:
        super().__init__(channels, 1, 1, bias=bias)

    def forward(self, features: Tensor) -> Tensor:
        return super().forward(features).flatten(1)


class ValueHead(nn.Module):  # type: ignore[misc]
    """Who wins: mean and maximum of each channel, and two layers.

    Between them is a batch norm: what is pooled has a large mean, and without it all hidden units were soon driven
    below zero, where they learn nothing any more. So a batch to learn from has two positions at least.
    """

    def __init__(self, channels: int, hidden: int = 64) -> None:
        super().__init__()
        self.first = nn.Linear(2 * channels, hidden, bias=False)
        self.norm = nn.BatchNorm1d(hidden)
        self.second = nn.Linear(hidden, 1)

    def forward(self, features: Tensor) -> Tensor:
        pooled = torch.cat((features.mean((2, 3)), features.amax((2, 3))), 1)  # [B, 2 F]
        return torch.tanh(self.second(torch.relu(self.norm(self.first(pooled)))).squeeze(1))


class OwnershipHead(PointsConv):
    """Whose each point is in the end."""

    def forward(self, features: Tensor) -> Tensor:
        return torch.tanh(super().forward(features))
