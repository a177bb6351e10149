"""Search for patterns in traced games, and for whole boards and the moves after them in an index."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.arrays import MoveArrays
from kifu.go.replay import ReplayArrays, replay_arrays
from kifu.kernel import kernel, writable_view
from kifu.point import BLACK, NO_POINT, POINT_MASK, WHITE, WHITE_BIT, inverse_symmetry, symmetries
from kifu.search._match import BLOCK, NO_STONE, HitArrays, Tables, match_all
from kifu.search.continuations import GameInfo, Occurrences, Tally, add_occurrence, kernel_info, year_codes
from kifu.search.index import SearchIndex
from kifu.search.pattern import ACCEPTS, N_PLACES, SLOTS, MatchPlan, Pattern, compile_pattern
from kifu.search.position import STONES, Position
from kifu.search.positions import EntryLayout, position_hash, unpack_entry
from kifu.search.traces import Traces, games_by_size

_MAX_HITS = 1 << 16
"""Hits that one call of the kernel may return."""

_PASS = 3
"""A colour of no stone."""

_EXCHANGED = np.array([0, WHITE, BLACK], np.uint8)


class MatchArrays(NamedTuple):
    """H hits of a pattern, in order of game, ply, image and place. `kifu.search.results.HITS` tells the meanings."""

    game: npt.NDArray[np.int64]  # [H]: the game's number among those searched
    ply: npt.NDArray[np.uint16]
    symmetry: npt.NDArray[np.uint8]
    exchanged: npt.NDArray[np.bool_]
    x: npt.NDArray[np.uint8]
    y: npt.NDArray[np.uint8]
    next_ply: npt.NDArray[np.int32]  # [H]: -1 without a continuation
    next_x: npt.NDArray[np.uint8]
    next_y: npt.NDArray[np.uint8]
    next_colour: npt.NDArray[np.uint8]  # [H]: BLACK or WHITE, 0 without a continuation
    board_colour: npt.NDArray[np.uint8]  # [H]: the same on the board

    def take(self, which: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> MatchArrays:
        """Return some of the hits, by their numbers or by a mask."""
        return MatchArrays._make(column[which] for column in self)


_DTYPES = (np.int64, np.uint16, np.uint8, np.bool_, *[np.uint8] * 2, np.int32, *[np.uint8] * 4)


def match_games(
    games: MoveArrays, traces: Traces, pattern: Pattern, within: npt.NDArray[np.bool_] | None = None
) -> MatchArrays:
    """Find a pattern in traced games of any sizes. within: [G] bool, those to search, not dropped; None for all."""
    index = np.arange(len(games.width)) if within is None else np.flatnonzero(within)
    arrays, traces = replay_arrays(games), Traces(*(writable_view(array) for array in traces))
    parts = []
    for width, height, group in games_by_size(games, index):
        plan = compile_pattern(pattern, width, height, traces.occupied.shape[2])
        if plan is not None:
            parts.append(_match_group(arrays, traces, plan, group))
    if len(parts) == 1:
        return parts[0]
    empty = MatchArrays._make(np.empty(0, dtype) for dtype in _DTYPES)
    hits = MatchArrays._make(map(np.concatenate, zip(empty, *parts)))
    return hits.take(np.argsort(hits.game, kind="stable"))


def _match_group(games: ReplayArrays, traces: Traces, plan: MatchPlan, group: npt.NDArray[np.int64]) -> MatchArrays:
    plies = int(np.max(traces.plies[group], initial=0))  # NumPy adds to a uint16 in 16 bits
    setup = int(np.max(games.setup_offset[group + 1] - games.setup_offset[group], initial=0))
    tables = Tables(
        first=np.full(SLOTS, NO_STONE, np.uint32), later=np.empty(plies, np.int64), head=np.full(SLOTS, -1, np.int64),
        tail=np.zeros(SLOTS, np.int64), intervals=np.empty((SLOTS + plies + setup, 4), np.int64),
        filled=np.zeros(3, np.int64), captured=np.zeros(SLOTS // 64, np.uint64),
        missing=np.empty(len(plan.images), np.int64),
        occupied=np.zeros((3, 2 * traces.occupied.shape[2] + 1, BLOCK), np.uint64),
        places=np.empty((len(plan.words), BLOCK), np.uint64), any_place=np.empty(BLOCK, np.uint64),
        loaded=np.zeros(1, np.int64),
    )  # fmt: skip
    hits = HitArrays(*np.empty((3, max(_MAX_HITS, int(plan.limits[N_PLACES]))), np.int64))
    parts, done = [np.empty((3, 0), np.int64)], 0
    while done < len(group):
        done, count = match_all(games, traces, plan, tables, group, done, hits)
        parts.append(np.stack([column[:count] for column in hits]))
    game, key, following = np.concatenate(parts, axis=1)
    image, place = key >> 16 & 0xFFFF, key & 0xFFFF
    next_x, next_y, next_colour = plan.continuations[image, following & 0xFFFF].T
    return MatchArrays(
        game=game, ply=(key >> 32).astype(np.uint16), symmetry=plan.symmetry[image], exchanged=plan.exchanged[image],
        x=plan.x[place], y=plan.y[place], next_ply=(following >> 32).astype(np.int32), next_x=next_x, next_y=next_y,
        next_colour=next_colour, board_colour=(following & 3).astype(np.uint8),
    )  # fmt: skip


def hit_occurrences(hits: MatchArrays, pattern: Pattern) -> Occurrences:
    """Return hits as occurrences of a pattern, with rows from 0 on."""
    none = hits.next_ply < 0
    point = hits.next_y.astype(np.uint16) * np.uint16(pattern.width) + hits.next_x
    point[none] = len(pattern.cells) + 1
    # Patterns with a symmetry that exchanges the colours have continuations in other colours than on the board.
    exchanged = np.where(none, hits.exchanged, hits.next_colour != hits.board_colour)
    tenuki = hits.next_ply >= hits.ply.astype(np.int32) + 2
    return Occurrences(hits.game, point, hits.next_colour, exchanged, tenuki)


def pattern_position(pattern: Pattern) -> Position | None:
    """Return the position that a pattern of the whole board without wildcards and moves shows; None for others."""
    if pattern.anchor != "board" or pattern.moves or pattern.consecutive or not STONES.keys() >= set(pattern.cells):
        return None
    return Position(pattern.width, pattern.height, np.array([STONES[cell] for cell in pattern.cells], np.uint8))


def late_rows(index: SearchIndex, position: Position) -> npt.NDArray[np.bool_]:
    """Return the games in which a position may occur after the indexed plies, since they have so few stones."""
    return index.late_stones <= np.count_nonzero(position.stones)


def find_board(index: SearchIndex, pattern: Pattern, position: Position) -> tuple[MatchArrays, npt.NDArray[np.bool_]]:
    """Find a pattern of the whole board, which shows a position, in the games of an index.

    Returns hits, whose games are rows of the file; [rows] bool, games that may have other hits, too, and none of these.
    """
    images = [part for exchanged in (False, True) for part in _find_images(index, pattern, position, exchanged)]
    hits = MatchArrays._make(map(np.concatenate, zip(*(part for part, _ in images))))
    accepted = np.concatenate([accepted for _, accepted in images])
    image = np.repeat(np.arange(len(images)), [len(accepted) for _, accepted in images])
    order = np.lexsort((hits.ply, hits.game))
    if np.any(np.diff(hits.game[order]) == 0):  # of several hits of an image in a game, the first one counts
        order = order[np.sort(np.unique((hits.game * len(images) + image)[order], return_index=True)[1])]
    unsure = late_rows(index, position)
    unsure[hits.game[order][hits.board_colour[order] == _PASS]] = True
    last_ply = NO_POINT if pattern.last_ply is None else pattern.last_ply
    return hits.take(order[accepted[order] & ~unsure[hits.game[order]] & (hits.ply[order] <= last_ply)]), unsure


def _find_images(
    index: SearchIndex, pattern: Pattern, position: Position, exchanged: bool
) -> Iterator[tuple[MatchArrays, npt.NDArray[np.bool_]]]:
    """Yield all occurrences of each image of a pattern, with or without colours exchanged, and which are hits.

    The next move is the continuation. A pass has none, and its `board_colour` is _PASS.
    """
    points = len(position.stones)
    if exchanged:
        position = replace(position, stones=_EXCHANGED[position.stones])
    canonical_hash, to_canonical = position_hash(position)
    entries = None
    for width, height in {(position.width, position.height): 0, (position.height, position.width): 0}:
        plan = compile_pattern(pattern, width, height, 6 if points < 384 else 10)
        if plan is None:
            continue
        for m in np.flatnonzero(plan.exchanged == exchanged).tolist():
            entries = index.lookup(canonical_hash, points) if entries is None else entries
            # The first symmetry that maps the image to the canonical orientation.
            images = _composition()[:, int(plan.symmetry[m])]
            symmetry = next(first for first in range(8) if images[first] in to_canonical)
            same = entries.symmetry == symmetry
            ply, move, colour = entries.ply[same], entries.move[same], entries.colour[same]
            is_stone = move < points
            turned = (height, width) if symmetry & 4 else (width, height)
            from_canonical = symmetries(*turned)[inverse_symmetry(symmetry)]
            point = from_canonical[np.where(is_stone, move, 0)]
            next_x, next_y, next_colour = plan.continuations[m, np.where(is_stone, 4 * point + colour, 0)].T
            none = np.zeros(len(ply), np.uint8)
            hits = MatchArrays(
                game=entries.row[same], ply=ply, symmetry=none + plan.symmetry[m],
                exchanged=np.full(len(ply), exchanged), x=none, y=none, next_ply=np.where(is_stone, ply, np.int32(-1)),
                next_x=next_x, next_y=next_y, next_colour=next_colour,
                board_colour=np.where(move == points, np.uint8(_PASS), colour),
            )  # fmt: skip
            yield hits, plan.images[m, ACCEPTS + colour.astype(np.int64)].astype(np.bool_)


@functools.cache
def _composition() -> npt.NDArray[np.int64]:
    """Return the symmetry that is the same as symmetry k, then j: [8, 8] by j and k."""
    tables = symmetries(3, 3)
    return np.array([[np.flatnonzero((tables == j[k]).all(axis=1))[0] for k in tables] for j in tables])


class NextMoves:
    """Maps moves after a position to one orientation of it, and merges those that are equivalent."""

    def __init__(self, position: Position) -> None:
        self._size = position.width, position.height
        self._points = position.width * position.height
        self._hash, to_canonical = position_hash(position)
        images = symmetries(*self._size)
        self._merged = _representatives(position, images[list(to_canonical)])
        self._from_canonical = self._merged[np.argsort(images[to_canonical[0]])]

    def add_entries(self, tally: Tally, index: SearchIndex, remaining: npt.NDArray[np.bool_], first: int) -> int:
        """Count the first occurrence in each game among those in an index, and return the number of games with any.

        Args:
            remaining: [rows] bool, the games of the file that count; set to False for those with the position.
            first: The row in the catalogue of the first game of the file.
        """
        entries = writable_view(index.packed_entries(self._hash))
        count = _add_entries(
            tally, entries, index.layout, remaining, self._from_canonical, kernel_info(index.info()), year_codes(tally),
            np.int64(first),
        )  # fmt: skip
        if count < 0:
            raise index.damaged("its positions")
        return int(count)

    def of_hits(self, hits: MatchArrays, games: MoveArrays, traces: Traces) -> Occurrences:
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
    """Count entries, see `NextMoves.add_entries`; -1 if one is out of range. table: [n + 1], each move's point."""
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
    """Return the point for each move, [n + 1] int64. images: [K, n + 1], symmetries that map to one orientation."""
    width, points = position.width, position.width * position.height
    moves = np.arange(points + 1)
    preference = moves % width * position.height - moves // width  # rightmost, then uppermost
    preference[points] = 0
    best = moves.copy()
    for image in images:
        other = np.argsort(images[0])[image]  # a symmetry of the position
        best = np.where(preference[other] > preference[best], other, best)
    return best
