"""The columns of a catalogue by which searches choose games and sum up their results."""

from __future__ import annotations

import difflib
from collections import Counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.catalogue import Catalogue
from kifu.corpus.schema import map_distinct, to_numpy
from kifu.errors import RecipeError
from kifu.point import BLACK, WHITE

UNKNOWN_YEAR = -1

_WINNERS = {"black": BLACK, "white": WHITE}


class GameInfo(NamedTuple):
    """Results, ratings and years of G games.

    Attributes:
        winner: [G] uint8: BLACK or WHITE, else 0.
        year: [G] int16, UNKNOWN_YEAR if not recorded.
        rating: [G, 2] float32, of Black and of White; NaN if unknown.
    """

    winner: npt.NDArray[np.uint8]
    year: npt.NDArray[np.int16]
    rating: npt.NDArray[np.float32]


INFO_COLUMNS = ("winner", "year", "black_rating", "white_rating")
"""The columns of a catalogue that `game_info` needs."""


def game_info(batch: pa.RecordBatch) -> GameInfo:
    """Return results, ratings and years of rows with at least INFO_COLUMNS, as `Catalogue.batches` yields them."""
    year = to_numpy(pc.fill_null(batch.column("year"), UNKNOWN_YEAR))
    ratings = [to_numpy(batch.column(f"{colour}_rating").fill_null(float("nan"))) for colour in ("black", "white")]
    return GameInfo(
        winner=map_distinct(batch.column("winner"), lambda text: _WINNERS.get(text or "", 0), np.uint8),
        year=np.maximum(year, UNKNOWN_YEAR),
        rating=np.stack(ratings, axis=1),
    )


_COLUMNS = {BLACK: "black", WHITE: "white"}

_SIMILAR = 5
"""Number of similar names that are suggested."""

_MAX_NAMES = 20_000
"""Number of distinct names, the most frequent ones, that are compared with an unknown one."""

_BATCH = 65_536
"""Rows that are read at a time."""


def choose_games(
    catalogue: Catalogue, where: str | None = None, player: str | None = None, colour: str | None = None
) -> npt.NDArray[np.bool_] | None:
    """Choose games.

    Args:
        where: A condition in SQL over its columns, see docs/queries.md; requires duckdb.
        player: The name of Black or White, ignoring case.
        colour: "black" or "white", the colour of this player.

    Returns:
        [rows] bool; None if nothing was asked for, which means all games.

    Raises:
        FormatError: If the catalogue is damaged.
        RecipeError: If the condition is invalid, or a colour is given without a player.
    """
    if colour is not None and (player is None or colour not in _COLUMNS.values()):
        raise RecipeError(f"colour must be black or white and requires a player, got {colour!r}")
    chosen = None
    if where is not None:
        from kifu.corpus.query import select_games  # requires duckdb

        chosen = select_games(catalogue, where)
    if player is not None:
        named = _select_player(catalogue, player, colour)
        chosen = named if chosen is None else chosen & named
    return chosen


def _select_player(catalogue: Catalogue, player: str, colour: str | None) -> npt.NDArray[np.bool_]:
    names = [name for name in _COLUMNS.values() if colour in (None, name)]
    wanted = pc.utf8_lower(pa.scalar(player.strip()))
    parts = [np.empty(0, np.bool_)]
    for batch in catalogue.batches(names, size=_BATCH):
        equal = [pc.fill_null(pc.equal(pc.utf8_lower(column), wanted), False) for column in batch.columns]
        parts.append(np.logical_or.reduce([column.to_numpy(zero_copy_only=False) for column in equal]))
    return np.concatenate(parts)


def similar_players(catalogue: Catalogue, player: str) -> list[str]:
    """Return names of players that resemble an unknown one, the most similar first, at most 5."""
    counts: Counter[str] = Counter()
    for batch in catalogue.batches(list(_COLUMNS.values()), size=_BATCH):
        for column in batch.columns:
            for pair in pc.value_counts(column.drop_null()).to_pylist():
                counts[pair["values"]] += pair["counts"]
    wanted = player.strip().lower()
    names: dict[str, str] = {}
    for name, _ in counts.most_common(_MAX_NAMES):
        names.setdefault(name.lower(), name)
    parts = [name for lower, name in names.items() if wanted and wanted in lower]
    close = [names[lower] for lower in difflib.get_close_matches(wanted, names, _SIMILAR)]
    return list(dict.fromkeys([*close, *parts]))[:_SIMILAR]
