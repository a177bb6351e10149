"""Tests of index files: their content, damage, and what is rejected."""

from __future__ import annotations

import json
import os
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogues import rows, write_catalogue
from drawn_games import OneGame, flat, games, one_game
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.schema import PLAYED_COLUMNS, move_arrays
from kifu.errors import FormatError
from kifu.point import MAX_SIZE, WHITE_BIT
from kifu.search import build
from kifu.search.build import build_index
from kifu.search.continuations import INFO_COLUMNS, game_info
from kifu.search.index import SearchIndex, index_path, open_index, with_checksums
from kifu.search.positions import entry_layout, pack_positions, unpack_entries
from kifu.search.traces import trace_games

SIZES = st.one_of(st.tuples(st.integers(1, 5), st.integers(1, 5)), st.sampled_from([(19, 19), (25, 25)]))
GAMES = [
    OneGame(9, 9, [40, 41 | WHITE_BIT, 39, 81 | WHITE_BIT]),
    OneGame(9, 9, []),
    OneGame(5, 7, [35] * 70),
    OneGame(9, 9, [40, 39 | WHITE_BIT], ((0, 3), (1, 5 | WHITE_BIT))),
    OneGame(25, 25, [0, 1 | WHITE_BIT, 600, 25 | WHITE_BIT]),
]


def write(path: Path, all_games, **columns):
    arrays = flat(all_games)
    batch = rows(
        width=arrays.width,
        height=arrays.height,
        moves=[game.moves for game in all_games],
        setup=[[word for _, word in game.setup] for game in all_games],
        setup_ply=[[ply for ply, _ in game.setup] for game in all_games],
        **columns,
    )
    return write_catalogue(path, batch)


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    years, winners = [2001, None, 1846, -7, 2020], ["black", None, "draw", "white", "white"]
    path = write(
        tmp_path / "a.parquet", GAMES, drop=[None, None, None, "ko", None], year=years, winner=winners,
        black_rating=[None, 1.0, 2.0, 3.0, 4.0],
    )  # fmt: skip
    build_index(path, jobs=1)
    return path


def check(path: Path, plies: int) -> SearchIndex:
    index = open_index(path)
    (batch,) = open_catalogue(path).batches((*PLAYED_COLUMNS, *INFO_COLUMNS, "drop"))
    arrays, kept = move_arrays(batch), batch.column("drop").is_null().to_numpy(zero_copy_only=False)
    expected = trace_games(arrays, kept)
    found = index.traces(arrays)
    assert {name: np.array_equal(getattr(found, name), getattr(expected, name)) for name in found._fields} == (
        dict.fromkeys(found._fields, True)
    )
    info = game_info(batch)
    for name, values in index.info()._asdict().items():
        assert np.array_equal(values, getattr(info, name), equal_nan=name == "rating")
    layout = entry_layout(len(batch), plies, MAX_SIZE**2)
    hashes, packed = pack_positions(arrays, kept, expected, plies, layout)
    fields = np.array(unpack_entries(packed, layout)).T
    for key in np.unique(hashes):
        entries = index.lookup(int(key), 625)
        assert np.array(entries).T.tolist() == fields[hashes == key].tolist()
    assert index.header.entries == len(hashes)
    assert [len(field) for field in index.lookup(0x123456789ABCDEF0, 625)] == [0] * 5
    return index


@pytest.mark.slow
@settings(max_examples=12)
@given(st.lists(games(SIZES).map(lambda drawn: one_game(*drawn)), min_size=1, max_size=5), st.integers(1, 70))
def test_an_index_holds_positions_traces_and_results(tmp_path_factory, all_games, plies):
    path = write(tmp_path_factory.mktemp("drawn") / "a.parquet", all_games)
    report = build_index(path, plies=plies, jobs=1)
    index = check(path, plies)
    assert (report.indexed, report.games, report.positions) == (1, len(all_games), index.header.entries)
    assert report.bytes == index_path(path).stat().st_size


@pytest.mark.nojit
def test_any_catalogue_can_be_indexed(catalogue: Path) -> None:
    index = check(catalogue, 60)
    assert index.header.entries == 5 + 1 + 60 + 0 + 5
    assert index.header.words == 10


