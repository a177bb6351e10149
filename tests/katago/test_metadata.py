"""Metadata inputs of KataGo's human-style networks: ranks, time controls, dates, sources."""

from __future__ import annotations

import datetime
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from catalogues import rows
from kata_reference import ARCHIVES, unpack
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.corpus.rows import parse_fields
from kifu.datasets.global_inputs import SERVERS, Conditions
from kifu.katago.metadata import META_COLUMNS, metadata_rows, profile_rows
from kifu.records.text import known_programs

WORDS = (
    "black", "white", "black_rank", "white_rank", "result_text", "komi_text", "date_text", "time_text", "overtime",
)  # fmt: skip


def games(count: int = 1, **columns: Any) -> pa.RecordBatch:
    fields = {name: [value] * count for name, value in columns.items()}
    text = {name: pa.array(fields.get(name, [None] * count), pa.string()) for name in WORDS}
    typed, _ = parse_fields(fields.get("format", ["sgf"])[0], text, known_programs())
    fields |= {name: typed[name].to_pylist() for name in typed if name in META_COLUMNS}
    return rows(**{"width": [19] * count} | fields).select(list(META_COLUMNS))


def one(source: str = "kgs", **columns: Any) -> np.ndarray:
    return metadata_rows(games(**columns), source)[0]


def test_metadata_equals_katagos_rows(shared, tmp_path):
    folder = shared / "reference" / "katago"
    with np.load(folder / "trainrows_index.npz") as file:
        names, game, turn = file["names"].tolist(), file["game"], file["turn"]
        infos = [json.loads(each) for each in file["gameInfoJson"].tolist()]
    with np.load(folder / "trainrows.npz") as file:
        wanted = file["metadataInputNC"]
    for top in sorted({name.split("/")[0] for name in names}):
        unpack(shared / "data" / "kgs" / ARCHIVES[top], set(names), tmp_path / "games")
    ingest(tmp_path / "games", tmp_path / "games.parquet", jobs=1)
    (batch,) = open_catalogue(tmp_path / "games.parquet").batches((*META_COLUMNS, "member", "moves"))
    place = {member: i for i, member in enumerate(batch["member"].to_pylist())}
    found = metadata_rows(batch, "kgs")
    assert found.dtype == wanted.dtype
    moves = batch["moves"].to_pylist()
    at = [place[names[g]] for g in game.tolist()]
    white = [moves[row][ply] >> 15 for row, ply in zip(at, turn.tolist())]
    assert np.array_equal(found[at, white], wanted)
    assert {each["tc"] for each in infos} == {"byo", "can"}


RANKS = {
    # text: inverse rank, unranked, unknown; of KGS
    "9d": (1, 0, 0), "8d": (2, 0, 0), "1d": (9, 0, 0), "1k": (10, 0, 0), "30k": (39, 0, 0), "10d": (1, 0, 0),
    "9p": (1, 0, 0), "1p": (1, 0, 0), "3 dan": (7, 0, 0), "4 kyu": (13, 0, 0), "5段": (5, 0, 0), "18级": (27, 0, 0),
    "-": (0, 1, 0), None: (0, 1, 0), "nr": (0, 0, 1), "NR": (0, 0, 1), "insei": (0, 0, 1), "what": (0, 0, 1),
    "6d?": (4, 0, 0), "Meijin": (1, 0, 0), "6a": (4, 0, 0), "5d ama": (5, 0, 0), "0k": (0, 0, 1),
}  # fmt: skip


@pytest.mark.parametrize("rank", RANKS)
def test_ranks(rank):
    inverse, unranked, unknown = RANKS[rank]
    black, white = one(black_rank=rank, white_rank="2k")
    for row, k in ((black, 0), (white, 1)):
        assert row[2 + k] == unranked
        assert row[4 + k] == unknown
        steps = row[6 + 34 * k : 40 + 34 * k]
        assert steps.tolist() == [1.0] * min(inverse, 34) + [0.0] * (34 - min(inverse, 34))
        assert row[2 + 1 - k] == row[4 + 1 - k] == 0
        assert row[6 + 34 * (1 - k) : 40 + 34 * (1 - k)].sum() == 11


