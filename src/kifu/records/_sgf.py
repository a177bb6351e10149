"""The SGF scanner: from bytes to the moves, the setup and the properties of main lines.

It is a single pass without recursion or backtracking: time is linear in the bytes, whatever they are. It lists the
properties of each node in one table (`Properties`), from which it reads stones and moves; text fields, figures and the
root's properties are read from it later, so that nothing walks the text of a main line again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel
from kifu.point import BLACK, ERASE_BIT, MAX_SIZE, NO_POINT, SGF_LETTERS, WHITE, WHITE_BIT
from kifu.records import _bytes as raw
from kifu.records import _sgf_tokens as tokens
from kifu.records._bytes import Int
from kifu.records._sgf_charset import UNKNOWN_DOUBT, doubt, find_charset, game_charset
from kifu.records.games import MAX_MOVES, NO_HANDICAP, Bytes, ParseWarning, Properties
from kifu.records.text import NO_CHARSET, SINGLE, Charsets

# Further columns of a game of SGF: its charset; ends of its rows of properties, of all and of the root's; the style
# of its names and of the node that is read.
CHARSET, PROPERTY_END, ROOT_END, STYLE, SGF_COLUMNS = range(raw.COLUMNS, raw.COLUMNS + 5)

# Columns of a row of properties: a name's key; the number of the node, negative if it has no move; the number of moves
# before the node; start and end of the first value, from the start of the game's text.
KEY, NODE, PLY, VALUE, VALUE_END, PROPERTY_COLUMNS = range(6)

MAX_PROPERTIES = 1 << 20
"""A game with more on its main line, without those of `plain_moves`, is `DropReason.TOO_LARGE`."""

PROPERTY_BYTES = 3
"""The least bytes of a property."""

_MOST_COMPARED = 256
"""A node with more properties keeps all of them, see `drop_quoted`."""

_MAX_VALUE_END = (1 << 31) - 1

# The scanner's state between calls, and within one.
MEMBER, POSITION, IN_MEMBER, GAMES, MOVES, SETUP, MEMBER_BUDGET = range(7)
BUDGET, NODES, IN_ROOT, MEMBER_BYTES, CUT, DOUBT, PROPERTIES, ONE_MOVE, STATES = range(7, 16)

_SIZE_MISSING = int(ParseWarning.SIZE_MISSING)
_SIZE_PAIR = int(ParseWarning.SIZE_PAIR)
_HANDICAP_TEXT = int(ParseWarning.HANDICAP_TEXT)
_TWO_MOVES = int(ParseWarning.TWO_MOVES_IN_NODE)
_MANY_VALUES = int(ParseWarning.MANY_MOVE_VALUES)
_SETUP_AFTER_ROOT = int(ParseWarning.SETUP_AFTER_ROOT)
_SETUP_TWICE = int(ParseWarning.SETUP_TWICE)
_PASS_AS_TT = int(ParseWarning.PASS_AS_TT)
_BAD_SETUP = int(ParseWarning.BAD_SETUP_POINT)
_HANDICAP_ONE = int(ParseWarning.HANDICAP_ONE)
_BAD_CHARSET = int(ParseWarning.BAD_CHARSET)
_MOVE_IN_ROOT = int(ParseWarning.MOVE_IN_ROOT)
_PASS_AS_WORD = int(ParseWarning.PASS_AS_WORD)
_SEMICOLON_MISSING = int(ParseWarning.SEMICOLON_MISSING)
_TEXT_SKIPPED = int(ParseWarning.TEXT_SKIPPED)
_OTHER_CHARSET = int(ParseWarning.OTHER_CHARSET)
_INFO_AFTER_ROOT = int(ParseWarning.INFO_AFTER_ROOT)
_CLOSED_EARLY, _MOVE_SKIPPED = int(ParseWarning.CLOSED_EARLY), int(ParseWarning.MOVE_SKIPPED)

_KEPT, _NOT_GO, _NO_RECORD = int(DropReason.KEPT), int(DropReason.NOT_GO), int(DropReason.NO_RECORD)
_BAD_SIZE, _TOO_LARGE = int(DropReason.BAD_SIZE), int(DropReason.TOO_LARGE)
_T = SGF_LETTERS.index("t")

_PASS = tuple(b"pass")
_BACK_QUOTE = ord("`")
_BLACK_WORDS, _WHITE_WORDS = tuple(b"Bb1"), tuple(b"Ww2")

DONE, FULL = 0, 1

_TRUNCATED = int(ParseWarning.TRUNCATED)
_JUNK_BEFORE = int(ParseWarning.JUNK_BEFORE)
_VARIATIONS = int(ParseWarning.VARIATIONS)
_LATER_GAME = int(ParseWarning.LATER_GAME)
_OPENING_MISSING = int(ParseWarning.OPENING_MISSING)


class NodesOut(NamedTuple):
    """The scanner's output and state.

    The caller allocates `moves` once for all games, as no move takes less than the 3 bytes of "B[]", and enlarges
    `rows`, `setup` and `properties` whenever `scan_members` returns FULL.

    Attributes:
        rows: [G, SGF_COLUMNS] int64.
        moves: [M] uint16.
        setup, setup_ply: [S] uint16.
        properties: [P, PROPERTY_COLUMNS] int32, a row for each property with a value on the main lines, in order, but
            those that `plain_moves` reads.
        state: [STATES] int64. The caller sets MEMBER_BYTES to the size of a member that is scanned in pieces, else 0;
            CUT to the position behind which `scan_members` stops after a game; ONE_MOVE as in `kifu.records.sgf.scan`.
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
def read_size(data: Bytes, i: Int, stop: Int, row: npt.NDArray[np.int64]) -> None:
    """Parse SZ[19], SZ[19:19] or SZ[13:9] (width, height). An empty value counts as missing."""
    colon = i
    while colon < stop and data[colon] != raw.COLON:
        colon += 1
    if raw.skip_space(data, i, stop) == stop:
        return
    good, width = raw.read_number(data, i, colon)
    height = width
    if colon < stop:
        right, height = raw.read_number(data, colon + 1, stop)
        good = good and right
        if good and width == height:
            row[raw.WARNINGS] |= _SIZE_PAIR
    if good and 1 <= width <= MAX_SIZE and 1 <= height <= MAX_SIZE:
        row[raw.WIDTH], row[raw.HEIGHT] = width, height
    else:
        row[raw.WIDTH] = -1


