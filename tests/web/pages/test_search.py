"""Explorer and patterns in a browser by keyboard only, in all windows, and by mouse and touch."""

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from web_site import STONES, ServedSite, expect, in_all_windows, tab_to

pytestmark = pytest.mark.slow


def wait_for_games(page: Any, served: ServedSite, moves: str) -> None:
    found = served.get("/api/explore", moves=moves).json
    page.get_by_text(re.compile(rf"^Games: {found['games']}\b")).wait_for()
    page.wait_for_url(lambda url: parse_qs(urlsplit(url).query).get("moves", [""]) == [moves])
    page.wait_for_function(
        "count => document.querySelectorAll('.shudan-vertex:not(.shudan-sign_0)').length === count", arg=len(moves) // 2
    )


@in_all_windows
def test_explorer_by_keyboard(site_server: ServedSite, page: Any) -> None:
    page.goto(site_server.url + "/explore")
    wait_for_games(page, site_server, "")
    tab_to(page, "Position")
    for key in ["ArrowUp"] * 6 + ["ArrowRight"] * 6 + ["Enter"]:
        page.keyboard.press(key)
    wait_for_games(page, site_server, "pd")
    page.wait_for_function(f"() => {STONES}[{3 * 19 + 15}] === 1")
    tab_to(page, "Continuations", "Tab")
    (first, *_) = site_server.get("/api/explore", moves="pd").json["continuations"]
    reply = "abcdefghijklmnopqrs"[first["x"]] + "abcdefghijklmnopqrs"[first["y"]]
    page.keyboard.press("Enter")
    wait_for_games(page, site_server, "pd" + reply)
    page.keyboard.press("Backspace")
    wait_for_games(page, site_server, "pd")
    tab_to(page, "Forward", "Enter")
    wait_for_games(page, site_server, "pd" + reply)
    game = page.locator('ul.plain-list a[href*="ply=2"]').first
    address = game.get_attribute("href")
    tab_to(page, game.inner_text(), "Enter")
    page.wait_for_url("**" + address)
    page.go_back()
    wait_for_games(page, site_server, "pd" + reply)
    tab_to(page, "Start", "Enter")
    wait_for_games(page, site_server, "")
    page.go_back()
    wait_for_games(page, site_server, "pd" + reply)
    tab_to(page, "Search a region", "Enter")
    page.wait_for_url("**/search?*pattern=*")
    wait_for_hits(page, site_server)


def wait_for_hits(page: Any, served: ServedSite) -> int:
    (pattern,) = parse_qs(urlsplit(page.url).query)["pattern"]
    hits: int = served.post("/api/search", {"pattern": pattern}).json["hits"]
    page.get_by_text(re.compile(f"^Hits: {hits:,}, ")).wait_for()
    return hits


@in_all_windows
def test_patterns_by_keyboard(site_server: ServedSite, page: Any) -> None:
    page.goto(site_server.url + "/search")
    tab_to(page, "Pattern;")
    for key in ["ArrowRight"] * 3 + ["ArrowDown"] * 3 + ["Enter"]:
        page.keyboard.press(key)
    page.wait_for_url("**pattern=*X*")
    one = wait_for_hits(page, site_server)
    tab_to(page, "White", "Enter")
    tab_to(page, "Pattern;")
    for key in ["ArrowRight"] * 5 + ["ArrowDown"] * 2 + ["Space"]:
        page.keyboard.press(key)
    page.wait_for_url("**pattern=*O*")
    assert wait_for_hits(page, site_server) < one
    page.keyboard.press("Delete")
    page.wait_for_url(lambda url: "O" not in parse_qs(urlsplit(url).query)["pattern"][0].split("/", 1)[1])
    assert wait_for_hits(page, site_server) == one
    tab_to(page, "Place")
    page.keyboard.press("a")  # chooses the option by its first letter
    page.wait_for_url("**anchor*%3A+an*")
    assert wait_for_hits(page, site_server) != one
    link = page.locator(".hits a").first
    address = link.get_attribute("href")
    tab_to(page, "Last page", "Enter")
    page.wait_for_url("**first=*")
    expect(link).not_to_have_attribute("href", address)
    address = link.get_attribute("href")
    tab_to(page, link.inner_text(), "Enter")
    page.wait_for_url("**" + address)
    page.get_by_text(re.compile("^Move [0-9]+ of")).first.wait_for()


def test_patterns_by_mouse(site_server: ServedSite, page: Any) -> None:
    page.goto(site_server.url + "/search?pattern=XO/OX")
    one = wait_for_hits(page, site_server)
    page.locator(".continuations tbody tr").first.wait_for()
    page.get_by_role("button", name="Anything").click()
    box = page.get_by_role("application").locator("svg").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + box["height"] - 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + box["height"] - 5, steps=10)
    page.mouse.up()
    page.wait_for_url(re.compile(r"(\*|%2A){2}"))
    page.go_back()
    assert wait_for_hits(page, site_server) == one


@in_all_windows
def test_a_game_leads_to_its_corner_and_its_position(site_server: ServedSite, page: Any) -> None:
    page.goto(f"{site_server.url}/game/0/3?ply=4")
    tab_to(page, "Find this corner", "Enter")
    page.wait_for_url("**/search?*pattern=*")
    wait_for_hits(page, site_server)
    hits = "[...document.querySelectorAll('.hits a')].map((each) => each.pathname)"
    page.wait_for_function(f"() => {hits}.length > 0 && new Set({hits}).size === {hits}.length")
    page.get_by_text("Letters are points of the diagram").wait_for()
    page.goto(f"{site_server.url}/search?pattern=XO/OX")
    tab_to(page, "Several hits of a game", "Space")
    page.wait_for_function(f"() => new Set({hits}).size < {hits}.length")
    page.goto(f"{site_server.url}/game/0/3?ply=4")
    tab_to(page, "Find this position", "Enter")
    page.get_by_text("Games with the position").wait_for()
    total = site_server.get("/api/games", position="3-4..").json["total"]
    expect(page.get_by_role("status")).to_have_text(f"{total} games")


@pytest.mark.parametrize("window", ["phone, light"], indirect=True)
def test_explorer_and_patterns_by_touch(site_server: ServedSite, page: Any) -> None:
    page.goto(site_server.url + "/explore")
    wait_for_games(page, site_server, "")
    page.locator('.shudan-vertex[data-x="15"][data-y="3"]').tap()
    wait_for_games(page, site_server, "pd")
    page.goto(site_server.url + "/search")
    board = page.get_by_role("application").locator("svg")
    box = board.bounding_box()
    board.tap(position={"x": box["width"] * 3.5 / 8, "y": box["height"] * 3.5 / 8})
    page.wait_for_url("**pattern=*X*")
    assert wait_for_hits(page, site_server) > 0
