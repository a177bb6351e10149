"""A catalogue's folder while parts of it are being made: they have their names, and count, all at once or not at all.

Until then they lie in a hidden folder of it. What a run that was killed has left is removed by the next one that
writes; before that it counts for nothing, since the index does not list it.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import chain, count
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from kifu.atomic_io import cannot_write, locked_folder, temp_path, write_file
from kifu.corpus.catalogue import CatalogueWriter, open_catalogue
from kifu.corpus.duplicates import DuplicateFlags, flag_duplicates
from kifu.corpus.index import INDEX, PARTITION_PATH, Index, Partition, SourceInfo, has_index, read_index
from kifu.corpus.ingest import IngestReport
from kifu.corpus.schema import to_numpy
from kifu.errors import OutputError
from kifu.execution.executor import Executor, Job

_HIDDEN = ".new-"
_NAMES = "names.json"
_ARCHIVE = re.compile(r"(\.(tar|tgz|tbz2?|txz|zip|7z|gz|bz2|xz|zst|sgf|olf|parquet))+$", re.IGNORECASE)


class CatalogueTransaction:
    """The folder, which only one process at a time may hold. A context manager: what was not committed is gone."""

    def __init__(self, path: Path, keep: bool = False) -> None:
        """keep: what was made stays if an error is the reason to leave, for a run that goes on from there.

        Raises OutputError, also if the folder has something else in it, or FormatError for a damaged index.
        """
        self.path = path
        self.index: Index | None = None
        self._keep = keep
        self._lock = ExitStack()
        self._lock.enter_context(locked_folder(path))
        try:
            self.index = read_index(path) if has_index(path) else None
            self._require_ours()
            for hidden in self._hidden():
                if (hidden / _NAMES).exists():
                    self._clear(hidden)
        except BaseException:
            self._leave()
            raise

    def _require_ours(self) -> None:
        """Raises OutputError if there is no index, but something else than a run that was killed has left."""
        for entry in self.path.iterdir() if self.index is None else ():
            hidden = entry.name.startswith(_HIDDEN) or entry == temp_path(self.path / INDEX)
            if not hidden and not self._left_over(entry):
                raise OutputError(f"{self.path} contains {entry.name} and is not a catalogue; choose another folder")

    def _left_over(self, entry: Path) -> bool:
        """Whether it is what a run that was killed while it gave names has left."""
        return any(name.split("/")[0] == entry.name for hidden in self._hidden() for name in _named(hidden))

    def _hidden(self) -> list[Path]:
        return sorted(self.path.glob(f"{_HIDDEN}*"))

    def stage(self, identity: Any) -> Path:
        """The hidden folder for what is made from this, JSON values; as it was left, if it was kept.

        Raises OutputError.
        """
        key = f"{_HIDDEN}{blake3(json.dumps(identity, sort_keys=True).encode()).hexdigest(16)}-"
        try:
            kept = [hidden for hidden in self._hidden() if hidden.name.startswith(key)]
            for hidden in self._hidden():
                if hidden not in kept[:1]:
                    shutil.rmtree(hidden)
            # Another name each time: results of a cluster that tell of another folder's files are never taken for ours.
            staged = kept[0] if kept else self.path / f"{key}{uuid4().hex[:16]}"
            staged.mkdir(exist_ok=True)
        except OSError as error:
            raise cannot_write(self.path, error) from None
        return staged

    def new_name(self, name: str, taken: Iterable[str] = ()) -> str:
        """The name of a new folder within this one, see `free_name`. taken: more that others will have."""
        return unique_name(name, [*taken, *(entry.name for entry in self.path.iterdir())])

    def commit(self, staged: Path, parts: Mapping[str, Path], index: Index) -> None:
        """Gives files in the hidden folder their names, and then the index its place; removes what is not listed in it.

        Raises OutputError, and then the catalogue is what it was.
        """
        before = [] if self.index is None else [part.path for part in self.index.parts]
        write_file(staged / _NAMES, json.dumps([*parts, *before]).encode())
        try:
            for name, made in parts.items():
                target = self.path / name
                target.parent.mkdir(parents=True, exist_ok=True)
                made.replace(target)
        except OSError as error:
            raise cannot_write(self.path, error) from None
        index.write(self.path)
        self.index = index
        self._clear(staged)

    def _clear(self, hidden: Path) -> None:
        """Removes a hidden folder, and files that were to have a name, or had one, and are not listed."""
        listed = set() if self.index is None else {part.path for part in self.index.parts}
        top = self.path.resolve()
        try:
            for name in _named(hidden):
                path = self.path / name
                if name not in listed and path.resolve().is_relative_to(top):
                    path.unlink(missing_ok=True)
                    _remove_empty(path.parent, self.path)
            shutil.rmtree(hidden)
        except OSError as error:
            raise OutputError(f"cannot remove what is no part of {self.path}: {error.strerror or error}") from None

    def _leave(self) -> None:
        if self.index is None:
            _remove_empty(self.path, self.path.parent)
        self._lock.close()

    def __enter__(self) -> CatalogueTransaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hidden in self._hidden():
            if kind is None or not self._keep or (hidden / _NAMES).exists():
                with suppress(OutputError):  # what cannot be removed is left for the next run, as after a kill
                    self._clear(hidden)
        self._leave()


def unique_name(name: str, taken: Iterable[str]) -> str:
    """A plain name, made of any name, that none of those taken is, on systems that mix up upper and lower case too."""
    plain = re.sub(r"[^A-Za-z0-9_.+-]+", "_", _ARCHIVE.sub("", name))[:100].strip(".") or "source"
    used = {each.casefold() for each in taken}
    return next(each for each in chain([plain], (f"{plain}-{k}" for k in count(2))) if each.casefold() not in used)


def _named(hidden: Path) -> list[str]:
    """The names that were to be given, or taken away, when a commit began; others than a part's are left out."""
    try:
        names = json.loads((hidden / _NAMES).read_bytes())
    except (OSError, ValueError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str) and re.fullmatch(PARTITION_PATH, name)]


