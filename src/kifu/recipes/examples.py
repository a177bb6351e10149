"""From games to data sets of examples: any plane set and labels, any format, as the corpus has them or shuffled.

Each set is one pass over the catalogue, some games at a time, in order. Shuffled examples are sorted by a hash of seed,
game and ply; those that memory does not hold wait on the disk, beside the data set, by range of that hash.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.datasets.examples import Batch, Layout
from kifu.datasets.formats import open_writer
from kifu.datasets.manifest import ExamplesManifest
from kifu.datasets.writer import Writer
from kifu.execution.bucket_sort import BucketSort
from kifu.execution.executor import THREADS
from kifu.progress import Progress, ProgressFactory, silent
from kifu.recipes.example_jobs import CountExamples, SortExamples, WriteExamples
from kifu.recipes.pipeline import ExamplesReport, ManifestCounts, SetPlan, build_sets
from kifu.recipes.schema import ExamplesRecipe

WINDOW_BYTES = 128 << 20
"""Packed planes that are sorted at one go."""

_KEYS = "keys"
"""Of a range: what it is sorted by."""

_PIECE = 4096
"""Sorted rows that are made ready to be written at one go."""


def build_examples(
    recipe: ExamplesRecipe,
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    into: str | os.PathLike[str],
    *,
    sets: Sequence[str] | None = None,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> list[ExamplesReport]:
    """Makes the data sets of a recipe, each with its manifest, and returns them in the order of `sets`.

    sources: what `ingest` reads, catalogues among it. Catalogues alone are taken as they are, if the recipe has no
    rules of cleaning or they were made by these; else all is read into a new one, CATALOGUE in the folder, which one
    build at a time may then hold. sets: by default those of the recipe. jobs, engine: see `kifu.execution.executor.make_executor`;
    the bytes are the same for any. A data set that is there already, made by this version from the same recipe and
    sources, stays as it is. Each is complete or not there at all, whatever interrupts. Memory is that of `ingest`, and
    then some chunks for each thread; where examples are shuffled, three times 128 MiB, and on the disk what they take
    as bits, compressed by LZ4.
    Raises RecipeError, SourceError, FormatError, OutputError or ClusterError.
    """

    def make(plan: SetPlan) -> ExamplesManifest:
        return _Build(recipe, plan).make()

    return build_sets(recipe, recipe.example_format.suffix, make, sources, Path(into), sets, jobs, engine, progress)


@dataclass
class _Build:
    """One data set in the making."""

    recipe: ExamplesRecipe
    plan: SetPlan
    tally: ManifestCounts = field(default_factory=ManifestCounts)

    @cached_property
    def layout(self) -> Layout:
        return self.recipe.layout()

    def make(self) -> ExamplesManifest:
        """Writes the data set."""
        recipe, plan = self.recipe, self.plan
        expected = sum(plan.executor.run(CountExamples(recipe, plan.set), plan.units))
        about = {"recipe": recipe.name, "title": recipe.title, "set": plan.set}
        with open_writer(recipe.format, plan.path, self.layout, expected) as writer:
            if recipe.order == "shuffled":
                self._write_shuffled(writer, expected)
            else:
                self._write_in_order(writer, expected)
            written = writer.commit(about)
        return self.tally.manifest(plan, written, recipe, recipe.example_format.name, self.layout.plane_set)

    def _write_in_order(self, writer: Writer, expected: int) -> None:
        job = WriteExamples(self.recipe, self.plan.set)
        with self._bar("building", expected) as bar:
            for given in self.plan.catalogues:
                for made in self.plan.executor.run(job, given.units):
                    writer.append(made.content)
                    self.tally.set_aside(made.why, made.elsewhere)
                    self.tally.add(made.member, made.rows, made.plies)
                    bar.advance(len(made.plies))
                self.tally.end(given)

    def _write_shuffled(self, writer: Writer, expected: int) -> None:
        job = SortExamples(self.recipe, self.plan.set)
        most = max(WINDOW_BYTES // self.layout.packed_bytes, 1)
        with BucketSort(_KEYS, most, self.plan.path.parent, expected) as ranges:
            with self._bar("drawing", expected) as bar:
                for made in self.plan.executor.run(job, self.plan.units):
                    self.tally.set_aside(made.why, made.elsewhere)
                    ranges.add(made.content.columns() | {_KEYS: made.keys})
                    bar.advance(len(made.keys))
            with self._bar("building", expected) as bar:
                for columns in ranges:
                    order = np.argsort(columns.pop(_KEYS), kind="stable")
                    whole = Batch.from_columns(columns)
                    pieces = (order[at : at + _PIECE] for at in range(0, len(order), _PIECE))
                    for prepared in self.plan.executor.map(partial(_prepare, writer, whole), pieces):
                        writer.append(prepared)
                    bar.advance(len(order))
        for given in self.plan.catalogues:
            self.tally.end(given)

    def _bar(self, doing: str, expected: int) -> AbstractContextManager[Progress]:
        return self.plan.progress(f"{doing} {self.plan.path.name}", expected, "examples")


def _prepare(writer: Writer, whole: Batch, rows: npt.NDArray[np.int64]) -> Any:
    return writer.prepare(whole.take(rows), writer.layout)