@inline_kernel
def read_handicap(data: Bytes, i: Int, stop: Int, row: npt.NDArray[np.int64]) -> None:
    good, value = raw.read_number(data, i, stop)
    if good:
        row[raw.HANDICAP] = value
    else:
        row[raw.WARNINGS] |= _HANDICAP_TEXT
    if good and value == 1:
        row[raw.WARNINGS] |= _HANDICAP_ONE


@inline_kernel
def read_player(data: Bytes, i: Int, stop: Int, row: npt.NDArray[np.int64]) -> None:
    """Parse PL by its first letter: B, black, W, white; 1 and 2 in old records."""
    i = raw.skip_space(data, i, stop)
    if i < stop:
        c = data[i]
        if c in _BLACK_WORDS:
            row[raw.TO_PLAY] = BLACK
        elif c in _WHITE_WORDS:
            row[raw.TO_PLAY] = WHITE


@inline_kernel
def is_move(key: Int) -> Any:
    return key in (tokens.NAME_B, tokens.NAME_W)


@kernel
def is_next_move(
    data: Bytes, i: Int, stop: Int, end: Int, before: Int, row: npt.NDArray[np.int64], in_root: bool
) -> Any:
    """Return whether a move begins a node of its own, after one of the other colour in its node.

    It does if both have one value and, in a root, nothing but a move, another node or a parenthesis follows.

    Args:
        data: [N] uint8.
        i: The position after its value, which ends at `end`.
        before: End of the value of the move before.
    """
    _start, more = tokens.next_value(data, end, stop, row[CHARSET])
    _start, more_before = tokens.next_value(data, before, stop, row[CHARSET])
    if more < stop or more_before < stop:
        return False
    i = tokens.skip_separators(data, i, stop)
    if not in_root or i >= stop or data[i] in (raw.OPEN, raw.CLOSE) or tokens.semicolon(data, i, stop) > 0:
        return True
    _end, key, _small = tokens.read_name(data, i, stop)
    return is_move(key)


