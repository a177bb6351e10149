"""Ingesting any mix of sources: order, locations of games, reports."""

import bz2
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import kifu
from archives import put, tarred, zipped
from commands import run
from kgs_archives import archive, record, records
from kifu.assets import config_names
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.ingest import ingest
from kifu.corpus.schema import SCHEMA
from naive_tygem import INDEX
from record_samples import OLF_LINE, TYGEM_LINE

WHERE = ("archive", "member", "entry", "index")


def rows(path: Path, *columns: str) -> list[Any]:
    """The rows as tuples, or the values of the one column."""
    table = pq.read_table(path, columns=list(columns or SCHEMA.names))
    values = list(zip(*(column.to_pylist() for column in table.columns)))
    return [value for (value,) in values] if len(columns) == 1 else values


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One of each kind of source."""
    top = tmp_path_factory.mktemp("sources")
    folder = top / "folder"
    archive(folder / "kgs", records(5, 1), year=2001)
    archive(folder / "kgs", records(4, 2), year=2002, kind="zip")
    put(folder / "loose.sgf", record("loose"))
    put(folder / "deep" / "Two.SGF", record("two a") + record("two b"))
    put(folder / "deep" / "more.sgf.gz", gzip.compress(record("packed")))
    put(folder / "lines.olf", OLF_LINE * 3)
    put(folder / "no record.txt", b"(;)")
    catalogue = top / "older.parquet"
    ingest(zipped(top / "older.zip", {f"{k}.sgf": data for k, data in enumerate(records(3, 3))}), catalogue)
    return {
        "tar": archive(top, records(6, 4), year=2003),
        "zip": archive(top, records(6, 5), year=2004, kind="zip"),
        "folder": folder,
        "collection": put(top / "many.sgf", b"\n".join(records(7, 6))),
        "compressed": put(top / "one.sgf.gz", gzip.compress(record("one"))),
        "olf": put(top / "games.olf", b"# comment\n" + OLF_LINE * 2 + b"\n" + OLF_LINE),
        "olf.bz2": put(top / "more.olf.bz2", bz2.compress(OLF_LINE * 2)),
        "tygem": zipped(top / "2016-07.zip", {"2016-07": TYGEM_LINE * 2}),
        "index": zipped(top / "Kifu2016.zip", {"Kifu2016.index": INDEX}),
        "catalogue": catalogue,
    }


# Reading


COUNTS = {
    "tar": 6, "zip": 6, "folder": 16, "collection": 7, "compressed": 1, "olf": 3, "olf.bz2": 2, "tygem": 2, "index": 0,
    "catalogue": 3,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_any_mix_of_sources_in_any_order(sources: dict[str, Path], tmp_path: Path, seed: int) -> None:
    """The rows are those of each source alone, one after the other; with an index among them, wherever it stands."""
    names = random.Random(seed).sample(sorted(sources), len(sources))
    whole = tmp_path / "whole.parquet"
    report = ingest([sources[name] for name in names], whole, jobs=1 + seed % 3)
    assert report.read == report.kept == sum(COUNTS.values())
    expected = []
    for name in names:
        path = tmp_path / f"{name}.parquet"
        given = [sources["tygem"], sources["index"]] if name == "tygem" else [sources[name]]
        assert ingest(given, path).read == COUNTS[name]
        expected += rows(path)
    assert rows(whole) == expected
    assert [source["name"] for source in open_catalogue(whole).metadata["sources"]].count("folder") == 1


def test_rows_locate_their_games(sources: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    ingest([sources["folder"], sources["collection"], sources["olf"], sources["tygem"]], path)
    assert rows(path, *WHERE) == [
        ("folder", "deep/Two.SGF", 0, 0),
        ("folder", "deep/Two.SGF", 0, 1),
        ("folder", "deep/more.sgf.gz", 1, 0),
        ("folder", "loose.sgf", 2, 0),
        *(("kgs/KGS-2001-19-5-.tar.gz", f"kgs-19-2001/{k:05}.sgf", k + 1, 0) for k in range(5)),
        *(("kgs/KGS-2002-19-4-.zip", f"kgs-19-2002/{k:05}.sgf", k + 1, 0) for k in range(4)),
        *(("lines.olf", "lines.olf", 0, k) for k in range(3)),
        *(("many.sgf", "many.sgf", 0, k) for k in range(7)),
        *(("games.olf", "games.olf", 0, k) for k in (1, 2, 4)),
        *(("2016-07.zip", "2016-07", 0, k) for k in range(2)),
    ]


def test_read_mixes_catalogues_with_records(sources: dict[str, Path], tmp_path: Path) -> None:
    ingest(sources["olf"], tmp_path / "a.parquet")
    records = list(kifu.read(sources["olf"]))
    both = list(kifu.read([sources["olf"], tmp_path / "a.parquet", sources["olf"]]))
    assert [game.moves.tolist() for game in both] == [game.moves.tolist() for game in records] * 3


@pytest.mark.parametrize("name", [name for name in COUNTS if name not in ("catalogue", "index")])
def test_games_are_found_at_the_rows_locations(sources: dict[str, Path], tmp_path: Path, name: str) -> None:
    """By `kifu.read` of the container, in order; members are those that the container has."""
    path = tmp_path / "a.parquet"
    ingest(sources[name], path)
    found = rows(path, "archive", "member", "width", "moves", "black", "komi")
    games = list(kifu.read(sources[name]))
    assert len(games) == len(found) > 0
    for game, (container, member, width, moves, black, komi) in zip(games, found):
        assert (game.name, game.width, game.moves.tolist()) == (member, width, moves)
        assert (game.players[0] or None, game.komi) == (black, komi)
        relative = Path(game.source).relative_to(sources[name]).as_posix() if name == "folder" else "."
        assert container == (Path(game.source).name if relative == "." else relative)


def test_command_prints_the_report(sources: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.parquet"
    done = run("ingest", *sources.values(), "-o", path, "--set", "min_moves=10", "--jobs", 2)
    (line,) = done.out.splitlines()
    size = f"{path.stat().st_size / 1000:,.1f} kB"
    moves = sum(rows(path, "n_moves")) - sum(n for n in rows(path, "n_moves") if n < 10)
    assert (done.code, line) == (0, f"{path}: 46 games = 36 kept + 10 too short; {moves:,} legal moves, {size}")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--clean nix", "unknown set of cleaning rules 'nix'; available: legal, schraudolph, training"),
        ("--clean nix.toml", "nix.toml"),
        ("--set min_moves=-1", "min_moves: Input should be greater than or equal to 0 (it is -1)"),
        ("--set min_moves", "'min_moves'"),
    ],
)
def test_invalid_rules_fail_before_anything_is_written(
    sources: dict[str, Path], tmp_path: Path, arguments: str, words: str
) -> None:
    done = run("ingest", sources["tar"], "-o", tmp_path / "a.parquet", *arguments.split())
    assert (done.code, done.out, len(done.err)) == (2, "", 1)
    assert words in done.err[0]
    assert list(tmp_path.iterdir()) == []


def test_show_draws_the_game_of_a_row(sources: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    ingest(sources["folder"], path)
    for number, (black, plies) in enumerate(rows(path, "black", "n_moves"), 1):
        done = run("show", sources["folder"], "--game", number)
        assert done.code == 0
        assert (black or "?") in done.out
        assert f"{plies} moves" in done.out


def test_tygem_index_applies_to_all_sources(sources: dict[str, Path], tmp_path: Path) -> None:
    both = [sources["tygem"], sources["index"]]
    for given in (both, both[::-1]):
        ingest(given, tmp_path / "a.parquet", overwrite=True)
        assert set(rows(tmp_path / "a.parquet", "black", "white", "winner")) == {("黑(P)", "白", "white")}
    ingest(sources["tygem"], tmp_path / "a.parquet", overwrite=True)
    assert set(rows(tmp_path / "a.parquet", "black", "white", "winner")) == {(None, None, None)}


def test_archives_of_equal_names_get_distinct_names(tmp_path: Path) -> None:
    one, other = (archive(tmp_path / name, records(2, name)) for name in "ab")
    lonely = archive(tmp_path / "c", records(2, "c"), year=2002)
    path = tmp_path / "out" / "a.parquet"
    ingest([one, other, lonely], path)
    assert rows(path, "archive") == [str(one)] * 2 + [str(other)] * 2 + [lonely.name] * 2
    ingest([tmp_path / "a", tmp_path / "b"], path, overwrite=True)
    assert rows(path, "archive") == [str(one)] * 2 + [str(other)] * 2
    ingest(tmp_path, path, overwrite=True)
    names = [each.relative_to(tmp_path).as_posix() for each in (one, other, lonely)]
    assert rows(path, "archive") == [name for name in names for _ in range(2)]


def test_the_rows_are_the_same_from_an_archive_and_from_a_folder(tmp_path: Path) -> None:
    members = {f"{k:02}.sgf": data for k, data in enumerate(records(8))} | {"90.olf": OLF_LINE * 3}
    for name, data in members.items():
        put(tmp_path / "folder" / name, data)
    given = [zipped(tmp_path / "a.zip", members), tarred(tmp_path / "a.tgz", members), tmp_path / "folder"]
    made = []
    for source in given:
        ingest(source, tmp_path / "a.parquet", overwrite=True)
        made.append(rows(tmp_path / "a.parquet", *(name for name in SCHEMA.names if name not in WHERE)))
    assert made[0] == made[1] == made[2]


def test_a_folder_of_links_gives_the_bytes_of_a_folder_of_files(tmp_path: Path) -> None:
    files, links = tmp_path / "1/games", tmp_path / "2/games"
    links.mkdir(parents=True)
    zipped(files / "games.zip", {"a.sgf": record("1")})
    for k, data in enumerate(records(4)):
        put(files / f"{k}.sgf", data)
    for path in files.iterdir():
        (links / path.name).symlink_to(path)
        (links / f"{path.name}.pdf").symlink_to(path)
    given, made = (files, links), (tmp_path / "1.parquet", tmp_path / "2.parquet")
    reports = [ingest(folder, path) for folder, path in zip(given, made)]
    assert rows(made[0]) == rows(made[1])
    assert [report.left_out for report in reports] == [{}, {".pdf": 5}]
    done = run("ingest", links, "-o", tmp_path / "3.parquet", "--json", "-")
    assert any(line.endswith(f"{links}: left out: 5 files (5 .pdf)") for line in done.err)
    assert json.loads(done.out)["left_out"] == {".pdf": 5}
    assert not any("left out" in line for line in run("ingest", links, "-o", tmp_path / "4.parquet", "--quiet").err)


@pytest.mark.parametrize("rules", config_names("cleaning"))
def test_ingesting_a_catalogue_gives_the_same_rows(sources: dict[str, Path], tmp_path: Path, rules: str) -> None:
    """Also over itself; a judgement by other rules leaves nothing behind."""
    odd = {
        "copy.sgf": record("7"),
        "again.sgf": record("7"),
        "ko.sgf": b"(;SZ[5]AB[ba][ab][bc]AW[ca][db][cc][bb];B[cb];W[bb])",
        "illegal.sgf": b"(;SZ[19];B[aa];W[bb];B[aa];W[cc])",
        "empty.sgf": b"",
        "huge.sgf": b"(;SZ[99];B[aa])",
    }
    given = [*sources.values(), zipped(tmp_path / "odd.zip", odd)]
    first, second, legal = tmp_path / "a.parquet", tmp_path / "b.parquet", tmp_path / "c.parquet"
    clean = load_cleaning_rules(rules, ["min_moves=0", 'sizes=["19x19","5x5"]'] if rules == "training" else [])
    report = ingest(given, first, clean=clean)
    again = ingest(first, second, clean=clean)
    assert rows(first) == rows(second)
    assert (report.read, report.kept, report.moves, report.drops) == (again.read, again.kept, again.moves, again.drops)
    ingest(second, second, clean=clean, overwrite=True)
    assert rows(first) == rows(second)
    if clean.illegal == "drop":
        ingest(second, second, overwrite=True)
        ingest(given, legal)
        assert rows(second) == rows(legal)


# Words


TEXTS = {
    "gb18030": ("古力", "陈耀烨"),
    "big5": ("張栩", "周俊勳"),
    "shift_jis": ("井山裕太", "高尾紳路"),
    "euc_kr": ("이세돌", "박정환"),
}


@pytest.mark.parametrize("named", [True, False])
def test_names_are_decoded_in_any_charset_with_or_without_ca(tmp_path: Path, named: bool) -> None:
    """All in one archive, together with UTF-8 under a wrong charset name."""
    members, expected = {}, []
    for codec, players in TEXTS.items():
        for encoding in (codec, "utf-8"):
            black, white = (name.encode(encoding) for name in players)
            ca = b"CA[%s]" % encoding.encode() if named else b""
            members[f"{codec} {encoding}.sgf"] = b"(;GM[1]%sSZ[19]PB[%s]PW[%s];B[pd];W[dp])" % (ca, black, white)
            expected.append(players)
    ingest(zipped(tmp_path / "a.zip", members), tmp_path / "a.parquet")
    assert rows(tmp_path / "a.parquet", "black", "white") == expected
    codecs = rows(tmp_path / "a.parquet", "encoding")
    assert codecs[1::2] == ["utf_8"] * 4
    assert codecs[0::2] == ["gb18030", "cp950", "cp932", "cp949"]
