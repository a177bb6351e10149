"""Rows of the catalogue: columns of moves and of text, and their export as SGF and OLF."""

import datetime
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kifu
from catalogues import rows, write_catalogue
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.export import rows_to_games, rows_to_olf, rows_to_sgf
from kifu.corpus.ingest import ingest
from kifu.corpus.rows import TEXT_COLUMNS, Rows, parse_fields, recorded_rows, rows_from_catalogue, rows_from_parsed
from kifu.corpus.schema import OVERTIME_COLUMNS, SCHEMA
from kifu.errors import DropReason
from kifu.point import ERASE_BIT, NO_POINT, WHITE_BIT
from kifu.records.games import ParsedBlock
from kifu.records.olf import read_olf
from kifu.records.olf_writer import ExportFailure, OlfFields
from kifu.records.sgf import as_block, final_setup, read_block
from kifu.records.text import known_programs
from record_samples import TRAPS_FOLDER

LEGAL, CUT = load_cleaning_rules("legal"), load_cleaning_rules("legal", ["illegal=cut"])

RECORDS = [b"(;SZ[9];B[aa];W[ba];B[bb])", b"(;SZ[9];B[aa])", b"(;SZ[9])", b"(;SZ[9];B[cc];W[cc];B[dd])"]
"""The third move of the first game is legal; the second move of the last is not."""

NAN = np.nan


def parsed(seconds: list[float] | None, evaluations: list[list[float]] | None) -> ParsedBlock:
    return replace(
        read_block(as_block(RECORDS)),
        seconds=None if seconds is None else np.array(seconds, np.float32),
        evaluations=None if evaluations is None else np.array(evaluations, np.float32),
    )


FIGURES = parsed(
    [1.5, NAN, 0, NAN, 2, np.inf, -1],
    [[NAN] * 4, [0.25, 0.75, -3.5, 600], [0.5, 0.5, 0, 1], [0.5, NAN, 0, 1], [NAN] * 4, [NAN] * 4, [1, 0, 9, 2]],
)


def columns(made: Rows) -> tuple[list[list[float | None] | None], list[list[dict[str, float] | None] | None]]:
    batch = made.batch(made.drop)
    batch.validate(full=True)
    return batch["move_seconds"].to_pylist(), batch["evaluations"].to_pylist()


FIRST, LAST = (
    {"win": 0.25, "loss": 0.75, "score": -3.5, "visits": 600},
    {"win": 1.0, "loss": 0.0, "score": 9.0, "visits": 2},
)
EVEN = {"win": 0.5, "loss": 0.5, "score": 0.0, "visits": 1}


def test_unknown_elements_are_null_and_games_without_any_are_null() -> None:
    seconds, evaluations = columns(rows_from_parsed(FIGURES, "a.zip", LEGAL, known_programs()))
    assert seconds == [[1.5, None, 0.0], None, None, [2.0, None, None]]
    assert evaluations == [[None, FIRST, EVEN], None, None, [None, None, LAST]]
    for column in columns(rows_from_parsed(parsed(None, None), "a.zip", LEGAL, known_programs())):
        assert column == [None] * 4


def test_cut_games_are_cut_in_these_columns_too(tmp_path: Path) -> None:
    whole, cut = (rows_from_parsed(FIGURES, "a.zip", rules, known_programs()) for rules in (LEGAL, CUT))
    expected = ([[1.5, None, 0.0], None, None, [2.0]], [[None, FIRST, EVEN], None, None, None])
    assert columns(cut) == expected
    path = write_catalogue(tmp_path / "games.parquet", whole.batch(whole.drop))
    (batch,) = open_catalogue(path).batches()
    again = rows_from_catalogue(batch, CUT)
    assert columns(again) == expected
    assert again.batch(again.drop).equals(cut.batch(cut.drop))


def test_ids_do_not_depend_on_them() -> None:
    with_figures, without = (
        rows_from_parsed(each, "a.zip", LEGAL, known_programs()) for each in (FIGURES, parsed(None, None))
    )
    for name in ("id", "canonical"):
        assert with_figures.columns[name].equals(without.columns[name])


def test_recorded_rows_have_them() -> None:
    batch = recorded_rows(FIGURES, "a.zip", known_programs())
    assert batch["move_seconds"].to_pylist()[3] == [2.0, None, None]


