"""Hits of a pattern search as an Arrow table; those of whole boards are found in an index, without reading a game."""

from __future__ import annotations

import mmap
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.catalogue import Catalogue, CatalogueWriter, open_catalogue
from kifu.corpus.parquet import TableWriter
from kifu.errors import OutputError, first_line
from kifu.io import utf8_name
from kifu.point import BLACK, WHITE
from kifu.search.continuations import Continuation, Tally, YearCount, latest_rows, tabulate, year_counts
from kifu.search.drawing import Drawing
from kifu.search.match import MatchArrays
from kifu.search.notation import format_pattern
from kifu.search.pattern import Pattern
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
        """Write the table to a Parquet file, whose metadata holds the pattern and the BLAKE3 of the catalogue."""
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
        """Append hits with the columns of HITS."""
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