@pytest.mark.parametrize(
    ("source", "rank", "inverse", "unknown"),
    [
        ("gogod", "1d", 1, 0), ("gogod", "9d", 1, 0), ("gogod", "9p", 1, 0), ("gogod", "3k", 0, 1),
        ("gogod", None, 0, 1),
        ("gogod", "6d ama", 4, 0), ("gogod", "6a", 4, 0), ("gogod", "2k ama", 11, 0), ("gogod", "Kisei", 1, 0),
        ("go4go", "1d", 9, 0), ("ogs", None, 0, 1), ("fox", None, 0, 1), ("tygem", "1d", 9, 0),
    ],
)  # fmt: skip
def test_ranks_of_other_sources(source, rank, inverse, unknown):
    row = one(source, black_rank=rank, white_rank="1k")[0]
    assert row[4] == unknown
    assert row[2] == 0
    assert row[6:40].sum() == inverse


def test_fractional_ratings_round_down():
    batch = games(black_rank="x", white_rank="1k")
    batch = batch.set_column(META_COLUMNS.index("black_rating"), "black_rating", pa.array([35.9], pa.float32()))
    assert metadata_rows(batch, "kgs")[0, 0, 6:40].sum() == 10 - 4


def test_programs_are_not_human():
    for source in ("kgs", "gogod"):
        black, white = one(source, black="GNU Go", white="someone")
        assert black[:2].tolist() == [0, 1]
        assert white[:2].tolist() == [1, 0]


def logs(main: float, period: float, periods: int, moves: int) -> list[np.float32]:
    """Columns 82 to 85."""
    return [
        np.float32(0.4 * (math.log(main + 60) - 6.5)),
        np.float32(0.3 * (math.log(period + 1) - 3)),
        np.float32(0.5 * (math.log(periods + 2) - 1.5)),
        np.float32(0.25 * (math.log(moves + 2) - 1.5)),
    ]


UNKNOWN, NONE, ABSOLUTE, SIMPLE, BYO_YOMI, CANADIAN, FISCHER = range(75, 82)
NOTHING = (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("source", "time", "overtime", "kind", "expected"),
    [
        ("kgs", "1800", "5x30 byo-yomi", BYO_YOMI, (1800, 30, 5, 0)),
        ("kgs", "0", "3x10 byo-yomi", BYO_YOMI, (0, 10, 3, 0)),
        ("kgs", "1", "99x1 byo-yomi", BYO_YOMI, (1, 1, 50, 0)),
        ("kgs", "300", "25/600 Canadian", CANADIAN, (300, 24, 0, 25)),
        ("kgs", "300", "100/600 Canadian", CANADIAN, (300, 6, 0, 50)),
        ("ogs", "120", "30 fischer", FISCHER, (120, 30, 0, 0)),
        ("ogs", "0", "30 simple", SIMPLE, (0, 30, 0, 0)),
        ("kgs", "604800", None, ABSOLUTE, (259200, 0, 0, 0)),
        ("kgs", "37", None, ABSOLUTE, (37, 0, 0, 0)),
        ("ogs", "604800", "259200 fischer", FISCHER, (259200, 86400, 0, 0)),
        ("kgs", None, None, NONE, NOTHING),
        ("ogs", None, None, NONE, NOTHING),
        ("fox", None, None, UNKNOWN, NOTHING),
        ("kgs", "0", None, NONE, NOTHING),
        ("kgs", None, "5x30 byo-yomi", UNKNOWN, NOTHING),
        ("kgs", "a while", None, UNKNOWN, NOTHING),
        ("kgs", "1800", "some more", UNKNOWN, NOTHING),
        ("kgs", "1800", "none", ABSOLUTE, (1800, 0, 0, 0)),
        ("kgs", "1800", "1001x30 byo-yomi", UNKNOWN, NOTHING),
        ("kgs", "1800", "3x100000001 byo-yomi", UNKNOWN, NOTHING),
        ("gogod", "1800", "5x30 byo-yomi", UNKNOWN, NOTHING),
        ("go4go", None, None, UNKNOWN, NOTHING),
    ],
)
def test_time_limits(source, time, overtime, kind, expected):
    for row in one(source, time_text=time, overtime=overtime):
        assert np.flatnonzero(row[75:82]).tolist() == [kind - 75]
        assert row[kind] == 1
        assert row[82:86].tolist() == logs(*expected)


