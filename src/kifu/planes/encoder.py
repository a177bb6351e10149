"""Encoders of plane sets: positions of many games as planes, in a frame in which boards are embedded.

An `Encoder` replays each game under a symmetry that the caller chooses and writes the chosen positions directly to the
caller's arrays, so augmentation is free. `kifu.encode` encodes a single game.

The features of a plane set are chained into one inlined function, which a kernel made for that set calls: encoding then
costs no call per feature, and LLVM optimizes all of them together. The kernel is a closure over these functions; its
cache entry is keyed on the code of all of them (`kifu.kernel`), so a changed feature is compiled anew wherever it is
defined.
"""

from __future__ import annotations

import functools
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.arrays import Array, Bytes, Floats, Hashes, Indices, Ints, MoveArrays
from kifu.corpus.schema import to_numpy
from kifu.errors import DropReason, GameError, IllegalMove, RecipeError
from kifu.go.positions import Positions
from kifu.go.replay import GameMoves, ReplayArrays, colour_of, game_moves, replay_arrays, set_up
from kifu.go.rules import RECORD_RULES, History, make_move, new_history
from kifu.go.state import ONE, ZERO, State, clear, has_chain_without_liberties, last_point
from kifu.kernel import inline_kernel, kernel
from kifu.planes import kgsgo
from kifu.planes.context import NEVER, PAST, PositionContext, context_at, copy_stones, frame_points, new_context
from kifu.planes.features import Feature, Fill, Prepare
from kifu.planes.packing import Labels, pack_planes, unpack
from kifu.planes.registry import PlaneSet, find_plane_set
from kifu.point import MAX_SIZE, POINT_MASK, check_size, symmetries
from kifu.records.game import Game

_FLAGS = 0xFFFF ^ POINT_MASK


class BoardEmbedding(NamedTuple):
    """The embedding of a board of width x height in a frame of n points."""

    width: int
    height: int
    # [8, width * height + 1]: the point of the frame for each point of the board, by symmetry
    table: Indices
    # [n + 1]: the label of each point of the frame, see `kifu.planes.encoder.Encoder.encode`
    label_of: npt.NDArray[np.int16]


@functools.cache
def embed_board(
    width: int, height: int, transposed: bool, frame_width: int, frame_height: int, padding: int
) -> BoardEmbedding:
    """Return the embedding of boards that have the given size after their symmetry is applied.

    The board lies `padding` from the upper left corner of the frame. Only the rows of the table for the symmetries 4 to
    7 are valid if `transposed`, else only the first four.
    """
    points = frame_points(width, height, frame_width, frame_height, padding)
    table = points[symmetries(height, width) if transposed else symmetries(width, height)]
    columns, lines = frame_width - 2 * padding, frame_height - 2 * padding
    label_of = np.full(frame_width * frame_height + 1, columns * lines, np.int16)
    y, x = np.divmod(points[:-1], frame_width)
    label_of[points[:-1]] = (y - padding) * columns + x - padding
    return BoardEmbedding(width, height, table, label_of)


class EncodeTask(NamedTuple):
    """The arguments of encoding kernels: those of `FrameEncoder.replay`, and scratch memory."""

    games: ReplayArrays
    game_index: Indices  # [R] int64
    symmetry: Bytes  # [R]
    slot_of_move: Indices  # int64
    slot_offset: Indices  # [R + 1] int64, where the entries of each game begin in `slot_of_move`
    moves: npt.NDArray[np.uint16]  # scratch for the moves of one game
    setup: npt.NDArray[np.uint16]  # scratch for the setup of one game
    out: Array  # [slots, C, bytes] uint8 or [slots, C, points] float32, filled with planes
    label: npt.NDArray[np.int16]  # [slots]: filled with labels
    drop: Bytes  # [R]: filled with why a game cannot be replayed to its end, or KEPT
    ply: Ints  # [R]: filled with how many moves were replayed


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
    """The data that an encoder needs about each of R games besides its moves and setup."""

    values: Array  # [R, ...]: ratings or rules
    drop: Bytes  # [R]: of `DropReason`: why a game cannot be encoded, or KEPT


ContextOf: TypeAlias = Callable[[Indices], GameContext]
"""Returns the context of some games, by their indices."""


