"""Entries of the positions of games, by hashes that are invariant under the symmetries of the board.

`position@2` is the hash of the stones on a board; the player to move, ko, prisoners and earlier moves do not count.
It is that of `kifu.leaks.positions` with Black's stones as the own ones, mixed so that its bits are evenly distributed:

    hash under symmetry k = as for position@1, with keys[0] for black stones and keys[1] for white ones
    hash                  = mix(the minimum of the eight), with `mix` of `kifu.corpus.hashes`

The canonical orientation of a position is that with the lowest hash; if several symmetries lead to it, the first one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.corpus import _hashes
from kifu.corpus.hashes import Hashes
from kifu.go.replay import GamesLike, replay_arrays
from kifu.go.state import position_tables, symmetry_keys
from kifu.kernel import writable_view
from kifu.search import _positions
from kifu.search._positions import COLOUR_BITS, SYMMETRY_BITS, Layout
from kifu.search.position import Position
from kifu.search.traces import Traces, games_by_size

NO_STONES = 0xFFFF
"""The value of `late_stones` for games without later positions."""


class CanonicalPosition(NamedTuple):
    """The hash of a position, and the symmetries that lead to its canonical orientation.

    Attributes:
        hash: Equal for positions that a symmetry maps to each other.
        symmetry: 0 to 7, the first symmetry that maps the position to its canonical orientation.
        symmetries: All symmetries that do, ascending; several if the position is symmetric.
    """

    hash: int
    symmetry: int
    symmetries: tuple[int, ...]


class PositionEntries(NamedTuple):
    """N positions of games.

    Attributes:
        row: [N] int64, the game's row in the file, or in the batch.
        ply: [N] uint16, the number of moves before the position.
        move: [N] uint16, the next move, on the canonical orientation of the board: a point, or n for a pass, or
            NO_POINT if the game has no further move.
        colour: [N] uint8, of the next move: BLACK or WHITE; 0 without one.
        symmetry: [N] uint8, the first symmetry that maps the position to its canonical orientation.
    """

    row: npt.NDArray[np.int64]
    ply: npt.NDArray[np.uint16]
    move: npt.NDArray[np.uint16]
    colour: npt.NDArray[np.uint8]
    symmetry: npt.NDArray[np.uint8]


class PackedPositions(NamedTuple):
    """N positions of games in order of row and ply.

    Attributes:
        hashes: [N] uint64.
        entries: [N] uint64, the fields of `PositionEntries` in the low `entry_bits(layout)` bits.
    """

    hashes: Hashes
    entries: npt.NDArray[np.uint64]


def position_hash(position: Position) -> CanonicalPosition:
    """Return the hash and the canonical orientation of a position."""
    keys, empty = symmetry_keys(position.width, position.height)
    points = np.flatnonzero(position.stones)
    hashes = empty ^ np.bitwise_xor.reduce(keys[position.stones[points] - 1, points], axis=0)
    with np.errstate(over="ignore"):
        canonical = int(_hashes.mix_words(hashes.min(keepdims=True))[0])
    lowest = tuple(np.flatnonzero(hashes == hashes.min()).tolist())
    return CanonicalPosition(canonical, lowest[0], lowest)


def entry_layout(rows: int, plies: int, points: int) -> Layout:
    """Return the layout of the entries of some games.

    Args:
        plies: The maximum number of positions of each game.
        points: The number of points of the largest board.
    """
    return Layout(max(rows - 1, 0).bit_length(), max(plies - 1, 0).bit_length(), (points + 1).bit_length())


def entry_bits(layout: Layout) -> int:
    """Return the number of bits of an entry."""
    return sum(layout) + COLOUR_BITS + SYMMETRY_BITS


def pack_positions(
    games: GamesLike, kept: npt.NDArray[np.bool_], traces: Traces, plies: int, layout: Layout, first_row: int = 0
) -> PackedPositions:
    """List the positions of kept games before each of their first moves.

    A game of fewer moves has an entry for its last position too. Passes are moves, and each position is listed.

    Args:
        kept: [G], False for games without entries.
        plies: The maximum number of positions of each game.
        first_row: The row of the first game.
    """
    counts = np.where(kept, np.minimum(traces.plies.astype(np.int64) + 1, plies), 0)
    offset = np.append(0, np.cumsum(counts))
    packed = PackedPositions(np.empty(offset[-1], np.uint64), np.empty(offset[-1], np.uint64))
    size = games.width.astype(np.int64) * 256 + games.height
    arrays = replay_arrays(games)
    for key in np.unique(size[counts > 0]).tolist():
        tables = position_tables(*divmod(key, 256))
        with np.errstate(over="ignore"):
            _positions.list_entries(
                tables, arrays, writable_view(traces.plies), writable_view(traces.capture_offset),
                writable_view(traces.captures), np.flatnonzero(kept & (size == key)), first_row, layout, offset,
                packed.hashes, packed.entries,
            )  # fmt: skip
    return packed


def late_stones(games: GamesLike, kept: npt.NDArray[np.bool_], traces: Traces, plies: int) -> npt.NDArray[np.uint16]:
    """Return the fewest stones in any position that `pack_positions` does not list: [G] uint16, NO_STONES without any.

    Args:
        kept: [G], False for games without positions.
        plies: The maximum number of positions of each game that are listed.
    """
    fewest = np.full(len(kept), NO_STONES, np.uint16)
    arrays = replay_arrays(games)
    for width, height, group in games_by_size(games, np.flatnonzero(kept & (traces.plies >= plies))):
        _positions.count_late_stones(
            np.empty(width * height, np.uint8), arrays, writable_view(traces.plies),
            writable_view(traces.capture_offset), writable_view(traces.captures), group, plies, fewest,
        )  # fmt: skip
    return fewest


def unpack_entries(entries: npt.NDArray[np.uint64], layout: Layout) -> PositionEntries:
    """Return the fields of [N] packed entries; bits above them are ignored."""
    count = len(entries)
    row, colour, symmetry = np.empty(count, np.int64), np.empty(count, np.uint8), np.empty(count, np.uint8)
    fields = PositionEntries(row, np.empty(count, np.uint16), np.empty(count, np.uint16), colour, symmetry)
    _positions.unpack_entries(writable_view(entries), layout, *fields)
    return fields
