r"""Compiled tokens of all text formats, and the SGF scanner: from bytes to flat arrays of main lines.

All text stays bytes. Bytes up to the space count as white space. `i` is the position of the next byte to read and
`stop` the end of the text; functions return the position after what they read, at most `stop`. A line ends after its
"\n", or with the text.

The scanner is a single pass without recursion or backtracking: time is linear in the bytes, whatever they are. It lists
a node's properties in a table, which is all that later readers of the main line look at.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel
from kifu.point import BLACK, ERASE_BIT, MAX_SIZE, NO_POINT, SGF_LETTERS, WHITE, WHITE_BIT
from kifu.records.games import MAX_MOVES as MAX_MOVES  # readers import it from here
from kifu.records.games import NO_HANDICAP, Bytes, GameArrays, ParseWarning, RecordBlock
from kifu.records.text import BIG5, GB18030, NO_CHARSET, SHIFT_JIS, SINGLE, Charsets

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

GAME_INFO = (
    "AN", "BR", "BT", "CP", "DT", "EV", "GC", "GN", "HA", "KM", "ON", "OT", "PB", "PC", "PW", "RE", "RO", "RU", "SO",
    "TM", "US", "WR", "WT",
)  # fmt: skip
"""Properties that FF[4] allows in any node; the first node of the main line with a value counts."""

_FIRST_KEY, _LAST_KEY = name_key("AA"), name_key("ZZ")
_IS_INFO = np.zeros(_LAST_KEY - _FIRST_KEY + 1, np.uint8)
_IS_INFO[[name_key(name) - _FIRST_KEY for name in GAME_INFO]] = 1


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
        if c == ESCAPE or (charset > SINGLE and c >= 0x81 and (charset != SHIFT_JIS or c < 0xA0 or c >= 0xE0)):
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
def is_capital(c: Int) -> Any:
    return 65 <= c <= 90


@inline_kernel
def is_letter(c: Int) -> Any:
    return 65 <= c <= 90 or 97 <= c <= 122


@inline_kernel
def is_info(key: Int) -> Any:
    """Return whether a name's key is that of one of `GAME_INFO`."""
    return _FIRST_KEY <= key <= _LAST_KEY and _IS_INFO[key - _FIRST_KEY] == 1


@inline_kernel
def next_name(data: Bytes, i: Int, stop: Int, charset: Int) -> tuple[Int, bool]:
    """Skip values, white space and junk up to the next property name of the node, or to the ; ( ) that ends it.

    Returns:
        (position, whether there was junk).
    """
    junk = False
    while i < stop:
        c = data[i]
        if is_letter(c) or c in (SEMICOLON, OPEN, CLOSE):
            break
        if c == LEFT:
            i = end_of_value(data, i + 1, stop, charset)
        elif c > SPACE:
            junk = True
        i += 1
    return min(i, stop), junk


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

OBJECT_LIMIT = 4 << 20
"""Bytes. A larger JSON object over several lines is not a game; orjson makes of one up to twenty times as much."""

MOST_ID_DIGITS = 18  # the most that an int64 holds

TAB, LINE_FEED, CARRIAGE_RETURN, HASH = 9, 10, 13, ord("#")
_BOM = tuple(b"\xef\xbb\xbf")
_ZERO = 48


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


MAX_SETUP = 4_096
"""A game with more setup stones, rectangles expanded, is `DropReason.TOO_LARGE`: `AB[aa:yy]` is 625 of them in 8 bytes.
"""

MAX_POINTS = MAX_SIZE * MAX_SIZE

# Columns of a row; one row per game.
WIDTH, HEIGHT, MOVE_END, SETUP_END, ROOT_SETUP, TO_PLAY, HANDICAP = range(7)
WARNINGS, DROP, MEMBER_ROW, START, STOP, COLUMNS = range(7, 13)

# The last column of a row of `line_rows`; a reader may have more of its own.
LINE, LINE_COLUMNS = COLUMNS, COLUMNS + 1

# Further columns of a game of SGF: its charset, and ends of its rows of properties, of all and of the root's.
CHARSET, PROPERTY_END, ROOT_END, SGF_COLUMNS = range(COLUMNS, COLUMNS + 4)

# Columns of a row of properties: a name's key; the number of the node, negative if it has no move; the number of moves
# before the node; start and end of the first value, from the start of the game's text.
KEY, NODE, PLY, VALUE, VALUE_END, PROPERTY_COLUMNS = range(6)

MAX_PROPERTIES = 1 << 20
"""A game with more on its main line, without those of `plain_moves`, is `DropReason.TOO_LARGE`."""

PROPERTY_BYTES = 3
"""The least bytes of a property."""

_MAX_VALUE_END = (1 << 31) - 1

