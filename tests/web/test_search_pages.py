"""Explorer and patterns in a browser by keyboard only, in both sizes, and by touch."""

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from web_site import STONES, ServedSite, tab_to

pytestmark = pytest.mark.slow


@pytest.fixture(params=["desktop", "phone"])
def page(request: pytest.FixtureRequest, page: Any, phone_page: Any) -> Any:
    """An empty page in a desktop window or on a phone."""
    return page if request.param == "desktop" else phone_page


def wait_for_games(page: Any, served: ServedSite, moves: str) -> None:
    """Wait until the explorer shows a line and the number of its games."""
    found = served.get("/api/explore", moves=moves).json
    page.get_by_text(re.compile(rf"^Games: {found['games']}\b")).wait_for()
    page.wait_for_url(lambda url: parse_qs(urlsplit(url).query).get("moves", [""]) == [moves])
    page.wait_for_function(
        "count => document.querySelectorAll('.shudan-vertex:not(.shudan-sign_0)').length === count", arg=len(moves) // 2
    )


def test_explorer_by_keyboard(site_server: ServedSite, page: Any) -> None:
    page.goto(site_server.url + "/explore")
    wait_for_games(page, site_server, "")
    tab_to(page, "Position")
    for key in ["ArrowUp"] * 6 + ["ArrowRight"] * 6 + ["Enter"]:
        page.keyboard.press(key)
    wait_for_games(page, site_server, "pd")
    page.wait_for_function(f"() => {STONES}[{3 * 19 + 15}] === 1")
    tab_to(page, "Continuations")
    page.keyboard.press("Tab")
    (first, *_) = site_server.get("/api/explore", moves="pd").json["continuations"]
    reply = "abcdefghijklmnopqrs"[first["x"]] + "abcdefghijklmnopqrs"[first["y"]]
    page.keyboard.press("Enter")
    wait_for_games(page, site_server, "pd" + reply)
    page.keyboard.press("Backspace")
    wait_for_games(page, site_server, "pd")
    tab_to(page, "Forward")
    page.keyboard.press("Enter")
    wait_for_games(page, site_server, "pd" + reply)
    tab_to(page, "Start")
    page.keyboard.press("Enter")
    wait_for_games(page, site_server, "")
    page.go_back()
    wait_for_games(page, site_server, "pd" + reply)


def wait_for_hits(page: Any, served: ServedSite) -> int:
    """Wait until the hits of the pattern in the address are shown, and return their number."""
    (pattern,) = parse_qs(urlsplit(page.url).query)["pattern"]
    hits: int = served.post("/api/search", {"pattern": pattern}).json["hits"]
    page.get_by_text(re.compile(f"^Hits: {hits:,}, ")).wait_for()
    return hits


def test_patterns_by_keyboard(site_server: ServedSite, page: Any) -> None:
    page.goto(site_server.url + "/search")
    tab_to(page, "Pattern;")
    for key in ["ArrowRight"] * 3 + ["ArrowDown"] * 3 + ["Enter"]:
        page.keyboard.press(key)
    page.wait_for_url("**pattern=*X*")
    one = wait_for_hits(page, site_server)
    tab_to(page, "White")
    page.keyboard.press("Enter")
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
    link = page.locator(".hits a").first.get_attribute("href")
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('href')") == link:
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**" + link)
    page.get_by_text(re.compile("^Move [0-9]+ of")).first.wait_for()


def test_explorer_and_patterns_by_touch(site_server: ServedSite, phone_page: Any) -> None:
    page = phone_page
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
