"""The order of an epoch, and the chances in it: pure functions of numbers, with nothing kept between calls.

mix is that of `kifu.corpus.hashes`; a key is mix(... mix(mix(seed) ^ part) ^ part ...), with a purpose among its parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.corpus._hashes import mix, mix_words
from kifu.kernel import kernel
from kifu.point import POINT_MASK, WHITE_BIT

Words = npt.NDArray[np.uint64]

# What a key is for: its second part, after the epoch.
UNITS, SYMMETRY, BLOCK, CHANCE, DRAW = range(5)

_11 = np.uint64(11)
_SHARE = 2.0**-53


def key_of(seed: int, *parts: int) -> Words:
    """[1] uint64: the key of these numbers, each 0 to 2**64 - 1."""
    key: Words = mix_words(np.array([seed], np.uint64))
    for part in parts:
        key = mix_words(key ^ np.uint64(part))
    return key


@kernel
def _shuffle(key: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        out[i] = i
    for i in range(out.shape[0] - 1, 0, -1):
        j = np.int64(mix(np.uint64(i) ^ key) % np.uint64(i + 1))
        out[i], out[j] = out[j], out[i]


def hashes_of(numbers: npt.NDArray[np.int64], key: Words) -> Words:
    """mix(number ^ key) of each."""
    hashes: Words = mix_words(numbers.astype(np.uint64) ^ key)
    return hashes


def shuffled(key: Words, count: int) -> npt.NDArray[np.int32]:
    """[count] int32: 0 to count - 1 in an order that the key tells: shuffled after Fisher and Yates.

    From the last place down to the second, what stands at place i changes with what stands at mix(key ^ i) mod (i + 1).
    """
    out = np.empty(count, np.int32)
    with np.errstate(over="ignore"):
        _shuffle(key[0], out)
    return out


@kernel
def _fill_part(entries: Any, rank: Any, source: Any) -> None:
    for q in range(rank.shape[0]):
        rank[q] = -1
    for j in range(entries.shape[0]):
        rank[entries[j]] = 0
    wanted = 0
    for q in range(rank.shape[0]):
        if rank[q] == 0:
            rank[q] = wanted
            wanted += 1
    for j in range(entries.shape[0]):
        source[j] = rank[entries[j]]


def part_of(order: npt.NDArray[np.int32], start: int, stop: int) -> tuple[npt.NDArray[np.int32], ...]:
    """Entries start to stop - 1 of a permutation.

    Returns rank [len(order)]: how many smaller numbers are among these entries, or -1 for a number that is not one;
    and source [stop - start]: the rank of each entry.
    """
    rank, source = np.empty(len(order), np.int32), np.empty(stop - start, np.int32)
    _fill_part(order[start:stop], rank, source)
    return rank, source


@kernel
def choose(
    moves: Any, move_offset: Any, playable: Any, points: Any, passes: Any, by_ply: Any, by_player: Any, per_game: Any,
    chance: Any, draw: Any, chosen: Any, counts: Any,
) -> None:  # fmt: skip
    """Marks the positions of an epoch of G games in chosen, and counts them by game in counts [G] int32.

    moves: [M], of all games there are.  move_offset: [G + 1] int64, where those of each of the G begin.
    chosen: [ceil(M / 8)] uint8, 0 before; a bit for each move, the lowest first.  playable: [G] int32, how many moves
    are.  points: [G] int64, of its board.  passes: whether positions before a pass count.
    by_ply: [T] float64, weights, the last one for all plies from there on.  by_player: [G, 2] float64, weights of
    Black's and White's moves.  per_game: how many are drawn of a game, or -1 for all.  chance, draw: uint64, keys.
    A position stays with a chance of its weight, the product of the two.
    """
    for g in range(counts.shape[0]):
        first = move_offset[g]
        found = 0
        for k in range(first, move_offset[g + 1]):
            t = k - first
            word = moves[k]
            stays = t < playable[g] and (passes or np.int64(word & POINT_MASK) != points[g])
            if stays:
                weight = by_ply[min(t, by_ply.shape[0] - 1)] * by_player[g, 1 if word & WHITE_BIT else 0]
                if weight < 1:
                    stays = np.float64(mix(np.uint64(k) ^ chance) >> _11) * _SHARE < weight
            if stays:
                chosen[k >> 3] |= np.uint8(1 << (k & 7))
                found += 1
        if 0 <= per_game < found:
            left, wanted = found, per_game
            for k in range(first, move_offset[g + 1]):
                if chosen[k >> 3] >> (k & 7) & 1:
                    if np.int64(mix(np.uint64(k) ^ draw) % np.uint64(left)) < wanted:
                        wanted -= 1
                    else:
                        chosen[k >> 3] &= np.uint8(255 ^ 1 << (k & 7))
                    left -= 1
            found = per_game
        counts[g] = found


@kernel
def take_of(
    units: Any, first: Any, rank: Any, move_offset: Any, chosen: Any, ids: Any, rows: Any, take: Any, game: Any,
    ply: Any,
) -> Any:  # fmt: skip
    """What the encoder shall draw of some games for part of a block.

    units: [U] int64, games, one after another in the block.  first: place in the block of the first one's first chosen
    position; may be below 0.  rank: see `part_of`.  chosen: see `choose`.
    Fills rows with those games that have a wanted position, take with the slot of each of their moves, or -1; and for
    each slot game [slots] uint64, the game's id, and ply [slots] int32. Returns how many rows and entries of take there
    are.
    """
    q, n, entries = first, 0, 0
    for u in range(units.shape[0]):
        g = units[u]
        at, wanted = entries, False
        for k in range(move_offset[g], move_offset[g + 1]):
            slot = -1
            if chosen[k >> 3] >> (k & 7) & 1:
                if 0 <= q < rank.shape[0]:
                    slot = rank[q]
                q += 1
            take[at] = slot
            at += 1
            if slot >= 0:
                wanted = True
                game[slot] = ids[g]
                ply[slot] = k - move_offset[g]
        if wanted:
            rows[n] = g
            n += 1
            entries = at
    return n, entries
