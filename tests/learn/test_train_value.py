"""The value head learns together with the policy, with any optimizer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from commands import run
from kata_nets import small_net
from kifu.errors import FormatError, RecipeError
from kifu.katago.net_file import parse_structure, read_kata_net, structure_text, write_kata_net
from kifu.katago.new_net import new_kata_net
from kifu.learn.scores import value_error
from kifu.recipes.training import AdamWConfig, MuonConfig
from lazy import lazy_import
from runs import SAMPLE, tiny

functional = lazy_import("torch.nn.functional")
learn = lazy_import("kifu.learn")
torch = lazy_import("torch")


@pytest.mark.parametrize(
    "config", [MuonConfig(kind="muon", lr=0.01), AdamWConfig(kind="adamw", lr=0.003)], ids=["muon", "adamw"]
)
@pytest.mark.parametrize("name", ["b1c8", pytest.param("book-small", marks=pytest.mark.slow)])
def test_the_side_with_more_stones_is_learned(name, config):
    """Without a batch norm in the head its hidden units died in the first steps, and the value stayed 0."""
    torch.manual_seed(0)
    net = learn.registry.make_net(name, 2, 7, 7, heads=("value",))
    optimizer = learn.optim.make_optimizer(net, config)
    errors = []
    for _ in range(120):
        first = torch.rand(64, 7, 7) < torch.rand(64, 1, 1)
        planes = torch.stack((first, ~first), 1).float()  # own stones and the opponent's on all points
        truth = torch.where(first.sum((1, 2)) > 24, 1.0, -1.0)
        moves = first.flatten(1).float().argmax(1)
        answers = net(planes)
        error = functional.mse_loss(answers.value, truth)
        (error * 0.1 + functional.cross_entropy(answers.policy, moves)).backward()
        optimizer.step()
        optimizer.zero_grad()
        errors.append(error.item())
    assert sum(errors[-20:]) / 20 < 0.5


@pytest.mark.slow
def test_the_side_that_komi_favours_is_learned_from_global_inputs():
    """Stones tell nothing here: without inputs the value is biased for either colour."""
    biases, errors = {}, {}
    for inputs in ((), ("colour", "komi")):
        torch.manual_seed(0)
        net = learn.registry.make_net("b1c8", 2, 7, 7, heads=("value",), inputs=inputs)
        optimizer = learn.optim.make_optimizer(net, MuonConfig(kind="muon", lr=0.01))
        for size in [256] * 100 + [4096]:
            colour = torch.where(torch.arange(size) % 2 == 0, 1.0, -1.0)
            komi = torch.where(torch.rand(size) < 0.3, 1.0, -1.0)  # for Black, more often a loss
            truth, globals_ = komi * colour, torch.stack((colour, torch.ones(size), komi * colour), 1)
            if size > 256:
                net.eval()
            value = net((torch.rand(size, 2, 7, 7) < 0.3).float(), globals_ if inputs else None).value
            functional.mse_loss(value, truth).backward()
            optimizer.step()
            optimizer.zero_grad()
        found = value_error(
            value.detach().numpy(), truth.to(torch.int8).numpy(), colour.numpy() < 0, np.arange(size), 0
        )
        errors[inputs], biases[inputs] = found.squared.value, (found.bias_black.value, found.bias_white.value)
    assert errors["colour", "komi"] < 0.1
    assert all(abs(bias) < 0.05 for bias in biases["colour", "komi"])
    assert errors[()] > 0.8
    black, white = biases[()]
    assert black > 0.1
    assert white < -0.1


KATA = {
    "net": "kata-b3c12", "planes": "katago22", "heads": {"value": 0.5, "ownership": 0.5, "score": 0.1},
    "targets": ["targets.parquet"], "positions": {"passes": True}, "batch_size": 16, "validation_positions": 64,
    "steps": 3,
}  # fmt: skip


def module_of(**changes):
    return learn.loss.make_policy_module(tiny(**{**KATA, **changes})).network.eval()


def outputs(network, points=49):
    size = int(points**0.5)
    planes = (torch.rand(4, 22, size, size, generator=torch.Generator().manual_seed(1)) < 0.3).float()
    planes[:, 0] = 1
    globals_ = torch.randn(4, 19 + 192, generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        return network(planes, globals_[:, : network.config.global_size])


@pytest.mark.parametrize("kind", ["", "nbt", "tf"])
@pytest.mark.parametrize("human", [False, True])
def test_new_nets(tmp_path, kind, human):
    """A new net survives its file, and its structure its text; before training all moves are equal."""
    file = new_kata_net(4, 12, kind, human, np.random.default_rng(1))
    write_kata_net(tmp_path / "net.bin.gz", file)
    text = structure_text(file)
    assert structure_text(read_kata_net(tmp_path / "net.bin.gz")) == text == structure_text(parse_structure(text))
    assert structure_text(new_kata_net(4, 12, kind, human)) == text
    assert parse_structure(text).parameters == file.parameters
    network = module_of(net=f"kata-b4c12{kind}", inputs=["profile"] if human else [])
    policy, value, ownership, score, _ = outputs(network)
    assert policy.shape == (4, 50)
    assert not any(each.any() for each in (policy, value, ownership, score[:, 0]))


def test_the_board_of_the_profile_is_that_of_the_planes():
    network = module_of(inputs=["profile"])
    torch.nn.init.ones_(network.net.encoder[-1].weight)
    torch.nn.init.normal_(network.net.policy.points.weight)
    planes, globals_ = torch.ones(1, 22, 9, 9), torch.rand(1, 19 + 192)
    other = globals_.clone()
    other[:, 19 + 86] += 1
    assert torch.equal(network(planes, globals_).policy, network(planes, other).policy)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"planes": "seven"}, "requires the planes katago22@1"),
        ({"positions": {"passes": False}, "heads": {}, "targets": []}, "positions.passes must be true"),
        ({"inputs": ["komi"]}, "takes the input 'profile' or 'metadata', got komi"),
        ({"net": "katago"}, "which init_from must name"),
        ({"init_from": "net.bin.gz"}, "requires net = 'katago'"),
        ({"net": "kata-b99c1024"}, "too large or too small"),
        ({"net": "blog", "planes": "one-plane"}, "no head 'score'"),
        (
            {"net": "katago", "init_from": "old.bin.gz", "heads": {"next": 0.1}, "targets": []},
            "of version 12 or later, got 8",
        ),
        ({"net": "katago", "init_from": "old.bin.gz", "inputs": ["profile"]}, "set new_heads = true"),
        ({"net": "katago", "init_from": "human.bin.gz"}, r"must be \['profile'\] or \['metadata'\], got \[\]"),
    ],
)  # fmt: skip
def test_refused(tmp_path, monkeypatch, changes, words):
    monkeypatch.chdir(tmp_path)
    write_kata_net(Path("old.bin.gz"), small_net(["residual"], 8))
    write_kata_net(Path("human.bin.gz"), small_net(["residual"], human=True))
    with pytest.raises(RecipeError, match=words):
        module_of(**changes)


@pytest.mark.parametrize("version", [8, 17])
def test_starts_from_a_file(tmp_path, version):
    path = tmp_path / "net.bin.gz"
    write_kata_net(path, small_net(["residual", "pooling"], version))
    start = {"net": "katago", "init_from": str(path)}
    original = learn.torch_net.kata_net(read_kata_net(path)).module
    expected = outputs(original)[:4]
    whole = module_of(**start)
    assert all(map(torch.equal, outputs(whole), expected))
    renewed = module_of(**start, new_heads=True, inputs=["profile"])
    trunk = [name for name in original.state_dict() if name.startswith(("net.conv", "net.blocks", "net.globals"))]
    assert all(torch.equal(original.state_dict()[name], renewed.state_dict()[name]) for name in trunk)
    assert not outputs(renewed).policy.any()
    if version == 17:
        assert all(map(torch.equal, outputs(module_of(**start, inputs=["profile"])), expected))


@pytest.mark.slow
def test_train_and_export(tmp_path):
    changes = KATA | {"heads": {"value": 0.5, "next": 0.15}, "targets": []}
    learn.train.train(tiny(**changes, inputs=["profile"]), [SAMPLE], tmp_path / "run")
    row = learn.run_dir.read_metrics(tmp_path / "run" / "metrics.csv")[-1]
    assert "validation_value" in row
    assert run("export", tmp_path / "run", "-o", tmp_path / "net.bin.gz").code == 0
    assert run("predict", "--net", tmp_path / "run", SAMPLE, "--game", "5", "--move", "30", "--rank", "5k").code == 0
    network = learn.net.open_net(tmp_path / "run").module
    assert network.net.policy.points.weight[1].any()  # the second policy was learned
    again = learn.torch_net.kata_net(read_kata_net(tmp_path / "net.bin.gz")).module
    for ours, other in zip(outputs(network)[:2], outputs(again)[:2], strict=True):
        assert torch.allclose(ours, other, atol=1e-6)
    next_ = module_of(init_from=str(tmp_path / "run"), inputs=["profile"])
    with pytest.raises(RecipeError, match="which init_from must name"):
        module_of(net="katago", init_from=str(tmp_path / "run"), inputs=["profile"])
    assert all(map(torch.equal, outputs(next_)[:2], outputs(network)[:2]))
    net = learn.net.open_net(tmp_path / "run")
    for text in ("", net.about.structure[:400], net.about.structure.replace(" 12 ", " 13 ") + "1"):
        about = net.about.model_copy(update={"structure": text})
        learn.torch_net.save_net(tmp_path / "bad.safetensors", net.module, about, net.games)
        with pytest.raises(FormatError):
            learn.net.open_net(tmp_path / "bad.safetensors")
