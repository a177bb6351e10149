"""Continuations of patterns and positions against plain Python, with and without an index."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn_games import OneGame
from kifu.point import POINT_MASK, WHITE_BIT
from kifu.search.build import build_index
from kifu.search.continuations import (
    UNKNOWN_YEAR,
    Continuation,
    GameInfo,
    Occurrences,
    YearCount,
    add_occurrences,
    distinct_years,
    latest_rows,
    new_tally,
    tabulate,
    year_counts,
)
from kifu.search.position import Position
from kifu.search.searcher import Searcher
from naive_search import stones_before, turned
from searchable import catalogues, write_games

WIDTH, HEIGHT = 3, 2
PASS, NONE = 6, 7

RATINGS = st.sampled_from([float("nan"), 30.0, 32.5, 41.0])
DAYS = st.tuples(st.sampled_from([UNKNOWN_YEAR, 0, 1996, 2017, 32767]), st.integers(0, 371))
GAMES = st.lists(st.tuples(st.integers(0, 2), DAYS, RATINGS, RATINGS))
FOUND = st.lists(
    st.tuples(st.integers(0, 99), st.integers(0, NONE), st.integers(1, 2), st.booleans(), st.booleans()), max_size=60
)


def make_info(games: list[tuple[int, tuple[int, int], float, float]]) -> GameInfo:
    winner, days, black, white = zip(*games) if games else ((), (), (), ())
    day = np.array([372 * year + day for year, day in days], np.int32)
    return GameInfo(np.array(winner, np.uint8), day, np.array([black, white], np.float32).T.reshape(-1, 2))


def make_found(found: list[tuple[int, int, int, bool, bool]]) -> Occurrences:
    columns: Any = zip(*found) if found else ((), (), (), (), ())
    return Occurrences(*(np.array(c, t) for c, t in zip(columns, (np.int64, np.uint16, np.uint8, np.bool_, np.bool_))))


def naive(
    games: list[tuple[int, tuple[int, int], float, float]], found: list[tuple[int, int, int, bool, bool]]
) -> dict[Any, Any]:
    """Return what `Continuation` reports, by point and colour."""
    groups = defaultdict(list)
    for occurrence in found:
        groups[occurrence[1:3]].append(occurrence)
    reports = {}
    for (point, colour), group in groups.items():
        wins = losses = 0
        ratings, years = [], []
        for row, _, _, exchanged, _ in group:
            winner, (year, _), *both = games[row]
            player = 3 - colour if exchanged else colour
            if colour:
                wins += winner == player
                losses += winner == 3 - player
                ratings += [both[player - 1]] if not math.isnan(both[player - 1]) else []
            years += [year] if year != UNKNOWN_YEAR else []
        rows = {row for row, *_ in group}
        rated = [row for row in rows if not math.isnan(sum(games[row][2:]))]
        reports[point, colour] = {
            "count": len(group),
            "share": len(group) / len(found),
            "wins": wins,
            "losses": losses,
            "rating": sum(ratings) / len(ratings) if ratings else None,
            "first_year": min(years, default=None),
            "last_year": max(years, default=None),
            "tenuki": sum(tenuki for *_, tenuki in group) if colour else 0,
            "recent": sorted(rows, key=lambda row: (games[row][1], row), reverse=True)[:5],
            "strongest": sorted(rated, key=lambda row: (-sum(games[row][2:]), -row))[:5],
        }
    return reports


def point_of(continuation: Continuation) -> int:
    if continuation.x is None or continuation.y is None:
        return PASS if continuation.is_pass else NONE
    return continuation.y * WIDTH + continuation.x


@pytest.mark.slow
@given(GAMES, FOUND, st.integers(0, 60))
def test_statistics_equal_plain_python(games: Any, found: Any, cut: int) -> None:
    found = sorted(
        (row % len(games), point, 0 if point == NONE else colour, *flags)
        for row, point, colour, *flags in (found if games else [])
    )
    info, split = make_info(games), found[cut][0] if cut < len(found) else 0
    tally = new_tally(WIDTH * HEIGHT, distinct_years(info))
    add_occurrences(tally, make_found([each for each in found if each[0] < split]), info)
    later = [(row - split, *rest) for row, *rest in found if row >= split]
    add_occurrences(tally, make_found(later), GameInfo(*(column[split:] for column in info)), split)
    expected = naive(games, found)
    listed = tabulate(tally, WIDTH)
    assert [each.count for each in listed if each.colour] == sorted(
        (each.count for each in listed if each.colour), reverse=True
    )
    assert all(each.colour for each in listed[:-1])
    assert {(point_of(each), (None, "black", "white").index(each.colour)) for each in listed} == expected.keys()
    for each in listed:
        wanted = expected[point_of(each), (None, "black", "white").index(each.colour)]
        values = each.to_dict()
        for name in ("recent", "strongest"):
            assert values[name] == wanted.pop(name)
        rating = wanted.pop("rating")
        assert values["rating"] == (None if rating is None else pytest.approx(rating))
        assert {name: values[name] for name in wanted} == wanted
        assert each.is_pass == (point_of(each) == PASS)
    assert tally.won.tolist() == [
        sum(
            (3 - games[row][0] if exchanged and games[row][0] else games[row][0]) == c
            for row, *_, exchanged, _ in found
        )
        for c in range(3)
    ]


@given(GAMES, FOUND)
def test_years_equal_plain_python(games: Any, found: Any) -> None:
    found = sorted((row % len(games), *rest) for row, *rest in (found if games else []))
    info = make_info(games)
    tally = new_tally(WIDTH * HEIGHT, distinct_years(info))
    add_occurrences(tally, make_found(found), info)
    for continuation in [None, *tabulate(tally, WIDTH)]:
        counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        for row, point, colour, *_ in found:
            counts[games[row][1][0]][0] += 1
            counts[games[row][1][0]][1] += continuation is None or (
                (point, (None, "black", "white")[colour]) == (point_of(continuation), continuation.colour)
            )
        known = [YearCount(year, *counts[year]) for year in sorted(counts) if year != UNKNOWN_YEAR]
        unknown = [YearCount(None, *counts[UNKNOWN_YEAR])] if UNKNOWN_YEAR in counts else []
        assert year_counts(tally, WIDTH, continuation) == known + unknown


def test_tenuki_is_left_out_of_whole_boards() -> None:
    info = make_info([(1, (1996, 0), 30.0, 30.0)])
    tally = new_tally(WIDTH * HEIGHT, distinct_years(info))
    add_occurrences(tally, make_found([(0, 4, 1, False, True)]), info)
    assert [each.tenuki for each in tabulate(tally, WIDTH)] == [1]
    assert [each.tenuki for each in tabulate(tally, WIDTH, tenuki=False)] == [None]


def test_the_latest_games_of_all_continuations() -> None:
    days = [(2001, 0), (2018, 40), (UNKNOWN_YEAR, 0), (2016, 9), (2018, 41), (1999, 371), (2003, 5)]
    info = make_info([(0, day, 30.0, 30.0) for day in days])
    tally = new_tally(WIDTH * HEIGHT, distinct_years(info))
    assert latest_rows(tally) == []
    add_occurrences(tally, make_found([(row, row % 2, 1, False, False) for row in (0, 0, 1, 2, 3, 4, 5, 6)]), info)
    assert latest_rows(tally) == [4, 1, 3, 6, 0]


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
    found = searcher.explore((0, 2))
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
    found = Searcher(path).explore((0, 0))
    assert [(c.x, c.colour, c.is_pass, c.recent) for c in found.continuations] == [
        (1, "black", False, [1]), (None, "black", True, [0]), (None, None, False, [2]),
    ]  # fmt: skip
