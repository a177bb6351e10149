"""Global inputs of nets: dropout, what training learns from them, and how commands and programs set them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest

import kifu
from commands import run
from kgs_archives import archive
from kifu.checksums import with_checksum
from kifu.datasets.global_inputs import INPUTS, Conditions, input_parts, input_size
from kifu.errors import FormatError, RecipeError
from kifu.learn.positions import NetPositions
from kifu.point import BLACK, WHITE, symmetries
from lazy import lazy_import
from loader_games import make
from nets import tiny_net
from runs import assert_resumes_exactly, tiny

learn = lazy_import("kifu.learn")
play = lazy_import("kifu.play")
torch = lazy_import("torch")

ALL = tuple(INPUTS)
STRONG, WEAK = kifu.Rank.parse("7d").rating, kifu.Rank.parse("9k").rating


def ranked_game(k: int) -> bytes:
    """Return a game that begins at A1 if both players are 7 dan, and at the opposite corner if they are 9 kyu."""
    strong = k % 2 == 0
    first, second = ("ae", "ea") if strong else ("ea", "ae")
    rank = "7d" if strong else "9k"
    return f"(;SZ[5]PB[{k}]BR[{rank}]WR[{rank}];B[{first}];W[{second}];B[{'abcde'[k % 5]}c])".encode()


@pytest.fixture(scope="module")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranked")
    games = archive(folder, [ranked_game(k) for k in range(20)])
    changes = {"board": "5x5", "augment": False, "validation": 0, "batch_size": 20, "steps": 60}
    learn.train.train(tiny(inputs=["colour", "ranks"], **changes), [games], folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_net(tmp_path_factory.mktemp("plain") / "plain.safetensors", size=5)


def test_dropout_makes_parts_unknown() -> None:
    values = torch.ones(20_000, input_size(ALL))
    torch.manual_seed(1)
    dropped = learn.networks.draw_known(values, ALL, 0.3)
    shares = []
    for _, part, droppable in input_parts(ALL):
        block = dropped[:, part]
        assert torch.equal(block, block[:, :1].expand_as(block))  # all values of a part, or none
        share = float((block[:, 0] == 0).float().mean())
        assert abs(share - 0.3) < 0.02 if droppable else share == 0
        if droppable:
            shares.append(block[:, 0])
    both = torch.stack(shares).corrcoef() - torch.eye(len(shares))
    assert both.abs().max() < 0.05  # parts are independent
    assert torch.equal(learn.networks.draw_known(values, ALL, 0.0), values)
    kept = learn.networks.draw_known(values, ALL, 0.9, kept=("komi",))
    assert all(kept[:, part].all() for name, part, _ in input_parts(ALL) if name == "komi")


def test_a_net_predicts_the_moves_of_the_rank_asked_for(ranked: Path) -> None:
    predictor = learn.net.open_net(ranked)
    assert predictor.about.inputs == ("colour", "ranks")
    empty = NetPositions.from_moves([[]], 5)
    corner = {"strong": 4 * 5, "weak": 4}
    strong, weak, unknown = (
        predictor.evaluate(empty.with_ranks(rating, rating)).policy[0] for rating in (STRONG, WEAK, None)
    )
    assert strong[corner["strong"]] > 0.8 > 0.2 > strong[corner["weak"]]
    assert weak[corner["weak"]] > 0.8 > 0.2 > weak[corner["strong"]]
    assert weak[corner["strong"]] < unknown[corner["strong"]] < strong[corner["strong"]]


@pytest.mark.thorough
def test_human_predicts_moves_of_a_rank_better_as_that_rank(shared: Path, tmp_path: Path) -> None:
    """On the first 60 moves of games of 2018, of which it has seen five at most; 95 % intervals over games."""
    archives = [path for month in ("09", "10", "11") for path in (shared / "data/kgs").glob(f"KGS-2018_{month}-*")]
    assert len(archives) == 3
    kifu.ingest(archives, tmp_path / "all.parquet")
    weak, strong = (kifu.Rank.parse(rank).rating for rank in ("1d", "9d"))
    games, as_weak, as_strong = (tmp_path / f"{name}.parquet" for name in ("games", "weak", "strong"))
    either = f"(black_rating IN ({weak}, {strong}) OR white_rating IN ({weak}, {strong}))"
    known = "black_rating IS NOT NULL AND white_rating IS NOT NULL"
    sql = f"SELECT * REPLACE (moves[:60] AS moves) FROM kept WHERE {known} AND {either} AND id % 4 = 0"
    done = run("query", sql, tmp_path / "all.parquet", "-o", games)
    assert done.code == 0
    for rating, rows in ((weak, as_weak), (strong, as_strong)):
        learn.annotate.annotate("human", games, rows, learn.annotate.AnnotateOptions(rating=rating), jobs=2)
    for rating, own, other in ((weak, as_weak, as_strong), (strong, as_strong, as_weak)):
        sums = duckdb.sql(f"""
            SELECT count(*) AS moves, sum(own.log_probability - other.log_probability) AS gain
            FROM '{own}' own JOIN '{other}' other USING (game, ply) JOIN '{games}' ON game = id
            WHERE own.rank IS NOT NULL AND if(own.colour = 'black', black_rating, white_rating) = {rating}
            GROUP BY game ORDER BY game
        """).fetchnumpy()
        moves, gain = learn.scores.resample(np.stack([sums["moves"], sums["gain"]], 1).astype(float), seed=0).T
        assert np.percentile(gain / moves, 2.5) > 0


def test_ranks_between_those_seen_are_interpolated(ranked: Path) -> None:
    """A rank on a knot has that knot's prediction; one between two knots lies between them."""
    predictor, empty = learn.net.open_net(ranked), NetPositions.from_moves([[]], 5)
    low, middle, high = (predictor.evaluate(empty.with_ranks(rating, rating)).policy[0, 4] for rating in (22, 24.5, 27))
    assert min(low, high) <= middle <= max(low, high)


