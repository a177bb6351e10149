"""Hits of a pattern search as an Arrow table; those of whole boards are found in an index, without reading a game."""

from __future__ import annotations

import functools
import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.catalogue import Catalogue, CatalogueWriter, open_catalogue
from kifu.corpus.parquet import TableWriter
from kifu.errors import OutputError, first_line
from kifu.files import utf8_name
from kifu.go.replay import GamesLike
from kifu.point import BLACK, NO_POINT, WHITE, WHITE_BIT, inverse_symmetry, symmetries
from kifu.search._match import ACCEPTS
from kifu.search.continuations import Continuation, Occurrences, Tally, YearCount, latest_rows, tabulate, year_counts
from kifu.search.drawing import Drawing
from kifu.search.index import SearchIndex
from kifu.search.match import MatchArrays, compile_pattern
from kifu.search.notation import format_pattern
from kifu.search.pattern import BLACK_CELL, EMPTY_CELL, WHITE_CELL, Pattern
from kifu.search.position import Position
from kifu.search.positions import position_hash
from kifu.search.store import row_groups, take_rows
from kifu.text import Report
from kifu.viz.boards import notebook_svg

HITS = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),  # the game's row in the catalogue, from 0
        pa.field("ply", pa.uint16(), nullable=False),  # moves before the position in which the pattern is complete
        pa.field("symmetry", pa.uint8(), nullable=False),  # of the image found, as in kifu.point.symmetries
        pa.field("exchanged", pa.bool_(), nullable=False),  # found with Black and White exchanged
        pa.field("x", pa.uint8(), nullable=False),  # column of the image's upper left cell on the board
        pa.field("y", pa.uint8(), nullable=False),  # its row
        pa.field("next_ply", pa.uint16(), nullable=True),  # moves before the continuation; null if none
        pa.field("next_x", pa.uint8(), nullable=True),  # the continuation's column in the pattern as given
        pa.field("next_y", pa.uint8(), nullable=True),  # its row
        pa.field("next_colour", pa.uint8(), nullable=True),  # 1 black, 2 white, in the colours of the pattern
    ]
)
"""Hits in order of row, ply, image and place. Continuations that a symmetry of the pattern maps to each other have the
same point and colour: next_colour of the pattern or Black if possible, then the rightmost, then the uppermost point.
"""


_MAX_BYTES = 64 << 20
"""Bytes of hits that are kept in memory."""


@dataclass(frozen=True, slots=True)
class Hits(Report):
    """The hits of a pattern in a catalogue.

    Attributes:
        table: The hits, with the columns of HITS, in their order; beyond 64 MB, it is mapped from a temporary file.
    """

    pattern: Pattern
    path: Path
    table: pa.Table = field(repr=False)
    games: int
    _tally: Tally = field(repr=False)

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        return f"<Hits in {str(self.path)!r}: {len(self):,} in {self.games:,} games>"

    def _repr_svg_(self) -> str | None:
        """Return a picture with the counts of the continuations, for notebooks; None without matplotlib."""
        drawing = Drawing.of_pattern(self.pattern)
        title = f"{len(self):,} hits in {self.games:,} games"
        return notebook_svg(lambda: drawing.to_figure(self.continuations(), title))

    @property
    def wins(self) -> tuple[int, int]:
        """The hits in games that Black and that White of the pattern won."""
        return int(self._tally.won[BLACK]), int(self._tally.won[WHITE])

    def rows(self) -> npt.NDArray[np.int64]:
        """Return the rows in the catalogue of the games with hits, ascending: [games] int64."""
        parts = [chunk.to_numpy() for chunk in self.table.column("row").chunks]
        rows = np.concatenate([np.empty(0, np.int64), *parts])
        distinct: npt.NDArray[np.int64] = rows[np.append(True, rows[1:] != rows[:-1])[: len(rows)]]
        return distinct

    def continuations(self) -> list[Continuation]:
        """Return the moves that continue the pattern, the most frequent first, no further move last."""
        return tabulate(self._tally, self.pattern.width)

    def latest(self) -> list[int]:
        """Return the rows in the catalogue of the latest games, the latest first, at most 5."""
        return latest_rows(self._tally)

    def by_year(self, continuation: Continuation | None = None) -> list[YearCount]:
        """Return the numbers of hits by year, and of those with a continuation; by default all count."""
        return year_counts(self._tally, self.pattern.width, continuation)

    def to_dict(self) -> dict[str, Any]:
        """Return the pattern, the counts, the continuations and the years as JSON values, without the table."""
        black, white = self.wins
        return {
            "pattern": format_pattern(self.pattern),
            "catalogue": utf8_name(str(self.path)),
            "hits": len(self),
            "games": self.games,
            "black_wins": black,
            "white_wins": white,
            "continuations": [each.to_dict() for each in self.continuations()],
            "years": [each.to_dict() for each in self.by_year()],
        }

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a Parquet file, whose metadata holds the pattern and the BLAKE3 of the catalogue.

        Raises:
            OutputError: If the file cannot be written.
        """
        with TableWriter(path, HITS) as writer:
            for batch in self.table.to_batches():
                writer.write(batch)
            writer.commit({f"kifu.{key}": value for key, value in self._metadata(open_catalogue(self.path)).items()})

    def write_games(self, path: str | os.PathLike[str]) -> None:
        """Write a catalogue of the games with hits, in the order of this catalogue.

        Its metadata holds the pattern and the BLAKE3 of this catalogue. Memory does not grow with the games.

        Raises:
            FormatError: If this catalogue is damaged.
        """
        catalogue = open_catalogue(self.path)
        with CatalogueWriter(path) as writer:
            for batch in take_rows(row_groups(catalogue), self.rows()):
                writer.write(batch)
            writer.commit(self._metadata(catalogue))

    def _metadata(self, catalogue: Catalogue) -> dict[str, Any]:
        of = {"name": utf8_name(str(self.path)), "bytes": catalogue.file_bytes(), "blake3": catalogue.digest()}
        return {"search": format_pattern(self.pattern), "of": [of]}


class HitCollector:
    """Collects hits, in memory or, beyond 64 MB, in an unnamed temporary file. A context manager."""

    def __init__(self) -> None:
        """Start without hits."""
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._file: Any = None
        self._writer: pa.RecordBatchWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Append hits with the columns of HITS.

        Raises:
            OutputError: If the temporary file cannot be written.
        """
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > _MAX_BYTES:
            self._spill()

    def _spill(self) -> None:
        try:
            if self._writer is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
                self._writer = pa.ipc.new_stream(self._file, HITS)
            for batch in self._batches:
                self._writer.write_batch(batch)
        except OSError as error:
            raise OutputError(f"cannot spill hits to {tempfile.gettempdir()}: {first_line(error)}") from None
        self._batches, self._bytes = [], 0

    def table(self) -> pa.Table:
        """Return all hits."""
        if self._writer is None:
            return pa.Table.from_batches(self._batches, HITS)
        self._spill()
        self._writer.close()
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return pa.ipc.open_stream(pa.py_buffer(mapped)).read_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            with suppress(OSError):  # buffered data may not fit on a full disk
                self._file.close()


