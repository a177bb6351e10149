"""Training from another net (`init_from`) and from the probabilities of others (`teacher`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import run
from kata_nets import small_net
from kifu.errors import FormatError, KifuError, RecipeError
from kifu.katago.net_file import write_kata_net
from kifu.learn.positions import NetPositions
from kifu.recipes.schema import load_training
from lazy import lazy_import
from loader_games import kept_games
from nets import tiny_net
from runs import assert_resumes_exactly, assert_same_weights, tiny

learn = lazy_import("kifu.learn")
teacher = lazy_import("kifu.learn.loss")
torch = lazy_import("torch")

INPUTS = ["colour", "komi", "ranks"]


def a_net(path: Path, seed: int = 0, planes: str = "own+opp+last3", **changes: Any) -> Path:
    return tiny_net(path, planes=planes, size=19, seed=seed, **changes)


def first_batch(recipe: Any, games: Path) -> learn.data.TrainingBatch:
    data = learn.data.TrainingData(recipe, learn.data.read_training_games(recipe, [games], [], 1))
    return teacher.Teachers(recipe, data.games, torch.device("cpu")).label(next(iter(data.batches())))


def taught(*nets: Path, **changes: Any) -> dict[str, Any]:
    return {"nets": [str(net) for net in nets], "weight": 1.0, **changes}


# teacher


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_a_net_that_teaches_itself_learns_nothing(temperature: float, games: Path, tmp_path: Path) -> None:
    """The gradient is zero, because cross-entropy is least where both distributions agree."""
    net = a_net(tmp_path / "a.safetensors")
    recipe = tiny(init_from=str(net), teacher=taught(net, temperature=temperature))
    batch = first_batch(recipe, games)
    module = learn.loss.make_policy_module(recipe).eval()
    module(batch).loss.backward()
    gradients = [value.grad.abs().max() for value in module.parameters() if value.grad is not None]
    assert gradients
    assert max(gradients) < 1e-5
    module.zero_grad()
    module(batch._replace(soft_policy=batch.soft_policy.roll(1, 1))).loss.backward()
    assert max(value.grad.abs().max() for value in module.parameters()) > 1e-3


def test_the_loss_matches_its_definition(games: Path, tmp_path: Path) -> None:
    one, two = (a_net(tmp_path / f"{seed}.safetensors", seed) for seed in (1, 2))
    recipe = tiny(teacher=taught(one, two, weight=0.3, temperature=2.0), batch_size=5)
    batch = first_batch(recipe, games)
    module = learn.loss.make_policy_module(recipe).eval()
    policies = []
    with torch.no_grad():
        loss, logits = float(module(batch).loss), module.network(batch.planes).policy.double().numpy()
        for path in (one, two):
            policies.append(learn.net.open_net(path).module(batch.planes).policy.double().softmax(1).numpy())
    expected = 0.0
    for k in range(5):
        target = ((policies[0][k] + policies[1][k]) / 2) ** (1 / 2.0)
        target /= target.sum()
        assert np.allclose(batch.soft_policy[k].numpy(), target, atol=1e-6)
        hard = np.log(np.exp(logits[k]).sum()) - logits[k, batch.move[k]]
        soft = np.log(np.exp(logits[k] / 2).sum()) - (target * logits[k] / 2).sum()
        expected += (0.7 * hard + 0.3 * 2.0**2 * soft) / 5
    assert loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_a_weight_of_0_changes_nothing(games: Path, tmp_path: Path) -> None:
    net = a_net(tmp_path / "a.safetensors", heads=("value",))
    changes = {"steps": 4, "heads": {"value": 0.5}, "average": 0.9}
    for name, table in (("with", taught(net, weight=0.0)), ("without", None)):
        learn.train.train(tiny(**changes, teacher=table), [games], tmp_path / name)
    assert_same_weights(tmp_path / "with" / "final.safetensors", tmp_path / "without" / "final.safetensors")


@pytest.mark.slow
def test_a_student_agrees_with_its_teacher_more_and_more(games: Path, tmp_path: Path) -> None:
    net = a_net(tmp_path / "a.safetensors", heads=("value",))
    recipe = tiny(teacher=taught(net), heads={"value": 1.0}, steps=40, augment=False, batch_size=16)
    batch = first_batch(recipe, games)
    learn.train.train(recipe, [games], tmp_path / "run")
    distances = []
    for module in (learn.loss.make_policy_module(recipe).network, learn.net.open_net(tmp_path / "run").module):
        with torch.no_grad():
            output = module.eval()(batch.planes)
        policy = torch.nn.functional.kl_div(output.policy.log_softmax(1), batch.soft_policy, reduction="batchmean")
        distances.append((float(policy), float((output.value - batch.soft_value).abs().mean())))
    (before, value_before), (after, value_after) = distances
    assert after < 0.7 * before
    assert value_after < 0.9 * value_before


def test_symmetries_are_averaged(games: Path, tmp_path: Path) -> None:
    """The average over symmetries of a mirrored position is the mirrored average."""
    net = a_net(tmp_path / "a.safetensors", heads=("value",))
    recipe = tiny(teacher=taught(net, symmetries=True), batch_size=4)
    data = learn.data.TrainingData(recipe, learn.data.read_training_games(recipe, [games], [], 1))
    batch = next(iter(data.batches()))
    teachers = teacher.Teachers(recipe, data.games, torch.device("cpu"))
    mirrored = batch._replace(teachers=((batch.teachers[0][0].flip(3), None),))
    one, other = teachers.label(batch), teachers.label(mirrored)
    assert torch.allclose(one.soft_policy.view(4, 19, 19).flip(2).flatten(1), other.soft_policy, atol=1e-6)
    assert torch.allclose(one.soft_value, other.soft_value, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("augment", [False, True])
def test_teachers_with_other_planes_see_the_same_positions(augment: bool, games: Path, tmp_path: Path) -> None:
    nets = [
        a_net(tmp_path / "same.safetensors"),
        a_net(tmp_path / "other.safetensors", planes="seven"),
        a_net(tmp_path / "inputs.safetensors", planes="last3+own+opp", inputs=INPUTS),
    ]
    recipe = tiny(teacher=taught(*nets), batch_size=32, augment=augment, inputs=["komi"])
    data = learn.data.TrainingData(recipe, learn.data.read_training_games(recipe, [games], [], 1))
    plain = learn.data.TrainingData(
        tiny(batch_size=32, augment=augment, inputs=["komi"]),
        learn.data.read_training_games(tiny(inputs=["komi"]), [games], [], 1),
    )
    for number, (batch, alone) in enumerate(zip(data.batches(), plain.batches())):
        assert torch.equal(batch.planes, alone.planes)
        assert torch.equal(batch.move, alone.move)
        (same, same_globals), (other, other_globals), (third, globals_) = batch.teachers
        assert torch.equal(same, batch.planes)
        assert same_globals is other_globals is None
        stones = batch.planes[:, :2]
        assert torch.equal(other[:, :3].sum(1), stones[:, 0])  # own stones by liberties
        assert torch.equal(other[:, 3:6].sum(1), stones[:, 1])
        assert torch.equal(third[:, -2:], stones)
        assert globals_.shape == (32, 31)
        assert torch.equal(globals_[:, 1:3], batch.globals)  # komi
        if number == 20:
            break


def test_loaders_that_disagree_are_an_error(games: Path, tmp_path: Path) -> None:
    net = a_net(tmp_path / "a.safetensors", planes="seven")
    recipe = tiny(teacher=taught(net))
    data = learn.data.TrainingData(recipe, learn.data.read_training_games(recipe, [games], [], 1))
    data._others["seven@1"].set_epoch(1)
    object.__setattr__(data._others["seven@1"].config, "seed", 1)
    with pytest.raises(AssertionError, match="the loader of seven@1 yields other positions"):
        next(iter(data.batches()))


@pytest.mark.slow
@pytest.mark.parametrize("planes", ["own+opp+last3", "seven"])
def test_a_run_resumes_exactly_with_the_same_teacher_only(planes: str, games: Path, tmp_path: Path) -> None:
    net = a_net(tmp_path / "a.safetensors", planes=planes, heads=("value",), inputs=INPUTS)
    table = taught(net, weight=0.5, temperature=2.0)
    recipe = tiny(steps=9, heads={"value": 0.5}, inputs=["ranks"], teacher=table, average=0.9, validate_steps=4)
    assert_resumes_exactly(recipe, games, tmp_path, 5)
    a_net(tmp_path / "a.safetensors", seed=1)
    with pytest.raises(RecipeError, match=r"cannot be resumed: inputs\.nets was"):
        learn.train.train(recipe, [games], tmp_path / "parts", resume=True)


def test_games_of_all_nets_are_listed_as_seen(games: Path, tmp_path: Path) -> None:
    nets = [a_net(tmp_path / f"{k}.safetensors", k, games=[k, 10 + k]) for k in range(3)]
    plain = learn.data.read_training_games(tiny(), [games], [], 1).canonical.tolist()
    recipe = tiny(steps=1, init_from=str(nets[0]), teacher=taught(*nets[1:]))
    learn.train.train(recipe, [games], tmp_path / "run")
    for name in ("best", "final"):
        net = learn.net.open_net(tmp_path / "run" / f"{name}.safetensors")
        assert set(net.games.tolist()) == {*plain, 0, 1, 2, 10, 11, 12}


@pytest.mark.slow
def test_a_net_of_katago_teaches_what_it_predicts(games: Path, tmp_path: Path) -> None:
    """Komi, rules and ranks of the records are among its inputs."""
    write_kata_net(tmp_path / "net.bin.gz", small_net(["residual"]))
    recipe = tiny(teacher={"nets": [str(tmp_path / "net.bin.gz")], "weight": 1.0}, augment=False, steps=2)
    data = learn.data.TrainingData(recipe, learn.data.read_training_games(recipe, [games], [], 1))
    batch = next(iter(data.batches()))
    labelled = teacher.Teachers(recipe, data.games, torch.device("cpu")).label(batch)
    by_id, (ids, plies) = kept_games(games), batch.teachers[0]
    asked = [by_id[key] for key in ids.numpy().view(np.uint64).tolist()]
    predictor = learn.net.open_net(tmp_path / "net.bin.gz")
    expected = predictor.evaluate(NetPositions.from_games(asked, plies.tolist()))
    points = expected.policy[:, : labelled.soft_policy.shape[1]]
    assert np.allclose(labelled.soft_policy.numpy(), points / points.sum(1, keepdims=True), atol=1e-5)
    learn.train.train(recipe, [games], tmp_path / "run")
    with pytest.raises(RecipeError, match="augment must be false where a net of KataGo teaches"):
        learn.data.open_teachers(tiny(teacher={"nets": [str(tmp_path / "net.bin.gz")]}))
    with pytest.raises(RecipeError, match="KataGo supports boards of 2 to 19 lines, got 21 x 21"):
        teacher.Teachers(recipe.model_copy(update={"board": "21x21"}), None, torch.device("cpu"))


# init_from


@pytest.mark.slow
@pytest.mark.parametrize("average", [0.0, 0.99])
def test_a_run_from_a_net_begins_with_its_validation(average: float, games: Path, tmp_path: Path) -> None:
    """A tiny learning rate changes nothing but the statistics of batch norms, which this net is given again."""
    learn.train.train(tiny(steps=8, heads={"value": 1.0}), [games], tmp_path / "first")
    recipe = tiny(heads={"value": 1.0}, init_from=str(tmp_path / "first"), average=average)
    module = learn.loss.make_policy_module(recipe)
    net = learn.net.open_net(tmp_path / "first")
    for name, value in net.module.state_dict().items():
        assert torch.equal(module.network.state_dict()[name], value), name
    data = learn.data.TrainingData(recipe, learn.data.read_training_games(recipe, [games], [], 1))
    module.eval()
    with torch.no_grad():
        sums = sum(module(batch).sums for batch in data.validation_batches())
    figures = learn.run_dir.mean_metrics(sums.tolist(), "validation_")
    for name, value in figures.items():
        assert value == pytest.approx(net.about.trained["figures"][name], rel=1e-5)


def test_new_heads_and_inputs_begin_without_effect(games: Path, tmp_path: Path) -> None:
    """The policy is that of the net, and inputs change neither the policy nor the value before training."""
    path = a_net(tmp_path / "a.safetensors")
    recipe = tiny(init_from=str(path), heads={"value": 1.0}, inputs=INPUTS)
    network = learn.loss.make_policy_module(recipe).network.eval()
    planes = (torch.rand(4, 5, 19, 19) > 0.5).float()
    with torch.no_grad():
        known, unknown = network(planes, torch.rand(4, 31)), network(planes, torch.zeros(4, 31))
        expected = learn.net.open_net(path).module(planes)
    assert torch.allclose(known.policy, expected.policy, atol=1e-5)
    assert torch.equal(known.value, unknown.value)
    result = learn.train.train(recipe.model_copy(update={"steps": 1}), [games], tmp_path / "run")
    assert result.inputs["nets"][0]["name"] == "a.safetensors"


def test_what_cannot_be_started_from(tmp_path: Path) -> None:
    net = a_net(tmp_path / "a.safetensors")
    for changes, message in (
        ({"net": "b1c4"}, r"init_from: a is b1c8 on .*; the recipe requires b1c4 on own\+opp\+last3"),
        ({"planes": "seven"}, r"init_from: a is b1c8 on own\+opp\+last3; the recipe requires b1c8 on seven@1"),
    ):
        with pytest.raises(RecipeError, match=message):
            learn.loss.make_policy_module(tiny(init_from=str(net), **changes))
    small = tiny_net(tmp_path / "b.safetensors", "book-small", "one-plane")
    recipe = tiny(init_from=str(small), net="book-small", planes="one-plane", board="19x19")
    with pytest.raises(RecipeError, match=r"init_from: weight \S+ of book-small has shape \[.*\] in b, \[.*\] in the"):
        learn.loss.make_policy_module(recipe)


# errors and paths


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"init_from": "nowhere"}, "cannot read the net nowhere: No such file or directory"),
        ({"init_from": ""}, "init_from"),
        ({"teacher": {"nets": []}}, r"teacher\.nets"),
        ({"teacher": {"nets": ["nowhere"]}}, "cannot read the net nowhere: No such file or directory"),
        ({"teacher": {"nets": ["a"], "weight": 1.5}}, r"teacher\.weight must be <= 1, got 1\.5"),
        ({"teacher": {"nets": ["a"], "temperature": 0.0}}, r"teacher\.temperature must be > 0, got 0\.0"),
        ({"teacher": {"nets": ["a"], "t": 1}}, r"teacher\.t: no such key"),
        ({"teacher": {}}, r"teacher\.nets is missing"),
    ],
)
def test_errors_are_one_line(changes: dict[str, Any], message: str, games: Path, tmp_path: Path) -> None:
    with pytest.raises(KifuError, match=message) as error:
        learn.train.train(tiny(**changes), [games], tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_teachers_that_do_not_fit(games: Path, tmp_path: Path) -> None:
    without = a_net(tmp_path / "a.safetensors")
    with pytest.raises(RecipeError, match=r"teacher a does not predict passes; positions\.passes must be false"):
        learn.data.open_teachers(tiny(teacher=taught(without), positions={"passes": True}))
    fixed = tiny_net(tmp_path / "b.safetensors", "book-small", "one-plane")
    with pytest.raises(RecipeError, match=r"net b .* supports 9 x 9 boards only"):
        learn.data.open_teachers(tiny(teacher=taught(fixed)))
    (tmp_path / "c.safetensors").write_bytes(b"no net")
    with pytest.raises(FormatError, match="is not a net of kifu"):
        learn.data.open_teachers(tiny(teacher=taught(tmp_path / "c.safetensors")))


def test_a_teacher_that_predicts_passes_teaches_a_net_that_does_not(games: Path, tmp_path: Path) -> None:
    recipe = tiny(teacher=taught(a_net(tmp_path / "a.safetensors", passes=True)), batch_size=8)
    labelled = first_batch(recipe, games)
    assert labelled.soft_policy.shape == (8, 361)
    assert torch.allclose(labelled.soft_policy.sum(1), torch.ones(8), atol=1e-5)


def test_paths_are_relative_to_the_recipe_file(games: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recipes").mkdir()
    a_net(tmp_path / "recipes" / "a.safetensors")
    a_net(tmp_path / "b.safetensors")
    lines = [
        'kind = "training"', 'name = "my"', 'title = "my"', 'net = "b1c8"', 'planes = "own+opp+last3"', "steps = 1",
        'init_from = "a.safetensors"', 'optimizer = { kind = "adamw" }',
        'teacher = { nets = ["a.safetensors", "b.safetensors"] }',
    ]  # fmt: skip
    (tmp_path / "recipes" / "my.toml").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    recipe = load_training("recipes/my.toml")
    assert recipe.nets == (*[str(Path("recipes") / "a.safetensors")] * 2, "b.safetensors")
    assert run("train", "recipes/my.toml", games, "--output", "out", "--jobs", 1).code == 0
    done = run("train", "recipes/my.toml", games, "--output", "no", "--set", "teacher.nets=['x']")
    assert (done.code, done.err) == (2, ["kifu: cannot read the net x: No such file or directory"])
