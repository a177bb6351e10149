"""The index of a catalogue that is a folder of parts: a JSON file that says which files count, and in what order.

What it says is taken from nobody on trust: it is bounded in size, and the parts that it names lie within the folder and
have the sizes that it tells.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Any, Literal

from blake3 import blake3
from pydantic import BaseModel, Field, ValidationError, field_validator

from kifu.atomic_io import write_file
from kifu.config import STRICT
from kifu.errors import FormatError, first_line

INDEX = "catalogue.json"
"""The index's name within the folder."""

_MOST_BYTES = 64 << 20

Count = Annotated[int, Field(ge=0, le=10**12)]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

_PLAIN = r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,150}"
"""A name that is no hidden one, nor leads anywhere else."""

PART_NAME = rf"({_PLAIN}/){{1,2}}{_PLAIN}\.parquet"
"""What a part may be called within the folder."""


class Partition(BaseModel):
    """A Parquet file of the folder, which is a catalogue itself."""

    model_config = STRICT

    path: Annotated[str, Field(pattern=f"^{PART_NAME}$")]
    """Within the folder, with / between names."""
    rows: Count
    kept: Count
    bytes: Count
    blake3: Hash
    sources: Annotated[tuple[Count, ...], Field(min_length=1, strict=False)]
    """Whose games it has: places among the index's sources, rising."""
    year: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,20}$")]
    """Of all its games, see `kifu.corpus.update.year_names`."""


class SourceInfo(BaseModel):
    """A source, as `kifu.corpus.sources.Source.about` tells of it; a folder of loose records has no size and hash."""

    model_config = STRICT

    name: str
    bytes: Count | None = None
    blake3: Hash | None = None


class Index(BaseModel):
    """What an index says. read == kept + the sum of drops, and so many rows all parts have together."""

    model_config = STRICT

    catalogue: Literal[1] = 1
    """`kifu.corpus.schema.VERSION`."""
    kifu: str
    """The version that wrote it."""
    clean: dict[str, Any]
    """The rules of cleaning, which are the same for all sources."""
    compacted: Count = 0
    """How often the parts have been put together, see `kifu.corpus.update`."""
    sources: Annotated[tuple[SourceInfo, ...], Field(strict=False)]
    read: Count
    kept: Count
    drops: dict[str, Count]
    parts: Annotated[tuple[Partition, ...], Field(min_length=1, strict=False)]
    """In the order of the rows; never none, but one may be empty."""

    @field_validator("parts")
    @classmethod
    def _differ(cls, parts: tuple[Partition, ...]) -> tuple[Partition, ...]:
        if twice := [path for path, n in Counter(part.path.casefold() for part in parts).items() if n > 1]:
            raise ValueError(f"{twice[0]} is listed twice")
        return parts

    def about(self) -> dict[str, Any]:
        """What `Catalogue.about` says."""
        sources = [source.model_dump(exclude_none=True) for source in self.sources]
        return {"clean": self.clean, "sources": sources, "read": self.read, "kept": self.kept, "drops": self.drops}

    def digest(self) -> str:
        """The BLAKE3, in hex, of those of all parts."""
        return blake3(b"".join(bytes.fromhex(part.blake3) for part in self.parts)).hexdigest()

    def write(self, folder: Path) -> None:
        """Puts it in the place of the one before, at once. Raises OutputError."""
        write_file(folder / INDEX, json.dumps(self.model_dump(exclude_none=True), ensure_ascii=False).encode() + b"\n")


def has_index(path: Path) -> bool:
    """Whether a path is a folder with an index."""
    try:
        return path.joinpath(INDEX).is_file()
    except (OSError, ValueError):
        return False


def read_index(folder: Path) -> Index:
    """The index of a folder, whose parts are there and have their sizes. Raises FormatError."""
    where = folder / INDEX
    try:
        with where.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise FormatError(f"{where} has more than {_MOST_BYTES:,} bytes")
        index = Index.model_validate_json(text)
        _require_parts(folder, index)
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc']))[:80]} {first_line(ValueError(first['msg']))[:200]}"
        raise FormatError(f"{where} is no index of a catalogue: {reason.strip()}") from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{folder} is no whole catalogue: {first_line(error)}") from None
    _require_sums(index, where)
    return index


def _require_parts(folder: Path, index: Index) -> None:
    """Raises FormatError or OSError unless the parts are plain files of the folder that have the sizes told."""
    top = folder.resolve()
    for within in {Path(part.path).parent for part in index.parts}:
        if not (folder / within).resolve().is_relative_to(top):
            raise FormatError(f"{folder / within} lies outside the folder")
    for part in index.parts:
        path = folder / part.path
        found = path.lstat()
        if not S_ISREG(found.st_mode):
            raise FormatError(f"{path} is no plain file")
        if found.st_size != part.bytes:
            raise FormatError(f"{path} has {found.st_size:,} bytes, and {part.bytes:,} by {INDEX}")


def _require_sums(index: Index, where: Path) -> None:
    """Raises FormatError if the counts of an index contradict each other."""
    rows, kept = (sum(getattr(part, name) for part in index.parts) for name in ("rows", "kept"))
    if (index.read, index.kept, index.read - index.kept) != (rows, kept, sum(index.drops.values())):
        raise FormatError(
            f"{where}: its parts have {rows:,} games, {kept:,} kept; it says {index.read:,}, {index.kept:,}"
        )
    if any(source >= len(index.sources) for part in index.parts for source in part.sources):
        raise FormatError(f"{where}: a part has games of a source that is not listed")
