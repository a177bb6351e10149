"""Compiled text fields of SGF records: their positions, the kinds of their bytes, and territory.

Uses the conventions of `kifu.records._tokens`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel, kernel
from kifu.point import WHITE_BIT
from kifu.records._nodes import MAX_POINTS, find_game, is_root, read_rectangle
from kifu.records._tokens import (
    CLOSE,
    ESCAPE,
    LEFT,
    LETTER_B,
    LETTER_W,
    NAME_CA,
    OPEN,
    SEMICOLON,
    SPACE,
    Int,
    byte,
    end_of_value,
    find_charset,
    is_letter,
    name_key,
    next_name,
    read_name,
    skip_space,
)
from kifu.records.games import FIELD_LIMIT, FIELDS, Bytes
from kifu.records.text import SINGLE, Charsets

Spans = npt.NDArray[np.int64]

NAMES = ("PB", "PW", "BR", "WR", "RE", "KM", "DT", "TM", "OT", "RU", "EV", "RO", "PC", "GN", "CA", "TC", "TT")
"""SGF's names of `kifu.records.games.FIELDS`, except game_type, which is a part of C."""

_NO_FIELD = 255
_FIELD = np.full(26 * 256, _NO_FIELD, np.uint8)  # by the key of a name minus that of AA
_FIRST_KEY = name_key("AA")
_FIELD[[name_key(name) - _FIRST_KEY for name in NAMES]] = np.arange(len(NAMES))
_TB, _TW = name_key("TB"), name_key("TW")
_LETTER_T = ord("T")

NAME_C = ord("C")
_COMMA = ord(",")
_GAME_TYPE = FIELDS.index("game_type")
_START, _TYPE = tuple(b"startTurnIdx="), tuple(b"gtype=")

# Flags for the bytes of a value.
BLANK = 1  # empty or white space only
BEYOND_ASCII = 2
NOT_UTF8 = 4
ESCAPED = 8  # contains a backslash


@inline_kernel
def next_value(
    data: Bytes, i: Int, stop: Int, charset: Int, key: Int, name: Int, name_stop: Int
) -> tuple[Int, Int, Int, Int]:
    """Advance from after a node's ; or a value's ] to after the node's next [.

    Args:
        data: [N] uint8, the text.
        key: Key of the current property; negative at first.

    Returns:
        (position, key, start of the name, its end). The key is negative if the node has no more values; the position is
        then the end of the node.
    """
    i = skip_space(data, i, stop)
    while key < 0 or i >= stop or data[i] != LEFT:
        i = next_name(data, i, stop, charset)
        if i >= stop or not is_letter(data[i]):
            return i, -1, i, i
        name = i
        i, key, _small = read_name(data, i, stop)
        name_stop = i
        i = skip_space(data, i, stop)
    return i + 1, key, name, name_stop


@kernel
def root_values(data: Bytes, charsets: Charsets, spans: Spans) -> Int:
    """Locate the root's values in the text of one game. A value truncated at the end of the text is left out.

    Args:
        data: [N] uint8, from the game's ( on.
        spans: [P, 4] int64, filled: start and end of the property's name and of the value between its brackets.

    Returns:
        The number of values; as many as fit are written.
    """
    stop = len(data)
    count = 0
    charset = SINGLE
    has_charset = False
    _at, root, _junk = find_game(data, 0, stop)
    i, key, name, name_stop = next_value(data, root + 1, stop, charset, -1, 0, 0)
    while key >= 0:
        end = end_of_value(data, i, stop, charset)
        if end == stop:
            break
        if count < len(spans):
            spans[count, 0], spans[count, 1] = name, name_stop
            spans[count, 2], spans[count, 3] = i, end
        count += 1
        if key == NAME_CA and not has_charset:
            has_charset = True
            charset = find_charset(data, i, end, charsets)
        i, key, name, name_stop = next_value(data, end + 1, stop, charset, key, name, name_stop)
    return count


