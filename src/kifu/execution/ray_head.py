"""The head of the cluster, which may die while there is work: whether it answers, and what is said if it does not."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from kifu.errors import ClusterError, first_line

_KNOCK = 5.0
"""Seconds in which whoever listens at an address has to answer."""

_AWAY = 30.0
"""Seconds for which the head may be away, as one that keeps its state elsewhere is while it is begun again."""

_AGAIN = 1.0
"""Seconds after which it is asked again."""


def probe(address: str, greeting: float) -> str | None:
    """Why nobody answers at HOST:PORT as Ray does; None if somebody does.

    greeting: seconds in which Ray has to, once it listens. Where Ray has to have certificates, which are its matter,
    whoever listens will do.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _KNOCK).close()
    except (OSError, UnicodeError) as error:
        return str(error)
    if os.environ.get("RAY_USE_TLS", "0") != "0":  # as Ray reads it
        return None
    with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:  # Ray asks no proxy either
        try:
            grpc.channel_ready_future(channel).result(timeout=greeting)
        except grpc.FutureTimeoutError:
            return "who answers there is not Ray"
    return None


class ClusterHead:
    """The head of the cluster that this process is connected to, or the Ray Client port there.

    Without it calls of Ray wait. Nodes end a minute later; and so does this process, by Ray's hand and whatever it is
    at, if nobody has told Ray to be patient (2.60.0). So the head is asked whenever a call takes long.
    """

    def __init__(self, address: str | None) -> None:
        """address: as the caller gave it. It is only needed of a Ray Client port, which Ray itself does not tell."""
        self._address = address and address.removeprefix("ray://")
        if not ray.util.client.ray.is_connected():
            self._address = ray.get_runtime_context().gcs_address

    def require(self) -> None:
        """Waits for the head, if it does not answer. Raises ClusterError if it stays away."""
        until = time.monotonic() + _AWAY
        while (reason := self._silence()) is not None:
            if time.monotonic() > until:
                raise self._lost(reason)
            time.sleep(_AGAIN)

    def answers(self) -> bool:
        return self._silence() is None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """For calls of Ray: what goes wrong with one is a ClusterError if the head has gone; else it stays as it is."""
        try:
            yield
        except (RayTaskError, GetTimeoutError):  # which need no reason
            raise
        except (RayError, OSError, grpc.RpcError) as error:
            reason = self._silence()
            if reason is None and isinstance(error, RayError):
                raise
            raise self._lost(reason or first_line(error)) from error

    def _silence(self) -> str | None:
        return None if self._address is None else probe(self._address, _KNOCK)

    def _lost(self, reason: str) -> ClusterError:
        return ClusterError(f"lost the cluster{f' at {self._address}' if self._address else ''}: {reason}")