# The scanner's state between calls, and within one.
MEMBER, POSITION, IN_MEMBER, GAMES, MOVES, SETUP, MEMBER_BUDGET = range(7)
BUDGET, NODES, IN_ROOT, MEMBER_BYTES, CUT, DOUBT, PROPERTIES, STATES = range(7, 15)

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
_SEMICOLON_MISSING = int(ParseWarning.SEMICOLON_MISSING)
_EMPTY_VARIATION = int(ParseWarning.EMPTY_VARIATION)
_TEXT_SKIPPED = int(ParseWarning.TEXT_SKIPPED)
_OTHER_CHARSET = int(ParseWarning.OTHER_CHARSET)
_INFO_AFTER_ROOT = int(ParseWarning.INFO_AFTER_ROOT)

_KEPT, _NOT_GO = int(DropReason.KEPT), int(DropReason.NOT_GO)
_BAD_SIZE, _TOO_LARGE = int(DropReason.BAD_SIZE), int(DropReason.TOO_LARGE)

_COORDINATE = np.full(256, 255, np.uint8)  # by coordinate letter; 255 is off every board
_COORDINATE[np.frombuffer(SGF_LETTERS.encode(), np.uint8)] = np.arange(len(SGF_LETTERS))
_T = SGF_LETTERS.index("t")

_PASS = tuple(b"pass")
_BACK_QUOTE = ord("`")
_BLACK_WORDS, _WHITE_WORDS = tuple(b"Bb1"), tuple(b"Ww2")


class NodesOut(NamedTuple):
    """The scanner's output and state.

    The caller allocates `moves` once for all games, as no move takes less than the 4 bytes of ";B[]", and enlarges
    `rows`, `setup` and `properties` whenever `scan_members` returns FULL.

    Attributes:
        rows: [G, SGF_COLUMNS] int64.
        moves: [M] uint16.
        setup, setup_ply: [S] uint16.
        properties: [P, PROPERTY_COLUMNS] int32, a row for each property with a value on the main lines, in order, but
            those that `plain_moves` reads.
        state: [STATES] int64. The caller sets MEMBER_BYTES to the size of a member that is scanned in pieces, else 0,
            and CUT to the position behind which `scan_members` stops after a game.
        seen: [MAX_POINTS] int64. The last node that set up each point, times 4, plus 0, 1 or 2 for AB, AW or AE.
        readings: [READINGS, PROGRESS] int64, scratch space of `compare_readings`.
    """

    rows: npt.NDArray[np.int64]
    moves: npt.NDArray[np.uint16]
    setup: npt.NDArray[np.uint16]
    setup_ply: npt.NDArray[np.uint16]
    properties: npt.NDArray[np.int32]
    state: npt.NDArray[np.int64]
    seen: npt.NDArray[np.int64]
    readings: npt.NDArray[np.int64]


@inline_kernel
def coordinate(letter: Int) -> Int:
    return np.int64(_COORDINATE[letter])


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
def next_property(data: Bytes, i: Int, stop: Int, charset: Int) -> tuple[Int, Int, Int, Int, Int]:
    """Read a node's next property that has a value, from after its ; or the first value of the property before.

    A value that the end of the text truncates is no value.

    Returns:
        (position after its first value, key, start and end of this value, `ParseWarning`). Without another property,
        the key is -1 and the position that of the node's end.
    """
    key, start, warnings = -1, -1, 0
    if i + 2 < stop and is_capital(data[i]):  # mostly, one or two capitals and the value follow at once
        if data[i + 1] == LEFT:
            key, start = byte(data, i), i + 2
        elif data[i + 2] == LEFT and is_capital(data[i + 1]):
            key, start = byte(data, i) * 256 + byte(data, i + 1), i + 3
    while start < 0:
        i, junk = next_name(data, i, stop, charset)
        if junk:
            warnings |= _TEXT_SKIPPED
        if i >= stop or not is_letter(data[i]):
            return i, -1, i, i, warnings
        i, key, small = read_name(data, i, stop)
        if small:
            warnings |= _LOWER_CASE
        i = skip_space(data, i, stop)
        if i < stop and data[i] == LEFT:
            start = i + 1
        elif i < stop:
            warnings |= _TEXT_SKIPPED
    end = end_of_value(data, start, stop, charset)
    if end == stop:
        return stop, -1, stop, stop, warnings
    return end + 1, key, start, end, warnings


@inline_kernel
def next_value(data: Bytes, end: Int, stop: Int, charset: Int) -> tuple[Int, Int]:
    """Return start and end of the value of the same property after the one that ends at `end`; `stop` without one."""
    i = skip_space(data, end + 1, stop)
    if i < stop and data[i] == LEFT:
        return i + 1, end_of_value(data, i + 1, stop, charset)
    return stop, stop


