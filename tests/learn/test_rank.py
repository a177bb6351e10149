"""Rank estimates: simulated players, the calibration's laws, and independence of the recorded rank."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from commands import is_error, run
from evaluated import catalogue
from kifu.errors import FormatError, RecipeError, SourceError
from kifu.go.board import Board
from kifu.point import WHITE, to_sgf
from lazy import lazy_import
from nets import tiny_net

calibrate_rank = lazy_import("calibrate_rank")
learn = lazy_import("kifu.learn")
torch = lazy_import("torch")

RATINGS = (32, 33, 34, 35, 36)
SIZE = 9
TASTE = np.cos(np.arange(SIZE * SIZE) * 7.3)
"""Stronger players of the simulation prefer points with a high value."""


def preferences(rating: np.ndarray | float) -> np.ndarray:
    """Return the logits of the moves of players, [..., points]."""
    return np.multiply.outer(np.nan_to_num(np.asarray(rating, np.float64), nan=34.0) - 34, TASTE)


class Simulator:
    """A predictor whose moves are those of the simulated players; each move depends on the mover's rating only."""

    name, description = "simulator", "simulated players"
    passes = has_value = has_points = False

    def __init__(self) -> None:
        self.games = np.empty(0, np.uint64)

    def check_board(self, width: int, height: int) -> None: ...

    def predict(self, positions: learn.positions.PredictPositions, legal: bool = True) -> learn.predict.Predictions:
        weights = np.exp(preferences(self.movers(positions))).astype(np.float32)
        return learn.predict.Predictions(weights / weights.sum(1, keepdims=True), weights > 0, None, None)

    @contextmanager
    def stream(
        self, positions: learn.positions.EvalPositions, *, legal: bool, jobs: int
    ) -> Iterator[Iterator[learn.evaluator.BatchOutput]]:
        weights = np.exp(preferences(self.movers(positions))).astype(np.float32)
        yield iter([learn.evaluator.BatchOutput(np.log(weights / weights.sum(1, keepdims=True)), None, None)])

    @staticmethod
    def movers(positions: learn.positions.EvalPositions | learn.positions.PredictPositions) -> np.ndarray:
        at = positions.input_positions
        return at.conditions.rating[at.game, at.white.astype(int)]


