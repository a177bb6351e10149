"""The archives of KGS: their names, and the index page that lists them.

An archive is named KGS-<year>[_<month>]-<board size>-<number of games>-, and the page links each as .zip, .tar.gz and
.tar.bz2. The 2015 program drew games in the order of that page, and hashed the names of the .zip files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import unescape

from kifu.errors import SourceError
from kifu.files import read_small
from kifu.records.containers import containers
from kifu.records.paths import AnyPath

PAGE_LIMIT = 4 << 20
"""Maximum size of an index page in bytes. The one of 2014, with 91 archives, has 53,898."""

_NAME = re.compile(
    r"(KGS-([0-9]{4})(?:_(0[1-9]|1[0-2]))?-([1-9][0-9]?)-([0-9]{1,7})-)\.(?:zip|tar\.gz|tar\.bz2|tgz|tbz2)"
)
# Python's HTMLParser takes quadratic time on some pages (see CPython issue 135462), and 30 us for an anchor.
_ANCHOR = re.compile(r"<a\s[^<>]{1,1000}>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""\s([^\s"'=<>/]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive of KGS, by its name.

    Attributes:
        name: The name of the zip file, "KGS-2006-19-10388-.zip".
        month: 1 to 12, or None if the archive holds a whole year.
        size: Board size, always 19 so far.
    """

    name: str
    year: int
    month: int | None
    size: int
    games: int

    @property
    def stem(self) -> str:
        """The name without its extension, "KGS-2006-19-10388-"."""
        return self.name.removesuffix(".zip")


def parse_archive_name(name: str) -> Archive | None:
    """Parse a file name or path with one of the extensions .zip, .tar.gz, .tar.bz2, .tgz, .tbz2.

    Returns:
        The archive, or None for any other name.
    """
    match = _NAME.fullmatch(re.split(r"[/\\]", name)[-1])
    if not match:
        return None
    stem, year, month, size, games = match.groups()
    return Archive(f"{stem}.zip", int(year), int(month) if month else None, int(size), int(games))


def _without_comments(page: str) -> str:
    kept, at = [], 0
    while (begin := page.find("<!--", at)) >= 0:
        kept.append(page[at:begin])
        end = page.find("-->", begin + 2)  # <!--> is a whole comment
        if end < 0:
            return "".join(kept)
        at = end + 3
    return "".join([*kept, page[at:]])


def find_links(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield the href of each anchor of an HTML page, and the texts between it and its neighbours."""
    page = _without_comments(page)
    href, before, end = "", "", 0
    for tag in _ANCHOR.finditer(page):
        between = page[end : tag.start()]
        if href:
            yield href, before, between
        href, before, end = _href(tag[0]), between, tag.end()
    if href:
        yield href, before, page[end:]


def _href(tag: str) -> str:
    """Return the first href of a tag that is not empty, or ""."""
    for name, *values in _ATTRIBUTE.findall(tag):
        if name.lower() == "href" and any(values):
            return unescape("".join(values)).strip()
    return ""


def parse_index(page: bytes) -> list[Archive]:
    """Return the archives of an index page (HTML), in the order of their first links.

    Other links are ignored.

    Raises:
        SourceError: The page has no link to an archive, or is larger than `PAGE_LIMIT`.
    """
    if len(page) > PAGE_LIMIT:
        raise SourceError(f"the index page has more than {PAGE_LIMIT:,} bytes")
    named = (parse_archive_name(href) for href, _, _ in find_links(page.decode("utf-8", "replace")))
    archives = list(dict.fromkeys(archive for archive in named if archive))
    if not archives:
        raise SourceError("the index page has no link to an archive with a name like KGS-2006-19-10388-.zip")
    return archives


def order_as_page(archives: Iterable[Archive]) -> list[Archive]:
    """Return the archives newest first, as on the page; a whole year follows the months of that year."""
    return sorted(archives, key=lambda archive: (archive.year, archive.month or 0), reverse=True)


def find_archives(sources: Iterable[str | os.PathLike[str]]) -> dict[Archive, AnyPath]:
    """Return the archives of KGS among the sources and in directories among them, with the first file of each.

    Raises:
        SourceError: No archive was found, or a source does not exist.
    """
    found: dict[Archive, AnyPath] = {}
    for path in containers(sources):
        archive = parse_archive_name(path.name)
        if archive is not None:
            found.setdefault(archive, path)
    if not found:
        raise SourceError("no archive among the sources is named as KGS does, like KGS-2006-19-10388-.tar.gz")
    return found


def read_index(index: str | os.PathLike[str] | None, found: Iterable[Archive]) -> list[Archive]:
    """Return the archives of an index page (an HTML file) in its order, by default those found, newest first.

    Raises:
        SourceError: The page cannot be read, or has no link to an archive.
    """
    if index is None:
        return order_as_page(found)
    try:
        page = read_small(index, PAGE_LIMIT)
    except OSError as error:
        raise SourceError(f"cannot read the index page {index}: {error.strerror}") from None
    return parse_index(page)
