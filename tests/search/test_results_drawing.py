"""Drawings of positions and patterns as text, and the moves of their pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from catalogues import rows, write_catalogue
from kifu.point import WHITE_BIT
from kifu.search.continuations import Continuation
from kifu.search.notation import parse_pattern
from kifu.search.pattern import Rectangle
from kifu.search.position import Position
from kifu.search.results import LETTERS, Drawing
from kifu.search.searcher import Searcher
from kifu.viz.boards import to_svg

NONE = Continuation(
    None, None, None, False, 1, 0.1, 0, 0, None, None, None, None, None, None, None, recent=[], strongest=[]
)  # fmt: skip
PASS = replace(NONE, is_pass=True, colour="white")


def at(x: int, y: int, colour: str = "black", count: int = 7) -> Continuation:
    return replace(NONE, x=x, y=y, colour=colour, count=count, share=0.5)


def board(width: int, height: int, stones: dict[int, int]) -> Drawing:
    points = np.zeros(width * height, np.uint8)
    for point, colour in stones.items():
        points[point] = colour
    return Drawing.of_position(Position(width, height, points))


def test_a_board_has_coordinates_and_star_points() -> None:
    drawing = board(9, 9, {0: 1, 10: 2, 20: 1})
    assert drawing.to_text({(8, 8): "A"}) == [
        "   A B C D E F G H J",
        " 9 X . . . . . . . .",
        " 8 . O . . . . . . .",
        " 7 . . X . . . + . .",
        " 6 . . . . . . . . .",
        " 5 . . . . + . . . .",
        " 4 . . . . . . . . .",
        " 3 . . + . . . + . .",
        " 2 . . . . . . . . .",
        " 1 . . . . . . . . A",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("..X/#ox/*O.", [". . X", "# o x", "* O ."]), ("---/..X", ["-----", ". . X"]),
        ("+---/|..X", ["+------", "| . . X"]), ("+-+/|X|/+-+", ["   A", " 1 X"]),
        ("anchor: columns 1 rows 1-3/.X", ["| . X"]), ("1.2/3 at 1", ["1 . 2"]),
    ],
)  # fmt: skip
def test_parts_have_the_edges_that_they_touch(text: str, shown: list[str]) -> None:
    assert Drawing.of_pattern(parse_pattern(text)).to_text({}) == shown


@pytest.mark.parametrize("text", ["..X/#ox/*O.", "---/..X", "+---/|..X", "+-+/|.|/+-+", "1.2/.X."])
def test_the_text_of_a_pattern_is_its_notation(text: str) -> None:
    pattern = parse_pattern(text)
    assert parse_pattern("\n".join(Drawing.of_pattern(pattern).to_text({}))) == pattern


def test_a_window_without_freedom_touches_edges() -> None:
    pattern = replace(parse_pattern("X"), anchor=Rectangle(0, 3, 0, 0))
    assert Drawing.of_pattern(pattern).edges == (False, True, False, False)


def test_many_moves_are_aligned() -> None:
    rows = [" ".join(f"{10 * y + x + 1}" for x in range(10)) for y in range(2)]
    lines = Drawing.of_pattern(parse_pattern("\n".join(rows))).to_text({})
    assert {len(line) for line in lines} == {29}
    assert lines[0].split()[-1] == "10"


def test_moves_are_named() -> None:
    corner = Drawing.of_pattern(parse_pattern("+---/|..X"))
    assert [corner.move_name(each) for each in (at(0, 0), at(1, 0), PASS, NONE)] == ["1-1", "2-1", "pass", "none"]
    assert board(9, 9, {}).move_name(at(8, 0)) == "J9"


def test_a_point_has_one_letter_and_stones_have_none() -> None:
    drawing = board(9, 9, {})
    moves = [at(1, 1), PASS, at(1, 1, "white"), at(2, 2), NONE]
    assert drawing.letters(moves) == {(1, 1): "A", (2, 2): "B"}
    assert len(drawing.letters([at(x, y) for x in range(9) for y in range(9)])) == len(LETTERS)
    assert not {"X", "O"} & {*LETTERS}


def test_the_picture_lists_all_moves_and_numbers() -> None:
    drawing = Drawing.of_pattern(parse_pattern("+---/|1.2/3 at 1"))
    svg = ET.fromstring(to_svg(drawing.to_figure([at(1, 0, count=1234), PASS, NONE], "a title")))
    texts = [each.text for each in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a title", "1.2k", "2-1", "pass", "none"} <= {*texts}
    assert texts.count("1,234") == 1
    assert texts.count("2") == 3  # the second move and four names of the second column


def test_results_show_their_picture_in_notebooks(tmp_path: Path) -> None:
    path = write_catalogue(tmp_path / "games.parquet", rows(moves=[[72, 300 | WHITE_BIT], [300, 72 | WHITE_BIT]]))
    searcher = Searcher(path)
    hits = searcher.find(parse_pattern("...../.X.../....."))
    for result, title in (
        (hits, f"{len(hits):,} hits in 2 games"),
        (searcher.explore(Position(19, 19, np.zeros(361, np.uint8))), "2 games"),
    ):
        svg = ET.fromstring(result._repr_svg_() or "")
        assert title in [each.text for each in svg.iter("{http://www.w3.org/2000/svg}text")]
