"""Query catalogues and annotations in SQL by DuckDB; results become text, CSV, Parquet, or a catalogue again.

Queries can read these files and write nothing. Two layers enforce this. The parsed statement must consist of SELECTs
and of functions that read no files. And DuckDB reaches no path: it reads the files through `_CatalogueFiles`, which
cannot write.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Self, TypeVar

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from fsspec import AbstractFileSystem

from kifu.corpus.catalogue import Catalogue, CatalogueWriter, open_catalogue
from kifu.corpus.parquet import TableWriter, cast_batch, check_annotation, is_annotation, reading, verify_pages
from kifu.corpus.schema import ANNOTATION_SCHEMA, EVALUATIONS, NAMES, POINTS, SCHEMA, SECONDS
from kifu.errors import FormatError, OutputError, RecipeError
from kifu.io import AtomicFile, bytes_at, hash_file, open_regular, utf8_name
from kifu.process import limited_memory
from kifu.records.paths import Paths, as_list
from kifu.text import Report, shorten

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
    pa.string(): "VARCHAR", pa.binary(): "BLOB", POINTS: "USMALLINT[]", SECONDS: "FLOAT[]",
    EVALUATIONS: "STRUCT(win FLOAT, loss FLOAT, score FLOAT, visits INTEGER)[]", NAMES: "VARCHAR",
}  # fmt: skip

_CSV_TYPES = NUMBERS | {"varchar", "boolean", "date", "timestamp"}
"""Types that Arrow writes to CSV in the usual way; others are written as DuckDB's text."""

_BATCH = 65_536
"""Rows that are read at a time."""

_BOOLEAN = "boolean"


class _CatalogueFiles(AbstractFileSystem):  # type: ignore[misc]
    """A file system for DuckDB that contains the files to query, and opens them to read only."""

    protocol = "kifu"
    cachable = False

    def __init__(self, files: Mapping[str, str]) -> None:
        super().__init__()
        self._files = files

    def glob(self, path: str, **options: Any) -> list[str]:
        return [path] if path in self._files else []

    def size(self, path: str) -> int:
        return Path(self._files[path]).stat().st_size

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(Path(self._files[path]).stat().st_mtime, UTC)

    def open(self, path: str, mode: str = "rb", **options: Any) -> _ReadOnlyFile:
        """Open a file. Raises FormatError if it cannot be read, or for any mode but "rb"."""
        if mode != "rb":
            raise FormatError(f"{path}: files can only be read")
        return _ReadOnlyFile(self._files[path])


class _ReadOnlyFile:
    """A file with a position per thread: DuckDB's threads share it, and each seeks before it reads."""

    def __init__(self, path: str) -> None:
        with reading(path):
            self._file = open_regular(path)
        self._position: dict[int, int] = {}

    def seek(self, position: int) -> None:
        self._position[threading.get_ident()] = position

    def read(self, size: int) -> bytes:
        position = self._position.get(threading.get_ident(), 0)
        data = bytes_at(self._file.fileno(), size, position)
        self.seek(position + len(data))
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
        thread: Executor | None,
        tables: Sequence[tuple[str, Mapping[str, str]]],
        annotations: dict[str, str],
    ) -> None:
        """Create the tables and disable all access to other files.

        Args:
            tables: Each catalogue as given, and the paths of its files by their names in `_CatalogueFiles`.
            annotations: The paths of annotations by their names there.
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
                given = ((names, f"{quoted(utf8_name(path))} AS {FILE_COLUMN}") for path, names in tables)
                selects = [_select(SCHEMA, list(names), column) for names, column in given]
                connection.execute(f"CREATE VIEW games AS {' UNION ALL '.join(selects) or _select_no_games()}")
                connection.execute('CREATE VIEW kept AS SELECT * FROM games WHERE "drop" IS NULL')
            if annotations:
                connection.execute(f"CREATE VIEW moves AS {_select(ANNOTATION_SCHEMA, list(annotations))}")
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
        """Open another connection to the same tables, for one thread, not the main one, while the context is open."""
        with _closing(self._connection.cursor()) as connection:
            other = copy(self)
            other._connection, other._thread = connection, None
            yield other

    def interrupt(self) -> None:
        """End the running query of this connection with a RecipeError; called by another thread."""
        self._connection.interrupt()

    def select(self, sql: str) -> duckdb.DuckDBPyRelation:
        """Parse and bind one SELECT statement without running it.

        Raises RecipeError if it is invalid, another statement, or one that might do more than read the tables.
        """
        with self._errors():
            kinds = [each.type.name for each in self._connection.extract_statements(sql)]
            if kinds != ["SELECT"]:
                raise RecipeError(f"the query must be one SELECT statement, got {', '.join(kinds) or 'none'}")
            self._require_select_only(sql)
            return self._connection.sql(sql)

    def _require_select_only(self, sql: str) -> None:
        tree = self._parse(sql)
        # Within the tree's texts quotes are escaped, so that no text looks like a name.
        if '"error":false' not in tree[:20]:
            raise RecipeError("the query must be one SELECT statement")
        if writes := set(re.findall(r'"type":"(\w+_NODE)"', tree)) - _SELECT_NODES:
            kind = min(writes).removesuffix("_NODE").removesuffix("_QUERY")
            raise RecipeError(f"the query must only select, got {kind} in a part of it")
        names = re.findall(r'"function_name":("(?:[^"\\]|\\.)*")', tree)
        if refused := {json.loads(name).lower() for name in names} & self._refused:
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

    def rows(self, query: str | duckdb.DuckDBPyRelation) -> list[tuple[Any, ...]]:
        """Run a query and return the rows as Python values. A text is ours: users' conditions in it were checked."""
        run = self._connection.execute
        return self._run(lambda: (run(query) if isinstance(query, str) else query).fetchall())

    def _run(self, work: Callable[[], T]) -> T:
        """Run DuckDB in a second thread if this is the main one, which would see Ctrl-C only after the query."""
        if self._thread is None:
            with self._errors():
                return work()
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
    todo = [tree]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            yield value
            todo += value.values()
        elif isinstance(value, list):
            todo += value


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
    `kifu.corpus.schema.ANNOTATION_SCHEMA`. Data beyond the memory limit is spilled to a temporary directory. No other
    file can be read, none can be written, and no extension can be loaded. Arguments and errors are those of `query`.
    """
    paths = [os.fspath(path) for path in as_list(catalogues)]
    names = (f"{_CatalogueFiles.protocol}://{k}.parquet" for k in count())
    annotations = {next(names): path for path in paths if is_annotation(Path(path))}
    for path in annotations.values():
        check_annotation(Path(path))
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
    """Limit the memory of a query: DuckDB's own limit does not hold for long texts and lists."""
    try:
        with limited_memory(size):
            yield
    except MemoryError:
        raise RecipeError(f"the query must not use more than {size:,} bytes of memory") from None


