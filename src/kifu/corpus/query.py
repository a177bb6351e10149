"""Query catalogues and annotations in SQL; results become rows to print, CSV, Parquet, or a catalogue again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from kifu.atomic_io import AtomicFile
from kifu.corpus.annotation import is_annotation
from kifu.corpus.catalogue import Catalogue, CatalogueWriter, open_catalogue
from kifu.corpus.database import FILE_COLUMN, NUMBERS, Database, open_database
from kifu.corpus.parquet import TableWriter, cast_batch
from kifu.corpus.schema import SCHEMA
from kifu.errors import OutputError, RecipeError
from kifu.files import hash_file, utf8_name
from kifu.records.paths import Paths, as_list
from kifu.text import Report

_CSV_TYPES = NUMBERS | {"varchar", "boolean", "date", "timestamp"}
"""Types that Arrow writes to CSV in the usual way; others are written as DuckDB's text."""


@dataclass(frozen=True, slots=True)
class QueryHead(Report):
    """The first rows of a query's result.

    Attributes:
        numeric: True for columns of numbers.
        rows: Values as text, None for null.
        total: Number of rows of the whole result.
    """

    columns: list[str]
    numeric: list[bool]
    rows: list[tuple[str | None, ...]]
    total: int


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A bound query. Each method runs it, in memory that does not grow with the rows.

    Methods raise RecipeError for errors at run time, such as a failing cast.
    """

    sql: str
    catalogues: tuple[str, ...]
    _database: Database = field(repr=False)
    _relation: duckdb.DuckDBPyRelation = field(repr=False)

    @property
    def columns(self) -> list[str]:
        """The names of the columns in order, which need not be unique."""
        return list(self._relation.columns)

    @property
    def is_catalogue(self) -> bool:
        """True if the result has all columns of a catalogue, in any order, and no others except FILE_COLUMN."""
        return sorted(name for name in self.columns if name != FILE_COLUMN) == sorted(SCHEMA.names)

    def head(self, rows: int) -> QueryHead:
        """Return the first rows, and the total number of rows."""
        texts = ", ".join(f"#{k}::VARCHAR" for k in range(1, len(self.columns) + 1))
        first = self._database.rows(self._relation.limit(rows + 1).project(texts))
        total = self._database.rows(self._relation.aggregate("count(*)"))[0][0] if len(first) > rows else len(first)
        numeric = [kind.id in NUMBERS for kind in self._relation.types]
        return QueryHead(self.columns, numeric, first[:rows], total)

    def arrow(self) -> pa.Table:
        """Return all rows as an Arrow table, which `to_pandas` and polars convert."""
        return pa.Table.from_batches(self._database.batches(self._relation), self._arrow_schema())

    def csv(self) -> Iterator[bytes]:
        """Yield the result as CSV in UTF-8 with a header line; text is quoted, null is an empty field."""
        yield self._csv_header()
        yield from map(_csv_rows, self._database.batches(self._csv_relation()))

    def _csv_header(self) -> bytes:
        return (",".join('"' + name.replace('"', '""') + '"' for name in self.columns) + "\n").encode()

    def _csv_relation(self) -> duckdb.DuckDBPyRelation:
        types = [kind.id for kind in self._relation.types]
        columns = (f"#{k}{'' if kind in _CSV_TYPES else '::VARCHAR'}" for k, kind in enumerate(types, 1))
        return self._relation.project(", ".join(columns))

    def write(self, path: str | os.PathLike[str]) -> int:
        """Write the rows to a .csv or .parquet file, and return their number.

        A Parquet file with exactly the columns of a catalogue becomes a catalogue; FILE_COLUMN is omitted then.

        Raises:
            FormatError: If a value does not fit its column of the catalogue.
        """
        path = Path(path)
        check_suffix(path)
        return self._write_csv(path) if path.suffix.lower() == ".csv" else self._write_parquet(path)

    def _write_csv(self, path: Path) -> int:
        rows = 0
        with AtomicFile(path) as output:
            output.write(self._csv_header())
            for batch in self._database.batches(self._csv_relation()):
                output.write(_csv_rows(batch))
                rows += len(batch)
            output.commit()
        return rows

    def _write_parquet(self, path: Path) -> int:
        rows, is_catalogue = 0, self.is_catalogue
        with CatalogueWriter(path) if is_catalogue else TableWriter(path, self._schema()) as writer:
            for batch in self._database.batches(self._relation):
                writer.write(cast_batch(batch, SCHEMA, path) if is_catalogue else batch)
                rows += len(batch)
            metadata = self._metadata()
            writer.commit(metadata if is_catalogue else {f"kifu.{key}": value for key, value in metadata.items()})
        return rows

    def _arrow_schema(self) -> pa.Schema:
        schema: pa.Schema = self._relation.limit(0).to_arrow_table().schema
        return schema

    def _schema(self) -> pa.Schema:
        """Return the result's schema. Raises RecipeError if Parquet cannot store a column."""
        repeated = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if repeated:
            raise RecipeError(f"two columns are named {repeated[0]!r}; rename one of them with AS")
        schema = self._arrow_schema()
        for column in schema:
            try:
                pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([column])).close()
            except pa.ArrowNotImplementedError:
                raise RecipeError(f"{column.name}: Parquet cannot store {column.type}; cast it to VARCHAR") from None
        return schema

    def _metadata(self) -> dict[str, Any]:
        return {"query": self.sql, "of": [_describe_input(name) for name in self.catalogues]}


@contextlib.contextmanager
def query(
    sql: str, catalogues: Paths, *, jobs: int | None = None, max_memory: int | None = None
) -> Iterator[QueryResult]:
    """Bind one SELECT statement over the tables `games`, `kept` and `moves`, see `open_database`.

    Args:
        catalogues: One or more paths, also of annotations.
        jobs: Number of threads, by default one per core.
        max_memory: Maximum number of bytes that this process may allocate while the context is open, on Linux only. It
            holds for all threads. None: only DuckDB's own limit of 1 GB, which long texts and lists can exceed.

    Raises:
        FormatError: If a file is neither a catalogue nor an annotation.
        RecipeError: If the statement is invalid, or not a SELECT, or the memory does not suffice.
    """
    paths = as_list(catalogues)
    with open_database(paths, jobs, max_memory) as database:
        yield QueryResult(sql, tuple(os.fspath(path) for path in paths), database, database.select(sql))


def _describe_input(name: str) -> dict[str, Any]:
    """Return name, size and hash of a catalogue or annotation."""
    if is_annotation(path := Path(name)):
        return {"name": utf8_name(name), "bytes": path.stat().st_size, "blake3": hash_file(path)}
    catalogue = open_catalogue(name)
    return {"name": utf8_name(name), "bytes": catalogue.file_bytes(), "blake3": catalogue.digest()}


def check_suffix(path: Path) -> None:
    """Raise OutputError unless a query's result can be written to a file of this name."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise OutputError(f"cannot write {path}: the suffix must be '.csv' or '.parquet', got {path.suffix!r}")


def _csv_rows(batch: pa.RecordBatch) -> bytes:
    buffer = pa.BufferOutputStream()
    pyarrow.csv.write_csv(batch, buffer, pyarrow.csv.WriteOptions(include_header=False))
    data: bytes = buffer.getvalue().to_pybytes()
    return data


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
