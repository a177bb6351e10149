"""SQL that tries to write, to read other files, or to use up memory and disk."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import pytest

from catalogues import rows, write_catalogue
from commands import Done, finish, run, wait_until
from kifu.assets import sample_path
from kifu.corpus.query import open_database, query
from kifu.corpus.update import append
from kifu.errors import RecipeError

COPIES = [
    "COPY (SELECT 42 AS a) TO 'TARGET' (USE_TMP_FILE false)",
    "COPY (SELECT 42 AS a) TO 'TARGET'",
    "COPY games TO 'TARGET' (FORMAT csv)",
    "COPY (SELECT 42 AS a) TO 'TARGET' (FORMAT parquet, OVERWRITE_OR_IGNORE)",
    "COPY (SELECT 1 AS a) TO ('TAR' || 'GET')",
    "COPY (SELECT 42 AS a, 1 AS b) TO 'FOLDER' (PARTITION_BY a, OVERWRITE)",
    "COPY (SELECT 1) TO (current_setting('temp_directory') || '/x.csv')",
]
WRITES = [
    *COPIES,
    "INSERT INTO games SELECT * FROM games RETURNING *",
    "UPDATE games SET komi = 0 RETURNING *",
    "DELETE FROM games RETURNING *",
    "MERGE INTO games USING kept ON games.id = kept.id WHEN MATCHED THEN DELETE RETURNING *",
]
TARGETS = (
    "games.parquet",
    "kifu://0.parquet",
    "notes.csv",
    "new.parquet",
    "corpus/catalogue.json",
    "/dev/shm/kifu-new",
)

STATEMENTS = [
    *(f"WITH x AS ({write}) SELECT * FROM x" for write in WRITES),
    *(f"WITH x AS MATERIALIZED ({write}) SELECT * FROM x" for write in WRITES[:2]),
    *(f"SELECT * FROM (WITH x AS ({write}) SELECT * FROM x)" for write in WRITES[:2]),
    *(f"SELECT (WITH x AS ({write}) SELECT count(*) FROM x) FROM games" for write in WRITES[:2]),
    *(f"SELECT 1 UNION ALL (WITH x AS ({write}) SELECT count(*) FROM x)" for write in WRITES[:2]),
    *(f"WITH RECURSIVE x AS ({write}) SELECT * FROM x" for write in WRITES[:2]),
    *(f"FROM query('WITH x AS ({write.replace(chr(39), chr(39) * 2)}) FROM x')" for write in WRITES[:2]),
    "FROM json_execute_serialized_sql(json_serialize_sql('WITH x AS (COPY (SELECT 1) TO ''TARGET'') FROM x'))",
    "FROM json_execute_serialized_sql(json_serialize_sql('WITH x AS (COPY (SELECT 1) TO (current_setting("
    "''temp_directory'') || ''/x'')) FROM x'))",
    *WRITES,
    *(f"SELECT 1; {write}" for write in WRITES[:2]),
    *(f"PREPARE p AS {write}; EXECUTE p" for write in WRITES[:2]),
    *(f"EXPLAIN ANALYZE {write}" for write in WRITES[:2]),
    "EXPLAIN ANALYZE WITH x AS (COPY (SELECT 1) TO 'TARGET') FROM x",
    "SUMMARIZE (WITH x AS (COPY (SELECT 1) TO 'TARGET') FROM x)",
    "DESCRIBE (WITH x AS (COPY (SELECT 1) TO 'TARGET') FROM x)",
    "PIVOT (WITH x AS (COPY (SELECT 1 AS a) TO 'TARGET') FROM x) ON a IN (1)",
    "ATTACH 'TARGET' AS x", "ATTACH 'TARGET' AS x (READ_ONLY)", "ATTACH 'TARGET.db' AS x; CREATE TABLE x.y AS SELECT 1",
    "EXPORT DATABASE 'FOLDER'", "IMPORT DATABASE 'FOLDER'", "CREATE TABLE x AS SELECT 1",
    "INSTALL httpfs FROM 'FOLDER'", "LOAD 'TARGET'", "INSTALL httpfs", "VACUUM", "CHECKPOINT", "FORCE CHECKPOINT",
    "SET temp_directory = 'FOLDER'", "SET enable_external_access = true", "SET allowed_paths = ['TARGET']",
    "RESET lock_configuration", "PRAGMA enable_profiling", "PRAGMA profiling_output = 'TARGET'",
    "SET profiling_output = 'TARGET'", "SET log_query_path = 'TARGET'", "SET home_directory = 'FOLDER'",
    "SET extension_directory = 'FOLDER'", "SET secret_directory = 'FOLDER'",
    "CREATE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'x')",
    "CALL enable_logging('QueryLog', storage = 'file', storage_config = {'path': 'FOLDER'})",
    "SELECT * FROM enable_logging('QueryLog', storage = 'file', storage_config = {'path': 'FOLDER'})",
    "SELECT * FROM enable_logging(storage = 'file', storage_path = 'FOLDER')",
    "SELECT * FROM enable_profiling(save_location = 'TARGET')",
    "SELECT * FROM \"ENABLE_PROFILING\"(save_location = 'TARGET')",
    "SELECT * FROM main.enable_profiling(save_location = 'TARGET')",
    "SELECT * FROM checkpoint()", "SELECT * FROM force_checkpoint()",
    "SELECT * FROM read_text('TARGET')", "SELECT * FROM read_csv('TARGET')", "SELECT * FROM 'TARGET'",
    "SELECT * FROM read_duckdb('TARGET')", "SELECT * FROM glob('FOLDER/*')", "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM sniff_csv('TARGET')", "SELECT * FROM query_table('TARGET')", "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM parquet_metadata('TARGET')", "SELECT getenv('HOME')", "SELECT write_log('x')",
    "SELECT * FROM arrow_scan(1::UBIGINT::POINTER, 1::UBIGINT::POINTER, 1::UBIGINT::POINTER)",
    "SELECT * FROM pandas_scan(1::UBIGINT::POINTER)", "SELECT * FROM seq_scan('games')",
    "DROP VIEW games",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a catalogue, a partitioned one and a CSV; the temporary folder is a neighbour."""
    (tmp_path / "temporary").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path / "work")
    write_catalogue(Path("games.parquet"), rows(black=["Ann", "Bob", None], komi=[6.5, 0, None]))
    append(sample_path(), "corpus")
    Path("notes.csv").write_text("a,b\n1,2\n")
    return tmp_path


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Return the content of every file that a statement could change, None for folders."""
    paths = [*folder.rglob("*"), *Path("/dev/shm").glob("kifu-*"), *Path.home().glob(".duckdb/**/*")]
    return {str(path): path.read_bytes() if path.is_file() else None for path in paths}


def spellings(statement: str) -> list[str]:
    """Return the statement for each target, or as it is."""
    spelled = [statement.replace("TARGET", each).replace("FOLDER", str(Path(each).parent)) for each in TARGETS]
    return list(dict.fromkeys(spelled))


def test_no_statement_writes(folder: Path) -> None:
    allowed = []
    with open_database(["games.parquet", "corpus"]) as database:
        before = snapshot(folder)
        for sql in (sql for statement in STATEMENTS for sql in spellings(statement)):
            try:
                database.rows(database.select(sql).limit(5))
                allowed.append(sql)
            except RecipeError:
                pass
            assert snapshot(folder) == before, sql
    assert allowed == ["SELECT * FROM 'kifu://0.parquet'", "SELECT write_log('x')"]
    assert list((folder / "temporary").iterdir()) == []


def test_unchecked_statements_write_at_most_into_the_temporary_folder(folder: Path) -> None:
    """The second layer, without the first."""
    with open_database(["games.parquet", "corpus"]) as database:
        (scratch,) = (folder / "temporary").iterdir()
        before = snapshot(folder)
        for sql in (sql for statement in STATEMENTS if "_scan(" not in statement for sql in spellings(statement)):
            with contextlib.suppress(duckdb.Error):
                database._connection.execute(sql).fetchall()
            for path in scratch.iterdir():
                path.unlink()
            assert snapshot(folder) == before, sql
    assert list((folder / "temporary").iterdir()) == []


# memory and disk

ENDLESS = "SELECT count(*) FROM (SELECT DISTINCT hash(a.range)::VARCHAR, b.range FROM range(1000000) a, range(1000) b)"


limited = pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")


@limited
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT range(900000000)",
        "SELECT repeat('x', 4000000000)",
        "SELECT len(repeat('x', 3000000000)) FROM games",
        "SELECT list_transform(range(400000000), lambda x: x + 1)",
        "SELECT string_agg(repeat('x', 10000000)) FROM range(1000000)",
    ],
)
def test_memory_is_limited(folder: Path, sql: str) -> None:
    """The limit holds for texts and lists, too; they are not allocated, so this takes neither time nor memory."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    done = run("query", sql, "games.parquet", "-o", "out.csv")
    (line,) = done.err
    assert done.code == 2
    assert line.startswith("kifu: Out of Memory Error: ") or "must not use more than 3,221,225,472 bytes" in line
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert not Path("out.csv").exists()


