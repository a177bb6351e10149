"""Split blocks into parts that are parsed at once, so that memory depends neither on their members nor on their games.

The games, their numbers and their rows do not depend on the division.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel, kernel
from kifu.records._tokens import (
    COLON,
    LEFT,
    LINE_FEED,
    OPEN,
    Int,
    count_lines,
    first_game_line,
    last_line_end,
    next_line,
    skip_lines,
)
from kifu.records.detect import LINE_FORMATS, SGF, detect
from kifu.records.games import Bytes, RecordBlock
from kifu.records.sgf import find_pieces

BLOCK_BYTES = 4 << 20

GAMES_AT_ONCE = 16_384
"""Maximum number of games in a part; 4 MiB hold about 2,000 games of KGS, but 131,072 of the shortest ones."""

_RECTANGLES_AT_ONCE = 4_096
"""Maximum number of rectangles such as aa:ss in a part, each of which can be 625 setup stones."""

_G, _M, _F, _LOWER, _A, _Z = ord("G"), ord("M"), ord("F"), 0x20, ord("a"), ord("z")


def split_blocks(blocks: Iterable[RecordBlock], block_bytes: int = BLOCK_BYTES) -> Iterator[RecordBlock]:
    """Yield the same members, with large blocks split, see `split_block`.

    What is left out of a block comes before it, in a block without members.
    """
    for block in blocks:
        if block.left_out:
            yield replace(block.part(0, 0), left_out=block.left_out)
        if len(block):
            yield from split_block(block if not block.left_out else replace(block, left_out=Counter()), block_bytes)


def split_block(block: RecordBlock, block_bytes: int) -> Iterator[RecordBlock]:
    """Yield the same members in parts of at most `block_bytes` and `GAMES_AT_ONCE`. Nothing is copied.

    A member that exceeds these by itself comes in pieces: a file of lines is split between lines, SGF between games. A
    line or game that is larger than `block_bytes` stays whole.
    """
    kinds = detect(block)
    counts = np.zeros((len(block), 3), np.int64)
    _count_candidates(block.data, block.start, block.stop, kinds, counts)
    counts[:, 2] = block.stop - block.start
    limits = np.array([GAMES_AT_ONCE, _RECTANGLES_AT_ONCE, block_bytes])
    # A block is at most `block_bytes` unless a single member is larger.
    if (counts[:, :2].sum(0) <= limits[:2]).all() and (len(block) == 0 or counts[:, 2].max() <= block_bytes):
        yield block
        return
    for first, last in groups(counts, limits):
        part = block.part(first, last)
        if last - first > 1 or (counts[first] <= limits).all():
            yield part
        elif kinds[first] in LINE_FORMATS:
            yield from _split_lines(replace(part, kind=int(kinds[first])), block_bytes)
        elif kinds[first] == SGF and not part.drop[0]:
            yield from find_pieces(replace(part, kind=SGF), block_bytes, GAMES_AT_ONCE)
        else:
            yield part


def groups(counts: npt.NDArray[np.int64], limits: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows whose sums are within the limits, or of one row. counts: [K, C]; limits: [C]."""
    ends = np.concatenate([np.zeros((1, counts.shape[1]), np.int64), np.cumsum(counts, axis=0)])
    first = 0
    while first < len(counts):
        fits = (int(np.searchsorted(ends[:, c], ends[first, c] + limits[c], "right")) - 1 for c in range(len(limits)))
        last = max(first + 1, min(fits))
        yield first, last
        first = last


@inline_kernel
def _is_letter(c: Int) -> Any:
    return (c | _LOWER) >= _A and (c | _LOWER) <= _Z


@kernel
def _count_candidates(
    data: Bytes,
    start: npt.NDArray[np.int64],
    stop: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.uint8],
    counts: npt.NDArray[np.int64],
) -> None:
    """Count what can begin a game in each member, which has at most as many games, and what can be a rectangle.

    Args:
        data: [N] uint8.
        start: [K] int64, start of each member.
        stop: [K] int64, end of each member.
        kinds: [K] uint8, their formats.
        counts: [K, 3] int64, of which the first two columns are filled.
    """
    for k in range(len(start)):
        text = data[start[k] : stop[k]]
        games, rectangles = 1, 0
        if kinds[k] == SGF:
            second, third = text[1:], text[2:]
            for i in range(len(text)):  # these loops over views are vectorized by the compiler
                games += text[i] == OPEN
            for i in range(len(third)):
                root = ((text[i] == _G) & (second[i] == _M)) | ((text[i] == _F) & (second[i] == _F))
                games += root & (third[i] == LEFT)
            for i in range(len(third)):
                rectangles += (second[i] == COLON) & _is_letter(text[i]) & _is_letter(third[i])
        else:
            for i in range(len(text)):
                games += text[i] == LINE_FEED
        counts[k, 0], counts[k, 1] = games, rectangles


def skip_leading_comments(block: RecordBlock) -> RecordBlock:
    """Return a block of one line file without its leading empty lines and comments."""
    start, stop = int(block.start[0]), int(block.stop[0])
    first = first_game_line(block.data, start, stop)
    skipped = count_lines(block.data, start, first)
    return replace(block, start=np.array([first], np.int64), first_line=block.first_line + skipped)


def _split_lines(block: RecordBlock, block_bytes: int) -> Iterator[RecordBlock]:
    """Split a block of one file of lines; a line longer than `block_bytes` stays whole."""
    start, stop, line = int(block.start[0]), int(block.stop[0]), block.first_line
    yielded = False
    while start < stop:
        end = min(start + block_bytes, stop)
        if end < stop:
            end = last_line_end(block.data, start, end)
        if end == start:
            end = next_line(block.data, start, stop)
        end = skip_lines(block.data, start, end, GAMES_AT_ONCE)
        piece = replace(block, start=np.array([start], np.int64), stop=np.array([end], np.int64), first_line=line)
        part = skip_leading_comments(piece)
        if part.start[0] < part.stop[0]:
            yielded = True
            yield part
        line += count_lines(block.data, start, end)
        start = end
    if not yielded:
        yield replace(block, start=block.stop)
