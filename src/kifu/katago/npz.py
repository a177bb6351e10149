"""The format `katago-npz@1`: a directory of KataGo's training files, as of v1.17.2. See docs/formats/katago-npz.md."""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.arrays import Array, Bytes, Floats, Hashes, Indices
from kifu.datasets.examples import UNKNOWN, Batch, Dataset, Layout
from kifu.datasets.labels import find_label
from kifu.datasets.manifest import WriteReport, WrittenFile
from kifu.datasets.npy import INDEX, read_folder_index
from kifu.datasets.npz import CompressedPiece, Compression, NpzMember, NpzReader, StoredArray, compress, write_npz
from kifu.errors import FormatError, RecipeError, reading
from kifu.io import AtomicDirectory, cannot_write
from kifu.planes.registry import KATAGO22

SIDE = 19
POINTS = SIDE * SIDE

TARGETS = 80
"""Columns of globalTargetsNC."""

OLD_TARGETS = 64
"""Columns of globalTargetsNC in older files; KataGo's scripts take missing ones for zero."""

ROWS_PER_FILE = 20_000
"""KataGo's setting for self-play (maxRowsPerTrainFile)."""

MAX_ROWS_PER_FILE = 200_000
"""At 8.4 kB per row, this keeps an uncompressed file below the 4 GiB of a plain zip."""

LAYOUT = Layout(
    KATAGO22.name, KATAGO22.plane_names, KATAGO22.real, SIDE, SIDE, KATAGO22.padding, KATAGO22.first_row,
    tuple(find_label(name, SIDE, SIDE) for name in ("move", "globals", "result")),
)  # fmt: skip
"""The layout of a `KataNpz` as a data set of examples."""


@dataclass(frozen=True, slots=True)
class KataArray:
    """An array of a training file."""

    field: str
    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    required: bool = True


