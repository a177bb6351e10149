"""Compiled reader of the moves of OGS games: locate them in each object, and read them into flat arrays.

All text stays bytes, and `i` and `stop` are as in `kifu.records._tokens`. Functions that read a part of JSON check its
grammar, not its encoding, and return the position after it, or -1 if the text is not JSON.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel
from kifu.point import BLACK, ERASE_BIT, NO_POINT, WHITE, WHITE_BIT
from kifu.records._nodes import BYTES_PER_GAME, MAX_MOVES, MAX_SETUP
from kifu.records._tokens import (
    COLON,
    HASH,
    HYPHEN,
    LEFT,
    LINE_LIMIT,
    RIGHT,
    SPACE,
    Int,
    end_of_line,
    is_digit,
    is_text,
    skip_bom,
    skip_space,
)
from kifu.records.games import Bytes, ParseWarning

DEEPEST = 512
"""Objects and arrays that may contain each other, fewer than orjson and the standard library accept."""

QUOTE, COMMA, OPEN_BRACE, CLOSE_BRACE = (ord(c) for c in '",{}')
_ESCAPE, _PLUS, _DOT = (ord(c) for c in "\\+.")
_ZERO, _LOWER, _E, _U, _A, _F, _T, _N = 48, 0x20, ord("e"), ord("u"), ord("a"), ord("f"), ord("t"), ord("n")
_ESCAPED = tuple(b'"\\/bfnrt')
_TRUE, _FALSE, _NULL = tuple(b"true"), tuple(b"false"), tuple(b"null")

_MAX_MANTISSA = 10**17  # another digit still fits into an int64
_MAX_POWER = 400  # of ten: beyond the range of floating-point numbers

PLAIN = np.ones(256, np.uint8)  # bytes that are neither brackets nor quotes
PLAIN[[LEFT, RIGHT, OPEN_BRACE, CLOSE_BRACE, QUOTE]] = 0


@inline_kernel
def end_of_string(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the position after the quote that ends the string whose text begins at `i`, or `stop`."""
    while i < stop and data[i] != QUOTE:
        i += 2 if data[i] == _ESCAPE else 1
    return min(i + 1, stop)


