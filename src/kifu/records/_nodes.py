r"""Compiled tokens of all text formats, and the SGF scanner: from bytes to flat arrays of main lines.

All text stays bytes. Bytes up to the space count as white space. `i` is the position of the next byte to read and
`stop` the end of the text; functions return the position after what they read, at most `stop`. A line ends after its
"\n", or with the text.

The scanner is a single pass without recursion or backtracking: time is linear in the bytes, whatever they are. (A root
node with stones or moves is read twice, because SZ may come last in it.)
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel
from kifu.point import BLACK, ERASE_BIT, MAX_SIZE, NO_POINT, SGF_LETTERS, WHITE, WHITE_BIT
from kifu.records.games import NO_HANDICAP, Bytes, ParseWarning
from kifu.records.text import BIG5, NO_CHARSET, SINGLE, Charsets

Int: TypeAlias = Any
"""An int64 in compiled code; in Python, an int or a NumPy scalar."""

SPACE = 32
OPEN, CLOSE, SEMICOLON, LEFT, RIGHT, ESCAPE, COLON, HYPHEN = (ord(c) for c in "();[]\\:-")
LETTER_B, LETTER_W = ord("B"), ord("W")


def name_key(name: str) -> int:
    """Return the key of `read_name` for a name of one or two capitals."""
    return int.from_bytes(name.encode(), "big")


NAME_B, NAME_W, NAME_AB, NAME_AW, NAME_AE = map(name_key, ("B", "W", "AB", "AW", "AE"))
NAME_FF, NAME_GM, NAME_SZ, NAME_CA, NAME_HA, NAME_PL = map(name_key, ("FF", "GM", "SZ", "CA", "HA", "PL"))


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
def end_of_value(data: Bytes, i: Int, stop: Int, charset: Int) -> Int:
    r"""Return the position of the ] of a value, or `stop`. A \ or the first byte of a pair hides the next byte."""
    while i < stop:
        c = data[i]
        if c == RIGHT:
            return i
        if c == ESCAPE or (charset > SINGLE and c >= 0x81 and (charset == BIG5 or c < 0xA0 or c >= 0xE0)):
            i += 1
        i += 1
    return stop


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
def is_letter(c: Int) -> Any:
    return 65 <= c <= 90 or 97 <= c <= 122


@inline_kernel
def next_name(data: Bytes, i: Int, stop: Int, charset: Int) -> Int:
    """Skip values, white space and junk up to the next property name of the node, or to the ; ( ) that ends it."""
    while i < stop:
        c = data[i]
        if is_letter(c) or c in (SEMICOLON, OPEN, CLOSE):
            break
        if c == LEFT:
            i = end_of_value(data, i + 1, stop, charset)
        i += 1
    return min(i, stop)


@inline_kernel
def read_name(data: Bytes, i: Int, stop: Int) -> tuple[Int, Int, bool]:
    """Read a property's name.

    Returns:
        (position after it, key, whether it has lower-case letters). The key packs the capitals into an int, or if there
        are none, the letters as capitals. It is 0 for names of more than two capitals or with a digit, which the
        scanner never looks for.
    """
    capitals_key, capitals, small_key, small = 0, 0, 0, 0
    while i < stop:
        c = byte(data, i)
        if 65 <= c <= 90:
            capitals_key = capitals_key * 256 + c if capitals < 2 else 0
            capitals += 1
        elif 97 <= c <= 122:
            small_key = small_key * 256 + c - 32 if small < 2 else 0
            small += 1
        elif 48 <= c <= 57:
            capitals_key = 0
            capitals += 2
        else:
            break
        i += 1
    return i, capitals_key if capitals > 0 else small_key, small > 0


@inline_kernel
def read_number(data: Bytes, i: Int, stop: Int) -> tuple[bool, Int]:
    """Parse a whole number of at most 4 digits, with an optional sign and surrounding white space: (valid, value)."""
    i = skip_space(data, i, stop)
    while stop > i and data[stop - 1] <= SPACE:
        stop -= 1
    sign = 1
    if i < stop and (data[i] == 43 or data[i] == 45):
        sign = 44 - byte(data, i)
        i += 1
    value = 0
    for k in range(i, stop):
        if data[k] < 48 or data[k] > 57 or k - i >= 4:
            return False, 0
        value = value * 10 + byte(data, k) - 48
    return i < stop, sign * value


@inline_kernel
def charset_key(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the letters and digits of a charset's name, ignoring case, as a number in base 36; -1 if more than 12."""
    key, digits = 0, 0
    for k in range(i, stop):
        c = byte(data, k)
        if 65 <= c <= 90:
            c += 32
        digit = c - 48 if 48 <= c <= 57 else (c - 87 if 97 <= c <= 122 else 36)
        if digit < 36:
            if digits == 12:
                return -1
            key = key * 36 + digit
            digits += 1
    return key


