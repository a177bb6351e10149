"""Estimates of an ingest or a build: counts, sizes and the time of a sample, extrapolated linearly."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from kifu.corpus.catalogue import CatalogueWriter, RowShard, open_catalogue
from kifu.corpus.cleaning import CleaningRules, load_cleaning_rules
from kifu.corpus.ingest import IngestReport, ingester
from kifu.corpus.schema import SCHEMA
from kifu.corpus.sources import ArchiveShard, Shard, ShardReader, Source, find_sources, source_shards
from kifu.datasets.dat import find_dat_layout
from kifu.execution.executor import Executor
from kifu.recipes.kgs import Sampler, find_archives, list_archives
from kifu.recipes.pipeline import BuildOptions, build_any
from kifu.recipes.schema import KgsgoRecipe
from kifu.records.containers import is_index_file, volume_paths
from kifu.records.directory import LooseRecords
from kifu.records.paths import Remote
from kifu.records.tygem import load_index
from kifu.text import format_bytes, format_seconds

_SHARDS, _BLOCKS, _RECORDS = 8, 2, 4000
"""Shards that are sampled; blocks of each of an archive; records or rows of each of a folder or catalogue."""

_BUILD_GAMES = 300
"""Games of the sample from which data sets are built."""

_ROW_BYTES, _RECORD_BYTES = 400, 1024
"""Typical sizes of a row of a catalogue and of a loose record, to compare them with archives."""


@dataclass(frozen=True)
class Estimate:
    """Counts of a sample of the sources, extrapolated linearly to all of them."""

    games: int
    kept: int
    positions: int  # moves of the kept games, with passes
    bytes: int  # size of the outputs
    seconds: float  # at the rate of the sample, without start-up
    sampled: int  # number of games that were read
    sets: dict[str, dict[str, int]]  # "examples" and "bytes" of data sets by file name

    def __str__(self) -> str:
        def about(count: int) -> str:
            return f"{count:,}" if self.sampled == self.games else f"{float(f'{count:.3g}'):,.0f}"

        counts = f"{about(self.games)} games, {about(self.kept)} kept, {about(self.positions)} positions"
        cost = f"{format_bytes(self.bytes)}, {format_seconds(self.seconds)}"
        sets = [f"  {k}: {about(s['examples'])} examples, {format_bytes(s['bytes'])}" for k, s in self.sets.items()]
        if self.sampled < self.games:
            counts, cost = f"about {counts}", f"{cost} (from a sample of {self.sampled:,} games)"
        return "\n".join([f"{counts}; {cost}", *sets])


def estimate_ingest(sources: Sequence[str], rules: CleaningRules, jobs: int | None) -> Estimate:
    """Return the estimate of an ingest; duplicates count as kept."""
    with tempfile.TemporaryDirectory(prefix="kifu-") as folder:
        return _ingest_sample(sources, rules, jobs, Path(folder, "sample.parquet"))


def estimate_build(recipe: Any, sources: Sequence[str], index: Path | None, jobs: int | None) -> Estimate:
    """Return the estimate of the build of a recipe's default sets. Raises RecipeError, SourceError."""
    with tempfile.TemporaryDirectory(prefix="kifu-") as folder:
        sample = Path(folder, "sample.parquet")
        if isinstance(recipe, KgsgoRecipe):
            return _draw_kgsgo(recipe, sources, index, jobs, sample)
        clean = getattr(recipe, "clean", None) or load_cleaning_rules("legal")
        ingested = _ingest_sample(sources, clean, jobs, sample)
        some = Path(folder, "some.parquet")
        scale = ingested.games / max(_thin_out(sample, some), 1)
        if recipe.games is not None:
            scale *= min(recipe.games / max(ingested.kept, 1), 1)
            recipe = recipe.model_copy(update={"games": None})
        with Executor(jobs) as executor:
            options = BuildOptions(executor, is_sample=True)
            build_any(recipe, [some], Path(folder, "first"), options)  # loads or compiles kernels
            began, built = perf_counter(), Path(folder, "built")
            reports = build_any(recipe, [some], built, options)
            seconds = ingested.seconds + (perf_counter() - began) * scale
        sets = {}
        for report in reports:
            count = getattr(report.manifest, "examples", 0) or report.manifest.kept
            size = sum(file.bytes for file in report.manifest.files)
            name = recipe.name if report.path == built else report.path.name
            sets[name] = {"examples": round(count * scale), "bytes": round(size * scale)}
        return replace(ingested, seconds=seconds, bytes=sum(size["bytes"] for size in sets.values()), sets=sets)