@pytest.mark.slow
def test_a_run_with_random_inputs_resumes_exactly(tmp_path: Path) -> None:
    games = make(tmp_path)
    recipe = tiny(inputs=ALL, input_dropout=0.4, random_komi=9, heads={"value": 1.0}, steps=8, validate_steps=4)
    assert_resumes_exactly(recipe, games, tmp_path, 3)
    assert learn.net.open_net(tmp_path / "whole").about.inputs == ALL


def test_inputs_have_no_effect_before_training() -> None:
    """Otherwise a net that starts from one without inputs would begin with noise."""
    torch.manual_seed(0)
    net = learn.registry.make_net("b2c8", 3, 5, 5, inputs=ALL).eval()
    planes = torch.rand(4, 3, 5, 5)
    values = torch.rand(2, 4, input_size(ALL))
    assert torch.equal(net(planes, values[0]).policy, net(planes, values[1]).policy)


def test_symmetrized_predictions_with_inputs_transform_with_the_board(tmp_path: Path) -> None:
    path = tiny_net(tmp_path / "all.safetensors", "b3c8", size=5, passes=True, inputs=ALL, heads=("value", "ownership"))
    predictor, moves = learn.net.open_net(path, symmetries=True), [6, 18 | 1 << 15, 3]
    conditions = Conditions.of_game(komi=6.5, handicap=2, rules="japanese")
    wanted = predictor.evaluate(NetPositions.from_moves([moves], 5, conditions=conditions))
    for table in symmetries(5, 5):
        turned = [int(table[move & 0x7FFF]) | move & 1 << 15 for move in moves]
        found = predictor.evaluate(NetPositions.from_moves([turned], 5, conditions=conditions))
        np.testing.assert_allclose(found.policy[:, table], wanted.policy, atol=1e-6)
        np.testing.assert_allclose(found.value, wanted.value, atol=1e-6)
    other = predictor.evaluate(NetPositions.from_moves([moves], 5))
    assert np.abs(other.policy - wanted.policy).max() > 1e-4


@pytest.mark.parametrize("name", ["komi", "handicap", "rules", "ranks", "year", "time"])
def test_a_net_depends_on_its_inputs_only(tmp_path: Path, name: str) -> None:
    predictor = learn.net.open_net(tiny_net(tmp_path / "net.safetensors", size=5, inputs=("colour", name)))
    root = {"komi": "KM[5.5]", "handicap": "HA[3]", "rules": "RU[AGA]", "ranks": "BR[3d]", "year": "DT[2003-01-01]"}
    root["time"] = "TM[3600]"
    empty, *changed = (
        predictor.evaluate(NetPositions.from_games([kifu.read_sgf(f"(;SZ[5]{text};B[bb])".encode())], [1])).policy
        for text in ("", *root.values())
    )
    depends = {each: np.abs(policy - empty).max() > 1e-5 for each, policy in zip(root, changed)}
    assert depends == {each: each == name for each in root}


def test_the_player_passes_conditions_to_its_net(tmp_path: Path) -> None:
    path = tiny_net(tmp_path / "all.safetensors", size=9, inputs=ALL, heads=("value",))
    predictor = learn.net.open_net(path)
    evaluator = play.player.NetEvaluator(predictor, rules="japanese", rating=34, opponent=30)
    engine = play.engine.Engine(play.player.Player(evaluator), width=9, height=9)
    for command, words, komi, handicap in (
        ("komi", ["0.5"], 0.5, 0),
        ("set_free_handicap", ["C3", "G7", "C7"], 0.5, 3),
        ("clear_board", [], 0.5, 0),
        ("komi", ["-20"], -20, 0),
    ):
        engine.run(command, words)
        stones = [6 * 9 + 2, 2 * 9 + 6, 2 * 9 + 2] if handicap else []
        for colour in (BLACK, WHITE):
            conditions = Conditions.of_game(komi=komi, handicap=handicap, rules="japanese")
            positions = NetPositions.from_moves(
                [[]], 9, setup=stones, to_play=[colour], conditions=conditions
            ).with_ranks(34, 30)
            wanted = predictor.evaluate(positions)
            found = evaluator.evaluate(engine.game, colour)
            np.testing.assert_array_equal(found.policy[:-1], wanted.policy[0])
            assert found.value == wanted.value[0]


