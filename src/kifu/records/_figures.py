"""Compiled figures of SGF's moves: the time used for each, from clocks, and the results of KataGo's searches.

Uses the conventions of `kifu.records._tokens`. docs/clocks.md explains how the time used follows from clocks.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel, kernel
from kifu.records._fields import NAME_C, Spans, next_value
from kifu.records._nodes import find_game, is_root
from kifu.records._tokens import (
    CLOSE,
    HYPHEN,
    LEFT,
    LETTER_B,
    LETTER_W,
    NAME_B,
    NAME_CA,
    NAME_W,
    OPEN,
    RIGHT,
    SEMICOLON,
    SPACE,
    Int,
    byte,
    end_of_value,
    find_charset,
    is_digit,
    is_letter,
    name_key,
    next_name,
    skip_space,
)
from kifu.records.games import Bytes
from kifu.records.text import SINGLE, Charsets

Float: TypeAlias = Any
"""A float64 in compiled code; in Python, a float or a NumPy scalar."""

Floats = npt.NDArray[np.float64]

CLOCKS, EVALUATIONS = 1, 2
"""Bits of `FigureInput.wanted`."""

ABSOLUTE, BYO_YOMI, CANADIAN, UNKNOWN_OVERTIME = range(4)
"""Kinds of overtime."""

_MAIN, _COUNTED_MAIN, _LOST = -1, -2, -3
"""Counts of a player who is in main time, also if the record writes a count there, or whose state is unknown."""

_LEFT, _COUNT, _PENDING = range(3)

_UNSEEN = -np.inf
"""A clock that a node lacks; NaN if the first value is no number."""

_IN_ROOT = -2
"""Neither a charset nor NO_CHARSET."""

_BL, _OB, _WL, _OW = map(name_key, ("BL", "OB", "WL", "OW"))
_LETTER_L, _LETTER_V, _EQUALS, _POINT = (ord(c) for c in "Lv=.")
_MAX_DIGITS = 15
_MAX_PLAIN = 9
_SCALE = 10.0 ** np.arange(_MAX_PLAIN + 1)
_MAX_VISITS = 1e9


class FigureInput(NamedTuple):
    """The games whose figures `collect_figures` reads, and its scratch space.

    Attributes:
        start, stop: [G] int64. The games' texts.
        move_offset: [G + 1] int64, as in `GameArrays`.
        wanted: [G] uint8. Which figures to read: bits CLOCKS and EVALUATIONS.
        main: [G] float64. Main time in seconds; NaN if unknown.
        kind: [G] uint8. Kind of overtime.
        limit: [G] int64. Number of periods of byo-yomi, or of moves of a Canadian period.
        period: [G] float64. Length of a period in seconds.
        clock: [2, 2] float64, scratch space: time left and count of each player in a node.
        state: [2, 3] float64, scratch space: of each player, the time left and the count after the last move with a
            clock, and the index of the last move if that has no clock, else -1.
        node: [3] int64, scratch space: colour of the node's move (0 black, 1 white, -1 none), start and end of C.
    """

    start: Spans
    stop: Spans
    move_offset: Spans
    wanted: Bytes
    main: Floats
    kind: Bytes
    limit: Spans
    period: Floats
    clock: Floats
    state: Floats
    node: Spans


@inline_kernel
def read_decimal(data: Bytes, i: Int, stop: Int) -> Float:
    """Parse a decimal number of at most 15 digits, with an optional minus and surrounding white space; else NaN."""
    i = skip_space(data, i, stop)
    while stop > i and data[stop - 1] <= SPACE:
        stop -= 1
    negative = i < stop and data[i] == HYPHEN
    if negative:
        i += 1
    digits, mantissa, scale, has_point = 0, 0, 1.0, False
    for k in range(i, stop):
        if data[k] == _POINT and not has_point:
            has_point = True
        elif is_digit(data[k]) and digits < _MAX_DIGITS:
            digits += 1
            mantissa = mantissa * 10 + byte(data, k) - 48
            scale *= 10.0 if has_point else 1.0
        else:
            return np.nan
    if digits == 0:
        return np.nan
    return (0 - mantissa if negative else mantissa) / scale


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
def read_plain_number(data: Bytes, i: Int, stop: Int) -> tuple[Int, Float]:
    """Read a number as KataGo writes it, such as -12.3: (position after it, number), or (-1, NaN) for anything else."""
    negative = i < stop and data[i] == HYPHEN
    if negative:
        i += 1
    begin, point, mantissa = i, -1, 0
    while i < stop and i - begin <= _MAX_PLAIN:
        c = byte(data, i)
        if c == _POINT and point < 0 and i > begin:
            point = i
        elif is_digit(c):
            mantissa = mantissa * 10 + c - 48
        else:
            break
        i += 1
    if point < 0 or i == point + 1 or i - begin > _MAX_PLAIN:
        return -1, np.nan
    return i, (0 - mantissa if negative else mantissa) / _SCALE[i - point - 1]


@inline_kernel
def read_plain_evaluation(data: Bytes, i: Int, stop: Int) -> tuple[Int, Float, Float, Float, Float]:
    """Read the beginning of a comment that is as `read_evaluation` expects, without words before.

    Returns:
        (position after it, win, loss, score, visits); the position is -1 for anything else.
    """
    win = loss = score = np.nan
    for k in range(4):
        i, value = read_plain_number(data, i, stop)
        if i < 0 or i >= stop or data[i] != SPACE:
            return -1, np.nan, np.nan, np.nan, np.nan
        i += 1
        if k == 0:
            win = value
        elif k == 1:
            loss = value
        elif k == 3:
            score = value
    begin = i + 2
    if begin >= stop or data[i] != _LETTER_V or data[i + 1] != _EQUALS:
        return -1, np.nan, np.nan, np.nan, np.nan
    i, visits = begin, 0
    while i < stop and is_digit(data[i]) and i - begin <= _MAX_PLAIN:
        visits = visits * 10 + byte(data, i) - 48
        i += 1
    if i == begin or i - begin >= _MAX_PLAIN or not (0 <= win <= 1 and 0 <= loss <= 1):
        return -1, np.nan, np.nan, np.nan, np.nan
    return i, win, loss, score, visits


@inline_kernel
def plain_evaluations(
    data: Bytes, i: Int, stop: Int, charset: Int, move: Int, last: Int, evaluations: npt.NDArray[np.float32]
) -> tuple[Int, Int]:
    """Read consecutive nodes of the form ;B[xy] or ;B[xy]C[0.44 0.26 0.30 1.4 v=2 ...], most of a record by KataGo.

    Returns:
        (position of the next other node, index of its move).
    """
    while move < last and i + 8 < stop:
        if data[i] != SEMICOLON or (data[i + 1] != LETTER_B and data[i + 1] != LETTER_W) or data[i + 2] != LEFT:
            break
        at = i + 3
        if is_letter(data[at]) and is_letter(data[at + 1]):
            at += 2
        if data[at] != RIGHT:
            break
        at += 1
        win = loss = score = visits = np.nan
        if at + 1 < stop and data[at] == NAME_C and data[at + 1] == LEFT:
            at, win, loss, score, visits = read_plain_evaluation(data, at + 2, stop)
            if at < 0:
                break
            at = end_of_value(data, at, stop, charset)
            if at == stop:
                break
            at += 1
        at = skip_space(data, at, stop)
        if at == stop or (data[at] != SEMICOLON and data[at] != CLOSE):
            break
        row = evaluations[move]
        row[0], row[1], row[2], row[3] = win, loss, score, visits
        move += 1
        i = at
    return i, move


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
    games: FigureInput, g: Int, before: Float, count: Int, left: Float, after: Int
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
def begin_clocks(games: FigureInput, g: Int) -> None:
    """Set the clocks of both players to their values before the first move."""
    for side in range(2):
        is_unlimited = games.main[g] == 0 and games.kind[g] == ABSOLUTE
        games.state[side, _LEFT] = np.nan if is_unlimited else games.main[g]
        games.state[side, _COUNT], games.state[side, _PENDING] = _MAIN, -1


@inline_kernel
def read_clocks(games: FigureInput, g: Int, move: Int, colour: Int, seconds: npt.NDArray[np.float32]) -> None:
    """Compute times used from the clocks of a node, whose own move has index `move` if it has one.

    A clock of the player who did not move is that of this player's last move, if the node of that has none.
    """
    for side in range(2):
        state, left = games.state[side], games.clock[side, 0]
        if side == colour:
            if state[_PENDING] >= 0:
                state[_LEFT] = np.nan
            state[_PENDING] = move
        if state[_PENDING] >= 0 and left >= 0:
            after = games.clock[side, 1]
            after = np.int64(after) if after >= 0 else -1
            used, now, count = time_used(games, g, state[_LEFT], np.int64(state[_COUNT]), left, after)
            seconds[np.int64(state[_PENDING])] = used
            state[_LEFT], state[_COUNT], state[_PENDING] = now, count, -1


@inline_kernel
def is_capital(c: Int) -> Any:
    return 65 <= c <= 90


@inline_kernel
def next_short_value(
    data: Bytes, i: Int, stop: Int, charset: Int, key: Int, name: Int, name_stop: Int
) -> tuple[Int, Int, Int, Int]:
    """Do the same as `next_value`, faster if a name of one or two capitals and its value follow at once."""
    if i + 2 < stop and is_capital(data[i]):
        if data[i + 1] == LEFT:
            return i + 2, byte(data, i), i, i + 1
        if data[i + 2] == LEFT and is_capital(data[i + 1]):
            return i + 3, byte(data, i) * 256 + byte(data, i + 1), i, i + 2
    return next_value(data, i, stop, charset, key, name, name_stop)


@inline_kernel
def read_node(data: Bytes, i: Int, stop: Int, charsets: Charsets, charset: Int, games: FigureInput) -> tuple[Int, Int]:
    """Read a node from after its ; into games.node and games.clock.

    Args:
        data: [N] uint8.
        charset: The charset by which values end; _IN_ROOT in the root, whose CA decides.
    """
    is_first = charset == _IN_ROOT
    if is_first:
        charset = SINGLE
    node, clock = games.node, games.clock
    node[0], node[1], node[2] = -1, 0, 0
    clock[:] = _UNSEEN
    i, key, name, name_stop = next_short_value(data, i, stop, charset, -1, 0, 0)
    while key >= 0:
        end = end_of_value(data, i, stop, charset)
        if end == stop:
            return stop, charset
        if key == NAME_B or (key == NAME_W and node[0] < 0):
            node[0] = 0 if key == NAME_B else 1
        elif key == NAME_C and node[1] == 0:
            node[1], node[2] = i, end
        elif key == NAME_CA and is_first:
            is_first = False
            charset = find_charset(data, i, end, charsets)
        elif key in (_BL, _OB, _WL, _OW):
            side, part = int(key in (_WL, _OW)), int(key in (_OB, _OW))
            if clock[side, part] == _UNSEEN:
                clock[side, part] = read_decimal(data, i, end)
        i, key, name, name_stop = next_short_value(data, end + 1, stop, charset, key, name, name_stop)
    return i, charset


@inline_kernel
def read_game(
    data: Bytes,
    root: Int,
    charsets: Charsets,
    games: FigureInput,
    g: Int,
    seconds: npt.NDArray[np.float32],
    evaluations: npt.NDArray[np.float32],
) -> None:
    """Follow the main line of game g from the root's ;."""
    i, stop, charset = root, games.stop[g], _IN_ROOT
    move, last = games.move_offset[g], games.move_offset[g + 1]
    begin_clocks(games, g)
    while i < stop and data[i] != CLOSE:
        if data[i] == OPEN:
            if is_root(data, skip_space(data, i + 1, stop), stop):
                break
            i += 1
        elif data[i] != SEMICOLON:  # junk between ( and ;
            i = next_name(data, i + 1 if is_letter(data[i]) else i, stop, max(charset, SINGLE))
        else:
            if games.wanted[g] == EVALUATIONS and charset != _IN_ROOT:
                i, move = plain_evaluations(data, i, stop, charset, move, last, evaluations)
                if data[i] != SEMICOLON:
                    continue
            i, charset = read_node(data, i + 1, stop, charsets, charset, games)
            colour, comment, comment_stop = games.node[0], games.node[1], games.node[2]
            if colour >= 0 and move == last:
                break
            if games.wanted[g] & CLOCKS:
                read_clocks(games, g, move, colour, seconds)
            if colour >= 0 and games.wanted[g] & EVALUATIONS and comment < comment_stop:
                read_evaluation(data, comment, comment_stop, evaluations[move])
            if colour >= 0:
                move += 1


