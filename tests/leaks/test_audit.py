"""Leak detection: exactly the planted games and positions are found."""

from __future__ import annotations

import json
import random
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_positions as naive
from catalogues import rows, write_catalogue
from commands import is_error, run
from drawn_games import OneGame, cut, flat, read_sgf
from example_sets import layout_for, random_batch, write
from kgs_archives import archive, records
from kifu.corpus.hashes import hash_games as hash_whole_games
from kifu.corpus.positions import hash_positions
from kifu.corpus.schema import game_arrays
from kifu.datasets.dat import Dat
from kifu.datasets.formats import open_writer
from kifu.datasets.manifest import manifest_path
from kifu.errors import DropReason, FormatError, KifuError, RecipeError
from kifu.execution.executor import Executor
from kifu.leaks.audit import audit, hash_records, open_set
from kifu.leaks.report import BANDS
from kifu.point import ERASE_BIT, WHITE_BIT, parse_sgf, to_sgf
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe
from naive import NaiveBoard
from naive_hashes import symmetric, turned
from serializing import ENGINE, SerializingExecutor, install

# the hash of a position


def batch(games, **columns):
    arrays = flat(games)
    canonical, opening = hash_whole_games(arrays)
    return rows(
        width=arrays.width, height=arrays.height, moves=[game.moves for game in games],
        setup=[[word for _, word in game.setup] for game in games],
        setup_ply=[[ply for ply, _ in game.setup] for game in games], canonical=canonical, opening=opening, **columns,
    )  # fmt: skip


def hashed(games, **columns):
    found = hash_positions(game_arrays(batch(games, **columns)))
    return list(zip(found.game.tolist(), found.hashes.tolist(), found.stones.tolist()))


def expected(games):
    return [(number, *each) for number, game in enumerate(games) for each in naive.positions(game)]


@st.composite
def wild_games(draw):
    """Generate games on small boards with captures, kos, suicides, passes, later setup and impossible moves."""
    rng = draw(st.randoms(use_true_random=False))
    width, height = draw(st.sampled_from([(1, 1), (3, 3), (4, 3), (3, 4), (5, 5), (9, 9)]))
    n = width * height
    board, moves = NaiveBoard(width, height), []
    for ply in range(rng.randint(0, 60)):
        colour = 1 + (ply % 2 if rng.random() < 0.9 else 0)
        points = [p for p in rng.sample(board.points(), n) if board.why_not(p, colour) == DropReason.KEPT]
        point = points[0] if points and rng.random() < 0.95 else None
        board.play(point, colour)
        moves.append((n if point is None else point[1] * width + point[0]) | (colour - 1) * WHITE_BIT)
    if moves and rng.random() < 0.3:
        moves[rng.randrange(len(moves))] = rng.randrange(n + 2)
    bits = lambda: rng.choice([0, WHITE_BIT, ERASE_BIT])  # noqa: E731
    points = n + (rng.random() < 0.1)
    plies = sorted(rng.choice([0, 0, rng.randint(0, 60)]) for _ in range(rng.choice([0, 0, 3, 9])))
    return OneGame(width, height, moves, tuple((ply, rng.randrange(points) | bits()) for ply in plies))


@pytest.mark.slow
@pytest.mark.nojit
@given(st.lists(wild_games(), max_size=3))
def test_hashes_follow_their_definition(games) -> None:
    assert hashed([*games, OneGame(2, 2, [0])]) == expected([*games, OneGame(2, 2, [0])])


def test_known_hashes() -> None:
    """These values never change: if this fails, `position@1` has changed."""
    game = OneGame(19, 19, [72, 288 | WHITE_BIT, 300, 361 | WHITE_BIT])
    assert [f"{h:016x}" for _, h, _ in hashed([game])] == [
        "dc26cd36f9bcc48f", "69d21c0de7078f1f", "2ca8e923e787747c", "0256842cdb4a5c46",
    ]  # fmt: skip


