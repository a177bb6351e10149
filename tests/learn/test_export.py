"""Export as ONNX: onnxruntime agrees with torch for every network; metadata and errors."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import kifu
from commands import run
from kifu.datasets.global_inputs import INPUTS
from kifu.errors import OutputError
from kifu.planes.registry import find_plane_set
from lazy import lazy_import
from nets import NET_NAMES, global_values, tiny_net

learn = lazy_import("kifu.learn")
torch = lazy_import("torch")


onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

GAMES = {
    size: kifu.read_sgf(f"(;SZ[{size}];B[bb];W[cc];B[bc];W[cb];B[dd];W[ba];B[cd];W[ab])".encode()) for size in (5, 7)
}


def session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("name", "planes", "passes", "heads", "inputs"),
    [
        pytest.param("b3c8", "seven", True, ("value", "ownership"), None, marks=pytest.mark.slow),  # a block that pools
        pytest.param("clark-storkey", "clark8", False, (), None, marks=pytest.mark.slow),  # a rim
        pytest.param("b1c8", "clark8", False, ("ownership",), None, marks=pytest.mark.slow),
        ("b1c8", "seven", False, ("value",), tuple(INPUTS)),
        # An output for each colour:
        pytest.param("maddison", "black+white+empty", True, ("value", "ownership"), None, marks=pytest.mark.slow),
        *(pytest.param(name, "seven", False, (), None, marks=pytest.mark.slow) for name in NET_NAMES[:-1]),
    ],
)
def test_onnxruntime_agrees_with_torch(
    tmp_path: Path, name: str, planes: str, passes: bool, heads: tuple[str, ...], inputs: tuple[str, ...] | None
) -> None:
    path = tmp_path / "net.safetensors"
    net = learn.net.open_net(tiny_net(path, name, planes, 5, passes=passes, heads=heads, inputs=inputs))
    out = tmp_path / "net.onnx"
    exported = learn.export.export_onnx(net, out)
    onnx.checker.check_model(out)
    assert exported.outputs == ("policy", *heads)
    assert exported.bytes == out.stat().st_size
    asked = session(out)
    assert [each.name for each in asked.get_inputs()] == ["planes", *["globals"] * bool(net.about.inputs)]
    assert [each.name for each in asked.get_outputs()] == ["policy", *heads]
    for size, played in GAMES.items() if net.module.any_size else [(5, GAMES[5])]:
        drawn = kifu.encode(played, planes)[0].astype(np.float32)
        for batch in (drawn, drawn[:1]):
            inputs = {"planes": batch}
            if net.about.inputs:
                inputs["globals"] = global_values(net.module, len(batch)).numpy()
            with torch.inference_mode():
                reported = [x.numpy() for x in net.module(*map(torch.from_numpy, inputs.values())) if x is not None]
            found = asked.run(None, inputs)
            assert found[0].shape == (len(batch), size * size + passes)
            assert len(found) == len(reported)
            for ours, its in zip(reported, found):
                np.testing.assert_allclose(its, ours, rtol=1e-4, atol=1e-4)
        if len(batch) > 1:
            assert np.ptp(found[0], axis=0).max() > 1e-3  # the outputs vary


def test_metadata(tmp_path: Path) -> None:
    path = tiny_net(tmp_path / "net.safetensors", "blog", "one-plane", 5, passes=True)
    out = tmp_path / "net.onnx"
    assert run("export", path, "-o", out, "--dry-run").out.startswith(f"reads:\n  {path}\nwrites:\n  {out}\n")
    assert not out.exists()
    done = run("export", path, "-o", out)
    assert (done.code, done.err) == (0, [])
    assert done.out.startswith(f"{out}: ")
    metadata = {
        "kifu": kifu.__version__,
        "net": "blog",
        "planes": "one-plane@1",
        "plane_names": '["own stones 1, opponent\'s stones -1"]',
        "board": "5x5",
        "any_board": "false",
        "rim": "0",
        "passes": "true",
        "inputs": "[]",
    }
    assert session(out).get_modelmeta().custom_metadata_map == metadata
    data = out.read_bytes()
    assert b"site-packages" not in data
    assert b".py" not in data
    learn.export.export_onnx(learn.net.open_net(path), out)
    assert out.read_bytes() == data
    rimmed = learn.export._metadata(learn.net.open_net(tiny_net(path, planes="clark8", size=7)))
    assert rimmed == metadata | {
        "net": "b1c8",
        "planes": "clark8@1",
        "plane_names": json.dumps(find_plane_set("clark8").plane_names),
        "board": "7x7",
        "any_board": "true",
        "rim": "1",
        "passes": "false",
    }


@pytest.fixture
def converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A net that every export writes."""
    path = tiny_net(tmp_path / "one.safetensors", "blog", size=5, seed=1)
    made = learn.export._convert(learn.net.open_net(path))
    monkeypatch.setattr(learn.export, "_convert", lambda net: made)
    return path


@pytest.mark.slow
def test_failed_exports_leave_no_file(converted: Path, tmp_path: Path) -> None:
    """An export that differs from the net, and one that cannot be written."""
    other = learn.net.open_net(tiny_net(tmp_path / "other.safetensors", "blog", size=5, seed=0))
    with pytest.raises(
        OutputError, match="policy of the exported net other differs from the original; nothing written"
    ):
        learn.export.export_onnx(other, tmp_path / "net.onnx")
    with pytest.raises(OutputError, match=r"cannot write .*x\.onnx: Not a directory"):
        learn.export.export_onnx(learn.net.open_net(converted), converted / "x.onnx")
    assert not list(tmp_path.glob("*.onnx*"))


def test_a_net_that_torch_cannot_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise torch.onnx.OnnxExporterError("no operator\nfor this net")

    monkeypatch.setattr(torch.onnx, "export", fail)
    with pytest.raises(OutputError, match=r"^torch cannot export net net \(b1c8\) as ONNX: no operator$"):
        learn.export.export_onnx(
            learn.net.open_net(tiny_net(tmp_path / "net.safetensors", size=5)), tmp_path / "net.onnx"
        )
    assert not (tmp_path / "net.onnx").exists()


@pytest.mark.parametrize("name", ["onnx", "onnxscript", "onnxruntime"])
def test_without_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    done = run("export", tiny_net(tmp_path / "net.safetensors", size=5), "-o", tmp_path / "net.onnx")
    assert (done.code, done.out) == (2, "")
    assert done.err == [f"kifu: {name} is required: pip install 'kifu[onnx]'"]


def test_a_missing_net(tmp_path: Path) -> None:
    done = run("export", tmp_path / "none.safetensors", "-o", tmp_path / "net.onnx")
    assert (done.code, done.out, len(done.err)) == (2, "", 1)
    assert "cannot read the net" in done.err[0]
