"""Protection of the server: who may ask, and what a browser may do with the answers."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kifu.errors import first_line
from kifu.web.api import error_response

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
