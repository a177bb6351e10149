"""An archive of OLF files in Schraudolph's layout, such as 19x19/resign/even/33.olf. docs/olf-archive.md describes it.

Each file has its games in the order of the sources. Next to the tree are a manifest and the catalogue of all games that
were read: line k of a file is the k-th kept row that belongs to the file.
"""

from __future__ import annotations

import importlib.metadata
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import compress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from kifu.corpus.catalogue import read_shard
from kifu.corpus.duplicates import IdSet
from kifu.corpus.export import rows_to_olf
from kifu.corpus.schema import map_distinct, to_numpy
from kifu.corpus.sources import GameSources, Source, find_sources, hash_sources
from kifu.datasets.manifest import SUFFIX, AnyManifest
from kifu.errors import DropReason, OutputError
from kifu.io import AtomicFile, locked_folder, read_small, remove_file
from kifu.recipes.pipeline import (
    CATALOGUE,
    BuildOptions,
    BuildReport,
    Target,
    are_same,
    ingest_sources,
    make_targets,
)
from kifu.recipes.schema import OlfArchiveRecipe
from kifu.records.olf import TERRITORY
from kifu.records.olf_writer import ExportFailure
from kifu.text import format_bytes, format_drops

MANIFEST = "olf-archive" + SUFFIX

_SIZES = ("9x9", "13x13", "19x19", "other")
_ENDINGS = ("terry", "score", "time", "resign")
_TERMS = ("even", "handicap")
_MAX_RATING = 49
"""9 dan professional."""

_FILE = re.compile(rf"(?:{'|'.join(_SIZES)})/(?:{'|'.join(_ENDINGS)})/(?:{'|'.join(_TERMS)})/\d\d\.olf")

_DOUBTED = (2, 4)
"""Ratings 30 to 28 kyu, which strong players of IGS liked to claim."""

_GAME_BYTES = 500
"""Size of the line of a game, about."""

_CHUNK_BYTES = 1 << 16
"""Maximum size of the lines of one file in memory; there are at most 1,600 files."""


@dataclass(frozen=True)
class ArchiveFile:
    """A file of the archive, by its path in it."""

    file: str
    games: int
    bytes: int
    blake3: str


@dataclass(frozen=True)
class ArchiveManifest(AnyManifest):
    """The manifest, see docs/olf-archive.md. read == kept + elsewhere + drops + unsayable."""

    sources: list[dict[str, Any]]
    read: int
    kept: int
    drops: dict[str, int]
    """Games that were dropped by the cleaning rules, or as repeated lines, by the name of the `DropReason`."""
    unsayable: dict[str, int]
    """Games that cannot be written as OLF, by the name of the `ExportFailure`."""
    files: list[ArchiveFile]
    catalogue: ArchiveFile
    elsewhere: int = 0
    """Kept games that were not drawn."""

    def summary(self) -> str:
        """Return counts and size as one line."""
        unsayable = "".join(
            f" + {n:,} that cannot be written as OLF ({name.lower()})" for name, n in self.unsayable.items()
        )
        size = format_bytes(sum(file.bytes for file in self.files))
        kept = f"{self.kept:,} in {len(self.files):,} files, {size}"
        elsewhere = f" + {self.elsewhere:,} elsewhere" if self.elsewhere else ""
        return f"{self.read:,} games = {kept}{elsewhere}{format_drops(self.drops)}{unsayable}"

    def files_at(self, path: Path) -> list[tuple[Path, ArchiveFile]]:
        """Return the files of the archive at `path`, and the catalogue, each as the manifest lists it."""
        return [(path / file.file, file) for file in (*self.files, self.catalogue)]

    def adds_up(self) -> bool:
        """Return whether the counts equal those of the lists, and the files have valid names."""
        return (
            self.kept == sum(file.games for file in self.files)
            and self.read == self.kept + self.elsewhere + sum(self.drops.values()) + sum(self.unsayable.values())
            and all(_FILE.fullmatch(file.file) for file in self.files)
            and self.catalogue.file == CATALOGUE
        )


_Lines: TypeAlias = tuple[list[tuple[int, int, bytes]], Counter[str], int]
"""The lines of some games: (number of the file, see `_file_numbers`; number of games; lines); the number of games that
cannot be written, by reason; the number of games.
"""


