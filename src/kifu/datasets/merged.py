"""Merged openings: equal positions of many games as one example, with the distribution of their next moves.

Two positions are equal if a symmetry of the board maps the stones, the side to move and the point that simple ko
forbids to those of the other. The moves that led there do not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.arrays import Array, Bytes, Doubles, Floats, Hashes, Indices, Ints, MoveArrays
from kifu.corpus.hashes import mix
from kifu.datasets.filter import position_weight
from kifu.execution.executor import Executor
from kifu.go.positions import Positions
from kifu.go.replay import GameMoves, ReplayArrays, game_moves, replay_arrays, replay_game
from kifu.go.rules import RECORD_RULES, WHITE_TO_MOVE, History, is_ko_recapture, new_history
from kifu.go.state import (
    KO_POINT,
    LAST_CAPTURED,
    LAST_POINT,
    PositionTables,
    State,
    clear_stones,
    lowest_hash,
    new_state,
    position_tables,
    set_stone,
    set_stones,
)
from kifu.kernel import inline_kernel, kernel
from kifu.point import POINT_MASK, WHITE

_SINGLE, _REPRESENTATIVE, _OTHER = range(3)
"""Roles of a position: it is equal to no other, the example of all equal ones, or left out."""

_GAMES = 4096
"""Games hashed at a time."""


class MergedPositions(NamedTuple):
    """The equal positions within the first plies of G games; R of them are equal to others and represent these.

    Attributes:
        roles: [G, plies] uint8, the role of each position.
        entry: [R] int64, ascending, plies * game + ply of each representative.
        counts: [R] float32, the sum of the weights of all equal positions.
        first: [R + 1] int64, the moves of each representative are those from `first` on.
        point: [P] uint16, moves as points of the game's board, as the representative's game has it.
        share: [P] float32, the share of each move in `counts`.
    """

    roles: Bytes
    entry: Indices
    counts: Floats
    first: Indices
    point: npt.NDArray[np.uint16]
    share: Floats

    def select(self, move_offset: Any, selected: Bytes, counts: Ints) -> None:
        """Select the representatives, and no position that they stand for; see `select_positions`."""
        if self.roles.size:
            _select_representatives(move_offset, self.roles, selected, counts)

    def fill(
        self, positions: Positions, slot: Indices, moves: npt.NDArray[np.int16], width: int, labels: Mapping[str, Array]
    ) -> None:
        """Write the labels "policy", [slots, points + 1], and "count", [slots], where `labels` has them.

        Args:
            slot: [B], the slot of each position.
            moves: [slots], the next move on the rendered board.
        """
        game, ply, games = positions.game, positions.ply, positions.games
        plies = self.roles.shape[1]
        merged = np.full(len(slot), -1)
        early = np.flatnonzero(ply < plies)
        early = early[self.roles[game[early], ply[early]] == _REPRESENTATIVE]
        merged[early] = np.searchsorted(self.entry, game[early] * plies + ply[early])
        if "count" in labels:
            labels["count"][slot] = 1
            labels["count"][slot[early]] = self.counts[merged[early]]
        if "policy" in labels:
            at = slot, positions.symmetry, games.width[game], games.height[game]
            _fill_policies(self, *at, merged, moves, width, labels["policy"])


@kernel
def _select_representatives(move_offset: Any, roles: Any, selected: Any, counts: Any) -> None:
    for g in range(roles.shape[0]):
        for t in range(min(roles.shape[1], move_offset[g + 1] - move_offset[g])):
            k = move_offset[g] + t
            was = np.int64(selected[k >> 3]) >> (k & 7) & 1
            keep = was if roles[g, t] == _SINGLE else roles[g, t] == _REPRESENTATIVE
            if keep != was:
                selected[k >> 3] ^= np.uint8(1 << (k & 7))
                counts[g] += keep - was


@kernel
def _fill_policies(  # noqa: PLR0913 - kernel
    merged: MergedPositions, slots: Any, symmetries: Any, widths: Any, heights: Any, index: Any, moves: Any, width: Any,
    policy: Any
) -> None:  # fmt: skip
    """Fill policy [slots, points + 1]; index: [B] int64, the number of the representative, or -1."""
    for i in range(index.shape[0]):
        slot = slots[i]
        for q in range(policy.shape[1]):
            policy[slot, q] = 0
        if index[i] < 0:
            policy[slot, moves[slot]] = 1
            continue
        w, h, symmetry = np.int64(widths[i]), np.int64(heights[i]), np.int64(symmetries[i])
        for j in range(merged.first[index[i]], merged.first[index[i] + 1]):
            p = np.int64(merged.point[j])
            if p == w * h:
                policy[slot, policy.shape[1] - 1] = merged.share[j]
            else:
                x, y = p % w, p // w
                if symmetry & 1:
                    x = w - 1 - x
                if symmetry & 2:
                    y = h - 1 - y
                if symmetry & 4:
                    x, y = y, x
                policy[slot, y * width + x] = merged.share[j]


@kernel
def weigh_positions(
    moves: Any, move_offset: Any, playable: Any, points: Any, passes: Any, by_ply: Any, by_player: Any, weights: Any
) -> None:
    """Fill weights [G, plies], 0 for positions that are not selected; see `select_positions`."""
    for g in range(weights.shape[0]):
        for t in range(weights.shape[1]):
            weights[g, t] = 0
            if t < playable[g]:
                word = moves[move_offset[g] + t]
                weights[g, t] = position_weight(word, t, g, points, passes, by_ply, by_player)


def merge_positions(games: MoveArrays, weights: Doubles) -> MergedPositions:
    """Find equal positions within the first plies of G games.

    Of equal positions, the first in order of game and ply represents the others. A symmetric position has several
    equivalent moves for each one that was played, which share its weight.

    Args:
        games: Games that can be replayed to the last position with a weight.
        weights: [G, plies], weight of each position; 0 for those that do not take part or do not exist.
    """
    hashes, lowest = _hash_positions(games, weights.shape[1])
    entries = np.flatnonzero(weights.reshape(-1) > 0)
    entries = entries[np.argsort(hashes[entries], kind="stable")]
    starts = np.flatnonzero(np.diff(hashes[entries], prepend=~hashes[entries[:1]]))
    sizes = np.diff(np.append(starts, len(entries)))
    del hashes
    roles = np.full(weights.shape, _SINGLE, np.uint8)
    shared = sizes > 1
    entries, sizes = entries[np.repeat(shared, sizes)], sizes[shared]
    starts = np.cumsum(sizes) - sizes
    # Groups in the order of their representatives, whose entries are the lowest of each group.
    order = np.argsort(entries[starts])
    member_of = np.argsort(np.repeat(np.argsort(order), sizes), kind="stable")
    entries, sizes = entries[member_of], sizes[order]
    starts = np.append(0, np.cumsum(sizes))
    roles.reshape(-1)[entries] = _OTHER
    roles.reshape(-1)[entries[starts[:-1]]] = _REPRESENTATIVE
    return _distributions(games, weights, roles, entries, starts, lowest)


def _hash_positions(games: MoveArrays, plies: int) -> tuple[Hashes, Bytes]:
    """Return the hashes of the positions before the first moves of games.

    Returns:
        hashes: [G * plies] uint64, undefined for positions that do not exist.
        lowest: [G * plies] uint8, the symmetries with the lowest hash as bits, which lead to the canonical orientation.
    """
    count = len(games.width)
    hashes, lowest = np.zeros(count * plies, np.uint64), np.zeros(count * plies, np.uint8)
    arrays, size = replay_arrays(games), games.width.astype(np.int64) * 256 + games.height

    def hash_some(first: int) -> None:
        part = np.arange(first, min(first + _GAMES, count))
        for key in np.unique(size[part]).tolist():
            width, height = divmod(key, 256)
            tables, scratch = position_tables(width, height), (np.empty(1, np.int64), np.empty(8, np.uint64))
            context = _MergeContext(tables, hashes, lowest, *scratch)
            with np.errstate(over="ignore"):
                _hash_games(
                    new_state(width, height), new_history(0), arrays, part[size[part] == key], plies,
                    RECORD_RULES.codes, context,
                )  # fmt: skip

    if plies:
        with Executor() as executor:
            for _ in executor.map(hash_some, range(0, count, _GAMES)):
                pass
    return hashes, lowest


class _MergeContext(NamedTuple):
    """The context of a replay.

    Attributes:
        first: [1] int64, the entry of the game's first position.
    """

    tables: PositionTables
    hashes: Hashes
    lowest: Bytes
    first: Indices
    situation: Hashes


@inline_kernel
def _update_setup(context: _MergeContext, s: State, game: GameMoves, first: Any, last: Any) -> None:
    set_stones(context.tables, s)


@inline_kernel
def _store_hash(context: _MergeContext, s: State, game: GameMoves, t: Any, p: Any, c: Any) -> None:
    entry, hashes, situation = context.first[0] + t, context.tables.hashes, context.situation
    for k in range(8):
        situation[k] = hashes[k] ^ WHITE_TO_MOVE if c == WHITE else hashes[k]
    ko = s.scalars[KO_POINT]
    if ko >= 0 and is_ko_recapture(s, ko, c):
        for k in range(8):
            situation[k] ^= mix(context.tables.keys[0, ko, k])
    low, bits = situation[lowest_hash(situation)], 0
    for k in range(8):
        if situation[k] == low:
            bits |= 1 << k
    # Boards of w x h and h x w points are kept apart: their points have different images.
    context.hashes[entry], context.lowest[entry] = mix(low ^ mix(context.tables.empty[0])), bits


@inline_kernel
def _update_stone(context: _MergeContext, s: State, game: GameMoves, t: Any, p: Any, c: Any) -> None:
    if s.scalars[LAST_CAPTURED] == 0 and s.scalars[LAST_POINT] >= 0:
        set_stone(context.tables, p, np.int64(c))
    else:
        set_stones(context.tables, s)


@kernel
def _hash_games(
    s: State, history: History, games: ReplayArrays, game_index: Any, plies: Any, rules: Any, context: _MergeContext
) -> None:
    """Fill the hashes and symmetries of the first positions of games of the size of s."""
    for i in range(game_index.shape[0]):
        g = game_index[i]
        game = game_moves(games, g)
        clear_stones(context.tables)
        context.first[0] = g * plies
        replay_game(
            s, history, game, min(game.moves.shape[0], plies), rules, _update_setup, _store_hash, _update_stone, context
        )


def _distributions(
    games: MoveArrays, weights: Doubles, roles: Bytes, entries: Indices, starts: Indices, lowest: Bytes
) -> MergedPositions:
    """Return the distributions of the moves of R groups of positions; group r is entries[starts[r]:starts[r + 1]]."""
    representatives = entries[starts[:-1]]
    game = entries // max(weights.shape[1], 1)
    words = games.moves[games.move_offset[game] + entries % max(weights.shape[1], 1)] & POINT_MASK
    bits, weight = lowest[entries], weights.reshape(-1)[entries]
    moves = np.bitwise_count(bits).astype(np.int64)
    points = games.width[game[starts[:-1]]].astype(np.int64) * games.height[game[starts[:-1]]]
    bound = np.minimum(np.add.reduceat(moves, starts[:-1]) if len(entries) else moves, points + 1)
    first = np.append(0, np.cumsum(bound))
    point, share = np.empty(first[-1], np.uint16), np.empty(first[-1], np.float32)
    used, count = np.zeros(len(bound), np.int64), np.empty(len(bound), np.float32)
    size = games.width[game[starts[:-1]]].astype(np.int64) * 256 + games.height[game[starts[:-1]]]
    for key in np.unique(size).tolist():
        images = position_tables(*divmod(key, 256)).images.astype(np.int64)
        _add_up(
            images, np.flatnonzero(size == key), starts, words, bits, weight, np.zeros(images.shape[1]), first, point,
            share, used, count,
        )  # fmt: skip
    filled = np.arange(first[-1]) - np.repeat(first[:-1], bound) < np.repeat(used, bound)
    first = np.append(0, np.cumsum(used))
    return MergedPositions(roles, representatives, count, first, point[filled], share[filled])


@kernel
def _add_up(  # noqa: PLR0913 - kernel
    images: Any, groups: Any, starts: Any, words: Any, bits: Any, weight: Any, total: Any, first: Any, point: Any,
    share: Any, used: Any, count: Any
) -> None:  # fmt: skip
    """Fill the moves of groups of positions on boards of one size; total: [n + 1] float64, zeros."""
    for i in range(groups.shape[0]):
        r = groups[i]
        whole = 0.0
        for j in range(starts[r], starts[r + 1]):
            equivalent: Any = 0
            for k in range(8):
                equivalent += np.int64(bits[j]) >> k & 1
            for k in range(8):
                if np.int64(bits[j]) >> k & 1:
                    total[images[k, np.int64(words[j])]] += weight[j] / equivalent
            whole += weight[j]
        own = 0
        while np.int64(bits[starts[r]]) >> own & 1 == 0:
            own += 1
        at = first[r]
        for p in range(total.shape[0]):
            q = images[own, p]
            if total[q] > 0:
                point[at], share[at] = p, total[q] / whole
                total[q] = 0
                at += 1
        used[r], count[r] = at - first[r], whole
