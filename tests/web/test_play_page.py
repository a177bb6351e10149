"""The page of play in a browser, by mouse and by keyboard."""

import re
from pathlib import Path
from typing import Any

import pytest

import kifu
from kifu.point import POINT_MASK
from web_site import ServedSite, axe, stones, tab_to

pytestmark = pytest.mark.slow

PASS = 19 * 19


def point(page: Any, x: int, y: int) -> Any:
    """Return the element of a point of the board."""
    return page.locator(f'.shudan-vertex[data-x="{x}"][data-y="{y}"]')


def wait_for_turn(page: Any, ply: int) -> None:
    """Wait until so many moves were played and the player is to move, or the game is over."""
    page.get_by_role("application", name=f"Board, move {ply}", exact=True).wait_for()
    page.get_by_text(re.compile("^(Your turn|The game is over: [BW].+)$")).wait_for()


def saved_game(page: Any, tmp_path: Path) -> kifu.Game:
    """Save the game as SGF by a press of the focused button and return it as `kifu.read` reads it."""
    with page.expect_download() as saved:
        page.keyboard.press("Enter")
    assert saved.value.suggested_filename == "game.sgf"
    saved.value.save_as(tmp_path / "game.sgf")
    (game,) = kifu.read(tmp_path / "game.sgf")
    return game


def test_whole_game_by_mouse(site_server: ServedSite, browser_page: Any, tmp_path: Path) -> None:
    page = browser_page
    page.goto(site_server.url + "/play")
    page.get_by_label("Temperature").fill("0")
    page.get_by_role("button", name="Start the game").click()
    point(page, 15, 3).click()
    wait_for_turn(page, 2)
    assert sum(map(bool, stones(page))) == 2
    page.get_by_role("button", name="Undo").click()
    wait_for_turn(page, 0)
    assert not any(stones(page))
    ply = 0
    for x, y in ((3, 3), (15, 15), (9, 9)):
        point(page, x, y).click()
        wait_for_turn(page, ply := ply + 2)
    before = stones(page)
    page.reload()
    wait_for_turn(page, ply)
    assert stones(page) == before
    while page.get_by_text("Your turn").is_visible():
        assert ply < 100
        page.get_by_role("button", name="Pass", exact=True).click()
        wait_for_turn(page, ply := ply + 2)
    result = page.get_by_text("The game is over").inner_text().rpartition(" ")[2]
    black, white = re.findall(r"\d+\.?\d*", page.get_by_text("Area: Black").inner_text())
    margin = float(black) - float(white)
    assert result == f"{'B' if margin > 0 else 'W'}+{abs(margin):g}"
    assert axe(page) == []
    page.reload()
    page.get_by_text(f"The game is over: {result}").wait_for()
    page.get_by_role("button", name="Save as SGF").focus()
    game = saved_game(page, tmp_path)
    moves = (game.moves & POINT_MASK).tolist()
    assert (len(moves), moves[0], moves[2], moves[-2:]) == (ply, 3 * 19 + 3, 15 * 19 + 15, [PASS, PASS])
    assert game.board(ply).stones.ravel().tolist() == stones(page)
    assert (game.players, str(game.result), game.komi) == (("You", "small"), result, 7.5)


def test_game_by_keyboard(site_server: ServedSite, browser_page: Any, tmp_path: Path) -> None:
    page = browser_page
    page.goto(site_server.url + "/play")
    tab_to(page, "Start the game")
    page.keyboard.press("Enter")
    page.get_by_role("application").wait_for()
    tab_to(page, "Board, move 0")
    page.keyboard.press("ArrowUp")
    assert "K11" in page.locator(".board [aria-live]").inner_text()
    page.keyboard.press("Enter")
    wait_for_turn(page, 2)
    assert stones(page)[8 * 19 + 9] == 1
    tab_to(page, "Pass")
    page.keyboard.press("Enter")
    wait_for_turn(page, 4)
    tab_to(page, "Undo")
    page.keyboard.press("Enter")
    wait_for_turn(page, 2)
    tab_to(page, "Resign")
    page.keyboard.press("Enter")
    page.get_by_text("The game is over: W+R").wait_for()
    tab_to(page, "Save as SGF")
    game = saved_game(page, tmp_path)
    assert (len(game), int(game.moves[0]), str(game.result)) == (2, 8 * 19 + 9, "W+R")
    tab_to(page, "New game")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Start the game").wait_for()
    page.reload()
    page.get_by_role("button", name="Start the game").wait_for()
