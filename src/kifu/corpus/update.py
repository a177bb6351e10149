"""Sources added to a catalogue that is a folder of parts, one for each source and year: no old part is touched.

Three rounds of work, by units that are shared by whoever does it: sources become files of rows, in a hidden folder; ids
and moves tell which of the games are there already; files of rows become parts. Only then have these their names.
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
from kifu.corpus.cleaning import CleaningRules, load_cleaning_rules
from kifu.corpus.duplicates import DUPLICATE_REASONS
from kifu.corpus.fields import UnparsedTexts
from kifu.corpus.index import Index, Partition, SourceInfo, has_index
from kifu.corpus.ingest import IngestItem, IngestJob, IngestReport
from kifu.corpus.partitions import CatalogueTransaction, StagedRows, unique_name, write_partitions
from kifu.corpus.schema import drop_code, map_distinct, with_drop
from kifu.corpus.sources import ShardReader, Source, SourceShard, find_sources, hash_sources, source_shards
from kifu.errors import DropReason, FormatError, RecipeError
from kifu.execution.executor import THREADS, Executor, Job, make_executor
from kifu.progress import ProgressFactory, silent
from kifu.records.directory import LooseRecords
from kifu.records.tygem import load_index


@dataclass(slots=True)
class AppendReport(IngestReport):
    """What became of the games that were added to a folder; `bytes` are those of the new parts."""

    passed_over: list[str] = field(default_factory=list)
    """The sources whose bytes the folder has already."""

    def __str__(self) -> str:
        """What there is to say on a terminal, some lines."""
        return "\n".join([IngestReport.__str__(self), *(f"  {name} is there already" for name in self.passed_over)])


def append(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    path: str | os.PathLike[str],
    *,
    clean: CleaningRules | None = None,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> AppendReport:
    """Adds the games of sources to the catalogue in the folder `path`, which is made if there is none.

    sources, clean, jobs, engine: as for `kifu.corpus.ingest.ingest`. A file whose bytes the folder has is passed over;
    loose records of a folder are read again. Where the rules look for duplicates, games that are there already stay
    what they are: a new one that is equal to one of them, or the beginning of one, is set aside; a longer one stays
    beside it until `kifu.corpus.update.compact`. Those of a new folder are judged as in one file.
    Raises SourceError, FormatError, OutputError, ClusterError, and RecipeError for other rules than those of the
    folder, and if it is a source itself; then the folder is what it was.
    """
    path = Path(path)
    clean = clean or load_cleaning_rules("legal")
    found = find_sources(sources)
    if any(source.catalogue is not None and source.catalogue.path.resolve() == path.resolve() for source in found):
        raise RecipeError(f"{path} is a source, and is where its games would be added; choose another folder")
    rows_job = IngestJob(clean, load_index([source.path for source in found if source.catalogue is None]))
    with (
        CatalogueTransaction(path, keep=engine != THREADS) as folder,
        make_executor(engine, jobs, staging_dir(path)) as executor,
    ):
        before = _index_for(folder, clean.model_dump(mode="json"))
        told = AppendReport()
        new = list(_new(found, executor, before, told))
        if not new:
            return told
        origins = (*before.sources, *(origin for _, origin in new))
        identity = [origin.model_dump() for origin in origins]
        staged = folder.stage([importlib.metadata.version("kifu"), before.clean, identity, len(before.sources)])
        with progress("reading games", None, "games") as bar:
            units = list(_units(folder, new, len(before.sources)))
            files: list[StagedRows] = []
            for made, unit in zip(executor.run(StageJob(rows_job, staged), [unit.part for unit in units]), units):
                before_it = files.pop().names if unit.goes_on else ()
                files.append(StagedRows((*before_it, made.name), unit.group, (unit.source,)))
                told.add_unparsed(made.unparsed)
                bar.advance(made.rows)
            write_partitions(
                folder, staged, files, before.model_copy(update={"sources": origins}), executor, told, anew=False
            )
    return told


def _index_for(folder: CatalogueTransaction, rules: dict[str, Any]) -> Index:
    """The folder's index, or one without parts. Raises RecipeError if its rules are others."""
    if folder.index is None:
        return Index.model_construct(clean=rules, compacted=0, sources=(), read=0, kept=0, drops={}, parts=())
    theirs = folder.index.clean
    if theirs != rules:
        differ = [name for name in {**theirs, **rules} if theirs.get(name) != rules.get(name)]
        name = "name" if "name" in differ else differ[0]
        raise RecipeError(
            f"{folder.path} was cleaned by rules whose {name} is {str(theirs.get(name))[:80]!r}, not "
            f"{str(rules.get(name))[:80]!r}: one folder has one set of rules"
        )
    return folder.index


