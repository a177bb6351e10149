"""SQL queries: results, output files, and isolation from other files."""

import contextlib
import csv
import datetime
import io
import json
import os
import random
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalogues import rows, write_catalogue
from commands import Done, finish, is_error, on_terminal, run, start, wait_until
from kifu.assets import sample_path
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.corpus.query import open_database, query
from kifu.corpus.schema import POINTS, SCHEMA
from kifu.corpus.update import append
from kifu.errors import FormatError, KifuError, OutputError, RecipeError
from kifu.io import hash_file
from marks import slow

PLAYERS = ["Ann", "Bob", "武宮 正樹", None]
FULL = {
    "id": [2**64 - 1, 0, 2**63], "black": ["Ann", "a,\"b'", "李"], "komi": [6.5, None, -0.1], "handicap": [-1, 9, None],
    "date": [datetime.date(2001, 2, 3), None, datetime.date(1846, 9, 11)], "year": [2001, None, 1846],
    "black_pro": [True, None, False], "white_program": [True, False, False], "winner": ["black", None, "white"],
    "moves": [[72, 288 | 0x8000, 361], [], [0]], "setup": [[], [60, 300], [1]], "setup_ply": [[], [0, 0], [0]],
    "root_setup": [0, 2, 1], "territory": [None, [], [3, 4 | 0x8000]], "drop": [None, "ko", None],
    "drop_detail": [None, "move 7", None],
}  # fmt: skip
"""Each kind of column with its extremes."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_catalogue(tmp_path_factory.mktemp("small") / "small.parquet", rows(**FULL))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    count = 50_000
    batch = rows(
        black=[PLAYERS[k % 4] for k in range(count)], year=[1990 + k % 7 for k in range(count)],
        moves=[[k % 361, k % 7 | 0x8000] for k in range(count)], drop=[None if k % 10 else "ko" for k in range(count)],
    )  # fmt: skip
    return write_catalogue(tmp_path_factory.mktemp("many") / "many.parquet", batch)


def ask(sql: str, *catalogues: Path, count: int = 100) -> list[tuple[str | None, ...]]:
    with query(sql, catalogues) as answer:
        return answer.head(count).rows


def read_table(path: Path) -> pa.Table:
    return pa.Table.from_batches(open_catalogue(path).batches(), SCHEMA)


# the tables


def test_tables_games_and_kept(small: Path) -> None:
    assert ask("SELECT black FROM games", small) == [("Ann",), ("a,\"b'",), ("李",)]
    assert ask("SELECT black FROM kept", small) == [("Ann",), ("李",)]


def test_rows_stay_in_order_with_their_file(small: Path, many: Path) -> None:
    found = ask("SELECT catalogue, entry FROM games", many, small, many, count=200_000)
    each = [(str(many), str(k)) for k in range(50_000)]
    assert found == [*each, *((str(small), str(k)) for k in range(3)), *each]


def test_columns_have_the_types_of_the_schema(small: Path) -> None:
    with query("FROM games", [small]) as answer:
        found = answer.arrow().schema
    assert [*SCHEMA.names, "catalogue"] == found.names
    for field in SCHEMA:
        kind = found.field(field.name).type
        assert (kind.value_type if pa.types.is_list(kind) else kind) == (
            field.type.value_type if pa.types.is_list(field.type) else field.type
        )


def test_files_of_other_writers_have_the_same_types(small: Path, tmp_path: Path) -> None:
    table = read_table(small)
    wide = {pa.int16(): pa.int64(), pa.string(): pa.large_string(), pa.uint8(): pa.int32(), pa.float32(): pa.float64()}
    fields = [pa.field(f.name, wide.get(f.type, f.type)) for f in reversed(SCHEMA)]
    other = table.select([f.name for f in fields]).cast(pa.schema(fields)).append_column("more", [["x", "y", "z"]])
    pq.write_table(other, tmp_path / "other.parquet")
    with query("SELECT * EXCLUDE catalogue FROM games", [tmp_path / "other.parquet", small]) as answer:
        answer.write(tmp_path / "both.parquet")
    assert read_table(tmp_path / "both.parquet").equals(pa.concat_tables([table, table]))


@pytest.mark.parametrize(
    "name",
    ["a*.parquet", "b?.parquet", "c[1].parquet", "d'q.parquet", "year=2001/e.parquet", "~f.parquet", "g h", "碁"],
)
def test_file_names_with_special_characters(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("ab.parquet", "bb.parquet", "c1.parquet"):
        write_catalogue(tmp_path / other, rows(black=["wrong"]))
    write_catalogue(tmp_path / name, rows(black=["right"]))
    monkeypatch.chdir(tmp_path)
    assert ask("SELECT * FROM (SELECT black, catalogue FROM games)", Path(name)) == [("right", name)]


# what comes out


def test_head_is_limited_and_counted(many: Path) -> None:
    with query("SELECT black, year FROM kept ORDER BY entry DESC", [many]) as answer:
        head = answer.head(2)
    assert (head.columns, head.numeric, head.total) == (["black", "year"], [False, True], 45_000)
    assert head.rows == [(None, str(1990 + 49_999 % 7)), ("武宮 正樹", str(1990 + 49_998 % 7))]


def test_csv_is_read_by_csv_readers(small: Path, tmp_path: Path) -> None:
    sql = 'SELECT id, black, komi, date, black_pro, moves, winner AS "who ""won""", \'\' AS empty FROM games'
    with query(sql, [small]) as answer:
        text = b"".join(answer.csv())
        assert answer.write(tmp_path / "out.CSV") == 3
    assert (tmp_path / "out.CSV").read_bytes() == text
    assert list(csv.reader(io.StringIO(text.decode()))) == [
        ["id", "black", "komi", "date", "black_pro", "moves", 'who "won"', "empty"],
        [str(2**64 - 1), "Ann", "6.5", "2001-02-03", "true", "[72, 33056, 361]", "black", ""],
        ["0", "a,\"b'", "", "", "", "[]", "", ""],
        [str(2**63), "李", "-0.1", "1846-09-11", "false", "[0]", "white", ""],
    ]
    assert text.splitlines()[2] == b'0,"a,""b\'",,,,"[]",,""'  # null is not the empty text


