"""Which ranks of which country or server are equally strong, by the table in the README of Schraudolph's archive.

It is of the 1990s and anchored at IGS, whose ranks are the scale of `Rank.rating`. docs/ranks.md shows it whole.
"""

from __future__ import annotations

import functools
from typing import Literal, TypeAlias, get_args

from kifu.assets import asset
from kifu.errors import RecipeError
from kifu.records.meta import Rank

System: TypeAlias = Literal["AGA", "China", "Europe", "IGS", "Japan", "Korea"]
SYSTEMS: tuple[System, ...] = get_args(System)

Span: TypeAlias = tuple[int, int]
"""A cell of the table, as the levels of `Rank` from the weaker to the stronger: two in "17-18K", one twice in "17K"."""


@functools.cache
def _table() -> dict[int, dict[System, Span]]:
    """By rating."""
    lines = asset("ranks.csv").read_text("utf-8").splitlines()
    rows = {}
    for line in lines[1:]:
        rating, *cells = line.split(",")
        rows[int(rating)] = {system: _read(cell) for system, cell in zip(SYSTEMS, cells)}
    return rows


def _read(cell: str) -> Span:
    """ "1K-1D", "4-5D", "23-24Gup", "7K" as levels."""
    kind = cell.lstrip("-0123456789DK") or cell[-1]
    ranks = [Rank.parse(end if end[-1].isalpha() else end + kind) for end in cell.split("-")]
    levels = [rank.level for rank in ranks if rank]
    return min(levels), max(levels)


def _spell(span: Span, system: System) -> str:
    """As the table does: numbers rise within kyu and within dan."""

    def number(level: int) -> str:
        return str(level) if level > 0 else str(1 - level)

    def kind(level: int) -> str:
        return "D" if level > 0 else "Gup" if system == "Korea" else "K"

    weak, strong = span
    if weak == strong:
        return number(weak) + kind(weak)
    if kind(weak) != kind(strong):
        return f"{number(weak)}{kind(weak)}-{number(strong)}{kind(strong)}"
    low, high = (weak, strong) if weak > 0 else (strong, weak)
    return f"{number(low)}-{number(high)}{kind(weak)}"


def _known(system: str) -> System:
    for known in SYSTEMS:
        if known.lower() == system.lower():
            return known
    raise RecipeError(f"no rank system {system!r}; there are {', '.join(SYSTEMS)}")


def ratings_of(rank: Rank, system: str) -> Span | None:
    """The lowest and the highest rating that the table gives an amateur's rank there; None if it does not hold it.

    Rows that name the rank alone count; only if there is none, those that name it with a neighbour ("4-5D").
    Raises RecipeError if there is no such system.
    """
    name = _known(system)
    if rank.professional:
        return None
    alone = [rating for rating, row in _table().items() if row[name] == (rank.level, rank.level)]
    rows = alone or [rating for rating, row in _table().items() if row[name][0] <= rank.level <= row[name][1]]
    return (rows[0], rows[-1]) if rows else None


def rank_at(rating: int, system: str) -> str | None:
    """The table's cell, like "17-18K", "1K-1D" or "23-24Gup"; None for ratings that it does not hold (2 to 36).

    Raises RecipeError if there is no such system.
    """
    name = _known(system)
    row = _table().get(rating)
    return _spell(row[name], name) if row else None


def equivalent(rank: str, system: str, other: str) -> str | None:
    """What a rank of one system is in another; None if it is no amateur's rank, or the table does not hold it.

    >>> equivalent("5k", "IGS", "AGA"), equivalent("1 dan", "AGA", "Japan"), equivalent("5d", "Japan", "IGS")
    ('1-2K', '2D', '1-2D')

    Raises RecipeError if there is no such system.
    """
    known, source, target = Rank.parse(rank), _known(system), _known(other)
    span = ratings_of(known, source) if known else None
    if span is None:
        return None
    cells = [_table()[rating][target] for rating in range(span[0], span[1] + 1)]
    return _spell((min(cell[0] for cell in cells), max(cell[1] for cell in cells)), target)
