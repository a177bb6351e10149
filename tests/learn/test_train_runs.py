"""Runs that are resumed, of several processes and devices, or in directories that are locked, full or gone."""

from __future__ import annotations

import gzip
import json
import logging
import os
import resource
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import ddp_run
import kifu
from commands import run
from kifu.assets import config_names
from kifu.config import check_config
from kifu.datasets.epoch_plan import LoaderConfig
from kifu.datasets.loader import Loader
from kifu.errors import FormatError, OutputError, RecipeError
from kifu.io import locked_folder, write_file
from kifu.recipes.schema import load_recipe, load_training, recipe_text
from kifu.recipes.training import TrainingRecipe
from lazy import lazy_import
from loader_games import make, row_ids
from marks import slow
from nets import processor, tiny_net
from runs import SAMPLE, TINY, assert_same_weights, checkpoint, figures_of, interrupted, tiny

learn = lazy_import("kifu.learn")
torch = lazy_import("torch")

FULL = {"average": 0.9, "clip": 1.0, "schedule": {"kind": "cosine", "warm_up": 0.1}, "validate_steps": 10, "steps": 32}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ({"optimizer": {"kind": "adadelta"}, "heads": {"value": 1.0}, "positions": {"per_game": 25}}, (3, 20)),
        *slow(
            ({"optimizer": {"kind": "adamw"}, "precision": "bfloat16"}, (9, 10)),
            ({"optimizer": {"kind": "sgd", "lr": 0.1, "momentum": 0.9, "decay": 0.01}}, (7,)),
            ({"optimizer": {"kind": "adagrad"}}, (14,)),
            ({"optimizer": {"kind": "muon"}, "precision": "bfloat16"}, (10,)),
            ({"net": "blog", "planes": "own+opp", "average": 0.0, "batch_size": 8, "steps": 6}, (4,)),
        ),
    ],
)
def test_a_resumed_run_is_bit_exact(changes: dict, at: tuple[int, ...], games: Path, tmp_path: Path) -> None:
    recipe = tiny(**(FULL | changes))
    whole = learn.train.train(recipe, [games], tmp_path / "whole")
    for k, step in enumerate(at):
        with interrupted(step):
            result = learn.train.train(recipe, [games], tmp_path / "parts", resume=k > 0)
        assert (result.state, result.reason, result.steps) == ("stopped", "interrupted", step)
        assert not (tmp_path / "parts" / "final.safetensors").exists()
    parts = learn.train.train(recipe, [games], tmp_path / "parts", resume=True)
    assert (parts.state, parts.steps) == ("finished", whole.steps)
    for name in ("final.safetensors", "best.safetensors"):
        assert_same_weights(tmp_path / "whole" / name, tmp_path / "parts" / name)
    assert figures_of(tmp_path / "whole") == figures_of(tmp_path / "parts")
    one, other = (checkpoint(tmp_path / name) for name in ("whole", "parts"))
    assert str(one["optimizer_states"]) == str(other["optimizer_states"])
    assert whole.best["validation_loss"] == parts.best["validation_loss"]


