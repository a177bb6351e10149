"""Training examples in memory: layouts, batches, and the base class of data sets.

An example is the planes and the labels of one position. Binary planes are packed (`Batch.planes`), at an eighth of
their size as bytes. Each file format has its own module with a reader and a writer.
"""

from __future__ import annotations

import json
import operator
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, overload

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from kifu.arrays import Array, Hashes, Indices, Ints
from kifu.config import first_invalid, one_line
from kifu.errors import FormatError, printable
from kifu.planes.packing import unpack
from kifu.point import BLACK, MAX_SIZE, WHITE

RUN_ROWS = 1024
"""Rows of a run, see `Dataset.run_starts`, unless the format suggests another number."""

_BLOCK_BYTES = 1 << 20
"""Bytes of planes unpacked at a time when examples are read one by one, or with a step."""

UNKNOWN = -128
"""Value of an int8 label that is unknown; far from all others, so that it is not mistaken for one."""

CODES = {"to_play": (BLACK, WHITE), "result": (UNKNOWN, -1, 0, 1), "ownership": (UNKNOWN, -1, 0, 1)}
"""The allowed values of labels of few integers."""

_RESERVED = ("planes", "features", "labels", "game", "ply")

_Size = Annotated[int, Field(ge=1, le=MAX_SIZE)]
_Text = Annotated[str, Field(max_length=4000), AfterValidator(one_line)]
_Name = Annotated[str, Field(pattern=r"^[A-Za-z]\w{0,40}$")]


_STONES = re.compile(r"(own|other|opponent's|black|white)(?: stones)?(?: now)?(?:, \d\+? libert(?:y|ies))?")
"""Names of planes that mark stones."""


@dataclass(frozen=True, slots=True)
class LabelSpec:
    """A label: a quantity to predict. shape: of one example's value; () for a number."""

    name: _Name
    dtype: Literal["int8", "int16", "int32", "float32"]
    shape: tuple[Annotated[int, Field(ge=1, le=4096)], ...]
    meaning: _Text

    @property
    def np_dtype(self) -> np.dtype[Any]:
        """The little-endian NumPy dtype."""
        return np.dtype(self.dtype).newbyteorder("<")

    @property
    def bytes(self) -> int:
        """Size of one example's value."""
        return prod(self.shape) * self.np_dtype.itemsize


