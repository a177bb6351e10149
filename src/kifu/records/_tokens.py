"""The words of SGF, compiled: white space, names, values, numbers. `kifu.records._scan` puts them together.

All text stays bytes. A byte up to the space counts as white space. `i` is the position of the next byte to read and
`stop` the end of the text; a function returns the position after what it read, at most `stop`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel
from kifu.records.games import Bytes

Int: TypeAlias = Any
"""An int64 in compiled code; uncompiled, an int or a NumPy scalar."""

# How the bytes of a double-byte charset pair up, as far as it matters: its second bytes may look like \ or ].
NO_CHARSET, SINGLE, SHIFT_JIS, BIG5 = -1, 0, 1, 2

SPACE = 32
OPEN, CLOSE, SEMICOLON, LEFT, RIGHT, ESCAPE, COLON, HYPHEN = (ord(c) for c in "();[]\\:-")
LETTER_B, LETTER_W = ord("B"), ord("W")


def name_key(name: str) -> int:
    """What `read_name` gives for a name of one or two capitals."""
    return int.from_bytes(name.encode(), "big")


NAME_B, NAME_W, NAME_AB, NAME_AW, NAME_AE = map(name_key, ("B", "W", "AB", "AW", "AE"))
NAME_FF, NAME_GM, NAME_SZ, NAME_CA, NAME_HA, NAME_PL = map(name_key, ("FF", "GM", "SZ", "CA", "HA", "PL"))


class Charsets(NamedTuple):
    """The character sets that we know: key [C] int64, rising, see `charset_key`; pairing [C] int64, SINGLE .. BIG5."""

    key: npt.NDArray[np.int64]
    pairing: npt.NDArray[np.int64]


@inline_kernel
def byte(data: Bytes, i: Int) -> Int:
    """The byte at `i` for arithmetic, which would wrap around in uint8."""
    return np.int64(data[i])


@inline_kernel
def skip_space(data: Bytes, i: Int, stop: Int) -> Int:
    while i < stop and data[i] <= SPACE:
        i += 1
    return i


@inline_kernel
def end_of_value(data: Bytes, i: Int, stop: Int, charset: Int) -> Int:
    """From after a [ to its ], or `stop`. A \\ hides the next byte; so does the first byte of a pair."""
    while i < stop:
        c = data[i]
        if c == RIGHT:
            return i
        if c == ESCAPE or (charset > SINGLE and c >= 0x81 and (charset == BIG5 or c < 0xA0 or c >= 0xE0)):
            i += 1
        i += 1
    return stop


@inline_kernel
def is_letter(c: Int) -> Any:
    return 65 <= c <= 90 or 97 <= c <= 122


@inline_kernel
def next_name(data: Bytes, i: Int, stop: Int, charset: Int) -> Int:
    """To the next property name of this node, past values, white space and junk; or to the ; ( ) that ends the node."""
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
    """A property's name -> (position after it, key, whether it has lower-case letters).

    The key packs its capitals, or if there are none its letters as capitals, into an int. It is 0 where they are more
    than two or a digit is among them: no property that the scanner looks for is like that.
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
    """A whole number of at most 4 digits, perhaps with a sign, white space around it -> (is it one, its value)."""
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
    """The letters and digits of a charset's name, blind to case, as a number in base 36; -1 if more than 12."""
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
    """The value of CA -> SINGLE, SHIFT_JIS, BIG5, or NO_CHARSET if we do not know it."""
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
