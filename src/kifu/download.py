"""An HTTP client that retries, bounds what it waits for, and explains failures in one line.

Downloads of collections and copies of sources at URLs use it.
"""

from __future__ import annotations

import http.client
import io
import netrc
import os
import re
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from importlib.metadata import version
from typing import Any, BinaryIO, TypeVar
from urllib.parse import unquote, urljoin, urlsplit

import urllib3
from urllib3 import exceptions
from urllib3.connection import HTTPConnection, HTTPSConnection

from kifu.errors import printable
from kifu.progress import Subtask
from kifu.retry import RetryPolicy, is_transient, retry, with_phrase
from kifu.text import hide_credentials

_CHUNK_BYTES = 1 << 16
_MAX_REDIRECTS = 5
_MAX_REASON = 200
_MIN_RATE = 1000
"""Bytes per second; a body that is slower for `RetryPolicy.read_timeout_s` counts as stalled. GPRS has 3,000."""

T = TypeVar("T")


class DownloadError(Exception):
    """The reason why something was not fetched: one line, safe to print whatever a server put into it."""

    def __init__(self, reason: str) -> None:
        line = printable(reason)
        super().__init__(line if len(line) <= _MAX_REASON else f"{line[:_MAX_REASON]} ...")


class RetryableError(DownloadError):
    """A failure after which another attempt may succeed, after `delay` seconds if the server asked for that."""

    def __init__(self, reason: str, delay: float | None = None) -> None:
        super().__init__(reason)
        self.delay = delay


class ServerBusyError(DownloadError):
    """The server asks for a longer delay than the policy allows, so no other file is requested either."""


