"""The manifest: a JSON file beside each data set with its recipe, its counts and the origin of each row."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from kifu.atomic_io import write_file
from kifu.datasets.writer import WrittenFile
from kifu.errors import FormatError, printable
from kifu.files import read_small
from kifu.progress import format_bytes, format_drops

SUFFIX = ".manifest.json"

ORIGINS_SUFFIX = ".manifest.parquet"

_MAX_BYTES = 1 << 30
"""A manifest takes about 20 bytes per game."""


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """The position that a row shows.

    Attributes:
        archive: Name of the archive, or of the catalogue.
        member: Index of the game among all that the archive lists, from 0.
        ply: Number of moves before the position, passes included.
    """

    archive: str
    member: int
    ply: int


@dataclass(frozen=True)
class ArchiveRows:
    """The rows of one archive, game after game in the order of the file.

    Attributes:
        archive: Name of the archive.
        blake3: BLAKE3 hash of the archive in hex.
        member: For each game, its index in the archive.
        rows: For each game, its number of rows.
        ply: For each game, the ply of its first row.
        skips: [index in these lists, row within the game, ply] for each row whose ply is not that of the row before
            plus one, because passes lie between them.
    """

    archive: str
    blake3: str
    member: list[int]
    rows: list[int]
    ply: list[int]
    skips: list[list[int]]

    def origin(self, row: int) -> RowOrigin:
        """Return the origin of row `row` of this archive's rows."""
        stop = np.cumsum(self.rows)
        game = int(np.searchsorted(stop, row, "right"))
        within = row - int(stop[game] - self.rows[game])
        at, ply = 0, self.ply[game]
        for skip_game, skip_row, skip_ply in self.skips:
            if skip_game == game and skip_row <= within:
                at, ply = skip_row, skip_ply
        return RowOrigin(self.archive, self.member[game], ply + within - at)


class ArchiveRowsBuilder:
    """Builds an `ArchiveRows` from several chunks of games."""

    def __init__(self) -> None:
        self._games = 0
        self._member = [np.empty(0, np.int32)]
        self._rows = [np.empty(0, np.int32)]
        self._ply = [np.empty(0, np.uint16)]
        self._skips = [np.empty((0, 3), np.int64)]

    def add(self, member: npt.NDArray[np.int32], rows: npt.NDArray[np.int32], plies: npt.NDArray[np.uint16]) -> None:
        """Add K games.

        Args:
            member: [K] index of each game in the archive.
            rows: [K] number of rows of each game.
            plies: [sum of rows] ply of each row.
        """
        first, skips = find_skips(rows, plies)
        self._skips.append(skips + np.array([self._games, 0, 0], np.int64))
        self._member.append(member)
        self._rows.append(rows)
        self._ply.append(first)
        self._games += len(rows)

    def build(self, archive: str, blake3: str) -> ArchiveRows:
        """Return all games as the rows of an archive."""
        columns = (np.concatenate(each).tolist() for each in (self._member, self._rows, self._ply, self._skips))
        return ArchiveRows(archive, blake3, *columns)


