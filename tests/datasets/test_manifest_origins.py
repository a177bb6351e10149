"""The file of origins beside a manifest: every row, expanded one by one, is found again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.datasets.manifest import ArchiveRows, Manifest, OriginsWriter, read_game_rows, read_origin
from kifu.errors import FormatError

GAMES = st.lists(
    st.tuples(st.integers(0, 2**31 - 1), st.lists(st.integers(0, 400), unique=True, max_size=30).map(sorted)),
    max_size=12,
)
"""[(member, plies of its rows)]"""


def write(path: Path, catalogues: list[list[tuple[int, list[int]]]], at_a_time: int) -> None:
    with OriginsWriter(path) as writer:
        for number, games in enumerate(catalogues):
            for first in range(0, len(games), at_a_time):
                some = games[first : first + at_a_time]
                writer.add(
                    number,
                    np.array([member for member, _ in some], np.int32),
                    np.array([len(plies) for _, plies in some], np.int32),
                    np.array([ply for _, plies in some for ply in plies], np.uint16),
                )
        assert writer.commit().bytes == path.stat().st_size


@given(st.lists(GAMES, max_size=4), st.integers(1, 12))
def test_every_row_is_found(
    tmp_path_factory: pytest.TempPathFactory, catalogues: list[list[tuple[int, list[int]]]], at_a_time: int
) -> None:
    path = tmp_path_factory.mktemp("origins") / "x.manifest.parquet"
    write(path, catalogues, at_a_time)
    expected = [(k, member, ply) for k, games in enumerate(catalogues) for member, plies in games for ply in plies]
    rows = range(len(expected)) if len(expected) < 30 else np.linspace(0, len(expected) - 1, 30).astype(int).tolist()
    assert [read_origin(path, row) for row in rows] == [expected[row] for row in rows]
    for row in (-1, len(expected)):
        with pytest.raises(FormatError, match=f"row {row}|no such row group"):
            read_origin(path, row)
    whole = path.read_bytes()
    write(path, catalogues, 1)
    assert path.read_bytes() == whole
    found = read_game_rows(manifest(catalogues), path.with_name("x"))
    assert list(zip(*(each.tolist() for each in found))) == [
        (k, member, len(plies)) for k, games in enumerate(catalogues) for member, plies in games
    ]


def manifest(catalogues: list[list[tuple[int, list[int]]]]) -> Manifest:
    """Return a manifest of these games; of its other values, only the counts are right."""
    rows = [sum(len(plies) for _, plies in games) for games in catalogues]
    archives = [ArchiveRows(f"A{k}", "", len(games), n) for k, (games, n) in enumerate(zip(catalogues, rows))]
    kept = sum(map(len, catalogues))
    return Manifest("1", {}, "x", "dat2@1", "", "", sum(rows), [], kept, kept, 0, {}, [], [], archives, None)


@pytest.mark.parametrize("other", [[[(5, [3]), (6, [0])]], [[(5, [3, 4])], [(6, [0])]], [[(5, [3, 4])]], []], ids=str)
def test_games_that_the_manifest_does_not_list(tmp_path: Path, other: list[list[tuple[int, list[int]]]]) -> None:
    path = tmp_path / "x.manifest.parquet"
    write(path, [[(5, [3, 4]), (6, [0])]], 2)
    with pytest.raises(FormatError, match=r"x\.manifest\.parquet lists"):
        read_game_rows(manifest(other), tmp_path / "x")


def test_games_with_negative_numbers_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.manifest.parquet"
    write(path, [[(5, [3, 4]), (6, [0])]], 2)
    table = pq.read_table(path)
    at = table.schema.get_field_index("rows")
    pq.write_table(table.set_column(at, table.schema.field(at), [pa.array([4, -1], pa.int32())]), path)
    with pytest.raises(FormatError, match="lists other games"):
        read_game_rows(manifest([[(5, [3, 4]), (6, [0])]]), tmp_path / "x")


def test_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "x.manifest.parquet"
    games = [(k, list(range(k % 5))) for k in range(40_000)]
    write(path, [games], 5000)
    expected = [(0, member, ply) for member, plies in games for ply in plies]
    assert pq.read_metadata(path).num_row_groups == 2
    for row in (0, 1, 65_000, 66_000, len(expected) - 1):
        assert read_origin(path, row) == expected[row]


def test_damage_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.manifest.parquet"
    with pytest.raises(FormatError, match="No such file"):
        read_origin(path, 0)
    write(path, [[(5, [3, 4, 9]), (6, [0])]], 2)
    whole, table = path.read_bytes(), pq.read_table(path)
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with suppress(FormatError):
            read_origin(path, 2)
    lists = pa.array([[1, 2], []], table.schema.field("skip_row").type)
    for name, column in (("skip_row", lists), ("start", pa.array([0, 1])), ("rows", pa.array([2, 1], pa.int32()))):
        at = table.schema.get_field_index(name)
        pq.write_table(table.set_column(at, table.schema.field(at), [column]), path)
        if name != "start":
            with pytest.raises(FormatError, match="lists no game for row 2"):
                read_origin(path, 2)
    pq.write_table(table.drop_columns(["ply"]), path)
    with pytest.raises(FormatError, match="other columns"):
        read_origin(path, 2)
    pq.write_table(table, path, write_statistics=False)
    with pytest.raises(FormatError, match=r"x\.manifest\.parquet"):
        read_origin(path, 2)
