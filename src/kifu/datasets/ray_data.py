"""A loader's examples as a data set of Ray, drawn by the tasks of a cluster. Needs Ray: kifu[cluster].

loader = kifu.load("train.parquet", "seven", jobs=1)  # a task has one processor
for batch in dataset(loader).iter_batches(batch_size=1024):
    batch["planes"]  # [1024, 7, 46] uint8
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

from kifu.datasets.loader import Loader
from kifu.errors import ClusterError, RecipeError

try:
    import ray
    from ray.data import Dataset
    from ray.data.block import Block, BlockAccessor, BlockMetadata
    from ray.data.datasource import Datasource, ReadTask
except ImportError as error:
    raise ClusterError(f"a data set of Ray needs Ray: pip install 'kifu[cluster]' ({error})") from None

_SHARE = 1 << 20
"""Positions that a task draws, about."""


class Shares(Datasource):  # type: ignore[misc]
    """The shares of what a loader gives in an epoch, each of which a task of Ray reads; `dataset` makes one."""

    def __init__(self, loader: Loader, shares: int) -> None:
        """Raises RecipeError as `Loader.share` does."""
        super().__init__()
        self._shares, self._bytes = shares, loader.positions * _row_bytes(loader)
        # Its games, and the plan of its epoch, travel once to each machine, and not with each task.
        self._loader = ray.put(loader.share(0, 1))

    def get_name(self) -> str:
        """As progress bars call it."""
        return "kifu"

    def estimate_inmemory_data_size(self) -> int:
        """Of all rows."""
        return self._bytes

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """One for each share; that there be as many as Ray would like is of no concern, since rows follow from it."""
        size = self._bytes // self._shares
        told = BlockMetadata(num_rows=None, size_bytes=size, input_files=None, exec_stats=None)
        return [
            ReadTask(partial(_rows, self._loader, share, self._shares), told, per_task_row_limit=per_task_row_limit)
            for share in range(self._shares)
        ]


def _row_bytes(loader: Loader) -> int:
    """What a row takes."""
    layout = loader.layout
    points = layout.planes * layout.points
    planes = {"packed": layout.packed_bytes, "uint8": points, "bfloat16": 2 * points, "float32": 4 * points}
    return planes[loader.output] + sum(label.bytes for label in layout.labels) + 12


@lru_cache(1)
def _whole(loader: Any) -> Loader:
    """The loader, which a process keeps from task to task: some planes replay all games to tell what can be played."""
    whole: Loader = ray.get(loader)
    return whole


def _rows(loader: Any, share: int, shares: int) -> Iterator[Block]:
    """Batch by batch, of which Ray makes blocks of the size that it wants."""
    for batch in _whole(loader).share(share, shares):
        columns = {"planes": batch.planes, **batch.labels, "game": batch.game, "ply": batch.ply}
        yield BlockAccessor.batch_to_block(columns)


def dataset(loader: Loader, shares: int | None = None) -> Dataset:
    """The epoch that the loader stands at, as rows: planes, the labels, game and ply, each as in the loader's batches.

    shares: into how many parts the epoch is divided, as `Loader.share` does, each of which a task draws; by default one
        for each million positions. All of them together are the epoch, and their order follows from this number; Ray
        keeps it only if its context says preserve_order.

    Whoever goes through the data set twice has the same epoch twice; `dataset(loader.epoch(k))` is another. If Ray
    has not been begun, it is, as `ray.init()` does. Raises ClusterError if Ray is not installed, RecipeError if
    shares is below 1, or the loader resumes in the middle of an epoch.
    """
    count = max(loader.positions // _SHARE, 1) if shares is None else shares
    if count < 1:
        raise RecipeError(f"{shares} shares; there has to be at least 1")
    return ray.data.read_datasource(Shares(loader, count), override_num_blocks=count)
