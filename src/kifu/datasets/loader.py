"""The loader: shuffled, augmented and resumable batches of examples, straight from games or from data sets.

`kifu.datasets.epoch_plan` defines the order of the examples; docs/loader.md describes how well it mixes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from kifu.arrays import Ints
from kifu.datasets.draws import Draws, count_draws
from kifu.datasets.epoch_plan import (
    DEFAULT_CONFIG,
    EpochPlan,
    LoaderConfig,
    LoaderPosition,
    ShuffleBlock,
    make_plan,
    slots_of_entries,
)
from kifu.datasets.examples import Batch, concat
from kifu.datasets.filter import DEFAULT_FILTER, PositionFilter
from kifu.datasets.mixture import Mixture, MixtureSource
from kifu.datasets.mmap_games import read_games
from kifu.datasets.sources import DRAW_COLUMNS, CatalogueSource, ExampleSpec, LoaderSource, open_datasets
from kifu.errors import RecipeError
from kifu.execution.executor import cancel, count_jobs, prefetch
from kifu.planes.packing import unpack
from kifu.planes.registry import find_plane_set
from kifu.point import parse_board
from kifu.records.paths import Paths, as_list
from kifu.registry import suggestion

_PREFETCH = 2
"""Batches prepared in advance."""

_CHUNK = 16_384
"""Moves, or rows, that a thread processes at a time, approximately."""

_BFLOAT16_ONE = 0x3F80

_STATE_VERSION = 5
"""Version of the dictionaries of `Loader.state_dict`."""


@dataclass(slots=True)
class LoaderState:
    """The mutable state of a loader.

    Attributes:
        current: Where the loop that began last stands. It counts delivered batches, not prefetched ones.
        plan: The plan of the epoch at `start`, once it is made.
    """

    start: LoaderPosition
    current: LoaderPosition
    plan: EpochPlan | None = None

    @classmethod
    def at(cls, position: LoaderPosition, plan: EpochPlan | None = None) -> LoaderState:
        """Return the state of a loader that starts at a position."""
        return cls(position, position, plan)


class Loader:
    """Batches of examples, epoch after epoch; `kifu.load` returns one.

    Each loop yields an epoch, and the next loop the next one in another order, even if the loop before ended early or
    still runs; a loop begins with its first batch. Only a loaded state continues within an epoch. `state_dict` returns
    where the loop that began last stands.

    Each batch is a `kifu.datasets.examples.Batch`: planes in the form of `LoaderConfig.output`, labels by name, and the
    game id and ply of each row. The arrays may be kept or changed.

    Attributes:
        batch_size: Examples of a batch; the last one of an epoch may have fewer.
    """

    def __init__(
        self, source: LoaderSource, config: LoaderConfig, batch_size: int, state: LoaderState | None = None
    ) -> None:
        """Make a loader. Raises RecipeError if an option is invalid, or does not fit the source.

        state: Where the first loop starts; by default at the beginning of epoch 0.
        """
        if batch_size < 1:
            raise RecipeError(f"batch_size must be >= 1, got {batch_size}")
        if source.layout.real and config.output != "float32":
            raise RecipeError(
                f"{source.layout.plane_set} has real values; output must be 'float32', got {config.output!r}"
            )
        self._source, self.layout, self.config, self.batch_size = source, source.layout, config, batch_size
        self._jobs = count_jobs(config.jobs)
        self._state = LoaderState.at(LoaderPosition(0)) if state is None else state

    def __repr__(self) -> str:
        layout, (epoch, batch) = self.layout, self._state.start
        shape, labels = " x ".join(map(str, layout.shape)), ", ".join(label.name for label in layout.labels)
        index, world_size = self.config.process_index, self.config.world_size
        process = f", process {index} of {world_size}" if world_size > 1 else ""
        return (
            f"<Loader: {layout.plane_set} ({shape}), labels {labels}, batches of {self.batch_size:,}, "
            f"epoch {epoch}, batch {batch}{process}>"
        )

    @property
    def positions(self) -> int:
        """The number of examples that this process delivers in the epoch of the next loop."""
        return self._plan().positions

    def __len__(self) -> int:
        return -(-self.positions // self.batch_size)

    @property
    def epoch_number(self) -> int:
        """The epoch of the next loop."""
        return self._state.start.epoch

    @property
    def position(self) -> LoaderPosition:
        """The position at which the next loop starts."""
        return self._state.start

    def __iter__(self) -> Generator[Batch]:
        self._state.current = self._state.start  # even if the loop never requests a batch
        return self._loop()

    def _loop(self) -> Generator[Batch]:
        plan, start, number = self._plan(), self._state.start, 0
        if not plan.positions:
            text = f"{int(plan.ends[-1]):,} positions, too few for a batch of {self.batch_size:,}"
            warnings.warn(f"epoch {plan.number} has {text}", stacklevel=2)
        state = LoaderState.at(LoaderPosition(start.epoch + 1))
        batches = prefetch(self._batches(plan, start.batch), _PREFETCH)
        try:
            for number, batch in enumerate(batches, 1):
                state.current = start._replace(batch=start.batch + number)
                if number == 1:
                    self._state = state
                yield batch
        finally:
            batches.close()
        state.current = state.start
        if number == 0:
            self._state = state

    def epoch(self, number: int, batch: int = 0) -> Loader:
        """Return a loader at the start of an epoch, or before a batch of it. Raises RecipeError if one is negative."""
        _check_position(number, batch)
        if number == self.epoch_number:
            return self._at(self._state.start._replace(batch=batch), self._state.plan)
        return self._at(LoaderPosition(number, batch), None)

    def _at(self, position: LoaderPosition, plan: EpochPlan | None) -> Loader:
        return Loader(self._source, self.config, self.batch_size, LoaderState.at(position, plan))

    def with_batch_size(self, batch_size: int) -> Loader:
        """Return a loader with another batch size, at the start of its epoch. Raises RecipeError below 1."""
        return self._divide(self.config, batch_size)

    def shard(self, index: int, count: int) -> Loader:
        """Return one of `count` disjoint parts of what this process delivers, for workers that divide it.

        The plan of the epoch is reused if it exists. Raises RecipeError if the loader resumes in the middle of an
        epoch, or the index is not within 0 to count - 1.
        """
        if not 0 <= index < count:
            raise RecipeError(f"shard index must be within 0 to {count - 1}, got {index}")
        if self._state.start.batch:
            raise RecipeError("a loader that resumes in the middle of an epoch cannot be divided into shards")
        own, world_size = self.config.process_index, self.config.world_size
        config = replace(self.config, process_index=own * count + index, world_size=world_size * count)
        return self._divide(config, self.batch_size)

    def _divide(self, config: LoaderConfig, batch_size: int) -> Loader:
        """Return a loader with another process index, world size or batch size, at the start of its epoch."""
        start, plan = self._state.start._replace(batch=0), self._state.plan
        other = Loader(self._source, config, batch_size, LoaderState.at(start))
        if plan is not None and plan.number == start.epoch:
            other._state.plan = plan.divide(config, batch_size)
        return other

    def draws(self, batches: int | None = None) -> Draws:
        """Count the examples of the next loop by source, rank, ply, year and more, without rendering them.

        Raises RecipeError if the source is a data set, or the number is negative.
        """
        plan = self._plan()
        first, stop = self._state.start.batch * self.batch_size, plan.positions
        if batches is not None:
            _check_position(self.epoch_number, batches)
            stop = min(stop, first + batches * self.batch_size)
        return count_draws(self._source, plan, first, stop)

    def set_epoch(self, epoch: int) -> None:
        """Start the next loop at the beginning of an epoch. Raises RecipeError for negative numbers."""
        self._state = self.epoch(epoch)._state

    def state_dict(self) -> dict[str, Any]:
        """Return where the loop that began last stands, as JSON values for `load_state_dict`.

        The state counts delivered batches, not prefetched ones. Processes that delivered the same number of batches
        have the same state.
        """
        epoch, batch = self._state.current
        return {"version": _STATE_VERSION, "epoch": epoch, "batch": batch, "order": self._order}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next loop continue where a loader of the same source and options stood.

        Raises RecipeError if the state is of another source, of other options, or of another number of processes.
        """
        try:
            version, epoch, batch, order = (state[key] for key in ("version", "epoch", "batch", "order"))
            if version != _STATE_VERSION:
                raise RecipeError(f"state version {version!r} is not supported, only version {_STATE_VERSION}")
            for name in {**order, **self._order}:
                saved, current = order.get(name), self._order.get(name)
                if saved != current and name in ("world_size", "batch_size"):
                    raise RecipeError(f"{name} was {saved!r}, and is {current!r}; resume with the same {name}")
                if saved != current:
                    raise RecipeError(f"the state is of another loader: {name} was {saved!r}, and is {current!r}")
        except RecipeError:
            raise
        except (KeyError, TypeError, ValueError):
            raise RecipeError(f"not a state of a loader: {str(state)[:80]}") from None
        _check_position(epoch, batch)
        self._state = LoaderState.at(LoaderPosition(epoch, batch))

    @cached_property
    def _order(self) -> dict[str, Any]:
        """The options and the source that determine the order of the examples, as JSON values."""
        processes = {"world_size": self.config.world_size, "batch_size": self.batch_size}
        return self.config.fingerprint() | processes | self._source.fingerprint()

    def _plan(self) -> EpochPlan:
        state = self._state
        if state.plan is None or state.plan.number != state.start.epoch:
            state.plan = None  # frees the memory of the previous plan
            number, config = state.start.epoch, self.config
            selection = self._source.select(config.seed, number, config.augment)
            state.plan = make_plan(selection, config, self.batch_size, number)
        return state.plan

    def _batches(self, plan: EpochPlan, first: int) -> Generator[Batch]:
        pieces: list[Batch] = []
        missing = self.batch_size
        for buffer, slots in self._rendered(plan, first * self.batch_size):
            while len(slots):
                pieces.append(buffer.take(slots[:missing]))
                slots = slots[missing:]
                missing -= len(pieces[-1])
                if missing == 0:
                    yield self._finish(pieces)
                    pieces, missing = [], self.batch_size
        if pieces:
            yield self._finish(pieces)

    def _finish(self, pieces: list[Batch]) -> Batch:
        batch = pieces[0] if len(pieces) == 1 else concat(pieces, self.layout)
        batch = replace(batch, labels={label.name: batch.labels[label.name] for label in self.layout.labels})
        output = self.config.output
        if output == "packed":
            return batch
        if self.layout.real or output == "uint8":
            return replace(batch, planes=batch.unpack_planes(self.layout))
        one, dtype = (1, np.float32) if output == "float32" else (_BFLOAT16_ONE, np.uint16)
        planes = np.empty((len(batch), *self.layout.shape), dtype)
        unpack(batch.planes, planes, one)
        return replace(batch, planes=planes)

    def _rendered(self, plan: EpochPlan, first: int) -> Generator[tuple[Batch, Ints]]:
        """Yield buffers with rendered examples, from position `first` of this process on, and their slots in order.

        There are two buffers: while one is delivered, threads render into the other.
        """
        chunks = list(plan.chunks(first, plan.positions, max(self.config.memory // 2 // self._source.slot_bytes, 1)))
        slots = max((chunk.stop - chunk.start for chunk in chunks), default=0)
        buffers = [self._source.new_buffer(slots) for _ in chunks[:2]]
        pool = ThreadPoolExecutor(self._jobs)
        cancel_tasks = cancel  # a local name, because globals may be gone when the interpreter exits
        tasks: list[Future[None]] = []
        ready: tuple[Batch, Ints] | None = None
        order, begin = np.empty(0, np.int32), -1
        try:
            for k, chunk in enumerate(chunks):
                if begin != chunk.first:
                    order, begin = plan.order(chunk), chunk.first
                slot_of, slots_in_order = slots_of_entries(order[chunk.start : chunk.stop], len(order))
                earlier, tasks = tasks, self._render(plan, chunk, slot_of, buffers[k % 2], pool)
                if ready is not None:
                    _wait(earlier)
                    yield ready
                ready = buffers[k % 2], slots_in_order
            if ready is not None:
                _wait(tasks)
                yield ready
        finally:
            cancel_tasks(pool, tasks)

    def _render(
        self, plan: EpochPlan, block: ShuffleBlock, slot_of: Ints, buffer: Batch, pool: ThreadPoolExecutor
    ) -> list[Future[None]]:
        """Start threads that render those positions of a block that have a slot."""
        units, first = plan.block_units(block)
        done = np.cumsum(self._source.cost(plan.selection, units))
        cuts = np.unique(np.searchsorted(done, np.arange(_CHUNK, done[-1], _CHUNK)))
        bounds = [0, *cuts[cuts > 0].tolist(), len(units)]
        return [
            pool.submit(self._source.render, plan.selection, units[a:b], int(first[a]), slot_of, buffer)
            for a, b in pairwise(bounds)
        ]


def _wait(tasks: list[Future[None]]) -> None:
    for task in tasks:
        task.result()


def _check_position(epoch: Any, batch: Any) -> None:
    for name, value in (("epoch", epoch), ("batch", batch)):
        if not isinstance(value, int) or value < 0:
            raise RecipeError(f"{name} must be an integer >= 0, got {value!r}")


def load(
    sources: Paths | Mapping[Any, float] | Mixture,
    planes: str | None = None,
    *,
    labels: Sequence[str] | None = None,
    board: str | None = None,
    pad: bool = False,
    batch_size: int = 256,
    filter: PositionFilter = DEFAULT_FILTER,
    config: LoaderConfig = DEFAULT_CONFIG,
    **settings: Any,
) -> Loader:
    """Return a loader of batches from catalogues, archives and records, or from data sets.

    `labels`, `board`, `pad` and `filter` apply to games only; a data set defines its own examples.

    Args:
        sources: Catalogues, whose kept games are used as they are; archives, folders and records as `kifu.read` takes
            them, cleaned by the rules "legal"; or data sets of one layout that `kifu.open` reads. A mapping from
            sources (a path, or a tuple of paths) to proportions, or a `Mixture`, mixes them in these proportions.
        planes: A plane set, or features joined by "+". Optional for data sets.
        labels: Names of labels (`kifu.datasets.labels.LABELS`); by default "move", and "globals" with KataGo's planes.
        board: Size of the board, by default "19x19"; games on other boards are skipped.
        pad: Include games on smaller boards, in the upper left corner.
        batch_size: Examples per batch; the last batch of an epoch may have fewer.
        config: Seed, shuffling, augmentation, processes, output form, threads and memory.
        settings: Fields of `LoaderConfig` by name, such as seed=7, which override those of `config`.

    Returns:
        A loader at the start of epoch 0; see `Loader.set_epoch` and `Loader.load_state_dict` to start elsewhere.

    Raises:
        RecipeError: An option is unknown or does not fit the source.
        SourceError: A source cannot be read, or has no game on such a board.
        GameError: The plane set does not support the board.
    """
    known = LoaderConfig.__dataclass_fields__
    for name in settings.keys() - known.keys():
        raise RecipeError(f"load has no option {name!r}{suggestion(name, known) or ';'} available: {', '.join(known)}")
    config = replace(config, **settings)
    mixture = Mixture(sources) if isinstance(sources, Mapping) else sources
    options = planes, labels, board, pad, filter, config.jobs
    if not isinstance(mixture, Mixture):
        return Loader(_open_source(as_list(mixture), *options), config, batch_size)
    source = MixtureSource(mixture, [_open_source(as_list(each), *options) for each in mixture.proportions])
    loader = Loader(source, config, batch_size)
    loader._plan()  # raises RecipeError if a source has too few positions
    return loader


def _open_source(
    paths: Sequence[str | os.PathLike[str]],
    planes: str | None,
    labels: Sequence[str] | None,
    board: str | None,
    pad: bool,
    filter: PositionFilter,
    jobs: int | None,
) -> LoaderSource:
    datasets = open_datasets(paths)
    if datasets is not None:
        if filter != DEFAULT_FILTER or pad or board is not None or labels is not None:
            raise RecipeError(f"labels, board, pad and filter apply to games only, but {paths[0]} is a data set")
        if planes is not None and find_plane_set(planes).name != datasets.layout.plane_set:
            raise RecipeError(f"{paths[0]} has planes {datasets.layout.plane_set}, not {planes}")
        return datasets
    if planes is None:
        raise RecipeError("planes are required for games; `kifu list planes` lists them")
    spec = ExampleSpec(planes, parse_board(board or "19x19"), pad, labels, filter)
    columns = tuple(dict.fromkeys((*spec.columns(), *DRAW_COLUMNS)))
    return CatalogueSource(read_games(paths, spec.board, pad, jobs, columns, filter=filter), spec)
