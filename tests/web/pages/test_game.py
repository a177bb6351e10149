"""The pages of a game and of planes in a browser, by mouse and by keyboard."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

import kifu
from kifu.point import WHITE_BIT
from web_site import ServedSite, analysed, expect, in_all_windows, stones, tab_to, wait_for_stones

pytestmark = [pytest.mark.slow, in_all_windows]

HEAT_TEXTS = "[...document.querySelectorAll('.shudan-heatlabel')].map(each => each.innerText).join()"
HEAT = '[class*="shudan-heat_"]'


def wait_for_move(page: Any, ply: int) -> None:
    page.get_by_text(re.compile(f"^Move {ply} of")).wait_for()


def prediction(page: Any, change: Callable[[], object], **request: object) -> list[tuple[int, float]]:
    """Do something on a page that asks for a prediction with these values. Return its moves and probabilities."""

    def asks(response: Any) -> bool:
        if not response.url.endswith("/api/predict"):
            return False
        body = json.loads(response.request.post_data)
        return all(body.get(name) == value for name, value in request.items())

    with page.expect_response(asks) as answer:
        change()
    return [(point, share) for point, share in answer.value.json()["policy"]]


def wait_for_table(page: Any, net: str, policy: list[tuple[int, float]]) -> None:
    table = page.get_by_role("table").filter(has_text=net)
    for row, (_, share) in enumerate(policy[:3]):
        table.locator("tbody tr").nth(row).get_by_text(re.compile(rf"^{100 * share:.1f}\s?%$")).wait_for()


def test_game_by_keys_wheel_slider_and_chart(site_server: ServedSite, page: Any, game: kifu.Game) -> None:
    page.goto(site_server.url + "/game/0/0?ply=20")
    wait_for_move(page, 20)
    for key, ply in (("ArrowRight", 21), ("PageUp", 11), ("Home", 0)):
        page.keyboard.press(key)
        wait_for_move(page, ply)
    expect(page).not_to_have_url(re.compile("ply"))
    page.locator(".board").hover()
    for step, ply in ((60, 1), (60, 2), (-60, 1)):
        page.mouse.wheel(0, step)
        wait_for_move(page, ply)
    assert page.evaluate("scrollY") == 0
    page.locator("input[type=range]").fill("57")
    wait_for_move(page, 57)
    page.locator("input[type=range]").press("ArrowRight")
    wait_for_move(page, 58)
    chart = page.locator(".analysis-chart")
    box = chart.bounding_box()
    chart.click(position={"x": 0.75 * box["width"], "y": 20})
    target = int(0.75 * len(game))
    wait_for_move(page, target)
    wait_for_stones(page, game.board(target))
    chart.focus()
    page.keyboard.press("ArrowLeft")
    wait_for_move(page, target - 1)
    page.go_back()
    wait_for_move(page, 58)


def test_least_expected_moves_lead_to_their_positions(site_server: ServedSite, page: Any, game: kifu.Game) -> None:
    page.goto(site_server.url + "/game/0/0?heat=0")
    _, rows = analysed(site_server, 0)
    log_prob = [row[0] for row in rows]
    least = sorted(range(len(game)), key=log_prob.__getitem__)
    black, white = ([ply for ply in least if bool(game.moves[ply] & WHITE_BIT) == colour] for colour in (False, True))
    links = page.locator("section[aria-labelledby=leastExpected] a")
    expect(links).to_have_text([re.compile(f"^Move {ply + 1}: ") for ply in black[:5] + white[:5]])
    for k, ply in ((0, black[0]), (5, white[0])):
        tab_to(page, links.nth(k).inner_text(), "Enter")
        wait_for_move(page, ply)
        wait_for_stones(page, game.board(ply))
        page.wait_for_url("**heat=0**")
    page.go_back()
    wait_for_move(page, black[0])


def test_ranks_change_the_expected_moves(full_server: ServedSite, full_page: Any) -> None:
    page = full_page
    unknown = prediction(page, lambda: page.goto(full_server.url + "/game/0/0?ply=40&nets=1&ranks=,"), black_rank="")
    wait_for_table(page, "human", unknown)
    page.locator(HEAT).first.wait_for()
    shown = page.evaluate(HEAT_TEXTS)
    tab_to(page, "Rank")
    weak = prediction(page, lambda: page.keyboard.type("18k"), black_rank="18k", white_rank="18k")
    wait_for_table(page, "human", weak)
    assert weak != unknown
    page.wait_for_function(f"shown => {HEAT_TEXTS} !== shown", arg=shown)
    page.wait_for_url("**ranks=18k**")


def test_two_nets_side_by_side(full_server: ServedSite, full_page: Any) -> None:
    page = full_page
    small = prediction(page, lambda: page.goto(full_server.url + "/game/0/0?ply=40&nets=0"), net=0)
    human = prediction(page, lambda: tab_to(page, "human", "Space"), net=1)
    assert small != human
    wait_for_table(page, "small", small)
    wait_for_table(page, "human", human)
    tab_to(page, "Expected moves", "Space")
    page.locator(HEAT).first.wait_for(state="detached")
    page.keyboard.press("Space")
    page.locator(HEAT).first.wait_for()
    tab_to(page, "small", "Space")
    page.get_by_role("table").filter(has_text="small").wait_for(state="detached")
    tab_to(page, "human", "Space")
    page.locator(HEAT).first.wait_for(state="detached")


def test_copied_address_shows_the_same(full_server: ServedSite, full_page: Any) -> None:
    page = full_page
    page.goto(full_server.url + "/game/0/0?nets=1,0")
    page.locator("input[type=range]").fill("60")
    page.get_by_label("Rank").select_option("3d")
    page.get_by_label("Move numbers").check()
    empty = stones(page).index(0)
    page.locator(".shudan-vertex").nth(empty).click()
    page.get_by_text("Variation from move 60").wait_for()
    page.wait_for_function(
        "at => !document.querySelectorAll('.shudan-vertex')[at].matches('.shudan-sign_0')", arg=empty
    )
    wait_for_move(page, 61)
    with page.context.expect_page() as opened:
        page.evaluate("open(location.href)")
    copy = opened.value
    copy.get_by_text("Variation from move 60").wait_for()
    wait_for_move(copy, 61)
    wait_for_stones(copy, stones(page))
    expect(copy.get_by_label("Rank")).to_have_value("3d")
    expect(copy.get_by_label("Move numbers")).to_be_checked()
    expect(copy.locator(".shudan-marker")).to_have_text(page.locator(".shudan-marker").all_inner_texts())
    expect(copy.get_by_role("table").locator("caption")).to_have_text(["human · 3d", "small"])
    page.go_back()
    page.get_by_text("Variation from move 60").wait_for(state="detached")
    wait_for_move(page, 60)


def test_planes_of_a_position(site_server: ServedSite, page: Any) -> None:
    page.goto(site_server.url + "/planes?corpus=0&row=0&ply=30&planes=alphago48@1")
    expect(page.locator(".planes li")).to_have_count(48)
    page.get_by_role("button", name="Next").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Move 31").wait_for()
