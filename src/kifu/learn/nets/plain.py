"""What early networks are made of: convolutions one after another, then layers that see the whole board."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from torch import Tensor, nn

from kifu.learn.nets.base import Network, NetworkConfig, first_padding

Layer = tuple[int, int]
"""A convolution: how many filters, and of how many rows and columns. It keeps the board's size; ReLU follows."""


def convolutions(task: NetworkConfig, layers: Iterable[Layer]) -> nn.Sequential:
    """The layers, named conv1, relu1, conv2 and so on."""
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    channels = task.planes
    for k, (filters, size) in enumerate(layers, 1):
        padding = size // 2 if parts else first_padding(size, task.rim)
        parts[f"conv{k}"] = nn.Conv2d(channels, filters, size, padding=padding)
        parts[f"relu{k}"] = nn.ReLU()
        channels = filters
    return nn.Sequential(parts)


class Dense(Network):
    """Convolutions, a hidden layer that sees all of the board, and a layer that tells the moves. One board size.

    dropout: which share of the hidden layer is set to zero in training, and of the logits too; 0 for none.
    """

    any_size = False

    def __init__(self, task: NetworkConfig, layers: tuple[Layer, ...], hidden: int, dropout: float = 0) -> None:
        channels = layers[-1][0]
        super().__init__(task, channels)
        self.trunk = convolutions(task, layers)
        self.fc1 = nn.Linear(channels * task.points, hidden)
        self.fc2 = nn.Linear(hidden, task.moves)
        self.relu, self.dropout = nn.ReLU(), nn.Dropout(dropout)

    def features(self, planes: Tensor) -> Tensor:
        return self.trunk(planes)  # [B, F, H, W]

    def policy(self, features: Tensor) -> Tensor:
        hidden = self.dropout(self.relu(self.fc1(features.flatten(1))))  # [B, hidden], of [B, F * N]
        return self.dropout(self.fc2(hidden))  # [B, moves]