@inline_kernel
def list_node(data: Bytes, i: Int, stop: Int, row: npt.NDArray[np.int64], out: NodesOut) -> Int:
    """Append a row for each property of the node whose first one begins at `i`, and return the node's end."""
    state = out.state
    state[NODES] += 1
    node, ply, start, charset = state[NODES], state[MOVES] - row[MOVE_END], row[START], row[CHARSET]
    count, most, warnings = state[PROPERTIES], row[PROPERTY_END] + MAX_PROPERTIES, 0
    at = skip_space(data, i, stop)
    if at < stop and data[at] == LEFT:
        warnings = _TEXT_SKIPPED
    key = 0
    while key >= 0 and count < most:
        i, key, value, end, more = next_property(data, i, stop, charset)
        warnings |= more
        if end - start > _MAX_VALUE_END:
            row[DROP] = _TOO_LARGE
        elif key >= 0:
            each = out.properties[count]
            each[KEY], each[NODE], each[PLY], each[VALUE], each[VALUE_END] = key, node, ply, value - start, end - start
            count += 1
    row[WARNINGS] |= warnings
    state[PROPERTIES] = count
    return i


@inline_kernel
def read_root(data: Bytes, charsets: Charsets, row: npt.NDArray[np.int64], out: NodesOut) -> None:
    """Read size, handicap, player, charset and kind of game from the rows of a root. The first SZ, HA or CA is used."""
    has_charset = False
    for k in range(row[PROPERTY_END], out.state[PROPERTIES]):
        key = out.properties[k, KEY]
        i, end = row[START] + out.properties[k, VALUE], row[START] + out.properties[k, VALUE_END]
        if key == NAME_SZ and row[WIDTH] == 0:
            read_size(data, i, end, row)
        elif key == NAME_HA and row[HANDICAP] == NO_HANDICAP and row[WARNINGS] & _HANDICAP_TEXT == 0:
            read_handicap(data, i, end, row)
        elif key == NAME_PL:
            read_player(data, i, end, row)
        elif key == NAME_CA and not has_charset:
            has_charset = True
            if find_charset(data, i, end, charsets) == NO_CHARSET:
                row[WARNINGS] |= _BAD_CHARSET
        elif key == NAME_GM and skip_space(data, i, end) < end:
            good, value = read_number(data, i, end)
            if not good or value != 1:
                row[DROP] = _NOT_GO
    if row[WIDTH] == 0:
        row[WIDTH], row[HEIGHT] = 19, 19
        row[WARNINGS] |= _SIZE_MISSING
    elif row[WIDTH] < 0:
        row[WIDTH] = 0
        if row[DROP] == _KEPT:
            row[DROP] = _BAD_SIZE


@inline_kernel
def squeeze(data: Bytes, i: Int, stop: Int) -> tuple[Int, Int, Int, Int, Int, Int]:
    r"""Read a value without its white space, and without a \ before a line break.

    Returns:
        (number of bytes, the first five of them, 0 for missing ones). The number is 6 for more than five.
    """
    a = b = c = d = e = count = 0
    while i < stop and count < 6:
        each = byte(data, i)
        i += 1
        if each <= SPACE or (each == ESCAPE and i < stop and data[i] in (LINE_FEED, CARRIAGE_RETURN)):
            continue
        count += 1
        if count == 1:
            a = each
        elif count == 2:
            b = each
        elif count == 3:
            c = each
        elif count == 4:
            d = each
        elif count == 5:
            e = each
    return count, a, b, c, d, e


@inline_kernel
def read_move(data: Bytes, i: Int, stop: Int, row: npt.NDArray[np.int64]) -> Int:
    """Parse the value of B or W as a point, a pass (width * height) or NO_POINT."""
    count, a, b, c, d, _e = squeeze(data, i, stop)
    width, height = row[WIDTH], row[HEIGHT]
    if count == 0:
        return width * height
    if count == 2:
        x, y = coordinate(a), coordinate(b)
        if x < width and y < height:
            return y * width + x
        if x == _T and y == _T and width <= 19 and height <= 19:
            row[WARNINGS] |= _PASS_AS_TT
            return width * height
    if (count == 2 and a == b and a in (HYPHEN, _BACK_QUOTE)) or (
        count == 4 and (a | 0x20, b | 0x20, c | 0x20, d | 0x20) == _PASS
    ):
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
    count, a, b, c, d, e = squeeze(data, i, stop)
    if count == 0:
        return 0, 0, 0, 0, 0
    if count == 2 or (count == 5 and c == COLON):
        left, top = coordinate(a), coordinate(b)
        right, bottom = (left, top) if count == 2 else (coordinate(d), coordinate(e))
        if left <= right < width and top <= bottom < height:
            return 1, left, top, right, bottom
    return -1, 0, 0, 0, 0


@inline_kernel
def read_stones(
    data: Bytes, i: Int, end: Int, stop: Int, kind: Int, ply: Int, row: npt.NDArray[np.int64], out: NodesOut
) -> None:
    """Set up the stones of a property's values, of which data[i:end] is the first."""
    while end < stop and row[DROP] == _KEPT:
        status, left, top, right, bottom = read_rectangle(data, i, end, row[WIDTH], row[HEIGHT])
        if status > 0:
            put_stones(left, top, right, bottom, kind, ply, row, out)
        elif status < 0:
            row[WARNINGS] |= _BAD_SETUP
        i, end = next_value(data, end, stop, row[CHARSET])


