"""Build KataGo's training files from human games, without a network, as KataGo's `writetrainingdata` does.

Games and moves are selected as in `writetrainingdata` of KataGo v1.17.2; each of its rules is an option of the recipe.
Passes and answers to passes give no rows, since a search with strict rules must not learn from people when to pass, and
trailing passes do not count as moves of the game.

Rows are rendered and compressed in pieces of 1,024. The bounds of a piece follow from the number of rows before it, so
that once all rows are counted, pieces can be made in any order and by any process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kifu.arrays import Floats, Indices, Ints
from kifu.corpus.catalogue import RowShard
from kifu.corpus.schema import game_arrays, map_distinct, to_numpy
from kifu.datasets.manifest import WriteReport
from kifu.go.positions import Positions
from kifu.katago.metadata import META_COLUMNS, metadata_rows
from kifu.katago.npz import CompressedRows, KataRows, KataWriter, compress_rows, piece_end
from kifu.katago.select import (
    COLUMNS,
    ENCODER,
    CountRows,
    KatagoRecipe,
    end_plies,
    rules_of,
    scan_openings,
    select_plies,
)
from kifu.katago.targets import UNKNOWN_WINNER, GameSpan, TargetScratch, fill_targets
from kifu.planes.encoder import fixed_context
from kifu.planes.registry import KATAGO22
from kifu.point import BLACK, WHITE
from kifu.recipes.pipeline import SetPlan, row_slices

FORMAT = "katago-npz@1"

_GAMES = 64
"""Games read at a time."""

_PIECES = 2
"""Whole pieces in one item, of 9 MB each."""

_WINNERS = {"black": BLACK, "white": WHITE, "draw": 0}


def write_rows(recipe: KatagoRecipe, plan: SetPlan) -> tuple[WriteReport, str, str]:
    """Write a directory of KataGo's training files, see `kifu.recipes.pipeline.build_sets`.

    Rows are in the order of the games; shuffle.py shuffles them. Games are played twice, first to count their rows.
    """
    meta = recipe.metadata is not None
    with KataWriter(plan.path, rows_per_file=recipe.rows_per_file, compression=recipe.compression, meta=meta) as writer:
        shards, job = _count_rows(recipe, plan), RenderRows(recipe)
        rows = sum(int(shard.counts.sum()) for shard in shards)
        with plan.progress(f"building {plan.path.name}", rows, "rows") as bar:
            for rendered in plan.executor.run(job.process, shards, job.read):
                if isinstance(rendered, KataRows):
                    writer.write(rendered)
                    bar.advance(rendered.size)
                else:
                    for piece in rendered:
                        writer.append(piece)
                        bar.advance(piece.rows)
        return writer.commit(plan.about), FORMAT, KATAGO22.name


def _count_rows(recipe: KatagoRecipe, plan: SetPlan) -> list[RenderShard]:
    job, shards, start = CountRows(recipe, plan.set), [], 0
    with plan.progress(f"counting rows of {plan.path.name}", plan.games, "games") as bar:
        for catalogue, digest in plan.catalogues:
            units = catalogue.shards()
            rows = np.zeros(len(catalogue), np.int32)
            for counted in plan.executor.run(job.process, units, job.read):
                plan.counts.add(counted)
                rows[counted.member] = counted.rows
                bar.advance(counted.read)
            plan.counts.end_archive(catalogue.path.name, digest)
            for unit in units:
                rows_of_unit = rows[unit.row : unit.row + unit.rows]
                if rows_of_unit.any():
                    shards.append(RenderShard(unit, start, rows_of_unit))
                    start += int(rows_of_unit.sum())
    return shards


@dataclass(frozen=True, slots=True)
class RenderShard:
    """Games to render. start: the number of rows of the set before them."""

    unit: RowShard
    start: int
    counts: Ints


class PieceItem(NamedTuple):
    """The games of a part of a piece, or of whole pieces. skip: the first game's rows that belong to other items."""

    batch: pa.RecordBatch
    counts: Ints
    skip: int
    sizes: list[int]
    whole: bool


