"""The `Game` object."""

from __future__ import annotations

import dataclasses
import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kifu
from format_samples import RECORDS
from kgs_archives import zipped
from kifu.corpus.sources import read
from kifu.errors import DropReason, GameError, IllegalMove, KifuError, RecordError, SourceError
from kifu.go.board import Board
from kifu.point import BLACK, NO_POINT, WHITE, WHITE_BIT
from kifu.records.game import Game, read_games, read_sgf, write_sgf
from kifu.records.games import TO_PLAY_UNSET, ParseWarning
from kifu.records.meta import Result
from kifu.records.ranks import Rank
from kifu.records.sgf import root_properties

RECORD = (
    "(;FF[4]CA[UTF-8]SZ[9]PB[柯洁]PW[Bob \\] B]BR[9p]WR[3k?]KM[5.5]HA[2]RE[W+12.5]DT[2024-05-01]EV[Cup: final]"
    "RU[Chinese]PL[W]AB[cc][gg];W[ee];AW[aa];B[];W[ff])"
).encode()


def test_a_game() -> None:
    game = read_sgf(RECORD)
    assert (game.width, game.height, game.size, len(game)) == (9, 9, 9, 3)
    assert game.moves.tolist() == [40 | WHITE_BIT, 81, 50 | WHITE_BIT]
    assert game.setup.tolist() == [20, 60, 0 | WHITE_BIT]
    assert game.setup_ply.tolist() == [0, 0, 1]
    assert (game.root_setup, game.to_play, game.handicap) == (2, WHITE, 2)
    assert game.players == ("柯洁", "Bob ] B")
    assert game.raw("PW") == b"Bob \\] B"
    assert game.ranks == (Rank(19), Rank(-2))
    assert game.result == Result(WHITE, "score", 12.5)
    assert (game.komi, game.date, game.event, game.rules) == (5.5, "2024-05-01", "Cup: final", "Chinese")
    assert (game.warnings, game.drop, game.errors) == (ParseWarning.SETUP_AFTER_ROOT, DropReason.KEPT, ())
    assert (game.source, game.name, game.record) == ("", "", RECORD)
    assert str(game) == "柯洁 [9p] - Bob ] B [3k?], W+12.5, 3 moves, 9 x 9, handicap 2, komi 5.5, 2024-05-01"
    assert repr(game) == f"<Game: {game}>"


def test_empty_game() -> None:
    game = read_sgf(b"(;)")
    assert len(game) == 0
    assert game.size == 19
    assert game.players == ("", "")
    assert game.ranks == (None, None)
    assert game.result == Result()
    assert (game.komi, game.handicap, game.date, game.to_play) == (None, None, "", TO_PLAY_UNSET)
    assert game.raw("XX") == b""
    assert "XX" not in game.properties
    assert str(game) == "? - ?, 0 moves, 19 x 19"
    assert str(read_sgf(b"(;PB[a\n b];B[aa])")) == "a b - ?, 1 move, 19 x 19"


def test_arrays_are_read_only() -> None:
    game = read_sgf(RECORD)
    for array in (game.moves, game.setup, game.setup_ply):
        assert array.dtype == np.uint16
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        game.width = 19  # type: ignore[misc]


def test_equality_compares_content() -> None:
    game = read_sgf(RECORD)
    same = [
        RECORD.replace(b"FF[4]", b"FF[3]"),
        RECORD.replace(b"\\] B", b"\\] \\B"),
        RECORD.replace(b"PB", b"PlayerBlack"),
        RECORD.replace(b"AB[cc][gg]", b"AB[gg]AB[cc]"),
        RECORD.replace(b"SZ[9]", b"").replace(b"PL[W]", b"PL[white]SZ[9]"),
        RECORD.decode().replace("UTF-8", "GB2312").encode("gb18030"),
        b"junk" + RECORD + b"(;)",
        RECORD[:-1] + b";C[nothing])",
    ]
    for text in same:
        assert read_sgf(text) == game, text
        assert hash(read_sgf(text)) == hash(game), text
    different = [
        RECORD.replace(b"SZ[9]", b"SZ[10]"),
        RECORD.replace(b"[ff]", b"[fg]"),
        RECORD.replace(b";W[ff]", b";B[ff]"),
        RECORD.replace(b"PL[W]", b"PL[B]"),
        RECORD.replace(b"AB[cc]", b"AB[cd]"),
        RECORD.replace(b"AB[cc]", b"AW[cc]AB"),
        RECORD.replace(b";AW[aa]", b"").replace(b";W[ff]", b";AW[aa];W[ff]"),
        RECORD.replace(b"Bob", b"Rob"),
        RECORD.replace(b"KM[5.5]", b""),
    ]
    for text in different:
        assert read_sgf(text) != game, text
    assert game != "a game"
    assert len({game, read_sgf(RECORD), read_sgf(different[0])}) == 2


