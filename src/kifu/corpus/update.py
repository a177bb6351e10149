"""Append sources to a partitioned catalogue, and compact its partitions.

Both work in three parallel steps. Staging writes files of rows; duplicates are found by id and moves; the staged rows
become partitions. Only then do the partitions get their names, so that an interrupted run changes nothing.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kifu.atomic_io import staging_dir
from kifu.corpus.catalogue import CatalogueWriter, RowShard, is_catalogue, read_shard
from kifu.corpus.cleaning import CleaningRules, check_cleaning_rules, load_cleaning_rules
from kifu.corpus.duplicates import DUPLICATE_REASONS
from kifu.corpus.fields import UnparsedTexts
from kifu.corpus.index import INDEX, Index, Partition, SourceInfo, has_index
from kifu.corpus.ingest import IngestItem, IngestJob, IngestReport
from kifu.corpus.partitions import CatalogueTransaction, StagedRows, unique_name, write_partitions
from kifu.corpus.schema import drop_codes, with_drop
from kifu.corpus.sources import (
    ShardReader,
    Source,
    SourceShard,
    count_left_out,
    find_sources,
    hash_sources,
    require_unchanged,
    source_shards,
)
from kifu.errors import DropReason, FormatError, RecipeError, printable
from kifu.execution.executor import THREADS, Executor, Job, make_executor
from kifu.files import utf8_name
from kifu.progress import ProgressFactory, silent
from kifu.records.directory import LooseRecords
from kifu.records.games import LeftOut
from kifu.records.paths import Paths
from kifu.records.tygem import load_index
from kifu.text import Report

MAX_PARTITION_ROWS = 1 << 20
"""Maximum number of rows of a compacted partition: about 300 MB."""

LARGE_SOURCE_ROWS = 1 << 18
"""Sources of at least this many rows keep a directory of their own when compacted; smaller ones share one."""

_SHARED = -1
"""The key of all smaller sources."""


@dataclass(slots=True, repr=False)
class AppendReport(IngestReport):
    """Counts of the appended games; `bytes` is the size of the new partitions.

    Attributes:
        skipped: Names of the sources whose bytes the catalogue already has.
    """

    skipped: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Format the report for a terminal."""
        skipped = (f"  {printable(name)} is already there" for name in self.skipped)
        return "\n".join([IngestReport.__str__(self), *skipped])


