"""Ingest any mix of sources into one catalogue: parse, clean, hash and find duplicates, in parallel and in order."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kifu.corpus.catalogue import Catalogue, CatalogueWriter, number_batches, open_catalogue
from kifu.corpus.cleaning import CleaningRules, load_cleaning_rules
from kifu.corpus.duplicates import MAX_IDS, IdSet, exact_duplicates, flag_duplicates
from kifu.corpus.parquet import keep_table
from kifu.corpus.rows import Rows, UnparsedTexts, rows_from_catalogue, rows_from_parsed
from kifu.corpus.schema import count_drops, count_repairs, drop_codes, to_numpy, with_drop
from kifu.corpus.sources import (
    GameSources,
    IngestItem,
    ShardReader,
    Source,
    add_left_out,
    count_left_out,
    find_sources,
    hash_sources,
    hashed_infos,
    require_unchanged,
    source_shards,
)
from kifu.errors import DropReason, KifuError, printable
from kifu.execution.executor import THREADS, Executor, make_executor
from kifu.io import remove_file, temp_path
from kifu.progress import ProgressFactory, silent
from kifu.records.games import UNREADABLE, LeftOut
from kifu.records.parse import parse_block
from kifu.records.text import Programs, known_programs
from kifu.records.tygem import TygemIndex, load_index
from kifu.text import Report, format_bytes, format_games

_MAX_UNPARSED = 1_000
"""Distinct unparsed texts per column that are counted separately."""

_SHOWN_UNPARSED = 5


@dataclass(slots=True, repr=False)
class IngestReport(Report):
    """Counts of ingested games; `read` == `kept` + the sum of `drops`.

    Attributes:
        kept: Number of games that are not dropped.
        moves: Number of legal moves of kept games, passes included.
        drops: Number of dropped games by the name of the `DropReason`.
        repairs: Number of kept games by the name in column `repairs`.
        unparsed: By text column, the texts that could not be parsed, with their counts.
        left_out: Number of files and of members of archives that are not read, by kind.
    """

    read: int = 0
    kept: int = 0
    moves: int = 0
    drops: Counter[str] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)
    unparsed: UnparsedTexts = field(default_factory=dict)
    bytes: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        games = format_games(self.read, self.kept, dict(self.drops.most_common()))
        lines = [f"{games}; {self.moves:,} legal moves, {format_bytes(self.bytes)}"]
        if self.repairs:
            lines.append(f"  kept with repairs: {', '.join(f'{name} {n:,}' for name, n in self.repairs.most_common())}")
        for column, texts in self.unparsed.items():
            shown = ", ".join(f"{text!r} {count:,}" for text, count in texts.most_common(_SHOWN_UNPARSED))
            more = ", ..." if len(texts) > _SHOWN_UNPARSED else ""
            lines.append(f"  not parsed, kept as text: {sum(texts.values()):,} of {column}: {shown}{more}")
        lines += [f"  {printable(kind)}" for kind in self.left_out if f": {UNREADABLE}" in kind]
        return "\n".join(lines)

    @classmethod
    def of(cls, catalogue: Catalogue) -> IngestReport:
        """Return the counts of a catalogue."""
        report = cls(bytes=catalogue.file_bytes())
        for batch in catalogue.batches(("drop", "n_legal", "repairs")):
            report.add(batch)
        return report

    def add(self, batch: pa.RecordBatch) -> None:
        """Count rows of the catalogue."""
        drop = drop_codes(batch)
        kept = drop == DropReason.KEPT
        self.read += len(drop)
        self.kept += int(kept.sum())
        self.moves += int(to_numpy(batch.column("n_legal"))[kept].sum())
        self.drops.update(count_drops(drop))
        counts = batch.column("repairs").filter(pa.array(kept)).value_counts()
        self.repairs.update(count_repairs(zip(*(part.to_pylist() for part in counts.flatten()))))

    def counts(self) -> dict[str, Any]:
        """Return the numbers that the metadata of a catalogue list."""
        return {"read": self.read, "kept": self.kept, "drops": dict(sorted(self.drops.items()))}

    def include(self, other: IngestReport) -> None:
        """Add the counts of games and bytes of another report."""
        self.read, self.kept, self.moves = self.read + other.read, self.kept + other.kept, self.moves + other.moves
        self.bytes += other.bytes
        self.drops.update(other.drops)
        self.repairs.update(other.repairs)

    def add_unparsed(self, unparsed: UnparsedTexts) -> None:
        """Count unparsed texts; beyond 1,000 distinct ones per column they are counted as "..."."""
        for column, texts in unparsed.items():
            counts = self.unparsed.setdefault(column, Counter())
            for text, count in texts.items():
                counts[text if text in counts or len(counts) < _MAX_UNPARSED else "..."] += count


class IngestedItem(NamedTuple):
    """The rows of an item."""

    rows: list[Rows]
    container: str  # its path; "" for rows of a catalogue
    left_out: Counter[str]  # see `RecordBlock`


def read_items(sources: Iterable[Source]) -> Iterator[IngestItem]:
    """Read all sources in order."""
    return chain.from_iterable(map(ShardReader().items, source_shards(sources)))


def ingester(rules: CleaningRules, index: TygemIndex | None) -> Callable[[IngestItem], IngestedItem]:
    """Return `ingest_item` for some rules. Raises RecipeError if a program's name in them is invalid."""
    return partial(ingest_item, rules, index, known_programs(*rules.program_names))