def _remove_empty(folder: Path, top: Path) -> None:
    """Removes a folder, and those around it up to `top`, as far as they are empty."""
    while folder != top:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


FIRST, LAST = 1900, 2099
"""Years that have parts of their own."""

EARLIER, UNKNOWN = FIRST - 1, LAST + 1

_HELD = 1 << 17
"""Rows, at most, of the parts of several years that are written at a time."""

_OPEN = 64
"""Parts that are written at a time."""


def year_name(year: int) -> str:
    """What the parts of a year are called: "2016"; "before-1900", and "unknown", also for years to come."""
    return {EARLIER: f"before-{FIRST}", UNKNOWN: "unknown"}.get(year, str(year))


def partition_years(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The year of each row's part: [G], FIRST to LAST, or EARLIER, or UNKNOWN. batch: with column `year`."""
    years = to_numpy(pc.fill_null(batch.column("year"), UNKNOWN)).astype(np.int64)
    known = np.clip(years, EARLIER, UNKNOWN)
    return np.where(years < 0, UNKNOWN, known)


class StagedRows(NamedTuple):
    """Catalogues in the hidden folder, not judged yet, that become parts as if they were one.

    names: in that folder. group: which folder their parts belong to. sources: places in the index."""

    names: tuple[str, ...]
    group: str
    sources: tuple[int, ...]


class StagedPartition(NamedTuple):
    """A part that lies in the hidden folder still. name: there. drops: by the name of the `Drop`."""

    name: str
    year: int
    rows: int
    kept: int
    moves: int
    drops: dict[str, int]
    bytes: int
    blake3: str


class PartitionShard(NamedTuple):
    """Files of rows, and what is said of them."""

    files: StagedRows
    verdict: DuplicateFlags


class PartitionJob(Job[PartitionShard, PartitionShard, list[StagedPartition]]):
    """From files of rows to their parts, one for each year, in the hidden folder."""

    def __init__(self, staged: Path, clean: dict[str, Any], origins: Sequence[SourceInfo]) -> None:
        """clean, origins: as in the index."""
        self._staged = staged
        self._clean = clean
        self._origins = [origin.model_dump(exclude_none=True) for origin in origins]

    def fingerprint(self) -> Any:
        return [self._staged.name, self._clean, self._origins]

    def shard_fingerprint(self, shard: PartitionShard) -> Any:
        return [*shard.files, blake3(b"".join(column.tobytes() for column in shard.verdict)).hexdigest()]

    def process(self, item: PartitionShard) -> list[StagedPartition]:
        files, verdict = item
        counts = np.zeros(UNKNOWN - EARLIER + 1, np.int64)
        for batch in self._batches(files, ("year",)):
            counts += np.bincount(partition_years(batch) - EARLIER, minlength=len(counts))
        made = []
        for years in _at_a_time(counts) or [[UNKNOWN]]:
            with ExitStack() as stack:
                parts = {year: stack.enter_context(_Part(self._staged, year)) for year in years}
                first = 0
                for batch in self._batches(files):
                    judged, of = verdict.applied(batch, first), partition_years(batch)
                    for year in np.intersect1d(of, years).tolist():
                        parts[year].write(judged.filter(pa.array(of == year)))
                    first += len(batch)
                about = {"clean": self._clean, "sources": [self._origins[source] for source in files.sources]}
                made += [part.end(about) for part in parts.values()]
        return made

    def _batches(self, files: StagedRows, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        for name in files.names:
            yield from open_catalogue(self._staged / name).batches(columns)


class _Part:
    """A part while it is written. A context manager."""

    def __init__(self, staged: Path, year: int) -> None:
        self._name = f"{uuid4().hex}.part"  # of its own: a unit may be made twice at the same time
        self._year = year
        self._told = IngestReport()
        self._writer = CatalogueWriter(staged / self._name)

    def write(self, rows: pa.RecordBatch) -> None:
        self._told.add(rows)
        self._writer.write(rows)

    def end(self, about: dict[str, Any]) -> StagedPartition:
        told, drops = self._told, dict(sorted(self._told.drops.items()))
        digest = self._writer.commit(about | {"read": told.read, "kept": told.kept, "drops": drops})
        return StagedPartition(
            self._name, self._year, told.read, told.kept, told.moves, drops, self._writer.size, digest
        )

    def __enter__(self) -> _Part:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._writer.__exit__(*exception)


def _at_a_time(counts: npt.NDArray[np.int64]) -> list[list[int]]:
    """The years, rising, whose parts are written together. counts: rows by year, from EARLIER on."""
    groups: list[list[int]] = []
    held = 0
    for k in np.flatnonzero(counts).tolist():
        if not groups or held + counts[k] > _HELD or len(groups[-1]) == _OPEN:
            groups.append([])
            held = 0
        groups[-1].append(EARLIER + k)
        held += counts[k]
    return groups


def write_partitions(
    folder: CatalogueTransaction, staged: Path, files: Sequence[StagedRows], before: Index, executor: Executor, told: IngestReport, *,
    anew: bool,
) -> int:  # fmt: skip
    """Makes parts of files of rows, gives them their names, and lists them behind those of `before`, if not `anew`,
    in the place of all otherwise. Returns how many parts it made.

    before: with all sources, those of the files too. told: gets what became of the rows, and the bytes of the parts.
    Raises FormatError, OutputError.
    """
    old = [] if anew or not before.parts else [str(folder.path)]
    paths = [[str(staged / name) for name in each.names] for each in files]
    starts = np.cumsum([0, *(sum(open_catalogue(path).rows for path in some) for some in paths)]).tolist()
    first = before.read if old else 0
    verdict = flag_duplicates([*old, *chain.from_iterable(paths)], first, before.clean["duplicates"], executor)
    units = [PartitionShard(some, verdict.within(*bounds)) for some, *bounds in zip(files, starts, starts[1:])]
    made = list(executor.run(PartitionJob(staged, before.clean, before.sources), units))
    named = list(_name_partitions(files, made))
    for _, part in named:
        told.read, told.kept, told.moves = told.read + part.rows, told.kept + part.kept, told.moves + part.moves
        told.drops.update(part.drops)
        told.bytes += part.bytes
    listed, drops = [part for part, _ in named], Counter(told.drops)
    if old:
        listed, drops = [*before.parts, *listed], drops + Counter(before.drops)
    index = Index(
        kifu=importlib.metadata.version("kifu"),
        clean=before.clean,
        compacted=before.compacted + anew,
        sources=before.sources,
        read=sum(part.rows for part in listed),
        kept=sum(part.kept for part in listed),
        drops=dict(sorted(drops.items())),
        parts=tuple(listed),
    )
    folder.commit(staged, {part.path: staged / each.name for part, each in named}, index)
    return len(named)


def _name_partitions(
    files: Sequence[StagedRows], made: Iterable[list[StagedPartition]]
) -> Iterator[tuple[Partition, StagedPartition]]:
    """The parts with their names and in their order: by folder, year, and file. An empty one is listed only if its
    folder has no other, so that each source has a part."""
    groups: dict[str, list[tuple[StagedPartition, StagedRows]]] = {}
    for some, of_some in zip(files, made):
        groups.setdefault(some.group, []).extend((part, some) for part in of_some)
    for group, all_parts in groups.items():
        parts = [each for each in all_parts if each[0].rows] or all_parts[:1]
        number: Counter[int] = Counter()
        of_year = Counter(part.year for part, _ in parts)
        for part, some in sorted(parts, key=lambda each: each[0].year):
            number[part.year] += 1
            suffix = f"-{number[part.year]:04}" if of_year[part.year] > 1 else ""
            year = year_name(part.year)
            told = {name: getattr(part, name) for name in ("rows", "kept", "bytes", "blake3")}
            yield Partition(path=f"{group}/{year}{suffix}.parquet", sources=some.sources, year=year, **told), part
