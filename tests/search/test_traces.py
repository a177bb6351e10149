"""Tests of the traces of games."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiled import bits
from drawn_games import OneGame, flat, one_game
from drawn_games import games as drawn_games
from kifu.point import ERASE_BIT, POINT_MASK, WHITE_BIT
from kifu.search.traces import LAST_STONE, trace_games
from naive_search import stones_before


def captures_of(traces, g):
    found, words = {}, traces.captures[traces.capture_offset[g] : traces.capture_offset[g + 1]].tolist()
    while words:
        move, points = words.pop(0), []
        while not points or points[-1] < LAST_STONE:
            points.append(words.pop(0))
        found[move] = [*points[:-1], points[-1] - LAST_STONE]
    return found


def expected_trace(game):
    """(plies, captures, occupied) from the positions of the game."""
    boards = [np.ravel(board).tolist() for board in stones_before(game)]
    n, plies = game.width * game.height, len(boards) - 1
    captures = {}
    for t in range(plies):
        after = list(boards[t + 1])
        for ply, word in game.setup:
            if ply == t + 1:
                after[word & POINT_MASK] = None  # not known
        point = game.moves[t] & POINT_MASK
        if point == n:
            continue
        before = list(boards[t])
        before[point] = 2 if game.moves[t] & WHITE_BIT else 1
        gone = [p for p in range(n) if before[p] and after[p] == 0]
        if gone:
            captures[t] = gone
    occupied = [{p for board in boards for p in range(n) if board[p] == c} for c in (1, 2)]
    return plies, captures, occupied


def assert_traces(games, kept=None):
    traces = trace_games(flat(games), kept)
    for g, game in enumerate(games):
        found = captures_of(traces, g)
        occupied = [bits(traces.occupied[g, c]) for c in range(2)]
        if kept is not None and not kept[g]:
            assert (traces.plies[g], found, occupied) == (0, {}, [set(), set()])
        else:
            assert (traces.plies[g], found, occupied) == expected_trace(game)


def setup_only_at_the_start(game):
    """Without later setup, the positions alone determine the captures."""
    return OneGame(game.width, game.height, game.moves, tuple(entry for entry in game.setup if entry[0] == 0))


@pytest.mark.slow
@pytest.mark.nojit
@given(st.lists(drawn_games().map(lambda game: setup_only_at_the_start(one_game(*game))), max_size=4), st.data())
def test_traces_are_what_the_positions_show(games, data) -> None:
    kept = data.draw(st.none() | st.lists(st.booleans(), min_size=len(games), max_size=len(games)))
    assert_traces(games, None if kept is None else np.array(kept, np.bool_))


def test_a_suicide_is_captured_with_its_own_stone() -> None:
    game = OneGame(3, 2, [1, 3 | WHITE_BIT, 4, 0 | WHITE_BIT])
    assert_traces([game])
    traces = trace_games(flat([game]))
    assert captures_of(traces, 0) == {3: [0, 3]}
    assert bits(traces.occupied[0, 1]) == {3}


def test_setup_takes_stones_away_without_a_capture() -> None:
    game = OneGame(2, 1, [0], ((1, 0 | ERASE_BIT), (1, 1 | WHITE_BIT)))
    traces = trace_games(flat([game]))
    assert len(traces.captures) == 0
    assert [bits(row) for row in traces.occupied[0]] == [{0}, {1}]
