"""SQL expressions over the columns of catalogues that select and weigh games; requires duckdb."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.catalogue import Catalogue
from kifu.corpus.database import NUMBERS, Database, open_database
from kifu.errors import RecipeError

_BATCH = 65_536
"""Rows that are read at a time."""

_BOOLEAN = "boolean"


def check_condition(database: Database, condition: str, table: str) -> None:
    """Check that a text is one SQL expression over the columns of a table.

    Raises:
        RecipeError: If it is not.
    """
    if not condition.strip():
        raise RecipeError("the condition must be an SQL expression, got an empty text")
    # Only one expression is valid in two pairs of brackets as well as in one.
    database.select(f"SELECT 1 FROM {table} WHERE ((\n{condition}\n))")
    database.select(f"SELECT 1 FROM {table} WHERE (\n{condition}\n)")


def check_expression(expression: str, boolean: bool) -> None:
    """Check an expression over the columns of the table `games` (`kifu.corpus.database`) before it is evaluated.

    Args:
        boolean: The value must be a BOOLEAN, otherwise a number or a BOOLEAN.

    Raises:
        RecipeError: If it is not one expression of such a type, or calls a function whose results vary.
    """
    if not expression.strip():
        raise RecipeError("must be an SQL expression, got an empty text")
    with open_database(()) as database:
        check_condition(database, f"(\n{expression}\n) IS NULL", "games")
        statement = f"SELECT (\n{expression}\n) FROM games"
        database.require_repeatable(statement)
        kind, *others = database.select(statement).types
    if others:
        raise RecipeError(f"must be one SQL expression, got {expression[:80]}")
    if kind.id != _BOOLEAN and (boolean or kind.id not in NUMBERS):
        raise RecipeError(f"must be {'BOOLEAN' if boolean else 'a number'}, got {kind}: {expression[:80]}")


def select_games(catalogue: Catalogue, where: str) -> npt.NDArray[np.bool_]:
    """Return which games a condition selects, dropped ones too: [rows] bool. NULL selects no game.

    Args:
        where: A condition in SQL over its columns, see docs/queries.md.

    Raises:
        FormatError: If the catalogue is damaged.
        RecipeError: If the condition is invalid.
    """
    chosen = np.zeros(catalogue.rows, np.bool_)
    for batch in _matching_rows(catalogue, where, '"row"'):
        chosen[batch.column(0).to_numpy()] = True
    return chosen


def weigh_games(catalogue: Catalogue, weight: str, where: str | None) -> npt.NDArray[np.float64]:
    """Return the weights of games, 0 for those that are dropped or not selected: [rows] float64.

    Args:
        weight: An SQL expression over its columns. Its value must be within 0 to 1; NULL is 0.
        where: A condition that selects games; None for all.

    Raises:
        RecipeError: If an expression is invalid, or a weight is not within 0 to 1.
    """
    weights = np.zeros(catalogue.rows)
    kept = '"drop" IS NULL' + ("" if where is None else f" AND (\n{where}\n)")
    for batch in _matching_rows(catalogue, kept, f'"row", coalesce((\n{weight}\n)::DOUBLE, 0)'):
        rows, values = (column.to_numpy() for column in batch.columns)
        outside = np.flatnonzero(~((values >= 0) & (values <= 1)))
        if len(outside):
            row, value = rows[outside[0]], values[outside[0]]
            raise RecipeError(f"weight must be within 0 to 1, got {value} for game {row + 1:,} of {catalogue.path}")
        weights[rows] = values
    return weights


def _matching_rows(catalogue: Catalogue, where: str, columns: str) -> Iterator[pa.RecordBatch]:
    """Yield some columns, as SQL, of the rows that a condition selects, in any order; "row" is the number from 0."""
    # Row numbers make the result independent of the order of DuckDB's rows, which subqueries may change.
    numbered = 'SELECT *, row_number() OVER () - 1 AS "row" FROM games'
    with open_database(catalogue.path) as database:
        check_condition(database, where, "games")
        found = database.select(f"SELECT {columns} FROM ({numbered}) WHERE (\n{where}\n)")
        yield from database.batches(found, _BATCH)
