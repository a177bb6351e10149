"""The kgsgo planes: the program's own bytes, and a slow twin of the program on any game, byte for byte."""

import json
import random
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import kifu
from kgs_archives import BROKEN, archive, members, record
from kifu.datasets.dat import find_dat_layout
from kifu.datasets.manifest import read_game_rows
from kifu.errors import DropReason, GameError
from kifu.execution.executor import Executor
from kifu.planes.packing import DAT1, DAT2
from kifu.point import to_sgf
from kifu.recipes.kgs import parse_archive_name
from kifu.recipes.kgsgo import load_archive
from kifu.recipes.pipeline import BuildOptions, build_any
from kifu.recipes.schema import load_recipe
from naive_kgsgo import Board, RefusedError, examples_of

RECIPES = {1: load_recipe("kgsgo-v1"), 2: load_recipe("kgsgo-v2")}

# Why the program raised, or passed a record over
REASONS = {
    "07_HA1": "BAD_HANDICAP", "12_HA2_AB_AE_same_point": "SETUP_TWICE", "14_occupied_point": "OCCUPIED",
    "16_suicide_single_then_replayed": "OCCUPIED", "23_size9": "WRONG_SIZE", "25_SZ_19:19": "BAD_SIZE",
    "30_truncated": "TRUNCATED", "31_off_board_move": "OFF_BOARD", "32_upper_case_point": "OFF_BOARD",
    "36_HA_text": "BAD_HANDICAP", "41_empty_file": "NO_RECORD", "43_bad_CA": "BAD_CHARSET",
}  # fmt: skip


def build_games(folder, games, version):
    """Each record's bytes in the file that a build makes of an archive of them all, or the name of its `DropReason`."""
    source = archive(folder / "source", games)
    options = BuildOptions(Executor(1), sets=["archives"])
    (built,) = build_any(RECIPES[version], [source], folder / f"v{version}", options)
    layout = find_dat_layout(built.manifest.format)
    data = built.path.read_bytes()[layout.header_bytes :]
    kept = read_game_rows(built.manifest, built.path)
    found = {dropped.member: dropped.reason for dropped in built.manifest.dropped}
    at = 0
    for member, rows in zip(kept.member.tolist(), kept.rows.tolist()):
        found[member] = data[at : (at := at + rows * layout.record_bytes)]
    assert data[at:] == layout.end
    return [found[member] for member in range(1, len(games) + 1)]


def twin(game, version):
    try:
        return examples_of(game, version)
    except RefusedError:
        return None


# The program's own bytes


@pytest.fixture(scope="module")
def synthetic(shared):
    with tarfile.open(shared / "reference/kgsgo/synthetic.tar.gz") as file:
        return {Path(entry.name).name: file.extractfile(entry).read() for entry in file if entry.isfile()}


@pytest.mark.parametrize("version", [1, 2])
def test_synthetic_records(synthetic, tmp_path, version):
    """Each as the program wrote it, through the same path as any build; dropped, and said why, where it did not."""
    results = json.loads(synthetic["results.json"])
    names = sorted(results)
    assert len(names) == 48
    built = build_games(tmp_path, [synthetic[f"{name}.sgf"] for name in names], version)
    for name, made in zip(names, built):
        refused = results[name][f"v{version}"]["exception"] or "not 19" in results[name]["v1"]["printed"]
        assert bool(refused) == (name in REASONS)
        assert made == (REASONS[name] if refused else synthetic[f"{name}.v{version}.bin"]), name


@pytest.mark.parametrize("version", [1, 2])
def test_the_twin_is_the_program(synthetic, version):
    for name, result in json.loads(synthetic["results.json"]).items():
        made = twin(synthetic[f"{name}.sgf"], version)
        if name in REASONS:
            assert made is None, name
        else:
            assert b"".join(e.data for e in made) == synthetic[f"{name}.v{version}.bin"], name
            assert len(made) == result[f"v{version}"]["examples_written"]