def fixed_context(values: Array) -> ContextOf:
    """Return a function that returns the given values [G, ...] of some games, which all can be encoded."""
    return lambda rows: GameContext(values[rows], np.zeros(len(rows), np.uint8))


class Encoded(NamedTuple):
    """B encoded positions.

    Attributes:
        planes: [B, ...] as from `FrameEncoder.new_out`.
        labels: [B, ...] by name as from `FrameEncoder.new_labels`.
        drop: [B] uint8 of `DropReason`: why the game of a position cannot be replayed to its end, or KEPT.
        ply: [B] int32, how many moves of the game of a position were replayed. Later positions are undefined; that at
            this ply is filled if only its next move cannot be played.
    """

    planes: Array
    labels: Mapping[str, Array]
    drop: Bytes
    ply: Ints


@dataclass(frozen=True, slots=True)
class FrameEncoder(ABC):
    """The interface and common part of all encoders. Threads may share one, whose scratch memory grows with them.

    pad: smaller boards are accepted too, embedded in the upper left corner.
    """

    plane_set: PlaneSet
    width: int
    height: int
    pad: bool
    _idle: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

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
        """Return the context of the games of a batch, which has at least `columns`."""

    @abstractmethod
    def _new_scratch(self) -> Any:
        """Return scratch memory for one thread."""

    @abstractmethod
    def _fill(
        self,
        scratch: Any,
        games: Any,
        task: EncodeTask,
        parts: Sequence[tuple[BoardEmbedding, Indices]],
        labels: Mapping[str, Array],
        context: Array,
    ) -> None:
        """Fill the outputs of a task, part by part. Raises ValueError if labels or context do not match."""

    @abstractmethod
    def encode_game(self, game: Game) -> tuple[Array, Ints]:
        """Return the planes and next moves of one game, see `kifu.encode`."""

    def context_of(self, batch: pa.RecordBatch) -> ContextOf:
        """Return a function that returns the context of some games of a batch, which has at least `columns`."""
        return lambda rows: self.context(batch.select(self.columns).take(pa.array(rows)))

    def encode(
        self,
        positions: Positions,
        context: ContextOf,
        out: Array | None = None,
        labels: Mapping[str, Array] | None = None,
        slot: Indices | None = None,
    ) -> Encoded:
        """Encode positions; each game is replayed once under each of its symmetries.

        Args:
            context: Called with the games to replay, [R].
            out: [slots, ...] receives the planes; by default a new array. The positions must be distinct then.
            labels: By name, [slots, ...]: receive the labels.
            slot: [B] the place of each position in `out` and `labels`, by default its index.

        Returns:
            The positions in order. With `out`, its planes and labels are these arrays.
        """
        slots = positions.slots(slot)
        known = context(slots.rows)
        planes = self.new_out(len(positions)) if out is None else out
        values = self.new_labels(len(positions)) if labels is None else labels
        drop, ply = self.replay(
            positions.games, slots.rows, known.values, slots.symmetry, slots.slot_of_move, planes, values
        )
        lacks = known.drop != DropReason.KEPT
        drop, ply = np.where(lacks, known.drop, drop), np.where(lacks, np.int32(0), ply)
        if out is None and slots.shared:
            planes, values = planes[slots.slot], {name: array[slots.slot] for name, array in values.items()}
        return Encoded(planes, values, drop[slots.replay], ply[slots.replay])

    def replay(
        self,
        games: MoveArrays,
        rows: Indices,
        context: Array,
        symmetry: Bytes | None = None,
        slot_of_move: Indices | None = None,
        out: Array | None = None,
        labels: Mapping[str, Array] | None = None,
    ) -> tuple[Bytes, Ints]:
        """Replay the games `rows` [R] to their end, and encode positions on the way.

        Plane sets of features replay under `kifu.go.rules.RECORD_RULES`, KataGo's under the rules of each game, as far
        as KataGo follows it.

        Args:
            context: [R, ...] the `GameContext.values` of these games.
            symmetry: [R] the symmetry (`kifu.point.symmetries`) under which each game is encoded, by default 0.
            slot_of_move: int64, for each move of the first of these games, then of the second, ...: the slot of the
                position before the move, or -1, the default. No slot may be used twice; this is not checked.
            out: See `new_out`: each plane from a byte of its own, the top row of the board first, the first point in
                the highest bit.
            labels: See `new_labels`. "move" is row * width + column of the board without padding (of the larger board,
                if `pad`); a pass is width * height.

        Returns:
            drop [R] uint8 of `DropReason`, and ply [R] int32, how many moves of each game could be played. WRONG_SIZE
            marks games that do not fit, or not under this symmetry. Slots for positions from that ply on are not
            filled, or hold the position before a move that cannot be played.

        Raises:
            ValueError: The arrays do not match.
        """
        if symmetry is None:
            symmetry = np.zeros(len(rows), np.uint8)
        if slot_of_move is None:
            slot_of_move = np.full(int((games.move_offset[rows + 1] - games.move_offset[rows]).sum()), -1)
        out = self.new_out(0) if out is None else out
        labels = self.new_labels(0) if labels is None else labels
        task, parts = self._plan(games, rows, symmetry, slot_of_move, out, labels["move"])
        try:
            scratch = self._idle.pop()
        except IndexError:
            scratch = self._new_scratch()
        self._fill(scratch, games, task, parts, labels, context)
        self._idle.append(scratch)
        return task.drop, task.ply

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

    def new_out(self, slots: int) -> Array:
        """Return an uninitialized output array: [slots, C, bytes] uint8, or [slots, C, points] float32 if real."""
        if self.plane_set.real:
            return np.empty((slots, self.planes, self.points), np.float32)
        return np.empty((slots, self.planes, self.bytes), np.uint8)

    def new_labels(self, slots: int) -> dict[str, Array]:
        """Return uninitialized arrays: "move" [slots] int16, and "globals" [slots, I] float32 (`PlaneSet.inputs`)."""
        inputs = np.empty((slots, len(self.plane_set.inputs)), np.float32)
        return {"move": np.empty(slots, np.int16), "globals": inputs}

    def encode_moves(self, game: Game, context: Array) -> tuple[Array, dict[str, Array], DropReason, int]:
        """Return planes [T, C, H, W] and labels before the moves of a game except passes, and where its replay ends."""
        no_pass = game.moves & POINT_MASK != game.width * game.height
        slots, count = np.where(no_pass, np.cumsum(no_pass) - 1, -1), int(no_pass.sum())
        packed, labels = self.new_out(count), self.new_labels(count)
        drop, ply = self.replay(game.arrays(), np.zeros(1, np.int64), context, None, slots, packed, labels)
        if self.plane_set.real:
            planes = packed.reshape(count, *self.shape)
        else:
            planes = np.empty((count, *self.shape), np.uint8)
            unpack(packed, planes)
        return planes, labels, DropReason(drop[0]), int(ply[0])

    @property
    def _frame(self) -> tuple[int, int, int]:
        """(width, height, padding) of the frame."""
        return self.shape[2], self.shape[1], self.plane_set.padding

    def _plan(
        self,
        games: MoveArrays,
        index: Indices,
        symmetry: Bytes,
        slot_of_move: Indices,
        out: Array,
        label: npt.NDArray[np.int16],
    ) -> tuple[EncodeTask, list[tuple[BoardEmbedding, Indices]]]:
        """Return the task of `replay`, and the embedding and subset of its games for each size of board that fits.

        The task's `drop` is WRONG_SIZE until a kernel fills it, and stays so for games that do not fit.
        """
        if len(index) and index.min() < 0:
            raise ValueError(f"games must be >= 0, got {index.min()}")
        plies = games.move_offset[index + 1] - games.move_offset[index]
        slot_offset = np.zeros(len(index) + 1, np.int64)
        np.cumsum(plies, out=slot_offset[1:])
        self._check(symmetry, len(index), slot_of_move, int(slot_offset[-1]), out, label)
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
            slot_of_move=slot_of_move,
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

    def _check(
        self, symmetry: Bytes, games: int, slot_of_move: Indices, moves: int, out: Array, label: npt.NDArray[np.int16]
    ) -> None:
        if len(slot_of_move) != moves:
            raise ValueError(f"slot_of_move must have an entry for each of the {moves} moves, got {len(slot_of_move)}")
        if len(symmetry) != games or symmetry.max(initial=0) > 7:
            raise ValueError(f"symmetry must be {games} numbers from 0 to 7")
        expected = self.new_out(0)
        if out.shape[1:] != expected.shape[1:] or out.dtype != expected.dtype:
            shape = ", ".join(map(str, expected.shape[1:]))
            raise ValueError(f"out must be {expected.dtype} [slots, {shape}], got {out.dtype} {out.shape}")
        slots = min(len(out), len(label))
        if slot_of_move.max(initial=-1) >= slots:
            raise ValueError(f"slots must be below {slots}, got {slot_of_move.max()}")


