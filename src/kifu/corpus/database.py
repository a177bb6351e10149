"""Catalogues as tables that SQL can ask: DuckDB in memory, with nothing within its reach but the catalogues' files."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.schema import POINTS, SCHEMA
from kifu.errors import RecipeError

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
    catalogue.units()
    return [os.fspath(part) for part in catalogue.parts]


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
