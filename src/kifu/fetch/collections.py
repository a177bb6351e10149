"""The collections that `kifu fetch` downloads, the files that their indexes list, and the choice among them.

docs/collections.md describes the collections. An index is an HTML page or the JSON tree of a GitHub repository. It is
not trusted: its size and the number of its files are bounded, and only links that lead below it and end in a plain name
of the collection's form are files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from kifu.errors import RecipeError, SourceError
from kifu.text import Report

_GIB = 1 << 30
_FOX = "https://api.github.com/repos/featurecat/go-dataset/git/trees/HEAD?recursive=1"
_YENW = "https://api.github.com/repos/yenw/computer-go-dataset/git/trees/HEAD?recursive=1"
_KATAGO = "https://katagoarchive.org"
_KATAGO_PAPER = "D. J. Wu, arXiv:1902.10565"
_RUN_PATTERN = r"[\w.+-]+\.zip"
_DAY = r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"


@dataclass(frozen=True, slots=True)
class ListedFile(Report):
    """A file of a collection.

    Attributes:
        name: Its name, which is also the name of the downloaded file.
        size: Bytes, or None if the index does not list them.
        checksum: "sha256:..." or "git:..." if the publisher gives one.
        date: "2006", "2006-03" or "2006-03-25", or "" if its name has none.
    """

    name: str
    folder: str
    link: str
    size: int | None = None
    exact: bool = False
    checksum: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class Collection(Report):
    """A published set of game records, or of nets.

    Attributes:
        size: The number of games or bytes as far as it is known.
        terms: The terms of use as far as the publisher states them.
        index: Address of the page or of the GitHub tree that lists the files.
        pattern: Regular expression of the file names, with the groups year, month and day if they are dated.
        cite: What to cite besides the publisher.
        folder: Folder of the files below the index, "" for all.
        hosts: Beginnings of further addresses that links of the index may lead to.
        limit: Largest size of a file in bytes.
        files: The files of a collection whose index is not read by default.
    """

    name: str
    title: str
    publisher: str
    format: str
    size: str
    terms: str
    index: str
    pattern: str
    cite: str = ""
    folder: str = ""
    hosts: tuple[str, ...] = ()
    limit: int = 4 * _GIB
    files: tuple[ListedFile, ...] = ()

    @property
    def page(self) -> str:
        """Address of the index for people: that of the repository instead of a GitHub tree."""
        api = _API.fullmatch(self.index)
        return f"https://github.com/{api[1]}" if api else self.index


def _kgs(name: str, title: str, prefix: str) -> Collection:
    index = f"https://u-go.net/gamerecords{name.removeprefix('kgs')}/"
    pattern = rf"{prefix}(?P<year>\d{{4}})(?:_(?P<month>0[1-9]|1[0-2]))?-[1-9]\d?-\d{{1,7}}-\.tar\.gz"
    hosts = ("https://dl.u-go.net/", "http://dl.u-go.net/")
    return Collection(
        name, title, "u-go.net", format="SGF in tar.gz", size="not known", terms="with permission of KGS", index=index,
        pattern=pattern, cite="KGS Go Server", hosts=hosts,
    )  # fmt: skip


def _katago_run(run: str, title: str, terms: str) -> Collection:
    index = f"{_KATAGO}/{run}/selfplay/index.html"
    return Collection(
        f"katago-{run}", title, "KataGo", format="SGF, npz in zip", size="not known", terms=terms, index=index,
        pattern=_RUN_PATTERN, cite=_KATAGO_PAPER, limit=16 * _GIB,
    )  # fmt: skip


_KATA1 = "DISCLAIMER.txt at katagoarchive.org/kata1"

_RELEASE = "https://github.com/lightvector/KataGo/releases/download"
_MEDIA = "https://media.katagotraining.org/uploaded/networks/models/kata1"


def _net(folder: str, name: str, sha256: str = "", size: int | None = None) -> ListedFile:
    checksum = sha256 and f"sha256:{sha256}"
    return ListedFile(name, "", f"{folder}/{name}", size, exact=size is not None, checksum=checksum)


_NETS = (
    _net(
        f"{_RELEASE}/v1.15.0", "b18c384nbt-humanv0.bin.gz",
        "637746e44f0efe00ad1245a50aa9bbf0716efe364c43965ead97bd6835d84ab5", 99_066_230,
    ),
    _net(
        f"{_RELEASE}/v1.17.1", "b10c384h6nbttflrs.bin.gz",
        "0ba27eced5180b3e3d0b898b280c541112989765e789d1eb6cd0d31b2b2c1229", 38_245_488,
    ),
    _net(f"{_RELEASE}/v1.17.1", "b10c512h8nbt3tflrs-fson-silu-rsnh.bin.gz"),
    _net(
        _MEDIA, "kata1-b6c96-s175395328-d26788732.txt.gz",
        "48d6754de3c4754f95bf6a5ca40957a49e5e915aaaeede133a17b9ccf8fa5fcb", 4_967_720,
    ),
    _net(
        _MEDIA, "kata1-b10c128-s1141046784-d204142634.txt.gz",
        "3d8a24697ba25fe4da39af4c2b6bd405907b0ad8295322f5a550fa2d8fe4a2f4", 14_466_254,
    ),
    _net(
        _MEDIA, "kata1-b18c384nbt-s9996604416-d4316597426.bin.gz",
        "9d7a6afed8ff5b74894727e156f04f0cd36060a24824892008fbb6e0cba51f1d",
    ),
    _net(
        _MEDIA, "kata1-b28c512nbt-adam-s11165M-d5387M.bin.gz",
        "798da8fe3e9819f09535240b1bc29cb3047a4fa981433c56c491e57007a3d3f0",
    ),
    _net(
        f"{_RELEASE}/v1.4.5", "g170e-b20c256x2-s5303129600-d1228401921.bin.gz",
        "7c8a84ed9ee737e9c7e741a08bf242d63db37b648e7f64942f3a8b1b5101e7c2",
    ),
    _net(
        f"{_RELEASE}/v1.4.5", "g170-b30c320x2-s4824661760-d1229536699.bin.gz",
        "1e601446c870228932d44c8ad25fd527cb7dbf0cf13c3536f5c37cff1993fee6",
    ),
    _net(
        f"{_RELEASE}/v1.4.5", "g170-b40c256x2-s5095420928-d1229425124.bin.gz",
        "2b3a78981d2b6b5fae1cf8972e01bf3e48d2b291bc5e52ef41c9b65c53d59a71",
    ),
)  # fmt: skip
"""Nets of KataGo, with the checksums that package managers and others publish, "" where none was found."""

COLLECTIONS = {
    each.name: each
    for each in (
        _kgs("kgs", "7 dan, or both 6 dan", "KGS-"),
        _kgs("kgs-4d", "4 dan and stronger", "KGS4d-"),
        Collection(
            "ogs", "all games, samples", "za3k.com", "JSON in gz", "56 M games",
            "redistributed with permission", "https://za3k.com/ogs/", r"[\w.-]+\.(?:json|jsonl|tar)\.gz",
            "online-go.com", limit=128 * _GIB,
        ),
        Collection(
            "fox", "games by rank", "featurecat", "SGF in 7z", "21.1 M games", "GPL-3.0 (LICENSE.txt)", _FOX,
            r"[\w-]+\.7z(?:\.\d{3})?",
        ),
        Collection(
            "tygem", "9 dan games by month", "yenw", "TYGEM in zip", "1.5 M games", "not stated", _YENW,
            r"(?:Kifu)?(?P<year>\d{4})(?:-(?P<month>\d\d))?\.zip", folder="TYGEM",
        ),
        Collection(
            "tom", "9 dan games by month", "yenw", "TYGEM", "50,956 games", "not stated", _YENW,
            r"(?P<year>\d{4})-(?P<month>\d\d)|Kifu\.index", folder="Tom",
        ),
        Collection(
            "professional", "games of 1940-2017", "yenw", "SGF in zip", "73,522 games",
            "not stated", _YENW, r"[\w+-]+\.zip", folder="Professional",
        ),
        Collection(
            "leela-zero", "self-play, matches", "sjeng.org", "SGF in xz", "2.9 GB", "not stated",
            "https://sjeng.org/zero/", r"[\w.-]+\.sgf\.xz", "Leela Zero", limit=16 * _GIB,
        ),
        Collection(
            "katago-kata1", "self-play by day", "KataGo", "SGF in tar.bz2", "not known", _KATA1,
            f"{_KATAGO}/kata1/traininggames/index.html", rf"{_DAY}sgfs\.tar\.bz2", _KATAGO_PAPER, limit=16 * _GIB,
        ),
        Collection(
            "katago-ratings", "rating games by day", "KataGo", "SGF in tar.bz2", "not known", _KATA1,
            f"{_KATAGO}/kata1/ratinggames/index.html", rf"{_DAY}rating\.tar\.bz2", _KATAGO_PAPER, limit=16 * _GIB,
        ),
        _katago_run("g170", "self-play, to 2020", "not stated"),
        _katago_run("g104", "self-play, June 2019", "public domain (README.txt)"),
        _katago_run("g65", "self-play, Feb. 2019", "not stated"),
        Collection(
            "katago-nets", "networks", "KataGo", "bin.gz, txt.gz", "10 nets",
            "katagotraining.org/network_license; g170: CC0", "https://katagotraining.org/networks/",
            r"[\w.-]+\.(?:bin|txt)\.gz", _KATAGO_PAPER, hosts=("https://media.katagotraining.org/",), files=_NETS,
        ),
    )
}  # fmt: skip
"""All collections by name."""


def find_collection(name: str) -> Collection | None:
    """Return the collection of a file by its name, or None if the name may be that of any other file."""
    telling = [each for each in COLLECTIONS.values() if "<year>" in each.pattern or each.name == "fox"]
    file = name.rpartition("/")[2]
    return next((collection for collection in telling if re.fullmatch(collection.pattern, file, re.ASCII)), None)


LISTING_LIMIT = 8 << 20
"""Largest size of an index in bytes."""

FILE_LIMIT = 20_000
"""Largest number of files of a collection."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,150}")
_SUMS = re.compile(r"(?:SHA256SUMS?|sha256sums?)(?:\.txt)?")
_SUM_LINE = re.compile(r"^([0-9a-fA-F]{64}) [ *](?:\./)?([^\s/]{1,151})\r?$", re.MULTILINE)
_NUMBER = r"(\d{1,15}(?:\.\d{1,3})?)\s?([KMGT]?)(?:i?B)?"
# `tree -H` writes the size in brackets before a link, u-go.net in the cell before it; servers write it after the time,
# and people in parentheses.
_SIZE_BEFORE = re.compile(rf"\[\s*{_NUMBER}\s*\]\s*$")
_SIZE_CELL = re.compile(rf">\s*{_NUMBER}\s*</td>\s*<td[^<>]*>\s*$")
_SIZE_AFTER = re.compile(rf"(?:\d\d:\d\d(?::\d\d)?\s+|\(\s*){_NUMBER}(?=[\s)]|$)")
_TAG = re.compile(r"<[^<>]{0,200}>|&nbsp;|\xa0")
_NEAR = 300
"""Characters of a page beside a link that may hold its size."""

