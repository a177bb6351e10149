"""Training chunks of Leela Zero against the references, and against records written from naive boards."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kifu
from chunk_writers import (
    Position,
    best,
    check_rendered,
    check_rows,
    from_bottom,
    joined,
    lz_binary,
    lz_chunk,
    lz_planes,
    lz_text,
    points,
    put,
    random_game,
    spelled,
    to_text,
)
from commands import run
from fuzz_chunks import chunk_fuzzer, use_chunk
from fuzzing import try_all
from kifu.datasets.formats import FORMATS, detect_format
from kifu.datasets.lz_chunks import LzChunks
from kifu.errors import FormatError, KifuError
from kifu.point import WHITE_BIT, to_gtp


def test_samples_equal_the_references(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data" / "formats" / "lz-chunks"
    table = json.loads((shared / "reference" / "formats" / "lz-chunks.json").read_text())
    for file in table["files"]:
        with kifu.open(folder / Path(file["file"]).name) as data:
            assert isinstance(data, LzChunks)
            assert (len(data), data.skipped, data.layout.width) == (file["records"], 0, file["size"])
            assert data.variants() == {file["format"]: 1}
            spans = [[game["first_record"], game["first_record"] + game["records"]] for game in file["games"]]
            assert data.game_rows.tolist() == spans
            for game, (start, stop), expected in zip(data.games(), spans, file["games"], strict=True):
                assert spelled(game) == expected["moves"]
                assert (str(game.result)[0], len(game.setup)) == (expected["winner"], len(expected["setup"]))
                batch = data.read(start, stop)
                moves, policy = batch.labels["move"], batch.labels["policy"]
                side = "W" if len(game) % 2 else "B"
                assert f"{side} {to_text(int(moves[-1]), 19)}" == expected["last_position_best"]
                assert (np.count_nonzero(policy[-1]) == 1) == expected["last_is_onehot"]
                assert np.count_nonzero(moves[:-1] != points(game)) == expected["played_not_best"]
            check_rendered(data, "lz18", tmp_path)


def games(seed: int, *plies: int) -> list[list[Position]]:
    draw = random.Random(seed)
    return [random_game(draw, 19, count, draw.choice((1, -1)), draw.random() < 0.5) for count in plies]


@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=5)
@given(seed=st.integers(0, 999), first=st.integers(2, 30), second=st.integers(2, 30))
def test_written_games_are_read(version: int, seed: int, first: int, second: int, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("lz")
    played = games(seed, first, second)
    path = put(folder / "a.gz", lz_chunk(joined(played), version))
    assert detect_format(path) == FORMATS["lz-chunks@1"]
    with kifu.open(path) as data:
        check_rows(data, joined(played), lz_planes)
        found = list(data.games())
        assert [points(game) for game in found] == [[each.played for each in game[:-1]] for game in played]
        assert [game.text("RE") for game in found] == ["B+" if game[0].winner == 1 else "W+" for game in played]
        batch = data.read(0, len(data))
        assert batch.game.tolist() == [1] * first + [2] * second
        assert batch.ply.tolist() == [*range(first), *range(second)]
        check_rendered(data, "lz18", folder)


@pytest.mark.slow
def test_blocks_and_reads_in_any_order(tmp_path: Path) -> None:
    positions = joined(games(1, 40, 60)) * 12
    path = put(tmp_path / "a.gz", lz_chunk(positions))  # more than two buffers, and more than a block of rows
    with kifu.open(path) as data:
        check_rows(data, positions, lz_planes)
        assert len(data.game_rows) == 24
        for start, stop in ((1100, 1130), (0, 3), (600, 1200), (1199, 1200), (5, 5)):
            batch = data.read(start, stop)
            assert batch.labels["move"].tolist() == list(map(best, positions[start:stop]))
        planes, move = data[-1]
        assert move == best(positions[-1])
        assert planes.shape == (18, 19, 19)


def test_folder_of_both_versions_is_one_data_set(tmp_path: Path) -> None:
    first, second, third = games(2, 20, 10, 15)
    put(tmp_path / "a.gz", lz_chunk(first))
    put(tmp_path / "b.gz", lz_chunk([]))
    put(tmp_path / "c.gz", lz_chunk(second, 2))
    put(tmp_path / "d.gz", lz_chunk(third[:8]) + lz_chunk(third[8:]))  # gzip files may be joined
    put(tmp_path / "d.txt.debug.gz", gzip.compress(b"2\n"))
    put(tmp_path / "notes.txt", b"not a chunk")
    for source in (tmp_path, str(tmp_path / "[a-d].gz")):
        with kifu.open(source) as data:
            check_rows(data, first + second + third, lz_planes)
            assert isinstance(data, LzChunks)
            assert data.variants() == {"v1": 2, "v2": 1}
            assert data.game_rows.tolist() == [[0, 20], [20, 30], [30, 45]]
            assert data.run_starts().tolist() == [0, 20, 30]


def test_shuffled_chunks_have_no_games(tmp_path: Path) -> None:
    positions = games(3, 60)[0]
    path = put(tmp_path / "a.gz", lz_chunk(positions[::-2] + positions[0::2]))
    with kifu.open(path) as data:
        assert isinstance(data, LzChunks)
        assert (list(data.games()), len(data)) == ([], 60)
        batch = data.read(0, 60)
        assert not batch.game.any()
        assert (batch.ply == -1).all()


def test_game_from_its_middle_begins_with_setup(tmp_path: Path) -> None:
    (positions,) = games(4, 50)
    with kifu.open(put(tmp_path / "a.gz", lz_chunk(positions[21:]))) as data:
        (game,) = data.games()
        assert points(game) == [each.played for each in positions[21:-1]]
        assert game.to_play == 2
        black = {y * 19 + x for (x, y), colour in positions[21].boards[0].items() if colour == 1}
        assert {int(stone) for stone in game.setup if not stone & WHITE_BIT} == black
        assert not game.errors
        assert (data.read(0, 5).ply == -1).all()


@pytest.mark.nojit
def test_games_with_another_winner_or_a_gap_are_divided(tmp_path: Path) -> None:
    (positions,) = games(5, 40)
    other = [each._replace(winner=-each.winner) for each in positions]
    with kifu.open(put(tmp_path / "a.gz", lz_chunk(positions[:10] + other[10:20] + other[21:]))) as data:
        assert data.game_rows.tolist() == [[0, 10], [10, 20], [20, 39]]


@pytest.mark.parametrize("share", ["nan", "-nan", "-nan(ind)", "inf", "-0.5"])
def test_records_without_a_policy_are_skipped_and_counted(share: str, tmp_path: Path) -> None:
    (positions,) = games(6, 12)
    records = list(map(lz_text, positions))
    records[5] = lz_text(positions[5], [share] * 362)
    with kifu.open(put(tmp_path / "a.gz", gzip.compress(b"".join(records)))) as data:
        check_rows(data, positions[:5] + positions[6:], lz_planes)
        assert data.skipped == 1
        assert data.game_rows.tolist() == [[0, 5], [5, 11]]
    assert "1 records" in run("inspect", tmp_path / "a.gz").out


@pytest.mark.nojit
def test_nan_in_version_2_is_skipped(tmp_path: Path) -> None:
    (positions,) = games(7, 6)
    positions[2] = positions[2]._replace(policy=[float("nan")] * 362)
    with kifu.open(put(tmp_path / "a.gz", lz_chunk(positions, 2))) as data:
        assert (len(data), data.skipped) == (5, 1)


NUMBERS = st.one_of(
    st.floats(0, 1).map(repr), st.floats(0, 1, width=32).map("{:g}".format), st.floats(0, 1).map("{:.25f}".format),
    st.sampled_from(["1", "0", ".5", "1.", "1e-5", "1E-05", "+0.25", "1e-400", "00012e-3", "0." + "0" * 22 + "12"]),
)  # fmt: skip


@settings(max_examples=20)
@given(st.lists(NUMBERS, min_size=1, max_size=30))
def test_numbers_are_read_as_python_reads_them(few: list[str]) -> None:
    from kifu.datasets.chunks import chunk_layout
    from kifu.datasets.lz_chunks import find_decoder

    numbers = (few * 362)[:362]
    data = lz_text(games(8, 1)[0][0], numbers)
    decoder = find_decoder(data)
    assert decoder is not None
    _, rows, _ = decoder.decode(np.frombuffer(data, np.uint8), 1, chunk_layout("lz18@1", 19))
    expected = np.array([float(number) for number in numbers], np.float64)
    flat = np.array(from_bottom(rows.policy[0].tolist()))
    assert np.allclose(flat, expected.astype(np.float32), rtol=2e-7, atol=1e-44)


def damaged(record: bytes, line: int, text: bytes) -> bytes:
    lines = record.split(b"\n")
    lines[line] = text
    return b"\n".join(lines)


def broken() -> dict[str, tuple[bytes, str]]:
    (positions,) = games(9, 3)
    text, binary = map(lz_text, positions), lz_chunk(positions, 2)
    first, second, third = text
    zeros = b" ".join([b"0"] * 361)
    return {
        "debug": (gzip.compress(b"2\n0.11 0.5\n1 2 3 4\n"), "debug file of Leela Zero"),
        "plane": (gzip.compress(first + damaged(second, 3, b"x" * 91)), "record 1 has a plane"),
        "short plane": (gzip.compress(first + damaged(second, 3, b"0" * 90)), "record 1 has a plane"),
        "bit": (gzip.compress(first + damaged(second, 3, b"0" * 90 + b"2")), "record 1 has a plane"),
        "side": (gzip.compress(first + damaged(second, 16, b"2")), "side to move"),
        "few": (gzip.compress(first + damaged(second, 17, zeros)), "362 probabilities"),
        "many": (gzip.compress(first + damaged(second, 17, zeros + b" 0 0")), "362 probabilities"),
        "number": (gzip.compress(first + damaged(second, 17, zeros + b" 1x")), "not a number"),
        "winner": (gzip.compress(first + second + damaged(third, 18, b"0")), "record 2 has a winner"),
        "draw": (gzip.compress(first + damaged(second, 18, b"2.5")), "winner"),
        "cut": (gzip.compress(first + second[:-600]), "362 probabilities"),
        "no winner": (gzip.compress(first + second.rstrip(b"-1\n")), "ends within record 1"),
        "cut in a line": (gzip.compress(first + second[:700]), "ends within record 1"),
        "cut binary": (gzip.compress(gzip.decompress(binary)[:-1]), "ends within record 2"),
        "version": (gzip.compress(lz_binary(positions[0]) + bytes(2176)), "record 1 does not begin with 1"),
        "cut gzip": (lz_chunk(positions)[:-9], "damaged"),
        "checksum": (lz_chunk(positions)[:-8] + bytes(8), "damaged"),
        "line": (gzip.compress(first + damaged(second, 17, b"0" * 3_000_000)), "longer than 65,536 bytes"),
        "other": (gzip.compress(first) + gzip.compress(b"(;GM[1])" * 999), "record 1 has a plane"),
    }


@pytest.mark.parametrize("name", broken())
def test_damage_is_one_line(name: str, tmp_path: Path) -> None:
    data, words = broken()[name]
    path = put(tmp_path / "a.gz", data)
    with pytest.raises(FormatError, match=words):
        kifu.open(path)
    done = run("inspect", path)
    assert (done.code, len(done.err)) == (2, 1)
    assert words in done.err[0]


def test_bomb_takes_little_memory(tmp_path: Path) -> None:
    (positions,) = games(10, 2)
    bomb = gzip.compress(lz_text(positions[0]) + bytes(300 << 20), 1)
    with pytest.raises(FormatError, match="record 1 has a plane"):
        kifu.open(put(tmp_path / "a.gz", bomb))


def test_foreign_files_are_no_chunks(tmp_path: Path) -> None:
    for data in (b"", b"\x1f\x8b", gzip.compress(b""), gzip.compress(b"(;GM[1]SZ[19];B[pd])")):
        assert detect_format(put(tmp_path / "a.gz", data)) is None
    put(tmp_path / "b.gz", lz_chunk(games(11, 3)[0]))
    with pytest.raises(FormatError, match=r"a\.gz is not a training chunk of Leela Zero"):
        LzChunks(tmp_path)
    with pytest.raises(KifuError, match="cannot be read"):
        LzChunks(tmp_path / "missing.gz")


def test_changed_and_closed_files(tmp_path: Path) -> None:
    (positions,) = games(12, 30)
    path = put(tmp_path / "a.gz", lz_chunk(positions))
    data = kifu.open(path)
    put(path, lz_chunk(positions[:20]))
    with pytest.raises(FormatError, match="has changed"):
        data.read(0, 30)
    data.close()
    with pytest.raises(ValueError, match="closed"):
        data.read(0, 1)


def test_loader_shows_policies_under_symmetries(tmp_path: Path) -> None:
    played = games(13, 30, 40)
    for name, game in zip("ab", played):
        put(tmp_path / f"{name}.gz", lz_chunk(game))
    seen = 0
    plain = kifu.open(tmp_path).read(0, 70)
    for batch in kifu.load(tmp_path, batch_size=16, config=kifu.LoaderConfig(seed=3, output="uint8")):
        seen += len(batch)
        policy = batch.labels["policy"]
        ties = np.take_along_axis(policy, batch.labels["move"][:, None].astype(np.int64), 1)[:, 0]
        assert np.array_equal(ties, policy.max(1))
        for row in range(len(batch)):
            (at,) = np.flatnonzero((plain.game == batch.game[row]) & (plain.ply == batch.ply[row]))
            original = plain.labels["policy"][at]
            square, board = policy[row, :361].reshape(19, 19), original[:361].reshape(19, 19)
            images = [np.rot90(each, k) for each in (board, board.T) for k in range(4)]
            matches = [k for k, image in enumerate(images) if np.array_equal(square, image)]
            now = plain.take(np.array([at])).unpack_planes(kifu.open(tmp_path).layout)[0, 0]
            shown = [np.rot90(each, k) for each in (now, now.T) for k in range(4)]
            assert any(np.array_equal(batch.planes[row, 0], shown[k]) for k in matches)
            assert policy[row, 361] == original[361]
    assert seen == 70


def test_commands(tmp_path: Path) -> None:
    played = games(14, 120, 150)
    put(tmp_path / "a.gz", lz_chunk(joined(played)))
    put(tmp_path / "b.gz", lz_chunk(played[1], 2))
    put(tmp_path / "c.gz", lz_chunk(played[1][::-1]))
    done = run("inspect", tmp_path / "a.gz")
    assert done.code == 0
    for words in ("270 in 1 file", "lz18@1: 18 of 19 x 19", "2 deduced, of 270 examples", "268 deduced", "komi, names"):
        assert words in done.out
    policy = played[0][30].policy
    assert (
        f"policy: {to_gtp(best(played[0][30]), 19)} {max(policy):.1%}"
        in run("inspect", tmp_path / "a.gz", "--row", 30).out
    )
    done = run("audit", tmp_path / "a.gz", tmp_path / "b.gz")
    assert done.code == 1
    assert "a.gz, entry 2 (row 120) = b.gz, entry 1 (row 0)" in done.out
    done = run("audit", tmp_path / "a.gz", tmp_path / "c.gz")
    assert "games unknown" in done.out
    assert "games in both: 1 of the first, 0 of the second" in done.out


def test_games_are_converted(tmp_path: Path) -> None:
    played = games(15, 20, 30)
    put(tmp_path / "a.gz", lz_chunk(joined(played)))
    put(tmp_path / "b.gz", lz_chunk(joined(played)[::-1]))
    done = run("convert", tmp_path / "a.gz", tmp_path / "b.gz", "-o", tmp_path / "games.sgf")
    assert (done.code, done.out.partition(";")[0]) == (0, f"{tmp_path / 'games.sgf'}: 2 games = 2 written")
    found = list(kifu.read(tmp_path / "games.sgf"))
    assert [points(game) for game in found] == [[each.played for each in game[:-1]] for game in played]
    assert [str(game.result)[0] for game in found] == ["B" if game[0].winner == 1 else "W" for game in played]


def test_damaged_files_give_rows_or_one_line(tmp_path: Path) -> None:
    tried = try_all(chunk_fuzzer("lz-chunks@1", tmp_path / "tried", use_chunk), 1, 5, tmp_path / "input")
    assert 0 < tried.refused < tried.inputs