@inline_kernel
def read_node(data: Bytes, stop: Int, first: Int, row: npt.NDArray[np.int64], out: NodesOut) -> None:
    """Read stones and move from the rows of the node listed last. Stones come before the move, whatever their order.

    Several values of B or W beside AB, AW or AE are stones, too, as OGS exports the position of a forked game.

    Args:
        data: [N] uint8.
        first: The node's first row of properties.
    """
    state, start, last = out.state, row[START], out.state[PROPERTIES]
    in_root, ply = state[IN_ROOT] == 1, state[MOVES] - row[MOVE_END]
    black, white = -1, -1
    black_values, white_values, has_setup = -1, -1, False  # rows of B and W with several values
    for k in range(first, last):
        key = out.properties[k, KEY]
        i, end = start + out.properties[k, VALUE], start + out.properties[k, VALUE_END]
        if key in (NAME_B, NAME_W):
            _start, more = next_value(data, end, stop, row[CHARSET])
            if more < stop:
                row[WARNINGS] |= _MANY_VALUES
                if key == NAME_B:
                    black_values = k
                else:
                    white_values = k
            if (key == NAME_B and black >= 0) or (key == NAME_W and white >= 0):
                row[WARNINGS] |= _TWO_MOVES
            elif key == NAME_B:
                black = read_move(data, i, end, row)
            else:
                white = read_move(data, i, end, row)
        elif key in (NAME_AB, NAME_AW, NAME_AE):
            kind = 0 if key == NAME_AB else (1 if key == NAME_AW else 2)
            read_stones(data, i, end, stop, kind, ply, row, out)
            has_setup = True
            if not in_root:
                row[WARNINGS] |= _SETUP_AFTER_ROOT
        elif not in_root and is_info(key):
            row[WARNINGS] |= _INFO_AFTER_ROOT
            if key == NAME_HA and row[HANDICAP] == NO_HANDICAP and row[WARNINGS] & _HANDICAP_TEXT == 0:
                read_handicap(data, i, end, row)
    if has_setup and (black_values >= 0 or white_values >= 0):
        for kind in range(2):
            k = black_values if kind == 0 else white_values
            if k >= 0:
                i, end = start + out.properties[k, VALUE], start + out.properties[k, VALUE_END]
                read_stones(data, i, end, stop, kind, ply, row, out)
        black, white = -1 if black_values >= 0 else black, -1 if white_values >= 0 else white
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
    else:
        for k in range(first, last):
            out.properties[k, NODE] = -state[NODES]
    if in_root:
        row[ROOT_SETUP] = state[SETUP] - row[SETUP_END]
        state[IN_ROOT] = 0


@inline_kernel
def is_full(row: npt.NDArray[np.int64], out: NodesOut) -> Any:
    return out.state[PROPERTIES] - row[PROPERTY_END] >= MAX_PROPERTIES


@inline_kernel
def plain_moves(
    data: Bytes, i: Int, stop: Int, row: npt.NDArray[np.int64], moves: npt.NDArray[np.uint16], m: Int
) -> tuple[Int, Int]:
    """Read consecutive nodes of the form ;B[xy] or ;W[xy] with a point of the board, which make up most of a record.

    Returns:
        (position of the next other node, index in `moves` after the moves).
    """
    last = row[MOVE_END] + MAX_MOVES
    width, height = row[WIDTH], row[HEIGHT]
    while i + 6 < stop and m < last:
        colour = data[i + 1]
        if data[i] != SEMICOLON or data[i + 2] != LEFT or data[i + 5] != RIGHT:
            break
        if colour != LETTER_B and colour != LETTER_W:
            break
        x, y = coordinate(data[i + 3]), coordinate(data[i + 4])
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
    return i, m


DONE, FULL = 0, 1

GAMES_ALWAYS, BYTES_PER_GAME = 16, 32
"""A member of more games than its bytes / 32 + 16 is not read further, as `(;)` would be a row for every 3 bytes."""

_TRUNCATED = int(ParseWarning.TRUNCATED)
_JUNK_BEFORE = int(ParseWarning.JUNK_BEFORE)
_VARIATIONS = int(ParseWarning.VARIATIONS)
_LATER_GAME = int(ParseWarning.LATER_GAME)
_OPENING_MISSING = int(ParseWarning.OPENING_MISSING)

_KEPT, _NO_RECORD, _TOO_LARGE = int(DropReason.KEPT), int(DropReason.NO_RECORD), int(DropReason.TOO_LARGE)


