"""The page of play in a browser, by mouse and by keyboard, in all windows."""

import re
from pathlib import Path
from typing import Any

import pytest

import kifu
from kifu.point import POINT_MASK
from kifu.web.site import Site
from nets import tiny_net
from web_site import (
    STONES,
    ServedSite,
    axe,
    expect,
    in_all_windows,
    open_page,
    serving,
    stones,
    tab_to,
    wait_for_stones,
)

pytestmark = [pytest.mark.slow, in_all_windows]

PASS = 19 * 19


def point(page: Any, x: int, y: int) -> Any:
    return page.locator(f'.shudan-vertex[data-x="{x}"][data-y="{y}"]')


def wait_for_turn(page: Any, ply: int) -> None:
    page.get_by_role("application", name=f"Board, move {ply}", exact=True).wait_for()
    page.get_by_text(re.compile("^(Your turn|The game is over: [BW].+)$")).wait_for()


def saved_game(page: Any, tmp_path: Path) -> kifu.Game:
    with page.expect_download() as saved:
        page.keyboard.press("Enter")
    assert saved.value.suggested_filename == "game.sgf"
    saved.value.save_as(tmp_path / "game.sgf")
    (game,) = kifu.read(tmp_path / "game.sgf")
    return game


def test_whole_game_by_mouse(site_server: ServedSite, page: Any, tmp_path: Path) -> None:
    page.goto(site_server.url + "/play")
    page.get_by_label("Variety").fill("0")
    page.get_by_role("button", name="Start the game").click()
    point(page, 15, 3).click()
    wait_for_turn(page, 2)
    page.wait_for_function(f"() => {STONES}.filter(Boolean).length === 2")
    page.get_by_role("button", name="Undo").click()
    wait_for_turn(page, 0)
    wait_for_stones(page, [0] * PASS)
    ply = 0
    for x, y in ((3, 3), (15, 15), (9, 9)):
        point(page, x, y).click()
        wait_for_turn(page, ply := ply + 2)
    before, address = stones(page), page.url
    page.goto(site_server.url)
    page.goto(address)
    wait_for_turn(page, ply)
    wait_for_stones(page, before)
    assert page.locator(".move-list li").all_inner_texts()[::2] == ["D16", "Q4", "K10"]
    page.get_by_role("button", name="Pass", exact=True).click()
    wait_for_turn(page, ply := ply + 2)
    page.wait_for_function(f"() => {STONES}.filter(Boolean).length === {ply - 1}")  # the net plays on
    page.goto(site_server.url + "/play")
    page.get_by_role("link", name="Continue your last game").click()
    wait_for_turn(page, ply)


FINISHED = "/play?size=5&komi=0.5&moves=" + "".join(
    ("ca", "da", "cb", "db", "cc", "dc", "cd", "dd", "ce", "de", "zz", "aa", "zz", "zz")
)
"""Black owns the left half, where White's stone is dead, White the right one."""


def finished_server(web_catalogue: Path, folder: Path) -> Any:
    heads = [(), ("value", "ownership")]
    nets = [tiny_net(folder / f"net{k}", passes=True, size=7, heads=each) for k, each in enumerate(heads)]
    return serving(Site([web_catalogue], [str(net) for net in nets]))


def test_dead_stones_are_marked_by_hand_or_found_by_the_net(
    web_catalogue: Path, browser: Any, window: dict[str, Any], tmp_path: Path
) -> None:
    with finished_server(web_catalogue, tmp_path) as server, open_page(browser, server.url, **window) as page:
        page.goto(server.url + FINISHED)
        page.get_by_text("The game is over: W+6.5").wait_for()
        page.get_by_text("Choose dead stones on the board to remove them.").wait_for()
        point(page, 0, 0).click()
        page.get_by_text("The game is over: B+4.5").wait_for()
        page.get_by_text("Score: Black 15, White 10.5 (with komi)").wait_for()
        page.wait_for_url("**dead=aa**")
        page.reload()
        page.get_by_text("The game is over: B+4.5").wait_for()
        tab_to(page, "Board, move 14")
        for key in ["ArrowUp"] * 2 + ["ArrowLeft"] * 2 + ["Enter"]:
            page.keyboard.press(key)
        page.get_by_text("The game is over: W+6.5").wait_for()
        page.goto(server.url + FINISHED + "&net=1&rules=japanese")
        page.get_by_text("The opponent found the dead stones.").wait_for()
        page.get_by_text("Japanese").wait_for()
        page.goto(server.url + FINISHED + "&net=1&rules=japanese&dead=aa")
        page.get_by_text("The game is over: B+5.5").wait_for()  # ten points and a prisoner to five
        assert axe(page) == []


