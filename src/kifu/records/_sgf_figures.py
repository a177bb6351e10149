"""Figures of SGF: times used, by the players' clocks; KataGo's evaluations; final territory.

docs/clocks.md describes the clocks. All are read from the table of properties, `kifu.records.games.Properties`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel, kernel
from kifu.point import WHITE_BIT
from kifu.records._bytes import CARRIAGE_RETURN, HYPHEN, LINE_FEED, MAX_POINTS, SPACE, Int, byte, is_digit, skip_space
from kifu.records._sgf import KEY, NODE, PLY, first_value
from kifu.records._sgf_tokens import NAME_C, name_key, next_value, read_rectangle
from kifu.records.games import FIELDS, Bytes, GameArrays, Properties, TextFields
from kifu.records.meta import parse_minutes, parse_overtime

Spans = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
NAME_TB, NAME_TW = name_key("TB"), name_key("TW")

Float: TypeAlias = Any
"""A float64 in compiled code; in Python, a float or a NumPy scalar."""

Floats = npt.NDArray[np.float64]

CLOCKS, EVALUATIONS, TERRITORY = 1, 2, 4
"""Bits for the figures that a main line has, see `kifu.records.sgf.find_text_fields`."""

ABSOLUTE, BYO_YOMI, CANADIAN, UNKNOWN_OVERTIME = range(4)
"""Kinds of overtime."""

_MAIN, _COUNTED_MAIN, _LOST = -1, -2, -3
"""Counts of a player who is in main time, also if the record writes a count there, or whose state is unknown."""

_LEFT, _COUNT, _PENDING = range(3)

_UNSEEN = -np.inf
"""A clock that a node lacks; NaN if the first value is no number."""

NAME_BL, NAME_OB, NAME_WL, NAME_OW = map(name_key, ("BL", "OB", "WL", "OW"))
_LETTER_V, _EQUALS, _POINT = (ord(c) for c in "v=.")
_MAX_DIGITS = 15
_SCALE = 10.0 ** np.arange(_MAX_DIGITS + 1)
_MAX_VISITS = 1e9


class ClockInput(NamedTuple):
    """The games whose clocks `collect_seconds` reads, and its scratch space.

    Attributes:
        is_wanted: [G] bool. Whether the game's clocks are read.
        moves: [M] uint16.
        move_offset: [G + 1] int64, as in `GameArrays`.
        main: [G] float64. Main time in seconds; NaN if unknown.
        kind: [G] uint8. Kind of overtime.
        limit: [G] int64. Number of periods of byo-yomi, or of moves of a Canadian period.
        period: [G] float64. Length of a period in seconds.
        clock: [2, 2] float64, scratch space: time left and count of each player in a node.
        state: [2, 3] float64, scratch space: of each player, the time left and the count after the last move with a
            clock, and the index of the last move if that has no clock, else -1.
    """

    is_wanted: npt.NDArray[np.bool_]
    moves: npt.NDArray[np.uint16]
    move_offset: Spans
    main: Floats
    kind: Bytes
    limit: Spans
    period: Floats
    clock: Floats
    state: Floats


@inline_kernel
def read_decimal(data: Bytes, i: Int, stop: Int) -> Float:
    """Parse a decimal number of at most 15 digits, with an optional minus and white space around it; else NaN.

    Line breaks within it are skipped.
    """
    i = skip_space(data, i, stop)
    while stop > i and data[stop - 1] <= SPACE:
        stop -= 1
    negative = i < stop and data[i] == HYPHEN
    if negative:
        i += 1
    digits, mantissa, decimals = 0, 0, -1  # no point yet
    for k in range(i, stop):
        c = byte(data, k)
        if is_digit(c) and digits < _MAX_DIGITS:
            digits += 1
            mantissa = mantissa * 10 + c - 48
            decimals += int(decimals >= 0)
        elif c == _POINT and decimals < 0:
            decimals = 0
        elif c not in (LINE_FEED, CARRIAGE_RETURN):
            return np.nan
    if digits == 0:
        return np.nan
    return (0 - mantissa if negative else mantissa) / _SCALE[max(decimals, 0)]


@inline_kernel
def find_visits(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the position of the v= of a comment of KataGo, or -1."""
    for k in range(i + 1, stop - 1):
        if data[k] == _LETTER_V and data[k + 1] == _EQUALS and data[k - 1] <= SPACE:
            return k
    return -1


