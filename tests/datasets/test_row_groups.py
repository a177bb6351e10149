"""Row groups that are encoded one by one make the file that pyarrow writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.datasets.parquet import MAGIC, _read, _write, encode_row_group, file_footer, place_row_group

OPTIONS: dict[str, Any] = {"compression": "zstd", "compression_level": 3, "use_dictionary": False}


def table_of(rows: int, columns: int) -> pa.Table:
    rng = np.random.default_rng(rows)
    names = [f"column {k}" for k in range(columns)]
    return pa.table({name: rng.integers(0, 9, rows).astype(np.int16) for name in names} | {"z": [b"x" * 7] * rows})


@pytest.mark.parametrize("options", [{}, {"use_dictionary": True}, {"write_statistics": ["z"]}])
@pytest.mark.parametrize(
    ("rows", "size", "columns"), [(0, 5, 1), (7, 5, 1), (100, 5, 20), (5000, 4000, 3), (300, 1, 2)]
)
def test_the_file_is_the_one_of_pyarrow(rows: int, size: int, columns: int, options: Any, tmp_path: Path) -> None:
    table, about = table_of(rows, columns), {"about": {"title": "ö", "numbers": [1, 2]}}
    schema = table.schema.with_metadata({b"some": b"metadata"})
    with pq.ParquetWriter(tmp_path / "theirs", schema, **OPTIONS | options) as writer:
        for at in range(0, rows, size):
            writer.write_table(table.slice(at, size), row_group_size=size)
        writer.add_key_value_metadata({"about": '{"title": "ö", "numbers": [1, 2]}'})
    ours, groups = bytearray(MAGIC), list[bytes]()
    for at in range(0, rows, size):
        group = encode_row_group(table.slice(at, size), **OPTIONS | options)
        groups.append(place_row_group(group, len(ours)))
        ours += group.pages.tobytes()
    ours += file_footer(schema, groups, rows, about, **OPTIONS | options)
    assert bytes(ours) == (tmp_path / "theirs").read_bytes()
    assert pq.read_table(pa.BufferReader(ours)).equals(table)


VALUES = st.recursive(
    st.one_of(
        st.tuples(st.just(6), st.integers(-(2**63), 2**63 - 1)),
        st.tuples(st.just(8), st.binary(max_size=300)),
        st.tuples(st.sampled_from([1, 2]), st.none()),
        st.tuples(st.just(3), st.integers(0, 255)),
        st.tuples(st.just(7), st.binary(min_size=8, max_size=8)),
        st.tuples(st.just(9), st.tuples(st.just(5), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40))),
    ),
    lambda inner: st.one_of(
        st.tuples(st.just(12), st.dictionaries(st.integers(1, 100), inner, max_size=5)),
        st.tuples(
            st.just(9),
            st.tuples(st.just(12), st.lists(st.dictionaries(st.integers(1, 9), inner, max_size=3), max_size=20)),
        ),
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.integers(1, 2000), VALUES, max_size=6))
def test_structures_are_read_as_written(fields: dict[int, tuple[int, Any]]) -> None:
    data = _write(fields, 12)
    assert _read(data, 0, 12) == (fields, len(data))
    assert _write(_read(data, 0, 12)[0], 12) == data


def test_unknown_types_are_reported() -> None:
    with pytest.raises(ValueError, match="type 13"):
        _read(bytes([0x1D, 0]), 0, 12)
