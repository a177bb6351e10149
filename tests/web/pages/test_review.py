"""The review of games in a browser: expected moves, mistakes, own files, problems, in all sizes and themes."""

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import format_samples
import kifu
from evaluators import people_catalogue, script_problems
from kata_nets import small_net
from kgs_archives import zip_of
from kifu.corpus.catalogue import open_catalogue
from kifu.katago.net_file import write_kata_net
from kifu.learn import review
from kifu.point import POINT_MASK, WHITE_BIT, to_gtp
from web_site import (
    ServedSite,
    analysed,
    drop,
    expect,
    hold_nets,
    in_all_windows,
    layout_problems,
    open_page,
    problems,
    serving,
    tab_to,
    wait_for_stones,
)

pytestmark = [pytest.mark.slow, in_all_windows]

TREE = (
    b"(;SZ[9]PB[Ann]PW[Bob]BR[3d]WR[5k]C[The beginning.]LB[ee:A]TR[cc];B[ee]C[Tengen]"
    b"(;W[cc];B[dd];W[gg])(;W[gg]C[Another way]CR[gg](;B[cg])(;B[gc]C[Third])))"
)
ILLEGAL = b"(;SZ[9]PB[Ann]PW[Cid]WR[2k];B[ee];W[cc];B[ee];W[aa])"
GB18030 = "(;CA[UTF-8]SZ[9]PB[古力]PW[李世石]EV[围棋甲级联赛];B[ee];W[cc])".encode("gb18030")


NETS = ("points", "human", "small")
"""The nets of the server: one of KataGo, one that takes ranks, one that gives no points."""


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("net") / "points.bin.gz"
    write_kata_net(path, replace(small_net(), name="points"))
    return path


@pytest.fixture(scope="module")
def review_server(web_catalogue: Path, net: Path) -> Iterator[ServedSite]:
    from kifu.web.site import Site

    with serving(Site([web_catalogue], [str(net), *NETS[1:]])) as served:
        yield served


@pytest.fixture
def page(browser: Any, review_server: ServedSite, window: dict[str, Any]) -> Iterator[Any]:
    with open_page(browser, review_server.url, **window) as opened:
        yield opened


