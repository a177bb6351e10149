"""The interactive view of `kifu explore`, driven by keys without a terminal."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, OptionList, Static

import kifu
from kifu.cli.explorer import ExplorerApp, run_explorer
from kifu.cli.explorer_board import BoardView, Diagram, Label, draw_diagram, point_at, region_of, text_size
from kifu.cli.explorer_dialogs import Filter, FilterDialog, GamesDialog, HelpDialog
from kifu.cli.explorer_game import GameScreen, find_position, replay
from kifu.cli.explorer_line import Line
from kifu.cli.explorer_screen import ExplorerScreen
from kifu.cli.explorer_text import COLUMNS, draw_ladder, fitting_columns
from kifu.errors import RecipeError
from kifu.point import BLACK, WHITE, parse_gtp, symmetries
from kifu.records.game import read_sgf
from kifu.search.continuations import YearCount
from kifu.search.position import Position
from kifu.search.searcher import Searcher

Script = Callable[[Pilot[Any]], Awaitable[None]]


def board(width: int = 19, height: int | None = None) -> Position:
    height = height or width
    return Position(width, height, np.zeros(width * height, np.uint8), BLACK)


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    catalogue = tmp_path_factory.mktemp("explorer") / "games.parquet"
    kifu.ingest(kifu.sample_path(), catalogue)
    return Searcher(catalogue)


def drive(
    searcher: Searcher, script: Script, position: Position | None = None, size: tuple[int, int] = (80, 24)
) -> ExplorerApp:
    """Run a script of keys from a position; return the program after it."""
    app = ExplorerApp(ExplorerScreen(searcher, position or board(), Filter(), None, 1))

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await script(pilot)

    asyncio.run(run())
    return app


async def settle(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys, and wait for all searches after each of them."""
    for key in keys or ("",):
        if key:
            await pilot.press(key)
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()


def shown(pilot: Pilot[Any], part: str) -> str:
    return str(pilot.app.screen.query_one(f"#{part}", Static).render())


def diagram(pilot: Pilot[Any]) -> Diagram:
    return pilot.app.screen.query_one(BoardView).diagram


def table(pilot: Pilot[Any]) -> list[list[str]]:
    shown = pilot.app.screen.query_one(DataTable)
    return [[str(cell) for cell in shown.get_row_at(k)] for k in range(shown.row_count)]


# the board


def test_board_marks_stones_last_move_and_continuations() -> None:
    stones = np.zeros(20, np.uint8)
    stones[[0, 6, 8]] = BLACK, WHITE, BLACK
    drawn = Diagram(Position(5, 4, stones), last=6, labels={12: Label("A", ("A", "62%", "1.2k"))})
    lines = ["   A B C D E ", " 4 X─┬─┬─┬─┐ ", " 3 ├(O)┼─X─┤ ", " 2 ├─┼─A─┼─┤ ", " 1 └─┴─┴─┴─┘ "]
    assert draw_diagram(drawn, coloured=False).plain.splitlines() == lines
    assert draw_diagram(drawn).plain == "\n".join(lines).replace("X", "●").replace("O", "●")


def test_large_board_shows_shares_and_counts() -> None:
    stones = np.array([0, 0, WHITE, BLACK], np.uint8)
    drawn = Diagram(Position(2, 2, stones), last=3, labels={0: Label("A", ("A", "62%", "1.2k"))}, selected=0)
    assert draw_diagram(drawn, 3).plain.splitlines() == [
        "     A     B   ",
        "     A         ",
        " 2  62% ───┐   ",
        "   1.2k    │   ",
        "   ▗███▖ ▗███▖ ",
        " 1 █████─██●██ ",
        "   ▝███▘ ▝███▘ ",
    ]


@given(st.integers(1, 25), st.integers(1, 25), st.sampled_from([1, 3]), st.data())
def test_clicks_find_the_point_that_is_drawn_there(width: int, height: int, scale: int, data: st.DataObject) -> None:
    position = board(width, height)
    point = data.draw(st.integers(0, width * height - 1))
    region = region_of(position, scale, point)
    column = data.draw(st.integers(region.x, region.right - 1))
    line = data.draw(st.integers(region.y, region.bottom - 1))
    assert point_at(position, scale, column, line) == point
    assert region.right <= text_size(position, scale).width
    assert draw_diagram(Diagram(position), scale).plain.count("\n") + 1 == text_size(position, scale).height


# texts


