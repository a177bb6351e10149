"""KataGo's networks as torch modules: one class per block of `kifu.katago.net_file`, boards of any size.

Features are [B, C, H, W], channels last in memory. The mask [B, 1, H, W] is plane 0, 1 on the board; it is None if all
boards fill the planes. Points outside the board are 0 after each norm.

Sources: KataGo v1.17.2, cpp/neuralnet/eigenbackend.cpp for the layers, nneval.cpp for the outputs.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from kifu.arrays import Floats
from kifu.katago import net_file as kata
from kifu.katago.net_file import KataNetFile, trained_arrays

_ACTIVATIONS = {
    "ACTIVATION_IDENTITY": nn.Identity, "ACTIVATION_RELU": nn.ReLU, "ACTIVATION_MISH": nn.Mish,
    "ACTIVATION_SILU": nn.SiLU,
}  # fmt: skip


class KataOutput(NamedTuple):
    """The outputs for B positions, for the side to move; N points.

    Attributes:
        policy: [B, P, N + 1] logits, the pass last; the first of the P policies is that of the next move.
        result: [B, 3] probabilities of win, loss and no result.
        score: [B] mean of the final score of self-play, 0 for no result.
        score_stdev: [B] its standard deviation.
        lead: [B] points by which the side to move is ahead.
        ownership: [B, N] from -1 (the opponent's) to 1.
    """

    policy: Tensor
    result: Tensor
    score: Tensor
    score_stdev: Tensor
    lead: Tensor
    ownership: Tensor


class RawOutput(NamedTuple):
    """The raw outputs of the heads for B positions, which `KataNet.forward` scales.

    Attributes:
        pass_: [B, P] logits of the pass.
        policy: [B, P, H, W] logits of the points, without meaning outside the board.
        result: [B, 3] logits.
        scores: [B, 4 or 6] numbers about the score.
        ownership: [B, 1, H, W] before tanh, without meaning outside the board.
    """

    pass_: Tensor
    policy: Tensor
    result: Tensor
    scores: Tensor
    ownership: Tensor


class KataNet(nn.Module):  # type: ignore[misc]
    """A network of KataGo."""

    def __init__(self, file: KataNetFile) -> None:
        super().__init__()
        # The layers keep their records, without the arrays that they hold as parameters.
        file = copy.deepcopy(file, {id(array): array for array in trained_arrays(file)})
        self.file, self.name, self.is_human = file, file.name, file.is_human
        self.score_mean, self.score_stdev, self.lead = file.score_mean, file.score_stdev, file.lead
        trunk = file.trunk
        self.conv, self.globals = _conv(trunk.conv), _linear(trunk.globals)
        self.encoder = None if trunk.encoder is None else _metadata_encoder(trunk.encoder)
        self.blocks = _blocks(trunk.blocks)
        if trunk.rms_norm is not None:
            self.norm: nn.Module = KataTipNorm(trunk.rms_norm, trunk.act)
        elif trunk.batch_norm is not None:
            self.norm = KataBatchNorm(trunk.batch_norm, trunk.act)
        self.policy, self.value = KataPolicyHead(file.policy), KataValueHead(file.value)
        for layer in self.modules():
            for record, field, _ in _stored(layer):
                setattr(record, field, _IN_MODULE)

    def forward(self, planes: Tensor, globals: Tensor, metadata: Tensor | None = None) -> KataOutput:
        """Evaluate positions.

        Args:
            planes: [B, 22, H, W] float of `katago22@1`.
            metadata: [B, 192] float, see `kifu.katago.metadata`; only human-style nets take it, and they require it.
        """
        mask = planes[:, :1]
        exporting = torch.compiler.is_exporting()  # then no value decides
        raw = self.raw(planes, globals, metadata, mask if exporting or not bool(mask.all()) else None)
        points = raw.policy.masked_fill(mask == 0, -torch.inf)
        policy = torch.cat((points.flatten(2), raw.pass_[:, :, None]), 2)
        return self._scaled(policy, raw.result, raw.scores, raw.ownership.flatten(1), globals)

    def raw(self, planes: Tensor, globals: Tensor, metadata: Tensor | None, mask: Tensor | None) -> RawOutput:
        """Return what the heads compute, see `forward`. mask: [B, 1, H, W], 1 on boards; None if all fill planes."""
        board = planes[:, :1] if mask is None else mask
        area = board.sum((1, 2, 3), dtype=torch.float32)  # [B]
        features = self.conv(planes.contiguous(memory_format=torch.channels_last))
        biases = self.globals(globals)
        if self.encoder is not None:
            biases = biases + self.encoder(metadata)
        features = self.norm(_run(self.blocks, features + biases[:, :, None, None], mask, area), mask)
        return RawOutput(*self.policy(features, mask, area), *self.value(features, mask, area))

    def _scaled(
        self, policy: Tensor, results: Tensor, scores: Tensor, ownership: Tensor, globals: Tensor
    ) -> KataOutput:
        """Return the outputs in their units. With a superko rule and area scoring, each game has a result."""
        always_result = (globals[:, 6] != 0) & (globals[:, 9] == 0)
        never = torch.tensor([False, False, True], device=globals.device)
        result = results.masked_fill(always_result[:, None] & never, -torch.inf).softmax(1)
        share = 1 - result[:, 2]
        mean, lead = scores[:, 0] * self.score_mean, scores[:, 2] * self.lead
        stdev = nn.functional.softplus(scores[:, 1]) * self.score_stdev
        # The mean square, not the variance, is conditional on a result.
        square = share * (mean.square() + stdev.square())
        spread = (square - (share * mean).square()).clamp(min=0).sqrt()
        return KataOutput(policy, result, share * mean, spread, share * lead, torch.tanh(ownership))


def net_file_of(net: KataNet) -> KataNetFile:
    """Return a network, trained or not, as the contents of a file: the inverse of `KataNet(file)`.

    A batch norm keeps its statistics unless its scale or bias have changed; then it is stored with mean 0, variance 1.
    """
    net = copy.deepcopy(net).cpu()
    for layer in net.modules():
        for record, field, values in _stored(layer):
            setattr(record, field, _array(values))
        if isinstance(layer, KataBatchNorm):
            layer.store()
    return net.file


def _stored(layer: nn.Module) -> Iterator[tuple[Any, str, Tensor]]:
    match layer:
        case nn.Conv2d():
            yield layer.record, "weights", layer.weight.permute(2, 3, 1, 0)
        case nn.Linear():
            yield layer.record, "array", layer.weight.T
            if layer.bias is not None:
                yield layer.bias_record, "array", layer.bias
        case nn.RMSNorm():
            yield layer.record, "scale", layer.weight
        case KataTipNorm():
            yield layer.record, "scale", layer.scale.flatten()
            yield layer.record, "bias", layer.bias.flatten()
        case KataAttention() if layer.record.frequencies is not None:
            yield layer.record.frequencies, "array", layer.frequencies


_IN_MODULE: Floats = np.empty(0, np.float32)
"""Stands for an array that is a parameter of a module."""


def _array(values: Tensor) -> Floats:
    return np.ascontiguousarray(values.detach().float().numpy())


def _tensor(array: Floats) -> nn.Parameter:
    return nn.Parameter(torch.from_numpy(np.array(array, order="C")))


def _conv(conv: kata.Conv) -> nn.Conv2d:
    size, dilation = (conv.height, conv.width), (conv.dilation_y, conv.dilation_x)
    padding = tuple(side // 2 * step for side, step in zip(size, dilation))
    module = nn.utils.skip_init(
        nn.Conv2d, conv.inputs, conv.outputs, size, padding=padding, dilation=dilation, bias=False
    )
    module.weight = _tensor(conv.weights.transpose(3, 2, 0, 1))
    module.record = conv
    return module.to(memory_format=torch.channels_last)


def _linear(matrix: kata.Weights, bias: kata.Weights | None = None) -> nn.Linear:
    module = nn.utils.skip_init(nn.Linear, *matrix.array.shape, bias=bias is not None)
    module.weight = _tensor(matrix.array.T)
    module.record, module.bias_record = matrix, bias
    if bias is not None:
        module.bias = _tensor(bias.array)
    return module


def _point_norm(norm: kata.PointNorm) -> KataPointNorm:
    module: KataPointNorm = nn.utils.skip_init(KataPointNorm, norm.channels, eps=norm.epsilon)
    module.weight, module.record = _tensor(norm.scale), norm
    return module


def _activation(activation: kata.Activation) -> nn.Module:
    return _ACTIVATIONS[activation.kind]()


def _blocks(blocks: Sequence[kata.Block]) -> nn.ModuleList:
    return nn.ModuleList(_BLOCKS[type(block)](block) for block in blocks)


def _run(blocks: nn.ModuleList, features: Tensor, mask: Tensor | None, area: Tensor) -> Tensor:
    for block in blocks:
        features = features + block(features, mask, area)
    return features


def _masked(features: Tensor, mask: Tensor | None) -> Tensor:
    return features if mask is None else features * mask


class KataBatchNorm(nn.Module):  # type: ignore[misc]
    """A scale and a bias for each channel, then an activation."""

    def __init__(self, norm: kata.BatchNorm, activation: kata.Activation) -> None:
        super().__init__()
        self.record, self.act = norm, _activation(activation)
        self.scale, self.bias = (_tensor(values[:, None, None]) for values in self._stored())

    def _stored(self) -> tuple[Floats, Floats]:
        norm = self.record
        scale = np.ones(norm.channels, np.float32) if norm.scale is None else norm.scale
        bias = np.zeros(norm.channels, np.float32) if norm.bias is None else norm.bias
        scale = scale / np.sqrt(norm.variance + np.float32(norm.epsilon))
        return scale, bias - scale * norm.mean

    def store(self) -> None:
        """Store scale and bias in the record unless it has them."""
        scale, bias = _array(self.scale.flatten()), _array(self.bias.flatten())
        if not all(np.array_equal(*pair) for pair in zip((scale, bias), self._stored())):
            norm = self.record
            norm.epsilon, norm.mean, norm.variance = 1e-20, np.zeros_like(bias), np.ones_like(bias)
            norm.has_scale, norm.scale, norm.has_bias, norm.bias = True, scale, True, bias

    def forward(self, features: Tensor, mask: Tensor | None) -> Tensor:
        """Map features to features of the same shape."""
        return _masked(self.act(torch.addcmul(self.bias, features, self.scale)), mask)


class KataPointNorm(nn.RMSNorm):  # type: ignore[misc]
    """The RMS norm of each point in float32; torch's own warns of features in bfloat16, and takes a third longer."""

    def forward(self, rows: Tensor) -> Tensor:
        """Map rows [..., C] to rows of the same type."""
        square = torch.linalg.vector_norm(rows, dim=-1, keepdim=True, dtype=torch.float32).square() / rows.shape[-1]
        return (rows * (square + self.eps).rsqrt() * self.weight).to(rows.dtype)


class KataTipNorm(nn.Module):  # type: ignore[misc]
    """The RMS norm after the last block, then an activation."""

    def __init__(self, norm: kata.TipNorm, activation: kata.Activation) -> None:
        super().__init__()
        self.record = norm
        self.scale, self.bias = _tensor(norm.scale[:, None, None]), _tensor(norm.bias[:, None, None])
        self.epsilon, self.spatial = norm.epsilon, norm.spatial
        self.act = _activation(activation)

    def forward(self, features: Tensor, mask: Tensor | None) -> Tensor:
        """Map features to features of the same shape."""
        square = _masked(features, mask).square().mean(1, keepdim=True)  # [B, 1, H, W]
        if self.spatial:
            square = square.mean((2, 3), keepdim=True) if mask is None else _board_mean(square, mask)
        features = features * (square + self.epsilon).rsqrt()
        return _masked(self.act(torch.addcmul(self.bias, features, self.scale)), mask)


def _board_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of masked values [B, 1, H, W] over the board, [B, 1, 1, 1]."""
    return values.sum((2, 3), keepdim=True) / mask.sum((2, 3), keepdim=True)


def _pool(features: Tensor, mask: Tensor | None, area: Tensor, value: bool = False) -> Tensor:
    """Return [B, 3 C]: means, means scaled by the size of the board, and maxima or, for the value head, other means."""
    mean = features.sum((2, 3)) / area[:, None]
    size = area.sqrt()[:, None] - 14
    if value:
        third = mean * (size.square() * 0.01 - 0.1)
    else:
        # Masked points are lowered to -1, below all values of activations.
        third = (features if mask is None else features + (mask - 1)).amax((2, 3))
    return torch.cat((mean, mean * (size * 0.1), third), 1)


class KataPooledBias(nn.Module):  # type: ignore[misc]
    """A convolution whose pooled outputs are biases of other channels."""

    def __init__(
        self, conv: kata.Conv, norm: kata.BatchNorm, activation: kata.Activation, linear: kata.Weights
    ) -> None:
        super().__init__()
        self.conv, self.norm, self.linear = _conv(conv), KataBatchNorm(norm, activation), _linear(linear)

    def forward(self, features: Tensor, mask: Tensor | None, area: Tensor) -> tuple[Tensor, Tensor]:
        """Return pooled features [B, 3 C] and biases [B, outputs, 1, 1]."""
        pooled = _pool(self.norm(self.conv(features), mask), mask, area)
        return pooled, self.linear(pooled)[:, :, None, None]


class KataPooling(nn.Module):  # type: ignore[misc]
    """A residual block with pooled biases."""

    def __init__(self, block: kata.Pooling) -> None:
        super().__init__()
        self.norm1, self.conv1 = KataBatchNorm(block.norm1, block.act1), _conv(block.conv1)
        self.pooled = KataPooledBias(block.pooled_conv, block.pooled_norm, block.pooled_act, block.pooled_bias)
        self.norm2, self.conv2 = KataBatchNorm(block.norm2, block.act2), _conv(block.conv2)

    def forward(self, features: Tensor, mask: Tensor | None, area: Tensor) -> Tensor:
        """Return what is added to the features."""
        features = self.norm1(features, mask)
        _, biases = self.pooled(features, mask, area)
        return self.conv2(self.norm2(self.conv1(features) + biases, mask))


class KataResidual(nn.Module):  # type: ignore[misc]
    """Norm, activation and convolution, twice; a bottleneck has blocks of fewer channels between them."""

    def __init__(self, block: kata.ResidualLayers | kata.Bottleneck) -> None:
        super().__init__()
        self.norm1, self.conv1 = KataBatchNorm(block.norm1, block.act1), _conv(block.conv1)
        self.blocks = _blocks(block.blocks if isinstance(block, kata.Bottleneck) else [])
        self.norm2, self.conv2 = KataBatchNorm(block.norm2, block.act2), _conv(block.conv2)

    def forward(self, features: Tensor, mask: Tensor | None, area: Tensor) -> Tensor:
        """Return what is added to the features."""
        inner = _run(self.blocks, self.conv1(self.norm1(features, mask)), mask, area)
        return self.conv2(self.norm2(inner, mask))


class KataAttention(nn.Module):  # type: ignore[misc]
    """Self-attention of all points of the board."""

    def __init__(self, block: kata.Attention) -> None:
        super().__init__()
        self.heads, self.kv_heads = block.heads, block.kv_heads
        self.norm = _point_norm(block.norm)
        self.query, self.key = _linear(block.query), _linear(block.key)
        self.value, self.output = _linear(block.value), _linear(block.output)
        self.record = block
        fixed = None if block.theta is None else torch.from_numpy(_fixed_frequencies(block.theta, block.query_size))
        if block.frequencies is None:
            self.register_buffer("frequencies", fixed, persistent=False)  # [key heads or 1, pairs, (x, y)] or None
        else:
            self.frequencies = _tensor(block.frequencies.array)

    def forward(self, features: Tensor, mask: Tensor | None, area: Tensor) -> Tensor:
        """Return what is added to the features."""
        batch, _, height, width = features.shape
        rows = self.norm(features.permute(0, 2, 3, 1)).flatten(1, 2)  # [B, N, C]
        query, key, value = (
            linear(rows).view(batch, height * width, heads, -1).transpose(1, 2)  # [B, heads, N, size]
            for linear, heads in ((self.query, self.heads), (self.key, self.kv_heads), (self.value, self.kv_heads))
        )
        group = self.heads // self.kv_heads
        if self.frequencies is not None:
            angles = _angles(self.frequencies, height, width)  # [key heads or 1, N, pairs]
            key = _rotate(key, angles)
            query = _rotate(query, angles if len(angles) == 1 else angles.repeat_interleave(group, 0))
        if group > 1:
            key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
        allowed = None if mask is None else mask.flatten(2)[:, None] != 0  # [B, 1, 1, N]
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, allowed)
        rows = self.output(mixed.transpose(1, 2).flatten(2))
        return _masked(rows.view(batch, height, width, -1).permute(0, 3, 1, 2), mask)


def _fixed_frequencies(theta: float, size: int) -> Floats:
    """Return [1, size / 2, (x, y)]: the first half of the pairs turns with y, the second with x."""
    half = size // 2
    pairs = half // 2
    each = (1 / np.float32(theta) ** (np.arange(half, dtype=np.float32) % max(pairs, 1) * 2 / half)).astype(np.float32)
    turns_y = np.arange(half) < pairs
    return np.stack([np.where(turns_y, 0, each), np.where(turns_y, each, 0)], 1)[None].astype(np.float32)


def _angles(frequencies: Tensor, height: int, width: int) -> Tensor:
    """Return the angles [heads, N, pairs] of frequencies [heads, pairs, (x, y)]."""
    y, x = torch.meshgrid(
        torch.arange(height, device=frequencies.device), torch.arange(width, device=frequencies.device), indexing="ij"
    )
    x, y = x.reshape(-1, 1), y.reshape(-1, 1)
    return x * frequencies[:, None, :, 0] + y * frequencies[:, None, :, 1]


def _rotate(rows: Tensor, angles: Tensor) -> Tensor:
    """Rotate each pair of neighbouring values of rows [B, heads, N, size] by its angle [heads or 1, N, size / 2]."""
    even, odd = rows[..., ::2], rows[..., 1::2]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


class KataFeedForward(nn.Module):  # type: ignore[misc]
    """Two matrices with SiLU between them, gated by a third."""

    def __init__(self, block: kata.FeedForward) -> None:
        super().__init__()
        self.norm, self.linear1, self.linear2 = _point_norm(block.norm), _linear(block.linear1), _linear(block.linear2)
        self.gate = None if block.gate is None else _linear(block.gate)

    def forward(self, features: Tensor, mask: Tensor | None, area: Tensor) -> Tensor:
        """Return what is added to the features."""
        rows = self.norm(features.permute(0, 2, 3, 1))  # [B, H, W, C]
        inner = nn.functional.silu(self.linear1(rows))
        inner = inner if self.gate is None else inner * self.gate(rows)
        return _masked(self.linear2(inner).permute(0, 3, 1, 2), mask)


def _metadata_encoder(encoder: kata.MetadataEncoder) -> nn.Sequential:
    """Return the map from metadata [B, 192] to biases of the first features [B, C]."""
    return nn.Sequential(
        _linear(encoder.linear1, encoder.bias1), _activation(encoder.act1),
        _linear(encoder.linear2, encoder.bias2), _activation(encoder.act2), _linear(encoder.linear3),
    )  # fmt: skip


class KataPolicyHead(nn.Module):  # type: ignore[misc]
    """Policies of all points and the pass."""

    def __init__(self, head: kata.PolicyLayers) -> None:
        super().__init__()
        self.conv = _conv(head.conv)
        self.pooled = KataPooledBias(head.pooled_conv, head.pooled_norm, head.pooled_act, head.pooled_bias)
        self.norm, self.points = KataBatchNorm(head.norm, head.act), _conv(head.points)
        layers: list[nn.Module] = [_linear(head.pass_, head.pass_bias)]
        if head.pass_act is not None and head.pass_linear2 is not None:
            layers += [_activation(head.pass_act), _linear(head.pass_linear2)]
        self.pass_ = nn.Sequential(*layers)

    def forward(self, features: Tensor, mask: Tensor | None, area: Tensor) -> tuple[Tensor, Tensor]:
        """Map features to logits of the pass [B, P] and of points [B, P, H, W]."""
        pooled, biases = self.pooled(features, mask, area)
        return self.pass_(pooled), self.points(self.norm(self.conv(features) + biases, mask))


class KataValueHead(nn.Module):  # type: ignore[misc]
    """Result, score and ownership."""

    def __init__(self, head: kata.ValueLayers) -> None:
        super().__init__()
        self.conv, self.norm = _conv(head.conv), KataBatchNorm(head.norm, head.act)
        self.linear, self.act = _linear(head.linear, head.bias), _activation(head.act2)
        self.results, self.scores = _linear(head.results, head.result_bias), _linear(head.scores, head.score_bias)
        self.ownership = _conv(head.ownership)

    def forward(self, features: Tensor, mask: Tensor | None, area: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Map features to logits of the result [B, 3], numbers about the score, and ownership [B, 1, H, W]."""
        features = self.norm(self.conv(features), mask)
        inner = self.act(self.linear(_pool(features, mask, area, value=True)))
        return self.results(inner), self.scores(inner), self.ownership(features)


_BLOCKS = {
    kata.ResidualLayers: KataResidual, kata.Pooling: KataPooling, kata.Bottleneck: KataResidual,
    kata.Attention: KataAttention, kata.FeedForward: KataFeedForward,
}  # fmt: skip
