"""Lines: setup stones and moves, as the client sends and shows them."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from kifu.errors import DropReason, GameError, IllegalMove
from kifu.go.board import Board
from kifu.go.rules import RECORD_RULES, Rules
from kifu.point import MAX_SIZE, POINT_MASK, WHITE, WHITE_BIT
from kifu.records.game import Game
from kifu.records.games import MoveArrays, ParseWarning
from kifu.records.sgf import make_record
from kifu.web.api import Params

MAX_MOVES = 2000
"""Longest line that is accepted from a client; longer games are shown up to there."""

_Words = Annotated[list[Annotated[int, Field(ge=0, le=0xFFFF)]], Field(max_length=MAX_MOVES)]


class Line(Params):
    """Setup stones and moves, from the empty board on. The client sends lines back as it got them, longer or shorter.

    Attributes:
        setup: Setup stones as point | WHITE_BIT, or | ERASE_BIT.
        setup_ply: The number of moves before each.
        moves: Moves as point | WHITE_BIT; a pass is width * height.
        to_play: BLACK or WHITE, who moves first; 0 if unknown.
    """

    width: int = Field(19, ge=1, le=MAX_SIZE)
    height: int = Field(19, ge=1, le=MAX_SIZE)
    setup: _Words = Field([])
    setup_ply: _Words = Field([])
    moves: _Words = Field([])
    to_play: int = Field(0, ge=0, le=2)

    @classmethod
    def of_game(cls, game: Game) -> Line:
        """Return the line of a game, up to `MAX_MOVES` moves and setup stones."""
        setup = slice(MAX_MOVES)
        return cls(
            width=game.width,
            height=game.height,
            setup=game.setup[setup].tolist(),
            setup_ply=game.setup_ply[setup].tolist(),
            moves=game.moves[:MAX_MOVES].tolist(),
            to_play=game.to_play,
        )

    @classmethod
    def of_arrays(cls, games: MoveArrays, ply: int) -> Line:
        """Return the line to a position of a single game. Raises GameError if the game has fewer moves."""
        if ply > len(games.moves):
            raise GameError(f"ply must be within 0 to {len(games.moves)}, got {ply}")
        setup = slice(min(int(np.searchsorted(games.setup_ply, ply, "right")), MAX_MOVES))
        return cls(
            width=int(games.width[0]),
            height=int(games.height[0]),
            setup=games.setup[setup].tolist(),
            setup_ply=games.setup_ply[setup].tolist(),
            moves=games.moves[:ply].tolist(),
            to_play=0,
        )

    def board(self, ply: int | None = None) -> Board:
        """Return the board after `ply` moves, by default after all.

        Raises:
            GameError: If there are fewer moves, or a move or setup stone is impossible.
        """
        return Board.after(self.width, self.height, *self.arrays(), self._checked(ply))

    def _checked(self, ply: int | None) -> int:
        """Return a number of moves, by default of all. Raises GameError if there are fewer."""
        if ply is not None and ply > len(self.moves):
            raise GameError(f"ply must be 0 to {len(self.moves)}, got {ply}")
        return len(self.moves) if ply is None else ply

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return moves, setup and setup_ply as uint16 arrays. Raises GameError if a setup stone lacks its ply."""
        if len(self.setup) != len(self.setup_ply):
            raise GameError(f"setup_ply must have {len(self.setup)} elements as setup has, got {len(self.setup_ply)}")
        points = self.width * self.height
        for word in self.setup:
            if word & POINT_MASK >= points:
                raise GameError(f"setup stones must be on points below {points}, got {word & POINT_MASK}")
        return tuple(np.array(each, np.uint16) for each in (self.moves, self.setup, self.setup_ply))  # type: ignore[return-value]

    def to_game(self, ply: int | None = None, handicap: int | None = None, **properties: str | None) -> Game:
        """Return the first `ply` moves, by default all, as a game.

        Args:
            handicap: HA; None if unknown.
            properties: Root properties of the record, such as KM; None for unknown ones.

        Raises:
            GameError: If there are fewer moves, or setup does not match.
        """
        moves, setup, setup_ply = self.arrays()
        ply = self._checked(ply)
        placed = setup_ply <= ply
        return Game(
            width=self.width, height=self.height, moves=moves[:ply], setup=setup[placed], setup_ply=setup_ply[placed],
            root_setup=int((setup_ply == 0).sum()), to_play=self.to_play, handicap=handicap,
            record=make_record(self.width, self.height, handicap, properties), warnings=ParseWarning(0),
            drop=DropReason.KEPT, source="", name="",
        )  # fmt: skip

    def to_json(self, rules: Rules = RECORD_RULES) -> dict[str, Any]:
        """Return the line with the changes on the board that each move makes.

        The value has the fields of the line; `start`, the stones before the first move; and `steps`, for each legal
        move, the points whose content changes: {"set": {point: colour}}, colour 0 for empty. Setup stones placed
        between moves belong to the step before them. `illegal` describes the first illegal move, if there is one;
        `moves` ends before it.
        """
        fields = self.model_dump()
        moves, setup, setup_ply = self.arrays()
        board = Board.after(self.width, self.height, moves, setup, setup_ply, 0, rules=rules)
        due = np.maximum.accumulate(setup_ply)
        stones = board.stones.ravel()
        steps: list[dict[int, int]] = []
        start, illegal = stones.tolist(), None
        for ply, word in enumerate(self.moves):
            try:
                board.play(word & POINT_MASK, WHITE if word & WHITE_BIT else 3 - WHITE)
            except GameError as error:
                why = error.reason.reason if isinstance(error, IllegalMove) else error
                illegal = f"move {ply + 1}: {why}"
                break
            if len(placed := setup[due == ply + 1]):
                board = _placed(board, placed)
            after = board.stones.ravel()
            changed = np.flatnonzero(after != stones)
            steps.append(dict(zip(changed.tolist(), after[changed].tolist())))
            stones = after
        return fields | {"moves": self.moves[: len(steps)], "start": start, "steps": steps, "illegal": illegal}


def _placed(board: Board, setup: np.ndarray) -> Board:
    """Return a board with more setup stones. Ko and superko start anew, as in `Board.after`."""
    stones = board.stones.ravel()
    points = np.flatnonzero(stones).astype(np.uint16)
    words = points | np.where(stones[points] == WHITE, WHITE_BIT, 0).astype(np.uint16)
    setup = np.concatenate([words, setup])
    placed = Board.after(
        board.width, board.height, np.empty(0, np.uint16), setup, np.zeros_like(setup), 0, rules=board.rules
    )
    placed.ply = board.ply
    return placed
