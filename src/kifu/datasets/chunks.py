"""Training chunks of other programs as data sets that are only read, and the games deduced from them."""

from __future__ import annotations

import functools
import os
from abc import abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.datasets.chunk_reader import (
    HISTORY,
    SUFFIXES,
    ChunkReader,
    ChunkRows,
    Decoder,
    Moves,
    chunk_files,
    chunk_layout,
    history_planes,
    join_rows,
    new_rows,
)
from kifu.datasets.examples import Batch, Dataset, Layout
from kifu.datasets.labels import NO_MOVE
from kifu.errors import DropReason, FormatError, SourceError
from kifu.execution.executor import ThreadExecutor
from kifu.point import BLACK, WHITE, WHITE_BIT
from kifu.records.game import Game
from kifu.records.games import TO_PLAY_UNSET, Bytes, ParseWarning
from kifu.records.sgf import make_record

_MAX_OPEN_FILES = 4


class ChunkScan(NamedTuple):
    """The content of a file.

    Attributes:
        decoder: Its decoder; None for a file without records.
        skipped: Number of records that are no rows, see `ChunkReader`.
        games: [G, 2] int64, the first row of each game, and the row after its last one.
        from_start: [G] bool, whether a game begins with the empty board and Black to move.
        winner: [G] int8, see `ChunkRows`.
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

        Raises:
            FormatError: A file is damaged, or of another format or board than the others.
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

        Raises:
            FormatError: It is of another format, or damaged.
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

        Raises:
            FormatError: A file has changed.
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
        k = max(bisect_right(self._first, start) - 1, 0)
        parts = [new_rows(0, self.layout)]
        while start < stop:
            until = min(stop, self._first[k + 1])
            if until > start:
                parts.append(self._file_rows(k, start - self._first[k], until - start))
            start, k = until, k + 1
        rows = join_rows(parts)
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
