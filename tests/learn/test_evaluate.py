"""Evaluation of nets: agreement with a naive evaluation, choice of positions, and overlap with training games."""

from __future__ import annotations

import json
import math
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pytest

import evaluated
from evaluated import Seen, canonical, games_in, is_white, naive, sharp
from example_sets import layout_for, random_batch, write
from kifu.corpus.schema import game_arrays
from kifu.datasets.examples import UNKNOWN
from kifu.datasets.global_inputs import CONDITION_COLUMNS, Conditions
from kifu.datasets.mmap_games import COLUMNS, read_games
from kifu.errors import FormatError, RecipeError, SourceError
from kifu.learn import scores
from kifu.learn import scores as sc
from kifu.learn.positions import NetPositions
from kifu.learn.scores import MEASURES, Score
from kifu.point import POINT_MASK, WHITE_BIT, to_gtp
from lazy import lazy_import
from marks import slow, thorough
from nets import processor, tiny_net

learn = lazy_import("kifu.learn")
torch = lazy_import("torch")


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluated.make(tmp_path_factory.mktemp("games"))


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> learn.net.Net:
    return sharp(tiny_net(tmp_path_factory.mktemp("net") / "seven.safetensors"))


def assert_score(score: Score, seen: list[Seen]) -> None:
    assert score.positions == len(seen)
    assert score.accounts == len({each.account for each in seen})
    for top in (1, 3, 5):
        least, most = (sum(rank < top for rank in ranks) for ranks in zip(*((s.max_rank, s.min_rank) for s in seen)))
        assert least <= round(score.measure(f"top{top}").value * len(seen)) <= most
    assert score.nll.value == pytest.approx(sum(each.nll for each in seen) / len(seen), rel=1e-5)
    for name in MEASURES:
        value, low, high = score.measure(name)
        assert low <= value <= high or score.accounts < 5


CASES = [
    ("b1c8", "seven", False, False),
    ("b1c8", "seven", True, True),
    ("blog", "one-plane", False, True),
    ("maddison", "black+white+empty", False, False),  # an output for each colour
    *slow(("b1c8", "seven", False, True), ("b1c8", "seven", True, False), ("b1c8", "clark8", True, False)),
    *thorough(("maddison", "black+white+empty", True, True), ("b1c8", "maddison36@1", True, True)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "planes", "symmetries", "legal"), CASES)
def test_scores_match_a_naive_evaluation(
    kind: str, planes: str, symmetries: bool, legal: bool, games: Path, tmp_path: Path
) -> None:
    net = sharp(tiny_net(tmp_path / "net.safetensors", kind, planes))
    found = learn.evaluate.evaluate(net, games, learn.results.EvalOptions(legal=legal, symmetries=symmetries))
    (reported,) = found.nets
    seen = naive(net, games_in(games), legal=legal, symmetrised=symmetries)
    assert (
        sum(each.min_rank < each.max_rank for each in seen) < len(seen) / 10
    )  # few boards as symmetric as the empty one
    assert (found.positions, found.games) == (len(seen), 8)
    assert_score(reported.score, seen)
    for name, groups in reported.by.items():
        assert groups.keys() == {each.groups[name] for each in seen}
        for group, score in groups.items():
            assert_score(score, [each for each in seen if each.groups[name] == group])
    assert {each.groups["capture"] for each in seen} == {"none", "1", "2 or more"}
    error = 0.0
    for each in reported.calibration.bins:
        some = [one for one in seen if each.start <= one.confidence < each.stop]
        assert each.positions == len(some)
        assert each.confidence == pytest.approx(np.mean([one.confidence for one in some]), rel=1e-4)
        least, most = sum(one.max_rank == 0 for one in some), sum(one.min_rank == 0 for one in some)
        assert least <= round(each.accuracy.value * len(some)) <= most
        error += abs(each.confidence - each.accuracy.value) * len(some)
    assert len(reported.calibration.bins) > 5 or symmetries  # the mean of answers is confident about little
    assert reported.calibration.error.value == pytest.approx(error / len(seen), rel=1e-4)


