"""Lines, predictions and analyses of the web application, against the Python API."""

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kifu
from kifu.errors import IllegalMove
from kifu.go.board import Board
from kifu.go.rules import Rules
from kifu.point import POINT_MASK, WHITE_BIT
from kifu.web.positions import Line
from lazy import lazy_import
from web_site import ServedSite

learn = lazy_import("kifu.learn")

Json = Any


@pytest.fixture(scope="module")
def games() -> list[kifu.Game]:
    return [game for game, _ in zip(kifu.read(kifu.sample_path()), range(5))]


def line_of(site: ServedSite, row: int) -> Json:
    shown = site.get(f"/api/games/0/{row}").json["line"]
    return {key: shown[key] for key in ("width", "height", "setup", "setup_ply", "moves", "to_play")}


def test_line_has_the_boards_of_the_game(site_server: ServedSite, games: list[kifu.Game]) -> None:
    for row, game in enumerate(games):
        shown = site_server.get(f"/api/games/0/{row}").json
        assert shown["line"]["moves"] == game.moves.tolist()
        assert shown["info"]["black"] == game.players[0]
        stones = list(shown["line"]["start"])
        for ply, step in enumerate(shown["line"]["steps"]):
            for point, colour in step.items():
                stones[int(point)] = colour
            assert stones == game.board(ply + 1).stones.ravel().tolist()


def test_line_ends_before_an_illegal_move(site_server: ServedSite) -> None:
    line = {"width": 9, "height": 9, "moves": [40, 41 | 0x8000, 40]}
    shown = site_server.post("/api/line", {"line": line}).json
    assert len(shown["steps"]) == 2
    assert shown["illegal"].startswith("move 3: ")


def replayed(line: Line, rules: Rules) -> Json:
    """Return the steps of a line and the boards after them, each replayed from the start."""
    moves, setup, setup_ply = line.arrays()
    stones, steps = Board.after(line.width, line.height, moves, setup, setup_ply, 0, rules=rules).stones.ravel(), []
    for ply in range(1, len(moves) + 1):
        try:
            board = Board.after(line.width, line.height, moves, setup, setup_ply, ply, rules=rules)
        except IllegalMove:
            break
        after = board.stones.ravel()
        steps.append({p: int(after[p]) for p in np.flatnonzero(after != stones).tolist()})
        stones = after
    return steps


@pytest.mark.slow
@pytest.mark.parametrize("rules", ["records", "chinese", "tromp-taylor"])
def test_steps_are_those_of_replays_from_the_start(rules: str) -> None:
    rng = np.random.default_rng(1)
    lengths = []
    for _ in range(300):
        side = int(rng.integers(2, 6))
        moves = rng.integers(0, side * side + 1, 60) | np.arange(60) % 2 * 0x8000
        setup = rng.integers(0, side * side, 20) | rng.choice([0, 0x8000, 0x4000], 20)
        plies = rng.integers(0, 60, 20) if rng.random() < 0.2 else np.sort(rng.integers(0, 60, 20))
        board, legal = Board(side, rules=Rules.named(rules)), []
        for move in moves.tolist():  # without the setup stones most moves are legal, so that lines are long
            with contextlib.suppress(IllegalMove):
                board.play(move & POINT_MASK, 1 + (move >> 15))
                legal.append(move)
        line = Line(width=side, height=side, moves=legal, setup=setup.tolist(), setup_ply=plies.tolist(), to_play=0)
        steps = line.to_json(Rules.named(rules))["steps"]
        assert steps == replayed(line, Rules.named(rules))
        lengths.append(len(steps))
    assert max(lengths) > 20


@pytest.mark.parametrize("row", [404404, 10**12])
def test_missing_games_are_not_found(site_server: ServedSite, row: int) -> None:
    assert "there is no game" in site_server.get(f"/api/games/0/{row}").error


