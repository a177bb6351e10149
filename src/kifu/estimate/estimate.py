"""What a run will take before it is begun: games, positions, time, memory and disk, from a sample of its inputs.

What there is and how fast it goes is measured on the sample, by the code that will do the work; memory is reckoned, see
`kifu.estimate.memory`.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np
import numpy.typing as npt

from kifu.corpus.cleaning import CleaningRules, load_cleaning_rules
from kifu.corpus.sources import Source, find_sources
from kifu.errors import RecipeError
from kifu.estimate.building import BuildRecipe, build_sample, moves_by_set
from kifu.estimate.kgs import build_drawn, reads_of
from kifu.estimate.memory import memory_of_build, memory_of_drawing, memory_of_ingest
from kifu.estimate.reading import SampleCounts, SampleReader, Speed, copy_rows, size_of
from kifu.estimate.sample import draw, standard_error
from kifu.estimate.told import Estimate, EstimateStep, Range, SetSize
from kifu.execution.executor import count_jobs
from kifu.recipes.examples import WINDOW_BYTES
from kifu.recipes.kgs_index import find_archives, read_index
from kifu.recipes.sampling import Sampler
from kifu.recipes.schema import ExamplesRecipe, KgsgoRecipe, OlfArchiveRecipe
from kifu.recipes.training import TrainingRecipe
from kifu.records.sample import estimated_size
from kifu.records.tygem import load_index

ROOM = 6 << 20
"""Bytes of the sources that are looked at: some 15,000 games."""

_SPEED_ERROR = 0.125
"""The standard error of a speed that was measured for a second, as a share: other work, and what was in caches."""

_OTHER_BYTES = 1024
"""Of a row of KataGo's, or a line of OLF, about, on the way to the file."""


def estimate(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    recipe: BuildRecipe | KgsgoRecipe | TrainingRecipe | None = None,
    *,
    clean: CleaningRules | None = None,
    jobs: int | None = None,
    room: int = ROOM,
) -> Estimate:
    """Foresees what `ingest` of the sources, or a build of a recipe from them, takes with so many threads.

    sources: as `ingest`, or the build, takes them. clean: of `ingest`, by default the rules "legal"; a recipe has its
    own. jobs: by default one for each core. room: how many bytes of the sources are looked at, about.
    What cannot be foreseen: how many games are copies of others, and a disk that is slower than the memory before it.
    Raises RecipeError, SourceError, FormatError or OutputError.
    """
    began = perf_counter()
    if isinstance(recipe, TrainingRecipe):
        raise RecipeError(f"recipe {recipe.name} makes no data sets, but a net: there is no plan of that")
    if recipe is not None and clean is not None:
        raise RecipeError(f"recipe {recipe.name} says itself which games are set aside: it takes no other rules")
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    executor = _Threads(count_jobs(jobs), min(count_jobs(jobs), count_jobs(None)))
    with tempfile.TemporaryDirectory(prefix="kifu-plan-") as folder:
        if isinstance(recipe, KgsgoRecipe):
            told = _drawn(recipe, given, executor, room, Path(folder))
        else:
            told = _Plan(recipe, clean, find_sources(given), executor, room, Path(folder)).told()
    return replace(told, seconds=perf_counter() - began)


@dataclass(frozen=True, slots=True)
class _Threads:
    """jobs: how many there will be. several: as many of them as this machine has cores for."""

    jobs: int
    several: int

    def seconds(self, speed: Speed, error: float) -> Range:
        """What some work takes them. error: the standard error of how much work it is, as a share."""
        error = math.hypot(error, _SPEED_ERROR)
        value = max(speed.several * self.several / self.jobs, speed.alone)
        # Cores that are not here may do as much as one thread does alone, or less, as those that are here.
        low = value if self.jobs == self.several else max(speed.one / self.jobs, speed.alone)
        return Range(value, min(low, value) * max(1 - 2 * error, 0.0), value * (1 + 2 * error))