def test_passes_are_optional(games: Path, tmp_path: Path) -> None:
    net = learn.net.open_net(tiny_net(tmp_path / "net.safetensors", passes=True))
    all_games = games_in(games)
    without, with_passes = (
        learn.evaluate.evaluate(net, games),
        learn.evaluate.evaluate(net, games, learn.results.EvalOptions(passes=True)),
    )
    assert with_passes.positions == sum(map(len, all_games))
    (score,) = (reported.by["region"]["pass"] for reported in with_passes.nets)
    at = [(g, t) for g in all_games for t, word in enumerate(g.moves.tolist()) if word & POINT_MASK == 81]
    assert score.positions == len(at) == with_passes.positions - without.positions
    policy = net.evaluate(NetPositions.from_games([g for g, _ in at], [t for _, t in at]), legal=False).policy
    assert score.nll.value == pytest.approx(-np.log(policy[:, 81].astype(np.float64)).mean(), rel=1e-5)


def test_a_uniform_net_scores_by_chance(games: Path, tmp_path: Path) -> None:
    net = learn.net.open_net(tiny_net(tmp_path / "net.safetensors"))
    for value in net.module.parameters():
        torch.nn.init.zeros_(value)
    (reported,) = learn.evaluate.evaluate(net, games).nets
    assert reported.score.nll == pytest.approx((math.log(81),) * 3)
    moves = np.concatenate([game.moves & POINT_MASK for game in games_in(games)])
    moves = moves[moves < 81]
    # of equally likely moves the one of lower number counts as likelier, so that not all of them are the first choice
    assert reported.score.top3.value == pytest.approx((moves < 3).mean())
    assert [each.positions for each in reported.calibration.bins] == [len(moves)]
    assert reported.calibration.error.value == pytest.approx(abs(1 / 81 - (moves == 0).mean()), rel=1e-4)


@pytest.mark.usefixtures("cache")
def test_games_at_urls(net: learn.net.Net) -> None:
    sgf = b"(;SZ[9]" + b"".join(b";B[%c%c]" % (97 + k, 97 + k) for k in range(9)) + b")"
    fsspec.filesystem("memory").pipe("/evaluate/game.sgf", sgf)
    reported = learn.evaluate.evaluate(net, "memory://evaluate/game.sgf")
    assert (reported.sources, reported.games, reported.positions) == (("game.sgf",), 1, 9)


def test_accounts_are_names_or_games_without_names(net: learn.net.Net, tmp_path: Path) -> None:
    players = ["PB[a]PW[b]", "PB[b]PW[c]", "PB[a]", "", ""]
    games = evaluated.catalogue(tmp_path, [evaluated.text(k, 10, root=root) for k, root in enumerate(players)])
    (reported,) = learn.evaluate.evaluate(net, games).nets
    assert reported.score.accounts == 6  # a, b, c, White of the third game, and two games


def test_several_nets_are_compared(games: Path, net: learn.net.Net, tmp_path: Path) -> None:
    other = learn.net.open_net(tiny_net(tmp_path / "seven.safetensors", planes="one-plane", seed=1))
    both = learn.evaluate.evaluate([net, other, net], games)
    alone = learn.evaluate.evaluate(net, games), learn.evaluate.evaluate(other, games)
    assert [reported.name for reported in both.nets] == ["seven", "seven (2)", "seven (3)"]
    assert [reported.score for reported in both.nets[:2]] == [each.nets[0].score for each in alone]
    first, second, third = both.nets
    assert first.to_first is None
    assert second.to_first is not None
    assert third.to_first is not None
    for name in MEASURES:
        difference = second.score.measure(name).value - first.score.measure(name).value
        assert second.to_first[name].value == pytest.approx(difference, abs=1e-6)
    assert set(third.to_first.values()) == {(0, 0, 0)}


def test_positions_are_sampled_by_seed(games: Path, net: learn.net.Net) -> None:
    some = learn.evaluate.evaluate(net, games, learn.results.EvalOptions(positions=50))
    assert (some.positions, some.nets[0].score.positions) == (50, 50)
    assert (
        some.to_json() == learn.evaluate.evaluate(net, games, learn.results.EvalOptions(positions=50), jobs=3).to_json()
    )
    assert (
        some.to_json() != learn.evaluate.evaluate(net, games, learn.results.EvalOptions(positions=50, seed=1)).to_json()
    )
    few = learn.evaluate.evaluate(net, games, learn.results.EvalOptions(per_game=2))
    assert (few.positions, few.games) == (16, 8)
    assert {score.accounts for score in few.nets[0].by["move"].values()} != {16}


