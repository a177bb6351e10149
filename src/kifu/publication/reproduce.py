"""Make catalogues and data sets again from their manifests and sources, and compare every hash."""

from __future__ import annotations

import importlib.metadata
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from kifu.config import check_config
from kifu.corpus.catalogue import has_index, open_catalogue
from kifu.corpus.cleaning import check_cleaning_rules
from kifu.corpus.ingest import ingest
from kifu.corpus.parquet import parquet_metadata
from kifu.corpus.sources import Source, find_sources, hash_sources, source_infos
from kifu.corpus.splits import SplitConfig, split
from kifu.datasets.manifest import SUFFIX, AnyManifest, WrittenFile, read_manifest
from kifu.errors import FormatError, SourceError, printable
from kifu.execution.executor import THREADS, make_executor
from kifu.io import hash_file
from kifu.progress import ProgressFactory, silent
from kifu.publication.manifest import MANIFEST, MANIFESTS, MAX_DEPTH, read_publication
from kifu.recipes.olf_archive import MANIFEST as ARCHIVE
from kifu.recipes.olf_archive import read_archive_manifest
from kifu.recipes.pipeline import BuildOptions, build_any
from kifu.recipes.schema import check_recipe
from kifu.records.paths import Paths, as_list, as_path
from kifu.text import Report, counted

_LISTED = 3
"""Number of missing sources that an error names, and of files that a report names."""


_LISTED_NAME = "of the manifest"


class _Product(NamedTuple):
    """A catalogue or data set as its manifest describes it.

    Attributes:
        kifu: The version that made it.
        made_from: Recipe, sources and index, or the metadata of a catalogue without the set.
        set: Its set in the recipe or split; "" without sets.
        name: Of its file or folder; "" for an archive, which has no folder of its own.
        files_at: Returns the files of the one at a path, as `AnyManifest.files_at`.
    """

    kifu: str
    made_from: Mapping[str, Any]
    set: str
    name: str
    files_at: Callable[[Path], list[tuple[Path, Any]]]


@dataclass(frozen=True, slots=True)
class Reproduction(Report):
    """The result of `reproduce`.

    Attributes:
        files: Whether the BLAKE3 of each file equals the listed one, by its path below the folder of the output.
        made_by: The versions of kifu that made the files which the manifests describe.
    """

    files: dict[str, bool]
    made_by: list[str]

    @property
    def equal(self) -> bool:
        """True if all files are equal."""
        return all(self.files.values())

    def __str__(self) -> str:
        files = counted(len(self.files), "file")
        if self.equal:
            return f"equal: {files}"
        differ = [name for name, is_equal in self.files.items() if not is_equal]
        shown = ", ".join(differ[:_LISTED]) + (", ..." if len(differ) > _LISTED else "")
        present = importlib.metadata.version("kifu")
        versions = f"; made by kifu {', '.join(self.made_by)}, not {present}" if self.made_by != [present] else ""
        return printable(f"{len(differ):,} of {files} differ: {shown}{versions}")