_API = re.compile(r"https://api\.github\.com/repos/([\w.-]+/[\w.-]+)/git/trees/([\w.-]+)(?:\?.*)?")
_GIT_SHA = re.compile(r"[0-9a-f]{40}")


def parse_listing(
    page: bytes, base: str, collection: Collection, *, is_local: bool = False
) -> tuple[list[ListedFile], str]:
    """Return the files of a collection in the order of the index, and the address of a file with their SHA-256 sums.

    Of several files with one name, the first is returned; without sums, the address is "". Raises SourceError if the
    index is too large, damaged, or lists no file of the collection. is_local: True for an index that the user gives as
    a file, whose links may lead anywhere.
    """
    if len(page) > LISTING_LIMIT:
        raise SourceError(f"the index has more than {LISTING_LIMIT:,} bytes")
    listed: dict[str, ListedFile] = {}
    sums = ""
    is_json = page.lstrip()[:1] in (b"{", b"[")
    for file in _tree_files(page, base) if is_json else _page_files(page, base, collection, is_local):
        match = re.fullmatch(collection.pattern, file.name, re.ASCII)
        inside = not collection.folder or f"{file.folder}/".startswith(f"{collection.folder}/")
        if match and inside and file.name not in listed:
            listed[file.name] = replace(file, date=_date(match.groupdict()))
            if len(listed) > FILE_LIMIT:
                raise SourceError(f"the index lists more than {FILE_LIMIT:,} files")
        elif not sums and _SUMS.fullmatch(file.name):
            sums = file.link
    if not listed:
        raise SourceError(f"the index lists no file of {collection.name}")
    return list(listed.values()), sums


