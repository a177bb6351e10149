"""Sets of ids, and rows with equal ids in catalogues, in bounded memory."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogues import rows, write_catalogue
from kifu.corpus import duplicates
from kifu.corpus.duplicates import IdSet, exact_duplicates
from kifu.errors import FormatError
from kifu.execution.executor import Executor
from serializing import SerializingExecutor

parts_of_ids = st.lists(st.lists(st.integers(0, 30), max_size=40), max_size=8)


@pytest.mark.nojit
@given(parts_of_ids, st.none() | st.integers(0, 100))
def test_id_set(parts: list[list[int]], most: int | None) -> None:
    """Once it is full, it still finds its ids."""
    ids, seen, full = IdSet(most), set[int](), False
    for part in parts:
        new = ids.add(np.array(part, np.uint64))
        full |= most is not None and len(seen) + len(part) > most
        assert ids.full == full
        if full:
            assert new.tolist() == [key not in seen for key in part]
        else:
            assert new.tolist() == [key not in seen and key not in part[:k] for k, key in enumerate(part)]
            seen |= set(part)
        assert len(ids) == len(seen)
        assert most is None or len(ids) <= most


def test_id_set_grows() -> None:
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 2**64, 300_000, np.uint64)
    ids = IdSet()
    for part in np.array_split(keys, 7):
        assert ids.add(part).all()
    assert len(ids._table) * 8 <= 22 * len(keys)
    assert not ids.add(keys[::-3]).any()
    assert len(ids) == len(keys)


def test_crafted_ids_do_not_collide() -> None:
    """Were the table's slots the ids' own low bits, this would take hours."""
    keys = np.arange(1, 300_001, dtype=np.uint64) << np.uint64(40)
    assert IdSet().add(keys).all()


@pytest.mark.parametrize("most", [6, 50, 10**6])
def test_exact_duplicates_equal_those_of_a_python_set(tmp_path: Path, most: int) -> None:
    rng = np.random.default_rng(most)
    paths, ids, drops = [], [], []
    for number in range(3):
        some = rng.integers(0, 2**64, 60, np.uint64)[rng.integers(0, 60, 80)].tolist()
        some[0] = ids[0] if ids else 0
        dropped = [str(rng.choice(["too_long", "ko"])) if rng.random() < 0.2 else None for _ in some]
        paths.append(write_catalogue(tmp_path / f"{number}.parquet", rows(id=some, drop=dropped)))
        ids += some
        drops += dropped
    seen, expected = set(), []
    for k, (key, drop) in enumerate(zip(ids, drops)):
        if drop is None:
            expected += [k] if key in seen else []
            seen.add(key)
    assert len(expected) > 20
    assert exact_duplicates(paths, max_ids=most).tolist() == expected
    with Executor(2) as threads, SerializingExecutor() as processes:
        for executor in (threads, processes):
            assert exact_duplicates(paths, executor, max_ids=most).tolist() == expected


def test_id_table_respects_its_maximum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the ids are: here all begin with the same bits."""
    path = write_catalogue(tmp_path / "a.parquet", rows(id=range(40_000)))
    tables = []

    class Watched(IdSet):
        def add(self, ids):
            new = super().add(ids)
            tables.append(len(self))
            return new

    monkeypatch.setattr(duplicates, "IdSet", Watched)
    assert len(exact_duplicates([path], max_ids=4_000)) == 0
    assert max(tables) < 5_000


def test_exact_duplicates_of_empty_input(tmp_path: Path) -> None:
    assert exact_duplicates([]).tolist() == []
    assert exact_duplicates([write_catalogue(tmp_path / "a.parquet", rows(id=[]))]).tolist() == []
    with pytest.raises(FormatError, match="not a catalogue"):
        exact_duplicates([Path(__file__)])