class _Plan:
    """Of `ingest`, and of recipes that start from a catalogue."""

    def __init__(
        self,
        recipe: BuildRecipe | None,
        clean: CleaningRules | None,
        found: list[Source],
        executor: _Threads,
        room: int,
        folder: Path,
    ) -> None:
        self._recipe, self._crew, self._folder = recipe, executor, folder
        self._clean = clean or (recipe and recipe.clean) or load_cleaning_rules("legal")
        self._found = found
        self._parts = draw(found, room)
        self._catalogue = folder / "sample.parquet"
        self._begin = 0.0

    def told(self) -> Estimate:
        if self._takes_catalogues():
            rules = self._clean.model_dump(mode="json")
            counted, steps = copy_rows(self._parts, self._catalogue, {"clean": rules}), []
        else:
            counted, step = self._ingest()
            steps = [step]
        games, kept, moves = (self._total(each) for each in (counted.games, counted.kept, counted.moves))
        sets: list[SetSize] = []
        if self._recipe is not None:
            step, sets = self._build(self._recipe, counted, games.value)
            steps.append(step)
        return Estimate(
            sources=len(self._found),
            bytes=sum(map(_size, self._found)),
            jobs=self._crew.jobs,
            cores=count_jobs(None),
            games=games,
            kept=kept,
            positions=moves,
            steps=tuple(steps),
            sets=tuple(sets),
            begin=self._begin,
            looked_at=int(counted.games.sum()),
            seconds=0.0,
        )

    def _takes_catalogues(self) -> bool:
        """Whether the recipe takes the games as the catalogues have them."""
        recipe = self._recipe
        if (
            recipe is None
            or isinstance(recipe, OlfArchiveRecipe)
            or not all(source.catalogue for source in self._found)
        ):
            return False
        rules = None if recipe.clean is None else recipe.clean.model_dump(mode="json")
        return all(
            rules in (None, source.catalogue.metadata.get("clean")) for source in self._found if source.catalogue
        )

    def _total(self, counts: npt.NDArray[np.float64]) -> Range:
        """What the counts of the parts stand for."""
        total = float(sum(part.weight * count for part, count in zip(self._parts, counts)))
        return Range.of(total, standard_error(self._parts, counts))

    def _ingest(self) -> tuple[SampleCounts, EstimateStep]:
        began = perf_counter()
        index = load_index([source.path for source in self._found if source.catalogue is None])
        reading = sum(part.seconds for part in self._parts) + perf_counter() - began
        reader = SampleReader(self._parts, self._clean, index)
        first, second = (reader.write(self._catalogue, 1, most=1)[1] for _ in range(2))
        self._begin += max(first - second, 0.0)
        counted, one, making = min((reader.write(self._catalogue, 1) for _ in range(2)), key=lambda told: told[1])
        several = self._crew.several
        more = one if several == 1 else reader.write(self._catalogue, several)[1]
        games = self._total(counted.games)
        factor = games.value / max(float(counted.games.sum()), 1.0)
        speed = Speed.of(one, more, several, one - making).times(factor)
        speed = speed.plus(Speed.of(reading, reading * more / one, several, reading))
        size = size_of(self._catalogue, games.value)
        meanwhile = round(size) if self._clean.duplicates == "games" else 0
        error = standard_error(self._parts, counted.games)
        memory = memory_of_ingest(self._crew.jobs, games.value, self._clean)
        seconds = self._crew.seconds(speed, error)
        return counted, EstimateStep("ingest", seconds, memory, Range.of(size, error), meanwhile)

    def _build(self, recipe: BuildRecipe, counted: SampleCounts, games: float) -> tuple[EstimateStep, list[SetSize]]:
        built = build_sample(recipe, self._catalogue, self._folder, self._crew.several)
        self._begin += built.begin
        error = standard_error(self._parts, counted.moves)
        weight = np.array([part.weight for part in self._parts])[counted.part]
        found = moves_by_set(recipe, self._catalogue, weight)
        sizes = []
        for name, (_, moves) in found.items():
            examples = moves * built.examples / max(built.moves, 1)
            size = examples * built.bytes / max(built.examples, 1)
            sizes.append(SetSize(name, Range.of(examples, error), Range.of(size, error)))
        shuffled = isinstance(recipe, ExamplesRecipe) and recipe.order == "shuffled"
        waiting = [each.examples.value for each in sizes if each.examples.value * _packed(recipe) > WINDOW_BYTES]
        sorting = sum(waiting) * built.sorting
        speed = built.speed.times(games / max(built.rows, 1)).plus(Speed(sorting, sorting, sorting))
        expansion = built.bytes / max(built.examples, 1) / _packed(recipe)
        largest = max(number for number, _ in found.values())
        memory = memory_of_build(self._crew.jobs, largest, expansion, shuffled)
        disk = Range.of(sum(size.bytes.value for size in sizes), error)
        meanwhile = round(max(waiting, default=0.0) * built.aside)
        return EstimateStep(f"build {recipe.name}", self._crew.seconds(speed, error), memory, disk, meanwhile), sizes


def _size(source: Source) -> int:
    """In bytes."""
    if source.catalogue is not None:
        return source.catalogue.file_bytes()
    return estimated_size(source.path)


def _packed(recipe: BuildRecipe) -> int:
    """Bytes that an example's planes take before they are written."""
    return recipe.layout().packed_bytes if isinstance(recipe, ExamplesRecipe) else _OTHER_BYTES


def _drawn(
    recipe: KgsgoRecipe, given: list[str | os.PathLike[str]], executor: _Threads, room: int, folder: Path
) -> Estimate:
    """Of recipes that draw games from archives of KGS, whose names tell how many there are."""
    paths = find_archives(given)
    sampler = Sampler(recipe, read_index(None, paths))
    began = perf_counter()
    chosen = {name: sampler.select(name) for name in recipe.default_sets()}
    drawing = perf_counter() - began
    wanted = {selection.archive for selections in chosen.values() for selection in selections}
    parts = draw([Source(paths[archive], archive.name, None) for archive in paths if archive in wanted], room // 3)
    built = build_drawn(recipe, parts, folder, executor.several)
    sizes, speed, most = [], Speed(drawing, drawing, drawing), 0
    for name, selections in chosen.items():
        games = sum(len(selection.games) for selection in selections)
        loaded = sum(selection.archive.games for selection in selections)
        share = games / max(built.games, 1)
        sizes.append(SetSize(name, *(Range.of(share * each, built.error) for each in (built.examples, built.bytes))))
        reading = built.load.times(reads_of(recipe) * loaded / max(built.games, 1))
        speed = speed.plus(reading).plus(built.make.times(share))
        most = max(most, games)
    games = sum(archive.games for archive in wanted)
    largest = max((archive.games for archive in wanted), default=0) * built.examples / max(built.games, 1)
    disk = Range.of(sum(size.bytes.value for size in sizes), built.error)
    memory = memory_of_drawing(executor.jobs, largest, most)
    return Estimate(
        sources=len(paths),
        bytes=sum(map(estimated_size, paths.values())),
        jobs=executor.jobs,
        cores=count_jobs(None),
        games=Range.of(games, 0.0),
        kept=Range.of(games * built.kept / max(built.games, 1), built.error),
        positions=Range.of(games * built.examples / max(built.games, 1), built.error),
        steps=(EstimateStep(f"build {recipe.name}", executor.seconds(speed, built.error), memory, disk, 0),),
        sets=tuple(sizes),
        begin=built.begin,
        looked_at=built.games,
        seconds=0.0,
    )
