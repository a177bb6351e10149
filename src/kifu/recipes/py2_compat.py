"""What CPython 2.7 (64 bit, without hash randomisation) did, where the data sets of 2015 depend on it.

Its hashes of strings, of small ints and of tuples of them, and the order in which it iterated over a set. Random draws
need nothing here: `random.Random(seed).random()` gives the same numbers in Python 3.
Source: Objects/stringobject.c, tupleobject.c and setobject.c of CPython 2.7.18.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel, kernel

_WORD = 2**64
_MULTIPLIER = 1000003


def _signed(x: int) -> int:
    x %= _WORD
    return x - _WORD if x >= _WORD // 2 else x


def hash_text(text: str) -> int:
    """Python 2's hash of a str, or of a unicode with the same characters."""
    if not text:
        return 0
    x = ord(text[0]) << 7
    for character in text:
        x = (_MULTIPLIER * x ^ ord(character)) % _WORD
    x = _signed(x ^ len(text))
    return -2 if x == -1 else x


def hash_pairs(first: npt.ArrayLike, second: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Python 2's hashes of tuples of two items, given the items' hashes.

    first, second: [N] int64 (a small int is its own hash, but for -1). Returns [N] int64.
    """
    x = np.full(np.broadcast_shapes(np.shape(first), np.shape(second)), 0x345678, np.uint64)
    for item, multiplier in ((first, _MULTIPLIER), (second, _MULTIPLIER + 82522)):
        x = (x ^ np.asarray(item, np.int64).astype(np.uint64)) * np.uint64(multiplier)
    hashes = (x + np.uint64(97531)).astype(np.int64)
    hashes[hashes == -1] = -2
    return hashes


@inline_kernel
def _insert(hashes: Any, item: Any, table: Any, mask: Any) -> None:
    """Puts `item` into the first free slot of its probe sequence. table: [>= mask + 1] int64, -1 where free."""
    perturb = np.uint64(hashes[item])
    i = perturb & mask  # the program's i is not cut, but only its low bits ever count
    while table[i] >= 0:
        i = (i * np.uint64(5) + (perturb & mask) + np.uint64(1)) & mask
        perturb >>= np.uint64(5)
    table[i] = item


@kernel
def _fill_set(hashes: Any, tables: Any) -> Any:
    """Adds items 0, 1, ... to a set one by one, which grows as Python 2's did.

    tables: [2, R] int64 scratch, R larger than the set ever gets. Returns (t, size): the set is tables[t, :size].
    """
    t, size = 0, 8
    for slot in range(size):
        tables[t, slot] = -1
    for item in range(hashes.shape[0]):
        _insert(hashes, item, tables[t], np.uint64(size - 1))
        used = item + 1
        if used * 3 >= size * 2:
            wanted = used * 2 if used > 50000 else used * 4
            grown = 8
            while grown <= wanted:
                grown <<= 1
            for slot in range(grown):
                tables[1 - t, slot] = -1
            for slot in range(size):
                if tables[t, slot] >= 0:
                    _insert(hashes, tables[t, slot], tables[1 - t], np.uint64(grown - 1))
            t, size = 1 - t, grown
    return t, size


def set_order(hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The order in which Python 2 iterates over a set to which items with these hashes were added in turn.

    hashes: [N] int64 of N different items. Returns [N] int64: the numbers of the items. Items of equal hash are taken
    for different, which they are as long as no two items are the same.
    """
    room = 16
    while room <= 8 * (len(hashes) + 1):
        room *= 2
    tables = np.empty((2, room), np.int64)
    t, size = _fill_set(hashes, tables)
    final = tables[t, :size]
    return final[final >= 0]


def text_set_order(texts: Iterable[str]) -> list[str]:
    """`list(set(texts))` of Python 2; repeated texts are fine."""
    distinct = list(dict.fromkeys(texts))
    order = set_order(np.array([hash_text(t) for t in distinct], np.int64))
    return [distinct[k] for k in order]