@inline_kernel
def is_root(data: Bytes, i: Int, stop: Int, needs_semicolon: bool) -> Any:
    """Return whether ;GM[ or ;FF[ is at `i`: a certain root, even if a parenthesis is missing.

    Args:
        data: [N] uint8.
        needs_semicolon: Whether GM[ and FF[ alone are none.
    """
    if i < stop and data[i] == SEMICOLON:
        i = skip_space(data, i + 1, stop)
    elif needs_semicolon:
        return False
    if i + 2 >= stop or data[i + 2] != LEFT:
        return False
    key = byte(data, i) * 256 + byte(data, i + 1)
    return key in (NAME_GM, NAME_FF)


@inline_kernel
def end_of_name(data: Bytes, i: Int, stop: Int) -> Int:
    while i < stop and (is_letter(data[i]) or is_digit(data[i])):
        i += 1
    return i


@inline_kernel
def next_node(data: Bytes, i: Int, stop: Int, charset: Int, depth: Int) -> tuple[Int, bool, Int, Int]:
    """Find the next node of the main line from the end of a node, or from the ; of the next one.

    As in SGFC, the ; may be missing after a (, variations without nodes are ignored, and text after those is skipped.

    Args:
        data: [N] uint8.
        depth: Number of open parentheses.

    Returns:
        (position of the ; or, without one, of the first name; whether it is a node and not the end of the main line;
        number of open parentheses there; `ParseWarning`).
    """
    opened, warnings = 0, 0  # parentheses opened since the node
    while i < stop:
        c = data[i]
        if c == SEMICOLON:
            return i, True, depth, warnings
        if c == OPEN:
            if is_root(data, skip_space(data, i + 1, stop), stop, False):
                break
            opened += 1
            depth += 1
        elif c == CLOSE:
            if opened == 0:
                break
            opened -= 1
            depth -= 1
            warnings |= _EMPTY_VARIATION
        elif is_letter(c):
            end = end_of_name(data, i, stop)
            after = skip_space(data, end, stop)
            if opened > 0 and after < stop and data[after] == LEFT:
                return i, True, depth, warnings | _SEMICOLON_MISSING
            warnings |= _TEXT_SKIPPED
            i = end - 1
        elif c > SPACE:
            warnings |= _TEXT_SKIPPED
            if c == LEFT:
                i = min(end_of_value(data, i + 1, stop, charset), stop - 1)
        i += 1
    return i, False, depth, warnings


@inline_kernel
def main_line(
    data: Bytes, i: Int, stop: Int, charset: Int, row: npt.NDArray[np.int64], out: NodesOut
) -> tuple[Int, Int]:
    """Read the main line from its ( or ;: (its end, number of parentheses open there).

    The properties of a dropped game are listed, too.
    """
    depth, found = 1, True
    while found and not is_full(row, out):
        i, found, depth, warnings = next_node(data, i, stop, charset, depth)
        row[WARNINGS] |= warnings
        if found:
            if data[i] == SEMICOLON:
                i, out.state[MOVES] = plain_moves(data, i, stop, row, out.moves, out.state[MOVES])
            if data[i] == SEMICOLON or is_letter(data[i]):
                first = out.state[PROPERTIES]
                i = list_node(data, i + 1 if data[i] == SEMICOLON else i, stop, row, out)
                if row[DROP] == _KEPT:
                    read_node(data, stop, first, row, out)
    if is_full(row, out):
        row[DROP] = _TOO_LARGE if row[DROP] == _KEPT else row[DROP]
    return i, depth


@inline_kernel
def skip_tree(data: Bytes, i: Int, stop: Int, charset: Int, depth: Int, row: npt.NDArray[np.int64]) -> Int:
    """Skip everything up to the ) that closes the game, and note variations and text outside of them."""
    is_closed = False  # a ) was the last token
    while i < stop:
        c = data[i]
        if c == OPEN:
            if is_root(data, skip_space(data, i + 1, stop), stop, False):
                break
            row[WARNINGS] |= _VARIATIONS
            depth += 1
            is_closed = False
        elif c == CLOSE:
            depth -= 1
            if depth == 0:
                return i + 1
            is_closed = True
        elif c > SPACE:
            if is_closed:
                row[WARNINGS] |= _TEXT_SKIPPED
            if c == LEFT:
                i = min(end_of_value(data, i + 1, stop, charset), stop - 1)
            elif not (is_letter(c) or is_digit(c) or c == SEMICOLON):
                row[WARNINGS] |= _TEXT_SKIPPED
        i += 1
    row[WARNINGS] |= _TRUNCATED
    return i


@inline_kernel
def lacks_semicolon(data: Bytes, i: Int, stop: Int) -> bool:
    """Return whether a root without its ; begins at `i`, after a (.

    As in SGFC, at least two [ follow up to the next parenthesis, and as many ] or one less. Besides, a name must begin
    it, as these also stand in prose.
    """
    end = i
    capitals = 0
    while end < stop and is_letter(data[end]):
        if data[end] <= 90:
            capitals += 1
        end += 1
    after = end if capitals < end - i else skip_space(data, end, stop)
    if capitals not in (1, 2) or after >= stop or data[after] != LEFT:
        return False
    opened = closed = 0
    while after < stop and data[after] != OPEN and data[after] != CLOSE:
        if data[after] == LEFT:
            opened += 1
        elif data[after] == RIGHT:
            closed += 1
        after += 1
    return opened >= 2 and 0 <= opened - closed <= 1


