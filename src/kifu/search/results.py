"""The results of searches: the hits of a pattern, the continuations of a position, and their drawings."""

from __future__ import annotations

import mmap
import os
import tempfile
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.catalogue import Catalogue, CatalogueWriter, open_catalogue
from kifu.corpus.parquet import TableWriter
from kifu.errors import OutputError, first_line
from kifu.io import utf8_name
from kifu.point import BLACK, WHITE, star_points, to_gtp
from kifu.search.continuations import COLOURS, Continuation, Tally, YearCount, latest_rows, tabulate, year_counts
from kifu.search.match import MatchArrays
from kifu.search.notation import CHARACTERS, format_pattern
from kifu.search.pattern import Pattern, PatternMove, Rectangle
from kifu.search.position import Position
from kifu.search.store import row_groups, take_rows
from kifu.text import Report
from kifu.viz.boards import CountedMove, draw_counts, notebook_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LETTERS = "ABCDEFGHIJKLMNPQRSTUVWYZ"
"""Marks of continuations: without O and X, the stones."""


class Drawing(NamedTuple):
    """A board, or a part of one.

    Attributes:
        cells: [height * width] Allowed contents, as in `Pattern.cells`.
        edges: True for the left, upper, right and lower sides that are edges of the board.
    """

    width: int
    height: int
    cells: tuple[int, ...]
    edges: tuple[bool, bool, bool, bool]
    moves: tuple[PatternMove, ...] = ()

    @classmethod
    def of_position(cls, position: Position) -> Drawing:
        """Return the drawing of a position."""
        return cls(position.width, position.height, position.cells(), (True,) * 4)

    @classmethod
    def of_pattern(cls, pattern: Pattern) -> Drawing:
        """Return the drawing of a pattern."""
        match pattern.anchor:
            case "board":
                edges = (True, True, True, True)
            case "corner":
                edges = (True, True, False, False)
            case "side":
                edges = (False, True, False, False)
            case Rectangle(left, right, top, bottom):
                edges = (left == right == 0, top == bottom == 0, False, False)
            case _:
                edges = (False, False, False, False)
        return cls(pattern.width, pattern.height, pattern.cells, edges, pattern.moves)

    @property
    def is_board(self) -> bool:
        """True for a whole board."""
        return all(self.edges)

    def point_name(self, x: int, y: int) -> str:
        """Return the GTP vertex of a point of a board, else its column and row from the upper left, as in "3-4"."""
        return to_gtp(y * self.width + x, self.width, self.height) if self.is_board else f"{x + 1}-{y + 1}"

    def move_name(self, continuation: Continuation) -> str:
        """Return the name of its point, "pass", or "none"."""
        if continuation.x is None or continuation.y is None:
            return "pass" if continuation.is_pass else "none"
        return self.point_name(continuation.x, continuation.y)

    def letters(self, continuations: Sequence[Continuation]) -> dict[tuple[int, int], str]:
        """Return a letter for each point of the first continuations, in their order."""
        points = dict.fromkeys((each.x, each.y) for each in continuations if each.x is not None and each.y is not None)
        return dict(zip(points, LETTERS))

    def to_text(self, letters: Mapping[tuple[int, int], str]) -> list[str]:
        """Return the drawing as lines of text, with letters on points; X is Black and O White.

        A board has coordinates, a part of one the edges that it touches.
        """
        rows = self._rows(letters)
        if self.is_board:
            columns = [to_gtp(x, self.width, self.height)[0] for x in range(self.width)]
            return ["   " + " ".join(columns), *(f"{self.height - y:2d} {row}" for y, row in enumerate(rows))]
        left, upper, right, lower = self.edges
        rule = "+" * left + "-" * (len(rows[0]) + left + right) + "+" * right
        sides = [f"{'| ' if left else ''}{row}{' |' if right else ''}" for row in rows]
        return [*([rule] if upper else []), *sides, *([rule] if lower else [])]

    def _rows(self, letters: Mapping[tuple[int, int], str]) -> list[str]:
        stars = set(star_points(self.width, self.height)) if self.is_board else set()
        shown = [CHARACTERS[cell] for cell in self.cells]
        shown = ["+" if text == "." and point in stars else text for point, text in enumerate(shown)]
        for number, (x, y, _) in reversed(list(enumerate(self.moves, 1))):
            shown[y * self.width + x] = str(number)
        for (x, y), letter in letters.items():
            shown[y * self.width + x] = letter
        size = max(map(len, shown))
        padded = [text.rjust(size) for text in shown]
        return [" ".join(padded[y * self.width : (y + 1) * self.width]) for y in range(self.height)]

    def to_figure(self, continuations: Sequence[Continuation], title: str = "") -> Figure:
        """Return the picture with the counts of the continuations."""
        moves = [
            CountedMove(
                self.move_name(each),
                None if each.x is None or each.y is None else each.y * self.width + each.x,
                COLOURS.index(each.colour),
                each.count,
                each.share,
                each.win_rate,
            )
            for each in continuations
        ]
        cells = np.array(self.cells).reshape(self.height, self.width)
        numbers = {
            move.y * self.width + move.x: (str(number), move.colour)
            for number, move in reversed(list(enumerate(self.moves, 1)))
        }
        return draw_counts(cells, moves, title=title, edges=self.edges, numbers=numbers)


