"""Pictures of counts, read back from their SVG: marks, their colours, edges and the legend."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from test_boards import Picture

from kifu.errors import GameError
from kifu.viz.boards import BLACK_STONE, WHITE_STONE, CountedMove, draw_counts, to_svg

EMPTY = np.ones((9, 9), int)
PATH = "{http://www.w3.org/2000/svg}path"
MOVES = [
    CountedMove("C7", 2 * 9 + 2, 1, 1234, 0.5, 0.512),
    CountedMove("C7", 2 * 9 + 2, 2, 411, 0.2, None),
    CountedMove("J1", 80, 2, 9, 0.004, 0.0),
    CountedMove("pass", None, 1, 7, 0.003, 1.0),
]


def texts(figure) -> list[str]:
    return [t.text for t in ET.fromstring(to_svg(figure)).iter("{http://www.w3.org/2000/svg}text")]


def test_each_point_has_the_count_of_both_colours() -> None:
    picture = Picture(draw_counts(EMPTY, MOVES), 9, 9)
    shown = [(text, x, y) for text, x, y in picture.texts() if text in ("1.6k", "9")]
    board = {(text, picture.place(x, y - 3)) for text, x, y in shown if x < picture.grids[0][0] + 8.5 * picture.cell}
    assert board >= {("1.6k", (0, 2, 2)), ("9", (0, 8, 8))}


def test_stones_cells_and_numbers() -> None:
    cells = EMPTY.copy()
    cells[0, 0], cells[1, 1], cells[2, 2], cells[3, 3] = 2, 4, 7, 3
    picture = Picture(draw_counts(cells, [], numbers={4: ("1", 2), 5: ("2", 1)}), 9, 9)
    assert picture.discs(BLACK_STONE) == {(0, 0, 0), (0, 5, 0), (0, 3, 3)}
    assert picture.discs(WHITE_STONE) == {(0, 1, 1), (0, 4, 0)}
    assert set(picture.paths("fill: #b9b2a6")) == {(0, 2, 2)}


def test_the_ring_is_as_white_as_the_moves() -> None:
    arcs = Picture(draw_counts(EMPTY, MOVES), 9, 9)
    white = [p for p in arcs.root.iter(PATH) if f"fill: {WHITE_STONE}" in p.get("style", "") and p.get("d")]
    lengths = [len(re.findall("C", path.get("d"))) for path in white]
    assert len(white) == 2
    assert lengths[0] < lengths[1]  # 411 of 1,645 moves and 9 of 9


def test_the_legend_lists_the_moves() -> None:
    shown = texts(draw_counts(EMPTY, MOVES))
    start = shown.index("next")
    assert shown[start : start + 18] == [
        "next", "times", "share", "wins",
        "C7", "1,234", "50.0%", "51%",
        "C7", "411", "20.0%",
        "J1", "9", "0.4%", "0%",
        "pass", "7", "0.3%",
    ]  # fmt: skip


def test_a_long_legend_ends_with_the_rest() -> None:
    moves = [CountedMove("x", point, 1, 10, 0.01, None) for point in range(81)]
    figure = draw_counts(EMPTY, moves)
    shown = texts(figure)
    listed = shown.count("x")
    assert 10 < listed < 81
    assert shown[-3:] == [f"{81 - listed} others", f"{10 * (81 - listed):,}", f"{(81 - listed) / 100:.1%}"]


def test_the_legend_beside_a_small_part_has_room() -> None:
    moves = [CountedMove("x", 0, 1, 10, 0.01, None)] * 11 + [CountedMove("none", None, 0, 10, 0.01, None)]
    assert texts(draw_counts([[1]], moves, edges=(False,) * 4)).count("x") == 11
    shown = texts(draw_counts([[1]], moves * 3, edges=(False,) * 4))
    assert shown.count("none") == 3
    assert "23 others" in shown


def test_lines_continue_beyond_sides_that_are_no_edges() -> None:
    def extent(edges):
        picture = Picture(draw_counts(np.ones((3, 4), int), [], edges=edges), 4, 3)
        (group, *_) = (g for g in picture.root.iter() if g.get("id", "").startswith("LineCollection"))
        xs, ys = picture._lines(group)
        return min(xs), min(ys), max(xs), max(ys)

    board = extent((True, True, True, True))
    for side in range(4):
        opened = extent(tuple(k != side for k in range(4)))
        moved = [abs(a - b) > 1 for a, b in zip(board, opened)]
        assert moved == [k == side for k in range(4)]


@pytest.mark.parametrize("shape", [(1, 1), (25, 25), (1, 25), (19, 19)])
def test_any_size_and_no_moves(shape: tuple[int, int]) -> None:
    assert "next" in texts(draw_counts(np.ones(shape, int), [], title="0 hits"))


def test_coordinates_are_those_of_the_board_or_numbers() -> None:
    assert "A" in texts(draw_counts(EMPTY, []))
    parts = texts(draw_counts(EMPTY, [], edges=(True, True, False, False)))
    assert "A" not in parts
    assert parts.count("9") == 4


def test_bytes_are_reproducible() -> None:
    assert to_svg(draw_counts(EMPTY, MOVES, title="a")) == to_svg(draw_counts(EMPTY, MOVES, title="a"))


@pytest.mark.parametrize(
    ("cells", "point", "message"),
    [
        ([[0]], None, "cells must be [height, width] of 1 to 7, got shape (1, 1)"),
        ([1], None, "cells must be [height, width] of 1 to 7, got shape (1,)"),
        ([[8]], None, "of 1 to 7"),
        (np.ones((26, 1), int), None, "board size 1 x 26"),
        ([[1]], 1, "point 1 is not within 0 to 0"),
        ([[1]], -1, "point -1 is not within 0 to 0"),
    ],
)
def test_invalid_arguments(cells, point, message: str) -> None:
    with pytest.raises(GameError, match=re.escape(message)):
        draw_counts(cells, [CountedMove("x", point, 1, 1, 1.0, None)])
