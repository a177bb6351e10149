"""Recipes of training runs: what they say, how rates come of them, and what is refused."""

from __future__ import annotations

import gzip
import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

import kifu
from commands import run
from kifu.assets import config_names
from kifu.config import check_config
from kifu.errors import RecipeError
from kifu.recipes.schema import load_recipe, load_training, recipe_text
from kifu.recipes.training import TrainingRecipe
from lazy import lazy_import
from runs import SAMPLE, TINY, tiny

learn = lazy_import("kifu.learn")


OURS = [name for name in config_names("recipes") if tomllib.loads(recipe_text(name)).get("kind") == "training"]


def test_packaged_recipes() -> None:
    promised = "blog book-large book-medium book-small clark-storkey maddison quick-cpu strong"
    assert set(promised.split()) <= set(OURS)


@pytest.mark.parametrize("name", OURS)
def test_a_recipe_is_named_as_its_file_and_complete(name: str) -> None:
    recipe = load_training(name)
    assert recipe.name == name
    assert check_config(TrainingRecipe, recipe.to_dict(), "recipe", name) == recipe
    encoder = recipe.encoder()
    net = learn.registry.make_net_for(
        recipe.net, encoder, passes=recipe.positions.passes, heads=tuple(recipe.heads), inputs=recipe.inputs
    )
    assert net.config.planes == encoder.planes


@pytest.mark.parametrize(("kind", "lr"), [("adagrad", 0.01), ("adadelta", 1.0), ("sgd", 0.01)])
def test_the_books_optimizers(kind: str, lr: float) -> None:
    recipe = load_training("book-small", [f"optimiser.kind={kind}"])
    assert (recipe.optimiser.kind, recipe.optimiser.lr) == (kind, lr)


def test_the_books_sgd_with_decay() -> None:
    """`SGD(lr=0.1, momentum=0.9, decay=0.01)`: section 7.5.1."""
    table = 'optimiser={kind = "sgd", lr = 0.1, momentum = 0.9, decay = 0.01}'
    recipe = load_training("book-small", [table])
    assert [recipe.learning_rate(0.5, step) for step in (0, 100, 900)] == [0.1, 0.05, 0.01]


@pytest.mark.parametrize(
    ("schedule", "done", "parts"),
    [
        ({"kind": "constant"}, (0, 0.5, 1), (1, 1, 1)),
        ({"kind": "step", "at": [0.5, 0.75], "factor": 0.1}, (0, 0.49, 0.5, 0.75, 1), (1, 1, 0.1, 0.01, 0.01)),
        ({"kind": "cosine"}, (0, 0.5, 1), (1, 0.5, 0)),
        ({"kind": "cosine", "end": 0.2}, (0, 0.5, 1), (1, 0.6, 0.2)),
        ({"kind": "cosine", "warm_up": 0.2}, (0, 0.1, 0.2, 0.6, 1), (0.01, 0.5, 1, 0.5, 0)),
        ({"kind": "one-cycle", "begin": 0.1, "peak": 0.25}, (0, 0.125, 0.25, 0.625, 1), (0.1, 0.55, 1, 0.5, 0)),
        ({"kind": "constant", "warm_up": 1.0}, (0.25, 1), (0.25, 1)),
    ],
)
def test_schedules_at_some_points(schedule: dict, done: tuple[float, ...], parts: tuple[float, ...]) -> None:
    recipe = tiny(schedule=schedule)
    assert [recipe.learning_rate(x, 10**6) / recipe.optimiser.lr for x in done] == pytest.approx(parts, abs=1e-12)


@pytest.mark.parametrize("kind", ["constant", "step", "cosine", "one-cycle"])
def test_schedules_stay_within_bounds(kind: str) -> None:
    table = {"kind": kind, "warm_up": 0.1} | ({"at": [0.3, 0.9]} if kind == "step" else {})
    recipe = tiny(schedule=table)
    parts = np.array([recipe.learning_rate(x, 10**6) / recipe.optimiser.lr for x in np.linspace(0, 1, 1001)])
    assert (parts >= 0).all()
    assert (parts <= 1).all()
    assert np.diff(parts).max() <= 0.0101
    assert parts.max() > 0.99


