"""Parquet files: row groups of bounded size, which depend on the rows only, and damage, which is found."""

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import example_sets
import kifu
from catalogues import GAMES, write_catalogue
from kifu.corpus import parquet
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.parquet import SEAL, TableWriter
from kifu.corpus.query import query
from kifu.errors import KifuError

SCHEMA = pa.schema({"text": pa.string(), "points": pa.list_(pa.uint16()), "number": pa.int64()})
LIMIT = 10_000


def rows(count: int) -> pa.Table:
    rng = random.Random(0)
    lengths = [rng.choice([0, 10, 100, 3000, 20_000]) for _ in range(count)]
    return pa.table(
        {
            "text": ["x" * n for n in lengths],
            "points": [[k] * (n // 7) for k, n in enumerate(lengths)],
            "number": lengths,
        },
        SCHEMA,
    )


@pytest.mark.parametrize("batch", [1, 7, 64, 1000])
def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr(parquet, "_GROUP_BYTES", LIMIT)
    table = rows(300)
    for name, size in (("a", batch), ("b", 50)):
        with TableWriter(tmp_path / name, SCHEMA, group=40) as writer:
            for each in table.to_batches(max_chunksize=size):
                writer.write(each)
            writer.commit({})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    file = pq.ParquetFile(tmp_path / "a")
    groups = [file.read_row_group(k) for k in range(file.num_row_groups)]
    assert pa.concat_tables(groups).equals(table)
    sizes = [[n + n // 7 * 2 for n in group["number"].to_pylist()] for group in groups]
    assert all(len(each) == 1 or sum(each) <= LIMIT for each in sizes)
    assert all(len(a) == 40 or sum(a) + b[0] > LIMIT for a, b in itertools.pairwise(sizes))


def read_catalogue(path: Path) -> object:
    catalogue = open_catalogue(path)
    return pa.Table.from_batches(catalogue.batches()), catalogue.metadata


def read_query(path: Path) -> object:
    with query("SELECT * EXCLUDE catalogue FROM games", str(path)) as result:
        return result.arrow()


def read_examples(path: Path) -> object:
    with kifu.open(path) as data:
        batch = data.read(0, len(data))
        return data.about, [array.tobytes() for array in (batch.planes, *batch.labels.values(), batch.game, batch.ply)]


@pytest.mark.parametrize("read", [read_catalogue, read_query, read_examples])
def test_a_flipped_bit_is_an_error_or_changes_nothing(tmp_path: Path, read: Callable[[Path], object]) -> None:
    path = tmp_path / "games.parquet"
    if read is read_examples:
        layout = example_sets.layout_for("parquet@1")
        example_sets.write("parquet@1", path, layout, example_sets.random_batch(layout, 100))
    else:
        write_catalogue(path, *[GAMES] * 20, about={"read": 60})
    data, expected, rng, errors = path.read_bytes(), read(path), random.Random(5), 0
    for _ in range(70):
        at = rng.randrange(len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
        try:
            assert read(path) == expected
        except KifuError:
            errors += 1
    assert errors > 60


def test_a_file_that_another_program_wrote_has_no_seal(tmp_path: Path) -> None:
    path = write_catalogue(tmp_path / "games.parquet", GAMES)
    copy = tmp_path / "copy.parquet"
    pq.write_table(pq.read_table(path), copy)
    assert path.read_bytes().count(SEAL) == 1
    assert SEAL not in copy.read_bytes()
    assert read_catalogue(copy)[0].equals(read_catalogue(path)[0])
    assert read_query(copy) == read_query(path)
