"""The HTTP server: access control, limits on clients, and the application with its routes and assets."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from importlib.resources import files
from time import monotonic
from types import FrameType
from typing import cast
from urllib.parse import parse_qsl, urlencode

import anyio.to_thread
import h11
import uvicorn
from blake3 import blake3
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from kifu.errors import RecipeError, first_line
from kifu.web.api import BusyError, Deadline, error_response, json_response, plain_route
from kifu.web.games import games_routes, read_upload
from kifu.web.nets import nets_routes
from kifu.web.patterns import SearchParams, SearchResults, explore, patterns_routes, search
from kifu.web.positions import PositionParams
from kifu.web.site import Site
from kifu.web.statistics import statistics_routes

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": _CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Headers of all responses."""

MAX_HEADERS = 16_384
"""Maximum number of bytes of the address and the headers of a request."""

_METHODS = ("GET", "HEAD", "POST")

_BODY_TYPES = ("application/json", "application/x-go-sgf", "application/octet-stream")
"""Media types of bodies. Pages of other origins cannot send them without being asked first, which is refused."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Access:
    """The requests that a server accepts.

    Attributes:
        hosts: Accepted values of the header Host, lower case, such as "127.0.0.1:8361"; None for any with a token.
        token: The secret that each request must have in a cookie or as a bearer; None if none is needed.
        cookie: Name of the cookie. Servers on other ports of the same host see it, too, and need other names.
    """

    hosts: frozenset[str] | None
    token: str | None = None
    cookie: str = "kifu"

    @classmethod
    def local(cls, port: int, token: str | None = None) -> Access:
        """Return the access of programs on the same machine."""
        return cls(frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")), token, f"kifu-{port}")

    @classmethod
    def remote(cls, port: int, token: str) -> Access:
        """Return the access of all who have a token."""
        return cls(None, token, f"kifu-{port}")

    def refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return status and message if a request is refused because of its origin, its form or a missing token."""
        headers = Headers(scope=scope)
        size = len(scope["raw_path"]) + len(scope["query_string"])
        if size + sum(len(name) + len(value) for name, value in headers.raw) > MAX_HEADERS:
            return 431, f"address and headers must have at most {MAX_HEADERS:,} bytes"
        host = headers.get("host", "").lower()
        if self.hosts is not None and host not in self.hosts:
            return 403, "the header Host names another server"
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"{scope['scheme']}://{host}":
            return 403, "requests from other origins are refused"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not _follows_link(scope, headers):
            return 403, "requests from other sites are refused"
        if scope["method"] not in _METHODS:
            return 405, f"the method must be {', '.join(_METHODS[:-1])} or {_METHODS[-1]}"
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and media_type not in _BODY_TYPES:
            return 415, f"the header Content-Type must be {', '.join(_BODY_TYPES[:-1])} or {_BODY_TYPES[-1]}"
        if self.token is not None and not self._has_token(headers):
            return 401, "a token is required: open the address that kifu serve printed, which contains it"
        return None

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.accepts(bearer.strip()):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return cookie is not None and self.accepts(cookie.value)

    def accepts(self, token: str) -> bool:
        """Return True for the token; the time does not depend on how many characters are right."""
        return self.token is not None and hmac.compare_digest(token.encode(), self.token.encode())

    def sign_in(self, scope: Scope) -> Response | None:
        """Return the response to an address with the token: a cookie, and the address without it."""
        if self.token is None or scope["method"] != "GET":
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for key, value in query if key == "token"]
        if not tokens or not self.accepts(tokens[0]):
            return None
        rest = urlencode([(key, value) for key, value in query if key != "token"])
        # A path that begins with two slashes would name another host.
        path = "/" + scope["raw_path"].decode("ascii", "replace").lstrip("/")
        location = path + (f"?{rest}" if rest else "")
        response = Response(status_code=303, headers={"location": location, "cache-control": "no-store"})
        response.set_cookie(self.cookie, self.token, path="/", httponly=True, samesite="strict")
        return response


def _follows_link(scope: Scope, headers: Headers) -> bool:
    """Return True if a person opens a page by a link on another site, which answers with a document only."""
    return (
        scope["method"] == "GET"
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
        and not scope["path"].startswith("/api/")
    )


def log_failure(request: str, error: Exception) -> None:
    """Log an unexpected exception as one line."""
    _LOG.error("%s failed: unexpected %s: %s", request, type(error).__name__, first_line(error))


class Guard:
    """ASGI middleware: refuses foreign requests, adds headers for the browser, and answers unexpected exceptions."""

    def __init__(self, app: ASGIApp, access: Access, failed: Callable[[str, Exception], object] = log_failure) -> None:
        """Wrap an application. failed: is called with method and path, and the exception."""
        self._app, self._access, self._failed = app, access, failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._access.refusal(scope)
        signed_in = self._access.sign_in(scope) if refusal and refusal[0] == 401 else None
        if signed_in is not None:
            await signed_in(scope, receive, send_guarded)
        elif refusal is not None:
            await error_response(*refusal)(scope, receive, send_guarded)
        else:
            try:
                await self._app(scope, receive, send_guarded)
            except Exception as error:
                self._failed(f"{scope['method']} {scope['path'][:100]}", error)
                if started:
                    raise
                await error_response(500, "an unexpected error; see the output of kifu serve")(
                    scope, receive, send_guarded
                )


MAX_CONNECTIONS = 400
"""Maximum number of connections; further ones are closed at once. Systems allow 1,024 open files or more."""

SLOW_SECONDS = 30.0
"""Longest time that a client may take to send a request, or to read the rest of a response."""

