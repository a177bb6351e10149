"""The games of a catalogue in DuckDB: filters, pages of rows, facet counts."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kifu.corpus.database import Database, open_database, quoted
from kifu.corpus.query import check_condition
from kifu.corpus.schema import SCHEMA
from kifu.errors import RecipeError
from kifu.web.api import Deadline, Params

_LISTS = {"setup", "setup_ply", "moves", "territory", "move_seconds", "evaluations"}
COLUMNS = tuple(name for name in SCHEMA.names if name not in _LISTS)
"""The columns of the table: all but lists. A column `row`, the number of the row from 0, precedes them."""

_MAX_SELECTIONS = 16
"""Number of filters whose games are kept in memory."""

Rows = npt.NDArray[np.bool_]
"""[rows] bool."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("text must be printable")
    return text


Text = Annotated[str, Field(max_length=200), AfterValidator(_printable)]
"""A short text that a user typed."""


class Filter(BaseModel):
    """A choice of games, the same for lists, explorer and searches. Empty texts and None choose all.

    Attributes:
        q: Part of a player's name or an event, ignoring case.
        player: The name of a player, ignoring case.
        colour: The colour of this player; without `player` it has no effect.
        rating: Lowest rating (`kifu.Rank.rating`) of both players.
        handicap: "none", or "some" handicap stones.
        board: Width and height, such as "19x19".
        archive: The archive of the record, exactly as in the catalogue.
        sql: A condition in SQL over the columns of a catalogue.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    q: Text = ""
    player: Text = ""
    colour: Literal["", "black", "white"] = ""
    year_from: Annotated[int, Field(ge=0, le=9999)] | None = None
    year_to: Annotated[int, Field(ge=0, le=9999)] | None = None
    rating: Annotated[float, Field(ge=0, le=60)] | None = None
    winner: Literal["", "black", "white", "draw", "none"] = ""
    handicap: Literal["", "none", "some"] = ""
    board: Annotated[str, Field(pattern=r"^$|^[0-9]{1,2}x[0-9]{1,2}$")] = ""
    archive: Annotated[str, Field(max_length=1000), AfterValidator(_printable)] = ""
    sql: Annotated[str, Field(max_length=2000)] = ""

    def conditions(self) -> list[str]:
        """Return SQL conditions, all of which must hold, without that of `sql`."""
        found = []
        if self.q:
            text = quoted(self.q.lower())
            parts = [f"contains(lower({name}), {text})" for name in ("black", "white", "event")]
            found.append(f"({' OR '.join(parts)})")
        if self.player:
            name = quoted(self.player.lower())
            colours = [self.colour] if self.colour else ["black", "white"]
            found.append(f"({' OR '.join(f'lower({colour}) = {name}' for colour in colours)})")
        if self.year_from is not None:
            found.append(f"year >= {self.year_from}")
        if self.year_to is not None:
            found.append(f"year <= {self.year_to}")
        if self.rating is not None:
            found.append(f"least(black_rating, white_rating) >= {self.rating}")
        if self.winner:
            found.append("winner IS NULL" if self.winner == "none" else f"winner = {quoted(self.winner)}")
        if self.handicap:
            found.append(f"coalesce(handicap, 0) {'> 1' if self.handicap == 'some' else '<= 1'}")
        if self.board:
            width, height = self.board.split("x")
            found.append(f"width = {int(width)} AND height = {int(height)}")
        if self.archive:
            found.append(f"archive = {quoted(self.archive)}")
        return found


class CorpusParams(Params, Filter):
    """A choice of games of a catalogue.

    Attributes:
        corpus: Number of the catalogue, from 0.
    """

    corpus: int = Field(0, ge=0, le=10_000)

    @property
    def chosen(self) -> Filter:
        """The filter alone."""
        return Filter(**{name: getattr(self, name) for name in Filter.model_fields})


class GameTable:
    """The rows of a catalogue in DuckDB's memory, for many threads."""

    def __init__(self, database: Database) -> None:
        """Read the rows. `database` holds one catalogue."""
        columns = ", ".join(f'"{name}"' for name in COLUMNS)
        database.create_table("summaries", f'SELECT row_number() OVER () - 1 AS "row", {columns} FROM games')
        self._database = database
        self.rows = int(database.rows(database.select("SELECT count(*) FROM summaries"))[0][0])
        self._selections: OrderedDict[Filter, Rows | None] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: str | Path) -> Iterator[GameTable]:
        """Open the table of a catalogue.

        Raises:
            FormatError: If it is not a catalogue.
        """
        with open_database(path) as database:
            yield cls(database)

    def query(self, sql: str, deadline: Deadline, found: pa.Table | None = None) -> list[tuple[Any, ...]]:
        """Run one SELECT statement over the table `summaries` and return its rows.

        Args:
            found: Another table, which the statement may read as `found`.

        Raises:
            RecipeError: If it is invalid.
            TimeLimitError: If it takes too long.
        """
        with self._database.cursor() as cursor, deadline.interrupting(cursor.interrupt):
            if found is not None:
                cursor.register("found", found)
            return cursor.rows(cursor.select(sql))

    def condition(self, chosen: Filter, deadline: Deadline) -> str:
        """Return the SQL condition of a filter.

        Raises:
            RecipeError: If its `sql` is not a condition, or not one that is bounded, see `Database.require_bounded`.
            TimeLimitError: If that takes too long to find out.
        """
        found = chosen.conditions()
        if chosen.sql.strip():
            with self._database.cursor() as cursor, deadline.interrupting(cursor.interrupt):
                cursor.require_bounded(chosen.sql)
                check_condition(cursor, chosen.sql, "summaries")
            found.append(f"(\n{chosen.sql}\n)")
        return " AND ".join(found) or "true"

    def select(self, chosen: Filter, deadline: Deadline) -> Rows | None:
        """Return the games that a filter chooses, as `Searcher` takes them; None for all."""
        if chosen == Filter():
            return None
        with self._lock:
            if chosen in self._selections:
                self._selections.move_to_end(chosen)
                return self._selections[chosen]
        found = self.query(f'SELECT "row" FROM summaries WHERE {self.condition(chosen, deadline)}', deadline)
        rows = np.zeros(self.rows, np.bool_)
        rows[[row for (row,) in found]] = True
        with self._lock:
            self._selections[chosen] = rows
            while len(self._selections) > _MAX_SELECTIONS:
                self._selections.popitem(last=False)
        return rows

    def require_row(self, row: int) -> None:
        """Raise RecipeError unless the catalogue has a row."""
        if not 0 <= row < self.rows:
            raise RecipeError(f"row must be within 0 to {self.rows - 1:,}, got {row}")
