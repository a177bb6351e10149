"""An executor that pickles shards and results, as one on a cluster does, but within this process."""

import pickle
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from types import ModuleType

import pytest

from kifu.execution.executor import Executor, Item, R, Shard, shard_itself

ENGINE = "ray"
"""The engine for which `make_executor` returns a `SerializingExecutor` after `install`."""


class SerializingExecutor(Executor):
    """Runs shard by shard: functions, shards and results are pickled."""

    shards = 0
    """Run by all executors since `install`."""

    def __init__(self, address: str | None = None, jobs: int | None = None) -> None:
        super().__init__(jobs)

    def run(
        self,
        process: Callable[[Item], R],
        shards: Iterable[Shard],
        read: Callable[[Shard], Iterator[Item]] = shard_itself,
        prefetch: int | None = None,
    ) -> Generator[R]:
        process, read = pickle.loads(pickle.dumps((process, read)))
        for shard in shards:
            SerializingExecutor.shards += 1
            yield from [pickle.loads(pickle.dumps(process(item))) for item in read(pickle.loads(pickle.dumps(shard)))]


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `kifu.execution.executor.make_executor` return a `SerializingExecutor` for the engine `ENGINE`."""
    module = ModuleType("kifu.execution.ray_executor")
    module.RayExecutor = SerializingExecutor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(SerializingExecutor, "shards", 0)