def test_warm_up_in_steps() -> None:
    recipe = tiny(schedule={"kind": "constant", "warm_up_steps": 4})
    assert [recipe.schedule.scale(0.0, step) for step in range(6)] == [0.25, 0.5, 0.75, 1, 1, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batchsize": 3}, r"batchsize: no such key; did you mean 'batch_size'\?"),
        ({"batch_size": 0}, "batch_size: .* \\(it is 0\\)"),
        ({"steps": None}, "one of steps, epochs and max_minutes is required"),
        ({"epochs": 3}, "steps and epochs exclude each other"),
        ({"optimiser": {"kind": "adam"}}, "optimiser: .*'sgd'"),
        ({"optimiser": {"kind": "adagrad", "momentum": 0.9}}, "optimiser.momentum: no such key; available: kind, lr"),
        ({"optimiser": {"kind": "sgd", "where": 1}}, "optimiser.where: no such key; did you mean 'positions.where'"),
        ({"per_game": 4}, r"recipe tiny: per_game: no such key; did you mean 'positions.per_game'\?"),
        ({"optimiser": {"kind": "sgd", "lr": -1.0}}, "optimiser.sgd.lr: .* \\(it is -1.0\\)"),
        ({"optimiser": {"kind": "sgd", "nesterov": True}}, "nesterov needs momentum > 0"),
        ({"schedule": {"kind": "step"}}, "schedule.step.at: Field required"),
        ({"schedule": {"kind": "cosine", "end": 2.0}}, "schedule.cosine.end"),
        ({"precision": "float16"}, "precision"),
        ({"heads": {"komi": 1.0}}, "heads.komi"),
        ({"planes": "sevn"}, "did you mean"),
        ({"board": "30x30"}, "30"),
        ({"validation": 1.0}, "validation"),
        ({"positions": {"ply_weights": {"0": 2.0}}}, "ply_weights must be within 0 to 1, got 2.0"),
        ({"positions": {"rank_weights": {"10x": 0.5}}}, "'10x' is not a rank"),
        ({"average": 1.0}, "average"),
    ],
)
def test_invalid_values(changes: dict, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        tiny(**changes)


def test_positions_are_filtered_as_by_the_loader() -> None:
    weights = {"ply_weights": {"10": 0.5}, "rank_weights": {"1d": 1.0, "?": 0.5}, "passes": True, "per_game": 3}
    choice = tiny(positions=weights).positions
    assert choice.to_dict() == {
        "passes": True, "programs": False, "per_game": 3, "ply_weights": [[10, 0.5]],
        "rank_weights": {"1d": 1.0, "?": 0.5},
    }  # fmt: skip


def test_commands_refuse_recipes_of_other_kinds(tmp_path: Path) -> None:
    done = run("build", "quick-cpu", tmp_path, "--output", tmp_path / "out")
    assert (done.code, done.err) == (
        2,
        ["kifu: recipe quick-cpu trains a network: use kifu.train, or the command kifu train"],
    )
    done = run("train", "agz17", tmp_path, "--output", tmp_path / "out")
    assert (done.code, done.err) == (2, ["kifu: recipe agz17 builds data sets; it does not train a network"])
    with pytest.raises(
        RecipeError, match="kind must be one of 'examples', 'katago', 'olf-archive', 'tokens', 'training'"
    ):
        load_recipe("quick-cpu", ["kind=run"])
    assert not (tmp_path / "out").exists()


def test_recipes_are_listed() -> None:
    lines = run("recipes").out.splitlines()
    assert {line.split()[0] for line in lines} >= set(OURS)
    assert run("recipes", "quick-cpu").out == recipe_text("quick-cpu")


def test_a_recipe_as_a_dictionary() -> None:
    assert tiny().to_dict()["optimiser"] == {
        "kind": "adamw", "lr": 0.01, "betas": [0.9, 0.999], "epsilon": 1e-8, "weight_decay": 0.01
    }  # fmt: skip
    assert tiny().to_dict()["net"] == TINY["net"]


@pytest.mark.slow
def test_a_dump_of_ogs_trains_a_net_that_takes_ranks(tmp_path: Path) -> None:
    """The command of docs/packaged-nets.md on some games with the ranks of OGS, 15 for 15 kyu, 33 for 4 dan."""
    games = []
    for k, game in enumerate(kifu.read(SAMPLE)):
        ranks = {"black": {"username": f"b{k}", "rank": 15}, "white": {"username": f"w{k}", "rank": 33}}
        moves = [[*reversed(divmod(point, 19)), 1000] for point in (game.moves[:60] & 511).tolist() if point < 361]
        games.append({"width": 19, "height": 19, "players": ranks, "moves": moves, "winner": "black", "komi": 6.5})
    path = tmp_path / "ogs.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, games)).encode()))
    changes = ["net=b1c8", "steps=3", "batch_size=16", "validation_positions=16", "validation=0.1"]
    result = run(
        "train", "human", path, "-o", tmp_path / "run", *(part for each in changes for part in ("--set", each))
    )
    assert result.code == 0, result.err
    net = learn.net.open_net(tmp_path / "run")
    assert "ranks" in net.about.inputs
    rows = learn.data.read_training_games(load_training("human", changes), [path], [], 1).train.rows
    ratings = {(row["black_rating"], row["white_rating"]) for row in rows.to_pylist()}
    assert ratings == {(17.0, 35.0)}
