"""Positions of games for which a network is queried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.schema import game_arrays, to_numpy
from kifu.datasets.global_inputs import Conditions, InputPositions
from kifu.datasets.sources import CatalogueSource
from kifu.errors import GameError
from kifu.go.replay import GamesLike, legal_moves
from kifu.go.rules import RECORD_RULES, Rules
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT, check_size
from kifu.records.game import Game
from kifu.records.games import GameArrays, MoveArrays

Words = npt.NDArray[np.uint16]
Indices = npt.NDArray[np.int64]


class Slots(NamedTuple):
    """The output slots of B positions for kernels that replay each game once; equal positions share a slot.

    Attributes:
        rows: [R] the games, each once.
        take: For each move of the first of these games, then of the second, ...: the slot of the position before the
            move, or -1.
        slot: [B] the slot of each position.
    """

    rows: Indices
    take: Indices
    slot: Indices
    size: int


def assign_slots(games: GamesLike, game: Indices, ply: Indices) -> Slots:
    """Assign output slots to B positions: indices of games, and numbers of moves before each position."""
    rows, which = np.unique(game, return_inverse=True)
    first = _offsets(games.move_offset[rows + 1] - games.move_offset[rows])
    moves, slot = np.unique(first[which] + ply, return_inverse=True)
    take = np.full(first[-1], -1, np.int64)
    take[moves] = np.arange(len(moves))
    return Slots(rows, take, slot, len(moves))


def legal_masks(games: GamesLike, slots: Slots, points: int, rules: Rules = RECORD_RULES) -> npt.NDArray[np.bool_]:
    """Return [B, points + 1] which moves are legal, pass last. Raises IllegalMove if rules forbid an earlier move."""
    masks = np.empty((slots.size, points + 1), np.bool_)
    legal_moves(games, slots.rows, slots.take, masks, rules)
    return masks[slots.slot]


@dataclass(frozen=True, slots=True)
class PredictPositions:
    """B positions on boards of one size, each before a move of a game. `from_games` and `from_moves` create them.

    Attributes:
        game: [B] int64, index of the game of each position.
        ply: [B] int64, number of moves before each position; less than the number of the game's moves, because the
            colour of the next move defines the side to move.

    Raises:
        GameError: Board sizes differ, or a ply is out of range.
    """

    games: GamesLike
    game: Indices
    ply: Indices
    conditions: Conditions

    def __post_init__(self) -> None:
        sizes = np.unique(np.stack([self.games.width, self.games.height], 1)[self.game], axis=0)
        if len(sizes) > 1:
            boards = " and ".join(f"{w} x {h}" for w, h in sizes[:2].tolist())
            raise GameError(f"the boards of one batch must have one size, got {boards}")
        plies = self.games.move_offset[self.game + 1] - self.games.move_offset[self.game]
        for k in np.flatnonzero((self.ply < 0) | (self.ply >= plies))[:1].tolist():
            raise GameError(f"ply must be 0 to {plies[k] - 1} in game {self.game[k]}, got {self.ply[k]}")

    def __len__(self) -> int:
        return len(self.game)

    @property
    def to_play(self) -> npt.NDArray[np.uint8]:
        """[B] uint8, BLACK or WHITE."""
        return _colours(self.games.moves[self.games.move_offset[self.game] + self.ply])

    @property
    def input_positions(self) -> InputPositions:
        """The same positions, for `kifu.datasets.global_inputs.encode_inputs`."""
        return InputPositions(self.conditions, self.game, self.to_play == WHITE)

    def with_ranks(self, mover: float | None, opponent: float | None) -> PredictPositions:
        """Return the positions with other ratings of the side to move and of its opponent; None keeps them.

        Each game must have one position.
        """
        white = np.zeros(len(self.games.width), np.bool_)
        white[self.game] = self.to_play == WHITE
        return replace(self, conditions=self.conditions.with_ranks(white, mover, opponent))

    def slice(self, start: int, stop: int) -> PredictPositions:
        """Return positions start to stop - 1."""
        return replace(self, game=self.game[start:stop], ply=self.ply[start:stop])

    @classmethod
    def from_games(
        cls, games: Sequence[Game], plies: Sequence[int], *, to_play: Sequence[int] | None = None
    ) -> PredictPositions:
        """Return the position of each game after a number of its moves.

        Args:
            to_play: [B] BLACK or WHITE. By default the player of the game's next move; after the last move, the
                opponent of its player; in a game without moves, the player that starts.
        """
        for game, ply in zip(games, plies, strict=True):
            if game.drop:
                raise GameError(f"a dropped game has no positions: {game.drop.reason}")
            if not 0 <= ply <= len(game):
                raise GameError(f"ply must be 0 to {len(game)}, got {ply}")
        colours = [_side_to_move(game, ply) for game, ply in zip(games, plies)] if to_play is None else to_play
        setups = [(game.setup, game.setup_ply) for game in games]
        return cls._from_sequences(
            [game.moves[:ply] for game, ply in zip(games, plies)],
            [(game.width, game.height) for game in games],
            [(stones[due <= ply], due[due <= ply]) for (stones, due), ply in zip(setups, plies)],
            colours,
            Conditions.from_games(games),
        )

    @classmethod
    def from_moves(
        cls,
        moves: Sequence[npt.ArrayLike],
        width: int,
        height: int | None = None,
        *,
        setup: npt.ArrayLike = (),
        setup_ply: npt.ArrayLike | None = None,
        to_play: Sequence[int] | None = None,
        conditions: Conditions | None = None,
    ) -> PredictPositions:
        """Return the position after each sequence of moves.

        Args:
            moves: [B] uint16 arrays of point | WHITE_BIT; a pass is width * height.
            setup: uint16 array of point | WHITE_BIT, the stones that are set up in each sequence.
            setup_ply: Number of moves before each of them, ascending; by default 0.
            to_play: [B] BLACK or WHITE; by default the opponent of the last move's player, and Black without moves.
            conditions: Of the B sequences; by default all unknown.
        """
        check_size(width, height or width)
        words = [np.asarray(each, np.uint16) for each in moves]
        stones = np.asarray(setup, np.uint16)
        colours = [_opponent_of_last(each) for each in words] if to_play is None else to_play
        due = np.zeros(len(stones), np.uint16) if setup_ply is None else np.asarray(setup_ply, np.uint16)
        count = len(words)
        sizes, setups = [(width, height or width)] * count, [(stones, due)] * count
        return cls._from_sequences(words, sizes, setups, colours, conditions or Conditions.unknown(count))

    @classmethod
    def _from_sequences(
        cls, moves: Sequence[Words], sizes: Sequence[tuple[int, int]], setups: Sequence[tuple[Words, Words]],
        colours: Sequence[int], conditions: Conditions,
    ) -> PredictPositions:  # fmt: skip
        """Make a game for each position that ends with a pass of the side to move, since encoders take a next move."""
        ends = []
        for (width, height), colour in zip(sizes, colours, strict=True):
            if colour not in (BLACK, WHITE):
                raise GameError(f"to_play must be {BLACK} (Black) or {WHITE} (White), got {colour!r}")
            ends.append(np.array([width * height | (WHITE_BIT if colour == WHITE else 0)], np.uint16))
        words = [part for each, end in zip(moves, ends) for part in (each, end)]
        board = np.array(sizes, np.uint8).reshape(-1, 2)
        games = MoveArrays(
            board[:, 0].copy(), board[:, 1].copy(), _concatenate(words), _offsets([len(each) + 1 for each in moves]),
            _concatenate([stones for stones, _ in setups]), _concatenate([due for _, due in setups]),
            _offsets([len(stones) for stones, _ in setups]),
            np.array([np.count_nonzero(due == 0) for _, due in setups], np.uint16),
        )  # fmt: skip
        plies = np.array([len(each) for each in moves], np.int64)
        return cls(games, np.arange(len(moves)), plies, conditions)


def _concatenate(parts: Sequence[Words]) -> Words:
    return np.concatenate([np.empty(0, np.uint16), *parts])


def _offsets(counts: npt.ArrayLike) -> Indices:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _colours(words: Words) -> npt.NDArray[np.uint8]:
    return np.where(words & WHITE_BIT, np.uint8(WHITE), np.uint8(BLACK))


def _opponent_of_last(moves: Words) -> int:
    """Return the opponent of the last move's player; Black without moves."""
    return WHITE if len(moves) and not moves[-1] & WHITE_BIT else BLACK


