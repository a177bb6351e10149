"""Networks of one's own: classes named by recipes and commands, and never imported for a file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kifu
from commands import KIFU, run
from kifu.errors import FormatError, KifuError, OutputError, RecipeError
from kifu.play.referee import parse_command
from lazy import lazy_import
from runs import SAMPLE, assert_same_weights, figures_of, interrupted, tiny

learn = lazy_import("kifu.learn")
torch = lazy_import("torch")

ROOT = Path(__file__).parents[2]
TEMPLATE = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "own-networks.md").read_text("utf-8"), re.DOTALL)[0]
NAME = "my_module:MyNet"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, with the template of the documentation as a module that nothing has imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "my_module.py").write_text(TEMPLATE)
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    sys.modules.pop("my_module", None)


def write(text: str) -> None:
    forget()
    Path("my_module.py").write_text(text)


def save(path: Path, name: str = NAME) -> Path:
    """Write a net's file whose metadata name a class, and whose weights are those of the template."""
    learn.registry.import_net(NAME)
    module = learn.registry.make_net(NAME, 7, 9, 9)
    about = learn.net_format.NetMetadata(net=name, planes="seven@1", width=9, height=9)
    learn.torch_net.save_net(path, module, about, np.empty(0, np.uint64))
    forget()
    return path


# Training and use


@pytest.mark.slow
def test_a_class_is_trained_resumed_and_opened(folder: Path) -> None:
    path = list(sys.path)
    recipe = tiny(
        net=NAME, planes="clark8", heads={"value": 0.1, "ownership": 0.1}, inputs=["colour", "komi"], steps=4,
        positions={"passes": True, "per_game": 2}, games=50,
    )  # fmt: skip
    learn.train.train(recipe, SAMPLE, folder / "whole")
    forget()
    with interrupted(2):
        learn.train.train(recipe, SAMPLE, folder / "parts")
    forget()
    learn.train.train(recipe, SAMPLE, folder / "parts", resume=True)
    assert figures_of(folder / "parts") == figures_of(folder / "whole")
    assert_same_weights(folder / "parts" / "final.safetensors", folder / "whole" / "final.safetensors")
    assert sys.path == path
    assert learn.net.open_net("whole").about.net == NAME  # the program has imported the module
    forget()
    with pytest.raises(FormatError, match="module my_module is not imported; import it, or open the net as PATH@my_"):
        learn.net.open_net("whole")
    net = learn.net.open_net(f"whole@{NAME}")
    assert (net.name, type(net.module).__name__) == ("whole", "MyNet")


def test_commands_take_a_path_with_a_class(folder: Path) -> None:
    save(folder / "net.safetensors")
    plain, named = "net.safetensors", f"net.safetensors@{NAME}"
    game = Path("game.sgf")
    game.write_text("(;SZ[9];B[ee];W[cc])")
    done = run("predict", "--net", plain, game)
    assert (done.code, len(done.err)) == (2, 1)
    assert "is not imported" in done.err[0]
    done = run("predict", "--net", named, game)
    assert (done.code, done.err) == (0, [])
    forget()
    assert run("export", named, "-o", "net.onnx", "--dry-run").code == 0
    forget()
    assert run("evaluate", "--net", named, game, "--overlap", "keep").code == 0
    assert parse_command(named)[1:] == ["-P", "-m", "kifu", "gtp", "--net", named, "--rules", "chinese"]
    done = run("predict", "--net", "net.safetensors@my_module:Other", game)
    assert done.err == ["kifu: net 'my_module:Other': module my_module has no class 'Other'"]


def test_a_class_may_have_moved(folder: Path) -> None:
    save(folder / "net.safetensors", "old_module:OldNet")
    net = learn.net.open_net(f"net.safetensors@{NAME}")
    assert net.about.net == NAME
    with pytest.raises(FormatError, match=f"unexpected weight .* for {NAME}"):
        learn.net.open_net(f"small@{NAME}")


def test_an_existing_path_may_contain_a_class_name(folder: Path) -> None:
    path = folder / f"net@{NAME}"
    save(path)
    learn.registry.import_net(NAME)
    assert learn.net.open_net(path).about.net == NAME
    assert learn.split_class(f"net@{NAME}") == (f"net@{NAME}", None)
    assert learn.split_class(f"other@{NAME}") == ("other", NAME)
    assert learn.split_class("other@home") == ("other@home", None)


