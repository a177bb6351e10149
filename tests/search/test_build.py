"""Tests of building indices: the same bytes everywhere, partitioned folders, failures, and the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgs_archives import archive, record
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.corpus.update import append, compact
from kifu.errors import FormatError, KifuError, OutputError, RecipeError
from kifu.search import build
from kifu.search.build import build_index, ensure_index
from kifu.search.index import index_path, open_index
from serializing import ENGINE, SerializingExecutor, install


def source(folder: Path, name: str, games: int, year: int) -> Path:
    return archive(folder, [record(f"{name}{k}") for k in range(games)], year=year)


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    return [source(tmp_path, "a", 30, 2004), source(tmp_path, "b", 17, 2005)]


@pytest.fixture
def catalogue(tmp_path: Path, sources: list[Path]) -> Path:
    path = tmp_path / "games.parquet"
    ingest(sources, path, jobs=1)
    return path


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_BLOCK_ROWS", 7)
    monkeypatch.setattr(build, "_RANGE_ENTRIES", 100)


def indices(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.search")}


def test_the_bytes_do_not_depend_on_the_executor(
    catalogue: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    install(monkeypatch)
    build_index(catalogue, jobs=1)
    data = index_path(catalogue).read_bytes()
    request.getfixturevalue("small_steps")
    for options in ({"jobs": 1}, {"jobs": 3}, {"jobs": 2, "engine": ENGINE}):
        index_path(catalogue).unlink()
        build_index(catalogue, **options)
        assert index_path(catalogue).read_bytes() == data
    assert SerializingExecutor.shards == 1


@pytest.mark.usefixtures("small_steps")
def test_parts_of_a_folder_are_indexed_once(tmp_path: Path, sources: list[Path]) -> None:
    folder = tmp_path / "parts"
    append(sources[0], folder, jobs=1)
    assert build_index(folder, jobs=2).indexed == 1
    before = indices(folder)
    append(sources[1], folder, jobs=1)
    report = build_index(folder, jobs=2)
    assert (report.indexed, report.unchanged, report.games) == (1, 1, 17)
    after = indices(folder)
    assert len(after) == 2
    assert before.items() <= after.items()
    assert report.bytes == sum(map(len, after.values()))
    for path in open_catalogue(folder).partitions:
        assert open_index(path).header.rows == open_catalogue(path).rows
    assert build_index(folder, plies=10, overwrite=True, jobs=1).indexed == 2
    assert build_index(folder, plies=10, jobs=1).unchanged == 2


def test_indices_go_with_their_partitions(tmp_path: Path, sources: list[Path]) -> None:
    folder = tmp_path / "parts"
    for each in sources:
        append(each, folder, jobs=1)
    build_index(folder, jobs=1)
    compact(folder, jobs=1)
    assert indices(folder) == {}
    report = build_index(folder, jobs=1)
    assert (report.indexed, report.unchanged, report.games) == (len(open_catalogue(folder).partitions), 0, 47)
    assert sorted(path.name for path in folder.iterdir()) == ["catalogue.json", "compact-1"]


def test_an_index_of_a_changed_file_is_replaced(catalogue: Path, sources: list[Path]) -> None:
    build_index(catalogue, jobs=1)
    ingest(sources[0], catalogue, overwrite=True, jobs=1)
    with pytest.raises(FormatError, match="another catalogue"):
        open_index(catalogue)
    assert build_index(catalogue, overwrite=True, jobs=1).indexed == 1
    assert open_index(catalogue).header.rows == 30


def test_a_damaged_index_is_replaced(catalogue: Path) -> None:
    build_index(catalogue, jobs=1)
    data = index_path(catalogue).read_bytes()
    index_path(catalogue).write_bytes(data[:100])
    assert build_index(catalogue, overwrite=True, jobs=1).indexed == 1
    assert index_path(catalogue).read_bytes() == data


def test_a_file_that_changes_meanwhile_is_an_error(catalogue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traced = build.trace_games

    def change(*arguments):
        with catalogue.open("r+b") as file:
            file.seek(1000)
            file.write(b"x")
        return traced(*arguments)

    monkeypatch.setattr(build, "trace_games", change)
    with pytest.raises(KifuError, match="changed while it was indexed"):
        build_index(catalogue, jobs=1)
    assert not index_path(catalogue).exists()


@pytest.mark.parametrize("plies", [0, -1, 1001])
def test_plies_out_of_range_are_rejected(catalogue: Path, plies: int) -> None:
    with pytest.raises(RecipeError, match=f"^plies must be within 1 to 1,000, got {plies}$"):
        build_index(catalogue, plies=plies)


def test_missing_indices_are_made_with_a_note(catalogue: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kifu")
    assert ensure_index(catalogue, jobs=1)
    assert open_index(catalogue).header.plies == 60
    build_index(catalogue, plies=20, overwrite=True, jobs=1)
    assert ensure_index(catalogue, jobs=1), "any number of plies will do"
    assert open_index(catalogue).header.plies == 20
    assert caplog.messages == [f"making {index_path(catalogue)}, which makes searches fast; --no-index does without"]


def test_without_room_for_an_index_searches_do_without(catalogue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OutputError("cannot write")

    monkeypatch.setattr(build, "_write_index", refuse)
    assert not ensure_index(catalogue, jobs=1)
    assert not index_path(catalogue).exists()
