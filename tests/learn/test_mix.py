"""Mixtures of nets: laws of pools, the fit of weights, files, and the commands that take a net."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import kifu
from commands import is_error, run
from evaluated import catalogue, properties, text
from kata_nets import small_net
from kifu.datasets.global_inputs import CONDITION_COLUMNS
from kifu.datasets.mmap_games import COLUMNS, read_games
from kifu.errors import FormatError, RecipeError
from kifu.io import read_small
from kifu.katago.net_file import write_kata_net
from kifu.learn.positions import NetPositions
from kifu.play.referee import parse_command
from lazy import lazy_import
from nets import tiny_net

learn = lazy_import("kifu.learn")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mix")
    tiny_net(folder / "full.safetensors", passes=True, heads=("value", "ownership"), seed=1)
    tiny_net(folder / "plain.safetensors", planes="black+white", seed=2)
    tiny_net(folder / "other.safetensors", passes=True, heads=("value",), seed=3)
    results = ("B+R", "W+R", "0", "W+2.5")
    catalogue(folder, [text(k, root=f"{properties(k)}RE[{results[k % 4]}]") for k in range(8)])
    done = run("mix", folder / "games.parquet", *given(folder, "full", "plain", "other"), "-o", folder / "people.mix")
    assert done.code == 0
    return folder


def given(folder: Path, *nets: str) -> list[object]:
    return [part for net in nets for part in ("--net", folder / f"{net}.safetensors")]


def mixture(folder: Path, *nets: str) -> learn.inference.Net:
    return learn.net.open_net("+".join(str(folder / f"{net}.safetensors") for net in nets))


@pytest.fixture(scope="module")
def positions(folder: Path) -> NetPositions:
    rows = read_games([folder / "games.parquet"], (9, 9), False, 1, (*COLUMNS, *CONDITION_COLUMNS))
    spec = learn.annotate.ExampleSpec("black+white", (9, 9), labels=("move",))
    return NetPositions.from_source(learn.annotate.CatalogueSource(rows, spec), rows)


def stream(net, positions: NetPositions, legal: bool = True) -> learn.evaluation.Evaluation:
    return learn.evaluation.join(list(net.stream(positions, legal=legal)))


@pytest.mark.parametrize("legal", [False, True])
def test_a_net_mixed_with_itself_is_the_net(folder, positions, legal):
    net, mixed = mixture(folder, "full"), mixture(folder, "full", "full")
    assert (mixed.passes, mixed.has_value, mixed.has_points, mixed.takes_ranks) == (True, True, False, False)
    one, two = stream(net, positions, legal), stream(mixed, positions, legal)
    for name in ("log_probs", "value"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-4, atol=1e-5)
    batch = positions.take(np.arange(0, 200, 7))
    one, two = net.evaluate(batch, legal=legal), mixed.evaluate(batch, legal=legal)
    np.testing.assert_allclose(one.policy, two.policy, atol=1e-6)
    np.testing.assert_array_equal(one.legal, two.legal)
    assert not len(mixed.evaluate(batch.take(slice(0, 0))).policy)


def test_equals_the_product_of_probabilities(folder, positions):
    full, plain, mixed = mixture(folder, "full"), mixture(folder, "plain"), mixture(folder, "full", "plain")
    batch = positions.take(np.arange(0, len(positions), 9))
    ours, first, second = (each.evaluate(batch, unverified=True) for each in (mixed, full, plain))
    for policy, p, q in zip(ours.policy.astype(float), first.policy.astype(float), second.policy.astype(float)):
        product = [(a * b * (1 - p[81])) ** 0.5 for a, b in zip(p, q)] + [p[81]]
        np.testing.assert_allclose(policy, np.array(product) / sum(product), atol=1e-6)
    np.testing.assert_allclose(ours.value, first.value, atol=1e-5)
    np.testing.assert_array_equal(ours.ownership, first.ownership)
    write_kata_net(folder / "kata.bin.gz", small_net(["residual"]))
    kata, both = (learn.net.open_net(f"{folder}/kata.bin.gz{end}") for end in ("", f"+{folder}/full.safetensors"))
    for name in ("ownership", "score"):  # those of the net whose points hold
        np.testing.assert_array_equal(*(getattr(each.evaluate(batch), name) for each in (kata, both)))
    streamed = stream(mixed, positions)
    np.testing.assert_allclose(np.exp(streamed.log_probs[::9]), ours.policy, atol=1e-6)
    np.testing.assert_allclose(streamed.value[::9], ours.value, atol=1e-5)


def test_weights_of_phases_and_ranks(folder, positions):
    """A position has the common weights and those of its phase and of the mover's rank, none for an unknown one."""
    rows, rating = learn.mix.design(positions), positions.conditions.rating
    for row, ply, game, white in zip(rows, positions.ply, positions.game, positions.to_play == 2):
        rank = rating[game, int(white)]
        band = [] if np.isnan(rank) else [4 + sum(rank >= start for start in (32, 35, 38))]
        assert np.flatnonzero(row).tolist() == [0, 1 + (ply >= 81 / 6) + (ply >= 81 / 2), *band]
    assert set(rows.sum(0) > 0) == {True, False}  # 36 moves have no endgame on 9 x 9
    mixed = learn.net.open_net(folder / "people.mix")
    batch = positions.take(np.array([20]))
    assert mixed.takes_ranks
    kyu, dan = (mixed.evaluate(batch.with_ranks(rank, rank)).policy for rank in (20.0, 40.0))
    assert np.abs(kyu - dan).max() > 1e-6