@inline_kernel
def find_charset(data: Bytes, i: Int, stop: Int, charsets: Charsets) -> Int:
    """Return SINGLE, SHIFT_JIS or BIG5 for the value of CA, or NO_CHARSET if it is unknown."""
    key = charset_key(data, i, stop)
    low, high = 0, len(charsets.key)
    while low < high:
        middle = (low + high) // 2
        if charsets.key[middle] == key:
            return charsets.pairing[middle]
        if charsets.key[middle] < key:
            low = middle + 1
        else:
            high = middle
    return NO_CHARSET


LINE_LIMIT = 1 << 20
"""Bytes. A longer line is not a game; of a line file, no more of it than this and one byte is kept."""

MOST_ID_DIGITS = 18  # the most that an int64 holds

TAB, LINE_FEED, CARRIAGE_RETURN, HASH, DASH = 9, 10, 13, ord("#"), ord("-")
_BOM = tuple(b"\xef\xbb\xbf")
_ZERO = 48


@inline_kernel
def is_digit(c: Int) -> Any:
    return _ZERO <= c <= 57


@inline_kernel
def end_of_line(data: Bytes, i: Int, stop: Int) -> Int:
    r"""Return the position of the \n that ends the line at `i`, or `stop`."""
    while i < stop and data[i] != LINE_FEED:
        i += 1
    return i


@inline_kernel
def end_of_any_line(data: Bytes, i: Int, stop: Int) -> Int:
    r"""Return the position of the \n or \r that ends the line at `i`, or `stop`."""
    while i < stop and data[i] != LINE_FEED and data[i] != CARRIAGE_RETURN:
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


MAX_MOVES = 65_535
"""A game with more moves is `DropReason.TOO_LARGE` (`GameArrays.setup_ply` is uint16)."""

MAX_SETUP = 4_096
"""A game with more setup stones, rectangles expanded, is `DropReason.TOO_LARGE`: `AB[aa:yy]` is 625 of them in 8 bytes.
"""

MAX_POINTS = MAX_SIZE * MAX_SIZE

# Columns of a row; one row per game.
WIDTH, HEIGHT, MOVE_END, SETUP_END, ROOT_SETUP, TO_PLAY, HANDICAP = range(7)
WARNINGS, DROP, MEMBER_ROW, START, STOP, COLUMNS = range(7, 13)

# The scanner's state between calls, and within one.
MEMBER, POSITION, IN_MEMBER, GAMES, MOVES, SETUP, MEMBER_BUDGET = range(7)
BUDGET, NODES, IN_ROOT, MEMBER_BYTES, CUT, STATES = range(7, 13)

_SIZE_MISSING = int(ParseWarning.SIZE_MISSING)
_SIZE_PAIR = int(ParseWarning.SIZE_PAIR)
_HANDICAP_TEXT = int(ParseWarning.HANDICAP_TEXT)
_TWO_MOVES = int(ParseWarning.TWO_MOVES_IN_NODE)
_MANY_VALUES = int(ParseWarning.MANY_MOVE_VALUES)
_SETUP_AFTER_ROOT = int(ParseWarning.SETUP_AFTER_ROOT)
_SETUP_TWICE = int(ParseWarning.SETUP_TWICE)
_PASS_AS_TT = int(ParseWarning.PASS_AS_TT)
_LOWER_CASE = int(ParseWarning.LOWER_CASE_NAME)
_BAD_SETUP = int(ParseWarning.BAD_SETUP_POINT)
_HANDICAP_ONE = int(ParseWarning.HANDICAP_ONE)
_BAD_CHARSET = int(ParseWarning.BAD_CHARSET)
_MOVE_IN_ROOT = int(ParseWarning.MOVE_IN_ROOT)
_PASS_AS_WORD = int(ParseWarning.PASS_AS_WORD)