def build_archive(
    recipe: OlfArchiveRecipe, sources: GameSources, output: Path, options: BuildOptions
) -> list[BuildReport[ArchiveManifest]]:
    """Build the tree of OLF files, see `kifu.recipes.pipeline.build`.

    Another archive in the directory is replaced. Only one build at a time may use the directory. The manifest is
    written last. Memory is that of `ingest`, plus at most 64 KiB per file, and 11 to 22 bytes per game.
    Raises RecipeError if a source is the catalogue that would be written, and OutputError if `output` holds OLF files
    that are not of this archive.
    """
    hashed = hash_sources(find_sources(sources), options.executor)

    def read(target: Target) -> ArchiveManifest | None:
        return read_archive_manifest(target.path)

    def is_current(_: Target, manifest: ArchiveManifest) -> bool:
        return are_same(manifest.sources, hashed)

    def prepare(stale: list[Target], stack: ExitStack) -> Callable[[Target], ArchiveManifest]:
        (target,) = stale
        stack.enter_context(locked_folder(target.path))  # no other build may replace its catalogue meanwhile
        earlier = read(target)
        for file in earlier.files if earlier else ():
            remove_file(target.path / file.file)
        if not target.unfinished.exists():
            _require_no_others(target.path, ())
        return lambda target: _make(recipe, hashed, target.path, options)

    target = Target("archive", output, output / MANIFEST)
    return make_targets(recipe, [target], options.overwrite, read, is_current, prepare)


def _make(recipe: OlfArchiveRecipe, sources: list[Source], into: Path, options: BuildOptions) -> ArchiveManifest:
    catalogue = ingest_sources(sources, into / CATALOGUE, recipe.clean, options)
    digest = catalogue.digest()
    unsayable: Counter[str] = Counter()
    seen, elsewhere = IdSet(), catalogue.metadata["kept"]
    process = partial(_write_lines, recipe.fit([catalogue.path]))
    games = min(elsewhere, recipe.games or elsewhere)
    options.announce(into, games * _GAME_BYTES)
    with _Spool(into) as spool:
        with options.progress("sorting lines", games, "games") as bar:
            for placed, failed, read in options.executor.run(process, catalogue.shards(), read_shard):
                for number, games, data in placed:
                    spool.write(number, games, data)
                unsayable += failed
                elsewhere -= read
                bar.advance(read)
        _require_no_others(into, spool.files())
        written = [_write(into, number, spool, seen) for number in spool.files()]
        files = [file for file in written if file]
        drops = Counter(catalogue.metadata["drops"])
        drops[DropReason.DUPLICATE.name] += spool.games.total() - sum(file.games for file in files)
    return ArchiveManifest(
        kifu=importlib.metadata.version("kifu"),
        recipe=recipe.model_dump(mode="json"),
        sources=[source.info for source in sources],
        read=catalogue.rows,
        kept=sum(file.games for file in files),
        drops=dict(sorted((+drops).items())),
        unsayable=dict(sorted(unsayable.items())),
        files=files,
        catalogue=ArchiveFile(CATALOGUE, catalogue.rows, catalogue.file_bytes(), digest),
        elsewhere=elsewhere,
    )


def read_archive_manifest(folder: Path) -> ArchiveManifest | None:
    """Return the manifest of the archive in a folder, None if there is no valid one."""
    try:
        manifest = _MANIFEST.validate_json(read_small(folder / MANIFEST), strict=True)
    except (OSError, ValueError):
        return None
    return manifest if manifest.adds_up() else None


_MANIFEST = TypeAdapter(ArchiveManifest)


def _write_lines(recipe: OlfArchiveRecipe, item: pa.RecordBatch) -> _Lines:
    kept = item.filter(pc.is_null(item["drop"]))
    kept = kept.filter(pa.array(recipe.drawn(kept)))
    file = _file_numbers(kept)
    order = np.argsort(file, kind="stable")
    file = file[order]
    lines = rows_to_olf(kept.take(pa.array(order)))
    written = np.append(0, np.cumsum(lines.failure == ExportFailure.NONE))
    starts = np.flatnonzero(np.diff(file, prepend=-1))
    placed = []
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(file)]):
        data = lines.data[lines.offset[start] : lines.offset[stop]].tobytes()
        if data:
            placed.append((int(file[start]), int(written[stop] - written[start]), data))
    unsayable = Counter(ExportFailure(k).name for k in lines.failure[lines.failure != ExportFailure.NONE].tolist())
    return placed, unsayable, len(kept)