def test_end_of_a_game(site_server: ServedSite, page: Any, tmp_path: Path) -> None:
    ply = 14
    page.goto(site_server.url + "/play?size=19&moves=" + "".join(f"{x}{y}" for x in "ab" for y in "abcdef") + "zzzz")
    page.get_by_text("The game is over: W+7.5", exact=True).wait_for()
    tab_to(page, "Save as SGF")
    game = saved_game(page, tmp_path)
    moves = (game.moves & POINT_MASK).tolist()
    assert (len(moves), moves[0], moves[2], moves[-2:]) == (ply, 0, 2 * 19, [PASS, PASS])
    assert game.board(ply).stones.ravel().tolist() == stones(page)
    assert (game.players, str(game.result), game.komi) == (("You", "small"), "W+7.5", 7.5)
    tab_to(page, "Review this game", "Enter")
    page.get_by_role("heading", name=re.compile("You.*small")).wait_for()


def test_game_by_keyboard(site_server: ServedSite, page: Any, tmp_path: Path) -> None:
    page.goto(site_server.url + "/play")
    tab_to(page, "Start the game", "Enter")
    page.get_by_role("application").wait_for()
    tab_to(page, "Board, move 0", "ArrowUp")
    expect(page.locator(".board [aria-live]")).to_contain_text("K11")
    page.keyboard.press("Enter")
    wait_for_turn(page, 2)
    page.wait_for_function(f"() => {STONES}[{8 * 19 + 9}] === 1")
    for name, ply in (("Pass", 4), ("Undo", 2)):
        tab_to(page, name, "Enter")
        wait_for_turn(page, ply)
    tab_to(page, "Hint", "Enter")
    page.locator(".shudan-heatlabel").first.wait_for()
    tab_to(page, "Resign", "Enter")
    page.get_by_text("Resign?").wait_for()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Resign")).to_be_focused()
    held: list[Any] = []
    page.route("**/api/play", lambda route: held.append(route), times=1)
    with page.expect_request("**/api/play"):
        tab_to(page, "Board, move 2", "Space")
    tab_to(page, "Resign", "Enter")
    page.get_by_text("Resign?").wait_for()
    page.keyboard.press("Tab")
    held.pop().continue_()
    wait_for_turn(page, 4)
    page.keyboard.press("Enter")  # "No" has the focus, also after the net has moved
    expect(page.get_by_role("button", name="Resign")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_text("Resign?").wait_for()
    assert axe(page) == []
    page.keyboard.press("Enter")
    page.get_by_text("The game is over: W+R").wait_for()
    tab_to(page, "Save as SGF")
    game = saved_game(page, tmp_path)
    assert (len(game), int(game.moves[0]), str(game.result)) == (4, 8 * 19 + 9, "W+R")
    tab_to(page, "Review this game", "Enter")
    page.get_by_role("heading", name=re.compile("You.*small")).wait_for()
    page.go_back()
    tab_to(page, "New game", "Enter")
    tab_to(page, "Start the game", "Enter")
    tab_to(page, "Board, move 0", "Enter")
    wait_for_turn(page, 2)
    tab_to(page, "New game", "Enter")
    tab_to(page, "No", "Enter")
    wait_for_turn(page, 2)
    expect(page.get_by_role("button", name="New game")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_text("New game?").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Start the game").wait_for()


def test_panel_names_players_ranks_komi_and_rules(full_server: ServedSite, full_page: Any) -> None:
    page = full_page
    page.goto(full_server.url + "/play")
    for label, text in (("Opponent", "human"), ("Rank of the opponent", "3d"), ("Handicap", "4"), ("Rules", "Jap")):
        tab_to(page, label)
        page.keyboard.type(text)  # chooses the option by its name
    page.keyboard.press("Enter")
    tab_to(page, "Start the game", "Enter")
    wait_for_turn(page, 1)
    facts = page.locator(".facts").inner_text().split()
    assert facts == ["Black", "You", "White", "human", "(3d)", "Komi", "0.5", "Rules", "Japanese", "Handicap", "4"]
    page.get_by_role("combobox", name="Language").select_option("ja")
    page.get_by_text("human (3段)").wait_for()
