"""What games come from, and how the reading of it is divided: sources, and units of work that they are read by.

A unit is an archive, some blocks of a large one, some loose records of a folder, or some rows of a catalogue, so that
those of a cluster who take one each have about as much to do. What becomes of them is the same however they are cut.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice, repeat
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from blake3 import blake3

from kifu.atomic_io import hash_file
from kifu.corpus.catalogue import Catalogue, RowShard, is_catalogue, open_catalogue, read_shard
from kifu.errors import SourceError
from kifu.execution.executor import Executor, Job
from kifu.records.containers import BLOCK_BYTES, blocks, containers, count_blocks, split_large_blocks
from kifu.records.directory import LooseRecords, list_directory, record_blocks
from kifu.records.games import RecordBlock
from kifu.records.paths import AnyPath, Remote, as_path, etag, name_below

_SMALL = 8 << 20
"""Bytes of an archive that nobody looks into before it is read: it is one unit."""

_BLOCKS = 16
"""Of a unit of a large archive: 64 MB of records, about a second of work."""

_LOOSE, _LOOSE_BYTES = 1 << 14, 64 << 20
"""Loose records of a unit, and their bytes where a store says those with the names: each takes a request there."""

_SLICES = 8
"""At most so many units are made of an archive that can only be read from its beginning: each of them reads, though it
need not understand, all that lies before it, which takes about an eighth of the time."""


@dataclass(frozen=True, slots=True)
class Source:
    """One container or catalogue, and what the catalogue that is made calls it."""

    path: AnyPath
    name: str
    catalogue: Catalogue | None


@dataclass(frozen=True, slots=True)
class ArchiveShard:
    """Some blocks of a container (see `kifu.records.containers.blocks`)."""

    path: AnyPath
    first: int
    """The first of them, counted from 0."""

    blocks: int | None
    """How many; None: all that follow."""


Shard: TypeAlias = ArchiveShard | LooseRecords | RowShard
"""What can be read by itself of a source."""


@dataclass(frozen=True, slots=True)
class SourceShard:
    """A unit of one of several sources. name: what a catalogue calls it. blake3: of the source, if that is known."""

    name: str
    blake3: str | None
    part: Shard

    def fingerprint(self) -> dict[str, Any]:
        """What tells it from others, as JSON values. Raises SourceError."""
        if isinstance(self.part, LooseRecords):
            part = {"path": str(self.part.root), "first": self.part.first, "files": _hash_records(self.part)}
        else:
            part = asdict(self.part) | {"path": str(as_path(self.part.path))}
        return {"name": self.name, "blake3": self.blake3, "part": part}


Content: TypeAlias = RecordBlock | pa.RecordBatch
"""What rows of a catalogue are made of at one go: members of a container, or rows of another catalogue."""


def find_sources(sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Source]:
    """Containers and catalogues, in the order of the sources. Raises SourceError or FormatError.

    An archive of a folder is called by its path in it, all else by its last name; by the path as given where two would
    be called the same.
    """
    found: list[Source] = []
    for given in [sources] if isinstance(sources, str | os.PathLike) else sources:
        source = as_path(given)
        if source.name.lower().endswith(".parquet") if isinstance(source, Remote) else is_catalogue(source):
            found.append(Source(source, source.name, open_catalogue(source)))
            continue
        found += [Source(path, name_below(source, path), None) for path in containers(source)]
    names = Counter(source.name for source in found)
    return [replace(s, name=str(s.path)) if names[s.name] > 1 else s for s in found]


def source_shards(sources: Iterable[Source], about: Iterable[Mapping[str, Any]] | None = None) -> Iterator[SourceShard]:
    """All units of the sources, in order. Raises FormatError as it is drawn from.

    about: what `describe_sources` says of them; units that are never asked for their identity can do without.
    """
    for source, told in zip(sources, repeat({}) if about is None else about):
        parts: Iterable[Shard] = archive_shards(source.path)
        if source.catalogue is not None:
            parts = source.catalogue.shards()
        for part in parts:
            yield SourceShard(source.name, told.get("blake3"), part)


def archive_shards(path: AnyPath) -> Iterator[ArchiveShard | LooseRecords]:
    """A container in units, in order: one for a small archive, or for a single record.

    The loose records of a folder are cut every 16,384, or earlier, every 64 MiB, where their sizes are known with their
    names. A .zip is cut every 16 blocks, by its directory. A tar, or a file of lines, is cut in at most eight of about
    the same size, which is guessed from its first block if it is compressed: the last takes whatever is left.
    Never fails: what is wrong with a container is told when it is read.
    """
    try:
        is_folder = path.is_dir()
        loose = list(_loose_units(list_directory(path).records)) if is_folder else []
        small = is_folder or path.stat().st_size < _SMALL
    except (OSError, SourceError):
        loose, small = [], True
    if loose:
        yield from loose
        return
    count, by_place = (1, False) if small else count_blocks(path)
    each = _BLOCKS if by_place else max(_BLOCKS, -(-count // _SLICES))
    firsts = range(0, max(count, 1), each)
    for first in firsts:
        yield ArchiveShard(path, first, None if first == firsts[-1] else each)


def _loose_units(records: LooseRecords) -> Iterator[LooseRecords]:
    sizes = [record.stat().st_size for record in records.remote] or [0] * len(records)
    ends = np.cumsum([0, *sizes])
    begin = 0
    while begin < len(records):
        full = int(np.searchsorted(ends, ends[begin] + _LOOSE_BYTES, "right")) - 1
        stop = min(max(full, begin + 1), begin + _LOOSE, len(records))
        yield records.part(begin, stop)
        begin = stop


class ShardReader:
    """Reads units; one that goes on where the one before ended goes on in the same open archive.

    It can be pickled, but takes nothing along.
    """

    def __init__(self) -> None:
        self._path: AnyPath | None = None
        self._next = 0
        self._blocks: Iterator[RecordBlock] = iter(())

    def read(self, unit: Shard) -> Iterator[Content]:
        """The unit's blocks, large files of lines in several, or batches of its rows; no other is to be begun before
        the last of them is drawn.

        Raises SourceError as `kifu.records.containers.blocks` does, and at the end if a file of other storage is no
        longer the one that its sources were found with, which may have been read by other units; or FormatError.
        """
        if isinstance(unit, RowShard):
            yield from read_shard(unit)
            return
        if isinstance(unit, LooseRecords):
            yield from split_large_blocks(record_blocks(unit, BLOCK_BYTES))
            return
        if (self._path, self._next) != (unit.path, unit.first):
            self._path, self._blocks = unit.path, blocks(unit.path, first=unit.first)
        self._next = -1  # so that nobody goes on from where this one fails
        yield from split_large_blocks(islice(self._blocks, unit.blocks))
        _require_same(unit.path)
        if unit.blocks is not None:
            self._next = unit.first + unit.blocks

    def __reduce__(self) -> tuple[type[ShardReader], tuple[()]]:
        return ShardReader, ()


@dataclass(frozen=True, slots=True)
class HashedSources:
    """Sources that were found and hashed once, for all steps of one command.

    Attributes:
        sources: as `find_sources` returns them.
        hashes: what a catalogue or a manifest lists of each, as `hash_sources` returns it.
    """

    sources: list[Source]
    hashes: list[dict[str, Any]]

    @classmethod
    def of(cls, sources: list[Source], executor: Executor) -> HashedSources:
        """Hash the sources. Raises SourceError."""
        return cls(sources, hash_sources(sources, executor))


def hash_sources(sources: Iterable[Source], executor: Executor) -> list[dict[str, Any]]:
    """What a catalogue says of each; whoever does the work reads the files. Raises SourceError.

    A folder of loose records has no hash: its records are its members.
    """
    found = list(sources)
    measured = list(executor.run(_MeasureJob(), [source.path for source in found]))
    return [{"name": source.name} | told for source, told in zip(found, measured)]


class _MeasureJob(Job[AnyPath, AnyPath, dict[str, Any]]):
    """Sizes and hashes of files; of a folder nothing."""

    def fingerprint(self) -> Any:
        return None

    def shard_fingerprint(self, shard: AnyPath) -> Any:
        """A file that was changed within a nanosecond, and kept its size, is taken for the same."""
        try:
            return [str(shard), etag(shard)]
        except OSError as error:
            raise SourceError(f"{shard}: {error.strerror}") from None

    def process(self, item: AnyPath) -> dict[str, Any]:
        return _measured(item)


def _measured(path: AnyPath) -> dict[str, Any]:
    try:
        if path.is_dir():
            return {"blake3": open_catalogue(path).digest()} if isinstance(path, Path) and is_catalogue(path) else {}
        return {"bytes": path.stat().st_size, "blake3": hash_file(path)}
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from None


def _require_same(path: AnyPath) -> None:
    try:
        if isinstance(path, Remote) and not path.is_dir():
            path.require_unchanged()
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from None


def _hash_records(records: LooseRecords) -> str:
    """Names, sizes and times of loose records, as one hash in hex."""
    digest = blake3()
    for name, found in zip(records.names, records.paths()):
        marks = None
        with suppress(OSError):  # it is gone, or cannot be had, and will be set aside where it is to be read
            marks = etag(found)
        digest.update(b"%s\0%s\0" % (name, json.dumps(marks).encode()))
    return digest.hexdigest()