@pytest.mark.parametrize("all_games", [[], [OneGame(19, 19, [])], GAMES[:1] * 3])
@pytest.mark.parametrize("drop", [None, "ko"])
def test_empty_and_dropped_catalogues(tmp_path: Path, all_games, drop) -> None:
    path = tmp_path / "a.parquet"
    if all_games:
        write(path, all_games, drop=[drop] * len(all_games))
    else:
        write_catalogue(path)
    build_index(path, jobs=1)
    if all_games:
        check(path, 60)
    assert open_index(path).header.rows == len(all_games)


@pytest.mark.slow
@pytest.mark.parametrize("entries", [100, 10**6])
def test_buckets_are_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    """All games share three positions, which have a range each if there are few entries in one."""
    monkeypatch.setattr(build, "_SMALL_BUCKET", 8)
    monkeypatch.setattr(build, "_RANGE_ENTRIES", entries)
    rng = np.random.default_rng(5)
    some = [OneGame(9, 9, [0, 80 | WHITE_BIT, *rng.permutation(np.arange(2, 70)).tolist()]) for _ in range(120)]
    path = write(tmp_path / "a.parquet", some)
    build_index(path, jobs=1)
    index = check(path, 60)
    buckets, entries = index.read("buckets"), index.read("entries")
    assert (buckets[0], buckets[-1]) == (0, len(entries))
    for start, stop in pairwise(buckets):
        assert np.all(entries[start:stop][1:] > entries[start:stop][:-1])
    assert 20 < np.mean(np.diff(buckets)) <= 64 < np.diff(buckets).max()


def test_a_missing_index_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", GAMES)
    with pytest.raises(FormatError, match=r"a\.parquet has no index; searching makes it$"):
        open_index(path)


def test_the_index_of_another_catalogue_is_rejected(catalogue: Path) -> None:
    other = write(catalogue.with_name("b.parquet"), GAMES[::-1])
    shutil.copy(index_path(catalogue), index_path(other))
    with pytest.raises(FormatError, match="is the index of another catalogue"):
        open_index(other)


def test_truncated_and_longer_files_are_rejected(catalogue: Path) -> None:
    path = index_path(catalogue)
    data = path.read_bytes()
    for size in (0, 1, 17, 54, 4095, 4096, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(FormatError, match=r"truncated|not a search index|version"):
            open_index(catalogue)
    path.write_bytes(data + b"\0")
    with pytest.raises(FormatError, match="truncated or damaged"):
        open_index(catalogue)


def test_every_bit_of_the_header_is_checked(catalogue: Path) -> None:
    path = index_path(catalogue)
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[20:22], "little")
    for at in range(54 + length):
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        with pytest.raises(FormatError):
            open_index(catalogue)
        data[at] ^= 1 << at % 8


def test_another_version_is_named(catalogue: Path) -> None:
    data = bytearray(index_path(catalogue).read_bytes())
    data[18] = 4
    index_path(catalogue).write_bytes(data)
    with pytest.raises(FormatError, match=r"version 4; this kifu reads version 3; remove it$"):
        open_index(catalogue)


def with_header(path: Path, **changes) -> None:
    data = path.read_bytes()
    text = data[54 : 54 + int.from_bytes(data[20:22], "little")]
    text = json.dumps(json.loads(text) | changes).encode()
    checked = data[18:20] + len(text).to_bytes(2, "little")
    header = data[:18] + checked + blake3(checked + text).digest() + text
    path.write_bytes(header.ljust(4096, b"\0") + data[4096:])


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 6}, {"rows": -1}, {"rows": 2**31 - 1}, {"entries": 99}, {"entries": 2**48 - 1}, {"captures": 10**9},
        {"words": 6}, {"words": 2**40}, {"plies": 0}, {"plies": 1000}, {"plies": 1.5}, {"x": 1}, {"parquet": None},
    ],
)  # fmt: skip
def test_invalid_headers_are_rejected(catalogue: Path, changes) -> None:
    with_header(index_path(catalogue), **changes)
    with pytest.raises(FormatError, match=r"invalid header|truncated or damaged"):
        open_index(catalogue)


