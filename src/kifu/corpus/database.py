"""DuckDB over catalogues and annotations: one SELECT statement at a time, which can read them and write nothing.

Two layers enforce this. The parsed statement must consist of SELECTs and of functions that read no files. And DuckDB
reaches no path: it reads these files through `_CatalogueFiles`, which cannot write.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from copy import copy
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
from fsspec import AbstractFileSystem

from kifu.corpus import annotation
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.parquet import verify_pages
from kifu.corpus.schema import EVALUATIONS, POINTS, SCHEMA, SECONDS
from kifu.errors import FormatError, RecipeError, first_line
from kifu.files import open_regular, utf8_name
from kifu.records.paths import Paths, as_list

T = TypeVar("T")

FILE_COLUMN = "catalogue"
"""The additional column of the tables: the path of the row's catalogue, as given."""

_MEMORY = "1GB"
"""DuckDB's memory limit before it spills to disk.

With 400 MB, sorting 650,000 whole games fails; counting and selecting take less for any number of games.
"""

_MAX_SPILL = 16 * 10**9
"""Maximum number of bytes that are spilled to disk, where half of the free space is not less: some 15 million games."""

_MAX_MESSAGE = 300  # characters

_SELECT_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
"""The nodes of DuckDB's parsed statements that only select; all others write."""

_TABLE_FUNCTIONS = {"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree", "summary"}
"""The table functions that are allowed; others access files or memory, change settings, or run SQL in a string."""

NUMBERS = {
    "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint",
    "float", "double", "decimal",
}  # fmt: skip
"""The names of the types of numbers."""

_ROW_EXPRESSIONS = {
    "BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "OPERATOR",
    "TYPE",
}  # fmt: skip
"""Classes of expressions that compute a value from one row."""

_ROW_FUNCTIONS = {
    "+", "-", "*", "/", "//", "%", "**", "^", "abs", "ceil", "floor", "greatest", "least", "round", "sign", "sqrt",
    "trunc", "~~", "!~~", "~~*", "!~~*", "~~~", "like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape",
    "^@", "contains", "starts_with", "prefix", "ends_with", "suffix", "instr", "strpos", "position", "length",
    "len", "strlen", "lower", "upper", "trim", "ltrim", "rtrim", "left", "right", "substring", "substr",
    "regexp_matches", "regexp_full_match", "regexp_extract", "nullif", "ifnull", "isnan", "year", "month", "day",
    "dayofweek", "quarter", "date_part", "date_trunc", "date_diff", "make_date", "to_days", "to_months", "to_years",
}  # fmt: skip
"""Functions and operators whose results are not longer than their arguments, in time in proportion to these."""

_ROW_TYPES = NUMBERS | {
    "boolean", "bool", "varchar", "text", "string", "date", "timestamp", "int", "int1", "int2", "int4", "int8", "short",
    "long", "real", "float4", "float8", "numeric",
}  # fmt: skip
"""Types that a filter may cast to: a blob as bits as text, for example, has eight times the length."""

_VARYING_KEYWORDS = {"current_time", "current_timestamp", "localtime", "localtimestamp"}
"""Keywords that stand for functions whose result varies; `current_date` is the name of one."""

_TYPES = {
    pa.bool_(): "BOOLEAN", pa.uint8(): "UTINYINT", pa.uint16(): "USMALLINT", pa.uint64(): "UBIGINT",
    pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.float32(): "FLOAT", pa.date32(): "DATE",
    pa.string(): "VARCHAR", POINTS: "USMALLINT[]", SECONDS: "FLOAT[]",
    EVALUATIONS: "STRUCT(win FLOAT, loss FLOAT, score FLOAT, visits INTEGER)[]", annotation.NAMES: "VARCHAR",
}  # fmt: skip


class _CatalogueFiles(AbstractFileSystem):  # type: ignore[misc]
    """A file system for DuckDB that contains the files to query, and opens them to read only."""

    protocol = "kifu"
    cachable = False

    def __init__(self, files: Mapping[str, str]) -> None:
        """Set the files. files: by name, which begins with the protocol, the path."""
        super().__init__()
        self._files = files

    def glob(self, path: str, **options: Any) -> list[str]:
        """Return the name if it is that of a file; there are no patterns."""
        return [path] if path in self._files else []

    def size(self, path: str) -> int:
        """Return the size in bytes."""
        return Path(self._files[path]).stat().st_size

    def modified(self, path: str) -> datetime:
        """Return the time of the last change."""
        return datetime.fromtimestamp(Path(self._files[path]).stat().st_mtime, UTC)

    def open(self, path: str, mode: str = "rb", **options: Any) -> _ReadOnlyFile:
        """Open a file. Raises FormatError if it cannot be read, or for any mode but "rb"."""
        if mode != "rb":
            raise FormatError(f"{path}: files can only be read")
        return _ReadOnlyFile(self._files[path])


