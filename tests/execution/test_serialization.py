"""Results as bytes: nothing is lost, and no damage is overlooked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from kifu.errors import FormatError
from kifu.execution import serialization
from kifu.execution.serialization import dump_results, encode, load_results, read_results, write_results


class Pair(NamedTuple):
    left: Any
    right: Any


class Hostile:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("planted"),)


@pytest.fixture(autouse=True)
def _records_of_this_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serialization, "_PACKAGES", {"kifu", __name__})


def test_results_come_back_as_they_were() -> None:
    batch = pa.record_batch({"a": [1, None, 3], "b": ["x", "y", None]})
    results = [
        Pair(np.arange(10_000).reshape(100, 100), np.arange(12, dtype=np.uint8)[::2]),
        {"texts": Counter({"a": 2}), "data": b"x" * 5000, "rows": batch.slice(1), "column": batch.column("b").slice(1)},
        Pair(np.empty((0, 3), np.float32), None),
    ]
    first, second, third = load_results(dump_results(results))
    assert np.array_equal(first.left, results[0].left)
    assert np.array_equal(first.right, results[0].right)
    assert first.left.flags.writeable
    assert second["texts"] == Counter({"a": 2})
    assert second["data"] == results[1]["data"]
    assert second["rows"].equals(batch.slice(1))
    assert second["column"].equals(batch.column("b").slice(1))
    assert third.left.shape == (0, 3)
    assert list(load_results(dump_results([]))) == []


def test_a_slice_takes_no_more_than_its_rows() -> None:
    large = pa.record_batch({"a": np.random.default_rng(1).integers(0, 1 << 60, 100_000)})
    assert sum(map(len, encode(large.slice(5, 10)))) < 2000
    assert sum(map(len, encode(large.column(0).slice(5, 10)))) < 2000


def test_damage_is_detected_before_anything_is_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "results"
    write_results(path, [Pair(np.arange(1000), "text"), Pair(None, list(range(50)))])
    data = path.read_bytes()
    assert len(list(read_results(path))) == 2
    for at in [*range(60), *range(60, len(data), 7), len(data) - 1]:
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        with pytest.raises(FormatError, match="results: damaged: "):
            list(read_results(path))
    for size in range(0, len(data), 11):
        path.write_bytes(data[:size])
        with pytest.raises(FormatError, match="results: damaged: "):
            list(read_results(path))


@pytest.mark.parametrize("hostile", [Hostile(), np.load, write_results, getattr])
def test_planted_results_call_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hostile: Any) -> None:
    monkeypatch.chdir(tmp_path)
    write_results(Path("results"), [[1, hostile]])
    with pytest.raises(FormatError, match="is not part of a result"):
        list(read_results(Path("results")))
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
