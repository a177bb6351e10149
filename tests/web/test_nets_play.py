"""Play in the web application, against the Python API."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kifu
from kifu.point import fixed_handicap
from kifu.web.site import Site
from lazy import lazy_import
from nets import tiny_net
from web_site import ServedSite, serving

learn = lazy_import("kifu.learn")
play = lazy_import("kifu.play")

_FIELDS = ("width", "height", "setup", "setup_ply", "moves", "to_play")


def start(site: ServedSite, size: int, handicap: int = 0) -> dict[str, Any]:
    shown = site.get("/api/start", size=size, handicap=handicap).json
    return {key: shown[key] for key in _FIELDS}


def test_start_places_the_handicap(site_server: ServedSite) -> None:
    line = start(site_server, 19, 4)
    assert sorted(line["setup"]) == sorted(fixed_handicap(4, 19, 19))
    assert line["to_play"] == 2


@pytest.fixture(scope="module")
def small_boards(web_catalogue: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedSite]:
    folder = tmp_path_factory.mktemp("nets")
    nets = [tiny_net(folder / "nine", "book-small"), tiny_net(folder / "seven", passes=True, size=7)]
    with serving(Site([web_catalogue], list(map(str, nets)))) as served:
        yield served


def test_boards_are_those_that_the_net_supports(small_boards: ServedSite) -> None:
    nine, seven = (net["boards"] for net in small_boards.get("/api/nets").json)
    assert nine == [{"size": 9, "handicap": 9}]
    assert [(board["size"], board["handicap"]) for board in seven] == [(7, 4), (9, 9), (13, 9), (19, 9)]
    for board in seven:
        setup = small_boards.get("/api/start", net=1, **board).json["setup"]
        assert len(setup) == board["handicap"]
    assert "there is no net 2" in small_boards.get("/api/start", net=2).error


def test_unsupported_games_are_refused(small_boards: ServedSite) -> None:
    reason = "net nine (book-small) supports 9 x 9 boards only, got 13 x 13"
    assert small_boards.get("/api/start", net=0, size=13).error == reason
    line = {"width": 13, "height": 13, "moves": [40]}
    assert small_boards.post("/api/play", {"line": line, "net": 0}).error == reason
    answer = small_boards.get("/api/start", net=1, size=7, handicap=5)
    assert answer.error == "handicap must be 0 to 4 on 7 x 7, got 5"
    body = {"line": start(small_boards, 9), "net": 1, "rank": "3d"}
    assert "ranks" in small_boards.post("/api/play", body).error


def test_replies_are_those_of_a_player(site_server: ServedSite) -> None:
    line, session = start(site_server, 19), play.player.GameSession(19, komi=7.5)
    evaluator = play.player.NetEvaluator(learn.net.open_net("small"), rules="chinese")
    player = play.player.Player(evaluator)
    for ply in range(12):
        colour = 1 + ply % 2
        expected = player.choose(session, colour, evaluator.evaluate(session, colour))
        answer = site_server.post("/api/play", {"line": line, "komi": 7.5, "handicap": 0}).json
        assert answer["move"] == expected
        session.play(expected, colour)
        line["moves"] = session.moves


def test_seeds_repeat_sampled_moves(site_server: ServedSite) -> None:
    body = {"line": start(site_server, 19), "temperature": 3, "seed": 5}
    assert len({site_server.post("/api/play", body).json["move"] for _ in range(3)}) == 1


def test_score_counts_area(site_server: ServedSite) -> None:
    column = [[2 + 9 * row, (3 + 9 * row) | 0x8000] for row in range(9)]
    line = {"width": 9, "height": 9, "moves": [move for pair in column for move in pair]}
    answer = site_server.post("/api/score", {"line": line, "komi": 7.5}).json
    assert (answer["black"], answer["white"], answer["result"]) == (27, 54 + 7.5, "W+34.5")
    assert [sum(owner == colour for owner in answer["area"]) for colour in (0, 1, 2)] == [0, 27, 54]


def test_record_reads_back(site_server: ServedSite) -> None:
    line = start(site_server, 19, 3)
    line["moves"] = [72 | 0x8000, 60, 361 | 0x8000]
    body = {"line": line, "komi": 0.5, "handicap": 3, "black": "me]", "white": "small", "result": "B+R"}
    game = kifu.read_sgf(site_server.post("/api/record", body).body)
    assert (game.players, game.komi, game.handicap, str(game.result)) == (("me]", "small"), 0.5, 3, "B+R")
    assert (game.moves.tolist(), sorted(game.setup.tolist())) == (line["moves"], sorted(line["setup"]))
