"""Checkpoints of KataGo's training (.ckpt), read as the network files that its exporter would write.

Names of weights and fixed scales: python/katago/train/model_pytorch.py and python/export_model_pytorch.py, KataGo
v1.17.2. Weights without a counterpart in network files, such as those of auxiliary heads, are left out; blocks that
the exporter refuses are an error.
"""

from __future__ import annotations

import math
import os
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from io import BytesIO, FileIO
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from kifu.arrays import Floats
from kifu.config import first_invalid
from kifu.errors import FormatError, first_line, missing_extras
from kifu.io import open_regular, read_small
from kifu.katago import net_file as kata
from kifu.katago.net_file import CHECKPOINT, KataNetFile, kata_net_bytes, parse_kata_net, read_kata_net

_MAX_PICKLE_BYTES = 4 << 20
"""Three times what 2,500 weights with averages and an optimizer's state take. torch reads it at 1 MiB a second."""

_MAX_CONFIG_BYTES = 1 << 20
_WRAPPERS = re.compile(r"^((module|_orig_mod)\.)+")
_LEFT_OUT = re.compile(
    r"(norm_)?intermediate_|value_head\.(conv_(scoring|futurepos|seki)|linear_s|score_belief)|.*\.renorm_|n_averaged"
)
"""Weights that only training uses."""


def read_network(path: str | os.PathLike[str]) -> KataNetFile:
    """Read a network file or a checkpoint of KataGo. Raise FormatError if it is damaged or neither."""
    if os.fspath(path).endswith(".onnx"):
        raise FormatError(f"{path} is an ONNX file; this requires KataGo's own file")
    return _read_checkpoint(Path(path)) if os.fspath(path).endswith(CHECKPOINT) else read_kata_net(path)


def load_torch_file(path: Path) -> Any:
    """Return what torch saved in a file, on the CPU. Nothing in the file is executed. Raises many kinds of errors."""
    with missing_extras():
        import torch
    with open_regular(path) as file:
        _require_plain_zip(file)
        file.seek(0)
        with torch.serialization.safe_globals([defaultdict, float]):
            return torch.load(file, map_location="cpu", weights_only=True)


def _require_plain_zip(file: FileIO) -> None:
    """Raise BadZipFile unless the file is an archive as torch writes it, which cannot demand more memory than it has.

    torch would also inflate entries, and does not compare checksums.
    """
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            is_pickle = not entry.filename.partition("/")[2].startswith("data/")
            if entry.compress_type != zipfile.ZIP_STORED or (is_pickle and entry.file_size > _MAX_PICKLE_BYTES):
                raise zipfile.BadZipFile(entry.filename)
        if (damaged := archive.testzip()) is not None:
            raise zipfile.BadZipFile(damaged)


class _Config(BaseModel):
    """The parts of a model's configuration that its weights do not tell."""

    version: Annotated[int, Field(ge=8, le=kata.MAX_VERSION)]
    norm_kind: Literal["bnorm", "brenorm", "fixup", "fixscale", "fixbrenorm", "fixscaleonenorm"]
    activation: Literal["identity", "relu", "mish", "silu"] = "relu"
    block_kind: Annotated[list[tuple[str, str]], Field(max_length=512)]
    mid_num_channels: int
    gpool_num_channels: int
    gamma_weight_decay_center_1: bool = False
    transformer_heads: Annotated[int, Field(ge=1)] = 1
    transformer_kv_heads: Annotated[int | None, Field(ge=1)] = None
    rope_theta: float = 100.0
    always_compute_pass_alive_under_suicide_rules: bool = False


def _read_checkpoint(path: Path) -> KataNetFile:
    try:
        saved = load_torch_file(path)
        state, config = _state_dict(saved), _config(path, saved)
    except (FormatError, ImportError):
        raise
    except OSError as error:
        raise FormatError(f"cannot read the checkpoint {path}: {error.strerror or first_line(error)}") from None
    except Exception:  # zipfile and torch raise many kinds of errors, some of which recommend to execute the file
        raise FormatError(f"{path} is not a checkpoint of KataGo, or a damaged one") from None
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", path.stem)[:96]
    try:
        net = _StateDict(state, config).net(name)
        # Reading what was made checks all sizes and values.
        return parse_kata_net(BytesIO(kata_net_bytes(net)))
    except (FormatError, EOFError) as error:
        raise FormatError(f"{path} is not a checkpoint of KataGo that it can export: {error}") from None


