"""The pages of games and of play in a browser with engines instead of nets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis_engines import engine
from kifu.web.site import Site
from web_site import ServedSite, axe, open_page, problems, serving, stones

pytestmark = pytest.mark.slow

CRASH = "it exited with code 3: out of luck"


@pytest.fixture(scope="module")
def served(web_catalogue: Path) -> Iterator[ServedSite]:
    """A server with an engine that imitates players (net 0), and one that crashes at its first position (net 1)."""
    with serving(Site([web_catalogue], [engine(human="model"), engine("crash")])) as served:
        yield served


@pytest.fixture
def page(browser: Any, served: ServedSite) -> Iterator[Any]:
    """An empty page of the server of this module."""
    with open_page(browser, served.url) as page:
        yield page


def wait_for_error(page: Any) -> None:
    """Wait until a page shows that the engine crashed, and nothing else as an error."""
    page.get_by_role("alert").first.wait_for()
    lines = set(page.get_by_role("alert").all_inner_texts())
    assert len(lines) == 1, lines
    assert lines.pop().endswith(CRASH)
    problems(page)[:] = [each for each in problems(page) if "status of 400" not in each]


def start_game(page: Any, url: str, net: str) -> None:
    """Start a game against an engine, and play in the centre."""
    page.goto(url + "/play")
    page.locator("form select").first.select_option(net)
    page.get_by_role("button", name="Start the game").click()
    page.locator(".shudan-vertex").nth(180).click()


def test_engine_predicts_moves_of_a_game(served: ServedSite, page: Any) -> None:
    page.goto(served.url + "/game/0/0?ply=30")
    page.locator(".analysis-chart").wait_for()
    page.locator("#least").wait_for()
    cells = page.get_by_role("table").locator("tbody td").all_inner_texts()
    assert len(cells) == 12
    with page.expect_response("**/api/predict"):
        page.get_by_label("Rank").select_option("3k")
    page.wait_for_function(
        "cells => [...document.querySelectorAll('tbody td')].some((cell, k) => cell.innerText !== cells[k])", arg=cells
    )
    assert page.get_by_role("alert").count() == 0


def test_engine_plays(served: ServedSite, page: Any) -> None:
    start_game(page, served.url, "0")
    page.get_by_role("application", name="Board, move 2", exact=True).wait_for()
    page.get_by_text("Your turn").wait_for()
    assert sorted(filter(None, stones(page))) == [1, 2]


def test_crash_of_an_engine_is_one_line(served: ServedSite, page: Any) -> None:
    page.goto(served.url + "/game/0/0?ply=30&nets=1")
    wait_for_error(page)
    page.locator("input[type=range]").fill("31")
    page.get_by_text("Move 31 of").wait_for()
    assert sum(map(bool, stones(page))) > 20
    assert axe(page) == []
    start_game(page, served.url, "1")
    wait_for_error(page)
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("Your turn").wait_for()
    assert not any(stones(page))
    assert page.get_by_role("alert").count() == 0
