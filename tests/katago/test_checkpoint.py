"""Checkpoints of KataGo's training: state dicts with the names of its public code, made here from small networks.

No checkpoint of KataGo itself is at hand: names, shapes and fixed scales follow model_pytorch.py of KataGo v1.17.2.
"""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from commands import run
from kata_nets import small_net
from kifu.errors import FormatError
from kifu.katago import net_file as kata
from kifu.katago.checkpoint import read_network
from kifu.katago.net_file import kata_net_bytes, read_kata_net, trained_arrays
from lazy import lazy_import

torch = lazy_import("torch")
kata_net = lazy_import("kifu.katago.net")

KINDS = ["residual", "pooling", "bottleneck", "rotary", "gated"]


class State(dict):
    def conv(self, key, conv, rows=None, of=0):
        self._rows(f"{key}.weight", conv.weights.transpose(3, 2, 0, 1), rows, of)

    def linear(self, key, matrix, rows=None, of=0, bias=None):
        self._rows(f"{key}.weight", matrix.array.T, rows, of)
        if bias is not None:
            self._rows(f"{key}.bias", bias.array, rows, of)

    def _rows(self, key, array, rows, of):
        """Store an array at these rows among others with random values, which are not exported."""
        if rows is not None:
            full = np.random.default_rng(len(self)).normal(size=(of, *array.shape[1:])).astype(np.float32)
            full[rows], array = array, full
        self[key] = torch.from_numpy(np.ascontiguousarray(array))

    def norm(self, key, norm):
        """Store a norm with gamma - 1, as by gamma_weight_decay_center_1."""
        shape = (1, -1, 1, 1)
        self[f"{key}.beta"] = torch.from_numpy(norm.bias).reshape(shape)
        if norm.scale is not None:
            self[f"{key}.gamma"] = torch.from_numpy(norm.scale - 1).reshape(shape)
        self[f"{key}.running_mean"] = torch.from_numpy(norm.mean)
        self[f"{key}.running_std"] = torch.from_numpy(np.sqrt(norm.variance + np.float32(norm.epsilon)))

    def block(self, key, block):
        match block:
            case kata.Attention():
                for name, part in zip("qkv", (block.query, block.key, block.value)):
                    self.linear(f"{key}.{name}_proj", part)
                self.linear(f"{key}.out_proj", block.output)
                self[f"{key}.norm1.weight"] = torch.from_numpy(block.norm.scale)
                if block.frequencies is not None:
                    self[f"{key}.rope_freqs"] = torch.from_numpy(block.frequencies.array)
            case kata.FeedForward():
                self.linear(f"{key}.ffn_linear1", block.linear1)
                self.linear(f"{key}.ffn_linear_gate", block.gate)
                self.linear(f"{key}.ffn_linear2", block.linear2)
                self[f"{key}.norm.weight"] = torch.from_numpy(block.norm.scale)
            case _:
                nested = isinstance(block, kata.Bottleneck)
                first, second = ("normactconvp", "normactconvq") if nested else ("normactconv1", "normactconv2")
                self.norm(f"{key}.{first}.norm", block.norm1)
                self.norm(f"{key}.{second}.norm", block.norm2)
                pool = f"{key}.{first}.convpool"
                if isinstance(block, kata.Pooling):
                    self.conv(f"{pool}.conv1r", block.conv1)
                    self.conv(f"{pool}.conv1g", block.pooled_conv)
                    self.norm(f"{pool}.normg", block.pooled_norm)
                    self.linear(f"{pool}.linear_g", block.pooled_bias)
                else:
                    self.conv(f"{key}.{first}.conv", block.conv1)
                self.conv(f"{key}.{second}.conv", block.conv2)
                for number, inner in enumerate(block.blocks if nested else []):
                    self.block(f"{key}.blockstack.{number}", inner)