def describe(record, version):
    """An example as planes.txt tells it: the move, liberties of own and of enemy stones, points marked as ko."""
    planes = np.zeros((1, 8 if version == 1 else 7, 19, 19), np.uint8)
    labels = np.zeros(1, np.int32)
    unpack = kifu.planes.packing.unpack_dat1 if version == 1 else kifu.planes.packing.unpack_dat2
    unpack(np.frombuffer(record, DAT1 if version == 1 else DAT2), planes, labels)
    name = lambda row, col: to_sgf((18 - row) * 19 + col, 19)  # noqa: E731
    where = lambda k: {name(row, col) for row, col in np.argwhere(planes[0, k]).tolist()}  # noqa: E731
    sides = [{f"{p}:{k + 1}" for k in range(3) for p in where(first + k)} for first in (0, 3)]
    return name(*divmod(int(labels[0]), 19)), *sides, where(6)


@pytest.mark.parametrize("version", [1, 2])
def test_the_readable_form_of_the_program_s_bytes(synthetic, version):
    wanted, name = {}, None
    for line in synthetic["planes.txt"].decode().splitlines():
        if line.startswith("---- "):
            name = line.split()[1]
            wanted[name] = {1: [], 2: []}
        elif line.strip() == "v2 same":
            wanted[name][2] = wanted[name][1]
        elif line.startswith("   v"):
            reported = re.fullmatch(r" +v(.) ex\d+ move (..) \| own (\S*) ?enemy ?(\S*) *(?:KO (.*))?", line)
            stones = [set(filter(None, side.split(","))) for side in (reported[3], reported[4])]
            marked = {point[:2] for point in (reported[5] or "").split(",")} - {""}
            wanted[name][int(reported[1])].append((reported[2], *stones, marked))
    assert len(wanted) == 48
    size = find_dat_layout(RECIPES[version].format).record_bytes
    for name, examples in wanted.items():
        data = synthetic[f"{name}.v{version}.bin"]
        assert [describe(data[i : i + size], version) for i in range(0, len(data), size)] == examples[version], name


# The twin on any game


def crowded_game(seed, plies, side, handicap, legal):
    """Play in a corner, with captures, kos and suicides. If not `legal`, it ends with a stone on another."""
    rng = random.Random(seed)
    corner = [(18 - row if seed % 2 else row, col) for row in range(side) for col in range(side)]
    board = Board()
    text = rng.choice(["(;SZ[19]", "(;GM[1]FF[4]CA[UTF-8]"])
    if handicap is not None:
        points = rng.sample(corner, rng.randrange(side))
        cut = rng.randint(0, len(points))
        text += f"HA[{handicap}]"
        for name, part in (("AB", points[:cut]), (rng.choice(["AW", "AE", "AB"]), points[cut:])):
            text += name * bool(part) + "".join(f"[{spell(point)}]" for point in part)
        if handicap:
            for point in points:
                board.play(point, "b")
    colour = rng.choice("bw")
    for _ in range(plies):
        kind = rng.random()
        if kind < 0.02:
            text += f";{colour.upper()}[{rng.choice(['', 'tt'])}]"
        elif kind < 0.04:
            text += f";C[a word];{rng.choice(['AB', 'AE'])}[{spell(rng.choice(corner))}]"
        else:
            empty = [p for p in corner if p not in board.stones and (rng.random() < 0.03 or breathes(board, p, colour))]
            if not empty:
                break
            point = rng.choice(empty)
            text += f";{colour.upper()}[{spell(point)}]"
            board.play(point, colour)
        if rng.random() < 0.9:
            colour = "b" if colour == "w" else "w"
    if not legal and board.stones:
        text += f";{colour.upper()}[{spell(rng.choice(sorted(board.stones)))}]"
    return (text + ")").encode()


GAMES = st.builds(
    crowded_game,
    seed=st.integers(0, 2**32),
    plies=st.integers(0, 150),
    side=st.integers(2, 7),
    handicap=st.sampled_from([None, None, 0, 2, 9, -1]),
    legal=st.sampled_from([True] * 9 + [False]),
)


def breathes(board, point, colour):
    after = Board()
    after.stones = dict(board.stones)
    after.play(point, colour)
    return after.string(point)[1] > 0


def spell(point):
    row, col = point
    return to_sgf((18 - row) * 19 + col, 19)


