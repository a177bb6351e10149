"""The format `npy@1`: a folder of arrays that np.load maps into memory. Its card: docs/formats/npy.md."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kifu.datasets._folder import HEADER_BYTES, FolderWriter, check_array, read_index
from kifu.datasets.examples import Batch, Dataset, Layout, store
from kifu.errors import FormatError

if TYPE_CHECKING:
    from kifu.execution.serialization import Parcel


def _columns(layout: Layout) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """By the file's name, the kind and the shape of a row: planes first, game and ply last."""
    first, *others = layout.labels
    return {
        "features.npy": (layout.plane_kind, layout.shape),
        "labels.npy": (first.kind, first.shape),
        **{f"{label.name}.npy": (label.kind, label.shape) for label in others},
        "game.npy": (np.dtype("<u8"), ()),
        "ply.npy": (np.dtype("<i4"), ()),
    }


class NpyWriter(FolderWriter):
    """Writes an npy@1 folder."""

    format = "npy@1"

    def __init__(self, path: Path, layout: Layout, examples: int = 0) -> None:
        """examples: how many are foreseen; if it is another number, the files are read once more for their hashes.

        Raises OutputError.
        """
        super().__init__(path, layout)
        try:
            for name, (kind, shape) in _columns(layout).items():
                self._begin(name, kind, shape, examples)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    @staticmethod
    def prepare(batch: Batch, layout: Layout) -> list[npt.NDArray[Any]]:
        labels = [batch.labels[label.name] for label in layout.labels]
        return [batch.ready(layout), *labels, batch.game, batch.ply]

    @staticmethod
    def pack(prepared: list[npt.NDArray[Any]]) -> Parcel:
        return {str(k): values for k, values in enumerate(prepared)}

    @staticmethod
    def unpack(parcel: Parcel) -> list[npt.NDArray[Any]]:
        return list(parcel.values())

    def append(self, prepared: list[npt.NDArray[Any]]) -> None:
        for file, values in zip(self._open, prepared):
            file.append(values)
        self.examples += len(prepared[0])


class Npy(Dataset):
    """An npy@1 folder, its files mapped into memory."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises SourceError or FormatError. Headers and sizes are checked, values when they are read."""
        self.path = Path(path)
        index = read_index(self.path)
        self.layout, self.examples, self.about = index.layout, index.examples, index.about
        self._arrays: list[npt.NDArray[Any]] = []
        for name, (kind, shape) in _columns(self.layout).items():
            check_array(self.path / name, kind, (self.examples, *shape))
            whole = (self.examples, *shape)
            if self.examples:
                self._arrays.append(np.memmap(self.path / name, kind, "r", HEADER_BYTES, whole))
            else:  # which nothing can be mapped of
                self._arrays.append(np.empty(whole, kind))

    def read(self, start: int, stop: int) -> Batch:
        *labels, game, ply = (np.array(values[start:stop]) for values in self._open()[1:])
        planes = self._planes(slice(start, stop))
        named = zip((label.name for label in self.layout.labels), labels)
        return Batch(store(planes, self.layout), dict(named), game, ply)

    def close(self) -> None:
        self._arrays.clear()

    def _ready(self, rows: range) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        some = slice(rows.start, rows.stop, rows.step)
        return self._planes(some), np.array(self._open()[1][some])

    def _planes(self, rows: slice) -> npt.NDArray[Any]:
        planes = np.array(self._open()[0][rows])
        if not self.layout.real and planes.max(initial=0) > 1:
            raise FormatError(f"{self.path / 'features.npy'} has {planes.max()} where there is only 0 and 1")
        return planes

    def _open(self) -> list[npt.NDArray[Any]]:
        if not self._arrays:
            raise ValueError(f"{self.path} is closed")
        return self._arrays
