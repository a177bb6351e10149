"""minigo's training examples against the reference, and against records written from naive boards."""

from __future__ import annotations

import json
import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kifu
from chunk_writers import (
    Position,
    check_rendered,
    check_rows,
    crc32c,
    feature,
    field,
    joined,
    masked,
    minigo_chunk,
    minigo_features,
    minigo_planes,
    minigo_record,
    points,
    put,
    random_game,
    spelled,
    tfrecord,
    to_text,
    varint,
)
from commands import run
from fuzz_chunks import chunk_fuzzer, use_chunk
from fuzzing import try_all
from kifu.datasets.formats import FORMATS, detect_format
from kifu.datasets.minigo import Minigo
from kifu.errors import FormatError


def games(seed: int, size: int, *plies: int) -> list[list[Position]]:
    draw = random.Random(seed)
    return [random_game(draw, size, count, draw.choice((1, 0, -1)), draw.random() < 0.3) for count in plies]


def test_samples_equal_the_reference(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data" / "formats" / "minigo-tfrecord"
    table = json.loads((shared / "reference" / "formats" / "minigo-tfrecord.json").read_text())
    for file in table["files"]:
        size = file["size"]
        with kifu.open(folder / Path(file["file"]).name) as data:
            assert isinstance(data, Minigo)
            assert (len(data), data.layout.width) == (file["records"], size)
            (game,) = data.games()
            assert spelled(game) == file["moves_by_difference"]
            batch = data.read(0, len(data))
            planes = batch.unpack_planes(data.layout)
            for row, expected in enumerate(file["positions"]):
                black = planes[row, 16].all()
                assert expected["to_play"] == ("B" if black else "W")
                own, opp = (
                    {to_text(p, size) for p in np.flatnonzero(planes[row, k]).tolist()} for k in (0, 1)
                )  # fmt: skip
                stones = {"black": own if black else opp, "white": opp if black else own}
                for side, found in stones.items():
                    text = expected[side].replace(" ", "")
                    assert found == {text[k : k + 2] for k in range(0, len(text), 2)}
                policy = batch.labels["policy"][row]
                assert to_text(int(batch.labels["move"][row]), size) == expected["best"]
                assert policy.max() == pytest.approx(expected["best_share"], abs=1e-4)
                assert batch.labels["result"][row] == expected["outcome"] * (1 if black else -1)
            check_rendered(data, "agz17-minigo", tmp_path)


@settings(max_examples=8)
@given(seed=st.integers(0, 999), size=st.integers(2, 13), first=st.integers(2, 20), second=st.integers(2, 20))
def test_written_games_are_read(seed: int, size: int, first: int, second: int, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("minigo")
    played = games(seed, size, first, second)
    for name, game in zip("ab", played):
        path = put(folder / f"{name}.tfrecord.zz", minigo_chunk(game))
    assert detect_format(path) == detect_format(folder) == FORMATS["minigo@1"]
    with kifu.open(folder) as data:
        assert isinstance(data, Minigo)
        check_rows(data, joined(played), minigo_planes)
        assert data.game_rows.tolist() == [[0, first], [first, first + second]]
        assert [points(game) for game in data.games()] == [[each.played for each in game[:-1]] for game in played]
        assert [game.text("RE") for game in data.games()] == [
            {1: "B+", -1: "W+", 0: "0"}[game[0].winner] for game in played
        ]
        check_rendered(data, "agz17-minigo", folder)


def test_untrainable_positions_divide_a_game(tmp_path: Path) -> None:
    (positions,) = games(1, 9, 30)
    kept = positions[:10] + positions[11:13] + positions[20:]
    with kifu.open(put(tmp_path / "a.zz", minigo_chunk(kept))) as data:
        check_rows(data, kept, minigo_planes)
        assert isinstance(data, Minigo)
        assert data.game_rows.tolist() == [[0, 10], [10, 12], [12, 22]]
        assert not any(game.errors for game in data.games())


def test_golden_chunks_have_no_games(tmp_path: Path) -> None:
    (positions,) = games(2, 9, 40)
    with kifu.open(put(tmp_path / "a.zz", minigo_chunk(positions[::-1]))) as data:
        assert isinstance(data, Minigo)
        assert (len(data), len(data.game_rows)) == (40, 0)


def test_nan_is_skipped(tmp_path: Path) -> None:
    (positions,) = games(3, 9, 9)
    positions[4] = positions[4]._replace(policy=[float("nan")] * 82)
    with kifu.open(put(tmp_path / "a.zz", minigo_chunk(positions))) as data:
        check_rows(data, positions[:4] + positions[5:], minigo_planes)
        assert isinstance(data, Minigo)
        assert data.skipped == 1


def integers(*values: int) -> bytes:
    return field(1, b"".join(map(varint, values)))


@pytest.mark.nojit
def test_other_encodings_of_an_example(tmp_path: Path) -> None:
    (positions,) = games(4, 5, 8)
    records = []
    for k, position in enumerate(positions):
        features = minigo_features(position)
        extra = [
            feature(b"q", 2, field(1, struct.pack("<f", 0.25))),
            feature(b"n", 3, integers(1600)),
            feature(b"c", 3, integers(position.played)),
        ]
        pi = np.array(position.policy, "<f4").tobytes()
        unpacked = feature(b"outcome", 2, varint(1 << 3 | 5) + struct.pack("<f", position.winner))
        whole = [
            field(1, b"".join([*extra, *features.values()])),
            field(1, b"".join([features["outcome"], features["pi"], *extra, features["x"]])),
            field(1, features["x"] + features["pi"] + unpacked),
            field(1, features["x"] + feature(b"pi", 2, field(1, pi)) + features["outcome"]),
            varint(9 << 3) + varint(300) + field(1, b"".join(features.values())) + varint(3 << 3 | 1) + bytes(8),
            field(1, feature(b"x", 1, field(1, b"older")) + b"".join(features.values())),
        ][k % 6]
        records.append(tfrecord(whole))
    with kifu.open(put(tmp_path / "a.zz", zlib.compress(b"".join(records)))) as data:
        check_rows(data, positions, minigo_planes)


@pytest.mark.nojit
def test_checksum_of_known_bytes() -> None:
    """The first values are those of RFC 3720."""
    from kifu.datasets.minigo import crc_tables, masked_crc

    assert (crc32c(bytes(32)), crc32c(b"\xff" * 32)) == (0x8A9136AA, 0x62A8AB43)
    draw = random.Random(1)
    for length in (0, 1, 7, 8, 9, 31, 100):
        data = draw.randbytes(length + 3)
        found = masked_crc(np.frombuffer(data, np.uint8), 3, length + 3, crc_tables())
        assert int(found).to_bytes(4, "little") == masked(data[3:])


def broken() -> dict[str, tuple[bytes, str]]:
    (positions,) = games(5, 9, 12)
    first, second = map(minigo_record, positions[10:])
    features = minigo_features(positions[11])
    pi = np.array(positions[11].policy, "<f4").tobytes()
    planes = minigo_planes(positions[11])
    x = planes.transpose(1, 2, 0).tobytes()

    def example(**changed: bytes) -> bytes:
        return tfrecord(field(1, b"".join((features | changed).values())))

    def with_x(data: bytes) -> bytes:
        return example(x=feature(b"x", 1, field(1, data)))

    size = (1 << 40).to_bytes(8, "little")
    return {
        "checksum": (first + second[:-1] + bytes([second[-1] ^ 1]), "record 1 has a wrong checksum"),
        "data": (first + second[:40] + bytes([second[40] ^ 1]) + second[41:], "record 1 has a wrong checksum"),
        "length": (first + b"\1" + second[1:], "record 1 has a length with a wrong checksum"),
        "too long": (first + size + masked(size) + bytes(100), "record 1 is longer than 65,536 bytes"),
        "cut": (first + second[:-1], "ends within record 1"),
        "cut head": (first + second[:5], "ends within record 1"),
        "cut first": (first[:-1], "ends within record 0"),
        "no example": (first + tfrecord(b"\xff" * 30), "not a tf.train.Example"),
        "endless field": (first + tfrecord(varint(10) + varint(9999)), "not a tf.train.Example"),
        "no outcome": (first + example(outcome=b""), "lacks one of the features"),
        "empty": (tfrecord(b""), "record 0 lacks one of the features"),
        "outcome": (
            first + example(outcome=feature(b"outcome", 2, field(1, struct.pack("<f", 0.5)))), "has an outcome",
        ),
        "two outcomes": (first + example(outcome=feature(b"outcome", 2, field(1, bytes(8)))), "lacks one"),
        "pi": (first + example(pi=feature(b"pi", 1, field(1, pi[:-4]))), "board of the file"),
        "first pi": (example(pi=feature(b"pi", 1, field(1, pi[:-4]))) + first, "record 0 has features"),
        "x": (first + with_x(x[:-1]), "board of the file"),
        "values": (first + with_x(b"\2" + x[1:]), "values other than 0 and 1"),
        "both sides": (first + with_x(b"\1\1" + x[2:]), "stones of both sides"),
        "NCHW": (first + with_x(planes.tobytes()), "row, column, plane|both sides"),
        "colour": (first + with_x(x[:16] + bytes([1 - x[16]]) + x[17:]), "row, column, plane"),
    }  # fmt: skip


@pytest.mark.parametrize("name", broken())
def test_damage_is_one_line(name: str, tmp_path: Path) -> None:
    data, words = broken()[name]
    path = put(tmp_path / "a.tfrecord.zz", zlib.compress(data))
    with pytest.raises(FormatError, match=words):
        kifu.open(path)


def test_damaged_compression_is_one_line(tmp_path: Path) -> None:
    data = minigo_chunk(games(6, 9, 5)[0])
    for damaged in (data[:-3], data[:-4] + bytes(4), data[:200] + bytes(20) + data[220:]):
        path = put(tmp_path / "a.tfrecord.zz", damaged)
        with pytest.raises(FormatError, match="damaged"):
            kifu.open(path)
        done = run("inspect", path)
        assert (done.code, len(done.err)) == (2, 1)


def test_boards_of_one_data_set_have_one_size(tmp_path: Path) -> None:
    put(tmp_path / "a.tfrecord.zz", b"")
    put(tmp_path / "b.tfrecord.zz", minigo_chunk(games(7, 9, 5)[0]))
    put(tmp_path / "c.tfrecord.zz", zlib.compress(b""))
    with kifu.open(tmp_path) as data:
        assert len(data) == 5
    put(tmp_path / "d.tfrecord.zz", minigo_chunk(games(7, 5, 5)[0]))
    with pytest.raises(FormatError, match=r"d\.tfrecord\.zz has a board of side 5, others have 9"):
        kifu.open(tmp_path)


def test_commands(tmp_path: Path) -> None:
    (positions,) = games(8, 13, 110)
    put(tmp_path / "a.tfrecord.zz", minigo_chunk(positions))
    put(tmp_path / "b.tfrecord.zz", minigo_chunk(positions[50:]))
    done = run("inspect", tmp_path / "a.tfrecord.zz")
    assert done.code == 0
    for words in ("110 in 1 file", "agz17-minigo@1: 17 of 13 x 13", "1 deduced, of 110 examples"):
        assert words in done.out
    done = run("audit", tmp_path / "a.tfrecord.zz", tmp_path / "b.tfrecord.zz")
    assert done.code == 1
    assert "a.tfrecord.zz, entry 1 (row 0) = b.tfrecord.zz, entry 1 (row 0)" in done.out
    batches = list(kifu.load(tmp_path / "a.tfrecord.zz", batch_size=50))
    assert sum(map(len, batches)) == 110
    assert batches[0].labels["policy"].shape == (50, 170)


def test_damaged_files_give_rows_or_one_line(tmp_path: Path) -> None:
    tried = try_all(chunk_fuzzer("minigo@1", tmp_path / "tried", use_chunk), 1, 5, tmp_path / "input")
    assert 0 < tried.refused < tried.inputs
