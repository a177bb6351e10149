"""The list of games in a browser: records that are opened in each way, hostile texts, sorting by keyboard."""

import re
from pathlib import Path
from typing import Any

import pytest

from web_site import HOSTILE_TEXT, ServedSite, axe, problems, stones, tab_to

pytestmark = pytest.mark.slow

RECORD = f"(;SZ[9]PB[{HOSTILE_TEXT}]PW[b]EV[{HOSTILE_TEXT}]C[{HOSTILE_TEXT}];B[ee];W[cc])"
DROP = """text => {
    const data = new DataTransfer();
    data.items.add(new File([text], "game.sgf"));
    return data;
}"""


def open_record(page: Any, way: str, text: str, folder: Path) -> None:
    """Open a record from a file, by pasting its text, or by dropping a file."""
    if way == "file":
        (folder / "game.sgf").write_text(text)
        page.get_by_label("Files: SGF").set_input_files(folder / "game.sgf")
    elif way == "paste":
        page.get_by_label("Or paste").fill(text)
        page.get_by_role("button", name="Open", exact=True).click()
    else:
        page.dispatch_event("main", "drop", {"dataTransfer": page.evaluate_handle(DROP, text)})


@pytest.mark.parametrize("way", ["file", "paste", "drop"])
def test_records_are_opened(site_server: ServedSite, browser_page: Any, tmp_path: Path, way: str) -> None:
    page = browser_page
    page.goto(site_server.url + "/?winner=white")
    page.get_by_role("status").wait_for()
    page.get_by_text("Open your games").click()
    page.get_by_label("Or paste").fill("my text")
    open_record(page, way, "(;SZ[99];B[aa])", tmp_path)
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "board size" in alert.inner_text()
    assert "\n" not in alert.inner_text()
    problems(page).clear()
    assert page.get_by_role("status").inner_text() == "142 games"
    assert page.get_by_label("Or paste").input_value() == ("my text" if way != "paste" else "(;SZ[99];B[aa])")
    assert axe(page) == []
    open_record(page, way, RECORD, tmp_path)
    page.wait_for_url("**/game/upload/*/0")
    page.get_by_text("Move 0 of 2").wait_for()
    page.keyboard.press("End")
    page.get_by_text("Move 2 of 2").wait_for()
    assert [point for point, stone in enumerate(stones(page)) if stone] == [20, 40]
    assert HOSTILE_TEXT in page.get_by_role("heading", level=1).inner_text()
    assert HOSTILE_TEXT in page.locator(".facts").inner_text()
    page.reload()
    page.get_by_text("Move 2 of 2").wait_for()
    assert (page.locator("img").count(), "hostile" in page.title()) == (0, False)
    page.go_back()
    page.get_by_role("status").get_by_text("142 games").wait_for()
    problems(page)[:] = [each for each in problems(page) if "status of 400" not in each]  # the net plays on 19 x 19


def test_hostile_texts_are_shown(full_server: ServedSite, full_page: Any) -> None:
    page = full_page
    page.goto(full_server.url + "/?corpus=1")
    rows = page.locator("table.games tbody tr")
    rows.first.wait_for()
    assert [HOSTILE_TEXT in text for text in rows.all_inner_texts()] == [True, True]
    page.get_by_role("button", name=HOSTILE_TEXT).first.click()
    page.wait_for_url("**player=*")
    page.get_by_role("status").get_by_text("2 games").wait_for()
    rows.first.get_by_role("link").first.click()
    page.get_by_text("Move 0 of 2").wait_for()
    assert page.get_by_text(HOSTILE_TEXT).count() >= 3
    for path in ("/explore?corpus=1&moves=pd", "/search?corpus=1&pattern=anchor: corner/..../..../..../...X"):
        page.goto(full_server.url + path)
        page.locator("main").get_by_text(HOSTILE_TEXT).first.wait_for()
        assert (page.locator("img").count(), "hostile" in page.title()) == (0, False)