def test_rows_without_them_take_no_space(tmp_path: Path) -> None:
    made = rows_from_parsed(parsed(None, None), "a.zip", LEGAL, known_programs())
    path = write_catalogue(tmp_path / "games.parquet", *[made.batch(made.drop)] * 500)
    group = pq.read_metadata(path).row_group(0)
    sizes = {group.column(k).path_in_schema: group.column(k).total_compressed_size for k in range(group.num_columns)}
    assert group.num_columns == len(SCHEMA) + 3  # four fields of evaluations
    assert all(size < 100 for name, size in sizes.items() if name.startswith(("move_seconds", "evaluations")))


def test_written_evaluations_have_the_same_values() -> None:
    """Values with more decimals than KataGo writes, and visits that float32 cannot represent."""
    draw = np.random.default_rng(5)
    elements = [
        None if draw.random() < 0.2
        else {"win": float(np.float32(draw.random())), "loss": draw.integers(0, 101) / 100,
              "score": float(np.float32(draw.normal(0, 30))), "visits": int(draw.integers(0, 10**9))}
        for _ in range(60)
    ]  # fmt: skip
    made = rows(
        moves=[[0, 1 | 0x8000, 361] * 20, [72], [72]], evaluations=[elements, None, None],
        game_type=["fork", "normal", None], setup=[[], [5], []], setup_ply=[[], [1], []],
    )  # fmt: skip
    records, failure = rows_to_sgf(made)
    assert not failure.any()
    assert b"C[startTurnIdx=1,gtype=normal]" in records[1]
    assert b"C[" not in records[2]
    again = recorded_rows(read_block(as_block(records)), "a.zip", known_programs())
    for name in ("moves", "game_type"):
        assert again[name].equals(made[name])
    found = again["evaluations"].to_pylist()
    assert found[1:] == [None, None]
    np.testing.assert_array_equal(*(
        [[np.nan] * 4 if each is None else [np.float32(value) for value in each.values()] for each in figures]
        for figures in (found[0], elements)
    ))  # fmt: skip


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


def test_values_of_servers(tmp_path: Path) -> None:
    """Fox's komi below 100, Cyberoro's handicap, and numbers that a program wrapped."""
    cases = {
        "KM[50]": ("komi", 50), "KM[50]FOX": ("komi", 0.5), "KM[75]FOX": ("komi", 1.5), "KM[0]FOX": ("komi", 0),
        "KM[6]FOX": ("komi", 6), "KM[375]FOX": ("komi", 7.5), "KM[6.\n5]": ("komi", 6.5), "KM[6\r\n.5]": ("komi", 6.5),
        "RE[W+1\n2.5]": ("margin", 12.5), "RE[W+1 2.5]": ("margin", None), "RE[W+\n3.5]": ("margin", 3.5),
        "BR[1\n2k]": ("black_rating", 20), "TM[18\n00]": ("main_minutes", 30),
        "OT[5x3\n0 byo-yomi]": ("overtime_seconds", 30),
        "HD[3]": ("handicap", 3), "HD[3]HA[2]": ("handicap", 2), "HA[2]HD[3]": ("handicap", 2),
        "HD[0]": ("handicap", 0), "HD[x]": ("handicap", None), "HD[91]": ("handicap", None),
    }  # fmt: skip
    for k, properties in enumerate(cases):
        root = properties.replace("FOX", "AP[GNU Go:3.8]AP[foxwq]")
        (tmp_path / f"{k:02}.sgf").write_bytes(f"(;SZ[19]{root};B[pd];W[dp])".encode())
    ingest(tmp_path, tmp_path / "games.parquet", jobs=1)
    games = pq.read_table(tmp_path / "games.parquet").to_pylist()
    assert [(column, game[column]) for game, (column, _) in zip(games, cases.values())] == list(cases.values())
    read = list(kifu.read(tmp_path))
    assert [(game.komi, game.handicap) for game in read] == [(game["komi"], game["handicap"]) for game in games]
    assert [kifu.read_games(kifu.write_sgf(game))[0].handicap for game in read[-6:-2]] == [3, 2, 2, None]


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


