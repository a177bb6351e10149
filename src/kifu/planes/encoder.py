"""Encoders of plane sets: positions of many games as planes.

An `Encoder` replays each game under a symmetry that the caller chooses and writes the chosen positions directly to the
caller's arrays, so augmentation is free. `kifu.encode` encodes a single game.
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.schema import to_numpy
from kifu.errors import DropReason, GameError, IllegalMove, RecipeError
from kifu.go.rules import History, new_history
from kifu.planes.board_embedding import FrameEncoder, GameContext, PositionRequest
from kifu.planes.codegen import compile_encoder
from kifu.planes.context import PositionContext, new_context
from kifu.planes.packing import unpack
from kifu.planes.registry import PlaneSet, find_plane_set
from kifu.point import MAX_SIZE, POINT_MASK, check_size
from kifu.records.game import Game

RATING_COLUMNS = ("black_rating", "white_rating")

_compile = functools.cache(compile_encoder)


@dataclass(frozen=True, slots=True)
class EncoderScratch:
    """Scratch memory of one thread, from `Encoder.new_scratch`.

    Attributes:
        bits: [C, W] uint64.
        contexts: Position contexts by the size of board.
    """

    bits: npt.NDArray[np.uint64]
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

    def new_scratch(self) -> EncoderScratch:
        """Return scratch memory for one thread."""
        words = len(new_context(self.width, self.height, *self._frame).s.words)
        return EncoderScratch(np.zeros((self.planes, words), np.uint64))

    def encode(
        self,
        scratch: EncoderScratch,
        request: PositionRequest,
        out: npt.NDArray[Any],
        label: npt.NDArray[np.int16],
        rating: npt.NDArray[np.float32] | None = None,
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """Encode positions of some games, replayed under `kifu.go.rules.RECORD_RULES`.

        Args:
            scratch: From `new_scratch`, one for each thread.
            request: The positions to encode, and their symmetries.
            out: [slots, C, bytes] uint8, filled with planes as bits: each plane from a byte of its own, the top row of
                the board first, the first point in the highest bit. For a real plane set [slots, C, points] float32.
            label: [slots] int16, filled with the move played, as row * width + column of the board without padding (of
                the larger board, if `pad`); a pass is width * height.
            rating: [R, 2] float32, the ranks of Black and White (`kifu.Rank.rating`), 0 or NaN if unknown; for plane
                sets that need them (`PlaneSet.needs_ranks`).

        Returns:
            drop [R] uint8 of `DropReason` and ply [R] int32, how many moves of each game could be played. WRONG_SIZE
            marks games that have another size, or have it under this symmetry. Slots for positions from that ply on are
            not filled, or hold the position before a move that cannot be played.

        Raises:
            ValueError: If the arrays do not match.
        """
        task, parts = self._plan(request, out, label)
        if rating is None:
            rating = np.zeros((len(request.game_index), 2), np.float32)
        if rating.shape != (len(request.game_index), 2):
            raise ValueError(f"rating must be [{len(request.game_index)}, 2], got shape {rating.shape}")
        encode = _compile(self.plane_set.features)
        for embedding, subset in parts:
            size = embedding.width, embedding.height
            if size not in scratch.contexts:
                scratch.contexts[size] = new_context(*size, *self._frame)
            base = scratch.contexts[size]
            encode(base, scratch.history, task, embedding, subset, rating, scratch.bits)
        return task.drop, task.ply

    def draw(
        self,
        scratch: EncoderScratch,
        request: PositionRequest,
        out: npt.NDArray[Any],
        labels: Mapping[str, npt.NDArray[Any]],
        context: npt.NDArray[Any],
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """Encode positions; see `FrameEncoder.draw`."""
        return self.encode(scratch, request, out, labels["move"], context)

    def encode_game(self, game: Game) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
        """Return the planes [T, C, H, W] and next moves [T] of one game; see `kifu.encode`."""
        request, examples = single_game(game)
        packed, label = self.new_out(examples), np.empty(examples, np.int16)
        rating = np.array([[rank.rating if rank else 0 for rank in game.ranks]], np.float32)
        check_played(game, *self.encode(self.new_scratch(), request, packed, label, rating))
        if self.plane_set.real:
            return packed.reshape(examples, *self.shape), label.astype(np.int32)
        out = np.empty((examples, *self.shape), np.uint8)
        unpack(packed, out)
        return out, label.astype(np.int32)


_NO_ENCODER = "{} exists in dat1 and dat2 files only, which kifu build makes"


def find_encoder(name: str, width: int = 19, height: int = 19, pad: bool = False) -> Encoder:
    """Return the encoder of a plane set or composition of features (`find_plane_set`).

    Args:
        pad: Whether smaller boards are accepted too, embedded in the upper left corner. All planes except `edge` are 0
            outside the game's board, and a plane `board` shows where it is.

    Raises:
        RecipeError: If there is no such plane set; for the kgsgo sets, which omit positions and have kernels of their
            own; and for KataGo's, which is more than planes (`kifu.katago.encoder`).
    """
    plane_set = find_plane_set(name)
    if plane_set.inputs:
        raise RecipeError(
            f"{plane_set.name} is planes and {len(plane_set.inputs)} numbers, and nets here take planes only;"
            " kifu.load and kifu build give both"
        )
    if not plane_set.encoder:
        raise RecipeError(_NO_ENCODER.format(plane_set.name))
    return Encoder(plane_set, width, height, pad)


def make_encoder(plane_set: PlaneSet, width: int, height: int, pad: bool = False) -> FrameEncoder:
    """Return the encoder that a plane set names (`PlaneSet.encoder`).

    Args:
        pad: As for `find_encoder`.

    Raises:
        RecipeError: If the plane set has no encoder.
        GameError: If the size is out of range.
    """
    if not plane_set.encoder:
        raise RecipeError(_NO_ENCODER.format(plane_set.name))
    encoder: FrameEncoder = pkgutil.resolve_name(plane_set.encoder)(plane_set, width, height, pad)
    return encoder


def ratings_of(batch: pa.RecordBatch) -> npt.NDArray[np.float32]:
    """Return [G, 2] float32: the ranks of Black and White (`kifu.Rank.rating`), NaN where unknown."""
    columns = (batch["black_rating"], batch["white_rating"])
    return np.stack([to_numpy(pc.fill_null(column, float("nan"))) for column in columns], 1)


def check_kept(game: Game) -> None:
    """Raise GameError for a game with a drop reason."""
    if game.drop:
        raise GameError(f"a dropped game cannot be encoded: {game.drop.reason}")


def single_game(game: Game) -> tuple[PositionRequest, int]:
    """Return a request for the position before each move of a game except passes, and the number of slots."""
    no_pass = game.moves & POINT_MASK != game.width * game.height
    slot_of_move = np.where(no_pass, np.cumsum(no_pass) - 1, -1)
    request = PositionRequest(game.arrays(), np.zeros(1, np.int64), np.zeros(1, np.uint8), slot_of_move)
    return request, int(no_pass.sum())


def check_played(game: Game, drop: npt.NDArray[np.uint8], ply: npt.NDArray[np.int32]) -> None:
    """Raise IllegalMove if an encoder could not play all moves of a game, which was the only one of a request."""
    if drop[0]:
        raise IllegalMove(int(ply[0]), int(game.moves[ply[0]] & POINT_MASK), DropReason(drop[0]))
