"""Captures per move, compared with boards played move by move."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import kifu
from drawn_games import games, one_game, sgf
from flat import Flat, OneGame, flat
from kifu.go.replay import captured_stones
from kifu.point import WHITE_BIT

pytestmark = pytest.mark.nojit


def arrays(*games: kifu.Game) -> Flat:
    return flat(
        OneGame(g.width, g.height, g.moves.tolist(), tuple(zip(g.setup_ply.tolist(), g.setup.tolist()))) for g in games
    )


@given(games())
def test_equals_boards(drawn: tuple) -> None:
    game = kifu.read_sgf(sgf(*drawn))
    expected = []
    for ply, word in enumerate(game.moves.tolist()):
        board, opponent = game.board(ply), 1 if word & WHITE_BIT else 2
        before = (board.stones == opponent).sum()
        board.to_play = 3 - opponent
        board.play(word & ~WHITE_BIT)
        expected.append(before - (board.stones == opponent).sum())
    assert captured_stones(flat([one_game(*drawn)]), np.arange(1)).tolist() == expected


def test_only_chosen_games_up_to_the_first_illegal_move() -> None:
    legal = kifu.read_sgf(b"(;SZ[5];B[ba];W[aa];B[ab];W[ee])")
    illegal = kifu.read_sgf(b"(;SZ[5];B[ba];W[aa];B[ab];W[ab];B[cc];W[ee])")
    both = arrays(legal, illegal, legal)
    assert captured_stones(both, np.array([1, 2])).tolist() == [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0]
    assert not captured_stones(both, np.empty(0, np.int64)).any()
