"""From games of people to KataGo's training files, without a network: what its `writetrainingdata` was made for.

Which games, and which moves of them, follows `writetrainingdata` of KataGo v1.17.2, each rule a value of the recipe. It
has rows neither for a pass nor for the answer to one, since a search that plays by strict rules must not learn from
people when to pass, and trailing passes are no part of the game.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kifu.datasets.manifest import ExamplesManifest
from kifu.execution.executor import THREADS
from kifu.katago.npz import KataWriter
from kifu.katago.recipe import KatagoRecipe
from kifu.katago.render import DrawRows, DrawUnit
from kifu.katago.select import CountRows
from kifu.planes.registry import KATAGO22
from kifu.progress import ProgressFactory, silent
from kifu.recipes.pipeline import AnySources, BuildOptions, BuildReport, ManifestCounts, SetPlan, build_sets

FORMAT = "katago-npz@1"


def build_katago(
    recipe: KatagoRecipe,
    sources: AnySources,
    into: str | os.PathLike[str],
    *,
    sets: Sequence[str] | None = None,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> list[BuildReport[ExamplesManifest]]:
    """Makes a folder of KataGo's files for each set, with its manifest, and returns them in the order of `sets`.

    As `kifu.recipes.examples.build_examples` does: the arguments are the same, folders that are there already stay,
    bytes depend on neither engine nor jobs. Rows stand in the order of the games; shuffle.py shuffles them. Games are
    played twice, first to count their rows.
    Raises RecipeError, SourceError, FormatError, OutputError or ClusterError.
    """

    def make(plan: SetPlan) -> ExamplesManifest:
        return _Build(recipe, plan).make()

    return build_sets(recipe, "", make, sources, Path(into), sets, BuildOptions(jobs, engine, progress))


@dataclass
class _Build:
    """One folder in the making."""

    recipe: KatagoRecipe
    plan: SetPlan
    tally: ManifestCounts = field(default_factory=ManifestCounts)

    def make(self) -> ExamplesManifest:
        """Writes the folder."""
        recipe, plan = self.recipe, self.plan
        with KataWriter(
            plan.path,
            rows_per_file=recipe.rows_per_file,
            compression=recipe.compression,
            meta=recipe.metadata is not None,
        ) as writer:
            self._draw(self._count(), writer)
            written = writer.commit({"recipe": recipe.name, "title": recipe.title, "set": plan.set})
        return self.tally.manifest(plan, written, recipe, FORMAT, KATAGO22.name)

    def _count(self) -> list[DrawUnit]:
        """What there is to draw."""
        plan, units, start = self.plan, [], 0
        with plan.progress(f"counting rows of {plan.path.name}", plan.games, "games") as bar:
            for given in plan.catalogues:
                counts = np.zeros(len(given.catalogue), np.int32)
                for counted in plan.executor.run(CountRows(self.recipe, plan.set), given.units):
                    self.tally.add_dropped(counted.why, counted.elsewhere)
                    self.tally.add_games(counted.member, counted.rows, counted.plies)
                    counts[counted.member] = counted.rows
                    bar.advance(counted.read)
                self.tally.end_catalogue(given)
                for unit in given.units:
                    some = counts[unit.first : unit.first + unit.rows.rows]
                    if some.any():
                        units.append(DrawUnit(unit, start, some))
                        start += int(some.sum())
        return units

    def _draw(self, units: list[DrawUnit], writer: KataWriter) -> None:
        rows = sum(int(unit.counts.sum()) for unit in units)
        with self.plan.progress(f"building {self.plan.path.name}", rows, "rows") as bar:
            for drawn in self.plan.executor.run(DrawRows(self.recipe, self.plan.set), units):
                if drawn.part is not None:
                    writer.write(drawn.part)
                    bar.advance(drawn.part.size)
                for piece in drawn.pieces:
                    writer.append(piece)
                    bar.advance(piece.rows)