def test_ladder_draws_shares_or_counts() -> None:
    years = [YearCount(2000, 10, 5), YearCount(2001, 100, 10), YearCount(2003, 10, 10), YearCount(None, 7, 7)]
    assert draw_ladder(years, 10, 2, shares=True) == [
        "share per year, up to 100.0 %",
        "      █ ",
        "█ ▂   █ ",
        "2000 2003",
    ]
    assert draw_ladder(years, 3, 1, shares=False) == ["count per 2 years, up to 15", "█▅", "2000 2003"]
    assert draw_ladder(years[3:], 10, 2, shares=True) == ["no years are recorded"]


def test_narrow_tables_have_fewer_columns() -> None:
    assert [fitting_columns(width) for width in (5, 21, 37, 200)] == [1, 3, 5, len(COLUMNS)]


@given(st.integers(0, 7), st.integers(0, 6))
def test_games_open_at_the_position_in_its_orientation(k: int, ply: int) -> None:
    _, positions = replay(read_sgf(b"(;SZ[5]AB[ee];B[ba];W[cc];B[dd];W[ca];B[ea];W[ed])").arrays())
    found = positions[ply]
    stones = np.empty_like(found.stones)
    stones[symmetries(5, 5)[k][:-1]] = found.stones
    at, symmetry = find_position(positions, Position(5, 5, stones))
    assert at == ply
    assert np.array_equal(stones[symmetries(5, 5)[symmetry][:-1]], found.stones)
    assert find_position(positions, board(5)) == (0, 0)


def test_moves_capture_and_alternate() -> None:
    line = Line(board(3))
    for name, colour in (("A3", WHITE), ("B3", BLACK), ("A2", BLACK)):
        line.play(parse_gtp(name, 3), colour)
    assert line.position.stones.tolist() == [0, BLACK, 0, BLACK, 0, 0, 0, 0, 0]
    assert (str(line), line.next_colour([], 8)) == ("start A3 B3 A2", WHITE)


# keys


def test_arrow_keys_walk_through_continuations(searcher: Searcher) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await settle(pilot)
        expected = searcher.explore(board()).continuations
        assert [int(row[1].replace(",", "")) for row in table(pilot)] == [each.count for each in expected]
        assert table(pilot)[0][0].split()[0] == "A"
        await settle(pilot, "down", "right")
        played = expected[1]
        assert diagram(pilot).last == played.y * 19 + played.x
        assert diagram(pilot).position.stones.sum() == BLACK
        assert sum(int(row[1].replace(",", "")) for row in table(pilot)) == played.count
        await settle(pilot, "enter")
        assert len(shown(pilot, "status").split()) == 3
        await settle(pilot, "left", "backspace")
        assert diagram(pilot).selected == played.y * 19 + played.x
        await settle(pilot, "right", "right", "home")
        assert shown(pilot, "status") == "start"

    drive(searcher, script)


def test_points_are_typed_or_clicked(searcher: Searcher) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await settle(pilot, *"Q16", "enter", *"K", "1", "0", "enter", "p")
        assert shown(pilot, "status") == "start Q16 K10 pass"
        assert diagram(pilot).position.stones[[72, 180]].tolist() == [BLACK, WHITE]
        await settle(pilot, *"Z9", "enter")
        assert "'Z9' is not a GTP vertex" in shown(pilot, "status")
        await settle(pilot, *"K10", "enter")
        assert "illegal: a move on an occupied point" in shown(pilot, "status")
        await settle(pilot, "A", "escape")
        assert not pilot.app.screen.query_one(Input).display
        region = region_of(board(), 1, 0)
        await pilot.click(BoardView, offset=(region.x, region.y))
        await settle(pilot)
        assert shown(pilot, "status").endswith("pass A19")

    drive(searcher, script)


def test_labels_and_years_are_switched(searcher: Searcher) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await settle(pilot)
        letters = {label.short for label in diagram(pilot).labels.values()}
        assert "A" in letters
        assert shown(pilot, "ladder").startswith("share")
        await settle(pilot, "l", "y")
        assert all(not label.short.isalpha() for label in diagram(pilot).labels.values())
        assert shown(pilot, "ladder").startswith("count")
        await settle(pilot, "y")
        assert not pilot.app.screen.query_one("#ladder").display

    drive(searcher, script)


def test_help_lists_the_keys(searcher: Searcher) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await settle(pilot, "question_mark")
        assert isinstance(pilot.app.screen, HelpDialog)
        await settle(pilot, "escape")
        assert isinstance(pilot.app.screen, ExplorerScreen)
        await pilot.press("q")

    assert drive(searcher, script).return_value is None


# sizes