def hit_table(hits: MatchArrays, first: int) -> pa.RecordBatch:
    """Return hits in the columns of HITS.

    Args:
        first: The row in the catalogue of the first game searched.
    """
    none = hits.next_ply < 0
    columns = [hits.game + first, hits.ply, hits.symmetry, hits.exchanged, hits.x, hits.y]
    nullable = [hits.next_ply.astype(np.uint16), hits.next_x, hits.next_y, hits.next_colour]
    arrays = [pa.array(column) for column in columns] + [pa.array(column, mask=none) for column in nullable]
    return pa.RecordBatch.from_arrays(arrays, schema=HITS)


def sort_hits(table: pa.Table) -> pa.Table:
    """Return hits in the order of their games; hits of one game stay in their order."""
    rows = table.column("row").to_numpy()
    return table if np.all(rows[1:] >= rows[:-1]) else table.take(np.argsort(rows, kind="stable"))


def board_colours(hits: MatchArrays, games: GamesLike) -> npt.NDArray[np.uint8]:
    """Return the colours on the board of the continuations of hits in some games: [H] uint8, 0 without one."""
    if not len(games.moves):
        return np.zeros(len(hits.game), np.uint8)
    none = hits.next_ply < 0
    move = games.moves[np.where(none, 0, games.move_offset[hits.game] + hits.next_ply)]
    return np.where(none, 0, np.where(move & WHITE_BIT, WHITE, BLACK)).astype(np.uint8)


def hit_occurrences(hits: MatchArrays, colours: npt.NDArray[np.uint8], pattern: Pattern) -> Occurrences:
    """Return hits as occurrences of a pattern, with rows from 0 on.

    Args:
        colours: [H] uint8, of the continuations on the board.
    """
    none = hits.next_ply < 0
    point = hits.next_y.astype(np.uint16) * np.uint16(pattern.width) + hits.next_x
    point[none] = len(pattern.cells) + 1
    # Patterns with a symmetry that exchanges the colours have continuations in other colours than on the board.
    exchanged = np.where(none, hits.exchanged, hits.next_colour != colours)
    tenuki = hits.next_ply >= hits.ply.astype(np.int32) + 2
    return Occurrences(hits.game, point, hits.next_colour, exchanged, tenuki)


_STONES = {EMPTY_CELL: 0, BLACK_CELL: BLACK, WHITE_CELL: WHITE}
_PASS = 3
"""A colour of no stone."""

_EXCHANGED = np.array([0, WHITE, BLACK], np.uint8)


class BoardHits(NamedTuple):
    """H hits of a pattern of the whole board.

    Attributes:
        hits: The hits; the games are rows of the file.
        colour: [H] uint8, of the continuation on the board; 0 without one.
        unsure: [rows] bool, games that may have other hits, too, and none of `hits`.
    """

    hits: MatchArrays
    colour: npt.NDArray[np.uint8]
    unsure: npt.NDArray[np.bool_]