def add_checksums(files: list[ListedFile], sums: bytes) -> list[ListedFile]:
    """Return the files with their checksums of a file of SHA-256 sums, as `sha256sum` writes it."""
    by_name = {name: digest.lower() for digest, name in _SUM_LINE.findall(sums.decode("utf-8", "replace"))}
    return [replace(f, checksum=f"sha256:{by_name[f.name]}") if f.name in by_name else f for f in files]


def _date(groups: dict[str, str | None]) -> str:
    return "-".join(part for part in [groups.get("year"), groups.get("month"), groups.get("day")] if part)


def _page_files(page: bytes, base: str, collection: Collection, is_local: bool) -> Iterator[ListedFile]:
    """Yield the files that an HTML page links below its own address, or below the collection's further hosts."""
    from kifu.download import DownloadError, absolute_url  # not for the list of collections
    from kifu.recipes.kgs import find_links  # it loads the readers of archives

    roots = [_root(urljoin(base, ".")), *map(_root, collection.hosts)]
    names = re.compile(f"{collection.pattern}|{_SUMS.pattern}", re.ASCII)
    for href, before, after in find_links(page.decode("utf-8", "replace")):
        name = unquote(re.split("[?#]", href, maxsplit=1)[0].rpartition("/")[2])
        if not names.fullmatch(name):  # before the address is split, which takes longer
            continue
        with suppress(DownloadError, ValueError):
            link = absolute_url(base, href).partition("#")[0]
            path = _root(link)
            root = next((root for root in roots if path.startswith(root)), None)
            if root is None and is_local:
                root = _root(urljoin(link, "."))
            file = None if root is None else _file(unquote(path[len(root) :]), link)
            if file:
                size, exact = _size(before, after)
                yield replace(file, size=size, exact=exact)