def _state_dict(saved: Any) -> dict[str, Floats]:
    """Return the weights by name: the averaged ones (SWA) if there are any. Raises many kinds of errors."""
    state, total = {}, 0
    for key, value in (saved.get("swa_model") or saved["model"]).items():
        name = _WRAPPERS.sub("", key)
        if _LEFT_OUT.match(name):
            continue
        total += value.numel()
        if total > kata.MAX_PARAMETERS:
            raise ValueError(total)
        state[name] = value.detach().float().contiguous().numpy()
    return state


def _config(path: Path, saved: Any) -> _Config:
    """Return the configuration in a checkpoint or, for old ones, in the file beside it."""
    beside = path.with_name("model.config.json")
    try:
        if "config" in saved:
            return _Config.model_validate(saved["config"])
        return _Config.model_validate_json(read_small(beside, _MAX_CONFIG_BYTES))
    except ValidationError as error:
        raise FormatError(f"{path}: invalid model configuration: {first_invalid(error)}") from None
    except OSError:
        raise FormatError(f"{path} has no model configuration, and there is no {beside.name} beside it") from None


class _StateDict:
    def __init__(self, state: Mapping[str, Floats], config: _Config) -> None:
        self._state, self._config, self._left = state, config, set(state)
        self._scaled = config.norm_kind in ("fixscale", "fixbrenorm", "fixscaleonenorm")

    def net(self, name: str) -> KataNetFile:
        config, tip = self._config, self._state.get("norm_trunkfinal.beta")
        rms = tip is not None and tip.ndim == 1
        for _, kind in config.block_kind:
            if "dilated" in kind:
                raise FormatError(f"unsupported block {kind!r}")
        version, suicide = max(config.version, 11), config.always_compute_pass_alive_under_suicide_rules
        if version >= 15 and (rms or suicide):
            version = 17
        human = self._has("metadata_encoder.")
        scales = (20.0, 20.0, 20.0, 20.0, 40.0, 0.25, 30.0 if config.version <= 12 else 150.0)
        trunk, policy = self._trunk(version, rms), self._policy(version)
        net = KataNetFile(
            name, version, 22, 19, *scales, int(human), int(suicide), self._zeros(6, version >= 15), trunk, policy,
            self._value(version),
        )  # fmt: skip
        if self._left:
            raise FormatError(f"unsupported weight {min(self._left)!r}")
        return net

    @staticmethod
    def _zeros(count: int, present: bool) -> list[int]:
        return [0] * count if present else []

    def _has(self, prefix: str) -> bool:
        return any(key.startswith(prefix) for key in self._state)

    def _array(self, key: str) -> Floats:
        if key not in self._state:
            raise FormatError(f"missing weight {key!r}")
        self._left.discard(key)
        return self._state[key]

    def _act(self, name: str) -> kata.Activation:
        return kata.Activation(f"model.{name}", f"ACTIVATION_{self._config.activation.upper()}")

    def _conv(self, key: str, rows: list[int] | None = None) -> kata.Conv:
        weights = self._shaped(key, self._array(f"{key}.weight"), 4)
        weights = weights if rows is None else weights[rows]
        center = f"{key}1x1.weight"
        if center in self._state:
            weights = weights.copy()
            weights[:, :, weights.shape[2] // 2, weights.shape[3] // 2] += self._array(center)[:, :, 0, 0]
        outputs, inputs, height, width = weights.shape
        return kata.Conv(f"model.{key}", height, width, inputs, outputs, 1, 1, weights.transpose(2, 3, 1, 0))

    def _linear(self, key: str, rows: list[int] | None = None, factor: float | Floats = 1.0) -> kata.Weights:
        weights = self._shaped(key, self._array(f"{key}.weight"), 2) * np.float32(factor)
        return kata.Weights(f"model.{key}", (weights if rows is None else weights[rows]).T)

    def _bias(self, key: str) -> kata.Weights:
        return kata.Weights(f"model.{key}.bias", self._shaped(key, self._array(f"{key}.bias"), 1))

    @staticmethod
    def _shaped(key: str, weights: Floats, dims: int) -> Floats:
        if weights.ndim != dims:
            raise FormatError(f"weight {key!r} must have {dims} dimensions, got {weights.ndim}")
        return weights

    def _norm(self, key: str, scale: float | None = None) -> kata.BatchNorm:
        """Return a norm: statistics if it has them, and gamma times the fixed scale."""
        bias = self._array(f"{key}.beta").ravel()
        mean, variance = np.zeros_like(bias), np.ones_like(bias)
        if f"{key}.running_mean" in self._state:
            mean, deviation = self._array(f"{key}.running_mean"), self._array(f"{key}.running_std")
            variance = np.maximum(np.float32(1e-20), deviation * deviation)
        gamma = None
        if f"{key}.gamma" in self._state:
            gamma = self._array(f"{key}.gamma").ravel() + np.float32(self._config.gamma_weight_decay_center_1)
        if self._scaled and scale is not None:
            gamma = np.float32(scale) * (np.ones_like(bias) if gamma is None else gamma)
        return kata.BatchNorm(f"model.{key}", len(bias), 1e-20, gamma is not None, True, mean, variance, gamma, bias)

    def _point_norm(self, key: str) -> kata.PointNorm:
        scale = self._array(f"{key}.weight")
        return kata.PointNorm(f"model.{key}", len(scale), 1e-6, scale)

    def _blocks(self, prefix: str) -> Iterator[kata.Block]:
        for number in range(512):
            key = f"{prefix}{number}"
            if not self._has(f"{key}."):
                return
            yield self._block(key, 1 / math.sqrt(number + 1))

    def _block(self, key: str, scale: float) -> kata.Block:
        if self._has(f"{key}.normactconvp."):
            return self._bottleneck(key, scale)
        if self._has(f"{key}.q_proj."):
            return self._attention(key)
        if self._has(f"{key}.ffn_linear1."):
            return self._feed_forward(key)
        first, second = f"{key}.normactconv1", f"{key}.normactconv2"
        norm1, act1 = self._norm(f"{first}.norm", scale), self._act(f"{first}.act")
        last = self._norm(f"{second}.norm"), self._act(f"{second}.act"), self._conv(f"{second}.conv")
        if not self._has(f"{first}.convpool."):
            return kata.ResidualLayers(f"model.{key}", norm1, act1, self._conv(f"{first}.conv"), *last)
        pool = f"{first}.convpool"
        return kata.Pooling(
            f"model.{key}", norm1, act1, self._conv(f"{pool}.conv1r"), self._conv(f"{pool}.conv1g"),
            self._norm(f"{pool}.normg"), self._act(f"{pool}.actg"), self._linear(f"{pool}.linear_g"), *last,
        )  # fmt: skip

    def _bottleneck(self, key: str, scale: float) -> kata.Bottleneck:
        down, up = f"{key}.normactconvp", f"{key}.normactconvq"
        blocks = list(self._blocks(f"{key}.blockstack."))
        # An attention and a feed-forward block count as one.
        length = len(blocks) // 2 if self._has(f"{key}.blockstack.0.q_proj.") else len(blocks)
        return kata.Bottleneck(
            f"model.{key}", len(blocks), self._norm(f"{down}.norm", scale), self._act(f"{down}.act"),
            self._conv(f"{down}.conv"), blocks, self._norm(f"{up}.norm", 1 / math.sqrt(length + 1)),
            self._act(f"{up}.act"), self._conv(f"{up}.conv"),
        )  # fmt: skip

    def _attention(self, key: str) -> kata.Attention:
        heads = self._config.transformer_heads
        kv_heads = self._config.transformer_kv_heads or heads
        query, key_, value, output = (self._linear(f"{key}.{name}_proj") for name in ("q", "k", "v", "out"))
        learned = f"{key}.rope_freqs" in self._state
        frequencies = kata.Weights(f"model.{key}.rope_freqs", self._array(f"{key}.rope_freqs")) if learned else None
        theta = (None, None) if learned else (f"model.{key}.rope_theta", self._config.rope_theta)
        return kata.Attention(
            f"model.{key}", heads, kv_heads, query.array.shape[1] // heads, value.array.shape[1] // kv_heads, True,
            learned, self._point_norm(f"{key}.norm1"), query, key_, value, output, frequencies, *theta,
        )  # fmt: skip

    def _feed_forward(self, key: str) -> kata.FeedForward:
        gated = self._has(f"{key}.ffn_linear_gate.")
        if not gated and self._config.activation != "silu":
            raise FormatError(f"unsupported feed-forward block with {self._config.activation}")
        linear1 = self._linear(f"{key}.ffn_linear1")
        gate = self._linear(f"{key}.ffn_linear_gate") if gated else None
        return kata.FeedForward(
            f"model.{key}", len(linear1.array), linear1.array.shape[1], gated, self._point_norm(f"{key}.norm"), linear1,
            gate, self._linear(f"{key}.ffn_linear2"),
        )  # fmt: skip

    def _trunk(self, version: int, rms: bool) -> kata.Trunk:
        config, blocks = self._config, list(self._blocks("blocks."))
        if len(blocks) != len(config.block_kind):
            raise FormatError(f"{len(blocks)} blocks, but {len(config.block_kind)} in the configuration")
        conv, pooled = self._conv("conv_spatial"), config.gpool_num_channels
        key, tip, spatial = "norm_trunkfinal", None, "norm_trunkfinal.gamma" in self._state
        if rms:
            scale = self._array(f"{key}.gamma" if spatial else f"{key}.norm.weight")
            tip = kata.TipNorm(f"model.{key}", len(scale), 1e-6, spatial, 0, scale, self._array(f"{key}.beta"))
        return kata.Trunk(
            "trunk", len(blocks), conv.outputs, config.mid_num_channels, config.mid_num_channels - pooled, pooled,
            pooled, int(rms), self._zeros(5, version >= 15), conv, self._linear("linear_global"), self._encoder(),
            blocks, None if rms else self._norm("norm_trunkfinal", 1 / math.sqrt(len(blocks) + 1)),
            tip, self._act("act_trunkfinal"),
        )  # fmt: skip

    def _encoder(self) -> kata.MetadataEncoder | None:
        key = "metadata_encoder"
        if not self._has(f"{key}."):
            return None
        known = self._array(f"{key}.feature_mask")
        linears = (
            self._linear(f"{key}.linear1", factor=known), self._linear(f"{key}.linear2"),
            self._linear(f"{key}.linear_output_to_trunk", factor=0.5),
        )  # fmt: skip
        return kata.MetadataEncoder(
            "model.sgf_metadata_encoder", 192, linears[0], self._bias(f"{key}.linear1"), self._act(f"{key}.act1"),
            linears[1], self._bias(f"{key}.linear2"), self._act(f"{key}.act2"), linears[2],
        )  # fmt: skip

    def _policy(self, version: int) -> kata.PolicyLayers:
        key = "policy_head"
        # Of the policies, the exporter keeps that of the next move, the optimistic one, and values of moves.
        rows = {4: [0], 6: [0, 5], 8: [0, 5, 6, 7]}.get(len(self._array(f"{key}.conv2p.weight")))
        if rows is None:
            raise FormatError("the policy head must have 4, 6 or 8 outputs")
        two = self._has(f"{key}.linear_pass2.")
        return kata.PolicyLayers(
            f"model.{key}", len(rows), self._zeros(3, version >= 17), self._conv(f"{key}.conv1p"),
            self._conv(f"{key}.conv1g"), self._norm(f"{key}.biasg"), self._act(f"{key}.actg"),
            self._linear(f"{key}.linear_g"), self._norm(f"{key}.bias2"), self._act(f"{key}.act2"),
            self._conv(f"{key}.conv2p", rows), self._linear(f"{key}.linear_pass", None if two else rows),
            self._bias(f"{key}.linear_pass") if two else None, self._act(f"{key}.act_pass") if two else None,
            self._linear(f"{key}.linear_pass2", rows) if two else None,
        )  # fmt: skip

    def _value(self, version: int) -> kata.ValueLayers:
        key = "value_head"
        scores = [self._linear(f"{key}.linear_{name}valuehead").array for name in ("misc", "moremisc")]
        biases = [self._bias(f"{key}.linear_{name}valuehead").array for name in ("misc", "moremisc")]
        return kata.ValueLayers(
            f"model.{key}", self._zeros(3, version >= 17), self._conv(f"{key}.conv1"), self._norm(f"{key}.bias1"),
            self._act(f"{key}.act1"), self._linear(f"{key}.linear2"), self._bias(f"{key}.linear2"),
            self._act(f"{key}.act2"), self._linear(f"{key}.linear_valuehead"), self._bias(f"{key}.linear_valuehead"),
            kata.Weights(f"model.{key}.linear_miscvaluehead", np.hstack((scores[0][:, :4], scores[1][:, :2]))),
            kata.Weights(f"model.{key}.bias_miscvaluehead", np.hstack((biases[0][:4], biases[1][:2]))),
            self._conv(f"{key}.conv_ownership"),
        )  # fmt: skip
