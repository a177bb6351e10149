"""The networks: their common interface, stacks of convolutions on one board size, and residual networks of any size.

All map planes and global inputs to a policy and, if requested, a value and ownership. Shapes: B is the batch size, C
the number of planes, G the number of values of the global inputs (`kifu.datasets.global_inputs`), H x W the board,
N = H * W its points, F the number of channels. Planes with a rim extend beyond the board on each side; the first
convolution consumes the rim instead of zero padding, so that its output has the size of the board.

Residual blocks: He et al. 2016 (arXiv:1603.05027). Global pooling that biases channels: Wu 2019 (arXiv:1902.10565), 4.1
and A.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from kifu.datasets.global_inputs import KOMI_UNIT, input_parts, input_size
from kifu.katago.metadata import BOARD_INPUT
from kifu.katago.net import KataNet
from kifu.katago.net_file import KataNetFile, structure_text
from kifu.learn import Heads
from kifu.point import symmetries


class NetworkOutput(NamedTuple):
    """The outputs of a network for a batch.

    Attributes:
        policy: [B, N] logits of the points in row-major order, or [B, N + 1] with a pass at the end if the network
            predicts passes.
        value: [B] expected result from -1 (the side to move loses) to 1 (it wins), or None.
        ownership: [B, N] final owner of each point from -1 (the opponent) to 1 (the side to move), or None.
        score: [B, 2] points by which the side to move is ahead, and the standard deviation of its score, or None.
        next: [B, K, N] logits of the two moves after the next one, in training only, or None; a network of KataGo has
            the first of them in place of its optimistic policy.
    """

    policy: Tensor
    value: Tensor | None = None
    ownership: Tensor | None = None
    score: Tensor | None = None
    next: Tensor | None = None


@dataclass(frozen=True)
class NetworkConfig:
    """The input and output sizes of a network.

    Attributes:
        rim: Rows and columns by which the planes extend beyond the board on each side (0 or 1).
        numbers: Numbers that the encoder of the planes gives beside them; the first of the global inputs.
    """

    planes: int
    width: int
    height: int
    rim: int = 0
    passes: bool = False
    heads: Sequence[Heads] = ()
    inputs: Sequence[str] = ()
    numbers: int = 0

    @property
    def global_size(self) -> int:
        """G, the number of values of the global inputs."""
        return self.numbers + input_size(self.inputs)

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
        """Create the optional heads, given F, the number of channels that `features` returns."""
        super().__init__()
        self.config = config
        outputs, globals_ = (2, 0) if self.by_colour else (1, config.global_size)
        self.value = ValueHead(channels, outputs=outputs, inputs=globals_) if "value" in config.heads else None
        self.score = ValueHead(channels, outputs=2, inputs=globals_) if "score" in config.heads else None
        self.ownership = PointsConv(channels, outputs) if "ownership" in config.heads else None
        self.next = PointsConv(channels, 2) if "next" in config.heads else None

    @abstractmethod
    def features(self, planes: Tensor, globals: Tensor | None) -> Tensor:
        """Map planes [B, C, H + 2 rim, W + 2 rim] and global inputs [B, G] to features [B, F, H, W]."""

    @abstractmethod
    def policy(self, features: Tensor) -> Tensor:
        """Map features [B, F, H, W] to policy logits [B, moves], or [B, 2, moves] if `by_colour`."""

    def forward(self, planes: Tensor, globals: Tensor | None = None) -> NetworkOutput:
        """Map planes [B, C, H + 2 rim, W + 2 rim] and global inputs [B, G], or None without any, to all outputs."""
        self._require_inputs(globals)
        features = self.features(planes, globals)
        used = None if self.by_colour else globals
        value = None if self.value is None else torch.tanh(self.value(features, used))
        ownership = None if self.ownership is None else torch.tanh(self.ownership(features))
        score = None if self.score is None else _score(self.score(features, used), ownership)
        output = NetworkOutput(self.policy(features), value, ownership, score, self._following(features))
        if not self.by_colour or globals is None:
            return output
        return NetworkOutput(*(None if each is None else _select_colour(each, globals[:, 0] < 0) for each in output))

    def _require_inputs(self, globals: Tensor | None) -> None:
        if globals is None and self.config.inputs:
            raise ValueError(f"{type(self).__name__} requires global inputs: {', '.join(self.config.inputs)}")

    def _following(self, features: Tensor) -> Tensor | None:
        return self.next(features) if self.next is not None and self.training else None


_POINTS_UNIT = 20
"""Points per unit of the outputs of heads."""


def _score(raw: Tensor, ownership: Tensor | None) -> Tensor:
    """Return lead and standard deviation in points [B, 2]; the head adds to the sum of the ownership [B, N], if any."""
    lead = _POINTS_UNIT * raw[:, 0] + (0 if ownership is None else ownership.sum(1))
    return torch.stack((lead, _POINTS_UNIT * functional.softplus(raw[:, 1])), 1)


def draw_known(globals: Tensor, names: Sequence[str], probability: float, kept: Sequence[str] = ()) -> Tensor:
    """Return factors [B, G] that make parts of global inputs unknown at random, as in other records, but not `kept`."""
    keep = torch.ones_like(globals)
    for name, part, droppable in input_parts(names):
        if droppable and name not in kept:
            keep[:, part] = (torch.rand(len(globals), 1, device=globals.device) >= probability).to(globals.dtype)
    return keep


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
    """Predicts the winner or the score from the mean and maximum of each channel with two linear layers.

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
        """Map features [B, F, H, W] and global inputs [B, G] to numbers, [B] or [B, outputs]."""
        pooled = torch.cat((features.mean((2, 3)), features.amax((2, 3))), 1)  # [B, 2 F]
        hidden, direct = self.first(pooled), 0
        if self.globals is not None and self.skip is not None:
            hidden, direct = hidden + self.globals(globals), self.skip(globals)
        values = self.second(torch.relu(self.norm(hidden))) + direct  # [B, outputs]
        return values.squeeze(1) if self.second.out_features == 1 else values


