"""The program that reads HDF5 files for `kifu.datasets.hdf5`: python -m kifu.datasets._hdf5_reader FILE SECONDS.

A damaged file can make the HDF5 library loop forever, crash or allocate any amount of memory, and Python cannot
interrupt it. So it runs in a process of its own, which an alarm ends and whose memory is limited.

A request is a line of standard input: a JSON list of the name of a function below and its arguments. The answer is a
line of JSON, the function's result or {"error": one line}; the bytes of arrays follow it.
"""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import sys
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from kifu.errors import FormatError, first_line

_MAX_MEMORY = 4 << 30
"""Bytes of address space."""

_MAX_CHUNK = 64 << 20
"""Bytes; a chunk is read as a whole. Those of kifu and RocAlphaGo have about one megabyte."""

_MAX_TEXT = 16 << 20

_DAMAGED = (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError, MemoryError, OverflowError)
"""Exceptions that h5py raises for damaged files."""

Arrays = list[npt.NDArray[Any]]


class _Reader:
    """A file whose HDF5 datasets stay open, because each of them caches its last chunks."""

    def __init__(self, path: str) -> None:
        self._file = h5py.File(path, "r", locking=False)
        self._columns: dict[str, h5py.Dataset] = {}

    def texts(self) -> tuple[dict[str, str | None], Arrays]:
        """Return the layout, the features and the metadata, None if they are missing."""
        layout = self._file.attrs.get("kifu.layout")
        texts = {"layout": None if layout is None else str(layout)}
        for name in ("features", "about"):
            texts[name] = self._text(name) if name in self._file else None
        if max(len(text or "") for text in texts.values()) > _MAX_TEXT:
            raise FormatError(f"a text is larger than {_MAX_TEXT:,} bytes")
        return texts, []

    def _text(self, name: str) -> str:
        column = self._dataset(name)
        if column.nbytes > _MAX_TEXT:
            raise FormatError(f"{name} has {column.nbytes:,} bytes, the limit is {_MAX_TEXT:,}")
        return bytes(column[()]).decode("utf-8", "replace")

    def shape(self, name: str, dtype: str) -> tuple[list[int], Arrays]:
        """Return the shape of a dataset of numbers."""
        column = self._dataset(name)
        if column.dtype != np.dtype(dtype) or column.compression not in (None, "lzf", "gzip"):
            raise FormatError(
                f"{name} is {column.dtype} compressed with {column.compression}, expected {np.dtype(dtype)} with lzf"
            )
        chunk = column.dtype.itemsize * int(np.prod(column.chunks or (), dtype=object))
        if chunk > _MAX_CHUNK:
            raise FormatError(f"{name} has chunks of {chunk:,} bytes, the limit is {_MAX_CHUNK:,}")
        self._columns[name] = column
        return list(column.shape), []

    def rows(self, types: dict[str, str], start: int, stop: int) -> tuple[None, Arrays]:
        """Return rows start to stop - 1 of datasets; `states` as in `Batch.planes`."""
        for name in types.keys() - self._columns.keys():
            self.shape(name, types[name])
        arrays = []
        for name in types:
            values = np.ascontiguousarray(self._columns[name][start:stop])
            if name == "states":
                if values.max(initial=0) > 1:
                    raise FormatError(f"holds {values.max()} in states, only 0 and 1 are allowed")
                values = np.packbits(values.transpose(0, 1, 3, 2).reshape(*values.shape[:2], -1), axis=-1)
            arrays.append(values)
        return None, arrays

    def _dataset(self, name: str) -> h5py.Dataset:
        """Return a dataset that lies in the file itself."""
        if not isinstance(self._file.get(name, getlink=True), h5py.HardLink):
            raise FormatError(f"has no {name}")
        column = self._file[name]
        if not isinstance(column, h5py.Dataset) or column.external or column.is_virtual:
            raise FormatError(f"{name} is not a dataset in this file")
        return column


def main() -> None:
    """Answer requests until the standard input ends."""
    path, seconds = sys.argv[1], float(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks decides
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):  # macOS refuses limits of address space
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    reader: _Reader | None = None
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        result: Any
        arrays: Arrays = []
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            if reader is None:
                reader = _Reader(path)
            result, arrays = getattr(reader, name)(*arguments)
        except _DAMAGED as error:
            result = {"error": first_line(error)}
        signal.setitimer(signal.ITIMER_REAL, 0)  # writing may have to wait
        sys.stdout.buffer.write(json.dumps(result).encode() + b"\n")
        for array in arrays:
            sys.stdout.buffer.write(array.data)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
