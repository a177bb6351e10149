"""Downloads from a real server on this machine, which also misbehaves in every known way."""

from __future__ import annotations

import bz2
import errno
import fcntl
import gzip
import hashlib
import lzma
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

import http_server as web
import kifu
from collection_sites import POINTER, seven_zip
from commands import run, wait_until
from http_server import Site, tar_gz, zipped
from kifu import download
from kifu.errors import OutputError, SourceError
from kifu.fetch import fetching
from kifu.fetch.collections import COLLECTIONS, LISTING_LIMIT, FileChoice, parse_dates
from kifu.fetch.fetching import FetchError
from kifu.progress import progress
from kifu.retry import RetryPolicy
from marks import slow

QUICK = RetryPolicy(2.0, 1.5, attempts=3, first_delay_s=0.02, max_delay_s=0.1)
NAMES = [f"KGS-{rest}-.tar.gz" for rest in ("2006-19-10388", "2003-19-7582", "2002-19-3646", "2001-19-2298")]
NAME = NAMES[0]
PATH = f"/gamerecords/{NAME}"
REFERENCE = Path(__file__).resolve().parents[3] / "shared/reference/kgsgo/cached_indexpage.html"


def index_page(url: str) -> bytes:
    """Return the reference page, or one of the same form, with its links to the server at `url`."""
    if REFERENCE.exists():
        return REFERENCE.read_bytes().replace(b"http://dl.u-go.net", url.encode())
    stems = [name.removesuffix(".tar.gz") for name in NAMES]
    links = [
        f'<a href="{url}/gamerecords/{stem}.{kind}">x</a>' for stem in stems for kind in ("zip", "tar.gz", "tar.bz2")
    ]
    return f"<html><body><h4><a href='/'>Home</h3>{''.join(links)}</body>".encode()


@pytest.fixture
def site(site: Site) -> Site:
    site.files["/index"] = index_page(site.url)
    for name in NAMES:
        site.files[f"/gamerecords/{name}"] = tar_gz(name)
    return site


def fetch_kgs(into: Path, dates: str | None = None, **options: object):
    choice = FileChoice(dates=() if dates is None else parse_dates(dates))
    return fetching.fetch("kgs", into, choice, **options)


def fetch(site: Site, into: Path, dates: str | None = None, policy: RetryPolicy = QUICK, **options: object):
    return fetch_kgs(into, dates, index=f"{site.url}/index", policy=policy, **options)


def fetch_one(site: Site, into: Path, **options: object):
    return fetch(site, into, "2006", **options)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def is_right(into: Path, site: Site, name: str = NAME) -> bool:
    return (into / name).read_bytes() == site.files[f"/gamerecords/{name}"] and f"{name}.part" not in files(into)


# The usual way


def test_every_archive_is_fetched_once(site: Site, tmp_path: Path) -> None:
    into = tmp_path / "new" / "folder"
    report = fetch(site, into)
    assert report.fetched == NAMES
    assert not report.present
    assert not report.failed
    assert report.received == sum(len(site.files[f"/gamerecords/{name}"]) for name in NAMES)
    assert files(into) == sorted(NAMES)
    assert all(is_right(into, site, name) for name in NAMES)
    assert str(report) == f"4 files fetched ({report.received / 1000:.1f} kB), 0 there already"

    site.requests.clear()
    report = fetch(site, into)
    assert report.present == NAMES
    assert not report.fetched
    assert report.received == 0
    assert [request.path for request in site.requests] == ["/index"]


def test_a_dry_run_lists_archives_and_writes_nothing(site: Site, tmp_path: Path) -> None:
    assert fetch(site, tmp_path / "kgs", dry_run=True).fetched == NAMES
    assert files(tmp_path) == []
    assert [request.path for request in site.requests] == ["/index"]


def test_only_these_dates_are_fetched(site: Site, tmp_path: Path) -> None:
    assert fetch(site, tmp_path, "2002-2003").fetched == NAMES[1:3]
    assert fetch(site, tmp_path, "2001-01..2005-12-31").fetched == NAMES[3:]
    with pytest.raises(SourceError, match=r"kgs has no such file of 1990\.\.1991, 2100, but files from 2001 to 2006"):
        fetch(site, tmp_path, "1990-1991,2100")


