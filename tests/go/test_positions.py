"""Positions and the slots at which kernels write what they compute about them."""

import numpy as np
import pytest

from drawn_games import OneGame, flat
from kifu.errors import DropReason, GameError, IllegalMove
from kifu.go.positions import Positions
from kifu.point import WHITE_BIT as W

GAMES = flat([OneGame(3, 3, [0, 1 | W, 2]), OneGame(3, 3, []), OneGame(3, 3, [4, 4 | W]), OneGame(3, 3, [8, 9 | W])])


def test_slots_replay_each_game_once_under_each_symmetry():
    at = Positions(GAMES, np.array([2, 0, 0, 2, 0]), np.array([1, 2, 2, 0, 0]), np.array([0, 0, 0, 0, 5], np.uint8))
    slots = at.slots()
    assert (slots.rows.tolist(), slots.symmetry.tolist()) == ([0, 0, 2], [0, 5, 0])
    assert slots.slot_of_move.tolist() == [-1, -1, 2, 4, -1, -1, 3, 0]
    assert (slots.slot.tolist(), slots.replay.tolist(), slots.shared) == ([0, 2, 2, 3, 4], [2, 0, 0, 2, 1], True)
    chosen = at.take(np.array([0, 1])).slots(np.array([7, 3]))
    assert (chosen.slot_of_move.tolist(), chosen.shared) == ([-1, -1, 3, -1, 7], False)


def test_where_lists_the_positions_of_a_mask():
    at = Positions.where(GAMES, np.array([1, 0, 1, 0, 1, 0, 1]))
    assert list(zip(at.game.tolist(), at.ply.tolist())) == [(0, 0), (0, 2), (2, 1), (3, 1)]
    assert at.to_play.tolist() == [1, 1, 2, 2]


def test_a_position_beyond_an_illegal_move_raises():
    at = Positions.of(GAMES, [2, 2], [0, 1])
    drop, ply = np.full(2, DropReason.OCCUPIED, np.uint8), np.ones(2, np.int32)
    at.take(slice(0, 1)).check_playable(drop[:1], ply[:1])
    with pytest.raises(IllegalMove):
        at.check_playable(drop, ply)
    with pytest.raises(GameError, match="ply must be 0 to 1 in game 3, got 2"):
        Positions.of(GAMES, [0, 3], [0, 2])


def test_legal_moves_of_equal_positions():
    masks = Positions.of(GAMES, [0, 0, 3], [1, 1, 0]).legal()
    assert masks.sum(1).tolist() == [9, 9, 10]