@inline_kernel
def list_node(data: Bytes, i: Int, stop: Int, row: npt.NDArray[np.int64], out: NodesOut) -> Int:
    """Append a row for each property of the node whose first one begins at `i`, and return the node's end.

    A node ends before a move of the other colour than its own, unless there is text in it.
    """
    state = out.state
    state[NODES] += 1
    node, ply, start, charset = state[NODES], state[MOVES] - row[raw.MOVE_END], row[raw.START], row[CHARSET]
    first = count = state[PROPERTIES]
    most, warnings = row[PROPERTY_END] + MAX_PROPERTIES + 1, 0
    at = tokens.skip_separators(data, i, stop)
    if at < stop and data[at] == raw.LEFT:
        warnings = _TEXT_SKIPPED
    key, colour, colour_end, style = 0, -1, 0, row[STYLE]
    while key >= 0 and count < most:
        at = i
        i, key, value, end, more = tokens.next_property(data, i, stop, charset, style)
        if is_move(key):
            if colour < 0:
                colour, colour_end = key, end
            elif (
                key != colour
                and (warnings | more) & _TEXT_SKIPPED == 0
                and state[ONE_MOVE] == 0
                and is_next_move(data, i, stop, end, colour_end, row, state[IN_ROOT] == 1)
            ):
                row[raw.WARNINGS] |= _TWO_MOVES
                i = tokens.skip_separators(data, at, stop)
                while data[i] == raw.LEFT:  # further values of the property before
                    i = tokens.skip_separators(data, tokens.end_of_value(data, i + 1, stop, charset) + 1, stop)
                break
        warnings |= more
        if end - start > _MAX_VALUE_END:
            row[raw.DROP] = _TOO_LARGE
        elif key >= 0:
            each = out.properties[count]
            each[KEY], each[NODE], each[PLY], each[VALUE], each[VALUE_END] = key, node, ply, value - start, end - start
            count += 1
    row[raw.WARNINGS] |= warnings
    if warnings & _TEXT_SKIPPED and 1 < count - first <= _MOST_COMPARED:
        count = drop_quoted(data, start, first, count, out.properties)
    state[PROPERTIES] = count
    return i


@kernel
def drop_quoted(data: Bytes, start: Int, first: Int, count: Int, properties: npt.NDArray[np.int32]) -> Int:
    """Remove properties of a node with text that probably belong to the text: one of the same name is direct.

    Args:
        data: [N] uint8.
        start: Position of the game.
        first, count: The node's first row, and the end of its rows.

    Returns:
        The new end.
    """
    kept = first
    for k in range(first, count):
        is_quoted = False
        if not tokens.is_direct(data, start + properties[k, VALUE]):
            for other in range(first, count):
                if properties[other, KEY] == properties[k, KEY] and tokens.is_direct(
                    data, start + properties[other, VALUE]
                ):
                    is_quoted = True
        if not is_quoted:
            for column in range(PROPERTY_COLUMNS):
                properties[kept, column] = properties[k, column]
            kept += 1
    return kept


@inline_kernel
def read_root(data: Bytes, charsets: Charsets, row: npt.NDArray[np.int64], out: NodesOut) -> None:
    """Read size, handicap, player, charset and kind of game from the rows of a root. The first SZ, HA or CA is used."""
    has_charset = False
    for k in range(row[PROPERTY_END], out.state[PROPERTIES]):
        key = out.properties[k, KEY]
        i, end = row[raw.START] + out.properties[k, VALUE], row[raw.START] + out.properties[k, VALUE_END]
        if key == tokens.NAME_SZ and row[raw.WIDTH] == 0:
            read_size(data, i, end, row)
        elif key == tokens.NAME_HA and row[raw.HANDICAP] == NO_HANDICAP and row[raw.WARNINGS] & _HANDICAP_TEXT == 0:
            read_handicap(data, i, end, row)
        elif key == tokens.NAME_PL:
            read_player(data, i, end, row)
        elif key == tokens.NAME_CA and not has_charset:
            has_charset = True
            if find_charset(data, i, end, charsets) == NO_CHARSET:
                row[raw.WARNINGS] |= _BAD_CHARSET
        elif key == tokens.NAME_GM and raw.skip_space(data, i, end) < end:
            good, value = raw.read_number(data, i, end)
            if not good or value != 1:
                row[raw.DROP] = _NOT_GO
    check_size(row)


