"""The registry of file layouts, and `open`, which recognises each by its first bytes.

A format never changes: its bytes are described on a card in docs/formats/, and another layout gets another version.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kifu.errors import RecipeError
from kifu.versions import find_version

if TYPE_CHECKING:
    from kifu.datasets.dat import Dat


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
    return find_version(FORMATS, name, "format")


def open(path: str | os.PathLike[str]) -> Dat:
    """Opens a data set file for reading, whatever its format, and checks all of it. See `Dat`.

    Raises SourceError if the file cannot be read, FormatError if its bytes are not those of a format.
    """
    from kifu.datasets.dat import Dat  # here, since it loads numba, which listing the formats does without

    return Dat(path)
