"""The main screen of `kifu explore`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, ScrollableContainer
from textual.events import Key, Resize
from textual.geometry import Size
from textual.widgets import DataTable, Footer, Input, Static

from kifu.cli.explorer_board import BoardView, Diagram, region_of, text_size
from kifu.cli.explorer_dialogs import Filter, FilterDialog, GamesDialog, HelpDialog, choose_games
from kifu.cli.explorer_game import GameRecord, GameScreen, game_line, replay
from kifu.cli.explorer_line import COLOURS, Line
from kifu.cli.explorer_side import SideView
from kifu.cli.explorer_text import make_labels, point_of
from kifu.cli.explorer_worker import SearchScreen
from kifu.errors import GameError, printable
from kifu.point import parse_gtp
from kifu.search.continuations import Continuation
from kifu.search.explore import Exploration
from kifu.search.position import Position
from kifu.search.searcher import GameSummary, Rows, Searcher

KEYS = """\
up, down          select a continuation
right, enter      play it
left, backspace   take back the last move
home              go to the start
Q16, D4, ...      play on a point: type it with a capital letter, enter
p                 pass
f                 filter the games by a condition in SQL and by player
g                 list example games; enter opens one
l                 label points with letters, or with shares in percent
y                 draw shares by year, counts by year, or neither
?                 show the keys
q                 quit

A click on a point plays there.

