"""Tests of positions as users write them."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn_games import flat, one_game
from drawn_games import games as drawn_games
from kifu.errors import GameError, KifuError, RecipeError, RecordError, SourceError
from kifu.go.board import Board
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT, to_gtp
from kifu.records.game import read_sgf
from kifu.search.pattern import Pattern
from kifu.search.position import FILE_LIMIT, Position, game_position, parse_position
from naive_search import stones_before

CAPTURE = b"(;SZ[5];B[cc];W[bc];B[aa];W[cb];B[ee];W[dc];B[];W[cd];AB[ab])"
"""White captures the stone on C3 with move 8; a black stone is set up after it."""


def position(text: str | Path, width: int = 19, height: int | None = None) -> Position:
    found = parse_position(text, width, height)
    assert isinstance(found, Position)
    return found


def drawn(found: Position) -> str:
    rows = found.stones.reshape(found.height, found.width).tolist()
    return "/".join("".join(".XO"[stone] for stone in row) for row in rows)


@pytest.mark.parametrize(
    ("text", "board", "next_colour"),
    [
        ("", "...../...../...../...../.....", BLACK),
        ("C3", "...../...../..X../...../.....", WHITE),
        ("c3, D3,\n pass A1", "...../...../..XO./...../O....", BLACK),
        ("cc dc ae", "...../...../..XO./...../X....", WHITE),
        ("tt cc", "...../...../..O../...../.....", BLACK),
        ("B C3 black D3 w A1", "...../...../..XX./...../O....", BLACK),
        ("C3 B3 A5 C4 E1 D3 pass C2", "X..../..O../.O.O./..O../....X", BLACK),
    ],
)
def test_moves(text: str, board: str, next_colour: int) -> None:
    found = position(text, 5)
    assert (drawn(found), found.next_colour) == (board, next_colour)
    assert found.stones.dtype == np.uint8


def test_boards_may_be_rectangular() -> None:
    assert drawn(position("C1 A2", 3, 2)) == "O../..X"


def test_plies_of_games() -> None:
    assert parse_position("1234@57") == (1233, 57)
    assert parse_position(" 1@0\n") == (0, 0)
    with pytest.raises(RecipeError, match=r"^games are numbered from 1, got 0@0$"):
        parse_position("0@0")


def test_diagrams() -> None:
    assert drawn(position("X.O\n...")) == "X.O/..."
    assert drawn(position("OX\n..")) == "OX/.."
    assert position("X.O/...").next_colour is None
    assert position("next: white\n+---+\n|X.O|\n+---+").next_colour == WHITE
    board = Board(9)
    for move in ("E5", "D4", "C3"):
        board.play(move)
    assert np.array_equal(position(str(board)).stones, board.stones.ravel())


def test_records(tmp_path: Path) -> None:
    path = tmp_path / "game.SGF"
    path.write_bytes(CAPTURE)
    assert drawn(position(path)) == drawn(position(str(path))) == "X..../X.O../.O.O./..O../....X"
    assert drawn(position(f"{path}@8")) == drawn(position(path))
    assert drawn(position(f"{path}@3")) == "X..../...../.OX../...../....."
    assert position(f"{path}@3").next_colour == WHITE
    diagram = tmp_path / "position.txt"
    diagram.write_text("X.\n.O\n")
    assert drawn(position(diagram)) == "X./.O"


def test_positions_of_games_in_arrays() -> None:
    games = read_sgf(CAPTURE).arrays()
    assert drawn(game_position(games, 0, 3)) == "X..../...../.OX../...../....."
    assert drawn(game_position(games, 0, 8)) == "X..../X.O../.O.O./..O../....X"
    with pytest.raises(GameError, match=r"^ply must be within 0 to 8, got 9$"):
        game_position(games, 0, 9)


def test_patterns_of_whole_boards() -> None:
    pattern = position("X.O/...").to_pattern(both_colours=False)
    assert pattern == Pattern(3, 2, (2, 1, 4, 1, 1, 1), "board", both_colours=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Q16 D4 R44", "move 3: 'R44' is not a GTP vertex of a 19 x 19 board"),
        ("Q16 D4 Q16", "move 3, Q16, is illegal: a move on an occupied point"),
        ("pd zz", "move 2: 'zz' is not an SGF point of a 19 x 19 board"),
        ("Q16 foo", "move 2: 'foo' is not an SGF point of a 19 x 19 board"),
        ("I9", "move 1: 'I9' is not a GTP vertex of a 19 x 19 board"),
        ("hello", "line 1: 'h' is not a cell: . X O x o # * and move numbers are allowed"),
        ("X.O\n.1.", "a position has . X and O only, got '1'"),
        ("X.O\n.*.", "a position has . X and O only, got '*'"),
        ("XOO\nO..", "the stone set up on A2 has no liberties"),
        ("+---\n|X.O", "the diagram of a position shows a whole board, so it has all four edges or none"),
        ("colours: both\nX.", "unknown key of a position 'colours'; available: next"),
        ("next: \nX.", "unknown colour ''; available: black, white"),
    ],
)
def test_bad_positions_give_one_line(text: str, message: str) -> None:
    with pytest.raises(RecipeError, match="^" + re.escape(message)):
        parse_position(text)


def test_bad_sizes_give_one_line() -> None:
    with pytest.raises(RecipeError, match=r"^board size 26 x 26 is not within 1 to 25$"):
        parse_position("A1", 26)


def test_bad_files_give_one_line(tmp_path: Path) -> None:
    path = tmp_path / "game.sgf"
    with pytest.raises(SourceError, match=re.escape(f"{path}: No such file or directory")):
        parse_position(str(path))
    path.write_bytes(b"nothing")
    with pytest.raises(RecordError, match="no game record"):
        parse_position(str(path))
    path.write_bytes(CAPTURE)
    with pytest.raises(GameError, match=r"^ply must be within 0 to 8, got 9$"):
        parse_position(f"{path}@9")
    path.write_bytes(b"(;SZ[5];B[aa];W[aa])")
    with pytest.raises(GameError, match=r"^move 2 "):
        parse_position(path)
    path.write_bytes(b" " * (FILE_LIMIT + 1))
    with pytest.raises(SourceError, match="larger than 1,048,576 bytes"):
        parse_position(path)


@given(st.text(alphabet="ABQabq123 .XO@|+-/\nns:pw,", max_size=40) | st.text(max_size=20))
def test_any_text_gives_a_position_or_an_error(text: str) -> None:
    with contextlib.suppress(KifuError):
        found = parse_position(text)
        assert isinstance(found, tuple) or len(found.stones) == found.width * found.height


@given(drawn_games())
def test_positions_are_those_of_a_slow_twin(drawn: tuple[int, int, list[Any]]) -> None:
    game = one_game(*drawn)
    boards = stones_before(game)
    for ply, rows in enumerate(boards):
        assert game_position(flat([game]), 0, ply).stones.tolist() == [stone for row in rows for stone in row]
    if not game.setup:
        points = [(move & POINT_MASK, "W" if move & WHITE_BIT else "B") for move in game.moves]
        words = [f"{colour} {to_gtp(point, game.width, game.height)}" for point, colour in points]
        found = position(" ".join(words), game.width, game.height)
        assert found.stones.tolist() == [stone for row in boards[-1] for stone in row]
