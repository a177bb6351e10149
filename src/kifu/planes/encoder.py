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

from kifu.errors import Drop, GameError, RecipeError
from kifu.go.replay import GamesLike
from kifu.go.rules import History, new_history
from kifu.planes.driver import make_driver
from kifu.planes.feature import Feature
from kifu.planes.placing import Placing, make_placing, read_only
from kifu.planes.registry import PlaneSet, find_plane_set
from kifu.planes.view import View, new_view
from kifu.point import MAX_SIZE, check_size

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Desk:
    """What one thread needs to encode: boards and scratch, by the size of game. An encoder makes it (`new_desk`)."""

    bits: npt.NDArray[np.uint64]
    history: History = field(default_factory=lambda: new_history(0))
    rooms: dict[tuple[int, int], View] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Encoder:
    """A plane set for boards of one size. `find_encoder` makes it; it holds no state and serves any number of threads.

    >>> from kifu.planes.encoder import find_encoder
    >>> encoder = find_encoder("own+opp+last2", 9, 9)
    >>> encoder.planes, encoder.shape, encoder.bytes
    (4, (4, 9, 9), 11)
    """

    plane_set: PlaneSet
    width: int
    height: int
    pad: bool
    """Whether smaller boards are taken too, laid into the upper left corner."""

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
        plies = games.move_offset[rows + 1] - games.move_offset[rows]
        take_offset = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(plies, out=take_offset[1:])
        self._check(take, take_offset[-1], rows, symmetry, out, label)
        if rating is None:
            rating = np.zeros((len(rows), 2), np.float32)
        drop = np.full(len(rows), Drop.WRONG_SIZE, np.uint8)
        ply = np.zeros(len(rows), np.int32)
        stones = games.setup_offset[rows + 1] - games.setup_offset[rows]
        placed = np.empty(plies.max(initial=0), np.uint16), np.empty(stones.max(initial=0), np.uint16)
        sizes = games.width[rows].astype(np.int64) << 9 | games.height[rows].astype(np.int64) << 1 | symmetry >> 2
        for key in np.unique(sizes).tolist():
            width, height, turned = key >> 9, key >> 1 & 0xFF, bool(key & 1)
            placing = self._placing(height if turned else width, width if turned else height, turned)
            if placing is None:
                continue
            size = placing.width, placing.height
            if size not in desk.rooms:
                desk.rooms[size] = new_view(*size, *self._frame)
            _driver(self.plane_set.features)(
                desk.rooms[size], desk.history, read_only(games.moves), read_only(games.move_offset),
                read_only(games.setup), read_only(games.setup_ply), read_only(games.setup_offset), rows,
                np.flatnonzero(sizes == key), symmetry, rating, placing.table, placing.label_of, placed, take,
                take_offset, desk.bits, out, label, drop, ply,
            )  # fmt: skip
        return drop, ply

    @property
    def _frame(self) -> tuple[int, int, int]:
        """(width, height, rim) of what planes are drawn in."""
        return self.shape[2], self.shape[1], self.plane_set.rim

    def _placing(self, width: int, height: int, turned: bool) -> Placing | None:
        """How games that are of that size under their symmetry are laid into the frame; None if they do not fit."""
        if (width, height) != (self.width, self.height) and not (
            self.pad and 1 <= width <= self.width and 1 <= height <= self.height
        ):
            return None
        return make_placing(width, height, turned, *self._frame)

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


@functools.cache
def _driver(features: tuple[Feature, ...]) -> Any:
    return make_driver(features)


def find_encoder(name: str, width: int = 19, height: int = 19, pad: bool = False) -> Encoder:
    """The encoder of a plane set or composition (`find_plane_set`) for boards of that size.

    pad: whether smaller boards are taken too, laid into the upper left corner; all planes are 0 outside the game's
        board but `edge`, and a plane `board` tells where it is.
    Raises RecipeError if there is no such set, for the kgsgo sets, which leave out positions and have kernels of their
    own, and for KataGo's, which is more than planes (`kifu.planes.katago.encoder`); GameError for a size that is not
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
