"""The server answers, and a browser shows its first page."""

import re
from typing import Any

from web_site import ServedSite


def test_pages_and_assets_are_served(site_server: ServedSite) -> None:
    page = site_server.get("/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assets = re.findall(r'(?:src|href)="(/assets/[^"]+)"', page.body.decode())
    assert {"/assets/app.js", "/assets/app.css"} <= set(assets)
    for path in assets:
        asset = site_server.get(path)
        assert (asset.status, len(asset.body) > 100) == (200, True), path
        again = site_server.request("GET", path, headers={"If-None-Match": asset.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
    assert {site_server.get(f"/{path}").body for path in ("game/0/17", "explore", "search", "corpus")} == {page.body}
    assert site_server.request("HEAD", "/").status == 200


def test_the_site_is_described(site_server: ServedSite) -> None:
    nets = site_server.get("/api/nets").json
    assert [(each["name"], each["board"]) for each in nets] == [("small", [19, 19])]
    corpora = [{"name": "games.parquet", "games": 320, "indexed": True}]
    assert site_server.get("/api/site").json == {"corpora": corpora, "nets": nets}


def test_the_first_page_shows_games(site_server: ServedSite, browser_page: Any) -> None:
    browser_page.goto(site_server.url)
    browser_page.get_by_role("navigation").wait_for()
    browser_page.locator("tbody tr").nth(10).wait_for()