def test_a_finished_run_is_not_resumed(games: Path, tmp_path: Path) -> None:
    result = learn.train.train(tiny(steps=2), [games], tmp_path)
    before = (tmp_path / "last.ckpt").read_bytes()
    assert learn.train.train(tiny(steps=2), [games], tmp_path, resume=True) == result
    assert (tmp_path / "last.ckpt").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failing", "validation"),
    [
        ("final.safetensors", 0),
        ("last.ckpt", 0.2),
        pytest.param("best.safetensors", 0, marks=pytest.mark.slow),
        pytest.param("run.json", 0.2, marks=pytest.mark.slow),
        pytest.param("curves.png", 0, marks=pytest.mark.slow),
    ],
)
def test_resuming_completes_a_run_that_failed_at_its_end(
    failing: str, validation: float, games: Path, tmp_path: Path
) -> None:
    recipe, run = tiny(steps=4, validation=validation), tmp_path / "run"
    whole = learn.train.train(recipe, [games], tmp_path / "whole")

    def full(path: Path, data: Any) -> None:
        if path.name == failing and (run / "metrics.csv").read_text().count("\n") > 1:
            raise OutputError(f"cannot write {path}: No space left on device")
        write_file(path, data)

    with (
        mock.patch("kifu.learn.run_dir.write_file", full),
        mock.patch("kifu.learn.torch_net.write_file", full),
        pytest.raises(OutputError, match="No space left"),
    ):
        learn.train.train(recipe, [games], run)
    result = learn.train.train(recipe, [games], run, resume=True)
    assert (result.state, result.reason, result.steps) == ("finished", "4 steps done", 4)
    assert learn.run_dir.read_run(run) == result
    assert result.best.keys() == whole.best.keys()
    assert result.last.keys() == whole.last.keys()
    for name in ("final.safetensors", "best.safetensors"):
        assert_same_weights(tmp_path / "whole" / name, run / name)
    assert (run / "curves.png").exists()


def test_a_resumed_run_reports_its_progress_at_once(games: Path, tmp_path: Path) -> None:
    with interrupted(8):
        before = learn.train.train(tiny(steps=12, validate_steps=4), [games], tmp_path)

    def look(self: learn.loss.PolicyModule, batch: learn.data.TrainingBatch) -> learn.loss.BatchLoss:
        raise RecipeError("looked")

    with mock.patch.object(learn.loss.PolicyModule, "forward", look), pytest.raises(RecipeError, match="looked"):
        learn.train.train(tiny(steps=12, validate_steps=4), [games], tmp_path, resume=True)
    result = learn.run_dir.read_run(tmp_path)
    assert result is not None
    assert (result.state, result.reason) == ("failed", "looked")
    assert (result.steps, result.positions, result.seconds) == (8, 8 * 64, before.seconds)
    assert result.best == before.best
    assert result.last.keys() == before.last.keys()


def test_a_run_killed_before_its_first_checkpoint_restarts(games: Path, tmp_path: Path) -> None:
    learn.train.train(tiny(steps=4), [games], tmp_path / "whole")
    learn.train.train(tiny(steps=4), [games], tmp_path / "run")
    (tmp_path / "run" / "last.ckpt").unlink()
    learn.train.train(tiny(steps=4), [games], tmp_path / "run", resume=True)
    assert figures_of(tmp_path / "run") == figures_of(tmp_path / "whole")


