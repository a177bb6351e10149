"""A look into a container: some of its records, which share of all they are, and how long all of it takes to read.

What is compressed as one stream can only be read from its beginning; there it is what the first bytes hold. Of a .zip
some of all places are read.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from time import perf_counter

import numpy as np

from kifu.errors import SourceError
from kifu.records.containers import blocks, count_blocks, split_lines
from kifu.records.detect import name_says_index
from kifu.records.directory import list_directory, strip_compression
from kifu.records.games import RecordBlock
from kifu.records.places import AnyPath

_BLOCK = 1 << 20
"""Bytes of records in one block of a look, or fewer, where there is less room."""

_RUNS = 8
"""How many places of a .zip are looked at; to come to one, its directory is gone through once more."""

_INFLATED = 3
"""Bytes of records in a byte of a .gz of them, about."""

_MOST_INFLATED = 64
"""Times. What inflates to more than this is no archive of games, but may be made to fill the memory."""

_RECORD = 1024
"""Bytes of a loose record, about."""

_BZIP2_LEAST = 2 << 20
"""Of a .bz2, whose blocks of about 200 kB can be read whole only."""

_MOST_HEAD = 32 << 20
"""Bytes from the beginning of a file that are looked at for a first record, if there is no more room than that."""

_ENDINGS = re.compile(r"(?:\.[A-Za-z0-9]{1,16}){0,2}\Z")
"""All of a name that can say what a file is."""


@dataclass(frozen=True, slots=True)
class RecordsSample:
    """What was looked at. share: of the container's records, above 0 to 1. seconds: what reading all of it takes."""

    blocks: list[RecordBlock]
    share: float
    seconds: float


def estimated_size(path: AnyPath) -> int:
    """The size of a container, in bytes: of a folder's loose records about. Raises SourceError."""
    try:
        return len(list_directory(path).records) * _RECORD if path.is_dir() else path.stat().st_size
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from None


def read_sample(path: AnyPath, room: int) -> RecordsSample:
    """Reads about `room` bytes of a container, or all of a smaller one; more where one record alone is larger.

    Raises SourceError as `kifu.records.containers.blocks` does for what is read.
    """
    began = perf_counter()
    block = min(_BLOCK, room)
    if path.is_dir():
        records = len(list_directory(path).records)
        found = list(_until(blocks(path, block_bytes=block), room))
        share = sum(map(len, found)) / max(records, 1)
        return RecordsSample(found, share, (perf_counter() - began) / share)
    if name_says_index(strip_compression(os.fsencode(path.name))):
        return RecordsSample([], 1.0, 0.0)
    if estimated_size(path) <= room:
        return RecordsSample(list(blocks(path, block_bytes=_BLOCK)), 1.0, perf_counter() - began)
    count, by_place = count_blocks(path, block_bytes=block)
    return _places(path, room, block, count) if by_place else _beginning(path, room)


def _until(drawn: Iterator[RecordBlock], room: int) -> Iterator[RecordBlock]:
    """Blocks, until there is no room left."""
    for block in drawn:
        yield block
        room -= int((block.stop - block.start).sum())
        if room <= 0:
            return


def _places(path: AnyPath, room: int, block: int, count: int) -> RecordsSample:
    """Of a .zip of so many blocks of this size."""
    began = perf_counter()
    wanted = room * _INFLATED // block
    runs, each = (1, count) if wanted >= count else (min(_RUNS, wanted), wanted // min(_RUNS, wanted))
    found = [
        each_block
        for first in np.linspace(0, count - each, runs).astype(int).tolist()
        for each_block in islice(blocks(path, block_bytes=block, first=first), each)
    ]
    seen = len(found) / count if count else 1.0
    seconds = (perf_counter() - began) / seen
    parts, share = _parts(found, room * _INFLATED, block)
    return RecordsSample(parts, share * seen, seconds)


def _parts(found: list[RecordBlock], room: int, block: int) -> tuple[list[RecordBlock], float]:
    """Of blocks that are large, since they hold a file of many lines, some parts; and the share that is left."""
    size = sum(len(whole.data) for whole in found)
    parts = [part for whole in found for part in split_lines(whole, block)]
    if size <= 2 * room or len(parts) == len(found):
        return found, 1.0
    step = -(-size // room)
    chosen = parts[step // 2 :: step]
    held = sum(int((part.stop - part.start).sum()) for part in parts)
    taken = sum(int((part.stop - part.start).sum()) for part in chosen)
    return [_copied(part) for part in chosen], taken / held


def _copied(block: RecordBlock) -> RecordBlock:
    """A block that holds no more than its members."""
    begin, end = int(block.start.min()), int(block.stop.max())
    return replace(block, data=block.data[begin:end].copy(), start=block.start - begin, stop=block.stop - begin)


def _beginning(path: AnyPath, room: int) -> RecordsSample:
    """Of any other file, which is cut off there, or farther on if no record is whole by then."""
    size, head = estimated_size(path), bytearray()
    try:
        with path.open("rb") as file:
            room = max(room, _BZIP2_LEAST) if file.read(3) == b"BZh" else room
            file.seek(0)
            while True:
                while len(head) < room and (piece := file.read(room - len(head))):
                    head += piece
                began = perf_counter()
                found = _blocks_of(head, path.name, len(head) < size)
                share = len(head) / size
                if found or share >= 1:
                    return RecordsSample(found, share, (perf_counter() - began) / share)
                if len(head) >= _MOST_HEAD or len(head) < room:
                    raise SourceError(f"{path}: no game record in its first {len(head):,} bytes to plan by")
                room = min(4 * room, _MOST_HEAD)
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from None


def _blocks_of(head: bytes | bytearray, name: str, cut: bool) -> list[RecordBlock]:
    """What is whole in the first bytes of a file of that name."""
    found: list[RecordBlock] = []
    with tempfile.TemporaryDirectory(prefix="kifu-") as folder:
        copy = Path(folder, "head" + "".join(_ENDINGS.findall(name)))  # a URL's name may hold anything
        copy.write_bytes(head)
        try:
            found.extend(_until(blocks(copy, block_bytes=min(_BLOCK, len(head))), _MOST_INFLATED * len(head)))
        except SourceError:
            if not cut:
                raise
    return found