@pytest.mark.parametrize("avx512_bf16", [False, True])
def test_bfloat16_is_close_to_float32(avx512_bf16: bool, games: Path, net: learn.net.Net) -> None:
    """The evaluation names the precision that was used."""
    with processor(avx512_bf16=avx512_bf16):
        exact, near = (
            learn.evaluate.evaluate(net, games, learn.results.EvalOptions(precision=precision))
            for precision in ("float32", "bfloat16")
        )
    assert (exact.nets[0].score.nll != near.nets[0].score.nll) == avx512_bf16
    assert exact.nets[0].score.nll == pytest.approx(near.nets[0].score.nll, rel=0.02)
    assert exact.options.precision == "float32"
    assert near.options.precision == ("bfloat16" if avx512_bf16 else "float32")
    assert json.loads(near.to_json())["options"]["precision"] == near.options.precision


def test_the_net_is_not_modified(games: Path, net: learn.net.Net) -> None:
    before = {name: value.clone() for name, value in net.module.state_dict().items()}
    learn.evaluate.evaluate(net, games, learn.results.EvalOptions(positions=5, precision="bfloat16"))
    assert all(torch.equal(value, before[name]) for name, value in net.module.state_dict().items())


@pytest.fixture
def learned(tmp_path: Path) -> learn.net.Net:
    """A net that has learned from game 3, written down mirrored and with its colours swapped, and from another."""
    turned = evaluated.catalogue(tmp_path / "turned", [evaluated.text(3, symmetry=5, swapped=True)])
    return learn.net.open_net(tiny_net(tmp_path / "learned.safetensors", games=[*canonical(turned), 12345]))


@pytest.mark.slow
def test_training_games_are_refused_dropped_or_kept(games: Path, learned: learn.net.Net, net: learn.net.Net) -> None:
    with pytest.raises(RecipeError, match=r"^learned was trained on or validated with 1 of 8 games .*--overlap drop"):
        learn.evaluate.evaluate(learned, games)
    found = learn.evaluate.evaluate([net, learned], games, learn.results.EvalOptions(overlap="drop"))
    assert (found.games, found.learned) == (7, 1)
    assert [(reported.known_games, reported.learned) for reported in found.nets] == [(0, 0), (2, 1)]
    assert_score(found.nets[0].score, [each for each in naive(net, games_in(games)) if each.game != 3])
    left_out, unknown = found.remarks
    assert left_out.startswith("Left out: 1 game that a net was trained on or validated with (")
    assert unknown == "The training games of seven are unknown; they may be among these."
    found = learn.evaluate.evaluate(learned, games, learn.results.EvalOptions(overlap="keep"))
    assert (found.games, found.learned, found.options.overlap) == (8, 1, "keep")
    (remark,) = found.remarks
    assert remark.startswith("NOT A TEST: a net was trained on or validated with 1 game")


def test_a_shared_opening_is_not_an_overlap(tmp_path: Path) -> None:
    one = evaluated.text(0, plies=60)
    other = b";".join(one.split(b";")[:50]) + b")"
    learned, tested = (evaluated.catalogue(tmp_path / name, [each]) for name, each in (("a", one), ("b", other)))
    net = learn.net.open_net(tiny_net(tmp_path / "net.safetensors", games=canonical(learned)))
    assert learn.evaluate.evaluate(net, tested).learned == 0


def test_no_game_is_left(learned: learn.net.Net, tmp_path: Path) -> None:
    tested = evaluated.catalogue(tmp_path / "one", [evaluated.text(3)])
    with pytest.raises(SourceError, match="no game is left: the nets have seen all of 1 game"):
        learn.evaluate.evaluate(learned, tested, learn.results.EvalOptions(overlap="drop"))


def test_other_boards(games: Path, net: learn.net.Net, tmp_path: Path) -> None:
    found = learn.evaluate.evaluate(net, games, learn.results.EvalOptions(board="11x11"))
    assert (found.games, found.board) == (1, "11x11")
    assert_score(found.nets[0].score, naive(net, games_in(games, 11)))
    fixed = learn.net.open_net(tiny_net(tmp_path / "fixed.safetensors", "blog", "one-plane"))
    with pytest.raises(RecipeError, match="supports 9 x 9 boards only, got 11 x 11"):
        learn.evaluate.evaluate(fixed, games, learn.results.EvalOptions(board="11x11"))


