"""Duplicates: by their hashes, and exact ones."""

import random
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_hashes as naive
from catalogues import rows, write_catalogue
from drawn_games import OneGame, flat
from kifu.corpus import duplicates
from kifu.corpus.duplicates import MIN_PLIES, Clusters, IdSet, exact_duplicates, find_clusters
from kifu.corpus.hashes import OPENING_PLIES, hash_games
from kifu.corpus.splits import split_keys
from kifu.errors import DropReason, FormatError
from kifu.execution.executor import Executor
from kifu.point import ERASE_BIT, WHITE_BIT
from kifu.records.containers import blocks, containers
from kifu.records.games import concat
from kifu.records.sgf import scan
from serializing import SerializingExecutor

KINDS = {DropReason.KEPT: "kept", DropReason.SAME_GAME: "same", DropReason.CUT_OFF: "cut"}


def cluster_games(games) -> Clusters:
    canonical, opening = hash_games(games)
    keys = duplicates._GameKeys(np.arange(len(opening)), opening, canonical, np.diff(games.move_offset))
    with (
        patch.object(duplicates, "_kept_keys", lambda _, within: [keys.select(within.contains(opening))]),
        patch.object(duplicates, "_games_with", lambda *_: [(0, games)]),
    ):
        found = duplicates._find((), duplicates._HashRange(0, 1))
    return duplicates._join([found], np.array([0, len(games.width)]))


def clusters(games) -> Clusters:
    return cluster_games(flat(games))


def relations_of(found: Clusters):
    members = [set(found.row[found.cluster == number].tolist()) for number in found.cluster]
    kinds = [KINDS[DropReason(relation)] for relation in found.relation]
    return list(zip(found.row.tolist(), members, kinds, found.row[found.representative].tolist()))


def some_moves(rng: random.Random, plies, n=361):
    """Moves anywhere on the board, mostly in turn, some of them passes."""
    return [rng.randrange(n + 1) | (ply % 2 if rng.random() < 0.95 else 0) * WHITE_BIT for ply in range(plies)]


@st.composite
def related_games(draw):
    """Games that are made from a few by cutting, turning, exchanging colours, going on, passing."""
    rng = draw(st.randoms(use_true_random=False))
    width, height = draw(st.sampled_from([(5, 5), (3, 4)]))
    n = width * height
    games = [OneGame(width, height, some_moves(rng, rng.randint(15, 45), n)) for _ in range(2)]
    games[1] = games[1]._replace(setup=((0, 3), (rng.randint(28, 45), 5 | ERASE_BIT)))
    games[1] = games[1]._replace(setup=tuple(entry for entry in games[1].setup if entry[0] <= len(games[1].moves)))
    while len(games) < 9:
        game = rng.choice(games)
        plies = rng.choice([len(game.moves), len(game.moves), *range(18, 22), *range(28, 40)])
        setup = tuple(entry for entry in game.setup if entry[0] < plies or (rng.random() < 0.5 and entry[0] == plies))
        game = game._replace(moves=game.moves[:plies], setup=setup)
        more = rng.choice([[], [], [n] * rng.randint(1, 5), some_moves(rng, 3, n)])
        game = game._replace(moves=game.moves + more)
        if rng.random() < 0.3:
            game = naive.swapped(game)
        games.append(naive.symmetric(game, rng.randrange(8)))
    rng.shuffle(games)
    return games


@pytest.mark.nojit
@given(related_games())
def test_clusters_equal_those_of_comparing_all_pairs(games):
    assert relations_of(clusters(games)) == naive.relations(games, MIN_PLIES, OPENING_PLIES)


PLANTS = ("equal", "turned", "swapped", "passes", "cut", "cut, turned and swapped")


