"""The manifest of a published data set, `kifu.json`, from which its card and its Croissant metadata are made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field, TypeAdapter, ValidationError

from kifu.assets import read_card
from kifu.config import first_invalid
from kifu.corpus.catalogue import has_index, is_catalogue, open_catalogue
from kifu.corpus.parquet import open_parquet
from kifu.corpus.schema import VERSION
from kifu.datasets.examples import Layout
from kifu.datasets.formats import detect_format
from kifu.datasets.manifest import Manifest, read_manifest
from kifu.datasets.parquet import Parquet
from kifu.errors import FormatError, RecipeError, first_line
from kifu.io import read_small
from kifu.text import Report

MANIFEST = "kifu.json"
MANIFESTS = "manifests"
"""The folder with the manifests of data sets, NAME.manifest.json of each split."""

CHANGES_FILE = "changes.parquet"

MAX_DEPTH = 16
"""Maximum number of catalogues, each made of the next, through which sources are followed."""

_VERSION = re.compile(r"(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})", re.ASCII)

CATALOGUE = f"catalogue@{VERSION}"
"""The kind of catalogues; that of data sets is the name of their format."""

EXAMPLES = "parquet@1"
_ORDER = ("train", "validation", "test")
_SPLIT = re.compile(r"\w+", re.ASCII)
_CARD_ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \| [^|]+? \| (.+) \|$", re.MULTILINE)

_REFERENCE = re.compile(r"; see \[[^][]*\]\([^()]*\)| \((?:below|docs/[\w.]+)\)")
"""References to other pages, which a published folder does not have."""


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
    """Kept games that equal another kept game, of split `other`, or are its beginning (`kifu.corpus.duplicates`)."""

    split: str
    other: str
    same_game: int
    cut_off: int


@dataclass(frozen=True, slots=True)
class AuditedPair:
    """Games and positions of the first split that occur in the second one, and the reverse; see docs/audit.md."""

    first: str
    second: str
    first_games: int
    second_games: int
    first_positions: int
    second_positions: int
    late: int
    games: list[str]


@dataclass(frozen=True, slots=True)
class Changes(Report):
    """Number of games by how they differ from the previous version.

    Attributes:
        changed: Games with the same moves (a data set: the same id) of which another value differs.
        moved: Games that are equal, but in another split.
        same: Games that are equal and in the same split.
    """

    previous: str
    added: int
    removed: int
    changed: int
    moved: int
    same: int


@dataclass(frozen=True, slots=True)
class Publication(Report):
    """A published data set.

    Attributes:
        license: Its license as an identifier of the Hub; None if it must be filled in.
        date: The day of publication, such as 2026-01-31.
        author, url, doi: As given; None if unknown.
        kind: Format of the Parquet files: catalogue@3 or parquet@1.
        origin: How the sets were made: read, kept and drops, cleaning rules, split, query or recipe, where known.
        sources: The sources with name, size, BLAKE3, and number of games, where known.
        counts: Of a catalogue, the numbers of kept games by rank, year, server and more (`kifu stats`).
        duplicates: Of a catalogue, the duplicates within and across splits.
        audit: What every two of the splits share.
    """

    title: str
    version: Annotated[str, Field(pattern=f"^{_VERSION.pattern}$")]
    license: str | None
    date: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")]
    author: str | None
    url: str | None
    doi: str | None
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
        if self.license is None:
            lines.append("fill in the license: publish again with --license, such as cc-by-4.0")
        return "\n".join(lines)


_ADAPTER = TypeAdapter(Publication)


def read_publication(folder: Path) -> Publication:
    """Read the manifest of a published folder and check that its files exist.

    Raises FormatError if the folder was not written by `kifu publish`, or is damaged.
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


@dataclass(frozen=True, slots=True)
class InputSet:
    """A catalogue or data set to publish.

    Attributes:
        files: Number of rows of each Parquet file, in order.
        about: Metadata of the catalogue; of a data set its recipe and set.
        manifest: The manifest of a data set, if there is one.
    """

    name: str
    path: Path
    kind: str
    files: Mapping[Path, int]
    schema: pa.Schema
    about: Mapping[str, Any] = field(default_factory=dict)
    layout: Layout | None = None
    manifest: Manifest | None = None