ConvSpec = tuple[int, int]
"""A convolution as (filters, kernel size). It keeps the size of the board and is followed by ReLU."""


def make_convolutions(config: NetworkConfig, layers: Iterable[ConvSpec]) -> nn.Sequential:
    """Return the layers as a sequence with the names conv1, relu1, conv2, relu2, ..."""
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    channels = config.planes
    for k, (filters, size) in enumerate(layers, 1):
        padding = size // 2 if parts else first_padding(size, config.rim)
        parts[f"conv{k}"] = nn.Conv2d(channels, filters, size, padding=padding)
        parts[f"relu{k}"] = nn.ReLU()
        channels = filters
    return nn.Sequential(parts)


class DenseNetwork(Network):
    """Convolutions, a fully connected hidden layer and a fully connected output layer. One board size."""

    any_size = False

    def __init__(
        self, config: NetworkConfig, layers: tuple[ConvSpec, ...], hidden: int | None, dropout: float = 0
    ) -> None:
        """Create the layers.

        `hidden` units, None for one per point; `dropout` is the share of these and of the logits set to zero in
        training.
        """
        channels = layers[-1][0]
        super().__init__(config, channels)
        self.trunk = make_convolutions(config, layers)
        hidden = config.points if hidden is None else hidden
        self.fc1 = nn.Linear(channels * config.points, hidden)
        self.fc2 = nn.Linear(hidden, config.moves)
        self.relu, self.dropout = nn.ReLU(), nn.Dropout(dropout)

    def features(self, planes: Tensor, globals: Tensor | None) -> Tensor:
        """Map planes to features [B, F, H, W]."""
        return self.trunk(planes)

    def policy(self, features: Tensor) -> Tensor:
        """Map features to policy logits [B, moves]."""
        hidden = self.dropout(self.relu(self.fc1(features.flatten(1))))  # [B, F * N] -> [B, hidden]
        return self.dropout(self.fc2(hidden))  # [B, moves]


_MADDISON_LAYERS, _MADDISON_FILTERS = 12, 128


