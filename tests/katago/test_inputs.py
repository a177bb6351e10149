"""KataGo's planes and scalar inputs: bit-exact with KataGo, and equal to a slow reference."""

import json
import pickle
from collections import Counter
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kifu
from drawn_games import OneGame, flat, turn
from kata_reference import read_reference
from kata_reference import unpack as unpack_records
from kgs_archives import BROKEN, archive, records
from kifu.arrays import MoveArrays
from kifu.config import check_config
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.datasets.examples import Batch
from kifu.errors import DropReason, GameError, IllegalMove, RecipeError
from kifu.katago.inputs import KataEncoder, encode_katago
from kifu.katago.rules import GAME_RULES, KataRules, resolve_rules_or_default
from kifu.planes.packing import unpack
from kifu.planes.registry import KATAGO22, find_plane_set
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT, symmetries
from kifu.recipes.pipeline import build
from kifu.recipes.schema import ExamplesRecipe, load_training
from lazy import lazy_import
from loader_games import apply_symmetry, assert_same, concat_batches, kept_games, load, one_batch
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
    stones: dict
    banned: set
    last: list
    numbers: list
    mover: int


@st.composite
def courses(draw_from):
    """Return a random game on a tiny board, its rules, the states before its moves, and the drop reason."""
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


loss = lazy_import("kifu.learn.loss")

HEADS = (
    b"RU[Japanese]KM[6.5]", b"RU[chinese]KM[7]", b"RU[AGA]KM[0.5]", b"RU[New Zealand]KM[-5]", b"", b"KM[5.5]",
    b"RU[koSPIGHTscoreTERRITORYtaxNONEsui1]", b"RU[aga-button]",
)  # fmt: skip
BAD_TERMS = {"RULES_UNKNOWN": b"RU[house rules]KM[6.5]", "KOMI_UNKNOWN": b"RU[Japanese]KM[6.25]"}
"""Rules or komi that KataGo does not know."""

GOES_ON = b"(;SZ[19]PB[a]RU[Chinese]KM[7];B[aa];W[bb];B[];W[];B[cc])"
DIES = b"(;SZ[19]PB[b]RU[Chinese]KM[7];B[ab];W[aa];B[bb];W[pp];B[ca];W[ba];B[cc])"  # by its own sixth move
BUILT = {"kind": "examples", "name": "mine", "title": "mine", "planes": "katago22", "labels": ["globals", "move"]}


def row_ids(batch: Batch) -> list[tuple[int, int]]:
    return list(zip(batch.game.tolist(), batch.ply.tolist()))


