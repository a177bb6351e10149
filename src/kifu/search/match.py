"""Search for patterns in traced games, and for whole boards in an index, without reading a game."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.replay import GamesLike, ReplayArrays, replay_arrays
from kifu.kernel import writable_view
from kifu.point import BLACK, NO_POINT, WHITE, inverse_symmetry, symmetries
from kifu.search._match import BLOCK, NO_STONE, BlockArrays, HitArrays, ScanArrays, Tables, match_all
from kifu.search.continuations import Occurrences
from kifu.search.index import SearchIndex
from kifu.search.pattern import ACCEPTS, N_PLACES, SLOTS, MatchPlan, Pattern, compile_pattern
from kifu.search.position import STONES, Position
from kifu.search.positions import position_hash
from kifu.search.traces import Traces, games_by_size

_MAX_HITS = 1 << 16
"""Hits that one call of the kernel may return."""

_PASS = 3
"""A colour of no stone."""

_EXCHANGED = np.array([0, WHITE, BLACK], np.uint8)


class MatchArrays(NamedTuple):
    """H hits of a pattern, in order of game, ply, image and place. `kifu.search.hits.HITS` tells the meanings.

    Attributes:
        game: [H] int64, the game's number among those searched.
        ply: [H] uint16.
        symmetry: [H] uint8.
        exchanged: [H] bool.
        x, y: [H] uint8, column and row of the image's upper left cell.
        next_ply: [H] int32, -1 without a continuation.
        next_x, next_y: [H] uint8, 0 without one.
        next_colour: [H] uint8: BLACK or WHITE, 0 without one.
        board_colour: [H] uint8, the continuation's colour on the board: BLACK or WHITE, 0 without one.
    """

    game: npt.NDArray[np.int64]
    ply: npt.NDArray[np.uint16]
    symmetry: npt.NDArray[np.uint8]
    exchanged: npt.NDArray[np.bool_]
    x: npt.NDArray[np.uint8]
    y: npt.NDArray[np.uint8]
    next_ply: npt.NDArray[np.int32]
    next_x: npt.NDArray[np.uint8]
    next_y: npt.NDArray[np.uint8]
    next_colour: npt.NDArray[np.uint8]
    board_colour: npt.NDArray[np.uint8]

    def take(self, which: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> MatchArrays:
        """Return some of the hits, by their numbers or by a mask."""
        return MatchArrays._make(column[which] for column in self)


_DTYPES = (np.int64, np.uint16, np.uint8, np.bool_, *[np.uint8] * 2, np.int32, *[np.uint8] * 4)


def match_games(
    games: GamesLike, traces: Traces, pattern: Pattern, within: npt.NDArray[np.bool_] | None = None
) -> MatchArrays:
    """Find a pattern in games of any sizes.

    Args:
        traces: Their traces, from `kifu.search.traces.trace_games`.
        within: [G] bool, the games to search, without dropped ones; None for all.
    """
    index = np.arange(len(games.width)) if within is None else np.flatnonzero(within)
    arrays, traces = replay_arrays(games), Traces(*(writable_view(array) for array in traces))
    plies, setup = np.max(traces.plies, initial=0), np.max(np.diff(games.setup_offset), initial=0)
    tables = Tables(
        first=np.full(SLOTS, NO_STONE, np.uint32),
        later=np.empty(plies, np.int64),
        head=np.full(SLOTS, -1, np.int64),
        tail=np.zeros(SLOTS, np.int64),
        intervals=np.empty((SLOTS + plies + setup, 4), np.int64),
        filled=np.zeros(3, np.int64),
    )
    parts = []
    for width, height, group in games_by_size(games, index):
        plan = compile_pattern(pattern, width, height, traces.occupied.shape[2])
        if plan is not None:
            parts.append(_match_group(arrays, traces, plan, tables, group))
    if len(parts) == 1:
        return parts[0]
    empty = MatchArrays._make(np.empty(0, dtype) for dtype in _DTYPES)
    hits = MatchArrays._make(map(np.concatenate, zip(empty, *parts)))
    return hits.take(np.argsort(hits.game, kind="stable"))


def _match_group(
    games: ReplayArrays, traces: Traces, plan: MatchPlan, tables: Tables, group: npt.NDArray[np.int64]
) -> MatchArrays:
    """Return the hits in games of one size."""
    words = traces.occupied.shape[2]
    block = BlockArrays(
        occupied=np.zeros((3, 2 * words + 1, BLOCK), np.uint64),
        places=np.empty((len(plan.words), BLOCK), np.uint64),
        any=np.empty(BLOCK, np.uint64),
        loaded=np.zeros(1, np.int64),
    )
    scan = ScanArrays(np.zeros(SLOTS // 64, np.uint64), np.empty(len(plan.images), np.int64))
    hits = HitArrays(*np.empty((3, max(_MAX_HITS, int(plan.limits[N_PLACES]))), np.int64))
    parts, done = [np.empty((3, 0), np.int64)], 0
    while done < len(group):
        done, count = match_all(games, traces, plan, tables, block, scan, group, done, hits)
        parts.append(np.stack([column[:count] for column in hits]))
    game, key, following = np.concatenate(parts, axis=1)
    image, place = key >> 16 & 0xFFFF, key & 0xFFFF
    next_x, next_y, next_colour = plan.continuations[image, following & 0xFFFF].T
    return MatchArrays(
        game=game,
        ply=(key >> 32).astype(np.uint16),
        symmetry=plan.symmetry[image],
        exchanged=plan.exchanged[image],
        x=plan.x[place],
        y=plan.y[place],
        next_ply=(following >> 32).astype(np.int32),
        next_x=next_x,
        next_y=next_y,
        next_colour=next_colour,
        board_colour=(following & 3).astype(np.uint8),
    )


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
    late: npt.NDArray[np.bool_] = index.late_stones <= np.count_nonzero(position.stones)
    return late


def find_board(index: SearchIndex, pattern: Pattern, position: Position) -> tuple[MatchArrays, npt.NDArray[np.bool_]]:
    """Find a pattern of the whole board in the games of an index.

    Args:
        position: `pattern_position` of the pattern.

    Returns:
        (hits, whose games are rows of the file; [rows] bool, games that may have other hits, too, and none of these).
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
    canonical = position_hash(replace(position, stones=_EXCHANGED[position.stones]) if exchanged else position)
    entries = None
    for width, height in {(position.width, position.height): 0, (position.height, position.width): 0}:
        plan = compile_pattern(pattern, width, height, 6 if points < 384 else 10)
        if plan is None:
            continue
        for m in np.flatnonzero(plan.exchanged == exchanged).tolist():
            entries = index.lookup(canonical.hash, points) if entries is None else entries
            to_canonical = _first_symmetry(canonical.symmetries, int(plan.symmetry[m]))
            same = entries.symmetry == to_canonical
            ply, move, colour = entries.ply[same], entries.move[same], entries.colour[same]
            is_stone = move < points
            turned = (height, width) if to_canonical & 4 else (width, height)
            from_canonical = symmetries(*turned)[inverse_symmetry(to_canonical)]
            point = from_canonical[np.where(is_stone, move, 0)]
            next_x, next_y, next_colour = plan.continuations[m, np.where(is_stone, 4 * point + colour, 0)].T
            none = np.zeros(len(ply), np.uint8)
            hits = MatchArrays(
                game=entries.row[same],
                ply=ply,
                symmetry=none + plan.symmetry[m],
                exchanged=np.full(len(ply), exchanged),
                x=none,
                y=none,
                next_ply=np.where(is_stone, ply, np.int32(-1)),
                next_x=next_x,
                next_y=next_y,
                next_colour=next_colour,
                board_colour=np.where(move == points, np.uint8(_PASS), colour),
            )
            yield hits, plan.images[m, ACCEPTS + colour.astype(np.int64)].astype(np.bool_)


def _first_symmetry(to_canonical: tuple[int, ...], k: int) -> int:
    """Return the first symmetry that maps the image under symmetry k to the canonical orientation."""
    return next(first for first in range(8) if _composition()[first, k] in to_canonical)


@functools.cache
def _composition() -> npt.NDArray[np.int64]:
    """Return the symmetry that is the same as symmetry k, then j: [8, 8] by j and k."""
    tables = symmetries(3, 3)
    return np.array([[np.flatnonzero((tables == j[k]).all(axis=1))[0] for k in tables] for j in tables])