def _root(url: str) -> str:
    """Return host, port and path of an address; an http link below https is refused later, with a reason."""
    address = urlsplit(url)
    return f"{address.hostname}:{address.port or ''}{address.path or '/'}"


def _file(path: str, link: str) -> ListedFile | None:
    """Return the file at a path below the index, or None unless all parts of the path are plain names."""
    *folders, name = path.split("/")
    if len(path) > 500 or not _NAME.fullmatch(name) or not all(map(_NAME.fullmatch, folders)):
        return None
    return ListedFile(name, "/".join(folders), link)


def _size(before: str, after: str) -> tuple[int | None, bool]:
    before, after = before[-_NEAR:], after[:_NEAR]
    match = (
        _SIZE_CELL.search(before)
        or _SIZE_BEFORE.search(_TAG.sub(" ", before))
        or _SIZE_AFTER.search(_TAG.sub(" ", after))
    )
    if not match:
        return None, False
    number, unit = match.groups()
    return int(float(number) * 1024 ** " KMGT".index(unit or " ")), not unit and "." not in number


def _tree_files(page: bytes, base: str) -> Iterator[ListedFile]:
    """Yield the files of a GitHub tree: below the raw host if it comes from GitHub's API, else below its address."""
    try:
        tree = json.loads(page)
        entries = tree["tree"]
        is_truncated = tree.get("truncated", False)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise SourceError("the index is not the JSON of a GitHub tree") from None
    if not isinstance(entries, list) or is_truncated is not False:
        raise SourceError("the index is not the complete JSON of a GitHub tree")
    api = _API.fullmatch(base)
    root = f"https://raw.githubusercontent.com/{api[1]}/{api[2]}/" if api else base
    yield from filter(None, (_tree_file(entry, root) for entry in entries))