def planted(rng: random.Random, count):
    """Games, all different but for some that are made from an earlier one; and (row, row made from, what) of these."""
    games, made, single = [], [], []
    for row in range(count):
        game = OneGame(19, 19, [rng.randrange(361) | ply % 2 * WHITE_BIT for ply in range(rng.randint(40, 250))])
        if single and rng.random() < 0.1:
            of, what = single.pop(rng.randrange(len(single))), rng.choice(PLANTS)
            game = games[of]
            plies = rng.randint(OPENING_PLIES, len(game.moves) - 1) if "cut" in what else None
            game = game._replace(moves=game.moves[:plies] + [361] * (2 * (what == "passes")))
            game = naive.swapped(game) if "swapped" in what else game
            game = naive.symmetric(game, rng.randrange(1, 8)) if "turned" in what else game
            made.append((row, of, what))
        else:
            single.append(row)
        games.append(game)
    return games, made


def expected(made):
    """In the form of `relations_of`: of two equal games the one with more passes is kept, else the first."""
    entries = []
    for row, of, what in made:
        gone, stays = (of, row) if what == "passes" else (row, of)
        entries += [(gone, {row, of}, "cut" if "cut" in what else "same", stays), (stays, {row, of}, "kept", stays)]
    return sorted(entries, key=lambda entry: entry[0])


def columns(games):
    canonical, opening = hash_games(flat(games))
    return {
        "canonical": canonical,
        "opening": opening,
        "moves": [game.moves for game in games],
        "setup": [[word for _, word in game.setup] for game in games],
        "setup_ply": [[ply for ply, _ in game.setup] for game in games],
    }


def test_exactly_the_planted_duplicates_are_found():
    games, made = planted(random.Random(3), 2000)
    assert len(made) > 100
    assert relations_of(clusters(games)) == expected(made)


def test_no_cluster_is_in_two_sets():
    games, _ = planted(random.Random(4), 2000)
    _, opening = hash_games(flat(games))
    found = clusters(games)
    codes = split_keys(opening, {"a": 1, "b": 1, "c": 1})[found.row]
    assert set(codes.tolist()) == {0, 1, 2}
    assert len(set(zip(found.cluster.tolist(), codes.tolist()))) == found.cluster.max() + 1 > 100


def assert_same(one: Clusters, other: Clusters) -> None:
    for field in fields(Clusters):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        assert (mine.dtype, mine.tolist()) == (theirs.dtype, theirs.tolist()), field.name