_IDLE_SECONDS = 10  # how long a connection without a request is kept
_CLOSING_SECONDS = 1  # how long running requests may finish at the end


class _Protocol(H11Protocol):
    """A connection that is cut if its client is too slow: uvicorn only limits the time between requests."""

    slow_seconds = SLOW_SECONDS
    _owing_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # asyncio sets this for sockets made with IPPROTO_TCP only; without it, responses wait 40 ms for an ACK.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Answer malformed HTTP as the application answers errors, and close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            reason = f"the request is not valid HTTP, or its headers have more than {MAX_HEADERS:,} bytes"
            response = error_response(400, reason)
            response.headers.update(HEADERS | {"connection": "close"})
            for event in (
                h11.Response(status_code=400, headers=response.raw_headers, reason=b"Bad Request"),
                h11.Data(data=bytes(response.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event))
        self.transport.close()

    def check(self, now: float) -> None:
        """Cut the connection if the client owes a part of a request, or does not read, for too long."""
        their_state = self.conn.their_state
        incomplete = their_state is h11.IDLE and (self.cycle is None or bool(self.conn.trailing_data[0]))
        owes = incomplete or their_state is h11.SEND_BODY or self.transport.get_write_buffer_size() > 0
        if not owes:
            self._owing_since = None
        elif self._owing_since is None:
            self._owing_since = now
        elif now - self._owing_since > self.slow_seconds:
            self.transport.abort()


class SiteServer(uvicorn.Server):
    """A server of one application.

    Attributes:
        signal: The last signal that ended it; 0 without one.
    """

    signal = 0

    def __init__(self, app: ASGIApp, stop: Callable[[], object] = lambda: None) -> None:
        """Configure the server, which `run(sockets=[listener])` starts. It ends after `should_exit` is set.

        Args:
            stop: Is called when the server begins to end, to interrupt requests.
        """
        self._stop = stop
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=_Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                h11_max_incomplete_event_size=MAX_HEADERS,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=_CLOSING_SECONDS,
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the server because of a signal."""
        self.signal = sig
        super().handle_exit(sig, frame)

    def end_if(self, condition: bool) -> None:
        """End the server if a condition holds; for callbacks."""
        self.should_exit |= condition

    async def on_tick(self, counter: int) -> bool:
        """Check all connections once per second."""
        if counter % 10 == 0:
            now = monotonic()
            for connection in list(self.server_state.connections):
                cast(_Protocol, connection).check(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Interrupt requests, then close all connections."""
        self._stop()
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address. port: 0 takes a free one.

    Raises:
        RecipeError: That is impossible, for example because another program listens there.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
        except BaseException:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        raise RecipeError(f"cannot listen at {host} port {port}: {reason}") from None
    return listener


_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}

_PAGES = ("", "game", "explore", "search", "play", "problems", "planes", "corpus", "reports")
"""The first parts of the paths of pages, as client/src/main.tsx has them."""

_FEW = '"row" < 100'
"""The games that are searched when the server starts."""


def create_app(site: Site, access: Access, failed: Callable[[str, Exception], object] = log_failure) -> Starlette:
    """Return the ASGI application of a site.

    Args:
        failed: Is called with method and path of a request, and the unexpected exception that it raised.
    """
    assets = {path.name: path.read_bytes() for path in files("kifu").joinpath("assets", "web").iterdir()}

    async def about(request: Request) -> Response:
        return json_response(await anyio.to_thread.run_sync(site.about))

    async def nets(request: Request) -> Response:
        try:
            await asyncio.shield(asyncio.wrap_future(site.opening))
        except asyncio.CancelledError:
            raise BusyError("the server stops") from None
        return json_response(site.about_nets())

    async def page(request: Request) -> Response:
        first = request.path_params.get("path", "").partition("/")[0]
        if first == "api" or not re.fullmatch("[a-z]*", first):
            return error_response(404, f"there is no page {request.url.path[:80]!r}")
        shown = _asset(assets, "index.html", request)  # the client shows all pages from one document
        if first not in _PAGES:
            shown.status_code = 404
        return shown

    async def asset(request: Request) -> Response:
        return _asset(assets, request.path_params["name"], request)

    routes = [plain_route("/api/site", about), plain_route("/api/nets", nets)]
    routes += games_routes(site) + nets_routes(site) + patterns_routes(site) + statistics_routes(site)
    routes += [Route("/assets/{name}", asset), Route("/{path:path}", page)]
    middleware = [Middleware(Guard, access=access, failed=failed), Middleware(GZipMiddleware, minimum_size=1000)]
    return Starlette(routes=routes, middleware=middleware, exception_handlers={HTTPException: _http_error})


def warm_up(site: Site, deadline: Deadline) -> None:
    """Answer the slow kinds of requests once, so that no visitor waits for libraries and the compilation of kernels."""
    explore(site, PositionParams.model_validate({"moves": "pd", "sql": _FEW}), deadline)
    search(site, SearchResults(), SearchParams.model_validate({"pattern": ". X .", "sql": _FEW}), deadline)
    read_upload(b"(;C[a];B[aa])", "a.sgf", deadline)


async def _http_error(request: Request, error: Exception) -> Response:
    """Answer an error of the router, such as a method that a path does not have."""
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, f"{request.method} {request.url.path[:80]!r}: {error.detail}")


def _asset(assets: dict[str, bytes], name: str, request: Request) -> Response:
    data = assets.get(name)
    if data is None:
        return error_response(404, f"there is no asset {name[:80]!r}")
    headers = {"etag": f'"{blake3(data).hexdigest()[:32]}"', "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=_TYPES["." + name.rpartition(".")[2]], headers=headers)
