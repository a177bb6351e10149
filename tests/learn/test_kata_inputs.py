"""KataGo's network files as predictors: positions, rules, ranks, and the commands that take a net."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import evaluated
import kifu
from commands import KIFU, run
from evaluated import make
from kata_nets import small_net
from kifu.datasets.global_inputs import CONDITION_COLUMNS
from kifu.datasets.mmap_games import COLUMNS, read_games
from kifu.errors import RecipeError
from kifu.katago.inputs import encode_katago
from kifu.katago.net_file import write_kata_net
from kifu.learn.positions import NetPositions
from kifu.point import WHITE, WHITE_BIT
from kifu.web.site import Site
from lazy import lazy_import
from web_site import serving

learn = lazy_import("kifu.learn")
kata = lazy_import("kifu.katago.net")
torch = lazy_import("torch")
player = lazy_import("kifu.play.player")
engine = lazy_import("kifu.play.engine")

GAME = b"(;SZ[9]RU[Japanese]KM[6.5]BR[3d]WR[5k]DT[2016-05-01];B[ee];W[cc];B[gg];W[cg];B[gc];W[dd];B[fe])"
BRIEF = ["residual", "pooling", "learned"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kata")
    write_kata_net(folder / "net.bin.gz", small_net(BRIEF))
    write_kata_net(folder / "human.bin.gz", small_net(BRIEF, human=True))
    (folder / "game.sgf").write_bytes(GAME)
    make(folder)
    return folder


def open_net(path: Path, **options):
    return learn.net.open_net(path, **options)


def test_equals_the_net(folder):
    game = kifu.read_sgf(GAME)
    planes, inputs, _ = encode_katago(game)
    with torch.inference_mode():
        output = kata.KataNet(small_net(BRIEF)).eval()(torch.from_numpy(planes).float(), torch.from_numpy(inputs))
    predictor = open_net(folder / "net.bin.gz")
    positions = NetPositions.from_games([game] * 7, [*range(7)])
    for predictions in (
        predictor.evaluate(positions, legal=False),
        open_net(folder / "net.bin.gz").evaluate(positions),
    ):
        policy = np.where(predictions.legal, output.policy[:, 0].exp().numpy(), 0)
        np.testing.assert_allclose(predictions.policy, policy / policy.sum(1, keepdims=True), atol=1e-5)
        np.testing.assert_allclose(predictions.value, output.result[:, 0] - output.result[:, 1], atol=1e-5)
        np.testing.assert_allclose(predictions.ownership, output.ownership, atol=1e-5)
        np.testing.assert_allclose(predictions.score[:, 0], output.lead, atol=1e-4)
    assert predictor.evaluate(positions.take(slice(0, 0))).policy.shape[0] == 0


def test_symmetries(folder):
    predictor = open_net(folder / "net.bin.gz", symmetries=True)
    turned = [NetPositions.from_moves([np.array([point])], 9) for point in (10, 16)]  # mirrored corners
    left, right = (predictor.evaluate(each).policy[0, :81].reshape(9, 9) for each in turned)
    np.testing.assert_allclose(left, right[:, ::-1], atol=1e-6)


def test_stream_equals_predict(folder):
    rows = read_games([folder / "games.parquet"], (9, 9), False, 1, (*COLUMNS, *CONDITION_COLUMNS))
    spec = learn.annotate.ExampleSpec("black+white", (9, 9), labels=("move",))
    positions = NetPositions.from_source(learn.annotate.CatalogueSource(rows, spec), rows).take(np.arange(0, 150, 5))
    predictor = open_net(folder / "net.bin.gz")
    streamed = np.concatenate([found.policy for found in predictor.stream(positions)])
    np.testing.assert_allclose(streamed, predictor.evaluate(positions).policy, atol=1e-5)


@pytest.mark.parametrize(
    ("game", "alternates"),
    [
        (b"(;SZ[9]RU[Chinese]KM[7.5];B[ee];W[];B[];W[cc];B[dd])", False),  # moves after the end
        (b"(;SZ[9]KM[6.5];B[aa];W[ba];B[hh]AB[gg]AW[ff];W[cc];B[dd];W[de])", False),  # setup after the root
        (b"(;SZ[9];B[aa];B[ba];B[ca];W[ee];B[ef])", True),  # three moves in a row by one colour
    ],
)
def test_games_that_katago_does_not_follow(folder, game, alternates):
    """Positions beyond those that KataGo follows begin anew from the stones."""
    predictor, game = open_net(folder / "net.bin.gz"), kifu.read_sgf(game)
    positions = NetPositions.from_games([game], [len(game)])
    ply, predicted = len(game), predictor.evaluate(positions)
    assert predicted.policy.sum() == pytest.approx(1)
    stones = game.board(ply).stones.ravel()
    points = np.flatnonzero(stones)
    anew = NetPositions.from_moves(
        [[]], 9, setup=points | np.where(stones[points] == WHITE, WHITE_BIT, 0), to_play=[int(positions.to_play[0])],
        conditions=positions.conditions,
    )  # fmt: skip
    same = np.allclose(predictor.evaluate(anew).policy, predicted.policy, atol=1e-6)
    assert same == (not alternates)


def test_ranks(folder):
    human, positions = open_net(folder / "human.bin.gz"), NetPositions.from_games([kifu.read_sgf(GAME)], [3])
    recorded = human.evaluate(positions).policy
    assert human.takes_ranks
    np.testing.assert_array_equal(human.evaluate(positions.with_ranks(27.0, 34.0)).policy, recorded)  # 5k to play
    assert np.abs(human.evaluate(positions.with_ranks(34.0, 27.0)).policy - recorded).max() > 1e-5
    with pytest.raises(RecipeError, match="does not take ranks: it is KataGo's net"):
        open_net(folder / "net.bin.gz").check_ranks(30.0)
    with pytest.raises(RecipeError, match="boards of 2 to 19 lines, got 25 x 25"):
        human.check_board(25, 25)


@pytest.mark.slow
def test_servers(folder, tmp_path):
    game, net, games = folder / "game.sgf", folder / "human.bin.gz", folder / "games.parquet"
    (tmp_path / "kgs.sgf").write_bytes(GAME.replace(b"RU", b"PC[KGS]TM[600]RU"))

    def predicted(game: Path, *more: str) -> list[list[float]]:
        return json.loads(run("predict", "--net", net, game, "--json", "-", *more).out)["policy"]

    assert predicted(tmp_path / "kgs.sgf", "--server", "profile") == predicted(game, "--server", "profile")
    by_server = [predicted(game, "--server", server) for server in ("kgs", "ogs", "fox")]
    assert by_server[0] != by_server[1] != by_server[2]
    assert predicted(tmp_path / "kgs.sgf") != predicted(game)  # by its clock
    assert predicted(tmp_path / "kgs.sgf") == predicted(tmp_path / "kgs.sgf", "--server", "kgs")
    found = [
        json.loads(run("evaluate", "--net", net, games, "--board", "9x9", "--json", "-", *more).out)["nets"]
        for more in ((), ("--server", "ogs"))
    ]
    assert found[0] != found[1]
    done = run("annotate", games, "-o", tmp_path / "a.parquet", "--net", "small", "--board", "9x9", "--server", "kgs")
    assert (done.code, done.err) == (2, ["kifu: server kgs requires a human-style net of KataGo, which small is not"])
    done = run("predict", "--net", net, game, "--server", "igs")
    assert (done.code, len(done.err)) == (2, 1)


def test_a_broken_file_is_refused(folder, tmp_path):
    (tmp_path / "broken.bin.gz").write_bytes(b"kifu")
    done = run("predict", "--net", tmp_path / "broken.bin.gz", folder / "game.sgf")
    assert (done.code, len(done.err)) == (2, 1)


@pytest.fixture(scope="module")
def nets(folder: Path) -> Path:
    for name in ("net", "human"):
        learn.export.export_net(folder / f"{name}.bin.gz", folder / f"{name}.onnx")
    members = ("--net", folder / "net.bin.gz", "--net", folder / "human.onnx")
    done = run("mix", folder / "games.parquet", *members, "-o", folder / "two.mix", "--board", "9x9")
    assert done.code == 0, done.err
    evaluated.write_set(folder, evaluated.draw(evaluated.games(folder / "set", 4), 2))
    return folder


NETS = ("net.bin.gz", "net.onnx", "human.onnx", "net.bin.gz+small", "two.mix")


@pytest.mark.subprocess
@pytest.mark.parametrize("name", NETS)
def test_commands(nets, tmp_path, name):
    net, games, board = nets / name, nets / "games.parquet", ("--board", "9x9")

    def done(command: str, *arguments: object) -> str:
        done = run(command, *arguments)
        assert done.code == 0, done.err
        return done.out

    assert "White's lead: " in done("predict", "--net", net, nets / "game.sgf")
    assert json.loads(done("predict", "--net", net, nets / "game.sgf", "--json", "-"))["score_stdev"] > 0
    scored = json.loads(done("evaluate", "--net", net, games, *board, "--overlap", "keep", "--json", "-"))
    assert scored["nets"][0]["score"]["nll"][0] < 7
    assert any("are unknown" in remark for remark in scored["remarks"])
    done("annotate", games, "-o", tmp_path / "moves.parquet", "--net", net, *board)
    done("match", net, "small", "--games", 1, *board, "-o", tmp_path / "match")
    moves = subprocess.run(
        [KIFU, "gtp", "--net", net], input="boardsize 9\ngenmove b\nquit\n", capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(moves) == 4
    with evaluated.only_sets_of(nets):
        found = json.loads(done("evaluate", nets / "set", "--set", "all", "--net", net, "--json", "-"))
    assert found["sets"][0]["positions"] == 2 * learn.benchmark.PER_GAME
    with serving(Site([games], [str(net)])) as site:
        line = {"width": 9, "height": 9, "moves": [40]}
        assert site.post("/api/predict", {"line": line, "ply": 1, "net": 0}).json["policy"]


def test_gtp_as_a_rank(folder):
    evaluator = player.NetEvaluator(open_net(folder / "human.bin.gz"), rules="japanese", rating=30.0)
    host = engine.Engine(player.Player(evaluator))
    host.run("boardsize", ["9"])
    assert host.run("genmove", ["b"])
