"""Data sets of examples from games: any plane set and labels, in any format, in corpus order or shuffled.

Each set is one pass over the catalogue. Shuffled examples are sorted by a hash of seed, game and ply; those that do not
fit in memory wait on disk next to the data set, in buckets by range of that hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kifu.datasets.formats import open_writer
from kifu.datasets.manifest import ExamplesManifest
from kifu.execution.executor import THREADS
from kifu.progress import Progress, ProgressFactory, silent
from kifu.recipes.pipeline import BuildOptions, BuildReport, ManifestCounts, SetPlan, build_sets
from kifu.recipes.schema import ExamplesRecipe
from kifu.records.paths import Paths

if TYPE_CHECKING:
    from kifu.datasets.examples import Batch, Layout
    from kifu.datasets.writer import Writer

WINDOW_BYTES = 128 << 20
"""Packed planes that are sorted at once."""

_KEYS = "keys"
"""The column of a bucket that it is sorted by."""

_PIECE = 4096
"""Sorted rows that are prepared for the writer at once."""


def build_examples(
    recipe: ExamplesRecipe,
    sources: Paths,
    output: str | PathLike[str],
    *,
    sets: Sequence[str] | None = None,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> list[BuildReport[ExamplesManifest]]:
    """Build the data sets of a recipe, each with its manifest.

    Sources that are all catalogues are used as they are, if the recipe has no cleaning rules or they were made by the
    same rules. Otherwise all sources are read into a new catalogue, games.parquet in `output`, which only one build at
    a time may use. A data set that an earlier run of this version made from the same recipe and sources is kept. Data
    sets are complete or absent, even if the build is interrupted.

    Memory is that of `ingest` plus a few chunks per thread; shuffling takes three times 128 MiB, and disk space for the
    packed examples, compressed with LZ4.

    Args:
        recipe: see `kifu.recipes.schema.load_recipe`.
        sources: archives, directories, records and catalogues, as for `ingest`.
        output: the directory to write to.
        sets: names of sets, by default those of the recipe.
        jobs: number of threads or processes, by default one per core.
        engine: execution backend, see `kifu.execution.executor.make_executor`. The bytes do not depend on it.
        progress: reports progress.

    Returns:
        One report per set, in the order of `sets`.

    Raises:
        RecipeError: the recipe has no such set, or a source is the catalogue that would be written.
        SourceError: a source cannot be read.
        FormatError: a catalogue is damaged.
        OutputError: a file cannot be written.
        ClusterError: the cluster is not available.
    """

    def make(plan: SetPlan) -> ExamplesManifest:
        return _SetWriter(recipe, plan).write()

    options = BuildOptions(jobs, engine, progress)
    return build_sets(recipe, recipe.example_format.suffix, make, sources, Path(output), sets, options)


@dataclass
class _SetWriter:
    """Writes one data set."""

    recipe: ExamplesRecipe
    plan: SetPlan
    counts: ManifestCounts = field(default_factory=ManifestCounts)

    @cached_property
    def layout(self) -> Layout:
        """The shapes and labels of the examples."""
        return self.recipe.layout()

    def write(self) -> ExamplesManifest:
        """Write the data set and return its manifest."""
        from kifu.recipes.example_jobs import CountExamples

        recipe, plan = self.recipe, self.plan
        expected = sum(plan.executor.run(CountExamples(recipe, plan.set), plan.shards))
        about = {"recipe": recipe.name, "title": recipe.title, "set": plan.set}
        with open_writer(recipe.format, plan.path, self.layout, expected) as writer:
            if recipe.order == "shuffled":
                self._write_shuffled(writer, expected)
            else:
                self._write_in_order(writer, expected)
            written = writer.commit(about)
        return self.counts.manifest(plan, written, recipe, recipe.example_format.name, self.layout.plane_set)

    def _write_in_order(self, writer: Writer, expected: int) -> None:
        from kifu.recipes.example_jobs import WriteExamples

        job = WriteExamples(self.recipe, self.plan.set)
        with self._progress("building", expected) as bar:
            for catalogue in self.plan.catalogues:
                for chunk in self.plan.executor.run(job, catalogue.shards):
                    writer.append(chunk.content)
                    self.counts.add_dropped(chunk.drops, chunk.elsewhere)
                    self.counts.add_games(chunk.member, chunk.rows, chunk.plies)
                    bar.advance(len(chunk.plies))
                self.counts.end_catalogue(catalogue)

    def _write_shuffled(self, writer: Writer, expected: int) -> None:
        from kifu.datasets.examples import Batch
        from kifu.execution.bucket_sort import BucketSort
        from kifu.recipes.example_jobs import SortExamples

        job = SortExamples(self.recipe, self.plan.set)
        bucket_rows = max(WINDOW_BYTES // self.layout.packed_bytes, 1)
        with BucketSort(_KEYS, bucket_rows, self.plan.path.parent, expected) as buckets:
            with self._progress("drawing", expected) as bar:
                for chunk in self.plan.executor.run(job, self.plan.shards):
                    self.counts.add_dropped(chunk.drops, chunk.elsewhere)
                    buckets.add(chunk.content.columns() | {_KEYS: chunk.keys})
                    bar.advance(len(chunk.keys))
            with self._progress("building", expected) as bar:
                for columns in buckets:
                    order = np.argsort(columns.pop(_KEYS), kind="stable")
                    batch = Batch.from_columns(columns)
                    pieces = (order[at : at + _PIECE] for at in range(0, len(order), _PIECE))
                    for prepared in self.plan.executor.map(partial(_prepare, writer, batch), pieces):
                        writer.append(prepared)
                    bar.advance(len(order))
        for catalogue in self.plan.catalogues:
            self.counts.end_catalogue(catalogue)

    def _progress(self, doing: str, expected: int) -> AbstractContextManager[Progress]:
        return self.plan.progress(f"{doing} {self.plan.path.name}", expected, "examples")


def _prepare(writer: Writer, batch: Batch, rows: npt.NDArray[np.int64]) -> Any:
    return writer.prepare(batch.take(rows), writer.layout)