class Client:
    """An HTTP client with one connection for each server, for one thread."""

    def __init__(self, policy: RetryPolicy) -> None:
        self.policy = policy
        self._agent = f"kifu/{version('kifu')}"
        self._pools: dict[str, urllib3.PoolManager] = {}

    def retry(self, attempt: Callable[[], T], report: Callable[[str], None]) -> T:
        """Call `attempt` until it does not raise RetryableError, with growing delays; `report` gets a line for each.

        Raises a DownloadError: the failure that cannot be retried, or the last one; ServerBusyError if the server asks
        for a longer delay than the policy allows.
        """

        def wait(error: Exception, number: int) -> None:
            delay = error.delay if isinstance(error, RetryableError) else None
            if delay is None:
                delay = self.policy.delay(number)
            if delay > self.policy.max_delay_s:
                raise ServerBusyError(f"{error} and asks to wait {delay:,.0f} s; fetch the rest then") from None
            report(f"{error}; try {number + 1} of {self.policy.attempts} in {delay:g} s")
            time.sleep(delay)

        try:
            return retry(attempt, self.policy, lambda error: isinstance(error, RetryableError), wait)
        except RetryableError as error:
            raise DownloadError(f"{error} (tried {self.policy.attempts} times)") from None

    def open(
        self, base: str, link: str, start: int = 0, validator: str = "", known: str = ""
    ) -> urllib3.BaseHTTPResponse:
        """Request the bytes of a file from `start` on: a response with status 200, 206, 304 or 416.

        Raises DownloadError for any other response.

        Args:
            base: Address that the link may be relative to.
            validator: ETag or date of the version whose first bytes are there; another version is sent from byte 0.
            known: ETag or date of a version for which the server need not send the bytes (status 304).
        """
        for _ in range(1 + _MAX_REDIRECTS):
            base = _next_url(base, link)
            response = self._request(base, start, validator, known)
            link = response.get_redirect_location() or ""
            if not link:
                return _accept(response)
            response.close()
        raise DownloadError(f"more than {_MAX_REDIRECTS} redirections")

    def chunks(self, response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        """Yield the body as it arrives. Raises RetryableError if it ends early or is too slow."""
        try:
            while chunk := response.read1(_CHUNK_BYTES):  # read() would wait for all of it
                yield chunk
        except exceptions.HTTPError as error:
            raise self._failure(error) from None

    def _request(self, url: str, start: int, validator: str, known: str) -> urllib3.BaseHTTPResponse:
        # `open` follows redirections: urllib3 would read the whole body of each into memory first.
        policy = self.policy
        headers = {"User-Agent": self._agent, "Accept-Encoding": "identity"}
        if start:
            headers |= {"Range": f"bytes={start}-"} | ({"If-Range": validator} if validator else {})
        elif known:
            headers["If-None-Match" if known.endswith('"') else "If-Modified-Since"] = known
        plain, login = _split_login(url)
        if login:
            headers |= urllib3.make_headers(basic_auth=login)
        try:
            return self._pool(url).request(
                "GET", plain, headers=headers,
                timeout=urllib3.Timeout(connect=policy.connect_timeout_s, read=policy.read_timeout_s), retries=False,
                redirect=False, preload_content=False, decode_content=False,
            )  # fmt: skip
        except exceptions.HTTPError as error:
            raise self._failure(error) from None

    def _pool(self, url: str) -> urllib3.PoolManager:
        """Return the connections for an address, through the proxy that the environment names for it."""
        address = urlsplit(url)
        proxy = urllib.request.getproxies().get(address.scheme, "")
        if urllib.request.proxy_bypass(address.hostname or ""):
            proxy = ""
        if proxy not in self._pools:
            login = urllib3.util.parse_url(proxy).auth if proxy else None
            headers = urllib3.make_headers(proxy_basic_auth=login) if login else None
            manager = urllib3.ProxyManager(proxy, proxy_headers=headers) if proxy else urllib3.PoolManager()
            manager.pool_classes_by_scheme = _POOLS
            self._pools[proxy] = manager
        return self._pools[proxy]

    def _failure(self, error: BaseException) -> DownloadError:
        cause = error.args[-1] if error.args else None
        match error:
            case exceptions.ProtocolError() if isinstance(cause, _SlowError):
                return RetryableError(str(cause))
            case exceptions.NameResolutionError():
                return RetryableError("its host name has no address, or there is no network")
            case exceptions.NewConnectionError():
                reason = getattr(error.__cause__, "strerror", None) or type(error.__cause__ or error).__name__
                return RetryableError(f"no connection ({reason})")
            case exceptions.ConnectTimeoutError():
                return RetryableError(f"no connection within {self.policy.connect_timeout_s:g} s")
            case exceptions.TimeoutError():
                return RetryableError(f"nothing came for {self.policy.read_timeout_s:g} s")
            case exceptions.ProxyError():
                return RetryableError(f"the proxy: {self._failure(error.original_error)}")
            case exceptions.ProtocolError() if isinstance(cause, exceptions.IncompleteRead) and cause.expected:
                return RetryableError(f"the connection ended {cause.expected:,} bytes too early")
            case exceptions.ProtocolError():
                return RetryableError(f"the connection broke off ({cause})")
            case exceptions.LocationValueError():
                return DownloadError("its address is invalid" if "://" in str(error) else str(error))
        return RetryableError(f"{type(error).__name__}: {error}")


_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,15})-[0-9]{1,15}|\*)/(?:([0-9]{1,15})|\*)")
_VALIDATOR = re.compile(r'"[!#-~]{1,200}"|[A-Z][a-z]{2}, [0-9A-Za-z :]{20,22} GMT')


