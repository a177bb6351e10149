"""Tests of patterns that are cut out of a board."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.errors import RecipeError
from kifu.point import BLACK, WHITE
from kifu.search.notation import format_pattern, parse_pattern
from kifu.search.pattern import Rectangle
from kifu.search.position import Position, parse_position, pattern_from_position, sequence_pattern

BOARD = """
X....
.O...
..X.O
.....
"""


def board() -> Position:
    position = parse_position(BOARD)
    assert isinstance(position, Position)
    return position


@pytest.mark.parametrize(
    ("rectangle", "text"),
    [
        ("A3:B4", "+--/|X./|.O"),
        ("B4:A3", "+--/|X./|.O"),
        ("D2:E4", "+--/|../|../|O."),
        ("A1:C2", "+---/|.../|..X"),
        ("B3:D4", "---/.../O.."),
        ("B1:D2", "---/.../.X."),
        ("A2:B3", "--/../O."),
        ("D2:E3", "--/.O/.."),
        ("B2:C3", "O./.X"),
        ("A1:E4", "+-----+/|X....|/|.O...|/|..X.O|/|.....|/+-----+"),
    ],
)
def test_rectangles_of_positions(rectangle: str, text: str) -> None:
    assert pattern_from_position(board(), rectangle) == parse_pattern(text)


@given(st.data())
def test_cut_rectangles_are_found_where_they_were(data: st.DataObject) -> None:
    position = board()
    x0, x1 = sorted(data.draw(st.tuples(st.integers(0, 4), st.integers(0, 4))))
    y0, y1 = sorted(data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3))))
    try:
        pattern = pattern_from_position(position, Rectangle(x0, x1, y0, y1))
    except RecipeError as error:
        assert "edges" in str(error)  # noqa: PT017 - only some rectangles fail
        assert (x0 == 0) == (x1 == 4) or (y0 == 0) == (y1 == 3)
        return
    cells = position.cells()
    wanted = x1 - x0 + 1, y1 - y0 + 1, tuple(cells[y * 5 + x] for y in range(y0, y1 + 1) for x in range(x0, x1 + 1))
    assert any(
        (image.width, image.height, image.cells) == wanted
        and image.window.left <= x0 <= image.window.right
        and image.window.top <= y0 <= image.window.bottom
        for image in pattern.images(5, 4)
    )


def test_sequences() -> None:
    pattern = sequence_pattern("R17 pass R15", min_size=4)
    assert format_pattern(pattern) == "moves: black black\n+----\n|....\n|....\n|..1.\n|....\n|..2.\n"
    assert sequence_pattern("D3 D5", min_size=3) == parse_pattern("+----/|..../|..../|...1/|..../|...2")
    assert sequence_pattern("D3 D5", "C2:E6") == parse_pattern(".../.2./.../.1./...")
    assert sequence_pattern("E5", width=9, height=9).width == 8
    assert sequence_pattern("B2", width=5, height=5).anchor == "board"


def test_sequences_respect_captures() -> None:
    pattern = sequence_pattern("A2 A1 B1 C1 A1", "A1:C3", width=9)
    assert [move[:2] for move in pattern.moves] == [(0, 1), (0, 0), (1, 0), (2, 0), (0, 0)]
    assert [move.colour for move in pattern.moves] == [BLACK, WHITE, BLACK, WHITE, BLACK]


@pytest.mark.parametrize(
    ("rectangle", "message"),
    [
        ("A1", "a rectangle is given by two of its corners, such as C12:H19: got 'A1'"),
        ("A1:B2:C3", "a rectangle is given by two of its corners, such as C12:H19: got 'A1:B2:C3'"),
        ("A1:pass", "a rectangle is given by two of its corners, such as C12:H19: got 'A1:pass'"),
        ("A1:F2", "a rectangle is given by two of its corners, such as C12:H19: 'F2' is not a GTP vertex of a 5 x 4"),
        ("A1:E2", "a pattern has no edge, one edge, two adjacent edges or all four, got lower and left and right"),
        ("A2:E3", "a pattern has no edge, one edge, two adjacent edges or all four, got left and right"),
    ],
)
def test_bad_rectangles_give_one_line(rectangle: str, message: str) -> None:
    with pytest.raises(RecipeError, match="^" + re.escape(message)):
        pattern_from_position(board(), rectangle)


def test_bad_sequences_give_one_line() -> None:
    with pytest.raises(RecipeError, match=r"^a sequence needs at least one move on the board$"):
        sequence_pattern("pass")
    with pytest.raises(RecipeError, match=r"^move 2, D4, is outside the rectangle Q19:T15$"):
        sequence_pattern("R17 D4", "Q19:T15")
    with pytest.raises(RecipeError, match=r"^move 2, R17, is illegal: a move on an occupied point$"):
        sequence_pattern("R17 R17")
