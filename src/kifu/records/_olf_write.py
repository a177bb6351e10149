"""The compiled OLF writer: flat arrays of many games -> their lines. `kifu.records.olf` drives it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel, kernel
from kifu.point import ERASE_BIT, POINT_MASK, WHITE_BIT
from kifu.records._nodes import MAX_MOVES
from kifu.records._olf import (
    HYPHEN,
    LOWER_A,
    NEWLINE,
    PASS_LETTER,
    PLAYED,
    UPPER_A,
    handicap_moves,
    passes_twice,
)
from kifu.records._tokens import SPACE, Int
from kifu.records.games import Bytes

WORD_COLUMNS = PLAYED
"""The fields before the moves, which the writer is given as text."""

_ALL_BUT_WHITE = ERASE_BIT | POINT_MASK

SAYABLE, BAD_SETUP, BAD_MOVES = 0, 3, 4
"""What `measure` finds; the numbers are those of `kifu.records.olf.Unsayable`."""


class OlfSource(NamedTuple):
    """What the writer is given, of G games.

    width .. setup_offset, handicap: as in `kifu.records.games.GameArrays`.  territory, territory_offset: as in `ParsedBlock`.
    text: uint8, text_offset: [D + 1] int64: D texts side by side.  which: [WORD_COLUMNS, G] int64: the text of each
    field before the moves.
    """

    width: npt.NDArray[np.uint8]
    height: npt.NDArray[np.uint8]
    moves: npt.NDArray[np.uint16]
    move_offset: npt.NDArray[np.int64]
    setup: npt.NDArray[np.uint16]
    setup_ply: npt.NDArray[np.uint16]
    setup_offset: npt.NDArray[np.int64]
    handicap: npt.NDArray[np.int16]
    territory: npt.NDArray[np.uint16]
    territory_offset: npt.NDArray[np.int64]
    text: Bytes
    text_offset: npt.NDArray[np.int64]
    which: npt.NDArray[np.int64]


@inline_kernel
def check_setup(source: OlfSource, g: Int, points: Int, seen: npt.NDArray[np.int64]) -> Any:
    """Whether reading finds the game's setup, no more and no less, in the moves that a line would hold."""
    begin, stop = source.move_offset[g], source.move_offset[g + 1]
    first, stones = source.setup_offset[g], source.setup_offset[g + 1] - source.setup_offset[g]
    handicap, stamp = np.int64(source.handicap[g]), g + 1
    if stones == 0:
        return handicap_moves(source.moves, begin, stop, handicap, points, seen, stamp) == 0
    if stones == 1 or stones != handicap:
        return False
    for k in range(first, first + stones):
        stone = np.int64(source.setup[k])
        if stone >= points or source.setup_ply[k] > 0 or seen[stone] == stamp:
            return False
        seen[stone] = stamp
    return passes_twice(source.moves, begin, stop, points) == 0


@inline_kernel
def check_moves(source: OlfSource, g: Int, points: Int) -> Any:
    """Whether all moves are points or passes, the territory is of points, and a line may hold so many moves."""
    begin, stop = source.move_offset[g], source.move_offset[g + 1]
    stones = source.setup_offset[g + 1] - source.setup_offset[g]
    if stop - begin + 2 * stones > MAX_MOVES:
        return False
    for k in range(begin, stop):
        if source.moves[k] & _ALL_BUT_WHITE > points:
            return False
    for k in range(source.territory_offset[g], source.territory_offset[g + 1]):
        if source.territory[k] & _ALL_BUT_WHITE >= points:
            return False
    return True


@kernel
def measure(source: OlfSource, seen: npt.NDArray[np.int64], why: npt.NDArray[np.uint8], size: Any) -> None:
    """The bytes of each game's line into size [G] int64; 0 where why [G] uint8 is, or becomes, other than SAYABLE.

    seen: [POINTS] int64, zeros.
    """
    for g in range(len(why)):
        size[g] = 0
        if why[g] != SAYABLE:
            continue
        points = np.int64(source.width[g]) * np.int64(source.height[g])
        if not check_moves(source, g, points):
            why[g] = BAD_MOVES
        elif not check_setup(source, g, points, seen):
            why[g] = BAD_SETUP
        else:
            stones = source.setup_offset[g + 1] - source.setup_offset[g]
            moves = source.move_offset[g + 1] - source.move_offset[g] + max(2 * stones - 1, 0)
            area = source.territory_offset[g + 1] - source.territory_offset[g]
            length = WORD_COLUMNS + 1 + max(2 * moves, 1) + (1 + 2 * area if area > 0 else 0)
            for column in range(WORD_COLUMNS):
                text = source.which[column, g]
                length += source.text_offset[text + 1] - source.text_offset[text]
            size[g] = length


@inline_kernel
def put_point(line: Bytes, at: Int, entry: Int, width: Int, points: Int) -> Int:
    """Two letters -> the position after them."""
    point = np.int64(entry) & POINT_MASK
    base = LOWER_A if entry & WHITE_BIT else UPPER_A
    x = y = PASS_LETTER
    if point < points:
        y = point // width
        x = point - y * width
    line[at], line[at + 1] = base + x, base + y
    return at + 2


@kernel
def fill(source: OlfSource, offset: npt.NDArray[np.int64], lines: Bytes) -> None:
    """The lines of the games into lines[offset[g]:offset[g + 1]], as `measure` measured them."""
    for g in range(len(offset) - 1):
        at = offset[g]
        if at == offset[g + 1]:
            continue
        width = np.int64(source.width[g])
        points = width * np.int64(source.height[g])
        for column in range(WORD_COLUMNS):
            text = source.which[column, g]
            for k in range(source.text_offset[text], source.text_offset[text + 1]):
                lines[at] = source.text[k]
                at += 1
            lines[at] = SPACE
            at += 1
        begin = at
        for k in range(source.setup_offset[g], source.setup_offset[g + 1]):
            if at > begin:
                at = put_point(lines, at, points | WHITE_BIT, width, points)
            at = put_point(lines, at, source.setup[k], width, points)
        for k in range(source.move_offset[g], source.move_offset[g + 1]):
            at = put_point(lines, at, source.moves[k], width, points)
        if at == begin:
            lines[at] = HYPHEN
            at += 1
        if source.territory_offset[g] < source.territory_offset[g + 1]:
            lines[at] = SPACE
            at += 1
            for k in range(source.territory_offset[g], source.territory_offset[g + 1]):
                at = put_point(lines, at, source.territory[k], width, points)
        lines[at] = NEWLINE
