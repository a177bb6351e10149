"""Fixtures of the tests of the web application.

`site_server` is a `web_site.ServedSite` that all tests share, so a test must not change it. Its methods `get(path,
**params)`, `post(path, body)` and `request(method, target, body, headers)` return a `web_site.Answer`: `answer.json`,
or `answer.error`, which checks the status and that the error is one line; `connect()` returns a socket.

`page` is a page of Playwright's synchronous API in a desktop window; in tests marked `web_site.in_all_windows`, in each
of `web_site.WINDOWS`. A test that provokes an error (an answer with an error status is one, too) calls
`problems(page).clear()` from `web_site`. The tests skip without Chromium; mark them `slow`. Give
`page.wait_for_function` a function, as the policy of the page refuses expressions. While a page is open, asyncio.run()
fails in the same module.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kifu
from kifu.search.searcher import Searcher
from web_site import HOSTILE_TEXT, WINDOWS, ServedSite, open_page, serving


@pytest.fixture(scope="session")
def web_catalogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The catalogue of the bundled sample, indexed; not to be changed."""
    path = tmp_path_factory.mktemp("web") / "games.parquet"
    kifu.ingest(kifu.sample_path(), path)
    kifu.build_index(path)
    return path


@pytest.fixture(scope="session")
def game() -> kifu.Game:
    return next(iter(kifu.read(kifu.sample_path())))


@pytest.fixture(scope="session")
def site_server(web_catalogue: Path) -> Iterator[ServedSite]:
    """A running server over the bundled sample with the net small."""
    pytest.importorskip("uvicorn", reason="needs kifu[web]")
    from kifu.web.site import Site

    with serving(Site([web_catalogue], ["small"])) as served:
        yield served


@pytest.fixture(scope="session")
def full_server(web_catalogue: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedSite]:
    """A running server over two catalogues, the second with hostile texts, with the nets small and human."""
    pytest.importorskip("uvicorn", reason="needs kifu[web]")
    from kifu.web.site import Site

    folder = tmp_path_factory.mktemp("hostile")
    names = "".join(f"{name}[{HOSTILE_TEXT}]" for name in ("PB", "PW", "EV", "PC", "RE", "RU"))
    (folder / "hostile.sgf").write_text(f"(;SZ[19]{names};B[pd];W[dp])(;SZ[9]{names};B[ee];W[cc])")
    kifu.ingest(folder, folder / "hostile.parquet")
    with serving(Site([web_catalogue, folder / "hostile.parquet"], ["small", "human"])) as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser; it must not outlive the module, since Playwright's event loop occupies the thread."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs Chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield running
        finally:
            running.close()


@pytest.fixture
def window(request: pytest.FixtureRequest) -> dict[str, Any]:
    return WINDOWS[getattr(request, "param", "desktop, light")]


@pytest.fixture
def page(browser: Any, site_server: ServedSite, window: dict[str, Any]) -> Iterator[Any]:
    """An empty page; the test fails if `problems` has an entry at the end."""
    with open_page(browser, site_server.url, **window) as page:
        yield page


@pytest.fixture(scope="module")
def searcher(web_catalogue: Path) -> Searcher:
    return Searcher(web_catalogue)


@pytest.fixture
def full_page(browser: Any, full_server: ServedSite, window: dict[str, Any]) -> Iterator[Any]:
    """An empty page like `page`, for `full_server`."""
    with open_page(browser, full_server.url, **window) as page:
        yield page