def headed(texts: list[bytes], heads: tuple[bytes, ...]) -> list[bytes]:
    return [text.replace(b"SZ[19]", b"SZ[19]" + heads[k % len(heads)]) for k, text in enumerate(texts)]


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalogue of games under all kinds of rules, some of which KataGo rejects or follows only in part."""
    folder = tmp_path_factory.mktemp("katago")
    texts = headed(records(24, 3, 40), HEADS) + headed(records(2, 9, 20), (*BAD_TERMS.values(),))
    ingest(archive(folder, [*texts, GOES_ON, DIES, BROKEN["OCCUPIED"]]), folder / "games.parquet")
    return folder / "games.parquet"


def usual_komi(rules: KataRules) -> float:
    return 6.5 if rules.scoring == "territory" else 7.0 if rules.button else 7.5


def rows_of(game: kifu.Game, encoder: KataEncoder) -> tuple[np.ndarray, np.ndarray, DropReason]:
    """Encode all positions: planes [T, 22, H, W], globals [T, 19], and the drop reason."""
    rules = KataRules.parse(game.rules) if game.rules else KataRules()
    komi = usual_komi(rules) if game.komi is None else game.komi
    rules_row = np.array([(*rules.codes, komi, -1 if game.handicap is None else game.handicap)], GAME_RULES)
    plies = len(game.moves)
    out, labels = encoder.new_out(plies), encoder.new_labels(plies)
    alone = MoveArrays(
        np.array([game.width], np.uint8), np.array([game.height], np.uint8), game.moves, np.array([0, plies]),
        game.setup, game.setup_ply, np.array([0, len(game.setup)]), np.array([game.root_setup], np.uint16),
    )  # fmt: skip
    drop, ply = encoder.replay(alone, np.zeros(1, np.int64), rules_row, None, np.arange(plies), out, labels)
    planes = np.empty((plies, *encoder.shape), np.uint8)
    unpack(out, planes)
    return planes[: ply[0]], labels["globals"][: ply[0]], DropReason(drop[0])


@pytest.fixture(scope="module")
def wanted(games: Path) -> dict[tuple[int, int], tuple[np.ndarray, np.ndarray, int]]:
    """Planes, globals and the point played by (id, ply), for all positions that KataGo accepts."""
    encoder = KataEncoder(KATAGO22, 19, 19, False)
    found = {}
    for key, game in kept_games(games).items():
        if game.rules == "house rules" or game.komi == 6.25:
            continue
        planes, inputs, _ = rows_of(game, encoder)
        found |= {(key, t): (planes[t], inputs[t], int(game.moves[t] & POINT_MASK)) for t in range(len(planes))}
    return found


# Batches


def test_batches_equal_encoded_rows_under_their_symmetry(games, wanted):
    loader = load(games, "katago22", seed=3, batch_size=100, passes=True, window=200)
    assert [label.name for label in loader.layout.labels] == ["move", "globals"]
    batch = one_batch(loader)
    assert sorted(row_ids(batch)) == sorted(wanted)
    assert len(batch) == len(loader) * 100 - (-len(batch) % 100) > 700
    fits = {key: set(range(8)) for key, _ in wanted}  # the symmetries that a game's rows allow
    moves = batch.labels["move"].tolist()
    for planes, (key, t), move, inputs in zip(
        batch.unpack_planes(loader.layout), row_ids(batch), moves, batch.labels["globals"]
    ):
        before, numbers, point = wanted[key, t]
        assert inputs.tobytes() == numbers.tobytes()  # numbers do not turn
        fits[key] &= {
            k
            for k in range(8)
            if symmetries(19, 19)[k, point] == move and np.array_equal(planes, apply_symmetry(before, k))
        }
    assert all(fits.values())
    assert len(set().union(*fits.values())) == 8


def test_positions_that_katago_rejects_are_not_loaded(games):
    reasons = Counter()
    batch = one_batch(load(games, "katago22", passes=True))
    plies = Counter(batch.game.tolist())
    encoder = KataEncoder(KATAGO22, 19, 19, False)
    for key, game in kept_games(games).items():
        if game.rules == "house rules" or game.komi == 6.25:
            reasons["terms"] += 1
            assert plies[key] == 0
        else:
            reasons[rows_of(game, encoder)[2].name] += 1
    assert reasons["terms"] == 2
    assert reasons["SUICIDE"] == 1
    assert reasons["AFTER_END"] >= 1
    assert plies[next(key for key, game in kept_games(games).items() if game.players[0] == "a")] == 4
    assert plies[next(key for key, game in kept_games(games).items() if game.players[0] == "b")] == 5


@pytest.mark.parametrize(("output", "kind"), [("uint8", np.uint8), ("float32", np.float32), ("bfloat16", np.uint16)])
def test_planes_have_the_requested_output_type(games, output, kind):
    packed = load(games, "katago22", batch_size=64)
    ready = one_batch(load(games, "katago22", batch_size=64, output=output))
    assert ready.planes.dtype == kind
    values = (ready.planes.astype(np.uint32) << 16).view(np.float32) if output == "bfloat16" else ready.planes
    batch = one_batch(packed)
    assert batch.planes.shape[1:] == (22, 46)
    assert np.array_equal(values, batch.unpack_planes(packed.layout))
    assert np.array_equal(ready.labels["globals"], batch.labels["globals"])


def test_batches_are_the_same_resumed_pickled_and_with_any_threads(games, monkeypatch):
    monkeypatch.setattr("kifu.datasets.loader._CHUNK", 100)
    options = {"batch_size": 70, "seed": 4, "window": 150, "labels": ("globals", "result", "move", "next2")}
    loader = load(games, "katago22", jobs=3, **options)
    batches = list(loader)
    assert_same(concat_batches(batches, loader.layout), one_batch(load(games, "katago22", jobs=1, **options)))
    assert_same(one_batch(pickle.loads(pickle.dumps(loader.epoch(0)))), concat_batches(batches, loader.layout))
    loader = load(games, "katago22", **options)
    before = list(islice(loader, 3))
    again = load(games, "katago22", resume=json.loads(json.dumps(loader.state_dict())), **options)
    assert_same(concat_batches([*before, *again], loader.layout), concat_batches(batches, loader.layout))


def test_globals_may_be_omitted(games):
    batch = one_batch(load(games, "katago22", labels=("move",), seed=2))
    assert list(batch.labels) == ["move"]
    both = one_batch(load(games, "katago22", seed=2))
    assert batch.planes.tobytes() == both.planes.tobytes()
    assert batch.labels["move"].tobytes() == both.labels["move"].tobytes()


def test_small_boards_are_in_the_corner(tmp_path):
    text = b"(;SZ[%s]RU[Chinese]KM[6];B[aa];W[cc];B[bb];W[ab])"
    paths = [tmp_path / f"{size.decode().replace(':', 'x')}.sgf" for size in (b"5", b"4:3", b"1:7")]
    for path, size in zip(paths, (b"5", b"4:3", b"1:7")):
        path.write_bytes(text % size if size != b"1:7" else b"(;SZ[1:7]RU[Chinese]KM[6];B[aa];W[ac])")
    loader = load(paths, "katago22", board="7x7", pad=True, augment=False, shuffle=None)
    batch = one_batch(loader)
    assert loader.layout.shape == (22, 7, 7)
    sizes = Counter((int(b[0].any(0).sum()), int(b[0].any(1).sum())) for b in batch.unpack_planes(loader.layout))
    assert sizes == {(5, 5): 4, (4, 3): 4}  # KataGo has no boards with a side of one
    for planes, move in zip(batch.unpack_planes(loader.layout), batch.labels["move"].tolist()):
        assert planes[0, move // 7, move % 7]
        assert not planes[1:3, move // 7, move % 7].any()
    with pytest.raises(GameError, match=r"katago22@1 is for boards from 2 x 2 to 19 x 19, got 20 x 20"):
        load(paths, "katago22", board="20x20", pad=True)


def test_tensors_include_globals(games):
    torch = pytest.importorskip("torch")
    from kifu.datasets.torch_data import tensors

    batch = next(iter(load(games, "katago22", batch_size=9)))
    inputs = tensors(batch)["globals"]
    assert inputs.dtype == torch.float32
    assert np.array_equal(inputs, batch.labels["globals"])


def test_batches_equal_katagos_rows(shared, tmp_path):
    """Globals and planes of every position that the loader yields, for constructed games."""
    source = shared / "reference" / "katago" / "handmade-sgf.tar.gz"
    reference = np.load(source.with_name("handmade.npz"))
    # Read otherwise here: KM[400] is a hundredfold, as Fox writes it; of branches the first is taken, not the longest;
    # of two moves in a node the first.
    other = {"09_komi_100_tt.sgf", "09_komi_400_tt.sgf", "11_variation_second_longer.sgf", "12_two_in_node.sgf"}
    numbers = {str(name): k for k, name in enumerate(reference["names"]) if str(name) not in other}
    rows = {(int(game), int(turn)): k for k, (game, turn) in enumerate(zip(reference["game"], reference["turn"]))}
    unpack_records(source, set(numbers), tmp_path / "sgf")
    path = tmp_path / "games.parquet"
    ingest(tmp_path / "sgf", path)
    batch = one_batch(load(path, "katago22", pad=True, augment=False, passes=True, shuffle=None))
    (table,) = open_catalogue(path).batches(("id", "member"))
    names = dict(zip(table["id"].to_pylist(), table["member"].to_pylist()))
    at = [rows[numbers[names[key]], t] for key, t in row_ids(batch)]
    assert np.array_equal(batch.labels["globals"].view(np.uint32), reference["globalInputNC"][at].view(np.uint32))
    assert np.array_equal(batch.planes, reference["binaryInputNCHWPacked"][at])
    assert np.array_equal(batch.labels["move"], reference["move"][at])
    assert reference["strict"][at].sum() > 11_250


# The terms where a record is silent


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # g5, g6, g7, g8, g9, g10, g11, g14, g17, g18 of the last move
        (b"(;SZ[3]RU[Chinese]KM[1];B[bb])", (-1 / 20, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
        (b"(;SZ[4]RU[japanese]KM[6.5];B[bb];W[aa])", (7.5 / 20, 0, 0, 0, 1, 1, 0, 0, 0, 0)),
        (b"(;SZ[3]RU[NZ]KM[0.5];B[bb])", (-0.5 / 20, 1, -0.5, 1, 0, 0, 0, 0, 0, 0.5)),
        (b"(;SZ[3]RU[AGA]KM[0.5]HA[2]AB[aa][cc];W[bb])", (1.5 / 20, 1, -0.5, 0, 0, 0, 0, 0, 0, 0.5)),
        (b"(;SZ[3]RU[Chinese]KM[0]AB[aa][cc];W[bb])", (2 / 20, 0, 0, 0, 0, 0, 0, 0, 0, -1.0 + 1)),
        (b"(;SZ[4];B[bb])", (-7.5 / 20, 1, 0.5, 1, 0, 0, 0, 0, 0, 0.5)),
        (b"(;SZ[4]RU[Japanese];B[bb])", (-6.5 / 20, 0, 0, 0, 1, 1, 0, 0, 0, 0)),
        (b"(;SZ[4]RU[AGA-button];B[bb])", (-7 / 20, 1, -0.5, 0, 0, 0, 0, 0, 1, 0)),
        (b"(;SZ[4]RU[AGA-button]KM[2];B[];W[bb])", (1.5 / 20, 1, -0.5, 0, 0, 0, 0, 0, 0, -0.5)),
        (b"(;SZ[4]RU[stone scoring]KM[9];B[aa];W[];B[bb])", (-9 / 20, 0, 0, 0, 0, 1, 1, 1, 0, 0)),
        (b"(;SZ[2]RU[NZ]KM[99];B[bb])", (-24 / 20, 1, -0.5, 1, 0, 0, 0, 0, 0, 0)),
    ],
)
def test_globals_of_a_game(text, expected):
    planes, numbers, labels = encode_katago(kifu.read_sgf(text))
    assert len(planes) == len(numbers) == len(labels)
    asked = [5, 6, 7, 8, 9, 10, 11, 14, 17, 18]
    assert numbers[-1, asked].tolist() == np.float32(expected).tolist()
    assert not np.delete(numbers[-1], [*asked, 0]).any()
    assert numbers[-1, 0] == (b"[];" in text)


def test_default_rules_of_many_games_equal_those_of_each():
    texts = ["Japanese", None, "aga-button", "koSIMPLEscoreTERRITORYbutton1", "house rules", "NZ", None]
    komi = [None, None, None, None, 6.5, 0.5, float("nan")]
    terms, drop = resolve_rules_or_default(
        pa.array(texts, pa.string()), pa.array(komi, pa.float32()), pa.array([None, 3, 0, 2, 1, None, 5], pa.int16())
    )
    assert drop.tolist() == [0, 0, 0, 0, DropReason.RULES_UNKNOWN, 0, DropReason.KOMI_UNKNOWN]
    for k in range(4):
        rules = KataRules.parse(texts[k]) if texts[k] else KataRules()
        assert terms[k].item() == (*rules.codes, usual_komi(rules), (-1, 3, 0, 2)[k])
    assert terms["komi"][5] == 0.5
    assert not terms[[4, 6]].view(np.uint8).any()


# Other faces


@pytest.mark.nojit
def test_encode_returns_the_planes():
    game = kifu.read_sgf(b"(;SZ[5:4]RU[NZ]KM[3]HA[2]AB[aa][bb];W[cc];B[];W[db];B[dc])")
    planes, inputs, labels = encode_katago(game)
    assert (planes.shape, inputs.shape, labels.tolist()) == ((3, 22, 4, 5), (3, 19), [12, 8, 13])
    again = kifu.encode(game, "katago22")
    assert np.array_equal(again[0], planes)
    assert np.array_equal(again[1], labels)
    every = rows_of(game, KataEncoder(KATAGO22, 5, 4, False))
    assert np.array_equal(planes, every[0][[0, 2, 3]])
    assert np.array_equal(inputs, every[1][[0, 2, 3]])


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (b"(;SZ[4]RU[mine];B[aa])", GameError, "unknown rules (RU): 'mine'"),
        (b"(;SZ[4]KM[6.25];B[aa])", GameError, "not a multiple of one half: '6.25'"),
        (b"(;SZ[4]KM[much];B[aa])", GameError, ": 'much'"),
        (b"(;SZ[1:9];B[aa])", GameError, "from 2 x 2 to 19 x 19, got 1 x 9"),
        (b"(;SZ[20];B[aa])", GameError, "from 2 x 2 to 19 x 19, got 20 x 20"),
        (b"(;SZ[4];B[];W[];B[aa])", GameError, "follows 2 of the game's 3 moves: moves after the end of the game"),
        (b"(;SZ[4];B[aa];AB[bb];W[cc])", GameError, "follows 1 of the game's 2 moves: stones set up after the first move"),  # noqa: E501 - one case per line
        (b"(;SZ[3]AB[aa]AW[ab][ba];B[cc])", GameError, "follows 0 of the game's 1 moves: setup stones without a liberty"),  # noqa: E501 - one case per line
        (b"(;SZ[4]RU[Chinese];B[ab];W[aa];B[ba];W[aa])", IllegalMove, "move 4 (point 0) is illegal: a suicide"),
        (b"(;SZ[4];B[aa];W[aa])", IllegalMove, "move 2 (point 0) is illegal: a move on an occupied point"),
    ],
)  # fmt: skip
def test_games_that_katago_rejects_raise(text, error, words):
    for encode in (encode_katago, lambda game: kifu.encode(game, "katago22")):
        with pytest.raises(error) as caught:
            encode(kifu.read_sgf(text))
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


def test_planes_only_callers_reject_katago22_in_one_line(games):
    with pytest.raises(RecipeError, match="takes planes only, but these planes have 19 numbers") as caught:
        loss.make_policy_module(load_training("quick-cpu", ("planes=katago22",)))
    assert "\n" not in str(caught.value)
    with pytest.raises(RecipeError, match="katago22@1 does not consist of features"):
        find_plane_set("katago22+last1")
    with pytest.raises(RecipeError, match="seven@1 does not define label 'globals'"):
        load(games, "seven", labels=("move", "globals"))


@pytest.mark.parametrize("form", ["npy", "parquet"])
def test_written_data_sets_include_globals(games, wanted, tmp_path, form):
    recipe = check_config(ExamplesRecipe, BUILT | {"format": form, "positions": {"passes": True}}, "recipe", "mine")
    (built,) = build(recipe, games, tmp_path)
    manifest = built.manifest
    assert manifest.read == manifest.kept + sum(manifest.drops.values())
    whole_games = Counter(key for key, _ in wanted)
    ended = {key: len(game) for key, game in kept_games(games).items() if whole_games[key] not in (0, len(game))}
    assert manifest.drops["RULES_UNKNOWN"] == manifest.drops["KOMI_UNKNOWN"] == 1
    assert manifest.drops["SUICIDE"] == 1
    assert 1 + manifest.drops["AFTER_END"] == len(ended) > 1
    loader = load(built.path, shuffle=None, augment=False)
    batch = one_batch(loader)
    assert sorted(row_ids(batch)) == sorted(at for at in wanted if at[0] not in ended)
    for planes, at, inputs in zip(batch.unpack_planes(loader.layout), row_ids(batch), batch.labels["globals"]):
        assert np.array_equal(planes, wanted[at][0])
        assert inputs.tobytes() == wanted[at][1].tobytes()
    mirrored = one_batch(load(built.path, seed=1))
    numbers = {at: inputs.tobytes() for at, inputs in zip(row_ids(mirrored), mirrored.labels["globals"])}
    assert numbers == {at: wanted[at][1].tobytes() for at in row_ids(batch)}