def drawn(count: int, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw moves from a pool: policies [N, 9, n], impossible moves included, the moves, and rows of three phases."""
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(count, 9, weights.shape[1])) * 1.5
    logits[rng.random((count, 9)) < 0.2] = -np.inf
    logits[:, 0] = np.where(np.isfinite(logits[:, 0]), logits[:, 0], 0)
    features = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    phase = rng.integers(3, size=count)
    rows = np.hstack([np.ones((count, 1)), phase[:, None] == np.arange(3), np.zeros((count, 4))])
    pooled = learn.mix.pool(list(np.moveaxis(features, 2, 0)), rows @ weights)
    move = np.argmax(pooled + rng.gumbel(size=pooled.shape), 1)
    return features.astype(np.float32), move, rows


@pytest.mark.slow
def test_the_fit_recovers_weights():
    """Weights are found within 5 standard errors (0.01 each), and no member is more likely than the fit."""
    weights = np.zeros((8, 2))
    weights[:4] = [0.7, 0.4], [0.1, -0.1], [0, 0], [-0.1, 0.1]
    features, move, rows = drawn(40_000, weights)
    observed = features[np.arange(len(move)), move].astype(np.float64)
    fitted = learn.mix.fit_weights(features, observed, rows)
    np.testing.assert_allclose(rows @ fitted, rows @ weights, atol=0.05)
    np.testing.assert_allclose(fitted[4:], 0, atol=1e-9)  # ranks that do not occur
    values = np.random.default_rng(2).uniform(-1, 1, (len(rows), 2))
    fitted_values = learn.mix.fit_values(values, (values * (rows @ weights)).sum(1), rows)
    np.testing.assert_allclose(rows @ fitted_values, rows @ weights, atol=0.02)
    losses = [
        learn.mix._likelihood(features, observed, rows, table)[0]
        for table in (fitted, weights, *(np.eye(8, 1) * np.eye(2)[k] for k in range(2)))
    ]
    assert losses[0] <= min(losses) + 1
    assert losses[0] < min(losses[2:])
    twice = learn.mix.fit_weights(features[..., [0, 0]], observed[:, [0, 0]], rows)
    np.testing.assert_allclose(twice[:, 0], twice[:, 1], atol=1e-6)  # equal nets share their weight
    observed[3, 0] = -np.inf
    with pytest.raises(FormatError, match="probability of 0 or NaN"):
        learn.mix.fit_weights(features, observed, rows)


def test_the_gradient_is_that_of_the_likelihood():
    features, move, rows = drawn(300, np.full((8, 2), 0.1))
    observed = features[np.arange(300), move].astype(np.float64)
    table = np.random.default_rng(0).normal(size=(8, 2)) * 0.3
    _, slope, curvature = learn.mix._likelihood(features, observed, rows, table)
    for k in range(16):
        step = np.zeros(16)
        step[k] = 1e-4
        up, down = (learn.mix._likelihood(features, observed, rows, table + s * step.reshape(8, 2)) for s in (1, -1))
        np.testing.assert_allclose((up[0] - down[0]) / 2e-4, slope.ravel()[k], atol=1e-3)
        np.testing.assert_allclose((up[1] - down[1]).ravel() / 2e-4, curvature[k], atol=1e-3)


def test_the_file(folder):
    mix = json.loads((folder / "people.mix").read_text())
    assert [each["name"] for each in mix["members"]] == ["full.safetensors", "plain.safetensors", "other.safetensors"]
    figures = {each["name"]: each for each in mix["figures"]}
    assert figures["fitted"]["nll"] <= min(each["nll"] for each in mix["figures"])
    assert figures["plain"]["value"] is None
    assert figures["fitted"]["value"] <= figures["equal weights"]["value"]
    assert [row[1] for row in (mix["value"]["common"], *mix["value"]["phases"])] == [0, 0, 0, 0]
    shown = run("show", folder / "people.mix").out
    assert f"{mix['positions']} positions of 8 games, {mix['accounts']} players" in shown
    again = ("evaluate", folder / "games.parquet", "--net", folder / "people.mix", "--legal")
    is_error(run(*again), "people was trained on or validated with 8 of 8 games")
    measured = json.loads(run(*again, "--overlap", "keep", "--json", "-").out)["nets"][0]
    np.testing.assert_allclose(measured["score"]["nll"][0], figures["fitted"]["nll"], atol=1e-5)
    np.testing.assert_allclose(measured["value"]["squared"][0], figures["fitted"]["value"], atol=1e-5)
    learn.net.check_net(str(folder / "people.mix"))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("members", [{"name": "../full.safetensors", "blake3": "0" * 64}] * 3, "members.0.name"),
        ("members", [{"name": "a/b", "blake3": "0" * 64}] * 3, "members.0.name"),
        ("members", [{"name": ".hidden", "blake3": "0" * 64}] * 3, "members.0.name"),
        ("members", [{"name": "full.safetensors@os:path", "blake3": "0" * 64}] * 3, "members.0.name"),
        ("members", [{"name": "people.mix", "blake3": "0" * 64}] * 3, "must not be a mixture"),
        ("members", [{"name": "sh -c true", "blake3": "0" * 64}] * 3, "is not beside it"),
        ("members", [{"name": "human", "blake3": "0" * 64}] * 3, "with another human"),
        ("members", [{"name": "human", "blake3": "0" * 64}] * 2, "3 weights for 2 nets"),
        ("members", [{"name": "human", "blake3": "0" * 64}] * 17, "members"),
        ("policy", {"common": [1e9] * 3, "phases": [[0] * 3] * 3, "ranks": [[0] * 3] * 4}, "policy.common.0"),
        ("policy", {"common": [0.1] * 3, "phases": [[0.1] * 2] * 3, "ranks": [[0.1] * 3] * 4}, "same number"),
        ("policy", {"common": [0.1] * 3, "phases": [[0.1] * 3] * 2, "ranks": [[0.1] * 3] * 4}, "policy.phases"),
        ("games", "AAAA", "buffer size"),
        ("games", "?", "games"),
        ("format", "kifu-mix@2", "format"),
    ],
)
def test_damaged_files(folder, key, value, words):
    """One line, whatever the file holds; nothing outside its folder is opened."""
    mix = json.loads(read_small(folder / "people.mix")) | {key: value}
    (folder / "bad.mix").write_text(json.dumps(mix))
    for command in (("show", folder / "bad.mix"), ("gtp", "--net", folder / "bad.mix")):
        is_error(run(*command), words)


def test_changed_nets(folder, tmp_path):
    (tmp_path / "people.mix").write_bytes((folder / "people.mix").read_bytes())
    is_error(run("show", tmp_path / "people.mix"), "is a mixture with full.safetensors, which is not beside it")
    tiny_net(tmp_path / "full.safetensors", passes=True, seed=9)
    for name in ("plain", "other"):
        (tmp_path / f"{name}.safetensors").write_bytes((folder / f"{name}.safetensors").read_bytes())
    is_error(run("show", tmp_path / "people.mix"), "is a mixture with another full.safetensors")
    command = ("mix", folder / "games.parquet", "--net", "human")
    is_error(run(*command, *given(folder, "full"), "-o", tmp_path / "x.mix"), "must be in the folder of its nets")
    is_error(run(*command, "--net", "small", "-o", tmp_path / "x.json"), "must end in .mix")
    is_error(run(*command, "--net", "nowhere", "-o", tmp_path / "x.mix"), "got nowhere")
    is_error(run(*command, "-o", tmp_path / "x.mix"), "two or more nets")
    assert not (tmp_path / "x.mix").exists()


def test_commands(folder, tmp_path):
    mixed = "+".join(str(folder / f"{net}.safetensors") for net in ("full", "other"))
    fitted, (game, games) = str(folder / "people.mix"), (tmp_path / "game.sgf", folder / "games.parquet")
    game.write_bytes(b"(;SZ[9];B[ee];W[cc])")
    for net in (mixed, fitted):
        policy = json.loads(run("predict", game, "--net", net, "--json", "-").out)["policy"]
        single = learn.net.open_net(net).evaluate(NetPositions.from_games([kifu.read_sgf(game.read_bytes())], [2]))
        np.testing.assert_allclose(np.ravel(policy), single.policy[0, :81], atol=1e-6)
        assert parse_command(net)[-4:] == ["--net", net, "--rules", "chinese"]
        learn.net.check_net(net)
        run("annotate", games, "--net", net, "-o", tmp_path / "moves.parquet")
    is_error(run("predict", game, "--net", mixed, "--rank", "3d"), "does not take ranks", "mixture of b1c8 on seven")
    is_error(run("predict", game, "--net", f"{mixed}+none.safetensors"), "none.safetensors")
    with pytest.raises(RecipeError):
        parse_command("full+none")
    assert learn.net.net_hash(mixed) != learn.net.net_hash(fitted)


def test_a_path_with_a_plus_is_a_path(folder):
    path = folder / "one+two.safetensors"
    path.write_bytes((folder / "full.safetensors").read_bytes())
    assert learn.net.open_net(str(path)).name == "one+two"
    assert learn.net.open_net(path).members == ()