In a game, the arrow keys, home and end step through it, e explores its
position, and escape returns."""

_SIDE = 38
"""Columns of the right side that are kept free for it on a terminal of at least 80 columns."""

_LEAST_SIDE = 24
"""Columns of the right side beside boards that do not fit."""

_SLOW_S = 0.2
"""Seconds after which a search is shown as running."""

_LADDERS = ("share", "count", None)

_CACHED = 500
"""Positions of which the continuations are kept."""


class ExplorerScreen(SearchScreen):
    """A board on the left, and the continuations, bars by year and example games on the right."""

    DEFAULT_CSS = """
    ExplorerScreen {
        #top { height: 1; }
        #status, #title { text-wrap: nowrap; text-overflow: ellipsis; text-style: bold; }
        #status, #entry { width: 1fr; height: 1; }
        #title { width: auto; max-width: 50%; padding-left: 1; }
        #body { height: 1fr; }
        #board { height: 100%; scrollbar-size: 1 1; }
        #entry { display: none; }
    }"""
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "select(-1)", show=False),
        Binding("down", "select(1)", show=False),
        Binding("pageup", "select(-10)", show=False),
        Binding("pagedown", "select(10)", show=False),
        Binding("right,enter", "play", "play", key_display="→"),
        Binding("left,backspace", "back", "back", key_display="←"),
        Binding("home", "start", "start"),
        Binding("p", "pass", "pass"),
        Binding("f", "filter", "filter"),
        Binding("g", "games", "games"),
        Binding("l", "labels", "labels"),
        Binding("y", "ladder", "years"),
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("q", "app.quit", "quit"),
        Binding("escape", "leave_entry", show=False),
    ]

    def __init__(self, searcher: Searcher, position: Position, chosen: Filter, rows: Rows | None, jobs: int) -> None:
        """Show the continuations of a position in the games that the filter chose, found by `jobs` threads."""
        super().__init__()
        self._searcher, self._jobs = searcher, jobs
        self._line = Line(position)
        self._filter, self._rows = chosen, rows
        self._explored: dict[bytes, Exploration] = {}  # by stones, for the present filter
        self._found: Exploration | None = None
        self._games: dict[int, GameSummary] = {}
        self._asked: float | None = None
        self._error = ""
        self._with_shares = False
        self._ladder = 0

    @property
    def _continuations(self) -> Sequence[Continuation]:
        return self._found.continuations if self._found else ()

    @property
    def _selected(self) -> Continuation | None:
        return self._continuations[self._line.node.row] if self._continuations else None

    def compose(self) -> ComposeResult:
        """Yield the parts of the view."""
        with Horizontal(id="top"):
            yield Static(id="status")
            yield Input(id="entry", compact=True, select_on_focus=False)
            yield Static(id="title")
        with Horizontal(id="body"):
            with ScrollableContainer(id="board", can_focus=False):
                yield BoardView(Diagram(self._line.position))
            yield SideView()
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Begin the first search."""
        self.set_interval(0.1, self._show_status)
        self._search()

    def on_resize(self, event: Resize) -> None:
        """Fit the board and the table."""
        self._show()

    # keys

    def on_key(self, event: Key) -> None:
        """Begin the entry of a vertex with a capital letter."""
        if event.character and "A" <= event.character <= "Z" and not self.query_one(Input).display:
            event.stop()
            self._show_entry(event.character)

    def action_select(self, rows: int) -> None:
        """Select a continuation relative to the present one."""
        self._select_row(self._line.node.row + rows)

    def action_play(self) -> None:
        """Play the selected continuation."""
        selected = self._selected
        if selected is None:
            return
        if selected.colour is None:
            self._fail("these games end here")
        else:
            self._play(point_of(self._line.position, selected), COLOURS[selected.colour])

    def action_pass(self) -> None:
        """Pass."""
        self._play(None, self._line.next_colour(self._continuations, None))

    def action_back(self) -> None:
        """Take back a move."""
        if len(self._line.nodes) > 1:
            self._line.nodes.pop()
            self._search()

    def action_start(self) -> None:
        """Go back to the start."""
        if len(self._line.nodes) > 1:
            del self._line.nodes[1:]
            self._search()

    def action_labels(self) -> None:
        """Label points with letters or shares."""
        self._with_shares = not self._with_shares
        self._show()

    def action_ladder(self) -> None:
        """Show bars of shares, of counts, or none."""
        self._ladder = (self._ladder + 1) % len(_LADDERS)
        self._show()

    def action_help(self) -> None:
        """Show the keys."""
        self.app.push_screen(HelpDialog(KEYS))

    def action_filter(self) -> None:
        """Ask for a filter."""
        self.app.push_screen(FilterDialog(self._filter, self._apply_filter))

    def action_games(self) -> None:
        """List the example games."""
        if self._selected is not None:
            rows = list(dict.fromkeys([*self._selected.recent, *self._selected.strongest]))
            self.ask("list", partial(self._load_games, rows), self._list_games, self._fail)

    # points

    def _show_entry(self, text: str) -> None:
        entry = self.query_one(Input)
        self.query_one("#status").display = False
        entry.display = True
        entry.value = text
        entry.focus()
        entry.cursor_position = len(text)

    def action_leave_entry(self) -> None:
        """Close the entry of a vertex."""
        self.query_one(Input).display = False
        self.query_one("#status").display = True
        self.set_focus(None)

    @on(Input.Submitted)
    def _enter_vertex(self, event: Input.Submitted) -> None:
        self.action_leave_entry()
        position = self._line.position
        try:
            move = parse_gtp(event.value.strip(), position.width, position.height)
        except GameError as error:
            self._fail(str(error))
            return
        point = None if move == len(position.stones) else move
        self._play(point, self._line.next_colour(self._continuations, point))

    @on(BoardView.Picked)
    def _play_picked(self, event: BoardView.Picked) -> None:
        self._play(event.point, self._line.next_colour(self._continuations, event.point))

    @on(DataTable.RowHighlighted)
    def _click_row(self, event: DataTable.RowHighlighted) -> None:
        if event.cursor_row == self._line.node.row:
            self.action_play()
        else:
            self._select_row(event.cursor_row)

    @on(DataTable.RowSelected)
    def _click_selected_row(self) -> None:
        self.action_play()

    def _play(self, point: int | None, colour: int) -> None:
        position, row = self._line.position, self._line.node.row
        for k, each in enumerate(self._continuations):
            if each.colour and COLOURS[each.colour] == colour and point_of(position, each) == point:
                row = k
        try:
            self._line.play(point, colour)
        except GameError as error:
            self._fail(str(error))
            return
        self._line.nodes[-2].row = row
        self._search()

    def _select_row(self, row: int) -> None:
        self._error = ""
        self._line.node.row = min(max(row, 0), max(len(self._continuations) - 1, 0))
        self._show()

    # searches

    def _search(self) -> None:
        """Show the position, and search its continuations unless they are known."""
        self._error, self._asked, self.searched = "", None, 0.0
        position = self._line.position
        self._found = self._explored.get(position.stones.tobytes())
        self.workers.cancel_group(self, "explore")
        if self._found is None:
            self._asked = time.monotonic()
            explore = partial(self._searcher.explore, position, self._rows)
            explore = partial(explore, jobs=self._jobs, progress=self.progress)
            take = partial(self._take_exploration, position, self._filter)
            self.ask("explore", explore, take, self._fail_search)
        self._show()

    def _take_exploration(self, position: Position, chosen: Filter, found: Exploration) -> None:
        if chosen != self._filter:
            return
        if len(self._explored) >= _CACHED:
            self._explored.clear()
        self._explored[position.stones.tobytes()] = found
        if position is self._line.position:
            self._found, self._asked = found, None
            self._show()

    def _fail_search(self, line: str) -> None:
        self._asked = None
        self._fail(line)

    def _apply_filter(self, chosen: Filter, dialog: FilterDialog) -> None:
        def take(rows: Rows | None) -> None:
            if not dialog.is_attached:  # closed while the games were chosen
                return
            self._filter, self._rows = chosen, rows
            self._explored.clear()
            for node in self._line.nodes:
                node.row = 0
            dialog.dismiss()
            self._search()

        dialog.show_error("searching ...")
        select = partial(choose_games, self._searcher, chosen)
        self.ask("filter", select, take, dialog.show_error)

    def _load_games(self, rows: Sequence[int]) -> list[GameSummary]:
        missing = [row for row in rows if row not in self._games]
        if missing:
            self._games.update(zip(missing, self._searcher.games(missing)))
        return [self._games[row] for row in rows]

    def _list_games(self, games: Sequence[GameSummary]) -> None:
        position = self._line.position

        def explore(chosen: Diagram | None) -> None:
            if chosen is not None:
                self._line = Line(chosen.position, chosen.last)
                self._search()

        def show(game: GameSummary, record: GameRecord) -> None:
            self.app.push_screen(GameScreen(game, record, position), explore)

        def open_game(k: int | None) -> None:
            if k is not None:
                row = games[k].row
                self.ask("open", lambda: replay(self._searcher.moves(row)), partial(show, games[k]), self._fail)

        self.app.push_screen(GamesDialog([game_line(game) for game in games]), open_game)

    # display

    def _fail(self, line: str) -> None:
        self._error = line
        self._show_status()

    def _show(self) -> None:
        """Show the position, and what is known of it."""
        if not self.size:
            return
        self._show_board()
        self._show_status()
        title = f"{printable(self._searcher.catalogue.path.name)}: {str(self._filter) or 'all games'}"
        self.query_one("#title", Static).update(Text(title))
        side, node, selected = self.query_one(SideView), self._line.node, self._selected
        if self._found is None and self._asked is not None:
            return  # the former table remains until the search ends
        side.show_table(node.position, self._continuations, node.row)
        side.show_details(node.position, selected, self._found.games if self._found else 0)
        ladder = _LADDERS[self._ladder]
        years = self._found.by_year(selected) if self._found and selected and ladder else None
        side.show_ladder(years, shares=ladder == "share")
        self._show_games(selected)

    def _show_board(self) -> None:
        node, selected = self._line.node, self._selected
        labels = make_labels(node.position, self._continuations, shares=self._with_shares)
        point = point_of(node.position, selected) if selected else None
        board, box = self.query_one(BoardView), self.query_one("#board", ScrollableContainer)
        height = self.size.height - 2  # without the first line and the keys
        board.show(Diagram(node.position, node.last, labels, point), Size(self.size.width - _SIDE - 1, height))
        size = text_size(node.position, board.scale)
        width = min(size.width + (size.height > height), self.size.width - _LEAST_SIDE)
        box.styles.width = max(width, 1)
        if point is not None:
            box.scroll_to_region(region_of(node.position, board.scale, point), animate=False)

    def _show_games(self, selected: Continuation | None) -> None:
        side = self.query_one(SideView)
        if selected is None:
            side.show_games([], [])
            return
        recent, strongest = (rows[: side.game_count] for rows in (selected.recent, selected.strongest))

        def take(games: Sequence[GameSummary]) -> None:
            if selected is self._selected:
                lines = [game_line(game) for game in games]
                side.show_games(lines[: len(recent)], lines[len(recent) :])

        rows = [*recent, *strongest]
        if all(row in self._games for row in rows):
            take([self._games[row] for row in rows])
        else:
            self.ask("games", partial(self._load_games, rows), take, self._fail)

    def _show_status(self) -> None:
        waited = time.monotonic() - self._asked if self._asked is not None else 0.0
        if self._error:
            line = self._error
        elif waited >= _SLOW_S:
            line = f"searching ... {waited:.1f} s, {self.searched:.0%}"
        else:
            line = str(self._line)
        self.query_one("#status", Static).update(Text(line))