@inline_kernel
def read_evaluation(data: Bytes, i: Int, stop: Int, out: npt.NDArray[np.float32]) -> None:
    """Parse "win loss noResult score v=visits" within a comment; anything may stand before and after.

    Args:
        data: [N] uint8.
        out: [4] float32, filled with win, loss, score and visits; not changed if the comment is another one.
    """
    at = find_visits(data, i, stop)
    if at < 0:
        return
    end = at + 2
    while end < stop and is_digit(data[end]):
        end += 1
    visits = read_decimal(data, at + 2, end)
    score = loss = win = np.nan
    for k in range(4):  # backwards: score, noResult, loss, win
        while at > i and data[at - 1] <= SPACE:
            at -= 1
        begin = at
        while begin > i and data[begin - 1] > SPACE:
            begin -= 1
        value = read_decimal(data, begin, at)
        if k == 0:
            score = value
        elif k == 1 and np.isnan(value):
            return
        elif k == 2:
            loss = value
        else:
            win = value
        at = begin
    if 0 <= win <= 1 and 0 <= loss <= 1 and visits <= _MAX_VISITS and not np.isnan(score):
        out[0], out[1], out[2], out[3] = win, loss, score, visits


@inline_kernel
def main_time_used(before: Float, count: Int, left: Float, counted: bool, strict: bool) -> tuple[Float, Float, Int]:
    """Return (seconds used, time left, count) for a clock that shows main time.

    Args:
        before: Time left before the move; NaN if unknown.
        counted: The record writes a count in main time.
        strict: Time can be left again only after overtime has begun.
    """
    if count == _LOST and not counted:
        return np.nan, np.nan, _LOST
    in_main = count in (_MAIN, _COUNTED_MAIN)
    if strict and not counted and (not in_main or left > before):
        return np.nan, np.nan, _LOST
    used = before - left if in_main else np.nan
    return used if used >= 0 else np.nan, left, _COUNTED_MAIN if counted else _MAIN


@inline_kernel
def byo_yomi_used(
    before: Float, count: Int, left: Float, after: Int, periods: Int, period: Float
) -> tuple[Float, Float, Int]:
    """Return (seconds used, time left, count) for a clock that shows a period of byo-yomi.

    Args:
        before: Time left before the move; NaN if unknown.
        left: Time left after the move. A clock that was reset to the whole period hides the time used.
    """
    if count == _COUNTED_MAIN and after == periods:  # still main time, or the first period
        return np.nan, np.nan, _COUNTED_MAIN
    used = np.nan
    if left < period:
        if count == _MAIN and after == periods:
            used = before + period - left
        elif count >= after:
            used = (count - after) * period + period - left
    return used, period, after


@inline_kernel
def canadian_used(
    before: Float, count: Int, left: Float, after: Int, moves: Int, period: Float
) -> tuple[Float, Float, Int]:
    """Return (seconds used, time left, count) for a clock that shows a Canadian period; see `byo_yomi_used`.

    The counts are numbers of moves left in the period. After the last one, a new period begins.
    """
    used = np.nan
    if count == _MAIN and (after == moves - 1 or (after == moves and left < period)):
        used = before + period - left
    elif count > 0 and after == count - 1:
        used = before - left
    used = used if used >= 0 else np.nan
    return (used, period, moves) if after == 0 else (used, left, after)


@inline_kernel
def time_used(
    games: ClockInput, g: Int, before: Float, count: Int, left: Float, after: Int
) -> tuple[Float, Float, Int]:
    """Return (seconds used, time left, count) after a move; the seconds are NaN if they are unknown.

    Args:
        before: Time left before the move; NaN if unknown.
        left: Time left after the move, not negative.
        after: The count after the move; negative if the node has none.
    """
    kind, limit, period = games.kind[g], games.limit[g], games.period[g]
    if kind == UNKNOWN_OVERTIME:
        return np.nan, np.nan, _LOST
    if kind == ABSOLUTE:
        return main_time_used(before, count, left, False, False)
    if after < 0 or (after == limit and left > period):
        return main_time_used(before, count, left, after >= 0, True)
    if after > limit or left > period:
        return np.nan, np.nan, _LOST
    if kind == BYO_YOMI:
        return byo_yomi_used(before, count, left, after, limit, period)
    return canadian_used(before, count, left, after, limit, period)


