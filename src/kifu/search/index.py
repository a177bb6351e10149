"""Index files: the positions, traces and results of the games of one Parquet file.

docs/formats/search-index.md describes the file. Its header and its table of checksums are verified when it is opened,
and each block of 64 KiB whenever it is read. It is read rather than mapped into memory: to truncate a mapped file ends
the process.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from blake3 import blake3
from isal.isal_zlib import crc32
from pydantic import Field, ValidationError

from kifu.arrays import MoveArrays
from kifu.checksums import BLOCK_BYTES, BlockSums
from kifu.config import StrictModel, first_invalid
from kifu.corpus.catalogue import SEARCH_SUFFIX
from kifu.corpus.partitions import Count, Hash
from kifu.errors import FormatError, reading
from kifu.io import bytes_at, open_regular, read_at
from kifu.point import MAX_SIZE, NO_POINT, WHITE
from kifu.search.continuations import GameInfo
from kifu.search.positions import EntryLayout, PositionEntries, entry_bits, entry_layout, unpack_entries
from kifu.search.traces import Traces, bit_set_words

MAX_PLIES = 1000
"""The largest number of indexed positions of each game."""

_MAGIC = b"kifu search index\n"
_VERSION = 3
_HEADER_BYTES = 4096
_DIGEST_BYTES = 32
_JSON_START = len(_MAGIC) + 2 + 2 + _DIGEST_BYTES
_ALIGNMENT = 64

_CHECKSUM = np.dtype("<u4")

_BUCKET_ENTRIES = 64
"""Average number of entries of a bucket, at most."""

_SAMPLES = 64
_SAMPLE_BYTES = 4096
_MAX_FOOTER = 64 << 20


class ParquetIdentity(StrictModel):
    """The Parquet file of an index. blake3: the hash of its footer and of samples, see `identify`."""

    bytes: Count
    blake3: Hash


class IndexHeader(StrictModel):
    """The header of an index file; the sizes of all arrays follow from it."""

    parquet: ParquetIdentity
    plies: Annotated[int, Field(ge=1, le=MAX_PLIES)]
    rows: Annotated[int, Field(ge=0, lt=2**31)]
    entries: Annotated[int, Field(ge=0, lt=2**48)]
    captures: Annotated[int, Field(ge=0, lt=2**48)]
    words: Annotated[int, Field(ge=6, le=10)]

    def bucket_bits(self) -> int:
        """Return the number of high bits of a hash that select a bucket."""
        return max((self.rows * self.plies // _BUCKET_ENTRIES).bit_length(), 1)

    def arrays(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """Return dtype and shape of each array, in the order of the file."""
        shapes: dict[str, tuple[str, tuple[int, ...]]] = {
            "entries": ("<u8", (self.entries,)),
            "buckets": ("<i8", ((1 << self.bucket_bits()) + 1,)),
            "captures": ("<u2", (self.captures,)),
            "capture_offset": ("<i8", (self.rows + 1,)),
            "occupied": ("<u8", (self.rows, 2, self.words)),
            "plies": ("<u2", (self.rows,)),
            "late_stones": ("<u2", (self.rows,)),
            "winner": ("<u1", (self.rows,)),
            "day": ("<i4", (self.rows,)),
            "rating": ("<f4", (self.rows, 2)),
        }
        return {name: (np.dtype(kind), shape) for name, (kind, shape) in shapes.items()}

    def to_bytes(self) -> bytes:
        """Return the first bytes of the file."""
        text = self.model_dump_json().encode()
        assert _JSON_START + len(text) <= _HEADER_BYTES
        checked = _VERSION.to_bytes(2, "little") + len(text).to_bytes(2, "little")
        return (_MAGIC + checked + blake3(checked + text).digest() + text).ljust(_HEADER_BYTES, b"\0")


def with_checksums(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of all arrays, then the table that ends an index file: the CRC-32 of each block and its own."""
    sums = BlockSums()
    for piece in pieces:
        sums.update(piece)
        yield piece
    table = np.array(sums.values, _CHECKSUM).tobytes()
    yield table + crc32(table).to_bytes(4, "little")


def padding(size: int) -> int:
    """Return the number of zero bytes that follow an array of a size in bytes."""
    return -size % _ALIGNMENT


def index_path(parquet: Path) -> Path:
    """Return the path of the index of a Parquet file."""
    return parquet.with_name(parquet.name + SEARCH_SUFFIX)


