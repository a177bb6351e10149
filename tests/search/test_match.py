"""Tests of the search for patterns: by a slow twin, and of single rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_games import OneGame, flat, one_game
from drawn_games import games as drawn_games
from kifu.point import BLACK, NO_POINT, WHITE, WHITE_BIT
from kifu.search import match
from kifu.search.match import match_games
from kifu.search.pattern import ANCHORS, BLACK_CELL, EMPTY_CELL, WHITE_CELL, Pattern, PatternMove, Rectangle
from kifu.search.traces import Traces, bit_set_words, trace_games
from naive_search import find, stones_before


def search(games, pattern, within=None):
    """The hits as rows of Python numbers, without the colours on the board, which are those of the moves."""
    arrays = flat(games)
    *hits, board_colour = (column.tolist() for column in match_games(arrays, trace_games(arrays), pattern, within))
    plies = zip(hits[0], hits[6])
    assert board_colour == [0 if t < 0 else WHITE if games[g].moves[t] & WHITE_BIT else BLACK for g, t in plies]
    return list(zip(*hits))


def twin(games, pattern):
    return [(g, *hit) for g, game in enumerate(games) for hit in find(game, pattern)]


@st.composite
def cut_games(draw):
    """A game that may have an illegal move, or one off the board."""
    game = one_game(*draw(drawn_games()))
    if game.moves and draw(st.booleans()):
        at = draw(st.integers(0, len(game.moves) - 1))
        game.moves[at] = draw(st.sampled_from([game.moves[0], game.moves[at - 1] ^ WHITE_BIT, NO_POINT]))
    return game


@st.composite
def patterns(draw, game):
    """A pattern cut out of a position of the game, or at random."""
    rng = draw(st.randoms(use_true_random=False))
    boards = stones_before(game)
    at = rng.randrange(len(boards))
    width, height = rng.randint(1, min(game.width, 4)), rng.randint(1, min(game.height, 4))
    if rng.random() < 0.1:
        width, height = game.width, game.height
    x0, y0 = rng.randint(0, game.width - width), rng.randint(0, game.height - height)
    cells = [1 << boards[at][y0 + y][x0 + x] for y in range(height) for x in range(width)]
    cells = [cell | rng.choice([0, 0, 0, rng.randint(0, 7)]) for cell in cells]
    inside = [(move % (1 << 14), 1 + (move >> 15)) for move in game.moves[at : len(boards) - 1]]
    inside = [(p % game.width - x0, p // game.width - y0, c) for p, c in inside if p < game.width * game.height]
    moves = [PatternMove(x, y, c) for x, y, c in inside if 0 <= x < width and 0 <= y < height]
    return Pattern(
        width, height, tuple(cells),
        anchor=rng.choice(
            [*ANCHORS, "anywhere", Rectangle(rng.randint(0, 2), rng.randint(0, 6), 0, rng.randint(0, 6))]
        ),
        both_colours=rng.random() < 0.5,
        moves=tuple(moves[: rng.choice([0, 0, 1, 2, 3])]),
        consecutive=rng.random() < 0.3,
        next_colour=rng.choice([None, None, BLACK, WHITE]),
        actual_colour=rng.random() < 0.5,
        last_ply=rng.choice([None, None, rng.randint(0, len(boards))]),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.nojit
@given(st.data())
def test_hits_are_those_of_the_slow_twin(data) -> None:
    games = data.draw(st.lists(cut_games(), min_size=1, max_size=3))
    pattern = data.draw(patterns(data.draw(st.sampled_from(games))))
    assert search(games, pattern) == twin(games, pattern)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.data())
def test_hits_on_the_largest_boards_are_those_of_the_slow_twin(data) -> None:
    games = [one_game(*data.draw(drawn_games(st.tuples(st.integers(20, 25), st.integers(20, 25))))), OneGame(9, 9, [])]
    pattern = data.draw(patterns(games[0]))
    assert search(games, pattern) == twin(games, pattern)


@pytest.mark.slow
@given(st.data())
def test_only_wanted_games_are_searched_in_any_number_of_calls(data) -> None:
    games = data.draw(st.lists(cut_games(), min_size=1, max_size=3)) * 50  # more than one block
    pattern = data.draw(patterns(games[0]))
    within = np.array(data.draw(st.lists(st.booleans(), min_size=3, max_size=3)) * 50)[: len(games)]
    expected = [hit for hit in search(games, pattern) if within[hit[0]]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(match, "_MAX_HITS", 1)
        assert search(games, pattern, within) == expected


@pytest.mark.slow
@given(st.data(), st.integers(0, 2**32 - 1))
def test_wrong_traces_do_no_harm(data, seed) -> None:
    """Traces come from files, which may be damaged: kernels must not leave their arrays."""
    games = data.draw(st.lists(cut_games(), min_size=1, max_size=3))
    arrays, rng = flat(games), np.random.default_rng(seed)
    counts = rng.integers(0, 9, len(games))
    wrong = Traces(
        plies=rng.integers(0, np.diff(arrays.move_offset) + 1).astype(np.uint16),
        capture_offset=np.cumsum([0, *counts]),
        captures=rng.integers(0, 2**16, counts.sum(), np.uint16),
        occupied=rng.integers(0, 2**64, (len(games), 2, bit_set_words(arrays)), np.uint64),
    )
    for _ in range(4):
        hits = match_games(arrays, wrong, data.draw(patterns(data.draw(st.sampled_from(games)))))
        assert (hits.next_ply < wrong.plies[hits.game]).all()


def test_games_of_several_sizes_and_patterns_that_fit_none() -> None:
    games = [OneGame(3, 2, [0]), OneGame(1, 1, []), OneGame(3, 2, [])]
    pattern = Pattern(3, 2, (EMPTY_CELL,) * 6, "board", both_colours=False)
    assert [(hit[0], hit[1], hit[6]) for hit in search(games, pattern)] == [(0, 0, 0), (2, 0, -1)]
    assert search(games, Pattern(5, 5, (EMPTY_CELL,) * 25)) == []
    assert search([], pattern) == []


def test_an_untouched_rectangle_matches_at_the_root_of_a_game_with_setup() -> None:
    """libkombilo would find it only once it has changed, see rule 2 of its semantics."""
    game = OneGame(5, 5, [24], ((0, 12),))
    pattern = Pattern(2, 2, (EMPTY_CELL,) * 4, Rectangle(0, 0, 0, 0), both_colours=False)
    assert {(hit[1], hit[4], hit[5]) for hit in search([game], pattern)} == {(0, 0, 0), (0, 3, 0), (0, 0, 3), (0, 3, 3)}


def test_a_capture_completes_a_pattern() -> None:
    game = OneGame(3, 3, [1, 0 | WHITE_BIT, 3])
    pattern = Pattern(2, 2, (EMPTY_CELL, BLACK_CELL, BLACK_CELL, EMPTY_CELL), Rectangle(0, 0, 0, 0), both_colours=False)
    assert [hit[1] for hit in search([game], pattern)] == [3]


def test_a_suicide_continues_a_pattern_but_is_never_on_the_board() -> None:
    game = OneGame(3, 2, [1, 3 | WHITE_BIT, 4, 0 | WHITE_BIT])
    column = Pattern(1, 2, (EMPTY_CELL, WHITE_CELL), Rectangle(0, 0, 0, 0), both_colours=False)
    assert search([game], column) == [(0, 2, 0, False, 0, 0, 3, 0, 0, WHITE)]
    assert search([game], replace(column, cells=(WHITE_CELL, WHITE_CELL))) == []


def test_next_colour_is_that_of_the_pattern_or_of_the_board() -> None:
    game = OneGame(5, 5, [0 | WHITE_BIT, 1, 24, 23 | WHITE_BIT])
    pattern = Pattern(2, 1, (BLACK_CELL, EMPTY_CELL), Rectangle(0, 0, 0, 0), next_colour=WHITE)
    found = lambda pattern: {(hit[3], hit[9]) for hit in search([game], pattern)}  # noqa: E731
    assert found(replace(pattern, next_colour=None)) == {(True, WHITE), (False, WHITE), (True, 0), (False, 0)}
    assert found(pattern) == {(True, WHITE), (False, WHITE)}
    assert found(replace(pattern, next_colour=BLACK)) == set()
    assert found(replace(pattern, actual_colour=True)) == {(False, WHITE)}
    assert found(replace(pattern, next_colour=BLACK, actual_colour=True)) == {(True, WHITE)}


def test_moves_come_in_order_and_consecutively() -> None:
    game = OneGame(9, 9, [20, 60 | WHITE_BIT, 21, 70 | WHITE_BIT, 22])
    row = Pattern(4, 1, (EMPTY_CELL,) * 4, Rectangle(2, 2, 2, 2), both_colours=False)

    def found(*columns: int, consecutive: bool = False) -> list[tuple[int, int]]:
        moves = tuple(PatternMove(x, 0, BLACK) for x in columns)
        hits = search([game], replace(row, moves=moves, consecutive=consecutive))
        return [(hit[1], hit[6]) for hit in hits if hit[2] == 0]

    assert found() == [(0, 0)]
    assert found(0, 1) == [(3, 4)]
    assert found(1) == []
    assert found(0, 1, consecutive=True) == []
    assert found(0, consecutive=True) == [(1, -1)]