@inline_kernel
def begin_clocks(games: ClockInput, g: Int) -> None:
    """Set the clocks of both players to their values before the first move."""
    for side in range(2):
        is_unlimited = games.main[g] == 0 and games.kind[g] == ABSOLUTE
        games.state[side, _LEFT] = np.nan if is_unlimited else games.main[g]
        games.state[side, _COUNT], games.state[side, _PENDING] = _MAIN, -1


@inline_kernel
def pass_moves(games: ClockInput, first: Int, last: Int) -> None:
    """Note moves without a clock: a player's clock after two of them is unknown."""
    for move in range(first, last):
        state = games.state[1 if games.moves[move] & WHITE_BIT else 0]
        if state[_PENDING] >= 0:
            state[_LEFT] = np.nan
        state[_PENDING] = move


@inline_kernel
def read_clocks(games: ClockInput, g: Int, seconds: npt.NDArray[np.float32]) -> None:
    """Compute times used from the clocks of a node, after its own move, if any, was noted by `pass_moves`.

    A clock of the player who did not move is that of this player's last move, if the node of that has none.
    """
    for side in range(2):
        state, left = games.state[side], games.clock[side, 0]
        if state[_PENDING] >= 0 and left >= 0:
            after = games.clock[side, 1]
            after = np.int64(after) if after >= 0 else -1
            used, now, count = time_used(games, g, state[_LEFT], np.int64(state[_COUNT]), left, after)
            seconds[np.int64(state[_PENDING])] = used
            state[_LEFT], state[_COUNT], state[_PENDING] = now, count, -1


@kernel
def collect_seconds(data: Bytes, properties: Properties, games: ClockInput, seconds: npt.NDArray[np.float32]) -> None:
    """Compute the times used from the clocks of games.

    Args:
        data: [N] uint8.
        seconds: [M] float32, initially NaN, filled where known.
    """
    for g in range(len(properties.start)):
        if not games.is_wanted[g]:
            continue
        begin_clocks(games, g)
        k, last = properties.offset[g], properties.offset[g + 1]
        move = games.move_offset[g]
        while k < last:
            node, ply = properties.rows[k, NODE], properties.rows[k, PLY]
            for side in range(2):
                games.clock[side, 0] = games.clock[side, 1] = _UNSEEN
            has_clock = False
            while k < last and properties.rows[k, NODE] == node:
                key = properties.rows[k, KEY]
                if key in (NAME_BL, NAME_OB, NAME_WL, NAME_OW):
                    side, part = int(key in (NAME_WL, NAME_OW)), int(key in (NAME_OB, NAME_OW))
                    if games.clock[side, part] == _UNSEEN:
                        i, end = first_value(properties, g, k)
                        games.clock[side, part] = read_decimal(data, i, end)
                    has_clock = True
                k += 1
            if has_clock:
                until = games.move_offset[g] + ply + (1 if node > 0 else 0)
                pass_moves(games, move, until)
                move = until
                read_clocks(games, g, seconds)


@kernel
def collect_evaluations(
    data: Bytes,
    properties: Properties,
    is_wanted: npt.NDArray[np.bool_],
    move_offset: Spans,
    evaluations: npt.NDArray[np.float32],
) -> None:
    """Read KataGo's evaluations from the first comment of each node with a move.

    Args:
        data: [N] uint8.
        is_wanted: [G] bool. Whether the game's evaluations are read.
        move_offset: [G + 1] int64, as in `GameArrays`.
        evaluations: [M, 4] float32, initially NaN, filled where known.
    """
    for g in range(len(properties.start)):
        if is_wanted[g]:
            before = 0
            for k in range(properties.offset[g], properties.offset[g + 1]):
                node = properties.rows[k, NODE]
                if node > 0 and node != before and properties.rows[k, KEY] == NAME_C:
                    before = node
                    i, end = first_value(properties, g, k)
                    read_evaluation(data, i, end, evaluations[move_offset[g] + properties.rows[k, PLY]])


