"""The tokens of SGF: names, values, properties, points, and where nodes and games begin.

Positions are as in `kifu.records._bytes`. A value ends by a charset of `kifu.records.text`, as the second byte of a
character may be a ].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kifu.kernel import inline_kernel, kernel
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
_IS_ROOT = _IS_INFO.copy()
_IS_ROOT[[name_key(name) - _FIRST_KEY for name in ("AP", "CA", "FF", "GM", "ST", "SZ")]] = 1

SMALL_NAMES, OUTERMOST, ROOT = 1, 2, 4
"""Bits of a node's style: the record's first name has small letters; no variation is open; it is the root."""

_LOOK_AHEAD = 4096
"""Bytes after the first ] of a value in which `find_close` looks for the one that ends it, to bound time."""

_ROOT_VALUES = 16
"""Values at the start of a root among which `begins_record` looks for GM and FF."""

_LOWER_CASE = int(ParseWarning.LOWER_CASE_NAME)
_SEMICOLON_MISSING = int(ParseWarning.SEMICOLON_MISSING)
_EMPTY_VARIATION = int(ParseWarning.EMPTY_VARIATION)
_TEXT_SKIPPED = int(ParseWarning.TEXT_SKIPPED)
_CLOSED_EARLY = int(ParseWarning.CLOSED_EARLY)
_UNESCAPED_BRACKET = int(ParseWarning.UNESCAPED_BRACKET)

COMMA = ord(",")

_ESC, _DOLLAR = 0x1B, ord("$")
_IS_SPECIAL = np.zeros(256, np.uint8)  # bytes at which `find_end` stops to look
_IS_SPECIAL[[raw.LEFT, raw.ESCAPE, raw.OPEN, _ESC, *range(0x81, 0x100)]] = 1

_COORDINATE = np.full(256, 255, np.uint8)  # by coordinate letter; 255 is off every board
_COORDINATE[np.frombuffer(SGF_LETTERS.encode(), np.uint8)] = np.arange(len(SGF_LETTERS))


@inline_kernel
def is_pair(c: Int, charset: Int) -> Any:
    r"""Return whether a byte is the first of a character of two, of which the second may be a ] or \."""
    return charset > SINGLE and c >= 0x81 and (charset != SHIFT_JIS or c < 0xA0 or c >= 0xE0)


@inline_kernel
def find_end(data: Bytes, i: Int, stop: Int, charset: Int) -> tuple[Int, Int]:
    r"""Return the position of the first ] of a value that no \ hides, and the number of [ before it that no \] closes.

    A value without one ends at the next record (`begins_record`), or at `stop`. Characters of two bytes between ESC $
    and ESC, as in ISO-2022-JP, are skipped.
    """
    opened = 0
    while i < stop:
        c = data[i]
        if c == raw.RIGHT:
            return i, opened
        if _IS_SPECIAL[c] == 0:
            i += 1
            continue
        if c == raw.LEFT:
            opened += 1
        elif c == raw.ESCAPE:
            i += 1
            if i < stop and data[i] == raw.RIGHT:
                opened = max(opened - 1, 0)
        elif c == raw.OPEN:
            if begins_record(data, i, stop):
                return i, opened
        elif c == _ESC:
            i = end_of_wide(data, i, stop)
        elif is_pair(c, charset):
            i += 1
        i += 1
    return stop, opened


@inline_kernel
def end_of_wide(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the position before the ESC that ends the characters which the ESC and $ at `i` begin; else `i`."""
    end = i + 2
    if end >= stop or data[i + 1] != _DOLLAR:
        return i
    while end < stop and raw.SPACE < data[end] < 0x7F:
        end += 1
    return end - 1 if end < stop and data[end] == _ESC else i


@inline_kernel
def end_of_value(data: Bytes, i: Int, stop: Int, charset: Int) -> Int:
    return find_end(data, i, stop, charset)[0]


