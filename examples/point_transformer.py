"""A transformer over the points of the board, as a network of one's own.

    pip install 'kifu[learn]'
    kifu ingest archives/ -o games.parquet
    cd examples
    kifu list nets point_transformer:PointTransformer --planes alphago48
    kifu train point-transformer.toml ../games.parquet -o ../run
    kifu predict --net ../run@point_transformer:PointTransformer game.sgf

Each point is a token, and one more token stands for the whole board. It receives the global inputs; the pass depends on
it alone. Positions are encoded by rotation (J. Su et al. 2021, arXiv:2104.09864) in two dimensions, so that attention
depends on the offset of two points and any board size is possible. docs/own-networks.md compares it with `b4c64`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from kifu.learn.networks import Network, NetworkConfig

HEAD = 32
"""Channels of an attention head: pairs of them rotate with the column, as many with the row."""

SLOWEST, FASTEST = 0.05, 1.5
"""Range of the angles, in radians per point. The slowest pairs do not complete a turn on a board of 19 columns."""


class Block(nn.Module):  # type: ignore[misc]  # torch may not be installed where types are checked
    """Attention and a hidden layer, each of which adds to normalized tokens [B, T, F]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.output = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.expand, self.reduce = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        """Map tokens [B, T, F] to the same shape; angles [T, HEAD / 2] encode their positions."""
        q, k, v = self.inputs(self.norm1(x)).unflatten(2, (3, -1, HEAD)).permute(2, 0, 3, 1, 4)  # [B, heads, T, HEAD]
        # torch's scaled_dot_product_attention takes half as long again on the CPU in bfloat16.
        scores = rotate(q, angles) @ rotate(k * HEAD**-0.5, angles).mT  # [B, heads, T, T]
        x = x + self.output((scores.softmax(3) @ v).transpose(1, 2).flatten(2))
        return x + self.reduce(gelu(self.expand(self.norm2(x))))


class PointTransformer(Network):
    """Three blocks of 64 channels with two heads. Any board size."""

    any_size = True
    takes_inputs = True
    width, depth = 64, 3

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config, 2 * self.width)
        self.stem = nn.Conv2d(config.planes, self.width, 3, padding=1 - config.rim)
        self.board = nn.Embedding(1, self.width)
        self.globals = nn.Linear(config.global_size, self.width) if config.inputs else None
        self.blocks = nn.ModuleList(Block(self.width) for _ in range(self.depth))
        self.norm = nn.LayerNorm(self.width)
        self.points = nn.Conv2d(self.width, 1, 1)
        self.passing = nn.Linear(self.width, 1) if config.passes else None

    def features(self, planes: Tensor, globals: Tensor | None) -> Tensor:
        """Return the tokens of the points, and that of the board repeated for each point, [B, 2 width, H, W]."""
        x = self.stem(planes)
        height, width = x.shape[2:]
        board = self.board.weight.to(x.dtype).expand(x.shape[0], 1, -1)
        if self.globals is not None:
            board = board + self.globals(globals)[:, None]
        tokens = torch.cat((board, x.flatten(2).mT), 1)  # [B, 1 + N, width]
        angles = position_angles(height, width, x.device)
        for block in self.blocks:
            tokens = block(tokens, angles)
        board, points = self.norm(tokens).split((1, height * width), 1)
        return torch.cat((points, board.expand_as(points)), 2).mT.unflatten(2, (height, width))

    def policy(self, features: Tensor) -> Tensor:
        """Map features to logits: of each point from its own token, of the pass from that of the board.

        The token of the board would add the same number to all points. Training does not limit it, and large ones would
        round the differences between the logits away in bfloat16.
        """
        points = self.points(features[:, : self.width]).flatten(1)
        if self.passing is None:
            return points
        return torch.cat((points, self.passing(features[:, self.width :, 0, 0])), 1)


def position_angles(height: int, width: int, device: torch.device) -> Tensor:
    """Return the angles of the board's token, which does not rotate, and of all points: [1 + H * W, HEAD / 2]."""
    steps = torch.linspace(math.log(SLOWEST), math.log(FASTEST), HEAD // 4, device=device).exp()
    y = torch.arange(height, device=device)[:, None, None] * steps  # [H, 1, HEAD / 4]
    x = torch.arange(width, device=device)[None, :, None] * steps  # [1, W, HEAD / 4]
    angles = torch.cat((y.expand(-1, width, -1), x.expand(height, -1, -1)), 2)
    return torch.cat((torch.zeros_like(angles[:1, 0]), angles.flatten(0, 1)))


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate pairs of channels of queries or keys [B, heads, T, HEAD] by angles [T, HEAD / 2]."""
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, 3)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), 3)
