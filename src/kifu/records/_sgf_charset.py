"""The charset by which the values of a game of SGF end, as far as it matters for that.

`kifu.records.text` chooses the codec by which they are decoded.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel, kernel
from kifu.records import _bytes as raw
from kifu.records._bytes import Int, byte
from kifu.records._sgf_tokens import NAME_CA, SMALL_NAMES, end_of_value, next_property, opens_record
from kifu.records.games import Bytes
from kifu.records.text import BIG5, GB18030, NO_CHARSET, SHIFT_JIS, SINGLE, Charsets

# How far the bytes of a text leave open where its values end.
UNKNOWN_DOUBT, NO_DOUBT, UTF8_ONLY, BY_CA, BY_STRUCTURE = range(5)

READINGS = GB18030 + 1
"""Number of readings of a text, by SINGLE, SHIFT_JIS, BIG5 and GB18030."""

# The progress of a reading by one charset: see `measure`.
_AT, _DEPTH, _END, _VALUES, _JUNK, _LAST, _CHARS, _BAD, PROGRESS = range(9)
_IN_NODE, _AFTER_NAME, _AFTER_VALUE, _IN_JUNK = range(4)

_FIRST_WINDOW = 128

_DECLARATION = 4_096
"""Bytes of a root in which a CA counts that names Shift-JIS, Big5 or GB 18030, so that time is linear in the bytes."""


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
    found = len(second) > 0 and first[len(second) - 1] >= 0x80 and second[len(second) - 1] == raw.ESCAPE
    for i in range(len(third)):
        b, c = second[i], third[i]
        is_junk = (c > raw.SPACE) & (c != raw.SEMICOLON) & (c != raw.OPEN) & (c != raw.CLOSE) & (c != raw.LEFT)
        is_junk &= (c | 0x20 < 97) | (c | 0x20 > 122)
        found |= (first[i] >= 0x80) & ((b == raw.ESCAPE) | ((b == raw.RIGHT) & is_junk))
    if not found:
        return BY_CA
    return UTF8_ONLY if raw.is_utf8(data, start, stop) else BY_STRUCTURE


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
        if c == raw.LEFT:
            end = end_of_value(data, i + 1, limit, charset)
            if end >= limit:
                i = limit if limit == stop else i
                break
            if data[end] == raw.OPEN:  # a record begins there
                i = end
                continue
            if progress[_LAST] != _AFTER_NAME and progress[_LAST] != _AFTER_VALUE:
                note_junk(progress)
            elif progress[_DEPTH] > 0:
                progress[_VALUES] += 1
                progress[_LAST] = _AFTER_VALUE
                if charset != SINGLE:
                    count_characters(data, i + 1, end, charset, progress)
            i = end
        elif c == raw.OPEN:
            if progress[_DEPTH] > 0 and opens_record(data, i, stop):
                if progress[_END] < 0:
                    progress[_END] = i
                progress[_DEPTH] = 0
            progress[_DEPTH] += 1
            progress[_LAST] = _IN_NODE
        elif c in (raw.CLOSE, raw.SEMICOLON):
            if progress[_DEPTH] == 0:
                note_junk(progress)
            else:
                progress[_LAST] = _IN_NODE
                progress[_DEPTH] -= 1 if c == raw.CLOSE else 0
                if progress[_DEPTH] == 0 and progress[_END] < 0:
                    progress[_END] = i + 1
        elif raw.is_letter(c):
            end = raw.end_of_name(data, i, stop)
            after = raw.skip_space(data, end, stop)
            if progress[_DEPTH] > 0 and (after == stop or data[after] == raw.LEFT):
                progress[_LAST] = _AFTER_NAME
            else:
                note_junk(progress)
            i = end - 1
        elif c > raw.SPACE:
            note_junk(progress)
        i += 1
    progress[_AT] = i


@inline_kernel
def declared_charset(data: Bytes, i: Int, stop: Int, charsets: Charsets) -> Int:
    """Return the charset of the root's first CA; NO_CHARSET without one."""
    key = 0
    while key >= 0:
        i, key, start, end, _warnings = next_property(data, i, stop, SINGLE, SMALL_NAMES)
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
    while end < stop and data[end] != raw.OPEN:
        end += 1
    level, is_paired = doubt(data, root, end), declared in (SHIFT_JIS, BIG5)
    if level == NO_DOUBT or (level == BY_CA and not is_paired):
        return SINGLE, False
    if raw.is_utf8(data, root, end):
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