@dataclass(frozen=True)
class RenderRows:
    """Render and compress all rows of a set."""

    recipe: KatagoRecipe

    @cached_property
    def _free_scratch(self) -> list[TargetScratch]:
        return []

    def read(self, shard: RenderShard) -> Iterator[PieceItem]:
        """Yield the games of each piece, or of a few whole pieces."""
        columns = (*COLUMNS, *(META_COLUMNS if self.recipe.metadata is not None else ()))
        ends = np.cumsum(shard.counts, dtype=np.int64)
        batches, pending, at = row_slices(columns, _GAMES, shard.unit), list[pa.RecordBatch](), 0
        for bounds, whole in _piece_bounds(shard.start, int(ends[-1]), self.recipe.rows_per_file):
            # The games with row bounds[0] and, one further, with row bounds[-1] - 1.
            first = int(np.searchsorted(ends, bounds[0], "right"))
            last = int(np.searchsorted(ends, bounds[-1], "left")) + 1
            while at + sum(map(len, pending)) < last:
                pending.append(next(batches).batch)
            while at + len(pending[0]) <= first:
                at += len(pending.pop(0))
            games = pa.Table.from_batches(pending).slice(first - at, last - first).combine_chunks()
            counts = shard.counts[first:last]
            skip = bounds[0] - int(ends[first] - counts[0])
            yield PieceItem(games.to_batches()[0], counts, skip, [b - a for a, b in pairwise(bounds)], whole)

    def process(self, item: PieceItem) -> list[CompressedRows] | KataRows:
        """Render the rows of an item, and compress them if they are whole pieces."""
        rows = self._render(item)
        if not item.whole:
            return rows
        bounds = [0, *np.cumsum(item.sizes).tolist()]
        return [compress_rows(rows.part(a, b), self.recipe.compression) for a, b in pairwise(bounds)]

    def _render(self, item: PieceItem) -> KataRows:
        games, rows = game_arrays(item.batch), np.flatnonzero(item.counts)
        rules, first = rules_of(self.recipe, item.batch)[0], scan_openings(self.recipe, games).first[rows]
        selected = select_plies(games, rows, first)
        # The positions of a game are in the order of its plies, so that its rows are the first ones.
        place = np.arange(len(selected)) - np.searchsorted(selected.game, selected.game)
        with_row = np.flatnonzero(place < item.counts[selected.game])
        positions = selected.take(with_row[item.skip : item.skip + sum(item.sizes)])
        encoded = ENCODER.encode(positions, fixed_context(rules))
        n, rules = len(positions), rules[rows]
        game, ply = np.searchsorted(rows, positions.game), positions.ply.astype(np.int32)
        played = np.zeros(len(rows), np.int32)
        played[game] = encoded.ply
        try:
            target_scratch = self._free_scratch.pop()
        except IndexError:
            target_scratch = TargetScratch()
        span = self._span(item.batch, rows, first, end_plies(games, rows, first, played))
        targets = fill_targets(target_scratch, games, rows, rules, span, game, ply)
        self._free_scratch.append(target_scratch)
        return KataRows(
            encoded.planes, encoded.labels["globals"], *targets,
            q=np.zeros((n, 3, targets.policy.shape[2]), np.int16),
            meta=self._metadata(item.batch, positions),
        )  # fmt: skip

    def _span(self, batch: pa.RecordBatch, rows: Indices, first: Ints, stop: Ints) -> GameSpan:
        trust: Mapping[str, float] = {str(ending): weight for ending, weight in self.recipe.trust.items()}
        winner = map_distinct(batch["winner"], lambda winner: _WINNERS.get(winner or "", UNKNOWN_WINNER), np.int8)
        return GameSpan(
            first=first,
            stop=stop,
            winner=winner[rows],
            trust=map_distinct(batch["ending"], lambda ending: trust.get(ending or "", 0), np.float32)[rows],
            key=to_numpy(batch["id"])[rows],
        )

    def _metadata(self, batch: pa.RecordBatch, positions: Positions) -> Floats | None:
        if self.recipe.metadata is None:
            return None
        white = (positions.to_play == WHITE).astype(np.int64)
        rows: Floats = metadata_rows(batch, self.recipe.metadata)[positions.game, white]
        return rows


def _piece_bounds(start: int, rows: int, rows_per_file: int) -> Iterator[tuple[list[int], bool]]:
    """Yield bounds of the pieces of rows, with `start` of their set before them, and whether pieces are whole."""
    bounds = [0]
    while bounds[-1] < rows:
        bounds.append(min(piece_end(start + bounds[-1], rows_per_file) - start, rows))
    first = 0 if start == 0 or piece_end(start - 1, rows_per_file) == start else 1
    last = len(bounds) - (1 if piece_end(start + bounds[-2], rows_per_file) == start + rows else 2)
    if first:
        yield bounds[:2], False
    for k in range(first, last, _PIECES):
        yield bounds[k : min(k + _PIECES, last) + 1], True
    if first <= last < len(bounds) - 1:
        yield bounds[-2:], False