@kernel
def begins_record(data: Bytes, i: Int, stop: Int) -> bool:
    r"""Return whether the ( at `i` begins a record: first in its line, and a ; and a root with GM or FF follow.

    Before these, the root may have other values, within their lines and without [ and \.
    """
    before = i
    while before > 0 and data[before - 1] in (raw.SPACE, raw.TAB):
        before -= 1
    if before > 0 and data[before - 1] not in (raw.LINE_FEED, raw.CARRIAGE_RETURN):
        return False
    i = raw.skip_space(data, i + 1, stop)
    if i >= stop or data[i] != raw.SEMICOLON:
        return False
    key, i = -1, raw.skip_space(data, i + 1, stop)
    for _value in range(_ROOT_VALUES):
        if i < stop and raw.is_letter(data[i]):
            i, key, _small = read_name(data, i, stop)
            i = raw.skip_space(data, i, stop)
        if i >= stop or data[i] != raw.LEFT or key < 0:
            return False
        i += 1
        while i < stop and data[i] >= raw.SPACE and not raw.LEFT <= data[i] <= raw.RIGHT:
            i += 1
        if i >= stop or data[i] != raw.RIGHT:
            return False
        if key in (NAME_GM, NAME_FF):
            return True
        i = raw.skip_space(data, i + 1, stop)
    return False


@inline_kernel
def opens_record(data: Bytes, i: Int, stop: Int) -> Any:
    """Return whether the ( at `i`, outside of values, begins another record, although none may have ended."""
    return is_root(data, raw.skip_space(data, i + 1, stop), stop, False) or begins_record(data, i, stop)


@inline_kernel
def skip_separators(data: Bytes, i: Int, stop: Int) -> Int:
    """Skip white space and commas."""
    while i < stop and (data[i] <= raw.SPACE or data[i] == COMMA):
        i += 1
    return i


