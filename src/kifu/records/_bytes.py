r"""Compiled tools for the bytes of all text formats, and rows of games, which become `GameArrays`.

All text stays bytes. Bytes up to the space count as white space. `i` is the position of the next byte to read and
`stop` the end of the text; functions return the position after what they read, at most `stop`. A line ends after its
"\n", or with the text.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel
from kifu.point import MAX_SIZE
from kifu.records.games import ARRAYS, NO_HANDICAP, Bytes, GameArrays, RecordBlock

Int: TypeAlias = Any
"""An int64 in compiled code; in Python, an int or a NumPy scalar."""

SPACE = 32
OPEN, CLOSE, SEMICOLON, LEFT, RIGHT, ESCAPE, COLON, HYPHEN = (ord(c) for c in "();[]\\:-")
LETTER_B, LETTER_W = ord("B"), ord("W")

LINE_LIMIT = 1 << 20
"""Bytes. A longer line is not a game; of a line file, no more of it than this and one byte is kept."""

OBJECT_LIMIT = 4 << 20
"""Bytes. A larger JSON object over several lines is not a game; orjson makes of one up to twenty times as much."""

MOST_ID_DIGITS = 18  # the most that an int64 holds

TAB, LINE_FEED, CARRIAGE_RETURN, HASH = 9, 10, 13, ord("#")
_BOM = tuple(b"\xef\xbb\xbf")
_ZERO = 48

MAX_SETUP = 4_096
"""A game with more setup stones, rectangles expanded, is `DropReason.TOO_LARGE`: `AB[aa:yy]` is 625 of them in 8 bytes.
"""

MAX_POINTS = MAX_SIZE * MAX_SIZE

# Columns of a row; one row per game.
WIDTH, HEIGHT, MOVE_END, SETUP_END, ROOT_SETUP, TO_PLAY, HANDICAP = range(7)
WARNINGS, DROP, MEMBER_ROW, START, STOP, COLUMNS = range(7, 13)

# The last column of a row of `line_rows`; a reader may have more of its own.
LINE, LINE_COLUMNS = COLUMNS, COLUMNS + 1


GAMES_ALWAYS, BYTES_PER_GAME = 16, 32
"""A member of more games than its bytes / 32 + 16 is not read further, as `(;)` would be a row for every 3 bytes."""

_KEPT, _NO_RECORD, _TOO_LARGE = int(DropReason.KEPT), int(DropReason.NO_RECORD), int(DropReason.TOO_LARGE)


@inline_kernel
def byte(data: Bytes, i: Int) -> Int:
    """Return the byte at `i` for arithmetic, which would overflow in uint8."""
    return np.int64(data[i])


@inline_kernel
def skip_space(data: Bytes, i: Int, stop: Int) -> Int:
    while i < stop and data[i] <= SPACE:
        i += 1
    return i


@inline_kernel
def is_text(data: Bytes, i: Int, stop: Int, text: bytes | tuple[int, ...]) -> bool:
    """Return whether the bytes `text` are at `i`."""
    if stop - i < len(text):
        return False
    for k in range(len(text)):
        if data[i + k] != text[k]:
            return False
    return True


@inline_kernel
def is_capital(c: Int) -> Any:
    return 65 <= c <= 90


@inline_kernel
def is_letter(c: Int) -> Any:
    return 65 <= c <= 90 or 97 <= c <= 122


@inline_kernel
def read_number(data: Bytes, i: Int, stop: Int) -> tuple[bool, Int]:
    """Parse a whole number of at most 4 digits, with an optional sign and white space around it: (valid, value).

    Line breaks within it are skipped.
    """
    i = skip_space(data, i, stop)
    while stop > i and data[stop - 1] <= SPACE:
        stop -= 1
    sign = 1
    if i < stop and (data[i] == 43 or data[i] == 45):
        sign = 44 - byte(data, i)
        i += 1
    value = digits = 0
    for k in range(i, stop):
        if data[k] in (LINE_FEED, CARRIAGE_RETURN):
            continue
        if data[k] < 48 or data[k] > 57 or digits == 4:
            return False, 0
        value = value * 10 + byte(data, k) - 48
        digits += 1
    return digits > 0, sign * value


@inline_kernel
def is_digit(c: Int) -> Any:
    return _ZERO <= c <= 57


@inline_kernel
def end_of_line(data: Bytes, i: Int, stop: Int) -> Int:
    r"""Return the position of the \n that ends the line at `i`, or `stop`."""
    while i + 64 <= stop:
        found = False
        for c in data[i : i + 64]:  # the compiler vectorizes loops over views
            found |= c == LINE_FEED
        if found:
            break
        i += 64
    while i < stop and data[i] != LINE_FEED:
        i += 1
    return i


@inline_kernel
def read_id(data: Bytes, i: Int, stop: Int) -> tuple[Int, Int]:
    """Read a game's number and the tab after it: (position after the tab, number), or (-1, -1) without them."""
    begin, value = i, 0
    while i < stop and is_digit(data[i]) and i - begin < MOST_ID_DIGITS:
        value = value * 10 + int(data[i]) - _ZERO
        i += 1
    if begin < i < stop and data[i] == TAB:
        return i + 1, value
    return -1, -1


