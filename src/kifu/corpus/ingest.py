"""From any mix of sources to one catalogue: read, cleaned, hashed, in order, by any number of threads or machines."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from blake3 import blake3

from kifu.atomic_io import remove_file, staging_dir, temp_path
from kifu.corpus.catalogue import CatalogueWriter, open_catalogue
from kifu.corpus.cleaning import CleaningRules, load_cleaning_rules
from kifu.corpus.duplicates import MAX_IDS, IdSet, exact_duplicates, flag_duplicates
from kifu.corpus.fields import UnparsedTexts
from kifu.corpus.rows import Rows, rows_from_catalogue, rows_from_parsed
from kifu.corpus.schema import drop_code, map_distinct, to_numpy, with_drop
from kifu.corpus.sources import (
    Content,
    HashedSources,
    ShardReader,
    Source,
    SourceShard,
    find_sources,
    hash_sources,
    source_shards,
)
from kifu.errors import DropReason, KifuError
from kifu.execution.executor import THREADS, Executor, Job, make_executor
from kifu.progress import ProgressFactory, format_bytes, silent
from kifu.records.parse import parse_block
from kifu.records.programs import known_programs
from kifu.records.tygem import TygemIndex, load_index

_UNCLEAR_KEPT = 1_000
"""Distinct texts of one column that are counted one by one."""

_UNCLEAR_SHOWN = 5


@dataclass(slots=True)
class IngestReport:
    """What became of the games; read == kept + the sum of drops."""

    read: int = 0
    kept: int = 0
    moves: int = 0
    """Of the kept games, passes too."""
    drops: Counter[str] = field(default_factory=Counter)
    """By the name of the `DropReason`."""
    unparsed: UnparsedTexts = field(default_factory=dict)
    """By column, texts that were not understood, with their counts."""
    bytes: int = 0
    """Of the catalogue."""

    def __str__(self) -> str:
        """What there is to say on a terminal, some lines."""
        drops = "".join(f" + {n:,} {name.lower().replace('_', ' ')}" for name, n in self.drops.most_common())
        lines = [f"{self.read:,} games = {self.kept:,} kept{drops}; {self.moves:,} moves, {format_bytes(self.bytes)}"]
        for column, texts in self.unparsed.items():
            shown = ", ".join(f"{text!r} {count:,}" for text, count in texts.most_common(_UNCLEAR_SHOWN))
            more = ", ..." if len(texts) > _UNCLEAR_SHOWN else ""
            lines.append(f"  not understood, kept as text: {sum(texts.values()):,} of {column}: {shown}{more}")
        return "\n".join(lines)

    def add(self, batch: pa.RecordBatch) -> None:
        drop = map_distinct(batch.column("drop"), drop_code, np.uint8)
        kept = drop == DropReason.KEPT
        self.read += len(drop)
        self.kept += int(kept.sum())
        self.moves += int(to_numpy(batch.column("n_legal"))[kept].sum())
        self.drops.update({DropReason(k).name: int(n) for k, n in zip(*np.unique(drop[~kept], return_counts=True))})

    def add_unparsed(self, unclear: UnparsedTexts) -> None:
        for column, texts in unclear.items():
            known = self.unparsed.setdefault(column, Counter())
            for text, count in texts.items():
                known[text if text in known or len(known) < _UNCLEAR_KEPT else "..."] += count


@dataclass(frozen=True, slots=True)
class IngestItem:
    """What a thread makes rows of at one go. name: what a catalogue calls the container."""

    name: str
    content: Content


def read_items(sources: Iterable[Source]) -> Iterator[IngestItem]:
    """What threads share the work by, in order. Raises SourceError or FormatError as it is drawn from."""
    reader = ShardReader()
    for unit in source_shards(sources):
        for content in reader.read(unit.part):
            yield IngestItem(unit.name, content)


class IngestJob(Job[SourceShard, IngestItem, list[Rows]]):
    """From units to the rows of a catalogue, judged as far as one game alone can be."""

    def __init__(self, clean: CleaningRules, index: TygemIndex | None) -> None:
        """index: see `kifu.records.tygem`. Raises RecipeError for a program's name that is none."""
        self._clean = clean
        self._index = index
        self._programs = known_programs(*clean.program_names)
        self._reader = ShardReader()

    def fingerprint(self) -> Any:
        index = None if self._index is None else blake3(self._index.data.data).hexdigest()
        return {"clean": self._clean.model_dump(mode="json"), "index": index}

    def shard_fingerprint(self, shard: SourceShard) -> Any:
        return shard.fingerprint()

    def read(self, shard: SourceShard) -> Iterator[IngestItem]:
        for content in self._reader.read(shard.part):
            yield IngestItem(shard.name, content)

    def process(self, item: IngestItem) -> list[Rows]:
        if isinstance(item.content, pa.RecordBatch):
            return [rows_from_catalogue(item.content, self._clean)]
        read = parse_block(item.content, self._index)
        return [rows_from_parsed(each, item.name, self._clean, self._programs) for each in read]


