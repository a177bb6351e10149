"""Find the sources of games, hash them, and divide them into shards for parallel reading.

A shard is an archive, some blocks of a large one, some loose records of a folder, or some rows of a catalogue, so that
all shards take about the same time. The division does not affect the results.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from blake3 import blake3

from kifu.corpus.catalogue import Catalogue, RowShard, is_catalogue, open_catalogue, read_shard
from kifu.errors import SourceError
from kifu.execution.executor import Executor
from kifu.io import hash_bytes, utf8_name
from kifu.records.containers import (
    BLOCK_BYTES,
    count_blocks,
    find_containers,
    hash_container,
    readable_blocks,
    split_blocks,
    volume_paths,
)
from kifu.records.directory import LooseRecords, list_directory, record_blocks
from kifu.records.game import Game, games_in
from kifu.records.games import LeftOut, RecordBlock
from kifu.records.paths import (
    CHANGED,
    AnyPath,
    Paths,
    Remote,
    as_path,
    file_version,
    local_paths,
    name_below,
    open_file,
)

_SMALL_BYTES = 8 << 20
"""Archives up to this size are one shard."""

_SHARD_BLOCKS = 16
"""Blocks per shard of a large archive: 64 MB of records, about a second of work."""

_LOOSE_RECORDS = 1 << 14
"""Loose records per shard."""

_MAX_SEQUENTIAL_SHARDS = 8
"""Maximum number of shards of an archive that can only be read from its beginning.

Each shard must read, but not parse, all blocks before it, which takes about an eighth of the time of parsing them.
"""


@dataclass(frozen=True, slots=True)
class Source:
    """A container of records, or an open catalogue.

    `left_out` counts, for the first container of a folder, the files of the folder that are left out, by kind. `info`
    holds name, size and BLAKE3 under the keys name, bytes and blake3, as catalogues and manifests list them, once
    `hash_sources` has computed them; of a catalogue no name, which its games do not depend on, but its metadata, as
    `about`. A folder of loose records and a partitioned catalogue have no size.
    """

    path: AnyPath
    name: str  # the value of column `archive`
    catalogue: Catalogue | None  # None for containers
    source: str = ""  # the path of the source that it is, or lies in
    left_out: Counter[str] = field(default_factory=Counter)
    version: tuple[int, ...] | None = None  # see `kifu.records.paths.file_version`; None if not local
    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.version is None:
            object.__setattr__(self, "version", _version(self.path))


GameSources: TypeAlias = Paths | Iterable[Source]
"""One or more paths or URLs, or what `find_sources` returned for them."""


def _version(path: AnyPath) -> tuple[int, ...] | None:
    with suppress(OSError):
        if isinstance(path, Path) and path.is_dir() and not is_catalogue(path):
            return (int(_hash_listing(list_directory(path).records), 16),)
        if isinstance(path, Path) and path.is_file():
            return tuple(part for volume in volume_paths(path) for part in file_version(Path(volume).stat()))
    return None


def require_unchanged(sources: Iterable[Source]) -> None:
    """Check that files are what they were when they were found, so that their hashes stand for the games read since.

    Remote files are read from copies. Raises SourceError if a file has changed.
    """
    for source in sources:
        if isinstance(source.path, Path) and _version(source.path) != source.version:
            raise SourceError(f"{source.path}: {CHANGED}")


@dataclass(frozen=True, slots=True)
class ArchiveShard:
    """A range of blocks of a container, see `kifu.records.containers.blocks`."""

    path: AnyPath
    first: int  # block, from 0
    blocks: int | None  # None for all that follow


Shard: TypeAlias = ArchiveShard | LooseRecords | RowShard
"""A part of a source that can be read independently."""


Content: TypeAlias = RecordBlock | pa.RecordBatch
"""An item of a shard: records of a container, or rows of a catalogue."""

IngestItem: TypeAlias = tuple[str, Content]
"""A unit of work for one thread: the name of a `Source`, and some of its content."""


def find_sources(sources: GameSources) -> list[Source]:
    """Find all containers and catalogues, in the order of the sources; results of an earlier call stay as they are.

    An archive within a folder is named by its path in the folder, any other source by the last component of its path.
    Sources of equal names are named by their full paths.
    """
    all_sources: list[Source] = []
    for source in [sources] if isinstance(sources, str | os.PathLike) else sources:
        if isinstance(source, Source):
            all_sources.append(source)
            continue
        path = as_path(source)
        if path.name.lower().endswith(".parquet") if isinstance(path, Remote) else is_catalogue(path):
            all_sources.append(Source(path, utf8_name(path.name), open_catalogue(path)))
            continue
        _, paths, left_out = find_containers(path)
        for container in paths:
            all_sources.append(Source(container, utf8_name(name_below(path, container)), None, str(path), left_out))
            left_out = Counter()
    names = Counter(source.name for source in all_sources)
    return [replace(s, name=utf8_name(str(s.path))) if names[s.name] > 1 else s for s in all_sources]


def count_left_out(sources: Iterable[Source], strict: bool = False) -> LeftOut:
    """Return counts of the files that are left out of the sources' folders, to be extended as they are read."""
    left_out = LeftOut(strict)
    for source in sources:
        if source.catalogue is None:
            left_out.expect(str(source.path), source.source, source.left_out)
    return left_out