@pytest.mark.parametrize(("size", "scale", "columns"), [((80, 24), 1, 5), ((120, 40), 1, 7), ((200, 60), 3, 7)])
def test_board_and_table_fit_the_terminal(searcher: Searcher, size: tuple[int, int], scale: int, columns: int) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await settle(pilot)
        await pilot.resize_terminal(*size)
        await settle(pilot)
        view = pilot.app.screen.query_one(BoardView)
        assert (view.scale, view.size) == (scale, text_size(board(), scale))
        assert len(table(pilot)[0]) == columns
        assert len(table(pilot)) == len(searcher.explore(board()).continuations)

    drive(searcher, script, size=(100, 30))


def test_tiny_terminals_show_what_fits(searcher: Searcher) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await settle(pilot)
        for size in ((10, 3), (2, 1), (80, 24)):
            await pilot.resize_terminal(*size)
            await settle(pilot, "down", "y")
        assert len(table(pilot)[0]) == 5

    drive(searcher, script)


def test_larger_boards_scroll_to_the_selected_continuation(tmp_path: Path) -> None:
    (tmp_path / "game.sgf").write_bytes(b"(;GM[1]SZ[25];B[yy];W[aa])")
    kifu.ingest(tmp_path / "game.sgf", tmp_path / "games.parquet")

    async def script(pilot: Pilot[Any]) -> None:
        for size in ((80, 24), (30, 8)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            point = diagram(pilot).selected
            assert point is not None
            view = pilot.app.screen.query_one(BoardView)
            place = region_of(board(25), 1, point).translate(view.region.offset)
            assert view.parent is not None
            assert view.parent.region.contains_region(place)

    drive(Searcher(tmp_path / "games.parquet"), script, board(25))


def test_boards_of_other_sizes_are_large_where_they_fit(searcher: Searcher) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await settle(pilot)
        assert pilot.app.screen.query_one(BoardView).size == text_size(board(9), 3)
        assert table(pilot) == []
        await settle(pilot, "down", "right", "g", "p")
        assert shown(pilot, "status") == "start pass"

    drive(searcher, script, board(9), size=(120, 40))


def test_stones_are_letters_without_colours(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def script(pilot: Pilot[Any]) -> None:
        await settle(pilot, "right", "right")
        lines = pilot.app.screen.query_one(BoardView).render().plain
        assert ("(O)" in lines, lines.count("X")) == (True, 1)

    drive(searcher, script)


# searches


def test_filter_stays_open_until_it_is_valid(searcher: Searcher) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await settle(pilot)
        everything = sum(int(row[1]) for row in table(pilot))
        await settle(pilot, "f", *"oops > 3", "enter")
        assert isinstance(pilot.app.screen, FilterDialog)
        assert "oops" in shown(pilot, "error")
        pilot.app.screen.query_one("#where", Input).value = "winner = 'black'"
        await settle(pilot, "enter")
        assert isinstance(pilot.app.screen, ExplorerScreen)
        assert shown(pilot, "title") == "games.parquet: winner = 'black'"
        assert 0 < sum(int(row[1]) for row in table(pilot)) < everything
        await settle(pilot, "f")
        pilot.app.screen.query_one("#player", Input).value = "Honinbo Shusaku"
        await settle(pilot, "enter")
        assert "Honinbo Shusaku" in shown(pilot, "error")
        await settle(pilot, "escape")
        assert shown(pilot, "title") == "games.parquet: winner = 'black'"

    drive(searcher, script)


class _SlowFilter(Searcher):
    """Waits for permission to choose games."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.may_end = threading.Event()

    def select(self, *args: Any, **options: Any) -> Any:
        self.may_end.wait()
        return super().select(*args, **options)


@pytest.mark.parametrize("condition", ["winner = 'black'", "oops = 3"])
def test_closing_the_dialog_keeps_the_filter(searcher: Searcher, condition: str) -> None:
    slow = _SlowFilter(searcher.catalogue.path)

    async def script(pilot: Pilot[Any]) -> None:
        await settle(pilot, "f")
        pilot.app.screen.query_one("#where", Input).value = condition
        await pilot.press("enter", "escape")
        slow.may_end.set()
        await settle(pilot)
        assert shown(pilot, "title") == "games.parquet: all games"
        assert shown(pilot, "status") == "start"

    drive(slow, script)


def test_filters_are_described() -> None:
    assert str(Filter()) == ""
    assert str(Filter("year > 2000", "honinbo", "white")) == "year > 2000, honinbo as white"


class _Slow(Searcher):
    """Waits for permission to search."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.may_end, self.ended = threading.Event(), 0

    def explore(self, position: Any, games: Any = None, *, jobs: int = 1, progress: Any = None) -> Any:
        with progress("searching", 4, "games") as bar:
            bar.advance()
            self.may_end.wait()
            bar.advance()
        self.ended += 1
        return super().explore(position, games)


def test_slow_searches_show_progress_and_do_not_block_keys(searcher: Searcher) -> None:
    slow = _Slow(searcher.catalogue.path)

    async def script(pilot: Pilot[Any]) -> None:
        for _ in range(1000):
            if shown(pilot, "status").endswith(" s, 25%"):
                break
            await pilot.pause(0.05)
        assert shown(pilot, "status").endswith(" s, 25%")
        await pilot.press(*"Q16", "enter")
        assert diagram(pilot).position.stones.sum() == BLACK
        slow.may_end.set()
        await settle(pilot)
        assert slow.ended == 1  # the first search was given up
        assert len(table(pilot)) == len(searcher.explore(diagram(pilot).position).continuations)

    drive(slow, script)


def test_positions_are_searched_once(searcher: Searcher) -> None:
    slow = _Slow(searcher.catalogue.path)
    slow.may_end.set()

    async def script(pilot: Pilot[Any]) -> None:
        await settle(pilot, "right", "left", "right", "left")
        assert slow.ended == 2

    drive(slow, script)


def test_errors_of_searches_are_shown(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await settle(pilot)

        def fail(*_: Any, **__: Any) -> None:
            raise RecipeError("games.parquet is damaged")

        monkeypatch.setattr(searcher, "explore", fail)
        await settle(pilot, "right")
        assert shown(pilot, "status") == "games.parquet is damaged"
        await settle(pilot, "left")
        assert shown(pilot, "status") == "start"

    drive(searcher, script)


def test_unexpected_errors_end_the_program(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("nothing to divide by")

    monkeypatch.setattr(searcher, "explore", fail)
    app = drive(searcher, settle)
    assert isinstance(app.return_value, ZeroDivisionError)
    monkeypatch.setattr(ExplorerApp, "run", lambda _: app.return_value)
    with pytest.raises(ZeroDivisionError, match="nothing to divide by"):
        run_explorer(searcher, board())
    monkeypatch.setattr(ExplorerApp, "run", lambda _: None)
    run_explorer(searcher, board())
    monkeypatch.setattr(ExplorerApp, "return_code", 1)  # as after an error in the view itself
    with pytest.raises(RuntimeError, match="the interactive view failed"):
        run_explorer(searcher, board())


def test_invalid_filters_are_refused_at_the_start(searcher: Searcher) -> None:
    with pytest.raises(RecipeError, match="oops"):
        run_explorer(searcher, board(), "oops = 3")


# games


def test_games_with_illegal_moves_are_refused(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await settle(pilot)
        moves = read_sgf(b"(;SZ[19];B[aa];W[aa])").arrays()
        monkeypatch.setattr(searcher, "moves", lambda row: moves)
        await settle(pilot, "g", "enter")
        assert "move 2 (point 0) is illegal" in shown(pilot, "status")

    drive(searcher, script)


def test_example_games_open_at_the_position(searcher: Searcher) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await settle(pilot, "right", "right")
        explored, latest = diagram(pilot), shown(pilot, "games").splitlines()
        assert latest[0] == "latest games:"
        await settle(pilot, "g")
        assert isinstance(pilot.app.screen, GamesDialog)
        listed = pilot.app.screen.query_one(OptionList)
        assert str(listed.get_option_at_index(0).prompt) == latest[1]
        assert listed.option_count > 1
        await settle(pilot, "enter")
        assert isinstance(pilot.app.screen, GameScreen)
        assert np.array_equal(diagram(pilot).position.stones, explored.position.stones)
        await settle(pilot, "right")
        assert np.count_nonzero(diagram(pilot).position.stones) == 3
        await settle(pilot, "down", "up")
        assert np.count_nonzero(diagram(pilot).position.stones) == 3
        await settle(pilot, "end", "home")
        assert not diagram(pilot).position.stones.any()
        await settle(pilot, "down", "e")
        assert isinstance(pilot.app.screen, ExplorerScreen)
        assert np.count_nonzero(diagram(pilot).position.stones) == 10
        assert len(table(pilot)) >= 1
        await settle(pilot, "g", "enter", "escape")
        assert isinstance(pilot.app.screen, ExplorerScreen)

    drive(searcher, script)
