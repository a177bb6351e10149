"""What all builds of examples have in common: their sources, what is there already, and the manifests."""

from __future__ import annotations

import importlib.metadata
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.catalogue import Catalogue, open_catalogue
from kifu.corpus.ingest import Source, find_sources, ingest
from kifu.corpus.splits import ListSplit
from kifu.datasets.examples import Written
from kifu.datasets.manifest import ArchiveRows, ExamplesManifest, manifest_path, read_examples_manifest
from kifu.errors import FormatError, RecipeError
from kifu.output import hash_file, remove_file
from kifu.parallel import Crew
from kifu.progress import OpenBar, format_bytes
from kifu.recipes.divided import Divided

CATALOGUE = "games.parquet"
"""The catalogue of the games that were read, where the sources are none that could be taken as they are."""


@dataclass(frozen=True, slots=True)
class BuiltExamples:
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


class Tally:
    """What became of the games of one set, as its chunks are written in order: the part of a manifest that counts."""

    def __init__(self) -> None:
        self._why: Counter[str] = Counter()
        self._elsewhere = 0
        self._origins: list[ArchiveRows] = []
        self._begin()

    def _begin(self) -> None:
        self._member, self._rows, self._plies = (
            [np.empty(0, np.int32)],
            [np.empty(0, np.int32)],
            [np.empty(0, np.uint16)],
        )

    def set_aside(self, why: Counter[str], elsewhere: int) -> None:
        """Counts games that gave no examples: by reason; and those of other sets, or of none."""
        self._why += why
        self._elsewhere += elsewhere

    def add(self, member: npt.NDArray[np.int32], rows: npt.NDArray[np.int32], plies: npt.NDArray[np.uint16]) -> None:
        """Notes which rows [K] of the catalogue gave examples, how many each, and the plies of all of them."""
        self._member.append(member)
        self._rows.append(rows)
        self._plies.append(plies)

    def end(self, catalogue: Catalogue) -> None:
        """Ends a catalogue."""
        told = np.concatenate(self._member), np.concatenate(self._rows), np.concatenate(self._plies)
        self._origins.append(ArchiveRows.of(catalogue.path.name, hash_file(catalogue.path), *told))
        self._begin()

    def manifest(self, job: SetJob, written: Written, recipe: Divided, format: str, plane_set: str) -> ExamplesManifest:
        """The manifest of the set, all of whose catalogues have ended."""
        read = sum(len(catalogue) for catalogue in job.catalogues)
        return ExamplesManifest(
            kifu=importlib.metadata.version("kifu"),
            file=job.path.name,
            format=format,
            plane_set=plane_set,
            recipe=recipe.model_dump(mode="json"),
            set=job.set,
            examples=written.examples,
            files=list(written.files),
            read=read,
            kept=read - self._elsewhere - self._why.total(),
            elsewhere=self._elsewhere,
            drops=dict(sorted(self._why.items())),
            sources=job.sources,
            catalogues=self._origins,
        )


class Some(NamedTuple):
    """Some rows of a catalogue. first: the number of the first of them."""

    first: int
    batch: pa.RecordBatch


def some_rows(catalogue: Catalogue, columns: Iterable[str], rows: int) -> Iterator[Some]:
    """All rows of a catalogue, `rows` at a time, with these columns, of which some may be named twice."""
    first = 0
    for batch in catalogue.batches(list(dict.fromkeys(columns)), size=rows):
        yield Some(first, batch)
        first += len(batch)


class SetJob(NamedTuple):
    """One data set to be made. sources: as a manifest tells of them."""

    set: str
    path: Path
    catalogues: list[Catalogue]
    sources: list[dict[str, Any]]
    crew: Crew
    progress: OpenBar


def build_sets(
    recipe: Divided,
    suffix: str,
    make: Callable[[SetJob], ExamplesManifest],
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    into: Path,
    sets: Sequence[str] | None,
    jobs: int | None,
    progress: OpenBar,
) -> list[BuiltExamples]:
    """Makes the data sets that are not there yet, into/SET + suffix, each by `make`, and writes their manifests.

    For the rest see `kifu.recipes.examples.build_examples`.
    """
    names = recipe.default_sets() if sets is None else list(sets)
    for name in names:
        try:
            recipe.require_set(name)
        except ValueError as error:
            raise RecipeError(f"recipe {recipe.name}: {error}") from None
    found = find_sources(sources)
    told = [source.about() for source in found]
    paths = {name: into / f"{name}{suffix}" for name in names}
    built = {name: _earlier(recipe, name, path, told) for name, path in paths.items()}
    if all(built.values()):
        return [each for each in built.values() if each]
    catalogues = _catalogues(recipe, found, into, jobs, progress)
    with Crew(jobs) as crew:
        for name, path in paths.items():
            if built[name] is None:
                remove_file(manifest_path(path))  # so that a manifest never stands beside another's data set
                manifest = make(SetJob(name, path, catalogues, told, crew, progress))
                manifest.write(manifest_path(path))
                built[name] = BuiltExamples(path, manifest, True)
    return [each for each in built.values() if each]


def _earlier(recipe: Divided, name: str, path: Path, sources: list[dict[str, Any]]) -> BuiltExamples | None:
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
    return BuiltExamples(path, manifest, False)


def _catalogues(
    recipe: Divided, found: list[Source], into: Path, jobs: int | None, progress: OpenBar
) -> list[Catalogue]:
    rules = None if recipe.clean is None else recipe.clean.model_dump(mode="json")
    catalogues = [source.catalogue for source in found if source.catalogue is not None]
    if len(catalogues) == len(found) and all(rules in (None, each.about.get("clean")) for each in catalogues):
        return catalogues
    path = into / CATALOGUE
    if any(source.path.resolve() == path.resolve() for source in found):
        raise RecipeError(f"{path} is a source, and is where the games that are read go; choose another folder")
    ingest([source.path for source in found], path, clean=recipe.clean, jobs=jobs, progress=progress)
    return [open_catalogue(path)]