@inline_kernel
def check_size(row: npt.NDArray[np.int64]) -> None:
    """Replace a missing size by 19 x 19, and drop a game of a bad one."""
    if row[raw.WIDTH] == 0:
        row[raw.WIDTH], row[raw.HEIGHT] = 19, 19
        row[raw.WARNINGS] |= _SIZE_MISSING
    elif row[raw.WIDTH] < 0:
        row[raw.WIDTH] = 0
        if row[raw.DROP] == _KEPT:
            row[raw.DROP] = _BAD_SIZE


@inline_kernel
def read_move(data: Bytes, i: Int, stop: Int, row: npt.NDArray[np.int64]) -> Int:
    """Parse the value of B or W as a point, a pass (width * height) or NO_POINT."""
    count, a, b, c, d, _e = tokens.squeeze(data, i, stop)
    width, height = row[raw.WIDTH], row[raw.HEIGHT]
    if count == 0:
        return width * height
    if count == 2:
        x, y = tokens.coordinate(a), tokens.coordinate(b)
        if x < width and y < height:
            return y * width + x
        if x == _T and y == _T and width <= 19 and height <= 19:
            row[raw.WARNINGS] |= _PASS_AS_TT
            return width * height
    if (count == 2 and a == b and a in (raw.HYPHEN, _BACK_QUOTE)) or (
        count == 4 and (a | 0x20, b | 0x20, c | 0x20, d | 0x20) == _PASS
    ):
        row[raw.WARNINGS] |= _PASS_AS_WORD
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
        row[raw.DROP] = _TOO_LARGE
        return
    bits = ERASE_BIT if kind == 2 else kind * WHITE_BIT
    for y in range(top, bottom + 1):
        for x in range(left, right + 1):
            point = y * row[raw.WIDTH] + x
            before = out.seen[point]
            if before // 4 == state[NODES]:
                if before % 4 == kind:
                    continue
                if state[IN_ROOT] == 1:
                    row[raw.WARNINGS] |= _SETUP_TWICE
            out.seen[point] = state[NODES] * 4 + kind
            out.setup[state[SETUP]] = point | bits
            out.setup_ply[state[SETUP]] = ply
            state[SETUP] += 1


@inline_kernel
def read_stones(
    data: Bytes, i: Int, end: Int, stop: Int, kind: Int, ply: Int, row: npt.NDArray[np.int64], out: NodesOut
) -> None:
    """Set up the stones of a property's values, of which data[i:end] is the first."""
    while end < stop and row[raw.DROP] == _KEPT:
        status, left, top, right, bottom = tokens.read_rectangle(data, i, end, row[raw.WIDTH], row[raw.HEIGHT])
        if status > 0:
            put_stones(left, top, right, bottom, kind, ply, row, out)
        elif status < 0:
            row[raw.WARNINGS] |= _BAD_SETUP
        i, end = tokens.next_value(data, end, stop, row[CHARSET])


@kernel
def read_late_size(data: Bytes, first: Int, row: npt.NDArray[np.int64], out: NodesOut) -> None:
    """Read SZ from the rows of a node before any move and stone, if the root lacks it."""
    start = row[raw.START]
    for k in range(first, out.state[PROPERTIES]):
        if out.properties[k, KEY] == tokens.NAME_SZ and row[raw.WARNINGS] & _SIZE_MISSING:
            row[raw.WIDTH] = row[raw.HEIGHT] = 0
            read_size(data, start + out.properties[k, VALUE], start + out.properties[k, VALUE_END], row)
            row[raw.WARNINGS] |= _INFO_AFTER_ROOT
            if row[raw.WIDTH] != 0:
                row[raw.WARNINGS] &= ~_SIZE_MISSING
            check_size(row)