@inline_kernel
def find_game(data: Bytes, i: Int, stop: Int) -> tuple[Int, Int, bool]:
    """Find the next game.

    Returns:
        (its start, where its root's properties begin, whether anything but white space lies before it). The start is a
        ( followed by a ; or by the first name, or the ; itself if it is a certain root; `stop` if there is no game.
    """
    junk = False
    while i < stop:
        c = data[i]
        i += 1
        if c == OPEN:
            after = skip_space(data, i, stop)
            if after < stop and data[after] == SEMICOLON and data[i] != 0:  # otherwise it is UTF-16
                return i - 1, after + 1, junk
            if lacks_semicolon(data, after, stop):
                return i - 1, after, junk
            i = after
        elif c == SEMICOLON and is_root(data, i - 1, stop, True):
            return i - 1, i, junk
        if c > SPACE:
            junk = True
    return stop, stop, junk


# How far the bytes of a text leave open where its values end.
_UNKNOWN_DOUBT, NO_DOUBT, UTF8_ONLY, BY_CA, BY_STRUCTURE = range(5)

READINGS = GB18030 + 1
"""Number of readings of a text, by SINGLE, SHIFT_JIS, BIG5 and GB18030."""

# The progress of a reading by one charset: see `measure`.
_AT, _DEPTH, _END, _VALUES, _JUNK, _LAST, _CHARS, _BAD, PROGRESS = range(9)
_IN_NODE, _AFTER_NAME, _AFTER_VALUE, _IN_JUNK = range(4)

_FIRST_WINDOW = 128

_DECLARATION = 4_096
"""Bytes of a root in which a CA counts that names Shift-JIS, Big5 or GB 18030, so that time is linear in the bytes."""


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


@inline_kernel
def doubt(data: Bytes, start: Int, stop: Int) -> Int:
    """Return how far the bytes of a text leave open where its values end.

    NO_DOUBT: all is ASCII. UTF8_ONLY: UTF-8. BY_CA: a Shift-JIS or Big5 in CA may hide a ]. BY_STRUCTURE: a backslash
    follows a byte beyond ASCII, or so does a ] before junk, so the readings by all charsets have to be compared.
    """
    first = data[start:stop]
    top = np.uint8(0)
    for c in first:  # loops over views are vectorized by the compiler
        top = max(top, c)
    if top < 0x80:
        return NO_DOUBT
    second, third = first[1:], first[2:]
    found = len(second) > 0 and first[len(second) - 1] >= 0x80 and second[len(second) - 1] == ESCAPE
    for i in range(len(third)):
        b, c = second[i], third[i]
        is_junk = (c > SPACE) & (c != SEMICOLON) & (c != OPEN) & (c != CLOSE) & (c != LEFT)
        is_junk &= (c | 0x20 < 97) | (c | 0x20 > 122)
        found |= (first[i] >= 0x80) & ((b == ESCAPE) | ((b == RIGHT) & is_junk))
    if not found:
        return BY_CA
    return UTF8_ONLY if is_utf8(data, start, stop) else BY_STRUCTURE


@inline_kernel
def count_characters(data: Bytes, i: Int, stop: Int, charset: Int, progress: npt.NDArray[np.int64]) -> None:
    """Count the characters beyond ASCII of a value, and those that the charset lacks."""
    while i < stop:
        c = byte(data, i)
        d = byte(data, i + 1) if i + 1 < stop else 0
        i += 1
        if c < 0x80:
            continue
        progress[_CHARS] += 1
        if charset == SHIFT_JIS:
            if 0xA1 <= c <= 0xDF:  # half-width
                continue
            is_good = (c <= 0x9F or 0xE0 <= c <= 0xEF or 0xFA <= c <= 0xFC) and c > 0x80 and 0x40 <= d <= 0xFC
        elif charset == BIG5:
            is_good = 0x87 <= c <= 0xFE and (0x40 <= d <= 0x7E or 0xA1 <= d <= 0xFE)
        else:
            is_good = 0x81 <= c <= 0xFE and (0x30 <= d <= 0x39 or 0x40 <= d <= 0xFE)
        if is_good and d != 0x7F:
            i += 1
        else:
            progress[_BAD] += 1


@inline_kernel
def note_junk(progress: npt.NDArray[np.int64]) -> None:
    """Count a run of junk at its beginning."""
    if progress[_LAST] != _IN_JUNK:
        progress[_JUNK] += 1
    progress[_LAST] = _IN_JUNK


