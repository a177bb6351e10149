"""Small training runs: a recipe of a tiny net, and games for it."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from kifu.config import check_config
from kifu.recipes.training import TrainingRecipe
from lazy import lazy_import

learn = lazy_import("kifu.learn")
safetensors = lazy_import("safetensors.torch")
torch = lazy_import("torch")


SAMPLE = Path(__file__).parents[2] / "src" / "kifu" / "assets" / "sample" / "KGS-2025-19-320-.tar.gz"

TINY: dict[str, Any] = {
    "kind": "training", "name": "tiny", "title": "a tiny run", "net": "b1c8", "planes": "own+opp+last3",
    "batch_size": 64, "validation": 0.2, "optimizer": {"kind": "adamw", "lr": 0.01}, "steps": 10,
}  # fmt: skip


def tiny(**changes: Any) -> TrainingRecipe:
    """Return the recipe with some values changed, or left out if None."""
    table = {key: value for key, value in {**TINY, **changes}.items() if value is not None}
    return check_config(TrainingRecipe, table, "recipe", "tiny")


def interrupted(at: int) -> Any:
    after_step = learn.loop.TrainingLoop._after_step

    def after_step_with_signal(
        self: learn.loop.TrainingLoop, batch: learn.data.TrainingBatch
    ) -> learn.loop.RunEnd | None:
        if self.state.steps + 1 == at:
            signal.raise_signal(signal.SIGINT)
        return after_step(self, batch)

    return mock.patch.object(learn.loop.TrainingLoop, "_after_step", after_step_with_signal)


def assert_same_weights(one: Path, other: Path) -> None:
    ours, others = safetensors.load_file(one), safetensors.load_file(other)
    assert ours.keys() == others.keys()
    for name, value in ours.items():
        assert torch.equal(value, others[name]), name


def assert_resumes_exactly(recipe: TrainingRecipe, games: Path, folder: Path, at: int) -> None:
    learn.train.train(recipe, [games], folder / "whole")
    with interrupted(at):
        learn.train.train(recipe, [games], folder / "parts")
    learn.train.train(recipe, [games], folder / "parts", resume=True)
    assert_same_weights(folder / "whole" / "final.safetensors", folder / "parts" / "final.safetensors")
    assert figures_of(folder / "whole") == figures_of(folder / "parts")


def figures_of(folder: Path, leave: Sequence[str] = ("seconds", "rate")) -> list[learn.run_dir.Row]:
    """Return the rows of a run without columns that depend on the time."""
    return [
        {k: v for k, v in row.items() if k not in leave} for row in learn.run_dir.read_metrics(folder / "metrics.csv")
    ]


def checkpoint(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = torch.load(folder / learn.run_dir.LAST, weights_only=True)
    return found