@inline_kernel
def read_node(data: Bytes, stop: Int, first: Int, row: npt.NDArray[np.int64], out: NodesOut) -> None:
    """Read stones and move from the rows of the node listed last. Stones come before the move, whatever their order.

    Several values of B or W beside AB, AW or AE are stones, too, as OGS exports the position of a forked game.

    Args:
        data: [N] uint8.
        first: The node's first row of properties.
    """
    state, start, last = out.state, row[raw.START], out.state[PROPERTIES]
    in_root, ply = state[IN_ROOT] == 1, state[MOVES] - row[raw.MOVE_END]
    move, moves = -1, 0  # the row of the first B or W, and their number
    black_values, white_values, has_setup = -1, -1, False  # rows of B and W with several values
    for k in range(first, last):
        key = out.properties[k, KEY]
        i, end = start + out.properties[k, VALUE], start + out.properties[k, VALUE_END]
        if is_move(key):
            _start, more = tokens.next_value(data, end, stop, row[CHARSET])
            if more < stop:
                row[raw.WARNINGS] |= _MANY_VALUES
                if key == tokens.NAME_B:
                    black_values = k
                else:
                    white_values = k
            if move < 0 or (state[ONE_MOVE] == 1 and key < out.properties[move, KEY]):
                move = k
            moves += 1
        elif key in (tokens.NAME_AB, tokens.NAME_AW, tokens.NAME_AE):
            kind = 0 if key == tokens.NAME_AB else (1 if key == tokens.NAME_AW else 2)
            read_stones(data, i, end, stop, kind, ply, row, out)
            has_setup = True
            if not in_root:
                row[raw.WARNINGS] |= _SETUP_AFTER_ROOT
        elif not in_root and tokens.is_info(key):
            row[raw.WARNINGS] |= _INFO_AFTER_ROOT
            if key == tokens.NAME_HA and row[raw.HANDICAP] == NO_HANDICAP and row[raw.WARNINGS] & _HANDICAP_TEXT == 0:
                read_handicap(data, i, end, row)
    if has_setup and (black_values >= 0 or white_values >= 0):
        for kind in range(2):
            k = black_values if kind == 0 else white_values
            if k >= 0:
                i, end = start + out.properties[k, VALUE], start + out.properties[k, VALUE_END]
                read_stones(data, i, end, stop, kind, ply, row, out)
                moves -= 1
                move = -1 if move == k else move
        for k in range(first, last if move < 0 and moves > 0 else first):
            if is_move(out.properties[k, KEY]) and k != black_values and k != white_values and move < 0:
                move = k
    if moves > 1:
        row[raw.WARNINGS] |= _MOVE_SKIPPED
    if move >= 0:
        if ply == MAX_MOVES:
            row[raw.DROP] = _TOO_LARGE
        else:
            i, end = start + out.properties[move, VALUE], start + out.properties[move, VALUE_END]
            point = read_move(data, i, end, row)
            out.moves[state[MOVES]] = point if out.properties[move, KEY] == tokens.NAME_B else point | WHITE_BIT
            state[MOVES] += 1
            if in_root:
                row[raw.WARNINGS] |= _MOVE_IN_ROOT
    else:
        for k in range(first, last):
            out.properties[k, NODE] = -state[NODES]
    if in_root:
        row[raw.ROOT_SETUP] = state[SETUP] - row[raw.SETUP_END]
        state[IN_ROOT] = 0


@inline_kernel
def is_full(row: npt.NDArray[np.int64], out: NodesOut) -> Any:
    return out.state[PROPERTIES] - row[PROPERTY_END] > MAX_PROPERTIES