def test_ranges_and_executor_do_not_matter(tmp_path, monkeypatch):
    monkeypatch.setattr(SerializingExecutor, "shards", 0)
    games, made = planted(random.Random(6), 400)
    games += games[::7]
    path = write_catalogue(tmp_path / "games.parquet", rows(**columns(games)))
    whole = find_clusters([path])
    assert len(whole) > len(made)
    for share, jobs in ((1000, 2), (150, 1), (40, 2)):
        with Executor(jobs) as executor:
            assert_same(find_clusters([path], executor, games=share), whole)
    with SerializingExecutor() as executor:
        assert_same(find_clusters([path], executor, games=150), whole)
        assert SerializingExecutor.shards == 4
        assert_same(find_clusters([path], executor), whole)
        assert SerializingExecutor.shards == 5


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_each_opening_is_in_one_range(tmp_path, count):
    """Games whose openings lie at the ends of ranges, each twice: none is lost, and none found in two of them."""
    ends = {k * 2**64 // count + beside for k in range(count + 1) for beside in (-1, 0, 1)}
    openings = [opening for opening in sorted(ends) if 0 <= opening < 2**64] * 2
    games = [OneGame(19, 19, [p | p % 2 * WHITE_BIT for p in range(40)])] * len(openings)
    named = columns(games) | {"opening": openings, "canonical": openings}
    path = write_catalogue(tmp_path / "games.parquet", rows(**named))
    found = find_clusters([path], games=-(-len(games) // count))
    assert found.row.tolist() == [*range(len(openings))]
    assert found.cluster.tolist() == [*range(len(openings) // 2)] * 2
    assert found.relation.tolist() == [DropReason.KEPT] * (len(openings) // 2) + [DropReason.SAME_GAME] * (
        len(openings) // 2
    )


def test_clusters_of_several_catalogues(tmp_path):
    games, made = planted(random.Random(5), 600)
    cuts = [0, 150, 150, 600]
    paths = [
        write_catalogue(tmp_path / f"{k}.parquet", rows(**columns(games[start:stop])))
        for k, (start, stop) in enumerate(pairwise(cuts))
    ]
    found = find_clusters(paths)
    assert set(found.source.tolist()) == {0, 2}
    whole = np.array(cuts)[found.source] + found.row
    at_once = clusters(games)
    assert whole.tolist() == at_once.row.tolist()
    for name in ("cluster", "relation", "representative"):
        assert getattr(found, name).tolist() == getattr(at_once, name).tolist()
    assert relations_of(at_once) == expected(made)
    assert_same(find_clusters(paths, games=100), found)
    types = [getattr(found, name).dtype for name in ("source", "row", "cluster", "relation", "representative")]
    assert types == [np.int32, np.int64, np.int64, np.uint8, np.int64]


def test_dropped_games_are_ignored(tmp_path):
    game = OneGame(19, 19, some_moves(random.Random(1), 60))
    games = [game, game, game]
    path = write_catalogue(tmp_path / "a.parquet", rows(**columns(games), drop=["ko", None, None]))
    assert find_clusters([path]).row.tolist() == [1, 2]
    path = write_catalogue(tmp_path / "b.parquet", rows(**columns(games), drop=["ko", None, "same_game"]))
    assert len(find_clusters([path])) == 0


def test_longest_game_is_the_representative():
    long = OneGame(19, 19, [p | p % 2 * WHITE_BIT for p in range(90)])
    other = OneGame(19, 19, [*long.moves[:80], 300, 301 | WHITE_BIT])
    stub, shorter = (long._replace(moves=long.moves[:plies]) for plies in (60, 40))
    games = [stub, shorter, other, long, naive.swapped(shorter)]
    found = clusters(games)
    assert relations_of(found) == [
        (0, {0, 1, 2, 3, 4}, "cut", 3), (1, {0, 1, 2, 3, 4}, "cut", 3), (2, {0, 1, 2, 3, 4}, "kept", 2),
        (3, {0, 1, 2, 3, 4}, "kept", 3), (4, {0, 1, 2, 3, 4}, "cut", 3),
    ]  # fmt: skip


def test_game_that_ends_with_setup():
    moves = [p | p % 2 * WHITE_BIT for p in range(50)]
    stub, marked = (OneGame(19, 19, moves[:40], setup) for setup in ((), ((40, 300),)))
    plain, after, last = (OneGame(19, 19, moves, setup) for setup in ((), ((40, 300),), ((50, 300),)))
    assert relations_of(clusters([plain, last, stub])) == [
        (0, {0, 1, 2}, "cut", 1), (1, {0, 1, 2}, "kept", 1), (2, {0, 1, 2}, "cut", 1),
    ]  # fmt: skip
    assert relations_of(clusters([marked, after])) == [(0, {0, 1}, "cut", 1), (1, {0, 1}, "kept", 1)]


@pytest.mark.parametrize(("plies", "count"), [(0, 0), (MIN_PLIES - 1, 0), (MIN_PLIES, 3)])
def test_short_equal_games_are_not_reported(plies, count):
    game = OneGame(19, 19, [p | p % 2 * WHITE_BIT for p in range(plies)])
    assert len(clusters([game, game._replace(moves=game.moves + [361] * 30), game])) == count


@pytest.mark.parametrize(("plies", "count"), [(OPENING_PLIES - 1, 0), (OPENING_PLIES, 2)])
def test_short_beginnings_are_not_reported(plies, count):
    game = OneGame(19, 19, [p | p % 2 * WHITE_BIT for p in range(60)])
    assert len(clusters([game, game._replace(moves=game.moves[:plies])])) == count


def test_many_duplicates_of_one_game():
    games, made = planted(random.Random(7), 200)
    found = clusters(games * 10)
    assert len(found) == 2000
    assert found.cluster.max() + 1 == 200 - len(made)
    assert (found.row[found.relation == DropReason.KEPT] < 200).all()
    assert np.count_nonzero(found.relation == DropReason.KEPT) == 200 - len(made)


def test_no_duplicates(tmp_path):
    assert len(clusters([])) == len(clusters([OneGame(19, 19, [])])) == 0
    assert len(find_clusters([])) == 0
    with pytest.raises(FormatError):
        find_clusters([__file__])


@pytest.mark.slow
def test_kgs_duplicates(shared):
    """The figures by which OPENING_PLIES and MIN_PLIES are chosen."""
    games = concat([scan(block) for path in containers(shared / "data/kgs") for block in blocks(path)])
    canonical, opening = hash_games(games)
    assert [len(games), len(np.unique(canonical)), len(np.unique(opening))] == [64_842, 64_672, 63_680]
    found = cluster_games(games)
    counts = np.bincount(found.relation)
    assert {name: counts[drop] for drop, name in KINDS.items()} == {"kept": 9, "same": 4, "cut": 5}


parts_of_ids = st.lists(st.lists(st.integers(0, 30), max_size=40), max_size=8)


@pytest.mark.nojit
@given(parts_of_ids, st.none() | st.integers(0, 100))
def test_id_set(parts: list[list[int]], most: int | None) -> None:
    ids, seen, full = IdSet(most), set[int](), False
    for part in parts:
        new = ids.add(np.array(part, np.uint64))
        full |= most is not None and len(seen) + len(part) > most
        assert ids.full == full
        if full:
            assert new.tolist() == [key not in seen for key in part]
        else:
            assert new.tolist() == [key not in seen and key not in part[:k] for k, key in enumerate(part)]
            seen |= set(part)
        assert len(ids) == len(seen)
        assert most is None or len(ids) <= most


def test_id_set_grows() -> None:
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 2**64, 300_000, np.uint64)
    ids = IdSet()
    for part in np.array_split(keys, 7):
        assert ids.add(part).all()
    assert len(ids._table) * 8 <= 22 * len(keys)
    assert not ids.add(keys[::-3]).any()
    assert len(ids) == len(keys)


def test_crafted_ids_do_not_collide() -> None:
    """Were the table's slots the ids' own low bits, this would take hours."""
    keys = np.arange(1, 300_001, dtype=np.uint64) << np.uint64(40)
    assert IdSet().add(keys).all()


@pytest.mark.slow
@pytest.mark.parametrize("most", [6, 50, 10**6])
def test_exact_duplicates_equal_those_of_a_python_set(tmp_path: Path, most: int) -> None:
    rng = np.random.default_rng(most)
    paths, ids, drops = [], [], []
    for number in range(3):
        some = rng.integers(0, 2**64, 60, np.uint64)[rng.integers(0, 60, 80)].tolist()
        some[0] = ids[0] if ids else 0
        dropped = [str(rng.choice(["too_long", "ko"])) if rng.random() < 0.2 else None for _ in some]
        paths.append(write_catalogue(tmp_path / f"{number}.parquet", rows(id=some, drop=dropped)))
        ids += some
        drops += dropped
    seen, expected = set(), []
    for k, (key, drop) in enumerate(zip(ids, drops)):
        if drop is None:
            expected += [k] if key in seen else []
            seen.add(key)
    assert len(expected) > 20
    assert exact_duplicates(paths, max_ids=most).tolist() == expected
    with Executor(2) as threads, SerializingExecutor() as processes:
        for executor in (threads, processes):
            assert exact_duplicates(paths, executor, max_ids=most).tolist() == expected


def test_id_table_respects_its_maximum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the ids are: here all begin with the same bits."""
    path = write_catalogue(tmp_path / "a.parquet", rows(id=range(40_000)))
    tables = []

    class Watched(IdSet):
        def add(self, ids):
            new = super().add(ids)
            tables.append(len(self))
            return new

    monkeypatch.setattr(duplicates, "IdSet", Watched)
    assert len(exact_duplicates([path], max_ids=4_000)) == 0
    assert max(tables) < 5_000


def test_exact_duplicates_of_empty_input(tmp_path: Path) -> None:
    assert exact_duplicates([]).tolist() == []
    assert exact_duplicates([write_catalogue(tmp_path / "a.parquet", rows(id=[]))]).tolist() == []
    with pytest.raises(FormatError, match="not a catalogue"):
        exact_duplicates([Path(__file__)])