def test_a_run_directory_is_locked(games: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with locked_folder(tmp_path / "run"), pytest.raises(OutputError, match=r"run is being written by another process$"):
        learn.train.train(tiny(), [games], tmp_path / "run")
    assert not list((tmp_path / "run").iterdir())
    assert learn.train.train(tiny(), [games], tmp_path / "run").state == "finished"


def test_a_full_disk_leaves_the_previous_checkpoint(games: Path, tmp_path: Path) -> None:
    kept = []

    def full(path: Path, checkpoint: dict[str, Any]) -> None:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        if path.exists():
            kept.append(path.read_bytes())
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
        try:
            learn.run_dir.save_checkpoint(path, checkpoint)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    with (
        mock.patch.object(learn.loop, "save_checkpoint", full),
        pytest.raises(OutputError, match=r"cannot write .*last.ckpt: File too large"),
    ):
        learn.train.train(tiny(steps=12, checkpoint_minutes=1e-4), [games], tmp_path)
    assert (tmp_path / "last.ckpt").read_bytes() == kept[0]
    assert not list(tmp_path.glob(".*.part"))
    assert learn.train.train(tiny(steps=12, checkpoint_minutes=1e-4), [games], tmp_path, resume=True).steps == 12


def test_incomplete_rows_and_rows_of_lost_steps_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    metrics = learn.run_dir.MetricsWriter(path)
    for step in (50, 100, 150):
        metrics.add({"step": step, "loss": step / 7, "top1": 0.5})
    with path.open("a") as file:
        file.write("200,1,")
    again = learn.run_dir.MetricsWriter(path, resume_step=100)
    assert [row["step"] for row in again.rows] == [50, 100]
    again.add({"step": 150, "validation_loss": 1.25})
    assert learn.run_dir.read_metrics(path) == [
        {"step": 50, "loss": 7.1428571, "top1": 0.5},
        {"step": 100, "loss": 14.285714, "top1": 0.5},
        {"step": 150, "validation_loss": 1.25},
    ]


def test_damaged_metrics(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    for data in (b"", b"step\nx\n", b"a,b\n1,2\n", b"step,loss\n1,2,3,4\n5\n"):
        path.write_bytes(data)
        assert all(set(row) <= set(learn.run_dir.COLUMNS) for row in learn.run_dir.read_metrics(path))
    path.write_bytes(b"\xff\n")
    with pytest.raises(FormatError, match=r"cannot read .*metrics.csv"):
        learn.run_dir.read_metrics(path)


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_run_directory_that_is_gone(tmp_path: Path, how: str) -> None:
    """One error, whenever it happens; the directory is not made again."""
    directory = tmp_path / "run"
    after_step = learn.loop.TrainingLoop._after_step

    def remove(self: Any, batch: Any) -> Any:
        if self.state.steps + 1 == 5:
            directory.rename(tmp_path / "gone")
            if how == "replaced":
                directory.mkdir()
        return after_step(self, batch)

    with (
        mock.patch.object(learn.loop.TrainingLoop, "_after_step", remove),
        pytest.raises(OutputError, match=f"{directory}(/metrics.csv: No such file| was removed or replaced)"),
    ):
        kifu.train(tiny(), SAMPLE, directory)
    assert how == "removed" or not list(directory.iterdir())
    assert directory.exists() == (how == "replaced")


@pytest.mark.slow
def test_a_net_that_is_gone_at_the_end(tmp_path: Path) -> None:
    save_curves = learn.loop.save_curves

    def remove(directory: Path, *arguments: Any) -> None:
        save_curves(directory, *arguments)
        (directory / "best.safetensors").unlink()

    with (
        mock.patch.object(learn.loop, "save_curves", remove),
        pytest.raises(OutputError, match=r"best\.safetensors was removed or replaced"),
    ):
        kifu.train(tiny(), SAMPLE, tmp_path / "run")


def positions(recipe: Any, games: Path) -> set[tuple[int, int]]:
    source = learn.data.read_training_games(recipe, [games], [], 1).train
    return set(row_ids(Loader(source, LoaderConfig(shuffle=None, augment=False, jobs=1), 64)))


def batches(data: learn.data.TrainingData) -> Iterator[tuple[set[tuple[int, int]], tuple[int, int]]]:
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


AVX2 = {"architecture": "x86_64", "avx2": True, "avx512_bf16": False, "amx_bf16": False}


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        (AVX2, False),
        ({**AVX2, "avx512_f": True}, False),
        ({**AVX2, "avx512_bf16": True}, True),
        ({**AVX2, "amx_bf16": True}, True),
        ({"architecture": "aarch64", "neon": True, "bf16": False}, False),
        ({"architecture": "aarch64", "neon": True, "bf16": True}, True),
        ({"architecture": "riscv64"}, False),
    ],
)
def test_processors(capabilities: dict[str, object], expected: bool) -> None:
    with processor(**capabilities):
        assert learn.torch_backend.has_bfloat16("cpu") == expected
    with processor(**capabilities), mock.patch("torch.backends.mkldnn.is_available", return_value=False):
        assert not learn.torch_backend.has_bfloat16("cpu")


def test_the_capabilities_of_this_processor_are_known() -> None:
    """The names are those of torch: one of them is reported, whatever its value."""
    assert set(learn.torch_backend._CPU_CAPABILITIES) & set(torch.cpu.get_capabilities())


