"""The command serve: its first line, its errors, its files, and its end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from unittest.mock import Mock
from urllib.parse import quote

import anyio
import pytest

from catalogues import rows, write_catalogue
from commands import finish, first_line, run, start
from kifu import build_index
from kifu.errors import FormatError
from kifu.search.index import index_path
from kifu.web.api import BusyError, TimeLimitError
from kifu.web.server import MAX_HEADERS, Access, SiteServer, _Protocol, warm_up
from kifu.web.site import Site
from lazy import lazy_import
from web_site import ServedSite, hold_nets, serving

safetensors = lazy_import("safetensors.numpy")


@pytest.mark.subprocess
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_the_server_with_open_connections_and_running_queries(tmp_path: Path, number: int) -> None:
    catalogue = write_catalogue(tmp_path / "games.parquet", rows(black=["a" * 1000] * 20_000))
    process = start("serve", catalogue, "--net", "none", "--port", 0)
    line = first_line(process)
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/ serves 20,000 games and no net; Ctrl-C ends it\n", line)
    assert found, line
    address = ("127.0.0.1", int(found[1]))
    slow = " OR ".join(f"regexp_matches(black, '(.*b.*c){{50}}q{k}')" for k in range(40))
    query = f"GET /api/games?sql={quote(slow)} HTTP/1.1\r\nHost: 127.0.0.1:{found[1]}\r\n\r\n"
    with (
        socket.create_connection(address, timeout=60),
        socket.create_connection(address, timeout=60) as half,
        socket.create_connection(address, timeout=60) as asking,
    ):
        half.sendall(b"POST /api/upload HTTP/1.1\r\nContent-Le")
        asking.sendall(query.encode())
        assert urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/api/site", timeout=60).status == 200
        process.send_signal(number)
        done = finish(process, 60)
    assert done.code == 128 + number
    note = "kifu: games.parquet has no search index"
    assert [line for line in done.err if not line.startswith(note)] == ["kifu: interrupted; the server has ended"]


INTERRUPTED = """
import logging, os, signal, sys
from unittest import mock
from kifu.cli import main

def run(site, app, listener):
    logging._lock.acquire()
    site.background.submit(logging.getLogger, "a thread that waits")
    os.kill(os.getpid(), signal.SIGTERM)

with mock.patch("kifu.cli.serve._run", run):
    main()
"""


@pytest.mark.subprocess
def test_a_signal_ends_the_command_before_the_server_runs(web_catalogue: Path) -> None:
    """It may interrupt the main thread while that holds a lock of logging for which another thread waits."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "serve", web_catalogue, "--net", "none", "--port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stderr == "kifu: interrupted; the server has ended\n"


@pytest.mark.subprocess
def test_other_hosts_need_the_token_of_the_first_line(web_catalogue: Path) -> None:
    process = start("serve", web_catalogue, "--net", "none", "--host", "0.0.0.0", "--port", 0)
    found = re.match(r"http://\S+:(\d+)/\?token=([\w-]{32}) serves 320 games", first_line(process))
    assert found
    url = f"http://127.0.0.1:{found[1]}/api/site"
    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        urllib.request.urlopen(url, timeout=60)
    refused.value.close()
    with urllib.request.urlopen(
        urllib.request.Request(url, headers={"Authorization": f"Bearer {found[2]}"}), timeout=60
    ) as response:
        assert response.status == 200
    process.send_signal(signal.SIGTERM)
    done = finish(process, 60)
    assert done.err[0] == "kifu: everyone who has this address can read all games; others are refused"


