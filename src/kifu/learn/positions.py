"""Positions of games for which a network is queried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.arrays import Bools, Indices, MoveArrays
from kifu.corpus.schema import game_arrays, to_numpy
from kifu.datasets.global_inputs import Conditions
from kifu.datasets.sources import CatalogueSource
from kifu.errors import FormatError, GameError, IllegalMove, KifuError
from kifu.go.positions import Positions
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT, check_size
from kifu.records.game import Game

Words = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class NetPositions(Positions):
    """Positions on boards of one size with the conditions of their games, as nets take them.

    Attributes:
        rows: The rows of the catalogue of all games, if they come from one.
        ranks: Ratings (`kifu.Rank.rating`) of the side to move and of its opponent in all positions; None for those of
            the conditions.

    Raises:
        GameError: Board sizes differ, or a ply is out of range.
    """

    conditions: Conditions
    rows: pa.RecordBatch | None = None
    ranks: tuple[float | None, float | None] = (None, None)

    def __post_init__(self) -> None:
        sizes = np.unique(np.stack([self.games.width, self.games.height], 1)[self.game], axis=0)
        if len(sizes) > 1:
            boards = " and ".join(f"{w} x {h}" for w, h in sizes[:2].tolist())
            raise GameError(f"the boards of one batch must have one size, got {boards}")

    @classmethod
    def at(
        cls, games: MoveArrays, game: npt.ArrayLike, ply: npt.ArrayLike, conditions: Conditions,
        rows: pa.RecordBatch | None = None,
    ) -> NetPositions:  # fmt: skip
        """Return positions of games, each given by its game and the number of moves before it."""
        checked = Positions.of(games, game, ply)
        return cls(games, checked.game, checked.ply, checked.symmetry, conditions, rows)

    @classmethod
    def from_source(cls, source: CatalogueSource, rows: pa.RecordBatch, seed: int = 0) -> NetPositions:
        """Return the positions that a source selects, whose games `rows` has with `CONDITION_COLUMNS`."""
        selected = np.unpackbits(source.select(seed, 0, False).selected, bitorder="little")
        at = Positions.where(game_arrays(rows), selected)
        return cls(at.games, at.game, at.ply, at.symmetry, Conditions.from_rows(rows), rows)

    @property
    def width(self) -> int:
        """Width of the boards."""
        return int(self.games.width[self.game[0]])

    @property
    def height(self) -> int:
        """Height of the boards."""
        return int(self.games.height[self.game[0]])

    @property
    def points(self) -> int:
        """Number of points of the boards."""
        return self.width * self.height

    @property
    def move(self) -> Indices:
        """[B] the next moves; a pass is width * height."""
        return (self.words & POINT_MASK).astype(np.int64)

    @property
    def inputs(self) -> tuple[Conditions, Indices, Bools]:
        """The arguments of `kifu.datasets.global_inputs.encode_inputs` besides the names."""
        white = self.to_play == WHITE
        if self.ranks == (None, None):
            return self.conditions, self.game, white
        return self.conditions.take(self.game).with_ranks(white, *self.ranks), np.arange(len(self)), white

    @property
    def ratings(self) -> npt.NDArray[np.float32]:
        """[G, 2] the ratings of Black and White; 0 if unknown. With `ranks`, each game has one side to move."""
        white = np.zeros(len(self.games.width), np.bool_)
        white[self.game] = self.to_play == WHITE
        return np.nan_to_num(self.conditions.with_ranks(white, *self.ranks).rating)

    def accounts(self, white: npt.NDArray[np.bool_]) -> Indices:
        """Return [B] numbers, from 0 on, of the accounts that play White where `white`, and Black elsewhere.

        An account is a name in the columns "black" and "white" of the rows; without a name, it is that of the game.
        """
        assert self.rows is not None
        names = pa.chunked_array([self.rows["black"], self.rows["white"]]).combine_chunks().dictionary_encode()
        code = to_numpy(pc.fill_null(names.indices, -1)).reshape(2, -1)[white.astype(np.int64), self.game]
        return np.unique(np.where(code < 0, -1 - self.game, code), return_inverse=True)[1]

    def explain(self, error: IllegalMove) -> KifuError:
        """Return the error, or for rows of a catalogue, which are then damaged, a FormatError that names the game."""
        if self.rows is None:
            return error
        for g in np.unique(self.game).tolist():
            try:
                self.take(np.flatnonzero(self.game == g)).legal()
            except IllegalMove as found:
                game, reason = to_numpy(self.rows["id"])[g], found.reason.reason
                return FormatError(f"game {game:016x}: move {found.ply + 1} cannot be played: {reason}")
        return error

    def with_ranks(self, mover: float | None, opponent: float | None) -> NetPositions:
        """Return the positions with other ratings of the side to move and of its opponent; None keeps them."""
        return replace(self, ranks=(mover, opponent))

    @classmethod
    def from_games(
        cls, games: Sequence[Game], plies: Sequence[int], *, to_play: Sequence[int] | None = None
    ) -> NetPositions:
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
        colours = [side_to_move(game, ply) for game, ply in zip(games, plies)] if to_play is None else to_play
        setups = [(game.setup, game.setup_ply) for game in games]
        return cls._from_sequences(
            [game.moves[:ply] for game, ply in zip(games, plies)],
            [(game.width, game.height) for game in games],
            [(stones[due <= ply], due[due <= ply]) for (stones, due), ply in zip(setups, plies)],
            colours,
            Conditions.from_games(games),
        )

    def after(self, moves: Indices) -> NetPositions:
        """Return the positions after moves [B, N], which the players of each play in turn."""
        games, words = self.games, moves | np.where(np.arange(moves.shape[1]) % 2, WHITE_BIT, 0)
        words = (words ^ np.where(self.to_play == WHITE, WHITE_BIT, 0)[:, None]).astype(np.uint16)
        first, placed, played, setups = games.move_offset[self.game], games.setup_offset, [], []
        for game, start, ply, own in zip(self.game, first, self.ply, words):
            played.append(np.concatenate([games.moves[start : start + ply], own]))
            stones, due = (each[placed[game] : placed[game + 1]] for each in (games.setup, games.setup_ply))
            setups.append((stones[due <= ply], due[due <= ply]))
        colours = [_opponent_of_last(each) for each in played]
        sizes = [(self.width, self.height)] * len(self)
        return self._from_sequences(played, sizes, setups, colours, self.conditions.take(self.game))

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
    ) -> NetPositions:
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
    ) -> NetPositions:  # fmt: skip
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
        return cls.at(games, np.arange(len(moves)), np.array([len(each) for each in moves], np.int64), conditions)


def _concatenate(parts: Sequence[Words]) -> Words:
    return np.concatenate([np.empty(0, np.uint16), *parts])


def _offsets(counts: npt.ArrayLike) -> Indices:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _opponent_of_last(moves: Words) -> int:
    return WHITE if len(moves) and not moves[-1] & WHITE_BIT else BLACK


def side_to_move(game: Game, ply: int) -> int:
    """Return the player of the next move, or else the opponent of the last one's, or the player that starts."""
    if ply < len(game):
        return WHITE if game.moves[ply] & WHITE_BIT else BLACK
    if ply:
        return _opponent_of_last(game.moves)
    return game.to_play or (WHITE if (game.handicap or 0) > 1 else BLACK)