WRONG = [
    ({"board": "13x13"}, SourceError, "there is no game on a 13 x 13 board"),
    ({"board": "big"}, RecipeError, "board must be like 19x19, got 'big'"),
    ({"passes": True}, RecipeError, "net seven does not predict passes"),
    ({"positions": 0}, RecipeError, "positions must be >= 1, got 0"),
    ({"per_game": 0}, RecipeError, "per_game must be .*, got 0"),
    ({"precision": "float16"}, RecipeError, "unknown precision 'float16'; did you mean 'bfloat16'"),
    ({"overlap": "kept"}, RecipeError, "unknown overlap 'kept'; did you mean 'keep'"),
]


@pytest.mark.parametrize(("options", "error", "message"), WRONG)
def test_invalid_options(
    options: dict[str, object], error: type[Exception], message: str, games: Path, net: learn.net.Net
) -> None:
    with pytest.raises(error, match=message):
        learn.evaluate.evaluate(net, games, learn.results.EvalOptions(**options))  # type: ignore[arg-type]


def test_data_sets_are_refused(net: learn.net.Net, tmp_path: Path) -> None:
    path, layout = tmp_path / "old.npy", layout_for("npy@1")
    write("npy@1", path, layout, random_batch(layout, 20))
    with pytest.raises(RecipeError, match=r"old.npy is a data set; an evaluation requires games"):
        learn.evaluate.evaluate(net, path)


def test_a_net_that_returns_nan(games: Path, tmp_path: Path) -> None:
    net = learn.net.open_net(tiny_net(tmp_path / "net.safetensors"))
    next(net.module.parameters()).data.fill_(1e38)
    with pytest.raises(FormatError, match="net net returns values that are NaN"):
        learn.evaluate.evaluate(net, games)


def test_a_damaged_row_is_reported_with_its_game(net: learn.net.Net, games: Path) -> None:
    """A move is played twice, which the catalogue counts as legal."""
    rows = read_games([games], (9, 9), False, 1, (*COLUMNS, *CONDITION_COLUMNS))
    moves = rows["moves"].to_pylist()
    moves[1][1] = moves[1][0] ^ WHITE_BIT
    index = rows.schema.get_field_index("moves")
    rows = rows.set_column(index, rows.schema.field(index), pa.array(moves, rows["moves"].type))
    games = game_arrays(rows)
    positions = NetPositions.at(games, [0, 1], [2, 3], Conditions.from_rows(rows), rows)
    words = f"game {rows['id'][1].as_py():016x}: move 2 cannot be played: "
    for legal in (True, False):
        with pytest.raises(FormatError, match=words):
            list(net.stream(positions, legal=legal))


