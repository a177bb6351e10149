"""seven@1: against the naive board, and the laws that its planes keep."""

import numpy as np
import pytest
from hypothesis import given

import kifu
from drawn_games import SETUP, games, sgf
from kifu.errors import DropReason, GameError, IllegalMove
from kifu.planes.registry import find_plane_set
from kifu.point import BLACK, NO_POINT, WHITE
from naive import NaiveBoard


def twin(width, height, nodes):
    """The planes and labels of a game, found by looking. nodes: ("B" or "W", point or None), or (setup, points)."""
    board = NaiveBoard(width, height)
    planes, labels = [], []
    for name, what in nodes:
        if name in SETUP:
            board.set_up(dict.fromkeys(what, {"AB": BLACK, "AW": WHITE, "AE": 0}[name]))
            continue
        mover = BLACK if name == "B" else WHITE
        if what is not None:
            here = np.zeros((7, height, width), np.uint8)
            for colour, stones, liberties in board.chains():
                for x, y in stones if liberties else ():
                    here[min(len(liberties), 3) - 1 + (0 if colour == mover else 3), y, x] = 1
            if board.ko_point is not None and board.ko_player == mover:
                here[6, board.ko_point[1], board.ko_point[0]] = 1
            planes.append(here)
            labels.append(what[1] * width + what[0])
        assert board.why_not(what, mover) == DropReason.KEPT
        board.play(what, mover)
    return np.array(planes, np.uint8).reshape(-1, 7, height, width), np.array(labels, np.int32)


@pytest.mark.nojit
@given(games())
def test_against_the_naive_board(drawn):
    planes, labels = kifu.encode(kifu.read_sgf(sgf(*drawn)), "seven")
    expected = twin(*drawn)
    np.testing.assert_array_equal(planes, expected[0])
    np.testing.assert_array_equal(labels, expected[1])
    assert planes.dtype == np.uint8
    assert labels.dtype == np.int32


@given(games())
def test_what_the_planes_hold(drawn):
    """A stone is in one plane; ko is one empty point at most, never the point that was played."""
    planes, labels = kifu.encode(kifu.read_sgf(sgf(*drawn)), "seven")
    stones, ko = planes[:, :6].sum(1), planes[:, 6]
    assert planes.max(initial=0) <= 1
    assert stones.max(initial=0) <= 1
    assert (ko.sum((1, 2)) <= 1).all()
    assert not (ko & stones).any()
    for row, label in enumerate(labels.tolist()):
        assert stones[row].flat[label] == 0
        assert ko[row].flat[label] == 0


def drawing(plane):
    return ["".join(".#"[point] for point in row) for row in plane.tolist()]


def test_a_ko_by_hand():
    """White has just taken at b2; Black may not take back, and White may fill in."""
    text = b"(;SZ[4];AB[ba][ab][bc][bb]AW[ca][cc][db];%s)"
    planes, labels = kifu.encode(kifu.read_sgf(text % b"W[cb];B[dd]"), "seven")
    assert labels.tolist() == [6, 15]
    assert drawing(planes[0, 0]) == ["....", "....", "....", "...."]
    (mine, other) = (planes[1, :3].sum(0), planes[1, 3:6].sum(0))
    assert drawing(mine) == [".#..", "##..", ".#..", "...."]
    assert drawing(other) == ["..#.", "..##", "..#.", "...."]
    taken = b"(;SZ[4];AB[ba][ab][bc]AW[ca][cc][db][bb];%s)"
    planes, labels = kifu.encode(kifu.read_sgf(taken % b"B[cb];W[dd];B[bb]"), "seven")
    assert drawing(planes[1, 6]) == ["....", ".#..", "....", "...."]
    assert drawing(planes[2, 6]) == ["....", "....", "....", "...."]
    planes, labels = kifu.encode(kifu.read_sgf(taken % b"B[cb];B[bb]"), "seven")
    assert drawing(planes[1, 6]) == ["....", "....", "....", "...."], "Black's own ko is free to Black"
    planes, labels = kifu.encode(kifu.read_sgf(taken % b"B[cb];W[];W[bb]"), "seven")
    assert drawing(planes[1, 6]) == ["....", "....", "....", "...."], "a pass lifts the ban"


def test_rows_begin_at_the_top():
    planes, labels = kifu.encode(kifu.read_sgf(b"(;SZ[5:3];B[ba];W[ec])"), "seven")
    assert planes.shape == (2, 7, 3, 5)
    assert labels.tolist() == [1, 14]
    assert drawing(planes[1, 5]) == [".#...", ".....", "....."]
    assert find_plane_set("seven").first_row == "top"


def test_games_of_no_moves():
    for text in (b"(;SZ[7])", b"(;SZ[7]AB[aa];B[];W[])"):
        planes, labels = kifu.encode(kifu.read_sgf(text), "seven")
        assert planes.shape == (0, 7, 7, 7)
        assert labels.shape == (0,)


@pytest.mark.parametrize(
    ("text", "ply", "move", "why"),
    [
        (b"(;SZ[9];B[aa];W[bb];B[aa])", 2, 0, DropReason.OCCUPIED),
        (b"(;SZ[9];B[];W[bb];B[zz])", 2, NO_POINT, DropReason.OFF_BOARD),
        (b"(;SZ[9]AB[ba][ab];W[aa])", 0, 0, DropReason.SUICIDE),
        (b"(;SZ[4]AB[ba][ab][bc]AW[ca][cc][db][bb];B[cb];W[bb])", 1, 5, DropReason.KO),
        (b"(;SZ[3:5];B[ce];W[];B[];W[ce])", 3, 14, DropReason.OCCUPIED),
    ],
)
def test_illegal_moves_are_named(text, ply, move, why):
    with pytest.raises(IllegalMove) as caught:
        kifu.encode(kifu.read_sgf(text), "seven")
    error = caught.value
    assert (error.ply, error.move, error.reason) == (ply, move, why)
    assert str(error).startswith(f"move {ply + 1} ")
    assert str(error).endswith(f"is illegal: {why.reason}")


@pytest.mark.parametrize("planes", ["seven", "kgsgo7", "kgsgo8"])
def test_dropped_games_raise(planes):
    with pytest.raises(GameError, match="dropped game cannot be encoded: a board size that is unreadable"):
        kifu.encode(kifu.read_sgf(b"(;SZ[99];B[aa])"), planes)


@pytest.mark.parametrize("planes", ["kgsgo7", "kgsgo8"])
def test_kgsgo_planes_are_for_one_size(planes):
    with pytest.raises(GameError, match="the kgsgo planes are for 19 x 19, not for 9 x 13"):
        kifu.encode(kifu.read_sgf(b"(;SZ[9:13];B[aa])"), planes)


def test_a_suicide_is_played(tmp_path):
    """Two stones take themselves off, and leave no trace in the planes."""
    text = b"(;SZ[5]AB[ba][bb][ac]AW[aa];W[ab];B[ee];W[ed])"
    planes, _ = kifu.encode(kifu.read_sgf(text), "seven")
    assert planes[0, 0, 0, 0] == 1
    assert not planes[1:, :, :2, 0].any()
