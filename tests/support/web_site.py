"""A running server of the web application, raw requests to it, and checks of its pages in a browser."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from kifu.web.server import Access, SiteServer, create_app, listen
from kifu.web.site import Site
from lazy import lazy_import

_playwright = lazy_import("playwright.sync_api")

SIZES: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1440, "height": 900}},
    "tablet": {"viewport": {"width": 768, "height": 1024}},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True},
}
WINDOWS = {
    f"{size}, {theme}": {**options, "color_scheme": theme}
    for size, options in SIZES.items()
    for theme in ("light", "dark")
}
"""Options of Playwright's contexts."""

in_all_windows = pytest.mark.parametrize("window", WINDOWS, indirect=True)

CLIENT = Path(__file__).parents[2] / "client"

HOSTILE_TEXT = """<img src=x onerror="document.title='hostile'">"""
"""Markup that changes the title of a page that does not show it as text."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json", self.headers
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The line of an error: a client error, or 503 for a limit; it has one line."""
        assert 400 <= self.status < 500 or self.status == 503, (self.status, self.body[:200])
        (key,) = self.json
        line: str = self.json[key]
        assert key == "error"
        assert line.isprintable(), line
        assert 0 < len(line) <= 400, line
        return line


@dataclass
class ServedSite:
    """A server that runs in a thread. `url` has no slash at the end; failures: unexpected exceptions of requests."""

    url: str
    site: Site
    server: SiteServer
    failures: list[Exception]
    routes: list[Any]

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.url.removeprefix("http://").rsplit(":", 1)
        return host, int(port)

    def request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        connection: http.client.HTTPConnection | None = None,
    ) -> Answer:
        """Send one request, over a connection of its own by default. Return the response, whatever its status is."""
        used = connection or http.client.HTTPConnection(*self.address, timeout=60)
        try:
            used.request(method, target, body, dict(headers or {}))
            response = used.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            if connection is None:
                used.close()

    def get(self, path: str, **params: object) -> Answer:
        return self.request("GET", f"{path}?{urlencode(params)}" if params else path)

    def post(self, path: str, body: object) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", path, data, {"Content-Type": "application/json"})

    @contextmanager
    def connect(self) -> Iterator[socket.socket]:
        with socket.create_connection(self.address, timeout=60) as connection:
            yield connection

    def send_raw(self, data: bytes) -> bytes:
        """Send bytes over a connection of their own and return all that the server sends until it closes."""
        with self.connect() as connection:
            connection.sendall(data)
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
            return b"".join(parts)


@contextmanager
def serving(site: Site, access: Callable[[int], Access] = Access.local) -> Iterator[ServedSite]:
    """Serve a site on a free port while the context is open, then close it. Unexpected exceptions of requests fail."""
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    failures: list[Exception] = []
    app = create_app(site, access(port), lambda request, error: failures.append(error))
    server = SiteServer(app, site.stop)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield ServedSite(f"http://127.0.0.1:{port}", site, server, failures, app.routes)
    finally:
        server.should_exit = True
        thread.join(300)  # with a cold cache kernels may be compiled, which cannot be interrupted
        assert not thread.is_alive(), "the server does not end within 300 s"
        site.close()
    assert failures == []


def hold_nets(site: Site) -> Callable[[], None]:
    """Let a site wait for its nets until the returned function is called."""
    nets, site.opening = site.opening.result(), Future()
    return lambda: site.opening.set_result(nets)


def analysed(served: ServedSite, row: int, **params: object) -> tuple[Any, list[Any]]:
    """Return a game of the first catalogue and what POST /api/analyse returns about its positions."""
    game = served.get(f"/api/games/0/{row}").json
    line, info = game["line"], game["info"]
    body = {"line": {name: line[name] for name in ("width", "height", "setup", "setup_ply", "moves", "to_play")}}
    body |= {name: info[name] for name in ("komi", "handicap", "rules")} | {"year": int(info["date"][:4])} | params
    rows: list[Any] = []
    while len(rows) <= len(line["moves"]):
        rows += served.post("/api/analyse", body | {"first": len(rows)}).json["rows"]
    return game, rows


def problems(page: Any) -> list[str]:
    """Return errors, exceptions and foreign requests of a page so far; the test fails if it does not clear the list."""
    found: list[str] = page.problems
    return found