def ingest_item(rules: CleaningRules, index: TygemIndex | None, programs: Programs, item: IngestItem) -> IngestedItem:
    """Parse, replay and clean the games of an item, except for the rules on duplicates. index: of TYGEM games."""
    name, block = item
    if isinstance(block, pa.RecordBatch):
        return IngestedItem([rows_from_catalogue(block, rules)], "", Counter())
    rows = [rows_from_parsed(each, name, rules, programs) for each in parse_block(block, index)]
    return IngestedItem(rows, block.source, block.left_out)


def ingest(
    sources: GameSources,
    output: str | os.PathLike[str],
    *,
    clean: str | os.PathLike[str] | CleaningRules = "legal",
    overwrite: bool = False,
    strict: bool = False,
    jobs: int | Executor | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> IngestReport:
    """Read every game of the sources into a catalogue, in order; dropped games become rows as well.

    The bytes do not depend on `jobs` and `engine` (see `kifu.execution.executor.make_executor`). Memory does not grow
    with the games, except for a list of the duplicates: rows that wait for the rest of the corpus are spilled to hidden
    files in the directory of `output`.

    Args:
        sources: Archives, folders and records, as `kifu.read` takes them, or catalogues, whose rows are cleaned anew.
        clean: Cleaning rules: a name, a TOML file, or rules from `load_cleaning_rules`.
        overwrite: Replace a catalogue of other sources or rules (`kifu.io.keep_output`).
        strict: Raise SourceError for a damaged archive, which by default costs only the games that cannot be read.

    Raises:
        RecipeError: There are no such cleaning rules.
        SourceError: No source can be read, or one changes meanwhile.
        ClusterError: The cluster fails. In all cases no new file is left.
    """
    path = Path(output)
    rules = clean if isinstance(clean, CleaningRules) else load_cleaning_rules(clean)
    all_sources = find_sources(sources)
    report, left_out = IngestReport(), count_left_out(all_sources, strict)
    with make_executor(engine, jobs) as executor:
        all_sources = hash_sources(all_sources, executor)
        made_from = {"clean": rules.model_dump(mode="json"), "sources": hashed_infos(all_sources)}
        if about := keep_table(path, overwrite, **made_from):
            return _report_of(open_catalogue(path), about)
        process = ingester(rules, load_index([source.path for source in all_sources if source.catalogue is None]))
        results = executor.run(process, source_shards(all_sources), ShardReader().items)
        rows = _count(results, report, left_out)
        # On errors, too, the hidden files must be removed before the lock on `path` is released.
        with (
            progress("reading games", None, "games") as bar,
            CatalogueWriter(path) as writer,
            closing(mark_duplicates(rows, rules, executor, path)) as batches,
        ):
            for batch in batches:
                writer.write(batch)
                report.add(batch)
                bar.advance(len(batch))
            left_out.require_games(report.read)
            require_unchanged(all_sources)
            writer.commit(made_from | {"sources": add_left_out(all_sources, left_out)} | report.counts())
    report.bytes, report.left_out = writer.size, left_out.total()
    left_out.log()
    return report


def _report_of(catalogue: Catalogue, about: dict[str, Any]) -> IngestReport:
    report = IngestReport.of(catalogue)
    for source in about["sources"]:
        for kind, count in source.get("left_out", {}).items():
            report.left_out[f"{source['name']}: {kind}" if kind.startswith(UNREADABLE) else kind] += count
    return report


def mark_duplicates(
    rows: Iterator[Rows], rules: CleaningRules, executor: Executor, path: Path
) -> Generator[pa.RecordBatch]:
    """Yield the rows with their final drop reasons, in order.

    Rows are spilled to hidden files beside `path`. Those of a killed run are removed, so the caller must hold its lock.
    """
    ids_file, games_file = (path.with_name(f".{path.name}.{name}") for name in ("rest", "first"))
    for hidden in (ids_file, games_file):
        _discard(temp_path(hidden))
        _discard(hidden)
    if rules.duplicates == "keep":
        return (each.batch(each.drop) for each in rows)
    batches = _mark_equal_rows(rows, ids_file, executor)
    return _mark_same_games(batches, games_file, executor) if rules.duplicates == "games" else batches


def _count(results: Iterable[IngestedItem], report: IngestReport, left_out: LeftOut) -> Generator[Rows]:
    for item in results:
        if item.container:
            left_out.add(item.container, len(item.rows), item.left_out)
        for rows in item.rows:
            report.add_unparsed(rows.unparsed)
            yield rows


def _mark_equal_rows(rows: Iterator[Rows], hidden: Path, executor: Executor) -> Generator[pa.RecordBatch]:
    """Drop games that equal an earlier one in all fields.

    Once memory holds MAX_IDS ids, the remaining rows are spilled to the hidden file and their ids compared there.
    """
    seen = IdSet(MAX_IDS)
    for part in rows:
        batch = _mark_seen(part, seen)
        if seen.full:
            break
        yield batch
    else:
        return
    with _spilled(chain([batch], (_mark_seen(part, seen) for part in rows)), hidden):
        del seen
        duplicates = exact_duplicates([hidden], executor, max_ids=MAX_IDS)
        for start, batch in number_batches([hidden]):
            drop = drop_codes(batch)
            within = slice(*np.searchsorted(duplicates, [start, start + len(batch)]))
            drop[duplicates[within] - start] = DropReason.DUPLICATE
            yield with_drop(batch, drop, batch.column("drop_detail"))


def _mark_seen(rows: Rows, seen: IdSet) -> pa.RecordBatch:
    drop = rows.drop.copy()
    kept = np.flatnonzero(drop == DropReason.KEPT)
    drop[kept[~seen.add(rows.columns["id"].to_numpy()[kept])]] = DropReason.DUPLICATE
    return rows.batch(drop)


def _mark_same_games(batches: Generator[pa.RecordBatch], hidden: Path, executor: Executor) -> Generator[pa.RecordBatch]:
    """Spill all rows to the hidden file, then yield them with the same game's other records dropped."""
    with closing(batches), _spilled(batches, hidden):
        flags = flag_duplicates([hidden], 0, "games", executor)
        for start, batch in number_batches([hidden]):
            yield flags.apply(batch, start)


def _discard(hidden: Path) -> None:
    with suppress(KifuError):
        remove_file(hidden)


@contextmanager
def _spilled(batches: Iterable[pa.RecordBatch], hidden: Path) -> Iterator[None]:
    """Write rows to a hidden catalogue that exists within the context."""
    try:
        with CatalogueWriter(hidden) as writer:
            for batch in batches:
                writer.write(batch)
            writer.commit({})
        yield
    finally:
        _discard(hidden)
