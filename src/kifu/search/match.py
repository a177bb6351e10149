"""Search for patterns in traced games."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.replay import GamesLike, ReplayArrays, replay_arrays
from kifu.kernel import writable_view
from kifu.search._hits import N_PLACES, HitArrays, MatchPlan
from kifu.search._intervals import NO_STONE, SLOTS, Tables, TraceArrays
from kifu.search._match import BLOCK, BlockArrays, match_all
from kifu.search._scan import ScanArrays
from kifu.search.pattern import Pattern
from kifu.search.plan import CompiledPattern, compile_pattern
from kifu.search.traces import Traces, games_by_size

_ROOM = 1 << 16
"""Hits that one call of the kernel may return."""


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


def match_games(
    games: GamesLike, traces: Traces, pattern: Pattern, within: npt.NDArray[np.bool_] | None = None
) -> MatchArrays:
    """Find a pattern in games of any sizes.

    Args:
        traces: Their traces, from `kifu.search.traces.trace_games`.
        within: [G] bool, the games to search, without dropped ones; None for all.
    """
    index = np.arange(len(games.width)) if within is None else np.flatnonzero(within)
    arrays, trace_arrays = replay_arrays(games), _trace_arrays(traces)
    tables = _new_tables(games, traces)
    parts = []
    for width, height, group in games_by_size(games, index):
        compiled = compile_pattern(pattern, width, height, traces.occupied.shape[2])
        if compiled is not None:
            hits = _match_group(arrays, trace_arrays, compiled.plan, tables, group)
            parts.append(_to_arrays(hits, compiled, width))
    return _in_order(parts)


def _trace_arrays(traces: Traces) -> TraceArrays:
    return TraceArrays(*(writable_view(getattr(traces, name)) for name in TraceArrays._fields))


def _new_hits(count: int) -> HitArrays:
    return HitArrays(*(np.empty(count, np.int64) for _ in HitArrays._fields))


def _new_tables(games: GamesLike, traces: Traces) -> Tables:
    plies, setup = np.max(traces.plies, initial=0), np.max(np.diff(games.setup_offset), initial=0)
    return Tables(
        first=np.full(SLOTS, NO_STONE, np.uint32),
        later=np.empty(plies, np.int64),
        head=np.full(SLOTS, -1, np.int64),
        tail=np.zeros(SLOTS, np.int64),
        intervals=np.empty((SLOTS + plies + setup, 4), np.int64),
        filled=np.zeros(3, np.int64),
    )


def _match_group(
    games: ReplayArrays, traces: TraceArrays, plan: MatchPlan, tables: Tables, group: npt.NDArray[np.int64]
) -> HitArrays:
    """Return the hits in games of one size."""
    words = traces.occupied.shape[2]
    block = BlockArrays(
        occupied=np.zeros((3, 2 * words + 1, BLOCK), np.uint64),
        places=np.empty((len(plan.words), BLOCK), np.uint64),
        any=np.empty(BLOCK, np.uint64),
        loaded=np.zeros(1, np.int64),
    )
    ws = ScanArrays(np.zeros(SLOTS // 64, np.uint64), np.empty(len(plan.images), np.int64))
    room = _new_hits(max(_ROOM, int(plan.limits[N_PLACES])))
    parts, done = [], 0
    while done < len(group):
        done, count = match_all(games, traces, plan, tables, block, ws, group, done, room)
        parts.append(HitArrays(*(column[:count].copy() for column in room)))
    return HitArrays._make(map(np.concatenate, zip(*parts))) if parts else _new_hits(0)


def _to_arrays(hits: HitArrays, compiled: CompiledPattern, width: int) -> MatchArrays:
    """Return hits on boards of so many columns in the orientation of the pattern."""
    image = hits.key >> 16 & 0xFFFF
    y, x = np.divmod(hits.key & 0xFFFF, width)
    next_x, next_y, next_colour = compiled.continuations[image, hits.next & 0xFFFF].T
    return MatchArrays(
        game=hits.game,
        ply=(hits.key >> 32).astype(np.uint16),
        symmetry=compiled.symmetry[image],
        exchanged=compiled.exchanged[image],
        x=x.astype(np.uint8),
        y=y.astype(np.uint8),
        next_ply=(hits.next >> 32).astype(np.int32),
        next_x=next_x,
        next_y=next_y,
        next_colour=next_colour,
    )


def _in_order(parts: list[MatchArrays]) -> MatchArrays:
    """Return the hits of games of several sizes in order of their games."""
    if len(parts) == 1:
        return parts[0]
    empty = MatchArrays._make(np.empty(0, dtype) for dtype in _DTYPES)
    hits = MatchArrays._make(map(np.concatenate, zip(empty, *parts)))
    order = np.argsort(hits.game, kind="stable")
    return MatchArrays._make(column[order] for column in hits)


_DTYPES = (np.int64, np.uint16, np.uint8, np.bool_, np.uint8, np.uint8, np.int32, np.uint8, np.uint8, np.uint8)
