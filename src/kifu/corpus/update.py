"""Append sources to a partitioned catalogue, and compact its partitions.

Both work in three parallel steps. Staging writes files of rows; duplicates are found by id and moves; the staged rows
become partitions. Only then do the partitions get their names, so that an interrupted run changes nothing.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count, takewhile
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.catalogue import (
    SEARCH_SUFFIX,
    CatalogueWriter,
    RowShard,
    has_index,
    is_catalogue,
    number_batches,
    open_catalogue,
    read_shard,
)
from kifu.corpus.cleaning import CleaningRules, check_cleaning_rules, load_cleaning_rules
from kifu.corpus.duplicates import DUPLICATE_REASONS, DuplicateFlags, flag_duplicates
from kifu.corpus.ingest import IngestedItem, IngestReport, ingester
from kifu.corpus.partitions import PARTITION_PATH, Index, Partition, SourceInfo, read_partitions
from kifu.corpus.schema import INDEX, drop_codes, to_numpy, with_drop
from kifu.corpus.sources import (
    IngestItem,
    Shard,
    ShardReader,
    Source,
    count_left_out,
    find_sources,
    hash_sources,
    require_unchanged,
    source_shards,
)
from kifu.errors import DropReason, FormatError, OutputError, RecipeError, printable
from kifu.execution.executor import THREADS, Executor, make_executor
from kifu.io import (
    locked_folder,
    read_small,
    remove_empty,
    require_no_link,
    require_size,
    temp_path,
    utf8_name,
    write_file,
    writing,
)
from kifu.progress import ProgressFactory, silent
from kifu.records.directory import LooseRecords
from kifu.records.paths import Paths
from kifu.records.tygem import load_index
from kifu.text import Report

_HIDDEN = ".new-"
"""Prefix of staging directories within the folder."""

_NAMES = "names.json"
"""File in a staging directory that lists the partitions that a commit adds or removes."""

_SUFFIXES = re.compile(r"(\.(tar|tgz|tbz2?|txz|zip|7z|gz|bz2|xz|zst|sgf|olf|parquet))+$", re.IGNORECASE)

_FILES = re.compile(
    r"\.(7z|arrow|bz2|csv|db|duckdb|gib|gz|h5|html|jsonl?|mix|ngf|np[yz]|olf|onnx|pdf|png|sgfs?|sqlite|svg|tar|tbz2?|tgz|tsv"
    r"|txt|txz|ug[fi]|xlsx|xml|xz|zip|zst)",
    re.IGNORECASE,
)
"""Suffixes of files that are no catalogues."""

FIRST_YEAR, LAST_YEAR = 1900, 2099
"""The years that have partitions of their own."""

EARLIER_YEAR, UNKNOWN_YEAR = FIRST_YEAR - 1, LAST_YEAR + 1

_MAX_ROWS = 1 << 17
"""Maximum number of rows of partitions of several years that are written at the same time."""

_MAX_OPEN = 64
"""Maximum number of partitions that are written at the same time."""

MAX_PARTITION_ROWS = 1 << 20
"""Maximum number of rows of a compacted partition: about 300 MB."""

LARGE_SOURCE_ROWS = 1 << 18
"""Sources of at least this many rows keep a directory of their own when compacted; smaller ones share one."""

_SHARED = -1
"""The key of all smaller sources."""


class CatalogueTransaction(ExitStack):
    """A context manager that locks a catalogue's folder and adds or replaces partitions atomically.

    New partitions are written to a staging directory in the folder. What a killed run left is not listed in the index,
    and is removed by the next run that writes.
    """

    def __init__(self, path: Path) -> None:
        """Lock or create the folder. Raises OutputError if another process holds it, or it has foreign files."""
        super().__init__()
        self.path = path
        self.index: Index | None = None
        with ExitStack() as stack:
            stack.enter_context(locked_folder(path))
            stack.callback(lambda: remove_empty([path] if self.index is None else []))
            self.index = read_partitions(path) if has_index(path) else None
            self._require_no_foreign_files()
            for hidden in self._staging_dirs():
                if (hidden / _NAMES).exists():
                    self._clear(hidden)
            self.push(stack.pop_all())
        self.callback(self._clear_all)

    def _require_no_foreign_files(self) -> None:
        """Raise OutputError if there is no index, but anything else than a killed run's leftovers."""
        for entry in self.path.iterdir() if self.index is None else ():
            named = {name.split("/")[0] for hidden in self._staging_dirs() for name in _read_names(hidden)}
            if not entry.name.startswith(_HIDDEN) and entry.name not in (temp_path(self.path / INDEX).name, *named):
                raise OutputError(f"{self.path} contains {entry.name} and is not a catalogue; choose another folder")

    def _staging_dirs(self) -> list[Path]:
        found = sorted(self.path.glob(f"{_HIDDEN}*"))
        for hidden in found:
            require_no_link(hidden)
        return found

    def stage(self) -> Path:
        """Return a new staging directory."""
        staged = self.path / f"{_HIDDEN}{uuid4().hex}"
        with writing(self.path):
            for hidden in self._staging_dirs():
                shutil.rmtree(hidden)
            staged.mkdir()
        return staged

    def new_name(self, name: str, taken: Iterable[str] = ()) -> str:
        """Return an unused name, not in `taken`, see `unique_name`. Raises OutputError if the folder was removed."""
        with writing(self.path):
            present = [entry.name for entry in self.path.iterdir()]
        return unique_name(name, [*taken, *present])

    def commit(self, staged: Path, files: Mapping[str, Path], index: Index) -> None:
        """Move staged files to their places, replace the index, and remove partitions that it does not list.

        Raises OutputError if a file cannot be moved; then the catalogue is unchanged. files: by path in the folder, the
        staged file.
        """
        before = [] if self.index is None else [part.path for part in self.index.parts]
        write_file(staged / _NAMES, json.dumps([*files, *before]).encode())
        with writing(self.path):
            for name, file in files.items():
                target = self.path / name
                target.parent.mkdir(parents=True, exist_ok=True)
                file.replace(target)
        for part in index.parts:
            require_size(self.path / part.path, part.bytes)
        index.write(self.path)
        self.index = index
        self._clear(staged)

    def _clear(self, hidden: Path) -> None:
        """Remove a staging directory, and the partitions that its commit named but the index does not list."""
        listed = set() if self.index is None else {part.path for part in self.index.parts}
        top = self.path.resolve()
        try:
            for name in _read_names(hidden):
                path = self.path / name
                if name not in listed and path.resolve().is_relative_to(top):
                    path.unlink(missing_ok=True)
                    path.with_name(path.name + SEARCH_SUFFIX).unlink(missing_ok=True)
                    remove_empty(takewhile(lambda folder: folder != self.path, path.parents))
            shutil.rmtree(hidden)
        except OSError as error:
            raise OutputError(f"cannot remove unused files of {self.path}: {error.strerror or error}") from None

    def _clear_all(self) -> None:
        for hidden in self._staging_dirs():
            with suppress(OutputError):  # what cannot be removed is left for the next run, as after a kill
                self._clear(hidden)