_KEPT, _NOT_GO = int(DropReason.KEPT), int(DropReason.NOT_GO)
_BAD_SIZE, _TOO_LARGE = int(DropReason.BAD_SIZE), int(DropReason.TOO_LARGE)

_COORDINATE = np.full(256, 255, np.uint8)  # by coordinate letter; 255 is off every board
_COORDINATE[np.frombuffer(SGF_LETTERS.encode(), np.uint8)] = np.arange(len(SGF_LETTERS))
_T = SGF_LETTERS.index("t")

_PASS = tuple(b"pass")
_BLACK_WORDS, _WHITE_WORDS = tuple(b"Bb1"), tuple(b"Ww2")


class NodesOut(NamedTuple):
    """The scanner's output and state.

    The caller allocates `moves` once for all games, as no move takes less than the 4 bytes of ";B[]", and enlarges
    `rows` and `setup` whenever `scan_members` returns FULL.

    Attributes:
        rows: [G, COLUMNS] int64.
        moves: [M] uint16.
        setup, setup_ply: [S] uint16.
        state: [STATES] int64. The caller sets MEMBER_BYTES to the size of a member that is scanned in pieces, else 0,
            and CUT to the position behind which `scan_members` stops after a game.
        seen: [MAX_POINTS] int64. The last node that set up each point, times 4, plus 0, 1 or 2 for AB, AW or AE.
    """

    rows: npt.NDArray[np.int64]
    moves: npt.NDArray[np.uint16]
    setup: npt.NDArray[np.uint16]
    setup_ply: npt.NDArray[np.uint16]
    state: npt.NDArray[np.int64]
    seen: npt.NDArray[np.int64]


@inline_kernel
def coordinate(data: Bytes, i: Int) -> Int:
    return np.int64(_COORDINATE[data[i]])


@inline_kernel
def read_size(data: Bytes, i: Int, stop: Int, row: npt.NDArray[np.int64]) -> None:
    """Parse SZ[19], SZ[19:19] or SZ[13:9] (width, height). An empty value counts as missing."""
    colon = i
    while colon < stop and data[colon] != COLON:
        colon += 1
    if skip_space(data, i, stop) == stop:
        return
    good, width = read_number(data, i, colon)
    height = width
    if colon < stop:
        right, height = read_number(data, colon + 1, stop)
        good = good and right
        if good and width == height:
            row[WARNINGS] |= _SIZE_PAIR
    if good and 1 <= width <= MAX_SIZE and 1 <= height <= MAX_SIZE:
        row[WIDTH], row[HEIGHT] = width, height
    else:
        row[WIDTH] = -1


@inline_kernel
def read_handicap(data: Bytes, i: Int, stop: Int, row: npt.NDArray[np.int64]) -> None:
    good, value = read_number(data, i, stop)
    if good:
        row[HANDICAP] = value
    else:
        row[WARNINGS] |= _HANDICAP_TEXT
    if good and value == 1:
        row[WARNINGS] |= _HANDICAP_ONE


@inline_kernel
def read_player(data: Bytes, i: Int, stop: Int, row: npt.NDArray[np.int64]) -> None:
    """Parse PL by its first letter: B, black, W, white; 1 and 2 in old records."""
    i = skip_space(data, i, stop)
    if i < stop:
        c = data[i]
        if c in _BLACK_WORDS:
            row[TO_PLAY] = BLACK
        elif c in _WHITE_WORDS:
            row[TO_PLAY] = WHITE


