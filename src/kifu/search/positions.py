"""Entries of the positions of games, by hashes that are invariant under the symmetries of the board.

`position@2` is the hash of the stones on a board; the player to move, ko, prisoners and earlier moves do not count.
It is that of `kifu.corpus.positions` with Black's stones as the own ones, mixed to distribute its bits evenly:

    hash under symmetry k = as for position@1, with keys[0] for black stones and keys[1] for white ones
    hash                  = mix(the minimum of the eight), with `mix` of `kifu.corpus.hashes`

The canonical orientation of a position is that with the lowest hash; if several symmetries lead to it, the first one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.arrays import Hashes, MoveArrays
from kifu.corpus.hashes import mix, mix_words
from kifu.go.replay import ReplayArrays, colour_of, replay_arrays
from kifu.go.state import EMPTY, PositionTables, clear_stones, lowest_hash, position_tables, set_stone, symmetry_keys
from kifu.kernel import inline_kernel, kernel, writable_view
from kifu.point import BLACK, ERASE_BIT, NO_POINT, POINT_MASK
from kifu.search.position import Position
from kifu.search.traces import LAST_STONE, Traces, games_by_size

SYMMETRY_BITS = 3
COLOUR_BITS = 1
_POINT = LAST_STONE - 1


class EntryLayout(NamedTuple):
    """The numbers of bits of the fields of an entry, from the highest: row, ply, next move, colour, symmetry."""

    row: int
    ply: int
    move: int  # Bits of the next move; all ones for no further move


@inline_kernel
def _set_up(s: PositionTables, games: ReplayArrays, first: Any, stop: Any, ply: Any) -> Any:
    """Put the setup entries `first` to `stop` - 1 that are due at `ply` on the board. Return the index of the next.

    An entry off the board ends the game.
    """
    at = first
    while at < stop and games.setup_ply[at] <= ply:
        p = np.int64(games.setup[at] & POINT_MASK)
        if p >= s.colour.shape[0]:
            return stop
        set_stone(s, p, EMPTY if games.setup[at] & ERASE_BIT else np.int64(colour_of(games.setup[at])))
        at += 1
    return at


@inline_kernel
def _remove_captured(s: PositionTables, captures: Any, first: Any, stop: Any) -> Any:
    """Remove the captured points from `captures[first]` on. Return the index after the last of them.

    The traces may come from a file.
    """
    at, more = first, True
    while more and at < stop:
        p = np.int64(captures[at] & _POINT)
        more = captures[at] & LAST_STONE == 0
        if p < s.colour.shape[0]:
            set_stone(s, p, EMPTY)
        at += 1
    return at


@kernel
def list_entries(  # noqa: PLR0913 - kernel
    s: PositionTables, games: ReplayArrays, plies: Any, capture_offset: Any, captures: Any, game_index: Any,
    first_row: Any, layout: EntryLayout, entry_offset: Any, hashes: Any, entries: Any,
) -> None:  # fmt: skip
    """Fill the hash and the entry of the first positions of games on boards of one size.

    plies, capture_offset, captures: as in `Traces`. entry_offset: [G + 1] int64, the entries of game g are
    hashes[entry_offset[g]:entry_offset[g + 1]], at most plies[g] + 1. hashes, entries: [N] uint64.
    """
    n = s.colour.shape[0]
    for i in range(game_index.shape[0]):
        g = game_index[i]
        clear_stones(s)
        setup, stop = games.setup_offset[g], games.setup_offset[g + 1]
        captured, last = capture_offset[g], capture_offset[g + 1]
        first = entry_offset[g]
        for t in range(entry_offset[g + 1] - first):
            setup = _set_up(s, games, setup, stop, t)
            k = lowest_hash(s.hashes)
            hashes[first + t] = mix(s.hashes[k])
            fields = ((np.int64(first_row) + g) << layout.ply | t) << layout.move
            if t == plies[g]:
                fields = (fields | ((1 << layout.move) - 1)) << (COLOUR_BITS + SYMMETRY_BITS) | k
                entries[first + t] = np.uint64(fields)
                break
            word = games.moves[games.move_offset[g] + t]
            move, c = np.int64(word & POINT_MASK), np.int64(colour_of(word))
            fields = ((fields | np.int64(s.images[k, move])) << COLOUR_BITS | (c - 1)) << SYMMETRY_BITS | k
            entries[first + t] = np.uint64(fields)
            if move < n:
                set_stone(s, move, c)
            if captured < last and captures[captured] == t:
                captured = _remove_captured(s, captures, captured + 1, last)


@kernel
def count_late_stones(
    colour: Any, games: ReplayArrays, plies: Any, capture_offset: Any, captures: Any, game_index: Any, first_ply: Any,
    fewest: Any,
) -> None:  # fmt: skip
    """Fill the fewest stones in any position of games on boards of one size from `first_ply` on.

    colour: [n] uint8, scratch memory. plies, capture_offset, captures: as in `Traces`. fewest: [G] uint16, lowered.
    """
    n = colour.shape[0]
    for i in range(game_index.shape[0]):
        g = game_index[i]
        for q in range(n):
            colour[q] = EMPTY
        stones = np.int64(0)
        setup, stop = games.setup_offset[g], games.setup_offset[g + 1]
        captured, last = capture_offset[g], capture_offset[g + 1]
        for t in range(np.int64(plies[g]) + 1):
            while setup < stop and games.setup_ply[setup] <= t:
                p = np.int64(games.setup[setup] & POINT_MASK)
                setup = setup + 1 if p < n else stop  # one off the board ends the game
                if p < n:
                    before = colour[p]
                    colour[p] = EMPTY if games.setup[setup - 1] & ERASE_BIT else BLACK
                    stones += np.int64(colour[p]) - before
            if t >= first_ply:
                fewest[g] = min(np.int64(fewest[g]), stones)
            if t < plies[g]:
                p = np.int64(games.moves[games.move_offset[g] + t] & POINT_MASK)
                if p < n:
                    stones += BLACK - np.int64(colour[p])
                    colour[p] = BLACK
                more = captured < last and captures[captured] == t
                while more:
                    captured += 1
                    p = np.int64(captures[captured] & _POINT)
                    stones -= np.int64(colour[p])
                    colour[p] = EMPTY
                    more = captures[captured] & LAST_STONE == 0
                    captured += not more


@inline_kernel
def unpack_entry(entry: Any, layout: EntryLayout) -> Any:
    """Return row, ply, next move, its colour, and the symmetry, see `kifu.search.positions.PositionEntries`."""
    word = np.int64(entry & np.uint64(0x7FFFFFFFFFFFFFFF))
    symmetry = word & 7
    colour = 1 + ((word >> SYMMETRY_BITS) & 1)
    word >>= SYMMETRY_BITS + COLOUR_BITS
    none = (1 << layout.move) - 1
    move = word & none
    if move == none:
        move, colour = np.int64(NO_POINT), np.int64(0)
    word >>= layout.move
    ply = word & ((1 << layout.ply) - 1)
    row = (word >> layout.ply) & ((1 << layout.row) - 1)
    return row, ply, move, colour, symmetry


@kernel
def unpack_all(entries: Any, layout: EntryLayout, row: Any, ply: Any, move: Any, colour: Any, symmetry: Any) -> None:
    """Fill the fields of N entries, see `kifu.search.positions.PositionEntries`."""
    for i in range(entries.shape[0]):
        row[i], ply[i], move[i], colour[i], symmetry[i] = unpack_entry(entries[i], layout)


@kernel
def sort_entries(
    hashes: Any, fields: Any, top: Any, low: Any, first: Any, starts: Any, small: Any, entries: Any
) -> None:
    """Divide N positions into buckets by the highest `top` bits of their hashes, and sort buckets of up to `small`.

    Args:
        hashes: [N] uint64.
        fields: [N] uint64, the packed fields, in the lowest `low` bits.
        top: 1 to 63.
        low: 1 to 63.
        first: The bucket of the lowest hash.
        starts: [B + 1] int64, zeros; receives the start of each bucket from `first` on in `entries`, and N.
        small: See above; larger buckets keep the order of the positions.
        entries: [N] uint64, receives the bits of the hash below the highest `top`, as many as fit, and the fields.
    """
    shift, up, down = np.uint64(64 - top), np.uint64(top), np.uint64(low)
    for i in range(hashes.shape[0]):
        starts[np.int64(hashes[i] >> shift) - first + 1] += 1
    for b in range(1, starts.shape[0]):
        starts[b] += starts[b - 1]
    for i in range(hashes.shape[0]):
        b = np.int64(hashes[i] >> shift) - first
        entries[starts[b]] = ((hashes[i] << up) >> down) << down | fields[i]
        starts[b] += 1
    for b in range(starts.shape[0] - 1, 0, -1):
        starts[b] = starts[b - 1]
    starts[0] = 0
    for b in range(starts.shape[0] - 1):
        if starts[b + 1] - starts[b] <= small:
            _sort_few(entries, starts[b], starts[b + 1])


@inline_kernel
def _sort_few(values: Any, start: Any, stop: Any) -> None:
    for i in range(start + 1, stop):
        value, at = values[i], i
        while at > start and values[at - 1] > value:
            values[at] = values[at - 1]
            at -= 1
        values[at] = value


NO_STONES = 0xFFFF
"""The value of `late_stones` for games without later positions."""


class PositionEntries(NamedTuple):
    """N positions of games."""

    row: npt.NDArray[np.int64]  # [N]: the game's row in the file, or in the batch
    ply: npt.NDArray[np.uint16]  # [N]: the number of moves before the position
    # [N]: the next move, on the canonical orientation of the board: a point, or n for a pass, or NO_POINT if the game
    # has no further move
    move: npt.NDArray[np.uint16]
    colour: npt.NDArray[np.uint8]  # [N]: of the next move: BLACK or WHITE; 0 without one
    symmetry: npt.NDArray[np.uint8]  # [N]: the first symmetry that maps the position to its canonical orientation


def position_hash(position: Position) -> tuple[int, tuple[int, ...]]:
    """Return the hash of a position, and the symmetries, ascending, that map it to its canonical orientation."""
    keys, empty = symmetry_keys(position.width, position.height)
    points = np.flatnonzero(position.stones)
    hashes = empty ^ np.bitwise_xor.reduce(keys[position.stones[points] - 1, points], axis=0)
    with np.errstate(over="ignore"):
        canonical = int(mix_words(hashes.min(keepdims=True))[0])
    return canonical, tuple(np.flatnonzero(hashes == hashes.min()).tolist())


def entry_layout(rows: int, plies: int, points: int) -> EntryLayout:
    """Return the layout of the entries of games with at most `plies` positions on boards of at most `points` points."""
    return EntryLayout(max(rows - 1, 0).bit_length(), max(plies - 1, 0).bit_length(), (points + 1).bit_length())


def entry_bits(layout: EntryLayout) -> int:
    """Return the number of bits of an entry."""
    return sum(layout) + COLOUR_BITS + SYMMETRY_BITS


def pack_positions(
    games: MoveArrays, kept: npt.NDArray[np.bool_], traces: Traces, plies: int, layout: EntryLayout, first_row: int = 0
) -> tuple[Hashes, npt.NDArray[np.uint64]]:
    """List the first `plies` positions of each kept game, in order of row and ply.

    A game of fewer moves has an entry for its last position too. Passes are moves, and each position is listed.

    Returns:
        (hashes, the fields of `PositionEntries` in the low `entry_bits(layout)` bits), both [N] uint64.
    """
    counts = np.where(kept, np.minimum(traces.plies.astype(np.int64) + 1, plies), 0)
    offset = np.append(0, np.cumsum(counts))
    hashes, entries = np.empty(offset[-1], np.uint64), np.empty(offset[-1], np.uint64)
    size = games.width.astype(np.int64) * 256 + games.height
    arrays = replay_arrays(games)
    for key in np.unique(size[counts > 0]).tolist():
        tables = position_tables(*divmod(key, 256))
        with np.errstate(over="ignore"):
            list_entries(
                tables, arrays, writable_view(traces.plies), writable_view(traces.capture_offset),
                writable_view(traces.captures), np.flatnonzero(kept & (size == key)), first_row, layout, offset,
                hashes, entries,
            )  # fmt: skip
    return hashes, entries


def late_stones(games: MoveArrays, kept: npt.NDArray[np.bool_], traces: Traces, plies: int) -> npt.NDArray[np.uint16]:
    """Return [G] uint16: the fewest stones in any position that `pack_positions` does not list, or NO_STONES."""
    fewest = np.full(len(kept), NO_STONES, np.uint16)
    arrays = replay_arrays(games)
    for width, height, group in games_by_size(games, np.flatnonzero(kept & (traces.plies >= plies))):
        count_late_stones(
            np.empty(width * height, np.uint8), arrays, writable_view(traces.plies),
            writable_view(traces.capture_offset), writable_view(traces.captures), group, plies, fewest,
        )  # fmt: skip
    return fewest


def unpack_entries(entries: npt.NDArray[np.uint64], layout: EntryLayout) -> PositionEntries:
    """Return the fields of [N] packed entries; bits above them are ignored."""
    count = len(entries)
    row, colour, symmetry = np.empty(count, np.int64), np.empty(count, np.uint8), np.empty(count, np.uint8)
    fields = PositionEntries(row, np.empty(count, np.uint16), np.empty(count, np.uint16), colour, symmetry)
    unpack_all(entries, layout, *fields)
    return fields