def played(rng: np.random.Generator, black: tuple[str, int], white: tuple[str, int], root: str = "") -> bytes:
    """Return a game of 40 moves between two simulated players, given by name and rating."""
    board = Board(SIZE)
    text = f"(;SZ[{SIZE}]PB[{black[0]}]PW[{white[0]}]BR[{black[1] - 31}d]WR[{white[1] - 31}d]DT[2018-03-01]{root}"
    for _ in range(40):
        rating = (white if board.to_play == WHITE else black)[1]
        logits = np.where(board.legal()[:-1], preferences(rating), -np.inf)
        move = int(np.argmax(logits + rng.gumbel(size=logits.shape)))
        text += f";{'BW'[board.to_play == WHITE]}[{to_sgf(move, SIZE)}]"
        board.play(move)
    return (text + ")").encode()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalogue of 20 players of each rank in 200 games."""
    rng = np.random.default_rng(5)
    players = [(f"{name} {rating - 31}d", rating) for rating in RATINGS for name in range(20)]
    pairs = [(players[k], players[j]) for _ in range(4) for k, j in rng.permutation(len(players)).reshape(-1, 2)]
    return catalogue(tmp_path_factory.mktemp("corpus"), [played(rng, *pair) for pair in pairs])


@pytest.fixture(scope="module")
def calibration(corpus: Path) -> learn.rank.RankCalibration:
    return calibrate_rank.calibrate(Simulator(), "simulator", corpus, (31, *RATINGS, 37), board="9x9")


def estimate(calibration: learn.rank.RankCalibration, source: Path, *players: str) -> list[learn.rank.RankEstimate]:
    return learn.rank.estimate_ranks(Simulator(), source, calibration, players)


def test_simulated_players_are_recognized(calibration: learn.rank.RankCalibration) -> None:
    """Ranks without players are left out; errors are far below the 1.2 ranks of always answering 3d."""
    assert calibration.ratings == RATINGS
    assert [each.games for each in calibration.measured] == [1, 3]
    one, three = calibration.measured
    assert one.error < 0.7
    assert three.error < 0.45
    assert three.error < one.error
    assert three.width < one.width
    for each in calibration.measured:
        assert each.coverage > 0.9
        assert np.sum(each.confusion) == each.samples
    np.testing.assert_allclose(calibration.centres, RATINGS, atol=0.8)
    assert 0.5 < calibration.temperature < 2


def test_intervals_shrink_with_games(calibration: learn.rank.RankCalibration, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    games = [played(rng, ("me", 33), (f"other {k}", 36)) for k in range(8)]
    (few,) = estimate(calibration, catalogue(tmp_path, games[:1]), "me")
    (tmp_path / "more").mkdir()
    (many,) = estimate(calibration, catalogue(tmp_path / "more", games), "me")
    assert (few.games, few.moves, many.games, many.moves) == (1, 20, 8, 160)
    assert many.rank == "2d"
    spread = [np.ptp([RATINGS[k] for k, p in enumerate(e.ranks) if p.probability > 0.01]) for e in (few, many)]
    assert spread[1] < spread[0]
    assert sum(each.probability for each in many.ranks) == pytest.approx(1)
    assert max(each.log_likelihood for each in many.ranks) == 0


def test_all_players_are_listed_with_the_most_games_first(
    calibration: learn.rank.RankCalibration, tmp_path: Path
) -> None:
    rng = np.random.default_rng(7)
    games = [played(rng, ("weak", 32), ("strong", 36)), played(rng, ("other", 34), ("strong", 36))]
    found = estimate(calibration, catalogue(tmp_path, games))
    assert [(each.player, each.games) for each in found] == [("strong", 2), ("other", 1), ("weak", 1)]
    text = learn.rank.describe_estimates(found)
    assert f"strong: {found[0].rank}, 95 % interval" in text
    assert "the player may be stronger than 5d, the highest rank of the calibration" in text


def test_the_recorded_rank_has_no_influence(tmp_path: Path) -> None:
    """Neither as a global input nor as a plane; the opponent's rank has."""
    game = played(np.random.default_rng(8), ("me", 33), ("you", 35))
    net = tiny_net(tmp_path / "net.safetensors", planes="own+opp+own_dan", inputs=("ranks",))
    predictor = learn.predict.Predictor(net)
    curves = []
    for name, (old, new) in {"same": (b"", b""), "own": (b"BR[2d]", b"BR[5d]"), "none": (b"BR[2d]", b""),
                             "opponent": (b"WR[4d]", b"WR[1d]")}.items():  # fmt: skip
        assert old in game
        (tmp_path / name).mkdir()
        rows = learn.rank.read_games(
            [catalogue(tmp_path / name, [game.replace(old, new)])], (9, 9), False, 1, learn.rank.COLUMNS
        )
        players = np.array([[0, -1]])
        games = learn.rank.PlayerGames.select(rows, players, np.array([0]), np.array([0]))
        assert len(games.positions) == 20
        curves.append(learn.rank.rank_curves(predictor, games, RATINGS, 1, learn.rank.silent)[0])
    assert (curves[0] == curves[1]).all()
    assert (curves[0] == curves[2]).all()
    assert (abs(curves[0] - curves[3]) > 1e-4).all()
    assert np.ptp(curves[0]) > 1e-3


def test_warnings(calibration: learn.rank.RankCalibration, tmp_path: Path) -> None:
    rng = np.random.default_rng(12)
    game = played(rng, ("me", 34), ("you", 35))
    short = game[: game.index(b";B", len(game) - 240)] + b")"
    games = {"usual": game, "handicap": game.replace(b"DT[", b"HA[9]DT["), "old": game.replace(b"2018", b"1998"),
             "opponent": game.replace(b"WR[4d]", b"WR[9p]"), "short": short}  # fmt: skip
    found = {}
    for name, text in games.items():
        (tmp_path / name).mkdir()
        found[name] = estimate(calibration, catalogue(tmp_path / name, [text]), "me")[0].warnings
    assert found["usual"] == ()
    assert found["handicap"] == ("handicap: median 9, the games of the calibration have 0 to 0",)
    assert found["old"] == ("year: median 1998, the games of the calibration have 2018 to 2018",)
    assert found["opponent"] == (
        "rank of the opponents, as rating: median 49, the games of the calibration have 32 to 36",
    )
    assert "too few moves: " in " ".join(found["short"])
    vague = calibration.model_copy(update={"temperature": 1e6})
    (unsure,) = estimate(vague, catalogue(tmp_path, [game]), "me")
    assert (unsure.low, unsure.high) == ("1d", "5d")
    assert any("the moves do not reveal the rank" in each for each in unsure.warnings)