@inline_kernel
def find_text(data: Bytes, i: Int, stop: Int, text: tuple[int, ...]) -> Int:
    """Return the position after the first occurrence of a text in data[i:stop], or -1."""
    for k in range(i, stop - len(text) + 1):
        j = 0
        while j < len(text) and data[k + j] == text[j]:
            j += 1
        if j == len(text):
            return k + j
    return -1


@inline_kernel
def find_game_type(data: Bytes, i: Int, stop: Int) -> tuple[Int, Int]:
    """Locate the value of gtype in a root comment of KataGo.

    Returns:
        (start, end), equal without gtype; (0, 0) for a comment that has no startTurnIdx.
    """
    if find_text(data, i, stop, _START) < 0:
        return 0, 0
    at = find_text(data, i, stop, _TYPE)
    if at < 0:
        return i, i
    end = at
    while end < stop and data[end] > SPACE and data[end] != _COMMA:
        end += 1
    return at, end


@kernel
def find_text_fields(
    data: Bytes, start: Spans, stop: Spans, charsets: Charsets, field_start: Spans, field_stop: Spans
) -> None:
    """Locate the first value of each of `NAMES` in the roots of games; one larger than `FIELD_LIMIT` is empty.

    Field game_type is located by `find_game_type`; its start is 0 only for games that are not KataGo's.

    Args:
        data: [N] uint8.
        start: [G] int64, start of each game's text.
        stop: [G] int64, end of each game's text.
        field_start: [F, G] int64, initially zeros, filled.
        field_stop: [F, G] int64, initially zeros, filled.
    """
    for g in range(len(start)):
        charset = SINGLE
        has_charset = False
        _at, root, _junk = find_game(data, start[g], stop[g])
        i, key, name, name_stop = next_value(data, root + 1, stop[g], charset, -1, 0, 0)
        while key >= 0:
            end = end_of_value(data, i, stop[g], charset)
            if end == stop[g]:
                break
            if key >= _FIRST_KEY:
                field = np.int64(_FIELD[key - _FIRST_KEY])
                if field != _NO_FIELD and field_start[field, g] == 0:
                    field_start[field, g], field_stop[field, g] = i, end if end - i <= FIELD_LIMIT else i
            elif key == NAME_C and field_start[_GAME_TYPE, g] == 0:
                field_start[_GAME_TYPE, g], field_stop[_GAME_TYPE, g] = find_game_type(data, i, end)
            if key == NAME_CA and not has_charset:
                has_charset = True
                charset = find_charset(data, i, end, charsets)
            i, key, name, name_stop = next_value(data, end + 1, stop[g], charset, key, name, name_stop)


