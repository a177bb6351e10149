"""Data sets in the formats of the kgsgo-dataset-preprocessor, from the archives of KGS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import islice, pairwise, repeat
from operator import methodcaller
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.arrays import Ints
from kifu.corpus.sources import GameSources, Source, hash_sources, require_unchanged
from kifu.datasets.dat import DatLayout, find_dat_layout
from kifu.datasets.formats import find_format
from kifu.datasets.manifest import (
    DroppedGame,
    Manifest,
    WriteReport,
    WrittenFile,
)
from kifu.errors import DropReason, SourceError
from kifu.go.replay import ReplayArrays, replay_arrays
from kifu.go.state import State, new_state
from kifu.io import AtomicFile, utf8_name
from kifu.planes import kgsgo
from kifu.planes.kgsgo import has_handicap, placed_stones, unreadable_reason
from kifu.point import POINT_MASK
from kifu.progress import Progress
from kifu.recipes.kgs import Archive, Sampler, find_archives, list_archives
from kifu.recipes.pipeline import (
    BuildOptions,
    BuildReport,
    ManifestCounts,
    Target,
    chosen_sets,
    make_targets,
    read_valid_manifest,
)
from kifu.recipes.schema import KgsgoRecipe
from kifu.records.containers import blocks, split_blocks
from kifu.records.games import Bytes, GameArrays, ParseWarning, concat
from kifu.records.paths import AnyPath
from kifu.records.sgf import scan

_CACHE_BYTES = 16 << 20
"""Memory for loaded archives that are used again: 35,000 games of KGS."""

_CHUNK_BYTES = 1 << 22
"""Size of a chunk of records, which takes 0.2 ms of Python besides 3 ms of work, so that two threads hardly wait.

Chunks that fit into an L2 cache of 1 MiB are neither made nor hashed nor written faster.
"""

_KEPT = int(DropReason.KEPT)  # arrays are compared with it faster than with a member of an enum

_EXAMPLES = 190
"""Examples of a game of KGS, about."""

_SPARE_MOVES = 512
"""Memory for the rest of the last game of a chunk, in moves."""


@dataclass(frozen=True, slots=True)
class LoadedArchive:
    """An archive in memory, a few bytes per move."""

    archive: Archive
    games: GameArrays
    drop: npt.NDArray[np.uint8]  # [G]: the `DropReason` of games that the 2015 program could not have used
    handicap: npt.NDArray[np.bool_]  # [G]: True if the program placed setup stones
    names: Bytes
    name_start: npt.NDArray[np.int64]  # [G]: where the name of each game's member begins in `names`
    name_stop: npt.NDArray[np.int64]  # [G]: where it ends

    @property
    def nbytes(self) -> int:
        """The memory of the arrays, in bytes."""
        columns = (getattr(owner, each.name) for owner in (self, self.games) for each in fields(owner))
        return sum(column.nbytes for column in columns if isinstance(column, np.ndarray))

    def name(self, g: int) -> str:
        """Return the name of the member of game g, for display."""
        return utf8_name(self.names[self.name_start[g] : self.name_stop[g]].tobytes())

    def rows(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the rows of games by their index in the archive: game i is member i + 1, after the directory's entry.

        Only the first game of a member counts, as in the 2015 program. Raises SourceError if a member is missing.
        """
        first = np.flatnonzero(self.games.warnings & ParseWarning.LATER_GAME == 0)
        member = self.games.member[first]
        at = np.minimum(np.searchsorted(member, numbers + 1), len(member) - 1)
        absent = numbers[member[at] != numbers + 1] if len(member) else numbers
        if len(absent):
            raise SourceError(
                f"archive {self.archive.stem}: entry {absent[0] + 2} is not a game, but by its name the archive holds "
                f"{self.archive.games:,} games (after an entry for their directory)"
            )
        return first[at]

    def count_examples(self, rows: npt.NDArray[np.int64]) -> int:
        """Return the number of examples of the games `rows`, if all their moves are legal."""
        passes = np.concatenate(([0], np.cumsum(self.games.moves & POINT_MASK == 19 * 19, dtype=np.int32)))
        offset = self.games.move_offset
        stones = np.diff(offset - passes[offset])[rows]
        stones[~self.handicap[rows]] -= 1  # the first move is played but not written
        return int(np.maximum(stones, 0)[self.drop[rows] == DropReason.KEPT].sum())


