"""KataGo's rows of some games, drawn and compressed in the pieces that files are made of.

Where a piece begins and ends follows from how many rows come before it. Once these are counted, pieces can be made in
any order, on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.schema import game_arrays, map_distinct, to_numpy
from kifu.katago.encoder import KataScratch
from kifu.katago.metadata import META_COLUMNS, metadata_rows
from kifu.katago.moves import choose_plies, find_end_plies
from kifu.katago.npz import PackedRows, pack_rows
from kifu.katago.recipe import KatagoRecipe
from kifu.katago.rows import KataRows, piece_end
from kifu.katago.select import COLUMNS, RuleResolver
from kifu.katago.targets import UNKNOWN_WINNER, GameSpan, TargetScratch, fill_targets
from kifu.point import BLACK, WHITE, WHITE_BIT
from kifu.recipes.pipeline import SetJob, SetUnit, row_slices
from kifu.records.games import GameArrays

_GAMES = 64
"""Read at one go."""

_TOGETHER = 2
"""Pieces that are made at one go, of 9 MB each."""

_WINNERS = {"black": BLACK, "white": WHITE, "draw": 0}


@dataclass(frozen=True, slots=True)
class DrawUnit:
    """Games whose rows are drawn. start: how many rows of the set come before. counts: [G] int32, rows of each game."""

    of: SetUnit
    start: int
    counts: npt.NDArray[np.int32]


class PieceItem(NamedTuple):
    """Games that have the rows of a part of a piece, or of some whole pieces.

    counts: [G] rows of each. skip: how many rows of the first game belong to others. sizes: rows that are wanted, by
    piece. whole: whether these are whole pieces.
    """

    batch: pa.RecordBatch
    counts: npt.NDArray[np.int32]
    skip: int
    sizes: list[int]
    whole: bool


class RenderedRows(NamedTuple):
    """What was made of some games: whole pieces, or rows that are part of one."""

    pieces: list[PackedRows]
    part: KataRows | None


@dataclass(frozen=True)
class DrawRows(SetJob[DrawUnit, PieceItem, RenderedRows]):
    """All rows of a set."""

    recipe: KatagoRecipe

    @cached_property
    def _rulebook(self) -> RuleResolver:
        return RuleResolver(self.recipe)

    @cached_property
    def _desks(self) -> list[tuple[KataScratch, TargetScratch]]:
        """Of threads that are not at work."""
        return []

    def shard_fingerprint(self, shard: DrawUnit) -> Any:
        return [*shard.of.fingerprint(), shard.start]

    def read(self, shard: DrawUnit) -> Iterator[PieceItem]:
        columns = (*COLUMNS, *(META_COLUMNS if self.recipe.metadata is not None else ()))
        ends = np.cumsum(shard.counts, dtype=np.int64)
        batches, held, at = row_slices(shard.of, columns, _GAMES), list[pa.RecordBatch](), 0
        for bounds, whole in _spans(shard.start, int(ends[-1]), self.recipe.rows_per_file):
            # The game that has row bounds[0], and the one after that which has row bounds[-1] - 1.
            first = int(np.searchsorted(ends, bounds[0], "right"))
            last = int(np.searchsorted(ends, bounds[-1], "left")) + 1
            while at + sum(map(len, held)) < last:
                held.append(next(batches).batch)
            while at + len(held[0]) <= first:
                at += len(held.pop(0))
            some = pa.Table.from_batches(held).slice(first - at, last - first).combine_chunks()
            counts = shard.counts[first:last]
            skip = bounds[0] - int(ends[first] - counts[0])
            yield PieceItem(some.to_batches()[0], counts, skip, [b - a for a, b in pairwise(bounds)], whole)

    def process(self, item: PieceItem) -> RenderedRows:
        drawn = self._draw(item)
        if not item.whole:
            return RenderedRows([], drawn)
        bounds = [0, *np.cumsum(item.sizes).tolist()]
        return RenderedRows([pack_rows(drawn.part(a, b), self.recipe.compression) for a, b in pairwise(bounds)], None)

    def _draw(self, item: PieceItem) -> KataRows:
        """The rows that are wanted of these games, which have all been played once."""
        games, rows = game_arrays(item.batch), np.flatnonzero(item.counts)
        terms, first = self._rulebook.terms(item.batch)[0][rows], self._rulebook.firsts(games).first[rows]
        take, game, ply = choose_plies(games, rows, first)
        # Slots of a game are in the order of its plies, so that those it has rows of are its first ones.
        stays = np.arange(len(game)) - np.searchsorted(game, game) < item.counts[rows][game]
        number = np.cumsum(stays) - 1 - item.skip
        wanted = stays & (number >= 0) & (number < sum(item.sizes))
        take[take >= 0] = np.where(wanted, number, -1)
        game, ply = game[wanted], ply[wanted]
        try:
            desk, target_desk = self._desks.pop()
        except IndexError:
            desk, target_desk = self._rulebook.encoder.new_desk(), TargetScratch()
        encoder, n = self._rulebook.encoder, len(game)
        planes, inputs, label = encoder.new_out(n), encoder.new_inputs(n), np.empty(n, np.int16)
        turned = np.zeros(len(rows), np.uint8)
        _, reached = encoder.encode(desk, games, rows, turned, take, planes, label, terms, inputs)
        span = self._span(item.batch, rows, first, find_end_plies(games, rows, first, reached))
        targets = fill_targets(target_desk, games, rows, terms, span, game, ply)
        self._desks.append((desk, target_desk))
        return KataRows(
            planes, inputs, *targets,
            q=np.zeros((n, 3, targets.policy.shape[2]), np.int16),
            meta=self._metadata(item.batch, games, rows[game], ply),
        )  # fmt: skip

    def _span(
        self,
        batch: pa.RecordBatch,
        rows: npt.NDArray[np.int64],
        first: npt.NDArray[np.int32],
        stop: npt.NDArray[np.int32],
    ) -> GameSpan:
        trust: Mapping[str, float] = {str(ending): weight for ending, weight in self.recipe.trust.items()}
        return GameSpan(
            first=first,
            stop=stop,
            winner=map_distinct(batch["winner"], lambda winner: _WINNERS.get(winner or "", UNKNOWN_WINNER), np.int8)[
                rows
            ],
            trusted=map_distinct(batch["ending"], lambda ending: trust.get(ending or "", 0), np.float32)[rows],
            key=to_numpy(batch["id"])[rows],
        )

    def _metadata(
        self, batch: pa.RecordBatch, games: GameArrays, game: npt.NDArray[np.int64], ply: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.float32] | None:
        if self.recipe.metadata is None:
            return None
        white = games.moves[games.move_offset[game] + ply] & WHITE_BIT != 0
        sides: npt.NDArray[np.float32] = metadata_rows(batch, self.recipe.metadata)[game, white.astype(np.int64)]
        return sides


def _spans(start: int, rows: int, rows_per_file: int) -> Iterator[tuple[list[int], bool]]:
    """Cuts rows, of which `start` come before in their set, where pieces end: (bounds, whether between them are whole
    pieces). There is at least one row."""
    bounds = [0]
    while bounds[-1] < rows:
        bounds.append(min(piece_end(start + bounds[-1], rows_per_file) - start, rows))
    first = 0 if start == 0 or piece_end(start - 1, rows_per_file) == start else 1
    last = len(bounds) - (1 if piece_end(start + bounds[-2], rows_per_file) == start + rows else 2)
    if first:
        yield bounds[:2], False
    for k in range(first, last, _TOGETHER):
        yield bounds[k : min(k + _TOGETHER, last) + 1], True
    if first <= last < len(bounds) - 1:
        yield bounds[-2:], False