@inline_kernel
def read_root(data: Bytes, i: Int, stop: Int, charsets: Charsets, row: npt.NDArray[np.int64]) -> tuple[Int, Int, bool]:
    """Read the root node from after its ;. The first of several SZ, HA or CA is used.

    Returns:
        (its end, charset, whether it contains stones or moves).
    """
    charset = SINGLE
    has_charset = False
    plays = False
    i = next_name(data, i, stop, charset)
    while i < stop and is_letter(data[i]):
        i, key, small = read_name(data, i, stop)
        if small:
            row[WARNINGS] |= _LOWER_CASE
        if key in (NAME_B, NAME_W, NAME_AB, NAME_AW, NAME_AE):
            plays = True
        i = skip_space(data, i, stop)
        if i < stop and data[i] == LEFT:
            i += 1
            end = end_of_value(data, i, stop, charset)
            if end < stop:
                if key == NAME_SZ and row[WIDTH] == 0:
                    read_size(data, i, end, row)
                elif key == NAME_HA and row[HANDICAP] == NO_HANDICAP and row[WARNINGS] & _HANDICAP_TEXT == 0:
                    read_handicap(data, i, end, row)
                elif key == NAME_PL:
                    read_player(data, i, end, row)
                elif key == NAME_CA and not has_charset:
                    has_charset = True
                    charset = find_charset(data, i, end, charsets)
                    if charset == NO_CHARSET:
                        row[WARNINGS] |= _BAD_CHARSET
                elif key == NAME_GM and skip_space(data, i, end) < end:
                    good, value = read_number(data, i, end)
                    if not good or value != 1:
                        row[DROP] = _NOT_GO
            i = end + 1
        i = next_name(data, i, stop, charset)
    if row[WIDTH] == 0:
        row[WIDTH], row[HEIGHT] = 19, 19
        row[WARNINGS] |= _SIZE_MISSING
    elif row[WIDTH] < 0:
        row[WIDTH] = 0
        if row[DROP] == _KEPT:
            row[DROP] = _BAD_SIZE
    return i, charset, plays


@inline_kernel
def is_pass_word(data: Bytes, i: Int, stop: Int) -> Any:
    """Return whether data[i:stop] is "pass", ignoring case, or "--"."""
    if stop - i == 2:
        return data[i] == HYPHEN and data[i + 1] == HYPHEN
    if stop - i != 4:
        return False
    for k in range(4):
        if data[i + k] | 0x20 != _PASS[k]:
            return False
    return True


@inline_kernel
def read_move(data: Bytes, i: Int, stop: Int, row: npt.NDArray[np.int64]) -> Int:
    """Parse the value of B or W as a point, a pass (width * height) or NO_POINT."""
    i = skip_space(data, i, stop)
    while stop > i and data[stop - 1] <= SPACE:
        stop -= 1
    width, height = row[WIDTH], row[HEIGHT]
    if i == stop:
        return width * height
    if stop - i == 2:
        x, y = coordinate(data, i), coordinate(data, i + 1)
        if x < width and y < height:
            return y * width + x
        if x == _T and y == _T and width <= 19 and height <= 19:
            row[WARNINGS] |= _PASS_AS_TT
            return width * height
    if is_pass_word(data, i, stop):
        row[WARNINGS] |= _PASS_AS_WORD
        return width * height
    return NO_POINT


@inline_kernel
def put_stones(
    left: Int, top: Int, right: Int, bottom: Int, kind: Int, ply: Int, row: npt.NDArray[np.int64], out: NodesOut
) -> None:
    """Set up a rectangle of points (borders included) as black (kind 0), white (1) or empty (2)."""
    state = out.state
    state[BUDGET] -= (right - left + 1) * (bottom - top + 1)
    if state[BUDGET] < 0:
        row[DROP] = _TOO_LARGE
        return
    bits = ERASE_BIT if kind == 2 else kind * WHITE_BIT
    for y in range(top, bottom + 1):
        for x in range(left, right + 1):
            point = y * row[WIDTH] + x
            before = out.seen[point]
            if before // 4 == state[NODES]:
                if before % 4 == kind:
                    continue
                if state[IN_ROOT] == 1:
                    row[WARNINGS] |= _SETUP_TWICE
            out.seen[point] = state[NODES] * 4 + kind
            out.setup[state[SETUP]] = point | bits
            out.setup_ply[state[SETUP]] = ply
            state[SETUP] += 1


@inline_kernel
def read_rectangle(data: Bytes, i: Int, stop: Int, width: Int, height: Int) -> tuple[Int, Int, Int, Int, Int]:
    """Parse a point, or a rectangle as upper left:lower right.

    Returns:
        (status, left, top, right, bottom), borders included. The status is 1 for a rectangle on the board, 0 for an
        empty value, which has no meaning, and -1 for anything else.
    """
    i = skip_space(data, i, stop)
    while stop > i and data[stop - 1] <= SPACE:
        stop -= 1
    if i == stop:
        return 0, 0, 0, 0, 0
    if stop - i == 2 or (stop - i == 5 and data[i + 2] == COLON):
        left, top = coordinate(data, i), coordinate(data, i + 1)
        right, bottom = coordinate(data, stop - 2), coordinate(data, stop - 1)
        if left <= right < width and top <= bottom < height:
            return 1, left, top, right, bottom
    return -1, 0, 0, 0, 0