def test_empty_csv_has_a_header(small: Path, tmp_path: Path) -> None:
    with query("SELECT black, white FROM games WHERE false", [small]) as answer:
        assert answer.write(tmp_path / "out.csv") == 0
        assert (answer.head(5).rows, answer.head(5).total) == ([], 0)
    assert (tmp_path / "out.csv").read_text() == '"black","white"\n'


@pytest.mark.parametrize(
    "value",
    [
        "TIMESTAMP '2001-02-03 04:05:06'", "TIMESTAMPTZ '2001-02-03 04:05Z'", "TIME '10:00'", "INTERVAL 1 DAY", "NULL",
        "1::HUGEINT", "1.50", "'nan'::DOUBLE", "'x'::BLOB", "uuid()", "'a'::ENUM ('a', 'b')", "[[1]]", "{'a': 1}",
        "MAP {'a': 1}",
    ],
)  # fmt: skip
def test_any_type_is_written_to_csv_and_written_or_rejected_as_parquet(small: Path, tmp_path: Path, value: str) -> None:
    with query(f"SELECT {value} AS x FROM games", [small]) as answer:
        assert b"".join(answer.csv()).count(b"\n") == 4
        try:
            assert answer.write(tmp_path / "out.parquet") == 3
        except RecipeError as error:
            message = str(error)
            assert value == "INTERVAL 1 DAY"
            assert "x: Parquet cannot store" in message
        else:
            assert pq.read_table(tmp_path / "out.parquet").num_rows == 3


def test_parquet_stores_the_query(many: Path, tmp_path: Path) -> None:
    sql = "SELECT year, count(*) AS n FROM kept GROUP BY year ORDER BY year"
    with query(sql, [many]) as answer:
        assert not answer.is_catalogue
        assert answer.write(tmp_path / "years.parquet") == 7
    counts = Counter(1990 + k % 7 for k in range(50_000) if k % 10)
    found = pq.read_table(tmp_path / "years.parquet").to_pylist()
    assert found == [{"year": year, "n": counts[year]} for year in sorted(counts)]
    expected_text = pq.read_metadata(tmp_path / "years.parquet").metadata
    assert json.loads(expected_text[b"kifu.query"]) == sql
    assert [of["blake3"] for of in json.loads(expected_text[b"kifu.of"])] == [hash_file(many)]
    with pytest.raises(FormatError, match="not a catalogue: "):
        open_catalogue(tmp_path / "years.parquet")


