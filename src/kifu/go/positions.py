"""Positions: the boards before chosen moves of many games, and their places in the arrays that kernels fill."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from kifu.arrays import Indices, MoveArrays
from kifu.errors import DropReason, GameError, IllegalMove
from kifu.go.replay import legal_moves
from kifu.go.rules import RECORD_RULES, Rules
from kifu.kernel import kernel
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT


class Slots(NamedTuple):
    """The output slots of B positions for kernels that replay each game once; equal positions share one of B slots.

    Attributes:
        rows: [R] the games to replay, each once under each of its symmetries.
        symmetry: [R] uint8, the symmetry of each replay.
        slot_of_move: For each move of the first of these games, then of the second, ...: the slot of the position
            before the move, or -1.
        slot: [B] the slot of each position; its index unless positions are equal.
        replay: [B] the replay of each position, an index of `rows`.
        shared: Some positions are equal.
    """

    rows: Indices
    symmetry: npt.NDArray[np.uint8]
    slot_of_move: Indices
    slot: Indices
    replay: Indices
    shared: bool


@dataclass(frozen=True, slots=True)
class Positions:
    """B positions, each the board before a move of a game. `Positions.of` checks them.

    Attributes:
        game: [B] int64, the game of each position, an index of `games`.
        ply: [B] int64, number of moves before each position, less than the number of moves of its game: the colour of
            the next move defines the side to move.
        symmetry: [B] uint8, the symmetry of the board (`kifu.point.symmetries`) under which each is encoded.
    """

    games: MoveArrays
    game: Indices
    ply: Indices
    symmetry: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, games: MoveArrays, game: npt.ArrayLike, ply: npt.ArrayLike) -> Positions:
        """Return positions as they are, under symmetry 0. Raises GameError for a ply that is out of range."""
        at, plies = np.asarray(game, np.int64), np.asarray(ply, np.int64)
        lengths = games.move_offset[at + 1] - games.move_offset[at]
        for k in np.flatnonzero((plies < 0) | (plies >= lengths))[:1].tolist():
            raise GameError(f"ply must be 0 to {lengths[k] - 1} in game {at[k]}, got {plies[k]}")
        return cls(games, at, plies, np.zeros(len(at), np.uint8))

    @classmethod
    def where(cls, games: MoveArrays, mask: npt.NDArray[Any]) -> Positions:
        """Return the positions before those moves, [M] of all games, for which the mask is true, under symmetry 0."""
        move = np.flatnonzero(mask)
        ends = np.searchsorted(move, games.move_offset)
        game = np.repeat(np.arange(len(games.width)), np.diff(ends))
        return cls(games, game, move - games.move_offset[game], np.zeros(len(move), np.uint8))

    def __len__(self) -> int:
        return len(self.game)

    @property
    def words(self) -> npt.NDArray[np.uint16]:
        """[B] the next moves with their colour, point | WHITE_BIT."""
        words: npt.NDArray[np.uint16] = self.games.moves[self.games.move_offset[self.game] + self.ply]
        return words

    @property
    def to_play(self) -> npt.NDArray[np.uint8]:
        """[B] uint8, BLACK or WHITE."""
        return np.where(self.words & WHITE_BIT, np.uint8(WHITE), np.uint8(BLACK))

    def take(self, which: slice | Indices) -> Self:
        """Return some of the positions."""
        return replace(self, game=self.game[which], ply=self.ply[which], symmetry=self.symmetry[which])

    def slots(self, slot: Indices | None = None) -> Slots:
        """Return the slots of the positions, fastest if those of a game follow each other.

        slot: [B] the slots of distinct positions.
        """
        games, replay = self.games, np.empty(len(self), np.int64)
        starts = np.empty(len(self), np.int64)
        starts = starts[: _find_runs(self.game, self.symmetry, starts)]
        replays, which = np.unique(self.game[starts] << 3 | self.symmetry[starts], return_inverse=True)
        rows = replays >> 3
        first = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(games.move_offset[rows + 1] - games.move_offset[rows], out=first[1:])
        slot_of_move = np.full(first[-1], -1, np.int64)
        own = np.arange(len(self)) if slot is None else slot
        shared = _assign_slots(starts, which, first, self.ply, own, slot_of_move, replay)
        if shared:
            own = slot_of_move[first[replay] + self.ply]
        return Slots(rows, (replays & 7).astype(np.uint8), slot_of_move, own, replay, shared)

    def check_playable(self, drop: npt.NDArray[np.uint8], ply: npt.NDArray[np.int32]) -> None:
        """Raise IllegalMove if a replay stopped at one of the positions or before it.

        drop, ply: [B], why and after how many moves it stopped, see `kifu.planes.encoder.Encoded`.
        """
        for k in np.flatnonzero((drop != DropReason.KEPT) & (ply <= self.ply))[:1].tolist():
            word = self.games.moves[self.games.move_offset[self.game[k]] + ply[k]]
            raise IllegalMove(int(ply[k]), int(word & POINT_MASK), DropReason(drop[k]))

    def legal(self, rules: Rules = RECORD_RULES) -> npt.NDArray[np.bool_]:
        """Return [B, points + 1] which moves are legal, pass last, on boards of one size, at symmetry 0.

        Raises IllegalMove if the rules forbid an earlier move.
        """
        slots, first = self.slots(), self.game[:1]
        points = int((self.games.width[first].astype(np.int64) * self.games.height[first]).sum())
        masks = np.empty((len(self), points + 1), np.bool_)
        drop, ply = legal_moves(self.games, slots.rows, slots.slot_of_move, masks, rules)
        self.check_playable(drop[slots.replay], ply[slots.replay])
        return masks[slots.slot]


@kernel
def _find_runs(game: Any, symmetry: Any, starts: Any) -> Any:
    """Fill where the game or the symmetry changes. Returns how often."""
    n = 0
    for i in range(game.shape[0]):
        if i == 0 or game[i] != game[i - 1] or symmetry[i] != symmetry[i - 1]:
            starts[n] = i
            n += 1
    return n


@kernel
def _assign_slots(starts: Any, which: Any, first: Any, ply: Any, slot: Any, slot_of_move: Any, replay: Any) -> Any:
    """Fill the slots of moves, and the replay of each position. Returns whether positions are equal."""
    shared = False
    for k in range(starts.shape[0]):
        stop = starts[k + 1] if k + 1 < starts.shape[0] else ply.shape[0]
        for i in range(starts[k], stop):
            replay[i] = which[k]
            move = first[which[k]] + ply[i]
            shared |= slot_of_move[move] >= 0
            slot_of_move[move] = slot[i]
    return shared