@dataclass(frozen=True, slots=True)
class Layout:
    """The planes and labels that all examples of a data set share.

    Attributes:
        plane_set: Full name of the plane set, or the features it is composed of.
        width: Board width; labels that are points refer to this board.
        rim: Rows and columns of padding around the board, on each side of the planes.
        first_row: The board row that is row 0 of the planes and of labels that are points.
        labels: The labels; `Dataset` returns the first one with the planes.
    """

    plane_set: _Text
    plane_names: Annotated[tuple[_Text, ...], Field(min_length=1, max_length=1000)]
    real: bool
    width: _Size
    height: _Size
    rim: Annotated[int, Field(ge=0, le=5)]
    first_row: Literal["top", "bottom"]
    labels: Annotated[tuple[LabelSpec, ...], Field(min_length=1, max_length=50)]

    def __post_init__(self) -> None:
        """Raise ValueError if two labels share a name, or use the name of a column or file."""
        names = [label.name for label in self.labels]
        if len({*names, *_RESERVED}) != len(names) + len(_RESERVED):
            raise ValueError(f"labels cannot be named {', '.join(names)}"[:200])

    @property
    def planes(self) -> int:
        """The number of planes, C."""
        return len(self.plane_names)

    @property
    def points(self) -> int:
        """The number of points of a plane, H * W."""
        return (self.width + 2 * self.rim) * (self.height + 2 * self.rim)

    def stone_planes(self) -> list[tuple[int, str]]:
        """Return the planes that mark stones, as (index, colour): "own" (side to move), "opp", "black" or "white"."""
        matches = ((k, _STONES.fullmatch(name)) for k, name in enumerate(self.plane_names))
        return [(k, {"other": "opp", "opponent's": "opp"}.get(side[1], side[1])) for k, side in matches if side]

    @property
    def pass_label(self) -> int:
        """The value that stands for a pass in labels that are points: width * height."""
        return self.width * self.height

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of an example's planes: (C, H, W)."""
        return self.planes, self.height + 2 * self.rim, self.width + 2 * self.rim

    @property
    def plane_dtype(self) -> np.dtype[Any]:
        """Dtype of unpacked planes: uint8, or float32 for real ones."""
        return np.dtype("<f4" if self.real else "u1")

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """Shape of an example in `Batch.planes`."""
        return (self.planes, self.points if self.real else (self.points + 7) // 8)

    @property
    def packed_bytes(self) -> int:
        """Size of an example in `Batch.planes`."""
        return prod(self.packed_shape) * self.plane_dtype.itemsize

    def flip_points(self, points: Indices) -> Indices:
        """Return labels [B] that are points with rows counted from the opposite side; a pass stays a pass."""
        y, x = np.divmod(points, self.width)
        return np.where(points == self.pass_label, points, (self.height - 1 - y) * self.width + x)

    def to_json(self) -> str:
        """Return one line of JSON, which `parse_layout` reads."""
        return json.dumps(asdict(self), separators=(",", ":"))


_LAYOUT = TypeAdapter(Layout)


def parse_layout(text: str | bytes) -> Layout:
    """Parse the output of `Layout.to_json`. Raises FormatError."""
    try:
        return _LAYOUT.validate_json(text, strict=True)
    except ValidationError as error:
        raise FormatError(f"invalid layout: {first_invalid(error)}") from None


class GameRuns(NamedTuple):
    """The games of a batch, whose rows are grouped by game, in order. rows: [K] int64, number of rows per game."""

    archive: Sequence[str]
    member: Sequence[str]
    rows: Indices


@dataclass(frozen=True, slots=True)
class Batch:
    """B examples.

    Attributes:
        planes: [B, C, ceil(H * W / 8)] uint8, one bit per point in row-major order, highest bit first, padding bits 0;
            or [B, C, H * W] float32 for a real layout. A loader's batches hold them as its `output` says.
        labels: By name, [B, ...].
        game: [B] uint64, the game's id in the catalogue; 0 if the file does not store it.
        ply: [B] int32, number of moves before the position, passes included; -1 if the file does not store it.
        runs: The games, for formats that name them; set only on batches for a writer.
    """

    planes: Array
    labels: Mapping[str, Array]
    game: Hashes
    ply: Ints
    runs: GameRuns | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.planes)

    def __repr__(self) -> str:
        arrays = {"planes": self.planes, **self.labels, "game": self.game, "ply": self.ply}
        shapes = ", ".join(f"{name} {list(array.shape)} {array.dtype}" for name, array in arrays.items())
        return f"<Batch: {shapes}>"

    def unpack_planes(self, layout: Layout) -> Array:
        """Return the planes as [B, C, H, W] uint8 of 0 and 1, or float32 for a real layout."""
        if layout.real:
            return self.planes.reshape(len(self), *layout.shape)
        out = np.empty((len(self), *layout.shape), np.uint8)
        unpack(self.planes, out)
        return out

    def slice(self, start: int, stop: int) -> Batch:
        """Return rows start to stop - 1, without runs."""
        labels = {name: values[start:stop] for name, values in self.labels.items()}
        return Batch(self.planes[start:stop], labels, self.game[start:stop], self.ply[start:stop])

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> Batch:
        """Return copies of the given rows, [K] indices, in the given order, without runs."""
        labels = {name: values.take(rows, axis=0) for name, values in self.labels.items()}
        return Batch(self.planes.take(rows, axis=0), labels, self.game[rows], self.ply[rows])

    def columns(self) -> dict[str, Array]:
        """Return all arrays [B, ...] of the batch by name, without runs; `from_columns` is the inverse."""
        labels = {f"label {name}": values for name, values in self.labels.items()}
        return {"planes": self.planes, "game": self.game, "ply": self.ply} | labels

    @classmethod
    def from_columns(cls, columns: Mapping[str, Array]) -> Batch:
        """Return the batch whose `columns`, arrays [B, ...], these are; others are ignored."""
        labels = {key.removeprefix("label "): values for key, values in columns.items() if key.startswith("label ")}
        return cls(columns["planes"], labels, columns["game"], columns["ply"])


def is_next(name: str) -> bool:
    """Return whether a label is next<k>, the points of the next k moves."""
    return name.startswith("next") and name[4:].isdecimal()


def pack_planes(planes: Array, layout: Layout) -> Array:
    """Return planes [B, C, H, W] in the form of `Batch.planes`; unless the layout is real, nonzero values become 1."""
    flat = planes.reshape(len(planes), layout.planes, layout.points)
    return flat.astype(np.float32, copy=False) if layout.real else np.packbits(flat, axis=-1)


def concat(batches: Sequence[Batch], layout: Layout) -> Batch:
    """Return the rows of several batches as one, without runs."""
    empty = Batch(
        np.empty((0, *layout.packed_shape), layout.plane_dtype),
        {label.name: np.empty((0, *label.shape), label.np_dtype) for label in layout.labels},
        np.empty(0, np.uint64),
        np.empty(0, np.int32),
    )
    parts = [empty, *batches]
    return Batch(
        np.concatenate([part.planes for part in parts]),
        {label.name: np.concatenate([part.labels[label.name] for part in parts]) for label in layout.labels},
        np.concatenate([part.game for part in parts]),
        np.concatenate([part.ply for part in parts]),
    )