def array_start(index: SearchIndex, name: str) -> int:
    start = 4096
    for other in index.header.arrays():
        if other == name:
            return start
        start += -(-index.read(other).nbytes // 64) * 64
    raise KeyError(name)


def write_arrays(catalogue: Path, data: bytearray) -> None:
    """Write an index with the right checksums, whatever its arrays are."""
    blocks = (len(data) - 4096) // (65536 + 4) + 1
    end = len(data) - 4 * (blocks + 1)
    index_path(catalogue).write_bytes(data[:4096] + b"".join(with_checksums([bytes(data[4096:end])])))


@pytest.mark.parametrize(
    ("name", "element", "value"),
    [
        ("capture_offset", 0, -1), ("capture_offset", 5, 1 << 40), ("capture_offset", 2, 1 << 62), ("plies", 1, 1),
        ("winner", 0, 3), ("buckets", 0, 1 << 40), ("buckets", 1, -1),
    ],
)  # fmt: skip
def test_values_out_of_range_are_found_when_they_are_read(catalogue: Path, name: str, element: int, value: int) -> None:
    index = open_index(catalogue)
    dtype, _ = index.header.arrays()[name]
    at = array_start(index, name) + element * dtype.itemsize
    data = bytearray(index_path(catalogue).read_bytes())
    data[at : at + dtype.itemsize] = value.to_bytes(dtype.itemsize, "little", signed=value < 0)
    write_arrays(catalogue, data)
    index = open_index(catalogue)
    arrays = move_arrays(next(open_catalogue(catalogue).batches(PLAYED_COLUMNS)))
    with pytest.raises(FormatError, match=r"is damaged: its .* out of range; remove it and search again"):
        _ = index.traces(arrays), index.info(), [index.lookup(k << 56, 625) for k in range(256)]


def test_entries_out_of_range_are_found(catalogue: Path) -> None:
    index = open_index(catalogue)
    arrays = move_arrays(next(open_catalogue(catalogue).batches(PLAYED_COLUMNS)))
    layout = entry_layout(5, 60, 625)
    hashes, _ = pack_positions(arrays, np.ones(5, np.bool_), index.traces(arrays), 60, layout)
    with pytest.raises(FormatError, match="its positions are out of range"):
        index.lookup(int(hashes[-2]), 5)  # the next move of the game on 25 x 25
    start, data = array_start(index, "entries"), bytearray(index_path(catalogue).read_bytes())
    for at in range(index.header.entries):  # row 7 of 5
        data[start + 8 * at + 2] |= 7 << 4
        data[start + 8 * at + 2] &= 0x7F
    write_arrays(catalogue, data)
    assert any(found_damage(open_index(catalogue), int(key)) for key in hashes)


def found_damage(index: SearchIndex, key: int) -> bool:
    try:
        index.lookup(key, 625)
    except FormatError:
        return True
    return False


def contents(catalogue: Path) -> list[bytes]:
    index = open_index(catalogue)
    arrays = move_arrays(next(open_catalogue(catalogue).batches(PLAYED_COLUMNS)))
    looked_up = [index.packed_entries(k << 56) for k in range(256)]
    return [values.tobytes() for values in (*index.traces(arrays), *index.info(), index.late_stones, *looked_up)]


@pytest.mark.slow
def test_every_flipped_bit_is_found(catalogue: Path) -> None:
    path = index_path(catalogue)
    data = path.read_bytes()
    assert contents(catalogue)
    read = [*range(54 + int.from_bytes(data[20:22], "little")), *range(4096, len(data))]  # zeros follow the header
    rng = np.random.default_rng(3)
    for at in rng.choice(read, 300).tolist():
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :])
        with pytest.raises(FormatError):
            contents(catalogue)


def test_an_index_truncated_while_it_is_open_is_an_error(catalogue: Path) -> None:
    index = open_index(catalogue)
    os.truncate(index_path(catalogue), 4096)
    with pytest.raises(FormatError, match=r"\.search was truncated; remove it and search again$"):
        index.info()