def open_sets(paths: Sequence[Path]) -> list[InputSet]:
    """Open inputs of one kind with equal columns.

    Args:
        paths: Catalogues, data sets, and folders. A folder stands for its data sets in Parquet, or, if it has none, its
            catalogues.

    Returns:
        The sets: train, validation and test, then others as given. A single one that has another name becomes train.

    Raises:
        FormatError: An input is damaged, or of another format.
        RecipeError: There is no input, kinds or columns differ, or a name is invalid or occurs twice.
    """
    sets = [_open(path) for given in paths for path in _expand(given)]
    if not sets:
        raise RecipeError(f"{', '.join(map(str, paths)) or 'no path'}: there is nothing to publish")
    first = sets[0]
    for each in sets[1:]:
        if each.kind != first.kind:
            raise RecipeError(
                f"{first.path} is {first.kind}, but {each.path} is {each.kind}; publish one kind at a time"
            )
        if not each.schema.equals(first.schema) or each.layout != first.layout:
            raise RecipeError(f"{first.path} and {each.path} have different columns or planes")
    if len(sets) == 1 and first.name not in _ORDER:
        return [_open(first.path, _ORDER[0])]
    for each in sets:
        if not _SPLIT.fullmatch(each.name) or each.name == "all":
            raise RecipeError(
                f"{each.path}: a split's name has letters, digits and _, and is not all, got {each.name!r}"
            )
    names = [each.name for each in sets]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise RecipeError(f"two of the inputs are named {repeated!r}; rename one of them")
    return sorted(sets, key=lambda each: _ORDER.index(each.name) if each.name in _ORDER else len(_ORDER))


def _expand(path: Path) -> list[Path]:
    if not path.is_dir() or has_index(path):
        return [path]
    files = sorted(path.glob("*.parquet"))
    formats = map(detect_format, files)
    examples = [file for file, format in zip(files, formats) if format is not None and format.name == EXAMPLES]
    return examples or files or [path]


def _open(path: Path, name: str | None = None) -> InputSet:
    if name is None:
        name = re.sub(r"[-.+ ]", "_", path.stem if path.is_file() else path.name)
    found = detect_format(path)
    if found is not None and found.name == EXAMPLES:
        with Parquet(path) as data:
            manifest = read_manifest(path)
            return InputSet(name, path, EXAMPLES, {path: len(data)}, _schema(path), data.about, data.layout, manifest)
    if found is not None or not is_catalogue(path):
        kind = "no data set" if found is None else found.name
        raise FormatError(f"{path} is {kind}; only catalogues and data sets of the format {EXAMPLES} can be published")
    catalogue = open_catalogue(path)
    return InputSet(
        name, path, CATALOGUE, catalogue.partitions, _schema(next(iter(catalogue.partitions))), catalogue.metadata
    )


def _schema(path: Path) -> pa.Schema:
    with open_parquet(path) as file:
        return file.schema_arrow.remove_metadata()


def describe_columns(data: InputSet) -> dict[str, tuple[str, str]]:
    """Return the type and the meaning of each column, by name; the meaning of an unknown column is empty."""
    if data.layout is None:
        rows = _CARD_ROW.findall(_REFERENCE.sub("", read_card("formats", CATALOGUE)))
        meanings = {name: text for names, text in rows for name in re.findall(r"\w+", names)}
    else:
        layout = data.layout
        kind = "float32, little-endian" if layout.real else "bits, 8 points per byte, the first in the highest bit"
        shape = " x ".join(map(str, layout.shape))
        meanings = {label.name: label.meaning for label in layout.labels} | {
            "planes": f"the {shape} planes (planes, rows, columns) of {layout.plane_set}, as {kind}",
            "game": "the game's `id` in the catalogue",
            "ply": "number of moves before the position, passes included",
        }
    return {column.name: (_type_name(column.type), meanings.get(column.name, "")) for column in data.schema}


def _type_name(kind: pa.DataType) -> str:
    """Return the name of a type: float32, date32, binary[360], list<uint16>, list<float32>[2], struct<a: int32>."""
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{part.name}: {_type_name(part.type)}' for part in kind)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_type_name(kind.value_type)}>"
    if pa.types.is_fixed_size_list(kind):
        return f"list<{_type_name(kind.value_type)}>[{kind.list_size}]"
    if pa.types.is_fixed_size_binary(kind):
        return f"binary[{kind.byte_width}]"
    return {"float": "float32", "double": "float64", "date32[day]": "date32"}.get(str(kind), str(kind))