@inline_kernel
def read_setup(data: Bytes, i: Int, stop: Int, kind: Int, ply: Int, row: npt.NDArray[np.int64], out: NodesOut) -> None:
    """Read one value of AB, AW or AE."""
    status, left, top, right, bottom = read_rectangle(data, i, stop, row[WIDTH], row[HEIGHT])
    if status > 0:
        put_stones(left, top, right, bottom, kind, ply, row, out)
    elif status < 0:
        row[WARNINGS] |= _BAD_SETUP


@inline_kernel
def read_stones(
    data: Bytes, i: Int, stop: Int, charset: Int, kind: Int, ply: Int, row: npt.NDArray[np.int64], out: NodesOut
) -> None:
    """Read the values of B or W at `i` as AB or AW, as OGS exports the position of a forked game."""
    while i < stop and data[i] == LEFT and row[DROP] == _KEPT:
        end = end_of_value(data, i + 1, stop, charset)
        read_setup(data, i + 1, end, kind, ply, row, out)
        i = skip_space(data, end + 1, stop)


@inline_kernel
def read_node(data: Bytes, i: Int, stop: Int, charset: Int, row: npt.NDArray[np.int64], out: NodesOut) -> Int:
    """Read any node from after its ; and return its end. Its stones come before its move, regardless of their order."""
    state = out.state
    state[NODES] += 1
    in_root = state[IN_ROOT] == 1
    if in_root:
        final_charset, charset = charset, SINGLE  # as read_root does, so that values end at the same positions
    ply = state[MOVES] - row[MOVE_END]
    black, white = -1, -1
    black_values, white_values, has_setup = -1, -1, False
    i = next_name(data, i, stop, charset)
    while i < stop and is_letter(data[i]):
        i, key, small = read_name(data, i, stop)
        if small:
            row[WARNINGS] |= _LOWER_CASE
        i = skip_space(data, i, stop)
        values, first = 0, i
        if key in (NAME_B, NAME_W, NAME_AB, NAME_AW, NAME_AE):
            while i < stop and data[i] == LEFT and row[DROP] == _KEPT:
                i += 1
                end = end_of_value(data, i, stop, charset)
                if end == stop:
                    i = stop
                    break
                values += 1
                if key in (NAME_AB, NAME_AW, NAME_AE):
                    kind = 0 if key == NAME_AB else (1 if key == NAME_AW else 2)
                    read_setup(data, i, end, kind, ply, row, out)
                    has_setup = True
                    if not in_root:
                        row[WARNINGS] |= _SETUP_AFTER_ROOT
                elif values > 1:
                    row[WARNINGS] |= _MANY_VALUES
                    if key == NAME_B:
                        black_values = first
                    else:
                        white_values = first
                elif (key == NAME_B and black >= 0) or (key == NAME_W and white >= 0):
                    row[WARNINGS] |= _TWO_MOVES
                elif key == NAME_B:
                    black = read_move(data, i, end, row)
                else:
                    white = read_move(data, i, end, row)
                i = skip_space(data, end + 1, stop)
        elif key == NAME_CA and in_root and i < stop and data[i] == LEFT:
            i = end_of_value(data, i + 1, stop, charset) + 1
            charset = final_charset
        i = next_name(data, i, stop, charset)
    if has_setup and black_values >= 0:
        read_stones(data, black_values, stop, charset, 0, ply, row, out)
        black = -1
    if has_setup and white_values >= 0:
        read_stones(data, white_values, stop, charset, 1, ply, row, out)
        white = -1
    if black >= 0 and white >= 0:
        row[WARNINGS] |= _TWO_MOVES
    if black >= 0 or white >= 0:
        if ply == MAX_MOVES:
            row[DROP] = _TOO_LARGE
        else:
            out.moves[state[MOVES]] = black if black >= 0 else white | WHITE_BIT
            state[MOVES] += 1
            if in_root:
                row[WARNINGS] |= _MOVE_IN_ROOT
    if in_root:
        row[ROOT_SETUP] = state[SETUP] - row[SETUP_END]
        state[IN_ROOT] = 0
    return i


