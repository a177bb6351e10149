"""An archive of OLF files, laid out as Schraudolph's: 19x19/resign/even/33.olf. docs/olf-archive.md is its card.

Each file has its games in the order of the sources. Beside the tree lie the catalogue of all games that were read, of
which line k of a file is the k-th kept row that belongs there, and a manifest.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError

from kifu.atomic_io import AtomicFile, locked_folder, remove_file, staging_dir, write_file
from kifu.corpus.catalogue import RowShard, read_shard
from kifu.corpus.export import rows_to_olf
from kifu.corpus.schema import map_distinct, to_numpy
from kifu.corpus.sources import HashedSources, find_sources
from kifu.datasets.manifest import SUFFIX
from kifu.errors import OutputError
from kifu.execution.executor import THREADS, Executor, Job, make_executor
from kifu.progress import Progress, ProgressFactory, format_bytes, format_drops, silent
from kifu.recipes.pipeline import (
    CATALOGUE,
    AnySources,
    Build,
    BuildOptions,
    BuildReport,
    Target,
    are_hashed,
    are_whole,
    ingest_sources,
    is_made_by,
)
from kifu.recipes.schema import OlfArchiveRecipe
from kifu.records.olf_writer import ExportFailure

MANIFEST = "olf-archive" + SUFFIX

_SIZES = ("9x9", "13x13", "19x19", "other")
_ENDINGS = ("score", "terry", "time", "resign")
_TERMS = ("even", "handicap")
_TOP = 49
"""9 dan professional."""

_FILE = re.compile(rf"(?:{'|'.join(_SIZES)})/(?:{'|'.join(_ENDINGS)})/(?:{'|'.join(_TERMS)})/\d\d\.olf")

_CLAIMED_LOW = (2, 4)
"""30 to 28 kyu: ranks that strong players of IGS liked to claim."""

_CHUNK_BYTES = 1 << 16
"""Lines of one file that are held in memory; there are at most 1,600 files."""


@dataclass(frozen=True)
class ArchiveFile:
    """One file of the archive, by its path in it."""

    file: str
    games: int
    bytes: int
    blake3: str


@dataclass(frozen=True)
class ArchiveManifest:
    """What an archive is, in full. See docs/olf-archive.md.

    read == kept + the sum of drops + the sum of unsayable; kept is the sum of the files' games.
    """

    kifu: str
    recipe: dict[str, Any]
    sources: list[dict[str, Any]]
    read: int
    kept: int
    drops: dict[str, int]
    """By the name of the `Drop`: games that the rules of cleaning set aside."""
    unsayable: dict[str, int]
    """By the name of the `ExportFailure`: games that OLF cannot say."""
    files: list[ArchiveFile]
    catalogue: ArchiveFile

    def summary(self) -> str:
        """Return counts and size as one line."""
        unsayable = "".join(f" + {n:,} that OLF cannot say ({name.lower()})" for name, n in self.unsayable.items())
        size = format_bytes(sum(file.bytes for file in self.files))
        kept = f"{self.kept:,} in {len(self.files):,} files, {size}"
        return f"{self.read:,} games = {kept}{format_drops(self.drops)}{unsayable}"

    def write(self, path: Path) -> None:
        """Write the manifest as JSON, atomically. Raises OutputError."""
        write_file(path, json.dumps(asdict(self), ensure_ascii=False, indent=1).encode() + b"\n")

    def adds_up(self) -> bool:
        """Whether its counts are those of its lists, and its files lie where an archive has files."""
        return (
            self.kept == sum(file.games for file in self.files)
            and self.read == self.kept + sum(self.drops.values()) + sum(self.unsayable.values())
            and all(_FILE.fullmatch(file.file) for file in self.files)
            and self.catalogue.file == CATALOGUE
        )


class _Lines(NamedTuple):
    """Some games' lines: of each place (see `_places`), how many and which; and how many cannot be said, by reason."""

    placed: list[tuple[int, int, bytes]]
    unsayable: Counter[str]
    games: int


