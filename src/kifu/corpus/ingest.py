"""From any mix of sources to one catalogue: read, cleaned, hashed, in order, on any number of threads."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kifu.corpus.catalogue import (
    Catalogue,
    CatalogueWriter,
    by_value,
    drop_code,
    is_catalogue,
    numbers,
    open_catalogue,
)
from kifu.corpus.clean import Clean, load_clean
from kifu.corpus.duplicates import SeenIds, find_clusters
from kifu.corpus.meaning import Unclear
from kifu.corpus.rows import Rows, rows_of_batch, rows_of_reading, with_drop
from kifu.errors import Drop, KifuError, SourceError
from kifu.output import hash_file, remove_file
from kifu.parallel import Crew
from kifu.progress import OpenBar, format_bytes, silent
from kifu.records.containers import containers
from kifu.records.games import Block
from kifu.records.kinds import readings, units
from kifu.records.programs import known_programs
from kifu.records.tygem import load_index

_UNCLEAR_KEPT = 1_000
"""Distinct texts of one column that are counted one by one."""

_UNCLEAR_SHOWN = 5


@dataclass(slots=True)
class Ingested:
    """What became of the games; read == kept + the sum of drops."""

    read: int = 0
    kept: int = 0
    moves: int = 0
    """Of the kept games, passes too."""
    drops: Counter[str] = field(default_factory=Counter)
    """By the name of the `Drop`."""
    unclear: Unclear = field(default_factory=dict)
    """By column, texts that were not understood, with their counts."""
    bytes: int = 0
    """Of the catalogue."""

    def __str__(self) -> str:
        """What there is to say on a terminal, some lines."""
        drops = "".join(f" + {n:,} {name.lower().replace('_', ' ')}" for name, n in self.drops.most_common())
        lines = [f"{self.read:,} games = {self.kept:,} kept{drops}; {self.moves:,} moves, {format_bytes(self.bytes)}"]
        for column, texts in self.unclear.items():
            shown = ", ".join(f"{text!r} {count:,}" for text, count in texts.most_common(_UNCLEAR_SHOWN))
            more = ", ..." if len(texts) > _UNCLEAR_SHOWN else ""
            lines.append(f"  not understood, kept as text: {sum(texts.values()):,} of {column}: {shown}{more}")
        return "\n".join(lines)

    def _add(self, batch: pa.RecordBatch) -> None:
        drop = by_value(batch.column("drop"), drop_code, np.uint8)
        kept = drop == Drop.KEPT
        self.read += len(drop)
        self.kept += int(kept.sum())
        self.moves += int(numbers(batch.column("n_legal"))[kept].sum())
        self.drops.update({Drop(k).name: int(n) for k, n in zip(*np.unique(drop[~kept], return_counts=True))})

    def _add_unclear(self, unclear: Unclear) -> None:
        for column, texts in unclear.items():
            known = self.unclear.setdefault(column, Counter())
            for text, count in texts.items():
                known[text if text in known or len(known) < _UNCLEAR_KEPT else "..."] += count


@dataclass(frozen=True, slots=True)
class Source:
    """One container or catalogue, and what the catalogue that is made calls it."""

    path: Path
    name: str
    catalogue: Catalogue | None

    def about(self) -> dict[str, Any]:
        """What a catalogue says of it. A folder has no hash: its records are its members. Raises SourceError."""
        try:
            if self.path.is_dir():
                return {"name": self.name}
            return {"name": self.name, "bytes": self.path.stat().st_size, "blake3": hash_file(self.path)}
        except OSError as error:
            raise SourceError(f"{self.path}: {error.strerror}") from None


@dataclass(frozen=True, slots=True)
class Item:
    """What a thread makes rows of at one go."""

    source: Source
    content: Block | pa.RecordBatch


def ingest(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    path: str | os.PathLike[str],
    *,
    clean: Clean | None = None,
    jobs: int | None = None,
    progress: OpenBar = silent,
) -> Ingested:
    """Reads every game of the sources into a catalogue at `path`, in order; games set aside are rows as well.

    sources: archives, folders and records as `kifu.read` takes them, and catalogues, whose games are judged anew.
    clean: the rules of cleaning, by default those named "legal". jobs: threads; the bytes are the same for any number.
    Memory does not grow with the games, but for 11 to 22 bytes a game where duplicates are looked for, and some more
    where also those are that are equal in moves only, see `kifu.corpus.duplicates`.
    Raises SourceError, FormatError or OutputError, and then there is no new file.
    """
    path = Path(path)
    clean = clean or load_clean("legal")
    found = find_sources(sources)
    about = {"clean": clean.model_dump(mode="json"), "sources": [source.about() for source in found]}
    programs = known_programs(*clean.program_names)
    index = load_index([source.path for source in found if source.catalogue is None])
    told = Ingested()

    def make(item: Item) -> list[Rows]:
        if isinstance(item.content, pa.RecordBatch):
            return [rows_of_batch(item.content, clean)]
        return [rows_of_reading(each, item.source.name, clean, programs) for each in readings(item.content, index)]

    with Crew(jobs) as crew, progress("reading games", None, "games") as bar:
        batches = _judged(crew.map(make, source_items(found)), clean, told)
        if clean.duplicates == "games":
            batches = _without_copies(batches, path)
        # Whoever ends it early, the hidden file is gone before another process may write to `path`.
        with CatalogueWriter(path) as writer, closing(batches):
            for batch in batches:
                writer.write(batch)
                told._add(batch)
                bar.advance(len(batch))
            writer.commit(about | {"read": told.read, "kept": told.kept, "drops": dict(sorted(told.drops.items()))})
    told.bytes = path.stat().st_size
    return told


def find_sources(sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Source]:
    """Containers and catalogues, in the order of the sources. Raises SourceError or FormatError.

    An archive of a folder is called by its path in it, all else by its last name; by the path as given where two would
    be called the same.
    """
    found = []
    for given in [sources] if isinstance(sources, str | os.PathLike) else sources:
        source = Path(given)
        if is_catalogue(source):
            found.append(Source(source, source.name, open_catalogue(source)))
            continue
        for path in containers(source):
            name = path.relative_to(source).as_posix() if path != source else path.resolve().name
            found.append(Source(path, name, None))
    names = Counter(source.name for source in found)
    return [replace(s, name=str(s.path)) if names[s.name] > 1 else s for s in found]


def source_items(sources: Iterable[Source]) -> Iterator[Item]:
    """What threads share the work by, in order. Raises SourceError or FormatError as it is drawn from."""
    for source in sources:
        parts = units([source.path]) if source.catalogue is None else source.catalogue.batches()
        for content in parts:
            yield Item(source, content)


def _judged(made: Iterable[list[Rows]], clean: Clean, told: Ingested) -> Generator[pa.RecordBatch]:
    """The rows with their final reasons, but for what only the whole corpus can tell."""
    seen = SeenIds()
    for rows in chain.from_iterable(made):
        drop = rows.drop
        if clean.duplicates != "keep":
            kept = np.flatnonzero(drop == Drop.KEPT)
            new = seen.add(rows.columns["id"].to_numpy()[kept])
            drop = drop.copy()
            drop[kept[~new]] = Drop.DUPLICATE
        told._add_unclear(rows.unclear)
        yield rows.batch(drop)


def _write(path: Path, batches: Iterable[pa.RecordBatch]) -> None:
    with CatalogueWriter(path) as writer:
        for batch in batches:
            writer.write(batch)
        writer.commit({})


def _without_copies(batches: Iterable[pa.RecordBatch], path: Path) -> Generator[pa.RecordBatch]:
    """The same rows, once all of them have been seen: games that are another one once more are set aside.

    Meanwhile they lie in a file beside `path`.
    """
    first = path.with_name(f".{path.name}.first")
    try:
        _write(first, batches)
        copies = find_clusters([first])
        ids = np.concatenate([numbers(batch["id"]) for batch in open_catalogue(first).batches(("id",))])
        at = 0
        for batch in open_catalogue(first).batches():
            drop = by_value(batch.column("drop"), drop_code, np.uint8)
            detail = batch.column("drop_detail").to_pylist()
            for k in range(*np.searchsorted(copies.row, [at, at + len(batch)])):
                if copies.relation[k] != Drop.KEPT:
                    row = copies.row[k] - at
                    drop[row], detail[row] = copies.relation[k], f"of game {ids[copies.row[copies.stays[k]]]:016x}"
            yield with_drop(batch, drop, pa.array(detail, pa.string()))
            at += len(batch)
    finally:
        with suppress(KifuError):
            remove_file(first)