def test_games_of_passes_only(net: learn.net.Net, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no positions to evaluate: 1 game of passes only"):
        learn.evaluate.evaluate(net, evaluated.catalogue(tmp_path, [b"(;SZ[9];B[];W[])"]))


def test_real_games(shared: Path, tmp_path: Path) -> None:
    net = learn.net.open_net(tiny_net(tmp_path / "net.safetensors", size=19))
    found = learn.evaluate.evaluate(
        net, shared / "data/kgs/KGS-2016_02-19-577-.tar.gz", learn.results.EvalOptions(per_game=1, legal=True)
    )
    assert found.positions == found.games > 500
    assert 5.2 < found.nets[0].score.nll.value < 6.2  # about ln 361, as the net knows nothing


def as_json(score: Score) -> dict[str, object]:
    reported: dict[str, object] = {"positions": score.positions, "accounts": score.accounts}
    return reported | {name: [pytest.approx(value, abs=1e-6) for value in score.measure(name)] for name in MEASURES}


def test_json_is_complete(games: Path, net: learn.net.Net) -> None:
    found: learn.results.EvalResults = learn.evaluate.evaluate(
        net, games, learn.results.EvalOptions(positions=200, symmetries=True)
    )
    reported = json.loads(found.to_json())
    (one,) = reported["nets"]
    assert (reported["board"], reported["positions"], reported["games"]) == ("9x9", 200, 8)
    assert reported["options"]["symmetries"] is True
    assert reported["options"]["positions"] == 200
    assert one["score"] == as_json(found.nets[0].score)
    assert one["by"] == {
        name: {group: as_json(score) for group, score in groups.items()} for name, groups in found.nets[0].by.items()
    }
    assert sum(each["positions"] for each in one["calibration"]["bins"]) == 200
    assert len(reported["examples"]) == len(found.examples) > 5
    assert one["value"] is None
    assert one["entropy"] == pytest.approx(found.nets[0].entropy, abs=1e-6)


def test_errors_of_values_match_single_predictions(net: learn.net.Net, tmp_path: Path) -> None:
    results = ["B+R", "W+3.5", "0", "", "B+T"]
    texts = [evaluated.text(k, 20, root=f"RE[{text}]" if text else "") for k, text in enumerate(results)]
    games = evaluated.catalogue(tmp_path, texts)
    valued = tiny_net(tmp_path / "valued.safetensors", heads=("value",))
    one, other = learn.evaluate.evaluate([valued, net], games, learn.results.EvalOptions(legal=True)).nets
    predictor = learn.net.open_net(valued)
    errors: dict[bool, list[float]] = {False: [], True: []}
    entropies = []
    for game, text in zip(games_in(games), results):
        for ply in [t for t, word in enumerate(game.moves.tolist()) if word & POINT_MASK < 81]:
            found = predictor.evaluate(NetPositions.from_games([game], [ply]))
            entropies.append(-sum(p * math.log(p) for p in found.policy[0].tolist() if p))
            if text:
                for_black = {"B": 1, "W": -1, "0": 0}[text[0]]
                result = -for_black if is_white(game, ply) else for_black
                errors[is_white(game, ply)].append(float(found.value[0]) - result)
    everything = np.array(errors[False] + errors[True])
    assert one.value is not None
    assert (one.value.positions, one.value.accounts) == (len(everything), 4)
    assert one.value.squared.value == pytest.approx((everything**2).mean(), rel=1e-5)
    assert one.value.bias_black.value == pytest.approx(np.mean(errors[False]), rel=1e-5)
    assert one.value.bias_white.value == pytest.approx(np.mean(errors[True]), rel=1e-5)
    assert one.entropy.value == pytest.approx(np.mean(entropies), rel=1e-5)
    assert other.value is None


def test_examples_match_a_naive_evaluation(games: Path, net: learn.net.Net) -> None:
    found = learn.evaluate.evaluate(net, games)
    seen = {(each.game, each.ply): each for each in naive(net, games_in(games))}
    all_games = {game.players[0]: (g, game) for g, game in enumerate(games_in(games))}
    missed = [each for each in found.examples if each.kind == "missed"]
    assert [each.kind for each in found.examples] == sorted(
        [each.kind for each in found.examples], key=["missed", "undecided", "correct"].index
    )
    best = {}
    for each in seen.values():
        if each.min_rank:
            best[each.game] = max(best.get(each.game, 0), each.confidence)
    assert [each.board.policy.max() for each in missed] == pytest.approx(sorted(best.values())[::-1], rel=1e-4)
    for example in found.examples:
        g, game = all_games[example.players[0]]
        ply = example.number - 1
        one = seen[g, ply]
        (answer,) = example.answers
        assert (example.board.played, example.played) == (one.move, to_gtp(one.move, 9))
        assert one.min_rank < answer.choice <= one.max_rank + 1
        assert answer.probability == pytest.approx(math.exp(-one.nll), rel=1e-4)
        assert [each.probability for each in answer.best] == pytest.approx(np.sort(example.board.policy)[::-1][:3])
        assert (example.board.stones == game.board(ply).stones).all()
        assert (example.to_play == "white") == is_white(game, ply)
        assert one.min_rank == 0 if example.kind == "correct" else one.min_rank > 0
        assert one.min_rank == 1 or example.kind != "undecided"


def move_scores(rank: object, nll: object = None, confidence: object = None) -> sc.MoveScores:
    """Return scores with these ranks, and 0.5 for all values that are not given."""
    ranks = np.asarray(rank, np.uint16)
    half = np.full(len(ranks), 0.5, np.float32)
    return sc.MoveScores(
        ranks,
        half if nll is None else np.asarray(nll, np.float32),
        half if confidence is None else np.asarray(confidence, np.float32),
        half,
        np.zeros(len(ranks), np.uint16),
        half,
    )


def test_measures_are_means_over_positions() -> None:
    found = sc.score(move_scores([0, 0, 2, 3, 5, 300], [0.5, 1, 2, 3, 4, 7.5]), np.array([0, 0, 1, 1, 2, 2]), 0)
    assert (found.positions, found.accounts) == (6, 3)
    assert [found.measure(name).value for name in sc.MEASURES] == pytest.approx([2 / 6, 3 / 6, 4 / 6, 3])


def test_the_interval_of_one_game_is_empty() -> None:
    found = sc.score(move_scores([0, 1, 0, 9], [1, 2, 3, 4]), np.zeros(4, np.int64), 0)
    for name in sc.MEASURES:
        value, low, high = found.measure(name)
        assert low == value == high


def test_games_are_resampled_with_replacement() -> None:
    sums = np.random.default_rng(1).random((7, 2, 3))
    drawn = np.random.default_rng(5).integers(7, size=(sc.RESAMPLES, 7))
    assert sc.resample(sums, 5) == pytest.approx(np.array([sum(sums[g] for g in games) for games in drawn.tolist()]))


def test_draws_do_not_depend_on_the_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = np.random.default_rng(1).random((7, 3))
    whole = sc.resample(sums, 5)
    monkeypatch.setattr(scores, "_CHUNK", 7 * 64)
    assert sc.resample(sums, 5) == pytest.approx(whole)


def clustered(seed: int, games: int = 150, plies: int = 8, alike: float = 0.0) -> tuple[sc.MoveScores, np.ndarray]:
    """Return games whose moves are predicted with probability 0.3; `alike` is the share of uniform games."""
    rng = np.random.default_rng(seed)
    right = rng.random((games, plies)) < 0.3
    whole = rng.random(games) < alike
    right[whole] = right[whole, :1]
    return move_scores(np.where(right.ravel(), 0, 9)), np.repeat(np.arange(games), plies)


@pytest.mark.parametrize("alike", [0.0, 1.0])
def test_intervals_cover_the_truth(alike: float) -> None:
    covered = 0
    for seed in range(80):
        _, low, high = sc.score(*clustered(seed, alike=alike), seed).top1
        covered += low <= 0.3 <= high
    assert 70 <= covered < 80  # 76 are expected


def test_intervals_widen_with_fewer_and_more_uniform_games() -> None:
    def width(**options: float) -> float:
        _, low, high = sc.score(*clustered(0, **options), 0).top1
        return high - low

    assert width() == pytest.approx(2 * 1.96 * math.sqrt(0.3 * 0.7 / 1200), rel=0.15)
    assert width(alike=1) == pytest.approx(width() * math.sqrt(8), rel=0.25)
    assert width(games=600) == pytest.approx(width() / 2, rel=0.2)


def test_groups_are_scored_separately_and_empty_ones_omitted() -> None:
    found = move_scores([0, 1, 0, 1, 0, 0], [1, 1, 1, 2, 2, 2])
    game, group = np.array([0, 0, 1, 1, 2, 2]), np.array([3, 3, 3, 0, 0, 0])
    by = sc.score_groups(found, game, group, ("a", "b", "c", "d"), 0)
    assert list(by) == ["a", "d"]
    assert [(each.positions, each.accounts, each.nll.value) for each in by.values()] == [(3, 2, 2), (3, 2, 1)]
    assert [each.top1.value for each in by.values()] == pytest.approx([2 / 3, 2 / 3])
    # a draw in which a group does not come says nothing of it
    assert by["a"].nll == by["a"].nll.__class__(2, 2, 2)


def test_differences_are_paired() -> None:
    """Two nets that are right in the same hard games differ by less than their own intervals are wide."""
    one, game = clustered(3, alike=1)
    better = one.preferred.copy()
    better[::40] = 0
    other = move_scores(better, one.nll - 0.25)
    found = sc.differences(other, one, game, 0)
    value, low, high = found["top1"]
    assert value == pytest.approx((better == 0).mean() - (one.preferred == 0).mean())
    assert 0 < low < value < high
    alone = sc.score(one, game, 0).top1
    assert high - low < (alone.high - alone.low) / 3
    assert found["nll"] == pytest.approx((-0.25, -0.25, -0.25))
    assert sc.differences(one, one, game, 0) == dict.fromkeys(sc.MEASURES, (0, 0, 0))


def test_a_calibrated_net_has_a_small_error() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.random(40_000).astype(np.float32)
    right = rng.random(40_000) < confidence
    found = sc.calibrate(move_scores(np.where(right, 0, 1), confidence=confidence), np.arange(40_000) // 100, 0)
    assert found.error.value < 0.02
    assert [each.positions for each in found.bins] == np.histogram(confidence, sc.BINS, (0, 1))[0].tolist()
    assert sum(each.accuracy.low <= each.confidence <= each.accuracy.high for each in found.bins) >= sc.BINS - 3


def test_calibration_by_hand() -> None:
    """40 positions of 0.3, of which half are right; 10 of 0.9, all right; 50 of 1, of which 40 are right."""
    confidence = np.repeat([0.3, 0.9, 1.0], [40, 10, 50])
    rank = np.array([0, 1] * 20 + [0] * 10 + [0] * 40 + [7] * 10)
    found = sc.calibrate(move_scores(rank, confidence=confidence), np.arange(100) % 4, 0)
    assert [each.positions for each in found.bins] == [40, 10, 50]
    assert [each.confidence for each in found.bins] == pytest.approx([0.3, 0.9, 1])
    assert [each.accuracy.value for each in found.bins] == pytest.approx([0.5, 1, 0.8])
    assert found.error.value == pytest.approx((40 * 0.2 + 10 * 0.1 + 50 * 0.2) / 100)
    assert [each.start for each in found.bins] == pytest.approx([4 / 15, 13 / 15, 14 / 15])


def test_errors_of_values_match_a_naive_loop() -> None:
    chance = np.random.default_rng(3)
    value = chance.uniform(-1, 1, 300).astype(np.float32)
    result = chance.choice(np.array([-1, 0, 1, UNKNOWN], np.int8), 300)
    white, game = chance.random(300) < 0.4, chance.integers(0, 40, 300)
    found = scores.value_error(value, result, white, game, 1)
    errors: dict[bool, list[float]] = {False: [], True: []}
    for k in range(300):
        if result[k] != UNKNOWN:
            errors[bool(white[k])].append(float(value[k]) - int(result[k]))
    both = errors[False] + errors[True]
    assert (found.positions, found.accounts) == (len(both), len({game[k] for k in range(300) if result[k] != UNKNOWN}))
    assert found.squared.value == pytest.approx(sum(e * e for e in both) / len(both))
    assert found.bias_black.value == pytest.approx(sum(errors[False]) / len(errors[False]))
    assert found.bias_white.value == pytest.approx(sum(errors[True]) / len(errors[True]))
    for interval in (found.squared, found.bias_black, found.bias_white):
        assert interval.low < interval.value < interval.high


def test_a_value_that_cannot_see_the_colour_is_biased_against_it() -> None:
    """Black wins 70 % of the games, which a constant 0 misses by 0.4 on either side."""
    result = np.where(np.arange(1000) // 2 % 10 < 7, 1, -1).astype(np.int8)
    white = np.arange(1000) % 2 == 1
    result = np.where(white, -result, result).astype(np.int8)
    found = scores.value_error(np.zeros(1000, np.float32), result, white, np.arange(1000), 0)
    assert (found.squared.value, found.squared.low) == (1, 1)
    assert found.bias_black.low < -0.4 < found.bias_black.high
    assert found.bias_white.low < 0.4 < found.bias_white.high


def test_the_bias_of_a_side_that_never_moves_is_unknown() -> None:
    found = scores.value_error(np.zeros(3, np.float32), np.ones(3, np.int8), np.zeros(3, np.bool_), np.arange(3), 0)
    assert found.bias_black == (-1, -1, -1)
    assert found.bias_white is None


def test_values_without_results_have_no_error() -> None:
    none = np.full(3, UNKNOWN, np.int8)
    with pytest.raises(RecipeError, match="requires positions with a known result"):
        scores.value_error(np.zeros(3, np.float32), none, np.zeros(3, np.bool_), np.arange(3), 0)
