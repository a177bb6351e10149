"""Typed columns that are parsed from text: the time control of each format."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.corpus.rows import TEXT_COLUMNS, parse_fields
from kifu.corpus.schema import OVERTIME_COLUMNS
from kifu.records.text import known_programs

TIME_COLUMNS = ("main_minutes", *OVERTIME_COLUMNS)
NOTHING = (None, None, None, None)
TIMES: list[tuple[str, str | None, str | None, tuple[Any, ...]]] = [
    # format, time, overtime: main minutes, kind, count, seconds
    ("sgf", "1800", "5x30 byo-yomi", (30, "byo-yomi", 5, 30)),  # KGS
    ("sgf", "600", "25/600 Canadian", (10, "canadian", 25, 600)),  # KGS, IGS
    ("sgf", "60", "25/600", (1, "canadian", 25, 600)),  # IGS
    ("sgf", "300", "10 fischer", (5, "fischer", 1, 10)),  # OGS
    ("sgf", None, "86400 simple", (None, "simple", 1, 86_400)),  # OGS
    ("sgf", None, "14 days + 1 day per move and 10 extra periods", (20_160, "byo-yomi", 10, 86_400)),  # DGS
    ("sgf", "60", "14 days with 1 day extra per move", (1, "fischer", 1, 86_400)),
    ("sgf", None, "7 days without byoyomi", (10_080, None, None, None)),
    ("sgf", "1200", None, (20, None, None, None)),
    ("sgf", None, None, NOTHING),
    ("sgf", None, "30/3", (None, "canadian", 30, 3)),
    ("tygem", "5m", "30/3", (5, "byo-yomi", 3, 30)),
    ("tygem", "5m", "3x20 byo-yomi", (5, "byo-yomi", 3, 20)),
    ("tygem", "5m", "0/0", (5, None, None, None)),
    ("olf", "30", None, (30, None, None, None)),
    ("sgf", "10:00(5x1:00)", None, (10, "byo-yomi", 5, 60)),
    ("sgf", "30:00+10:00/25", None, (30, "canadian", 25, 600)),
    ("sgf", "600", "10:00(5x1:00)", (10, "byo-yomi", 5, 60)),
    ("gib", "600", "1x30 byo-yomi", (10, "byo-yomi", 1, 30)),  # a format without parsers of its own
]


@pytest.mark.parametrize(("record_format", "time", "overtime", "expected"), TIMES)
def test_time_controls(record_format: str, time: str | None, overtime: str | None, expected: tuple[Any, ...]) -> None:
    text = {column: pa.nulls(2, pa.string()) for column in TEXT_COLUMNS.values()}
    text |= {"time_text": pa.array([None, time], pa.string()), "overtime": pa.array([None, overtime], pa.string())}
    typed, unparsed = parse_fields(record_format, text, known_programs())
    assert [tuple(typed[name][row].as_py() for name in TIME_COLUMNS) for row in (0, 1)] == [NOTHING, expected]
    assert unparsed == ({"overtime": Counter({"0/0": 1})} if overtime == "0/0" else {})


def test_unparsed_overtimes_are_counted(tmp_path: Path) -> None:
    games = ("OT[about a minute]", "OT[about a minute]", "OT[none]", "TC[3]TT[60]", "TM[60]")
    for k, properties in enumerate(games):
        (tmp_path / f"{k}.sgf").write_text(f"(;SZ[19]{properties};B[pd];W[dp])")
    report = ingest(tmp_path, tmp_path / "games.parquet", jobs=1)
    assert report.unparsed == {"overtime": Counter({"about a minute": 2})}
    (batch,) = open_catalogue(tmp_path / "games.parquet").batches(("overtime", *TIME_COLUMNS))
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        *(("about a minute", None, None, None, None),) * 2,
        ("none", None, None, None, None),
        ("3x60 byo-yomi", None, "byo-yomi", 3, 60),
        (None, 1, None, None, None),
    ]


def test_impossible_handicaps_are_counted(tmp_path: Path) -> None:
    texts = {"": None, "0": 0, "1": 1, "+9": 9, "25": 25, "90": 90, "91": None, "99": None, "-3": None, "1e1": None}
    games = (f"(;SZ[19]HA[{text}];B[pd];W[dp])" for text in texts)
    (tmp_path / "a.sgf").write_text("".join(games) + "(;HA[21]SZ[9])(;HA[20]SZ[9])(;SZ[2]HA[1])")
    report = ingest(tmp_path, tmp_path / "games.parquet", jobs=1)
    assert report.unparsed == {"handicap": Counter(["91", "99", "-3", "1e1", "21"])}
    (batch,) = open_catalogue(tmp_path / "games.parquet").batches(("handicap", "repairs"))
    assert batch["handicap"].to_pylist() == [*texts.values(), None, 20, 1]
    unread = ["handicap_text" in (repairs or "") for repairs in batch["repairs"].to_pylist()]
    assert unread == [handicap is None for handicap in batch["handicap"].to_pylist()]
