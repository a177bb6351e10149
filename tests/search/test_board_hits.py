"""Hits of whole-board patterns from an index alone; tests/search/test_searcher.py compares them with a slow twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flat import OneGame
from kifu.point import BLACK, WHITE_BIT
from kifu.search.build import build_index
from kifu.search.index import open_index
from kifu.search.match import find_board, pattern_position
from kifu.search.pattern import Pattern, PatternMove
from kifu.search.searcher import Searcher
from kifu.search.store import GameStore
from searchable import write_games

STONE = Pattern(3, 3, (2, 1, 1, 1, 1, 1, 1, 1, 1), "board")
W = WHITE_BIT
GAMES = [
    OneGame(3, 3, [2, 4 | W]),  # another corner
    OneGame(3, 3, [9, 8 | W, 4]),  # the other colour
    OneGame(3, 3, [6, 9 | W, 4]),  # a pass, so that the continuation comes later
    OneGame(3, 3, [4]),
    OneGame(3, 3, [0]),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    games = write_games(tmp_path / "games.parquet", GAMES, {"drop": [None] * len(GAMES)})
    build_index(games, plies=2)
    return games


def test_games_that_an_index_does_not_decide_are_named(path: Path) -> None:
    position = pattern_position(STONE)
    assert position is not None
    hits, unsure = find_board(open_index(path), STONE, position)
    columns = [column.tolist() for column in (hits.game, hits.ply, hits.exchanged, hits.next_ply, hits.board_colour)]
    assert [*zip(*columns)] == [(0, 1, False, 1, 2), (4, 1, False, -1, 0)]
    assert unsure.tolist() == [False, True, True, False, False]  # after two plies, games 1 and 2 have one stone


def test_other_games_are_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reading(store: GameStore, group: Any) -> Any:
        raise AssertionError("games are read")

    chosen = Searcher(path).select("entry in (0, 4)")
    monkeypatch.setattr(GameStore, "batches", reading)
    hits = Searcher(path).find(STONE, chosen)
    assert hits.rows().tolist() == [0, 4]
    with pytest.raises(AssertionError, match="games are read"):
        Searcher(path).find(STONE)


@pytest.mark.parametrize(
    "pattern",
    [
        Pattern(3, 3, (2, 1, 1, 1, 1, 1, 1, 1, 7), "board"),
        Pattern(3, 3, STONE.cells, "corner"),
        Pattern(3, 3, STONE.cells, "board", moves=(PatternMove(1, 1, BLACK),)),
        Pattern(3, 3, STONE.cells, "board", consecutive=True),
    ],
)
def test_other_patterns_are_not_positions(pattern: Pattern) -> None:
    assert pattern_position(pattern) is None