def checkpoint(file, **config):
    state, trunk, policy, value = State(), file.trunk, file.policy, file.value
    state.conv("conv_spatial", trunk.conv)
    state.linear("linear_global", trunk.globals)
    for number, block in enumerate(trunk.blocks):
        state.block(f"blocks.{number}", block)
    if trunk.rms_norm is None:
        state.norm("norm_trunkfinal", trunk.batch_norm)
    else:
        state["norm_trunkfinal.gamma"] = torch.from_numpy(trunk.rms_norm.scale)
        state["norm_trunkfinal.beta"] = torch.from_numpy(trunk.rms_norm.bias)
    if trunk.encoder is not None:
        encoder, mask = trunk.encoder, np.ones(192, np.float32)
        mask[86] = 0
        encoder.linear1.array[86] = 0
        state["metadata_encoder.feature_mask"] = torch.from_numpy(mask)
        state.linear("metadata_encoder.linear1", encoder.linear1, bias=encoder.bias1)
        state.linear("metadata_encoder.linear2", encoder.linear2, bias=encoder.bias2)
        state["metadata_encoder.linear_output_to_trunk.weight"] = torch.from_numpy(encoder.linear3.array.T * 2)
    rows, of = {1: ([0], 4), 2: ([0, 5], 6), 4: ([0, 5, 6, 7], 8)}[policy.policies]
    state.conv("policy_head.conv1p", policy.conv)
    state.conv("policy_head.conv1g", policy.pooled_conv)
    state.norm("policy_head.biasg", policy.pooled_norm)
    state.linear("policy_head.linear_g", policy.pooled_bias)
    state.norm("policy_head.bias2", policy.norm)
    state.conv("policy_head.conv2p", policy.points, rows, of)
    if policy.pass_linear2 is None:
        state.linear("policy_head.linear_pass", policy.pass_, rows, of)
    else:
        state.linear("policy_head.linear_pass", policy.pass_, bias=policy.pass_bias)
        state.linear("policy_head.linear_pass2", policy.pass_linear2, rows, of)
    state.conv("value_head.conv1", value.conv)
    state.norm("value_head.bias1", value.norm)
    state.linear("value_head.linear2", value.linear, bias=value.bias)
    state.linear("value_head.linear_valuehead", value.results, bias=value.result_bias)
    for name, part, count in (("misc", slice(4), 10), ("moremisc", slice(4, 6), 8)):
        scores, biases = (
            kata.Weights("", each.array[..., part]) for each in (value.scores, value.score_bias)
        )  # fmt: skip
        state.linear(f"value_head.linear_{name}valuehead", scores, slice(scores.array.shape[1]), count, biases)
    state.conv("value_head.conv_ownership", value.ownership)
    state["value_head.conv_seki.weight"] = torch.zeros(4, 6, 1, 1)
    averaged = {f"module.{key}": each for key, each in state.items()} | {"n_averaged": torch.tensor(3)}
    raw = {f"_orig_mod.{key}": torch.zeros_like(each) for key, each in state.items()}
    config = {
        "version": file.version, "norm_kind": "brenorm", "activation": "mish", "gamma_weight_decay_center_1": True,
        "block_kind": [[f"rconv{k}", "regular"] for k in range(len(trunk.blocks))], "mid_num_channels": 5,
        "gpool_num_channels": 3, "transformer_heads": 4, "transformer_kv_heads": 2, "bnorm_epsilon": 1e-4,
    } | config  # fmt: skip
    return {"model": raw, "swa_model": averaged, "config": config, "optimizer": {"state": {}}, "train_state": {"a": 1}}


def _net(kinds=KINDS, **options):
    file = small_net(kinds, **options)
    file.lead, file.trunk.act = 20.0, kata.Activation("act", "ACTIVATION_MISH")
    for block in file.trunk.blocks:
        if isinstance(block, kata.Bottleneck):  # KataGo exports attention with rotations only
            block.blocks[1].rotary, block.blocks[1].theta_name, block.blocks[1].theta = True, "theta", 100.0
    return file


@pytest.mark.parametrize(
    "options",
    [
        {}, {"version": 11}, {"version": 12}, {"version": 15}, {"rms": True}, {"human": True},
        {"kinds": ["learned", "gated"]},
    ],
    ids=str,
)  # fmt: skip
def test_outputs_equal(tmp_path, options):
    file = _net(**options)
    saved = checkpoint(file)
    torch.save(saved, tmp_path / "model.ckpt")
    read = read_network(tmp_path / "model.ckpt")
    assert (read.name, read.version, read.is_human) == ("model", file.version, file.is_human)
    assert sum(each.size for each in trained_arrays(read)) >= file.parameters
    random = torch.Generator().manual_seed(1)
    planes = torch.randint(0, 2, (2, 22, 5, 5), generator=random).float()
    planes[:, 0] = 1
    globals, metadata = torch.randn(2, 19, generator=random), torch.randn(2, 192, generator=random)
    args = (planes, globals, metadata if file.is_human else None)
    with torch.inference_mode():
        for ours, theirs in zip(
            kata_net.KataNet(file).eval()(*args), kata_net.KataNet(read).eval()(*args), strict=True
        ):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    config = saved.pop("config")
    torch.save(saved, tmp_path / "model.ckpt")
    with pytest.raises(FormatError, match=r"there is no model\.config\.json beside it"):
        read_network(tmp_path / "model.ckpt")
    (tmp_path / "model.config.json").write_text(json.dumps(config))
    assert kata_net_bytes(read_network(tmp_path / "model.ckpt")) == kata_net_bytes(read)


def test_fixed_scales(tmp_path):
    """Nets without batch norms have fixed scales by the number of blocks before, and 1 x 1 kernels beside others."""
    file = _net(["residual", "bottleneck", "pooling"])
    saved = checkpoint(file, norm_kind="fixscaleonenorm")
    saved["swa_model"] = {key: each for key, each in saved["swa_model"].items() if "running" not in key}
    beside = "module.blocks.0.normactconv1.conv1x1.weight"
    saved["swa_model"][beside] = torch.ones(5, 6, 1, 1)
    torch.save(saved, tmp_path / "model.ckpt")
    read, root = read_network(tmp_path / "model.ckpt"), np.sqrt(np.float32(2))
    (first, second, third), (_, nested, pooled) = read.trunk.blocks, file.trunk.blocks
    for norm, original, factor in (
        (first.norm1, np.ones(6), 1), (second.norm1, nested.norm1.scale, root),
        (third.norm1, pooled.norm1.scale, np.sqrt(3)), (second.norm2, nested.norm2.scale, 2),
        (read.policy.norm, file.policy.norm.scale, 1), (read.trunk.batch_norm, file.trunk.batch_norm.scale, 2),
    ):  # fmt: skip
        np.testing.assert_allclose(norm.scale, original / factor, rtol=1e-5)
        assert (norm.mean == 0).all()
        assert (norm.variance == 1).all()
    kernels = file.trunk.blocks[0].conv1.weights.copy()
    kernels[1, 1] += 1
    np.testing.assert_allclose(read.trunk.blocks[0].conv1.weights, kernels)


