"""The format `hdf5@2`: the layout that RocAlphaGo trains from. Card: docs/formats/hdf5.md. Requires h5py."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from io import FileIO
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from kifu.arrays import Array
from kifu.datasets.examples import Batch, Dataset, LabelSpec, Layout, concat, pack_planes, parse_layout
from kifu.datasets.manifest import Writer, WriteReport, WrittenFile, block_checks
from kifu.errors import FormatError, OutputError, RecipeError, first_line, printable, reading
from kifu.io import AtomicFile, bytes_at, cannot_write, open_regular, read_at, temp_path

_GROUP = 1024
"""Rows written at a time: 16 chunks of states, one chunk of every other dataset."""

_STATES_CHUNK = 64

_ALPHAGO = (
    "board,ones,turns_since,liberties,capture_size,self_atari_size,liberties_after,ladder_capture,ladder_escape,"
    "sensibleness,zeros"
)
_FEATURES = {"alphago48@1": _ALPHAGO, "alphago49@1": f"{_ALPHAGO},color"}
"""RocAlphaGo's names for the features of a plane set; it trains only from files with the features of its network."""

_MAX_CHUNK = 64 << 20
"""Bytes; a chunk is read as a whole. Those of kifu and RocAlphaGo have about one megabyte."""

_MAX_TEXT = 16 << 20

