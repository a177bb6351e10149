"""Predictions by KataGo's analysis engine: positions, terms, profiles, and the commands that take an engine."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kifu
from analysis_engines import engine, policy, winrate
from commands import run
from evaluated import make
from kifu.corpus.schema import game_arrays
from kifu.datasets.global_inputs import CONDITION_COLUMNS, Conditions
from kifu.datasets.mmap_games import COLUMNS, read_games
from kifu.errors import RecipeError
from kifu.go.board import Board
from kifu.go.rules import NAMED, RECORD_RULES, Rules
from kifu.katago.analysis_engine import AnalysisQuery
from kifu.learn.positions import EvalPositions, PredictPositions
from kifu.point import BLACK, WHITE, WHITE_BIT
from kifu.process import ProcessError, find_program
from lazy import lazy_import

learn = lazy_import("kifu.learn")

MIN_PROBABILITY = 1e-9

GAMES = [
    b"(;SZ[9]RU[Japanese]KM[5.5]DT[2003-05-01]BR[3d]WR[5k];B[ee];W[cc];B[gg];W[cg];B[gc])",
    b"(;SZ[9]RU[Chinese]HA[2]AB[gc][cg]DT[2019-05-01]WR[2k];W[ee];B[ef];W[];B[de];W[df])",  # handicap, and a pass
    b"(;SZ[9];B[aa];B[ba];B[ca];W[ee];B[ef])",  # three moves in a row by one colour
    b"(;SZ[9];B[aa];W[ba];B[hh]AB[gg]AW[ff];W[cc];B[dd];W[de])",  # stones set up later
    b"(;SZ[9]BR[9p]WR[25k]DT[2010-01-01];B[ba];W[aa];B[ab];W[ee];B[fe])",  # a capture
]


def parsed() -> list[kifu.Game]:
    return [kifu.read_sgf(text) for text in GAMES]


class Spy:
    """A predictor and all queries that it sends, with the profiles and terms as KataGo reads them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, rules: Rules = RECORD_RULES, **options: str) -> None:
        self.queries: list[AnalysisQuery] = []
        analyze = learn.predictors.AnalysisEngine.analyze

        def spy(program: Any, queries: Any) -> Any:
            listed = list(queries)
            self.queries += listed
            return analyze(program, listed)

        monkeypatch.setattr("kifu.learn.predictors.AnalysisEngine.analyze", spy)
        self.predictor = learn.predictors.EnginePredictor(engine(**options), rules=rules)


def test_each_turn_is_the_position_that_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    games = parsed()
    for game in games:
        plies = [*range(len(game))]
        spy.queries.clear()
        positions = PredictPositions.from_games([game] * len(plies), plies)
        found = spy.predictor.predict(positions)
        turns = [(query, turn) for query in spy.queries for turn in query.turns]
        assert len(turns) == len(plies)
        for k, (query, turn) in enumerate(sorted(turns, key=lambda each: int(each[0].title.split()[1]))):
            board = Board(9)
            for colour in (BLACK, WHITE):
                points = [int(word) & ~WHITE_BIT for word in query.stones if (word >= WHITE_BIT) == (colour == WHITE)]
                board.setup(**{"black" if colour == BLACK else "white": points})
            for word in query.moves[:turn].tolist():
                board.play(word & ~WHITE_BIT, WHITE if word & WHITE_BIT else BLACK)
            wanted = game.board(plies[k])
            assert (board.stones == wanted.stones).all()
            side = query.to_play if turn % 2 == 0 else BLACK + WHITE - query.to_play
            assert side == positions.to_play[k]
            check(found, k, query, turn, wanted)


def check(found: Any, k: int, query: AnalysisQuery, turn: int, board: Board) -> None:
    """Check an evaluation against the scripted engine's, one number at a time."""
    said = json.loads(query.to_json("1"))
    legal = board.legal(int(board.to_play))
    given = np.maximum(policy(said, turn), MIN_PROBABILITY)
    weights = np.where(found.legal[k], given, 0)
    np.testing.assert_allclose(found.policy[k], weights / weights.sum(), rtol=1e-4)
    assert (found.legal[k] == legal).all()
    assert found.value[k] == pytest.approx(2 * winrate(said, turn) - 1, abs=1e-6)


