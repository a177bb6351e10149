"""The rows of an ordered data set, game after game: NAME.manifest.parquet beside the manifest.

One row per game, in the order of the data set, in row groups of which readers load one. Card: docs/formats/manifest.md.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kifu.corpus.parquet import GROUP_ROWS, TableWriter, arrow_file
from kifu.corpus.schema import to_numpy
from kifu.datasets.manifest import ExamplesManifest, RowOrigin, find_skips, origins_path
from kifu.datasets.writer import WrittenFile
from kifu.errors import FormatError, first_line
from kifu.files import utf8_name

_SCHEMA = pa.schema(
    [
        pa.field("start", pa.int64(), nullable=False),
        pa.field("catalogue", pa.int32(), nullable=False),
        pa.field("member", pa.int32(), nullable=False),
        pa.field("rows", pa.int32(), nullable=False),
        pa.field("ply", pa.uint16(), nullable=False),
        pa.field("skip_row", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False),
        pa.field("skip_ply", pa.list_(pa.field("element", pa.uint16(), nullable=False)), nullable=False),
    ]
)

_MAX_GROUP_BYTES = 64 << 20


class OriginsWriter:
    """Writes the file as games arrive, atomically: `commit` gives it its name. A context manager."""

    def __init__(self, path: Path) -> None:
        """Open the temporary file. Raises OutputError."""
        self._path = path
        self._rows = 0
        self._table = TableWriter(path, _SCHEMA, write_statistics=["start"])

    def add(
        self,
        catalogue: int,
        member: npt.NDArray[np.int32],
        rows: npt.NDArray[np.int32],
        plies: npt.NDArray[np.uint16],
    ) -> None:
        """Add K games.

        Args:
            catalogue: index of their catalogue.
            member: [K] row of each game in the catalogue.
            rows: [K] number of rows of each game.
            plies: [sum of rows] ply of each row.

        Raises:
            OutputError: it cannot be written.
        """
        first, skips = find_skips(rows, plies)
        start = self._rows + np.cumsum(rows, dtype=np.int64) - rows
        self._rows += int(rows.sum(dtype=np.int64))
        ends = np.append(0, np.cumsum(np.bincount(skips[:, 0], minlength=len(rows)))).astype(np.int32)
        lists = [
            pa.ListArray.from_arrays(pa.array(ends), pa.array(skips[:, k].astype(kind)), type=_SCHEMA.field(name).type)
            for k, kind, name in ((1, np.int32, "skip_row"), (2, np.uint16, "skip_ply"))
        ]
        catalogues = np.full(len(rows), catalogue, np.int32)
        columns = [pa.array(each) for each in (start, catalogues, member, rows, first)]
        self._table.write(pa.RecordBatch.from_arrays([*columns, *lists], schema=_SCHEMA))

    def commit(self) -> WrittenFile:
        """Finish the file and give it its name. Raises OutputError."""
        digest = self._table.commit({})
        return WrittenFile(utf8_name(self._path.name), self._table.size, digest)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._table.__exit__(kind, error, trace)


def find_origin(manifest: ExamplesManifest, path: Path, row: int) -> RowOrigin | None:
    """Return the origin of a row as a row of a catalogue, or None if the examples are shuffled.

    Args:
        manifest: The manifest.
        path: The data set.
        row: Counted from 0.

    Raises:
        IndexError: There is no such row.
        FormatError: The file of origins is missing, damaged, or another one.
    """
    if not 0 <= row < manifest.examples:
        raise IndexError(f"row {row} is not within 0 to {manifest.examples - 1}")
    if manifest.origins is None:
        return None
    origins = origins_path(path)
    if not origins.is_file() or origins.stat().st_size != manifest.origins.bytes:
        raise FormatError(f"{origins} is missing or has another size than the manifest lists")
    catalogue, member, ply = read_origin(origins, row)
    if not 0 <= catalogue < len(manifest.catalogues):
        raise FormatError(f"{origins} refers to catalogue {catalogue}, which the manifest does not list")
    return RowOrigin(manifest.catalogues[catalogue].archive, member, ply)


def read_origin(path: Path, row: int) -> tuple[int, int, int]:
    """Return the catalogue's index, its row, and the ply of row `row` of the data set. Raises FormatError."""
    try:
        with pq.ParquetFile(arrow_file(path), pre_buffer=False) as file:
            if not file.schema_arrow.equals(_SCHEMA):
                raise FormatError(f"{path} has other columns than a list of rows")
            groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
            starts = [group.column(0).statistics.min for group in groups]
            k = bisect_right(starts, row) - 1
            if k < 0 or groups[k].num_rows > GROUP_ROWS or groups[k].total_byte_size > _MAX_GROUP_BYTES:
                raise FormatError(f"{path} has no row group for row {row}, or one that is too large")
            table = file.read_row_group(k, use_threads=False).combine_chunks()
            table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, AttributeError, TypeError, OverflowError, MemoryError) as error:
        raise FormatError(f"{path}: {first_line(error)}") from None
    (batch,) = table.to_batches()
    start = to_numpy(batch["start"])
    game = int(np.searchsorted(start, row, "right")) - 1
    values = {name: batch[name][game].as_py() for name in _SCHEMA.names}
    within = row - values["start"]
    if not 0 <= within < values["rows"] or len(values["skip_row"]) != len(values["skip_ply"]):
        raise FormatError(f"{path} lists no game for row {row}")
    at, ply = 0, values["ply"]
    for skip_row, skip_ply in zip(values["skip_row"], values["skip_ply"]):
        if skip_row <= within:
            at, ply = skip_row, skip_ply
    return values["catalogue"], values["member"], ply + within - at
