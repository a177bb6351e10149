"""Round trips through every notation of a move, and the group of symmetries."""

import numpy as np
import pytest

from kifu import point
from kifu.errors import GameError

SQUARES = [(size, size) for size in range(1, point.MAX_SIZE + 1)]
SIZES = [*SQUARES, (1, 25), (25, 1), (2, 3), (13, 9), (19, 20), (20, 19), (24, 25)]


def test_notations_are_unique():
    for width, height in SIZES:
        moves = range(point.pass_move(width, height) + 1)
        sgf, gtp = ([to(move, width, height) for move in moves] for to in (point.to_sgf, point.to_gtp))
        assert len(set(sgf)) == len(set(gtp)) == len(moves)
        assert [point.parse_sgf(name, width, height) for name in sgf] == list(moves)
        assert [point.parse_gtp(name, width, height) for name in gtp] == list(moves)
        assert [point.parse_gtp(name.lower(), width, height) for name in gtp] == list(moves)
        if width == height:
            assert sgf == [point.to_sgf(move, width) for move in moves]
            assert gtp == [point.to_gtp(move, width) for move in moves]


def test_notations_count_in_their_direction():
    """Independently of the tables: columns from the left, SGF rows from the top, GTP and kgsgo rows from the bottom."""
    for width, height in SIZES:
        for move in range(width * height):
            y, x = divmod(move, width)
            column, row = point.to_sgf(move, width, height)
            at = {**{chr(97 + i): i for i in range(26)}, **{chr(65 + i): 26 + i for i in range(26)}}
            assert (at[column], at[row]) == (x, y)
            name = point.to_gtp(move, width, height)
            assert ord(name[0]) - 65 - (name[0] > "I") == x
            assert height - int(name[1:]) == y
            assert divmod(point.to_bottom_row(move, width, height), width) == (height - 1 - y, x)
            assert point.to_bottom_row(point.to_bottom_row(move, width, height), width, height) == move


def test_the_corners_of_19x19():
    table = {0: ("aa", "A19", (18, 0)), 18: ("sa", "T19", (18, 18)), 342: ("as", "A1", (0, 0))}
    for move, names in table.items():
        assert (point.to_sgf(move, 19), point.to_gtp(move, 19), divmod(point.to_bottom_row(move, 19), 19)) == names
    assert (point.pass_move(19), point.to_sgf(361, 19), point.to_gtp(361, 19)) == (361, "", "pass")


def test_tt_is_a_pass_up_to_19x19():
    assert point.parse_sgf("tt", 19) == 361
    assert point.parse_sgf("tt", 9) == 81
    assert point.parse_sgf("tt", 19, 13) == 247
    assert point.parse_sgf("tt", 20) == 399
    assert point.parse_sgf("tt", 20, 25) == 399
    assert point.parse_sgf("", 25) == 625


@pytest.mark.parametrize("text", ["a", "aaa", "zz", "sA", "  ", "a1", "ja", "aj", "é!", "tt "])
def test_invalid_sgf_points(text):
    with pytest.raises(GameError, match=r"is not an SGF point of a 9 x 9 board"):
        point.parse_sgf(text, 9)


NO_VERTICES = ["", "A", "1", "I5", "K1", "A0", "A10", "A01x", "A-1", "A1.", "A²", "5A", "passe", "A 1", "A001"]


@pytest.mark.parametrize("text", NO_VERTICES)
def test_invalid_gtp_vertices(text):
    with pytest.raises(GameError, match=r"is not a GTP vertex of a 9 x 9 board"):
        point.parse_gtp(text, 9)


@pytest.mark.parametrize("move", [-1, 82, 361])
def test_invalid_moves(move):
    for to in (point.to_sgf, point.to_gtp):
        with pytest.raises(GameError, match=f"move {move} is not within 0 to 81"):
            to(move, 9)
    with pytest.raises(GameError, match=f"move {move} is not a point of a 9 x 9 board"):
        point.to_bottom_row(move, 9)


def test_a_pass_has_no_row():
    with pytest.raises(GameError, match="move 81 is not a point"):
        point.to_bottom_row(81, 9)


@pytest.mark.parametrize(("width", "height"), [(0, 9), (9, 0), (26, 9), (9, 26), (-1, 9)])
def test_invalid_sizes(width, height):
    with pytest.raises(GameError, match=f"board size {width} x {height} is not within 1 to 25"):
        point.check_size(width, height)


def test_sizes():
    for width, height in SIZES:
        point.check_size(width, height)


def test_a_point_fits_beside_its_bits():
    """The largest pass fits too, and differs from NO_POINT."""
    assert point.pass_move(point.MAX_SIZE) < point.NO_POINT <= point.POINT_MASK
    assert point.POINT_MASK | point.ERASE_BIT | point.WHITE_BIT == 0xFFFF
    assert point.POINT_MASK & (point.ERASE_BIT | point.WHITE_BIT) == 0


def test_inverse_symmetries():
    for width, height in SIZES:
        moves = np.arange(point.pass_move(width, height) + 1)
        for k, table in enumerate(point.symmetries(width, height)):
            landed = (height, width) if k & 4 else (width, height)
            back = point.symmetries(*landed)[point.inverse_symmetry(k)]
            assert np.array_equal(back[table], moves), k
            assert table[-1] == moves[-1]


def test_symmetries_are_a_group():
    """Products are symmetries, and from 3 x 3 on all eight differ."""
    for width, height in SIZES:
        tables = point.symmetries(width, height)
        for j, first in enumerate(tables):
            after = point.symmetries(height, width) if j & 4 else tables
            for k, second in enumerate(after):
                both = second[first]
                transposed = (j ^ k) & 4
                assert any(np.array_equal(both, table) for table in tables[transposed : transposed + 4]), (j, k)
        if min(width, height) >= 2 and width * height > 4:
            assert len(np.unique(tables, axis=0)) == 8


@pytest.mark.parametrize(("width", "height"), [(5, 5), (5, 3), (1, 4), (19, 19)])
def test_symmetries_equal_those_of_numpy(width, height):
    board = np.arange(width * height).reshape(height, width)
    for k, table in enumerate(point.symmetries(width, height)):
        image = board[:, ::-1] if k & 1 else board
        image = image[::-1] if k & 2 else image
        image = image.T if k & 4 else image
        landed = np.empty(width * height, int)
        landed[table[:-1]] = board.ravel()
        assert np.array_equal(landed.reshape(image.shape), image), k


def test_tables_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        point.symmetries(9, 9)[0, 0] = 1
