"""The format `katago-npz@1`: a folder of KataGo's training files. Its card: docs/formats/katago-npz.md."""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from kifu.atomic_io import AtomicDirectory, cannot_write
from kifu.datasets.examples import Batch, Dataset, Layout
from kifu.datasets.formats import INDEX
from kifu.datasets.labels import UNKNOWN, find_label
from kifu.datasets.npy import read_index
from kifu.datasets.npz import CompressedPiece, Compression, NpzMember, NpzReader, StoredArray, compress, write_npz
from kifu.datasets.writer import WriteReport, WrittenFile
from kifu.errors import FormatError, RecipeError, SourceError
from kifu.katago.rows import ARRAYS, OLD_TARGETS, SIDE, TARGETS, KataArray, KataRows, Pieces, join_rows
from kifu.planes.registry import KATAGO22

ROWS_PER_FILE = 20_000
"""As KataGo's own settings for self-play have it (maxRowsPerTrainFile)."""

MOST_ROWS_PER_FILE = 200_000
"""Of 8.4 kB each, so that a file that is not compressed stays below the 4 GiB of a plain zip."""

LAYOUT = Layout(
    KATAGO22.name, KATAGO22.plane_names, KATAGO22.real, SIDE, SIDE, KATAGO22.rim, KATAGO22.first_row,
    tuple(find_label(name, SIDE, SIDE) for name in ("move", "globals", "result")),
)  # fmt: skip
"""What a `KataNpz` gives as examples."""


class PackedRows(NamedTuple):
    """Rows, compressed array by array, in the order of `ARRAYS`."""

    rows: int
    parts: list[CompressedPiece]


def pack_rows(rows: KataRows, compression: Compression) -> PackedRows:
    """Compresses rows, in any thread. Raises ValueError for other types or shapes than those of `KataRows`."""
    parts = []
    for array in ARRAYS:
        values: npt.NDArray[Any] | None = getattr(rows, array.field)
        if values is not None:
            if values.dtype != array.kind or values.shape != (rows.size, *array.shape):
                raise ValueError(f"{array.name} is {values.dtype} {values.shape}, of {rows.size} rows")
            parts.append(compress(np.ascontiguousarray(values), compression))
    return PackedRows(rows.size, parts)


class KataWriter:
    """Writes a katago-npz@1 folder, which has its name only once `commit` has returned. A context manager.

    The bytes depend on the rows and their order only, not on how they are divided. Memory is that of a few pieces of
    1,024 rows (9 MB).
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
        """q, meta: whether there are qValueTargetsNCMove and metadataInputNC.

        KataGo's shuffle.py wants metadata only if it is told -include-meta, and then in all files.
        Raises RecipeError for rows_per_file beyond 1 to 200,000; OutputError.
        """
        if not 1 <= rows_per_file <= MOST_ROWS_PER_FILE:
            raise RecipeError(f"{rows_per_file} rows a file; there may be 1 to {MOST_ROWS_PER_FILE:,}")
        self.rows = 0
        self.arrays = tuple(each for each in ARRAYS if each.needed or {"q": q, "meta": meta}[each.field])
        self._rows_per_file, self._compression = rows_per_file, compression
        self._pieces = Pieces(rows_per_file)
        # shuffle.py takes a file with _ in its name for one that is not finished, and leaves it out.
        self._stem = re.sub(r"[^A-Za-z0-9+-]+", "-", path.name)
        self._members: list[NpzMember] = []
        self._in_file = 0
        self._written: list[WrittenFile] = []
        self._folder = AtomicDirectory(path, INDEX)
        self._path = path

    def write(self, rows: KataRows) -> None:
        """Appends rows. Raises OutputError; ValueError as `pack_rows` does, or if other arrays are asked for."""
        for piece in self._pieces.add(rows):
            self._append(pack_rows(piece, self._compression))

    def append(self, piece: PackedRows) -> None:
        """Appends a piece that `pack_rows` made, of the rows from the last one written to where its piece ends (see
        `kifu.katago.rows.piece_end`). Raises OutputError."""
        self._pieces.pass_over(piece.rows)
        self._append(piece)

    def commit(self, about: Mapping[str, Any]) -> WriteReport:
        """Ends the files and gives the folder its name. Raises OutputError.

        about: what the folder's index says about how it came to be, as JSON values.
        """
        for rest in self._pieces.rest():
            self._append(pack_rows(rest, self._compression))
        self._end_file()
        self._folder.commit(
            {"format": "katago-npz@1", "examples": self.rows, "layout": asdict(LAYOUT), "about": dict(about)}
        )
        return WriteReport(self.rows, tuple(self._written))

    def _append(self, piece: PackedRows) -> None:
        if len(piece.parts) != len(self.arrays):
            raise ValueError(f"rows of {len(piece.parts)} arrays, and files of {len(self.arrays)}")
        try:
            if not self._members:
                folder = self._path.parent
                self._members = [NpzMember(f"{a.name}.npy", a.kind, a.shape, folder) for a in self.arrays]
            for member, part in zip(self._members, piece.parts):
                member.append(part)
        except OSError as error:
            raise cannot_write(self._path, error) from None
        self._in_file += piece.rows
        self.rows += piece.rows
        if self._in_file == self._rows_per_file:
            self._end_file()

    def _end_file(self) -> None:
        if not self._members:
            return
        name = f"{self._stem}-{len(self._written) // 2:05}"
        with self._folder.file(f"{name}.npz") as output:
            write_npz(output, self._members, self._in_file, self._compression != "stored")
            self._written.append(WrittenFile(f"{name}.npz", output.size, output.commit()))
        with self._folder.file(f"{name}.json") as output:
            output.write(json.dumps({"num_rows": self._in_file}).encode())
            self._written.append(WrittenFile(f"{name}.json", output.size, output.commit()))
        self._close_members()
        self._in_file = 0

    def _close_members(self) -> None:
        for member in self._members:
            member.close()
        self._members = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_members()
        self._folder.__exit__(kind, error, trace)


_OPEN_FILES = 4
"""Of a folder, kept open: what is read of each goes on where it was."""

_AS_EXAMPLES = ("planes", "inputs", "policy", "targets")
"""What makes a `Batch`."""

_LAST_BITS = np.uint8(0xFF >> (SIDE * SIDE % 8))
"""Of a plane's last byte, those that are no point."""


