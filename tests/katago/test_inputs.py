"""KataGo's planes and scalar inputs: bit-exact with KataGo, and equal to a slow reference."""

from collections import Counter
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn_planes import turn
from flat import OneGame, flat
from kata_reference import read_reference
from kifu.errors import DropReason, GameError
from kifu.katago.inputs import KataEncoder
from kifu.katago.rules import GAME_RULES, KataRules
from kifu.planes.registry import KATAGO22
from kifu.point import BLACK, WHITE, WHITE_BIT
from naive_board_history import NaiveBoardHistory

W = WHITE_BIT
TT = "tromp-taylor"
ENCODER = KataEncoder(KATAGO22, 19, 19, True)

PASS = 0x3FFE  # until the size of the board is known
MOVES = {DropReason.OCCUPIED, DropReason.SUICIDE, DropReason.KO, DropReason.SUPERKO}

OUT_OF_TURN = {"05_handicap_as_moves_jp.sgf": 1, "16_nonalternating_jp.sgf": 3}
"""Games with all of KataGo's rows, and the ply of the move out of turn in each."""

HUNDREDTHS = {"09_komi_100_tt.sgf": 100, "09_komi_400_tt.sgf": 400}
"""Komi that the catalogue reads as hundredths of a point, as KGS once wrote it, and KataGo as points."""

OTHER_LINE = {"11_variation_second_longer.sgf", "12_two_in_node.sgf"}
"""Games with another main line: kifu follows first children and reads one move per node, KataGo the longest line and
both moves."""


class Encoded(NamedTuple):
    """Encoded games: planes [M, 22, bytes], label [M], numbers [M, 19], and by game the first row, drop, ply."""

    planes: npt.NDArray
    label: npt.NDArray
    numbers: npt.NDArray
    start: npt.NDArray
    drop: npt.NDArray
    ply: npt.NDArray

    def board(self, size=19):
        """[M, 22, size, size]"""
        return np.unpackbits(self.planes, axis=2)[..., : size * size].reshape(-1, 22, size, size)


class Rooted(NamedTuple):
    """Return games of `flat` with their first setup in the root."""

    width: npt.NDArray
    height: npt.NDArray
    moves: npt.NDArray
    move_offset: npt.NDArray
    setup: npt.NDArray
    setup_ply: npt.NDArray
    setup_offset: npt.NDArray
    root_setup: npt.NDArray


def rooted(games):
    return Rooted(*flat(games), np.array([sum(ply == 0 for ply, _ in game.setup) for game in games], np.uint16))


def rules_for(rules, komi=7.5, handicap=None):
    rules = KataRules.parse(rules) if isinstance(rules, str) else rules
    return np.array([(*rules.codes, komi, -1 if handicap is None else handicap)], GAME_RULES)


def encode(games, rules, rows=None, symmetry=None, take=None, encoder=ENCODER):
    """Encode all positions of games, or those in `take`."""
    rows = np.arange(len(games.width)) if rows is None else rows
    start = np.cumsum(np.append(0, games.move_offset[rows + 1] - games.move_offset[rows]))
    count = start[-1]
    planes, labels = encoder.new_out(count), encoder.new_labels(count)
    planes[:], labels["move"][:], labels["globals"][:] = 0xEE, -9, np.nan
    slots = np.arange(count) if take is None else np.where(take, np.arange(count), -1)
    drop, ply = encoder.replay(games, rows, rules, symmetry, slots, planes, labels)
    return Encoded(planes, labels["move"], labels["globals"], start, drop, ply)


@pytest.fixture(scope="module")
def reference(shared, tmp_path_factory):
    found = {}

    def read(name):
        if name not in found:
            found[name] = read_reference(shared, name, tmp_path_factory.mktemp("katago"))
            for game, komi in HUNDREDTHS.items():
                found[name].rules["komi"][found[name].rows["names"] == game] = komi
        return found[name]

    return read


def games_of(reference):
    """Yield (name, game's row in the reference, its strict rows) of each game with rows."""
    said, strict = reference.rows, reference.rows["strict"] == 1
    for g, name in enumerate(said["names"].tolist()):
        rows = np.flatnonzero(said["game"] == g)
        if len(rows):
            yield name, g, rows[strict[rows]]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dev", "area", "handmade"])
