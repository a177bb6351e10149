"""What all builds of examples have in common: their sources, what is there already, and the manifests."""

from __future__ import annotations

import importlib.metadata
import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kifu.atomic_io import locked_folder, remove_file, staging_dir
from kifu.corpus.catalogue import Catalogue, RowShard, open_catalogue, read_shard
from kifu.corpus.cleaning import CleaningRules, load_cleaning_rules
from kifu.corpus.ingest import ingest
from kifu.corpus.sources import Source, find_sources, hash_sources
from kifu.corpus.splits import ListSplit
from kifu.datasets.manifest import (
    ArchiveRows,
    ArchiveRowsBuilder,
    ExamplesManifest,
    manifest_path,
    read_examples_manifest,
)
from kifu.datasets.writer import WriteReport
from kifu.errors import FormatError, RecipeError
from kifu.execution.executor import Executor, Item, Job, R, Shard, make_executor
from kifu.progress import ProgressFactory, format_bytes
from kifu.recipes.schema import SplitRecipe

CATALOGUE = "games.parquet"
"""The catalogue of the games that were read, where the sources are none that could be taken as they are."""


@dataclass(frozen=True, slots=True)
class ExamplesReport:
    """A finished data set. fresh: False if an earlier run had made it from the same recipe and sources."""

    path: Path
    manifest: ExamplesManifest
    fresh: bool

    def __str__(self) -> str:
        m = self.manifest
        drops = "".join(f" + {count:,} {name.lower().replace('_', ' ')}" for name, count in m.drops.items())
        others = f" + {m.elsewhere:,} elsewhere" if m.elsewhere else ""
        size = format_bytes(sum(file.bytes for file in m.files))
        state = "" if self.fresh else " (was there already)"
        return f"{self.path}: {m.examples:,} examples, {size}; {m.read:,} games = {m.kept:,} kept{others}{drops}{state}"


class ManifestCounts:
    """What became of the games of one set, as its chunks are written in order: the part of a manifest that counts."""

    def __init__(self) -> None:
        self._why: Counter[str] = Counter()
        self._elsewhere = 0
        self._origins: list[ArchiveRows] = []
        self._noted = ArchiveRowsBuilder()

    def set_aside(self, why: Counter[str], elsewhere: int) -> None:
        """Counts games that gave no examples: by reason; and those of other sets, or of none."""
        self._why += why
        self._elsewhere += elsewhere

    def add(self, member: npt.NDArray[np.int32], rows: npt.NDArray[np.int32], plies: npt.NDArray[np.uint16]) -> None:
        """Notes which rows [K] of the catalogue gave examples, how many each, and the plies of all of them."""
        self._noted.add(member, rows, plies)

    def end(self, of: CatalogueInput) -> None:
        """Ends a catalogue."""
        self._origins.append(self._noted.build(of.catalogue.path.name, of.digest))
        self._noted = ArchiveRowsBuilder()

    def manifest(
        self, plan: SetPlan, written: WriteReport, recipe: SplitRecipe, format: str, plane_set: str
    ) -> ExamplesManifest:
        """The manifest of the set, all of whose catalogues have ended."""
        return ExamplesManifest(
            kifu=importlib.metadata.version("kifu"),
            file=plan.path.name,
            format=format,
            plane_set=plane_set,
            recipe=recipe.model_dump(mode="json"),
            set=plan.set,
            examples=written.examples,
            files=list(written.files),
            read=plan.games,
            kept=plan.games - self._elsewhere - self._why.total(),
            elsewhere=self._elsewhere,
            drops=dict(sorted(self._why.items())),
            sources=plan.sources,
            catalogues=self._origins,
        )


class SetUnit(NamedTuple):
    """Some rows of a catalogue as a unit of work. digest: of the catalogue. first: the number of the first of them."""

    digest: str
    first: int
    rows: RowShard

    def fingerprint(self) -> list[Any]:
        """What tells it from others, as JSON values."""
        return [self.digest, self.first, self.rows.rows]


