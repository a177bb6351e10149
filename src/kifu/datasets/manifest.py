"""The manifest: a JSON file beside each data set with its recipe, its counts and the hashes of its files."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from kifu.atomic_io import write_file
from kifu.config import first_invalid
from kifu.datasets.writer import WrittenFile
from kifu.errors import FormatError, printable
from kifu.files import read_small
from kifu.text import format_bytes, format_games

SUFFIX = ".manifest.json"

ORIGINS_SUFFIX = ".manifest.parquet"

_MAX_BYTES = 1 << 28
"""A manifest takes about 100 bytes per dropped game."""


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
        member: Index of the game in the archive.
    """

    archive: str
    member: int
    name: str
    reason: str


@dataclass(frozen=True)
class ArchiveRows:
    """The rows of one archive or catalogue in a data set.

    Attributes:
        archive: Name of an archive of KGS without its extension, or file name of a catalogue.
        blake3: Its hash in hex; of a catalogue its digest, see `Catalogue.digest`.
        games: Number of its games that `origins` lists.
    """

    archive: str
    blake3: str
    games: int
    rows: int


@dataclass(frozen=True)
class Manifest:
    """The manifest of a data set. The fields are described in docs/formats/manifest.md.

    read == kept + elsewhere + the sum of drops, where `elsewhere` counts games of other sets or of no set. `dropped`
    lists the dropped games of archives; a catalogue lists its own. `origins` is a Parquet file beside the manifest that
    lists the rows of each game (`kifu.datasets.row_origins`). It is None, and the numbers of `archives` are 0, if the
    examples are shuffled: each row then stores its own game and ply.
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
    dropped: list[DroppedGame]
    sources: list[dict[str, Any]]
    archives: list[ArchiveRows]
    origins: WrittenFile | None

    @property
    def bytes(self) -> int:
        """Size of all files of the data set."""
        return sum(file.bytes for file in self.files)

    @property
    def blake3(self) -> str | None:
        """BLAKE3 hash of the data set in hex; None if it is not one file."""
        return self.files[0].blake3 if len(self.files) == 1 else None

    def summary(self) -> str:
        """Return counts and size as one line."""
        games = format_games(self.read, self.kept, self.drops, self.elsewhere)
        return f"{self.examples:,} examples, {format_bytes(self.bytes)}; {games}"

    def __repr__(self) -> str:
        return printable(f"<{type(self).__name__} of {self.file}: {self.summary()}>")

    def adds_up(self) -> bool:
        """Return whether the counts match, and the file of origins has a name of its own."""
        rows = 0 if self.origins is None else self.examples
        return (
            rows == sum(each.rows for each in self.archives)
            and all(each.games >= 0 <= each.rows for each in self.archives)
            and self.read == self.kept + self.elsewhere + sum(self.drops.values())
            and (not self.dropped or self.drops == Counter(game.reason for game in self.dropped))
            and (self.origins is None or self.origins.file == self.file + ORIGINS_SUFFIX)
        )

    def write(self, path: Path) -> None:
        """Write the manifest as JSON, atomically."""
        write_file(path, json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False).encode() + b"\n")


def manifest_path(path: Path) -> Path:
    """Return the path of the manifest of a data set."""
    return path.with_name(path.name + SUFFIX)


def origins_path(path: Path) -> Path:
    """Return the path of the file of origins of a data set."""
    return path.with_name(path.name + ORIGINS_SUFFIX)


def data_set_files(path: Path, manifest: Manifest) -> list[tuple[Path, WrittenFile]]:
    """Return the files of the data set at `path`, and the file of origins, each as its manifest lists it."""
    files = [(path / file.file if path.is_dir() else path, file) for file in manifest.files]
    return files if manifest.origins is None else [*files, (origins_path(path), manifest.origins)]


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest of the data set at `path`, or None. Raises FormatError if it is damaged."""
    path = manifest_path(path)
    try:
        manifest = _MANIFEST.validate_json(read_small(path, _MAX_BYTES), strict=True)
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise FormatError(f"{path} is not a manifest: {first_invalid(error)}") from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} is not a manifest: {error}") from None
    if not manifest.adds_up():
        raise FormatError(f"{path} is not a manifest: its counts do not add up")
    return manifest


_MANIFEST = TypeAdapter(Manifest)
