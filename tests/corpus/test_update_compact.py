"""Compacting: the same games in fewer partitions, with the duplicates of a single file."""

from itertools import chain
from pathlib import Path
from typing import Any

import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import run, tree
from kgs_archives import archive
from kifu.corpus import partitions, update
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.partitions import Partition, read_partitions
from kifu.corpus.update import _pieces, append, compact
from kifu.errors import FormatError
from marks import slow
from partition_sources import LONG, bag, cut, dated, make_sources, rules, table
from serializing import SerializingExecutor


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_sources(tmp_path_factory.mktemp("sources"))


def parts(path: Path) -> dict[str, bytes]:
    """The parts, by their names within the folder of the last time."""
    return {name.partition("/")[2]: data for name, data in tree(path).items() if name.endswith(".parquet")}


@pytest.mark.slow
@pytest.mark.parametrize("duplicates", [*slow("keep", "fields"), "games"])
def test_result_does_not_depend_on_when_sources_were_appended(
    sources: list[Path], tmp_path: Path, duplicates: str
) -> None:
    clean = rules(duplicates)
    once, slowly, between = (tmp_path / name for name in ("once", "slowly", "between"))
    append(sources, once, clean=clean)
    before = bag(once)
    for source in sources:
        append(source, slowly, clean=clean)
        append(source, between, clean=clean)
        compact(between)
    for path in (once, slowly):
        report = compact(path)
        assert report.partitions == len(open_catalogue(path).partitions) == 7
        assert report.before > 7
        assert report.games.read == sum(before.values())
    assert parts(once) == parts(slowly) == parts(between)
    # Of games that are equal another may be first now; all else is as in one file.
    said = ("drop", "drop_detail")
    assert bag(once, *said) == bag(slowly, *said)
    assert sum((before - bag(once)).values()) <= 4
    assert bag(once, *said) == bag_of(before, *said)
    assert open_catalogue(once).metadata["drops"] == open_catalogue(slowly).metadata["drops"]


def bag_of(rows: object, *without: str) -> object:
    from collections import Counter

    assert isinstance(rows, Counter)
    kept: Counter[object] = Counter()
    for row, count in rows.items():
        kept[tuple(cell for cell in row if cell[0] not in without)] += count
    return kept


@pytest.mark.slow
def test_small_sources_share_the_partitions_of_a_year(sources: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "games"
    append(sources, path, clean=rules("games"))
    compact(path)
    years = ["before-1900", "2003", "2004", "2005", "2016", "2017", "unknown"]
    assert [part.relative_to(path).as_posix() for part in open_catalogue(path).partitions] == [
        f"compact-1/{year}.parquet" for year in years
    ]
    assert [part.sources for part in read_partitions(path).parts] == [
        (0,), (0, 1), (0, 1), (0, 1, 2), (2,), (2,), (0, 2),
    ]  # fmt: skip
    assert polars.scan_parquet(path / "**/*.parquet").collect().height == len(open_catalogue(path))
    source = archive(tmp_path / "later", [LONG])
    append(source, path, clean=rules("games"))
    compact(path)
    assert {part.parent.name for part in open_catalogue(path).partitions} == {"compact-2"}
    assert not (path / "compact-1").exists()


@pytest.mark.slow
def test_large_sources_and_years_are_divided(
    sources: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "games"
    append(sources, path, clean=rules("games"))
    before = table(path)
    monkeypatch.setattr(update, "LARGE_SOURCE_ROWS", 14)
    monkeypatch.setattr(update, "MAX_PARTITION_ROWS", 2)
    compact(path)
    names = [part.relative_to(path).as_posix() for part in open_catalogue(path).partitions]
    assert [name for name in names if "KGS-2004" in name and "2003" in name] == [
        "compact-1/KGS-2004-19-14-/2003-0001.parquet", "compact-1/KGS-2004-19-14-/2003-0002.parquet",
    ]  # fmt: skip
    assert "compact-1/2016-0002.parquet" in names
    assert not any("KGS-2016" in name for name in names)
    assert all(rows <= 2 for rows in open_catalogue(path).partitions.values())
    assert sorted(table(path)["id"].to_pylist()) == sorted(before["id"].to_pylist())
    monkeypatch.undo()
    compact(path)  # of a compacted folder changes nothing
    assert [part.relative_to(path).as_posix() for part in open_catalogue(path).partitions] == names


def test_only_the_longer_game_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "games"
    others = [dated(str(k), "2004-01-01") for k in range(3)]
    append(archive(tmp_path / "a", [cut(LONG, 40), *others]), path, clean=rules("games"))
    append(archive(tmp_path / "b", [LONG, cut(LONG, 35)]), path, clean=rules("games"))
    assert table(path)["drop"].to_pylist() == [None, None, None, None, None, "cut_off"]
    compact(path)
    long = f"of game {table(path)['id'][4].as_py():016x}"
    assert table(path)["drop_detail"].to_pylist() == [long, None, None, None, None, long]
    assert open_catalogue(path).metadata["drops"] == {"CUT_OFF": 2}
    before = tree(path)
    assert compact(path).games.counts() == {"read": 6, "kept": 4, "drops": {"CUT_OFF": 2}}
    assert tree(path) == before


def test_readers_beside_it(sources: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "games"
    append(sources, path)
    earlier, check = open_catalogue(path), partitions._check_partitions
    calls = iter([compact])

    def check_late(*given: Any) -> None:
        for change in calls:
            change(path)
        check(*given)

    monkeypatch.setattr(partitions, "_check_partitions", check_late)
    assert open_catalogue(path).partitions != earlier.partitions
    with pytest.raises(
        FormatError, match="was removed while the catalogue was read, as merging its partitions does; try again"
    ):
        list(earlier.batches())


@pytest.mark.slow
def test_executor_does_not_matter(sources: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "sent"):
        append(sources, tmp_path / name, clean=rules("games"))
    done = run("ingest", "--compact", "-o", tmp_path / "here", "--jobs", 2)
    assert done.code == 0
    assert done.out.startswith(f"{tmp_path / 'here'}: partitions: 12 before, 7 now; 43 games = ")
    monkeypatch.setattr(update, "make_executor", SerializingExecutor)
    compact(tmp_path / "sent")
    assert tree(tmp_path / "here") == tree(tmp_path / "sent")


@given(st.lists(st.integers(0, 30), min_size=1, max_size=9), st.integers(1, 12))
def test_pieces_are_full_and_in_order(counts: list[int], most: int) -> None:
    whole = [
        Partition(path=f"a/{k}.parquet", rows=n, kept=0, bytes=0, blake3=64 * "0", sources=(0,), year="2016")
        for k, n in enumerate(counts)
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(update, "MAX_PARTITION_ROWS", most)
        pieces = list(_pieces(whole))
    rows = [[(part.path, row) for part, some in piece for row in some] for piece in pieces]
    assert list(chain(*rows)) == [(part.path, row) for part in whole for row in range(part.rows)]
    assert all(len(piece) == most for piece in rows[:-1])
    assert len(rows[-1]) <= most
