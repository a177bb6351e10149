"""Statistics of the moves that continue a position or a pattern, from the results, ratings and days of the games."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.schema import map_distinct, to_numpy
from kifu.kernel import inline_kernel, kernel, writable_view
from kifu.point import BLACK, WHITE
from kifu.text import Report, wilson

UNKNOWN_YEAR = -1

COLOURS = (None, "black", "white")
"""Names of the colours by their numbers; None for 0."""

_WINNERS = {"black": BLACK, "white": WHITE}
_YEAR_DAYS = 12 * 31
_MAX_LISTED = 5
"""Number of the latest and of the strongest games that are listed."""


@dataclass(frozen=True, slots=True)
class YearCount(Report):
    """The number of times in one year.

    Attributes:
        year: The year; None if unknown.
    """

    year: int | None
    total: int
    count: int


@dataclass(frozen=True, slots=True)
class Continuation(Report):
    """A move that continues a position or a pattern, with how often and by whom it was played.

    Attributes:
        x: Column of the move in the position or pattern as given, from 0; None for a pass, or no further move.
        y: Row, from 0 at the top; None likewise.
        colour: "black" or "white"; None for no further move.
        share: `count` divided by all occurrences, 0 to 1.
        wins: Games that its player won; games without a winner count for neither side.
        win_rate: Wins / (wins + losses); None without decided games.
        win_low: Lower end of the 95 % Wilson interval of the win rate; None likewise.
        rating: Mean rating of its players, on the scale of docs/ranks.md; None if unknown.
        tenuki: How often at least two other moves came before it; None for positions of the whole board.
        recent: Rows in the catalogue of the latest games, the latest first, at most 5.
        strongest: Rows of the games with the highest mean rating of both players, at most 5; the later row first
            among equal ones.
    """

    x: int | None
    y: int | None
    colour: str | None
    is_pass: bool
    count: int
    share: float
    wins: int
    losses: int
    win_rate: float | None
    win_low: float | None
    win_high: float | None
    rating: float | None
    first_year: int | None
    last_year: int | None
    tenuki: int | None
    recent: list[int]
    strongest: list[int]


class GameInfo(NamedTuple):
    """Results, ratings and days of G games."""

    winner: npt.NDArray[np.uint8]  # [G]: BLACK or WHITE, else 0
    day: npt.NDArray[np.int32]  # [G]: in years of twelve months of 31 days; the year's first if only that is recorded
    rating: npt.NDArray[np.float32]  # [G, 2]: of Black and of White; NaN if unknown


INFO_COLUMNS = ("winner", "year", "date", "black_rating", "white_rating")
"""The columns of a catalogue that `game_info` needs."""


def game_info(batch: pa.RecordBatch) -> GameInfo:
    """Return results, ratings and days of rows with at least INFO_COLUMNS, as `Catalogue.batches` yields them."""
    year = np.maximum(to_numpy(pc.fill_null(batch.column("year"), UNKNOWN_YEAR)), UNKNOWN_YEAR)
    month, day = (to_numpy(pc.fill_null(part(batch.column("date")), 1)) for part in (pc.month, pc.day))
    ratings = [to_numpy(batch.column(f"{colour}_rating").fill_null(float("nan"))) for colour in ("black", "white")]
    return GameInfo(
        winner=map_distinct(batch.column("winner"), lambda text: _WINNERS.get(text or "", 0), np.uint8),
        day=(_YEAR_DAYS * year.astype(np.int32) + 31 * (month - 1) + day - 1).astype(np.int32),
        rating=np.stack(ratings, axis=1),
    )


class Occurrences(NamedTuple):
    """N occurrences of a position or pattern of n = width * height points; those of a game are side by side."""

    row: npt.NDArray[np.int64]  # [N]: the game
    # [N]: the point of the continuation in the position or pattern; n for a pass, n + 1 for none
    point: npt.NDArray[np.uint16]
    colour: npt.NDArray[np.uint8]  # [N]: its colour in the pattern; 0 for none
    exchanged: npt.NDArray[np.bool_]  # [N]: True if Black and White of the pattern are White and Black of the game
    tenuki: npt.NDArray[np.bool_]  # [N]: True if at least two other moves came before it


class Tally(NamedTuple):
    """Sums over occurrences, for K = 3 * (n + 2) continuations, 3 * point + colour, and Y years."""

    times: npt.NDArray[np.int64]  # [K]: occurrences
    wins: npt.NDArray[np.int64]  # [K]: those that the player of the continuation won
    losses: npt.NDArray[np.int64]  # [K]: those that this player lost
    tenuki: npt.NDArray[np.int64]  # [K]: those with tenuki
    rated: npt.NDArray[np.int64]  # [K]: those in which the player has a rating
    rating: npt.NDArray[np.float64]  # [K]: the sum of these ratings
    won: npt.NDArray[np.int64]  # [3]: all occurrences by the winner in the colours of the pattern; 0 for no winner
    years: npt.NDArray[np.int16]  # [Y]: ascending
    by_year: npt.NDArray[np.int64]  # [K, Y]: occurrences
    recent: npt.NDArray[np.int64]  # [K, 5]: rows, -1 for none
    recent_day: npt.NDArray[np.int32]  # [K, 5]
    strongest: npt.NDArray[np.int64]  # [K, 5]: rows, -1 for none
    strength: npt.NDArray[np.float32]  # [K, 5]: their sums of both ratings
    last_row: npt.NDArray[np.int64]  # [K]: the latest row counted


def new_tally(points: int, years: npt.NDArray[np.int16]) -> Tally:
    """Return an empty tally for so many points. years: [Y] int16, ascending, all years of games to be added."""
    keys = 3 * (points + 2)
    return Tally(
        times=np.zeros(keys, np.int64), wins=np.zeros(keys, np.int64), losses=np.zeros(keys, np.int64),
        tenuki=np.zeros(keys, np.int64), rated=np.zeros(keys, np.int64), rating=np.zeros(keys),
        won=np.zeros(3, np.int64), years=years, by_year=np.zeros((keys, len(years)), np.int64),
        recent=np.full((keys, _MAX_LISTED), -1, np.int64),
        recent_day=np.full((keys, _MAX_LISTED), np.iinfo(np.int32).min, np.int32),
        strongest=np.full((keys, _MAX_LISTED), -1, np.int64),
        strength=np.full((keys, _MAX_LISTED), -np.inf, np.float32), last_row=np.full(keys, -1, np.int64),
    )  # fmt: skip


def distinct_years(info: GameInfo) -> npt.NDArray[np.int16]:
    """Return the years of some games, ascending; UNKNOWN_YEAR is one."""
    return np.unique(info.day // _YEAR_DAYS).astype(np.int16)


def add_occurrences(tally: Tally, occurrences: Occurrences, info: GameInfo, first: int = 0) -> None:
    """Count occurrences in other games than those already counted.

    first: the row in the catalogue that `info` begins with, and that `Occurrences.row` counts from.
    """
    _add(tally, occurrences, kernel_info(info), year_codes(tally), np.int64(first))


def kernel_info(info: GameInfo) -> GameInfo:
    """Return the games as kernels take them, without copying."""
    return GameInfo(writable_view(info.winner), writable_view(info.day), writable_view(info.rating))


def year_codes(tally: Tally) -> npt.NDArray[np.uint16]:
    """Return the index in `Tally.years` of each year, by its value as uint16: [65,536] uint16."""
    codes = np.zeros(1 << 16, np.uint16)
    codes[tally.years.view(np.uint16)] = np.arange(len(tally.years), dtype=np.uint16)
    return codes


@kernel
def _add(tally: Tally, occurrences: Occurrences, info: GameInfo, code: Any, first: Any) -> None:
    for i in range(occurrences.row.shape[0]):
        point, c = np.int64(occurrences.point[i]), np.int64(occurrences.colour[i])
        exchanged, tenuki = occurrences.exchanged[i], occurrences.tenuki[i]
        add_occurrence(tally, occurrences.row[i], point, c, exchanged, tenuki, info, code, first)


@inline_kernel
def add_occurrence(  # noqa: PLR0913 - kernel
    tally: Tally, g: Any, point: Any, c: Any, exchanged: Any, tenuki: Any, info: GameInfo, code: Any, first: Any
) -> None:
    """Count an occurrence in game g; code: `year_codes`. The others are as in `Occurrences` and `add_occurrences`."""
    k = 3 * point + c
    day, winner = np.int64(info.day[g]), np.int64(info.winner[g])
    mover = BLACK + WHITE - c if exchanged else c
    tally.times[k] += 1
    tally.by_year[k, code[day // _YEAR_DAYS & 0xFFFF]] += 1
    tally.won[BLACK + WHITE - winner if exchanged and winner != 0 else winner] += 1
    if c != 0:
        if winner == mover:
            tally.wins[k] += 1
        elif winner != 0:
            tally.losses[k] += 1
        rating = info.rating[g, mover - 1]
        if rating == rating:  # not NaN
            tally.rated[k] += 1
            tally.rating[k] += rating
        tally.tenuki[k] += tenuki
    if tally.last_row[k] != first + g:
        tally.last_row[k] = first + g
        if day >= tally.recent_day[k, _MAX_LISTED - 1]:
            _insert(tally.recent[k], tally.recent_day[k], first + g, day)
        strength = info.rating[g, 0] + info.rating[g, 1]
        if strength >= tally.strength[k, _MAX_LISTED - 1]:  # not if it is NaN
            _insert(tally.strongest[k], tally.strength[k], first + g, strength)


@kernel
def _insert(rows: Any, values: Any, row: Any, value: Any) -> None:
    """Insert a row by its value and its number, descending."""
    at = _MAX_LISTED
    while at > 0 and (value > values[at - 1] or (value == values[at - 1] and row > rows[at - 1])):
        at -= 1
    for j in range(_MAX_LISTED - 1, at, -1):
        rows[j], values[j] = rows[j - 1], values[j - 1]
    if at < _MAX_LISTED:
        rows[at], values[at] = row, value


def tabulate(tally: Tally, width: int, *, tenuki: bool = True) -> list[Continuation]:
    """Return the continuations that occur, the most frequent first, no further move last.

    width: columns of the position or pattern; tenuki: fill in `Continuation.tenuki`.
    """
    points = len(tally.times) // 3 - 2
    keys = np.flatnonzero(tally.times)
    order = np.lexsort((keys, -tally.times[keys], keys >= 3 * points + 3))
    total = int(tally.times.sum())
    return [_continuation(tally, key, points, width, total, tenuki) for key in keys[order].tolist()]


def _continuation(tally: Tally, key: int, points: int, width: int, total: int, tenuki: bool) -> Continuation:
    point, colour = divmod(key, 3)
    count, wins, losses = (int(column[key]) for column in (tally.times, tally.wins, tally.losses))
    decided = wins + losses
    low, high = wilson(wins, decided) if decided else (None, None)
    years = tally.years[(tally.by_year[key] > 0) & (tally.years != UNKNOWN_YEAR)]
    return Continuation(
        x=point % width if point < points else None,
        y=point // width if point < points else None,
        colour=COLOURS[colour],
        is_pass=point == points,
        count=count,
        share=count / total,
        wins=wins,
        losses=losses,
        win_rate=wins / decided if decided else None,
        win_low=low,
        win_high=high,
        rating=float(tally.rating[key] / tally.rated[key]) if tally.rated[key] else None,
        first_year=int(years[0]) if len(years) else None,
        last_year=int(years[-1]) if len(years) else None,
        tenuki=int(tally.tenuki[key]) if tenuki else None,
        recent=[row for row in tally.recent[key].tolist() if row >= 0],
        strongest=[row for row in tally.strongest[key].tolist() if row >= 0],
    )


def latest_rows(tally: Tally) -> list[int]:
    """Return the rows of the latest games with an occurrence, the latest first, at most 5."""
    order = np.argsort(-tally.recent_day.astype(np.int64), axis=None, kind="stable")
    rows = tally.recent.ravel()[order]
    return list(dict.fromkeys(rows[rows >= 0].tolist()))[:_MAX_LISTED]


def year_counts(tally: Tally, width: int, continuation: Continuation | None = None) -> list[YearCount]:
    """Return the counts by year, ascending, an unknown year last; years without any occurrence are omitted.

    A continuation is counted as `YearCount.count`; by default, all occurrences are.
    """
    total = tally.by_year.sum(axis=0)
    count = total if continuation is None else tally.by_year[_key(tally, width, continuation)]
    rows = [
        YearCount(None if year == UNKNOWN_YEAR else year, in_year, counted)
        for year, in_year, counted in zip(tally.years.tolist(), total.tolist(), count.tolist())
        if in_year
    ]
    return sorted(rows, key=lambda row: (row.year is None, row.year or 0))


def _key(tally: Tally, width: int, continuation: Continuation) -> int:
    points = len(tally.times) // 3 - 2
    x, y = continuation.x, continuation.y
    point = points + (not continuation.is_pass) if x is None or y is None else y * width + x
    return 3 * point + COLOURS.index(continuation.colour)