def load_archive(path: AnyPath, archive: Archive) -> LoadedArchive:
    """Load an archive. Raises SourceError."""
    parts: list[GameArrays] = []
    names: list[Bytes] = []
    starts: list[npt.NDArray[np.int64]] = []
    stops: list[npt.NDArray[np.int64]] = []
    base = 0
    for block in split_blocks(blocks(path)):
        if block.piece is not None and block.piece.first_game > 0:
            continue  # only the first game of a member is used
        if not len(block):
            continue  # it only counts what is left out
        games = scan(block, one_move=True)
        parts.append(games)
        names.append(block.names)
        starts.append(block.name_offset[games.block_index] + base)
        stops.append(block.name_offset[games.block_index + 1] + base)
        base += len(block.names)
    if not parts:
        raise SourceError(f"{path}: no game records in this archive")
    games = concat(parts)
    return LoadedArchive(
        archive=archive,
        games=games,
        drop=unreadable_reason(games.width, games.height, games.handicap, games.warnings, games.drop),
        handicap=has_handicap(games.handicap),
        names=np.concatenate(names),
        name_start=np.concatenate(starts),
        name_stop=np.concatenate(stops),
    )


class _ArchiveGames(NamedTuple):
    """The games that a file takes from one archive: [K] int64, indices from 0 in the order of the file."""

    archive: Archive
    games: npt.NDArray[np.int64]
    path: AnyPath
    blake3: str

    def load(self, cache: dict[AnyPath, LoadedArchive] | None = None) -> LoadedArchive:
        """Return the archive; in any thread. A cache keeps archives that fit into `_CACHE_BYTES` together."""
        if cache is not None and self.path in cache:
            return cache[self.path]
        loaded = load_archive(self.path, self.archive)
        if cache is not None and loaded.nbytes + sum(other.nbytes for other in list(cache.values())) <= _CACHE_BYTES:
            cache[self.path] = loaded
        return loaded


_RecordTask: TypeAlias = tuple[LoadedArchive, ReplayArrays, Ints, npt.NDArray[np.int64], int]
"""An archive, its arrays and `placed_stones`, the rows of some games in it, [K] int64, and the number of their moves.
"""


class _ArchiveLoads:
    """Loads the archives of shards; in this process, threads may have prefetched them, in the order of the shards."""

    def __init__(self, loaded: Iterator[LoadedArchive] | None = None) -> None:
        self._loaded = loaded

    def __call__(self, shard: _ArchiveGames) -> LoadedArchive:
        return shard.load() if self._loaded is None else next(self._loaded)

    def __reduce__(self) -> tuple[Any, ...]:
        return _ArchiveLoads, ()


def _read_rows(load: _ArchiveLoads, shard: _ArchiveGames) -> Iterator[tuple[LoadedArchive, npt.NDArray[np.int64]]]:
    archive = load(shard)
    yield archive, archive.rows(shard.games)


def _count_examples(item: tuple[LoadedArchive, npt.NDArray[np.int64]]) -> int:
    """Return the number of examples of an archive, if all moves are legal."""
    archive, rows = item
    return archive.count_examples(rows)


@dataclass(frozen=True, slots=True)
class _ChunkMemory:
    """Memory for one chunk, which is recycled."""

    state: State
    tables: kgsgo.Tables
    records: npt.NDArray[np.uint8]
    plies: npt.NDArray[np.uint16]


