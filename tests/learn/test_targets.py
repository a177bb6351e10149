"""Targets: leads and ownership of a net, joined with games, drawn in pairs and learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kifu.corpus.parquet import annotation_writer
from kifu.corpus.schema import ANNOTATION_SCHEMA
from kifu.datasets.examples import UNKNOWN
from kifu.datasets.labels import OWNER_UNIT
from kifu.errors import FormatError, RecipeError, SourceError
from kifu.point import WHITE
from lazy import lazy_import
from loader_games import kept_games, make
from runs import assert_resumes_exactly, tiny

learn = lazy_import("kifu.learn")
torch = lazy_import("torch")

Target = tuple[float, float, np.ndarray]

HEADS = {"value": 0.5, "ownership": 1.0, "score": 0.1}
INPUTS = ["colour", "komi"]


def write_targets(path: Path, targets: dict[tuple[int, int], Target]) -> Path:
    """Write an annotation of positions, by game and ply: lead, standard deviation and ownership."""
    columns: dict[str, Any] = {
        "game": [game for game, _ in targets], "ply": [ply for _, ply in targets], "move": [0] * len(targets),
        "colour": ["black"] * len(targets), "net": ["net"] * len(targets),
        "lead": [each[0] for each in targets.values()], "lead_stdev": [each[1] for each in targets.values()],
        "ownership": [each[2].astype(np.int8).tobytes() for each in targets.values()],
    }  # fmt: skip
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(len(targets), field.type)
        for field in ANNOTATION_SCHEMA
    ]
    with annotation_writer(path) as writer:
        writer.write(pa.RecordBatch.from_arrays(arrays, schema=ANNOTATION_SCHEMA))
        writer.commit({})
    return path


def draw_targets(games: Path, seed: int = 0, points: int = 361) -> dict[tuple[int, int], Target]:
    """Return targets of two positions of each second game, and of those after them."""
    rng, targets = np.random.default_rng(seed), {}
    for game, record in list(kept_games(games).items())[::2]:
        for first in rng.choice(len(record) - 1, 2, replace=False).tolist():
            for ply in (first, first + 1):
                owner = rng.integers(-OWNER_UNIT, OWNER_UNIT + 1, points)
                targets[game, ply] = (float(rng.normal(0, 20)), float(rng.uniform(1, 20)), owner)
    return targets


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("targets"), 40)


@pytest.fixture(scope="module")
def targets(games: Path) -> dict[tuple[int, int], Target]:
    return draw_targets(games)


@pytest.fixture(scope="module")
def annotation(games: Path, targets: dict[tuple[int, int], Target]) -> Path:
    return write_targets(games.parent / "targets.parquet", targets)


def recipe_for(annotation: Path, **changes: Any) -> Any:
    given = {"heads": HEADS, "inputs": INPUTS, "targets": [str(annotation)], "positions": {"passes": True}}
    return tiny(**{**given, "batch_size": 8, "validation": 0, "augment": False, **changes})


def batches(recipe: Any, games: Path, count: int) -> list[Any]:
    data = learn.data.TrainingData(recipe, learn.data.read_training_games(recipe, [games], [], 1))
    return [batch for batch, _ in zip(data.batches(), range(count), strict=False)]


def test_batches_are_pairs_with_their_targets(games, annotation, targets):
    """In an epoch each pair comes once; all labels are those of the file."""
    by_lead = {np.float32(lead): (key, stdev, owner) for key, (lead, stdev, owner) in targets.items()}
    recipe = recipe_for(annotation)
    data = learn.data.TrainingData(recipe, learn.data.read_training_games(recipe, [games], [], 1))
    pairs = {(game, ply) for game, ply in targets if (game, ply + 1) in targets}
    seen = set()
    for batch, _ in zip(data.batches(), range(data.epoch_batches), strict=False):
        keys = []
        for k in range(8):
            key, stdev, owner = by_lead[np.float32(batch.score[k, 0])]
            assert float(batch.score[k, 1]) == pytest.approx(stdev)
            assert batch.ownership[k].tolist() == owner.tolist()
            keys.append(key)
        assert [(game, ply + 1) for game, ply in keys[:4]] == keys[4:]
        assert batch.to_play[:4].tolist() != batch.to_play[4:].tolist()
        played = kept_games(games)
        assert batch.move.tolist() == [int(played[game].moves[ply]) & 0x3FF for game, ply in keys]
        seen |= set(keys[:4])
    assert seen <= pairs
    assert len(seen) == data.epoch_batches * 4 > len(pairs) - 4


def test_augmented_targets_turn_with_the_planes(games, annotation):
    """Own stones are where the ownership of a symmetric target says."""

    def pattern(record, ply):
        board = record.board(ply)
        own, other = ((board.stones == colour).ravel() for colour in (board.to_play, 3 - board.to_play))
        return OWNER_UNIT * (own.astype(int) - other)

    found = {
        (game, ply): (0.0, 1.0, pattern(record, ply))
        for game, record in kept_games(games).items() if len(record) > 21 for ply in (20, 21)
    }  # fmt: skip
    path = write_targets(annotation.with_name("stones.parquet"), found)
    for batch in batches(recipe_for(path, augment=True), games, 12):
        stones = batch.planes[:, 0] - batch.planes[:, 1]  # own+opp+last3
        assert torch.equal(stones.flatten(1) * OWNER_UNIT, batch.ownership.float())


def test_random_komi_moves_the_lead_of_both_positions_of_a_pair(games, annotation):
    plain, moved = (batches(recipe_for(annotation, random_komi=komi), games, 6) for komi in (0, 15))
    shifts = []
    for before, after in zip(plain, moved, strict=True):
        shift = after.score[:, 0] - before.score[:, 0]
        known = after.globals[:, 1] > 0
        assert torch.allclose(shift, 10 * (after.globals[:, 2] - before.globals[:, 2]), atol=1e-4)
        assert torch.allclose(shift[:4], -shift[4:], atol=1e-4)
        assert not shift[~known].any()
        assert torch.equal(before.score[:, 1], after.score[:, 1])
        shifts += shift[known].tolist()
    assert max(shifts) > 5
    assert min(shifts) < -5


def test_losses_match_a_naive_loop(games, annotation):
    heads = {"value": 1.0, "ownership": 0.5, "score": 0.25}
    module = learn.loss.make_policy_module(recipe_for(annotation, heads=heads))
    (batch,) = batches(recipe_for(annotation), games, 1)
    batch = batch._replace(result=torch.full((8,), UNKNOWN, dtype=torch.int8))
    with torch.no_grad():
        module.eval()
        output, alone = module.network(batch.planes, batch.globals), module(batch)
        module.network.eval()
        module.training = True
        paired = module(batch)

    def cost(points):
        x = abs(points) / 10
        return x**2 / 2 if x < 1 else x - 0.5

    off = [float(output.score[k, 0] - batch.score[k, 0]) for k in range(8)]
    owner = sum(float(((output.ownership[k] - batch.ownership[k] / 127) ** 2).sum()) for k in range(8))
    lead = sum(cost(each) for each in off) / 8
    stdev = sum(float((output.score[k, 1] / batch.score[k, 1]).log() ** 2) for k in range(8)) / 8
    black = [-x if side == WHITE else x for x, side in zip(off, batch.to_play.tolist(), strict=True)]
    change = sum(cost(black[k + 4] - black[k]) for k in range(4)) / 4
    policy = float(torch.nn.functional.cross_entropy(output.policy, batch.move))
    expected = policy + 0.5 * owner / (8 * 361) + 0.25 * (lead + stdev)
    assert float(alone.loss) == pytest.approx(expected, rel=1e-4)
    assert float(paired.loss) == pytest.approx(expected + 0.25 * change, rel=1e-4)
    sums = dict(zip(learn.loss.SUMS, alone.sums.tolist(), strict=True))
    assert sums["ownership"] == pytest.approx(owner, rel=1e-4)
    assert sums["score"] == pytest.approx(sum(map(abs, off)), rel=1e-4)
    assert (sums["ownership_known"], sums["score_known"]) == (8 * 361, 8)


@pytest.mark.slow
def test_targets_are_learned(games, tmp_path):
    """Owners that follow from the stones, and with them the lead, are found in other games; the net has points then."""
    found = {}
    for game, record in kept_games(games).items():
        for ply in range(10, min(len(record), 40)):
            board = record.board(ply)
            own, other = ((board.stones == colour).ravel().astype(int) for colour in (board.to_play, 3 - board.to_play))
            owner = own - other
            found[game, ply] = (float(owner.sum()), 5.0, OWNER_UNIT * owner)
    path = write_targets(tmp_path / "targets.parquet", found)
    changes = {"steps": 150, "batch_size": 32, "validation": 0.2, "optimizer": {"kind": "adamw", "lr": 0.01}}
    learn.train.train(recipe_for(path, net="b2c8p", **changes), [games], tmp_path / "run")
    row = learn.run_dir.read_metrics(tmp_path / "run" / "metrics.csv")[-1]
    spread, owned = np.std([lead for lead, *_ in found.values()]), 25 / 361
    assert row["validation_ownership"] < owned / 5
    assert row["validation_score"] < spread
    net = learn.net.open_net(tmp_path / "run")
    assert net.has_points
    assert net.about.heads == ("value", "ownership", "score")


@pytest.mark.slow
def test_a_run_with_targets_resumes(games, annotation, tmp_path):
    assert_resumes_exactly(recipe_for(annotation, steps=12, random_komi=3, augment=True), games, tmp_path, 5)


def test_of_two_rows_for_a_position_the_first_counts(games, targets, annotation):
    others = draw_targets(games, seed=1)
    other = write_targets(annotation.with_name("other.parquet"), others)
    later = {np.float32(lead): key for key, (lead, *_) in others.items()}
    drawn = batches(recipe_for(annotation, targets=[str(annotation), str(other)]), games, 8)
    found = [later.get(lead) for batch in drawn for lead in batch.score[:, 0].numpy()]
    assert not {*found} & {*targets}
    assert any(found)
    assert {*others} & {*targets}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"targets": []}, "require targets"),
        ({"heads": {"value": 1.0}}, "require targets"),
        ({"heads": {"value": 1.0, "score": 1.0}}, "require targets"),
        ({"positions": {}}, r"positions\.passes = true"),
        ({"batch_size": 9}, "even batch_size, got 9"),
    ],
)
def test_refused_recipes(annotation, changes, words):
    with pytest.raises(RecipeError, match=words):
        recipe_for(annotation, **changes)


def test_refused_targets(games, targets, annotation, tmp_path):
    small = write_targets(tmp_path / "small.parquet", draw_targets(games, points=81))
    none = write_targets(tmp_path / "none.parquet", {(1, 2): (0.0, 1.0, np.zeros(361))})
    empty = write_targets(tmp_path / "empty.parquet", {})
    for path, kind, words in (
        (small, FormatError, "no ownership of 361 points"),
        (empty, FormatError, "no ownership of 361 points"),
        (none, SourceError, "none of the .* games has targets in"),
        (games, FormatError, "games.parquet"),
        (tmp_path / "missing.parquet", FormatError, "missing.parquet"),
    ):
        with pytest.raises(kind, match=words):
            batches(recipe_for(path), games, 1)