def test_the_move_played_is_marked_and_named(review_server: ServedSite, page: Any, game: kifu.Game) -> None:
    page.goto(review_server.url + "/game/0/0?ply=57&nets=0")
    move = int(game.moves[57] & POINT_MASK)
    name = to_gtp(move, 19)
    with page.expect_response("**/api/predict") as answer:
        page.reload()
    chance, choice = answer.value.json()["played"]
    ending = {1: "st", 2: "nd", 3: "rd"}.get(choice % 10 if choice // 10 != 1 else 0, "th")
    text = page.get_by_text(f"Played: {name}, {choice}{ending} choice").inner_text()
    assert f"{100 * chance:.0f}%" in text or "<1" in text
    expect(page.locator("tr.chosen td").first).to_have_text(f"{name} played")
    y, x = divmod(move, 19)
    page.locator(f'.shudan-vertex.shudan-marker_triangle[data-x="{x}"][data-y="{y}"]').wait_for()
    page.get_by_text(f"{name}: played").wait_for()
    page.locator("#leastExpected").wait_for()
    assert "log" not in page.locator("main").inner_text().lower()
    assert layout_problems(page) == []


def test_candidates_have_values_of_their_own(
    review_server: ServedSite, page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review, "LIKELY", 0)  # the net is untrained: no moves are likely
    with page.expect_response("**/api/candidates") as answer:
        page.goto(review_server.url + "/game/0/0?ply=30&nets=0")
    values = answer.value.json()
    assert len({round(win, 4) for _, win, _ in values["moves"]}) > 1
    for move, win, lead in values["moves"]:
        row = page.locator("tr.probability").filter(has_text=to_gtp(move, 19)).first
        expect(row).to_contain_text(f"{'B' if lead >= 0 else 'W'}+{abs(lead):,.1f}")
        expect(row).to_contain_text(f"{100 * win:.0f}%")


def scale_points(monkeypatch: pytest.MonkeyPatch, factor: int) -> None:
    """Multiply losses: moves of the net that gives points, which is untrained, differ by little."""
    gain = review.gain
    monkeypatch.setattr(review, "gain", lambda *args: factor * gain(*args))


def test_mistakes_and_ownership(
    review_server: ServedSite, page: Any, game: kifu.Game, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Any] = []
    rows: list[Any] = []
    scale_points(monkeypatch, 1000)

    def part(route: Any) -> None:
        """Deliver four positions first, then wait."""
        if not held and json.loads(route.request.post_data)["first"]:
            held.append(route)
            return
        answer = route.fetch().json()
        del answer["rows"][len(answer["rows"]) if held else 4 :]
        rows.extend(answer["rows"])
        route.fulfill(json=answer)

    page.route("**/api/analyse", part)
    page.goto(review_server.url + "/game/0/0?ply=10&nets=0")
    page.get_by_text(f"4 of {len(game) + 1} positions analysed").wait_for()
    expect(page.get_by_role("progressbar")).to_have_attribute("value", "4")
    part(held[0])
    links = page.locator("section[aria-labelledby=mistakes] a")
    expect(links).to_have_count(6)
    losses = {ply: row[6] for ply, row in enumerate(rows[:-1])}
    most = sorted(losses, key=lambda ply: -losses[ply])
    black, white = ([ply for ply in most if bool(game.moves[ply] >> 15) == side][:3] for side in (False, True))
    expect(links).to_have_text([re.compile(f"^Move {ply + 1}: .* {losses[ply]:,.1f} points$") for ply in black + white])
    tab_to(page, "All moves", "Enter")
    lost = [f" · {loss:,.1f} points lost" for side in (0, 1) for ply, loss in losses.items()
            if game.moves[ply] >> 15 == side and loss >= 0.05]  # fmt: skip
    expect(page.locator("details li a").filter(has_text="points lost")).to_contain_text(lost)
    first, better = black[0], rows[black[0]][4]
    tab_to(page, f"Move {first + 1}: ", "Enter")
    page.get_by_text(f"{to_gtp(better, 19)}: better").wait_for()
    page.get_by_text(re.compile(rf"^Played: .* · {losses[first]:,.1f} points lost")).wait_for()
    y, x = divmod(better, 19)
    page.locator(f'.shudan-vertex.shudan-marker_square[data-x="{x}"][data-y="{y}"]').wait_for()
    for curve in ("lead", "value"):
        expect(page.locator(f".analysis-{curve}")).to_have_attribute("points", re.compile(r"\d"))
    tab_to(page, "Territory", "Space")
    page.locator(".shudan-paint").first.wait_for()
    page.wait_for_url("**area=1**")
    assert layout_problems(page) == []
    monkeypatch.setattr("kifu.learn.inference.Net.evaluate", None)  # all is kept: asking the net again would fail
    page.reload()
    expect(links).to_have_count(6)


def test_a_position_has_one_value(review_server: ServedSite, page: Any) -> None:
    """Tables, text and the curves, which are not smoothed, show the value after the best move."""
    rows: list[Any] = []

    def part(route: Any) -> None:
        answer = route.fetch().json()
        rows.extend(answer["rows"])
        route.fulfill(json=answer)

    page.route("**/api/analyse", part)
    with page.expect_response("**/api/candidates") as answer:
        page.goto(review_server.url + "/game/0/0?ply=10&nets=0")
    page.locator("#leastExpected").wait_for()
    win, lead = rows[10][2:4]
    assert answer.value.json()["moves"][0] == [rows[10][4], win, lead]
    text = f"Black wins: {100 * win:.0f}% · {'B' if lead >= 0 else 'W'}+{abs(lead):.1f}"
    expect(page.get_by_text(text)).to_have_count(2)
    edge = max(10, *(10 * math.ceil(abs(row[3]) / 10) for row in rows))
    for curve, heights in (
        ("value", [100 * (1 - row[2]) for row in rows]), ("lead", [50 - 50 * row[3] / edge for row in rows])
    ):  # fmt: skip
        points = page.locator(f".analysis-{curve}").get_attribute("points").split()
        assert [float(point.split(",")[1]) for point in points] == pytest.approx(heights, abs=0.06)


def test_two_ranks_share_a_table(review_server: ServedSite, page: Any) -> None:
    """By default, the page shows the net that the values come from and the one that takes ranks."""
    page.goto(review_server.url)
    drop(page, a_sgf=TREE.replace(b"SZ[9]", b"SZ[19]"))
    page.wait_for_url("**/upload/**")
    captions = page.locator("caption")
    expect(captions).to_have_text(["points", "human"])
    tab_to(page, "points", "Space")
    expect(captions).to_have_text(["human"])
    heads = page.locator("caption ~ thead th")
    expect(heads).to_have_text(["Move", "Chance at 3d", "Chance at 5k", "Black wins"])
    page.locator("#leastExpected").wait_for()
    text = page.locator("main").inner_text()
    assert "Black wins: " in text
    assert not re.search(r"[BW]\+\d|points lost|Lead|Largest mistakes|Territory", text)
    for label, rank in (("Rank", "9d"), ("compared with", "18k")):
        tab_to(page, label)
        page.keyboard.type(rank)
    page.wait_for_url("**ranks=9d%2C18k*")
    expect(heads.nth(2)).to_have_text("Chance at 18k")
    page.get_by_role("heading", name="Moves on which 9d and 18k differ most").wait_for()
    rows = page.locator("caption ~ tbody tr.probability")
    rows.first.wait_for()
    chances = [re.findall(r"(<?)([\d.]+)%", each)[:2] for each in rows.all_inner_texts()]
    differences = [abs(float(one) - float(two)) for (_, one), (_, two) in chances]
    assert all(one >= two - 0.15 for one, two in pairwise(differences)), chances  # of rounded numbers
    assert layout_problems(page) == []


def test_moves_on_which_two_ranks_differ(review_server: ServedSite, page: Any, game: kifu.Game) -> None:
    page.goto(review_server.url + "/game/0/0?nets=1&ranks=9d,18k")
    links = page.locator("section[aria-labelledby=different] a")
    expect(links).to_have_count(10)
    by_rank = [
        [row[0] or 0 for row in analysed(review_server, 0, net=1, black_rank=rank, white_rank=rank, moves=0)[1]]
        for rank in ("9d", "18k")
    ]
    differences = np.abs(np.subtract(*by_rank))[: len(game)]
    most = np.argsort(-differences, kind="stable")[:10].tolist()
    wanted = []
    for side in (False, True):
        for ply in (each for each in most if bool(game.moves[each] >> 15) == side):
            point = to_gtp(int(game.moves[ply] & POINT_MASK), 19)
            one, two = (f"{100 * each:.0f}%" if each >= 0.005 else "<1%" for each in (row[ply] for row in by_rank))
            wanted.append(f"Move {ply + 1}: {point}, 9d {one}, 18k {two}")
    shown = links.all_inner_texts()
    assert sum(one == two for one, two in zip(wanted, shown, strict=True)) >= 8, shown  # halves round differently


def test_own_games_are_listed_with_what_could_not_be_read(review_server: ServedSite, page: Any) -> None:
    page.goto(review_server.url)
    archive = zip_of({"x/cut.sgf": b"(;SZ[9]PB[Cut];B[ee];W[cc", "x/b.sgf": GB18030})
    formats = {"gib": "GIB", "ngf": "NGF", "ugf": "UGF", "json": "OGS"}
    others = {f"a_{suffix}": getattr(format_samples, name) for suffix, name in formats.items()}
    drop(page, tree_sgf=TREE, bad_sgf=ILLEGAL, both_zip=archive, no_txt=b"nothing", **others)
    page.get_by_role("heading", name="Your games").wait_for()
    rows = page.locator("table.games tbody tr")
    expect(rows).to_have_count(8)
    illegal = "The game ends before move 3: the point is occupied."
    encoding = "The file says that its text is UTF-8; it was read as GB18030."
    for text in (illegal, "The file is cut off.", encoding, "古力"):
        expect(page.locator("main")).to_contain_text(text)
    expect(page.get_by_role("alert")).to_contain_text("no.txt: This is neither a game record")
    problems(page).clear()  # the answer to no.txt
    assert layout_problems(page) == []
    tab_to(page, "Ann", "Enter")
    page.get_by_text("Move 0 of 4").wait_for()
    tab_to(page, "All games of the file", "Enter")
    rows.nth(1).locator("a").press("Enter")
    page.get_by_text("Move 0 of 2").wait_for()
    page.get_by_text(illegal).wait_for()


def test_variations_comments_and_marks_are_walked(review_server: ServedSite, page: Any) -> None:
    page.goto(review_server.url)
    drop(page, a_sgf=TREE)
    page.get_by_text("The beginning.").wait_for()
    expect(page.locator(".shudan-marker_label .shudan-marker")).to_have_text("A")
    page.locator('.shudan-marker_triangle[data-x="2"][data-y="2"]').wait_for()
    page.keyboard.press("ArrowRight")
    page.get_by_text("Tengen").wait_for()
    tab_to(page, "A G3", "Enter")
    page.get_by_text("Another way").wait_for()
    page.get_by_text("Move 2 of 3").wait_for()
    wait_for_stones(page, [{40: 1, 60: 2}.get(point, 0) for point in range(81)])
    tab_to(page, "A G7", "Enter")
    page.get_by_text("Third").wait_for()
    page.locator('.shudan-vertex.shudan-sign_1[data-x="6"][data-y="2"]').wait_for()
    page.reload()
    page.get_by_text("Third").wait_for()
    assert layout_problems(page) == []
    tab_to(page, "Back to the game", "Enter")
    page.get_by_text("Move 1 of 4").wait_for()


KINDS = {
    (True, True): "Both answer", (True, False): "You answer, they play elsewhere",
    (False, True): "You play elsewhere, they answer", (False, False): "Both play elsewhere",
}  # fmt: skip
"""Kinds of moves: whether the move played is near the one before, and whether the best move is."""


def is_near(move: int, before: int) -> bool:
    """Return whether two moves are at most four lines apart; 361 is a pass or no move."""
    return max(move, before) < 361 and int(np.abs(np.subtract(divmod(move, 19), divmod(before, 19))).max()) <= 4


@pytest.mark.parametrize(("chosen", "rank"), list(zip(NETS, ("", "9d", ""), strict=True)))
def test_summary_over_games(
    review_server: ServedSite, page: Any, chosen: str, rank: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale_points(monkeypatch, 100)
    groups, differences, files = defaultdict(list), [], []
    for number, row in enumerate((10, 9)):  # in the first, gnugo1 is Black and White
        files.append(review_server.get(f"/api/games/0/{row}/sgf").body)
        answer, rows = analysed(review_server, row, net=NETS.index(chosen), black_rank=rank, white_rank=rank)
        before = 361
        for ply, word in enumerate(answer["line"]["moves"]):
            chance, _, _, _, best, best_chance, loss = rows[ply]
            move = word & POINT_MASK
            if answer["info"]["white" if word & WHITE_BIT else "black"] == "gnugo1" and chance is not None:
                difference = loss if chosen == "points" else best_chance - chance
                differences.append((difference, f"{number}?ply={ply}"))
                phases = ("Opening, moves 1 to 50", "Middle game, 51 to 150", "Endgame, from 151")
                for name in (phases[(ply >= 50) + (ply >= 150)], KINDS[is_near(move, before), is_near(best, before)]):
                    groups[name].append((move == best, difference))
            before = move
    page.goto(review_server.url)
    drop(page, a_sgf=files[0], b_sgf=files[1])
    tab_to(page, "Net")
    page.keyboard.type(chosen)
    if rank:
        tab_to(page, "compared with")
        page.keyboard.type(rank)
    tab_to(page, "Compare", "Enter")
    page.get_by_text("Largest differences").wait_for()
    page.get_by_text("2 games compared").wait_for(state="detached")
    expect(page.locator("#summary ~ .row select").first).to_have_value("gnugo1")
    expected = set()
    for name, each in groups.items():
        same, mean = np.mean(each, 0)
        expected.add(f"{name}\t{len(each)}\t{same:.0%}\t{f'{mean:.1f}' if chosen == 'points' else f'{mean:.0%}'}")
    assert set(page.locator("section[aria-labelledby=summary] tbody tr").all_inner_texts()) == expected
    assert len(groups) == 7
    links = page.locator("section[aria-labelledby=summary] ol a")
    most = [target for _, target in sorted(differences, reverse=True)[:10]]
    assert [str(each.get_attribute("href")).rsplit("/", 1)[1] for each in links.all()] == most
    assert layout_problems(page) == []
    tab_to(page, links.first.inner_text(), "Enter")
    page.get_by_text("Played: ").first.wait_for()


def test_problems_are_solved(browser: Any, window: dict[str, Any], tmp_path: Path) -> None:
    from kifu.web.site import Site

    catalogue = people_catalogue(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        script_problems(patched)
        review.find_problems(catalogue, "values", "ranks", ["7d/10k", "9d/15k"], count=11)
    with serving(Site([catalogue])) as server, open_page(browser, server.url, **window) as page:
        assert server.get("/api/problems", ranks="1d/2k").json["problems"] == []
        assert server.get("/api/problems", first=10**6).json["problems"] == []
        answer = server.get("/api/problems").json
        total, problem = answer["ranks"][0][1], answer["problems"][0]
        games = open_catalogue(catalogue)
        page.goto(server.url + "/problems")
        page.get_by_text(f"Problem 1 of {total}").wait_for()
        wait_for_stones(page, games[problem["row"]].board(problem["ply"]))
        page.get_by_text("Most 7d players find a right move here, most 10k players do not.").wait_for()
        y, x = divmod(problem["mistake"], 19)
        page.locator(f'.shudan-vertex[data-x="{x}"][data-y="{y}"]').click()
        mistake, best = to_gtp(problem["mistake"], 19), to_gtp(problem["answers"][0], 19)
        page.get_by_text(f"{mistake} is not among the right moves.").wait_for()
        page.get_by_text(f"□ {best}: right.").wait_for()
        page.get_by_text(f"△ {mistake}: most likely at 10k, {problem['loss']:.0f} points lost.").wait_for()
        page.reload()  # the address holds the answers
        page.get_by_text("0 of 1 right").wait_for()
        assert layout_problems(page) == []
        page.keyboard.press("ArrowRight")
        page.locator(".shudan-marker_label").wait_for()
        tab_to(page, to_gtp(problem["line"]["moves"][-1] & POINT_MASK, 19), "Enter")
        expect(page.locator(".shudan-marker_label")).to_have_count(len(problem["line"]["moves"]) - problem["ply"])
        tab_to(page, "Back to the problem", "Enter")
        wait_for_stones(page, games[problem["row"]].board(problem["ply"]))
        tab_to(page, "Next", "Enter")
        page.wait_for_url("**at=1**")
        following = answer["problems"][1]
        wait_for_stones(page, games[following["row"]].board(following["ply"]))
        page.locator(".board").focus()
        row, column = divmod(following["answers"][0], 19)
        for key, count in (("ArrowUp", 18), ("ArrowLeft", 18), ("ArrowRight", column), ("ArrowDown", row)):
            for _ in range(count):
                page.keyboard.press(key)
        page.keyboard.press("Enter")
        page.get_by_text("is right.").wait_for()
        page.get_by_text("1 of 2 right").wait_for()
        page.goto(server.url + "/problems?at=10")  # of the next ten
        page.get_by_text(f"Problem 11 of {total}").wait_for()


def test_pages_say_that_nets_are_being_opened(web_catalogue: Path, browser: Any, window: dict[str, Any]) -> None:
    from kifu.web.site import Site

    site = Site([web_catalogue], ["small"])
    open_nets = hold_nets(site)
    with serving(site) as server, open_page(browser, server.url, **window) as page:
        waiting = page.get_by_text("The nets are being opened.")
        for path in ("/game/0/0?ply=20", "/play"):
            page.goto(server.url + path)
            waiting.wait_for()
        tab_to(page, "Games", "Enter")
        tab_to(page, page.locator("tbody tr a").first.inner_text(), "Enter")
        waiting.wait_for()
        page.keyboard.press("ArrowRight")
        page.get_by_text("Move 1 of").wait_for()
        open_nets()
        page.locator(".shudan-vertex[class*=shudan-heat_]").first.wait_for()
        page.locator("caption", has_text="small").wait_for()
        assert waiting.count() == 0
        for path, text in (("/problems", "kifu problems CATALOGUE"), ("/game/0/0", "kifu serve CATALOGUE")):
            page.goto(server.url + path)
            page.get_by_text(f"{text} --net KATAGO.bin.gz").wait_for()
