"""Training chunks of other programs as data sets that are only read, and the games deduced from them.

Chunks are compressed files of positions, each with planes, policy and winner. The formats differ in their decoders
only, see `kifu.datasets.lz_chunks` and `kifu.datasets.minigo`. Moves are not stored: `link_rows` deduces them.
"""

from __future__ import annotations

import functools
import glob
import os
import weakref
from abc import abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.datasets.examples import Batch, Dataset, LabelSpec, Layout, part_spans
from kifu.datasets.labels import NO_MOVE, find_label
from kifu.errors import DropReason, FormatError, SourceError
from kifu.execution.executor import ThreadExecutor
from kifu.io import open_regular
from kifu.kernel import kernel
from kifu.planes.registry import find_plane_set
from kifu.point import BLACK, WHITE, WHITE_BIT
from kifu.records._streams import inflated_stream
from kifu.records.game import Game
from kifu.records.games import TO_PLAY_UNSET, Bytes, ParseWarning
from kifu.records.sgf import make_record

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


DecodedChunk: TypeAlias = tuple[int, ChunkRows, str]
"""Decoded records: bytes consumed, rows, and what is wrong with the record after them, or ""."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder of records.

    Attributes:
        decode: Decodes complete records at the start of some bytes, at most the given number.
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


_MAX_OPEN_FILES = 4


class ChunkScan(NamedTuple):
    """The content of a file.

    Attributes:
        decoder: Its decoder; None for a file without records.
        skipped: Number of records that are no rows, see `ChunkReader`.
        games: [G, 2] int64, the first row of each game, and the row after its last one.
        from_start: [G] bool, whether a game begins with the empty board and Black to move.
    """

    decoder: Decoder | None
    rows: int
    skipped: int
    games: npt.NDArray[np.int64]
    from_start: npt.NDArray[np.bool_]
    winner: npt.NDArray[np.int8]


class Chunks(Dataset):
    """Chunks of one format: a file, a folder of files, or a pattern such as `data/*.gz`, in the order of their names.

    Examples have three labels: `move`, the first of the points with the highest share of the policy; `policy`;
    `result`. A game is at least two rows that follow one another. `Batch.game` is its number in the data set, from 1,
    or 0 for rows of no game. `Batch.ply` is known for games from the empty board on.
    """

    plane_set: str

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read all files once, to count their rows and to find their games.

        Raises FormatError if a file is damaged, or of another format or board than the others.
        """
        self.path = Path(path)
        self.about: Mapping[str, Any] = {}
        self.files = chunk_files(self.path)
        if not self.files:
            raise FormatError(f"{self.path} has no files that end with {' or '.join(SUFFIXES)}")
        with ThreadExecutor() as executor:
            self.scans = list(executor.map(self._scan, self.files))
        self._decoders = [scan.decoder for scan in self.scans if scan.decoder is not None]
        if not self._decoders:
            raise FormatError(f"{self.path} has no records")
        self.layout = chunk_layout(self.plane_set, self._decoders[0].size)
        for file, scan in zip(self.files, self.scans):
            if scan.decoder is not None and scan.decoder.size != self.layout.width:
                size = self.layout.width
                raise FormatError(f"{file} has a board of side {scan.decoder.size}, others have {size}")
        self._first = [0, *accumulate(scan.rows for scan in self.scans)]
        self.examples = self._first[-1]
        spans = [first + scan.games for first, scan in zip(self._first, self.scans)]
        self.game_rows: npt.NDArray[np.int64] = np.concatenate(spans)
        """[G, 2] int64, the first row of each game, and the row after its last one."""
        self._from_start = np.concatenate([scan.from_start for scan in self.scans])
        self._readers: dict[int, ChunkReader] | None = {}

    @staticmethod
    @abstractmethod
    def find_decoder(path: Path, head: Bytes) -> Decoder:
        """Return the decoder for a file by its first 64 KiB, inflated, at least one byte.

        Raises FormatError if it is of another format, or damaged.
        """

    @property
    def skipped(self) -> int:
        """The number of records that are no rows, since their policy is no distribution (NaN, negative, or all 0)."""
        return sum(scan.skipped for scan in self.scans)

    def variants(self) -> dict[str, int]:
        """Return the number of files by the variant of the format."""
        return dict(Counter(decoder.name for decoder in self._decoders))

    def run_starts(self) -> npt.NDArray[np.int64]:
        """Return the first row of each file: reading files in order inflates nothing twice."""
        return np.array([first for first, scan in zip(self._first, self.scans) if scan.rows], np.int64)

    def locate_game(self, game: int) -> tuple[Path, int]:
        """Return the file of a game, by its number from 0, and its number in that file."""
        first = [0, *accumulate(len(scan.games) for scan in self.scans)]
        k = bisect_right(first, game) - 1
        return self.files[k], game - first[k]

    def linked(self) -> Iterator[tuple[ChunkRows, Moves]]:
        """Yield all rows in blocks, with the move from each row to the next one of its file, or NO_MOVE.

        Raises FormatError if a file has changed.
        """
        for k in range(len(self.files)):
            yield from self._linked(k)

    def games(self) -> Iterator[Game]:
        """Yield the games, in the order of `game_rows`.

        The position of the first row is set up. The move after the last row is unknown, so it is missing. Of the root's
        properties, only the winner is known.
        """
        for k, scan in enumerate(self.scans):
            if len(scan.games):
                yield from self._games(k, scan)

    def close(self) -> None:
        """Close the files."""
        for each in (self._readers or {}).values():
            each.close()
        self._readers = None

    def _scan(self, path: Path) -> ChunkScan:
        try:
            status = path.stat()
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror}") from None
        return _scan(type(self), path, status.st_size, status.st_mtime_ns)

    def _linked(self, k: int) -> Iterator[tuple[ChunkRows, Moves]]:
        decoder = self.scans[k].decoder
        if decoder is not None:
            with ChunkReader(self.files[k]) as reader:
                reader.set_decoder(decoder, self.layout)
                yield from reader.linked()

    def _games(self, k: int, scan: ChunkScan) -> Iterator[Game]:
        moves, boards, first = [], [], 0
        for rows, links in self._linked(k):
            begins = scan.games[:, 0]
            begins = begins[(begins >= first) & (begins < first + len(links))] - first
            boards.append(rows.take(begins))
            moves.append(links)
            first += len(links)
        starts, points = join_rows(boards), np.concatenate(moves)
        if len(starts.winner) != len(scan.games) or len(points) != scan.rows:
            raise FormatError(f"{self.files[k]} has changed")
        for g, (start, stop) in enumerate(scan.games.tolist()):
            yield _make_game(self.files[k], self.layout, starts.take(slice(g, g + 1)), points[start : stop - 1])

    def _read(self, start: int, stop: int) -> Batch:
        spans = part_spans(self._first, start, stop)
        rows = join_rows([new_rows(0, self.layout), *(self._file_rows(k, a, b - a) for k, a, b in spans)])
        labels = {"move": rows.policy.argmax(1).astype(np.int16), "policy": rows.policy, "result": rows.result()}
        return Batch(rows.planes, labels, *self._games_of(np.arange(stop - len(rows.winner), stop)))

    def _games_of(self, rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
        """Return the number of the game of each row, from 1, or 0; and its ply, or -1."""
        if not len(self.game_rows):
            return np.zeros(len(rows), np.uint64), np.full(len(rows), -1, np.int32)
        game = np.searchsorted(self.game_rows[:, 0], rows, "right") - 1
        inside = (game >= 0) & (rows < self.game_rows[game, 1])
        ply = np.where(inside & self._from_start[game], rows - self.game_rows[game, 0], -1)
        return np.where(inside, game + 1, 0).astype(np.uint64), ply.astype(np.int32)

    def _file_rows(self, k: int, start: int, count: int) -> ChunkRows:
        """Return rows of a file. Reading on from the last row read is cheap; earlier rows inflate it from its start."""
        if self._readers is None:
            raise ValueError(f"{self.path} is closed")
        reader = self._readers.pop(k, None)
        if reader is None or reader.row > start:
            if reader is not None:
                reader.close()
            if len(self._readers) >= _MAX_OPEN_FILES:
                self._readers.pop(next(iter(self._readers))).close()
            decoder = self.scans[k].decoder
            assert decoder is not None  # the file has rows
            reader = ChunkReader(self.files[k])
            reader.set_decoder(decoder, self.layout)
        self._readers[k] = reader  # the most recently used one is last
        reader.skip(start - reader.row)
        rows = reader.read(count)
        if len(rows.winner) != count:
            raise FormatError(f"{self.files[k]} has changed")
        return rows


@functools.lru_cache(maxsize=1 << 16)
def _scan(kind: type[Chunks], path: Path, size: int, changed: int) -> ChunkScan:
    """Read a file once. Size and time of the last change are parts of the key: workers open the same files again."""
    ends, empty, winner = [np.array([-1])], [np.empty(0, np.bool_)], [np.empty(0, np.int8)]
    decoder, first, begins = None, 0, True
    with ChunkReader(path) as reader:
        head = reader.head()
        if len(head):
            decoder = kind.find_decoder(path, head)
            reader.set_decoder(decoder, chunk_layout(kind.plane_set, decoder.size))
            for rows, moves in reader.linked():
                breaks = moves == NO_MOVE
                start = np.concatenate([[begins], breaks[:-1]])  # rows that begin a game
                begins = bool(breaks[-1])
                stones = rows.planes[start, : 2 * HISTORY].any((1, 2))
                empty.append(~stones & (rows.to_play[start] == BLACK))
                winner.append(rows.winner[start])
                ends.append(first + np.flatnonzero(breaks))
                first += len(moves)
    bounds = np.concatenate(ends) + 1
    spans = np.stack([bounds[:-1], bounds[1:]], 1)
    games = spans[:, 1] - spans[:, 0] > 1
    return ChunkScan(
        decoder, reader.row, reader.skipped, spans[games], np.concatenate(empty)[games], np.concatenate(winner)[games]
    )


def _make_game(path: Path, layout: Layout, start: ChunkRows, moves: Moves) -> Game:
    """Return a game by its first row and its moves."""
    now = (planes[0] for planes in history_planes(layout))
    own, opp = (np.flatnonzero(np.unpackbits(start.planes[0, k])) for k in now)
    black_first = start.to_play[0] == BLACK
    black, white = (own, opp) if black_first else (opp, own)
    setup = np.concatenate([black, white | WHITE_BIT]).astype(np.uint16)
    colours = np.where(np.arange(len(moves)) % 2 == (1 if black_first else 0), WHITE_BIT, 0)
    arrays = (moves | colours).astype(np.uint16), setup, np.zeros(len(setup), np.uint16)
    for array in arrays:
        array.setflags(write=False)
    result = {1: "B+", -1: "W+", 0: "0"}[int(start.winner[0])]
    return Game(
        layout.width, layout.height, *arrays, len(setup),
        to_play=TO_PLAY_UNSET if black_first else WHITE, handicap=None,
        record=make_record(layout.width, layout.height, None, {"RE": result}), warnings=ParseWarning(0),
        drop=DropReason.KEPT, source=str(path), name=path.name,
    )  # fmt: skip
