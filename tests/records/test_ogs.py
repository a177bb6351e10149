"""OGS JSON against a naive reader, independent readings of the samples, and one made object for each fact."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kifu
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.errors import DropReason
from kifu.point import NO_POINT, WHITE, WHITE_BIT, to_sgf
from kifu.records._bytes import LINE_LIMIT, OBJECT_LIMIT
from kifu.records._json import DEEPEST
from kifu.records.containers import read_blocks
from kifu.records.game import Game, game_at
from kifu.records.games import ParsedBlock, ParseWarning
from kifu.records.ogs import read_ogs
from kifu.records.sgf import as_block
from naive_ogs import compare_with_naive

PLAYERS = {"black": {"username": "b", "id": 7}, "white": {"username": "w", "id": 9}}


def object_of(moves: Any = ((3, 3, 100), (15, 15, 200)), **more: Any) -> dict[str, Any]:
    return {"width": 19, "height": 19, "players": PLAYERS, "moves": moves, **more}


def read(value: Any) -> ParsedBlock:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return read_ogs(as_block([data]))


def game_of(value: Any) -> Game:
    return game_at(read(value), 0)


def plays(game: Game) -> str:
    names = {0: "AB", WHITE_BIT: "AW", 0x4000: "AE"}
    stones = [
        f"{ply or ''}{names[int(stone) & 0xC000]}[{to_sgf(int(stone) & 0x3FFF, game.width, game.height)}]"
        for stone, ply in zip(game.setup, game.setup_ply)
    ]
    moves = [";W"[bool(m & WHITE_BIT) :][:1].strip(";") or "B" for m in game.moves.tolist()]
    points = [to_sgf(m & 0x3FFF, game.width, game.height) for m in game.moves.tolist()]
    return "".join(stones) + "".join(f";{colour}[{point}]" for colour, point in zip(moves, points))


def drops(parsed: ParsedBlock) -> list[DropReason]:
    return [DropReason(drop) for drop in parsed.games.drop]


def test_samples(shared: Path) -> None:
    reference = json.loads((shared / "reference/formats/ogs.json").read_text())["files"]
    expected = {Path(each["file"]).name: each for each in reference}
    seen = []
    for path in sorted((shared / "data/formats/ogs").iterdir()):
        for k, game in enumerate(kifu.read(path), start=1):
            name = f"{path.name}#{k}" if path.suffix == ".jsonl" else path.name
            seen.append(name)
            check_sample(game, expected[name])
    assert sorted(seen) == sorted(expected)


def check_sample(game: Game, expected: dict[str, Any]) -> None:
    size = expected["size"]
    width, height = size if isinstance(size, list) else (size, size)
    assert (game.width, game.height, game.drop) == (width, height, DropReason.KEPT)
    moves = "".join(f";{move[0]}[{move[2:].replace('pass', '')}]" for move in expected["moves"])
    assert plays(game) == "".join(f"A{stone[0]}[{stone[2:]}]" for stone in expected["setup"]) + moves
    assert game.komi == expected["komi"]
    assert game.handicap == expected["handicap"]
    assert game.players == (expected["black"], expected["white"])
    assert [str(rank) for rank in game.ranks] == expected["ranks"]
    assert (game.text("RE") or None, game.date, game.rules) == (expected["result"], expected["date"], expected["rules"])
    clock = expected["time"]
    overtime = {"byoyomi": "{periods}x{period_time} byo-yomi", "fischer": "{time_increment} fischer"}[
        clock["system"]
    ].format(**clock)
    main = clock["main_time"] if "main_time" in clock else clock["initial_time"]
    assert (game.text("TM"), game.text("OT")) == (str(main), overtime)


def test_time_of_each_move(shared: Path) -> None:
    path = shared / "data/formats/ogs/game-beta-11359.json"
    (block,) = read_blocks([path])
    seconds = read_ogs(block).seconds
    assert seconds is not None
    expected = [move[2] / 1000 for move in json.loads(path.read_text())["moves"]]
    np.testing.assert_allclose(seconds, expected, rtol=1e-6)


TIMES = {
    "2280": 2.28, "2280.5": 2.2805, "0": 0.0, "null": None, "-1": None, "1e400": None, "1e3": 1.0, '"5"': 0.005,
    '"x"': None,
}  # fmt: skip


@pytest.mark.parametrize(("time", "seconds"), TIMES.items())
def test_milliseconds(time: str, seconds: float | None) -> None:
    parsed = read(json.dumps(object_of([[3, 3, 0], [4, 4, 8], [5, 5]])).replace("8", time, 1).encode())
    assert parsed.seconds is not None
    assert parsed.seconds[0] == 0
    assert math.isnan(parsed.seconds[2])
    assert parsed.seconds[1] == pytest.approx(math.nan if seconds is None else seconds, nan_ok=True)


MOVES = {
    "two": ([[3, 3, 1], [15, 15, 1]], {}, ";B[dd];W[pp]"),
    "pass": ([[3, 3, 1], [-1, -1, 1]], {}, ";B[dd];W[]"),
    "extra": ([[3, 3, 1, None, {"blur": 5, "a": [1, {}]}], [4, 4, 1]], {}, ";B[dd];W[ee]"),
    "white first": ([[3, 3, 1]], {"initial_player": "white"}, ";W[dd]"),
    "edited": ([[3, 3, 1], [4, 4, 1, 2], [5, 5, 1]], {}, ";B[dd];W[ee];W[ff]"),
    "objects": ([{"x": 3, "y": 3, "timedelta": 1}, {"x": 15, "y": 15}], {}, ";B[dd];W[pp]"),
    "objects with colours": (
        [{"x": 3, "y": 3, "color": 1}, {"x": 4, "y": 4, "color": 1}, {"color": 2, "x": 5, "y": 5}, {"x": 6, "y": 6}],
        {},
        ";B[dd];B[ee];W[ff];B[gg]",
    ),
    "edited objects": (
        [{"x": 3, "y": 3, "color": 2, "edited": True}, {"x": 4, "y": 4}, {"x": 5, "y": 5, "edited": False}],
        {},
        ";W[dd];B[ee];W[ff]",
    ),
    "objects with more": (
        [{"x": 3, "y": 3, "marks": {"a": [1]}, "blur": None}, [4, 4, 1], {"x": "5", "y": "5", "extra": "1"}],
        {},
        ";B[dd];W[ee];B[ff]",
    ),
    "handicap by objects": (
        [{"x": 3, "y": 3}, {"x": 4, "y": 4}, {"x": 5, "y": 5}],
        {"handicap": 2, "free_handicap_placement": True, "initial_state": {}},
        ";B[dd];B[ee];W[ff]",
    ),
    "numbers as text": ([["3", "3", "1"], [" 15", "15 "], ["-1", "-1"]], {}, ";B[dd];W[pp];B[]"),
    "text": ("ddpp..aa", {}, ";B[dd];W[pp];B[];W[aa]"),
    "edited text": ("dd!1eeff", {}, ";B[dd];B[ee];W[ff]"),
    "text in capitals": ("DDpP", {}, ";B[dd];W[pp]"),
    "text with removed stones": ("dd!0dd!undefinedaaff", {}, "1AE[dd]1AE[aa];B[dd];W[ff]"),
    "text off the board": ("ttzz", {}, ";B[];W[]"),
    "no moves": ([], {}, ""),
    "no text": ("", {}, ""),
    "free handicap with old passes": (
        [[3, 3], [-1, -1], [4, 4], [-1, -1], [5, 5], [6, 6], [-1, -1]],
        {"handicap": 3, "free_handicap_placement": True, "initial_state": {}},
        ";B[dd];B[ee];B[ff];W[gg];B[]",
    ),
    "initial state": (
        [[3, 3], [4, 4]],
        {"handicap": 2, "initial_state": {"black": "pddp", "white": "aa"}, "initial_player": "white"},
        "AB[pd]AB[dp]AW[aa];W[dd];B[ee]",
    ),
    "free handicap in the initial state": (
        [[3, 3], [4, 4]],
        {
            "handicap": 2, "free_handicap_placement": True, "initial_state": {"black": "pddp"},
            "initial_player": "white",
        },
        "AB[pd]AB[dp];W[dd];B[ee]",
    ),
    "fixed handicap": ([[3, 3]], {"handicap": 2}, "AB[pd]AB[dp];W[dd]"),
    "nine stones": (
        [[2, 2]],
        {"handicap": 9},
        "".join(f"AB[{p}]" for p in ("pd", "dp", "pp", "dd", "dj", "pj", "jj", "jd", "jp")) + ";W[cc]",
    ),
    "handicap of another board": ([[1, 1], [2, 2], [3, 3]], {"handicap": 2, "width": 15}, ";B[bb];B[cc];W[dd]"),
    "free rules": ([[1, 1], [2, 2], [3, 3]], {"handicap": 2, "rules": "chinese"}, ";B[bb];B[cc];W[dd]"),
    "fixed in spite of the rules": (
        [[1, 1]],
        {"handicap": 2, "rules": "chinese", "free_handicap_placement": False},
        "AB[pd]AB[dp];W[bb]",
    ),
    "small board": ([[1, 1]], {"handicap": 3, "width": 9, "height": 9}, "AB[gc]AB[cg]AB[gg];W[bb]"),
    "old handicap": ([[1, 1]], {"handicap": 2, "ogs_import": True}, "AB[dd]AB[pp];W[bb]"),
    "one stone": ([[1, 1], [2, 2]], {"handicap": 1}, ";B[bb];W[cc]"),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str) -> None:
    moves, more, expected = MOVES[name]
    value = object_of(moves, **more)
    assert plays(game_of(value)) == expected
    for data in (json.dumps(value), json.dumps(value, indent=4), json.dumps({"gamedata": value, "moves": [1]})):
        compare_with_naive([data.encode()])
        assert plays(game_of(data.encode())) == expected


TEXTS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "komi as text": ({"komi": "6.50"}, {"KM": "6.5"}),
    "komi 375": ({"komi": "375"}, {"KM": "375"}),
    "negative komi": ({"komi": -3.5}, {"KM": "-3.5"}),
    "komi of the rules": ({"rules": "chinese"}, {"KM": "7.5", "RU": "chinese"}),
    "komi of no rules, with a handicap": ({"handicap": 2}, {"KM": "0.5"}),
    "komi null": ({"komi": None, "rules": "chinese"}, {"KM": "7.5"}),
    "no komi": ({"komi": "?"}, {"KM": ""}),
    "stray rules": ({"rules": "ing sst"}, {"RU": "ing sst", "KM": ""}),
    "winner by id": ({"winner": 9, "outcome": "Resignation"}, {"RE": "W+R"}),
    "winner by the ids of the game": ({"winner": 3, "black_player_id": 3, "outcome": "Timeout"}, {"RE": "B+T"}),
    "winner by an id as text": ({"winner": "9", "outcome": "Resignation"}, {"RE": "W+R"}),
    "winner by black's id as text": ({"winner": "7", "outcome": "5.5 points"}, {"RE": "B+5.5"}),
    "winner by a fraction": ({"winner": 9.0, "outcome": "Resignation"}, {"RE": "W+R"}),
    "winner and ids as text": ({"winner": "3", "black": "3", "outcome": "Resignation"}, {"RE": "B+R"}),
    "winner in capitals": ({"winner": "White ", "outcome": "Resignation"}, {"RE": "W+R"}),
    "winner 0": ({"winner": "0", "outcome": "Resignation", "white_lost": True}, {"RE": "B+R"}),
    "winner by colour": ({"winner": "black", "outcome": "12.5 points"}, {"RE": "B+12.5"}),
    "one point": ({"winner": "white", "outcome": "1 point"}, {"RE": "W+1"}),
    "tie": ({"winner": "tie", "outcome": "0 points"}, {"RE": "0"}),
    "nothing between them": ({"outcome": "0 points"}, {"RE": "0"}),
    "only what follows the plus": ({"winner": 7, "outcome": "R"}, {"RE": "B+R"}),
    "in lower case": ({"winner": 9, "outcome": "r"}, {"RE": "W+R"}),
    "a number": ({"winner": 7, "outcome": "5.5"}, {"RE": "B+5.5"}),
    "a whole result": ({"winner": 7, "outcome": "B+5.5"}, {"RE": "B+5.5"}),
    "a whole result alone": ({"outcome": "W+R", "phase": "finished"}, {"RE": "W+R"}),
    "another winner": ({"winner": 7, "outcome": "W+5.5"}, {"RE": "B+"}),
    "abandonment": ({"winner": 7, "outcome": "Abandonment"}, {"RE": "B+F"}),
    "moderator": ({"winner": 7, "outcome": "Moderator Decision"}, {"RE": "B+"}),
    "cancellation": ({"winner": 7, "outcome": "Cancellation"}, {"RE": "Void"}),
    "annulled": ({"winner": 7, "outcome": "Resignation", "annulled": True}, {"RE": "Void"}),
    "lost by": ({"outcome": "Resignation", "black_lost": True, "white_lost": False}, {"RE": "W+R"}),
    "both lost": ({"outcome": "Timeout", "black_lost": True, "white_lost": True}, {"RE": ""}),
    "unfinished": ({"winner": 7, "outcome": "Resignation", "phase": "stone removal"}, {"RE": ""}),
    "unknown winner": ({"winner": 8, "outcome": "Resignation", "phase": "finished"}, {"RE": ""}),
    "byo-yomi": (
        {"time_control": {"system": "byoyomi", "main_time": 600, "periods": 5, "period_time": 30}},
        {"TM": "600", "OT": "5x30 byo-yomi"},
    ),
    "fischer": (
        {"time_control": {"time_control": "fischer", "initial_time": 60, "time_increment": 5, "max_time": 90}},
        {"TM": "60", "OT": "5 fischer"},
    ),
    "canadian": (
        {"time_control": {"system": "canadian", "main_time": 0, "stones_per_period": 25, "period_time": 300}},
        {"TM": "0", "OT": "25/300 Canadian"},
    ),
    "simple": ({"time_control": {"system": "simple", "per_move": 30}}, {"TM": "0", "OT": "30 simple"}),
    "absolute": ({"time_control": {"system": "absolute", "total_time": 900}}, {"TM": "900", "OT": ""}),
    "no time": ({"time_control": {"system": "none"}}, {"TM": "", "OT": ""}),
    "time in text": (
        {"time_control": "simple", "time_control_parameters": '{"system": "simple", "per_move": 10}'},
        {"TM": "0", "OT": "10 simple"},
    ),
    "start": ({"start_time": 1589279239}, {"DT": "2020-05-12"}),
    "start of the API": ({"started": "2020-05-12T21:30:00.123-04:00"}, {"DT": "2020-05-13"}),
    "start without a time zone": ({"started": "2020-05-12T23:59:59"}, {"DT": "2020-05-12"}),
    "start before all years": ({"started": "0001-01-01T00:00:00+14:00"}, {"DT": ""}),
    "no start": ({"start_time": 0}, {"DT": ""}),
    "title": ({"game_name": "a ] title"}, {"GN": "a ] title"}),
    "surrogate": ({"game_name": "\ud83d"}, {"GN": "?"}),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_fields(name: str) -> None:
    more, expected = TEXTS[name]
    game = game_of(object_of(**more))
    assert {field: game.text(field) for field in expected} == expected
    assert game_of(object_of(komi="375")).komi == 7.5


RANKS = {
    28.1: "2k", 29.9: "1k", 30: "1d", 30.9: "1d", 38.84: "9d", 0: "30k", 5.5: "25k", -1: "", 1037: "1p", 2500: "",
    "24.3": "6k", True: "", "3 dan": "", 45.5: "10d",
}  # fmt: skip


@pytest.mark.parametrize("rank", RANKS, ids=str)
@pytest.mark.parametrize("name", ["rank", "ranking"])
def test_ranks(rank: Any, name: str) -> None:
    assert game_of(object_of(players={"black": {name: rank}, "white": 5})).text("BR") == RANKS[rank]


@pytest.mark.parametrize("mark", ["professional", "pro"])
def test_professional_ranks(mark: str) -> None:
    texts = [game_of(object_of(players={"white": {"rank": r, mark: 1}})).text("WR") for r in (37, 45.9, 36.9, 50)]
    assert texts == ["1p", "9p", "7d", "10d"]


def test_wrapped_by_the_api() -> None:
    outer = {
        "id": 5, "black": 7, "white": 9, "komi": "6.50", "outcome": "Resignation", "black_lost": False,
        "white_lost": True, "started": "2020-05-12T21:30:00Z", "annulled": False, "width": 9, "moves": [],
        "players": {"black": {"username": "B", "ranking": 31.5}, "white": {"username": "w", "ranking": 20}},
    }  # fmt: skip
    inner = object_of(players={"black": {"username": "b"}}, komi=None, phase="finished")
    for data in (json.dumps({**outer, "gamedata": inner}), json.dumps({"gamedata": inner, **outer}, indent=1)):
        game = game_of(data.encode())
        assert plays(game) == ";B[dd];W[pp]"
        expected = {"PB": "b", "PW": "w", "BR": "2d", "WR": "10k", "KM": "6.5", "RE": "B+R", "DT": "2020-05-12"}
        assert {name: game.text(name) for name in expected} == expected


SGF = "(;SZ[9]CA[gb2312]PB[\u9280]RE[B+R]HA[2]AB[cc][gg];W[ee];B[dd])(;B[aa])"


@pytest.mark.parametrize("moves", [[[1, 1, 1]], [], "aa", None])
def test_uploaded_game(moves: Any) -> None:
    values = [object_of(), object_of(moves, original_sgf=SGF), {"original_sgf": "no"}, object_of("aabb")]
    parsed = read("\n".join(map(json.dumps, values)).encode())
    games = [game_at(parsed, g) for g in range(4)]
    assert plays(games[1]) == "AB[cc]AB[gg];W[ee];B[dd]"
    assert (games[1].width, games[1].handicap, games[1].text("PB"), games[1].text("RE")) == (9, 2, "\u9280", "B+R")
    assert [plays(games[g]) for g in (0, 3)] == [";B[dd];W[pp]", ";B[aa];W[bb]"]
    assert games[3].text("PB") == "b"
    assert drops(parsed) == [0, 0, DropReason.NO_RECORD, 0]
    assert parsed.games.block_index.tolist() == parsed.games.member.tolist() == [0] * 4
    assert parsed.index.tolist() == [0, 1, 2, 3]
    seconds = np.full(6, np.nan, np.float32)
    seconds[:2] = 0.1, 0.2
    np.testing.assert_array_equal(parsed.seconds, seconds)
    text = parsed.block.data[parsed.games.start[1] : parsed.games.stop[1]].tobytes()
    assert json.loads(text) == values[1]


BAD: dict[str, tuple[bytes, DropReason]] = {
    "empty": (b"", DropReason.NO_RECORD),
    "empty object": (b"{}", DropReason.NO_RECORD),
    "puzzle": (b'{"id": 5, "puzzle": {"move_tree": {"x": -1, "trunk_next": {}}}}', DropReason.NO_RECORD),
    "lost upload": (b'{"moves": [], "original_sgf": 0}', DropReason.NO_RECORD),
    "moves in a chat": (b'{"chat": [{"moves": [[1, 1]]}], "x": "moves", "moves": null}', DropReason.NO_RECORD),
    "another JSON": (b"[1]", DropReason.NO_RECORD),
    "escaped name": (b'{"mov\\u0065s": [[1, 1]]}', DropReason.UNREADABLE),
    "moves of another type": (b'{"moves": {"0": [1, 1]}}', DropReason.UNREADABLE),
    "truncated": (b'{"moves": [[1, 1], [2', DropReason.UNREADABLE),
    "mixed brackets": (b'{"moves": [[1, 1}]}', DropReason.UNREADABLE),
    "two objects": (b'{"moves": [[1, 1]]} {}', DropReason.UNREADABLE),
    "wide": (b'{"width": 26, "moves": []}', DropReason.BAD_SIZE),
    "size of another type": (b'{"width": [19], "moves": []}', DropReason.BAD_SIZE),
    "a move of text": (b'{"moves": ["dd"]}', DropReason.UNREADABLE),
    "a move object without y": (b'{"moves": [{"x": 1}]}', DropReason.UNREADABLE),
    "a move object of letters": (b'{"moves": [{"x": "d", "y": "d"}]}', DropReason.UNREADABLE),
    "a removed stone": (b'{"moves": [{"x": 1, "y": 1, "color": 0, "edited": true}]}', DropReason.UNREADABLE),
    "a move object that goes on": (b'{"moves": [{"x": 1, "y": 1] }]}', DropReason.UNREADABLE),
    "a number in half a text": (b'{"moves": [["1, 1]]}', DropReason.UNREADABLE),
    "short move": (b'{"moves": [[1]]}', DropReason.UNREADABLE),
    "NaN": (b'{"moves": [[NaN, 1]]}', DropReason.UNREADABLE),
    "comma at the end": (b'{"moves": [[1, 1],]}', DropReason.UNREADABLE),
    "letters": (b'{"moves": "aa99"}', DropReason.UNREADABLE),
    "nested": (b'{"moves": [], "x": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", DropReason.UNREADABLE),
    "nested moves": (b'{"moves": [[1,1,1,1,' + b"[" * 10_000 + b"]" * 10_000 + b"]]}", DropReason.UNREADABLE),
    "nested too deep": (
        b'{"moves": [], "x": ' + b"[" * DEEPEST + b"]" * DEEPEST + b"}", DropReason.UNREADABLE
    ),
    "many moves": (b'{"moves": "' + b"aa" * 65_536 + b'"}', DropReason.TOO_LARGE),
    "many stones": (
        b'{"moves": "' + b"!0aa" * 4_097 + b'"}', DropReason.TOO_LARGE
    ),
    "long line": (b'{"moves": [], "x": "' + b"a" * LINE_LIMIT + b'"}', DropReason.TOO_LARGE),
    "long object": (b'{"moves": [],\n "x": "' + b"a" * OBJECT_LIMIT + b'"}', DropReason.TOO_LARGE),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_object(name: str) -> None:
    data, drop = BAD[name]
    parsed = read(data if name != "another JSON" else b'{"moves": []}\n' + data)
    assert drops(parsed)[-1] == drop
    assert len(parsed.games.moves) == 0


GOOD: dict[str, tuple[bytes, list[int]]] = {
    "huge numbers": (b'{"moves": [[3, 0, 1]], "handicap": 1e400, "komi": 1' + b"0" * 4000 + b"}", [3]),
    "NaN elsewhere": (b'{"moves": [[3, 0]], "komi": NaN}', [3]),
    "not UTF-8": (b'{"moves": [[3, 0]], "game_name": "\xff"}', [3]),
    "last of two": (b'{"moves": [[1, 0]], "moves": [[3, 0]]}', [3]),
    "off the board": (b'{"moves": [[19, 0], [1.5, 2], [-1, 3]]}', [NO_POINT, NO_POINT | WHITE_BIT, NO_POINT]),
    "most moves": (b'{"moves": "' + b"aa" * 65_535 + b'"}', [0, WHITE_BIT] * 32_767 + [0]),
    "deepest": (b'{"moves": [[3, 0]], "x": ' + b"[" * (DEEPEST - 1) + b"]" * (DEEPEST - 1) + b"}", [3]),
}


@pytest.mark.parametrize("name", GOOD)
def test_tolerated_object(name: str) -> None:
    parsed = read(GOOD[name][0])
    assert drops(parsed) == [DropReason.KEPT]
    assert parsed.games.moves.tolist() == GOOD[name][1]


@pytest.mark.parametrize("field", [*object_of(), "handicap", "time_control", "initial_state", "gamedata", "winner"])
def test_wrong_types(field: str) -> None:
    for wrong in (None, True, 5, -1, 1e308, 10**30, "x" * 100, "\ud800", [], [[]], {}, {"black": []}, [{"id": 1}]):
        parsed = read(json.dumps({**object_of(), field: wrong}).encode())
        assert len(parsed.games) == 1
        parsed = read(json.dumps({**object_of(), "players": {"black": {field: wrong}, "white": wrong}}).encode())
        assert drops(parsed) == [DropReason.KEPT]


@pytest.mark.nojit
def test_lines_of_several_members() -> None:
    line = json.dumps(object_of()).encode()
    members = [b"\xef\xbb\xbf" + line + b"\r\n\n" + line + b"\n# x\n{]\n", line, json.dumps(object_of()).encode()]
    compare_with_naive(members)
    parsed = read_ogs(as_block(members))
    assert parsed.index.tolist() == [0, 2, 4, 0, 0]
    assert parsed.games.member.tolist() == [0, 0, 0, 1, 2]
    assert drops(parsed) == [0, 0, DropReason.UNREADABLE, 0, 0]


def test_too_many_lines() -> None:
    parsed = read(b'{"a":1}\n' * 1000)
    assert drops(parsed) == [DropReason.NO_RECORD] * (16 + 8 * 1000 // 32) + [DropReason.TOO_LARGE]


@pytest.mark.parametrize("indent", [None, 4])
def test_round_trip(tmp_path: Path, indent: int | None) -> None:
    game = object_of("ddpp..", komi=6.5, winner="black", outcome="3.5 points", start_time=1589279239, handicap=0)
    path = tmp_path / "game.json"
    path.write_text(json.dumps(game, indent=indent))
    (read_game,) = kifu.read(path)
    (again,) = kifu.read_games(kifu.write_sgf(read_game))
    assert plays(again) == plays(read_game) == ";B[dd];W[pp];B[]"
    assert (again.komi, str(again.result), again.date) == (6.5, "B+3.5", "2020-05-12")


def test_catalogue_of_a_compressed_dump(tmp_path: Path) -> None:
    values = [object_of("ddpp", handicap=h, players=PLAYERS, komi=k) for k in range(3) for h in (0, 2)]
    path = tmp_path / "dump.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, values)).encode()))
    report = ingest(path, tmp_path / "games.parquet", clean="legal")
    rows = [row for batch in open_catalogue(tmp_path / "games.parquet").batches() for row in batch.to_pylist()]
    assert (report.read, len(rows)) == (6, 6)
    assert [(row["format"], row["index"], row["komi"]) for row in rows] == [("ogs", k, k // 2) for k in range(6)]
    assert [row["to_play"] for row in rows] == [0, WHITE] * 3


def test_accounts_of_programs(tmp_path: Path) -> None:
    classes = (("bot", ""), ("", "provisional bot"), ("robot", None), ("bot", "bot"))
    lines = [
        json.dumps(object_of(players={"black": {"username": "GNU Go", "ui_class": b}, "white": {"ui_class": w}}))
        for b, w in classes
    ]
    (tmp_path / "dump.jsonl").write_text("\n".join(lines))
    ingest(tmp_path / "dump.jsonl", tmp_path / "games.parquet", clean="legal")
    rows = [row for batch in open_catalogue(tmp_path / "games.parquet").batches() for row in batch.to_pylist()]
    assert [row["program"] for row in rows] == [
        "black: account", "white: account; black: pattern GNUGo*", "black: pattern GNUGo*",
        "black: account; white: account",
    ]  # fmt: skip
    assert [row["white_program"] for row in rows] == [False, True, False, True]


def test_warnings() -> None:
    assert game_of({"moves": []}).warnings == ParseWarning.SIZE_MISSING
    for text in ("x", "1_0"):
        assert game_of(object_of(handicap=text)).warnings == ParseWarning.HANDICAP_TEXT
    assert game_of(object_of(handicap=1)).warnings == ParseWarning.HANDICAP_ONE
    assert game_of(object_of("tt")).warnings == ParseWarning.PASS_AS_TT
    assert game_of(object_of("ddp")).warnings == ParseWarning.TRUNCATED
    stones = {"black": "ttaa", "white": "aaaa"}
    bad = ParseWarning.BAD_SETUP_POINT | ParseWarning.SETUP_TWICE
    assert game_of(object_of("dd", initial_state=stones)).warnings == bad