class _RecordChunk(NamedTuple):
    member: npt.NDArray[np.int32]  # [K]: the index of each game's member in the archive
    drop: npt.NDArray[np.uint8]  # [K]: `DropReason`
    examples: npt.NDArray[np.int32]  # [K]: the number of records of each game
    names: list[str]
    plies: npt.NDArray[np.uint16]  # [N]: the ply of each record
    records: npt.NDArray[np.uint8]  # [N * record bytes]
    memory: _ChunkMemory | None  # owns the arrays; None if the chunk was made in another process

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the chunk without its memory."""
        return _RecordChunk, (*self[:-1], None)


@dataclass(frozen=True)
class _WriteRecords:
    """Writes games as records, in at least one chunk per archive. format: "dat1@1" or "dat2@1"."""

    format: str
    load: _ArchiveLoads

    @cached_property
    def _layout(self) -> DatLayout:
        return find_dat_layout(self.format)

    @cached_property
    def _free_memory(self) -> list[_ChunkMemory]:
        return []

    def read(self, shard: _ArchiveGames) -> Iterator[_RecordTask]:
        archive = self.load(shard)
        arrays, placed = replay_arrays(archive.games), placed_stones(archive.games.root_setup, archive.handicap)
        rows = archive.rows(shard.games)
        moves = np.diff(archive.games.move_offset)[rows]
        # The bounds of chunks of about `_CHUNK_BYTES`, which do not depend on the number of threads.
        piece = np.cumsum(moves * self._layout.record_bytes) // _CHUNK_BYTES
        for start, stop in pairwise([0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), len(moves)]):
            yield archive, arrays, placed, rows[start:stop], int(moves[start:stop].sum())

    def process(self, item: _RecordTask) -> _RecordChunk:
        archive, arrays, placed, rows, moves = item
        drop = archive.drop[rows]
        usable = drop == _KEPT
        picks = rows[usable]
        why, made = np.empty(len(picks), np.uint8), np.empty(len(picks), np.int32)
        memory = self._take_memory(moves)
        buffers = kgsgo.RecordBuffers(memory.records, memory.plies, why, made)
        layout = kgsgo.V1 if self._layout.name == "dat1@1" else kgsgo.V2
        total = kgsgo.write_records(memory.state, arrays, placed, picks, layout, memory.tables, buffers)
        drop[usable] = why
        examples = np.zeros(len(rows), np.int32)
        examples[usable] = made
        return _RecordChunk(
            member=archive.games.member[rows],
            drop=drop,
            examples=examples,
            names=[archive.name(g) for g in rows[drop != _KEPT].tolist()],
            plies=memory.plies[:total],
            records=memory.records[: total * self._layout.record_bytes],
            memory=memory,
        )

    def recycled(self, chunks: Iterator[_RecordChunk]) -> Iterator[_RecordChunk]:
        """Yield the chunks; the memory of each is used again when the next one is asked for."""
        for chunk in chunks:
            yield chunk
            if chunk.memory is not None:
                self._free_memory.append(chunk.memory)

    def _take_memory(self, moves: int) -> _ChunkMemory:
        """Return a free memory, or a new one, with memory for the records of `moves` moves."""
        try:
            memory = self._free_memory.pop()
        except IndexError:
            records, plies = self._new_arrays(max(moves, _CHUNK_BYTES // self._layout.record_bytes + _SPARE_MOVES))
            return _ChunkMemory(new_state(19, 19), kgsgo.new_tables(), records, plies)
        if len(memory.plies) < moves:
            records, plies = self._new_arrays(moves)
            return replace(memory, records=records, plies=plies)
        return memory

    def _new_arrays(self, moves: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint16]]:
        return np.empty(moves * self._layout.record_bytes, np.uint8), np.empty(moves, np.uint16)


def build_kgsgo(
    recipe: KgsgoRecipe, sources: GameSources, output: Path, options: BuildOptions
) -> list[BuildReport[Manifest]]:
    """Build the sets of a recipe, see `kifu.recipes.pipeline.build`; one report per file, in the order of the sets.

    Games that cannot be used are dropped and listed in the manifest. The index page gives the archives and their order
    for the draws, by default the archives found, newest first. Raises RecipeError if the recipe has no such set, or a
    set asks for more games than there are.
    """
    names = chosen_sets(recipe, options.sets)
    paths = find_archives(sources)
    index = list_archives(options.index_page, paths)
    sampler, index = Sampler(recipe, index), [each for each in index if each.year <= recipe.until]
    selections = {name: sampler.select(name) for name in names}
    archives = list(dict.fromkeys(archive for selected in selections.values() for archive in selected))
    missing = sorted(archive.stem for archive in archives if archive not in paths)
    if missing:
        shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise SourceError(
            f"{len(missing)} of the {len(archives)} archives that the sets draw from are missing: {shown}"
        )
    if not archives:
        return []
    files = [Source(paths[archive], utf8_name(paths[archive].name), None) for archive in archives]
    hashed = dict(zip(archives, hash_sources(files, options.executor)))
    reports = []
    cache: dict[AnyPath, LoadedArchive] = {}
    for name in names:
        shards = [
            _ArchiveGames(archive, games, paths[archive], hashed[archive].info["blake3"])
            for archive, games in selections[name].items()
        ]
        targets = _targets(recipe, name, shards, output)
        reports += _build_set(recipe, targets, [each.name for each in index], hashed, options, cache)
    return reports


def _targets(
    recipe: KgsgoRecipe, name: str, shards: list[_ArchiveGames], into: Path
) -> dict[Target, list[_ArchiveGames]]:
    """Return the files of a set, each with the games that it takes."""
    game_set = recipe.sets[name]
    if not game_set.by_archive:
        return {Target.of(name, into / game_set.file): shards}
    files = (game_set.file.replace("{archive}", shard.archive.stem) for shard in shards)
    return {Target.of(name, into / file): [shard] for file, shard in zip(files, shards)}


def _build_set(
    recipe: KgsgoRecipe,
    targets: dict[Target, list[_ArchiveGames]],
    index: list[str],
    sources: dict[Archive, Source],
    options: BuildOptions,
    cache: dict[AnyPath, LoadedArchive],
) -> list[BuildReport[Manifest]]:
    """Build the files of one set. Their archives are one run of the executor, so small ones do not leave it idle."""
    layout, executor = find_dat_layout(recipe.format), options.executor

    def index_of(target: Target) -> list[str]:
        return [targets[target][0].archive.name] if recipe.sets[target.set].by_archive else index

    def is_current(target: Target, manifest: Manifest) -> bool:
        archives = [(shard.archive.stem, shard.blake3) for shard in targets[target]]
        return manifest.index == index_of(target) and [(a.archive, a.blake3) for a in manifest.archives] == archives

    def prepare(stale: list[Target], _: ExitStack) -> Callable[[Target], Manifest]:
        shards = [shard for target in stale for shard in targets[target]]
        # If the header holds the number of examples, it is counted first, so that it is hashed with the rest: reading
        # archives twice, where the cache is too small, takes a tenth of the time that reading the written file would.
        load = methodcaller("load", cache)
        read = partial(_read_rows, _ArchiveLoads(executor.map(load, shards, executor.jobs)))
        numbers = executor.run(_count_examples, shards, read, prefetch=0) if layout.header_bytes else repeat(0)
        games = sum(len(shard.games) for shard in shards)
        files = stale[0].path.with_name(recipe.sets[stale[0].set].file)
        options.announce(files, games * _EXAMPLES * layout.record_bytes)
        writing = _WriteRecords(layout.name, _ArchiveLoads(executor.map(load, shards, prefetch=1)))
        chunks = writing.recycled(executor.run(writing.process, shards, writing.read, executor.jobs + 1))
        return lambda target: make(target, sum(islice(numbers, len(targets[target]))), chunks)

    def make(target: Target, foreseen: int, chunks: Iterator[_RecordChunk]) -> Manifest:
        """Write a file. foreseen: the number of examples, unless a move cannot be played."""
        shards = targets[target]
        games = sum(len(shard.games) for shard in shards)
        with (
            ManifestCounts(target.set, target.path) as counts,
            AtomicFile(target.path, layout.header(foreseen)) as output,
            options.progress(f"building {target.path.name}", games, "games") as bar,
        ):
            for shard in shards:
                _write_archive(shard, chunks, output, counts, bar)
            require_unchanged(sources.values())
            output.write(layout.end)
            digest = output.commit(layout.header(counts.rows))
            written = WrittenFile(utf8_name(target.path.name), output.size, digest, output.sums.to_text())
            infos, plane_set = [sources[shard.archive].info for shard in shards], find_format(layout.name).plane_set
            report = WriteReport(counts.rows, (written,))
            manifest = counts.manifest(recipe, games, infos, report, layout.name, plane_set)
            return replace(manifest, index=index_of(target))

    return make_targets(recipe, list(targets), options.overwrite, read_valid_manifest, is_current, prepare)


def _write_archive(
    shard: _ArchiveGames, chunks: Iterator[_RecordChunk], output: AtomicFile, counts: ManifestCounts, bar: Progress
) -> None:
    """Write the chunks of one archive, at least one. The next archive is not touched yet: it may be damaged."""
    stem, left = shard.archive.stem, len(shard.games)
    for chunk in chunks:
        output.write(chunk.records.data)
        kept = chunk.drop == _KEPT  # whether a game has records
        counts.add_games(chunk.member[kept], chunk.examples[kept], chunk.plies)
        lost = zip(chunk.member[~kept].tolist(), chunk.names, chunk.drop[~kept].tolist())
        counts.list_dropped([DroppedGame(stem, member, name, DropReason(code).name) for member, name, code in lost])
        bar.advance(len(kept))
        left -= len(kept)
        if not left:
            break
    counts.end_archive(stem, shard.blake3)