# Plane sets of features

_KEPT = int(DropReason.KEPT)
_OFF_BOARD = int(DropReason.OFF_BOARD)
_KO, _SUICIDE = RECORD_RULES.codes


@inline_kernel
def _clear_bits(bits: Any, out: Any) -> None:
    for c in range(bits.shape[0]):
        for i in range(bits.shape[1]):
            bits[c, i] = ZERO


@inline_kernel
def _clear_bits_and_values(bits: Any, out: Any) -> None:
    _clear_bits(bits, out)
    for c in range(out.shape[0]):
        for p in range(out.shape[1]):
            out[c, p] = 0


@inline_kernel
def _add_values(words: Any, bits: Any, out: Any) -> None:
    """Add bits to out [C, points] float32, as ones."""
    for c in range(out.shape[0]):
        for i in range(len(words)):
            word = bits[c, i]
            while word != ZERO:
                out[c, last_point(i, word)] = 1
                word &= word - ONE


@kernel
def _play_move(s: State, history: History, p: Any, c: Any) -> Any:
    # Not inlined, so that it is compiled once and not for each plane set.
    return make_move(s, history, p, c, _KO, _SUICIDE)


def _fill_planes(fill: Fill, first: int, last: int, real: bool) -> Any:
    if real:

        @inline_kernel
        def fill_part(position: PositionContext, bits: Any, out: Any) -> None:
            fill(position, out[first:last])
    else:

        @inline_kernel
        def fill_part(position: PositionContext, bits: Any, out: Any) -> None:
            fill(position, bits[first:last])

    return fill_part


