"""Net files: round trips, and one-line errors for damaged files."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kifu
from kifu.assets import read_card
from kifu.datasets.global_inputs import INPUTS
from kifu.errors import FormatError, RecipeError
from kifu.learn import BEST
from kifu.planes.encoder import find_encoder
from kifu.point import BLACK
from lazy import lazy_import
from nets import NET_NAMES, global_values, tiny_net

learn = lazy_import("kifu.learn")
play = lazy_import("kifu.play")
safetensors = lazy_import("safetensors.torch")
torch = lazy_import("torch")


GAMES = (5, 3, 1 << 63, 3)


@pytest.mark.parametrize(
    ("value", "threads"),
    [
        ("3", 3),
        ("2,1", 2),
        (" +03 , 2", 3),
        *((each, None) for each in ("", "auto", "3.0", "0", "-1", "3,", "2,x", "3 1")),
    ],
)
def test_threads_of_openmp(value: str, threads: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As libgomp 13 reads the variable: values other than lists of positive numbers are ignored."""
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert learn.backends._openmp_threads() == threads
    assert learn.backends.OnnxBackend(learn.net.packaged_net("small").with_suffix(".onnx")).metadata


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("nets") / "good.safetensors"
    return tiny_net(path, passes=True, heads=("value", "ownership"), games=GAMES).read_bytes()


def split(data: bytes) -> tuple[dict[str, Any], bytes]:
    length = struct.unpack("<Q", data[:8])[0]
    header = re.sub(rb',\\"kifu-blake3\\":\\"[0-9a-f]{64}\\"', b"", data[8 : 8 + length])
    return json.loads(header), data[8 + length :]