ARRAYS = (
    KataArray("planes", "binaryInputNCHWPacked", np.dtype("|u1"), (22, (POINTS + 7) // 8)),
    KataArray("inputs", "globalInputNC", np.dtype("<f4"), (19,)),
    KataArray("policy", "policyTargetsNCMove", np.dtype("<i2"), (2, POINTS + 1)),
    KataArray("targets", "globalTargetsNC", np.dtype("<f4"), (TARGETS,)),
    KataArray("scores", "scoreDistrN", np.dtype("|i1"), (2 * POINTS + 120,)),
    KataArray("values", "valueTargetsNCHW", np.dtype("|i1"), (5, SIDE, SIDE)),
    KataArray("q", "qValueTargetsNCMove", np.dtype("<i2"), (3, POINTS + 1), False),
    KataArray("meta", "metadataInputNC", np.dtype("<f4"), (192,), False),
)
"""The arrays of a file, in order."""


class KataRows(NamedTuple):
    """N training rows; docs/formats/katago-npz.md describes each number.

    Attributes:
        planes: [N, 22, 46] uint8, the packed planes of katago22@1.
        inputs: [N, 19] float32, its scalar inputs.
        policy: [N, 2, 362] int16, visit counts for the move and the one after it.
        targets: [N, 80] float32.
        scores: [N, 842] int8.
        values: [N, 5, 19, 19] int8.
        q: [N, 3, 362] int16, or None if the file has none.
        meta: [N, 192] float32, or None if the file has none.
    """

    planes: Bytes
    inputs: Floats
    policy: npt.NDArray[np.int16]
    targets: Floats
    scores: npt.NDArray[np.int8]
    values: npt.NDArray[np.int8]
    q: npt.NDArray[np.int16] | None = None
    meta: Floats | None = None

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.planes)

    def part(self, start: int, stop: int) -> KataRows:
        """Return rows start to stop - 1, without copying."""
        return KataRows._make(None if array is None else array[start:stop] for array in self)


def join_rows(parts: Sequence[KataRows]) -> KataRows:
    """Concatenate one or more parts with the same arrays."""
    if len(parts) == 1:
        return parts[0]
    return KataRows._make(None if arrays[0] is None else np.concatenate(arrays) for arrays in zip(*parts))


_PIECE_ROWS = 1024
"""Rows compressed together. Files compressed as a whole would be 1 % smaller."""


def piece_end(row: int, rows_per_file: int) -> int:
    """Return the row after the piece that contains `row`: pieces end with each file and every 1,024 rows of a file."""
    within = row % rows_per_file
    return row - within + min(within - within % _PIECE_ROWS + _PIECE_ROWS, rows_per_file)


class PieceBuffer:
    """Divides rows into pieces whose bounds depend on nothing but the row numbers, see `piece_end`."""

    def __init__(self, rows_per_file: int) -> None:
        self._rows_per_file = rows_per_file
        self._pending: list[KataRows] = []
        self._n_pending = 0
        self._first = 0

    def add(self, rows: KataRows) -> Iterator[KataRows]:
        """Append rows and yield each piece that is complete."""
        at = 0
        while self._n_pending + rows.size - at >= (size := piece_end(self._first, self._rows_per_file) - self._first):
            until = at + size - self._n_pending
            self._pending.append(rows.part(at, until))
            at = until
            yield from self.flush()
        if at < rows.size:
            self._pending.append(rows.part(at, rows.size))
            self._n_pending += rows.size - at

    def skip(self, rows: int) -> None:
        """Count a whole piece that was made elsewhere. No rows may be pending."""
        assert not self._pending
        assert piece_end(self._first, self._rows_per_file) == self._first + rows
        self._first += rows

    def flush(self) -> Iterator[KataRows]:
        """Yield the pending rows, if any, as one piece."""
        if self._pending:
            piece = join_rows(self._pending)
            self._pending, self._n_pending = [], 0
            self._first += piece.size
            yield piece


class CompressedRows(NamedTuple):
    """Rows, compressed by array, in the order of `ARRAYS`."""

    rows: int
    arrays: list[CompressedPiece]


def compress_rows(rows: KataRows, compression: Compression) -> CompressedRows:
    """Compress rows, in any thread. Raises ValueError for types or shapes other than those of `KataRows`."""
    arrays = []
    for array in ARRAYS:
        values: Array | None = getattr(rows, array.field)
        if values is not None:
            if values.dtype != array.dtype or values.shape != (rows.size, *array.shape):
                shape = (rows.size, *array.shape)
                raise ValueError(f"{array.name} must be {array.dtype} {shape}, got {values.dtype} {values.shape}")
            arrays.append(compress(np.ascontiguousarray(values), compression))
    return CompressedRows(rows.size, arrays)


class KataWriter(ExitStack):
    """Writes a katago-npz@1 directory, renamed into place by `commit()`. A context manager.

    The bytes depend on the rows and their order only, not on how calls divide them. Memory is bounded by a few pieces
    of 1,024 rows (9 MB).
    """

    def __init__(
        self,
        path: Path,
        *,
        rows_per_file: int = ROWS_PER_FILE,
        compression: Compression = "deflate",
        q: bool = True,
        meta: bool = False,
    ) -> None:
        """Create the directory under a temporary name.

        Raises RecipeError if rows_per_file is out of range.

        Args:
            rows_per_file: 1 to 200,000.
            meta: Whether rows have metadataInputNC. KataGo's shuffle.py reads it with -include-meta only, and then
                expects it in all files.
        """
        if not 1 <= rows_per_file <= MAX_ROWS_PER_FILE:
            raise RecipeError(f"rows_per_file must be from 1 to {MAX_ROWS_PER_FILE:,}, got {rows_per_file:,}")
        super().__init__()
        self.rows = 0
        self.arrays = tuple(each for each in ARRAYS if each.required or {"q": q, "meta": meta}[each.field])
        self._rows_per_file, self._compression = rows_per_file, compression
        self._pieces = PieceBuffer(rows_per_file)
        # shuffle.py takes a file with _ in its name for an unfinished one and skips it.
        self._stem = re.sub(r"[^A-Za-z0-9+-]+", "-", path.name)
        self._members: list[NpzMember] = []
        self._rows_in_file = 0
        self._written: list[WrittenFile] = []
        self._directory = self.enter_context(AtomicDirectory(path, INDEX))
        self.callback(self._close_members)
        self._path = path

    def write(self, rows: KataRows) -> None:
        """Append rows. Raises OutputError, and ValueError for other arrays than announced."""
        for piece in self._pieces.add(rows):
            self._append(compress_rows(piece, self._compression))

    def append(self, piece: CompressedRows) -> None:
        """Append a compressed piece: the rows from the last one written up to `piece_end`. Raises OutputError."""
        self._pieces.skip(piece.rows)
        self._append(piece)

    def commit(self, about: Mapping[str, Any]) -> WriteReport:
        """Finish the files and rename the directory into place; about: JSON values for its index."""
        for piece in self._pieces.flush():
            self._append(compress_rows(piece, self._compression))
        self._end_file()
        self._directory.commit(
            {"format": "katago-npz@1", "examples": self.rows, "layout": asdict(LAYOUT), "about": dict(about)}
        )
        return WriteReport(self.rows, tuple(self._written))

    def _append(self, piece: CompressedRows) -> None:
        if len(piece.arrays) != len(self.arrays):
            raise ValueError(f"rows must have {len(self.arrays)} arrays, got {len(piece.arrays)}")
        try:
            if not self._members:
                directory = self._path.parent
                self._members = [NpzMember(f"{a.name}.npy", a.dtype, a.shape, directory) for a in self.arrays]
            for member, array in zip(self._members, piece.arrays):
                member.append(array)
        except OSError as error:
            raise cannot_write(self._path, error) from None
        self._rows_in_file += piece.rows
        self.rows += piece.rows
        if self._rows_in_file == self._rows_per_file:
            self._end_file()

    def _end_file(self) -> None:
        if not self._members:
            return
        name = f"{self._stem}-{len(self._written) // 2:05}"
        with self._directory.file(f"{name}.npz") as output:
            write_npz(output, self._members, self._rows_in_file, self._compression != "stored")
            self._written.append(WrittenFile(f"{name}.npz", output.size, output.commit()))
        with self._directory.file(f"{name}.json") as output:
            output.write(json.dumps({"num_rows": self._rows_in_file}).encode())
            self._written.append(WrittenFile(f"{name}.json", output.size, output.commit()))
        self._close_members()
        self._rows_in_file = 0

    def _close_members(self) -> None:
        for member in self._members:
            member.close()
        self._members = []


_MAX_OPEN_FILES = 4
"""Files of a directory that are kept open, each with its position in the compressed stream."""

_BATCH_FIELDS = ("planes", "inputs", "policy", "targets")
"""The arrays that a `Batch` is made from."""


@dataclass(frozen=True, slots=True)
class _File:
    """A training file with valid headers. arrays: by field of `KataRows`."""

    path: Path
    rows: int
    arrays: Mapping[str, StoredArray]


class KataNpz(Dataset):
    """KataGo's training rows: one file, written by kifu or KataGo, or a directory of files in the order of their names.

    Examples are planes of katago22@1 with three labels: `move`, the first of the moves with the highest count in
    policyTargetsNCMove; `globals`, globalInputNC; `result`, the winner, -128 if it has no weight. Columns 41 to 43 of
    globalTargetsNC identify the game of a row, columns 51 and 53 give its ply, if the game has a hash. `rows` gives all
    arrays.
    """

    layout = LAYOUT

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the files and check headers and sizes; values are checked when they are read.

        Raises FormatError if a file is damaged or has other arrays.
        """
        self.path = Path(path)
        self.about: Mapping[str, Any] = {}
        self.files = [_open_file(each) for each in self._paths()]
        self._first = [0, *accumulate(each.rows for each in self.files)]
        self.examples = self._first[-1]
        for each in self.files:
            if ("meta" in each.arrays) != ("meta" in self.files[0].arrays):
                raise FormatError(f"only one of {each.path} and {self.files[0].path} has metadataInputNC")
        if (self.path / INDEX).is_file() and read_folder_index(self.path).examples != self.examples:
            raise FormatError(f"{self.path} has {self.examples:,} rows, but its {INDEX} gives another number")
        self._readers: dict[int, NpzReader] | None = {}

    def _paths(self) -> list[Path]:
        if not self.path.is_dir():
            return [self.path]
        if (self.path / INDEX).is_file():
            index = read_folder_index(self.path)
            self.about = index.about
            return [self.path / name for name in index.files if name.endswith(".npz")]
        with reading(self.path):
            names = sorted(each.name for each in self.path.iterdir() if each.suffix == ".npz")
        # Like shuffle.py, which skips files with _ in their names.
        return [self.path / name for name in names if "_" not in name and not name.startswith(".")]

    @property
    def arrays(self) -> tuple[KataArray, ...]:
        """The arrays that the rows have."""
        return tuple(each for each in ARRAYS if each.required or any(each.field in file.arrays for file in self.files))

    def run_starts(self) -> Indices:
        """Return the first row of each file: reading files in order decompresses nothing twice."""
        return np.array([first for first, file in zip(self._first, self.files) if file.rows], np.int64)

    def rows(self, start: int, stop: int) -> KataRows:
        """Return rows start to stop - 1 with all arrays. Raises FormatError if they are damaged.

        As in KataGo's scripts, globalTargetsNC of 64 columns is padded to 80 with zeros, and a file without
        qValueTargetsNCMove next to one that has it gets zeros.
        """
        fields = [each.field for each in self.arrays]
        return join_rows([KataRows(**part) for part in self._parts(start, stop, fields)])

    def _read(self, start: int, stop: int) -> Batch:
        return _to_batch(self.path, start, [*self._parts(start, stop, _BATCH_FIELDS)])

    def close(self) -> None:
        """Close the files."""
        for each in (self._readers or {}).values():
            each.close()
        self._readers = None

    def _parts(self, start: int, stop: int, fields: Iterable[str]) -> Iterator[dict[str, Array]]:
        """Yield the arrays of these rows file by file, at least once."""
        k = min(bisect_right(self._first, start) - 1, len(self.files) - 1)
        if k < 0:
            yield {each.field: _zeros(each, 0) for each in ARRAYS if each.field in fields}
            return
        while True:
            first, until = self._first[k], min(stop, self._first[k + 1])
            yield {
                each.field: self._array(k, each, start - first, until - first)
                for each in ARRAYS
                if each.field in fields
            }
            if until >= stop:
                return
            start, k = until, k + 1

    def _array(self, k: int, array: KataArray, start: int, stop: int) -> Array:
        stored = self.files[k].arrays.get(array.field)
        if stored is None:
            return _zeros(array, stop - start)
        values = self._reader(k).read(stored, start, stop)
        if array.dtype.kind == "f" and (wrong := ~np.isfinite(values).all(1)).any():
            row = self._first[k] + start + wrong.argmax()
            raise FormatError(f"{self.path}: row {row} has NaN or infinity in {array.name}")
        if values.shape[1:] != array.shape:
            values = np.pad(values, ((0, 0), (0, TARGETS - values.shape[1])))
        return values.copy()

    def _reader(self, k: int) -> NpzReader:
        if self._readers is None:
            raise ValueError(f"{self.path} is closed")
        if k not in self._readers:
            if len(self._readers) >= _MAX_OPEN_FILES:
                self._readers.pop(next(iter(self._readers))).close()
            self._readers[k] = NpzReader(self.files[k].path)
        self._readers[k] = reader = self._readers.pop(k)  # the most recently used one is last
        return reader


def _zeros(array: KataArray, rows: int) -> Array:
    return np.zeros((rows, *array.shape), array.dtype)


def _open_file(path: Path) -> _File:
    """Read the headers of a file. Raises SourceError; FormatError for missing, unknown or malformed arrays."""
    with NpzReader(path) as reader:
        stored = reader.arrays()
    known = {each.name: each for each in ARRAYS}
    wrong = sorted(stored.keys() ^ (stored.keys() & known.keys() | {each.name for each in ARRAYS if each.required}))
    if wrong:
        verb = "has" if wrong[0] in stored else "lacks"
        raise FormatError(
            f"{path} {verb} {wrong[0][:80]!r}; KataGo's rows have {', '.join(known)}, the last two optional"
        )
    rows = stored[ARRAYS[0].name].shape[0]
    for name, array in stored.items():
        expected = known[name]
        shape = (rows, *expected.shape)
        older = expected.field == "targets" and len(array.shape) == 2 and OLD_TARGETS <= array.shape[1] <= TARGETS
        if array.dtype != expected.dtype or array.shape != ((rows, array.shape[-1]) if older else shape):
            raise FormatError(
                f"{path}: {name} must be {expected.dtype.str} {list(shape)}, got {array.dtype.str} {list(array.shape)}"
            )
    return _File(path, rows, {known[name].field: array for name, array in stored.items()})


def _to_batch(path: Path, start: int, parts: list[dict[str, Array]]) -> Batch:
    """Convert rows to examples. start: the number of the first row, for messages."""
    planes, inputs, policy, targets = (np.concatenate([part[field] for part in parts]) for field in _BATCH_FIELDS)
    result = (targets[:, 0] > targets[:, 1]).astype(np.int8) - (targets[:, 0] < targets[:, 1])
    result[targets[:, 35] >= 1] = UNKNOWN
    game = game_hashes(targets)[:, 0]
    ply = np.where(game == 0, -1, targets[:, 51].astype(np.float64) + targets[:, 53])
    no_move, no_ply = policy[:, 0].max(1, initial=0) <= 0, (ply < -1) | (ply >= 2**31)
    for wrong, lacking in ((no_move, "positive policy target"), (no_ply, "valid ply")):
        if wrong.any():
            raise FormatError(f"{path}: row {start + wrong.argmax()} has no {lacking}")
    labels = {"move": policy[:, 0].argmax(1).astype(np.int16), "globals": inputs, "result": result}
    return Batch(planes, labels, game, ply.astype(np.int32))


def game_hashes(targets: Floats) -> Hashes:
    """Return each row's game hash, [N, 2] uint64, of globalTargetsNC without fractions; 0 if it has none."""
    pieces = np.clip(targets[:, 41:47], 0, 2**22 - 1).astype(np.uint64).reshape(-1, 2, 3)
    shifts = np.array([0, 22, 44], np.uint64)
    words: Hashes = np.bitwise_or.reduce(pieces << shifts, axis=2)
    return words
