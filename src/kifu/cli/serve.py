"""The command serve."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kifu.cli import options as opts
from kifu.cli.app import command, echo, note_for_interrupt, print_interrupted, print_traceback, progress
from kifu.errors import RecipeError, first_line, printable
from kifu.learn import PACKAGED

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp

    from kifu.web.site import Site

_STOP_SECONDS = 1.8
"""Longest time between a signal and the end of the process."""

_END = "the server has ended"


@command("kifu serve games.parquet", "kifu serve games.parquet --net human --net small --port 0", has_result=False)
@opts.catalogues
@opts.nets
@opts.option(
    "--report", "FILE", "A report to show: JSON of `kifu evaluate` or `audit`. Repeatable.", shown="none",
    type=opts.PATH, multiple=True,
)  # fmt: skip
@opts.option(
    "--records", "SOURCE", "An archive or folder that was ingested, to show the bytes of its records. Repeatable.",
    shown="none", type=opts.PATH, multiple=True,
)  # fmt: skip
@opts.option(
    "--host", "ADDRESS", "Address to listen on; another one than the default needs a token.", default="127.0.0.1"
)
@opts.number("--port", "Port; 0 takes a free one.", 8361, least=0, most=65535)
@opts.option(
    "--token", "TEXT", "Secret that every visitor needs, 16 letters or digits or more.",
    shown="none; random for another --host",
)  # fmt: skip
@opts.no_index
@opts.flag("--open open_browser", "Open the page in the default browser.")
def serve(
    catalogues: opts.Strings, nets: opts.Strings, report: tuple[Path, ...], records: tuple[Path, ...], host: str,
    port: int, token: str | None, no_index: bool, open_browser: bool,
) -> None:  # fmt: skip
    """Serve catalogues and nets as web pages: browse, explore, search, play. --net none serves no net."""
    import secrets
    import webbrowser

    from kifu.process import limit_heaps
    from kifu.search.build import ensure_index
    from kifu.web.server import Access, create_app, listen
    from kifu.web.site import Site

    if token is not None and not re.fullmatch("[A-Za-z0-9_-]{16,200}", token):
        raise RecipeError("--token must be 16 to 200 letters, digits, - or _")
    names = [] if nets == ("none",) else nets or (PACKAGED[0],)
    is_local = host in ("127.0.0.1", "localhost", "::1")
    limit_heaps()
    with contextlib.closing(listen(host, port)) as listener:
        port = listener.getsockname()[1]
        if not is_local:
            token = token or secrets.token_urlsafe(24)
        access = Access.local(port, token) if is_local else Access.remote(port, token or "")
        for catalogue in () if no_index else catalogues:
            ensure_index(catalogue, progress=progress)
        with contextlib.closing(Site(catalogues, names, report, records)) as site, _bounded_interrupt():
            app = create_app(site, access, _report_failure)
            url = f"http://{_name(host)}:{port}/" + (f"?token={token}" if token else "")
            games = sum(len(each.searcher.catalogue) for each in site.corpora)
            named = {0: "no net", 1: f"the net {printable(names[0])}" if names else ""}.get(
                len(names), f"{len(names)} nets"
            )
            echo(f"{url} serves {games:,} games and {named}; Ctrl-C ends it")
            if token:
                _note("everyone who has this address can read all games; others are refused")
            sys.stdout.flush()
            note_for_interrupt(_END)
            if open_browser:
                webbrowser.open(url)
            _run(site, app, listener)


def _run(site: Site, app: ASGIApp, listener: socket.socket) -> None:
    """Run the application of a site until a signal arrives or a net cannot be opened."""
    from kifu.web.server import SiteServer, warm_up

    def stop() -> None:
        site.stop()
        if server.signal:
            _end_soon(server.signal)

    server = SiteServer(app, stop)
    hangup = getattr(signal, "SIGHUP", signal.SIGTERM)
    interrupt = signal.getsignal(hangup)
    if callable(interrupt):  # uvicorn handles other signals, and would catch an interrupt within a request
        signal.signal(hangup, server.handle_exit)
    site.background.submit(warm_up, site, site.startup)
    site.opening.add_done_callback(lambda done: server.end_if(done.exception() is not None))
    server.run(sockets=[listener])
    if callable(interrupt) and server.signal == hangup:
        interrupt(hangup, None)
    site.opening.result()


@contextlib.contextmanager
def _bounded_interrupt() -> Iterator[None]:
    """End the process within seconds of an interrupt, also of one before the server runs.

    It may strike while this thread takes a lock, of `logging` for example, which is then never released: a thread that
    imports torch would wait for it forever.
    """
    try:
        yield
    except KeyboardInterrupt as interrupt:
        _end_soon(interrupt.args[0] if interrupt.args else signal.SIGINT)
        raise


def _end_soon(number: int) -> None:
    """End the process after a signal even if a library does not return. number: of the signal."""
    timer = threading.Timer(_STOP_SECONDS, _end_process, [number])
    timer.daemon = True
    timer.start()


def _name(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        import socket

        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def _note(text: str) -> None:
    logging.getLogger("kifu").info("%s", text)


def _report_failure(request: str, error: Exception) -> None:
    """Print an unexpected exception of a request as one line, and its traceback with --verbose."""
    print_traceback(error)
    log_line = f"{request}: unexpected {type(error).__name__}: {first_line(error)}; --verbose shows the traceback"
    print(f"kifu: {printable(log_line)}", file=sys.stderr)


def _end_process(number: int) -> None:
    """End the process as after an interrupt, without waiting for other threads."""
    note_for_interrupt(_END)
    print_interrupted()
    os._exit(128 + number)
