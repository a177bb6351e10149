"""The inputs of `kifu publish`: catalogues, or data sets in Parquet, one for each split."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kifu.assets import read_card
from kifu.corpus.catalogue import is_catalogue, open_catalogue
from kifu.corpus.index import has_index
from kifu.corpus.parquet import arrow_file
from kifu.corpus.schema import VERSION
from kifu.datasets.examples import Layout
from kifu.datasets.formats import detect_format
from kifu.datasets.manifest import Manifest, read_manifest
from kifu.datasets.parquet import Parquet
from kifu.errors import FormatError, RecipeError

CATALOGUE = f"catalogue@{VERSION}"
"""The kind of catalogues; that of data sets is the name of their format."""

EXAMPLES = "parquet@1"

_ORDER = ("train", "validation", "test")
_SPLIT = re.compile(r"\w+", re.ASCII)
_CARD_ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \| [^|]+? \| (.+) \|$", re.MULTILINE)

_REFERENCE = re.compile(r"; see \[[^]]*\]\([^)]*\)| \((?:below|docs/[\w.]+)\)")
"""References to other pages, which a published folder does not have."""


@dataclass(frozen=True, slots=True)
class InputSet:
    """A catalogue or data set to publish.

    Attributes:
        files: Number of rows of each Parquet file, in order.
        about: Metadata of the catalogue; of a data set its recipe and set.
        layout: The layout of a data set.
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
        FormatError: If an input is damaged, or of another format.
        RecipeError: If there is no input, kinds or columns differ, or a name is invalid or occurs twice.
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
    """Return the sets in a folder, or the path itself."""
    if not path.is_dir() or has_index(path):
        return [path]
    files = sorted(path.glob("*.parquet"))
    examples = [file for file in files if _is_examples(file)]
    return examples or files or [path]


def _is_examples(path: Path) -> bool:
    found = detect_format(path)
    return found is not None and found.name == EXAMPLES


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
    return pq.read_schema(arrow_file(path)).remove_metadata()


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