@inline_kernel
def plain_moves(
    data: Bytes, i: Int, stop: Int, row: npt.NDArray[np.int64], moves: npt.NDArray[np.uint16], m: Int
) -> tuple[Int, Int]:
    """Read consecutive nodes of the form ;B[xy] or ;W[xy] with a point of the board, which make up most of a record.

    One before a parenthesis that may be text is left to `list_node`.

    Returns:
        (position of the next other node, index in `moves` after the moves).
    """
    first, last = m, row[raw.MOVE_END] + MAX_MOVES
    width, height = row[raw.WIDTH], row[raw.HEIGHT]
    while i + 6 < stop and m < last:
        colour = data[i + 1]
        if data[i] != raw.SEMICOLON or data[i + 2] != raw.LEFT or data[i + 5] != raw.RIGHT:
            break
        if colour != raw.LETTER_B and colour != raw.LETTER_W:
            break
        x, y = tokens.coordinate(data[i + 3]), tokens.coordinate(data[i + 4])
        if x >= width or y >= height:
            break
        after = i + 6
        c = data[after]
        while c <= raw.SPACE and after + 1 < stop:
            after += 1
            c = data[after]
        if c != raw.SEMICOLON and c != raw.CLOSE and c != raw.OPEN:
            break
        moves[m] = y * width + x if colour == raw.LETTER_B else (y * width + x) | WHITE_BIT
        m += 1
        i = after
    if m > first and data[i] != raw.SEMICOLON:
        after = raw.skip_space(data, i + 1, stop)
        if after < stop and data[after] != raw.OPEN and data[after] != raw.CLOSE and data[after] != raw.SEMICOLON:
            while data[i] != raw.SEMICOLON:
                i -= 1
            return i, m - 1
    return i, m


@inline_kernel
def main_line(
    data: Bytes, i: Int, stop: Int, charset: Int, row: npt.NDArray[np.int64], out: NodesOut
) -> tuple[Int, Int]:
    """Read the main line from its ( or ;: (its end, number of parentheses open there).

    The properties of a dropped game are listed, too.
    """
    depth, found = 1, True
    while found and not is_full(row, out):
        i, found, depth, warnings = tokens.next_node(data, i, stop, charset, depth)
        row[raw.WARNINGS] |= warnings
        if found:
            if i + 6 < stop and data[i + 5] == raw.RIGHT and data[i + 6] <= raw.SEMICOLON:
                i, out.state[MOVES] = plain_moves(data, i, stop, row, out.moves, out.state[MOVES])
            size = tokens.semicolon(data, i, stop)
            if size > 0 or raw.is_letter(data[i]):
                first = out.state[PROPERTIES]
                row[STYLE] = tokens.node_style(row[STYLE], depth)
                i = list_node(data, i + size, stop, row, out)
                if out.state[MOVES] == row[raw.MOVE_END] and out.state[SETUP] == row[raw.SETUP_END]:
                    read_late_size(data, first, row, out)
                if row[raw.DROP] == _KEPT:
                    read_node(data, stop, first, row, out)
    if is_full(row, out):
        row[raw.DROP] = _TOO_LARGE if row[raw.DROP] == _KEPT else row[raw.DROP]
    return i, depth


@inline_kernel
def skip_tree(data: Bytes, i: Int, stop: Int, charset: Int, depth: Int, row: npt.NDArray[np.int64]) -> Int:
    """Skip everything up to the ) that closes the game, and note variations and text outside of them."""
    is_closed = False  # a ) was the last token
    while i < stop:
        c = data[i]
        if c == raw.OPEN:
            if tokens.opens_record(data, i, stop):
                break
            row[raw.WARNINGS] |= _VARIATIONS
            depth += 1
            is_closed = False
        elif c == raw.CLOSE:
            depth -= 1
            if depth == 0:
                nodes = tokens.find_nodes(data, i + 1, stop)
                if nodes != -1:
                    row[raw.WARNINGS] |= _CLOSED_EARLY | _TEXT_SKIPPED
                if nodes < 0:
                    return i + 1
                i, depth = nodes, 1
            is_closed = True
        elif c > raw.SPACE:
            if is_closed:
                row[raw.WARNINGS] |= _TEXT_SKIPPED
            if c == raw.LEFT:
                _end, after, repair, _is_longer = tokens.read_value(data, i + 1, stop, charset, row[STYLE])
                row[raw.WARNINGS] |= repair
                i = after
                continue
            size = tokens.semicolon(data, i, stop)
            i += max(size - 1, 0)
            if size == 0 and not (raw.is_letter(c) or raw.is_digit(c) or c == tokens.COMMA):
                row[raw.WARNINGS] |= _TEXT_SKIPPED
        i += 1
    row[raw.WARNINGS] |= _TRUNCATED
    return i


