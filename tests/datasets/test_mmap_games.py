"""Rows of catalogues in memory-mapped temporary files."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogues import rows, write_catalogue
from kifu.corpus.schema import SCHEMA, game_arrays, move_arrays
from kifu.datasets import mmap_games
from kifu.datasets.filter import PositionFilter
from kifu.datasets.mmap_games import COLUMNS, read_games, select_rows, spill
from kifu.datasets.sources import ExampleSpec
from kifu.errors import OutputError, SourceError

GAMES = [[1, 2, 3], [], [361], [7] * 300, [5, 6], [8, 9]]
"""The second game has no moves, the fifth is dropped, the sixth has another board size."""


def write(path):
    drop, width = [None] * 4 + ["ko", None], [19] * 5 + [13]
    batch = rows(moves=GAMES, drop=drop, width=width, height=width, black=list("abcdef"))
    return write_catalogue(path, batch)


def test_rows_equal_those_of_the_catalogues(tmp_path):
    paths = [write(tmp_path / name) for name in ("one.parquet", "two.parquet")]
    found = read_games(paths, (19, 19), False, None, (*COLUMNS, "black"))
    assert found.schema.names == [*COLUMNS, "black"]
    assert found["moves"].to_pylist() == 2 * [GAMES[0], GAMES[2], GAMES[3]]
    assert found["black"].to_pylist() == 2 * ["a", "c", "d"]
    games = game_arrays(found)
    assert games.move_offset.tolist() == [0, 3, 4, 304, 307, 308, 608]
    assert games.moves[304:308].tolist() == [1, 2, 3, 361]
    padded = read_games(paths[:1], (19, 19), True, None, ("moves", "black"))
    assert padded.to_pylist() == [{"moves": GAMES[k], "black": "abcdef"[k]} for k in (0, 2, 3, 5)]


EVALUATION = dict.fromkeys(("win", "loss", "score"), st.floats(width=32, allow_nan=False))
EVALUATION |= {"visits": st.integers(0, 2**31 - 1)}

# Columns of each type of the catalogue, with and without nulls.
TYPED = {
    "id": st.integers(0, 2**64 - 1),
    "width": st.integers(0, 255),
    "handicap": st.none() | st.integers(-(2**15), 2**15 - 1),
    "komi": st.none() | st.floats(width=32, allow_nan=False),
    "black_pro": st.none() | st.booleans(),
    "white_program": st.booleans(),
    "ending": st.text(max_size=3),
    "black": st.none() | st.text(max_size=3),
    "moves": st.lists(st.integers(0, 2**16 - 1), max_size=3),
    "territory": st.none() | st.lists(st.integers(0, 2**16 - 1), max_size=3),
    "move_seconds": st.none() | st.lists(st.none() | st.floats(width=32, allow_nan=False), max_size=3),
    "evaluations": st.none() | st.lists(st.none() | st.fixed_dictionaries(EVALUATION), max_size=3),
}


@pytest.mark.slow
@given(st.lists(st.fixed_dictionaries(TYPED), max_size=20), st.lists(st.integers(0, 20), max_size=4), st.data())
def test_spilled_rows_equal_the_originals(reported, cuts, data):
    schema = pa.schema([SCHEMA.field(name) for name in TYPED])
    batch = pa.RecordBatch.from_pylist(reported, schema)
    bounds = sorted({0, len(batch), *(min(cut, len(batch)) for cut in cuts)})
    found = spill((batch.slice(a, b - a) for a, b in pairwise(bounds)), tuple(TYPED))
    found.validate(full=True)
    assert found.to_pylist() == reported
    which = data.draw(st.lists(st.booleans(), min_size=len(reported), max_size=len(reported)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mmap_games, "_ROWS", 3)
        some = select_rows(found, np.array(which, np.bool_))
    some.validate(full=True)
    assert some.to_pylist() == [row for row, stays in zip(reported, which) if stays]


def test_kernels_use_spilled_rows_without_copying(tmp_path):
    found = read_games([write(tmp_path / "games.parquet")], (19, 19), False, None)
    games = move_arrays(found)
    arrow = [found[name].buffers()[1] for name in ("width", "height", "root_setup")]
    arrow += [buffer for name in ("moves", "setup") for buffer in (found[name].buffers()[1], found[name].buffers()[3])]
    arrays = games.width, games.height, games.root_setup, games.move_offset, games.moves, games.setup_offset
    assert [array.ctypes.data for array in arrays] == [buffer.address for buffer in arrow[:6]]
    flags = [getattr(games, field.name).flags for field in fields(games)]
    assert all(flag.writeable and flag.c_contiguous for flag in flags)  # of one type to the compiler


RATINGS = {"black_rating", "white_rating"}


@pytest.mark.parametrize(
    ("planes", "labels", "choice", "more"),
    [
        ("seven", None, PositionFilter(), set()),
        ("seven", ("move", "next3", "ply"), PositionFilter(per_game=3), set()),
        ("seven", ("move", "result"), PositionFilter(), {"winner"}),
        ("seven", ("ownership", "komi"), PositionFilter(), {"territory", "komi"}),
        ("seven", ("ranks",), PositionFilter(), RATINGS),
        ("seven", ("margin",), PositionFilter(), {"winner", "margin"}),
        ("seven", ("seconds",), PositionFilter(), {"move_seconds"}),
        ("seven", ("evaluation",), PositionFilter(), {"evaluations"}),
        ("seven", None, PositionFilter(rank_weights={"1d": 1}), RATINGS),
        ("own+own_dan", None, PositionFilter(), RATINGS),
        ("katago22", None, PositionFilter(), {"rules", "komi", "komi_text", "handicap"}),
    ],
)
def test_only_needed_columns_are_read(planes, labels, choice, more):
    games = {"id", "n_legal", "width", "height", "setup", "setup_ply", "root_setup", "moves"}
    found = ExampleSpec(planes, labels=labels, filter=choice).columns()
    assert len(found) == len({*found})
    assert {*found} == games | more


def test_games_without_moves_are_skipped(tmp_path):
    path = write_catalogue(tmp_path / "none.parquet", rows(moves=[[], []]))
    with pytest.raises(SourceError, match=r"there is no game on a 19 x 19 board in .*none\.parquet"):
        read_games([path], (19, 19), False, None)


@pytest.mark.parametrize("name", ["moves", "black"])
def test_more_than_2_gb(name):
    """A hole in the file stands for a game of 2**31 moves at A1, or a name of 2**31 zero bytes."""
    values = {"moves": [[1, 2], [3]], "black": ["one", "two"]}[name]
    with ExitStack() as files:
        column = mmap_games._ColumnWriter(SCHEMA.field(name), files)
        column._rows, column._end = 1, 2**31
        column._ends.append(np.array([2**31]))
        values_of = column._parts[0] if name == "moves" else column
        values_of._values._file.seek(2**31 * values_of._values._dtype.itemsize)
        if name == "moves":
            values_of._rows = 2**31
        if column._valid is not None:
            column._valid.append(np.ones(1, np.bool_))
        column.append(rows(**{name: values})[name])
        found = column.array()
    assert len(found) == 3
    assert found.slice(1).to_pylist() == values


def test_a_full_disk_is_reported(tmp_path, monkeypatch):
    path = write(tmp_path / "games.parquet")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(mmap, "mmap", full)
    with pytest.raises(OutputError, match=r"^cannot write games to .*: No space left on device$"):
        read_games([path], (19, 19), False, None)


# Prints the peak of anonymous memory in kB while a loader is made and the first batch is rendered.
OWN = """
import sys, threading
import kifu