def simulated_curves(
    rng: np.random.Generator, samples: int, centres: Sequence[float], spread: float, temperature: float, sharp: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return curves [S, R] of players of random ranks according to the model, and the ranks [S]."""
    grid = np.array(RATINGS, np.float64)
    truth = rng.integers(len(grid), size=samples)
    weights = np.exp(-(((grid - np.array(centres)[truth, None]) / spread) ** 2) / 2)
    resembled = np.argmax(np.log(weights) + rng.gumbel(size=weights.shape), 1)
    observed = grid[resembled] + rng.normal(size=samples) / np.sqrt(sharp)
    return -temperature * sharp * (grid - observed[:, None]) ** 2 / 2, truth


def fitted(curves: np.ndarray, truth: np.ndarray) -> learn.rank.RankCalibration:
    temperature, spread, centres = calibrate_rank.fit_calibration(curves, RATINGS, truth)
    return learn.rank.RankCalibration(
        net="x", net_hash="x", board="9x9", ratings=RATINGS, temperature=temperature, spread=spread, centres=centres
    )


def test_calibration_recovers_its_parameters() -> None:
    centres = (32.4, 33.0, 34.3, 34.8, 35.9)
    curves, truth = simulated_curves(np.random.default_rng(9), 20_000, centres, 0.7, 4.0, 2.0)
    found = fitted(curves, truth)
    assert found.temperature == pytest.approx(4, rel=0.2)
    assert found.spread == pytest.approx(0.7, rel=0.2)
    np.testing.assert_allclose(found.centres, centres, atol=0.3)


@pytest.mark.parametrize(("spread", "temperature", "sharp"), [(0.6, 1, 1), (1.2, 6, 0.2), (0.4, 3, 8)])
def test_intervals_hold_the_rank_as_often_as_expected(spread: float, temperature: float, sharp: float) -> None:
    rng = np.random.default_rng(10)
    found = fitted(*simulated_curves(rng, 1500, RATINGS, spread, temperature, sharp))
    assert (np.diff(found.centres) > 0).all()
    curves, truth = simulated_curves(rng, 4000, RATINGS, spread, temperature, sharp)
    errors = calibrate_rank.measure_errors(found, curves, truth, 1, 4000)
    assert errors.coverage == pytest.approx(errors.expected_coverage, abs=0.015)
    assert errors.coverage > 0.94


@pytest.mark.parametrize("truth", [[0, 0, 1, 2, 3, 4], [4, 3, 2, 1, 0, 0]])
def test_centres_ascend_whatever_the_data(truth: list[int]) -> None:
    curves = -((np.array(RATINGS)[[0, 0, 1, 2, 3, 4], None] - np.array(RATINGS)) ** 2).astype(np.float64)
    assert (np.diff(fitted(curves, np.array(truth)).centres) > 0).all()


def test_higher_likelihood_of_stronger_ranks_raises_the_estimate() -> None:
    found = fitted(*simulated_curves(np.random.default_rng(11), 500, RATINGS, 0.5, 2, 1))
    curve = -((np.array(RATINGS, np.float64) - 34) ** 2)
    tilted = np.stack([curve + tilt * np.arange(5) for tilt in (-3, -1, 0, 1, 3)])
    assert (np.diff(learn.rank.summarize(found.posterior(tilted), RATINGS)[3]) > 0).all()


def test_samples_have_one_player_and_no_common_game() -> None:
    player, truth = np.array([3, 3, 3, 7, 7, 7, 7, 7, 2]), np.array([0, 0, 0, 0, 0, 0, 1, 1, 1])
    which = player != 2
    sample, first = calibrate_rank._draw_samples(player, truth, which, 2)
    assert sample.tolist() == [0, 0, -1, 1, 1, -1, 2, 2, -1]
    assert first.tolist() == [0, 3, 6]
    sample, first = calibrate_rank._draw_samples(player, truth, which, 3)
    assert sample.tolist() == [0, 0, 0, 1, 1, 1, -1, -1, -1]
    assert len(first) == 2


def test_players_that_are_not_found(calibration: learn.rank.RankCalibration, corpus: Path) -> None:
    with pytest.raises(RecipeError, match="there is no player '21 1d'; similar names: "):
        estimate(calibration, corpus, "21 1d")
    with pytest.raises(RecipeError, match="the games have 100 players; name some with --player"):
        estimate(calibration, corpus)
    (found,) = estimate(calibration, corpus, "0 1D")
    assert found.player == "0 1d"


def test_programs_have_to_be_named(calibration: learn.rank.RankCalibration, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    source = catalogue(tmp_path, [played(rng, ("Zen19", 33), ("Ann", 32)), played(rng, ("Aya", 33), ("Zen19", 32))])
    assert [each.player for each in estimate(calibration, source)] == ["Ann"]
    warning = "the player is a program, the games of the calibration are those of people"
    assert [warning in each.warnings for each in estimate(calibration, source, "Zen19", "Ann")] == [True, False]


def test_nets_without_ranks_are_refused(calibration: learn.rank.RankCalibration, corpus: Path, tmp_path: Path) -> None:
    net = learn.predict.Predictor(tiny_net(tmp_path / "net.safetensors"))
    with pytest.raises(RecipeError, match="net net does not depend on ranks"):
        learn.rank.estimate_ranks(net, corpus, calibration, ["0 1d"])
    (tmp_path / "large").mkdir()
    large = catalogue(tmp_path / "large", [b"(;SZ[11];B[aa])"])
    with pytest.raises(SourceError, match="there is no game on a 9 x 9 board"):
        estimate(calibration, large)


def test_seen_games_are_left_out_of_the_calibration(corpus: Path) -> None:
    simulator = Simulator()
    rows = learn.rank.read_games([corpus], (9, 9), False, 1, learn.rank.COLUMNS)
    simulator.games = np.unique(rows["canonical"].to_numpy())
    with pytest.raises(SourceError, match="at least 10 players of each of two neighbouring ranks from 1d to 5d"):
        calibrate_rank.calibrate(simulator, "simulator", corpus, RATINGS, board="9x9")


def test_calibration_files(calibration: learn.rank.RankCalibration, corpus: Path, tmp_path: Path) -> None:
    net = tiny_net(tmp_path / "net.safetensors", inputs=("ranks",))
    with pytest.raises(FormatError, match="there is no calibration"):
        learn.rank.open_calibration(None, net)
    path = tmp_path / "net.ranks.json"
    path.write_text(calibration.model_dump_json())
    with pytest.raises(FormatError, match="is the calibration of another net, simulator"):
        learn.rank.open_calibration(None, net)
    values = json.loads(calibration.model_dump_json()) | {"net_hash": learn.net.net_hash(net)}
    path.write_text(json.dumps(values))
    assert learn.rank.open_calibration(None, net).centres == calibration.centres
    done = run("rank", corpus, "--net", net, "--player", "0 1d", "--json", "-")
    assert done.code == 0, done.err
    (found,) = json.loads(done.out)
    assert found["player"] == "0 1d"
    assert len(found["ranks"]) == 5
    for broken in ({"ratings": [32, 34]}, {"centres": [1, 1, 2, 3, 4]}, {"temperature": 0}, {"extra": 1}):
        path.write_text(json.dumps(values | broken))
        with pytest.raises(FormatError, match="does not hold a calibration of ranks"):
            learn.rank.open_calibration(None, net)


@pytest.mark.parametrize(
    ("options", "words"),
    [(["--precision", "float16"], "unknown precision 'float16'"), (["--net", "small"], "there is no calibration")],
)
def test_bad_options_are_reported_in_one_line(
    options: list[str], words: str, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    is_error(run("rank", corpus, *options, "-q"), words)


def test_the_tool_writes_a_calibration(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, path = tiny_net(tmp_path / "net.safetensors", inputs=("ranks",)), tmp_path / "net.ranks.json"
    options = ["--ranks", "1d-5d", "--per-rank", "20", "--board", "9x9", "-o", str(path)]
    calibrate_rank.main([str(net), str(corpus), *options])
    found = learn.rank.open_calibration(None, net)
    assert found.ratings == RATINGS
    assert "net: 1d to 5d, fitted on" in capsys.readouterr().out
    for ranks, words in (("1d-99d", "ranks must be like 10k-9d, got '1d-99d'"), ("9d-1d", "ranks must ascend")):
        with pytest.raises(RecipeError, match=words):
            calibrate_rank.parse_ranks(ranks)
    with pytest.raises(RecipeError, match="does not depend on ranks"):
        calibrate_rank.main(["small", str(corpus), *options])