def test_positions_of_one_game_share_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    (game,) = parsed()[:1]
    words = game.moves
    games = PredictPositions.from_moves([words], 9).games
    plies = np.array([4, 0, 2, 2])
    positions = PredictPositions(games, np.zeros(4, np.int64), plies, Conditions.unknown(1))
    found = spy.predictor.predict(positions)
    assert [(query.turns, len(query.moves)) for query in spy.queries] == [([0, 2, 4], 4)]
    assert (found.policy[2] == found.policy[3]).all()
    assert (found.policy[0] != found.policy[1]).any()
    for k in range(4):
        alone = spy.predictor.predict(positions.slice(k, k + 1))
        np.testing.assert_allclose(alone.policy[0], found.policy[k])
        assert alone.value[0] == found.value[k]


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("games"), games=6, plies=20)


def eval_positions(path: Path) -> EvalPositions:
    """Return two of three positions of the games on 9 x 9 whose next move is no pass."""
    rows = read_games([str(path)], (9, 9), False, None, tuple(dict.fromkeys([*COLUMNS, *CONDITION_COLUMNS])))
    arrays = game_arrays(rows)
    index = np.arange(len(arrays.moves))
    index = index[(index % 3 > 0) & ((arrays.moves & ~np.uint16(WHITE_BIT)) < 81)]
    game = np.searchsorted(arrays.move_offset, index, "right") - 1
    return EvalPositions(rows, arrays, 9, 9, index, game, Conditions.from_rows(rows))