class Maddison(Network):
    """Twelve convolutions of 128 filters, 5 x 5 and then 3 x 3, and two of 3 x 3 for the moves of Black and of White.

    For the planes `maddison36`, which do not show whose turn it is: the first output is the policy if Black is to move,
    the second if White is. One board size. Each filter has a separate bias for each point, which starts at 0.

    Uncertain readings: the paper gives 64 to 192 filters per layer and calls the best network one of 12 layers with 128
    filters. It is read as 12 hidden layers, and the output layer as 3 x 3: then 12 layers are 3 x 3, as the paper says
    elsewhere, and its totals agree: 2.3 million parameters, 550,000 hidden units, 630 million connections (here 2.29
    million, 554,496 and 628 million). The paper has no pass; here the two logits of a pass are computed from the mean
    of each channel.
    """

    any_size = False
    by_colour = True

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config, _MADDISON_FILTERS)
        parts: list[nn.Module] = []
        for k in range(_MADDISON_LAYERS):
            channels, size, padding = (
                (_MADDISON_FILTERS, 3, 1) if k else (config.planes, 5, first_padding(5, config.rim))
            )
            parts += [nn.Conv2d(channels, _MADDISON_FILTERS, size, padding=padding, bias=False)]
            parts += [PointBias(_MADDISON_FILTERS, config.height, config.width), nn.ReLU()]
        self.trunk = nn.Sequential(*parts)
        self.points = nn.Conv2d(_MADDISON_FILTERS, 2, 3, padding=1, bias=False)
        self.points_bias = PointBias(2, config.height, config.width)
        self.pass_ = nn.Linear(_MADDISON_FILTERS, 2) if config.passes else None

    def features(self, planes: Tensor, globals: Tensor | None) -> Tensor:
        """Map planes to features [B, F, H, W]."""
        return self.trunk(planes)

    def policy(self, features: Tensor) -> Tensor:
        """Map features to policy logits [B, 2, moves], for Black and for White to move."""
        points = self.points_bias(self.points(features)).flatten(2)  # [B, 2, N]
        if self.pass_ is None:
            return points
        return torch.cat((points, self.pass_(features.mean((2, 3)))[..., None]), 2)


class PointBias(nn.Module):  # type: ignore[misc]
    """A learned bias for each filter and point, added to every position of a batch."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(shape))

    def forward(self, x: Tensor) -> Tensor:
        """Add the bias to x [B, *shape]."""
        return x + self.bias


LARGE_LAYERS = ((64, 7), (64, 5), (64, 5), (48, 5), (48, 5), (32, 5), (32, 5))
"""Convolutions of Clark and Storkey's best network, which a book used without its symmetries."""