def test_the_layers_of_a_class_are_listed(folder: Path) -> None:
    done = run("list", "nets", NAME, "--planes", "clark8", "--board", "9x9")
    assert done.code == 0
    assert "| stem | Conv2d | 32 x 9 x 9 | 2,336 | 373,248 |" in done.out
    write(
        TEMPLATE.replace(
            "self.conv =",
            "self.scale = nn.Parameter(torch.ones(()))\n"
            "        self.mix = nn.MultiheadAttention(self.width, 2, batch_first=True)\n"
            "        self.conv =",
        ).replace(
            "x = self.stem(planes)",
            "x = self.stem(planes) * self.scale\n"
            "        x = self.mix(*[x.flatten(2).mT] * 3)[0].mT.unflatten(2, x.shape[2:])",
        )
    )
    learn.registry.import_net(NAME)
    count = learn.registry.count_net(NAME, "seven", 9, 9)
    assert sum(flops for *_, flops in count.layers) == count.flops
    assert {kind: parameters for _, kind, _, parameters, _ in count.layers} == {
        "Conv2d": 33, "MultiheadAttention": 3 * 32 * 33, "MyNet": 1,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.subprocess
def test_each_process_imports_the_class(folder: Path) -> None:
    changes = ("net=my_module:MyNet", "steps=2", "games=20", "batch_size=16", "validation_positions=20")
    sets = [word for change in changes for word in ("--set", change)]
    done = subprocess.run(
        [KIFU, "train", "quick-cpu", SAMPLE, "-o", "run", "--devices", "2", "--accelerator", "cpu", *sets],
        capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    manifest = learn.run_dir.read_run(folder / "run")
    assert (manifest.steps, manifest.machine["processes"]) == (2, 2)
    assert learn.net.open_net(f"run@{NAME}").about.net == NAME


@pytest.mark.slow
def test_a_network_that_fixes_the_batch_is_not_exported(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    write(TEMPLATE.replace("x = self.stem(planes)", "x = self.stem(planes) + torch.zeros(len(planes), 1, 1, 1)"))
    save(folder / "net.safetensors")
    with pytest.raises(OutputError) as caught:
        learn.export.export_onnx(learn.net.open_net(f"net.safetensors@{NAME}"), folder / "net.onnx")
    assert str(caught.value).isprintable()
    assert not Path("net.onnx").exists()


# Files import nothing


def test_no_file_imports_a_module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(folder / "net.safetensors")
    write("from pathlib import Path\nPath('imported').touch()\n" + TEMPLATE)
    monkeypatch.syspath_prepend(folder)
    Path("game.sgf").write_text("(;SZ[9];B[ee])")
    done = run("show", "net.safetensors")
    assert done.code == 0
    assert "11,329 with buffers; class not imported" in done.out
    for command in (
        ("predict", "--net", "net.safetensors", "game.sgf"),
        ("evaluate", "--net", "net.safetensors", "game.sgf"),
        ("gtp", "--net", "net.safetensors"),
        ("export", "net.safetensors", "-o", "net.onnx"),
    ):
        assert run(*command).code == 2
    with pytest.raises(KifuError):
        learn.registry.make_net(NAME, 7)
    assert not Path("imported").exists()
    assert "my_module" not in sys.modules
    learn.net.open_net(f"net.safetensors@{NAME}")
    assert Path("imported").exists()


@pytest.mark.parametrize("name", ["os:system", "kifu:Board", "a:b:c", ":", "sys:", "kifu.learn.networks:Network"])
def test_a_file_names_no_class_of_a_network(name: str, folder: Path) -> None:
    save(folder / "net.safetensors", name)
    with pytest.raises(FormatError) as caught:
        learn.net.open_net("net.safetensors")
    assert str(caught.value).startswith("net.safetensors: net ")
    forget()


# One-line errors

BAD = {
    "no module 'my_module' in the working directory or on Python's path": None,
    r"my_module: ModuleNotFoundError: No module named 'nowhere' \(.*my_module.py, line 2\)": "\nimport nowhere",
    r"cannot import my_module: ZeroDivisionError: division by zero \(.*my_module.py, line 3\)": "\n\n1 / 0",
    r"cannot import my_module: SyntaxError: .*\(my_module.py, line 1\)": "def",
    "cannot import my_module: SystemExit: 3": "raise SystemExit(3)",
    "module my_module has no class 'MyNet'": "",
    "MyNet is not a subclass of kifu.learn.networks.Network": "class MyNet: pass",
    "MyNet must declare any_size = True or any_size = False": ("    any_size = True\n", ""),
    "cannot be created: TypeError: .*__init__.* missing 1 required": ("config: NetworkConfig)", "config, width)"),
    r"cannot be created: KeyError: 'depth' \(.*my_module.py, line 18\)": ("self.width, 3", "{}['depth'], 3"),
    r"cannot be created: AttributeError: cannot assign module before .* line 18\)": ("super()", "(lambda channels: 0)"),
    "policy of two positions with 81 points must have shape .2, 81., got .2, 162.": ("width, 1, 1)", "width, 2, 1)"),
    "policy of two positions with 81 points must have shape .2, 81., got None": ("return points", "return None"),
    r"cannot evaluate positions of 9 x 9: RuntimeError: .*line 28\)": ("self.width, self.width, 3", "4, 8, 3"),
    r"cannot evaluate positions of 7 x 5: RuntimeError: .*line 28\)": (
        "torch.relu(self.conv", "torch.ones(9, 9) * torch.relu(self.conv",
    ),
    "must return a NetworkOutput, got Tensor": (
        "def policy",
        "def forward(self, planes, globals):\n        return planes\n\n    def policy",
    ),
    "policy is NaN or infinite": ("return points\n", "return points / 0\n"),
    "net my_module:MyNet takes planes only, but inputs are komi": ("takes_inputs = True", "takes_inputs = False"),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD)
def test_errors_name_the_class_and_the_line(message: str, folder: Path) -> None:
    change = BAD[message]
    if change is None:
        Path("my_module.py").unlink()
    elif isinstance(change, str):
        write(change)
    else:
        assert change[0] in TEMPLATE
        write(TEMPLATE.replace(change[0], change[1], 1))
    path = list(sys.path)
    with pytest.raises(RecipeError, match=message) as caught:
        learn.loss.make_policy_module(tiny(net=NAME, planes="seven", board="9x9", inputs=["komi"]))
    assert str(caught.value).isprintable()
    assert sys.path == path
    if "inputs" not in message:
        assert NAME in str(caught.value)


@pytest.mark.parametrize("name", ["my_module:", ":MyNet", "my-module:MyNet", "my_module:MyNet()", "../my_module:MyNet"])
def test_malformed_names_are_rejected(name: str, folder: Path) -> None:
    done = run("list", "nets", name)
    assert done.code == 2
    assert done.err == [f"kifu: net {name!r} must be a module and a class, such as my_module:MyNet"]
    assert "my_module" not in sys.modules


# The example

TRANSFORMER = "point_transformer:PointTransformer"


@pytest.fixture
def transformer(monkeypatch: pytest.MonkeyPatch) -> learn.networks.Network:
    monkeypatch.syspath_prepend(ROOT / "examples")
    learn.registry.import_net(TRANSFORMER)
    torch.manual_seed(0)
    return learn.registry.make_net(
        TRANSFORMER, 8, 9, 9, rim=1, passes=True, heads=("value", "ownership"), inputs=("colour", "komi")
    ).eval()  # fmt: skip


def test_the_transformer_sees_positions_and_global_inputs(transformer: learn.networks.Network) -> None:
    planes, unknown = torch.rand(2, 8, 11, 11), torch.zeros(2, transformer.config.global_size)
    output = transformer(planes, unknown)
    one, other = transformer(planes[:1], unknown[:1]), transformer(planes[1:], unknown[1:])
    assert torch.allclose(output.policy, torch.cat((one.policy, other.policy)), atol=1e-5)
    assert not torch.allclose(transformer(planes, unknown + 1).policy, output.policy, atol=1e-3)
    far = planes.clone()
    far[:, :, 10, 10] += 1  # attention reaches from corner to corner
    assert (transformer(far, unknown).policy - output.policy)[:, 0].abs().min() > 1e-6
    assert not torch.allclose(transformer(planes.mT, unknown).policy[:, 0], output.policy[:, 0], atol=1e-4)


def test_attention_of_the_transformer_depends_on_offsets(transformer: learn.networks.Network) -> None:
    module = sys.modules[type(transformer).__module__]
    angles = module.position_angles(5, 7, torch.device("cpu"))
    q, k = torch.rand(2, 1, 1, 1, module.HEAD)
    scores = module.rotate(q.expand(1, 1, 36, -1), angles) @ module.rotate(k.expand(1, 1, 36, -1), angles).mT
    scores = scores[0, 0, 1:, 1:].unflatten(1, (5, 7)).unflatten(0, (5, 7))  # [y, x, y', x']
    for y, x in ((0, 0), (2, 3), (1, 0)):
        values = torch.stack([scores[j, i, j + y, i + x] for j in range(5 - y) for i in range(7 - x)])
        assert torch.allclose(values, values[0], atol=1e-4)
        assert not torch.allclose(scores[y, x, 0, 0], values[0], atol=1e-4) or (y, x) == (0, 0)


@pytest.mark.slow
def test_the_transformer_is_exported_for_all_boards(transformer: learn.networks.Network, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    about = learn.net_format.NetMetadata(
        net=TRANSFORMER, planes="clark8@1", width=9, height=9, passes=True, heads=("value", "ownership"),
        inputs=("colour", "komi"),
    )  # fmt: skip
    net = learn.torch_net.net_of(transformer, about, np.empty(0, np.uint64), "transformer")
    report = learn.export.export_onnx(net, tmp_path / "net.onnx")
    assert (report.board, report.outputs) == ("boards of any size", ("policy", "value", "ownership"))
    assert report.difference < 1e-4


def test_the_recipe_of_the_transformer_differs_from_quick_cpu_in_the_network(
    transformer: learn.networks.Network,
) -> None:
    own = kifu.load_recipe(ROOT / "examples" / "point-transformer.toml").to_dict()
    other = kifu.load_recipe("quick-cpu").to_dict()
    assert {key for key in own if own[key] != other[key]} == {"name", "title", "net"}
    assert own["net"] == TRANSFORMER


def test_the_transformer_memorizes_moves(transformer: learn.networks.Network) -> None:
    torch.manual_seed(0)
    net = learn.registry.make_net(TRANSFORMER, 2, 5, 5)
    planes, moves = torch.rand(16, 2, 5, 5), torch.arange(16)
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    losses = []
    for _ in range(30):
        loss = torch.nn.functional.cross_entropy(net(planes).policy, moves)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert all(float(value.grad.abs().max()) > 0 for value in net.parameters())
    assert losses[-1] < losses[0] / 3
