"""The compiled readers of TYGEM's lines and of the index to them. `kifu.records.tygem` drives them, and tells more.

Uses the same conventions as `kifu.records._tokens`, and the rows of `kifu.records._nodes`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel
from kifu.point import WHITE_BIT
from kifu.records import _nodes as n
from kifu.records._nodes import MAX_MOVES, NodesOut, plain_moves, read_move
from kifu.records._scan import BYTES_A_GAME
from kifu.records._tokens import (
    HASH,
    LEFT,
    LETTER_B,
    LETTER_W,
    LINE_LIMIT,
    RIGHT,
    SEMICOLON,
    SPACE,
    TAB,
    Int,
    end_of_line,
    is_digit,
    read_id,
    skip_bom,
    skip_space,
)
from kifu.records.games import NO_HANDICAP, Bytes, ParseWarning

# Columns of a row after those of `_nodes`: the game's number, and its line in its member.
ID, LINE, COLUMNS = n.COLUMNS, n.COLUMNS + 1, n.COLUMNS + 2

GAMES_ALWAYS = 16
"""A member may hold so many lines and one for each `BYTES_A_GAME` bytes; what follows is one more row, `TOO_LARGE`."""

SIZE = 19

# The fields of a row of the index, from 0, and how many there are.
_DATE, _WHITE, _BLACK, _RESULT, _TIME, _FIELDS = 1, 2, 5, 8, 10, 11
# What of them is asked for: the first index of the spans that `index_spans` fills.
BLACK, WHITE, RESULT, DATE, TIME, OVERTIME, SPANS = range(7)

SHORTEST_ROW = 12
"""Bytes: a digit, ten tabs, a C."""

_SLASH, _LETTER_C, _LETTER_M = ord("/"), ord("C"), ord("m")

_TRUNCATED = int(ParseWarning.TRUNCATED)
_KEPT, _NO_RECORD, _TOO_LARGE, _UNREADABLE = (
    int(drop) for drop in (DropReason.KEPT, DropReason.NO_RECORD, DropReason.TOO_LARGE, DropReason.UNREADABLE)
)


@inline_kernel
def read_moves(data: Bytes, i: Int, stop: Int, row: npt.NDArray[np.int64], out: NodesOut) -> None:
    """;B[pd];W[dp] .. up to the end of the line. One that is cut off there is left out; anything else is no game."""
    state = out.state
    while i < stop:
        i = plain_moves(data, i, stop, row, out)
        if data[i] != SEMICOLON:
            row[n.DROP] = _UNREADABLE
            return
        at = i + 1
        black = at < stop and data[at] == LETTER_B
        if at < stop and not black and data[at] != LETTER_W:
            row[n.DROP] = _UNREADABLE
            return
        at += 1
        if at < stop and data[at] != LEFT:
            row[n.DROP] = _UNREADABLE
            return
        end = at + 1
        while end < stop and data[end] != RIGHT:
            end += 1
        if end >= stop:
            row[n.WARNINGS] |= _TRUNCATED
            return
        if state[n.MOVES] - row[n.MOVE_END] == MAX_MOVES:
            row[n.DROP] = _TOO_LARGE
            return
        move = read_move(data, at + 1, end, row)
        out.moves[state[n.MOVES]] = move if black else move | WHITE_BIT
        state[n.MOVES] += 1
        i = skip_space(data, end + 1, stop)


@inline_kernel
def new_row(start: Int, stop: Int, line: Int, drop: Int, out: NodesOut) -> None:
    """Begins the row of a game whose line is data[start:stop]."""
    state = out.state
    row = out.rows[state[n.GAMES]]
    row[:] = 0
    row[n.HANDICAP] = NO_HANDICAP
    row[n.DROP] = drop
    row[n.MEMBER_ROW] = state[n.MEMBER]
    row[n.START], row[n.STOP] = start, stop
    row[n.MOVE_END] = state[n.MOVES]
    row[n.WIDTH] = row[n.HEIGHT] = 0 if drop else SIZE
    row[ID] = -1
    row[LINE] = line
    state[n.GAMES] += 1


@inline_kernel
def read_line(data: Bytes, start: Int, stop: Int, line_end: Int, line: Int, out: NodesOut) -> None:
    """The row of one line, which is neither empty nor a comment: data[start:line_end], up to `stop` without the white
    space at its end.
    """
    state = out.state
    new_row(start, stop, line, _TOO_LARGE if stop - start > LINE_LIMIT else _KEPT, out)
    row = out.rows[state[n.GAMES] - 1]
    if row[n.DROP] == _KEPT:
        i, row[ID] = read_id(data, start, line_end)
        if i < 0:
            row[n.DROP] = _UNREADABLE
        else:
            read_moves(data, i, stop, row, out)
    if row[n.DROP] != _KEPT:
        state[n.MOVES] = row[n.MOVE_END]
        row[n.WIDTH] = row[n.HEIGHT] = row[n.WARNINGS] = 0
    row[n.MOVE_END] = state[n.MOVES]


@kernel
def read_lines(
    data: Bytes,
    start: npt.NDArray[np.int64],
    stop: npt.NDArray[np.int64],
    drop: npt.NDArray[np.uint8],
    out: NodesOut,
) -> None:
    """Every line of every member. `out.rows` is [.., COLUMNS], with room for as many as the limits allow."""
    state = out.state
    for k in range(len(start)):
        state[n.MEMBER] = k
        first = state[n.GAMES]
        most = GAMES_ALWAYS + (stop[k] - start[k]) // BYTES_A_GAME
        i = skip_bom(data, start[k], stop[k])
        line = 0
        while i < stop[k]:
            end = end_of_line(data, i, stop[k])
            i = skip_space(data, i, end)
            last = end
            while last > i and data[last - 1] <= SPACE:
                last -= 1
            if last > i and data[i] != HASH:
                if state[n.GAMES] - first == most:
                    new_row(i, stop[k], line, _TOO_LARGE, out)
                    break
                read_line(data, i, last, end, line, out)
            i = end + 1
            line += 1
        if state[n.GAMES] == first:
            new_row(start[k], stop[k], 0, np.int64(drop[k]) if drop[k] else _NO_RECORD, out)


@inline_kernel
def number_end(data: Bytes, i: Int, stop: Int) -> Int:
    """Past the digits at `i`; -1 if there are none."""
    begin = i
    while i < stop and is_digit(data[i]):
        i += 1
    return i if i > begin else -1


@inline_kernel
def time_end(data: Bytes, i: Int, stop: Int) -> Int:
    """Past "30/3 5m", the last field of a row; -1 if it is not written so."""
    for mark in (_SLASH, SPACE, _LETTER_M):
        i = number_end(data, i, stop)
        if i < 0 or i == stop or data[i] != mark:
            return -1
        i += 1
    return i


@inline_kernel
def row_end(data: Bytes, i: Int, stop: Int) -> Int:
    """The end of the row that begins at `i`, in a line that ends at `stop`; -1 if it is no row of the index.

    It ends after "5m" where digits follow: the beginning of another row, which is not to be trusted.
    """
    i, _ = read_id(data, i, stop)
    if i < 0 or i == stop or data[i] != _LETTER_C:
        return -1
    for _field in range(_DATE, _TIME):
        while i < stop and data[i] != TAB:
            i += 1
        if i == stop:
            return -1
        i += 1
    end = time_end(data, i, stop)
    if end >= 0 and end < stop and is_digit(data[end]):
        return end
    while i < stop:
        if data[i] == TAB:
            return -1
        i += 1
    return stop


@kernel
def index_rows(
    data: Bytes, ids: npt.NDArray[np.int64], start: npt.NDArray[np.int64], stop: npt.NDArray[np.int64]
) -> tuple[Int, Int]:
    """Lists the rows of an index -> (how many, how many lines are none, or go on after one).

    ids, start, stop: one entry for each `SHORTEST_ROW` bytes of data.
    """
    rows, bad = 0, 0
    i = skip_bom(data, 0, len(data))
    while i < len(data):
        end = end_of_line(data, i, len(data))
        last = end
        while last > i and data[last - 1] <= SPACE and data[last - 1] != TAB:
            last -= 1
        at = row_end(data, i, last) if last - i <= LINE_LIMIT else -1
        if at >= 0:
            _after, ids[rows] = read_id(data, i, last)
            start[rows], stop[rows] = i, at
            rows += 1
        if at != last and last > i:
            bad += 1
        i = end + 1
    return rows, bad


@kernel
def index_spans(
    data: Bytes,
    row_start: npt.NDArray[np.int64],
    row_stop: npt.NDArray[np.int64],
    start: npt.NDArray[np.int64],
    stop: npt.NDArray[np.int64],
) -> None:
    """Where the words of each row lie. row_start, row_stop: [G], an empty row has none.  start, stop: [SPANS, G]."""
    for g in range(len(row_start)):
        i, end = row_start[g], row_stop[g]
        for f in range(SPANS):
            start[f, g] = stop[f, g] = 0
        if i == end:
            continue
        for field in range(_FIELDS):
            begin = i
            while i < end and data[i] != TAB:
                i += 1
            if field == _DATE:
                start[DATE, g], stop[DATE, g] = begin + (begin < i), i  # it begins with a C
            elif field == _WHITE:
                start[WHITE, g], stop[WHITE, g] = begin, i
            elif field == _BLACK:
                start[BLACK, g], stop[BLACK, g] = begin, i
            elif field == _RESULT:
                start[RESULT, g], stop[RESULT, g] = begin, i
            elif field == _TIME:
                middle = begin
                while middle < i and data[middle] != SPACE:
                    middle += 1
                start[OVERTIME, g], stop[OVERTIME, g] = begin, middle
                start[TIME, g], stop[TIME, g] = min(middle + 1, i), i
            i += 1