def watch(page: Any, url: str) -> None:
    page.problems = found = []

    def route(route: Any) -> None:
        if route.request.url.startswith((f"{url}/", "data:", "blob:")):
            route.continue_()
        else:
            found.append(f"request to {route.request.url[:200]}")
            route.abort()

    page.context.route("**/*", route)
    page.on("console", lambda message: found.append(f"console: {message.text}") if message.type == "error" else None)
    page.on("pageerror", lambda error: found.append(f"exception: {error}"))


DROP = """files => {
    const data = new DataTransfer();
    for (const [name, bytes] of files) data.items.add(new File([new Uint8Array(bytes)], name));
    return data;
}"""


def drop(page: Any, **files: bytes) -> None:
    """Drop files on the page of games; the first _ of a name is its dot."""
    page.locator(".facets li").first.wait_for(state="attached")
    content = [(name.replace("_", ".", 1), list(data)) for name, data in files.items()]
    page.dispatch_event("main", "drop", {"dataTransfer": page.evaluate_handle(DROP, content)})


def tab_to(page: Any, name: str, key: str | None = None) -> None:
    """Press Tab for up to 30 s until a control whose name begins so has the focus; then press `key`."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        page.keyboard.press("Tab")
        shown = page.evaluate("""() => {
            const { ariaLabel, labels, innerText } = document.activeElement;
            return ariaLabel ?? labels?.[0]?.innerText ?? innerText;
        }""")
        if shown.strip().startswith(name):
            return page.keyboard.press(key) if key else None
    raise AssertionError(f"Tab does not reach {name}")


STONES = """[...document.querySelectorAll(".shudan-vertex")].map((each) =>
    ["shudan-sign_0", "shudan-sign_1", "shudan-sign_-1"].findIndex((sign) => each.classList.contains(sign)))"""


def stones(page: Any) -> list[int]:
    """Return the stones of the board on a page, row by row: 0 empty, 1 black, 2 white."""
    found: list[int] = page.evaluate(STONES)
    return found


def wait_for_stones(page: Any, board: Any) -> None:
    shown = board if isinstance(board, list) else board.stones.ravel().tolist()
    page.wait_for_function(f"shown => {STONES}.join() === shown.join()", arg=shown)


def expect(shown: Any) -> Any:
    """Return Playwright's assertions about a page or a locator, which wait until they are true."""
    return _playwright.expect(shown)


HEADINGS = "[...document.querySelectorAll('h1')].map(each => each.innerText)"
CUT_OFF = """() => [document.documentElement, ...document.querySelectorAll(".scroll, .panel, .side-by-side > *")]
    .map((each) => [each.scrollWidth - each.clientWidth, each])
    .filter(([over]) => over > 1)
    .map(([over, each]) => `${over} px too wide: ${each.tagName} ${each.innerText.slice(0, 60)}`)"""


def settled(page: Any, check: Callable[[], list[str]]) -> list[str]:
    """Return what a check finds on a page, which follows changes late: it is repeated for up to 30 s."""
    for _ in range(60):
        if not (found := check()):
            break
        page.wait_for_timeout(500)
    return found


def axe(page: Any) -> list[str]:
    """Return the serious and critical violations that axe-core finds on a settled page: "rule: selector" each."""
    script = CLIENT / "node_modules" / "axe-core" / "axe.min.js"
    if not script.is_file():
        pytest.skip("needs axe-core: run npm ci in client/")
    page.evaluate(script.read_text("utf-8"))

    def check() -> list[str]:
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['id']}: {' '.join(node['target'])}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]

    return settled(page, check)


def layout_problems(page: Any) -> list[str]:
    """Return what is wrong with the headings and widths of a settled page, and what axe finds."""

    def check() -> list[str]:
        headings = page.evaluate(HEADINGS)
        right = len(headings) == 1 and headings[0].strip()
        return [*page.evaluate(CUT_OFF), *([] if right else [f"headings: {headings}"])]

    return settled(page, check) + axe(page)


@contextmanager
def open_page(browser: Any, url: str, **options: object) -> Iterator[Any]:
    """An empty page of a server, which may report no problems until the end."""
    context = browser.new_context(locale="en-GB", **options)
    context.set_default_timeout(30_000)
    _playwright.expect.set_options(timeout=30_000)
    page = context.new_page()
    watch(page, url)
    try:
        yield page
        assert problems(page) == [], problems(page)
    finally:
        context.close()