class _ReadOnlyFile:
    """A file with a position per thread: DuckDB's threads share it, and each seeks before it reads."""

    def __init__(self, path: str) -> None:
        try:
            self._file = open_regular(path)
        except OSError as error:
            raise FormatError(f"{path}: {first_line(error)}") from None
        self._position: dict[int, int] = {}

    def seek(self, position: int) -> None:
        self._position[threading.get_ident()] = position

    def read(self, size: int) -> bytes:
        data = os.pread(self._file.fileno(), size, self._position.get(threading.get_ident(), 0))
        self._position[threading.get_ident()] = self._position.get(threading.get_ident(), 0) + len(data)
        return data

    def close(self) -> None:
        self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()  # DuckDB does not


class Database:
    """A DuckDB connection, as `open_database` yields it. Methods raise RecipeError for all of DuckDB's errors."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        thread: Executor,
        tables: Sequence[tuple[str, Mapping[str, str]]],
        annotations: dict[str, str],
    ) -> None:
        """Create the tables and disable all access to other files.

        Args:
            tables: Each catalogue as given, and the paths of its files by their names in `_CatalogueFiles`.
            annotations: The paths of annotations by their names in `_CatalogueFiles`.
        """
        self._connection = connection
        self._thread = thread
        self._paths = {name: path for _, names in tables for name, path in names.items()} | annotations
        with self._errors():
            connection.register_filesystem(_CatalogueFiles(self._paths))
            connection.execute(f"SET allowed_paths = [{', '.join(map(quoted, self._paths))}]")
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            if tables or not annotations:
                rows = (
                    " UNION ALL ".join(_select_games(path, list(names)) for path, names in tables) or _select_no_games()
                )
                connection.execute(f"CREATE VIEW games AS {rows}")
                connection.execute('CREATE VIEW kept AS SELECT * FROM games WHERE "drop" IS NULL')
            if annotations:
                connection.execute(f"CREATE VIEW moves AS {_select(annotation.SCHEMA, list(annotations))}")
            known = "SELECT lower(function_name) FROM duckdb_functions() WHERE function_type IN ('table', 'pragma')"
            self._refused = {name for (name,) in connection.execute(known).fetchall()} - _TABLE_FUNCTIONS

    def create_table(self, name: str, sql: str) -> None:
        """Keep the rows of a SELECT statement in memory as a table, for this connection and its cursors."""
        with self._errors():
            self._connection.execute(f"CREATE TABLE {name} AS {sql}")

    def register(self, name: str, table: pa.Table) -> None:
        """Let the statements of this connection, but not of its cursors, read an Arrow table."""
        with self._errors():
            self._connection.register(name, table)

    @contextlib.contextmanager
    def cursor(self) -> Iterator[Database]:
        """Open another connection to the same tables, for one thread, while the context is open."""
        with _closing(self._connection.cursor()) as connection, ThreadPoolExecutor(1) as thread:
            other = copy(self)
            other._connection, other._thread = connection, thread
            yield other

    def interrupt(self) -> None:
        """End the running query of this connection with a RecipeError; called by another thread."""
        self._connection.interrupt()

    def select(self, sql: str) -> duckdb.DuckDBPyRelation:
        """Parse and bind one SELECT statement without running it.

        Raises:
            RecipeError: If it is invalid, another statement, or one that might do more than read the tables.
        """
        with self._errors():
            kinds = [each.type.name for each in self._connection.extract_statements(sql)]
            if kinds != ["SELECT"]:
                raise RecipeError(f"the query must be one SELECT statement, got {', '.join(kinds) or 'none'}")
            self._require_select_only(sql)
            return self._connection.sql(sql)

    def _require_select_only(self, sql: str) -> None:
        """Raise RecipeError if a part of a statement writes, or calls a table function that is not allowed."""
        tree = self._parse(sql)
        # Within the tree's texts quotes are escaped, so that no text looks like a name.
        if '"error":false' not in tree[:20]:
            raise RecipeError("the query must be one SELECT statement")
        if writes := set(re.findall(r'"type":"(\w+_NODE)"', tree)) - _SELECT_NODES:
            kind = min(writes).removesuffix("_NODE").removesuffix("_QUERY")
            raise RecipeError(f"the query must only select, got {kind} in a part of it")
        if refused := _called(tree) & self._refused:
            raise RecipeError(
                f"the query must not call {min(refused)}(); it can read only the tables games, kept and moves"
            )

    def require_bounded(self, condition: str) -> None:
        """Raise RecipeError unless a condition only compares, computes and searches text, row by row.

        What it may call takes time and memory in proportion to the row, so it can be interrupted soon. Others (repeat,
        levenshtein, subqueries, lambdas) can allocate any amount of memory, or run on for minutes.
        """
        tree = self._parse(f"SELECT 1 WHERE (\n{condition}\n)")
        try:
            nodes = [node for node in _nodes(json.loads(tree)) if "class" in node]
        except RecursionError:
            raise RecipeError("a filter must have fewer levels") from None
        for node in nodes:
            name = (node.get("function_name") or node.get("type_name") or "").lower()
            if node["class"] not in _ROW_EXPRESSIONS:
                raise RecipeError(f"a filter must not contain a {node['class'].lower()}")
            if node["class"] == "TYPE" and name not in _ROW_TYPES:
                raise RecipeError(f"a filter must not cast to {name}")
            if node["class"] == "FUNCTION" and name not in _ROW_FUNCTIONS:
                raise RecipeError(f"a filter must not call {name}(); docs/serve.md lists what it may call")
            # Other patterns are compiled for each row, which takes up to 0.2 s.
            patterns = node["arguments"][1:] if name.startswith("regexp_") else []
            if any(each["expression"]["class"] != "CONSTANT" for each in patterns):
                raise RecipeError(f"the pattern of {name}() must be a text in quotes")

    def require_repeatable(self, sql: str) -> None:
        """Raise RecipeError if a SELECT statement calls a function such as random() or now(), whose result varies."""
        tree = self._parse(sql)
        called = {name.lower() for name in re.findall(r'"(?:function_name|column_names)":\[?"(\w+)"', tree)}
        varying = "SELECT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT'"
        with self._errors():
            names = {name for (name,) in self._connection.execute(varying).fetchall()} | _VARYING_KEYWORDS
        if refused := called & names:
            raise RecipeError(f"must not call {min(refused)}, whose result varies")

    def _parse(self, sql: str) -> str:
        """Return the parsed statement as JSON; an invalid one is an object with the key "error"."""
        with self._errors():
            (tree,) = self._connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0]
        return str(tree)

    def batches(self, relation: duckdb.DuckDBPyRelation, rows: int = 8192) -> Iterator[pa.RecordBatch]:
        """Run the query and yield at most `rows` rows at a time."""
        reader = self._run(lambda: relation.to_arrow_reader(rows))
        while (batch := self._run(lambda: next(reader, None))) is not None:
            yield batch

    def rows(self, relation: duckdb.DuckDBPyRelation) -> list[tuple[Any, ...]]:
        """Run the query and return all rows as Python values."""
        return [
            row for batch in self.batches(relation) for row in zip(*(column.to_pylist() for column in batch.columns))
        ]

    def _run(self, work: Callable[[], T]) -> T:
        """Run DuckDB in a second thread: the thread that runs it sees Ctrl-C only after the query."""
        done = self._thread.submit(work)
        try:
            with self._errors():
                return done.result()
        except KeyboardInterrupt:
            self._connection.interrupt()
            raise

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise DuckDB's errors as one-line RecipeErrors, without the quoted query, but with DuckDB's suggestions."""
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:  # the latter two from Arrow's reader
            paragraph = str(error).partition("\n\n")[0].strip()
            if paragraph.startswith("Traceback"):  # of `_CatalogueFiles`
                paragraph = paragraph.splitlines()[-1].partition(": ")[2]
            text = " ".join(paragraph.split())
            for name, path in self._paths.items():
                text = text.replace(name, path)
            raise RecipeError(text if len(text) <= _MAX_MESSAGE else text[: _MAX_MESSAGE - 4] + " ...") from None


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects within a JSON value."""
    todo = [tree]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            yield value
            todo += value.values()
        elif isinstance(value, list):
            todo += value


def _called(tree: str) -> set[str]:
    """Return the functions that a parsed statement calls, in lower case."""
    return {json.loads(name).lower() for name in re.findall(r'"function_name":("(?:[^"\\]|\\.)*")', tree)}


@contextlib.contextmanager
def _closing(connection: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """Close a connection at the end. DuckDB refuses that while another thread interrupts it, and closes it later."""
    try:
        yield connection
    finally:
        with contextlib.suppress(duckdb.Error):
            connection.close()


@contextlib.contextmanager
def open_database(catalogues: Paths, jobs: int | None = None, max_memory: int | None = None) -> Iterator[Database]:
    """Open a database of catalogues and annotations; without any, the tables of games are empty.

    Catalogues give two tables: `games`, all their rows in order, and `kept`, those not dropped. These have SCHEMA's
    columns and types, then FILE_COLUMN. Annotations give the table `moves` with the columns of
    `kifu.corpus.annotation.SCHEMA`. Data beyond the memory limit is spilled to a temporary
    directory. No other file can be read, none can be written, and no extension can be loaded.

    Args:
        jobs: Number of threads, by default one per core.
        max_memory: See `kifu.corpus.query.query`.

    Raises:
        FormatError: If a file is neither a catalogue nor an annotation.
        RecipeError: If the memory does not suffice.
    """
    paths = [os.fspath(path) for path in as_list(catalogues)]
    names = (f"{_CatalogueFiles.protocol}://{k}.parquet" for k in count())
    annotations = {next(names): path for path in paths if annotation.is_annotation(Path(path))}
    for path in annotations.values():
        annotation.check_annotation(Path(path))
        _verify(Path(path))
    others = [path for path in paths if path not in annotations.values()]
    tables = [(path, {next(names): file for file in _checked_files(path)}) for path in others]
    with tempfile.TemporaryDirectory(prefix="kifu-query-") as folder:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY,
            "temp_directory": folder,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        config |= {} if jobs is None else {"threads": jobs}
        with _closing(duckdb.connect(":memory:", config=config)) as connection, ThreadPoolExecutor(1) as thread:
            spill = min(_MAX_SPILL, shutil.disk_usage(folder).free // 2)
            connection.execute(f"SET max_temp_directory_size = '{spill} bytes'")  # has no effect in `config`
            with contextlib.nullcontext() if max_memory is None else _limited_memory(max_memory):
                yield Database(connection, thread, tables, annotations)


@contextlib.contextmanager
def _limited_memory(size: int) -> Iterator[None]:
    """Limit the memory that this process allocates from now on to `size` bytes, on Linux.

    DuckDB's own limit does not hold for long texts and lists.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if sys.platform == "linux":
        used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
        limits = [each for each in (used + size, soft, hard) if each != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    except MemoryError:
        raise RecipeError(f"the query must not use more than {size:,} bytes of memory") from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _checked_files(path: str) -> list[str]:
    """Return the files of a catalogue, whose schemas, row counts and pages are checked. Raises FormatError."""
    catalogue = open_catalogue(path)
    catalogue.shards()
    for file in catalogue.partitions:
        _verify(file)
    return [os.fspath(file) for file in catalogue.partitions]


def _verify(file: Path) -> None:
    """Raise FormatError if a file is damaged: DuckDB does not verify the checksums of pages."""
    try:
        verify_pages(file)
    except OSError as error:
        raise FormatError(f"{file}: {first_line(error)}") from None


def _select_games(path: str, names: Sequence[str]) -> str:
    """Return the SELECT of one catalogue's rows, cast to SCHEMA's types."""
    return _select(SCHEMA, names, f"{quoted(utf8_name(path))} AS {FILE_COLUMN}")


def _select_no_games() -> str:
    """Return a SELECT of no rows with the columns of `_select_games`."""
    types = {field.name: _TYPES[field.type] for field in SCHEMA} | {FILE_COLUMN: "VARCHAR"}
    columns = [f'NULL::{kind} AS "{name}"' for name, kind in types.items()]
    return f"SELECT {', '.join(columns)} WHERE false"


def _select(schema: pa.Schema, names: Sequence[str], *more: str) -> str:
    """Return the SELECT of the rows of some files, cast to the types of a schema; more: further columns."""
    columns = [f'"{field.name}"::{_TYPES[field.type]} AS "{field.name}"' for field in schema]
    files = ", ".join(map(quoted, names))
    source = f"read_parquet([{files}], hive_partitioning = false, union_by_name = true)"
    return f"SELECT {', '.join([*columns, *more])} FROM {source}"


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"
