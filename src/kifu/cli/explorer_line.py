"""The line of moves that `kifu explore` shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kifu.cli.explorer_text import point_of
from kifu.go.board import Board
from kifu.point import BLACK, WHITE, pass_move, to_gtp
from kifu.search.continuations import Continuation
from kifu.search.position import Position, board_position

COLOURS = {"black": BLACK, "white": WHITE}


@dataclass(slots=True)
class Node:
    """A position of the line.

    Attributes:
        last: Point of the last move; None if unknown, or a pass.
        name: The last move as a GTP vertex.
        row: Number of the continuation that is selected.
    """

    position: Position
    last: int | None = None
    name: str = ""
    row: int = 0


class Line:
    """A start position and the positions after each move from it; at least the start."""

    def __init__(self, start: Position, last: int | None = None) -> None:
        """Begin at a position, after a move on the point `last` if it is known."""
        self.nodes = [Node(start, last)]

    @property
    def node(self) -> Node:
        """The last position."""
        return self.nodes[-1]

    @property
    def position(self) -> Position:
        """The stones of the last position."""
        return self.node.position

    def play(self, point: int | None, colour: int) -> None:
        """Add a move; None passes.

        Raises:
            GameError: If the move is illegal, or a stone of the position has no liberty.
        """
        position = self.position
        board = Board(position.width, position.height)
        board.setup(*(np.flatnonzero(position.stones == each).tolist() for each in (BLACK, WHITE)))
        move = pass_move(position.width, position.height) if point is None else point
        board.play(move, colour)
        self.nodes.append(Node(board_position(board), point, to_gtp(move, position.width, position.height)))

    def next_colour(self, continuations: Sequence[Continuation], point: int | None) -> int:
        """Return the colour that plays on a point: that of a continuation there, else of the next player."""
        position = self.position
        players = [(each.colour, point_of(position, each) == point) for each in continuations if each.colour]
        if here := [colour for colour, is_here in players if is_here]:
            return COLOURS[here[0]]
        if position.next_colour is not None:
            return position.next_colour
        if players:
            return COLOURS[players[0][0]]
        return WHITE if np.sum(position.stones == BLACK) > np.sum(position.stones == WHITE) else BLACK

    def __str__(self) -> str:
        """Return the moves."""
        return " ".join(["start", *(node.name for node in self.nodes[1:])])
