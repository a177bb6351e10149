"""Match openings: the first moves of each pair of games, so that two programs do not repeat one game.

`corner_openings` generates them: Black and White alternately occupy empty corners at the usual points.
`catalogue_openings` takes the first moves of real games. Both list each opening once up to symmetry, in an order that
depends on the seed only, not on the number of games.
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
"""Points, colours alternating from Black."""


def corner_openings(size: int, seed: int) -> list[Opening]:
    """Return the openings of one stone per player, followed by those of two, each group shuffled by the seed.

    Each stone takes the 3-3, 3-4, 4-3 or 4-4 point (on 7 x 7 and 8 x 8 the 3-3 point) of an empty corner. On smaller
    boards an opening is Black's first move anywhere off the edge; on 1 x 1 and 2 x 2 it is empty.

    Examples:
        >>> [len(corner_openings(size, seed=1)) for size in (2, 5, 7, 19)]
        [1, 3, 5, 794]
    """
    if size < 3:
        return [()]
    if size < 7:
        inner = range(1, size - 1)
        groups: list[list[Opening]] = [[(y * size + x,) for y, x in itertools.product(inner, inner)]]
    else:
        groups = [list(_corner_lines(size, stones)) for stones in (2, 4)]
    return [opening for group in groups for opening in _distinct(np.array(group), size, seed)]


def _corner_lines(size: int, stones: int) -> Iterator[Opening]:
    offsets = (2, 3) if size >= 9 else (2,)
    for corners in itertools.permutations(itertools.product((False, True), (False, True)), stones):
        choices = [
            [(size - 1 - y if low else y) * size + (size - 1 - x if right else x) for y in offsets for x in offsets]
            for low, right in corners
        ]
        yield from itertools.product(*choices)


def catalogue_openings(
    path: str | os.PathLike[str], size: int, moves: int, rules: Rules, seed: int, count: int
) -> list[Opening]:
    """Return up to `count` distinct openings, the first `moves` moves of games in a catalogue.

    Games qualify if they are kept, have that board size and no setup stones, and begin with that many moves of
    alternating colours, without passes, all legal under the rules. The frequency of an opening does not matter.

    Raises:
        RecipeError: No game qualifies.
        FormatError: The catalogue is invalid, see `kifu.corpus.catalogue.open_catalogue`.
    """
    catalogue = open_catalogue(path)
    firsts = [_first_moves(game_arrays(batch), size, moves) for batch in catalogue.batches(GAME_COLUMNS)]
    lines = np.concatenate([np.empty((0, moves), np.int64), *firsts])
    legal = (opening for opening in _distinct(lines, size, seed) if _is_legal(opening, size, rules))
    openings = list(itertools.islice(legal, count))
    if not openings:
        raise RecipeError(
            f"{Path(path)} has no game on {size} x {size} without setup stones that begins with {moves} legal moves of "
            "alternating colours"
        )
    return openings


def _first_moves(games: GameArrays, size: int, moves: int) -> npt.NDArray[np.int64]:
    """Return [G, moves] int64 points, of those games that qualify as openings."""
    starts, lengths = games.move_offset[:-1], np.diff(games.move_offset)
    qualifies = (games.width == size) & (games.height == size) & (games.drop == 0)
    qualifies &= (np.diff(games.setup_offset) == 0) & (lengths >= moves)
    lines = games.moves[starts[qualifies, None] + np.arange(moves)]
    points: npt.NDArray[np.int64] = (lines & POINT_MASK).astype(np.int64)
    alternates = (lines >> 15 == np.arange(moves) % 2).all(axis=1) & (points < size * size).all(axis=1)
    openings: npt.NDArray[np.int64] = points[alternates]
    return openings


def _distinct(lines: npt.NDArray[np.int64], size: int, seed: int) -> list[Opening]:
    """Return the lines, [G, M] int64 points, once each up to symmetry, ordered by a hash of seed and points."""
    lines = np.unique(_canonical(lines, size), axis=0)
    return sorted(map(tuple, lines.tolist()), key=lambda line: blake3(f"{seed} {line}".encode()).digest())


def _canonical(lines: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """Return [G, M] int64, the symmetry of each line of points that has its first stone in the upper right."""
    forms: npt.NDArray[np.int64] = symmetries(size, size).astype(np.int64)
    best = lines
    for k in range(1, 8):
        form = forms[k][lines]
        first = (form != best).argmax(axis=1)  # the first difference; equal forms are interchangeable
        rows = np.arange(len(lines))
        best = np.where((form[rows, first] < best[rows, first])[:, None], form, best)
    mirrored: npt.NDArray[np.int64] = forms[1][best]  # the smallest form begins in the upper left
    return mirrored


def _is_legal(opening: Opening, size: int, rules: Rules) -> bool:
    board = Board(size, rules=rules)
    try:
        for ply, point in enumerate(opening):
            board.play(point, WHITE if ply % 2 else BLACK)
    except IllegalMove:
        return False
    return True
