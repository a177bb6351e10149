"""Small random networks of KataGo's format, one part at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kifu.katago import net_file as kata
from kifu.katago.net_file import Block, KataNetFile
from kifu.katago.npz import ARRAYS, POINTS, SIDE, KataRows

BLOCKS = ("residual", "pooling", "bottleneck", "attention", "rotary", "learned", "feed-forward", "gated")
"""Kinds of blocks of `small_net`."""


@dataclass
class Maker:
    rng: np.random.Generator
    mish: str = "ACTIVATION_MISH"

    def floats(self, *shape: int) -> kata.Floats:
        return (self.rng.normal(size=shape) / np.sqrt(max(shape[0], 4))).astype(np.float32)

    def conv(self, inputs: int, outputs: int, size: int = 3) -> kata.Conv:
        weights = self.floats(size, size, inputs, outputs) / np.float32(np.sqrt(inputs * size))
        return kata.Conv("conv", size, size, inputs, outputs, 1, 1, weights)

    def linear(self, inputs: int, outputs: int) -> kata.Weights:
        return kata.Weights("linear", self.floats(inputs, outputs))

    def bias(self, channels: int) -> kata.Weights:
        return kata.Weights("bias", self.floats(channels))

    def norm(self, channels: int, scale: bool = True, bias: bool = True) -> kata.BatchNorm:
        return kata.BatchNorm(
            "norm", channels, 1e-5, scale, bias, self.floats(channels), 0.5 + self.floats(channels) ** 2,
            1 + self.floats(channels) if scale else None, self.floats(channels) if bias else None,
        )  # fmt: skip

    def point_norm(self, channels: int) -> kata.PointNorm:
        return kata.PointNorm("norm", channels, 1e-6, 1 + self.floats(channels))

    def act(self) -> kata.Activation:
        return kata.Activation("act", self.mish)

    def attention(self, channels: int, rotary: bool = False, learned: bool = False) -> kata.Attention:
        return kata.Attention(
            "attention", 4, 2, 4, 3, rotary, learned, self.point_norm(channels), self.linear(channels, 16),
            self.linear(channels, 8), self.linear(channels, 6), self.linear(12, channels),
            kata.Weights("frequencies", self.floats(2, 2, 2)) if rotary and learned else None,
            *(("theta", 100.0) if rotary and not learned else (None, None)),
        )  # fmt: skip

    def block(self, kind: str, channels: int) -> Block:
        norm, act, conv = self.norm, self.act, self.conv
        match kind:
            case "residual":
                return kata.ResidualLayers(
                    "residual", norm(channels, False), act(), conv(channels, 5), norm(5), act(), conv(5, channels)
                )
            case "pooling":
                return kata.Pooling(
                    "pooling", norm(channels), act(), conv(channels, 5), conv(channels, 3), norm(3), act(),
                    self.linear(9, 5), norm(5), act(), conv(5, channels),
                )  # fmt: skip
            case "bottleneck":
                inner = [self.block(name, 4) for name in ("residual", "attention", "gated")]
                return kata.Bottleneck(
                    "bottleneck", 3, norm(channels), act(), conv(channels, 4, 1), inner, norm(4), act(),
                    conv(4, channels, 1),
                )  # fmt: skip
            case "attention" | "rotary" | "learned":
                return self.attention(channels, kind != "attention", kind == "learned")
        gate = self.linear(channels, 7) if kind == "gated" else None
        norm_ = self.point_norm(channels)
        return kata.FeedForward(
            "ffn", channels, 7, gate is not None, norm_, self.linear(channels, 7), gate, self.linear(7, channels)
        )


def small_net(
    kinds: Sequence[str] = BLOCKS, version: int = 17, human: bool = False, rms: bool = False, channels: int = 6
) -> KataNetFile:
    make = Maker(np.random.default_rng(len(kinds) + version), "ACTIVATION_MISH" if version >= 11 else "ACTIVATION_RELU")
    conv, norm, act, linear, bias = make.conv, make.norm, make.act, make.linear, make.bias
    encoder = None
    if human:
        encoder = kata.MetadataEncoder(
            "encoder", 192, linear(192, 5), bias(5), act(), linear(5, 4), bias(4), act(), linear(4, channels)
        )
    blocks = [make.block(kind, channels) for kind in kinds]
    zeros = [0] * 3 if version >= 17 else []
    trunk = kata.Trunk(
        "trunk", len(blocks), channels, 5, 5, 3, 3, int(rms), [0] * 5 if version >= 15 else [],
        conv(22, channels, 5), linear(19, channels), encoder, blocks, None if rms else norm(channels),
        kata.TipNorm("tip", channels, 1e-6, True, 0, 1 + make.floats(channels), make.floats(channels)) if rms else None,
        kata.Activation("act", "ACTIVATION_SILU") if rms else act(),  # KataGo under OpenCL knows no Mish here
    )  # fmt: skip
    policies = 4 if version >= 16 else 2 if version >= 12 else 1
    two = version >= 15
    policy = kata.PolicyLayers(
        "policy", policies, zeros, conv(channels, 4, 1), conv(channels, 3, 1), norm(3), act(), linear(9, 4),
        norm(4), act(), conv(4, policies, 1), linear(9, 4 if two else policies), bias(4) if two else None,
        act() if two else None, linear(4, policies) if two else None,
    )  # fmt: skip
    scores = 6 if version >= 9 else 4
    value = kata.ValueLayers(
        "value", zeros, conv(channels, 4, 1), norm(4), act(), linear(12, 5), bias(5), act(), linear(5, 3), bias(3),
        linear(5, scores), bias(scores), conv(4, 1, 1),
    )  # fmt: skip
    scales = (20.0, 20.0, 20.0, 20.0 if version < 13 else 22.5, 40.0, 0.25, 30.0 if version < 13 else 150.0)
    unused = [0] * 6 if two else []
    return KataNetFile("small", version, 22, 19, *scales, int(human), 0, unused, trunk, policy, value)


def random_rows(rows: int, seed: int = 0, q: bool = True, meta: bool = True, games: int = 3) -> KataRows:
    """Return valid rows, on boards of all sizes, in the order of their games, which have the hashes 1, 2, ..."""
    rng = np.random.default_rng(seed)
    size = rng.integers(2, SIDE + 1, (rows, 2))
    y, x = np.mgrid[:SIDE, :SIDE]
    board = (x < size[:, :1, None]) & (y < size[:, 1:, None])
    planes = rng.random((rows, 22, SIDE, SIDE)) < 0.2
    planes[:, 0] = board
    planes[:, 1:] &= board[:, None]
    planes[:, 2] &= ~planes[:, 1]
    policy = np.zeros((rows, 2, POINTS + 1), np.int16)
    free = (board & ~planes[:, 1] & ~planes[:, 2]).reshape(rows, POINTS)
    for k in range(rows):
        policy[k, 0, rng.choice([*np.flatnonzero(free[k]), POINTS])] = 1
    policy[:, 1] = 1
    targets = np.zeros((rows, 80), np.float32)
    won = rng.integers(0, 2, rows)
    targets[np.arange(rows), won] = 1
    targets[:, 3] = 0.5 - won
    targets[:, [24, 25, 26, 33]] = 1
    game = np.sort(rng.integers(0, games, rows))
    targets[:, 41], targets[:, 42], targets[:, 44] = game + 1, 7, 5
    targets[:, 51], targets[:, 53], targets[:, 63] = np.arange(rows), 2, 3
    scores = np.zeros((rows, 2 * POINTS + 120), np.int8)
    scores[:, 420:422] = 50
    values = np.zeros((rows, 5, SIDE, SIDE), np.int8)
    values[:, 2:4] = rng.integers(-1, 2, (rows, 2, SIDE, SIDE))
    return KataRows(
        np.packbits(planes.reshape(rows, 22, POINTS), axis=-1),
        rng.normal(size=(rows, 19)).astype(np.float32),
        policy,
        targets,
        scores,
        values,
        np.zeros((rows, 3, POINTS + 1), np.int16) if q else None,
        rng.normal(size=(rows, 192)).astype(np.float32) if meta else None,
    )


def same_rows(actual: KataRows, expected: KataRows) -> bool:
    for array, one, other in zip(ARRAYS, actual, expected):
        if (one is None) != (other is None):
            return False
        if one is not None and not (one.dtype == array.dtype == other.dtype and np.array_equal(one, other)):
            return False
    return True


def as_arrays(rows: KataRows) -> dict[str, np.ndarray]:
    return {array.name: values for array, values in zip(ARRAYS, rows) if values is not None}
