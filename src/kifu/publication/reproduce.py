"""Make catalogues and data sets again from their manifests and sources, and compare every hash."""

from __future__ import annotations

import importlib.metadata
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from kifu.config import parse_listed
from kifu.corpus.catalogue import has_index, open_catalogue
from kifu.corpus.cleaning import CleaningRules
from kifu.corpus.ingest import ingest
from kifu.corpus.parquet import parquet_metadata
from kifu.corpus.sources import Source, find_sources, hash_sources, source_infos
from kifu.corpus.splits import SplitConfig, split
from kifu.datasets.manifest import SUFFIX, Manifest, read_manifest
from kifu.errors import FormatError, SourceError, printable
from kifu.execution.executor import THREADS, make_executor
from kifu.io import hash_file
from kifu.progress import ProgressFactory, silent
from kifu.publication.manifest import MANIFEST, MANIFESTS, MAX_DEPTH, read_publication
from kifu.recipes.olf_archive import MANIFEST as ARCHIVE
from kifu.recipes.olf_archive import read_archive_manifest
from kifu.recipes.pipeline import CATALOGUE, BuildOptions, build_any
from kifu.recipes.schema import parse_recipe
from kifu.records.paths import Paths
from kifu.text import Report, counted

_LISTED = 3
"""Number of missing sources that an error names, and of files that a report names."""


class _Product(NamedTuple):
    """A catalogue or data set as its manifest describes it.

    Attributes:
        kifu: The version that made it.
        made_from: Recipe and sources, or the metadata of a catalogue without the set.
        set: Its set in the recipe or split; "" without sets.
        files: The BLAKE3 of each file in hex, by its path below the folder of the output.
    """

    kifu: str
    made_from: Mapping[str, Any]
    set: str
    files: Mapping[str, str]


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
        hashed = hash_sources(find_sources(sources), executor)
        found = {each.info["blake3"]: each for each in reversed(hashed) if "blake3" in each.info}
        maker = _Maker(found, Path(work), BuildOptions(executor, progress, overwrite=overwrite))
        maker.require_sources(products)
        for group in groups.values():
            maker.make(group[0].made_from, [each.set for each in group], output, next(iter(group[0].files)))
    paths = {name: (output / name, digest) for product in products for name, digest in product.files.items()}
    equal = {name: path.is_file() and hash_file(path) == digest for name, (path, digest) in paths.items()}
    return Reproduction(equal, sorted({product.kifu for product in products}))


def _products(path: Path) -> Iterator[_Product]:
    """Yield what a path describes. Raises FormatError."""
    if path.name == ARCHIVE or (path / ARCHIVE).is_file():
        yield _archive(path if path.is_dir() else path.parent)
    elif (path / MANIFEST).is_file():
        for each in read_publication(path).splits:
            if manifest := read_manifest(path / MANIFESTS / each.name):
                yield _data_set(manifest)
            elif len(each.files) == 1:
                yield _catalogue(path / each.files[0].path)
            else:
                raise FormatError(
                    f"{path}: split {each.name} has {len(each.files)} files, of which it is not made again"
                )
    elif manifest := read_manifest(path.with_name(path.name.removesuffix(SUFFIX))):
        yield _data_set(manifest)
    elif path.is_dir() and not has_index(path):
        for file in sorted(path.glob(f"*{SUFFIX}")) or sorted(path.glob("*.parquet")):
            yield from _products(file)
    else:
        yield _catalogue(path)


def _archive(folder: Path) -> _Product:
    manifest = read_archive_manifest(folder)
    if manifest is None:
        raise FormatError(f"{folder / ARCHIVE} is not a manifest")
    files = {file.file: file.blake3 for file in (*manifest.files, manifest.catalogue)}
    return _Product(manifest.kifu, {"recipe": manifest.recipe, "sources": manifest.sources}, "", files)


