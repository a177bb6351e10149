"""Splits that never leak: games that are made from others stay in their sets, and an audit finds them in others."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from catalogues import rows, write_catalogue
from commands import run
from drawn_games import OneGame, cut, flat
from kifu.config import check_config
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.hashes import hash_games
from kifu.corpus.links import find_links
from kifu.corpus.schema import to_numpy
from kifu.corpus.splits import HashSplit, load_split, split
from kifu.datasets.manifest import origins_path
from kifu.leaks.audit import audit
from kifu.point import WHITE_BIT
from kifu.recipes.pipeline import build
from kifu.recipes.schema import TokensRecipe
from naive_hashes import swapped, symmetric

HALVES = HashSplit(kind="hash", sets={"a": 1.0, "b": 1.0})


def catalogue(path: Path, games: list[OneGame], **columns) -> Path:
    arrays = flat(games)
    canonical, opening = hash_games(arrays)
    named = {
        "width": arrays.width,
        "height": arrays.height,
        "moves": [game.moves for game in games],
        "setup": [[word for _, word in game.setup] for game in games],
        "setup_ply": [[ply for ply, _ in game.setup] for game in games],
        "canonical": canonical,
        "opening": opening,
        "member": [f"{k}.sgf" for k in range(len(games))],
    }
    return write_catalogue(path, rows(**named | columns))


def random_game(rng: random.Random, plies: int = 200) -> OneGame:
    return OneGame(19, 19, [p | ply % 2 * WHITE_BIT for ply, p in enumerate(rng.sample(range(361), plies))])


def other_ending(rng: random.Random, game: OneGame, plies: int) -> OneGame:
    points = {move & ~WHITE_BIT for move in game.moves[:plies]}
    rest = [p for p in rng.sample(range(361), 361) if p not in points][:200]
    return game._replace(moves=game.moves[:plies] + [p | (plies + k) % 2 * WHITE_BIT for k, p in enumerate(rest)])


def changed(game: OneGame, *plies: int) -> OneGame:
    free = [p for p in range(361) if p not in {move & ~WHITE_BIT for move in game.moves}]
    moves = list(game.moves)
    for ply, point in zip(plies, free):
        moves[ply] = point | moves[ply] & WHITE_BIT
    return game._replace(moves=moves)


def as_setup(game: OneGame, plies: int) -> OneGame:
    return OneGame(19, 19, game.moves[plies:], tuple((0, move) for move in game.moves[:plies]))


def exchanged(game: OneGame) -> OneGame:
    return game._replace(moves=[game.moves[k] for k in (2, 1, 0)] + game.moves[3:])


def with_passes(game: OneGame, ply: int) -> OneGame:
    return game._replace(moves=[*game.moves[:ply], 361, 361 | WHITE_BIT, *game.moves[ply:]])


LEAKS = {
    "same": lambda game: game,
    "mirrored": lambda game: symmetric(game, 4),
    "rotated": lambda game: symmetric(game, 1),
    "colours swapped": swapped,
    "swapped and transposed": lambda game: swapped(symmetric(game, 6)),
    **{f"truncated to {plies}": lambda game, plies=plies: cut(game, plies) for plies in (100, 60, 40, 30, 29, 25, 20)},
    "ten moves as setup": lambda game: as_setup(game, 10),
    "ten moves as setup, truncated to 30": lambda game: cut(as_setup(game, 10), 20),
    "a move changed at ply 60": lambda game: changed(game, 60),
    "a move changed at ply 140": lambda game: changed(game, 140),
    "a move changed at ply 5": lambda game: changed(game, 5),
    "a move changed at ply 5, mirrored": lambda game: symmetric(changed(game, 5), 5),
    "a move changed at ply 5, truncated to 80": lambda game: cut(changed(game, 5), 80),
    "seven moves changed": lambda game: changed(game, 2, 3, 5, 7, 11, 13, 17),
    "a seventh of the moves changed": lambda game: changed(game, *range(3, 200, 7)),
    "moves 1 and 3 exchanged": exchanged,
    "moves 1 and 3 exchanged, truncated to 25": lambda game: cut(exchanged(game), 25),
    "two passes inserted": lambda game: with_passes(game, 6),
    "two passes inserted, truncated to 25": lambda game: cut(with_passes(game, 6), 27),
}


@pytest.mark.parametrize("name", LEAKS)
def test_no_split_separates_a_leak_and_every_audit_finds_it(tmp_path: Path, name: str) -> None:
    rng = random.Random(name)
    games = [random_game(rng) for _ in range(24)]
    others = [LEAKS[name](game) for game in games]
    paths = [catalogue(tmp_path / f"{k}.parquet", each) for k, each in enumerate((games, others))]
    (pair,) = audit(paths, jobs=1).pairs
    assert [(game.first.row, game.second.row) for game in pair.games] == [(k, k) for k in range(24)]
    report = split(paths, tmp_path / "sets", by=HALVES)
    assert report.unset == 0
    members = [set(read(file, "member")) for file in report.sets]
    assert members[0] | members[1] == {f"{k}.sgf" for k in range(24)}
    assert not members[0] & members[1]
    assert min(map(len, members)) > 3


def test_built_sets_are_those_of_a_split(tmp_path: Path) -> None:
    """All leaks in one corpus, and games whose copies come first or in another catalogue."""
    rng = random.Random(6)
    games = [random_game(rng) for _ in LEAKS]
    others = [leak(game) for game, leak in zip(games, LEAKS.values())]
    start = random_game(rng, 25)
    others += [*(other_ending(rng, start, 12) for _ in range(9)), cut(start, 12)]

    def ids(n: int, each: list[OneGame]) -> list[int]:
        return [1000 * n + k for k in range(len(each))]

    paths = [
        catalogue(tmp_path / f"{n}.parquet", each, member=[f"{'ab'[n]}{k}" for k in range(len(each))], id=ids(n, each))
        for n, each in enumerate((games, others))
    ]
    table = {"kind": "tokens", "name": "mine", "title": "mine", "split": HALVES.model_dump()}
    recipe = check_config(TokensRecipe, table, "recipe", "mine")
    built = [report.path for report in build(recipe, paths, tmp_path / "built", jobs=1)]
    made = split(paths, tmp_path / "sets", by=HALVES)
    assert made.unset == 1
    for built_set, file in zip(built, made.sets):
        origins = pq.read_table(origins_path(built_set))
        names = [f"{'ab'[k]}{row}" for k, row in zip(*(origins[name].to_pylist() for name in ("archive", "member")))]
        assert names == read(file, "member")
        assert len(read(file, "member")) > 10
    assert audit(built, jobs=1).leaks is False
    assert audit(list(made.sets), jobs=1).leaks is False


def read(path: Path, column: str) -> list[str]:
    return [value for batch in open_catalogue(path).batches((column,)) for value in batch[column].to_pylist()]


@pytest.mark.parametrize("plies", [1, 2, 5, 12, 19])
def test_short_beginnings_of_one_game_stay_with_it(tmp_path: Path, plies: int) -> None:
    rng = random.Random(plies)
    game = random_game(rng)
    paths = [catalogue(tmp_path / "a.parquet", [game, cut(game, plies), cut(game, plies + 3)])]
    report = split(paths, tmp_path / "sets", by=HALVES)
    assert sorted(report.sets.values()) == [0, 3]
    assert report.unset == 0


def test_beginning_of_several_games_is_in_no_set_and_ties_none(tmp_path: Path) -> None:
    rng = random.Random(1)
    start = random_game(rng, 25)
    games = [other_ending(rng, start, 12) for _ in range(40)]
    path = catalogue(tmp_path / "a.parquet", [*games, cut(start, 12), exchanged(cut(start, 12)), cut(games[0], 13)])
    links = find_links([path], split=True)
    assert links.first[:40].tolist() == [*range(40)]
    assert links.first[42] == 0
    report = split([path], tmp_path / "sets", by=HALVES)
    assert report.unset == 2
    assert "40.sgf" not in read(tmp_path / "sets/a.parquet", "member") + read(tmp_path / "sets/b.parquet", "member")
    assert audit(list(report.sets), jobs=1).leaks is False


def test_games_that_share_an_opening_are_not_linked(tmp_path: Path) -> None:
    rng = random.Random(2)
    start = random_game(rng, 45)
    games = [other_ending(rng, start, 45) for _ in range(40)]
    games += [random_game(rng, 60) for _ in range(200)]
    assert np.unique(find_links([catalogue(tmp_path / "a.parquet", games)]).first).tolist() == [*range(240)]


def test_added_games_move_no_old_game_unless_they_tie_two_clusters(tmp_path: Path) -> None:
    rng = random.Random(3)
    old = [random_game(rng) for _ in range(60)]
    new = [LEAKS[name](game) for game, name in zip(old, list(LEAKS) * 3)]
    paths = [catalogue(tmp_path / f"{k}.parquet", each) for k, each in enumerate((old, new))]

    def codes(fitted: HashSplit) -> list[int]:
        return [code for batch in open_catalogue(paths[0]).batches() for code in fitted.codes(batch).tolist()]

    before, after = (HALVES.fit(each) for each in (paths[:1], paths))
    assert codes(before) == codes(after)


def test_memory_limit_and_dropped_games_do_not_change_the_links(tmp_path: Path) -> None:
    rng = random.Random(4)
    games = [random_game(rng) for _ in range(50)]
    games += [LEAKS[name](game) for game, name in zip(games, LEAKS)] + [cut(game, 15) for game in games]
    drop = ["ko" if k == 7 else None for k in range(len(games))]
    path = catalogue(tmp_path / "a.parquet", games, drop=drop)
    for wanted in (False, True):
        whole = find_links([path], split=wanted)
        spilled = find_links([path], split=wanted, rows=700)
        assert np.array_equal(whole.first, spilled.first)
        assert np.array_equal(whole.short, spilled.short)
        assert np.count_nonzero(whole.first == 7) == 1


def test_boards_of_other_sizes_and_empty_games(tmp_path: Path) -> None:
    small = OneGame(9, 9, [p | ply % 2 * WHITE_BIT for ply, p in enumerate(random.Random(5).sample(range(81), 45))])
    games = [small, symmetric(small, 3), OneGame(19, 19, []), OneGame(19, 19, [361]), OneGame(13, 9, small.moves)]
    assert find_links([catalogue(tmp_path / "a.parquet", games)]).first.tolist() == [0, 0, 2, 3, 4]
    assert len(find_links([catalogue(tmp_path / "b.parquet", [])], split=True).first) == 0


@pytest.mark.slow
@pytest.mark.parametrize("names", [["kgs"], ["tygem"], ["fox"], ["wild", "fox"]])
def test_audit_of_a_split_of_real_games_finds_nothing(shared: Path, tmp_path: Path, names: list[str]) -> None:
    folders = [str(shared / "data" / name) for name in names]
    assert run("ingest", *folders, "-o", tmp_path / "games.parquet").code == 0
    report = split([tmp_path / "games.parquet"], tmp_path / "sets", by=load_split("hash"))
    found = audit(list(report.sets))
    assert [len(pair.games) for pair in found.pairs] == [0, 0, 0]
    assert found.leaks is False
    assert report.largest < 200
    opening = np.concatenate([to_numpy(b["opening"]) for b in open_catalogue(tmp_path / "games.parquet").batches()])
    assert report.unset < len(opening) / 200
