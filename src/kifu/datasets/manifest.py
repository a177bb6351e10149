"""The manifest: the JSON beside each data set, which says how to make it again and where each row comes from."""

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
from kifu.errors import FormatError

SUFFIX = ".manifest.json"


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """Where a row comes from: the position before move `ply` (counted from 0, passes too) of a game.

    member: the game's place in its archive, counting all that the archive lists, from 0.
    """

    archive: str
    member: int
    ply: int


@dataclass(frozen=True)
class ArchiveRows:
    """The rows that one archive gave, game after game in the order of the file.

    member, rows, ply: one entry a game: its place in the archive, how many rows, and the ply of the first of them.
    skips: [index of the game here, row within the game, ply] where a ply does not follow the one of the row before,
        because passes stand between.
    """

    archive: str
    blake3: str
    member: list[int]
    rows: list[int]
    ply: list[int]
    skips: list[list[int]]

    def origin(self, row: int) -> ManifestSource:
        """Where row `row` of this archive's rows comes from."""
        stop = np.cumsum(self.rows)
        game = int(np.searchsorted(stop, row, "right"))
        within = row - int(stop[game] - self.rows[game])
        at, ply = 0, self.ply[game]
        for skipped, row_there, ply_there in self.skips:
            if skipped == game and row_there <= within:
                at, ply = row_there, ply_there
        return ManifestSource(self.archive, self.member[game], ply + within - at)


class RowsNoted:
    """What `ArchiveRows` tells, noted some games at a time: of the plies only those that do not follow from others."""

    def __init__(self) -> None:
        self._games = 0
        self._member = [np.empty(0, np.int32)]
        self._rows = [np.empty(0, np.int32)]
        self._ply = [np.empty(0, np.uint16)]
        self._skips = [np.empty((0, 3), np.int64)]

    def add(self, member: npt.NDArray[np.int32], rows: npt.NDArray[np.int32], plies: npt.NDArray[np.uint16]) -> None:
        """member, rows: [K] of the games; plies: [sum of rows], of all their rows. Games without rows have ply 0."""
        start = np.cumsum(rows) - rows
        given = rows > 0
        first = np.zeros(len(rows), np.uint16)
        first[given] = plies[start[given]]
        jumps = np.empty(len(plies), bool)
        np.not_equal(plies[1:], plies[:-1] + np.uint16(1), out=jumps[1:])  # the first row is a game's first
        jumps[start[given]] = False
        at = np.flatnonzero(jumps)
        game = np.searchsorted(start, at, "right") - 1
        self._skips.append(np.stack([self._games + game, at - start[game], plies[at]], 1))
        self._member.append(member)
        self._rows.append(rows)
        self._ply.append(first)
        self._games += len(rows)

    def end(self, archive: str, blake3: str) -> ArchiveRows:
        """All of it, as of this archive."""
        told = (np.concatenate(each).tolist() for each in (self._member, self._rows, self._ply, self._skips))
        return ArchiveRows(archive, blake3, *told)


@dataclass(frozen=True)
class Dropped:
    """A game that was asked for and gave no row."""

    archive: str
    member: int
    name: str
    reason: str


@dataclass(frozen=True)
class Manifest:
    """What a data set is, in full. See docs/formats/manifest.md."""

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
    dropped: list[Dropped]
    archives: list[ArchiveRows]

    def origin(self, row: int) -> ManifestSource:
        """Where row `row` (from 0) comes from. Raises IndexError."""
        return _origin(self.archives, row, self.examples)

    def adds_up(self) -> bool:
        """Whether its counts are those of its lists."""
        return (
            _lists_add_up(self.archives, self.examples)
            and self.kept == sum(len(archive.rows) for archive in self.archives)
            and self.read == self.kept + len(self.dropped)
            and self.drops == Counter(game.reason for game in self.dropped)
        )

    def write(self, path: Path) -> None:
        """Writes it as JSON, whole or not at all."""
        table = vars(self) | {
            "dropped": [vars(game) for game in self.dropped],
            "archives": [vars(archive) for archive in self.archives],
        }
        write_file(path, json.dumps(table, separators=(",", ":")).encode() + b"\n")


@dataclass(frozen=True)
class ExamplesManifest:
    """What a data set of examples is, in full. See docs/formats/manifest.md.

    read == kept + elsewhere + the sum of drops; elsewhere: games of other sets, or of none.
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
    catalogues: list[ArchiveRows]
    """The games' catalogues; members are rows of these. Without rows if the examples are shuffled: then each has its
    game and ply in the data set."""

    def origin(self, row: int) -> ManifestSource:
        """Where row `row` (from 0) comes from: a row of a catalogue. Raises IndexError."""
        return _origin(self.catalogues, row, self.examples)

    def adds_up(self) -> bool:
        """Whether its counts are those of its lists."""
        shuffled = self.recipe.get("order") == "shuffled"
        return _lists_add_up(
            self.catalogues, 0 if shuffled else self.examples
        ) and self.read == self.kept + self.elsewhere + sum(self.drops.values())

    def write(self, path: Path) -> None:
        """Writes it as JSON, whole or not at all."""
        table = vars(self) | {
            "files": [asdict(file) for file in self.files],
            "catalogues": [vars(each) for each in self.catalogues],
        }
        write_file(path, json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")


def _origin(archives: list[ArchiveRows], row: int, examples: int) -> ManifestSource:
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
    """Where the manifest of a data set lies."""
    return path.with_name(path.name + SUFFIX)


def read_manifest(path: Path) -> Manifest | None:
    """The manifest of the dat1 or dat2 file at `path`; None if there is none. Raises FormatError if it is damaged."""
    return _read(_MANIFEST, manifest_path(path))


def read_examples_manifest(path: Path) -> ExamplesManifest | None:
    """The manifest of the examples at `path`; None if there is none. Raises FormatError if it is damaged."""
    return _read(_EXAMPLES_MANIFEST, manifest_path(path))


_M = TypeVar("_M", Manifest, ExamplesManifest)


def _read(kind: TypeAdapter[_M], where: Path) -> _M | None:
    try:
        manifest = kind.validate_json(where.read_bytes(), strict=True)
    except FileNotFoundError:
        return None
    except ValidationError as error:
        first = error.errors()[0]
        raise FormatError(f"{where} is no manifest: {'.'.join(map(str, first['loc']))[:80]} {first['msg']}") from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{where} is no manifest: {error}") from None
    if not manifest.adds_up():
        raise FormatError(f"{where} is no manifest: its counts do not add up")
    return manifest


_MANIFEST = TypeAdapter(Manifest)
_EXAMPLES_MANIFEST = TypeAdapter(ExamplesManifest)