EXPORT_RECORDS = sorted(TRAPS_FOLDER.glob("*.sgf"))
PROGRAMS = known_programs()
PLAY = ("width", "height", "handicap", "to_play", "moves", "territory")
SAID = tuple(TEXT_COLUMNS.values())
WHERE = ("member", "entry", "index", "encoding", "repairs")
OLF_SAYS = ("width", "height", "moves", "setup", "territory", *OlfFields.__dataclass_fields__)

Row = dict[str, Any]


def batch_of(made: list[Row]) -> pa.RecordBatch:
    return rows(**{name: [row[name] for row in made] for name in made[0]})


def recorded(reading: ParsedBlock) -> pa.RecordBatch:
    return recorded_rows(reading, "x", PROGRAMS)


def as_written(batch: pa.RecordBatch) -> list[bytes]:
    records, why = rows_to_sgf(batch)
    assert not why.any()
    return records


def setup_of(row: Row) -> list[tuple[bool, int, dict[int, int]]]:
    """Return the setup of each node, independent of the order of its stones."""
    nodes: dict[tuple[bool, int], list[int]] = {}
    for k, (ply, stone) in enumerate(zip(row["setup_ply"], row["setup"])):
        nodes.setdefault((k >= row["root_setup"], ply), []).append(stone)
    return [(*node, final_setup(np.array(stones, np.uint16))) for node, stones in nodes.items()]


def play_of(batch: pa.RecordBatch, names: tuple[str, ...]) -> list[Row]:
    return [{name: row[name] for name in names} | {"stones": setup_of(row)} for row in batch.to_pylist()]


# Any rows, as SGF

WORDS = st.none() | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\t\v\f") | st.sampled_from("[]\\:;() 段"),
    max_size=12,
).filter(lambda text: text.strip("".join(map(chr, range(33)))))


@st.composite
def sgf_rows(draw: st.DrawFn) -> Row:
    width, height = draw(st.integers(1, 25)), draw(st.integers(1, 25))
    points = width * height
    point = st.integers(0, points - 1)
    colour = st.sampled_from([0, WHITE_BIT])
    moves = draw(
        st.lists(st.builds(lambda p, c: p | c, point | st.just(points) | st.just(NO_POINT), colour), max_size=9)
    )
    bits = st.sampled_from([0, WHITE_BIT, ERASE_BIT])
    setup = draw(st.lists(st.builds(lambda p, b: p | b, point, bits), max_size=8))
    plies = sorted(draw(st.lists(st.integers(0, len(moves)), min_size=len(setup), max_size=len(setup))))
    at_start = sum(ply == 0 for ply in plies)
    area = sorted(draw(st.sets(point, max_size=5)))
    return {
        "width": width,
        "height": height,
        "handicap": draw(st.none() | st.integers(0, 99)),
        "to_play": draw(st.integers(0, 2)),
        "moves": moves,
        "setup": setup,
        "setup_ply": plies,
        "root_setup": draw(st.integers(0, at_start)),
        "territory": [p | draw(colour) for p in area] or None,
        **{name: draw(WORDS) for name in SAID},
    }


@given(st.lists(sgf_rows(), min_size=1, max_size=4))
def test_round_trip_through_sgf(made: list[Row]) -> None:
    batch = batch_of(made)
    records = as_written(batch)
    again = recorded(read_block(as_block([b"".join(records)])))
    assert play_of(again, PLAY) == play_of(batch, PLAY)
    for name in SAID:
        assert again[name].to_pylist() == batch[name].to_pylist(), name
    assert as_written(again) == records


def test_round_trip_of_every_test_record_through_sgf() -> None:
    """The rows have the same id, and are the same but for where they lie and what was forgiven."""
    clean = load_cleaning_rules("legal")

    def rows_in(data: list[bytes]) -> pa.RecordBatch:
        found = rows_from_parsed(read_block(as_block(data)), "x", clean, PROGRAMS)
        return found.batch(found.drop)

    first = rows_in([path.read_bytes() for path in EXPORT_RECORDS])
    records, why = rows_to_sgf(first)
    assert [record == b"" for record in records] == (why == ExportFailure.DROPPED).tolist()
    said = why == ExportFailure.NONE
    assert said.sum() > 40 > (~said).sum() > 2
    again = rows_in([record for record in records if record])
    before = first.filter(pa.array(said)).to_pylist()
    respelled = 0
    for wanted, found in zip(before, again.to_pylist(), strict=True):
        assert setup_of(found) == setup_of(wanted)
        if wanted["handicap"] == 0:  # not written
            wanted |= {"handicap": None, "id": found["id"]}
        same = ["id", "setup", "setup_ply", "root_setup"] if found["setup"] == wanted["setup"] else []
        same += [name for name in SCHEMA.names if name not in (*WHERE, "id", "setup", "setup_ply", "root_setup")]
        assert {name: found[name] for name in same} == {name: wanted[name] for name in same}
        respelled += found["setup"] != wanted["setup"]
    assert respelled == 4  # one point in AB and AE; AE, or B as setup, in another order


