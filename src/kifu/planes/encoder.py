"""Positions of many games as planes: the whole-array face of the plane sets.

An `Encoder` replays each game under a symmetry that the caller gives, draws the wanted positions straight into the
caller's arrays, and so augments for nothing. `kifu.encode` is the friendly face for one game.
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
from kifu.go.replay import GamesLike
from kifu.go.rules import History, new_history
from kifu.kernel import writable_view
from kifu.planes.board_embedding import FrameEncoder, GameContext, Rows
from kifu.planes.codegen import compile_encoder
from kifu.planes.context import PositionContext, new_context
from kifu.planes.feature import Feature
from kifu.planes.registry import PlaneSet, find_plane_set
from kifu.planes.unpack import unpack
from kifu.point import MAX_SIZE, POINT_MASK, check_size
from kifu.records.game import Game
from kifu.records.games import MoveArrays

RATING_COLUMNS = ("black_rating", "white_rating")

ONE_ROW, IDENTITY = np.zeros(1, np.int64), np.zeros(1, np.uint8)
"""The rows and symmetries that encode a single game as it is."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What one thread needs to encode: boards and scratch, by the size of game. An encoder makes it (`new_desk`)."""

    bits: npt.NDArray[np.uint64]
    history: History = field(default_factory=lambda: new_history(0))
    rooms: dict[tuple[int, int], PositionContext] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Encoder(FrameEncoder):
    """A plane set for boards of one size. `find_encoder` makes it; it holds no state and serves any number of threads.

    >>> from kifu.planes.encoder import find_encoder
    >>> encoder = find_encoder("own+opp+last2", 9, 9)
    >>> encoder.planes, encoder.shape, encoder.bytes
    (4, (4, 9, 9), 11)
    """

    def __post_init__(self) -> None:
        check_size(self.width, self.height)
        most = MAX_SIZE - 2 * self.plane_set.rim
        if max(self.width, self.height) > most:
            size = f"{self.width} x {self.height}"
            raise GameError(f"{self.plane_set.name} draws around the board, so {size} is not within 1 to {most}")

    @property
    def columns(self) -> tuple[str, ...]:
        return RATING_COLUMNS if self.plane_set.ranked else ()

    def context(self, batch: pa.RecordBatch) -> GameContext:
        """Return the ranks of Black and White, [R, 2] float32; zeros if the plane set does not use them."""
        ratings = ratings_of(batch) if self.columns else np.zeros((len(batch), 2), np.float32)
        return GameContext(ratings, np.zeros(len(batch), np.uint8))

    def new_desk(self) -> Desk:
        """Room for one thread to work in."""
        words = len(new_context(self.width, self.height, *self._frame).s.words)
        return Desk(np.zeros((self.planes, words), np.uint64))

    def encode(
        self,
        desk: Desk,
        games: GamesLike,
        rows: Rows,
        symmetry: npt.NDArray[np.uint8],
        take: Rows,
        out: npt.NDArray[Any],
        label: npt.NDArray[np.int16],
        rating: npt.NDArray[np.float32] | None = None,
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """Draws positions of some games, each game as it looks under a symmetry of the board (`kifu.point.symmetries`).

        desk: from `new_desk`, one for each thread.  rows: [R] int64, the games.  symmetry: [R] uint8.
        take: int64, for each move of the first of these games, then of the second, ...: the slot that the position
            before it goes to, or -1.
        out: [slots, C, bytes] uint8, planes as bits, each from a byte of its own, row 0 of the board first, the first
            point in the highest bit; for a real set [slots, C, points] float32.
        label: [slots] int16: the move played, as row * width + column of the board without a rim (of the larger one,
            if `pad`); a pass is width * height.
        rating: [R, 2] float32, the ranks of Black and White (`kifu.Rank.rating`), 0 or NaN where unknown; for sets
            that ask for them (`PlaneSet.ranked`).

        Games are replayed under `kifu.go.rules.RECORD_RULES`. Returns drop [R] uint8 of `Drop` and ply [R] int32, how many
        moves could be played; Drop.WRONG_SIZE for a game that has another size, or has it under this symmetry. What is
        wanted from that ply on is not drawn, or is the position before a move that cannot be played.
        Raises ValueError if the arrays do not fit each other. That each slot is wanted only once is not checked.
        """
        plan = self._plan(games, rows, symmetry, take, out, label)
        if rating is None:
            rating = np.zeros((len(rows), 2), np.float32)
        for placing, which in plan.parts:
            size = placing.width, placing.height
            if size not in desk.rooms:
                desk.rooms[size] = new_context(*size, *self._frame)
            _driver(self.plane_set.features)(
                desk.rooms[size], desk.history, writable_view(games.moves), writable_view(games.move_offset),
                writable_view(games.setup), writable_view(games.setup_ply), writable_view(games.setup_offset), rows, which,
                symmetry, rating, placing.table, placing.label_of, plan.placed, take, plan.take_offset, desk.bits, out,
                label, plan.drop, plan.ply,
            )  # fmt: skip
        return plan.drop, plan.ply

    def draw(
        self,
        desk: Desk,
        games: GamesLike,
        rows: Rows,
        symmetry: npt.NDArray[np.uint8],
        take: Rows,
        out: npt.NDArray[Any],
        labels: Mapping[str, npt.NDArray[Any]],
        context: npt.NDArray[Any],
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        return self.encode(desk, games, rows, symmetry, take, out, labels["move"], context)

    def encode_game(self, game: Game) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
        alone, take = single_game(game)
        examples = take.max(initial=-1) + 1
        drawn, label = self.new_out(examples), np.empty(examples, np.int16)
        rating = np.array([[rank.rating if rank else 0 for rank in game.ranks]], np.float32)
        drop, ply = self.encode(self.new_desk(), alone, ONE_ROW, IDENTITY, take, drawn, label, rating)
        check_played(game, drop, ply)
        if self.plane_set.real:
            return drawn.reshape(examples, *self.shape), label.astype(np.int32)
        out = np.empty((examples, *self.shape), np.uint8)
        unpack(drawn, out)
        return out, label.astype(np.int32)


@functools.cache
def _driver(features: tuple[Feature, ...]) -> Any:
    return compile_encoder(features)


_NO_ENCODER = "{} is in dat1 and dat2 files only, which kifu build makes"


def find_encoder(name: str, width: int = 19, height: int = 19, pad: bool = False) -> Encoder:
    """The encoder of a plane set or composition (`find_plane_set`) for boards of that size.

    pad: whether smaller boards are taken too, laid into the upper left corner; all planes are 0 outside the game's
        board but `edge`, and a plane `board` tells where it is.
    Raises RecipeError if there is no such set, for the kgsgo sets, which leave out positions and have kernels of their
    own, and for KataGo's, which is more than planes (`kifu.katago.encoder`); GameError for a size that is not
    within 1 to 25, less the set's rim.
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
    """Return the encoder that the plane set names (`PlaneSet.encoder`) for boards of one size.

    Args:
        pad: as for `find_encoder`.

    Raises:
        RecipeError: if the plane set has no encoder.
        GameError: if the size is out of range.
    """
    if not plane_set.encoder:
        raise RecipeError(_NO_ENCODER.format(plane_set.name))
    encoder: FrameEncoder = pkgutil.resolve_name(plane_set.encoder)(plane_set, width, height, pad)
    return encoder


def ratings_of(batch: pa.RecordBatch) -> npt.NDArray[np.float32]:
    """[G, 2] the ranks of Black and White (`kifu.records.meta.Rank.rating`); NaN where they are not known."""
    columns = (batch["black_rating"], batch["white_rating"])
    return np.stack([to_numpy(pc.fill_null(column, float("nan"))) for column in columns], 1)


def check_kept(game: Game) -> None:
    """Raise GameError for a game with a drop reason."""
    if game.drop:
        raise GameError(f"a dropped game cannot be encoded: {game.drop.reason}")


def single_game(game: Game) -> tuple[MoveArrays, npt.NDArray[np.int64]]:
    """Return the arrays of one game, and `take` (see `Encoder.encode`) with a slot for each move but passes."""
    width, height = np.array([[game.width], [game.height]], np.uint8)
    ends = np.array([[0, len(game.moves)], [0, len(game.setup)]])
    root = np.array([game.root_setup], np.uint16)
    alone = MoveArrays(width, height, game.moves, ends[0], game.setup, game.setup_ply, ends[1], root)
    wanted = game.moves & POINT_MASK != game.width * game.height
    return alone, np.where(wanted, np.cumsum(wanted) - 1, -1)


def check_played(game: Game, drop: npt.NDArray[np.uint8], ply: npt.NDArray[np.int32]) -> None:
    """Raise IllegalMove if an encoder could not play all moves of a game."""
    if drop[0]:
        raise IllegalMove(int(ply[0]), int(game.moves[ply[0]] & POINT_MASK), DropReason(drop[0]))