def test_errors_are_one_line(web_catalogue: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and nothing else PAR1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cases = [
            ([tmp_path / "missing.parquet"], "missing.parquet is not a catalogue: No such file or directory"),
            ([broken], "broken.parquet"),
            ([web_catalogue, "--port", port], f"cannot listen at 127.0.0.1 port {port}: Address already in use"),
            ([web_catalogue, "--host", "256.256.256.256"], "cannot listen at 256.256.256.256 port"),
            ([web_catalogue, "--token", "short"], "--token must be 16 to 200 letters"),
            ([web_catalogue, "--port", 65536], "65536"),
            ([web_catalogue, "--net", tmp_path / "missing.safetensors"], "cannot read the net"),
            ([web_catalogue, "--net", broken], "broken.parquet is not a net of kifu"),
            ([web_catalogue, "--net", tmp_path], "cannot read the net"),
        ]
        for arguments, message in cases:
            port_option = [] if "--port" in arguments else ["--port", 0]
            net_option = [] if "--net" in arguments else ["--net", "none"]
            done = run("serve", *arguments, *net_option, *port_option)
            assert (done.code, done.out, len(done.err)) == (2, "", 1), (arguments, done)
            assert message in done.err[0], done
    assert threading.active_count() < 20


def test_serving_makes_an_index(web_catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(shutil.copy(web_catalogue, tmp_path / "all games.parquet"))
    monkeypatch.setattr(SiteServer, "run", lambda server, sockets: None)
    options = ("--net", "none", "--port", 0)
    assert run("serve", path, *options, "--no-index").err == []
    assert not index_path(path).exists()
    assert run("serve", path, *options).err[0].startswith(f"kifu: making {path}.search")
    assert index_path(path).exists()
    assert run("serve", web_catalogue, *options).err == []


def test_pages_do_not_wait_for_nets(web_catalogue: Path) -> None:
    site = Site([web_catalogue])
    open_nets = hold_nets(site)
    with serving(site) as served, ThreadPoolExecutor(1) as pool:
        assert served.get("/api/site").json["nets"] is None
        waiting = pool.submit(served.get, "/api/nets")
        assert served.get("/api/games").json["total"] == 320
        assert not waiting.done()
        site.predict.seconds, site.startup.seconds = 10_000, 20_000  # as if it had started 20,000 - 3,600 s ago
        with pytest.raises(BusyError, match="still being opened"):
            assert site.nets is None
        open_nets()
        assert waiting.result(60).json == []
        assert served.get("/api/site").json["nets"] == []


def test_a_server_ends_while_nets_are_opened(web_catalogue: Path) -> None:
    site = Site([web_catalogue])
    hold_nets(site)
    with serving(site) as served, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(served.get, "/api/nets")
        while not served.server.server_state.tasks:
            assert not waiting.done()
            sleep(0.01)
        assert served.get("/api/site").json["nets"] is None
        served.server.should_exit = True
        answer = waiting.result(60)
    assert (answer.status, answer.error) == (503, "the server stops")


def test_an_error_of_the_nets_is_one_line(web_catalogue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kifu.web.site._open_nets", Mock(side_effect=FormatError("x is not a net")))
    with serving(Site([web_catalogue])) as served:
        assert [served.get(path).error for path in ("/api/nets", "/api/site")] == ["x is not a net"] * 2


WARMED = """
import sys
from unittest import mock
from kifu.compiler import _CachedDispatcher
from kifu.web.games import read_upload
from kifu.web.nets import PredictParams, predict
from kifu.web.server import warm_up
from kifu.web.patterns import explore
from kifu.web.positions import Line
from kifu.web.patterns import SearchResults, SearchParams, search
from kifu.web.positions import PositionParams
from kifu.web.site import Site

site = Site([sys.argv[1]], ["small"])
warm_up(site, site.startup)
with mock.patch.object(_CachedDispatcher, "compile", autospec=True, side_effect=AssertionError):
    predict(site, PredictParams(line=Line(moves=[60, 300]), ply=2))
    explore(site, PositionParams(moves="dd"), site.startup)
    search(site, SearchResults(), SearchParams(pattern="X . O"), site.startup)
    read_upload(b"(;PB[x]TR[aa];W[aa](;B[bb])(;B[cc]))", "game.sgf", site.startup)
site.close()
"""


@pytest.mark.slow
@pytest.mark.subprocess
def test_no_kernel_is_compiled_after_the_start(web_catalogue: Path) -> None:
    subprocess.run([sys.executable, "-c", WARMED, web_catalogue], check=True, timeout=300)


def test_what_cannot_be_interrupted_does_not_hold_the_end(web_catalogue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kifu.web.site._CLOSING_SECONDS", 0.01)
    site, go_on = Site([web_catalogue]), threading.Event()
    running = site.background.submit(go_on.wait)
    site.close()
    assert not running.done()
    go_on.set()


def test_the_start_is_interrupted(web_catalogue: Path) -> None:
    with contextlib.closing(Site([web_catalogue])) as site:
        site.stop()
        with pytest.raises(TimeLimitError):
            warm_up(site, site.startup)


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_net_that_cannot_be_opened_ends_the_server(web_catalogue: Path, tmp_path: Path) -> None:
    path = tmp_path / "broken.safetensors"
    path.write_bytes(safetensors.save({}, {"kifu-net": "{}"}))
    process = start("serve", web_catalogue, "--net", path, "--port", 0)
    first_line(process)
    done = finish(process, 60)
    assert (done.code, len(done.err)) == (2, 1), done
    assert f"{path}: invalid metadata" in done.err[0]


def test_a_catalogue_that_is_replaced_is_refused(tmp_path: Path) -> None:
    """The new catalogue has as many games, so that rows would name others."""
    path = write_catalogue(tmp_path / "games.parquet", rows(black=["Ann", "Bob"], white=["Carl", "Dora"]))
    with serving(Site([path], [])) as served:
        assert served.get("/api/games", count=1).json["games"][0]["black"] == "Ann"
        write_catalogue(path, rows(black=["Eve", "Fred"], white=["Gus", "Hal"]))
        for target in ("games", "games/0/0", "games/0/0/sgf", "facets", "stats", "explore"):
            answer = served.get(f"/api/{target}")
            assert answer.status == 503, target
            assert answer.error == "games.parquet has changed since kifu serve opened it; start kifu serve again"
        path.unlink()
        assert served.get("/api/games").status == 503


def test_a_search_index_that_is_truncated_is_refused(tmp_path: Path) -> None:
    path = write_catalogue(tmp_path / "games.parquet", rows(black=["Ann", "Bob"], white=["Carl", "Dora"]))
    build_index(path)
    with serving(Site([path], [])) as served:
        assert served.get("/api/explore", moves="pd").status == 200
        os.truncate(index_path(path), 1000)
        assert served.get("/api/explore", moves="dd").error.startswith("games.parquet has changed since")


def test_pages_and_assets_are_served(site_server: ServedSite) -> None:
    page = site_server.get("/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assets = re.findall(r'(?:src|href)="(/assets/[^"]+)"', page.body.decode())
    assert {"/assets/app.js", "/assets/app.css"} <= set(assets)
    for path in assets:
        asset = site_server.get(path)
        assert (asset.status, len(asset.body) > 100) == (200, True), path
        again = site_server.request("GET", path, headers={"If-None-Match": asset.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
    paths = ("game/0/17", f"game/0/0?q={quote('<script>')}", "explore", "search", "corpus")
    assert {site_server.get(f"/{path}").body for path in paths} == {page.body}
    assert site_server.request("HEAD", "/").status == 200


def test_the_site_is_described(site_server: ServedSite) -> None:
    nets = site_server.get("/api/nets").json
    assert [(each["name"], each["board"]) for each in nets] == [("small", [19, 19])]
    corpora = [{"name": "games.parquet", "games": 320, "indexed": True}]
    assert site_server.get("/api/site").json == {"corpora": corpora, "nets": nets}


TOKEN = "0123456789abcdefghij"
_JSON = {"Content-Type": "application/json"}


def ask(served: ServedSite, headers: dict[str, str], method: str = "GET", target: str = "/api/site") -> int:
    answer = served.request(method, target, b"{}" if method == "POST" else None, headers)
    if answer.status >= 400 and method != "HEAD":
        assert answer.error
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["x-content-type-options"] == "nosniff"
    return answer.status


def test_foreign_hosts_and_origins_are_refused(site_server: ServedSite) -> None:
    host, port = site_server.address
    for name in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1",
        f"127.0.0.1:{port + 1}",
        f"127.0.0.1.:{port}",
        "",
    ):
        assert ask(site_server, {"Host": name}) == 403, name
    for name in (f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
        assert ask(site_server, {"Host": name}) == 200, name
    for origin in ("null", "http://evil.example", f"https://{host}:{port}", f"http://{host}:{port + 1}", "file://"):
        assert ask(site_server, {"Origin": origin}) == 403, origin
    assert ask(site_server, {"Origin": site_server.url}) == 200
    for site in ("cross-site", "same-site", "nonsense"):
        assert ask(site_server, {"Sec-Fetch-Site": site}) == 403, site
    opened = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert ask(site_server, opened, target="/explore") == 200
    assert ask(site_server, opened) == 403
    assert ask(site_server, opened | {"Sec-Fetch-Dest": "iframe"}, target="/explore") == 403


def test_forms_and_other_methods_are_refused(site_server: ServedSite) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "X"):
        assert ask(site_server, {}, method) == 405, method
    for kind in ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert ask(site_server, {"Content-Type": kind}, "POST") == 415, kind
    assert ask(site_server, _JSON, "POST") == 405
    assert ask(site_server, {}, "HEAD") == 200


def test_paths_name_no_files(site_server: ServedSite) -> None:
    for path in (
        "../../../../etc/passwd", "..%2f..%2f..%2fetc%2fpasswd", "%252e%252e%252fetc%252fpasswd", "..\\..\\etc\\passwd",
        "..%5c..%5cetc%5cpasswd", "%00", "app.js%00.html", "//etc/passwd", "/etc/passwd", "%2fetc%2fpasswd", "app.js/",
        "%e0%80%ae%e0%80%ae/", "index.html/../../../api.py", "C:%5cwindows", ".", "..", "%ff%fe",
    ):  # fmt: skip
        for prefix in ("/assets/", "/", "/api/"):
            answer = site_server.request("GET", prefix + path)
            if answer.headers.get("content-type", "").startswith("text/html"):  # the path of a page, or of none
                assert answer.status in (200, 404), (prefix, path)
                assert answer.body == site_server.get("/").body, (prefix, path)
            else:
                assert answer.status in (404, 405), (prefix, path)
                assert answer.error


def test_broken_requests_are_refused(site_server: ServedSite) -> None:
    host = "Host: {}:{}\r\n".format(*site_server.address)
    broken = [
        b"\0\0\0\0\r\n\r\n", b"GET / HTTP/9.9\r\nConnection: close\r\n\r\n", b"GET\r\n\r\n", b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        f"GET / HTTP/1.1\r\n{host}{host}\r\n".encode(), b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
        f"GET /{'a' * MAX_HEADERS} HTTP/1.1\r\n{host}Connection: close\r\n\r\n".encode(),
        f"GET / HTTP/1.1\r\n{host}X: {'a' * MAX_HEADERS}\r\nConnection: close\r\n\r\n".encode(),
        f"GET / HTTP/1.1\r\n{host}{'X: a' * 3}\r\n b\r\n{'Y: ' * MAX_HEADERS}\r\nConnection: close\r\n\r\n".encode(),
        f"POST / HTTP/1.1\r\n{host}Content-Length: -1\r\n\r\n".encode(),
        f"POST / HTTP/1.1\r\n{host}Content-Length: 1\r\nContent-Length: 2\r\n\r\n".encode(),
        f"POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\nzz\r\n".encode(),
    ]  # fmt: skip
    for data in broken:
        answer = site_server.send_raw(data)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 4"), (data[:60], answer[:60])
        assert b"content-security-policy: default-src 'none'" in head, (data[:60], head)
        assert set(json.loads(body)) == {"error"}, (data[:60], body)
    closing = f"{host}Connection: close\r\n"
    smuggled = f"POST /api/x HTTP/1.1\r\n{closing}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    assert b"200 OK" not in site_server.send_raw(smuggled.encode() + b"bad\r\n\r\n")
    upgrade = f"GET / HTTP/1.1\r\n{host}Connection: close, Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert site_server.send_raw(upgrade.encode()).startswith(b"HTTP/1.1 200")


def test_broken_bodies_of_answered_requests_end_the_connection(site_server: ServedSite) -> None:
    host = "Host: {}:{}\r\n".format(*site_server.address)
    with site_server.connect() as connection:
        connection.sendall(f"POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n".encode())
        answer = part = connection.recv(65536)
        while part and not answer.endswith(b"}"):
            answer += (part := connection.recv(65536))
        assert answer.startswith(b"HTTP/1.1 415 ")
        connection.sendall(b"zz\r\n")
        assert connection.recv(65536) == b""


def test_slow_clients_are_cut(site_server: ServedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Protocol, "slow_seconds", 0.5)
    host = "Host: {}:{}\r\n".format(*site_server.address)
    begun = [
        "", "G", f"GET / HTTP/1.1\r\n{host}", f"POST /api/x HTTP/1.1\r\n{host}Content-Length: 9\r\n{_JSON}\r\n\r\n1",
        f"POST /api/x HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n5\r\na",
        f"GET / HTTP/1.1\r\n{host}\r\nGET / HT",
    ]  # fmt: skip
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(site_server.connect()) for _ in begun]
        for connection, data in zip(connections, begun):
            connection.sendall(data.encode())
        for connection, data in zip(connections, begun):
            received = b""
            with contextlib.suppress(ConnectionResetError):
                while part := connection.recv(65536):
                    received += part
            assert received.count(b"HTTP/1.1 ") <= 1, data


def test_clients_that_do_not_read_are_cut(site_server: ServedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Protocol, "slow_seconds", 0.5)
    request = "GET /assets/app.js HTTP/1.1\r\nHost: {}:{}\r\n\r\n".format(*site_server.address).encode()
    with socket.socket() as connection:
        connection.settimeout(60)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(site_server.address)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):  # noqa: PT012
            while True:
                connection.sendall(request * 100)


def test_tokens_are_required_and_kept_in_a_cookie(web_catalogue: Path) -> None:
    with serving(Site([web_catalogue]), lambda port: Access.remote(port, TOKEN)) as served:
        for headers in (
            {}, {"Authorization": "Bearer x"}, {"Authorization": TOKEN}, {"Cookie": f"other={TOKEN}"},
            {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": "Bearer \xff"}, {"Cookie": "\xff;=;;\""},
        ):  # fmt: skip
            assert ask(served, headers) == 401, headers
            assert ask(served, headers, target="/assets/app.js") == 401
        assert ask(served, {}, target="/?token=x") == 401
        assert ask(served, {"Authorization": f"Bearer {TOKEN}"}) == 200
        assert ask(served, {"Authorization": f"Bearer {TOKEN}", "Origin": "http://evil.example"}) == 403
        answer = served.request("GET", f"//evil.example/explore?a=b%26&token={TOKEN}&c=")
        assert (answer.status, answer.headers["location"]) == (303, "/evil.example/explore?a=b%26&c=")
        cookie, *attributes = answer.headers["set-cookie"].split("; ")
        assert {each.lower() for each in attributes} == {"httponly", "samesite=strict", "path=/"}
        assert ask(served, {"Cookie": f"theme=dark; {cookie}"}) == 200


HOSTILE_SQL = [
    "1=1; DROP TABLE summaries", "1=1) UNION SELECT * FROM games --", "1=1) OR (1=1", "1=1) OR (1=1 --",
    "(DELETE FROM summaries RETURNING 1) = 1", "1=1 LIMIT 1", "1=1 ORDER BY 1", "1, 2",
    "(SELECT count(*) FROM read_csv('/etc/passwd')) > 0", "(SELECT content FROM read_text('/etc/passwd')) <> ''",
    "(SELECT count(*) FROM '/etc/passwd') > 0", "(SELECT count(*) FROM glob('/*')) > 0",
    "(SELECT count(*) FROM duckdb_settings()) > 0", "(SELECT count(*) FROM query('SELECT 1')) > 0",
    "(COPY summaries TO '/tmp/stolen.csv')", "getenv('HOME') <> ''", "(INSTALL httpfs) = 1", "PRAGMA version",
    "1=1 /*", "')) --", "\0", "\x1b[31m", "😀" * 100, "black LIKE '%\u202e%' AND", "x" * 1990, "(" * 1000,
    "row = (SELECT 1/0 FROM nothing)", "error('<script>alert(1)</script>')", "nextval('x') = 1",
]  # fmt: skip


@pytest.mark.slow
def test_hostile_sql_is_refused(site_server: ServedSite) -> None:
    for sql in HOSTILE_SQL:
        answer = site_server.get("/api/games", sql=sql)
        assert answer.status == 400, (sql, answer.body[:200])
        assert answer.error
    assert not Path("/tmp/stolen.csv").exists()
    assert site_server.get("/api/games").json["total"] == 320


@pytest.mark.parametrize(
    ("sql", "refused"),
    [
        ("(SELECT count(*) FROM range(1000000000) a, range(1000000000) b) > 1", "contain a subquery"),
        ("(WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t) > 1", "subquery"),
        ("length(repeat(black, 100000000)) > 0", r"call repeat\(\)"),
        ("levenshtein(rpad('a', 100000, 'a'), black) > 3", r"call levenshtein\(\)"),
        ("len(list_transform([1], x -> x + 1)) > 0", r"call list_transform\(\)"),
        ("sum(komi) OVER () > 1", "contain a window"),
        ("COLUMNS('.*') > 1", "contain a star"),
        ("length(black::BLOB::BIT::VARCHAR) > 3", "cast to"),
        ("black || black = 'x'", r"call \|\|\(\)"),
        ("[black]::VARCHAR = 'x'", r"call list_value\(\)"),
        ("regexp_matches(black, CASE WHEN true THEN '(a?){900}' END)", "must be a text in quotes"),
        ("abs(" * 395 + "1" + ")" * 395 + " > 1", "fewer levels"),
    ],
)
def test_filters_take_time_and_memory_in_proportion_to_a_row(site_server: ServedSite, sql: str, refused: str) -> None:
    answer = site_server.get("/api/games", sql=sql)
    assert answer.status == 400
    assert re.search(refused, answer.error)


def test_filters_are_interrupted_and_lists_do_not_wait_for_them(
    site_server: ServedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_server.site.filters, "seconds", 1e-6)
    answer = site_server.get("/api/games", sql="year > 2001")
    assert (answer.status, answer.error) == (503, "the request took longer than 1e-06 s")
    monkeypatch.setattr(site_server.site.filters, "waiting", 0)
    monkeypatch.setattr(site_server.site.filters, "_limiter", anyio.CapacityLimiter(1))
    assert site_server.get("/api/games", sql="year > 2001").error == "the server is busy; try again later"
    assert site_server.get("/api/games", year_from=2001).status == 200


def test_hostile_bodies_are_refused(site_server: ServedSite) -> None:
    paths = sorted(
        route.path for route in site_server.routes if "POST" in (route.methods or ()) and "{" not in route.path
    )
    bodies = [
        b"", b"{", b"[]", b"null", b"1", b'"x"', b"\xff\xfe", b"\0" * 100, b"[" * 100_000, b'{"a":' * 100_000,
        b'{"width": 1e999}', b'{"moves": "x"}', b'{"__proto__": {}}', json.dumps({"moves": [0] * 200_000}).encode(),
        b"x" * ((1 << 20) + 1),
    ]  # fmt: skip
    for path in paths:
        for body in bodies:
            answer = site_server.post(path, body)
            assert answer.status < 500, (path, body[:30], answer.body[:200])
            if answer.status >= 400:
                assert answer.error
