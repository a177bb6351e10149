"""Training: learning, files of a run, resuming and errors."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import random
import re
import signal
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kifu
from catalogues import write_catalogue
from commands import finish, run, start
from example_sets import layout_for, random_batch, write
from kifu.corpus.ingest import ingest
from kifu.corpus.schema import to_numpy
from kifu.datasets.examples import UNKNOWN
from kifu.errors import FormatError, OutputError, RecipeError, SourceError
from kifu.planes.registry import PLANE_SETS
from kifu.point import to_sgf
from kifu.recipes.schema import load_training
from kifu.viz.curves import draw_training_curves
from lazy import lazy_import
from loader_games import load
from marks import slow
from nets import NET_NAMES, global_values
from runs import SAMPLE, assert_same_weights, checkpoint, interrupted, tiny
from traps import set_traps, sprung

learn = lazy_import("kifu.learn")
torch = lazy_import("torch")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sample") / "games.parquet"
    ingest([SAMPLE], path)
    return path


# Learning


MADDISON = {"net": "maddison", "planes": "maddison36", "init": "he-normal", "inputs": ["colour"], "steps": 60}


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "lr"), [({"net": "b2c16", "steps": 100}, 0.02), (MADDISON, 0.0005)])
def test_32_positions_are_learned_completely(changes: dict[str, Any], lr: float, tmp_path: Path) -> None:
    points = random.Random(1).sample(range(81), 32)
    moves = "".join(f";{'BW'[k % 2]}[{to_sgf(point, 9)}]" for k, point in enumerate(points))
    (tmp_path / "game.sgf").write_text(f"(;SZ[9]BR[4d]WR[5d]{moves})")
    optimizer = {"kind": "adamw", "lr": lr}
    recipe = tiny(board="9x9", validation=0, batch_size=32, augment=False, optimizer=optimizer, **changes)
    result = learn.train.train(recipe, [tmp_path / "game.sgf"], tmp_path / "run")
    assert result.counts["epoch_batches"] == 1
    assert result.last["top1"] == result.last["top5"] == 1.0
    assert result.last["loss"] < 0.01 or changes is MADDISON
    assert learn.net.open_net(tmp_path / "run").about.planes == recipe.encoder().plane_set.name


@pytest.mark.slow
def test_a_net_with_outputs_for_each_colour_learns_the_moves_of_both() -> None:
    """16 boards, each before a move of Black and before another one of White; the planes do not tell them apart."""
    changes = {"net": "maddison", "planes": "black+white", "board": "5x5", "init": "he-normal", "inputs": ["colour"]}
    recipe = tiny(**changes, optimizer={"kind": "adamw", "lr": 0.0005})
    chance = torch.Generator().manual_seed(1)
    planes = torch.rand(16, 2, 5, 5, generator=chance).round().repeat(2, 1, 1, 1)
    black = torch.randint(25, (16,), generator=chance)
    white = (black + torch.randint(1, 25, (16,), generator=chance)) % 25
    moves = torch.cat((black, white))
    to_move = torch.tensor([1.0, -1.0]).repeat_interleave(16)[:, None]
    right = {}
    for shuffled in (False, True):
        module = learn.loss.make_policy_module(recipe)
        optimizer = learn.optim.make_optimizer(module.network, recipe.optimizer)
        for _ in range(15):
            colours = to_move[torch.randperm(32, generator=chance)] if shuffled else to_move
            result = module(learn.data.TrainingBatch(planes, moves, globals=colours))
            optimizer.zero_grad()
            result.loss.backward()
            optimizer.step()
        right[shuffled] = float(module(learn.data.TrainingBatch(planes, moves, globals=to_move)).sums[2])
    assert right[False] == 32
    assert right[True] < 26


@pytest.mark.slow
def test_real_moves_are_learned_and_shuffled_ones_are_not(sample: Path, tmp_path: Path) -> None:
    recipe = tiny(steps=80, validation_positions=1500, schedule={"kind": "cosine"})
    real = learn.train.train(recipe, [sample], tmp_path / "real")
    make_batch = learn.data.TrainingData._make_batch

    def shuffled(
        self: learn.data.TrainingData, values: dict[str, torch.Tensor], next_position: tuple[int, int], *teachers: Any
    ) -> learn.data.TrainingBatch:
        return make_batch(self, {**values, "move": values["move"].roll(1)}, next_position, *teachers)

    with mock.patch.object(learn.data.TrainingData, "_make_batch", shuffled):
        chance = learn.train.train(recipe, [sample], tmp_path / "chance")
    assert real.best["validation_top1"] > 0.06
    assert real.best["validation_loss"] < math.log(361) - 0.6
    assert chance.best["validation_top1"] < 0.02
    assert chance.best["validation_loss"] > math.log(361) - 0.2


OURS = [name for name, each in PLANE_SETS.items() if each.features]  # what nets learn from
QUICK = ("one-plane@1", "clark8@1", "seven@1")  # real values, a rim, neither


@pytest.mark.parametrize("name", [pytest.param(x, marks=() if x in QUICK else pytest.mark.slow) for x in OURS])
def test_gradients_are_finite_for_every_plane_set(name: str, games: Path) -> None:
    recipe = tiny(planes=name, heads={"value": 1.0}, batch_size=16)
    data = learn.data.TrainingData(recipe, learn.data.read_training_games(recipe, [games], [], 1))
    module = module_of(recipe)
    measured = module(next(iter(data.batches())))
    measured.loss.backward()
    gradients = [value.grad for value in module.network.parameters()]
    assert all(grad is not None and torch.isfinite(grad).all() for grad in gradients)
    assert any(grad.abs().max() > 0 for grad in gradients if grad is not None)


SMALL_STEPS = {"sgd": 1e-4, "adagrad": 1e-5, "adadelta": 0.1, "adamw": 1e-5, "muon": 1e-4}


@pytest.mark.parametrize("net", NET_NAMES)
@pytest.mark.parametrize("kind", SMALL_STEPS)
def test_a_step_of_every_optimizer_lowers_the_loss_of_every_net(net: str, kind: str) -> None:
    optimizer = {"kind": kind, "lr": SMALL_STEPS[kind]}
    recipe = tiny(net=net, inputs=inputs_of(net), planes="own+opp", board="5x5", optimizer=optimizer, init="he-normal")
    module = module_of(recipe)
    chance = torch.Generator().manual_seed(1)
    batch = learn.data.TrainingBatch(
        torch.rand(32, 2, 5, 5, generator=chance),
        torch.randint(25, (32,), generator=chance),
        globals=global_values(module.network, 32),
    )
    optimizer = learn.optim.make_optimizer(module.network, recipe.optimizer)
    module.eval()  # what is dropped out would hide what is learned
    before = module(batch).loss
    before.backward()
    optimizer.step()
    assert all(torch.isfinite(value.grad).all() for value in module.network.parameters() if value.grad is not None)
    assert module(batch).loss < before


def inputs_of(net: str) -> list[str]:
    return list(learn.registry.find_net(net).inputs)


def module_of(recipe: Any) -> learn.loss.PolicyModule:
    encoder = recipe.encoder()
    torch.manual_seed(0)
    network = learn.registry.make_net(
        recipe.net, encoder.planes, *recipe.size, rim=encoder.plane_set.padding, heads=tuple(recipe.heads),
        inputs=recipe.inputs,
    )  # fmt: skip
    return learn.loss.PolicyModule(network, recipe)


def test_losses_match_a_naive_loop() -> None:
    recipe = tiny(heads={"value": 2.0, "next": 0.3}, board="5x5", planes="own+opp")
    module = module_of(recipe).eval()
    chance = torch.Generator().manual_seed(2)
    batch = learn.data.TrainingBatch(
        torch.rand(40, 2, 5, 5, generator=chance),
        torch.randint(25, (40,), generator=chance),
        torch.tensor([1, -1, 0, UNKNOWN] * 10, dtype=torch.int8),
    )
    batch = batch._replace(next=torch.randint(-1, 26, (40, 3), generator=chance).to(torch.int16))
    with torch.no_grad():
        result, measured = module.network(batch.planes), module(batch)
    loss = top1 = top5 = value = 0.0
    for k in range(40):
        logits = result.policy[k].double()
        loss += float(logits.exp().sum().log() - logits[batch.move[k]])
        ahead = sum(bool(x > logits[batch.move[k]]) for x in logits)
        top1, top5 = top1 + (ahead < 1), top5 + (ahead < 5)
        if batch.result[k] != UNKNOWN:
            value += float(result.value[k] - batch.result[k]) ** 2
    expected = [40, loss, top1, top5, value, 30, 0, 0, 0, 0]
    assert measured.sums.tolist() == pytest.approx(expected, rel=1e-4)
    assert float(measured.loss) == pytest.approx(loss / 40 + 2 * value / 30, rel=1e-4)
    assert result.next is None  # in training only
    module.train()
    with torch.no_grad():
        trained, without = (module(each).loss for each in (batch, batch._replace(next=None)))
        logits = module.network(batch.planes).next.log_softmax(2)
    known = [(k, j, m) for k in range(40) for j in (0, 1) if 0 <= (m := int(batch.next[k, j + 1])) < 25]
    expected = -sum(float(logits[each]) for each in known) / len(known)
    assert float(trained - without) == pytest.approx(0.3 * expected, rel=1e-4)


@pytest.mark.parametrize("planes", ["seven", "clark8"])
def test_packed_planes_are_unpacked(planes: str, games: Path) -> None:
    """A GPU receives packed planes."""
    recipe = tiny(planes=planes)
    packed, plain = (
        next(iter(load(games, planes, batch_size=20, output=output, jobs=1))) for output in ("packed", "float32")
    )
    ready = module_of(recipe).prepare(torch.from_numpy(packed.planes))
    assert ready.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(ready, torch.from_numpy(plain.planes))


def test_ties_are_ranked_as_by_argmax() -> None:
    """Otherwise a net with constant logits would always be right."""
    module = module_of(tiny(board="5x5", planes="own+opp"))
    for value in module.network.parameters():
        torch.nn.init.zeros_(value)
    batch = learn.data.TrainingBatch(torch.rand(25, 2, 5, 5), torch.arange(25))
    assert module(batch).sums[2:4].tolist() == [1, 5]


@pytest.mark.parametrize("net", ["b1c8", "maddison"])
def test_adamw_decays_matrices_only(net: str) -> None:
    recipe = tiny(net=net, inputs=inputs_of(net), optimizer={"kind": "adamw", "lr": 0.1, "weight_decay": 0.5})
    network = module_of(recipe).network
    for value in network.parameters():
        torch.nn.init.normal_(value)
    optimizer = learn.optim.make_optimizer(network, recipe.optimizer)
    before = {name: value.detach().clone() for name, value in network.named_parameters()}
    for value in network.parameters():
        value.grad = torch.zeros_like(value)
    optimizer.step()
    for name, value in network.named_parameters():
        decays = value.ndim > 1 and not name.endswith("bias")
        assert torch.allclose(value, before[name] * (0.95 if decays else 1.0)), name


def test_the_average_matches_a_naive_one() -> None:
    layer = torch.nn.BatchNorm1d(3)
    average, naive = learn.optim.EMA(layer, 0.5), layer.weight.detach().clone()
    for step in range(1, 12):
        with torch.no_grad():
            layer.weight += step
            layer.running_var += step
        average.update(step)
        keep = min(0.5, (1 + step) / (10 + step))
        naive = keep * naive + (1 - keep) * layer.weight.detach()
    own = layer.weight.detach().clone()
    with average.applied():
        assert torch.allclose(layer.weight, naive)
        assert torch.allclose(layer.running_var, naive)
    assert torch.equal(layer.weight, own)


# Games


def test_training_and_validation_games_are_disjoint(sample: Path, games: Path, tmp_path: Path) -> None:
    for recipe, validate in ((tiny(validation=0.3), []), (tiny(), [games])):
        found = learn.data.read_training_games(recipe, [sample, games, games], validate, 1)
        assert found.validation is not None
        assert len(found.train.ids)
        assert len(found.validation.ids)
        assert not set(found.train.ids.tolist()) & set(found.validation.ids.tolist())
    assert set(found.validation.ids.tolist()) == set(
        learn.data.read_training_games(tiny(validation=0), [games], [], 1).train.ids.tolist()
    )
    assert (
        found.train.ids.tolist()
        == learn.data.read_training_games(tiny(validation=0), [sample], [], 1).train.ids.tolist()
    )


def test_linked_games_are_never_on_both_sides(games: Path, sample: Path, tmp_path: Path) -> None:
    """Each game has copies with other openings: moves 1 and 3 are exchanged, or the last one is missing."""
    (table,) = kifu.open_catalogue(games).batches()
    moves, name, field = table["moves"].to_pylist(), table.schema.names.index, table.schema.field
    exchanged, cut = [[m[2], m[1], m[0], *m[3:]] for m in moves], [m[:-1] for m in moves]
    paths = [games]
    for k, each in enumerate((exchanged, cut)):
        copy = table.set_column(name("moves"), field("moves"), pa.array(each, field("moves").type))
        for column in ("n_moves", "n_legal"):
            most = pa.array(map(len, each), field(column).type)
            copy = copy.set_column(name(column), field(column), pc.min_element_wise(table[column], most))
        for column in ("id", "opening"):
            copy = copy.set_column(name(column), field(column), pc.add(table[column], pa.scalar(k + 1, pa.uint64())))
        paths.append(write_catalogue(tmp_path / f"{k}.parquet", copy))
    for recipe, sources, validate in ((tiny(validation=0.3), paths, []), (tiny(), [*paths[1:], sample], paths[:1])):
        found = learn.data.read_training_games(recipe, sources, validate, 1)
        assert found.validation is not None
        ids = to_numpy(table["id"].filter(pc.is_null(table["drop"])))
        on_side = (
            np.concatenate([each.ids - np.uint64(k) for k in range(3)]) for each in (found.train, found.validation)
        )
        sides = [np.isin(ids, each) for each in on_side]
        assert not np.any(sides[0] & sides[1])
        assert np.all(sides[1] if validate else sides[0] | sides[1])


def test_a_set_of_a_split_can_be_split_again(sample: Path, tmp_path: Path) -> None:
    kifu.ingest(sample, tmp_path / "games.parquet")
    kifu.split(tmp_path / "games.parquet", tmp_path)
    found = learn.data.read_training_games(tiny(validation=0.05), [tmp_path / "train.parquet"], [], 1)
    assert found.validation is not None
    assert len(found.validation.ids)


def test_conditions_select_games_of_both_sets(sample: Path) -> None:
    every, some = (
        learn.data.read_training_games(tiny(validation=0.3, **options), [sample], [], 1)
        for options in ({}, {"positions": {"where": "n_moves % 2 = 0", "weight": "0.5"}})
    )
    assert some.validation is not None
    assert every.validation is not None
    for one, all_ in ((some.train, every.train), (some.validation, every.validation)):
        even = [int(k) for k, plies in zip(all_.ids, np.diff(all_.games.move_offset)) if plies % 2 == 0]
        assert one.ids.tolist() == even
    assert some.fingerprint() != every.fingerprint()


def test_a_smaller_sample_is_a_subset(sample: Path) -> None:
    some, more, all_, others = (
        set(learn.data.read_training_games(tiny(**result), [sample], [], 1).train.ids.tolist())
        for result in ({"games": 10}, {"games": 20}, {}, {"games": 20, "seed": 1})
    )
    assert (len(some), len(more), len(others)) == (10, 20, 20)
    assert some < more < all_
    assert others != more


def test_the_net_lists_its_training_and_validation_games(games: Path, tmp_path: Path) -> None:
    recipe = tiny(games=7, steps=1)
    learn.train.train(recipe, [games], tmp_path / "run")
    found = learn.data.read_training_games(recipe, [games], [], 1)
    catalogue = kifu.open_catalogue(games)
    canonical = {
        key: value
        for batch in catalogue.batches(("id", "canonical"))
        for key, value in zip(to_numpy(batch["id"]).tolist(), to_numpy(batch["canonical"]).tolist())
    }
    expected = sorted(canonical[key] for key in [*found.train.ids.tolist(), *found.validation.ids.tolist()])
    assert len(expected) == 7 + found.counts()["validation_games"] > 7
    for name in ("best", "final"):
        net = learn.net.open_net(tmp_path / "run" / f"{name}.safetensors")
        assert net.games.tolist() == expected
        assert net.about.recipe == recipe.to_dict()
        assert net.about.trained["steps"] == 1


def test_games_that_chose_the_best_net_are_no_test(games: Path, sample: Path, tmp_path: Path) -> None:
    learn.train.train(tiny(steps=1), [sample], tmp_path / "run", validate=[games])
    with pytest.raises(RecipeError, match=r"^run was trained on or validated with 31 of 31 games"):
        learn.evaluate.evaluate(tmp_path / "run", games)


def test_training_data_starts_at_any_position(games: Path) -> None:
    recipe = tiny(batch_size=100)
    found = learn.data.read_training_games(recipe, [games], [], 1)
    batches: list[learn.data.TrainingBatch] = []
    count = learn.data.TrainingData(recipe, found).epoch_batches
    assert 3 < count < 20
    for batch in learn.data.TrainingData(recipe, found).batches():
        batches.append(batch)
        if len(batches) == 20:
            break
    places = [(k // count, k % count) for k in range(1, 21)]
    assert [each.next_position for each in batches] == places
    for k in (3, count, 11):
        data = learn.data.TrainingData(recipe, found)
        data.position = batches[k - 1].next_position
        again = next(iter(data.batches()))
        assert torch.equal(again.planes, batches[k].planes)
        assert again.next_position == batches[k].next_position


@pytest.mark.parametrize(("processes", "threads"), [(1, 8), (2, 4), (3, 2), (16, 1)])
def test_the_processes_of_a_machine_share_the_cores_they_may_use(
    games: Path, monkeypatch: pytest.MonkeyPatch, processes: int, threads: int
) -> None:
    """Eight cores of a larger machine, on each of four machines."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8, 16)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    recipe = tiny(batch_size=4 * processes)
    found = learn.data.read_training_games(recipe, [games], [], 1)
    data = learn.data.TrainingData(recipe, found, 0, 4 * processes, processes, on_gpu=True)
    assert data._cores == threads


