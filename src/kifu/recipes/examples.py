"""From games to data sets of examples: any plane set and labels, any format, as the corpus has them or shuffled.

Each set is one pass over the catalogue, some games at a time, in order. Shuffled examples are sorted by a hash of seed,
game and ply: a window of that order at a time, for which all games are replayed once more, since to play moves takes a
tenth of the time that planes take, and nothing has to be put by.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.datasets.examples import Batch, Layout, join
from kifu.datasets.formats import open_writer
from kifu.datasets.manifest import ExamplesManifest
from kifu.datasets.writer import Writer
from kifu.parallel import THREADS
from kifu.progress import Bar, OpenBar, silent
from kifu.recipes.example_jobs import CountExamples, PickExamples, WriteExamples
from kifu.recipes.schema import ExampleSets
from kifu.recipes.sets import BuiltExamples, SetPlan, Tally, build_sets

WINDOW_BYTES = 128 << 20
"""Packed planes that are sorted at one go."""

_PIECE = 4096
"""Sorted rows that are made ready to be written at one go."""


def build_examples(
    recipe: ExampleSets,
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    into: str | os.PathLike[str],
    *,
    sets: Sequence[str] | None = None,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: OpenBar = silent,
) -> list[BuiltExamples]:
    """Makes the data sets of a recipe, each with its manifest, and returns them in the order of `sets`.

    sources: what `ingest` reads, catalogues among it. Catalogues alone are taken as they are, if the recipe has no
    rules of cleaning or they were made by these; else all is read into a new one, CATALOGUE in the folder. sets: by
    default those of the recipe. jobs, engine: see `kifu.parallel.open_crew`; the bytes are the same for any. A data set
    that is there already, made by this version from the same recipe and sources, stays as it is. Each is complete or
    not there at all, whatever interrupts. Memory is that of `ingest`, and then some chunks for each thread; where
    examples are shuffled, three times 128 MiB.
    Raises RecipeError, SourceError, FormatError, OutputError or ClusterError.
    """

    def make(plan: SetPlan) -> ExamplesManifest:
        return _Build(recipe, plan).make()

    return build_sets(recipe, recipe.example_format.suffix, make, sources, Path(into), sets, jobs, engine, progress)


@dataclass
class _Build:
    """One data set in the making."""

    recipe: ExampleSets
    plan: SetPlan
    tally: Tally = field(default_factory=Tally)

    @cached_property
    def layout(self) -> Layout:
        return self.recipe.layout()

    def make(self) -> ExamplesManifest:
        """Writes the data set."""
        recipe, plan = self.recipe, self.plan
        expected = sum(plan.crew.run(CountExamples(recipe, plan.set), plan.units))
        about = {"recipe": recipe.name, "title": recipe.title, "set": plan.set}
        with (
            plan.progress(f"building {plan.path.name}", expected, "examples") as bar,
            open_writer(recipe.format, plan.path, self.layout, expected) as writer,
        ):
            if recipe.order == "shuffled":
                self._write_shuffled(writer, expected, bar)
            else:
                self._write_in_order(writer, bar)
            written = writer.commit(about)
        return self.tally.manifest(plan, written, recipe, recipe.example_format.name, self.layout.plane_set)

    def _write_in_order(self, writer: Writer, bar: Bar) -> None:
        job = WriteExamples(self.recipe, self.plan.set)
        for given in self.plan.catalogues:
            for made in self.plan.crew.run(job, given.units):
                writer.append(made.content)
                self.tally.set_aside(made.why, made.elsewhere)
                self.tally.add(made.member, made.rows, made.plies)
                bar.advance(len(made.plies))
            self.tally.end(given)

    def _write_shuffled(self, writer: Writer, expected: int, bar: Bar) -> None:
        windows = -(-expected * self.layout.stored_bytes // WINDOW_BYTES) or 1
        for k in range(windows):
            whole, order = self._window(2**64 * k // windows, 2**64 * (k + 1) // windows)
            pieces = (order[at : at + _PIECE] for at in range(0, len(order), _PIECE))
            for prepared in self.plan.crew.map(partial(_prepare, writer, whole), pieces):
                writer.append(prepared)
            bar.advance(len(order))
        for given in self.plan.catalogues:
            self.tally.end(given)

    def _window(self, low: int, high: int) -> tuple[Batch, npt.NDArray[np.int64]]:
        """All examples with keys from low to high - 1, as the corpus has them, and their order."""
        parts, keys = [], [np.empty(0, np.uint64)]
        for made in self.plan.crew.run(PickExamples(self.recipe, self.plan.set, low, high), self.plan.units):
            parts.append(made.content)
            keys.append(made.keys)
            if low == 0:
                self.tally.set_aside(made.why, made.elsewhere)
        return join(parts, self.layout), np.argsort(np.concatenate(keys), kind="stable")


def _prepare(writer: Writer, whole: Batch, rows: npt.NDArray[np.int64]) -> Any:
    return writer.prepare(whole.pick(rows), writer.layout)