@kernel
def measure(data: Bytes, stop: Int, limit: Int, charset: Int, progress: npt.NDArray[np.int64]) -> None:
    """Read on by one charset up to a position: count values and runs of junk, and note where the first game ends.

    Args:
        data: [N] uint8.
        limit: Position, at most `stop`, where the reading pauses. An incomplete value is read again.
        progress: [9] int64. Position, open parentheses, end of the first game or -1, number of values, of runs of junk,
            the last token, number of characters beyond ASCII, and of those that the charset lacks.
    """
    i = progress[_AT]
    while i < limit:
        c = data[i]
        if c == LEFT:
            end = end_of_value(data, i + 1, limit, charset)
            if end >= limit:
                i = limit if limit == stop else i
                break
            if progress[_LAST] != _AFTER_NAME and progress[_LAST] != _AFTER_VALUE:
                note_junk(progress)
            elif progress[_DEPTH] > 0:
                progress[_VALUES] += 1
                progress[_LAST] = _AFTER_VALUE
                if charset != SINGLE:
                    count_characters(data, i + 1, end, charset, progress)
            i = end
        elif c == OPEN:
            if progress[_DEPTH] > 0 and is_root(data, skip_space(data, i + 1, stop), stop, False):
                if progress[_END] < 0:
                    progress[_END] = i
                progress[_DEPTH] = 0
            progress[_DEPTH] += 1
            progress[_LAST] = _IN_NODE
        elif c in (CLOSE, SEMICOLON):
            if progress[_DEPTH] == 0:
                note_junk(progress)
            else:
                progress[_LAST] = _IN_NODE
                progress[_DEPTH] -= 1 if c == CLOSE else 0
                if progress[_DEPTH] == 0 and progress[_END] < 0:
                    progress[_END] = i + 1
        elif is_letter(c):
            end = end_of_name(data, i, stop)
            after = skip_space(data, end, stop)
            if progress[_DEPTH] > 0 and (after == stop or data[after] == LEFT):
                progress[_LAST] = _AFTER_NAME
            else:
                note_junk(progress)
            i = end - 1
        elif c > SPACE:
            note_junk(progress)
        i += 1
    progress[_AT] = i


@inline_kernel
def declared_charset(data: Bytes, i: Int, stop: Int, charsets: Charsets) -> Int:
    """Return the charset of the root's first CA; NO_CHARSET without one."""
    key = 0
    while key >= 0:
        i, key, start, end, _warnings = next_property(data, i, stop, SINGLE)
        if key == NAME_CA:
            return find_charset(data, start, end, charsets)
    return NO_CHARSET


@inline_kernel
def begin_readings(root: Int, readings: npt.NDArray[np.int64]) -> None:
    readings[:] = 0
    readings[:, _AT], readings[:, _DEPTH], readings[:, _END] = root, 1, -1


@kernel
def compare_readings(
    data: Bytes, root: Int, stop: Int, declared: Int, readings: npt.NDArray[np.int64]
) -> tuple[Int, bool]:
    """Return the charset by which a game keeps most values and has least junk, and whether CA names another one.

    UTF-8 is always read as SINGLE. Another charset than CA names is used only if the values have hardly any character
    that it lacks. The readings are compared up to the first end of the game by any of them, and on to the next (, as a
    value that lacks its ] continues in the next game, and what follows an end within a comment is junk.

    Args:
        data: [N] uint8.
        root: Where the root's properties begin.
        declared: The charset that CA names.
        readings: [READINGS, PROGRESS] int64, scratch space: the progress of each reading, see `measure`.
    """
    begin_readings(root, readings)
    limit, length, end = root, _FIRST_WINDOW, stop
    while limit < stop and end == stop:
        limit = min(root + length, stop)
        length *= 2
        for charset in range(READINGS):
            measure(data, stop, limit, charset, readings[charset])
            if 0 <= readings[charset, _END] < end:
                end = readings[charset, _END]
    while end < stop and data[end] != OPEN:
        end += 1
    level, is_paired = doubt(data, root, end), declared in (SHIFT_JIS, BIG5)
    if level == NO_DOUBT or (level == BY_CA and not is_paired):
        return SINGLE, False
    if is_utf8(data, root, end):
        return SINGLE, is_paired
    begin_readings(root, readings)
    best, most = SINGLE, np.int64(-4) * stop
    for charset in range(READINGS):
        each = readings[charset]
        measure(data, stop, end, charset, each)
        score = 2 * each[_VALUES] - 4 * each[_JUNK] + (1 if each[_END] >= 0 else 0)
        fits = each[_BAD] * (4 if charset == declared else 20) <= each[_CHARS]
        if fits and (score > most or (score == most and charset == declared)):
            best, most = charset, score
    return best, best != declared and (is_paired or best != SINGLE)


