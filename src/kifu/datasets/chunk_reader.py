"""Reading the rows of training chunks: compressed files of positions, each with planes, policy and winner.

The formats differ in their decoders only, see `kifu.datasets.lz_chunks` and `kifu.datasets.minigo`. Moves are not
stored: `link_rows` deduces them.
"""

from __future__ import annotations

import functools
import glob
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from kifu.datasets.examples import LabelSpec, Layout
from kifu.datasets.labels import NO_MOVE, find_label
from kifu.errors import FormatError, SourceError
from kifu.files import open_regular
from kifu.kernel import kernel
from kifu.planes.registry import find_plane_set
from kifu.point import BLACK
from kifu.records._streams import inflated_stream
from kifu.records.games import Bytes

Moves = npt.NDArray[np.int16]

SUFFIXES = (".gz", ".zz")

RECORD_LIMIT = 1 << 16
"""Bytes; no record on a board up to 25 x 25 is half as long."""

HISTORY = 8
"""Boards in the planes of a position: the current one, and those before the last 1 to 7 moves."""

_HEAD_BYTES = 128
_BUFFER_BYTES = 1 << 20
_TAIL_BYTES = 1
_BLOCK_ROWS = 1024
_POLICY = "the share of each point in the search before the move, or 1 for the move played; the last one is a pass"


class ChunkRows(NamedTuple):
    """N positions.

    Attributes:
        planes: [N, C, ceil(points / 8)] uint8, as in `Batch.planes`.
        policy: [N, points + 1] float32, by point; the last one is a pass.
        to_play: [N] uint8, BLACK or WHITE.
        winner: [N] int8, 1 for Black, -1 for White, 0 for a draw.
    """

    planes: npt.NDArray[np.uint8]
    policy: npt.NDArray[np.float32]
    to_play: npt.NDArray[np.uint8]
    winner: npt.NDArray[np.int8]

    def take(self, index: Any) -> ChunkRows:
        """Return the rows of a slice, or where a mask [N] is true."""
        return ChunkRows(*(array[index] for array in self))

    def result(self) -> npt.NDArray[np.int8]:
        """Return [N] int8: 1 if the side to move wins, -1 if it loses, 0 for a draw."""
        return np.where(self.to_play == BLACK, self.winner, -self.winner).astype(np.int8)


def new_rows(count: int, layout: Layout) -> ChunkRows:
    """Return uninitialized arrays for a number of rows."""
    planes = np.empty((count, *layout.packed_shape), np.uint8)
    policy = np.empty((count, layout.pass_label + 1), np.float32)
    return ChunkRows(planes, policy, np.empty(count, np.uint8), np.empty(count, np.int8))


def join_rows(parts: Sequence[ChunkRows]) -> ChunkRows:
    """Concatenate one or more parts."""
    return parts[0] if len(parts) == 1 else ChunkRows(*(np.concatenate(arrays) for arrays in zip(*parts)))


