"""Replay of many games, and captures per move, compared with boards played move by move."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drawn_games
import kifu
from compiled import LARGEST, assert_state
from drawn_games import Flat, OneGame, flat, one_game, sgf
from kifu.errors import DropReason, IllegalMove
from kifu.go.board import Board
from kifu.go.replay import GameMoves, captured_stones, replay_all, replay_to
from kifu.go.rules import RECORD_RULES, Rules, new_history
from kifu.go.state import new_state
from kifu.point import BLACK, ERASE_BIT, NO_POINT, POINT_MASK, WHITE, WHITE_BIT
from naive import FORBIDDEN, REMOVED, NaiveBoard


def follow(game, rules, plies):
    """Why a game stops, after how many moves, and the naive board there."""
    w, n = game.width, game.width * game.height
    naive = NaiveBoard(w, game.height, rules.ko, REMOVED if rules.suicide else FORBIDDEN)
    for ply in range(plies + 1):
        due = [word for at, word in game.setup if at == ply]
        if any(word & POINT_MASK >= n for word in due):
            return DropReason.OFF_BOARD, ply, naive
        for word in due:
            p = word & POINT_MASK
            naive.set_up({(p % w, p // w): 0 if word & ERASE_BIT else WHITE if word & WHITE_BIT else BLACK})
        if ply < plies:
            p, colour = game.moves[ply] & POINT_MASK, WHITE if game.moves[ply] & WHITE_BIT else BLACK
            point = None if p == n else (p % w, p // w)
            why = DropReason.OFF_BOARD if p > n else naive.why_not(point, colour)
            if why != DropReason.KEPT:
                return why, ply, naive
            naive.play(point, colour)
    return DropReason.KEPT, plies, naive


@st.composite
def games(draw, min_size=1, max_size=LARGEST):
    """A game whose moves mostly go to empty points, so that many are legal to the end."""
    width, height = draw(st.integers(min_size, max_size)), draw(st.integers(min_size, max_size))
    n = width * height
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    naive, moves, setup = NaiveBoard(width, height, "none", REMOVED), [], []
    if rng.random() < 0.3:
        setup = [(0, int(rng.integers(n)) | int(rng.choice([0, WHITE_BIT]))) for _ in range(int(rng.integers(5)))]
        for _, word in setup:
            p = word & POINT_MASK
            naive.set_up({(p % width, p // width): WHITE if word & WHITE_BIT else BLACK})
    for ply in range(int(rng.integers(50))):
        colour = int(rng.integers(1, 3)) if rng.random() < 0.05 else 1 + ply % 2
        p = int(rng.integers(n + 1)) if rng.random() < 0.95 else int(rng.choice([n, n + 1, NO_POINT]))
        point = (p % width, p // width)
        if p < n and naive.why_not(point, colour) != DropReason.KEPT and rng.random() < 0.95:
            p = n
        if p < n and naive.why_not(point, colour) == DropReason.KEPT:
            naive.play(point, colour)
        moves.append(p | (WHITE_BIT if colour == WHITE else 0))
        if rng.random() < 0.02:
            setup.append((ply + 1, int(rng.integers(n + 1)) | int(rng.choice([0, WHITE_BIT, ERASE_BIT]))))
    return OneGame(width, height, moves, tuple(setup))


ANY_GAMES = st.lists(st.one_of(games(max_size=4), games()), max_size=8)
ANY_RULES = st.builds(Rules, st.sampled_from(["none", "simple", "positional", "situational"]), st.booleans())


@pytest.mark.nojit
@given(ANY_GAMES, ANY_RULES, st.integers(1, 3))
def test_replay_is_what_the_naive_board_says(some, rules, jobs):
    drop, ply = replay_all(flat(some), rules, jobs)
    expected = [follow(game, rules, len(game.moves))[:2] for game in some]
    assert (drop.dtype, ply.dtype) == (np.uint8, np.int32)
    assert list(zip(drop.tolist(), ply.tolist())) == expected


@pytest.mark.nojit
@given(games(), ANY_RULES, st.data())
def test_bringing_a_board_to_any_ply(game, rules, data):
    one = flat([game])
    state, history, captures = new_state(game.width, game.height), new_history(len(game.moves)), np.ones(2, np.int64)
    for plies in data.draw(st.lists(st.integers(0, len(game.moves)), min_size=1, max_size=4)):
        why, ply, naive = follow(game, rules, plies)
        arrays = one.moves, one.setup, one.setup_ply
        if why == DropReason.KEPT:
            replay_to(state, history, captures, GameMoves(*arrays), plies, rules)
            board = Board.after(game.width, game.height, *arrays, plies, rules=rules)
            assert captures.tolist() == [naive.taken[BLACK], naive.taken[WHITE]] == list(board.captures.values())
            assert board.ply == plies
            if plies < len(game.moves):
                assert board.to_play == (WHITE if game.moves[plies] & WHITE_BIT else BLACK)
            elif plies:
                assert board.to_play == (BLACK if game.moves[-1] & WHITE_BIT else WHITE)
            for colour in (BLACK, WHITE):
                legal = [naive.why_not(point, colour) == DropReason.KEPT for point in naive.points()]
                assert board.legal(colour)[:-1].tolist() == legal
        else:
            with pytest.raises(IllegalMove) as error:
                replay_to(state, history, captures, GameMoves(*arrays), plies, rules)
            assert (error.value.reason, error.value.ply) == (why, ply)
        assert_state(state, naive)


B, W = 0, WHITE_BIT
PASS3 = 9
FAULTS = {
    "empty": (OneGame(3, 3, []), DropReason.KEPT, 0),
    "two-blacks-in-a-row": (OneGame(3, 3, [4 | B, 0 | B]), DropReason.KEPT, 2),
    "passes": (OneGame(3, 3, [PASS3 | B, PASS3 | W, PASS3 | B]), DropReason.KEPT, 3),
    "no-point": (OneGame(3, 3, [4 | B, NO_POINT | W, 0 | B]), DropReason.OFF_BOARD, 1),
    "past-the-pass": (OneGame(3, 3, [PASS3 + 1 | B]), DropReason.OFF_BOARD, 0),
    "occupied": (OneGame(3, 3, [4 | B, 4 | W]), DropReason.OCCUPIED, 1),
    "single-stone-suicide": (OneGame(3, 3, [1 | B, PASS3 | W, 3 | B, 0 | W]), DropReason.SUICIDE, 3),
    "setup-under-a-move": (OneGame(3, 3, [4 | B, 0 | W], ((1, 0 | B),)), DropReason.OCCUPIED, 1),
    "setup-erases": (OneGame(3, 3, [4 | B, 4 | W], ((1, 4 | ERASE_BIT),)), DropReason.KEPT, 2),
    "setup-off-the-board": (OneGame(3, 3, [4 | B, 0 | W], ((1, 9 | B),)), DropReason.OFF_BOARD, 1),
    "setup-after-the-end": (OneGame(3, 3, [4 | B], ((1, NO_POINT | B),)), DropReason.OFF_BOARD, 1),
    "setup-of-no-point": (OneGame(3, 3, [], ((0, NO_POINT | W),)), DropReason.OFF_BOARD, 0),
    "no-width": (OneGame(0, 3, [4 | B]), DropReason.BAD_SIZE, 0),
    "too-high": (OneGame(19, 26, [4 | B]), DropReason.BAD_SIZE, 0),
    "ko": (OneGame(4, 3, [1, 2 | W, 4, 7 | W, 9, 10 | W, 12, 5 | W, 6, 5 | W]), DropReason.KO, 9),
}


@pytest.mark.nojit
def test_each_fault_and_only_its_own_game():
    drop, ply = replay_all(flat(game for game, _, _ in FAULTS.values()), jobs=2)
    reported = {name: (DropReason(d), int(p)) for name, d, p in zip(FAULTS, drop, ply)}
    assert reported == {name: (why, at) for name, (_, why, at) in FAULTS.items()}


def test_suicide_in_a_record_depends_on_the_rules():
    """Black's two stones are gone after it, so that White may play there."""
    game = flat([OneGame(3, 2, [0 | B, 2 | W, 6 | B, 3 | W, 6 | B, 4 | W, 1 | B, 0 | W])])
    for rules, why, played in [(RECORD_RULES, DropReason.KEPT, 8), (Rules.named("japanese"), DropReason.SUICIDE, 6)]:
        drop, ply = replay_all(game, rules)
        assert (drop[0], ply[0]) == (why, played)


