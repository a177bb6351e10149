"""A compiled scanner of JSON, which finds where values end without making objects of them.

Functions return the position after what they read, or -1 if it is not JSON. Positions are as in
`kifu.records._bytes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel
from kifu.records._bytes import COLON, ESCAPE, HYPHEN, LEFT, RIGHT, SPACE, Int, is_digit, is_text
from kifu.records.games import Bytes

DEEPEST = 512
"""Objects and arrays that may contain each other, fewer than orjson and the standard library accept."""

QUOTE, COMMA, OPEN_BRACE, CLOSE_BRACE = (ord(c) for c in '",{}')
_PLUS, _DOT = ord("+"), ord(".")
_ZERO, _LOWER, _E, _U, _A, _F, _T, _N = 48, 0x20, ord("e"), ord("u"), ord("a"), ord("f"), ord("t"), ord("n")
_ESCAPED = tuple(b'"\\/bfnrt')
TRUE, _FALSE, _NULL = tuple(b"true"), tuple(b"false"), tuple(b"null")

_MAX_MANTISSA = 10**17  # another digit still fits into an int64
_MAX_POWER = 400  # of ten: beyond the range of floating-point numbers

PLAIN = np.ones(256, np.uint8)  # bytes that are neither brackets nor quotes
PLAIN[[LEFT, RIGHT, OPEN_BRACE, CLOSE_BRACE, QUOTE]] = 0


@inline_kernel
def end_of_string(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the position after the quote that ends the string whose text begins at `i`, or `stop`."""
    while i < stop and data[i] != QUOTE:
        i += 2 if data[i] == ESCAPE else 1
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
def read_string(data: Bytes, i: Int, stop: Int) -> Int:
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
        if c == ESCAPE:
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
    i = read_string(data, i, stop)
    if i < 0:
        return -1
    i = skip_json_space(data, i, stop)
    return skip_json_space(data, i + 1, stop) if i < stop and data[i] == COLON else -1


@inline_kernel
def _word(data: Bytes, i: Int, stop: Int) -> Int:
    """Read true, false or null."""
    if i < stop and data[i] == _T:
        return i + len(TRUE) if is_text(data, i, stop, TRUE) else -1
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
            i = read_string(data, i, stop)
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
