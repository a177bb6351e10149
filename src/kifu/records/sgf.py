"""SGF, FF[1] to FF[4]: parse many records at once into flat arrays, and read the properties of one root.

The main line is read, which is the first child everywhere; variations are skipped. docs/leniency.md lists what the
parser tolerates. Source: https://www.red-bean.com/sgf/ (FF[4] and the earlier versions linked there).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel, writable_view
from kifu.point import NO_POINT, POINT_MASK, WHITE_BIT
from kifu.records import _nodes as n
from kifu.records._nodes import (
    CLOSE,
    ESCAPE,
    FULL,
    HYPHEN,
    KEY,
    LEFT,
    LINE_FEED,
    NODE,
    OPEN,
    PLY,
    SEMICOLON,
    SPACE,
    VALUE,
    VALUE_END,
    Int,
    byte,
    end_of_value,
    find_game,
    is_digit,
    is_info,
    is_utf8,
    name_key,
    next_node,
    next_value,
    read_rectangle,
    scan_members,
    skip_space,
)
from kifu.records.detect import SGF
from kifu.records.games import (
    FIELD_LIMIT,
    FIELDS,
    Bytes,
    GameArrays,
    MemberPiece,
    ParsedBlock,
    RecordBlock,
    RecordFormat,
    TextFields,
    make_block,
)
from kifu.records.meta import parse_minutes, parse_overtime
from kifu.records.text import (
    canonical_value,
    charsets,
    choose_codec,
    detect_codec,
    escape,
    keeps_utf8,
    simple_text,
)

Spans = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]

NAMES = ("PB", "PW", "BR", "WR", "RE", "KM", "DT", "TM", "OT", "RU", "EV", "RO", "PC", "GN", "CA", "TC", "TT")
"""SGF's names of `kifu.records.games.FIELDS`, except game_type, which is a part of C."""

_NO_FIELD = 255
_FIELD = np.full(26 * 256, _NO_FIELD, np.uint8)  # by the key of a name minus that of AA
_FIRST_KEY, _LAST_KEY = name_key("AA"), name_key("ZZ")
_FIELD[[name_key(name) - _FIRST_KEY for name in NAMES]] = np.arange(len(NAMES))
# Nihon Ki-in writes komi, date, event and overtime under names of its own.
_NIHON_KIIN = {"KO": "KM", "RD": "DT", "TE": "EV", "LC": "TC", "LT": "TT"}
_FIELD[[name_key(name) - _FIRST_KEY for name in _NIHON_KIIN]] = [NAMES.index(name) for name in _NIHON_KIIN.values()]
_KO, _TE = name_key("KO"), name_key("TE")  # KO[] and TE[1] or TE[2] annotate moves
_TB, _TW = name_key("TB"), name_key("TW")
_LETTER_T = ord("T")

NAME_C = ord("C")
_COMMA = ord(",")
_GAME_TYPE = FIELDS.index("game_type")
_START, _TYPE = tuple(b"startTurnIdx="), tuple(b"gtype=")

# Flags for the bytes of a value.
BLANK = 1  # empty or white space only
BEYOND_ASCII = 2
NOT_UTF8 = 4
ESCAPED = 8  # contains a backslash
BROKEN = 16  # contains white space other than spaces


class Properties(NamedTuple):
    """The properties of the main lines of G games, except for moves without further properties, by node.

    Attributes:
        rows: [P, PROPERTY_COLUMNS] int32, see `NodesOut`.
        offset: [G + 1] int64. Those of game g are rows[offset[g] : offset[g + 1]].
        root: [G] int64. The end of the rows of each game's root.
        start, stop: [G] int64. The games' texts.
        charset: [G] int64. The charset by which their values end.
    """

    rows: npt.NDArray[np.int32]
    offset: Spans
    root: Spans
    start: Spans
    stop: Spans
    charset: Spans


@inline_kernel
def first_value(properties: Properties, g: Int, k: Int) -> tuple[Int, Int]:
    """Return start and end of the first value in row k, of game g."""
    return properties.start[g] + properties.rows[k, VALUE], properties.start[g] + properties.rows[k, VALUE_END]


@kernel
def list_values(data: Bytes, properties: Properties, g: Int, spans: Spans) -> Int:
    """List the values of the root of game g, and those of `GAME_INFO` in later nodes. Return their number.

    Args:
        data: [N] uint8.
        spans: [V, 3] int64, filled as far as it has space: row of the property, start and end of the value.
    """
    count, stop, charset = 0, properties.stop[g], properties.charset[g]
    for k in range(properties.offset[g], properties.offset[g + 1]):
        if k < properties.root[g] or is_info(properties.rows[k, KEY]):
            i, end = first_value(properties, g, k)
            while end < stop:
                if count < len(spans):
                    spans[count, 0], spans[count, 1], spans[count, 2] = k, i, end
                count += 1
                i, end = next_value(data, end, stop, charset)
    return count


