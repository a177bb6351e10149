"""Deterministic pseudo-random orders and draws: pure functions of integers, without any state.

`mix` is the hash of `kifu.corpus.hashes`. A key is mix(... mix(mix(seed) ^ part) ^ part ...), where one of the parts is
a purpose: UNIT_ORDER, SYMMETRY, BLOCK_ORDER, WEIGHT, PER_GAME or SOURCE.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.corpus.hashes import mix, mix_words
from kifu.kernel import inline_kernel, kernel
from kifu.point import POINT_MASK, WHITE_BIT

_11 = np.uint64(11)
_UNIT = 2.0**-53

Hashes64 = npt.NDArray[np.uint64]

UNIT_ORDER, SYMMETRY, BLOCK_ORDER, WEIGHT, PER_GAME, SOURCE = range(6)
"""Purposes of keys; the second part of a key, after the epoch, or for SOURCE after the number of the source."""


def hash_key(seed: int, *parts: int) -> Hashes64:
    """Return the key of some integers from 0 to 2**64 - 1, as [1] uint64."""
    key: Hashes64 = mix_words(np.array([seed], np.uint64))
    for part in parts:
        key = mix_words(key ^ np.uint64(part))
    return key


def hash_numbers(numbers: npt.NDArray[np.int64], key: Hashes64) -> Hashes64:
    """Return mix(number ^ key) of each number."""
    hashes: Hashes64 = mix_words(numbers.astype(np.uint64) ^ key)
    return hashes


@kernel
def _shuffle(key: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        out[i] = i
    for i in range(out.shape[0] - 1, 0, -1):
        j = np.int64(mix(np.uint64(i) ^ key) % np.uint64(i + 1))
        out[i], out[j] = out[j], out[i]


def permutation(key: Hashes64, count: int) -> npt.NDArray[np.int32]:
    """Return a permutation of 0 to count - 1, [count] int32, by a Fisher-Yates shuffle.

    From the last index down to 1, entry i is swapped with entry mix(key ^ i) mod (i + 1).
    """
    out = np.empty(count, np.int32)
    with np.errstate(over="ignore"):
        _shuffle(key[0], out)
    return out


@kernel
def _rank_entries(entries: Any, rank: Any, source: Any) -> None:
    for q in range(rank.shape[0]):
        rank[q] = -1
    for j in range(entries.shape[0]):
        rank[entries[j]] = 0
    count = 0
    for q in range(rank.shape[0]):
        if rank[q] == 0:
            rank[q] = count
            count += 1
    for j in range(entries.shape[0]):
        source[j] = rank[entries[j]]


def rank_entries(entries: npt.NDArray[np.int32], size: int) -> tuple[npt.NDArray[np.int32], ...]:
    """Rank distinct numbers from 0 to size - 1.

    Returns:
        rank: [size], for each number the count of smaller numbers among the entries, or -1 if it is not one.
        source: [len(entries)], the rank of each entry.
    """
    rank, source = np.empty(size, np.int32), np.empty(len(entries), np.int32)
    _rank_entries(entries, rank, source)
    return rank, source


@inline_kernel
def position_weight(word: Any, t: Any, g: Any, points: Any, passes: Any, by_ply: Any, by_player: Any) -> Any:
    """Return the weight of the position before move `word`, at ply t of game g; see `select_positions`."""
    if not passes and np.int64(word & POINT_MASK) == points[g]:
        return 0.0
    return by_ply[min(t, by_ply.shape[0] - 1)] * by_player[g, 1 if word & WHITE_BIT else 0]


@kernel
def select_positions(  # noqa: PLR0913 - kernel
    moves: Any, move_offset: Any, playable: Any, points: Any, passes: Any, by_ply: Any, by_player: Any, per_game: Any,
    weight_key: Any, per_game_key: Any, selected: Any, counts: Any,
) -> None:  # fmt: skip
    """Mark the selected positions of G games, and count them by game.

    Args:
        moves: [M] uint16, moves of all games.
        move_offset: [G + 1] int64, start of the moves of each of the G games.
        playable: [G] int32, number of plies of each game that can be rendered.
        points: [G] int64, points of each board.
        by_ply: [T] float64, weight of each ply; the last one also applies to all later plies.
        by_player: [G, 2] float64, weights of Black's and of White's moves.
        per_game: Maximum number of positions of a game, or -1.
        weight_key: uint64, key of the draws by weight.
        per_game_key: uint64, key of the draws of `per_game`.
        selected: [ceil(M / 8)] uint8, zeros; receives a bit per move, lowest bit first.
        counts: [G] int32, receives the number of selected positions of each game.
    """
    for g in range(counts.shape[0]):
        first = move_offset[g]
        count = 0
        for k in range(first, move_offset[g + 1]):
            t = k - first
            weight = 0.0
            if t < playable[g]:
                weight = position_weight(moves[k], t, g, points, passes, by_ply, by_player)
            keep: Any = weight >= 1
            if 0 < weight < 1:
                keep = np.float64(mix(np.uint64(k) ^ weight_key) >> _11) * _UNIT < weight
            if keep:
                selected[k >> 3] |= np.uint8(1 << (k & 7))
                count += 1
        if 0 <= per_game < count:
            left, missing = count, per_game
            for k in range(first, move_offset[g + 1]):
                if selected[k >> 3] >> (k & 7) & 1:
                    if np.int64(mix(np.uint64(k) ^ per_game_key) % np.uint64(left)) < missing:
                        missing -= 1
                    else:
                        selected[k >> 3] &= np.uint8(255 ^ 1 << (k & 7))
                    left -= 1
            count = per_game
        counts[g] = count