@pytest.mark.parametrize("native", [False, True])
def test_gpus_that_emulate_bfloat16_do_not_have_it(native: bool) -> None:
    def supported(including_emulation: bool = True) -> bool:
        return including_emulation or native

    with processor(), mock.patch("torch.cuda.is_bf16_supported", supported):
        assert learn.torch_backend.has_bfloat16("cuda") == native


@pytest.mark.parametrize("avx512_bf16", [False, True])
def test_nets_compute_in_bfloat16_where_it_is_fast(avx512_bf16: bool, tmp_path: Path) -> None:
    net = learn.net.open_net(tiny_net(tmp_path / "a.safetensors"))
    planes = torch.rand(5, 7, 9, 9)
    with processor(avx512_bf16=avx512_bf16):
        exact, near = (
            learn.backends.evaluate_batch(net.using(precision=precision)._backend(large=True), planes, None, (9, 9))[0]
            for precision in ("float32", "bfloat16")
        )
    assert torch.equal(exact, near) != avx512_bf16
    assert torch.allclose(exact, near, atol=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("avx512_bf16", [False, True])
def test_training_in_bfloat16_where_it_is_fast(avx512_bf16: bool, tmp_path: Path) -> None:
    games = make(tmp_path)
    changes = {"optimizer": {"kind": "muon"}, "steps": 4, "planes": "own+opp"}
    with processor(avx512_bf16=avx512_bf16):
        exact, near = (
            learn.train.train(tiny(precision=precision, **changes), [games], tmp_path / precision)
            for precision in ("float32", "bfloat16")
        )
    assert exact.machine["precision"] == "float32"
    assert near.machine["precision"] == ("bfloat16" if avx512_bf16 else "float32")
    if avx512_bf16:
        losses = [run.best["validation_loss"] for run in (exact, near)]
        assert losses[0] != losses[1]
        assert losses[0] == pytest.approx(losses[1], rel=0.05)
    else:
        assert figures_of(tmp_path / "float32") == figures_of(tmp_path / "bfloat16")
        assert_same_weights(tmp_path / "float32" / "final.safetensors", tmp_path / "bfloat16" / "final.safetensors")


def test_muon_does_not_emulate_bfloat16() -> None:
    matrix = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 8, 12)).astype(np.float32))
    with processor(avx512_bf16=False):
        exact = learn.optim.orthogonalize(matrix)
    with processor(avx512_bf16=True):
        near = learn.optim.orthogonalize(matrix)
    assert torch.equal(near, near.bfloat16().float())
    assert not torch.equal(exact, exact.bfloat16().float())
    assert torch.allclose(exact, near, atol=0.05)


def test_the_user_is_told(caplog: pytest.LogCaptureFixture) -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    with caplog.at_level(logging.INFO, "kifu"), processor(avx512_bf16=False):
        assert learn.torch_backend.supported_precision("float32", cpu) == "float32"
        assert not caplog.records
        assert learn.torch_backend.supported_precision("bfloat16", cpu) == "float32"
        with mock.patch("torch.cuda.is_bf16_supported", return_value=False):
            assert learn.torch_backend.supported_precision("bfloat16", gpu) == "float32"
    assert [record.getMessage() for record in caplog.records] == [
        f"this {name} has no instructions for bfloat16; networks compute in float32" for name in ("processor", "GPU")
    ]


def test_denormal_weights_are_zero_where_a_net_is_evaluated_but_not_in_the_net() -> None:
    """Products with them take many times as long on some processors, so networks of KataGo did."""
    least = np.finfo(np.float32).tiny
    weights = np.array([[1e-40, -least / 2, least, -least, 1e-20, 0, 1]], np.float32)
    layer = torch.nn.Linear(7, 1, bias=False)
    layer.weight.data = torch.from_numpy(weights.copy())
    evaluated = learn.torch_backend.TorchBackend(layer, learn.torch_backend.CPU)._module.weight.detach().numpy()
    np.testing.assert_array_equal(evaluated, [[0, 0, *weights[0, 2:]]])
    np.testing.assert_array_equal(layer.weight.detach().numpy(), weights)


