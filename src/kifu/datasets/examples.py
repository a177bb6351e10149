"""Examples to learn from, whatever file holds them: their layout, batches of them, and what writers and readers share.

One example is some planes and some labels of one position. Planes travel as bits (`Batch.planes`), an eighth of what
they take as bytes; each format has a module of its own with its writer and its reader.
"""

from __future__ import annotations

import json
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, overload

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from kifu.config import one_line
from kifu.errors import FormatError
from kifu.planes.unpack import unpack
from kifu.point import MAX_SIZE

if TYPE_CHECKING:
    from kifu.execution.serialization import Parcel

_BLOCK_BYTES = 1 << 20
"""Planes unpacked at a time where examples are drawn one by one, or with gaps between them."""

_RESERVED = ("planes", "features", "labels", "game", "ply")

_Size = Annotated[int, Field(ge=1, le=MAX_SIZE)]
_Text = Annotated[str, Field(max_length=4000), AfterValidator(one_line)]
_Name = Annotated[str, Field(pattern=r"^[A-Za-z]\w{0,40}$")]


_STONES = re.compile(r"(own|other|opponent's|black|white)(?: stones)?(?: now)?(?:, \d\+? libert(?:y|ies))?")
"""Names of planes that mark stones."""


@dataclass(frozen=True, slots=True)
class LabelSpec:
    """One thing that a network may learn to tell of a position."""

    name: _Name
    dtype: Literal["int8", "int16", "int32", "float32"]
    shape: tuple[Annotated[int, Field(ge=1, le=4096)], ...]
    """Of one example's value; () is a number."""
    meaning: _Text

    @property
    def kind(self) -> np.dtype[Any]:
        """As numpy writes it, lowest byte first."""
        return np.dtype(self.dtype).newbyteorder("<")

    @property
    def bytes(self) -> int:
        """Size of one example's value."""
        return prod(self.shape) * self.kind.itemsize


