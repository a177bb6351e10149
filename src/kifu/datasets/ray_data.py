"""Adapter for Ray Data: the examples of an epoch, rendered by tasks of a cluster. Requires Ray: kifu[cluster].

loader = kifu.load("train.parquet", "seven", config=kifu.LoaderConfig(jobs=1))  # a task has one processor
for batch in dataset(loader).iter_batches(batch_size=1024):
    batch["planes"]  # [1024, 7, 46] uint8
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

from kifu.datasets.loader import Loader
from kifu.errors import RecipeError, missing_extras

with missing_extras():
    import ray
    from ray.data import Dataset
    from ray.data.block import Block, BlockAccessor, BlockMetadata
    from ray.data.datasource import Datasource, ReadTask

_SHARD_POSITIONS = 1 << 20
"""Approximate number of positions that a task renders."""


class LoaderDatasource(Datasource):  # type: ignore[misc]
    """The shards of an epoch of a loader, each of which a Ray task reads; `dataset` uses it."""

    def __init__(self, loader: Loader, shards: int) -> None:
        """Divide the epoch of a loader. Raises RecipeError like `Loader.shard`."""
        super().__init__()
        self._shards, self._bytes = shards, loader.positions * _row_bytes(loader)
        # The games and the plan are sent once to each machine, not with each task.
        self._loader = ray.put(loader.shard(0, 1))

    def get_name(self) -> str:
        """Return the name for progress bars."""
        return "kifu"

    def estimate_inmemory_data_size(self) -> int:
        """Return the size of all rows in bytes."""
        return self._bytes

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """Return one task per shard; `parallelism` has no effect, because the rows depend on the number of shards."""
        size = self._bytes // self._shards
        metadata = BlockMetadata(num_rows=None, size_bytes=size, input_files=None, exec_stats=None)
        return [
            ReadTask(partial(_read, self._loader, shard, self._shards), metadata, per_task_row_limit=per_task_row_limit)
            for shard in range(self._shards)
        ]


def _row_bytes(loader: Loader) -> int:
    layout = loader.layout
    values = layout.planes * layout.points
    planes = {"packed": layout.packed_bytes, "uint8": values, "bfloat16": 2 * values, "float32": 4 * values}
    return planes[loader.config.output] + sum(label.bytes for label in layout.labels) + 12


@lru_cache(1)
def _fetch(loader: Any) -> Loader:
    """Return the loader, cached per process: some plane sets replay all games when it is unpickled."""
    fetched: Loader = ray.get(loader)
    return fetched


def _read(loader: Any, shard: int, shards: int) -> Iterator[Block]:
    """Yield the batches of a shard; Ray merges them into blocks of its preferred size."""
    for batch in _fetch(loader).shard(shard, shards):
        columns = {"planes": batch.planes, **batch.labels, "game": batch.game, "ply": batch.ply}
        yield BlockAccessor.batch_to_block(columns)


def dataset(loader: Loader, shards: int | None = None) -> Dataset:
    """Return the next epoch of a loader as a Ray data set with the columns planes, the labels, game and ply.

    The data set counts as a loop over the loader, and yields the same epoch each time it is read. Ray is initialized if
    necessary, as by `ray.init()`. Raises ClusterError if Ray is not installed, and RecipeError if
    `shards` is below 1, or the loader resumes in the middle of an epoch.

    Args:
        shards: Number of parts of the epoch, each of which one task renders; by default one per million positions. The
            order of the rows depends on it; Ray keeps that order only if its context sets preserve_order.
    """
    count = max(loader.positions // _SHARD_POSITIONS, 1) if shards is None else shards
    if count < 1:
        raise RecipeError(f"shards must be >= 1, got {shards}")
    source = LoaderDatasource(loader, count)
    loader.set_epoch(loader.epoch_number + 1)
    return ray.data.read_datasource(source, override_num_blocks=count)
