"""What a corpus consists of: its games counted by rank, year, result, length, handicap, komi and more.

All but the table of what was dropped is about the games that were kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from kifu.corpus.database import Database, open_database
from kifu.corpus.meaning import MADE_OF, is_clear
from kifu.records.words import FormatName

Counts: TypeAlias = dict[str, int]
"""Games by some value of theirs."""

UNTOLD = "not told"
OTHERS = "others"

_FROM_RATING = {
    "30-21k": None, "20-11k": 12, "10-6k": 22, "5-1k": 27, "1d": 32, "2d": 33, "3d": 34, "4d": 35, "5d": 36, "6d": 37,
    "7d": 38, "8d": 39, "9d": 40, "pro": 41,
}  # fmt: skip
BANDS = (*_FROM_RATING, "none")
"""Ranks in classes, weak to strong; "none" is for players whose rank is not known."""

WINNERS = ("black", "white", "draw", "none")
ENDINGS = ("score", "resign", "time", "forfeit", "void", "unknown")
LENGTH_STEP = 50
_LONGEST = 500  # moves; all games from here on are one class

_COMMON = 12
"""Of komi, boards and archives, as many are named; the rest is summed up."""

_EXAMPLES = 5
_DISTINCT = 20_000
"""Of the distinct texts of a column so many, the most frequent, are looked at."""


@dataclass(frozen=True, slots=True)
class Unclear:
    """Games with words that are not understood. texts: the most frequent of these words."""

    games: int
    texts: Counts


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of games. read == kept + the sum of dropped; each of the others but `unclear` adds up to kept."""

    catalogues: tuple[str, ...]
    read: int
    kept: int
    dropped: Counts
    """By reason, most frequent first."""
    ranks: list[list[int]]
    """[len(BANDS), len(BANDS)]: Black's band down, White's across."""
    years: Counts
    results: dict[str, Counts]
    """Winner -> ending -> games, as in WINNERS and ENDINGS."""
    lengths: dict[str, Counts]
    """Moves, in classes of LENGTH_STEP ("0-49", ..., "500+") -> ending -> games."""
    handicaps: Counts
    """As told."""
    komi: Counts
    boards: Counts
    formats: Counts
    archives: Counts
    unclear: dict[str, Unclear]
    """By column, where there are any."""

    def to_json(self) -> str:
        """The same as one JSON object, in which `ranks` also names the bands."""
        values = asdict(self) | {"ranks": {"bands": BANDS, "games": self.ranks}}
        return json.dumps(values, ensure_ascii=False, indent=1) + "\n"


def count_games(catalogues: Sequence[str | os.PathLike[str]], *, jobs: int | None = None) -> Stats:
    """Counts the games of all catalogues. Raises FormatError if a file is none, RecipeError if it is damaged.

    jobs: threads, by default one for each core. Memory does not grow with the games.
    """
    with open_database(catalogues, jobs) as database:
        return _Counter(database).stats(tuple(os.fspath(path) for path in catalogues))


