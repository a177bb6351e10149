"""Read a sample of a container: some of its records, their share of all, and the time that reading all of it takes.

Compressed streams can only be read from their beginning, so their sample is what their first bytes hold. A .zip is
sampled at several places.
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
from kifu.records.containers import blocks, count_blocks
from kifu.records.detect import is_index_name
from kifu.records.directory import list_directory, strip_compression
from kifu.records.games import RecordBlock
from kifu.records.paths import AnyPath, open_file
from kifu.records.splitting import split_blocks

_BLOCK_BYTES = 1 << 20
"""Bytes of records in one block of a sample, at most."""

_PLACES = 8
"""Places in a .zip that are sampled; each costs another pass over its directory."""

_INFLATION = 3
"""Typical bytes of records per byte of a .gz."""

_MAX_INFLATION = 64
"""Limit of inflation; anything above is not a games archive but may be a decompression bomb."""

_RECORD_BYTES = 1024
"""Typical bytes of a loose record."""

_MIN_BZIP2_BYTES = 2 << 20
"""Minimum bytes read of a .bz2, whose blocks of about 200 kB can only be read whole."""

_MAX_HEAD = 32 << 20
"""Bytes from the beginning of a file that are searched for a first record, even if that exceeds `max_bytes`."""

_ENDINGS = re.compile(r"(?:\.[A-Za-z0-9]{1,16}){0,2}\Z")
"""The part of a name that can identify the type of a file."""


@dataclass(frozen=True, slots=True)
class RecordsSample:
    """A sample of a container.

    Attributes:
        share: Their share of the container's records, above 0 to 1.
        seconds: Estimated time of reading the whole container.
    """

    blocks: list[RecordBlock]
    share: float
    seconds: float


def estimated_size(path: AnyPath) -> int:
    """Return the size of a container in bytes; for a directory, an estimate of its loose records.

    Raises:
        SourceError: If it cannot be read.
    """
    try:
        return len(list_directory(path).records) * _RECORD_BYTES if path.is_dir() else path.stat().st_size
    except SourceError:
        raise
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from None


def read_sample(path: AnyPath, max_bytes: int) -> RecordsSample:
    """Read about `max_bytes` bytes of a container, or all of a smaller one; more if a single record is larger.

    Raises:
        SourceError: As `kifu.records.containers.blocks` does for what is read.
    """
    began = perf_counter()
    block_bytes = min(_BLOCK_BYTES, max_bytes)
    if path.is_dir():
        records = len(list_directory(path).records)
        sampled = list(_take(blocks(path, block_bytes=block_bytes), max_bytes))
        share = sum(len(block) + block.left_out.total() for block in sampled) / max(records, 1)
        return RecordsSample(sampled, share, (perf_counter() - began) / share)
    if is_index_name(strip_compression(os.fsencode(path.name))):
        return RecordsSample([], 1.0, 0.0)
    if estimated_size(path) <= max_bytes:
        return RecordsSample(list(blocks(path, block_bytes=_BLOCK_BYTES)), 1.0, perf_counter() - began)
    count, random_access = count_blocks(path, block_bytes=block_bytes)
    return _sample_zip(path, max_bytes, block_bytes, count) if random_access else _sample_head(path, max_bytes)


def _take(blocks: Iterator[RecordBlock], max_bytes: int) -> Iterator[RecordBlock]:
    """Yield blocks up to `max_bytes` bytes of records."""
    for block in blocks:
        yield block
        max_bytes -= int((block.stop - block.start).sum())
        if max_bytes <= 0:
            return


def _sample_zip(path: AnyPath, max_bytes: int, block_bytes: int, count: int) -> RecordsSample:
    """Sample a .zip that has `count` blocks of `block_bytes` bytes."""
    began = perf_counter()
    wanted = max_bytes * _INFLATION // block_bytes
    places, blocks_each = (1, count) if wanted >= count else (min(_PLACES, wanted), wanted // min(_PLACES, wanted))
    sampled = [
        piece
        for first in np.linspace(0, count - blocks_each, places).astype(int).tolist()
        for piece in islice(blocks(path, block_bytes=block_bytes, first=first), blocks_each)
    ]
    seen = len(sampled) / count if count else 1.0
    seconds = (perf_counter() - began) / seen
    parts, share = _thin_out(sampled, max_bytes * _INFLATION, block_bytes)
    return RecordsSample(parts, share * seen, seconds)


def _thin_out(sampled: list[RecordBlock], max_bytes: int, block_bytes: int) -> tuple[list[RecordBlock], float]:
    """Reduce large members to evenly spaced parts; return them and the share that is left."""
    size = sum(len(whole.data) for whole in sampled)
    parts = [part for part in split_blocks(sampled, block_bytes) if len(part)]
    if size <= 2 * max_bytes or len(parts) == len(sampled):
        return sampled, 1.0
    step = -(-size // max_bytes)
    chosen = parts[step // 2 :: step]
    total = sum(int((part.stop - part.start).sum()) for part in parts)
    taken = sum(int((part.stop - part.start).sum()) for part in chosen)
    return [_compact(part) for part in chosen], taken / total


def _compact(block: RecordBlock) -> RecordBlock:
    """Return a copy of a block that holds nothing but its members."""
    begin, end = int(block.start.min()), int(block.stop.max())
    return replace(block, data=block.data[begin:end].copy(), start=block.start - begin, stop=block.stop - begin)


def _sample_head(path: AnyPath, max_bytes: int) -> RecordsSample:
    """Sample the beginning of any other file, extended until it contains a complete record."""
    size, head = estimated_size(path), bytearray()
    try:
        with open_file(path) as file:
            max_bytes = max(max_bytes, _MIN_BZIP2_BYTES) if file.read(3) == b"BZh" else max_bytes
            file.seek(0)
            while True:
                while len(head) < max_bytes and (piece := file.read(max_bytes - len(head))):
                    head += piece
                began = perf_counter()
                sampled = _blocks_of(head, path.name, len(head) < size)
                share = len(head) / size
                if any(map(len, sampled)) or share >= 1:
                    return RecordsSample(sampled, share, (perf_counter() - began) / share)
                if len(head) >= _MAX_HEAD or len(head) < max_bytes:
                    raise SourceError(f"{path}: no game record in its first {len(head):,} bytes")
                max_bytes = min(4 * max_bytes, _MAX_HEAD)
    except SourceError:
        raise
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from None


def _blocks_of(head: bytes | bytearray, name: str, cut: bool) -> list[RecordBlock]:
    """Return the complete records in the first bytes of a file of that name."""
    sampled: list[RecordBlock] = []
    with tempfile.TemporaryDirectory(prefix="kifu-") as folder:
        copy = Path(folder, "head" + "".join(_ENDINGS.findall(name)))  # a URL's name may hold anything
        copy.write_bytes(head)
        try:
            sampled.extend(_take(blocks(copy, block_bytes=min(_BLOCK_BYTES, len(head))), _MAX_INFLATION * len(head)))
        except SourceError:
            if not cut:
                raise
    return sampled
