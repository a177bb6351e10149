"""Data sets of examples from games: any plane set and labels, in any format, in corpus order or shuffled.

Each set is one pass over the catalogue. Shuffled examples are sorted by a hash of seed, game and ply. If they do not
fit in memory, jobs divide them into files by range of that hash, and sort and encode the ranges, see
`kifu.execution.range_sort`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kifu.datasets.formats import open_writer
from kifu.datasets.manifest import Manifest
from kifu.execution.executor import THREADS
from kifu.progress import Progress, ProgressFactory, silent
from kifu.recipes.pipeline import BuildOptions, BuildReport, ManifestCounts, SetPlan, build_sets
from kifu.recipes.schema import ExamplesRecipe
from kifu.records.paths import Paths

if TYPE_CHECKING:
    from kifu.datasets.examples import Layout
    from kifu.datasets.writer import Writer

WINDOW_BYTES = 128 << 20
"""Packed planes that are sorted at once."""


def build_examples(
    recipe: ExamplesRecipe,
    sources: Paths,
    output: str | PathLike[str],
    *,
    sets: Sequence[str] | None = None,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> list[BuildReport[Manifest]]:
    """Build the data sets of a recipe, each with its manifest.

    Sources that are all catalogues are used as they are, if the recipe has no cleaning rules or they were made by the
    same rules. Otherwise all sources are read into a new catalogue, games.parquet in `output`, which only one build at
    a time may use. A data set that an earlier run of this version made from the same recipe and sources is kept. Data
    sets are complete or absent, even if the build is interrupted.

    Memory is that of `ingest` plus a few chunks per thread; shuffling takes 128 MiB for two ranges and 100 MiB for each
    thread, and disk space for the packed examples, compressed with LZ4.

    Args:
        recipe: See `kifu.recipes.schema.load_recipe`.
        sources: Archives, directories, records and catalogues, as for `ingest`.
        sets: Names of sets, by default those of the recipe.
        jobs: Number of threads or processes, by default one per core.
        engine: Execution backend, see `kifu.execution.executor.make_executor`. The bytes do not depend on it.

    Returns:
        One report per set, in the order of `sets`.

    Raises:
        RecipeError: The recipe has no such set, or a source is the catalogue that would be written.
    """

    def make(plan: SetPlan) -> Manifest:
        return _SetWriter(recipe, plan).write()

    options = BuildOptions(jobs, engine, progress)
    return build_sets(recipe, recipe.example_format.suffix, make, sources, Path(output), sets, options)


@dataclass
class _SetWriter:
    """Writes one data set."""

    recipe: ExamplesRecipe
    plan: SetPlan
    counts: ManifestCounts = field(init=False)

    @cached_property
    def layout(self) -> Layout:
        """The shapes and labels of the examples."""
        return self.recipe.layout()

    def write(self) -> Manifest:
        """Write the data set and return its manifest."""
        from kifu.recipes.example_jobs import CountExamples

        recipe, plan = self.recipe, self.plan
        expected = sum(plan.executor.run(CountExamples(recipe, plan.set), plan.shards))
        about = {"recipe": recipe.name, "title": recipe.title, "set": plan.set}
        with (
            ManifestCounts(plan.set, plan.path) as self.counts,
            open_writer(recipe.format, plan.path, self.layout, expected) as writer,
        ):
            if recipe.order == "shuffled":
                self._write_shuffled(writer, expected)
            else:
                self._write_in_order(writer, expected)
            written = writer.commit(about)
            return self.counts.manifest(
                recipe, plan.games, plan.sources, written, recipe.example_format.name, self.layout.plane_set
            )

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
                self.counts.end_archive(catalogue.name, catalogue.digest)

    def _write_shuffled(self, writer: Writer, expected: int) -> None:
        if expected * self.layout.packed_bytes <= WINDOW_BYTES:
            prepared = self._sort_in_memory(writer, expected)
        else:
            prepared = self._sort_on_disk(expected)
        with self._progress("building", expected) as bar:
            for piece in prepared:
                before = writer.examples
                writer.append(piece)
                bar.advance(writer.examples - before)
        for catalogue in self.plan.catalogues:
            self.counts.end_archive(catalogue.name, catalogue.digest)

    def _sort_in_memory(self, writer: Writer, expected: int) -> Iterator[Any]:
        """Return all examples in their order, prepared for the writer."""
        from kifu.execution.range_sort import concat_columns
        from kifu.recipes.example_jobs import GroupEncoder, SortExamples, sort_columns

        columns = []
        with self._progress("drawing", expected) as bar:
            for chunk in self.plan.executor.run(SortExamples(self.recipe, self.plan.set), self.plan.shards):
                self.counts.add_dropped(chunk.drops, chunk.elsewhere)
                columns.append(chunk.columns())
                bar.advance(len(chunk.keys))
        if not columns:
            return iter(())
        batch, order = sort_columns(concat_columns(columns))
        encoder = GroupEncoder(type(writer), self.layout)
        pieces = (order[first:stop] for first, stop in encoder.bounds(0, len(order)))
        return self.plan.executor.map(partial(encoder.encode, batch), pieces)

    def _sort_on_disk(self, expected: int) -> Iterator[Any]:
        """Return all examples in their order, prepared for the writer: all but the order is the work of jobs."""
        from kifu.execution.range_sort import collect_ranges, fan_out, split_ranges
        from kifu.recipes.example_jobs import KEYS, DivideExamples, EncodeSorted, SortedRange

        executor, folder = self.plan.executor, self.plan.executor.spill_dir()
        max_rows = max(WINDOW_BYTES // self.layout.packed_bytes, 1)
        divide, files = DivideExamples(self.recipe, self.plan.set, folder, fan_out(expected, max_rows)), []
        with self._progress("drawing", expected) as bar:
            for divided in executor.run(divide, self.plan.shards):
                self.counts.add_dropped(divided.drops, divided.elsewhere)
                if divided.file is not None:
                    files.append(divided.file)
                    bar.advance(int(divided.file.rows.sum()))
        ranges = split_ranges(executor, folder, collect_ranges(files, divide.bits), KEYS, max_rows)
        starts = accumulate((each.rows for each in ranges), initial=0)
        job = EncodeSorted(self.recipe, self.plan.set, folder)
        return executor.run(job, [SortedRange(start, each) for start, each in zip(starts, ranges)])

    def _progress(self, doing: str, expected: int) -> AbstractContextManager[Progress]:
        return self.plan.progress(f"{doing} {self.plan.path.name}", expected, "examples")
