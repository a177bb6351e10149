"""Statistics of continuations against plain Python."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