def reproduce(
    manifest: str | os.PathLike[str],
    sources: Paths,
    output: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> Reproduction:
    """Make what a manifest describes again, and compare the BLAKE3 of every file.

    Sources are found by hash, under any names. A catalogue among them that is not found is made of its own sources.

    Args:
        manifest: A manifest, a data set or an archive of OLF files with one, a catalogue that `ingest` or `split`
            wrote, a folder of these, or a published folder.
        sources: Files, and folders to look for the sources in.
        output: The folder to write to.
        overwrite: Replace other data sets there (`kifu.io.keep_output`).
        jobs: See `kifu.execution.executor.make_executor`, also for `engine`.

    Raises:
        FormatError: There is no manifest, or it is damaged.
        SourceError: Sources are missing, which the message names with their hashes.
        RecipeError: This version does not support the recipe.
    """
    products, output = list(_products(Path(manifest))), Path(output)
    if not products:
        raise FormatError(f"{manifest} has no manifests and no catalogues")
    groups: dict[str, list[_Product]] = {}
    for product in products:
        groups.setdefault(json.dumps(product.made_from), []).append(product)
    with make_executor(engine, jobs) as executor, tempfile.TemporaryDirectory(prefix="kifu-") as work:
        hashed = hash_sources(_find(sources), executor)
        found = {each.info["blake3"]: each for each in reversed(hashed) if "blake3" in each.info}
        rebuild = _Rebuild(found, Path(work), BuildOptions(executor, progress, overwrite=overwrite))
        rebuild.require_sources(products)
        for group in groups.values():
            rebuild.make(group[0].made_from, [each.set for each in group], output / group[0].name)
    files = dict(file for product in products for file in product.files_at(output / product.name))
    equal = {
        path.relative_to(output).as_posix(): path.is_file() and hash_file(path) == file.blake3
        for path, file in files.items()
    }
    return Reproduction(equal, sorted({product.kifu for product in products}))


def _find(sources: Paths) -> Iterator[Source]:
    """Yield the sources, and the catalogues in folders among them. Raises SourceError."""
    for path in map(as_path, as_list(sources)):
        is_folder = isinstance(path, Path) and path.is_dir() and not has_index(path)
        files = sorted(Path(path).rglob("*.parquet")) if is_folder else []
        for file in files:
            with suppress(FormatError):
                yield from find_sources(file)
        with suppress(SourceError) if files else nullcontext():  # a folder without records
            yield from find_sources(path)


def _products(path: Path) -> Iterator[_Product]:
    """Yield what a path describes. Raises FormatError."""
    data_set = path.with_name(path.name.removesuffix(SUFFIX))
    if path.name == ARCHIVE or (path / ARCHIVE).is_file():
        yield _described(read_archive_manifest(path if path.is_dir() else path.parent), path)
    elif (path / MANIFEST).is_file():
        for each in read_publication(path).splits:
            manifest = read_manifest(path / MANIFESTS / each.name)
            if not manifest and len(each.files) > 1:
                raise FormatError(f"{path}: the partitioned catalogue {each.name} cannot be made again")
            yield _described(manifest, path) if manifest else _catalogue(path / each.files[0].path)
    elif manifest := read_manifest(data_set):
        yield _described(manifest, path)
    elif path.is_dir() and not has_index(path):
        for file in sorted(path.glob(f"*{SUFFIX}")) or sorted(path.glob("*.parquet")):
            yield from _products(file)
    else:
        yield _catalogue(path)


def _described(manifest: AnyManifest | None, path: Path) -> _Product:
    if manifest is None:
        raise FormatError(f"{path} is not a manifest, or damaged")
    made_from = {name: getattr(manifest, name, None) or None for name in ("recipe", "sources", "index")}
    own_name, set = (getattr(manifest, name, "") for name in ("file", "set"))
    return _Product(manifest.kifu, made_from, set, own_name, manifest.files_at)


def _catalogue(path: Path) -> _Product:
    catalogue = open_catalogue(path)
    made_from = {name: value for name, value in catalogue.metadata.items() if name != "set"}
    if catalogue.index is not None or not _lists_origin(made_from):
        raise FormatError(f"{path} cannot be made again: only files that kifu ingest, split or build wrote can")
    kifu = parquet_metadata(path).get(b"kifu.version", b"").decode("utf-8", "replace")
    file = WrittenFile(path.name, 0, catalogue.digest())
    return _Product(kifu, made_from, str(catalogue.metadata.get("set", "")), path.name, lambda path: [(path, file)])


def _lists_origin(about: Mapping[str, Any]) -> bool:
    """Return True if the metadata are those of a catalogue that `ingest` or `split` made."""
    return {"clean", "sources"} <= {*about} or {"split", "of"} <= {*about}


@dataclass(frozen=True)
class _Rebuild:
    """Makes catalogues and data sets of sources.

    Attributes:
        found: The sources, by BLAKE3; catalogues that were made of others are added.
        work: The folder for these catalogues.
    """

    found: dict[str, Source]
    work: Path
    options: BuildOptions

    def require_sources(self, products: Iterable[_Product]) -> None:
        """Raise SourceError if sources are missing."""
        missing = [*dict.fromkeys(name for product in products for name in self._missing(product.made_from))]
        if missing:
            shown = ", ".join(missing[:_LISTED]) + (", ..." if len(missing) > _LISTED else "")
            raise SourceError(printable(f"{counted(len(missing), 'source')} missing: {shown}"))

    def _missing(self, made_from: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
        for info in source_infos(made_from):
            about = info.get("about")
            if str(info.get("blake3")) in self.found:
                continue
            if isinstance(about, dict) and _lists_origin(about) and depth < MAX_DEPTH:
                yield from self._missing(about, depth + 1)
            else:
                yield f"{info.get('name', 'a catalogue')} (BLAKE3 {info.get('blake3')})"

    def make(self, made_from: Mapping[str, Any], sets: Iterable[str], path: Path) -> None:
        """Make a catalogue or archive, or the sets of a recipe or split, one of which has this path."""
        sources, options = [self._source(info) for info in source_infos(made_from)], self.options
        if "recipe" in made_from:
            chosen, recipe = [*filter(None, sets)] or None, check_recipe(made_from["recipe"], _LISTED_NAME)
            output = path.parent if chosen else path
            build_any(recipe, sources, output, options._replace(sets=chosen, index_page=made_from["index"]))
        elif "split" in made_from:
            by = check_config(SplitConfig, made_from["split"], "split", _LISTED_NAME)
            paths = [str(each.path) for each in sources]
            split(paths, path.parent, by=by, overwrite=options.overwrite, progress=options.progress)
        else:
            clean, jobs = check_cleaning_rules(made_from["clean"], _LISTED_NAME), options.executor
            ingest(sources, path, clean=clean, overwrite=options.overwrite, jobs=jobs, progress=options.progress)

    def _source(self, info: Mapping[str, Any]) -> Source:
        """Return a source under its listed name; a catalogue is made if it was not found."""
        key, listed = str(info.get("blake3")), {"name": str(info["name"])} if "name" in info else {}
        if key not in self.found:
            about = info["about"]
            path = self.work / str(len(self.found)) / f"{about.get('set', 'games')}.parquet"
            self.make({name: value for name, value in about.items() if name != "set"}, (), path)
            (self.found[key],) = hash_sources(find_sources(path), self.options.executor)
        found = self.found[key]
        return replace(found, name=listed.get("name", found.name), info=found.info | listed)
