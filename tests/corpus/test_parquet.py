"""Row groups of bounded size, which depend on the rows only."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kifu.corpus import parquet
from kifu.corpus.parquet import TableWriter

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
