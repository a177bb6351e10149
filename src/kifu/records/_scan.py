"""The compiled SGF scanner: from the bytes of many records to flat arrays of their main lines.

A single pass without recursion or backtracking: time is linear in the bytes, whatever they are. (A root node with
stones or moves is read twice, because SZ may come last in it.) Uses the conventions of `kifu.records._tokens`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel
from kifu.records._nodes import (
    BUDGET,
    CUT,
    DROP,
    GAMES,
    HANDICAP,
    IN_MEMBER,
    IN_ROOT,
    MAX_SETUP,
    MEMBER,
    MEMBER_BUDGET,
    MEMBER_BYTES,
    MEMBER_ROW,
    MOVE_END,
    MOVES,
    POSITION,
    ROOT_SETUP,
    SETUP,
    SETUP_END,
    START,
    STOP,
    WARNINGS,
    NodesOut,
    plain_moves,
    read_node,
    read_root,
)
from kifu.records._tokens import (
    CLOSE,
    LEFT,
    NAME_FF,
    NAME_GM,
    OPEN,
    SEMICOLON,
    SPACE,
    Int,
    byte,
    end_of_value,
    is_letter,
    next_name,
    skip_space,
)
from kifu.records.games import NO_HANDICAP, Bytes, ParseWarning
from kifu.records.text import Charsets

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