def _side_to_move(game: Game, ply: int) -> int:
    if ply < len(game):
        return WHITE if game.moves[ply] & WHITE_BIT else BLACK
    if ply:
        return _opponent_of_last(game.moves)
    return game.to_play or (WHITE if (game.handicap or 0) > 1 else BLACK)


@dataclass(frozen=True, slots=True)
class EvalPositions:
    """N positions of catalogue games on one board size, in the order of the games, each before the move to predict.

    Attributes:
        move_index: [N] int64, ascending indices into games.moves of the moves to predict.
        ranks: Ratings of the side to move and of its opponent in all positions; None for those of the conditions.
    """

    rows: pa.RecordBatch
    games: GameArrays
    width: int
    height: int
    move_index: Indices
    game: Indices
    conditions: Conditions
    ranks: tuple[float | None, float | None] = (None, None)

    @classmethod
    def from_source(cls, source: CatalogueSource, rows: pa.RecordBatch, seed: int = 0) -> EvalPositions:
        """Return the positions that a source selects, whose games `rows` has with `CONDITION_COLUMNS`."""
        selection, layout = source.select(seed, 0, False), source.layout
        move_index = np.flatnonzero(np.unpackbits(selection.selected, bitorder="little"))
        game = np.repeat(np.arange(len(selection.counts)), selection.counts)
        conditions = Conditions.from_rows(rows)
        return cls(rows, game_arrays(rows), layout.width, layout.height, move_index, game, conditions)

    def __len__(self) -> int:
        return len(self.game)

    @property
    def points(self) -> int:
        """Number of points of the board."""
        return self.width * self.height

    @property
    def ply(self) -> Indices:
        """[N] number of moves before each position."""
        ply: Indices = self.move_index - self.games.move_offset[self.game]
        return ply

    @property
    def words(self) -> Words:
        """[N] moves with their colour, point | WHITE_BIT."""
        words: Words = self.games.moves[self.move_index]
        return words

    @property
    def move(self) -> Indices:
        """[N] moves; a pass is width * height."""
        return (self.words & POINT_MASK).astype(np.int64)

    @property
    def to_play(self) -> npt.NDArray[np.uint8]:
        """[N] uint8, BLACK or WHITE."""
        return _colours(self.words)

    @property
    def input_positions(self) -> InputPositions:
        """The same positions, for `kifu.datasets.global_inputs.encode_inputs`."""
        white = self.to_play == WHITE
        if self.ranks == (None, None):
            return InputPositions(self.conditions, self.game, white)
        conditions = self.conditions.take(self.game).with_ranks(white, *self.ranks)
        return InputPositions(conditions, np.arange(len(self)), white)

    def accounts(self, white: npt.NDArray[np.bool_]) -> Indices:
        """Return [N] numbers, from 0 on, of the accounts that play White where `white`, and Black elsewhere.

        An account is a name in the columns "black" and "white" of the rows; without a name, it is that of the game.
        """
        names = pa.chunked_array([self.rows["black"], self.rows["white"]]).combine_chunks().dictionary_encode()
        code = to_numpy(pc.fill_null(names.indices, -1)).reshape(2, -1)[white.astype(np.int64), self.game]
        account: Indices = np.unique(np.where(code < 0, -1 - self.game, code), return_inverse=True)[1]
        return account

    def slice(self, start: int, stop: int) -> EvalPositions:
        """Return positions start to stop - 1."""
        return replace(self, move_index=self.move_index[start:stop], game=self.game[start:stop])

    def take(self, which: Indices) -> EvalPositions:
        """Return some of the positions; indices ascend."""
        return replace(self, move_index=self.move_index[which], game=self.game[which])

    def select(self, which: Indices) -> PredictPositions:
        """Return some of the positions, with the ranks of the conditions."""
        return PredictPositions(self.games, self.game[which], self.ply[which], self.conditions)
