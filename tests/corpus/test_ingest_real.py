"""All real games of ../shared in a catalogue: rows agree with tarfile and regular expressions."""

import datetime
import random
import re
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import naive
from kifu.convert import convert
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.ingest import IngestReport, ingest
from kifu.corpus.schema import SCHEMA
from kifu.corpus.stats import stats
from kifu.errors import DropReason
from kifu.point import BLACK, WHITE

pytestmark = pytest.mark.slow

MAIN_LINE = re.compile(rb"([A-Za-z]*)\s*\[((?:\\.|[^\\\]])*)\]|([;)])", re.DOTALL)
SETUP = (b"AB", b"AW", b"AE")

AFTER_ROOT = {
    ("AI/AlphaGo/FH vs AG G2.sgf", "KM"): "7.5",
    ("AI/AlphaGo/FH vs AG G2.sgf", "DT"): "2015-10-05",
    ("AI/AlphaGo/FH vs AG G5.sgf", "KM"): "7.5",
    ("AI/AlphaGo/FH vs AG G5.sgf", "DT"): "2015-10-09",
    ("AI/AlphaGo 2.0/KJ vs AG - G3 - English.sgf", "DT"): "2017-05-27",
}
"""Information about games that these records give in later nodes."""


class Told(NamedTuple):
    """One record: moves as colour and point ("tt" for a pass), territory as TB or TW and points."""

    archive: str
    member: str
    entry: int
    root: dict[bytes, bytes]
    moves: list[bytes]
    stones: int
    territory: list[bytes]
    data: bytes

    def text(self, name: str) -> str | None:
        """A value of the root, in UTF-8; None if there is nothing in it."""
        value = self.root.get(name.encode(), b"").decode("utf-8", "replace") or AFTER_ROOT.get((self.member, name), "")
        value = re.sub(r"\\(\r\n|\n\r|.)", lambda match: match[1].strip("\r\n"), value, flags=re.DOTALL)
        value = re.sub("[\\r\\n]+", " ", value)
        return value if value.strip("".join(map(chr, range(33)))) else None


def read_record(archive: str, member: str, entry: int, data: bytes) -> Told:
    """The root and the main line, which ends at the first ) outside of values."""
    recorded = Told(archive, member, entry, {}, [], 0, [], data)
    nodes, stones, name = 0, 0, b""
    for word, value, mark in MAIN_LINE.findall(data):
        if mark:
            nodes += mark == b";"
            if mark == b")":
                break
            continue
        name = word or name
        if name in (b"B", b"W"):
            recorded.moves.append(name + (value or b"tt"))
        elif name in SETUP:
            stones += 1
        elif name in (b"TB", b"TW"):
            recorded.territory.append(name + value)
        elif nodes == 1:
            recorded.root.setdefault(name, value)
    return recorded._replace(stones=stones)


def read_tar(path: Path) -> list[Told]:
    with tarfile.open(path) as archive:
        return [
            read_record(path.name, member.name, entry, archive.extractfile(member).read())
            for entry, member in enumerate(archive)
            if member.isfile()
        ]


class Catalogued(NamedTuple):
    recorded: list[Told]
    ingested: IngestReport
    path: Path
    table: pa.Table

    def column(self, name: str) -> list[Any]:
        return self.table[name].to_pylist()


def catalogued(folder: Path, path: Path) -> Catalogued:
    recorded = [record for archive in sorted(folder.glob("*.tar.gz")) for record in read_tar(archive)]
    return Catalogued(recorded, ingest(folder, path), path, pq.read_table(path))