def test_index_from_a_file(site: Site, tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    page.write_bytes(index_page(site.url))
    assert fetch_kgs(tmp_path / "a", index=page, policy=QUICK).fetched == NAMES
    assert fetch_kgs(tmp_path / "b", index=str(page), policy=QUICK).fetched == NAMES
    assert COLLECTIONS["kgs"].index == "https://u-go.net/gamerecords/"


def test_links_may_be_relative_and_redirected(site: Site, tmp_path: Path) -> None:
    site.files["/list/index"] = b'<a href="elsewhere/KGS-2006-19-10388-.tar.gz">'
    site.always("/list/elsewhere/" + NAME, web.status(302, Location=f"/gamerecords/{NAME}"))
    assert fetch_kgs(tmp_path, index=f"{site.url}/list/index", policy=QUICK).fetched == [NAME]
    assert is_right(tmp_path, site)


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1/?token=", "http://127.0.0.1:99999/?token=", "ftp://[/", "http:///"]
)
def test_secrets_of_an_index_are_not_printed(address: str, site: Site, tmp_path: Path) -> None:
    index = address.replace("://", "://user:secret@") + "secret" * ("=" in address)
    with pytest.raises(SourceError, match=address.partition(":")[0]) as caught:
        fetch_kgs(tmp_path, index=index, policy=RetryPolicy(0.5, 0.3, attempts=1))
    assert "secret" not in str(caught.value)
    site.files["/index"] = index_page(site.url)
    done = run("fetch", "kgs", "--all", "--dry-run", "--index", f"{site.url}/index".replace("://", "://user:secret@"))
    assert (done.code, "secret" in str(done)) == (0, False)