def part_spans(bounds: Sequence[int], start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield rows start to stop - 1 as (part, its first row, its last row + 1). bounds: first rows, and all rows."""
    while start < stop:
        k = bisect_right(bounds, start) - 1
        until = min(stop, bounds[k + 1])
        yield k, start - bounds[k], until - bounds[k]
        start = until


class Dataset(ABC):
    """A data set that is open for reading; `kifu.open` returns one for any format. A context manager.

    A data set is a sequence: `data[i]` is (planes [C, H, W] uint8 of 0 and 1, or float32; the first label, as a number
    or an array), a slice is (planes [n, C, H, W], labels [n, ...]), and iteration yields the items of `data[i]`. The
    arrays are copies and may be changed. `read` and `batches` return all labels, and the game and ply of each row. The
    files must not change while they are open.

    Attributes:
        about: Metadata from the writer; empty if the format cannot store it.
    """

    path: Path
    layout: Layout
    examples: int
    about: Mapping[str, Any]

    def read(self, start: int, stop: int) -> Batch:
        """Return rows start to stop - 1, packed.

        Raises FormatError if they are damaged, or a label that is a point is not on the board, and IndexError if there
        are no such rows.
        """
        if not 0 <= start <= stop <= self.examples:
            raise IndexError(f"rows {start} to {stop} of {self.path}, which has {self.examples:,}")
        batch = self._read(start, stop)
        self._check_labels(batch.labels, range(start, stop))
        padding = 0xFF >> (self.layout.points % 8 or 8)
        if padding and not self.layout.real and (wrong := (batch.planes[:, :, -1] & padding).any(1)).any():
            row = start + int(np.argmax(wrong))
            raise FormatError(f"{self.path}: a plane of row {row} has padding bits that are not 0")
        return batch

    @abstractmethod
    def _read(self, start: int, stop: int) -> Batch:
        """Return rows start to stop - 1, all of which exist. Raises FormatError if they are damaged."""

    def _check_labels(self, labels: Mapping[str, Array], rows: range) -> None:
        """Raise FormatError if a label is out of its range: loss functions use points as indices."""
        for name, values in labels.items():
            if name in CODES and values.dtype.kind == "i":
                right, allowed = np.isin(values, CODES[name]), f"one of {', '.join(map(str, CODES[name]))}"
            elif name in ("move", "policy") or is_next(name):
                least, most = -1 if is_next(name) else 0, 1 if name == "policy" else self.layout.pass_label
                right, allowed = (values >= least) & (values <= most), f"within {least} to {most}"  # not for NaN
            else:
                continue
            if not right.all():
                row = rows[int(np.argmin(right.reshape(len(rows), -1).all(1)))]
                raise FormatError(f"{self.path}: label {name} of row {row} is {values[~right][0]}, not {allowed}")

    @abstractmethod
    def close(self) -> None:
        """Close the files. The counts stay; reading examples then raises ValueError."""

    def __len__(self) -> int:
        return self.examples

    @overload
    def __getitem__(self, index: int) -> tuple[Array, Any]: ...
    @overload
    def __getitem__(self, index: slice[Any, Any, Any]) -> tuple[Array, Array]: ...
    def __getitem__(self, index: int | slice[Any, Any, Any]) -> tuple[Array, Any]:
        if isinstance(index, slice):
            rows = range(self.examples)[index]
            if rows.step > 0:
                return self._unpacked_rows(rows)
            planes, labels = self._unpacked_rows(rows[::-1])
            return planes[::-1], labels[::-1]
        row = operator.index(index)
        if not -self.examples <= row < self.examples:
            raise IndexError(f"example {row} of {self.path}, which has {self.examples:,}")
        row %= self.examples
        planes, labels = self._unpacked_rows(range(row, row + 1))
        return planes[0], labels[0] if labels[0].shape else labels[0].item()

    def __iter__(self) -> Iterator[tuple[Array, Any]]:
        size = self._block_rows
        for start in range(0, self.examples, size):
            planes, labels = self[start : start + size]
            yield from zip(planes, labels.tolist() if labels.ndim == 1 else labels)

    def to_numpy(self) -> tuple[Array, Array]:
        """Return the whole data set: planes [N, C, H, W] and the first label [N, ...]."""
        return self[:]

    def batches(self, size: int = 1024) -> Iterator[Batch]:
        """Yield the whole data set, `size` rows at a time."""
        for start in range(0, self.examples, size):
            yield self.read(start, min(start + size, self.examples))

    def run_starts(self) -> Indices:
        """Return the first row of each run, [K] int64; rows of a run are cheapest to read together."""
        return np.arange(0, self.examples, RUN_ROWS)

    @property
    def _block_rows(self) -> int:
        return max(_BLOCK_BYTES // (prod(self.layout.shape) * self.layout.plane_dtype.itemsize), 1)

    def _unpacked_rows(self, rows: range) -> tuple[Array, Array]:
        label = self.layout.labels[0]
        planes = np.empty((len(rows), *self.layout.shape), self.layout.plane_dtype)
        labels = np.empty((len(rows), *label.shape), label.np_dtype)
        step = max(self._block_rows // rows.step, 1)
        for k in range(0, len(rows), step):
            block = rows[k : k + step]
            batch = self.read(block[0], block[-1] + 1)
            planes[k : k + len(block)] = batch.unpack_planes(self.layout)[:: rows.step]
            labels[k : k + len(block)] = batch.labels[label.name][:: rows.step]
        return planes, labels

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        plane_set = printable(self.layout.plane_set)
        return f"<{type(self).__name__} {str(self.path)!r}: {self.examples:,} examples of {plane_set}>"
