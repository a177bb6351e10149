"""A crew on a cluster: each unit is one task of Ray, made by one process from its files to the parcels.

Results go through files in the work folder, which all nodes see, and not through the caller's memory; without one, they
go through Ray's object store. Ray makes a unit again if its process or its node dies. What comes out does not depend on
any of that: results are given out in the order of the units.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from textwrap import shorten
from types import TracebackType
from typing import Any, Self

import ray
from blake3 import blake3
from ray import cloudpickle
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from kifu import __version__
from kifu.atomic_io import remove_file
from kifu.errors import ClusterError, FormatError, KifuError, first_line
from kifu.execution import ray_task as task
from kifu.execution.executor import Executor, Item, Job, R, Unit
from kifu.execution.ray_connect import connected, count_processors, working_nodes
from kifu.execution.ray_head import ClusterHead
from kifu.execution.serialization import Parcel, read_parcels, unpack_parcels
from kifu.execution.staging import StagingDir

_AHEAD = 4
"""Units that are begun for each processor, beyond the one that is given out: some take several times as long as others,
and nobody shall wait for them. They cost next to nothing, because what is made is kept in files anyway."""

_GRACE = 60.0
"""Seconds in which units that nobody asks for any more may end, in a Ray that goes on."""

_PULSE = 5.0
"""Seconds of waiting for a unit after which the head of the cluster is asked whether it is still there."""

_DESERTED = 600.0
"""Seconds for which no node may have a processor: those who begin new ones for a cluster take minutes."""

_TRIES = 3
"""How often a unit is made again whose process or node has died."""


@dataclass
class _Task:
    """A unit that is under way, or was there already. answer: None if it was. path: of its parcels, or None."""

    name: str
    answer: Any
    path: Path | None


class RayExecutor(Executor):
    """Processes of a Ray cluster for `run`; `map` has threads of the caller's own."""

    def __init__(self, address: str | None, jobs: int | None, work: Path | None) -> None:
        """address: "HOST:PORT" of a cluster that this machine is part of, "ray://HOST:PORT" of another, or None for one
        that is begun here. jobs: units at a time, and threads of the caller's own; by default, as many as the cluster,
        and this machine, have processors. work: as in `kifu.execution.executor.open_crew`.

        Raises ClusterError, OutputError, RecipeError.
        """
        super().__init__(jobs)
        self._local = address is None
        self._runs = 0
        self._open: set[Any] = set()
        """Answers that nobody has asked for yet."""
        with ExitStack() as held:
            self._work = None if work is None else held.enter_context(StagingDir(work))
            self._ours = held.enter_context(connected(address, self.jobs))
            self._head = ClusterHead(address)
            processors = count_processors(None if self._work is None else self._work.mark)
            # Ray knows no bound for one caller of many: at most `jobs` units are begun then.
            self._ahead = _AHEAD * processors if jobs is None or processors <= jobs else jobs - 1
            self._held = held.pop_all()

    def run(self, job: Job[Unit, Item, R], units: Iterable[Unit], prefetch: int | None = None) -> Generator[R]:
        """As with threads. `prefetch` means nothing here: results do not wait in memory.

        Raises what the job raises of kifu's errors; ClusterError, which names the unit, for every other error, and if
        all tries to make it have ended with the death of the process.
        """
        begun = self._begin(job, units)
        under_way: deque[_Task] = deque(islice(begun, self._ahead + 1))
        while under_way:
            yield from map(job.unpack, self._parcels(under_way[0]))
            self._open.discard(under_way.popleft().answer)
            under_way.extend(islice(begun, 1))

    def _begin(self, job: Job[Unit, Item, R], units: Iterable[Unit]) -> Iterator[_Task]:
        """Has each unit made that is not there yet, when it is asked for."""
        run, self._runs = self._runs, self._runs + 1
        make = ray.remote(num_cpus=1, max_retries=_TRIES)(task.make_unit)
        mark = None if self._work is None else str(self._work.mark)
        kind = f"{type(job).__module__}.{type(job).__qualname__}"
        said = [] if self._work is None else [__version__, kind, job.identity()]  # which may take reading all sources
        self._head.require()  # Ray needs it for the first unit, and would wait for it
        with self._head.watched():
            pickled = ray.put(cloudpickle.dumps(job))
        for number, unit in enumerate(units):
            path, there = None, False
            if self._work is not None:
                key = blake3(json.dumps([*said, job.unit_identity(unit)], sort_keys=True).encode()).hexdigest(16)
                path, there = self._work.file(run, number, key)
            call = cloudpickle.dumps((str(Path.cwd()), unit, path))
            with self._head.watched():
                answer = None if there else make.remote(__version__, mark, pickled, call)
                self._open |= set() if answer is None else {answer}  # whose hash Ray Client may have to wait for
            yield _Task(f"unit {number + 1}, {shorten(str(unit), 200)}", answer, path)

    def _parcels(self, unit: _Task) -> Iterator[Parcel]:
        """What has been made of a unit, once it has been."""
        data = b"" if unit.answer is None else self._wait(unit)
        if unit.path is None:
            yield from unpack_parcels(data)
            return
        if not unit.path.exists():
            raise ClusterError(f"{unit.path} is not there, though it has been written: do all nodes share the folder?")
        try:
            yield from read_parcels(unit.path)
        except FormatError as error:
            remove_file(unit.path)
            raise FormatError(f"{error}; it is removed, and will be made again by another run") from None

    def _wait(self, unit: _Task) -> bytes:
        """What came of the unit; nothing, if it is in a file."""
        try:
            ended, value, node = self._answer(unit.answer)
        except RayTaskError as error:
            raise ClusterError(f"{unit.name}: {type(error.cause).__name__}: {first_line(error.cause)}") from error
        except RayError as error:
            raise ClusterError(f"{unit.name}: {first_line(error)}") from error
        if ended == "unable":
            raise ClusterError(f"node {node} {value}")
        if ended == "failed":
            kind, message = value
            failure: KifuError = kind.__new__(kind, message if self._local else f"{message} (on node {node})")
            raise failure
        made: bytes = value
        return made

    def _answer(self, answer: Any) -> tuple[str, Any, str]:
        """What a unit's process says, once it does. Raises RayError; ClusterError if the cluster has gone, or all of
        its nodes have, without which Ray would wait for ever."""
        until = time.monotonic() + _DESERTED
        while True:
            with suppress(GetTimeoutError), self._head.watched():
                said: tuple[str, Any, str] = ray.get(answer, timeout=_PULSE)
                return said
            self._head.require()
            with self._head.watched():
                if working_nodes():
                    until = time.monotonic() + _DESERTED
            if time.monotonic() > until:
                raise ClusterError(f"no node of the cluster has had a processor for {_DESERTED / 60:.0f} minutes")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._give_up()
        self._held.__exit__(kind, error, trace)

    def _give_up(self) -> None:
        """Ends what nobody asks for any more. Ray's own way, `ray.cancel`, aborts this process if the task happens to
        end at that moment (2.60.0): units that are not begun see that the mark is gone, and those that are end with
        the Ray that we began, or are waited for."""
        if not self._open:
            return
        if self._work is not None:
            with suppress(OSError):
                self._work.mark.unlink()
        if not self._ours and self._head.answers():
            ray.wait(list(self._open), num_returns=len(self._open), timeout=_GRACE)
