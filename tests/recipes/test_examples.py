"""Data sets of examples: what a recipe says is what is written, for any number of threads and size of windows."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import kifu
from catalogues import rows, write_catalogue
from commands import run
from example_sets import bytes_of
from kgs_archives import BROKEN, archive, records
from kifu.assets import config_names
from kifu.config import check_config
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.datasets.examples import Batch, concat
from kifu.datasets.labels import LABELS, MAX_NEXT, find_label
from kifu.datasets.manifest import find_origin, origins_path, read_manifest
from kifu.errors import FormatError, OutputError, RecipeError, SourceError
from kifu.io import read_small
from kifu.point import POINT_MASK, WHITE_BIT
from kifu.recipes.pipeline import build
from kifu.recipes.schema import ExamplesRecipe, load_recipe

PLAIN: dict[str, Any] = {
    "kind": "examples", "name": "mine", "title": "a recipe of my own", "planes": "seven", "format": "npy",
}  # fmt: skip
SPLIT = {"kind": "hash", "sets": {"train": 2.0, "test": 1.0}}


def recipe(**changes: Any) -> ExamplesRecipe:
    return check_config(ExamplesRecipe, PLAIN | changes, "recipe", "mine")


@pytest.fixture(scope="module")
def kgs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kgs")
    archive(folder, [*records(20, 1), BROKEN["OCCUPIED"], BROKEN["WRONG_SIZE"]], year=2001)
    archive(folder, records(15, 2), year=2002)
    return folder


@pytest.fixture(scope="module")
def games(kgs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("catalogue") / "some.parquet"
    ingest(kgs, path)
    return path


def read(path: Path) -> Batch:
    with kifu.open(path) as data:
        return concat(list(data.batches()), data.layout)


def usable(path: Path) -> list[tuple[int, int, kifu.Game]]:
    (batch,) = open_catalogue(path).batches(("id", "drop"))
    rows = zip(batch["id"].to_pylist(), batch["drop"].to_pylist(), open_catalogue(path).games())
    return [(k, key, game) for k, (key, drop, game) in enumerate(rows) if drop is None and game.width == 19]


# What is in it


def test_examples_are_those_that_encode_gives(games: Path, tmp_path: Path) -> None:
    (built,) = build(recipe(), games, tmp_path)
    with kifu.open(built.path) as data:
        planes, moves = data.to_numpy()
    batch = read(built.path)
    wanted = [kifu.encode(game, "seven") for _, _, game in usable(games)]
    assert np.array_equal(planes, np.concatenate([each for each, _ in wanted]))
    assert np.array_equal(moves, np.concatenate([labels for _, labels in wanted]))
    assert np.array_equal(batch.game, np.repeat([key for _, key, _ in usable(games)], [len(x) for x, _ in wanted]))
    for name in ("npy", "parquet", "hdf5", "book-npy"):
        (other,) = build(recipe(format=name), games, tmp_path / name)
        with kifu.open(other.path) as data:
            assert np.array_equal(data.to_numpy()[0], planes)
            assert np.array_equal(data.to_numpy()[1], moves)


def test_shuffled_examples_are_a_permutation(games: Path, tmp_path: Path) -> None:
    (plain,) = build(recipe(format="parquet"), games, tmp_path / "plain")
    seen = []
    for seed in (1, 2):
        (built,) = build(recipe(format="parquet", order="shuffled", seed=seed), games, tmp_path / str(seed))
        seen.append((batch := read(built.path)).game)
        inverse, ordered = np.lexsort((batch.ply, batch.game)), read(plain.path)
        order = np.lexsort((ordered.ply, ordered.game))
        assert np.array_equal(batch.planes[inverse], ordered.planes[order])
        assert np.array_equal(batch.labels["move"][inverse], ordered.labels["move"][order])
        neighbours = np.mean(batch.game[1:] == batch.game[:-1])
        assert neighbours < 0.06  # of 35 games, one in 35 is expected
    assert not np.array_equal(*seen)


def test_labels(games: Path, tmp_path: Path) -> None:
    chosen = recipe(labels=["next3", "move", "result", "ranks", "komi", "ply"], positions={"passes": True})
    (built,) = build(chosen, games, tmp_path)
    batch = read(built.path)
    assert list(batch.labels) == ["next3", "move", "result", "ranks", "komi"]
    at = 0
    for _, _, game in usable(games):
        moves = (game.moves & POINT_MASK).tolist()
        for ply in range(len(moves)):
            following = [*moves[ply : ply + 3], -1, -1][:3]
            assert batch.labels["next3"][at].tolist() == following
            assert (batch.labels["move"][at], batch.ply[at]) == (moves[ply], ply)
            at += 1
    assert at == len(batch)
    assert np.all(batch.labels["result"] == -128)
    assert np.all(np.isnan(batch.labels["ranks"]))


def test_labels_from_the_mover_s_side(tmp_path: Path) -> None:
    white = WHITE_BIT
    game = [0, white | 8, 1, white | 4, white | 9, 7]
    path = write_catalogue(
        tmp_path / "games.parquet",
        rows(
            width=[3] * 4, height=[3] * 4, moves=[game[:4], game[:4], game[:4], [0, 8 | white, 9]],
            winner=["black", "white", "draw", None], komi=[6.5, 0.0, None, -7.25],
            black_rating=[33.0, None, 35.0, 36.0], white_rating=[31.5, 30.0, None, 2.0],
            territory=[[2, 5, 8, white | 3], None, [], [white | p for p in range(9)]],
        ),
    )  # fmt: skip
    chosen = recipe(board="3x3", labels=["result", "ranks", "komi", "ownership", "move"])
    (built,) = build(chosen, path, tmp_path)
    batch = read(built.path)
    nan, unknown = float("nan"), -128
    assert batch.labels["move"].tolist() == [0, 8, 1, 4] * 3 + [0, 8]
    assert batch.labels["result"].tolist() == [1, -1, 1, -1, -1, 1, -1, 1, 0, 0, 0, 0, unknown, unknown]
    expected = [[33, 31.5], [31.5, 33]] * 2 + [[nan, 30], [30, nan]] * 2 + [[35, nan], [nan, 35]] * 2
    assert np.array_equal(batch.labels["ranks"][:12], np.array(expected, np.float32), equal_nan=True)
    komi = [6.5] * 4 + [0] * 4 + [nan] * 4 + [-7.25] * 2
    assert np.array_equal(batch.labels["komi"], np.array(komi, np.float32), equal_nan=True)
    # Black has 0 and 1, White 4; White's stone on 8 is dead in the first game, and 3 is White's point
    owned = np.array([1, 1, 1, -1, -1, 1, 0, 0, 1])
    assert batch.labels["ownership"][0].tolist() == owned.tolist()
    assert batch.labels["ownership"][1].tolist() == (-owned).tolist()
    assert np.all(batch.labels["ownership"][4:8] == unknown)
    assert batch.labels["ownership"][8].tolist() == [1, 1, 0, 0, -1, 0, 0, 0, -1]
    assert batch.labels["ownership"][12].tolist() == [-1] * 9


def test_positions_are_chosen(games: Path, tmp_path: Path) -> None:
    everything = read(build(recipe(format="parquet"), games, tmp_path / "all")[0].path)
    some = read(build(recipe(format="parquet", positions={"min_ply": 5, "max_ply": 9}), games, tmp_path / "b")[0].path)
    assert set(some.ply.tolist()) == {5, 6, 7, 8, 9}
    assert len(some) == np.count_nonzero((everything.ply >= 5) & (everything.ply <= 9))
    drawn = {}
    for seed in (0, 1):
        chosen = recipe(format="parquet", positions={"per_game": 4, "min_ply": 5}, seed=seed)
        drawn[seed] = read(build(chosen, games, tmp_path / f"c{seed}")[0].path)
        assert np.unique(drawn[seed].game, return_counts=True)[1].tolist() == [4] * 35
        assert drawn[seed].ply.min() >= 5
    assert not np.array_equal(drawn[0].ply, drawn[1].ply)
    early = np.mean(drawn[0].ply < 32)
    assert 0.3 < early < 0.7
    few = read(build(recipe(format="parquet", positions={"per_game": 100}), games, tmp_path / "d")[0].path)
    assert np.array_equal(few.planes, everything.planes)


def test_passes_are_a_class_if_asked_for(games: Path, tmp_path: Path) -> None:
    without = read(build(recipe(), games, tmp_path / "a")[0].path)
    with_passes = read(build(recipe(positions={"passes": True}), games, tmp_path / "b")[0].path)
    stays = with_passes.labels["move"] != 361
    assert np.count_nonzero(~stays) > 0
    assert np.array_equal(with_passes.planes[stays], without.planes)
    assert np.array_equal(with_passes.ply[stays], without.ply)


def test_smaller_boards_are_padded_if_asked_for(tmp_path: Path) -> None:
    path = write_catalogue(
        tmp_path / "games.parquet",
        rows(width=[5, 3], height=[5, 4], moves=[[7, WHITE_BIT | 25, 24], [4, WHITE_BIT | 12, 11]]),
    )
    chosen = recipe(board="5x5", labels=["move", "next2", "ownership"], pad=True, positions={"passes": True})
    (built,) = build(chosen, path, tmp_path / "padded")
    batch = read(built.path)
    assert batch.labels["move"].tolist() == [7, 25, 24, 6, 25, 17]
    assert batch.labels["next2"].tolist() == [[7, 25], [25, 24], [24, -1], [6, 25], [25, 17], [17, -1]]
    (built,) = build(recipe(board="5x5"), path, tmp_path / "plain")
    assert read(built.path).labels["move"].tolist() == [7, 24]
    assert built.manifest.drops == {"WRONG_SIZE": 1}


def test_sets_of_a_split_have_no_game_in_common(games: Path, tmp_path: Path) -> None:
    train, test = build(recipe(format="parquet", split=SPLIT), games, tmp_path)
    assert [each.path.name for each in (train, test)] == ["train.parquet", "test.parquet"]
    of_train, of_test = ({*read(each.path).game.tolist()} for each in (train, test))
    assert of_train
    assert of_test
    assert not of_train & of_test
    assert of_train | of_test == {key for _, key, _ in usable(games)}
    (only,) = build(recipe(format="parquet", split=SPLIT), games, tmp_path / "b", sets=["test"])
    assert only.path.read_bytes() == test.path.read_bytes()


# The manifest


def test_a_number_of_games_is_drawn_by_hash(games: Path, tmp_path: Path) -> None:
    def mix(x: int) -> int:
        x = (x + 0x9E3779B97F4A7C15) % 2**64
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
        return x ^ x >> 31

    (batch,) = open_catalogue(games).batches(("id", "drop"))
    kept = [key for key, drop in zip(*(batch[name].to_pylist() for name in ("id", "drop"))) if drop is None]
    drawn = sorted(kept, key=lambda key: mix(key ^ mix(5)))[:9]
    built = build(recipe(games=9, seed=5, split=SPLIT), games, tmp_path)
    found = {key for each in built for key in read(each.path).game.tolist()}
    assert found == {key for _, key, _ in usable(games) if key in drawn}
    for each in built:
        assert each.manifest.adds_up()
        assert each.manifest.elsewhere >= len(kept) - 9
    (all_of_them,) = build(recipe(games=99), games, tmp_path / "all")
    assert all_of_them.manifest.kept == len(usable(games))


@pytest.mark.parametrize(
    ("name", "order", "count"),
    [("book-npy", "corpus", 5), ("npy", "shuffled", 5), *product(["parquet", "hdf5"], ["corpus", "shuffled"], [60])],
)
def test_a_build_that_the_disk_has_no_room_for(
    name: str, order: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    ingest(kifu.sample_path(), tmp_path / "games.parquet")
    chosen = recipe(format=name, order=order, games=count)
    (built,) = build(chosen, tmp_path / "games.parquet", tmp_path / "fits")
    size = built.manifest.bytes
    foreseen = re.fullmatch(r".*fits: about ([\d.]+) ([kM])B", caplog.messages[-1])
    assert foreseen is not None
    assert size / 1.3 < float(foreseen[1]) * {"k": 1e3, "M": 1e6}[foreseen[2]] < 1.3 * size
    monkeypatch.setattr("kifu.io.shutil.disk_usage", lambda _: mock.Mock(free=size // 2))
    with pytest.raises(OutputError, match=r"the output takes [\d.]+ .B, but .*full has room for [\d.]+ .B"):
        build(chosen, tmp_path / "games.parquet", tmp_path / "full")
    assert not (tmp_path / "full").exists()


def test_the_manifest_adds_up_and_tells_where_rows_come_from(games: Path, tmp_path: Path) -> None:
    chosen = recipe(split=SPLIT, positions={"per_game": 9})
    dropped = []
    for built in build(chosen, games, tmp_path):
        m = built.manifest
        assert read_manifest(built.path) == m
        assert m.read == 37 == m.kept + m.elsewhere + sum(m.drops.values())
        assert m.drops["OCCUPIED"] == 1
        dropped.append(m.drops.get("WRONG_SIZE", 0))
        batch = read(built.path)
        ids = {k: key for k, key, _ in usable(games)}
        for row in (0, 1, 8, 9, len(batch) - 1):
            origin = find_origin(m, built.path, row)
            assert (origin.archive, ids[origin.member], origin.ply) == ("some.parquet", batch.game[row], batch.ply[row])
        with pytest.raises(IndexError):
            find_origin(m, built.path, len(batch))
        origins = origins_path(built.path)
        whole = origins.read_bytes()
        for damaged in (whole[:-1], whole[:100] + b"x" * (len(whole) - 100)):
            origins.write_bytes(damaged)
            with pytest.raises(FormatError, match=r"manifest\.parquet"):
                find_origin(m, built.path, 0)
        origins.unlink()
        with pytest.raises(FormatError, match="is missing"):
            find_origin(m, built.path, 0)
    assert sorted(dropped) == [0, 1]  # in the set that it would have gone to
    path = tmp_path / "test.manifest.json"
    path.write_text(json.dumps(json.loads(read_small(path)) | {"read": 36}))
    with pytest.raises(FormatError, match="do not add up"):
        read_manifest(built.path)


def test_catalogues_are_taken_as_they_are_unless_there_are_other_rules(kgs: Path, games: Path, tmp_path: Path) -> None:
    (built,) = build(recipe(), games, tmp_path / "a")
    assert not tmp_path.joinpath("a", "games.parquet").exists()
    (same,) = build(recipe(clean="legal"), games, tmp_path / "b")
    assert not tmp_path.joinpath("b", "games.parquet").exists()
    with pytest.raises(RecipeError, match=r"uses none of these games, .*36 too short"):
        build(recipe(clean={"name": "x", "title": "x", "min_moves": 61}), games, tmp_path / "c")
    assert not tmp_path.joinpath("c").exists()
    (of_archives,) = build(recipe(), kgs, tmp_path / "d")
    assert tmp_path.joinpath("d", "games.parquet").is_file()
    assert bytes_of(built.path) == bytes_of(same.path) == bytes_of(of_archives.path)
    with pytest.raises(RecipeError, match="is a source"):
        build(recipe(clean="training"), tmp_path / "d" / "games.parquet", tmp_path / "d", overwrite=True)


def test_a_catalogue_of_others_may_have_moves_that_cannot_be_played(tmp_path: Path) -> None:
    good, bad = [0, WHITE_BIT | 1, 2], [0, WHITE_BIT | 0, 2]
    path = write_catalogue(tmp_path / "games.parquet", rows(moves=[good, bad, good]))
    for order in ("corpus", "shuffled"):
        for name in ("npy", "hdf5"):
            (built,) = build(recipe(order=order, format=name), path, tmp_path / order)
            assert (built.manifest.kept, built.manifest.drops) == (2, {"OCCUPIED": 1})
            batch = read(built.path)
            assert sorted(zip(batch.game.tolist(), batch.ply.tolist())) == [(g, p) for g in (0, 2) for p in range(3)]


@pytest.mark.parametrize("name", ["npy", "book-npy", "parquet", "hdf5"])
def test_empty_sets_are_warned_of_or_refused(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    empty, games = (write_catalogue(tmp_path / f"{n}.parquet", rows(moves=[[0, 1][: 2 * n]])) for n in (0, 1))
    for order in ("corpus", "shuffled") if name != "book-npy" else ("corpus",):
        chosen = recipe(format=name, order=order, split=SPLIT)
        with pytest.raises(RecipeError, match="uses none of these games: 0 examples"):
            build(chosen, empty, tmp_path / order)
        assert not (tmp_path / order).exists()
        one, other = sorted(build(chosen, games, tmp_path / order), key=lambda each: each.manifest.examples)
        assert (one.manifest.examples, len(read(one.path)), other.manifest.examples > 0) == (0, 0, True)
        assert caplog.messages[-1] == f"set {one.manifest.set} has no examples: 1 games = 0 kept + 1 elsewhere"


# Recipes


BUNDLED = ["agz17", "alphago48", "book-seven"]


def test_bundled_recipes() -> None:
    assert [name for name in config_names("recipes") if isinstance(load_recipe(name), ExamplesRecipe)] == BUNDLED
    for name in BUNDLED:
        chosen = load_recipe(name)
        assert isinstance(chosen, ExamplesRecipe)
        assert check_config(ExamplesRecipe, chosen.model_dump(), "recipe", "again") == chosen
        assert chosen.default_sets() == ["train", "validation", "test"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "book-seven" else pytest.mark.slow) for name in BUNDLED]
)
def test_bundled_recipes_build(name: str, games: Path, tmp_path: Path) -> None:
    loose = load_recipe(name).model_copy(update={"clean": None})
    built = build(loose, games, tmp_path / name)
    assert sum(each.manifest.examples for each in built) > 1500


ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"planes": "sevn"}, "unknown plane set or feature 'sevn'; did you mean 'seven"),
    ({"planes": "own+op"}, "did you mean 'opp'"),
    ({"planes": "kgsgo7"}, "kgsgo7@1 exists in dat1 and dat2 files only"),
    ({"labels": ["move", "reslt"]}, "unknown label 'reslt'; did you mean 'result'?"),
    ({"labels": ["move", "next1"]}, f"requires k from 2 to {MAX_NEXT}"),
    ({"labels": ["move", "move"]}, "label 'move' is listed twice"),
    ({"labels": ["ply"]}, "at least one label besides"),
    ({"labels": []}, "labels must be 1 or more values, got []"),
    (
        {"format": "parket"},
        "unknown format 'parket'; did you mean 'parquet'? available: npy@1, book-npy@1, parquet@1, hdf5@2",
    ),
    ({"format": "book-npy", "labels": ["move", "ply"]}, "book-npy@1 stores only the label move; got move, ply"),
    ({"format": "book-npy", "order": "shuffled"}, "stores examples archive by archive: order must be 'corpus'"),
    ({"format": "hdf5", "labels": ["result"]}, "hdf5@2 needs the label move; got result"),
    ({"format": "hdf5", "positions": {"passes": True}}, "hdf5@2 cannot store a pass as the next move"),
    ({"format": "hdf5", "planes": "one-plane"}, "hdf5@2 stores planes of 0 and 1 only"),
    ({"board": "19"}, "board: a board size is like 19x19, got"),
    ({"board": "26x26"}, "26"),
    (
        {"board": "25x25", "planes": "clark8"},
        "clark8@1 pads the board, so its size must be within 1 to 23, got 25 x 25",
    ),
    ({"clean": "trainig"}, "unknown set of cleaning rules 'trainig'; did you mean 'training'"),
    ({"split": "hsh"}, "unknown split 'hsh'; did you mean 'hash'? available: hash"),
    ({"split": SPLIT, "sets": ["tst"]}, "unknown set 'tst'; did you mean 'test'? available: train, test"),
    ({"split": {"kind": "hash", "sets": {"../x": 1.0}}}, "set name '../x' is not a plain file name"),
    ({"order": "shufled"}, "order must be 'corpus' or 'shuffled', got \"shufled\""),
    ({"positions": {"per_gme": 3}}, "positions.per_gme"),
    ({"seed": -1}, "seed must be >= 0"),
    ({"lables": ["move"]}, "lables: no such key; did you mean 'labels'?"),
    ({"positions": {"min_pli": 3}}, "positions.min_pli: no such key; did you mean 'positions.min_ply'?"),
]


@pytest.mark.parametrize(("changes", "message"), ERRORS, ids=[message[:40] for _, message in ERRORS])
def test_a_bad_recipe_is_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        recipe(**changes)
    error = str(caught.value)
    assert message in error
    assert error.isprintable()
    assert error.startswith("recipe mine: ")
    assert len(error) < 500


def test_a_set_that_is_none(games: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"recipe mine: unknown set 'trian'; did you mean 'train'\?"):
        build(recipe(split=SPLIT), games, tmp_path, sets=["trian"])
    with pytest.raises(SourceError):
        build(recipe(), tmp_path / "none", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_every_label_is_told_of() -> None:
    for name in LABELS:
        if name != "ply":
            label = find_label(name.replace("<k>", "7").replace("<a>+<b>", "komi+year"), 19, 19)
            assert label.meaning == LABELS[name]


# The command line


def test_the_command_line(kgs: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'kind = "examples"\nname = "mine"\ntitle = "mine"\nplanes = "own+opp+last3"\nformat = "npy"\n'
        '[split]\nkind = "hash"\nsets = { train = 2.0, test = 1.0 }\n'
    )
    done = run("build", str(path), str(kgs), "--output", str(tmp_path / "out"), "--format", "parquet", "--sets", "test")
    assert (done.code, len(done.out.splitlines())) == (0, 1)
    made = tmp_path / "out" / "test.parquet"
    assert done.out.startswith(f"{made}: ")
    assert "37 games = " in done.out
    shown = run("show", str(made))
    assert shown.code == 0
    assert "planes      own+opp+last3: 5 of 19 x 19, row 0 is the top" in shown.out
    assert "its hashes match" in shown.out
    row = run("show", str(made), "--row", "5")
    assert "row 5: X is to move and plays " in row.out
    assert "from games.parquet, row " in row.out
    drawn = run("show", str(made), "--row", "5", "-o", str(tmp_path / "row.svg"))
    assert drawn.code == 0
    assert tmp_path.joinpath("row.svg").is_file()
    for wrong in (["--index", "x"], ["--format", "parket"], ["--sets", "tst"]):
        done = run("build", str(path), str(kgs), "--output", str(tmp_path / "out"), *wrong)
        assert done.code == 2
        assert done.err[-1].startswith("kifu: ")


def test_inspect_notices_another_file(games: Path, tmp_path: Path) -> None:
    (built,) = build(recipe(), games, tmp_path)
    labels = built.path / "labels.npy"
    data = bytearray(labels.read_bytes())
    data[-1] ^= 1
    labels.write_bytes(data)
    done = run("show", str(built.path))
    assert done.code == 2
    assert "labels.npy is damaged: it has other bytes than its manifest lists" in done.err[-1]


@pytest.mark.parametrize(
    "planes",
    [
        "one-plane",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("eleven", "black+white", "clark8", "agz17")),
    ],
)
def test_a_row_is_a_board_for_all_sets_that_tell_stones(planes: str, games: Path, tmp_path: Path) -> None:
    (built,) = build(recipe(planes=planes, labels=["move", "next2"]), games, tmp_path)
    (seven,) = build(recipe(labels=["move", "next2"]), games, tmp_path / "seven")
    shown, expected = (run("show", str(path), "--row", "50") for path in (built.path, seven.path))
    board, as_seven = shown.out.splitlines()[:20], expected.out.splitlines()[:20]
    if planes in ("eleven", "black+white"):
        assert "X is black; the next move is " in shown.out
        board[1:] = [line.translate(str.maketrans("XO", "OX")) for line in board[1:]]  # White is to move
    assert board == as_seven
    assert "next2: " in shown.out


# Real games


@pytest.mark.slow
def test_real_games_in_all_formats(shared: Path, tmp_path: Path) -> None:
    source = shared / "data" / "kgs" / "KGS-2001-19-2298-.tar.gz"
    expected = None
    for name in ("npy", "parquet", "hdf5"):
        chosen = recipe(
            planes="own+opp+last2", format=name, labels=["move", "result", "ownership"], clean="training",
            positions={"per_game": 20},
        )  # fmt: skip
        (built,) = build(chosen, source, tmp_path)
        batch = read(built.path)
        assert len(batch) == built.manifest.examples > 30_000
        if expected is None:
            expected = batch
        assert np.array_equal(batch.planes, expected.planes)
        assert all(np.array_equal(batch.labels[key], expected.labels[key]) for key in batch.labels)