# a corpus again


@pytest.mark.parametrize(
    "columns", ["*", "* EXCLUDE catalogue", ", ".join(f'"{name}"' for name in reversed(SCHEMA.names))]
)
def test_result_with_all_columns_is_a_catalogue(small: Path, tmp_path: Path, columns: str) -> None:
    sql = f"SELECT {columns} FROM games WHERE black <> 'Ann'"
    with query(sql, [small]) as answer:
        assert answer.is_catalogue
        assert answer.write(tmp_path / "again.parquet") == 2
    again = open_catalogue(tmp_path / "again.parquet")
    assert again.metadata["query"] == sql
    assert again.metadata["of"] == [{"blake3": hash_file(small)}]
    assert read_table(tmp_path / "again.parquet").equals(read_table(small).slice(1))


def test_bytes_do_not_depend_on_threads(many: Path, tmp_path: Path) -> None:
    made = []
    for jobs in (1, 2):
        with query("FROM games WHERE entry % 3 > 0", [many, many], jobs=jobs) as answer:
            answer.write(tmp_path / "part.parquet")
        made.append((tmp_path / "part.parquet").read_bytes())
    assert made[0] == made[1]
    assert open_catalogue(tmp_path / "part.parquet").rows == 2 * 33_333


def test_additional_columns_are_kept(small: Path, tmp_path: Path) -> None:
    with query("SELECT *, n_moves / 2 AS half FROM games", [small]) as answer:
        assert not answer.is_catalogue
        answer.write(tmp_path / "more.parquet")
    assert pq.read_table(tmp_path / "more.parquet")["half"].to_pylist() == [1.5, 0, 0.5]
    assert read_table(tmp_path / "more.parquet").equals(read_table(small))


def test_result_may_replace_its_input(tmp_path: Path) -> None:
    path = write_catalogue(tmp_path / "games.parquet", rows(year=[1, 2, 3]))
    with query("FROM games WHERE year > 1", [path]) as answer:
        answer.write(path)
    assert read_table(path)["year"].to_pylist() == [2, 3]


@pytest.mark.parametrize(
    ("change", "expected_text"),
    [("black AS width", "column width: Failed to parse"), ("NULL AS id", "column id must not contain nulls")],
)
def test_values_that_do_not_fit_a_catalogue_are_rejected(
    small: Path, tmp_path: Path, change: str, expected_text: str
) -> None:
    with (
        query(f"SELECT * REPLACE ({change}) FROM games", [small]) as answer,
        pytest.raises(FormatError, match=expected_text),
    ):
        answer.write(tmp_path / "bad.parquet")
    assert list(tmp_path.iterdir()) == []


# what is refused


@pytest.mark.parametrize(
    ("sql", "expected_text"),
    [
        ("selec 1", 'syntax error at or near "selec"'),
        ("SELECT blac FROM games", 'Candidate bindings: "black"'),
        ("SELECT * FROM game", 'Did you mean "games"?'),
        (" ", "the query must be one SELECT statement, got none"),
        ("SELECT 1; SELECT 2", "got SELECT, SELECT"),
        ("CREATE TABLE x (y INT)", "got CREATE"),
        ("COPY games TO 'SECRET'", "got COPY"),
        ("ATTACH 'SECRET' AS x", "got ATTACH"),
        ("INSTALL httpfs", "got LOAD"),
        ("SET memory_limit = '90GB'", "got SET"),
        ("SELECT * FROM read_text('SECRET')", "must not call read_text()"),
        ("SELECT * FROM 'SECRET'", "Cannot access file"),
        ("SELECT ? FROM games", "parameters"),
        ("SELECT black::INT FROM games", "Could not convert string 'Ann'"),
        ("SELECT repeat('x', 10000000000)", "maximum supported string size"),
        ("SELECT error('a\nb')", "a b"),
    ],
)
def test_bad_queries_raise_one_line_errors(small: Path, tmp_path: Path, sql: str, expected_text: str) -> None:
    secret = tmp_path / "secret.parquet"
    pq.write_table(pa.table({"x": [1]}), secret)
    done = run("query", sql.replace("SECRET", str(secret)), small, "-o", tmp_path / "out.csv")
    is_error(done, expected_text)
    assert list(tmp_path.iterdir()) == [secret]


