"""The list of a folder's partitions, a JSON file.

It is untrusted input: its size is bounded, and the partitions must lie within the folder and have the recorded sizes.
Field names of its models are the JSON keys.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Any

from blake3 import blake3
from pydantic import Field, ValidationError, field_validator

from kifu.checksums import add_checksum
from kifu.config import StrictModel, first_invalid
from kifu.corpus.schema import INDEX, VERSION, check_version
from kifu.errors import FormatError, first_line
from kifu.io import read_small, write_file

Count = Annotated[int, Field(ge=0, le=10**12)]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

_PLAIN = r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,150}"
"""A path component that is neither hidden nor "..", which would leave the folder."""

PARTITION_PATH = rf"({_PLAIN}/){{1,2}}{_PLAIN}\.parquet"
"""The pattern of a partition's path within the folder."""


class Partition(StrictModel):
    """A Parquet file of the folder, itself a catalogue."""

    path: Annotated[str, Field(pattern=f"^{PARTITION_PATH}$")]
    rows: Count  # of which `kept` are not dropped
    kept: Count
    bytes: Count
    blake3: Hash
    sources: Annotated[tuple[Count, ...], Field(min_length=1, strict=False)]  # ascending indices into `Index.sources`
    year: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,20}$")]  # of all its games, see `kifu.corpus.update.year_name`


class SourceInfo(StrictModel):
    """A source and its name, see `kifu.corpus.sources.Source.info`; a folder of loose records has no size."""

    name: str
    bytes: Count | None = None
    blake3: Hash | None = None
    left_out: dict[str, Count] | None = None  # files or members that were not read, by kind
    about: dict[str, Any] | None = None  # the metadata of a catalogue

    def info(self) -> dict[str, Any]:
        """Return the source as JSON values; a catalogue without its name, which its games do not depend on."""
        return self.model_dump(exclude_none=True, exclude=None if self.about is None else {"name"})


class Index(StrictModel):
    """The content of the index; `read` == `kept` + the sum of `drops` == the rows of all partitions."""

    catalogue: int = VERSION
    kifu: str  # the version that wrote the index
    clean: dict[str, Any]  # the cleaning rules, the same for all sources
    compacted: Count = 0  # how many times, see `kifu.corpus.update.compact`
    sources: Annotated[tuple[SourceInfo, ...], Field(strict=False)]  # in the order in which they were added
    read: Count
    kept: Count
    drops: dict[str, Count]  # by the name of the `DropReason`
    parts: Annotated[tuple[Partition, ...], Field(min_length=1, strict=False)]  # in the order of the rows; may be empty

    @field_validator("parts")
    @classmethod
    def _require_distinct(cls, parts: tuple[Partition, ...]) -> tuple[Partition, ...]:
        if repeated := [path for path, n in Counter(part.path.casefold() for part in parts).items() if n > 1]:
            raise ValueError(f"{repeated[0]} is listed twice")
        return parts

    def metadata(self) -> dict[str, Any]:
        """Return the value of `Catalogue.metadata`."""
        sources = [source.info() for source in self.sources]
        return {"clean": self.clean, "sources": sources, "read": self.read, "kept": self.kept, "drops": self.drops}

    def digest(self) -> str:
        """Return the BLAKE3, in hex, of the hashes of all partitions."""
        return blake3(b"".join(bytes.fromhex(part.blake3) for part in self.parts)).hexdigest()

    def write(self, folder: Path) -> None:
        """Replace the folder's index atomically."""
        write_file(folder / INDEX, add_checksum(json.dumps(self.model_dump(exclude_none=True), ensure_ascii=False)))


def read_partitions(folder: Path) -> Index:
    """Read the index of a folder. Raises FormatError if it or a partition is damaged, missing or of another size."""
    index_path, data = folder / INDEX, b""
    try:
        data = read_small(index_path)
        index = Index.model_validate_json(data)
        check_version(folder, str(index.catalogue))
        _check_partitions(folder, index)
    except ValidationError as error:
        raise FormatError(f"{index_path} is not the index of a catalogue: {first_invalid(error)}") from None
    except FormatError:
        raise
    except (OSError, ValueError) as error:
        if data and read_small(index_path) != data:  # `compact` has replaced it meanwhile
            return read_partitions(folder)
        raise FormatError(f"{folder} is not a complete catalogue: {first_line(error)}") from None
    _check_counts(index, index_path)
    return index


def _check_partitions(folder: Path, index: Index) -> None:
    """Raise FormatError or OSError unless the partitions are regular files within the folder with their sizes."""
    top = folder.resolve()
    for directory in {Path(part.path).parent for part in index.parts}:
        if not (folder / directory).resolve().is_relative_to(top):
            raise FormatError(f"{folder / directory} lies outside the folder")
    for part in index.parts:
        path = folder / part.path
        status = path.lstat()
        if not S_ISREG(status.st_mode):
            raise FormatError(f"{path} is not a regular file")
        if status.st_size != part.bytes:
            raise FormatError(f"{path} has {status.st_size:,} bytes, but {INDEX} lists {part.bytes:,}")


def _check_counts(index: Index, index_path: Path) -> None:
    rows, kept = (sum(getattr(part, name) for part in index.parts) for name in ("rows", "kept"))
    if (index.read, index.kept, index.read - index.kept) != (rows, kept, sum(index.drops.values())):
        raise FormatError(
            f"{index_path}: its partitions have {rows:,} games, {kept:,} kept; it lists {index.read:,}, {index.kept:,}"
        )
    if any(source >= len(index.sources) for part in index.parts for source in part.sources):
        raise FormatError(f"{index_path}: a partition refers to a source that is not listed")
