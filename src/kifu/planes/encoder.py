"""Positions of many games as planes: the whole-array face of the plane sets.

An `Encoder` replays each game under a symmetry that the caller gives, draws the wanted positions straight into the
caller's arrays, and so augments for nothing. `kifu.encode` is the friendly face for one game.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.errors import GameError, RecipeError
from kifu.go.replay import GamesLike
from kifu.go.rules import History, new_history
from kifu.kernel import writable_view
from kifu.planes.board_embedding import FrameEncoder, Rows
from kifu.planes.codegen import compile_encoder
from kifu.planes.context import PositionContext, new_view
from kifu.planes.feature import Feature
from kifu.planes.registry import find_plane_set
from kifu.point import MAX_SIZE, check_size


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

    def new_desk(self) -> Desk:
        """Room for one thread to work in."""
        words = len(new_view(self.width, self.height, *self._frame).s.words)
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

        Games are replayed under `kifu.go.rules.RECORDS`. Returns drop [R] uint8 of `Drop` and ply [R] int32, how many
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
                desk.rooms[size] = new_view(*size, *self._frame)
            _driver(self.plane_set.features)(
                desk.rooms[size], desk.history, writable_view(games.moves), writable_view(games.move_offset),
                writable_view(games.setup), writable_view(games.setup_ply), writable_view(games.setup_offset), rows, which,
                symmetry, rating, placing.table, placing.label_of, plan.placed, take, plan.take_offset, desk.bits, out,
                label, plan.drop, plan.ply,
            )  # fmt: skip
        return plan.drop, plan.ply


@functools.cache
def _driver(features: tuple[Feature, ...]) -> Any:
    return compile_encoder(features)


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
    if not plane_set.features:
        raise RecipeError(f"{plane_set.name} is in dat1 and dat2 files only, which kifu build makes")
    check_size(width, height)
    most = MAX_SIZE - 2 * plane_set.rim
    if max(width, height) > most:
        raise GameError(f"{plane_set.name} draws around the board, so {width} x {height} is not within 1 to {most}")
    return Encoder(plane_set, width, height, pad)