def test_every_bit_equals_katagos(name, reference):
    found = reference(name)
    said, strict = found.rows, 0
    assert (found.order >= 0).all()
    encoded = encode(found.games, found.rules, found.order)
    for game, g, theirs in games_of(found):
        if game in OTHER_LINE:
            continue
        ours = encoded.start[g] + said["turn"][theirs]
        np.testing.assert_array_equal(encoded.label[ours], said["move"][theirs], game)
        np.testing.assert_array_equal(encoded.planes[ours], said["binaryInputNCHWPacked"][theirs], game)
        assert encoded.numbers[ours].tobytes() == said["globalInputNC"][theirs].tobytes(), game
        strict += len(theirs)
    assert strict == {"dev": 27739, "area": 9750, "handmade": 11311 - 5 - 6}[name]


def test_games_end_as_in_katago(reference):
    found = reference("handmade")
    said = found.rows
    encoded = encode(found.games, found.rules, found.order)
    ends = Counter()
    for game, g, theirs in games_of(found):
        rows = np.flatnonzero(said["game"] == g)
        why, ply = DropReason(int(encoded.drop[g])), encoded.ply[g]
        if game in OTHER_LINE | OUT_OF_TURN.keys():
            continue
        ends[why] += 1
        assert ply == len(theirs), game
        if ply == len(rows):
            assert why == DropReason.KEPT, game
        elif said["gameFinished"][rows[ply]] or said["encorePhase"][rows[ply]]:
            assert why == DropReason.AFTER_END, game
        else:
            assert not said["legal"][rows[ply]], game
            assert why in MOVES, game
    assert {DropReason.KEPT, DropReason.AFTER_END, DropReason.SUICIDE, DropReason.SUPERKO} <= ends.keys()


def test_rows_after_a_move_out_of_turn(reference):
    found = reference("handmade")
    said, names = found.rows, found.rows["names"].tolist()
    encoded = encode(found.games, found.rules, found.order)
    for game, out_of_turn in OUT_OF_TURN.items():
        g = names.index(game)
        rows = np.flatnonzero(said["game"] == g)
        assert (encoded.drop[g], encoded.ply[g]) == (0, len(rows))
        assert np.flatnonzero(said["legal"][rows] == 0).tolist() == [out_of_turn]
        ours = encoded.start[g] + np.arange(len(rows))
        np.testing.assert_array_equal(encoded.planes[ours], said["binaryInputNCHWPacked"][rows])
        np.testing.assert_array_equal(encoded.numbers[ours], said["globalInputNC"][rows])


RULES = st.builds(
    KataRules,
    ko=st.sampled_from(["simple", "positional", "situational", "spight"]),
    scoring=st.sampled_from(["area", "territory"]),
    tax=st.sampled_from(["none", "seki", "all"]),
    suicide=st.booleans(),
    button=st.booleans(),
    handicap_bonus=st.sampled_from(["0", "n", "n-1"]),
)


class Seen(NamedTuple):
    """The state of the naive board history before a move."""

    stones: dict
    banned: set
    last: list
    numbers: list
    mover: int


@st.composite
def courses(draw_from):
    """Return a random game on a tiny board, mostly legal and in turn, its rules, the states before its moves, and the
    drop reason."""
    width, height = draw_from(st.sampled_from([(2, 2), (2, 3), (3, 2), (3, 3), (4, 4)]))
    rules, rng = draw_from(RULES), Random(draw_from(st.integers(0, 1 << 30)))
    points = [(x, y) for y in range(height) for x in range(width)]
    setup = {point: rng.choice([BLACK, WHITE]) for point in rng.sample(points, rng.choice([0, 0, 1, 2]))}
    komi, handicap = rng.choice([0, 0.5, 6.5, 7, -3, 40, -60]), rng.choice([None, None, 0, 1, 3])
    mover = rng.choice([BLACK, WHITE])
    history = NaiveBoardHistory(width, height, setup, rules, komi, handicap, mover)
    moves, seen, why = [], [], DropReason.KEPT
    for _ in range(rng.choice([5, 30, 90])):
        legal = [point for point in points if history.why_not(point, mover) == DropReason.KEPT]
        point = rng.choice(points if rng.random() < 0.02 else legal) if legal and rng.random() < 0.85 else None
        moves.append(word(point, mover, width))
        why = DropReason.AFTER_END if history.over else history.why_not(point, mover)
        if why != DropReason.KEPT:
            break
        seen.append(
            Seen(history.board.stones, history.banned(), history.last_moves(mover), history.inputs(mover), mover)
        )
        history.play(point, mover)
        mover = history.mover if rng.random() < 0.95 else 3 - history.mover
    moves = [width * height | each & W if each & ~W == PASS else each for each in moves]
    game = OneGame(width, height, moves, tuple((0, word(point, colour, width)) for point, colour in setup.items()))
    return game, rules_for(rules, komi, handicap), seen, why