class _BoardOccurrences(NamedTuple):
    """All occurrences of an image.

    Attributes:
        hits: With the next move as the continuation, none if it is a pass.
        colour: [H] uint8, of the continuation on the board; 0 if there is no next move, _PASS if it is a pass.
        accepted: [H] bool, False if the pattern asks for another continuation.
    """

    hits: MatchArrays
    colour: npt.NDArray[np.uint8]
    accepted: npt.NDArray[np.bool_]


def pattern_position(pattern: Pattern) -> Position | None:
    """Return the position that a pattern of the whole board without wildcards and moves shows; None for others."""
    if pattern.anchor != "board" or pattern.moves or pattern.consecutive or not _STONES.keys() >= set(pattern.cells):
        return None
    return Position(pattern.width, pattern.height, np.array([_STONES[cell] for cell in pattern.cells], np.uint8))


def late_rows(index: SearchIndex, position: Position) -> npt.NDArray[np.bool_]:
    """Return the games in which a position may occur after the indexed plies, since they have so few stones."""
    late: npt.NDArray[np.bool_] = index.late_stones <= np.count_nonzero(position.stones)
    return late


def find_board(index: SearchIndex, pattern: Pattern, position: Position) -> BoardHits:
    """Find a pattern of the whole board in the games of an index.

    Args:
        position: `pattern_position` of the pattern.

    Raises:
        FormatError: If the index is damaged.
    """
    found = [each for exchanged in (False, True) for each in _find_images(index, pattern, position, exchanged)]
    hits = MatchArrays._make(map(np.concatenate, zip(*(each.hits for each in found))))
    image = np.repeat(np.arange(len(found)), [len(each.colour) for each in found])
    chosen = np.lexsort((hits.ply, hits.game))
    if np.any(np.diff(hits.game[chosen]) == 0):
        chosen = chosen[np.sort(np.unique((hits.game * len(found) + image)[chosen], return_index=True)[1])]
    colour, accepted = (np.concatenate([each[k] for each in found]) for k in (1, 2))
    unsure = late_rows(index, position)
    unsure[hits.game[chosen][colour[chosen] == _PASS]] = True
    last_ply = NO_POINT if pattern.last_ply is None else pattern.last_ply
    chosen = chosen[accepted[chosen] & ~unsure[hits.game[chosen]] & (hits.ply[chosen] <= last_ply)]
    return BoardHits(MatchArrays._make(column[chosen] for column in hits), colour[chosen], unsure)


def _find_images(
    index: SearchIndex, pattern: Pattern, position: Position, exchanged: bool
) -> Iterator[_BoardOccurrences]:
    """Yield the occurrences of each image of a pattern, with or without colours exchanged."""
    points = len(position.stones)
    words = 6 if points < 384 else 10
    canonical = position_hash(replace(position, stones=_EXCHANGED[position.stones]) if exchanged else position)
    entries = None
    for width, height in {(position.width, position.height): 0, (position.height, position.width): 0}:
        compiled = compile_pattern(pattern, width, height, words)
        for m in np.flatnonzero(compiled.exchanged == exchanged).tolist() if compiled is not None else ():
            assert compiled is not None
            entries = index.lookup(canonical.hash, points) if entries is None else entries
            to_canonical = _first_symmetry(canonical.symmetries, int(compiled.symmetry[m]))
            chosen = np.flatnonzero(entries.symmetry == to_canonical)
            move, colour = entries.move[chosen], entries.colour[chosen]
            is_stone = move < points
            turned = (height, width) if to_canonical & 4 else (width, height)
            from_canonical = symmetries(*turned)[inverse_symmetry(to_canonical)]
            point = from_canonical[np.where(is_stone, move, 0)]
            next_x, next_y, next_colour = compiled.continuations[m, np.where(is_stone, 4 * point + colour, 0)].T
            size, none = len(chosen), np.zeros(len(chosen), np.uint8)
            yield _BoardOccurrences(
                MatchArrays(
                    game=entries.row[chosen],
                    ply=entries.ply[chosen],
                    symmetry=np.full(size, compiled.symmetry[m]),
                    exchanged=np.full(size, exchanged),
                    x=none,
                    y=none,
                    next_ply=np.where(is_stone, entries.ply[chosen], np.int32(-1)),
                    next_x=next_x,
                    next_y=next_y,
                    next_colour=next_colour,
                ),
                np.where(move == points, _PASS, colour),
                compiled.plan.images[m, ACCEPTS + colour.astype(np.int64)].astype(np.bool_),
            )


def _first_symmetry(to_canonical: tuple[int, ...], k: int) -> int:
    """Return the first symmetry that maps the image under symmetry k to the canonical orientation."""
    return next(first for first in range(8) if _composition()[first, k] in to_canonical)


@functools.cache
def _composition() -> npt.NDArray[np.int64]:
    """Return the symmetry that is the same as symmetry k, then j: [8, 8] by j and k."""
    tables = symmetries(3, 3)
    return np.array([[np.flatnonzero((tables == j[k]).all(axis=1))[0] for k in tables] for j in tables])
