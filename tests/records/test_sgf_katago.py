"""KataGo's games: the figures of its searches, kinds of games, and rules."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.export import rows_to_sgf
from kifu.corpus.rows import rows_from_parsed
from kifu.errors import DropReason
from kifu.point import POINT_MASK, WHITE_BIT, to_sgf
from kifu.records.decode import decode
from kifu.records.sgf import as_block, read_block
from kifu.records.text import known_programs
from naive_text_fields import compare_text_fields

SHARED = Path(__file__).parents[3] / "shared"
FILE = SHARED / "data" / "formats" / "katago-sgfs" / "runOutputTests.sgfs"
REFERENCE = SHARED / "reference" / "formats" / "katago-sgfs.json"

NAN = [math.nan] * 4
ROOT = "C[startTurnIdx=1,initTurnNum=0,gameHash=4ABB,gtype=fork]"


def evaluations(text: str) -> list[list[float]] | None:
    figures = compare_text_fields(as_block([f"(;FF[4]GM[1]SZ[9]{text})".encode()])).evaluations
    return None if figures is None else [[round(float(each), 4) for each in move] for move in figures]


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("0.44 0.26 0.30 1.4 v=2 weight=1.00", [0.44, 0.26, 1.4, 2]),
        ("0.50 0.50 0.00 -0.2 v=20 rv=80 weight=1.00", [0.5, 0.5, -0.2, 20]),
        ("Pass for ko 0.37 0.29 0.34 0.8 v=2 weight=1.00", [0.37, 0.29, 0.8, 2]),
        ("1.00 0.00 0.00 88.5 v=1600 result=W+7.5", [1, 0, 88.5, 1600]),
        ("0.44 0.26 0.30 1.4", NAN),
        ("0.26 0.30 1.4 v=2", NAN),
        ("0.44 0.26 x 1.4 v=2", NAN),
        ("0.44 0.26 0.30 1.4 v=", NAN),
        ("0.44 0.26 0.30 1.4 rv=3", NAN),
        ("4.44 0.26 0.30 1.4 v=2", NAN),
        ("0.44 0.26 0.30 1.4 v=9999999999", NAN),
        ("", NAN),
    ],
)
def test_comments_of_moves(comment: str, expected: list[float]) -> None:
    np.testing.assert_array_equal(evaluations(f"{ROOT};B[aa];W[ba]C[{comment}]"), [NAN, expected])


@pytest.mark.parametrize(
    "node",
    [
        "B[aa]C[0.44 0.26 0.30 1.4 v=2]BM[1]",
        "B[aa]C[0.44 0.26 0.30 1.4 v=2] \n",
        "B[aa] C[0.44 0.26 0.30 1.4 v=2]",
        "C[0.44 0.26 0.30 1.4 v=2]B[aa]",
        "B[]C[0.44 0.26 0.30 1.4 v=2]",
        "W[a]C[0.44 0.26 0.30 1.4 v=2]",
        "W[aaa]C[0.44 0.26 0.30 1.4 v=2]W[bb]",
        "W[ba]C[0.44 0.26 0.30 1.4 v=2]W[aa]",
        "B[aa]C[0.44 0.26 0.30 1.4 v=2 \\]]",
        "B[aa]C[0.44 .26 0.30 01.40 v=002]",
        "B[aa]C[0.44 0.26 0 1.4 v=2][0.5 0.5 0 9 v=3]",
        "B[aa]C[0.44  0.26\t0.30 1.4 v=2]",
        "B[aa]C[0.44 0.26 0.30 1.4000000000 v=2.5]",
    ],
)
def test_nodes_of_other_forms(node: str) -> None:
    text = f"{ROOT};W[ab]C[0.1 0.9 0.0 -1.5 v=9];{node};W[ab]C[0.2 0.8 0.0 1.5 v=9];;"
    expected = [[0.1, 0.9, -1.5, 9], [0.44, 0.26, 1.4, 2], [0.2, 0.8, 1.5, 9]]
    np.testing.assert_array_equal(evaluations(text), expected)
    np.testing.assert_array_equal(evaluations(f"CA[klingon]{text}"), expected)


def test_only_games_with_katagos_root_comment_are_read() -> None:
    moves = ";B[aa]C[0.44 0.26 0.30 1.4 v=2]"
    assert evaluations(moves) is None
    assert evaluations(f"C[startTurn]{moves}") is None
    assert evaluations(f"C[x\\]startTurnIdx=0]{moves}") == [[0.44, 0.26, 1.4, 2]]
    two = as_block([f"(;SZ[9]{moves})(;SZ[9]{ROOT}{moves})".encode()])
    np.testing.assert_array_equal(read_block(two).evaluations[:, 3], [math.nan, 2])


def test_game_types() -> None:
    roots = [
        ROOT, "C[startTurnIdx=0]", "C[gtype=fork]", "", "C[startTurnIdx=0,gtype=asym,x]", "C[gtype=,startTurnIdx=]",
    ]  # fmt: skip
    parsed = compare_text_fields(as_block([f"(;SZ[9]{root};B[aa])".encode() for root in roots]))
    assert decode(parsed).text["game_type"].to_pylist() == ["fork", None, None, None, "asym", None]


def test_the_resigning_move_of_a_rating_game_is_missing() -> None:
    text = f"RE[W+R]{ROOT};B[aa]C[0.5 0.5 0.0 0.1 v=7];W[];C[0.99 0.01 0.00 90.0 v=8 result=W+R]"
    np.testing.assert_array_equal(evaluations(text), [[0.5, 0.5, 0.1, 7], NAN])


@pytest.mark.skipif(not FILE.exists(), reason="requires ../shared/data")
def test_real_games_equal_their_reference() -> None:
    parsed = read_block(as_block([FILE.read_bytes()]))
    expected = json.loads(REFERENCE.read_text())["files"]
    made = rows_from_parsed(parsed, "games", load_cleaning_rules("legal"), known_programs())
    assert made.drop.tolist() == [DropReason.KEPT] * len(expected)  # suicides, too
    batch = made.batch(made.drop)
    assert batch["game_type"].to_pylist() == ["normal"] * len(expected)
    for row, game in zip(batch.to_pylist(), expected):
        width, height = game["size"] if isinstance(game["size"], list) else [game["size"]] * 2
        names = [to_sgf(word & POINT_MASK, width, height) or "pass" for word in row["moves"]]
        colours = ["W" if word & WHITE_BIT else "B" for word in row["moves"]]
        assert [f"{colour} {name}" for colour, name in zip(colours, names)] == game["moves"]
        assert (row["width"], row["height"], row["setup"]) == (width, height, game["setup"])
        assert (row["komi"], row["rules"], row["result_text"]) == (game["komi"], game["rules"], game["result"])
        wanted = {}
        for each in game["evaluations"]:
            # The reference leaves a comment that begins with words as it is.
            values = [each[name] for name in ("white_win", "white_loss", "white_score", "visits")] if "visits" in each \
                else [0.37, 0.29, 0.8, 2]  # fmt: skip
            wanted[each["move"]] = np.array(values, np.float32).tolist()
        found = {ply: list(each.values()) for ply, each in enumerate(row["evaluations"], start=1) if each}
        assert found == wanted


@pytest.mark.skipif(not FILE.exists(), reason="requires ../shared/data")
def test_written_games_have_the_same_figures() -> None:
    parsed = read_block(as_block([FILE.read_bytes()]))
    rules = load_cleaning_rules("legal")
    made = rows_from_parsed(parsed, "games", rules, known_programs())
    batch = made.batch(made.drop)
    records, failure = rows_to_sgf(batch)
    assert not failure.any()
    again = rows_from_parsed(read_block(as_block([b"".join(records)])), "games", rules, known_programs())
    rows = again.batch(again.drop)
    for name in ("moves", "setup", "evaluations", "game_type", "rules", "result_text"):
        assert rows[name].equals(batch[name]), name
    # HA[0] is not written, so that the records, and with them the ids, differ in it.
    assert (batch["handicap"].to_pylist(), rows["handicap"].to_pylist()) == ([0] * len(batch), [None] * len(batch))