@inline_kernel
def end_of_brackets(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the position after the array at `i`, whose brackets may be mixed up, or -1."""
    depth = 0
    while i < stop:
        c = data[i]
        i += 1
        if PLAIN[c]:
            continue
        if c == QUOTE:
            i = end_of_string(data, i, stop)
        elif c in (LEFT, OPEN_BRACE):
            depth += 1
        elif c in (RIGHT, CLOSE_BRACE):
            depth -= 1
            if depth == 0:
                return i
    return -1


@inline_kernel
def skip_json_space(data: Bytes, i: Int, stop: Int) -> Int:
    """Skip the white space of JSON."""
    while i < stop and (data[i] == SPACE or 9 <= data[i] <= 10 or data[i] == 13):
        i += 1
    return i


@inline_kernel
def _read_digits(data: Bytes, i: Int, stop: Int, mantissa: Int) -> tuple[Int, Int, Int]:
    """Read one or more digits: (position after them, mantissa with them behind it, number of digits left out)."""
    begin, left_out = i, 0
    while i < stop and is_digit(data[i]):
        if mantissa < _MAX_MANTISSA:
            mantissa = mantissa * 10 + np.int64(data[i]) - _ZERO
        else:
            left_out += 1
        i += 1
    return i if i > begin else -1, mantissa, left_out


@inline_kernel
def read_json_number(data: Bytes, i: Int, stop: Int) -> tuple[Int, float]:
    """Read a number: (position after it, value)."""
    negative = i < stop and data[i] == HYPHEN
    begin = i + 1 if negative else i
    i, mantissa, power = _read_digits(data, begin, stop, 0)
    if i < 0 or (data[begin] == _ZERO and i > begin + 1):
        return -1, 0.0
    if i < stop and data[i] == _DOT:
        begin = i + 1
        i, mantissa, left_out = _read_digits(data, begin, stop, mantissa)
        power -= i - begin - left_out
    if i > 0 and i < stop and data[i] | _LOWER == _E:
        i += 1
        sign = 1
        if i < stop and (data[i] == _PLUS or data[i] == HYPHEN):
            sign = -1 if data[i] == HYPHEN else 1
            i += 1
        i, exponent, left_out = _read_digits(data, i, stop, 0)
        power += sign * (exponent if left_out == 0 else _MAX_MANTISSA)
    value = float(mantissa)
    if mantissa > 0 and power > 0:
        value = value * 10.0 ** min(power, _MAX_POWER)
    elif mantissa > 0 and power < 0:
        value = value / 10.0 ** min(-power, _MAX_POWER)
    return i, -value if negative else value


@inline_kernel
def _is_hex(c: Int) -> Any:
    return is_digit(c) or _A <= c | _LOWER <= _F


@inline_kernel
def _string(data: Bytes, i: Int, stop: Int) -> Int:
    """Read a string, without regard to its encoding."""
    if i >= stop or data[i] != QUOTE:
        return -1
    i += 1
    while i < stop:
        c = data[i]
        i += 1
        if c == QUOTE:
            return i
        if c < SPACE:
            return -1
        if c == _ESCAPE:
            if i < stop and data[i] == _U and stop - i > 4:
                for k in range(i + 1, i + 5):
                    if not _is_hex(data[k]):
                        return -1
                i += 5
            elif i < stop and data[i] in _ESCAPED:
                i += 1
            else:
                return -1
    return -1


@inline_kernel
def _key(data: Bytes, i: Int, stop: Int) -> Int:
    """Read a name and the colon after it."""
    i = _string(data, i, stop)
    if i < 0:
        return -1
    i = skip_json_space(data, i, stop)
    return skip_json_space(data, i + 1, stop) if i < stop and data[i] == COLON else -1


@inline_kernel
def _word(data: Bytes, i: Int, stop: Int) -> Int:
    """Read true, false or null."""
    if i < stop and data[i] == _T:
        return i + len(_TRUE) if is_text(data, i, stop, _TRUE) else -1
    if i < stop and data[i] == _N:
        return i + len(_NULL) if is_text(data, i, stop, _NULL) else -1
    return i + len(_FALSE) if is_text(data, i, stop, _FALSE) else -1


@inline_kernel
def read_value(data: Bytes, i: Int, stop: Int, stack: npt.NDArray[np.int64]) -> Int:
    """Read any value."""
    depth = 0
    while i < stop:
        c = data[i]
        if c in (LEFT, OPEN_BRACE):
            if depth == DEEPEST:
                return -1
            after = skip_json_space(data, i + 1, stop)
            if after < stop and data[after] == c + 2:  # the brackets of a pair are two apart
                i = after + 1
            else:
                stack[depth] = c
                depth += 1
                i = _key(data, after, stop) if c == OPEN_BRACE else after
                if i < 0:
                    return -1
                continue
        elif c == QUOTE:
            i = _string(data, i, stop)
        elif c == HYPHEN or is_digit(c):
            i, _number = read_json_number(data, i, stop)
        else:
            i = _word(data, i, stop)
        while i >= 0:
            if depth == 0:
                return i
            i = skip_json_space(data, i, stop)
            if i >= stop:
                return -1
            if data[i] == stack[depth - 1] + 2:
                depth -= 1
                i += 1
            elif data[i] == COMMA:
                i = skip_json_space(data, i + 1, stop)
                if stack[depth - 1] == OPEN_BRACE:
                    i = _key(data, i, stop)
                break
            else:
                return -1
        if i < 0:
            return -1
    return -1


OBJECT_LIMIT = 4 << 20
"""Bytes. A larger object over several lines is not a game; what orjson makes of one takes up to twenty times as much.
"""

GAMES_ALWAYS = 16
"""A file of lines may have this many games plus one for each `BYTES_PER_GAME` bytes; the rest is one more row."""

# Columns of a row of `find_objects`: a line or an object over several lines, and the arrays of moves in the object
# itself and in its "gamedata", 0 if absent.
MEMBER, LINE, START, STOP, DROP, OUTER_START, OUTER_STOP, INNER_START, INNER_STOP, OBJECT_COLUMNS = range(10)

NOTHING, ARRAY, LETTERS = range(3)
"""Kinds of moves: none, [[15, 3, 2280], ..] in the data, or "pddp" in the text."""

# Columns of a row of `read_moves`: the first ones are its input, the last ones are filled in.
KIND, BEGIN, END, WIDTH, HEIGHT, TURN, FREE, BLACK_STONES, WHITE_STONES, STONES_END = range(10)
STATUS, WARNINGS, PLAYED, ROOT_SETUP, MOVE_END, SETUP_END, GAME_COLUMNS = range(10, 17)

_BANG, _DOT, _ZERO, _LOWER, _A = ord("!"), ord("."), 48, 0x20, ord("a")
_MOVES, _GAMEDATA_KEY, _UNDEFINED = tuple(b"moves"), tuple(b"gamedata"), tuple(b"!undefined")

_EDITED = 3  # an edit that removes a stone; 1 and 2 are the colours of edited stones
_LONGEST = 1e15  # milliseconds, of a move

_PASS_AS_TT, _TRUNCATED = int(ParseWarning.PASS_AS_TT), int(ParseWarning.TRUNCATED)
_BAD_SETUP, _SETUP_TWICE = int(ParseWarning.BAD_SETUP_POINT), int(ParseWarning.SETUP_TWICE)
_KEPT, _NO_RECORD, _TOO_LARGE, _UNREADABLE = (
    int(drop) for drop in (DropReason.KEPT, DropReason.NO_RECORD, DropReason.TOO_LARGE, DropReason.UNREADABLE)
)

Row = npt.NDArray[np.int64]


class MovesOut(NamedTuple):
    """The output of `read_moves`, and its memory.

    Attributes:
        moves: [M] uint16.
        seconds: [M] float32.
        setup, setup_ply: [S] uint16.
        seen: [MAX_POINTS] int64, zeros. The last game that set up each point, times 4, plus its colour.
        stack: [DEEPEST] int64. The bracket of each open array or object.
    """

    moves: npt.NDArray[np.uint16]
    seconds: npt.NDArray[np.float32]
    setup: npt.NDArray[np.uint16]
    setup_ply: npt.NDArray[np.uint16]
    seen: npt.NDArray[np.int64]
    stack: npt.NDArray[np.int64]


@inline_kernel
def _find_moves(data: Bytes, i: Int, stop: Int, row: Row) -> None:
    """Locate the value of "moves" in the object at `i`, or in its "gamedata", if it is an array."""
    depth, in_gamedata = 0, False
    while i < stop:
        c = data[i]
        if PLAIN[c]:
            i += 1
            continue
        if c == QUOTE:
            begin = i + 1
            i = end_of_string(data, begin, stop)
            if depth == 1 or (depth == 2 and in_gamedata):
                after = skip_space(data, i, stop)
                if after < stop and data[after] == COLON:
                    value = skip_space(data, after + 1, stop)
                    length = i - 1 - begin
                    if depth == 1 and length == len(_GAMEDATA_KEY) and is_text(data, begin, stop, _GAMEDATA_KEY):
                        in_gamedata = value < stop and data[value] == OPEN_BRACE
                        row[INNER_START] = row[INNER_STOP] = 0
                    elif length == len(_MOVES) and is_text(data, begin, stop, _MOVES):
                        at = OUTER_START if depth == 1 else INNER_START
                        row[at] = row[at + 1] = 0
                        if value < stop and data[value] == LEFT:
                            row[at] = value
                            value = end_of_brackets(data, value, stop)
                            if value < 0:
                                row[DROP] = _UNREADABLE
                                return
                            row[at + 1] = value
                    i = value
            continue
        i += 1
        if c in (LEFT, OPEN_BRACE):
            depth += 1
            if depth > DEEPEST:
                row[DROP] = _UNREADABLE
                return
        elif c in (RIGHT, CLOSE_BRACE):
            depth -= 1
            if depth == 1:
                in_gamedata = False


@inline_kernel
def _new_object(member: Int, start: Int, stop: Int, line: Int, drop: Int, row: Row) -> None:
    row[:] = 0
    row[MEMBER], row[LINE], row[START], row[STOP], row[DROP] = member, line, start, stop, drop


@kernel
def find_objects(
    data: Bytes,
    start: npt.NDArray[np.int64],
    stop: npt.NDArray[np.int64],
    drop: npt.NDArray[np.uint8],
    has_lines: npt.NDArray[np.uint8],
    rows: npt.NDArray[np.int64],
) -> Int:
    """Locate the objects of each member and the arrays of their moves. A member without any has one row.

    Args:
        data: [N] uint8, the members.
        start: [K] int64, start of each member.
        stop: [K] int64, end of each member.
        drop: [K] uint8, their `DropReason`.
        has_lines: [K] uint8, 1 for members with one object a line; others are one object.
        rows: [.., OBJECT_COLUMNS] int64, filled; large enough for the limits on rows.
    """
    count = 0
    for k in range(len(start)):
        first, line = count, 0
        most = GAMES_ALWAYS + (stop[k] - start[k]) // BYTES_PER_GAME
        i = skip_bom(data, start[k], stop[k])
        while i < stop[k]:
            end = end_of_line(data, i, stop[k]) if has_lines[k] else stop[k]
            i = skip_space(data, i, end)
            last = end
            while last > i and data[last - 1] <= SPACE:
                last -= 1
            if last > i and data[i] != HASH:
                too_large = last - i > (LINE_LIMIT if has_lines[k] else OBJECT_LIMIT) or count - first == most
                _new_object(k, i, last, line, _TOO_LARGE if too_large else _KEPT, rows[count])
                if not too_large:
                    _find_moves(data, i, last, rows[count])
                count += 1
                if count - first > most:
                    break
            i = end + 1
            line += 1
        if count == first:
            _new_object(k, start[k], stop[k], 0, np.int64(drop[k]) if drop[k] else _NO_RECORD, rows[count])
            count += 1
    return count


@inline_kernel
def _play(point: Int, colour: Int, seconds: float, row: Row, out: MovesOut) -> None:
    """Append a move. Colour 0 is that of the player to move; an edit, with another one, does not change the turn.

    While Black places handicap stones, the turn does not change either, and passes are skipped, which old games have
    in place of White's moves.
    """
    left = row[FREE] - row[PLAYED]
    if colour == 0 and left > 0 and point == row[WIDTH] * row[HEIGHT]:
        return
    if row[MOVE_END] - row[BEGIN] == MAX_MOVES:
        row[STATUS] = _TOO_LARGE
        return
    white = (colour if colour else row[TURN]) == WHITE
    out.moves[row[MOVE_END]] = point | WHITE_BIT if white else point
    out.seconds[row[MOVE_END]] = seconds
    row[MOVE_END] += 1
    if colour == 0:
        row[PLAYED] += 1
        if left < 2:
            row[TURN] = BLACK + WHITE - row[TURN]


@inline_kernel
def _set_up(point: Int, bits: Int, ply: Int, row: Row, out: MovesOut) -> None:
    if row[SETUP_END] - row[ROOT_SETUP] == MAX_SETUP:
        row[STATUS] = _TOO_LARGE
        return
    out.setup[row[SETUP_END]] = point | bits
    out.setup_ply[row[SETUP_END]] = ply
    row[SETUP_END] += 1


@inline_kernel
def _point(x: float, y: float, row: Row) -> Int:
    """Return the point or pass (-1, -1) of coordinates, or NO_POINT."""
    if x == -1 and y == -1:
        return row[WIDTH] * row[HEIGHT]
    if 0 <= x < row[WIDTH] and 0 <= y < row[HEIGHT] and x == np.floor(x) and y == np.floor(y):
        return np.int64(y) * row[WIDTH] + np.int64(x)
    return NO_POINT


@inline_kernel
def _read_move(data: Bytes, i: Int, stop: Int, row: Row, out: MovesOut) -> Int:
    """Read [x, y, milliseconds, colour, extra], of which only the first two are required."""
    if i >= stop or data[i] != LEFT:
        return -1
    i, x = read_json_number(data, skip_json_space(data, i + 1, stop), stop)
    if i < 0:
        return -1
    i = skip_json_space(data, i, stop)
    if i >= stop or data[i] != COMMA:
        return -1
    i, y = read_json_number(data, skip_json_space(data, i + 1, stop), stop)
    if i < 0:
        return -1
    seconds, colour = np.nan, 0
    place = 2
    i = skip_json_space(data, i, stop)
    while i < stop and data[i] == COMMA:
        i = skip_json_space(data, i + 1, stop)
        if i < stop and (data[i] == HYPHEN or is_digit(data[i])):
            i, number = read_json_number(data, i, stop)
            if place == 2 and 0 <= number <= _LONGEST:
                seconds = number / 1000
            elif place == 3 and number in (BLACK, WHITE):
                colour = int(number)
        else:
            i = read_value(data, i, stop, out.stack)
        if i < 0:
            return -1
        place += 1
        i = skip_json_space(data, i, stop)
    if i >= stop or data[i] != RIGHT:
        return -1
    _play(_point(x, y, row), colour, seconds, row, out)
    return i + 1


@inline_kernel
def _read_array(data: Bytes, row: Row, out: MovesOut) -> None:
    """Read the array of moves data[BEGIN:END]."""
    stop = row[END]
    i = skip_json_space(data, row[BEGIN] + 1, stop)
    row[BEGIN] = row[MOVE_END]
    if i == stop - 1 and data[i] == RIGHT:
        return
    while row[STATUS] == _KEPT:
        i = _read_move(data, i, stop, row, out)
        if i >= 0:
            i = skip_json_space(data, i, stop)
        if i < 0 or i >= stop or (data[i] != COMMA and i != stop - 1) or (i == stop - 1 and data[i] != RIGHT):
            row[STATUS] = _UNREADABLE
        elif i == stop - 1:
            return
        else:
            i = skip_json_space(data, i + 1, stop)


@inline_kernel
def _letter(c: Int) -> Int:
    """Return the number of a letter in either case, -1 for a dot, and -2 for anything else."""
    if c == _DOT:
        return -1
    letter = np.int64(c | _LOWER) - _A
    return letter if 0 <= letter < 26 and c >= 65 else -2


@inline_kernel
def _read_letters(text: Bytes, row: Row, out: MovesOut) -> None:
    """Read moves such as "pddp..!1aa" from text[BEGIN:END]; a point off the board is a pass, as on OGS."""
    i, stop = row[BEGIN], row[END]
    row[BEGIN] = row[MOVE_END]
    while i < stop and row[STATUS] == _KEPT:
        colour = 0
        if text[i] == _BANG:
            if is_text(text, i, stop, _UNDEFINED):
                colour, i = _EDITED, i + len(_UNDEFINED)
            elif i + 1 < stop and _ZERO <= text[i + 1] <= _ZERO + WHITE:
                colour, i = int(text[i + 1]) - _ZERO, i + 2
                colour = colour if colour > 0 else _EDITED
            else:
                row[STATUS] = _UNREADABLE
                return
        if stop - i < 2:
            row[WARNINGS] |= _TRUNCATED
            return
        x, y = _letter(text[i]), _letter(text[i + 1])
        i += 2
        if x < -1 or y < -1:
            row[STATUS] = _UNREADABLE
        elif x >= row[WIDTH] or y >= row[HEIGHT]:
            row[WARNINGS] |= _PASS_AS_TT
            x = y = -1
        elif x < 0 or y < 0:
            x = y = -1
        if row[STATUS] == _KEPT and colour != _EDITED:
            _play(_point(x, y, row), colour, np.nan, row, out)
        elif row[STATUS] == _KEPT and x >= 0:
            _set_up(y * row[WIDTH] + x, ERASE_BIT, row[MOVE_END] - row[BEGIN], row, out)


@inline_kernel
def _read_stones(text: Bytes, i: Int, stop: Int, game: Int, white: bool, row: Row, out: MovesOut) -> None:
    """Read stones such as "pddp" of the initial position."""
    while i < stop and row[STATUS] == _KEPT:
        x = _letter(text[i])
        y = _letter(text[i + 1]) if i + 1 < stop else -2
        i += 2
        if x < 0 or y < 0 or x >= row[WIDTH] or y >= row[HEIGHT]:
            row[WARNINGS] |= _BAD_SETUP
            continue
        point = y * row[WIDTH] + x
        stamp = 4 * (game + 1) + white
        if out.seen[point] == stamp:
            continue
        if out.seen[point] == stamp - 1 and white:
            row[WARNINGS] |= _SETUP_TWICE
        out.seen[point] = stamp
        _set_up(point, WHITE_BIT if white else 0, 0, row, out)


@kernel
def read_moves(data: Bytes, text: Bytes, rows: npt.NDArray[np.int64], out: MovesOut) -> None:
    """Read setup and moves of each game that has a KIND other than NOTHING.

    Args:
        data: [N] uint8, with the arrays of moves.
        text: [T] uint8, with moves and stones in letters.
        rows: [G, GAME_COLUMNS] int64. Its columns from STATUS on are filled.
        out: Filled in; large enough for a move per 2 bytes of letters and per 5 bytes of arrays, and as many stones.
    """
    moves, setup = 0, 0
    for g in range(len(rows)):
        row = rows[g]
        row[STATUS] = row[WARNINGS] = row[PLAYED] = 0
        row[MOVE_END] = moves
        row[SETUP_END] = row[ROOT_SETUP] = setup
        if row[KIND] != NOTHING:
            _read_stones(text, row[BLACK_STONES], row[WHITE_STONES], g, False, row, out)
            _read_stones(text, row[WHITE_STONES], row[STONES_END], g, True, row, out)
        root = row[SETUP_END] - setup
        if row[STATUS] == _KEPT and row[KIND] == ARRAY:
            _read_array(data, row, out)
        elif row[STATUS] == _KEPT and row[KIND] == LETTERS:
            _read_letters(text, row, out)
        if row[STATUS] != _KEPT:
            row[MOVE_END], row[SETUP_END], root = moves, setup, 0
        moves, setup, row[ROOT_SETUP] = row[MOVE_END], row[SETUP_END], root