def test_through_the_proxy_of_the_environment(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = tar_gz(NAME)
    site.files["http://kgs.invalid/"] = f'<a href="/gamerecords/{NAME}">'.encode()
    site.files[f"http://kgs.invalid{PATH}"] = body
    monkeypatch.setenv("http_proxy", site.url.replace("://", "://user:word@"))
    fetch_kgs(tmp_path, index="http://kgs.invalid/", policy=QUICK)
    assert (tmp_path / NAME).read_bytes() == body
    assert {request.headers["proxy-authorization"] for request in site.requests} == {"Basic dXNlcjp3b3Jk"}


# Going on where an earlier run ended


@pytest.mark.parametrize("version", ['"a-strong-etag"', "Sun, 06 Nov 1994 08:49:37 GMT"])
def test_only_the_same_version_is_resumed(site: Site, tmp_path: Path, version: str) -> None:
    """Within a run and in a later one, and the file that holds the version is removed at the end."""
    body, site.versions[PATH] = site.files[PATH], version
    site.misbehave(PATH, *[web.half_then(web.hang_up)] * 3)
    with pytest.raises(FetchError):
        fetch_one(site, tmp_path)
    assert files(tmp_path) == [f"{NAME}.part", f"{NAME}.part.etag"]
    assert fetch_one(site, tmp_path).received < len(body) // 4
    assert [each.headers.get("If-Range") for each in site.requests if each.path == PATH] == [None, *[version] * 3]
    assert files(tmp_path) == [NAME]


def test_a_file_that_changes_in_between_starts_over(site: Site, tmp_path: Path) -> None:
    def change(handler: object, rest: bytes) -> None:
        site.files[PATH], site.versions[PATH] = tar_gz("changed"), '"second"'

    site.versions[PATH] = '"first"'
    site.misbehave(PATH, web.half_then(change))
    fetch_one(site, tmp_path)
    assert is_right(tmp_path, site)
    assert site.ranges(PATH)[0] is None
    assert len(site.ranges(PATH)) == 2  # the second response is the whole new file


def test_a_change_is_seen_although_the_server_ignores_if_range(site: Site, tmp_path: Path) -> None:
    part, other = tmp_path / f"{NAME}.part", tar_gz("other")
    part.write_bytes(other[:30_000])
    part.with_name(f"{NAME}.part.etag").write_text('"first"')
    answer = b'HTTP/1.1 206 x\r\nETag: "second"\r\nContent-Range: bytes 30000-30009/30010\r\n\r\n'
    site.misbehave(PATH, web.raw(answer))
    fetch_one(site, tmp_path)
    assert is_right(tmp_path, site)
    assert site.ranges(PATH) == ["bytes=30000-", None]


@pytest.mark.parametrize("text", ['W/"weak"', "x" * 1000, '"a"\r\nX: y', "\0", ""])
def test_a_version_that_is_none_is_not_sent(site: Site, tmp_path: Path, text: str) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(site.files[PATH][:30_000])
    (tmp_path / f"{NAME}.part.etag").write_text(text)
    fetch_one(site, tmp_path)
    assert [request.headers.get("If-Range") for request in site.requests] == [None, None]
    assert files(tmp_path) == [NAME]


def test_a_partial_download_is_resumed(site: Site, tmp_path: Path) -> None:
    body = site.files[PATH]
    (tmp_path / f"{NAME}.part").write_bytes(body[:30_000])
    site.files["/index"], site.sent = index_page(site.url), 0
    report = fetch_one(site, tmp_path)
    assert site.ranges(PATH) == ["bytes=30000-"]
    assert report.received == len(body) - 30_000
    assert site.sent == len(body) - 30_000 + len(site.files["/index"])
    assert is_right(tmp_path, site)


def test_a_complete_partial_file_is_only_renamed(site: Site, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(site.files[PATH])
    assert fetch_one(site, tmp_path).received == 0
    assert is_right(tmp_path, site)
    assert len(site.ranges(PATH)) == 1


@pytest.mark.parametrize(
    ("size", "fault", "ranges"),
    [
        (1000, None, ["bytes=1000-", None]),  # of something else: the whole is no archive
        (100_000, None, ["bytes=100000-", None]),  # longer than the archive: 416
        (30_000, web.ignore_range, ["bytes=30000-"]),
        *(
            (30_000, web.partial(content_range), ["bytes=30000-", None])
            for content_range in ("bytes 0-99/40000", "bytes 7-99/40000", "bytes */40000", "nonsense", "")
        ),
    ],
)
def test_a_wrong_part_is_replaced(
    site: Site, tmp_path: Path, size: int, fault: web.Fault | None, ranges: list[str | None]
) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(b"\0" * size)
    site.misbehave(PATH, *[fault] * (fault is not None))
    fetch_one(site, tmp_path)
    assert is_right(tmp_path, site)
    assert site.ranges(PATH) == ranges


# Trouble that passes


@pytest.mark.parametrize("end", [web.stall, web.hang_up, web.dribble])
def test_resumes_after_half_a_body(site: Site, tmp_path: Path, end: web.Fault) -> None:
    site.misbehave(PATH, web.half_then(end))
    fetch_one(site, tmp_path)
    whole = len(site.files[PATH])
    none, resumed = site.ranges(PATH)
    assert none is None
    assert resumed is not None
    assert whole // 2 <= int(resumed.removeprefix("bytes=").removesuffix("-")) < whole // 2 + 1000
    assert site.sent - len(site.files["/index"]) < whole + 1000
    assert is_right(tmp_path, site)


@pytest.mark.parametrize(
    "faults",
    [
        [web.status(500), web.status(500)],
        [web.status(503, Retry_After="nonsense"), web.status(408)],
        [web.status(429, Retry_After=0)],
        [web.status(429, Retry_After=web.http_date(-10))],
        [web.status(429, Retry_After="9" * 5000)],
        [web.stall],
    ],
    ids=["500", "503", "429 at once", "429 by date", "malformed", "silence"],
)
def test_retries(site: Site, tmp_path: Path, faults: list[web.Fault]) -> None:
    site.misbehave(PATH, *faults)
    assert fetch_one(site, tmp_path).fetched == [NAME]
    assert is_right(tmp_path, site)
    assert len(site.ranges(PATH)) == len(faults) + 1


def test_retry_after_overrides_the_delays(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(fetching.time, "sleep", pauses.append)
    site.misbehave(PATH, web.status(429, Retry_After=1), web.status(503, Retry_After=0))
    fetch_one(site, tmp_path, policy=RetryPolicy(first_delay_s=6.0))
    assert pauses == [1, 0]


@pytest.mark.parametrize("seconds", [61, 3600, "9" * 30])
def test_a_long_retry_after_ends_the_run(site: Site, tmp_path: Path, seconds: object) -> None:
    """A delay that the policy does not allow is neither shortened nor waited for."""
    site.always(f"/gamerecords/{NAMES[1]}", web.status(429, Retry_After=seconds))
    with pytest.raises(FetchError, match=r"3 of 4 files .*Too Many Requests\) and asks to wait") as raised:
        fetch(site, tmp_path)
    assert list(raised.value.report.failed) == NAMES[1:]
    assert site.ranges(f"/gamerecords/{NAMES[1]}") == [None]
    assert not site.ranges(f"/gamerecords/{NAMES[2]}")


def test_files_are_fetched_one_after_another(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(fetching, "_PAUSE_S", 0.75)
    monkeypatch.setattr(fetching.time, "sleep", pauses.append)
    fetch(site, tmp_path)
    assert pauses == [0.75] * 3
    assert len({request.client for request in site.requests}) == 1
    assert {request.headers["User-Agent"] for request in site.requests} == {f"kifu/{kifu.__version__}"}


def test_bodies_of_unknown_length(site: Site, tmp_path: Path) -> None:
    site.misbehave(PATH, web.unannounced(20_000), web.chunked)
    fetch_one(site, tmp_path)
    assert is_right(tmp_path, site)
    assert len(site.ranges(PATH)) == 2


def test_the_index_page_is_retried_too(site: Site, tmp_path: Path) -> None:
    site.misbehave("/index", web.status(503), web.half_then(web.hang_up), web.half_then(web.stall))
    with pytest.raises(SourceError, match=r"^the index http://\S+/index: nothing came for 1.5 s \(tried 3 times\)$"):
        fetch(site, tmp_path)
    assert fetch_one(site, tmp_path).fetched == [NAME]


# Trouble that stays: one clear line, and the others come


@pytest.mark.parametrize(
    ("fault", "reason", "requests"),
    [
        (web.status(404), "the server answered 404 (Not Found)", 1),
        (web.status(403), "the server answered 403 (Forbidden)", 1),
        (web.status(500), "the server answered 500 (Internal Server Error) (tried 3 times)", 3),
        (web.status(429, Retry_After=0), "the server answered 429 (Too Many Requests) (tried 3 times)", 3),
        (web.status(799), "the server answered 799 (tried 3 times)", 3),
        (web.status(200), "not a tar.gz archive: it begins with b'<html>no</html>'", 1),
        (web.status(302, Location="ftp://x/y"), "its link 'ftp://x/y' is not an http or https address", 1),
        (web.status(302, Location="http://["), "its link 'http://[' is not an http or https address", 1),
        (web.status(302, Location=PATH), "more than 5 redirections", 6),
        (web.announce(100), "the connection ended 100 bytes too early (tried 3 times)", 3),
        (web.announce(-100), "not a complete tar.gz archive: the compressed data ends too early", 1),
        (
            web.unannounced(20_000),
            "not a complete tar.gz archive: the compressed data ends too early; starting over (tried 3 times)",
            3,
        ),
        (web.half_then(web.stall), "nothing came for 1.5 s (tried 3 times)", 3),
        (web.raw(b"\x1b[31m\r\n\r\n"), r"the connection broke off (\x1b[31m\r\n) (tried 3 times)", 3),
        (web.raw(b"x" * 10_000 + b"\r\n\r\n"), f"the connection broke off ({'x' * 174} ...", 3),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_one_archive_fails(site: Site, tmp_path: Path, fault: web.Fault, reason: str, requests: int) -> None:
    site.always(PATH, fault)
    with pytest.raises(FetchError) as raised:
        fetch(site, tmp_path)
    message = raised.value.report.failed[NAME]
    assert message == reason
    assert str(raised.value) == f"1 of 4 files were not fetched: {NAME}: {reason}"
    assert len(site.ranges(PATH)) == requests
    assert raised.value.report.fetched == NAMES[1:]
    assert [name for name in files(tmp_path) if not name.endswith(".part")] == sorted(NAMES[1:])


def test_an_archive_that_is_too_large(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COLLECTIONS, "kgs", replace(COLLECTIONS["kgs"], limit=10_000))
    for fault in (web.serve, web.chunked):
        site.always(PATH, fault)
        with pytest.raises(SourceError, match=rf"{NAME}: it has more than the [0-9,]+ bytes allowed$"):
            fetch_one(site, tmp_path)
        assert not files(tmp_path)
        assert site.ranges(PATH).pop() is None


def test_more_than_announced(site: Site, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(site.files[PATH][:30_000])
    site.always(PATH, web.partial("bytes 30000-30009/30010"))
    with pytest.raises(SourceError, match="more came than the 30,010 bytes announced"):
        fetch_one(site, tmp_path)
    assert not files(tmp_path)


def test_many_failures_are_one_line(site: Site, tmp_path: Path) -> None:
    for name in NAMES:
        site.always(f"/gamerecords/{name}", web.status(404))
    message = "; ".join(f"{name}: the server answered 404 (Not Found)" for name in NAMES[:3])
    with pytest.raises(
        SourceError, match="^" + re.escape(f"4 of 4 files were not fetched: {message}; and 1 more") + "$"
    ):
        fetch(site, tmp_path)
    assert not files(tmp_path)


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (b"<html>nothing here</html>", "the index lists no file of kgs"),
        (b"", "index: the index lists no file of kgs"),
        (b'<a href="KGS-2006-19-10388-.zip">', "the index lists no file of kgs"),
        (b"x" * (LISTING_LIMIT + 1), "the index .*(larger|more) than (the )?8,388,608 bytes"),
    ],
    ids=["no links", "empty", "another kind", "large"],
)
def test_no_index_page(site: Site, tmp_path: Path, page: bytes, message: str) -> None:
    site.files["/index"] = page
    (tmp_path / "index").write_bytes(page)
    for index in (f"{site.url}/index", tmp_path / "index"):
        with pytest.raises(SourceError, match=message):
            fetch_kgs(tmp_path / "into", index=index, policy=QUICK)
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (
            "http://127.0.0.1:1/",
            r"the index http://127.0.0.1:1/: no connection \(Connection refused\) \(tried 3 times\)",
        ),
        (
            "http://kgs.invalid/",
            r"http://kgs.invalid/: its host name has no address, or there is no network \(tried 3 times\)",
        ),
        ("ftp://x/y", "the index ftp://x/y: its link 'ftp://x/y' is not an http or https address"),
        ("http://", "is not an http or https address"),
        ("http://[::1/", "is not an http or https address"),
        (f"http://{'a' * 70}.org/", "label"),
        ("http://x:99999999/", "99999999"),
        ("no/such/file", "the index no/such/file: No such file or directory"),
        (Path("/"), "the index /: Is a directory"),
    ],
)
def test_no_such_index(tmp_path: Path, index: str | Path, message: str) -> None:
    with pytest.raises(SourceError, match=message) as raised:
        fetch_kgs(tmp_path, index=index, policy=QUICK)
    assert "\n" not in str(raised.value)


# Servers that evade timeouts, which begin anew with each byte


QUICK_RATE = "fewer than 1,000 bytes a second came"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (web.endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"), "no complete headers within 0.3 s"),
        (web.endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "no complete headers within 0.3 s"),
        (web.endless(b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n", b"x"), QUICK_RATE),
        (web.endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;", b"x"), QUICK_RATE),
        (web.endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n"), QUICK_RATE),
        (web.endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x"), QUICK_RATE),
    ],
    ids=["headers", "interim responses", "body", "chunk header", "trailers", "no length"],
)
def test_endless_responses(site: Site, tmp_path: Path, fault: web.Fault, reason: str) -> None:
    site.always(PATH, fault)
    policy = RetryPolicy(0.5, 0.3, attempts=2, first_delay_s=0.02)
    with pytest.raises(FetchError) as raised:
        fetch_one(site, tmp_path, policy=policy)
    assert reason in raised.value.report.failed[NAME]
    assert len(site.ranges(PATH)) == 2
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kifu fetch")]


def test_an_endless_handshake(tmp_path: Path) -> None:
    with (
        web.endless_tcp(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc") as port,
        pytest.raises(SourceError, match=r"nothing came for 0\.3 s|no complete headers within 0\.3 s"),
    ):
        fetch_kgs(tmp_path, index=f"https://127.0.0.1:{port}/", policy=RetryPolicy(0.5, 0.3, attempts=1))
    assert files(tmp_path) == []


# Addresses without encryption, and of other kinds


@pytest.mark.parametrize(
    ("base", "link", "url"),
    [
        ("https://a.org/list/", "x.zip", "https://a.org/list/x.zip"),
        ("https://a.org/", "https://b.org/x", "https://b.org/x"),
        ("http://a.org/", "http://b.org/x", "http://b.org/x"),
        ("http://a.org/", "https://b.org/x", "https://b.org/x"),
        ("", "http://b.org/x", "http://b.org/x"),
        ("https://a.org/", "http://b.org/x", None),
        ("https://u:s3cret@a.org/", "HTTP://v:s3cret@b.org/x", None),
    ],
)
def test_links_to_addresses_without_encryption(base: str, link: str, url: str | None) -> None:
    if url is not None:
        assert download._next_url(base, link) == url
        return
    with pytest.raises(
        download.DownloadError, match=r"^https://a.org/ leads to (?i:http)://\S+, without encryption$"
    ) as raised:
        download._next_url(base, link)
    assert "s3cret" not in str(raised.value)


def test_a_redirection_to_an_address_without_encryption(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link in the page, and a redirection: as if the server also answered at https."""
    request = download.Client._request
    monkeypatch.setattr(
        download.Client, "_request", lambda self, url, *args: request(self, url.replace("https:", "http:"), *args)
    )
    secure = site.url.replace("http:", "https:")
    site.files["/index"] = f'<a href="{site.url}{PATH}">'.encode()
    with pytest.raises(FetchError, match=f"{NAME}: {secure}/index leads to {site.url}{PATH}, without encryption$"):
        fetch_kgs(tmp_path, index=f"{secure}/index", policy=QUICK)
    site.files["/index"] = f'<a href="{PATH}">'.encode()
    site.always(PATH, web.status(302, Location=f"{site.url}/elsewhere"))
    with pytest.raises(FetchError, match=f"{NAME}: {secure}{PATH} leads to {site.url}/elsewhere, without encryption$"):
        fetch_kgs(tmp_path, index=f"{secure}/index", policy=QUICK)
    site.always("/index", web.status(301, Location=f"{site.url}/elsewhere"))
    with pytest.raises(SourceError, match=f"{secure}/index leads to {site.url}/elsewhere, without encryption$"):
        fetch_kgs(tmp_path, index=f"{secure}/index", policy=QUICK)
    assert "/elsewhere" not in [request.path for request in site.requests]


# The disk, and other processes


@pytest.mark.parametrize(
    ("plant", "reason"),
    [
        (Path.symlink_to, "is a symbolic link"),
        (Path.hardlink_to, "has another name"),
        (lambda path, _: os.mkfifo(path), "not a regular file"),
    ],
)
def test_a_partial_file_that_is_none(
    site: Site, tmp_path: Path, plant: Callable[[Path, Path], object], reason: str
) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    plant(tmp_path / f"{NAME}.part", precious)
    with pytest.raises(OutputError, match=f"{NAME}.part.* {reason}"):
        fetch_one(site, tmp_path)
    assert precious.read_bytes() == b"precious"
    assert files(tmp_path) == [f"{NAME}.part", "precious"]


def test_a_partial_file_that_is_replaced(site: Site, tmp_path: Path) -> None:
    part = tmp_path / f"{NAME}.part"

    def replace(handler: object, body: bytes) -> None:
        part.unlink()
        part.symlink_to("/dev/null")
        web.serve(handler, body)

    site.misbehave(PATH, replace)
    with pytest.raises((OutputError, FetchError), match=f"{NAME}"):
        fetch_one(site, tmp_path)
    assert not (tmp_path / NAME).exists()


def test_a_folder_that_is_a_file(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SourceError, match=f"^{tmp_path}/file: File exists$"):
        fetch(site, tmp_path / "file")
    with pytest.raises(SourceError, match=f"^{tmp_path}/file/new: Not a directory$"):
        fetch(site, tmp_path / "file/new")


def test_a_full_disk_ends_the_run(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(download.Transfer, "_receive", fail)
    with pytest.raises(SourceError, match=f"^{tmp_path}: No space left on device$"):
        fetch(site, tmp_path)
    assert not [name for name in files(tmp_path) if name.endswith(".gz")]


def test_another_process_fetches_the_same(site: Site, tmp_path: Path) -> None:
    with (tmp_path / f"{NAME}.part").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(
            SourceError, match=f"^1 of 4 files were not fetched: {NAME}: another process is fetching it$"
        ):
            fetch(site, tmp_path)
    assert files(tmp_path) == sorted([f"{NAME}.part", *NAMES[1:]])


@pytest.mark.subprocess
@pytest.mark.parametrize("how", [signal.SIGINT, *slow(signal.SIGKILL)])
def test_an_interrupt_leaves_only_part_files_and_ends_at_once(site: Site, tmp_path: Path, how: signal.Signals) -> None:
    site.misbehave(PATH, web.half_then(web.hang_up), web.half_then(web.stall))
    program = (
        "from kifu.fetch.collections import FileChoice; from kifu.fetch.fetching import fetch;"
        f"fetch('kgs', {str(tmp_path)!r}, FileChoice(), index='{site.url}/index')"
    )
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) as process:
        part = tmp_path / f"{NAME}.part"
        half = len(site.files[PATH]) // 2
        wait_until(lambda: len(site.ranges(PATH)) == 2 and part.stat().st_size > half)
        process.send_signal(how)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == -how
    assert errors.count("Traceback") == (how == signal.SIGINT)
    assert "Fatal" not in errors
    assert files(tmp_path) == [f"{NAME}.part"]

    site.faults.clear()
    assert fetch(site, tmp_path).fetched == NAMES
    assert all(is_right(tmp_path, site, name) for name in NAMES)


# What the user sees


def test_plain_lines(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site.misbehave(PATH, web.status(503))
    site.always(f"/gamerecords/{NAMES[1]}", web.status(404))
    with pytest.raises(SourceError):
        fetch(site, tmp_path, progress=progress)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"reading {site.url}/index ..."
    assert re.fullmatch(rf"reading {site.url}/index: [\d.]+ (kB|bytes) in \d+\.\d s", lines[1])
    assert lines[2] == "fetching kgs: 0 of 4 files"
    assert lines[3] == f"{NAME}: the server answered 503 (Service Unavailable); try 2 of 3 in 0.02 s"
    assert lines[4] == f"{NAMES[1]}: the server answered 404 (Not Found)"
    assert re.fullmatch(r"fetching kgs: 3 of 4 files in \d+\.\d s", lines[5])
    assert len(lines) == 6


TAR = gzip.decompress(tar_gz("check"))
LIMIT = 4 << 30


WHOLE = {
    "tar.gz": gzip.compress(TAR, 1),
    "tar.bz2": bz2.compress(TAR, 1),
    "gz": gzip.compress(b'{"game_id": 1}\n' * 999, 1),
    "xz": lzma.compress(b"(;GM[1];B[pd])\n" * 999),
    "zip": zipped(),
    "7z": seven_zip(),
    "7z.001": seven_zip()[:90],
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("2025-01-01sgfs.tar.bz2", "tar.bz2"), ("KGS-2006-19-1-.tar.gz", "tar.gz"), ("sample-1k.json.gz", "gz"),
        ("all.sgf.xz", "xz"), ("9d.7z", "7z"), ("1d.7z.001", "7z.001"), ("1d.7z.002", ""), ("2003-09", ""),
        ("a.zip\n", ""),
    ],
)  # fmt: skip
def test_kinds_by_name(name: str, kind: str) -> None:
    assert fetching.kind_of(name) == kind


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        *((kind, body, "") for kind, body in WHOLE.items()),
        *((kind, body[:-1], "") for kind, body in WHOLE.items() if kind == "7z.001"),
        ("tar.gz", gzip.compress(TAR[:5000]) + gzip.compress(TAR[5000:]) + bytes(100), ""),
        ("tar.gz", gzip.compress(TAR) + b"more" * 9, "the compressed data is damaged"),
        ("tar.gz", gzip.compress(TAR)[:-1], "ends too early"),
        ("tar.gz", gzip.compress(TAR)[:-8] + bytes(8), "the compressed data is damaged"),
        ("tar.gz", gzip.compress(b"hello" * 1000), "there is no tar file in it"),
        ("tar.gz", gzip.compress(b"hello"), "there is no tar file in it"),
        ("tar.gz", gzip.compress(b""), "there is no tar file in it"),
        ("tar.gz", bz2.compress(TAR), "it begins with b'BZh"),
        ("tar.gz", b"", "it begins with b''"),
        ("tar.bz2", bz2.compress(TAR)[:-1], "ends too early"),
        ("tar.bz2", bz2.compress(TAR)[:5000] + b"x" + bz2.compress(TAR)[5001:], "the compressed data is damaged"),
        ("tar.bz2", b"BZhello", "its header is damaged"),
        ("gz", WHOLE["gz"][:-9], "ends too early"),
        ("xz", WHOLE["xz"][:-9], "ends too early"),
        ("xz", WHOLE["xz"][:40] + b"x" + WHOLE["xz"][41:], "the compressed data is damaged"),
        ("zip", zipped()[:-1], "not a zip file"),
        ("zip", zipped()[:60] + b"x" + zipped()[61:], "member 'kgs/0.sgf' is damaged|while decompressing"),
        ("zip", zipped() + b"x" * 70_000, "not a zip file"),
        ("7z", WHOLE["7z"][:-1], "it has 184 bytes, and its header says 185"),
        ("7z", WHOLE["7z"] + b"x", "it has 186 bytes, and its header says 185"),
        ("7z", WHOLE["7z"][:-1] + b"x", "its list of members is damaged"),
        ("7z", WHOLE["7z"][:20] + b"x" + WHOLE["7z"][21:], "its header is damaged"),
        ("7z", WHOLE["7z"][:20], "a buffer of 32 bytes"),
        ("7z", b"<html>no</html>", "not a 7z archive: it begins with b'<html>no</html>'"),
        ("7z.001", WHOLE["7z.001"][:20] + b"x" + WHOLE["7z.001"][21:], "its header is damaged"),
        ("7z.001", b"Not Found", "not a 7z.001 archive: it begins with b'Not Found'"),
        ("7z", POINTER, "^a Git LFS pointer, not the file itself; get the file with 'git lfs pull' in a clone"),
        ("", POINTER, "^a Git LFS pointer"),
        ("", b"anything", ""),
    ],
    ids=count(),  # gzip writes the time
)
def test_check_of_a_file(tmp_path: Path, kind: str, body: bytes, reason: str) -> None:
    (tmp_path / "file").write_bytes(body)
    said = fetching.find_damage(tmp_path / "file", kind, LIMIT)
    assert re.search(reason, said) if reason else said == ""
    assert not said or said.startswith((f"not a {kind} archive", f"not a complete {kind}", "a Git LFS pointer"))


@pytest.mark.parametrize("kind", WHOLE)
def test_any_bytes_are_checked_without_another_exception(tmp_path: Path, kind: str) -> None:
    draw = random.Random(kind)
    for _ in range(150):
        body = bytearray(WHOLE[kind])
        for _ in range(draw.randint(1, 3)):
            body[draw.choice([draw.randrange(4, len(body)), -draw.randint(1, min(len(body), 200))])] = draw.choice(
                [0, 255, draw.randrange(256)]
            )
        (tmp_path / "file").write_bytes(body)
        assert "\n" not in fetching.find_damage(tmp_path / "file", kind, LIMIT)


@pytest.mark.parametrize("kind", ["tar.gz", "tar.bz2", "gz", "xz", "zip"])
def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, kind: str) -> None:
    bomb = {
        "tar.gz": gzip.compress(bytes(3 << 20)), "tar.bz2": bz2.compress(bytes(3 << 20)),
        "gz": gzip.compress(bytes(3 << 20)), "xz": lzma.compress(bytes(3 << 20)), "zip": zipped(),
    }  # fmt: skip
    (tmp_path / "file").write_bytes(bomb[kind])
    assert fetching.find_damage(tmp_path / "file", kind, 100) == "it unpacks to more than the 1,600 bytes allowed"


def test_a_long_directory_of_a_zip_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(zipped())
    monkeypatch.setattr(fetching, "_DIRECTORY_LIMIT", 100)
    assert "its list of members has more than the 100 bytes allowed" in fetching.find_damage(
        tmp_path / "file", "zip", LIMIT
    )


def test_checksums(tmp_path: Path) -> None:
    """The SHA-1 of a git blob is that of `git hash-object`."""
    (tmp_path / "file").write_bytes(b"hello\n")
    assert not fetching.differs(tmp_path / "file", "git:ce013625030ba8dba906f756967f9e9ca394464a")
    assert not fetching.differs(tmp_path / "file", f"sha256:{hashlib.sha256(b'hello' + bytes([10])).hexdigest()}")
    (tmp_path / "file").write_bytes(b"hellp\n")
    assert fetching.differs(tmp_path / "file", "git:ce013625030ba8dba906f756967f9e9ca394464a")
    assert fetching.differs(tmp_path / "file", f"sha256:{hashlib.sha256(b'hello' + bytes([10])).hexdigest()}")
