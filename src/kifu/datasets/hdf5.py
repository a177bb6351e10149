"""The format `hdf5@1`: the layout that RocAlphaGo trains from. Its card: docs/formats/hdf5.md. Needs h5py."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from kifu.atomic_io import AtomicFile, temp_path
from kifu.datasets.examples import Batch, Dataset, LabelSpec, Layout, parse_layout, store
from kifu.datasets.writer import Rebatcher, Writer, WriteReport, WrittenFile
from kifu.errors import FormatError, OutputError, RecipeError, first_line

_GROUP = 1024
"""Rows written at a time: 16 chunks of states, and one of all else."""

_STATES_CHUNK = 64

_ALPHAGO = (
    "board,ones,turns_since,liberties,capture_size,self_atari_size,liberties_after,ladder_capture,ladder_escape,"
    "sensibleness,zeros"
)
_FEATURES = {"alphago48@1": _ALPHAGO, "alphago49@1": f"{_ALPHAGO},color"}
"""What RocAlphaGo calls the features of a plane set; it trains only from files that name its network's."""

_DAMAGED = (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError, MemoryError, OverflowError)
"""What h5py raises for bytes that are no HDF5."""

_MOVE = LabelSpec("move", "int16", (), "the next move")


class Hdf5Writer(Writer):
    """Writes an hdf5@1 file."""

    format = "hdf5@1"

    def __init__(self, path: Path, layout: Layout, examples: int = 0) -> None:
        """examples: taken as by other writers, and not needed. Raises RecipeError for a layout without the label move,
        or with real planes; OutputError."""
        if layout.real:
            raise RecipeError(f"{self.format} has planes of 0 and 1, and {layout.plane_set} has other values")
        if "move" not in [label.name for label in layout.labels]:
            raise RecipeError(f"{self.format} has the label move always")
        super().__init__(layout)
        self._path = path
        self._groups = Rebatcher(layout, _GROUP)
        self._seen = 0  # rows that have come, of which `examples` are written
        self._games: list[tuple[str, int]] = []  # name and first row of those that may not have ended yet
        self._output = AtomicFile(path)
        try:
            with self._told():
                self._file = h5py.File(temp_path(path), "w", locking=False)
                self._begin()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def _begin(self) -> None:
        planes, height, width = self.layout.shape
        self._states = self._new("states", np.dtype("u1"), (planes, width, height), _STATES_CHUNK)
        self._actions = self._new("actions", np.dtype("u1"), (2,), _GROUP)
        self._offsets = self._file.create_group("file_offsets")
        features = _FEATURES.get(self.layout.plane_set, self.layout.plane_set)
        self._file.create_dataset("features", data=np.bytes_(features.encode()), track_times=False)
        self._columns = {
            label.name: self._new(_path_of(label), label.kind, label.shape, _GROUP)
            for label in self.layout.labels
            if label.name != "move"
        }
        self._game = self._new("game", np.dtype("<u8"), (), _GROUP)
        self._ply = self._new("ply", np.dtype("<i4"), (), _GROUP)
        self._file.attrs["kifu.format"] = self.format
        self._file.attrs["kifu.layout"] = self.layout.to_json()

    def _new(self, name: str, kind: np.dtype[Any], shape: tuple[int, ...], chunk: int) -> h5py.Dataset:
        return self._file.create_dataset(
            name,
            (0, *shape),
            kind,
            maxshape=(None, *shape),
            chunks=(chunk, *shape),
            compression="lzf",
            track_times=False,
        )

    def append(self, prepared: Batch) -> None:
        if np.any(prepared.labels["move"] == self.layout.no_point):
            raise RecipeError(f"{self.format} has no passes")
        if prepared.runs is not None:
            first = self._seen
            for archive, member, rows in zip(prepared.runs.archive, prepared.runs.member, prepared.runs.rows.tolist()):
                name = f"{archive}:{member}".replace("/", ":").replace("\0", "")
                if rows and (not self._games or self._games[-1][0] != name):
                    self._games.append((name, first))
                first += rows
        self._seen += len(prepared)
        with self._told():
            for group in self._groups.add(prepared):
                self._write(group)

    def _write(self, group: Batch) -> None:
        start, stop = self.examples, self.examples + len(group)
        y, x = np.divmod(group.labels["move"].astype(np.int64), self.layout.width)
        columns = {
            self._states: group.ready(self.layout).transpose(0, 1, 3, 2),
            self._actions: np.stack([x, y], 1),
            self._game: group.game,
            self._ply: group.ply,
        } | {column: group.labels[name] for name, column in self._columns.items()}
        for column, values in columns.items():
            column.resize(stop, 0)
            column[start:stop] = np.ascontiguousarray(values, column.dtype)
        self.examples = stop
        # Games of which a later one's rows are written have ended, however batches were cut.
        ended = sum(first < stop for _, first in self._games) - 1
        self._write_offsets(ended)

    def _write_offsets(self, games: int) -> None:
        """Notes where the first `games` of those under way lie."""
        for k in range(games):
            name, first = self._games[k]
            stop = self._games[k + 1][1] if k + 1 < len(self._games) else self.examples
            key = name if name not in self._offsets else f"{name}:{first}"
            self._offsets.create_dataset(key, data=np.array([first, stop - first]), track_times=False)
        del self._games[: max(games, 0)]

    def commit(self, about: Mapping[str, Any]) -> WriteReport:
        with self._told():
            rest = self._groups.rest()
            if len(rest):
                self._write(rest)
            self._write_offsets(len(self._games))
            self._file.create_dataset(
                "about", data=np.bytes_(json.dumps(about, ensure_ascii=True).encode()), track_times=False
            )
            self._file.close()
        self._output.adopt()
        digest = self._output.commit()
        return WriteReport(self.examples, (WrittenFile(self._path.name, self._output.size, digest),))

    @contextmanager
    def _told(self) -> Iterator[None]:
        """A disk that is full, or gone, is an OutputError."""
        try:
            yield
        except (OSError, RuntimeError) as error:
            raise OutputError(f"cannot write {self._path}: {first_line(error)}") from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if hasattr(self, "_file"):
            with suppress(*_DAMAGED):  # of what is left of a file that could not be written
                self._file.close()
        self._output.__exit__(kind, error, trace)


