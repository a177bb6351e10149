"""The right side of `kifu explore`: the table of continuations, and facts about the selected one."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import DataTable, Static

from kifu.cli.explorer_text import COLUMNS, details, draw_ladder, fitting_columns, table_rows
from kifu.search.continuations import Continuation, YearCount
from kifu.search.position import Position

_ROOMY = 30
"""Lines of a side with space between its parts."""

_GAMES = {False: 2, True: 5}
"""Example games of each kind, by roominess."""

_BARS = {False: 2, True: 5}
"""Lines of bars, likewise."""


class SideView(Vertical):
    """The table, details of the selected continuation, its bars by year, and its example games."""

    DEFAULT_CSS = """
    SideView {
        width: 1fr;
        padding-left: 1;
        DataTable { height: 1fr; scrollbar-size: 1 1; }
        DataTable:ansi > .datatable--header { background: $background; text-style: bold underline; }
        DataTable:ansi > .datatable--cursor {
            background: $block-cursor-background;
            color: $block-cursor-foreground;
            text-style: bold;
        }
        Static { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }
        #ladder { color: $accent; }
        &.roomy Static { margin-top: 1; }
    }"""

    def __init__(self) -> None:
        """Begin empty."""
        super().__init__()
        self._shown: Sequence[Continuation] = ()
        self._columns = 0

    def compose(self) -> ComposeResult:
        """Yield the parts."""
        table: DataTable[Text] = DataTable(cursor_type="row", cell_padding=0)
        table.can_focus = False
        yield table
        for part in ("details", "ladder", "games"):
            yield Static(id=part)

    @property
    def game_count(self) -> int:
        """The number of example games of each kind that fit."""
        return _GAMES[self._is_roomy]

    @property
    def _is_roomy(self) -> bool:
        return self.size.height >= _ROOMY

    def show_table(self, position: Position, continuations: Sequence[Continuation], row: int) -> None:
        """Show the continuations with a row selected; the table changes only if they or its columns do."""
        table = self.query_one(DataTable)
        columns = fitting_columns(self.size.width - 1)  # and a scroll bar
        with table.prevent(DataTable.RowHighlighted):
            if columns != self._columns:
                table.clear(columns=True)
                for name, width in COLUMNS[:columns]:
                    table.add_column(Text(name, justify="left" if name == COLUMNS[0][0] else "right"), width=width)
            if columns != self._columns or continuations is not self._shown:
                table.clear()
                for first, *others in table_rows(position, continuations):
                    cells = (Text(cell, justify="right") for cell in others[: columns - 1])
                    table.add_row(Text(first), *cells)
            table.show_cursor = bool(continuations)
            table.move_cursor(row=row)
        self._columns, self._shown = columns, continuations

    def show_details(self, position: Position, selected: Continuation | None, games: int) -> None:
        """Show facts about the selected continuation, if there are any games."""
        self.set_class(self._is_roomy, "roomy")
        lines = details(position, selected, games) if selected else ["no games with this position"]
        self._update("details", lines)

    def show_ladder(self, years: Sequence[YearCount] | None, *, shares: bool) -> None:
        """Show bars by year; None removes them."""
        width, height = max(self.size.width, 1), _BARS[self._is_roomy]
        lines = draw_ladder(years, width, height, shares=shares) if years else []
        self._update("ladder", lines)

    def show_games(self, recent: Sequence[str], strongest: Sequence[str]) -> None:
        """Show example games by one line each."""
        lines = ["latest games:", *recent] if recent else []
        lines += ["strongest games:", *strongest] if strongest else []
        self._update("games", lines)

    def _update(self, part: str, lines: Sequence[str]) -> None:
        widget = self.query_one(f"#{part}", Static)
        widget.display = bool(lines)
        widget.update(Text("\n".join(lines)))
