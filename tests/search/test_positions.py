"""Tests of the entries of positions: a slow twin, symmetries, transpositions, and the ends of games."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogues import rows
from drawn_games import OneGame, flat, games, one_game
from kifu.go.state import zobrist_keys
from kifu.point import BLACK, ERASE_BIT, NO_POINT, POINT_MASK, WHITE, WHITE_BIT, symmetries
from kifu.search import positions
from kifu.search.continuations import game_info
from kifu.search.position import Position
from kifu.search.traces import LAST_STONE, Traces
from naive import NaiveBoard
from naive_hashes import mix, symmetric, turned

SIZES = st.one_of(st.tuples(st.integers(1, 5), st.integers(1, 5)), st.sampled_from([(19, 19), (7, 13), (25, 25)]))


def colour(word):
    return 0 if word & ERASE_BIT else WHITE if word & WHITE_BIT else BLACK


def boards(game):
    """Return the stones {point: colour} before each move and at the end, and the points that each move empties."""
    board, setup, stones, emptied = NaiveBoard(game.width, game.height), list(game.setup), [], []
    flatten = lambda point: point[1] * game.width + point[0]  # noqa: E731
    for ply in range(len(game.moves) + 1):
        while setup and setup[0][0] <= ply:
            word = setup.pop(0)[1]
            board.set_up({((word & POINT_MASK) % game.width, (word & POINT_MASK) // game.width): colour(word)})
        stones.append({flatten(point): each for point, each in board.stones.items()})
        if ply < len(game.moves):
            word = game.moves[ply]
            p = word & POINT_MASK
            before = {*board.stones, *([(p % game.width, p // game.width)] if p < game.width * game.height else [])}
            board.play((p % game.width, p // game.width) if p < game.width * game.height else None, colour(word))
            emptied.append(sorted(map(flatten, before - set(board.stones))))
    return stones, emptied


def traces(all_games):
    captures, offsets = [], [0]
    for game in all_games:
        for move, points in enumerate(boards(game)[1]):
            if points:
                captures += [move, *points[:-1], points[-1] | LAST_STONE]
        offsets.append(len(captures))
    counts = np.array([len(game.moves) for game in all_games], np.uint16)
    none = np.empty((len(all_games), 2, 6), np.uint64)
    return Traces(counts, np.array(offsets, np.int64), np.array(captures, np.uint16), none)


def canonical(width, height, stones):
    """Return the hash, and the symmetries with the lowest hash."""
    keys = zobrist_keys(width * height).tolist()
    hashes = []
    for k in range(8):
        across, down = (height, width) if k & 4 else (width, height)
        h = (256 * across + down) * 0x9E3779B97F4A7C15 % 2**64
        for p, c in stones.items():
            h ^= keys[c - 1][turned(p, k, width, height)]
        hashes.append(h)
    return mix(min(hashes)), tuple(k for k in range(8) if hashes[k] == min(hashes))


def expected(row, game, plies):
    """Return [(hash, row, ply, move, colour, symmetry)]."""
    entries = []
    for ply, stones in list(enumerate(boards(game)[0]))[:plies]:
        h, (k, *_) = canonical(game.width, game.height, stones)
        if ply == len(game.moves):
            entries.append((h, row, ply, NO_POINT, 0, k))
        else:
            word = game.moves[ply]
            point = turned(word & POINT_MASK, k, game.width, game.height)
            entries.append((h, row, ply, point, colour(word), k))
    return entries


def listed(all_games, plies=400, kept=None, first_row=0):
    points = max(game.width * game.height for game in all_games)
    layout = positions.entry_layout(first_row + len(all_games), plies, points)
    keep = np.ones(len(all_games), np.bool_) if kept is None else np.array(kept)
    hashes, entries = positions.pack_positions(flat(all_games), keep, traces(all_games), plies, layout, first_row)
    fields = positions.unpack_entries(entries, layout)
    assert entries.max(initial=0) < 1 << positions.entry_bits(layout)
    return list(zip(hashes.tolist(), *(field.tolist() for field in fields)))


def position(width, height, stones):
    array = np.zeros(width * height, np.uint8)
    for p, c in stones.items():
        array[p] = c
    return Position(width, height, array)


@pytest.mark.nojit
@given(st.lists(games(SIZES).map(lambda drawn: one_game(*drawn)), min_size=1, max_size=3), st.integers(1, 70))
def test_entries_equal_the_slow_twin(all_games, plies):
    entries = listed(all_games, plies, first_row=5)
    assert entries == [entry for g, game in enumerate(all_games) for entry in expected(5 + g, game, plies)]


@pytest.mark.slow
@pytest.mark.nojit
@given(st.lists(games(SIZES).map(lambda drawn: one_game(*drawn)), min_size=1, max_size=3), st.integers(1, 70))
def test_the_fewest_stones_of_later_positions_are_counted(all_games, plies):
    kept = np.arange(len(all_games)) != 1
    fewest = [min(map(len, boards(game)[0][plies:]), default=positions.NO_STONES) for game in all_games]
    found = positions.late_stones(flat(all_games), kept, traces(all_games), plies)
    assert found.tolist() == [each if keep else positions.NO_STONES for each, keep in zip(fewest, kept)]


@pytest.mark.nojit
@given(games(SIZES).map(lambda drawn: one_game(*drawn)))
def test_all_images_of_a_game_have_its_hashes(game):
    entries = listed([symmetric(game, k) for k in range(8)])
    plies = len(game.moves) + 1
    assert {tuple(entry[0] for entry in entries[k * plies : (k + 1) * plies]) for k in range(8)} == {
        tuple(entry[0] for entry in entries[:plies])
    }


@pytest.mark.nojit
@given(games(SIZES).map(lambda drawn: one_game(*drawn)), st.integers(0, 7))
def test_the_hash_of_a_position_is_that_of_its_entries(game, k):
    turned_game = symmetric(game, k)
    for stones, entry in zip(boards(turned_game)[0], listed([game])):
        found = positions.position_hash(position(turned_game.width, turned_game.height, stones))
        assert found[0] == entry[0]
        assert found == canonical(turned_game.width, turned_game.height, stones)


def test_images_of_continuations_agree_up_to_the_symmetries_of_the_position():
    game = OneGame(9, 9, [20, 60 | WHITE_BIT, 24, 56 | WHITE_BIT, 40, 3 | WHITE_BIT])
    for entries in zip(*(listed([symmetric(game, k)]) for k in range(8))):
        stones = boards(game)[0][entries[0][2]]
        _, same = positions.position_hash(position(9, 9, stones))
        orbit = {
            int(symmetries(9, 9)[k][int(np.flatnonzero(symmetries(9, 9)[same[0]] == entries[0][3])[0])])
            for k in same
        } if entries[0][3] != NO_POINT else {NO_POINT}  # fmt: skip
        assert {entry[3] for entry in entries} <= orbit


def test_transpositions_are_equal_and_other_positions_differ():
    first = OneGame(19, 19, [60, 301 | WHITE_BIT, 75, 280 | WHITE_BIT])
    second = OneGame(19, 19, [75, 280 | WHITE_BIT, 60, 301 | WHITE_BIT])
    exchanged = OneGame(19, 19, [word ^ WHITE_BIT for word in first.moves])
    a, b, c = ([entry[0] for entry in listed([game])] for game in (first, second, exchanged))
    assert a[4] == b[4]
    assert a[2] != b[2]
    assert len({*a, *c}) == 9


def test_boards_of_equal_area_differ():
    hashes = [listed([OneGame(*size, [0])])[0][0] for size in ((4, 6), (6, 4), (3, 8), (2, 12), (24, 1))]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 4


def test_dropped_games_have_no_entries_and_passes_repeat_a_position():
    passes = OneGame(5, 5, [25, 25 | WHITE_BIT] * 40)
    entries = listed([passes, passes], 60, kept=[False, True])
    assert [entry[1:4] for entry in entries] == [(1, ply, 25) for ply in range(60)]
    assert len({entry[0] for entry in entries}) == 1


def test_a_setup_stone_beyond_the_board_ends_the_game():
    game = OneGame(3, 3, [4, 1], ((0, 0), (1, 8), (1, 9), (1, 5), (5, 7)))
    h, _ = canonical(3, 3, {0: BLACK, 4: BLACK, 8: BLACK})
    trace = traces([OneGame(3, 3, [4])])
    hashes, _ = positions.pack_positions(
        flat([game]), np.ones(1, np.bool_), trace, 60, positions.entry_layout(1, 60, 9)
    )
    assert hashes[1:].tolist() == [h]


def test_a_game_ends_before_its_first_illegal_move():
    game = OneGame(3, 3, [4, 4 | WHITE_BIT, 0])
    trace = traces([OneGame(3, 3, [4])])
    layout = positions.entry_layout(1, 60, 9)
    _, entries = positions.pack_positions(flat([game]), np.ones(1, np.bool_), trace, 60, layout)
    assert positions.unpack_entries(entries, layout).move.tolist() == [4, NO_POINT]


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 1 << 31])
@pytest.mark.parametrize("plies", [1, 60, 65_535])
def test_layouts_hold_the_largest_fields(rows, plies):
    layout = positions.entry_layout(rows, plies, 625)
    assert positions.entry_bits(layout) <= 61
    word = max(rows - 1, 0) << layout.ply | plies - 1
    word = (word << layout.move | 625) << 4 | 15
    fields = positions.unpack_entries(np.array([word | 7 << positions.entry_bits(layout)], np.uint64), layout)
    assert [field.tolist() for field in fields] == [[max(rows - 1, 0)], [plies - 1], [625], [WHITE], [7]]
    assert positions.PositionEntries._fields == ("row", "ply", "move", "colour", "symmetry")


def test_game_info():
    batch = rows(
        winner=["black", "white", "draw", None],
        year=[1846, None, -5, 2017],
        date=[None, None, None, datetime.date(2017, 3, 5)],
        black_rating=[31.5, None, 1.0, 2.0],
        white_rating=[None, None, 3.0, 4.0],
    )
    info = game_info(batch)
    assert info.winner.tolist() == [BLACK, WHITE, 0, 0]
    assert info.day.tolist() == [1846 * 372, -372, -372, 2017 * 372 + 2 * 31 + 4]
    assert np.array_equal(info.rating, np.array([[31.5, np.nan], [np.nan] * 2, [1, 3], [2, 4]]), equal_nan=True)
    assert [len(field) for field in game_info(batch.slice(0, 0))] == [0, 0, 0]
    assert isinstance(batch, pa.RecordBatch)
