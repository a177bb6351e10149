"""Every record format and container together: one ingest of a mixed folder, and round trips through SGF."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kifu
from format_samples import COUNTS, MOVES, NO_RECORDS, RECORDS, SGF, write_mixed_folder
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.export import rows_to_sgf
from kifu.corpus.ingest import ingest
from kifu.point import WHITE_BIT, parse_sgf

py7zr = pytest.importorskip("py7zr", reason="kifu[7z] is not installed")

POINTS = [parse_sgf(move[2:], 19) | (WHITE_BIT if move[0] == "W" else 0) for move in MOVES]

LOST_IN_SGF = {
    # where the record lies and how it was read
    "archive", "member", "entry", "index", "format", "encoding", "repairs",
    # SGF has the time left, not the time used
    "move_seconds",
}  # fmt: skip


RESPELLED = {"h.olf": {"id", "black_rank", "white_rank", "result_text", "time_text"}}
"""By file name, columns whose text is written in SGF's spelling, and the hash of these."""


def read_rows(path: Path) -> pa.Table:
    return pa.Table.from_batches(list(open_catalogue(path).batches()))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    write_mixed_folder(folder / "games")
    return folder


def test_a_mixed_folder(mixed: Path) -> None:
    report = ingest(mixed / "games", mixed / "games.parquet", jobs=2)
    rows = read_rows(mixed / "games.parquet")
    copies = 5  # loose, compressed, zip, tar.bz2, 7z
    expected = Counter({name: copies * count for name, count in COUNTS.items()}) + Counter(sgf=2, tygem=2)
    assert Counter(rows["format"].to_pylist()) == expected
    assert report.read == expected.total()
    assert set(rows["drop"].to_pylist()) == {None}
    not_read = Counter({"." + name.rpartition(".")[2]: 4 for name in NO_RECORDS})
    assert {kind: count for kind, count in report.left_out.items() if kind in not_read} == not_read
    moves = {tuple(each) for each in rows["moves"].to_pylist() if len(each) == 5}
    assert moves == {tuple(POINTS)}


def test_a_mixed_folder_is_read_alike_by_any_number_of_jobs(mixed: Path) -> None:
    for jobs in (1, 2):
        ingest(mixed / "games", mixed / f"{jobs}.parquet", jobs=jobs)
    assert (mixed / "1.parquet").read_bytes() == (mixed / "2.parquet").read_bytes()


@pytest.mark.parametrize("name", RECORDS)
def test_each_format_as_a_source_of_its_own(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(RECORDS[name])
    games = list(kifu.read(path))
    assert not any(game.drop for game in games)
    if name != "h.olf":
        assert games[0].moves.tolist() == POINTS


def test_the_same_game_in_all_formats(tmp_path: Path) -> None:
    expected = {
        "width": 19, "height": 19, "winner": "black", "ending": "resign", "main_minutes": 10.0,
        "overtime_kind": "byo-yomi", "overtime_count": 3, "overtime_seconds": 30.0, "komi": 6.5,
        "black_rating": 33.0, "white_rating": 34.0, "year": 2020,
    }  # fmt: skip
    overtime = dict.fromkeys(("overtime_kind", "overtime_count", "overtime_seconds"))
    for name in ("a.sgf", "c.gib", "d.ngf", "e.ugf", "f.json"):
        (tmp_path / name).write_bytes(RECORDS[name])
        ingest(tmp_path / name, tmp_path / "games.parquet")
        row = read_rows(tmp_path / "games.parquet").to_pylist()[0]
        found = {column: row[column] for column in expected}
        assert found == expected | (overtime if name in ("d.ngf", "e.ugf") else {}), name
        (tmp_path / "games.parquet").unlink()


def _comparable(rows: pa.Table, without: set[str]) -> list[dict[str, Any]]:
    """Return the rows without some columns; a handicap of 0 is not written, so it is as good as none."""
    rows = rows.drop_columns([name for name in rows.column_names if name in without])
    return [row | {"handicap": row["handicap"] or None} for row in rows.to_pylist()]


@pytest.mark.parametrize("name", RECORDS)
def test_round_trip_through_sgf(tmp_path: Path, name: str) -> None:
    source, first, written, second = (tmp_path / each for each in (name, "1.parquet", "games.sgf", "2.parquet"))
    source.write_bytes(RECORDS[name])
    ingest(source, first)
    rows = read_rows(first)
    records, failure = rows_to_sgf(rows.to_batches()[0])
    assert not failure.any()
    written.write_bytes(b"".join(records))
    ingest(written, second)
    without = LOST_IN_SGF | RESPELLED.get(name, set())
    without |= {"id"} if 0 in rows["handicap"].to_pylist() else set()
    assert _comparable(read_rows(second), without) == _comparable(rows, without)


def test_sgf_has_the_game() -> None:
    assert kifu.read_sgf(SGF).moves.tolist() == POINTS