class CatalogueInput(NamedTuple):
    """A catalogue that sets are made from. digest: see `Catalogue.digest`."""

    catalogue: Catalogue
    digest: str
    units: list[SetUnit]

    @classmethod
    def of(cls, catalogue: Catalogue) -> CatalogueInput:
        """Raises FormatError."""
        digest, units, first = catalogue.digest(), [], 0
        for rows in catalogue.shards():
            units.append(SetUnit(digest, first, rows))
            first += rows.rows
        return cls(catalogue, digest, units)


class RowSlice(NamedTuple):
    """Some rows of a catalogue. first: the number of the first of them."""

    first: int
    batch: pa.RecordBatch


def row_slices(unit: SetUnit, columns: Iterable[str], rows: int) -> Iterator[RowSlice]:
    """All rows of a unit, `rows` at a time, with these columns, of which some may be named twice."""
    first = unit.first
    for batch in read_shard(unit.rows, list(dict.fromkeys(columns)), rows):
        yield RowSlice(first, batch)
        first += len(batch)


@dataclass(frozen=True)
class SetJob(Job[Shard, Item, R]):
    """Work for one set of a recipe."""

    recipe: SplitRecipe
    set: str

    def fingerprint(self) -> Any:
        split = None if self.recipe.split is None else self.recipe.split.told()
        return [self.recipe.model_dump(mode="json"), split, self.set]

    def ours(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """[G] which of these rows are of the set; they have the columns of its split."""
        split = self.recipe.split
        if split is None:
            return np.ones(len(batch), bool)
        of_set: npt.NDArray[np.bool_] = split.codes(batch) == list(split.sets).index(self.set)
        return of_set

    def __reduce__(self) -> tuple[Any, ...]:
        """What was made on the way, like desks and encoders, does not travel."""
        return type(self), tuple(getattr(self, each.name) for each in fields(self))


@dataclass(frozen=True)
class CatalogueRowsJob(SetJob[SetUnit, RowSlice, R]):
    """Work on the rows of catalogues, some at a time."""

    columns: ClassVar[Iterable[str]]
    """Of the catalogue, besides those of the split; some may be named twice."""

    @property
    @abstractmethod
    def games(self) -> int:
        """How many rows are looked at at one go."""

    def shard_fingerprint(self, shard: SetUnit) -> Any:
        return shard.fingerprint()

    def read(self, shard: SetUnit) -> Iterator[RowSlice]:
        split = self.recipe.split
        return row_slices(shard, (*self.columns, *(split.columns if split else ())), self.games)


class SetPlan(NamedTuple):
    """One data set to be made. sources: as a manifest tells of them."""

    set: str
    path: Path
    catalogues: list[CatalogueInput]
    sources: list[dict[str, Any]]
    executor: Executor
    progress: ProgressFactory

    @property
    def games(self) -> int:
        """How many there are, of whatever set."""
        return sum(len(given.catalogue) for given in self.catalogues)

    @property
    def units(self) -> list[SetUnit]:
        """Of all catalogues."""
        return [unit for given in self.catalogues for unit in given.units]


def build_sets(
    recipe: SplitRecipe,
    suffix: str,
    make: Callable[[SetPlan], ExamplesManifest],
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    into: Path,
    sets: Sequence[str] | None,
    jobs: int | None,
    engine: str,
    progress: ProgressFactory,
) -> list[ExamplesReport]:
    """Makes the data sets that are not there yet, into/SET + suffix, each by `make`, and writes their manifests.

    For the rest see `kifu.recipes.examples.build_examples`.
    """
    names = recipe.default_sets() if sets is None else list(sets)
    for name in names:
        try:
            recipe.require_set(name)
        except ValueError as error:
            raise RecipeError(f"recipe {recipe.name}: {error}") from None
    if not names:
        return []
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    found = find_sources(given)
    paths = {name: into / f"{name}{suffix}" for name in names}
    with ExitStack() as held:
        executor = held.enter_context(make_executor(engine, jobs, staging_dir(paths[names[0]])))
        told = hash_sources(found, executor)
        built = {name: _earlier(recipe, name, path, told) for name, path in paths.items()}
        if not all(built.values()):
            opened = _as_they_are(recipe, found)
            if opened is None:
                held.enter_context(locked_folder(into))  # until all sets are made, no other build may replace it
                opened = [_own_catalogue(recipe, given, found, told, into, jobs, engine, progress)]
            catalogues = [CatalogueInput.of(each) for each in opened]
        for name, path in paths.items():
            if built[name] is None:
                remove_file(manifest_path(path))  # so that a manifest never stands beside another's data set
                manifest = make(SetPlan(name, path, catalogues, told, executor, progress))
                manifest.write(manifest_path(path))
                built[name] = ExamplesReport(path, manifest, True)
    return [each for each in built.values() if each]


def _earlier(recipe: SplitRecipe, name: str, path: Path, sources: list[dict[str, Any]]) -> ExamplesReport | None:
    """The data set, if it is what this run would make again. Neither folders of records nor lists have a hash."""
    try:
        manifest = read_examples_manifest(path)
    except FormatError:
        return None
    if (
        manifest is None
        or manifest.kifu != importlib.metadata.version("kifu")
        or (manifest.recipe, manifest.set, manifest.sources) != (recipe.model_dump(mode="json"), name, sources)
        or not all("blake3" in source for source in sources)
        or isinstance(recipe.split, ListSplit)
    ):
        return None
    for file in manifest.files:
        where = path / file.file if path.is_dir() else path
        if not where.is_file() or where.stat().st_size != file.bytes:
            return None
    return ExamplesReport(path, manifest, False)


def _as_they_are(recipe: SplitRecipe, found: list[Source]) -> list[Catalogue] | None:
    """The sources, if they are catalogues that were made by the recipe's rules, or if it has none."""
    rules = None if recipe.clean is None else recipe.clean.model_dump(mode="json")
    catalogues = [source.catalogue for source in found if source.catalogue is not None]
    fit = len(catalogues) == len(found) and all(rules in (None, each.metadata.get("clean")) for each in catalogues)
    return catalogues if fit else None


def _own_catalogue(
    recipe: SplitRecipe,
    given: list[str | os.PathLike[str]],
    found: list[Source],
    told: list[dict[str, Any]],
    into: Path,
    jobs: int | None,
    engine: str,
    progress: ProgressFactory,
) -> Catalogue:
    """The catalogue of all that the sources have, read unless an earlier run did."""
    path = into / CATALOGUE
    if any(isinstance(source.path, Path) and source.path.resolve() == path.resolve() for source in found):
        raise RecipeError(f"{path} is a source, and is where the games that are read go; choose another folder")
    clean = recipe.clean or load_cleaning_rules("legal")
    if not was_ingested(path, told, clean):
        ingest(given, path, clean=clean, jobs=jobs, engine=engine, progress=progress)
    return open_catalogue(path)


def was_ingested(path: Path, sources: list[dict[str, Any]], clean: CleaningRules) -> bool:
    """Whether a run that was interrupted later has left the catalogue that `ingest` would make again.

    sources: what `describe_sources` says. A folder of loose records has no hash that tells.
    """
    try:
        about = open_catalogue(path).metadata
        version = (pq.read_metadata(path).metadata or {}).get(b"kifu.version", b"").decode("ascii", "replace")
    except (FormatError, OSError, pa.ArrowException):
        return False
    return (
        version == importlib.metadata.version("kifu")
        and (about.get("clean"), about.get("sources")) == (clean.model_dump(mode="json"), sources)
        and all("blake3" in source for source in sources)
    )
