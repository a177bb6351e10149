"""The rows of an ordered data set, game after game: NAME.manifest.parquet beside the manifest.

One row per game, in the order of the data set, in row groups of which readers load one. Card: docs/formats/manifest.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kifu.corpus.parquet import GROUP_ROWS, TableWriter, open_parquet
from kifu.corpus.schema import to_numpy
from kifu.datasets.manifest import Manifest, RowOrigin, WrittenFile, find_skips, origins_path
from kifu.errors import FormatError, first_line
from kifu.io import utf8_name

_SCHEMA = pa.schema(
    [
        pa.field("start", pa.int64(), nullable=False),
        pa.field("archive", pa.int32(), nullable=False),
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
        self._waiting = 0
        self._columns: list[tuple[npt.NDArray[np.generic], ...]] = []
        self._skips: list[npt.NDArray[np.int64]] = []
        self._table = TableWriter(path, _SCHEMA, write_statistics=["start"])

    def add(
        self,
        archive: int,
        member: npt.NDArray[np.int32],
        rows: npt.NDArray[np.int32],
        plies: npt.NDArray[np.uint16],
    ) -> None:
        """Add K games.

        Args:
            archive: Index of their archive or catalogue in the manifest.
            member: [K] index of each game in the archive, or its row in the catalogue.
            rows: [K] number of rows of each game.
            plies: [sum of rows] ply of each row.
        """
        first, skips = find_skips(rows, plies)
        skips[:, 0] += self._waiting
        self._columns.append((np.full(len(rows), archive, np.int32), member, rows, first))
        self._skips.append(skips)
        self._waiting += len(rows)
        if self._waiting >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        """Write the games that wait, since many small tables take longer than one."""
        if not self._waiting:
            return
        archive, member, rows, ply = (np.concatenate(each) for each in zip(*self._columns))
        skips = np.concatenate(self._skips)
        start = self._rows + np.cumsum(rows, dtype=np.int64) - rows
        ends = np.append(0, np.cumsum(np.bincount(skips[:, 0], minlength=len(rows)))).astype(np.int32)
        lists = [
            pa.ListArray.from_arrays(pa.array(ends), pa.array(skips[:, k].astype(kind)), type=_SCHEMA.field(name).type)
            for k, kind, name in ((1, np.int32, "skip_row"), (2, np.uint16, "skip_ply"))
        ]
        columns = [pa.array(each) for each in (start, archive, member, rows, ply)]
        self._table.write(pa.RecordBatch.from_arrays([*columns, *lists], schema=_SCHEMA))
        self._rows += int(rows.sum(dtype=np.int64))
        self._waiting, self._columns, self._skips = 0, [], []

    def commit(self) -> WrittenFile:
        """Finish the file and give it its name. Raises OutputError."""
        self._flush()
        digest = self._table.commit({})
        return WrittenFile(utf8_name(self._path.name), self._table.size, digest)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._table.__exit__(kind, error, trace)


def find_origin(manifest: Manifest, path: Path, row: int) -> RowOrigin | None:
    """Return the origin of a row, or None if the examples are shuffled.

    Args:
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
    archive, member, ply = read_origin(origins, row)
    if not 0 <= archive < len(manifest.archives):
        raise FormatError(f"{origins} refers to archive {archive}, which the manifest does not list")
    return RowOrigin(manifest.archives[archive].archive, member, ply)


class GameRows(NamedTuple):
    """The K games of a file of origins, in order.

    Attributes:
        archive: [K] int32, index of their archive or catalogue in the manifest.
        member: [K] int32, index of each game in the archive, or its row in the catalogue.
        rows: [K] int32, number of rows of each game.
    """

    archive: npt.NDArray[np.int32]
    member: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]


def read_game_rows(manifest: Manifest, path: Path) -> GameRows:
    """Return the games of an ordered data set.

    Args:
        manifest: The manifest, which has `origins`.
    """
    origins = origins_path(path)
    counts = [archive.games for archive in manifest.archives]
    with _open(origins) as file:
        if file.metadata.num_rows != sum(counts):
            raise FormatError(f"{origins} lists {file.metadata.num_rows:,} games, the manifest {sum(counts):,}")
        groups = [_read_group(file, origins, k, GameRows._fields) for k in range(file.metadata.num_row_groups)]
        table = pa.concat_tables(groups or [_SCHEMA.empty_table()]).combine_chunks()
        games = GameRows(*(to_numpy(table[name].combine_chunks()) for name in GameRows._fields))
    archives = np.repeat(np.arange(len(counts)), counts)
    total = games.rows.sum(dtype=np.int64)
    if not np.array_equal(games.archive, archives) or np.any(games.rows < 0) or total != manifest.examples:
        raise FormatError(f"{origins} lists other games than the manifest")
    return games


def read_origin(path: Path, row: int) -> tuple[int, int, int]:
    """Return the index of the archive, the member, and the ply of row `row` of the data set. Raises FormatError."""
    with _open(path) as file:
        starts = [file.metadata.row_group(k).column(0).statistics.min for k in range(file.metadata.num_row_groups)]
        (batch,) = _read_group(file, path, bisect_right(starts, row) - 1).to_batches()
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
    return values["archive"], values["member"], ply + within - at


@contextmanager
def _open(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a file of origins. Raises FormatError, also for damage that is found while it is read."""
    try:
        with open_parquet(path) as file:
            if not file.schema_arrow.equals(_SCHEMA):
                raise FormatError(f"{path} has other columns than a list of rows")
            yield file
    except FormatError:
        raise
    except (pa.ArrowException, OSError, ValueError, AttributeError, TypeError, OverflowError, MemoryError) as error:
        raise FormatError(f"{path}: {first_line(error)}") from None


def _read_group(file: pq.ParquetFile, path: Path, k: int, columns: Sequence[str] | None = None) -> pa.Table:
    """Return some columns of a row group. Raises FormatError if it does not exist or is too large."""
    group = file.metadata.row_group(k) if k >= 0 else None
    if group is None or group.num_rows > GROUP_ROWS or group.total_byte_size > _MAX_GROUP_BYTES:
        raise FormatError(f"{path} has no such row group, or one that is too large")
    table = file.read_row_group(k, columns, use_threads=False).combine_chunks()
    table.validate(full=True)
    if len(table) != group.num_rows:
        raise FormatError(f"{path} is damaged: {group.num_rows - len(table):,} rows are missing")
    return table