def unique_name(name: str, taken: Iterable[str]) -> str:
    """Return a plain file name derived from `name` that differs from all taken names, ignoring case."""
    plain = re.sub(r"[^A-Za-z0-9_.+-]+", "_", _SUFFIXES.sub("", name[-255:]))[:100].strip(".") or "source"
    used = {each.casefold() for each in taken}
    return next(each for each in chain([plain], (f"{plain}-{k}" for k in count(2))) if each.casefold() not in used)


def _read_names(hidden: Path) -> list[str]:
    """Return the partitions that an interrupted commit was to add or remove, ignoring invalid paths."""
    try:
        names = json.loads(read_small(hidden / _NAMES))
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(names, list):
        return []
    return [name for name in names if isinstance(name, str) and re.fullmatch(PARTITION_PATH, name)]


def unique_file(suffix: str) -> str:
    """Return a new file name: a shard may be processed twice at the same time."""
    return f"{uuid4().hex}.{suffix}"


def year_name(year: int) -> str:
    """Return the name of a year's partitions: "2016", "before-1900", or "unknown", which includes future years."""
    return {EARLIER_YEAR: f"before-{FIRST_YEAR}", UNKNOWN_YEAR: "unknown"}.get(year, str(year))


def partition_years(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the partition year of rows with column `year`: [G], 1900 to 2099, EARLIER_YEAR or UNKNOWN_YEAR."""
    years = to_numpy(pc.fill_null(batch.column("year"), UNKNOWN_YEAR)).astype(np.int64)
    return np.where(years < 0, UNKNOWN_YEAR, np.clip(years, EARLIER_YEAR, UNKNOWN_YEAR))


class StagedRows(NamedTuple):
    """Staged catalogues without duplicate flags, to be partitioned as if they were one."""

    names: tuple[str, ...]
    directory: str  # of their partitions, within the folder
    sources: tuple[int, ...]  # indices into `Index.sources`


class StagedPartition(NamedTuple):
    """A complete partition in the staging directory."""

    name: str
    year: int
    games: IngestReport
    blake3: str


def _divide_years(
    staging: Path, rules: dict[str, Any], sources: list[dict[str, Any]], item: tuple[StagedRows, DuplicateFlags]
) -> list[StagedPartition]:
    staged, flags = item
    counts = np.zeros(UNKNOWN_YEAR - EARLIER_YEAR + 1, np.int64)
    files = [staging / name for name in staged.names]
    for _, batch in number_batches(files, ("year",)):
        counts += np.bincount(partition_years(batch) - EARLIER_YEAR, minlength=len(counts))
    metadata = {"clean": rules, "sources": [sources[source] for source in staged.sources]}
    partitions = []
    for years in _group_years(counts) or [[UNKNOWN_YEAR]]:
        with ExitStack() as stack:
            names = {year: unique_file("part") for year in years}
            writers = {year: stack.enter_context(CatalogueWriter(staging / name)) for year, name in names.items()}
            reports = {year: IngestReport() for year in years}
            for first, batch in number_batches(files):
                flagged, year_of = flags.apply(batch, first), partition_years(batch)
                for year in np.intersect1d(year_of, years).tolist():
                    rows = flagged.filter(pa.array(year_of == year))
                    writers[year].write(rows)
                    reports[year].add(rows)
            for year, report in reports.items():
                digest = writers[year].commit(metadata | report.counts())
                report.bytes = writers[year].size
                partitions.append(StagedPartition(names[year], year, report, digest))
    return partitions


def _group_years(counts: npt.NDArray[np.int64]) -> list[list[int]]:
    """Return ascending years in groups to be written together. counts: rows by year, from EARLIER_YEAR on."""
    groups: list[list[int]] = []
    rows = 0
    for k in np.flatnonzero(counts).tolist():
        if not groups or rows + counts[k] > _MAX_ROWS or len(groups[-1]) == _MAX_OPEN:
            groups.append([])
            rows = 0
        groups[-1].append(EARLIER_YEAR + k)
        rows += counts[k]
    return groups


def write_partitions(
    folder: CatalogueTransaction,
    staging: Path,
    staged: Sequence[StagedRows],
    index: Index,
    executor: Executor,
    report: IngestReport,
    *,
    replace: bool,
) -> int:
    """Turn staged rows, in order, into partitions, and commit them with a new index. Returns their number.

    Args:
        index: The index so far, but with all sources, those of the staged rows too.
        report: The counts and sizes of the new partitions are added to it.
        replace: Replace all partitions, instead of adding to them.
    """
    old = [] if replace or not index.parts else [str(folder.path)]
    paths = [[str(staging / name) for name in each.names] for each in staged]
    starts = np.cumsum([0, *(sum(open_catalogue(path).rows for path in each) for each in paths)]).tolist()
    first = index.read if old else 0
    flags = flag_duplicates([*old, *chain.from_iterable(paths)], first, index.clean["duplicates"], executor)
    shards = [(each, flags.select(*bounds)) for each, *bounds in zip(staged, starts, starts[1:])]
    infos = [source.info() for source in index.sources]
    divide = partial(_divide_years, staging, index.clean, infos)
    named = list(_name_partitions(staged, list(executor.run(divide, shards))))
    for _, part in named:
        report.include(part.games)
    listed, drops = [part for part, _ in named], Counter(report.drops)
    if old:
        listed, drops = [*index.parts, *listed], drops + Counter(index.drops)
    new_index = Index(
        kifu=importlib.metadata.version("kifu"),
        clean=index.clean,
        compacted=index.compacted + replace,
        sources=index.sources,
        read=sum(part.rows for part in listed),
        kept=sum(part.kept for part in listed),
        drops=dict(sorted(drops.items())),
        parts=tuple(listed),
    )
    folder.commit(staging, {part.path: staging / file.name for part, file in named}, new_index)
    return len(named)


def _name_partitions(
    staged: Sequence[StagedRows], made: Iterable[list[StagedPartition]]
) -> Iterator[tuple[Partition, StagedPartition]]:
    """Yield the partitions with their paths, ordered by directory, year and file.

    An empty partition is listed only if its directory has no other, so that each source has a partition.
    """
    groups: dict[str, list[tuple[StagedPartition, StagedRows]]] = {}
    for rows, partitions in zip(staged, made):
        groups.setdefault(rows.directory, []).extend((part, rows) for part in partitions)
    for directory, all_parts in groups.items():
        parts = [each for each in all_parts if each[0].games.read] or all_parts[:1]
        number: Counter[int] = Counter()
        per_year = Counter(part.year for part, _ in parts)
        for part, rows in sorted(parts, key=lambda each: each[0].year):
            number[part.year] += 1
            suffix = f"-{number[part.year]:04}" if per_year[part.year] > 1 else ""
            year = year_name(part.year)
            partition = Partition(
                path=f"{directory}/{year}{suffix}.parquet",
                rows=part.games.read,
                kept=part.games.kept,
                bytes=part.games.bytes,
                blake3=part.blake3,
                sources=rows.sources,
                year=year,
            )
            yield partition, part


def check_folder(path: Path) -> None:
    """Raise OutputError for a new folder with the name of a file of another kind."""
    if _FILES.fullmatch(path.suffix) and not has_index(path):
        raise OutputError(f"a catalogue is a .parquet file or a folder, got {path.name}")


@dataclass(slots=True, repr=False)
class AppendReport(IngestReport):
    """Counts of the appended games; `bytes` is the size of the new partitions."""

    skipped: list[str] = field(default_factory=list)  # names of the sources whose bytes the catalogue already has

    def __str__(self) -> str:
        skipped = (f"  {printable(name)} is already there" for name in self.skipped)
        return "\n".join([IngestReport.__str__(self), *skipped])


def append(
    sources: Paths,
    output: str | os.PathLike[str],
    *,
    clean: str | os.PathLike[str] | CleaningRules = "legal",
    overwrite: bool = False,
    strict: bool = False,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> AppendReport:
    """Append the games of sources to a partitioned catalogue, which is created if it does not exist.

    With `overwrite`, they take the place of its games, if they are from other sources or cleaned by other rules.

    Sources whose bytes the catalogue already has are skipped. If the rules look
    for duplicates, existing rows do not change: a new game is dropped if it equals an existing one or its beginning; a
    longer one is kept in addition until `compact`. In a new folder, duplicates are found as in a single file.

    The arguments are those of `kifu.corpus.ingest.ingest`.

    Raises:
        RecipeError: There are no such rules, or the folder has other rules or is itself a source.
        SourceError: A source cannot be read, or changes meanwhile.
        ClusterError: The cluster fails. In all cases the catalogue is unchanged.
    """
    path = Path(output)
    check_folder(path)
    rules = clean if isinstance(clean, CleaningRules) else load_cleaning_rules(clean)
    all_sources = find_sources(sources)
    if path.resolve() in [source.catalogue.path.resolve() for source in all_sources if source.catalogue is not None]:
        raise RecipeError(f"{path} is a source, so games cannot be appended to it; choose another folder")
    process = ingester(rules, load_index([source.path for source in all_sources if source.catalogue is None]))
    with CatalogueTransaction(path) as folder, make_executor(engine, jobs) as executor:
        all_sources = hash_sources(all_sources, executor)
        before = _index_for(folder, rules.model_dump(mode="json"), all_sources, overwrite)
        report, left_out = AppendReport(), count_left_out(all_sources, strict)
        new = list(_new_sources(all_sources, before, report))
        for known in {str(source.path) for source in all_sources} - {str(source.path) for source, _ in new}:
            left_out.add(known, 1, {})  # its games were read before
        if not new:
            report.left_out = left_out.total()
            left_out.log()
            return report
        staging = folder.stage()
        with progress("reading games", None, "games") as bar:
            shards = list(_append_shards(folder, new, len(before.sources)))
            staged: list[StagedRows] = []
            games_read = 0
            results = executor.run(partial(_stage, process, staging), [shard for shard, _ in shards])
            for (name, games), ((_, shard), target) in zip(results, shards):
                # A later shard of a folder's loose records would have a small partition for each year.
                continues = isinstance(shard, LooseRecords) and shard.first > 0
                names = staged.pop().names if continues else ()
                staged.append(target._replace(names=(*names, name)))
                report.add_unparsed(games.unparsed)
                source, _ = new[target.sources[0] - len(before.sources)]
                left_out.add(str(source.path), games.read, games.left_out)
                bar.advance(games.read)
                games_read += games.read
            left_out.require_games(games_read + len(report.skipped))
            require_unchanged(all_sources)
            added = [
                info.model_copy(update={"left_out": left_out.of_container(str(source.path)) or None})
                for source, info in new
            ]
            index = before.model_copy(update={"sources": (*before.sources, *added)})
            write_partitions(folder, staging, staged, index, executor, report, replace=False)
    report.left_out = left_out.total()
    left_out.log()
    return report


def _index_for(
    folder: CatalogueTransaction, rules: dict[str, Any], sources: Sequence[Source], overwrite: bool
) -> Index:
    """Return the folder's index, or one without partitions. Raises RecipeError if its rules differ."""
    index = folder.index
    hashes = {source.info.get("blake3") for source in sources}
    if index is None or (overwrite and (index.clean != rules or {source.blake3 for source in index.sources} != hashes)):
        return Index.model_construct(clean=rules, compacted=0, sources=(), read=0, kept=0, drops={}, parts=())
    _check_rules(index, folder.path)
    differ = [name for name in rules if index.clean[name] != rules[name]]
    if differ:
        name = "name" if "name" in differ else differ[0]
        raise RecipeError(
            f"{folder.path} was cleaned by rules whose {name} is {str(index.clean[name])[:80]!r}, not "
            f"{str(rules[name])[:80]!r}: one folder has one set of rules; replace all with --overwrite"
        )
    return index


def _check_rules(index: Index, folder: Path) -> None:
    """Raise RecipeError unless the index has all cleaning rules of this version, and no others."""
    if check_cleaning_rules(index.clean, folder / INDEX).model_dump(mode="json") != index.clean:
        raise RecipeError(f"{folder / INDEX}: clean lacks cleaning rules of this version")


def _new_sources(found: Iterable[Source], before: Index, report: AppendReport) -> Iterator[tuple[Source, SourceInfo]]:
    """Yield the sources that the catalogue does not have, with their index entries; report the others."""
    hashes = {info.blake3 for info in before.sources if info.blake3 is not None}
    names = {info.name for info in before.sources}
    for source in found:
        info = SourceInfo(**{"name": source.name} | source.info)
        if info.blake3 in hashes:
            report.skipped.append(source.name)
        else:
            if info.blake3 is not None:
                hashes.add(info.blake3)
            name = utf8_name(str(source.path)) if source.name in names else source.name
            yield replace(source, name=name), info.model_copy(update={"name": name})


def _append_shards(
    folder: CatalogueTransaction, new: Iterable[tuple[Source, SourceInfo]], first: int
) -> Iterator[tuple[tuple[str, Shard], StagedRows]]:
    """Yield each shard, and its rows, which have no files yet. first: index of the first source."""
    directories: list[str] = []
    for number, (source, _) in enumerate(new, first):
        directories.append(folder.new_name(source.name, directories))
        for shard in source_shards([source]):
            yield shard, StagedRows((), directories[-1], (number,))


def _stage(
    process: Callable[[IngestItem], IngestedItem], staging: Path, shard: tuple[str, Shard]
) -> tuple[str, IngestReport]:
    """Write the rows of a shard to a file, with all rules applied except those on duplicates.

    Returns the name of the file within the staging directory, and the number of games, the unparsed texts and what is
    left out.
    """
    name, report = unique_file("rows"), IngestReport()
    with CatalogueWriter(staging / name) as writer:
        for ingested in map(process, ShardReader().items(shard)):  # a new reader: threads read several shards at a time
            report.left_out += ingested.left_out
            for rows in ingested.rows:
                writer.write(rows.batch(rows.drop))
                report.add_unparsed(rows.unparsed)
                report.read += len(rows.drop)
        writer.commit({})
    return name, report


@dataclass(frozen=True, slots=True)
class CompactReport(Report):
    """The result of compacting a folder."""

    before: int
    partitions: int
    games: IngestReport

    def __str__(self) -> str:
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
    appended at once or one after another. A folder to which nothing was appended since stays as it is. `jobs` and
    `engine` are those of `ingest`.

    Raises RecipeError if the path is a single file, or its cleaning rules are those of another version.
    """
    path = Path(path)
    check_partitioned(path)
    with CatalogueTransaction(path) as folder, make_executor(engine, jobs) as executor:
        assert folder.index is not None
        before = folder.index
        _check_rules(before, path)
        if before.compacted and all(part.path.startswith(f"compact-{before.compacted}/") for part in before.parts):
            return CompactReport(len(before.parts), len(before.parts), IngestReport.of(open_catalogue(path)))
        staging = folder.stage()
        with progress("compacting", before.read, "games") as bar:
            shards = list(_merge_shards(folder, before))
            staged = []
            names = executor.run(partial(_merge, staging), [rows for rows, _ in shards])
            for name, (rows, target) in zip(names, shards):
                staged.append(target._replace(names=(name,)))
                bar.advance(sum(some.rows for some in rows))
            games = IngestReport()
            partitions = write_partitions(folder, staging, staged, before, executor, games, replace=True)
        return CompactReport(len(before.parts), partitions, games)


def _merge_shards(folder: CatalogueTransaction, index: Index) -> Iterator[tuple[tuple[RowShard, ...], StagedRows]]:
    """Yield the rows of each new partition as they lie now, and as staged rows, which have no file yet."""
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
            yield rows, StagedRows((), directories[source], tuple(sources))


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


def _merge(staging: Path, shards: tuple[RowShard, ...]) -> str:
    name = unique_file("rows")
    with CatalogueWriter(staging / name) as writer:
        for rows in shards:
            for batch in read_shard(rows):
                writer.write(_keep_duplicates(batch))
        writer.commit({})
    return name


def _keep_duplicates(batch: pa.RecordBatch) -> pa.RecordBatch:
    drop = drop_codes(batch)
    duplicate = np.isin(drop, DUPLICATE_REASONS)
    detail = pc.if_else(pa.array(duplicate), pa.scalar(None, pa.string()), batch.column("drop_detail"))
    return with_drop(batch, np.where(duplicate, np.uint8(DropReason.KEPT), drop), detail)
