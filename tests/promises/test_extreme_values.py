"""Values that are legal in Parquet, but not in a game: each reader takes them, or raises a one-line error."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import kifu
from catalogues import rows, write_catalogue
from commands import run
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.export import rows_to_olf, rows_to_sgf
from kifu.corpus.query import query
from kifu.corpus.schema import EVALUATION, EVALUATIONS, SCHEMA, SECONDS
from kifu.corpus.stats import stats
from kifu.errors import FormatError, KifuError
from kifu.execution.executor import Executor
from kifu.leaks.audit import open_set
from kifu.records.game import write_sgf
from kifu.report.describe import describe_catalogue
from kifu.report.games import describe_position, find_game

GAMES = rows(
    moves=[[72, 288 | 0x8000, 361], [0, 1 | 0x8000, 2], [60, 61 | 0x8000]],
    komi=[6.5, None, 0.5], black=["Ann", "Bob", "Cas"], white=["Dan", "Eve", None], year=[2001, None, 2005],
    winner=["black", "white", None], margin=[3.5, None, None], ending=["score", "resign", "unknown"],
    black_rating=[35, 36, None], white_rating=[35, 36, None], main_minutes=[10, None, 3],
)  # fmt: skip


def extremes(kind: pa.DataType) -> list[Any]:
    """Return extreme values of a type; dates are days since 1970."""
    if pa.types.is_floating(kind):
        return [3.4e38, -3.4e38, 1e19, math.nan, math.inf, -math.inf, -0.0, 1e-45]
    if pa.types.is_date(kind):
        return [2**31 - 1, -(2**31), 2932897, -719163, 2932896, -719162]
    if pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        return [limits.min, limits.max, -1 if limits.min < 0 else 26]
    if pa.types.is_string(kind):
        return ["", "\0", "x" * 100_000, "é\n\x1b[2J\u202e", "99999999999999999999", "1e400", "nan"]
    if kind == EVALUATIONS:
        parts = [extremes(field.type) for field in EVALUATION]
        element: dict[str, Any] = {"win": 0.5, "loss": 0.5, "score": 1.0, "visits": 1}
        changed = [element | {name: value} for name, values in zip(element, parts) for value in [None, *values]]
        return [[None] * 3, [element] * 2, [element] * 4, *([element, each, None] for each in changed)]
    if kind == SECONDS:
        return [[value, 1.0, None] for value in extremes(pa.float32())] + [[1.0] * 2, [1.0] * 4]
    return [[65535] * 3, [0] * 70_000, [361] * 400, [0x7FFF], []] if pa.types.is_list(kind) else []


def write(path: Path, name: str, value: Any) -> Path:
    kind = SCHEMA.field(name).type
    plain = pa.int32() if pa.types.is_date(kind) else kind
    column = GAMES.column(name).cast(plain).to_pylist()
    column[1] = value
    changed = pa.array(column, plain).cast(kind)
    columns = [changed if each == name else GAMES.column(each) for each in SCHEMA.names]
    pq.write_table(pa.Table.from_arrays(columns, schema=SCHEMA), path)
    return path


def ask(path: Path) -> None:
    with query("FROM games", path) as answer:
        answer.head(3)


READERS: list[Callable[[Path], object]] = [
    stats, ask, describe_catalogue, lambda path: describe_position(find_game(path, 2), None),
    lambda path: list(open_catalogue(path).games()),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMA.names)
def test_readers_take_extreme_values_or_raise_errors_of_one_line(tmp_path: Path, name: str) -> None:
    for number, value in enumerate(extremes(SCHEMA.field(name).type)):
        path = write(tmp_path / f"{number}.parquet", name, value)
        for reader in READERS:
            try:
                reader(path)
            except KifuError as error:
                message = str(error)
                assert "\n" not in message, (value, reader)


@pytest.mark.parametrize(
    ("name", "value", "expected_text"),
    [
        ("winner", "xxx", "column winner must be one of black, white, draw, got 'xxx'"),
        ("ending", "", "column ending must be one of score, resign, time, forfeit, void, unknown, got ''"),
        ("overtime_kind", "x", "column overtime_kind must be one of byo-yomi, canadian, fischer, simple, got 'x'"),
        ("komi", 3.4e38, "column komi must be within -1e+18 to 1e+18, got 3.39"),
        ("komi", math.nan, "column komi must be within -1e+18 to 1e+18, got nan"),
        ("margin", -math.inf, "column margin must be within -1e+18 to 1e+18, got -inf"),
        ("date", 2**31 - 1, "column date must be within 0001-01-01 to 9999-12-31, got 2147483647 days since 1970"),
        ("n_legal", -1, "column n_legal must be within 0 to 65535, got -1"),
        ("n_legal", 4, "n_legal of row 1 must be 0 to 3, got 4"),
        ("n_moves", 2**31 - 1, "column n_moves must be within 0 to 65535, got 2147483647"),
        ("n_moves", 2, "n_moves of row 1 must be 3, got 2"),
        ("n_moves", 4, "n_moves of row 1 must be 3, got 4"),
        ("moves", [0] * 65_536, "length of moves of row 1 must be 0 to 65,535, got 65,536"),
        ("width", 26, "column width must be within 0 to 25, got 26"),
        ("overtime_count", 0, "column overtime_count must be within 1 to 2147483647, got 0"),
        ("overtime_seconds", -1.0, "column overtime_seconds must be within 0 to 1e+18, got -1"),
        ("to_play", 3, "column to_play must be within 0 to 2, got 3"),
        ("move_seconds", [1.0, -1.0, None], "column move_seconds must be within 0 to 1e+18, got -1"),
        ("move_seconds", [1.0, math.nan, None], "column move_seconds must be within 0 to 1e+18, got nan"),
        ("move_seconds", [1.0], "length of move_seconds of row 1 must be 3, got 1"),
        ("evaluations", [None], "length of evaluations of row 1 must be 3, got 1"),
        (
            "evaluations",
            [{"win": 0, "loss": 2, "score": 0, "visits": 0}, None, None],
            "column loss must be within 0 to 1, got 2",
        ),
        (
            "evaluations",
            [{"win": 0, "loss": 1, "score": 0, "visits": -1}, None, None],
            "column visits must be within 0 to 2147483647, got -1",
        ),
        (
            "evaluations",
            [{"win": 0, "loss": 1, "score": 0}, None, None],
            "column evaluations must not contain nulls in visits",
        ),
    ],
)
def test_values_out_of_range_are_named(tmp_path: Path, name: str, value: Any, expected_text: str) -> None:
    path = write(tmp_path / "games.parquet", name, value)
    with pytest.raises(FormatError) as raised:
        list(open_catalogue(path).batches())
    assert str(raised.value).startswith(f"{path}: {expected_text}")
    with query("FROM games", path) as answer, pytest.raises(FormatError, match=r"must (be|not contain) "):
        answer.write(tmp_path / "copy.parquet")


@pytest.mark.parametrize("value", [-719162, 2932896])
def test_first_and_last_dates_are_shown(tmp_path: Path, value: int) -> None:
    path = write(tmp_path / "games.parquet", "date", value)
    assert run("show", path, "--game", "2").code == 0


COMMANDS = [
    ["stats", "E"], ["stats", "E", "-o", "OUT.png"], ["show", "E", "--game", "2", "--json", "-"], ["show", "E"],
    ["query", "FROM games", "E"], ["query", "FROM games", "E", "-o", "OUT.csv"],
    ["query", "FROM games", "E", "-o", "OUT.parquet"],
    ["query", "SELECT *, 1 AS x FROM games", "E", "-o", "OUT.parquet"],
    ["split", "E", "-o", "OUT"], ["audit", "E", "E"], ["ingest", "E", "-o", "OUT.parquet", "--clean", "schraudolph"],
    ["ingest", "E", "-o", "OUT"], ["convert", "E", "-o", "OUT.olf"], ["convert", "E", "-o", "OUT.zip"],
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMA.names)
def test_commands_take_extreme_values_or_fail_with_one_line(tmp_path: Path, name: str) -> None:
    """A third of the combinations for each column, or less: the columns of a type share them all."""
    kind = SCHEMA.field(name).type
    alike = [field.name for field in SCHEMA if field.type == kind]
    share = 12 if kind == EVALUATIONS else max(len(alike), 3)  # most fields of evaluations have one type
    combinations = list(product(extremes(kind), COMMANDS))[alike.index(name) :: share]
    for number, (value, command) in enumerate(combinations):
        path = write(tmp_path / "games.parquet", name, value)
        out = str(tmp_path / f"out{number}")
        done = run(*(each.replace("OUT", out) if each != "E" else path for each in command), "--quiet")
        assert done.code in ((0, 1, 2) if command[0] == "audit" else (0, 2)), (value, command)
        assert done.code != 2 or len(done.err) == 1, (value, command, done)
        assert not any("unexpected" in line for line in done.err), (value, command, done)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMA.names)
def test_plane_sets_take_extreme_values_or_raise_errors(tmp_path: Path, name: str) -> None:
    """The reading of training and of builds, without their network and files."""
    for number, value in enumerate(extremes(SCHEMA.field(name).type)):
        path = write(tmp_path / f"{number}.parquet", name, value)
        for planes in ("alphago48", "katago22", "agz17"):
            try:
                for batch in kifu.load(path, planes, batch_size=4):
                    assert len(batch.planes) <= 4
            except KifuError as error:
                message = str(error)
                assert "\n" not in message, (value, planes)


WORDS = st.one_of(st.integers(0, 0xFFFF), st.integers(0, 362), st.integers(0x8000, 0x8000 + 362))
PLIES = st.sampled_from([0, 1, 2, 5, 6, 7, 255, 0xFFFF])
NUMBERS = st.one_of(st.none(), st.floats(width=32), st.sampled_from([0.0, 1e38, -1e38, 40.0, 1e10]))
COUNTS = st.sampled_from([-(2**31), -1, 0, 1, 3, 6, 7, 2**31 - 1])

GAME = st.fixed_dictionaries(
    {
        "width": st.sampled_from([19, 19, 19, 0, 1, 9, 25, 26, 255]),
        "height": st.sampled_from([19, 19, 19, 0, 1, 13, 255]),
        "moves": st.lists(WORDS, max_size=8),
        "setup": st.lists(WORDS, max_size=4),
        "setup_ply": st.lists(PLIES, max_size=4),
        "root_setup": st.integers(0, 5),
        "n_legal": COUNTS,
        "n_moves": COUNTS,
        "territory": st.none() | st.lists(WORDS, max_size=4),
        "handicap": st.none() | st.sampled_from([-32768, -1, 0, 2, 32767]),
        "to_play": st.sampled_from([0, 1, 2, 255]),
        "komi": NUMBERS,
        "black_rating": NUMBERS,
        "white_rating": NUMBERS,
        "rules": st.sampled_from([None, "japanese", "chinese", "nonsense"]),
        "winner": st.sampled_from([None, "black", "white", "neither"]),
    }
)

PLAIN = {
    "width": 19, "height": 19, "moves": [72, 0x8000 | 288, 361], "setup": [], "setup_ply": [], "root_setup": 0,
    "n_legal": 3, "n_moves": 3, "territory": [1, 0x8002], "handicap": 0, "to_play": 0, "komi": 6.5,
    "black_rating": 32.0, "white_rating": 40.0, "rules": "japanese", "winner": "black",
}  # fmt: skip


def uses(path: Path) -> list[Callable[[], Any]]:
    labels = ["move", "next5", "result", "ownership", "ranks", "komi"]
    chosen = kifu.PositionFilter(passes=True)
    return [
        lambda: [*kifu.load(path, "seven", labels=labels, filter=chosen)],
        lambda: [*kifu.load(path, "seven", labels=labels, filter=chosen, pad=True)],
        lambda: [*kifu.load(path, "katago22", pad=True)],
        lambda: [*open_set(path).positions(Executor(1))],
        lambda: [write_sgf(game) for game in open_catalogue(path).games()],
        lambda: [rows_to_sgf(batch) for batch in open_catalogue(path).batches()],
        lambda: [rows_to_olf(batch) for batch in open_catalogue(path).batches()],
    ]


def replayable(game: dict[str, Any]) -> dict[str, Any]:
    """Return a plain game with the moves and setup of another."""
    return PLAIN | {"moves": game["moves"], "setup": game["setup"], "setup_ply": [0] * len(game["setup"])}


@settings(max_examples=settings().max_examples // 5, suppress_health_check=[HealthCheck.too_slow])
@given(games=st.lists(GAME | GAME.map(replayable), min_size=1, max_size=4))
@example(games=[PLAIN])
def test_extreme_rows(games: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_catalogue(Path(folder, "x.parquet"), rows(**{key: [game[key] for game in games] for key in PLAIN}))
        for use in uses(path):
            if games == [PLAIN]:
                assert use()
            else:
                with suppress(KifuError):
                    use()
