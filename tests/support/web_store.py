"""A real local HTTP server that serves files like an object store, whole or by ranges, or fails."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import md5
from urllib.parse import urlsplit

from http_server import Handler, HTTPServer, serving


@dataclass
class Web:
    """files: body by path. The rest says how it fails.

    ranges: whether parts can be asked for. lengths: whether it says how long a file is. status: of all answers.
    cuts: to how many of its next bodies only the first half is given. silent: whether nothing comes after the headers.
    more, shift: by how many bytes a part is longer, or begins later, than the one asked for.
    """

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    lengths: bool = True
    status: int | None = None
    cuts: int = 0
    silent: bool = False
    more: int = 0
    shift: int = 0
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Method, path with its query, and Range header of each request."""
    sent: int = 0
    """Total length of bodies."""
    closing: threading.Event = field(default_factory=threading.Event)

    def parts(self) -> list[tuple[int, int]]:
        """Return the requested ranges so far: first byte, and the one after the last."""
        found = [re.fullmatch(r"bytes=([0-9]+)-([0-9]+)", range_ or "") for _, _, range_ in self.requests]
        return [(int(match[1]), int(match[2]) + 1) for match in found if match]


class _Handler(Handler):
    def do_HEAD(self) -> None:  # noqa: N802
        self.do_GET()

    def do_GET(self) -> None:  # noqa: N802
        web = self.server.site
        web.requests.append((self.command, self.path, self.headers["Range"]))
        body = web.files.get(urlsplit(self.path).path)
        code = web.status or (404 if body is None else 200)
        headers: dict[str, object] = {}
        part = b"no" if code != 200 or body is None else body
        match = re.fullmatch(r"bytes=([0-9]+)-([0-9]+)", self.headers["Range"] or "")
        if code == 200 and body is not None:
            headers["ETag"] = f'"{md5(body).hexdigest()}"'
            if match and web.ranges:
                code, first = 206, int(match[1]) + web.shift
                stop = min(int(match[2]) + 1 + web.more, len(body))
                headers["Content-Range"] = f"bytes {first}-{stop - 1}/{len(body)}"
                part = body[first:stop]
        if web.lengths:
            headers["Content-Length"] = len(part)
        else:
            headers["Connection"] = "close"
        self.start(code, headers)
        self.close_connection = not web.lengths
        if self.command == "GET":
            self._give(part)

    def _give(self, part: bytes) -> None:
        web = self.server.site
        if web.silent:
            web.closing.wait(30)
        if web.cuts:
            web.cuts -= 1
            part, self.close_connection = part[: len(part) // 2], True
        self.write(part)


@contextmanager
def web_store() -> Iterator[Web]:
    with HTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.site = Web(f"http://127.0.0.1:{server.server_port}")
        with serving(server, server.site.closing):
            yield server.site