def build_archive(
    recipe: OlfArchiveRecipe,
    sources: AnySources,
    into: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> list[BuildReport[ArchiveManifest]]:
    """Build the tree of OLF files in the directory `into`, with its catalogue and its manifest.

    An archive that an earlier run of this version made from the same recipe and sources is kept; any other one is
    replaced. Only one build at a time may use the directory. Files are complete or absent, even if the build is
    interrupted, and the manifest is written last. Memory is that of `ingest`, plus at most 64 KiB per file.

    Args:
        recipe: see `kifu.recipes.schema.find_recipe`.
        sources: what `ingest` reads: archives, directories, records, catalogues.
        into: the directory to write to.
        jobs: number of threads or processes, by default one per core.
        engine: execution backend, see `kifu.execution.executor.make_executor`. The bytes do not depend on it.
        progress: reports progress.

    Returns:
        One report.

    Raises:
        RecipeError: a source is the catalogue that would be written.
        SourceError: a source cannot be read.
        FormatError: a catalogue is damaged.
        OutputError: a file cannot be written, or `into` holds OLF files that are not of this archive.
        ClusterError: the cluster is not available.
    """
    into = Path(into)
    found = find_sources(sources)
    with make_executor(engine, jobs, staging_dir(into / MANIFEST)) as executor:
        build = _ArchiveBuild(recipe, HashedSources.of(found, executor), executor, BuildOptions(jobs, engine, progress))
        return build.run([Target("archive", into, into / MANIFEST)])


@dataclass
class _ArchiveBuild(Build[ArchiveManifest]):
    recipe: OlfArchiveRecipe
    sources: HashedSources
    executor: Executor
    options: BuildOptions

    def current(self, target: Target) -> ArchiveManifest | None:
        manifest, into = _read_manifest(target.manifest), target.path
        if (
            manifest is None
            or not is_made_by(manifest, self.recipe)
            or manifest.sources != self.sources.hashes
            or not are_hashed(self.sources.hashes)
        ):
            return None
        files = [(into / file.file, file.bytes) for file in (*manifest.files, manifest.catalogue)]
        return manifest if are_whole(files) else None

    def prepare(self, stale: list[Target], stack: ExitStack) -> None:
        for target in stale:
            stack.enter_context(locked_folder(target.path))  # no other build may replace its catalogue meanwhile
            earlier = _read_manifest(target.manifest)
            for file in earlier.files if earlier else ():
                remove_file(target.path / file.file)

    def make(self, target: Target) -> ArchiveManifest:
        into = target.path
        catalogue = ingest_sources(self.sources, into / CATALOGUE, self.recipe.clean, self.options)
        job = _LinesJob(catalogue.digest())
        with _Spool(into) as spool:
            with self.options.progress("sorting lines", catalogue.metadata["kept"], "games") as bar:
                unsayable = _sort(self.executor.run(job, catalogue.shards()), spool, bar)
            _require_no_others(into, spool)
            files = [_write(into, place, spool) for place in spool.places()]
        return ArchiveManifest(
            kifu=importlib.metadata.version("kifu"),
            recipe=self.recipe.model_dump(mode="json"),
            sources=self.sources.hashes,
            read=catalogue.rows,
            kept=sum(file.games for file in files),
            drops=catalogue.metadata["drops"],
            unsayable=dict(sorted(unsayable.items())),
            files=files,
            catalogue=ArchiveFile(CATALOGUE, catalogue.rows, catalogue.file_bytes(), job.digest),
        )


def _read_manifest(path: Path) -> ArchiveManifest | None:
    """Return the manifest at `path`, if it is a valid one."""
    try:
        manifest = _MANIFEST.validate_json(path.read_bytes(), strict=True)
    except (OSError, ValueError, ValidationError):
        return None
    return manifest if manifest.adds_up() else None


_MANIFEST = TypeAdapter(ArchiveManifest)


def _sort(found: Iterable[_Lines], spool: _Spool, bar: Progress) -> Counter[str]:
    """Puts lines by their files. Returns how many games OLF cannot say, by reason."""
    unsayable: Counter[str] = Counter()
    for lines in found:
        for place, games, data in lines.placed:
            spool.write(place, games, data)
        unsayable += lines.unsayable
        bar.advance(lines.games)
    return unsayable


@dataclass(frozen=True)
class _LinesJob(Job[RowShard, pa.RecordBatch, _Lines]):
    """Lines of a catalogue's games. digest: of the catalogue."""

    digest: str

    def fingerprint(self) -> Any:
        return self.digest

    def shard_fingerprint(self, shard: RowShard) -> Any:
        return shard.fingerprint()

    def read(self, shard: RowShard) -> Iterator[pa.RecordBatch]:
        return read_shard(shard)

    def process(self, item: pa.RecordBatch) -> _Lines:
        return _lines(item)


def _lines(batch: pa.RecordBatch) -> _Lines:
    """The lines of a catalogue's kept rows."""
    kept = batch.filter(pc.is_null(batch["drop"]))
    places = _places(kept)
    order = np.argsort(places, kind="stable")
    places = places[order]
    lines = rows_to_olf(kept.take(pa.array(order)))
    said = np.append(0, np.cumsum(lines.failure == ExportFailure.NONE))
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    placed = []
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(places)]):
        data = lines.data[lines.offset[start] : lines.offset[stop]].tobytes()
        if data:
            placed.append((int(places[start]), int(said[stop] - said[start]), data))
    unsayable = Counter(ExportFailure(k).name for k in lines.failure[lines.failure != ExportFailure.NONE].tolist())
    return _Lines(placed, unsayable, len(kept))


