"""The registry of data set formats, format detection, and `open`.

A released format never changes: docs/formats/ has a card for each, and a different layout gets a new version.
"""

from __future__ import annotations

import os
import pkgutil
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any

from kifu.errors import FormatError, RecipeError, SourceError, missing_extras
from kifu.io import open_regular
from kifu.registry import Registry, lookup

if TYPE_CHECKING:
    from kifu.datasets.examples import Dataset, Layout
    from kifu.datasets.manifest import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A file layout of data sets.

    Attributes:
        name: Full name with its version, as recipes and manifests write it.
        recipe_kind: Kind of the recipes that write it: "kgsgo", "examples" or "katago".
        reader: The `Dataset` class, as "module:class"; imported when it is used.
        writer: The `Writer` class likewise; "" for formats that only their own kind of recipe writes.
        plane_set: The only plane set that the format holds; "" if it holds any.
        suffix: Suffix of a data set's file name; "" for a directory.
        has_provenance: Each row stores its game and ply, so rows may be in any order.
        real: Planes may hold values other than 0 and 1.
        point_bytes: Size of 0 or 1 in a plane; 0 if it is compressed.
    """

    name: str
    title: str
    recipe_kind: str
    reader: str
    writer: str = ""
    plane_set: str = ""
    suffix: str = ""
    has_provenance: bool = False
    passes: bool = False
    labels: bool = False
    needs_move: bool = False
    real: bool = False
    point_bytes: float = 1.0

    @property
    def is_dat(self) -> bool:
        """True for dat1 and dat2, whose games come from archives, not from a catalogue."""
        return self.recipe_kind == "kgsgo"


_FORMATS = (
    Format(
        name="dat1@1", title="kgsgo v1: one byte a point, one bit a plane; no header", recipe_kind="kgsgo",
        reader="kifu.datasets.dat:Dat", plane_set="kgsgo8@1", suffix=".dat", needs_move=True,
    ),
    Format(
        name="dat2@1", title="kgsgo v2: a text header, then planes as bits, one after another", recipe_kind="kgsgo",
        reader="kifu.datasets.dat:Dat", plane_set="kgsgo7@1", suffix=".dat", needs_move=True,
    ),
    Format(
        name="npy@1", title="arrays that np.load maps into memory, in a folder", recipe_kind="examples",
        reader="kifu.datasets.npy:Npy", writer="kifu.datasets.npy:NpyWriter",
        has_provenance=True, passes=True, labels=True, real=True,
    ),
    Format(
        name="book-npy@1", title="the chunks of 1,024 that the book's data processor reads, in a folder",
        recipe_kind="examples", reader="kifu.datasets.npy:BookNpy", writer="kifu.datasets.npy:BookNpyWriter",
        needs_move=True, real=True, point_bytes=8,
    ),
    Format(
        name="parquet@1", title="a table, planes as bits; opens in polars, DuckDB and Hugging Face datasets",
        recipe_kind="examples", reader="kifu.datasets.parquet:Parquet", writer="kifu.datasets.parquet:ParquetWriter",
        suffix=".parquet", has_provenance=True, passes=True, labels=True, real=True, point_bytes=0,
    ),
    Format(
        name="hdf5@2", title="the layout that RocAlphaGo trains from; needs h5py", recipe_kind="examples",
        reader="kifu.datasets.hdf5:Hdf5", writer="kifu.datasets.hdf5:Hdf5Writer", suffix=".h5",
        has_provenance=True, labels=True, needs_move=True, point_bytes=0,
    ),
    Format(
        name="katago-npz@1", title="KataGo's training rows, planes and targets, in a folder of .npz files",
        recipe_kind="katago", reader="kifu.katago.npz:KataNpz", plane_set="katago22@1",
        has_provenance=True, passes=True, labels=True, needs_move=True,
    ),
)  # fmt: skip

TOKENS_INDEX = "tokens.json"
"""Index of a directory with games as tokens, see `kifu.datasets.tokens`."""

FORMATS: Registry[Format] = Registry("format", {each.name: each for each in _FORMATS})
"""The formats of data sets by full name."""


def formats_of(recipe_kind: str) -> dict[str, Format]:
    """Return the formats, by full name, that recipes of a kind write."""
    return {name: each for name, each in FORMATS.items() if each.recipe_kind == recipe_kind}


def find_format(name: str, recipe_kind: str | None = None) -> Format:
    """Return a format by its full name, or by its name without a version, which means the newest one.

    Raises RecipeError if there is no such format.

    recipe_kind restricts the search to the formats that recipes of this kind write.
    """
    if recipe_kind is None:
        return FORMATS.lookup(name)
    known, other = formats_of(recipe_kind), FORMATS.get(name)
    if other is not None and other.name not in known:
        held = other.plane_set or "examples"
        raise RecipeError(f"format {name} holds {held} only, and not this recipe; available: {', '.join(known)}")
    return lookup(known, name, "format")


def _import(target: str) -> Any:
    """Import the reader or the writer of a format. Raises MissingExtra if a package is not installed."""
    with missing_extras():
        return pkgutil.resolve_name(target)


def find_writer(name: str) -> type[Writer]:
    """Return the writer class of a format for any plane set. Raises MissingExtra if a package is not installed."""
    format = find_format(name, "examples")
    writer: type[Writer] = _import(format.writer)
    return writer


def open_writer(name: str, path: str | os.PathLike[str], layout: Layout, examples: int = 0) -> Writer:
    """Open a writer for a new data set.

    Raises RecipeError if there is no such format, or it cannot hold this layout.

    Args:
        name: A format that holds any plane set, with or without its version.
        path: The file, or the directory if the format's suffix is "".
        examples: Expected number of examples; 0 if unknown. Some formats must otherwise read their files again to
            hash them.
    """
    make: Any = find_writer(name)  # each writer takes these arguments, which the base class does not declare
    writer: Writer = make(Path(path), layout, examples)
    return writer


def detect_format(path: Path) -> Format | None:
    """Return the format that a path has, by its first bytes or its index; None if it is no data set.

    Raises FormatError if it is a directory with a damaged index, or a data set of tokens, SourceError if it is missing.
    """
    from kifu.datasets.npy import (  # loads numpy and pydantic, which listing formats does not need
        INDEX,
        read_folder_index,
    )

    if path.joinpath(TOKENS_INDEX).is_file():
        raise FormatError(f"{path} has games as tokens, not planes: use kifu.datasets.tokens.open_tokens")
    if path.joinpath(INDEX).is_file():
        return FORMATS.get(read_folder_index(path).format)
    try:
        if not S_ISREG(path.stat().st_mode):
            return FORMATS["katago-npz@1"] if path.is_dir() and any(path.glob("*.npz")) else None
        with open_regular(path) as file:
            head = file.read(8)
    except (OSError, ValueError) as error:  # ValueError: a NUL in it
        raise SourceError(f"{path}: {getattr(error, 'strerror', error)}") from None
    if head.startswith(b"PK") and path.suffix == ".npz":
        return FORMATS["katago-npz@1"]
    if head == b"\x89HDF\r\n\x1a\n":
        return FORMATS["hdf5@2"]
    if head.startswith(b"PAR1"):
        from kifu.datasets.parquet import is_examples

        return FORMATS["parquet@1"] if is_examples(path) else None
    return detect_dat(head)


def detect_dat(head: bytes) -> Format | None:
    """Return the .dat format of a file that begins with these bytes (at least 4, unless it is shorter), or None."""
    if head.startswith(b"mlv2"):
        return FORMATS["dat2@1"]
    return FORMATS["dat1@1"] if head.startswith((b"GO", b"END")) else None


def open(path: str | os.PathLike[str]) -> Dataset:
    """Open a data set of any format for reading.

    Everything that can be checked without reading all planes is checked; a dat1 or dat2 file is checked in full. Raises
    MissingExtra if its format requires a package that is not installed.

    Args:
        path: A file, or the directory of a data set that consists of several files.

    Returns:
        The data set; a `Dat` for dat1 and dat2 files.
    """
    # Dat reports files of unknown content, and paths that are not files.
    format = detect_format(Path(path)) or FORMATS["dat1@1"]
    dataset: Dataset = _import(format.reader)(path)
    return dataset
