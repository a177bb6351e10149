"""Continuations of positions against plain Python, with and without an index."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flat import OneGame
from kifu.point import POINT_MASK, WHITE_BIT
from kifu.search.build import build_index
from kifu.search.position import GamePly, Position
from kifu.search.searcher import Searcher
from naive_search import stones_before, turned
from searchable import catalogues, write_games


def images_of(board):
    """[(symmetry, board as rows)] of a position."""
    height, width = len(board), len(board[0])
    images = []
    for k in range(8):
        stones = {turned(x, y, k, width, height): board[y][x] for y in range(height) for x in range(width)}
        rows, columns = (width, height) if k & 4 else (height, width)
        images.append((k, [[stones[x, y] for x in range(columns)] for y in range(rows)]))
    return images


def merged(board, x, y):
    """The representative of a point among those that symmetries of the position map to each other."""
    same = [k for k, image in images_of(board) if image == board]
    return min((turned(x, y, k, len(board[0]), len(board)) for k in same), key=lambda point: (-point[0], point[1]))


def next_move(game, board, boards, ply, k):
    """(x, y, colour) of the move after a position in the orientation of `board`; x is None for a pass or no move."""
    if ply == len(boards) - 1:
        return None, None, None, False
    word = game.moves[ply]
    p, colour = word & POINT_MASK, "white" if word & WHITE_BIT else "black"
    if p == game.width * game.height:
        return None, None, colour, True
    points = [(x, y) for y in range(len(board)) for x in range(len(board[0]))]
    at = next(q for q in points if turned(*q, k, len(board[0]), len(board)) == (p % game.width, p // game.width))
    return *merged(board, *at), colour, False


def explore(games, columns, board):
    """{(x, y, colour, is a pass): rows} of the games with a position, each where it occurs first."""
    found = {}
    for row, game in enumerate(games):
        if columns["drop"][row] is None:
            boards = stones_before(game)
            images = images_of(board)
            hit = next(((ply, k) for ply, each in enumerate(boards) for k, image in images if each == image), None)
            if hit:
                found.setdefault(next_move(game, board, boards, *hit), []).append(row)
    return found


@st.composite
def questions(draw):
    """(games, columns, position of one of them, number of indexed plies)."""
    games, columns = draw(catalogues())
    boards = stones_before(draw(st.sampled_from(games)))
    ply = draw(st.integers(0, len(boards) - 1))
    return games, columns, boards[ply], draw(st.sampled_from([1, 2, 5, 20, 60]))


def position_of(board):
    return Position(len(board[0]), len(board), np.ravel(np.array(board, np.uint8)))


@pytest.mark.slow
@given(questions(), st.integers(1, 3))
def test_continuations_are_those_of_the_slow_twin(question, jobs) -> None:
    games, columns, board, plies = question
    expected = explore(games, columns, board)
    with tempfile.TemporaryDirectory() as folder:
        path = write_games(Path(folder, "games.parquet"), games, columns)
        plain = Searcher(path).explore(position_of(board), jobs=jobs)
        build_index(path, plies=plies, jobs=1)
        indexed = Searcher(path).explore(position_of(board), jobs=jobs)
        chosen = np.arange(len(games)) % 2 == 0
        some = [Searcher(path, use_index=use).explore(position_of(board), chosen) for use in (False, True)]
    assert {(c.x, c.y, c.colour, c.is_pass): c.count for c in plain.continuations} == {
        move: len(rows) for move, rows in expected.items()
    }
    assert [sorted(c.recent) for c in plain.continuations if c.count <= 5] == [
        expected[c.x, c.y, c.colour, c.is_pass] for c in plain.continuations if c.count <= 5
    ]
    assert plain.games == sum(map(len, expected.values()))
    assert plain.to_dict() == indexed.to_dict()
    assert some[0].to_dict() == some[1].to_dict()
    assert some[0].games == sum(row % 2 == 0 for rows in expected.values() for row in rows)


WHITE = WHITE_BIT
UNKNOWN = {name: [None] * 3 for name in ("winner", "year", "black_rating", "white_rating", "drop")}


def test_equal_points_and_transpositions_are_merged(tmp_path: Path) -> None:
    """Three games reach the same two stones in other orders and orientations, and continue alike."""
    games = [
        OneGame(5, 5, [0, 24 | WHITE, 4, 20 | WHITE]),
        OneGame(5, 5, [25, 0 | WHITE, 24, 20 | WHITE]),
        OneGame(5, 5, [4, 20 | WHITE, 24, 25 | WHITE]),
    ]
    searcher = Searcher(write_games(tmp_path / "games.parquet", games, UNKNOWN))
    found = searcher.explore(GamePly(0, 2))
    assert found.games == 3
    assert [(c.x, c.y, c.colour, c.count) for c in found.continuations] == [(4, 0, "black", 2), (4, 0, "white", 1)]
    assert found.wins == (0, 0)
    assert [(c.win_rate, c.rating, c.first_year, c.tenuki) for c in found.continuations] == [
        (None, None, None, None)
    ] * 2
    assert [(year.year, year.total, year.count) for year in found.by_year(found.continuations[0])] == [(None, 3, 2)]


@pytest.mark.parametrize("plies", [1, 3, 60])
def test_the_first_time_counts_after_passes_too(tmp_path: Path, plies: int) -> None:
    """A position stays the same over passes, so the continuation is the first pass."""
    games = [OneGame(3, 3, [9, 9 | WHITE, 4]), OneGame(3, 3, [4]), OneGame(3, 3, [])]
    path = write_games(tmp_path / "games.parquet", games, UNKNOWN)
    build_index(path, plies=plies)
    found = Searcher(path).explore(GamePly(0, 0))
    assert [(c.x, c.colour, c.is_pass, c.recent) for c in found.continuations] == [
        (1, "black", False, [1]), (None, "black", True, [0]), (None, None, False, [2]),
    ]  # fmt: skip
