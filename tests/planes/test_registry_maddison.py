"""maddison36@2: black, white and empty points drawn by hand for both sides to move; the other planes as in @1."""

import numpy as np
import pytest
from hypothesis import given

import kifu
from drawn_games import draw, games

# X is black, O is white. Black takes the white stone in the corner with its last move.
GAME = b"(;SZ[4]AB[cc];W[da];B[ca];W[bb];B[db];W[bc])"
BOARDS = [
    ("W", """
        . . . .
        . . . .
        . . X .
        . . . ."""),
    ("B", """
        . . . O
        . . . .
        . . X .
        . . . ."""),
    ("W", """
        . . X O
        . . . .
        . . X .
        . . . ."""),
    ("B", """
        . . X O
        . O . .
        . . X .
        . . . ."""),
    ("W", """
        . . X .
        . O . X
        . . X .
        . . . ."""),
]  # fmt: skip


@pytest.mark.nojit
def test_black_white_and_empty_points_as_drawn():
    planes, _ = kifu.encode(kifu.read_sgf(GAME), "black+white+empty+black_to_move")
    assert len(planes) == len(BOARDS)
    for (colour, drawn), position in zip(BOARDS, planes):
        board = np.array([line.split() for line in drawn.split("\n")[1:]])
        np.testing.assert_array_equal(position[:3], [board == "X", board == "O", board == "."])
        assert (position[3] == (colour == "B")).all()


@pytest.mark.slow
@given(drawn=games())
def test_only_the_first_two_planes_differ_from_version_1(drawn):
    first, second = (draw(name, drawn, rating=(34, 41))[0] for name in ("maddison36@1", "maddison36@2"))
    np.testing.assert_array_equal(first[:, 2:], second[:, 2:])
    for (colour, _), own, fixed in zip([node for node in drawn[2] if len(node[0]) == 1], first, second):
        np.testing.assert_array_equal(own[:2], fixed[:2] if colour == "B" else fixed[1::-1])
