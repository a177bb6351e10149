"""The columns of annotations, Parquet files with one row per net and move, which `kifu annotate` writes.

docs/annotation.md documents the columns. Any change to them or to their meaning requires a new version.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kifu.corpus.parquet import TableWriter, open_parquet
from kifu.errors import FormatError, first_line

VERSION = 1
"""Version of the columns, stored in the Parquet metadata under `VERSION_KEY`."""

VERSION_KEY = "kifu.moves"

NAMES = pa.dictionary(pa.int8(), pa.string())
"""The type of columns of names."""

SCHEMA = pa.schema(
    [
        pa.field("game", pa.uint64(), nullable=False),
        pa.field("ply", pa.int32(), nullable=False),
        pa.field("move", pa.uint16(), nullable=False),
        pa.field("colour", NAMES, nullable=False),
        pa.field("net", NAMES, nullable=False),
        pa.field("probability", pa.float32()),
        pa.field("log_probability", pa.float32()),
        pa.field("rank", pa.uint16()),
        pa.field("entropy", pa.float32()),
        pa.field("top_move", pa.uint16()),
        pa.field("top_probability", pa.float32()),
        pa.field("value", pa.float32()),
    ]
)

_FLOATS = [each.name for each in SCHEMA if pa.types.is_floating(each.type)]

_MAX_FOOTER_STRINGS = 64 << 20


class AnnotationWriter(TableWriter):
    """A `TableWriter` with the columns, encodings and metadata of annotations."""

    def __init__(self, path: Path) -> None:
        """Open the temporary file. Raises OutputError."""
        super().__init__(
            path,
            SCHEMA.with_metadata({VERSION_KEY: str(VERSION), "kifu.version": version("kifu")}),
            use_dictionary=[name for name in SCHEMA.names if name not in (*_FLOATS, "ply")],
            column_encoding=dict.fromkeys(_FLOATS, "BYTE_STREAM_SPLIT") | {"ply": "DELTA_BINARY_PACKED"},
        )


def is_annotation(path: Path) -> bool:
    """Return True if a file is an annotation of any version, judging by its metadata."""
    try:
        return VERSION_KEY.encode() in (_read_metadata(path).metadata or {})
    except (FormatError, pa.ArrowException, OSError, ValueError):
        return False


def check_annotation(path: Path) -> None:
    """Raise FormatError unless a file is an annotation with the columns of this version."""
    try:
        metadata = _read_metadata(path)
    except FormatError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"{path} is not an annotation: {first_line(error)}") from None
    found = (metadata.metadata or {}).get(VERSION_KEY.encode(), b"").decode("ascii", "replace")
    if found != str(VERSION):
        raise FormatError(f"{path} is an annotation of version {found!r}; this kifu reads version {VERSION}")
    missing = [name for name in SCHEMA.names if name not in metadata.schema.names]
    if missing:
        raise FormatError(f"{path} is not an annotation: it lacks the columns {', '.join(missing)}")


def _read_metadata(path: Path) -> pq.FileMetaData:
    with open_parquet(path) as file:
        return file.metadata