@pytest.mark.parametrize(("script", "batch"), [("", 512), ("hold hold ok hold split hold hold hold", 7)])
def test_stream_equals_predict(catalogue: Path, script: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    positions = eval_positions(catalogue)
    whole = learn.predictors.EnginePredictor(engine(human="model")).predict(positions.select(np.arange(len(positions))))
    monkeypatch.setattr("kifu.learn.predictors._ENGINE_BATCH_SIZE", batch)
    predictor = learn.predictors.EnginePredictor(engine(script, human="model"))
    with predictor.stream(positions, legal=True, jobs=1) as outputs:
        found = list(outputs)
    assert len(found) == -(-len(positions) // batch)
    log_probs, value = (np.concatenate([each[k] for each in found]) for k in (0, 1))
    np.testing.assert_allclose(np.exp(log_probs), whole.policy, rtol=1e-4)
    np.testing.assert_allclose(value, whole.value, atol=1e-6)
    played = log_probs[np.arange(len(positions)), positions.move]
    assert np.isfinite(played).all()
    assert len(np.unique(played)) > len(positions) // 2


def test_rules_and_komi(monkeypatch: pytest.MonkeyPatch) -> None:
    def terms(root: str, rules: Rules = RECORD_RULES) -> tuple[str, float]:
        spy = Spy(monkeypatch, rules=rules)
        game = kifu.read_sgf(f"(;SZ[9]{root};B[ee])".encode())
        spy.predictor.predict(PredictPositions.from_games([game], [1]))
        return spy.queries[0].rules, spy.queries[0].komi

    assert terms("") == ("koSIMPLEscoreAREAtaxNONEsui1whbN", 7.5)
    assert terms("RU[Japanese]") == ("koSIMPLEscoreTERRITORYtaxSEKIsui1", 6.5)
    assert terms("RU[Chinese]KM[6.3]") == ("koSIMPLEscoreAREAtaxNONEsui1whbN", 6.5)
    assert terms("KM[-999]")[1] == -150
    assert terms("RU[Korean]KM[0]", NAMED["japanese"]) == ("koSIMPLEscoreTERRITORYtaxSEKIsui0", 0)
    assert terms("", NAMED["tromp-taylor"])[0] == "koPOSITIONALscoreAREAtaxNONEsui1whbN"
    assert terms("", NAMED["aga"])[0] == "koSITUATIONALscoreAREAtaxNONEsui0whbN"


def profiles(spy: Spy, positions: PredictPositions) -> set[str | None]:
    spy.queries.clear()
    spy.predictor.predict(positions)
    return {query.profile for query in spy.queries}


def test_ranks_become_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch, human="model")
    wanted = ["preaz_3d_5k", "rank_2k", None, None, "preaz_9d_20k"]
    for game, profile in zip(parsed(), wanted):
        assert profiles(spy, PredictPositions.from_games([game], [2])) == {profile}
    black, white = (PredictPositions.from_games(parsed()[2:3], [ply]).with_ranks(34, 27) for ply in (3, 4))
    assert profiles(spy, white) == {"rank_3d_5k"}  # Black is to play after four moves
    assert profiles(spy, black) == {"rank_5k_3d"}
    one_known = PredictPositions.from_games(parsed()[2:3], [1]).with_ranks(None, 22.4)
    assert profiles(spy, one_known) == {"rank_10k"}


@pytest.mark.parametrize("human", ["model", "main"])
def test_predictions_depend_on_the_profile(human: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch, human=human)
    positions = PredictPositions.from_games(parsed()[3:4], [1])
    plain, weak = (spy.predictor.predict(each) for each in (positions, positions.with_ranks(20, 20)))
    said = json.loads(spy.queries[-1].to_json("1"))
    given = np.maximum(policy(said, 1, "rank_12k"), MIN_PROBABILITY)
    np.testing.assert_allclose(weak.policy[0], np.where(weak.legal[0], given, 0) / given.sum(), rtol=1e-4)
    assert (weak.policy != plain.policy).any()
    assert (float(weak.value[0]) == pytest.approx(float(plain.value[0]))) == (human == "main")


def test_no_profile_is_sent_without_a_net_that_imitates_players(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    assert profiles(spy, PredictPositions.from_games(parsed()[:1], [2])) == {None}


def test_a_profile_in_the_command_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch, human="model", override="humanSLProfile=rank_1k")
    assert profiles(spy, PredictPositions.from_games(parsed()[:1], [2])) == {None}


def test_ranks_require_a_net_that_imitates_players(catalogue: Path, tmp_path: Path) -> None:
    (tmp_path / "game.sgf").write_bytes(GAMES[0])
    game = (tmp_path / "game.sgf", "--move", 2, "--rank", "8k", "--opponent", "1d")
    human = ("predict", "--net", engine(human="model"))
    assert run(*human, *game).out != run(*human, *game[:-1], "9d").out
    for command in (engine(), engine(human="model", override="humanSLProfile=rank_1k")):
        done = run("predict", "--net", command, *game)
        assert (done.code, done.out, len(done.err)) == (2, "", 1)
        assert "does not take ranks; that needs a net that imitates players" in done.err[0]


def test_symmetries_are_averaged_by_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    positions = PredictPositions.from_games(parsed()[:1], [2])
    predictor = learn.predictors.EnginePredictor(engine(), symmetries=True)
    plain = Spy(monkeypatch)
    assert (predictor.predict(positions).policy != plain.predictor.predict(positions).policy).any()
    (query,) = [replace(each, symmetries=True) for each in plain.queries[:1]]
    assert json.loads(query.to_json("1"))["overrideSettings"]["rootNumSymmetriesToSample"] == 8


def test_boards_that_katago_does_not_support() -> None:
    predictor = learn.predictors.EnginePredictor(engine())
    predictor.check_board(9, 13)
    for width, height in [(25, 25), (20, 19), (1, 5)]:
        with pytest.raises(RecipeError, match=rf"^KataGo supports boards of 2 to 19 lines, got {width} x {height}$"):
            predictor.check_board(width, height)
    with pytest.raises(RecipeError, match="got 21 x 21"):
        predictor.predict(PredictPositions.from_moves([[]], 21))


def test_no_positions() -> None:
    predictor = learn.predictors.EnginePredictor(engine())
    assert len(predictor.predict(PredictPositions.from_games([], [])).policy) == 0


def test_the_engine_ends_with_its_predictor() -> None:
    predictor = learn.predictors.EnginePredictor(engine())
    process = predictor._engine._process
    assert process.poll() is None
    del predictor
    assert process.poll() is not None


def test_texts_that_are_commands(tmp_path: Path) -> None:
    is_command = learn.predictors.is_command
    assert is_command("katago analysis -config a.cfg")
    assert is_command("no-such-program analysis")
    assert is_command("x " * 5000)
    assert not is_command("small")
    assert not is_command("runs/best.safetensors")
    (tmp_path / "a run").mkdir()
    assert not is_command(str(tmp_path / "a run"))
    opened = learn.predictors.open_predictor(engine())
    assert (opened.name, opened.description, opened.board) == ("b1c1", "KataGo 1.18.1 with b1c1", (19, 19))
    assert repr(opened) == "<EnginePredictor b1c1>"


def test_predict_and_gtp_take_an_engine(tmp_path: Path) -> None:
    (tmp_path / "game.sgf").write_bytes(GAMES[0])
    done = run("predict", "--net", engine(), tmp_path / "game.sgf", "--move", 2)
    assert (done.code, done.err) == (0, [])
    assert "after 2 of 5 moves; Black to play" in done.out
    for script, message in [
        ("crash", "it exited with code 3: out of luck"),
        ("nan", "the policy of turn 2 of game 1 contains nan, which is not within -1 to 1"),
        ("error", "refused game 1: Could not parse rules: silly (rules)"),
    ]:
        done = run("predict", "--net", engine(script), tmp_path / "game.sgf", "--move", 2)
        assert (done.code, len(done.err)) == (2, 1)
        assert done.err[0].endswith(message)
    done = run("predict", "--net", "no-such-katago analysis", tmp_path / "game.sgf")
    assert (done.code, done.err) == (2, ["kifu: program not found: 'no-such-katago' is neither a file nor on PATH"])


def test_an_engine_behind_gtp() -> None:
    player = lazy_import("kifu.play.player")
    evaluator = player.NetEvaluator(learn.predictors.EnginePredictor(engine("ok crash")))
    host = lazy_import("kifu.play.engine").Engine(player.Player(evaluator))
    with pytest.raises(kifu.KifuError, match="unacceptable size"):
        host.run("boardsize", ["25"])
    host.run("boardsize", ["9"])
    assert host.run("genmove", ["b"])
    with pytest.raises(ProcessError, match="out of luck"):
        host.run("genmove", ["w"])


def test_evaluate_and_annotate_take_an_engine(catalogue: Path, tmp_path: Path) -> None:
    """The scores do not depend on the order of responses."""
    found = []
    for script in ("", "hold ok hold hold split"):
        done = run("evaluate", "--net", engine(script), catalogue, "--board", "9x9", "--json", tmp_path / "scores.json")
        assert done.code == 0
        (net,) = json.loads((tmp_path / "scores.json").read_text())["nets"]
        assert (net["name"], net["description"]) == ("b1c1", "KataGo 1.18.1 with b1c1")
        found.append(net["score"])
    assert found[0] == found[1]
    assert found[0]["positions"] > 50
    moves = tmp_path / "moves.parquet"
    done = run("annotate", catalogue, "-o", moves, "--net", engine(human="model"), "--board", "9x9", "--rank", "3d")
    assert done.code == 0
    assert "120 rows" in done.out
    done = run("annotate", catalogue, "-o", tmp_path / "none.parquet", "--net", engine("ok crash"), "--board", "9x9")
    assert done.code == 2
    assert done.err[-1].endswith("it exited with code 3: out of luck")


@pytest.mark.slow
def test_the_real_engine() -> None:
    """Runs the command line in KATAGO, or skips; see docs/katago-engine.md."""
    command = os.environ.get("KATAGO", "")
    if not command and find_program("katago") is None:
        pytest.skip("no KataGo: set KATAGO to a command line, such as 'katago analysis -config a.cfg -model n.bin.gz'")
    predictor = learn.predictors.open_predictor(command or "katago analysis", symmetries=True)
    game = kifu.read_sgf(b"(;SZ[19]KM[7.5]RU[Chinese];B[pd];W[dp];B[pp];W[dd];B[fc];W[cf])")
    positions = PredictPositions.from_games([game] * 4, [0, 1, 5, 6])
    found = predictor.predict(positions)
    np.testing.assert_allclose(found.policy.sum(1), 1, atol=1e-5)
    assert (found.policy.argmax(1) < 361).all()
    assert found.policy.max(1).min() > 0.02
    assert np.abs(found.value).max() < 0.6
    again = predictor.predict(positions)
    np.testing.assert_allclose(found.policy, again.policy, atol=1e-4)
    # An empty board averaged over all symmetries prefers no corner.
    first = found.policy[0, :-1].reshape(19, 19)
    np.testing.assert_allclose(first, first.T, atol=1e-3)
