"""Questions to catalogues in SQL; their answers as rows to look at, as CSV or Parquet, or as a catalogue again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from kifu.atomic_io import AtomicFile
from kifu.corpus.catalogue import CatalogueWriter, open_catalogue
from kifu.corpus.database import FILE_COLUMN, Database, open_database
from kifu.corpus.parquet import TableWriter, fitted
from kifu.corpus.schema import SCHEMA
from kifu.errors import OutputError, RecipeError

_NUMBERS = {
    "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint",
    "float", "double", "decimal",
}  # fmt: skip
_AS_IT_IS = _NUMBERS | {"varchar", "boolean", "date", "timestamp"}
"""Types that Arrow writes into CSV as anybody would; the others go there as the text that DuckDB has for them."""


@dataclass(frozen=True, slots=True)
class QueryHead:
    """The first rows of an answer. rows: values as text, None for null; total: how many rows there are in all."""

    columns: list[str]
    numeric: list[bool]
    """Which columns hold numbers."""
    rows: list[tuple[str | None, ...]]
    total: int


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A query, understood but not run; each method runs it, in memory that does not grow with the rows.

    Methods raise RecipeError if the data do not suit the query: `black::integer`, say.
    """

    sql: str
    catalogues: tuple[str, ...]
    _database: Database = field(repr=False)
    _relation: duckdb.DuckDBPyRelation = field(repr=False)

    @property
    def columns(self) -> list[str]:
        """Their names, in order; two may be called the same."""
        return list(self._relation.columns)

    @property
    def is_corpus(self) -> bool:
        """Whether it has all columns of a catalogue, in any order, and no others but the one that tells the file."""
        return sorted(name for name in self.columns if name != FILE_COLUMN) == sorted(SCHEMA.names)

    def head(self, rows: int) -> QueryHead:
        """The first rows, and how many there are."""
        texts = ", ".join(f"#{k}::VARCHAR" for k in range(1, len(self.columns) + 1))
        first = self._database.rows(self._relation.limit(rows + 1).project(texts))
        total = self._database.rows(self._relation.aggregate("count(*)"))[0][0] if len(first) > rows else len(first)
        numeric = [kind.id in _NUMBERS for kind in self._relation.types]
        return QueryHead(self.columns, numeric, first[:rows], total)

    def csv(self) -> Iterator[bytes]:
        """The rows as CSV in UTF-8 below a line of names, piece by piece: text is quoted, null is an empty field."""
        yield self._csv_names()
        yield from map(_csv_rows, self._database.batches(self._for_csv()))

    def _csv_names(self) -> bytes:
        return (",".join('"' + name.replace('"', '""') + '"' for name in self.columns) + "\n").encode()

    def _for_csv(self) -> duckdb.DuckDBPyRelation:
        types = [kind.id for kind in self._relation.types]
        columns = (f"#{k}{'' if kind in _AS_IT_IS else '::VARCHAR'}" for k, kind in enumerate(types, 1))
        return self._relation.project(", ".join(columns))

    def write(self, path: str | os.PathLike[str]) -> int:
        """Writes the rows into a .csv or .parquet file, whole or not at all; returns how many they are.

        A Parquet file with all columns of a catalogue and no others is a catalogue; the column that tells the file is
        left out then. Raises OutputError, also for another suffix, and FormatError if a column that is called like a
        catalogue's does not fit into it.
        """
        path = Path(path)
        check_suffix(path)
        return self._write_csv(path) if path.suffix.lower() == ".csv" else self._write_parquet(path)

    def _write_csv(self, path: Path) -> int:
        rows = 0
        with AtomicFile(path) as output:
            output.write(self._csv_names())
            for batch in self._database.batches(self._for_csv()):
                output.write(_csv_rows(batch))
                rows += len(batch)
            output.commit()
        return rows

    def _write_parquet(self, path: Path) -> int:
        rows, corpus = 0, self.is_corpus
        with CatalogueWriter(path) if corpus else TableWriter(path, self._schema()) as writer:
            for batch in self._database.batches(self._relation):
                writer.write(fitted(batch, SCHEMA, path) if corpus else batch)
                rows += len(batch)
            about = self._about()
            writer.commit(about if corpus else {f"kifu.{key}": value for key, value in about.items()})
        return rows

    def _schema(self) -> pa.Schema:
        """Raises RecipeError if a Parquet file cannot hold the columns."""
        repeated = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if repeated:
            raise RecipeError(f"two columns are called {repeated[0]!r}; give one of them another name by AS")
        schema: pa.Schema = self._relation.limit(0).to_arrow_table().schema
        for column in schema:
            try:
                pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([column])).close()
            except pa.ArrowNotImplementedError:
                raise RecipeError(f"{column.name}: Parquet holds no {column.type}; cast it to VARCHAR") from None
        return schema

    def _about(self) -> dict[str, Any]:
        opened = {name: open_catalogue(name) for name in self.catalogues}
        of = [{"name": name, "bytes": c.file_bytes(), "blake3": c.digest()} for name, c in opened.items()]
        return {"query": self.sql, "of": of}


@contextlib.contextmanager
def open_query(
    sql: str, catalogues: Sequence[str | os.PathLike[str]], *, jobs: int | None = None
) -> Iterator[QueryResult]:
    """The answer to one SELECT statement over the tables `games` and `kept`, see `kifu.corpus.database`.

    Raises FormatError if a file is no catalogue, and RecipeError if the statement is another one or makes no sense.
    """
    with open_database(catalogues, jobs) as database:
        yield QueryResult(sql, tuple(os.fspath(path) for path in catalogues), database, database.select(sql))


def check_suffix(path: Path) -> None:
    """Raises OutputError if an answer cannot be written into a file of that name."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise OutputError(f"cannot write {path}: its suffix is {path.suffix!r}, not '.csv' or '.parquet'")


def _csv_rows(batch: pa.RecordBatch) -> bytes:
    piece = pa.BufferOutputStream()
    pyarrow.csv.write_csv(batch, piece, pyarrow.csv.WriteOptions(include_header=False))
    data: bytes = piece.getvalue().to_pybytes()
    return data