@inline_kernel
def find_text(data: Bytes, i: Int, stop: Int, text: tuple[int, ...]) -> Int:
    """Return the position after the first occurrence of a text in data[i:stop], or -1."""
    for k in range(i, stop - len(text) + 1):
        j = 0
        while j < len(text) and data[k + j] == text[j]:
            j += 1
        if j == len(text):
            return k + j
    return -1


@inline_kernel
def find_game_type(data: Bytes, i: Int, stop: Int) -> tuple[Int, Int]:
    """Locate the value of gtype in a root comment of KataGo.

    Returns:
        (start, end), equal without gtype; (0, 0) for a comment that has no startTurnIdx.
    """
    if find_text(data, i, stop, _START) < 0:
        return 0, 0
    at = find_text(data, i, stop, _TYPE)
    if at < 0:
        return i, i
    end = at
    while end < stop and data[end] > SPACE and data[end] != _COMMA:
        end += 1
    return at, end


@kernel
def find_text_fields(data: Bytes, properties: Properties, field_start: Spans, field_stop: Spans, wanted: Bytes) -> None:
    """Locate the first value of each of `NAMES` in the roots of games; one larger than `FIELD_LIMIT` is empty.

    A value of `GAME_INFO` in a later node counts if there is none before. Field game_type is located by
    `find_game_type`; its start is 0 only for games that are not KataGo's.

    Args:
        data: [N] uint8.
        field_start, field_stop: [F, G] int64, initially zeros, filled.
        wanted: [G] uint8, filled: bits CLOCKS, EVALUATIONS and TERRITORY of the figures that the main line has.
    """
    for g in range(len(properties.start)):
        stop, charset = properties.stop[g], properties.charset[g]
        found = 0
        for k in range(properties.offset[g], properties.offset[g + 1]):
            key, in_root = np.int64(properties.rows[k, KEY]), k < properties.root[g]
            if key in (_BL, _WL):
                found |= CLOCKS
            elif key in (_TB, _TW):
                found |= TERRITORY
            elif (in_root and key == NAME_C) or is_info(key) or (in_root and _FIRST_KEY <= key <= _LAST_KEY):
                i, end = first_value(properties, g, k)
                while end < stop:
                    if key == NAME_C:
                        if field_start[_GAME_TYPE, g] == 0:
                            field_start[_GAME_TYPE, g], field_stop[_GAME_TYPE, g] = find_game_type(data, i, end)
                    else:
                        field = np.int64(_FIELD[key - _FIRST_KEY])
                        annotates = key in (_KO, _TE) and (end == i or (end - i == 1 and data[i] < 0x80))
                        if field != _NO_FIELD and (
                            field_start[field, g] == 0 and not annotates
                            if in_root
                            else field_start[field, g] == field_stop[field, g]
                        ):
                            field_start[field, g], field_stop[field, g] = i, end if end - i <= FIELD_LIMIT else i
                    i, end = next_value(data, end, stop, charset)
        wanted[g] = found | (EVALUATIONS if field_start[_GAME_TYPE, g] > 0 else 0)


