"""Files of lines as blocks: streams are cut at line ends, and so are large members, that threads may share the work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kifu.errors import DropReason, SourceError
from kifu.records._kinds import (
    LINE_LIMIT,
    OLF,
    TYGEM,
    count_lines,
    first_game_line,
    kinds_in,
    last_line_end,
    next_line,
)
from kifu.records._members import make_block
from kifu.records._streams import Stream
from kifu.records.games import Bytes, RecordBlock


def line_blocks(source: str, name: bytes, kind: int, stream: Stream, data: Bytes, filled: int) -> Iterator[RecordBlock]:
    """A file of lines whose first bytes are data[:filled] and whose rest `stream` gives, as blocks of that length.

    All but the last end with a line. One line over `LINE_LIMIT` is a block of its own, cut there: the reader drops it.
    Raises SourceError at the end if the stream is damaged; the line that it broke off in is lost.
    """
    size, line, given = len(data), 0, False
    while filled:
        ended = filled < len(data)
        stop = last_line_end(data, 0, filled)
        if ended and not stream.damage:
            stop = filled
        elif stop == 0 and not ended and filled <= LINE_LIMIT:
            data, filled = _refilled(stream, data[:filled], min(4 * filled, LINE_LIMIT + 1))
            continue
        elif stop == 0 and not ended:
            stop = LINE_LIMIT + 1
        block = _content(_one(source, name, kind, data, stop, line))
        if len(block.data) and block.start[0] < block.stop[0]:
            given = True
            yield block
        line += count_lines(data, 0, stop)
        if ended:
            break
        tail = data[stop:filled]
        if data[stop - 1] != ord("\n"):
            tail = _after_line(stream, tail)
            line += 1
        data, filled = _refilled(stream, tail, size)
    if not given and not stream.damage:
        yield _one(source, name, kind, np.empty(0, np.uint8), 0, 0)
    if stream.damage:
        raise SourceError(f"{source}: {stream.damage}")


def _one(source: str, name: bytes, kind: int, data: Bytes, stop: int, line: int) -> RecordBlock:
    return replace(make_block(source, data[:stop], [stop], [0], [name], [DropReason.KEPT]), index=line, kind=kind)


def _content(block: RecordBlock) -> RecordBlock:
    """A block of one member of lines, without the empty lines and comments that it begins with."""
    start, stop = int(block.start[0]), int(block.stop[0])
    first = first_game_line(block.data, start, stop)
    passed = count_lines(block.data, start, first)
    return replace(block, start=np.array([first], np.int64), index=block.index + passed)


def _refilled(stream: Stream, tail: Bytes, size: int) -> tuple[Bytes, int]:
    """A new buffer of at least `size` bytes that begins with `tail`, and how many bytes of it are filled."""
    data = np.empty(max(size, len(tail)), np.uint8)
    data[: len(tail)] = tail
    return data, len(tail) + stream.fill(data.data[len(tail) :])


def _after_line(stream: Stream, tail: Bytes) -> Bytes:
    """Reads on to the end of a line -> the bytes after it that were read with it."""
    while True:
        at = np.flatnonzero(tail == ord("\n"))
        if len(at):
            return tail[at[0] + 1 :]
        tail = np.empty(LINE_LIMIT, np.uint8)
        tail = tail[: stream.fill(tail.data)]
        if not len(tail):
            return tail


def split_lines(block: RecordBlock, block_bytes: int) -> Iterator[RecordBlock]:
    """The same members, each file of lines that is larger than `block_bytes` in several blocks: nothing is copied."""
    done = 0
    large = np.flatnonzero(block.stop - block.start > block_bytes).tolist()
    kinds = kinds_in(block) if large else ()
    for k in large:
        if kinds[k] not in (OLF, TYGEM):
            continue
        if done < k:
            yield block.part(done, k)
        yield from _cut(replace(block.part(k, k + 1), kind=int(kinds[k])), block_bytes)
        done = k + 1
    if done < len(block):
        yield block.part(done, len(block))


def _cut(block: RecordBlock, block_bytes: int) -> Iterator[RecordBlock]:
    """A block of one member, in several; a line that is longer than `block_bytes` stays whole."""
    start, stop, line = int(block.start[0]), int(block.stop[0]), block.index
    given = False
    while start < stop:
        end = min(start + block_bytes, stop)
        if end < stop:
            end = last_line_end(block.data, start, end)
        if end == start:
            end = next_line(block.data, start, stop)
        some = replace(block, start=np.array([start], np.int64), stop=np.array([end], np.int64), index=line)
        part = _content(some)
        if part.start[0] < part.stop[0]:
            given = True
            yield part
        line += count_lines(block.data, start, end)
        start = end
    if not given:
        yield replace(block, start=block.stop)
