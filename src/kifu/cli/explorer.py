"""The interactive view of `kifu explore`: a board, its continuations, and the games in which they were played."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.theme import BUILTIN_THEMES

from kifu.cli.explorer_dialogs import Filter, choose_games
from kifu.cli.explorer_screen import ExplorerScreen
from kifu.search.position import Position
from kifu.search.searcher import Searcher

_ANSI = BUILTIN_THEMES["ansi-dark"]
_CURSORS = {
    "block-cursor-foreground": "ansi_bright_white",
    "block-cursor-background": "ansi_blue",
    "input-cursor-foreground": "ansi_default",
    "input-cursor-background": "ansi_default",
    "input-cursor-text-style": "reverse",
    "scrollbar-background": "ansi_default",
}
_THEME = replace(_ANSI, name="terminal", variables={**_ANSI.variables, **_CURSORS})
"""The colours of the terminal, which are readable on light and on dark background."""


class ExplorerApp(App[Exception]):
    """The program; its result is an unexpected error, or None."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "quit", show=False, priority=True)]

    def __init__(self, screen: ExplorerScreen) -> None:
        """Show a screen in the colours of the terminal."""
        super().__init__()
        self._first = screen

    def on_mount(self) -> None:
        """Show the screen."""
        self.register_theme(_THEME)
        self.theme = _THEME.name
        self.push_screen(self._first)


def run_explorer(
    searcher: Searcher,
    position: Position,
    where: str | None = None,
    player: str | None = None,
    colour: str | None = None,
    jobs: int = 1,
) -> None:
    """Explore a catalogue in the terminal until the user quits.

    Args:
        where: A condition on the games in SQL. The user may change it, like the next two.
        colour: "black" or "white", the colour of the player.

    Raises:
        RecipeError: If the condition or the colour is invalid, or the player has no games.
    """
    chosen = Filter(where, player, colour)
    screen = ExplorerScreen(searcher, position, chosen, choose_games(searcher, chosen), jobs)
    app = ExplorerApp(screen)
    error = app.run()
    if error is None and app.return_code:
        error = RuntimeError("the interactive view failed")
    if error is not None:
        raise error
