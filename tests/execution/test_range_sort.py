"""Out-of-core sort: the order of a stable sort by key, whatever fits into memory, and no row lost or changed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.errors import FormatError, OutputError
from kifu.execution import range_sort
from kifu.execution.executor import Executor
from kifu.execution.range_sort import (
    Columns,
    RangeSort,
    collect_ranges,
    fan_out,
    load_range,
    spill_folder,
    split_ranges,
    write_ranges,
)

KEYS = st.one_of(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**33),  # equal in almost all of the bits that are looked at
    st.sampled_from([0, 1, 2**63, 2**64 - 1]),
)


def rows_of(keys: list[int], first: int) -> Columns:
    number = np.arange(first, first + len(keys), dtype=np.int32)
    return {"key": np.array(keys, np.uint64), "number": number, "pair": np.stack([number, -number], 1)}


def sort(items: list[list[int]], max_rows: int, jobs: int, folder: Path) -> list[Columns]:
    """Return the rows of each range, in the order in which they were written."""
    total = sum(map(len, items))
    bits = fan_out(total, max_rows)
    starts = np.cumsum([0, *map(len, items)]).tolist()
    with Executor(jobs) as executor, spill_folder(folder / "set") as spill:
        files = [write_ranges(spill, rows_of(keys, at), "key", 0, bits) for keys, at in zip(items, starts) if keys]
        ranges = split_ranges(executor, spill, collect_ranges(files, bits), "key", max_rows)
        assert sum(each.rows for each in ranges) == total
        return [load_range(spill, each) for each in ranges]


@given(st.lists(st.lists(KEYS, max_size=40), max_size=8), st.integers(1, 130), st.integers(1, 2), st.integers(1, 8))
def test_the_order_is_that_of_a_stable_sort(
    tmp_path_factory: pytest.TempPathFactory, items: list[list[int]], max_rows: int, jobs: int, bits: int
) -> None:
    folder = tmp_path_factory.mktemp("sort")
    with mock.patch.object(range_sort, "_FAN_OUT_BITS", bits):
        parts = sort(items, max_rows, jobs, folder)
    assert not list(folder.iterdir())
    keys = [key for item in items for key in item]
    expected = sorted(range(len(keys)), key=keys.__getitem__)  # the slow twin; Python sorts stably
    found = [number for part in parts for number in part["number"][np.argsort(part["key"], kind="stable")].tolist()]
    assert found == expected
    for part in parts:
        assert [keys[k] for k in part["number"]] == part["key"].tolist()
        assert np.array_equal(part["pair"], np.stack([part["number"], -part["number"]], 1))
        assert len(part["key"]) <= max_rows or len(np.unique(part["key"] >> np.uint64(32))) == 1


def test_few_ranges_are_divided_again() -> None:
    for rows in (10, 100, 1000, 20_000):
        assert rows / (1 << fan_out(rows, 100)) <= 80
    assert fan_out(10**12, 100) == 8


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    file = write_ranges(tmp_path, rows_of(list(range(0, 2**64, 2**58)), 0), "key", 0, 2)
    (first, *_) = collect_ranges([file], 2)
    path = tmp_path / file.name
    whole = path.read_bytes()
    for damaged in (whole[:20], whole[:60], whole[:45] + b"\xff" + whole[46:], whole[:8], b""):
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=r"spill: damaged: .*; remove .* and try again$") as caught:
            load_range(tmp_path, first)
        assert "\n" not in str(caught.value)
    path.unlink()
    with pytest.raises(FormatError, match=r"spill: damaged: .*No such file"):
        load_range(tmp_path, first)
    file = write_ranges(tmp_path, rows_of([5, 6], 0), "key", 0, 2)
    for rows in (1, 3):
        with pytest.raises(FormatError, match=f"do not have {rows} rows of range 0"):
            load_range(tmp_path, collect_ranges([file], 2)[0]._replace(rows=rows))


def test_a_directory_that_is_gone_or_full(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"cannot spill to .*gone: No such file"):
        write_ranges(tmp_path / "gone", rows_of([1], 0), "key", 0, 1)
    full = mock.patch.object(range_sort, "_encode", side_effect=OSError(28, "No space left on device"))
    with full, pytest.raises(OutputError, match="No space left on device"):
        write_ranges(tmp_path, rows_of([1], 0), "key", 0, 1)
    assert not list(tmp_path.iterdir())


def test_range_files_are_removed_and_others_stay(tmp_path: Path) -> None:
    folder = tmp_path / ".set.work"
    folder.mkdir()
    (folder / "notes.txt").touch()
    write_ranges(folder, rows_of([1], 0), "key", 0, 1)  # of a killed run
    with pytest.raises(KeyboardInterrupt), spill_folder(tmp_path / "set") as spill:  # noqa: PT012
        assert [file.name for file in spill.iterdir()] == ["notes.txt"]
        write_ranges(spill, rows_of([1], 0), "key", 0, 1)
        raise KeyboardInterrupt
    assert [file.name for file in folder.iterdir()] == ["notes.txt"]
    (folder / "notes.txt").unlink()
    with spill_folder(tmp_path / "set"):
        pass
    assert not folder.exists()


# In one process


def cut_rows(keys: list[int], cuts: list[int]) -> list[Columns]:
    key = np.array(keys, np.uint64)
    number = np.arange(len(keys), dtype=np.int32)
    pairs = np.stack([number, -number], 1)
    bounds = sorted({0, len(keys), *(cut for cut in cuts if cut < len(keys))})
    return [{"hash": key[a:b], "number": number[a:b], "pair": pairs[a:b]} for a, b in pairwise(bounds)]


def sorted_rows(rows: list[Columns], max_rows: int, folder: Path, expected: int) -> list[Columns]:
    with RangeSort("hash", max_rows, folder, expected) as found:
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
    buffer: int,
    bits: int,
) -> None:
    folder = tmp_path_factory.mktemp("aside")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_sort, "_BUFFER_BYTES", buffer)
        patch.setattr(range_sort, "_FAN_OUT_BITS", bits)
        found = sorted_rows(cut_rows(keys, cuts), most, folder, expected)
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
    rows = cut_rows(list(range(100)), [30])
    (whole,) = sorted_rows(rows, 100, tmp_path / "nowhere", 10_000)
    assert whole["number"].tolist() == list(range(100))
    with pytest.raises(OutputError, match=r"cannot spill to .*nowhere: No such file"):
        sorted_rows(rows, 99, tmp_path / "nowhere", 0)


def test_memory_is_bounded_by_the_size_of_a_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most `most` rows are buffered, or as many as are divided at a time."""
    monkeypatch.setattr(range_sort, "_BUFFER_BYTES", 10_000)
    rng = np.random.default_rng(1)
    most = 0
    with RangeSort("hash", 1000, tmp_path, 50_000) as found:
        for _ in range(500):
            found.add({"hash": rng.integers(0, 2**64, 100, np.uint64)})
            most = max(most, sum(len(each["hash"]) for each in found._buffer))
        assert most == 1200  # the next hundred are 10,000 bytes
        sizes = [len(part["hash"]) for part in found]
    assert sum(sizes) == 50_000
    assert max(sizes) <= 1000
    assert len(sizes) >= 64


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_sort.tempfile, "TemporaryFile", lambda dir: Path("/dev/full").open("w+b"))  # noqa: SIM115
    rows = cut_rows(list(range(0, 2**64, 2**50)), [5000, 10_000])
    with pytest.raises(OutputError, match=f"cannot spill to {tmp_path}: No space left on device"):
        sorted_rows(rows, 100, tmp_path, 0)
