"""kifu convert: files, counts, and no damaged output."""

import bz2
import gzip
import zipfile
from pathlib import Path

import pytest

from catalogues import rows, write_catalogue
from commands import Done, run
from kgs_archives import BROKEN, archive, records
from kifu.convert import convert
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.corpus.sources import read
from kifu.errors import KifuError, RecipeError, SourceError

GAMES = records(24, 3)
"""Without a result, which OLF cannot say."""

SCORED = [game.replace(b"SZ[19]", b"SZ[19]RE[B+%d.5]" % k) for k, game in enumerate(GAMES)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return archive(tmp_path / "in", [*SCORED, GAMES[0], BROKEN["OCCUPIED"], BROKEN["NOT_GO"], BROKEN["NO_RECORD"]])


COUNTS = "28 games = {} + 1 not go + 1 no record; "


@pytest.mark.parametrize(
    ("name", "said"),
    [("x.sgf", "26 written"), ("x.zip", "26 written"), ("x.olf", "24 written + 2 that cannot be written (result)")],
)
def test_each_game_is_written_or_counted(source: Path, tmp_path: Path, name: str, said: str) -> None:
    report = convert(source, tmp_path / name)
    assert str(report).startswith(COUNTS.format(said))
    assert report.read == report.written + report.failures.total() + report.drops.total() == 28
    assert report.bytes == (tmp_path / name).stat().st_size
    written = list(read(tmp_path / name))
    given = [game for game in read(source) if not game.drop and (name != "x.olf" or game.text("RE"))]
    assert len(written) == report.written
    for found, wanted in zip(written, given, strict=True):
        assert found.moves.tolist() == wanted.moves.tolist()
        assert found.setup.tolist() == wanted.setup.tolist()
        assert (found.players, found.result, found.handicap) == (wanted.players, wanted.result, wanted.handicap)


@pytest.mark.parametrize("name", ["x.olf", "x.sgf"])
def test_compressed_files_have_the_same_content(source: Path, tmp_path: Path, name: str) -> None:
    plain, packed, squeezed = (tmp_path / f"{name}{ending}" for ending in ("", ".gz", ".BZ2"))
    for path in (plain, packed, squeezed):
        convert(source, path)
    assert gzip.decompress(packed.read_bytes()) == bz2.decompress(squeezed.read_bytes()) == plain.read_bytes()
    assert packed.read_bytes()[3:8] == bytes(5)  # neither a name nor a time


def test_members_of_a_zip(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "x.zip") as found:
        assert found.testzip() is None
        assert found.namelist() == [f"{k:07}.sgf" for k in range(1, 27)]
        assert {member.date_time for member in found.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_catalogue_as_source(source: Path, tmp_path: Path) -> None:
    ingest(source, tmp_path / "games.parquet")
    for name in ("x.olf", "x.sgf"):
        direct, through = tmp_path / name, tmp_path / f"through-{name}"
        report = convert(source, direct)
        assert convert(tmp_path / "games.parquet", through) == report
        assert through.read_bytes() == direct.read_bytes()


def test_games_of_all_formats_in_one_file(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "some.olf")
    index = tmp_path / "2016.index"
    index.write_text("7\tC2016.01.01 00:02\ta\ta1\t1\tb\tb1\t2\tW+Resign\t2\t30/3 5m\n")
    lines = tmp_path / "2016-07"
    lines.write_text("7\t;B[pd];W[dp]\n")
    write_catalogue(tmp_path / "few.parquet", rows(moves=[[3]], black=["c"], winner=["black"], ending=["time"]))
    report = convert([source, tmp_path / "some.olf", lines, index, tmp_path / "few.parquet"], tmp_path / "all.sgf")
    assert (report.read, report.written) == (28 + 24 + 1 + 1, 26 + 24 + 1 + 1)
    *_, tygem, last = read(tmp_path / "all.sgf")
    assert (tygem.text("RE"), tygem.text("TM"), tygem.text("OT")) == ("W+R", "300", "3x30 byo-yomi")
    assert last.players == ("c", "")


def test_no_games_give_an_empty_file(tmp_path: Path) -> None:
    source = tmp_path / "x.sgf"
    source.write_bytes(GAMES[0])
    for name in ("y.olf", "y.olf.gz", "y.olf.bz2"):
        assert convert(source, tmp_path / name).written == 0
    assert (tmp_path / "y.olf").read_bytes() == gzip.decompress((tmp_path / "y.olf.gz").read_bytes()) == b""
    assert bz2.decompress((tmp_path / "y.olf.bz2").read_bytes()) == b""


# When it cannot be done


@pytest.mark.parametrize("name", ["x", "x.txt", "x.gz", "x.parquet", "x.olf.xz", "x.zip.gz", "olf"])
def test_unknown_suffix_is_rejected(source: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(RecipeError, match=rf"must end in \.olf, .*\.sgf\.bz2, \.zip, got '{name}'"):
        convert(source, tmp_path / name)


@pytest.mark.parametrize("name", ["x.olf", "x.sgf.gz", "x.zip"])
def test_truncated_source_leaves_no_file(source: Path, tmp_path: Path, name: str) -> None:
    broken = tmp_path / "in" / "cut.tar.gz"
    broken.write_bytes(source.read_bytes()[:-2000])
    with pytest.raises(SourceError, match=r"cut\.tar\.gz"):
        convert([source, broken], tmp_path / name, strict=True)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_inconsistent_catalogue(tmp_path: Path) -> None:
    path = write_catalogue(
        tmp_path / "x.parquet", rows(moves=[[1000], [3]], ending=["resign"] * 2, winner=["white"] * 2)
    )
    for name in ("x.sgf", "x.olf"):
        report = convert(path, tmp_path / name)
        assert (report.written, report.failures) == (1, {"MOVES": 1})
    path = write_catalogue(tmp_path / "y.parquet", rows(setup=[[1]], setup_ply=[[]]))
    with pytest.raises(KifuError, match="have inconsistent lengths"):
        convert(path, tmp_path / "y.sgf")
    assert open_catalogue(path).rows == 1


def test_command(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.olf"
    done = run("convert", source, "-o", out)
    assert (done.code, done.out) == (0, f"{out}: {convert(source, out)}\n")
    failed: Done = run("convert", source, "-o", tmp_path / "x.doc")
    assert failed.code == 2
    assert failed.err[-1].startswith("kifu: the name must end in .olf")


# All real games


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kgs", "wild", "tygem"])
def test_round_trip_of_real_games(shared: Path, tmp_path: Path, name: str) -> None:
    """OLF -> SGF -> OLF gives the same bytes, and everything that was written is read."""
    first, between, again = tmp_path / "first.olf", tmp_path / "between.sgf", tmp_path / "again.olf"
    report = convert(shared / "data" / name, first)
    assert report.written > 0.9 * report.read
    assert (convert(first, between).written, convert(between, again).written) == (report.written, report.written)
    assert again.read_bytes() == first.read_bytes()