def _tree_file(entry: Any, root: str) -> ListedFile | None:
    if not isinstance(entry, dict) or entry.get("type") != "blob" or entry.get("mode") == "120000":
        return None
    path, size, sha = (entry.get(key) for key in ("path", "size", "sha"))
    if not (isinstance(path, str) and isinstance(sha, str) and _GIT_SHA.fullmatch(sha)):
        return None
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 50:
        return None
    file = _file(path, urljoin(root, quote(path)))
    return file and replace(file, size=size, exact=True, checksum=f"git:{sha}")


_DATE = r"\d{4}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?)?"
_DATES = re.compile(rf"\s*(?:(\d{{4}})\s*-\s*(\d{{4}})|({_DATE})(?:\s*\.\.\s*({_DATE}))?)\s*", re.ASCII)

DateRange = tuple[str, str]
"""First and last date: years, months or days, such as ("2001", "2014-06")."""


@dataclass(frozen=True, slots=True)
class FileChoice:
    """The files of a collection to list or fetch: those with one of the names and one of the dates.

    Attributes:
        names: Names of files or of their folders in the index, also without extensions, or patterns such as "9d*";
            empty for all. Upper and lower case are the same.
        dates: Empty for all. Files without a date in their names are indexes of the others, and belong to all dates.
    """

    names: Sequence[str] = ()
    dates: Sequence[DateRange] = ()

    def __bool__(self) -> bool:
        return bool(self.names or self.dates)


def parse_dates(text: str) -> list[DateRange]:
    """Parse dates and ranges such as "2001-2014,2016-03,2020-12-08..2021". Raises RecipeError for anything else."""
    ranges = []
    for piece in text.split(","):
        match = _DATES.fullmatch(piece)
        first, last = (match[1] or match[3], match[2] or match[4] or match[3]) if match else ("1", "0")
        if not _overlaps(first, (first, last)):
            raise RecipeError(
                f"{piece.strip()!r} in {text!r} is not a year, month, day or range, "
                "as in 2001-2014,2016-03,2020-12-08..2021-01-31"
            )
        ranges.append((first, last))
    return ranges


def choose_files(collection: str, files: Iterable[ListedFile], choice: FileChoice) -> list[ListedFile]:
    """Return the chosen files in their order.

    Raises SourceError if a name is not that of any file, or no file is of the dates, and RecipeError if none has one.
    """
    files = list(files)
    for name in choice.names:
        if not any(_is_named(file, name) for file in files):
            raise SourceError(f"{collection} has no file {name!r}; see kifu fetch {collection} --list")
    chosen = [file for file in files if not choice.names or any(_is_named(file, name) for name in choice.names)]
    if not choice.dates:
        return chosen
    dates = sorted(file.date for file in files if file.date)
    if not dates:
        raise RecipeError(f"the files of {collection} have no dates in their names; choose them by name")
    chosen = [file for file in chosen if not file.date or any(_overlaps(file.date, span) for span in choice.dates)]
    if not any(file.date for file in chosen):
        ranges = ", ".join("..".join(dict.fromkeys(span)) for span in choice.dates)
        raise SourceError(f"{collection} has no such file of {ranges}, but files from {dates[0]} to {dates[-1]}")
    return chosen


def _is_named(file: ListedFile, pattern: str) -> bool:
    values = {file.name, file.name.partition(".")[0], file.folder, *file.folder.split("/")} - {""}
    return any(fnmatchcase(value.casefold(), pattern.casefold()) for value in values)


def _overlaps(date: str, dates: DateRange) -> bool:
    first, last = dates
    return date[: len(first)] >= first[: len(date)] and date[: len(last)] <= last[: len(date)]