@pytest.mark.subprocess
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*pin_memory:UserWarning", "ignore:.*worker processes:UserWarning")
@pytest.mark.parametrize("cores", [2, 5])
def test_a_process_prepares_equal_batches_for_a_gpu(games: Path, monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    monkeypatch.setattr(learn.data, "count_cores", lambda: cores)
    recipe = tiny(heads={"value": 1.0}, inputs=["colour", "komi"], random_komi=5, batch_size=64)
    found = learn.data.read_training_games(recipe, [games], [], 1)
    one, many = (learn.data.TrainingData(recipe, found, on_gpu=True) for _ in range(2))
    one.position = many.position = (1, 3)
    with contextlib.closing(many.batches()) as batches:
        for expected, found_batch in zip(one, itertools.islice(batches, 2 * one.epoch_batches)):
            assert found_batch.next_position == expected.next_position
            for name in ("planes", "move", "result", "globals"):
                assert torch.equal(getattr(found_batch, name), getattr(expected, name))
    few = learn.data.TrainingData(recipe.model_copy(update={"batch_size": 10**5}), found, on_gpu=True)
    with pytest.raises(RecipeError, match=r"^the training games have [\d,]+ moves, and epoch 0 has fewer"):
        next(few.batches())


@pytest.mark.slow
def test_a_run_counts_the_cores_that_it_may_use(games: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert learn.train.train(tiny(steps=1), games, tmp_path / "run").machine["cores"] == 1


def test_validation_is_repeatable_and_limited(games: Path) -> None:
    recipe = tiny(validation_positions=150, validation=0.5)
    data = learn.data.TrainingData(recipe, learn.data.read_training_games(recipe, [games], [], 1))
    one, two = (torch.cat([each.planes for each in data.validation_batches()]) for _ in range(2))
    assert len(one) == 150
    assert torch.equal(one, two)


# Files of a run


@pytest.mark.slow
def test_files_of_a_run(games: Path, tmp_path: Path) -> None:
    heads = {"value": 1.0, "next": 0.1}
    recipe = tiny(steps=60, heads=heads, positions={"passes": True}, average=0.9, clip=1.0)
    result = learn.train.train(recipe, [games], tmp_path / "run")
    names = "best.safetensors curves.png final.safetensors last.ckpt metrics.csv run.json tensorboard"
    assert " ".join(sorted(path.name for path in (tmp_path / "run").iterdir())) == names
    assert learn.run_dir.read_run(tmp_path / "run") == result
    assert (result.state, result.reason, result.steps, result.positions) == ("finished", "60 steps done", 60, 60 * 64)
    assert result.inputs["train"][0]["name"] == "games.parquet"
    assert len(result.inputs["train"][0]["blake3"]) == 64
    rows = learn.run_dir.read_metrics(tmp_path / "run" / "metrics.csv")
    learned, held = ([row for row in rows if name in row] for name in ("loss", "validation_loss"))
    assert [row["step"] for row in learned] == sorted({50, 60, *(row["step"] for row in held)})
    others = {name for name in learn.run_dir.COLUMNS if name.startswith("validation")}
    others |= {"averaged", "ownership", "score"}
    assert set(learned[0]) == {*learn.run_dir.COLUMNS} - others
    assert held[-1]["step"] == 60
    assert {f"validation_{name}" for name in ("loss", "top1", "top5", "value")} < set(held[-1])
    assert result.best["validation_loss"] == pytest.approx(min(row["validation_loss"] for row in held))
    assert list((tmp_path / "run" / "tensorboard").glob("events.*"))
    net = learn.net.open_net(tmp_path / "run")
    assert (net.about.heads, net.about.passes, net.about.planes) == (tuple(heads), True, recipe.planes)
    planes = torch.from_numpy(np.random.default_rng(0).random((2, 5, 19, 19), np.float32))
    assert net.module(planes).policy.shape == (2, 362)


@pytest.mark.slow
def test_a_saved_net_has_its_validation_loss(games: Path, tmp_path: Path) -> None:
    """Includes averaged weights and batch-norm statistics."""
    recipe = tiny(steps=30, average=0.8, validation=0.3)
    result = learn.train.train(recipe, [games], tmp_path / "run")
    net = learn.net.open_net(tmp_path / "run" / "final.safetensors")
    data = learn.data.TrainingData(recipe, learn.data.read_training_games(recipe, [games], [], 1))
    module = learn.loss.PolicyModule(net.module, recipe)
    with torch.no_grad():
        sums = sum(module(batch).sums for batch in data.validation_batches())
    assert float(sums[1] / sums[0]) == pytest.approx(result.last["validation_loss"], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "end", "averaged"),
    [
        ({"steps": 60, "average": 0.95, "optimizer": {"kind": "adamw", "lr": 0.03}}, "60 steps done", True),
        *slow(({"steps": 40, "average": 0.9}, "40 steps done", False)),  # the average lags behind
        ({"steps": 99, "average": 0.5, "patience": 1, "validate_steps": 9}, "1 validations without a lower loss", None),
    ],
)
def test_the_better_of_averaged_and_raw_weights_are_kept(
    games: Path, sample: Path, tmp_path: Path, changes: dict[str, Any], end: str, averaged: bool | None
) -> None:
    recipe, lines = tiny(**changes, validation_positions=2000), list[str]()
    with mock.patch.object(kifu.progress.Progress, "log", lambda self, line: lines.append(line)):
        # On random moves, training makes the validation worse.
        result = learn.train.train(recipe, [games if recipe.patience else sample], tmp_path)
    assert result.reason == end
    rows = [row for row in learn.run_dir.read_metrics(tmp_path / "metrics.csv") if "validation_loss" in row]
    raw, average = sorted((row for row in rows if row["step"] == result.steps), key=lambda row: row["averaged"])
    assert averaged in (None, average["validation_loss"] <= raw["validation_loss"])
    averaged = average["validation_loss"] <= raw["validation_loss"]
    assert all(row["averaged"] == 1 for row in rows[:-2])

    final, saved = learn.net.open_net(tmp_path / "final.safetensors"), checkpoint(tmp_path)
    weights = {name.removeprefix("network."): value for name, value in saved["state_dict"].items()}
    for value, ours in zip(learn.optim._float_values(final.module), saved["kifu"]["average"], strict=True):
        name = next(key for key, each in final.module.state_dict(keep_vars=True).items() if each is value)
        assert torch.equal(value, ours if averaged else weights[name])
    figures = final.about.trained["figures"]
    kept, other = (average, raw) if averaged else (raw, average)
    assert {name: value for name, value in figures.items() if name in kept} == pytest.approx(kept)
    names = ("averaged", "raw") if averaged else ("raw", "averaged")
    assert lines[-1].endswith(f" with {names[0]} weights; {other['validation_loss']:.4f} with {names[1]} ones")
    best = min(rows, key=lambda row: row["validation_loss"])
    assert result.best == pytest.approx(best)
    assert ("raw weights" in result.summary()) == (best["averaged"] == 0)
    assert ("with raw weights" in learn.net.describe_net(tmp_path)) == (best["averaged"] == 0)


def test_without_validation_the_last_net_is_the_best(games: Path, tmp_path: Path) -> None:
    result = learn.train.train(tiny(validation=0, steps=3), [games], tmp_path)
    assert result.best == {}
    assert_same_weights(tmp_path / "best.safetensors", tmp_path / "final.safetensors")


@pytest.mark.slow
def test_patience_ends_a_run(games: Path, tmp_path: Path) -> None:
    """On random moves, training makes the validation worse."""
    recipe = tiny(steps=300, validate_steps=5, patience=2, optimizer={"kind": "adamw", "lr": 0.05})
    result = learn.train.train(recipe, [games], tmp_path)
    assert (result.state, result.reason) == ("finished", "2 validations without a lower loss")
    rows = [row for row in learn.run_dir.read_metrics(tmp_path / "metrics.csv") if "validation_loss" in row]
    assert result.steps < 300
    assert min(rows, key=lambda row: row["validation_loss"])["step"] == rows[-3]["step"] == result.best["step"]


@pytest.mark.slow
def test_a_run_and_its_schedule_end_with_the_time_limit(games: Path, tmp_path: Path) -> None:
    clock = iter(range(10**6))
    with mock.patch("kifu.learn.loop.time", mock.Mock(monotonic=lambda: next(clock) / 10)):
        recipe = tiny(
            validation_positions=64, steps=10**6, schedule={"kind": "cosine"}, checkpoint_minutes=1.0, max_minutes=0.2
        )
        result = learn.train.train(recipe, [games], tmp_path)
    assert (result.state, result.reason) == ("finished", "time limit of 0.2 min reached")
    assert 12 <= result.seconds < 13
    assert result.recipe["max_minutes"] == 0.2
    assert result.last["lr"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seconds", "limit", "remark"),
    [
        (3.2, {"max_minutes": 0.5}, "[0-9]+ positions/s on average, 160 at the beginning: the machine was busy"),
        *slow((0.44, {"max_minutes": 0.5}, None)),
        *slow((3.2, {"steps": 30}, None)),  # nothing was lost but time
    ],
)
def test_a_run_that_was_slowed_down_says_so(
    games: Path, tmp_path: Path, seconds: float, limit: dict[str, Any], remark: str | None
) -> None:
    """Steps of 64 positions take 0.4 s for ten seconds, then `seconds`."""
    now, shown = [0.0], list[str]()
    step = learn.loop.TrainingLoop._seed_step

    def timed_step(self: learn.loop.TrainingLoop) -> None:
        now[0] += 0.4 if now[0] < 10 else seconds
        step(self)

    recipe = tiny(validation=0, **{"steps": None, **limit})
    with (
        mock.patch("kifu.learn.loop.time", mock.Mock(monotonic=lambda: now[0])) as clock,
        mock.patch("kifu.progress.time", clock),
        mock.patch.object(learn.loop, "LOG_EVERY", 5),
        mock.patch.object(learn.loop.TrainingLoop, "_seed_step", timed_step),
        mock.patch.object(kifu.progress.Progress, "set_note", lambda self, note: shown.append(note())),
    ):
        result = learn.train.train(recipe, [games], tmp_path)
    assert result.state == "finished"
    rates = [note.rpartition(", ")[2] for note in shown]
    assert "160 positions/s" in rates
    if "max_minutes" in limit:
        assert rates[-1] == f"{round(64 / seconds)} positions/s"
    saved = json.loads((tmp_path / "run.json").read_bytes())["remark"]
    assert (saved is None) == (remark is None)
    if remark is not None:
        assert re.fullmatch(remark, saved)
        assert saved in result.summary()


@pytest.mark.slow
def test_epochs_are_counted(games: Path, tmp_path: Path) -> None:
    result = learn.train.train(tiny(steps=None, epochs=2), [games], tmp_path)
    assert result.steps == 2 * result.counts["epoch_batches"]
    rows = [row for row in learn.run_dir.read_metrics(tmp_path / "metrics.csv") if "validation_loss" in row]
    assert [row["epoch"] for row in rows] == [1.0, 2.0]


@pytest.mark.usefixtures("cache")
def test_games_at_urls(tmp_path: Path) -> None:
    fsspec.filesystem("memory").pipe(f"/train/{SAMPLE.name}", SAMPLE.read_bytes())
    here, there = (
        learn.data.read_training_games(tiny(), [source], [], 1) for source in (SAMPLE, f"memory://train/{SAMPLE.name}")
    )
    assert here.fingerprint() == there.fingerprint()
    assert here.inputs == there.inputs
    with pytest.raises(SourceError, match=r"^memory://train/none.zip: no such file or folder$"):
        learn.data.read_training_games(tiny(), ["memory://train/none.zip"], [], 1)


# Resuming


@pytest.mark.slow
def test_runs_that_cannot_be_resumed(games: Path, sample: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(RecipeError, match=r"has no run to resume: there is no run.json"):
        learn.train.train(tiny(), [games], run, resume=True)
    with interrupted(3):
        learn.train.train(tiny(), [games], run)
    with pytest.raises(RecipeError, match="is not finished; --resume continues it"):
        learn.train.train(tiny(), [games], run)
    with pytest.raises(RecipeError, match=r"cannot be resumed: recipe.optimizer.lr was 0.01, now 0.02"):
        learn.train.train(tiny(optimizer={"kind": "adamw", "lr": 0.02}), [games], run, resume=True)
    with pytest.raises(RecipeError, match=r"cannot be resumed: inputs.train was .*games.parquet"):
        learn.train.train(tiny(), [sample], run, resume=True)
    whole = checkpoint(run)
    for name in whole["kifu"]:
        less = {key: value for key, value in whole["kifu"].items() if key != name}
        torch.save(whole | {"kifu": less}, run / "last.ckpt")
        with pytest.raises(FormatError, match=r"cannot resume from .*last.ckpt: not a checkpoint of kifu"):
            learn.train.train(tiny(), [games], run, resume=True)
    (run / "run.json").write_text("[" * 10**5)
    with pytest.raises(FormatError, match=r"run.json is not a valid run manifest"):
        learn.train.train(tiny(), [games], run, resume=True)


# Errors.


@pytest.mark.slow
def test_a_nan_loss_stops_the_run(games: Path, tmp_path: Path) -> None:
    kept: dict[int, bytes] = {}
    forward = learn.loss.PolicyModule.forward

    def with_nan(self: learn.loss.PolicyModule, batch: learn.data.TrainingBatch) -> learn.loss.BatchLoss:
        if batch.next_position == (1, 3):
            kept[0] = (tmp_path / "last.ckpt").read_bytes()
            batch = batch._replace(planes=batch.planes * math.nan)
        return forward(self, batch)

    recipe = tiny(steps=40, average=0.9, checkpoint_minutes=1e-4)
    with (
        mock.patch.object(learn.loss.PolicyModule, "forward", with_nan),
        pytest.raises(
            RecipeError, match=r"loss is NaN or infinite at step \d+ \(lr 0.01\); .*last.ckpt is from before"
        ),
    ):
        learn.train.train(recipe, [games], tmp_path)
    assert (tmp_path / "last.ckpt").read_bytes() == kept[0]
    result = learn.run_dir.read_run(tmp_path)
    assert result is not None
    assert result.state == "failed"
    assert "NaN" in (result.reason or "")
    bad = result.counts["epoch_batches"] + 3
    assert f"at step {bad} " in (result.reason or "")
    assert checkpoint(tmp_path)["kifu"]["steps"] < bad
    assert learn.train.train(recipe, [games], tmp_path, resume=True).steps == 40


@pytest.mark.slow
def test_divergence_is_reported(games: Path, tmp_path: Path) -> None:
    recipe = tiny(net="book-small", planes="own+opp", steps=8, optimizer={"kind": "sgd", "lr": 1e6}, batch_size=16)
    with pytest.raises(RecipeError, match=r"\(lr 1e\+06\); try a lower optimizer.lr, or clip; there is no checkpoint"):
        learn.train.train(recipe, [games], tmp_path)
    assert not list(tmp_path.glob("*.safetensors"))


@pytest.mark.parametrize(
    ("changes", "options", "kind", "message"),
    [
        ({"batch_size": 10**5}, {}, RecipeError, r"has fewer positions than one batch \(100000\)"),
        ({"batch_size": 65}, {"devices": 2}, RecipeError, "a batch of 65 cannot be divided among 2 devices"),
        (
            {"batch_size": 1, "heads": {"value": 1.0}},
            {},
            RecipeError,
            "value head requires .* a batch of 1 is too small",
        ),
        ({"batch_size": 2, "heads": {"value": 1.0}}, {"devices": 2}, RecipeError, "a batch of 2 is too small"),
        ({"net": "b0c8"}, {}, RecipeError, "unknown net 'b0c8'"),
        ({"init": "he"}, {}, RecipeError, "unknown init 'he'"),
        ({"board": "13x13"}, {}, SourceError, "no game on a 13 x 13 board"),
        ({"validation": 1e-9}, {}, SourceError, "none of .* games is left to validate with"),
    ],
)
def test_invalid_recipes_and_options(
    changes: dict, options: dict, kind: type[Exception], message: str, games: Path, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=message):
        learn.train.train(tiny(**changes), [games], tmp_path / "run", options=learn.train.TrainOptions(**options))


def test_validation_games_of_passes_only(games: Path, tmp_path: Path) -> None:
    (tmp_path / "passes.sgf").write_text("(;SZ[19];B[];W[])")
    with pytest.warns(match="0 positions"), pytest.raises(RecipeError, match=r"^there are no validation positions$"):
        learn.train.train(tiny(steps=2), [games], tmp_path / "run", validate=[tmp_path / "passes.sgf"])


def test_data_sets_are_refused(tmp_path: Path) -> None:
    path, layout = tmp_path / "old.npy", layout_for("npy@1")
    write("npy@1", path, layout, random_batch(layout, 20))
    with pytest.raises(RecipeError, match=r"old.npy is a data set; training requires games"):
        learn.train.train(tiny(), [path], tmp_path / "run")


# Metrics


def test_files_of_a_run_that_are_directories(tmp_path: Path) -> None:
    (tmp_path / "run.json").mkdir()
    with pytest.raises(FormatError, match=r"^cannot read .*run.json: Is a directory$"):
        learn.run_dir.read_run(tmp_path)
    metrics = learn.run_dir.MetricsWriter(tmp_path / "metrics.csv")
    (tmp_path / "metrics.csv").unlink()
    (tmp_path / "metrics.csv").mkdir()
    with pytest.raises(OutputError, match=r"^cannot write .*metrics.csv: Is a directory$"):
        metrics.add({"step": 1, "loss": 2.0})


@pytest.mark.slow
def test_curves_are_drawn_of_any_rows() -> None:
    base = {"step": 50.0, "positions": 3200.0, "seconds": 2.0}
    rows = [{**base, "loss": 5.0, "top1": 0.1}, {**base, "validation_loss": 5.1, "validation_top1": 0.09}]
    pictures = [draw_training_curves(some, "title") for some in ([], rows[:1], rows * 50)]
    assert len(set(pictures)) == 3
    assert all(data.startswith(b"\x89PNG") for data in pictures)
    assert draw_training_curves(rows[:1], "title") == pictures[1]


# The command

CHOSEN = ("net=b1c8", 'planes="own+opp+last3"', "batch_size=64", "window=4000", "validation=0.2")
OPTIONS = tuple(word for chosen in CHOSEN for word in ("--set", chosen))


@pytest.mark.slow
def test_the_command_trains_stops_and_resumes(games: Path, tmp_path: Path) -> None:
    words = ("train", "quick-cpu", games, "--output", tmp_path / "run", *OPTIONS, "--set", "steps=30", "--time", "2m")
    planned = run(*words, "--dry-run")
    assert planned.out.startswith(f"reads:\n  {games}\nwrites:\n  {tmp_path / 'run'}\n")
    assert not (tmp_path / "run").exists()
    with interrupted(12):
        done = run(*words)
    assert done.code == 130
    assert done.out.startswith(f"{tmp_path / 'run'}: stopped (interrupted) after 12 steps, 768 positions")
    assert done.err[-1] == "kifu: interrupted; --resume continues a run that has begun"
    done = run(*words, "--resume")
    assert (done.code, done.out.count("\n")) == (0, 1)
    assert "finished (30 steps done) after 30 steps, 1,920 positions; best validation top-1" in done.out
    assert next(line for line in done.err if line.startswith("training")) == "training quick-cpu: 0 of 120 s"
    assert any(line.startswith("step 30, 1,920 positions: validation loss") for line in done.err)
    assert not [line for line in done.err if "GPU" in line or "Warning" in line]
    again = run(*words)
    assert (again.code, again.err[-1].endswith(" was there already")) == (0, True)


@pytest.mark.slow
def test_packaged_recipes_run_on_a_cpu(games: Path, tmp_path: Path) -> None:
    small = ["net=b1c8", "batch_size=32", "steps=20", "window=2000", "validation=0.2"]
    for name in ("quick-cpu", "human", "strong"):
        result = learn.train.train(load_training(name, small), [games], tmp_path / name)
        assert (result.state, result.steps) == ("finished", 20)
        assert result.last["loss"] < 7


@pytest.mark.slow
def test_strong_with_its_own_net_runs_on_a_cpu(sample: Path, tmp_path: Path) -> None:
    less = ["steps=4", "batch_size=16", "validation_positions=50"]
    result = learn.train.train(load_training("strong", less), [sample], tmp_path)
    assert (result.state, result.steps, result.positions) == ("finished", 4, 4 * 16)
    assert result.recipe["net"] == "b10c80"
    assert math.isfinite(result.last["loss"])


@pytest.mark.subprocess
@pytest.mark.slow
def test_two_processes_train_one_net(games: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_traps(tmp_path)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "run"
    words = ("train", "quick-cpu", games, "--output", folder, *OPTIONS, "--set", "steps=20")
    words += ("--devices", 2, "--accelerator", "cpu", "--jobs", 1)
    done = finish(start(*words, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES=""))
    assert done.code == 0, done.err
    assert done.out.count("finished (20 steps done) after 20 steps, 1,280 positions") == 1
    result = learn.run_dir.read_run(folder)
    assert result is not None
    assert result.machine["processes"] == 2
    assert result.last["step"] == 20
    rows = [row for row in learn.run_dir.read_metrics(folder / "metrics.csv") if "validation_loss" in row]
    assert [row["step"] for row in rows] == [20, 20]  # of averaged and of raw weights, each from one process
    assert {row["averaged"] for row in rows} == {0, 1}
    learn.net.open_net(folder)
    assert sprung(tmp_path) == []


@pytest.mark.subprocess
@pytest.mark.slow
def test_sigterm_stops_a_command_cleanly(sample: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start("train", "quick-cpu", sample, "--output", folder, *OPTIONS, "--time", "5m", OMP_NUM_THREADS="1")
    assert process.stderr is not None
    killer = threading.Timer(300, process.kill)
    killer.start()
    for line in process.stderr:
        if line.startswith("training quick-cpu"):
            break
    killer.cancel()
    process.send_signal(signal.SIGTERM)
    done = finish(process)
    assert done.code == 130
    assert "stopped (terminated) after" in done.out
    assert json.loads((folder / "run.json").read_text())["state"] == "stopped"
    assert checkpoint(folder)["kifu"]["steps"] > 0