@inline_kernel
def new_row(out: NodesOut, drop: Int, at: Int) -> None:
    """Begin the row of a game whose text starts at `at`. Until `end_game`, its ends are its starts."""
    state = out.state
    row = out.rows[state[GAMES]]
    row[:] = 0
    row[raw.HANDICAP] = NO_HANDICAP
    row[raw.DROP] = drop
    row[raw.MEMBER_ROW] = state[MEMBER]
    row[raw.START] = row[raw.STOP] = at
    row[raw.MOVE_END], row[raw.SETUP_END], row[PROPERTY_END] = state[MOVES], state[SETUP], state[PROPERTIES]
    row[ROOT_END], row[CHARSET] = state[PROPERTIES], SINGLE
    if state[IN_MEMBER] > 0:
        row[raw.WARNINGS] = _LATER_GAME
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
        state[MEMBER_BUDGET] = 4 * raw.MAX_SETUP + length
    if state[IN_MEMBER] == 0 or state[DOUBT] == UNKNOWN_DOUBT:
        state[DOUBT] = doubt(data, start, stop)
    at = root = stop
    junk = False
    if drop == _KEPT:
        at, root, junk = tokens.find_game(data, state[POSITION], stop)
    if at < stop and state[IN_MEMBER] < raw.GAMES_ALWAYS + length // raw.BYTES_PER_GAME:
        new_row(out, _KEPT, at)
        row = out.rows[state[GAMES] - 1]
        if junk:
            row[raw.WARNINGS] |= _JUNK_BEFORE
        if data[at] == raw.SEMICOLON:
            row[raw.WARNINGS] |= _OPENING_MISSING
        elif data[root - 1] != raw.SEMICOLON:
            row[raw.WARNINGS] |= _SEMICOLON_MISSING
        state[BUDGET] = min(raw.MAX_SETUP, state[MEMBER_BUDGET])
        return root
    if at < stop:
        new_row(out, _TOO_LARGE, at)
        out.rows[state[GAMES] - 1][raw.STOP] = stop
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
    state[MEMBER_BUDGET] -= min(raw.MAX_SETUP, state[MEMBER_BUDGET]) - max(state[BUDGET], 0)
    if row[raw.DROP] != _KEPT:
        state[MOVES], state[SETUP] = row[raw.MOVE_END], row[raw.SETUP_END]
        row[raw.ROOT_SETUP] = 0
    row[raw.MOVE_END], row[raw.SETUP_END], row[PROPERTY_END] = state[MOVES], state[SETUP], state[PROPERTIES]
    row[raw.STOP] = i
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
        most = min(MAX_PROPERTIES + 1, (stop[k] - at) // PROPERTY_BYTES)
        if state[GAMES] == len(out.rows) or state[POSITION] >= state[CUT]:
            return FULL
        if state[SETUP] + raw.MAX_SETUP > len(out.setup) or state[PROPERTIES] + most > len(out.properties):
            return FULL
        root = begin_game(data, start[k], stop[k], np.int64(drop[k]), out)
        if root >= 0:
            row = out.rows[state[GAMES] - 1]
            charset, is_other = game_charset(data, root, stop[k], state[DOUBT], charsets, out.readings)
            row[CHARSET] = charset
            if is_other:
                row[raw.WARNINGS] |= _OTHER_CHARSET
            state[IN_ROOT], row[STYLE] = 1, tokens.style_of(data, root, stop[k])
            i = list_node(data, root, stop[k], row, out)
            row[ROOT_END] = state[PROPERTIES]
            read_root(data, charsets, row, out)
            if row[raw.DROP] == _KEPT:
                read_node(data, stop[k], row[PROPERTY_END], row, out)
            i, depth = main_line(data, i, stop[k], charset, row, out)
            end_game(skip_tree(data, i, stop[k], charset, depth, row), row, out)
    return DONE


@inline_kernel
def first_value(properties: Properties, g: Int, k: Int) -> tuple[Int, Int]:
    """Return start and end of the first value in row k, of game g."""
    return properties.start[g] + properties.rows[k, VALUE], properties.start[g] + properties.rows[k, VALUE_END]