class Transfer:
    """A file at a server that is received into an open file; a later attempt continues if the server can.

    Attributes:
        validator: ETag or date of the version whose bytes the file holds; "" if unknown.
        whole: Whether the file is one response of a known length, not pieces of several.
    """

    def __init__(
        self,
        client: Client,
        base: str,
        link: str,
        limit: int,
        *,
        size: int | None = None,
        known: str = "",
        begin: Callable[[str, int | None], None] = lambda _validator, _total: None,
    ) -> None:
        """Describe a transfer.

        Args:
            size: The exact size that an index lists; None if unknown.
            known: Validator of a version that is not to be received, see `Client.open`.
            begin: Called with validator and size, as far as the server sends them, before the first byte is received.
        """
        self.validator = ""
        self.received = 0
        self.whole = False
        self._client, self._base, self._link, self._limit = client, base, link, limit
        self._size, self._known, self._begin = size, known, begin

    def attempt(self, file: BinaryIO, subtask: Subtask) -> bool:
        """Append what the server sends to the file. Returns False if the server has the known version still.

        Raises DownloadError; RetryableError if another attempt may succeed.
        """
        old = file.seek(0, os.SEEK_END)
        validator, known = (self.validator, "") if old else ("", self._known)
        with closing(self._client.open(self._base, self._link, old, validator, known)) as response:
            if known and (response.status == 304 or find_validator(response) == known):
                return False
            extent = _extent(response, old)
            now = find_validator(response)
            # Servers may ignore If-Range and send a part of another version.
            is_other = response.status == 206 and now[:1] == validator[:1] == '"' and now != validator
            if extent is None or is_other:
                empty(file)
                reason = "the server cannot resume" if extent is None else "the file has changed at the server"
                raise RetryableError(f"{reason} at byte {old:,}; starting over", 0.0)
            begin, total = extent
            self.whole = not begin and total is not None
            if total is not None and total > self._limit:
                raise DownloadError(self._too_large())
            if None not in (total, self._size) and total != self._size:
                raise DownloadError(f"the server has {total:,} bytes, but the index lists {self._size:,}")
            if begin < old:
                empty(file)
            if begin == 0:
                self.validator = find_validator(response)
                self._begin(self.validator, total)
            subtask.restart(begin, total)
            if response.status != 416:
                self._receive(response, file, begin, total, subtask)
        file.flush()
        return True

    def _too_large(self) -> str:
        return f"it has more than the {self._limit:,} bytes allowed"

    def _receive(
        self, response: urllib3.BaseHTTPResponse, file: BinaryIO, begin: int, total: int | None, subtask: Subtask
    ) -> None:
        size, limit = begin, self._limit if total is None else total
        for chunk in self._client.chunks(response):
            size += len(chunk)
            self.received += len(chunk)
            if size > limit:
                empty(file)
                raise DownloadError(
                    self._too_large() if total is None else f"more came than the {total:,} bytes announced"
                )
            file.write(chunk)
            subtask.advance(len(chunk))
        if total is not None and size < total:
            raise RetryableError(f"only {size:,} of {total:,} bytes came")


def is_validator(text: str) -> bool:
    """Return whether a text is a strong ETag or a date."""
    return _VALIDATOR.fullmatch(text) is not None


def find_validator(response: urllib3.BaseHTTPResponse) -> str:
    """Return what identifies the version of a file: a strong ETag, else its date; "" if the server sends neither."""
    return next(filter(is_validator, (response.headers.get(name, "") for name in ("ETag", "Last-Modified"))), "")


def empty(file: BinaryIO) -> None:
    """Truncate a file to no bytes."""
    file.seek(0)
    file.truncate()


def _extent(response: urllib3.BaseHTTPResponse, old: int) -> tuple[int, int | None] | None:
    """Return where in a file of `old` bytes the body begins, and the total size if known.

    None if the response does not continue at `old`. After a 416, any other value means that the file is complete.
    """
    length = response.length_remaining
    if response.status == 200:
        return 0, length
    match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if not match:
        return None
    begin, total = (None if number is None else int(number) for number in match.groups())
    if response.status == 416:
        return (old, old) if total == old else None
    if total is None and length is not None:
        total = old + length
    return (old, total) if begin == old else None


def _split_login(url: str) -> tuple[str, str]:
    """Return a URL without "user:password@", and these, by default those of ~/.netrc for its host; "" without any."""
    address = urlsplit(url)
    user, at, host = address.netloc.rpartition("@")
    if at:
        return address._replace(netloc=host).geturl(), unquote(user)
    with suppress(OSError, KeyError, netrc.NetrcParseError):
        login, _, password = netrc.netrc().hosts[address.hostname or ""]  # not those of "default"
        return url, f"{login}:{password}"
    return url, ""