@pytest.mark.nojit
def test_a_setup_begins_the_history_anew():
    """A ko is taken, both pass, it is retaken: a repetition, unless there was a setup meanwhile, even an idle one."""
    taken = [1, 2 | W, 4, 7 | W, 9, 10 | W, 12, 5 | W, 6, 12 | W, 12, 5 | W]
    plain = OneGame(4, 3, taken)
    edited = OneGame(4, 3, taken, ((11, 1 | B),))
    for ko in ("positional", "situational"):
        drop, ply = replay_all(flat([plain, edited]), Rules(ko))
        assert (drop.tolist(), ply.tolist()) == ([DropReason.SUPERKO, DropReason.KEPT], [11, 12])


@pytest.mark.nojit
def test_a_pass_captures_nothing():
    one = flat([OneGame(3, 3, [3, 6 | W, 7, PASS3 | W, PASS3 | B])])
    assert Board.after(3, 3, one.moves, one.setup, one.setup_ply, 5).captures == {BLACK: 1, WHITE: 0}


def test_no_games():
    drop, ply = replay_all(flat([]))
    assert (drop.shape, ply.shape) == ((0,), (0,))


def test_arrays_read_from_a_map_are_as_good():
    some = flat([FAULTS["ko"][0]])
    frozen = SimpleNamespace(**some._asdict())
    for array in vars(frozen).values():
        array.setflags(write=False)
    assert replay_all(frozen)[1].tolist() == [9]