@inline_kernel
def plain_moves(data: Bytes, i: Int, stop: Int, row: npt.NDArray[np.int64], out: NodesOut) -> Int:
    """Read consecutive nodes of the form ;B[xy] or ;W[xy] with a point of the board, which make up most of a record."""
    moves = out.moves
    m = out.state[MOVES]
    last = row[MOVE_END] + MAX_MOVES
    width, height = row[WIDTH], row[HEIGHT]
    while i + 6 < stop and m < last:
        colour = data[i + 1]
        if data[i] != SEMICOLON or data[i + 2] != LEFT or data[i + 5] != RIGHT:
            break
        if colour != LETTER_B and colour != LETTER_W:
            break
        x, y = coordinate(data, i + 3), coordinate(data, i + 4)
        if x >= width or y >= height:
            break
        after = i + 6
        c = data[after]
        while c <= SPACE and after + 1 < stop:
            after += 1
            c = data[after]
        if c != SEMICOLON and c != CLOSE and c != OPEN:
            break
        moves[m] = y * width + x if colour == LETTER_B else (y * width + x) | WHITE_BIT
        m += 1
        i = after
    out.state[MOVES] = m
    return i


DONE, FULL = 0, 1

BYTES_PER_GAME = 32
"""A member of more games than its bytes / 32 + 16 is not read further, as `(;)` would be a row for every 3 bytes."""

_TRUNCATED = int(ParseWarning.TRUNCATED)
_JUNK_BEFORE = int(ParseWarning.JUNK_BEFORE)
_VARIATIONS = int(ParseWarning.VARIATIONS)
_LATER_GAME = int(ParseWarning.LATER_GAME)
_OPENING_MISSING = int(ParseWarning.OPENING_MISSING)

_KEPT, _NO_RECORD, _TOO_LARGE = int(DropReason.KEPT), int(DropReason.NO_RECORD), int(DropReason.TOO_LARGE)


@inline_kernel
def is_root(data: Bytes, i: Int, stop: Int) -> Any:
    """Return whether ;GM[ or ;FF[ is at `i`: a certain root, even if a parenthesis is missing."""
    if i >= stop or data[i] != SEMICOLON:
        return False
    i = skip_space(data, i + 1, stop)
    if i + 2 >= stop or data[i + 2] != LEFT:
        return False
    key = byte(data, i) * 256 + byte(data, i + 1)
    return key in (NAME_GM, NAME_FF)


@inline_kernel
def main_line(
    data: Bytes, i: Int, stop: Int, charset: Int, row: npt.NDArray[np.int64], out: NodesOut
) -> tuple[Int, Int]:
    """Read the main line from the ; of a node: (its end, number of parentheses open there)."""
    depth = 1
    while i < stop and row[DROP] == _KEPT:
        c = data[i]
        if c == SEMICOLON:
            if out.state[IN_ROOT] == 0:
                i = plain_moves(data, i, stop, row, out)
            if data[i] == SEMICOLON:
                i = read_node(data, i + 1, stop, charset, row, out)
        elif c == OPEN:
            if is_root(data, skip_space(data, i + 1, stop), stop):
                break
            depth += 1
            i += 1
        elif c == CLOSE:
            break
        else:  # junk between ( and ;
            i = next_name(data, i + 1 if is_letter(c) else i, stop, charset)
    return i, depth


@inline_kernel
def skip_tree(data: Bytes, i: Int, stop: Int, charset: Int, depth: Int, row: npt.NDArray[np.int64]) -> Int:
    """Skip everything up to the ) that closes the game."""
    while i < stop:
        c = data[i]
        if c == LEFT:
            i = min(end_of_value(data, i + 1, stop, charset), stop - 1)
        elif c == OPEN:
            if is_root(data, skip_space(data, i + 1, stop), stop):
                break
            row[WARNINGS] |= _VARIATIONS
            depth += 1
        elif c == CLOSE:
            depth -= 1
            if depth == 0:
                return i + 1
        i += 1
    row[WARNINGS] |= _TRUNCATED
    return i


@inline_kernel
def find_game(data: Bytes, i: Int, stop: Int) -> tuple[Int, Int, bool]:
    """Find the next game.

    Returns:
        (its start, its first ;, whether anything but white space lies before it). The start is a ( followed by a ;, or
        the ; itself if it is a certain root; `stop` if there is no game.
    """
    junk = False
    while i < stop:
        c = data[i]
        i += 1
        if c == OPEN:
            after = skip_space(data, i, stop)
            if after < stop and data[after] == SEMICOLON and data[i] != 0:  # otherwise it is UTF-16
                return i - 1, after, junk
            i = after
        elif c == SEMICOLON and is_root(data, i - 1, stop):
            return i - 1, i - 1, junk
        if c > SPACE:
            junk = True
    return stop, stop, junk