def _file_numbers(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the file of each game, [G], as a number for `_file_name`; any, if the game cannot be written."""
    width, height = to_numpy(batch["width"]), to_numpy(batch["height"])
    square = np.where(width == height, width, 0)
    size = np.select([square == 9, square == 13, square == 19], [0, 1, 2], 3)
    ending = map_distinct(batch["ending"], lambda text: {"time": 2, "resign": 3}.get(text or "", 1), np.int64)
    area = pc.fill_null(pc.list_value_length(batch["territory"]), 0).to_numpy()
    ending[(ending == 1) & (area > 0)] = 0
    handicap = to_numpy(pc.fill_null(batch["handicap"], 0)).astype(np.int64)
    black, white = (to_numpy(pc.fill_null(batch[name], 0.0)) for name in ("black_rating", "white_rating"))
    rating = file_rating(black, white, handicap)
    numbers: npt.NDArray[np.int64] = ((size * 4 + ending) * 2 + (handicap > 1)) * 100 + rating
    return numbers


def file_rating(
    black: npt.NDArray[np.float32], white: npt.NDArray[np.float32], handicap: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the rating that names the file of each game, that of the weaker player: [G] int64, 0 to 49.

    The weaker player is Black in handicap games and if White's rating is unknown, else the one with the lower rating.
    Ratings 2 to 4 (30 to 28 kyu) are not trusted if the opponent's rating is known: that one less the handicap
    replaces them, but at least 2.

    black, white: [G] ratings, 0 where unknown; handicap: [G] stones, 0 or 1 in an even game.
    """
    black, white = np.nan_to_num(black), np.nan_to_num(white)
    stones = np.where(handicap > 1, handicap, 0)
    black_is_weaker = (stones > 0) | (white <= 0) | (black <= white)
    weaker, other = np.where(black_is_weaker, black, white), np.where(black_is_weaker, white, black)
    lowest, highest = _DOUBTED
    doubted = (weaker >= lowest) & (weaker < highest + 1) & (other > 0)
    rating = np.where(doubted, np.maximum(other - stones, lowest), weaker)
    return np.clip(rating, 0, _MAX_RATING).astype(np.int64)


def _file_name(number: int) -> str:
    rest, rating = divmod(number, 100)
    rest, terms = divmod(rest, 2)
    size, ending = divmod(rest, 4)
    return f"{_SIZES[size]}/{_ENDINGS[ending]}/{_TERMS[terms]}/{rating:02}.olf"


def _require_no_others(into: Path, numbers: Iterable[int]) -> None:
    """Raise OutputError if the tree holds an OLF file other than these."""
    ours = {_file_name(number) for number in numbers}
    for path in sorted(into.glob("*/*/*/*.olf")):
        name = path.relative_to(into).as_posix()
        if _FILE.fullmatch(name) and name not in ours:
            raise OutputError(f"{path} is not part of this archive; remove it, or choose another folder")


def _write(into: Path, number: int, spool: _Spool, seen: IdSet) -> ArchiveFile | None:
    """Write a file without lines seen before: README's "duplicate games (all above fields identical)".

    Lines that differ in their territory only are the same game, which a catalogue made of them would have once. Without
    other lines, remove the file.
    """
    name, games = _file_name(number), len(seen)
    with AtomicFile(into / name) as output:
        for chunk in spool.read(number):
            lines = chunk.splitlines(keepends=True)
            digests = (blake2b(b" ".join(line.split()[:TERRITORY]), digest_size=8).digest() for line in lines)
            output.write(b"".join(compress(lines, seen.add(np.frombuffer(b"".join(digests), np.uint64)))))
        if len(seen) == games:
            remove_file(into / name)
            return None
        return ArchiveFile(name, len(seen) - games, output.size, output.commit())


class _Spool(ExitStack):
    """Lines for many files, received in any order, in one unnamed temporary file."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.games: Counter[int] = Counter()  # by number of the file
        self._folder = folder
        self._lines: defaultdict[int, bytearray] = defaultdict(bytearray)
        self._chunks: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._end = 0
        with self._errors():
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self.callback(self._file.close)

    def files(self) -> list[int]:
        return sorted(self.games)

    def write(self, number: int, games: int, data: bytes) -> None:
        self.games[number] += games
        lines = self._lines[number]
        lines += data
        if len(lines) >= _CHUNK_BYTES:
            with self._errors():
                self._file.write(lines)
            self._chunks[number].append((self._end, len(lines)))
            self._end += len(lines)
            del self._lines[number]

    def read(self, number: int) -> Iterator[bytes]:
        """Yield the lines of a file, in order, once all are written."""
        for start, size in self._chunks[number]:
            with self._errors():
                self._file.seek(start)
                chunk = self._file.read(size)
            yield chunk
        yield bytes(self._lines[number])

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise OutputError for errors of the disk."""
        try:
            yield
        except OSError as error:
            raise OutputError(f"cannot write in {self._folder}: {error.strerror}") from None