def _data_set(manifest: Manifest) -> _Product:
    name = manifest.file
    files = {name if each.file == name else f"{name}/{each.file}": each.blake3 for each in manifest.files}
    if manifest.origins is not None:
        files[manifest.origins.file] = manifest.origins.blake3
    made_from = {"recipe": manifest.recipe, "sources": manifest.sources, "index": manifest.index or None}
    return _Product(manifest.kifu, made_from, manifest.set, files)


def _catalogue(path: Path) -> _Product:
    catalogue = open_catalogue(path)
    made_from = {name: value for name, value in catalogue.metadata.items() if name != "set"}
    if catalogue.index is not None or not _lists_origin(made_from):
        raise FormatError(f"{path} cannot be made again: only files that kifu ingest, split or build wrote can")
    kifu = parquet_metadata(path).get(b"kifu.version", b"").decode("utf-8", "replace")
    return _Product(kifu, made_from, str(catalogue.metadata.get("set", "")), {path.name: catalogue.digest()})


def _lists_origin(about: Mapping[str, Any]) -> bool:
    """Return True if the metadata are those of a catalogue that `ingest` or `split` made."""
    return {"clean", "sources"} <= {*about} or {"split", "of"} <= {*about}


@dataclass(frozen=True)
class _Maker:
    """Makes catalogues and data sets of sources.

    Attributes:
        found: The sources, by BLAKE3; catalogues that were made of others are added.
        work: The folder for these catalogues.
    """

    found: dict[str, Source]
    work: Path
    options: BuildOptions

    def require_sources(self, products: Sequence[_Product]) -> None:
        """Raise SourceError if sources are missing."""
        missing = {
            f"{info.get('name', 'a catalogue')} (BLAKE3 {info.get('blake3')})": info
            for product in products
            for info in self._missing(product.made_from)
        }
        if missing:
            shown = ", ".join([*missing][:_LISTED]) + (", ..." if len(missing) > _LISTED else "")
            raise SourceError(printable(f"{counted(len(missing), 'source')} missing: {shown}"))

    def _missing(self, made_from: Mapping[str, Any], depth: int = 0) -> Iterator[dict[str, Any]]:
        for info in source_infos(made_from):
            if str(info.get("blake3")) not in self.found:
                about = info.get("about")
                if isinstance(about, dict) and _lists_origin(about) and depth < MAX_DEPTH:
                    yield from self._missing(about, depth + 1)
                else:
                    yield info

    def make(self, made_from: Mapping[str, Any], sets: Sequence[str], output: Path, name: str) -> None:
        """Make the sets of a recipe or split, or a catalogue, which gets a name."""
        sources = [self._source(info) for info in source_infos(made_from)]
        progress, overwrite = self.options.progress, self.options.overwrite
        if "recipe" in made_from:
            options = self.options._replace(sets=[*filter(None, sets)] or None, index_page=made_from.get("index"))
            build_any(parse_recipe(made_from["recipe"]), sources, output, options)
        elif "split" in made_from:
            paths = [str(source.path) for source in sources]
            by = parse_listed(SplitConfig, made_from["split"], "split")
            split(paths, output, by=by, overwrite=overwrite, progress=progress)
        else:
            clean, jobs = parse_listed(CleaningRules, made_from["clean"], "rules"), self.options.executor
            ingest(sources, output / name, clean=clean, overwrite=overwrite, jobs=jobs, progress=progress)

    def _source(self, info: Mapping[str, Any]) -> Source:
        """Return a source under its listed name; a catalogue is made if it was not found."""
        key, listed = str(info.get("blake3")), {"name": str(info["name"])} if "name" in info else {}
        if key not in self.found:
            about = info["about"]
            folder, set = self.work / str(len(self.found)), str(about.get("set", ""))
            self.make({name: value for name, value in about.items() if name != "set"}, [set], folder, CATALOGUE)
            path = folder / (f"{set}.parquet" if "split" in about else CATALOGUE)
            (self.found[key],) = hash_sources(find_sources(path), self.options.executor)
        found = self.found[key]
        return replace(found, name=listed.get("name", found.name), info=found.info | listed)
