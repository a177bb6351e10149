"""What all encoders of games have in common: which games fit, and how their boards lie in the frame of the planes."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.errors import DropReason
from kifu.go.replay import GamesLike
from kifu.kernel import kernel
from kifu.planes.context import frame_points
from kifu.planes.registry import PlaneSet
from kifu.point import POINT_MASK, symmetries
from kifu.records.game import Game

_BITS = 0xFFFF ^ POINT_MASK

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BoardEmbedding:
    """A board of width x height in a frame of n points.

    table: [8, points + 1] int64: where each point of the game's board is in the frame under each symmetry.
    label_of: [n + 1] int16: each point of the frame as a label (`Encoder.encode`).
    """

    width: int
    height: int
    table: npt.NDArray[np.int64]
    label_of: npt.NDArray[np.int16]


@functools.cache
def make_placing(
    width: int, height: int, turned: bool, frame_width: int, frame_height: int, rim: int
) -> BoardEmbedding:
    """How boards that are of that size under their symmetry are laid in, `rim` from the upper left corner.

    turned: whether that is one of the symmetries 4 to 7; only those, else only 0 to 3, are asked for then.
    """
    points = frame_points(width, height, frame_width, frame_height, rim)
    own = symmetries(height, width) if turned else symmetries(width, height)
    table = points[own]
    columns, lines = frame_width - 2 * rim, frame_height - 2 * rim
    label_of = np.full(frame_width * frame_height + 1, columns * lines, np.int16)
    y, x = np.divmod(points[:-1], frame_width)
    label_of[points[:-1]] = (y - rim) * columns + x - rim
    return BoardEmbedding(width, height, table, label_of)


@dataclass(frozen=True, slots=True)
class EmbeddingPlan:
    """What one call of an encoder has to do, by the size of games as they look under their symmetry.

    parts: how the games of one size are laid in, and which of the R rows they are.  take_offset: [R + 1] int64.
    placed: two buffers of uint16 for one game's moves and setup.
    drop: [R] uint8 and ply: [R] int32, what the encoder returns: so far Drop.WRONG_SIZE, for games that do not fit.
    """

    parts: list[tuple[BoardEmbedding, Rows]]
    take_offset: Rows
    placed: tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]
    drop: npt.NDArray[np.uint8]
    ply: npt.NDArray[np.int32]


class GameContext(NamedTuple):
    """What an encoder needs about each of R games beside its moves and setup.

    Attributes:
        values: [R, ...], in the form that the encoder's `draw` takes.
        drop: [R] uint8 of `DropReason`: why a game cannot be encoded, or KEPT.
    """

    values: npt.NDArray[Any]
    drop: npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class FrameEncoder(ABC):
    """The interface and the common part of all encoders: plane set, size, output arrays."""

    plane_set: PlaneSet
    width: int
    height: int
    pad: bool
    """Whether smaller boards are taken too, laid into the upper left corner."""

    LEAST: ClassVar[int] = 1
    """Of a board's sides."""

    RECORD_RULES: ClassVar[bool] = True
    """Whether games are replayed under `kifu.go.rules.RECORDS`, so that the catalogue's n_legal holds."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns of the catalogue that `context` reads."""

    @abstractmethod
    def context(self, batch: pa.RecordBatch) -> GameContext:
        """Return what `draw` needs about each game of a batch, which has at least `columns`."""

    @abstractmethod
    def new_desk(self) -> Any:
        """Return scratch memory for one thread."""

    @abstractmethod
    def draw(
        self,
        desk: Any,
        games: Any,
        rows: Rows,
        symmetry: npt.NDArray[np.uint8],
        take: Rows,
        out: npt.NDArray[Any],
        labels: Mapping[str, npt.NDArray[Any]],
        context: npt.NDArray[Any],
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """Encode positions as the `encode` method of the class does, into planes and labels by name.

        Args:
            labels: arrays [slots, ...] by name: "move", and "globals" if the plane set has numbers beside its planes.
            context: `GameContext.values` of these games.

        Returns:
            drop [R] uint8 and ply [R] int32 of each game.
        """

    @abstractmethod
    def encode_game(self, game: Game) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
        """Return the planes and next moves of one game, see `kifu.encode`."""

    @property
    def planes(self) -> int:
        """How many planes there are."""
        return self.plane_set.planes

    @property
    def shape(self) -> tuple[int, int, int]:
        """(planes, rows, columns) of one position; larger than the board if the set has a rim."""
        rim = 2 * self.plane_set.rim
        return self.planes, self.height + rim, self.width + rim

    @property
    def points(self) -> int:
        """How many points a plane has."""
        return self.shape[1] * self.shape[2]

    @property
    def bytes(self) -> int:
        """How many bytes one packed plane takes."""
        return (self.points + 7) // 8

    def new_out(self, slots: int) -> npt.NDArray[Any]:
        """An array for `encode` to fill, not initialised: [slots, C, bytes] uint8, or [slots, C, points] float32."""
        if self.plane_set.real:
            return np.empty((slots, self.planes, self.points), np.float32)
        return np.empty((slots, self.planes, self.bytes), np.uint8)

    @property
    def _frame(self) -> tuple[int, int, int]:
        """(width, height, rim) of what planes are drawn in."""
        return self.shape[2], self.shape[1], self.plane_set.rim

    def _plan(
        self,
        games: GamesLike,
        rows: Rows,
        symmetry: npt.NDArray[np.uint8],
        take: Rows,
        out: npt.NDArray[Any],
        label: npt.NDArray[np.int16],
    ) -> EmbeddingPlan:
        """Raises ValueError if the arrays do not fit each other."""
        plies = games.move_offset[rows + 1] - games.move_offset[rows]
        take_offset = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(plies, out=take_offset[1:])
        self._check(take, take_offset[-1], rows, symmetry, out, label)
        stones = games.setup_offset[rows + 1] - games.setup_offset[rows]
        sizes = games.width[rows].astype(np.int64) << 9 | games.height[rows].astype(np.int64) << 1 | symmetry >> 2
        parts = []
        for key in np.unique(sizes).tolist():
            width, height, turned = key >> 9, key >> 1 & 0xFF, bool(key & 1)
            if turned:
                width, height = height, width
            if self._fits(width, height):
                parts.append((make_placing(width, height, turned, *self._frame), np.flatnonzero(sizes == key)))
        return EmbeddingPlan(
            parts=parts,
            take_offset=take_offset,
            placed=(np.empty(plies.max(initial=0), np.uint16), np.empty(stones.max(initial=0), np.uint16)),
            drop=np.full(len(rows), DropReason.WRONG_SIZE, np.uint8),
            ply=np.zeros(len(rows), np.int32),
        )

    def _fits(self, width: int, height: int) -> bool:
        """Whether games that are of that size under their symmetry are taken."""
        if (width, height) == (self.width, self.height):
            return True
        return self.pad and self.LEAST <= width <= self.width and self.LEAST <= height <= self.height

    def _check(
        self,
        take: Rows,
        moves: int,
        rows: Rows,
        symmetry: npt.NDArray[np.uint8],
        out: npt.NDArray[Any],
        label: npt.NDArray[np.int16],
    ) -> None:
        if len(take) != moves:
            raise ValueError(f"take has {len(take)} entries, and the games {moves} moves")
        if len(symmetry) != len(rows) or symmetry.max(initial=0) > 7:
            raise ValueError(f"symmetry has to be {len(rows)} numbers from 0 to 7")
        wanted = self.new_out(0)
        if out.shape[1:] != wanted.shape[1:] or out.dtype != wanted.dtype:
            raise ValueError(f"out is {out.dtype} {out.shape}, not {wanted.dtype} [slots, *{wanted.shape[1:]}]")
        slots = min(len(out), len(label))
        if take.max(initial=-1) >= slots:
            raise ValueError(f"slot {take.max()} is not below {slots}")


@kernel
def place(words: Any, start: Any, stop: Any, table: Any, out: Any) -> None:
    """Fills out from words[start:stop] with the points of moves or setup moved as the table says."""
    for i in range(start, stop):
        word = words[i]
        p = np.int64(word & POINT_MASK)
        out[i - start] = (word & _BITS) | table[p] if p < table.shape[0] else word | POINT_MASK
