"""Questions to catalogues in SQL; their answers as rows to look at, as CSV or Parquet, or as a catalogue again."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from kifu.atomic_io import AtomicFile
from kifu.corpus.catalogue import CatalogueWriter, open_catalogue
from kifu.corpus.parquet import TableWriter, cast_batch
from kifu.corpus.schema import POINTS, SCHEMA
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
                writer.write(cast_batch(batch, SCHEMA, path) if corpus else batch)
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
    """The answer to one SELECT statement over the tables `games` and `kept`, see `kifu.corpus.query`.

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


T = TypeVar("T")

FILE_COLUMN = "catalogue"
"""The column that the tables have beside SCHEMA's: the catalogue that the row is from, as it was given."""

_MEMORY = "1GB"
"""What DuckDB may use before it sorts and groups on disk. With 400 MB it gives up sorting 650,000 whole games; counting
and selecting take less, however many games there are."""

_LONGEST = 300  # characters of a message

_TYPES = {
    pa.bool_(): "BOOLEAN", pa.uint8(): "UTINYINT", pa.uint16(): "USMALLINT", pa.uint64(): "UBIGINT",
    pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.float32(): "FLOAT", pa.date32(): "DATE",
    pa.string(): "VARCHAR", POINTS: "USMALLINT[]",
}  # fmt: skip


class Database:
    """What `open_database` makes. Its methods raise RecipeError for all that DuckDB does not like."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, thread: Executor, tables: Sequence[tuple[str, Mapping[str, str]]]
    ) -> None:
        """tables: each catalogue as given, with the paths of its parts by the names that DuckDB finds them under."""
        self._connection = connection
        self._thread = thread
        self._paths = {link: path for _, links in tables for link, path in links.items()}
        rows = " UNION ALL ".join(_select(path, list(links)) for path, links in tables)
        with self._errors():
            connection.execute(f"SET allowed_paths = [{', '.join(map(_quoted, self._paths))}]")
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            connection.execute(f"CREATE VIEW games AS {rows}")
            connection.execute('CREATE VIEW kept AS SELECT * FROM games WHERE "drop" IS NULL')

    def select(self, sql: str) -> duckdb.DuckDBPyRelation:
        """One SELECT statement, understood but not run. Raises RecipeError for other statements, too."""
        with self._errors():
            kinds = [each.type.name for each in self._connection.extract_statements(sql)]
            if kinds != ["SELECT"]:
                raise RecipeError(f"one SELECT statement is asked for, not {', '.join(kinds) or 'none'}")
            return self._connection.sql(sql)

    def batches(self, relation: duckdb.DuckDBPyRelation, rows: int = 8192) -> Iterator[pa.RecordBatch]:
        """Runs it; yields at most so many rows at a time."""
        reader = self._run(lambda: relation.to_arrow_reader(rows))
        while (batch := self._run(lambda: next(reader, None))) is not None:
            yield batch

    def rows(self, relation: duckdb.DuckDBPyRelation) -> list[tuple[Any, ...]]:
        """Runs it; all rows, which should be few, as Python values."""
        return [
            row for batch in self.batches(relation) for row in zip(*(column.to_pylist() for column in batch.columns))
        ]

    def _run(self, work: Callable[[], T]) -> T:
        """In a thread of its own: the one that DuckDB computes in learns of Ctrl-C only when all is done."""
        done = self._thread.submit(work)
        try:
            with self._errors():
                return done.result()
        except KeyboardInterrupt:
            self._connection.interrupt()
            raise

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """DuckDB's errors as RecipeError, in one line: without the quoted query, with what it proposes instead."""
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:  # the latter two out of a reader of Arrow's
            text = " ".join(str(error).partition("\n\n")[0].split())
            for link, path in self._paths.items():
                text = text.replace(link, path)
            raise RecipeError(text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ...") from None


@contextlib.contextmanager
def open_database(catalogues: Sequence[str | os.PathLike[str]], jobs: int | None = None) -> Iterator[Database]:
    """A database with two tables: `games`, the rows of all catalogues in order, and `kept`, those not dropped.

    They have SCHEMA's columns in its types, then FILE_COLUMN. jobs: threads, by default one for each core. What does
    not fit into memory goes to a folder of its own among the system's temporary ones, which is gone at the end. No
    other file can be read, none written, and no extension loaded. Raises FormatError if a file is no catalogue.
    """
    paths = [os.fspath(path) for path in catalogues]
    parts = [_parts(path) for path in paths]
    with tempfile.TemporaryDirectory(prefix="kifu-query-") as folder:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY,
            "temp_directory": f"{folder}/spill",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        config |= {} if jobs is None else {"threads": jobs}
        names = (f"{folder}/{k}.parquet" for k in count())
        tables = [(path, {_link(part, next(names)): part for part in each}) for path, each in zip(paths, parts)]
        with duckdb.connect(":memory:", config=config) as connection, ThreadPoolExecutor(1) as thread:
            yield Database(connection, thread, tables)


def _parts(path: str) -> list[str]:
    """The files of a catalogue, each of which DuckDB may take for what it says it is. Raises FormatError."""
    catalogue = open_catalogue(path)
    catalogue.shards()
    return [os.fspath(part) for part in catalogue.partitions]


def _link(path: str, link: str) -> str:
    """Another name for a file: in its own, DuckDB would take *, ?, [ and ~ for patterns."""
    Path(link).symlink_to(Path(path).absolute())
    return link


def _select(path: str, links: Sequence[str]) -> str:
    """The rows of one catalogue, each column in SCHEMA's type, whatever the files have it in."""
    columns = [f'"{field.name}"::{_TYPES[field.type]} AS "{field.name}"' for field in SCHEMA]
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    columns.append(f"{_quoted(shown)} AS {FILE_COLUMN}")
    files = ", ".join(map(_quoted, links))
    return f"SELECT {', '.join(columns)} FROM read_parquet([{files}], hive_partitioning = false, union_by_name = true)"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