@pytest.mark.parametrize(
    ("config", "weights", "reason"),
    [
        ({"version": 18}, {}, "invalid model configuration: version"),
        ({"norm_kind": "layer"}, {}, "invalid model configuration: norm_kind"),
        ({"activation": "gelu"}, {}, "invalid model configuration: activation"),
        ({"block_kind": [["a", "dilatedbottlenest2"]] * 5}, {}, "unsupported block 'dilatedbottlenest2'"),
        ({"block_kind": [["a", "regular"]] * 4}, {}, "5 blocks, but 4 in the configuration"),
        ({"transformer_heads": 3, "transformer_kv_heads": 3}, {}, "3 key heads cannot be attention"),
        ({}, {"blocks.3.q_norm.weight": (4,)}, "unsupported weight 'blocks.3.q_norm.weight'"),
        ({}, {"linear_global.weight": None}, "missing weight 'linear_global.weight'"),
        ({}, {"linear_global.weight": (6, 18)}, "does not fit the layers around it"),
        ({}, {"linear_global.weight": (6,)}, "must have 2 dimensions, got 1"),
        ({}, {"policy_head.conv2p.weight": (5, 4, 1, 1)}, "the policy head must have 4, 6 or 8 outputs"),
        ({}, {"conv_spatial.weight": (6, 22, 0, 0)}, "height must be 1 to 19, got '0'"),
    ],
)
def test_foreign(tmp_path, config, weights, reason):
    saved = checkpoint(_net(), **config)
    for key, shape in weights.items():
        saved["swa_model"].pop(f"module.{key}", None)
        if shape is not None:
            saved["swa_model"][f"module.{key}"] = torch.zeros(shape)
    _fails(tmp_path / "model.ckpt", saved, reason)


def _fails(path: Path, saved, reason: str) -> None:
    torch.save(saved, path)
    with pytest.raises(FormatError, match=re.escape(reason)) as caught:
        read_network(path)
    assert "\n" not in str(caught.value)


def test_damaged(tmp_path, monkeypatch):
    path = tmp_path / "model.ckpt"
    for saved in ([1], {"model": 3}, {"model": {"a": 1}}, {"model": {1: torch.zeros(1)}}, {"a": 1}):
        _fails(path, saved, "is not a checkpoint of KataGo, or a damaged one")
    huge = torch.zeros(1).expand(1 << 20, 1 << 20)
    _fails(path, checkpoint(_net()) | {"swa_model": {"conv_spatial.weight": huge}}, "is not a checkpoint of KataGo")
    torch.save(checkpoint(_net()), path)
    data = path.read_bytes()
    for end in range(0, len(data), len(data) // 20):
        path.write_bytes(data[:end])
        with pytest.raises(FormatError, match="is not a checkpoint of KataGo"):
            read_network(path)
    with pytest.raises(FormatError, match="cannot read the checkpoint"):
        read_network(tmp_path / "missing.ckpt")
    monkeypatch.setattr("torch.load", lambda *_, **__: pytest.fail("torch reads 1 MiB of such a pickle a second"))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + b"N" * (4 << 20) + b".")
    with pytest.raises(FormatError, match="is not a checkpoint of KataGo"):
        read_network(path)


def test_commands(tmp_path):
    path, out, game = tmp_path / "b5.ckpt", tmp_path / "net.bin.gz", tmp_path / "game.sgf"
    torch.save(checkpoint(_net()), path)
    game.write_bytes(b"(;SZ[9];B[ee];W[cc])")
    described = run("show", path)
    assert described.code == 0, described.err
    assert "b5, network of KataGo, format version 17" in described.out
    assert "5: 1 residual, 1 global pooling, 1 nested bottleneck" in described.out
    assert run("predict", "--net", path, game).code == 0
    done = run("export", path, "-o", out)
    assert (done.code, done.err) == (0, []), done.err
    assert kata_net_bytes(read_kata_net(out)) == kata_net_bytes(read_network(path))
    text = tmp_path / "net.txt.gz"
    assert run("export", out, "-o", text).code == 0
    assert run("export", text, "-o", tmp_path / "again.bin.gz").code == 0
    assert (tmp_path / "again.bin.gz").read_bytes() == out.read_bytes()
    done = run("export", path, "-o", tmp_path / "net.pt")
    assert (done.code, len(done.err)) == (2, 1)
    done = run("export", "small", "-o", tmp_path / "small.bin.gz")
    assert (done.code, len(done.err)) == (2, 1)