@inline_kernel
def skip_bom(data: Bytes, i: Int, stop: Int) -> Int:
    if stop - i >= 3 and data[i] == _BOM[0] and data[i + 1] == _BOM[1] and data[i + 2] == _BOM[2]:
        return i + 3
    return i


@kernel
def count_lines(data: Bytes, start: Int, stop: Int) -> Int:
    r"""Return the number of \n in data[start:stop]."""
    count = 0
    for i in range(start, stop):
        if data[i] == LINE_FEED:
            count += 1
    return count


@kernel
def last_line_end(data: Bytes, start: Int, stop: Int) -> Int:
    r"""Return the position after the last \n of data[start:stop]; `start` without one."""
    i = stop
    while i > start and data[i - 1] != LINE_FEED:
        i -= 1
    return i


@kernel
def next_line(data: Bytes, i: Int, stop: Int) -> Int:
    r"""Return the position after the \n that ends the line at `i`, or `stop`."""
    return min(end_of_line(data, i, stop) + 1, stop)


@kernel
def skip_lines(data: Bytes, start: Int, stop: Int, count: Int) -> Int:
    r"""Return the position after the first `count` lines of data[start:stop], or `stop`."""
    i = start
    for _ in range(count):
        i = end_of_line(data, i, stop) + 1
        if i >= stop:
            return stop
    return i


@kernel
def first_game_line(data: Bytes, start: Int, stop: Int) -> Int:
    """Return the start of the first line from `start` on that is neither empty nor a comment, or `stop`."""
    at = skip_space(data, start, stop)
    while at < stop and data[at] == HASH:
        at = skip_space(data, end_of_line(data, at, stop), stop)
    while start < at < stop and data[at - 1] != LINE_FEED:
        at -= 1
    return at


@inline_kernel
def end_of_name(data: Bytes, i: Int, stop: Int) -> Int:
    while i < stop and (is_letter(data[i]) or is_digit(data[i])):
        i += 1
    return i


@inline_kernel
def is_utf8(data: Bytes, i: Int, stop: Int) -> bool:
    """Return whether data[i:stop] is well-formed UTF-8 by table 3-7 of the Unicode standard."""
    while i < stop:
        c = byte(data, i)
        i += 1
        if c < 0x80:
            continue
        low, high = 0x80, 0xBF  # of the second byte
        if 0xC2 <= c <= 0xDF:
            more = 1
        elif 0xE0 <= c <= 0xEF:
            more = 2
            low = 0xA0 if c == 0xE0 else 0x80
            high = 0x9F if c == 0xED else 0xBF
        elif 0xF0 <= c <= 0xF4:
            more = 3
            low = 0x90 if c == 0xF0 else 0x80
            high = 0x8F if c == 0xF4 else 0xBF
        else:
            return False
        if i + more > stop or data[i] < low or data[i] > high:
            return False
        for k in range(i + 1, i + more):
            if data[k] < 0x80 or data[k] > 0xBF:
                return False
        i += more
    return True


_COLUMN_OF = {
    "width": WIDTH, "height": HEIGHT, "root_setup": ROOT_SETUP, "to_play": TO_PLAY, "handicap": HANDICAP,
    "warnings": WARNINGS, "drop": DROP, "start": START, "stop": STOP,
}  # fmt: skip