@pytest.fixture(scope="module")
def kgs(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Catalogued:
    return catalogued(shared / "data" / "kgs", tmp_path_factory.mktemp("kgs") / "kgs.parquet")


@pytest.fixture(scope="module")
def wild(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Catalogued:
    return catalogued(shared / "data" / "wild", tmp_path_factory.mktemp("wild") / "wild.parquet")


def words(letters: list[bytes]) -> np.ndarray:
    """Moves or territory as the catalogue has them, for 19 x 19."""
    marks = np.frombuffer(b"".join(letters), np.uint8).reshape(-1, 3).astype(np.uint16)
    point = np.where((marks[:, 1:] == ord("t")).all(1), 361, (marks[:, 2] - 97) * 19 + marks[:, 1] - 97)
    return point | np.where(marks[:, 0] == ord("W"), 0x8000, 0).astype(np.uint16)


# Every row


WORDS = {
    "black": "PB", "white": "PW", "black_rank": "BR", "white_rank": "WR", "result_text": "RE", "komi_text": "KM",
    "date_text": "DT", "time_text": "TM", "rules": "RU", "event": "EV", "round": "RO", "place": "PC", "title": "GN",
}  # fmt: skip


def check_rows(games: Catalogued) -> None:
    for column, recorded in (
        ("archive", [record.archive for record in games.recorded]),
        ("member", [record.member for record in games.recorded]),
        ("entry", [record.entry for record in games.recorded]),
        *((column, [record.text(name) for record in games.recorded]) for column, name in WORDS.items()),
        ("n_moves", [len(record.moves) for record in games.recorded]),
    ):
        assert games.column(column) == recorded, column
    assert set(games.column("index")) == {0}
    assert set(games.column("format")) == {"sgf"}
    assert pc.list_value_length(games.table["setup"]).to_pylist() == [record.stones for record in games.recorded]
    moves = words([move for record in games.recorded for move in record.moves])
    assert np.array_equal(pc.list_flatten(games.table["moves"]).to_numpy(), moves)
    for row, record in zip(games.column("territory"), games.recorded):
        owned = [point.replace(b"T", b"", 1) for point in record.territory]
        assert row == (sorted(words(owned).tolist(), key=lambda word: word & 0x3FFF) if owned else None), record.member


def check_counts(games: Catalogued, drops: dict[str, int]) -> None:
    ingested, column = games.ingested, games.column("drop")
    kept = pc.is_null(games.table["drop"])
    assert ingested.read == len(games.recorded) == len(games.table) == ingested.kept + sum(ingested.drops.values())
    assert {name.lower(): n for name, n in ingested.drops.items()} == drops
    assert Counter(why for why in column if why is not None) == drops
    assert ingested.moves == pc.sum(games.table["n_moves"].filter(kept)).as_py()
    assert ingested.bytes == games.path.stat().st_size


def test_kgs_rows(kgs: Catalogued) -> None:
    assert len(kgs.recorded) == 64_842
    check_rows(kgs)
    check_counts(kgs, {})
    assert set(kgs.column("repairs")) == {None}
    assert sum(map(bool, (record.territory for record in kgs.recorded))) == 6229


def test_kgs_statistics(kgs: Catalogued) -> None:
    counts = stats([kgs.path])
    assert (counts.read, counts.kept, counts.dropped, counts.unparsed) == (64_842, 64_842, {}, {})
    assert counts.years == Counter(record.text("DT")[:4] for record in kgs.recorded)
    results = [record.text("RE") or "" for record in kgs.recorded]
    for side, winner in (("B+", "black"), ("W+", "white")):
        ends = Counter(result[2] for result in results if result.startswith(side))
        won = {"resign": ends.pop("R"), "time": ends.pop("T"), "forfeit": ends.pop("F")}
        assert counts.results[winner] == won | {"score": ends.total()}


def test_wild_rows(wild: Catalogued) -> None:
    assert len(wild.recorded) == 3099
    check_rows(wild)
    check_counts(wild, {"ko": 1})


RANKS = {"black": "BR", "white": "WR"}


def first_day(text: str | None) -> datetime.date | None:
    if text in (None, "1970-01-01"):  # a clock that was never set
        return None
    return datetime.date(*map(int, re.findall(r"\d+", text)[:3]))


def in_order(games: Catalogued, column: str, read: Callable[[Told], Any]) -> None:
    """A column is what `read` makes of the records, row by row."""
    for found, record in zip(games.column(column), games.recorded):
        assert found == read(record), (column, record.member, record.root)


def test_kgs_parsed_fields(kgs: Catalogued) -> None:
    """KGS spells each field in one way, so that all texts are parsed."""

    def rating(name: str) -> Callable[[Told], float | None]:
        first = {"k": 32, "d": 31, "p": 40}

        def read(record: Told) -> float | None:
            rank = record.text(name)
            if rank is None:
                return None
            number = int(rank[:-1])
            return first["k"] - number if rank[-1] == "k" else first[rank[-1]] + number

        return read

    def ended(record: Told) -> tuple[str | None, float | None, str]:
        result = record.text("RE")
        if result in (None, "Void"):
            return None, None, "void" if result else "unknown"
        if result == "0":
            return "draw", None, "score"
        winner = {"B": "black", "W": "white"}[result[0]]
        how = {"Resign": "resign", "Time": "time", "Forfeit": "forfeit"}.get(result[2:], "score")
        return winner, float(result[2:]) if how == "score" else None, how

    for side, name in RANKS.items():
        in_order(kgs, f"{side}_rating", rating(name))
        in_order(kgs, f"{side}_pro", lambda record, name=name: record.text(name) and record.text(name)[-1] == "p")
    for k, column in enumerate(("winner", "margin", "ending")):
        in_order(kgs, column, lambda record, k=k: ended(record)[k])
    in_order(kgs, "date", lambda record: first_day(record.text("DT")))
    in_order(kgs, "year", lambda record: int(record.text("DT")[:4]))
    in_order(kgs, "komi", lambda record: float(record.text("KM")))
    in_order(kgs, "handicap", lambda record: record.text("HA") and int(record.text("HA")))
    in_order(kgs, "overtime", lambda record: record.text("OT"))
    minutes = [record.text("TM") and float(record.text("TM")) / 60 for record in kgs.recorded]
    assert kgs.table["main_minutes"].to_pylist() == pa.array(minutes, pa.float32()).to_pylist()
    assert kgs.ingested.unparsed == {}


def test_wild_parsed_fields(wild: Catalogued) -> None:
    first = {"k": 32, "级": 32, "d": 31, "段": 31, "p": 40}

    def rating(rank: str | None) -> int | None:
        if rank is None or rank == SPOILT:
            return None
        professional, number, unit = re.fullmatch(
            r"(P?)(\d+) ?([kdp级段]?)(?:an)?", rank.replace("9P", "9p").replace("D", "d")
        ).groups()
        return (
            40 + int(number)
            if professional
            else first[unit] - int(number)
            if unit in "k级"
            else first[unit] + int(number)
        )

    def ended(result: str) -> tuple[str, float | None, str]:
        if result in ("draw", "D+J"):
            return "draw", None, "score"
        winner, rest = {"B": "black", "W": "white"}[result[0]], result[2:]
        how = {"R": "resign", "T": "time", "F": "forfeit"}.get(rest[:1], "unknown")
        margin = float(rest) if rest[:1].isdigit() else 0.0
        if margin < 0.25:  # Fox's codes for other ends
            return winner, None, how
        return winner, margin * 2 if margin % 0.5 == 0.25 else round(margin, 2), "score"  # quarters are stones

    def komi(text: str | None) -> float | None:
        points = None if text is None else float(text) / (100 if float(text) >= 100 else 1)
        return points and points * (2 if points in (3.75, 3.25) else 1)

    for side, name in RANKS.items():
        in_order(wild, f"{side}_rating", lambda record, name=name: rating(record.text(name)))
    in_order(wild, "winner", lambda record: ended(record.text("RE"))[0])
    margins = pa.array([ended(record.text("RE"))[1] for record in wild.recorded], pa.float32())
    assert wild.column("margin") == margins.to_pylist()
    in_order(wild, "ending", lambda record: ended(record.text("RE"))[2])
    in_order(wild, "komi", lambda record: komi(record.text("KM")))
    in_order(wild, "date", lambda record: first_day(record.text("DT")))
    in_order(wild, "main_minutes", lambda record: record.text("TM") and float(record.text("TM")) / 60)
    assert wild.ingested.unparsed == {"black_rank": Counter({SPOILT: 1})}


SPOILT = "9娈礭 WR[9娈礭 KM[0"
"""The one rank that is not understood: half of a character took the bracket that ended it."""


def test_no_mojibake(wild: Catalogued) -> None:
    """All of these records are UTF-8, though bytes of some were spoilt before they came to us."""
    names = [name for name in WORDS if name.endswith("e") or name in ("black", "white", "event")]
    replaced = 0
    for k, record in enumerate(wild.recorded):
        whole = record.data.decode("utf-8", "ignore").encode() == record.data
        gaps = any("\ufffd" in (wild.table[name][k].as_py() or "") for name in names)
        assert not (whole and gaps), record.member
        replaced += gaps
    assert replaced == 625
    assert set(wild.column("encoding")) == {"utf_8"}


def check_legality(games: Catalogued, rows: Iterable[int]) -> None:
    """By the naive board: a row is dropped if a move of it cannot be played, and at that move; else it is kept."""
    table = games.table.select(["moves", "setup", "setup_ply", "n_legal", "drop"])
    for row in rows:
        (game,) = table.slice(row, 1).to_pylist()
        board, why, legal = naive.NaiveBoard(19, 19), DropReason.KEPT, len(game["moves"])
        for ply, move in enumerate(game["moves"]):
            stones = [stone for at, stone in zip(game["setup_ply"], game["setup"]) if at == ply]
            if stones:
                board.set_up({((s & 0x3FFF) % 19, (s & 0x3FFF) // 19): WHITE if s & 0x8000 else BLACK for s in stones})
            point, colour = move & 0x3FFF, WHITE if move & 0x8000 else BLACK
            at = None if point == 361 else (point % 19, point // 19)
            why = board.why_not(at, colour)
            if why:
                legal = ply
                break
            board.play(at, colour)
        assert (game["drop"], game["n_legal"]) == (why.name.lower() if why else None, legal), row


@pytest.mark.parametrize("name", ["kgs", "wild"])
def test_exactly_the_games_with_illegal_moves_are_dropped(name: str, request: pytest.FixtureRequest) -> None:
    games: Catalogued = request.getfixturevalue(name)
    dropped = np.flatnonzero(games.table["drop"].is_valid().to_numpy()).tolist()
    check_legality(games, dropped + random.Random(1).sample(range(len(games.recorded)), 150))


# Cleaning


def test_games_that_schraudolphs_rules_drop_from_kgs(kgs: Catalogued, shared: Path, tmp_path: Path) -> None:
    seen = set()

    def reason(record: Told) -> str | None:
        moves, result = record.moves, record.text("RE") or ""
        score = float(result[2:]) if re.fullmatch(r"[BW]\+[\d.]+", result) else None
        if not moves:
            return "no_moves"
        if len([move for move in moves if move[1:] != b"tt"]) + record.stones < 6:
            return "few_stones"
        if record.text("PB") == record.text("PW") and len(moves) < 3.5 * 19:
            return "self_play"
        if score is not None and score > 2 * 361:
            return "huge_score"
        if score is not None and ((score if result[0] == "B" else -score) + float(record.text("KM"))) % 1:
            return "fraction_score"
        same = (tuple(sorted(record.root.items())), b"".join(moves), record.stones)
        if same in seen:
            return "duplicate"
        seen.add(same)
        return None

    cleaned = tmp_path / "schraudolph.parquet"
    ingest(kgs.path, cleaned, clean=load_cleaning_rules("schraudolph"))
    found = pq.read_table(cleaned, columns=["drop"])["drop"].to_pylist()
    assert found == [reason(record) for record in kgs.recorded]
    assert len(set(found)) == 5


def test_games_that_the_training_rules_keep_of_kgs(kgs: Catalogued, tmp_path: Path) -> None:
    """Other tests cover duplicates; those found here are checked one by one."""

    def seconds(record: Told) -> float | None:
        main, overtime = float(record.text("TM") or 0), record.text("OT")
        match = re.fullmatch(r"(\d+)([x/])(\d+) (byo-yomi|Canadian)", overtime or "")
        if match is None:
            assert overtime is None
            return main or None
        count, each = int(match[1]), int(match[3])
        return main + (count - 1 + 120) * each if match[2] == "x" else main + 120 * each / count

    def reason(record: Told, programs: bool) -> str | None:
        spare = seconds(record)
        if not record.moves:
            return "no_moves"
        if len(record.moves) < 30:
            return "too_short"
        if record.text("PB") == record.text("PW") and len(record.moves) < 3.5 * 19:
            return "self_play"
        if record.text("RE") in (None, "Void"):
            return "unfinished"
        if programs:
            return "program"
        return "blitz" if spare is not None and spare < 600 else None

    path = tmp_path / "training.parquet"
    recorded = ingest(kgs.path, path, clean=load_cleaning_rules("training"))
    table = pq.read_table(path)
    rows = table.select(["id", "drop", "drop_detail"]).to_pylist()
    programs = pc.or_(table["black_program"], table["white_program"]).to_pylist()
    by_id = {row["id"]: k for k, row in enumerate(rows) if row["drop"] is None}
    copies = Counter()
    for k, (row, record) in enumerate(zip(rows, kgs.recorded)):
        if row["drop"] not in ("duplicate", "same_game", "cut_off"):
            assert row["drop"] == reason(record, programs[k]), record.member
            continue
        copies[row["drop"]] += 1
        assert reason(record, programs[k]) is None
        if row["drop"] != "duplicate":
            other = kgs.recorded[by_id[int(row["drop_detail"].removeprefix("of game "), 16)]]
            assert begins(other.moves, record.moves)
            assert (row["drop"] == "cut_off") == (len(other.moves) > len(record.moves))
    assert copies == {"cut_off": 2, "duplicate": 1, "same_game": 2}
    assert recorded.read == recorded.kept + sum(recorded.drops.values()) == 64_842


def begins(game: list[bytes], other: list[bytes]) -> bool:
    """Return True if `other` without its last passes is the beginning of `game`, up to symmetry and colours."""
    points = words(other) & 0x3FFF
    points = points[: np.flatnonzero(points < 361)[-1] + 1]
    x, y = points % 19, points // 19
    turned = [19 * b + a for p, q in ((x, y), (y, x)) for a in (p, 18 - p) for b in (q, 18 - q)]
    those = (words(game) & 0x3FFF)[: len(points)]
    return any(np.array_equal(those, np.where(points == 361, 361, each)) for each in turned)


# Round trips


MAY_DIFFER = {"archive", "member", "entry", "repairs", "move_seconds"}
"""Columns that SGF does not preserve: a game's origin, the parse warnings of its first record, and times used."""


@pytest.mark.parametrize("name", ["kgs", "wild"])
def test_round_trip_from_catalogue_to_sgf(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Even the games' ids are the same; only HA[0] is not written."""
    games: Catalogued = request.getfixturevalue(name)
    archive, path = tmp_path / "games.zip", tmp_path / "games.parquet"
    assert convert(games.path, archive).written == len(games.recorded)
    ingest(archive, path)
    second = pq.read_table(path)
    handicap = games.table["handicap"]
    written = pc.if_else(pc.equal(handicap, 0), None, handicap)
    assert second["handicap"] == written
    assert (written.null_count > handicap.null_count) == (name == "wild")
    first = games.table.set_column(SCHEMA.names.index("handicap"), SCHEMA.field("handicap"), written)
    assert [column for column in SCHEMA.names if first[column] != second[column]] == [
        column
        for column in SCHEMA.names
        if column in MAY_DIFFER - ({"repairs", "move_seconds"} if name == "kgs" else set())
    ]
    assert second["member"].to_pylist() == [f"{k:07}.sgf" for k in range(1, len(games.recorded) + 1)]


# TYGEM


def test_tygem_rows(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data" / "tygem"
    with zipfile.ZipFile(folder / "2016-07.zip") as archive:
        lines = archive.read("2016-07").decode().splitlines()
    with zipfile.ZipFile(folder / "Kifu2016.zip") as archive:
        index = [line.split("\t") for line in archive.read("Kifu2016.index").decode().splitlines()]
    about = {fields[0]: fields for fields in reversed(index) if len(fields) == 11}
    path = tmp_path / "tygem.parquet"
    recorded = ingest([folder / "2016-07.zip", folder / "Kifu2016.zip"], path)
    assert (recorded.read, recorded.kept, dict(recorded.drops), recorded.unparsed) == (11_365, 11_364, {"KO": 1}, {})
    table = pq.read_table(path)
    games = [line.split("\t") for line in lines]
    rows = [about[number] for number, _ in games]
    time = [row[10].split() for row in rows]
    endings = {"Resign": "resign", "Time": "time", "Offline": "forfeit"}
    for column, expected in {
        "archive": ["2016-07.zip"] * len(games),
        "member": ["2016-07"] * len(games),
        "index": list(range(len(games))),
        "white": [row[2] for row in rows],
        "black": [row[5] for row in rows],
        "date_text": [row[1].removeprefix("C") for row in rows],
        "date": [datetime.date(*map(int, row[1][1:11].split("."))) for row in rows],
        "result_text": [row[8] for row in rows],
        "winner": [{"B": "black", "W": "white"}[row[8][0]] for row in rows],
        "ending": [endings.get(row[8][2:], "score") for row in rows],
        "margin": [float(row[8][2:]) if row[8][2:] not in endings else None for row in rows],
        "overtime": [each[0] for each in time],
        "overtime_kind": ["byo-yomi"] * len(games),
        "overtime_count": [int(each[0].partition("/")[2]) for each in time],
        "overtime_seconds": [float(each[0].partition("/")[0]) for each in time],
        "main_minutes": [float(each[1].removesuffix("m")) for each in time],
        "n_moves": [moves.count(";") for _, moves in games],
    }.items():
        assert table[column].to_pylist() == expected, column
    letters = [match.encode() for _, moves in games for match in re.findall(r";([BW]\[[a-s]{0,2})\]", moves)]
    moves = words([move.replace(b"[", b"") if len(move) == 4 else move[:1] + b"tt" for move in letters])
    assert np.array_equal(pc.list_flatten(table["moves"]).to_numpy(), moves)
