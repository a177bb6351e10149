"""Batches to learn from, straight from games or from a written data set: shuffled, turned, shared out, resumed.

How the order comes about: `kifu.datasets.epoch_plan`; how well it mixes: docs/loader.md.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from kifu.datasets import _order
from kifu.datasets.epoch_plan import (
    EpochPlan,
    LoaderConfig,
    LoaderPosition,
    PlanBlock,
    Shuffle,
    WorldStage,
    check_word,
    make_plan,
)
from kifu.datasets.examples import Batch, Layout, concat
from kifu.datasets.mmap_games import read_games
from kifu.datasets.position_filter import PositionFilter
from kifu.datasets.sources import (
    CatalogueSource,
    LoaderSource,
    RenderedGames,
    needed_columns,
    open_written,
    parse_board,
)
from kifu.errors import RecipeError
from kifu.execution.executor import cancel, count_jobs, prefetch
from kifu.planes.registry import find_plane_set
from kifu.planes.unpack import unpack

Output = Literal["packed", "uint8", "float32", "bfloat16"]

WINDOW = 131_072
"""Positions that are shuffled among each other, by default."""

MEMORY = 576 << 20
"""Bytes of drawn examples that are held, by default: two windows of 48 planes."""

_AHEAD = 2
"""Batches that are ready before they are asked for."""

_CHUNK = 16_384
"""Moves, or rows, that a thread goes through at one go, about."""

_BFLOAT16_ONE = 0x3F80

_STATE = 2
"""Version of what `Loader.state` tells."""

_MOST_STAGES = 1000
"""No epoch has so many."""


class Loader:
    """Batches of examples, epoch after epoch; `kifu.load` makes one.

    Iterating gives one epoch; the next loop gives the next epoch, in another order. A loop that was left early is begun
    again by the next one; `state` tells where it stood. One loop at a time.

    Each batch is a `kifu.datasets.examples.Batch`: planes as `output` says, labels by name, and the game (id in the
    catalogue) and ply of each row. Arrays are the caller's own, to be kept or changed.
    """

    def __init__(
        self, source: LoaderSource, order: LoaderConfig, output: Output, jobs: int, memory: int, epoch: int
    ) -> None:
        """`kifu.load` says what these are."""
        self._source, self._order, self._output = source, order, output
        self._jobs, self._memory = jobs, memory
        self._begin = self._place = LoaderPosition(epoch)
        self._kept: EpochPlan | None = None

    @property
    def layout(self) -> Layout:
        """Planes and labels, as data sets tell of them."""
        return self._source.layout

    @property
    def batch_size(self) -> int:
        """How many examples a batch has; the last one of an epoch may have fewer."""
        return self._order.batch_size

    @property
    def positions(self) -> int:
        """How many examples this rank is given in the epoch that the next loop is of, or in what is left of it if other
        processes have begun it."""
        return self._plan().positions

    def __len__(self) -> int:
        """How many batches this rank is given of these."""
        return -(-self.positions // self.batch_size)

    @property
    def output(self) -> Output:
        """What planes come as."""
        return self._output

    @property
    def number(self) -> int:
        """Which epoch the next loop is of."""
        return self._begin.epoch

    @property
    def place(self) -> LoaderPosition:
        """Where the next loop begins."""
        return self._begin

    def __iter__(self) -> Generator[Batch]:
        begin = self._place = self._begin
        batches = prefetch(self._batches(self._plan(), begin.batch * self.batch_size), _AHEAD)
        try:
            for number, batch in enumerate(batches, begin.batch + 1):
                self._place = begin._replace(batch=number)
                yield batch
        finally:
            batches.close()
        self._begin = self._place = LoaderPosition(begin.epoch + 1)

    def epoch(self, number: int, batch: int = 0) -> Loader:
        """The same loader at the beginning of an epoch, or before a later batch of it; games they share in memory.

        An epoch that other processes have begun begins with what they left. Raises RecipeError below 0.
        """
        _check_place(number, batch)
        other = self._with(self._order)
        if number == self.number:
            other._begin = other._place = self._begin._replace(batch=batch)
        else:
            other._begin = other._place = LoaderPosition(number, batch)
            other._kept = None
        return other

    def sized(self, batch_size: int) -> Loader:
        """The same loader with another size of batches, at the beginning of its epoch. Raises RecipeError below 1."""
        return self._with(replace(self._order, batch_size=batch_size))

    def share(self, worker: int, workers: int) -> Loader:
        """One of `workers` parts of what this rank is given, for processes that divide it; together they are all.

        An epoch that is planned already, as by `positions`, is not planned anew.

        Raises RecipeError in the middle of an epoch, of which the parts would be others.
        """
        if self._begin.batch:
            raise RecipeError("a loader that resumes in the middle of an epoch cannot be shared out among workers")
        order = self._order
        return self._with(replace(order, rank=order.rank * workers + worker, world_size=order.world_size * workers))

    def _with(self, order: LoaderConfig) -> Loader:
        other = Loader(self._source, order, self._output, self._jobs, self._memory, self.number)
        other._begin = other._place = self._begin._replace(batch=0)
        if self._kept is not None and self._kept.number == self.number:
            other._kept = self._kept.shared(order, self._begin.before)
        return other

    def state(self) -> dict[str, Any]:
        """Where the last loop stands, as JSON values: what is loaded with `resume=` this goes on with what comes then.

        What was given counts, not what is ready ahead. All ranks that were given as many batches say the same.
        """
        epoch, batch, before = self._place
        stages = [*before, WorldStage(self._order.world_size, self.batch_size, batch)]
        return {"version": _STATE, "epoch": epoch, "stages": list(map(list, stages)), "order": self._told}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Goes to where a loader of the same source and options stood, each rank with the state of any of them.

        If there were more or fewer ranks, with batches of any size, what they left of the epoch is divided among those
        there are now. Raises RecipeError if it was of another source or other options.
        """
        try:
            version, epoch, stages, told = (state[key] for key in ("version", "epoch", "stages", "order"))
            if version != _STATE:
                raise RecipeError(f"the state is of version {version!r}; this kifu resumes version {_STATE}")
            if len(stages) > _MOST_STAGES:
                raise ValueError
            *before, last = [WorldStage(*map(operator.index, stage)) for stage in stages]
            for key, value in self._told.items():
                _require_same(key, told[key], value)
        except (KeyError, TypeError, ValueError):
            raise RecipeError(f"{str(state)[:80]} is no state of a loader") from None
        for stage in (*before, last):
            _check_place(epoch, stage.batches)
            self._order.of(stage)
        batch = last.batches
        if last.world_size == self._order.world_size:
            _require_same("batch_size", last.batch_size, self.batch_size)
        else:
            before, batch = [*before, last] if batch else before, 0
        self._begin = self._place = LoaderPosition(epoch, batch, tuple(before))
        self._kept = None

    @cached_property
    def _told(self) -> dict[str, Any]:
        return self._order.told() | self._source.told()

    def _plan(self) -> EpochPlan:
        """Of the epoch that the next loop is of."""
        if self._kept is None or self._kept.number != self.number:
            self._kept = None  # before the next one is made
            self._kept = make_plan(self._source, self._order, self.number, self._begin.before)
        return self._kept

    def _batches(self, plan: EpochPlan, given: int) -> Generator[Batch]:
        """The batches of an epoch after so many examples."""
        held: list[Batch] = []
        missing = self.batch_size
        for room, slots in self._drawn(plan, given):
            while len(slots):
                held.append(room.pick(slots[:missing], self.layout))
                slots = slots[missing:]
                missing -= len(held[-1])
                if missing == 0:
                    yield self._ready(held)
                    held, missing = [], self.batch_size
        if held:
            yield self._ready(held)

    def _ready(self, pieces: list[Batch]) -> Batch:
        """One batch of some pieces, with planes as the caller wants them."""
        batch = pieces[0] if len(pieces) == 1 else concat(pieces, self.layout)
        if self._output == "packed":
            return batch
        if self.layout.real or self._output == "uint8":
            return replace(batch, planes=batch.unpack_planes(self.layout))
        one, kind = (1, np.float32) if self._output == "float32" else (_BFLOAT16_ONE, np.uint16)
        planes = np.empty((len(batch), *self.layout.shape), kind)
        unpack(batch.planes, planes, one)
        return replace(batch, planes=planes)

    def _drawn(self, plan: EpochPlan, given: int) -> Generator[tuple[RenderedGames, npt.NDArray[np.int32]]]:
        """What is drawn at one go, with its slots in the order in which they are given.

        While one part is given, threads draw the next one into the other of two rooms.
        """
        parts = list(plan.parts(given, max(self._memory // 2 // self._source.slot_bytes, 1)))
        slots = max((part.stop - part.start for part in parts), default=0)
        rooms = [self._source.new_room(slots) for _ in parts[:2]]
        pool, at_last = ThreadPoolExecutor(self._jobs), cancel
        tasks: list[Future[None]] = []
        before: tuple[RenderedGames, npt.NDArray[np.int32]] | None = None
        entries: tuple[PlanBlock, npt.NDArray[np.int32]] | None = None
        try:
            for k, part in enumerate(parts):
                if entries is None or entries[0] != part.block:
                    entries = part.block, plan.entries(part.block)
                rank, source = _order.part_of(entries[1], part.start, part.stop)
                earlier, tasks = tasks, self._draw(plan, part.block, rank, rooms[k % 2], pool)
                if before is not None:
                    _wait(earlier)
                    yield before
                before = rooms[k % 2], source[part.skip :]
            if before is not None:
                _wait(tasks)
                yield before
        finally:
            at_last(pool, tasks)

    def _draw(
        self,
        plan: EpochPlan,
        block: PlanBlock,
        rank: npt.NDArray[np.int32],
        room: RenderedGames,
        pool: ThreadPoolExecutor,
    ) -> list[Future[None]]:
        """Sets threads to drawing those positions of a block that have a slot."""
        units, places = plan.units_of(block)
        done = np.cumsum(self._source.work(units))
        cuts = np.unique(np.searchsorted(done, np.arange(_CHUNK, done[-1], _CHUNK)))
        bounds = [0, *cuts[cuts > 0].tolist(), len(units)]
        return [
            pool.submit(self._source.draw, plan.epoch, units[a:b], int(places[a]), rank, room)
            for a, b in pairwise(bounds)
        ]


def _wait(tasks: list[Future[None]]) -> None:
    for task in tasks:
        task.result()


def _require_same(name: str, was: Any, now: Any) -> None:
    if was != now:
        raise RecipeError(f"the state is of another loader: {name} was {was!r}, and is {now!r}")


def _check_place(epoch: Any, batch: Any) -> None:
    for name, value in (("epoch", epoch), ("batch", batch)):
        if not isinstance(value, int) or value < 0:
            raise RecipeError(f"{name} {value!r}: it has to be a whole number from 0")


def load(
    source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    planes: str | None = None,
    *,
    batch_size: int = 256,
    labels: Sequence[str] | None = None,
    output: Output = "packed",
    board: str | None = None,
    pad: bool = False,
    seed: int = 0,
    epoch: int = 0,
    shuffle: Shuffle | None = "window",
    window: int = WINDOW,
    augment: bool = True,
    passes: bool = False,
    ply_weights: Mapping[int, float] | None = None,
    rank_weights: Mapping[str, float] | None = None,
    per_game: int | None = None,
    rank: int = 0,
    world_size: int = 1,
    drop_last: bool = False,
    resume: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    memory: int = MEMORY,
) -> Loader:
    """Batches from catalogues, archives and records, or from written data sets; see `Loader` and docs/loader.md.

    source: catalogues, whose kept games are taken as they are; archives, folders and records as `kifu.read` takes them,
        cleaned by the rules "legal"; or data sets that `kifu.open` reads, of one layout, which say planes and labels.
    planes: a plane set, or features joined by +.  labels: names of `kifu.datasets.labels.LABELS`, by default "move",
        and "globals" with KataGo's planes.
    output: planes as bits [B, C, ceil(H * W / 8)] uint8, highest bit first ("packed"), or as numbers [B, C, H, W]:
        "uint8", "float32", or "bfloat16", whose bits come as uint16. Sets with real values come as float32 only.
    board: "19x19" by default; other games are left out; with `pad` smaller ones are laid into the upper left corner.

    seed, epoch: the order, the symmetries, and what is drawn by chance follow from them.
    shuffle: "window" shuffles `window` positions or more among each other, those of games drawn from everywhere;
        "global" is a permutation of all positions, and slow where `memory` holds few of them; None: as in the source.
    augment: each game comes under one of the 8 symmetries of the board (4 if it is not square), planes and labels.
    passes, ply_weights, rank_weights, per_game: which positions, see `kifu.datasets.position_filter.Choice`; games only.
    rank, world_size: this process takes one of `world_size` equal shares, which together are the whole.
    drop_last: every rank gives as many batches, all of them full; what is left over, less than a batch for each, is not
        given.
    resume: what `Loader.state` said, to go on from there; the other options have to be the same, but for `epoch`,
        and `rank`, `world_size` and with it `batch_size`: what is left of the epoch is then shared out anew.
    jobs: threads, by default one a core; the batches are the same for any number.  memory: bytes of drawn examples
        that are held; games lie in files without names in the folder for temporary ones, see docs/loader.md.

    Raises RecipeError for options that are not known or do not fit, SourceError, FormatError or GameError; OutputError
    if there is no room for the games.
    """
    paths = [source] if isinstance(source, str | os.PathLike) else list(source)
    check_word("output", output, get_args(Output))
    order = LoaderConfig(batch_size, seed, shuffle, window, augment, rank, world_size, drop_last)
    choice = PositionFilter(passes, ply_weights, rank_weights, per_game)
    _check_place(epoch, 0)
    found: LoaderSource | None = open_written(paths)
    if found is None:
        if planes is None:
            raise RecipeError("planes have to be named for games; kifu planes lists them")
        size = parse_board(board or "19x19")
        asked = planes, size, pad, labels, choice
        found = CatalogueSource(read_games(paths, size, pad, jobs, needed_columns(*asked)), *asked)
    elif choice != PositionFilter() or pad or board is not None or labels is not None:
        raise RecipeError(f"{paths[0]} is a data set, whose positions, board and labels were chosen when it was made")
    elif planes is not None and find_plane_set(planes).name != found.layout.plane_set:
        raise RecipeError(f"{paths[0]} has planes {found.layout.plane_set}, not {planes}")
    if found.layout.real and output != "float32":
        raise RecipeError(
            f"{found.layout.plane_set} has real values, so that output has to be 'float32', not {output!r}"
        )
    loader = Loader(found, order, output, count_jobs(jobs), memory, epoch)
    if resume is not None:
        loader.resume(resume)
    return loader
