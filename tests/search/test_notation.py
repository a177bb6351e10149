"""Tests of the text notation of patterns."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.errors import RecipeError
from kifu.go.board import Board
from kifu.point import BLACK, MAX_SIZE, WHITE
from kifu.search.notation import CELLS, check_pattern, format_pattern, parse_pattern
from kifu.search.pattern import ANCHORS, ANY_CELL, Pattern, PatternMove, Rectangle
from kifu.search.position import pattern_from_sgf

PAGE = Path(__file__).parents[2] / "docs" / "patterns.md"

CORNER = """
    +----
    |....
    |..X.
    |....
"""


@st.composite
def windows(draw: st.DrawFn) -> Rectangle:
    left, right = sorted(draw(st.tuples(*[st.integers(0, MAX_SIZE - 1)] * 2)))
    top, bottom = sorted(draw(st.tuples(*[st.integers(0, MAX_SIZE - 1)] * 2)))
    return Rectangle(left, right, top, bottom)


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    width, height = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    colours = st.sampled_from([BLACK, WHITE])
    next_colour = draw(st.none() | colours)
    move = st.builds(PatternMove, st.integers(0, width - 1), st.integers(0, height - 1), colours)
    return Pattern(
        width,
        height,
        tuple(draw(st.lists(st.integers(1, ANY_CELL), min_size=width * height, max_size=width * height))),
        draw(st.sampled_from(ANCHORS) | windows()),
        both_colours=draw(st.booleans()),
        moves=tuple(draw(st.lists(move, max_size=14))),
        consecutive=draw(st.booleans()),
        next_colour=next_colour,
        actual_colour=draw(st.booleans()) if next_colour else False,
        last_ply=draw(st.none() | st.integers(0, 65_535)),
    )


@given(patterns())
def test_formatted_patterns_are_parsed_again(pattern: Pattern) -> None:
    try:
        check_pattern(pattern)
    except RecipeError as error:
        with pytest.raises(RecipeError, match=re.escape(str(error))):
            parse_pattern(format_pattern(pattern))
        return
    text = format_pattern(pattern)
    assert parse_pattern(text) == pattern
    assert format_pattern(parse_pattern(text)) == text
    assert parse_pattern(text.strip().replace("\n", "/")) == pattern


def test_cells() -> None:
    pattern = parse_pattern(".XOxo#*+")
    assert (pattern.width, pattern.height) == (8, 1)
    assert pattern.cells == (1, 2, 4, 3, 5, 6, 7, 1)
    assert pattern == Pattern(8, 1, pattern.cells)


@pytest.mark.parametrize(
    ("text", "anchor", "cells"),
    [
        ("X.\n..", "anywhere", (2, 1, 1, 1)),
        ("+--\n|X.\n|..", "corner", (2, 1, 1, 1)),
        ("--+\n.X|\n..|", "corner", (2, 1, 1, 1)),
        ("|..\n|X.\n+--", "corner", (2, 1, 1, 1)),
        ("..|\n.X|\n--+", "corner", (2, 1, 1, 1)),
        ("---\nXO.", "side", (2, 4, 1)),
        ("XO.\n---", "side", (2, 4, 1)),
        ("|X\n|O\n|.", "side", (2, 4, 1)),
        ("X|\nO|\n.|", "side", (2, 4, 1)),
        ("+--+\n|X.|\n|..|\n+--+", "board", (2, 1, 1, 1)),
        ("anchor: centre\nX.\n..", "centre", (2, 1, 1, 1)),
        ("Anchor:  Corner\n+--\n|X.\n|..", "corner", (2, 1, 1, 1)),
        ("anchor: columns 2-12, row 1\nX.\n..", Rectangle(1, 11, 0, 0), (2, 1, 1, 1)),
    ],
)
def test_edges_give_the_anchor(text: str, anchor: object, cells: tuple[int, ...]) -> None:
    pattern = parse_pattern(text)
    assert (pattern.anchor, pattern.cells) == (anchor, cells)


@pytest.mark.parametrize("k", range(8))
def test_all_drawings_of_a_corner_have_the_same_images(k: int) -> None:
    rows = ["X.O", "*1.", "..x", "2.."]
    upper, left = True, True
    rows = [row[::-1] for row in rows] if k & 1 else rows
    rows = rows[::-1] if k & 2 else rows
    upper, left = not k & 2, not k & 1
    if k & 4:
        rows = ["".join(column) for column in zip(*rows)]
        upper, left = left, upper
    rows = [f"|{row}" if left else f"{row}|" for row in rows]
    edge = "-" * (len(rows[0]) - 1)
    edge = "+" + edge if left else edge + "+"
    drawn = parse_pattern("\n".join([edge, *rows] if upper else [*rows, edge]))
    given = parse_pattern("+---\n|X.O\n|*1.\n|..x\n|2..")
    assert {image[2:] for image in drawn.images(19, 19)} == {image[2:] for image in given.images(19, 19)}


def test_moves() -> None:
    pattern = parse_pattern("|.1.\n|X32\n+---\n4 at 1, 5 at bb")
    assert [move.colour for move in pattern.moves] == [BLACK, WHITE, BLACK, WHITE, BLACK]
    assert [move[:2] for move in pattern.moves] == [(1, 1), (2, 0), (1, 0), (1, 1), (1, 0)]
    assert parse_pattern("moves: white\n1X2").moves == (PatternMove(0, 0, WHITE), PatternMove(2, 0, BLACK))
    assert [move.colour for move in parse_pattern("moves: B B w\n12345").moves] == [1, 1, 2, 1, 2]


def test_cells_may_be_separated() -> None:
    numbers = " ".join(map(str, range(1, 13)))
    pattern = parse_pattern(f"{numbers}|\n{'.  ' * 12}|")
    assert (pattern.anchor, pattern.width, pattern.height) == ("side", 2, 12)
    assert pattern.moves[11] == PatternMove(0, 0, WHITE)


def test_settings() -> None:
    pattern = parse_pattern("colours: fixed\nnext: actual white\nconsecutive: yes\nlast ply: 60\n.X.")
    assert not pattern.both_colours
    assert (pattern.next_colour, pattern.actual_colour) == (WHITE, True)
    assert pattern.consecutive
    assert pattern.last_ply == 60


GNU_GO = """
    A B C D E F G H J
 9 . . . . . . . . . 9
 8 . . . . . . . . . 8
 7 . . + . . . + . . 7
 6 . . . . . X . . . 6
 5 . . . . +(O). . . 5
 4 . . . . . . . . . 4
 3 . . + . . . + . . 3
 2 . . . . . . . . . 2     WHITE (O) has captured 0 stones
 1 . . . . . . . . . 1     BLACK (X) has captured 0 stones
    A B C D E F G H J
