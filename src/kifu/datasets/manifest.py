"""The manifest beside each data set, with its recipe, counts and hashes, and the base class of all writers."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from kifu.config import first_invalid
from kifu.datasets.examples import Batch, Layout, concat
from kifu.errors import FormatError, printable
from kifu.io import read_small, write_file
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


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of a data set.

    Attributes:
        file: Its name, within the directory if the data set is one.
        blake3: BLAKE3 hash in hex.
    """

    file: str
    bytes: int
    blake3: str


@dataclass(frozen=True, slots=True)
class WriteReport:
    """A finished data set.

    Attributes:
        files: Its files in the order in which they were created.
    """

    examples: int
    files: tuple[WrittenFile, ...]


class Rebatcher:
    """Regroups batches into groups of one size, so that a file does not depend on the sizes of the batches."""

    def __init__(self, layout: Layout, size: int) -> None:
        self._layout = layout
        self._size = size
        self._pending: list[Batch] = []
        self._rows = 0

    def add(self, batch: Batch) -> Iterator[Batch]:
        """Add rows, and yield each group that is full."""
        at = 0
        while self._rows + len(batch) - at >= self._size:
            until = at + self._size - self._rows
            yield self._concat([*self._pending, batch.slice(at, until)])
            at = until
        if at < len(batch):
            self._pending.append(batch.slice(at, len(batch)))
            self._rows += len(batch) - at

    def rest(self) -> Batch:
        """Return the rows that do not fill a group."""
        return self._concat(self._pending)

    def _concat(self, parts: list[Batch]) -> Batch:
        self._pending, self._rows = [], 0
        return concat(parts, self._layout)


class Writer(ABC):
    """Writes one data set, which appears under its name when `commit` returns. A context manager.

    Batches are prepared in any thread or process, and appended in order. The bytes depend on the examples and their
    order, not on how they are divided into batches.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.examples = 0

    @staticmethod
    def prepare(batch: Batch, layout: Layout) -> Any:
        """Convert a batch to the form that `append` takes; may run in any thread or process."""
        return batch

    @abstractmethod
    def append(self, prepared: Any) -> None:
        """Append a result of `prepare`.

        Raises:
            RecipeError: The format cannot hold these examples.
        """

    def write(self, batch: Batch) -> None:
        """Append examples. Raises what `append` raises."""
        self.append(self.prepare(batch, self.layout))

    @abstractmethod
    def commit(self, about: Mapping[str, Any]) -> WriteReport:
        """Finish the data set and give it its name.

        Args:
            about: Metadata to store in the data set, as JSON values.
        """

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
