"""The format `hdf5@1`: the layout that RocAlphaGo trains from. Card: docs/formats/hdf5.md. Requires h5py."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, cast

import h5py
import numpy as np
import numpy.typing as npt

from kifu.atomic_io import AtomicFile, temp_path
from kifu.datasets.examples import Batch, Dataset, LabelSpec, Layout, parse_layout
from kifu.datasets.writer import Rebatcher, Writer, WriteReport, WrittenFile
from kifu.errors import FormatError, OutputError, RecipeError, SourceError, first_line, printable
from kifu.files import require_regular

_GROUP = 1024
"""Rows written at a time: 16 chunks of states, one chunk of every other dataset."""

_STATES_CHUNK = 64

_ALPHAGO = (
    "board,ones,turns_since,liberties,capture_size,self_atari_size,liberties_after,ladder_capture,ladder_escape,"
    "sensibleness,zeros"
)
_FEATURES = {"alphago48@1": _ALPHAGO, "alphago49@1": f"{_ALPHAGO},color"}
"""RocAlphaGo's names for the features of a plane set; it trains only from files with the features of its network."""

_DEADLINE_S = 60.0
"""Time for opening a file, and for reading 1,024 rows."""

_BYTE = np.dtype("u1")
_MOVE = LabelSpec("move", "int16", (), "the next move")


class Hdf5Writer(Writer):
    """Writes an hdf5@1 file."""

    format = "hdf5@1"

    def __init__(self, path: Path, layout: Layout, examples: int = 0) -> None:
        """Create the file.

        Raises:
            RecipeError: The layout has real planes, or no label "move".
            OutputError: The file cannot be created.
        """
        if layout.real:
            raise RecipeError(f"{self.format} holds planes of 0 and 1, but {layout.plane_set} has real values")
        if "move" not in [label.name for label in layout.labels]:
            raise RecipeError(f"{self.format} requires the label move")
        super().__init__(layout)
        self._path = path
        self._groups = Rebatcher(layout, _GROUP)
        self._seen = 0  # rows appended; `examples` of them are written
        self._games: list[tuple[str, int]] = []  # name and first row of games that may not be complete
        self._output = AtomicFile(path)
        try:
            with self._as_output_error():
                self._file = h5py.File(temp_path(path), "w", locking=False)
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
        self._file.attrs["kifu.format"] = self.format
        self._file.attrs["kifu.layout"] = self.layout.to_json()

    def _create(self, name: str, dtype: np.dtype[Any], row_shape: tuple[int, ...], chunk: int) -> h5py.Dataset:
        return self._file.create_dataset(
            name,
            (0, *row_shape),
            dtype,
            maxshape=(None, *row_shape),
            chunks=(chunk, *row_shape),
            compression="lzf",
            track_times=False,
        )

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
        with self._as_output_error():
            for group in self._groups.add(prepared):
                self._write(group)

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
        """Write the row ranges of the first pending games."""
        for k in range(games):
            name, first = self._games[k]
            stop = self._games[k + 1][1] if k + 1 < len(self._games) else self.examples
            key = name if name not in self._offsets else f"{name}:{first}"
            self._offsets.create_dataset(key, data=np.array([first, stop - first]), track_times=False)
        del self._games[: max(games, 0)]

    def commit(self, about: Mapping[str, Any]) -> WriteReport:
        """Finish the data set; see `Writer.commit`."""
        with self._as_output_error():
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
    def _as_output_error(self) -> Iterator[None]:
        """Convert errors of a full or missing disk to OutputError."""
        try:
            yield
        except (OSError, RuntimeError) as error:
            raise OutputError(f"cannot write {self._path}: {first_line(error)}") from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if hasattr(self, "_file"):
            with suppress(OSError, RuntimeError, ValueError):  # the file may be incomplete
                self._file.close()
        self._output.__exit__(kind, error, trace)


