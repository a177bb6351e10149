"""A game that is being played: what was set up, the moves so far, and the board after them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kifu.errors import GameError
from kifu.go.board import Board
from kifu.go.rules import Rules
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT
from kifu.records.game import Game

CHINESE = Rules.named("chinese")


class GameSession:
    """A game in the making.

    board: the position now, under the rules that were chosen; to be changed by the methods here only.
    moves: [M] words, point | WHITE_BIT; the pass is width * height. Two in a row by one player are allowed.
    """

    def __init__(self, width: int = 19, height: int | None = None, *, rules: Rules = CHINESE) -> None:
        """An empty board, square if no height is given. Raises GameError unless both are within 1 to 25."""
        self.board = Board(width, height, rules=rules)
        self.moves: list[int] = []
        self._setup = np.empty(0, np.uint16)
        self._setup_ply = np.empty(0, np.uint16)
        self._first = BLACK

    @classmethod
    def of(cls, game: Game, ply: int, *, rules: Rules = CHINESE) -> GameSession:
        """A game that was read, up to the position before move `ply`.

        Raises IllegalMove if a move before it is not legal under these rules, GameError for a game that was set aside.
        """
        if game.drop:
            raise GameError(f"a game that was set aside has no position: {game.drop.reason}")
        ongoing = cls(game.width, game.height, rules=rules)
        due = game.setup_ply <= ply
        ongoing.moves = game.moves[:ply].tolist()
        ongoing._setup, ongoing._setup_ply = game.setup[due], game.setup_ply[due]
        ongoing._first = game.to_play or (WHITE if (game.handicap or 0) > 1 else BLACK)
        ongoing._replay()
        return ongoing

    @property
    def setup(self) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
        """[S] uint16 stones that were set up, point | WHITE_BIT or ERASE_BIT, and how many moves came before each."""
        return self._setup, self._setup_ply

    @property
    def untouched(self) -> bool:
        """Whether nothing was played or set up yet."""
        return not self.moves and not len(self._setup)

    @property
    def passes(self) -> int:
        """How many of the last moves were passes: 0, 1 or 2, and 2 if more."""
        last = [word & POINT_MASK == self.board.pass_move for word in self.moves[-2:]]
        return 2 if last == [True, True] else int(last[-1:] == [True])

    def play(self, move: int, colour: int) -> None:
        """Plays a move of that player. Raises IllegalMove, and then nothing has changed."""
        self.board.play(move, colour)
        self.moves.append(move | (WHITE_BIT if colour == WHITE else 0))

    def undo(self) -> None:
        """Takes the last move back. Raises GameError if there is none."""
        if not self.moves:
            raise GameError("there is no move to take back")
        self.moves.pop()
        due = self._setup_ply <= len(self.moves)
        self._setup, self._setup_ply = self._setup[due], self._setup_ply[due]
        self._replay()

    def give_handicap(self, points: Sequence[int]) -> None:
        """Sets up black stones; White moves first. Raises GameError unless the board is untouched."""
        if not self.untouched:
            raise GameError("a handicap is given before anything is played")
        self.board.setup(black=points)
        self._setup = np.array(points, np.uint16)
        self._setup_ply = np.zeros(len(points), np.uint16)
        self._first = self.board.to_play = WHITE

    def _replay(self) -> None:
        old = self.board
        moves = np.array(self.moves, np.uint16)
        self.board = Board.after(
            old.width, old.height, moves, self._setup, self._setup_ply, len(moves), rules=old.rules
        )  # fmt: skip
        if not self.moves:
            self.board.to_play = self._first
