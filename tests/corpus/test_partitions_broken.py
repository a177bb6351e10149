"""Damaged, hostile or half-written partitioned catalogues: a one-line error, or the catalogue as it was."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import run
from kifu.corpus.catalogue import RowShard, is_catalogue, open_catalogue, read_shard
from kifu.corpus.partitions import Index
from kifu.corpus.query import open_database
from kifu.corpus.schema import INDEX
from kifu.corpus.update import CatalogueTransaction, append, compact
from kifu.errors import FormatError, OutputError, RecipeError
from kifu.io import read_small
from kifu.report.describe import describe_catalogue
from partition_sources import bag, make_sources, rules, tree


class Killed(BaseException):
    """Nothing of ours catches it."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def folders(sources: list[Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder of one source, and the same after two more were added."""
    top = tmp_path_factory.mktemp("folders")
    for name, some in (("one", [sources[:1]]), ("all", [sources[:1], sources[1:]])):
        for each in some:
            append(each, top / name, clean=rules("games"))
    return top / "one", top / "all"


@pytest.fixture
def copied(folders: tuple[Path, Path], tmp_path: Path) -> Path:
    """A copy of the first folder."""
    return Path(shutil.copytree(folders[0], tmp_path / "games"))


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Change the index of a folder and return it."""
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
    monkeypatch.setattr(CatalogueTransaction, "__exit__", lambda folder, *_: folder._lock.close())


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
    for command in (["inspect"], ["query", "SELECT 1"], ["compact"], ["stats"]):
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
    for first, rows in ((0, unit.rows + 1), (-1, unit.rows), (unit.rows + 1, 0)):
        with pytest.raises(FormatError, match="has changed: it has"):
            list(read_shard(RowShard(unit.path, first, rows)))


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
        ({"name": None}, "name: "),
        ({"duplicates": "some"}, "duplicates: "),
        ({"min_moves": "ten"}, "min_moves: "),
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