def own():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon:"))

def watch():
    while not done.wait(0.001):
        seen.append(own())

seen, done = [], threading.Event()
watcher = threading.Thread(target=watch)
watcher.start()
config = kifu.LoaderConfig(jobs=1, window=16_384, memory=1 << 20)
selected = kifu.PositionFilter(rank_weights={"?": 1})
loader = kifu.load(sys.argv[1], "seven", labels=("move", "result"), filter=selected, config=config)
running = iter(loader)
next(running)
done.set()
watcher.join()
print(max(*seen, own()))
running.close()
"""


@pytest.mark.subprocess
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_memory_hardly_grows_with_the_games(tmp_path):
    """Only the order of an epoch grows: 20 bytes per game, as much while it is made, and one bit per move."""
    group = 32_768
    moves = [[(7 * k % 361) | (k % 2) << 15 for k in range(first, first + 8)] for first in range(16)]
    batch = rows(moves=moves * (group // 16), setup=[[3]] * group, setup_ply=[[0]] * group, winner=["black"] * group)
    environment = {"ARROW_DEFAULT_MEMORY_POOL": "system"} | os.environ  # as the command line has it
    own = []
    for times in (2, 12):
        path = write_catalogue(tmp_path / f"{times}.parquet", *[batch] * times)
        command = [sys.executable, "-c", OWN, str(path)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
        own.append(int(done.stdout) * 1024)
    assert (own[1] - own[0]) / (10 * group) < 64
