"""From archives to the files of a recipe."""

from __future__ import annotations

import importlib.metadata
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path

from kifu.atomic_io import AtomicFile, remove_file, staging_dir
from kifu.corpus.sources import Source, hash_sources
from kifu.datasets.dat import find_dat_layout
from kifu.datasets.formats import find_format
from kifu.datasets.manifest import ArchiveRows, ArchiveRowsBuilder, DroppedGame, Manifest, manifest_path, read_manifest
from kifu.errors import DropReason, FormatError, RecipeError, SourceError
from kifu.execution.executor import THREADS, Executor, make_executor
from kifu.progress import Progress, ProgressFactory, silent
from kifu.recipes.kgs_index import Archive, find_archives, read_index
from kifu.recipes.kgsgo_jobs import ArchiveGames, Chunk, CountRecords, WriteRecords
from kifu.recipes.sampling import Sampler, Selection
from kifu.recipes.schema import KgsgoRecipe
from kifu.records.places import AnyPath


@dataclass(frozen=True, slots=True)
class BuildReport:
    """One finished file. fresh: False if an earlier run had made it from the same recipe and archives."""

    path: Path
    manifest: Manifest
    fresh: bool


@dataclass(frozen=True, slots=True)
class _Plan:
    """One file to make."""

    set: str
    path: Path
    units: list[ArchiveGames]


