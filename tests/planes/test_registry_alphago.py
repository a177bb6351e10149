"""alphago48: boards with the answer drawn beside them. X is black and to move, O is white."""

import numpy as np
import pytest

from drawn_games import draw
from kifu.planes.registry import PLANE_SETS

pytestmark = pytest.mark.slow  # the set takes long to compile

BITS = {"ladder capture": 44, "ladder escape": 45, "sensible": 46, "zeros": 47}
COUNTS = {  # the first of eight planes, and what it counts
    "turns since": (4, 1), "liberties": (12, 1), "capture size": (20, 0), "self-atari": (28, 1),
    "liberties after": (36, 1),
}  # fmt: skip

SHAPES = """
    . O O X .
    O O X . X
    X X . X O
    . . . O ."""

LARGE = """
    . O O O O X
    O O O O X .
    X X X X . ."""

EYES = """
    . X . . X . X
    X X . . X X X
    . . . . . . .
    . O X . . X O
    . X . X X . X
    . . X . . X O
    . . . . . . ."""

# White takes at w.
KO = """
    . X O .
    X w X O
    . X O .
    . . . ."""

CORNER = """
    . . . . . . .
    . . X . . . .
    . X O . . . .
    . X . . . . .
    . . . . . . .
    . . . . . . .
    . . . . . . ."""

ATARI = """
    . . . . .
    . . O . .
    . O X . .
    . . O . .
    . . . . ."""

DRAWN = [
    ("liberties", SHAPES, """
        . 1 1 2 .
        1 1 2 . 2
        3 3 . 2 1
        . . . 2 ."""),
    ("capture size", SHAPES, """
        4 . . . 0
        . . . 0 .
        . . 0 . .
        0 0 0 . 1"""),
    ("liberties after", SHAPES, """
        2 . . . 1
        . . . 2 .
        . . 4 . .
        2 3 2 . 1"""),
    ("self-atari", SHAPES, """
        . . . . 3
        . . . . .
        . . . . .
        . . . . 1"""),
    ("sensible", SHAPES, """
        # . . . .
        . . . # .
        . . # . .
        # # # . #"""),
    ("capture size", LARGE, """
        7 . . . . .
        . . . . . 0
        . . . . 0 0"""),
    ("liberties", LARGE, """
        . 1 1 1 1 1
        1 1 1 1 2 .
        1 1 1 1 . ."""),
    ("sensible", EYES, """
        . . # # . . .
        . . # # . . .
        # # # # # # #
        # . . # # . .
        # . . . . # .
        # # . # # . .
        # # # # # # #"""),
    ("sensible", KO, """
        # . . .
        . . . .
        # . . #
        # # # #"""),
    ("turns since", KO, """
        . 8 8 .
        8 1 . 8
        . 8 8 .
        . . . ."""),
    ("ladder capture", CORNER, """
        . . . . . . .
        . . . . . . .
        . . . # . . .
        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . . . . . ."""),
    ("ladder escape", ATARI, """
        . . . . .
        . . . . .
        . . . # .
        . . . . .
        . . . . ."""),
    ("zeros", SHAPES, """
        . . . . .
        . . . . .
        . . . . .
        . . . . ."""),
]  # fmt: skip


def rows(drawing):
    return [line.split() for line in drawing.strip().splitlines()]


def planes_of(drawing):
    lines = rows(drawing)
    at = {
        symbol: [(x, y) for y, line in enumerate(lines) for x, its in enumerate(line) if its == symbol]
        for symbol in "XOw"
    }
    nodes = [("AB", at["X"]), ("AW", at["O"]), *(("W", point) for point in at["w"]), ("B", None)]
    return draw("alphago48", (len(lines[0]), len(lines), nodes))[0][-1]


@pytest.mark.parametrize(("what", "board", "answer"), DRAWN)
def test_drawn_boards(what, board, answer):
    planes = planes_of(board)
    if what in BITS:
        drawing = np.where(planes[BITS[what]], "#", ".")
    else:
        first, least = COUNTS[what]
        eight = planes[first : first + 8]
        assert eight.sum(0).max() <= 1
        drawing = np.where(eight.any(0), (eight.argmax(0) + least).astype(str), ".")
    assert drawing.tolist() == rows(answer)


def test_the_first_planes():
    planes = planes_of(SHAPES)
    assert planes.shape == (48, 4, 5)
    board = np.array(rows(SHAPES))
    for k, symbol in enumerate("XO."):
        np.testing.assert_array_equal(planes[k], board == symbol)
    assert planes[3].all()


def test_the_value_networks_set_adds_the_colour():
    *features, colour = PLANE_SETS["alphago49@1"].features
    assert [each.name for each in features] == [each.name for each in PLANE_SETS["alphago48@1"].features]
    planes, _ = draw(colour.name, (5, 4, [("B", (0, 0)), ("W", (1, 1)), ("B", None), ("B", (2, 2))]))
    assert planes.shape[1] == 1
    assert planes.all(axis=(1, 2, 3)).tolist() == [True, False, True, True]
    assert planes.any(axis=(1, 2, 3)).tolist() == [True, False, True, True]


@pytest.mark.thorough
def test_the_planes_of_the_value_networks_set():
    nodes = [("B", (0, 0)), ("W", (1, 1)), ("B", None), ("B", (2, 2))]
    planes, _ = draw("alphago49", (5, 4, nodes))
    np.testing.assert_array_equal(planes[:, :48], draw("alphago48", (5, 4, nodes))[0])
    assert planes[:, 48].all(axis=(1, 2)).tolist() == [True, False, True, True]
    assert planes[:, 48].any(axis=(1, 2)).tolist() == [True, False, True, True]