@inline_kernel
def game_charset(
    data: Bytes, root: Int, stop: Int, level: Int, charsets: Charsets, readings: npt.NDArray[np.int64]
) -> tuple[Int, bool]:
    """Return the charset by which the values of a game end, and whether CA should name it but does not.

    Args:
        data: [N] uint8.
        root: Where the root's properties begin.
        level: The `doubt` about a text that includes the game.
        readings: Scratch space of `compare_readings`.
    """
    if level == NO_DOUBT:
        return SINGLE, False
    declared = declared_charset(data, root, min(stop, root + _DECLARATION), charsets)
    if level != BY_STRUCTURE and declared not in (SHIFT_JIS, BIG5):
        return SINGLE, False
    return compare_readings(data, root, stop, declared, readings)


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
        width=rows[:, WIDTH].astype(np.uint8),
        height=rows[:, HEIGHT].astype(np.uint8),
        moves=moves[: move_offset[-1]].copy(),
        move_offset=move_offset,
        setup=setup[: setup_offset[-1]].copy(),
        setup_ply=setup_ply[: setup_offset[-1]].copy(),
        setup_offset=setup_offset,
        root_setup=rows[:, ROOT_SETUP].astype(np.uint16),
        to_play=rows[:, TO_PLAY].astype(np.uint8),
        handicap=rows[:, HANDICAP].astype(np.int16),
        warnings=rows[:, WARNINGS].astype(np.uint32),
        drop=rows[:, DROP].astype(np.uint8),
        member=block.member[member],
        block_index=member.astype(np.int32),
        start=rows[:, START].copy(),
        stop=rows[:, STOP].copy(),
    )


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


@inline_kernel
def new_row(out: NodesOut, drop: Int, at: Int) -> None:
    """Begin the row of a game whose text starts at `at`. Until `end_game`, its ends are its starts."""
    state = out.state
    row = out.rows[state[GAMES]]
    row[:] = 0
    row[HANDICAP] = NO_HANDICAP
    row[DROP] = drop
    row[MEMBER_ROW] = state[MEMBER]
    row[START] = row[STOP] = at
    row[MOVE_END], row[SETUP_END], row[PROPERTY_END] = state[MOVES], state[SETUP], state[PROPERTIES]
    row[ROOT_END], row[CHARSET] = state[PROPERTIES], SINGLE
    if state[IN_MEMBER] > 0:
        row[WARNINGS] = _LATER_GAME
    state[GAMES] += 1
    state[IN_MEMBER] += 1


@inline_kernel
def begin_game(data: Bytes, start: Int, stop: Int, drop: Int, out: NodesOut) -> Int:
    """Begin the row of the member's next game and return where its root's properties begin.

    Without another game, finish the member and return -1.
    """
    state = out.state
    length = max(state[MEMBER_BYTES], stop - start)
    if state[IN_MEMBER] == 0:
        state[POSITION] = start
        state[MEMBER_BUDGET] = 4 * MAX_SETUP + length
    if state[IN_MEMBER] == 0 or state[DOUBT] == _UNKNOWN_DOUBT:
        state[DOUBT] = doubt(data, start, stop)
    at = root = stop
    junk = False
    if drop == _KEPT:
        at, root, junk = find_game(data, state[POSITION], stop)
    if at < stop and state[IN_MEMBER] < GAMES_ALWAYS + length // BYTES_PER_GAME:
        new_row(out, _KEPT, at)
        row = out.rows[state[GAMES] - 1]
        if junk:
            row[WARNINGS] |= _JUNK_BEFORE
        if data[at] == SEMICOLON:
            row[WARNINGS] |= _OPENING_MISSING
        elif data[root - 1] != SEMICOLON:
            row[WARNINGS] |= _SEMICOLON_MISSING
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
    row[MOVE_END], row[SETUP_END], row[PROPERTY_END] = state[MOVES], state[SETUP], state[PROPERTIES]
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
        k = state[MEMBER]
        at = start[k] if state[IN_MEMBER] == 0 else state[POSITION]
        most = min(MAX_PROPERTIES, (stop[k] - at) // PROPERTY_BYTES)
        if state[GAMES] == len(out.rows) or state[SETUP] + MAX_SETUP > len(out.setup) or state[POSITION] >= state[CUT]:
            return FULL
        if state[PROPERTIES] + most > len(out.properties):
            return FULL
        root = begin_game(data, start[k], stop[k], np.int64(drop[k]), out)
        if root >= 0:
            row = out.rows[state[GAMES] - 1]
            charset, is_other = game_charset(data, root, stop[k], state[DOUBT], charsets, out.readings)
            row[CHARSET] = charset
            if is_other:
                row[WARNINGS] |= _OTHER_CHARSET
            i = list_node(data, root, stop[k], row, out)
            row[ROOT_END] = state[PROPERTIES]
            read_root(data, charsets, row, out)
            if row[DROP] == _KEPT:
                state[IN_ROOT] = 1
                read_node(data, stop[k], row[PROPERTY_END], row, out)
            i, depth = main_line(data, i, stop[k], charset, row, out)
            end_game(skip_tree(data, i, stop[k], charset, depth, row), row, out)
    return DONE
