"""Connections that are cut off when their time is up.

The timeouts of sockets begin anew with each byte, so a server that sends a byte now and then could keep a download
waiting for ever: in headers, and between the pieces of a body.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

_current = threading.local()


class Watchdog:
    """Shuts down the connection that the calling thread uses once a number of seconds has passed. A context manager."""

    def __init__(self, seconds: float, connection: socket.socket | None = None) -> None:
        """Set the time.

        Args:
            connection: The connection, by default the one that the thread opens or uses next.
        """
        self.expired = False
        self._connection = connection
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="kifu fetch watchdog", daemon=True)
        self.extend(seconds)

    def extend(self, seconds: float) -> None:
        """Set a new time, in seconds from now on."""
        self._at = time.monotonic() + seconds

    def guard(self, connection: socket.socket) -> None:
        """Guard this connection from now on."""
        self._connection = connection
        if self.expired:
            self._cut()

    def _cut(self) -> None:
        if self._connection is not None:
            with suppress(OSError):  # it is closed already
                # For TLS, too: SSLSocket's own method would wait for the thread that reads.
                socket.socket.shutdown(self._connection, socket.SHUT_RDWR)

    def _watch(self) -> None:
        while not self._ended.wait(max(self._at - time.monotonic(), 0)):
            if time.monotonic() >= self._at:
                self.expired = True
                self._cut()
                return

    def __enter__(self) -> Watchdog:
        _current.watchdog = self
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join()
        _current.watchdog = None


def _guard(connection: socket.socket) -> None:
    watchdog = getattr(_current, "watchdog", None)
    if watchdog is not None:
        watchdog.guard(connection)


class _Guarded:
    """Tells the watchdog of the thread which connection is used."""

    def _new_conn(self) -> socket.socket:
        connection: socket.socket = super()._new_conn()  # type: ignore[misc]
        _guard(connection)  # a proxy may send headers before the handshake, whose timeout is for all of it
        return connection

    def getresponse(self) -> Any:
        connection = self.sock  # type: ignore[attr-defined]
        _guard(connection)
        response = super().getresponse()  # type: ignore[misc]
        response.guarded = connection
        return response


class _GuardedHTTP(_Guarded, HTTPConnection):
    pass


class _GuardedHTTPS(_Guarded, HTTPSConnection):
    pass


class _HTTPPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _GuardedHTTP


class _HTTPSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _GuardedHTTPS


POOLS: dict[str, Any] = {"http": _HTTPPool, "https": _HTTPSPool}
"""Pools of guarded connections, for `urllib3.PoolManager.pool_classes_by_scheme`."""
