"""sgfmill's board as an independent witness: stones and ko after every move of real games, and the score at the end."""

from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from sgfmill import boards

from flat import flat, read_archive
from kifu.errors import DropReason
from kifu.go.board import Board
from kifu.go.replay import replay_all
from kifu.point import BLACK, ERASE_BIT, POINT_MASK, WHITE, WHITE_BIT

COLOUR = {None: 0, "b": BLACK, "w": WHITE}
PASS = 361


def stones(witness):
    """[19, 19], the top row first; sgfmill counts rows from the bottom."""
    return [[COLOUR[stone] for stone in row] for row in reversed(witness.board)]


def row_and_column(word):
    y, x = divmod(word & POINT_MASK, 19)
    return 18 - y, x


def compare(game):
    """Plays one 19 x 19 game on both boards. Returns the number of moves."""
    board, witness = Board(), boards.Board(19)
    setup = list(game.setup)
    for ply, word in enumerate([*game.moves, None]):
        due = [entry for at, entry in setup if at == ply]
        if due:
            parts = [[e for e in due if e & ~POINT_MASK == bits] for bits in (0, WHITE_BIT, ERASE_BIT)]
            assert witness.apply_setup(*([row_and_column(e) for e in part] for part in parts))
            board.setup(*([e & POINT_MASK for e in part] for part in parts))
            assert board.stones.tolist() == stones(witness)
        if word is None:
            break
        colour, ko = ("w", None) if word & WHITE_BIT else ("b", None)
        board.play(word & POINT_MASK, COLOUR[colour])
        if word & POINT_MASK != PASS:
            ko = witness.play(*row_and_column(word), colour)
        assert board.stones.tolist() == stones(witness), f"{ply}\n{board}"
        assert board.ko == (None if ko is None else (18 - ko[0]) * 19 + ko[1]), f"{ply}\n{board}"
    assert board.area_score() == witness.area_score()
    return len(game.moves)


def compare_all(games):
    """And the replay of them all at once finds the same: every game is legal to its end."""
    plies = [compare(game) for game in games]
    drop, ply = replay_all(flat(games))
    assert set(drop.tolist()) == {DropReason.KEPT}
    assert ply.tolist() == plies
    return sum(plies)


def archives(folder):
    found = sorted(folder.glob("*.tar.gz"))
    if not found:
        pytest.skip(f"needs game archives in {folder.name}")
    return found


def bundled(every):
    with resources.as_file(resources.files("kifu.assets") / "sample") as folder:
        return [game for path in archives(Path(folder)) for game in read_archive(path, every)]


def test_games_of_the_bundled_sample():
    games = bundled(every=5)
    assert len(games) >= 20
    assert compare_all(games) > 3_000


@pytest.mark.slow
def test_the_whole_bundled_sample():
    games = bundled(every=1)
    print(f"{len(games)} games, {compare_all(games):,} moves")


@pytest.mark.slow
def test_forty_real_games(shared):
    games = [read_archive(path, every=10_000)[0] for path in archives(shared / "data" / "kgs")]
    games += read_archive(shared / "data" / "kgs" / "KGS-2016_02-19-577-.tar.gz", every=200)
    assert len(games) >= 40
    assert compare_all(games) > 4_000


@pytest.mark.thorough
def test_a_thousand_real_games(shared):
    """From all archives alike."""
    games = [game for path in archives(shared / "data" / "kgs") for game in read_archive(path, every=50)]
    assert len(games) >= 1_000
    print(f"{len(games)} games, {compare_all(games):,} moves")


def test_real_games_have_setup_stones_and_passes(shared):
    """Else the comparisons would not have seen any."""
    games = read_archive(shared / "data" / "kgs" / "KGS-2006-19-10388-.tar.gz", every=100)
    assert any(game.setup for game in games)
    assert any(word & POINT_MASK == PASS for game in games for word in game.moves)
    assert np.mean([len(game.moves) for game in games]) > 150
