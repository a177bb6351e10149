"""A folder's many small parts put together into few large ones, and its games judged anew for copies among them all."""

from __future__ import annotations

import importlib.metadata
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kifu.atomic_io import staging_dir
from kifu.corpus.catalogue import CatalogueWriter, RowsUnit, by_value, drop_code, is_catalogue, rows_of_unit
from kifu.corpus.folder import CatalogueTransaction, free_name
from kifu.corpus.index import Index, Partition, has_index
from kifu.corpus.ingest import IngestReport
from kifu.corpus.layout import RowsFiles, make_parts
from kifu.corpus.rows import with_drop
from kifu.corpus.verdict import COPIES
from kifu.errors import DropReason, FormatError, RecipeError
from kifu.execution.executor import THREADS, Job, make_executor
from kifu.execution.serialization import Parcel
from kifu.progress import ProgressFactory, silent

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
        make_executor(engine, jobs, staging_dir(path)) as crew,
    ):
        before = folder.index
        assert before is not None
        staged = folder.stage([importlib.metadata.version("kifu"), "compact", before.model_dump()])
        with progress("compacting", before.read, "games") as bar:
            units = list(_units(folder, before))
            files = []
            for made, unit in zip(crew.run(MergeJob(staged), units), units):
                files.append(RowsFiles((made,), unit.group, unit.sources))
                bar.advance(sum(rows.rows for rows in unit.rows))
            games = IngestReport()
            parts = make_parts(folder, staged, files, before, crew, games, anew=True)
        return CompactReport(len(before.parts), parts, games)


class MergeUnit(NamedTuple):
    """Rows that are to be one part. group: its folder. sources: places in the index, rising."""

    group: str
    sources: tuple[int, ...]
    rows: tuple[RowsUnit, ...]


def _units(folder: CatalogueTransaction, index: Index) -> Iterator[MergeUnit]:
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
        names[source] = free_name(index.sources[source].name, names.values())
    groups = {_SHARED: top} | {source: f"{top}/{name}" for source, name in names.items()}
    for source, year in sorted(together):
        for piece in _pieces(together[source, year]):
            sources = sorted({source for part, _ in piece for source in part.sources})
            rows = tuple(RowsUnit(str(folder.path / part.path), some.start, len(some)) for part, some in piece)
            yield MergeUnit(groups[source], tuple(sources), rows)


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


class MergeJob(Job[MergeUnit, MergeUnit, str]):
    """From rows of parts to files of rows in the hidden folder, by their names in it; those that were set aside as
    copies are kept again."""

    def __init__(self, staged: Path) -> None:
        self._staged = staged

    def identity(self) -> Any:
        return self._staged.name

    def unit_identity(self, unit: MergeUnit) -> Any:
        return [unit.group, unit.sources, [rows.identity() for rows in unit.rows]]

    def items(self, unit: MergeUnit) -> Iterator[MergeUnit]:
        yield unit

    def make(self, item: MergeUnit) -> str:
        name = f"{uuid4().hex}.rows"  # of its own: a unit may be made twice at the same time
        with CatalogueWriter(self._staged / name) as writer:
            for rows in item.rows:
                for batch in rows_of_unit(rows):
                    writer.write(_kept_again(batch))
            writer.commit({})
        return name

    def pack(self, result: str) -> Parcel:
        return {"name": result}

    def unpack(self, parcel: Parcel) -> str:
        return str(parcel["name"])


def _kept_again(batch: pa.RecordBatch) -> pa.RecordBatch:
    drop = by_value(batch.column("drop"), drop_code, np.uint8)
    copies = np.isin(drop, COPIES)
    detail = pc.if_else(pa.array(copies), pa.scalar(None, pa.string()), batch.column("drop_detail"))
    return with_drop(batch, np.where(copies, np.uint8(DropReason.KEPT), drop), detail)
