"""Training in several processes: together they take the steps of one process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import ddp_run
from commands import run
from kifu.datasets.epoch_plan import LoaderConfig
from kifu.datasets.loader import Loader
from kifu.errors import OutputError, RecipeError
from lazy import lazy_import
from loader_games import row_ids
from runs import assert_same_weights, checkpoint, interrupted, tiny

learn = lazy_import("kifu.learn")
torch = lazy_import("torch")


def positions(recipe: Any, games: Path) -> set[tuple[int, int]]:
    """Return the training positions as (id, ply)."""
    source = learn.data.read_training_games(recipe, [games], [], 1).train
    return set(row_ids(Loader(source, LoaderConfig(shuffle=None, augment=False, jobs=1), 64)))


def batches(data: learn.data.TrainingData) -> Iterator[tuple[set[tuple[int, int]], tuple[int, int]]]:
    """Yield the rows of each batch of the present epoch, and the next position."""

    def record(
        self: learn.data.TrainingData, result: dict[str, torch.Tensor], position: tuple[int, int], teachers: Any = ()
    ) -> Any:
        return set(zip(result["game"].view(torch.uint64).tolist(), result["ply"].tolist())), position

    epoch = data.position[0]
    with mock.patch.object(learn.data.TrainingData, "_make_batch", record):
        for rows, position in data.batches():
            yield rows, position
            if position[0] > epoch:
                return


@pytest.mark.parametrize("world", [2, 6])
def test_processes_share_an_epoch_also_after_a_resumption(world: int, games: Path) -> None:
    """Together they yield as many batches as one process, and each position once."""
    recipe = tiny(batch_size=12, window=150)
    found = learn.data.read_training_games(recipe, [games], [], 1)
    alone = [rows for rows, _ in batches(learn.data.TrainingData(recipe, found))]
    seen: Counter[tuple[int, int]] = Counter()
    states = []
    for process_index in range(world):
        done = 0
        for count in (7, None):
            data = learn.data.TrainingData(recipe, found, process_index, world)
            assert data.epoch_batches == len(alone)
            if done:
                data.load_state_dict(states[-1])
                assert data.epochs_done == pytest.approx(7 / len(alone))
            for rows, position in batches(data):
                assert len(rows) == 12 // world
                seen.update(rows)
                data.position, done = position, done + 1
                if done == count:
                    break
            states.append(data.state_dict())
        assert done == len(alone)
    assert states == states[:2] * world
    assert data.position == (1, 0)
    assert set(seen.values()) == {1}
    assert seen.total() == len(alone) * 12
    assert set(seen) <= positions(recipe, games)
    with pytest.raises(RecipeError, match=rf"world_size was {world}, and is 3; resume with the same world_size"):
        learn.data.TrainingData(recipe, found, 0, 3).load_state_dict(states[0])


@pytest.mark.parametrize("world", [2, 3, 7])
def test_processes_share_the_validation_positions(world: int, games: Path) -> None:
    recipe = tiny(validation_positions=150, validation=0.5, batch_size=16)
    found = learn.data.read_training_games(recipe, [games], [], 1)

    def held(process_index: int, world: int) -> list[bytes]:
        data = learn.data.TrainingData(recipe, found, process_index, world)
        return [row.numpy().tobytes() for each in data.validation_batches() for row in each.planes]

    alone = held(0, 1)
    shares = [held(process_index, world) for process_index in range(world)]
    assert len(alone) == 150
    assert Counter(row for share in shares for row in share) == Counter(alone)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


# Runs of several processes

RANKS = {
    "NODE_RANK": "1", "RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "SLURM_PROCID": "3", "SLURM_NTASKS": "4",
    "OMPI_COMM_WORLD_RANK": "1",
}  # fmt: skip
"""Variables that launchers of other programs set."""


def train(*arguments: object, launcher: tuple[object, ...] = ()) -> None:
    subprocess.run(
        [sys.executable, *map(str, launcher), Path(ddp_run.__file__), *map(str, arguments)],
        env=os.environ | RANKS | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}, timeout=300, check=True,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def rows(log: Path) -> list[tuple[int, int, int, int]]:
    """(epoch, step, game, ply), of all processes."""
    files = [path for path in log.iterdir() if path.name.isdigit()]
    return [tuple(map(int, line.split())) for path in files for line in path.read_text().splitlines()]


@pytest.mark.subprocess
@pytest.mark.thorough
def test_a_run_of_two_processes_uses_each_position_once(games: Path, tmp_path: Path) -> None:
    """Two that kifu starts, and two that torchrun starts, whatever the environment says of ranks."""
    recipe = tiny(**ddp_run.RECIPE)
    into, log = tmp_path / "run", tmp_path / "log"
    log.mkdir()

    train(games, into, log, 2, 15)
    result = learn.run_dir.read_run(into)
    assert result is not None
    assert (result.state, result.steps, result.machine["processes"]) == ("stopped", 20, 2)
    assert sorted(path.name for path in log.iterdir()) == ["0", "1", "files"]
    files = (log / "files").read_text().split()
    assert files.count("last.ckpt") == files.count("best.safetensors") == 1
    assert_validated_by_all(recipe, games, into)

    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2)
    train(games, into, log, 1, 55, launcher=torchrun)
    result = learn.run_dir.read_run(into)
    assert result is not None
    assert (result.steps, result.machine["processes"]) == (60, 2)

    train(games, into, log, 2, 0)
    result = learn.run_dir.read_run(into)
    assert result is not None
    assert (result.state, result.reason) == ("finished", "2 epochs done")
    train(games, into, log, 1, 0, launcher=torchrun)  # a finished run returns at once
    assert learn.run_dir.read_run(into) == result

    every = positions(recipe, games)
    learned = rows(log)
    per_epoch = len(every) // 16
    assert result.counts["epoch_batches"] == per_epoch
    assert result.steps == 2 * per_epoch
    for epoch in range(2):
        seen = Counter((game % 2**64, ply) for k, _, game, ply in learned if k == epoch)
        assert set(seen.values()) == {1}
        assert set(seen) <= every
        assert seen.total() == per_epoch * 16
    assert sorted(Counter(step for _, step, _, _ in learned).items()) == [(k, 16) for k in range(2 * per_epoch)]
    figure = [row for row in learn.run_dir.read_metrics(into / "metrics.csv") if "loss" in row]
    assert [row["step"] for row in figure] == sorted({row["step"] for row in figure})
    assert figure[-1]["epoch"] == 2


def assert_validated_by_all(recipe: Any, games: Path, into: Path) -> None:
    """The figure of two processes is that of one."""
    (row,) = [row for row in learn.run_dir.read_metrics(into / "metrics.csv") if "validation_loss" in row]
    data = learn.data.TrainingData(recipe, learn.data.read_training_games(recipe, [games], [], 1))
    module = learn.loss.PolicyModule(learn.net.open_net(into / "best.safetensors").module, recipe)
    sums = torch.zeros(len(learn.loss.SUMS))
    with torch.no_grad():
        for batch in data.validation_batches():
            sums += module(batch).sums
    alone = learn.run_dir.mean_metrics(sums.tolist(), "validation_")
    assert {name: row[name] for name in alone} == pytest.approx(alone, rel=1e-4)


# What goes wrong


def test_ranks_of_other_launchers_mean_nothing(games: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    learn.train.train(tiny(steps=2), [games], one)
    files = {path.name: path.read_bytes() for path in one.iterdir() if path.is_file()}
    for names in (*((name,) for name in RANKS), (*RANKS, "TORCHELASTIC_RUN_ID")):
        with monkeypatch.context() as changes:
            for name in names:
                changes.setenv(name, RANKS.get(name, "none"))
            with pytest.raises(OutputError, match="made from other inputs or options"):
                learn.train.train(tiny(steps=2, seed=5), [games], one)
            if len(names) > 1:
                learn.train.train(tiny(steps=2), [games], other)
    assert files == {path.name: path.read_bytes() for path in one.iterdir() if path.is_file()}
    assert files.keys() == {path.name for path in other.iterdir() if path.is_file()}
    assert_same_weights(one / "final.safetensors", other / "final.safetensors")


def test_options_that_do_not_fit_the_processes(games: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = [({"devices": 6}, "a batch of 64 cannot be divided among 6 devices")]
    refused += [({"accelerator": "abacus"}, "unknown accelerator 'abacus'; available: auto, cpu, gpu")]
    if not torch.accelerator.is_available():
        refused += [({"accelerator": "gpu", "devices": 2}, "training requires 2 GPUs, and torch finds 0")]
    for options, message in refused:
        with pytest.raises(RecipeError, match=message):
            learn.train.train(tiny(), [games], tmp_path / "run", options=learn.train.TrainOptions(**options))
    for name in (*RANKS, "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, RANKS.get(name, "2"))
    done = run("train", "small", games, "--output", tmp_path / "run", "--devices", 2)
    assert (done.code, done.err) == (2, ["kifu: devices must be 1, got 2: torchrun has started 4 processes"])
    done = run("train", "small", games, "--output", tmp_path / "run", "--set", "batch_size=42")
    assert (done.code, done.err) == (2, ["kifu: a batch of 42 cannot be divided among 4 devices"])


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_process_that_is_killed_ends_the_run(games: Path, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        train(games, tmp_path / "run", tmp_path, 2, -4)
    assert caught.value.stderr.endswith("one of its processes ended: process 0 terminated with signal SIGKILL\n")
    result = learn.run_dir.read_run(tmp_path / "run")
    assert (result.state, result.steps) == ("failed", 0)


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("steps", "inputs", "says"),
    [(7, {}, "processes are at steps 0 and 7"), (0, {"train": "x"}, r"different games: inputs.train was .*now \"x\"")],
)
def test_processes_with_other_directories_or_games_stop(
    steps: int, inputs: dict[str, Any], says: str, games: Path, tmp_path: Path
) -> None:
    """The first process reports the difference."""

    def gathered(result: list[Any], mine: tuple[int, dict[str, Any]]) -> None:
        result[:] = [mine, (mine[0] + steps, mine[1] | inputs)]

    with (
        mock.patch("torch.distributed.all_gather_object", gathered),
        mock.patch("kifu.learn.train.launched", return_value=(0, 2, 0, 2)),
        mock.patch.multiple("torch.distributed", init_process_group=mock.DEFAULT, destroy_process_group=mock.DEFAULT),
        pytest.raises(RecipeError, match=says),
    ):
        learn.train.train(tiny(), [games], tmp_path)
    assert not (tmp_path / "run.json").exists()


def test_figures_between_two_rows_are_kept_when_a_run_stops(games: Path, tmp_path: Path) -> None:
    with interrupted(7):
        learn.train.train(tiny(steps=20), [games], tmp_path)
    saved = checkpoint(tmp_path)["kifu"]
    assert saved["sums"][0] == 7 * 64
    assert saved["steps"] == 7