@dataclass(frozen=True, slots=True)
class FoundGames(Report):
    """Games of a catalogue, and how a pattern or position in them was continued."""

    path: Path
    games: int
    _tally: Tally = field(repr=False)

    @property
    @abstractmethod
    def drawing(self) -> Drawing:
        """The drawing of the pattern or position."""

    @property
    def wins(self) -> tuple[int, int]:
        """The occurrences in games that Black and that White won; of a pattern, its Black and White."""
        return int(self._tally.won[BLACK]), int(self._tally.won[WHITE])

    def latest(self) -> list[int]:
        """Return the rows in the catalogue of the latest games, the latest first, at most 5."""
        return latest_rows(self._tally)

    def by_year(self, continuation: Continuation | None = None) -> list[YearCount]:
        """Return the numbers of occurrences by year, and of those with a continuation; by default all count."""
        return year_counts(self._tally, self.drawing.width, continuation)

    def _counts(self, continuations: Sequence[Continuation]) -> dict[str, Any]:
        black, white = self.wins
        return {
            "games": self.games,
            "black_wins": black,
            "white_wins": white,
            "continuations": [continuation.to_dict() for continuation in continuations],
            "years": [year.to_dict() for year in self.by_year()],
        }


@dataclass(frozen=True, slots=True)
class Exploration(FoundGames):
    """The games in which a position occurs, and how they continue.

    The position is that of the stones, in any orientation; the order of moves does not count. If it occurs several
    times in a game, the first time counts.

    Attributes:
        continuations: The next moves, the most frequent first, no further move last. Moves that a symmetry of the
            position maps to each other are one, on the rightmost of these points, of several the uppermost.
    """

    position: Position
    continuations: list[Continuation] = field(repr=False)

    def __repr__(self) -> str:
        return f"<Exploration of {str(self.path)!r}: {self.games:,} games, {len(self.continuations)} continuations>"

    def _repr_svg_(self) -> str | None:
        return notebook_svg(lambda: self.drawing.to_figure(self.continuations, f"{self.games:,} games"))

    @property
    def drawing(self) -> Drawing:
        """The drawing of the position."""
        return Drawing.of_position(self.position)

    def to_dict(self) -> dict[str, Any]:
        """Return the position, the counts, the continuations and the years as JSON values."""
        rows = np.array([".", "X", "O"])[self.position.stones].reshape(self.position.height, self.position.width)
        return {
            "position": ["".join(row) for row in rows.tolist()],
            "catalogue": utf8_name(str(self.path)),
            **self._counts(self.continuations),
        }


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
class Hits(FoundGames):
    """The hits of a pattern. table: columns HITS, in order; beyond 64 MB, it is mapped from a temporary file."""

    pattern: Pattern
    table: pa.Table = field(repr=False)

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        return f"<Hits in {str(self.path)!r}: {len(self):,} in {self.games:,} games>"

    def _repr_svg_(self) -> str | None:
        title = f"{len(self):,} hits in {self.games:,} games"
        return notebook_svg(lambda: self.drawing.to_figure(self.continuations(), title))

    @property
    def drawing(self) -> Drawing:
        """The drawing of the pattern."""
        return Drawing.of_pattern(self.pattern)

    def rows(self) -> npt.NDArray[np.int64]:
        """Return the rows in the catalogue of the games with hits, ascending: [games] int64."""
        parts = [chunk.to_numpy() for chunk in self.table.column("row").chunks]
        rows = np.concatenate([np.empty(0, np.int64), *parts])
        distinct: npt.NDArray[np.int64] = rows[np.append(True, rows[1:] != rows[:-1])[: len(rows)]]
        return distinct

    def continuations(self) -> list[Continuation]:
        """Return the moves that continue the pattern, the most frequent first, no further move last."""
        return tabulate(self._tally, self.pattern.width)

    def to_dict(self) -> dict[str, Any]:
        """Return the pattern, the counts, the continuations and the years as JSON values, without the table."""
        return {
            "pattern": format_pattern(self.pattern),
            "catalogue": utf8_name(str(self.path)),
            "hits": len(self),
            **self._counts(self.continuations()),
        }

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a Parquet file, whose metadata holds the pattern and the BLAKE3 of the catalogue."""
        with TableWriter(path, HITS) as writer:
            for batch in self.table.to_batches():
                writer.write(batch)
            writer.commit({f"kifu.{key}": value for key, value in self._metadata(open_catalogue(self.path)).items()})

    def write_games(self, path: str | os.PathLike[str]) -> None:
        """Write a catalogue of the games with hits, in the order of this catalogue.

        Its metadata holds the pattern and the BLAKE3 of this catalogue. Memory does not grow with the games. Raises
        FormatError if this catalogue is damaged.
        """
        catalogue = open_catalogue(self.path)
        with CatalogueWriter(path) as writer:
            for batch in take_rows(row_groups(catalogue), self.rows()):
                writer.write(batch)
            writer.commit(self._metadata(catalogue))

    def _metadata(self, catalogue: Catalogue) -> dict[str, Any]:
        return {"search": format_pattern(self.pattern), "of": [{"blake3": catalogue.digest()}]}


class HitCollector:
    """Collects hits, in memory or, beyond 64 MB, in an unnamed temporary file. A context manager."""

    def __init__(self) -> None:
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
    """Return hits in the columns of HITS. first: the row in the catalogue of the first game searched."""
    none = hits.next_ply < 0
    columns = [hits.game + first, hits.ply, hits.symmetry, hits.exchanged, hits.x, hits.y]
    nullable = [hits.next_ply.astype(np.uint16), hits.next_x, hits.next_y, hits.next_colour]
    arrays = [pa.array(column) for column in columns] + [pa.array(column, mask=none) for column in nullable]
    return pa.RecordBatch.from_arrays(arrays, schema=HITS)


def sort_hits(table: pa.Table) -> pa.Table:
    """Return hits in the order of their games; hits of one game stay in their order."""
    rows = table.column("row").to_numpy()
    return table if np.all(rows[1:] >= rows[:-1]) else table.take(np.argsort(rows, kind="stable"))
