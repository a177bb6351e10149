"""The sources of a loader: games of catalogues, or existing data sets.

A source is a list of units, each a game or a run of rows, whose positions stay together until they are shuffled. The
loader decides the order of the units and the slot of each position.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from kifu.arrays import Bytes, Doubles, Hashes, Indices, Ints
from kifu.corpus.schema import PLAYED_COLUMNS, move_arrays, to_numpy
from kifu.datasets.epoch_plan import PER_GAME, SYMMETRY, WEIGHT, EpochSelection, hash_key
from kifu.datasets.examples import RUN_ROWS, Batch, Dataset, Layout
from kifu.datasets.filter import DEFAULT_FILTER, PositionFilter, select_positions
from kifu.datasets.formats import detect_format
from kifu.datasets.formats import open as open_dataset
from kifu.datasets.labels import (
    ENCODED_LABELS,
    MERGED_LABELS,
    augment_labels,
    augment_planes,
    check_augmentable,
    find_label,
    label_columns,
    label_values,
)
from kifu.datasets.merged import MergedPositions, merge_positions, weigh_positions
from kifu.datasets.mmap_games import TARGETS_COLUMN, WEIGHT_COLUMN
from kifu.errors import DropReason, FormatError, RecipeError
from kifu.execution.executor import Executor
from kifu.go.positions import Positions
from kifu.kernel import kernel
from kifu.planes.encoder import RATING_COLUMNS, FrameEncoder, find_encoder, ratings_of
from kifu.records.paths import as_path

Slots = Ints

PROGRAM_COLUMNS = ("black_program", "white_program")

DRAW_COLUMNS = (*RATING_COLUMNS, "black_pro", "white_pro", "year", "winner", "canonical")
"""Columns of the catalogue that `kifu.datasets.draws` counts positions by."""

_GAMES = 65_536
"""Games whose positions are selected at a time."""

_REPLAYED = 1024
"""Games replayed at a time."""


@dataclass(frozen=True, slots=True)
class ExampleSpec:
    """The contents of examples of games.

    Attributes:
        pad: Games on smaller boards are taken too, in the upper left corner.
        labels: Names of labels (`kifu.datasets.labels.LABELS`); None for those that the encoder writes anyway.
    """

    planes: str
    board: tuple[int, int] = (19, 19)
    pad: bool = False
    labels: Sequence[str] | None = None
    filter: PositionFilter = DEFAULT_FILTER

    def encoder(self) -> FrameEncoder:
        """Return the encoder of the planes. Raises RecipeError or GameError."""
        return find_encoder(self.planes, *self.board, self.pad)

    def columns(self) -> tuple[str, ...]:
        """Return the columns, as of `read_games`, that the examples need. Raises RecipeError or GameError."""
        encoder = self.encoder()
        layout = make_layout(encoder, self.labels)
        ratings = () if self.filter.rank_weights is None else RATING_COLUMNS
        weight = () if self.filter.weight is None else (WEIGHT_COLUMN,)
        programs = () if self.filter.programs else PROGRAM_COLUMNS
        names = ("id", "n_legal", *PLAYED_COLUMNS, *encoder.columns, *label_columns(layout.labels))
        names += (*ratings, *weight, *programs)
        return tuple(dict.fromkeys(names))


def make_layout(encoder: FrameEncoder, labels: Sequence[str] | None) -> Layout:
    """Return the layout of rendered planes with labels.

    Raises RecipeError if a label does not exist, is not defined for these planes, or is listed twice.

    Args:
        labels: Names of labels; None for those that the encoder writes anyway. "ply" is ignored: each batch has it.
    """
    plane_set = encoder.plane_set
    encoded = ENCODED_LABELS if plane_set.inputs else ENCODED_LABELS[:1]
    labels = encoded if labels is None else labels
    for name in labels:
        if list(labels).count(name) > 1:
            raise RecipeError(f"label {name!r} is listed twice")
        if name in ENCODED_LABELS and name not in encoded:
            raise RecipeError(f"plane set {plane_set.name} does not define label {name!r}")
    specs = tuple(find_label(name, encoder.width, encoder.height) for name in labels if name != "ply")
    if not specs:
        raise RecipeError("at least one label besides 'ply' is required")
    names, first_row = plane_set.plane_names, plane_set.first_row
    return Layout(
        plane_set.name, names, plane_set.real, encoder.width, encoder.height, plane_set.padding, first_row, specs
    )


class LoaderSource(ABC):
    """Examples that any number of threads can render."""

    layout: Layout
    names: tuple[str, ...] = ("games",)

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Return JSON values that identify the source and what is selected from it."""

    @abstractmethod
    def select(self, seed: int, epoch: int, augment: bool) -> EpochSelection:
        """Return the positions of an epoch; a pure function of the source and the arguments."""

    @abstractmethod
    def cost(self, selection: EpochSelection, units: Indices) -> Indices:
        """Return the approximate work for each unit, [K], in moves or rows."""

    @abstractmethod
    def render(self, selection: EpochSelection, units: Indices, first: int, slot_of: Slots, out: Batch) -> None:
        """Render positions of units that are consecutive in a block.

        Raises FormatError if the source is inconsistent.

        Args:
            first: Index in the block of their first position; negative if the block begins within them.
            slot_of: [size of the block], slot of each position, or -1.
        """

    def parts(self, selection: EpochSelection) -> Sequence[tuple[LoaderSource, EpochSelection]]:
        """Return the sources of the positions of an epoch, in the order of `names`; more than one for a mixture."""
        return [(self, selection)]

    def split(
        self, selection: EpochSelection, units: Indices, first: int, slot_of: Slots
    ) -> Iterator[tuple[int, Indices, int, Slots]]:
        """Yield the index of each of `parts`, and the arguments of `render` for those of these units that it has."""
        yield 0, units, first, slot_of

    def new_buffer(self, slots: int) -> Batch:
        """Return uninitialized arrays for a number of examples, with the labels of the layout and possibly others."""
        layout = self.layout
        labels = {label.name: np.empty((slots, *label.shape), label.np_dtype) for label in layout.labels}
        planes = np.empty((slots, *layout.packed_shape), layout.plane_dtype)
        return Batch(planes, labels, np.empty(slots, np.uint64), np.empty(slots, np.int32))

    @property
    def slot_bytes(self) -> int:
        """Bytes of an example in a buffer."""
        return self.layout.packed_bytes + sum(label.bytes for label in self.layout.labels) + 14


