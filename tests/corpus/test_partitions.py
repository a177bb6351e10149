"""Partitioned catalogues: the same games as in one file, for any reader and any order of appending."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogues import rows
from commands import run, tree
from kgs_archives import archive
from kifu.convert import convert
from kifu.corpus import sources as corpus_sources
from kifu.corpus import update
from kifu.corpus.catalogue import RowShard, is_catalogue, open_catalogue, read_shard
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.ingest import ingest
from kifu.corpus.partitions import PARTITION_PATH, Index
from kifu.corpus.query import open_database, query
from kifu.corpus.schema import INDEX
from kifu.corpus.splits import load_split, split
from kifu.corpus.stats import stats
from kifu.corpus.update import CatalogueTransaction, append, compact
from kifu.datasets.mmap_games import read_games
from kifu.errors import FormatError, OutputError, RecipeError, SourceError
from kifu.go.rules import Rules
from kifu.io import read_small
from kifu.leaks.audit import open_set
from kifu.play.match import catalogue_openings
from kifu.records.containers import blocks
from kifu.report.describe import describe_catalogue
from kifu.report.games import find_game
from partition_sources import bag, dated, make_sources, rules, table
from serializing import SerializingExecutor


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def folder(sources: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("folder") / "games"
    append(sources, path, clean=rules("games"))
    return path


@pytest.fixture(scope="module")
def file(folder: Path) -> Path:
    path = folder.with_name("same.parquet")
    ingest(folder, path, clean=rules("keep"))
    with query("SELECT * FROM games", [folder]) as answer:
        answer.write(path)
    return path


@pytest.mark.parametrize("duplicates", ["keep", "fields", "games"])
def test_new_folder_has_the_games_of_one_file(sources: list[Path], tmp_path: Path, duplicates: str) -> None:
    one = ingest(sources, tmp_path / "games.parquet", clean=rules(duplicates))
    many = append(sources, tmp_path / "games", clean=rules(duplicates))
    assert bag(tmp_path / "games") == bag(tmp_path / "games.parquet")
    assert (many.read, many.kept, many.moves, many.drops) == (one.read, one.kept, one.moves, one.drops)
    assert many.unparsed == one.unparsed
    assert open_catalogue(tmp_path / "games").metadata == open_catalogue(tmp_path / "games.parquet").metadata
    copies = {"keep": {}, "fields": {"DUPLICATE": 2}, "games": {"DUPLICATE": 2, "SAME_GAME": 1, "CUT_OFF": 2}}
    assert {name: n for name, n in many.drops.items() if name in copies["games"]} == copies[duplicates]


def test_partitions_are_named_by_source_and_year(folder: Path) -> None:
    names = [path.relative_to(folder).as_posix() for path in open_catalogue(folder).partitions]
    assert names == [
        *(f"KGS-2003-19-17-/{year}.parquet" for year in ("before-1900", 2003, 2004, 2005, "unknown")),
        *(f"KGS-2004-19-14-/{year}.parquet" for year in (2003, 2004, 2005)),
        *(f"KGS-2016-19-12-/{year}.parquet" for year in (2005, 2016, 2017, "unknown")),
    ]
    assert set(tree(folder)) == {*names, INDEX}
    for path in open_catalogue(folder).partitions:
        found = {
            "unknown" if year is None or year > 2099 else max(year, 1899) for year in table(path)["year"].to_pylist()
        }
        assert {str(year).replace("1899", "before-1900") for year in found} == {path.stem}


def test_each_partition_is_a_catalogue(folder: Path) -> None:
    whole = open_catalogue(folder)
    assert [open_catalogue(path).rows for path in whole.partitions] == list(whole.partitions.values())
    for path in whole.partitions:
        assert describe_catalogue(path).startswith(f"{path}: catalogue@3")
        (source,) = open_catalogue(path).metadata["sources"]
        assert source in whole.metadata["sources"]
        assert source["name"].startswith(path.parent.name)


def test_batches_shards_and_games_follow_the_partitions(folder: Path, file: Path) -> None:
    whole = open_catalogue(folder)
    expected = pa.concat_tables([table(path) for path in whole.partitions]).combine_chunks()
    assert table(folder).equals(expected)
    assert table(file).equals(expected)
    assert len(whole) == len(expected)
    assert [len(batch) for batch in whole.batches(("id",), size=3)].count(3) > 5
    rows_of_units = [batch for unit in whole.shards() for batch in read_shard(unit)]
    assert pa.Table.from_batches(rows_of_units).combine_chunks().equals(expected)
    assert [str(game) for game in whole.games()] == [str(game) for game in open_catalogue(file).games()]


def test_digest_depends_on_the_rows_and_their_order(folder: Path, sources: list[Path], tmp_path: Path) -> None:
    append(sources, tmp_path / "again", clean=rules("games"))
    assert open_catalogue(tmp_path / "again").digest() == open_catalogue(folder).digest()
    append(sources[::-1], tmp_path / "other", clean=rules("games"))
    assert open_catalogue(tmp_path / "other").digest() != open_catalogue(folder).digest()


def test_polars_and_duckdb_read_the_same_rows(folder: Path, file: Path) -> None:
    expected = polars.read_parquet(file).sort("archive", "entry", "index")
    assert polars.scan_parquet(folder / "**/*.parquet").collect().sort("archive", "entry", "index").equals(expected)
    sql = f"SELECT * FROM read_parquet('{folder}/**/*.parquet') ORDER BY archive, entry, \"index\""
    assert duckdb.sql(sql).pl().equals(expected)


@pytest.mark.slow
def test_all_commands_read_folders(folder: Path, file: Path, tmp_path: Path) -> None:
    halves = load_split("hash", ["split.sets={train=0.6,test=0.4}"])
    for name, path in (("folder", folder), ("file", file)):
        split([path], tmp_path / name, by=halves)
        convert(path, tmp_path / name / "games.olf")
        with query("SELECT * EXCLUDE catalogue FROM kept ORDER BY id", [path]) as answer:
            answer.write(tmp_path / name / "kept.csv")
    for name in ("train.parquet", "test.parquet"):
        assert table(tmp_path / "folder" / name).equals(table(tmp_path / "file" / name))
    for name in ("games.olf", "kept.csv"):
        assert (tmp_path / "folder" / name).read_bytes() == (tmp_path / "file" / name).read_bytes()
    counted = [stats([path]).to_json().replace(str(path), "") for path in (folder, file)]
    assert counted[0] == counted[1]
    assert read_games([folder], (19, 19), False, None).equals(read_games([file], (19, 19), False, None))
    assert catalogue_openings(folder, 19, 4, Rules.named("records"), 1, 9) == catalogue_openings(
        file, 19, 4, Rules.named("records"), 1, 9
    )
    assert [str(find_game(folder, n).game) for n in (1, 20, 43)] == [str(find_game(file, n).game) for n in (1, 20, 43)]
    assert open_set(folder).games == open_set(file).games
    again = ingest(folder, tmp_path / "again.parquet", clean=rules("games"))
    assert again.read == len(open_catalogue(file))


def test_query_shows_the_folder_as_given(folder: Path, file: Path) -> None:
    with query("SELECT catalogue, count(*) FROM games GROUP BY ALL ORDER BY ALL", [folder, file]) as answer:
        assert answer.head(5).rows == [(str(path), "43") for path in (folder, file)]


def test_append_does_not_change_existing_partitions(sources: list[Path], folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "games"
    before: dict[str, tuple[bytes, int]] = {}
    for source in sources:
        append(source, path, clean=rules("games"))
        for name, report in before.items():
            assert (path.joinpath(name).read_bytes(), path.joinpath(name).stat().st_mtime_ns) == report
        before = {
            part.relative_to(path).as_posix(): (part.read_bytes(), part.stat().st_mtime_ns)
            for part in open_catalogue(path).partitions
        }
    assert [part.relative_to(path) for part in open_catalogue(path).partitions] == [
        part.relative_to(folder) for part in open_catalogue(folder).partitions
    ]
    # Existing rows do not change: the beginning of a game that is appended later is kept until the folder is compacted.
    only_here = bag(path) - bag(folder)
    assert [dict(row)["drop"] for row in only_here] == ["None"]
    assert [dict(row)["drop"] for row in bag(folder) - bag(path)] == ["cut_off"]
    report = open_catalogue(path).metadata
    assert report["read"] == report["kept"] + sum(report["drops"].values())
    assert report["drops"]["DUPLICATE"] == 2


def test_known_sources_are_skipped(sources: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "games"
    append(sources[:2], path)
    before = tree(path)
    (copy := tmp_path / "another name.zip").write_bytes(sources[0].read_bytes())
    report = append([copy, sources[1]], path)
    assert (report.read, report.skipped) == (0, [copy.name, sources[1].name])
    assert tree(path) == before
    copy.write_bytes(sources[2].read_bytes())
    done = run("ingest", *sources, copy, "-o", path)
    assert done.code == 0
    assert [line for line in done.out.splitlines() if line.endswith("is already there")] == [
        f"  {name} is already there" for name in (sources[0].name, sources[1].name, copy.name)
    ]
    assert bag(path) == bag_of_file(sources, tmp_path)


def test_sources_of_equal_names_get_distinct_directories(sources: list[Path], tmp_path: Path) -> None:
    path, other = tmp_path / "games", tmp_path / "other" / sources[0].name
    other.parent.mkdir()
    other.write_bytes(sources[1].read_bytes())
    append(sources[0], path)
    append(other, path)
    names = [sources[0].name, str(other)]
    assert [source["name"] for source in open_catalogue(path).metadata["sources"]] == names
    assert list(dict.fromkeys(table(path)["archive"].to_pylist())) == names
    assert len({part.parent for part in open_catalogue(path).partitions}) == 2


def bag_of_file(sources: list[Path], folder: Path) -> object:
    ingest(sources, folder / "one.parquet")
    return bag(folder / "one.parquet")


def test_other_rules_are_rejected(sources: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "games"
    append(sources[0], path)
    before = tree(path)
    with pytest.raises(RecipeError, match=r"rules whose name is 'legal', not 'schraudolph'"):
        append(sources[1], path, clean=load_cleaning_rules("schraudolph"))
    with pytest.raises(RecipeError, match=r"rules whose min_moves is '0', not '3'"):
        append(sources[1], path, clean=load_cleaning_rules("legal", ["min_moves=3"]))
    assert tree(path) == before


def test_bytes_do_not_depend_on_the_executor(
    sources: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for jobs in (1, 2):
        append(sources, tmp_path / f"threads {jobs}", clean=rules("games"), jobs=jobs)
    monkeypatch.setattr("kifu.corpus.update.make_executor", SerializingExecutor)
    append(sources, tmp_path / "sent", clean=rules("games"))
    assert tree(tmp_path / "threads 1") == tree(tmp_path / "threads 2") == tree(tmp_path / "sent")


def test_shards_of_a_large_source_are_separate_partitions(tmp_path: Path) -> None:
    games = [dated(str(k), f"{2010 + k // 60}-01-01") for k in range(120)]
    large = archive(tmp_path, games, kind="zip")
    ingest(large, tmp_path / "games.parquet", clean=rules("games"))
    with (
        mock.patch.dict(blocks.__kwdefaults__ or {}, block_bytes=8 << 10),
        mock.patch.dict(corpus_sources.count_blocks.__kwdefaults__ or {}, block_bytes=8 << 10),
        mock.patch.multiple(corpus_sources, _SMALL_BYTES=1000, _SHARD_BLOCKS=2),
    ):
        append(large, tmp_path / "games", clean=rules("games"))
    names = [path.name for path in open_catalogue(tmp_path / "games").partitions]
    assert names == sorted(names)
    assert {"2010-0001.parquet", "2010-0002.parquet", "2011-0001.parquet"} <= {*names}
    assert table(tmp_path / "games").equals(table(tmp_path / "games.parquet"))


@given(st.dictionaries(st.integers(1899, 2100), st.integers(1, 1 << 19), max_size=300))
def test_partitions_written_together_are_few_and_small(counts: dict[int, int]) -> None:
    groups = update._group_years(np.array([counts.get(year, 0) for year in range(1899, 2101)]))
    assert [year for group in groups for year in group] == sorted(counts)
    for group in groups:
        assert 1 <= len(group) <= 64
        assert len(group) == 1 or sum(counts[year] for year in group) <= 1 << 17


def test_one_partition_per_year(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "_MAX_OPEN", 3)
    monkeypatch.setattr(update, "_MAX_ROWS", 5)
    years = [None, -3, 0, 1899, 1900, *range(1990, 2004), 2099, 2100, 32767, None, 1990]
    found = update.partition_years(rows(year=years))
    expected = [2100, 2100, 1899, 1899, 1900, *range(1990, 2004), 2099, 2100, 2100, 2100, 1990]
    assert found.tolist() == expected
    names = {update.year_name(year) for year in expected}
    assert {"before-1900", "unknown", "1900", "2099"} < names
    assert all(re.fullmatch("[a-z0-9-]{1,20}", n) for n in names)


@given(st.lists(st.text() | st.sampled_from(["a.zip", "A.tar.gz", "a", "..", "../a", "/a", "a/b.zip", ".a", "con"])))
def test_any_source_name_gives_a_unique_directory(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    with CatalogueTransaction(tmp_path_factory.mktemp("names") / "games") as folder:
        made: list[str] = []
        for name in names:
            made.append(folder.new_name(name, made))
    assert len({name.casefold() for name in made}) == len(names)
    assert all(re.fullmatch(PARTITION_PATH, f"{name}/2016.parquet") and not name.startswith(".") for name in made)


def test_unreadable_sources_leave_nothing(sources: list[Path], tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_bytes(b"PK\x03\x04 and no more")
    for path in (tmp_path / "new", tmp_path / "old"):
        before = {}
        if path.name == "old":
            append(sources[0], path)
            before = tree(path)
        with pytest.raises(SourceError):
            append([sources[1], tmp_path / "bad.zip"], path, strict=True)
        assert (tree(path) if path.exists() else {}) == before
        assert is_catalogue(path) == bool(before)


def test_foreign_folder_is_not_touched(sources: list[Path], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    done = run("ingest", sources[0], "-o", tmp_path)
    assert (done.code, len(done.err)) == (2, 1)
    assert "contains notes.txt and is not a catalogue" in done.err[0]
    assert tree(tmp_path) == {"notes.txt": b"mine"}


def test_archive_without_games_is_an_empty_partition(sources: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "games"
    append([archive(tmp_path, [], year=1999), sources[0]], path)
    empty, *others = open_catalogue(path).partitions.items()
    assert empty == (path / "KGS-1999-19-0-" / "unknown.parquet", 0)
    assert all(rows for _, rows in others)
    assert polars.scan_parquet(path / "**/*.parquet").collect().height == len(open_catalogue(path))


class Killed(BaseException):
    """Nothing of ours catches it."""


@pytest.fixture(scope="module")
def folders(sources: list[Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    top = tmp_path_factory.mktemp("folders")
    for name, some in (("one", [sources[:1]]), ("all", [sources[:1], sources[1:]])):
        for each in some:
            append(each, top / name, clean=rules("games"))
    return top / "one", top / "all"


@pytest.fixture
def copied(folders: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(folders[0], tmp_path / "games"))


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    index: dict[str, Any] = json.loads(read_small(path / INDEX))
    change(index)
    (path / INDEX).write_text(json.dumps(index))
    return index


def kill(monkeypatch: pytest.MonkeyPatch, where: object, name: str, after: int = 0) -> None:
    """From now on the process ends, as it were, when it comes to this for the first time, or some times later."""
    calls = iter(range(1 << 30))
    whole = getattr(where, name)

    def killed(*arguments: Any, **named: Any) -> Any:
        if next(calls) < after:
            return whole(*arguments, **named)
        raise Killed

    monkeypatch.setattr(where, name, killed)
    monkeypatch.setattr(CatalogueTransaction, "_clear_all", lambda folder: None)  # only the lock is released


MOMENTS: dict[str, tuple[object, str, int]] = {
    "before names are given": (CatalogueTransaction, "commit", 0),
    "between names": (Path, "mkdir", 6),
    "between parts and index": (Index, "write", 0),
    "before what is left is removed": (CatalogueTransaction, "_clear", 0),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("new", [True, False])
def test_killed_append_leaves_the_old_or_the_new_catalogue(
    sources: list[Path], folders: tuple[Path, Path], tmp_path: Path, moment: str, new: bool
) -> None:
    path = tmp_path / "games"
    if not new:
        shutil.copytree(folders[0], path)
    before = tree(path)
    with pytest.MonkeyPatch.context() as patched:
        kill(patched, *MOMENTS[moment])
        with pytest.raises(Killed):
            append(sources[0] if new else sources[1:], path, clean=rules("games"))
    written = moment == "before what is left is removed"
    assert is_catalogue(path) == (not new or written)
    if not new:
        assert bag(path) == bag(folders[written])
        assert {name: data for name, data in tree(path).items() if name in before and name != INDEX} == {
            name: data for name, data in before.items() if name != INDEX
        }
    append(sources[0] if new else sources[1:], path, clean=rules("games"))
    assert tree(path) == tree(folders[not new])


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_compact_leaves_the_old_or_the_new_catalogue(
    folders: tuple[Path, Path], tmp_path: Path, moment: str
) -> None:
    path, done = tmp_path / "games", tmp_path / "done"
    shutil.copytree(folders[1], path)
    shutil.copytree(folders[1], done)
    compact(done)
    with pytest.MonkeyPatch.context() as patched:
        kill(patched, *MOMENTS[moment])
        with pytest.raises(Killed):
            compact(path)
    written = moment == "before what is left is removed"
    assert bag(path) == bag(done if written else folders[1])
    if written:  # the next writer removes the old partitions, even if it writes nothing
        with CatalogueTransaction(path):
            pass
    else:
        compact(path)
    assert tree(path) == tree(done)


def test_one_writer_at_a_time(sources: list[Path], tmp_path: Path) -> None:
    with (
        CatalogueTransaction(tmp_path / "games"),
        pytest.raises(OutputError, match="is being written by another process"),
    ):
        append(sources[0], tmp_path / "games")


def test_folder_cannot_be_its_own_source(folders: tuple[Path, Path]) -> None:
    before = tree(folders[0])
    done = run("ingest", folders[0], "-o", folders[0])
    assert (done.code, len(done.err)) == (2, 1)
    assert "is a source" in done.err[0]
    assert tree(folders[0]) == before


def test_only_partitioned_catalogues_can_be_compacted(folders: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="is a single file"):
        compact(next(iter(open_catalogue(folders[0]).partitions)))
    with pytest.raises(FormatError, match="is not a partitioned catalogue"):
        compact(tmp_path)
    assert not any(tmp_path.iterdir())


def first_part(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    return lambda index: change(index["parts"][0])


OUTSIDE = ["../one/x.parquet", "/etc/x.parquet", "a/../../x.parquet", "a/./b.parquet", "a\\..\\b.parquet", "x.parquet"]
CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    **{name: first_part(lambda part, name=name: part.update(path=name)) for name in OUTSIDE},
    "a hidden one": first_part(lambda part: part.update(path=".new-1/x.parquet")),
    "no text": first_part(lambda part: part.update(path=7)),
    "a part that is not there": first_part(lambda part: part.update(path="a/2016.parquet")),
    "another size": first_part(lambda part: part.update(bytes=part["bytes"] + 1)),
    "no hash": first_part(lambda part: part.update(blake3="x")),
    "negative": first_part(lambda part: part.update(rows=-1)),
    "more rows than all": first_part(lambda part: part.update(rows=part["rows"] + 1)),
    "many rows": first_part(lambda part: part.update(rows=1 << 70)),
    "a source that is not listed": first_part(lambda part: part.update(sources=[9])),
    "of no source": first_part(lambda part: part.update(sources=[])),
    "a key too many": first_part(lambda part: part.update(more=1)),
    "a part twice": lambda index: index["parts"].append(index["parts"][0]),
    "no parts": lambda index: index.update(parts=[]),
    "another version": lambda index: index.update(catalogue=9),
    "counts that differ": lambda index: index.update(kept=index["kept"] - 1),
    "drops that differ": lambda index: index["drops"].update(KO=1),
    "no sources": lambda index: index.pop("sources"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_hostile_index_raises_a_one_line_error(copied: Path, name: str) -> None:
    edit(copied, CHANGES[name])
    before = tree(copied)
    with pytest.raises(FormatError) as error:
        open_catalogue(copied)
    assert str(copied) in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500
    for command in (["show"], ["query", "SELECT 1"], ["ingest", "--compact", "-o"], ["stats"]):
        done = run(*command, copied)
        assert (done.code, len(done.err)) == (2, 1)
    assert tree(copied) == before


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"parts": ' * 10_000, "\ud800", "\0"])
def test_invalid_index_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / INDEX).write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(FormatError):
        open_catalogue(tmp_path)


def test_too_large_index_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / INDEX).open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(FormatError, match=": larger than 67,108,864 bytes"):
        open_catalogue(tmp_path)


@pytest.mark.parametrize("kind", ["a link", "a folder that is a link", "a pipe", "a folder"])
def test_partition_outside_the_folder_is_rejected(copied: Path, tmp_path: Path, kind: str) -> None:
    part = next(iter(open_catalogue(copied).partitions))
    place = part.parent if kind == "a folder that is a link" else part
    place.rename(tmp_path / "elsewhere")
    if kind == "a pipe":
        os.mkfifo(part)
    elif kind == "a folder":
        part.mkdir()
    else:
        place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FormatError, match=f"{place} (is not a regular file|lies outside the folder)"):
        open_catalogue(copied)


def test_partition_with_other_rows_than_listed_is_rejected(copied: Path) -> None:
    def shift(index: dict[str, Any]) -> None:
        one, other = index["parts"][:2]
        for name in ("rows", "kept"):
            one[name], other[name] = one[name] + 1, other[name] - 1

    edit(copied, shift)
    catalogue = open_catalogue(copied)
    for read in (lambda: list(catalogue.batches()), catalogue.shards, lambda: open_database([copied]).__enter__()):
        with pytest.raises(FormatError, match="has changed: it has"):
            read()


def test_inspect_finds_a_changed_partition(copied: Path) -> None:
    assert "partitions  5; their hashes match" in describe_catalogue(copied)
    edit(copied, first_part(lambda part: part.update(blake3=64 * "0")))
    with pytest.raises(FormatError, match="the BLAKE3 hash differs"):
        describe_catalogue(copied)


def test_shard_of_a_changed_file_is_rejected(folders: tuple[Path, Path]) -> None:
    (unit, *_) = open_catalogue(folders[0]).shards()
    assert sum(len(batch) for batch in read_shard(RowShard(unit.path, 1, unit.rows - 1))) == unit.rows - 1
    for first, count in ((0, unit.rows + 1), (-1, unit.rows), (unit.rows + 1, 0)):
        with pytest.raises(FormatError, match="has changed: it has"):
            list(read_shard(RowShard(unit.path, first, count)))


def test_names_of_a_killed_run_cannot_leave_the_folder(copied: Path, tmp_path: Path) -> None:
    before = tree(copied)
    (tmp_path / "mine.parquet").write_bytes(b"mine")
    (copied / ".new-x").mkdir()
    (copied / ".new-x" / "names.json").write_text(json.dumps(["../mine.parquet", f"{copied}/{INDEX}", INDEX, 7, None]))
    with CatalogueTransaction(copied):
        pass
    assert tree(copied) == before
    assert (tmp_path / "mine.parquet").exists()


@given(st.integers(0, 1 << 20), st.integers(0, 255), st.integers(0, 3))
def test_changed_bytes_of_an_index_give_a_format_error_or_a_catalogue(
    folders: tuple[Path, Path], place: int, value: int, cut: int
) -> None:
    path = folders[1]
    text = (path / INDEX).read_bytes()
    at = place % len(text)
    try:
        (path / INDEX).write_bytes(text[:at] + bytes([value]) + text[at + cut :])
        catalogue = open_catalogue(path)
        assert sum(len(batch) for batch in catalogue.batches(("id",))) == len(catalogue)
    except FormatError as error:
        message = str(error)
        assert "\n" not in message
    finally:
        (path / INDEX).write_bytes(text)


ABSENT = object()


@pytest.mark.parametrize(
    ("change", "expected_text"),
    [
        ({"new_rule": None}, "new_rule: no such key"),
        ({"new_rule": [1]}, "new_rule: no such key"),
        ({"name": None}, "name must be text, got null"),
        ({"duplicates": "some"}, "duplicates must be "),
        ({"min_moves": "ten"}, "min_moves must be an integer"),
        ({"sizes": ["x"]}, "sizes: "),
        ({"x\ny": 1}, r"x\ny: no such key"),
        ({"duplicates": ABSENT}, "clean lacks cleaning rules"),
    ],
)
def test_cleaning_rules_of_another_version_are_named(
    sources: list[Path], copied: Path, change: dict[str, Any], expected_text: str
) -> None:
    def change_rules(index: dict[str, Any]) -> None:
        index["clean"] = {name: value for name, value in (index["clean"] | change).items() if value is not ABSENT}

    index = edit(copied, change_rules)
    before = tree(copied)
    for change_folder in (lambda: append(sources[1:], copied, clean=rules("games")), lambda: compact(copied)):
        with pytest.raises(RecipeError) as raised:
            change_folder()
        assert f"{INDEX}: {expected_text}" in str(raised.value)
        assert tree(copied) == before
    assert open_catalogue(copied).rows == index["read"]


@pytest.mark.parametrize("names", ["7", "null", '{"a": 1}', "[1, null]", "{", ""])
def test_damaged_lists_of_an_interrupted_commit_are_ignored(sources: list[Path], copied: Path, names: str) -> None:
    before = tree(copied)
    (copied / ".new-0").mkdir()
    (copied / ".new-0" / "names.json").write_text(names)
    append(sources[:1], copied, clean=rules("games"))
    assert tree(copied) == before
