"""The tokens of SGF: names, values, properties, points, and where nodes and games begin.

Positions are as in `kifu.records._bytes`. A value ends by a charset of `kifu.records.text`, as the second byte of a
character may be a ].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kifu.kernel import inline_kernel
from kifu.point import SGF_LETTERS
from kifu.records import _bytes as raw
from kifu.records._bytes import Int, byte
from kifu.records.games import Bytes, ParseWarning
from kifu.records.text import SHIFT_JIS, SINGLE


def name_key(name: str) -> int:
    """Return the key of `read_name` for a name of one or two capitals."""
    return int.from_bytes(name.encode(), "big")


NAME_B, NAME_W, NAME_AB, NAME_AW, NAME_AE = map(name_key, ("B", "W", "AB", "AW", "AE"))
NAME_C, NAME_FF, NAME_GM, NAME_SZ, NAME_CA, NAME_HA, NAME_PL = map(name_key, ("C", "FF", "GM", "SZ", "CA", "HA", "PL"))

GAME_INFO = (
    "AN", "BR", "BT", "CP", "DT", "EV", "GC", "GN", "HA", "KM", "ON", "OT", "PB", "PC", "PW", "RE", "RO", "RU", "SO",
    "TM", "US", "WR", "WT",
)  # fmt: skip
"""Properties that FF[4] allows in any node; the first node of the main line with a value counts."""

_FIRST_KEY, _LAST_KEY = name_key("AA"), name_key("ZZ")
_IS_INFO = np.zeros(_LAST_KEY - _FIRST_KEY + 1, np.uint8)
_IS_INFO[[name_key(name) - _FIRST_KEY for name in GAME_INFO]] = 1
_LOWER_CASE = int(ParseWarning.LOWER_CASE_NAME)
_SEMICOLON_MISSING = int(ParseWarning.SEMICOLON_MISSING)
_EMPTY_VARIATION = int(ParseWarning.EMPTY_VARIATION)
_TEXT_SKIPPED = int(ParseWarning.TEXT_SKIPPED)

_COORDINATE = np.full(256, 255, np.uint8)  # by coordinate letter; 255 is off every board
_COORDINATE[np.frombuffer(SGF_LETTERS.encode(), np.uint8)] = np.arange(len(SGF_LETTERS))


@inline_kernel
def end_of_value(data: Bytes, i: Int, stop: Int, charset: Int) -> Int:
    r"""Return the position of the ] of a value, or `stop`. A \ or the first byte of a pair hides the next byte."""
    while i < stop:
        c = data[i]
        if c == raw.RIGHT:
            return i
        if c == raw.ESCAPE or (charset > SINGLE and c >= 0x81 and (charset != SHIFT_JIS or c < 0xA0 or c >= 0xE0)):
            i += 1
        i += 1
    return stop


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
        if raw.is_letter(c) or c in (raw.SEMICOLON, raw.OPEN, raw.CLOSE):
            break
        if c == raw.LEFT:
            i = end_of_value(data, i + 1, stop, charset)
        elif c > raw.SPACE:
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
def coordinate(letter: Int) -> Int:
    return np.int64(_COORDINATE[letter])


@inline_kernel
def next_property(data: Bytes, i: Int, stop: Int, charset: Int) -> tuple[Int, Int, Int, Int, Int]:
    """Read a node's next property that has a value, from after its ; or the first value of the property before.

    A value that the end of the text truncates is no value.

    Returns:
        (position after its first value, key, start and end of this value, `ParseWarning`). Without another property,
        the key is -1 and the position that of the node's end.
    """
    key, start, warnings = -1, -1, 0
    if i + 2 < stop and raw.is_capital(data[i]):  # mostly, one or two capitals and the value follow at once
        if data[i + 1] == raw.LEFT:
            key, start = byte(data, i), i + 2
        elif data[i + 2] == raw.LEFT and raw.is_capital(data[i + 1]):
            key, start = byte(data, i) * 256 + byte(data, i + 1), i + 3
    while start < 0:
        i, junk = next_name(data, i, stop, charset)
        if junk:
            warnings |= _TEXT_SKIPPED
        if i >= stop or not raw.is_letter(data[i]):
            return i, -1, i, i, warnings
        i, key, small = read_name(data, i, stop)
        if small:
            warnings |= _LOWER_CASE
        i = raw.skip_space(data, i, stop)
        if i < stop and data[i] == raw.LEFT:
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
    i = raw.skip_space(data, end + 1, stop)
    if i < stop and data[i] == raw.LEFT:
        return i + 1, end_of_value(data, i + 1, stop, charset)
    return stop, stop


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
        if each <= raw.SPACE or (each == raw.ESCAPE and i < stop and data[i] in (raw.LINE_FEED, raw.CARRIAGE_RETURN)):
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
def read_rectangle(data: Bytes, i: Int, stop: Int, width: Int, height: Int) -> tuple[Int, Int, Int, Int, Int]:
    """Parse a point, or a rectangle as upper left:lower right.

    Returns:
        (status, left, top, right, bottom), borders included. The status is 1 for a rectangle on the board, 0 for an
        empty value, which has no meaning, and -1 for anything else.
    """
    count, a, b, c, d, e = squeeze(data, i, stop)
    if count == 0:
        return 0, 0, 0, 0, 0
    if count == 2 or (count == 5 and c == raw.COLON):
        left, top = coordinate(a), coordinate(b)
        right, bottom = (left, top) if count == 2 else (coordinate(d), coordinate(e))
        if left <= right < width and top <= bottom < height:
            return 1, left, top, right, bottom
    return -1, 0, 0, 0, 0


@inline_kernel
def is_root(data: Bytes, i: Int, stop: Int, needs_semicolon: bool) -> Any:
    """Return whether ;GM[ or ;FF[ is at `i`: a certain root, even if a parenthesis is missing.

    Args:
        data: [N] uint8.
        needs_semicolon: Whether GM[ and FF[ alone are none.
    """
    if i < stop and data[i] == raw.SEMICOLON:
        i = raw.skip_space(data, i + 1, stop)
    elif needs_semicolon:
        return False
    if i + 2 >= stop or data[i + 2] != raw.LEFT:
        return False
    key = byte(data, i) * 256 + byte(data, i + 1)
    return key in (NAME_GM, NAME_FF)


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
        if c == raw.SEMICOLON:
            return i, True, depth, warnings
        if c == raw.OPEN:
            if is_root(data, raw.skip_space(data, i + 1, stop), stop, False):
                break
            opened += 1
            depth += 1
        elif c == raw.CLOSE:
            if opened == 0:
                break
            opened -= 1
            depth -= 1
            warnings |= _EMPTY_VARIATION
        elif raw.is_letter(c):
            end = raw.end_of_name(data, i, stop)
            after = raw.skip_space(data, end, stop)
            if opened > 0 and after < stop and data[after] == raw.LEFT:
                return i, True, depth, warnings | _SEMICOLON_MISSING
            warnings |= _TEXT_SKIPPED
            i = end - 1
        elif c > raw.SPACE:
            warnings |= _TEXT_SKIPPED
            if c == raw.LEFT:
                i = min(end_of_value(data, i + 1, stop, charset), stop - 1)
        i += 1
    return i, False, depth, warnings


@inline_kernel
def lacks_semicolon(data: Bytes, i: Int, stop: Int) -> bool:
    """Return whether a root without its ; begins at `i`, after a (.

    As in SGFC, at least two [ follow up to the next parenthesis, and as many ] or one less. Besides, a name must begin
    it, as these also stand in prose.
    """
    end = i
    capitals = 0
    while end < stop and raw.is_letter(data[end]):
        if data[end] <= 90:
            capitals += 1
        end += 1
    after = end if capitals < end - i else raw.skip_space(data, end, stop)
    if capitals not in (1, 2) or after >= stop or data[after] != raw.LEFT:
        return False
    opened = closed = 0
    while after < stop and data[after] != raw.OPEN and data[after] != raw.CLOSE:
        if data[after] == raw.LEFT:
            opened += 1
        elif data[after] == raw.RIGHT:
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
        if c == raw.OPEN:
            after = raw.skip_space(data, i, stop)
            if after < stop and data[after] == raw.SEMICOLON and data[i] != 0:  # otherwise it is UTF-16
                return i - 1, after + 1, junk
            if lacks_semicolon(data, after, stop):
                return i - 1, after, junk
            i = after
        elif c == raw.SEMICOLON and is_root(data, i - 1, stop, True):
            return i - 1, i, junk
        if c > raw.SPACE:
            junk = True
    return stop, stop, junk
