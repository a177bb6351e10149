"""The board of people: rules, printing, and sgfmill's board as an independent witness."""

import doctest
import re
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from sgfmill import boards

from drawn_games import flat, read_archive
from kifu.errors import DropReason, GameError, IllegalMove
from kifu.go import board as board_module
from kifu.go import rules as rules_module
from kifu.go.board import Board
from kifu.go.replay import replay_all
from kifu.go.rules import Rules
from kifu.point import BLACK, ERASE_BIT, POINT_MASK, WHITE, WHITE_BIT, star_points, to_gtp
from kifu.records import game as game_module
from kifu.records.game import read_sgf


@pytest.mark.parametrize("module", [board_module, rules_module, game_module], ids=lambda module: module.__name__)
def test_examples(module):
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed


GAMES = {  # moves, the rows after them, stones taken by Black and by White
    "empty": ("", [". . .", ". . .", ". . ."], (0, 0)),
    "last-in-the-left-column": ("A1", [". . .", ". . .", "(X). ."], (0, 0)),
    "last-in-the-right-column": ("A1 C3", [". .(O)", ". . .", "X . ."], (0, 0)),
    "still-marked-after-a-pass": ("B2 pass", [". . .", ".(X).", ". . ."], (0, 0)),
    "corner-taken": ("A2 A1 B1", [". . .", "X . .", ".(X)."], (1, 0)),
    "corner-taken-by-white": ("pass A2 A1 B1", [". . .", "O . .", ".(O)."], (0, 1)),
    "two-at-once": ("A2 A1 B2 B1 C1", [". . .", "X X .", ". .(X)"], (2, 0)),
    "two-chains-at-once": ("A2 A3 C2 C3 B3", [".(X).", "X . X", ". . ."], (2, 0)),
}


@pytest.mark.parametrize("name", GAMES)
def test_games_as_diagrams(name):
    moves, rows, taken = GAMES[name]
    board = Board(3)
    for move in moves.split():
        board.play(move)
    diagram = "\n".join(["   A B C", *(f"{3 - y:2d}{'' if row[0] == '(' else ' '}{row}" for y, row in enumerate(rows))])
    assert str(board) == diagram
    assert (board.captures[BLACK], board.captures[WHITE]) == taken
    assert board.ply == len(moves.split())
    assert board.to_play == (WHITE if board.ply % 2 else BLACK)
    again = Board.parse(diagram, to_play=board.to_play)
    assert again == board
    assert str(again) == diagram


