"""What a loader draws examples from: games of catalogues, or data sets that are written already.

Either is a list of units, a game or a run of rows each, whose positions come one after another; the loader says in
which order the units come, and where each position shall go.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from blake3 import blake3

from kifu.corpus.schema import PLAYED_COLUMNS, move_arrays, to_numpy
from kifu.datasets import _order
from kifu.datasets.augment import check_turnable, turn_labels, turn_planes
from kifu.datasets.examples import Batch, Dataset, Layout
from kifu.datasets.formats import detect_format
from kifu.datasets.formats import open as open_examples
from kifu.datasets.labels import DRAWN, LabelPositions, find_label, label_columns, label_values
from kifu.datasets.position_filter import PositionFilter
from kifu.datasets.renderer import Renderer, find_renderer
from kifu.errors import DropReason, FormatError, RecipeError
from kifu.planes.encoder import RATING_COLUMNS, ratings_of
from kifu.records.paths import as_path

Units = npt.NDArray[np.int64]
Symmetry = npt.NDArray[np.uint8]
Ranks = npt.NDArray[np.int32]

_RUN = 1024
"""Rows at either end of a data set that its identity depends on."""

_GAMES = 65_536
"""Whose positions are chosen at one go."""


@dataclass(frozen=True, slots=True)
class RenderedGames:
    """Room for some examples, by slot: see `Batch`. labels: those of the layout, and maybe others."""

    planes: npt.NDArray[Any]
    labels: dict[str, npt.NDArray[Any]]
    game: npt.NDArray[np.uint64]
    ply: npt.NDArray[np.int32]

    def pick(self, slots: npt.NDArray[np.int32], layout: Layout) -> Batch:
        """Copies of these slots, in this order."""
        labels = {label.name: self.labels[label.name].take(slots, axis=0) for label in layout.labels}
        return Batch(self.planes.take(slots, axis=0), labels, self.game[slots], self.ply[slots])


@dataclass(frozen=True, slots=True)
class Epoch:
    """What a source gives in one epoch.

    counts: [U] int32 or int64, how many positions of each unit. chosen: [ceil(M / 8)] uint8, which of the M moves of
    all games these are before, a bit each, the lowest first; empty where all rows are.
    turns: [1] uint64, the key of symmetries; None if there are none.
    """

    counts: npt.NDArray[np.integer[Any]]
    chosen: npt.NDArray[np.uint8]
    turns: _order.Words | None

    def symmetry(self, which: npt.NDArray[np.int64], layout: Layout) -> Symmetry:
        """[K] uint8: under which symmetry each of some games or rows is given."""
        if self.turns is None:
            return np.zeros(len(which), np.uint8)
        bits = 3 if layout.width == layout.height else 2
        return (_order.hashes_of(which, self.turns) >> np.uint64(64 - bits)).astype(np.uint8)


class LoaderSource(ABC):
    """Examples to be drawn, by any number of threads."""

    layout: Layout

    @abstractmethod
    def told(self) -> dict[str, Any]:
        """What tells this source, and what is chosen of it, from others, as JSON values."""

    @abstractmethod
    def epoch(self, seed: int, epoch: int, augment: bool) -> Epoch:
        """What there is in an epoch; a pure function of the source and these. augment: whether boards are turned."""

    @abstractmethod
    def work(self, units: Units) -> npt.NDArray[np.int64]:
        """[K] about how much there is to do for each unit, in moves or rows."""

    @abstractmethod
    def draw(self, epoch: Epoch, units: Units, first: int, rank: Ranks, out: RenderedGames) -> None:
        """Draws positions of some units, which come one after another in a block.

        first: place in the block of their first position; below 0 if the block begins within them. rank: [size of the
        block] the slot of each position, or -1. Raises FormatError where the source is not what it says.
        """

    def new_room(self, slots: int) -> RenderedGames:
        """Room for so many examples, not initialised."""
        layout = self.layout
        labels = {label.name: np.empty((slots, *label.shape), label.np_dtype) for label in layout.labels}
        planes = np.empty((slots, *layout.packed_shape), layout.plane_dtype)
        return RenderedGames(planes, labels, np.empty(slots, np.uint64), np.empty(slots, np.int32))

    @property
    def slot_bytes(self) -> int:
        """What an example takes in a room."""
        return self.layout.packed_bytes + sum(label.bytes for label in self.layout.labels) + 14


class CatalogueSource(LoaderSource):
    """The games of catalogues; planes are drawn as the games are replayed.

    What it keeps in memory is 4 bytes a game: rows are read where they lie, some games at a time.
    """

    def __init__(
        self,
        rows: pa.RecordBatch,
        planes: str,
        board: tuple[int, int],
        pad: bool,
        labels: Sequence[str] | None,
        choice: PositionFilter,
    ) -> None:
        """rows: kept games that fit the board, with `needed_columns` at least.  labels: None for those that are drawn
        anyway.

        Raises RecipeError, GameError, FormatError.
        """
        self._rows = rows.select(needed_columns(planes, board, pad, labels, choice))
        self._given = self._rows, planes, board, pad, labels, choice
        self.drawing = find_renderer(planes, *board, pad)
        self.layout = make_layout(self.drawing, labels)
        self.games = move_arrays(rows)
        self.ids: npt.NDArray[np.uint64] = to_numpy(rows["id"])
        legal = np.minimum(to_numpy(rows["n_legal"]), np.diff(self.games.move_offset)).astype(np.int32)
        self.playable = self.drawing.playable(self._rows, legal)
        self._choice, self._by_ply = choice, choice.by_ply()

    def __reduce__(self) -> tuple[Any, ...]:
        return CatalogueSource, self._given

    def told(self) -> dict[str, Any]:
        source = blake3(self.ids.view(np.uint8).data).update(self.playable.view(np.uint8).data)
        return {"source": source.hexdigest(16)} | self._choice.told()

    def epoch(self, seed: int, epoch: int, augment: bool) -> Epoch:
        games, choice = self.games, self._choice
        chance, draw = (_order.key_of(seed, epoch, purpose)[0] for purpose in (_order.CHANCE, _order.DRAW))
        chosen, counts = np.zeros((len(games.moves) + 7) // 8, np.uint8), np.empty(len(self.ids), np.int32)
        for first in range(0, len(counts), _GAMES):
            some = slice(first, min(first + _GAMES, len(counts)))
            points = games.width[some].astype(np.int64) * games.height[some]
            with np.errstate(over="ignore"):
                _order.choose(
                    games.moves, games.move_offset[first : some.stop + 1], self.playable[some], points, choice.passes,
                    self._by_ply, self._by_player(some), -1 if choice.per_game is None else choice.per_game, chance,
                    draw, chosen, counts[some],
                )  # fmt: skip
        return Epoch(counts, chosen, _order.key_of(seed, epoch, _order.SYMMETRY) if augment else None)

    def _by_player(self, some: slice) -> npt.NDArray[np.float64]:
        """[K, 2] the weights of Black's and of White's moves in these games."""
        games = some.stop - some.start
        if self._choice.rank_weights is None:
            return np.ones((games, 2))
        return self._choice.by_player(ratings_of(self._rows.slice(some.start, games)))

    def work(self, units: Units) -> npt.NDArray[np.int64]:
        plies: npt.NDArray[np.int64] = self.games.move_offset[units + 1] - self.games.move_offset[units]
        return plies

    def draw(self, epoch: Epoch, units: Units, first: int, rank: Ranks, out: RenderedGames) -> None:
        rows, take = np.empty(len(units), np.int64), np.empty(self.work(units).sum(), np.int64)
        n, entries = _order.take_of(
            units, first, rank, self.games.move_offset, epoch.chosen, self.ids, rows, take, out.game, out.ply
        )
        rows, take = rows[:n], take[:entries]
        symmetry = epoch.symmetry(rows, self.layout)
        drop, ply = self.drawing.draw(self._rows, self.games, rows, symmetry, take, out.planes, out.labels)
        self._check(rows, take, drop, ply)
        if not {label.name for label in self.layout.labels} <= {*DRAWN}:
            self._label(rows, take, symmetry, out)

    def new_room(self, slots: int) -> RenderedGames:
        room = super().new_room(slots)
        return replace(room, labels=self.drawing.new_labels(slots) | room.labels)

    def _check(self, rows: Units, take: Units, drop: npt.NDArray[np.uint8], ply: npt.NDArray[np.int32]) -> None:
        """Raises FormatError if a position that was asked for is beyond what can be played."""
        ends = np.cumsum(self.work(rows))
        for r in np.flatnonzero(drop).tolist():
            start = ends[r - 1] if r else 0
            if take[start + ply[r] : ends[r]].max(initial=-1) >= 0:
                reason = DropReason(drop[r]).reason
                raise FormatError(f"game {self.ids[rows[r]]:016x}: move {ply[r] + 1} cannot be played: {reason}")

    def _label(self, rows: Units, take: Units, symmetry: Symmetry, out: RenderedGames) -> None:
        """Labels what was drawn of these rows."""
        batch = self._rows.take(pa.array(rows))
        games, slots = move_arrays(batch), take[take >= 0]
        game = np.repeat(np.arange(len(batch)), np.diff(games.move_offset))[take >= 0]
        at = LabelPositions(batch, games, game, out.ply[slots], self.layout.width, self.layout.height)
        values = label_values(self.layout.labels, at)
        width, height = games.width[game].astype(np.int64), games.height[game].astype(np.int64)
        for name, turned in turn_labels(self.layout, values, symmetry[game], width, height).items():
            out.labels[name][slots] = turned


class DatasetSource(LoaderSource):
    """Data sets that are written already, of one layout, each as `kifu.open` gives it."""

    def __init__(self, sets: Sequence[Dataset]) -> None:
        """Raises RecipeError if their layouts differ."""
        self.layout = sets[0].layout
        for each in sets[1:]:
            if each.layout != self.layout:
                raise RecipeError(f"{each.path} has other planes or labels than {sets[0].path}")
        self._sets = sets
        self._first = [0, *accumulate(len(each) for each in sets)]
        self._locks = [threading.Lock() for _ in sets]
        bounds = []
        for first, each in zip(self._first, sets):
            bounds.append(first + each.run_starts())
        self._start = np.concatenate([*bounds, [self._first[-1]]]).astype(np.int64)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, ([each.path for each in self._sets],)

    def told(self) -> dict[str, Any]:
        """By layout, counts, and the first and the last rows."""
        told = blake3(self.layout.to_json().encode())
        for each in self._sets:
            ends = [each.read(0, min(len(each), _RUN)), each.read(max(len(each) - _RUN, 0), len(each))]
            told.update(len(each).to_bytes(8, "little"))
            for batch in ends:
                told.update(batch.planes.tobytes() + batch.game.tobytes() + batch.ply.tobytes())
        return {"source": told.hexdigest(16)}

    def epoch(self, seed: int, epoch: int, augment: bool) -> Epoch:
        if augment:
            check_turnable(self.layout)
        turns = _order.key_of(seed, epoch, _order.SYMMETRY) if augment else None
        return Epoch(np.diff(self._start), np.empty(0, np.uint8), turns)

    def work(self, units: Units) -> npt.NDArray[np.int64]:
        rows: npt.NDArray[np.int64] = self._start[units + 1] - self._start[units]
        return rows

    def draw(self, epoch: Epoch, units: Units, first: int, rank: Ranks, out: RenderedGames) -> None:
        place = first
        for start, stop in zip(self._start[units].tolist(), self._start[units + 1].tolist()):
            low, high = max(place, 0), min(place + stop - start, len(rank))
            wanted = low + np.flatnonzero(rank[low:high] >= 0)
            if len(wanted):
                self._copy(epoch, start - place + wanted, rank[wanted], out)
            place += stop - start

    def _copy(self, epoch: Epoch, rows: Units, slots: Ranks, out: RenderedGames) -> None:
        """rows: rising, of one run."""
        layout = self.layout
        k = bisect_right(self._first, int(rows[0])) - 1
        within = rows - self._first[k]
        with self._locks[k]:
            read = self._sets[k].read(int(within[0]), int(within[-1]) + 1)
        batch = read.take(within - within[0])
        symmetry = epoch.symmetry(rows, layout)
        width, height = np.full(len(rows), layout.width), np.full(len(rows), layout.height)
        out.planes[slots] = turn_planes(batch.planes, symmetry, layout) if epoch.turns is not None else batch.planes
        for name, values in turn_labels(layout, dict(batch.labels), symmetry, width, height).items():
            out.labels[name][slots] = values
        out.game[slots], out.ply[slots] = batch.game, batch.ply


def _reopened(paths: Sequence[Path]) -> DatasetSource:
    return DatasetSource([open_examples(path) for path in paths])


def needed_columns(
    planes: str, board: tuple[int, int], pad: bool, labels: Sequence[str] | None, choice: PositionFilter
) -> tuple[str, ...]:
    """Of the catalogue, what a `CatalogueSource` with these options needs. Raises RecipeError, GameError."""
    drawing = find_renderer(planes, *board, pad)
    layout = make_layout(drawing, labels)
    ratings = () if choice.rank_weights is None else RATING_COLUMNS
    names = ("id", "n_legal", *PLAYED_COLUMNS, *drawing.columns, *label_columns(layout.labels), *ratings)
    return tuple(dict.fromkeys(names))


def make_layout(drawing: Renderer, labels: Sequence[str] | None) -> Layout:
    """The layout of what is drawn and these labels (`kifu.datasets.labels`), None being those that are drawn anyway.
    `ply` each batch has anyway.

    Raises RecipeError for a label that there is not, or not with these planes, or that is named twice.
    """
    encoder, plane_set = drawing.encoder, drawing.encoder.plane_set
    labels = drawing.labels if labels is None else labels
    for name in labels:
        if list(labels).count(name) > 1:
            raise RecipeError(f"label {name!r} is listed twice")
        if name in DRAWN and name not in drawing.labels:
            raise RecipeError(f"{plane_set.name} has no label {name!r}: it gives planes and nothing beside")
    specs = tuple(find_label(name, encoder.width, encoder.height) for name in labels if name != "ply")
    if not specs:
        raise RecipeError("each batch has the plies of its rows; there has to be a label beside them")
    names, first_row = plane_set.plane_names, plane_set.first_row
    return Layout(plane_set.name, names, plane_set.real, encoder.width, encoder.height, plane_set.rim, first_row, specs)


def open_written(sources: Sequence[str | os.PathLike[str]]) -> DatasetSource | None:
    """The data sets at these paths; None if none of them is one. Raises RecipeError if only some are."""
    places = [as_path(source) for source in sources]
    paths = [found for found in places if isinstance(found, Path) and _is_written(found)]
    if not paths:
        return None
    others = [found for found in places if found not in paths]
    if others:
        raise RecipeError(f"{others[0]} is no data set, as {paths[0]} is")
    return _reopened(paths)


def _is_written(path: Path) -> bool:
    return detect_format(path) is not None


def parse_board(text: str) -> tuple[int, int]:
    """Width and height of a board written like "19x19". Raises RecipeError; how large it may be is not checked."""
    width, x, height = text.partition("x")
    if not (x and all(each.isascii() and each.isdigit() and len(each) <= 2 for each in (width, height))):
        raise RecipeError(f"{text!r} is no board; 19x19 is one")
    return int(width), int(height)
