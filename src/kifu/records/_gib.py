r"""Compiled scanner of GIB: the games of members, and the moves of games.

Uses the conventions of `kifu.records._tokens`, except that a carriage return ends a line, too.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel
from kifu.point import NO_POINT, WHITE_BIT
from kifu.records._nodes import MAX_MOVES
from kifu.records._tokens import (
    ESCAPE,
    LEFT,
    SPACE,
    Int,
    byte,
    end_of_any_line,
    is_digit,
    is_text,
    skip_bom,
    skip_space,
)
from kifu.records.games import Bytes, ParseWarning

# The columns of a row of `find_games`: the member, the game's text, the end of its header, its lines of moves, ...
MEMBER, START, STOP, HEADER_STOP, LINES, LINES_STOP, WARNINGS, DROP, COLUMNS = range(9)

_GAMES_ALWAYS, _BYTES_PER_GAME = 64, 1024
"""A member may have this many games plus one for each kibibyte; the rest is one more row, `TOO_LARGE`."""

_SHORTEST_GAME = 4
"""Bytes: the mark of a header, and a line break."""

MOST_STONES = 9
"""The largest handicap whose stones are known."""

_E, _G, _H, _S = ord("E"), ord("G"), ord("H"), ord("S")
_NO_MARK, _HS, _HE, _GS, _GE, _VALUE, _OTHER_MARK = range(7)

_MOST_DIGITS = 6

_TRUNCATED, _JUNK_BEFORE, _OPENING_MISSING, _LATER_GAME = (
    int(ParseWarning[name]) for name in ("TRUNCATED", "JUNK_BEFORE", "OPENING_MISSING", "LATER_GAME")
)
_NO_RECORD, _TOO_LARGE = int(DropReason.NO_RECORD), int(DropReason.TOO_LARGE)


@inline_kernel
def _mark(data: Bytes, i: Int, stop: Int) -> int:
    """Return the mark of a line whose first byte other than white space is at `i`: one of the constants above."""
    if i >= stop or data[i] != ESCAPE:
        return _NO_MARK
    if stop - i >= 2 and data[i + 1] == LEFT:
        return _VALUE
    if stop - i >= 3 and data[i + 1] == _H:
        return _HS if data[i + 2] == _S else _HE if data[i + 2] == _E else _OTHER_MARK
    if stop - i >= 3 and data[i + 1] == _G:
        return _GS if data[i + 2] == _S else _GE if data[i + 2] == _E else _OTHER_MARK
    return _OTHER_MARK


@inline_kernel
def _open_game(row: npt.NDArray[np.int64], member: Int, start: Int, stop: Int, drop: Int) -> None:
    """Begin a game. The ends of its header and lines, not found yet, are `stop`; so is the start of the lines."""
    row[MEMBER], row[START], row[STOP], row[DROP] = member, start, stop, drop
    row[HEADER_STOP] = row[LINES] = row[LINES_STOP] = stop
    row[WARNINGS] = 0 if drop else _TRUNCATED


@inline_kernel
def _close_game(row: npt.NDArray[np.int64], stop: Int) -> None:
    """End a game where the next one begins."""
    for column in (STOP, HEADER_STOP, LINES, LINES_STOP):
        row[column] = min(row[column], stop)


@inline_kernel
def _continue_game(row: npt.NDArray[np.int64], mark: int, at: Int, end: Int, stop: Int) -> None:
    r"""Note the mark of the line data[at:end] of a game. Its moves end at any line that begins with a backslash."""
    if mark in (_HE, _GS):
        row[HEADER_STOP] = min(row[HEADER_STOP], at)
    if row[LINES] == stop and mark == _GS:
        row[LINES] = end
    elif row[LINES] < stop and row[LINES_STOP] == stop and mark != _NO_MARK:
        row[LINES_STOP] = at
        if mark == _GE:
            row[WARNINGS] &= ~_TRUNCATED


@inline_kernel
def _find_in_member(data: Bytes, start: Int, stop: Int, member: Int, rows: npt.NDArray[np.int64], first: Int) -> Int:
    """Find the games of one member, whose rows begin at `first`; return the end of its rows."""
    count = first
    most = _GAMES_ALWAYS + (stop - start) // _BYTES_PER_GAME
    junk = 0
    i = skip_bom(data, start, stop)
    while i < stop:
        end = end_of_any_line(data, i, stop)
        at = skip_space(data, i, end)
        i = end + 1
        mark = _mark(data, at, end)
        if mark == _HS or (count == first and mark in (_GS, _VALUE)):
            if count > first:
                _close_game(rows[count - 1], at)
            if count - first == most:
                _open_game(rows[count], member, at, stop, _TOO_LARGE)
                return count + 1
            _open_game(rows[count], member, at, stop, 0)
            rows[count, WARNINGS] |= (_LATER_GAME if count > first else junk) | (_OPENING_MISSING if mark != _HS else 0)
            count += 1
        elif at < end:
            junk = _JUNK_BEFORE
        if count > first:
            _continue_game(rows[count - 1], mark, at, end, stop)
    return count


def most_rows(start: npt.NDArray[np.int64], stop: npt.NDArray[np.int64]) -> int:
    """Return the most rows that `find_games` needs for members data[start:stop]."""
    size = stop - start
    games = np.minimum(_GAMES_ALWAYS + size // _BYTES_PER_GAME, size // _SHORTEST_GAME + 1)
    return int(np.sum(games + 1))


@kernel
def find_games(
    data: Bytes,
    start: npt.NDArray[np.int64],
    stop: npt.NDArray[np.int64],
    drop: npt.NDArray[np.uint8],
    rows: npt.NDArray[np.int64],
) -> Int:
    """Find the games of each member, at least one row for each.

    Args:
        data: [N] uint8, the members.
        start: [K] int64, start of each member.
        stop: [K] int64, end of each member.
        drop: [K] uint8, `DropReason` of each member.
        rows: [`most_rows`, COLUMNS] int64, filled.
    """
    count = 0
    for k in range(len(start)):
        found = _find_in_member(data, start[k], stop[k], k, rows, count)
        if found == count:
            _open_game(rows[count], k, start[k], stop[k], np.int64(drop[k]) if drop[k] else _NO_RECORD)
            found += 1
        count = found
    return count


@inline_kernel
def _is_word(data: Bytes, i: Int, stop: Int, word: bytes) -> bool:
    """Return whether a line that ends at `stop` has the word of three letters at `i`."""
    return is_text(data, i, stop, word) and (stop - i == 3 or data[i + 3] <= SPACE)


@inline_kernel
def _next_number(data: Bytes, i: Int, stop: Int) -> tuple[Int, Int]:
    """Read the word after `i`: (position after it, its value), -1 if it is not a number of up to 6 digits."""
    i = skip_space(data, i, stop)
    begin = i
    value: Int = np.int64(0)
    while i < stop and data[i] > SPACE:
        value = value * 10 + byte(data, i) - 48 if is_digit(data[i]) and value >= 0 and i - begin < _MOST_DIGITS else -1
        i += 1
    return i, value if i > begin else -1


@inline_kernel
def _third_number(data: Bytes, i: Int, stop: Int) -> tuple[Int, Int]:
    """Read the third number after `i`: (position after it, its value), -1 as for `_next_number`."""
    i, _ = _next_number(data, i, stop)
    i, _ = _next_number(data, i, stop)
    return _next_number(data, i, stop)


@inline_kernel
def _read_lines(
    data: Bytes, row: npt.NDArray[np.int64], size: Int, handicap: Int, moves: npt.NDArray[np.uint16], first: Int
) -> tuple[Int, Int]:
    """Read the lines of one game into moves[first:]; return the end of its moves and its handicap."""
    count, stop = first, row[LINES_STOP]
    has_ini, last = False, 0
    i = row[LINES]
    while i < stop:
        end = end_of_any_line(data, i, stop)
        at = skip_space(data, i, end)
        i = end + 1
        is_stone = _is_word(data, at, end, b"STO")
        if not has_ini and _is_word(data, at, end, b"INI"):
            _at, stones = _third_number(data, at + 3, end)
            has_ini = stones >= 0
            handicap = stones if has_ini else handicap
        if not is_stone and not _is_word(data, at, end, b"SKI"):
            continue
        colour = 3 - last if last else 2 if 2 <= handicap <= MOST_STONES else 1
        move = size * size
        if is_stone:
            at, recorded = _third_number(data, at + 3, end)
            at, x = _next_number(data, at, end)
            at, y = _next_number(data, at, end)
            if end == stop and row[WARNINGS] & _TRUNCATED and y in (-1, 1):  # a 1 may be the start of 10 to 18
                break
            is_valid = recorded in (1, 2) and 0 <= x < size and 0 <= y < size
            move = y * size + x if is_valid else NO_POINT
            colour = recorded if recorded in (1, 2) else colour
        if count - first == MAX_MOVES:
            row[DROP] = _TOO_LARGE
            return first, handicap
        moves[count] = move | WHITE_BIT if colour == 2 else move
        count += 1
        last = colour
    return count, handicap


@kernel
def read_moves(
    data: Bytes,
    rows: npt.NDArray[np.int64],
    size: npt.NDArray[np.int64],
    handicap: npt.NDArray[np.int64],
    moves: npt.NDArray[np.uint16],
    offset: npt.NDArray[np.int64],
) -> None:
    """Read the moves of all games, one after the other; a pass is by the side that did not move last.

    Args:
        data: [N] uint8.
        rows: [G, COLUMNS] int64, the games; those with too many moves are dropped.
        size: [G] int64, side of the board.
        handicap: [G] int64, stones by the header or NO_HANDICAP; replaced by those of the line INI, if there is one.
        moves: [M] uint16, filled; one for each four bytes of the games, and one more, are enough.
        offset: [G + 1] int64, filled: start and end of each game's moves.
    """
    offset[0] = 0
    for g in range(len(rows)):
        offset[g + 1] = offset[g]
        if rows[g, DROP] == 0:
            offset[g + 1], handicap[g] = _read_lines(data, rows[g], size[g], handicap[g], moves, offset[g])