def _places(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """[G] which file each game goes to, as a number that `_file_of` names. Rows that OLF cannot say go anywhere."""
    width, height = to_numpy(batch["width"]), to_numpy(batch["height"])
    square = np.where(width == height, width, 0)
    size = np.select([square == 9, square == 13, square == 19], [0, 1, 2], 3)
    ending = map_distinct(batch["ending"], lambda text: {"time": 2, "resign": 3}.get(text or "", 0), np.int64)
    area = pc.fill_null(pc.list_value_length(batch["territory"]), 0).to_numpy()
    ending[(ending == 0) & (area > 0)] = 1
    handicap = to_numpy(pc.fill_null(batch["handicap"], 0)).astype(np.int64)
    black, white = (to_numpy(pc.fill_null(batch[name], 0.0)) for name in ("black_rating", "white_rating"))
    rating = file_rating(black, white, handicap)
    places: npt.NDArray[np.int64] = ((size * 4 + ending) * 2 + (handicap > 1)) * 100 + rating
    return places


def file_rating(
    black: npt.NDArray[np.float32], white: npt.NDArray[np.float32], handicap: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """[G] the rating that games are filed under, 0 to 49: that of the weaker player.

    black, white: [G] ratings, 0 where unknown. handicap: [G] stones; 0 or 1 in an even game.

    That is Black in handicap games, and where White's rating is not known; else who has the lower one. Ratings 2 to 4
    (30 to 28 kyu) are not believed if the opponent's is known, which takes their place, less the handicap, but not
    below 2.
    """
    black, white = np.nan_to_num(black), np.nan_to_num(white)
    stones = np.where(handicap > 1, handicap, 0)
    of_black = (stones > 0) | (white <= 0) | (black <= white)
    weaker, other = np.where(of_black, black, white), np.where(of_black, white, black)
    lowest, highest = _CLAIMED_LOW
    doubted = (weaker >= lowest) & (weaker < highest + 1) & (other > 0)
    rating = np.where(doubted, np.maximum(other - stones, lowest), weaker)
    filed: npt.NDArray[np.int64] = np.clip(rating, 0, _TOP).astype(np.int64)
    return filed


def _file_of(place: int) -> str:
    rest, rating = divmod(place, 100)
    rest, terms = divmod(rest, 2)
    size, ending = divmod(rest, 4)
    return f"{_SIZES[size]}/{_ENDINGS[ending]}/{_TERMS[terms]}/{rating:02}.olf"


def _require_no_others(into: Path, spool: _Spool) -> None:
    """Raises OutputError if the tree would have a file that is not of this archive."""
    ours = {_file_of(place) for place in spool.places()}
    for path in sorted(into.glob("*/*/*/*.olf")):
        name = path.relative_to(into).as_posix()
        if _FILE.fullmatch(name) and name not in ours:
            raise OutputError(f"{path} is there and no part of this archive; remove it, or choose another folder")


def _write(into: Path, place: int, spool: _Spool) -> ArchiveFile:
    name = _file_of(place)
    with AtomicFile(into / name) as output:
        for chunk in spool.read(place):
            output.write(chunk)
        return ArchiveFile(name, spool.games[place], output.size, output.commit())


class _Spool:
    """Lines for many files, in any order: held in one file without a name, so that few are open or in memory."""

    def __init__(self, folder: Path) -> None:
        """Raises OutputError."""
        self.games: Counter[int] = Counter()
        """By place."""
        self._folder = folder
        self._held: defaultdict[int, bytearray] = defaultdict(bytearray)
        self._chunks: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._end = 0
        with self._told():
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115

    def places(self) -> list[int]:
        """Rising."""
        return sorted(self.games)

    def write(self, place: int, games: int, data: bytes) -> None:
        """Appends the lines of some games to those of their file."""
        self.games[place] += games
        held = self._held[place]
        held += data
        if len(held) >= _CHUNK_BYTES:
            with self._told():
                self._file.write(held)
            self._chunks[place].append((self._end, len(held)))
            self._end += len(held)
            del self._held[place]

    def read(self, place: int) -> Iterator[bytes]:
        """All the lines of a file, in order. Nothing is written after."""
        for start, size in self._chunks[place]:
            with self._told():
                self._file.seek(start)
                chunk = self._file.read(size)
            yield chunk
        yield bytes(self._held[place])

    @contextmanager
    def _told(self) -> Iterator[None]:
        """A disk that is full, or gone, is an OutputError."""
        try:
            yield
        except OSError as error:
            raise OutputError(f"cannot write in {self._folder}: {error.strerror}") from None

    def __enter__(self) -> _Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
