"""What CPython 2.7 (64 bit, without hash randomisation) did, where the data sets of 2015 depend on it.

Its hashes of strings, of small ints and of tuples of them, and the order in which it iterated over a set. Random draws
need nothing here: `random.Random(seed).random()` gives the same numbers in Python 3.
Source: Objects/stringobject.c, tupleobject.c and setobject.c of CPython 2.7.18.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.errors import RecipeError
from kifu.kernel import inline_kernel, kernel
from kifu.recipes.kgs_index import Archive
from kifu.recipes.schema import KgsgoRecipe

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


MAX_GAMES = 10_000_000
"""More games than this, all archives together, are not drawn from; KGS had 171,562 up to 2014."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Some games of one archive, in the order in which they are written. games: [K] int64, numbered from 0."""

    archive: Archive
    games: npt.NDArray[np.int64]


class Sampler:
    """Draws the sets of a recipe from the archives of an index.

    archives: in the index page's order; those after the recipe's year are left out of every draw. Raises RecipeError if
    they tell of more than `MAX_GAMES` games.
    """

    def __init__(self, recipe: KgsgoRecipe, archives: list[Archive]) -> None:
        self._recipe = recipe
        self._all = archives
        self._archives = [a for a in archives if a.year <= recipe.until]
        counts = np.array([a.games for a in self._archives], np.int64)
        if counts.sum() > MAX_GAMES:
            raise RecipeError(f"the archives tell of {counts.sum():,} games; at most {MAX_GAMES:,} are drawn from")
        self._archive_of = np.repeat(np.arange(len(counts)), counts)
        self._number = np.arange(len(self._archive_of)) - np.repeat(np.cumsum(counts) - counts, counts)
        names = np.array([hash_text(a.name) for a in self._archives], np.int64)
        self._hashes = hash_pairs(names[self._archive_of], self._number)

    def pairs(self, name: str) -> list[tuple[str, int]]:
        """A drawn set as the program held it, `list(set)`: names of archives and numbers of games."""
        return [(self._archives[self._archive_of[k]].name, int(self._number[k])) for k in self._sample(name)]

    def select(self, name: str) -> list[Selection]:
        """The games of a set, archive by archive. Raises RecipeError if there are too few."""
        if self._recipe.sets[name].by_archive:
            return [Selection(a, np.arange(a.games)) for a in self._all]
        sample = self._sample(name)
        archive_of = self._archive_of[sample]
        first_seen = np.unique(archive_of, return_index=True)
        in_turn = [self._archives[k].name for k in first_seen[0][np.argsort(first_seen[1])]]
        by_name = {a.name: k for k, a in enumerate(self._archives)}
        return [
            Selection(self._archives[k], self._number[sample[archive_of == k]])
            for k in (by_name[n] for n in text_set_order(in_turn))
        ]

    def _sample(self, name: str) -> npt.NDArray[np.int64]:
        """The set as rows of the list of all pairs, in Python 2's set order."""
        rows = self._added(name)
        return rows[set_order(self._hashes[rows])]

    def _added(self, name: str) -> npt.NDArray[np.int64]:
        """The set's rows in the order in which they were added to it."""
        wanted = self._recipe.sets[name]
        total = len(self._number)
        taken = np.zeros(total, bool)
        if wanted.without is not None:
            taken[self._added(wanted.without)] = True
        left = total - int(taken.sum())
        if left < (wanted.games or 1):
            raise RecipeError(
                f"set {name!r} takes {wanted.games or 1:,} games, but {left:,} are left "
                f"({total:,} up to {self._recipe.until} in {len(self._archives)} archives); "
                f"--set sets.{name}.games=N asks for fewer"
            )
        if wanted.games is None:
            return np.flatnonzero(~taken)
        draw = random.Random(self._recipe.seed).random
        drawn: list[int] = []
        while len(drawn) < wanted.games:
            row = int(draw() * total)  # Python 2's random.choice
            if not taken[row]:
                taken[row] = True
                drawn.append(row)
        return np.array(drawn, np.int64)
