"""Export as ONNX: onnxruntime agrees with torch for every network; metadata and errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3

import kifu
from commands import is_error, run
from kata_nets import BLOCKS, small_net
from kifu.datasets.global_inputs import INPUTS
from kifu.errors import FormatError, OutputError
from kifu.io import hash_file
from kifu.katago import net_onnx
from kifu.katago.net_file import KataNetFile, write_kata_net
from kifu.learn import PACKAGED
from kifu.learn.positions import NetPositions
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "planes", "passes", "heads", "inputs"),
    [
        ("b3c8", "seven", True, ("value", "ownership"), None),  # a block that pools
        ("clark-storkey", "clark8", False, (), None),  # a rim
        ("b1c8", "clark8", False, ("ownership",), None),
        ("b1c8", "seven", False, ("value", "score"), tuple(INPUTS)),
        # An output for each colour:
        ("maddison", "black+white+empty", True, ("value", "ownership"), None),
        *((name, "seven", False, (), None) for name in NET_NAMES[:-1]),
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


@pytest.mark.slow
def test_a_net_of_half_the_size(tmp_path: Path) -> None:
    """Its matrices have 16 bits, in ONNX, too, and it has no head that only training uses."""
    heads = ("value", "ownership", "score", "next")
    path = tiny_net(tmp_path / "net.safetensors", "b3c32", passes=True, heads=heads, inputs=tuple(INPUTS), games=[7, 3])
    half, out = tmp_path / "half.safetensors", tmp_path / "half.onnx"
    done = run("export", path, "-o", half)
    assert (done.code, len(done.out.splitlines())) == (0, 1)
    net, small = map(learn.net.open_net, (path, half))
    assert small.about.heads == heads[:3]
    assert small.games.tolist() == [3, 7]
    assert half.stat().st_size < 0.6 * path.stat().st_size
    weights = small.module.state_dict()
    for name, value in net.module.state_dict().items():
        if not name.startswith("next."):
            assert torch.equal(weights[name], value.half().float() if value.ndim > 1 else value), name
    found, expected = (learn.net.open_net(each).evaluate(positions(), unverified=True) for each in (half, path))
    assert np.abs(found.policy - expected.policy).max() < 1e-2
    assert run("export", half, "-o", out).code == 0
    assert onnx.TensorProto.FLOAT16 in {each.data_type for each in onnx.load(out).graph.initializer}
    assert out.stat().st_size < 0.8 * learn.export.export_onnx(net, tmp_path / "net.onnx").bytes
    exported = learn.net.open_net(out).evaluate(positions(), unverified=True)
    np.testing.assert_allclose(exported.score, found.score, atol=1e-4)
    next(value for value in net.module.parameters() if value.ndim > 1).data *= 1e6
    path.write_bytes(learn.torch_net.net_bytes(net.module, net.about, net.games))
    is_error(run("export", path, "-o", tmp_path / "none.safetensors"), "cannot hold net net", "65,504")
    assert not (tmp_path / "none.safetensors").exists()


@pytest.mark.slow
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
    net = learn.net.open_net(path)
    stored = session(out).get_modelmeta().custom_metadata_map
    assert stored.pop("weights") == hash_file(path)
    assert stored.pop("kifu-blake3") == blake3(out.read_bytes()[:-81]).hexdigest()
    assert learn.net_format.NetMetadata.model_validate_json(stored["kifu-net"]) == net.about
    assert stored == metadata | {"kifu-net": stored["kifu-net"], "parameters": str(net.parameters), "games": ""}
    data = out.read_bytes()
    assert b"site-packages" not in data
    assert b".py" not in data
    learn.export.export_onnx(net, out, path)
    assert out.read_bytes() == data
    rimmed = learn.export._metadata(learn.net.open_net(tiny_net(path, planes="clark8", size=7)))
    for name in ("kifu-net", "parameters", "games"):
        rimmed.pop(name)
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
    path = tiny_net(tmp_path / "one.safetensors", "blog", size=5, seed=1)
    convert, made = learn.export._convert, []

    def convert_once(graph: learn.export._Graph) -> object:
        made.extend([] if made else [convert(graph)])
        return made[0]

    monkeypatch.setattr(learn.export, "_convert", convert_once)
    learn.export.export_onnx(learn.net.open_net(path), tmp_path / "one.bin")
    return path


@pytest.mark.slow
def test_failed_exports_leave_no_file(converted: Path, tmp_path: Path) -> None:
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

    monkeypatch.setattr("torch.onnx.export", fail)
    with pytest.raises(OutputError, match=r"^torch cannot export net net as ONNX: no operator$"):
        learn.export.export_onnx(
            learn.net.open_net(tiny_net(tmp_path / "net.safetensors", size=5)), tmp_path / "net.onnx"
        )
    assert not (tmp_path / "net.onnx").exists()


@pytest.mark.parametrize("name", ["onnx", "onnxscript"])
def test_without_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    done = run("export", tiny_net(tmp_path / "net.safetensors", size=5), "-o", tmp_path / "net.onnx")
    assert (done.code, done.out) == (2, "")
    assert done.err == [f"kifu: {name} is required: pip install 'kifu[learn]'"]


def test_a_missing_net(tmp_path: Path) -> None:
    is_error(run("export", tmp_path / "none.safetensors", "-o", tmp_path / "net.onnx"), "cannot read the net")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tiny_net(
        tmp_path_factory.mktemp("nets") / "net.safetensors", passes=True, heads=("value", "ownership"),
        inputs=tuple(INPUTS), games=[7, 3],
    )  # fmt: skip
    learn.export.export_run(path)
    return path


def positions(count: int = 60) -> learn.positions.NetPositions:
    game = kifu.read_sgf(b"(;SZ[9]KM[6.5]BR[3d];B[ee];W[cc];B[gc];W[cg];B[gg];W[ce];B[dd];W[cd])")
    return learn.positions.NetPositions.from_games([game] * count, [k % (len(game) + 1) for k in range(count)])


@pytest.mark.thorough
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", PACKAGED)
def test_packaged_nets_equal_torch_on_10_000_positions(name: str) -> None:
    games = [game for game in kifu.read(kifu.sample_path()) if game.width == game.height == 19]
    plies = [(game, ply) for game in games for ply in range(len(game))][::5][:10_000]
    each = NetPositions.from_games(*map(list, zip(*plies)))
    assert len(each) == 10_000
    fast, net = learn.net.open_net(name), learn.torch_net.read_net(learn.net.net_file(name), name)
    assert fast.session is not None
    ours, its = (one.evaluate(each, unverified=True) for one in (fast, net))
    for output in ("policy", "value", "ownership", "score"):
        if (values := getattr(its, output)) is not None:
            np.testing.assert_allclose(getattr(ours, output), values, atol=1e-5)


@pytest.mark.parametrize("symmetries", [False, True])
@pytest.mark.parametrize("legal", [False, True])
def test_nets_are_evaluated_by_onnxruntime(exported: Path, symmetries: bool, legal: bool) -> None:
    fast, net = learn.net.open_net(exported), learn.torch_net.read_net(exported, "net")
    assert fast.session is not None
    assert (fast.about, fast.name, fast.any_size, fast.parameters) == (net.about, "net", True, net.parameters)
    assert fast.games.tolist() == net.games.tolist() == [3, 7]
    ours, its = (
        each.using(symmetries=symmetries).evaluate(positions(), legal=legal, unverified=True) for each in (fast, net)
    )
    assert np.ptp(its.policy, axis=0).max() > 1e-4
    for name in ("policy", "value", "ownership"):
        np.testing.assert_allclose(getattr(ours, name), getattr(its, name), atol=1e-5)
    assert np.array_equal(ours.legal, its.legal)


def test_positions_without_a_legal_move_have_no_probabilities() -> None:
    backend = learn.backends.OnnxBackend
    logits = np.array([[1, 2, 3], [1, 2, 3]], np.float32)
    log_probs = backend.log_softmax(logits, np.array([[True, False, True], [False] * 3]))
    expected = torch.tensor([1.0, 3.0]).log_softmax(0).numpy()
    np.testing.assert_allclose(log_probs, [[expected[0], -np.inf, expected[1]], [-np.inf] * 3])


def test_an_onnx_file_is_a_net_by_itself(exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = tmp_path / "alone.onnx"
    alone.write_bytes(exported.with_suffix(".onnx").read_bytes())
    net = learn.net.open_net(alone)
    assert (net.name, net.about, net.games.tolist()) == ("alone", learn.net.open_net(exported).about, [3, 7])
    with pytest.raises(FormatError, match=r"alone.onnx is an ONNX file, which torch cannot read"):
        _ = net.module
    game = tmp_path / "game.sgf"
    game.write_text("(;SZ[9];B[ee])")
    assert run("predict", "--net", alone, game).code == 0
    assert run("show", alone).out.startswith(f"{alone}: kifu-net@1, b1c8 on seven@1, any board")


def test_an_onnx_file_of_other_weights_is_ignored(exported: Path, tmp_path: Path) -> None:
    path = tiny_net(tmp_path / "net.safetensors", seed=1)
    (tmp_path / "net.onnx").write_bytes(exported.with_suffix(".onnx").read_bytes())
    assert learn.net.open_net(path).session is None


@pytest.mark.subprocess
@pytest.mark.parametrize(
    "command", ["predict GAME --net NET", "evaluate GAME --net NET", "annotate GAMES -o moves.parquet --net NET"]
)
def test_commands_load_no_torch(exported: Path, tmp_path: Path, command: str) -> None:
    game, games = tmp_path / "game.sgf", tmp_path / "games.parquet"
    game.write_text("(;SZ[9];B[ee];W[cc];B[gc])")
    kifu.ingest(game, games)
    names = {"NET": exported.with_suffix(".onnx"), "GAME": game, "GAMES": games}
    arguments = [str(names.get(word, word)) for word in command.split()]
    program = "import sys\nsys.modules['torch'] = None\nfrom kifu.cli import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert (done.returncode, "Error" in done.stderr) == (0, False)


KATA = [
    (["residual", "pooling"], {"version": 8}),
    *[pytest.param([kind], {}, marks=pytest.mark.slow) for kind in BLOCKS],
    pytest.param(["residual"], {"rms": True}, marks=pytest.mark.slow),
    pytest.param(["pooling"], {"version": 16, "human": True}, marks=pytest.mark.slow),
    pytest.param(BLOCKS, {"rms": True, "human": True}, marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kinds", "options"), KATA)
def test_kata_net_equals_torch(tmp_path: Path, kinds: list[str], options: dict) -> None:
    path, out, file = tmp_path / "net.bin.gz", tmp_path / "net.onnx", small_net(kinds, **options)
    file.name = "kata1.small+b1"
    write_kata_net(path, file)
    exported = learn.export.export_net(path, out)
    assert exported.outputs == net_onnx.OUTPUTS
    onnx.checker.check_model(out)
    _check_contract(session(out), file)
    torch_net, onnx_net = (learn.net.open_net(each, threads=1) for each in (path, out))
    assert (onnx_net.takes_ranks, onnx_net.name) == (file.is_human, "kata1_small_b1")
    for width, height in ((19, 19), (13, 13), (9, 9), (5, 7), (2, 2)):
        moves = [[], [0], [0, width * height - 1]]
        for count in (1, 3):
            positions = NetPositions.from_moves([np.array(each, np.uint16) for each in moves[:count]], width, height)
            if file.is_human:
                positions = positions.with_ranks(30.0, 33.0)
            ours, theirs = (net.evaluate(positions) for net in (onnx_net, torch_net))
            for name in ("policy", "legal", "value", "ownership"):
                np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-5)
            np.testing.assert_allclose(ours.score, theirs.score, atol=2e-4)  # of some 20 points


def _check_contract(asked: onnxruntime.InferenceSession, file: KataNetFile) -> None:
    """Check names, shapes and metadata, which KataGo 1.17.3 requires (docs/ONNX_Model_Files.md)."""
    human, policies, scores = file.is_human, file.policy.policies, file.value.score_bias.array.size
    shapes = {
        "InputSpatial": ["batch", 22, 19, 19], "InputGlobal": ["batch", 19, 1, 1], "InputMeta": ["batch", 192, 1, 1],
        "InputMask": ["batch", 1, 19, 19], "OutputPolicyPass": ["batch", policies, 1, 1],
        "OutputPolicy": ["batch", policies, 19, 19], "OutputValue": ["batch", 3, 1, 1],
        "OutputScoreValue": ["batch", scores, 1, 1], "OutputOwnership": ["batch", 1, 19, 19],
    }  # fmt: skip
    if not human:
        del shapes["InputMeta"]
    assert {each.name: each.shape for each in (*asked.get_inputs(), *asked.get_outputs())} == shapes
    assert {each.type for each in (*asked.get_inputs(), *asked.get_outputs())} == {"tensor(float)"}
    metadata = asked.get_modelmeta().custom_metadata_map
    required = {
        "katago.metadataVersion": "1", "katago.name": "kata1_small_b1", "katago.modelVersion": str(file.version),
        "katago.numInputChannels": "22", "katago.numInputGlobalChannels": "19",
        "katago.numInputMetaChannels": "192" if human else "0", "katago.numPolicyChannels": str(policies),
        "katago.numValueChannels": "3", "katago.numScoreValueChannels": str(scores),
        "katago.numOwnershipChannels": "1", "katago.metaEncoderVersion": str(int(human)),
        "katago.preferPassAliveUnderSuicideRules": "false", "katago.preferExcludeTerritoryAdjacentToAtari": "false",
        "katago.postProcess.tdScoreMultiplier": "20.0", "katago.postProcess.scoreMeanMultiplier": "20.0",
        "katago.postProcess.scoreStdevMultiplier": "20.0", "katago.postProcess.leadMultiplier": str(file.lead),
        "katago.postProcess.varianceTimeMultiplier": "40.0",
        "katago.postProcess.shorttermValueErrorMultiplier": "0.25",
        "katago.postProcess.shorttermScoreErrorMultiplier": str(file.score_error),
        "katago.build.nnXLen": "19", "katago.build.nnYLen": "19", "katago.build.requireExactNNLen": "false",
    }  # fmt: skip
    found = {key: value for key, value in metadata.items() if key.startswith("katago.")}
    info = {key: found.pop(key) for key in list(found) if key.startswith("katago.info.arch.")}
    assert found == required
    assert info["katago.info.arch.numParameters"] == str(file.parameters)
    assert "kifu-blake3" in metadata


@pytest.fixture(scope="module")
def kata_onnx(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("kata")
    write_kata_net(folder / "net.txt.gz", small_net(["residual"], 8))
    assert run("export", folder / "net.txt.gz", "-o", folder / "net.onnx").code == 0
    return (folder / "net.onnx").read_bytes()


@pytest.mark.subprocess
def test_kata_net_without_torch(tmp_path: Path, kata_onnx: bytes) -> None:
    path, game = tmp_path / "net.onnx", tmp_path / "game.sgf"
    path.write_bytes(kata_onnx)
    game.write_bytes(b"(;SZ[9]RU[Japanese]KM[6.5];B[ee];W[cc])")
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from kifu.cli import main; sys.argv[1:1] = ['predict', '--net']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, path, game], capture_output=True, text=True, check=False)
    assert "Black's lead: " in done.stdout, done.stderr
    described = run("show", path).out
    assert "small, network of KataGo in ONNX, format version 8, no human-style net" in described
    done = run("export", path, "-o", tmp_path / "again.bin.gz")
    assert (done.code, done.err) == (2, [f"kifu: {path} is an ONNX file; this requires KataGo's own file"])
    assert learn.net.open_net(path).has_points


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"", b"damage", "is not an ONNX file"),
        (b"katago.metadataVersion\x12\x011", b"katago.metadataVersion\x12\x012", "katago.metadataVersion must be <= 1"),
        (b"katago.metaEncoderVersion", b"katago.metaEncoderVersiox", "katago.metaEncoderVersiox: no such key"),
        (b"katago.modelVersion\x12\x018", b"katago.modelVersion\x12\x017", "katago.modelVersion must be >= 8"),
        (b"katago.build.nnXLen", b"katago.info.nnXLenx", "katago.build.nnXLen is missing"),
        (b"OutputOwnership", b"OutputOwnershiq", "cannot be evaluated: 'OutputOwnership'"),
        (
            b"katago.numPolicyChannels\x12\x011",
            b"katago.numPolicyChannels\x12\x01x",
            "numPolicyChannels must be an integer",
        ),
    ],
)
def test_damaged_kata_net(tmp_path: Path, kata_onnx: bytes, old: bytes, new: bytes, reason: str) -> None:
    path = tmp_path / "net.onnx"
    assert old in kata_onnx
    path.write_bytes(kata_onnx[:-81].replace(old, new) if old else kata_onnx[:-81] + new)
    with pytest.raises(FormatError) as caught:
        learn.net.open_net(path).evaluate(NetPositions.from_moves([[]], 9, 9))
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    path.write_bytes(kata_onnx[:2000] + b"x" + kata_onnx[2001:])
    with pytest.raises(FormatError, match="checksum"):
        learn.net.open_net(path)
    for end in range(0, len(kata_onnx), len(kata_onnx) // 9):
        path.write_bytes(kata_onnx[:end])
        with pytest.raises(FormatError):
            learn.net.open_net(path)
