"""The interface of all networks: planes and global inputs in; a policy and, if requested, a value and ownership out.

Shapes: B is the batch size, C the number of planes, G the number of values of the global inputs
(`kifu.datasets.global_inputs`), H x W the board, N = H * W its points, F the number of channels. Planes with a rim
extend beyond the board on each side; the first convolution consumes the rim instead of zero padding, so that its output
has the size of the board.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from kifu.datasets.global_inputs import input_parts, input_size
from kifu.errors import RecipeError

Heads = Literal["value", "ownership"]
"""Optional outputs besides the policy."""


class NetworkOutput(NamedTuple):
    """The outputs of a network for a batch.

    Attributes:
        policy: [B, N] logits of the points in row-major order, or [B, N + 1] with a pass at the end if the network
            predicts passes.
        value: [B] expected result from -1 (the side to move loses) to 1 (it wins), or None.
        ownership: [B, N] final owner of each point from -1 (the opponent) to 1 (the side to move), or None.
        score: [B, 2] points by which the side to move is ahead, and the standard deviation of its score, or None.
    """

    policy: Tensor
    value: Tensor | None = None
    ownership: Tensor | None = None
    score: Tensor | None = None


@dataclass(frozen=True)
class NetworkConfig:
    """The input and output sizes of a network.

    Attributes:
        rim: Rows and columns by which the planes extend beyond the board on each side (0 or 1).
    """

    planes: int
    width: int
    height: int
    rim: int = 0
    passes: bool = False
    heads: Sequence[Heads] = ()
    inputs: Sequence[str] = ()

    @property
    def global_size(self) -> int:
        """G, the number of values of the global inputs."""
        return input_size(self.inputs)

    @property
    def points(self) -> int:
        """Number of points of the board."""
        return self.width * self.height

    @property
    def moves(self) -> int:
        """Number of policy outputs."""
        return self.points + self.passes


class Network(nn.Module):  # type: ignore[misc]  # torch may not be installed where types are checked
    """Base class of all networks: a trunk (`features`) followed by a policy head and optional further heads."""

    any_size: bool
    """True if the network accepts boards of other sizes than the one it was created for."""

    takes_inputs: ClassVar[bool] = False
    """True if `features` uses global inputs."""

    by_colour: ClassVar[bool] = False
    """True if the network has each output twice, for Black and for White to move; its only input is the colour."""

    def __init__(self, config: NetworkConfig, channels: int) -> None:
        """Create the optional heads.

        Args:
            channels: F, the number of channels that `features` returns.

        Raises:
            RecipeError: The network does not take these global inputs.
        """
        super().__init__()
        self._check_inputs(config.inputs)
        self.config = config
        outputs, globals_ = (2, 0) if self.by_colour else (1, config.global_size)
        self.value = ValueHead(channels, outputs=outputs, inputs=globals_) if "value" in config.heads else None
        self.ownership = OwnershipHead(channels, outputs) if "ownership" in config.heads else None

    @classmethod
    def _check_inputs(cls, inputs: Sequence[str]) -> None:
        name = cls.__name__
        if cls.by_colour and list(inputs) != ["colour"]:
            raise RecipeError(f"{name} has an output for each colour: inputs must be ['colour'], got {list(inputs)}")
        if inputs and not (cls.by_colour or cls.takes_inputs):
            raise RecipeError(f"{name} takes planes only, but inputs are {', '.join(inputs)}")

    @abstractmethod
    def features(self, planes: Tensor, globals: Tensor | None) -> Tensor:
        """Map planes [B, C, H + 2 rim, W + 2 rim] and global inputs [B, G] to features [B, F, H, W]."""

    @abstractmethod
    def policy(self, features: Tensor) -> Tensor:
        """Map features [B, F, H, W] to policy logits [B, moves], or [B, 2, moves] if `by_colour`."""

    def forward(self, planes: Tensor, globals: Tensor | None = None) -> NetworkOutput:
        """Map positions to all outputs.

        Args:
            planes: [B, C, H + 2 rim, W + 2 rim] float.
            globals: [B, G] float, the global inputs; None for a network without any.

        Raises:
            ValueError: Global inputs are missing.
        """
        if globals is None and self.config.inputs:
            raise ValueError(f"{type(self).__name__} requires global inputs: {', '.join(self.config.inputs)}")
        features = self.features(planes, globals)
        value = None if self.value is None else self.value(features, None if self.by_colour else globals)
        ownership = None if self.ownership is None else self.ownership(features)
        output = NetworkOutput(self.policy(features), value, ownership)
        if not self.by_colour or globals is None:
            return output
        white = globals[:, 0] < 0
        return NetworkOutput(*(None if each is None else _select_colour(each, white) for each in output))


def drop_inputs(globals: Tensor, names: Sequence[str], probability: float) -> Tensor:
    """Return global inputs [B, G] of which parts are made unknown at random, as they are in other records."""
    keep = torch.ones_like(globals)
    for part, droppable in input_parts(names):
        if droppable:
            keep[:, part] = (torch.rand(len(globals), 1, device=globals.device) >= probability).to(globals.dtype)
    return globals * keep


def _select_colour(both: Tensor, white: Tensor) -> Tensor:
    """Return [B, ...]: from both [B, 2, ...], the second entry where white [B] is true, else the first."""
    return torch.where(white.view(-1, *[1] * (both.ndim - 2)), both[:, 1], both[:, 0])


def zeros(layer: nn.Linear) -> nn.Linear:
    """Return a layer that has no effect until it is trained."""
    nn.init.zeros_(layer.weight)
    return layer


def first_padding(size: int, rim: int) -> int:
    """Return the padding with which a first convolution of `size` rows and columns outputs the size of the board."""
    return size // 2 - rim


class PointsConv(nn.Conv2d):  # type: ignore[misc]
    """A 1 x 1 convolution to one number per point, [B, N], or to several, [B, outputs, N]."""

    def __init__(self, channels: int, outputs: int = 1) -> None:
        super().__init__(channels, outputs, 1)

    def forward(self, features: Tensor) -> Tensor:
        """Map features [B, F, H, W] to [B, N] or [B, outputs, N]."""
        return super().forward(features).flatten(1 if self.out_channels == 1 else 2)


class ValueHead(nn.Module):  # type: ignore[misc]
    """Predicts the winner from the mean and maximum of each channel with two linear layers.

    Global inputs enter twice: added to the hidden units, and directly to the output, so that what a linear fit would
    gain from komi and ranks is learned in the first steps. Both begin at zero.

    Pooled features have a large mean. Without the batch norm between the layers, all hidden units soon became negative
    and stopped learning. It requires at least two positions per training batch.
    """

    def __init__(self, channels: int, hidden: int = 64, outputs: int = 1, inputs: int = 0) -> None:
        super().__init__()
        self.first = nn.Linear(2 * channels, hidden, bias=False)
        self.norm = nn.BatchNorm1d(hidden)
        self.second = nn.Linear(hidden, outputs)
        self.globals = zeros(nn.Linear(inputs, hidden, bias=False)) if inputs else None
        self.skip = zeros(nn.Linear(inputs, outputs, bias=False)) if inputs else None

    def forward(self, features: Tensor, globals: Tensor | None = None) -> Tensor:
        """Map features [B, F, H, W] and global inputs [B, G] to values from -1 to 1, [B] or [B, outputs]."""
        pooled = torch.cat((features.mean((2, 3)), features.amax((2, 3))), 1)  # [B, 2 F]
        hidden, direct = self.first(pooled), 0
        if self.globals is not None and self.skip is not None:
            hidden, direct = hidden + self.globals(globals), self.skip(globals)
        values = self.second(torch.relu(self.norm(hidden))) + direct  # [B, outputs]
        return torch.tanh(values.squeeze(1) if self.second.out_features == 1 else values)


class OwnershipHead(PointsConv):
    """Predicts the final owner of each point."""

    def forward(self, features: Tensor) -> Tensor:
        """Map features [B, F, H, W] to values from -1 to 1, [B, N] or [B, outputs, N]."""
        return torch.tanh(super().forward(features))
