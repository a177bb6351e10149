"""Tests of patterns drawn in SGF."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.errors import GameError, KifuError, RecipeError, RecordError
from kifu.search.notation import format_pattern, parse_pattern
from kifu.search.position import FILE_LIMIT, pattern_from_sgf


@pytest.mark.parametrize(
    ("record", "text"),
    [
        # the rectangle
        ("(;SZ[5]AB[bb]AW[cb][cc]VW[aa:cc])", "+---/|.../|.XO/|..O"),
        ("(;SZ[5]AB[bb]AW[cb][cc]VW[aa][cc])", "+---/|.../|.XO/|..O"),
        ("(;SZ[5]AB[bb]AW[cb][cc]VW[bb:cc])", "XO/.O"),
        ("(;SZ[5]AB[bb]AW[cb][cc]VW[])", "+-----+/|.....|/|.XO..|/|..O..|/|.....|/|.....|/+-----+"),
        ("(;SZ[5]AB[bb]AW[cb][cc]SL[bb][cc])", "XO/.O"),
        ("(;SZ[5]AB[bb]AW[cb][cc]MA[bb]LB[cd:A])", "XO/.O/.."),
        ("(;SZ[5];B[bb];W[cb];B[ee];W[cc]VW[bb:cc];B[aa])", "XO/.O"),
        ("(;SZ[5];B[bb](;W[cb];B[ee];W[cc]VW[bb:cc])(;W[aa]))", "XO/.O"),
        ("(;SZ[5];B[bb]C[VW\\[aa:ee\\]];W[cb]VW[bb:cb];W[cc]VW[])", "XO"),
        ("(;SZ[5:3]AB[ec]VW[dc:ec])", ".X|/--+"),
        # the cells
        ("(;SZ[5]AB[bb]AW[cb][cc]VW[bb:cc]TR[bc][bb])", "*O/*O"),
        ("(;SZ[5]AB[bb]AW[cb][cc]VW[bb:cc]TR[bb:bc])", "*O/*O"),
        ("(;SZ[5]AB[bb]AW[cb][cc]VW[bb:cc]SQ[bb][cb])", "xo/.O"),
        ("(;SZ[5]AB[bb]AW[cb][cc]VW[bb:cc]CR[bb][bc])", "#O/#O"),
        ("(;SZ[5]AB[bb]AW[cb][cc]TR[bb]SQ[cc])", "*O/.o"),
        # the moves
        ("(;SZ[5]AB[bb]AW[cb][cc]VW[bb:dd]LB[db:1][dc:2][bc:B])", "XO1/.O2/..."),
        ("(;SZ[5]PL[W]AB[bb]AW[cb][cc]VW[bb:dd]LB[db:1][dc:2])", "moves: white/XO1/.O2/..."),
        ("(;SZ[5]AB[bb]AW[cb][cc];B[ee]VW[bb:dd]LB[db: 1 ])", "moves: white/XO1/.O./..."),
        ("(;SZ[5];B[bb];W[cb];B[bc]VW[bb:dd]LB[bb:1][cb:2][bc:3][cc:4])", "12./34./..."),
        ("(;SZ[5]AB[bb]AW[cb][cc]VW[bb:dd];B[db];W[];B[dc];W[bc])", "moves: black black/XO1/3O2/..."),
        ("(;SZ[5]AB[bb]AW[cb][cc]VW[bb:dd];B[db];W[ee])", "XO./.O./..."),
        ("(;SZ[5]AB[bb]AW[cb][cc]VW[];B[db])", "+-----+/|.....|/|.XO..|/|..O..|/|.....|/|.....|/+-----+"),
    ],
)
def test_drawn_patterns(record: str, text: str) -> None:
    assert pattern_from_sgf(record.encode()) == parse_pattern(text)


@pytest.mark.parametrize(
    ("record", "error", "message"),
    [
        ("nothing", RecordError, "no game record"),
        ("(;SZ[99])", GameError, "a dropped game shows no pattern: a board size"),
        ("(;SZ[5];B[aa];W[aa]VW[])", GameError, "move 2 (point 0) is illegal"),
        ("(;SZ[5]VW[bb:cc];B[bb];W[bb])", GameError, "move 2 (point 6) is illegal"),
        ("(;SZ[5]AB[bb])", RecipeError, "no node of the main line has VW or one of the marks TR, SQ, CR, MA, SL, LB"),
        ("(;SZ[5]VW[aa:ff])", RecipeError, "VW[aa:ff] is not on the 5 x 5 board of the pattern"),
        ("(;SZ[5]TR[])", RecipeError, "TR[] is not on the 5 x 5 board of the pattern"),
        ("(;SZ[5]LB[zz:1])", RecipeError, "LB[zz:1] is not on the 5 x 5 board of the pattern"),
        ("(;SZ[5]SQ[bb])", RecipeError, "SQ on B4 must mark a stone, which then may be missing; the point is empty"),
        ("(;SZ[5]VW[aa:bb]LB[aa:1][cc:2])", RecipeError, "move 2, C3, is outside the rectangle A5:B4"),
        ("(;SZ[5]LB[aa:1][cc:3])", RecipeError, "move 2 is missing; moves are numbered from 1 without gaps"),
        ("(;SZ[5]LB[aa:1][cc:1])", RecipeError, "move 1 occurs 2 times"),
        ("(;SZ[5]TR[bb][cc][bc][cb])", RecipeError, "a pattern needs a stone, an empty cell or a move"),
        ("(;SZ[5]VW[aa:eb])", RecipeError, "a pattern has no edge, one edge, two adjacent edges or all four"),
        (f"(;SZ[5]TR{'[aa]' * 1001})", RecipeError, "TR has at most 1,000 values in a pattern, got 1,001"),
        (" " * (FILE_LIMIT + 1), RecipeError, "a record with a pattern has at most 1,048,576 bytes, got 1,048,577"),
    ],
)  # fmt: skip
def test_bad_records_give_one_line(record: str, error: type[KifuError], message: str) -> None:
    with pytest.raises(error, match="^" + re.escape(message)):
        pattern_from_sgf(record.encode())


PIECES = [
    b"(", b")", b";", b"SZ[5]", b"SZ[5:3]", b"CA[Big5]", b"AB[bb]", b"AW[cb:dc]", b"AE[bb]", b"B[bc]", b"W[]",
    b"VW[aa:cc]",
    b"VW[]", b"TR[bb]", b"SQ[cb]", b"CR[dd]", b"SL[bb:dd]", b"LB[cc:1]", b"LB[bc:2]", b"LB[dd:x]", b"C[TR[aa\\]]", b"[",
    b"]", b"\\", b"\xa4", b"[bd]", b"tr[bb]", b"PL[W]",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=15), st.booleans())
def test_any_record_gives_a_pattern_or_an_error(pieces: list[bytes], is_game: bool) -> None:
    record = b"(;SZ[5]" * is_game + b"".join(pieces)
    with contextlib.suppress(KifuError):
        pattern = pattern_from_sgf(record)
        assert parse_pattern(format_pattern(pattern)) == pattern