@kernel
def list_positions(  # noqa: PLR0913 - kernel
    units: Any, turns: Any, first: Any, slot_of: Any, move_offset: Any, selected: Any, game: Any, ply: Any,
    symmetry: Any, slot: Any, ids: Any, out_game: Any, out_ply: Any
) -> Any:  # fmt: skip
    """List the positions of a part of a block that have a slot.

    Args:
        units: [U] int64, games that are consecutive in the block; turns: [U] uint8, their symmetries.
        first: Index in the block of the first selected position of the first game; may be negative.
        slot_of: [size of the block], slot of each position, or -1; see `kifu.datasets.epoch_plan.slots_of_entries`.
        move_offset: [G + 1], start of the moves of each game.
        selected: Bits of the selected moves, see `kifu.datasets.epoch_plan.select_positions`.
        game: int64, as ply and slot: receives the game of each position, in order; symmetry: uint8.
        out_game: [slots] uint64, receives the id of the game of each slot, and out_ply its ply.

    Returns:
        The number of positions.
    """
    q, n = first, 0
    for u in range(units.shape[0]):
        g = units[u]
        for k in range(move_offset[g], move_offset[g + 1]):
            if selected[k >> 3] >> (k & 7) & 1:
                if 0 <= q < slot_of.shape[0] and slot_of[q] >= 0:
                    game[n], ply[n], symmetry[n], slot[n] = g, k - move_offset[g], turns[u], slot_of[q]
                    out_game[slot_of[q]], out_ply[slot_of[q]] = ids[g], k - move_offset[g]
                    n += 1
                q += 1
    return n