def build(
    recipe: KgsgoRecipe,
    sources: Iterable[str | os.PathLike[str]],
    into: str | os.PathLike[str],
    *,
    sets: Sequence[str] | None = None,
    index: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> list[BuildReport]:
    """Makes the files of a recipe's sets, each with its manifest, and returns them in the order of `sets`.

    sources: archives named as KGS names them, or folders with such. sets: default those that the recipe marks so.
    index: an index page (file), whose archives and order the draws use; without it, the archives at hand, newest
    first. jobs, engine: see `kifu.execution.executor.make_executor`; the bytes are the same for any. A file that is there already,
    made by this version from the same recipe and archives, stays as it is. Files are complete or not there at all,
    whatever interrupts.
    Raises RecipeError, SourceError, OutputError or ClusterError. A game that cannot be used is dropped, and told of in
    the manifest.
    """
    names = recipe.default_sets() if sets is None else list(sets)
    for name in names:
        if name not in recipe.sets:
            raise RecipeError(f"recipe {recipe.name} has no set {name!r}; it has {', '.join(recipe.sets)}")
    paths = find_archives(sources)
    archives = read_index(index, paths)
    sampler = Sampler(recipe, archives)
    drawn = [(name, sampler.select(name)) for name in names]
    wanted = {selection.archive: None for _, selections in drawn for selection in selections}
    _require_archives(wanted, paths)
    if not wanted:
        return []
    first = recipe.sets[names[0]].file
    with make_executor(engine, jobs, staging_dir(Path(into, first))) as executor:
        told = hash_sources([Source(paths[archive], archive.name, None) for archive in wanted], executor)
        found = {archive: (paths[archive], about["blake3"]) for archive, about in zip(wanted, told)}
        built = []
        for name, selections in drawn:
            built += _build_set(recipe, _plans(recipe, name, selections, found, Path(into)), executor, progress)
        return built


def _plans(
    recipe: KgsgoRecipe, name: str, selections: list[Selection], found: dict[Archive, tuple[AnyPath, str]], into: Path
) -> list[_Plan]:
    """found: where each archive lies, and its hash."""
    chosen = recipe.sets[name]
    units = [ArchiveGames(selection, *found[selection.archive]) for selection in selections]
    if not chosen.by_archive:
        return [_Plan(name, into / chosen.file, units)]
    return [_Plan(name, into / chosen.file.replace("{archive}", u.selection.archive.stem), [u]) for u in units]


def _require_archives(wanted: Collection[Archive], paths: dict[Archive, AnyPath]) -> None:
    missing = sorted(a.stem for a in wanted if a not in paths)
    if missing:
        listed = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise SourceError(f"{len(missing)} of the {len(wanted)} archives that the sets draw from are missing: {listed}")


def _build_set(
    recipe: KgsgoRecipe, plans: list[_Plan], executor: Executor, progress: ProgressFactory
) -> list[BuildReport]:
    """The files of one set. Their archives are one run, so that all are at work where each file has one of its own."""
    layout = find_dat_layout(recipe.format)
    earlier = [_earlier(recipe, plan) for plan in plans]
    units = [unit for plan, there in zip(plans, earlier) if there is None for unit in plan.units]
    foreseen = executor.run(CountRecords(), units, prefetch=1) if layout.header_bytes else repeat(0)
    job = WriteRecords(layout.name, executor.map(ArchiveGames.load, units, prefetch=1))
    made = executor.run(job, units, executor.jobs + 1)
    built = []
    for plan, there in zip(plans, earlier):
        if there is None:
            examples = sum(islice(foreseen, len(plan.units)))
            built.append(BuildReport(plan.path, _build_file(recipe, plan, examples, made, progress), True))
        else:
            built.append(BuildReport(plan.path, there, False))
    return built


def _build_file(
    recipe: KgsgoRecipe, plan: _Plan, foreseen: int, made: Iterator[Chunk], progress: ProgressFactory
) -> Manifest:
    """foreseen: how many examples there will be, unless a move cannot be played. Known before any is written, the
    number can be hashed with the rest: to read archives twice takes a tenth of the time that reading the file would."""
    layout = find_dat_layout(recipe.format)
    remove_file(manifest_path(plan.path))  # so that a manifest never stands beside another's file
    games = sum(len(unit.selection.games) for unit in plan.units)
    origins: list[ArchiveRows] = []
    dropped: list[DroppedGame] = []
    with (
        AtomicFile(plan.path, layout.header(foreseen)) as output,
        progress(f"building {plan.path.name}", games, "games") as bar,
    ):
        for unit in plan.units:
            origin, aside = _write_archive(unit, _chunks_of(unit, made), output, bar)
            origins.append(origin)
            dropped += aside
        examples = sum(sum(o.rows) for o in origins)
        output.write(layout.end)
        digest = output.commit(layout.header(examples))
    manifest = Manifest(
        kifu=importlib.metadata.version("kifu"),
        file=plan.path.name,
        format=layout.name,
        plane_set=find_format(layout.name).plane_set,
        recipe=recipe.model_dump(),
        set=plan.set,
        examples=examples,
        bytes=output.size,
        blake3=digest,
        read=games,
        kept=games - len(dropped),
        drops=dict(sorted(Counter(d.reason for d in dropped).items())),
        dropped=dropped,
        archives=origins,
    )
    manifest.write(manifest_path(plan.path))
    return manifest


def _chunks_of(unit: ArchiveGames, made: Iterator[Chunk]) -> Iterator[Chunk]:
    """Those of the archive that is next, of which there is at least one. No other is asked for: that may be damaged."""
    left = len(unit.selection.games)
    for chunk in made:
        yield chunk
        left -= len(chunk.drop)
        if not left:
            return


def _write_archive(
    unit: ArchiveGames, chunks: Iterator[Chunk], output: AtomicFile, bar: Progress
) -> tuple[ArchiveRows, list[DroppedGame]]:
    """Writes the records of an archive's games, and says which gave them and which were set aside."""
    stem = unit.selection.archive.stem
    noted = ArchiveRowsBuilder()
    aside: list[DroppedGame] = []
    for chunk in chunks:
        output.write(chunk.records.data)
        kept = chunk.drop == DropReason.KEPT
        noted.add(chunk.member[kept], chunk.examples[kept], chunk.plies)
        left = zip(chunk.member[~kept].tolist(), chunk.names, chunk.drop[~kept].tolist())
        aside += [DroppedGame(stem, m, name, DropReason(why).name) for m, name, why in left]
        bar.advance(len(kept))
    return noted.build(stem, unit.blake3), aside


def _earlier(recipe: KgsgoRecipe, plan: _Plan) -> Manifest | None:
    """The manifest of the file, if it is what this run would make again."""
    try:
        manifest = read_manifest(plan.path)
    except FormatError:
        return None
    if (
        manifest is None
        or manifest.kifu != importlib.metadata.version("kifu")
        or (manifest.recipe, manifest.set) != (recipe.model_dump(), plan.set)
        or not plan.path.is_file()
        or plan.path.stat().st_size != manifest.bytes
    ):
        return None
    if [o.archive for o in manifest.archives] != [unit.selection.archive.stem for unit in plan.units]:
        return None
    dropped = {(d.archive, d.member) for d in manifest.dropped}
    for origin, unit in zip(manifest.archives, plan.units):
        members = (unit.selection.games + 1).tolist()
        if origin.member != [m for m in members if (origin.archive, m) not in dropped]:
            return None  # drawn by another index page
        if origin.blake3 != unit.blake3:
            return None
    return manifest
