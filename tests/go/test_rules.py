"""Ko, superko and suicide: whole games by the compiled rules against the naive board, and the cases in the books."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiled import LARGEST, assert_state
from kifu.errors import DropReason, IllegalMove, RecipeError
from kifu.go.board import Board
from kifu.go.rules import NAMED, RECORD_RULES, Rules, add_all, enlarged, new_history
from kifu.point import BLACK, WHITE, parse_gtp
from naive import FORBIDDEN, REMOVED, NaiveBoard

ALL_RULES = [Rules(ko, suicide) for ko in ("none", "simple", "positional", "situational") for suicide in (False, True)]
SMALL = st.tuples(st.integers(1, 4), st.integers(1, 3))  # where games repeat themselves soon
ANY = st.tuples(st.integers(1, LARGEST), st.integers(1, LARGEST))


def assert_same(board, naive, colour):
    """Board and naive board agree on the position, and on every move of that colour."""
    w = naive.width
    assert_state(board._state, naive)
    allowed = [naive.why_not(point, colour) == DropReason.KEPT for point in naive.points()]
    assert board.legal(colour).tolist() == [*allowed, True]
    assert board.captures == naive.taken
    expected = None
    if naive.ko_point and naive.ko_player == board.to_play and naive.ko != "none":
        expected = naive.ko_point[1] * w + naive.ko_point[0]
    assert board.ko == expected
    liberties = np.zeros((naive.height, w), int)
    for _, stones, free in naive.chains():
        for x, y in stones:
            liberties[y, x] = len(free)
    assert np.array_equal(board.liberties, liberties)


def play_both(board, naive, move, colour):
    """One move, None for a pass, legal or not."""
    p = board.pass_move if move is None else move[1] * naive.width + move[0]
    why = naive.why_not(move, colour)
    if why == DropReason.KEPT:
        board.play(p, colour)
        naive.play(move, colour)
    else:
        with pytest.raises(IllegalMove) as error:
            board.play(p, colour)
        assert (error.value.ply, error.value.move, error.value.reason) == (board.ply, p, why)


def random_game(board, naive, rng, moves):
    """Mostly legal moves, mostly alternating; passes, repeated colours, and stones set up among them."""
    points = naive.points()
    for _ in range(moves):
        colour = board.to_play if rng.random() < 0.9 else BLACK + WHITE - board.to_play
        kind = rng.random()
        if kind < 0.02:
            point = points[int(rng.integers(len(points)))]
            new = int(rng.integers(3))
            before = dict(naive.stones)
            naive.stones = {p: c for p, c in {**before, point: new}.items() if c}
            sound = all(free for _, _, free in naive.chains())
            naive.stones = before
            if sound:  # a board refuses the others, see test_board.py
                naive.set_up({point: new})
                p = point[1] * naive.width + point[0]
                board.setup(**{("empty", "black", "white")[new]: [p]})
        elif kind < 0.1:
            play_both(board, naive, None, colour)
        else:
            legal = np.flatnonzero(board.legal(colour)[:-1])
            anywhere = kind < 0.2 or not len(legal)
            p = int(rng.integers(len(points))) if anywhere else int(rng.choice(legal))
            play_both(board, naive, points[p], colour)
        assert_same(board, naive, colour)


@pytest.mark.nojit
@pytest.mark.parametrize("rules", ALL_RULES, ids=lambda rules: f"{rules.ko}-{'suicide' if rules.suicide else 'tame'}")
@given(st.one_of(SMALL, SMALL, SMALL, ANY), st.integers(0, 2**32))
def test_random_games_under_all_rules(rules, size, seed):
    board, naive = Board(*size, rules=rules), NaiveBoard(*size, rules.ko, REMOVED if rules.suicide else FORBIDDEN)
    random_game(board, naive, np.random.default_rng(seed), 30)


def test_random_games_do_repeat_themselves():
    """The test above would prove little of superko if it never came up."""
    banned = set()
    for rules, seed in itertools.product(ALL_RULES, range(8)):
        naive = NaiveBoard(3, 2, rules.ko, REMOVED if rules.suicide else FORBIDDEN)
        rng = np.random.default_rng(seed)
        board = Board(3, 2, rules=rules)
        for _ in range(40):
            for point in naive.points():
                banned.add((rules.ko, naive.why_not(point, board.to_play)))
            legal = np.flatnonzero(board.legal())
            p = int(rng.choice(legal))
            play_both(board, naive, None if p == board.pass_move else naive.points()[p], board.to_play)
    assert {ko for ko, why in banned if why == DropReason.SUPERKO} == {"positional", "situational"}
    assert {ko for ko, why in banned if why == DropReason.KO} == {"simple", "positional", "situational"}


KO_SHAPE = """
. X O . .
X O . O .
. X O . .
. . . . .
"""


@pytest.mark.parametrize("ko", ["simple", "positional", "situational"])
def test_a_ko_may_not_be_retaken_at_once(ko):
    board = Board.parse(KO_SHAPE, rules=Rules(ko))
    board.play("C3")
    assert board.ko == parse_gtp("B3", 5, 4)
    assert not board.is_legal("B3")
    with pytest.raises(IllegalMove, match="an immediate ko recapture") as error:
        board.play("B3")
    assert error.value.reason == DropReason.KO
    board.play("E1")
    assert board.ko is None
    board.play("A1")
    board.play("B3")  # a ko threat later
    assert board.ko == parse_gtp("C3", 5, 4)


def test_without_a_ko_rule_it_may():
    board = Board.parse(KO_SHAPE, rules=Rules("none"))
    board.play("C3")
    assert board.ko is None
    board.play("B3")


def test_the_ban_is_on_the_other_player_only():
    """The side that captured may fill the ko by playing twice in a row."""
    board = Board.parse(KO_SHAPE)
    board.play("C3", BLACK)
    assert not board.is_legal("B3", WHITE)
    assert board.is_legal("B3", BLACK)
    assert board.ko is not None
    board.to_play = BLACK
    assert board.ko is None
    board.play("B3", BLACK)


@pytest.mark.parametrize(
    ("ko", "why"),
    [("simple", DropReason.KEPT), ("positional", DropReason.SUPERKO), ("situational", DropReason.SUPERKO)],
)
def test_a_ko_retaken_after_two_passes(ko, why):
    """Passes lift the ban of simple ko; superko sees that Black has had to move in that position before."""
    board = Board.parse(KO_SHAPE, rules=Rules(ko))
    board.play("C3")
    board.pass_()
    board.pass_()
    assert board.is_legal(board.pass_move)
    check(board, "B3", why)


@pytest.mark.parametrize(
    ("ko", "why"), [("simple", DropReason.KEPT), ("positional", DropReason.SUPERKO), ("situational", DropReason.KEPT)]
)
def test_sending_two_returning_one(ko, why):
    """White plays A3, Black takes two, White takes one back: the stones are as before, but now Black is to move."""
    board = Board.parse(". O . O\nX X O O\n. . . .", to_play=WHITE, rules=Rules(ko))
    before = board.stones
    board.play("A3")
    board.play("C3")
    assert board.captures == {BLACK: 2, WHITE: 0}
    assert board.ko is None
    check(board, "B3", why)
    assert np.array_equal(board.stones, before) == (why == DropReason.KEPT)


def check(board, move, why):
    if why == DropReason.KEPT:
        board.play(move)
    else:
        with pytest.raises(IllegalMove) as error:
            board.play(move)
        assert error.value.reason == why


def test_superko_forgets_what_was_before_a_setup():
    """And a copy of the board remembers what the board does."""
    board = Board.parse(KO_SHAPE, rules=Rules("positional"))
    board.play("C3")
    board.pass_()
    board.pass_()
    twin = board.copy()
    assert np.array_equal(twin.legal(), board.legal())
    assert not twin.is_legal("B3")
    board.setup(black=["E1"])
    board.setup(empty=["E1"])
    assert np.array_equal(board.stones, twin.stones)
    assert board.is_legal("B3")
    assert not twin.is_legal("B3")


def test_suicide():
    board = Board.parse(". X O\nX X O\nO O .", rules=Rules("simple", suicide=True))
    board.play("A3")  # three black stones and this one: no liberty is left to them
    assert board.stones.tolist() == [[0, 0, 2], [0, 0, 2], [2, 2, 0]]
    assert board.captures == {BLACK: 0, WHITE: 4}
    assert "(" not in str(board)
    tame = Board.parse(". X O\nX X O\nO O .", rules=Rules("simple", suicide=False))
    assert not tame.is_legal("A3")
    assert tame.is_legal("A3", WHITE)
    alone = Board.parse(". O\nO .")
    with pytest.raises(IllegalMove, match="suicide"):
        alone.play("A2")


def test_history_grows_and_keeps_all():
    history, rng = new_history(0), np.random.default_rng(3)
    keys = rng.integers(0, 2**64, 300, np.uint64)
    keys[::2] = keys[::2] & ~np.uint64(0xFFFF)  # crowded into few slots
    for count in range(len(keys)):
        if 2 * count + 2 > len(history.slots):
            history = enlarged(history)
        add_all(history, keys[count : count + 1])
        assert history.scalars[1] == count + 1 <= len(history.slots) // 2
    kept = history.slots[history.stamps == history.scalars[0]]
    assert sorted(kept.tolist()) == sorted(keys.tolist())


def test_named_rules():
    assert Rules() == RECORD_RULES == Rules.named("records")
    assert Rules.named("Tromp-Taylor") == Rules("positional", suicide=True)
    assert {name: (rules.ko, rules.suicide) for name, rules in NAMED.items()}["new-zealand"] == ("situational", True)
    with pytest.raises(RecipeError, match="unknown rule set 'ing'; available: records, japanese, korean, chinese"):
        Rules.named("ing")
    with pytest.raises(RecipeError, match="ko rule 'super' is none of none, simple, positional, situational"):
        Rules("super")