def _in_order(functions: Sequence[Any]) -> Any:
    """Join functions, called in order, as a balanced tree: a chain's links compile with all that they contain."""
    if len(functions) == 1:
        return functions[0]
    first, second = _in_order(functions[: len(functions) // 2]), _in_order(functions[len(functions) // 2 :])

    @inline_kernel
    def both(position: PositionContext, bits: Any, out: Any) -> None:
        first(position, bits, out)
        second(position, bits, out)

    return both


@inline_kernel
def _prepare_nothing(position: PositionContext) -> None:
    pass


def _prepare_all(functions: Sequence[Prepare]) -> Any:
    if not functions:
        return _prepare_nothing
    if len(functions) == 1:
        return functions[0]
    first, last = _prepare_all(functions[:-1]), functions[-1]

    @inline_kernel
    def prepare(position: PositionContext) -> None:
        first(position)
        last(position)

    return prepare


def compile_encoder(features: Sequence[Feature]) -> Any:
    """Return the encoding kernel of a list of features, compiled at its first call and then cached on disk.

    It is called as encode(base, history, task, embedding, subset, rating, bits), with these arguments:
        base: the position context of the games' size.
        history: of any size; the rules have no superko.
        task: see `EncodeTask`.
        embedding: embedding of boards of that size in the frame.
        subset: [K] int64, which of the task's R games are of that size.
        rating: [R, 2] float32, see `PositionContext`.
        bits: [C, W] uint64, scratch.
    """
    real = any(feature.real for feature in features)
    begin = _clear_bits_and_values if real else _clear_bits
    finish = _add_values if real else pack_planes
    prepare = _prepare_all(tuple(dict.fromkeys(use for feature in features for use in feature.uses)))
    parts, first = [], 0
    for feature in features:
        last = first + len(feature.planes)
        parts.append(_fill_planes(feature.fill, first, last, feature.real))
        first = last
    fill = _in_order(parts)

    @kernel
    def encode(
        base: PositionContext, history: History, task: EncodeTask, embedding: BoardEmbedding, subset: Any, rating: Any,
        bits: Any
    ) -> None:  # fmt: skip
        # The loop of `replay_game`, written out: with its three functions taking the position context by value,
        # compiling a plane set took 3.6 s instead of 2.6 s.
        s, past, played = base.s, base.past, base.played
        n = s.neighbours.shape[0]
        for j in range(subset.shape[0]):
            r = subset[j]
            game = embed_game(task, r, embedding.table)
            moves, setup = game.moves, game.setup
            slot_of_move = task.slot_of_move[task.slot_offset[r] : task.slot_offset[r + 1]]
            clear(s)
            any_without_liberties = False
            at, t = np.int64(0), np.int64(0)
            why = _KEPT
            while t < moves.shape[0] and why == _KEPT:
                if at < setup.shape[0] and game.setup_ply[at] <= t:
                    first = at
                    at = set_up(s, game, first, setup.shape[0], t)
                    if at < 0:
                        why = _OFF_BOARD
                        break
                    for i in range(first, at):
                        played[setup[i] & POINT_MASK] = NEVER
                    any_without_liberties = has_chain_without_liberties(s)
                p = np.int64(moves[t] & POINT_MASK)
                c = colour_of(moves[t])
                copy_stones(s, any_without_liberties, past[t & (PAST - 1)])
                slot = slot_of_move[t]
                if slot >= 0 and p <= n:
                    position = context_at(base, c, t, moves, rating[r])
                    out = task.out[slot]
                    prepare(position)
                    begin(bits, out)
                    fill(position, bits, out)
                    finish(s.words, bits, out)
                    task.label[slot] = embedding.label_of[p]
                why = _play_move(s, history, p, c)
                if why == _KEPT:
                    if p < n:
                        played[p] = t
                    t += 1
            task.drop[r] = why
            task.ply[r] = t

    return encode


RATING_COLUMNS = ("black_rating", "white_rating")

CONTEXT_COLUMNS = ("rules", "komi", "komi_text", "handicap", *RATING_COLUMNS)
"""The columns of the catalogue that encoders read (`FrameEncoder.columns`), besides the games themselves."""

_compile = functools.cache(compile_encoder)


@dataclass(frozen=True, slots=True)
class EncoderScratch:
    """Scratch memory of one thread, from `Encoder.new_scratch`. bits: [C, W] uint64."""

    bits: Hashes
    history: History = field(default_factory=lambda: new_history(0))
    contexts: dict[tuple[int, int], PositionContext] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Encoder(FrameEncoder):
    """The encoder of a plane set of features, for boards of one size. It has no state, so threads may share it.

    Raises:
        GameError: For a size that is not in 1..25, less the padding of the plane set.

    Examples:
        >>> from kifu.planes.encoder import find_encoder
        >>> encoder = find_encoder("own+opp+last2", 9, 9)
        >>> encoder.planes, encoder.shape, encoder.bytes
        (4, (4, 9, 9), 11)
    """

    def __post_init__(self) -> None:
        check_size(self.width, self.height)
        most = MAX_SIZE - 2 * self.plane_set.padding
        if max(self.width, self.height) > most:
            size = f"{self.width} x {self.height}"
            raise GameError(f"{self.plane_set.name} pads the board, so its size must be within 1 to {most}, got {size}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of ratings, if the plane set uses them."""
        return RATING_COLUMNS if self.plane_set.needs_ranks else ()

    def context(self, batch: pa.RecordBatch) -> GameContext:
        """Return the ranks of Black and White, [R, 2] float32; zeros if the plane set does not use them."""
        ratings = ratings_of(batch) if self.columns else np.zeros((len(batch), 2), np.float32)
        return GameContext(ratings, np.zeros(len(batch), np.uint8))

    def _new_scratch(self) -> EncoderScratch:
        words = len(new_context(self.width, self.height, *self._frame).s.words)
        return EncoderScratch(np.zeros((self.planes, words), np.uint64))

    def _fill(
        self,
        scratch: EncoderScratch,
        games: Any,
        task: EncodeTask,
        parts: Sequence[tuple[BoardEmbedding, Indices]],
        labels: Mapping[str, Array],
        context: Array,
    ) -> None:
        """Encode positions. context: [R, 2] float32, the ranks of Black and White (`kifu.Rank.rating`), NaN or 0."""
        if context.shape != (len(task.game_index), 2):
            raise ValueError(f"context must be [{len(task.game_index)}, 2], got shape {context.shape}")
        encode = _compile(self.plane_set.features)
        for embedding, subset in parts:
            size = embedding.width, embedding.height
            if size not in scratch.contexts:
                scratch.contexts[size] = new_context(*size, *self._frame)
            encode(scratch.contexts[size], scratch.history, task, embedding, subset, context, scratch.bits)

    def encode_game(self, game: Game) -> tuple[Array, Ints]:
        """Return the planes [T, C, H, W] and next moves [T] of one game; see `kifu.encode`."""
        rating = np.array([[rank.rating if rank else 0 for rank in game.ranks]], np.float32)
        planes, labels, drop, ply = self.encode_moves(game, rating)
        check_played(game, drop, ply)
        return planes, labels["move"].astype(np.int32)


_NO_ENCODER = "{} exists in dat1 and dat2 files only, which kifu build makes"


def find_encoder(name: str, width: int = 19, height: int = 19, pad: bool = False) -> FrameEncoder:
    """Return the encoder of a plane set or composition of features (`find_plane_set`).

    Args:
        pad: Whether smaller boards are accepted too, embedded in the upper left corner. All planes except `edge` are 0
            outside the game's board, and a plane `board` shows where it is.

    Raises:
        RecipeError: There is no such plane set; and for the kgsgo sets, which omit positions and have kernels of their
            own.
    """
    return make_encoder(find_plane_set(name), width, height, pad)


def make_encoder(plane_set: PlaneSet, width: int, height: int, pad: bool = False) -> FrameEncoder:
    """Return the encoder that a plane set names (`PlaneSet.encoder`).

    pad: as for `find_encoder`. Raises RecipeError if the plane set has no encoder, and GameError if the size is out of
    range.
    """
    if not plane_set.encoder:
        raise RecipeError(_NO_ENCODER.format(plane_set.name))
    encoder: FrameEncoder = pkgutil.resolve_name(plane_set.encoder)(plane_set, width, height, pad)
    return encoder


def ratings_of(batch: pa.RecordBatch) -> Floats:
    """Return [G, 2] float32: the ranks of Black and White (`kifu.Rank.rating`), NaN where unknown."""
    columns = (batch["black_rating"], batch["white_rating"])
    return np.stack([to_numpy(pc.fill_null(column, float("nan"))) for column in columns], 1)


def check_kept(game: Game) -> None:
    """Raise GameError for a game with a drop reason."""
    if game.drop:
        raise GameError(f"a dropped game cannot be encoded: {game.drop.reason}")


def check_played(game: Game, drop: DropReason, ply: int) -> None:
    """Raise IllegalMove if a game cannot be replayed to its end."""
    if drop:
        raise IllegalMove(ply, int(game.moves[ply] & POINT_MASK), drop)


def encode(game: Game, planes: str) -> tuple[Array, Labels]:
    """Encode the positions of a game as feature planes, with the moves played in them.

    Positions before a pass are omitted. The kgsgo sets encode only the positions that the program of 2015 used; all
    others encode all moves and apply all setup. For KataGo's planes with their numbers, see
    `kifu.katago.inputs.encode_katago`.

    Args:
        planes: A plane set, as listed by `kifu list planes`, or a composition such as "own+opp+liberties4+ko".

    Returns:
        planes [T, C, H, W] uint8 of 0 and 1, or float32 for a real plane set, larger than the board if the set has
        padding; and labels [T] int32, the next move as row * width + column of the board. The plane set defines whether
        row 0 of both is the top or the bottom of the board.

    Raises:
        RecipeError: There is no such plane set.
        GameError: The game has a drop reason, the board is too large for the plane set, or, for the kgsgo sets, the
            program of 2015 could not use the game.
        IllegalMove: At the first move that cannot be played.

    Examples:
        >>> import kifu
        >>> game = kifu.read_sgf(b"(;SZ[19];B[pd];W[dp];B[])")
        >>> planes, labels = kifu.encode(game, "seven")
        >>> planes.shape, labels.tolist()
        ((2, 7, 19, 19), [72, 288])
    """
    plane_set = find_plane_set(planes)
    check_kept(game)
    if not plane_set.encoder:
        return kgsgo.encode_game(game, kgsgo.V1 if plane_set.name == "kgsgo8@1" else kgsgo.V2)
    return make_encoder(plane_set, game.width, game.height).encode_game(game)