@pytest.mark.nojit
@given(st.randoms(use_true_random=False), st.integers(0, 7), st.booleans())
def test_hashes_are_invariant_under_symmetry_and_colour_swap(rng, k, swapped) -> None:
    width, height = rng.choice([(5, 5), (4, 6)])
    points = rng.sample(range(width * height), 10)
    game = OneGame(width, height, [point | ply % 2 * WHITE_BIT for ply, point in enumerate(points)])
    other = symmetric(game, k)
    if swapped:
        other = other._replace(moves=[move ^ WHITE_BIT for move in other.moves])
    assert hashed([other]) == hashed([game])


def test_different_positions_differ() -> None:
    """All positions of up to three stones in a corner have different hashes, unless a symmetry makes them equal."""
    games = [OneGame(7, 7, [a, b | WHITE_BIT, c, 49]) for a in range(7) for b in range(7, 14) for c in range(14, 21)]
    found = {h for _, h, _ in hashed(games)}
    seen = {
        min(
            tuple(sorted(turned(word, k, 7, 7) ^ colour for word in game.moves[:ply]))
            for k in range(8)
            for colour in [(ply % 2) * WHITE_BIT]
        )
        for game in games
        for ply in range(4)
    }
    assert len(found) == len(seen)
    sizes = [OneGame(w, h, [w * h]) for w in range(1, 26) for h in range(w, 26)]
    assert len({h for _, h, _ in hashed(sizes)}) == len(sizes)


def test_dropped_games_have_no_positions() -> None:
    assert hashed([OneGame(9, 9, [1, 2]), OneGame(9, 9, [3])], drop=["ko", None]) == [
        (1, naive.position_hash(9, 9, [], []), 0)
    ]


# data sets and catalogues


def swap_colours(data: bytes) -> bytes:
    return re.sub(rb";([BW])\[", lambda match: b";B[" if match[1] == b"W" else b";W[", data)