def test_row_as_sgf() -> None:
    batch = rows(
        width=[9], height=[9], black=["a]b"], result_text=["B+R"], handicap=[2], to_play=[2],
        setup=[[0, 80, 40 | WHITE_BIT, 3 | ERASE_BIT]], setup_ply=[[0, 0, 1, 2]], root_setup=[2],
        moves=[[4 | WHITE_BIT, 81]], territory=[[1, 2 | WHITE_BIT]],
    )  # fmt: skip
    assert as_written(batch) == [
        b"(;FF[4]GM[1]CA[UTF-8]SZ[9]PB[a\\]b]RE[B+R]HA[2]PL[W]AB[aa][ii]\n;W[ea]\n;AW[ee]\n;B[]\n;AE[da]\nTB[ba]TW[ca]\n)\n"
    ]


@pytest.mark.parametrize(
    ("format", "said", "words"),
    [
        ("olf", {"black_rank": "35.0", "white_rank": "34"}, {"BR": "4d*", "WR": "3d"}),
        ("olf", {"result_text": "-3.5", "komi_text": "6.5"}, {"RE": "W+3.5", "KM": "6.5"}),
        ("olf", {"komi_text": "100"}, {"KM": "100.00"}),
        ("olf", {"result_text": "888.8", "time_text": "30"}, {"RE": "B+T", "TM": "1800"}),
        ("olf", {"result_text": "0", "date_text": "1996-03-12"}, {"RE": "0", "DT": "1996-03-12"}),
        ("tygem", {"result_text": "W+Resign", "time_text": "5m"}, {"RE": "W+R", "TM": "300"}),
        ("tygem", {"overtime": "30/3", "date_text": "2016.01.02 10:00"}, {"OT": "3x30 byo-yomi", "DT": "2016-01-02"}),
        ("sgf", {"result_text": "W+Resign", "time_text": "5m"}, {"RE": "W+Resign", "TM": "5m"}),
    ],
)
def test_text_is_converted_to_sgf_conventions(format: str, said: dict[str, str], words: dict[str, str]) -> None:
    batch = rows(format=[format], **{name: [text] for name, text in said.items()})
    (game,) = rows_to_games(batch)
    assert {name: game.text(name) for name in words} == words
    assert read_block(as_block(as_written(batch))).games.drop.tolist() == [DropReason.KEPT]


def test_row_as_game() -> None:
    batch = rows(black=["x", "y"], moves=[[3], [4 | WHITE_BIT]], drop=["ko", "bad_size"], width=[19, 0], height=[19, 0])
    game, unread = rows_to_games(batch)
    assert (game.players, game.moves.tolist(), game.drop, game.source, game.name) == (
        ("x", ""), [3], DropReason.KEPT, "games.zip", "0.sgf"
    )  # fmt: skip
    assert (unread.players, unread.drop) == (("y", ""), DropReason.BAD_SIZE)


# What SGF cannot say


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"drop": "unreadable"}, ExportFailure.DROPPED),
        ({"drop": "suicide"}, ExportFailure.NONE),
        ({"width": 0}, ExportFailure.BOARD),
        ({"moves": [361]}, ExportFailure.NONE),
        ({"moves": [NO_POINT]}, ExportFailure.NONE),
        ({"moves": [362]}, ExportFailure.MOVES),
        ({"territory": [361]}, ExportFailure.MOVES),
        ({"setup": [361], "setup_ply": [0]}, ExportFailure.SETUP),
    ],
)
def test_export_failures(row: Row, why: ExportFailure) -> None:
    plain: Row = {"width": 19, "moves": [], "drop": None, "territory": None, "setup": [], "setup_ply": []}
    batch = batch_of([plain | {"moves": [0]}, plain | row, plain | {"moves": [1]}])
    records, found = rows_to_sgf(batch)
    assert found.tolist() == [0, why, 0]
    assert [record == b"" for record in records] == [False, why != ExportFailure.NONE, False]