def test_the_komi_of_a_record_is_loaded_and_kept(tmp_path: Path) -> None:
    (tmp_path / "one.sgf").write_text("(;SZ[9]KM[3.5]HA[2]AB[cc][gg];W[ee])")
    (tmp_path / "two.sgf").write_text("(;SZ[9];B[ee])")
    path = tiny_net(tmp_path / "all.safetensors", size=9, inputs=ALL)
    evaluator = play.player.NetEvaluator(learn.net.open_net(path))
    engine = play.engine.Engine(play.player.Player(evaluator), width=9, height=9)
    for name, handicap in (("one.sgf", 2), ("two.sgf", 0)):
        engine.run("loadsgf", [str(tmp_path / name)])
        assert (engine.game.komi, engine.game.handicap) == (3.5, handicap)


def test_predict_as_a_rank(ranked: Path, tmp_path: Path) -> None:
    (tmp_path / "game.sgf").write_text("(;SZ[5]BR[9k]WR[9k];B[ea];W[cc])")
    best = {}
    for options in ((), ("--rank", "7d", "--opponent", "7d"), ("--rank", "9k"), ("--rank", "9p", "--opponent", "7d")):
        done = run("predict", "--net", ranked, tmp_path / "game.sgf", "--move", 0, *options)
        assert (done.code, done.err) == (0, [])
        best[options] = next(line.split()[1] for line in done.out.splitlines() if line.startswith("1  "))
    assert list(best.values()) == ["E5", "A1", "E5", "A1"]


@pytest.mark.parametrize("text", ["31k", "0d", "10d", "10p", "strong", "-3", "nan"])
def test_ranks_that_do_not_exist(plain: Path, tmp_path: Path, text: str) -> None:
    for command in (("predict", "--net", plain, tmp_path / "game.sgf"), ("gtp", "--net", plain)):
        for option in ("--rank", "--opponent"):
            done = run(*command, option, text)
            assert (done.code, done.out, len(done.err)) == (2, "", 1)
            assert "must be a rank, 30k to 1k, 1d to 9d or 1p to 9p" in done.err[0]


def test_a_net_that_takes_no_ranks(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "game.sgf").write_text("(;SZ[5];B[ea])")
    komi = tiny_net(tmp_path / "komi.safetensors", size=5, inputs=("colour", "komi"))
    for net, inputs in ((plain, ""), (komi, " with colour, komi")):
        for command in (("predict", "--net", net, tmp_path / "game.sgf"), ("gtp", "--net", net)):
            done = run(*command, "--rank", "3d")
            assert (done.code, done.out) == (2, "")
            message = f"net {net.stem} does not take ranks: it is b1c8 on seven@1{inputs}. The net human takes them"
            assert done.err == [f"kifu: {message}"]


@pytest.mark.slow
def test_planes_of_ranks_count_as_ranks(tmp_path: Path) -> None:
    """Some plane sets hold the mover's rank."""
    (tmp_path / "game.sgf").write_text("(;SZ[5]BR[1d]WR[1d];B[ea])")
    net = tiny_net(tmp_path / "dan.safetensors", planes="own+opp+own_dan", size=5)
    two, nine = (run("predict", "--net", net, tmp_path / "game.sgf", "--rank", rank).out for rank in ("2d", "9d"))
    assert two != nine


def test_networks_without_global_inputs(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="net book-small takes planes only, but inputs are colour, komi"):
        learn.registry.make_net("book-small", 3, 5, 5, inputs=("colour", "komi"))
    with pytest.raises(RecipeError, match=r"net maddison has an output for each colour: inputs must be \['colour'\]"):
        learn.registry.make_net("maddison", 3, 5, 5, inputs=("komi",))
    games = make(tmp_path)
    changes = ("--set", "net=book-small", "--set", "inputs=['komi']")
    done = run("train", "quick-cpu", games, "-o", tmp_path / "run", *changes)
    assert (done.code, done.out, len(done.err)) == (2, "", 1)
    assert "net book-small takes planes only, but inputs are komi" in done.err[0]
    assert not (tmp_path / "run" / "best.safetensors").exists()


def test_a_file_with_unknown_inputs(tmp_path: Path) -> None:
    path = tiny_net(tmp_path / "net.safetensors", size=5, inputs=("komi",))
    path.write_bytes(with_checksum(path.read_bytes().replace(rb"\"komi\"", rb"\"kimo\"")))
    with pytest.raises(FormatError, match=r"net\.safetensors: unknown input 'kimo'; did you mean 'komi'"):
        learn.net.open_net(path)


def test_inspect_lists_inputs(tmp_path: Path) -> None:
    done = run("show", tiny_net(tmp_path / "net.safetensors", size=5, inputs=("colour", "time")))
    assert "  inputs      colour, time" in done.out.splitlines()