def _new(
    found: Iterable[Source], executor: Executor, before: Index, told: AppendReport
) -> Iterator[tuple[Source, SourceInfo]]:
    """The sources that are not there, with what the index says of them; the others are noted."""
    there = {origin.blake3 for origin in before.sources if origin.blake3 is not None}
    names = {origin.name for origin in before.sources}
    sources = list(found)
    for source, about in zip(sources, hash_sources(sources, executor)):
        origin = SourceInfo(**about)
        if origin.blake3 in there:
            told.passed_over.append(source.name)
        else:
            if origin.blake3 is not None:
                there.add(origin.blake3)
            name = str(source.path) if source.name in names else source.name
            yield replace(source, name=name), origin.model_copy(update={"name": name})


class _Unit(NamedTuple):
    """A unit of a source. source: its place in the index. group: the folder of its parts."""

    source: int
    group: str
    part: SourceShard

    @property
    def goes_on(self) -> bool:
        """Whether its games become parts together with those of the unit before: a folder's loose records are cut into
        units of a few seconds, of which each would have a small part for each year."""
        return isinstance(self.part.part, LooseRecords) and self.part.part.first > 0


def _units(folder: CatalogueTransaction, new: Iterable[tuple[Source, SourceInfo]], first: int) -> Iterator[_Unit]:
    groups: list[str] = []
    for number, (source, origin) in enumerate(new, first):
        groups.append(folder.new_name(source.name, groups))
        for unit in source_shards([source], [origin.model_dump(exclude_none=True)]):
            yield _Unit(number, groups[-1], unit)


class StagedShard(NamedTuple):
    """A file of rows. name: in the hidden folder, which another run may call by another path."""

    name: str
    rows: int
    unparsed: UnparsedTexts


class StageJob(Job[SourceShard, SourceShard, StagedShard]):
    """From units of sources to files of rows, judged as far as one game alone can be."""

    def __init__(self, rows: IngestJob, staged: Path) -> None:
        """rows: makes them. staged: the hidden folder."""
        self._rows = rows
        self._staged = staged

    def fingerprint(self) -> Any:
        return [self._rows.fingerprint(), self._staged.name]

    def shard_fingerprint(self, shard: SourceShard) -> Any:
        return shard.fingerprint()

    def process(self, item: SourceShard) -> StagedShard:
        name = f"{uuid4().hex}.rows"  # of its own: a unit may be made twice at the same time
        told = IngestReport()
        with CatalogueWriter(self._staged / name) as writer:
            for content in ShardReader().read(item.part):  # one of its own: threads make several units at a time
                for rows in self._rows.process(IngestItem(item.name, content)):
                    writer.write(rows.batch(rows.drop))
                    told.add_unparsed(rows.unparsed)
                    told.read += len(rows.drop)
            writer.commit({})
        return StagedShard(name, told.read, told.unparsed)


PART_ROWS = 1 << 20
"""Rows of a part, at most: about 300 MB."""

LARGE = 1 << 18
"""A source of so many rows keeps a folder of its own; smaller ones share one, year by year."""