def test_last_setup_of_a_point_wins() -> None:
    assert read_sgf(b"(;SZ[9]AB[aa]AW[aa])") == read_sgf(b"(;SZ[9]AW[aa])") != read_sgf(b"(;SZ[9]AB[aa])")
    assert read_sgf(b"(;SZ[9]AB[aa];AE[aa])") != read_sgf(b"(;SZ[9]AB[aa]AE[aa])")


def test_rectangular_board_has_no_size() -> None:
    game = read_sgf(b"(;SZ[13:9];B[mi])")
    assert (game.width, game.height, game.moves.tolist()) == (13, 9, [116])
    with pytest.raises(GameError, match="13 x 9"):
        _ = game.size


def test_errors_and_strict() -> None:
    off = b"(;SZ[9];B[aa];W[zz];B[bb];W[q])"
    game = read_sgf(off)
    assert game.moves.tolist() == [0, NO_POINT | WHITE_BIT, 10, NO_POINT | WHITE_BIT]
    assert [type(error) for error in game.errors] == [IllegalMove, IllegalMove]
    assert [(e.ply, e.move, e.reason) for e in game.errors if isinstance(e, IllegalMove)] == [
        (1, NO_POINT, DropReason.OFF_BOARD),
        (3, NO_POINT, DropReason.OFF_BOARD),
    ]
    with pytest.raises(IllegalMove, match="move 2 "):
        read_sgf(off, strict=True)

    aside = read_sgf(b"(;SZ[40]PB[Ann];B[aa])")
    assert aside.drop == DropReason.BAD_SIZE
    assert len(aside) == 0
    assert aside.players[0] == "Ann"
    assert str(aside).endswith("dropped: a board size that is unreadable or not within 1 to 25")
    with pytest.raises(GameError, match="board size"):
        read_sgf(b"(;SZ[40];B[aa])", strict=True)
    assert read_sgf(RECORD, strict=True) == read_sgf(RECORD)


@pytest.mark.parametrize("data", [b"", b"junk", b"()", b";B[aa]", "(;".encode("utf-16")])
def test_no_game(data: bytes) -> None:
    with pytest.raises(RecordError, match=f"no game record in {len(data)} bytes"):
        read_sgf(data)
    with pytest.raises(RecordError):
        read_games(data)


def test_text_is_a_record_whatever_its_charset() -> None:
    for text in (RECORD.decode(), RECORD.decode().replace("UTF-8", "GB18030")):
        assert [read_sgf(text).players, read_games(text)[0].players] == [("柯洁", "Bob ] B")] * 2
    assert read_sgf("(;PB[\ud800];B[aa])").players == ("?", "")
    for other in (None, Path("game.sgf")):
        with pytest.raises(RecordError, match=f"a record must be bytes or str, got {type(other).__name__} "):
            read_games(other)  # type: ignore[arg-type]


def test_read_games() -> None:
    games = read_games(b"(;SZ[9];B[aa])(;GM[2])(;SZ[9];B[bb])")
    assert [(len(game), game.drop) for game in games] == [
        (1, DropReason.KEPT),
        (0, DropReason.NOT_GO),
        (1, DropReason.KEPT),
    ]
    assert games[2].record == b"(;SZ[9];B[bb])"


