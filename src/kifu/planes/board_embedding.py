"""The interface and common part of all encoders, and the embedding of boards in the frame of the planes."""

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
from kifu.go.replay import GameMoves, ReplayArrays, game_moves, replay_arrays
from kifu.kernel import inline_kernel, kernel
from kifu.planes.context import frame_points
from kifu.planes.registry import PlaneSet
from kifu.point import POINT_MASK, symmetries
from kifu.records.game import Game

_FLAGS = 0xFFFF ^ POINT_MASK

Indices = npt.NDArray[np.int64]


class PositionRequest(NamedTuple):
    """A choice of positions to encode, of some games.

    Attributes:
        game_index: [R] int64, the games to replay.
        symmetry: [R] uint8, the symmetry of the board (`kifu.point.symmetries`) under which each of them is encoded.
        slot_of_move: int64, for each move of the first of these games, then of the second, and so on: the slot of the
            output for the position before the move, or -1. No slot may be used twice; this is not checked.
    """

    games: Any
    game_index: Indices
    symmetry: npt.NDArray[np.uint8]
    slot_of_move: Indices


class BoardEmbedding(NamedTuple):
    """The embedding of a board of width x height in a frame of n points.

    Attributes:
        table: [8, width * height + 1] int64: the point of the frame for each point of the board, by symmetry.
        label_of: [n + 1] int16: the label of each point of the frame, see `kifu.planes.encoder.Encoder.encode`.
    """

    width: int
    height: int
    table: npt.NDArray[np.int64]
    label_of: npt.NDArray[np.int16]


@functools.cache
def embed_board(
    width: int, height: int, transposed: bool, frame_width: int, frame_height: int, padding: int
) -> BoardEmbedding:
    """Return the embedding of boards that have the given size after their symmetry is applied.

    Args:
        transposed: Whether the symmetry is one of 4 to 7; only those rows of the table are valid then, else only the
            first four.
        padding: Distance of the board from the upper left corner of the frame.
    """
    points = frame_points(width, height, frame_width, frame_height, padding)
    table = points[symmetries(height, width) if transposed else symmetries(width, height)]
    columns, lines = frame_width - 2 * padding, frame_height - 2 * padding
    label_of = np.full(frame_width * frame_height + 1, columns * lines, np.int16)
    y, x = np.divmod(points[:-1], frame_width)
    label_of[points[:-1]] = (y - padding) * columns + x - padding
    return BoardEmbedding(width, height, table, label_of)


class EncodeTask(NamedTuple):
    """The arguments of encoding kernels: a `PositionRequest`, its outputs and scratch memory.

    Attributes:
        game_index: [R] int64.
        symmetry: [R] uint8.
        slot_of_move: int64, see `PositionRequest`.
        slot_offset: [R + 1] int64, where the entries of each game begin in `slot_of_move`.
        moves: uint16, scratch for the moves of one game.
        setup: uint16, scratch for the setup of one game.
        out: [slots, C, bytes] uint8 or [slots, C, points] float32, filled with planes.
        label: [slots] int16, filled with labels.
        drop: [R] uint8, filled with why a game cannot be replayed to its end, or KEPT.
        ply: [R] int32, filled with how many moves were replayed.
    """

    games: ReplayArrays
    game_index: Indices
    symmetry: npt.NDArray[np.uint8]
    slot_of_move: Indices
    slot_offset: Indices
    moves: npt.NDArray[np.uint16]
    setup: npt.NDArray[np.uint16]
    out: npt.NDArray[Any]
    label: npt.NDArray[np.int16]
    drop: npt.NDArray[np.uint8]
    ply: npt.NDArray[np.int32]


@kernel
def map_points(words: Any, table: Any, out: Any) -> None:
    """Fill out with moves or setup whose points are mapped by a row of `BoardEmbedding.table`."""
    for i in range(words.shape[0]):
        word = words[i]
        p = np.int64(word & POINT_MASK)
        out[i] = (word & _FLAGS) | table[p] if p < table.shape[0] else word | POINT_MASK


@inline_kernel
def map_game(game: GameMoves, table: Any, moves: Any, setup: Any) -> GameMoves:
    """Return a game with its points mapped by a row of `BoardEmbedding.table`, in the buffers moves and setup."""
    map_points(game.moves, table, moves)
    map_points(game.setup, table, setup)
    return GameMoves(moves[: game.moves.shape[0]], setup[: game.setup.shape[0]], game.setup_ply)


@inline_kernel
def embed_game(task: EncodeTask, r: Any, table: Any) -> GameMoves:
    """Return the game game_index[r] in the frame and under its symmetry, in the task's scratch memory."""
    game = game_moves(task.games, task.game_index[r])
    return map_game(game, table[task.symmetry[r]], task.moves, task.setup)


