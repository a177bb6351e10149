"""Changes between versions: equal to a naive comparison, and sensitive to every value."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalogues import GAMES, rows, table, write_catalogue
from example_sets import layout_for, random_batch, write
from kifu.corpus.schema import SCHEMA
from kifu.errors import RecipeError
from kifu.io import AtomicFile
from kifu.progress import silent
from kifu.publication.manifest import CATALOGUE, EXAMPLES, Changes, next_version, parse_version
from kifu.publication.publish import write_changes


def compare(folder: Path, old: dict[str, list[Path]], new: dict[str, list[Path]], examples: bool = False):
    """Return the changes, and the rows of changes.parquet."""
    kind = EXAMPLES if examples else CATALOGUE
    with silent("", None, "") as bar, AtomicFile(folder / "changes.parquet") as output:
        found = write_changes("1.0.0", old, new, kind, output, bar)
    return found, pq.read_table(folder / "changes.parquet").to_pylist()


def naive(old: list[tuple], new: list[tuple]) -> dict[str, int]:
    """Compare games (split, canonical, id, komi) one by one: equal ones first, then by fewer and fewer values."""
    counts = dict.fromkeys(("added", "removed", "changed", "moved", "same"), 0)
    keys = [("same", lambda g: g), ("moved", lambda g: g[1:]), ("changed", lambda g: g[2]), ("changed", lambda g: g[1])]
    for change, key in keys:
        for game in old[:]:
            match = next((each for each in new if key(each) == key(game)), None)
            if match is not None:
                old.remove(game)
                new.remove(match)
                counts[change] += 1
    return counts | {"removed": len(old), "added": len(new)}


def written(folder: Path, name: str, games: list[tuple]) -> dict[str, list[Path]]:
    """Write the games, by split, each split as two files."""
    files: dict[str, list[Path]] = {}
    for split in sorted({game[0] for game in games}):
        chosen = [game[1:] for game in games if game[0] == split]
        for k in (0, 1):
            columns = dict(zip(("canonical", "id", "komi"), zip(*chosen[k::2])))
            same = {"opening": [0], "entry": [0], "member": ["a"]}
            batches = [rows(**columns, **{name: v * len(chosen[k::2]) for name, v in same.items()})] if columns else []
            files.setdefault(split, []).append(write_catalogue(folder / f"{name}-{split}-{k}.parquet", *batches))
    return files


@pytest.mark.parametrize("seed", range(4))
def test_changes_are_those_of_a_naive_comparison(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)

    def draw() -> list[tuple]:
        numbers = rng.integers(0, 40, 150)  # with repetitions
        canonical = [int(n) // 2 for n in numbers]
        return [("ab"[rng.integers(2)], c, int(n), 0.5 * rng.integers(2)) for c, n in zip(canonical, numbers)]

    old, new = draw(), draw()
    found, listed = compare(tmp_path, written(tmp_path, "old", old), written(tmp_path, "new", new))
    expected = naive(old[:], new[:])
    assert {name: n for name, n in asdict(found).items() if name != "previous"} == expected
    assert Counter(row["change"] for row in listed) == +Counter({k: n for k, n in expected.items() if k != "same"})
    for row in listed:
        assert (row["id"] is None, row["split"] is None) == (row["change"] == "removed",) * 2
        assert (row["previous_id"] is None, row["previous_split"] is None) == (row["change"] == "added",) * 2
        assert (row["previous_split"], row["previous_id"]) in {(g[0], g[2]) for g in old} | {(None, None)}
        assert (row["split"], row["id"]) in {(g[0], g[2]) for g in new} | {(None, None)}


@pytest.mark.slow
def test_every_column_counts(tmp_path: Path) -> None:
    old = {"train": [write_catalogue(tmp_path / "old.parquet", GAMES)]}
    assert compare(tmp_path, old, old)[0].same == 3
    changed = {
        name: pa.array([other[1], other[0], other[2]], SCHEMA.field(name).type)
        for name in SCHEMA.names
        if (other := GAMES[name].to_pylist()) and other[0] != other[1]
    }
    assert len(changed) > 10
    for name, column in changed.items():
        pq.write_table(table(**{name: column}), tmp_path / "new.parquet")
        assert compare(tmp_path, old, {"train": [tmp_path / "new.parquet"]})[0].same == 1, name


def test_nulls_empty_lists_and_zeros_differ(tmp_path: Path) -> None:
    values = [None, [], [0], [0, 0], [0, 1]]
    games = [{"canonical": [k], "id": [k], "opening": [0], "entry": [0], "member": ["a"]} for k in range(5)]

    def write_lists(name: str, lists: list[list[int] | None]) -> dict[str, list[Path]]:
        batch = pa.Table.from_batches([rows(**game) for game in games]).combine_chunks()
        k = batch.schema.get_field_index("moves")
        column = pa.array(lists, batch.schema.field(k).type)
        pq.write_table(batch.set_column(k, pa.field("moves", column.type), column), tmp_path / name)
        return {"train": [tmp_path / name]}

    found, _ = compare(
        tmp_path, write_lists("old.parquet", values), write_lists("new.parquet", values[1:] + values[:1])
    )
    assert (found.changed, found.same) == (5, 0)


def test_rows_of_data_sets_count_as_games_in_any_order(tmp_path: Path) -> None:
    layout = layout_for("parquet@1")
    batch = random_batch(layout, 50)  # ten games
    write("parquet@1", tmp_path / "old.parquet", layout, batch)
    order = np.random.default_rng(1).permutation(50)
    write("parquet@1", tmp_path / "mixed.parquet", layout, batch.take(order))
    write("parquet@1", tmp_path / "fewer.parquet", layout, batch.slice(0, 42))
    old = {"train": [tmp_path / "old.parquet"]}
    found, _ = compare(tmp_path, old, {"train": [tmp_path / "mixed.parquet"]}, True)
    assert found == Changes("1.0.0", 0, 0, 0, 0, same=10)
    found, listed = compare(tmp_path, old, {"train": [tmp_path / "fewer.parquet"]}, True)
    assert found == Changes("1.0.0", added=0, removed=1, changed=1, moved=0, same=8)
    assert listed[0]["previous_id"] == listed[0]["id"] == batch.game[40]


@pytest.mark.parametrize(
    ("counts", "version"),
    [
        ({"added": 1, "removed": 1}, "2.0.0"),
        ({"changed": 1}, "2.0.0"),
        ({"moved": 1, "added": 4}, "2.0.0"),
        ({"added": 1}, "1.3.0"),
        ({"same": 9}, "1.2.10"),
    ],
)
def test_next_version(counts: dict[str, int], version: str) -> None:
    zero = dict.fromkeys(("added", "removed", "changed", "moved", "same"), 0)
    assert next_version(Changes("1.2.9", **(zero | counts))) == version


@pytest.mark.parametrize(
    "text", ["1", "1.0", "1.0.0.0", "01.0.0", "1.0.-1", "1.0.0-rc1", "v1.0.0", "", "1.0.1234567890"]
)
def test_invalid_versions(text: str) -> None:
    with pytest.raises(RecipeError, match=r"^a version has three numbers"):
        parse_version(text)
    assert parse_version("10.0.1") > parse_version("9.99.99")
