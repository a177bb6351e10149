"""Openings of a match: the moves that each pair of games begins with, so that two programs do not play one game twice.

`corner_openings` makes them from nothing: Black and White in turn take corners of their own by the usual points.
`catalogue_openings` takes the first moves of real games. Both give each opening once up to symmetry, in an order that
follows from the seed alone, whatever the number of games.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.schema import GAME_COLUMNS, game_arrays
from kifu.errors import IllegalMove, RecipeError
from kifu.go.board import Board
from kifu.go.rules import Rules
from kifu.point import BLACK, POINT_MASK, WHITE, symmetries
from kifu.records.games import GameArrays

Opening = tuple[int, ...]
"""Points, Black's first, colours in turn."""


def corner_openings(size: int, seed: int) -> list[Opening]:
    """The openings of one stone a player, and then those of two, each part shuffled by the seed.

    Each stone is on a 3-3, 3-4, 4-3 or 4-4 point (on 7 x 7 and 8 x 8 on a 3-3 point) of a corner that had none. Smaller
    boards have Black's first move only, anywhere but on the edge; 1 x 1 and 2 x 2 the empty opening.

    >>> [len(corner_openings(size, seed=1)) for size in (2, 5, 7, 19)]
    [1, 3, 5, 794]
    """
    if size < 3:
        return [()]
    if size < 7:
        inner = range(1, size - 1)
        parts: list[list[Opening]] = [[(y * size + x,) for y, x in itertools.product(inner, inner)]]
    else:
        parts = [list(_corners(size, stones)) for stones in (2, 4)]
    return [opening for part in parts for opening in _different(np.array(part), size, seed)]


def _corners(size: int, stones: int) -> Iterator[Opening]:
    near = (2, 3) if size >= 9 else (2,)
    for corners in itertools.permutations(itertools.product((False, True), (False, True)), stones):
        ways = [
            [(size - 1 - y if low else y) * size + (size - 1 - x if right else x) for y in near for x in near]
            for low, right in corners
        ]
        yield from itertools.product(*ways)


def catalogue_openings(
    path: str | os.PathLike[str], size: int, moves: int, rules: Rules, seed: int, count: int
) -> list[Opening]:
    """The first `moves` moves of games of a catalogue: `count` different ones, or as many as there are.

    Taken are kept games of that board without setup stones, in which Black and White play these moves in turn, none a
    pass, all legal under the rules. How often an opening was played does not matter. Raises RecipeError if there is
    none, FormatError as `kifu.corpus.catalogue.open_catalogue` does.
    """
    catalogue = open_catalogue(path)
    found = [_first_moves(game_arrays(batch), size, moves) for batch in catalogue.batches(GAME_COLUMNS)]
    lines = np.concatenate([np.empty((0, moves), np.int64), *found])
    legal = (opening for opening in _different(lines, size, seed) if _is_legal(opening, size, rules))
    openings = list(itertools.islice(legal, count))
    if not openings:
        raise RecipeError(
            f"{Path(path)} has no game on {size} x {size} that begins with {moves} legal moves, "
            "Black's and White's in turn, without setup stones"
        )
    return openings


def _first_moves(games: GameArrays, size: int, moves: int) -> npt.NDArray[np.int64]:
    """[G, moves] int64: the points, of those games that can be openings."""
    starts, lengths = games.move_offset[:-1], np.diff(games.move_offset)
    fits = (games.width == size) & (games.height == size) & (games.drop == 0)
    fits &= (np.diff(games.setup_offset) == 0) & (lengths >= moves)
    lines = games.moves[starts[fits, None] + np.arange(moves)]
    points: npt.NDArray[np.int64] = (lines & POINT_MASK).astype(np.int64)
    fit = (lines >> 15 == np.arange(moves) % 2).all(axis=1) & (points < size * size).all(axis=1)
    found: npt.NDArray[np.int64] = points[fit]
    return found


def _different(lines: npt.NDArray[np.int64], size: int, seed: int) -> list[Opening]:
    """The lines, [G, M] int64 points, each once up to symmetry, in the order of the hashes of seed and points."""
    lines = np.unique(_canonical(lines, size), axis=0)
    return sorted(map(tuple, lines.tolist()), key=lambda line: blake3(f"{seed} {line}".encode()).digest())


def _canonical(lines: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """[G, M] int64: one of the eight forms of each line of points, with its first stone in the upper right."""
    forms: npt.NDArray[np.int64] = symmetries(size, size).astype(np.int64)
    best = lines
    for k in range(1, 8):
        form = forms[k][lines]
        first = (form != best).argmax(axis=1)  # where they differ; if nowhere, either will do
        rows = np.arange(len(lines))
        best = np.where((form[rows, first] < best[rows, first])[:, None], form, best)
    mirrored: npt.NDArray[np.int64] = forms[1][best]  # the first form in the order of points begins in the upper left
    return mirrored


def _is_legal(opening: Opening, size: int, rules: Rules) -> bool:
    board = Board(size, rules=rules)
    try:
        for ply, point in enumerate(opening):
            board.play(point, WHITE if ply % 2 else BLACK)
    except IllegalMove:
        return False
    return True
