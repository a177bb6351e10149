"""Traces of games: which stones left the board when, and which points were ever occupied.

With its trace, a game needs no rules any more: the moves tell when each stone came, the trace when it went.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.replay import GamesLike, replay_arrays
from kifu.go.rules import RECORD_RULES, new_history
from kifu.go.state import new_state
from kifu.point import MAX_SIZE
from kifu.search._traces import LAST_STONE, trace_all

__all__ = ["LAST_STONE", "Traces", "bit_set_words", "games_by_size", "trace_games"]


class Traces(NamedTuple):
    """Traces of G games.

    Attributes:
        plies: [G] uint16, how many moves are searched: those before the first illegal one; 0 for dropped games.
        capture_offset: [G + 1] int64.
        captures: [C] uint16. The captures of game g are captures[capture_offset[g]:capture_offset[g + 1]]: for each
            capturing move its number from 0, then the points that became empty, ascending, the last one with
            LAST_STONE. Stones lost by suicide are included, with the stone of the move itself.
        occupied: [G, 2, W] uint64, bit sets as in `kifu.go.state` of the points ever occupied at the end of a move or
            set up by Black and by White; W is 6 if all boards are smaller than 384 points, else 10.
    """

    plies: npt.NDArray[np.uint16]
    capture_offset: npt.NDArray[np.int64]
    captures: npt.NDArray[np.uint16]
    occupied: npt.NDArray[np.uint64]


def bit_set_words(games: GamesLike) -> int:
    """Return the number of words of bit sets that hold the points of all boards, see `Traces.occupied`."""
    return 6 if np.max(games.width * games.height.astype(np.int64), initial=0) < 384 else 10


def games_by_size(games: GamesLike, index: npt.NDArray[np.int64]) -> list[tuple[int, int, npt.NDArray[np.int64]]]:
    """Return (width, height, games) for each board size from 1 x 1 to 25 x 25 among some games.

    Args:
        index: [R] int64, numbers of games.
    """
    size = games.width[index].astype(np.int64) * (MAX_SIZE + 1) + games.height[index]
    counts = np.bincount(size, minlength=1)
    groups = []
    for key in np.flatnonzero(counts).tolist():
        width, height = divmod(key, MAX_SIZE + 1)
        if 1 <= width <= MAX_SIZE and height >= 1:
            groups.append((width, height, index if counts[key] == len(index) else index[size == key]))
    return groups


def trace_games(games: GamesLike, kept: npt.NDArray[np.bool_] | None = None) -> Traces:
    """Replay games and return their traces. A game ends before its first illegal move.

    Args:
        kept: [G] bool, the games to replay; None for all. Others have no plies.
    """
    n_games, words = len(games.width), bit_set_words(games)
    plies = np.zeros(n_games, np.uint16)
    occupied = np.zeros((n_games, 2, words), np.uint64)
    count = np.zeros(n_games, np.int64)
    offset = np.zeros(n_games + 1, np.int64)
    arrays, parts, order = replay_arrays(games), [], []
    index = np.arange(n_games) if kept is None else np.flatnonzero(kept)
    for width, height, group in games_by_size(games, index):
        most = 2 * np.diff(games.move_offset)[group].sum() + np.diff(games.setup_offset)[group].sum()
        captures = np.empty(most, np.uint16)
        trace_all(
            new_state(width, height), new_history(0), arrays, group, RECORD_RULES.codes,
            np.empty((2, words), np.uint64), np.empty(words, np.uint64), np.empty(1, np.int64),
            captures, count, plies, occupied,
        )  # fmt: skip
        parts.append(captures[: count[group].sum()].copy())
        order.append(group)
    np.cumsum(count, out=offset[1:])
    captures = np.empty(offset[-1], np.uint16)
    for part, group in zip(parts, order):
        captures[_ranges(offset[group], count[group])] = part
    return Traces(plies, offset, captures, occupied)


def _ranges(start: npt.NDArray[np.int64], count: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the concatenation of the ranges of `count` numbers from `start` on."""
    before = np.cumsum(count) - count
    return np.repeat(start - before, count) + np.arange(count.sum())