_DAMAGED = (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""Exceptions that h5py raises for damaged files."""

_BYTE = np.dtype("u1")
_MOVE = LabelSpec("move", "int16", (), "the next move")


class _DiskFile(FileIO):
    """A file for HDF5 that shares neither locks with others in this process, nor its offset with forked processes.

    HDF5 crashes after a failed write: bytes after the first error are dropped.
    """

    error: OSError | None = None
    _position = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._position = offset if whence == os.SEEK_SET else super().seek(offset, whence)
        return self._position

    def readinto(self, view: memoryview, /) -> int:  # type: ignore[override]
        if (count := read_at(self.fileno(), view, self._position)) < len(view):  # HDF5 would use what the buffer held
            raise OSError("the file is shorter than when it was opened")
        return count

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        try:
            super().seek(self._position)
            while self.error is None and len(view):
                view = view[super().write(view) :]
        except OSError as error:
            self.error = error
        return len(data)

    def __del__(self) -> None:
        self.close()


class Hdf5Writer(Writer):
    """Writes an hdf5@2 file."""

    format = "hdf5@2"

    def __init__(self, path: Path, layout: Layout, examples: int = 0) -> None:
        """Create the file. Raises RecipeError if the layout has real planes, or no label "move"."""
        if layout.real:
            raise RecipeError(f"{self.format} holds planes of 0 and 1, but {layout.plane_set} has real values")
        if "move" not in [label.name for label in layout.labels]:
            raise RecipeError(f"{self.format} requires the label move")
        super().__init__(layout)
        self._path = path
        self._pending: list[Batch] = []
        self._seen = 0  # rows appended; `examples` of them are written
        self._games: list[tuple[str, int]] = []  # name and first row of games that may not be complete
        self._output = AtomicFile(path)
        try:
            with self._as_output_error():
                self._target = _DiskFile(temp_path(path), "r+")
                self._file = h5py.File(self._target, "w")
                self._create_datasets()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def _create_datasets(self) -> None:
        planes, height, width = self.layout.shape
        self._states = self._create("states", np.dtype("u1"), (planes, width, height), _STATES_CHUNK)
        self._actions = self._create("actions", np.dtype("u1"), (2,), _GROUP)
        self._offsets = self._file.create_group("file_offsets")
        features = _FEATURES.get(self.layout.plane_set, self.layout.plane_set)
        self._file.create_dataset("features", data=np.bytes_(features.encode()), track_times=False)
        self._columns = {
            label.name: self._create(_path_of(label), label.np_dtype, label.shape, _GROUP)
            for label in self.layout.labels
            if label.name != "move"
        }
        self._game = self._create("game", np.dtype("<u8"), (), _GROUP)
        self._ply = self._create("ply", np.dtype("<i4"), (), _GROUP)
        self._file.attrs["kifu.format"] = np.bytes_(self.format)
        self._file.attrs["kifu.layout"] = np.bytes_(self.layout.to_json())

    def _create(self, name: str, dtype: np.dtype[Any], row_shape: tuple[int, ...], chunk: int) -> h5py.Dataset:
        return self._file.create_dataset(
            name, (0, *row_shape), dtype, maxshape=(None, *row_shape), chunks=(chunk, *row_shape), compression="lzf",
            track_times=False,
        )  # fmt: skip

    def append(self, prepared: Batch) -> None:
        """Append a prepared batch; see `Writer.append`."""
        if np.any(prepared.labels["move"] == self.layout.pass_label):
            raise RecipeError(f"{self.format} has no passes")
        if prepared.runs is not None:
            first = self._seen
            for archive, member, rows in zip(prepared.runs.archive, prepared.runs.member, prepared.runs.rows.tolist()):
                name = f"{archive}:{member}".replace("/", ":").replace("\0", "")
                if rows and (not self._games or self._games[-1][0] != name):
                    self._games.append((name, first))
                first += rows
        self._seen += len(prepared)
        self._pending.append(prepared)
        if self._seen - self.examples >= _GROUP:
            rows = concat(self._pending, self.layout)
            whole = len(rows) // _GROUP * _GROUP
            self._pending = [rows.slice(whole, len(rows))]
            with self._as_output_error():
                for start in range(0, whole, _GROUP):
                    self._write(rows.slice(start, start + _GROUP))

    def _write(self, group: Batch) -> None:
        start, stop = self.examples, self.examples + len(group)
        y, x = np.divmod(group.labels["move"].astype(np.int64), self.layout.width)
        columns = {
            self._states: group.unpack_planes(self.layout).transpose(0, 1, 3, 2),
            self._actions: np.stack([x, y], 1),
            self._game: group.game,
            self._ply: group.ply,
        } | {column: group.labels[name] for name, column in self._columns.items()}
        for column, values in columns.items():
            column.resize(stop, 0)
            column[start:stop] = np.ascontiguousarray(values, column.dtype)
        self.examples = stop
        # A game is complete once rows of a later game are written, however the batches were divided.
        complete = sum(first < stop for _, first in self._games) - 1
        self._write_offsets(complete)

    def _write_offsets(self, games: int) -> None:
        for k in range(games):
            name, first = self._games[k]
            stop = self._games[k + 1][1] if k + 1 < len(self._games) else self.examples
            key = name if name not in self._offsets else f"{name}:{first}"
            self._offsets.create_dataset(key, data=np.array([first, stop - first]), track_times=False)
        del self._games[: max(games, 0)]

    def commit(self, about: Mapping[str, Any]) -> WriteReport:
        """Finish the data set; see `Writer.commit`."""
        with self._as_output_error():
            if self._seen > self.examples:
                self._write(concat(self._pending, self.layout))
            self._write_offsets(len(self._games))
            self._file.create_dataset(
                "about", data=np.bytes_(json.dumps(about, ensure_ascii=True).encode()), track_times=False
            )
            self._file.close()
        self._target.close()
        self._output.adopt()
        digest = self._output.commit()
        written = WrittenFile(self._path.name, self._output.size, digest, self._output.sums.to_text())
        return WriteReport(self.examples, (written,))

    @contextmanager
    def _as_output_error(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError) as error:
            raise OutputError(f"cannot write {self._path}: {first_line(error)}") from None
        if self._target.error is not None:
            raise cannot_write(self._path, self._target.error)

    def __exit__(self, *error: Any) -> None:
        if hasattr(self, "_file"):
            with suppress(OSError, RuntimeError, ValueError):  # the file may be incomplete
                self._file.close()
        if hasattr(self, "_target"):
            self._target.close()
        self._output.__exit__(*error)


class Hdf5(Dataset):
    """An hdf5@2 file, or a file that RocAlphaGo wrote; docs/formats/hdf5.md lists the limits."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with reading(self.path), open_regular(self.path) as file:
            size = os.fstat(file.fileno()).st_size
            block_checks(self.path)[self.path.name].check(partial(bytes_at, file.fileno()), 0, size)
            self._opened = _DiskFile(os.dup(file.fileno()))
        with ExitStack() as stack, self._as_format_error():
            self._file = stack.enter_context(h5py.File(self._opened, "r"))
            self._open()
            stack.pop_all()

    def _open(self) -> None:
        states = self._dataset("states").shape
        if len(states) != 4:
            raise FormatError(f"states have shape {states}, expected examples x planes x columns x rows")
        self.examples = states[0]
        by_kifu = "kifu.layout" in self._file.attrs
        features, about = (self._text(name) if name in self._file else None for name in ("features", "about"))
        if not by_kifu:
            self.layout = _layout_of(states, features)
        else:
            _check_text("kifu.layout", self._file.attrs.get_id("kifu.layout"))
            self.layout = parse_layout(self._file.attrs["kifu.layout"])
        document = json.loads(about or "{}")
        self.about = document if isinstance(document, dict) else {}
        planes, height, width = self.layout.shape
        expected: dict[str, Any] = {"states": (_BYTE, (planes, width, height)), "actions": (_BYTE, (2,))}
        if by_kifu:
            others = [label for label in self.layout.labels if label.name != "move"]
            expected |= {_path_of(label): (label.np_dtype, label.shape) for label in others}
            expected |= {"game": (np.dtype("<u8"), ()), "ply": (np.dtype("<i4"), ())}
        self._columns = {name: self._dataset(name) for name in expected}
        for name, (dtype, shape) in expected.items():
            column, full = self._columns[name], (self.examples, *shape)
            if column.dtype != dtype or column.shape != full:
                raise FormatError(f"{name} has shape {column.shape} and type {column.dtype}, expected {full} {dtype}")

    def _dataset(self, name: str) -> h5py.Dataset:
        """Return a dataset that lies in the file itself, without plugins, and in chunks that fit into memory."""
        steps = name.split("/")
        paths = ("/".join(steps[: k + 1]) for k in range(len(steps)))
        if not all(isinstance(self._file.get(path, getlink=True), h5py.HardLink) for path in paths):
            raise FormatError(f"has no {name}")
        column = self._file[name]
        if not isinstance(column, h5py.Dataset) or column.external or column.is_virtual:
            raise FormatError(f"{name} is not a dataset in this file")
        properties = column.id.get_create_plist()
        if any(properties.get_filter(k)[0] != h5py.h5z.FILTER_LZF for k in range(properties.get_nfilters())):
            raise FormatError(f"{name} has a filter other than lzf")
        chunk = column.dtype.itemsize * prod(column.chunks or ())
        if chunk > _MAX_CHUNK:
            raise FormatError(f"{name} has chunks of {chunk:,} bytes, the limit is {_MAX_CHUNK:,}")
        return column

    def _text(self, name: str) -> str:
        column = self._dataset(name)
        _check_text(name, column)
        return bytes(column[()]).decode("utf-8", "replace")

    def _read(self, start: int, stop: int) -> Batch:
        if not self._file:
            raise ValueError(f"{self.path} is closed")
        planes = np.empty((stop - start, *self.layout.packed_shape), np.uint8)
        with self._as_format_error():
            for first in range(start, stop, _GROUP):
                states = self._columns["states"][first : min(first + _GROUP, stop)]
                if states.max(initial=0) > 1:
                    raise FormatError(f"holds {states.max()} in states, only 0 and 1 are allowed")
                planes[first - start :][:_GROUP] = pack_planes(states.transpose(0, 1, 3, 2), self.layout)
            read = {name: column[start:stop] for name, column in self._columns.items() if name != "states"}
            x, y = read["actions"].astype(np.int16).T
            if np.any(x >= self.layout.width) or np.any(y >= self.layout.height):
                raise FormatError("has an action outside the board")
        labels: dict[str, Array] = {}
        for label in self.layout.labels:
            labels[label.name] = y * np.int16(self.layout.width) + x if label.name == "move" else read[_path_of(label)]
        rows = stop - start
        game, ply = read.get("game", np.zeros(rows, np.uint64)), read.get("ply", np.full(rows, -1, np.int32))
        return Batch(planes, labels, game, ply)

    @contextmanager
    def _as_format_error(self) -> Iterator[None]:
        try:
            yield
        except (*_DAMAGED, FormatError) as error:
            raise FormatError(f"{self.path}: {first_line(error)}") from None

    def close(self) -> None:
        """Close the file; see `Dataset.close`."""
        self._file.close()
        self._opened.close()


def _check_text(name: str, stored: Any) -> None:
    """Refuse texts of variable length, whose heap blocks the HDF5 library if it is damaged."""
    if stored.shape != () or stored.dtype.kind != "S" or stored.dtype.itemsize > _MAX_TEXT:
        raise FormatError(f"{name} is {stored.dtype}, expected one text of fixed length, at most {_MAX_TEXT:,} bytes")


def _layout_of(states: tuple[int, ...], features: str | None) -> Layout:
    """Return the layout of a file that RocAlphaGo wrote. Row 0 is the top row, as in SGF."""
    _, planes, width, height = states
    if not (1 <= planes <= 1000 and 1 <= width <= 25 and 1 <= height <= 25):
        raise FormatError(f"states have shape {states}; boards have 1 to 25 lines")
    text = "unknown" if features is None else printable(features[:1000])
    plane_sets = [name for name, known in _FEATURES.items() if known == text]
    names = tuple(f"plane {k}" for k in range(planes))
    return Layout(plane_sets[0] if plane_sets else text, names, False, width, height, 0, "top", (_MOVE,))


def _path_of(label: LabelSpec) -> str:
    return f"labels/{label.name}"