def test_read_from_containers(tmp_path: Path) -> None:
    (tmp_path / "games").mkdir()
    (tmp_path / "games/one.sgf").write_bytes(RECORD)
    (tmp_path / "games/two.sgf").write_bytes(b"(;SZ[9];B[aa])(;SZ[9];B[bb])")
    with zipfile.ZipFile(tmp_path / "games/more.zip", "w") as archive:
        archive.writestr("folder/three.sgf", "(;SZ[9];B[cc])")
        archive.writestr("folder/four.sgf", "no game")
    games = read(tmp_path / "games")
    first = next(games)
    assert isinstance(first, Game)
    assert first == read_sgf(RECORD)
    assert first.to_play != BLACK
    rest = list(games)
    assert [(game.name, game.drop) for game in [first, *rest]] == [
        ("one.sgf", DropReason.KEPT), ("two.sgf", DropReason.KEPT), ("two.sgf", DropReason.KEPT),
        ("folder/three.sgf", DropReason.KEPT), ("folder/four.sgf", DropReason.NO_RECORD),
    ]  # fmt: skip
    assert rest[-1].source == str(tmp_path / "games/more.zip")
    assert [len(game) for game in read([tmp_path / "games/one.sgf", tmp_path / "games/two.sgf"])] == [3, 1, 1]


def test_root_properties() -> None:
    text = b"junk (;AB[aa] [bb]x[c\\]]SiZe[9]Black[dd]b1[x] AB[cc];W[ee]N[no]PB[yes])"
    assert root_properties(text) == {
        "AB": (b"aa", b"bb", b"cc"), "X": (b"c\\]",), "SZ": (b"9",), "B": (b"dd",), "B1": (b"x",), "PB": (b"yes",),
    }  # fmt: skip
    assert root_properties(b"(;PB[Ann") == root_properties(b"") == root_properties(b"()") == {}
    many = b"(;" + b"".join(b"A%s[%d]" % (bytes([65 + k % 26]), k) for k in range(500)) + b")"
    assert sum(map(len, root_properties(many).values())) == 500


def test_position_and_picture() -> None:
    game = read_sgf(b"(;SZ[9]AB[aa];W[ba];B[ee];W[ab];B[])")
    assert not game.errors
    assert game.board(1).stones[0].tolist() == [1, 2, 0, 0, 0, 0, 0, 0, 0]
    assert game.board(3).stones[0].tolist() == [0, 2, 0, 0, 0, 0, 0, 0, 0]  # the stone in the corner is captured
    assert game.board() == game.board(4)
    assert game.board(0).ply == 0
    with pytest.raises(IndexError):
        game.board(5)
    assert str(game._repr_svg_()).startswith("<svg")


def test_errors_list_illegal_moves() -> None:
    game = read_sgf(b"(;SZ[9];B[ee];W[ee];B[zz];W[aa])")
    assert [(error.ply, error.reason) for error in game.errors] == [(1, DropReason.OCCUPIED), (2, DropReason.OFF_BOARD)]
    assert game._repr_svg_() is None
    with pytest.raises(IllegalMove, match=r"move 2 \(point 40\) is illegal: a move on an occupied point"):
        game.board()
    with pytest.raises(IllegalMove, match=r"move 2"):
        read_sgf(b"(;SZ[9];B[ee];W[ee])", strict=True)
    with pytest.raises(GameError, match="a dropped game"):
        read_sgf(b"(;SZ[99];B[ee])").board()


GOOD = read_sgf(b"(;SZ[5]HA[2]AB[aa][bb];W[cc];AE[aa];B[dd])")

BAD = {
    "short setup_ply": {"setup_ply": GOOD.setup_ply[:1]},
    "long setup_ply": {"setup_ply": np.zeros(9, np.uint16)},
    "large root_setup": {"root_setup": 60_000},
    "more root_setup than fits": {"root_setup": 2**40},
    "negative root_setup": {"root_setup": -1},
    "signed moves": {"moves": np.array([-1, -16384], np.int64)},
    "signed setup": {"setup": np.array([-1, 2, 3], np.int16)},
    "moves in two dimensions": {"moves": np.zeros((2, 2), np.uint16)},
    "a list of moves": {"moves": [3, 4]},
    "a huge handicap": {"handicap": 2**20},
}


