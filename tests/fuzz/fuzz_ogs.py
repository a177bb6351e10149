"""Damaged and generated OGS objects, which the reader must read as the naive one does."""

import json
import random
from typing import Any

from fuzzing import Fuzzer, damage
from naive_ogs import compare_with_naive

PIECES = (
    b"{", b"}", b"[", b"]", b",", b":", b'"', b'"moves":', b'"moves":[]', b'"gamedata":{', b'"width":', b'"black":',
    b"[3,3,100]", b",[-1,-1,5.5,null]", b"[15,3,1e3,2]", b'[1,2,null,1,{"blur":5,"s":[]}]', b"null", b"true", b"NaN",
    b'{"x":3,"y":3}', b',"color":1', b',"edited":true', b"1e400", b"-", b".5", b"1.", b"01", b"1e+2", b"0", b"-0",
    b"\\", b'\\"', b"\\u00e9", b"\\ud800", b"\\x", b"\n", b" ", b"\t", b"\r\n", b"\x00", b"\xff", b"\xc3\xa9",
    b'"original_sgf":', b'"initial_state":{"black":"pddp"}', b"#",
)  # fmt: skip

_ODD = (None, True, False, 0, -1, 1e400, 10**20, 2.5, "", "x", "28.5", [], {}, [1], {"black": 1}, "\ud800", "\u9280")
_MOVES: tuple[Any, ...] = (
    [3, 3], [3, 3, 1500], [-1, -1, 2000], [15, 15, 3.25], [2, 2, None, 1], [5, 5, -1, 2, {"blur": [1, {}], "x": "]"}],
    [19, 0, 5], [18, 18, 1e3], [1.5, 2, 3], [0, -1, 1], [24, 24, 0, 0], [3, 3, 1, None, {}], [4, 3.0, 1e16], [3], [], 7,
    "dd", ["3", 3], [True, 1], [1e400, 1],
)  # fmt: skip
_STRINGS = ("", "pddp", "pd..!1aa", "!2bb!0bb!undefinedcc", "tt", "PDzz", "p", "p9", "!3aa", "\u00e9", "!", "..")


def draw_game(draw: random.Random) -> dict[str, Any]:
    def value(*usual: Any) -> Any:
        return draw.choice(_ODD if draw.random() < 0.08 else usual)

    moves = [draw.choice(_MOVES[: 20 if draw.random() < 0.98 else None]) for _ in range(draw.randint(0, 12))]
    moves = [move for move in moves if move != [3]]
    game = {
        "width": value(19, 19, 19, 13, 9, 15),
        "height": value(19, 19, 19, 13, 9),
        "handicap": value(0, 0, 1, 2, 3, 5, 9, 10),
        "komi": value(6.5, "7.50", 375),
        "rules": value("japanese", "chinese", "AGA", "ing sst"),
        "initial_player": value("black", "white"),
        "initial_state": value({"black": "pddp", "white": ""}, {"black": "", "white": "aaaa"}),
        "free_handicap_placement": value(True, False),
        "moves": value(moves, moves, moves, moves, draw.choice(_STRINGS)),
        "players": value({"black": {"username": value("b"), "rank": value(28.1, 35)}, "white": {"username": "w"}}),
        "phase": value("finished", "play"),
        "winner": value("black", "white", "tie", 5),
        "outcome": value("Resignation", "12.5 points", "Timeout", "Cancellation"),
        "time_control": value({"system": "byoyomi", "main_time": value(60), "periods": 5, "period_time": 30}),
        "start_time": value(1589279239),
        "ogs_import": True,
        "original_sgf": value(None, 0, "(;SZ[9];B[ee])"),
        "chat": [{"moves": [[1, 1]]}, '"moves":[', "\\"],
    }
    kept = {name: each for name, each in game.items() if draw.random() < (0.1 if name.startswith("o") else 0.85)}
    names = list(kept)
    draw.shuffle(names)
    shuffled = {name: kept[name] for name in names}
    return {"gamedata": shuffled, "moves": [[0, 0]], "width": 9} if draw.random() < 0.2 else shuffled


def draw_lines(draw: random.Random) -> bytes:
    objects = [json.dumps(draw_game(draw), ensure_ascii=draw.random() < 0.5).encode("utf-8", "replace")]
    objects += [json.dumps(draw_game(draw)).encode() for _ in range(draw.randint(0, 2))]
    soup = draw.random() < 0.2
    data = b"".join(draw.choices(PIECES, k=draw.randint(0, 60))) if soup else b"\n".join(objects)
    return damage(draw, bytearray(data), PIECES) if draw.random() < 0.6 else data


def draw_object(draw: random.Random) -> bytes:
    data = json.dumps(draw_game(draw), indent=draw.choice((0, 1, 4))).encode()
    return damage(draw, bytearray(data), PIECES) if draw.random() < 0.6 else data


OGS = Fuzzer(draw_object, lambda data: compare_with_naive([data]))
OGS_LINES = Fuzzer(draw_lines, lambda data: compare_with_naive([data]))