def entry_shift(header: IndexHeader) -> tuple[int, int]:
    """Return the number of bits of a hash that an entry lacks at the top, and of the fields below the others."""
    return header.bucket_bits(), entry_bits(entry_layout(header.rows, header.plies, MAX_SIZE**2))


def identify(parquet: Path) -> ParquetIdentity:
    """Return the size of a Parquet file and a hash of its footer and of 64 samples of 4 KiB, evenly spaced."""
    with reading(parquet, FormatError), open_regular(parquet) as file:
        size = os.fstat(file.fileno()).st_size
        footer = int.from_bytes(bytes_at(file.fileno(), 4, max(size - 8, 0)), "little")
        last = min(footer + 8, _MAX_FOOTER, size)
        digest = blake3(bytes_at(file.fileno(), last, size - last))
        for k in range(_SAMPLES):
            digest.update(bytes_at(file.fileno(), _SAMPLE_BYTES, max(size - _SAMPLE_BYTES, 0) * k // _SAMPLES))
    return ParquetIdentity(bytes=size, blake3=digest.hexdigest())


@dataclass(frozen=True, eq=False)
class SearchIndex:
    """An open index, for any thread. Methods raise FormatError if what they read is damaged or truncated."""

    path: Path
    header: IndexHeader
    _descriptor: int
    _checksums: npt.NDArray[np.uint32]

    @cached_property
    def _start(self) -> dict[str, int]:
        """The position of each array, counted from the first one."""
        start, positions = 0, {}
        for name, (dtype, shape) in self.header.arrays().items():
            positions[name] = start
            start += _padded_bytes(dtype, shape)
        return positions

    def read(self, name: str, first: int = 0, stop: int | None = None) -> npt.NDArray[Any]:
        """Return elements `first` to `stop` - 1, by default all, along axis 0 of an array of `IndexHeader.arrays`."""
        dtype, shape = self.header.arrays()[name]
        row = dtype.itemsize * prod(shape[1:])
        first, stop, _ = slice(first, stop).indices(shape[0])
        start, end = (self._start[name] + at * row for at in (first, max(first, stop)))
        blocks = range(start // BLOCK_BYTES, -(-end // BLOCK_BYTES))
        data = np.empty(min(blocks.stop * BLOCK_BYTES, self._size) - blocks.start * BLOCK_BYTES, np.uint8)
        self._read_blocks(blocks, data.data)
        return np.frombuffer(data, dtype, (end - start) // dtype.itemsize, start % BLOCK_BYTES).reshape(-1, *shape[1:])

    def _read_blocks(self, blocks: range, out: memoryview) -> None:
        filled = 0
        while filled < len(out):
            at = _HEADER_BYTES + blocks.start * BLOCK_BYTES + filled
            with reading(self.path, FormatError):
                count = read_at(self._descriptor, out[filled:], at)
            if count == 0:
                raise FormatError(f"{self.path} was truncated; remove it and search again")
            filled += count
        for k, block in enumerate(blocks):
            if crc32(out[k * BLOCK_BYTES : (k + 1) * BLOCK_BYTES]) != self._checksums[block]:
                raise FormatError(f"{self.path} is damaged; remove it and search again")

    @cached_property
    def _size(self) -> int:
        return _arrays_bytes(self.header)

    @property
    def plies(self) -> int:
        """The maximum number of positions of each game."""
        return self.header.plies

    @property
    def layout(self) -> EntryLayout:
        """The layout of the entries."""
        return entry_layout(self.header.rows, self.header.plies, MAX_SIZE**2)

    def lookup(self, position_hash: int, points: int) -> PositionEntries:
        """Return the entries of a position on a board of so many points, ascending by row and ply.

        About one position in 10**13 times the number of entries has the hash of another, as far as it is stored.
        """
        entries = unpack_entries(self.packed_entries(position_hash), self.layout)
        beyond = (entries.move > points) & (entries.move != NO_POINT)
        if entries.row.max(initial=-1) >= self.header.rows or beyond.any():
            raise self.damaged("its positions")
        return entries

    def packed_entries(self, position_hash: int) -> npt.NDArray[np.uint64]:
        """Return the entries of a position like `lookup`, but packed, and not checked."""
        top, low = entry_shift(self.header)
        bucket = position_hash >> (64 - top)
        first, stop = self.read("buckets", bucket, bucket + 2).tolist()
        if not 0 <= first <= stop <= self.header.entries:
            raise self.damaged("its buckets")
        rest = ((position_hash << top) % 2**64) >> low
        candidates = self.read("entries", first, stop)
        bounds = np.array([rest << low, (rest << low) + (1 << low) - 1], np.uint64)
        left = np.searchsorted(candidates, bounds[0], "left")
        return candidates[left : np.searchsorted(candidates, bounds[1], "right")]

    def traces(self, games: MoveArrays, first: int = 0) -> Traces:
        """Return the traces of consecutive games. games: the games from row `first` of the Parquet file on."""
        stop = first + len(games.width)
        offset, plies = self.read("capture_offset", first, stop + 1), self.read("plies", first, stop)
        if (
            len(plies) < len(games.width)
            or self.header.words < bit_set_words(games)
            or offset[0] < 0
            or offset[-1] > self.header.captures
            or np.any(offset[1:] < offset[:-1])
            or np.any(plies > np.diff(games.move_offset))
        ):
            raise self.damaged("its traces")
        captures = self.read("captures", offset[0], offset[-1])
        return Traces(plies, offset - offset[0], captures, self.read("occupied", first, stop))

    @cached_property
    def late_stones(self) -> npt.NDArray[np.uint16]:
        """The fewest stones in any position of each game that is not indexed, [G]."""
        return self.read("late_stones")

    @cached_property
    def _info(self) -> GameInfo:
        info = GameInfo(*map(self.read, GameInfo._fields))
        if info.winner.max(initial=0) > WHITE:
            raise self.damaged("its results")
        return info

    def info(self, first: int = 0, stop: int | None = None) -> GameInfo:
        """Return results, days and ratings of the games of rows `first` to `stop` - 1, by default of all."""
        winner, day, rating = self._info
        return GameInfo(winner[first:stop], day[first:stop], rating[first:stop])

    def damaged(self, what: str) -> FormatError:
        """Return the error for a part of the index with impossible values."""
        return FormatError(f"{self.path} is damaged: {what} are out of range; remove it and search again")


def is_index(path: Path) -> bool:
    """Return True if a file begins like an index."""
    try:
        with open_regular(path) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def open_index(parquet: str | os.PathLike[str]) -> SearchIndex:
    """Open a Parquet file's index. Raises FormatError if it is missing, damaged or of another version or file."""
    parquet = Path(parquet)
    path = index_path(parquet)
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            header = _parse_header(path, bytes_at(file.fileno(), _HEADER_BYTES, 0))
            if header.parquet != identify(parquet):
                raise FormatError(f"{path} is the index of another catalogue; search without an index, or remove it")
            n_blocks = -(-_arrays_bytes(header) // BLOCK_BYTES)
            start = _HEADER_BYTES + _arrays_bytes(header)
            expected = start + (n_blocks + 1) * _CHECKSUM.itemsize
            if size != expected:
                raise FormatError(f"{path} has {size:,} bytes, not {expected:,}: it is truncated or damaged")
            table = bytes_at(file.fileno(), expected - start, start)
            if len(table) != expected - start or crc32(table[:-4]).to_bytes(4, "little") != table[-4:]:
                raise FormatError(f"{path} is damaged; remove it and search again")
            index = SearchIndex(path, header, os.dup(file.fileno()), np.frombuffer(table[:-4], _CHECKSUM))
            weakref.finalize(index, os.close, index._descriptor)
            return index
    except FileNotFoundError:
        raise FormatError(f"{parquet} has no index; searching makes it") from None
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror}") from None


def _arrays_bytes(header: IndexHeader) -> int:
    return sum(_padded_bytes(*each) for each in header.arrays().values())


def _padded_bytes(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    size = dtype.itemsize * prod(shape)
    return size + padding(size)


def _parse_header(path: Path, data: bytes) -> IndexHeader:
    if not data.startswith(_MAGIC):
        raise FormatError(f"{path} is not a search index")
    version, length = (int.from_bytes(data[at : at + 2], "little") for at in (len(_MAGIC), len(_MAGIC) + 2))
    if version != _VERSION:
        raise FormatError(
            f"{path} is a search index of version {version}; this kifu reads version {_VERSION}; remove it"
        )
    text = data[_JSON_START : _JSON_START + length]
    checked = data[len(_MAGIC) : len(_MAGIC) + 4] + text
    if len(data) < _HEADER_BYTES or blake3(checked).digest() != data[_JSON_START - _DIGEST_BYTES : _JSON_START]:
        raise FormatError(f"{path} is truncated, or its header is damaged; remove it and search again")
    try:
        return IndexHeader.model_validate_json(text)
    except ValidationError as error:
        raise FormatError(f"{path} has an invalid header: {first_invalid(error)}") from None