@dataclass(frozen=True, slots=True)
class _File:
    """A training file whose headers were checked. arrays: by field of `KataRows`."""

    path: Path
    rows: int
    arrays: Mapping[str, StoredArray]


class KataNpz(Dataset):
    """KataGo's training rows: a file of them, ours or KataGo's own, or a folder of such files, in order of their names.

    As examples they are planes of katago22@1 with three labels: `move`, the first of those that policyTargetsNCMove
    counts most; `globals`, the numbers of globalInputNC; `result`, who wins, -128 where that weighs nothing. A row's
    game is told by columns 41 to 43 of globalTargetsNC and its ply by 51 and 53, if its game has a hash. `rows` gives
    all arrays.
    """

    layout = LAYOUT

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises SourceError or FormatError. Headers and sizes are checked, values when they are read."""
        self.path = Path(path)
        self.about: Mapping[str, Any] = {}
        self.files = [_open_file(each) for each in self._paths()]
        self._first = [0, *accumulate(each.rows for each in self.files)]
        self.examples = self._first[-1]
        for each in self.files:
            if ("meta" in each.arrays) != ("meta" in self.files[0].arrays):
                raise FormatError(f"{each.path} and {self.files[0].path} differ in having metadataInputNC")
        if (self.path / INDEX).is_file() and read_index(self.path).examples != self.examples:
            raise FormatError(f"{self.path} has {self.examples:,} rows, its {INDEX} tells of another number")
        self._open: dict[int, NpzReader] | None = {}

    def _paths(self) -> list[Path]:
        if not self.path.is_dir():
            return [self.path]
        if (self.path / INDEX).is_file():
            index = read_index(self.path)
            self.about = index.about
            return [self.path / name for name in index.files if name.endswith(".npz")]
        return npz_files(self.path)

    @property
    def arrays(self) -> tuple[KataArray, ...]:
        """Which arrays there are."""
        return tuple(each for each in ARRAYS if each.needed or any(each.field in file.arrays for file in self.files))

    def run_starts(self) -> npt.NDArray[np.int64]:
        """The first row of each file, from which on reading goes without unpacking anything twice."""
        return np.array([first for first, file in zip(self._first, self.files) if file.rows], np.int64)

    def rows(self, start: int, stop: int) -> KataRows:
        """Rows start to stop - 1, all arrays.

        globalTargetsNC of 64 columns is given 80, the last ones zero, and a file without qValueTargetsNCMove has zeros
        beside one that has it, as KataGo's scripts have it. Raises FormatError if they are damaged.
        """
        fields = [each.field for each in self.arrays]
        parts = self._parts(start, stop, fields)
        return join_rows([KataRows(**part) for part in parts])

    def read(self, start: int, stop: int) -> Batch:
        return _as_batch(self.path, start, [*self._parts(start, stop, _AS_EXAMPLES)])

    def close(self) -> None:
        for each in (self._open or {}).values():
            each.close()
        self._open = None

    def _parts(self, start: int, stop: int, fields: Iterable[str]) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """What of these rows each file has; at least one part."""
        k = min(bisect_right(self._first, start) - 1, len(self.files) - 1)
        if k < 0:
            yield {each.field: _none(each, 0) for each in ARRAYS if each.field in fields}
            return
        while True:
            first, until = self._first[k], min(stop, self._first[k + 1])
            yield {
                each.field: self._read(k, each, start - first, until - first) for each in ARRAYS if each.field in fields
            }
            if until >= stop:
                return
            start, k = until, k + 1

    def _read(self, k: int, array: KataArray, start: int, stop: int) -> npt.NDArray[Any]:
        stored = self.files[k].arrays.get(array.field)
        if stored is None:
            return _none(array, stop - start)
        values = self._file(k).read(stored, start, stop)
        if values.shape[1:] != array.shape:
            values = np.pad(values, ((0, 0), (0, TARGETS - values.shape[1])))
        return values.copy()

    def _file(self, k: int) -> NpzReader:
        if self._open is None:
            raise ValueError(f"{self.path} is closed")
        if k not in self._open:
            if len(self._open) >= _OPEN_FILES:
                self._open.pop(next(iter(self._open))).close()
            self._open[k] = NpzReader(self.files[k].path)
        self._open[k] = found = self._open.pop(k)  # as the one that was used last
        return found


def npz_files(folder: Path) -> list[Path]:
    """The files of a folder that shuffle.py would read: those whose name has no _ in it. Raises SourceError."""
    try:
        names = sorted(each.name for each in folder.iterdir() if each.suffix == ".npz")
    except OSError as error:
        raise SourceError(f"{folder} cannot be read: {error.strerror}") from None
    return [folder / name for name in names if "_" not in name and not name.startswith(".")]


def _none(array: KataArray, rows: int) -> npt.NDArray[Any]:
    return np.zeros((rows, *array.shape), array.kind)


def _open_file(path: Path) -> _File:
    """Raises SourceError; FormatError unless it has the arrays that KataGo asks for, and no others."""
    with NpzReader(path) as opened:
        found = opened.arrays()
    known = {each.name: each for each in ARRAYS}
    wrong = sorted(found.keys() ^ (found.keys() & known.keys() | {each.name for each in ARRAYS if each.needed}))
    if wrong:
        verb = "has" if wrong[0] in found else "lacks"
        raise FormatError(
            f"{path} {verb} {wrong[0][:80]!r}; KataGo's rows are {', '.join(known)}, the last two at will"
        )
    rows = found[ARRAYS[0].name].shape[0]
    for name, array in found.items():
        told = known[name]
        shape = (rows, *told.shape)
        older = told.field == "targets" and len(array.shape) == 2 and OLD_TARGETS <= array.shape[1] <= TARGETS
        if array.dtype != told.kind or array.shape != ((rows, array.shape[-1]) if older else shape):
            raise FormatError(
                f"{path}: {name} is {array.dtype.str} {list(array.shape)}, not {told.kind.str} {list(shape)}"
            )
    return _File(path, rows, {known[name].field: array for name, array in found.items()})


def _as_batch(path: Path, start: int, parts: list[dict[str, npt.NDArray[Any]]]) -> Batch:
    """start: the number of the first row, for messages."""
    planes, inputs, policy, targets = (np.concatenate([part[field] for part in parts]) for field in _AS_EXAMPLES)
    for wrong, what in (
        ((planes[:, :, -1] & _LAST_BITS).any(1), "planes with points beyond the board"),
        (policy[:, 0].max(1, initial=0) <= 0, "a move that no count tells"),
    ):
        if wrong.any():
            raise FormatError(f"{path}: row {start + int(np.argmax(wrong))} has {what}")
    result = np.sign(targets[:, 0] - targets[:, 1]).astype(np.int8)
    result[targets[:, 35] >= 1] = UNKNOWN
    game = game_hashes(targets)[:, 0]
    ply = np.where(game == 0, -1, targets[:, 51] + targets[:, 53]).astype(np.int32)
    labels = {"move": policy[:, 0].argmax(1).astype(np.int16), "globals": inputs, "result": result}
    return Batch(planes, labels, game, ply)


def game_hashes(targets: npt.NDArray[np.float32]) -> npt.NDArray[np.uint64]:
    """[N, 2] uint64: the two words of each row's game hash, from [N, 80] of globalTargetsNC; 0 where there is none.

    What is no whole number there is cut to one.
    """
    pieces = np.clip(np.nan_to_num(targets[:, 41:47]), 0, 2**22 - 1).astype(np.uint64).reshape(-1, 2, 3)
    shifts = np.array([0, 22, 44], np.uint64)
    words: npt.NDArray[np.uint64] = np.bitwise_or.reduce(pieces << shifts, axis=2)
    return words
