"""The manifest of a published data set, `kifu.json`, from which its card and its Croissant metadata are made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from kifu.config import first_invalid
from kifu.errors import FormatError, RecipeError, first_line
from kifu.files import read_small
from kifu.publication.changes import Changes
from kifu.text import Report

MANIFEST = "kifu.json"

_VERSION = re.compile(r"(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})", re.ASCII)


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A Parquet file of a split. path: within the published folder."""

    path: Annotated[str, Field(pattern=r"^data/\w+(-\d{5}-of-\d{5})?\.parquet$")]
    rows: int
    bytes: int
    sha256: str
    blake3: str


@dataclass(frozen=True, slots=True)
class PublishedSplit:
    """A split.

    Attributes:
        files: Its files in order.
        games: Number of games that are not dropped; None if it is unknown.
        positions: Number of their moves; of a data set, its rows.
        drops: Number of dropped games by reason: of a catalogue, among its rows; of a data set, among the games that
            its recipe read.
    """

    name: str
    files: list[PublishedFile]
    rows: int
    games: int | None
    positions: int
    drops: dict[str, int]


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Kept games that equal another kept game, or are its beginning (`kifu.corpus.duplicates`).

    Attributes:
        other: The split of the game that stands for them.
    """

    split: str
    other: str
    same_game: int
    cut_off: int


@dataclass(frozen=True, slots=True)
class AuditedPair:
    """Games and positions that two splits share, see docs/audit.md.

    Attributes:
        second: Name of the second split.
        first_games: Games of the first split that are in the second.
        second_games: Games of the second split that are in the first.
        first_positions: Positions of the first split that occur in the second.
        second_positions: Positions of the second split that occur in the first.
        games: The first shared games, as text.
    """

    first: str
    second: str
    first_games: int
    second_games: int
    first_positions: int
    second_positions: int
    late: int
    games: list[str]


@dataclass(frozen=True, slots=True)
class Publication(Report):
    """A published data set.

    Attributes:
        licence: Its licence as an identifier of the Hub; None if it must be filled in.
        kind: Format of the Parquet files: catalogue@2 or parquet@1.
        columns: Type and meaning of each column.
        origin: How the sets were made: read, kept and drops, cleaning rules, split, query or recipe, where known.
        sources: The sources with name, size, BLAKE3, and number of games, where known.
        counts: Of a catalogue, the numbers of kept games by rank, year, server and more (`kifu stats`).
        duplicates: Of a catalogue, the duplicates within and across splits.
        audit: What every two of the splits share.
        audit_note: The reason why there is no audit.
    """

    title: str
    version: Annotated[str, Field(pattern=f"^{_VERSION.pattern}$")]
    licence: str | None
    kind: str
    kifu: str
    columns: dict[str, tuple[str, str]]
    splits: Annotated[list[PublishedSplit], Field(min_length=1)]
    origin: dict[str, Any]
    sources: list[dict[str, Any]]
    counts: dict[str, Any]
    duplicates: list[Duplicates]
    audit: list[AuditedPair]
    audit_note: str
    changes: Changes | None

    @property
    def leaks(self) -> bool:
        """True if two splits share a game or a late position."""
        return any(pair.first_games or pair.second_games or pair.late for pair in self.audit)

    @property
    def rows(self) -> int:
        """Number of rows of all splits."""
        return sum(split.rows for split in self.splits)

    def __str__(self) -> str:
        splits = ", ".join(f"{split.name} {split.rows:,}" for split in self.splits)
        lines = [f"version {self.version}, {self.rows:,} rows: {splits}"]
        if self.changes is not None:
            known = self.changes
            lines.append(
                f"since {known.previous}: {known.added:,} games added, {known.removed:,} removed, "
                f"{known.changed:,} changed, {known.moved:,} in another split"
            )
        if self.leaks:
            lines.append("splits share games; README.md lists how many")
        if self.licence is None:
            lines.append("fill in the licence: publish again with --licence, such as cc-by-4.0")
        return "\n".join(lines)


_ADAPTER = TypeAdapter(Publication)


def read_publication(folder: Path) -> Publication:
    """Read the manifest of a published folder and check that its files exist.

    Raises:
        FormatError: If the folder was not written by `kifu publish`, or is damaged.
    """
    try:
        found = _ADAPTER.validate_json(read_small(folder / MANIFEST))
        for file in (file for split in found.splits for file in split.files):
            if (folder / file.path).stat().st_size != file.bytes:
                raise FormatError(f"{folder / file.path} has another size than {MANIFEST} lists")
    except ValidationError as error:
        raise FormatError(f"{folder / MANIFEST} is not a manifest: {first_invalid(error)}") from None
    except FormatError:
        raise
    except (OSError, ValueError) as error:
        raise FormatError(f"{folder} is not a published data set: {first_line(error)}") from None
    return found


def parse_version(text: str) -> tuple[int, ...]:
    """Return the three numbers of a version. Raises RecipeError."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise RecipeError(f"a version has three numbers, such as 1.0.0, got {text!r}")
    return tuple(map(int, found.groups()))


def next_version(changes: Changes) -> str:
    """Return the version that follows from changes.

    The major number grows if a game was removed, changed or moved to another split; else the minor number if games were
    added; else the last one, since only the card differs.
    """
    major, minor, patch = parse_version(changes.previous)
    if changes.removed or changes.changed or changes.moved:
        return f"{major + 1}.0.0"
    return f"{major}.{minor + 1}.0" if changes.added else f"{major}.{minor}.{patch + 1}"