_WAIT_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")

_PRINT_COUNT = "; import os; print(os.environ.get('GOMP_SPINCOUNT'))"


def _run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in _WAIT_VARIABLES}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=clean | environment, capture_output=True, text=True, check=True, timeout=120)


@pytest.mark.subprocess
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="libgomp reports its settings")
def test_openmp_waits_briefly() -> None:
    """All modules that import torch first are in this package."""
    done = _run("import kifu.learn.train", OMP_DISPLAY_ENV="verbose")
    assert "GOMP_SPINCOUNT = '100000'" in done.stderr


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("program", "environment", "count"),
    [
        ("import kifu.learn", {}, "100000"),
        ("import kifu.learn", {"OMP_WAIT_POLICY": "ACTIVE"}, "None"),
        ("import kifu.learn", {"GOMP_SPINCOUNT": "7"}, "7"),
        ("import kifu.learn", {"KMP_BLOCKTIME": "200"}, "None"),
        ("import sys; sys.modules['torch'] = sys; import kifu.learn", {}, "None"),
        ("import kifu", {}, "None"),
    ],
)
def test_settings_of_the_user_and_of_a_loaded_torch_are_kept(
    program: str, environment: dict[str, str], count: str
) -> None:
    assert _run(program + _PRINT_COUNT, **environment).stdout == f"{count}\n"


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
    recipe = load_training("book-small", [f"optimizer.kind={kind}"])
    assert (recipe.optimizer.kind, recipe.optimizer.lr) == (kind, lr)


def test_the_books_sgd_with_decay() -> None:
    """`SGD(lr=0.1, momentum=0.9, decay=0.01)`: section 7.5.1."""
    table = 'optimizer={kind = "sgd", lr = 0.1, momentum = 0.9, decay = 0.01}'
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
    assert [recipe.learning_rate(x, 10**6) / recipe.optimizer.lr for x in done] == pytest.approx(parts, abs=1e-12)


@pytest.mark.parametrize("kind", ["constant", "step", "cosine", "one-cycle"])
def test_schedules_stay_within_bounds(kind: str) -> None:
    table = {"kind": kind, "warm_up": 0.1} | ({"at": [0.3, 0.9]} if kind == "step" else {})
    recipe = tiny(schedule=table)
    parts = np.array([recipe.learning_rate(x, 10**6) / recipe.optimizer.lr for x in np.linspace(0, 1, 1001)])
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
        ({"batch_size": 0}, "batch_size must be >= 1, got 0"),
        ({"steps": None}, "one of steps, epochs and max_minutes is required"),
        ({"epochs": 3}, "steps and epochs exclude each other"),
        ({"optimizer": {"kind": "adam"}}, "optimizer.kind must be 'sgd', .* got \"adam\""),
        ({"optimizer": {"kind": "adagrad", "momentum": 0.9}}, "optimizer.momentum: no such key; available: kind, lr"),
        ({"optimizer": {"kind": "sgd", "where": 1}}, "optimizer.where: no such key; did you mean 'positions.where'"),
        ({"per_game": 4}, r"recipe tiny: per_game: no such key; did you mean 'positions.per_game'\?"),
        ({"optimizer": {"kind": "sgd", "lr": -1.0}}, "optimizer.lr must be > 0, got -1.0"),
        ({"optimizer": {"kind": "sgd", "nesterov": True}}, "nesterov needs momentum > 0"),
        ({"schedule": {"kind": "step"}}, "schedule.at is missing"),
        ({"schedule": {"kind": "cosine", "end": 2.0}}, "schedule.end must be <= 1, got 2.0"),
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
    lines = run("list", "recipes").out.splitlines()
    assert {line.split()[0] for line in lines} >= set(OURS)
    assert run("list", "recipes", "quick-cpu").out == recipe_text("quick-cpu")


def test_a_recipe_as_a_dictionary() -> None:
    assert tiny().to_dict()["optimizer"] == {
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