class Hdf5(Dataset):
    """An hdf5@1 file, or one that RocAlphaGo made."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises FormatError."""
        self.path = Path(path)
        try:
            self._file = h5py.File(self.path, "r", locking=False)
            self._open()
        except FormatError as error:
            raise FormatError(f"{self.path}: {error}") from None
        except _DAMAGED as error:
            raise FormatError(f"{self.path} is no HDF5 file of examples: {first_line(error)}") from None

    def _open(self) -> None:
        states = self._column("states", np.dtype("u1"))
        if states.ndim != 4:
            raise FormatError(f"states are {list(states.shape)}, not examples x planes x columns x rows")
        self.examples = states.shape[0]
        made_here = "kifu.layout" in self._file.attrs
        self.layout = parse_layout(str(self._file.attrs["kifu.layout"])) if made_here else self._layout_of(states)
        planes, height, width = self.layout.shape
        wanted: dict[str, tuple[np.dtype[Any], tuple[int, ...]]]
        wanted = {"states": (np.dtype("u1"), (planes, width, height)), "actions": (np.dtype("u1"), (2,))}
        if made_here:
            wanted |= {_path_of(each): (each.kind, each.shape) for each in self._others()}
            wanted |= {"game": (np.dtype("<u8"), ()), "ply": (np.dtype("<i4"), ())}
        self._columns = {name: self._column(name, kind) for name, (kind, _) in wanted.items()}
        for name, (_, shape) in wanted.items():
            if self._columns[name].shape != (self.examples, *shape):
                found = list(self._columns[name].shape)
                raise FormatError(f"{name} has the shape {found}, not {[self.examples, *shape]}")
        about = json.loads(self._column("about", None)[()]) if "about" in self._file else {}
        self.about = about if isinstance(about, dict) else {}

    def _others(self) -> list[LabelSpec]:
        return [label for label in self.layout.labels if label.name != "move"]

    def _column(self, name: str, kind: np.dtype[Any] | None) -> h5py.Dataset:
        """A dataset of the file itself; kind: None for text. Raises FormatError."""
        if not isinstance(self._file.get(name, getlink=True), h5py.HardLink):
            raise FormatError(f"has no {name}")
        column = self._file[name]
        if not isinstance(column, h5py.Dataset) or column.external or column.is_virtual:
            raise FormatError(f"{name} is no dataset of its own")
        if kind is not None and (column.dtype != kind or column.compression not in (None, "lzf", "gzip")):
            raise FormatError(f"{name} is {column.dtype}, compressed by {column.compression}; not {kind} by lzf")
        return column

    def _layout_of(self, states: h5py.Dataset) -> Layout:
        """What there is to say of a file that RocAlphaGo made. Its rows are those of SGF."""
        told = self._column("features", None)[()] if "features" in self._file else b"unknown"
        features = "".join(c if c.isprintable() else "?" for c in bytes(told).decode("ascii", "replace")[:1000])
        known = [name for name, each in _FEATURES.items() if each == features]
        _, planes, width, height = states.shape
        if not (1 <= planes <= 1000 and 1 <= width <= 25 and 1 <= height <= 25):
            raise FormatError(f"states are {list(states.shape)}, which is no board of 1 to 25 lines")
        names = tuple(f"plane {k}" for k in range(planes))
        return Layout(known[0] if known else features, names, False, width, height, 0, "top", (_MOVE,))

    def read(self, start: int, stop: int) -> Batch:
        if not self._file:
            raise ValueError(f"{self.path} is closed")
        try:
            read = {name: column[start:stop] for name, column in self._columns.items()}
        except _DAMAGED as error:
            raise FormatError(f"{self.path} cannot be read: {first_line(error)}") from None
        x, y = read["actions"].astype(np.int16).T
        if np.any(x >= self.layout.width) or np.any(y >= self.layout.height):
            raise FormatError(f"{self.path} has an action that is no point of the board")
        states = read["states"].transpose(0, 1, 3, 2)
        if states.max(initial=0) > 1:
            raise FormatError(f"{self.path} has {states.max()} in states, where there is only 0 and 1")
        labels: dict[str, npt.NDArray[Any]] = {}
        for label in self.layout.labels:
            labels[label.name] = y * np.int16(self.layout.width) + x if label.name == "move" else read[_path_of(label)]
        rows = stop - start
        game = read.get("game", np.zeros(rows, np.uint64))
        return Batch(store(states, self.layout), labels, game, read.get("ply", np.full(rows, -1, np.int32)))

    def close(self) -> None:
        self._file.close()


def _path_of(label: LabelSpec) -> str:
    return f"labels/{label.name}"
