"""From files of rows to the parts of a folder: divided by year, set aside as judged, named, and listed."""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from kifu.corpus.catalogue import CatalogueWriter, numbers, open_catalogue
from kifu.corpus.folder import CatalogueTransaction
from kifu.corpus.index import Index, Partition, SourceInfo
from kifu.corpus.ingest import IngestReport
from kifu.corpus.verdict import DuplicateFlags, judge_copies
from kifu.execution.executor import Executor, Job
from kifu.execution.serialization import Parcel

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


def years_of(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The year of each row's part: [G], FIRST to LAST, or EARLIER, or UNKNOWN. batch: with column `year`."""
    years = numbers(pc.fill_null(batch.column("year"), UNKNOWN)).astype(np.int64)
    known = np.clip(years, EARLIER, UNKNOWN)
    return np.where(years < 0, UNKNOWN, known)


class RowsFiles(NamedTuple):
    """Catalogues in the hidden folder, not judged yet, that become parts as if they were one.

    names: in that folder. group: which folder their parts belong to. sources: places in the index."""

    names: tuple[str, ...]
    group: str
    sources: tuple[int, ...]


class MadePartition(NamedTuple):
    """A part that lies in the hidden folder still. name: there. drops: by the name of the `Drop`."""

    name: str
    year: int
    rows: int
    kept: int
    moves: int
    drops: dict[str, int]
    bytes: int
    blake3: str


class PartsUnit(NamedTuple):
    """Files of rows, and what is said of them."""

    files: RowsFiles
    verdict: DuplicateFlags


class PartsJob(Job[PartsUnit, PartsUnit, list[MadePartition]]):
    """From files of rows to their parts, one for each year, in the hidden folder."""

    def __init__(self, staged: Path, clean: dict[str, Any], origins: Sequence[SourceInfo]) -> None:
        """clean, origins: as in the index."""
        self._staged = staged
        self._clean = clean
        self._origins = [origin.model_dump(exclude_none=True) for origin in origins]

    def identity(self) -> Any:
        return [self._staged.name, self._clean, self._origins]

    def unit_identity(self, unit: PartsUnit) -> Any:
        return [*unit.files, blake3(b"".join(column.tobytes() for column in unit.verdict)).hexdigest()]

    def items(self, unit: PartsUnit) -> Iterator[PartsUnit]:
        yield unit

    def make(self, item: PartsUnit) -> list[MadePartition]:
        files, verdict = item
        counts = np.zeros(UNKNOWN - EARLIER + 1, np.int64)
        for batch in self._batches(files, ("year",)):
            counts += np.bincount(years_of(batch) - EARLIER, minlength=len(counts))
        made = []
        for years in _at_a_time(counts) or [[UNKNOWN]]:
            with ExitStack() as stack:
                parts = {year: stack.enter_context(_Part(self._staged, year)) for year in years}
                first = 0
                for batch in self._batches(files):
                    judged, of = verdict.applied(batch, first), years_of(batch)
                    for year in np.intersect1d(of, years).tolist():
                        parts[year].write(judged.filter(pa.array(of == year)))
                    first += len(batch)
                about = {"clean": self._clean, "sources": [self._origins[source] for source in files.sources]}
                made += [part.end(about) for part in parts.values()]
        return made

    def _batches(self, files: RowsFiles, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        for name in files.names:
            yield from open_catalogue(self._staged / name).batches(columns)

    def pack(self, result: list[MadePartition]) -> Parcel:
        return {"parts": result}

    def unpack(self, parcel: Parcel) -> list[MadePartition]:
        return [MadePartition(*part) for part in parcel["parts"]]


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

    def end(self, about: dict[str, Any]) -> MadePartition:
        told, drops = self._told, dict(sorted(self._told.drops.items()))
        digest = self._writer.commit(about | {"read": told.read, "kept": told.kept, "drops": drops})
        return MadePartition(self._name, self._year, told.read, told.kept, told.moves, drops, self._writer.size, digest)

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


def make_parts(
    folder: CatalogueTransaction, staged: Path, files: Sequence[RowsFiles], before: Index, crew: Executor, told: IngestReport, *,
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
    verdict = judge_copies([*old, *chain.from_iterable(paths)], first, before.clean["duplicates"], crew)
    units = [PartsUnit(some, verdict.within(*bounds)) for some, *bounds in zip(files, starts, starts[1:])]
    made = list(crew.run(PartsJob(staged, before.clean, before.sources), units))
    named = list(_named(files, made))
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


def _named(
    files: Sequence[RowsFiles], made: Iterable[list[MadePartition]]
) -> Iterator[tuple[Partition, MadePartition]]:
    """The parts with their names and in their order: by folder, year, and file. An empty one is listed only if its
    folder has no other, so that each source has a part."""
    groups: dict[str, list[tuple[MadePartition, RowsFiles]]] = {}
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
