"""Predictions of a net: agreement with planes and module, sampling, symmetries, rules and errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kifu
from drawn_games import OneGame, flat
from kifu.datasets.global_inputs import Conditions
from kifu.errors import GameError, IllegalMove, RecipeError
from kifu.go.board import Board
from kifu.go.replay import legal_moves
from kifu.go.rules import NAMED, RECORD_RULES, Rules
from kifu.learn.positions import NetPositions
from kifu.planes.encoder import Encoder, EncoderScratch
from kifu.point import BLACK, WHITE, WHITE_BIT, symmetries, to_sgf
from lazy import lazy_import
from nets import tiny_net

learn = lazy_import("kifu.learn")
torch = lazy_import("torch")


W = WHITE_BIT


def game(
    seed: int,
    plies: int = 40,
    width: int = 9,
    height: int = 9,
    root: str = "",
    turned: int = 0,
    rules: Rules = RECORD_RULES,
) -> kifu.Game:
    """A random legal game, some moves of which are passes; or as it looks under a symmetry."""
    rng = np.random.default_rng(seed)
    board, table = Board(width, height, rules=rules), symmetries(width, height)[turned]
    columns, lines = (height, width) if turned & 4 else (width, height)
    text = f"(;SZ[{columns}:{lines}]{root}"
    for _ in range(plies):
        legal = np.flatnonzero(board.legal()[:-1])
        move = int(rng.choice(legal)) if legal.size and rng.random() > 0.05 else board.pass_move
        text += f";{'BW'[board.to_play == WHITE]}[{to_sgf(int(table[move]), columns, lines)}]"
        board.play(move)
    return kifu.read_sgf((text + ")").encode(), strict=True)


def opened(folder: Path, *arguments: object, **options: object) -> learn.net.Net:
    return replace(learn.net.open_net(tiny_net(folder / "net.safetensors", *arguments, **options)), has_points=True)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> learn.net.Net:
    return opened(tmp_path_factory.mktemp("net"), passes=True, heads=("value", "ownership"))


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum()


def same(one: learn.evaluation.Evaluation, other: learn.evaluation.Evaluation, tolerance: float = 1e-6) -> None:
    assert (one.legal == other.legal).all()
    for name in ("policy", "value", "ownership"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=tolerance)


def part(answers: learn.evaluation.Evaluation, which: Sequence[int]) -> learn.evaluation.Evaluation:
    return answers[np.asarray(which)]


@pytest.mark.parametrize(
    ("name", "planes", "passes", "heads"),
    [
        ("b1c8", "seven", True, ("value", "ownership")),
        ("b1c8", "one-plane", False, ()),  # real values
        ("b1c8", "clark8", True, ("ownership",)),  # a rim
        ("b1c8", "own+opp+own_dan", False, ("value",)),  # the players' ranks
        ("maddison", "black+white+empty", True, ("value", "ownership")),  # an output for each colour
        pytest.param("book-small", "seven+last5", True, ("value",), marks=pytest.mark.slow),
    ],
)
def test_predictions_match_planes_and_module(
    tmp_path: Path, name: str, planes: str, passes: bool, heads: tuple[str, ...]
) -> None:
    net = opened(tmp_path, name, planes, passes=passes, heads=heads)
    played = game(1, root="BR[2d]WR[5d]")
    asked = [ply for ply, word in enumerate(played.moves.tolist()) if word & ~W < 81]
    drawn, _ = kifu.encode(played, planes)
    assert 0 < len(asked) < len(played)
    with torch.inference_mode():
        colours = torch.tensor([[-1.0] if played.moves[ply] & W else [1.0] for ply in asked])
        reported = net.module(torch.from_numpy(drawn.astype(np.float32)), colours if net.about.inputs else None)
    for legal in (True, False):
        answers = net.evaluate(NetPositions.from_games([played] * len(asked), asked), legal=legal)
        for k, ply in enumerate(asked):
            mask = np.ones(81 + passes, np.bool_)
            if legal:
                mask = played.board(ply).legal()[: 81 + passes]
            wanted = softmax(np.where(mask, reported.policy[k].numpy(), -np.inf))
            np.testing.assert_allclose(answers.policy[k], wanted, atol=1e-6)
            assert (answers.legal[k] == mask).all()
            assert (answers.policy[k][~mask] == 0).all()
        for head in ("value", "ownership"):
            if head in heads:
                np.testing.assert_allclose(getattr(answers, head), getattr(reported, head).numpy(), atol=1e-6)
            else:
                assert getattr(answers, head) is None


def test_a_batch_equals_single_positions(net: learn.net.Net, monkeypatch: pytest.MonkeyPatch) -> None:
    games = [game(k, 10 + 7 * k, root="AB[aa][cb]HA[2]PL[W]" if k == 2 else "") for k in range(3)]
    pairs = [(g, ply) for g in games for ply in range(0, len(g) + 1, 3)]
    pairs += pairs[5:2:-1]  # some twice, in another order
    positions = NetPositions.from_games(*zip(*pairs))
    whole = net.evaluate(positions)
    assert whole.policy.dtype == np.float32
    assert (whole.policy.shape, whole.ownership.shape) == ((len(pairs), 82), (len(pairs), 81))
    np.testing.assert_allclose(whole.policy.sum(1), 1, atol=1e-5)
    assert len(np.unique(whole.policy.round(6), axis=0)) > len(pairs) // 2
    for k, (g, ply) in enumerate(pairs):
        same(part(whole, [k]), net.evaluate(NetPositions.from_games([g], [ply])))
    monkeypatch.setattr(learn.inference, "_BATCH", 4)
    same(whole, net.evaluate(positions))


def test_threads_share_a_predictor_and_a_reviewer(net: learn.net.Net, monkeypatch: pytest.MonkeyPatch) -> None:
    fill, used, games = Encoder._fill, set(), [game(k, 10 + 7 * k) for k in range(4)]
    asked = [NetPositions.from_games([each] * len(each), range(len(each))) for each in games]
    wanted = [net.evaluate(each) for each in asked]
    reviewer, barrier = learn.review.Reviewer(net), threading.Barrier(8)

    def slow_fill(encoder: Encoder, scratch: EncoderScratch, *arguments: Any) -> Any:
        assert id(scratch) not in used
        used.add(id(scratch))
        time.sleep(0.001)
        answer = fill(encoder, scratch, *arguments)
        used.remove(id(scratch))
        return answer

    def work(k: int) -> None:
        barrier.wait()
        for ply in range(1, 5):
            (review,) = reviewer.evaluate(games[k % 4], [games[k % 4].moves[: ply + 1]])
            np.testing.assert_allclose(review.policy, wanted[k % 4].policy[ply], atol=1e-6)
        same(net.evaluate(asked[k % 4]), wanted[k % 4])

    monkeypatch.setattr(Encoder, "_fill", slow_fill)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_whole_arrays_of_games(net: learn.net.Net) -> None:
    """Positions of the middle of games, many of one game, without a copy of its moves for each."""
    games = [game(k, 30) for k in range(3)]
    arrays = flat([OneGame(9, 9, g.moves.tolist()) for g in games])
    which, ply = np.array([2, 0, 2, 2, 1, 0]), np.array([5, 29, 5, 0, 17, 3])
    positions = NetPositions.at(arrays, which, ply, Conditions.unknown(3))
    named = NetPositions.from_games([games[g] for g in which], ply.tolist())
    assert (positions.to_play == named.to_play).all()
    same(net.evaluate(positions), net.evaluate(named))
    none = net.evaluate(NetPositions.from_games([], []))
    assert (none.policy.shape, none.value.shape, none.ownership.shape) == ((0, 82), (0,), (0, 81))


def test_points_that_are_not_known_to_hold_are_withheld(tmp_path: Path) -> None:
    tiny_net(tmp_path / "net.safetensors", "b1c8", passes=True, heads=("value", "ownership", "score"))
    (tmp_path / "run").mkdir()
    tiny_net(tmp_path / "run/best.safetensors", "b1c8", passes=True, heads=("ownership",))
    names = [str(tmp_path / "net.safetensors"), str(tmp_path / "run"), "human"]
    positions = NetPositions.from_games([game(1, root="KM[6.5]")], [20])
    for name in [*names, "+".join(names)]:
        predictor = learn.net.open_net(name)
        shown, all_heads = predictor.evaluate(positions), predictor.evaluate(positions, unverified=True)
        assert (predictor.has_points, shown.ownership, shown.score) == (False, None, None)
        assert (shown.value is None, all_heads.ownership is None) == (not predictor.has_value, False)


def test_the_position_after_the_last_move(net: learn.net.Net) -> None:
    played = game(3)
    for ply in (0, 1, 20, 39):
        cut = NetPositions.from_moves([played.moves[:ply]], 9)
        same(net.evaluate(cut), net.evaluate(NetPositions.from_games([played], [ply])))
    after = net.evaluate(NetPositions.from_games([played], [len(played)]))
    one_more = kifu.read_sgf(played.record[:-1] + b";B[])")
    same(after, net.evaluate(NetPositions.from_games([one_more], [len(played)])))


def test_to_play_can_be_given(net: learn.net.Net) -> None:
    """The planes are those of the given colour, independent of the last move."""
    played = game(4, 21)
    black, white = (NetPositions.from_moves([played.moves], 9, to_play=[c]) for c in (BLACK, WHITE))
    assert (black.to_play, white.to_play) == ([BLACK], [WHITE])
    swapped = NetPositions.from_moves([played.moves ^ np.uint16(W)], 9, to_play=[BLACK])
    same(net.evaluate(white), net.evaluate(swapped))
    assert np.abs(net.evaluate(white).policy - net.evaluate(black).policy).max() > 1e-3


@pytest.mark.parametrize(
    ("text", "ply", "colour"),
    [
        (b"(;SZ[9];B[aa];W[bb])", 0, BLACK), (b"(;SZ[9];B[aa];W[bb])", 1, WHITE), (b"(;SZ[9];B[aa];W[bb])", 2, BLACK),
        (b"(;SZ[9];B[aa];B[bb])", 1, BLACK), (b"(;SZ[9];B[aa];B[bb])", 2, WHITE), (b"(;SZ[9])", 0, BLACK),
        (b"(;SZ[9]PL[W])", 0, WHITE), (b"(;SZ[9]HA[2]AB[cc][gg])", 0, WHITE),
        (b"(;SZ[9]HA[2]AB[cc][gg];B[aa])", 0, BLACK),
    ],
)  # fmt: skip
def test_the_side_to_move(text: bytes, ply: int, colour: int) -> None:
    assert NetPositions.from_games([kifu.read_sgf(text)], [ply]).to_play.tolist() == [colour]


def test_setup_stones(net: learn.net.Net) -> None:
    text = b"(;SZ[9]HA[2]AB[cc][gg];W[ee];B[ef]AW[aa];W[de];B[dd];AE[ee]AB[fe])"
    played = kifu.read_sgf(text)
    asked = list(range(5))
    answers = net.evaluate(NetPositions.from_games([played] * 5, asked))
    for ply in asked:
        assert (
            answers.legal[ply] == played.board(ply).legal(NetPositions.from_games([played], [ply]).to_play[0])
        ).all()
    bare = NetPositions.from_moves([[]], 9, setup=[20, 60], to_play=[WHITE])
    same(net.evaluate(bare), part(answers, [0]))
    later = NetPositions.from_moves([[40 | W], [40 | W, 49]], 9, setup=[20, 60, 0 | W], setup_ply=[0, 0, 1])
    same(net.evaluate(later), part(answers, [1, 2]))


@pytest.mark.parametrize("name", NAMED)
def test_legal_moves_are_those_of_the_board(name: str) -> None:
    """Small crowded boards; in half of the games a stone is set up where it stands, which only lifts superko."""
    rules = NAMED[name]
    games = [game(k, 50, 3, 2, rules=rules) for k in range(40)]
    setups = []
    for k, g in enumerate(games):
        stones = np.flatnonzero(g.board(20).stones.ravel())
        again = [int(p) | (W if g.board(20).stones.flat[p] == WHITE else 0) for p in stones[:1]]
        setups.append([(20, word) for word in again] if k % 2 else [])
    arrays = flat([OneGame(3, 2, g.moves.tolist(), tuple(setup)) for g, setup in zip(games, setups)])
    take = np.arange(len(arrays.moves))[::-1].copy()
    take[::7] = -1
    out = np.zeros((len(take), 7), np.bool_)
    legal_moves(arrays, np.arange(40), take, out, rules)
    stricter = lifted = 0
    for k, (g, setup) in enumerate(zip(games, setups)):
        words, due = np.array([w for _, w in setup], np.uint16), np.array([at for at, _ in setup], np.uint16)
        for ply in range(len(g)):
            slot = take[arrays.move_offset[k] + ply]
            if slot < 0:
                continue
            assert (out[slot] == Board.after(3, 2, g.moves, words, due, ply, rules=rules).legal()).all()
            stricter += (out[slot] < g.board(ply).legal()).any()
            lifted += (out[slot] > Board.after(3, 2, g.moves, g.setup, g.setup_ply, ply, rules=rules).legal()).any()
    assert (stricter > 0) == (rules != RECORD_RULES)
    assert lifted or rules.ko == "simple"


def test_superko(tmp_path: Path) -> None:
    """A move that would bring back an earlier position has probability 0; the others share what it had."""
    net, strict = opened(tmp_path, size=3, passes=True), NAMED["tromp-taylor"]
    games = [game(seed, 40, 3, 2, rules=strict) for seed in range(10)]
    asked = NetPositions.from_games(*zip(*((played, ply) for played in games for ply in range(len(played) + 1))))
    free, bound = (net.using(rules=rules).evaluate(asked) for rules in (RECORD_RULES, strict))
    lost = free.legal & ~bound.legal
    assert lost.any()
    assert not (bound.legal & ~free.legal).any()
    assert (free.policy[lost] > 0).all()
    assert (bound.policy[~bound.legal] == 0).all()
    rest = (free.policy * bound.legal).sum(1, keepdims=True)
    np.testing.assert_allclose(bound.policy, free.policy * bound.legal / rest, atol=1e-6)


def test_positions_without_legal_moves(tmp_path: Path) -> None:
    for passes in (False, True):
        predictor = opened(tmp_path, "b1c8", size=2, passes=passes)
        asked = NetPositions.from_moves([[]], 1)
        predictions = predictor.evaluate(asked)
        assert predictions.policy.tolist() == [[0, 1] if passes else [0]]
        moves, chances = predictions.top(2)
        assert (moves.tolist(), chances.tolist()) == (([[1, -1]], [[1, 0]]) if passes else ([[-1]], [[0]]))
        assert predictions.sample(np.random.default_rng(0)).tolist() == [1 if passes else -1]


@pytest.mark.parametrize(("width", "height", "turns"), [(9, 9, range(8)), (9, 6, range(4))])
def test_symmetrized_predictions_transform_with_the_game(
    net: learn.net.Net, width: int, height: int, turns: range
) -> None:
    predictor, plain = net.using(symmetries=True), net
    wanted = predictor.evaluate(NetPositions.from_games([game(5, 30, width, height)], [25]))
    apart = 0.0
    each = []
    for k in turns:
        asked = NetPositions.from_games([game(5, 30, width, height, turned=k)], [25])
        table = symmetries(width, height)[k]
        found, alone = predictor.evaluate(asked), plain.evaluate(asked)
        np.testing.assert_allclose(found.policy[:, table], wanted.policy, atol=1e-6)
        np.testing.assert_allclose(found.ownership[:, table[:-1]], wanted.ownership, atol=1e-5)
        np.testing.assert_allclose(found.value, wanted.value, atol=1e-6)
        assert (found.legal[:, table] == wanted.legal).all()
        each.append(alone.policy[:, table])
        apart = max(apart, np.abs(each[-1] - each[0]).max())
    assert apart > 1e-3  # so that there was something to be made equal
    np.testing.assert_allclose(np.mean(each, 0), wanted.policy, atol=1e-6)


def test_invalid_positions(net: learn.net.Net, tmp_path: Path) -> None:
    played = game(6, 10)
    for ply in (-1, 11):
        with pytest.raises(GameError, match=f"ply must be 0 to 10, got {ply}"):
            NetPositions.from_games([played], [ply])
    arrays = flat([OneGame(9, 9, [1, 2 | W])])
    for ply in (-1, 2):
        with pytest.raises(GameError, match=f"ply must be 0 to 1 in game 0, got {ply}"):
            NetPositions.at(arrays, [0], [ply], Conditions.unknown(1))
    with pytest.raises(GameError, match="one size, got 5 x 9 and 9 x 9"):
        NetPositions.from_games([played, game(7, 10, 5, 9)], [3, 3])
    with pytest.raises(GameError, match="a dropped game has no positions"):
        NetPositions.from_games([kifu.read_sgf(b"(;SZ[99];B[aa])")], [0])
    with pytest.raises(GameError, match=r"to_play must be 1 .* or 2 .*, got 3"):
        NetPositions.from_moves([[]], 9, to_play=[3])
    with pytest.raises(GameError, match="300 x 300"):
        NetPositions.from_moves([[]], 300)
    small = opened(tmp_path, "book-small")
    with pytest.raises(RecipeError, match="supports 9 x 9 boards only, got 19 x 19"):
        small.evaluate(NetPositions.from_moves([[]], 19))


def test_illegal_moves_before_the_position(net: learn.net.Net) -> None:
    """Positions before an illegal move can be predicted, unless they are in one array with it."""
    bad = kifu.read_sgf(b"(;SZ[9];B[aa];W[bb];B[aa];W[cc])")
    positions = NetPositions.from_games([bad], [2])
    for legal in (True, False):
        assert net.evaluate(positions, legal=legal).policy.sum() == pytest.approx(1)
        for ply in (3, 4):
            with pytest.raises(IllegalMove, match=r"move 3 .* occupied"):
                net.evaluate(NetPositions.from_games([bad], [ply]), legal=legal)
    for why in ([200, 5 | W], [5, 0x3FFF, 6]):
        with pytest.raises(IllegalMove, match="outside the board"):
            net.evaluate(NetPositions.from_moves([why], 9))
    suicide = [1, 10 | W, 9, 0 | W, 20, 0 | W]
    with pytest.raises(IllegalMove, match="suicide"):
        net.evaluate(NetPositions.from_moves([suicide], 9))


def test_moves_that_other_rules_forbid(net: learn.net.Net) -> None:
    """Two stones take their own lives: records may say so, the rules of Japan forbid it."""
    corner = [0, 2 | W, 40, 10 | W, 41, 9 | W, 1]  # Black fills his last liberty
    net.evaluate(NetPositions.from_moves([corner], 9))
    with pytest.raises(IllegalMove, match="suicide"):
        net.using(rules=NAMED["japanese"]).evaluate(NetPositions.from_moves([corner], 9))


def test_a_game_is_evaluated_at_plies_and_ranks() -> None:
    net, played = learn.net.open_net("human"), game(8, 30, 19, 19, root="BR[2d]WR[5k]")
    given = net.evaluate(played, plies=[10, 21], rank="3d", opponent=30.0)
    positions = NetPositions.from_games([played] * 2, [10, 21])
    np.testing.assert_array_equal(given.policy, net.evaluate(positions.with_ranks(34.0, 30.0)).policy)
    assert np.abs(given.policy - net.evaluate(positions).policy).max() > 1e-4
    np.testing.assert_array_equal(net.evaluate(played).value, net.evaluate(played, [30]).value)
    with pytest.raises(RecipeError, match="net small does not take ranks"):
        learn.net.open_net("small").evaluate(played, rank="3d")


def test_streams_are_cut_and_computed_ahead(net: learn.net.Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learn.inference, "_BATCH", 7)
    played = [game(k, 15 + k) for k in range(3)]
    positions = NetPositions.from_games(*zip(*((each, ply) for each in played for ply in range(len(each)))))
    parts = list(net.stream(positions, jobs=3))
    assert [len(part) for part in parts] == [7] * 6 + [6]
    same(learn.evaluation.join(parts), net.evaluate(positions))
    assert list(net.stream(positions.take(slice(0, 0)))) == []
