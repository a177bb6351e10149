"""Data sets in the formats of the kgsgo-dataset-preprocessor, from the archives of KGS."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import numpy as np

from kifu.atomic_io import AtomicFile, staging_dir
from kifu.corpus.sources import Source, hash_sources, require_unchanged
from kifu.datasets.dat import find_dat_layout
from kifu.datasets.formats import find_format
from kifu.datasets.manifest import DroppedGame, Manifest, data_set_files, read_manifest
from kifu.datasets.row_origins import read_game_rows
from kifu.datasets.writer import WriteReport, WrittenFile
from kifu.errors import DropReason, FormatError, SourceError
from kifu.execution.executor import THREADS, Executor, make_executor
from kifu.files import utf8_name
from kifu.progress import Progress, ProgressFactory, silent
from kifu.recipes.kgs_index import Archive, find_archives, read_index
from kifu.recipes.kgsgo_jobs import ArchiveCache, ArchiveGames, Chunk, CountRecords, WriteRecords
from kifu.recipes.pipeline import Build, BuildReport, ManifestCounts, Target, check_sets, is_made_by
from kifu.recipes.sampling import Sampler
from kifu.recipes.schema import KgsgoRecipe
from kifu.records.paths import AnyPath


def build_kgsgo(
    recipe: KgsgoRecipe,
    sources: Iterable[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    sets: Sequence[str] | None = None,
    index: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> list[BuildReport[Manifest]]:
    """Build the sets of a recipe, each with its manifest.

    A file that an earlier run of this version made from the same recipe and archives is kept. Files are complete or
    absent, even if the build is interrupted. Games that cannot be used are dropped and listed in the manifest.

    Args:
        recipe: See `load_recipe`.
        sources: Archives with names as on KGS, or directories that hold them.
        sets: Names of sets, by default those that the recipe marks as default.
        index: An index page (HTML file), which gives the archives and their order for the draws. By default the
            archives found, newest first.
        jobs: Number of threads or processes, by default one per core.
        engine: Execution backend, see `kifu.execution.executor.make_executor`. The bytes do not depend on it.

    Returns:
        One report per file, in the order of `sets`.

    Raises:
        RecipeError: The recipe has no such set, or a set asks for more games than there are.
    """
    names = recipe.default_sets() if sets is None else list(sets)
    check_sets(recipe, names)
    paths = find_archives(sources)
    sampler = Sampler(recipe, read_index(index, paths))
    selections = {name: sampler.select(name) for name in names}
    wanted = {each.archive: None for selected in selections.values() for each in selected}
    _require_archives(wanted, paths)
    if not wanted:
        return []
    first = recipe.sets[names[0]].file
    with make_executor(engine, jobs, staging_dir(Path(output, first))) as executor:
        found = [Source(paths[archive], utf8_name(paths[archive].name), None) for archive in wanted]
        hashes = dict(zip(wanted, hash_sources(found, executor)))
        reports = []
        cache = ArchiveCache()
        for name in names:
            shards = [
                ArchiveGames(each, paths[each.archive], hashes[each.archive]["blake3"]) for each in selections[name]
            ]
            targets = _targets(recipe, name, shards, Path(output))
            reports += _SetBuild(recipe, targets, found, hashes, executor, progress, cache).run(list(targets))
        return reports


def _require_archives(wanted: Collection[Archive], paths: dict[Archive, AnyPath]) -> None:
    missing = sorted(archive.stem for archive in wanted if archive not in paths)
    if missing:
        listed = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise SourceError(f"{len(missing)} of the {len(wanted)} archives that the sets draw from are missing: {listed}")


def _targets(
    recipe: KgsgoRecipe, name: str, shards: list[ArchiveGames], into: Path
) -> dict[Target, list[ArchiveGames]]:
    """Return the files of a set, each with the games that it takes."""
    chosen = recipe.sets[name]
    if not chosen.by_archive:
        return {Target.of(name, into / chosen.file): shards}
    files = (chosen.file.replace("{archive}", shard.selection.archive.stem) for shard in shards)
    return {Target.of(name, into / file): [shard] for file, shard in zip(files, shards)}


@dataclass
class _SetBuild(Build[Manifest]):
    """The files of one set. Their archives are one run of the executor, so small archives do not leave it idle."""

    recipe: KgsgoRecipe
    targets: dict[Target, list[ArchiveGames]]
    sources: list[Source]
    hashes: dict[Archive, dict[str, Any]]
    executor: Executor
    progress: ProgressFactory
    cache: ArchiveCache
    counts: Iterator[int] = field(default_factory=lambda: iter(()))
    chunks: Iterator[Chunk] = field(default_factory=lambda: iter(()))

    def current(self, target: Target) -> Manifest | None:
        try:
            manifest = read_manifest(target.path)
            if manifest is None or not is_made_by(manifest, self.recipe) or manifest.set != target.set:
                return None
            return manifest if _has_games(manifest, target.path, self.targets[target]) else None
        except FormatError:
            return None

    def files(self, target: Target, manifest: Manifest) -> list[tuple[Path, int]]:
        return [(path, file.bytes) for path, file in data_set_files(target.path, manifest)]

    def prepare(self, stale: list[Target], stack: ExitStack) -> None:
        layout = find_dat_layout(self.recipe.format)
        shards = [shard for target in stale for shard in self.targets[target]]
        # If the header holds the number of examples, it is counted first, so that it is hashed with the rest: reading
        # archives twice, where the cache is too small, takes a tenth of the time that reading the written file would.
        counting = CountRecords(loaded=self.executor.map(self.cache.load, shards, self.executor.jobs))
        self.counts = self.executor.run(counting, shards, prefetch=0) if layout.header_bytes else repeat(0)
        writing = WriteRecords(layout.name, loaded=self.executor.map(self.cache.load, shards, prefetch=1))
        self.chunks = self.executor.run(writing, shards, self.executor.jobs + 1)

    def make(self, target: Target) -> Manifest:
        layout = find_dat_layout(self.recipe.format)
        shards = self.targets[target]
        foreseen = sum(islice(self.counts, len(shards)))  # unless a move cannot be played
        games = sum(len(shard.selection.games) for shard in shards)
        with (
            ManifestCounts(target.set, target.path) as counts,
            AtomicFile(target.path, layout.header(foreseen)) as output,
            self.progress(f"building {target.path.name}", games, "games") as bar,
        ):
            for shard in shards:
                _write_archive(shard, _chunks_of(shard, self.chunks), output, counts, bar)
            require_unchanged(self.sources)
            output.write(layout.end)
            digest = output.commit(layout.header(counts.rows))
            written = WrittenFile(utf8_name(target.path.name), output.size, digest)
            return counts.manifest(
                self.recipe,
                games,
                [self.hashes[shard.selection.archive] for shard in shards],
                WriteReport(counts.rows, (written,)),
                layout.name,
                find_format(layout.name).plane_set,
            )


def _has_games(manifest: Manifest, path: Path, shards: list[ArchiveGames]) -> bool:
    """Return whether the data set has these games of these archives. Another index page draws others."""
    archives = [(shard.selection.archive.stem, shard.blake3) for shard in shards]
    if manifest.origins is None or [(each.archive, each.blake3) for each in manifest.archives] != archives:
        return False
    dropped: defaultdict[str, list[int]] = defaultdict(list)
    for game in manifest.dropped:
        dropped[game.archive].append(game.member)
    members = [shard.selection.games + 1 for shard in shards]
    kept = [each[~np.isin(each, dropped[stem])] for each, (stem, _) in zip(members, archives)]
    return np.array_equal(read_game_rows(manifest, path).member, np.concatenate([np.empty(0, np.int64), *kept]))


def _chunks_of(shard: ArchiveGames, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Yield the chunks of one archive, at least one. The next archive is not touched yet: it may be damaged."""
    left = len(shard.selection.games)
    for chunk in chunks:
        yield chunk
        left -= len(chunk.drop)
        if not left:
            return


def _write_archive(
    shard: ArchiveGames, chunks: Iterator[Chunk], output: AtomicFile, counts: ManifestCounts, bar: Progress
) -> None:
    """Write the records of an archive's games, and count them."""
    stem = shard.selection.archive.stem
    for chunk in chunks:
        output.write(chunk.records.data)
        kept = chunk.kept
        counts.add_games(chunk.member[kept], chunk.examples[kept], chunk.plies)
        lost = zip(chunk.member[~kept].tolist(), chunk.names, chunk.drop[~kept].tolist())
        counts.list_dropped([DroppedGame(stem, member, name, DropReason(code).name) for member, name, code in lost])
        bar.advance(len(kept))
    counts.end_archive(stem, shard.blake3)