def test_a_ply_that_the_game_has_not():
    one = flat([OneGame(3, 3, [4])])
    for plies in (-1, 2):
        with pytest.raises(IndexError, match=f"ply {plies} is not within 0 to 1"):
            Board.after(3, 3, one.moves, one.setup, one.setup_ply, plies)


def arrays(*games: kifu.Game) -> Flat:
    return flat(
        OneGame(g.width, g.height, g.moves.tolist(), tuple(zip(g.setup_ply.tolist(), g.setup.tolist()))) for g in games
    )


@pytest.mark.nojit
@given(drawn_games.games())
def test_equals_boards(drawn: tuple) -> None:
    game = kifu.read_sgf(sgf(*drawn))
    expected = []
    for ply, word in enumerate(game.moves.tolist()):
        board, opponent = game.board(ply), 1 if word & WHITE_BIT else 2
        before = (board.stones == opponent).sum()
        board.to_play = 3 - opponent
        board.play(word & ~WHITE_BIT)
        expected.append(before - (board.stones == opponent).sum())
    assert captured_stones(flat([one_game(*drawn)]), np.arange(1)).tolist() == expected


@pytest.mark.nojit
def test_only_chosen_games_up_to_the_first_illegal_move() -> None:
    legal = kifu.read_sgf(b"(;SZ[5];B[ba];W[aa];B[ab];W[ee])")
    illegal = kifu.read_sgf(b"(;SZ[5];B[ba];W[aa];B[ab];W[ab];B[cc];W[ee])")
    both = arrays(legal, illegal, legal)
    assert captured_stones(both, np.array([1, 2])).tolist() == [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0]
    assert not captured_stones(both, np.empty(0, np.int64)).any()
