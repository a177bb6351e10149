"""Retrying requests that may succeed later; used by downloads and by remote storage."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

T = TypeVar("T")

_TRANSIENT = (408, 425, 429)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Timeouts of a request, and the number of its attempts.

    Attributes:
        read_timeout_s: Seconds without a byte, or with fewer than 1,000 bytes per second. The headers must be complete
            within the sum of both timeouts.
        first_delay_s: Seconds between the first two attempts; doubled after each further one, unless the server asks
            for another delay (Retry-After).
    """

    connect_timeout_s: float = 15.0
    read_timeout_s: float = 60.0
    attempts: int = 5
    first_delay_s: float = 1.0
    max_delay_s: float = 60.0

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after an attempt, counted from 1."""
        return min(self.first_delay_s * float(2 ** (attempt - 1)), self.max_delay_s)


def is_transient(status: int) -> bool:
    """Return whether an HTTP status may be another one later."""
    return status >= 500 or status in _TRANSIENT


def with_phrase(status: int) -> str:
    """Return an HTTP status with its standard phrase: "503 (Service Unavailable)"."""
    with suppress(ValueError):
        return f"{status} ({HTTPStatus(status).phrase})"
    return str(status)


def retry(
    attempt: Callable[[], T],
    policy: RetryPolicy,
    may_succeed: Callable[[Exception], bool],
    wait: Callable[[Exception, int], None] | None = None,
) -> T:
    """Call `attempt` until it succeeds, at most `policy.attempts` times. Raises the error of the last attempt.

    Args:
        may_succeed: Whether a new attempt makes sense after an error.
        wait: Called with the error and the number of the failed attempt before each new one; by default it sleeps as
            long as the policy says.
    """
    number = 0
    while True:
        number += 1
        try:
            return attempt()
        except Exception as error:
            if number >= policy.attempts or not may_succeed(error):
                raise
            if wait is None:
                time.sleep(policy.delay(number))
            else:
                wait(error, number)