_SHARED = -1
"""What stands for all smaller sources."""


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What became of a folder. before, parts: how many parts it had and has. games: all its rows."""

    before: int
    parts: int
    games: IngestReport

    def __str__(self) -> str:
        """What there is to say on a terminal."""
        return f"parts: {self.before:,} before, {self.parts:,} now; {self.games}"


def compact(
    path: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> CompactReport:
    """Puts the parts of a folder together: those of sources of less than LARGE rows by year, of a larger source by
    itself; each part has at most PART_ROWS rows, in the order in which they were.

    Games that were set aside as copies are judged anew among all, by the folder's rules, so that it does not matter
    whether its sources were added at once or one after another. jobs, engine: as for `kifu.corpus.ingest.ingest`.
    Raises FormatError if it is no whole catalogue, RecipeError if it is one file, OutputError, ClusterError; then the
    folder is what it was.
    """
    path = Path(path)
    if not has_index(path):
        if is_catalogue(path):
            raise RecipeError(f"{path} is one file: only a folder of parts can be compacted")
        raise FormatError(f"{path} is no folder of parts")
    with (
        CatalogueTransaction(path, keep=engine != THREADS) as folder,
        make_executor(engine, jobs, staging_dir(path)) as executor,
    ):
        before = folder.index
        assert before is not None
        staged = folder.stage([importlib.metadata.version("kifu"), "compact", before.model_dump()])
        with progress("compacting", before.read, "games") as bar:
            units = list(_merge_units(folder, before))
            files = []
            for made, unit in zip(executor.run(MergeJob(staged), units), units):
                files.append(StagedRows((made,), unit.group, unit.sources))
                bar.advance(sum(rows.rows for rows in unit.rows))
            games = IngestReport()
            parts = write_partitions(folder, staged, files, before, executor, games, anew=True)
        return CompactReport(len(before.parts), parts, games)


class MergeShard(NamedTuple):
    """Rows that are to be one part. group: its folder. sources: places in the index, rising."""

    group: str
    sources: tuple[int, ...]
    rows: tuple[RowShard, ...]


def _merge_units(folder: CatalogueTransaction, index: Index) -> Iterator[MergeShard]:
    top = folder.new_name(f"compact-{index.compacted + 1}")
    total: Counter[int] = Counter()
    for part in index.parts:
        if len(part.sources) == 1:
            total[part.sources[0]] += part.rows
    together: dict[tuple[int, str], list[Partition]] = {}
    for part in index.parts:
        source = part.sources[0] if len(part.sources) == 1 and total[part.sources[0]] >= LARGE else _SHARED
        together.setdefault((source, part.year), []).append(part)
    names: dict[int, str] = {}
    for source in sorted({source for source, _ in together} - {_SHARED}):
        names[source] = unique_name(index.sources[source].name, names.values())
    groups = {_SHARED: top} | {source: f"{top}/{name}" for source, name in names.items()}
    for source, year in sorted(together):
        for piece in _pieces(together[source, year]):
            sources = sorted({source for part, _ in piece for source in part.sources})
            rows = tuple(RowShard(str(folder.path / part.path), some.start, len(some)) for part, some in piece)
            yield MergeShard(groups[source], tuple(sources), rows)


def _pieces(parts: Iterable[Partition]) -> Iterator[list[tuple[Partition, range]]]:
    """Rows of the parts, in order, as many at a time as a part may have."""
    piece: list[tuple[Partition, range]] = []
    room = PART_ROWS
    for part in parts:
        first = 0
        while part.rows - first > room:
            yield [*piece, (part, range(first, first + room))]
            first, piece, room = first + room, [], PART_ROWS
        piece.append((part, range(first, part.rows)))
        room -= part.rows - first
    yield piece


class MergeJob(Job[MergeShard, MergeShard, str]):
    """From rows of parts to files of rows in the hidden folder, by their names in it; those that were set aside as
    copies are kept again."""

    def __init__(self, staged: Path) -> None:
        self._staged = staged

    def fingerprint(self) -> Any:
        return self._staged.name

    def shard_fingerprint(self, shard: MergeShard) -> Any:
        return [shard.group, shard.sources, [rows.fingerprint() for rows in shard.rows]]

    def process(self, item: MergeShard) -> str:
        name = f"{uuid4().hex}.rows"  # of its own: a unit may be made twice at the same time
        with CatalogueWriter(self._staged / name) as writer:
            for rows in item.rows:
                for batch in read_shard(rows):
                    writer.write(_kept_again(batch))
            writer.commit({})
        return name


def _kept_again(batch: pa.RecordBatch) -> pa.RecordBatch:
    drop = map_distinct(batch.column("drop"), drop_code, np.uint8)
    copies = np.isin(drop, DUPLICATE_REASONS)
    detail = pc.if_else(pa.array(copies), pa.scalar(None, pa.string()), batch.column("drop_detail"))
    return with_drop(batch, np.where(copies, np.uint8(DropReason.KEPT), drop), detail)