@inline_kernel
def semicolon(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the number of bytes of the ; at `i`, full-width ones of UTF-8, GB 18030 and EUC-KR included; else 0."""
    if i >= stop or data[i] == raw.SEMICOLON:
        return int(i < stop)
    if data[i] == 0xEF and i + 2 < stop and data[i + 1] == 0xBC and data[i + 2] == 0x9B:
        return 3
    return 2 if data[i] == 0xA3 and i + 1 < stop and data[i + 1] == 0xBB else 0


@inline_kernel
def is_named(data: Bytes, i: Int, stop: Int, style: Int) -> Any:
    """Return whether the letters at `i` are a property's name, and not text that a [ happens to follow.

    Args:
        data: [N] uint8.
        style: Without SMALL_NAMES, a name with small letters must stand between ; ] or ( and [, without white space.
    """
    if i >= stop or not raw.is_letter(data[i]):
        return False
    end, _key, small = read_name(data, i, stop)
    after = raw.skip_space(data, end, stop)
    if after >= stop or data[after] != raw.LEFT:
        return False
    if not small or style & SMALL_NAMES:
        return True
    return end == after and i > 0 and data[i - 1] in (raw.SEMICOLON, raw.RIGHT, raw.OPEN)


@inline_kernel
def opens_variation(data: Bytes, i: Int, stop: Int, style: Int) -> Any:
    """Return whether a node, another ( or a ) follows the ( at `i`."""
    i = raw.skip_space(data, i + 1, stop)
    return (
        i >= stop or data[i] in (raw.OPEN, raw.CLOSE) or semicolon(data, i, stop) > 0 or is_named(data, i, stop, style)
    )


@inline_kernel
def is_followed(data: Bytes, i: Int, stop: Int, style: Int) -> Any:
    """Return whether SGF follows at `i`, after a value, and not text."""
    i = skip_separators(data, i, stop)
    if i >= stop or data[i] == raw.LEFT or semicolon(data, i, stop) > 0:
        return True
    if data[i] == raw.CLOSE:
        i = raw.skip_space(data, i + 1, stop)
        return i >= stop or data[i] != raw.RIGHT
    return opens_variation(data, i, stop, style) if data[i] == raw.OPEN else is_named(data, i, stop, style)


@inline_kernel
def is_usual(data: Bytes, i: Int, stop: Int) -> Any:
    """Return whether a ;, a [, or a name of one or two capitals with its [ is at `i`."""
    if i + 2 >= stop:
        return i >= stop
    if not raw.is_capital(data[i]):
        return data[i] in (raw.SEMICOLON, raw.LEFT)
    return data[i + 1] == raw.LEFT or (raw.is_capital(data[i + 1]) and data[i + 2] == raw.LEFT)


@inline_kernel
def open_parentheses(data: Bytes, i: Int, stop: Int, charset: Int) -> tuple[Int, Int]:
    """Return the numbers of open parentheses in a text, of those before a ; and of others."""
    parentheses, remarks = 0, 0
    while i < stop:
        c = byte(data, i)
        if c == raw.ESCAPE or is_pair(c, charset):
            i += 1
        elif c == raw.OPEN:
            if semicolon(data, raw.skip_space(data, i + 1, stop), stop) > 0:
                parentheses += 1
            else:
                remarks += 1
        elif c == raw.CLOSE and remarks > 0:
            remarks -= 1
        elif c == raw.CLOSE:
            parentheses = max(parentheses - 1, 0)
        i += 1
    return parentheses, remarks


@kernel
def find_close(data: Bytes, i: Int, end: Int, stop: Int, charset: Int, opened: Int, style: Int) -> Int:
    r"""Return the ] behind which a value with unescaped brackets ends, or -1 if its first ] ends it.

    This ] has no [ after the value's first ], or is the partner of the value's own [, and SGF follows it. Before it, no
    node follows a ], but within parentheses, as in a pasted game. There is no node at all if the value has no [ before
    its first ], and not even a ; if SGF follows this. Here ( does not count as SGF, nor does ) if a ( is open in
    the value, nor anything after an open (;.

    Args:
        data: [N] uint8.
        i, end: Start of the value and position of its first ].
        opened: Number of [ in the value before it.
        style: SMALL_NAMES, OUTERMOST, both or 0.
    """
    if opened == 0 and is_followed(data, end + 1, stop, style):
        return -1
    has_bracket = is_owed = opened > 0
    parentheses, remarks = open_parentheses(data, i, end, charset)
    i = skip_separators(data, end + 1, stop)
    is_text = parentheses > 0 or not is_followed(data, i, stop, style)
    if i < stop:
        is_text = is_text or data[i] == raw.OPEN or (remarks > 0 and data[i] == raw.CLOSE)
    i, last, stop_at = end + 1, raw.RIGHT, min(stop, end + _LOOK_AHEAD)
    while i < stop_at:
        c = byte(data, i)
        if c == raw.LEFT:
            opened += 1
        elif c == raw.RIGHT:
            is_close = opened == 0 or (opened == 1 and is_owed)
            is_owed = is_owed and opened != 1
            opened = max(opened - 1, 0)
            if is_close and is_followed(data, i + 1, stop, style):
                return i
        elif c == raw.ESCAPE or is_pair(c, charset):
            i += 1
        elif c == raw.OPEN:
            if opens_record(data, i, stop):
                return -1
            if semicolon(data, raw.skip_space(data, i + 1, stop), stop) > 0:
                if not is_text:
                    return -1
                parentheses += 1
        elif c == raw.CLOSE:
            parentheses = max(parentheses - 1, 0)
        elif c == raw.SEMICOLON and parentheses == 0:
            if last == raw.RIGHT or not is_text:
                return -1
            if not has_bracket and is_named(data, raw.skip_space(data, i + 1, stop), stop, style):
                return -1
        if c > raw.SPACE:
            last = c
        i += 1
    return -1


@inline_kernel
def is_info(key: Int) -> Any:
    """Return whether a name's key is that of one of `GAME_INFO`."""
    return _FIRST_KEY <= key <= _LAST_KEY and _IS_INFO[key - _FIRST_KEY] == 1


@inline_kernel
def is_direct(data: Bytes, value: Int) -> Any:
    """Return whether the name of the property whose value begins at `value` follows a ; ] or ( or begins a line."""
    i = value - 2
    while i > 0 and data[i] <= raw.SPACE:
        i -= 1
    while i > 0 and (raw.is_letter(data[i]) or raw.is_digit(data[i])):
        i -= 1
    return data[i] in (raw.SEMICOLON, raw.RIGHT, raw.OPEN, raw.LINE_FEED, raw.CARRIAGE_RETURN)


@inline_kernel
def is_root_name(data: Bytes, i: Int, stop: Int) -> Any:
    """Return whether a property of the root or of `GAME_INFO` is at `i`."""
    if not is_named(data, i, stop, 0):
        return False
    _end, key, _small = read_name(data, i, stop)
    return _FIRST_KEY <= key <= _LAST_KEY and _IS_ROOT[key - _FIRST_KEY] == 1


@kernel
def next_name(data: Bytes, i: Int, stop: Int, charset: Int, style: Int, junk: bool) -> tuple[Int, bool]:
    """Skip values, white space and text up to the next letters of the node, or to the ; ( ) that ends it.

    Args:
        data: [N] uint8.
        style: SMALL_NAMES, OUTERMOST, ROOT, several of them or 0.
        junk: Whether there is text before.

    Returns:
        (position, whether there was text, also before).
    """
    while i < stop:
        c = data[i]
        if raw.is_letter(c) or semicolon(data, i, stop) > 0:
            break
        if c == raw.CLOSE:
            after = raw.skip_space(data, i + 1, stop)
            is_text = junk or (style & OUTERMOST and (style & ROOT or not is_root_name(data, after, stop)))
            is_text = is_text and is_named(data, after, stop, style)
            if not is_text and (after >= stop or data[after] != raw.RIGHT):
                break
            junk = True  # a property or ] follows, as no ) of a game
        if c == raw.OPEN:
            if opens_variation(data, i, stop, style):
                break
            junk, i = True, skip_remark(data, i, stop)
        elif c == raw.LEFT:
            end = end_of_value(data, i + 1, stop, charset)
            after = raw.skip_space(data, end + 1, stop)
            is_longer = False
            if end < stop and data[end] == raw.RIGHT and after < stop and data[after] == raw.LEFT:
                i = after
            else:
                end, i, _repair, is_longer = read_value(data, i + 1, stop, charset, style)
            junk = junk or is_longer
            if i == end:
                break
            continue
        elif c > raw.SPACE and c != COMMA and c != raw.CLOSE:
            junk = True
        i += 1
    return min(i, stop), junk


@kernel
def skip_remark(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the position of the ) of a remark, such as (game 1), whose ( is at `i`; `i` if its text is not plain."""
    end = i + 1
    while end < stop and data[end] not in (raw.OPEN, raw.LEFT, raw.SEMICOLON):
        if data[end] == raw.CLOSE:
            return end
        end += 1
    return i


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
def style_of(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the style of a root whose first name is at `i`, after white space."""
    _end, _key, small = read_name(data, raw.skip_space(data, i, stop), stop)
    return OUTERMOST | ROOT | (SMALL_NAMES if small else 0)


@inline_kernel
def node_style(style: Int, depth: Int) -> Int:
    """Return the style of a later node, given one of the same record and the number of open parentheses."""
    return style & SMALL_NAMES | (OUTERMOST if depth == 1 else 0)


@inline_kernel
def coordinate(letter: Int) -> Int:
    return np.int64(_COORDINATE[letter])


@kernel
def has_name(data: Bytes, i: Int, stop: Int) -> bool:
    """Return whether a [ in a value follows a capital, so that a ] before may be lost."""
    for k in range(i + 1, stop):
        if data[k] == raw.LEFT and raw.is_capital(data[k - 1]):
            return True
    return False


@inline_kernel
def read_value(data: Bytes, i: Int, stop: Int, charset: Int, style: Int) -> tuple[Int, Int, Int, bool]:
    """Find the end of a value, whose brackets may lack a backslash.

    Args:
        data: [N] uint8.
        style: As for `is_named`.

    Returns:
        (its end; position after it and the text behind it, which is the end of a truncated value; `ParseWarning`;
        whether it goes beyond its first ], with the text behind it).
    """
    end, opened = find_end(data, i, stop, charset)
    if end == stop or data[end] != raw.RIGHT:
        return end, end, 0, False
    after = raw.skip_space(data, end + 1, stop)
    if opened == 0 and is_usual(data, after, stop):
        return end, after, 0, False
    close = find_close(data, i, end, stop, charset, opened, style)
    if close < 0:
        return end, after, _UNESCAPED_BRACKET if opened > 0 and has_name(data, i, end) else 0, False
    return (close, close + 1, _UNESCAPED_BRACKET, True) if opened > 0 else (end, close + 1, _TEXT_SKIPPED, True)


@inline_kernel
def next_property(data: Bytes, i: Int, stop: Int, charset: Int, style: Int) -> tuple[Int, Int, Int, Int, Int]:
    """Read a node's next property that has a value, from after its ; or the first value of the property before.

    A value that another record or the end of the text truncates is no value.

    Args:
        data: [N] uint8.
        style: SMALL_NAMES, OUTERMOST, both or 0.

    Returns:
        (position after its first value, key, start and end of this value, `ParseWarning`). Without another property,
        the key is -1 and the position that of the node's end.
    """
    warnings = 0
    while True:
        key, start = -1, -1
        if i + 2 < stop and raw.is_capital(data[i]):  # mostly, one or two capitals and the value follow at once
            if data[i + 1] == raw.LEFT:
                key, start = byte(data, i), i + 2
            elif data[i + 2] == raw.LEFT and raw.is_capital(data[i + 1]):
                key, start = byte(data, i) * 256 + byte(data, i + 1), i + 3
        while start < 0:
            if i < stop and data[i] == raw.SEMICOLON:
                return i, -1, i, i, warnings
            i, junk = next_name(data, i, stop, charset, style, warnings & _TEXT_SKIPPED != 0)
            if junk:
                warnings |= _TEXT_SKIPPED
            if i >= stop or not raw.is_letter(data[i]):
                return i, -1, i, i, warnings
            is_name = is_named(data, i, stop, style)
            i, key, small = read_name(data, i, stop)
            if is_name:
                if small:
                    warnings |= _LOWER_CASE
                start = raw.skip_space(data, i, stop) + 1
            elif i < stop:
                warnings |= _TEXT_SKIPPED
        end, i, repair, _is_longer = read_value(data, start, stop, charset, style)
        warnings |= repair
        if i == end:
            return end, -1, end, end, warnings
        if repair != _TEXT_SKIPPED or is_direct(data, start):
            return i, key, start, end, warnings


@inline_kernel
def next_value(data: Bytes, end: Int, stop: Int, charset: Int) -> tuple[Int, Int]:
    """Return start and end of the value of the same property after the one that ends at `end`; `stop` without one."""
    i = skip_separators(data, end + 1, stop)
    if i < stop and data[i] == raw.LEFT:
        end = end_of_value(data, i + 1, stop, charset)
        if end < stop and data[end] == raw.RIGHT:
            return i + 1, end
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


@kernel
def find_nodes(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the ; of a node that follows at `i`, after the ) that should be the game's last, or -1.

    It does not begin like a root, and no ( stands before it; -2 if a [ does.
    """
    is_lost = False
    while i < stop and data[i] != raw.OPEN:
        size = semicolon(data, i, stop)
        if size > 0:
            name = raw.skip_space(data, i + size, stop)
            if is_named(data, name, stop, 0):
                return -1 if is_root_name(data, name, stop) else (-2 if is_lost else i)
        is_lost = is_lost or data[i] == raw.LEFT
        i += max(size, 1)
    return -1


@inline_kernel
def next_node(data: Bytes, i: Int, stop: Int, charset: Int, depth: Int) -> tuple[Int, bool, Int, Int]:
    """Find the next node of the main line from the end of a node, or from the ; of the next one.

    As in SGFC, the ; may be missing after a (, variations without nodes are ignored, and text after those is skipped.
    A ) that should be the game's last, but that nodes follow, is skipped. A property at `i` itself begins a node:
    `kifu.records._sgf.list_node` ended the node before there.

    Args:
        data: [N] uint8.
        depth: Number of open parentheses.

    Returns:
        (position of the ; or, without one, of the first name; whether it is a node and not the end of the main line;
        number of open parentheses there; `ParseWarning`).
    """
    opened, warnings = 0, 0  # parentheses opened since the node
    first = i
    while i < stop:
        c = data[i]
        if semicolon(data, i, stop) > 0:
            return i, True, depth, warnings
        if c == raw.OPEN:
            if opens_record(data, i, stop):
                break
            opened += 1
            depth += 1
        elif c == raw.CLOSE:
            if opened > 0:
                opened -= 1
                depth -= 1
                warnings |= _EMPTY_VARIATION
            else:
                nodes = find_nodes(data, i + 1, stop) if depth == 1 else -1
                if nodes < 0:
                    break  # `skip_tree` notes lost ones
                return nodes, True, depth, warnings | _CLOSED_EARLY
        elif raw.is_letter(c):
            end = raw.end_of_name(data, i, stop)
            after = raw.skip_space(data, end, stop)
            if i == first:
                return i, True, depth, warnings
            if opened > 0 and after < stop and data[after] == raw.LEFT:
                return i, True, depth, warnings | _SEMICOLON_MISSING
            warnings |= _TEXT_SKIPPED
            i = end - 1
        elif c > raw.SPACE:
            warnings |= _TEXT_SKIPPED
            if c == raw.LEFT:
                i = end_of_value(data, i + 1, stop, charset)
                if i < stop and data[i] == raw.OPEN:
                    continue
                i = min(i, stop - 1)
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


@kernel
def is_smiley(data: Bytes, i: Int, stop: Int) -> Any:
    """Return whether the text at `i`, after (;, is prose or the (; of the next record, so that no record begins there.

    A record continues with ; or ), with a ( that opens no root, or with a name and a [ before the next parenthesis.
    """
    i = raw.skip_space(data, i, stop)
    if i < stop and data[i] == raw.OPEN:
        node = raw.skip_space(data, i + 1, stop)
        size = semicolon(data, node, stop)
        return opens_record(data, i, stop) or (
            size > 0 and is_root_name(data, raw.skip_space(data, node + size, stop), stop)
        )
    if i < stop and (data[i] == raw.CLOSE or is_named(data, i, stop, SMALL_NAMES) or semicolon(data, i, stop) > 0):
        return False
    while i < stop and data[i] != raw.OPEN and data[i] != raw.CLOSE:
        if raw.is_capital(data[i]) and i + 1 < stop and data[i + 1] == raw.LEFT:
            return False
        i += 1
    return True


@inline_kernel
def first_node(data: Bytes, i: Int, stop: Int) -> Int:
    """Return where a root's properties begin, after the ; at `i`: after the next ; if this doubles it."""
    root = raw.skip_space(data, i, stop)
    if root < stop and data[root] == raw.SEMICOLON:
        root = raw.skip_space(data, root + 1, stop)
        if is_root_name(data, root, stop):
            return root
    return i


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
            begins = after < stop and data[after] == raw.SEMICOLON and data[i] != 0  # otherwise it is UTF-16
            if begins and not is_smiley(data, after + 1, stop):
                return i - 1, first_node(data, after + 1, stop), junk
            if lacks_semicolon(data, after, stop):
                return i - 1, after, junk
            i = after
        elif c == raw.SEMICOLON and is_root(data, i - 1, stop, True):
            return i - 1, i, junk
        if c > raw.SPACE:
            junk = True
    return stop, stop, junk