class CatalogueSource(LoaderSource):
    """Games of memory-mapped catalogues, rendered as they are replayed; only 4 bytes per game stay in memory."""

    def __init__(self, rows: pa.RecordBatch, spec: ExampleSpec, following: bool = False) -> None:
        """Prepare the games.

        Raises RecipeError if the specification is invalid, and GameError if the plane set does not support the board.

        Args:
            rows: Kept games that fit the board, with at least `spec.columns()`; DRAW_COLUMNS are kept, too.
            following: Render, instead of each selected position, the one after it; zeros with ply -1 where none is.
        """
        columns = dict.fromkeys((*spec.columns(), *(name for name in DRAW_COLUMNS if name in rows.schema.names)))
        self._rows = rows.select(list(columns))
        self._spec, self._following = spec, following
        self.encoder = spec.encoder()
        self.layout = make_layout(self.encoder, spec.labels)
        self.games = move_arrays(rows)
        self.ids: Hashes = to_numpy(rows["id"])
        self.playable = self._count_playable()
        self._labelled = self._find_labelled() if TARGETS_COLUMN in self._rows.schema.names else None
        self._merged = self._merge()

    def __reduce__(self) -> tuple[Any, ...]:
        return CatalogueSource, (self._rows, self._spec, self._following)

    def _count_playable(self) -> Ints:
        """Return how many positions of each game can be encoded, [G]."""
        legal: Ints = to_numpy(self._rows["n_legal"])
        legal = np.minimum(legal, np.diff(self.games.move_offset)).astype(np.int32)
        if self.encoder.RECORD_RULES:
            return legal
        context = self.encoder.context_of(self._rows)

        def replay(first: int) -> Ints:
            rows = np.arange(first, min(first + _REPLAYED, len(legal)))
            values, drop = context(rows)
            _, ply = self.encoder.replay(self.games, rows, values)
            return np.where(drop == DropReason.KEPT, ply, np.int32(0))

        with Executor() as executor:
            counts = [np.empty(0, np.int32), *executor.map(replay, range(0, len(legal), _REPLAYED))]
        return np.minimum(np.concatenate(counts), legal)

    @property
    def rows(self) -> pa.RecordBatch:
        """The games, with the columns that the examples need, and those of DRAW_COLUMNS if they were read."""
        return self._rows

    def fingerprint(self) -> dict[str, Any]:
        """Return the ids and weights of the games as a hash, and the rules of the filter."""
        source = blake3(self.ids.view(np.uint8).data).update(self.playable.view(np.uint8).data)
        if self._labelled is not None:
            source.update(self._labelled.data)
        if self._spec.filter.weight is not None:
            source.update(to_numpy(self._rows[WEIGHT_COLUMN]).view(np.uint8).data)
        return {"source": source.hexdigest(16)} | self._spec.filter.to_dict()

    def select(self, seed: int, epoch: int, augment: bool) -> EpochSelection:
        """Return the positions of an epoch; see `LoaderSource.select`."""
        games, rules = self.games, self._spec.filter
        weight_key, per_game_key = (hash_key(seed, epoch, purpose)[0] for purpose in (WEIGHT, PER_GAME))
        selected, counts = np.zeros((len(games.moves) + 7) // 8, np.uint8), np.empty(len(self.ids), np.int32)
        for first in range(0, len(counts), _GAMES):
            part = slice(first, min(first + _GAMES, len(counts)))
            select_positions(
                games, first, self.playable[part], rules, self._weights_by_player(part),
                (weight_key, per_game_key), selected, counts[part],
            )  # fmt: skip
        if self._labelled is not None:
            selected &= self._labelled
            bits = np.unpackbits(selected, count=len(games.moves), bitorder="little")
            counts = np.diff(np.append(0, np.cumsum(bits, dtype=np.int64))[games.move_offset]).astype(np.int32)
        self._merged.select(games.move_offset, selected, counts)
        return EpochSelection(counts, selected, hash_key(seed, epoch, SYMMETRY) if augment else None)

    def _find_labelled(self) -> Bytes:
        """Return, as bits [moves], which positions have targets as well as the next one."""
        lists = self._rows[TARGETS_COLUMN]
        game = np.repeat(np.arange(len(lists)), pc.list_value_length(lists).to_numpy())
        ply = to_numpy(lists.flatten().field("ply"))
        known = np.zeros(len(self.games.moves) + 1, np.bool_)
        inside = ply < self.playable[game]
        known[self.games.move_offset[game[inside]] + ply[inside]] = True
        known[:-1] &= known[1:]
        known[self.games.move_offset[1:] - 1] = False  # the next position is of another game
        return np.packbits(known[:-1], bitorder="little")

    def _merge(self) -> MergedPositions:
        games, rules = self.games, self._spec.filter
        weights = np.empty((len(self.ids), rules.merge_plies))
        for first in range(0, len(weights) if rules.merge_plies else 0, _GAMES):
            part = slice(first, min(first + _GAMES, len(weights)))
            weigh_positions(
                games.moves, games.move_offset[first : part.stop + 1], self.playable[part],
                games.width[part].astype(np.int64) * games.height[part], rules.passes, rules.weights_by_ply(),
                self._weights_by_player(part), weights[part],
            )  # fmt: skip
        return merge_positions(games, weights)

    def _weights_by_player(self, part: slice) -> Doubles:
        """[K, 2] the weights of Black's and of White's moves in some games."""
        rules, rows = self._spec.filter, self._rows.slice(part.start, part.stop - part.start)
        weights = np.ones((len(rows), 2))
        if rules.rank_weights is not None:
            weights = rules.weights_by_player(ratings_of(rows))
        if not rules.programs:
            weights = weights * ~np.stack([to_numpy(rows[name]) for name in PROGRAM_COLUMNS], 1)
        return weights if rules.weight is None else weights * to_numpy(rows[WEIGHT_COLUMN])[:, None]

    def cost(self, selection: EpochSelection, units: Indices) -> Indices:
        """Return the work for each unit; see `LoaderSource.cost`."""
        return self.games.move_offset[units + 1] - self.games.move_offset[units]

    def render(self, selection: EpochSelection, units: Indices, first: int, slot_of: Slots, out: Batch) -> None:
        """Render positions; see `LoaderSource.render`."""
        most, turns = (
            int(selection.counts[units].sum()),
            selection.symmetries(units, self.layout.width == self.layout.height),
        )
        game, ply, slot = np.empty((3, most), np.int64)
        symmetry = np.empty(most, np.uint8)
        offset, selected = self.games.move_offset, selection.selected
        n = list_positions(
            units, turns, first, slot_of, offset, selected, game, ply, symmetry, slot, self.ids, out.game, out.ply
        )
        game, ply, slot = game[:n], ply[:n], slot[:n]
        positions = Positions(self.games, game, ply, symmetry[:n])
        if self._following:
            positions, slot = self._follow(positions, slot, out)
        self._encode(positions, slot, out)
        names = {label.name for label in self.layout.labels}
        if not names <= {*ENCODED_LABELS, *MERGED_LABELS}:
            self._compute_labels(positions, slot, out)
        if names & {*MERGED_LABELS}:
            self._merged.fill(positions, slot, out.labels["move"], self.layout.width, out.labels)

    def _follow(self, positions: Positions, slot: Indices, out: Batch) -> tuple[Positions, Indices]:
        """Return the positions that follow, with their slots; those of the last positions of games become zeros."""
        exists = positions.ply + 1 < self.playable[positions.game]
        for values in (out.planes, *out.labels.values()):
            values[slot[~exists]] = 0
        out.ply[slot] = np.where(exists, positions.ply + 1, -1)
        return replace(positions, ply=positions.ply + 1).take(np.flatnonzero(exists)), slot[exists]

    def new_buffer(self, slots: int) -> Batch:
        """Return arrays for examples; see `LoaderSource.new_buffer`."""
        buffer = super().new_buffer(slots)
        return replace(buffer, labels={**self.encoder.new_labels(slots), **buffer.labels})

    def _encode(self, positions: Positions, slot: Indices, out: Batch) -> None:
        """Encode positions. Raises FormatError if one lies after the last move that could be replayed."""
        encoded = self.encoder.encode(positions, self.encoder.context_of(self._rows), out.planes, out.labels, slot)
        for k in np.flatnonzero((encoded.drop != DropReason.KEPT) & (encoded.ply <= positions.ply))[:1].tolist():
            game, reason = self.ids[positions.game[k]], DropReason(encoded.drop[k]).reason
            raise FormatError(f"game {game:016x}: move {encoded.ply[k] + 1} cannot be played: {reason}")

    def _compute_labels(self, positions: Positions, slot: Indices, out: Batch) -> None:
        rows, game = np.unique(positions.game, return_inverse=True)
        batch = self._rows.take(pa.array(rows))
        at = replace(positions, games=move_arrays(batch), game=game)
        values = label_values(self.layout.labels, (self.layout.width, self.layout.height), batch, at)
        width, height = at.games.width[game].astype(np.int64), at.games.height[game].astype(np.int64)
        for name, augmented in augment_labels(self.layout, values, at.symmetry, width, height).items():
            out.labels[name][slot] = augmented


class DatasetSource(LoaderSource):
    """Existing data sets of one layout."""

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        """Combine data sets. Raises RecipeError if their layouts differ."""
        self.layout = datasets[0].layout
        for data in datasets[1:]:
            if data.layout != self.layout:
                raise RecipeError(f"{data.path} has other planes or labels than {datasets[0].path}")
        self._datasets = datasets
        self._first = [0, *accumulate(len(data) for data in datasets)]
        self._locks = [threading.Lock() for _ in datasets]
        starts = [first + data.run_starts() for first, data in zip(self._first, datasets)]
        self._start = np.concatenate([*starts, [self._first[-1]]]).astype(np.int64)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, ([data.path for data in self._datasets],)

    def fingerprint(self) -> dict[str, Any]:
        """Return a hash of the layout, the counts, and the first and last rows of each data set."""
        digest = blake3(self.layout.to_json().encode())
        for data in self._datasets:
            ends = [data.read(0, min(len(data), RUN_ROWS)), data.read(max(len(data) - RUN_ROWS, 0), len(data))]
            digest.update(len(data).to_bytes(8, "little"))
            for batch in ends:
                digest.update(batch.planes.tobytes() + batch.game.tobytes() + batch.ply.tobytes())
        return {"source": digest.hexdigest(16)}

    def select(self, seed: int, epoch: int, augment: bool) -> EpochSelection:
        """Return the positions of an epoch; see `LoaderSource.select`."""
        if augment:
            check_augmentable(self.layout)
        symmetry_key = hash_key(seed, epoch, SYMMETRY) if augment else None
        return EpochSelection(np.diff(self._start), np.empty(0, np.uint8), symmetry_key)

    def cost(self, selection: EpochSelection, units: Indices) -> Indices:
        """Return the work for each unit; see `LoaderSource.cost`."""
        return self._start[units + 1] - self._start[units]

    def render(self, selection: EpochSelection, units: Indices, first: int, slot_of: Slots, out: Batch) -> None:
        """Render positions; see `LoaderSource.render`."""
        at = first
        for start, stop in zip(self._start[units].tolist(), self._start[units + 1].tolist()):
            low, high = max(at, 0), min(at + stop - start, len(slot_of))
            wanted = low + np.flatnonzero(slot_of[low:high] >= 0)
            if len(wanted):
                self._copy(selection, start - at + wanted, slot_of[wanted], out)
            at += stop - start

    def _copy(self, selection: EpochSelection, rows: Indices, slots: Slots, out: Batch) -> None:
        """Copy ascending rows of one run to slots."""
        layout = self.layout
        k = bisect_right(self._first, int(rows[0])) - 1
        within = rows - self._first[k]
        with self._locks[k]:
            run = self._datasets[k].read(int(within[0]), int(within[-1]) + 1)
        batch = run.take(within - within[0])
        symmetry = selection.symmetries(rows, layout.width == layout.height)
        width, height = np.full(len(rows), layout.width), np.full(len(rows), layout.height)
        augment = selection.symmetry_key is not None
        out.planes[slots] = augment_planes(batch.planes, symmetry, layout) if augment else batch.planes
        for name, values in augment_labels(layout, dict(batch.labels), symmetry, width, height).items():
            out.labels[name][slots] = values
        out.game[slots], out.ply[slots] = batch.game, batch.ply


def _reopen(paths: Sequence[Path]) -> DatasetSource:
    return DatasetSource([open_dataset(path) for path in paths])


def open_datasets(sources: Sequence[str | os.PathLike[str]]) -> DatasetSource | None:
    """Open data sets; None if no source is one. Raises RecipeError if only some are, or their layouts differ."""
    locations = [as_path(source) for source in sources]
    paths = [path for path in locations if isinstance(path, Path) and detect_format(path) is not None]
    others = [path for path in locations if path not in paths]
    if paths and others:
        raise RecipeError(f"{others[0]} is not a data set, but {paths[0]} is")
    return _reopen(paths) if paths else None


def require_games(sources: Sequence[str | os.PathLike[str]], use: str) -> None:
    """Raise RecipeError if a source is a data set, SourceError if it is missing."""
    for path in map(as_path, sources):
        if isinstance(path, Path) and detect_format(path) is not None:
            raise RecipeError(f"{path} is a data set; {use} requires games: catalogues, archives, records")
