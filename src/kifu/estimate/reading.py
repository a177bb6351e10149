"""How fast games are read into a catalogue, and what becomes of them: the sample goes the way that `ingest` goes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import perf_counter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.catalogue import CatalogueWriter, open_catalogue
from kifu.corpus.cleaning import CleaningRules
from kifu.corpus.ingest import IngestItem, IngestJob, mark_duplicates
from kifu.corpus.parquet import GROUP_ROWS
from kifu.corpus.rows import Rows
from kifu.corpus.schema import to_numpy
from kifu.corpus.sources import Content
from kifu.estimate.sample import SamplePart
from kifu.execution.executor import ThreadExecutor
from kifu.records.tygem import TygemIndex


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds that some work takes: with one thread, with as many as were asked for or there are cores for, and what
    of it one thread does alone, however many there are."""

    one: float
    several: float
    alone: float

    @classmethod
    def of(cls, one: float, more: float, several: int, alone: float = 0.0) -> Speed:
        """As it was measured with one thread and with several: these are not slower than one, nor more times as quick
        as they are, but where one of them has warmed up what the other found warm."""
        return cls(one, min(max(more, one / several), one), alone)

    def times(self, factor: float) -> Speed:
        """Of so many times the work."""
        return Speed(self.one * factor, self.several * factor, self.alone * factor)

    def plus(self, other: Speed) -> Speed:
        """Of both, one after the other."""
        return Speed(self.one + other.one, self.several + other.several, self.alone + other.alone)


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """What became of the sample's games: [P] float64 each, by part. moves: those of the kept games."""

    games: npt.NDArray[np.float64]
    kept: npt.NDArray[np.float64]
    moves: npt.NDArray[np.float64]
    part: npt.NDArray[np.int64]
    """[G] int64: the part that each row of the sample's catalogue is of."""


class SampleReader:
    """Makes rows of the parts of a sample by the rules of cleaning, and catalogues of them."""

    def __init__(self, parts: Sequence[SamplePart], clean: CleaningRules, index: TygemIndex | None) -> None:
        """index: of TYGEM games, of all sources."""
        self._parts = parts
        self._clean = clean
        self._job = IngestJob(clean, index)

    def write(self, path: Path, jobs: int, most: int | None = None) -> tuple[SampleCounts, float, float]:
        """Writes the sample as a catalogue -> what was counted, the seconds, and those in which rows were made.

        most: so many items only, as a warm-up.
        """
        of: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
        making = 0.0

        def rows() -> Iterator[Rows]:
            nonlocal making
            for k, made, seconds in executor.map(self._make, self._items(most)):
                making += seconds
                of.extend(np.full(len(each.drop), k) for each in made)
                yield from made

        began = perf_counter()
        with ThreadExecutor(jobs) as executor, CatalogueWriter(path) as writer:
            with closing(mark_duplicates(rows(), self._clean, executor, path)) as batches:
                for batch in batches:
                    writer.write(batch)
            writer.commit({"clean": self._clean.model_dump(mode="json")})
        taken = perf_counter() - began
        return _count(path, np.concatenate(of), len(self._parts)), taken, making

    def _items(self, most: int | None) -> Iterator[tuple[int, Content]]:
        items = [(k, item) for k, part in enumerate(self._parts) for item in part.items]
        yield from items[:most]

    def _make(self, numbered: tuple[int, Content]) -> tuple[int, list[Rows], float]:
        began = perf_counter()
        k, content = numbered
        made = self._job.process(IngestItem(self._parts[k].source.name, content))
        return k, made, perf_counter() - began


def copy_rows(parts: Sequence[SamplePart], path: Path, about: Mapping[str, object]) -> SampleCounts:
    """A sample's catalogue whose rows are those of catalogues that are taken as they are. about: what theirs say."""
    of = [np.empty(0, np.int64)]
    with CatalogueWriter(path) as writer:
        for k, part in enumerate(parts):
            for batch in part.items:
                assert isinstance(batch, pa.RecordBatch)
                writer.write(batch)
                of.append(np.full(len(batch), k))
        writer.commit(about)
    return _count(path, np.concatenate(of), len(parts))


def size_of(path: Path, rows: float) -> float:
    """Bytes that a catalogue has if it has so many rows, like those of a sample's: beside these it has an end, and in
    it a description of each of its row groups."""
    sample = open_catalogue(path)
    sizes = []
    for some in (0, 1):
        with CatalogueWriter(path.with_name("end.parquet")) as writer:
            for batch in islice(sample.batches(), some):
                writer.write(batch.slice(0, some))
            writer.commit(sample.metadata)
            sizes.append(writer.size)
    none, one = sizes
    if not sample.rows:
        return none
    groups = max(math.ceil(rows / GROUP_ROWS), 1)
    own = max(path.stat().st_size - none - math.ceil(sample.rows / GROUP_ROWS) * (one - none), 0)
    return none + groups * (one - none) + own * rows / sample.rows


def _count(path: Path, part: npt.NDArray[np.int64], parts: int) -> SampleCounts:
    """Counts the rows of a catalogue. part: [G], which of the parts each is of."""
    kept, moves = [np.empty(0)], [np.empty(0)]
    for batch in open_catalogue(path).batches(("drop", "n_legal")):
        stays = batch["drop"].is_null().to_numpy(zero_copy_only=False)
        kept.append(stays.astype(np.float64))
        moves.append(stays * to_numpy(batch["n_legal"]).astype(np.float64))
    games = np.bincount(part, minlength=parts).astype(np.float64)
    sums = [np.bincount(part, np.concatenate(each), minlength=parts).astype(np.float64) for each in (kept, moves)]
    return SampleCounts(games, sums[0], sums[1], part)
