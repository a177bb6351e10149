"""Patterns in text, drawn in SGF, and cut out of a board."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.errors import GameError, KifuError, RecipeError, RecordError
from kifu.go.board import Board
from kifu.point import BLACK, MAX_SIZE, WHITE
from kifu.search.notation import CELLS, check_pattern, format_pattern, parse_pattern
from kifu.search.pattern import ANCHORS, ANY_CELL, Pattern, PatternMove, Rectangle
from kifu.search.position import (
    FILE_LIMIT,
    Position,
    parse_position,
    pattern_from_position,
    pattern_from_sgf,
    sequence_pattern,
)

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
