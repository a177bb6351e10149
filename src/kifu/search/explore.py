"""The continuations of a position of the whole board."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.go.replay import GamesLike
from kifu.io import utf8_name
from kifu.kernel import kernel, writable_view
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT, symmetries
from kifu.search.continuations import (
    Continuation,
    GameInfo,
    Occurrences,
    Tally,
    YearCount,
    add_occurrence,
    kernel_info,
    latest_rows,
    year_codes,
    year_counts,
)
from kifu.search.drawing import Drawing
from kifu.search.index import SearchIndex
from kifu.search.match import MatchArrays
from kifu.search.position import Position
from kifu.search.positions import EntryLayout, position_hash, unpack_entry
from kifu.search.traces import Traces
from kifu.text import Report
from kifu.viz.boards import notebook_svg


@dataclass(frozen=True, slots=True)
class Exploration(Report):
    """The games in which a position occurs, and how they continue.

    The position is that of the stones, in any orientation; the order of moves does not count. If it occurs several
    times in a game, the first time counts.

    Attributes:
        continuations: The next moves, the most frequent first, no further move last. Moves that a symmetry of the
            position maps to each other are one, on the rightmost of these points, of several the uppermost.
    """

    position: Position
    path: Path
    games: int
    continuations: list[Continuation] = field(repr=False)
    _tally: Tally = field(repr=False)

    def __repr__(self) -> str:
        return f"<Exploration of {str(self.path)!r}: {self.games:,} games, {len(self.continuations)} continuations>"

    def _repr_svg_(self) -> str | None:
        """Return a picture with the counts of the continuations, for notebooks; None without matplotlib."""
        drawing = Drawing.of_position(self.position)
        return notebook_svg(lambda: drawing.to_figure(self.continuations, f"{self.games:,} games"))

    @property
    def wins(self) -> tuple[int, int]:
        """The games that Black and that White won."""
        return int(self._tally.won[BLACK]), int(self._tally.won[WHITE])

    def latest(self) -> list[int]:
        """Return the rows in the catalogue of the latest games, the latest first, at most 5."""
        return latest_rows(self._tally)

    def by_year(self, continuation: Continuation | None = None) -> list[YearCount]:
        """Return the numbers of games by year, and of those with a continuation; by default all count."""
        return year_counts(self._tally, self.position.width, continuation)

    def to_dict(self) -> dict[str, Any]:
        """Return the position, the counts, the continuations and the years as JSON values."""
        black, white = self.wins
        rows = np.array([".", "X", "O"])[self.position.stones].reshape(self.position.height, self.position.width)
        return {
            "position": ["".join(row) for row in rows.tolist()],
            "catalogue": utf8_name(str(self.path)),
            "games": self.games,
            "black_wins": black,
            "white_wins": white,
            "continuations": [each.to_dict() for each in self.continuations],
            "years": [each.to_dict() for each in self.by_year()],
        }


class NextMoves:
    """Maps moves after a position to one orientation of it, and merges those that are equivalent."""

    def __init__(self, position: Position) -> None:
        """Prepare the tables of a position."""
        self._size = position.width, position.height
        self._points = position.width * position.height
        self.canonical = position_hash(position)
        images = symmetries(*self._size)
        self._merged = _representatives(position, images[list(self.canonical.symmetries)])
        self._from_canonical = self._merged[np.argsort(images[self.canonical.symmetry])]

    def add_entries(self, tally: Tally, index: SearchIndex, remaining: npt.NDArray[np.bool_], first: int) -> int:
        """Count the first occurrence in each game among those in an index.

        Args:
            remaining: [rows] bool, the games of the file that count; set to False for those with the position.
            first: The row in the catalogue of the first game of the file.

        Returns:
            The number of games with the position.
        """
        entries = writable_view(index.packed_entries(self.canonical.hash))
        count = _add_entries(
            tally, entries, index.layout, remaining, self._from_canonical, kernel_info(index.info()), year_codes(tally),
            np.int64(first),
        )  # fmt: skip
        if count < 0:
            raise index.damaged("its positions")
        return int(count)

    def of_hits(self, hits: MatchArrays, games: GamesLike, traces: Traces) -> Occurrences:
        """Return the first occurrence in each game among hits of the position as a pattern."""
        first = np.flatnonzero(np.append(True, hits.game[1:] != hits.game[:-1])[: len(hits.game)])
        row, ply, symmetry = hits.game[first], hits.ply[first].astype(np.int64), hits.symmetry[first]
        has_next = ply < traces.plies[row]
        move = np.zeros(len(row), np.uint16)
        move[has_next] = games.moves[(games.move_offset[row] + ply)[has_next]]
        tables = np.empty((8, self._points + 1), np.int64)  # from the board to the position as given
        for k in range(8):
            tables[k] = np.argsort(symmetries(*self._size)[k])
        point = self._merged[tables[symmetry, move & POINT_MASK]]
        colour = np.where(has_next, np.where(move & WHITE_BIT, WHITE, BLACK), 0)
        never = np.zeros(len(row), np.bool_)
        point = np.where(has_next, point, self._points + 1)
        return Occurrences(row, point.astype(np.uint16), colour.astype(np.uint8), never, never)


@kernel
def _add_entries(
    tally: Tally, entries: Any, layout: EntryLayout, remaining: Any, table: Any, info: GameInfo, code: Any, first: Any
) -> Any:
    """Count entries, see `NextMoves.add_entries`. table: [n + 1], the point for each next move.

    Returns -1 if the row or move of an entry is out of range.
    """
    count, n = np.int64(0), np.int64(table.shape[0] - 1)
    for i in range(entries.shape[0]):
        row, _, move, colour, _ = unpack_entry(entries[i], layout)
        if row >= remaining.shape[0] or (move > n and colour != 0):
            return -1
        if remaining[row]:
            remaining[row] = False
            point = n + 1 if colour == 0 else np.int64(table[move])
            add_occurrence(tally, row, point, colour, False, False, info, code, first)
            count += 1
    return count


def _representatives(position: Position, images: npt.NDArray[np.int16]) -> npt.NDArray[np.int64]:
    """Return the point that stands for each move: [n + 1] int64.

    Args:
        images: [K, n + 1], the symmetries that map it to one orientation.
    """
    width, points = position.width, position.width * position.height
    moves = np.arange(points + 1)
    preference = moves % width * position.height - moves // width  # rightmost, then uppermost
    preference[points] = 0
    best = moves.copy()
    for image in images:
        other = np.argsort(images[0])[image]  # a symmetry of the position
        best = np.where(preference[other] > preference[best], other, best)
    return best
