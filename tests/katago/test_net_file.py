"""KataGo's network files: round trips, and files that are damaged, foreign or hostile."""

from __future__ import annotations

import gzip
import re

import numpy as np
import pytest

from commands import run
from kata_nets import BLOCKS, small_net
from kifu.errors import FormatError
from kifu.katago import net_file
from kifu.katago.net_file import KataNetFile, kata_net_bytes, read_kata_net, write_kata_net


@pytest.mark.parametrize(
    "net",
    [
        *(small_net(["residual", "pooling"], version) for version in range(8, 17)),
        *(small_net([kind]) for kind in BLOCKS),
        small_net(["residual"], human=True), small_net(rms=True),
    ],
    ids=repr,
)  # fmt: skip
def test_round_trip(tmp_path, net):
    for suffix in (".bin.gz", ".txt.gz", ".bin", ".txt"):
        path = tmp_path / f"net{suffix}"
        net.binary = suffix.startswith(".bin")
        write_kata_net(path, net)
        read = read_kata_net(path)
        assert kata_net_bytes(read) == kata_net_bytes(net)
        assert (read.binary, read.parameters) == (net.binary, net.parameters)
    assert repr(read) == f"<KataNetFile small: version {net.version}, {net.parameters:,} parameters>"


def _fails(path, data: bytes, reason: str) -> None:
    path.write_bytes(data)
    with pytest.raises(FormatError, match=re.escape(reason)) as caught:
        read_kata_net(path)
    assert "\n" not in str(caught.value)


def test_truncated(tmp_path):
    data = kata_net_bytes(small_net())
    zipped = gzip.compress(data)
    for end in range(0, len(data) - 2, len(data) // 40):
        _fails(tmp_path / "net.bin", data[:end], "truncated")
    for end in range(2, len(zipped), len(zipped) // 20):
        _fails(tmp_path / "net.bin.gz", zipped[:end], "net.bin.gz")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"\n17\n22", b"\n18\n22", "version must be 8 to 17, got '18'"),
        (b"\n17\n22", b"\n17\n21", "planes must be 22 to 22, got '21'"),
        (b"\n17\n22", b"\nseventeen\n22", "version must be 8 to 17, got 'seventeen'"),
        (b"20.0", b"nan", "td_score must be a positive number, got 'nan'"),
        (b"trunk\n8\n", b"trunk\n99999\n", "count must be 1 to 512, got '99999'"),
        (b"trunk\n8\n6\n", b"trunk\n8\n99999999\n", "channels must be 1 to 16384"),
        (b"trunk\n8\n6\n", b"trunk\n8\n7\n", "conv has size 6, which does not fit the layers around it (channels)"),
        (b"ordinary_block", b"strange_block", "unknown block 'strange_block'"),
        (b"ACTIVATION_MISH", b"ACTIVATION_ODD", "unknown activation ACTIVATION_ODD"),
        (b"@BIN@", b"@BON@", "an array does not begin with @BIN@"),
        (b"small", b"small" * 40, "a word is too long"),
        (b"small", b"sm\x1bll", "not printable"),
        (b"ffn\n6\n", b"ffn\n5\n", "size has size 5"),
    ],
)
def test_foreign(tmp_path, old, new, reason):
    """Words out of range, and layers that do not fit each other, are named."""
    data = kata_net_bytes(small_net())
    assert old in data
    _fails(tmp_path / "net.bin", data.replace(old, new, 1), reason)


def test_hostile(tmp_path, monkeypatch):
    """Memory is bounded before anything is allocated, and weights are finite."""
    data = kata_net_bytes(small_net(["residual"]))
    huge = data.replace(b"conv\n5\n5\n22\n6\n", b"conv\n19\n19\n22\n16384\n").replace(
        b"trunk\n1\n6\n", b"trunk\n1\n16384\n"
    )
    monkeypatch.setattr(net_file, "MAX_PARAMETERS", 1 << 20)
    _fails(tmp_path / "net.bin", huge, "more than 1,048,576 parameters")
    monkeypatch.setattr(net_file, "MAX_BLOCKS", 5)
    _fails(tmp_path / "net.bin", kata_net_bytes(small_net(["bottleneck"] * 2)), "more than 5 blocks")
    first = data.index(b"@BIN@") + 5
    _fails(tmp_path / "net.bin", data[:first] + np.float32(np.nan).tobytes() + data[first + 4 :], "NaN or infinite")
    _fails(tmp_path / "net.bin.gz", gzip.compress(bytes(1 << 24)), "a word has more than 128 bytes")
    _fails(tmp_path / "net.bin.gz", gzip.compress(b" " * (1 << 24)), "truncated")
    _fails(tmp_path / "net.bin.gz", gzip.compress(data + b"more"), "it goes on after the value head")
    damaged = bytearray(gzip.compress(data))
    damaged[-6] ^= 1
    _fails(tmp_path / "net.bin.gz", bytes(damaged), "net.bin.gz")
    damaged[len(damaged) // 2] ^= 255
    _fails(tmp_path / "net.bin.gz", bytes(damaged), "net.bin.gz")
    _fails(tmp_path / "net.txt", b"PK\x03\x04 something else", "not a network file of KataGo")
    _fails(tmp_path / "net.txt", kata_net_bytes(_text(small_net())).replace(b" 0.", b" x."), "no number")
    with pytest.raises(FormatError, match="No such file"):
        read_kata_net(tmp_path / "missing.bin.gz")
    with pytest.raises(FormatError, match="Is a directory"):
        read_kata_net(tmp_path)


def test_nested_too_deep(tmp_path):
    net = small_net(["bottleneck"])
    blocks = net.trunk.blocks
    for _ in range(5):
        blocks[0].blocks, blocks[0].count = small_net(["bottleneck"], channels=4).trunk.blocks, 1
        blocks = blocks[0].blocks
    _fails(tmp_path / "net.bin", kata_net_bytes(net), "nested bottlenecks must be at most 4 deep")


def _text(net: KataNetFile) -> KataNetFile:
    net.binary = False
    return net


def test_inspect(tmp_path):
    path = tmp_path / "net.bin.gz"
    write_kata_net(path, small_net(["bottleneck", "bottleneck", "pooling"], human=True))
    done = run("show", path)
    assert done.code == 0
    assert "small, network of KataGo, format version 17, human-style net" in done.out
    assert "3: 2 nested bottleneck (1 residual, 1 attention, 1 feed-forward each), 1 global pooling" in done.out
    assert "192 of metadata" in done.out
    path.write_bytes(b"kifu")
    assert (run("show", path).code, len(run("list", "nets", path).err)) == (2, 1)
