"""Runs that are resumed, and directories of runs that are locked, full, damaged or gone."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import kifu
from kifu.errors import FormatError, OutputError, RecipeError
from kifu.io import locked_folder, write_file
from lazy import lazy_import
from marks import slow
from runs import SAMPLE, assert_same_weights, checkpoint, figures_of, interrupted, tiny

learn = lazy_import("kifu.learn")
torch = lazy_import("torch")

FULL = {"average": 0.9, "clip": 1.0, "schedule": {"kind": "cosine", "warm_up": 0.1}, "validate_steps": 10, "steps": 32}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ({"optimiser": {"kind": "adadelta"}, "heads": {"value": 1.0}, "positions": {"per_game": 25}}, (3, 20)),
        *slow(
            ({"optimiser": {"kind": "adamw"}, "precision": "bfloat16"}, (9, 10)),
            ({"optimiser": {"kind": "sgd", "lr": 0.1, "momentum": 0.9, "decay": 0.01}}, (7,)),
            ({"optimiser": {"kind": "adagrad"}}, (14,)),
            ({"optimiser": {"kind": "muon"}, "precision": "bfloat16"}, (10,)),
            ({"net": "blog", "planes": "own+opp", "average": 0.0, "batch_size": 8, "steps": 6}, (4,)),
        ),
    ],
)
def test_a_resumed_run_is_bit_exact(changes: dict, at: tuple[int, ...], games: Path, tmp_path: Path) -> None:
    """Bit for bit: weights, average, batch norms, dropout, optimizer state, and all figures."""
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
