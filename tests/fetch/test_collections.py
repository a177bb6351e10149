"""Published collections: their files, and the choice of files by name and date."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import re
from dataclasses import replace
from pathlib import Path

import pytest

import collection_sites as sites
import http_server as web
from http_server import Site, tar_gz, zipped
from kifu.errors import RecipeError, SourceError
from kifu.fetch.collections import (
    COLLECTIONS,
    FILE_LIMIT,
    LISTING_LIMIT,
    FileChoice,
    ListedFile,
    choose_files,
    find_collection,
    parse_dates,
    parse_listing,
)
from kifu.fetch.fetching import FetchError, fetch, list_files
from kifu.retry import RetryPolicy

QUICK = RetryPolicy(2.0, 1.5, attempts=3, first_delay_s=0.02, max_delay_s=0.1)
TAR_BZ2 = bz2.compress(gzip.decompress(tar_gz("day")))
JSON_GZ = gzip.compress(b'{"game_id": 1, "moves": []}\n' * 99)
SGF_XZ = lzma.compress(b"(;GM[1]SZ[19];B[pd])\n" * 99)


KGS = {f"KGS4d-2006{month}-19-88-.tar.gz": tar_gz(month) for month in ("_01", "")}
OGS = {
    "sample-1k.json.gz": JSON_GZ,
    "ogs_games_2013_to_2025-05.json.gz": JSON_GZ,
    "ogs_games_2013_to_2025-05/sgfs-by-date.tar.gz": tar_gz("ogs"),
    "how-it-works.html": b"x",
}
DAYS = {f"2025-07-{day:02d}sgfs.tar.bz2": TAR_BZ2 for day in range(1, 6)}
RATINGS = {f"2025-07-{day:02d}rating.tar.bz2": TAR_BZ2 for day in range(1, 3)}
RUN = {"b6c96-s175395328-d26788732.zip": zipped(), "README.txt": b"x"}
NETS = {"b6c96.bin.gz": JSON_GZ, "b6c96.txt.gz": JSON_GZ, "b6c96.zip": zipped()}
LEELA = {"all.sgf.xz": SGF_XZ, "all_match.sgf.xz": SGF_XZ, "train.bin": b"x"}


@pytest.mark.parametrize(
    ("collection", "files", "line", "fetched"),
    [
        ("kgs-4d", KGS, sites.CELL, list(KGS)),
        ("ogs", OGS, sites.PROSE, ["sample-1k.json.gz", "ogs_games_2013_to_2025-05.json.gz", "sgfs-by-date.tar.gz"]),
        ("katago-kata1", DAYS | RATINGS, sites.TREE_H, list(DAYS)),
        ("katago-ratings", DAYS | RATINGS, sites.TREE_H, list(RATINGS)),
        ("katago-g170", RUN, sites.TREE_H, list(RUN)[:1]),
        ("katago-g104", RUN, sites.APACHE, list(RUN)[:1]),
        ("katago-g65", RUN, sites.PLAIN, list(RUN)[:1]),
        ("katago-nets", NETS, sites.PLAIN, list(NETS)[:2]),
        ("leela-zero", LEELA, sites.NGINX, list(LEELA)[:2]),
        ("fox", sites.FOX, "", ["9d.7z", "Pro.7z", "1d.7z.001", "1d.7z.002", "1d.7z.003"]),
        ("professional", sites.YENW, "", ["pro1940-1999.zip", "pro2000+.zip"]),
        ("tygem", sites.YENW, "", ["2005-11.zip", "2006-01.zip", "Kifu2005.zip"]),
        ("tom", sites.YENW, "", ["Kifu.index", "2003-09", "2003-10"]),
    ],
)
def test_collections(
    site: Site, tmp_path: Path, collection: str, files: dict[str, bytes], line: str, fetched: list[str]
) -> None:
    index = sites.publish_page(site, "/data", files, line) if line else sites.publish_tree(site, files)
    listed = list_files(collection, index=index, policy=QUICK)
    assert [file.name for file in listed] == fetched
    report = fetch(collection, tmp_path / "new", FileChoice(), index=index, policy=QUICK)
    assert (report.fetched, report.present) == (fetched, [])
    by_name = {path.rpartition("/")[2]: body for path, body in files.items()}
    for file in listed:
        body = by_name[file.name]
        assert (tmp_path / "new" / file.name).read_bytes() == body
        if file.exact:
            assert file.size == len(body)
        elif line != sites.PLAIN:
            assert file.size == pytest.approx(len(body), abs=60)
        assert bool(file.checksum) == (not line)
    assert len(list((tmp_path / "new").iterdir())) == len(fetched)
    again = fetch(collection, tmp_path / "new", FileChoice(), index=index, policy=QUICK)
    assert (again.fetched, again.present, again.received) == ([], fetched, 0)


def test_a_choice(site: Site, tmp_path: Path) -> None:
    index = sites.publish_tree(site, sites.FOX)
    report = fetch("fox", tmp_path, FileChoice(["1d", "pro"]), index=index, policy=QUICK, dry_run=True)
    assert report.fetched == ["Pro.7z", "1d.7z.001", "1d.7z.002", "1d.7z.003"]
    assert report.size == sum(len(body) for path, body in sites.FOX.items() if path.startswith(("1d", "Pro")))
    assert not list(tmp_path.iterdir())
    with pytest.raises(RecipeError, match="unknown collection 'foxes'; did you mean 'fox'"):
        fetch("foxes", tmp_path, FileChoice())


def test_github(site: Site) -> None:
    page = site.files[sites.publish_tree(site, sites.YENW).removeprefix(site.url)]
    base = "https://api.github.com/repos/yenw/computer-go-dataset/git/trees/HEAD?recursive=1"
    links = [file.link for file in parse_listing(page, base, COLLECTIONS["professional"])[0]]
    raw = "https://raw.githubusercontent.com/yenw/computer-go-dataset/HEAD/Professional"
    assert links == [f"{raw}/pro1940-1999.zip", f"{raw}/pro2000%2B.zip"]
    for name in ("fox", "tygem", "tom", "professional"):
        assert COLLECTIONS[name].index.startswith("https://api.github.com/repos/")


def test_every_collection_is_complete_and_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/collections.md").read_text()
    assert all(f"| `{name}` |" in page for name in COLLECTIONS)
    rows = page.partition("## Publishers")[2].splitlines()
    for name, each in COLLECTIONS.items():
        assert name == each.name
        assert each.index.startswith("https://")
        assert set(re.compile(each.pattern).groupindex) <= {"year", "month", "day"}
        assert all(each.to_dict()[key] for key in ("title", "publisher", "format", "size", "terms"))
        row = next(line for line in rows if f"`{name}`" in line)
        address = each.index if "api.github" not in each.index else "https://github.com/" + each.index.split("/")[4]
        assert all(text in row for text in (each.publisher, each.terms, address)), name


# What is received is not what is listed


def test_a_wrong_size(site: Site, tmp_path: Path) -> None:
    index = sites.publish_tree(site, sites.FOX)
    site.files["/repos/x/y/git/trees/9d/9d.7z"] += b"x"
    with pytest.raises(FetchError, match=r"9d.7z: the server has 186 bytes, but the index lists 185$"):
        fetch("fox", tmp_path, FileChoice(["9d"]), index=index, policy=QUICK)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["1d.7z.002", "2003-09"])
def test_a_wrong_checksum(site: Site, tmp_path: Path, name: str) -> None:
    index = sites.publish_tree(site, sites.FOX | sites.YENW)
    path = next(path for path in site.files if path.endswith(name))
    site.files[path] = site.files[path][:-1] + b"\0"
    with pytest.raises(FetchError, match=f"{name}: it differs from the checksum that the publisher gives$"):
        fetch("tom" if name == "2003-09" else "fox", tmp_path, FileChoice([name]), index=index, policy=QUICK)
    assert not list(tmp_path.iterdir())


def test_a_pointer_instead_of_the_file(site: Site, tmp_path: Path) -> None:
    index = sites.publish_tree(site, {"9d/9d.7z": sites.POINTER})
    message = (
        "9d.7z: a Git LFS pointer, not the file itself; get the file with 'git lfs pull' in a clone of the repository"
    )
    with pytest.raises(FetchError, match=re.escape(message)):
        fetch("fox", tmp_path, FileChoice(["9d"]), index=index, policy=QUICK)
    assert not list(tmp_path.iterdir())


def test_nets(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = COLLECTIONS["katago-nets"]
    assert all(
        re.fullmatch(published.pattern, net.name) and net.link.endswith(f"/{net.name}") for net in published.files
    )
    digests = [net.checksum for net in published.files if net.checksum]
    assert len(set(digests)) == len(digests) == len(published.files) - 1
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", digest) for digest in digests)
    names = ("good.bin.gz", "bad.bin.gz", "unknown.bin.gz")
    site.files = {f"/nets/{name}": gzip.compress(name.encode(), mtime=0) for name in names}
    good = hashlib.sha256(site.files["/nets/good.bin.gz"]).hexdigest()
    files = tuple(
        replace(
            published.files[0], name=name, link=f"{site.url}/nets/{name}", size=None, exact=False, checksum=checksum
        )
        for name, checksum in zip(names, (f"sha256:{good}", f"sha256:{good}", ""))
    )
    monkeypatch.setitem(COLLECTIONS, "katago-nets", replace(published, files=files))
    assert [file.name for file in list_files("katago-nets")] == list(names)
    assert not site.requests
    assert fetch("katago-nets", tmp_path, FileChoice(["good", "unknown"]), policy=QUICK).fetched == [names[0], names[2]]
    with pytest.raises(FetchError, match=r"bad.bin.gz: it differs from the checksum"):
        fetch("katago-nets", tmp_path, FileChoice(["bad"]), policy=QUICK)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good.bin.gz", "unknown.bin.gz"]


@pytest.mark.parametrize("name", ["SHA256SUMS", "sha256sum.txt"])
def test_sums_beside_the_files(site: Site, tmp_path: Path, name: str) -> None:
    lines = [f"{hashlib.sha256(SGF_XZ).hexdigest()}  all.sgf.xz", f"{'0' * 64} *./all_match.sgf.xz", "nonsense"]
    index = sites.publish_page(site, "/zero", LEELA | {name: "\n".join(lines).encode()}, sites.NGINX)
    with pytest.raises(FetchError, match=r"1 of 2 files .*: all_match.sgf.xz: it differs from the checksum") as raised:
        fetch("leela-zero", tmp_path, FileChoice(), index=index, policy=QUICK)
    assert raised.value.report.fetched == ["all.sgf.xz"]
    site.files[f"/zero/{name}"] = b""
    assert fetch("leela-zero", tmp_path, FileChoice(), index=index, policy=QUICK).fetched == ["all_match.sgf.xz"]


def test_a_volume_is_resumed_and_verified_as_a_whole(site: Site, tmp_path: Path) -> None:
    index, path = sites.publish_tree(site, sites.FOX), "/repos/x/y/git/trees/1d/1d.7z.002"
    (tmp_path / "1d.7z.002.part").write_bytes(b"another version"[:10])
    fetch("fox", tmp_path, FileChoice(["1d"]), index=index, policy=QUICK)
    assert (tmp_path / "1d.7z.002").read_bytes() == sites.FOX["1d/1d.7z.002"]
    assert site.ranges(path) == ["bytes=10-", None]


def test_a_redirection_to_another_host_is_followed(site: Site, tmp_path: Path) -> None:
    """Publishers move large files to other hosts; all checks remain, and the login stays behind."""
    index = sites.publish_tree(site, sites.FOX).replace("://", "://user:word@")
    with web.site() as other:
        other.files["/9d.7z"] = sites.FOX["9d/9d.7z"]
        site.always("/repos/x/y/git/trees/9d/9d.7z", web.status(302, Location=f"{other.url}/9d.7z"))
        fetch("fox", tmp_path, FileChoice(["9d"]), index=index, policy=QUICK)
        assert "authorization" not in {name.lower() for name in other.requests[0].headers}
    assert (tmp_path / "9d.7z").read_bytes() == sites.FOX["9d/9d.7z"]


# Indexes that are not what they should be

SHA = "0" * 40
ENTRY = {"path": "9d/9d.7z", "mode": "100644", "type": "blob", "sha": SHA, "size": 185}


@pytest.mark.parametrize(
    "change",
    [
        {"path": "../9d.7z"}, {"path": "/9d.7z"}, {"path": "//host/9d.7z"}, {"path": "9d/../../9d.7z"}, {"path": ".7z"},
        {"path": "9d/-9d.7z"}, {"path": "9d\\9d.7z"}, {"path": "9d/9d.7z\0"}, {"path": "9d/9d.7z\n"}, {"path": 9},
        {"path": "x" * 200 + ".7z"}, {"path": "x/" * 300 + "9d.7z"}, {"path": "9d/9d.exe"}, {"path": "\uff19d.7z"},
        {"type": "tree"}, {"mode": "120000"}, {"sha": "x" * 40}, {"sha": None}, {"size": -1}, {"size": True},
        {"size": "185"}, {"size": 1 << 60}, {"size": None},
    ],
)  # fmt: skip
def test_entries_of_a_tree_that_are_no_files(site: Site, change: dict[str, object]) -> None:
    site.files[sites.TREE] = json.dumps({"tree": [ENTRY | change, 7, None, []], "truncated": False}).encode()
    with pytest.raises(SourceError, match=r"the index lists no file of fox$"):
        list_files("fox", index=site.url + sites.TREE, policy=QUICK)
    site.files[sites.TREE] = json.dumps({"tree": [ENTRY | change, ENTRY], "truncated": False}).encode()
    assert [file.name for file in list_files("fox", index=site.url + sites.TREE, policy=QUICK)] == ["9d.7z"]


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (b"{", "is not the JSON of a GitHub tree"),
        (b"[]", "is not the JSON of a GitHub tree"),
        (b"[" * 1_000_000, "is not the JSON of a GitHub tree"),
        (b'{"message": "API rate limit exceeded"}', "is not the JSON of a GitHub tree"),
        (b'{"tree": ' + b"9" * 5000 + b"}", "is not the JSON of a GitHub tree"),
        (b'{"tree": 7}', "is not the complete JSON of a GitHub tree"),
        (json.dumps({"tree": [ENTRY], "truncated": True}).encode(), "is not the complete JSON of a GitHub tree"),
        (b"\xff\xfe{", "lists no file of fox"),
        (b"{" + b" " * LISTING_LIMIT, "has more than the 8,388,608 bytes allowed"),
    ],
)
def test_indexes_that_are_no_trees(site: Site, page: bytes, reason: str) -> None:
    site.files[sites.TREE] = page
    with pytest.raises(SourceError, match=f"{reason}$") as raised:
        list_files("fox", index=site.url + sites.TREE, policy=QUICK)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "href",
    [
        "../all.sgf.xz", "/all.sgf.xz", "http://elsewhere.invalid/zero/all.sgf.xz",
        "//elsewhere.invalid/zero/all.sgf.xz",
        "%2e%2e/all.sgf.xz", "..%2Fall.sgf.xz", "x/../../all.sgf.xz", "a b.sgf.xz", ".sgf.xz", "all.sgf.xz/",
        "file:///zero/all.sgf.xz", "javascript:all.sgf.xz", "\\all.sgf.xz", "http://[/all.sgf.xz",
        "http://u:p@elsewhere.invalid/zero/all.sgf.xz", "http://127.0.0.1:1/zero/all.sgf.xz",
    ],
)  # fmt: skip
def test_links_that_do_not_lead_below_the_index(site: Site, href: str) -> None:
    site.files["/zero/"] = f'<a href="{href}">'.encode()
    with pytest.raises(SourceError, match=r"the index lists no file of leela-zero$"):
        list_files("leela-zero", index=f"{site.url}/zero/", policy=QUICK)


def test_links_to_a_further_host(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with web.site() as other:
        other.files["/files/all.sgf.xz"] = SGF_XZ
        site.files["/zero/"] = f'<a href="{other.url}/files/all.sgf.xz"><a href="{other.url}/x/y.sgf.xz">'.encode()
        listed = replace(COLLECTIONS["leela-zero"], hosts=(f"{other.url}/files/",))
        monkeypatch.setitem(COLLECTIONS, "leela-zero", listed)
        report = fetch("leela-zero", tmp_path, FileChoice(), index=f"{site.url}/zero/", policy=QUICK)
    assert report.fetched == ["all.sgf.xz"]


@pytest.mark.slow
def test_a_hundred_thousand_links(site: Site) -> None:
    """They are bounded in number and time; a page with as many other links is read."""
    links = b"".join(b'<a href="%d.html">x</a>\n' % number for number in range(100_000))
    site.files["/zero/"] = links + b'<a href="all.sgf.xz">'
    assert len(list_files("leela-zero", index=f"{site.url}/zero/", policy=QUICK)) == 1
    site.files["/zero/"] = links.replace(b".html", b".sgf.xz")
    with pytest.raises(SourceError, match=f"the index lists more than {FILE_LIMIT:,} files$"):
        list_files("leela-zero", index=f"{site.url}/zero/", policy=QUICK)


def test_the_first_of_several_files_with_one_name_counts(site: Site) -> None:
    site.files["/ogs/"] = b'<a href="2025/all.tar.gz"><a href="2021/all.tar.gz">'
    (file,) = list_files("ogs", index=f"{site.url}/ogs/", policy=QUICK)
    assert (file.folder, file.name) == ("2025", "all.tar.gz")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (web.status(404), "the server answered 404"),
        (web.status(500), "the server answered 500 .*tried 3 times"),
        (web.status(429, Retry_After=900), r"429 \(Too Many Requests\) and asks to wait 900 s"),
        (web.status(403), "the server answered 403"),
        (web.half_then(web.stall), "nothing came for 1.5 s"),
        (web.endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x"), "fewer than 1,000 bytes a second came"),
    ],
)
def test_an_index_that_cannot_be_had(site: Site, fault: web.Fault, reason: str) -> None:
    sites.publish_tree(site, sites.FOX)
    site.always(sites.TREE, fault)
    with pytest.raises(SourceError, match=f"^the index {site.url}{sites.TREE}: .*{reason}"):
        list_files("fox", index=site.url + sites.TREE, policy=QUICK)


def test_the_publishers_index_that_cannot_be_had_names_the_option(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COLLECTIONS, "fox", replace(COLLECTIONS["fox"], index=site.url + sites.TREE))
    with pytest.raises(SourceError, match=r"404 \(Not Found\); --index gives another address$"):
        list_files("fox", policy=QUICK)


FOX = [
    ListedFile(name, folder, "")
    for folder, name in [
        ("1d", "1d.7z.001"), ("1d", "1d2.7z.001"), ("10k", "10k.7z"), ("Pro", "Pro.7z"), ("Pro", "Pro2.7z"),
    ]
]  # fmt: skip
CHOICE_DAYS = [
    ListedFile(f"{date}sgfs.tar.bz2", "", "", date=date) for date in ("2020-12-31", "2021-01-01", "2021-02-01")
]
YEARS = [ListedFile(f"{date}.zip", "", "", date=date) for date in ("2006", "2007-03", "2007-04")]


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["1d"], ["1d.7z.001", "1d2.7z.001"]),
        (["1D.7z.001"], ["1d.7z.001"]),
        (["pro2"], ["Pro2.7z"]),
        (["*.7z"], ["10k.7z", "Pro.7z", "Pro2.7z"]),
        (["[0-9]d", "pro"], ["1d.7z.001", "1d2.7z.001", "Pro.7z", "Pro2.7z"]),
        ([], [file.name for file in FOX]),
    ],
)
def test_names(names: list[str], chosen: list[str]) -> None:
    assert [file.name for file in choose_files("fox", FOX, FileChoice(names))] == chosen


@pytest.mark.parametrize("name", ["1", "d", "2d", "", "[", "../x"])
def test_a_name_of_no_file(name: str) -> None:
    with pytest.raises(SourceError, match=re.escape(f"fox has no file {name!r}; see kifu fetch fox --list")):
        choose_files("fox", FOX, FileChoice(["1d", name]))


@pytest.mark.parametrize(
    ("dates", "days", "years"),
    [
        ("2020", 1, 0),
        ("2021", 2, 0),
        ("2020-2021", 3, 0),
        ("2020-12..2021-01", 2, 0),
        ("2020-12-31..2021-01-01", 2, 0),
        ("2021-01-01..2021", 2, 0),
        ("2021-02,2020", 2, 0),
        ("2006-05", 0, 1),  # the archive of the whole year overlaps it
        ("2007-03-15..2007-03-16", 0, 1),
        ("2006..2007-03", 0, 2),
    ],
)
def test_dates(dates: str, days: int, years: int) -> None:
    for files, expected in ((CHOICE_DAYS, days), (YEARS, years)):
        choice = FileChoice(dates=parse_dates(dates))
        if expected:
            assert len(choose_files("x", files, choice)) == expected
        else:
            with pytest.raises(SourceError, match=r"x has no such file of .*, but files from 20"):
                choose_files("x", files, choice)


def test_an_index_without_a_date_belongs_to_all_dates() -> None:
    index = ListedFile("Kifu.index", "", "")
    assert choose_files("tom", [index, *YEARS], FileChoice(dates=parse_dates("2006"))) == [index, YEARS[0]]
    with pytest.raises(SourceError, match="has no such file of 1999, but files from 2006 to 2007-04"):
        choose_files("tom", [index, *YEARS], FileChoice(dates=parse_dates("1999")))


def test_files_without_dates_are_not_chosen_by_date() -> None:
    with pytest.raises(RecipeError, match="the files of fox have no dates in their names; choose them by name"):
        choose_files("fox", FOX, FileChoice(dates=parse_dates("2006")))


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("2016", [("2016", "2016")]),
        (" 2001 - 2002 , 2016,2001-12", [("2001", "2002"), ("2016", "2016"), ("2001-12", "2001-12")]),
        ("2001..2001-06", [("2001", "2001-06")]),
        ("2020-12-08 .. 2021", [("2020-12-08", "2021")]),
    ],
)
def test_spelling_of_dates(text: str, dates: list[tuple[str, str]]) -> None:
    assert parse_dates(text) == dates


@pytest.mark.parametrize(
    "text",
    ["", "2014-2001", "2001,", "1", "20011", "2001-", "-2001", "2001-2002-2003", "2001-13", "2001-1",
     "2021-02..2021-01", "2001-01-32", "2001..", "\u0662\u0660\u0660\u0661", "all"],
)  # fmt: skip
def test_invalid_dates(text: str) -> None:
    with pytest.raises(RecipeError, match=r"is not a year, month, day or range, as in 2001-2014,2016-03,"):
        parse_dates(text)


@pytest.mark.parametrize(
    ("name", "collection"),
    [
        ("KGS-2001-19-2298-.tar.gz", "kgs"),
        ("downloads/KGS4d-2016_07-19-1432-.tar.gz", "kgs-4d"),
        ("fox/9d_2.7z.001", "fox"),
        ("2016-07.zip", "tygem"),
        ("2020-12-08rating.tar.bz2", "katago-ratings"),
        ("games.tar.gz", None),
        ("games.zip", None),
        ("", None),
    ],
)
def test_files_tell_their_collection(name: str, collection: str | None) -> None:
    found = find_collection(name)
    assert (found and found.name) == collection


def test_a_repository_is_cited_by_its_page() -> None:
    assert COLLECTIONS["fox"].page == "https://github.com/featurecat/go-dataset"
    assert COLLECTIONS["kgs"].page == COLLECTIONS["kgs"].index
