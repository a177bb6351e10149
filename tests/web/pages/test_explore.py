"""The explorer answers like `kifu.search`, and a browser shows its answers."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kifu.search.notation import parse_pattern
from kifu.search.position import Position, parse_position
from kifu.search.positions import position_hash
from kifu.search.searcher import Searcher
from web_site import ServedSite, axe, expect, in_all_windows, tab_to


def words(text: str) -> Position:
    position = parse_position(text)
    assert isinstance(position, Position)
    return position


@pytest.mark.parametrize(
    ("moves", "text"), [("", ""), ("pd", "pd"), ("pddp", "pd dp"), ("dppd", "dp pd"), ("pdBdp--", "pd b dp pass")]
)
def test_continuations_are_those_of_the_search(
    site_server: ServedSite, searcher: Searcher, moves: str, text: str
) -> None:
    answer = site_server.get("/api/explore", moves=moves).json
    found = searcher.explore(words(text))
    assert (answer["games"], (answer["black_wins"], answer["white_wins"])) == (found.games, found.wins)
    assert answer["years"] == [[each.year, each.count] for each in found.by_year() if each.year is not None]
    for given, each in zip(answer["continuations"], found.continuations, strict=True):
        years = [[count.year, count.count] for count in found.by_year(each) if count.year is not None]
        assert given == each.to_dict() | {"letter": given["letter"], "years": years}
    letters = [each["letter"] for each in answer["continuations"] if each["letter"]]
    assert letters[:1] == ["A"] if found.continuations else not letters
    assert len(answer["line"]["steps"]) == len(text.replace("b ", "").split())


def test_a_position_of_a_game_is_continued(site_server: ServedSite, searcher: Searcher) -> None:
    row = next(row for row in range(searcher.catalogue.rows) if len(searcher.moves(row).moves) > 40)
    answer = site_server.get("/api/explore", game=row, ply=20).json
    found = searcher.explore((row, 20))
    assert [each["count"] for each in answer["continuations"]] == [each.count for each in found.continuations]
    assert answer["line"]["moves"] == searcher.moves(row).moves[:20].tolist()
    assert len(site_server.get("/api/explore", game=row, ply=20, moves="--").json["line"]["moves"]) == 21
    rows = ",".join(str(each) for each in found.continuations[0].recent)
    games = site_server.get("/api/explore/games", game=row, ply=20, rows=rows).json
    assert [game["row"] for game in games] == found.continuations[0].recent
    shown = found.position.to_pattern(both_colours=False)
    for game in games:
        chosen = np.arange(searcher.catalogue.rows) == game["row"]
        assert game["ply"] == min(searcher.find(shown, chosen).table["ply"].to_pylist())


def test_the_filter_chooses_games(site_server: ServedSite, searcher: Searcher) -> None:
    answer = site_server.get("/api/explore", winner="black").json
    found = searcher.explore(words(""), searcher.select("winner = 'black' AND width = 19 AND height = 19"))
    assert (answer["games"], answer["white_wins"]) == (found.games, 0)


@pytest.mark.parametrize(
    ("position", "text"), [("19x19..", ""), ("19x19.pd.", "pd"), ("19x19.ddWpp.", "dd w pp"), ("7-20..", "8@20")]
)
def test_the_list_of_games_is_narrowed_to_a_position(
    site_server: ServedSite, searcher: Searcher, position: str, text: str
) -> None:
    at = parse_position(text or "pass")
    found = searcher.explore(at)
    answer = site_server.get("/api/games", position=position, count=200).json
    assert answer["total"] == found.games > 0
    shown = found.position
    assert len(answer["line"]["steps"]) == (20 if isinstance(at, tuple) else np.count_nonzero(shown.stones))
    for game in answer["games"][:20]:
        plies = [(game["row"], ply) for ply in range(game["ply"] + 1)]
        hashes = [position_hash(each)[0] for each in searcher.positions(plies)]
        assert hashes.index(position_hash(shown)[0]) == game["ply"]
    for each in found.continuations:
        if each.x is not None and each.y is not None:
            following = f"{'W' if each.colour == 'white' else 'B'}{chr(97 + each.x)}{chr(97 + each.y)}"
            games = site_server.get("/api/games", position=position + following, count=200).json
            assert games["total"] == each.count
            assert set(each.recent) <= {game["row"] for game in games["games"]} or each.count > 200


def test_a_position_narrows_facets_and_goes_with_filters_orders_and_pages(site_server: ServedSite) -> None:
    given = {"position": "19x19.pd.", "sort": "date", "descending": "true"}
    listed = site_server.get("/api/games", **given, count=200).json["games"]
    page = site_server.get("/api/games", **given, count=5, first=5, winner="black").json
    black = [game for game in listed if game["winner"] == "black"]
    assert (page["total"], page["games"]) == (len(black), black[5:10])
    facets = site_server.get("/api/facets", position="19x19.pd.").json
    assert dict(facets["winners"])["black"] == len(black)
    assert "line" not in site_server.get("/api/games").json


@pytest.mark.parametrize("position", ["pd", "19x19.zz.", "9x9.pd.", "19x19.pdpd.", "12-1999..", "9x9..Bpd"])
@pytest.mark.parametrize("path", ["/api/games", "/api/facets"])
def test_invalid_positions_of_lists_are_refused(site_server: ServedSite, path: str, position: str) -> None:
    assert site_server.get(path, position=position).error


@pytest.mark.parametrize(
    "params",
    [
        {"moves": "zz"}, {"moves": "pdpd"}, {"moves": "pd" * 3000}, {"game": 10**9}, {"game": 0, "ply": 1999},
        {"board": "99x99"}, {"board": "9x9", "moves": "pd"}, {"corpus": 7}, {"jobs": 2},
    ],
)  # fmt: skip
def test_invalid_positions_are_refused(site_server: ServedSite, params: dict[str, object]) -> None:
    answer = site_server.get("/api/explore", **params)
    assert answer.status in (400, 404)
    assert answer.error


def test_few_games_are_described_at_a_time(site_server: ServedSite) -> None:
    assert "at most 20" in site_server.get("/api/explore/games", rows=",".join(map(str, range(21)))).error
    assert "row must be" in site_server.get("/api/explore/games", rows="100000").error


def test_requests_take_limited_time(web_catalogue: Path) -> None:
    from kifu.web.api import Deadline, TimeLimitError
    from kifu.web.games import ListParams, list_games
    from kifu.web.patterns import PositionParams, SearchParams, SearchResults, explore, search
    from kifu.web.site import Site

    with closing(Site([web_catalogue])) as site:
        for ask in (
            lambda: explore(site, PositionParams(moves="pd"), Deadline(-1)),
            lambda: list_games(site, ListParams(position="19x19.pd."), Deadline(-1)),
            lambda: search(site, SearchResults(), SearchParams(pattern="XO/OX"), Deadline(-1)),
        ):
            with pytest.raises(TimeLimitError, match="longer than"):
                ask()


def test_a_searcher_works_for_many_threads(web_catalogue: Path) -> None:
    pattern, position = parse_pattern("XO/OX"), words("pd dp")
    single = Searcher(web_catalogue)
    hits, found = single.find(pattern), single.explore(position).to_dict()
    shared, start = Searcher(web_catalogue), threading.Barrier(8, timeout=60)

    def work(number: int) -> bool:
        start.wait()
        if number % 2:
            return bool(shared.find(pattern).table.equals(hits.table))
        return shared.explore(position).to_dict() == found

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


@pytest.mark.slow
@in_all_windows
def test_moves_have_bars_ranks_and_rare_ones_are_folded(site_server: ServedSite, page: Any) -> None:
    page.goto(f"{site_server.url}/explore?moves=qd")
    rows = page.locator(".continuations tbody tr")
    found = site_server.get("/api/explore", moves="qd").json["continuations"]
    rows.first.wait_for()
    shown = rows.count()
    rare = found[shown:]
    assert shown < len(found)
    assert all(each["share"] >= 0.005 for each in found[3:shown])
    first = found[0]
    bar = rows.first.get_by_role("img", name=re.compile("^Black won"))
    assert f"White {100 * first['win_rate']:.1f}%" in str(bar.get_attribute("aria-label"))
    assert re.fullmatch(r"\d+[dkp]", rows.first.locator("td").nth(4).inner_text())
    tab_to(page, f"{len(rare)} more, {sum(each['count'] for each in rare)} games", "Enter")
    expect(rows).to_have_count(len(found))
    page.keyboard.press("Tab")
    expect(rows.nth(shown).get_by_role("button")).to_be_focused()
    box = rows.first.locator("td").nth(2).bounding_box()
    page.mouse.click(box["x"] + 5, box["y"] + 5)  # the whole row is a button
    page.locator(".breadcrumbs a").nth(2).wait_for()
    page.evaluate("document.activeElement.blur()")
    for key, crumbs in (("ArrowLeft", 1), ("ArrowRight", 2), ("Home", 0), ("End", 2)):
        page.keyboard.press(key)
        page.locator(f'.breadcrumbs a[aria-current="step"]:nth-child({crumbs + 1})').wait_for()
    page.locator("ul.plain-list .muted", has_text=re.compile(r"[BW]\+")).first.wait_for()


@pytest.mark.slow
@in_all_windows
def test_the_games_of_a_move_are_listed(site_server: ServedSite, page: Any) -> None:
    page.goto(f"{site_server.url}/explore?moves=pd&next=D4&winner=black")
    link = page.get_by_role("link", name=re.compile("all games", re.IGNORECASE)).inner_text()
    tab_to(page, link, "Enter")
    page.get_by_text("Games with the move D4").wait_for()
    expect(page.get_by_role("status")).to_have_text(re.sub("[^0-9]", "", link) + " games")
    assert axe(page) == []
    tab_to(page, page.locator("table.games tbody a").first.inner_text(), "Enter")
    page.wait_for_url("**/game/0/*?ply=*")
    expect(page.get_by_role("link", name="Explorer")).to_have_attribute("href", "/explore?corpus=0")
    page.go_back()
    back = page.get_by_role("link", name="Explore this position")
    expect(back).to_have_attribute("href", "/explore?corpus=0&winner=black&moves=pd")
    tab_to(page, "Remove the position", "Enter")
    page.get_by_text("Games with the move D4").wait_for(state="detached")
    page.wait_for_url("**winner=black**")
