"""The HTTP server: uvicorn with limits on slow clients and on the number of connections."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from time import monotonic
from types import FrameType
from typing import Any, cast

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from kifu.errors import RecipeError, first_line
from kifu.web.api import error_response
from kifu.web.guard import HEADERS, MAX_HEADERS

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
        """Begin a connection."""
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
        RecipeError: If that is impossible, for example because another program listens there.
    """
    try:
        family, _, _, _, address = _resolve(host, port)
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


def _resolve(host: str, port: int) -> Any:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