def word(point, colour, width):
    return (PASS if point is None else point[1] * width + point[0]) | (W if colour == WHITE else 0)


@pytest.mark.nojit
@given(courses())
def test_bans_and_inputs_equal_the_naive_board_history(played):
    game, rules, seen, reason = played
    encoded = encode(rooted([game]), rules, encoder=KataEncoder(KATAGO22, game.width, game.height, False))
    assert (encoded.drop.tolist(), encoded.ply.tolist()) == ([reason], [len(seen)])
    points = game.width * game.height
    planes = np.unpackbits(encoded.planes, axis=2)[..., :points].reshape(-1, 22, game.height, game.width)
    for t, at in enumerate(seen):
        marked = [{(x, y) for y, x in np.argwhere(plane).tolist()} for plane in planes[t]]
        for plane, colour in ((1, at.mover), (2, 3 - at.mover)):
            assert marked[plane] == {point for point, stone in at.stones.items() if stone == colour}
        assert marked[6] == at.banned
        assert marked[9:14] == [{point} - {None} for point in at.last] + [set()] * (5 - len(at.last))
        np.testing.assert_allclose(encoded.numbers[t], at.numbers, atol=1e-6)


@pytest.mark.parametrize("k", range(8))
def test_rows_of_a_rotated_game_are_rotated_rows(k):
    rng = np.random.default_rng(k)
    games = rooted([OneGame(9, 9, [int(p) | W * (i & 1) for i, p in enumerate(rng.permutation(81)[:60])])] * 2)
    for rules in (TT, "ancient-area", "japanese"):
        both = encode(games, np.repeat(rules_for(rules), 2), symmetry=np.array([0, k], np.uint8))
        count = both.ply[0]
        assert both.ply[1] == count > 5
        straight, turned = (both.board()[i * 60 : i * 60 + count, :, :9, :9] for i in range(2))
        np.testing.assert_array_equal(turned, turn(straight, k))
        np.testing.assert_array_equal(both.numbers[60 : 60 + count], both.numbers[:count])
    assert not both.board()[:count, :, 9:].any()
    assert not both.board()[:count, :, :, 9:].any()


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("game", "why", "ply"),
    [
        (OneGame(5, 5, []), DropReason.KEPT, 0),
        (OneGame(1, 5, [0]), DropReason.WRONG_SIZE, 0),
        (OneGame(20, 20, [0]), DropReason.WRONG_SIZE, 0),
        (OneGame(5, 5, [0], ((0, 1), (0, 5 | W), (0, 1 | W))), DropReason.SETUP_TWICE, 0),
        (OneGame(5, 5, [7], ((0, 0), (0, 1 | W), (0, 5 | W))), DropReason.SETUP_DEAD, 0),
        (OneGame(5, 5, [7], ((0, 25),)), DropReason.OFF_BOARD, 0),
        (OneGame(5, 5, [0, 1 | W, 2], ((2, 8),)), DropReason.SETUP_LATER, 2),
        (OneGame(5, 5, [0, 1 | W], ((2, 8),)), DropReason.KEPT, 2),  # after the last move
        (OneGame(5, 5, [0, 30 | W]), DropReason.OFF_BOARD, 1),
        (OneGame(5, 5, [0, 0 | W]), DropReason.OCCUPIED, 1),
        (OneGame(5, 5, [0, 25 | W, 25, 3 | W]), DropReason.AFTER_END, 3),
        (OneGame(5, 5, [0, 25 | W, 25]), DropReason.KEPT, 3),
        (OneGame(2, 2, [0, 1 | W, 3]), DropReason.KEPT, 3),
    ],
)
def test_odd_games(game, why, ply):
    encoded = encode(rooted([game]), rules_for(TT), encoder=KataEncoder(KATAGO22, 5, 5, True))
    assert (encoded.drop.tolist(), encoded.ply.tolist()) == ([why], [ply])


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("rules", "moves", "plies"),
    [
        ("simple", [0, 2, 4, 1, 4, 3, 0, 2, 4], 9),  # Black passed in this position before
        ("spight", [1, 2, 4, 0, 4, 3, 1, 2, 4], 9),
        ("simple", [2, 3, 0, 1, 2, 0, 2, 1, 0, 3, 2, 0, 2], 13),  # this position, for the third time
        ("simple", [0, 4, 4], 3),
        ("positional", [0, 4, 4], 3),
        ("spight", [0, 4, 4, 1], 4),  # two passes alone end nothing
    ],
)
def test_how_a_game_ends(rules, moves, plies):
    """On 2 x 2; the last move ends each game except the last one."""
    moves = [p | W * (i & 1) for i, p in enumerate(moves)]
    games = rooted([OneGame(2, 2, [*moves, 4 | W * (len(moves) & 1)])])
    for scoring in ("area", "territory"):
        terms = rules_for(KataRules(rules, scoring))
        encoded = encode(games, terms, encoder=KataEncoder(KATAGO22, 2, 2, False))
        goes_on = plies == 4
        assert (encoded.drop[0], encoded.ply[0]) == (
            (DropReason.KEPT, plies + 1) if goes_on else (DropReason.AFTER_END, plies)
        )
        if moves[-1] & ~W == 4:
            assert encoded.numbers[plies - 1, 14] == 1


