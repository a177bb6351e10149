"""Attacks on the server: foreign pages, paths, broken and slow requests, hostile texts and SQL."""

import contextlib
import json
import re
import socket
from pathlib import Path

import anyio
import pytest

from kifu.web.server import MAX_HEADERS, Access, _Protocol
from kifu.web.site import Site
from web_site import ServedSite, serving

TOKEN = "0123456789abcdefghij"
_JSON = {"Content-Type": "application/json"}


def ask(served: ServedSite, headers: dict[str, str], method: str = "GET", target: str = "/api/site") -> int:
    """Return the status of a request; an error is one line."""
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