def find_skips(
    rows: npt.NDArray[np.int32], plies: npt.NDArray[np.uint16]
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """Return the ply of the first row of each game, 0 without rows, and the skips [game, row within the game, ply].

    Args:
        rows: [K] number of rows of each game.
        plies: [sum of rows] ply of each row.
    """
    start = np.cumsum(rows) - rows
    has_rows = rows > 0
    first = np.zeros(len(rows), np.uint16)
    first[has_rows] = plies[start[has_rows]]
    jumps = np.empty(len(plies), bool)
    np.not_equal(plies[1:], plies[:-1] + np.uint16(1), out=jumps[1:])  # row 0 is the first row of a game
    jumps[start[has_rows]] = False
    at = np.flatnonzero(jumps)
    game = np.searchsorted(start, at, "right") - 1
    return first, np.stack([game, at - start[game], plies[at]], 1).astype(np.int64)


@dataclass(frozen=True)
class DroppedGame:
    """A selected game that gave no rows.

    Attributes:
        archive: Name of the archive.
        member: Index of the game in the archive.
        name: Name of the game in the archive.
        reason: Name of the drop reason.
    """

    archive: str
    member: int
    name: str
    reason: str


@dataclass(frozen=True)
class Manifest:
    """The manifest of a dat1 or dat2 file. The fields are described in docs/formats/manifest.md."""

    kifu: str
    file: str
    format: str
    plane_set: str
    recipe: dict[str, Any]
    set: str
    examples: int
    bytes: int
    blake3: str
    read: int
    kept: int
    drops: dict[str, int]
    dropped: list[DroppedGame]
    archives: list[ArchiveRows]

    def origin(self, row: int) -> RowOrigin:
        """Return the origin of row `row`, counted from 0. Raises IndexError."""
        return _origin(self.archives, row, self.examples)

    def summary(self) -> str:
        """Return counts and size as one line."""
        games = f"{self.read:,} games = {self.kept:,} kept{format_drops(self.drops)}"
        return f"{self.examples:,} examples, {format_bytes(self.bytes)}; {games}"

    def __repr__(self) -> str:
        return printable(f"<{type(self).__name__} of {self.file}: {self.summary()}>")

    def adds_up(self) -> bool:
        """Return whether the counts match the lists."""
        return (
            _lists_add_up(self.archives, self.examples)
            and self.kept == sum(len(archive.rows) for archive in self.archives)
            and self.read == self.kept + len(self.dropped)
            and self.drops == Counter(game.reason for game in self.dropped)
        )

    def write(self, path: Path) -> None:
        """Write the manifest as JSON, atomically."""
        table = vars(self) | {
            "dropped": [vars(game) for game in self.dropped],
            "archives": [vars(archive) for archive in self.archives],
        }
        write_file(path, json.dumps(table, separators=(",", ":")).encode() + b"\n")


@dataclass(frozen=True)
class CatalogueRows:
    """The rows of one catalogue in a data set.

    Attributes:
        archive: File name of the catalogue.
        blake3: Its digest in hex, see `Catalogue.digest`.
        games: Number of its games with rows.
        rows: Number of their rows.
    """

    archive: str
    blake3: str
    games: int
    rows: int


@dataclass(frozen=True)
class ExamplesManifest:
    """The manifest of a data set of examples. The fields are described in docs/formats/manifest.md.

    read == kept + elsewhere + the sum of drops, where `elsewhere` counts games of other sets or of no set. `origins` is
    a Parquet file beside the manifest that lists the rows of each game (`kifu.datasets.row_origins`). It is None, and
    the numbers of `catalogues` are 0, if the examples are shuffled: each row then stores its own game and ply.
    """

    kifu: str
    file: str
    format: str
    plane_set: str
    recipe: dict[str, Any]
    set: str
    examples: int
    files: list[WrittenFile]
    read: int
    kept: int
    elsewhere: int
    drops: dict[str, int]
    sources: list[dict[str, Any]]
    catalogues: list[CatalogueRows]
    origins: WrittenFile | None

    def summary(self) -> str:
        """Return counts and size as one line."""
        elsewhere = f" + {self.elsewhere:,} elsewhere" if self.elsewhere else ""
        size = format_bytes(sum(file.bytes for file in self.files))
        games = f"{self.read:,} games = {self.kept:,} kept{elsewhere}{format_drops(self.drops)}"
        return f"{self.examples:,} examples, {size}; {games}"

    def __repr__(self) -> str:
        return printable(f"<{type(self).__name__} of {self.file}: {self.summary()}>")

    def adds_up(self) -> bool:
        """Return whether the counts match, and the file of origins has a name of its own."""
        rows = 0 if self.origins is None else self.examples
        return (
            rows == sum(each.rows for each in self.catalogues)
            and self.read == self.kept + self.elsewhere + sum(self.drops.values())
            and (self.origins is None or self.origins.file == self.file + ORIGINS_SUFFIX)
        )

    def write(self, path: Path) -> None:
        """Write the manifest as JSON, atomically."""
        write_file(path, json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False).encode() + b"\n")


def _origin(archives: list[ArchiveRows], row: int, examples: int) -> RowOrigin:
    left = row
    if row >= 0:
        for archive in archives:
            total = sum(archive.rows)
            if left < total:
                return archive.origin(left)
            left -= total
    raise IndexError(f"row {row} is not within 0 to {examples - 1}")


def _lists_add_up(archives: list[ArchiveRows], examples: int) -> bool:
    lists = [(a.rows, a.ply) for a in archives if len(a.member) == len(a.rows) == len(a.ply)]
    return (
        len(lists) == len(archives)
        and all(min(*rows, *ply) >= 0 for rows, ply in lists if rows)
        and all(len(skip) == 3 for a in archives for skip in a.skips)
        and examples == sum(sum(rows) for rows, _ in lists)
    )


def manifest_path(path: Path) -> Path:
    """Return the path of the manifest of a data set."""
    return path.with_name(path.name + SUFFIX)


def origins_path(path: Path) -> Path:
    """Return the path of the file of origins of a data set."""
    return path.with_name(path.name + ORIGINS_SUFFIX)


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest of the dat1 or dat2 file at `path`, or None. Raises FormatError if it is damaged."""
    return _read(_MANIFEST, manifest_path(path))


def read_examples_manifest(path: Path) -> ExamplesManifest | None:
    """Return the manifest of the examples at `path`, or None. Raises FormatError if it is damaged."""
    return _read(_EXAMPLES_MANIFEST, manifest_path(path))


_M = TypeVar("_M", Manifest, ExamplesManifest)


def _read(adapter: TypeAdapter[_M], path: Path) -> _M | None:
    try:
        manifest = adapter.validate_json(read_small(path, _MAX_BYTES), strict=True)
    except FileNotFoundError:
        return None
    except ValidationError as error:
        first = error.errors()[0]
        raise FormatError(f"{path} is not a manifest: {'.'.join(map(str, first['loc']))[:80]} {first['msg']}") from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} is not a manifest: {error}") from None
    if not manifest.adds_up():
        raise FormatError(f"{path} is not a manifest: its counts do not add up")
    return manifest


_MANIFEST = TypeAdapter(Manifest)
_EXAMPLES_MANIFEST = TypeAdapter(ExamplesManifest)