def append(
    sources: Paths,
    output: str | os.PathLike[str],
    *,
    clean: str | os.PathLike[str] | CleaningRules = "legal",
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> AppendReport:
    """Append the games of sources to a partitioned catalogue, which is created if it does not exist.

    Files whose bytes the catalogue already has are skipped; loose records of a folder are read again. If the rules look
    for duplicates, existing rows do not change: a new game is dropped if it equals an existing one or its beginning; a
    longer one is kept in addition until `compact`. In a new folder, duplicates are found as in a single file.

    Args:
        sources: As for `kifu.corpus.ingest.ingest`.
        clean: Cleaning rules: a name, a TOML file, or rules from `load_cleaning_rules`.
        jobs: See `kifu.execution.executor.make_executor`.
        engine: See `kifu.execution.executor.make_executor`.

    Raises:
        RecipeError: If there are no such rules, or the folder has other rules or is itself a source.
        SourceError: If a source cannot be read, or changes meanwhile.
        ClusterError: If the cluster fails. In all cases the catalogue is unchanged.
    """
    path = Path(output)
    rules = clean if isinstance(clean, CleaningRules) else load_cleaning_rules(clean)
    found = find_sources(sources)
    if any(source.catalogue is not None and source.catalogue.path.resolve() == path.resolve() for source in found):
        raise RecipeError(f"{path} is a source, so games cannot be appended to it; choose another folder")
    ingest_job = IngestJob(rules, load_index([source.path for source in found if source.catalogue is None]))
    with (
        CatalogueTransaction(path, keep=engine != THREADS) as folder,
        make_executor(engine, jobs, staging_dir(path)) as executor,
    ):
        before = _index_for(folder, rules.model_dump(mode="json"))
        report, left_out = AppendReport(), count_left_out(found)
        new = list(_new_sources(found, executor, before, report))
        for known in {str(source.path) for source in found} - {str(source.path) for source, _ in new}:
            left_out.add(known, 1, {})  # its games were read before
        if not new:
            report.left_out = left_out.total()
            left_out.log()
            return report
        infos = (*before.sources, *(info for _, info in new))
        listed = [info.model_dump() for info in infos]
        staging = folder.stage([importlib.metadata.version("kifu"), before.clean, listed, len(before.sources)])
        with progress("reading games", None, "games") as bar:
            shards = list(_append_shards(folder, new, len(before.sources)))
            staged: list[StagedRows] = []
            results = executor.run(_StageJob(ingest_job, staging), [each.shard for each in shards])
            for result, shard in zip(results, shards):
                names = staged.pop().names if shard.continues else ()
                staged.append(StagedRows((*names, result.name), shard.directory, (shard.source,)))
                report.add_unparsed(result.unparsed)
                source, _ = new[shard.source - len(before.sources)]
                left_out.add(str(source.path), result.rows, result.left_out)
                bar.advance(result.rows)
            require_unchanged(found)
            index = before.model_copy(update={"sources": (*before.sources, *_with_left_out(new, left_out))})
            write_partitions(folder, staging, staged, index, executor, report, replace=False)
    report.left_out = left_out.total()
    left_out.log()
    return report


def _with_left_out(new: Iterable[tuple[Source, SourceInfo]], left_out: LeftOut) -> Iterator[SourceInfo]:
    for source, info in new:
        yield info.model_copy(update={"left_out": left_out.of_container(str(source.path)) or None})


def _index_for(folder: CatalogueTransaction, rules: dict[str, Any]) -> Index:
    """Return the folder's index, or one without partitions. Raises RecipeError if its rules differ."""
    if folder.index is None:
        return Index.model_construct(clean=rules, compacted=0, sources=(), read=0, kept=0, drops={}, parts=())
    index = _index_with_rules(folder.index, folder.path)
    differ = [name for name in rules if index.clean[name] != rules[name]]
    if differ:
        name = "name" if "name" in differ else differ[0]
        raise RecipeError(
            f"{folder.path} was cleaned by rules whose {name} is {str(index.clean[name])[:80]!r}, not "
            f"{str(rules[name])[:80]!r}: one folder has one set of rules"
        )
    return index


def _index_with_rules(index: Index, folder: Path) -> Index:
    """Return the index with all cleaning rules; one that a version without some of them wrote has their defaults."""
    rules = check_cleaning_rules(index.clean, folder / INDEX)
    return index.model_copy(update={"clean": rules.model_dump(mode="json")})


def _new_sources(
    found: Iterable[Source], executor: Executor, before: Index, report: AppendReport
) -> Iterator[tuple[Source, SourceInfo]]:
    """Yield the sources that the catalogue does not have, with their index entries; report the others."""
    hashes = {info.blake3 for info in before.sources if info.blake3 is not None}
    names = {info.name for info in before.sources}
    sources = list(found)
    for source, fields in zip(sources, hash_sources(sources, executor)):
        info = SourceInfo(**fields)
        if info.blake3 in hashes:
            report.skipped.append(source.name)
        else:
            if info.blake3 is not None:
                hashes.add(info.blake3)
            name = utf8_name(str(source.path)) if source.name in names else source.name
            yield replace(source, name=name), info.model_copy(update={"name": name})


class _AppendShard(NamedTuple):
    """A shard of a source. source: index into `Index.sources`. directory: of its partitions."""

    source: int
    directory: str
    shard: SourceShard

    @property
    def continues(self) -> bool:
        """True if its games share partitions with the previous shard's.

        The loose records of a folder are divided into shards of a few seconds, which would otherwise have a small
        partition each per year.
        """
        return isinstance(self.shard.shard, LooseRecords) and self.shard.shard.first > 0


def _append_shards(
    folder: CatalogueTransaction, new: Iterable[tuple[Source, SourceInfo]], first: int
) -> Iterator[_AppendShard]:
    directories: list[str] = []
    for number, (source, info) in enumerate(new, first):
        directories.append(folder.new_name(source.name, directories))
        for shard in source_shards([source], [info.model_dump(exclude_none=True)]):
            yield _AppendShard(number, directories[-1], shard)


class _StagedShard(NamedTuple):
    """A staged file of rows. name: within the staging directory, whose path may differ between nodes."""

    name: str
    rows: int
    unparsed: UnparsedTexts
    left_out: Counter[str]


class _StageJob(Job[SourceShard, SourceShard, _StagedShard]):
    """Writes the rows of each shard to a file, with all rules applied except those on duplicates."""

    def __init__(self, ingest_job: IngestJob, staging: Path) -> None:
        self._ingest_job = ingest_job
        self._staging = staging

    def fingerprint(self) -> Any:
        return [self._ingest_job.fingerprint(), self._staging.name]

    def shard_fingerprint(self, shard: SourceShard) -> Any:
        return shard.fingerprint()

    def process(self, item: SourceShard) -> _StagedShard:
        name = f"{uuid4().hex}.rows"  # unique, because a shard may be processed twice at the same time
        report = IngestReport()
        with CatalogueWriter(self._staging / name) as writer:
            for content in ShardReader().read(item.shard):  # a new reader: threads read several shards at a time
                ingested = self._ingest_job.process(IngestItem(item.name, content))
                report.left_out += ingested.left_out
                for rows in ingested.rows:
                    writer.write(rows.batch(rows.drop))
                    report.add_unparsed(rows.unparsed)
                    report.read += len(rows.drop)
            writer.commit({})
        return _StagedShard(name, report.read, report.unparsed, report.left_out)


@dataclass(frozen=True, slots=True)
class CompactReport(Report):
    """The result of compacting a folder."""

    before: int
    partitions: int
    games: IngestReport

    def __str__(self) -> str:
        """Format the report for a terminal."""
        return f"partitions: {self.before:,} before, {self.partitions:,} now; {self.games}"


def check_partitioned(path: Path) -> None:
    """Raise RecipeError or FormatError unless the path is a partitioned catalogue."""
    if not has_index(path):
        if is_catalogue(path):
            raise RecipeError(f"{path} is a single file: only a partitioned folder can be compacted")
        raise FormatError(f"{path} is not a partitioned catalogue")


def compact(
    path: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> CompactReport:
    """Merge the small partitions of a folder into few large ones, and find duplicates anew among all games.

    Sources of fewer than LARGE_SOURCE_ROWS rows are merged by year, larger ones each by itself. Partitions have at most
    MAX_PARTITION_ROWS rows, in their previous order. Afterwards it makes no difference whether the sources were
    appended at once or one after another.

    Args:
        jobs: See `kifu.execution.executor.make_executor`.
        engine: See `kifu.execution.executor.make_executor`.

    Raises:
        RecipeError: If the path is a single file, or its cleaning rules are those of another version.
    """
    path = Path(path)
    check_partitioned(path)
    with (
        CatalogueTransaction(path, keep=engine != THREADS) as folder,
        make_executor(engine, jobs, staging_dir(path)) as executor,
    ):
        assert folder.index is not None
        before = _index_with_rules(folder.index, path)
        staging = folder.stage([importlib.metadata.version("kifu"), "compact", before.model_dump()])
        with progress("compacting", before.read, "games") as bar:
            shards = list(_merge_shards(folder, before))
            staged = []
            for name, shard in zip(executor.run(_MergeJob(staging), shards), shards):
                staged.append(StagedRows((name,), shard.directory, shard.sources))
                bar.advance(sum(rows.rows for rows in shard.rows))
            games = IngestReport()
            partitions = write_partitions(folder, staging, staged, before, executor, games, replace=True)
        return CompactReport(len(before.parts), partitions, games)


class _MergeShard(NamedTuple):
    """Rows that become one partition.

    Attributes:
        sources: Ascending indices into `Index.sources`.
    """

    directory: str
    sources: tuple[int, ...]
    rows: tuple[RowShard, ...]


def _merge_shards(folder: CatalogueTransaction, index: Index) -> Iterator[_MergeShard]:
    top = folder.new_name(f"compact-{index.compacted + 1}")
    total: Counter[int] = Counter()
    for part in index.parts:
        if len(part.sources) == 1:
            total[part.sources[0]] += part.rows
    groups: dict[tuple[int, str], list[Partition]] = {}
    for part in index.parts:
        source = part.sources[0] if len(part.sources) == 1 and total[part.sources[0]] >= LARGE_SOURCE_ROWS else _SHARED
        groups.setdefault((source, part.year), []).append(part)
    names: dict[int, str] = {}
    for source in sorted({source for source, _ in groups} - {_SHARED}):
        names[source] = unique_name(index.sources[source].name, names.values())
    directories = {_SHARED: top} | {source: f"{top}/{name}" for source, name in names.items()}
    for source, year in sorted(groups):
        for piece in _pieces(groups[source, year]):
            sources = sorted({source for part, _ in piece for source in part.sources})
            rows = tuple(RowShard(str(folder.path / part.path), some.start, len(some)) for part, some in piece)
            yield _MergeShard(directories[source], tuple(sources), rows)


def _pieces(parts: Iterable[Partition]) -> Iterator[list[tuple[Partition, range]]]:
    """Yield the rows of the partitions, in order, in pieces of at most MAX_PARTITION_ROWS."""
    piece: list[tuple[Partition, range]] = []
    free = MAX_PARTITION_ROWS
    for part in parts:
        first = 0
        while part.rows - first > free:
            yield [*piece, (part, range(first, first + free))]
            first, piece, free = first + free, [], MAX_PARTITION_ROWS
        piece.append((part, range(first, part.rows)))
        free -= part.rows - first
    yield piece


class _MergeJob(Job[_MergeShard, _MergeShard, str]):
    """Copies rows of partitions to one staged file per shard, with duplicates kept again; results are file names."""

    def __init__(self, staging: Path) -> None:
        self._staging = staging

    def fingerprint(self) -> Any:
        return self._staging.name

    def shard_fingerprint(self, shard: _MergeShard) -> Any:
        return [shard.directory, shard.sources, [rows.fingerprint() for rows in shard.rows]]

    def process(self, item: _MergeShard) -> str:
        name = f"{uuid4().hex}.rows"  # unique, because a shard may be processed twice at the same time
        with CatalogueWriter(self._staging / name) as writer:
            for rows in item.rows:
                for batch in read_shard(rows):
                    writer.write(_keep_duplicates(batch))
            writer.commit({})
        return name


def _keep_duplicates(batch: pa.RecordBatch) -> pa.RecordBatch:
    drop = drop_codes(batch)
    duplicate = np.isin(drop, DUPLICATE_REASONS)
    detail = pc.if_else(pa.array(duplicate), pa.scalar(None, pa.string()), batch.column("drop_detail"))
    return with_drop(batch, np.where(duplicate, np.uint8(DropReason.KEPT), drop), detail)