class GameContext(NamedTuple):
    """The data that an encoder needs about each of R games besides its moves and setup.

    Attributes:
        values: [R, ...], in the form that the encoder's `draw` takes.
        drop: [R] uint8 of `DropReason`: why a game cannot be encoded, or KEPT.
    """

    values: npt.NDArray[Any]
    drop: npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class FrameEncoder(ABC):
    """The interface and common part of all encoders.

    Attributes:
        width: Of the board, in 1..25.
        height: Of the board, in 1..25.
        pad: Whether smaller boards are accepted too, embedded in the upper left corner.
    """

    plane_set: PlaneSet
    width: int
    height: int
    pad: bool

    MIN_SIDE: ClassVar[int] = 1
    """The smallest side of a board."""

    RECORD_RULES: ClassVar[bool] = True
    """True if games are replayed under `kifu.go.rules.RECORD_RULES`, so that the catalogue's n_legal holds."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns of the catalogue that `context` reads."""

    @abstractmethod
    def context(self, batch: pa.RecordBatch) -> GameContext:
        """Return what `draw` needs about each game of a batch, which has at least `columns`."""

    @abstractmethod
    def new_scratch(self) -> Any:
        """Return scratch memory for one thread."""

    @abstractmethod
    def draw(
        self,
        scratch: Any,
        request: PositionRequest,
        out: npt.NDArray[Any],
        labels: Mapping[str, npt.NDArray[Any]],
        context: npt.NDArray[Any],
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """Encode positions, as the `encode` method of the class does, into planes and labels by name.

        Args:
            scratch: From `new_scratch`.
            out: The planes, see `new_out`.
            labels: Arrays [slots, ...] by name: "move", and "globals" if the plane set has numbers besides its planes.
            context: `GameContext.values` of these games.

        Returns:
            drop [R] uint8 and ply [R] int32 of each game.
        """

    @abstractmethod
    def encode_game(self, game: Game) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
        """Return the planes and next moves of one game, see `kifu.encode`."""

    @property
    def planes(self) -> int:
        """The number of planes."""
        return self.plane_set.planes

    @property
    def shape(self) -> tuple[int, int, int]:
        """(planes, rows, columns) of one position; larger than the board if the plane set has padding."""
        padding = 2 * self.plane_set.padding
        return self.planes, self.height + padding, self.width + padding

    @property
    def points(self) -> int:
        """The number of points of a plane."""
        return self.shape[1] * self.shape[2]

    @property
    def bytes(self) -> int:
        """The number of bytes of a packed plane."""
        return (self.points + 7) // 8

    def new_out(self, slots: int) -> npt.NDArray[Any]:
        """Return an uninitialized output array: [slots, C, bytes] uint8, or [slots, C, points] float32 if real."""
        if self.plane_set.real:
            return np.empty((slots, self.planes, self.points), np.float32)
        return np.empty((slots, self.planes, self.bytes), np.uint8)

    @property
    def _frame(self) -> tuple[int, int, int]:
        """(width, height, padding) of the frame."""
        return self.shape[2], self.shape[1], self.plane_set.padding

    def _plan(
        self, request: PositionRequest, out: npt.NDArray[Any], label: npt.NDArray[np.int16]
    ) -> tuple[EncodeTask, list[tuple[BoardEmbedding, Indices]]]:
        """Return the task of a request, and the embedding and subset of its games for each size of board that fits.

        The task's `drop` is WRONG_SIZE until a kernel fills it, and stays so for games that do not fit.
        """
        games, index, symmetry = request.games, request.game_index, request.symmetry
        if len(index) and index.min() < 0:
            raise ValueError(f"game_index must be >= 0, got {index.min()}")
        plies = games.move_offset[index + 1] - games.move_offset[index]
        slot_offset = np.zeros(len(index) + 1, np.int64)
        np.cumsum(plies, out=slot_offset[1:])
        self._check(request, int(slot_offset[-1]), out, label)
        stones = games.setup_offset[index + 1] - games.setup_offset[index]
        sizes = games.width[index].astype(np.int64) << 9 | games.height[index].astype(np.int64) << 1 | symmetry >> 2
        parts = []
        for key in np.unique(sizes).tolist():
            width, height, transposed = key >> 9, key >> 1 & 0xFF, bool(key & 1)
            if transposed:
                width, height = height, width
            if self._fits(width, height):
                parts.append((embed_board(width, height, transposed, *self._frame), np.flatnonzero(sizes == key)))
        task = EncodeTask(
            games=replay_arrays(games),
            game_index=index,
            symmetry=symmetry,
            slot_of_move=request.slot_of_move,
            slot_offset=slot_offset,
            moves=np.empty(plies.max(initial=0), np.uint16),
            setup=np.empty(stones.max(initial=0), np.uint16),
            out=out,
            label=label,
            drop=np.full(len(index), DropReason.WRONG_SIZE, np.uint8),
            ply=np.zeros(len(index), np.int32),
        )
        return task, parts

    def _fits(self, width: int, height: int) -> bool:
        """Return whether boards that have this size after their symmetry is applied are accepted."""
        if (width, height) == (self.width, self.height):
            return True
        return self.pad and self.MIN_SIDE <= width <= self.width and self.MIN_SIDE <= height <= self.height

    def _check(self, request: PositionRequest, moves: int, out: npt.NDArray[Any], label: npt.NDArray[np.int16]) -> None:
        slot_of_move, games = request.slot_of_move, len(request.game_index)
        if len(slot_of_move) != moves:
            raise ValueError(f"slot_of_move must have an entry for each of the {moves} moves, got {len(slot_of_move)}")
        if len(request.symmetry) != games or request.symmetry.max(initial=0) > 7:
            raise ValueError(f"symmetry must be {games} numbers from 0 to 7")
        expected = self.new_out(0)
        if out.shape[1:] != expected.shape[1:] or out.dtype != expected.dtype:
            shape = ", ".join(map(str, expected.shape[1:]))
            raise ValueError(f"out must be {expected.dtype} [slots, {shape}], got {out.dtype} {out.shape}")
        slots = min(len(out), len(label))
        if slot_of_move.max(initial=-1) >= slots:
            raise ValueError(f"slots must be below {slots}, got {slot_of_move.max()}")