def ingest(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | HashedSources,
    path: str | os.PathLike[str],
    *,
    clean: CleaningRules | None = None,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> IngestReport:
    """Reads every game of the sources into a catalogue at `path`, in order; games set aside are rows as well.

    sources: archives, folders and records as `kifu.read` takes them, and catalogues, whose games are judged anew.
    clean: the rules of cleaning, by default those named "legal". jobs, engine: see `kifu.execution.executor.make_executor`; the bytes
    are the same for any. Memory does not grow with the games, but for a list of those that are another one once more:
    what only the whole corpus can tell waits in hidden files beside `path`, see `kifu.corpus.duplicates` and
    `kifu.corpus.duplicates`.
    Raises SourceError, FormatError, OutputError or ClusterError, and then there is no new file.
    """
    path = Path(path)
    clean = clean or load_cleaning_rules("legal")
    found = sources.sources if isinstance(sources, HashedSources) else find_sources(sources)
    job = IngestJob(clean, load_index([source.path for source in found if source.catalogue is None]))
    told = IngestReport()
    with make_executor(engine, jobs, staging_dir(path)) as executor, progress("reading games", None, "games") as bar:
        measured = sources.hashes if isinstance(sources, HashedSources) else hash_sources(found, executor)
        made = _noted(executor.run(job, source_shards(found, measured)), told)
        # Whoever ends it early, the hidden files are gone before another process may write to `path`.
        with CatalogueWriter(path) as writer, closing(mark_duplicates(made, clean, executor, path)) as batches:
            for batch in batches:
                writer.write(batch)
                told.add(batch)
                bar.advance(len(batch))
            counts = {"read": told.read, "kept": told.kept, "drops": dict(sorted(told.drops.items()))}
            writer.commit({"clean": clean.model_dump(mode="json"), "sources": measured} | counts)
    told.bytes = path.stat().st_size
    return told


def mark_duplicates(
    made: Iterator[Rows], clean: CleaningRules, executor: Executor, path: Path
) -> Generator[pa.RecordBatch]:
    """Rows of a catalogue with their final reasons, in order; with what only the whole corpus can tell.

    executor: looks for duplicates, once `made` has ended. path: beside it hidden files may lie until this ends, and those
    that a killed run has left there are removed: nobody else may be at it.
    """
    rest, first = (path.with_name(f".{path.name}.{name}") for name in ("rest", "first"))
    for hidden in (rest, first):
        _discard(temp_path(hidden))
        _discard(hidden)
    if clean.duplicates == "keep":
        return (rows.batch(rows.drop) for rows in made)
    batches = _without_equals(made, rest)
    return _without_copies(batches, first, executor) if clean.duplicates == "games" else batches


def _noted(made: Iterable[list[Rows]], told: IngestReport) -> Generator[Rows]:
    for rows in chain.from_iterable(made):
        told.add_unparsed(rows.unparsed)
        yield rows


def _without_equals(made: Iterator[Rows], rest: Path) -> Generator[pa.RecordBatch]:
    """The rows, games set aside that are equal to an earlier one in all fields.

    Once there are too many ids to be kept, what follows has to lie in the file `rest` until its ids can be compared.
    """
    seen = IdSet(MAX_IDS)
    for rows in made:
        batch = _without_seen(rows, seen)
        if seen.full:
            break
        yield batch
    else:
        return
    with _set_down(chain([batch], (_without_seen(rows, seen) for rows in made)), rest):
        del seen
        copies, at = exact_duplicates([rest], most=MAX_IDS), 0
        for batch in open_catalogue(rest).batches():
            drop = map_distinct(batch.column("drop"), drop_code, np.uint8)
            drop[copies[slice(*np.searchsorted(copies, [at, at + len(batch)]))] - at] = DropReason.DUPLICATE
            yield with_drop(batch, drop, batch.column("drop_detail"))
            at += len(batch)


def _without_seen(rows: Rows, seen: IdSet) -> pa.RecordBatch:
    drop = rows.drop.copy()
    kept = np.flatnonzero(drop == DropReason.KEPT)
    drop[kept[~seen.add(rows.columns["id"].to_numpy()[kept])]] = DropReason.DUPLICATE
    return rows.batch(drop)


def _without_copies(batches: Generator[pa.RecordBatch], first: Path, executor: Executor) -> Generator[pa.RecordBatch]:
    """The same rows, once all of them lie in the file `first`: games that are another one once more are set aside."""
    with closing(batches), _set_down(batches, first):
        verdict, at = flag_duplicates([first], 0, "games", executor), 0
        for batch in open_catalogue(first).batches():
            yield verdict.applied(batch, at)
            at += len(batch)


def _discard(hidden: Path) -> None:
    with suppress(KifuError):
        remove_file(hidden)


@contextmanager
def _set_down(batches: Iterable[pa.RecordBatch], hidden: Path) -> Iterator[None]:
    """All of these rows in a hidden file, for as long as it is needed."""
    try:
        with CatalogueWriter(hidden) as writer:
            for batch in batches:
                writer.write(batch)
            writer.commit({})
        yield
    finally:
        _discard(hidden)