def test_games_are_sorted_and_opened_by_keyboard(site_server: ServedSite, browser_page: Any) -> None:
    page = browser_page
    page.goto(site_server.url)
    page.locator("table.games").wait_for()
    for address, params in (
        ("sort=moves&descending=true", {"sort": "moves", "descending": "true"}),
        ("sort=moves", {"sort": "moves"}),
    ):
        tab_to(page, "Moves")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**?{address}")
        expected = site_server.get("/api/games", **params).json["games"]
        page.locator(f"table.games tbody tr:first-child a[href^='/game/0/{expected[0]['row']}']").wait_for()
        shown = page.locator("table.games tbody td:nth-child(6)").all_inner_texts()
        assert shown == [str(game["moves"]) for game in expected]
    tab_to(page, "Next")
    page.keyboard.press("Enter")
    page.wait_for_url("**&first=50")
    tab_to(page, "Previous")
    page.keyboard.press("Space")
    page.wait_for_url(f"**?{address}")
    tab_to(page, f"{expected[0]['black']} {expected[0]['black_rank']}")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/game/0/{expected[0]['row']}*")
    page.get_by_text("Move 0 of").wait_for()


def test_the_start_shows_the_newest_games_and_a_random_one(site_server: ServedSite, browser_page: Any) -> None:
    page = browser_page
    page.goto(site_server.url)
    newest = site_server.get("/api/games", sort="date", descending=True, count=6).json["games"]
    page.locator(".latest li svg").nth(5).wait_for()
    links = [each.get_attribute("href").split("?")[0] for each in page.locator(".latest a").all()]
    assert links == [f"/game/0/{game['row']}" for game in newest]
    assert page.locator("table.games tbody td:nth-child(3)").first.inner_text() == newest[0]["date"]
    assert all("stones" not in each for each in page.locator("td.event").all_inner_texts())
    page.get_by_role("button", name="A random game").click()
    page.wait_for_url("**/game/0/*")


def test_results_ranks_and_errors_are_localized(site_server: ServedSite, browser_page: Any) -> None:
    page = browser_page
    page.goto(site_server.url)
    page.get_by_role("combobox", name="Language").select_option("ja")
    page.locator("table.games").wait_for()
    shown = page.locator("table.games tbody").inner_text()
    assert re.search(r"黒中押し勝ち|白中押し勝ち", shown)
    assert re.search(r"[黒白]\d+(\.5)?目勝ち", shown)
    assert "12級" in shown
    assert not re.search(r"[BW]\+|\d+[kd]\b", shown)
    page.goto(site_server.url + "/game/0/99999")
    page.get_by_role("alert").get_by_text("その棋譜はありません。").wait_for()
    problems(page).clear()
    page.get_by_role("link", name="棋譜の一覧へ").click()
    page.locator("table.games").wait_for()


@pytest.mark.parametrize("path", ["/nowhere", "/nowhere/0/1"])
def test_a_wrong_address_has_a_way_back(site_server: ServedSite, browser_page: Any, path: str) -> None:
    page = browser_page
    assert page.goto(site_server.url + path).status == 404
    problems(page).clear()
    page.get_by_role("heading", name="There is no such page.").wait_for()
    page.get_by_role("link", name="Back to the games").click()
    page.locator("table.games").wait_for()


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("/?q=a&first=50", "/?q=a&corpus=1"),
        ("/?position=3-20..", "/?corpus=1"),
        ("/explore?game=3&ply=20&moves=aa", "/explore?corpus=1"),
        ("/game/0/3?ply=20", "/?corpus=1"),
    ],
)
def test_another_catalogue_has_other_games(full_server: ServedSite, full_page: Any, address: str, target: str) -> None:
    full_page.goto(full_server.url + address)
    full_page.get_by_label("Catalogue", exact=True).select_option("1")
    full_page.wait_for_url(full_server.url + target)
    full_page.get_by_role("alert").wait_for(state="detached")


def test_a_condition_that_comes_with_a_link_waits_for_a_click(site_server: ServedSite, browser_page: Any) -> None:
    page = browser_page
    page.goto(site_server.url + "/?sql=n_moves+%3E+300")
    run = page.get_by_role("button", name="Run it")
    run.wait_for()
    page.get_by_text("320 games").wait_for()
    assert page.get_by_text("n_moves > 300", exact=True).is_visible()
    assert axe(page) == []
    run.click()
    page.get_by_text("320 games").wait_for(state="detached")
    assert run.count() == 0
    page.reload()
    page.get_by_role("status").wait_for()
    assert (run.count(), page.get_by_text("320 games").count()) == (0, 0)
