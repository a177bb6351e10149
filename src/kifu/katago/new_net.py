"""New networks in KataGo's format, given blocks and channels, with random weights to train.

Version 15 of the format, ReLU. Every third block pools a third of its channels. A nested bottleneck has half of the
channels inside, in two residual blocks; a transformer block is attention, with fixed rotary embeddings, and a gated
feed-forward part.

The norms of a file have fixed statistics, so these networks are trained without batch norm, with the initial weights of
Fixup (Zhang, Dauphin and Ma 2019, arXiv:1901.09321): in each branch of a residual block the last layer is 0, and the
others are those of He et al. 2015, divided by the square root of the number of blocks. Last layers of heads and what
depends on pooled values or inputs besides the planes is 0, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from kifu.arrays import Floats
from kifu.errors import RecipeError
from kifu.katago import net_file as kata
from kifu.katago.net_file import KataNetFile

BlockKind: TypeAlias = Literal["", "nbt", "tf"]
"""Kind of the blocks of the trunk: residual, nested bottleneck or transformer."""

_VERSION, _POOL_EVERY, _HEAD_SIZE, _THETA, _METADATA = 15, 3, 32, 100.0, 192
_ACTIVATION = kata.Activation("act", "ACTIVATION_RELU")


@dataclass
class _Maker:
    """Makes layers; without a generator, all weights are 0 and take no memory."""

    random: np.random.Generator | None
    depth: int

    def weights(self, shape: tuple[int, ...], fan_in: int, scale: float) -> Floats:
        if self.random is None or not scale:
            return np.broadcast_to(np.float32(0), shape)
        std = np.float32(scale * (2 / fan_in) ** 0.5)
        return self.random.standard_normal(shape, np.float32) * std

    def conv(self, name: str, inputs: int, outputs: int, size: int = 1, scale: float = 1.0) -> kata.Conv:
        weights = self.weights((size, size, inputs, outputs), size * size * inputs, scale)
        return kata.Conv(name, size, size, inputs, outputs, 1, 1, weights)

    def linear(self, name: str, inputs: int, outputs: int, scale: float = 0.0) -> kata.Weights:
        return kata.Weights(name, self.weights((inputs, outputs), inputs, scale))

    def bias(self, name: str, size: int) -> kata.Weights:
        return kata.Weights(name, np.zeros(size, np.float32))

    def norm(self, name: str, channels: int) -> kata.BatchNorm:
        zeros, ones = np.zeros(channels, np.float32), np.ones(channels, np.float32)
        return kata.BatchNorm(name, channels, 1e-6, True, True, zeros, ones, ones, zeros)

    def point_norm(self, name: str, channels: int) -> kata.PointNorm:
        return kata.PointNorm(name, channels, 1e-6, np.ones(channels, np.float32))

    def residual(self, name: str, channels: int, pools: bool) -> kata.Block:
        pooled = max(channels // 3, 1) if pools else 0
        inner, scale = max(channels - pooled, 1), self.depth**-0.5
        norm1, norm2 = self.norm(f"{name}.norm1", channels), self.norm(f"{name}.norm2", inner)
        conv1 = self.conv(f"{name}.conv1", channels, inner, 3, scale)
        conv2 = self.conv(f"{name}.conv2", inner, channels, 3, 0)
        if not pools:
            return kata.ResidualLayers(name, norm1, _ACTIVATION, conv1, norm2, _ACTIVATION, conv2)
        return kata.Pooling(
            name, norm1, _ACTIVATION, conv1, self.conv(f"{name}.pooled", channels, pooled, 3, scale),
            self.norm(f"{name}.pooled_norm", pooled), _ACTIVATION, self.linear(f"{name}.bias", 3 * pooled, inner),
            norm2, _ACTIVATION, conv2,
        )  # fmt: skip

    def bottleneck(self, name: str, channels: int, pools: bool) -> kata.Block:
        inner, scale = max(channels // 2, 1), self.depth**-0.5
        blocks = [self.residual(f"{name}.{k}", inner, pools and k == 0) for k in range(2)]
        return kata.Bottleneck(
            name, len(blocks), self.norm(f"{name}.norm1", channels), _ACTIVATION,
            self.conv(f"{name}.conv1", channels, inner, 1, scale), blocks, self.norm(f"{name}.norm2", inner),
            _ACTIVATION, self.conv(f"{name}.conv2", inner, channels, 1, 0),
        )  # fmt: skip

    def transformer(self, name: str, channels: int) -> list[kata.Block]:
        heads = max(channels // _HEAD_SIZE, 1)
        size = max(channels // heads // 2, 1) * 2
        query, key, value = (
            self.linear(f"{name}.{part}", channels, heads * size, 0.5**0.5) for part in ("query", "key", "value")
        )
        inner, ffn = 2 * channels, f"{name}.ffn"
        return [
            kata.Attention(
                name, heads, heads, size, size, True, False, self.point_norm(f"{name}.norm", channels), query, key,
                value, self.linear(f"{name}.output", heads * size, channels), None, f"{name}.theta", _THETA,
            ),
            kata.FeedForward(
                ffn, channels, inner, True, self.point_norm(f"{ffn}.norm", channels),
                self.linear(f"{ffn}.linear1", channels, inner, 1), self.linear(f"{ffn}.gate", channels, inner, 1),
                self.linear(f"{ffn}.linear2", inner, channels),
            ),
        ]  # fmt: skip

    def encoder(self, channels: int) -> kata.MetadataEncoder:
        return kata.MetadataEncoder(
            "metadata", _METADATA, self.linear("metadata.linear1", _METADATA, channels, 1),
            self.bias("metadata.bias1", channels), _ACTIVATION, self.linear("metadata.linear2", channels, channels, 1),
            self.bias("metadata.bias2", channels), _ACTIVATION, self.linear("metadata.linear3", channels, channels),
        )  # fmt: skip

    def heads(self, channels: int) -> tuple[kata.PolicyLayers, kata.ValueLayers]:
        head = max(channels // 3, 1)
        inner = 2 * head
        policy = kata.PolicyLayers(
            "policy", 2, [], self.conv("policy.conv", channels, head), self.conv("policy.pooled", channels, head),
            self.norm("policy.pooled_norm", head), _ACTIVATION, self.linear("policy.bias", 3 * head, head),
            self.norm("policy.norm", head), _ACTIVATION, self.conv("policy.points", head, 2, 1, 0),
            self.linear("policy.pass1", 3 * head, head, 1), self.bias("policy.pass_bias", head), _ACTIVATION,
            self.linear("policy.pass2", head, 2),
        )  # fmt: skip
        value = kata.ValueLayers(
            "value", [], self.conv("value.conv", channels, head), self.norm("value.norm", head), _ACTIVATION,
            self.linear("value.linear", 3 * head, inner, 1), self.bias("value.bias", inner), _ACTIVATION,
            self.linear("value.results", inner, 3), self.bias("value.result_bias", 3),
            self.linear("value.scores", inner, 6), self.bias("value.score_bias", 6),
            self.conv("value.ownership", head, 1, 1, 0),
        )  # fmt: skip
        return policy, value


def new_kata_net(
    blocks: int, channels: int, kind: BlockKind = "", human: bool = False, random: np.random.Generator | None = None
) -> KataNetFile:
    """Return a new network, which takes metadata (`kifu.katago.metadata`) if it is `human`.

    random: generator of the weights; None for a description with weights of 0, which take no memory.
    """
    make = _Maker(random, blocks)
    parts: list[kata.Block] = []
    for k in range(blocks):
        name, pools = f"block{k}", k % _POOL_EVERY == _POOL_EVERY - 1
        if kind == "tf":
            parts += make.transformer(name, channels)
        else:
            parts.append((make.bottleneck if kind else make.residual)(name, channels, pools))
    pooled = max(channels // 3, 1)
    trunk = kata.Trunk(
        "trunk", len(parts), channels, channels, max(channels - pooled, 1), pooled, pooled, 0, [0] * 5,
        make.conv("conv", 22, channels, 3), make.linear("globals", 19, channels),
        make.encoder(channels) if human else None, parts, make.norm("norm", channels), None, _ACTIVATION,
    )  # fmt: skip
    return KataNetFile(
        f"b{blocks}c{channels}{kind}", _VERSION, 22, 19, 20.0, 20.0, 20.0, 20.0, 40.0, 0.25, 30.0, int(human), 0,
        [0] * 6, trunk, *make.heads(channels),
    )  # fmt: skip


def with_new_heads(file: KataNetFile, random: np.random.Generator) -> None:
    """Replace the heads of a network by untrained ones; the version becomes that of new networks."""
    make, channels = _Maker(random, 1), file.trunk.channels
    file.version, file.unused, file.trunk.unused = _VERSION, [0] * 6, [0] * 5
    file.policy, file.value = make.heads(channels)


def with_encoder(file: KataNetFile, random: np.random.Generator) -> None:
    """Let a network take metadata, which have no effect until it is trained. Raises RecipeError."""
    if file.version < _VERSION:
        raise RecipeError(
            f"{file.name} has version {file.version}, and networks take a profile from version {_VERSION} on; set"
            " new_heads = true"
        )
    file.encoder_version, file.trunk.encoder = 1, _Maker(random, 1).encoder(file.trunk.channels)