@inline_kernel
def byte_kind(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the flags of data[i:stop]."""
    top, escaped = np.uint8(0), False
    for c in data[i:stop]:  # a loop over a view is vectorized by the compiler
        top = max(top, c)
        escaped |= c == ESCAPE
    kind = (BLANK if top <= SPACE else 0) | (ESCAPED if escaped else 0)
    if top >= 0x80:
        kind |= BEYOND_ASCII | (0 if is_utf8(data, i, stop) else NOT_UTF8)
    return kind


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


@kernel
def byte_kinds(data: Bytes, start: Spans, stop: Spans, kind: Bytes) -> None:
    """Compute the flags of each piece of the data. start, stop, kind: [K]."""
    for k in range(len(start)):
        kind[k] = byte_kind(data, start[k], stop[k])


@kernel
def gather(data: Bytes, start: Spans, skip: Bytes, offset: npt.NDArray[np.int32], out: Bytes) -> None:
    """Copy data[start[g] :] to out[offset[g] : offset[g + 1]] for all g, except where skip[g] is set."""
    for g in range(len(start)):
        if skip[g] == 0:
            first = start[g]
            for k in range(offset[g + 1] - offset[g]):
                out[offset[g] + k] = data[first + k]


@kernel
def find_territory(data: Bytes, start: Spans, stop: Spans, has_territory: Bytes) -> None:
    """Set has_territory[g] if "TB[" or "TW[" occurs in the text of game g. start, stop, has_territory: [G]."""
    for g in range(len(start)):
        first = data[start[g] : stop[g]]
        second, third = first[1:], first[2:]
        hit = False
        for i in range(len(third)):
            owner = (second[i] == LETTER_B) | (second[i] == LETTER_W)
            hit |= (first[i] == _LETTER_T) & owner & (third[i] == LEFT)
        has_territory[g] = hit


@inline_kernel
def mark_territory(data: Bytes, i: Int, stop: Int, width: Int, height: Int, owner: Int, owners: Bytes) -> Int:
    """Assign the point or rectangle of a value of TB or TW to its owner; return the number of points."""
    status, left, top, right, bottom = read_rectangle(data, i, stop, width, height)
    if status <= 0:
        return 0
    for y in range(top, bottom + 1):
        for x in range(left, right + 1):
            owners[y * width + x] = owner
    return (right - left + 1) * (bottom - top + 1)


@inline_kernel
def last_territory(
    data: Bytes, i: Int, stop: Int, width: Int, height: Int, charsets: Charsets, owners: Bytes, budget: Int
) -> Int:
    """Follow the main line from the root's ; and collect the territory of the last node that has TB or TW.

    Args:
        data: [N] uint8, the text.
        owners: [MAX_POINTS] uint8, filled: 1 for Black's and 2 for White's points.
        budget: The number of points that may be marked.

    Returns:
        The rest of the budget; negative if it is exceeded.
    """
    owners[: width * height] = 0
    charset = SINGLE
    has_charset = False
    node = 0
    while i < stop and data[i] != CLOSE and budget >= 0:
        if data[i] == OPEN:
            if is_root(data, skip_space(data, i + 1, stop), stop):
                break
            i += 1
        elif data[i] != SEMICOLON:  # junk between ( and ;
            i = next_name(data, i + 1 if is_letter(data[i]) else i, stop, charset)
        else:
            node += 1
            is_cleared = False
            i, key, name, name_stop = next_value(data, i + 1, stop, charset, -1, 0, 0)
            while key >= 0 and budget >= 0:
                end = end_of_value(data, i, stop, charset)
                if end == stop:
                    return budget
                if key in (_TB, _TW):
                    if not is_cleared:
                        owners[: width * height] = 0
                    is_cleared = True
                    budget -= mark_territory(data, i, end, width, height, 1 if key == _TB else 2, owners)
                elif key == NAME_CA and node == 1 and not has_charset:
                    has_charset = True
                    charset = find_charset(data, i, end, charsets)
                i, key, name, name_stop = next_value(data, end + 1, stop, charset, key, name, name_stop)
    return budget


class TerritoryInput(NamedTuple):
    """The games whose territory `collect_territory` reads, and its scratch space.

    Attributes:
        start, stop: [G] int64. The games' texts.
        width, height: [G] uint8. A game without a width is skipped.
        owners: [MAX_POINTS] uint8, scratch space.
    """

    start: Spans
    stop: Spans
    width: Bytes
    height: Bytes
    owners: Bytes


@kernel
def collect_territory(
    data: Bytes, games: TerritoryInput, charsets: Charsets, offset: Spans, out: npt.NDArray[np.uint16]
) -> None:
    """Write the territory of each game, ascending by point, and its end to offset[g + 1].

    Args:
        data: [N] uint8.
        offset: [G + 1] int64, filled; the first entry is 0.
        out: [T] uint16, filled.
    """
    owners = games.owners
    count = 0
    for g in range(len(games.start)):
        if games.width[g] > 0:
            _at, root, _junk = find_game(data, games.start[g], games.stop[g])
            width, height = np.int64(games.width[g]), np.int64(games.height[g])
            budget = games.stop[g] - games.start[g] + 2 * MAX_POINTS
            left = last_territory(data, root, games.stop[g], width, height, charsets, owners, budget)
            if left >= 0:
                for point in range(width * height):
                    if owners[point] > 0:
                        out[count] = point if owners[point] == 1 else point | WHITE_BIT
                        count += 1
        offset[g + 1] = count