# Rows that OLF can say, as OLF, and from there as SGF

NAMES = st.none() | st.text("abcXYZ012[]\\段é", min_size=1, max_size=8)
RATINGS = st.none() | st.integers(1, 49)
HALVES = st.integers(-1999, 1999).map(lambda n: n / 2)


@st.composite
def olf_rows(draw: st.DrawFn) -> Row:
    width, height = draw(st.integers(1, 19)), draw(st.integers(1, 19))
    points = width * height
    stones = draw(st.lists(st.integers(0, points - 1), unique=True, max_size=9))
    stones = stones if len(stones) > 1 else []
    white_passes = points | WHITE_BIT
    moves = draw(st.lists(st.integers(0, points) | st.integers(0, points).map(lambda p: p | WHITE_BIT), max_size=9))
    if stones and moves[:1] == [white_passes]:  # would be one of the passes between handicap stones
        moves = moves[1:] if moves[1:2] != [white_passes] else []
    ratings = {side: draw(RATINGS) for side in ("black", "white")}
    winner = draw(st.sampled_from(["black", "white", "draw"]))
    ending = "score" if winner == "draw" else draw(st.sampled_from(["score", "resign", "time"]))
    margin = draw(st.integers(1, 600)) / 2 if winner != "draw" and ending == "score" else None
    date = draw(st.none() | st.dates(datetime.date(1500, 1, 1), datetime.date(2199, 12, 31)))
    row = {
        "width": width, "height": height, "moves": moves, "setup": stones, "setup_ply": [0] * len(stones),
        "root_setup": len(stones), "handicap": len(stones) or None,
        "territory": sorted(draw(st.sets(st.integers(0, points - 1), max_size=4))) or None,
        "date": date, "year": date.year if date else draw(st.none() | st.integers(1500, 2199)),
        "winner": winner, "ending": ending, "margin": margin, "komi": draw(st.none() | HALVES),
        "main_minutes": draw(st.none() | st.integers(0, 600).map(lambda n: n / 2)),
    }  # fmt: skip
    for side, rating in ratings.items():
        row[side] = draw(NAMES)
        row[f"{side}_rating"] = rating
        row[f"{side}_confirmed"] = (
            None if rating is None else True if rating > 40 else draw(st.sampled_from([None, True]))
        )
    return row


@pytest.mark.slow
@given(st.lists(olf_rows(), min_size=1, max_size=4))
def test_round_trip_through_olf_and_sgf(made: list[Row]) -> None:
    batch = batch_of(made)
    lines = rows_to_olf(batch)
    said = lines.failure == ExportFailure.NONE
    assert all(row["setup"] or why == ExportFailure.NONE for row, why in zip(made, lines.failure)), lines.failure
    if not said.any():
        return
    from_olf = recorded(read_olf(as_block([lines.data.tobytes()])))
    from_sgf = recorded(read_block(as_block(as_written(from_olf))))
    for name in OLF_SAYS:
        wanted = batch[name].filter(pa.array(said)).to_pylist()
        assert from_olf[name].to_pylist() == wanted, name
        assert from_sgf[name].to_pylist() == wanted, name
    assert rows_to_olf(from_sgf).data.tobytes() == lines.data.tobytes()


def test_row_as_olf() -> None:
    batch = rows(
        width=[9], height=[9], black=["Ann B"], white_rating=[35.0], white_confirmed=[True], winner=["white"],
        ending=["resign"], handicap=[2], setup=[[0, 80]], setup_ply=[[0, 0]], root_setup=[2],
        moves=[[4 | WHITE_BIT, 81]], territory=[[1, 2 | WHITE_BIT]], drop=["few_stones"],
    )  # fmt: skip
    assert rows_to_olf(batch).data.tobytes() == b"0000-00-00 Ann_B 0 ? 35.0 9:9 ? -999.9 ? h-2 AAttIItteaTT BAca\n"
