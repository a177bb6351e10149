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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

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

    def layer(self, field: Any, name: str, known: kata.Known, scale: float | None, side: int) -> Any:
        """Return a new layer or value of a field of a part. side: that of the kernel of convolutions."""
        if field.type in (int, bool) and field.name in known:
            return known[field.name]
        if field.when is not None and (field.type is float or not field.when.condition(known)):
            return field.when.otherwise(known)
        if field.type is kata.Activation:
            return _ACTIVATION
        sizes = tuple(kata.size_of(dim, known) for dim in field.dims)
        if field.type is list:
            return [0] * sizes[0]
        if field.type is kata.Conv:
            weights = self.weights((side, side, *sizes), side * side * sizes[0], 1.0 if scale is None else scale)
            return kata.Conv(name, side, side, sizes[0], sizes[1], 1, 1, weights)
        if field.type is kata.Weights:
            return kata.Weights(name, self.weights(sizes, sizes[0], scale or 0.0))
        zeros, ones = np.zeros(sizes, np.float32), np.ones(sizes, np.float32)
        if field.type is kata.PointNorm:
            return kata.PointNorm(name, sizes[0], 1e-6, ones)
        return kata.BatchNorm(name, sizes[0], 1e-6, True, True, zeros, ones, ones, zeros)

    def part(self, record: Any, name: str, sizes: kata.Known, scales: Mapping[str, float] = {}, **values: Any) -> Any:
        """Return a part with new layers, given sizes and options by name, factors of weights and values by field."""
        side = 3 if record in (kata.Trunk, kata.ResidualLayers, kata.Pooling) else 1
        known = {"version": _VERSION} | sizes
        for each in kata.fields_of(record)[1:]:
            if each.name not in values:
                values[each.name] = self.layer(each, f"{name}.{each.name}", known, scales.get(each.name), side)
        return record(name, **values)

    def residual(self, name: str, channels: int, pools: bool) -> Any:
        pooled = max(channels // 3, 1) if pools else 0
        sizes, scale = {"channels": channels, "inner": max(channels - pooled, 1), "pooled": pooled}, self.depth**-0.5
        record = kata.Pooling if pools else kata.ResidualLayers
        return self.part(record, name, sizes, {"conv1": scale, "pooled_conv": scale, "conv2": 0})

    def bottleneck(self, name: str, channels: int, pools: bool) -> Any:
        inner = max(channels // 2, 1)
        blocks = [self.residual(f"{name}.{k}", inner, pools and k == 0) for k in range(2)]
        sizes, scales = {"channels": channels, "inner": inner, "count": 2}, {"conv1": self.depth**-0.5, "conv2": 0}
        return self.part(kata.Bottleneck, name, sizes, scales, blocks=blocks)

    def transformer(self, name: str, channels: int) -> list[Any]:
        heads = max(channels // _HEAD_SIZE, 1)
        size = max(channels // heads // 2, 1) * 2
        sizes = {"channels": channels, "heads": heads, "kv_heads": heads, "query_size": size, "value_size": size}
        scales, rotary = dict.fromkeys(("query", "key", "value"), 0.5**0.5), {"rotary": True, "learned": False}
        ffn_sizes = {"channels": channels, "size": channels, "inner": 2 * channels, "gated": True}
        return [
            self.part(kata.Attention, name, sizes | rotary, scales, theta_name=f"{name}.theta", theta=_THETA),
            self.part(kata.FeedForward, f"{name}.ffn", ffn_sizes, {"linear1": 1, "gate": 1}),
        ]

    def encoder(self, channels: int) -> Any:
        sizes = {"inputs": _METADATA, "first": channels, "second": channels, "channels": channels}
        return self.part(kata.MetadataEncoder, "metadata", sizes, {"linear1": 1, "linear2": 1})

    def heads(self, channels: int) -> tuple[kata.PolicyLayers, kata.ValueLayers]:
        head = max(channels // 3, 1)
        sizes = {"channels": channels, "inner": head, "pooled": head, "pass_inner": head, "policies": 2}
        policy = self.part(kata.PolicyLayers, "policy", sizes, {"points": 0, "pass_": 1})
        sizes |= {"inner": 2 * head, "scores": 6}
        return policy, self.part(kata.ValueLayers, "value", sizes, {"linear": 1, "ownership": 0})


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
    sizes = {
        "count": len(parts), "channels": channels, "inner_channels": channels, "tip_kind": 0, "encoder_version": 0,
        "regular_channels": max(channels - pooled, 1), "dilated_channels": pooled, "pooled_channels": pooled,
    }  # fmt: skip
    trunk = make.part(kata.Trunk, "trunk", sizes, blocks=parts)
    trunk.encoder = make.encoder(channels) if human else None
    policy, value = make.heads(channels)
    options = {"planes": 22, "inputs": 19, "encoder_version": int(human), "suicide_areas": 0}
    name = f"b{blocks}c{channels}{kind}"
    net: KataNetFile = make.part(KataNetFile, name, options, trunk=trunk, policy=policy, value=value)
    return net


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