def _draw_kgsgo(recipe: Any, sources: Sequence[str], index: Path | None, jobs: int | None, path: Path) -> Estimate:
    """Return the estimate of a build that selects games by number from the archives of KGS, which their names tell."""
    paths = find_archives(sources)
    sampler, record = Sampler(recipe, list_archives(index, paths)), find_dat_layout(recipe.format).record_bytes
    ingested = _ingest_sample([str(found) for found in paths.values()], load_cleaning_rules("legal"), jobs, path)
    sets = {}
    for name in recipe.default_sets():
        examples = round(sum(map(len, sampler.select(name).values())) * ingested.positions / max(ingested.games, 1))
        sets[recipe.sets[name].file] = {"examples": examples, "bytes": examples * record}
    return replace(ingested, bytes=sum(size["bytes"] for size in sets.values()), sets=sets)


def _ingest_sample(sources: Sequence[str], rules: CleaningRules, jobs: int | None, path: Path) -> Estimate:
    """Write the sample as a catalogue, and return the estimate of the whole."""
    found = find_sources(sources)
    heads, share = _sample(found)
    reader, sampled = ShardReader(), {head.path for _, head in heads if isinstance(head, ArchiveShard)}
    items = ((name, content) for name, head in heads for content in reader.read(head))
    containers = [source.path for source in found if source.catalogue is None]
    # Of files at URLs, only the sample is copied; metadata of TYGEM are in files of their own.
    read = [path for path in containers if path in sampled or isinstance(path, Path) or is_index_file(path)]
    process = ingester(rules, load_index(read))
    report = IngestReport()
    first = list(islice(items, 1))
    for item in first:
        process(item)  # loads or compiles kernels
    began = perf_counter()
    with Executor(jobs) as executor, CatalogueWriter(path) as writer:
        for ingested in executor.map(process, chain(first, items)):
            for rows in ingested.rows:
                batch = rows.batch(rows.drop)
                writer.write(batch)
                report.add(batch)
        writer.commit({"clean": rules.model_dump(mode="json")})
    seconds = perf_counter() - began
    games, kept, moves = (round(count / share) for count in (report.read, report.kept, report.moves))
    return Estimate(games, kept, moves, round(writer.size / share), seconds / share, report.read, {})


def _sample(sources: Sequence[Source]) -> tuple[list[tuple[str, Shard]], float]:
    """Return the beginnings of some shards at even distances in the sources, and their share of all games."""
    shards = [shard for source in sources for shard in _heads(source)]
    ends = np.cumsum([0.0, *(size for *_, size in shards)])
    if len(shards) > _SHARDS:
        middles = (np.arange(_SHARDS) + 0.5) / _SHARDS * ends[-1]
        shards = [shards[k] for k in np.unique(np.searchsorted(ends, middles) - 1)]
    share = sum(part * size for *_, part, size in shards) / ends[-1] if shards else 1.0
    return [(name, head) for name, head, *_ in shards], share


def _heads(source: Source) -> Iterator[tuple[str, Shard, float, float]]:
    """Yield of each shard its name, its beginning, the share that this is of it, and its size in bytes.

    The rest of a divided archive, whose size is unknown, is left out. An archive at a URL is one shard.
    """
    if isinstance(source.path, Remote) and not source.path.is_dir():
        yield source.name, ArchiveShard(source.path, 0, None), 1.0, source.path.listed_size()
        return
    parts = list(source_shards([source]))
    for name, shard in parts:
        head: Shard = shard
        if isinstance(shard, RowShard):
            head, share = replace(shard, rows=min(shard.rows, _RECORDS)), _RECORDS / max(shard.rows, 1)
            size: float = shard.rows * _ROW_BYTES
        elif isinstance(shard, LooseRecords):
            head, share = shard.part(0, min(len(shard), _RECORDS)), _RECORDS / max(len(shard), 1)
            size = len(shard) * _RECORD_BYTES
        elif shard.blocks is not None or len(parts) == 1:
            size = sum(volume.stat().st_size for volume in volume_paths(shard.path)) / max(len(parts) - 1, 1)
            share = 1.0
            if shard.blocks is not None:
                head, share = replace(shard, blocks=min(shard.blocks, _BLOCKS)), _BLOCKS / shard.blocks
        else:
            continue
        yield name, head, min(share, 1.0), size


def _thin_out(catalogue: Path, path: Path) -> int:
    """Write at most 300 rows at even distances as a catalogue, and return their number."""
    opened = open_catalogue(catalogue)
    count = min(opened.rows, _BUILD_GAMES)
    rows = pa.array(np.arange(count) * opened.rows // max(count, 1))
    with CatalogueWriter(path) as writer:
        for batch in pa.Table.from_batches(opened.batches(), SCHEMA).take(rows).combine_chunks().to_batches():
            writer.write(batch)
        writer.commit(dict(opened.metadata))
    return count