@inline_kernel
def mark_territory(
    data: Bytes, properties: Properties, g: Int, node: Int, width: Int, height: Int, owners: Bytes
) -> Any:
    """Assign the points of TB and TW in a node to their owners, 1 and 2, and return whether they are not too many."""
    stop, budget = properties.stop[g], properties.stop[g] - properties.start[g] + 2 * MAX_POINTS
    owners[:] = 0
    for k in range(properties.offset[g], properties.offset[g + 1]):
        key = properties.rows[k, KEY]
        if properties.rows[k, NODE] == node and key in (NAME_TB, NAME_TW):
            i, end = first_value(properties, g, k)
            while end < stop and budget >= 0:
                status, left, top, right, bottom = read_rectangle(data, i, end, width, height)
                if status > 0:
                    for y in range(top, bottom + 1):
                        owners[y * width + left : y * width + right + 1] = 1 if key == NAME_TB else 2
                    budget -= (right - left + 1) * (bottom - top + 1)
                i, end = next_value(data, end, stop, properties.charset[g])
    return budget >= 0


@kernel
def collect_territory(
    data: Bytes,
    properties: Properties,
    is_wanted: npt.NDArray[np.bool_],
    width: Bytes,
    height: Bytes,
    owners: Bytes,
    territory: npt.NDArray[np.uint16],
    territory_offset: Spans,
) -> None:
    """Read the territory of games from the last node of their main lines that has some.

    Args:
        data: [N] uint8.
        is_wanted: [G] bool. Whether the game's territory is read.
        width, height: [G] uint8.
        owners: [MAX_POINTS] uint8, scratch space.
        territory: [T] uint16, filled: the games' points, ascending.
        territory_offset: [G + 1] int64, filled; the first entry is 0.
    """
    count = 0
    for g in range(len(properties.start)):
        if is_wanted[g]:
            node = 0
            for k in range(properties.offset[g], properties.offset[g + 1]):
                if properties.rows[k, KEY] in (NAME_TB, NAME_TW):
                    node = properties.rows[k, NODE]
            points = np.int64(width[g]) * height[g]
            if mark_territory(data, properties, g, node, np.int64(width[g]), np.int64(height[g]), owners):
                for point in range(points):
                    if owners[point] > 0:
                        territory[count] = point if owners[point] == 1 else point | WHITE_BIT
                        count += 1
        territory_offset[g + 1] = count


def read_seconds(
    games: GameArrays, properties: Properties, text_fields: TextFields, is_wanted: _Mask
) -> npt.NDArray[np.float32]:
    """Return [M] the times used for moves of some of the games, NaN if unknown."""
    data, wanted = text_fields.data.data, np.flatnonzero(is_wanted)
    fields = [FIELDS.index(name) for name in ("time", "overtime", "periods", "period_seconds")]
    spans = zip(*(array[f, wanted].tolist() for f in fields for array in (text_fields.start, text_fields.stop)))
    limits = np.zeros((len(games), 4))
    limits[wanted] = [
        _time_limits(bytes(data[a:b]), bytes(data[c:d]), bytes(data[e:f]), bytes(data[g:h]))
        for a, b, c, d, e, f, g, h in spans
    ]
    source = ClockInput(
        is_wanted=is_wanted, moves=games.moves, move_offset=games.move_offset, main=limits[:, 0].copy(),
        kind=limits[:, 1].astype(np.uint8), limit=limits[:, 2].astype(np.int64), period=limits[:, 3].copy(),
        clock=np.empty((2, 2)), state=np.empty((2, 3)),
    )  # fmt: skip
    seconds = np.full(len(games.moves), np.nan, np.float32)
    collect_seconds(text_fields.data, properties, source, seconds)
    return seconds


@lru_cache(maxsize=4096)
def _time_limits(time: bytes, overtime: bytes, periods: bytes, period_seconds: bytes) -> tuple[float, int, int, float]:
    """Return (seconds of main time or NaN, kind of overtime, its count, length of a period in seconds)."""
    minutes = parse_minutes(time.decode("utf-8", "replace"))
    main = math.nan if minutes is None else 60 * minutes
    text = overtime.decode("utf-8", "replace").strip()
    text = text or (time.decode("utf-8", "replace") if parse_overtime(time.decode("utf-8", "replace")) else "")
    if not text and periods.strip(b"0 "):
        text = f"{periods.decode('utf-8', 'replace')}x{period_seconds.decode('utf-8', 'replace')}"
    limit = parse_overtime(text)
    if limit is None:
        return main, UNKNOWN_OVERTIME if text else ABSOLUTE, 0, 0.0
    kind = {"byo-yomi": BYO_YOMI, "canadian": CANADIAN}.get(limit.kind, UNKNOWN_OVERTIME)
    return main, kind, limit.count, limit.seconds
