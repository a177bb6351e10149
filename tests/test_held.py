"""The games that a loader holds: rows of catalogues, whose moves lie in a file that is mapped."""

from __future__ import annotations

import errno
import mmap
import os

import numpy as np
import pytest

from catalogues import rows, write_catalogue
from kifu.corpus.catalogue import games_of
from kifu.datasets import held
from kifu.datasets.held import COLUMNS, read_games
from kifu.errors import OutputError, SourceError

GAMES = [[1, 2, 3], [], [361], [7] * 300, [5, 6], [8, 9]]
"""The second has nothing to learn from, the fifth is set aside, the sixth is of another size."""


def write(path):
    drop, width = [None] * 4 + ["ko", None], [19] * 5 + [13]
    batch = rows(moves=GAMES, drop=drop, width=width, height=width, black=list("abcdef"))
    return write_catalogue(path, batch)


def test_rows_are_those_of_the_catalogues(tmp_path):
    paths = [write(tmp_path / name) for name in ("one.parquet", "two.parquet")]
    found = read_games(paths, (19, 19), False, None, ("black",))
    assert found.schema.names == [*COLUMNS, "black"]
    assert found["moves"].to_pylist() == 2 * [GAMES[0], GAMES[2], GAMES[3]]
    assert found["black"].to_pylist() == 2 * ["a", "c", "d"]
    games = games_of(found)
    assert games.move_offset.tolist() == [0, 3, 4, 304, 307, 308, 608]
    assert games.moves[304:308].tolist() == [1, 2, 3, 361]
    padded = read_games(paths[:1], (19, 19), True, None)
    assert padded["moves"].to_pylist() == [GAMES[0], GAMES[2], GAMES[3], GAMES[5]]


def test_games_without_moves_are_none(tmp_path):
    path = write_catalogue(tmp_path / "none.parquet", rows(moves=[[], []]))
    with pytest.raises(SourceError, match=r"there is no game on a 19 x 19 board in .*none\.parquet"):
        read_games([path], (19, 19), False, None)


def test_more_moves_than_32_bits_count():
    """A hole of the file stands for a game of 2**31 passes at A1."""
    with held._MovesFile() as moves:
        moves._file.seek(2**32)
        moves._offsets.append(np.array([2**31], np.int64))
        moves._end = 2**31
        moves.without(rows(moves=[[1, 2], [3]]))
        column = moves.column()
    assert len(column) == 3 and column.slice(1).to_pylist() == [[1, 2], [3]]


def test_a_disk_that_is_full_is_told(tmp_path, monkeypatch):
    path = write(tmp_path / "games.parquet")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(mmap, "mmap", full)
    with pytest.raises(OutputError, match=r"^cannot set down moves in .*: No space left on device$"):
        read_games([path], (19, 19), False, None)