@kernel
def collect_figures(
    data: Bytes,
    games: FigureInput,
    charsets: Charsets,
    seconds: npt.NDArray[np.float32],
    evaluations: npt.NDArray[np.float32],
) -> None:
    """Read the figures of each game's moves.

    Args:
        data: [N] uint8.
        seconds: [M] float32, initially NaN, filled where known; may be empty if no game wants CLOCKS.
        evaluations: [M, 4] float32, likewise.
    """
    for g in range(len(games.start)):
        if games.wanted[g] != 0:
            _at, root, _junk = find_game(data, games.start[g], games.stop[g])
            read_game(data, root, charsets, games, g, seconds, evaluations)


@kernel
def find_clocks(data: Bytes, start: Spans, stop: Spans, wanted: Bytes) -> None:
    """Set the bit CLOCKS of wanted[g] if "BL[" or "WL[" occurs in the text of game g. start, stop, wanted: [G]."""
    for g in range(len(start)):
        first = data[start[g] : stop[g]]
        second, third = first[1:], first[2:]
        hit = False
        for i in range(len(third)):
            owner = (first[i] == LETTER_B) | (first[i] == LETTER_W)
            hit |= owner & (second[i] == _LETTER_L) & (third[i] == LEFT)
        if hit:
            wanted[g] |= CLOCKS