class _SlowError(OSError):
    """A response comes too slowly."""


class _TimedReader(io.RawIOBase):
    """Reads a response from a connection, and raises _SlowError if the headers or the body come too slowly.

    The timeout of a connection begins anew with each byte, so a server that sends a byte now and then could keep a
    download waiting for ever: in headers, and between the pieces of a body.
    """

    def __init__(self, raw: io.RawIOBase, connection: socket.socket) -> None:
        self._raw, self._connection = raw, connection
        self._timeout = connection.gettimeout() or 0.0
        self._since, self._size = time.monotonic(), 0
        self._in_headers = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        if self._in_headers:
            left = self._since + self._timeout - time.monotonic()
            if left <= 0:
                raise self._slow_headers()
            self._connection.settimeout(left)
        try:
            count = self._raw.readinto(buffer)
        except TimeoutError:
            if self._in_headers and self._size:
                raise self._slow_headers() from None
            raise
        self._size += count or 0
        elapsed = time.monotonic() - self._since
        if count and not self._in_headers and elapsed > self._timeout:
            if self._size < _MIN_RATE * elapsed:
                raise _SlowError(f"fewer than {_MIN_RATE:,} bytes a second came for {elapsed:.3g} s")
            self._since, self._size = time.monotonic(), 0
        return count

    def _slow_headers(self) -> _SlowError:
        return _SlowError(f"no complete headers within {self._timeout:g} s")

    def begin_body(self) -> None:
        self._in_headers = False
        self._since, self._size = time.monotonic(), 0
        with suppress(OSError):  # it is closed already
            self._connection.settimeout(self._timeout)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self._reader = _TimedReader(self.fp.detach(), sock)
        self.fp = io.BufferedReader(self._reader)

    def begin(self) -> None:
        super().begin()
        self._reader.begin_body()


def _timed_pool(pool: type[urllib3.HTTPConnectionPool], connection: type[HTTPConnection]) -> Any:
    timed = type(connection.__name__, (connection,), {"response_class": _TimedResponse})
    return type(pool.__name__, (pool,), {"ConnectionCls": timed})


_POOLS = {
    "http": _timed_pool(urllib3.HTTPConnectionPool, HTTPConnection),
    "https": _timed_pool(urllib3.HTTPSConnectionPool, HTTPSConnection),
}


def _next_url(base: str, link: str) -> str:
    """Return the absolute address of a link. Raises DownloadError if it leads from https to http."""
    url = absolute_url(base, link)
    if urlsplit(base).scheme == "https" != urlsplit(url).scheme:
        raise DownloadError(f"{hide_credentials(base)} leads to {hide_credentials(url)}, without encryption")
    return url


def absolute_url(base: str, link: str) -> str:
    """Return the absolute address of a link. Raises DownloadError unless it is an http or https address."""
    with suppress(ValueError):
        url = urljoin(base, link)
        address = urlsplit(url)
        if address.scheme in ("http", "https") and address.hostname:
            return url
    raise DownloadError(f"its link {hide_credentials(link or base)!r} is not an http or https address")


def _accept(response: urllib3.BaseHTTPResponse) -> urllib3.BaseHTTPResponse:
    status = response.status
    if status in (200, 206, 304, 416):
        return response
    response.close()
    reason = f"the server answered {with_phrase(status)}"
    if is_transient(status):
        raise RetryableError(reason, _retry_after(response))
    raise DownloadError(reason)


def _retry_after(response: urllib3.BaseHTTPResponse) -> float | None:
    """Return the seconds in either form of the header, or None if it is missing or malformed."""
    with suppress(exceptions.InvalidHeader, ValueError, OverflowError):
        return urllib3.Retry().get_retry_after(response)
    return None
