"""An executor that serializes everything, as one on a cluster does, but within this process and without a cluster."""

import json
import pickle
import sys
import tempfile
from collections.abc import Generator, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kifu.execution.executor import Item, Job, R, Shard, ThreadExecutor
from kifu.execution.serialization import read_results, write_results

ENGINE = "ray"
"""The engine for which `make_executor` returns a `SerializingExecutor` after `install`."""


class SerializingExecutor(ThreadExecutor):
    """Runs shard by shard: job and shards are pickled, and results go through a file.

    With a staging directory, a shard that has the fingerprint of an earlier one is not run again: its results are
    reused, as when an interrupted run is resumed. An incomplete fingerprint so gives wrong results.
    """

    shards = 0
    """Run by all executors since `install`."""

    def __init__(self, address: str | None = None, jobs: int | None = None, staging: Path | None = None) -> None:
        """Take the arguments of `kifu.execution.ray_executor.RayExecutor`; nothing is written to `staging`."""
        super().__init__(jobs)
        self._folder = tempfile.TemporaryDirectory(prefix="results-")
        self._fingerprints = staging is not None
        self._files: dict[str, Path] = {}

    def run(self, job: Job[Shard, Item, R], shards: Iterable[Shard], prefetch: int | None = None) -> Generator[R]:
        for shard in shards:
            fingerprint = _fingerprint(job, shard) if self._fingerprints else None
            key = json.dumps(fingerprint or len(self._files), sort_keys=True, allow_nan=False)
            if key not in self._files:
                self._files[key] = Path(self._folder.name, str(len(self._files)))
                _run(pickle.dumps((job, shard)), self._files[key], fingerprint)
                SerializingExecutor.shards += 1
            yield from read_results(self._files[key])

    def __exit__(self, *exception: Any) -> None:
        self._folder.cleanup()
        super().__exit__(*exception)


def _fingerprint(job: Job[Any, Any, Any], shard: Any) -> list[Any]:
    return [type(job).__name__, job.fingerprint(), job.shard_fingerprint(shard)]


def _run(pickled: bytes, path: Path, fingerprint: list[Any] | None) -> None:
    """Do what a worker does with a shard; each result is written before the next one is made, and then recycled."""
    job, shard = pickle.loads(pickled)
    assert fingerprint is None or _fingerprint(job, shard) == fingerprint

    def results() -> Generator[Any]:
        for item in job.read(shard):
            result = job.process(item)
            yield result
            job.recycle(result)

    write_results(path, results())


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `kifu.execution.executor.make_executor` return a `SerializingExecutor` for the engine `ENGINE`."""
    module = ModuleType("kifu.execution.ray_executor")
    module.RayExecutor = SerializingExecutor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(SerializingExecutor, "shards", 0)