class _ReaderProcess:
    """Runs `kifu.datasets._hdf5_reader` for a file, anew after an error and in a forked process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}  # by the process that started it

    def ask(self, *request: Any, out: Iterable[npt.NDArray[Any]] = ()) -> Any:
        """Return the answer to a request, and fill the arrays `out` with what follows it. Raises FormatError."""
        with self._lock:
            process = self._processes.get(os.getpid()) or self._start()
            requests, answers = cast(BinaryIO, process.stdin), cast(BufferedReader, process.stdout)
            try:
                with suppress(BrokenPipeError):  # it has ended: so does its output
                    requests.write(json.dumps(request).encode() + b"\n")
                    requests.flush()
                line = answers.readline()
                answer = json.loads(line) if line else {"error": _reason(process.wait())}
                if isinstance(answer, dict) and "error" in answer:
                    raise FormatError(f"{self._path}: {answer['error']}")
                for array in out:
                    if answers.readinto(array.reshape(-1).view(np.uint8).data) != array.nbytes:
                        raise FormatError(f"{self._path}: {_reason(process.wait())}")
            except BaseException:  # a rest of the answer may be in the pipe
                self.close()
                raise
            return answer

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            require_regular(self._path.stat())
        except OSError as error:
            raise SourceError(f"{self._path} cannot be read: {error.strerror}") from None
        command = [sys.executable, "-m", "kifu.datasets._hdf5_reader", str(self._path), str(_DEADLINE_S)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        self._processes[os.getpid()] = process
        weakref.finalize(self, _end, process, os.getpid())
        return process

    def close(self) -> None:
        """End the process."""
        process = self._processes.pop(os.getpid(), None)
        if process is not None:
            _end(process, os.getpid())


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() != owner:  # a forked process must not end the reader of its parent
        return
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # a request that it has not read
                pipe.close()


def _reason(status: int) -> str:
    if status == -signal.SIGALRM:
        return f"the HDF5 library did not finish within {_DEADLINE_S:g} s; the file may be damaged"
    return f"the HDF5 library crashed ({status}); the file may be damaged"


class Hdf5(Dataset):
    """An hdf5@1 file, or a file that RocAlphaGo wrote, read by a process of its own (`_hdf5_reader`)."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a file. Raises FormatError."""
        self.path = Path(path)
        self._reader = _ReaderProcess(self.path)
        self._is_open = True
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        states = self._shape("states", _BYTE)
        if len(states) != 4:
            raise FormatError(f"{self.path}: states have shape {states}, expected examples x planes x columns x rows")
        self.examples = states[0]
        texts = self._reader.ask("texts")
        by_kifu = texts["layout"] is not None
        try:
            self.layout = parse_layout(texts["layout"]) if by_kifu else _layout_of(states, texts["features"])
            about = json.loads(texts["about"] or "{}")
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{self.path}: {first_line(error)}") from None
        self.about = about if isinstance(about, dict) else {}
        planes, height, width = self.layout.shape
        expected: dict[str, tuple[np.dtype[Any], tuple[int, ...]]]
        expected = {"states": (_BYTE, (planes, width, height)), "actions": (_BYTE, (2,))}
        if by_kifu:
            others = [label for label in self.layout.labels if label.name != "move"]
            expected |= {_path_of(label): (label.np_dtype, label.shape) for label in others}
            expected |= {"game": (np.dtype("<u8"), ()), "ply": (np.dtype("<i4"), ())}
        for name, (dtype, shape) in expected.items():
            if (actual := self._shape(name, dtype)) != [self.examples, *shape]:
                raise FormatError(f"{self.path}: {name} has shape {actual}, expected {[self.examples, *shape]}")
        self._columns = expected | {"states": (_BYTE, self.layout.packed_shape)}

    def _shape(self, name: str, dtype: np.dtype[Any]) -> list[int]:
        shape: list[int] = self._reader.ask("shape", name, dtype.str)
        return shape

    def _read(self, start: int, stop: int) -> Batch:
        if not self._is_open:
            raise ValueError(f"{self.path} is closed")
        rows = stop - start
        read = {name: np.empty((rows, *shape), dtype) for name, (dtype, shape) in self._columns.items()}
        types = {name: dtype.str for name, (dtype, _) in self._columns.items()}
        for first in range(0, rows, _GROUP):
            last = min(first + _GROUP, rows)
            out = [column[first:last] for column in read.values()]
            self._reader.ask("rows", types, start + first, start + last, out=out)
        x, y = read["actions"].astype(np.int16).T
        if np.any(x >= self.layout.width) or np.any(y >= self.layout.height):
            raise FormatError(f"{self.path} has an action outside the board")
        labels: dict[str, npt.NDArray[Any]] = {}
        for label in self.layout.labels:
            labels[label.name] = y * np.int16(self.layout.width) + x if label.name == "move" else read[_path_of(label)]
        game = read.get("game", np.zeros(rows, np.uint64))
        return Batch(read["states"], labels, game, read.get("ply", np.full(rows, -1, np.int32)))

    def close(self) -> None:
        """Close the files; see `Dataset.close`."""
        self._is_open = False
        self._reader.close()


def _layout_of(states: list[int], features: str | None) -> Layout:
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
