"""A crew that sends everything as bytes, as one on a cluster does, but within this process and without a cluster."""

from __future__ import annotations

import json
import pickle
import sys
import tempfile
from collections.abc import Generator, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kifu.execution.executor import Executor, Item, Job, R, Unit
from kifu.execution.serialization import read_parcels, write_parcels

ENGINE = "ray"
"""The engine that gives a `PostalCrew` after `post`."""


class PostalCrew(Executor):
    """Does every unit by itself: job and units come pickled, results go through a file of parcels.

    If there is a folder `work`, a unit that has the identity of an earlier one is not done again: its parcels are
    taken, as a run that goes on with an interrupted one takes them. An identity that tells too little so gives wrong
    results.
    """

    units = 0
    """Done by all crews since `post`."""

    def __init__(self, address: str | None = None, jobs: int | None = None, work: Path | None = None) -> None:
        """As that of `kifu.execution.ray_executor.RayCrew`; but parcels are never put in the folder `work`."""
        super().__init__(jobs)
        self._folder = tempfile.TemporaryDirectory(prefix="postal-")
        self._keeps = work is not None
        self._posted: dict[str, Path] = {}

    def run(self, job: Job[Unit, Item, R], units: Iterable[Unit], ahead: int | None = None) -> Generator[R]:
        for unit in units:
            identity = _identity(job, unit) if self._keeps else None
            key = json.dumps(identity or len(self._posted), sort_keys=True, allow_nan=False)
            if key not in self._posted:
                self._posted[key] = Path(self._folder.name, str(len(self._posted)))
                _do(pickle.dumps((job, unit)), self._posted[key], identity)
                PostalCrew.units += 1
            for parcel in read_parcels(self._posted[key]):
                yield job.unpack(parcel)

    def __exit__(self, *exception: Any) -> None:
        self._folder.cleanup()
        super().__exit__(*exception)


def _identity(job: Job[Any, Any, Any], unit: Any) -> list[Any]:
    return [type(job).__name__, job.identity(), job.unit_identity(unit)]


def _do(sent: bytes, path: Path, identity: list[Any] | None) -> None:
    """What a worker does with a unit; its results are packed before the next ones are made, and then let go."""
    job, unit = pickle.loads(sent)
    assert identity is None or _identity(job, unit) == identity

    def parcels() -> Generator[dict[str, Any]]:
        for item in job.items(unit):
            result = job.make(item)
            yield job.pack(result)
            job.release(result)

    write_parcels(path, parcels())


def post(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the engine `ENGINE` is a `PostalCrew`, for whoever calls `kifu.execution.executor.open_crew`."""
    crew = ModuleType("kifu.execution.ray_executor")
    crew.RayExecutor = PostalCrew  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, crew.__name__, crew)
    monkeypatch.setattr(PostalCrew, "units", 0)