def test_setup_in_a_later_node_before_the_first_move():
    games = rooted([OneGame(5, 5, [0], ((0, 8), (0, 9)))])._replace(root_setup=np.array([1], np.uint16))
    encoded = encode(games, rules_for(TT))
    assert (encoded.drop.tolist(), encoded.ply.tolist()) == ([DropReason.SETUP_LATER], [0])


def test_only_positions_with_a_slot_are_encoded():
    rng = np.random.default_rng(1)
    games = rooted([OneGame(7, 7, [int(p) | W * (i & 1) for i, p in enumerate(rng.permutation(49)[:40])])] * 3)
    terms = np.repeat(rules_for(TT), 3)
    every = encode(games, terms)
    take = rng.random(120) < 0.3
    some = encode(games, terms, take=take)
    reached = np.concatenate([np.arange(40) < ply for ply in every.ply])
    for encoded, other in ((some.planes, every.planes), (some.numbers, every.numbers), (some.label, every.label)):
        np.testing.assert_array_equal(encoded[take & reached], other[take & reached])
    assert (some.label[~take] == -9).all()
    assert (some.planes[~take] == 0xEE).all()


def test_long_and_short_games_share_scratch_memory():
    rng = np.random.default_rng(2)
    moves = []
    while len(moves) < 3000:
        moves += [int(p) | W * (i & 1) for i, p in enumerate(rng.permutation(16))]
    games = rooted([OneGame(4, 4, [0, 1 | W]), OneGame(4, 4, [16, 16 | W] * 700), OneGame(4, 4, moves)])
    encoded = encode(games, np.repeat(rules_for(TT), 3))
    assert encoded.ply[:2].tolist() == [2, 2]


def test_unsupported_board_sizes_raise():
    for size in ((1, 9), (20, 19), (25, 25)):
        with pytest.raises(GameError, match="from 2 x 2 to 19 x 19"):
            KataEncoder(KATAGO22, *size, False)


def test_mismatched_arrays_raise():
    games = rooted([OneGame(5, 5, [0, 1 | W])])
    with pytest.raises(ValueError, match="context must have the rules of 1 games, got 2"):
        encode(games, np.repeat(rules_for(TT), 2))
    planes, labels = ENCODER.new_out(2), ENCODER.new_labels(2) | {"globals": np.empty((1, 19), np.float32)}
    with pytest.raises(ValueError, match=r"globals must be float32 \[2, 19\], got float32 \(1, 19\)"):
        ENCODER.replay(games, np.zeros(1, np.int64), rules_for(TT), None, np.arange(2), planes, labels)