@dataclass(frozen=True, slots=True)
class Layout:
    """What all examples of a data set have in common."""

    plane_set: _Text
    """With its version, or the features it is composed of."""
    plane_names: Annotated[tuple[_Text, ...], Field(min_length=1, max_length=1000)]
    real: bool
    """Whether planes hold any numbers, not only 0 and 1."""
    width: _Size
    height: _Size
    """Of the board, whose points labels name."""
    rim: Annotated[int, Field(ge=0, le=5)]
    """How many rows and columns planes have around the board, on each side."""
    first_row: Literal["top", "bottom"]
    """Which row of the board is row 0 of the planes, and of all labels that are points."""
    labels: Annotated[tuple[LabelSpec, ...], Field(min_length=1, max_length=50)]
    """The first one is what `Dataset` gives with the planes."""

    def __post_init__(self) -> None:
        """Raises ValueError if two labels have one name, or one that files and columns have besides."""
        names = [label.name for label in self.labels]
        if len({*names, *_RESERVED}) != len(names) + len(_RESERVED):
            raise ValueError(f"labels cannot be named {', '.join(names)}"[:200])

    @property
    def planes(self) -> int:
        """How many planes an example has."""
        return len(self.plane_names)

    @property
    def points(self) -> int:
        """How many points a plane has."""
        return (self.width + 2 * self.rim) * (self.height + 2 * self.rim)

    def stone_planes(self) -> list[tuple[int, str]]:
        """Which planes mark stones, and whose: "own" (the mover's), "opp", "black" or "white"."""
        found = ((k, _STONES.fullmatch(name)) for k, name in enumerate(self.plane_names))
        return [(k, {"other": "opp", "opponent's": "opp"}.get(side[1], side[1])) for k, side in found if side]

    @property
    def no_point(self) -> int:
        """What a label that is a point says for a pass."""
        return self.width * self.height

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of an example's planes: (C, H, W)."""
        return self.planes, self.height + 2 * self.rim, self.width + 2 * self.rim

    @property
    def plane_kind(self) -> np.dtype[Any]:
        """Of planes ready for use: uint8, or float32 for real ones."""
        return np.dtype("<f4" if self.real else "u1")

    @property
    def stored(self) -> tuple[int, ...]:
        """Shape of an example in `Batch.planes`."""
        return (self.planes, self.points if self.real else (self.points + 7) // 8)

    @property
    def stored_bytes(self) -> int:
        """Size of an example in `Batch.planes`."""
        return prod(self.stored) * self.plane_kind.itemsize

    def flipped(self, points: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Labels that are points, for rows counted from the other side; a pass stays one."""
        y, x = np.divmod(points, self.width)
        return np.where(points == self.no_point, points, (self.height - 1 - y) * self.width + x)

    def to_json(self) -> str:
        """One line of JSON, which `layout_of` reads."""
        return json.dumps(asdict(self), separators=(",", ":"))


_LAYOUT = TypeAdapter(Layout)


def parse_layout(text: str | bytes) -> Layout:
    """The layout that `Layout.to_json` wrote. Raises FormatError."""
    try:
        return _LAYOUT.validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise FormatError(f"no layout of examples: {'.'.join(map(str, first['loc']))[:80]} {first['msg']}") from None


class Runs(NamedTuple):
    """The games that the rows of a batch come from, where a game's rows stand together: one entry a game, in order."""

    archive: Sequence[str]
    member: Sequence[str]
    """The game's name in its archive."""
    rows: npt.NDArray[np.int64]
    """How many rows are its; [K], adding up to the batch."""


@dataclass(frozen=True, slots=True)
class Batch:
    """B examples.

    planes: [B, C, ceil(H W / 8)] uint8, each plane's bits, the highest bit first, in the order of its points, unused
    bits 0; or [B, C, H W] float32 if the layout says real. labels: by name, [B, ...]. game: [B] uint64, the game's id
    in the catalogue. ply: [B] int32, how many moves of it, passes too, come before the position. Where a file does not
    tell of game and ply, they are 0 and -1.
    """

    planes: npt.NDArray[Any]
    labels: Mapping[str, npt.NDArray[Any]]
    game: npt.NDArray[np.uint64]
    ply: npt.NDArray[np.int32]
    runs: Runs | None = field(default=None, compare=False)
    """Only on its way to a writer."""

    def __len__(self) -> int:
        return len(self.planes)

    def ready(self, layout: Layout) -> npt.NDArray[Any]:
        """The planes as [B, C, H, W] uint8 of 0 and 1, or float32."""
        if layout.real:
            return self.planes.reshape(len(self), *layout.shape)
        out = np.empty((len(self), *layout.shape), np.uint8)
        unpack(self.planes, out)
        return out

    def part(self, start: int, stop: int) -> Batch:
        """Rows start to stop - 1, without runs."""
        labels = {name: values[start:stop] for name, values in self.labels.items()}
        return Batch(self.planes[start:stop], labels, self.game[start:stop], self.ply[start:stop])

    def pick(self, rows: npt.NDArray[np.int64]) -> Batch:
        """These rows in this order, without runs."""
        labels = {name: values[rows] for name, values in self.labels.items()}
        return Batch(self.planes[rows], labels, self.game[rows], self.ply[rows])

    def with_runs(self, runs: Runs) -> Batch:
        """The same rows, with their games told."""
        return replace(self, runs=runs)

    def pack(self) -> Parcel:
        """The same as it travels between processes; `unpack` is the reverse."""
        parcel: Parcel = {"planes": self.planes, "game": self.game, "ply": self.ply}
        parcel |= {f"label {name}": values for name, values in self.labels.items()}
        if self.runs is not None:
            parcel |= {"archives": list(self.runs.archive), "members": list(self.runs.member), "rows": self.runs.rows}
        return parcel

    @classmethod
    def unpack(cls, parcel: Parcel) -> Batch:
        """What `pack` gave."""
        labels = {key.removeprefix("label "): values for key, values in parcel.items() if key.startswith("label ")}
        runs = Runs(parcel["archives"], parcel["members"], parcel["rows"]) if "rows" in parcel else None
        return cls(parcel["planes"], labels, parcel["game"], parcel["ply"], runs)


def store(planes: npt.NDArray[Any], layout: Layout) -> npt.NDArray[Any]:
    """Planes [B, C, H, W] as `Batch.planes` has them. Any value but 0 counts as 1 unless the layout says real."""
    flat = planes.reshape(len(planes), layout.planes, layout.points)
    return flat.astype(np.float32, copy=False) if layout.real else np.packbits(flat, axis=-1)


def join(batches: Sequence[Batch], layout: Layout) -> Batch:
    """The rows of all of them, without runs."""
    empty = Batch(
        np.empty((0, *layout.stored), layout.plane_kind),
        {label.name: np.empty((0, *label.shape), label.kind) for label in layout.labels},
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


_RUN = 1024
"""Rows of a run, where the format suggests no other length."""


class Dataset(ABC):
    """A data set, opened and checked; `kifu.open` makes one, whatever its format. A context manager.

    A sequence: `examples[i]` is (planes [C, H, W] uint8 of 0 and 1, or float32, and the first label, a number, or an
    array if it has a shape); a slice is (planes [n, C, H, W], labels [n, ...]); iteration yields what `examples[i]`
    gives. What is handed out are copies, free to be changed. `read` and `batches` give all labels, and where each row
    comes from. A file must not change while it is open.
    """

    path: Path
    layout: Layout
    examples: int
    about: Mapping[str, Any]
    """What its writer said of it; empty where the format has no room for that."""

    @abstractmethod
    def read(self, start: int, stop: int) -> Batch:
        """Rows start to stop - 1, as they are stored. Raises FormatError if they are damaged."""

    @abstractmethod
    def close(self) -> None:
        """Gives the file back. The counts stay; reading examples then raises ValueError."""

    def __len__(self) -> int:
        return self.examples

    @overload
    def __getitem__(self, index: int) -> tuple[npt.NDArray[Any], Any]: ...
    @overload
    def __getitem__(self, index: slice[Any, Any, Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]: ...
    def __getitem__(self, index: int | slice[Any, Any, Any]) -> tuple[npt.NDArray[Any], Any]:
        if isinstance(index, slice):
            rows = range(self.examples)[index]
            if rows.step > 0:
                return self._ready(rows)
            planes, labels = self._ready(rows[::-1])
            return planes[::-1], labels[::-1]
        row = operator.index(index)
        if not -self.examples <= row < self.examples:
            raise IndexError(f"example {row} of {self.path}, which has {self.examples:,}")
        row %= self.examples
        planes, labels = self._ready(range(row, row + 1))
        return planes[0], labels[0] if labels[0].shape else labels[0].item()

    def __iter__(self) -> Iterator[tuple[npt.NDArray[Any], Any]]:
        size = self._block
        for start in range(0, self.examples, size):
            planes, labels = self[start : start + size]
            yield from zip(planes, labels.tolist() if labels.ndim == 1 else labels)

    def to_numpy(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """All of it: planes [N, C, H, W] and the first label [N, ...]."""
        return self[:]

    def batches(self, size: int = 1024) -> Iterator[Batch]:
        """All of it, `size` rows at a time."""
        for start in range(0, self.examples, size):
            yield self.read(start, min(start + size, self.examples))

    def run_starts(self) -> npt.NDArray[np.int64]:
        """Return the first row of each run, [K] int64: rows of a run are cheapest to read together."""
        return np.arange(0, self.examples, _RUN)

    @property
    def _block(self) -> int:
        return max(_BLOCK_BYTES // (prod(self.layout.shape) * self.layout.plane_kind.itemsize), 1)

    def _ready(self, rows: range) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Those examples' planes and first label. rows: ascending, within the file."""
        label = self.layout.labels[0]
        planes = np.empty((len(rows), *self.layout.shape), self.layout.plane_kind)
        labels = np.empty((len(rows), *label.shape), label.kind)
        for k in range(0, len(rows), max(self._block // rows.step, 1)):
            some = rows[k : k + max(self._block // rows.step, 1)]
            batch = self.read(some[0], some[-1] + 1)
            planes[k : k + len(some)] = batch.ready(self.layout)[:: rows.step]
            labels[k : k + len(some)] = batch.labels[label.name][:: rows.step]
        return planes, labels

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.path)!r}: {self.examples:,} examples of {self.layout.plane_set}>"
