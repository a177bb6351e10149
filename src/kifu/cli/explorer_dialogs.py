"""Dialogs of `kifu explore`: the filter, the list of example games, and the keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from kifu.cli.search_input import select_games
from kifu.errors import RecipeError
from kifu.search.searcher import Rows, Searcher

_FRAME = """
    align: center middle;
    Vertical, VerticalScroll {
        width: 76;
        max-width: 100%;
        height: auto;
        max-height: 100%;
        border: round $primary;
        padding: 0 1;
    }
"""


@dataclass(frozen=True, slots=True)
class Filter:
    """The games to search in.

    Attributes:
        where: A condition in SQL over the columns of the catalogue; None for all games.
        player: The name of one of the players; None for any.
        colour: "black" or "white", the colour of the player; None for either.
    """

    where: str | None = None
    player: str | None = None
    colour: str | None = None

    def __str__(self) -> str:
        """Return the filter in one line; "" for all games."""
        player = f"{self.player} as {self.colour}" if self.colour else self.player
        return ", ".join(part for part in (self.where, player) if part)


def choose_games(searcher: Searcher, chosen: Filter) -> Rows | None:
    """Return the games of a filter.

    Raises:
        RecipeError: If it is invalid, or no games match.
    """
    rows = select_games(searcher, chosen.where, chosen.player, chosen.colour)
    if rows is not None and not rows.any():
        raise RecipeError(f"no games match: {chosen}")
    return rows


class FilterDialog(ModalScreen[None]):
    """Asks for a filter, and remains open until it is valid."""

    DEFAULT_CSS = f"""FilterDialog {{ {_FRAME}
        #error {{ color: $error; }}
    }}"""
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss", "Close")]

    def __init__(self, current: Filter, apply: Callable[[Filter, FilterDialog], None]) -> None:
        """Begin with the present filter.

        Args:
            apply: Called with each filter that is entered; it closes the dialog or shows an error in it.
        """
        super().__init__()
        self._current, self._apply = current, apply

    def compose(self) -> ComposeResult:
        """Yield the fields."""
        current = self._current
        with Vertical():
            yield Label("Games where, in SQL:")
            yield self._field("where", current.where, "black_rating >= 36 and year >= 2016")
            yield Label("Player:")
            yield self._field("player", current.player, "any")
            yield Label("Colour of the player:")
            yield self._field("colour", current.colour, "black or white")
            yield Static(id="error")
            yield Label("enter: apply   tab: next field   escape: close   empty fields: all games")

    def _field(self, name: str, value: str | None, placeholder: str) -> Input:
        return Input(value or "", placeholder, id=name, compact=True, select_on_focus=False)

    @on(Input.Submitted)
    def _enter(self) -> None:
        values = (self.query_one(f"#{name}", Input).value.strip() for name in ("where", "player", "colour"))
        self._apply(Filter(*(value or None for value in values)), self)

    def show_error(self, line: str) -> None:
        """Show a line below the fields, unless the dialog was closed."""
        if self.is_attached:
            self.query_one("#error", Static).update(Text(line))


class GamesDialog(ModalScreen[int]):
    """A list of games; its result is the number of the chosen one."""

    DEFAULT_CSS = f"GamesDialog {{ {_FRAME} }}"
    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,g,left", "dismiss", "Close")]

    def __init__(self, lines: Sequence[str]) -> None:
        """List games by one line each."""
        super().__init__()
        self._lines = lines

    def compose(self) -> ComposeResult:
        """Yield the list."""
        with Vertical():
            yield OptionList(*(Option(Text(line)) for line in self._lines), compact=True)
            yield Label("enter: open   escape: close")

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_index)


class HelpDialog(ModalScreen[None]):
    """The keys."""

    DEFAULT_CSS = f"HelpDialog {{ {_FRAME} }}"
    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,question_mark,enter", "dismiss", "Close")]

    def __init__(self, keys: str) -> None:
        """Show a description of keys."""
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        """Yield the text."""
        with VerticalScroll():
            yield Static(Text(self._keys))