def to_game_arrays(
    block: RecordBlock,
    rows: npt.NDArray[np.int64],
    moves: npt.NDArray[np.uint16],
    setup: npt.NDArray[np.uint16],
    setup_ply: npt.NDArray[np.uint16],
) -> GameArrays:
    """Return the games of a block, given their rows, [G, at least COLUMNS], and the arrays that these refer to."""
    move_offset, setup_offset = (np.append(0, rows[:, column]) for column in (MOVE_END, SETUP_END))
    member = rows[:, MEMBER_ROW]
    return GameArrays(
        moves=moves[: move_offset[-1]].copy(), move_offset=move_offset, setup=setup[: setup_offset[-1]].copy(),
        setup_ply=setup_ply[: setup_offset[-1]].copy(), setup_offset=setup_offset, member=block.member[member],
        block_index=member.astype(np.int32),
        **{name: rows[:, column].astype(ARRAYS[name]) for name, column in _COLUMN_OF.items()},
    )  # fmt: skip


def line_rows(block: RecordBlock, has_lines: npt.NDArray[np.bool_], columns: int) -> npt.NDArray[np.int64]:
    """Return the rows of `find_lines` for a block: [G, columns] int64, with zeros to be filled in by the reader.

    Lines are numbered from the beginning of a file, even if the block begins within it.
    """
    length = int(np.sum(block.stop - block.start))
    rows = np.empty((length // BYTES_PER_GAME + (GAMES_ALWAYS + 1) * len(block), columns), np.int64)
    rows = rows[: find_lines(block.data, block.start, block.stop, block.drop, has_lines, rows)]
    rows[rows[:, MEMBER_ROW] == 0, LINE] += block.first_line
    return rows


@kernel
def find_lines(
    data: Bytes,
    start: npt.NDArray[np.int64],
    stop: npt.NDArray[np.int64],
    drop: npt.NDArray[np.uint8],
    has_lines: npt.NDArray[np.bool_],
    rows: npt.NDArray[np.int64],
) -> Int:
    """List the lines of each member except for empty ones and comments (#), without white space around them.

    A line over LINE_LIMIT is `DropReason.TOO_LARGE`, and so is the rest of a member after as many games as it may have.
    A member without any line has one row.

    Args:
        data: [N] uint8, the members.
        start: [K] int64, start of each member.
        stop: [K] int64, end of each member.
        drop: [K] uint8, their `DropReason`.
        has_lines: [K] bool; other members are read as one line of up to OBJECT_LIMIT bytes.
        rows: [.., LINE_COLUMNS or more] int64, filled; large enough for the limits on games.

    Returns:
        The number of rows.
    """
    count = 0
    for k in range(len(start)):
        first, line = count, 0
        most = first + GAMES_ALWAYS + (stop[k] - start[k]) // BYTES_PER_GAME
        i = stop[k] if drop[k] else skip_bom(data, start[k], stop[k])
        while i < stop[k] and count <= most:
            end = end_of_line(data, i, stop[k]) if has_lines[k] else stop[k]
            i = skip_space(data, i, end)
            last = end
            while last > i and data[last - 1] <= SPACE:
                last -= 1
            if last > i and data[i] != HASH:
                last = stop[k] if count == most else last
                too_large = count == most or last - i > (LINE_LIMIT if has_lines[k] else OBJECT_LIMIT)
                _new_line_row(k, line, i, last, _TOO_LARGE if too_large else _KEPT, rows[count])
                count += 1
            i = end + 1
            line += 1
        if count == first:
            _new_line_row(k, 0, stop[k], stop[k], np.int64(drop[k]) if drop[k] else _NO_RECORD, rows[count])
            count += 1
    return count


@inline_kernel
def _new_line_row(member: Int, line: Int, start: Int, stop: Int, drop: Int, row: npt.NDArray[np.int64]) -> None:
    row[:] = 0
    row[HANDICAP] = NO_HANDICAP
    row[MEMBER_ROW], row[LINE], row[START], row[STOP], row[DROP] = member, line, start, stop, drop
