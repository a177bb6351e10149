"""A real local HTTP server that serves files or misbehaves on request, and archives to serve."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import repeat
from socketserver import StreamRequestHandler, ThreadingTCPServer
from time import time
from typing import Any

from kgs_archives import tar_of, zip_of


@dataclass
class Request:
    path: str
    range: str | None
    headers: dict[str, str]
    client: object


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HTTPServer

    def do_GET(self) -> None:
        site = self.server.site
        site.requests.append(Request(self.path, self.headers["Range"], dict(self.headers), self.client_address))
        body = site.files.get(self.path)
        fault = next(site.faults.get(self.path, iter(())), None)
        if fault:
            fault(self, body or b"")
        elif body is None:
            status(404)(self, b"")
        else:
            serve(self, body)

    def start(self, code: int, headers: dict[str, object]) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()

    def write(self, body: bytes) -> None:
        self.server.site.sent += len(body)  # before the client can have it all
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        pass


class HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    site: Any  # what it serves, such as a `Site`

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that goes away in the middle is part of the tests


Fault = Callable[[Handler, bytes], None]


@dataclass
class Site:
    """files: body by path. versions: ETag or Last-Modified. faults: replacements of the next responses for a path."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    faults: dict[str, Iterator[Fault]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    sent: int = 0
    """Total length of bodies."""
    closing: threading.Event = field(default_factory=threading.Event)

    def ranges(self, path: str) -> list[str | None]:
        """Return the Range header of each request for `path` so far."""
        return [request.range for request in self.requests if request.path == path]

    def misbehave(self, path: str, *faults: Fault) -> None:
        self.faults[path] = iter(faults)

    def always(self, path: str, fault: Fault) -> None:
        self.faults[path] = repeat(fault)


@contextmanager
def site() -> Iterator[Site]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.site = Site(f"http://127.0.0.1:{server.server_port}")
        with serving(server, server.site.closing):
            yield server.site


@contextmanager
def serving(server: ThreadingTCPServer, closing: threading.Event) -> Iterator[None]:
    """Run a server. closing: set at the end, when no response is awaited any more."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        closing.set()
        server.shutdown()
        thread.join()


def serve(handler: Handler, body: bytes) -> None:
    version = handler.server.site.versions.get(handler.path, "")
    if version and version in (handler.headers["If-None-Match"], handler.headers["If-Modified-Since"]):
        handler.start(304, {"ETag": version})
        return
    is_wanted = handler.headers["If-Range"] in (None, version)
    match = re.fullmatch(r"bytes=([0-9]+)-", handler.headers["Range"] or "") if is_wanted else None
    begin = int(match[1]) if match else 0
    if begin and begin >= len(body):
        handler.start(416, {"Content-Range": f"bytes */{len(body)}", "Content-Length": 0})
        return
    headers: dict[str, object] = {"Content-Length": len(body) - begin}
    if version:
        headers["ETag" if version.endswith('"') else "Last-Modified"] = version
    if match:
        headers["Content-Range"] = f"bytes {begin}-{len(body) - 1}/{len(body)}"
    handler.start(206 if match else 200, headers)
    handler.write(body[begin:])


def late(handler: Handler, body: bytes) -> None:
    handler.server.site.closing.wait(0.2)
    serve(handler, body)


def status(code: int, **headers: object) -> Fault:
    """Respond with a status and a few words; headers with _ for -."""

    def fault(handler: Handler, body: bytes) -> None:
        text = b"<html>no</html>"
        handler.start(code, {"Content-Length": len(text)} | {k.replace("_", "-"): v for k, v in headers.items()})
        handler.write(text)

    return fault


def half_then(end: Callable[[Handler, bytes], None]) -> Fault:
    """Send half of the response, call `end` with the other half, and close the connection."""

    def fault(handler: Handler, body: bytes) -> None:
        match = re.fullmatch(r"bytes=([0-9]+)-", handler.headers["Range"] or "")
        begin = int(match[1]) if match else 0
        headers: dict[str, object] = {"Content-Length": len(body) - begin}
        if version := handler.server.site.versions.get(handler.path):
            headers["ETag"] = version
        if match:
            headers["Content-Range"] = f"bytes {begin}-{len(body) - 1}/{len(body)}"
        handler.start(206 if match else 200, headers)
        middle = begin + (len(body) - begin) // 2
        handler.write(body[begin:middle])
        end(handler, body[middle:])
        handler.close_connection = True

    return fault


def stall(handler: Handler, rest: bytes) -> None:
    """Send nothing more. Can be used alone."""
    handler.server.site.closing.wait(30)
    handler.close_connection = True


def hang_up(handler: Handler, rest: bytes) -> None:
    """Do nothing; `half_then` closes the connection."""


def dribble(handler: Handler, rest: bytes) -> None:
    """Send a hundred bytes, some thirty per second."""
    with suppress(OSError):
        for byte in rest[:100]:
            if handler.server.site.closing.wait(0.03):
                return
            handler.write(bytes([byte]))


def endless(begin: bytes, rest: bytes) -> Fault:
    """Send `begin`, then `rest` thirty times per second, for ever."""

    def fault(handler: Handler, body: bytes) -> None:
        handler.close_connection = True
        with suppress(OSError):
            handler.write(begin)
            while not handler.server.site.closing.wait(0.03):
                handler.write(rest)

    return fault


@contextmanager
def endless_tcp(begin: bytes) -> Iterator[int]:
    """Serve a port that answers with `begin`, then a byte thirty times per second, for ever."""
    closing = threading.Event()

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self.wfile.write(begin)
                while not closing.wait(0.03):
                    self.wfile.write(b"x")

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server, serving(server, closing):
        yield server.server_address[1]


def announce(extra: int) -> Fault:
    """Send a Content-Length that is wrong by `extra`, and ignore ranges."""

    def fault(handler: Handler, body: bytes) -> None:
        handler.start(200, {"Content-Length": len(body) + extra})
        handler.write(body)
        handler.close_connection = True

    return fault


def ignore_range(handler: Handler, body: bytes) -> None:
    handler.start(200, {"Content-Length": len(body)})
    handler.write(body)


def chunked(handler: Handler, body: bytes) -> None:
    handler.start(200, {"Transfer-Encoding": "chunked"})
    for piece in (body[:100], body[100:], b""):
        handler.write(b"%x\r\n%s\r\n" % (len(piece), piece))


def unannounced(keep: int) -> Fault:
    """Send the first `keep` bytes without a length, and close the connection."""

    def fault(handler: Handler, body: bytes) -> None:
        handler.start(200, {"Connection": "close"})
        handler.write(body[:keep])
        handler.close_connection = True

    return fault


def partial(content_range: str) -> Fault:
    """Send the whole body as if it were the range `content_range`."""

    def fault(handler: Handler, body: bytes) -> None:
        handler.start(206, {"Content-Length": len(body), "Content-Range": content_range})
        handler.write(body)

    return fault


def raw(answer: bytes) -> Fault:
    def fault(handler: Handler, body: bytes) -> None:
        handler.write(answer)
        handler.close_connection = True

    return fault


def http_date(seconds_from_now: float) -> str:
    return formatdate(time() + seconds_from_now, usegmt=True)


def tar_gz(name: str) -> bytes:
    """Return a unique archive of about 40 kB that do not compress."""
    return tar_of({f"kgs/{k}.sgf": random.Random(f"{name}{k}").randbytes(10_000) for k in range(4)}, "w:gz")


def zipped() -> bytes:
    return zip_of({"kgs/0.sgf": b"(;)" * 1000, "kgs/1.sgf": random.Random(1).randbytes(1000)})