def _checked_files(path: str) -> list[str]:
    """Return the files of a catalogue, whose schemas, row counts and pages are checked. Raises FormatError."""
    catalogue = open_catalogue(path)
    catalogue.shards()
    for file in catalogue.partitions:
        _verify(file)
    return [os.fspath(file) for file in catalogue.partitions]


def _verify(file: Path) -> None:
    with reading(file):
        verify_pages(file)  # DuckDB does not


def _select_no_games() -> str:
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


@dataclass(frozen=True, slots=True)
class QueryHead(Report):
    """The first rows of a query's result."""

    columns: list[str]
    numeric: list[bool]  # True for columns of numbers
    rows: list[tuple[str | None, ...]]  # values as text, None for null
    total: int  # number of rows of the whole result


@dataclass(frozen=True, slots=True, repr=False)
class QueryResult:
    """A bound query, which polars, pandas and pyarrow can make a table of: `pl.DataFrame(kifu.query(...))`.

    Each method runs it, in memory that does not grow with the rows but for `arrow`, and raises RecipeError for errors
    at run time, such as a failing cast. As a context manager it closes its database at the end; otherwise that is
    closed with the last reference to the result.
    """

    sql: str
    catalogues: tuple[str, ...]
    _database: Database = field(repr=False)
    _relation: duckdb.DuckDBPyRelation = field(repr=False)
    _stack: contextlib.ExitStack = field(repr=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    def __repr__(self) -> str:
        return f"<QueryResult: {shorten(', '.join(self.columns))} of {shorten(', '.join(self.catalogues))}>"

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
        return QueryHead(self.columns, [kind.id in NUMBERS for kind in self._relation.types], first[:rows], total)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        yield from self._database.batches(self._relation)

    def arrow(self) -> pa.Table:
        """Return all rows as an Arrow table."""
        return pa.Table.from_batches(self.batches(), self._arrow_schema())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self._arrow_schema(), self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def csv(self) -> Iterator[bytes]:
        """Yield the result as CSV in UTF-8 with a header line; text is quoted, null is an empty field."""
        return (part for part, _ in self._csv_parts())

    def _csv_parts(self) -> Iterator[tuple[bytes, int]]:
        """Yield the header line, then the rows, each with the number of rows."""
        yield (",".join('"' + name.replace('"', '""') + '"' for name in self.columns) + "\n").encode(), 0
        types = [kind.id for kind in self._relation.types]
        columns = (f"#{k}{'' if kind in _CSV_TYPES else '::VARCHAR'}" for k, kind in enumerate(types, 1))
        for batch in self._database.batches(self._relation.project(", ".join(columns))):
            buffer = pa.BufferOutputStream()
            pyarrow.csv.write_csv(batch, buffer, pyarrow.csv.WriteOptions(include_header=False))
            yield buffer.getvalue().to_pybytes(), len(batch)

    def write(self, path: str | os.PathLike[str]) -> int:
        """Write the rows to a .csv or .parquet file, and return their number.

        A Parquet file with exactly the columns of a catalogue becomes a catalogue; FILE_COLUMN is omitted then. Raises
        FormatError if a value does not fit its column of the catalogue.
        """
        path = Path(path)
        check_suffix(path)
        return self._write_csv(path) if path.suffix.lower() == ".csv" else self._write_parquet(path)

    def _write_csv(self, path: Path) -> int:
        rows = 0
        with AtomicFile(path) as output:
            for part, count in self._csv_parts():
                output.write(part)
                rows += count
            output.commit()
        return rows

    def _write_parquet(self, path: Path) -> int:
        rows, is_catalogue = 0, self.is_catalogue
        with CatalogueWriter(path) if is_catalogue else TableWriter(path, self._schema()) as writer:
            for batch in self._database.batches(self._relation):
                writer.write(cast_batch(batch, SCHEMA, path, rows) if is_catalogue else batch)
                rows += len(batch)
            paths = map(Path, self.catalogues)
            hashes = [hash_file(each) if is_annotation(each) else open_catalogue(each).digest() for each in paths]
            metadata = {"query": self.sql, "of": [{"blake3": digest} for digest in hashes]}
            writer.commit(metadata if is_catalogue else {f"kifu.{key}": value for key, value in metadata.items()})
        return rows

    def _arrow_schema(self) -> pa.Schema:
        return self._relation.limit(0).to_arrow_table().schema

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


def query(sql: str, catalogues: Paths, *, jobs: int | None = None, max_memory: int | None = None) -> QueryResult:
    """Bind one SELECT statement over the tables `games`, `kept` and `moves`, see `open_database`.

    Args:
        catalogues: Paths of catalogues and annotations.
        jobs: Number of threads, by default one per core.
        max_memory: Maximum number of bytes that this process may allocate until the result is closed, on Linux only. It
            holds for all threads. None: only DuckDB's own limit of 1 GB, which long texts and lists can exceed.

    Raises:
        FormatError: A file is neither a catalogue nor an annotation.
        RecipeError: The statement is invalid, or not a SELECT, or the memory does not suffice.
    """
    paths = as_list(catalogues)
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(open_database(paths, jobs, max_memory))
        names = tuple(os.fspath(path) for path in paths)
        return QueryResult(sql, names, database, database.select(sql), stack.pop_all())


def check_suffix(path: Path) -> None:
    """Raise OutputError unless a query's result can be written to a file of this name."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise OutputError(f"cannot write {path}: the suffix must be '.csv' or '.parquet', got {path.suffix!r}")


def check_condition(database: Database, condition: str, table: str) -> None:
    """Check that a text is one SQL expression over the columns of a table. Raises RecipeError if it is not."""
    if not condition.strip():
        raise RecipeError("the condition must be an SQL expression, got an empty text")
    # Only one expression is valid in brackets as well as without: neither "1) OR (1" nor "1 LIMIT 1" is.
    database.select(f"SELECT 1 FROM {table} WHERE (\n{condition}\n)")
    database.select(f"SELECT 1 FROM {table} WHERE\n{condition}\n")


def check_expression(expression: str, boolean: bool) -> None:
    """Check an expression over the columns of the table `games` before it is evaluated.

    Raises RecipeError if it is not one expression, calls a function whose results vary, or its value is not a BOOLEAN
    nor, unless `boolean` is set, a number.
    """
    if not expression.strip():
        raise RecipeError("must be an SQL expression, got an empty text")
    with open_database(()) as database:
        statement = f"SELECT (\n{expression}\n) FROM games"
        database.require_repeatable(statement)
        kind, *others = database.select(statement).types
        if others:
            raise RecipeError(f"must be one SQL expression, got {expression[:80]}")
        check_condition(database, f"(\n{expression}\n) IS NULL", "games")
    if kind.id != _BOOLEAN and (boolean or kind.id not in NUMBERS):
        raise RecipeError(f"must be {'BOOLEAN' if boolean else 'a number'}, got {kind}: {expression[:80]}")


def select_games(catalogue: Catalogue, where: str) -> npt.NDArray[np.bool_]:
    """Return which games a condition in SQL selects, dropped ones too: [rows] bool. NULL selects no game.

    Raises RecipeError if the condition is invalid, see docs/queries.md.
    """
    selected = np.zeros(catalogue.rows, np.bool_)
    for batch in _matching_rows(catalogue, where, '"row"'):
        selected[batch.column(0).to_numpy()] = True
    return selected


def weigh_games(catalogue: Catalogue, weight: str, where: str | None) -> npt.NDArray[np.float64]:
    """Return the weights of games, 0 for those that are dropped or not selected: [rows] float64.

    Raises RecipeError if an expression is invalid, or a weight is not within 0 to 1.

    Args:
        weight: An SQL expression over the columns, whose value must be within 0 to 1; NULL is 0.
        where: A condition that selects games; None for all.
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
        yield from database.batches(database.select(f"SELECT {columns} FROM ({numbered}) WHERE (\n{where}\n)"), _BATCH)