@inline_kernel
def new_row(out: NodesOut, drop: Int, at: Int) -> None:
    """Begin the row of a game whose text starts at `at`. Until `end_game`, MOVE_END and SETUP_END are its starts."""
    state = out.state
    row = out.rows[state[GAMES]]
    row[:] = 0
    row[HANDICAP] = NO_HANDICAP
    row[DROP] = drop
    row[MEMBER_ROW] = state[MEMBER]
    row[START] = row[STOP] = at
    row[MOVE_END], row[SETUP_END] = state[MOVES], state[SETUP]
    if state[IN_MEMBER] > 0:
        row[WARNINGS] = _LATER_GAME
    state[GAMES] += 1
    state[IN_MEMBER] += 1


@inline_kernel
def begin_game(data: Bytes, start: Int, stop: Int, drop: Int, out: NodesOut) -> Int:
    """Begin the row of the member's next game and return its first ;, or finish the member and return -1."""
    state = out.state
    length = max(state[MEMBER_BYTES], stop - start)
    if state[IN_MEMBER] == 0:
        state[POSITION] = start
        state[MEMBER_BUDGET] = 4 * MAX_SETUP + length
    at = root = stop
    junk = False
    if drop == _KEPT:
        at, root, junk = find_game(data, state[POSITION], stop)
    if at < stop and state[IN_MEMBER] < 16 + length // BYTES_PER_GAME:
        new_row(out, _KEPT, at)
        row = out.rows[state[GAMES] - 1]
        if junk:
            row[WARNINGS] |= _JUNK_BEFORE
        if root == at:
            row[WARNINGS] |= _OPENING_MISSING
        state[BUDGET] = min(MAX_SETUP, state[MEMBER_BUDGET])
        return root
    if at < stop:
        new_row(out, _TOO_LARGE, at)
        out.rows[state[GAMES] - 1][STOP] = stop
    elif state[IN_MEMBER] == 0:
        new_row(out, drop if drop != _KEPT else _NO_RECORD, at)
    state[MEMBER] += 1
    state[IN_MEMBER] = 0
    return -1


@inline_kernel
def end_game(i: Int, row: npt.NDArray[np.int64], out: NodesOut) -> None:
    """Complete the row of a game that ends at `i`. A dropped game keeps neither moves nor setup."""
    state = out.state
    state[IN_ROOT] = 0
    state[MEMBER_BUDGET] -= min(MAX_SETUP, state[MEMBER_BUDGET]) - max(state[BUDGET], 0)
    if row[DROP] != _KEPT:
        state[MOVES], state[SETUP] = row[MOVE_END], row[SETUP_END]
        row[ROOT_SETUP] = 0
    row[MOVE_END], row[SETUP_END] = state[MOVES], state[SETUP]
    row[STOP] = i
    state[POSITION] = i


@kernel
def scan_members(
    data: Bytes,
    start: npt.NDArray[np.int64],
    stop: npt.NDArray[np.int64],
    drop: npt.NDArray[np.uint8],
    charsets: Charsets,
    out: NodesOut,
) -> Int:
    """Scan on from `out.state` (initially zeros) to the end.

    Args:
        data: [N] uint8.
        start: [K] int64, start of each member.
        stop: [K] int64, end of each member.
        drop: [K] uint8, its `DropReason`.

    Returns:
        DONE, or FULL if `out` has no space for another game or state[CUT] is reached.
    """
    state = out.state
    while state[MEMBER] < len(start):
        if state[GAMES] == len(out.rows) or state[SETUP] + MAX_SETUP > len(out.setup) or state[POSITION] >= state[CUT]:
            return FULL
        k = state[MEMBER]
        root = begin_game(data, start[k], stop[k], np.int64(drop[k]), out)
        if root >= 0:
            row = out.rows[state[GAMES] - 1]
            i, charset, plays = read_root(data, root + 1, stop[k], charsets, row)
            if plays:
                i = root
                state[IN_ROOT] = 1
            i, depth = main_line(data, i, stop[k], charset, row, out)
            end_game(skip_tree(data, i, stop[k], charset, depth, row), row, out)
    return DONE