def joined(header: dict[str, Any], body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def refused(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(data)
    with pytest.raises(FormatError) as caught:
        learn.net.open_net(path)
    message = str(caught.value)
    assert message.isprintable()
    assert str(path) in message
    return message


# what is written is read again


@pytest.mark.parametrize("name", NET_NAMES)
@pytest.mark.parametrize("heads", [(), ("value", "ownership")])
def test_a_net_is_read_as_written(tmp_path, name, heads):
    encoder = find_encoder("clark8", 5, 5)
    inputs = ("colour", "komi", "ranks") if name == "b3c8" else learn.registry.find_net(name).inputs
    module = learn.registry.make_net(name, encoder.planes, 5, 5, rim=1, passes=True, heads=heads, inputs=inputs).eval()
    about = learn.net_format.NetMetadata(
        net=name, planes="clark8@1", width=5, height=5, passes=True, heads=heads, inputs=inputs, recipe={"a": [1, None]}
    )
    learn.torch_net.save_net(tmp_path / "it.safetensors", module, about, np.array(GAMES, np.uint64))
    state = torch.get_rng_state()
    net = learn.net.open_net(tmp_path / "it.safetensors")
    assert torch.equal(torch.get_rng_state(), state)  # to open a net disturbs no training
    assert (net.about, net.name, net.games.tolist()) == (about, "it", [3, 5, 1 << 63])
    assert not net.module.training
    planes = torch.rand(2, *net.encoder.shape)
    values = global_values(module, 2)
    for before, after in zip(module(planes, values), net.module(planes, values), strict=True):
        assert (before is None and after is None) or torch.equal(before, after)
    assert learn.torch_net.net_bytes(net.module, net.about, net.games) == (tmp_path / "it.safetensors").read_bytes()


def test_a_run_directory_opens_its_best_net(tmp_path, good):
    (tmp_path / "run").mkdir()
    with pytest.raises(FormatError, match=r"cannot read the net .*best\.safetensors"):
        learn.net.open_net(tmp_path / "run")
    (tmp_path / "run" / BEST).write_bytes(good)
    assert learn.net.open_net(tmp_path / "run").name == "run"


def test_the_packaged_net_has_a_name(tmp_path, good, monkeypatch):
    monkeypatch.chdir(tmp_path)
    packaged = learn.net.open_net()
    assert learn.net.open_net("human").about == packaged.about
    (tmp_path / "human").mkdir()
    (tmp_path / "human" / BEST).write_bytes(good)
    assert learn.net.open_net("human").about == packaged.about != learn.net.open_net(Path("human")).about


def test_packaged_nets_open_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs = {name: learn.net.open_net(name).about.inputs for name in learn.PACKAGED}
    assert inputs == {"small": (), "human": tuple(name for name in INPUTS if name not in ("profile", "metadata"))}


def value_of_human(rank: str, opponent: str, komi: float = 6.5) -> float:
    ratings = {"rating": kifu.Rank.parse(rank).rating, "opponent": kifu.Rank.parse(opponent).rating}
    evaluator = play.player.NetEvaluator(learn.net.open_net("human"), **ratings)
    return evaluator.evaluate(play.player.GameSession(komi=komi), BLACK).value


def test_the_value_of_human_follows_ranks_and_komi():
    even = value_of_human("9d", "9d")
    assert value_of_human("9d", "1d") > even + 0.1 > value_of_human("1d", "9d") + 0.3
    assert abs(even) < 0.2
    values = [value_of_human("5d", "5d", komi) for komi in (-20, -10, 0.5, 6.5, 15)]
    assert values == sorted(values, reverse=True)


def test_half_precision_is_read_as_float32(tmp_path):
    module = learn.registry.make_net("b1c8", 7, 9, 9).bfloat16()
    path = tmp_path / "half.safetensors"
    path.write_bytes(
        learn.torch_net.net_bytes(
            module,
            learn.net_format.NetMetadata(net="b1c8", planes="seven@1", width=9, height=9),
            np.empty(0, np.uint64),
        )
    )
    net = learn.net.open_net(path)
    assert {value.dtype for value in net.module.parameters()} == {torch.float32}
    for name, value in net.module.state_dict().items():
        assert torch.equal(value, module.state_dict()[name].to(value.dtype))


def test_other_board_sizes(tmp_path):
    any_size, one_size = learn.net.open_net(tiny_net(tmp_path / "a.safetensors")), learn.net.open_net(
        tiny_net(tmp_path / "b.safetensors", "blog", "one-plane")
    )  # fmt: skip
    assert any_size.encoder_for(13, 7).shape == (7, 7, 13)
    assert one_size.encoder_for(9, 9).shape == (1, 9, 9)
    with pytest.raises(RecipeError, match=r"net b \(blog\) supports 9 x 9 boards only, got 13 x 7"):
        one_size.encoder_for(13, 7)


# Damaged files

METADATA: list[tuple[str, Any, str]] = [
    ("net", "b1c16", "must have shape"),
    ("net", "b2c8", "missing weight"),
    ("net", "blog", "weight"),
    ("net", "b99c1000", "too large or too small"),
    ("net", "no\nnet", "invalid metadata: net"),
    ("net", "resnet", "unknown net 'resnet'"),
    ("net", 3, "invalid metadata: net"),
    ("planes", "eleven", "must have shape"),
    ("planes", "eight", "unknown plane set or feature 'eight'"),
    ("width", 0, "invalid metadata: width"),
    ("width", 9.5, "invalid metadata: width"),
    ("height", 1 << 70, "invalid metadata: height"),
    ("passes", False, "unexpected weight"),
    ("heads", ["value"], "unexpected weight"),
    ("heads", ["winner"], "invalid metadata: heads"),
    ("version", 2, "invalid metadata: version"),
    ("colour", "red", "invalid metadata: colour"),
]


@pytest.mark.parametrize(("key", "value", "words"), METADATA)
def test_invalid_metadata(tmp_path, good, key, value, words):
    header, body = split(good)
    about = json.loads(header["__metadata__"]["kifu-net"]) | {key: value}
    header["__metadata__"]["kifu-net"] = json.dumps(about)
    assert words in refused(tmp_path, joined(header, body))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "its safetensors metadata has no 'kifu-net'"),
        ("", "the metadata is not JSON"),
        ("{" * 100_000, "the metadata is not JSON"),
        ("[" * 100_000, "the metadata is not JSON"),
        ('{"net": ' + "9" * 10_000 + "}", "the metadata is not JSON"),
        ("[]", "invalid metadata"),
        ("{}", "invalid metadata: net"),
        ("null", "invalid metadata"),
    ],
)
def test_missing_metadata(tmp_path, good, text, words):
    header, body = split(good)
    header["__metadata__"] = {} if text is None else {"kifu-net": text}
    assert words in refused(tmp_path, joined(header, body))