def check(source, listed, version):
    for k, (game, made) in enumerate(zip(listed, build_games(source, listed, version))):
        expected = twin(game, version)
        if expected is None:
            assert isinstance(made, str), (k, game)
            assert DropReason[made] != DropReason.KEPT, (k, game)
        else:
            assert made == b"".join(e.data for e in expected), (k, game)


@pytest.mark.nojit
@settings(max_examples=max(8, settings().max_examples // 3))
@given(st.lists(GAMES, min_size=1, max_size=3), st.sampled_from([1, 2]))
@example([b"(;HA[2]AB[aa:ss];)"], 1)  # a full board: stones without liberties from the start
@example([b"(;HA[2]AB[aa:ss]AE[jj];W[])"], 2)
@example([b"(;HA[0]AB[zz];B[aa];W[bb])"], 2)  # setup that is never looked at
@example([b"(;B[ab];W[zz];B[tt];W[])"], 1)
@example([b"(;B[ab]" + b";B[]" * 300 + b";W[tt];W[cd])"], 1)  # plies beyond a byte
@example([b"(;SZ[19]HA[-5];W[aa])"], 2)
def test_random_games(tmp_path_factory, listed, version):
    check(tmp_path_factory.mktemp("games"), listed, version)


@pytest.mark.parametrize("version", [1, 2])
def test_random_games_of_full_length(tmp_path, version):
    """Every point played once, in random order: large strings, large captures."""
    check(tmp_path, [record(0, 361), record(2, 300, 9)], version)


@pytest.mark.parametrize("version", [1, 2])
def test_broken_records_are_dropped_with_their_reason(tmp_path, version):
    assert build_games(tmp_path, list(BROKEN.values()), version) == list(BROKEN)
    assert [twin(game, version) for name, game in BROKEN.items() if name != "NOT_GO"] == [None] * (len(BROKEN) - 1)


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
def test_real_games(shared, tmp_path, version):
    chosen = []
    for path in sorted((shared / "data/kgs").glob("KGS-200*")):
        listed = members(path)
        chosen += random.Random(version).sample(listed, 4)
        chosen += [game for game in listed if b"HA[" in game][:2]
    assert len(chosen) == 24
    check(tmp_path, chosen, version)


# `encode`, on the same kernel


@pytest.mark.parametrize(("version", "planes"), [(1, "kgsgo8"), (2, "kgsgo7@1")])
def test_encode_gives_what_a_build_holds(tmp_path, version, planes):
    listed = [record(seed, 80, 4 * (seed % 2)) for seed in range(4)]
    build_games(tmp_path, listed, version)
    (path,) = (tmp_path / f"v{version}").glob("*.dat")
    with kifu.open(path) as data:
        whole = data.to_numpy()
    parts = [kifu.encode(kifu.read_sgf(game), planes) for game in listed]
    np.testing.assert_array_equal(np.concatenate([p for p, _ in parts]), whole[0])
    np.testing.assert_array_equal(np.concatenate([labels for _, labels in parts]), whole[1])
    assert parts[0][0].dtype == np.uint8
    assert parts[0][1].dtype == np.int32


def test_encode_of_a_game_without_examples():
    planes, labels = kifu.encode(kifu.read_sgf(b"(;SZ[19];B[dd])"), "kgsgo8")
    assert planes.shape == (0, 8, 19, 19)
    assert labels.shape == (0,)


@pytest.mark.parametrize("name", [name for name in BROKEN if name != "NO_RECORD"])
def test_encode_refuses_what_builds_drop(name):
    with pytest.raises(GameError):
        kifu.encode(kifu.read_sgf(BROKEN[name]), "kgsgo7")


def test_an_archive_is_read_whole(tmp_path):
    path = archive(tmp_path, [record(0), b"", record(1) + b"\n" + record(2)])
    loaded = load_archive(path, parse_archive_name(path.name))
    assert [loaded.name(int(g)) for g in loaded.rows(np.arange(3))] == [f"kgs-19-2001/{k:05}.sgf" for k in range(3)]
    assert DropReason(int(loaded.drop[loaded.rows(np.array([1]))[0]])) == DropReason.NO_RECORD
