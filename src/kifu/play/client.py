"""GTP client for external Go programs, which are not trusted.

    with GtpProcess(parse_command("gnugo --mode gtp")) as gnugo:
        gnugo.ask("boardsize 19", timeout=10)
        gnugo.ask("genmove b", timeout=60)          "Q16"

The protocol is GTP 2 (Gunnar Farnebäck, https://www.lysator.liu.se/~gunnar/gtp/): a response is "=" or "?", text, and
an empty line.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from kifu.errors import KifuError
from kifu.learn import PACKAGED, SUFFIX, split_class
from kifu.process import POLL_S, PipedProcess, ProcessError, excerpt, split_command

RESPONSE_LIMIT = 1 << 16
"""Maximum bytes of a response."""

_MAX_UNMARKED = 1000
"""Bytes without a line feed after which output that does not start with "=" or "?" is nonsense."""

_CONTROLS = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
"""Control characters except tab and line feed, which GTP discards."""


class MatchCancelledError(KifuError):
    """The match was cancelled while a response was awaited."""


def parse_command(text: str, rules: str = "chinese") -> list[str]:
    """Return the program and arguments of a command line.

    A net (a run directory, a .safetensors file, or the name of a packaged one) stands for `kifu gtp NET --rules RULES`.

    Raises:
        RecipeError: The text is not a command line, or the program was not found.
    """
    net = [sys.executable, "-P", "-m", "kifu.cli", "gtp", text, "--rules", rules]
    if text.isprintable() and _is_net(text):
        return net
    # `kifu gtp` reports the missing file
    if text.endswith(SUFFIX) and text.isprintable() and len(text.split()) == 1:
        return net
    return split_command(text, 'a program such as "gnugo --mode gtp", or a net')


def _is_net(text: str) -> bool:
    path = Path(split_class(text)[0])
    try:
        if not path.exists():
            return text in PACKAGED
        return bool(text.strip()) and (path.is_dir() or (path.suffix == SUFFIX and path.is_file()))
    except OSError:  # for example, the name is too long
        return False


class GtpProcess(PipedProcess):
    """A running GTP program."""

    farewell = b"quit\n"

    def __init__(self, command: Sequence[str], stop: threading.Event | None = None) -> None:
        """Start a program.

        Args:
            command: Program and arguments, see `parse_command`.
            stop: Once set, `ask` raises MatchCancelledError.

        Raises:
            ProcessError: The program could not be started.
        """
        super().__init__(command)
        self._stop = stop or threading.Event()

    def ask(self, command: str, timeout: float) -> str:
        """Send a command and return the text of its "=" response.

        Args:
            timeout: Seconds until the response must be complete.

        Raises:
            ProcessError: The program failed, timed out or refused the command.
            MatchCancelledError: `stop` was set.
        """
        self._reject_unsolicited()
        deadline = time.monotonic() + timeout
        self.send(f"{command}\n".encode())
        try:
            while (response := self._pop_response()) is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    partial = f" (it began with {excerpt(self.received)})" if self.received.strip() else ""
                    self.fail("time", f"no response to {command!r} within {timeout:g} s{partial}")
                if self._stop.is_set():
                    raise MatchCancelledError("cancelled")
                self.wait(min(left, POLL_S))
                if not self.output_open and self.received.find(b"\n\n") < 0:
                    self.fail_exited()
        finally:
            self.unsend()
        success, text = response
        if not success:
            raise ProcessError("refusal", f"it refused {command!r}: {excerpt(text)}")
        return text

    def close(self) -> None:
        """End the program; after a cancellation, without waiting for it."""
        self.failed |= self._stop.is_set()
        super().close()

    def clean(self, data: bytes) -> bytes:
        """Return standard output without control characters."""
        return _CONTROLS.sub(b"", data)

    def _pop_response(self) -> tuple[bool, str] | None:
        """Remove and return the first complete response as (success, text), or None."""
        self.received = self.received.lstrip(b"\n\t ")
        end = self.received.find(b"\n\n")
        has_line = end >= 0 or self.received.find(b"\n") >= 0 or len(self.received) > _MAX_UNMARKED
        if has_line and not self.received.startswith((b"=", b"?")):
            self.fail("nonsense", f"it wrote {excerpt(self.received)}, which is not a GTP response")
        if max(end, len(self.received) if end < 0 else 0) > RESPONSE_LIMIT:
            self.fail("nonsense", f"it wrote a response of more than {RESPONSE_LIMIT:,} bytes")
        if end < 0:
            return None
        response = bytes(self.received[:end])
        del self.received[: end + 2]
        return response[:1] == b"=", response[1:].decode("utf-8", "replace").strip()

    def _reject_unsolicited(self) -> None:
        """Fail if there is output already, since it would be mistaken for the next response."""
        self.read_available()
        if self.received.strip():
            self.fail("nonsense", f"it wrote {excerpt(self.received)} unasked")
