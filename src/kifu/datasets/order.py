"""Deterministic pseudo-random orders: pure functions of integers, without any state.

`mix` is the hash of `kifu.corpus.hashes`. A key is mix(... mix(mix(seed) ^ part) ^ part ...), where one of the parts is
a purpose: UNIT_ORDER, SYMMETRY, BLOCK_ORDER, WEIGHT or PER_GAME.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.corpus._hashes import mix, mix_words
from kifu.kernel import kernel

Hashes64 = npt.NDArray[np.uint64]

UNIT_ORDER, SYMMETRY, BLOCK_ORDER, WEIGHT, PER_GAME = range(5)
"""Purposes of keys; the second part of a key, after the epoch."""


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


def rank_entries(order: npt.NDArray[np.int32], start: int, stop: int) -> tuple[npt.NDArray[np.int32], ...]:
    """Rank the entries start to stop - 1 of a permutation by value.

    Returns:
        rank: [len(order)], for each number the count of smaller numbers among the entries, or -1 if it is not one.
        source: [stop - start], the rank of each entry.
    """
    rank, source = np.empty(len(order), np.int32), np.empty(stop - start, np.int32)
    _rank_entries(order[start:stop], rank, source)
    return rank, source