def test_python_variables_are_not_tables(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kifu.corpus.query.frame", pandas.DataFrame({"x": [1]}), raising=False)
    with pytest.raises(RecipeError, match="frame does not exist"):
        ask("SELECT * FROM frame", small)


@pytest.mark.parametrize(
    ("arguments", "expected_text"),
    [
        (["missing.parquet"], "missing.parquet is not a catalogue"),
        ([__file__], "is not a catalogue"),
        (["SMALL", "-o", "out.txt"], "'.csv' or '.parquet'"),
        (["SMALL", "-o", "SMALL/out.csv"], "cannot write"),
    ],
)
def test_bad_files_raise_one_line_errors(small: Path, arguments: list[str], expected_text: str) -> None:
    is_error(run("query", "SELECT 1 AS x", *(each.replace("SMALL", str(small)) for each in arguments)), expected_text)


def test_equal_column_names_are_allowed_in_csv_only(small: Path, tmp_path: Path) -> None:
    with query("SELECT 1 AS x, 2 AS x", [small]) as answer:
        assert b"".join(answer.csv()) == b'"x","x"\n1,2\n'
        with pytest.raises(RecipeError, match="two columns are named 'x'"):
            answer.write(tmp_path / "out.parquet")
        with pytest.raises(OutputError, match="got ''"):
            answer.write(tmp_path / "out")


@pytest.mark.slow
def test_damaged_files_of_other_programs_give_an_error_or_a_result(small: Path, tmp_path: Path) -> None:
    """They have no seal; test_parquet.py damages sealed ones."""
    path = tmp_path / "damaged.parquet"
    pq.write_table(pq.read_table(small), path, compression="zstd")
    data = path.read_bytes()
    draw = random.Random(5)
    answers = set()
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(draw.choice((1, 3, 20))):
            damaged[draw.randrange(4, len(data) - 8)] = draw.randrange(256)
        path.write_bytes(damaged)
        try:
            with query("FROM games", [path], jobs=1) as answer:
                answers.add(len(b"".join(answer.csv())) > 0)
        except KifuError as error:
            answers.add(type(error))
            message = str(error)
            assert "kifu-query-" not in message
    assert answers >= {True, FormatError, RecipeError}


# no leftovers


@pytest.mark.parametrize("sql", ["FROM games ORDER BY id", "SELECT black::INT FROM games"])
def test_no_temporary_files_are_left(small: Path, tmp_path: Path, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run("query", sql, small)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.subprocess
@pytest.mark.slow
def test_interrupted_queries_end_soon_and_leave_nothing(small: Path, tmp_path: Path) -> None:
    endless = "SELECT count(*) FROM range(100000000) a, range(100000) b WHERE a.range * b.range % 7 = 3"
    process = start("query", endless, small, "-o", tmp_path / "out.csv", TMPDIR=str(tmp_path))
    wait_until((tmp_path / ".out.csv.part").exists, process)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert finish(process) == Done(130, "", ["kifu: interrupted; no partial output was left"])
    assert list(tmp_path.iterdir()) == []


# on the screen


def test_table_without_a_terminal(small: Path) -> None:
    done = run("query", "SELECT black, komi, moves FROM games", small, "--rows", "2")
    assert done == Done(
        0,
        "black  komi  moves\nAnn     6.5  [72, 33056, 361]\na,\"b'        []\n"
        "2 of 3 rows; -o FILE.csv or -o FILE.parquet writes all\n",
        [],
    )
    assert run("query", "SELECT black FROM games LIMIT 1", small).out == "black\nAnn\n1 row\n"


@pytest.mark.subprocess
@pytest.mark.parametrize("columns", [80, *slow(30, 200)])
def test_table_fits_the_terminal(tmp_path: Path, columns: int) -> None:
    path = write_catalogue(tmp_path / "x.parquet", rows(black=["武" * 60], white=["\x1b[2J\x07red"], moves=[[1] * 300]))
    lines = on_terminal(columns, "query", "SELECT black, white, moves, * FROM games", str(path))
    assert max(len(line) + sum(letter > "\u2e80" for letter in line) for line in lines[:2]) <= columns
    assert re.search(rf"^1 row, \d+ of {len(SCHEMA) + 4} columns; -o FILE", lines[2])
    assert not any(letter in line for line in lines for letter in "\x1b\x07")
    assert ("red" in lines[1]) == (columns > 30)


@pytest.mark.subprocess
def test_csv_on_standard_output(small: Path) -> None:
    done = finish(start("query", "SELECT black, n_moves FROM games", small, "-o", "-"))
    assert done == Done(0, '"black","n_moves"\n"Ann",3\n"a,""b\'",0\n"李",1\n', [])


def test_command_prints_the_output(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "kept.parquet"
    assert run("query", "FROM kept", small, "-o", out) == Done(0, f"{out}: 2 rows\n", [])
    assert os.listdir(tmp_path) == ["kept.parquet"]  # noqa: PTH208


# other readers


def test_polars_duckdb_and_pandas_open_a_catalogue(small: Path) -> None:
    expected = read_table(small).to_pylist()
    answer = query("SELECT black, n_moves FROM games", small)
    assert repr(answer).startswith("<QueryResult: black, n_moves of /")
    assert polars.DataFrame(open_catalogue(small)).to_dicts() == expected
    for found in (polars.DataFrame(answer), polars.DataFrame(query(answer.sql, small))):  # also of the last reference
        assert found.to_dicts() == [{"black": row["black"], "n_moves": row["n_moves"]} for row in expected]
    with pytest.raises(FormatError, match="No such file"):
        query("SELECT 1", "missing.parquet")
    p = polars.read_parquet(small)
    assert p.to_dicts() == expected
    assert {str(p.schema[f.name]) for f in SCHEMA if f.type == POINTS} == {"List(UInt16)"}
    assert (p.schema["id"], p.schema["date"], p.schema["komi"]) == (polars.UInt64, polars.Date, polars.Float32)
    with duckdb.connect() as connection:
        relation = connection.read_parquet(str(small))
        assert [dict(zip(SCHEMA.names, row)) for row in relation.fetchall()] == expected
        kinds = dict(zip(relation.columns, map(str, relation.types)))
    assert [kinds[name] for name in ("id", "width", "komi", "date", "black_pro", "moves", "drop")] == [
        "UBIGINT", "UTINYINT", "FLOAT", "DATE", "BOOLEAN", "USMALLINT[]", "VARCHAR"
    ]  # fmt: skip
    frame = pandas.read_parquet(small, dtype_backend="pyarrow")
    assert pa.Table.from_pandas(frame, preserve_index=False).cast(SCHEMA).to_pylist() == expected
    plain = pandas.read_parquet(small)
    assert (plain["id"].dtype, plain["width"].dtype, plain["n_moves"].dtype) == ("uint64", "uint8", "int32")
    assert plain["moves"][0].tolist() == [72, 288 | 0x8000, 361]


# the page of examples

PAGE = (Path(__file__).parents[2] / "docs" / "queries.md").read_text("utf-8")
EXAMPLES = re.findall(r"```sh\n(.*?)\n```\n\n```\n(.*?)```\n", PAGE, re.DOTALL)


def test_docs_have_examples() -> None:
    assert len(EXAMPLES) == PAGE.count("```") // 4 >= 2


@pytest.mark.parametrize("command", [command for command, _ in EXAMPLES], ids=range(len(EXAMPLES)))
def test_doc_examples_run_on_any_catalogue(small: Path, command: str) -> None:
    done = run(*shlex.split(command.replace("games.parquet", str(small)))[1:])
    assert (done.code, done.err) == (0, [])


@pytest.mark.slow
def test_doc_examples_have_their_results(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ingested = ingest([shared / "data" / "kgs", shared / "data" / "wild"], "games.parquet")
    assert f"{ingested.read:,} games." in PAGE
    for command, answer in EXAMPLES:
        assert run(*shlex.split(command)[1:]) == Done(0, answer, [])


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
    "games.parquet", "kifu://0.parquet", "notes.csv", "new.parquet", "corpus/catalogue.json", "/dev/shm/kifu-new",
)  # fmt: skip

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
        pytest.param("SELECT string_agg(repeat('x', 10000000)) FROM range(1000000)", marks=pytest.mark.slow),
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
        bytearray(2 * 10**8)
    assert len(bytearray(2 * 10**8)) == 2 * 10**8


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