"""

PACHI = """
      A B C D E F G H J
    +-------------------+
  9 | . . . . . . . . . |
  8 | . . . . . . . . . |
  7 | . . . . . . . . . |
  6 | . . . . . X . . . |
  5 | . . . . . O). . . |
  4 | . . . . . . . . . |
  3 | . . . . . . . . . |
  2 | . . . . . . . . . |
  1 | . . . . . . . . . |
    +-------------------+
"""


def test_boards_of_programs() -> None:
    board = Board(9)
    board.play("F6")
    board.play("F5")
    own = parse_pattern(str(board))
    assert (
        own
        == parse_pattern(GNU_GO)
        == parse_pattern(PACHI)
        == parse_pattern(PACHI.lower().replace("x", "X").replace("o", "O"))
    )
    assert (own.anchor, own.width, own.cells[5 * 0 + 3 * 9 + 5], own.cells[4 * 9 + 5]) == ("board", 9, 2, 4)
    assert sum(own.cells) == 79 + 2 + 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a pattern needs a diagram of at least one row"),
        ("next: black", "a pattern needs a diagram of at least one row"),
        ("+---+", "a pattern needs a diagram of at least one row"),
        ("***\n***", "a pattern needs a stone, an empty cell or a move, got wildcards only"),
        (".X.\n.X", "line 2: the row has 2 cells, but the first row has 3"),
        ("X" * 26, "line 1: a row has 1 to 25 cells, got 26"),
        ("X\n" * 26, "a pattern has at most 25 rows, got 26"),
        ("||", "line 1: a row has 1 to 25 cells, got 0"),
        (".X.\n.b.", "line 2: 'b' is not a cell: . X O x o # * and move numbers are allowed"),
        (".\x1b.", r"line 1: '\x1b' is not a cell: . X O x o # * and move numbers are allowed"),
        (".0.", "line 1: '0' is not a cell: . X O x o # * and move numbers are allowed"),
        (".٣.", "line 1: '٣' is not a cell: . X O x o # * and move numbers are allowed"),
        (". 1000", "line 1: '1000' is not a cell: . X O x o # * and move numbers are allowed"),
        ("..\n--\n..", "line 2: an upper or lower edge must be the first or last line of the diagram"),
        ("|..\n...", "line 2: the left edge must be drawn in all rows or in none"),
        ("..\n.X|", "line 2: the right edge must be drawn in all rows or in none"),
        ("+--\n..", "line 1: the + at the left end is a corner, so the rows need a | on the left"),
        ("|..\n--+", "line 2: the + at the right end is a corner, so the rows need a | on the right"),
        ("--\nX.\n--", "a pattern has no edge, one edge, two adjacent edges or all four, got upper and lower"),
        ("+-+\n|X|", "a pattern has no edge, one edge, two adjacent edges or all four, got upper and left and right"),
        ("anchor: side\n" + CORNER, "the anchor is 'side', but the drawn edges mean 'corner'"),
        ("anchor: columns 1-2 rows 3\n" + CORNER, "the anchor is 'columns 1-2 rows 3-3', but the drawn"),
        ("anchor: columns 3-2 rows 1\nX", "line 1: columns and rows of an anchor are ascending numbers within 1 to 25"),
        ("anchor: centr\nX", "line 1: unknown anchor 'centr'; did you mean 'centre'?"),
        ("ancor: centre\nX", "unknown key of a pattern 'ancor'; did you mean 'anchor'?"),
        ("next: black\nnext: white\nX", "line 2: 'next' is given twice"),
        ("next: green\nX", "line 1: unknown colour 'green'; available: black, white"),
        ("colours: all\nX", "line 1: unknown colours 'all'"),
        ("consecutive: maybe\nX", "line 1: unknown consecutive 'maybe'"),
        ("last ply: -1\nX", "line 1: last ply must be a whole number within 0 to 65535, got '-1'"),
        ("moves: white black\n1", "'moves' lists 2 colours, more than the number of moves, 1"),
        ("1.3", "move 2 is missing; moves are numbered from 1 without gaps"),
        ("1.1", "move 1 occurs 2 times; moves are numbered from 1 without gaps"),
        ("1.\n2 at bb", "point 'bb' is outside the 2 x 1 pattern"),
        ("1.\n2 at 3", "'2 at 3': no move 3 is drawn"),
        ("1.\n2 at 1", "moves 1 and 2 of a pattern are on the same point"),
        ("1.\n2 at x", "line 2: '2 at x' is not the place of a move, such as '7 at 3' or '7 at bc'"),
        ("X.\n1 at aa", "move 1 of a pattern must be on a cell that may be empty, got one that holds a stone"),
        ("X.\n\n.X", "line 3: a diagram must not contain blank lines"),
        (" A B\n 2 ..\n 1 ...", "line 3: the row has 3 cells, but the first row has 2"),
        (" A B\n 2 ...\n 1 ...", "the board has 2 column letters and 3 columns"),
        (" A B\n 1 ..\n 2 ..", "line 2: this row of a board with column letters must begin with 2"),
        (" A C\n 1 ..", "column letters must be ABCDEFGHJKLMNOPQRST or the first of them, without I"),
    ],
)  # fmt: skip
def test_bad_patterns_give_one_line(text: str, message: str) -> None:
    with pytest.raises(RecipeError, match="^" + re.escape(message)) as caught:
        parse_pattern(text)
    assert "\n" not in str(caught.value)


@given(st.text(alphabet="|+- .XOxo#*12390AB:/\natbcnext", max_size=60) | st.text(max_size=60))
def test_any_text_gives_a_pattern_or_one_line(text: str) -> None:
    with contextlib.suppress(RecipeError):
        pattern = parse_pattern(text)
        assert parse_pattern(format_pattern(pattern)) == pattern


def test_examples_of_the_documentation_are_patterns() -> None:
    text = PAGE.read_text("utf-8")
    examples = re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    patterns = [parse_pattern(example) for example in examples]
    assert all(parse_pattern(format_pattern(pattern)) == pattern for pattern in patterns)
    corner = [pattern for pattern in patterns if pattern.width == 4 and pattern.anchor == "corner"]
    assert len(corner) == 2
    assert len(set(corner)) == 1  # the page calls them the same
    inline = re.findall(r"`(\+-[^`]*/[^`]*)`", text)
    assert [parse_pattern(example).anchor for example in inline] == ["corner"]
    assert {pattern.anchor for pattern in patterns} >= {"board", "corner", "side", "anywhere", Rectangle(8, 8, 8, 8)}


def test_python_of_the_documentation_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    assert parse_pattern(capsys.readouterr().out) == names["joseki"]


def test_sgf_of_the_documentation_is_a_pattern() -> None:
    (record,) = re.findall(r"^    (\(;.*\))$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert pattern_from_sgf(record.encode()).anchor == "corner"


def test_cells_and_settings_are_documented() -> None:
    text = PAGE.read_text("utf-8")
    documented = set(re.findall(r"^\| `(.)`", text, re.MULTILINE))
    assert documented == set(CELLS) | {"1"}
    section = text[text.index("### Settings") : text.index("### Moves")]
    keys = re.findall(r"^\| `([a-z ]+)` \|", section, re.MULTILINE)
    with pytest.raises(RecipeError, match="available: " + ", ".join(keys)):
        parse_pattern("wrong: 1\nX")
