"""The view of one game in `kifu explore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, ScrollableContainer
from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import Footer, Static

from kifu.cli.explorer_board import BoardView, Diagram
from kifu.errors import printable
from kifu.point import POINT_MASK, symmetries
from kifu.records.games import MoveArrays
from kifu.search.position import Position, game_position
from kifu.search.searcher import GameSummary

_SIDE = 30
"""Columns of the facts beside the board."""


def players(game: GameSummary) -> str:
    """Return the players with their ranks in one printable line."""
    sides = ((game.black, game.black_rank), (game.white, game.white_rank))
    return printable(" - ".join((name or "?") + (f" [{rank}]" if rank else "") for name, rank in sides))


def game_line(game: GameSummary) -> str:
    """Return year, result and players in one printable line."""
    return printable(f"{game.year or '?':4}  {(game.result or '?')[:8]:8}  ") + players(game)


class GameRecord(NamedTuple):
    """The course of a game.

    Attributes:
        moves: [T] uint16, see `kifu.records.games.MoveArrays`.
        positions: The T + 1 positions before each move and at the end.
    """

    moves: npt.NDArray[np.uint16]
    positions: list[Position]


def replay(games: MoveArrays) -> GameRecord:
    """Return the course of a game.

    Raises:
        GameError: If a move is illegal.
    """
    return GameRecord(games.moves, [game_position(games, 0, ply) for ply in range(len(games.moves) + 1)])


def find_position(positions: Sequence[Position], wanted: Position) -> tuple[int, int]:
    """Return the first ply of a game at which a position occurs, and the symmetry that maps the game to it.

    Returns:
        0, 0 if it does not occur.
    """
    width, height = positions[0].width, positions[0].height
    images: dict[bytes, int] = {}
    for k in range(8):
        if (wanted.width, wanted.height) == ((width, height) if k < 4 else (height, width)):
            images.setdefault(wanted.stones[symmetries(width, height)[k][:-1]].tobytes(), k)
    found = ((ply, images.get(each.stones.tobytes(), -1)) for ply, each in enumerate(positions))
    return next((pair for pair in found if pair[1] >= 0), (0, 0))


class GameScreen(Screen[Diagram]):
    """A game to step through; its result is the position to explore, or None."""

    DEFAULT_CSS = """
    GameScreen {
        ScrollableContainer { width: auto; }
        #facts { width: 1fr; padding: 0 1; }
    }"""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,backspace", "step(-1)", "back", key_display="←"),
        Binding("right,enter,space", "step(1)", "forward", key_display="→"),
        Binding("up,pageup", "step(-10)", "10 back", key_display="↑"),
        Binding("down,pagedown", "step(10)", "10 forward", key_display="↓"),
        Binding("home", "step(-100000)", "start"),
        Binding("end", "step(100000)", "end"),
        Binding("e", "explore", "explore"),
        Binding("escape,q,g", "dismiss", "return"),
    ]

    def __init__(self, game: GameSummary, record: GameRecord, position: Position) -> None:
        """Show a game at the first occurrence of a position, in the orientation of the position."""
        super().__init__()
        self._game, self._record = game, record
        self._ply, self._symmetry = find_position(record.positions, position)

    def compose(self) -> ComposeResult:
        """Yield the board and the facts."""
        with Horizontal():
            with ScrollableContainer(can_focus=False):
                yield BoardView(self._diagram())
            yield Static(id="facts")
        yield Footer(show_command_palette=False, compact=True)

    def on_resize(self, event: Resize) -> None:
        """Fit the board."""
        self._show()

    def action_step(self, plies: int) -> None:
        """Go forward or back."""
        self._ply = min(max(self._ply + plies, 0), len(self._record.moves))
        self._show()

    def action_explore(self) -> None:
        """Leave with the position that is shown."""
        self.dismiss(self._diagram())

    def _diagram(self) -> Diagram:
        found = self._record.positions[self._ply]
        image = symmetries(found.width, found.height)[self._symmetry]
        stones = np.empty_like(found.stones)
        stones[image[:-1]] = found.stones
        width, height = (found.width, found.height)[:: -1 if self._symmetry >= 4 else 1]
        move = int(self._record.moves[self._ply - 1] & POINT_MASK) if self._ply else len(stones)
        position = Position(width, height, stones, found.next_colour)
        return Diagram(position, int(image[move]) if move < len(stones) else None)

    def _show(self) -> None:
        space = Size(self.size.width - _SIDE, self.size.height - 1)
        self.query_one(BoardView).show(self._diagram(), space)
        self.query_one("#facts", Static).update(Text(self._facts()))

    def _facts(self) -> str:
        game = self._game
        facts = (("result", game.result), ("date", game.date or game.year), ("event", game.event))
        lines = [*players(game).split(" - ", 1), ""]
        lines += [f"{name}: {printable(value)}" for name, value in facts if value]
        lines += [f"game {game.row + 1} of the catalogue", "", f"move {self._ply} of {len(self._record.moves)}"]
        return "\n".join([*lines, "turned or mirrored, as explored"] if self._symmetry else lines)
