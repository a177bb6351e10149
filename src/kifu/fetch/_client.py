"""Opens addresses, tries again where that may help, and says in plain words why something did not come."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

import urllib3
from urllib3 import exceptions

_CHUNK = 1 << 16
_REDIRECTS = 5
_LONGEST_REASON = 200
_SLOWEST = 100
"""Bytes a second; a body that comes more slowly for as long as `Patience.read` counts as stalled."""
_TRANSIENT = (408, 425, 429)
"""Answers that may be others later, as all from 500 on may."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a download waits and how often it tries again. Times are in seconds."""

    connect: float = 15.0
    read: float = 60.0
    """Without a byte, or with fewer than 100 a second."""
    tries: int = 5
    """Of each archive; the bytes received are kept between them."""
    first_wait: float = 1.0
    """After the first try; doubled after each further one, unless the server says how long (Retry-After)."""
    longest_wait: float = 60.0
    """Even if the server asks for more."""


class Failure(Exception):
    """Why something was not fetched: one line for the user, safe to print whatever a server had put into it."""

    def __init__(self, reason: str) -> None:
        line = "".join(letter if letter.isprintable() else " " for letter in reason)
        super().__init__(line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]} ...")


class Again(Failure):
    """A failure that may be none at the next try, after `wait` seconds if the server said so."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class FetchStopped(Exception):
    """The run is over, for a reason that others tell."""


class Client:
    """Opens addresses with patience, from as many threads as `connections`, until `stop` is set."""

    def __init__(self, patience: Patience, connections: int) -> None:
        self.patience = patience
        self.stop = threading.Event()
        self._connections = connections
        self._pools: dict[str, urllib3.PoolManager] = {}

    def persist(self, attempt: Callable[[], T], say: Callable[[str], None]) -> T:
        """Calls `attempt` until it raises no Again, with ever longer waits between. Raises Failure in the end."""
        count = 0
        while True:
            count += 1
            try:
                return attempt()
            except Again as failure:
                if count >= self.patience.tries:
                    raise Failure(f"{failure} (tried {count} times)") from None
                wait = self.patience.first_wait * 2 ** (count - 1) if failure.wait is None else failure.wait
                wait = min(wait, self.patience.longest_wait)
                say(f"{failure}; try {count + 1} of {self.patience.tries} in {wait:g} s")
                if self.stop.wait(wait):
                    raise FetchStopped from None

    def open(self, base: str, link: str, start: int) -> urllib3.BaseHTTPResponse:
        """The answer to a request for the bytes from `start` of `link`, which may be relative to `base`.

        Its status is 200, 206 or 416, and its body not yet read. Raises Failure for any other.
        """
        for _ in range(1 + _REDIRECTS):
            base = _absolute(base, link)
            response = self._request(base, start)
            link = response.get_redirect_location() or ""
            if not link:
                return _accepted(response)
            response.close()
        raise Failure(f"more than {_REDIRECTS} redirections")

    def chunks(self, response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        """The body as it comes. Raises Again where it ends too early or comes too slowly."""
        since, size = time.monotonic(), 0
        while True:
            if self.stop.is_set():
                raise FetchStopped
            try:
                chunk = response.read1(_CHUNK)  # what is there: read() would wait for all of it
            except exceptions.HTTPError as error:
                raise self._failure(error) from None
            if not chunk:
                return
            size += len(chunk)
            elapsed = time.monotonic() - since
            if elapsed > self.patience.read:
                if size < _SLOWEST * elapsed:
                    raise Again(f"fewer than {_SLOWEST} bytes a second came for {elapsed:.3g} s")
                since, size = time.monotonic(), 0
            yield chunk

    def _request(self, url: str, start: int) -> urllib3.BaseHTTPResponse:
        # Redirections are followed by `open`: urllib3 would read the whole body of each into memory first.
        try:
            return self._pool(url).request(
                "GET",
                url,
                headers={"User-Agent": "kifu", "Accept-Encoding": "identity"}
                | ({"Range": f"bytes={start}-"} if start else {}),
                timeout=urllib3.Timeout(connect=self.patience.connect, read=self.patience.read),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except exceptions.HTTPError as error:
            raise self._failure(error) from None

    def _pool(self, url: str) -> urllib3.PoolManager:
        """The connections for `url`, through the proxy that the environment names for it, if any."""
        address = urlsplit(url)
        proxy = urllib.request.getproxies().get(address.scheme, "")
        if urllib.request.proxy_bypass(address.hostname or ""):
            proxy = ""
        return self._pools.setdefault(proxy, _new_pool(proxy, self._connections))

    def _failure(self, error: BaseException) -> Failure:
        """What an error of urllib3 means."""
        cause = error.args[-1] if error.args else None
        match error:
            case exceptions.NameResolutionError():
                return Again("its host name has no address, or there is no network")
            case exceptions.NewConnectionError():
                return Again(f"no connection ({_system_reason(error)})")
            case exceptions.ConnectTimeoutError():
                return Again(f"no connection within {self.patience.connect:g} s")
            case exceptions.TimeoutError():
                return Again(f"nothing came for {self.patience.read:g} s")
            case exceptions.ProxyError():
                return Again(f"the proxy: {self._failure(error.original_error)}")
            case exceptions.ProtocolError() if isinstance(cause, exceptions.IncompleteRead) and cause.expected:
                return Again(f"the connection ended {cause.expected:,} bytes too early")
            case exceptions.ProtocolError():
                return Again(f"the connection broke off ({cause})")
            case exceptions.LocationValueError():
                return Failure(str(error))
        return Again(f"{type(error).__name__}: {error}")


def _new_pool(proxy: str, connections: int) -> urllib3.PoolManager:
    if not proxy:
        return urllib3.PoolManager(maxsize=connections)
    login = urllib3.util.parse_url(proxy).auth
    headers = urllib3.make_headers(proxy_basic_auth=login) if login else None
    return urllib3.ProxyManager(proxy, maxsize=connections, proxy_headers=headers)


def _absolute(base: str, link: str) -> str:
    with suppress(ValueError):
        url = urljoin(base, link)
        address = urlsplit(url)
        if address.scheme in ("http", "https") and address.hostname:
            return url
    raise Failure(f"its link {link or base!r} is no http or https address")


def _accepted(response: urllib3.BaseHTTPResponse) -> urllib3.BaseHTTPResponse:
    status = response.status
    if status in (200, 206, 416):
        return response
    response.close()
    reason = f"the server answered {status}"
    with suppress(ValueError):
        reason += f" ({HTTPStatus(status).phrase})"
    if status >= 500 or status in _TRANSIENT:
        raise Again(reason, _retry_after(response))
    raise Failure(reason)


def _retry_after(response: urllib3.BaseHTTPResponse) -> float | None:
    """Seconds, from either form of the header; None if there is none that can be read."""
    with suppress(exceptions.InvalidHeader, ValueError, OverflowError):
        return urllib3.Retry().get_retry_after(response)
    return None


def _system_reason(error: BaseException) -> str:
    cause = error.__cause__
    return cause.strerror if isinstance(cause, OSError) and cause.strerror else type(cause or error).__name__