@inline_kernel
def byte_kind(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the flags of data[i:stop]."""
    top, escaped, broken = np.uint8(0), False, False
    for c in data[i:stop]:  # a loop over a view is vectorized by the compiler
        top = max(top, c)
        escaped |= c == ESCAPE
        broken |= (c >= 9) & (c <= 13)
    kind = (BLANK if top <= SPACE else 0) | (ESCAPED if escaped else 0) | (BROKEN if broken else 0)
    if top >= 0x80:
        kind |= BEYOND_ASCII | (0 if is_utf8(data, i, stop) else NOT_UTF8)
    return kind


@kernel
def byte_kinds(data: Bytes, start: Spans, stop: Spans, kind: Bytes) -> None:
    """Compute the flags of each piece of the data. start, stop, kind: [K]."""
    for k in range(len(start)):
        kind[k] = byte_kind(data, start[k], stop[k])


@kernel
def copy_values(data: Bytes, charset: Int, out: Bytes) -> Int:
    r"""Copy the values beyond ASCII of the first game, each with a \n, until `out` is full. Return their bytes."""
    stop, count = len(data), 0
    _at, i, _junk = find_game(data, 0, stop)
    while i < stop:
        if data[i] == LEFT:
            end = end_of_value(data, i + 1, stop, charset)
            if end < stop and byte_kind(data, i + 1, end) & BEYOND_ASCII and count + end - i <= len(out):
                for k in range(i + 1, end):
                    out[count + k - i - 1] = data[k]
                out[count + end - i - 1] = LINE_FEED
                count += end - i
            i = end
        i += 1
    return count


@kernel
def gather(data: Bytes, start: Spans, skip: Bytes, offset: npt.NDArray[np.int32], out: Bytes) -> None:
    """Copy data[start[g] :] to out[offset[g] : offset[g + 1]] for all g, except where skip[g] is set."""
    for g in range(len(start)):
        if skip[g] == 0:
            first = start[g]
            for k in range(offset[g + 1] - offset[g]):
                out[offset[g] + k] = data[first + k]


Float: TypeAlias = Any
"""A float64 in compiled code; in Python, a float or a NumPy scalar."""

Floats = npt.NDArray[np.float64]

CLOCKS, EVALUATIONS, TERRITORY = 1, 2, 4
"""Bits of `FigureInput.wanted`."""

ABSOLUTE, BYO_YOMI, CANADIAN, UNKNOWN_OVERTIME = range(4)
"""Kinds of overtime."""

_MAIN, _COUNTED_MAIN, _LOST = -1, -2, -3
"""Counts of a player who is in main time, also if the record writes a count there, or whose state is unknown."""

_LEFT, _COUNT, _PENDING = range(3)

_UNSEEN = -np.inf
"""A clock that a node lacks; NaN if the first value is no number."""

_BL, _OB, _WL, _OW = map(name_key, ("BL", "OB", "WL", "OW"))
_LETTER_L, _LETTER_V, _EQUALS, _POINT = (ord(c) for c in "Lv=.")
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
    """Parse a decimal number of at most 15 digits, with an optional minus and surrounding white space; else NaN."""
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
        else:
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
                if key in (_BL, _OB, _WL, _OW):
                    side, part = int(key in (_WL, _OW)), int(key in (_OB, _OW))
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
) -> bool:
    """Assign the points of TB and TW in a node to their owners, 1 and 2, and return whether they are not too many."""
    stop, budget = properties.stop[g], properties.stop[g] - properties.start[g] + 2 * n.MAX_POINTS
    owners[:] = 0
    for k in range(properties.offset[g], properties.offset[g + 1]):
        key = properties.rows[k, KEY]
        if properties.rows[k, NODE] == node and key in (_TB, _TW):
            i, end = first_value(properties, g, k)
            while end < stop and budget >= 0:
                status, left, top, right, bottom = read_rectangle(data, i, end, width, height)
                if status > 0:
                    for y in range(top, bottom + 1):
                        owners[y * width + left : y * width + right + 1] = 1 if key == _TB else 2
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
                if properties.rows[k, KEY] in (_TB, _TW):
                    node = properties.rows[k, NODE]
            points = np.int64(width[g]) * height[g]
            if mark_territory(data, properties, g, node, np.int64(width[g]), np.int64(height[g]), owners):
                for point in range(points):
                    if owners[point] > 0:
                        territory[count] = point if owners[point] == 1 else point | WHITE_BIT
                        count += 1
        territory_offset[g + 1] = count


_MAX_ROOT_VALUES = 65_536

_CODEC_BYTES = 1 << 20

_SETUP_AT_ONCE = 1 << 20
"""Setup stones after which a piece of a member ends with its last game."""

_T = TypeVar("_T", bound=np.generic)


def as_block(members: Sequence[bytes], source: str = "") -> RecordBlock:
    """Return a block of records in memory, with empty names."""
    count = len(members)
    stop = np.cumsum([len(member) for member in members], dtype=np.int64).tolist()
    return make_block(
        source, _as_array(b"".join(members)), stop, list(range(count)), [b""] * count, [DropReason.KEPT] * count
    )


def _as_array(data: bytes) -> Bytes:
    return writable_view(np.frombuffer(data, np.uint8))


def scan(block: RecordBlock) -> GameArrays:
    """Read every game of a block. Never fails: unreadable games give rows with their `DropReason`.

    Each member gives at least one row, and one more for each further "(;" outside any game. Time is linear in the
    bytes; memory is bounded by a few times the bytes: a game of more than 65,535 moves, 4,096 setup stones
    (rectangles expanded) or 1,048,576 properties is `DropReason.TOO_LARGE`, and so is the rest of a member that
    contains games or setup stones too densely.
    """
    return scan_properties(block)[0]


def scan_properties(block: RecordBlock) -> tuple[GameArrays, Properties]:
    """Return the games of a block as `scan` does, and the properties of their main lines."""
    length = int(np.sum(block.stop - block.start))
    properties = min(length // n.PROPERTY_BYTES, n.MAX_PROPERTIES + length // 16)
    out = _new_output(block, len(block) + 64, length // 4 + 1, n.MAX_SETUP + length // 64, properties)
    while scan_members(block.data, block.start, block.stop, block.drop, charsets(), out) == FULL:
        if out.state[n.GAMES] == len(out.rows):
            out = out._replace(rows=_longer(out.rows))
        elif out.state[n.SETUP] + n.MAX_SETUP > len(out.setup):
            out = out._replace(setup=_longer(out.setup), setup_ply=_longer(out.setup_ply))
        else:
            out = out._replace(properties=_longer(out.properties))
    rows = out.rows[: out.state[n.GAMES]]
    games = n.to_game_arrays(block, rows, out.moves, out.setup, out.setup_ply)
    found = out.properties[: out.state[n.PROPERTIES]]
    root, charset = rows[:, n.ROOT_END].copy(), rows[:, n.CHARSET].copy()
    offset = np.append(0, rows[:, n.PROPERTY_END])
    return games, Properties(found, offset, root, games.start, games.stop, charset)


def _new_output(block: RecordBlock, rows: int, moves: int, setup: int, properties: int) -> n.NodesOut:
    """Return empty arrays of these lengths for the scanner, and its initial state."""
    state = np.zeros(n.STATES, np.int64)
    state[n.CUT] = np.iinfo(np.int64).max
    if block.piece is not None:
        state[n.IN_MEMBER], state[n.MEMBER_BUDGET], state[n.MEMBER_BYTES] = block.piece
        state[n.POSITION] = block.start[0]
    return n.NodesOut(
        rows=np.empty((rows, n.SGF_COLUMNS), np.int64),
        moves=np.empty(moves, np.uint16),
        setup=np.empty(setup, np.uint16),
        setup_ply=np.empty(setup, np.uint16),
        properties=np.empty((properties, n.PROPERTY_COLUMNS), np.int32),
        state=state,
        seen=np.zeros(n.MAX_POINTS, np.int64),
        readings=np.empty((n.READINGS, n.PROGRESS), np.int64),
    )


def find_pieces(block: RecordBlock, piece_bytes: int, games: int) -> Iterator[RecordBlock]:
    """Split a block of one SGF member between games, by scanning it. Nothing is copied.

    Args:
        block: The block. The member must not be dropped.
        piece_bytes: Bytes after which a piece ends with its last game.
    """
    moves, properties = piece_bytes // 4 + n.MAX_MOVES + 2, piece_bytes // n.PROPERTY_BYTES + n.MAX_PROPERTIES
    out = _new_output(block, games, moves, n.MAX_SETUP + _SETUP_AT_ONCE, properties)
    state, position = out.state, int(block.start[0])
    state[n.MEMBER_BYTES] = size = int(block.stop[0]) - position
    piece, status = None, FULL
    first_game, budget = 0, 0
    while status == FULL:
        state[n.CUT] = position + piece_bytes
        state[n.GAMES] = state[n.MOVES] = state[n.SETUP] = state[n.PROPERTIES] = 0
        status = scan_members(block.data, block.start, block.stop, block.drop, charsets(), out)
        if piece is not None and state[n.GAMES] > 0:  # what follows the last game belongs to its piece
            yield replace(piece, stop=np.array([position], np.int64))
        if piece is None or state[n.GAMES] > 0:
            carry = MemberPiece(first_game, budget, size)
            piece = replace(block, start=np.array([position], np.int64), piece=carry)
        position, first_game, budget = (int(state[k]) for k in (n.POSITION, n.IN_MEMBER, n.MEMBER_BUDGET))
    assert piece is not None
    yield piece


def _longer(array: npt.NDArray[_T]) -> npt.NDArray[_T]:
    """Return a copy of twice the length."""
    return np.concatenate((array, np.empty_like(array)))


def read_block(block: RecordBlock) -> ParsedBlock:
    """Parse every game of a block: moves, text fields, territory and the figures of moves.

    Text fields are those of dropped games, too. Seconds come from BL, WL, OB and OW (docs/clocks.md), evaluations from
    KataGo's comments. Territory is TB and TW of the last node of the main line that has them; invalid values are
    skipped. A game has no territory if this node lists more points than its text has bytes, plus 1,250. Only games
    that are not dropped have figures and territory.
    """
    games, properties = scan_properties(block)
    start = np.zeros((len(FIELDS), len(games)), np.int64)
    stop, wanted = np.zeros_like(start), np.empty(len(games), np.uint8)
    find_text_fields(block.data, properties, start, stop, wanted)
    text_fields = TextFields(block.data, start, stop)
    wanted[games.drop != DropReason.KEPT] = 0
    has_clocks, has_evaluations, has_territory = (wanted & bit != 0 for bit in (CLOCKS, EVALUATIONS, TERRITORY))
    seconds = evaluations = None
    if has_clocks.any():
        seconds = _read_seconds(games, properties, text_fields, has_clocks)
    if has_evaluations.any():
        evaluations = np.full((len(games.moves), 4), np.nan, np.float32)
        collect_evaluations(block.data, properties, has_evaluations, games.move_offset, evaluations)
    points = games.width.astype(np.int64) * games.height
    territory, offset = np.empty(points[has_territory].sum(), np.uint16), np.zeros(len(games) + 1, np.int64)
    if has_territory.any():
        owners = np.empty(n.MAX_POINTS, np.uint8)
        collect_territory(block.data, properties, has_territory, games.width, games.height, owners, territory, offset)
    first = np.searchsorted(games.block_index, games.block_index)  # of the same member, whose games are consecutive
    before = 0 if block.piece is None else block.piece.first_game
    return ParsedBlock(
        format="sgf",
        block=block,
        games=games,
        text_fields=text_fields,
        index=(np.arange(len(games)) - first + before).astype(np.int32),
        territory=territory[: offset[-1]].copy(),
        territory_offset=offset,
        seconds=seconds,
        evaluations=evaluations,
        properties=properties,
    )


def _read_seconds(
    games: GameArrays, properties: Properties, text_fields: TextFields, is_wanted: _Mask
) -> npt.NDArray[np.float32]:
    """Return [M] the times used for moves of some of the games, NaN if unknown."""
    data, wanted = memoryview(text_fields.data), np.flatnonzero(is_wanted)
    fields = [FIELDS.index(name) for name in ("time", "overtime", "periods", "period_seconds")]
    spans = zip(*(array[f, wanted].tolist() for f in fields for array in (text_fields.start, text_fields.stop)))
    limits = np.zeros((len(games), 4))
    limits[wanted] = [
        _time_limits(bytes(data[a:b]), bytes(data[c:d]), bytes(data[e:f]), bytes(data[g:h]))
        for a, b, c, d, e, f, g, h in spans
    ]
    source = ClockInput(
        is_wanted=is_wanted,
        moves=games.moves,
        move_offset=games.move_offset,
        main=limits[:, 0].copy(),
        kind=limits[:, 1].astype(np.uint8),
        limit=limits[:, 2].astype(np.int64),
        period=limits[:, 3].copy(),
        clock=np.empty((2, 2)),
        state=np.empty((2, 3)),
    )
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


def root_properties(record: bytes) -> dict[str, tuple[bytes, ...]]:
    """Return the root's properties of the first game in `record`: name -> values, as found, with their escapes.

    Names are converted to FF[4]: only their capitals are kept; names without capitals, or with digits, become upper
    case; those of Nihon Ki-in are replaced (`_NIHON_KIIN`). Properties are in the record's order; a repeated one has
    the values of all its occurrences. Those of `GAME_INFO` that the root lacks follow from later nodes of the main
    line. Only the first 65,536 values are read. {} if there is no game.
    """
    data = _as_array(record)
    return _root_of(data, scan_properties(as_block([record]))[1], 0)


def _root_of(data: Bytes, properties: Properties, g: int) -> dict[str, tuple[bytes, ...]]:
    """Return the `root_properties` of game g of a block."""
    spans = np.empty((64, 3), np.int64)
    count = list_values(data, properties, g, spans)
    if count > len(spans):
        spans = np.empty((min(count, _MAX_ROOT_VALUES), 3), np.int64)
        list_values(data, properties, g, spans)
    values_of: dict[str, list[bytes]] = {}
    for k, start, stop in spans[:count].tolist():
        key, value = int(properties.rows[k, KEY]), data[start:stop].tobytes()
        first = int(properties.start[g] + properties.rows[k, VALUE])
        name = key.to_bytes(2, "big").strip(b"\0").decode() if key else _name_before(data, first)
        if k < properties.root[g]:
            if name not in ("KO", "TE") or len(value) > 1 or not value.isascii():
                name = _NIHON_KIIN.get(name, name)
            values_of.setdefault(name, []).append(value)
        elif not values_of.get(name, [b""])[0]:
            values_of[name] = [value]
    return {name: tuple(values) for name, values in values_of.items()}


def _name_before(data: Bytes, value: int) -> str:
    """Return the name, in capitals, of a property without a key, given where its first value starts."""
    stop = value - 1
    while data[stop - 1] <= SPACE:
        stop -= 1
    start = stop
    while start > 0 and chr(data[start - 1]).isalnum() and data[start - 1] < 0x80:
        start -= 1
    name = data[start:stop].tobytes().decode().lstrip("0123456789")
    return re.sub("[a-z]", "", name) if re.search("[A-Z]", name) and name.isalpha() else name.upper()


def record_codec(record: bytes, properties: Mapping[str, Sequence[bytes]], charset: int | None = None) -> str:
    """Return Python's codec for the text of a record: by CA if it can be trusted, else detected.

    Only the first mebibyte of the root's text counts, without values of more than `FIELD_LIMIT` bytes, and 64 KiB of
    further text.

    Args:
        properties: Its `root_properties`.
        charset: The charset by which its values end; None if not known yet.
    """
    ca = properties.get("CA")
    values = (value for values in properties.values() for value in values if len(value) <= FIELD_LIMIT)
    sizes = accumulate(map(len, kept := list(values)))
    text = b"\n".join(v for v, s in zip(kept, sizes) if s <= _CODEC_BYTES)
    if text.isascii():
        return "utf_8"
    data = _as_array(record)
    out = np.empty(min(len(data), FIELD_LIMIT), np.uint8)
    further = copy_values(data, _charset_of(record) if charset is None else charset, out)
    return choose_codec(ca[0] if ca else None, text, out[:further].tobytes())


def _charset_of(record: bytes) -> int:
    """Return the charset by which the values of the first game in a record end."""
    return int(scan_properties(as_block([record]))[1].charset[0])


# Properties that the writer derives from the arrays, or always writes in one form.
_DERIVED = frozenset(("FF", "GM", "CA", "SZ", "PL", "B", "W", "AB", "AW", "AE"))


def is_simple_text(name: str) -> bool:
    """Return whether FF[4] makes the values of a property one line of text, in which all white space is spaces."""
    return name in NAMES or (name in n.GAME_INFO and name != "GC")


def plain_properties(properties: Mapping[str, Sequence[bytes]], codec: str) -> dict[str, tuple[str, ...]]:
    """Return the root's properties in canonical form, without HA[0] and what the writer derives from the arrays."""
    plain = {}
    for name, values in properties.items():
        if name in _DERIVED or (name == "HA" and re.fullmatch(rb"\s*[+-]?0+\s*", values[0])):
            continue
        texts = [canonical_value(value.decode(codec, "replace")) for value in values]
        plain[name] = tuple(re.sub("[\t-\r]", " ", text) if is_simple_text(name) else text for text in texts)
    return plain


def make_record(width: int, height: int, handicap: int | None, properties: Mapping[str, str | None]) -> bytes:
    """Return a record of a root only, without stones and moves, for a game from another format than SGF.

    Args:
        handicap: HA; None if unknown.
        properties: As for `text_properties`.
    """
    return format_root(width, height, text_properties(handicap, properties)) + b")"


def text_properties(handicap: int | None, properties: Mapping[str, str | None]) -> dict[str, tuple[str, ...]]:
    """Return root properties in canonical form, for a game from another format than SGF.

    Args:
        handicap: HA, written last; None if unknown. 0 is left out: FF[4] allows only 2 and more.
        properties: Name -> plain text, in the order of writing; None is left out. Must not contain FF, GM, CA, SZ and
            HA.
    """
    texts: dict[str, tuple[str, ...]] = {name: (escape(text),) for name, text in properties.items() if text is not None}
    return texts | {"HA": (str(handicap),)} if handicap else texts


def format_root(width: int, height: int, properties: Mapping[str, Sequence[str]]) -> bytes:
    """Return the root of a record, up to its stones.

    Args:
        properties: Name -> values in canonical form.
    """
    size = str(width) if width == height else f"{width}:{height}"
    text = "".join(name + "".join(f"[{value}]" for value in values) for name, values in properties.items())
    return f"(;FF[4]GM[1]CA[UTF-8]SZ[{size}]{text}".encode("utf-8", "replace")


def final_setup(setup: npt.NDArray[np.uint16]) -> dict[int, int]:
    """Return the effect of one node's setup entries: point -> 0 black, 2 white, 1 empty. The last entry wins."""
    return dict(zip((setup & POINT_MASK).tolist(), (setup >> 14).tolist()))


@kernel
def _find_nodes(data: Bytes, charset: Int, starts: npt.NDArray[np.int64]) -> Int:
    """Fill the positions where the main line's nodes begin, and its end. Return the number of nodes."""
    stop = len(data)
    at, i, _junk = find_game(data, 0, stop)
    count, found = 0, at < stop
    if found and data[i - 1] == SEMICOLON:
        i -= 1
    while found:
        starts[count] = i
        count += 1
        i += 1
        while i < stop and data[i] != SEMICOLON and data[i] != OPEN and data[i] != CLOSE:
            if data[i] == LEFT:
                i = end_of_value(data, i + 1, stop, charset)
            i += 1
        i, found, _depth, _warnings = next_node(data, min(i, stop), stop, charset, 1)
    starts[count] = i
    return count


def split_nodes(record: bytes) -> list[bytes]:
    """Return the text of each node of the main line of the first game, from its ; up to the next one."""
    starts = np.empty(record.count(b";") + record.count(b"(") + 1, np.int64)
    data = _as_array(record)
    cuts = starts[: _find_nodes(data, _charset_of(record), starts) + 1].tolist()
    return [record[start:stop] for start, stop in pairwise(cuts)]


MAX_NODES, MAX_TREE_BYTES, _MAX_TREE_SETUP, _MAX_TREE_VALUES = 20_000, 1 << 20, 1 << 16, 1 << 17
"""Limits of a `Tree`: nodes, bytes of the record, setup stones with rectangles expanded, comments and marks."""

NAME_LB, NAME_L = name_key("LB"), name_key("L")
MARKS = (name_key("TR"), name_key("SQ"), name_key("CR"), name_key("MA"), NAME_LB, NAME_L)


class Tree(NamedTuple):
    """The nodes of a record with all variations, each after its parent; first children are the main line of `scan`.

    Attributes:
        nodes: [N, 4] int64. Index of the parent, -1 for the root; point | WHITE_BIT, a pass as width * height, or -1;
            ends of the node's part of `setup` and of `values`.
        setup: [S] uint16, as in `GameArrays`.
        values: [V, 7] int64. Key of C, TR, SQ, CR, MA, LB or L, start and end of the value in the record; for all but
            C, the rectangle: left, top, right, bottom, borders included.
        is_whole: False if a limit was exceeded: what follows is left out.
    """

    nodes: Spans
    setup: npt.NDArray[np.uint16]
    values: Spans
    is_whole: bool


@kernel
def _find_tree(data: Bytes, row: Spans, out: n.NodesOut, opened: Spans, nodes: Spans, values: Spans) -> tuple[Int, Int]:
    """Fill `nodes` and `values` of a `Tree` as far as they have space. Return (number of nodes, where this ended).

    Args:
        row: [COLUMNS] int64, the row of `scan` with the board's size and the charset.
        opened: Scratch space of an entry per open parenthesis: the node before it.
    """
    stop = len(data)
    at, i, _junk = find_game(data, 0, stop)
    last, count, filled, depth = -1, 0, 0, 1 if at < stop else 0
    while depth > 0 and count < len(nodes):
        moves, begin, out.state[n.PROPERTIES] = out.state[n.MOVES], i, 0
        i = n.list_node(data, begin, stop, row, out)
        n.read_node(data, stop, 0, row, out)
        for k in range(out.state[n.PROPERTIES]):
            key = out.properties[k, KEY]
            j, end = np.int64(out.properties[k, VALUE]), np.int64(out.properties[k, VALUE_END])
            while end < stop and (key == NAME_C or key in MARKS):
                where = j
                while where < end and (key != NAME_LB or data[where] != n.COLON):
                    where += 1
                status, left, top, right, bottom = read_rectangle(data, j, where, row[n.WIDTH], row[n.HEIGHT])
                if filled == len(values):
                    return count, begin
                if status > 0 or (key == NAME_C and j < end):
                    each = values[filled]
                    each[0], each[1], each[2] = key, j, end
                    each[3], each[4], each[5], each[6] = left, top, right, bottom
                    filled += 1
                j, end = next_value(data, end, stop, row[n.CHARSET])
        if row[n.DROP] != 0:
            return count, begin
        node = nodes[count]
        node[0], node[1], node[2], node[3] = last, -1, out.state[n.SETUP], filled
        if out.state[n.MOVES] > moves and out.moves[moves] & POINT_MASK != NO_POINT:
            node[1] = out.moves[moves]
        last, found = count, False
        count += 1
        while depth > 0 and not found:
            i, found, inner, _warnings = next_node(data, i, stop, row[n.CHARSET], depth)
            if found:
                opened[depth + 1 : inner + 1] = last
                depth = inner
                i += int(data[i] == SEMICOLON)
            elif i < stop and data[i] == CLOSE:
                last = opened[depth]
                depth -= 1
                i += 1
            else:
                depth, i = 0, stop
    return count, i if depth > 0 else stop


def read_tree(record: bytes, width: int, height: int) -> Tree:
    """Return the tree of the first game in a record, whose size of the board is known."""
    data = _as_array(record[:MAX_TREE_BYTES])
    out = _new_output(as_block([]), 1, MAX_NODES, _MAX_TREE_SETUP, len(data) // n.PROPERTY_BYTES)
    out.state[n.BUDGET], out.state[n.IN_ROOT] = _MAX_TREE_SETUP, 1
    out.rows[0] = 0
    out.rows[0, [n.WIDTH, n.HEIGHT, n.CHARSET]] = width, height, _charset_of(data.tobytes())
    nodes, values = np.empty((MAX_NODES, 4), np.int64), np.empty((_MAX_TREE_VALUES, 7), np.int64)
    opened = np.full(record.count(b"(", 0, len(data)) + 2, -1, np.int64)
    count, end = _find_tree(data, out.rows[0], out, opened, nodes, values)
    filled = int(nodes[count - 1, 3]) if count else 0
    return Tree(nodes[:count], out.setup[: out.state[n.SETUP]], values[:filled], end == len(record))


_FIELD_CHARSET = FIELDS.index("charset")
_PLAYERS = ("black", "white")
_UTF8 = "utf_8"
_WHITE_SPACE = bytes(range(33))  # as in the SGF scanner, control characters included


@dataclass(frozen=True, slots=True)
class Decoded:
    """The decoded text of G games.

    Attributes:
        text: Field -> [G] strings, for all of `FIELDS` except "charset". Null if the field is missing, empty, or white
            space only (control characters count as such). White space around other text is kept.
        encoding: [G] strings, never null: Python's codec by which the game was decoded; "utf_8" for ASCII.
    """

    text: Mapping[str, pa.StringArray]
    encoding: pa.StringArray


def decode(parsed: ParsedBlock) -> Decoded:
    """Decode the text fields of a block, as `Game.text` does. Bytes outside a game's charset become U+FFFD.

    SGF is decoded by the codec of its record (`Game.codec`) and unescaped. Text that a reader has decoded stays as it
    is. Other formats have neither escapes nor a charset: a game is read as UTF-8 if all its text is valid, else by the
    detected charset; in OLF a "_" in a player's name is a space.
    """
    text_fields = parsed.text_fields
    kinds = np.empty(text_fields.start.shape, np.uint8)
    byte_kinds(text_fields.data, text_fields.start.ravel(), text_fields.stop.ravel(), kinds.ravel())
    codecs = _sgf_codecs(parsed, kinds[_FIELD_CHARSET]) if parsed.format == "sgf" else _codecs(text_fields, kinds)
    needs_decoding = kinds & (NOT_UTF8 | ESCAPED | BROKEN if parsed.format == "sgf" else NOT_UTF8) != 0
    needs_decoding[:, list(codecs)] = True
    needs_decoding &= kinds & BLANK == 0
    text = {}
    for f, field in enumerate(FIELDS):
        if f == _FIELD_CHARSET:
            continue
        replacements = {
            g: _decode_value(parsed, f, g, codecs.get(g, _UTF8)) for g in np.flatnonzero(needs_decoding[f]).tolist()
        }
        blank = kinds[f] & BLANK != 0
        blank[[g for g, value in replacements.items() if not value.strip(_WHITE_SPACE)]] = True
        valid, offset, data = _buffers(text_fields, f, blank, replacements)
        text[field] = pa.StringArray.from_buffers(len(blank), offset, data, valid)
    if parsed.format == "olf":
        text.update({field: _spaced(text[field]) for field in _PLAYERS})
    if parsed.codecs is not None:
        codecs = dict(enumerate(parsed.codecs))
    return Decoded(text, _encoding(codecs, len(parsed.index)))


def _sgf_codecs(parsed: ParsedBlock, charset_kind: Bytes) -> dict[int, str]:
    """Return game -> codec for all games that are not certain to be UTF-8.

    The charset is that of all values of a root. It is UTF-8 if the whole record is, unless CA names a double-byte
    charset.
    """
    games, data = parsed.games, parsed.block.data
    whole = np.empty(len(games), np.uint8)
    byte_kinds(data, games.start, games.stop, whole)
    doubtful = whole & NOT_UTF8 != 0
    if (whole & BEYOND_ASCII).any():
        doubtful |= (whole & BEYOND_ASCII != 0) & ~_keep_utf8(parsed.text_fields, charset_kind)
    assert parsed.properties is not None
    codecs = {}
    for g in np.flatnonzero(doubtful).tolist():
        record, root = data[games.start[g] : games.stop[g]].tobytes(), _root_of(data, parsed.properties, g)
        codecs[g] = record_codec(record, root, int(parsed.properties.charset[g]))
    return codecs


def _keep_utf8(text_fields: TextFields, charset_kind: Bytes) -> _Mask:
    """Return [G] whether the CA of each game keeps UTF-8 text as it is. Each distinct CA is checked once."""
    names = pa.Array.from_buffers(
        pa.binary(), len(charset_kind), _buffers(text_fields, _FIELD_CHARSET, charset_kind & BLANK != 0, {})
    ).dictionary_encode("encode")
    keeps = np.array([keeps_utf8(name) for name in names.dictionary.to_pylist()], bool)
    of_game: npt.NDArray[np.int32] = names.indices.to_numpy()
    return keeps[of_game]


def _codecs(text_fields: TextFields, kinds: Bytes) -> dict[int, str]:
    """Return game -> codec for the games of other formats whose text is not UTF-8."""
    rows = np.flatnonzero(np.bitwise_or.reduce(kinds, axis=0) & NOT_UTF8)
    return {g: detect_codec(b"\n".join(_raw(text_fields, f, g) for f in range(len(FIELDS)))) for g in rows.tolist()}


def _raw(text_fields: TextFields, f: int, g: int) -> bytes:
    return text_fields.data[text_fields.start[f, g] : text_fields.stop[f, g]].tobytes()


def _decode_value(parsed: ParsedBlock, f: int, g: int, codec: str) -> bytes:
    """Return one value as UTF-8."""
    value = _raw(parsed.text_fields, f, g).decode(codec, "replace")
    return (simple_text(value) if parsed.format == "sgf" else value).encode("utf-8", "replace")


def _buffers(
    text_fields: TextFields, f: int, blank: _Mask, replacements: Mapping[int, bytes]
) -> list[pa.Buffer | None]:
    """Return the buffers of an Arrow array of field f: validity, offsets, data.

    Args:
        blank: [G] True where it is null.
    """
    size = np.where(blank, 0, text_fields.stop[f] - text_fields.start[f])
    replaced = np.zeros(len(size), np.uint8)
    for g, value in replacements.items():
        size[g] = 0 if blank[g] else len(value)
        replaced[g] = 1
    offset = np.zeros(len(size) + 1, np.int32)
    np.cumsum(size, out=offset[1:])
    data = np.empty(offset[-1], np.uint8)
    gather(text_fields.data, text_fields.start[f], replaced, offset, data)
    for g, value in replacements.items():
        if not blank[g]:
            data[offset[g] : offset[g + 1]] = np.frombuffer(value, np.uint8)
    valid = pa.py_buffer(np.packbits(~blank, bitorder="little")) if blank.any() else None
    return [valid, pa.py_buffer(offset), pa.py_buffer(data)]


def _spaced(names: pa.StringArray) -> pa.StringArray:
    """Replace "_" by a space in player names of OLF; a name of nothing else becomes null."""
    import pyarrow.compute as pc  # slow to load, and only OLF needs it

    spaced = pc.replace_substring(names, "_", " ")
    return pc.if_else(pc.equal(pc.utf8_trim(spaced, " "), ""), None, spaced)


def _encoding(codecs: Mapping[int, str], count: int) -> pa.StringArray:
    names = sorted({_UTF8, *codecs.values()})
    code = np.full(count, names.index(_UTF8), np.int32)
    code[list(codecs)] = [names.index(codec) for codec in codecs.values()]
    return pa.DictionaryArray.from_arrays(code, names).cast(pa.string())


FORMAT = RecordFormat((SGF,), read_block)