def test_predictions_are_those_of_the_predictor(site_server: ServedSite, games: list[kifu.Game]) -> None:
    predictor = learn.net.open_net("small")
    for row, ply in ((0, 0), (1, 57), (2, len(games[2]))):
        body = {"line": line_of(site_server, row), "ply": ply, "net": 0}
        answer = site_server.post("/api/predict", body).json
        expected = predictor.evaluate(learn.positions.NetPositions.from_games([games[row]], [ply]))
        assert answer["ownership"] is None
        assert answer["pass"] == pytest.approx(float(expected.policy[0, -1]), abs=1e-5)
        points = [point for point, _ in answer["policy"]]
        assert points == sorted(points, key=lambda point: -expected.policy[0, point])
        for point, probability in answer["policy"]:
            assert probability == pytest.approx(float(expected.policy[0, point]), abs=1e-5)
        assert len(points) == min(60, int((expected.policy[0, :-1] > 0.001).sum()))
        if ply < len(games[row]):
            policy, move = expected.policy[0], int(games[row].moves[ply] & POINT_MASK)
            assert answer["played"] == pytest.approx(
                [float(policy[move]), 1 + int((policy > policy[move]).sum())], abs=1e-5
            )
        else:
            assert answer["played"] is None


def wins_after(game: kifu.Game, plies: list[int], moves: list[int]) -> Any:
    """Return Black's winning probabilities by the net `small` after other moves of a game."""
    white = game.moves[plies] & WHITE_BIT
    words = np.array(moves, np.uint16) | white
    games = [replace(game, moves=np.append(game.moves[:ply], word)) for ply, word in zip(plies, words)]
    positions = learn.positions.NetPositions.from_games(games, [ply + 1 for ply in plies])
    value = learn.net.open_net("small").evaluate(positions).value
    assert value is not None
    return pytest.approx(((1 - value * np.where(white, -1, 1)) / 2).tolist(), abs=1e-4)


def test_candidates_are_evaluated_after_they_are_played(site_server: ServedSite, games: list[kifu.Game]) -> None:
    line = line_of(site_server, 1)
    body = {"line": line, "ply": 30, "net": 0}
    policy = [point for point, share in site_server.post("/api/predict", body).json["policy"] if share >= 0.05]
    found = site_server.post("/api/candidates", body).json
    moves = [move for move, _, _ in found["moves"]]
    assert moves == list(dict.fromkeys([*policy[:6], line["moves"][30] & POINT_MASK]))
    assert [win for _, win, _ in found["moves"]] == wins_after(games[1], [30] * len(moves), moves)
    assert (found["win"], found["lead"], found["loss"]) == (found["moves"][0][1], None, None)
    assert {lead for _, _, lead in found["moves"]} == {None}
    rows = site_server.post("/api/analyse", {"line": line, "first": 30}).json["rows"]
    assert rows[0][2] == found["win"]


def test_analysis_scores_each_move(site_server: ServedSite, games: list[kifu.Game]) -> None:
    game, body = games[0], {"line": line_of(site_server, 0), "net": 0}
    rows: list[Any] = []
    answer = {"total": 1}
    while len(rows) < answer["total"]:
        answer = site_server.post("/api/analyse", body | {"first": len(rows)}).json
        rows += answer["rows"]
    assert len(rows) == len(game) + 1
    assert site_server.post("/api/analyse", body).json["rows"] == rows  # they are kept
    plies = list(range(0, len(game), 10))
    expected = learn.net.open_net("small").evaluate(learn.positions.NetPositions.from_games([game] * len(plies), plies))
    moves = (game.moves[plies] & POINT_MASK).astype(int)
    played = expected.policy[np.arange(len(plies)), moves]
    chance, choice, win, lead, best, best_chance, loss = zip(*(rows[ply] for ply in plies))
    assert chance == pytest.approx(played.tolist(), abs=1e-5)
    assert list(choice) == (1 + (expected.policy > played[:, None]).sum(1)).tolist()
    assert win == wins_after(game, plies, best)
    assert {*lead, *loss} == {None}
    assert list(best) == expected.top(1)[0][:, 0].tolist()
    assert best_chance == pytest.approx(expected.top(1)[1][:, 0].tolist(), abs=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"net": 7}, "there is no net 7"),
        ({"ply": 1999}, "ply must be 0 to"),
        ({"black_rank": "3d"}, "does not take ranks"),
        ({"white_rank": "<b>"}, "a rank is 30k to 1k"),
    ],
)
def test_predict_rejects(site_server: ServedSite, changes: Json, message: str) -> None:
    answer = site_server.post("/api/predict", {"line": line_of(site_server, 0), "ply": 3, **changes})
    assert message in answer.error