def read(sources: Paths) -> Iterator[Game]:
    """Yield the games of archives, directories, single files and catalogues, in order, read on demand.

    Every member of a container gives a game, also an unreadable one, which has a `drop`. So does every line of OLF and
    TYGEM, and every row of a catalogue. The metadata of TYGEM games comes from the index files among adjacent sources.
    At the end, one line for each source is logged that counts the files and members that were not read.
    """
    found = find_sources(sources)
    left_out = count_left_out(found)
    for is_container, group in groupby(found, key=lambda source: source.catalogue is None):
        if is_container:
            yield from games_in([source.path for source in group], left_out)
        else:
            for source in group:
                assert source.catalogue is not None
                yield from source.catalogue.games()
    left_out.log()


def source_shards(sources: Iterable[Source]) -> Iterator[tuple[str, Shard]]:
    """Yield the shards of all sources, in order, with the name of their source."""
    for source in sources:
        shards: Iterable[Shard] = archive_shards(source.path)
        if source.catalogue is not None:
            shards = source.catalogue.shards()
        for shard in shards:
            yield source.name, shard


def archive_shards(path: AnyPath) -> Iterator[ArchiveShard | LooseRecords]:
    """Yield the shards of a container, in order.

    A small archive or a single record is one shard. The loose records of a folder are divided every 16,384 records, a
    .zip every 16 blocks, by its directory. A tar, or a file of lines, is divided into at most eight shards of about the
    same size, which is estimated from the first block if it is compressed; the last shard takes the rest. Raises
    nothing: errors surface when a shard is read.
    """
    try:
        is_folder = path.is_dir()
        loose = list_directory(path).records if is_folder else None
        small = is_folder or sum(volume.stat().st_size for volume in volume_paths(path)) < _SMALL_BYTES
    except OSError:
        loose, small = None, True
    if loose:
        yield from (loose.part(k, k + _LOOSE_RECORDS) for k in range(0, len(loose), _LOOSE_RECORDS))
        return
    count, seekable = (1, False) if small else count_blocks(path)
    step = _SHARD_BLOCKS if seekable else max(_SHARD_BLOCKS, -(-count // _MAX_SEQUENTIAL_SHARDS))
    firsts = range(0, max(count, 1), step)
    for first in firsts:
        yield ArchiveShard(path, first, None if first == firsts[-1] else step)


class ShardReader:
    """Reads shards. Consecutive shards of an archive are read from one open archive. Pickling it keeps no state."""

    def __init__(self) -> None:
        self._path: AnyPath | None = None
        self._next = 0
        self._blocks: Iterator[RecordBlock] = iter(())

    def read(self, shard: Shard) -> Iterator[Content]:
        """Yield blocks or batches of rows, to be exhausted before the next shard. Raises SourceError as `blocks`."""
        if isinstance(shard, RowShard):
            yield from read_shard(shard)
            return
        if isinstance(shard, LooseRecords):
            yield from split_blocks(record_blocks(shard, BLOCK_BYTES))
            return
        if (self._path, self._next) != (shard.path, shard.first):
            self._path, self._blocks = shard.path, readable_blocks(shard.path, first=shard.first)
        self._next = -1  # no shard continues after an error in this one
        yield from split_blocks(islice(self._blocks, shard.blocks))
        if shard.blocks is not None:
            self._next = shard.first + shard.blocks

    def items(self, named: tuple[str, Shard]) -> Iterator[IngestItem]:
        """Yield the content of a shard, as `read` does, with the name of its source."""
        name, shard = named
        return ((name, content) for content in self.read(shard))

    def __reduce__(self) -> tuple[type[ShardReader], tuple[()]]:
        return ShardReader, ()


def hash_sources(sources: Iterable[Source], executor: Executor) -> list[Source]:
    """Return the sources with their `info`; those that have it are returned as they are. Raises SourceError."""
    found = list(sources)
    if all(source.info for source in found):
        return found
    paths = [source.path for source in found]
    for _ in local_paths([path for path in paths if isinstance(path, Remote) and not path.is_dir()]):
        pass  # copies them, and lets other processes read the same bytes
    origins = [{"name": each.name} if each.catalogue is None else {"about": _about(each.catalogue)} for each in found]
    hashes = executor.map(_hash, paths)
    return [replace(each, info=origin | info) for each, origin, info in zip(found, origins, hashes)]


def _about(catalogue: Catalogue) -> dict[str, Any]:
    """Return the metadata of a catalogue, and as `archives` the number of kept games of each."""
    archives: Counter[str] = Counter()
    for batch in catalogue.batches(("archive", "drop")):
        for each in batch.filter(batch["drop"].is_null())["archive"].value_counts().to_pylist():
            archives[each["values"]] += each["counts"]
    return dict(catalogue.metadata) | {"archives": dict(archives)}


def add_left_out(sources: Iterable[Source], left_out: LeftOut) -> list[dict[str, Any]]:
    """Return the `info` of each source, with the key left_out where something of it is left out."""
    counts = ((source.info, left_out.of_container(str(source.path))) for source in sources)
    return [info | ({"left_out": count} if count else {}) for info, count in counts]


def source_infos(about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sources that metadata of any writer list, the catalogues of a split as well."""
    listed = about.get("of") or about.get("sources")
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def hashed_infos(sources: Iterable[Source]) -> list[dict[str, Any]] | None:
    """Return the `info` of each source, or None if one has no hash, so that it may have changed."""
    infos = [source.info for source in sources]
    return infos if all("blake3" in info for info in infos) else None


def _hash(path: AnyPath) -> dict[str, Any]:
    try:
        if path.is_dir():
            is_partitioned = isinstance(path, Path) and is_catalogue(path)
            return {"blake3": open_catalogue(path).digest() if is_partitioned else _hash_records(path)}
        return hash_container(path)
    except SourceError:
        raise
    except OSError as error:
        if isinstance(path, Path):
            return {}
        raise SourceError(f"{path}: {error.strerror}") from None


def _hash_records(folder: AnyPath) -> str:
    digest, records = blake3(), list_directory(folder).records
    for name, path in zip(records.names, local_paths(list(records.paths()))):
        content = ""
        with suppress(OSError), open_file(path) as file:  # an unreadable record is dropped when it is read
            content = hash_bytes(file.readinto).hexdigest()
        digest.update(b"%s\0%s\0" % (name, content.encode()))
    return digest.hexdigest()


def _hash_listing(records: LooseRecords) -> str:
    """Return a hash, in hex, of the names, sizes and times of loose records."""
    digest = blake3()
    for name, path in zip(records.names, records.paths()):
        tag = None
        with suppress(OSError):  # an unreadable record is dropped when it is read
            tag = (status := path.stat()).st_size, status.st_mtime_ns
        digest.update(b"%s\0%s\0" % (name, json.dumps(tag).encode()))
    return digest.hexdigest()