@pytest.mark.parametrize("dtype", ["int32", "bool", "complex64", "float8_e5m2", "float8_e8m0fnu"])
def test_invalid_dtypes(tmp_path, good, dtype):
    tensors = safetensors.load(good)
    tensors["net.points.weight"] = tensors["net.points.weight"].to(getattr(torch, dtype))
    data = safetensors.save(tensors, split(good)[0]["__metadata__"])
    assert f"points.weight must be torch.float32, got torch.{dtype}" in refused(tmp_path, data)


HEADERS: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda h: h.pop("net.points.weight"), "is not a net of kifu"),
    (lambda h: h["net.points.weight"].update(shape=[1, 16, 1, 2]), "got [1, 16, 1, 2]"),
    (lambda h: h["net.points.weight"].update(shape=[1, 1 << 62, 4, 4]), "is not a net of kifu"),
    (lambda h: h["net.points.weight"].update(data_offsets=[0, 1 << 60]), "is not a net of kifu"),
    (lambda h: h["net.points.weight"].update(data_offsets=[8, 4]), "is not a net of kifu"),
    (lambda h: h.update(more=h.pop("net.points.weight")), "unexpected weight"),
    (lambda h: h["games"].update(shape=[1, 3]), "must be a list of int64"),
    (lambda h: h["games"].update(dtype="F64"), "must be a list of int64"),
    (lambda h: h["net.points.weight"].update(dtype="F4", shape=[1, 32, 8, 1]), "is not a net of kifu"),
    (lambda h: h["net.points.weight"].update(dtype="F3"), "is not a net of kifu"),
]


@pytest.mark.parametrize(("change", "words"), HEADERS)
def test_invalid_headers(tmp_path, good, change, words):
    header, body = split(good)
    change(header)
    assert words in refused(tmp_path, joined(header, body))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("net.points.weight", np.float32(np.nan), "points.weight has NaN or infinite values"),
        ("net.points.weight", np.float32(np.inf), "points.weight has NaN or infinite values"),
        ("net.points.weight", np.float32(-np.inf), "points.weight has NaN or infinite values"),
        ("games", np.uint64(2**64 - 1), "'games' is not ascending"),
    ],
)
def test_invalid_values_in_arrays(tmp_path, good, name, value, words):
    header, body = split(good)
    at = header[name]["data_offsets"][0]
    bad = body[:at] + value.tobytes() + body[at + value.nbytes :]
    assert words in refused(tmp_path, joined(header, bad))


def test_files_that_are_not_nets(tmp_path, good):
    for length in [*range(20), len(good) // 2, len(good) - 1]:
        refused(tmp_path, good[:length])
    refused(tmp_path, good + b"\0")
    refused(tmp_path, struct.pack("<Q", 1 << 62) + good[8:])
    refused(tmp_path, struct.pack("<Q", 200_000_000) + b"{" + b" " * 1000)
    refused(tmp_path, b"\x80\x04\x95" + bytes(100))  # a pickle
    with pytest.raises(FormatError, match=r"cannot read the net .*nowhere"):
        learn.net.open_net(tmp_path / "nowhere.safetensors")


def test_a_file_that_is_too_large(tmp_path):
    with (tmp_path / "large.safetensors").open("wb") as file:
        file.truncate((4 << 30) + 1)
    with pytest.raises(FormatError, match="more than 4 GiB"):
        learn.net.open_net(tmp_path / "large.safetensors")


@pytest.mark.slow
def test_a_small_file_allocates_little_memory(tmp_path, good, monkeypatch):
    """The shapes of its weights are compared before memory is allocated for them."""
    make_network, devices = learn.torch_net._make_network, []

    def record(*arguments):
        network = make_network(*arguments)
        devices.append({value.device.type for value in network.parameters()})
        return network

    monkeypatch.setattr("kifu.learn.torch_net._make_network", record)
    header, body = split(good)
    about = json.loads(header["__metadata__"]["kifu-net"]) | {"net": "b99c380"}  # of 1 GiB
    header["__metadata__"]["kifu-net"] = json.dumps(about)
    assert "missing weight" in refused(tmp_path, joined(header, body))
    assert devices == [{"meta"}]


def test_the_format_card_lists_all_keys():
    text = read_card("formats", "kifu-net@1")
    for key in learn.net_format.NetMetadata.model_fields:
        assert f"`{key}`" in text
