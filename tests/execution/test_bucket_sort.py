"""Bucket sort: no row is lost or changed, whatever fits into memory."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.errors import OutputError
from kifu.execution import bucket_sort
from kifu.execution.bucket_sort import BucketSort, Columns

KEYS = st.one_of(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**33),  # equal in almost all of the bits that are looked at
    st.sampled_from([0, 1, 2**63, 2**64 - 1]),
)


def rows_of(keys: list[int], cuts: list[int]) -> list[Columns]:
    """Return numbered rows with these keys, cut at these numbers."""
    key = np.array(keys, np.uint64)
    number = np.arange(len(keys), dtype=np.int32)
    pairs = np.stack([number, -number], 1)
    bounds = sorted({0, len(keys), *(cut for cut in cuts if cut < len(keys))})
    return [{"hash": key[a:b], "number": number[a:b], "pair": pairs[a:b]} for a, b in pairwise(bounds)]


def sorted_rows(rows: list[Columns], most: int, folder: Path, expected: int) -> list[Columns]:
    with BucketSort("hash", most, folder, expected) as found:
        for some in rows:
            found.add(some)
        return list(found)


def flat(parts: list[Columns], name: str) -> npt.NDArray[Any]:
    return np.concatenate([part[name] for part in parts])


@given(
    st.lists(KEYS, max_size=120), st.lists(st.integers(1, 119), max_size=6), st.integers(1, 130), st.integers(0, 300),
    st.sampled_from([1, 40, 1 << 18]), st.integers(1, 7),
)  # fmt: skip
def test_every_row_is_returned_once_by_range(
    tmp_path_factory: pytest.TempPathFactory,
    keys: list[int],
    cuts: list[int],
    most: int,
    expected: int,
    together: int,
    fan: int,
) -> None:
    folder = tmp_path_factory.mktemp("aside")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_sort, "_BUFFER_BYTES", together)
        patch.setattr(bucket_sort, "_FAN_OUT_BITS", fan)
        found = sorted_rows(rows_of(keys, cuts), most, folder, expected)
    assert not list(folder.iterdir())
    for part in found:
        assert len(part["hash"]) <= most or len(np.unique(part["hash"] >> np.uint64(32))) == 1
        assert np.all(np.diff(part["number"]) > 0)  # as they were added
    for before, after in pairwise(found):
        assert before["hash"].max() < after["hash"].min()
    if found:
        order = flat(found, "number")
        assert sorted(order.tolist()) == list(range(len(keys)))
        assert flat(found, "hash").tolist() == [keys[k] for k in order]
        assert np.array_equal(flat(found, "pair"), np.stack([order, -order], 1))
    assert len(keys) == 0 or found


def test_rows_that_fit_are_not_spilled(tmp_path: Path) -> None:
    rows = rows_of(list(range(100)), [30])
    (whole,) = sorted_rows(rows, 100, tmp_path / "nowhere", 10_000)
    assert whole["number"].tolist() == list(range(100))
    with pytest.raises(OutputError, match=r"cannot spill to .*nowhere: No such file"):
        sorted_rows(rows, 99, tmp_path / "nowhere", 0)


def test_memory_is_bounded_by_the_size_of_a_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most `most` rows are buffered, or as many as are divided at a time."""
    monkeypatch.setattr(bucket_sort, "_BUFFER_BYTES", 10_000)
    rng = np.random.default_rng(1)
    most = 0
    with BucketSort("hash", 1000, tmp_path, 50_000) as found:
        for _ in range(500):
            found.add({"hash": rng.integers(0, 2**64, 100, np.uint64)})
            most = max(most, sum(len(each["hash"]) for each in found._buffer))
        assert most == 1200  # the next hundred are 10,000 bytes
        sizes = [len(part["hash"]) for part in found]
    assert sum(sizes) == 50_000
    assert max(sizes) <= 1000
    assert len(sizes) >= 64


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_sort.tempfile, "TemporaryFile", lambda dir: Path("/dev/full").open("w+b"))  # noqa: SIM115
    rows = rows_of(list(range(0, 2**64, 2**50)), [5000, 10_000])
    with pytest.raises(OutputError, match=f"cannot spill to {tmp_path}: No space left on device"):
        sorted_rows(rows, 100, tmp_path, 0)