def test_tygem_gives_seconds_before_periods():
    row = one("tygem", format="tygem", time_text="10m", overtime="30/3")[0]
    assert row[BYO_YOMI] == 1
    assert row[82:86].tolist() == logs(600, 30, 3, 0)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2006-01-31", (2006, 1, 31)), ("1846-09-11", (1846, 9, 11)), ("0475-01-31", (475, 1, 31)),
        ("1970-01-01", (1970, 1, 1)), ("1846", (1846, 1, 1)), ("1846-07", (1846, 7, 1)), ("1846-07-00", (1846, 7, 1)),
        ("1846-00-00", (1846, 1, 1)), (None, (1970, 1, 1)), ("long ago", (1970, 1, 1)),
    ],
)  # fmt: skip
def test_dates(text, day):
    days = (datetime.date(*day) - datetime.date(1970, 1, 1)).days
    period, wanted = 7.0, []
    for _ in range(32):
        turns = days / period
        wanted += [np.float32(math.cos(turns * 2 * math.pi)), np.float32(math.sin(turns * 2 * math.pi))]
        period *= 80_000 ** (1 / 31)
    for row in one("gogod", date_text=text):
        assert row[87:151].tolist() == wanted


@pytest.mark.parametrize(("k", "source"), [*enumerate(["katago", "ogs", "kgs", "fox", "tygem", "gogod", "go4go"])])
def test_sources_and_rated_games(k, source):
    for row in one(source, time_text="60"):
        assert np.flatnonzero(row[151:]).tolist() == [k]
        assert row[74] == (0 if source in ("gogod", "go4go") else 0.5)


@pytest.mark.parametrize(("width", "height"), [(19, 19), (9, 9), (13, 7), (2, 2)])
def test_board_sizes(width, height):
    batch = rows(width=[width], height=[height])
    assert metadata_rows(batch, "kgs")[0, 0, 86] == np.float32(0.5 * math.log(width * height / 361))


def test_a_batch_equals_single_games():
    words = [
        {"black_rank": "3d", "time_text": "60"},
        {"white_rank": "4k", "date_text": "2001-02-03"},
        {"black": "GNU Go"},
    ]
    alone = [metadata_rows(games(**each), "kgs") for each in words]
    together = pa.Table.from_batches([games(**each) for each in words]).combine_chunks().to_batches()[0]
    assert np.array_equal(metadata_rows(together, "kgs"), np.concatenate(alone))
    assert metadata_rows(together.slice(0, 0), "kgs").shape == (0, 2, 192)


def known(ratings: list[list[float]], years: list[float]) -> Conditions:
    return replace(Conditions.unknown(len(years)), rating=np.float32(ratings), year=np.float32(years))


CLOCK_TEXTS = (("600", "5x30 byo-yomi"), ("0", "25/600 Canadian"), ("1200", None), ("0", None), (None, None))


@pytest.mark.parametrize("source", ["ogs", "kgs", "fox", "tygem", "gogod", "go4go"])
def test_profiles_equal_metadata(source):
    """Of games whose server, date, clock and ranks are recorded."""
    ranks = ("9d", "3d", "5k", None, "9p")
    words = [
        {"black_rank": ranks[k], "white_rank": ranks[k - 1], "time_text": time, "overtime": overtime,
         "date_text": "2011-05-07", "black": "a", "white": "b"}
        for k, (time, overtime) in enumerate(CLOCK_TEXTS)
    ]  # fmt: skip
    batch = pa.Table.from_batches([games(**each) for each in words]).combine_chunks().to_batches()[0]
    more = {"place": [f"somewhere on {source}.com"] * len(batch), "komi": [None] * len(batch)}
    conditions = Conditions.from_rows(rows(**{name: batch[name].to_pylist() for name in META_COLUMNS}, **more))
    server = np.full(len(batch), SERVERS.index(source), np.float32)
    assert np.array_equal(conditions.server, server, equal_nan=True) == (source in ("ogs", "kgs", "tygem"))
    found = profile_rows(replace(conditions, server=server), 361)
    np.testing.assert_allclose(found, metadata_rows(batch, source), atol=1e-6)


def test_profiles():
    cases = (("2016-09-01", 2016), ("2020-03-01", 2020), ("2020-03-01", 2023), ("2020-03-01", np.nan))
    for date, year in cases:
        game = one(
            black_rank="5k", white_rank="3d", date_text=date, time_text="1200", overtime="5x30 byo-yomi", black="a",
            white="b",
        )  # fmt: skip
        assert np.array_equal(profile_rows(known([[27, 34]], [year]), 361)[0], game)
    unknown, half = profile_rows(known([[np.nan] * 2, [np.nan, 34]], [2016] * 2), 361)
    assert unknown[:, 4:74].tolist() == [[1, 1, *[0] * 68]] * 2
    assert half[0, 6:40].sum() == half[0, 40:74].sum() == 7
