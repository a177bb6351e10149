"""Catalogues as tables that SQL can ask: DuckDB in memory, with nothing within its reach but the catalogues' files."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.schema import POINTS, SCHEMA
from kifu.errors import RecipeError

FILE_COLUMN = "catalogue"
"""The column that the tables have beside SCHEMA's: the file that the row is from, as it was given."""

_MEMORY = "300MB"
"""What DuckDB may use before it sorts and groups on disk; with Arrow and Python beside it, it stays below 600 MB."""

_LONGEST = 300  # characters of a message

_TYPES = {
    pa.bool_(): "BOOLEAN", pa.uint8(): "UTINYINT", pa.uint16(): "USMALLINT", pa.uint64(): "UBIGINT",
    pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.float32(): "FLOAT", pa.date32(): "DATE",
    pa.string(): "VARCHAR", POINTS: "USMALLINT[]",
}  # fmt: skip


@contextlib.contextmanager
def open_database(
    catalogues: Sequence[str | os.PathLike[str]], jobs: int | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with two tables: `games`, the rows of all catalogues in order, and `kept`, those not dropped.

    They have SCHEMA's columns in its types, then FILE_COLUMN. jobs: threads, by default one for each core. What does
    not fit into memory goes to a folder of its own among the system's temporary ones, which is gone at the end. No
    other file can be read, none written, and no extension loaded.
    Raises FormatError if a file is no catalogue, and RecipeError for whatever DuckDB does not like, there or inside
    the `with` block.
    """
    paths = [os.fspath(path) for path in catalogues]
    for path in paths:
        open_catalogue(path)
    with tempfile.TemporaryDirectory(prefix="kifu-query-") as folder, sql_errors():
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY,
            "temp_directory": f"{folder}/spill",
            "python_enable_replacements": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with duckdb.connect(":memory:", config=config if jobs is None else config | {"threads": jobs}) as connection:
            links = [_link(path, f"{folder}/{k}.parquet") for k, path in enumerate(paths)]
            connection.execute(f"SET allowed_paths = [{', '.join(map(_quoted, links))}]")
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            rows = " UNION ALL ".join(map(_select, links, paths))
            connection.execute(f"CREATE VIEW games AS {rows}")
            connection.execute('CREATE VIEW kept AS SELECT * FROM games WHERE "drop" IS NULL')
            yield connection


def _link(path: str, link: str) -> str:
    """Another name for a file: in its own, DuckDB would take *, ?, [ and ~ for patterns."""
    Path(link).symlink_to(Path(path).absolute())
    return link


@contextlib.contextmanager
def sql_errors() -> Iterator[None]:
    """DuckDB's errors as RecipeError, in one line: without the quoted query, with what it proposes instead."""
    try:
        yield
    except duckdb.Error as error:
        text = " ".join(str(error).partition("\n\nLINE ")[0].split())
        text = text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ..."
        raise RecipeError(f"query: {text}") from None


def _select(link: str, path: str) -> str:
    """The rows of one file, each column in SCHEMA's type, whatever the file has it in."""
    columns = [f'"{field.name}"::{_TYPES[field.type]} AS "{field.name}"' for field in SCHEMA]
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    columns.append(f"{_quoted(shown)} AS {FILE_COLUMN}")
    return f"SELECT {', '.join(columns)} FROM read_parquet({_quoted(link)}, hive_partitioning = false)"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
