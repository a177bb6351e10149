"""Which games of which archives make a set, and in which order: the draw of the program of 2015.

A game is a pair (archive, number in it). The program listed all pairs in the order of the index page, drew from the
list with `random.choice` until a set had as many as wanted, and went on with `list(set)`. It then took archive by
archive, in the order of another set. Both orders are Python 2's (see `python2`).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kifu.errors import RecipeError
from kifu.recipes.kgs_index import Archive
from kifu.recipes.py2_compat import hash_pairs, hash_text, set_order, text_set_order
from kifu.recipes.schema import KgsgoRecipe

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
