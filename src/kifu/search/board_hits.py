"""Hits of patterns of the whole board, found in an index without reading any game."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.point import BLACK, NO_POINT, WHITE, inverse_symmetry, symmetries
from kifu.search._hits import ACCEPTS
from kifu.search.index import SearchIndex
from kifu.search.match import MatchArrays
from kifu.search.pattern import BLACK_CELL, EMPTY_CELL, WHITE_CELL, Pattern
from kifu.search.plan import compile_pattern
from kifu.search.position import Position
from kifu.search.positions import position_hash

_STONES = {EMPTY_CELL: 0, BLACK_CELL: BLACK, WHITE_CELL: WHITE}
_PASS = 3
"""A colour of no stone."""

_EXCHANGED = np.array([0, WHITE, BLACK], np.uint8)


class BoardHits(NamedTuple):
    """H hits of a pattern of the whole board.

    Attributes:
        hits: The hits; the games are rows of the file.
        colour: [H] uint8, of the continuation on the board; 0 without one.
        unsure: [rows] bool, games that may have other hits, too, and none of `hits`.
    """

    hits: MatchArrays
    colour: npt.NDArray[np.uint8]
    unsure: npt.NDArray[np.bool_]


class _Occurrences(NamedTuple):
    """All occurrences of an image.

    Attributes:
        hits: With the next move as the continuation, none if it is a pass.
        colour: [H] uint8, of the continuation on the board; 0 if there is no next move, _PASS if it is a pass.
        accepted: [H] bool, False if the pattern asks for another continuation.
    """

    hits: MatchArrays
    colour: npt.NDArray[np.uint8]
    accepted: npt.NDArray[np.bool_]


def pattern_position(pattern: Pattern) -> Position | None:
    """Return the position that a pattern of the whole board without wildcards and moves shows; None for others."""
    if pattern.anchor != "board" or pattern.moves or pattern.consecutive or not _STONES.keys() >= set(pattern.cells):
        return None
    return Position(pattern.width, pattern.height, np.array([_STONES[cell] for cell in pattern.cells], np.uint8))


def late_rows(index: SearchIndex, position: Position) -> npt.NDArray[np.bool_]:
    """Return the games in which a position may occur after the indexed plies, since they have so few stones."""
    late: npt.NDArray[np.bool_] = index.late_stones <= np.count_nonzero(position.stones)
    return late


def find_board(index: SearchIndex, pattern: Pattern, position: Position) -> BoardHits:
    """Find a pattern of the whole board in the games of an index.

    Args:
        position: `pattern_position` of the pattern.

    Raises:
        FormatError: If the index is damaged.
    """
    found = [each for exchanged in (False, True) for each in _find_images(index, pattern, position, exchanged)]
    hits = MatchArrays._make(map(np.concatenate, zip(*(each.hits for each in found))))
    image = np.repeat(np.arange(len(found)), [len(each.colour) for each in found])
    chosen = np.lexsort((hits.ply, hits.game))
    if np.any(np.diff(hits.game[chosen]) == 0):
        chosen = chosen[np.sort(np.unique((hits.game * len(found) + image)[chosen], return_index=True)[1])]
    colour, accepted = (np.concatenate([each[k] for each in found]) for k in (1, 2))
    unsure = late_rows(index, position)
    unsure[hits.game[chosen][colour[chosen] == _PASS]] = True
    last_ply = NO_POINT if pattern.last_ply is None else pattern.last_ply
    chosen = chosen[accepted[chosen] & ~unsure[hits.game[chosen]] & (hits.ply[chosen] <= last_ply)]
    return BoardHits(MatchArrays._make(column[chosen] for column in hits), colour[chosen], unsure)


def _find_images(index: SearchIndex, pattern: Pattern, position: Position, exchanged: bool) -> Iterator[_Occurrences]:
    """Yield the occurrences of each image of a pattern, with or without colours exchanged."""
    points = len(position.stones)
    words = 6 if points < 384 else 10
    canonical = position_hash(replace(position, stones=_EXCHANGED[position.stones]) if exchanged else position)
    entries = None
    for width, height in {(position.width, position.height): 0, (position.height, position.width): 0}:
        compiled = compile_pattern(pattern, width, height, words)
        for m in np.flatnonzero(compiled.exchanged == exchanged).tolist() if compiled is not None else ():
            assert compiled is not None
            entries = index.lookup(canonical.hash, points) if entries is None else entries
            to_canonical = _first_symmetry(canonical.symmetries, int(compiled.symmetry[m]))
            chosen = np.flatnonzero(entries.symmetry == to_canonical)
            move, colour = entries.move[chosen], entries.colour[chosen]
            is_stone = move < points
            turned = (height, width) if to_canonical & 4 else (width, height)
            from_canonical = symmetries(*turned)[inverse_symmetry(to_canonical)]
            point = from_canonical[np.where(is_stone, move, 0)]
            next_x, next_y, next_colour = compiled.continuations[m, np.where(is_stone, 4 * point + colour, 0)].T
            size, none = len(chosen), np.zeros(len(chosen), np.uint8)
            yield _Occurrences(
                MatchArrays(
                    game=entries.row[chosen],
                    ply=entries.ply[chosen],
                    symmetry=np.full(size, compiled.symmetry[m]),
                    exchanged=np.full(size, exchanged),
                    x=none,
                    y=none,
                    next_ply=np.where(is_stone, entries.ply[chosen], np.int32(-1)),
                    next_x=next_x,
                    next_y=next_y,
                    next_colour=next_colour,
                ),
                np.where(move == points, _PASS, colour),
                compiled.plan.images[m, ACCEPTS + colour.astype(np.int64)].astype(np.bool_),
            )


def _first_symmetry(to_canonical: tuple[int, ...], k: int) -> int:
    """Return the first symmetry that maps the image under symmetry k to the canonical orientation."""
    return next(first for first in range(8) if _composition()[first, k] in to_canonical)


@functools.cache
def _composition() -> npt.NDArray[np.int64]:
    """Return the symmetry that is the same as symmetry k, then j: [8, 8] by j and k."""
    tables = symmetries(3, 3)
    return np.array([[np.flatnonzero((tables == j[k]).all(axis=1))[0] for k in tables] for j in tables])