@pytest.mark.parametrize(
    ("width", "height"),
    [(1, 1), (1, 7), (9, 9), (19, 19), pytest.param(25, 25, marks=pytest.mark.slow), (25, 3), (10, 12)],
)
def test_a_printed_board_can_be_read(width, height):
    rng = np.random.default_rng([width, height])
    board = Board(width, height)
    assert Board.parse(str(board)) == board
    for _ in range(width * height // 2):
        board.play(int(rng.choice(np.flatnonzero(board.legal()))))
    again = Board.parse(str(board), to_play=board.to_play)
    assert np.array_equal(again.stones, board.stones)
    assert np.array_equal(again.liberties, board.liberties)
    assert again.hash == board.hash
    assert str(again) == str(board)


def test_19x19_prints_its_nine_stars():
    lines = str(Board()).splitlines()
    assert lines[0] == "   A B C D E F G H J K L M N O P Q R S T"
    assert lines[4] == "16 . . . + . . . . . + . . . . . + . . ."
    assert lines[19] == " 1" + " ." * 19
    assert sum(line.count("+") for line in lines) == 9


@pytest.mark.parametrize(
    ("size", "stars"),
    [
        ((19, 19), "D16 K16 Q16 D10 K10 Q10 D4 K4 Q4"),
        ((13, 13), "D10 K10 G7 D4 K4"),
        ((9, 9), "C7 G7 E5 C3 G3"),
        ((8, 8), "C6 F6 C3 F3"),
        ((5, 5), "C3"),
        ((4, 4), ""),
        ((19, 9), "D7 K7 Q7 K5 D3 K3 Q3"),  # each direction by itself
    ],
)
def test_star_points(size, stars):
    assert " ".join(to_gtp(p, *size) for p in star_points(*size)) == stars


def test_moves_by_name_and_by_number_are_the_same():
    named, numbered = Board(9), Board(9)
    for move, point in [("e5", 40), ("C3", 56), ("pass", 81), ("J9", 8)]:
        named.play(move)
        numbered.play(point)
    assert named == numbered
    assert named.ply == 4
    assert named.is_legal("A1")
    assert numbered.is_legal(72)
    assert not named.is_legal("e5")


@pytest.mark.parametrize("move", [-1, 82, 10**9])
def test_a_move_off_the_board(move):
    board = Board(9)
    with pytest.raises(IllegalMove, match="outside the board") as error:
        board.play(move)
    assert error.value.reason == DropReason.OFF_BOARD
    assert board == Board(9)
    with pytest.raises(GameError, match=f"move {move} is not within 0 to 81"):
        board.is_legal(move)
    with pytest.raises(GameError, match=f"move {move} is not within 0 to 81"):
        board.setup(black=[move])


def test_moves_of_a_record_are_played_with_their_colours():
    game, board, other = read_sgf("(;SZ[9];B[cc];B[gg];W[ee];W[];B[ec])"), Board(9), Board(9)
    for word, (colour, point) in zip(game.moves, game.plays(), strict=True):
        assert board.is_legal(word)
        board.play(word)
        other.play(point, colour)
    assert board == other == game.board()
    board.play(np.uint16(1), WHITE)  # a colour that is given counts
    assert board.stones[0, 1] == WHITE


@pytest.mark.parametrize("move", [(4, 4), 3.5, None, b"D4"])
def test_a_move_of_another_type(move):
    for use in (Board(9).play, Board(9).is_legal, lambda each: Board(9).setup([each])):
        with pytest.raises(GameError, match=f"an integer or a GTP name such as 'D4', got {re.escape(repr(move))}"):
            use(move)


def test_names_and_colours_that_are_none():
    board = Board(9)
    with pytest.raises(GameError, match="'K1' is not a GTP vertex of a 9 x 9 board"):
        board.play("K1")
    for colour in (0, 3, "black"):
        with pytest.raises(GameError, match=f"colour must be 1 .Black. or 2 .White., got {colour!r}"):
            board.play("A1", colour)
        with pytest.raises(GameError, match=f"colour must be 1 .Black. or 2 .White., got {colour!r}"):
            board.legal(colour)
    assert board == Board(9)


def test_a_refused_move_changes_nothing():
    board = Board.parse(". X O\nX X O\nO O .", rules=Rules("positional", suicide=False))
    before = str(board), board.hash, board.liberties.tolist(), board.legal().tolist()
    for move in ("A3", "B3"):
        with pytest.raises(IllegalMove):
            board.play(move)
    assert before == (str(board), board.hash, board.liberties.tolist(), board.legal().tolist())
    assert board.ply == 0
    assert board.to_play == BLACK


def test_setup():
    board = Board(3)
    board.play("B2")
    board.setup(black=["A1"], white=["C3", 0], empty=["B2"])
    assert board.stones.tolist() == [[2, 0, 2], [0, 0, 0], [1, 0, 0]]
    assert board.to_play == WHITE
    assert board.ply == 1
    assert "(" not in str(board)
    board.setup(white=["A1"])  # whatever was there
    assert board.stones[2, 0] == WHITE
    before = board.copy()
    with pytest.raises(GameError, match="the stone set up on A3 has no liberties"):
        board.setup(black=["B3", "A2"])
    assert board == before
    assert np.array_equal(board.liberties, before.liberties)
    with pytest.raises(GameError, match="a pass cannot be set up"):
        board.setup(white=["pass"])
    assert board == before


@pytest.mark.parametrize(
    ("diagram", "message"),
    [
        ("", "board size 0 x 0 is not within 1 to 25"),
        (". .\n. . .", "'. . .' is not a row of a board"),
        (". x\n. .", "'. x' is not a row of a board"),
        ("(X)(O)\n. .", "is not a row of a board"),
        ("(.) .\n. .", "is not a row of a board"),
        ("X O\nO X", "the stone set up on A2 has no liberties"),
        ("\n".join(["." * 26] * 26), "board size 26 x 26 is not within 1 to 25"),
    ],
)
def test_diagrams_that_are_none(diagram, message):
    with pytest.raises(GameError) as error:
        Board.parse(diagram)
    assert message in str(error.value)


@pytest.mark.parametrize(("width", "height"), [(0, 5), (26, 5), (5, 26), (19, 0)])
def test_impossible_sizes(width, height):
    with pytest.raises(GameError, match=f"board size {width} x {height} is not within 1 to 25"):
        Board(width, height)


def test_equality():
    board = Board(3)
    assert board == Board(3, 3)
    assert board != Board(3, 2)
    assert board != Board(3, rules=Rules("none"))
    assert board != "a board"
    twin = board.copy()
    twin.play("B2")
    assert board != twin
    assert board.stones.sum() == 0
    board.play("B2")
    assert board == twin
    twin.to_play = BLACK
    assert board != twin
    with pytest.raises(TypeError, match="unhashable"):
        hash(board)


def test_a_copy_is_played_on_alone():
    board = Board(5, rules=Rules("positional"))
    rng = np.random.default_rng(5)
    for _ in range(40):
        board.play(int(rng.choice(np.flatnonzero(board.legal()))))
    twin = board.copy()
    kept = str(board), board.legal().tolist(), board.captures, board.ply
    assert twin.captures == board.captures
    assert max(twin.captures.values()) > 0
    for _ in range(40):
        twin.play(int(rng.choice(np.flatnonzero(twin.legal()))))
    assert kept == (str(board), board.legal().tolist(), board.captures, board.ply)
    assert twin.ply == 80


def test_a_picture_of_the_board_is_not_the_board():
    board = Board(3)
    board.stones[1, 1] = BLACK
    assert not board.stones.any()
    assert repr(board) == "<Board 3 x 3, ply 0, Black to play>"


@pytest.mark.parametrize(
    ("diagram", "score"),
    [(". .\n. .", 0), ("X .\n. .", 4), (". O\n. .", -4), ("X . O", 0), (". X . O", 1), (". X .\n. X O\nO O .", -2)],
)
def test_area_score(diagram, score):
    assert Board.parse(diagram).area_score() == score


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
    games = [game for path in archives(shared / "data" / "kgs") for game in read_archive(path, every=50)]
    assert len(games) >= 1_000
    print(f"{len(games)} games, {compare_all(games):,} moves")


def test_real_games_have_setup_stones_and_passes(shared):
    games = read_archive(shared / "data" / "kgs" / "KGS-2006-19-10388-.tar.gz", every=100)
    assert any(game.setup for game in games)
    assert any(word & POINT_MASK == PASS for game in games for word in game.moves)
    assert np.mean([len(game.moves) for game in games]) > 150