@pytest.mark.parametrize("what", BAD)
def test_arrays_that_do_not_fit_are_refused(what: str) -> None:
    with pytest.raises(GameError, match=r"must |board size"):
        dataclasses.replace(GOOD, **BAD[what])


@pytest.mark.parametrize("size", [{"width": 0}, {"height": 300}, {"width": -5}], ids=str)
def test_sizes_are_checked_before_use(size: dict[str, int]) -> None:
    game = dataclasses.replace(GOOD, **size)
    for use in (
        lambda: kifu.encode(game, "seven"),
        lambda: kifu.encode(game, "katago22"),
        game.board,
        lambda: write_sgf(game),
    ):
        with pytest.raises(GameError, match="board"):
            use()


def test_setup_that_is_not_in_order_is_refused() -> None:
    game = dataclasses.replace(GOOD, setup_ply=GOOD.setup_ply[::-1].copy())
    with pytest.raises(GameError, match="setup_ply of a game must not decrease, got 0 after 1"):
        kifu.encode(game, "seven")


POINTS = st.one_of(st.integers(0, 0xFFFF), st.integers(0, 27), st.integers(0x8000, 0x801B))


@given(
    moves=st.lists(POINTS, max_size=12),
    setup=st.lists(st.tuples(st.sampled_from([0, 1, 2, 3, 12, 13, 0xFFFF]), POINTS), max_size=8),
    root=st.integers(0, 8),
    size=st.sampled_from([(5, 5), (1, 1), (1, 25), (19, 19)]),
    ply=st.integers(-2, 14),
)
def test_points_may_have_any_value(
    moves: list[int], setup: list[tuple[int, int]], root: int, size: tuple[int, int], ply: int
) -> None:
    """The slow tests run this with bounds checks."""
    setup = sorted(setup, key=lambda entry: entry[0])
    game = dataclasses.replace(
        GOOD,
        width=size[0],
        height=size[1],
        moves=np.array(moves, np.uint16),
        setup=np.array([point for _, point in setup], np.uint16),
        setup_ply=np.array([k for k, _ in setup], np.uint16),
        root_setup=min(root, len(setup)),
    )
    for use in (
        lambda: game.errors,
        lambda: game.board(ply),
        lambda: write_sgf(game),
        lambda: kifu.encode(game, "seven"),
        lambda: kifu.encode(game, "kgsgo7"),
        lambda: kifu.encode(game, "kgsgo8"),
        lambda: kifu.encode(game, "katago22"),
    ):
        try:
            use()
        except KifuError as error:
            assert str(error)  # noqa: PT017 - most games are possible
        except IndexError as error:
            assert str(error) == f"ply {ply} is not within 0 to {len(moves)}"  # noqa: PT017 - likewise


def test_a_ply_that_does_not_exist_costs_no_memory() -> None:
    with pytest.raises(IndexError, match="ply 1000000000000 is not within 0 to 2"):
        GOOD.board(10**12)


def test_board_after_setup_of_another_length() -> None:
    with pytest.raises(GameError, match="setup_ply must have 3 entries like setup, got 1"):
        Board.after(5, 5, GOOD.moves, GOOD.setup, GOOD.setup_ply[:1], 2)


@pytest.mark.parametrize("name", RECORDS)
def test_read_games_reads_every_format(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(RECORDS[name])
    assert read_games(RECORDS[name]) == list(read(tmp_path / name))


def test_read_games_reads_archives(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", RECORDS)
    assert read_games(path.read_bytes()) == list(read(path))
    assert read_games(gzip.compress(RECORDS["a.sgf"])) == read_games(RECORDS["a.sgf"])
    with pytest.raises(SourceError, match="cut off"):
        read_games(path.read_bytes()[:-30])


def test_read_games_reads_tygem_lines() -> None:
    (game,) = read_games(b"1234\t;B[pd];W[dp];B[pp]\n")
    assert len(game) == 3


@pytest.mark.parametrize("data", [b"", b"junk", b"[1]", b'{"a": 1}'])
def test_read_games_without_a_game(data: bytes) -> None:
    with pytest.raises(RecordError, match="no game record in"):
        read_games(data)
