r"""Compiled tokens: white space, names, values and numbers of SGF; lines of OLF and TYGEM.

All text stays bytes. Bytes up to the space count as white space. `i` is the position of the next byte to read and
`stop` the end of the text; functions return the position after what they read, at most `stop`. A line ends after its
"\n", or with the text.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from kifu.kernel import inline_kernel, kernel
from kifu.records.games import Bytes
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
