"""All real games: each is read, the counts add up, and each dropped game has a true reason."""

from __future__ import annotations

from pathlib import Path

import pytest

import naive
from kifu.corpus.sources import read
from kifu.errors import DropReason
from kifu.point import ERASE_BIT, NO_POINT, POINT_MASK, WHITE_BIT
from kifu.records.game import Game
from kifu.records.games import ParseWarning
from kifu.records.parse import SourceSummary, summarize


def assert_adds_up(found: SourceSummary) -> None:
    assert found.read == found.kept + found.drops.total()
    assert found.kept == sum(found.sizes.values())
    assert set(found.warnings) == {str(warning.name) for warning in ParseWarning}


def why_naive(game: Game) -> DropReason:
    """Return why the naive board, with simple ko and suicide allowed, cannot play the game; KEPT if it can."""
    board = naive.NaiveBoard(game.width, game.height)
    setup = list(zip(game.setup.tolist(), game.setup_ply.tolist()))
    for ply, word in enumerate(game.moves.tolist()):
        due = [entry for entry, at in setup if at == ply]
        if due:
            board.set_up({xy(entry & POINT_MASK, game): colour_of(entry) for entry in due})
        point = word & POINT_MASK
        if point == NO_POINT:
            return DropReason.OFF_BOARD
        place = None if point == game.width * game.height else xy(point, game)
        why = board.why_not(place, colour_of(word))
        if why:
            return DropReason(why)
        board.play(place, colour_of(word))
    return DropReason.KEPT


def xy(point: int, game: Game) -> tuple[int, int]:
    return point % game.width, point // game.width


def colour_of(word: int) -> int:
    return 0 if word & ERASE_BIT else 2 if word & WHITE_BIT else 1


def check_reasons(folder: Path, found: SourceSummary) -> None:
    dropped = {(source, name): why for source, name, why, _ in found.dropped}
    assert len(dropped) == found.drops.total() <= 20, "more than the summary lists"
    looked_at = [game for game in read(folder) if (game.source, game.name) in dropped] if dropped else []
    assert len(looked_at) == len(dropped)
    for game in looked_at:
        why = dropped[game.source, game.name]
        assert why == (game.drop or why_naive(game)), (game.name, why)


def test_one_month_of_kgs(shared: Path) -> None:
    archive = shared / "data/kgs/KGS-2016_02-19-577-.tar.gz"
    found = summarize(archive)
    assert_adds_up(found)
    assert (found.read, found.kept, found.sizes) == (577, 577, {"19 x 19": 577})


def test_real_games(shared: Path) -> None:
    found = summarize(shared / "data/wild", jobs=2)
    assert_adds_up(found)
    assert found.read == 3099
    assert found.drops == {"KO": 1}  # a Fox professional game, in which a ko is retaken at once
    assert found.dropped[0][3] == 281
    check_reasons(shared / "data/wild", found)


@pytest.mark.slow
def test_all_of_kgs(shared: Path) -> None:
    folder = shared / "data/kgs"
    found = summarize(folder, jobs=2)
    assert_adds_up(found)
    by_name = sum(int(path.name.split("-")[3]) for path in folder.glob("KGS-*.tar.gz"))
    assert found.read == by_name == 64_842
    assert (found.moves, found.bytes) == (12_646_763, 97_954_922)
    check_reasons(folder, found)
    print(f"\n{found.read:,} games = {found.kept:,} kept + {dict(found.drops)}, {found.moves:,} moves")
