"""The registry of formats, and `open`, which recognises each by its first bytes.

A format never changes: its bytes are described on a card in docs/formats/, and another layout gets another version.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kifu.errors import RecipeError, SourceError
from kifu.registry import lookup

if TYPE_CHECKING:
    from kifu.datasets.examples import Dataset, Layout
    from kifu.datasets.writer import Writer


@dataclass(frozen=True, slots=True)
class Format:
    """How one layout lies in a file: `header(n)`, then n records of `record_bytes`, then `end`."""

    name: str
    """With its version, as recipes and manifests write it."""
    title: str
    """One line for people."""
    plane_set: str
    """The plane set (see `kifu.planes`) whose planes the records hold."""
    planes: int
    """How many planes one record gives when it is read."""
    record_bytes: int
    """Size of one record: its mark, its label and its planes."""
    header_line: bytes
    """Text that opens the file, with %d where the number of examples stands; b"" for a format without a header."""
    header_bytes: int
    """Size of the header: `header_line`, filled up with zero bytes."""
    end: bytes
    """What closes the file."""

    def header(self, examples: int) -> bytes:
        """The `header_bytes` that open a file of that many examples."""
        if examples < 0:
            raise RecipeError(f"a {self.name} file cannot hold {examples} examples")
        return (self.header_line % examples).ljust(self.header_bytes, b"\0") if self.header_line else b""


_LAYOUTS = (
    Format(
        name="dat1@1",
        title="kgsgo v1: one byte a point, one bit a plane; no header",
        plane_set="kgsgo8@1",
        planes=8,
        record_bytes=2 + 2 + 361,
        header_line=b"",
        header_bytes=0,
        end=b"END",
    ),
    Format(
        name="dat2@1",
        title="kgsgo v2: a text header, then planes as bits, one after another",
        plane_set="kgsgo7@1",
        planes=7,
        record_bytes=2 + 4 + 316,
        header_line=b"mlv2-n=%d-numplanes=7-imagewidth=19-imageheight=19-datatype=int-bpp=1\0\n",
        header_bytes=1024,
        end=b"END",
    ),
)

FORMATS: dict[str, Format] = {layout.name: layout for layout in _LAYOUTS}
"""Every format by its full name."""


def find_format(name: str) -> Format:
    """The format of that name; a name without a version means the newest one. Raises RecipeError if there is none."""
    return lookup(FORMATS, name, "format")


@dataclass(frozen=True, slots=True)
class ExampleFormat:
    """A format that holds examples of any plane set."""

    name: str
    """With its version, as recipes and manifests write it."""
    title: str
    """One line for people."""
    suffix: str
    """What follows a data set's name in its file's; "" for a folder."""
    traced: bool
    """Whether each row has its game and ply in the data set, so that rows may be in any order."""
    passes: bool
    """Whether the next move may be a pass."""
    labels: bool
    """Whether there may be other labels than the next move."""
    needs_move: bool
    """Whether the next move has to be among the labels."""
    real: bool
    """Whether planes may have other values than 0 and 1."""
    home: str
    """Module and names of its writer and its reader."""
    inspect: str = ""
    """A function, as "module:name", that returns the lines of `kifu inspect` for an open data set; "" for the usual."""


_EXAMPLES = (
    ExampleFormat(
        "npy@1",
        "arrays that np.load maps into memory, in a folder",
        suffix="", traced=True, passes=True, labels=True, needs_move=False, real=True,
        home="kifu.datasets.npy:NpyWriter:Npy",
    ),
    ExampleFormat(
        "book-npy@1",
        "the chunks of 1,024 that the book's data processor reads, in a folder",
        suffix="", traced=False, passes=False, labels=False, needs_move=True, real=True,
        home="kifu.datasets.book_npy:BookNpyWriter:BookNpy",
    ),
    ExampleFormat(
        "parquet@1",
        "a table, planes as bits; opens in polars, DuckDB and Hugging Face datasets",
        suffix=".parquet", traced=True, passes=True, labels=True, needs_move=False, real=True,
        home="kifu.datasets.parquet:ParquetWriter:Parquet",
    ),
    ExampleFormat(
        "hdf5@1",
        "the layout that RocAlphaGo trains from; needs h5py",
        suffix=".h5", traced=True, passes=False, labels=True, needs_move=True, real=False,
        home="kifu.datasets.hdf5:Hdf5Writer:Hdf5",
    ),
)  # fmt: skip

KATAGO = ExampleFormat(
    "katago-npz@1",
    "KataGo's training rows, planes and targets, in a folder of .npz files",
    suffix="", traced=True, passes=True, labels=True, needs_move=True, real=False,
    home="kifu.katago.npz:KataWriter:KataNpz", inspect="kifu.katago.inspect:inspect_katago",
)  # fmt: skip
"""Its rows are not any examples, but those of recipes of the kind katago; reading them gives examples."""

EXAMPLE_FORMATS: dict[str, ExampleFormat] = {each.name: each for each in _EXAMPLES}
"""Every format of examples by its full name."""

INDEX = "examples.json"
"""What a folder of examples has in it, written last."""


def find_example_format(name: str) -> ExampleFormat:
    """The format of examples of that name, without a version the newest of it. Raises RecipeError."""
    return lookup(EXAMPLE_FORMATS, name, "format of examples")


def _part_of(format: ExampleFormat, part: int) -> Any:
    """The writer (1) or reader (2) of a format. Raises RecipeError if it needs a package that is not installed."""
    home = format.home.split(":")
    try:
        return getattr(importlib.import_module(home[0]), home[part])
    except ModuleNotFoundError as error:
        needed = error.name or ""
        raise RecipeError(
            f"{format.name} needs {needed}, which pip install 'kifu[{home[0].rpartition('.')[2]}]' brings"
        ) from None


def find_writer(name: str) -> type[Writer]:
    """The writer of a format of examples, by its full name or without the version. Raises RecipeError."""
    writer: type[Writer] = _part_of(find_example_format(name), 1)
    return writer


def open_writer(name: str, path: str | os.PathLike[str], layout: Layout, examples: int = 0) -> Writer:
    """A writer of a data set at `path`: its file, or its folder, by the format's suffix.

    examples: how many are foreseen, 0 if that is not known; some formats are then read once more for their hash.
    Raises RecipeError for a name that is no format of examples, or a layout that it cannot hold; OutputError.
    """
    # Those that there are take the same, which the class of all writers does not say.
    make: Any = find_writer(name)
    writer: Writer = make(Path(path), layout, examples)
    return writer


def detect_format(path: Path) -> ExampleFormat | None:
    """The format of examples that a file or folder seems to be, by what it begins with or has in it.

    Raises SourceError if it cannot be read, FormatError for a folder whose index is damaged.
    """
    if path.joinpath(INDEX).is_file():
        from kifu.datasets._folder import read_index

        return {**EXAMPLE_FORMATS, KATAGO.name: KATAGO}.get(read_index(path).format)
    try:
        if not path.is_file():
            return KATAGO if path.is_dir() and any(path.glob("*.npz")) else None
        with path.open("rb") as file:
            head = file.read(8)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise SourceError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if head.startswith(b"PK") and path.suffix == ".npz":
        return KATAGO
    if head == b"\x89HDF\r\n\x1a\n":
        return EXAMPLE_FORMATS["hdf5@1"]
    if head.startswith(b"PAR1"):
        from kifu.datasets.parquet import is_examples

        return EXAMPLE_FORMATS["parquet@1"] if is_examples(path) else None
    return None


def open(path: str | os.PathLike[str]) -> Dataset:
    """Opens a data set for reading, whatever its format, and checks what can be checked without reading all planes.

    See `Dataset`; a dat1 or dat2 file is a `Dat`, of which all is checked. Raises SourceError if it cannot be read,
    FormatError if its bytes are not those of a format, RecipeError if its format needs a package that is not there.
    """
    from kifu.datasets.dat import Dat  # here, since it loads numba, which listing the formats does without

    found = detect_format(Path(path))
    opened: Dataset = Dat(path) if found is None else _part_of(found, 2)(path)
    return opened