def turn(data: bytes, k: int) -> bytes:
    def point(match):
        return f"[{to_sgf(turned(parse_sgf(match[1].decode(), 19), k, 19, 19), 19)}]".encode()

    return re.sub(rb"\[([a-s]{2})\]", point, data)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two archives in both formats: games 1, 3 and 4 of the second are games 2, 5 and 6 of the first, transformed."""
    folder = tmp_path_factory.mktemp("audit")
    one, two = records(12, 2, 90), records(12, 3, 90)  # without suicides, which the program of 2015 left standing
    two[0], two[2], two[3] = turn(one[1], 5), swap_colours(one[4]), one[5][: one[5].rfind(b";", 0, -60)] + b")"
    archive(folder / "kgs", one, year=2001)
    archive(folder / "kgs", two, year=2002)
    for recipe, suffix in (("kgsgo-v1", "1"), ("kgsgo-v2", "2")):
        for file in build(load_recipe(recipe), [folder / "kgs"], folder / suffix, sets=["archives"], jobs=1):
            assert file.manifest.kept == 12
    for year, games in ((2001, one), (2002, two)):
        stem = f"KGS-{year}-19-12-"
        read = batch([read_sgf(data) for data in games], archive=[stem] * 12, entry=range(1, 13))
        write_catalogue(folder / f"{year}.parquet", read)
    return folder


def data_set(folder: Path, kind: str, year: int) -> Path:
    (path,) = folder.glob(f"{year}.parquet" if kind == "c" else f"{kind}/KGS-{year}-*.dat")
    return path


def shared_games(pair):
    """Return [(entry of the first, entry of the second)], both from 1, without the entry of the folder."""
    return [(game.first.entry, game.second.entry) for game in pair.games]


@pytest.mark.parametrize(("kinds"), ["11", "12", "21", "22", "1c", "c2", "cc"])
def test_shared_games_are_found_between_all_kinds_of_sets(built, kinds) -> None:
    first, second = data_set(built, kinds[0], 2001), data_set(built, kinds[1], 2002)
    found = audit([first, second], jobs=1)
    (pair,) = found.pairs
    assert found.leaks
    assert shared_games(pair) == [(2, 1), (5, 3), (6, 4)]
    assert (pair.first_games, pair.second_games) == (3, 3)
    assert all(game.positions > 5 and not game.record for game in pair.games)
    assert [game.cluster for game in pair.games] == [kinds == "cc"] * 3


def test_shared_early_positions_are_not_leaks(built, tmp_path) -> None:
    """Only the empty board is in both catalogues."""
    games = [[OneGame(19, 19, [(step * k) % 361 | k % 2 * WHITE_BIT for k in range(90)])] for step in (5, 7)]
    paths = [write_catalogue(tmp_path / f"{n}.parquet", batch(each)) for n, each in enumerate(games)]
    (pair,) = audit(paths, jobs=1).pairs
    assert pair.distinct == pair.first_rows == pair.second_rows
    assert sum(pair.distinct[1:]) == 0
    assert pair.distinct[0] >= 1
    assert (pair.leaks, pair.games) == (False, ())


def test_record_hashes_equal_those_of_their_games(built) -> None:
    game = hash_positions(game_arrays(batch([read_sgf(data) for data in records(12, 2, 90)])))
    stones_of = dict(zip(game.hashes.tolist(), game.stones.tolist()))
    for kind in "12":
        with Dat(data_set(built, kind, 2001)) as data:
            (part,) = data.records()
            hashes, stones = hash_records(part, data.format.name)
            del part
            assert len(hashes) > 900
            assert {h: stones_of[h] for h in hashes.tolist()} == dict(zip(hashes.tolist(), stones.tolist()))


@pytest.mark.nojit
def test_record_hashes_equal_those_of_their_planes(built_few) -> None:
    for path in built_few:
        with Dat(path) as data:
            (part,) = data.records()
            hashes, stones = hash_records(part[::7].copy(), data.format.name)
            del part
            for row, (h, n) in enumerate(zip(hashes.tolist(), stones.tolist())):
                planes, _ = data[7 * row]
                own, other = (np.flatnonzero(planes[k : k + 3].any(0)).tolist() for k in (0, 3))
                assert (h, n) == (naive.position_hash(19, 19, own, other), len(own) + len(other))


@pytest.fixture(scope="module")
def built_few(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("few")
    path = archive(folder, records(2, 3, 50))
    return [
        build(load_recipe(recipe), [path], folder / recipe, sets=["archives"], jobs=1)[0].path
        for recipe in ("kgsgo-v1", "kgsgo-v2")
    ]


def test_stones_in_two_planes_count_once(built) -> None:
    """As in dat2 files from before December 2015, in which planes 2 and 5 hold all stones."""
    with Dat(data_set(built, "2", 2001)) as data:
        (part,) = data.records()
        old = part.copy()
        del part
    bits = np.unpackbits(old["bits"], axis=1)
    planes = bits[:, : 7 * 361].reshape(-1, 7, 361)
    planes[:, 2], planes[:, 5] = planes[:, :3].any(1), planes[:, 3:6].any(1)
    before = hash_records(old, "dat2@1")
    old["bits"] = np.packbits(bits, axis=1)
    for now, then in zip(hash_records(old, "dat2@1"), before):
        assert np.array_equal(now, then)


def test_one_entry_of_one_archive_is_one_record(built) -> None:
    found = audit([data_set(built, "1", 2001), data_set(built, "2", 2001)], jobs=1)
    (pair,) = found.pairs
    assert shared_games(pair) == [(n, n) for n in range(1, 13)]
    assert all(game.record for game in pair.games)
    assert pair.first_rows == pair.second_rows
    assert sum(pair.first_rows) == found.sets[0].positions == found.sets[1].positions


def test_without_manifests_positions_are_still_compared(built, tmp_path) -> None:
    bare = tmp_path / "bare.dat"
    shutil.copy(data_set(built, "1", 2001), bare)
    with_manifest = data_set(built, "1", 2002)
    found = audit([bare, with_manifest], jobs=1)
    (pair,) = found.pairs
    assert [each.games for each in found.sets] == [None, 12]
    assert found.leaks
    assert (pair.first_games, pair.second_games) == (0, 3)
    assert [(game.first, game.second.entry) for game in pair.games] == [(None, 1), (None, 3), (None, 4)]
    other = tmp_path / "other.dat"
    shutil.copy(with_manifest, other)
    (pair_of_bare,) = audit([bare, other], jobs=1).pairs
    assert (pair_of_bare.games, pair_of_bare.leaks) == ((), True)
    assert pair_of_bare.distinct == pair.distinct
    assert sum(pair.distinct[BANDS.index(50) :]) > 20
    assert "neither file records its games" in run("audit", bare, other).out


def test_memory_limit_does_not_change_the_result(built) -> None:
    paths = [data_set(built, kind, year) for kind, year in (("1", 2001), ("2", 2002), ("c", 2002), ("c", 2001))]
    whole = audit(paths, jobs=1)
    assert [pair.leaks for pair in whole.pairs] == [True] * 6
    for rows_held, jobs in ((700, 1), (60, 2)):
        assert audit(paths, jobs=jobs, rows=rows_held) == whole


def test_shards_and_executors_do_not_change_the_result(built, tmp_path, monkeypatch) -> None:
    joined, arrays = tmp_path / "joined.dat", tmp_path / "arrays"
    joined.write_bytes(data_set(built, "2", 2001).read_bytes() + data_set(built, "2", 2002).read_bytes())
    with Dat(joined) as data, open_writer("npy", arrays, data.layout) as writer:
        for part in data.batches(500):
            writer.write(part)
        writer.commit({})
    catalogue = shutil.copy(data_set(built, "c", 2002), tmp_path)
    paths = [data_set(built, "1", 2001), catalogue, data_set(built, "c", 2001), joined, arrays]
    whole = audit(paths, jobs=1)
    assert sum(whole.pairs[-1].first_rows) == whole.sets[-1].positions > 1800
    pq.write_table(pq.read_table(catalogue), catalogue, row_group_size=2)
    monkeypatch.setattr("kifu.corpus.catalogue._SHARD_ROWS", 5)
    monkeypatch.setattr("kifu.leaks.audit._SHARD_ROWS", 400)
    monkeypatch.setattr("kifu.leaks.audit._EXAMPLE_ROWS", 90)
    assert audit(paths, jobs=2) == whole
    install(monkeypatch)
    assert audit(paths, engine=ENGINE) == whole
    assert (
        SerializingExecutor.shards
        == sum(-(-each.positions // 400) for each in whole.sets if each.kind != "catalogue") + 4
    )
    assert audit(paths, engine=ENGINE, rows=3000) == whole


def test_a_file_truncated_during_the_audit_raises(built, tmp_path, monkeypatch) -> None:
    path = tmp_path / "set.dat"
    shutil.copy(data_set(built, "1", 2001), path)
    opened = open_set(path)
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(FormatError, match=r"set\.dat has changed"):
        list(opened.positions(Executor(1)))


# a corpus of 2,000 games


def long_game(rng: random.Random) -> OneGame:
    points = rng.sample(range(361), 120)
    return OneGame(19, 19, [point | ply % 2 * WHITE_BIT for ply, point in enumerate(points)])


def disguises(rng: random.Random):
    """By name: transformations of a game of the other set."""
    swapped = lambda game: game._replace(moves=[move ^ WHITE_BIT for move in game.moves])  # noqa: E731
    more = lambda game: game._replace(moves=[*game.moves, *long_game(rng).moves])  # noqa: E731
    return {
        "none": lambda game: game,
        **{f"turned {k}": lambda game, k=k: symmetric(game, k) for k in range(1, 8)},
        "other colours": swapped,
        "other colours, turned": lambda game: swapped(symmetric(game, 6)),
        "passes at the end": lambda game: game._replace(moves=[*game.moves, 361, 361 | WHITE_BIT, 361]),
        "cut off": lambda game: cut(game, 75),
        "cut off early": lambda game: symmetric(cut(game, 40), 3),
        "goes on": more,
        "another ending": lambda game: more(cut(symmetric(game, 4), 60)),
    }


def lookalikes(rng: random.Random):
    """By name: games that share positions without being leaks."""
    return {
        "another middle game": lambda game: cut(game, 40)._replace(moves=game.moves[:40] + long_game(rng).moves[40:]),
        "a few moves": lambda game: cut(game, 12),
        "another board": lambda game: OneGame(21, 21, game.moves),
    }


def test_exactly_the_planted_games_are_found(tmp_path) -> None:
    rng = random.Random(7)
    first = [long_game(rng) for _ in range(1000)]
    second = [long_game(rng) for _ in range(1000)]
    hidden = disguises(rng)
    for number, disguise in enumerate([*hidden.values(), *lookalikes(rng).values()]):
        second[40 * number] = disguise(first[20 * number + 3])
    paths = [write_catalogue(tmp_path / f"{n}.parquet", batch(games)) for n, games in enumerate((first, second))]
    (pair,) = audit(paths).pairs
    wanted = {name: (20 * number + 3, 40 * number) for number, name in enumerate(hidden)}
    found = {(game.first.row, game.second.row): game for game in pair.games}
    assert sorted(found) == sorted(wanted.values())
    assert (pair.first_games, pair.second_games) == (len(hidden), len(hidden))
    assert {name for name, key in wanted.items() if not found[key].positions} == {"cut off early"}
    assert {name for name, key in wanted.items() if not found[key].cluster} == {"another ending"}
    assert 5 <= found[wanted["another ending"]].positions <= 11


def test_a_game_in_several_sets_is_listed_in_each_pair(tmp_path) -> None:
    rng = random.Random(8)
    game = long_game(rng)
    games = [[game, symmetric(game, 1), long_game(rng)], [long_game(rng), symmetric(game, 2)], [long_game(rng)], [game]]
    paths = [write_catalogue(tmp_path / f"{n}.parquet", batch(each)) for n, each in enumerate(games)]
    found = audit(paths, jobs=1)
    shared = [[(g.first.row, g.second.row) for g in pair.games] for pair in found.pairs]
    assert shared == [[(0, 1), (1, 1)], [], [(0, 0), (1, 0)], [], [(1, 0)], []]
    assert [pair.leaks for pair in found.pairs] == [True, False, True, False, True, False]


# the command


def test_the_command_reports_leaks(built, tmp_path) -> None:
    report = tmp_path / "audit.json"
    done = run("audit", data_set(built, "1", 2001), data_set(built, "2", 2002), "--json", report, "--jobs", 1)
    assert done.code == 1
    assert "games in both: 3 of the first, 3 of the second" in done.out
    assert re.search(r"KGS-2001-19-12-, entry 3 \(row \d+\) = KGS-2002-19-12-, entry 2 \(row 0\): \d+ late", done.out)
    printed = run("audit", data_set(built, "1", 2001), data_set(built, "2", 2002), "--json", "-", "--jobs", 1)
    assert (printed.code, printed.out) == (1, report.read_text("utf-8"))
    table = json.loads(printed.out)
    assert table["leaks"] is True
    assert table["stones"][-2:] == [[50, 99], [100, None]]
    assert [each["kind"] for each in table["sets"]] == ["dat1@1", "dat2@1"]
    assert [game["second"]["entry"] for game in table["pairs"][0]["games"]] == [1, 3, 4]


def test_the_command_exits_with_0_without_leaks(built, tmp_path) -> None:
    clean = write_catalogue(tmp_path / "clean.parquet", batch([long_game(random.Random(9))]))
    none = write_catalogue(tmp_path / "none.parquet", batch([]))
    done = run("audit", clean, data_set(built, "1", 2001), none)
    assert (done.code, done.out.splitlines()[-1]) == (0, "no game in two sets")
    assert done.out.count("no game in two sets") == 4
    is_error(run("audit", clean), "at least 2 files")


def test_bad_files_give_one_line(built, tmp_path) -> None:
    good = data_set(built, "1", 2001)
    whole = {"parquet": data_set(built, "c", 2001).read_bytes(), "dat": good.read_bytes()}
    bad = {
        "empty": b"", "text": b"(;GM[1])", "mark": b"PAR1", "cut.parquet": whole["parquet"][:-100],
        "cut.dat": whole["dat"][:-100], "end.parquet": whole["parquet"][:-8] + b"\0" * 8,
    }  # fmt: skip
    for name, data in bad.items():
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(KifuError, match=re.escape(str(path))):
            audit([good, path])
    for path in (tmp_path / "missing", tmp_path, Path("a\0b")):
        with pytest.raises(KifuError):
            audit([good, path])
    with pytest.raises(RecipeError, match="got 1"):
        audit([good])


def test_planes_that_do_not_show_the_stones_raise(built, tmp_path) -> None:
    path, layout = tmp_path / "old.npy", layout_for("npy@1")
    write("npy@1", path, layout, random_batch(layout, 20))
    with pytest.raises(FormatError, match="planes of made up do not show the stones of each side, which"):
        audit([data_set(built, "1", 2001), path])


def test_a_manifest_of_another_file_raises(built, tmp_path) -> None:
    path = tmp_path / "set.dat"
    shutil.copy(data_set(built, "1", 2001), path)
    shutil.copy(manifest_path(data_set(built, "1", 2002)), manifest_path(path))
    with pytest.raises(FormatError, match="it has other bytes than its manifest lists"):
        audit([path, path])
    manifest_path(path).write_text("{}")
    with pytest.raises(FormatError, match="is not a manifest"):
        audit([path, path])


@pytest.mark.slow
def test_the_documented_audit_of_the_2015_sets_holds(shared, tmp_path, monkeypatch) -> None:
    build(load_recipe("kgsgo-v1"), [shared / "data/kgs"], tmp_path / "sets", sets=["test", "train10k"])
    monkeypatch.chdir(tmp_path)
    done = run("audit", "sets/kgsgo-test.dat", "sets/kgsgo-train10k.dat")
    for path in (tmp_path / "sets").iterdir():  # 0.7 GB
        path.unlink()
    page = (Path(__file__).parents[2] / "docs/audit.md").read_text("utf-8")
    assert "".join(f"    {line}\n" if line else "\n" for line in done.out.splitlines()) in page
    assert done.code == 0


@pytest.mark.parametrize("form", ["parquet", "npy", "hdf5"])
def test_other_data_sets_are_compared_by_position(tmp_path: Path, form: str) -> None:
    for name, seed in (("a", 1), ("b", 2)):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as written:
            for k, record in enumerate(records(6, seed, plies=80)):
                written.writestr(f"{k}.sgf", record)
        assert run("ingest", tmp_path / f"{name}.zip", "-o", tmp_path / f"{name}.parquet").code == 0
    settings = [
        "clean=legal", 'labels=["move"]', "positions.passes=false", 'split={kind="hash", sets={all=1.0}}',
        "planes=seven@1",
    ]  # fmt: skip
    overrides = [part for setting in settings for part in ("--set", setting)]
    built = run("build", "agz17", tmp_path / "a.parquet", "--output", tmp_path / "sets", "--format", form, *overrides)
    assert built.code == 0, built.err
    (path,) = (p for p in (tmp_path / "sets").glob("all*") if "manifest" not in p.name)
    same, other = audit([tmp_path / "a.parquet", path]), audit([path, tmp_path / "b.parquet"])
    positions = same.sets[1].positions
    assert positions > 400
    assert sum(same.pairs[0].second_rows) == positions
    assert (same.leaks, other.leaks) == (True, False)


def test_tokens_are_compared_by_game_and_position(built, tmp_path) -> None:
    recipe = load_recipe("tokens", ["clean=legal"]).model_copy(update={"split": None})
    paths = []
    for year in (2001, 2002):
        build(recipe, built / f"{year}.parquet", tmp_path / str(year), jobs=1)
        paths.append(tmp_path / str(year) / "all")
    found, expected = audit(paths, jobs=1), audit([built / "2001.parquet", built / "2002.parquet"], jobs=1)
    assert [each.kind for each in found.sets] == ["tokens@1"] * 2
    assert [(each.games, each.positions) for each in found.sets] == [(e.games, e.positions) for e in expected.sets]
    assert found.pairs[0].distinct == expected.pairs[0].distinct
    assert shared_games(found.pairs[0]) == [(1, 0), (4, 2), (5, 3)]  # entries are games, from 0
    (pair,) = audit([paths[0], built / "2001.parquet"], jobs=1).pairs
    assert (pair.first_games, pair.second_games) == (12, 12)
    (same,) = audit([paths[0], paths[0]], jobs=1).pairs
    assert all(game.record for game in same.games)
