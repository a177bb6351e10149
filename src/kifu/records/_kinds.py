"""What the text of a member is, compiled: told by its first bytes, and by its name only where they cannot tell.

Also lines, which OLF and TYGEM are made of: a line ends after its \\n, or with the text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel, kernel
from kifu.records._members import has_extension
from kifu.records._tokens import OPEN, SEMICOLON, SPACE, Int, skip_space
from kifu.records.games import Bytes, RecordBlock

SGF, OLF, TYGEM, TYGEM_INDEX = range(4)

LINE_LIMIT = 1 << 20
"""Bytes. A longer line is no game of any kind; of a file of lines, no more of it than this and one byte is kept."""

MOST_ID_DIGITS = 18  # what an int64 holds

TAB, LINE_FEED, HASH, DASH = 9, 10, ord("#"), ord("-")
_BOM = tuple(b"\xef\xbb\xbf")
_C, _ZERO = ord("C"), 48


@inline_kernel
def is_digit(c: Int) -> Any:
    return _ZERO <= c <= 57


@inline_kernel
def end_of_line(data: Bytes, i: Int, stop: Int) -> Int:
    """From `i` to the \\n that ends its line, or `stop`."""
    while i < stop and data[i] != LINE_FEED:
        i += 1
    return i


@inline_kernel
def read_id(data: Bytes, i: Int, stop: Int) -> tuple[Int, Int]:
    """A game's number and the tab after it -> (position after the tab, the number); -1 for both if it is none."""
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


@inline_kernel
def is_date(data: Bytes, i: Int, stop: Int) -> bool:
    """Whether a line of OLF begins at `i`: dddd-dd-dd and a space."""
    if stop - i < 11 or data[i + 10] != SPACE:
        return False
    for k in range(10):
        if k in (4, 7):
            if data[i + k] != DASH:
                return False
        elif not is_digit(data[i + k]):
            return False
    return True


@inline_kernel
def kind_of(data: Bytes, i: Int, stop: Int, otherwise: Int) -> Int:
    """By the first line that is neither empty nor a comment: SGF, OLF, TYGEM, TYGEM_INDEX, or `otherwise`."""
    i = skip_space(data, skip_bom(data, i, stop), stop)
    while i < stop and data[i] == HASH:
        i = skip_space(data, end_of_line(data, i, stop), stop)
    if i == stop:
        return otherwise
    if data[i] == OPEN or data[i] == SEMICOLON:
        return SGF
    if is_date(data, i, stop):
        return OLF
    after, _ = read_id(data, i, stop)
    if after < 0:
        return otherwise
    if after + 1 < stop and data[after] == _C and is_digit(data[after + 1]):
        return TYGEM_INDEX
    return TYGEM if after == stop or data[after] == SEMICOLON or data[after] == LINE_FEED else otherwise


@kernel
def member_kinds(
    data: Bytes,
    start: npt.NDArray[np.int64],
    stop: npt.NDArray[np.int64],
    names: Bytes,
    name_offset: npt.NDArray[np.int64],
    kind: npt.NDArray[np.uint8],
) -> None:
    """kind: [K] uint8, to be filled. Where the bytes cannot tell, a name that ends in .olf does; else it is SGF."""
    for k in range(len(start)):
        is_olf = has_extension(names, name_offset[k], name_offset[k + 1], b"olf")
        kind[k] = kind_of(data, start[k], stop[k], OLF if is_olf else SGF)


def kinds_in(block: RecordBlock) -> npt.NDArray[np.uint8]:
    """[K] uint8: what each member of a block is."""
    if block.kind is not None:
        return np.full(len(block), block.kind, np.uint8)
    kind = np.empty(len(block), np.uint8)
    member_kinds(block.data, block.start, block.stop, block.names, block.name_offset, kind)
    return kind


@kernel
def count_lines(data: Bytes, start: Int, stop: Int) -> Int:
    r"""How many \n are in data[start:stop]."""
    count = 0
    for i in range(start, stop):
        if data[i] == LINE_FEED:
            count += 1
    return count


@kernel
def last_line_end(data: Bytes, start: Int, stop: Int) -> Int:
    """After the last \\n of data[start:stop]; `start` if there is none."""
    i = stop
    while i > start and data[i - 1] != LINE_FEED:
        i -= 1
    return i


@kernel
def next_line(data: Bytes, i: Int, stop: Int) -> Int:
    r"""After the \n that ends the line at `i`, or `stop`."""
    return min(end_of_line(data, i, stop) + 1, stop)


@kernel
def first_game_line(data: Bytes, start: Int, stop: Int) -> Int:
    """Where the first line begins that is neither empty nor a comment, from the line at `start` on; or `stop`."""
    at = skip_space(data, start, stop)
    while at < stop and data[at] == HASH:
        at = skip_space(data, end_of_line(data, at, stop), stop)
    while start < at < stop and data[at - 1] != LINE_FEED:
        at -= 1
    return at