class ClarkStorkey(Network):
    """Seven convolutions, 64 of 7 x 7, then 64, 64, 48, 48, 32 and 32 of 5 x 5, and one fully connected layer.

    C. Clark and A. Storkey, "Teaching Deep Convolutional Neural Networks to Play Go" (2014), arXiv:1412.3409.

    Weights that a symmetry of the board maps onto each other are tied, so that a transformed position gives the
    transformed policy. For the planes `clark8`, whose rim is the edge that the paper draws in the padding.

    Uncertain readings: the weights of the last layer are tied as those of the filters are, over all 8 symmetries (4 on
    a board that is not square), and so are its biases. Illegal moves are not masked here. The paper has no pass; here
    its logit is computed from the mean of each channel.
    """

    any_size = False

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config, LARGE_LAYERS[-1][0])
        channels = config.planes
        parts: list[nn.Module] = []
        for filters, size in LARGE_LAYERS:
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
    """x plus two convolutions of x; in a pooling block the second one also sees the whole board.

    Global inputs scale and shift each channel between the two convolutions. At the start they have no effect.
    """

    def __init__(self, channels: int, pools: bool, inputs: int = 0) -> None:
        super().__init__()
        self.globals = zeros(nn.Linear(inputs, 2 * channels, bias=False)) if inputs else None
        self.norm1, self.conv1 = nn.BatchNorm2d(channels), _conv(channels, channels, 3)
        self.norm2, self.conv2 = nn.BatchNorm2d(channels), _conv(channels, channels, 3)
        self.squeeze = _conv(channels, channels // 2, 1) if pools else None
        self.bias = PooledBias(channels // 2, channels) if pools else None

    def forward(self, x: Tensor, globals: Tensor | None) -> Tensor:
        """Map x [B, F, H, W] and global inputs [B, G] to the shape of x."""
        activated = torch.relu(self.norm1(x))
        y = self.conv1(activated)
        if self.squeeze is not None and self.bias is not None:
            y = y + self.bias(self.squeeze(activated))
        y = self.norm2(y)
        if self.globals is not None and globals is not None:
            scale, shift = self.globals(globals)[:, :, None, None].chunk(2, 1)
            y = y * (1 + scale) + shift
        return x + self.conv2(torch.relu(y))


class Residual(Network):
    """`b6c64`: a first convolution and six residual blocks of 64 channels, all 3 x 3. Any board size.

    Batch norm and ReLU precede each convolution. Every third block, and the policy head, add to each channel a bias
    computed from the means and maxima of all channels over the whole board. The pass logit depends on these alone.
    Global inputs add a bias to each channel of the first convolution, scale and shift the channels within each block,
    and are inputs of the value and score heads.
    """

    any_size = True
    takes_inputs = True

    def __init__(self, config: NetworkConfig, blocks: int, channels: int) -> None:
        super().__init__(config, channels)
        self._create(config, channels, [config.global_size if config.inputs else 0] * blocks)

    def _create(self, config: NetworkConfig, channels: int, inputs: Sequence[int]) -> None:
        """Create the trunk, given how many global inputs each block sees, and the policy head."""
        self.stem = nn.Conv2d(config.planes, channels, 3, padding=first_padding(3, config.rim), bias=False)
        self.globals = zeros(nn.Linear(inputs[0], channels, bias=False)) if inputs[0] else None
        self.blocks = nn.ModuleList(
            ResidualBlock(channels, k % _POOL_EVERY == _POOL_EVERY - 1, size) for k, size in enumerate(inputs)
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
        return self._last(self._first(planes, globals, self.blocks), globals, self.blocks[:0])

    def _first(self, planes: Tensor, globals: Tensor | None, blocks: Iterable[nn.Module]) -> Tensor:
        """Map planes and global inputs to the output of the first blocks."""
        x = self.stem(planes)
        if self.globals is not None and globals is not None:
            x = x + self.globals(globals)[:, :, None, None]
        for block in blocks:
            x = block(x, globals)
        return x

    def _last(self, x: Tensor, globals: Tensor | None, blocks: Iterable[nn.Module]) -> Tensor:
        for block in blocks:
            x = block(x, globals)
        return torch.relu(self.norm(x))

    def policy(self, features: Tensor) -> Tensor:
        """Map features to policy logits [B, moves]."""
        pooled = self.bias.pooled(self.squeeze(features))  # [B, 2 * _HEAD_CHANNELS]
        y = self.place(features) + self.bias.linear(pooled)[:, :, None, None]
        points = self.points(torch.relu(self.head_norm(y)))  # [B, N]
        return points if self.pass_ is None else torch.cat((points, self.pass_(pooled)), 1)


_POINTS_INPUTS = ("colour", "handicap", "rules")
"""The global inputs that the points on the board may depend on."""

_SHARED = 0.7
"""Share of the blocks whose features tell the points."""

_POINTS_CHANNELS = 48

_MIN_STDEV = 0.5
"""Points."""

_USUAL_KOMI = 7
"""Points of komi where it is unknown."""


class PointsHead(nn.Module):  # type: ignore[misc]
    """Ownership, and what else tells the score, from features that do not depend on komi and players."""

    def __init__(self, channels: int, inputs: int) -> None:
        super().__init__()
        self.squeeze = _conv(channels, _POINTS_CHANNELS, 1)
        self.blocks = nn.ModuleList(ResidualBlock(_POINTS_CHANNELS, pools, inputs) for pools in (True, False))
        self.norm = nn.BatchNorm2d(_POINTS_CHANNELS)
        self.ownership = PointsConv(_POINTS_CHANNELS)
        self.pooled = nn.Linear(2 * _POINTS_CHANNELS, 4)

    def forward(self, features: Tensor, globals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Map features [B, F, H, W] and global inputs [B, G] without komi and players.

        Returns:
            Ownership [B, N]; lead without komi and standard deviation [B, 2] in points; two numbers for `WinRate`
            [B, 2].
        """
        x = self.squeeze(features)
        for block in self.blocks:
            x = block(x, globals)
        x = torch.relu(self.norm(x))
        ownership = torch.tanh(self.ownership(x))
        raw = self.pooled(torch.cat((x.mean((2, 3)), x.amax((2, 3))), 1))
        lead = ownership.sum(1) + _POINTS_UNIT * raw[:, 0]
        stdev = _POINTS_UNIT * functional.softplus(raw[:, 1]) + _MIN_STDEV
        return ownership, torch.stack((lead, stdev), 1), raw[:, 2:]


class WinRate(nn.Module):  # type: ignore[misc]
    """The expected result from the lead: tanh(slope x lead / standard deviation + edge).

    The slope is positive, so that among equals who leads wins more often than not. The edge is the difference of the
    players' strengths, which rise with the rank, and 0 unless both ranks are known.
    """

    def __init__(self, ranks: int) -> None:
        """Create it for weights of `ranks` ranks in ascending order, 0 without the input."""
        super().__init__()
        self.slope = zeros(nn.Linear(ranks, 1, bias=False)) if ranks else None
        self.steps = nn.Parameter(torch.full((ranks - 1,), -3.0)) if ranks else None

    def forward(self, score: Tensor, raw: Tensor, mover: Tensor, opponent: Tensor) -> Tensor:
        """Map lead and deviation [B, 2], two numbers [B, 2] and weights of ranks [B, K] to values [B]."""
        slope, edge = raw[:, 0], torch.zeros_like(raw[:, 0])
        if self.slope is not None and self.steps is not None:
            slope = slope + self.slope(mover + opponent)[:, 0]
            strength = functional.pad(functional.softplus(self.steps).cumsum(0), (1, 0))  # [K]
            known = mover.sum(1) * opponent.sum(1)
            edge = known * torch.sigmoid(raw[:, 1]) * ((mover - opponent) * strength).sum(1)
        return torch.tanh(functional.softplus(slope) * score[:, 0] / score[:, 1] + edge)


class PointsResidual(Residual):
    """`b10c80p`: a residual network whose points are a property of the position, while players' chances are not.

    It has the heads `value`, `ownership` and `score`, and the inputs `colour` and `komi`. The first convolution and 7
    of 10 blocks, whose features tell ownership and lead, see colour, handicap and rules only. Komi is added to the
    lead. The value follows from the lead, its standard deviation and the difference of ranks.
    """

    def __init__(self, config: NetworkConfig, blocks: int, channels: int) -> None:
        super(Residual, self).__init__(
            replace(config, heads=[head for head in config.heads if head == "next"]), channels
        )
        self.config = config
        self._columns: dict[str, list[list[int]]] = {name: [] for name in config.inputs}
        for name, part, _ in input_parts(config.inputs):
            self._columns[name].append([*range(part.start, part.stop)])
        self._seen = [k for name in _POINTS_INPUTS for part in self._columns.get(name, []) for k in part]
        self._ranks = self._columns.get("ranks", [[], []])
        self._shared = round(_SHARED * blocks)
        seen = len(self._seen)
        self._create(config, channels, [seen] * self._shared + [config.global_size] * (blocks - self._shared))
        self.score, self.value = PointsHead(channels, seen), WinRate(len(self._ranks[0]))

    def forward(self, planes: Tensor, globals: Tensor | None = None) -> NetworkOutput:
        """Map planes [B, C, H + 2 rim, W + 2 rim] and global inputs [B, G] to all outputs."""
        self._require_inputs(globals)
        assert globals is not None
        seen = globals[:, self._seen]
        shared = self._first(planes, seen, self.blocks[: self._shared])
        features = self._last(shared, globals, self.blocks[self._shared :])
        ownership, score, raw = self.score(shared, seen)
        score = torch.stack((score[:, 0] + self._mover_komi(globals), score[:, 1]), 1)
        value = self.value(score, raw, *(globals[:, part] for part in self._ranks))
        return NetworkOutput(self.policy(features), value, ownership, score, self._following(features))

    def _mover_komi(self, globals: Tensor) -> Tensor:
        """Return [B] the points that komi gives the side to move."""
        (known, komi), (colour,) = self._columns["komi"][0], self._columns["colour"][0]
        usual = -_USUAL_KOMI * globals[:, colour]
        return torch.where(globals[:, known] > 0, KOMI_UNIT * globals[:, komi], usual)


class KataNetwork(Network):
    """A network of KataGo, given its blocks and their channels, or a network file. Any board size.

    `kata-b6c96` has residual blocks, `kata-b10c128nbt` nested bottlenecks, `kata-b8c128tf` transformer blocks; `katago`
    has the layers of the file that the recipe names as `init_from`. They take the planes and the 19 numbers of
    `katago22` and, with `inputs = ["profile"]`, the metadata of human-style nets. The policy includes the pass.
    """

    any_size = True
    takes_inputs = True

    def __init__(self, config: NetworkConfig, file: KataNetFile) -> None:
        super().__init__(replace(config, heads=()), 0)
        self.config, self.structure = config, structure_text(file)
        self.net = KataNet(file)

    def forward(self, planes: Tensor, globals: Tensor | None = None) -> NetworkOutput:
        """Map planes [B, 22, H, W] and global inputs, [B, 19] or with a profile [B, 19 + 192], to all outputs."""
        assert globals is not None
        numbers, metadata, heads = globals[:, : self.config.numbers], None, self.config.heads
        if self.net.is_human:
            metadata = globals[:, self.config.numbers :].clone()
            metadata[:, BOARD_INPUT] = 0.5 * (planes[:, 0].sum((1, 2), dtype=torch.float32) / 361).log()
        output = self.net(planes, numbers, metadata)
        return NetworkOutput(
            output.policy[:, 0],
            output.result[:, 0] - output.result[:, 1] if "value" in heads else None,
            output.ownership if "ownership" in heads else None,
            torch.stack((output.lead, output.score_stdev), 1) if "score" in heads else None,
            output.policy[:, 1:2, :-1] if "next" in heads and self.training else None,
        )
