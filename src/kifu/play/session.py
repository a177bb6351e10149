"""A game in progress (setup stones, moves, current board) and the fixed handicap points of GTP."""

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

DEFAULT_KOMI = 7.5


class GameSession:
    """A game in progress.

    Attributes:
        board: Current position under the session's rules. Change it through the methods of this class only.
        moves: Moves as point | WHITE_BIT; a pass is width * height. Consecutive moves by one colour are allowed.
        komi: Points for White.
    """

    def __init__(
        self, width: int = 19, height: int | None = None, *, rules: Rules = CHINESE, komi: float = DEFAULT_KOMI
    ) -> None:
        """Start with an empty board, square if `height` is None.

        Raises:
            GameError: A side is not within 1 to 25.
        """
        self.board = Board(width, height, rules=rules)
        self.moves: list[int] = []
        self.komi, self.handicap = komi, 0
        self._setup = np.empty(0, np.uint16)
        self._setup_ply = np.empty(0, np.uint16)
        self._first = BLACK

    @classmethod
    def from_game(
        cls, game: Game, ply: int, *, rules: Rules = CHINESE, default_komi: float = DEFAULT_KOMI
    ) -> GameSession:
        """Return a session at the position before move `ply` of a recorded game.

        Args:
            default_komi: The komi if the record has none.

        Raises:
            IllegalMove: An earlier move is illegal under these rules.
            GameError: The game was dropped by the reader.
        """
        if game.drop:
            raise GameError(f"a dropped game has no positions: {game.drop.reason}")
        komi, handicap = game.komi, game.handicap or 0
        session = cls(game.width, game.height, rules=rules, komi=default_komi if komi is None else komi)
        session.handicap = handicap
        placed = game.setup_ply <= ply
        session.moves = game.moves[:ply].tolist()
        session._setup, session._setup_ply = game.setup[placed], game.setup_ply[placed]
        session._first = game.to_play or (WHITE if handicap > 1 else BLACK)
        session._replay()
        return session

    @property
    def setup(self) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
        """Setup stones, [S] uint16 of point | WHITE_BIT or ERASE_BIT, and the ply before which each is placed."""
        return self._setup, self._setup_ply

    @property
    def is_empty(self) -> bool:
        """True before the first move or setup stone."""
        return not self.moves and not len(self._setup)

    @property
    def trailing_passes(self) -> int:
        """Number of consecutive passes at the end of the game, at most 2."""
        last = [word & POINT_MASK == self.board.pass_move for word in self.moves[-2:]]
        return 2 if last == [True, True] else int(last[-1:] == [True])

    def play(self, move: int, colour: int) -> None:
        """Play a move of that colour.

        Raises:
            IllegalMove: The move is illegal; the session is unchanged.
        """
        self.board.play(move, colour)
        self.moves.append(move | (WHITE_BIT if colour == WHITE else 0))

    def undo(self) -> None:
        """Take back the last move.

        Raises:
            GameError: No move has been played.
        """
        if not self.moves:
            raise GameError("no move to take back")
        self.moves.pop()
        placed = self._setup_ply <= len(self.moves)
        self._setup, self._setup_ply = self._setup[placed], self._setup_ply[placed]
        self._replay()

    def place_handicap(self, points: Sequence[int]) -> None:
        """Place black handicap stones; White moves first.

        Raises:
            GameError: The board is not empty.
        """
        if not self.is_empty:
            raise GameError("handicap stones must be placed before the first move")
        self.board.setup(black=points)
        self._setup = np.array(points, np.uint16)
        self._setup_ply = np.zeros(len(points), np.uint16)
        self._first = self.board.to_play = WHITE
        self.handicap = len(points)

    def _replay(self) -> None:
        old = self.board
        moves = np.array(self.moves, np.uint16)
        self.board = Board.after(
            old.width, old.height, moves, self._setup, self._setup_ply, len(moves), rules=old.rules
        )  # fmt: skip
        if not self.moves:
            self.board.to_play = self._first