@limited
def test_memory_errors_of_python_are_query_errors(folder: Path) -> None:
    with (
        pytest.raises(RecipeError, match="the query must not use more than 100,000,000 bytes of memory"),
        query("SELECT 1", "games.parquet", max_memory=10**8),
    ):
        bytearray(10**9)
    assert len(bytearray(10**9)) == 10**9


def test_functions_of_python_set_no_limit(folder: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with query("SELECT 1", "games.parquet"):
        assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_spilled_data_is_limited(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kifu.corpus.query._MAX_SPILL", 10**7)
    monkeypatch.setattr("kifu.corpus.query._MEMORY", "60MB")
    with open_database("games.parquet") as database, pytest.raises(RecipeError, match=r"/9\.5 MiB used"):
        database.rows(database.select(ENDLESS))


@pytest.mark.subprocess
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_terminated_queries_leave_no_spilled_data(folder: Path, number: signal.Signals) -> None:
    temporary = folder / "temporary"
    program = "from kifu.corpus import query; query._MEMORY = '60MB'; from kifu.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "query", ENDLESS, "games.parquet"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(temporary)},
    )  # fmt: skip
    wait_until(lambda: any(temporary.glob("*/*.tmp")), process)
    process.send_signal(number)
    assert finish(process) == Done(128 + number, "", ["kifu: interrupted; no partial output was left"])
    assert list(temporary.iterdir()) == []
