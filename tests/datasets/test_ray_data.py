"""The Ray Data adapter, and the script that trains with Ray Train."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kifu
from kifu.datasets.examples import Batch
from kifu.datasets.sources import CatalogueSource
from kifu.errors import RecipeError
from loader_games import assert_same, load, make, one_batch

SCRIPT = Path(__file__).parents[2] / "examples/ray_train.py"

# Ray warns about its own default settings.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.subprocess,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.data.context"),
]


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("games"), smalls=100)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Run Ray locally with two processes, and keep the order of the shards."""
    import ray

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    yield
    ray.shutdown()


def taken(data) -> Batch:
    batches = list(data.iter_batches(batch_size=100, batch_format="numpy"))
    columns = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    planes, game, ply = (columns.pop(name) for name in ("planes", "game", "ply"))
    return Batch(planes, columns, game, ply)


def rows(batch: Batch) -> Counter[tuple[int, int]]:
    return Counter(zip(batch.game.tolist(), batch.ply.tolist()))


@pytest.mark.parametrize("output", ["packed", "float32", "bfloat16"])
def test_rows_equal_those_of_the_shards(cluster, games, output):
    from kifu.datasets.ray_data import dataset

    labels = ("move", "next2", "result", "ownership")
    loader = load(games, "seven", labels=labels, batch_size=64, output=output, window=150, epoch=1, jobs=1)
    shares = [one_batch(loader.shard(k, 3)) for k in range(3)]
    reported = taken(dataset(loader, shards=3))
    kinds = {name: values.dtype for name, values in shares[0].labels.items()}
    assert {name: values.dtype for name, values in reported.labels.items()} == kinds
    joined = Batch(
        np.concatenate([share.planes for share in shares]),
        {name: np.concatenate([share.labels[name] for share in shares]) for name in labels},
        np.concatenate([share.game for share in shares]),
        np.concatenate([share.ply for share in shares]),
    )
    assert_same(reported, joined)
    assert rows(reported) == rows(one_batch(loader.epoch(1)))
    assert loader.epoch_number == 2


def test_a_process_fetches_the_loader_once_and_reuses_the_plan(games, monkeypatch):
    """For any number of shards; here without a cluster."""
    from kifu.datasets import ray_data

    loader = load(games, "seven", batch_size=64, jobs=1)
    shares = [one_batch(loader.shard(k, 5)) for k in range(5)]
    taken = []

    def get(sent: bytes) -> kifu.Loader:
        taken.append(pickle.loads(sent))
        return taken[-1]

    monkeypatch.setattr(ray_data.ray, "put", pickle.dumps)
    monkeypatch.setattr(ray_data.ray, "get", get)
    tasks = ray_data.LoaderDatasource(loader, 5).get_read_tasks(5)
    monkeypatch.setattr(CatalogueSource, "select", None)
    for task, share in zip(tasks, shares, strict=True):
        reported = np.concatenate([block["game"].to_numpy() for block in task()])
        assert reported.tolist() == share.game.tolist()
    assert len(taken) == 1


def test_block_sizes_and_epochs(cluster, games):
    import ray

    from kifu.datasets.ray_data import dataset

    context = ray.data.DataContext.get_current()
    before = context.target_max_block_size
    context.target_max_block_size = 50_000
    try:
        loader = load(games, "seven", batch_size=50, jobs=1)
        data = dataset(loader, shards=2).materialize()
    finally:
        context.target_max_block_size = before
    sizes = [block.nbytes for block in ray.get(data.get_internal_block_refs())]
    assert sum(sizes) > 300_000
    assert max(sizes) < 75_000
    assert data.count() == loader.positions
    first, second = taken(data), taken(dataset(loader))
    assert first.game.tolist() != second.game.tolist()
    assert Counter(zip(first.game.tolist(), first.ply.tolist())) == Counter(
        zip(second.game.tolist(), second.ply.tolist())
    )


def test_invalid_shards(cluster, games):
    from kifu.datasets.ray_data import dataset

    loader = load(games, "seven", batch_size=50, jobs=1)
    with pytest.raises(RecipeError, match="shards must be >= 1, got 0"):
        dataset(loader, shards=0)
    with pytest.raises(RecipeError, match="in the middle of an epoch"):
        dataset(loader.epoch(0, 2))


def test_missing_ray_is_reported_in_one_line():
    code = "import sys; sys.modules['ray'] = None; import kifu.datasets.ray_data"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    last = done.stderr.strip().splitlines()[-1]
    assert last == "kifu.errors.MissingExtra: ray is required: pip install 'kifu[cluster]'"


def trained(*arguments: object) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=600,
        env=os.environ | {"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    reported = re.search(r"([0-9,]+) steps, ([0-9,]+) positions, loss \d", done.stdout)
    assert reported is not None, done.stdout
    steps, seen = (int(text.replace(",", "")) for text in reported.groups())
    return steps, seen


def test_script_resumes(games, tmp_path):
    batches = load(games, "seven", board="9x9", batch_size=240, drop_last=True)
    assert len(batches) > 1
    words = (games, "--output", tmp_path / "run", "--board", "9x9", "--workers", 1)
    assert trained(*words, "--steps", 1) == (1, 240)
    assert trained(*words, "--epochs", 2) == (2 * len(batches), 2 * len(batches) * 240)