@dataclass(frozen=True, slots=True)
class _Counter:
    database: Database

    def stats(self, catalogues: tuple[str, ...]) -> Stats:
        ((read, kept),) = self._ask('SELECT count(*), count(*) FILTER (WHERE "drop" IS NULL) FROM games')
        frequent = "2 DESC, 1 NULLS LAST"
        return Stats(
            catalogues=catalogues,
            read=read,
            kept=kept,
            dropped=self._counts('"drop"', read - kept, rows='games WHERE "drop" IS NOT NULL', order=frequent),
            ranks=self._ranks(),
            years=self._counts("year", kept),
            results=self._results(),
            lengths=self._lengths(),
            handicaps=self._counts("handicap", kept),
            komi=self._counts("round(komi, 2)", kept, order=frequent, limit=_COMMON),
            boards=self._counts("width || 'x' || height", kept, order=frequent, limit=_COMMON),
            formats=self._counts("format", kept, order=frequent),
            archives=self._counts("archive", kept, order=frequent, limit=_COMMON),
            unclear=self._unclear(),
        )

    def _ask(self, sql: str) -> list[Any]:
        return self.database.rows(self.database.select(sql))

    def _counts(
        self, what: str, total: int, *, rows: str = "kept", order: str = "1 NULLS LAST", limit: int = _DISTINCT
    ) -> Counts:
        """The first values in that order, and how many of the games have others."""
        counts: Counts = {}
        for value, count in self._ask(f"SELECT {what}, count(*) FROM {rows} GROUP BY 1 ORDER BY {order} LIMIT {limit}"):
            name = UNTOLD if value is None else f"{value:g}" if isinstance(value, float) else str(value)
            counts[name] = counts.get(name, 0) + count
        others = total - sum(counts.values())
        return counts | ({OTHERS: others} if others else {})

    def _ranks(self) -> list[list[int]]:
        matrix = [[0] * len(BANDS) for _ in BANDS]
        sql = f"SELECT {_band('black')}, {_band('white')}, count(*) FROM kept GROUP BY 1, 2"
        for black, white, count in self._ask(sql):
            matrix[black][white] = count
        return matrix

    def _results(self) -> dict[str, Counts]:
        found: dict[str, Counts] = {}
        for winner, ending, count in self._ask(
            f"SELECT coalesce(winner, 'none') AS won, ending, count(*) FROM kept GROUP BY 1, 2 "
            f"ORDER BY {_place('won', WINNERS)}, {_place('ending', ENDINGS)}"
        ):
            found.setdefault(winner, {})[ending] = count
        return found

    def _lengths(self) -> dict[str, Counts]:
        steps = range(0, _LONGEST, LENGTH_STEP)
        names = [*(f"{low}-{low + LENGTH_STEP - 1}" for low in steps), f"{_LONGEST}+"]
        found: dict[str, Counts] = {name: {} for name in names}
        which = f"greatest(least(n_legal, {_LONGEST}), 0) // {LENGTH_STEP}"
        for k, ending, count in self._ask(
            f"SELECT {which}, ending, count(*) FROM kept GROUP BY 1, 2 ORDER BY 1, {_place('ending', ENDINGS)}"
        ):
            found[names[k]][ending] = count
        return found

    def _unclear(self) -> dict[str, Unclear]:
        found = {}
        for column, (_, made) in MADE_OF.items():
            # All but results are understood as a whole or not at all: then what they make is null.
            where = "" if column == "result_text" else f"AND {made[-1]} IS NULL"
            texts: Counts = {}
            for form, text, count in self._ask(
                f"SELECT format, {column}, count(*) FROM kept WHERE {column} IS NOT NULL {where} "
                f"GROUP BY 1, 2 ORDER BY 3 DESC, 2, 1 LIMIT {_DISTINCT}"
            ):
                if form in get_args(FormatName) and not is_clear(form, column, text):
                    texts[text] = texts.get(text, 0) + count
            if texts:
                found[column] = Unclear(sum(texts.values()), dict(list(texts.items())[:_EXAMPLES]))
        return found


def _place(column: str, known: tuple[str, ...]) -> str:
    """SQL: the order of those known, then of others by name."""
    return f"list_position({list(known)}, {column}) NULLS LAST, {column}"


def find_bands(rating: npt.NDArray[np.float32], pro: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """[K] int64: places in BANDS of some players.

    rating: [K] float32, NaN where it is not known.  pro: [K] float32, 1 for professionals, 0 for others, NaN where it
    is not known.
    """
    lowest = [low for low in _FROM_RATING.values() if low]
    band = np.searchsorted(lowest, rating, side="right")
    band = np.where(pro == 1, len(BANDS) - 2, np.where(pro == 0, np.minimum(band, len(BANDS) - 3), band))
    return np.where(np.isnan(rating), len(BANDS) - 1, band)


def _band(side: str) -> str:
    """SQL: a player's place in BANDS. 10 dan is no professional, but has the rating of one."""
    rating, pro = f"{side}_rating", f"{side}_pro"
    steps = [f"WHEN {rating} >= {low} THEN {k}" for k, low in enumerate(_FROM_RATING.values()) if low and low < 41]
    return (
        f"CASE WHEN {rating} IS NULL THEN {len(BANDS) - 1} "
        f"WHEN coalesce({pro}, {rating} >= 41) THEN {len(BANDS) - 2} {' '.join(reversed(steps))} ELSE 0 END"
    )