class DecodedChunk(NamedTuple):
    """Decoded records: bytes consumed, rows, and what is wrong with the record after them, or ""."""

    used: int
    rows: ChunkRows
    error: str


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder of records.

    Attributes:
        decode: Decodes complete records at the start of some bytes, at most the given number.
        tail: Bytes added at the end of a file.
    """

    name: str
    size: int
    decode: Callable[[Bytes, int, Layout], DecodedChunk]
    tail: bytes = b""


@functools.cache
def chunk_layout(plane_set: str, size: int) -> Layout:
    """Return the layout of chunks on a board of a size."""
    found = find_plane_set(plane_set)
    policy = LabelSpec("policy", "float32", (size * size + 1,), _POLICY)
    labels = (find_label("move", size, size), policy, find_label("result", size, size))
    return Layout(found.name, found.plane_names, found.real, size, size, found.padding, found.first_row, labels)


def chunk_files(path: Path) -> list[Path]:
    """Return the files of a data set: a file; those of a folder, or of a pattern such as `data/*.gz`, by name.

    Of a folder, files that do not end with .gz or .zz, and debug files by their names, are left out.
    """
    if path.is_dir():
        try:
            found = sorted(path.iterdir())
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror}") from None
        return [each for each in found if each.name.endswith(SUFFIXES) and ".debug" not in each.name]
    if glob.has_magic(str(path)) and not path.exists():
        return [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207 - has an anchor
    return [path]


def read_head(path: Path) -> bytes:
    """Return the first bytes of a compressed file, inflated; b"" if it is empty, damaged, or not compressed."""
    data = np.empty(_HEAD_BYTES, np.uint8)
    try:
        with open_regular(path) as file:
            stream = inflated_stream(file)
            return b"" if stream is None else data[: stream.fill(data.data)].tobytes()
    except OSError:
        return b""


class ChunkReader:
    """The rows of a file, in order. Records whose policy is no distribution, such as NaN, are skipped."""

    def __init__(self, path: Path) -> None:
        """Open a file, and inflate its beginning. Raises SourceError, or FormatError if it is damaged there."""
        self.path = path
        self.row = self.skipped = 0
        self._data = np.empty(_BUFFER_BYTES, np.uint8)
        self._start = self._stop = 0
        self._ended = False
        try:
            self._file = open_regular(path)
            self._close_file = weakref.finalize(self, self._file.close)
            self._stream = inflated_stream(self._file)
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror}") from None
        try:
            self._fill()
        except BaseException:
            self.close()
            raise

    def head(self) -> Bytes:
        """Return the first 64 KiB, or all of a smaller file. No rows must have been read."""
        return self._data[: min(self._stop, RECORD_LIMIT)]

    def set_decoder(self, decoder: Decoder, layout: Layout) -> None:
        """Set the decoder, which `head` determines."""
        self._decoder, self._layout = decoder, layout
        if self._ended:
            self._add_tail()

    def read(self, limit: int) -> ChunkRows:
        """Return the next rows, fewer than the limit only at the end of the file."""
        parts = [new_rows(0, self._layout)]
        missing = limit
        while missing:
            used, rows, error = self._decoder.decode(self._data[self._start : self._stop], missing, self._layout)
            if error:
                raise FormatError(f"{self.path}: record {self._number + len(rows.winner)} {error}")
            self._start += used
            low, high = rows.policy.min(1, initial=np.inf), rows.policy.max(1, initial=0)
            usable = (low >= 0) & (high > 0) & (high < np.inf)  # not for NaN
            if not usable.all():
                self.skipped += int(np.count_nonzero(~usable))
                rows = rows.take(usable)
            parts.append(rows)
            self.row += len(rows.winner)
            missing -= len(rows.winner)
            if not used and not self._refill():
                break
        return join_rows(parts)

    def skip(self, count: int) -> None:
        """Skip some rows, or all if there are fewer."""
        while count > 0 and (read := len(self.read(min(count, _BLOCK_ROWS)).winner)):
            count -= read

    def linked(self) -> Iterator[tuple[ChunkRows, Moves]]:
        """Yield all rows in blocks, with the move from each row to the next one, or NO_MOVE: see `link_rows`."""
        rows = self.read(_BLOCK_ROWS)
        while len(rows.winner):
            following = self.read(_BLOCK_ROWS)
            yield rows, link_rows(join_rows([rows, following.take(slice(1))]), self._layout)[: len(rows.winner)]
            rows = following

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._close_file()

    @property
    def _number(self) -> int:
        """The number of the next record."""
        return self.row + self.skipped

    def _refill(self) -> bool:
        """Read more bytes after an incomplete record. Returns False at the end of the file."""
        rest = self._data[self._start : self._stop]
        if self._ended:
            if rest.tobytes().strip():
                raise FormatError(f"{self.path} ends within record {self._number}")
            return False
        if len(rest) >= RECORD_LIMIT:
            raise FormatError(f"{self.path}: record {self._number} is longer than {RECORD_LIMIT:,} bytes")
        self._data[: len(rest)] = rest.copy()
        self._start, self._stop = 0, len(rest)
        self._fill()
        if self._ended:
            self._add_tail()
        return True

    def _fill(self) -> None:
        room = len(self._data) - _TAIL_BYTES
        if self._stream is None:
            if os.fstat(self._file.fileno()).st_size:
                raise FormatError(f"{self.path} is not compressed by gzip or zlib")
            self._ended = True
            return
        self._stop += self._stream.fill(self._data[self._stop : room].data)
        if self._stream.damage:
            raise FormatError(f"{self.path} is damaged: {self._stream.damage}")
        self._ended = self._stop < room

    def _add_tail(self) -> None:
        tail = self._decoder.tail
        self._data[self._stop : self._stop + len(tail)] = np.frombuffer(tail, np.uint8)
        self._stop += len(tail)


def link_rows(rows: ChunkRows, layout: Layout) -> Moves:
    """Return the move from each row to the next one, [N] int16; NO_MOVE if the next row does not follow it.

    A row follows another if the other side is to move, its earlier boards are those of the other row, one stone or none
    (a pass) is new, and only stones of the other side are gone. Both have the same winner.
    """
    moves = np.empty(len(rows.winner), np.int16)
    own, opp = history_planes(layout)
    _link(rows.planes, own, opp, rows.to_play, rows.winner, layout.pass_label, moves)
    return moves


@functools.cache
def history_planes(layout: Layout) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the planes of the side to move and of the opponent, [8] each, from the current board to the oldest."""
    planes = [[k for k, name in enumerate(layout.plane_names) if name.startswith(side)] for side in ("own", "opp")]
    own, opp = np.array(planes, np.int64)
    return own, opp


@kernel
def _link(planes: Any, own: Any, opp: Any, to_play: Any, winner: Any, passed: Any, moves: Any) -> None:
    """Fill moves [N]; see `link_rows`."""
    for i in range(moves.shape[0]):
        moves[i] = NO_MOVE
        if i + 1 == moves.shape[0] or to_play[i] == to_play[i + 1] or winner[i] != winner[i + 1]:
            continue
        now, then = planes[i + 1], planes[i]
        new, point, captures, follows = 0, passed, False, True
        for b in range(planes.shape[2]):
            for k in range(own.shape[0] - 1):
                if now[own[k + 1], b] != then[opp[k], b] or now[opp[k + 1], b] != then[own[k], b]:
                    follows = False
            before, after = np.int64(then[own[0], b]), np.int64(now[opp[0], b])
            other, left = np.int64(then[opp[0], b]), np.int64(now[own[0], b])
            added = after & ~before
            if before & ~after or left & ~other or added & other:
                follows = False
            if not follows:
                break
            captures |= left != other
            for k in range(8):
                if added & 0x80 >> k:
                    new += 1
                    point = 8 * b + k
        if follows and (new == 1 or (new == 0 and not captures)):
            moves[i] = point
