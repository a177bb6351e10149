"""The player behind the engine: eyes, settled boards, when it passes, and that every game of it ends."""

from typing import Any

import numpy as np
import pytest

from evaluators import Scripted, chance, evaluation_of, scripted_engine
from kifu.errors import GameError, IllegalMove, RecipeError
from kifu.go.board import BLACK, WHITE, Board
from kifu.go.rules import NAMED
from kifu.play.player import GameSession
from kifu.point import WHITE_BIT, to_gtp
from lazy import lazy_import
from naive import NaiveBoard

learn = lazy_import("kifu.learn")
play = lazy_import("kifu.play")


def named(mask: np.ndarray, width: int) -> str:
    return " ".join(to_gtp(point, width, len(mask) // width) for point in np.flatnonzero(mask).tolist())


def on(diagram: str, *, passed: bool = False) -> GameSession:
    """A game that begins in this position; or there White has just passed."""
    board = Board.parse(diagram)
    game = GameSession(board.width, board.height)
    game.place_handicap([0])
    game.board.setup(
        *(np.flatnonzero(board.stones.ravel() == colour).tolist() for colour in (BLACK, WHITE)),
        empty=np.flatnonzero(board.stones.ravel() == 0).tolist(),
    )
    if passed:
        game.play(board.pass_move, WHITE)
    return game


# eyes


@pytest.mark.parametrize(
    ("diagram", "black", "white"),
    [
        (". X . \n X X . \n . . .", "A3", ""),
        (". X . \n X O . \n . . .", "", ""),  # spoiled in the corner
        (". X . X O \n X X X X O \n O O O O .", "A3 C3", ""),
        (". X . X O \n X X O X O \n O O O O .", "A3", ""),  # a diagonal on the side is too much
        ("X X X \n X . X \n X X X", "B2", ""),
        ("X X O . \n X . X . \n X X X .", "B2", ""),  # one diagonal in the middle is not
        (". . . . . \n . X X O . \n . X . X . \n . O X X . \n . . . . .", "", ""),
        (". X X O . \n X X O O O \n . X O O .", "A3 A1", "E3 E1"),
        (". . \n . .", "", ""),
        (".", "A1", "A1"),  # walls all around
    ],
)
def test_eyes_by_hand(diagram: str, black: str, white: str) -> None:
    board = Board.parse(diagram)
    assert named(play.player.own_eyes(board, BLACK), board.width) == black
    assert named(play.player.own_eyes(board, WHITE), board.width) == white


def naive_eye(board: Board, x: int, y: int, colour: int) -> bool:
    inside = {(i, j) for i in range(board.width) for j in range(board.height)}
    if board.stones[y, x] or any(
        board.stones[j, i] != colour for i, j in inside & {(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)}
    ):
        return False
    corners = {(x + dx, y + dy) for dx in (-1, 1) for dy in (-1, 1)}
    spoilt = sum(board.stones[j, i] == 3 - colour for i, j in corners & inside)
    return bool(spoilt <= (1 if corners <= inside else 0))


def test_random_eyes() -> None:
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(300):
        board = Board(int(rng.integers(1, 6)), int(rng.integers(1, 6)))
        cells = rng.choice(3, board.pass_move, p=[0.3, 0.5, 0.2])
        try:
            board.setup(*(np.flatnonzero(cells == colour).tolist() for colour in (BLACK, WHITE)))
        except GameError:  # a chain has no liberty
            continue
        for colour in (BLACK, WHITE):
            wanted = [naive_eye(board, x, y, colour) for y in range(board.height) for x in range(board.width)]
            assert play.player.own_eyes(board, colour).tolist() == wanted
            found += sum(wanted)
    assert found > 100


# what is open


SETTLED = """
    . . X O . .
    . . X O O O
    X X X O . .
    . X X O O O
    X . X O . .
"""
DAME = SETTLED.replace(". . X O . .\n    . . X O O O", ". . X O . .\n    . . . . O O")
ATARI = """
    O . X O .
    X O O O O
    X X O . O
    . X O O .
    X . X O O
"""


@pytest.mark.parametrize(
    ("diagram", "colour", "points"),
    [
        (SETTLED, BLACK, ""),
        (SETTLED, WHITE, ""),
        (DAME, BLACK, "A5 B5 A4 B4 C4 D4"),  # open to the one side, it is open to the other
        (ATARI, BLACK, "B5 B1"),  # touches both; is the last liberty of C1
        (". . .\n. . .", BLACK, "A2 B2 C2 A1 B1 C1"),
        ("X . .\n. . .", BLACK, "B2 C2 A1 B1 C1"),  # more than half the board is room for both
        ("X X X\n. . .", BLACK, ""),
        ("X X X\n. . .", WHITE, "A1 B1 C1"),  # half the board is room for the other
        (". X X X\nX X X X", WHITE, ""),
        ("O . O X\nX O X X\nX X X .", WHITE, "B3"),  # touches White only, but so three stones are saved
    ],
)
def test_contested_points_by_hand(diagram: str, colour: int, points: str) -> None:
    board = Board.parse(diagram)
    assert named(play.player.contested_points(board, colour), board.width) == points


# when it passes


def chosen(game: GameSession, evaluator: Scripted | None = None, colour: int = BLACK) -> str:
    evaluator = evaluator or Scripted()
    move = play.player.Player(evaluator).choose(game, colour, evaluator.evaluate(game, colour))
    return "resign" if move == play.player.RESIGN else to_gtp(move, game.board.width, game.board.height)


def test_player_passes_once_the_board_is_settled() -> None:
    assert chosen(on(SETTLED)) == chosen(on(SETTLED), colour=WHITE) == "pass"
    assert chosen(on(DAME)) == "A5"
    assert chosen(on(". . .\n. . .")) == "A2"


def test_after_a_pass_only_probable_contested_points_are_played() -> None:
    def favours(vertex: str) -> Scripted:
        def weigh(game: GameSession, colour: int) -> np.ndarray:
            weights = np.full(game.board.pass_move + 1, 1e-3)
            weights[game.board._point(vertex)] = 1
            weights[-1] = 0
            return weights

        return Scripted(weigh)

    half_open = ". . X . O .\n. . X . O .\nX X X . O .\n. . X . O ."
    assert chosen(on(half_open), favours("A4")) == chosen(on(half_open), favours("A4")) == "A4"
    assert chosen(on(half_open, passed=True), favours("A4")) == "pass"
    assert chosen(on(half_open, passed=True), favours("D4")) == "D4"
    assert chosen(on(". . .\n. . .", passed=True)) == "A2"


def test_a_net_with_passes_may_prefer_the_pass() -> None:
    def weigh(share: float) -> Scripted:
        return Scripted(lambda game, colour: np.append(np.full(game.board.pass_move, 1.0), share))

    game = GameSession(3)
    assert chosen(game, weigh(1.1)) == "pass"
    assert chosen(game, weigh(0.9)) == "A3"
    drawn = play.player.Player(weigh(0.9), temperature=5, seed=1)
    evaluation = weigh(0.9).evaluate(game, BLACK)
    assert {drawn.choose(game, BLACK, evaluation) for _ in range(200)} == set(range(9))  # never by chance alone


@pytest.mark.parametrize(("share", "answer"), [(0.05, "A3"), (0.5, "pass")])
def test_a_pass_is_answered_with_a_pass_only_at_the_end(share: float, answer: str) -> None:
    """After a pass, the net always prefers the pass; before it, a share of the best move's probability."""

    def weigh(game: GameSession, colour: int) -> np.ndarray:
        return np.append(np.full(9, 1.0), 9 if game.trailing_passes else share)

    game = GameSession(3)
    game.play(game.board.pass_move, WHITE)
    assert chosen(game, Scripted(weigh)) == answer
    assert game.trailing_passes == 1


def test_clean_up_captures_dead_stones() -> None:
    """Each side plays where stones of both colours meet, and passes only when no such point is left."""
    game = on("X O . \n X X X \n X . X")
    player = play.player.Player(Scripted())
    moves = []
    while not moves or moves[-1] != game.board.pass_move:
        moves.append(player.clean_up(game, BLACK, player.evaluator.evaluate(game, BLACK).policy))
        game.play(moves[-1], BLACK)
    assert [to_gtp(move, 3) for move in moves] == ["C3", "pass"]
    assert not (game.board.stones == WHITE).any()


def test_scoring_without_dead_stones_and_with() -> None:
    """White's two stones in the corner die; Black's wall and White's live."""
    board = Board.parse("O . X O . \n O . X O . \n . . X O . \n X X X O . \n . . X O .")
    ownership = np.where(np.arange(25) % 5 < 3, 1.0, -1.0)
    dead = play.player.dead_stones(board, ownership)
    assert named(dead, 5) == "A5 A4"
    none = np.zeros(25, np.bool_)
    assert [play.player.score_points(board, none)[1:], play.player.score_points(board, dead)[1:]] == [(9, 12), (15, 10)]
    assert play.player.score_points(board, dead, territory=True)[1:] == (10, 5)
    owners = play.player.score_points(board, dead)[0]
    assert owners.tolist() == np.where(np.arange(25) % 5 < 3, BLACK, WHITE).tolist()


def moves_until_resignation(engine: play.engine.Engine, colour: str = "b", most: int = 8) -> int:
    """Return the number of moves that the engine plays for a colour before it resigns; the opponent passes."""
    for count in range(most):
        if engine.run("genmove", [colour]) == "resign":
            return count
        engine.run("play", ["w" if colour == "b" else "b", "pass"])
    return most


def resigning(lead: float, resign: float | None, **options: Any) -> play.engine.Engine:
    engine = scripted_engine(Scripted(lead=lead), **options)
    engine.player = play.player.Player(engine.player.evaluator, resign=resign)
    return engine


@pytest.mark.parametrize(
    ("resign", "colour", "moves"), [(None, "b", 8), (0.005, "b", 8), (0.05, "b", 2), (0.05, "w", 8), (1, "w", 2)]
)
def test_a_player_resigns_at_its_third_hopeless_move(resign: float | None, colour: str, moves: int) -> None:
    """Black's winning probability is 1 %."""
    assert moves_until_resignation(resigning(-0.98, resign), colour) == moves


def test_a_player_resigns_the_game_that_is_hopeless_and_no_other() -> None:
    engine = resigning(-0.98, 0.05)
    assert moves_until_resignation(engine) == 2
    before = engine.run("showboard", [])
    assert engine.run("genmove", ["b"]) == engine.run("reg_genmove", ["b"]) == "resign"
    assert engine.run("showboard", []) == before
    engine.run("undo", [])
    engine.run("undo", [])
    assert engine.run("reg_genmove", ["b"]) != "resign"
    engine.run("clear_board", [])
    assert moves_until_resignation(engine) == 2


def test_evaluations_of_one_position_count_once() -> None:
    engine = resigning(-0.98, 0.05)
    assert [engine.run("reg_genmove", ["b"]) for _ in range(5)] == ["A5"] * 5
    assert moves_until_resignation(engine) == 2


def test_a_better_evaluation_in_between_prevents_resignation() -> None:
    engine = resigning(-0.98, 0.05)
    for lead in (-0.98, -0.98, 0.5, -0.98, -0.98):
        engine.player.evaluator.lead = lead
        assert engine.run("genmove", ["b"]) != "resign"
        engine.run("play", ["w", "pass"])
    assert engine.run("genmove", ["b"]) == "resign"


def test_a_game_that_is_set_up_again_before_each_move_is_resigned() -> None:
    """Some programs send all moves again before they ask for the next one."""
    engine, moves = resigning(-0.98, 0.05), list[str]()
    for answers in ("A5", "B5", "resign"):
        engine.run("clear_board", [])
        for number, vertex in enumerate(moves):
            engine.run("play", ["bw"[number % 2], vertex])
        assert engine.run("genmove", ["b"]) == answers
        moves += [answers, "pass"]


def test_black_with_nine_stones_does_not_resign_at_its_first_move() -> None:
    """The net small sees neither handicap nor colour, and calls the first position a loss."""
    net = learn.net.open_net("small")
    evaluator = play.player.NetEvaluator(net)
    engine = play.engine.Engine(play.player.Player(evaluator, resign=0.3))
    engine.run("fixed_handicap", ["9"])
    engine.run("play", ["w", "R14"])
    assert evaluator.evaluate(engine.game, BLACK).value < -0.4  # a probability of 0.3
    assert engine.run("genmove", ["b"]) != "resign"


def test_resignation_needs_a_value() -> None:
    with pytest.raises(RecipeError, match="resign needs a value head"):
        play.player.Player(Scripted(), resign=0.1)


@pytest.mark.slow
def test_temperature() -> None:
    game, policy = GameSession(2), np.array([0.6, 0.3, 0.1, 0, 0], np.float32)

    def drawn(temperature: float, seed: int | None = 7) -> list[int]:
        player = play.player.Player(Scripted(), temperature=temperature, seed=seed)
        return [player.choose(game, BLACK, evaluation_of(policy)) for _ in range(600)]

    assert set(drawn(0)) == {0}
    assert drawn(1) == drawn(1) != drawn(1, 8)
    for temperature in (0.5, 1, 2):
        shares = policy[:3].astype(float) ** (1 / temperature)
        found = np.bincount(drawn(temperature), minlength=5) / 600
        np.testing.assert_allclose(found[:3], shares / shares.sum(), atol=0.06)
        assert found[3:].sum() == 0
    assert set(drawn(1e-5)) == {0}


# games end


@pytest.mark.parametrize("rules", NAMED)
@pytest.mark.parametrize(("width", "height"), [(2, 2), (5, 5), (4, 7), (9, 9)])
def test_random_games_end_and_are_legal(width: int, height: int, rules: str) -> None:
    """By the slow twin, which keeps every position, no move is against the rules; and none fills an own eye."""
    evaluator = Scripted(chance(width * height))
    player, game = play.player.Player(evaluator), GameSession(width, height, rules=NAMED[rules])
    twin = NaiveBoard(width, height, ko=NAMED[rules].ko, suicide=1 if NAMED[rules].suicide else 0)
    colour = BLACK
    while game.trailing_passes < 2:
        move = player.choose(game, colour, evaluator.evaluate(game, colour))
        if move < width * height:
            assert not naive_eye(game.board, move % width, move // width, colour)
        point = None if move == width * height else (move % width, move // width)
        assert not twin.play(point, colour)
        game.play(move, colour)
        assert len(game.moves) <= 3 * width * height + 2
        colour = BLACK + WHITE - colour


def test_a_full_size_game_ends() -> None:
    evaluator = Scripted(chance(1))
    player, game, colour = play.player.Player(evaluator), GameSession(19), BLACK
    while game.trailing_passes < 2:
        game.play(player.choose(game, colour, evaluator.evaluate(game, colour)), colour)
        colour = BLACK + WHITE - colour
    assert 200 < len(game.moves) <= 3 * 361 + 2


def test_an_endless_game_is_ended() -> None:
    """White stones that are thrown in for ever, where Black always takes them."""
    game = GameSession(3)
    game.moves = [9] * 27
    assert len(play.player.candidate_points(game, BLACK, np.full(10, 0.1, np.float32))) == 0
    game.moves = [9, *[0] * 16]
    assert len(play.player.candidate_points(game, BLACK, np.full(10, 0.1, np.float32))) == 9


# the game behind it


def test_session() -> None:
    game = GameSession(5, 3)
    assert game.is_empty
    assert game.trailing_passes == 0
    game.play(3, WHITE)
    with pytest.raises(IllegalMove):
        game.play(3, BLACK)
    game.play(15, BLACK)
    assert (game.moves, game.trailing_passes, game.is_empty) == ([3 | WHITE_BIT, 15], 1, False)
    game.play(15, WHITE)
    game.play(15, WHITE)
    assert game.trailing_passes == 2
    with pytest.raises(GameError, match="before the first move"):
        game.place_handicap([1, 2])
    for _ in range(4):
        game.undo()
    assert game.is_empty
    assert game.board == GameSession(5, 3).board
    with pytest.raises(GameError, match="no move to take back"):
        game.undo()
    game.place_handicap([1, 2])
    assert (game.is_empty, game.board.to_play) == (False, WHITE)
    game.play(7, WHITE)
    game.undo()
    assert (named(game.board.stones.ravel() == BLACK, 5), game.board.to_play) == ("B3 C3", WHITE)
